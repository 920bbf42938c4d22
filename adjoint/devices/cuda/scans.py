"""Cumulative sums, products and extremes: a block scans each row, tile by tile; a thread walks down each column."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._typing import Array
from . import sizes
from .copies import contiguous, turn_into
from .launching import Kernels, dense, empty, is_float
from .table import override

# What is scanned: its parts, how one enters, how it is joined to those before, how it leaves.
_NUMBER = ("W v;", "E{__shfl_up_sync(0xffffffff, e.v, k)}", "E{(W)X(x, i)}", "X(y, i) = (T)e.v;")
_PLACED = (
    "W v; i64 at;",
    "E{__shfl_up_sync(0xffffffff, e.v, k), __shfl_up_sync(0xffffffff, e.at, k)}",
    "E{(W)X(x, i), i}",
    "X(y, i) = (T)e.v; X(places, i) = e.at;",
)
_OPS = {
    "sum": (*_NUMBER[:3], "E{a.v + b.v}", _NUMBER[3]),
    "prod": (*_NUMBER[:3], "E{a.v * b.v}", _NUMBER[3]),
    "logsumexp": (*_NUMBER[:3], "E{log_add(a.v, b.v)}", _NUMBER[3]),
    "amax": (*_PLACED[:3], "(b.v != b.v || (a.v == a.v && b.v >= a.v)) ? b : a", _PLACED[3]),
    "amin": (*_PLACED[:3], "(b.v != b.v || (a.v == a.v && b.v <= a.v)) ? b : a", _PLACED[3]),
    # The gradient of running products: s[i] = g[i] + x[i + 1] * s[i + 1], times the product before i.
    "prod_back": (
        "W f, v;",
        "E{__shfl_up_sync(0xffffffff, e.f, k), __shfl_up_sync(0xffffffff, e.v, k)}",
        "E{i + 1 < n ? (W)X(x, i + 1) : (W)0, (W)X(g, i)}",
        "E{a.f * b.f, b.v + b.f * a.v}",
        "X(y, i) = (T)(e.v * (i ? (W)X(out, i - 1) : (W)1));",
    ),
}
_TEXT = r"""
typedef wide_of<T>::type W;
#define X(a, i) a[base + (i) * step]
#define ITEMS 4
struct E { PARTS };
__device__ __forceinline__ W log_add(W a, W b) {
    W high = a > b || a != a ? a : b, low = a > b || a != a ? b : a;
    if (high == low && high - high != 0) return high;
    return high + log1p_exp(low - high);
}
__device__ __forceinline__ E join(E a, E b) { return JOIN; }
__device__ __forceinline__ E up(E e, int k) { return SHUFFLE; }
__device__ __forceinline__ E enter(const T* x, const T* g, const T* out, i64 base, i64 step, i64 i,
        i64 n) { return ENTER; }
__device__ __forceinline__ void leave(T* y, i64* places, const T* out, i64 base, i64 step, i64 i, E e) { LEAVE }
extern "C" __global__ void rows(const T* x, const T* g, const T* out, T* y, i64* places, i64 n, i64 reverse) {
    __shared__ E totals[32];
    i64 base = blockIdx.x * n;
    const i64 step = 1;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, warps = blockDim.x >> 5;
    E carry;
    for (i64 from = 0; from < n; from += blockDim.x * ITEMS) {
        E e[ITEMS];
        i64 first = from + threadIdx.x * ITEMS;
        #pragma unroll
        for (int j = 0; j < ITEMS; ++j) {
            i64 at = first + j < n ? first + j : n - 1;
            e[j] = enter(x, g, out, base, step, reverse ? n - 1 - at : at, n);
            if (j) e[j] = join(e[j - 1], e[j]);
        }
        E all = e[ITEMS - 1];
        #pragma unroll
        for (int k = 1; k < 32; k <<= 1) {
            E before = up(all, k);
            if (lane >= k) all = join(before, all);
        }
        if (lane == 31) totals[warp] = all;
        E ahead = up(all, 1);
        __syncthreads();
        bool any = from > 0 || threadIdx.x > 0;
        E start;
        bool there = false;
        if (from > 0) { start = carry; there = true; }
        for (int k = 0; k < warp; ++k) { start = there ? join(start, totals[k]) : totals[k]; there = true; }
        if (lane) { start = there ? join(start, ahead) : ahead; there = true; }
        E last = from > 0 ? carry : totals[0];
        for (int k = from > 0 ? 0 : 1; k < warps; ++k) last = join(last, totals[k]);
        carry = last;
        #pragma unroll
        for (int j = 0; j < ITEMS; ++j) {
            i64 at = first + j;
            if (at < n) leave(y, places, out, base, step, reverse ? n - 1 - at : at, any ? join(start, e[j]) : e[j]);
        }
        __syncthreads();
    }
}
// (A, n, B): a thread for each of A and B.
extern "C" __global__ void columns(const T* x, const T* g, const T* out, T* y, i64* places, i64 count, i64 n,
        i64 B, i64 reverse) {
    i64 column = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (column >= count) return;
    i64 base = column / B * n * B + column % B;
    const i64 step = B;
    E e;
    #pragma unroll 8
    for (i64 k = 0; k < n; ++k) {
        i64 i = reverse ? n - 1 - k : k;
        E next = enter(x, g, out, base, step, i, n);
        e = k ? join(e, next) : next;
        leave(y, places, out, base, step, i, e);
    }
}
"""


def _kernels(op: str) -> Kernels:
    parts, shuffle, enter, join, leave = _OPS[op]
    text = _TEXT.replace("PARTS", parts).replace("SHUFFLE", shuffle).replace("ENTER", enter)
    return Kernels(text.replace("JOIN", join).replace("LEAVE", leave), "T")


_SCANS = {op: _kernels(op) for op in _OPS}


def _scan(op: str, x: Array, g: Any, out: Any, y: Array | None, places: Any, axis: int, reverse: bool) -> bool:
    """Scan along an axis; return whether that was done."""
    n, after = x.shape[axis], math.prod(x.shape[axis + 1 :])
    count, key = x.size // n, (x.dtype.char,)
    if after > 1 and count < sizes.SCAN_COLUMNS and n > sizes.SCAN_COLUMN:
        return _scan_turned(op, x, g, out, y, places, axis, reverse)
    if after == 1:
        if count < sizes.SCAN_ROWS and n > sizes.SCAN_ROW:
            return False
        threads = min(max(32, (n + 127) // 128 * 32), 512)
        _SCANS[op].launch("rows", key, count, threads, (x, g, out, y, places, n, int(reverse)))
    else:
        args = (x, g, out, y, places, count, n, after, int(reverse))
        _SCANS[op].launch("columns", key, -(-count // 32), 32, args)
    return True


def _scan_turned(op: str, x: Any, g: Any, out: Any, y: Any, places: Any, axis: int, reverse: bool) -> bool:
    """Scan an axis that is not the last, by rows of a transposed copy: few columns would leave most of the GPU idle."""
    turned: list[Any] = [a if type(a) is int else contiguous(a.swapaxes(axis, -1)) for a in (x, g, out)]
    made: list[Any] = [a if type(a) is int else empty(turned[0].shape, a.dtype) for a in (y, places)]
    if not _scan(op, turned[0], turned[1], turned[2], made[0], made[1], x.ndim - 1, reverse):
        return False
    for a, found in zip((y, places), made, strict=True):
        if type(a) is not int:
            turn_into(a, found.swapaxes(axis, -1))
    return True


def _is_scanned(x: Array, *params: object) -> bool:
    return is_float(x) and bool(x.size)


def _cumulative(op: str, x: Array, axis: int, reverse: bool = False) -> Array:
    """Return the cumulative sums ("sum"), products ("prod") or "logsumexp"."""
    x, y = dense(x), empty(x.shape, x.dtype)
    return y if _scan(op, x, 0, 0, y, 0, axis, reverse) else NotImplemented


@override("cumsum", when=_is_scanned)
def cumsum(x: Array, axis: int, reverse: bool) -> Array:
    """Return the sums of the elements up to each along an axis (from each on, if `reverse`)."""
    return _cumulative("sum", x, axis, reverse)


@override("cumprod", when=_is_scanned)
def cumprod(x: Array, axis: int) -> Array:
    """Return the products of the elements up to each along an axis."""
    return _cumulative("prod", x, axis)


@override("cumprod", gradient="x", when=lambda g, x, *saved: _is_scanned(x) and g.dtype == x.dtype)
def cumprod_backward(g: Array, x: Array, out: Array, axis: int) -> Array:
    """Return the gradient of cumulative products, zeros among them or not."""
    g, x, out, y = dense(g), dense(x), dense(out), empty(x.shape, x.dtype)
    return y if _scan("prod_back", x, g, out, y, 0, axis, True) else NotImplemented


@override("logcumsumexp", when=_is_scanned)
def logcumsumexp(x: Array, axis: int) -> Array:
    """Return the logarithms of the sums of the exponentials up to each element along an axis."""
    return _cumulative("logsumexp", x, axis)


def _cumulative_extreme(op: str, x: Array, axis: int) -> tuple[Array, Array]:
    x, y, places = dense(x), empty(x.shape, x.dtype), empty(x.shape, np.dtype(np.int64))
    return (y, places) if _scan(op, x, 0, 0, y, places, axis, False) else NotImplemented


@override("cummax", when=_is_scanned)
def cummax(x: Array, axis: int) -> tuple[Array, Array]:
    """Return the largest elements so far, and their indices: the latest of equals, or of NaNs."""
    return _cumulative_extreme("amax", x, axis)


@override("cummin", when=_is_scanned)
def cummin(x: Array, axis: int) -> tuple[Array, Array]:
    """Return the smallest elements so far, and their indices."""
    return _cumulative_extreme("amin", x, axis)
