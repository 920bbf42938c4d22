"""Matrix multiplications: which library computes them, and with which threads.

BLAS's threads wait for more work by spinning, and take the cores from oneDNN's for milliseconds. Where oneDNN is
installed, it computes whatever BLAS would split among threads, and batches of matrices, too. With
NumPy alone, threads take the matrices of a batch in turn while BLAS uses one thread for each.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ..._typing import Array, DType, Kernel
from . import blas, provider, sizes, threads
from .sizes import BATCH_MATMUL as _FEW
from .sizes import BLAS_THREADS as _ONE
from .sizes import DOT as _SMALL
from .sizes import MATMUL as LARGE
from .sizes import MATVEC as _ONE_THREAD
from .table import override

ndarray = np.ndarray
f32, f64 = np.dtype("float32"), np.dtype("float64")


class _Precision:
    """How precise products of float32 matrices must be; only a GPU can do with less than float32.

    `word` is what torch calls it: "highest", or "high" and "medium", which both allow TF32 here.
    """

    word = "highest"
    tf32 = False

    def set(self, word: str) -> None:
        """Set it by torch's word."""
        self.word, self.tf32 = word, word != "highest"


precision = _Precision()


def dot_matrices(x: Array, y: Array) -> Array:
    """Return the product of two matrices, in one dtype that BLAS has."""
    if x.size * y.shape[-1] <= LARGE:
        if x.size == 1 or y.size == 1:  # which `dot` takes for a factor, and 0 times infinity for 0
            return x * y
        return x.dot(y)  # `@` takes 0.4 µs more, and five times as long for (n, 1) @ (1, m)
    result = _shared(x, y, None)
    return x.dot(y) if result is None else result


def dot_add(x: Array, y: Array, bias: Array | None) -> Array:
    """Return the product of two matrices, with `bias` added to each row."""
    result = None if x.size * y.shape[-1] <= LARGE else _shared(x, y, bias)
    if result is None:
        result = x * y if x.size == 1 or y.size == 1 else x.dot(y)  # as above
        result += bias
    return result


def dot_into(x: Any, y: Any, out: Any) -> None:
    """Write the product of two matrices, or of two batches of them, to `out`."""
    dnn = provider.onednn("matmul", x, x.size * y.shape[-1])
    if dnn is None or y.dtype is not x.dtype or not out.flags.c_contiguous or not dnn.matmul(x, y, out):
        np.matmul(x, y, out=out)


def _shared(x: Array, y: Array, bias: Array | None) -> Array | None:
    """Return the product where oneDNN's threads compute it, else None."""
    rows, columns = x.shape[0], y.shape[-1]
    dnn = provider.onednn("matmul", x, x.size * columns)
    if dnn is None or y.ndim != 2 or x.ndim != 2 or y.dtype is not x.dtype or x.shape[1] != y.shape[0]:
        return None
    out = np.empty((rows, columns), x.dtype)
    return out if dnn.matmul(x, y, out, bias) else None


def sum_rows(x: Array) -> Array:
    """Return the sum along all axes but the last; of more than a few rows as a product with ones, which is faster."""
    if x.size <= _SMALL or x.dtype.char not in "fd" or not x.flags.c_contiguous or not blas.is_known():
        return np.add.reduce(x, 0) if x.ndim == 2 else x.sum(axis=tuple(range(x.ndim - 1)))
    rows = x if x.ndim == 2 else x.reshape(-1, x.shape[-1])
    count = len(rows)
    if x.size <= _ONE_THREAD:
        return _ones(count, x.dtype).dot(rows)
    with blas.alone:
        return np.ones(count, x.dtype).dot(rows)


@functools.lru_cache(16)
def _ones(count: int, dtype: DType) -> Array:
    return np.ones(count, dtype)


def multiply_batches(x: Array, y: Array) -> Array:
    """Return the products of two batches of matrices with the same leading dims, which may be large."""
    lead, inner = x.shape[:-2], x.shape[-1]
    each = x.shape[-2] * inner * y.shape[-1]
    count = math.prod(lead)
    if count * each < LARGE or lead != y.shape[:-2] or x.dtype != y.dtype:
        return x @ y
    x, y = x.reshape(count, *x.shape[-2:]), y.reshape(count, *y.shape[-2:])
    result = np.empty((*lead, x.shape[1], y.shape[2]), x.dtype)
    out = result.reshape(count, *result.shape[-2:])
    dnn = provider.onednn("bmm", x, count * each)
    if dnn is None or not dnn.matmul(x, y, out):
        _multiply(x, y, out, each)
    return result


def _multiply(x: Any, y: Any, out: Any, each: int) -> None:
    few = each <= LARGE and len(x) * each < _FEW
    if few and y.strides[2] != y.itemsize:  # BLAS takes longer for a small transpose than to lay it out anew
        y = np.ascontiguousarray(y)
    if few or each >= _ONE or not blas.is_known():
        np.matmul(x, y, out=out)
        return
    with blas.alone:
        threads.share(lambda i, j: np.matmul(x[i:j], y[i:j], out=out[i:j]), len(x))


# --- What primitives are computed with ----------------------------------------------------------------


def _in_blas(x: Array, y: Array, *more: Array) -> bool:
    return type(x) is ndarray is type(y) and (x.dtype is f32 or x.dtype is f64)


@override.around("mm")
def _mm(definition: Kernel) -> Kernel:
    def mm(x: Array, y: Array) -> Array:
        if type(x) is ndarray is type(y) and (x.dtype is f32 or x.dtype is f64):
            return dot_matrices(x, y)
        return definition(x, y)

    return mm


@override.around("mm", gradient="x")
def _mm_x(rule: Kernel) -> Kernel:
    return lambda g, y: dot_matrices(g, y.T) if type(g) is ndarray is type(y) else rule(g, y)


@override.around("mm", gradient="y")
def _mm_y(rule: Kernel) -> Kernel:
    return lambda g, x: dot_matrices(x.T, g) if type(g) is ndarray is type(x) else rule(g, x)


@override("bmm", when=lambda x, y: x.dtype.kind in "fc" and x.dtype.itemsize > 2 and type(y) is ndarray)
def matmul(x: Array, y: Array) -> Array:
    """Return the product of matrices, vectors, or batches of these."""
    if y.ndim > 2 and x.ndim > 1 and x.shape[-1] == 1 == y.shape[-2]:
        return x * y  # a batch of outer products, which BLAS would be called for one by one
    if x.ndim > 2 and y.ndim == 2 and x.size and x.dtype is y.dtype:  # leading axes become rows of one matrix
        return dot_matrices(x.reshape(-1, x.shape[-1]), y).reshape(*x.shape[:-1], y.shape[1])
    if x.ndim == y.ndim > 2 and x.size >= sizes.BATCH and x.dtype.kind == "f":
        return multiply_batches(x, y)
    return x @ y


@override.around("bmm", gradient="x")
def _bmm_x(rule: Kernel) -> Kernel:
    def bmm_backward_x(g: Array, y: Array) -> Array:
        if type(g) is ndarray is type(y) and g.ndim >= y.ndim > 1:
            return matmul(g, y.swapaxes(-1, -2))
        return rule(g, y)

    return bmm_backward_x


@override.around("bmm", gradient="y")
def _bmm_y(rule: Kernel) -> Kernel:
    def bmm_backward_y(g: Array, x: Array) -> Array:
        if type(g) is ndarray is type(x) and g.ndim >= x.ndim > 1:
            return matmul(x.swapaxes(-1, -2), g)
        return rule(g, x)

    return bmm_backward_y


def _is_layer(x: Array, weight: Array, *bias: Array | None) -> bool:
    return weight.ndim == 2 and x.ndim > 0 and _in_blas(x, weight)


@override("project", when=_is_layer)
def project(x: Array, weight: Array) -> Array:
    """Return the product with a transposed matrix."""
    if x.ndim == 1 < x.size:
        return x.dot(weight.T)
    return dot_matrices(x, weight.T) if x.ndim == 2 else matmul(x, weight.T)


@override("project", gradient="x", when=_is_layer)
def project_backward_x(g: Array, y: Array) -> Array:
    """Return the gradient for what was multiplied."""
    if g.ndim == 1 < g.size:
        return g.dot(y)
    return dot_matrices(g, y) if g.ndim == 2 else matmul(g, y)


@override("project", gradient="y", when=lambda g, x: g.ndim == x.ndim > 0 and _in_blas(g, x))
def project_backward_y(g: Array, x: Array) -> Array:
    """Return the gradient for the matrix."""
    if g.ndim == 1:
        return g[:, None].dot(x[None])
    if g.ndim > 2:
        g, x = g.reshape(-1, g.shape[-1]), x.reshape(math.prod(x.shape[:-1]), x.shape[-1])
    return dot_matrices(g.T, x)


@override.around("linear")
def _linear(definition: Kernel) -> Kernel:
    def linear(x: Any, weight: Any, bias: Any) -> Any:
        if type(x) is ndarray and weight.ndim == 2 and bias.ndim == 1 and (x.dtype is f32 or x.dtype is f64):
            if x.ndim == 2:
                return dot_add(x, weight.T, bias)
            if x.ndim == 1:
                out = weight.dot(x) if x.size > 1 else weight @ x
                out += bias
                return out
            if x.size:
                return dot_add(x.reshape(-1, x.shape[-1]), weight.T, bias).reshape(*x.shape[:-1], len(bias))
        return definition(x, weight, bias)

    return linear


@override.around("linear", gradient="joint")
def _linear_joint(rule: Kernel) -> Kernel:
    def linear_backward(g: Array, x: Array, weight: Array, needs: tuple[bool, ...]) -> tuple[Array | None, ...]:
        if not (type(g) is ndarray is type(x) and weight.ndim == 2 and g.ndim and (g.dtype is f32 or g.dtype is f64)):
            return rule(g, x, weight, needs=needs)
        gx = project_backward_x(g, weight) if needs[0] else None
        gw = project_backward_y(g, x) if needs[1] else None
        return gx, gw, None if not needs[2] else sum_rows(g) if g.ndim > 1 else g

    return linear_backward


@functools.lru_cache(64)
def _around(shape: tuple[int, ...], axis: int) -> tuple[Any, Any]:
    """Return indices of a cross product's factors in flattened arrays: of what is added, of what is subtracted."""
    places = np.arange(math.prod(shape)).reshape(shape)
    following, last = (np.roll(places, -n, axis) for n in (1, 2))
    return np.stack((following, last)), np.stack((last, following))


@override("cross", when=lambda x, y, axis: x.size <= sizes.PLACES and type(y) is ndarray and x.shape == y.shape)
def cross(x: Array, y: Array, axis: int) -> Array:
    """Return the vector product of small arrays, by two calls that gather."""
    left, right = _around(x.shape, axis)
    products = x.ravel()[left] * y.ravel()[right]
    return products[0] - products[1]
