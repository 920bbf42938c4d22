"""Small arrays: elements by their places along an axis, read or put back in a call or two, and their bounds."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

MOST = 4096  # elements of an array that is small


@functools.lru_cache(256)
def _lines(shape: tuple[int, ...], axis: int) -> tuple[int, Any]:
    """Return the steps in memory along an axis, and where each line along it begins in the flattened array."""
    lead, trail = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    starts = (np.arange(lead)[:, None] * (shape[axis] * trail) + np.arange(trail)).reshape(-1)
    starts.flags.writeable = False
    return trail, starts


def chosen(x: Any, index: Any, axis: int) -> Any:
    """Return a vector of the elements that an index names, one on each line of a small contiguous array."""
    step, starts = _lines(x.shape, axis)
    at = index.ravel()
    return x.ravel()[(at if step == 1 else at * step) + starts]


def put_back(g: Any, index: Any, shape: tuple[int, ...], axis: int) -> Any:
    """Return zeros of a shape, but for `g` in the places that an index names, one on each line."""
    step, starts = _lines(shape, axis)
    out = np.zeros(shape, g.dtype)
    at = index.ravel()
    out.ravel()[(at if step == 1 else at * step) + starts] = g.ravel()
    return out


def within(x: Any, bound: float) -> bool:
    """Return whether an array is small and no element is further from 0 than a bound, nor a NaN.

    To look for the largest element takes NumPy a fifth of the time that to reduce to it does.
    """
    if type(x) is not np.ndarray or not 0 < x.size <= MOST or x.dtype.char not in "fd":
        return False
    return bool(x.item(x.argmax()) <= bound and x.item(x.argmin()) >= -bound)


@functools.lru_cache(64)
def ones(count: int, dtype: Any) -> Any:
    """Return a vector of ones, which nobody may write to."""
    found = np.ones(count, dtype)
    found.flags.writeable = False
    return found
