"""Normalization of rows (layer norm, RMS norm) and of planes (batch, group and instance norm), and back.

Rows: a block for each, which stays in registers where it fits; gradients of scale and shift are sums of columns in two
launches, in an order that depends on the shape alone. Planes: the moments of each plane, put together by groups, then
one pass that writes. Moments are float where the numbers have 16 bits.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .launching import Kernels, aligned, dense, empty, is_float, made
from .rows import pack_of, shape_of_blocks

__all__ = ["planes", "planes_back", "rows", "rows_back"]

_F32 = np.dtype(np.float32)
_ALL = 1 << 62  # more groups than there are

_ROWS = Kernels(
    r"""
typedef wide_of<T>::type W;
extern "C" __global__ void held(const T* x, const V* weight, const V* bias, O* y, W* means, W* rstds, i64 n,
        double eps) {
    i64 start = blockIdx.x * n;
    int packs = n / P;
    W e[K * P], mean = 0, square = 0;
    #pragma unroll
    for (int k = 0; k < K; ++k) {
        int i = threadIdx.x + k * blockDim.x;
        if (i < packs) {
            Pack<T, P> v = ((const Pack<T, P>*)(x + start))[i];
            #pragma unroll
            for (int j = 0; j < P; ++j) { e[k * P + j] = (W)v.v[j]; mean += e[k * P + j]; }
        }
    }
    mean = CENTERED ? block_sum(mean) / (W)n : (W)0;
    #pragma unroll
    for (int k = 0; k < K; ++k) if (threadIdx.x + k * blockDim.x < packs) {
        #pragma unroll
        for (int j = 0; j < P; ++j) { e[k * P + j] -= mean; square += e[k * P + j] * e[k * P + j]; }
    }
    W rstd = 1 / sqrt(block_sum(square) / (W)n + (W)eps);
    #pragma unroll
    for (int k = 0; k < K; ++k) {
        int i = threadIdx.x + k * blockDim.x;
        if (i < packs) {
            Pack<O, P> out;
            Pack<V, P> w, b;
            if (weight) w = ((const Pack<V, P>*)weight)[i];
            if (bias) b = ((const Pack<V, P>*)bias)[i];
            #pragma unroll
            for (int j = 0; j < P; ++j) {
                W v = e[k * P + j] * rstd;
                if (weight) v *= (W)w.v[j];
                if (bias) v += (W)b.v[j];
                out.v[j] = (O)v;
            }
            ((Pack<O, P>*)(y + start))[i] = out;
        }
    }
    if (threadIdx.x == 0) { if (CENTERED) means[blockIdx.x] = mean; rstds[blockIdx.x] = rstd; }
}
extern "C" __global__ void walked(const T* x, const V* weight, const V* bias, O* y, W* means, W* rstds, i64 n,
        double eps) {
    i64 start = blockIdx.x * n;
    const T* row = x + start;
    W mean = 0, square = 0;
    if (CENTERED) {
        for (i64 i = threadIdx.x; i < n; i += blockDim.x) mean += (W)row[i];
        mean = block_sum(mean) / (W)n;
    }
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) { W d = (W)row[i] - mean; square += d * d; }
    W rstd = 1 / sqrt(block_sum(square) / (W)n + (W)eps);
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
        W v = ((W)row[i] - mean) * rstd;
        if (weight) v *= (W)weight[i];
        if (bias) v += (W)bias[i];
        y[start + i] = (O)v;
    }
    if (threadIdx.x == 0) { if (CENTERED) means[blockIdx.x] = mean; rstds[blockIdx.x] = rstd; }
}
extern "C" __global__ void held_back(const G* g, const T* x, const V* weight, const W* means, const W* rstds,
        O* y, i64 n) {
    i64 start = blockIdx.x * n;
    int packs = n / P;
    W mean = CENTERED ? means[blockIdx.x] : (W)0, rstd = rstds[blockIdx.x], level = 0, along = 0;
    W p[K * P], e[K * P];
    #pragma unroll
    for (int k = 0; k < K; ++k) {
        int i = threadIdx.x + k * blockDim.x;
        if (i < packs) {
            Pack<G, P> u = ((const Pack<G, P>*)(g + start))[i];
            Pack<T, P> v = ((const Pack<T, P>*)(x + start))[i];
            Pack<V, P> w;
            if (weight) w = ((const Pack<V, P>*)weight)[i];
            #pragma unroll
            for (int j = 0; j < P; ++j) {
                p[k * P + j] = weight ? (W)u.v[j] * (W)w.v[j] : (W)u.v[j];
                e[k * P + j] = ((W)v.v[j] - mean) * rstd;
                level += p[k * P + j];
                along += p[k * P + j] * e[k * P + j];
            }
        }
    }
    level = CENTERED ? block_sum(level) / (W)n : (W)0;
    along = block_sum(along) / (W)n;
    #pragma unroll
    for (int k = 0; k < K; ++k) {
        int i = threadIdx.x + k * blockDim.x;
        if (i < packs) {
            Pack<O, P> out;
            #pragma unroll
            for (int j = 0; j < P; ++j) out.v[j] = (O)(rstd * (p[k * P + j] - level - e[k * P + j] * along));
            ((Pack<O, P>*)(y + start))[i] = out;
        }
    }
}
extern "C" __global__ void walked_back(const G* g, const T* x, const V* weight, const W* means, const W* rstds,
        O* y, i64 n) {
    i64 start = blockIdx.x * n;
    W mean = CENTERED ? means[blockIdx.x] : (W)0, rstd = rstds[blockIdx.x], level = 0, along = 0;
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
        W p = weight ? (W)g[start + i] * (W)weight[i] : (W)g[start + i];
        level += p;
        along += p * ((W)x[start + i] - mean) * rstd;
    }
    level = CENTERED ? block_sum(level) / (W)n : (W)0;
    along = block_sum(along) / (W)n;
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) {
        W p = weight ? (W)g[start + i] * (W)weight[i] : (W)g[start + i];
        y[start + i] = (O)(rstd * (p - level - ((W)x[start + i] - mean) * rstd * along));
    }
}
// Sums of columns: of g times the normalized rows, and of g, over a piece of the rows.
extern "C" __global__ void scales(const G* g, const T* x, const W* means, const W* rstds, W* parts, i64 rows,
        i64 n, i64 length) {
    __shared__ W kept[8][2][32 * P + 1];
    i64 tiles = (n + 32 * P - 1) / (32 * P), tile = blockIdx.x % tiles, piece = blockIdx.x / tiles;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    i64 column = tile * 32 * P + lane * P, to = (piece + 1) * length < rows ? (piece + 1) * length : rows;
    W along[P], level[P];
    #pragma unroll
    for (int j = 0; j < P; ++j) along[j] = level[j] = 0;
    if (column < n) {
        #pragma unroll 2
        for (i64 r = piece * length + warp; r < to; r += 8) {
            Pack<G, P> u = *(const Pack<G, P>*)(g + r * n + column);
            Pack<T, P> v = *(const Pack<T, P>*)(x + r * n + column);
            W mean = CENTERED ? means[r] : (W)0, rstd = rstds[r];
            #pragma unroll
            for (int j = 0; j < P; ++j) { level[j] += (W)u.v[j]; along[j] += (W)u.v[j] * ((W)v.v[j] - mean) * rstd; }
        }
    }
    #pragma unroll
    for (int j = 0; j < P; ++j) { kept[warp][0][lane * P + j] = along[j]; kept[warp][1][lane * P + j] = level[j]; }
    __syncthreads();
    for (int c = threadIdx.x; c < 64 * P; c += blockDim.x) {
        int which = c / (32 * P), place = c % (32 * P);
        i64 at = tile * 32 * P + place;
        if (at >= n) continue;
        W sum = 0;
        for (int k = 0; k < 8; ++k) sum += kept[k][which][place];
        parts[(piece * 2 + which) * n + at] = sum;
    }
}
// The pieces added up; blocks of the first half are for scales, of the second for shifts.
extern "C" __global__ void scales_of_pieces(const W* parts, V* along, V* level, i64 pieces, i64 n) {
    __shared__ W kept[8][33];
    i64 tiles = (n + 31) / 32, which = blockIdx.x / tiles, at = blockIdx.x % tiles * 32 + (threadIdx.x & 31);
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    W sum = 0;
    if (at < n) {
        #pragma unroll 4
        for (i64 k = warp; k < pieces; k += 8) sum += parts[(k * 2 + which) * n + at];
    }
    kept[warp][lane] = sum;
    __syncthreads();
    if (warp || at >= n) return;
    for (int k = 1; k < 8; ++k) sum += kept[k][lane];
    V* to = which ? level : along;
    if (to) to[at] = (V)sum;
}
""",
    "T",
    "G",
    "V",
    "O",
    "P",
    "K",
    "CENTERED",
)


def _wide(dtype: Any) -> Any:
    return dtype if dtype.char == "d" else _F32


def rows(
    x: Any, scale: Any, shift: Any, width: int, eps: float, centered: bool, out: Any = None, mean: Any = None,
    rstd: Any = None,
) -> tuple[Any, Any, Any] | None:  # fmt: skip
    """Return rows of `width` normalized, and their means (None if not `centered`) and inverse deviations."""
    if not is_float(x) or not x.size:
        return None
    x, scale, shift = dense(x), None if scale is None else dense(scale), None if shift is None else dense(shift)
    count, wide = x.size // width, _wide(x.dtype)
    out, rstd = made(out, x.shape, x.dtype), made(rstd, (count,), wide)
    mean = made(mean, (count,), wide) if centered else None
    char, weight = x.dtype.char, scale if scale is not None else shift
    types = (char, char, char if weight is None else weight.dtype.char, out.dtype.char)
    used = [a for a in (x, out, scale, shift) if a is not None]
    pack, held, threads = shape_of_blocks(width, pack_of(*used), not aligned(*used))
    given = (x, _or_nothing(scale), _or_nothing(shift), out, _or_nothing(mean), rstd, width, float(eps))
    key = (*types, pack, held or 1, int(centered))
    _ROWS.launch("held" if held else "walked", key, count, threads, given)
    return out, mean, rstd


def _or_nothing(array: Any) -> Any:
    return 0 if array is None else array


def rows_back(
    g: Any, x: Any, scale: Any, mean: Any, rstd: Any, width: int, needs: Any, weight_dtype: Any = None,
            out: Any = None,
    scale_out: Any = None, shift_out: Any = None,
) -> tuple[Any, Any, Any] | None:  # fmt: skip
    """Return the gradients of the array, the scale and the shift (flat), those that `needs` asks for."""
    if not is_float(x) or not is_float(g) or not x.size:
        return None
    g, x, scale = dense(g), dense(x), None if scale is None else dense(scale)
    count, centered = x.size // width, mean is not None
    dtype = weight_dtype or (x.dtype if scale is None else scale.dtype)
    types = (x.dtype.char, g.dtype.char, dtype.char)
    gx = gw = gb = None
    if needs[0]:
        gx = made(out, x.shape, x.dtype)
        used = [a for a in (g, x, gx, scale) if a is not None]
        pack, held, threads = shape_of_blocks(width, pack_of(*used), not aligned(*used))
        given = (g, x, _or_nothing(scale), _or_nothing(mean), rstd, gx, width)
        key = (*types, gx.dtype.char, pack, held or 1, int(centered))
        _ROWS.launch("held_back" if held else "walked_back", key, count, threads, given)
    if needs[1] or needs[2]:
        gw = made(scale_out, (width,), dtype) if needs[1] else None
        gb = made(shift_out, (width,), dtype) if needs[2] else None
        pack = pack_of(g, x) if width % pack_of(g, x) == 0 and aligned(g, x) else 1
        tiles = -(-width // (32 * pack))
        pieces = max(min(-(-1056 // tiles), count // 64), 1)
        length = -(-count // pieces)
        pieces = -(-count // length)
        parts = empty((pieces, 2, width), _wide(x.dtype))
        key = (*types, x.dtype.char, pack, 1, int(centered))
        _ROWS.launch("scales", key, tiles * pieces, 256, (g, x, _or_nothing(mean), rstd, parts, count, width, length))
        outs = (_or_nothing(gw), _or_nothing(gb))
        _ROWS.launch("scales_of_pieces", key, 2 * -(-width // 32), 256, (parts, *outs, pieces, width))
    return gx, gw, gb


# --- Planes -----------------------------------------------------------------------------------------
# A plane is a stretch of `n` elements; its channel is its number modulo the channels, its group
# ``number / inner % outer`` (see `_groups`).

_PLANES = Kernels(
    r"""
typedef wide_of<T>::type W;
extern "C" __global__ void moments(const T* x, W* means, W* squares, i64 n) {
    const T* plane = x + blockIdx.x * n;
    W sum = 0, square = 0;
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) sum += (W)plane[i];
    W mean = block_sum(sum) / (W)n;
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) { W d = (W)plane[i] - mean; square += d * d; }
    square = block_sum(square);
    if (threadIdx.x == 0) { means[blockIdx.x] = mean; squares[blockIdx.x] = square; }
}
// A batch norm in one launch: a block for each channel, of whose planes there are `count`, `step` apart.
extern "C" __global__ void channels(const T* x, const T* weight, const T* bias, T* y, W* mean, W* var, W* rstd,
                                    i64 count, i64 step, i64 n, double eps) {
    const unsigned int size = (unsigned int)n, all = (unsigned int)(count * n);
    const T* first = x + blockIdx.x * n;
    i64 apart = step * n;
    W sum = 0, square = 0;
    #pragma unroll 4
    for (unsigned int i = threadIdx.x; i < all; i += blockDim.x) {
        unsigned int k = i / size;
        sum += (W)first[k * apart + (i - k * size)];
    }
    W m = block_sum(sum) / (W)all;
    #pragma unroll 4
    for (unsigned int i = threadIdx.x; i < all; i += blockDim.x) {
        unsigned int k = i / size;
        W d = (W)first[k * apart + (i - k * size)] - m;
        square += d * d;
    }
    W v = block_sum(square) / (W)all, r = 1 / sqrt(v + (W)eps);
    W f = weight ? r * (W)weight[blockIdx.x] : r, b = bias ? (W)bias[blockIdx.x] : (W)0;
    T* to = y + blockIdx.x * n;
    #pragma unroll 4
    for (unsigned int i = threadIdx.x; i < all; i += blockDim.x) {
        unsigned int k = i / size;
        i64 at = k * apart + (i - k * size);
        to[at] = (T)(((W)first[at] - m) * f + b);
    }
    if (threadIdx.x == 0) { mean[blockIdx.x] = m; var[blockIdx.x] = v; rstd[blockIdx.x] = r; }
}
extern "C" __global__ void channels_back(const T* g, const T* x, const T* weight, const W* mean, const W* rstd, T* y,
                                         T* gw, T* gb, i64 count, i64 step, i64 n) {
    const unsigned int size = (unsigned int)n, all = (unsigned int)(count * n);
    i64 start = blockIdx.x * n, apart = step * n;
    W m = mean[blockIdx.x], r = rstd[blockIdx.x], sum = 0, dot = 0;
    #pragma unroll 4
    for (unsigned int i = threadIdx.x; i < all; i += blockDim.x) {
        unsigned int k = i / size;
        i64 at = start + k * apart + (i - k * size);
        W p = (W)g[at];
        sum += p;
        dot += p * ((W)x[at] - m);
    }
    sum = block_sum(sum);
    dot = block_sum(dot);
    if (threadIdx.x == 0) { if (gw) gw[blockIdx.x] = (T)(dot * r); if (gb) gb[blockIdx.x] = (T)sum; }
    if (!y) return;
    W f = weight ? r * (W)weight[blockIdx.x] : r, a = f * r * r * dot / (W)all, c = f * sum / (W)all;
    #pragma unroll 4
    for (unsigned int i = threadIdx.x; i < all; i += blockDim.x) {
        unsigned int k = i / size;
        i64 at = start + k * apart + (i - k * size);
        y[at] = (T)((W)g[at] * f - ((W)x[at] - m) * a - c);
    }
}
// Group j has the planes ``j * first + k * step``, `count` of them.
extern "C" __global__ void groups(const W* means, const W* squares, W* mean, W* var, W* rstd, i64 count,
        i64 first, i64 step,
                                  i64 n, double eps) {
    W sum = 0, square = 0;
    i64 start = blockIdx.x * first;
    for (i64 k = threadIdx.x; k < count; k += 32) sum += means[start + k * step];
    W all = warp_sum(sum) / (W)count;
    for (i64 k = threadIdx.x; k < count; k += 32) {
        W d = means[start + k * step] - all;
        square += squares[start + k * step] + d * d * (W)n;
    }
    W v = warp_sum(square) / ((W)count * (W)n);
    if (threadIdx.x == 0) { mean[blockIdx.x] = all; var[blockIdx.x] = v; rstd[blockIdx.x] = 1 / sqrt(v + (W)eps); }
}
extern "C" __global__ void apply(const T* x, const W* mean, const W* rstd, const T* weight, const T* bias, T* y,
        i64 n,
                                 i64 inner, i64 outer, i64 channels) {
    i64 group = blockIdx.x / inner % outer, channel = blockIdx.x % channels, start = blockIdx.x * n;
    W m = mean[group], f = rstd[group], b = bias ? (W)bias[channel] : (W)0;
    if (weight) f *= (W)weight[channel];
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) y[start + i] = (T)(((W)x[start + i] - m) * f + b);
}
extern "C" __global__ void dots(const T* g, const T* x, const W* mean, W* sums, W* along, i64 n, i64 inner,
        i64 outer) {
    i64 start = blockIdx.x * n;
    W m = mean[blockIdx.x / inner % outer], sum = 0, dot = 0;
    for (i64 i = threadIdx.x; i < n; i += blockDim.x) { W v = (W)g[start + i]; sum += v;
            dot += v * ((W)x[start + i] - m); }
    sum = block_sum(sum);
    dot = block_sum(dot);
    if (threadIdx.x == 0) { sums[blockIdx.x] = sum; along[blockIdx.x] = dot; }
}
extern "C" __global__ void coefficients(const W* sums, const W* dots, const W* rstd, const T* weight, W* along,
        W* level,
                                        i64 count, i64 first, i64 step, i64 n, i64 channels) {
    W sum = 0, dot = 0;
    for (i64 k = threadIdx.x; k < count; k += 32) {
        i64 plane = blockIdx.x * first + k * step;
        W w = weight ? (W)weight[plane % channels] : (W)1;
        sum += w * sums[plane];
        dot += w * dots[plane];
    }
    sum = warp_sum(sum);
    dot = warp_sum(dot);
    W r = rstd[blockIdx.x], all = (W)count * (W)n;
    if (threadIdx.x == 0) { along[blockIdx.x] = r * r * r * dot / all; level[blockIdx.x] = r * sum / all; }
}
extern "C" __global__ void scales(const W* sums, const W* dots, const W* rstd, T* gw, T* gb, i64 planes,
        i64 inner, i64 outer,
                                  i64 channels) {
    W sum = 0, dot = 0;
    for (i64 plane = blockIdx.x + threadIdx.x * channels; plane < planes; plane += 32 * channels) {
        sum += sums[plane];
        dot += dots[plane] * rstd[plane / inner % outer];
    }
    sum = warp_sum(sum);
    dot = warp_sum(dot);
    if (threadIdx.x == 0) { if (gw) gw[blockIdx.x] = (T)dot; if (gb) gb[blockIdx.x] = (T)sum; }
}
extern "C" __global__ void back(const T* g, const T* x, const W* mean, const W* rstd, const T* weight, const W* along,
                                const W* level, T* y, i64 n, i64 inner, i64 outer, i64 channels) {
    i64 group = blockIdx.x / inner % outer, start = blockIdx.x * n;
    W m = mean[group], f = rstd[group], a = along[group], c = level[group];
    if (weight) f *= (W)weight[blockIdx.x % channels];
    for (i64 i = threadIdx.x; i < n; i += blockDim.x)
        y[start + i] = (T)((W)g[start + i] * f - ((W)x[start + i] - m) * a - c);
}
""",
    "T",
)


def _groups(lead: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, int, int, int, int, int] | None:
    """Return how planes make groups: their number, planes in each, first, step; inner and outer for the way back."""
    count = math.prod(lead)
    together = [a for a in axes if lead[a] > 1]
    if not together:
        return count, 1, 1, 1, 1, _ALL
    if together == [0]:
        groups = count // lead[0]
        return groups, lead[0], 1, groups, 1, groups
    start = min(together)
    inner = math.prod(lead[start:])
    if all(n == 1 or i in together for i, n in enumerate(lead) if i >= start):
        return count // inner, inner, inner, 1, inner, _ALL
    return None


def _threads(n: int) -> int:
    return min(max(32, (n + 127) // 128 * 32), 512)


def planes(x: Any, scale: Any, shift: Any, axes: Any, k: int, eps: float) -> tuple[Any, Any, Any, Any] | None:
    """Return an array normalized whose last `k` axes are planes; and means, variances, inverse deviations of groups."""
    lead, n = x.shape[:-k], math.prod(x.shape[-k:])
    groups = _groups(lead, tuple(a for a in axes if a < len(lead))) if is_float(x) and x.size and n > 16 else None
    if groups is None or not _by_channel(lead, scale, shift):
        return None
    x, out, wide = dense(x), empty(x.shape, x.dtype), _wide(x.dtype)
    scale, shift = _flat_or_nothing(scale), _flat_or_nothing(shift)
    key, count, (number, many, first, step, inner, outer) = (x.dtype.char,), math.prod(lead), groups
    mean, var, rstd = empty((number,), wide), empty((number,), wide), empty((number,), wide)
    if _in_one(groups, n):
        args = (x, scale, shift, out, mean, var, rstd, many, step, n, float(eps))
        _PLANES.launch("channels", key, number, 1024, args)
        return out, mean, var, rstd
    means, squares = empty((count,), wide), empty((count,), wide)
    _PLANES.launch("moments", key, count, _threads(n), (x, means, squares, n))
    _PLANES.launch("groups", key, number, 32, (means, squares, mean, var, rstd, many, first, step, n, float(eps)))
    given = (x, mean, rstd, scale, shift, out, n, inner, outer, math.prod(lead[1:]))
    _PLANES.launch("apply", key, count, _threads(n), given)
    return out, mean, var, rstd


def _in_one(groups: tuple[int, ...], n: int) -> bool:
    """Return whether groups are channels, as many as keep a GPU busy, and small enough for a block each."""
    number, many, outer = groups[0], groups[1], groups[-1]
    return outer == number >= 32 and many * n <= 1 << 17


def _by_channel(lead: tuple[int, ...], *scales: Any) -> bool:
    return all(s is None or s.size == math.prod(lead[1:]) for s in scales)


def _flat_or_nothing(a: Any) -> Any:
    return 0 if a is None else dense(a)


def planes_back(
    g: Any, x: Any, scale: Any, mean: Any, rstd: Any, axes: Any, k: int, needs: Any
) -> tuple[Any, Any, Any] | None:
    """Return the gradient of the array, and those of scale and shift (flat, one number for each channel)."""
    lead, n = x.shape[:-k], math.prod(x.shape[-k:])
    groups = _groups(lead, tuple(a for a in axes if a < len(lead))) if g.dtype == x.dtype else None
    if groups is None or not _by_channel(lead, scale):
        return None
    g, x, scale, wide = dense(g), dense(x), _flat_or_nothing(scale), _wide(x.dtype)
    key, count, (number, many, first, step, inner, outer) = (x.dtype.char,), math.prod(lead), groups
    channels = math.prod(lead[1:])
    if _in_one(groups, n):
        gx = empty(x.shape, x.dtype) if needs[0] else None
        gw, gb = (empty((channels,), x.dtype) if need else None for need in needs[1:])
        outs = (_or_nothing(gx), _or_nothing(gw), _or_nothing(gb))
        _PLANES.launch("channels_back", key, channels, 1024, (g, x, scale, mean, rstd, *outs, many, step, n))
        return gx, gw, gb
    sums, dots = empty((count,), wide), empty((count,), wide)
    _PLANES.launch("dots", key, count, _threads(n), (g, x, mean, sums, dots, n, inner, outer))
    gx, gw, gb = None, None, None
    if needs[1] or needs[2]:
        gw = empty((channels,), x.dtype) if needs[1] else None
        gb = empty((channels,), x.dtype) if needs[2] else None
        given: Any = (sums, dots, rstd, _or_nothing(gw), _or_nothing(gb), count, inner, outer, channels)
        _PLANES.launch("scales", key, channels, 32, given)
    if needs[0]:
        gx = empty(x.shape, x.dtype)
        along, level = empty((number,), wide), empty((number,), wide)
        given = (sums, dots, rstd, scale, along, level, many, first, step, n, channels)
        _PLANES.launch("coefficients", key, number, 32, given)
        given = (g, x, mean, rstd, scale, along, level, gx, n, inner, outer, channels)
        _PLANES.launch("back", key, count, _threads(n), given)
    return gx, gw, gb
