"""Products of matrices: who computes them, and with which threads.

BLAS's threads wait for more work by spinning, and take the cores from oneDNN's for milliseconds: where oneDNN is
there, it computes whatever BLAS would share among threads. It shares a batch of matrices out by itself, too. With
NumPy alone, threads take the matrices of a batch in turn while BLAS keeps to one.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from . import blas, provider, threads

LARGE = 1 << 18  # products of numbers up to which BLAS keeps to one thread, and from which on a batch is shared
_SMALL = 1 << 10  # elements whose sum is as fast without a product
_ONE_THREAD = 1 << 14  # elements for whose product with a vector BLAS wakes nobody
_FEW = 1 << 23  # products of numbers in a batch of small matrices that take no longer than it takes to wake a thread
_ONE = 1 << 27  # products of numbers in one matrix from which on BLAS shares it as well itself


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


def dot_matrices(x: Any, y: Any) -> Any:
    """Return the product of two matrices, in one dtype that BLAS has."""
    if x.size * y.shape[-1] <= LARGE:
        return x.dot(y)  # `@` takes 0.4 µs more, and five times as long for (n, 1) @ (1, m)
    result = _shared(x, y, None)
    return x.dot(y) if result is None else result


def dot_add(x: Any, y: Any, bias: Any) -> Any:
    """Return the product of two matrices, with `bias` added to each row."""
    result = None if x.size * y.shape[-1] <= LARGE else _shared(x, y, bias)
    if result is None:
        result = x.dot(y)
        result += bias
    return result


def dot_into(x: Any, y: Any, out: Any) -> None:
    """Write the product of two matrices, or of two batches of them, to `out`."""
    dnn = provider.onednn("matmul", x, x.size * y.shape[-1])
    if dnn is None or y.dtype is not x.dtype or not out.flags.c_contiguous or not dnn.matmul(x, y, out):
        np.matmul(x, y, out=out)


def _shared(x: Any, y: Any, bias: Any) -> Any:
    """Return the product where oneDNN's threads compute it, else None."""
    rows, columns = x.shape[0], y.shape[-1]
    dnn = provider.onednn("matmul", x, x.size * columns)
    if dnn is None or y.ndim != 2 or x.ndim != 2 or y.dtype is not x.dtype or x.shape[1] != y.shape[0]:
        return None
    out = np.empty((rows, columns), x.dtype)
    return out if dnn.matmul(x, y, out, bias) else None


def sum_rows(x: Any) -> Any:
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
def _ones(count: int, dtype: Any) -> Any:
    return np.ones(count, dtype)


def multiply_batches(x: Any, y: Any) -> Any:
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
