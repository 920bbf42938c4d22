"""NumPy's interface for payloads, on which rules then run: operators, ufuncs and a few array methods."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core import modes
from ..core.general import general
from ..core.payload import Payload
from ..core.primitive import by_ufunc
from ..ops.dimensions import permute_p, transpose_p
from ..ops.shape import reshape_p


def _two(ufunc: Any) -> Any:
    def operator(self: Any, other: Any) -> Any:
        call: Any = by_ufunc[ufunc]
        return call(self, other) if modes.unusual else general(call.op, (self, other), ())

    return operator


def _two_reflected(ufunc: Any) -> Any:
    def operator(self: Any, other: Any) -> Any:
        call: Any = by_ufunc[ufunc]
        return call(other, self) if modes.unusual else general(call.op, (other, self), ())

    return operator


class Speaking(Payload):
    """A payload that implements the part of NumPy's interface that rules use, each by a call of a primitive."""

    __slots__ = ()

    shape: Any
    dtype: Any

    __add__, __radd__ = _two(np.add), _two_reflected(np.add)
    __sub__, __rsub__ = _two(np.subtract), _two_reflected(np.subtract)
    __mul__, __rmul__ = _two(np.multiply), _two_reflected(np.multiply)
    __truediv__, __rtruediv__ = _two(np.divide), _two_reflected(np.divide)
    __pow__, __rpow__ = _two(np.power), _two_reflected(np.power)
    __matmul__, __rmatmul__ = _two(np.matmul), _two_reflected(np.matmul)
    __lt__, __le__, __gt__, __ge__ = (
        _two(np.less),
        _two(np.less_equal),
        _two(np.greater),
        _two(np.greater_equal),
    )
    __and__, __or__ = _two(np.bitwise_and), _two(np.bitwise_or)

    def __eq__(self, other: object) -> Any:
        return by_ufunc[np.equal](self, other)

    def __ne__(self, other: object) -> Any:
        return by_ufunc[np.not_equal](self, other)

    __hash__ = object.__hash__

    def __neg__(self) -> Any:
        return by_ufunc[np.negative](self)

    def __invert__(self) -> Any:
        return by_ufunc[np.logical_not](self)

    def __abs__(self) -> Any:
        return by_ufunc[np.absolute](self)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs or ufunc not in by_ufunc:
            return NotImplemented
        call: Any = by_ufunc[ufunc]
        return call(*inputs) if modes.unusual else general(call.op, inputs, ())

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes per element."""
        return int(self.dtype.itemsize)

    def sum(self, axis: Any = None, keepdims: bool = False) -> Any:
        """Add up elements along axes."""
        from ..ops.reduce import sum_p

        axes = tuple(range(self.ndim)) if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
        return sum_p(self, tuple(a % self.ndim for a in axes), keepdims) if self.ndim else self

    def reshape(self, *shape: Any) -> Any:
        """Give another shape."""
        wanted = tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], tuple | list) else shape
        if -1 in wanted:
            known = math.prod(n for n in wanted if n != -1)
            wanted = tuple(self.size // max(known, 1) if n == -1 else n for n in wanted)
        return reshape_p(self, wanted)

    def swapaxes(self, axis0: int, axis1: int) -> Any:
        """Exchange two axes."""
        return transpose_p(self, axis0 % self.ndim, axis1 % self.ndim)

    def transpose(self, *axes: Any) -> Any:
        """Permute the axes."""
        wanted = tuple(axes[0]) if len(axes) == 1 and isinstance(axes[0], tuple | list) else axes
        return permute_p(self, wanted or tuple(reversed(range(self.ndim))))

    def conj(self) -> Any:
        """Conjugate."""
        if self.dtype.kind != "c":
            return self
        return by_ufunc[np.conjugate](self)

    def copy(self, order: str = "K") -> Any:
        """Return itself: payloads do not change."""
        return self

    def concrete(self, what: str) -> Any:
        """Return the value as an array, or explain why it has none."""
        raise RuntimeError(f"{what} was called on a value inside a transform, where it has no single number")
