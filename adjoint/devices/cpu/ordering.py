"""Stable sorting of large arrays along an axis.

NumPy sorts whole numbers several times as fast as it finds a stable order of floats. So an element and its place are
put into one number, which no other equals: what sorts these, sorts the elements, and a sort need not be stable.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._typing import Array, Kernel
from . import provider, sizes
from .rows import run_cuts
from .table import override
from .threads import share

_int32, _int64 = np.dtype("int32"), np.dtype("int64")
_PLACE = np.int64(0xFFFFFFFF)


@override.around("argsort")
def _argsort(definition: Kernel) -> Kernel:
    def argsort(x: Array, axis: int, descending: bool) -> Array:
        if type(x) is not np.ndarray or not x.ndim or x.dtype.kind not in "fiub":
            return definition(x, axis, descending)
        return _stable(x, axis, descending)

    return argsort


def _stable(x: Array, axis: int, descending: bool) -> Array:
    """Return the indices that sort along an axis, stably."""
    if x.size >= sizes.SORT and (found := order(x, axis, descending)) is not None:
        return found
    if not descending:
        return x.argsort(axis, "stable")
    # The order of the reversed elements, reversed.
    return np.ascontiguousarray(x.shape[axis] - 1 - np.flip(np.flip(x, axis).argsort(axis, "stable"), axis))


def order(x: Any, axis: int, descending: bool) -> Any:
    """Return the places of elements along an axis in order, NaN as the largest; None where NumPy does as well."""
    n, kind = x.shape[axis], x.dtype.char
    if n < 4 or n > _PLACE // 2 or kind not in "efil":
        return None
    low: Any = 0
    if kind == "l":
        low = x.min()
        if int(x.max()) - int(low) > 0x7FFFFFFF:
            return None
    rows = np.ascontiguousarray(np.moveaxis(x, axis, -1)).reshape(-1, n)
    found = np.empty(rows.shape, np.int64)
    step = max(sizes.SORT_BLOCK // n, 1)

    def work(start: int, stop: int) -> None:
        for i in range(start, stop, step):
            _sort(rows[i : min(i + step, stop)], low, descending, found[i : min(i + step, stop)])

    share(work, len(rows), max(sizes.THREAD_SORT // n, 1))
    shape = (*x.shape[:axis], *x.shape[axis + 1 :], n)
    return np.ascontiguousarray(np.moveaxis(found.reshape(shape), -1, axis))


def _sort(rows: Any, low: Any, descending: bool, out: Any) -> None:
    keys = _keys(rows) if rows.dtype.kind == "f" else rows - low if rows.dtype is _int64 else rows
    if descending:
        keys = ~keys
    np.left_shift(keys, 32, out=out, dtype=np.int64)
    out |= np.arange(rows.shape[1])
    out.sort(axis=1)
    out &= _PLACE


def _keys(rows: Any) -> Any:
    """Return whole numbers that come in the order of floats: zero has no sign, and NaN comes after all others."""
    rows = rows + np.float32(0)
    bits = rows.view(_int32)
    keys = (bits >> 31) & 0x7FFFFFFF
    keys ^= bits
    nan = rows != rows
    if nan.any():
        keys[nan] = 0x7FFFFFFF
    return keys


def _one_by_one(x: Array, axis: int, count: int, largest: bool) -> Array | None:
    """Return the indices of the best elements along the last axis, for a small `count`; None if NumPy must sort."""
    n = x.shape[axis]
    if axis != x.ndim - 1 or not 0 < count <= sizes.BEST_ONE_BY_ONE or not x.flags.c_contiguous or x.dtype.kind != "f":
        return None
    if provider.loops("best", x) is None:
        places = _above(x.reshape(-1, n), count, largest) if x.size > sizes.SORT else None
        return None if places is None else places.reshape(*x.shape[:-1], count)
    from . import moves

    found = np.empty((*x.shape[:-1], count), np.int64)
    run_cuts(moves.best, "wsssl", x.size // n, x.size, x.reshape(-1), n, count, int(largest), found.reshape(-1))
    return found


def _above(rows: Array, count: int, largest: bool) -> Array | None:
    """Return the places of the best elements of rows; None where there are NaNs, or many equals.

    Of as many groups as elements are wanted, the best are at least as good as the worst of these: few elements are.
    """
    (n, width), sign = rows.shape, -1 if largest else 1
    groups = max(width // 32, 4 * count)
    even = width // groups * groups
    tops = (np.maximum if largest else np.minimum).reduce(rows[:, :even].reshape(n, -1, groups), 1)
    if np.isnan(tops).any() or np.isnan(rows[:, even:]).any():
        return None
    bound = np.partition(tops, groups - count if largest else count - 1, 1)[:, -count if largest else count - 1, None]
    found = np.flatnonzero(rows >= bound if largest else rows <= bound)
    if found.size > 4 * n * count:
        return None
    row = found // width
    order = np.lexsort((sign * rows.reshape(-1)[found], row))
    starts = np.searchsorted(row, np.arange(n))
    return (found % width)[order[starts[:, None] + np.arange(count)]]


def _few_of_many(x: Array, axis: int, count: int, largest: bool) -> bool:
    return x.shape[axis] >= sizes.BEST and 0 < count <= x.shape[axis] // sizes.BEST_SHARE and x.dtype.kind != "c"


@override("best", when=_few_of_many)
def best(x: Array, axis: int, count: int, largest: bool) -> Array:
    """Return the indices of the largest or smallest elements along an axis: best first, equal ones in order."""
    n, lead = x.shape[axis], (slice(None),) * axis
    x = x.astype(np.float32) if x.dtype.name == "bfloat16" else x
    found = _one_by_one(x, axis, count, largest)
    if found is not None:
        return found
    if largest:
        found = np.argpartition(x, n - count, axis)[(*lead, slice(n - count, None))]
    else:
        found = np.argpartition(x, count - 1, axis)[(*lead, slice(0, count))]
    found.sort(axis)  # so that equal elements come in their order
    order = _stable(np.take_along_axis(np.asarray(x), found, axis), axis, largest)
    return np.take_along_axis(found, np.asarray(order), axis)
