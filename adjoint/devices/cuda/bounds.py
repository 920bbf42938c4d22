"""Out-of-range indices: a kernel notes the first, and the program raises when it next waits for the GPU.

To check each index on the CPU would make the program wait. So kernels that read or write by index get the address of
a few fields in CPU memory, write the op, the index and the size there if an index is wrong, and go on with
zeros. A function that waits for the GPU anyway (`Array.get`, `synchronize`) looks at the first word.
"""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from ...errors import OutOfBoundsError
from .arrays import Array
from .launching import Kernels, dense

__all__ = ["NOTE", "check", "noted", "report"]

_OPS = [""]  # by the number that kernels write
_numbers: dict[str, int] = {}
_SIGNED = {"indexing", "index_put", "take"}  # those that count negative indices from the end

# In C: the arguments that `noted` gives a kernel, and the macro that notes an index below `low` or beyond its axis.
NOTE = r"""
#define NOTED i64 low, i64 place, i64 op
#define CHECK(j, n) if (j < low || j >= n) note(place, op, j, n);
__device__ __noinline__ void note(i64 place, i64 op, i64 index, i64 size) {
    unsigned long long* words = (unsigned long long*)place;
    if (place && atomicCAS(words, 0ull, (unsigned long long)op) == 0) { words[1] = index; words[2] = size; }
}
"""
_KERNELS = Kernels(
    NOTE
    + r"""
extern "C" __global__ void look(const I* index, i64 count, i64 size, NOTED) {
    for (i64 at = blockIdx.x * (i64)blockDim.x + threadIdx.x; at < count; at += gridDim.x * (i64)blockDim.x) {
        i64 j = index[at];
        CHECK(j, size)
    }
}
""",
    "I",
)


def _words() -> tuple[Any, Any]:
    """Return CPU memory that every GPU may write to, and a view of its fields."""
    try:
        memory = cupy.cuda.alloc_pinned_memory(64)
    except (cupy.cuda.runtime.CUDARuntimeError, MemoryError):  # no GPU: nothing will be launched
        return None, np.zeros(3, np.int64).data
    words = np.frombuffer(memory, np.int64, 3)
    words[...] = 0
    return memory, words.data


_memory, words = _words()
_place = 0 if _memory is None else int(_memory.ptr)


def noted(op: str, size: int) -> tuple[int, int, int]:
    """Return a kernel's arguments for noting indices of an op that are out of bounds."""
    number = _numbers.get(op)
    if number is None:
        number = _numbers.setdefault(op, len(_OPS))
        _OPS.append(op)
    return (-size if op in _SIGNED else 0), _place, number


def check(index: Any, size: int, op: str) -> None:
    """Note an index that is out of bounds by a launch of its own: for ops that are not one kernel."""
    if not index.size or index.dtype.char not in "ilq":
        return
    index = dense(index)
    count, kind = int(index.size), "i" if index.itemsize == 4 else "l"
    blocks = min(-(-count // 256), 1 << 12)
    _KERNELS.launch("look", (kind,), blocks, 256, (index, count, size, *noted(op, size)))


def report() -> None:
    """Raise what a kernel noted, if any did, and forget it."""
    op, index, size = words[0], words[1], words[2]
    if op:
        words[0] = 0
        raise OutOfBoundsError(
            f"index {index} is out of bounds for dimension of size {size} (index out of bounds: {_OPS[op]} on a GPU "
            f"was given index {index} for a dimension of size {size}; the GPU works on its own, so this was found by "
            "the first line that waits for it: the wrong call is before this one; run the program on the CPU, or call "
            "cuda.synchronize() after each step, to find it)"
        )


def _get(x: Array, *options: object, **named: object) -> Array:
    """Return an array's elements on the CPU."""
    found = cupy.ndarray.get(x, *options, **named)
    if words[0]:
        report()
    return found


Array.get = _get  # type: ignore[method-assign]
