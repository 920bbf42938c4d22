"""Sums, means, products, variances and norms. Large arrays are added by dot products, faster than NumPy and as exactly.

The order in which numbers are added depends on the shape alone, never on the number of threads.
"""

from __future__ import annotations

import math

import numpy as np

from ..._typing import Array, Axes, Kernel, Shape
from ...scalar import middle
from . import provider, sizes
from .copying import uniform
from .rows import pieces, run_cuts, run_rows
from .table import override
from .threads import share

_WIDTH = 512  # elements that are added in one dot product
ndarray = np.ndarray
f32, f64 = np.dtype("float32"), np.dtype("float64")
_reduce: Kernel = middle.total
_multiply: Kernel = np.multiply.reduce
_ONES = {np.dtype(d): np.ones(8192, d) for d in ("float32", "float64")}


def total(x: Array) -> Array:
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


def _in_blocks(name: str, kinds: str, *given: Array) -> Array | None:
    """Return the sum of what a compiled loop finds for each block of dense vectors; None where there is none."""
    x = given[0]
    loops = provider.loops("sum", x) if x.size > sizes.COMPILED_SUM else None
    if loops is None:
        return None
    parts = np.empty(-(-x.size // _WIDTH), x.dtype)
    run_cuts(getattr(loops, name), kinds, parts.size, x.size, *given, _WIDTH, parts, least=sizes.THREAD_SUM_COMPILED)
    return np.add.reduce(parts)


def dot(x: Array, y: Array) -> Array:
    """Return the sum of the products of two dense arrays of one shape and dtype."""
    x, y = x.reshape(-1), y.reshape(-1)
    n = x.size // _WIDTH * _WIDTH
    if n < 8 * _WIDTH:
        return x @ y
    rows = _row_sums(x[:n].reshape(-1, _WIDTH), y[:n].reshape(-1, _WIDTH))
    return total(rows) + x[n:] @ y[n:]


def _row_sums(x: Array, y: Array | None = None) -> Array:
    """Return the sums of rows; times those of `y`, if given."""
    n, width = x.shape
    out = np.empty(n, x.dtype)
    if x.size > sizes.COMPILED_SUM:
        # At once, not only where loops are loaded: the same sum is to have the same bits all along.
        loops = provider.loops("sum", x) if y is None and x.flags.c_contiguous else None
        if loops is not None:
            run_rows(loops.sum_rows, "rv", x, out, count=pieces(x, sizes.THREAD_SUM_COMPILED))
            return out
    ones = _ONES[x.dtype][:width]

    def work(start: int, stop: int) -> None:
        np.vecdot(x[start:stop], ones if y is None else y[start:stop], out=out[start:stop])

    share(work, n, max(sizes.THREAD_SUM // width, 1))
    return out


def _is_dense(x: Array, axes: Axes, keepdims: bool) -> bool:
    return x.dtype in _ONES and bool(axes) and x.flags.c_contiguous


@override("sum", least=sizes.SUM, when=_is_dense)
def sum_over_axes(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """Return the sums of a dense array along axes."""
    out = sums(x, axes)
    if out is None:
        return NotImplemented
    return out.reshape([1 if i in axes else n for i, n in enumerate(x.shape)]) if keepdims else out


@override("sum", least=middle.LEAST, when=lambda x, axes, keepdims: middle.behind(x, axes) > 0 and x.dtype in _ONES)
def sum_between(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """Return the sums along an axis with only a small number of elements behind it in memory."""
    return middle.total(x, axes, None, None, keepdims)  # type: ignore[no-any-return]


@override.around("sum_all")
def _sum_all(definition: Kernel) -> Kernel:
    def sum_all(x: Array) -> Array:
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
            found = middle.total(x, axes)
            return found if len(axes) == lead else found.reshape(shape)
        found = sums_of_many(x, axes)
        return (middle.total(x, axes) if found is None else found).reshape(shape)

    return sum_to


@override("sum", gradient="x")
def sum_backward(g: Array, x_shape: tuple[int, ...], axes: tuple[int, ...]) -> Array:
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
def _sum_all_x(rule: Kernel) -> Kernel:
    return lambda g, x_shape: sum_all_backward(g, x_shape) if type(g) is ndarray else rule(g, x_shape)


def sum_all_backward(g: Array, x_shape: tuple[int, ...]) -> Array:
    """Return the gradient of the sum of all elements."""
    if math.prod(x_shape) > sizes.BROADCAST:
        return np.broadcast_to(g, x_shape)
    out = np.empty(x_shape, g.dtype)
    out[...] = g
    return out


@override("mean", least=sizes.SUM, when=_is_dense)
def mean_over_axes(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    """Return the means of a dense array along axes."""
    total = sum_over_axes(x, axes, keepdims)
    return total if total is NotImplemented else total / x.dtype.type(math.prod([x.shape[i] for i in axes]))


@override("mean_all", least=sizes.SUM, when=lambda x: x.dtype in _ONES)
def mean_all(x: Array) -> Array:
    """Return the mean of all elements."""
    return total(x) / x.dtype.type(x.size)


@override("mean", gradient="x")
def mean_backward(g: Array, x_shape: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    """Return the gradient of a mean."""
    return sum_backward(np.asarray(g / max(math.prod([x_shape[i] for i in axes]), 1)), x_shape, axes)


@override("mean_all", gradient="x")
def mean_all_backward(g: Array, x_shape: tuple[int, ...]) -> Array:
    """Return the gradient of the mean of all elements."""
    return sum_all_backward(g / max(math.prod(x_shape), 1), x_shape)


def sums(x: Array, axes: tuple[int, ...]) -> Array | None:
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


def _column_sums(x: Array) -> Array:
    """Return the sums of columns."""
    rows, width = x.shape
    loops = provider.loops("sum", x) if width >= sizes.VECTOR else None
    if loops is None:
        return _ONES[x.dtype][:rows] @ x
    out = np.empty(width, x.dtype)
    run_cuts(loops.sum_columns, "wssw", width, x.size, x.reshape(-1), rows, width, out, least=sizes.THREAD_SUM_COMPILED)
    return out


def sums_of_many(x: Array, axes: tuple[int, ...]) -> Array | None:
    """Return the sums of any array of floats over some axes, one number repeated among them; None as `sums` does."""
    if uniform(x):
        rest = [n for i, n in enumerate(x.shape) if i not in axes]
        return np.full(rest, x[(0,) * x.ndim] * x.dtype.type(x.size // math.prod(rest)), x.dtype)
    return sums(x, axes) if x.flags.c_contiguous else None


def _add(x: Array, axes: Axes, keepdims: bool) -> Array:
    """Return the sums of an array of float32 or float64 along axes."""
    if x.size >= sizes.SUM and axes and x.flags.c_contiguous:
        found = sum_over_axes(x, axes, keepdims)
        if found is not NotImplemented:
            return found
    return _reduce(x, axes, None, None, keepdims)


def _kept(value: Array, rank: int, axes: Axes) -> Array:
    """Return a reduction's result, or its gradient, with the reduced axes in place, at size 1."""
    if not value.ndim or value.ndim == rank:
        return value
    left = iter(value.shape)
    return value.reshape([1 if i in axes else next(left) for i in range(rank)])


# --- Products -----------------------------------------------------------------------------------------------


def _is_long_row(x: Array, axes: Axes) -> bool:
    return axes == (x.ndim - 1,) and x.shape[-1] >= sizes.PRODUCT_ROW and x.dtype.kind == "f"


@override.around("prod")
def _prod(definition: Kernel) -> Kernel:
    def prod(x: Array, axes: Axes, keepdims: bool) -> Array:
        if type(x) is not ndarray or x.dtype.char not in "fdFD":
            return definition(x, axes, keepdims)
        if x.size > sizes.SMALL and _is_long_row(x, axes):
            found = _row_products(x)
            if found is not None:
                return found[..., None] if keepdims else found
            x = _halved(x)
        return _multiply(x, axes, None, None, keepdims)

    return prod


def _row_products(x: Array) -> Array | None:
    """Return the products along the last axis; None where there are no compiled loops."""
    loops = provider.loops("sum", x) if x.flags.c_contiguous else None
    if loops is None:
        return None
    rows, out = x.reshape(-1, x.shape[-1]), np.empty(x.shape[:-1], x.dtype)
    run_rows(loops.product_rows, "rv", rows, out.reshape(-1), count=pieces(rows, sizes.THREAD_SUM_COMPILED))
    return out


def _halved(x: Array) -> Array:
    """Return an array with the same products along its last axis, which is short: halves multiply in vectors."""
    while (n := x.shape[-1]) >= sizes.PRODUCT_ROW:
        half = n // 2
        first = x[..., :half] * x[..., half : 2 * half]
        if n % 2:
            first[..., 0] *= x[..., -1]
        x = first
    return x


@override.around("prod", gradient="x")
def _prod_x(rule: Kernel) -> Kernel:
    """Return the gradient of products of factors that are not zero."""

    def prod_backward(g: Array, x: Array, out: Array, axes: Axes, keepdims: bool) -> Array:
        if type(g) is not ndarray or type(x) is not ndarray:
            return rule(g, x, out, axes, keepdims)
        if x.size >= sizes.PRODUCT_BACKWARD and _is_long_row(x, axes):
            found = _row_products_backward(g * out, x)
            if found is not None:
                return found
        return _kept(g * out, x.ndim, axes) / x if x.all() else rule(g, x, out, axes, keepdims)

    return prod_backward


def _row_products_backward(numbers: Array, x: Array) -> Array | None:
    """Return a number for each row, divided by the row's elements; None where one is zero, or without loops."""
    loops = provider.loops("sum", x) if x.flags.c_contiguous and numbers.dtype is x.dtype else None
    if loops is None:
        return None
    rows, out = x.reshape(-1, x.shape[-1]), np.empty(x.shape, x.dtype)
    given = np.ascontiguousarray(numbers).reshape(-1), out.reshape(rows.shape), np.empty(len(rows), x.dtype)
    run_rows(loops.product_back_rows, "rvrv", rows, *given, count=pieces(rows, sizes.THREAD_SUM_COMPILED))
    return None if given[2].any() else out


# --- Variances ----------------------------------------------------------------------------------------------


def _away(x: Array, axes: Axes) -> tuple[Array, int]:
    """Return the distances of the elements from their means, and of how many elements these are."""
    n = math.prod([x.shape[i] for i in axes])
    return x - _add(x, axes, True) / x.dtype.type(n), n


def _variance(definition: Kernel, root: bool) -> Kernel:
    def variance(x: Array, axes: Axes, correction: float, keepdims: bool) -> Array:
        if type(x) is not ndarray or (x.dtype is not f32 and x.dtype is not f64):
            return definition(x, axes, correction, keepdims)
        away, n = _away(x, axes)
        away *= away
        found = _add(away, axes, keepdims) / x.dtype.type(max(n - correction, 0))
        return np.sqrt(found) if root else found

    return variance


override.around("var")(lambda definition: _variance(definition, False))
override.around("std")(lambda definition: _variance(definition, True))


@override("std", gradient="x", when=lambda g, x, out, *saved: x.dtype.char in "fd" and out.all())
def std_backward(g: Array, x: Array, out: Array, axes: Axes, correction: float, keepdims: bool) -> Array:
    """Return the gradient of standard deviations none of which is zero."""
    away, n = _away(x, axes)
    free = max(n - correction, 0)
    return _kept(g / out, x.ndim, axes) * (away * (1 / free if free else math.inf))


# --- Norms --------------------------------------------------------------------------------------------------


@override.around("vector_norm")
def _vector_norm(definition: Kernel) -> Kernel:
    def vector_norm(x: Array, p: float, axes: Axes, keepdims: bool) -> Array:
        if p != 2 or type(x) is not ndarray or (x.dtype is not f32 and x.dtype is not f64):
            return definition(x, p, axes, keepdims)
        if len(axes) == x.ndim and x.ndim and not keepdims and x.flags.c_contiguous:
            flat = x.reshape(-1)
            return np.sqrt(flat @ flat)
        return np.sqrt(_add(x * x, axes, keepdims))

    return vector_norm


@override.around("vector_norm", gradient="x")
def _vector_norm_x(rule: Kernel) -> Kernel:
    """Return the gradient of lengths of vectors none of which is zero."""

    def vector_norm_backward(g: Array, x: Array, out: Array, p: float, axes: Axes, keepdims: bool) -> Array:
        if p == 2 and type(g) is ndarray is type(x) and out.all():
            return x * _kept(g / out, x.ndim, axes)
        return rule(g, x, out, p, axes, keepdims)

    return vector_norm_backward


# --- Booleans of whole arrays -------------------------------------------------------------------------------


def _counting(result: Kernel) -> Kernel:
    """Return a reduction of a whole array to the number of elements that are not zero, which NumPy finds fastest."""

    def around(definition: Kernel) -> Kernel:
        def counted(x: Array, axes: Axes, keepdims: bool) -> Array:
            if type(x) is not ndarray or keepdims or len(axes) != x.ndim or x.dtype.kind not in "bfic":
                return definition(x, axes, keepdims)
            return np.array(result(int(np.count_nonzero(x)), x.size))

        return counted

    return around


override.around("all")(_counting(lambda count, size: count == size))
override.around("any")(_counting(lambda count, size: count > 0))
override.around("count_nonzero")(_counting(lambda count, size: count))
