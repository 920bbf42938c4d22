"""Convolutions of one channel at a time on a GPU: each element is a sum of a few products, read in place.

cuDNN takes such convolutions for matrix multiplications with one row, which takes it several times as long.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._typing import Array, DType
from . import sizes
from .arrays import new
from .launching import FLOATS, Kernels

__all__ = ["correlate", "fits", "transposed", "weight_gradient"]

Ints = tuple[int, ...]
_F32 = np.dtype(np.float32)
_MOST_TAPS = 64  # of a window: their sums stay in registers
_THREADS = 256

_KERNELS = Kernels(
    r"""
typedef wide_of<T>::type W;
#define SIZES int outs, int many, int n0, int n1, int o0, int o1, int s0, int s1, int b0, int b1, int d0, int d1
// y[n, o] = the windows of x[n, o / many], weighed.
extern "C" __global__ void correlate(const T* x, const T* w, T* y, i64 total, SIZES) {
    const i64 at = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (at >= total) return;
    int i = (int)at, q = i % o1; i /= o1;
    int p = i % o0; i /= o0;
    const int o = i % outs, n = i / outs;
    const T* from = x + ((i64)n * (outs / many) + o / many) * n0 * n1;
    const T* weights = w + o * (K0 * K1);
    const int top = p * s0 - b0, left = q * s1 - b1;
    W sum = 0;
    #pragma unroll
    for (int a = 0; a < K0; ++a) {
        const int r = top + a * d0;
        #pragma unroll
        for (int b = 0; b < K1; ++b) {
            const int c = left + b * d1;
            if (r >= 0 && r < n0 && c >= 0 && c < n1) sum += (W)from[r * n1 + c] * (W)weights[a * K1 + b];
        }
    }
    y[at] = (T)sum;
}
// x[n, c] = what the windows that an element is in give back to it.
extern "C" __global__ void transposed(const T* g, const T* w, T* x, i64 total, SIZES) {
    const i64 at = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (at >= total) return;
    int i = (int)at, c = i % n1; i /= n1;
    int r = i % n0; i /= n0;
    const int channels = outs / many, channel = i % channels, n = i / channels;
    r += b0; c += b1;
    W sum = 0;
    for (int m = 0; m < many; ++m) {
        const int o = channel * many + m;
        const T* from = g + ((i64)n * outs + o) * o0 * o1;
        const T* weights = w + o * (K0 * K1);
        #pragma unroll
        for (int a = 0; a < K0; ++a) {
            const int t = r - a * d0, p = t / s0;
            #pragma unroll
            for (int b = 0; b < K1; ++b) {
                const int u = c - b * d1, q = u / s1;
                if (t >= 0 && u >= 0 && p < o0 && q < o1 && p * s0 == t && q * s1 == u)
                    sum += (W)from[p * o1 + q] * (W)weights[a * K1 + b];
            }
        }
    }
    x[at] = (T)sum;
}
// A block adds up a part of what one channel gives for each tap.
extern "C" __global__ void weight_gradient(const T* x, const T* g, S* parts, i64 samples, i64 count, SIZES) {
    const int o = blockIdx.x % outs, part = blockIdx.x / outs, size = o0 * o1;
    const i64 all = samples * size, step = (i64)count * blockDim.x;
    W sums[K0 * K1];
    #pragma unroll
    for (int k = 0; k < K0 * K1; ++k) sums[k] = 0;
    for (i64 at = (i64)part * blockDim.x + threadIdx.x; at < all; at += step) {
        const int n = (int)(at / size), i = (int)(at - (i64)n * size), p = i / o1, q = i - p * o1;
        const W slope = (W)g[((i64)n * outs + o) * size + i];
        const T* from = x + ((i64)n * (outs / many) + o / many) * n0 * n1;
        const int top = p * s0 - b0, left = q * s1 - b1;
        #pragma unroll
        for (int a = 0; a < K0; ++a) {
            const int r = top + a * d0;
            #pragma unroll
            for (int b = 0; b < K1; ++b) {
                const int c = left + b * d1;
                if (r >= 0 && r < n0 && c >= 0 && c < n1) sums[a * K1 + b] += slope * (W)from[r * n1 + c];
            }
        }
    }
    #pragma unroll
    for (int k = 0; k < K0 * K1; ++k) {
        const W sum = block_sum(sums[k]);
        if (threadIdx.x == 0) parts[((i64)part * outs + o) * (K0 * K1) + k] = (S)sum;
    }
}
// Parts added up, tap by tap.
extern "C" __global__ void finish(const S* parts, T* w, i64 taps, i64 count) {
    const i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (i >= taps) return;
    W sum = 0;
    for (i64 k = 0; k < count; ++k) sum += (W)parts[k * taps + i];
    w[i] = (T)sum;
}
""",
    "T",
    "S",
    "K0",
    "K1",
)


def fits(x_shape: Ints, w_shape: Ints, y_shape: Ints, groups: int, dtype: DType) -> bool:
    """Return whether a convolution is one of single channels that kernels here compute."""
    return (
        groups == x_shape[1] > 1
        and w_shape[1] == 1
        and len(w_shape) in (3, 4)
        and dtype.char in FLOATS
        and math.prod(w_shape[2:]) <= _MOST_TAPS
        and max(math.prod(x_shape), math.prod(y_shape)) < 1 << 31
    )


def _two(values: Ints, first: int) -> Ints:
    """Return what is given for two axes, of which a line has but one."""
    return tuple(values) if len(values) == 2 else (first, *values)


def _sizes(x_shape: Ints, y_shape: Ints, stride: Ints, before: Ints, dilation: Ints) -> tuple[int, ...]:
    return (
        y_shape[1], y_shape[1] // x_shape[1], *_two(x_shape[2:], 1), *_two(y_shape[2:], 1), *_two(stride, 1),
        *_two(before, 0), *_two(dilation, 1),
    )  # fmt: skip


def _key(x: Array, kernel: Ints) -> tuple[Any, ...]:
    char = x.dtype.char
    return (char, "d" if char == "d" else "f", *_two(kernel, 1))


def correlate(x: Array, w: Array, shape: Ints, stride: Ints, before: Ints, dilation: Ints) -> Array:
    """Return the windows of each channel, weighed."""
    out = new(shape, x.dtype)
    args = (x, w, out, out.size, *_sizes(x.shape, shape, stride, before, dilation))
    _KERNELS.launch("correlate", _key(x, w.shape[2:]), -(-out.size // _THREADS), _THREADS, args)
    return out


def transposed(g: Array, w: Array, shape: Ints, stride: Ints, before: Ints, dilation: Ints) -> Array:
    """Return what the windows of each channel give back to its elements."""
    out = new(shape, g.dtype)
    args = (g, w, out, out.size, *_sizes(shape, g.shape, stride, before, dilation))
    _KERNELS.launch("transposed", _key(g, w.shape[2:]), -(-out.size // _THREADS), _THREADS, args)
    return out


def weight_gradient(x: Array, g: Array, kernel: Ints, stride: Ints, before: Ints, dilation: Ints) -> Array:
    """Return what elements and gradients give for each weight."""
    outs, key = g.shape[1], _key(x, kernel)
    each = g.size // outs
    count = max(1, min(sizes.BLOCKS // 2 // outs, each // (8 * _THREADS)))
    out = new((outs, 1, *kernel), x.dtype)
    whole = count == 1 and key[0] == key[1]
    parts = out if whole else new((count, out.size), x.dtype if key[0] == key[1] else _F32)
    args = (x, g, parts, len(x), count, *_sizes(x.shape, g.shape, stride, before, dilation))
    _KERNELS.launch("weight_gradient", key, outs * count, _THREADS, args)
    if not whole:
        _KERNELS.launch("finish", key, -(-out.size // _THREADS), _THREADS, (parts, out, out.size, count))
    return out
