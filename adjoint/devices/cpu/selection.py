"""Selection by a mask without branches: NumPy's own `where` guesses wrong half the time on large arrays."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..._typing import Array, Scalar
from . import sizes
from .constants import constant, constants_of
from .memory import dense
from .table import override

_INTEGER_OF_SIZE = {2: np.dtype(np.int16), 4: np.dtype(np.int32), 8: np.dtype(np.int64)}


@override.around("where")
def _where(definition: Callable[..., Any]) -> Callable[..., Any]:
    return where


@override.around("masked_fill")
def _masked_fill(definition: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, mask, value: dense(where(mask, value, x))


@override.around("masked_fill_")
def _masked_fill_(definition: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, mask, value: np.copyto(x, constant(value, x), where=mask)


@override.around("clamp")
def _clamp(definition: Callable[..., Any]) -> Callable[..., Any]:
    def clamp(x: Any, min: Any, max: Any) -> Any:
        return clip(x, min, max) if x.dtype.kind == "f" else definition(x, min, max)

    return clamp


@override.around("clamp_")
def _clamp_(definition: Callable[..., Any]) -> Callable[..., Any]:
    def clamp_(x: Any, min: Any, max: Any) -> Any:
        return clip(x, min, max, x) if x.ndim else definition(x, min, max)

    return clamp_


def where(condition: Any, x: Any, y: Any) -> Any:
    """Return `x` where `condition` holds and `y` elsewhere; at most one of them is a Python number."""
    if condition.size < sizes.SELECT or type(condition) is not np.ndarray or condition.dtype.kind != "b":
        if type(x) is int and not x:
            x = constants_of(y)[0]
        elif type(y) is int and not y:
            y = constants_of(x)[0]
        return np.where(condition, x, y)
    arrays = [v for v in (x, y) if isinstance(v, np.ndarray)]
    dtype = arrays[0].dtype if arrays else None
    bits = None if dtype is None else _INTEGER_OF_SIZE.get(dtype.itemsize)
    if bits is None or (len(arrays) == 2 and arrays[1].dtype != dtype):
        return np.where(condition, x, y)
    if _is_zero(y):
        return _masked(condition, x, bits, -1)
    if _is_zero(x):
        return _masked(condition, y, bits, 0)
    a, b = (np.asarray(v, dtype).view(bits) for v in (x, y))
    keep = _mask(condition, bits, -1)
    c = _into(np.bitwise_and, keep, np.bitwise_xor(a, b))
    return _into(np.bitwise_xor, c, b).view(dtype)


def _is_zero(value: object) -> bool:
    # Not -0.0, whose bits are not all zero.
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and not value.tobytes().strip(b"\0")
    return not value and isinstance(value, int | float) and math.copysign(1, value) > 0


def _mask(condition: Any, bits: Any, when_true: int) -> Any:
    """Return all ones where the condition holds (or does not, for 0), zeros elsewhere."""
    mask = condition.astype(bits)
    return np.negative(mask, out=mask) if when_true else np.subtract(mask, 1, out=mask)


def _masked(condition: Array, x: Array, bits: Any, when_true: int) -> Array:
    return _into(np.bitwise_and, _mask(condition, bits, when_true), x.view(bits)).view(x.dtype)


def _into(ufunc: np.ufunc, a: Array, b: Array) -> Array:
    """Return ``ufunc(a, b)``, written into `a` where the shape allows it."""
    return ufunc(a, b, out=a) if b.ndim <= a.ndim and np.broadcast_shapes(a.shape, b.shape) == a.shape else ufunc(a, b)


def clip(x: Any, low: Scalar | None, high: Scalar | None, out: Any = None) -> Any:
    """Clamp `x` between two numbers (None: no bound); NaN stays."""
    if x.size >= sizes.SELECT and type(x) is np.ndarray and x.dtype.kind == "f":
        # NumPy compares with two bounds at once four times as fast as with one.
        return np.clip(x, -math.inf if low is None else low, math.inf if high is None else high, out=out)
    if low is None:
        return np.minimum(constant(high, x), x, out=out)  # of two zeros the second is taken, as by `clip`
    c = np.maximum(constant(low, x), x, out=out)
    return c if high is None else np.minimum(constant(high, x), c, out=c if c.ndim else None)
