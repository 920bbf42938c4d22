"""Sizes, strides, addresses and kinds of elements of a tensor, and the device it is on."""

from __future__ import annotations

from typing import Any

from .._typing import Tensor
from ..core import layout as layouts
from ..core import modes
from ..core.payload import Payload, is_batch, refuse_format
from ..core.views import refresh
from ..ops import convert
from ..ops import memory as memories
from ..ops.arguments import dim_in


def size(self: Tensor, dim: int | None = None, axis: int | None = None) -> Any:
    """Return the shape, or the size of one dimension."""
    dim = dim if axis is None else axis
    if dim is None:
        return self.shape
    shape = self.array.shape
    if not -len(shape) <= dim < len(shape):
        bound = max(len(shape), 1)
        raise IndexError(f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {dim})")
    return shape[dim]


def stride(self: Tensor, dim: int | None = None, axis: int | None = None) -> Any:
    """Return the strides in elements, or that of one dimension."""
    dim = dim if axis is None else axis
    if modes.unusual and isinstance(self.array, Payload):
        refresh(self)  # after a write a view may have other strides
    strides = layouts.strides_of(self.array)
    return strides if dim is None else strides[dim_in(dim, self.array.ndim)]


def storage_offset(self: Tensor) -> int:
    """Return the offset of the first element in the storage, in elements."""
    if modes.unusual and isinstance(self.array, Payload):
        refresh(self)
    return memories.offset_of(self)


def data_ptr(self: Tensor) -> int:
    """Return the address of the first element."""
    if modes.unusual and is_batch(self):
        return self.array.data  # which refuses
    return memories.address_of(self.array) if self.array.size else 0


def is_contiguous(self: Tensor, memory_format: Any = layouts.contiguous_format) -> bool:
    """Return whether the memory is contiguous, in row-major order or in that of a memory format."""
    if modes.unusual and memory_format is not layouts.contiguous_format:
        refuse_format(self)
    return layouts.is_contiguous(self.array, memory_format)


def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """Return what ``load_state_dict`` puts in this tensor's place: `other`, or this one with its values."""
    return other.detach() if assign else convert.copy_(self, other).detach()


def get_device(self: Tensor) -> int:
    """Return the GPU's index, -1 for the CPU."""
    index = self.device.index
    return -1 if index is None else index


def is_floating_point(self: Tensor) -> bool:
    """Return whether the dtype is a real floating type."""
    return self.dtype.is_floating_point


def is_complex(self: Tensor) -> bool:
    """Return whether the dtype is complex."""
    return self.array.dtype.kind == "c"  # type: ignore[no-any-return]


def is_signed(self: Tensor) -> bool:
    """Return whether the dtype holds negative values."""
    return self.dtype.is_signed


def is_conj(self: Tensor) -> bool:
    """Return False: conjugation is never lazy here."""
    return False
