"""Which buffers are in use when, and where each lies in the one piece of memory that a program has for them."""

from __future__ import annotations

import weakref
from typing import Any

from ...devices.cpu import forks
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
        """Decide where each buffer lies; return how much memory they take."""
        active: list[tuple[int, int, int]] = []  # where, how much, until when
        most = 0
        for v in sorted((v for v in self.sizes if v in self.spans), key=lambda v: (self.spans[v][0], -self.sizes[v])):
            start, stop = self.spans[v]
            active = sorted(block for block in active if block[2] >= start)
            offset = self._gap(active, self.sizes[v])
            self.offsets[v] = offset
            active.append((offset, self.sizes[v], stop))
            most = max(most, offset + self.sizes[v])
        return most

    @staticmethod
    def _gap(active: list[tuple[int, int, int]], size: int) -> int:
        """Return the start of the smallest gap that is large enough, or of what lies behind all."""
        best, end = None, 0
        for offset, length, _ in active:
            gap = offset - end
            if gap >= size and (best is None or gap < best[0]):
                best = (gap, end)
            end = max(end, offset + length)
        return end if best is None else best[1]


class Arena:
    """Memory for the buffers of programs that run one after the other: one for each batch size would be too much."""

    made: weakref.WeakSet[Arena] = weakref.WeakSet()

    def __init__(self, size: int, cupy: Any) -> None:
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
