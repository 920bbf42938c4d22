"""Elements by index, read and added to. Sums where an index repeats are atomic: their order is not fixed, as in torch.

An index outside of its axis reads zero, adds nothing, and is noted (`bounds.py`): to raise at once, the program would
have to wait for the GPU.
"""

from __future__ import annotations

import math
from typing import Any

import cupy
import numpy as np

from ..._typing import Array, Shape
from ...core.device import of as device_of
from ...core.device import place_array
from . import bounds
from .launching import FLOATS, Kernels, aligned, dense, empty
from .reductions import place_back
from .table import override

__all__ = ["add_at", "put_at", "summed", "take_rows"]

_ALL = slice(None)
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


def _gathered(x: Array, index: Array, axis: int) -> Array | None:
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


def take_rows(x: Array, index: Array, axis: int = 0, out: Array | None = None, op: str = "indexing") -> Array | None:
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


def summed(
    x: Array, index: Array, shape: tuple[int, ...], axis: int, each: bool, skipped: int = _NEVER
) -> Array | None:
    """Return zeros of a shape to which `x` is added where an index names places; None where CuPy must add."""
    if x.dtype.char not in FLOATS:
        return None
    wide = x.dtype if x.dtype.char in "fd" else _F32
    out = empty(shape, wide)
    out.data.memset_async(0, out.nbytes)
    if not add_at(out, index, x, axis, each, skipped):
        return None
    return out if wide == x.dtype else out.astype(x.dtype)


# --- What is attached to primitives -------------------------------------------------------------------
# All of it, so that no op waits for the GPU to see whether an index is in bounds: what no kernel here does is CuPy's.


def _taken(x: Array, i: Array, axis: int, op: str) -> Array:
    """Return the parts along an axis that an index names."""
    found = take_rows(x, i, axis, op=op)
    if found is None:
        bounds.check(i, x.shape[axis], op)
        found = x.take(i, axis=axis)
    return found


def _flat(shape: Shape, i: Array, axis: int, op: str) -> Array:
    """Return where in the flattened array of `shape` each element of an index points, in a vector."""
    bounds.check(i, shape[axis] if shape else 1, op)
    at = i.astype(_INT64) * math.prod(shape[axis + 1 :])
    for d, n in enumerate(i.shape if len(shape) > 1 and i.size else ()):
        if d != axis and n > 1:
            step = math.prod(shape[d + 1 :])
            at = at + cupy.arange(0, n * step, step).reshape((n,) + (1,) * (i.ndim - d - 1))
    return at.reshape(-1)


def _fits(x: Array, i: Array, axis: int) -> bool:
    """Return whether an index has the sizes of `x` along all axes but one."""
    return i.ndim == x.ndim > 0 and (*x.shape[:axis], *x.shape[axis + 1 :]) == (*i.shape[:axis], *i.shape[axis + 1 :])


@override("gather")
@override("sort")
@override("topk")
@override("kthvalue")
def gather(x: Array, i: Array, axis: int) -> Array:
    """Return the elements that an index of the rank of `x` names along an axis."""
    if x.ndim <= 1:
        return _taken(x.reshape(-1), i, 0, "gather")
    x = x[tuple([_ALL if d == axis else slice(0, n) for d, n in enumerate(i.shape)])]
    found = _gathered(x, i, axis)
    if found is None:
        bounds.check(i, x.shape[axis], "gather")
        found = cupy.take_along_axis(x, i, axis)
    return found


@override("ungather")
def ungather(x: Array, i: Array, shape: Shape, axis: int) -> Array:
    """Return zeros of a shape to which `x` is added where an index names positions."""
    if shape and i.shape[:axis] == shape[:axis] and i.shape[axis + 1 :] == shape[axis + 1 :]:
        one = i.shape[axis] == 1  # a position each: nothing meets
        found = place_back(x, i, shape, axis) if one else summed(x.reshape(i.shape), i, shape, axis, True)
        if found is not None:
            return found
    out = cupy.zeros(shape, x.dtype)
    scatter_add(out, x, i, axis)
    return out


@override.writing("scatter_add")
def scatter_add(x: Array, y: Array, i: Array, axis: int) -> None:
    """Add values where an index names positions along an axis."""
    if getattr(y, "shape", None) == i.shape and _fits(x, i, axis) and add_at(x, i, y, axis, True):
        return
    flat, at, values = x.reshape(-1), _flat(x.shape, i, axis, "scatter_add"), cupy.broadcast_to(y, i.shape).reshape(-1)
    if not add_at(flat, at, values, 0, True):
        _add(flat, at, values)
    if not x.flags.c_contiguous:
        x[...] = flat.reshape(x.shape)


def _add(x: Array, at: Any, y: Array) -> None:
    """Add by CuPy, whose atomics know no integers of less than 32 bits."""
    if x.dtype.itemsize < 4:
        wide = x.astype(np.int32 if x.dtype.kind in "iub" else _F32)
        cupy.add.at(wide, at, y)
        x[...] = wide
    else:
        cupy.add.at(x, at, y)


def _put(x: Array, y: Any, i: Array, axis: int, shape: Shape, op: str, each: bool = False) -> bool:
    """Write values of a shape, or one for all, in one launch; return whether that was done."""
    values = None if type(y) is np.int8 else y  # what rules write where nothing of a gradient is left
    if type(i) is np.ndarray or (
        values is not None and (type(y) is not type(x) or y.dtype != x.dtype or y.shape not in ((), shape))
    ):
        return False
    return put_at(x, i, values, axis, op, each)


@override.writing("scatter")
def scatter(x: Array, y: Array, i: Array, axis: int) -> None:
    """Write values, or one for all, where an index names positions along an axis."""
    if _fits(x, i, axis) and _put(x, y, i, axis, i.shape, "scatter", True):
        return
    flat, at = x.reshape(-1), _flat(x.shape, i, axis, "scatter")
    flat[at] = cupy.broadcast_to(y, i.shape).reshape(-1) if y.ndim else y
    if not x.flags.c_contiguous:
        x[...] = flat.reshape(x.shape)


@override("index_select", when=lambda x, i, axis: type(i) is not np.ndarray)
def index_select(x: Array, i: Array, axis: int) -> Array:
    """Return the slices along an axis that a vector names."""
    return _taken(x if x.ndim else x.reshape(1), i.reshape(-1), axis, "index_select")


@override("index_select", gradient="x", when=lambda g, i, x_shape, axis: bool(x_shape))
def index_select_backward(g: Array, i: Array, x_shape: Shape, axis: int) -> Array:
    """Return zeros to which the slices of a gradient are added."""
    found = summed(g, i, x_shape, axis, False)
    if found is None:
        found = cupy.zeros(x_shape, g.dtype)
        index_add(found, g, i, axis)
    return found


@override.writing("index_add", when=lambda x, y, i, axis: x.ndim and type(i) is not np.ndarray)
def index_add(x: Array, y: Array, i: Array, axis: int) -> None:
    """Add slices along an axis where a vector names them."""
    whole = getattr(y, "shape", None) == (*x.shape[:axis], i.size, *x.shape[axis + 1 :])
    if not whole or not add_at(x, i, y, axis, False, op="index_add"):
        bounds.check(i, x.shape[axis], "index_add")
        _add(x, (*(_ALL,) * axis, i.reshape(-1)), y)


@override.writing("index_copy", when=lambda x, y, i, axis: x.ndim and type(i) is not np.ndarray)
@override.writing("index_fill", when=lambda x, y, i, axis: x.ndim and type(i) is not np.ndarray)
def index_copy(x: Array, y: Array, i: Array, axis: int) -> None:
    """Write slices, or one value, along an axis where a vector names them."""
    op = "index_copy or index_fill"
    if not _put(x, y, i, axis, (*x.shape[:axis], i.size, *x.shape[axis + 1 :]), op):
        bounds.check(i, x.shape[axis], op)
        x[(*(_ALL,) * axis, i.reshape(-1))] = y


@override("embedding", when=lambda x, i, padding, by_frequency: type(i) is not np.ndarray)
def embedding(x: Array, i: Array, padding: int, by_frequency: bool) -> Array:
    """Return the rows of a table that an index names."""
    return _taken(x, i, 0, "embedding")


@override("unembedding", when=lambda x, i, rows, padding, by_frequency: not by_frequency)
def unembedding(x: Array, i: Array, rows: int, padding: int, by_frequency: bool) -> Array:
    """Return zeros to which rows are added where an index names them, but for the padding's."""
    width, numbers = x.shape[i.ndim :], i.reshape(-1)
    skipped = _NEVER if padding < 0 else padding
    found = summed(x.reshape(numbers.size, *width), numbers, (rows, *width), 0, False, skipped)
    return NotImplemented if found is None else found


@override("take")
def take(x: Array, i: Array) -> Array:
    """Return the elements that an index names as if there were one dimension."""
    return _taken(x.reshape(-1), i, 0, "take")


@override("pick", when=lambda x, i, axis: i.dtype != bool)
def pick(x: Array, i: Array, axis: int) -> Array:
    """Return the parts along an axis that an index names."""
    return _taken(x, i, axis, "indexing")


def _beside(x: Array, indexes: Any, spec: tuple[int, ...], op: str, checked: bool = True) -> tuple[Any, ...]:
    """Return indexes where `x` is; CuPy takes those out of bounds modulo the size, so these are looked for."""
    found, dim = [i if type(i) is type(x) else place_array(i, device_of(x)) for i in indexes], 0
    for k in spec if checked else ():
        if k >= 0 and found[k].dtype != bool:
            bounds.check(found[k], x.shape[dim], op)
        dim += found[k].ndim if k >= 0 and found[k].dtype == bool else 1
    return tuple([_ALL if k < 0 else found[k] for k in spec])


def _is_single(indexes: Any) -> bool:
    return len(indexes) == 1 and indexes[0].dtype != bool


@override("index")
def index(xs: tuple[Array, ...], spec: tuple[int, ...]) -> Array:
    """Return what tensors of indices pick."""
    x, *indexes = xs
    if _is_single(indexes):
        axis = spec.index(0)
        return _taken(x, _beside(x, indexes, spec, "indexing", False)[axis], axis, "indexing")
    out = x[_beside(x, indexes, spec, "indexing")]
    return out if out.flags.c_contiguous else out.copy()


@override("unindex")
def unindex(xs: tuple[Array, ...], shape: Shape, spec: tuple[int, ...]) -> Array:
    """Return zeros to which elements are added at an index."""
    out = cupy.zeros(shape, xs[0].dtype)
    index_put(out, *xs, spec, True)
    return out


@override.writing("index_put")
def index_put(x: Array, y: Any, *rest: Any) -> None:
    """Write, or add, values at an index."""
    *indexes, spec, accumulate = rest
    if _is_single(indexes):
        axis = spec.index(0)
        at = _beside(x, indexes, spec, "index_put", False)[axis]
        size = x.size // x.shape[axis] * at.size if x.shape[axis] else 0
        zero = type(y) is np.int8
        whole = zero or (getattr(y, "size", None) == size and (accumulate or y.dtype == x.dtype))
        if whole and accumulate:
            if not zero and y.ndim and add_at(x, at, y, axis, False, op="index_put"):
                return
        elif whole and put_at(x, at, None if zero else y, axis):
            return
    places = _beside(x, indexes, spec, "index_put")
    if not accumulate:
        x[places] = y
    elif _is_single(indexes) or indexes[0].dtype != bool:
        _add(x, places, y)
    else:
        x[places] += y
