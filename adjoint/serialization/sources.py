"""Where the bytes of a file come from: read when asked for, or mapped into memory."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

from .failures import FileFormatError

__all__ = ["Source", "opened"]


class Source:
    """A file from its current position on: bytes, or arrays of bytes, at an offset."""

    def __init__(self, stream: IO[bytes], mapped: Any = None) -> None:
        self.stream = stream
        self.start = stream.tell() if mapped is None else 0
        stream.seek(0, os.SEEK_END)
        self.size = stream.tell() - self.start
        stream.seek(self.start)
        self._mapped = mapped

    def bytes_at(self, offset: int, size: int) -> bytes:
        """Return `size` bytes."""
        self._check(offset, size)
        self.stream.seek(self.start + offset)
        data = self.stream.read(size)
        if len(data) != size:
            raise FileFormatError(f"the file ended {size - len(data)} bytes early, at offset {offset + len(data)}")
        return data

    def array_at(self, offset: int, size: int) -> Any:
        """Return `size` bytes as an array of their own, or as a window of the mapped file that is copied on write."""
        self._check(offset, size)
        if self._mapped is not None:
            return self._mapped[offset : offset + size]
        if not size:
            return np.empty(0, np.uint8)
        self.stream.seek(self.start + offset)
        if hasattr(self.stream, "readinto"):
            array: Any = np.empty(size, np.uint8)
            if self.stream.readinto(memoryview(array)) == size:  # type: ignore[attr-defined]
                return array
        return np.frombuffer(bytearray(self.bytes_at(offset, size)), np.uint8)

    def _check(self, offset: int, size: int) -> None:
        if offset < 0 or size < 0 or offset + size > self.size:
            raise FileFormatError(
                f"the file is damaged or cut short: bytes {offset} to {offset + size} are wanted, it has {self.size}"
            )


@contextlib.contextmanager
def opened(f: Any, mmap: bool | None = None) -> Iterator[Source]:
    """Open a path or take a file object; `mmap` maps the file, so that only what is touched is read."""
    if isinstance(f, str | os.PathLike):
        with open(f, "rb") as stream:
            usable = mmap and os.fstat(stream.fileno()).st_size > 0
            yield Source(stream, np.memmap(stream, np.uint8, "c").view(np.ndarray) if usable else None)
        return
    if mmap:
        raise ValueError("f must be a file path in order to use the mmap argument")
    if not hasattr(f, "read"):
        raise AttributeError(
            f"'{type(f).__name__}' object has no attribute 'read'. You can only load from a path, or a file that is "
            "seekable; pre-load the data into a buffer like io.BytesIO and try to load from it instead."
        )
    try:
        f.seek(f.tell())
        found = f
    except (AttributeError, io.UnsupportedOperation, OSError):
        found = io.BytesIO(f.read())
    yield Source(found)
