"""Meta: values of the device "meta", which have a shape, a dtype and strides, and no elements.

An op on such values gives another. Elementwise ops and matrix multiplications are computed from shapes alone; any
other kernel runs on memory that is all zeros and takes no space, and only the shape of its result is used.
"""

from __future__ import annotations

import mmap
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..core import layout, modes
from ..core.device import device
from ..core.primitive import Op
from .speech import Speaking

__all__ = ["Meta", "arrays"]

_META = device("meta")
_NO_DATA = (
    "Cannot copy out of meta tensor; no data! Use to_empty() instead of to() when moving a module from meta to a "
    "different device."
)


class Meta(Speaking):
    """A value without elements. While one is alive, ops are recorded by the general recorder, which knows payloads."""

    __slots__ = ("dtype", "shape", "strides")

    place = _META
    data = SimpleNamespace(ptr=0)

    def __init__(self, shape: tuple[int, ...], dtype: Any, strides: tuple[int, ...] | None = None) -> None:
        self.level = 0  # it is no transform's: its graph is the program's own
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)
        if self.shape and min(self.shape) < 0:
            raise ValueError("negative dimensions are not allowed")
        packed = tuple(s * self.dtype.itemsize for s in layout.row_major(self.shape))
        modes.note_unusual(1)
        self.strides = packed if strides is None else strides

    def __del__(self, note: Any = modes.note_unusual) -> None:
        if hasattr(self, "strides"):  # else it was refused, and never counted
            note(-1)

    @classmethod
    def like(cls, array: Any) -> Meta:
        """Return a value of an array's shape, dtype and, where they leave no gaps, strides."""
        if isinstance(array, Meta):
            return array
        array = np.asarray(array)
        return cls(array.shape, array.dtype, array.strides)

    @classmethod
    def apply(cls, op: Op, level: int, values: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """Return what an op makes of shapes."""
        if op.name == "move":
            return values[0] if params[0] == "meta" else values[0].concrete("to()")
        with np.errstate(all="ignore"):
            if op.batch == "elementwise" and not op.view:
                out = _elementwise(op, values, params)
            elif op.name in _PRODUCTS:
                out = _PRODUCTS[op.name](*values)
            else:
                out = op.kernel(*(v.zeros() if isinstance(v, Meta) else v for v in values), *params)
        return tuple(map(cls.like, out)) if op.outputs else cls.like(out)

    @classmethod
    def lifted(cls, value: Any, level: int) -> Meta:
        """Return the shape of an array."""
        return cls.like(value)

    def zeros(self) -> Any:
        """Return zeros of this shape and these strides, which take space only where they are written."""
        if 0 in self.shape:
            return np.zeros(self.shape, self.dtype)
        extent = sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True)) + self.dtype.itemsize
        buffer = np.zeros(extent, np.uint8) if extent < 1 << 24 else np.frombuffer(_reserved(extent), np.uint8)
        first = buffer[: self.dtype.itemsize].view(self.dtype)
        return np.lib.stride_tricks.as_strided(first, self.shape, self.strides)

    @property
    def flags(self) -> Any:
        """The flags that an array of these strides would have."""
        return np.lib.stride_tricks.as_strided(np.zeros(1, self.dtype), self.shape, self.strides).flags

    @property
    def real(self) -> Any:
        """The real part."""
        return Meta(self.shape, self.dtype.type(0).real.dtype)

    imag = real

    def below(self) -> Any:
        """Return itself: there is nothing below."""
        return self

    def memory(self) -> Any:
        """Return zeros of this shape."""
        return self.zeros()

    def fill(self, value: Any) -> None:
        """Do nothing: there are no elements."""

    def __setitem__(self, index: Any, value: Any) -> None:
        """Do nothing: there are no elements."""

    def __getitem__(self, index: Any) -> Any:
        return Meta.like(self.zeros()[index])

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the shape with another dtype."""
        return Meta(self.shape, dtype)

    def view(self, dtype: Any) -> Any:
        """Return the same memory as elements of another dtype."""
        return Meta.like(self.zeros().view(dtype))

    def looked_into(self, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Any:
        """Return a part of the same memory, by its shape and strides."""
        return Meta(shape, dtype, strides)

    def concrete(self, what: str) -> Any:
        """Raise: there are no elements."""
        if what == "repr()":
            return np.broadcast_to(np.zeros((), self.dtype), self.shape)  # of which only the shape is read
        if what == "numpy()":
            raise TypeError(
                "can't convert meta device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory "
                "first."
            )
        if what in ("item()", "bool()", "float()", "int()", "complex()", "index()"):
            raise RuntimeError("Tensor.item() cannot be called on meta tensors")
        if what in ("to()", "tolist()"):
            raise NotImplementedError(_NO_DATA)
        raise NotImplementedError(f"{what} needs the elements of a tensor, and one on the meta device has none")

    def __repr__(self) -> str:
        return f"Meta(shape={self.shape}, dtype={self.dtype})"


def _reserved(size: int) -> Any:
    """Return memory of zeros that nothing stands behind until it is written."""
    if sys.platform == "linux":
        unreserved = getattr(mmap, "MAP_NORESERVE", 0x4000)  # which Python names from 3.13 on
        return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | unreserved)
    return mmap.mmap(-1, size)


def _elementwise(op: Op, values: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Return shape and dtype from one element of each operand."""
    arrays = [v for v in values if hasattr(v, "shape")]
    shape = np.broadcast_shapes(*(v.shape for v in arrays))
    thin = [_one(v) for v in values]
    out = op.kernel(*thin, *params)
    same = [v for v in arrays if v.shape == shape and isinstance(v, Meta)]

    def whole(part: Any) -> Meta:
        part = np.asarray(part)
        order = layout.dense_order(shape, layout.strides_of(same[0])) if same and 0 not in shape else None
        return Meta(shape, part.dtype, None if order is None else _ordered(shape, part.dtype.itemsize, order))

    return tuple(map(whole, out)) if op.outputs else whole(out)


def _one(value: Any) -> Any:
    """Return one element of an operand."""
    if not hasattr(value, "shape"):
        return value
    if isinstance(value, Meta):
        return np.zeros((1,) * value.ndim, value.dtype)
    return np.asarray(value)[(slice(0, 1),) * value.ndim] if value.size else np.zeros((1,) * value.ndim, value.dtype)


def _ordered(shape: tuple[int, ...], itemsize: int, order: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of an array whose dimensions have the given order in memory, outermost first."""
    strides, step = [0] * len(shape), itemsize
    for axis in reversed(order):
        strides[axis], step = step, step * shape[axis]
    return tuple(strides)


def _matmul(x: Any, y: Any) -> Meta:
    if x.shape[-1] != y.shape[-2 if y.ndim > 1 else 0]:
        raise RuntimeError(f"a and b must have same reduction dim, but got {list(x.shape)} X {list(y.shape)}.")
    rows = x.shape[-2:-1] if x.ndim > 1 else ()
    columns = y.shape[-1:] if y.ndim > 1 else ()
    return Meta((*np.broadcast_shapes(x.shape[:-2], y.shape[:-2]), *rows, *columns), np.result_type(x.dtype, y.dtype))


def _project(x: Any, weight: Any, bias: Any = None) -> Meta:
    product = _matmul(x, weight if weight.ndim == 1 else Meta(weight.shape[::-1], weight.dtype))
    return product if bias is None else Meta(np.broadcast_shapes(product.shape, bias.shape), product.dtype)


_PRODUCTS: dict[str, Any] = {"matmul": _matmul, "project": _project, "linear": _project}


class _Arrays:
    """The functions that make arrays, for values without elements."""

    def empty(self, shape: Any, dtype: Any = np.float64, **kwargs: Any) -> Meta:
        """Return a value of a shape."""
        return Meta(tuple(shape) if not isinstance(shape, int) else (shape,), dtype)

    zeros = ones = empty

    def full(self, shape: Any, fill_value: Any, dtype: Any = None) -> Meta:
        """Return a value of a shape."""
        return self.empty(shape, dtype)

    def __getattr__(self, name: str) -> Any:
        def make(*args: Any, **kwargs: Any) -> Any:
            return Meta.like(getattr(np, name)(*args, **kwargs))

        return make


arrays = _Arrays()
