"""The order of rows: sorted in shared memory, or the best few found one after another.

A number and its place make one key of 64 bits, so that the sort is stable; NaN is larger than all others.
"""

from __future__ import annotations

import numpy as np

from ..._typing import Array
from . import sizes
from .launching import Kernels, dense, empty
from .table import override

__all__ = ["argsort", "best"]

_INT64 = np.dtype(np.int64)
_SORTABLE = "feE"  # what is exact as float

_KERNELS = Kernels(
    r"""
typedef unsigned long long u64;
// Larger numbers have larger keys; both zeros have one.
__device__ __forceinline__ u64 ranked(T value) {
    float x = (float)value;
    if (x != x) return 0xffffffffu;
    if (x == 0) x = 0;
    unsigned int u = __float_as_uint(x);
    return u ^ ((u >> 31) ? 0xffffffffu : 0x80000000u);
}
__device__ __forceinline__ void swap(u64& a, u64& b, bool up) {
    if ((a > b) == up) { u64 c = a; a = b; b = c; }
}
// A bitonic sort of N keys, of which each thread holds four: threads of a warp swap by shuffles, others by memory.
extern "C" __global__ void sort(const T* x, i64* order, i64 n, i64 descending) {
    __shared__ u64 kept[N];
    const T* row = x + blockIdx.x * n;
    const int threads = N / 4, t = threadIdx.x;
    u64 k[4];
    #pragma unroll
    for (int j = 0; j < 4; ++j) {
        int i = t * 4 + j;
        u64 rank = i < n ? ranked(row[i]) : 0;
        k[j] = i < n ? ((descending ? rank ^ 0xffffffffu : rank) << 32) | (unsigned int)i : ~(u64)0;
    }
    for (int run = 2; run <= N; run <<= 1) {
        for (int apart = run >> 1; apart >= 4; apart >>= 1) {
            int away = apart >> 2;
            bool least = ((t & away) == 0) == ((t * 4 & run) == 0);
            if (away >= 32) {
                __syncthreads();
                #pragma unroll
                for (int j = 0; j < 4; ++j) kept[j * threads + t] = k[j];
                __syncthreads();
            }
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
                u64 other = away >= 32 ? kept[j * threads + (t ^ away)] : __shfl_xor_sync(0xffffffff, k[j], away);
                k[j] = (k[j] < other) == least ? k[j] : other;
            }
        }
        if (run >= 4) {
            bool up = (t * 4 & run) == 0;
            swap(k[0], k[2], up);
            swap(k[1], k[3], up);
            swap(k[0], k[1], up);
            swap(k[2], k[3], up);
        } else {
            swap(k[0], k[1], true);
            swap(k[2], k[3], false);
        }
    }
    #pragma unroll
    for (int j = 0; j < 4; ++j) if (t * 4 + j < n) order[blockIdx.x * n + t * 4 + j] = (i64)(k[j] & 0xffffffffu);
}
__device__ __forceinline__ u64 best_below(const T* row, i64 n, u64 limit, i64 largest) {
    u64 best = 0;
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
        u64 rank = ranked(row[i]);
        u64 key = ((largest ? rank : rank ^ 0xffffffffu) << 32) | (0xfffffffeu - (unsigned int)i);
        if (key < limit && key > best) best = key;
    }
    return best;
}
extern "C" __global__ void few(const T* x, i64* order, i64 n, i64 count, i64 largest) {
    __shared__ u64 part[2][32];
    const T* row = x + blockIdx.x * n;
    u64 own = best_below(row, n, ~(u64)0, largest);
    for (i64 k = 0; k < count; ++k) {
        u64 best = own;
        for (int s = 16; s > 0; s >>= 1) { u64 other = __shfl_xor_sync(0xffffffff, best, s);
                best = other > best ? other : best; }
        if ((threadIdx.x & 31) == 0) part[k & 1][threadIdx.x >> 5] = best;
        __syncthreads();
        best = part[k & 1][0];
        for (int w = 1; w < (blockDim.x >> 5); ++w) best = part[k & 1][w] > best ? part[k & 1][w] : best;
        if (own == best) own = best_below(row, n, best, largest);
        if (threadIdx.x == 0) order[blockIdx.x * count + k] = (i64)(0xfffffffeu - (unsigned int)(best & 0xffffffffu));
    }
}
""",
    "T",
    "N",
)


def _is_row(x: Array, axis: int, *params: object) -> bool:
    return x.dtype.char in _SORTABLE and axis == x.ndim - 1 and bool(x.size)


@override("argsort", when=_is_row)
def argsort(x: Array, axis: int, descending: bool) -> Array:
    """Return the order of short rows, by a stable sort."""
    n = x.shape[axis]
    if not 1 < n <= sizes.SORT_IN_BLOCK:
        return NotImplemented
    x, order = dense(x), empty(x.shape, _INT64)
    size = max(1 << (n - 1).bit_length(), 128)
    _KERNELS.launch("sort", (x.dtype.char, size), x.size // n, size // 4, (x, order, n, int(descending)))
    return order


@override("best", when=_is_row)
def best(x: Array, axis: int, count: int, largest: bool) -> Array:
    """Return the indices of the largest or smallest few elements of rows, best first."""
    n = x.shape[axis]
    if not 0 < count <= min(n, sizes.BEST_ONE_BY_ONE) or n >= 1 << 31:
        return NotImplemented
    x, order = dense(x), empty((*x.shape[:-1], count), _INT64)
    threads = 64 if n <= 512 else 128 if n <= 4096 else 512
    _KERNELS.launch("few", (x.dtype.char, 128), x.size // n, threads, (x, order, n, count, int(largest)))
    return order
