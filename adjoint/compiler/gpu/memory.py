"""The memory plan of a program: when each buffer is in use, and its offset in the program's one block of memory."""

from __future__ import annotations

import bisect
import weakref
from typing import Any

from ...devices import forks
from ...devices.cuda import sizes
from ..graph import Value

_ALIGNED = 512


class Lives:
    """The steps from which to which buffers are in use; those that are not at the same time may share memory."""

    def __init__(self) -> None:
        self.sizes: dict[Value, int] = {}
        self.spans: dict[Value, list[int]] = {}
        self.held: dict[Value, list[Value]] = {}  # what a library returned, and what it may be a view of
        self.offsets: dict[Value, int] = {}

    def add(self, v: Value, size: int) -> None:
        """Take in a buffer."""
        self.sizes[v] = -(-max(size, 1) // _ALIGNED) * _ALIGNED

    def use(self, v: Any, now: int) -> None:
        """Note that a value's memory is in use."""
        if v is None:
            return
        span = self.spans.setdefault(v, [now, now])
        span[1] = max(span[1], now)
        for under in self.held.get(v, ()):
            self.use(under, now)

    def holds(self, v: Value, under: Any) -> None:
        """Note that a value may be a view of another."""
        if under is not None:
            self.held.setdefault(v, []).append(under)

    def plan(self) -> int:
        """Decide the offset of each buffer; return how much memory they take."""
        found = [v for v in self.sizes if v in self.spans]
        in_time = self._packed(sorted(found, key=lambda v: (self.spans[v][0], -self.sizes[v])), in_time=True)
        most, self.offsets = in_time
        if most > sizes.ARENA and len(found) <= sizes.ARENA_BUFFERS:
            # Large ones first leaves fewer gaps, as a rule.
            by_size = self._packed(sorted(found, key=lambda v: (-self.sizes[v], self.spans[v][0])))
            most, self.offsets = min(in_time, by_size, key=lambda plan: plan[0])
        return most

    def _packed(self, order: list[Value], in_time: bool = False) -> tuple[int, dict[Value, int]]:
        """Return how much memory buffers take, each placed in turn in the smallest gap, and their offsets."""
        offsets: dict[Value, int] = {}
        placed: list[tuple[int, int, int, int]] = []  # where, how much, from and until when; sorted
        most = 0
        for v in order:
            start, stop = self.spans[v]
            beside = [block for block in placed if block[2] <= stop and block[3] >= start]
            if in_time:  # what has ended is of no more account
                placed = beside
            offset, size = self._gap(beside, self.sizes[v]), self.sizes[v]
            offsets[v] = offset
            bisect.insort(placed, (offset, size, start, stop))
            most = max(most, offset + size)
        return most, offsets

    @staticmethod
    def _gap(active: list[tuple[int, int, int, int]], size: int) -> int:
        """Return the start of the smallest gap that is large enough, or of the free memory behind all buffers."""
        best, end = None, 0
        for offset, length, _, _ in active:
            gap = offset - end
            if gap >= size and (best is None or gap < best[0]):
                best = (gap, end)
            end = max(end, offset + length)
        return end if best is None else best[1]


def give_back(cupy: Any, least: int = 0) -> None:
    """Give the driver what CuPy's pool has free, if that is more than some bytes: of the run that was captured."""
    pool = cupy.get_default_memory_pool()
    if pool.free_bytes() > max(least // 4, sizes.RETAINED):
        pool.free_all_blocks()


class Arena:
    """Memory for the buffers of programs that run one after the other: one for each batch size would be too much."""

    made: weakref.WeakSet[Arena] = weakref.WeakSet()

    def __init__(self, size: int, cupy: Any) -> None:
        give_back(cupy, size)
        self.size, self.memory = size, cupy.cuda.alloc(max(size, 1))
        self.ptr, self.device = int(self.memory.ptr), int(cupy.cuda.Device().id)
        self.lock = forks.reentrant_lock()
        self.stream: Any = None

    @classmethod
    def of(cls, size: int, cupy: Any) -> Arena:
        """Return memory of a size, on the current device; another program's, where that has enough."""
        here = int(cupy.cuda.Device().id)
        found = sorted((a for a in cls.made if a.device == here and a.size >= size), key=lambda a: a.size)
        if found:
            return found[0]
        made = cls(size, cupy)
        cls.made.add(made)
        return made

    def follow(self, stream: Any) -> None:
        """Let a stream wait for what used the memory last, if that was on another one."""
        if self.stream is not None and self.stream.ptr != stream.ptr:
            stream.wait_event(self.stream.record())
        self.stream = stream
