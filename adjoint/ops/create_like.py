"""Tensors made like another tensor: ``zeros_like``, ``Tensor.new_zeros`` and related functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._typing import DeviceLike, DType, DTypeArg, Ints, LayoutArg, MemoryFormat, Operand, Tensor, Value
from ..core import device as devices
from ..core import dtypes, layout, modes
from ..core.layout import check_layout
from ..core.nodes import wrap
from ..core.payload import Payload, payload_of
from ..core.tensor import TensorBase
from .arguments import shape_from
from .create import copied, empty_strided, filled, require_grad, size_from, warn_of_copy
from .literals import scalar_of

__all__ = [
    "empty_like", "full_like", "ones_like", "zeros_like",
]  # fmt: skip


def at_level_of(input: Any, made: Tensor) -> Tensor:
    """Return a fresh tensor at the levels of the batches that `input` is in, so that it can be written with it."""
    payload = input.array
    if not isinstance(payload, Payload) or not payload.level:
        return made
    below = payload.below()
    made = at_level_of(below if isinstance(below, TensorBase) else wrap(below), made)
    return made if payload.spreads else wrap(type(payload).lifted(made.array, payload.level))


def like(input: Tensor, dtype: DTypeArg | DType, device: DeviceLike, layout: object = None) -> tuple[Any, Any]:
    """Return the dtype and device of a tensor made like `input`; raise for a `layout` other than strided."""
    check_layout(layout)
    place = devices.of(input.array) if device is None else devices.as_device(device)
    return dtypes.of(input.array.dtype) if dtype is None else dtype, place


def order_like(input: Tensor, memory_format: MemoryFormat) -> tuple[int, ...] | None:
    """Return the order of dimensions in memory of a tensor made like `input`."""
    array = input.array
    if memory_format is not None and memory_format is not layout.preserve_format:
        return layout.order_of(memory_format, array.ndim)
    if isinstance(array, Payload) or array.flags.c_contiguous:
        return None
    return layout.dense_order(array.shape, layout.strides_of(array))


def copy_for(written: Value, input: Tensor) -> Tensor:
    """Return a copy of `input` into which a tensor can be written, also one with a value per element of a batch."""
    out: Tensor = input.clone()
    top = payload_of(written)
    own = payload_of(out)
    if top is None or top.spreads or (own is not None and own.level >= top.level):
        return out
    return wrap(type(top).lifted(out, top.level))


def _filled_like(
    value: object, input: Tensor, dtype: DType | dtypes.dtype | None, device: DeviceLike, requires_grad: bool,
    memory_format: MemoryFormat, layout: LayoutArg,
) -> Tensor:  # fmt: skip
    if not isinstance(input, TensorBase):
        raise TypeError(f"argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    check_layout(layout)
    if isinstance(input.array, Payload) and input.array.whole:
        return _answered_like(input, value, dtype, device, requires_grad)
    wanted, place = like(input, dtype, device)
    made = filled(value, tuple(input.array.shape), wanted, place, requires_grad, order_like(input, memory_format))
    return at_level_of(input, made) if modes.unusual else made


def _answered_like(
    input: Tensor, value: Any, dtype: DType | dtypes.dtype | None, device: DeviceLike, requires_grad: bool,
) -> Tensor:  # fmt: skip
    """Return what the class of `input` makes of a function like ``zeros_like``."""
    name = {0: "zeros_like", 1: "ones_like", None: "empty_like"}.get(value, "full_like")
    options = {key: given for key, given in (("dtype", dtype), ("device", device)) if given is not None}
    payload: Any = input.array
    out = wrap(payload.made(name, (value,) if name == "full_like" else (), **options))
    if requires_grad:
        require_grad(out)
    return out


def zeros_like(
    input: Tensor, *, dtype: DTypeArg = None, layout: LayoutArg = None, device: DeviceLike = None,
    requires_grad: bool = False, memory_format: MemoryFormat = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Make a tensor of zeros in the shape of `input`.

    Parameters
    ----------
    input : Tensor
        Only its shape, dtype, device and memory layout count.
    dtype : dtype, optional
        That of `input` if not given.
    layout : layout, optional
        Only ``adjoint.strided``.
    device : device, optional
        That of `input` if not given.
    requires_grad : bool, default False
        Whether what is computed from it is recorded.
    memory_format : memory_format, optional
        The memory layout. By default (``preserve_format``) the order of dimensions in memory is that of `input`.
    pin_memory : bool, default False
        Ignored: memory is never pinned.

    Returns
    -------
    Tensor
        A new leaf.

    Examples
    --------
    >>> adjoint.zeros_like(adjoint.tensor([[1, 2], [3, 4]]))
    tensor([[0, 0],
            [0, 0]])
    """
    return _filled_like(0, input, dtype, device, requires_grad, memory_format, layout)


def ones_like(
    input: Tensor, *, dtype: DTypeArg = None, layout: LayoutArg = None, device: DeviceLike = None,
    requires_grad: bool = False, memory_format: MemoryFormat = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Make a tensor of ones in the shape of `input`.

    Parameters
    ----------
    input : Tensor
        Only its shape, dtype, device and memory layout count.
    dtype : dtype, optional
        That of `input` if not given.
    layout : layout, optional
        Only ``adjoint.strided``.
    device : device, optional
        That of `input` if not given.
    requires_grad : bool, default False
        Whether what is computed from it is recorded.
    memory_format : memory_format, optional
        The memory layout. By default (``preserve_format``) the order of dimensions in memory is that of `input`.
    pin_memory : bool, default False
        Ignored: memory is never pinned.

    Returns
    -------
    Tensor
        A new leaf.

    Examples
    --------
    >>> adjoint.ones_like(adjoint.tensor([1.5, 2.5]))
    tensor([1., 1.])
    """
    return _filled_like(1, input, dtype, device, requires_grad, memory_format, layout)


def empty_like(
    input: Tensor, *, dtype: DTypeArg = None, layout: LayoutArg = None, device: DeviceLike = None,
    requires_grad: bool = False, memory_format: MemoryFormat = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Make a tensor in the shape of `input` without setting its elements.

    Parameters
    ----------
    input : Tensor
        Only its shape, dtype, device and memory layout count.
    dtype : dtype, optional
        That of `input` if not given.
    layout : layout, optional
        Only ``adjoint.strided``.
    device : device, optional
        That of `input` if not given.
    requires_grad : bool, default False
        Whether what is computed from it is recorded.
    memory_format : memory_format, optional
        The memory layout. By default (``preserve_format``) the order of dimensions in memory is that of `input`.
    pin_memory : bool, default False
        Ignored: memory is never pinned.

    Returns
    -------
    Tensor
        A new leaf. Write to it before reading it.

    Examples
    --------
    >>> adjoint.empty_like(adjoint.zeros(2, 3)).shape
    adjoint.Size([2, 3])
    """
    return _filled_like(None, input, dtype, device, requires_grad, memory_format, layout)


def full_like(
    input: Tensor, fill_value: Operand, *, dtype: DTypeArg = None, layout: LayoutArg = None, device: DeviceLike = None,
    requires_grad: bool = False, memory_format: MemoryFormat = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Make a tensor in the shape of `input`, filled with one value.

    Parameters
    ----------
    input : Tensor
        Only its shape, dtype, device and memory layout count.
    fill_value : number
        The value of every element.
    dtype : dtype, optional
        That of `input` if not given.
    layout : layout, optional
        Only ``adjoint.strided``.
    device : device, optional
        That of `input` if not given.
    requires_grad : bool, default False
        Whether what is computed from it is recorded.
    memory_format : memory_format, optional
        The memory layout. By default (``preserve_format``) the order of dimensions in memory is that of `input`.
    pin_memory : bool, default False
        Ignored: memory is never pinned.

    Returns
    -------
    Tensor
        A new leaf.

    Examples
    --------
    >>> adjoint.full_like(adjoint.zeros(2, 2), 7)
    tensor([[7., 7.],
            [7., 7.]])
    """
    value = scalar_of(fill_value, "fill_value", "full_like")
    return _filled_like(value, input, dtype, device, requires_grad, memory_format, layout)


def new_tensor(
    input: Tensor, data: object, *, dtype: DTypeArg = None, device: DeviceLike = None, requires_grad: bool = False,
    layout: LayoutArg = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Make a tensor with a copy of `data`, of the dtype and on the device of `input`.

    Parameters
    ----------
    input : Tensor
        Only its dtype and device count.
    data : number, sequence, array or Tensor
        As for `tensor`.
    dtype : dtype, optional
        That of `input` if not given; that of a tensor given as `data`.
    device : device, optional
        That of `input` if not given.
    requires_grad : bool, default False
        Whether what is computed from it is recorded.
    layout : layout, optional
        Only ``adjoint.strided``.
    pin_memory : bool, default False
        Ignored: memory is never pinned.

    Returns
    -------
    Tensor
        A new leaf.

    Examples
    --------
    >>> x = adjoint.zeros(1, dtype=adjoint.float64)
    >>> x.new_tensor([1, 2])
    tensor([1., 2.], dtype=adjoint.float64)
    """
    if isinstance(data, TensorBase):
        warn_of_copy()
        dtype = dtypes.of(data.array.dtype) if dtype is None else dtype
    wanted, place = like(input, dtype, device, layout)
    return copied(data, wanted, place, requires_grad)


def new_zeros(
    input: Tensor, *args: Ints, size: Ints | None = None, dtype: DTypeArg = None, device: DeviceLike = None,
    requires_grad: bool = False, layout: LayoutArg = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Make a tensor of zeros, of the dtype and on the device of `input`.

    Parameters
    ----------
    input : Tensor
        Only its dtype and device count.
    size : int... or sequence of ints
        The shape.
    dtype : dtype, optional
        That of `input` if not given.
    device : device, optional
        That of `input` if not given.
    requires_grad : bool, default False
        Whether what is computed from it is recorded.
    layout : layout, optional
        Only ``adjoint.strided``.
    pin_memory : bool, default False
        Ignored: memory is never pinned.

    Returns
    -------
    Tensor
        A new leaf.

    Examples
    --------
    >>> x = adjoint.zeros(1, dtype=adjoint.float64)
    >>> x.new_zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]], dtype=adjoint.float64)
    """
    wanted, place = like(input, dtype, device, layout)
    return at_level_of(input, filled(0, size_from(args, size, "new_zeros"), wanted, place, requires_grad))


def new_ones(
    input: Tensor, *args: Ints, size: Ints | None = None, dtype: DTypeArg = None, device: DeviceLike = None,
    requires_grad: bool = False, layout: LayoutArg = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Make a tensor of ones, of the dtype and on the device of `input`.

    Parameters
    ----------
    input : Tensor
        Only its dtype and device count.
    size : int... or sequence of ints
        The shape.
    dtype : dtype, optional
        That of `input` if not given.
    device : device, optional
        That of `input` if not given.
    requires_grad : bool, default False
        Whether what is computed from it is recorded.
    layout : layout, optional
        Only ``adjoint.strided``.
    pin_memory : bool, default False
        Ignored: memory is never pinned.

    Returns
    -------
    Tensor
        A new leaf.

    Examples
    --------
    >>> x = adjoint.zeros(1, dtype=adjoint.float64)
    >>> x.new_ones(2, 3)
    tensor([[1., 1., 1.],
            [1., 1., 1.]], dtype=adjoint.float64)
    """
    wanted, place = like(input, dtype, device, layout)
    return at_level_of(input, filled(1, size_from(args, size, "new_ones"), wanted, place, requires_grad))


def new_empty(
    input: Tensor, *args: Ints, size: Ints | None = None, dtype: DTypeArg = None, device: DeviceLike = None,
    requires_grad: bool = False, layout: LayoutArg = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Make a tensor of the dtype and on the device of `input`, without setting its elements.

    Parameters
    ----------
    input : Tensor
        Only its dtype and device count.
    size : int... or sequence of ints
        The shape.
    dtype : dtype, optional
        That of `input` if not given.
    device : device, optional
        That of `input` if not given.
    requires_grad : bool, default False
        Whether what is computed from it is recorded.
    layout : layout, optional
        Only ``adjoint.strided``.
    pin_memory : bool, default False
        Ignored: memory is never pinned.

    Returns
    -------
    Tensor
        A new leaf. Write to it before reading it.

    Examples
    --------
    >>> x = adjoint.zeros(1, dtype=adjoint.float64)
    >>> x.new_empty(2, 3).shape
    adjoint.Size([2, 3])
    """
    wanted, place = like(input, dtype, device, layout)
    return at_level_of(input, filled(None, size_from(args, size, "new_empty"), wanted, place, requires_grad))


def new_full(
    input: Tensor, size: Ints, fill_value: Operand, *, dtype: DTypeArg = None, device: DeviceLike = None,
    requires_grad: bool = False, layout: LayoutArg = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Make a tensor filled with one value, of the dtype and on the device of `input`.

    Parameters
    ----------
    input : Tensor
        Only its dtype and device count.
    size : sequence of ints
        The shape.
    fill_value : number
        The value of every element.
    dtype : dtype, optional
        That of `input` if not given.
    device : device, optional
        That of `input` if not given.
    requires_grad : bool, default False
        Whether what is computed from it is recorded.
    layout : layout, optional
        Only ``adjoint.strided``.
    pin_memory : bool, default False
        Ignored: memory is never pinned.

    Returns
    -------
    Tensor
        A new leaf.

    Examples
    --------
    >>> x = adjoint.zeros(1, dtype=adjoint.float64)
    >>> x.new_full((2,), 3)
    tensor([3., 3.], dtype=adjoint.float64)
    """
    wanted, place = like(input, dtype, device, layout)
    if not isinstance(size, list | tuple):
        raise TypeError(f"new_full(): argument 'size' (position 1) must be tuple of ints, not {type(size).__name__}")
    value = scalar_of(fill_value, "fill_value", "new_full")
    return at_level_of(input, filled(value, shape_from((size,)), wanted, place, requires_grad))


def new_empty_strided(
    input: Tensor, size: Ints, stride: Ints, *, dtype: DTypeArg = None, device: DeviceLike = None,
    requires_grad: bool = False, layout: LayoutArg = None, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Make an uninitialized tensor with the given strides, of the dtype and on the device of `input`."""
    wanted, place = like(input, dtype, device, layout)
    return empty_strided(size, stride, dtype=wanted, device=place, requires_grad=requires_grad)


def new(input: Tensor, *args: Ints, device: DeviceLike = None) -> Tensor:
    """Make a tensor as the constructor of its type would, from sizes or from data.

    It is an old form; `new_empty` and `new_tensor` say which of the two is meant.

    Parameters
    ----------
    input : Tensor
        Only its dtype and device count.
    *args : int, Size or sequence
        Sizes of a tensor whose elements are not set; or a sequence or array to copy.
    device : device, optional
        That of `input` if not given.

    Returns
    -------
    Tensor
        A new leaf; without arguments, one of no elements.

    Examples
    --------
    >>> x = adjoint.zeros(1, dtype=adjoint.float64)
    >>> x.new([1, 2])
    tensor([1., 2.], dtype=adjoint.float64)
    >>> x.new(2, 3).shape
    adjoint.Size([2, 3])
    """
    place = devices.of(input.array) if device is None else device
    return constructed(dtypes.of(input.array.dtype), place, args)


def constructed(dtype: dtypes.dtype, device: DeviceLike, args: Sequence[Any]) -> Tensor:
    """Return what ``FloatTensor(2, 3)`` or ``FloatTensor([1.0, 2.0])`` means: sizes or data."""
    if not args:
        return filled(None, (0,), dtype, device, False)
    first = args[0]
    if len(args) == 1:
        if isinstance(first, TensorBase):
            if dtypes.of(first.array.dtype) is not dtype:
                raise TypeError(
                    f"expected a tensor of {dtype}, not of {dtypes.of(first.array.dtype)}; convert it with .to()"
                )
            return wrap(first.array, None, first.memory)
        if isinstance(first, str | bytes):
            raise TypeError(f"new(): invalid data type '{type(first).__name__}'")
        is_size = type(first).__name__ == "Size"
        if hasattr(first, "__len__") and not is_size and not isinstance(first, np.generic):
            return copied(first, dtype, device, False)
        if isinstance(first, bool | float | complex) or first is None:
            raise TypeError(f"new(): data must be a sequence (got {type(first).__name__})")
    return filled(None, shape_from(tuple(args)), dtype, device, False)
