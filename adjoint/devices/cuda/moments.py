"""Variances and standard deviations along axes, and the gradients of these and of lengths."""

from __future__ import annotations

import math
from typing import Any

from ..._typing import Array, Axes
from . import sizes
from .launching import Kernels, dense, empty, is_float
from .reductions import folded, is_same_float, laid, left_shape, pieces_of, wide
from .table import override

_MOMENTS = Kernels(
    r"""
typedef wide_of<T>::type W;
struct M { W n, mean, m2; };
__device__ __forceinline__ M join(M a, M b) {
    if (b.n == 0) return a;
    if (a.n == 0) return b;
    W n = a.n + b.n, d = b.mean - a.mean, share = b.n / n;
    return M{n, a.mean + d * share, a.m2 + b.m2 + d * d * a.n * share};
}
__device__ __forceinline__ M warp_join(M a) {
    for (int k = 16; k > 0; k >>= 1) {
        M b{__shfl_xor_sync(0xffffffff, a.n, k), __shfl_xor_sync(0xffffffff, a.mean, k),
                __shfl_xor_sync(0xffffffff, a.m2, k)};
        a = (threadIdx.x & k) ? join(b, a) : join(a, b);
    }
    return a;
}
__device__ __forceinline__ M block_join(M a) {
    __shared__ M part[32];
    a = warp_join(a);
    __syncthreads();
    if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = a;
    __syncthreads();
    a = part[0];
    for (int k = 1; k < (blockDim.x >> 5); ++k) a = join(a, part[k]);
    return a;
}
__device__ __forceinline__ void leave(M a, T* var, W* mean, i64 at, W free, bool root) {
    W v = a.m2 / free;
    var[at] = (T)(root ? sqrt(v) : v);
    if (mean) mean[at] = a.mean;
}
// The moments of a stretch: its mean first, then how far from it the elements are; the second time it is in the cache.
__device__ __forceinline__ M stretch(const T* x, i64 n) {
    W sum = 0;
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) sum += (W)x[i];
    W mean = block_sum(sum) / (W)n, m2 = 0;
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) { W d = (W)x[i] - mean; m2 += d * d; }
    return M{(W)n, mean, block_sum(m2)};
}
extern "C" __global__ void rows_whole(const T* x, T* var, W* mean, i64 R, double free, i64 root) {
    M a = stretch(x + blockIdx.x * R, R);
    if (threadIdx.x == 0) leave(a, var, mean, blockIdx.x, (W)free, root);
}
extern "C" __global__ void rows_in_pieces(const T* x, W* parts, i64 R, i64 pieces, i64 length) {
    i64 from = blockIdx.x % pieces * length;
    M a = stretch(x + blockIdx.x / pieces * R + from, R - from < length ? R - from : length);
    if (threadIdx.x == 0) { parts[blockIdx.x * 3] = a.n; parts[blockIdx.x * 3 + 1] = a.mean;
            parts[blockIdx.x * 3 + 2] = a.m2; }
}
// Results whose pieces lie `step` apart, each result's `stride` from the next.
extern "C" __global__ void of_pieces(const W* parts, T* var, W* mean, i64 pieces, i64 step, i64 stride,
        double free, i64 root) {
    M a{0, 0, 0};
    for (i64 k = threadIdx.x; k < pieces; k += blockDim.x) {
        const W* p = parts + (blockIdx.x * stride + k * step) * 3;
        a = join(a, M{p[0], p[1], p[2]});
    }
    a = block_join(a);
    if (threadIdx.x == 0) leave(a, var, mean, blockIdx.x, (W)free, root);
}
extern "C" __global__ void columns(const T* x, T* var, W* mean, W* parts, i64 A, i64 R, i64 B, i64 pieces, i64 length,
                                   double free, i64 root) {
    __shared__ M part[8][33];
    i64 tiles = (B + 31) / 32, tile = blockIdx.x % tiles, rest = blockIdx.x / tiles, piece = rest % pieces,
            at = rest / pieces;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    i64 column = tile * 32 + lane, from = piece * length, to = from + length < R ? from + length : R;
    M a{0, 0, 0};
    if (column < B) for (i64 r = from + warp; r < to; r += 8) {
        W v = (W)x[(at * R + r) * B + column], d = v - a.mean;
        a.n += 1;
        a.mean += d / a.n;
        a.m2 += d * (v - a.mean);
    }
    part[warp][lane] = a;
    __syncthreads();
    if (warp || column >= B) return;
    for (int k = 1; k < 8; ++k) a = join(a, part[k][lane]);
    if (!parts) { leave(a, var, mean, at * B + column, (W)free, root); return; }
    W* p = parts + ((piece * A + at) * B + column) * 3;
    p[0] = a.n; p[1] = a.mean; p[2] = a.m2;
}
// In (A, R, B), which of A and B an element belongs to; 64 bits are divided slowly.
__device__ __forceinline__ i64 group_of(i64 i, i64 size, i64 R, i64 B) {
    if (size >= (i64)1 << 31) return B == 1 ? i / R : i / (R * B) * B + i % B;
    unsigned int k = (unsigned int)i, r = (unsigned int)R, b = (unsigned int)B;
    return b == 1 ? k / r : k / (r * b) * b + k % b;
}
// Elements times a number for each group, 0 where the length is.
extern "C" __global__ void lengths(const T* x, const T* g, const T* length, T* y, i64 size, i64 R, i64 B) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < size; i += gridDim.x * (i64)blockDim.x) {
        i64 group = group_of(i, size, R, B);
        W l = (W)length[group];
        y[i] = (T)(l == 0 ? (W)0 : (W)x[i] * ((W)g[group] / l));
    }
}
// How far elements are from their mean, times a number for each group.
extern "C" __global__ void away(const T* x, const W* mean, const T* g, const T* root, T* y, i64 size, i64 R,
        i64 B, double scale) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < size; i += gridDim.x * (i64)blockDim.x) {
        i64 group = group_of(i, size, R, B);
        W f = (W)g[group] * (W)scale;
        if (root) { W r = (W)root[group]; f = r == 0 ? (W)0 : f / (2 * r); }
        y[i] = (T)(f * ((W)x[i] - mean[group]));
    }
}
""",
    "T",
)


def _free(x: Array, axes: Axes, correction: float) -> float:
    """Return the degrees of freedom of a variance."""
    return max(math.prod([x.shape[i] for i in axes]) - correction, 0)


@override("var")
def var(x: Array, axes: Axes, correction: float, keepdims: bool) -> Array:
    """Return variances along axes."""
    found = _moments(x, axes, keepdims, _free(x, axes, correction))
    return NotImplemented if found is None else found[0]


@override("std")
def std(x: Array, axes: Axes, correction: float, keepdims: bool) -> Array:
    """Return standard deviations along axes."""
    found = _moments(x, axes, keepdims, _free(x, axes, correction), True)
    return NotImplemented if found is None else found[0]


def _moments(x: Any, axes: Axes, keepdims: bool, free: float, root: bool = False) -> tuple[Any, Any] | None:
    """Return the sum of squared distances from the mean over `free` (its root, if `root`), and the mean."""
    if not is_float(x) or not x.size:
        return None
    shape = left_shape(x.shape, axes, keepdims)
    var, mean = empty(shape, x.dtype), empty(shape, wide(x.dtype))
    x, (before, n, after) = laid(x, axes)
    key, leave = (x.dtype.char,), (float(free), int(root))
    if after == 1:
        pieces, length = pieces_of(before, n, sizes.PIECE_OF_ROW)
        if pieces == 1:
            threads = min(max(32, (n + 127) // 128 * 32), 512)
            _MOMENTS.launch("rows_whole", key, before, threads, (x, var, mean, n, *leave))
            return var, mean
        parts = empty((before, pieces, 3), mean.dtype)
        _MOMENTS.launch("rows_in_pieces", key, before * pieces, 256, (x, parts, n, pieces, length))
        _MOMENTS.launch("of_pieces", key, before, 256, (parts, var, mean, pieces, 1, pieces, *leave))
        return var, mean
    tiles = -(-after // 32) * before
    pieces, length = pieces_of(tiles, n, sizes.PIECE)
    parts = 0 if pieces == 1 else empty((pieces, before * after, 3), mean.dtype)
    args: Any = (x, var, mean, parts, before, n, after, pieces, length, *leave)
    _MOMENTS.launch("columns", key, tiles * pieces, 256, args)
    if pieces > 1:
        args = (parts, var, mean, pieces, before * after, 1, *leave)
        _MOMENTS.launch("of_pieces", key, before * after, 32, args)
    return var, mean


@override("var", gradient="x")
def var_backward(g: Array, x: Array, axes: Axes, correction: float, keepdims: bool) -> Array:
    """Return the gradient of variances."""
    return _deviations(g, x, None, axes, correction)


@override("std", gradient="x")
def std_backward(g: Array, x: Array, out: Array, axes: Axes, correction: float, keepdims: bool) -> Array:
    """Return the gradient of standard deviations; 0 where one is 0."""
    return _deviations(g, x, out, axes, correction)


def _deviations(g: Array, x: Array, root: Array | None, axes: Axes, correction: float) -> Array:
    found = _moments(x, axes, False, 1.0) if g.dtype == x.dtype else None
    parts = None if found is None else folded(x.shape, axes)
    if found is None or parts is None:
        return NotImplemented
    free, x, (_, n, after) = _free(x, axes, correction), dense(x), parts
    out = empty(x.shape, x.dtype)
    scale = 2 / free if free else math.inf
    args = (x, found[1], dense(g), 0 if root is None else dense(root), out, x.size, n, after, scale)
    _MOMENTS.launch("away", (x.dtype.char,), min(-(-x.size // 256), 1 << 16), 256, args)
    return out


@override("vector_norm", gradient="x", when=lambda g, x, out, p, *saved: p == 2 and is_same_float(g, x))
def vector_norm_backward(g: Array, x: Array, out: Array, p: float, axes: Axes, keepdims: bool) -> Array:
    """Return the gradient of lengths along axes; 0 where a length is."""
    parts = folded(x.shape, axes)
    if parts is None:
        return NotImplemented
    length, x, out, (_, n, after) = dense(out), dense(x), empty(x.shape, x.dtype), parts
    args = (x, dense(g), length, out, x.size, n, after)
    _MOMENTS.launch("lengths", (x.dtype.char,), min(-(-x.size // 256), 1 << 16), 256, args)
    return out
