"""Windows along axes on a GPU: the sums and maxima that pooling, padding and resizing are made of."""

from __future__ import annotations

import functools
import math
from typing import Any

import cupy
import numpy as np

from ..._typing import Array, DType, Shape
from ..cpu.pooling import LINEAR, Plans
from . import arrays
from .launching import Kernels, dense, is_float
from .table import override

_THREADS = 256

# Sums along the middle of three axes. One list has the source places of all places, another each place's range in it.
_MIX = Kernels(
    r"""
typedef wide_of<T>::type W;
extern "C" __global__ void mix(const T* x, S* out, const int* begin, const int* place, const W* weight, i64 total,
                               i64 inner, i64 n_in, i64 n_out) {
    i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (i >= total) return;
    const i64 b = i % inner, row = i / inner, o = row % n_out, a = row / n_out;
    const T* from = x + a * n_in * inner + b;
    W sum = 0;
    for (int j = begin[o]; j < begin[o + 1]; ++j) sum += (W)from[place[j] * inner] * weight[j];
    out[i] = (S)sum;
}
""",
    "T",
    "S",
)
# Windows of at most three axes.
_LARGEST = Kernels(
    r"""
#define WINDOWS i64 N0, i64 N1, i64 N2, i64 O0, i64 O1, i64 O2, i64 K0, i64 K1, i64 K2, i64 S0, i64 S1, i64 S2, \
    i64 B0, i64 B1, i64 B2, i64 D0, i64 D1, i64 D2
#define SIZES const int n0 = N0, n1 = N1, n2 = N2, o0 = O0, o1 = O1, o2 = O2, k0 = K0, k1 = K1, k2 = K2, s0 = S0, \
    s1 = S1, s2 = S2, b0 = B0, b1 = B1, b2 = B2, d0 = D0, d1 = D1, d2 = D2;
// The largest element of each window, and where it is: the first of equals, but NaN is larger than everything.
extern "C" __global__ void largest(const T* x, T* values, I* places, i64 total, WINDOWS) {
    SIZES
    typedef wide_of<T>::type W;
    i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (i >= total) return;
    const int size = o0 * o1 * o2, o = (int)(i % size);
    const T* from = x + i / size * ((i64)n0 * n1 * n2);
    const int z = o / (o1 * o2) * s0 - b0, y = o / o2 % o1 * s1 - b1, v = o % o2 * s2 - b2;
    int found = -1; W best = 0;
    for (int a = 0; a < k0; ++a) for (int b = 0; b < k1; ++b) for (int e = 0; e < k2; ++e) {
        const int p = z + a * d0, q = y + b * d1, r = v + e * d2;
        if (p < 0 || p >= n0 || q < 0 || q >= n1 || r < 0 || r >= n2) continue;
        const int at = (p * n1 + q) * n2 + r;
        const W here = from[at];
        if (found < 0 || here > best || here != here) { best = here; found = at; }
    }
    if (values) values[i] = (T)best;
    if (places) places[i] = found;
}
// What windows that have their largest element here bring back to it.
extern "C" __global__ void max_backward(const T* g, const I* places, T* out, i64 total, WINDOWS) {
    SIZES
    typedef wide_of<T>::type W;
    i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (i >= total) return;
    const i64 size = (i64)n0 * n1 * n2, plane = i / size * ((i64)o0 * o1 * o2);
    const int at = (int)(i % size);
    const int p = at / (n1 * n2) + b0, q = at / n2 % n1 + b1, r = at % n2 + b2;
    W sum = 0;
    for (int a = 0; a < k0; ++a) {
        const int z = p - a * d0; if (z < 0 || z % s0 || z / s0 >= o0) continue;
        for (int b = 0; b < k1; ++b) {
            const int y = q - b * d1; if (y < 0 || y % s1 || y / s1 >= o1) continue;
            for (int e = 0; e < k2; ++e) {
                const int v = r - e * d2; if (v < 0 || v % s2 || v / s2 >= o2) continue;
                const i64 o = plane + ((z / s0) * o1 + y / s1) * o2 + v / s2;
                if (places[o] == at) sum += (W)g[o];
            }
        }
    }
    out[i] = (T)sum;
}
""",
    "T",
    "I",
)


def _is_float(x: Array, *params: object) -> bool:
    return is_float(x) and x.size > 0


# --- Sums --------------------------------------------------------------------------------------------------


@functools.lru_cache(1024)
def _lists(taps: Any, dtype: DType, device: int) -> tuple[Array, Array, Array]:
    """Return, on the current device, from where on a place's sources are listed, the sources, and their weights."""
    rows, places, weights = [], [], []
    for span, source, weight in taps.taps:
        row, place = np.arange(taps.n_out)[span], np.arange(taps.n_in)[source]
        rows.append(row)
        places.append(place)
        weights.append(np.ones(len(row)) if weight is None else np.asarray(weight, np.float64))
    row, place, weight = (np.concatenate(part) if part else np.zeros(0, int) for part in (rows, places, weights))
    order = np.argsort(row, kind="stable")
    row, place, weight = row[order], place[order], weight[order].astype(np.float64)
    if taps.divide_in is not None:
        weight = weight / np.asarray(taps.divide_in, np.float64)[place]
    if taps.divide_out is not None:
        weight = weight / np.asarray(taps.divide_out, np.float64)[row]
    begin = np.searchsorted(row, np.arange(taps.n_out + 1))
    return (
        cupy.asarray(begin.astype(np.int32)), cupy.asarray(place.astype(np.int32)),
        cupy.asarray(weight.astype(dtype)),
    )  # fmt: skip


def weighted_sums(x: Array, plans: Plans) -> Array:
    """Return the weighted sums along the last axes, one after the other: what makes the array smaller comes first."""
    axes = sorted([(p, i - len(plans)) for i, p in enumerate(plans) if p is not None], key=_growth)
    dtype = x.dtype
    wide = np.dtype(np.float32) if dtype.itemsize == 2 else dtype
    x = dense(x)
    for number, (taps, axis) in enumerate(axes):
        shape = list(x.shape)
        shape[axis] = taps.n_out
        last = number == len(axes) - 1
        out = arrays.new(tuple(shape), dtype if last else wide)
        inner = math.prod(shape[axis + 1 :]) if axis < -1 else 1
        if out.size:
            lists = _lists(taps, wide, cupy.cuda.get_device_id())
            key = x.dtype.char, out.dtype.char
            rest = (out.size, inner, taps.n_in, taps.n_out)
            _MIX.launch("mix", key, -(-out.size // _THREADS), _THREADS, (x, out, *lists, *rest))
        x = out
    return x


def _growth(axis: tuple[Any, int]) -> float:
    taps = axis[0]
    return taps.n_out / max(taps.n_in, 1)  # type: ignore[no-any-return]


def _is_summed(x: Array, plans: Plans) -> bool:
    return _is_float(x) and any(plans)


for _name in LINEAR:
    override(_name, when=_is_summed)(weighted_sums)
    override(f"{_name}_backward", when=_is_summed)(weighted_sums)


# --- Maxima ------------------------------------------------------------------------------------------------


def _windows(shape: Shape, plans: Plans) -> Shape:
    """Return the kernels' arguments for windows; empty if there are none of one size in at most three axes."""
    rank = len(plans)
    if rank > 3 or not all(p.window for p in plans):
        return ()
    kernel, stride, before, dilation = ([p.window[i] for p in plans] for i in range(4))
    rows = (
        (shape[-rank:], 1), ([p.n_out for p in plans], 1), (kernel, 1), (stride, 1), (before, 0), (dilation, 1)
    )  # fmt: skip
    return tuple(n for values, missing in rows for n in (*(missing,) * (3 - rank), *values))


def _found(x: Array, plans: Any, values: bool, kind: str) -> Array:
    windows = _windows(x.shape, plans)
    if not windows:
        return NotImplemented
    x = dense(x)
    out = arrays.new((*x.shape[: -len(plans)], *(p.n_out for p in plans)), x.dtype if values else np.dtype(kind))
    if out.size:
        given = (out, 0) if values else (0, out)
        _LARGEST.launch(
            "largest", (x.dtype.char, kind), -(-out.size // _THREADS), _THREADS, (x, *given, out.size, *windows)
        )
    return out


def max_pool(x: Array, plans: Plans) -> Array:
    """Return the largest element of each window, where windows are of one size."""
    return _found(x, plans, True, "l")


for _rank in (1, 2, 3):
    override(f"max_pool{_rank}d", when=_is_float)(max_pool)
    override(f"adaptive_max_pool{_rank}d", when=_is_float)(max_pool)


@override("where_largest", when=_is_float)
def where_largest(x: Array, plans: Plans) -> Array:
    """Return where in the flattened last axes the largest element of each window is, where they are of one size."""
    return _found(x, plans, False, "l")


@override("max_pool_backward", when=lambda g, x, plans: _is_float(x) and _is_float(g))
def max_pool_backward(g: Array, x: Array, plans: Plans) -> Array:
    """Return zeros of the shape of `x`, with `g` added where windows have their largest elements."""
    places = _found(x, plans, False, "i")
    if places is NotImplemented:
        return places
    g, out = dense(g), arrays.new(x.shape, g.dtype)
    arguments = (g, places, out, out.size, *_windows(x.shape, plans))
    _LARGEST.launch("max_backward", (g.dtype.char, "i"), -(-out.size // _THREADS), _THREADS, arguments)
    return out
