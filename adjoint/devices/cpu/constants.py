"""Numbers as 0-d arrays, which a ufunc takes twice as fast as Python's: for arrays so small that this is seen."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._typing import Array, Scalar

ndarray, _f32, _f64 = np.ndarray, np.dtype("float32"), np.dtype("float64")


class Constants(dict[Any, Any]):
    """Python numbers as read-only 0-d arrays of a dtype.

    Integers and floats have a table each. 0.0 and -0.0 are the same key, so the table of floats has no zero.
    """

    def __init__(self, dtype: Any, kind: type) -> None:
        super().__init__()
        self.dtype, self.kind = np.dtype(dtype), kind

    def __missing__(self, number: Scalar) -> np.ndarray[Any, Any]:
        array = np.array(number, self.dtype)
        if number != 0 or self.kind is int:
            if len(self) > 512:
                self.clear()
            array.flags.writeable = False
            self[number] = array
        return array


class _Numbers(dict[Any, Any]):
    """Numbers as they are, for whatever is no array of NumPy's."""

    def __missing__(self, number: Scalar) -> object:
        return number


float32_constants, float64_constants = Constants(_f32, float), Constants(_f64, float)
float32_integers, float64_integers = Constants(_f32, int), Constants(_f64, int)
int64_integers = Constants(np.int64, int)  # of numbers that an int64 holds
_numbers, _others = _Numbers(), dict[Any, Constants]()


def constants_of(x: Array) -> dict[Any, Any]:
    """Return a table of what a rule or kernel writes as a literal, in the dtype of `x`; none of them is -0.0."""
    if type(x) is not ndarray:
        return _numbers
    dtype = x.dtype
    if dtype is _f32:
        return float32_integers
    if dtype is _f64:
        return float64_integers
    return _others.get(dtype) or _others.setdefault(dtype, Constants(dtype, int))


def constant(number: Any, x: Array) -> Any:
    """Return a program's number, which may be -0.0, as one of the dtype of `x`, where that is float32 or float64."""
    if type(x) is ndarray:
        kind = type(number)
        if x.dtype is _f32:
            return float32_constants[number] if kind is float else float32_integers[number] if kind is int else number
        if x.dtype is _f64:
            return float64_constants[number] if kind is float else float64_integers[number] if kind is int else number
    return number
