"""Sums, products and extremes along axes: a warp or a block for each row, tiles of columns, or pieces.

An array is read as (A, R, B), of which R is reduced. Where there are too few results to occupy the GPU, R is cut
into pieces whose results are reduced by a second launch; how it is cut depends on the shape alone.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._typing import Array, Axes, DType, Shape
from . import sizes
from .copies import contiguous
from .launching import Kernels, dense, empty, is_float, made
from .table import override

__all__ = ["place_back", "reduced"]

_INT64 = np.dtype(np.int64)

# What is reduced: how an element enters, how two are joined, how the result leaves.
_OPS = {
    "sum": ("x", "a + b", "0", "a * scale"),
    "square": ("x * x", "a + b", "0", "a * scale"),
    "length": ("x * x", "a + b", "0", "sqrt(a)"),
    "size": ("(x < 0 ? -x : x)", "a + b", "0", "a * scale"),
    "prod": ("x", "a * b", "1", "a"),
    "amax": ("x", "(a > b || a != a) ? a : b", "-INFINITE", "a"),
    "amin": ("x", "(a < b || a != a) ? a : b", "INFINITE", "a"),
}
_TEXT = r"""
typedef wide_of<T>::type W;
#define INFINITE ((W)__uint_as_float(0x7f800000u))
__device__ __forceinline__ W enter(W x) { return ENTER; }
__device__ __forceinline__ W join(W a, W b) { return JOIN; }
__device__ __forceinline__ W leave(W a, W scale) { return LEAVE; }
__device__ __forceinline__ W warp_join(W a) {
    for (int k = 16; k > 0; k >>= 1) a = join(a, __shfl_xor_sync(0xffffffff, a, k));
    return a;
}
template <typename V> __device__ __forceinline__ W row_part(const V* x, i64 n, int first, int step, bool raw) {
    const int P = 16 / sizeof(V);
    W a = START;
    i64 packs = ((unsigned long long)x & 15) ? 0 : n / P;
    const Pack<V, P>* p = (const Pack<V, P>*)x;
    W b = START;
    for (i64 i = first; i < packs; i += 2 * step) {
        Pack<V, P> v = p[i];
        #pragma unroll
        for (int j = 0; j < P; ++j) a = join(a, raw ? (W)v.v[j] : enter((W)v.v[j]));
        if (i + step < packs) {
            v = p[i + step];
            #pragma unroll
            for (int j = 0; j < P; ++j) b = join(b, raw ? (W)v.v[j] : enter((W)v.v[j]));
        }
    }
    for (i64 i = packs * P + first; i < n; i += step) a = join(a, raw ? (W)x[i] : enter((W)x[i]));
    return join(a, b);
}
// (A, R) -> (A): a warp for each row; the last launch of a reduction in pieces reads those as they are.
extern "C" __global__ void rows_by_warp(const T* x, T* y, i64 A, i64 R, double scale) {
    i64 row = blockIdx.x * (i64)(blockDim.x >> 5) + (threadIdx.x >> 5);
    if (row >= A) return;
    W a = warp_join(row_part<T>(x + row * R, R, threadIdx.x & 31, 32, false));
    if ((threadIdx.x & 31) == 0) y[row] = (T)leave(a, (W)scale);
}
__device__ __forceinline__ W block_join(W a) {
    __shared__ W part[32];
    a = warp_join(a);
    if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = a;
    __syncthreads();
    a = part[0];
    for (int k = 1; k < (blockDim.x >> 5); ++k) a = join(a, part[k]);
    return a;
}
extern "C" __global__ void rows_by_block(const T* x, T* y, i64 A, i64 R, double scale) {
    W a = block_join(row_part<T>(x + blockIdx.x * R, R, threadIdx.x, blockDim.x, false));
    if (threadIdx.x == 0) y[blockIdx.x] = (T)leave(a, (W)scale);
}
extern "C" __global__ void rows_in_pieces(const T* x, W* y, i64 A, i64 R, i64 pieces, i64 length) {
    i64 row = blockIdx.x / pieces, from = blockIdx.x % pieces * length;
    W a = block_join(row_part<T>(x + row * R + from, R - from < length ? R - from : length, threadIdx.x,
            blockDim.x, false));
    if (threadIdx.x == 0) y[blockIdx.x] = a;
}
extern "C" __global__ void rows_of_pieces(const W* x, T* y, i64 A, i64 R, double scale) {
    W a = block_join(row_part<W>(x + blockIdx.x * R, R, threadIdx.x, blockDim.x, true));
    if (threadIdx.x == 0) y[blockIdx.x] = (T)leave(a, (W)scale);
}
// (A, R, B) -> (A, B): 32 columns of packs and 8 rows at a time; pieces of R lie one after another.
template <typename V, int P, bool raw, typename Z>
__device__ __forceinline__ void columns(const V* x, Z* y, i64 A, i64 R, i64 B, i64 pieces, i64 length, bool last,
        W scale) {
    __shared__ W part[8][32 * P + 1];
    i64 tiles = (B + 32 * P - 1) / (32 * P);
    i64 tile = blockIdx.x % tiles, rest = blockIdx.x / tiles, piece = rest % pieces, a = rest / pieces;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    i64 column = tile * 32 * P + lane * P, from = piece * length, to = from + length < R ? from + length : R;
    W found[P];
    #pragma unroll
    for (int j = 0; j < P; ++j) found[j] = START;
    if (column < B) {
        const V* at = x + a * R * B + column;
        #pragma unroll 4
        for (i64 r = from + warp; r < to; r += 8) {
            Pack<V, P> v = *(const Pack<V, P>*)(at + r * B);
            #pragma unroll
            for (int j = 0; j < P; ++j) found[j] = join(found[j], raw ? (W)v.v[j] : enter((W)v.v[j]));
        }
    }
    #pragma unroll
    for (int j = 0; j < P; ++j) part[warp][lane * P + j] = found[j];
    __syncthreads();
    for (int c = threadIdx.x; c < 32 * P; c += blockDim.x) {
        i64 at = tile * 32 * P + c;
        if (at >= B) continue;
        W all = part[0][c];
        for (int k = 1; k < 8; ++k) all = join(all, part[k][c]);
        y[(piece * A + a) * B + at] = (Z)(last ? leave(all, scale) : all);
    }
}
extern "C" __global__ void columns_whole(const T* x, T* y, i64 A, i64 R, i64 B, double scale) {
    columns<T, PACK, false, T>(x, y, A, R, B, 1, R, true, (W)scale);
}
extern "C" __global__ void columns_in_pieces(const T* x, W* y, i64 A, i64 R, i64 B, i64 pieces, i64 length) {
    columns<T, PACK, false, W>(x, y, A, R, B, pieces, length, false, (W)1);
}
extern "C" __global__ void columns_of_pieces(const W* x, T* y, i64 A, i64 R, i64 B, double scale) {
    columns<W, 1, true, T>(x, y, A, R, B, 1, R, true, (W)scale);
}
"""


def _kernels(op: str) -> Kernels:
    enter, join, start, leave = _OPS[op]
    text = _TEXT.replace("ENTER", enter).replace("JOIN", join).replace("LEAVE", leave).replace("START", f"(W)({start})")
    return Kernels(text, "T", "PACK")


_REDUCTIONS = {op: _kernels(op) for op in _OPS}


def wide(dtype: DType) -> DType:
    """Return the dtype in which a kernel computes."""
    return dtype if dtype.char == "d" else np.dtype(np.float32)


def folded(shape: tuple[int, ...], axes: Axes | None) -> tuple[int, int, int] | None:
    """Return the sizes before, in and after the axes; None if they are not adjacent."""
    rank = len(shape)
    reduced_axes = [a for a in (range(rank) if axes is None else axes) if shape[a] != 1]
    if not reduced_axes:
        return math.prod(shape), 1, 1
    first, last = min(reduced_axes), max(reduced_axes)
    if any(shape[i] != 1 and i not in reduced_axes for i in range(first, last)):
        return None
    return math.prod(shape[:first]), math.prod(shape[first : last + 1]), math.prod(shape[last + 1 :])


def left_shape(shape: tuple[int, ...], axes: Axes | None, keepdims: bool) -> tuple[int, ...]:
    """Return the shape of a reduction's result."""
    rank = range(len(shape))
    axes = tuple(rank) if axes is None else axes
    if keepdims:
        return tuple([1 if i in axes else shape[i] for i in rank])
    return tuple([shape[i] for i in rank if i not in axes])


def is_same_float(g: Array, x: Array, *saved: object) -> bool:
    """Return whether a gradient and a value have the same dtype, with which kernels compute."""
    return is_float(x) and bool(x.size) and g.dtype == x.dtype


def laid(x: Any, axes: Any) -> tuple[Any, tuple[int, int, int]]:
    """Return the array with the axes adjacent in row-major memory, as (A, R, B)."""
    if not x._c_contiguous and (axes is None or len(axes) == x.ndim) and x.flags.f_contiguous:
        return x, (1, x.size, 1)  # in any order, all of it is the same
    parts = folded(x.shape, axes)
    if parts is not None:
        return dense(x), parts
    others = [i for i in range(x.ndim) if i not in axes]
    count = math.prod([x.shape[i] for i in axes])
    return dense(x.transpose(*others, *axes)), (x.size // count, count, 1)


def reduced(x: Any, axes: Axes | None, keepdims: bool, op: str = "sum", scale: float = 1.0, out: Any = None) -> Any:
    """Return a reduction along axes (None: all), times `scale` where it is a sum; None where CuPy must do it."""
    if not is_float(x) or not x.size:
        return None
    if axes is not None and op in _IN_TURN and x._c_contiguous and folded(x.shape, axes) is None:
        if x.dtype.char in "fd" or op != "sum":  # 16 bits between two sums would be too few
            return reduced(reduced(x, _last_run(x.shape, axes), True, op), axes, keepdims, op, scale, out)
    out = made(out, left_shape(x.shape, axes, keepdims), x.dtype)
    x, (before, count, after) = laid(x, axes)
    if after == 1:
        _reduce_rows(_REDUCTIONS[op], x, out, before, count, scale)
    else:
        _reduce_columns(_REDUCTIONS[op], x, out, before, count, after, scale)
    return out


def _attached(value: Array | None, x: Array, axes: Axes | None, keepdims: bool, method: str) -> Array:
    """Return a kernel's result; else CuPy's, of an array without gaps, which a single block would walk over."""
    return getattr(contiguous(x), method)(axis=axes, keepdims=keepdims) if value is None else value


@override("sum")
def sum_over_axes(x: Array, axes: Axes | None, keepdims: bool) -> Array:
    """Return sums along axes."""
    if x.dtype.kind in "biu":
        return NotImplemented
    return _attached(reduced(x, axes, keepdims), x, axes, keepdims, "sum")


@override("sum_all")
def sum_all(x: Array) -> Array:
    """Return the sum of all elements."""
    return sum_over_axes(x, None, False)


@override("mean", when=lambda x, axes, keepdims: x.size)
def mean_over_axes(x: Array, axes: Axes | None, keepdims: bool) -> Array:
    """Return means along axes."""
    count = x.size if axes is None else math.prod([x.shape[i] for i in axes])
    return _or_next(reduced(x, axes, keepdims, "sum", 1 / max(count, 1)))


@override("mean_all", when=lambda x: x.size)
def mean_all(x: Array) -> Array:
    """Return the mean of all elements."""
    return mean_over_axes(x, None, False)


@override("sum_to")
def sum_to(x: Array, shape: Shape) -> Array:
    """Return sums along the axes on which a shape was broadcast."""
    lead = x.ndim - len(shape)
    axes = (*range(lead), *[lead + i for i, n in enumerate(shape) if n == 1 != x.shape[lead + i]])
    found = reduced(x, axes, True) if axes else None
    return NotImplemented if found is None else found.reshape(shape)


def _attach_extreme(name: str, op: str, method: str) -> None:
    @override(name)
    def extreme(x: Array, axes: Axes, keepdims: bool) -> Array:
        return _attached(reduced(x, axes, keepdims, op), x, axes, keepdims, method)


for _name, _method in (("amax", "max"), ("max_all", "max"), ("amin", "min"), ("min_all", "min")):
    _attach_extreme(_name, f"a{_method}", _method)


@override("prod")
def prod(x: Array, axes: Axes, keepdims: bool) -> Array:
    """Return products along axes."""
    return _or_next(reduced(x, axes, keepdims, "prod"))


@override("vector_norm", when=lambda x, p, *params: p in (1, 2))
def vector_norm(x: Array, p: float, axes: Axes, keepdims: bool) -> Array:
    """Return sums of absolute values (`p` is 1) or lengths (2) along axes."""
    return _or_next(reduced(x, axes, keepdims, "length" if p == 2 else "size"))


def _or_next(value: Array | None) -> Array:
    """Return a kernel's result, where it has one; else let the next override, or the definition, compute it."""
    return NotImplemented if value is None else value


_IN_TURN = ("sum", "amax", "amin")  # what may be reduced along one axis after another


def _last_run(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the last of the axes, with those directly before it."""
    at = max([a for a in axes if shape[a] != 1])
    run = []
    while at >= 0 and (at in axes or shape[at] == 1):
        run.append(at)
        at -= 1
    return tuple([a for a in run if a in axes])


def _reduce_rows(kernels: Kernels, x: Array, out: Array, rows: int, n: int, scale: float) -> None:
    key = (x.dtype.char, 1)
    if n <= 64 or (n <= 1024 and rows >= 128):
        kernels.launch("rows_by_warp", key, -(-rows // 4), 128, (x, out, rows, n, scale))
        return
    pieces, length = pieces_of(rows, n, sizes.PIECE_OF_ROW)
    if pieces == 1:
        kernels.launch("rows_by_block", key, rows, 128 if n <= 2048 else 512, (x, out, rows, n, scale))
        return
    parts = empty((rows, pieces), wide(x.dtype))
    kernels.launch("rows_in_pieces", key, rows * pieces, 256, (x, parts, rows, n, pieces, length))
    kernels.launch("rows_of_pieces", key, rows, 128 if pieces <= 512 else 512, (parts, out, rows, pieces, scale))


def pieces_of(results: int, n: int, least: int) -> tuple[int, int]:
    """Return into how many pieces of which length an axis is cut; a length on the border of packs."""
    pieces = min(-(-sizes.BLOCKS // results), n // least)
    if pieces <= 1:
        return 1, n
    length = (-(-n // pieces) + 7) // 8 * 8
    return -(-n // length), length


def _pack(x: Array, after: int) -> int:
    pack = 16 // x.itemsize
    return pack if after % pack == 0 and after >= 32 and not x.data.ptr & 15 else 1


def _reduce_columns(kernels: Kernels, x: Array, out: Array, before: int, n: int, after: int, scale: float) -> None:
    pack = _pack(x, after)
    tiles, key = -(-after // (32 * pack)) * before, (x.dtype.char, pack)
    pieces, length = pieces_of(tiles, n, sizes.PIECE)
    if pieces == 1:
        kernels.launch("columns_whole", key, tiles, 256, (x, out, before, n, after, scale))
        return
    parts = empty((pieces, before * after), wide(x.dtype))
    kernels.launch("columns_in_pieces", key, tiles * pieces, 256, (x, parts, before, n, after, pieces, length))
    blocks = -(-before * after // 32)
    kernels.launch("columns_of_pieces", (key[0], 1), blocks, 256, (parts, out, 1, pieces, before * after, scale))


# --- Extremes with their indices ---------------------------------------------------------------------

_EXTREMES = Kernels(
    r"""
typedef wide_of<T>::type W;
#define INFINITE ((W)__uint_as_float(0x7f800000u))
struct E { W v; i64 at; };
__device__ __forceinline__ E join(E a, E b) {
    bool na = a.v != a.v, nb = b.v != b.v;
    bool first = na ? (!nb || a.at < b.at) : (!nb && ((LARGEST ? a.v > b.v : a.v < b.v) ||
            (a.v == b.v && a.at < b.at)));
    return first ? a : b;
}
__device__ __forceinline__ E start() { return E{LARGEST ? -INFINITE : INFINITE, (i64)1 << 62}; }
__device__ __forceinline__ E block_join(E a) {
    __shared__ E part[32];
    for (int k = 16; k > 0; k >>= 1) a = join(a, E{__shfl_xor_sync(0xffffffff, a.v, k),
            __shfl_xor_sync(0xffffffff, a.at, k)});
    if ((threadIdx.x & 31) == 0) part[threadIdx.x >> 5] = a;
    __syncthreads();
    a = part[0];
    for (int k = 1; k < (blockDim.x >> 5); ++k) a = join(a, part[k]);
    return a;
}
extern "C" __global__ void rows(const T* x, T* y, i64* places, W* parts, i64* at, i64 R, i64 pieces, i64 length) {
    i64 from = blockIdx.x % pieces * length, to = from + length < R ? from + length : R;
    const T* row = x + blockIdx.x / pieces * R;
    E a = start();
    #pragma unroll 4
    for (i64 i = from + threadIdx.x; i < to; i += blockDim.x) a = join(a, E{(W)row[i], i});
    a = block_join(a);
    if (threadIdx.x) return;
    if (parts) { parts[blockIdx.x] = a.v; at[blockIdx.x] = a.at; } else { y[blockIdx.x] = (T)a.v;
            places[blockIdx.x] = a.at; }
}
extern "C" __global__ void of_pieces(const W* parts, const i64* at, T* y, i64* places, i64 pieces, i64 step,
        i64 stride) {
    E a = start();
    for (i64 k = threadIdx.x; k < pieces; k += blockDim.x) {
        i64 i = blockIdx.x * stride + k * step;
        a = join(a, E{parts[i], at[i]});
    }
    a = block_join(a);
    if (threadIdx.x == 0) { y[blockIdx.x] = (T)a.v; places[blockIdx.x] = a.at; }
}
extern "C" __global__ void columns(const T* x, T* y, i64* places, W* parts, i64* at, i64 A, i64 R, i64 B,
        i64 pieces, i64 length) {
    __shared__ E part[8][33];
    i64 tiles = (B + 31) / 32, tile = blockIdx.x % tiles, rest = blockIdx.x / tiles, piece = rest % pieces,
            group = rest / pieces;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    i64 column = tile * 32 + lane, from = piece * length, to = from + length < R ? from + length : R;
    E a = start();
    if (column < B) {
        #pragma unroll 4
        for (i64 r = from + warp; r < to; r += 8) a = join(a, E{(W)x[(group * R + r) * B + column], r});
    }
    part[warp][lane] = a;
    __syncthreads();
    if (warp || column >= B) return;
    for (int k = 1; k < 8; ++k) a = join(a, part[k][lane]);
    i64 i = (piece * A + group) * B + column;
    if (parts) { parts[i] = a.v; at[i] = a.at; } else { y[i] = (T)a.v; places[i] = a.at; }
}
// Zeros with one element of each row in its place; below, of each group.
extern "C" __global__ void back_rows(const T* g, const i64* places, T* y, i64 R) {
    i64 place = places[blockIdx.x];
    T* row = y + blockIdx.x * R;
    T value = g[blockIdx.x], zero = (T)0.0f;
    for (i64 i = threadIdx.x; i < R; i += blockDim.x) row[i] = i == place ? value : zero;
}
extern "C" __global__ void back(const T* g, const i64* places, T* y, i64 size, i64 R, i64 B) {
    for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < size; i += gridDim.x * (i64)blockDim.x) {
        i64 group, r;
        if (size < (i64)1 << 31) {  // 64 bits are divided slowly
            unsigned int n = (unsigned int)R, b = (unsigned int)B, k = (unsigned int)i / b, a = k / n;
            r = k - a * n;
            group = a * b + ((unsigned int)i - k * b);
        } else { i64 k = i / B; r = k % R; group = k / R * B + i - k * B; }
        y[i] = places[group] == r ? g[group] : (T)0.0f;
    }
}
""",
    "T",
    "LARGEST",
)


def _extreme(x: Array, axis: int, keepdims: bool, largest: bool) -> tuple[Array, Array]:
    """Return the largest (or smallest) elements along an axis and their indices: the first of equals, or of NaNs."""
    shape = left_shape(x.shape, (axis,), keepdims)
    out, places = empty(shape, x.dtype), empty(shape, _INT64)
    x, (before, n, after) = dense(x), (math.prod(x.shape[:axis]), x.shape[axis], math.prod(x.shape[axis + 1 :]))
    key, by_rows = (x.dtype.char, int(largest)), after == 1
    tiles = before if by_rows else -(-after // 32) * before
    pieces, length = pieces_of(tiles, n, sizes.PIECE_OF_ROW if by_rows else sizes.PIECE)
    parts: Any = (0, 0)
    if pieces > 1:
        count = pieces * before * after
        parts = empty((count,), wide(x.dtype)), empty((count,), _INT64)
    if by_rows:
        threads = min(max(32, (n + 127) // 128 * 32), 512)
        _EXTREMES.launch("rows", key, before * pieces, threads, (x, out, places, *parts, n, pieces, length))
    else:
        args = (x, out, places, *parts, before, n, after, pieces, length)
        _EXTREMES.launch("columns", key, tiles * pieces, 256, args)
    if pieces > 1:
        steps = (1, pieces) if by_rows else (before * after, 1)
        _EXTREMES.launch("of_pieces", key, before * after, 128, (*parts, out, places, pieces, *steps))
    return out, places


def _has_extreme(x: Array, axis: int | None, keepdims: bool) -> bool:
    return axis is not None and is_float(x) and bool(x.size)


def _attach_extremes(name: str, largest: bool) -> None:
    @override(f"{name}_dim", when=_has_extreme)
    def with_index(x: Array, axis: int, keepdims: bool) -> tuple[Array, Array]:
        return _extreme(x, axis, keepdims, largest)

    @override(f"arg{name}", when=_has_extreme)
    def index(x: Array, axis: int, keepdims: bool) -> Array:
        return _extreme(x, axis, keepdims, largest)[1]


_attach_extremes("max", True)
_attach_extremes("min", False)


def place_back(g: Array, places: Array, shape: tuple[int, ...], axis: int) -> Array | None:
    """Return zeros of a shape with each element of `g` at its place along an axis; None where CuPy must do it."""
    if not is_float(g) or places.dtype != _INT64 or not math.prod(shape):
        return None
    out = empty(shape, g.dtype)
    g, places, n, after = dense(g), dense(places), shape[axis], math.prod(shape[axis + 1 :])
    if after == 1 and n >= 32:
        threads = min(max(32, (n + 127) // 128 * 32), 512)
        _EXTREMES.launch("back_rows", (g.dtype.char, 1), out.size // n, threads, (g, places, out, n))
        return out
    args = (g, places, out, out.size, n, after)
    _EXTREMES.launch("back", (g.dtype.char, 1), min(-(-out.size // 256), 1 << 16), 256, args)
    return out


# --- Gradients of products ----------------------------------------------------------------------------------

_PRODUCTS = Kernels(
    r"""
typedef wide_of<T>::type W;
__device__ __forceinline__ W others(W x, W g, W all, W zeros) {
    return zeros == 0 ? g * all / x : (zeros == 1 && x == 0) ? g * all : (W)0;
}
extern "C" __global__ void rows(const T* g, const T* x, T* y, i64 R) {
    const T* row = x + blockIdx.x * R;
    W all = 1, zeros = 0;
    for (i64 i = threadIdx.x; i < R; i += blockDim.x) { W v = (W)row[i]; if (v == 0) zeros += 1; else all *= v; }
    all = block_prod(all);
    zeros = block_sum(zeros);
    W part = (W)g[blockIdx.x];
    for (i64 i = threadIdx.x; i < R; i += blockDim.x) y[blockIdx.x * R + i] = (T)others((W)row[i], part, all, zeros);
}
extern "C" __global__ void columns(const T* g, const T* x, T* y, i64 count, i64 R, i64 B) {
    i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (i >= count) return;
    i64 first = i / B * R * B + i % B;
    W all = 1, zeros = 0, part = (W)g[i];
    for (i64 r = 0; r < R; ++r) { W v = (W)x[first + r * B]; if (v == 0) zeros += 1; else all *= v; }
    for (i64 r = 0; r < R; ++r) y[first + r * B] = (T)others((W)x[first + r * B], part, all, zeros);
}
""",
    "T",
)


@override("prod", gradient="x", when=is_same_float)
def prod_backward(g: Array, x: Array, out: Array, axes: Axes, keepdims: bool) -> Array:
    """Return the gradient of a product's factors, zeros among them or not."""
    parts = folded(x.shape, axes)
    if parts is None:
        return NotImplemented
    g, x, out = dense(g), dense(x), empty(x.shape, x.dtype)
    before, n, after = parts
    if after == 1:
        threads = min(max(32, (n + 127) // 128 * 32), 1024)
        _PRODUCTS.launch("rows", (x.dtype.char,), before, threads, (g, x, out, n))
    else:
        args = (g, x, out, before * after, n, after)
        _PRODUCTS.launch("columns", (x.dtype.char,), -(-before * after // 128), 128, args)
    return out
