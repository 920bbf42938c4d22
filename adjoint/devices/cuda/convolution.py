"""Convolutions on a GPU: by cuDNN where it is installed, else by columns of windows and matrix multiplications.

Those of single channels have kernels of their own (`depthwise.py`).

"""

from __future__ import annotations

import math

import cupy
import numpy as np

from ..._typing import Array, Shape
from . import arrays, cudnn, depthwise, sizes
from .launching import Kernels, dense
from .products import kind_of, multiply
from .table import override

_THREADS = 256

_TEXT = r"""
#define WINDOWS const int n0 = N0, n1 = N1, n2 = N2, k0 = K0, k1 = K1, k2 = K2, s0 = S0, s1 = S1, s2 = S2, \
    b0 = B0, b1 = B1, b2 = B2, d0 = D0, d1 = D1, d2 = D2, o0 = O0, o1 = O1, o2 = O2;
#define SIZES i64 N0, i64 N1, i64 N2, i64 K0, i64 K1, i64 K2, i64 S0, i64 S1, i64 S2, i64 B0, i64 B1, i64 B2, \
    i64 D0, i64 D1, i64 D2, i64 O0, i64 O1, i64 O2
// Each thread copies one channel's window; columns[c, k, o] of a sample, in which samples and rows are so far apart.
extern "C" __global__ void unfold(const T* x, S* columns, i64 total, i64 channels, i64 sample, i64 row, SIZES) {
    WINDOWS
    i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (i >= total) return;
    const int size = o0 * o1 * o2;
    const int o = (int)(i % size); const i64 plane = i / size;
    const i64 c = plane % channels, n = plane / channels;
    const int z = o / (o1 * o2) * s0 - b0, y = o / o2 % o1 * s1 - b1, v = o % o2 * s2 - b2;
    const T* from = x + plane * n0 * n1 * n2;
    S* to = columns + n * sample + c * k0 * k1 * k2 * row + o;
    for (int a = 0; a < k0; ++a) for (int b = 0; b < k1; ++b) for (int e = 0; e < k2; ++e) {
        const int p = z + a * d0, q = y + b * d1, r = v + e * d2;
        const bool in = p >= 0 && p < n0 && q >= 0 && q < n1 && r >= 0 && r < n2;
        *to = in ? (S)from[((i64)p * n1 + q) * n2 + r] : (S)0; to += row;
    }
}
// Each thread adds up what windows have at one element.
extern "C" __global__ void fold(const S* columns, T* x, i64 total, i64 channels, i64 sample, i64 row, SIZES) {
    WINDOWS
    typedef wide_of<S>::type W;
    i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (i >= total) return;
    const i64 size = (i64)n0 * n1 * n2, plane = i / size;
    const int at = (int)(i % size);
    const i64 c = plane % channels, n = plane / channels;
    const int p = at / (n1 * n2) + b0, q = at / n2 % n1 + b1, r = at % n2 + b2;
    const S* from = columns + n * sample + c * k0 * k1 * k2 * row;
    W total_ = 0;
    for (int a = 0; a < k0; ++a) {
        const int z = p - a * d0; if (z < 0 || z % s0 || z / s0 >= o0) continue;
        for (int b = 0; b < k1; ++b) {
            const int y = q - b * d1; if (y < 0 || y % s1 || y / s1 >= o1) continue;
            for (int e = 0; e < k2; ++e) {
                const int v = r - e * d2; if (v < 0 || v % s2 || v / s2 >= o2) continue;
                total_ += (W)from[(i64)((a * k1 + b) * k2 + e) * row + ((z / s0) * o1 + y / s1) * o2 + v / s2];
            }
        }
    }
    x[i] = (T)total_;
}
"""
_kernels = Kernels(_TEXT, "T", "S")


def _three(values: Shape, first: int) -> Shape:
    return (first,) * (3 - len(values)) + tuple(values)


def _windows(inner: Shape, kernel: Shape, stride: Shape, before: Shape, dilation: Shape, size: Shape) -> Shape:
    """Return the kernels' arguments for windows: along three axes, the first of them perhaps of size one."""
    return (
        *_three(inner, 1), *_three(kernel, 1), *_three(stride, 1), *_three(before, 0), *_three(dilation, 1),
        *_three(size, 1),
    )  # fmt: skip


def _launch(name: str, source: Array, out: Array, key: str, total: int, *rest: int) -> None:
    blocks = -(-total // _THREADS)
    _kernels.launch(name, (key[0], key[1]), blocks, _THREADS, (source, out, total, *rest))


def _is_float(x: Array) -> bool:
    return kind_of(x.dtype) is not None and x.dtype.kind != "c" and x.ndim <= 5 and x.size > 0


def _are_floats(x: Array, w: Array, *params: object) -> bool:
    return _is_float(x) and type(w) in _CLASSES and _is_float(w)


_CLASSES = (arrays.Array, cupy.ndarray)


def _add_bias(out: Array, b: Array | None) -> Array:
    if b is not None:
        out += b.reshape((-1,) + (1,) * (out.ndim - 2))
    return out


def _parts(count: int, each: int) -> list[tuple[int, int]]:
    """Return spans of samples whose columns fit into a block."""
    step = max(1, sizes.COLUMNS // max(each, 1))
    return [(i, min(i + step, count)) for i in range(0, count, step)]


@override("conv", when=_are_floats)
def conv(
    x: Array, w: Array, b: Array | None, stride: Shape, before: Shape, dilation: Shape, groups: int, size: Shape
) -> Array:
    """Return (N, O, *size) from x (N, C, ...) and w (O, C / groups, ...)."""
    return _add_bias(_correlate(x, w, stride, before, dilation, groups, size), b)


def _correlate(x: Array, w: Array, stride: Shape, before: Shape, dilation: Shape, groups: int, size: Shape) -> Array:
    x, w = dense(x), dense(w)
    shape = (len(x), len(w), *size)
    if depthwise.fits(x.shape, w.shape, shape, groups, x.dtype):
        return depthwise.correlate(x, w, shape, stride, before, dilation)
    given = cudnn.Geometry(x.shape, w.shape, shape, stride, before, dilation, groups, x.dtype.name)
    out = cudnn.convolve("y", x, w, given)
    if out is not None:
        return out
    out = arrays.new(shape, x.dtype)
    kernel, inner, places = tuple(w.shape[2:]), tuple(x.shape[2:]), math.prod(size)
    channels, rows = x.shape[1], x.shape[1] * math.prod(kernel)
    for i, j in _parts(len(x), rows * places * x.dtype.itemsize):
        columns = arrays.new((j - i, groups, rows // groups, places), x.dtype)
        windows = _windows(inner, kernel, stride, before, dilation, size)
        char = x.dtype.char
        _launch(
            "unfold", x[i:j], columns, char * 2, (j - i) * channels * places, channels, rows * places, places, *windows
        )
        multiply(w.reshape(groups, len(w) // groups, -1), columns, out[i:j].reshape(j - i, groups, -1, places))
    return out


@override("conv_transpose", when=_are_floats)
def conv_transpose(
    x: Array, w: Array, b: Array | None, stride: Shape, before: Shape, dilation: Shape, groups: int, size: Shape
) -> Array:
    """Return (N, C, *size) from x (N, O, ...) and w (O, C / groups, ...)."""
    return _add_bias(_transposed(x, w, stride, before, dilation, groups, size), b)


def _transposed(g: Array, w: Array, stride: Shape, before: Shape, dilation: Shape, groups: int, size: Shape) -> Array:
    g, w = dense(g), dense(w)
    shape = (len(g), w.shape[1] * groups, *size)
    if depthwise.fits(shape, w.shape, g.shape, groups, g.dtype):
        return depthwise.transposed(g, w, shape, stride, before, dilation)
    given = cudnn.Geometry(shape, w.shape, g.shape, stride, before, dilation, groups, g.dtype.name)
    out = cudnn.convolve("x", w, g, given)
    if out is not None:
        return out
    out = arrays.new(shape, g.dtype)
    kernel, counts = tuple(w.shape[2:]), tuple(g.shape[2:])
    places, rows = math.prod(counts), shape[1] * math.prod(kernel)
    half = g.dtype.itemsize == 2  # several columns meet in an element, and are not rounded before
    dtype = np.dtype(np.float32) if half else g.dtype
    weight = w.reshape(groups, len(w) // groups, -1).swapaxes(1, 2)
    for i, j in _parts(len(g), rows * places * dtype.itemsize):
        columns = arrays.new((j - i, groups, rows // groups, places), dtype)
        multiply(weight, g[i:j].reshape(j - i, groups, -1, places), columns)
        windows = _windows(size, kernel, stride, before, dilation, counts)
        total = (j - i) * shape[1] * math.prod(size)
        char = g.dtype.char + dtype.char
        _launch("fold", columns, out[i:j], char, total, shape[1], rows * places, places, *windows)
    return out


@override("conv_weight", when=_are_floats)
def conv_weight(x: Array, y: Array, stride: Shape, before: Shape, dilation: Shape, groups: int, kernel: Shape) -> Array:
    """Return the gradient (O, C / groups, *kernel) for a weight from x (N, C, ...) and y (N, O, ...)."""
    x, g = dense(x), dense(y)
    outs, channels, size = g.shape[1], x.shape[1], tuple(g.shape[2:])
    shape = (outs, channels // groups, *kernel)
    if depthwise.fits(x.shape, shape, g.shape, groups, x.dtype):
        return depthwise.weight_gradient(x, g, kernel, stride, before, dilation)
    given = cudnn.Geometry(x.shape, shape, g.shape, stride, before, dilation, groups, x.dtype.name)
    out = cudnn.convolve("w", x, g, given)
    if out is not None:
        return out
    half = x.dtype.itemsize == 2  # parts of the sum are not rounded before
    total = arrays.new(
        (groups, outs // groups, channels // groups * math.prod(kernel)), np.dtype(np.float32) if half else x.dtype
    )
    places, rows = math.prod(size), channels * math.prod(kernel)
    for i, j in _parts(len(x), rows * places * x.dtype.itemsize):
        width = (j - i) * places
        columns = arrays.new((groups, rows // groups, width), x.dtype)
        windows = _windows(tuple(x.shape[2:]), kernel, stride, before, dilation, size)
        char = x.dtype.char
        _launch("unfold", x[i:j], columns, char * 2, width * channels, channels, places, width, *windows)
        part = dense(g[i:j].reshape(j - i, outs, places).swapaxes(0, 1)).reshape(groups, outs // groups, width)
        multiply(part, columns.swapaxes(1, 2), total, 1.0, 0.0 if i == 0 else 1.0)
    return total.reshape(shape).astype(x.dtype, copy=False)


@override("im2col", when=lambda x, *params: _is_float(x))
def im2col(x: Array, kernel: Shape, stride: Shape, before: Shape, dilation: Shape, size: Shape) -> Array:
    """Return the windows of x (..., C, H, W) as columns (..., C * kernel, size)."""
    lead, x = x.shape[:-3], dense(x.reshape(-1, *x.shape[-3:]))
    channels, rows, places = x.shape[1], x.shape[1] * math.prod(kernel), math.prod(size)
    out = arrays.new((len(x), rows, places), x.dtype)
    windows = _windows(tuple(x.shape[2:]), kernel, stride, before, dilation, size)
    if out.size:
        char = x.dtype.char
        _launch("unfold", x, out, char * 2, len(x) * channels * places, channels, rows * places, places, *windows)
    return out.reshape(*lead, rows, places)


@override("col2im", when=lambda x, *params: _is_float(x))
def col2im(x: Array, kernel: Shape, stride: Shape, before: Shape, dilation: Shape, size: Shape, shape: Shape) -> Array:
    """Return (..., C, *shape) with columns (..., C * kernel, size) added up in their places."""
    lead, columns = x.shape[:-2], dense(x.reshape(-1, *x.shape[-2:]))
    channels, places = columns.shape[1] // math.prod(kernel), math.prod(size)
    out = arrays.new((len(columns), channels, *shape), columns.dtype)
    windows = _windows(shape, kernel, stride, before, dilation, size)
    if out.size:
        char = columns.dtype.char
        _launch("fold", columns, out, char * 2, out.size, channels, columns.shape[1] * places, places, *windows)
    return out.reshape(*lead, channels, *shape)
