"""Texts of C kernels, compiled once for each choice of their types and launched on a line of blocks."""

from __future__ import annotations

import ctypes
import re
import struct
from typing import Any

import cupy
import numpy as np

from ..._typing import Array, DType
from .. import forks
from .arrays import new
from .compilation import compiled
from .source import HEAD

__all__ = ["FLOATS", "Kernels", "aligned", "dense", "empty", "is_float", "made"]

FLOATS = {"f": "float", "d": "double", "e": "f16", "E": "bf16"}  # by the character of a dtype
# What an open type may be: a float, an index, or a unit of so many bytes that is only moved.
_NAMES = {
    **FLOATS, "i": "int", "l": "i64", "u1": "unsigned char", "u2": "unsigned short", "u4": "unsigned int",
    "u8": "unsigned long long", "u16": "Pack<unsigned long long, 2>",
}  # fmt: skip

_KERNEL = re.compile(r'^extern "C" __global__ void (\w+)\(.*?^\}\n', re.DOTALL | re.MULTILINE)


class Kernels:
    """A text of kernels with types (and numbers) left open, given by each launch.

    `open_names` are what the text calls them; a launch gives a key of `_NAMES` for a type, an int for a number.
    """

    def __init__(self, text: str, *open_names: str) -> None:
        self.text, self.open_names = text, open_names
        self._found: dict[Any, Any] = {}

    def launch(self, name: str, key: tuple[Any, ...], blocks: int, threads: int, args: tuple[Any, ...]) -> None:
        """Launch a kernel on the device of its first argument, an array."""
        place = args[0].data.device_id
        found = self._found.get((name, place, key))
        if found is None:
            found = self._found[name, place, key] = _launch_of(
                compiled(self.source(key, name)).get_function(name), args
            )
        found(blocks, threads, args)

    def source(self, key: tuple[Any, ...], name: str = "") -> str:
        """Return the C for a choice of types: of one kernel, which is compiled sooner than all, or of all."""
        lines = [
            f"#define {name} {value}\n" if type(value) is int else f"typedef {_NAMES[value]} {name};\n"
            for name, value in zip(self.open_names, key, strict=True)
        ]
        text = _KERNEL.sub(lambda found: found[0] if found[1] == name else "", self.text) if name else self.text
        return HEAD + "".join(lines) + text


_launch_kernel: Any = getattr(cupy.cuda.driver, "launchKernel", None)  # a simulated GPU has none
_stream = cupy.cuda.get_current_stream


def _launch_of(function: Any, args: tuple[Any, ...]) -> Any:
    """Return what launches a kernel on a line of blocks, for arguments of these types."""
    if _launch_kernel is None or any(type(a) not in (int, float) and not isinstance(a, cupy.ndarray) for a in args):
        linear = function.linear_launch
        return lambda blocks, threads, args: linear(blocks * threads, args, 0, threads)
    return _Prepared(function, args)


class _Prepared:
    """A kernel whose parameters are written into memory that stays; CuPy makes an object of each.

    All of them are addresses, whole numbers of 64 bits and doubles, as CuPy passes Python's numbers; a kernel that
    with arguments of 32 bits finds them in the lower half.
    """

    __slots__ = ("_function", "_is_array", "_kept", "_lock", "_memory", "_pack", "_table")

    def __init__(self, function: Any, args: tuple[Any, ...]) -> None:
        self._memory = memory = bytearray(8 * len(args))
        self._pack = struct.Struct("=" + "".join(["d" if type(a) is float else "q" for a in args])).pack_into
        base = ctypes.addressof(ctypes.c_char.from_buffer(memory))
        table = np.array([base + 8 * i for i in range(len(args))], np.uint64)
        self._kept, self._table, self._function = (function, table), table.ctypes.data, function.ptr
        self._lock = forks.lock()

    def __call__(self, blocks: int, threads: int, args: tuple[Any, ...]) -> None:
        given = [a if type(a) is int or type(a) is float else a.data.ptr for a in args]
        with self._lock:  # the call reads the arguments in memory before it returns
            self._pack(self._memory, 0, *given)
            _launch_kernel(self._function, blocks, 1, 1, threads, 1, 1, 0, _stream().ptr, self._table, 0)


def is_float(x: Array) -> bool:
    """Return whether an array has a dtype that row kernels compute with."""
    return x.dtype.char in FLOATS


def empty(shape: tuple[int, ...], dtype: DType) -> Any:
    """Return an unset array on the current device."""
    return new(shape, dtype)


def made(out: Array | None, shape: tuple[int, ...], dtype: DType) -> Any:
    """Return the array to write: the one given, or a new one."""
    return new(shape, dtype) if out is None else out


def aligned(*arrays: Array) -> bool:
    """Return whether arrays (None are passed over) begin where packs of 16 bytes do."""
    return not any(a is not None and a.data.ptr & 15 for a in arrays)


def dense(x: Array) -> Any:
    """Return an array in row-major memory: itself, or a copy."""
    if x._c_contiguous:  # type: ignore[attr-defined]
        return x
    from .copies import contiguous

    return contiguous(x)
