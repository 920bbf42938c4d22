"""How a worker's batches reach the program: small ones as they are, the arrays of large ones through shared memory.

Both ends are processes of one program, so that pickles between them bring nothing that was not there before.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import shutil
import tempfile
from itertools import count
from multiprocessing.reduction import ForkingPickler
from typing import Any

__all__ = ["Folder", "packed", "unpacked"]

_LARGE = 1 << 16  # bytes of arrays from which on a file in shared memory is worth its two system calls
_numbers = count()


class Folder:
    """Where the files in shared memory are made: in memory where the system has such a place."""

    def __init__(self) -> None:
        memory = "/dev/shm"
        base = memory if os.path.isdir(memory) and os.access(memory, os.W_OK) else None
        self.path = tempfile.mkdtemp(prefix="adjoint-", dir=base)

    def remove(self) -> None:
        """Remove the folder and what was never fetched from it."""
        shutil.rmtree(self.path, ignore_errors=True)


def packed(value: Any, folder: str) -> tuple[bytes, str | None, list[int]]:
    """Return a value as bytes to send, the file that has its arrays, and how long each of them is."""
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    sizes = [view.nbytes for view in views]
    if sum(sizes) < _LARGE:
        return pickle.dumps(value, protocol=5), None, []
    path = os.path.join(folder, f"{os.getpid()}-{next(_numbers)}")
    with open(path, "wb") as file:
        for view in views:
            file.write(view)
            file.write(bytes(-view.nbytes % 64))  # every array starts at a cache line
    return data, path, sizes


def unpacked(data: bytes, path: str | None, sizes: list[int]) -> Any:
    """Return the value; its arrays look into the shared memory, which goes when the last of them does."""
    if path is None:
        return ForkingPickler.loads(data)
    with open(path, "r+b") as file:
        memory = memoryview(mmap.mmap(file.fileno(), 0))
    with contextlib.suppress(OSError):  # where files in use cannot be removed, the folder's end does it
        os.unlink(path)
    at, buffers = 0, []
    for size in sizes:
        buffers.append(memory[at : at + size])
        at += size + -size % 64
    return ForkingPickler.loads(data, buffers=buffers)
