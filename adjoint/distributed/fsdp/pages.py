"""Memory whose pages can be given back while arrays still look at it."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np

__all__ = ["Pages"]


class Pages:
    """Memory for a parameter that is gathered: the graph keeps arrays of it, and the system gets the pages back.

    After `release` the arrays read zeros until somebody fills them again. Where the system cannot take pages back,
    they stay.
    """

    def __init__(self, count: int, dtype: Any) -> None:
        size = max(1, count * dtype.itemsize)
        flags = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0)
        self._map = mmap.mmap(-1, size, flags=flags) if flags else mmap.mmap(-1, size)
        self.array: Any = np.frombuffer(self._map, dtype, count)

    def release(self) -> None:
        """Give the pages back."""
        if hasattr(self._map, "madvise") and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED)
