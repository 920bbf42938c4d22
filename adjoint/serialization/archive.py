"""PyTorch's files, read without PyTorch and without running what is in them."""

from __future__ import annotations

import codecs
import struct
import zipfile
from collections.abc import Callable
from typing import Any

from ..ops.memory import UntypedStorage
from .allowed import Storage, StorageKind, storage_of
from .extents import Placement
from .kinds import added_by_name
from .machine import UNKNOWN, Machine
from .sources import FileFormatError, Source

__all__ = ["names_refused", "read_archive", "read_stream"]

codecs.lookup("cp437")  # zipfile decodes names with it: nothing is imported because of a file
_MAGIC = 0x1950A86A20F9469CFC6C
_MOST_STRUCTURE = 1 << 30  # bytes of pickle


class _Archive:
    """The records of a zip file: stored as they are, inside the file, and together no longer than it."""

    def __init__(self, source: Source) -> None:
        self.source = source
        try:
            archive = zipfile.ZipFile(_Window(source))  # type: ignore[arg-type]
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError, struct.error, EOFError) as error:
            raise FileFormatError(f"the zip archive is damaged or cut short: {error}") from None
        self.records = {info.filename: info for info in archive.infolist()}
        if len(self.records) != len(archive.infolist()):
            raise FileFormatError("two records of the archive have the same name")
        if sum(info.file_size for info in archive.infolist()) > source.size:
            raise FileFormatError("the archive's records are longer than the archive")
        found = [name for name in self.records if name.rpartition("/")[2] == "data.pkl"]
        if len(found) != 1:
            raise FileFormatError("not a file of torch.save: no data.pkl in the zip archive")
        self.folder = found[0][: -len("data.pkl")]
        if f"{self.folder}constants.pkl" in self.records:
            raise FileFormatError(
                "this is a TorchScript archive, which holds a program; save the model's state_dict() with torch.save"
            )
        if self.has("byteorder") and self.read("byteorder") != b"little":
            raise FileFormatError("the file was written on a big-endian machine")

    def has(self, name: str) -> bool:
        """Return whether there is such a record."""
        return self.folder + name in self.records

    def place(self, name: str) -> tuple[int, int]:
        """Return where a record's bytes begin, and how many they are."""
        info = self.records.get(self.folder + name)
        if info is None:
            raise FileFormatError(f"the archive has no record {name!r:.60}")
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size or info.flag_bits & 1:
            raise FileFormatError(f"the record {name!r:.60} is compressed or encrypted, which torch.save never does")
        header = self.source.bytes_at(info.header_offset, 30)
        if header[:4] != b"PK\3\4" or header[8:10] != b"\0\0":
            raise FileFormatError(f"the record {name!r:.60} is not at the offset that the archive gives")
        named, extra = struct.unpack("<HH", header[26:])
        return info.header_offset + 30 + named + extra, info.file_size

    def read(self, name: str) -> bytes:
        """Return a record."""
        begin, size = self.place(name)
        if size > _MOST_STRUCTURE:
            raise FileFormatError(f"{name} has {size} bytes")
        return self.source.bytes_at(begin, size)


class _Window:
    """The file from the source's start on, for the reader of zip directories."""

    def __init__(self, source: Source) -> None:
        self._source, self._at = source, 0

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to an offset."""
        at = offset + (0, self._at, self._source.size)[whence]
        if at < 0:
            raise OSError("before the start of the file")
        self._at = at
        return at

    def tell(self) -> int:
        """Return the offset."""
        return self._at

    def read(self, size: int = -1) -> bytes:
        """Return bytes."""
        left = max(self._source.size - self._at, 0)
        data = self._source.bytes_at(self._at, left if size < 0 else min(size, left)) if left else b""
        self._at += len(data)
        return data

    def seekable(self) -> bool:
        """Return True."""
        return True


def _described(key: Any) -> tuple[StorageKind, str, str, int]:
    """Return the kind, name, location and element count that a pickle says of a storage."""
    good = isinstance(key, tuple) and len(key) in (5, 6) and key[0] in ("storage", b"storage")
    if not good or not isinstance(key[1], StorageKind):
        raise FileFormatError("the pickle describes a storage in an unknown way")
    _, kind, name, location, count = key[:5]
    if not isinstance(name, str) or not isinstance(location, str) or type(count) is not int or count < 0:
        raise FileFormatError("the pickle describes a storage in an unknown way")
    return kind, name, location, count


def _check_size(name: str, count: int, kind: StorageKind, size: int) -> None:
    wanted = count * (kind.dtype.itemsize if kind.dtype else 1)
    if wanted != size:
        raise FileFormatError(f"storage {name!r:.40} shall have {wanted} bytes and has {size}")


def read_archive(source: Source, place: Placement) -> Any:
    """Return the object in a zip file of ``torch.save``."""
    return _machine(source, place).run()


def _machine(source: Source, place: Placement) -> Machine:
    data, storage = storages_in(source, place)
    return Machine(data, 0, storage, added_by_name())


def storages_in(source: Source, place: Placement) -> tuple[bytes, Callable[[Any], Storage]]:
    """Return the pickle in a zip file, and what gives the storages that it names."""
    archive = _Archive(source)
    read: dict[str, UntypedStorage] = {}
    made: dict[tuple[str, Any], Storage] = {}

    def storage(key: Any) -> Storage:
        kind, name, location, count = _described(key)
        found = made.get((name, kind.dtype))
        begin, size = archive.place(f"data/{name}")
        _check_size(name, count, kind, size)
        if found is None:
            if name not in read:
                read[name] = UntypedStorage.over(place(source.aligned_at(begin, size), location))
            found = made[name, kind.dtype] = storage_of(read[name], kind.dtype)
        return found

    return archive.read("data.pkl"), storage


def names_refused(source: Source, place: Placement) -> list[str]:
    """Return the names in a file that loading refuses."""
    machine = _machine(source, place)
    try:
        machine.run()
    except FileFormatError:
        pass
    return list(machine.refused)


# --- Before the zip files ---------------------------------------------------------------------------


def read_stream(source: Source, place: Placement) -> Any:
    """Return the object in a file of ``torch.save`` before version 1.6: pickles, then the storages' bytes."""
    data = source.bytes_at(0, min(source.size, _MOST_STRUCTURE))
    first = Machine(data)
    if first.run() != _MAGIC:
        raise FileFormatError(
            "the file is a pickle, but not one of torch.save. What pickle.dump wrote only pickle.load reads, and that "
            "runs what is in it: load(f, weights_only=False, pickle_module=pickle), if you trust the file"
        )
    at = first.at
    for _ in range(2):  # the format's version, the machine it was written on
        machine = Machine(data, at)
        said = machine.run()
        at = machine.at
    if isinstance(said, dict) and said.get("little_endian") is False:
        raise FileFormatError("the file was written on a big-endian machine")
    kinds: dict[str, tuple[StorageKind, str]] = {}

    def noted(key: Any) -> Any:
        kind, name, location, _ = _described(key)
        kinds[name] = (kind, location)
        return UNKNOWN

    # The storages come after the pickle that needs them: the first run learns which, the second uses them.
    machine = Machine(data, at, noted, added_by_name())
    machine.run()
    stored = _stored(source, Machine(data, machine.at), kinds, place)
    return Machine(data, at, lambda key: stored[_described(key)[1]], added_by_name()).run()


def _stored(
    source: Source, names: Machine, kinds: dict[str, tuple[StorageKind, str]], place: Placement
) -> dict[str, Storage]:
    """Return the storages that follow a list of their names."""
    stored: dict[str, Storage] = {}
    order = names.run()
    named = isinstance(order, list) and all(isinstance(name, str) for name in order)
    if not named or sorted(order) != sorted(kinds):
        raise FileFormatError("the storages in the file are not those that its pickle names")
    at = names.at
    for name in order:
        kind, location = kinds[name]
        size = int.from_bytes(source.bytes_at(at, 8), "little") * (kind.dtype.itemsize if kind.dtype else 1)
        memory = place(source.aligned_at(at + 8, size), location)
        stored[name] = storage_of(UntypedStorage.over(memory), kind.dtype)
        at += 8 + size
    return stored
