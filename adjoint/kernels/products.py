"""Products of many matrices: one per thread, instead of all threads on each.

oneDNN shares a batch out by itself. With NumPy alone, threads take matrices in turn while BLAS keeps to one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import blas, provider, threads

LARGE = 1 << 18  # products of numbers from which on a batch is shared
_ONE = 1 << 27  # products of numbers in one matrix from which on BLAS shares it as well itself


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
    if each >= _ONE or not blas.is_known():
        np.matmul(x, y, out=out)
        return
    with blas.alone:
        threads.share(lambda i, j: np.matmul(x[i:j], y[i:j], out=out[i:j]), len(x))
