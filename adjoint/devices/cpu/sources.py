"""Texts of loops that are compiled, and Numba's compiler with a cache of ours: see disk.py.

No file of Numba's own cache is read or written: it unpickles whatever is in a folder beside a module, and a damaged
file raises. `njit` and `cfunc` here are Numba's, with machine code stored in our folder.
"""

from __future__ import annotations

import hashlib
import pickle
import re
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from ..._typing import Array, Kernel
from .. import forks
from . import disk

_INLINED = ("mathematics.py", "loops.py", "moves.py", "addresses.py")


@cache
def inlined() -> bytes:
    """Return the text of the functions that machine code has inside: it is another where these are others."""
    return b"".join((Path(__file__).parent / name).read_bytes() for name in _INLINED)


class Loops:
    """Loaded loops, by their source; compiled once per process, and once per machine where the disk can store them."""

    def __init__(self, head: str) -> None:
        self.head = head  # what stands before each text
        self.loaded: dict[str, Any] = {}
        self.lock = forks.lock()

    def load(self, source: str) -> Any:
        """Return the compiled function whose source this is."""
        with self.lock:
            found = self.loaded.get(source)
            if found is None:
                found = self.loaded[source] = self._load(source)
            return found

    def _load(self, source: str) -> Kernel:
        text = self.head + source
        name = f"adjoint_loop_{hashlib.sha256(text.encode()).hexdigest()[:24]}"
        module = ModuleType(name)
        module.__dict__["_text"] = text
        sys.modules[name] = module  # Numba looks the function's module up when it unpickles
        exec(compile(text, f"<{name}>", "exec"), module.__dict__)  # noqa: S102 - written by the caller
        return module.kernel


def njit(**options: object) -> Callable[[Any], Any]:
    """Return Numba's decorator of this name, with machine code in our cache."""

    def decorate(function: Kernel) -> Kernel:
        import numba

        made = numba.njit(**options)(function)
        if hasattr(made, "_cache"):  # not where NUMBA_DISABLE_JIT is set
            made._cache = _kept()(function, options)
        return made

    return decorate


def cfunc(signature: Any, **options: object) -> Callable[[Any], Any]:
    """Return Numba's decorator of this name, with machine code in our cache."""

    def decorate(function: Kernel) -> Any:
        from numba.core.ccallback import CFunc
        from numba.core.sigutils import normalize_signature

        made: Any = CFunc(function, normalize_signature(signature), locals={}, options=options)
        made._cache = _kept()(function, options, "callback")
        made.compile()
        return made

    return decorate


@cache
def _kept() -> type:
    import llvmlite  # type: ignore[import-untyped, unused-ignore]
    import numba
    import numpy as np
    from numba.core.caching import _Cache
    from numba.core.compiler import CompileResult
    from numba.core.serialize import dumps

    shaping = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "BOUNDSCHECK", "USING_SVML", "DEBUGINFO_DEFAULT")

    class Kept(_Cache):  # type: ignore[misc, unused-ignore]
        """The cache in which Numba looks for machine code of a function, a file for each kind of arguments."""

        cache_path = None

        def __init__(self, function: Kernel, options: dict[str, Any], kind: str = "function") -> None:
            self.function = function
            shown = sorted((k, sorted(v) if isinstance(v, set) else v) for k, v in options.items())
            self.made_of: tuple[Any, ...] = kind, function.__module__, function.__qualname__, shown

        def _place(self, signature: Any, codegen: Any) -> tuple[Path, bytes] | None:
            """Return the file of a kind of arguments, and its key: all that its content depends on."""
            folder, text = disk.folder(), _text_of(self.function.__globals__)
            if folder is None or text is None or self.function.__closure__:
                return None
            config = [getattr(numba.config, name, None) for name in shaping]
            versions = numba.__version__, llvmlite.__version__, np.__version__, sys.version
            told = repr((self.made_of, signature, codegen.magic_tuple(), config, versions))
            key = told.encode() + text + inlined()
            name = re.sub(r"\W", "", self.function.__qualname__)[:40]
            return folder / f"{name}_{hashlib.sha256(key).hexdigest()[:24]}.pickle", key

        def load_overload(self, sig: Any, target_context: Any) -> Array | None:
            """Return compiled code for a signature, or None."""
            target_context.refresh()
            place = self._place(sig, target_context.codegen())
            found = None if place is None else disk.read(*place)
            if place is None or found is None:
                return None
            try:
                return CompileResult._rebuild(target_context, *pickle.loads(found))  # noqa: S301 - written by us
            except Exception as error:
                disk.discard(place[0], repr(error))
                return None

        def save_overload(self, sig: Any, data: Any) -> None:
            """Store compiled code for a signature."""
            if data.library.has_dynamic_globals or data.lifted:
                return
            place = self._place(sig, data.codegen)
            if place is not None:
                disk.write(*place, dumps(data._reduce()))

        def enable(self) -> None:
            """Do nothing: it is always on."""

        disable = flush = enable

    return Kept


def _text_of(module: dict[str, Any]) -> bytes | None:
    """Return the text of a module, None if it is unknown."""
    if "_text" in module:
        return str(module["_text"]).encode()
    return _file_text(str(module.get("__file__")))


@cache
def _file_text(path: str) -> bytes | None:
    try:
        return Path(path).read_bytes()
    except OSError:
        return None
