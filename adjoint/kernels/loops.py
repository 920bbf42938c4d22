"""Loops that Numba compiles, for what NumPy needs many passes for and oneDNN has not.

They take blocks of rows and let go of the interpreter's lock; `threads.share` gives each thread its blocks, so
that Numba's own threads, which do not survive a fork, are never started. Machine code is kept on disk by Numba,
beside this file or in the user's cache. Only imported where Numba is installed and an array is large.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped, unused-ignore]
from numba.extending import intrinsic

# NaNs and infinities keep their meaning; sums may be taken in any order, and products fused with sums.
_EXACT = {"contract", "nsz"}
_FREE = {"contract", "nsz", "reassoc", "arcp"}


def _compiled(flags: set[str]) -> Any:
    return numba.njit(nogil=True, cache=True, fastmath=flags, error_model="numpy")


@intrinsic
def _as_float(context: Any, bits: Any) -> Any:
    """Return the float32 that an int32 is in memory."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.FloatType())

    return numba.float32(numba.int32), generate


_LOG2E, _LN2_HIGH, _LN2_LOW = np.float32(1.44269504), np.float32(0.693359375), np.float32(-2.12194440e-4)
_C0, _C1, _C2 = np.float32(1 / 2), np.float32(1 / 6), np.float32(0.0416657343)
_C3, _C4, _C5 = np.float32(0.00833344236), np.float32(0.00139304355), np.float32(0.000198756912)
_HALF, _ONE, _LEAST, _MOST = np.float32(0.5), np.float32(1), np.float32(-88.3), np.float32(88.7)


@_compiled(_EXACT)
def _exp(x: Any) -> Any:
    """Return the exponential: a power of two times a polynomial; it vectorizes, as calls to libm do not."""
    x = _LEAST if x < _LEAST else x
    x = _MOST if x > _MOST else x
    n = np.floor(x * _LOG2E + _HALF)
    r = x - n * _LN2_HIGH
    r = r - n * _LN2_LOW
    p = _C4 + r * _C5
    p = _C3 + r * p
    p = _C2 + r * p
    p = _C1 + r * p
    p = _C0 + r * p
    p = _ONE + r + r * r * p
    return p * _as_float(np.int32((np.int32(n) + np.int32(127)) << np.int32(23)))


@_compiled(_FREE)
def softmax_rows(x: Any, top: Any, out: Any) -> None:
    """Write the softmax of rows, given their maxima."""
    for i in range(x.shape[0]):
        t, total = top[i], np.float32(0)
        for j in range(x.shape[1]):
            e = _exp(x[i, j] - t)
            out[i, j] = e
            total += e
        share = _ONE / total
        for j in range(x.shape[1]):
            out[i, j] *= share


@_compiled(_FREE)
def _sum_exp(row: Any, top: Any) -> Any:
    total = np.float32(0)
    for j in range(row.shape[0]):
        total += _exp(row[j] - top)
    return total


@_compiled(_EXACT)
def logsumexp_rows(x: Any, top: Any, out: Any) -> None:
    """Write the logarithms of the sums of exponentials of rows, given their maxima."""
    for i in range(x.shape[0]):
        out[i] = np.log(_sum_exp(x[i], top[i])) + top[i]


@_compiled(_EXACT)
def log_softmax_rows(x: Any, top: Any, out: Any) -> None:
    """Write the logarithms of the softmax of rows, given their maxima."""
    for i in range(x.shape[0]):
        t = top[i]
        logs = np.log(_sum_exp(x[i], t))
        for j in range(x.shape[1]):
            out[i, j] = (x[i, j] - t) - logs


@_compiled(_FREE)
def softmax_back_rows(g: Any, y: Any, out: Any) -> None:
    """Write the gradient of rows whose softmax is `y`."""
    for i in range(g.shape[0]):
        total = np.float32(0)
        for j in range(g.shape[1]):
            total += g[i, j] * y[i, j]
        for j in range(g.shape[1]):
            out[i, j] = (g[i, j] - total) * y[i, j]


@_compiled(_FREE)
def log_softmax_back_rows(g: Any, y: Any, out: Any) -> None:
    """Write the gradient of rows whose softmax has the logarithm `y`."""
    for i in range(g.shape[0]):
        total = np.float32(0)
        for j in range(g.shape[1]):
            total += g[i, j]
        for j in range(g.shape[1]):
            out[i, j] = g[i, j] - _exp(y[i, j]) * total


@_compiled(_FREE)
def cross_entropy_back_rows(x: Any, logs: Any, shares: Any, out: Any) -> None:
    """Write each row's softmax, given its logsumexp, times its share."""
    for i in range(x.shape[0]):
        t, s = logs[i], shares[i]
        for j in range(x.shape[1]):
            out[i, j] = _exp(x[i, j] - t) * s
