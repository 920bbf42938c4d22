"""OpenMP's threads, those that oneDNN uses: for loops that multiply matrices by oneDNN inside, see heads.py.

In a thread of another pool, oneDNN would start threads of its own. They do not survive a fork.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys

from . import provider

_there = True


@functools.cache
def _functions() -> tuple[int, ...] | None:
    if not sys.platform.startswith("linux") or not provider.onednn_is_there():
        return None
    try:
        library = ctypes.CDLL("libgomp.so.1")
        found = [getattr(library, name) for name in ("GOMP_parallel", "omp_get_thread_num")]
    except (OSError, AttributeError):
        return None
    return tuple(ctypes.cast(f, ctypes.c_void_p).value or 0 for f in found)


def functions() -> tuple[int, ...] | None:
    """Return the addresses of OpenMP's functions: what runs code in threads, and the thread's number. None without."""
    return _functions() if _there and provider.fast_allowed() else None


def _without_threads() -> None:
    global _there
    _there = False


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_without_threads)
