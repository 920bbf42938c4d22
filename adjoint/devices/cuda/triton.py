"""Triton functions on CuPy arrays: compiled by Triton, loaded and launched by CuPy.

Triton's own launcher requires PyTorch for the device and a C compiler on the user's machine. What its compiler makes
is an ordinary binary, which CuPy loads like any other: it is found again in Triton's cache on disk, costs one launch,
and can be recorded in a CUDA graph.
"""

from __future__ import annotations

import ctypes
import functools
import struct
from typing import Any

import cupy
import numpy as np
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from ..._typing import Array
from .. import forks

_NAMES = {
    "bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64", "bool": "i1", "int8": "i8",
    "int16": "i16", "int32": "i32", "int64": "i64", "uint8": "u8",
}  # fmt: skip
_USUAL_SHARED = 48 << 10  # bytes of shared memory above which a function must request them
_NOTHING = np.int64(0)
_launch, _stream = cupy.cuda.driver.launchKernel, cupy.cuda.get_current_stream


def address(array: Array) -> int:
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
    """A compiled function on the device that was current when it was made."""

    __slots__ = ("function", "shared", "threads")

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
        self.threads, self.shared = 32 * made.metadata.num_warps, made.metadata.shared
        if self.shared > _USUAL_SHARED:
            size = cupy.cuda.driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            cupy.cuda.driver.funcSetAttribute(self.function.ptr, size, self.shared)


class Bound:
    """A launch with everything but its arrays: call it with these, in order.

    `parameters` are those of the function, tuples taken apart: None for an array, or for a whole number of 64 bits that
    each call gives, else a NumPy number. These are stored ready for the launch; a call writes addresses beside them.
    """

    __slots__ = ("_addresses", "_after", "_kept", "_lock", "_memory", "_table")

    def __init__(self, launch: Launch, programs: int, parameters: list[Any]) -> None:
        given = [*parameters, _NOTHING, _NOTHING]  # Triton's functions take two more addresses, of scratch memory
        arrays = [i for i, value in enumerate(given) if value is None]
        self._memory = memory = bytearray(8 * len(given))
        self._addresses = struct.Struct(f"{len(arrays)}Q")
        places = dict(zip(arrays, range(len(arrays))))  # addresses come first, whatever their turn
        for i, value in enumerate(given):
            place = 8 * places.setdefault(i, len(places))
            if value is not None:
                memory[place : place + value.nbytes] = value.tobytes()
        base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        table = np.array([base + 8 * places[i] for i in range(len(given))], np.uint64)
        self._kept, self._table = (launch, table), table.ctypes.data
        self._after = (launch.function.ptr, programs, 1, 1, launch.threads, 1, 1, launch.shared)
        self._lock = forks.lock()

    def __call__(self, *arrays: Any) -> None:
        """Launch it on the current stream."""
        with self._lock:  # the call reads the arguments in memory before it returns
            self._addresses.pack_into(self._memory, 0, *[x if type(x) is int else x.data.ptr for x in arrays])
            _launch(*self._after, _stream().ptr, self._table, 0)


def device() -> int:
    """Return the number of the current device, to which a `Launch` belongs."""
    return int(cupy.cuda.runtime.getDevice())


@functools.cache
def _capability(number: int) -> int:
    return int(cupy.cuda.Device(number).compute_capability)


@functools.cache
def _most_shared(number: int) -> int:
    return int(cupy.cuda.Device(number).attributes["MaxSharedMemoryPerBlockOptin"])


@functools.cache
def near_memory(number: int) -> int:
    """Return the size in bytes of a device's level 2 cache."""
    return int(cupy.cuda.Device(number).attributes.get("L2CacheSize", 1 << 25))


def capability() -> int:
    """Return what the current device is capable of: 90 for an H200."""
    return _capability(device())
