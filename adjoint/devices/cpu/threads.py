"""A thread pool for large arrays: NumPy releases the interpreter's lock while it computes.

`share` cuts a range into pieces and runs a function on them, here and on workers that are started when first
needed. A free thread takes the next piece, so that on a busy machine the caller does all of them instead of
waiting for a worker that has not woken up. A forked child starts workers of its own.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

_affinity = getattr(os, "sched_getaffinity", None)


def _first_count() -> int:
    """Return how many threads there may be: OpenMP's variable says so to all libraries alike, else the processors."""
    told = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    if told.isdigit() and int(told) > 0:
        return int(told)
    return len(_affinity(0)) if _affinity else os.cpu_count() or 1


count: int = _first_count()
asked = 0  # the number that the program set


class _Local(threading.local):
    """Whether this thread runs a part of another thread's work."""

    busy = False  # on the class: looking up a missing attribute takes five times as long


_local = _Local()
_lock = threading.Lock()
_jobs: SimpleQueue[Any] = SimpleQueue()
_started = 0


def set_count(number: int) -> None:
    """Set how many threads share the work, the calling one among them."""
    global count, asked
    count = asked = number


class _Job:
    """A function and the pieces it is still to be called with."""

    __slots__ = ("done", "ends", "error", "function", "left", "lock", "numbers")

    def __init__(self, function: Callable[[int, int], object], ends: list[int]) -> None:
        self.function, self.ends = function, ends
        self.left = len(ends) - 1
        self.numbers = iter(range(self.left))  # `next` of it is atomic
        self.lock, self.done = threading.Lock(), threading.Lock()
        self.done.acquire()
        self.error: BaseException | None = None

    def work(self) -> None:
        """Take pieces until there are none."""
        ends, finished = self.ends, 0
        for i in self.numbers:
            try:
                self.function(ends[i], ends[i + 1])
            except BaseException as error:  # belongs to the caller, not to the worker
                self.error = error
            finished += 1
        if finished:
            with self.lock:
                self.left -= finished
                if self.left == 0:
                    self.done.release()


def may_share() -> bool:
    """Return whether there are several threads, and this is not one whose work is shared already."""
    return count > 1 and not _local.busy


def share(function: Callable[[int, int], object], total: int, least: int = 1) -> None:
    """Call ``function(start, stop)`` on pieces of ``range(total)`` of at least `least`, side by side."""
    pieces = min(count, total // max(least, 1))
    if pieces <= 1 or not may_share():
        function(0, total)
        return
    _start(pieces - 1)
    job = _Job(function, [total * i // pieces for i in range(pieces + 1)])
    for _ in range(pieces - 1):
        _jobs.put((contextvars.copy_context(), job))  # NumPy's error state is part of the context
    job.work()
    job.done.acquire()
    if job.error is not None:
        raise job.error


def _start(workers: int) -> None:
    global _started
    if _started >= workers:
        return
    with _lock:
        while _started < workers:
            _started += 1
            threading.Thread(target=_worker, args=(_jobs,), name=f"adjoint-{_started}", daemon=True).start()


def _worker(jobs: SimpleQueue[Any]) -> None:
    _local.busy = True  # what is shared already is not cut again
    while True:
        context, job = jobs.get()
        context.run(job.work)
        del context, job  # a waiting worker holds no arrays


def _forget() -> None:
    global _jobs, _lock, _started
    _jobs, _lock, _started = SimpleQueue(), threading.Lock(), 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
