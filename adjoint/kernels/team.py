"""OpenMP's threads, those that oneDNN uses: what machine code asks for to share a loop among them.

Threads that wait for work by spinning take the cores from others. So where oneDNN computes the products of matrices,
the loops between them run in the same threads, which are awake already. They do not survive a fork: in a child, the
word that says whether they are there is 0.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys

from . import provider

_there = ctypes.c_int64(1)


@functools.cache
def _functions() -> tuple[int, ...] | None:
    if not sys.platform.startswith("linux") or not provider.onednn_is_there():
        return None
    try:
        library = ctypes.CDLL("libgomp.so.1")
        found = [getattr(library, name) for name in ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")]
    except (OSError, AttributeError):
        return None
    return tuple(ctypes.cast(f, ctypes.c_void_p).value or 0 for f in found)


def words() -> tuple[int, ...] | None:
    """Return the address of a word that is 0 where there are no threads, and of OpenMP's functions; None without it."""
    if not (provider.plainly.before if provider.plainly.inside else provider.choice.allowed):
        return None
    functions = _functions()
    return None if functions is None else (ctypes.addressof(_there), *functions)


def _without_threads() -> None:
    _there.value = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_without_threads)
