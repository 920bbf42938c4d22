"""Texts of C kernels, compiled once for each choice of their types and launched on a line of blocks."""

from __future__ import annotations

import re
from typing import Any

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
            found = self._found[name, place, key] = self._built(name, key)
        found(blocks * threads, args, 0, threads)

    def source(self, key: tuple[Any, ...], name: str = "") -> str:
        """Return the C for a choice of types: of one kernel, which is compiled sooner than all, or of all."""
        lines = [
            f"#define {name} {value}\n" if type(value) is int else f"typedef {_NAMES[value]} {name};\n"
            for name, value in zip(self.open_names, key, strict=True)
        ]
        text = _KERNEL.sub(lambda found: found[0] if found[1] == name else "", self.text) if name else self.text
        return HEAD + "".join(lines) + text

    def _built(self, name: str, key: tuple[Any, ...]) -> Any:
        return compiled(self.source(key, name)).get_function(name).linear_launch


def is_float(x: Any) -> bool:
    """Return whether an array has a dtype that row kernels compute with."""
    return x.dtype.char in FLOATS


def empty(shape: tuple[int, ...], dtype: Any) -> Any:
    """Return an unset array on the current device."""
    return new(shape, dtype)


def made(out: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """Return the array to write: the one given, or a new one."""
    return new(shape, dtype) if out is None else out


def aligned(*arrays: Any) -> bool:
    """Return whether arrays (None are passed over) begin where packs of 16 bytes do."""
    return not any(a is not None and a.data.ptr & 15 for a in arrays)


def dense(x: Any) -> Any:
    """Return an array in row-major memory: itself, or a copy."""
    if x._c_contiguous:
        return x
    from .copies import contiguous

    return contiguous(x)
