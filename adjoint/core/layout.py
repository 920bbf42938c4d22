"""Memory layout: layouts, memory formats, strides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from .._typing import Array, DType, Module
from ..devices.cpu.copying import copied
from ..devices.cpu.memory import dense as dense
from ..devices.cpu.memory import dense_or_image as dense_or_image
from ..devices.cpu.sizes import MOVE
from .device import as_strided, module_of
from .tensor import owner_of


class _Named:
    """A constant that is known by its name."""

    __slots__ = ("name",)

    name: str

    def __new__(cls) -> Any:
        raise TypeError(f"cannot create 'adjoint.{cls.__name__}' instances")

    def __repr__(self) -> str:
        return f"adjoint.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_constant, (self.name,))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


class layout(_Named):
    """How a tensor stores its elements; all are `strided` here."""

    __module__ = "adjoint"

    __slots__ = ()


class memory_format(_Named):
    """The order of a tensor's dimensions in memory."""

    __module__ = "adjoint"

    __slots__ = ()


_constants: dict[str, Any] = {}


def _constant(name: str) -> Any:
    return _constants[name]


def _named(kind: type, name: str) -> Any:
    made: Any = object.__new__(kind)
    made.name = name
    _constants[name] = made
    return made


strided: layout = _named(layout, "strided")
sparse_coo: layout = _named(layout, "sparse_coo")
sparse_csr: layout = _named(layout, "sparse_csr")
sparse_csc: layout = _named(layout, "sparse_csc")
sparse_bsr: layout = _named(layout, "sparse_bsr")
sparse_bsc: layout = _named(layout, "sparse_bsc")
jagged: layout = _named(layout, "jagged")

contiguous_format: memory_format = _named(memory_format, "contiguous_format")
preserve_format: memory_format = _named(memory_format, "preserve_format")
channels_last: memory_format = _named(memory_format, "channels_last")
channels_last_3d: memory_format = _named(memory_format, "channels_last_3d")

# The order, outermost first, in which a format lays out the dimensions.
_ORDERS = {channels_last: (0, 2, 3, 1), channels_last_3d: (0, 2, 3, 4, 1)}


def check_layout(wanted: object) -> None:
    """Raise unless the layout that a factory was given is the one that exists here."""
    if wanted is None or wanted is strided:
        return
    if not isinstance(wanted, layout):
        raise TypeError(f"argument 'layout' must be adjoint.layout, not {type(wanted).__name__}")
    raise NotImplementedError(f"layout {wanted} is not supported; tensors here are adjoint.strided")


def order_of(wanted: object, rank: int) -> tuple[int, ...] | None:
    """Return the order of dimensions, outermost first, of a memory format; None means row-major."""
    if wanted is None or wanted is contiguous_format:
        return None
    if not isinstance(wanted, memory_format):
        raise TypeError(f"argument 'memory_format' must be adjoint.memory_format, not {type(wanted).__name__}")
    order = _ORDERS.get(wanted)
    if order is None:
        raise RuntimeError(f"unsupported memory format {wanted.name.partition('_')[0].capitalize()} here")
    if rank != len(order):
        raise RuntimeError(f"required rank {len(order)} tensor to use {wanted.name} format, but got rank {rank}")
    return order


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Return the strides, in elements, of a tensor without gaps in row-major order."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def strides_of(array: Any) -> tuple[int, ...]:
    """Return an array's strides in elements, as torch counts them."""
    shape = array.shape
    if 0 in shape:
        return row_major(shape)
    size = array.itemsize
    strides = [s // size for s in array.strides]
    # NumPy gives an axis of size 1 that it inserts a stride of 0; torch gives it the next one's extent.
    for i in range(len(shape) - 1, -1, -1):
        if strides[i] == 0 and shape[i] == 1:
            strides[i] = strides[i + 1] * shape[i + 1] if i + 1 < len(shape) else 1
    return tuple(strides)


def dense_order(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Return the dimensions from outermost to innermost, by their strides.

    A dimension of stride 0 is not moved among its neighbours.
    """
    order = list(range(len(shape) - 1, -1, -1))  # innermost first while it is sorted
    for start in range(1, len(order)):
        at = start
        for before in range(start - 1, -1, -1):
            inner, outer = order[before], order[at]
            if strides[inner] == 0 or strides[outer] == 0:
                continue
            if (strides[inner], shape[inner]) > (strides[outer], shape[outer]):
                order[before], order[at] = outer, inner
                at = before
            elif strides[inner] < strides[outer]:
                break
    return tuple(reversed(order))


def is_dense(array: Any) -> bool:
    """Return whether an array's elements fill one stretch of memory, each element once."""
    if array.flags.c_contiguous or array.flags.f_contiguous:
        return True
    order = sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n != 1)
    reach = array.itemsize
    for stride, n in order:
        if stride != reach:
            return False
        reach *= n
    return True


def is_contiguous(array: Array, wanted: object) -> bool:
    """Return whether the elements are in the order of a memory format, without gaps."""
    if wanted is None or wanted is contiguous_format or wanted is preserve_format:
        return bool(array.flags.c_contiguous)
    order = _ORDERS.get(wanted) if isinstance(wanted, memory_format) else None
    if order is None:
        raise TypeError(f"argument 'memory_format' must be adjoint.memory_format, not {type(wanted).__name__}")
    return len(order) == array.ndim and bool(array.transpose(order).flags.c_contiguous)


def empty_ordered(module: Any, shape: Sequence[int], dtype: np.typing.DTypeLike, order: Sequence[int] | None) -> Any:
    """Return an uninitialized array whose dimensions have the given order in memory, outermost first."""
    if order is None or list(order) == list(range(len(shape))):
        return module.empty(tuple(shape), dtype)
    inverse = [0] * len(order)
    for place, dim in enumerate(order):
        inverse[dim] = place
    return module.empty(tuple(shape[dim] for dim in order), dtype).transpose(inverse)


def laid_out(array: Array, order: Sequence[int] | None) -> Any:
    """Return a copy whose dimensions have the given order in memory, outermost first; None: the present order."""
    if order is None:
        # NumPy takes a dimension of stride 0 for the innermost; torch leaves it where it stands.
        if array.flags.c_contiguous or 0 not in array.strides:
            if array.size > MOVE and type(array) is np.ndarray and array.flags.c_contiguous:
                return copied(array)
            return array.copy(order="K")
        order = dense_order(array.shape, strides_of(array))
    copy = empty_ordered(module_of(array), array.shape, array.dtype, order)
    copy[...] = array
    return copy


def empty_strided(module: Module, shape: Sequence[int], strides: Sequence[int], dtype: DType) -> Any:
    """Return an unset array with the given strides, in elements."""
    if len(shape) != len(strides):
        raise RuntimeError(
            f"dimensionality of sizes ({len(shape)}) must match dimensionality of strides ({len(strides)})"
        )
    if any(s < 0 for s in strides):
        raise RuntimeError(
            f"Storage size calculation overflowed with sizes={list(shape)} and strides={list(strides)}: "
            "strides must not be negative"
        )
    if math.prod(shape) == 0:
        return module.empty(tuple(shape), dtype)
    reach = sum(s * (n - 1) for s, n in zip(strides, shape, strict=True)) + 1
    memory = module.empty(reach, dtype)
    return looking_into(memory, memory.dtype, 0, shape, [s * memory.itemsize for s in strides])


def looking_into(memory: Any, dtype: DType, offset: int, shape: Sequence[int], strides: Sequence[int]) -> Any:
    """Return an array that looks into the memory of a flat one; offset and strides count bytes."""
    if type(memory) is np.ndarray:
        return np.ndarray(tuple(shape), dtype, memory, offset, tuple(strides))
    if hasattr(memory, "looked_into"):  # a value without elements
        return memory.looked_into(dtype, tuple(shape), tuple(strides))
    # CuPy has no constructor from another array, and forgets whose memory its stride tricks look at.
    elements = memory.view(np.uint8)[offset:]
    elements = elements[: elements.size // dtype.itemsize * dtype.itemsize].view(dtype)
    elements._set_shape_and_strides(tuple(shape), tuple(strides), True, True)
    return elements


def expanded_view(x: Array, shape: tuple[int, ...], strides: Sequence[int]) -> Any:
    """Return a view of a larger shape, some of whose strides (in bytes) are 0."""
    if isinstance(x, np.generic):
        x = np.asarray(x)
    if type(x) is np.ndarray and x.flags.c_contiguous and x.dtype.kind in "fiubc":
        # Ten times faster than broadcast_to, and as writable as `x` is.
        return np.ndarray(shape, x.dtype, x, 0, strides)
    if isinstance(x, np.ndarray):
        return strided_view(x, shape, strides)
    return as_strided(x, tuple(shape), tuple(strides), 0)


def offset_view(x: Any, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Any:
    """Return a view with any strides of the memory that an array looks at, from an offset on; both count bytes."""
    if not isinstance(x, np.ndarray):
        return as_strided(x, shape, strides, offset)
    if offset == 0:
        return strided_view(x, shape, strides)
    owner = owner_of(x)
    if not owner.flags.c_contiguous and not owner.flags.f_contiguous:
        raise RuntimeError("as_strided: the tensor's memory has gaps, so no other offset into it is known")
    start = x.__array_interface__["data"][0] - owner.__array_interface__["data"][0] + offset
    return np.ndarray(shape, x.dtype, owner.ravel(order="K").view(np.uint8), start, strides)


def strided_view(x: Any, shape: Sequence[int], strides: Sequence[int]) -> Any:
    """Return a view with any strides, in bytes, of the memory that an array looks at.

    NumPy's own puts an object between the view and `x`, so that views of views make a chain of bases, through which
    one would walk again and again to find the owner of the memory.
    """
    base = getattr(x, "base", None)
    if type(x) is np.ndarray and base is not None and type(base) is not np.ndarray and x.size and math.prod(shape):
        owner = owner_of(x)
        if type(owner) is np.ndarray and (owner.flags.c_contiguous or owner.flags.f_contiguous):
            start = x.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
            view: Any = np.ndarray(shape, x.dtype, owner.ravel(order="K").view(np.uint8), start, strides)
            view.flags.writeable = x.flags.writeable
            return view
    return module_of(x).lib.stride_tricks.as_strided(x, shape, strides)
