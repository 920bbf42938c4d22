"""The peak of memory in use: CuPy's pool does not remember it, and a callback for every freed array is slow.

Memory in use can only reach a new peak when some is allocated. So the allocator adds up what was allocated since the
pool was last counted: while that cannot have passed the height known so far, nothing is counted.
"""

from __future__ import annotations

from typing import Any

import cupy

from . import sizes
from .arrays import several

__all__ = ["peak", "reset", "watch"]

_pool = cupy.get_default_memory_pool()
_malloc = _pool.malloc


class _Height:
    """What is known of one device."""

    __slots__ = ("bound", "limit", "reserved", "used")

    def __init__(self) -> None:
        self.bound = self.limit = self.used = self.reserved = 0

    def count(self) -> None:
        """Read from the pool how much is in use now."""
        self.bound = used = int(_pool.used_bytes())
        self.used, self.reserved = max(used, self.used), max(int(_pool.total_bytes()), self.reserved)
        self.limit = self.used + max(sizes.PEAK, self.used // sizes.PEAK_PART)


_heights: dict[int, _Height] = {}
_first = _heights.setdefault(0, _Height())


def _here() -> _Height:
    """Return what is known of the current device."""
    return _heights.setdefault(int(cupy.cuda.runtime.getDevice()), _Height()) if several else _first


def _allocate(size: int) -> Any:
    """Return memory from CuPy's pool."""
    found = _malloc(size)
    height = _here() if several else _first
    height.bound += size
    if height.bound > height.limit:
        height.count()
    return found


def watch() -> None:
    """Let memory be counted, unless the program has an allocator of its own."""
    if cupy.cuda.get_allocator() == _malloc:
        cupy.cuda.set_allocator(_allocate)


def peak() -> tuple[int, int]:
    """Return the most bytes that were in use, and that the pool held, on the current device."""
    height = _here()
    height.count()
    return height.used, height.reserved


def reset() -> None:
    """Begin anew with what is in use now on the current device."""
    height = _here()
    height.used = height.reserved = 0
    height.count()
