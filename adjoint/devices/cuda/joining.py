"""Many values to one place on a GPU: their product, largest or smallest.

CuPy has no products by index, and its largest and smallest of float64 are rounded to float32.
"""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from ..._typing import Array
from .gathering import _flat
from .host import through_host
from .launching import Kernels
from .table import override

_KINDS = "fdil"  # characters of the dtypes that can be joined

_kernels = Kernels(
    """
// A place is exchanged as a word of its size, again until no other thread was faster.
extern "C" __global__ void join_at(T* y, const i64* at, const T* x, i64 n) {
    const i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (i >= n) return;
    union { T value; WORD word; } seen, next;
    WORD* place = (WORD*)(y + at[i]);
    const T v = x[i];
    WORD old = *place;
    do {
        seen.word = old;
        const T u = seen.value;
        next.value = HOW == 0 ? join_prod(u, v) : HOW == 1 ? join_amax(u, v) : join_amin(u, v);
        if (next.word == seen.word) return;
        old = atomicCAS(place, seen.word, next.word);
    } while (old != seen.word);
}
""",
    "T", "WORD", "HOW",
)  # fmt: skip
_HOW = {"prod": 0, "amax": 1, "amin": 2}
_THREADS = 128


@override("scatter_reduce", when=lambda x, y, i, axis, reduce, include_self: include_self and reduce in _HOW)
def scatter_reduce(x: Array, y: Array, i: Array, axis: int, reduce: str, include_self: bool) -> Array:
    """Return `x` with each value joined with the element that an index names along an axis."""
    if x.dtype.itemsize < 4:  # a GPU's atomics know no smaller numbers
        wide = np.dtype(np.int32 if x.dtype.kind in "iub" else np.float32)
        return scatter_reduce(x.astype(wide), y.astype(wide), i, axis, reduce, True).astype(x.dtype)
    flat, at = x.copy(order="C").reshape(-1), _flat(x.shape, i, axis, "scatter_reduce")
    values = cupy.ascontiguousarray(cupy.broadcast_to(y, i.shape).reshape(-1), dtype=x.dtype)
    if x.dtype.char not in _KINDS:
        return _joined(flat, at, values, reduce).reshape(x.shape)
    n = int(at.size)
    if n:
        key = (x.dtype.char, "u4" if x.dtype.itemsize == 4 else "u8", _HOW[reduce])
        _kernels.launch("join_at", key, -(-n // _THREADS), _THREADS, (flat, cupy.ascontiguousarray(at), values, n))
    return flat.reshape(x.shape)


@through_host("scatter_reduce (prod) of complex numbers")
def _joined(flat: Any, at: Array, values: Array, reduce: str) -> Array:
    {"prod": np.multiply, "amax": np.maximum, "amin": np.minimum}[reduce].at(flat, at, values)
    return flat
