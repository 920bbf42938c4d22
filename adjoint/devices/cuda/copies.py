"""Copies between memory layouts: in packs where elements are adjacent, by tiles where axes swap."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import cupy

from ..._typing import Array, Shape
from .launching import Kernels, empty
from .sizes import COPY_BLOCKS, PLANS
from .table import override

__all__ = ["contiguous", "copy_into", "turn_into"]

_MOST = 4  # dimensions, once those that are contiguous are merged
_JOINED = 4  # arrays that are joined in one launch
_THREADS = 256

_KERNELS = Kernels(
    r"""
// The coordinates of an element; what is not there costs nothing.
#define COORDINATES \
    I d0 = 0, d1 = 0, d2 = 0, d3 = (I)at; \
    if (RANK > 1) { d2 = d3 / n3; d3 -= d2 * n3; } \
    if (RANK > 2) { d1 = d2 / n2; d2 -= d1 * n2; } \
    if (RANK > 3) { d0 = d1 / n1; d1 -= d0 * n1; }
extern "C" __global__ void copy(U* y, const U* x, i64 size, I n1, I n2, I n3,
                                i64 t0, i64 t1, i64 t2, i64 t3, i64 s0, i64 s1, i64 s2, i64 s3) {
    for (i64 at = blockIdx.x * (i64)blockDim.x + threadIdx.x; at < size; at += gridDim.x * (i64)blockDim.x) {
        COORDINATES
        y[d0 * t0 + d1 * t1 + d2 * t2 + d3 * t3] = x[d0 * s0 + d1 * s1 + d2 * s2 + d3 * s3];
    }
}
// One element everywhere, in packs.
extern "C" __global__ void fill(U* y, const U* x, i64 size) {
    const int P = 16 / sizeof(U);
    i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    Pack<U, P> v;
    #pragma unroll
    for (int j = 0; j < P; ++j) v.v[j] = x[0];
    if (i * P + P <= size) ((Pack<U, P>*)y)[i] = v;
    else for (i64 k = i * P; k < size; ++k) y[k] = v.v[0];
}
// Zeros with an array in them: along each dimension from `b` on, `c` elements, `e` apart.
extern "C" __global__ void place(U* y, const U* x, i64 size, I n1, I n2, I n3, I b0, I b1, I b2, I b3,
                                 I c0, I c1, I c2, I c3, I e0, I e1, I e2, I e3, i64 s0, i64 s1, i64 s2, i64 s3) {
    for (i64 at = blockIdx.x * (i64)blockDim.x + threadIdx.x; at < size; at += gridDim.x * (i64)blockDim.x) {
        COORDINATES
        d0 -= b0, d1 -= b1, d2 -= b2, d3 -= b3;
        U found = U();
        if (d0 >= 0 && d1 >= 0 && d2 >= 0 && d3 >= 0) {
            I q0 = d0, q1 = d1, q2 = d2, q3 = d3;
            if (STEPS) { q0 /= e0; q1 /= e1; q2 /= e2; q3 /= e3; }
            if (q0 < c0 && q1 < c1 && q2 < c2 && q3 < c3 && q0 * e0 == d0 && q1 * e1 == d1 && q2 * e2 == d2
                && q3 * e3 == d3) found = x[q0 * s0 + q1 * s1 + q2 * s2 + q3 * s3];
        }
        y[at] = found;
    }
}
// Arrays one after the other in every row of the result, whose width is the last of the ends.
extern "C" __global__ void join(U* y, const U* x0, const U* x1, const U* x2, const U* x3, i64 size, I e0, I e1, I e2,
                                I e3) {
    for (i64 at = blockIdx.x * (i64)blockDim.x + threadIdx.x; at < size; at += gridDim.x * (i64)blockDim.x) {
        I row = (I)at / e3, c = (I)at - row * e3;
        y[at] = c < e0 ? x0[row * e0 + c] : c < e1 ? x1[row * (e1 - e0) + c - e0]
            : c < e2 ? x2[row * (e2 - e1) + c - e1] : x3[row * (e3 - e2) + c - e2];
    }
}
// What lies on one side of a diagonal of matrices in row-major memory, zeros on the other; `each` is 0 where one
// number is repeated.
extern "C" __global__ void triangle(U* y, const U* x, i64 size, I rows, I columns, I diagonal, int lower, int each) {
    const int P = 16 / sizeof(U);
    i64 at = (blockIdx.x * (i64)blockDim.x + threadIdx.x) * P;
    if (at >= size) return;
    I line = (I)at / columns, column = (I)at - line * columns, row = line % rows;
    Pack<U, P> v;
    bool whole = at + P <= size;
    if (!each) for (int j = 0; j < P; ++j) v.v[j] = x[0];
    else if (whole) v = *(const Pack<U, P>*)(x + at);
    else for (int j = 0; at + j < size; ++j) v.v[j] = x[at + j];
    #pragma unroll
    for (int j = 0; j < P; ++j) {
        if (lower ? column - row > diagonal : column - row < diagonal) v.v[j] = U();
        if (++column == columns) { column = 0; if (++row == rows) row = 0; }
    }
    if (whole) *(Pack<U, P>*)(y + at) = v;
    else for (int j = 0; at + j < size; ++j) y[at + j] = v.v[j];
}
// Matrices with their axes swapped: tiles go through shared memory, so that both sides are read and written in line.
extern "C" __global__ void swap(U* y, const U* x, i64 rows, i64 columns, i64 batch_step, i64 column_step) {
    __shared__ U tile[32][33];
    i64 across = (columns + 31) / 32, down = (rows + 31) / 32;
    i64 b = blockIdx.x / (across * down), r = blockIdx.x / across % down * 32, c = blockIdx.x % across * 32;
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    for (int k = warp; k < 32; k += 8)
        if (r + lane < rows && c + k < columns) tile[k][lane] = x[b * batch_step + (c + k) * column_step + r + lane];
    __syncthreads();
    for (int k = warp; k < 32; k += 8)
        if (r + k < rows && c + lane < columns) y[(b * rows + r + k) * columns + c + lane] = tile[lane][k];
}
""",
    "U",
    "I",
    "RANK",
    "STEPS",
)


def _merged(sizes: tuple[int, ...], *strides: tuple[int, ...]) -> list[list[int]]:
    """Return sizes and strides with contiguous dimensions merged, those of size 1 left out."""
    kept: list[list[int]] = []
    for dim in zip(sizes, *strides, strict=True):
        if dim[0] == 1:
            continue
        if kept and all(outer == inner * dim[0] for outer, inner in zip(kept[-1][1:], dim[1:], strict=True)):
            kept[-1] = [kept[-1][0] * dim[0], *dim[1:]]
        else:
            kept.append(list(dim))
    return kept or [[1, *(1,) * len(strides)]]


def _widened(dims: list[list[int]], unit: int, *starts: int) -> int:
    """Merge elements of the last dimension into wider units while all is aligned to these; return a unit's bytes."""
    while unit < 16 and dims[-1][0] % 2 == 0 and all(s == 1 for s in dims[-1][1:]):
        if any(s % 2 for dim in dims[:-1] for s in dim[1:]) or any(start % (2 * unit) for start in starts):
            break
        for dim in dims[:-1]:
            dim[1:] = [s // 2 for s in dim[1:]]
        dims[-1][0] //= 2
        unit *= 2
    return unit


def _steps(x: Array) -> tuple[int, ...]:
    item = x.itemsize
    return tuple([s // item for s in x.strides])


def _launch(name: str, unit: int, rank: int, steps: int, count: int, args: tuple[Any, ...]) -> None:
    blocks = min(-(-count // _THREADS), COPY_BLOCKS)
    key = (f"u{unit}", "l" if count >= 1 << 31 else "i", rank, steps)
    _KERNELS.launch(name, key, blocks, _THREADS, args)


_plans: dict[Any, Any] = {}  # by layouts: how an array is copied, None where it has too many pieces


def _planned(key: Any, made: Any) -> Any:
    if len(_plans) >= PLANS:
        _plans.clear()
    _plans[key] = made
    return made


def copy_into(y: Any, x: Any) -> bool:
    """Copy an array into another of its shape and dtype; return False where the copy has too many pieces."""
    if not y.size:
        return True
    key = y.shape, y.strides, x.strides, y.itemsize, (y.data.ptr | x.data.ptr) & 15
    plan = _plans.get(key, False)
    if plan is False:
        plan = _planned(key, _plan_of_copy(y, x))
    if plan is None:
        return False
    name, types, blocks, rest = plan
    _KERNELS.launch(name, types, blocks, _THREADS, (y, x, *rest))
    return True


def _plan_of_copy(y: Any, x: Any) -> Any:
    """Return by which kernel an array is copied, on how many blocks and with which numbers."""
    dims = _merged(y.shape, _steps(y), _steps(x))
    if len(dims) > _MOST or y.itemsize not in (1, 2, 4, 8, 16):
        return None
    unit = _widened(dims, y.itemsize, y.data.ptr | x.data.ptr)
    rank, dims = len(dims), [[1, 0, 0]] * (_MOST - len(dims)) + dims
    count = math.prod([d[0] for d in dims])
    sizes, to, of = zip(*dims, strict=True)
    types = (f"u{unit}", "l" if count >= 1 << 31 else "i", rank, 0)
    return "copy", types, min(-(-count // _THREADS), COPY_BLOCKS), (count, *sizes[1:], *to, *of)


def contiguous(x: Array) -> Any:
    """Return a copy in row-major memory."""
    if not x.size or x.itemsize not in (1, 2, 4, 8, 16):
        return cupy.ndarray.copy(x, "C")
    out = empty(x.shape, x.dtype)
    if not any(x.strides):
        _KERNELS.launch("fill", (f"u{x.itemsize}", "i", 1, 0), -(-out.nbytes // 4096), 256, (out, x, out.size))
        return out
    return out if turn_into(out, x) else cupy.ndarray.copy(x, "C")


def turn_into(out: Any, x: Array) -> bool:
    """Copy an array into row-major memory, by tiles where its axes are swapped; return whether that was done."""
    key = x.shape, x.strides, x.itemsize, (out.data.ptr | x.data.ptr) & 15
    plan = _plans.get(key, False)
    if plan is False:
        plan = _planned(key, _plan_of_tiles(x) or _plan_of_copy(out, x))
    if plan is None:
        return False
    name, types, blocks, rest = plan
    _KERNELS.launch(name, types, blocks, _THREADS, (out, x, *rest))
    return True


def _plan_of_tiles(x: Any) -> Any:
    """Return the same where two axes are swapped; None where they are not."""
    dims = _merged(x.shape, _steps(x))
    if not (2 <= len(dims) <= 3 and dims[-2][1] == 1 and dims[-1][1] > 1 and dims[-2][0] > 4):
        return None
    (rows, _), (columns, step) = dims[-2:]
    batch, batch_step = dims[0] if len(dims) == 3 else (1, 0)
    blocks = batch * -(-rows // 32) * -(-columns // 32)
    return "swap", (f"u{x.itemsize}", "l", 1, 0), blocks, (rows, columns, batch_step, step)


@override("place")
def place(x: Array, shape: Shape, index: tuple[Any, ...]) -> Array:
    """Return zeros of a shape with `x` at an index of numbers, slices, None and at most one `...`."""
    if x.itemsize not in (1, 2, 4, 8, 16) or not math.prod(shape):
        return NotImplemented
    dims, at = [], 0
    left = len(shape) - sum(i is not None and i is not Ellipsis for i in index)
    steps, sizes = _steps(x), iter(shape)
    for item in index:
        if item is None:
            at += 1
        elif item is Ellipsis:
            for _ in range(left):
                n = next(sizes)
                dims.append([n, 0, n, 1, steps[at]])
                at += 1
            left = 0
        elif type(item) is slice:
            n = next(sizes)
            start, _, step = item.indices(n)
            dims.append([n, start, x.shape[at], step, steps[at]])
            at += 1
        else:
            n = next(sizes)
            dims.append([n, item + n if item < 0 else item, 1, 1, 0])
    for n, step in zip(sizes, steps[at:], strict=True):
        dims.append([n, 0, n, 1, step])
    dims = _whole_merged(dims)
    if len(dims) > _MOST or any(d[3] < 1 for d in dims):
        return NotImplemented
    out = empty(shape, x.dtype)
    unit = _packed(dims, x)
    rank, apart = len(dims), int(any(d[3] > 1 for d in dims))
    dims = [[1, 0, 1, 1, 0]] * (_MOST - rank) + dims
    columns: Any = tuple(zip(*dims, strict=True))
    total = math.prod(columns[0])
    numbers = (*columns[0][1:], *(v for column in columns[1:] for v in column))
    _launch("place", unit, rank, apart, total, (out, x, total, *numbers))
    return out


@override("assemble")
def assemble(xs: Sequence[Array], shape: Shape, indexes: Sequence[tuple[Any, ...]]) -> Array:
    """Return zeros of a shape with arrays at given places that do not overlap."""
    out = empty(shape, xs[0].dtype)
    if sum([x.size for x in xs]) != out.size:
        out.data.memset_async(0, out.nbytes)
    for x, index in zip(xs, indexes, strict=True):
        part = out[index]
        if x.shape != part.shape or x.dtype != out.dtype or not copy_into(part, x):
            out[index] = x
    return out


@override("cat")
def join(xs: Sequence[Array], axis: int) -> Array:
    """Return arrays of one dtype one after the other along an axis."""
    first = xs[0]
    shape = list(first.shape)
    for x in xs:
        if type(x) is not type(first) or x.dtype != first.dtype or x.ndim != first.ndim:
            return NotImplemented
        if any(n != m for i, (n, m) in enumerate(zip(x.shape, shape, strict=True)) if i != axis):
            return NotImplemented  # CuPy says what is wrong
    shape[axis] = sum([x.shape[axis] for x in xs])
    if len(xs) <= _JOINED and (found := _joined(xs, axis, tuple(shape))) is not None:
        return found
    lead, ends = (slice(None),) * axis, [0]
    for x in xs:
        ends.append(ends[-1] + x.shape[axis])
    return assemble(xs, tuple(shape), [(*lead, slice(a, b)) for a, b in itertools.pairwise(ends)])


def _joined(xs: Any, axis: int, shape: tuple[int, ...]) -> Array | None:
    """Return a few arrays in row-major memory one after the other by one launch; None where they are not such."""
    unit, ends, places = xs[0].itemsize, [0], 0
    for x in xs:
        if not x._c_contiguous:
            return None
        places |= x.data.ptr
        ends.append(ends[-1] + math.prod(x.shape[axis:]))
    if unit not in (1, 2, 4, 8, 16) or not ends[-1]:
        return None
    out = empty(shape, xs[0].dtype)
    while unit < 16 and not any(e % 2 for e in ends) and not places & (2 * unit - 1):
        unit, ends = unit * 2, [e // 2 for e in ends]
    given = [*xs, *(xs[-1:] * (_JOINED - len(xs)))]
    until = [*ends[1:], *(ends[-1:] * (_JOINED - len(xs)))]
    count = out.nbytes // unit
    if count:
        _launch("join", unit, 1, 0, count, (out, *given, count, *until))
    return out


@override("stack")
def stack(xs: Sequence[Array], axis: int) -> Array:
    """Return arrays of one shape along a new axis."""
    new = (*(slice(None),) * axis, None)
    return join([x[new] for x in xs], axis)


@override("roll", when=lambda x, shifts, axes: len(axes) == 1)
def roll(x: Array, shifts: tuple[int], axes: tuple[int]) -> Array:
    """Return an array moved along an axis, what falls off coming in at the other end."""
    (axis,) = axes
    size = x.shape[axis]
    shift = shifts[0] % max(size, 1)
    lead = (slice(None),) * axis
    parts = [x[(*lead, slice(size - shift, None))], x[(*lead, slice(None, size - shift))]]
    if axis == 0 and x.size and (found := _joined(parts, 0, x.shape)) is not None:
        return found
    return assemble(parts, x.shape, [(*lead, slice(None, shift)), (*lead, slice(shift, None))])


@override("tril")
def tril(x: Array, diagonal: int) -> Array:
    """Return matrices with zeros above a diagonal."""
    return _triangle(x, diagonal, True)


@override("triu")
def triu(x: Array, diagonal: int) -> Array:
    """Return matrices with zeros below a diagonal."""
    return _triangle(x, diagonal, False)


def _triangle(x: Any, diagonal: int, lower: bool) -> Array:
    if x.itemsize not in (1, 2, 4, 8) or not x.size or max(x.shape[-2:]) >= 1 << 30:
        return NotImplemented
    repeated = not any(x.strides)
    if not repeated and (x.data.ptr % 16 or not x._c_contiguous):
        x = contiguous(x)
    out = empty(x.shape, x.dtype)
    blocks = -(-out.nbytes // (16 * _THREADS))
    most = 1 << 30
    args = (out, x, x.size, *x.shape[-2:], max(-most, min(diagonal, most)), int(lower), int(not repeated))
    key = (f"u{x.itemsize}", "i" if x.size < 1 << 30 else "l", 1, 0)
    _KERNELS.launch("triangle", key, blocks, _THREADS, args)
    return out


@override("pad", when=lambda x, widths, value: x.size and all(n + a + b for n, (a, b) in zip(x.shape, widths)))
def pad(x: Array, widths: tuple[tuple[int, int], ...], value: float) -> Array:
    """Return what is padded with zeros, or cut on all sides, by one launch."""
    places = tuple([slice(before, before + n) for n, (before, _) in zip(x.shape, widths, strict=True)])
    if value == 0 and min(map(min, widths), default=0) >= 0:
        return place(x, tuple([n + before + after for n, (before, after) in zip(x.shape, widths)]), places)
    if max(map(max, widths), default=0) <= 0:
        return contiguous(x[tuple([slice(-before, n + after) for n, (before, after) in zip(x.shape, widths)])])
    return NotImplemented


def _whole_merged(dims: list[list[int]]) -> list[list[int]]:
    """Return dimensions with those that are copied whole and contiguous merged into the one before."""
    kept: list[list[int]] = []
    for n, begin, count, step, stride in dims:
        if n == 1 == count:
            continue
        whole = count == n and step == 1
        if kept and whole and kept[-1][3] == 1 and kept[-1][4] == stride * n:
            outer = kept[-1]
            kept[-1] = [outer[0] * n, outer[1] * n, outer[2] * n, 1, stride]
        else:
            kept.append([n, begin, count, step, stride])
    return kept or [[1, 0, 1, 1, 0]]


def _packed(dims: list[list[int]], x: Array) -> int:
    """Take several elements of the last dimension as one, where its part begins and ends on their borders."""
    unit, last = x.itemsize, dims[-1]
    while unit < 16 and last[3] == 1 and last[4] == 1 and not any(v % 2 for v in last[:3]):
        if any(d[4] % 2 for d in dims[:-1]) or x.data.ptr % (2 * unit):
            break
        last[:3] = [v // 2 for v in last[:3]]
        for d in dims[:-1]:
            d[4] //= 2
        unit *= 2
    return unit
