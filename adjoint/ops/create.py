"""Tensors from nothing, from Python values and from arrays."""

from __future__ import annotations

import math
import sys
import warnings
from typing import Any, cast

import numpy as np

from .._typing import Array, DeviceLike, DType, DTypeArg, Ints, LayoutArg, MemoryFormat, Operand, Out, Tensor, Value
from ..core import device as devices
from ..core import dtypes, layout, modes, primitive
from ..core.dtypes import as_dtype, default
from ..core.leaves import AccumulateGrad, end
from ..core.nodes import wrap
from ..core.observation import literal
from ..core.payload import Payload, transforming
from ..core.tensor import InferenceStorage, Storage, TensorBase, ours
from ..core.writable import overlaps_itself
from .arguments import shape_from
from .literals import array_from, check_array, depth_outside, number_as, of_python, scalar_of

__all__ = [
    "as_tensor", "asarray", "empty", "empty_permuted", "empty_strided", "from_numpy", "frombuffer", "full", "ones",
    "scalar_tensor", "tensor", "zeros",
]  # fmt: skip


def finish(array: Value, requires_grad: bool = False) -> Tensor:
    """Return a leaf tensor that holds `array`."""
    out = wrap(array)
    if modes.unusual and modes.local.inference:
        out.memory = InferenceStorage()
        out.memory.ledger = None
    if requires_grad is not False:
        _check_flag(requires_grad)
        require_grad(out)
        if modes.transforms and transforming():
            end((out.node,))
    return out


def require_grad(
    x: TensorBase, refusal: str = "Only Tensors of floating point and complex dtype can require gradients"
) -> None:
    """Make a leaf record what is computed from it."""
    dtype = dtypes.of(x.array.dtype)
    if dtype.category < 2:
        raise RuntimeError(f"{refusal}; this one is {dtype.name}: convert it with .float()")
    x.node = AccumulateGrad(x)


def _check_flag(requires_grad: bool) -> None:
    if requires_grad is not True:
        raise TypeError(f"argument 'requires_grad' must be bool, not {type(requires_grad).__name__}")


# --- From values ------------------------------------------------------------------------------------


def tensor(
    data: object,
    *,
    dtype: DTypeArg = None,
    device: DeviceLike = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Make a tensor with a copy of `data`.

    It is a leaf without history. Without a copy, and with the history of a tensor: `as_tensor`.

    Parameters
    ----------
    data : number, sequence, array or Tensor
        Numbers, nested lists or tuples of equal lengths, a NumPy array or another tensor.
    dtype : dtype, optional
        By default it follows from `data`: int64 for Python's integers, the default dtype (float32) for its floats, bool
        for booleans, complex64 for complex numbers; that of an array or tensor.
    device : device, optional
        The default device if not given; that of a tensor.
    requires_grad : bool, default False
        Whether what is computed from it is recorded.
    pin_memory : bool, default False
        Ignored: memory is never pinned.

    Returns
    -------
    Tensor
        Of the shape of the nesting; a number has shape ``()``.

    Raises
    ------
    ValueError, RuntimeError
        If sequences have unequal lengths or hold something that is no number.

    Examples
    --------
    >>> adjoint.tensor([[1.0, 2.0], [3.0, 4.0]])
    tensor([[1., 2.],
            [3., 4.]])
    >>> adjoint.tensor([1, 2], dtype=adjoint.float64, requires_grad=True)
    tensor([1., 2.], dtype=adjoint.float64, requires_grad=True)
    >>> adjoint.tensor(5).shape
    adjoint.Size([])
    """
    if isinstance(data, TensorBase):
        warn_of_copy()
        if isinstance(data.array, Payload):
            data = wrap(data.array.detached())
    return copied(data, dtype, device, requires_grad)


def copied(data: object, dtype: DTypeArg, device: DeviceLike, requires_grad: bool) -> Tensor:
    """Return a leaf tensor with a copy of `data`."""
    if modes.unusual and modes.local.observer is not None and isinstance(data, TensorBase | np.ndarray):
        return _copied_in_sight(data, dtype, device, requires_grad)
    array = array_from(data, None if dtype is None else as_dtype(dtype), copy=True)
    if device is not None or not (isinstance(data, TensorBase) or (type(array) is np.ndarray and _at_home())):
        array = devices.place_array(array, devices.as_device(device))
    if modes.unusual:
        literal(array)
    return finish(array, requires_grad)


def _copied_in_sight(
    data: object, dtype: DType | dtypes.dtype | None, device: DeviceLike, requires_grad: bool,
) -> Tensor:  # fmt: skip
    """Copy by ops, which observers see."""
    out: Any = data.detach() if isinstance(data, TensorBase) else from_numpy(data)  # type: ignore[attr-defined]
    place = devices.of(out.array) if device is None and isinstance(data, TensorBase) else devices.as_device(device)
    out = out.to(device=place, dtype=None if dtype is None else as_dtype(dtype), copy=True).detach()
    if requires_grad:
        require_grad(out)
    return cast("Tensor", out)


def _at_home() -> bool:
    return devices.current() is devices.CPU


def warn_of_copy() -> None:
    """Warn that a tensor was given where values are expected."""
    warnings.warn(
        "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
        "sourceTensor.detach().clone().requires_grad_(True), rather than adjoint.tensor(sourceTensor).",
        UserWarning,
        stacklevel=depth_outside(),
    )


def scalar_tensor(
    s: Tensor | complex, *, dtype: DTypeArg = None, layout: LayoutArg = None, device: DeviceLike = None,
    pin_memory: bool = False, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Make a 0-d tensor of the default dtype from one number."""
    value = scalar_of(s, "s", "scalar_tensor")
    array = number_as(value, default() if dtype is None else as_dtype(dtype))
    return finish(literal(devices.place_array(array, devices.as_device(device))), requires_grad)


def from_numpy(ndarray: Any) -> Tensor:
    """Make a tensor that shares memory with a NumPy array.

    A write to one of them changes the other. A read-only array makes a tensor that refuses to be written to.

    Parameters
    ----------
    ndarray : numpy.ndarray
        Numbers or booleans, of any shape and strides.

    Returns
    -------
    Tensor
        Of the shape and dtype of the array.

    Raises
    ------
    TypeError
        If it is no array, or of a dtype that tensors do not have.

    Examples
    --------
    >>> a = np.ones(3)
    >>> t = adjoint.from_numpy(a)
    >>> a[0] = 5
    >>> t
    tensor([5., 1., 1.], dtype=adjoint.float64)
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    check_array(ndarray)
    out = wrap(ndarray.view(np.ndarray))
    storage = InferenceStorage() if modes.unusual and modes.local.inference else Storage()
    storage.ledger = None
    if ndarray.base is not None:  # else offset 0 is where the owner begins anyway
        storage.origin = ndarray.__array_interface__["data"][0]
    out.memory = storage
    if modes.unusual and modes.local.observer is not None:
        modes.local.observer.lent(out)
    return out


def from_memory(array: Value | object, requires_grad: bool = False) -> Tensor:
    """Return a tensor that looks at `array`, whose first element is offset 0 of its storage."""
    out = wrap(array)
    storage = InferenceStorage() if modes.unusual and modes.local.inference else Storage()
    storage.ledger = None
    if isinstance(array, np.ndarray) and array.base is not None:
        storage.origin = array.__array_interface__["data"][0]
    out.memory = storage
    if requires_grad:
        require_grad(out)
    if modes.unusual and modes.local.observer is not None:
        modes.local.observer.lent(out)
    return out


def as_tensor(data: object, dtype: DTypeArg = None, device: DeviceLike = None) -> Tensor:
    """Return `data` as a tensor, without a copy where possible.

    A tensor of the wanted dtype and device is returned itself, with its history. A NumPy array shares its memory.
    Anything else is copied, as by `tensor`.

    Parameters
    ----------
    data : number, sequence, array or Tensor
        As for `tensor`.
    dtype : dtype, optional
        By default it follows from `data`.
    device : device, optional
        By default that of a tensor; the default device for anything else.

    Returns
    -------
    Tensor
        `data` itself, a tensor that shares its memory, or a copy.

    Examples
    --------
    >>> adjoint.as_tensor([1, 2], dtype=adjoint.float32)
    tensor([1., 2.])
    >>> a = np.zeros(2)
    >>> adjoint.as_tensor(a)[0] = 7
    >>> a
    array([7., 0.])
    """
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(data, TensorBase):
        x = cast("Tensor", data)
        return x if wanted is None and device is None else x.to(device=device, dtype=wanted)
    if isinstance(data, np.ndarray):
        out = from_numpy(data)
        return out if wanted is None and device is None and _at_home() else out.to(
            device=devices.as_device(device), dtype=wanted
        )  # fmt: skip
    if hasattr(data, "__cuda_array_interface__"):
        return from_memory(data).to(device=device, dtype=wanted)
    return copied(data, wanted, device, False)


def asarray(
    obj: object, *, dtype: DTypeArg = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> Tensor:
    """Return an object as a tensor, sharing memory where possible.

    Parameters
    ----------
    obj : object
        A tensor, array, DLPack or buffer object, number or nested sequence.
    dtype : dtype, optional
        Data type of the result.
    device : object, optional
        Device of the result.
    copy : bool, optional
        Whether to copy: by default only if needed; False raises if needed.
    requires_grad : bool, default False
        Whether operations on the result are recorded.

    Returns
    -------
    Tensor
        The tensor.

    Examples
    --------
    >>> a = np.zeros(2)
    >>> adjoint.asarray(a).numpy() is a or np.shares_memory(adjoint.asarray(a).numpy(), a)
    True
    """
    wanted = None if dtype is None else as_dtype(dtype)
    alias = _alias_of(obj, wanted)
    if alias is None:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor.")
        return copied(obj, wanted, device, requires_grad)
    out: Tensor = alias if wanted is None and device is None else alias.to(device=device, dtype=wanted)
    if out is not alias and copy is False:
        raise ValueError(
            f"can't alias tensor of {dtypes.of(alias.array.dtype)} on {devices.of(alias.array)} into dtype {wanted}, "
            f"device {device}: that takes a copy."
        )
    if copy and out is alias:
        out = out.clone()
    if requires_grad and out.node is None:
        require_grad(out)
    elif not requires_grad and out.node is not None:
        warnings.warn(
            "asarray: the tensor requires grad and is returned as it is, although requires_grad is False; "
            "detach() it first",
            UserWarning,
            stacklevel=depth_outside(),
        )
    return out


def _alias_of(obj: object, wanted: dtypes.dtype | None) -> Any:
    """Return a tensor that looks at the object's memory, or None if it has none to share."""
    if isinstance(obj, TensorBase):
        return obj
    if isinstance(obj, np.ndarray):
        return from_numpy(obj)
    if isinstance(obj, np.generic):
        return None
    if hasattr(obj, "__dlpack__"):
        # interop stands on this file
        from .interop import from_dlpack

        return from_dlpack(obj)
    if isinstance(obj, bytes | bytearray | memoryview) or type(obj).__module__ == "array":
        return frombuffer(obj, dtype=default() if wanted is None else wanted)
    return None


def frombuffer(
    buffer: Any, *, dtype: DTypeArg, count: int = -1, offset: int = 0, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Return a 1-D tensor that shares memory with an object of the buffer protocol.

    Parameters
    ----------
    buffer : object
        Such as bytes, bytearray or an array.
    dtype : dtype
        Data type of the result.
    count : int, default -1
        Number of elements; -1 for all.
    offset : int, default 0
        Bytes to skip at the beginning.
    requires_grad : bool, default False
        Whether operations on the result are recorded.

    Returns
    -------
    Tensor
        1-D.

    Examples
    --------
    >>> adjoint.frombuffer(bytearray([1, 0, 2, 0]), dtype=adjoint.int16)
    tensor([1, 2], dtype=adjoint.int16)
    """
    wanted = as_dtype(dtype)
    try:
        view = memoryview(buffer)
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    length, size = view.nbytes, wanted.itemsize
    if length == 0 or count == 0:
        raise ValueError(f"both buffer length ({length}) and count ({count}) must not be 0")
    if not 0 <= offset < length:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({length} bytes) minus 1"
        )
    if count < 0:
        if (length - offset) % size:
            raise ValueError(
                f"buffer length ({length - offset} bytes) after offset ({offset} bytes) must be a multiple of element "
                f"size ({size})"
            )
        count = (length - offset) // size
    elif offset + count * size > length:
        raise ValueError(
            f"requested buffer length ({count} * {size} bytes) after offset ({offset} bytes) must not be greater than "
            f"actual buffer length ({length} bytes)"
        )
    return from_memory(np.frombuffer(buffer, wanted.np, count, offset), requires_grad)


# --- Filled -----------------------------------------------------------------------------------------


def filled(
    value: object, shape: tuple[int, ...], dtype: DTypeArg | Tensor, device: DeviceLike, requires_grad: bool,
    order: Any = None,
) -> Tensor:  # fmt: skip
    """Return a tensor filled with a number, or unset for None."""
    wanted = default() if dtype is None else as_dtype(dtype)
    place = devices.current() if device is None else devices.as_device(device)
    module = np if place is devices.CPU else devices.array_module(place)
    try:
        if order is not None:
            array = layout.empty_ordered(module, shape, wanted.np, order)
        elif value == 0:
            array, value = module.zeros(shape, wanted.np), None
        else:
            array = module.empty(shape, wanted.np)
    except (ValueError, MemoryError) as error:
        raise _unmakeable(shape, wanted, error) from None
    if value is not None:
        _fill(array, value, wanted)
    if modes.unusual:
        literal(array)
    return finish(array, requires_grad)


def _unmakeable(shape: tuple[int, ...], dtype: dtypes.dtype, error: Exception) -> Exception:
    """Return torch's error for an array that NumPy refused to make."""
    if shape and min(shape) < 0:
        return RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
    size = math.prod(shape) * dtype.itemsize
    if isinstance(error, MemoryError):
        return RuntimeError(f"not enough memory: you tried to allocate {size} bytes for a tensor of {list(shape)}")
    if shape and max(shape) >= 2**63:
        return TypeError(f"argument 'size' failed to unpack the object {max(shape)}: Overflow when unpacking long long")
    return RuntimeError(f"Storage size calculation overflowed with sizes={list(shape)}")


def _fill(array: Array, value: object, dtype: dtypes.dtype) -> None:
    """Fill a fresh array with a number, if that fits its dtype."""
    # The common cases need no check: a plain number in a dtype that holds all of its kind.
    if type(value) is int and (dtype.category == 1 or -65504 <= value <= 65504):
        try:
            array.fill(value)
            return
        except OverflowError:
            pass
    elif type(value) is float and (dtype is dtypes.float64 or (dtype.category == 2 and abs(value) < 65504)):
        array.fill(value)
        return
    array[...] = devices.place_array(number_as(value, dtype), devices.of(array))


def size_from(args: tuple[Any, ...], size: Any, op: str) -> tuple[int, ...]:
    """Return the size that a factory was given, as one sequence, as integers or by name."""
    if size is None:
        shape = args[0] if len(args) == 1 and isinstance(args[0], tuple | list) else args
        if args and all([type(n) is int for n in shape]):  # noqa: C419 - a generator is slower
            return tuple(shape)
        if not args:
            raise TypeError(f'{op}() missing 1 required positional arguments: "size"')
    return shape_from((size,) if size is not None and not args else args)


def dtype_of_out(out: Out, dtype: DTypeArg | object) -> Any:
    """Return the dtype of a factory's result: that of `out` where there is one."""
    if out is None:
        return dtype
    mine = dtypes.of(out.array.dtype)
    if dtype is not None and as_dtype(dtype) is not mine:
        raise RuntimeError(f"dtype {as_dtype(dtype).title} does not match dtype of out parameter ({mine.title})")
    return mine


def put(out: Out, result: Tensor) -> Tensor:
    """Put a factory's result into ``out=``, resized without a warning."""
    if out is None:
        return result
    if out.array.shape != result.array.shape:
        out.resize_(tuple(result.array.shape))
    return out.copy_(result)


def zeros(
    *args: Ints, size: Ints | None = None, out: Out = None, dtype: DTypeArg = None, layout: LayoutArg = None,
    device: DeviceLike = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Make a tensor of zeros.

    Parameters
    ----------
    size : int... or sequence of ints
        The shape.
    out : Tensor, optional
        Written to, and returned.
    dtype : dtype, optional
        The default dtype, float32, if not given.
    layout : layout, optional
        Only ``adjoint.strided``.
    device : device, optional
        The default device if not given.
    requires_grad : bool, default False
        Whether what is computed from it is recorded.
    pin_memory : bool, default False
        Ignored: memory is never pinned.

    Returns
    -------
    Tensor
        A new leaf, contiguous.

    Examples
    --------
    >>> adjoint.zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    >>> adjoint.zeros((2,), dtype=adjoint.int64)
    tensor([0, 0])
    """
    if layout is not None:
        _check_layout(layout)
    if out is None:
        return filled(0, size_from(args, size, "zeros"), dtype, device, requires_grad)
    return put(out, filled(0, size_from(args, size, "zeros"), dtype_of_out(out, dtype), device, requires_grad))


def ones(
    *args: Ints, size: Ints | None = None, out: Out = None, dtype: DTypeArg = None, layout: LayoutArg = None,
    device: DeviceLike = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Make a tensor of ones.

    Parameters
    ----------
    size : int... or sequence of ints
        The shape.
    out : Tensor, optional
        Written to, and returned.
    dtype : dtype, optional
        The default dtype, float32, if not given.
    layout : layout, optional
        Only ``adjoint.strided``.
    device : device, optional
        The default device if not given.
    requires_grad : bool, default False
        Whether what is computed from it is recorded.
    pin_memory : bool, default False
        Ignored: memory is never pinned.

    Returns
    -------
    Tensor
        A new leaf, contiguous.

    Examples
    --------
    >>> adjoint.ones(2, 3)
    tensor([[1., 1., 1.],
            [1., 1., 1.]])
    >>> adjoint.ones((2,), dtype=adjoint.bool)
    tensor([True, True])
    """
    if layout is not None:
        _check_layout(layout)
    if out is None:
        return filled(1, size_from(args, size, "ones"), dtype, device, requires_grad)
    return put(out, filled(1, size_from(args, size, "ones"), dtype_of_out(out, dtype), device, requires_grad))


def empty(
    *args: Any, size: Ints | None = None, out: Out = None, dtype: DTypeArg = None, layout: LayoutArg = None,
    device: DeviceLike = None, requires_grad: bool = False, pin_memory: bool = False,
    memory_format: MemoryFormat = None,
) -> Tensor:  # fmt: skip
    """Make a tensor without setting its elements: they are whatever the memory held.

    Parameters
    ----------
    size : int... or sequence of ints
        The shape.
    out : Tensor, optional
        Written to, and returned.
    dtype : dtype, optional
        The default dtype, float32, if not given.
    layout : layout, optional
        Only ``adjoint.strided``.
    device : device, optional
        The default device if not given.
    requires_grad : bool, default False
        Whether what is computed from it is recorded.
    pin_memory : bool, default False
        Ignored: memory is never pinned.
    memory_format : memory_format, optional
        The memory layout, row-major by default; ``channels_last`` needs 4 dimensions.

    Returns
    -------
    Tensor
        A new leaf. Write to it before reading it.

    Examples
    --------
    >>> x = adjoint.empty(2, 3)
    >>> x.shape
    adjoint.Size([2, 3])
    >>> adjoint.empty(1, 8, 4, 4, memory_format=adjoint.channels_last).stride()
    (128, 1, 32, 8)
    """
    _check_layout(layout)
    shape = size_from(args, size, "empty")
    order = _order_of(memory_format, len(shape))
    return put(out, filled(None, shape, dtype_of_out(out, dtype), device, requires_grad, order))


def full(
    size: Ints, fill_value: Operand, *, out: Out = None, dtype: DTypeArg = None, layout: LayoutArg = None,
    device: DeviceLike = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Make a tensor filled with one value.

    Parameters
    ----------
    size : sequence of ints
        The shape.
    fill_value : number
        The value of every element.
    out : Tensor, optional
        Written to, and returned.
    dtype : dtype, optional
        By default that of `fill_value`: int64 of an integer, bool of a boolean, the default dtype of a float.
    layout : layout, optional
        Only ``adjoint.strided``.
    device : device, optional
        The default device if not given.
    requires_grad : bool, default False
        Whether what is computed from it is recorded.
    pin_memory : bool, default False
        Ignored: memory is never pinned.

    Returns
    -------
    Tensor
        A new leaf, contiguous.

    Examples
    --------
    >>> adjoint.full((2,), 3)
    tensor([3, 3])
    >>> adjoint.full((2, 2), 0.5)
    tensor([[0.5000, 0.5000],
            [0.5000, 0.5000]])
    """
    _check_layout(layout)
    if not isinstance(size, list | tuple):
        raise TypeError(f"full(): argument 'size' (position 1) must be tuple of ints, not {type(size).__name__}")
    value = scalar_of(fill_value, "fill_value", "full")
    wanted = dtype_of_out(out, dtype)
    wanted = of_python(type(value)) if wanted is None else wanted
    return put(out, filled(value, shape_from((size,)), wanted, device, requires_grad))


def empty_strided(
    size: Ints, stride: Ints, *, dtype: DTypeArg = None, layout: LayoutArg = None, device: DeviceLike = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Return an uninitialized tensor with the given strides.

    Parameters
    ----------
    size : int or tuple of int
        Its shape.
    stride : int or tuple of int
        Its strides, in elements.
    dtype : dtype, optional
        Data type of the result.
    layout : layout, optional
        Memory layout, strided.
    device : device, optional
        Device of the result.
    requires_grad : bool, default False
        Whether operations on the result are recorded.
    pin_memory : bool, default False
        Whether to allocate page-locked memory.

    Returns
    -------
    Tensor
        Of unspecified values.

    Examples
    --------
    >>> adjoint.empty_strided((2, 3), (1, 2)).stride()
    (1, 2)
    """
    _check_layout(layout)
    wanted = default() if dtype is None else as_dtype(dtype)
    module = devices.array_module(devices.as_device(device))
    array = _strided(module, shape_from((size,)), shape_from((stride,)), wanted.np)
    return finish(literal(array), requires_grad)


def empty_permuted(
    size: Ints, physical_layout: Any, *, dtype: DTypeArg = None, layout: LayoutArg = None, device: DeviceLike = None,
    requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Make an uninitialized tensor whose dimensions have the given order in memory, outermost first."""
    _check_layout(layout)
    shape, order = shape_from((size,)), shape_from((physical_layout,))
    if len(order) != len(shape):
        raise RuntimeError(
            "Number of dimensions in size does not match the length of the physical_layout; i.e. len(size) = "
            f"{len(shape)} is not equal to len(physical_layout) = {len(order)}"
        )
    for d in order:
        if not 0 <= d < len(shape):
            raise RuntimeError(f"Dimension out of range (expected to be between 0 and {len(shape) - 1}, but got {d})")
    if len(set(order)) != len(order):
        raise RuntimeError(f"Duplicate dim not allowed in {list(order)}")
    return filled(None, shape, dtype, device, requires_grad, order)


# Names that parameters of the factories hide.
_check_layout, _order_of, _strided = layout.check_layout, layout.order_of, layout.empty_strided


def apart(out: Any, *inputs: Any) -> None:
    """Raise if memory that is about to be written as ``out=`` overlaps itself or what is read."""
    if out is None or isinstance(out.array, Payload):
        return
    if overlaps_itself(out.array):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
            "Please clone() the tensor before performing the operation."
        )
    if any(x is out or (type(x.array) is type(out.array) and np.may_share_memory(out.array, x.array)) for x in inputs):
        raise RuntimeError(
            "unsupported operation: some elements of the input tensor and the written-to tensor refer to a single "
            "memory location. Please clone() the tensor before performing the operation."
        )


def _public_caller() -> str:
    """Return the name of the function that a program called with ``out=``."""
    frame: Any = sys._getframe(2)
    name = frame.f_code.co_name
    while frame is not None and frame.f_code.co_filename in ours:
        op, own = frame.f_locals.get("op"), frame.f_code.co_name  # of a recorder, whose code has no name of its own
        name, frame = getattr(op, "name", name if own == "__call__" else own), frame.f_back
    return str(name)


def into(out: Any, result: Tensor) -> Tensor:
    """Put a result into the tensor given as ``out=``, resized if it does not fit; or return it."""
    if out is None:
        return result
    if not isinstance(out, TensorBase):
        raise TypeError(f"argument 'out' must be Tensor, not {type(out).__name__}")
    target = cast("Tensor", out)
    memory = out.array
    if (
        not isinstance(memory, Payload)
        and memory.size
        and any(s == 0 and n > 1 for s, n in zip(memory.strides, memory.shape, strict=True))
    ):
        raise RuntimeError(
            "unsupported operation: more than one element of the written-to tensor refer to a single memory location. "
            "Please clone() the tensor before performing the operation."
        )
    if modes.unusual and any(getattr(t.array, "tangent", None) is not None for t in (result, target)):
        raise NotImplementedError(
            f"Trying to use forward AD with {_public_caller()}_out that does not support it because it is an out= "
            "function; use the form without out="
        )
    if result.node is not None or target.node is not None:
        if modes.is_grad_enabled():
            raise RuntimeError(
                f"{_public_caller()}(): functions with out=... arguments don't support automatic "
                "differentiation, but one of the arguments requires grad."
            )
    shape = tuple(result.array.shape)
    if target.array.shape != shape:
        if target.array.size:
            warnings.warn(
                f"An output with one or more elements was resized since it had shape {list(target.array.shape)}, which "
                f"does not match the required output shape {list(shape)}. This behavior is deprecated, and in a future "
                "release outputs will not be resized unless they have zero elements; out.resize_(0) first, or "
                "pass no out.",
                UserWarning,
                stacklevel=depth_outside(),
            )
        target.resize_(shape)
    target.copy_checked_(result)
    return target


primitive.into = into
