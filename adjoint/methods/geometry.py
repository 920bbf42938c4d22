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
    """Return the shape, or the size of one dimension.

    Parameters
    ----------
    dim : int, optional
        The dimension; negative counts from the last. Defaults to all.

    Returns
    -------
    Size or int
        All sizes, or that of `dim`.

    Raises
    ------
    IndexError
        If there is no dimension `dim`.

    Examples
    --------
    >>> x = adjoint.zeros(2, 3)
    >>> x.size()
    adjoint.Size([2, 3])
    >>> x.size(-1)
    3
    """
    dim = dim if axis is None else axis
    if dim is None:
        return self.shape
    shape = self.array.shape
    if not -len(shape) <= dim < len(shape):
        bound = max(len(shape), 1)
        raise IndexError(f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {dim})")
    return shape[dim]


def stride(self: Tensor, dim: int | None = None, axis: int | None = None) -> Any:
    """Return how many elements apart neighbours along each dimension are in memory, or along one.

    Parameters
    ----------
    dim : int, optional
        The dimension; negative counts from the last. Defaults to all.

    Returns
    -------
    tuple of int, or int
        In elements, not in bytes.

    Raises
    ------
    IndexError
        If there is no dimension `dim`.

    Examples
    --------
    >>> x = adjoint.zeros(2, 3)
    >>> x.stride(), x.t().stride()
    ((3, 1), (1, 3))
    >>> x.stride(0)
    3
    """
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
    """Return the address of the first element in memory.

    Returns
    -------
    int
        0 for a tensor without elements.

    Examples
    --------
    >>> x = adjoint.zeros(3)
    >>> x.data_ptr() == x.view(3, 1).data_ptr()  # a view shares the memory
    True
    >>> x[1:].data_ptr() - x.data_ptr()
    4
    """
    if modes.unusual and is_batch(self):
        return self.array.data  # which refuses
    return memories.address_of(self.array) if self.array.size else 0


def is_contiguous(self: Tensor, memory_format: Any = layouts.contiguous_format) -> bool:
    """Return whether the elements are contiguous in memory, in the order of a memory format.

    Parameters
    ----------
    memory_format : memory_format, default adjoint.contiguous_format
        The order: `adjoint.contiguous_format` means row by row, the last dimension first.

    Returns
    -------
    bool
        True if `contiguous` would not copy.

    Examples
    --------
    >>> x = adjoint.zeros(2, 3)
    >>> x.is_contiguous(), x.t().is_contiguous()
    (True, False)
    >>> image = adjoint.zeros(1, 2, 4, 4).to(memory_format=adjoint.channels_last)
    >>> image.is_contiguous(), image.is_contiguous(memory_format=adjoint.channels_last)
    (False, True)
    """
    if modes.unusual and memory_format is not layouts.contiguous_format:
        refuse_format(self)
    return layouts.is_contiguous(self.array, memory_format)


def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """Return what ``load_state_dict`` puts in this tensor's place: `other`, or this one with its values."""
    return other.detach() if assign else convert.copy_(self, other).detach()


def get_device(self: Tensor) -> int:
    """Return the index of the GPU that holds the elements, -1 for the CPU.

    Returns
    -------
    int
        As in ``cuda:0``.

    Examples
    --------
    >>> adjoint.zeros(2).get_device()
    -1
    """
    index = self.device.index
    return -1 if index is None else index


def is_floating_point(self: Tensor) -> bool:
    """Return whether the dtype is a real floating type.

    Returns
    -------
    bool
        False for integers, booleans and complex dtypes.

    Examples
    --------
    >>> adjoint.tensor([1.0]).is_floating_point(), adjoint.tensor([1]).is_floating_point()
    (True, False)
    """
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
