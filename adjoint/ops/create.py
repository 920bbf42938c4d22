"""Tensors from nothing, from Python values and from arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..core import device as devices
from ..core import dtypes
from ..core.dtypes import as_dtype, default
from ..core.engine import AccumulateGrad
from ..core.payload import Payload
from ..core.primitive import wrap
from ..core.tensor import Storage, TensorBase
from .arguments import shape_from

Tensor = Any


def finish(array: Any, requires_grad: bool = False) -> Tensor:
    """Return a leaf tensor that holds `array`."""
    out = wrap(array)
    if requires_grad:
        require_grad(out)
    return out


def require_grad(x: TensorBase) -> None:
    """Make a leaf record what is computed from it."""
    dtype = dtypes.of(x.array.dtype)
    if dtype.category < 2:
        raise RuntimeError(
            "only Tensors of floating point and complex dtype can require gradients; this one is "
            f"{dtype.name}: convert it with .float()"
        )
    x.node = AccumulateGrad(x)


# --- From values ------------------------------------------------------------------------------------


def tensor(
    data: Any,
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Make a tensor by copying `data`: numbers, nested sequences, arrays.

    Examples
    --------
    >>> adjoint.tensor([[1.0, 2.0], [3.0, 4.0]])
    tensor([[1., 2.],
            [3., 4.]])
    """
    array = array_from(data, None if dtype is None else as_dtype(dtype), copy=True)
    if device is not None or len(devices._stack) > 1 or devices._stack[0].type != "cpu":
        place = devices.as_device(device) if device is not None or not isinstance(data, TensorBase) else devices.of(array)
        array = devices.place_array(array, place)
    return finish(array, requires_grad)


def array_from(data: Any, dtype: dtypes.dtype | None, copy: bool) -> Any:
    """Return `data` as an array of `dtype`, or of the dtype torch would infer."""
    if isinstance(data, TensorBase):
        data = data.array
    if isinstance(data, Payload):
        return data
    if isinstance(data, np.ndarray | np.generic) or hasattr(data, "__cuda_array_interface__"):
        wanted = dtypes.of(data.dtype).np if dtype is None else dtype.np
        if isinstance(data, np.generic):
            return np.array(data, wanted)
        return _convert(data, wanted, copy)
    if isinstance(data, bool | int | float | complex):
        return _from_number(data, dtypes.of_number(data) if dtype is None else dtype)
    if isinstance(data, str | bytes) or data is None:
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    if not isinstance(data, list | tuple) and hasattr(data, "__array__"):
        return array_from(np.asarray(data), dtype, copy)
    return _from_sequence(data, dtype)


def _convert(array: Any, wanted: Any, copy: bool) -> Any:
    if array.dtype.kind == "c" and wanted.kind != "c":
        array = array.real
    return array.astype(wanted, copy=copy)


def _from_number(value: Any, dtype: dtypes.dtype) -> Any:
    if isinstance(value, float) and dtype.category < 2 and not math.isfinite(value) and dtype.category:
        raise ValueError(f"cannot convert float {value} to integer")
    if dtype.category == 1 and isinstance(value, int) and not isinstance(value, bool):
        info = np.iinfo(dtype.np)
        if not info.min <= value <= info.max and not (dtype.is_signed is False and -(info.max + 1) < value < 0):
            raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")
        return np.array(value & info.max if value < 0 and not dtype.is_signed else value, dtype.np)
    return np.array(value, dtype.np)


def _from_sequence(data: Any, dtype: dtypes.dtype | None) -> Any:
    data, has_tensors = _plain(data)
    try:
        found = np.array(data)
    except ValueError as error:
        raise ValueError(f"expected sequences of equal length at every depth: {error}") from None
    if found.dtype == object or found.dtype.kind in "US":
        raise _bad_sequence(data, found)
    if dtype is None:
        dtype = _inferred(found, has_tensors)
    if found.dtype.kind == "c" and dtype.category < 3:
        raise TypeError("can't convert complex to a real dtype; take .real first")
    with np.errstate(invalid="ignore", over="ignore"):
        return np.ascontiguousarray(found.astype(dtype.np)) if found.ndim else found.astype(dtype.np)


def _plain(data: Any) -> tuple[Any, Any]:
    """Return nested sequences with tensors and arrays inside replaced by lists; and a dtype met there."""
    met: Any = None

    def strip(item: Any) -> Any:
        nonlocal met
        if isinstance(item, TensorBase):
            met = item.array.dtype if met is None else met
            return item.array.tolist()
        if isinstance(item, np.ndarray | np.generic):
            met = item.dtype if met is None else met
            return item.tolist()
        if isinstance(item, list | tuple) and item and isinstance(item[0], list | tuple | TensorBase | np.ndarray | np.generic):
            return [strip(i) for i in item]
        return item

    if not isinstance(data, list | tuple):
        data = list(data)
    if any(isinstance(i, list | tuple | TensorBase | np.ndarray | np.generic) for i in data):
        return [strip(i) for i in data], met
    return data, None


def _inferred(found: Any, met: Any) -> dtypes.dtype:
    kind = found.dtype.kind
    if found.size == 0 or (kind == "f" and met is None):
        return default()
    if kind == "c":
        return default().to_complex()
    if met is not None:
        return dtypes.of(met)
    return dtypes.bool_ if kind == "b" else dtypes.int64


def _bad_sequence(data: Any, found: Any) -> Exception:
    flat = found.ravel()
    for item in flat.tolist():
        if isinstance(item, list | tuple):
            return ValueError(
                f"expected sequence of length {len(data[0]) if hasattr(data[0], '__len__') else '?'} at dim 1 "
                f"(got {len(item)}): sequences must have equal length at every depth"
            )
        if not isinstance(item, bool | int | float | complex):
            return TypeError(f"new(): invalid data type '{type(item).__name__}'")
    return RuntimeError("Overflow when unpacking long: an integer does not fit into 64 bits")


def from_numpy(ndarray: Any) -> Tensor:
    """Make a tensor that shares memory with a NumPy array.

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
    dtypes.of(ndarray.dtype)
    if any(s < 0 for s in ndarray.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides "
            "are not currently supported. (You can probably work around this by making a copy of your "
            "array with array.copy().)"
        )
    if not ndarray.dtype.isnative:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. Conversion between byte "
            "orders is currently not supported."
        )
    return from_memory(ndarray.view(np.ndarray))


def from_memory(array: Any) -> Tensor:
    """Return a tensor that looks at `array`, whose first element is offset 0 of its storage."""
    out = wrap(array)
    storage = Storage()
    storage.ledger = None
    if isinstance(array, np.ndarray):
        storage.origin = array.__array_interface__["data"][0]
    out.memory = storage
    return out


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """Return `data` as a tensor, without a copy where dtype and device allow."""
    wanted = None if dtype is None else as_dtype(dtype)
    if isinstance(data, TensorBase):
        x: Any = data
        if wanted is None and device is None:
            return x
        return x.to(device=device, dtype=wanted)
    if isinstance(data, np.ndarray) and (wanted is None or wanted.np == data.dtype) and data.dtype.isnative:
        out = from_numpy(data)
        return out if device is None else out.to(device=device)
    return tensor(data, dtype=wanted, device=device)


# --- Filled -----------------------------------------------------------------------------------------


def _filled(value: Any, shape: tuple[int, ...], dtype: Any, device: Any, requires_grad: bool) -> Tensor:
    wanted = default() if dtype is None else as_dtype(dtype)
    if any(n < 0 for n in shape):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}")
    if math.prod(shape) * wanted.itemsize >= 2**62:
        raise RuntimeError(f"Storage size calculation overflowed with sizes={list(shape)}")
    xp = devices.array_module(devices.as_device(device))
    if value is None:
        array = xp.empty(shape, wanted.np)
    elif value == 0 and not isinstance(value, complex):
        array = xp.zeros(shape, wanted.np)
    else:
        array = xp.full(shape, value, wanted.np)
    return finish(array, requires_grad)


def _size_of(args: tuple[Any, ...], size: Any) -> tuple[int, ...]:
    return shape_from((size,) if size is not None and not args else args)


def zeros(
    *args: Any, size: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False, names: Any = None,
) -> Tensor:  # fmt: skip
    """Make a tensor of zeros.

    Examples
    --------
    >>> adjoint.zeros(2, 3)
    tensor([[0., 0., 0.],
            [0., 0., 0.]])
    """
    return into(out, _filled(0, _size_of(args, size), dtype, device, requires_grad))


def ones(
    *args: Any, size: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False, names: Any = None,
) -> Tensor:  # fmt: skip
    """Make a tensor of ones."""
    return into(out, _filled(1, _size_of(args, size), dtype, device, requires_grad))


def empty(
    *args: Any, size: Any = None, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False, pin_memory: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """Make a tensor whose elements are whatever the memory held."""
    return into(out, _filled(None, _size_of(args, size), dtype, device, requires_grad))


def full(
    size: Any, fill_value: Any, *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Make a tensor filled with one value."""
    if isinstance(fill_value, TensorBase):
        fill_value = fill_value.array.item()
    wanted = dtypes.of_number(fill_value) if dtype is None else dtype
    return into(out, _filled(fill_value, shape_from((size,)), wanted, device, requires_grad))


def into(out: Any, result: Tensor) -> Tensor:
    """Put a result into the tensor given as ``out=``, resized if it does not fit; or return it."""
    if out is None:
        return result
    if result.node is not None or out.node is not None:
        raise RuntimeError(
            "functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )
    if out.array.shape != result.array.shape:
        out.resize_(result.array.shape)
    out.copy_checked_(result)
    return out


def like(input: Tensor, dtype: Any, device: Any) -> tuple[Any, Any]:
    """Return the dtype and device of a tensor made like `input`."""
    place = devices.of(input.array) if device is None else devices.as_device(device)
    return dtypes.of(input.array.dtype) if dtype is None else dtype, place


def zeros_like(input: Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None) -> Tensor:
    """Make zeros in the shape of `input`."""
    wanted, place = like(input, dtype, device)
    return _filled(0, tuple(input.array.shape), wanted, place, requires_grad)


def ones_like(input: Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None) -> Tensor:
    """Make ones in the shape of `input`."""
    wanted, place = like(input, dtype, device)
    return _filled(1, tuple(input.array.shape), wanted, place, requires_grad)


def empty_like(input: Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None) -> Tensor:
    """Make a tensor in the shape of `input`, its elements unset."""
    wanted, place = like(input, dtype, device)
    return _filled(None, tuple(input.array.shape), wanted, place, requires_grad)


def full_like(input: Tensor, fill_value: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None) -> Tensor:
    """Make a tensor in the shape of `input`, filled with one value."""
    wanted, place = like(input, dtype, device)
    return _filled(fill_value, tuple(input.array.shape), wanted, place, requires_grad)


# --- Ranges -----------------------------------------------------------------------------------------


def _scalar(value: Any) -> Any:
    return value.array.item() if isinstance(value, TensorBase) else value


def arange(
    start: Any = 0, end: Any = None, step: Any = 1, *, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """Make the numbers from `start` up to, not including, `end`.

    Examples
    --------
    >>> adjoint.arange(3)
    tensor([0, 1, 2])
    """
    if end is None:
        start, end = 0, start
    start, end, step = _scalar(start), _scalar(end), _scalar(step)
    if step == 0:
        raise RuntimeError("step must be nonzero")
    if (end - start) * step < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    whole = all(isinstance(v, int | np.integer) for v in (start, end, step))
    wanted = as_dtype(dtype) if dtype is not None else dtypes.int64 if whole else default()
    count = -((start - end) // step) if whole else math.ceil((end - start) / step)
    xp = devices.array_module(devices.as_device(device))
    if whole and wanted.category == 1:
        array = xp.arange(start, end, step, dtype=np.int64).astype(wanted.np, copy=False)
    else:
        array = (start + xp.arange(count, dtype=np.float64) * step).astype(wanted.np)
    return into(out, finish(array, requires_grad))


def linspace(
    start: Any, end: Any, steps: int, *, out: Any = None, dtype: Any = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Make `steps` numbers evenly spaced from `start` to `end`, both included."""
    if steps < 0:
        raise RuntimeError(f"number of steps must be non-negative, not {steps}")
    start, end = _scalar(start), _scalar(end)
    is_complex = isinstance(start, complex) or isinstance(end, complex)
    wanted = as_dtype(dtype) if dtype is not None else default().to_complex() if is_complex else default()
    xp = devices.array_module(devices.as_device(device))
    if steps == 1:
        array = xp.full(1, start, wanted.np)
    elif wanted.category == 1:
        step = (end - start) / max(steps - 1, 1)
        i = np.arange(steps)
        values = np.where(i < steps // 2, start + step * i, end - step * (steps - 1 - i))
        array = xp.asarray(np.trunc(values).astype(wanted.np))
    else:
        array = xp.asarray(np.linspace(start, end, steps, dtype=np.complex128 if is_complex else np.float64).astype(wanted.np))
    return into(out, finish(array, requires_grad))


def eye(
    n: int, m: int | None = None, *, out: Any = None, dtype: Any = None, layout: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """Make a matrix with ones on the diagonal."""
    if n < 0 or (m is not None and m < 0):
        raise RuntimeError(f"n must be greater or equal to 0, got {n if n < 0 else m}")
    wanted = default() if dtype is None else as_dtype(dtype)
    xp = devices.array_module(devices.as_device(device))
    return into(out, finish(xp.eye(n, m, dtype=wanted.np), requires_grad))


def sizes_of(shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape as a plain tuple."""
    return tuple(shape)
