"""A few threads that share a large array: NumPy lets go of the interpreter's lock while it computes.

`share` cuts a range into pieces and runs a function on them, here and in a pool that is started when first
needed. A forked child starts its own.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable
from typing import Any

_affinity = getattr(os, "sched_getaffinity", None)
count: int = len(_affinity(0)) if _affinity else os.cpu_count() or 1  # how many threads there may be
_pool: Any = None
_size = 0
_local = threading.local()


def set_count(number: int) -> None:
    """Set how many threads share the work, the calling one among them."""
    global count
    count = number


def share(function: Callable[[int, int], object], total: int, least: int = 1) -> None:
    """Call ``function(start, stop)`` on pieces of ``range(total)`` of at least `least`, side by side."""
    pieces = min(count, total // max(least, 1))
    if pieces <= 1 or getattr(_local, "busy", False):
        function(0, total)
        return
    ends = [total * i // pieces for i in range(pieces + 1)]
    pool = _workers()
    # NumPy's error state is part of the context.
    others = [
        pool.submit(contextvars.copy_context().run, _marked, function, ends[i], ends[i + 1]) for i in range(1, pieces)
    ]
    try:
        function(0, ends[1])
    finally:
        for other in others:
            other.result()


def _marked(function: Callable[[int, int], object], start: int, stop: int) -> None:
    _local.busy = True  # what is shared already is not cut again
    function(start, stop)


def _workers() -> Any:
    global _pool, _size
    if _pool is None or _size != count:
        from concurrent.futures import ThreadPoolExecutor  # it imports logging

        _pool, _size = ThreadPoolExecutor(max(count - 1, 1), thread_name_prefix="adjoint-kernels"), count
    return _pool


def _forget() -> None:
    global _pool
    _pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
