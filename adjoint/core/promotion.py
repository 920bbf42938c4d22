"""Bringing operands to one dtype, by torch's rules, before a kernel sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._typing import Value
from . import dtypes
from .tensor import TensorBase


def _kind(value: Any) -> tuple[dtypes.dtype, int]:
    """Return the operand's dtype and how much it counts: 2 dimensioned, 1 zero-d, 0 Python number."""
    if isinstance(value, TensorBase):
        value = value.array
    dtype = getattr(value, "dtype", None)
    if dtype is None or isinstance(value, np.generic):
        if value is None or isinstance(value, str | list | tuple | dict):
            raise TypeError(
                f"unsupported operand type(s): expected a Tensor or a number, not {type(value).__name__}; "
                "convert it with adjoint.tensor(...)"
            )
        return dtypes.of_number(value), 0
    if not isinstance(dtype, np.dtype | dtypes.dtype):  # it has an attribute of every name, as proxies do
        raise TypeError(f"unsupported operand type(s): {type(value).__name__} has no dtype of numbers")
    return dtypes.of(dtype), 2 if value.ndim else 1


def result_type(values: Sequence[Any]) -> dtypes.dtype:
    """Return the dtype that an op on `values` gives."""
    return dtypes.result_of([_kind(v) for v in values])


def convert(value: Any, dtype: dtypes.dtype, hosted: bool = True) -> Any:
    """Return `value` as an array (or payload, or tensor) of `dtype`.

    A number becomes a 0-d array; a NumPy scalar if not `hosted`, which CuPy takes where it takes no array
    of NumPy's.
    """
    has = getattr(value, "dtype", None)
    if has is None or isinstance(value, np.generic):
        array = number_array(value, dtype)
        return array if hosted else array[()]
    if has == dtype.np or has is dtype:
        return value
    if isinstance(value, np.ndarray) or (not hasattr(value, "level") and not isinstance(value, TensorBase)):
        return value.astype(dtype.np)
    from . import primitive

    return primitive.cast(value, dtype.np)


def number_array(value: object, dtype: dtypes.dtype) -> np.ndarray[Any, Any]:
    """Return a Python number as a 0-d array, wrapping integers as torch does."""
    if dtype.category == 1 and isinstance(value, int) and not isinstance(value, bool):
        bits = 8 * dtype.itemsize
        wrapped = value & ((1 << bits) - 1)
        if dtype.is_signed and wrapped >> (bits - 1):
            wrapped -= 1 << bits
        return np.array(wrapped, dtype.np)
    return np.array(value, dtype.np)


def number_like(value: Any, like: Any) -> Any:
    """Return a Python number in the dtype of `like`, in a form that its array module takes."""
    array = number_array(value, dtypes.of(like.dtype))
    return array if isinstance(like, np.ndarray) else array[()]


def promote(a: Value, b: Any) -> tuple[Any, Any]:
    """Return both operands in their common dtype."""
    dtype = dtypes.result_of([_kind(a), _kind(b)])
    hosted = type(a) is np.ndarray or type(b) is np.ndarray
    return convert(a, dtype, hosted), convert(b, dtype, hosted)


def promote_beside(a: Value, other: object) -> tuple[Any, Any]:
    """Return a tensor's value and an operand that is no tensor in their common dtype.

    An array of NumPy's counts by NumPy's rules, as it does where NumPy computes: a 0-d one is no Python scalar.
    """
    if type(other) is np.ndarray and type(a) is np.ndarray and other.ndim == 0:
        dtype = np.result_type(a, other)
        return a.astype(dtype, copy=False), other.astype(dtype, copy=False)
    return promote(a, other)


def holds_numpy(params: Sequence[Any]) -> bool:
    """Return whether one of an op's parameters is a scalar of NumPy's, which NumPy gives more weight than Python's."""
    for p in params:  # noqa: SIM110 - a generator costs more than the loop
        if isinstance(p, np.generic):
            return True
    return False


def python_scalars(params: Sequence[Any]) -> tuple[Any, ...]:
    """Return an op's parameters with scalars of NumPy's as Python's: like these, they do not widen a result."""
    return tuple([p.item() if isinstance(p, np.generic) else p for p in params])


def promote_all(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return all operands in their common dtype."""
    first = getattr(values[0], "dtype", None)
    if first is not None and all(getattr(v, "dtype", None) is first for v in values):
        return values
    dtype = result_type(values)
    hosted = any(type(v) is np.ndarray for v in values)
    return tuple(convert(v, dtype, hosted) for v in values)


def promote_some(values: tuple[Any, ...], which: tuple[int, ...]) -> tuple[Any, ...]:
    """Return the operands, those at positions `which` in their common dtype."""
    promoted = list(values)
    for i, v in zip(which, promote_all(tuple(values[i] for i in which)), strict=True):
        promoted[i] = v
    return tuple(promoted)
