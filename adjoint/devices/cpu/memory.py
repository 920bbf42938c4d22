"""Where the memory of NumPy's arrays is, and in which order their elements lie in it."""

from __future__ import annotations

import ctypes
from typing import Any, TypeVar

from ..._typing import Array

_HEAD = object.__basicsize__  # where a NumPy array's own fields begin, the address of its elements first
_read_field = ctypes.c_size_t.from_address


def place_of(array: Array) -> int:
    """Return the address of a NumPy array's first element; `__array_interface__` takes five times as long."""
    return _read_field(id(array) + _HEAD).value


A = TypeVar("A")  # an array; or a value of a program that is being compiled, which has no memory yet


def dense(x: A) -> A:
    """Return a result in row-major order: NumPy's reductions and choices keep the order of a permuted operand."""
    flags: Any = getattr(x, "flags", None)
    return x if flags is None or flags.c_contiguous else x.copy(order="C")  # type: ignore[attr-defined, no-any-return]


def dense_or_image(x: A) -> A:
    """Return a result in row-major order, unless it is a batch of images in channels_last."""
    array: Any = x
    flags: Any = getattr(x, "flags", None)
    if flags is None or flags.c_contiguous:
        return x
    is_image = array.ndim in (4, 5) and array.transpose(0, *range(2, array.ndim), 1).flags.c_contiguous
    return x if is_image else array.copy(order="C")
