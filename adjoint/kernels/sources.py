"""Texts of loops that are compiled, and where their machine code is kept.

Numba keeps machine code beside the file that a function stands in, so each text becomes a file in a folder that only
the user may write to (``ADJOINT_CACHE_DIR``, else the user's cache).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import sys
import tempfile
import threading
import warnings
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any


def folder() -> Path | None:
    """Return the folder in which compiled loops are kept, or None if there is no safe one."""
    base = Path(
        os.environ.get("ADJOINT_CACHE_DIR")
        or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "adjoint")
    )
    path = base / "loops"
    try:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
        why = _unsafe(path)
    except OSError as error:
        why = str(error)
    if not why:
        return path
    warnings.warn(f"compiled loops are not kept on disk: {path}: {why}", UserWarning, stacklevel=2)
    return None


def _unsafe(path: Path) -> str:
    """Return why code in a folder is not to be run, or nothing."""
    found, above = path.lstat(), path.parent.stat()
    if not stat.S_ISDIR(found.st_mode):
        return "it is no folder, or a link to one"
    if found.st_uid != os.getuid():
        return "it belongs to another user"
    if found.st_mode & 0o022:
        return "others may write to it"
    if above.st_mode & 0o022 and not above.st_mode & stat.S_ISVTX:
        return "others may put another folder in its place"
    return ""


_INLINED = ("mathematics.py", "loops.py", "moves.py", "addresses.py")


@cache
def inlined() -> bytes:
    """Return the text of the functions that machine code has inside: it is another where these are others."""
    return b"".join((Path(__file__).parent / name).read_bytes() for name in _INLINED)


class Loops:
    """Loaded loops, by their source; compiled once per process, and once per machine where the disk keeps them."""

    def __init__(self, head: str) -> None:
        # What stands before each text; {cache} in it, or in the text, becomes whether the disk keeps the code.
        self.head = head
        self.loaded: dict[str, Any] = {}
        self.lock = threading.Lock()

    def load(self, source: str) -> Any:
        """Return the compiled function whose source this is."""
        with self.lock:
            found = self.loaded.get(source)
            if found is None:
                found = self.loaded[source] = self._load(source)
            return found

    def _load(self, source: str) -> Any:
        place = folder()
        text = (self.head + source).replace("{cache}", str(place is not None))
        name = f"adjoint_loop_{hashlib.sha256(text.encode() + inlined()).hexdigest()[:24]}"
        module = ModuleType(name)
        path = (place or Path("/none")) / f"{name}.py"
        if place is not None:
            _provide(path, text)  # Numba wants to see it; what runs is our own text, whatever a file says
        module.__file__ = str(path)
        sys.modules[name] = module  # Numba looks the function's module up when it reads its cache
        exec(compile(text, str(path), "exec"), module.__dict__)  # noqa: S102 - written by the caller
        if place is not None:
            _keep_apart(module.kernel)
        return module.kernel


@cache
def _entries() -> type:
    from numba.core.caching import IndexDataCacheFile

    class Entries(IndexDataCacheFile):  # type: ignore[misc]
        """Machine code on disk: a file for each kind of arguments, with the sum of its bytes at the end.

        Numba's own files are an index and numbered data, which several processes can mix up, and of which a broken one
        raises. Reading and writing the code itself stays its business.
        """

        def _name(self, key: Any) -> str:
            told = hashlib.sha256(repr((self._version, sys.version, key)).encode()).hexdigest()
            return str(self._data_name_pattern.format(number=int(told[:15], 16)))

        def save(self, key: Any, data: Any) -> None:
            """Keep machine code."""
            content = self._dump(data)
            replace_file(Path(self._data_path(self._name(key))), content + hashlib.sha256(content).digest())

        def load(self, key: Any) -> Any:
            """Return machine code, or None where there is none that is whole."""
            path = Path(self._data_path(self._name(key)))
            try:
                found = path.read_bytes()
            except OSError:
                return None
            if hashlib.sha256(found[:-32]).digest() == found[-32:]:
                with contextlib.suppress(Exception):  # of another version of something
                    return self._load_data(path.name)
            warnings.warn(f"compiled anew: {path} is not whole", UserWarning, stacklevel=2)
            return None

    return Entries


def _keep_apart(function: Any) -> None:
    """Let each kind of arguments have a file of its own for a function's machine code, where this Numba lets us."""
    kept: Any = getattr(function, "_cache", None)
    if hasattr(kept, "_cache_file"):
        before = kept._cache_file
        pattern = before._data_name_pattern.partition(".{")[0]
        kept._cache_file = _entries()(before._cache_path, pattern, before._source_stamp)


def _provide(path: Path, text: str) -> None:
    """Write a file unless it is there and says just this."""
    try:
        same = path.read_bytes() == text.encode()
    except OSError:
        same = False
    if not same:
        replace_file(path, text.encode())


def replace_file(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
