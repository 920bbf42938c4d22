"""How a tensor becomes something else: another dtype or device, an array, text, a pickle."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from .. import printing
from ..core import device as devices
from ..core import dtypes, modes, primitive
from ..core.dtypes import as_dtype, dtype
from ..core.engine import AccumulateGrad
from ..core.inplace import can_cast, check_writable, write
from ..core.payload import Payload
from ..core.primitive import by_ufunc, shown, wrap
from ..core.recorders import nary, parametric
from ..core.tensor import STALE, InferenceStorage, Storage, TensorBase, note_write, storage_of
from . import create
from .arguments import shape_from
from .shape import cast_p, clone_p, contiguous_p

Tensor = Any


def concrete(x: TensorBase, what: str) -> Any:
    """Return the tensor's value as a host array, or explain why it has none."""
    array = x.array
    if isinstance(array, Payload):
        array = array.concrete(what)  # type: ignore[attr-defined]
    return array if isinstance(array, np.ndarray) else devices.place_array(array, devices.CPU)


# --- Memory -----------------------------------------------------------------------------------------


def address_of(array: Any) -> int:
    """Return the address of an array's first element."""
    if isinstance(array, np.ndarray):
        return int(array.__array_interface__["data"][0])
    return int(array.data.ptr)


def _owner(array: Any) -> Any:
    while isinstance(getattr(array, "base", None), type(array)):
        array = array.base
    return array


def origin_of(x: TensorBase) -> int:
    """Return the address of offset 0 of the tensor's storage."""
    storage = x.memory
    if storage is not None and hasattr(storage, "origin"):
        return storage.origin
    return address_of(_owner(x.array))


def offset_of(x: TensorBase) -> int:
    """Return the tensor's offset into its storage, in elements."""
    if x.array.size == 0:
        return 0
    return (address_of(x.array) - origin_of(x)) // int(x.array.itemsize)


def strides_of(array: Any) -> tuple[int, ...]:
    """Return an array's strides in elements, as torch counts them for arrays of size 0 and 1 too."""
    if array.flags.c_contiguous:
        strides, step = [], 1
        for n in reversed(array.shape):
            strides.append(step)
            step *= max(n, 1)
        return tuple(reversed(strides))
    return tuple(s // array.itemsize for s in array.strides)


def same_memory(x: TensorBase) -> Storage:
    """Return a storage for the same memory with a version counter of its own."""
    storage = Storage()
    storage.ledger = None
    if isinstance(x.array, np.ndarray):
        storage.origin = origin_of(x)
    return storage


class StorageView:
    """The memory behind a tensor, as ``untyped_storage()`` shows it."""

    def __init__(self, tensor: TensorBase) -> None:
        self._array = _owner(tensor.array)
        self._origin = origin_of(tensor)
        self.device = devices.of(tensor.array)

    def data_ptr(self) -> int:
        """Return the address of the first byte."""
        return self._origin

    def nbytes(self) -> int:
        """Return the size in bytes."""
        return int(self._array.nbytes) - (self._origin - address_of(self._array))

    def size(self) -> int:
        """Return the size in bytes."""
        return self.nbytes()

    __len__ = size

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StorageView) and self._origin == other._origin

    def __hash__(self) -> int:
        return hash(self._origin)


# --- dtype and device -------------------------------------------------------------------------------


def _move(x: Any, place: Any) -> Any:
    return devices.place_array(x, devices.device(place))


move_p = parametric(
    _move,
    x=lambda g, x_shape, place: _move_back(g, place),
    jvp="linear",
    batch="same",
    node_name="ToCopyBackward0",
)


def _move_back(g: Any, place: str) -> Any:
    return move_p(g, "cpu" if place.startswith("cuda") else "cuda:0")


def to(
    input: Tensor, *args: Any, dtype: Any = None, device: Any = None, non_blocking: bool = False,
    copy: bool = False, memory_format: Any = None, other: Any = None,
) -> Tensor:  # fmt: skip
    """Return `input` with another dtype or on another device; itself where nothing changes.

    Examples
    --------
    >>> adjoint.ones(2).to(adjoint.float64)
    tensor([1., 1.], dtype=adjoint.float64)
    """
    for arg in (*args, *(() if other is None else (other,))):
        if isinstance(arg, TensorBase):
            dtype, device = dtypes.of(arg.array.dtype), devices.of(arg.array)
        elif isinstance(arg, dtypes.dtype) or arg in (float, int, bool, complex):
            dtype = as_dtype(arg)
        elif isinstance(arg, bool):
            non_blocking = arg
        elif arg is not None:
            device = devices.as_device(arg)
    out = input
    if device is not None:
        place = devices.as_device(device)
        here = devices.of(out.array)
        if place.type != here.type or (place.index is not None and place.index != here.index):
            out = move_p(out, str(place))
    if dtype is not None and as_dtype(dtype).np != out.array.dtype:
        out = cast_p(out, as_dtype(dtype).np)
    return clone_p(out) if copy and out is input else out


def caster(wanted: dtype) -> Any:
    """Return a method that converts to one dtype, such as ``Tensor.float``."""

    def method(input: Tensor, memory_format: Any = None) -> Tensor:
        return input if input.array.dtype == wanted.np else cast_p(input, wanted.np)

    method.__name__ = wanted.name
    method.__doc__ = f"Return `input` as {wanted.name}."
    return method


def cpu(input: Tensor, memory_format: Any = None) -> Tensor:
    """Return `input` in the host's memory."""
    return to(input, device="cpu")


def cuda(input: Tensor, device: Any = None, non_blocking: bool = False, memory_format: Any = None) -> Tensor:
    """Return `input` in a GPU's memory."""
    return to(input, device="cuda" if device is None else device)


_TYPE_NAMES = {
    "FloatTensor": dtypes.float32, "DoubleTensor": dtypes.float64, "HalfTensor": dtypes.float16,
    "BFloat16Tensor": dtypes.bfloat16, "LongTensor": dtypes.int64, "IntTensor": dtypes.int32,
    "ShortTensor": dtypes.int16, "CharTensor": dtypes.int8, "ByteTensor": dtypes.uint8, "BoolTensor": dtypes.bool_,
}  # fmt: skip


def type_(input: Tensor, dtype: Any = None, non_blocking: bool = False, **kwargs: Any) -> Any:
    """Return the type's name, or `input` converted to another type."""
    if dtype is None:
        return "adjoint." + next((n for n, d in _TYPE_NAMES.items() if d is input.dtype), input.dtype.name)
    if isinstance(dtype, str):
        name = dtype.rpartition(".")[2]
        if name not in _TYPE_NAMES:
            raise ValueError(f"invalid type: '{dtype}'")
        dtype = _TYPE_NAMES[name]
    elif isinstance(dtype, type) and dtype.__name__ in _TYPE_NAMES:
        dtype = _TYPE_NAMES[dtype.__name__]
    return to(input, dtype=dtype)


def type_as(input: Tensor, other: Tensor) -> Tensor:
    """Return `input` with the dtype and device of `other`."""
    return to(input, other)


# --- Writing ----------------------------------------------------------------------------------------


def _copy(x: Any, y: Any) -> Any:
    if y.dtype.kind == "c" and x.dtype.kind != "c":
        y = y.real
    return devices.place_array(y, devices.of(x))


def _copy_y(g: Any, y_shape: Any, y_dtype: Any) -> Any:
    return primitive.fit(g, y_shape, y_dtype)


copy_p = nary(_copy, inputs=2, x=lambda g: 0 * g, y=_copy_y, name="copy", node_name="CopyBackwards")
_copy_op = primitive.registry["copy"]


def copy_(input: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Overwrite `input` with `src`, broadcast and converted to its dtype."""
    if not isinstance(src, TensorBase):
        src = create.tensor(src)
    return write(_copy_op, input, (src,), ())


def copy_checked_(input: Tensor, src: Tensor) -> Tensor:
    """Overwrite `input` with an op's result, if that may be stored in its dtype."""
    source, target = dtypes.of(src.array.dtype), dtypes.of(input.array.dtype)
    if not can_cast(source, target):
        raise RuntimeError(f"result type {source.name} can't be cast to the desired output type {target.name}")
    return copy_(input, src)


def resize_(input: Tensor, *sizes: Any, memory_format: Any = None) -> Tensor:
    """Give `input` another shape; elements that did not exist before are unset."""
    shape = shape_from(sizes)
    if input.node is not None:
        raise RuntimeError("cannot resize variables that require grad")
    count = math.prod(shape)
    old = input.array
    if count <= old.size and old.flags.c_contiguous:
        input.array = old.reshape(-1)[:count].reshape(shape)
        return input
    fresh = devices.module_of(old).zeros(shape, old.dtype)
    if old.size:
        kept = min(old.size, count)
        fresh.reshape(-1)[:kept] = old.reshape(-1)[:kept]
    input.array = fresh
    input.memory = None
    return input


def set_(input: Tensor, source: Any = None, *args: Any, **kwargs: Any) -> Tensor:
    """Look at the memory of `source` from now on."""
    if source is None:
        input.array = devices.module_of(input.array).empty((0,), input.array.dtype)
        input.memory = None
    else:
        input.array, input.memory = source.array, storage_of(source)
    if type(input.node) is AccumulateGrad:
        input.node.follow(input)
    return input


# --- NumPy ------------------------------------------------------------------------------------------


def as_numpy(x: TensorBase, force: bool) -> Any:
    """Return the tensor's array, refusing where gradients would be lost unnoticed."""
    if x.node is not None and not force:
        raise RuntimeError(
            "Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead."
        )
    array = x.array
    if isinstance(array, Payload):
        return array.concrete("numpy()")  # type: ignore[attr-defined]
    if not isinstance(array, np.ndarray):
        if not force:
            raise TypeError(
                f"can't convert {devices.of(array)} device type tensor to numpy. Use Tensor.cpu() to copy the "
                "tensor to host memory first."
            )
        return devices.place_array(array, devices.CPU)
    if force and x.node is not None:
        return array.copy()
    return array


def from_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Answer NumPy's ufunc protocol: ``np.sin(t)`` and ``ndarray * t`` record as ``sin(t)`` does."""
    out = kwargs.pop("out", None)
    kwargs = {k: v for k, v in kwargs.items() if v is not None}
    if method == "reduce" and ufunc in _reductions():
        axis = kwargs.pop("axis", 0)
        keep = bool(kwargs.pop("keepdims", False))
        result = _reductions()[ufunc](inputs[0], axis, keep)
    elif method == "__call__" and ufunc in by_ufunc and not kwargs:
        operands = [wrap(v) if isinstance(v, np.ndarray) else v for v in inputs]
        result = by_ufunc[ufunc](*operands)
    else:
        plain = [as_numpy(v, False) if isinstance(v, TensorBase) else v for v in inputs]
        result = getattr(ufunc, method)(*plain, **kwargs)
        result = wrap(result) if isinstance(result, np.ndarray | np.generic) else result
    if out is not None and out[0] is not Ellipsis:
        return _into_out(out[0], result)
    return result


def _into_out(out: Any, result: Any) -> Any:
    if isinstance(out, TensorBase):
        return copy_(out, result)
    out[...] = as_numpy(result, False)
    return out


def _reductions() -> dict[Any, Any]:
    from . import reduce

    return {np.add: reduce.sum, np.multiply: reduce.prod_over, np.maximum: reduce.amax, np.minimum: reduce.amin}


def from_function(func: Any, args: Any, kwargs: Any) -> Any:
    """Answer NumPy's function protocol with the recording op of the same meaning, or on plain arrays."""
    from . import numpy_functions

    return numpy_functions.call(func, args, kwargs)


def to_dlpack(x: TensorBase, *args: Any, **kwargs: Any) -> Any:
    """Export the memory through DLPack."""
    if x.node is not None:
        raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
    if x.array.dtype.name == "bfloat16":
        raise BufferError("NumPy cannot export bfloat16 through DLPack; convert with .float() first")
    array = x.array
    if isinstance(array, np.ndarray) and not array.flags.writeable:
        kwargs.pop("max_version", None)
        array = array.copy()
    return array.__dlpack__(*args, **kwargs)


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Make a tensor that shares the memory of any object that speaks DLPack.

    Examples
    --------
    >>> adjoint.from_dlpack(np.arange(3.0))
    tensor([0., 1., 2.], dtype=adjoint.float64)
    """
    if isinstance(ext_tensor, TensorBase):
        return wrap(ext_tensor.array, None, storage_of(ext_tensor))
    kind = ext_tensor.__dlpack_device__()[0]
    module = devices.array_module(devices.device("cuda")) if kind == 2 else np
    array = module.from_dlpack(ext_tensor)
    if isinstance(array, np.ndarray) and not array.flags.writeable:
        array = _writable_alias(array)
    return create.from_memory(array.copy() if copy else array)


def _writable_alias(array: Any) -> Any:
    # NumPy marks everything it imports read-only unless the producer says otherwise, and older
    # producers cannot say so; an array made from the address behaves as the producer's own does.
    import ctypes

    if array.size == 0:
        return array.copy()
    extent = sum(abs(s) * (n - 1) for s, n in zip(array.strides, array.shape, strict=True)) + array.itemsize
    memory = (ctypes.c_char * extent).from_address(address_of(array))
    memory._keeps = array
    flat = np.frombuffer(memory, np.uint8)
    return np.ndarray(array.shape, array.dtype, flat, 0, array.strides)


# --- Text and pickles -------------------------------------------------------------------------------


def text_of(x: Any) -> str:
    """Return the tensor as torch prints it."""
    array = x.array
    if isinstance(array, Payload):
        return repr(array)
    place = devices.of(array)
    node = x.node
    grad_fn = None
    if node is not None and type(node) is not AccumulateGrad:
        try:
            grad_fn = x.grad_fn.name()
        except RuntimeError:
            grad_fn = "Invalid"
    return printing.tensor_repr(
        concrete(x, "repr()"),
        dtype=x.dtype.name,
        default_dtype=dtypes.default().name,
        device=None if place == devices.current() or place.type == "cpu" else str(place),
        grad_fn=grad_fn,
        requires_grad=node is not None,
        is_inference=type(x.memory) is InferenceStorage,
    )


def _rebuild(kind: Any, array: Any, name: str, requires_grad: bool, state: Any) -> Any:
    if array.dtype == np.uint16 and name == "bfloat16":
        array = array.view(dtypes.bfloat16.np)
    out = create.finish(array)
    if kind is not primitive.tensor_type:
        out.__class__ = kind
    if requires_grad:
        create.require_grad(out)
    if state:
        out.__dict__.update(state)
    return out


def reduce_tensor(x: Any) -> Any:
    """Return how to pickle a leaf; a tensor with a history has no meaning elsewhere."""
    if not x.is_leaf:
        raise RuntimeError(
            "only Tensors created explicitly by the user (graph leaves) can be pickled: this one was made by "
            f"{x.grad_fn.name()}; pickle x.detach()"
        )
    array = np.ascontiguousarray(concrete(x, "pickle"))
    name = x.dtype.name
    if name == "bfloat16":
        array = array.view(np.uint16)
    return (_rebuild, (type(x), array, name, x.requires_grad, dict(x.__dict__)))


def deep_copy(x: Any, memo: dict[int, Any]) -> Any:
    """Return a copy of a leaf, its gradient and its attributes."""
    if id(x) in memo:
        return memo[id(x)]
    if not x.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the "
            f"moment: this one was made by {x.grad_fn.name()}. If you were attempting to deepcopy a module, an "
            "attribute of it holds the result of an op; detach() it."
        )
    import copy

    out = wrap(_copy_memory(x, memo))
    if type(x) is not primitive.tensor_type:
        out.__class__ = type(x)
    memo[id(x)] = out
    if x.node is not None:
        create.require_grad(out)
    if x._grad is not None:
        out._grad = copy.deepcopy(x._grad, memo)
    if x.__dict__:
        out.__dict__.update(copy.deepcopy(x.__dict__, memo))
    return out


def _copy_memory(x: Any, memo: dict[int, Any]) -> Any:
    """Return a copy of the array; views copied together go on sharing memory."""
    array = x.array
    if not isinstance(array, np.ndarray):
        return array.copy()
    owner = _owner(array)
    if owner is array or owner.nbytes > 4 * array.nbytes + 1024 or not isinstance(owner, np.ndarray):
        return array.copy(order="K")
    key = ("adjoint memory", id(owner))
    whole = memo.get(key)  # type: ignore[call-overload]
    if whole is None:
        whole = memo[key] = owner.copy(order="K")  # type: ignore[index]
    offset = address_of(array) - address_of(owner)
    if owner.flags.c_contiguous or owner.flags.f_contiguous:
        return np.ndarray(array.shape, array.dtype, whole.data if False else whole.reshape(-1, order="K").view(np.uint8), offset, array.strides)
    return array.copy(order="K")


__all__ = ["STALE", "check_writable", "modes", "note_write", "shown", "warnings"]
