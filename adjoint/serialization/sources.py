"""Reading and writing files: bytes are read on demand or mapped; a file is replaced completely or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import pickle
import secrets
import socket
import stat
import time
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["FileFormatError", "Source", "opened", "replacing"]


class FileFormatError(pickle.UnpicklingError, RuntimeError):
    """A file is damaged, of an unknown kind, or requests what loading never does; nothing of it was run.

    It is both of what ``torch.load`` raises for such files, `pickle.UnpicklingError` and `RuntimeError`.
    """


_ALIGNMENT = 16  # bytes of the widest element


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
        """Return `size` bytes as a new array, or as a window of the mapped file that is copied on write."""
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

    def aligned_at(self, offset: int, size: int) -> Any:
        """Return `size` bytes as an array aligned for every dtype; a copy if necessary."""
        array = self.array_at(offset, size)
        return array.copy() if array.size and array.ctypes.data % _ALIGNMENT else array

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


_SUFFIX = ".partial"


@contextlib.contextmanager
def replacing(f: Any) -> Iterator[IO[bytes]]:
    """Open `f` for writing; a path gets its new content in one step at the end, a file object as it is written."""
    if not isinstance(f, str | os.PathLike):
        if not hasattr(f, "write"):
            raise AttributeError(
                f"expected 'f' to be string, path, or a file-like object with a 'write' attribute, got "
                f"{type(f).__name__}"
            )
        yield f
        return
    path = os.path.realpath(f)  # what a link points to is replaced, not the link
    if os.path.exists(path) and not os.path.isfile(path):  # a pipe, /dev/stdout: nothing to replace
        with open(path, "wb") as stream:
            yield stream
        return
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {folder} does not exist.")
    _sweep(folder, os.path.basename(path))
    with _partial(path) as stream:
        yield stream
    _sync_folder(folder)


@contextlib.contextmanager
def _partial(path: str) -> Iterator[IO[bytes]]:
    """Open a file beside `path` that takes its place when the block ends well, and goes when it does not.

    Until then it has no name, where the system can do that, so that none finds it and a killed process leaves nothing
    behind. Its name is not to be guessed, and it is never readable by more than the file that it replaces.
    """
    folder, name = os.path.split(path)
    beside = os.path.join(folder, f"{_prefix(name)}{os.getpid()}.{secrets.token_hex(8)}{_SUFFIX}")
    old = None
    with contextlib.suppress(FileNotFoundError):
        old = os.stat(path)
    # Of a file that is replaced, the new one gets the rights once it also has the owner and group.
    mode = 0o666 if old is None else stat.S_IMODE(old.st_mode) & 0o700
    try:
        descriptor, named = _created(beside, mode)
        with os.fdopen(descriptor, "wb") as stream:
            _lock(descriptor)
            if old is not None:
                _take_over(descriptor, beside, old)
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
            if not named:
                # The descriptor makes Python call linkat(), which follows the link; the path is absolute.
                os.link(f"/proc/self/fd/{stream.fileno()}", beside, src_dir_fd=stream.fileno(), follow_symlinks=True)
        os.replace(beside, path)
    except BaseException as error:
        planted = isinstance(error, FileExistsError) and beside in (error.filename, error.filename2)
        if not planted:  # else it is not ours
            with contextlib.suppress(OSError):
                os.unlink(beside)
        raise


def _take_over(descriptor: int, path: str, old: os.stat_result) -> None:
    """Give a new file the owner, group and rights of an old one; where the group is another, it gets no rights."""
    mode = stat.S_IMODE(old.st_mode)
    if hasattr(os, "fchown"):
        for owner, group in ((old.st_uid, -1), (-1, old.st_gid)):
            with contextlib.suppress(OSError):  # only the superuser gives files away
                os.fchown(descriptor, owner, group)
        if os.fstat(descriptor).st_gid != old.st_gid:
            mode &= ~0o070
    os.chmod(descriptor if os.chmod in os.supports_fd else path, mode)


def _created(path: str, mode: int) -> tuple[int, bool]:
    """Return a descriptor of a new file, without a name if possible, else at `path`; and whether it has its name."""
    unnamed = getattr(os, "O_TMPFILE", None)
    if unnamed is not None and os.path.exists("/proc/self/fd"):
        with contextlib.suppress(OSError):  # not every file system can
            return os.open(os.path.dirname(path), unnamed | os.O_WRONLY | os.O_CLOEXEC, mode), False
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
    try:
        return os.open(path, flags, mode), True
    except PermissionError as error:
        said = f"{error.strerror}: a file is replaced by a new one, for which its folder must be writable"
        raise PermissionError(error.errno, said, os.path.dirname(path)) from None


def _prefix(name: str) -> str:
    """Return how the names of the files begin that shall replace the one of this name; short, whatever its length."""
    digest = hashlib.blake2b(os.fsencode(name), digest_size=8).hexdigest()
    return f".{digest}.{socket.gethostname()[:60]}."


def _sync_folder(folder: str) -> None:
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # some network file systems cannot
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sweep(folder: str, name: str) -> None:
    """Remove what processes of this machine left behind that died while they saved the same file."""
    prefix = _prefix(name)
    with contextlib.suppress(OSError):
        for entry in os.listdir(folder):
            if entry.startswith(prefix) and entry.endswith(_SUFFIX):
                process, path = entry[len(prefix) :].split(".")[0], os.path.join(folder, entry)
                if process.isdigit() and (not _alive(int(process)) or _abandoned(path)):
                    os.unlink(path)


def _lock(descriptor: int) -> bool:
    """Lock a file as long as it is open; return whether that could be done."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:  # another process has, or the file system cannot
        return False
    return True


def _abandoned(path: str) -> bool:
    """Return whether a file has no writer any more, though a process has the number of the one that wrote it.

    In a container every program may have the number 1.
    """
    if time.time() - os.lstat(path).st_mtime < 60:  # perhaps just made, and not locked yet
        return False
    descriptor = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    try:
        return _lock(descriptor)
    finally:
        os.close(descriptor)


def _alive(process: int) -> bool:
    if os.name != "posix":
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
