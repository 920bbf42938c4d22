"""Sharded checkpoints: each process writes a safetensors file, and one manifest says what is where.

The manifest comes last, by one rename: whenever a job dies, the folder holds the old checkpoint or the new one.
Tensors that every rank has are written once, by the rank with least to write; parts by the rank that has them.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
from collections.abc import Iterator
from typing import Any

import numpy as np

from ...core import device as devices
from ...core import dtypes
from ...core.tensor import TensorBase, note_write
from ...futures import Future
from ...ops.convert import concrete
from ...serialization import load as load_file
from ...serialization import save as save_file
from ...serialization.safetensors import NAMES, array_of, parsed_json, read_header, write
from ...serialization.sources import FileFormatError, opened, replacing
from ..collectives import barrier
from ..groups import is_initialized, resolved
from ..objects import all_gather_object, broadcast_object_list
from ..shards import ShardedParameter

__all__ = [
    "CheckpointException", "FileSystemReader", "FileSystemWriter", "Leaf", "async_save", "exists", "leaves_of", "load",
    "save",
]  # fmt: skip


class Leaf:
    """A value in nested dicts and lists: its name is its path."""

    def __init__(self, path: tuple[Any, ...], holder: Any, value: Any) -> None:
        self.path, self.holder, self.value = path, holder, value
        self.name = ".".join(map(str, path))

    @property
    def is_tensor(self) -> bool:
        """Whether it is a tensor, whole or in part."""
        return isinstance(self.value, TensorBase)

    @property
    def is_part(self) -> bool:
        """Whether it is sharded: every rank has a different part."""
        return isinstance(self.value, ShardedParameter)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the whole tensor."""
        return tuple(self.value.full_shape if self.is_part else self.value.array.shape)

    @property
    def start(self) -> int:
        """The offset of its first element in the whole tensor."""
        return int(self.value.start) if self.is_part else 0

    def replace(self, value: Any) -> None:
        """Replace the value."""
        self.holder[self.path[-1]] = value


def leaves_of(state_dict: dict[str, Any]) -> list[Leaf]:
    """Return the leaves of nested dicts and lists; an object with a ``state_dict()`` counts as that dict."""
    found = list(_leaves(state_dict, ()))
    names = [leaf.name for leaf in found]
    if len(set(names)) != len(names):
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"two values of the state dict have the same name: {', '.join(twice[:3])}")
    return found


def _leaves(holder: Any, path: tuple[Any, ...]) -> Iterator[Leaf]:
    for key, value in holder.items() if isinstance(holder, dict) else enumerate(holder):
        way = (*path, key)
        if isinstance(value, dict | list) and value:
            yield from _leaves(value, way)
        else:
            yield Leaf(way, holder, value)


_MANIFEST = "manifest.json"
_OURS = re.compile(r"[0-9a-f]{12}-\d+(-values)?\.safetensors")  # a token and a rank; other files are not ours
_FORMAT = "adjoint distributed checkpoint 1"


class CheckpointException(RuntimeError):
    """Some rank could not write or read its part of a checkpoint."""


class FileSystemWriter:
    """Where a checkpoint is written: a folder."""

    def __init__(self, path: Any, *args: Any, **kwargs: Any) -> None:
        self.path = path


class FileSystemReader(FileSystemWriter):
    """Where a checkpoint is read from: a folder."""


def _folder(checkpoint_id: Any, place: Any) -> str:
    path = checkpoint_id if checkpoint_id is not None else getattr(place, "path", None)
    if path is None:
        raise ValueError("where? name the folder: checkpoint_id=...")
    return os.fspath(path)


def exists(checkpoint_id: Any) -> bool:
    """Return whether a folder holds a complete checkpoint."""
    return os.path.isfile(os.path.join(os.fspath(checkpoint_id), _MANIFEST))


def _resolved(state_dict: dict[str, Any]) -> dict[str, Any]:
    """Return a state dict with the state of objects in place of the objects."""
    return {k: v.state_dict() if hasattr(v, "state_dict") else v for k, v in state_dict.items()}


# --- Writing ----------------------------------------------------------------------------------------


def save(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Any = None,
    storage_writer: Any = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
    use_collectives: bool = True,
) -> dict[str, Any]:
    """Write a state dict to a folder; every rank calls this, each with its own parts.

    Parameters
    ----------
    state_dict
        Nested dicts and lists of tensors, parts of tensors and plain values; or objects that have a ``state_dict()``.
        What only one rank has (its random state) goes under a name that only that rank uses.
    checkpoint_id
        The folder. A checkpoint that is there is replaced in one step.

    Returns
    -------
    dict
        The manifest.
    """
    folder = _folder(checkpoint_id, storage_writer)
    group = None if no_dist or not is_initialized() else resolved(process_group)
    rank = 0 if group is None else group.rank()
    leaves = leaves_of(_resolved(state_dict))
    plan = _plan(leaves, group)
    token = [secrets.token_hex(6)]
    if group is not None:
        broadcast_object_list(token, group=group, group_src=0)
    trouble = None
    try:
        os.makedirs(folder, exist_ok=True)
        _write_own(leaves, plan, rank, os.path.join(folder, f"{token[0]}-{rank}"))
    except Exception as error:
        trouble = f"rank {rank}: {type(error).__name__}: {error}"
    _agree(trouble, group)
    manifest = _manifest(plan, token[0])
    if rank == 0:
        with replacing(os.path.join(folder, _MANIFEST)) as stream:
            stream.write(json.dumps(manifest).encode())
        _sweep(folder, token[0])
    if group is not None:
        barrier(group)
    return manifest


def async_save(state_dict: dict[str, Any], **options: Any) -> Future[Any]:
    """Write a checkpoint as `save` does, before this returns; the future is there for programs that wait for it."""
    future: Future[Any] = Future()
    future.set_result(save(state_dict, **options))
    return future


def _plan(leaves: list[Leaf], group: Any) -> list[list[dict[str, Any]]]:
    """Return what each rank writes."""
    mine = [
        {"name": leaf.name, "tensor": leaf.is_tensor, "part": leaf.is_part}
        | (
            {"shape": list(leaf.shape), "start": leaf.start, "size": int(leaf.value.array.size)}
            if leaf.is_tensor
            else {}
        )
        | ({"dtype": NAMES[dtypes.of(leaf.value.array.dtype)]} if leaf.is_tensor else {})
        for leaf in leaves
    ]
    every: list[Any] = [mine]
    if group is not None:
        every = [None] * group.size()
        all_gather_object(every, mine, group)
    written: list[list[dict[str, Any]]] = [[] for _ in every]
    held = [sum(entry["size"] for entry in entries if entry["part"]) for entries in every]
    holders: dict[str, list[int]] = {}
    described: dict[str, dict[str, Any]] = {}
    for rank, entries in enumerate(every):
        for entry in entries:
            name = entry["name"]
            first = described.setdefault(name, entry)
            if entry["part"]:
                written[rank].append(entry)
            elif entry["tensor"] and (entry["shape"] != first.get("shape") or first["part"]):
                raise ValueError(
                    f"{name} is {entry['shape']} on rank {rank}, and {first.get('shape')} on another: whole tensors "
                    "must be the same everywhere; for sharded models use checkpoint.state_dict.get_state_dict"
                )
            else:
                holders.setdefault(name, []).append(rank)
    for name, ranks in holders.items():
        chosen = min(ranks, key=lambda rank: held[rank]) if described[name]["tensor"] else ranks[0]
        held[chosen] += described[name].get("size", 0)
        written[chosen].append(described[name])
    return written


def _write_own(leaves: list[Leaf], plan: list[list[dict[str, Any]]], rank: int, path: str) -> None:
    by_name = {leaf.name: leaf for leaf in leaves}
    parts, values = {}, {}
    for entry in plan[rank]:
        value = by_name[entry["name"]].value
        if not entry["tensor"]:
            values[entry["name"]] = value
        elif entry["size"]:
            data = lambda value=value: concrete(value, "save").reshape(-1)
            parts[entry["name"]] = (dtypes.of(value.array.dtype), (entry["size"],), data)
    with replacing(f"{path}.safetensors") as stream:
        write(stream, parts)
    if values:
        save_file(values, f"{path}-values.safetensors")


def _agree(trouble: str | None, group: Any) -> None:
    """Raise on every rank if one rank failed."""
    every: list[Any] = [trouble]
    if group is not None:
        every = [None] * group.size()
        all_gather_object(every, trouble, group)
    told = [said for said in every if said]
    if told:
        raise CheckpointException("the checkpoint is not complete, the one before still stands: " + "; ".join(told))


def _manifest(plan: list[list[dict[str, Any]]], token: str) -> dict[str, Any]:
    tensors: dict[str, Any] = {}
    values: dict[str, str] = {}
    for rank, entries in enumerate(plan):
        for entry in entries:
            if not entry["tensor"]:
                values[entry["name"]] = f"{token}-{rank}-values.safetensors"
                continue
            said = tensors.setdefault(entry["name"], {"dtype": entry["dtype"], "shape": entry["shape"], "pieces": []})
            if entry["size"]:
                piece = {"file": f"{token}-{rank}.safetensors", "start": entry["start"], "size": entry["size"]}
                said["pieces"].append(piece)
    return {"format": _FORMAT, "world_size": len(plan), "tensors": tensors, "values": values}


def _sweep(folder: str, token: str) -> None:
    """Remove the files of earlier checkpoints: no manifest names them any more."""
    for name in os.listdir(folder):
        if _OURS.fullmatch(name) and not name.startswith(f"{token}-"):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, name))


# --- Reading ----------------------------------------------------------------------------------------


def load(
    state_dict: dict[str, Any],
    *,
    checkpoint_id: Any = None,
    storage_reader: Any = None,
    planner: Any = None,
    process_group: Any = None,
    no_dist: bool = False,
) -> None:
    """Fill a state dict from a checkpoint, whatever number of processes wrote it.

    Tensors are written in place, each rank's parts from whatever files contain them; other values are replaced. Objects
    with a ``load_state_dict`` method receive their state by it. If an entry is missing, nothing is written.
    """
    folder = _folder(checkpoint_id, storage_reader)
    manifest = _read_manifest(folder)
    states = _resolved(state_dict)
    leaves = leaves_of(states)
    missing = [leaf.name for leaf in leaves if leaf.name not in manifest["tensors" if leaf.is_tensor else "values"]]
    if missing:
        raise KeyError(f"the checkpoint in {folder} has no {', '.join(missing[:5])}")
    with _Files(folder) as files:
        found = [
            _parts_of(leaf, manifest["tensors"][leaf.name], files)
            if leaf.is_tensor
            else files.value(manifest["values"][leaf.name], leaf.name)
            for leaf in leaves
        ]
        for leaf, what in zip(leaves, found, strict=True):
            if leaf.is_tensor:
                _fill(leaf, what)
            else:
                leaf.replace(what)
    for key, held in state_dict.items():
        if hasattr(held, "load_state_dict"):
            held.load_state_dict(states[key])
        elif not isinstance(held, dict | list):
            state_dict[key] = states[key]


def _read_manifest(folder: str) -> dict[str, Any]:
    path = os.path.join(folder, _MANIFEST)
    if not os.path.isfile(path):
        raise FileNotFoundError(f"{folder} holds no whole checkpoint: it has no {_MANIFEST}")
    with open(path, "rb") as stream:
        said = parsed_json(stream.read())
    if not isinstance(said, dict) or said.get("format") != _FORMAT:
        raise FileFormatError(f"{path} is no manifest of this format")
    tensors, values = said.get("tensors"), said.get("values")
    if not isinstance(tensors, dict) or not isinstance(values, dict) or not all(map(_described, tensors.values())):
        raise FileFormatError(f"{path} does not say where the tensors and values are")
    return said


def _described(said: Any) -> bool:
    """Return whether a manifest describes a tensor: its shape, and pieces with file, start and size."""
    if not isinstance(said, dict) or not _counts(said.get("shape")) or not isinstance(said.get("pieces"), list):
        return False
    return all(isinstance(p, dict) and _counts([p.get("start"), p.get("size")]) and "file" in p for p in said["pieces"])


def _counts(numbers: Any) -> bool:
    return isinstance(numbers, list) and all(type(n) is int and 0 <= n < 2**62 for n in numbers)


class _Files:
    """The files of a checkpoint, each opened once."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._stack = contextlib.ExitStack()
        self._open: dict[str, Any] = {}
        self._values: dict[str, Any] = {}

    def __enter__(self) -> _Files:
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    def _path(self, name: Any) -> str:
        beside = isinstance(name, str) and name == os.path.basename(name) and name.isprintable()
        if not beside or not name.endswith(".safetensors"):
            raise FileFormatError(f"the manifest names {name!r}: the files of a checkpoint must be in its folder")
        return os.path.join(self.folder, name)

    def tensor(self, file: str, name: str) -> Any:
        """Return the elements of a tensor in a file, mapped."""
        path = self._path(file)
        if file not in self._open:
            source = self._stack.enter_context(opened(path, True))
            self._open[file] = (source, read_header(source)[1])
        source, entries = self._open[file]
        if name not in entries:
            raise FileFormatError(f"{file} has no {name}, although the manifest lists it")
        return array_of(source, entries[name]).reshape(-1)

    def value(self, file: str, name: str) -> Any:
        """Return a plain value."""
        path = self._path(file)
        if file not in self._values:
            self._values[file] = load_file(path)
        held = self._values[file]
        if not isinstance(held, dict) or name not in held:
            raise FileFormatError(f"{file} has no {name}, although the manifest lists it")
        return held[name]


def _parts_of(leaf: Leaf, said: dict[str, Any], files: _Files) -> list[tuple[int, Any]]:
    """Return the elements that a leaf holds: mapped parts that follow each other without a hole, and where they go."""
    if tuple(said["shape"]) != leaf.shape:
        raise ValueError(f"{leaf.name} is {list(leaf.shape)}, and {said['shape']} in the checkpoint")
    parts: list[tuple[int, Any]] = []
    at, size = leaf.start, int(leaf.value.array.size)
    for piece in sorted(said["pieces"], key=lambda piece: piece["start"]):
        first, last = piece["start"], piece["start"] + piece["size"]
        end = min(leaf.start + size, last)
        if first > at or end <= at:
            continue
        data = files.tensor(piece["file"], leaf.name)
        if data.size != piece["size"]:
            raise FileFormatError(f"{leaf.name}: {piece['file']} has {data.size} elements of {piece['size']}")
        parts.append((at - leaf.start, data[at - first : end - first]))
        at = end
    if at != leaf.start + size:
        raise FileFormatError(f"{leaf.name}: the checkpoint has {at - leaf.start} of the {size} elements wanted here")
    return parts


def _fill(leaf: Leaf, parts: list[tuple[int, Any]]) -> None:
    """Write the elements that a leaf holds."""
    tensor = leaf.value
    array = np.empty(tensor.array.size, tensor.array.dtype)
    for at, data in parts:
        array[at : at + data.size] = data
    tensor.array[...] = devices.place_array(array.reshape(tensor.array.shape), devices.of(tensor.array))
    note_write(tensor, "load")
