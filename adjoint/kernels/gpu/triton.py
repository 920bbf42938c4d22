"""Triton functions on CuPy arrays: compiled by Triton, loaded and launched by CuPy.

Triton's own launcher wants PyTorch for the device and a C compiler on the user's machine. What its compiler makes
is an ordinary binary, which CuPy loads like any other: it is found again in Triton's cache on disk, costs one launch,
and can be recorded in a CUDA graph.
"""

from __future__ import annotations

import functools
from typing import Any

import cupy
import numpy as np
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

_NAMES = {
    "bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64", "bool": "i1", "int8": "i8",
    "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8",
}  # fmt: skip
_USUAL_SHARED = 48 << 10  # bytes of shared memory above which a function must ask for them
_NOTHING = np.int64(0)


def address(array: Any) -> int:
    """Return where an array begins."""
    return int(array.data.ptr)


def kind_of(value: Any) -> str:
    """Return what code may rely on of an argument, an array or a NumPy number: ``*bf16:16``, ``i32``.

    What follows the colon divides an address or a whole number; neighbours are then read 16 bytes at a time.
    """
    name = _NAMES[value.dtype.name]
    if isinstance(value, cupy.ndarray):
        return f"*{name}:16" if address(value) % 16 == 0 else f"*{name}"
    return f"{name}:16" if name[0] in "iu" and value % 16 == 0 else name


def built(
    function: Any, kinds: tuple[Any, ...], constants: dict[str, Any], target: GPUTarget, warps: int = 4, stages: int = 2
) -> Any:
    """Compile a function for arguments of some kinds and some constants; no GPU is needed for it.

    Several arguments that the function takes as a tuple have a tuple of kinds.
    """
    given = iter(kinds)
    signature: dict[str, Any] = {}
    even: dict[tuple[int, ...], Any] = {}
    for i, name in enumerate(function.arg_names):
        kind = "constexpr" if name in constants else next(given)
        parts = (kind,) if isinstance(kind, str) else kind
        for j, part in enumerate(parts):
            if part.endswith(":16"):
                even[(i,) if isinstance(kind, str) else (i, j)] = [["tt.divisibility", 16]]
        types = tuple(part.partition(":")[0] for part in parts)
        signature[name] = types[0] if isinstance(kind, str) else types
    source = ASTSource(function, signature, constants, even)
    return triton.compile(source, target=target, options={"num_warps": warps, "num_stages": stages})


class Launch:
    """A compiled function on the device that was current when it was made; call it with a grid and arguments.

    Arguments are arrays and NumPy numbers, of the kinds for which it was compiled, those of tuples one after another.
    """

    __slots__ = ("block", "function", "shared")

    def __init__(
        self, function: Any, kinds: tuple[Any, ...], constants: dict[str, Any], warps: int = 4, stages: int = 2
    ) -> None:
        target, most = GPUTarget("cuda", capability(), 32), _most_shared(device())
        while True:
            made = built(function, kinds, constants, target, warps, stages)
            if made.metadata.shared <= most or stages == 1:
                break
            stages -= 1  # fewer blocks on their way at a time
        if made.metadata.global_scratch_size or made.metadata.profile_scratch_size:
            raise RuntimeError(f"{made.name} wants scratch memory of Triton's, which is not given here")
        module = cupy.cuda.function.Module()
        module.load(made.kernel)
        self.function = module.get_function(made.name)
        self.block, self.shared = (32 * made.metadata.num_warps, 1, 1), made.metadata.shared
        if self.shared > _USUAL_SHARED:
            size = cupy.cuda.driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            cupy.cuda.driver.funcSetAttribute(self.function.ptr, size, self.shared)

    def __call__(self, grid: tuple[int, ...], *arguments: Any) -> None:
        """Launch it on the current stream."""
        # Triton's functions take two more addresses, of scratch memory.
        self.function(grid, self.block, (*arguments, _NOTHING, _NOTHING), self.shared)


def device() -> int:
    """Return the number of the current device, to which a `Launch` belongs."""
    return int(cupy.cuda.runtime.getDevice())


@functools.cache
def _capability(number: int) -> int:
    return int(cupy.cuda.Device(number).compute_capability)


@functools.cache
def _most_shared(number: int) -> int:
    return int(cupy.cuda.Device(number).attributes["MaxSharedMemoryPerBlockOptin"])


def capability() -> int:
    """Return what the current device is capable of: 90 for an H200."""
    return _capability(device())
