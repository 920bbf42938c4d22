"""Reductions of NumPy arrays along an axis that few elements follow.

NumPy takes each run of elements behind the axis as a loop of its own, 10 to 30 ns even where it is four elements long.
Sums of a dense array are products with ones; a maximum is that of two halves, until one element is left.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import sizes

__all__ = ["behind", "largest", "smallest", "total"]

Axes = Any  # a tuple of ints that are not negative, or None
_ONES = {np.dtype(d): np.ones(sizes.MIDDLE_AXIS, d) for d in ("float32", "float64")}
_add: Any = np.add.reduce
_ndarray = np.ndarray


def behind(x: Any, axes: Axes) -> int:
    """Return how many elements follow the one axis that is reduced; 0 where NumPy's own loop is fine."""
    if x.size < sizes.MIDDLE or axes is None or len(axes) != 1 or type(x) is not _ndarray:
        return 0
    axis = axes[0]
    if not 0 < axis < x.ndim - 1 or x.shape[axis] < 2:
        return 0
    after = math.prod(x.shape[axis + 1 :])
    return after if after < sizes.MIDDLE_ROW else 0


def total(x: Any, axes: Axes, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """Return ``np.add.reduce``, of `axes` that are not negative."""
    after = behind(x, axes)
    if not after or dtype is not None or out is not None or x.dtype not in _ONES or not x.flags.c_contiguous:
        return _add(x, axes, dtype, out, keepdims)
    axis, shape = axes[0], x.shape
    n = shape[axis]
    if n > sizes.MIDDLE_AXIS:
        return _add(x, axes, dtype, out, keepdims)
    found = np.matmul(_ONES[x.dtype][:n], x.reshape(-1, n, after))
    return found.reshape((*shape[:axis], *((1,) if keepdims else ()), *shape[axis + 1 :]))


def _halving(ufunc: Any) -> Any:
    reduce = ufunc.reduce

    def extreme(x: Any, axes: Axes, dtype: Any = None, target: Any = None, keepdims: bool = False) -> Any:
        if target is not None or not behind(x, axes) or not x.flags.c_contiguous:
            return reduce(x, axes, dtype, target, keepdims)
        axis = axes[0]
        n, lead = x.shape[axis], (slice(None),) * axis
        own = None  # halves are compared in place once the memory is this call's
        while n > 1:
            half = n // 2
            low = x[(*lead, slice(half))]
            out = None if own is None or half == 1 else low  # the last one is dense
            found = ufunc(low, x[(*lead, slice(half, 2 * half))], out=out)
            if n % 2:
                first = found[(*lead, slice(1))]
                ufunc(first, x[(*lead, slice(n - 1, n))], out=first)
            x = own = found
            n = half
        return x if keepdims else x.reshape((*x.shape[:axis], *x.shape[axis + 1 :]))

    return extreme


largest, smallest = _halving(np.maximum), _halving(np.minimum)
