"""Machine code on disk: a folder that only the user can write to, and a file for each entry.

A user who can write here can run code as the owner, so nothing is read that another user could have written: not in a
folder that another owns, may write to or can replace (up to the root, or to the user's home), and no file that is a
link, is another's or is open to others. The last bytes of a file are the checksum of its key and its content: an
entry that is cut, changed or put in another's place is compiled anew. Nothing here raises; what is wrong is said once.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
import warnings
from pathlib import Path

_SUM = hashlib.sha256().digest_size
_told: set[str] = set()


def folder() -> Path | None:
    """Return the folder in which compiled loops are stored, or None if there is no safe one."""
    home = os.path.expanduser("~")
    base = os.environ.get("ADJOINT_CACHE_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache"), "adjoint"
    )
    # Links on the way are followed here, once: they may be turned elsewhere later.
    path = Path(os.path.realpath(base), "loops")
    try:
        _make(path)
        why = _unsafe(path, Path(os.path.realpath(home)))
    except OSError as error:
        why = str(error)
    if not why:
        return path
    _warn(str(path), f"compiled loops are not cached on disk: {path}: {why}")
    return None


def _make(path: Path) -> None:
    """Make a folder and those above it, whatever the umask is, for the user alone."""
    missing = []
    while not os.path.lexists(path):
        missing.append(path)
        path = path.parent
    for each in reversed(missing):
        with contextlib.suppress(FileExistsError):  # another process was faster
            each.mkdir(mode=0o700)


def _unsafe(path: Path, home: Path) -> str:
    """Return why code in a folder is not to be run, or nothing."""
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode):
        return "it is no folder, or a link to one"
    if not hasattr(os, "geteuid"):  # Windows: the user's profile is the user's
        return ""
    if found.st_uid != os.geteuid():
        return "it belongs to another user"
    if found.st_mode & 0o022:
        return "others may write to it"
    for above in path.parents:
        found = above.lstat()
        if found.st_uid not in (0, os.geteuid()):
            return f"{above}, above it, belongs to another user"
        if found.st_mode & 0o022 and not found.st_mode & stat.S_ISVTX:
            return f"others may write to {above}, and so put another folder in its place"
        if above == home:
            break
    return ""


def read(path: Path, key: bytes) -> bytes | None:
    """Return what was written under a key; None where there is nothing, or something else."""
    try:
        found, why = _content(path)
    except FileNotFoundError:
        return None
    except (OSError, MemoryError) as error:
        found, why = b"", str(error)
    if not why:
        if _sum(key, found[:-_SUM]) == found[-_SUM:]:
            return found[:-_SUM]
        why = "it is not whole, or another's"
    discard(path, why)
    return None


def discard(path: Path, why: str) -> None:
    """Remove an entry that cannot be used, and say so."""
    with contextlib.suppress(OSError):
        path.rmdir() if path.is_dir() and not path.is_symlink() else path.unlink()
    _warn(str(path.parent), f"compiled anew: {path}: {why} (said once; there may be others)")


def _content(path: Path) -> tuple[bytes, str]:
    """Return what a file holds, or why it is not to be looked at."""
    # A pipe must not make us wait for a writer.
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    handle = os.open(path, flags)
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            return b"", "it is no file"
        if hasattr(os, "geteuid"):
            if found.st_uid != os.geteuid():
                return b"", "it belongs to another user"
            if found.st_mode & 0o022:
                return b"", "others may write to it"
        return file.read(), ""


def write(path: Path, key: bytes, content: bytes) -> None:
    """Write an entry whole or not at all; where that cannot be, say so."""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")  # O_EXCL, O_NOFOLLOW, 0600
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.write(_sum(key, content))
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        _warn(str(path.parent), f"compiled loops are not cached on disk: {error}")


def _sum(key: bytes, content: bytes) -> bytes:
    return hashlib.sha256(hashlib.sha256(key).digest() + content).digest()


def _warn(about: str, text: str) -> None:
    """Warn, once in a process for each folder."""
    if about not in _told:
        _told.add(about)
        warnings.warn(text, UserWarning, stacklevel=2)
