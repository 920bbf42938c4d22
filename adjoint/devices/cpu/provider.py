"""Which library computes what: a measured table of the sizes from which a kernel beats plain NumPy.

NumPy is always there. Where the extra ``fast`` is installed, large float32 arrays go to oneDNN, and to loops
compiled by Numba where oneDNN has none. ``ADJOINT_PROVIDER=numpy`` leaves them out.

Nothing is loaded before an array is large enough. A forked child does without oneDNN, whose threads (OpenMP's)
do not survive the fork; Numba's loops run in threads of our own.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from types import ModuleType
from typing import Any

import numpy as np

from ..._typing import Array
from .. import forks
from . import blas, threads
from .sizes import NUMBA, ONEDNN

ndarray, f32 = np.ndarray, np.dtype("float32")


class _Choice:
    """Which providers may be used; modules are None until looked for, False where there are none."""

    def __init__(self) -> None:
        self.allowed = os.environ.get("ADJOINT_PROVIDER", "fast") != "numpy"
        self.onednn: Any = None
        self.loops: Any = None


choice = _Choice()


def allow(fast: bool) -> bool:
    """Set whether other kernels than NumPy's may be used; return what was set before."""
    before, choice.allowed = choice.allowed, fast
    return before


class _Plainly:
    """A context in which NumPy computes everything, unless Numba is there already.

    For a call or two: to load Numba and compile would take longer. Other threads do with NumPy meanwhile.
    """

    def __init__(self) -> None:
        self.lock, self.inside, self.before = forks.lock(), 0, True

    def __enter__(self) -> None:
        with self.lock:
            if not self.inside:
                self.before = choice.allowed
                choice.allowed = self.before and "numba" in sys.modules
            self.inside += 1

    def __exit__(self, *error: object) -> None:
        with self.lock:
            self.inside = max(self.inside - 1, 0)  # it is 0 already in a child that was forked inside
            if not self.inside:
                choice.allowed = self.before

    def forget(self) -> None:
        """Be outside, as a forked child is: the threads that were inside are the parent's."""
        self.inside = min(self.inside, 1)
        if self.inside:
            self.__exit__()


plainly = _Plainly()


def fast_allowed() -> bool:
    """Return whether the program lets other kernels than NumPy's be used, for a while without them or not."""
    return plainly.before if plainly.inside else choice.allowed


def limit(count: int) -> None:
    """Let all that computes side by side use so many threads."""
    threads.set_count(count)
    blas.limit(count)
    if choice.onednn:
        choice.onednn.limit(count)


def onednn(op: str, x: Array, size: int | None = None) -> ModuleType | None:
    """Return the oneDNN kernels if they are there and faster for an op on `x` (or of a size), else None."""
    if (x.size if size is None else size) < ONEDNN[op] or type(x) is not ndarray or x.dtype is not f32:
        return None
    return choice.onednn if choice.allowed and onednn_is_there() else None


def onednn_is_there() -> bool:
    """Return whether oneDNN is loaded, which it is now if it can be."""
    if choice.onednn is None:
        from . import onednn

        choice.onednn = onednn if onednn.library() is not None else False
        if choice.onednn and threads.asked:
            onednn.limit(threads.asked)
    return bool(choice.onednn)


def loops(op: str, x: Array, size: int | None = None) -> Any:
    """Return the loops that Numba compiles if they are there and faster for an op on `x` (or of a size), else None."""
    if (x.size if size is None else size) < NUMBA[op] or type(x) is not ndarray or x.dtype is not f32:
        return None
    return _compiled_loops() if choice.allowed else None


def _compiled_loops() -> ModuleType | None:
    if choice.loops is None:
        choice.loops = False
        if compiles():
            from . import loops

            choice.loops = loops
    return choice.loops or None


def ready() -> bool:
    """Return whether compiled loops are loaded: work as cheap as a copy alone is not worth loading them."""
    return choice.allowed and bool(choice.loops)


def gpu(x: Array) -> Any:
    """Return the kernels of the GPU that holds `x`, a package with a module for each family; else None."""
    return gpus.get(type(x))


gpus: dict[type, Any] = {}  # by the class of arrays; empty until a tensor is put on a GPU


def compiles() -> bool:
    """Return whether loops can be compiled here."""
    return importlib.util.find_spec("numba") is not None


def _without_threads() -> None:
    plainly.forget()
    if choice.onednn or _openmp_is_loaded():
        choice.onednn = False


def _openmp_is_loaded() -> bool:
    """Return whether this process has OpenMP's library, whose threads another package may have started."""
    try:
        with open("/proc/self/maps", "rb") as maps:
            return b"libgomp" in maps.read()
    except OSError:
        return False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_without_threads)
