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
    dnn = provider.onednn("bmm", x, count * each)
    out = None if dnn is None else dnn.matmul(x, y)
    if out is None:
        out = _shared(x, y) if threads.count > 1 and each < _ONE and count > 1 and blas.is_known() else x @ y
    return out.reshape(*lead, *out.shape[1:])


def _shared(x: Any, y: Any) -> Any:
    out = np.empty((len(x), x.shape[1], y.shape[2]), x.dtype)
    with blas.alone:
        threads.share(lambda i, j: np.matmul(x[i:j], y[i:j], out=out[i:j]), len(x))
    return out
