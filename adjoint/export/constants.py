"""Constants that have another size at another size of the inputs: what makes them for any size."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .sizes import Varying

__all__ = ["Generated", "generated"]


class Generated:
    """A constant that is recomputed for each size.

    Attributes
    ----------
    kind
        ``"fill"`` (args: the value), ``"range"`` (start, step; along the one axis that is not 1 long), ``"triangle"``
        (offset, the value on and below that diagonal, the value above; in the last two axes), ``"number"`` (a size).
    shape
        Sizes: ints or `Varying`.
    """

    __slots__ = ("args", "dtype", "kind", "shape")

    def __init__(self, kind: str, shape: Sequence[Any], dtype: Any, args: Sequence[Any] = ()) -> None:
        self.kind, self.shape, self.dtype, self.args = kind, tuple(shape), np.dtype(dtype), tuple(args)

    def array(self, size: Callable[[Any], Any]) -> Any:
        """Return the array; `size` gives the value of a number that may vary."""
        shape: tuple[Any, ...] = tuple(map(size, self.shape))
        args = tuple(map(size, self.args))
        if self.kind == "fill":
            return np.full(shape, args[0], self.dtype)
        if self.kind == "range":
            return (args[0] + args[1] * np.arange(math.prod(shape))).astype(self.dtype).reshape(shape)
        if self.kind == "triangle":
            mask = np.tri(shape[-2], shape[-1], args[0], dtype=bool)
            return np.where(mask, np.array(args[1], self.dtype), np.array(args[2], self.dtype))
        return np.full(shape, args[0], self.dtype)


def generated(arrays: Sequence[Any], merged: Callable[[Sequence[Any]], Any]) -> Generated | None:
    """Return what makes these arrays, of one program at different sizes; None where that is not known."""
    if len({a.ndim for a in arrays}) > 1 or len({a.dtype for a in arrays}) > 1 or any(a.size == 0 for a in arrays):
        return None
    shape = tuple(merged(sizes) for sizes in zip(*(a.shape for a in arrays), strict=True))
    if any(isinstance(s, Varying) and s.expression is None for s in shape):
        return None
    dtype = arrays[0].dtype
    for kind, read in (("fill", _fill), ("range", _range), ("triangle", _triangle)):
        found = [read(a) for a in arrays]
        if None in found:
            continue
        args = [merged(v) for v in zip(*found, strict=True)]
        if all(not isinstance(v, Varying) or v.expression is not None for v in args):
            return Generated(kind, shape, dtype, args)
    return None


def _fill(array: Any) -> tuple[Any, ...] | None:
    first = array.flat[0].item()
    same = bool((array == first).all()) or (first != first and bool(np.isnan(array).all()))
    return (first,) if same else None


def _range(array: Any) -> tuple[Any, ...] | None:
    if array.dtype.kind not in "iuf" or array.size != max(array.shape, default=1) or array.size < 2:
        return None
    flat = array.reshape(-1)
    start, step = flat[0].item(), flat[1].item() - flat[0].item()
    return (start, step) if bool((flat == start + step * np.arange(flat.size)).all()) else None


def _triangle(array: Any) -> tuple[Any, ...] | None:
    if array.ndim != 2:
        return None
    inside, outside = array[-1, 0].item(), array[0, -1].item()
    rows, columns = array.shape
    for offset in range(1 - rows, columns):
        expected = np.where(np.tri(rows, columns, offset, dtype=bool), inside, outside)
        if inside != outside and np.array_equal(array, expected.astype(array.dtype)):
            return offset, inside, outside
    return None
