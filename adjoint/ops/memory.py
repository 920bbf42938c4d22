"""The memory behind tensors: addresses, offsets, storages, and tensors that look elsewhere from now on."""

from __future__ import annotations

import math
import mmap
import os
import tempfile
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import printing
from .._typing import Array, DeviceLike, DType, Ints, MemoryFormat, Operand, Shape, Tensor, Value
from ..core import device as devices
from ..core import dtypes, layout, modes
from ..core.leaves import AccumulateGrad
from ..core.nodes import Node, Special, new_node
from ..core.payload import Payload, is_batch
from ..core.tensor import (
    InferenceStorage,
    PrivateStorage,
    Storage,
    TensorBase,
    caller,
    ledger_of,
    new_storage,
    note_geometry,
    note_write,
    owner_of,
    storage_of,
)
from ..core.views import edge_of, expect_shape
from ..core.writable import check_changeable, refuse_inference_write
from .arguments import shape_from
from .literals import depth_outside
from .shape import reshape

__all__ = ["TypedStorage", "UntypedStorage", "detach", "detach_", "resize_as_"]


def _bottom(array: Array) -> Any:
    """Return the array at the bottom of a value inside a transform."""
    return array.memory() if isinstance(array, Payload) and array.level else array


def address_of(array: Any) -> int:
    """Return the address of an array's first element."""
    array = _bottom(array)
    if isinstance(array, np.ndarray):
        return int(array.__array_interface__["data"][0])
    return devices.address_of(array)


def origin_of(x: TensorBase) -> int:
    """Return the address of offset 0 of the tensor's storage."""
    storage = x.memory
    if storage is not None and hasattr(storage, "origin"):
        return storage.origin
    return address_of(owner_of(_bottom(x.array)))


def offset_of(x: TensorBase) -> int:
    """Return the tensor's offset into its storage, in elements."""
    array: Any = x.array
    if isinstance(array, Payload) and array.level:  # of the whole batch
        memory = array.memory()
        return (address_of(memory) - address_of(owner_of(memory))) // int(memory.itemsize)
    return (address_of(array) - origin_of(x)) // int(array.itemsize)


def same_memory(x: TensorBase) -> Storage:
    """Return a storage for the same memory with a version counter of its own, whose writes `x` does not see."""
    storage = InferenceStorage() if type(x.memory) is InferenceStorage else PrivateStorage()
    storage.ledger = None
    if x.memory is not None and hasattr(x.memory, "origin"):
        storage.origin = x.memory.origin
    return storage


def flat_bytes(array: Array) -> Any:
    """Return all the memory that `array` looks into as one array of bytes."""
    owner = owner_of(_bottom(array))
    if layout.is_dense(owner):
        return owner.ravel(order="K").view(np.uint8)
    # Memory of another library, with gaps: they are part of it.
    reach = sum(s * (n - 1) for s, n in zip(layout.strides_of(owner), owner.shape, strict=True)) + 1
    tricks = devices.module_of(owner).lib.stride_tricks
    return tricks.as_strided(owner, (reach,), (owner.itemsize,)).view(np.uint8)


def from_bytes(memory: Any, dtype: DType, offset: int, shape: Shape, strides: Sequence[int]) -> Any:
    """Return an array that looks into bytes of memory; offset and strides count elements."""
    itemsize = dtype.itemsize
    reach = sum(s * (n - 1) for s, n in zip(strides, shape, strict=True)) + 1 if math.prod(shape) else 0
    if (offset + reach) * itemsize > memory.size:
        raise RuntimeError(
            f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {offset}, and itemsize "
            f"{itemsize} requiring a storage size of {(offset + reach) * itemsize} are out of bounds for storage of "
            f"size {memory.size}"
        )
    if reach == 0:
        return devices.module_of(memory).empty(tuple(shape), dtype)
    return layout.looking_into(memory, dtype, offset * itemsize, shape, [s * itemsize for s in strides])


class UntypedStorage:
    """The memory that a tensor and its views look at, as bytes.

    Examples
    --------
    >>> adjoint.ones(2, 3).untyped_storage().nbytes()
    24
    """

    def __init__(self, size: Any = 0, *, device: DeviceLike = None) -> None:
        module = devices.array_module(devices.as_device(device))
        if isinstance(size, list | tuple | range):
            self._bytes = module.asarray(np.array(size, np.uint8))
        else:
            self._bytes = module.zeros(size, np.uint8)

    @classmethod
    def _of(cls, tensor: TensorBase) -> UntypedStorage:
        made: UntypedStorage = object.__new__(cls)
        if is_batch(tensor):
            tensor.array.ravel()  # which refuses
        memory = flat_bytes(tensor.array)
        made._bytes = memory[origin_of(tensor) - address_of(memory) :] if memory.size else memory
        return made

    @classmethod
    def over(cls, memory: Any) -> UntypedStorage:
        """Return the storage of an array of bytes."""
        made: UntypedStorage = object.__new__(cls)
        made._bytes = memory
        return made

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """Return the first `nbytes` bytes of a file, read as they are looked at; writes reach it only if `shared`."""
        made: UntypedStorage = object.__new__(cls)
        # As a plain array: what is made of it need not know of the file.
        made._bytes = np.asarray(np.memmap(filename, np.uint8, "r+" if shared else "c", shape=(nbytes,)))
        return made

    @property
    def device(self) -> devices.device:
        """Where the memory is."""
        return devices.of(self._bytes)

    def data_ptr(self) -> int:
        """Return the address of the first byte."""
        return address_of(self._bytes)

    def nbytes(self) -> int:
        """Return the size in bytes."""
        return int(self._bytes.size)

    size = __len__ = nbytes

    def element_size(self) -> int:
        """Return 1: a byte."""
        return 1

    def tolist(self) -> list[int]:
        """Return the bytes as Python integers."""
        numbers: list[int] = self._bytes.tolist()
        return numbers

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            made: UntypedStorage = object.__new__(type(self))
            made._bytes = self._bytes[index]
            return made
        return int(self._bytes[index])

    def __setitem__(self, index: Any, value: int) -> None:
        self._bytes[index] = value

    def fill_(self, value: int) -> UntypedStorage:
        """Overwrite every byte."""
        self._bytes[...] = value
        return self

    def copy_(self, source: UntypedStorage, non_blocking: bool = False) -> UntypedStorage:
        """Overwrite the bytes with those of another storage."""
        self._bytes[...] = devices.place_array(source._bytes, self.device)
        return self

    def clone(self) -> UntypedStorage:
        """Return a copy."""
        made: UntypedStorage = object.__new__(type(self))
        made._bytes = self._bytes.copy()
        return made

    __copy__ = clone

    def __deepcopy__(self, memo: dict[int, Any]) -> UntypedStorage:
        return self.clone()

    def cpu(self) -> UntypedStorage:
        """Return the storage in CPU memory."""
        made: UntypedStorage = object.__new__(type(self))
        made._bytes = devices.place_array(self._bytes, devices.CPU)
        return made

    def untyped(self) -> UntypedStorage:
        """Return the storage itself."""
        return self

    def type(self) -> str:
        """Return the name of the class."""
        return f"{printing.PACKAGE}.storage.UntypedStorage"

    def resize_(self, size: int) -> UntypedStorage:
        """Give this object another number of bytes; existing tensors use the same memory as before."""
        grown = devices.module_of(self._bytes).zeros(size, np.uint8)
        kept = min(size, int(self._bytes.size))
        grown[:kept] = self._bytes[:kept]
        self._bytes = grown
        return self

    def is_shared(self) -> bool:
        """Return whether processes that are forked see writes into this memory."""
        return is_shared(self._bytes)

    def is_pinned(self, device: DeviceLike = None) -> bool:
        """Return False: the memory can be paged out."""
        return False

    @property
    def is_cuda(self) -> bool:
        """Whether the memory is on a GPU."""
        return self.device.type == "cuda"

    @property
    def _cdata(self) -> int:
        return self.data_ptr()

    def __repr__(self) -> str:
        values = "\n".join(f" {v}" for v in self.tolist())
        return f"{values}\n[{printing.PACKAGE}.storage.UntypedStorage(device={self.device}) of size {self.nbytes()}]"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UntypedStorage):
            return NotImplemented
        return self.data_ptr() == other.data_ptr() and self.nbytes() == other.nbytes()

    def __hash__(self) -> int:
        return hash(self.data_ptr())


class TypedStorage:
    """The memory that a tensor and its views look at, as elements of one dtype."""

    def __init__(self, untyped: UntypedStorage, dtype: dtypes.dtype) -> None:
        self._untyped_storage = untyped
        self.dtype = dtype

    @property
    def _elements(self) -> Any:
        memory, size = self._untyped_storage._bytes, self.dtype.itemsize
        return memory[: memory.size // size * size].view(self.dtype.np)

    @property
    def device(self) -> devices.device:
        """Where the memory is."""
        return self._untyped_storage.device

    def untyped(self) -> UntypedStorage:
        """Return the same memory as bytes."""
        return self._untyped_storage

    def data_ptr(self) -> int:
        """Return the address of the first element."""
        return self._untyped_storage.data_ptr()

    def nbytes(self) -> int:
        """Return the size in bytes."""
        return self._untyped_storage.nbytes()

    def size(self) -> int:
        """Return the number of elements."""
        return int(self._elements.size)

    __len__ = size

    def element_size(self) -> int:
        """Return the bytes per element."""
        return self.dtype.itemsize

    def tolist(self) -> list[Any]:
        """Return the elements as Python numbers."""
        numbers: list[Any] = self._elements.tolist()
        return numbers

    def type(self) -> str:
        """Return the name of the older class of such storages."""
        return f"{printing.PACKAGE}.{self.dtype.title}Storage"

    def pickle_storage_type(self) -> str:
        """Return the name of the older class, as files say it."""
        return f"{self.dtype.title}Storage"

    @property
    def is_cuda(self) -> bool:
        """Whether the memory is on a GPU."""
        return self._untyped_storage.is_cuda

    def is_shared(self) -> bool:
        """Return whether processes that are forked see writes into this memory."""
        return self._untyped_storage.is_shared()

    def fill_(self, value: Operand) -> TypedStorage:
        """Overwrite every element."""
        self._elements[...] = value
        return self

    def copy_(self, source: TypedStorage, non_blocking: bool | None = None) -> TypedStorage:
        """Overwrite the elements with those of another storage."""
        self._elements[...] = devices.place_array(source._elements, self.device)
        return self

    def resize_(self, size: int) -> TypedStorage:
        """Give this object another number of elements; existing tensors use the same memory as before."""
        self._untyped_storage.resize_(size * self.dtype.itemsize)
        return self

    def clone(self) -> TypedStorage:
        """Return a copy."""
        return TypedStorage(self._untyped_storage.clone(), self.dtype)

    def __deepcopy__(self, memo: dict[int, Any]) -> TypedStorage:
        return self.clone()

    def cpu(self) -> TypedStorage:
        """Return the storage in CPU memory."""
        return TypedStorage(self._untyped_storage.cpu(), self.dtype)

    def _to(self, dtype: dtypes.dtype) -> TypedStorage:
        made = UntypedStorage(0)
        made._bytes = self._elements.astype(dtype.np).view(np.uint8)
        return TypedStorage(made, dtype)

    def float(self) -> TypedStorage:
        """Return a copy in single precision."""
        return self._to(dtypes.float32)

    def double(self) -> TypedStorage:
        """Return a copy in double precision."""
        return self._to(dtypes.float64)

    def long(self) -> TypedStorage:
        """Return a copy as integers of 64 bits."""
        return self._to(dtypes.int64)

    def int(self) -> TypedStorage:
        """Return a copy as integers of 32 bits."""
        return self._to(dtypes.int32)

    def half(self) -> TypedStorage:
        """Return a copy in half precision."""
        return self._to(dtypes.float16)

    def bool(self) -> TypedStorage:
        """Return a copy as booleans."""
        return self._to(dtypes.bool_)

    def __getitem__(self, index: Any) -> Any:
        found = self._elements[index]
        return found.tolist() if isinstance(index, slice) else found.item()

    def __setitem__(self, index: Any, value: Any) -> None:
        self._elements[index] = value

    def __repr__(self) -> str:
        values = "\n".join(f" {v}" for v in self.tolist())
        return (
            f"{values}\n[{printing.PACKAGE}.storage.TypedStorage(dtype={self.dtype}, device={self.device}) "
            f"of size {self.size()}]"
        )


def untyped_storage(input: Tensor) -> UntypedStorage:
    """Return the memory behind `input` as bytes."""
    return UntypedStorage._of(input)


def typed_storage(input: Tensor) -> TypedStorage:
    """Return the memory behind `input` as elements of its dtype."""
    return TypedStorage(UntypedStorage._of(input), dtypes.of(input.array.dtype))


def storage(input: Tensor) -> TypedStorage:
    """Return the memory behind `input` as elements; deprecated, it warns: `untyped_storage` is the modern form.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.

    Returns
    -------
    TypedStorage
        The whole memory, of which `input` may show a part.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     len(adjoint.zeros(2, 3)[0].storage())
    6
    """
    warnings.warn(
        "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only "
        "storage class; "
        "use tensor.untyped_storage() instead of tensor.storage()",
        UserWarning,
        stacklevel=depth_outside(),
    )
    return typed_storage(input)


def detach(input: Tensor) -> Tensor:
    """Return a tensor that shares the memory of `input` but not its history."""
    return input.detach()


def detach_(input: Tensor) -> Tensor:
    """Detach `input` from its history, in place."""
    return input.detach_()


# --- Looking elsewhere ------------------------------------------------------------------------------


def _look_at(x: Tensor, array: Value, memory: Storage | None) -> None:
    expect_shape(x, array.shape)
    note_geometry(x)
    x.array, x.memory = array, memory
    if type(x.node) is AccumulateGrad:
        x.node.follow(x)


def resize_(input: Tensor, *sizes: Ints, size: Ints | None = None, memory_format: MemoryFormat = None) -> Tensor:
    """Give `input` another shape, in place; elements that did not exist before are not set.

    The memory stays if it is large enough, and is read in row-major order.

    Parameters
    ----------
    input : Tensor
        It gets another shape; it does not require a gradient.
    *sizes : int or sequence of ints
        The new sizes.
    size : sequence of ints, optional
        Another way to pass `sizes`.
    memory_format : memory_format, optional
        The memory layout, row-major by default.

    Returns
    -------
    Tensor
        `input` itself.

    Raises
    ------
    RuntimeError
        If `input` requires a gradient, or a size is negative.

    Examples
    --------
    >>> x = adjoint.tensor([1, 2, 3, 4])
    >>> x.resize_(2, 2)
    tensor([[1, 2],
            [3, 4]])
    >>> x.resize_(3)
    tensor([1, 2, 3])
    """
    shape = shape_from(sizes if size is None else (size,))
    refuse_inference_write(input)
    if input.node is not None and not modes.local.inference:
        raise RuntimeError("cannot resize variables that require grad")
    if any(n >= 2**63 for n in shape):
        raise TypeError(f"resize_(): argument 'size' failed to unpack {list(shape)}: Overflow when unpacking long long")
    if any(n < 0 for n in shape):
        raise RuntimeError(f"Trying to resize tensor with negative dimension: {list(shape)}")
    old = input.array
    if shape == tuple(old.shape) and layout.order_of(memory_format, len(shape)) is None:
        return input
    count, module = math.prod(shape), devices.module_of(old)
    if devices.of(old).type == "meta":
        _look_at(input, module.empty(shape, old.dtype), input.memory)
        return input
    memory = UntypedStorage._of(input)._bytes
    offset = offset_of(input)
    itemsize = int(old.itemsize)
    if (offset + count) * itemsize > memory.size:
        grown = module.empty(offset * itemsize + count * itemsize, np.uint8)
        grown[: memory.size] = memory
        _move_views(input, grown)
        memory = grown
        storage_of(input).origin = address_of(memory)
    order = layout.order_of(memory_format, len(shape))
    strides = layout.row_major(shape)
    if order is not None:
        inner = layout.row_major([shape[dim] for dim in order])
        strides = tuple(inner[order.index(dim)] for dim in range(len(shape)))
    _look_at(input, from_bytes(memory, old.dtype, offset, shape, strides), input.memory)
    note_write(input, "resize_")
    return input


def _move_views(x: Tensor, memory: Any) -> None:
    """Let the base and the views of a tensor whose memory has to grow look at the new memory."""
    ledger = storage_of(x).ledger
    others = [ref() for ref in ledger.fresh] if ledger is not None else []
    for t in (*others, None if x.lineage is None else x.lineage.base):
        if t is not None and t is not x and t.memory is x.memory:
            strides = [s // t.array.itemsize for s in t.array.strides]
            t.array = from_bytes(memory, t.array.dtype, offset_of(t), t.array.shape, strides)
            if type(t.node) is AccumulateGrad:
                t.node.follow(t)


def resize(input: Tensor, *sizes: Ints) -> Tensor:
    """Return `input` in another shape; deprecated, it warns: `reshape` is the modern form.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    *sizes : int or sequence of ints
        The new sizes, with as many elements in all.

    Returns
    -------
    Tensor
        A view of `input` where that is possible, otherwise a copy.

    Raises
    ------
    RuntimeError
        If the number of elements differs.

    Examples
    --------
    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     adjoint.arange(4).resize(2, 2)
    tensor([[0, 1],
            [2, 3]])
    """
    warnings.warn("non-inplace resize is deprecated: call reshape()", stacklevel=depth_outside())
    shape = shape_from(sizes)
    if math.prod(shape) != input.array.size:
        raise RuntimeError(
            f"requested resize to {'x'.join(map(str, shape))} ({math.prod(shape)} elements in total), but the given "
            f"tensor has a size of {'x'.join(map(str, input.array.shape))} ({input.array.size} elements). autograd's "
            "resize can only change the shape of a given tensor, while preserving the number of elements."
        )
    return reshape(input, shape)


def resize_as(input: Tensor, tensor: Tensor) -> Tensor:
    """Return `input` in the shape of another tensor of as many elements."""
    return resize(input, tuple(tensor.array.shape))


def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: MemoryFormat = None) -> Tensor:
    """Give `input` the shape of another tensor, in place: ``input.resize_(the_template.shape)``.

    Parameters
    ----------
    input : Tensor
        It gets another shape; it does not require a gradient.
    the_template : Tensor
        Only its shape counts.
    memory_format : memory_format, optional
        The memory layout, row-major by default.

    Returns
    -------
    Tensor
        `input` itself.

    Examples
    --------
    >>> adjoint.arange(4).resize_as_(adjoint.zeros(2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    return resize_(input, tuple(the_template.array.shape), memory_format=memory_format)


def set_(
    input: Tensor, source: Any = None, storage_offset: int = 0, size: Ints | None = None, stride: Ints | None = None,
) -> Tensor:  # fmt: skip
    """Look at the memory of `source`, a tensor or a storage, from now on."""
    edges = tuple(edge_of(t) for t in (input, source) if isinstance(t, TensorBase) and t.node is not None)
    recording = modes.is_grad_enabled() and bool(edges)
    check_changeable(input, recording)
    ledger = ledger_of(storage_of(input))
    _set(input, source, storage_offset, size, stride)
    storage_of(input).ledger = ledger  # the version counter stays, with the aliases that share it
    ledger.version += 1
    if recording:
        input.node = _without_derivative("set_", edges)
    return input


def _without_derivative(name: str, edges: tuple[Any, ...]) -> Node:
    """Return the node of an op that has no derivative, which it says when a gradient arrives."""

    def run(*arguments: object) -> Tensor:
        raise RuntimeError(f"derivative for {name} is not implemented")

    node: Node = new_node(Special("NotImplemented", run), edges)
    node.code, node.lasti = caller()
    return node


def _set(input: Tensor, source: Any, storage_offset: int, size: Any, stride: Any) -> None:
    if source is None:
        _look_at(input, devices.module_of(input.array).empty((0,), input.array.dtype), None)
        return
    if isinstance(source, TypedStorage):
        source = source.untyped()
    of_tensor = isinstance(source, TensorBase)
    if of_tensor and source.array.dtype != input.array.dtype:
        raise RuntimeError(
            f"Could not set tensor of type {dtypes.of(source.array.dtype)} to a tensor of type "
            f"{dtypes.of(input.array.dtype)}"
        )
    if of_tensor and size is None:
        _look_at(input, source.array, _counted_apart(source))
        return
    memory = UntypedStorage._of(source)._bytes if of_tensor else source._bytes
    itemsize = int(input.array.itemsize)
    shape = shape_from((size,)) if size is not None else (memory.size // itemsize - storage_offset,)
    strides = layout.row_major(shape) if stride is None else shape_from((stride,))
    kept = _counted_apart(source) if of_tensor else new_storage()
    if not of_tensor:
        kept.origin = address_of(memory)
    _look_at(input, from_bytes(memory, input.array.dtype, storage_offset, shape, strides), kept)


def _counted_apart(x: TensorBase) -> Storage:
    """Return a storage for the same memory with a version counter of its own, as `set_` gives."""
    storage = InferenceStorage() if type(x.memory) is InferenceStorage else Storage()
    storage.ledger = None
    if x.memory is not None and hasattr(x.memory, "origin"):
        storage.origin = x.memory.origin
    return storage


def is_set_to(input: Tensor, tensor: Tensor) -> bool:
    """Return whether both tensors look at the same elements of the same memory in the same way."""
    a, b = input.array, tensor.array
    return (
        address_of(a) == address_of(b)
        and origin_of(input) == origin_of(tensor)
        and a.shape == b.shape
        and layout.strides_of(a) == layout.strides_of(b)
    )


def dim_order(input: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """Return the dimensions in the order of their strides in memory, outermost first."""
    return layout.dense_order(tuple(input.array.shape), layout.strides_of(input.array))


class SharedMemory(mmap.mmap):
    """Memory that other processes can map: those that are forked, and those that get its descriptor."""

    _descriptor = -1

    def __new__(cls, size: int, descriptor: int | None = None) -> SharedMemory:
        """Return new memory, or that of a descriptor, which is closed with it."""
        own = _anonymous_file(size) if descriptor is None else descriptor
        made = super().__new__(cls, own, max(size, 1))
        made._descriptor = own
        return made

    def fileno(self) -> int:
        """Return the descriptor."""
        return self._descriptor

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)


def _anonymous_file(size: int) -> int:
    """Return the descriptor of a file without a name, in memory where the system can: nothing is left behind."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("adjoint")
    else:
        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    os.truncate(descriptor, max(size, 1))
    return descriptor


def shared_memory_of(array: Array) -> mmap.mmap | None:
    """Return the mapped memory in which an array is."""
    held = getattr(owner_of(array), "base", None)
    found = getattr(held, "obj", held)
    return found if isinstance(found, mmap.mmap) else None


def is_shared(input: Value) -> bool:
    """Return whether a tensor, or an array, is in memory that several processes share."""
    return shared_memory_of(input.array if isinstance(input, TensorBase) else input) is not None


def share_memory_(input: Tensor) -> Tensor:
    """Move `input` to memory that processes share, so that each sees what the others write."""
    if not isinstance(input.array, np.ndarray) or is_shared(input.array):
        return input
    memory, offset, old = UntypedStorage._of(input)._bytes, offset_of(input), input.array
    shared = np.frombuffer(SharedMemory(int(memory.size)), np.uint8)[: memory.size]
    shared[...] = memory
    strides = [s // old.itemsize for s in old.strides]
    storage = Storage()  # views that were made before stay where they are
    storage.ledger, storage.origin = storage_of(input).ledger, address_of(shared)
    _look_at(input, from_bytes(shared, old.dtype, offset, old.shape, strides), storage)
    return input


def pin_memory(input: Tensor, device: DeviceLike = None) -> Tensor:
    """Return `input`: nothing is pinned, since copies to a GPU start from the memory as it is.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    device : device, optional
        Ignored.

    Returns
    -------
    Tensor
        `input` itself.

    Examples
    --------
    >>> x = adjoint.ones(2)
    >>> x.pin_memory() is x
    True
    """
    return input
