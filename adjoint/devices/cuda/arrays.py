"""The class of arrays on a GPU, and how they come about without much ado.

`Array` is a CuPy array whose operators and ufuncs launch kernels of our own where these can (`elementwise.py` puts them
on the class); everything else is CuPy's. Only imported when a tensor is put on a GPU.
"""

from __future__ import annotations

import math
from collections import deque
from sys import getrefcount
from typing import Any

import cupy
import numpy as np

from ..._typing import DType
from ...core.device import captures
from .sizes import RING as _LENGTH
from .sizes import RING_ARRAY as _SMALL
from .sizes import RINGS as _TOTAL

__all__ = ["Array", "adopt", "forget", "new", "operators", "several", "sharers", "spare", "writers"]


def _several() -> bool:
    try:
        return int(cupy.cuda.runtime.getDeviceCount()) > 1
    except cupy.cuda.runtime.CUDARuntimeError:  # none: the next function that makes an array reports it
        return False


several = _several()  # whether there are several GPUs: kernels belong to the device they were loaded on

# By ufunc: what computes it of arrays here, or returns None; and what writes it to an array, or returns False.
operators: dict[Any, Any] = {}
writers: dict[Any, Any] = {}
_WRITTEN = {"out", "casting"}
_METHODS = {
    np.add: "sum", np.multiply: "prod", np.maximum: "max", np.minimum: "min", np.logical_and: "all",
    np.logical_or: "any",
}  # fmt: skip


class Array(cupy.ndarray):  # type: ignore[misc]
    """A CuPy array whose operators launch kernels of our own where these can."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Array:
        known = operators.get(ufunc)
        if known is not None and method == "__call__":
            if not kwargs:
                out = known(*inputs)
                if out is not None:
                    return out
            elif type(out := kwargs.get("out", (None,))[0]) is Array and kwargs.keys() <= _WRITTEN:
                if writers[ufunc](out, *inputs):
                    return out
        if method == "reduce" and ufunc in _METHODS:
            kwargs.setdefault("axis", 0)
            return adopt(getattr(inputs[0], _METHODS[ufunc])(**{k: v for k, v in kwargs.items() if k != "out"}))
        return super().__array_ufunc__(ufunc, method, *inputs, **kwargs)


def adopt(value: Any) -> Array:
    """Return a CuPy array as an `Array` that looks at the same memory; other values as they are."""
    return value.view(type=Array) if type(value) is cupy.ndarray else value


# --- Small arrays -----------------------------------------------------------------------------------
# To make an array takes 4 µs, as long as all of an op but the launch. Small ones are saved in a ring for each
# shape and dtype. The next array to be made is one of these that has no other reference, nor has its memory, as
# CuPy's as_strided does. Kernels run in the order of their launches, so kernels that read the old values have finished.
# That holds on one stream only: on other streams (where graphs are captured, too) every array is a new one, as
# it is while a program is captured.

_UNSHARED = 3  # references to an array that only its ring has: the ring's, the local name's, the question's own
_rings: dict[Any, Any] = {}
_kept = 0
_lone: list[int] = []  # references to the pointer of a new array, and to its memory, as `_references` counts them
spare: set[int] = set()  # the identities of all arrays in rings, each of which is referred to once more than it seems

_stream = cupy.cuda.get_current_stream


def new(shape: tuple[int, ...], dtype: DType) -> Any:
    """Return an array whose elements are not set."""
    ring = _rings.get((shape, dtype))
    if ring is None:
        return _first(shape, dtype)
    if ring is False or captures or _stream().ptr:
        return Array(shape, dtype)
    ring.rotate(-1)
    array = ring[-1]
    if getrefcount(array) == _UNSHARED and array.shape == shape:  # CuPy gives copies another shape in place
        pointer = array.data
        if getrefcount(pointer) == _lone[0] and getrefcount(pointer.mem) == _lone[1]:
            return array
    return _another(ring, shape, dtype)


def sharers(array: Any) -> int:
    """Return how many others look at the memory of an array, as far as CuPy's objects show."""
    if not _lone:
        _lone.extend(_references(Array((1,), array.dtype)))
    pointer = array.data
    return getrefcount(pointer) - _lone[0] + getrefcount(pointer.mem) - _lone[1]


def _references(array: Array) -> tuple[int, int]:
    pointer = array.data
    return getrefcount(pointer), getrefcount(pointer.mem)


def _first(shape: tuple[int, ...], dtype: DType) -> Array:
    """Return the first array of a shape, and open a ring if it is small."""
    if len(_rings) > 1024:
        forget()
    array = Array(shape, dtype)
    if captures:
        return array
    if several or math.prod(shape) * dtype.itemsize > _SMALL:
        _rings[shape, dtype] = False
    elif not _stream().ptr:
        if not _lone:
            _lone.extend(_references(array))
        ring = deque((array,))
        if _rings.setdefault((shape, dtype), ring) is ring:  # no other thread was faster
            spare.add(id(array))
    return array


def _another(ring: list[Any], shape: tuple[int, ...], dtype: DType) -> Array:
    """Return one more array of a shape whose ring had none free."""
    global _kept
    array = Array(shape, dtype)
    if len(ring) < _LENGTH:
        _kept += array.nbytes
        if _kept > _TOTAL:
            forget()
        else:
            ring.append(array)
            if _rings.get((shape, dtype)) is ring:  # no other thread has given it up
                spare.add(id(array))
    return array


def forget() -> None:
    """Free the arrays that are saved for reuse."""
    global _kept
    spare.clear()
    _rings.clear()
    _kept = 0
