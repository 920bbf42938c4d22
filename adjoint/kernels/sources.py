"""Texts of loops that are compiled, and where their machine code is kept.

Numba keeps machine code beside the file that a function stands in, so each text becomes a file in a folder that only
the user may write to (``ADJOINT_CACHE_DIR``, else the user's cache).
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import stat
import sys
import tempfile
import threading
import warnings
from functools import cache
from pathlib import Path
from typing import Any


def folder() -> Path | None:
    """Return the folder in which compiled loops are kept, or None if there is no safe one."""
    base = os.environ.get("ADJOINT_CACHE_DIR") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "adjoint"
    )
    path = Path(base) / "loops"
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.lstat()
    except OSError as error:
        warnings.warn(f"compiled loops are not kept on disk: {path}: {error}", RuntimeWarning, stacklevel=2)
        return None
    safe = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022
    if not safe:
        warnings.warn(
            f"compiled loops are not kept on disk: {path} belongs to another user or others may write to it",
            RuntimeWarning,
            stacklevel=2,
        )
        return None
    return path


@cache
def _inlined() -> bytes:
    """Return the text of the functions that machine code has inside: it is another where these are others."""
    return b"".join((Path(__file__).parent / name).read_bytes() for name in ("mathematics.py", "crew.py"))


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
        name = f"adjoint_loop_{hashlib.sha256(text.encode() + _inlined()).hexdigest()[:24]}"
        if place is None:
            place = Path(tempfile.mkdtemp(prefix="adjoint-"))
        path = place / f"{name}.py"
        if not path.exists() or path.read_text() != text:
            _replace(path, text)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # Numba looks the function's module up when it reads its cache
        spec.loader.exec_module(module)
        return module.kernel


def _replace(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    try:
        with os.fdopen(handle, "w") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
