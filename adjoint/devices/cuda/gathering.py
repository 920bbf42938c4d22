"""Elements by index, read and added to. Sums where an index repeats are atomic: their order is not fixed, as in torch.

An index outside of its axis reads zero, adds nothing, and is noted (`bounds.py`): to raise at once, the program would
have to wait for the GPU.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import bounds
from .launching import FLOATS, Kernels, aligned, dense, empty

__all__ = ["add_at", "gather", "put_at", "summed", "take_rows"]

_INT64, _F32 = np.dtype(np.int64), np.dtype(np.float32)

_READ = Kernels(
    bounds.NOTE
    + r"""
// (A, M, B) from (A, n, B): an index for each element, or for each of M.
extern "C" __global__ void gather(const U* x, const i64* index, U* y, i64 size, I n, I M, I B, i64 each, NOTED) {
    for (i64 at = blockIdx.x * (i64)blockDim.x + threadIdx.x; at < size; at += gridDim.x * (i64)blockDim.x) {
        I i = (I)at, k = i / B, b = i - k * B, a = k / M;
        i64 j = index[each ? at : (i64)(k - a * M)];
        CHECK(j, n)
        if (j < 0) j += n;
        y[at] = j >= 0 && j < n ? x[((i64)a * n + j) * B + b] : U();
    }
}
// The same along the last axis, four elements of a row at a time.
extern "C" __global__ void gather_last(const U* x, const i64* index, U* y, i64 count, I n, I M, NOTED) {
    for (i64 at = blockIdx.x * (i64)blockDim.x + threadIdx.x; at < count; at += gridDim.x * (i64)blockDim.x) {
        const U* row = x + (i64)((I)(at * 4) / M) * n;
        Pack<i64, 2> one = ((const Pack<i64, 2>*)index)[at * 2], two = ((const Pack<i64, 2>*)index)[at * 2 + 1];
        i64 j[4] = {one.v[0], one.v[1], two.v[0], two.v[1]};
        Pack<U, 4> v;
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            CHECK(j[k], n)
            if (j[k] < 0) j[k] += n;
            v.v[k] = j[k] >= 0 && j[k] < n ? row[j[k]] : U();
        }
        ((Pack<U, 4>*)y)[at] = v;
    }
}
// Elements written at their places, or one (its step is 0) at all of them; without `x`, zeros.
extern "C" __global__ void put(U* y, const i64* index, const U* x, i64 size, I n, I M, I B, i64 each, i64 step,
                               NOTED) {
    for (i64 at = blockIdx.x * (i64)blockDim.x + threadIdx.x; at < size; at += gridDim.x * (i64)blockDim.x) {
        I i = (I)at, k = i / B, b = i - k * B, a = k / M;
        i64 j = index[each ? at : (i64)(k - a * M)];
        CHECK(j, n)
        if (j < 0) j += n;
        if (j >= 0 && j < n) y[((i64)a * n + j) * B + b] = x ? x[at * step] : U();
    }
}
""",
    "U",
    "I",
)
_ADD = Kernels(
    bounds.NOTE
    + r"""
extern "C" __global__ void add(T* y, const i64* index, const V* x, i64 size, I n, I M, I B, i64 each, i64 skipped,
                               NOTED) {
    for (i64 at = blockIdx.x * (i64)blockDim.x + threadIdx.x; at < size; at += gridDim.x * (i64)blockDim.x) {
        I i = (I)at, k = i / B, b = i - k * B, a = k / M;
        i64 j = index[each ? at : (i64)(k - a * M)];
        if (j == skipped) continue;
        CHECK(j, n)
        if (j < 0) j += n;
        if (j >= 0 && j < n) atomicAdd(y + ((i64)a * n + j) * B + b, (T)x[at]);
    }
}
extern "C" __global__ void add_last(T* y, const i64* index, const V* x, i64 count, I n, I M, i64 skipped, NOTED) {
    for (i64 at = blockIdx.x * (i64)blockDim.x + threadIdx.x; at < count; at += gridDim.x * (i64)blockDim.x) {
        T* row = y + (i64)((I)(at * 4) / M) * n;
        Pack<i64, 2> one = ((const Pack<i64, 2>*)index)[at * 2], two = ((const Pack<i64, 2>*)index)[at * 2 + 1];
        i64 j[4] = {one.v[0], one.v[1], two.v[0], two.v[1]};
        Pack<V, 4> v = ((const Pack<V, 4>*)x)[at];
        #pragma unroll
        for (int k = 0; k < 4; ++k) {
            if (j[k] == skipped) continue;
            CHECK(j[k], n)
            if (j[k] < 0) j[k] += n;
            if (j[k] >= 0 && j[k] < n) atomicAdd(row + j[k], (T)v.v[k]);
        }
    }
}
""",
    "T",
    "V",
    "I",
)
_NEVER = -(1 << 62)


def _blocks(size: int) -> int:
    return min(-(-size // 256), 1 << 16)


def _index(size: int) -> str:
    return "i" if size < 1 << 31 else "l"


def _three(shape: tuple[int, ...], axis: int) -> tuple[int, int, int]:
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])


def gather(x: Any, index: Any, axis: int) -> Any:
    """Return the elements that an index of the rank of `x` names along an axis; None where CuPy must read them."""
    fits = x.ndim == index.ndim > 0 and x.shape[:axis] == index.shape[:axis]
    if not fits or x.shape[axis + 1 :] != index.shape[axis + 1 :] or x.itemsize > 8 or not index.size or not x.size:
        return None
    x, index = dense(x), dense(index if index.dtype == _INT64 else index.astype(_INT64))
    out = empty(index.shape, x.dtype)
    _, n, after = _three(x.shape, axis)
    key, many = (f"u{x.itemsize}", _index(max(out.size, x.size))), index.shape[axis]
    noted = bounds.noted("gather", n)
    if after == 1 and many % 4 == 0 and aligned(index, out) and x.itemsize < 8:
        _READ.launch("gather_last", key, _blocks(out.size // 4), 256, (x, index, out, out.size // 4, n, many, *noted))
    else:
        _READ.launch("gather", key, _blocks(out.size), 256, (x, index, out, out.size, n, many, after, 1, *noted))
    return out


def take_rows(x: Any, index: Any, axis: int = 0, out: Any = None, op: str = "indexing") -> Any:
    """Return the parts along an axis that an index of any rank names; None where CuPy must read them.

    `op` is what an index out of bounds is reported by.
    """
    if not x.size or not index.size or x.itemsize not in (1, 2, 4, 8):
        return None
    x, index = dense(x), dense(index if index.dtype == _INT64 else index.astype(_INT64))
    _, n, after = _three(x.shape, axis)
    if out is None:
        out = empty((*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]), x.dtype)
    unit = x.itemsize
    while unit < 16 and after % 2 == 0 and not (x.data.ptr | out.data.ptr) & (2 * unit - 1):
        unit, after = unit * 2, after // 2
    size = out.nbytes // unit
    args = (x, index, out, size, n, index.size, after, 0, *bounds.noted(op, n))
    _READ.launch("gather", (f"u{unit}", _index(max(size, x.nbytes // unit))), _blocks(size), 256, args)
    return out


def put_at(y: Any, index: Any, x: Any, axis: int, op: str = "index_put", each: bool = False) -> bool:
    """Write `x` (None: zeros) at the parts of `y` that an index names along an axis; return whether that was done.

    `x` is one element for all, or as many as there are places. `each` says that the index has one place for each
    element, else for each part; `op` is what an index out of bounds is reported by.
    """
    if not y._c_contiguous or y.itemsize not in (1, 2, 4, 8) or not y.size or not index.size:
        return False
    index = dense(index if index.dtype == _INT64 else index.astype(_INT64))
    before, n, after = _three(y.shape, axis)
    count, parts = (index.size, index.shape[axis]) if each else (before * index.size * after, index.size)
    step, unit, x = int(x is None or x.ndim > 0), y.itemsize, None if x is None else dense(x)
    places = y.data.ptr | (0 if x is None else x.data.ptr)
    while step and not each and unit < 16 and after % 2 == 0 and not places & (2 * unit - 1):
        unit, after, count = unit * 2, after // 2, count // 2
    args = (y, index, 0 if x is None else x, count, n, parts, after, int(each), step, *bounds.noted(op, n))
    _READ.launch("put", (f"u{unit}", _index(max(count, y.nbytes // unit))), _blocks(count), 256, args)
    return True


def add_at(y: Any, index: Any, x: Any, axis: int, each: bool, skipped: int = _NEVER, op: str = "scatter_add") -> bool:
    """Add `x` to the parts of `y` that an index names along an axis; return whether that was done.

    `each` says that the index has one place for each element of `x`, else for each of its parts. What belongs to the
    place `skipped` is left out; `op` is what an index out of bounds is reported by.
    """
    if y.dtype.char not in FLOATS or x.dtype.char not in FLOATS or not y._c_contiguous:
        return False
    if not x.size or not y.size:
        return True
    if y.dtype.char not in "fd":  # 16 bits are added up in 32
        wide = y.astype(_F32)
        add_at(wide, index, x, axis, each, skipped, op)
        y[...] = wide
        return True
    x, index = dense(x), dense(index if index.dtype == _INT64 else index.astype(_INT64))
    before, n, after = _three(y.shape, axis)
    parts = x.size // (before * after) if before * after else 0
    key = (y.dtype.char, x.dtype.char, _index(max(x.size, y.size)))
    noted = (skipped, *bounds.noted(op, n))
    if each and after == 1 and parts % 4 == 0 and aligned(index, x):
        count = x.size // 4
        _ADD.launch("add_last", key, _blocks(count), 256, (y, index, x, count, n, parts, *noted))
        return True
    _ADD.launch("add", key, _blocks(x.size), 256, (y, index, x, x.size, n, parts, after, int(each), *noted))
    return True


def summed(x: Any, index: Any, shape: tuple[int, ...], axis: int, each: bool, skipped: int = _NEVER) -> Any:
    """Return zeros of a shape to which `x` is added where an index names places; None where CuPy must add."""
    if x.dtype.char not in FLOATS:
        return None
    wide = x.dtype if x.dtype.char in "fd" else _F32
    out = empty(shape, wide)
    out.data.memset_async(0, out.nbytes)
    if not add_at(out, index, x, axis, each, skipped):
        return None
    return out if wide == x.dtype else out.astype(x.dtype)
