"""The safetensors format, read strictly and written without its package: names, dtypes, shapes, bytes; no code.

A file is eight bytes that say how long the header is, the header in JSON, and the elements of all tensors one after
the other. The reader takes nothing on trust: every size is checked before memory is allocated.
"""

from __future__ import annotations

import io
import json
import math
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import IO, Any

import numpy as np

from ..core import device as devices
from ..core import dtypes
from ..core.tensor import TensorBase
from ..ops import create
from ..ops.convert import concrete
from ..ops.memory import address_of
from .sources import FileFormatError, Source, opened, replacing

__all__ = ["load", "load_file", "load_model", "load_sharded", "safe_open", "save", "save_file", "save_model"]

CODES = {
    "BOOL": dtypes.bool_, "U8": dtypes.uint8, "I8": dtypes.int8, "I16": dtypes.int16, "U16": dtypes.uint16,
    "F16": dtypes.float16, "BF16": dtypes.bfloat16, "I32": dtypes.int32, "U32": dtypes.uint32, "F32": dtypes.float32,
    "I64": dtypes.int64, "U64": dtypes.uint64, "F64": dtypes.float64, "C64": dtypes.complex64,
    "F8_E4M3": dtypes.float8_e4m3fn, "F8_E5M2": dtypes.float8_e5m2, "F8_E4M3FNUZ": dtypes.float8_e4m3fnuz,
    "F8_E5M2FNUZ": dtypes.float8_e5m2fnuz,
}  # fmt: skip
NAMES = {dtype: code for code, dtype in CODES.items()}
_MOST_HEADER = 100_000_000  # bytes; the format's own limit
_MOST_DIMENSIONS = 64


@dataclass(frozen=True)
class Entry:
    """The position of a tensor in a file: `begin` counts bytes from the file's start."""

    dtype: dtypes.dtype
    shape: tuple[int, ...]
    begin: int
    size: int


# --- Reading ----------------------------------------------------------------------------------------


def looks_like_one(source: Source) -> bool:
    """Return whether a file starts as a safetensors file does."""
    if source.size < 10:
        return False
    start = source.bytes_at(0, 9)
    return 2 <= int.from_bytes(start[:8], "little") <= source.size - 8 and start[8:] == b"{"


def read_header(source: Source) -> tuple[dict[str, str], dict[str, Entry]]:
    """Return a file's metadata and the places of its tensors, every one of them checked."""
    length = int.from_bytes(source.bytes_at(0, 8), "little") if source.size >= 8 else 0
    if not 2 <= length <= min(_MOST_HEADER, source.size - 8):
        raise FileFormatError(
            f"not a safetensors file, or cut short: its header would take {length} of {source.size} bytes"
        )
    header = _parsed(source.bytes_at(8, length))
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise FileFormatError("safetensors: __metadata__ must map names to strings")
    entries = {name: _entry(name, said, 8 + length) for name, said in header.items()}
    at = 8 + length
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].begin, item[1].size)):
        if entry.begin != at:
            raise FileFormatError(f"safetensors: {name!r} starts at byte {entry.begin}, the one before ends at {at}")
        at += entry.size
    if at != source.size:
        raise FileFormatError(f"safetensors: the tensors end at byte {at}, the file at {source.size}")
    return metadata, entries


def parsed_json(text: bytes | str) -> Any:
    """Return what JSON says; a name said twice, NaN and nesting without end are refused."""
    try:
        text = text.decode() if isinstance(text, bytes) else text  # or JSON's reader guesses, and imports a codec
        return json.loads(text, object_pairs_hook=_once, parse_constant=_refused_constant)
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"the JSON in the file cannot be read: {error}") from None


def _parsed(text: bytes) -> dict[str, Any]:
    header = parsed_json(text)
    if not isinstance(header, dict):
        raise FileFormatError("safetensors: the header is not a JSON object")
    return header


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name is said twice")
    return made


def _refused_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def _count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**63


def _entry(name: str, said: Any, base: int) -> Entry:
    if not isinstance(said, dict) or set(said) != {"dtype", "shape", "data_offsets"}:
        raise FileFormatError(f"safetensors: {name!r} must have dtype, shape and data_offsets, and nothing else")
    dtype = CODES.get(said["dtype"]) if isinstance(said["dtype"], str) else None
    if dtype is None:
        raise FileFormatError(f"safetensors: {name!r} has the unknown dtype {said['dtype']!r:.40}")
    shape, offsets = said["shape"], said["data_offsets"]
    if not isinstance(shape, list) or len(shape) > _MOST_DIMENSIONS or not all(map(_count, shape)):
        raise FileFormatError(f"safetensors: {name!r} has no valid shape")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(map(_count, offsets)):
        raise FileFormatError(f"safetensors: {name!r} has no valid data_offsets")
    begin, end = offsets
    if end - begin != math.prod(shape) * dtype.itemsize:
        raise FileFormatError(f"safetensors: {name!r} has {end - begin} bytes, its shape {shape} needs other")
    return Entry(dtype, tuple(shape), base + begin, end - begin)


def array_of(source: Source, entry: Entry) -> Any:
    """Return a tensor's elements as an array."""
    memory = source.array_at(entry.begin, entry.size)
    return as_array(memory, entry.dtype, entry.shape)


def as_array(memory: Any, dtype: dtypes.dtype, shape: tuple[int, ...]) -> Any:
    """Return bytes as an array of elements."""
    if dtype is dtypes.bool_ and memory.size and memory.max() > 1:  # NumPy's bool knows no other bytes
        memory = (memory != 0).view(np.uint8)
    if address_of(memory) % dtype.itemsize:  # mapped, and not at a whole element
        memory = memory.copy()
    try:
        return np.ndarray(shape, dtype.np, memory)
    except (TypeError, ValueError) as error:  # no elements, but dimensions that NumPy does not have
        raise FileFormatError(f"safetensors: no array of shape {shape}: {error}") from None


# --- Writing ----------------------------------------------------------------------------------------

# name -> (dtype, shape, what gives the bytes when it is their turn)
Parts = Mapping[str, tuple[dtypes.dtype, tuple[int, ...], Callable[[], Any]]]


def write(stream: IO[bytes], parts: Parts, metadata: Mapping[str, str] | None = None) -> None:
    """Write a file: widest elements first, so that every tensor starts at a whole element."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    order = sorted(parts, key=lambda name: -parts[name][0].itemsize)
    at = 0
    for name in order:
        dtype, shape, _ = parts[name]
        size = math.prod(shape) * dtype.itemsize
        header[name] = {"dtype": NAMES[dtype], "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > _MOST_HEADER:
        raise ValueError(f"the header would take {len(text)} bytes; safetensors allows {_MOST_HEADER}")
    stream.write(len(text).to_bytes(8, "little"))
    stream.write(text)
    for name in order:
        data = parts[name][2]()
        if data.size:
            elements: Any = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
            stream.write(memoryview(elements))


def _parts(tensors: Mapping[str, Any]) -> Parts:
    parts: dict[str, Any] = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, TensorBase):
            raise ValueError(f"Key `{name}` is invalid, expected Tensor but received {type(tensor).__name__}")
        dtype = dtypes.of(tensor.array.dtype)
        if dtype not in NAMES:
            raise ValueError(f"{name}: safetensors has no dtype for {dtype}; convert it first")
        parts[str(name)] = (dtype, tuple(tensor.array.shape), lambda x=tensor: concrete(x, "save"))
    return parts


def save_file(
    tensors: Mapping[str, Any], filename: str | os.PathLike[str], metadata: Mapping[str, str] | None = None
) -> None:
    """Write named tensors to a safetensors file; an old file is replaced in one step.

    Examples
    --------
    >>> import tempfile, os
    >>> from adjoint.serialization.safetensors import load_file, save_file
    >>> path = os.path.join(tempfile.mkdtemp(), "two.safetensors")
    >>> save_file({"w": adjoint.ones(2, dtype=adjoint.bfloat16)}, path)
    >>> load_file(path)
    {'w': tensor([1., 1.], dtype=adjoint.bfloat16)}
    """
    parts = _parts(tensors)
    with replacing(filename) as stream:
        write(stream, parts, metadata)


def save(tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None) -> bytes:
    """Return named tensors as the bytes of a safetensors file."""
    stream = io.BytesIO()
    write(stream, _parts(tensors), metadata)
    return stream.getvalue()


def load_file(filename: Any, device: Any = "cpu", mmap: bool = False) -> dict[str, Any]:
    """Return the named tensors of a safetensors file."""
    with opened(filename, mmap) as source:
        _, entries = read_header(source)
        return {name: _tensor(source, entry, device) for name, entry in entries.items()}


def load(data: bytes) -> dict[str, Any]:
    """Return the named tensors in the bytes of a safetensors file."""
    return load_file(io.BytesIO(data))


def _tensor(source: Source, entry: Entry, device: Any) -> Any:
    return create.finish(devices.place_array(array_of(source, entry), devices.as_device(device)))


class safe_open:
    """A safetensors file whose tensors are read one by one; a context.

    Examples
    --------
    >>> import tempfile, os
    >>> from adjoint.serialization.safetensors import safe_open, save_file
    >>> path = os.path.join(tempfile.mkdtemp(), "one.safetensors")
    >>> save_file({"w": adjoint.arange(3)}, path)
    >>> with safe_open(path) as f:
    ...     f.get_tensor("w")
    tensor([0, 1, 2])
    """

    def __init__(self, filename: str | os.PathLike[str], framework: str = "pt", device: Any = "cpu") -> None:
        self._opening = opened(filename)
        self._source = self._opening.__enter__()
        self._metadata, self._entries = read_header(self._source)
        self._device = device

    def __enter__(self) -> safe_open:
        return self

    def __exit__(self, *error: Any) -> None:
        self._opening.__exit__(None, None, None)

    def keys(self) -> list[str]:
        """Return the names of the tensors."""
        return sorted(self._entries)

    def metadata(self) -> dict[str, str] | None:
        """Return what the file says about itself."""
        return self._metadata or None

    def get_tensor(self, name: str) -> Any:
        """Return one tensor."""
        if name not in self._entries:
            raise KeyError(f"File does not contain tensor {name}")
        return _tensor(self._source, self._entries[name], self._device)

    def get_slice(self, name: str) -> Any:
        """Return what can be indexed to get a part of a tensor."""
        return self.get_tensor(name)


# --- Models and shards ------------------------------------------------------------------------------


def save_model(model: Any, filename: Any, metadata: Mapping[str, str] | None = None) -> None:
    """Write a module's state; of tensors that are the same memory one is written, and the others are noted."""
    kept: dict[str, Any] = {}
    noted = dict(metadata or {})
    first: dict[Any, str] = {}
    for name, tensor in model.state_dict().items():
        array = tensor.array
        key = (address_of(array), tuple(array.shape), tuple(array.strides)) if array.size else name
        if key in first:
            noted[name] = first[key]
        else:
            first[key] = name
            kept[name] = tensor
    save_file(kept, filename, noted or None)


def load_model(model: Any, filename: Any, strict: bool = True, device: Any = "cpu") -> tuple[list[str], list[str]]:
    """Fill a module from a file that `save_model` wrote; return the names missing and those not expected."""
    with opened(filename) as source:
        metadata, entries = read_header(source)
        state = {name: _tensor(source, entry, device) for name, entry in entries.items()}
    state |= {name: state[first] for name, first in metadata.items() if first in state and name not in state}
    found = model.load_state_dict(state, strict=strict)
    return list(found.missing_keys), list(found.unexpected_keys)


def load_sharded(path: str | os.PathLike[str], device: Any = "cpu", mmap: bool = False) -> dict[str, Any]:
    """Return the named tensors of a checkpoint in several files, as Hugging Face writes them.

    Parameters
    ----------
    path
        The index file (``model.safetensors.index.json``), or the folder that has it or one ``*.safetensors``.
    device
        Where the tensors shall be.
    mmap
        Whether to map the files, so that only what is used is read.
    """
    path = os.fspath(path)
    if os.path.isdir(path):
        path = _checkpoint_in(path)
    if not path.endswith(".json"):
        return load_file(path, device, mmap)
    with open(path, "rb") as stream:
        index = parsed_json(stream.read(_MOST_HEADER))
    places = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(places, dict) or not all(isinstance(v, str) for v in places.values()):
        raise FileFormatError(f"{path}: no weight_map of names to files")
    shards: dict[str, list[str]] = {}
    for name, shard in places.items():
        shards.setdefault(shard, []).append(name)
    state: dict[str, Any] = {}
    for shard in sorted(shards):
        state |= _from_shard(path, shard, shards[shard], device, mmap)
    return {name: state[name] for name in places}


def _checkpoint_in(folder: str) -> str:
    found = sorted(os.listdir(folder))
    for ending in (".safetensors.index.json", ".safetensors"):
        candidates = [name for name in found if name.endswith(ending)]
        if len(candidates) == 1:
            return os.path.join(folder, candidates[0])
    raise FileNotFoundError(f"{folder} has neither one *.safetensors.index.json nor one *.safetensors")


def _from_shard(index: str, shard: str, names: Iterable[str], device: Any, mmap: bool) -> dict[str, Any]:
    if shard != os.path.basename(shard) or shard in ("", ".", "..") or "\\" in shard or not shard.isprintable():
        raise FileFormatError(f"{index} names {shard!r}: a shard must be in the folder of its index")
    with opened(os.path.join(os.path.dirname(index), shard), mmap) as source:
        _, entries = read_header(source)
        missing = [name for name in names if name not in entries]
        if missing:
            raise FileFormatError(f"{shard} has no {', '.join(missing[:3])}, although the index lists it")
        return {name: _tensor(source, entries[name], device) for name in names}
