"""Files that are replaced whole or not at all: whenever a program dies, the old file or the new one is there."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Iterator
from itertools import count
from typing import IO, Any

__all__ = ["replacing"]

_numbers = count()
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
    """Open a file beside `path` that takes its place when the block ends well, and goes when it does not."""
    folder, name = os.path.split(path)
    beside = os.path.join(folder, f".{name}.{socket.gethostname()}.{os.getpid()}.{next(_numbers)}{_SUFFIX}")
    try:
        with open(beside, "wb") as stream:
            with contextlib.suppress(FileNotFoundError):
                os.chmod(beside, stat.S_IMODE(os.stat(path).st_mode))
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(beside, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(beside)
        raise


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
    prefix = f".{name}.{socket.gethostname()}."
    with contextlib.suppress(OSError):
        for entry in os.listdir(folder):
            if entry.startswith(prefix) and entry.endswith(_SUFFIX):
                process = entry[len(prefix) :].split(".")[0]
                if process.isdigit() and not _alive(int(process)):
                    os.unlink(os.path.join(folder, entry))


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
