"""The names that a PyTorch file may say, and what each of them makes. Nothing is looked up by name elsewhere."""

from __future__ import annotations

import argparse
import collections
import math
import re
import sys
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from ..core import device as devices
from ..core import dtypes, layout
from ..core.size import Size
from ..nn.parameter import Parameter
from ..ops import create
from ..ops.copies import RESTING
from ..ops.memory import TypedStorage, UntypedStorage, from_bytes
from ..tensor import Tensor
from .sources import FileFormatError

__all__ = [
    "ALLOWED", "Builder", "Keys", "StorageKind", "built", "checked_bools", "numpy_dtype", "numpy_scalar",
    "own_attributes", "storage_of",
]  # fmt: skip


class Builder:
    """A name that may be called, with what it makes, and whether that is a container by hash."""

    __slots__ = ("make", "name", "takes_keys")

    def __init__(self, name: str, make: Callable[..., Any]) -> None:
        self.name, self.make = name, make
        self.takes_keys = name in ("set", "frozenset", "dict", "OrderedDict", "Counter", "defaultdict")


class StorageKind:
    """A class of storages: of one dtype, or of bytes."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: dtypes.dtype | None) -> None:
        self.dtype = dtype


Storage: TypeAlias = UntypedStorage | TypedStorage


def storage_of(memory: UntypedStorage, dtype: dtypes.dtype | None) -> Storage:
    """Return the storage that a file names: of one dtype, or of bytes."""
    if dtype is dtypes.bool_:
        checked_bools(memory)
    return memory if dtype is None else TypedStorage(memory, dtype)


def checked_bools(memory: UntypedStorage) -> None:
    """Raise if there are other bytes than 0 and 1, with which NumPy counts wrongly. Looked at once."""
    looked = memory.__dict__
    if "_boolean" not in looked:
        looked["_boolean"] = not memory._bytes.size or bool(memory._bytes.max() <= 1)
    if not looked["_boolean"]:
        raise FileFormatError("a tensor of bools has other bytes than 0 and 1")


# --- What may be a key ------------------------------------------------------------------------------

_PLAIN = (str, int, float, bool, type(None), bytes, complex)
_MOST_COLLISIONS = 50  # keys of one container that have the same hash
_DISTINCT = 2**61 - 1  # below, integers are their own hashes


def hashable(value: Any) -> int:
    """Return of how many parts a value is that may be a key: plain, or a small tuple of such; 0 if it may not.

    A tower of tuples takes forever to hash.
    """
    if isinstance(value, int) and value.bit_length() > 64:
        return 1 + value.bit_length() // 64
    if isinstance(value, _PLAIN) or type(value) in (dtypes.dtype, devices.device):
        return 1
    stack, seen = [value], 0
    while stack:
        top = stack.pop()
        seen += 1
        if seen > 1000:
            return 0
        if type(top) in (tuple, frozenset, Size):
            stack += list(top)[:1001]
        elif not isinstance(top, _PLAIN):
            return 0
    return seen


class Keys:
    """Checks the keys of all containers of a file: plain, and not many in one container with the same hash.

    Hashes of numbers and tuples are no secret: a few thousand keys that share one take a dict minutes.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, collections.Counter[int]]] = {}

    def check(self, target: Any, key: Any) -> int:
        """Return of how many parts a key of a container is; raise for one that it must not have."""
        if type(key) is str:
            return 1
        parts = hashable(key)
        if not parts:
            raise FileFormatError(f"a {type(key).__name__} is a key of a dict, or a member of a set")
        if (type(key) is int and -_DISTINCT < key < _DISTINCT) or isinstance(key, bytes) or key in target:
            return parts
        if len(target) < _MOST_COLLISIONS:
            return parts
        # With the container: what is made after it has gone may have its number.
        _, hashes = self._known.setdefault(id(target), (target, collections.Counter()))
        hashes[hash(key)] += 1
        if hashes[hash(key)] > _MOST_COLLISIONS:
            raise FileFormatError("the keys of a container are chosen to have one hash")
        return parts


# --- Tensors ----------------------------------------------------------------------------------------


def _is_count(n: Any) -> bool:
    return type(n) is int and 0 <= n < 2**62


def _tensor(storage: Any, offset: Any, size: Any, stride: Any, dtype: dtypes.dtype | None = None) -> Any:
    if not isinstance(storage, Storage):
        raise FileFormatError("a tensor is built on something that is no storage")
    if not isinstance(size, tuple) or not isinstance(stride, tuple) or len(size) != len(stride) or len(size) > 64:
        raise FileFormatError("a tensor's size and stride are no tuples of the same length")
    if not all(map(_is_count, (*size, *stride, offset))):
        raise FileFormatError("a tensor has a size, stride or offset that is no count")
    wanted = dtype or (storage.dtype if isinstance(storage, TypedStorage) else None)
    if wanted is None:
        raise FileFormatError("a tensor on untyped memory does not say its dtype")
    memory = storage.untyped()
    if wanted is dtypes.bool_:
        checked_bools(memory)
    try:
        return create.finish(from_bytes(memory._bytes, wanted.np, offset, size, stride))
    except (RuntimeError, ValueError, MemoryError, OverflowError) as error:
        raise FileFormatError(f"a tensor is not inside its storage: {error}") from None


def _tensor_v2(
    storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, metadata: Any = None
) -> Any:
    return _requiring(_tensor(storage, offset, size, stride), requires_grad)


def _tensor_v3(
    storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, dtype: Any, metadata: Any = None
) -> Any:
    if type(dtype) is not dtypes.dtype:
        raise FileFormatError("a tensor's dtype is none")
    return _requiring(_tensor(storage, offset, size, stride, dtype), requires_grad)


def _requiring(tensor: Any, requires_grad: Any) -> Any:
    if requires_grad is True and dtypes.of(tensor.array.dtype).category >= 2:
        create.require_grad(tensor)
    return tensor


def _parameter(data: Any, requires_grad: Any, hooks: Any, state: Any = None) -> Any:
    if not isinstance(data, Tensor):
        raise FileFormatError("a parameter is made of something that is no tensor")
    floating = dtypes.of(data.array.dtype).category >= 2
    made = Parameter(data, requires_grad is True and floating)
    if isinstance(state, dict):
        made.__dict__.update(own_attributes(made, state))
    return made


def _from_type(function: Any, kind: Any, args: Any, state: Any) -> Any:
    """A tensor with attributes, or of a subclass: the tensor, and those attributes that are a plain dict."""
    if not isinstance(function, Builder) or function.make not in _OF_TENSORS or not isinstance(args, tuple):
        raise FileFormatError("a tensor with attributes is not built by one of the known functions")
    made = function.make(*args)
    if isinstance(state, dict):
        made.__dict__.update(own_attributes(made, state))
    return made


_OF_TENSORS = (_tensor, _tensor_v2, _tensor_v3, _parameter)
# Private attributes of tensors, besides a program's own: nodes, rows of an embedding's gradient.
_PRIVATE = (RESTING, "_rows_looked_up", "_rows_of_gradient")


def own_attributes(target: Any, state: dict[Any, Any]) -> dict[str, Any]:
    """Return the attributes that a file has for an object, without those of its class and private ones."""
    kind = type(target)
    return {k: v for k, v in state.items() if isinstance(k, str) and not hasattr(kind, k) and k not in _PRIVATE}


# --- NumPy ------------------------------------------------------------------------------------------

_LAST = sys.maxunicode
_NUMPY_DTYPE = re.compile(r"[<>|=]?([?bBhHiIlLqQefdFD]|b1|[iu][1248]|f[248]|c(8|16)|[SU]\d{1,4})")


def numpy_dtype(text: Any, align: Any = False, copy: Any = True) -> Any:
    """Return the dtype of a name, if it is one of numbers or text."""
    if not isinstance(text, str) or not _NUMPY_DTYPE.fullmatch(text):
        raise FileFormatError("a NumPy dtype that is not one of numbers or text")
    return np.dtype(np.dtype(text), False, True)  # type: ignore[call-overload]  # a new one: it may get a state


def _numpy_array(kind: Any, shape: Any, code: Any) -> Any:
    return np.empty((0,), np.int8)  # until it gets its state


def numpy_scalar(dtype: Any, data: Any) -> Any:
    """Return the scalar that some bytes are."""
    if not isinstance(dtype, np.dtype) or not isinstance(data, bytes) or len(data) != dtype.itemsize or not data:
        raise FileFormatError("a NumPy number whose bytes are not of its size")
    return np.frombuffer(data, dtype)[0]


def _numpy_from_buffer(data: Any, dtype: Any, shape: Any, order: Any) -> Any:
    if not isinstance(dtype, np.dtype) or not isinstance(data, bytes | bytearray) or order not in ("C", "F"):
        raise FileFormatError("a NumPy array that is not bytes, dtype, shape and order")
    return _array_of(data, dtype, shape, order)


def _array_of(data: Any, dtype: Any, shape: Any, order: Any) -> Any:
    """Return a new array over a copy of bytes that must be just as many as it needs."""
    if not isinstance(shape, tuple) or len(shape) > 32 or not all(map(_is_count, shape)):
        raise FileFormatError("a NumPy array whose shape is no tuple of counts")
    if math.prod(shape) * dtype.itemsize != len(data) or dtype.kind not in "biufcSU":
        raise FileFormatError(f"a NumPy array of dtype {dtype} does not have the {len(data)} bytes that it is given")
    if not dtype.itemsize:  # NumPy takes one byte for each of its elements nevertheless
        raise FileFormatError("a NumPy array of elements without size")
    memory = np.frombuffer(bytearray(data), np.uint8)
    if dtype.kind == "b" and memory.size and memory.max() > 1:
        raise FileFormatError("a NumPy array of bools has other bytes than 0 and 1")
    if dtype.kind == "U" and memory.size and memory.view(np.dtype("u4").newbyteorder(dtype.byteorder)).max() > _LAST:
        raise FileFormatError("a NumPy array of text has numbers that are no characters")
    return memory.view(dtype).reshape(shape, order=order) if memory.size else np.empty(shape, dtype)


# --- State given by BUILD ---------------------------------------------------------------------------


def built(target: Any, state: Any) -> Any:
    """Return an object with the state that a file has for it; arrays and dtypes are created, never modified."""
    if type(target) is np.ndarray:
        return _array_with(state)
    if isinstance(target, np.dtype):
        return _dtype_with(target, state)
    if type(target) in (collections.OrderedDict, argparse.Namespace, collections.Counter):
        if not isinstance(state, dict) or not all(isinstance(k, str) for k in state):
            raise FileFormatError("attributes that are no dict of names")
        target.__dict__.update(own_attributes(target, state))
        return target
    raise FileFormatError(f"the pickle sets the state of a {type(target).__name__}")


def _array_with(state: Any) -> Any:
    if not isinstance(state, tuple) or len(state) != 5:
        raise FileFormatError("a NumPy array with an unknown state")
    _, shape, dtype, fortran, data = state
    if not isinstance(dtype, np.dtype) or not isinstance(data, bytes):
        raise FileFormatError("a NumPy array that does not hold numbers")
    return _array_of(data, dtype, shape, "F" if fortran is True else "C")


def _dtype_with(dtype: Any, state: Any) -> Any:
    if not isinstance(state, tuple) or len(state) < 2 or state[1] not in ("<", ">", "|", "="):
        raise FileFormatError("a NumPy dtype with an unknown state")
    if len(state) > 5 and state[5] not in (-1, dtype.itemsize):
        raise FileFormatError("a NumPy dtype whose state has another size than its name")
    return np.dtype(dtype.newbyteorder(state[1]))


# --- Others -----------------------------------------------------------------------------------------


def _encoded(text: Any, codec: Any = "latin1") -> bytes:
    """How pickles before protocol 3 write bytes."""
    if not isinstance(text, str) or codec not in ("latin1", "latin-1"):
        raise FileFormatError("bytes in an unknown encoding")
    return text.encode("latin-1")


def _bytes(data: Any = b"", codec: Any = "latin1") -> bytes:
    if isinstance(data, str):
        return _encoded(data, codec)
    if not isinstance(data, bytes | list) or (isinstance(data, list) and not all(_is_count(n) for n in data)):
        raise FileFormatError("bytes made of something else")
    return bytes(data)


def _list(values: Any = ()) -> list[Any]:
    if not isinstance(values, list | tuple | dict | set | frozenset):
        raise FileFormatError("a container made of something that is none")
    return list(values)


def _members(make: Callable[..., Any]) -> Callable[..., Any]:
    def made(check: Callable[[Any, Any], None], values: Any = ()) -> Any:
        members: set[Any] = set()
        for value in _list(values):
            check(members, value)
            members.add(value)
        return make(members)

    return made


def _pairs(make: Callable[..., Any]) -> Callable[..., Any]:
    def made(check: Callable[[Any, Any], None], values: Any = ()) -> Any:
        pairs = values.items() if isinstance(values, dict) else _list(values)
        target = make()
        for pair in pairs:
            if not isinstance(pair, list | tuple) or len(pair) != 2:
                raise FileFormatError("a dict made of something other than pairs")
            check(target, pair[0])
            target[pair[0]] = pair[1]
        return target

    return made


_FACTORIES: dict[str, Any] = {
    "dict": dict, "list": list, "set": set, "int": int, "float": float, "str": str,
    "OrderedDict": collections.OrderedDict,
}  # fmt: skip


def _defaulted(check: Callable[[Any, Any], None], factory: Any = None, values: Any = ()) -> Any:
    if factory is not None and (not isinstance(factory, Builder) or factory.name not in _FACTORIES):
        raise FileFormatError("a defaultdict with an unknown factory")
    return collections.defaultdict(
        _FACTORIES[factory.name] if factory is not None else None, _pairs(dict)(check, values)
    )


def _number(make: Callable[..., Any], most: int) -> Callable[..., Any]:
    def made(*parts: Any) -> Any:
        if len(parts) > most or not all(isinstance(n, int | float) or n is None for n in parts):
            raise FileFormatError(f"{make.__name__} of something other than numbers")
        return make(*parts)

    return made


def _device(*said: Any) -> Any:
    if not said or not isinstance(said[0], str) or not all(isinstance(n, str | int) for n in said):
        raise FileFormatError("no device")
    try:
        return devices.device(*said)
    except (RuntimeError, TypeError) as error:
        raise FileFormatError(str(error)) from None


def _size(values: Any = ()) -> Any:
    if not isinstance(values, list | tuple) or not all(type(n) is int for n in values):
        raise FileFormatError("a Size of something other than counts")
    return Size(values)


def _layout(name: Any) -> Any:
    found = layout._constants.get(name.removeprefix("torch.")) if isinstance(name, str) else None
    if found is None:
        raise FileFormatError("no layout")
    return found


def _reconstructed(kind: Any, base: Any, state: Any) -> Any:
    if isinstance(kind, Builder) and kind.name == "Namespace":
        return argparse.Namespace()
    raise FileFormatError("an object of an unknown class")


def _table() -> dict[tuple[str, str], Any]:
    table: dict[tuple[str, str], Any] = {
        ("torch._utils", "_rebuild_tensor"): _tensor,
        ("torch._utils", "_rebuild_tensor_v2"): _tensor_v2,
        ("torch._utils", "_rebuild_tensor_v3"): _tensor_v3,
        ("torch._utils", "_rebuild_parameter"): _parameter,
        ("torch._utils", "_rebuild_parameter_with_state"): _parameter,
        ("torch._tensor", "_rebuild_from_type_v2"): _from_type,
        ("torch.serialization", "_get_layout"): _layout,
        ("torch", "device"): _device,
        ("torch", "Size"): _size,
        ("collections", "OrderedDict"): _pairs(collections.OrderedDict),
        ("collections", "Counter"): _pairs(collections.Counter),
        ("collections", "defaultdict"): _defaulted,
        ("argparse", "Namespace"): lambda: argparse.Namespace(),
        ("copyreg", "_reconstructor"): _reconstructed,
        ("copy_reg", "_reconstructor"): _reconstructed,
        ("_codecs", "encode"): _encoded,
        ("numpy", "dtype"): numpy_dtype,
    }
    for module in ("builtins", "__builtin__"):
        table |= {
            (module, "set"): _members(set),
            (module, "frozenset"): _members(frozenset),
            (module, "list"): _list,
            (module, "dict"): _pairs(dict),
            (module, "bytes"): _bytes,
            (module, "bytearray"): lambda *said: bytearray(_bytes(*said)),
            (module, "complex"): _number(complex, 2),
            (module, "slice"): _number(slice, 3),
            (module, "range"): _number(range, 3),
            (module, "int"): _number(int, 1),
            (module, "float"): _number(float, 1),
            (module, "str"): lambda: "",
        }
    for module in ("numpy.core.multiarray", "numpy._core.multiarray"):
        table |= {(module, "_reconstruct"): _numpy_array, (module, "scalar"): numpy_scalar}
    for module in ("numpy.core.numeric", "numpy._core.numeric"):
        table[module, "_frombuffer"] = _numpy_from_buffer
    built: dict[tuple[str, str], Any] = {key: Builder(key[1], make) for key, make in table.items()}
    for dtype in (*dtypes.ALL, *dtypes.STORED):
        built["torch", dtype.name] = dtype
        if dtype in dtypes.ALL:
            built["torch", f"{dtype.title}Storage"] = built["torch.cuda", f"{dtype.title}Storage"] = StorageKind(dtype)
    built["torch.storage", "UntypedStorage"] = built["torch", "UntypedStorage"] = StorageKind(None)
    for module, name in (
        ("torch", "Tensor"), ("torch.nn.parameter", "Parameter"), ("torch.nn.parameter", "Buffer"),
        ("numpy", "ndarray"), ("builtins", "object"), ("__builtin__", "object"),
    ):  # fmt: skip
        built[module, name] = Builder(name, _not_called)
    return built


def _not_called(*args: Any) -> Any:
    raise FileFormatError("a class that is only ever named is called")


ALLOWED = _table()
