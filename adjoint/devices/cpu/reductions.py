"""Sums and running sums of large arrays: by dot products, which add faster than NumPy and as exactly, on threads.

The order in which numbers are added depends on the shape alone, never on the number of threads.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._typing import Array, Kernel, Shape
from . import blas, provider, sizes
from .copying import uniform
from .rows import pieces, run_cuts, run_rows
from .table import override
from .threads import share

_NARROW = 32  # columns that are worth a vector
_SHARE_COLUMNS = 1 << 17  # elements of columns that are worth a thread
_WIDTH = 512  # numbers that are added in one dot product
_SHARE = 1 << 19  # elements below which a thread is not worth waking for sums,
_SHARE_COMPILED = 1 << 18  # one of OpenMP's for compiled ones,
_COMPILED = 1 << 15
_SIDE = 16  # numbers in a row of a triangle of ones
_SHARE_TRIANGLES = 1 << 17  # for running sums by products,
_SHARE_RUNNING = 1 << 15  # and for running sums, where each number waits for the one before
ndarray = np.ndarray
f32, f64 = np.dtype("float32"), np.dtype("float64")
_ONES = {np.dtype(d): np.ones(8192, d) for d in ("float32", "float64")}


def total(x: Any) -> Any:
    """Return the sum of an array of floats."""
    if not x.flags.c_contiguous:
        if x.flags.f_contiguous:
            x = x.T
        elif x.strides[-1] == x.itemsize and _WIDTH // 8 <= x.shape[-1] <= 8192:  # rows with gaps between them
            x = np.vecdot(x, _ONES[x.dtype][: x.shape[-1]])
        else:
            return np.add.reduce(x, None)
    flat = x.reshape(-1)
    found = _in_blocks("sum_blocks", "wsw", flat)
    if found is not None:
        return found
    while flat.size > 2048:
        n = flat.size // _WIDTH * _WIDTH
        rows = _row_sums(flat[:n].reshape(-1, _WIDTH))
        flat = rows if n == flat.size else np.concatenate((rows, flat[n:]))
    return np.add.reduce(flat)


def _in_blocks(name: str, kinds: str, *given: Any) -> Any:
    """Return the sum of what a compiled loop finds for each block of dense vectors; None where there is none."""
    x = given[0]
    loops = provider.loops("sum", x) if x.size > _COMPILED else None
    if loops is None:
        return None
    parts = np.empty(-(-x.size // _WIDTH), x.dtype)
    run_cuts(getattr(loops, name), kinds, parts.size, x.size, *given, _WIDTH, parts, least=_SHARE_COMPILED)
    return np.add.reduce(parts)


def dot(x: Any, y: Any) -> Any:
    """Return the sum of the products of two dense arrays of one shape and dtype."""
    x, y = x.reshape(-1), y.reshape(-1)
    n = x.size // _WIDTH * _WIDTH
    if n < 8 * _WIDTH:
        return x @ y
    rows = _row_sums(x[:n].reshape(-1, _WIDTH), y[:n].reshape(-1, _WIDTH))
    return total(rows) + x[n:] @ y[n:]


def _row_sums(x: Any, y: Any = None) -> Any:
    """Return the sums of rows; times those of `y`, if given."""
    n, width = x.shape
    out = np.empty(n, x.dtype)
    if x.size > _COMPILED:
        # At once, not only where loops are loaded: the same sum is to have the same bits all along.
        loops = provider.loops("sum", x) if y is None and x.flags.c_contiguous else None
        if loops is not None:
            run_rows(loops.sum_rows, "rv", x, out, count=pieces(x, _SHARE_COMPILED))
            return out
    ones = _ONES[x.dtype][:width]

    def work(start: int, stop: int) -> None:
        np.vecdot(x[start:stop], ones if y is None else y[start:stop], out=out[start:stop])

    share(work, n, max(_SHARE // width, 1))
    return out


def _is_dense(x: Any, axes: Any, keepdims: bool) -> bool:
    return x.dtype in _ONES and bool(axes) and x.flags.c_contiguous


@override("sum", least=sizes.SUM, when=_is_dense)
def sum_over_axes(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """Return the sums of a dense array along axes."""
    out = sums(x, axes)
    if out is None:
        return NotImplemented
    return out.reshape([1 if i in axes else n for i, n in enumerate(x.shape)]) if keepdims else out


@override.around("sum_all")
def _sum_all(definition: Any) -> Any:
    def sum_all(x: Any) -> Any:
        if type(x) is ndarray and (x.dtype is f32 or x.dtype is f64):
            return total(x) if x.size >= sizes.SUM else np.add.reduce(x, None)
        return definition(x)

    return sum_all


@override.around("sum_to")
def _sum_to(definition: Kernel) -> Kernel:
    def sum_to(x: Array, shape: Shape) -> Array:
        if type(x) is not ndarray:
            return definition(x, shape)
        lead = x.ndim - len(shape)
        if x.shape[lead:] == shape:
            axes: tuple[int, ...] = (0,) if lead == 1 else tuple(range(lead))
        else:
            axes = (*range(lead), *[lead + i for i, n in enumerate(shape) if n == 1 != x.shape[lead + i]])
        if not axes:
            return x.reshape(shape)
        if x.size < sizes.SUM or x.dtype.char not in "fd":
            total = np.add.reduce(x, axes)
            return total if len(axes) == lead else total.reshape(shape)
        found = sums_of_many(x, axes)
        return (np.add.reduce(x, axes) if found is None else found).reshape(shape)

    return sum_to


@override("sum", gradient="x")
def sum_backward(g: Any, x_shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    """Return the gradient of a sum: a copy of a few elements is read faster than a view without strides."""
    if not g.ndim:
        return sum_all_backward(g, x_shape)
    kept = g.reshape([1 if i in axes else n for i, n in enumerate(x_shape)])
    if math.prod(x_shape) > sizes.BROADCAST:
        return np.broadcast_to(kept, x_shape)
    out = np.empty(x_shape, g.dtype)
    out[...] = kept
    return out


@override.around("sum_all", gradient="x")
def _sum_all_x(rule: Any) -> Any:
    return lambda g, x_shape: sum_all_backward(g, x_shape) if type(g) is ndarray else rule(g, x_shape)


def sum_all_backward(g: Any, x_shape: tuple[int, ...]) -> Any:
    """Return the gradient of the sum of all elements."""
    if math.prod(x_shape) > sizes.BROADCAST:
        return np.broadcast_to(g, x_shape)
    out = np.empty(x_shape, g.dtype)
    out[...] = g
    return out


@override("mean", least=sizes.SUM, when=_is_dense)
def mean_over_axes(x: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """Return the means of a dense array along axes."""
    total = sum_over_axes(x, axes, keepdims)
    return total if total is NotImplemented else total / x.dtype.type(math.prod([x.shape[i] for i in axes]))


@override("mean_all", least=sizes.SUM, when=lambda x: x.dtype in _ONES)
def mean_all(x: Any) -> Any:
    """Return the mean of all elements."""
    return total(x) / x.dtype.type(x.size)


@override("mean", gradient="x")
def mean_backward(g: Any, x_shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    """Return the gradient of a mean."""
    return sum_backward(np.asarray(g / max(math.prod([x_shape[i] for i in axes]), 1)), x_shape, axes)


@override("mean_all", gradient="x")
def mean_all_backward(g: Any, x_shape: tuple[int, ...]) -> Any:
    """Return the gradient of the mean of all elements."""
    return sum_all_backward(g / max(math.prod(x_shape), 1), x_shape)


def sums(x: Any, axes: tuple[int, ...]) -> Any:
    """Return the sums of a dense array over leading or trailing axes; None where NumPy does it better."""
    rank, count = x.ndim, len(axes)
    if count == rank:
        return total(x)
    n = math.prod([x.shape[i] for i in axes])
    if not 8 <= n <= 8192:
        return None
    if axes == tuple(range(rank - count, rank)):
        return _row_sums(x.reshape(-1, n)).reshape(x.shape[: rank - count])
    if axes == tuple(range(count)):
        return _column_sums(x.reshape(n, -1)).reshape(x.shape[count:])
    return None


def row_products(x: Any) -> Any:
    """Return the products along the last axis; None where NumPy must do."""
    loops = provider.loops("sum", x) if x.flags.c_contiguous else None
    if loops is None:
        return None
    rows, out = x.reshape(-1, x.shape[-1]), np.empty(x.shape[:-1], x.dtype)
    run_rows(loops.product_rows, "rv", rows, out.reshape(-1), count=pieces(rows, _SHARE_COMPILED))
    return out


def row_products_back(numbers: Any, x: Any) -> Any:
    """Return a number for each row, divided by the row's elements; None where one is zero, or NumPy must do."""
    loops = provider.loops("sum", x) if x.flags.c_contiguous and numbers.dtype is x.dtype else None
    if loops is None:
        return None
    rows, out = x.reshape(-1, x.shape[-1]), np.empty(x.shape, x.dtype)
    given = np.ascontiguousarray(numbers).reshape(-1), out.reshape(rows.shape), np.empty(len(rows), x.dtype)
    run_rows(loops.product_back_rows, "rvrv", rows, *given, count=pieces(rows, _SHARE_COMPILED))
    return None if given[2].any() else out


def _column_sums(x: Any) -> Any:
    """Return the sums of columns."""
    rows, width = x.shape
    loops = provider.loops("sum", x) if width >= _NARROW else None
    if loops is None:
        return _ONES[x.dtype][:rows] @ x
    out = np.empty(width, x.dtype)
    run_cuts(loops.sum_columns, "wssw", width, x.size, x.reshape(-1), rows, width, out, least=_SHARE_COMPILED)
    return out


def sums_of_many(x: Any, axes: tuple[int, ...]) -> Any:
    """Return the sums of any array of floats over some axes, one number repeated among them; None as `sums` does."""
    if uniform(x):
        rest = [n for i, n in enumerate(x.shape) if i not in axes]
        return np.full(rest, x[(0,) * x.ndim] * x.dtype.type(x.size // math.prod(rest)), x.dtype)
    return sums(x, axes) if x.flags.c_contiguous else None


def running_sums(x: Any, axis: int, reverse: bool) -> Any:
    """Return the sums of the elements up to each along an axis (from each on, if `reverse`) of an array of floats."""
    out = np.empty(x.shape, x.dtype)
    lead, trail = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    if trail >= _NARROW and provider.loops("running", x) is not None:
        _running_columns(x, lead, trail, reverse, out)
        return out
    source, target = x.reshape(lead, x.shape[axis], trail), out.reshape(lead, x.shape[axis], trail)
    if reverse:
        source, target = source[:, ::-1], target[:, ::-1]
    if trail >= _WIDTH // 4:  # whole rows are added at once

        def by_rows(start: int, stop: int) -> None:
            for source_of, target_of in zip(source, target, strict=True):
                row = target_of[0, start:stop]
                row[...] = source_of[0, start:stop]
                for i in range(1, len(source_of)):
                    row = np.add(row, source_of[i, start:stop], out=target_of[i, start:stop])

        share(by_rows, trail, _SHARE_RUNNING)
    elif trail == 1 and lead > 1 and (loops := provider.loops("running", x)) is not None:
        rows = np.ascontiguousarray(x).reshape(lead, x.shape[axis])
        run_rows(loops.running_sum_rows, "rbr", rows, reverse, out.reshape(rows.shape))
        return out
    elif trail == 1 and lead > 1 and x.size >= _COMPILED and _by_triangles(x, lead, reverse, out):
        return out
    elif lead > 1:

        def one_by_one(start: int, stop: int) -> None:
            np.add.accumulate(source[start:stop], 1, None, target[start:stop])

        share(one_by_one, lead, max(_SHARE_RUNNING // max(x[0].size, 1), 1))
    else:
        np.add.accumulate(source, 1, None, target)
    return out


def _by_triangles(x: Any, lead: int, reverse: bool, out: Any) -> bool:
    """Write running sums of rows, as products of short pieces with a triangle of ones; return whether that can be.

    NumPy waits for each sum before it adds the next number; BLAS does not. Zeros times an infinity are no zeros, so
    rows whose sums are not finite are not for it.
    """
    width = x.shape[-1]
    count, rest = divmod(width, _SIDE)
    if count < 2:
        return False
    rows, sums = np.ascontiguousarray(x).reshape(lead, width), out.reshape(lead, width)
    triangle = np.tri(_SIDE, dtype=x.dtype) if reverse else np.tri(_SIDE, dtype=x.dtype).T
    way = slice(None, None, -1) if reverse else slice(None)
    first = rest if reverse else 0  # where pieces begin
    tail = slice(0, rest) if reverse else slice(width - rest, None)
    later = slice(rest, width - _SIDE) if reverse else slice(_SIDE, width - rest)  # all but the first to be summed
    finite = True

    def work(start: int, stop: int) -> None:
        nonlocal finite
        given, found = rows[start:stop], sums[start:stop]
        shape = (stop - start, count, _SIDE)
        written = _cut(found[:, first:], shape)
        np.matmul(_cut(given[:, first:], shape), triangle, out=written)
        before = np.add.accumulate(written[:, :, 0 if reverse else -1][:, way], 1)
        finite = finite and bool(np.isfinite(before).all())
        found[:, later] += np.repeat(before[:, :-1][:, way], _SIDE, 1)
        if rest:
            found[:, tail] = (np.add.accumulate(given[:, tail][:, way], 1) + before[:, -1:])[:, way]

    with blas.alone:
        share(work, lead, max(_SHARE_TRIANGLES // width, 1))
    return finite


def _cut(rows: Any, shape: tuple[int, ...]) -> Any:
    """Return a view of rows, each cut into short pieces."""
    step = rows.itemsize
    return np.lib.stride_tricks.as_strided(rows, shape, (rows.strides[0], shape[2] * step, step))


def running_products(x: Any, axis: int) -> Any:
    """Return the products of the elements up to each along an axis of an array of floats."""
    loops = provider.loops("running", x) if axis == x.ndim - 1 else None
    return x.cumprod(axis=axis) if loops is None else _by_rows(loops.running_product_rows, x)


def running_products_back(g: Any, x: Any, y: Any, axis: int) -> Any:
    """Return the gradient of an array whose running products are `y`; None where there are only NumPy's passes."""
    loops = provider.loops("running", x) if axis == x.ndim - 1 and g.dtype is x.dtype else None
    return None if loops is None else _by_rows(loops.running_product_back_rows, g, x, y)


def _by_rows(loop: Any, *arrays: Any) -> Any:
    """Return what a loop over the rows of arrays of one shape writes."""
    width = arrays[0].shape[-1]
    out = np.empty(arrays[0].shape, arrays[0].dtype)
    rows = [np.ascontiguousarray(a).reshape(-1, width) for a in (*arrays, out)]
    run_rows(loop, "r" * len(rows), *rows)
    return out


def _running_columns(x: Any, lead: int, trail: int, reverse: bool, out: Any) -> None:
    """Write running sums down the columns of matrices; each thread has some of the columns."""
    from . import moves

    step = 0 if uniform(x) else trail
    rows = np.ascontiguousarray(x).reshape(-1) if step else np.full(trail, x[(0,) * x.ndim], x.dtype)
    given = (rows, step, lead, x.size // (lead * trail), trail, int(reverse), out.reshape(-1))
    run_cuts(moves.running_sums, "wsssssw", trail, x.size, *given, least=_SHARE_COLUMNS)


def extremes(x: Any, axis: int, largest: bool) -> Any:
    """Return the extremes along an axis other than the last, and their places; None where NumPy does as well."""
    lead, trail = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    if trail < _NARROW or not x.flags.c_contiguous:
        return None
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    if provider.loops("extreme", x) is None:
        found = _extremes_of_columns(x.reshape(-1, trail), largest) if lead == 1 else None
        return None if found is None else [f.reshape(shape) for f in found]
    from . import moves

    values, places = np.empty(shape, x.dtype), np.empty(shape, np.int64)
    given = (lead, x.shape[axis], trail, np.float32(-1 if largest else 1), values.reshape(-1), places.reshape(-1))
    run_cuts(moves.extreme, "wsssfwl", trail, x.size, x.reshape(-1), *given, least=_SHARE_COLUMNS)
    return values, places


def _extremes_of_columns(x: Any, largest: bool) -> Any:
    """Return the extremes of a matrix's columns, and their places, found where a column equals its extreme.

    NumPy looks for places column by column, which takes ten times as long as to look for the extremes.
    None where there are many equals, or NaNs, which equal nothing.
    """
    values = (np.maximum if largest else np.minimum).reduce(x, 0)
    found = np.flatnonzero(x == values)
    if not values.size <= found.size <= 2 * values.size:
        return None
    rows, columns = np.divmod(found[::-1], values.size)  # the first of equals is written last
    places = np.full(values.size, -1)
    places[columns] = rows
    return None if places.min() < 0 else (values, places)
