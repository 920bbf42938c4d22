"""A few threads that share a large array: NumPy lets go of the interpreter's lock while it computes.

`share` cuts a range into pieces and runs a function on them, here and on workers that are started when first
needed. Whoever is free takes the next piece, so that on a busy machine the caller does all by itself instead of
waiting for a worker that has not woken up. A forked child starts workers of its own.

The system likes to wake a thread on the processor of the one that wakes it. That one goes on computing, and another
processor idles; so workers are kept off the processor of whoever shares with them.
"""

from __future__ import annotations

import contextlib
import contextvars
import ctypes
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
    """What a thread knows of itself: whether its work is a share of another's."""

    busy = False  # an attribute that is missing takes five times as long to ask for


_local = _Local()
_lock = threading.Lock()
_jobs: SimpleQueue[Any] = SimpleQueue()
_started = 0
_workers: list[int] = []  # their numbers in the system,
_avoided = -1  # and the processor that they do not run on
crew: Any = None  # native threads that share NumPy's loops, where there are some: see crew.py


def set_count(number: int) -> None:
    """Set how many threads share the work, the calling one among them."""
    global count, asked
    count = asked = number
    if crew is not None:
        crew.limit(number - 1)


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
    if _processor is not None and (processor := _processor()) != _avoided:
        _avoid(processor)
    job = _Job(function, [total * i // pieces for i in range(pieces + 1)])
    for _ in range(pieces - 1):
        _jobs.put((contextvars.copy_context(), job))  # NumPy's error state is part of the context
    if crew is not None:
        crew.held.value = 1
    job.work()
    job.done.acquire()
    if crew is not None:
        crew.held.value = 0
    if job.error is not None:
        raise job.error


def _start(workers: int) -> None:
    global _started, _avoided
    if _started >= workers:
        return
    with _lock:
        while _started < workers:
            _started += 1
            thread = threading.Thread(target=_worker, args=(_jobs,), name=f"adjoint-{_started}", daemon=True)
            thread.start()
            _workers.append(thread.native_id or 0)
            _avoided = -1


def _find_processor() -> Any:
    """Return the function that says which processor this thread runs on; None where threads cannot be kept off one."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    try:
        return ctypes.CDLL(None).sched_getcpu
    except (OSError, AttributeError):
        return None


_processor = _find_processor()


def _avoid(processor: int) -> None:
    """Keep the workers off a processor."""
    global _avoided
    _avoided = processor
    others = os.sched_getaffinity(0) - {processor}
    with contextlib.suppress(OSError):  # a sandbox may refuse
        for worker in _workers if others else ():
            os.sched_setaffinity(worker, others)


def _worker(jobs: SimpleQueue[Any]) -> None:
    _local.busy = True  # what is shared already is not cut again
    while True:
        context, job = jobs.get()
        context.run(job.work)
        del context, job  # a worker that waits keeps nobody's arrays


def _forget() -> None:
    global _jobs, _lock, _started, _workers, _avoided
    _jobs, _lock, _started, _workers, _avoided = SimpleQueue(), threading.Lock(), 0, [], -1
    if crew is not None:
        crew.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
