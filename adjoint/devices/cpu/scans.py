"""Scans: cumulative sums, products and extremes, and linear recurrences.

The order in which numbers are added depends on the shape alone, never on the number of threads.
"""

from __future__ import annotations

import functools
import math
from types import ModuleType
from typing import Any

import numpy as np

from ..._typing import Array, Kernel, Shape
from . import blas, provider, sizes
from .copying import uniform
from .rows import run_cuts, run_rows
from .table import override
from .threads import share

f32 = np.dtype("float32")
_SIDE = 16  # elements in a row of a triangle of ones

# --- Cumulative sums ------------------------------------------------------------------------------------


def _is_float(x: Array, *params: object) -> bool:
    return x.dtype.char in "fd"


@override("cumsum", least=sizes.SCAN, when=_is_float)
def cumsum(x: Array, axis: int, reverse: bool) -> Array:
    """Return the sums of the elements up to each along an axis (from each on, if `reverse`)."""
    out = np.empty(x.shape, x.dtype)
    lead, trail = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    if trail >= sizes.VECTOR and provider.loops("running", x) is not None:
        _cumsum_columns(x, lead, trail, reverse, out)
        return out
    source, target = x.reshape(lead, x.shape[axis], trail), out.reshape(lead, x.shape[axis], trail)
    if reverse:
        source, target = source[:, ::-1], target[:, ::-1]
    if trail >= sizes.SCAN_ROWS:  # whole rows are added at once

        def by_rows(start: int, stop: int) -> None:
            for source_of, target_of in zip(source, target, strict=True):
                row = target_of[0, start:stop]
                row[...] = source_of[0, start:stop]
                for i in range(1, len(source_of)):
                    row = np.add(row, source_of[i, start:stop], out=target_of[i, start:stop])

        share(by_rows, trail, sizes.THREAD_SCAN)
    elif trail == 1 and lead > 1 and (loops := provider.loops("running", x)) is not None:
        rows = np.ascontiguousarray(x).reshape(lead, x.shape[axis])
        run_rows(loops.running_sum_rows, "rbr", rows, reverse, out.reshape(rows.shape))
        return out
    elif trail == 1 and lead > 1 and x.size >= sizes.COMPILED_SUM and _by_triangles(x, lead, reverse, out):
        return out
    elif lead > 1:

        def one_by_one(start: int, stop: int) -> None:
            np.add.accumulate(source[start:stop], 1, None, target[start:stop])

        share(one_by_one, lead, max(sizes.THREAD_SCAN // max(x[0].size, 1), 1))
    else:
        np.add.accumulate(source, 1, None, target)
    return out


def _by_triangles(x: Array, lead: int, reverse: bool, out: Array) -> bool:
    """Write cumulative sums of rows, short pieces multiplied by a triangle of ones; return whether that was possible.

    NumPy waits for each sum before it adds the next number; BLAS does not. Zeros times an infinity are no zeros, so
    rows whose sums are not finite need another way.
    """
    width = x.shape[-1]
    count, remainder = divmod(width, _SIDE)
    if count < 2:
        return False
    rows, sums = np.ascontiguousarray(x).reshape(lead, width), out.reshape(lead, width)
    triangle = np.tri(_SIDE, dtype=x.dtype) if reverse else np.tri(_SIDE, dtype=x.dtype).T
    way = slice(None, None, -1) if reverse else slice(None)
    first = remainder if reverse else 0  # where pieces begin
    tail = slice(0, remainder) if reverse else slice(width - remainder, None)
    # All but the first to be summed:
    later = slice(remainder, width - _SIDE) if reverse else slice(_SIDE, width - remainder)
    finite = True

    def work(start: int, stop: int) -> None:
        nonlocal finite
        given: Any = rows[start:stop]
        found: Any = sums[start:stop]
        shape = (stop - start, count, _SIDE)
        written = _cut(found[:, first:], shape)
        np.matmul(_cut(given[:, first:], shape), triangle, out=written)
        before = np.add.accumulate(written[:, :, 0 if reverse else -1][:, way], 1)
        finite = finite and bool(np.isfinite(before).all())
        found[:, later] += np.repeat(before[:, :-1][:, way], _SIDE, 1)
        if remainder:
            found[:, tail] = (np.add.accumulate(given[:, tail][:, way], 1) + before[:, -1:])[:, way]

    with blas.alone:
        share(work, lead, max(sizes.THREAD_TRIANGLES // width, 1))
    return finite


def _cut(rows: np.ndarray[Any, Any], shape: Shape) -> np.ndarray[Any, Any]:
    """Return a view of rows, each cut into short pieces."""
    step = rows.itemsize
    return np.lib.stride_tricks.as_strided(rows, shape, (rows.strides[0], shape[2] * step, step))


# --- Cumulative products ----------------------------------------------------------------------------------


def _compiled(x: Array, axis: int) -> ModuleType | None:
    """Return the compiled loops over rows, where the axis is the last; else None."""
    return provider.loops("running", x) if axis == x.ndim - 1 else None


@override("cumprod", least=sizes.SCAN)
def cumprod(x: Array, axis: int) -> Array:
    """Return the products of the elements up to each along the last axis."""
    loops = _compiled(x, axis)
    return NotImplemented if loops is None else _by_rows(loops.running_product_rows, x)


@override("cumprod", gradient="x", least=sizes.SCAN)
def cumprod_backward(g: Array, x: Array, out: Array, axis: int) -> Array:
    """Return the gradient of cumulative products along the last axis."""
    loops = _compiled(x, axis) if g.dtype is x.dtype else None
    return NotImplemented if loops is None else _by_rows(loops.running_product_back_rows, g, x, out)


@override("cumprod", gradient="x", when=lambda g, x, out, axis: out.dtype.char in "fdFD" and out.all())
def cumprod_backward_without_zeros(g: Array, x: Array, out: Array, axis: int) -> Array:
    """Return the gradient of cumulative products none of which is zero."""
    return _reverse_cumsum(g * out, axis) / x


def _reverse_cumsum(x: Array, axis: int) -> Array:
    if x.size >= sizes.SCAN and _is_float(x):
        return cumsum(x, axis, True)
    way = (slice(None),) * axis + (slice(None, None, -1),)
    return np.add.accumulate(x[way], axis)[way]


def _by_rows(loop: Kernel, *arrays: Array) -> Array:
    """Return what a loop over the rows of arrays of one shape writes."""
    width = arrays[0].shape[-1]
    out = np.empty(arrays[0].shape, arrays[0].dtype)
    rows = [np.ascontiguousarray(a).reshape(-1, width) for a in (*arrays, out)]
    run_rows(loop, "r" * len(rows), *rows)
    return out


def _cumsum_columns(x: Array, lead: int, trail: int, reverse: bool, out: Array) -> None:
    """Write cumulative sums down the columns of matrices; each thread has some of the columns."""
    from . import moves

    step = 0 if uniform(x) else trail
    rows = np.ascontiguousarray(x).reshape(-1) if step else np.full(trail, x[(0,) * x.ndim], x.dtype)
    given = (rows, step, lead, x.size // (lead * trail), trail, int(reverse), out.reshape(-1))
    run_cuts(moves.running_sums, "wsssssw", trail, x.size, *given, least=sizes.THREAD_COLUMNS)


# --- Logarithms of cumulative sums of exponentials --------------------------------------------------------

_NEAR = 60.0  # logarithms closer than this have exponentials that a float32 holds side by side


@override("logcumsumexp", when=_is_float)
def logcumsumexp(x: Array, axis: int) -> Array:
    """Return the logarithms of the sums of the exponentials up to each element along an axis."""
    return np.logaddexp.accumulate(x, axis)


@override("logcumsumexp", gradient="x", when=lambda g, x, *saved: x.size and _is_float(x))
def logcumsumexp_backward(g: Array, x: Array, out: Array, axis: int) -> Array:
    """Return the gradient of logcumsumexp where its results are so close that none of their exponentials vanishes."""
    last = out.take((-1,), axis)
    e: Any = last - out  # which falls along the axis
    if not e.max() < _NEAR:  # nor beside a NaN
        return NotImplemented
    return np.exp(x - last) * _reverse_cumsum(g * np.exp(e, out=e), axis)


# --- Cumulative extremes ----------------------------------------------------------------------------------


def _cumulative_extreme(ufunc: np.ufunc) -> Kernel:
    def extreme(x: Array, axis: int) -> tuple[Array, Array]:
        half = x.dtype.itemsize == 2 and x.dtype.kind not in "iu"
        values = ufunc.accumulate(x.astype(f32) if half else x, axis).astype(x.dtype, copy=False)
        reached = x == values
        if np.count_nonzero(values != values):
            reached |= x != x
        return values, np.maximum.accumulate(reached * _numbered(x.shape, axis), axis)

    return extreme


override("cummax")(_cumulative_extreme(np.maximum))
override("cummin")(_cumulative_extreme(np.minimum))


def _numbered(shape: Shape, axis: int) -> Array:
    """Return the indices of elements along an axis: for small arrays those of each element, which are cached."""
    if math.prod(shape) <= sizes.SMALL:
        return _numbered_all(shape, axis)
    return np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])


@functools.lru_cache(64)
def _numbered_all(shape: Shape, axis: int) -> Array:
    numbers = np.arange(shape[axis]).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return np.ascontiguousarray(np.broadcast_to(numbers, shape))


# --- Linear recurrences -----------------------------------------------------------------------------------


@override.around("recur")
def _recur(definition: Kernel) -> Kernel:
    """Return the recurrence of large arrays by blocks of rows that stay in the cache, split among threads."""

    def recur(a: Array, b: Array, axis: int) -> Array:
        if type(a) is not np.ndarray or type(b) is not np.ndarray or b.size <= sizes.SCAN_BLOCK:
            return definition(a, b, axis)
        shape = (math.prod(b.shape[:axis]), b.shape[axis], math.prod(b.shape[axis + 1 :]))
        rows, given, out = a.reshape(shape), b.reshape(shape), np.empty(shape, b.dtype)
        step = max(sizes.SCAN_BLOCK // max(shape[1] * shape[2], 1), 1)

        def work(start: int, stop: int) -> None:
            for i in range(start, stop, step):
                part = slice(i, min(i + step, stop))
                out[part] = definition(rows[part], given[part], 1)

        share(work, shape[0])
        return out.reshape(b.shape)

    return recur
