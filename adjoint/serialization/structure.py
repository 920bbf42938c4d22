"""The format that `save` writes: a safetensors file whose metadata say, in JSON, how the tensors are nested.

Any safetensors reader sees the tensors under the names of the way to them (``model.layers.0.weight``); `load` gives the
whole object back: containers, numbers, tied tensors as one, views of shared memory as views. There is no code in it.
"""

from __future__ import annotations

import argparse
import base64
import collections
import json
import math
from collections.abc import Callable
from typing import IO, Any

import numpy as np

from ..core import device as devices
from ..core import dtypes, layout
from ..core.size import Size
from ..core.tensor import TensorBase
from ..nn.parameter import Parameter
from ..ops import create
from ..ops.memory import UntypedStorage, from_bytes
from . import safetensors
from .allowed import Keys, checked_bools, numpy_dtype, numpy_scalar, own_attributes
from .extents import Look, Placement, survey
from .machine import _FREE, _ROOM, _TENSOR
from .sources import FileFormatError, Source

__all__ = ["read", "write"]

KEY = "adjoint.structure"
_DEEPEST = 200  # containers in containers; JSON's reader and ours are recursive
_FACTORIES: dict[str, Any] = {"dict": dict, "list": list, "set": set, "int": int, "float": float, "str": str}


# --- Writing ----------------------------------------------------------------------------------------


class _Outline:
    """The nested structure of an object, with its tensors and arrays in a list beside it."""

    def __init__(self) -> None:
        self.tensors: list[Any] = []
        self.paths: list[str] = []
        self._known: dict[int, int] = {}

    def of(self, value: Any, path: tuple[str, ...] = ()) -> Any:
        """Return a value in JSON's words."""
        if len(path) > _DEEPEST:
            raise ValueError(f"{'.'.join(path[:5])}...: nested more than {_DEEPEST} deep, or inside itself; not saved")
        if value is None or isinstance(value, str | bool) or type(value) is int:
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"$": "float", "value": repr(value)}
        if isinstance(value, TensorBase | np.ndarray):
            return {"$": "tensor", "at": self._tensor(value, path)}
        if type(value) is list:
            return [self.of(v, (*path, str(i))) for i, v in enumerate(value)]
        if type(value) is dict and all(type(k) is str for k in value) and "$" not in value:
            return {k: self.of(v, (*path, k)) for k, v in value.items()}
        return self._special(value, path)

    def _tensor(self, value: Any, path: tuple[str, ...]) -> int:
        at = self._known.get(id(value))
        if at is None:
            at = self._known[id(value)] = len(self.tensors)
            self.tensors.append(value)
            self.paths.append(".".join(path) or "value")
        return at

    def _items(self, value: Any, path: tuple[str, ...]) -> list[Any]:
        return [[self.of(k, path), self.of(v, (*path, str(k)))] for k, v in value.items()]

    def _special(self, value: Any, path: tuple[str, ...]) -> Any:
        kind = type(value)
        name = kind.__name__
        if kind in (tuple, set, frozenset, Size):
            return {"$": name, "items": [self.of(v, (*path, str(i))) for i, v in enumerate(value)]}
        if kind in (dict, collections.OrderedDict, collections.Counter):
            said: dict[str, Any] = {"$": name, "items": self._items(value, path)}
            if getattr(value, "__dict__", None):
                said["state"] = self.of(vars(value), (*path, "__dict__"))
            return said
        if kind is collections.defaultdict and (value.default_factory is None or _factory(value) in _FACTORIES):
            return {"$": name, "factory": _factory(value), "items": self._items(value, path)}
        if kind is argparse.Namespace:
            return {"$": name, "items": self._items(vars(value), path)}
        if kind in (bytes, bytearray):
            return {"$": name, "value": base64.b64encode(value).decode()}
        if kind is complex:
            return {"$": name, "value": [self.of(value.real), self.of(value.imag)]}
        if isinstance(value, dtypes.dtype | layout.memory_format | layout.layout):
            return {"$": kind.__name__, "value": value.name}
        if kind is devices.device:
            return {"$": name, "value": str(value)}
        if isinstance(value, np.generic) and value.dtype.kind in "biufc":
            return {"$": "scalar", "dtype": value.dtype.str, "value": base64.b64encode(value.tobytes()).decode()}
        raise TypeError(refusal(value, path))


def _factory(value: Any) -> str:
    return getattr(value.default_factory, "__name__", "")


def refusal(value: Any, path: tuple[str, ...]) -> str:
    """Return the sentence that refuses to save a value, with what to do instead."""
    where = f" (at {'.'.join(path)})" if path else ""
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if hasattr(value, "state_dict"):
        return (
            f"save does not write objects with code, such as {kind}{where}. Save its state_dict() instead: "
            "save(model.state_dict(), f), and later model.load_state_dict(load(f)). To pickle the whole object, use "
            "save(model, f, pickle_module=pickle); load such files only if you trust them"
        )
    return (
        f"save does not write objects of class {kind}{where}: it writes tensors, arrays, numbers, strings, bytes and "
        "containers of these. Convert it, or pickle the whole object with save(obj, f, pickle_module=pickle); load "
        "such files only if you trust them"
    )


def write(obj: Any, stream: IO[bytes]) -> None:
    """Write an object."""
    outline = _Outline()
    value = outline.of(obj)
    parts: dict[str, Any] = {}
    names: dict[int, str] = {}
    table = []
    for tensor, look, path in zip(outline.tensors, survey(outline.tensors), outline.paths, strict=True):
        table.append(_row(tensor, look, path, parts, names))
    text = json.dumps({"version": 1, "tensors": table, "value": value}, separators=(",", ":"), allow_nan=False)
    safetensors.write(stream, parts, {"format": "adjoint", KEY: text})


def _row(tensor: Any, look: Look, path: str, parts: dict[str, Any], names: dict[int, str]) -> dict[str, Any]:
    """Return the row of the table of tensors, after the memory it looks at got its part of the file."""
    compact = look.array.nbytes <= look.extent.high - look.extent.low  # an expanded tensor repeats its elements
    plain = look.alone and compact and look.dtype in safetensors.NAMES
    name = names.get(id(look.extent))
    if name is None:
        name = path
        while name in parts or name == "__metadata__":
            name += "'"
        names[id(look.extent)] = name
        if plain:
            parts[name] = (look.dtype, look.array.shape, lambda: look.array)
        else:
            parts[name] = (dtypes.uint8, (look.extent.high - look.extent.low,), look.extent.data)
    row: dict[str, Any] = {"name": name}
    if not plain:
        row |= {"dtype": look.dtype.name, "offset": look.offset, "shape": look.array.shape, "stride": look.strides}
    elif not look.array.flags.c_contiguous and layout.is_dense(look.array):
        row["order"] = layout.dense_order(look.array.shape, look.array.strides)
    if isinstance(tensor, np.ndarray):
        return row | {"kind": "ndarray"}
    if isinstance(tensor, Parameter):
        row["kind"] = "Parameter"
    if look.requires_grad:
        row["requires_grad"] = True
    if look.location != "cpu":
        row["device"] = look.location
    return row


# --- Reading ----------------------------------------------------------------------------------------


def read(source: Source, place: Placement) -> Any:
    """Return the object in a file; of a plain safetensors file, the dict of its tensors."""
    metadata, entries = safetensors.read_header(source)
    if KEY not in metadata:
        return {name: create.finish(_placed(source, entry, "cpu", place)) for name, entry in entries.items()}
    said = safetensors.parsed_json(metadata[KEY])
    try:
        if said["version"] != 1:
            raise FileFormatError(f"the file has version {said['version']!r:.20} of adjoint's format; this knows 1")
        if _TENSOR * len(said["tensors"]) > _ROOM * source.size + _FREE:
            raise FileFormatError("the file has so many tensors that they would take far more memory than its size")
        tensors = _Tensors(source, entries, place)
        made = [tensors.made(row) for row in said["tensors"]]
        return _Object(made).of(said["value"])
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, RecursionError) as error:
        raise FileFormatError(f"the structure in the file is damaged: {type(error).__name__}: {error}") from None


def _placed(
    source: Source, entry: safetensors.Entry, location: str, place: Placement, for_any_dtype: bool = False
) -> Any:
    read = source.aligned_at if for_any_dtype else source.array_at
    memory = place(read(entry.begin, entry.size), location)
    if isinstance(memory, np.ndarray):
        return safetensors.as_array(memory, entry.dtype, entry.shape)
    return memory.view(entry.dtype.np).reshape(entry.shape)


class _Tensors:
    """Makes tensors from the rows of the table, reading each part of the file once."""

    def __init__(self, source: Source, entries: dict[str, safetensors.Entry], place: Placement) -> None:
        self._source, self._entries, self._place = source, entries, place
        self._read: dict[str, Any] = {}
        self._bytes: dict[str, UntypedStorage] = {}

    def made(self, row: dict[str, Any]) -> Any:
        """Return the tensor, or array, that a row describes."""
        array = self._array(row)
        kind = row.get("kind")
        if kind == "ndarray":
            return array
        if kind == "Parameter":
            return Parameter(create.finish(array), row.get("requires_grad", False) is True)
        return create.finish(array, row.get("requires_grad", False) is True)

    def _array(self, row: dict[str, Any]) -> Any:
        name = row["name"]
        if name not in self._read:
            entry = self._entries[name]
            array = _placed(self._source, entry, str(row.get("device", "cpu")), self._place, "dtype" in row)
            self._read[name] = _reordered(array, row["order"]) if "order" in row else array
        array = self._read[name]
        if "dtype" not in row:
            return array
        if "order" in row:
            raise FileFormatError(f"{name!r:.60}: strides and an order of dimensions")
        shape, strides, offset = row["shape"], row["stride"], row["offset"]
        counts = [*shape, *strides, offset]
        if len(shape) != len(strides) or not all(type(n) is int and 0 <= n < 2**62 for n in counts):
            raise FileFormatError(f"{name!r}: shape {shape!r:.60}, strides {strides!r:.60}, offset {offset!r:.20}")
        memory, dtype = UntypedStorage.over(array.reshape(-1).view(np.uint8)), _dtype(row["dtype"])
        if dtype is dtypes.bool_:
            checked_bools(self._bytes.setdefault(name, memory))
        try:
            return from_bytes(memory._bytes, dtype.np, offset, shape, strides)
        except (RuntimeError, MemoryError) as error:
            raise FileFormatError(f"{name!r}: {error}") from None


def _reordered(array: Any, order: Any) -> Any:
    """Return the same elements, laid out in memory in another order of dimensions."""
    if not isinstance(order, list) or sorted(order) != list(range(array.ndim)):
        raise FileFormatError("no order of dimensions")
    back = sorted(range(len(order)), key=order.__getitem__)
    return array.transpose(order).copy().transpose(back)


def _dtype(name: Any) -> dtypes.dtype:
    return dtypes._BY_NAME[name]


class _Object:
    """Makes values from JSON's words."""

    def __init__(self, tensors: list[Any]) -> None:
        self._tensors = tensors
        self._keys = Keys()

    def of(self, said: Any) -> Any:
        """Return a value."""
        if isinstance(said, list):
            return [self.of(v) for v in said]
        if not isinstance(said, dict):
            return said
        kind = said.get("$")
        if kind is None:
            return {k: self.of(v) for k, v in said.items()}
        if kind not in _MAKERS:
            raise FileFormatError(f"the structure has an unknown kind {kind!r:.40}")
        return _MAKERS[kind](self, said)

    def tensor(self, said: Any) -> Any:
        """Return one of the tensors."""
        if type(said["at"]) is not int or said["at"] < 0:
            raise FileFormatError("no number of a tensor")
        return self._tensors[said["at"]]

    def items(self, said: Any) -> list[Any]:
        """Return the values in a container."""
        return [self.of(v) for v in said["items"]]

    def pairs(self, said: Any) -> list[tuple[Any, Any]]:
        """Return the keys and values of a dict."""
        made: dict[Any, Any] = {}
        for k, v in said["items"]:
            key = self.of(k)
            self._keys.check(made, key)
            made[key] = self.of(v)
        return list(made.items())

    def members(self, said: Any) -> set[Any]:
        """Return the values in a set."""
        made: set[Any] = set()
        for value in self.items(said):
            self._keys.check(made, value)
            made.add(value)
        return made

    def ordered(self, said: Any) -> Any:
        """Return an OrderedDict, with its attributes."""
        made = collections.OrderedDict(self.pairs(said))
        state = self.of(said.get("state", {}))
        if isinstance(state, dict):
            made.__dict__.update(own_attributes(made, state))
        return made

    def namespace(self, said: Any) -> Any:
        """Return a namespace."""
        made = argparse.Namespace()
        made.__dict__.update(own_attributes(made, dict(self.pairs(said))))
        return made

    def defaulted(self, said: Any) -> Any:
        """Return a defaultdict."""
        factory = said["factory"]
        return collections.defaultdict(_FACTORIES[factory] if factory else None, self.pairs(said))

    def scalar(self, said: Any) -> Any:
        """Return a NumPy number."""
        return numpy_scalar(numpy_dtype(said["dtype"]), base64.b64decode(said["value"]))

    def complex(self, said: Any) -> Any:
        """Return a complex number."""
        real, imag = said["value"]
        return complex(self.of(real), self.of(imag))


_MAKERS: dict[str, Callable[[_Object, Any], Any]] = {
    "tensor": _Object.tensor,
    "float": lambda made, said: {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[said["value"]],
    "tuple": lambda made, said: tuple(made.items(said)),
    "set": _Object.members,
    "frozenset": lambda made, said: frozenset(made.members(said)),
    "Size": lambda made, said: Size(made.items(said)),
    "dict": lambda made, said: dict(made.pairs(said)),
    "OrderedDict": _Object.ordered,
    "Counter": lambda made, said: collections.Counter(dict(made.pairs(said))),
    "defaultdict": _Object.defaulted,
    "Namespace": _Object.namespace,
    "bytes": lambda made, said: base64.b64decode(said["value"], validate=True),
    "bytearray": lambda made, said: bytearray(base64.b64decode(said["value"], validate=True)),
    "complex": _Object.complex,
    "dtype": lambda made, said: _dtype(said["value"]),
    "memory_format": lambda made, said: layout._constants[said["value"]],
    "layout": lambda made, said: layout._constants[said["value"]],
    "device": lambda made, said: devices.device(said["value"]),
    "scalar": _Object.scalar,
}
