"""Many values to one place on a GPU: their product, largest or smallest.

CuPy has no products by index, and its largest and smallest of float64 are rounded to float32.
"""

from __future__ import annotations

from typing import Any

from .launching import Kernels

__all__ = ["KINDS", "join_at"]

KINDS = "fdil"  # characters of the dtypes that can be joined

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


def join_at(y: Any, at: Any, x: Any, how: str) -> None:
    """Join each of the values `x` with the element of the flat array `y` that `at` names, in place."""
    n = int(x.size)
    if n:
        key = (y.dtype.char, "u4" if y.dtype.itemsize == 4 else "u8", _HOW[how])
        _kernels.launch("join_at", key, -(-n // _THREADS), _THREADS, (y, at, x, n))
