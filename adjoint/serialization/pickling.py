"""Files that PyTorch loads, written without it: a zip archive of a pickle of plain data and the storages' bytes."""

from __future__ import annotations

import argparse
import collections
import struct
import zipfile
from collections.abc import Callable
from typing import IO, Any

import numpy as np

from ..core import device as devices
from ..core import dtypes, layout
from ..core.size import Size
from ..core.tensor import TensorBase
from ..nn.parameter import Parameter
from ..ops.copies import RESTING
from .extents import Extent, Look, survey
from .structure import refusal

__all__ = ["write"]

_ALIGNMENT = 64  # of the storages in the file, so that they can be mapped


class _Name:
    """A name that the pickle says, for the loader to look up."""

    def __init__(self, module: str, name: str) -> None:
        self.said = f"c{module}\n{name}\n".encode()


def _named(module: str, *names: str) -> tuple[_Name, ...]:
    return tuple(_Name(module, name) for name in names)


_TENSOR_V2, _TENSOR_V3, _PARAMETER = _named(
    "torch._utils", "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_parameter"
)
_FROM_TYPE, _UNTYPED = _Name("torch._tensor", "_rebuild_from_type_v2"), _Name("torch.storage", "UntypedStorage")
_DEVICE, _SIZE, _TENSOR = _named("torch", "device", "Size", "Tensor")
_LAYOUT, _PARAMETER_WITH_STATE = (
    _Name("torch.serialization", "_get_layout"),
    _Name("torch._utils", "_rebuild_parameter_with_state"),
)
_ORDERED, _COUNTER, _DEFAULT = _named("collections", "OrderedDict", "Counter", "defaultdict")
_ENCODE, _NAMESPACE = _Name("_codecs", "encode"), _Name("argparse", "Namespace")
_RECONSTRUCT, _SCALAR = _named("numpy._core.multiarray", "_reconstruct", "scalar")
_NP_DTYPE, _NDARRAY = _named("numpy", "dtype", "ndarray")
_BUILTINS = {
    name: _Name("builtins", name)
    for name in ("set", "frozenset", "complex", "bytearray", "dict", "list", "int", "float", "str")
}
_UNTYPED_ONLY = {dtypes.uint16, dtypes.uint32, dtypes.uint64, *dtypes.STORED}


class _Call:
    """A name applied to arguments, and the state that the result is given."""

    def __init__(self, function: _Name, args: tuple[Any, ...], state: Any = None) -> None:
        self.function, self.args, self.state = function, args, state


class _Persistent:
    """A storage, which is stored outside of the pickle."""

    def __init__(self, key: tuple[Any, ...]) -> None:
        self.key = key


class _Pickle:
    """Writes plain data as a pickle of protocol 2; what is met twice is written once."""

    def __init__(self, tensor: Callable[[Any], Any]) -> None:
        self.out = bytearray(b"\x80\x02")
        self._tensor = tensor
        self._noted: dict[int, tuple[int, Any]] = {}

    def write(self, value: Any, path: tuple[str, ...] = ()) -> None:
        """Write a value."""
        if len(path) > 200:
            raise ValueError(f"{'.'.join(path[:5])}...: nested more than 200 deep, or inside itself; not saved")
        plain = _PLAIN.get(type(value))
        if plain is not None:
            self.out += plain(value)
            return
        if isinstance(value, _Name):
            self.out += value.said
            return
        known = self._noted.get(id(value))
        if known is not None:
            self.out += b"j" + struct.pack("<I", known[0])
            return
        self._compound(value, path)

    def _note(self, value: Any) -> None:
        self.out += b"r" + struct.pack("<I", len(self._noted))
        self._noted[id(value)] = (len(self._noted), value)

    def _compound(self, value: Any, path: tuple[str, ...]) -> None:
        kind = type(value)
        if kind is list:
            self.out += b"]"
            self._note(value)
            self._all(value, b"e", path)
        elif kind is dict:
            self.out += b"}"
            self._note(value)
            self._items(value, path)
        elif kind is tuple:
            self._all(value, b"t", path)
        elif kind is _Persistent:
            self.write(value.key, path)
            self.out += b"Q"
        elif kind is _Call:
            self._call(value, path)
        else:
            self.write(self._translated(value, path), path)
            if kind in (collections.OrderedDict, collections.defaultdict):
                self._items(value, path)
            self._note(value)

    def _call(self, call: _Call, path: tuple[str, ...]) -> None:
        self.write(call.function, path)
        self.write(call.args, path)
        self.out += b"R"
        if call.state is not None:
            self.write(call.state, path)
            self.out += b"b"

    def _all(self, values: Any, end: bytes, path: tuple[str, ...]) -> None:
        self.out += b"("
        for at, value in enumerate(values):
            self.write(value, (*path, str(at)))
        self.out += end

    def _items(self, value: Any, path: tuple[str, ...]) -> None:
        self.out += b"("
        for key, held in value.items():
            self.write(key, path)
            self.write(held, (*path, str(key)))
        self.out += b"u"
        if getattr(value, "__dict__", None):
            self.write(vars(value), path)
            self.out += b"b"

    def _translated(self, value: Any, path: tuple[str, ...]) -> Any:
        """Return a value in words that a pickle has."""
        kind = type(value)
        if isinstance(value, TensorBase):
            return self._tensor(value)
        if kind is bytes:
            return _Call(_ENCODE, (value.decode("latin-1"), "latin1"))
        if kind is bytearray:
            return _Call(_BUILTINS["bytearray"], (bytes(value),))
        if kind is complex:
            return _Call(_BUILTINS["complex"], (value.real, value.imag))
        if kind in (set, frozenset):
            return _Call(_BUILTINS[kind.__name__], (list(value),))
        if kind is collections.OrderedDict:
            return _Call(_ORDERED, ())
        if kind is collections.Counter:
            return _Call(_COUNTER, (dict(value),))
        if kind is collections.defaultdict and getattr(value.default_factory, "__name__", "") in _BUILTINS:
            return _Call(_DEFAULT, (_BUILTINS[value.default_factory.__name__],))
        if kind is argparse.Namespace:
            return _Call(_NAMESPACE, (), dict(vars(value)))
        if kind is Size:
            return _Call(_SIZE, (tuple(value),))
        if kind is devices.device:
            return _Call(_DEVICE, (value.type,) if value.index is None else (value.type, value.index))
        if kind is layout.layout:
            return _Call(_LAYOUT, (f"torch.{value.name}",))
        if kind in (dtypes.dtype, layout.memory_format):
            return _Name("torch", value.name)
        if kind is np.ndarray and value.dtype.kind in "biufc":
            array = np.ascontiguousarray(value)
            state = (1, array.shape, _numpy_dtype(array.dtype), False, array.tobytes())
            return _Call(_RECONSTRUCT, (_NDARRAY, (0,), b"b"), state)
        if isinstance(value, np.generic) and value.dtype.kind in "biufc":
            return _Call(_SCALAR, (_numpy_dtype(value.dtype), value.tobytes()))
        raise TypeError(refusal(value, path))


def _numpy_dtype(dtype: Any) -> _Call:
    order = "|" if dtype.itemsize == 1 else "<"
    return _Call(_NP_DTYPE, (dtype.newbyteorder("<").str[1:], False, True), (3, order, None, None, None, -1, -1, 0))


def _integer(value: int) -> bytes:
    if -(2**31) <= value < 2**31:
        return b"J" + struct.pack("<i", value)
    data = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
    return (b"\x8a" + bytes([len(data)]) if len(data) < 256 else b"\x8b" + struct.pack("<I", len(data))) + data


def _text(value: str) -> bytes:
    data = value.encode("utf-8", "surrogatepass")
    return b"X" + struct.pack("<I", len(data)) + data


_PLAIN: dict[type, Callable[[Any], bytes]] = {
    type(None): lambda v: b"N",
    bool: lambda v: b"\x88" if v else b"\x89",
    int: _integer,
    float: lambda v: b"G" + struct.pack(">d", v),
    str: _text,
}


# --- Tensors ----------------------------------------------------------------------------------------


def tensors_in(value: Any) -> list[Any]:
    """Return the tensors in nested containers, in the order in which they are met."""
    found: dict[int, Any] = {}
    stack, seen = [value], set()
    while stack:
        top = stack.pop()
        if isinstance(top, TensorBase):
            found.setdefault(id(top), top)
        elif isinstance(top, dict | list | tuple | argparse.Namespace) and id(top) not in seen:
            seen.add(id(top))
            held = list(top.values()) if isinstance(top, dict) else list(top) if isinstance(top, list | tuple) else []
            stack += reversed(held + list(getattr(top, "__dict__", {}).values()))
    return list(found.values())


class _Storages:
    """Gives every extent of memory a number in the file."""

    def __init__(self, tensors: list[Any]) -> None:
        self._looks = {id(tensor): look for tensor, look in zip(tensors, survey(tensors), strict=True)}
        self.extents: dict[int, Extent] = {}
        self._numbers: dict[int, str] = {}

    def call(self, tensor: Any, whole: bool = False) -> Any:
        """Return the call that rebuilds a tensor; of a `whole` object, with all of its attributes."""
        look = self._looks[id(tensor)]
        made = self._plain(look, look.requires_grad and not isinstance(tensor, Parameter))
        state = {
            name: value for name, value in tensor.__dict__.items()
            if name in ("persistent", "_is_buffer") or (whole and name != RESTING)
        }  # fmt: skip
        if isinstance(tensor, Parameter):
            args = (made, look.requires_grad, _Call(_ORDERED, ()))
            return _Call(_PARAMETER_WITH_STATE, (*args, state)) if whole and state else _Call(_PARAMETER, args)
        return _Call(_FROM_TYPE, (made.function, _TENSOR, made.args, state)) if state else made

    def _plain(self, look: Look, requires_grad: bool) -> _Call:
        number = self._numbers.setdefault(id(look.extent), str(len(self._numbers)))
        self.extents[int(number)] = look.extent
        size = look.extent.high - look.extent.low
        untyped = look.dtype in _UNTYPED_ONLY or (not look.alone and look.extent.mixed)
        kind = _UNTYPED if untyped else _Name("torch", f"{look.dtype.title}Storage")
        key = ("storage", kind, number, look.location, size if untyped else size // look.dtype.itemsize)
        args = (
            _Persistent(key), look.offset, tuple(look.array.shape), look.strides, requires_grad, _Call(_ORDERED, ()),
        )  # fmt: skip
        if untyped:
            return _Call(_TENSOR_V3, (*args, _Name("torch", look.dtype.name)))
        return _Call(_TENSOR_V2, args)


def write(obj: Any, stream: IO[bytes]) -> None:
    """Write an object so that ``torch.load`` reads it, its ``weights_only`` included."""
    storages = _Storages(tensors_in(obj))
    pickle = _Pickle(storages.call)
    pickle.write(obj)
    write_archive(bytes(pickle.out + b"."), storages, stream)


def write_archive(data: bytes, storages: _Storages, stream: IO[bytes]) -> None:
    """Write a pickle, and the storages that it names, into a zip file."""
    archive = zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED, allowZip64=True)
    try:
        _record(archive, "data.pkl", data)
        _record(archive, ".format_version", b"1")
        _record(archive, ".storage_alignment", str(_ALIGNMENT).encode())
        _record(archive, "byteorder", b"little")
        for number, extent in sorted(storages.extents.items()):
            stored: Any = np.ascontiguousarray(extent.data())
            _record(archive, f"data/{number}", memoryview(stored))
        _record(archive, "version", b"3\n")
        archive.close()
    finally:
        archive.fp = None  # after an error: close(), of `with` too, would refuse an open record in place of the error


def _record(archive: zipfile.ZipFile, name: str, data: Any) -> None:
    info = zipfile.ZipInfo(f"archive/{name}")
    info.file_size = len(data)
    large = len(data) >= zipfile.ZIP64_LIMIT
    header = 30 + len(info.filename) + (20 if large else 0)
    assert archive.fp is not None
    pad = -(archive.fp.tell() + header + 4) % _ALIGNMENT
    info.extra = b"FB" + struct.pack("<H", pad) + b"Z" * pad
    with archive.open(info, "w", force_zip64=large) as record:
        record.write(data)
