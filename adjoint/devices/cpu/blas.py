"""NumPy's BLAS: how many threads one product of matrices uses.

Many products at once are best computed one per thread; then each must use its own thread only. Only the OpenBLAS that
NumPy's wheels bring is known here; with another BLAS, products are computed one after another.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from .. import forks

_NAMES = (
    ("scipy_openblas_get_num_threads64_", "scipy_openblas_set_num_threads64_"),
    ("openblas_get_num_threads64_", "openblas_set_num_threads64_"),
    ("openblas_get_num_threads", "openblas_set_num_threads"),
)


def _libraries() -> Iterator[Any]:
    """Give the libraries beside NumPy that may be its BLAS."""
    root = Path(np.__file__).parent
    for folder in (root.parent / "numpy.libs", root / ".dylibs"):
        for path in sorted(folder.glob("*openblas*")):
            with contextlib.suppress(OSError):
                yield ctypes.CDLL(str(path))


@functools.cache
def _functions() -> tuple[Any, Any] | None:
    """Return the functions that get and set the number of threads, None if NumPy's BLAS is not found."""
    for library in _libraries():
        for get, put in _NAMES:
            if hasattr(library, get) and hasattr(library, put):
                return getattr(library, get), getattr(library, put)
    return None


@functools.cache
def address_of(name: str) -> int | None:
    """Return where a function of NumPy's BLAS is, one that takes sizes of 64 bits; None if it is not found."""
    for library in _libraries():
        for found in (f"scipy_{name}64_", f"{name}64_"):
            if hasattr(library, found):
                return ctypes.cast(getattr(library, found), ctypes.c_void_p).value
    return None


def is_known() -> bool:
    """Return whether the number of threads can be set."""
    return _functions() is not None


def limit(count: int) -> None:
    """Let a product of matrices use so many threads."""
    functions = _functions()
    with alone.lock:
        alone.before = count
        if not alone.inside and functions is not None:
            functions[1](count)


class _Alone:
    """A context in which every matrix multiplication runs in the calling thread."""

    def __init__(self) -> None:
        self.lock, self.inside, self.before = forks.lock(), 0, 1

    def __enter__(self) -> None:
        functions = _functions()
        with self.lock:
            self.inside += 1
            if self.inside == 1 and functions is not None:
                self.before = functions[0]()
                functions[1](1)

    def __exit__(self, *error: object) -> None:
        functions = _functions()
        with self.lock:
            self.inside = max(self.inside - 1, 0)  # it is 0 already in a child that was forked inside
            if self.inside == 0 and functions is not None:
                functions[1](self.before)

    def forget(self) -> None:
        """Be outside, as a forked child is: the threads that were inside are the parent's."""
        self.inside = min(self.inside, 1)
        if self.inside:
            self.__exit__()


alone = _Alone()

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=alone.forget)
