"""Hostile and damaged files: one clear error, nothing imported, nothing run, nothing large allocated."""

from __future__ import annotations

import io
import json
import os
import pickle
import random
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import adjoint
from adjoint.serialization import FileFormatError


def archive(data: bytes, storages: dict[str, bytes] | None = None, compress: int = zipfile.ZIP_STORED) -> bytes:
    """Return a file like torch's with any pickle in it."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compress) as made:
        made.writestr("archive/data.pkl", data)
        for name, content in (storages or {}).items():
            made.writestr(f"archive/data/{name}", content)
        made.writestr("archive/version", "3\n")
    return stream.getvalue()


class _Reduced:
    def __init__(self, *reduced: Any) -> None:
        self.reduced = reduced

    def __reduce__(self) -> Any:
        return self.reduced


def storage(kind: str, key: str, count: int, location: str = "cpu") -> bytes:
    """Return the opcodes that name a storage."""
    number = b"\x8a\x08" + struct.pack("<q", count)
    said = (f"X{{}}storagectorch\n{kind}\nX{{}}{key}X{{}}{location}").encode()
    said = said.replace(b"X{}storage", b"X" + struct.pack("<I", 7) + b"storage", 1)
    said = said.replace(b"X{}" + key.encode(), b"X" + struct.pack("<I", len(key)) + key.encode(), 1)
    said = said.replace(b"X{}" + location.encode(), b"X" + struct.pack("<I", len(location)) + location.encode(), 1)
    return b"(" + said + number + b"tQ"


def integers(*values: int) -> bytes:
    return b"(" + b"".join(b"\x8a\x08" + struct.pack("<q", v) for v in values) + b"t"


def tensor(stored: bytes, offset: int, size: tuple[int, ...], stride: tuple[int, ...]) -> bytes:
    """Return a pickle of one tensor."""
    return (
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(" + stored + b"\x8a\x08" + struct.pack("<q", offset)
        + integers(*size) + integers(*stride) + b"\x89ccollections\nOrderedDict\n)RtR."
    )  # fmt: skip


PICKLES: dict[str, bytes] = {
    "os.system": b"\x80\x02cos\nsystem\nX\x08\x00\x00\x00touch /x\x85R.",
    "posix.system by STACK_GLOBAL": b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R.",
    "INST": b"(S'true'\nios\nsystem\n.",
    "OBJ": b"(cos\nsystem\nX\x04\x00\x00\x00trueo.",
    "eval": pickle.dumps(_Reduced(eval, ("1",))),
    "exec": pickle.dumps(_Reduced(exec, ("1",))),
    "import": pickle.dumps(_Reduced(__import__, ("antigravity",))),
    "getattr": b"\x80\x02cbuiltins\ngetattr\n.",
    "subprocess": pickle.dumps(_Reduced(subprocess.Popen, (["true"],))),
    "dotted name": b"\x80\x04\x8c\x08builtins\x8c\x0ceval.__call__\x93\x8c\x011\x85R.",
    "NEWOBJ": b"\x80\x02csubprocess\nPopen\n)\x81.",
    "NEWOBJ_EX": b"\x80\x04csubprocess\nPopen\n)}\x92.",
    "BUILD with a __setstate__": b"\x80\x02ccollections\nOrderedDict\n)R}X\x0c\x00\x00\x00__setstate__"
    b"cos\nsystem\nsbX\x04\x00\x00\x00trueb.",
    "BUILD of a list": b"\x80\x02]}X\x01\x00\x00\x00aK\x01sb.",
    "EXT1": b"\x80\x02\x82\x01.",
    "PERSID": b"Pstorage\n.",
    "persistent outside": b"\x80\x02X\x01\x00\x00\x00aQ.",
    "SETITEM on a list": b"\x80\x02]K\x00K\x01s.",
    "SETITEM on a tensor": tensor(storage("FloatStorage", "0", 2), 0, (2,), (1,))[:-1] + b"K\x00K\x01s.",
    "APPEND to a dict": b"\x80\x02}K\x00a.",
    "a call of a dict": b"\x80\x02}K\x00\x85R.",
    "a call of a dtype": b"\x80\x02ctorch\nfloat32\nK\x00\x85R.",
    "a call of a storage class": b"\x80\x02ctorch\nFloatStorage\nK\x00\x85R.",
    "tensor of no storage": b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(K\x00K\x00))\x89NtR.",
    "torch.load inside": b"\x80\x02ctorch.storage\n_load_from_bytes\nC\x01a\x85R.",
    "numpy.load": b"\x80\x02cnumpy\nload\nX\x01\x00\x00\x00a\x85R.",
    "object dtype": b"\x80\x02cnumpy\ndtype\nX\x02\x00\x00\x00O8\x89\x88\x87R.",
    "structured dtype": b"\x80\x02cnumpy\ndtype\nX\x05\x00\x00\x00f8,O8\x89\x88\x87R.",
    "huge string dtype": b"\x80\x02cnumpy\ndtype\nX\x0b\x00\x00\x00S9999999999\x89\x88\x87R.",
    "huge range in a list": b"\x80\x02cbuiltins\nlist\ncbuiltins\nrange\nJ\xff\xff\xff\x7f\x85R\x85R.",
    "huge bytes": b"\x80\x02cbuiltins\nbytes\nJ\xff\xff\xff\x7f\x85R.",
    "huge bytearray": b"\x80\x02cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85R.",
    "huge text": b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b"a.",
    "huge BYTEARRAY8": b"\x80\x05\x96" + struct.pack("<Q", 2**62) + b"a.",
    "huge integer": b"\x80\x02\x8b" + struct.pack("<I", 2**31) + b"a.",
    "long integer in digits": b"I" + b"9" * 900 + b"\n.",
    "tower of tuples for a key": b"\x80\x02})" + b"q\x00h\x00\x86" * 60 + b"K\x01s.",
    "tensor as a key": b"\x80\x02}" + tensor(storage("FloatStorage", "0", 2), 0, (2,), (1,))[2:-1] + b"K\x01s.",
    "offset outside": tensor(storage("FloatStorage", "0", 2), 1, (2,), (1,)),
    "stride outside": tensor(storage("FloatStorage", "0", 2), 0, (2,), (2,)),
    "negative stride": tensor(storage("FloatStorage", "0", 2), 1, (2,), (-1,)),
    "negative offset": tensor(storage("FloatStorage", "0", 2), -1, (2,), (1,)),
    "negative size": tensor(storage("FloatStorage", "0", 2), 0, (-2,), (1,)),
    "overflowing size": tensor(storage("FloatStorage", "0", 2), 0, (2**61, 2**61), (0, 0)),
    "huge size": tensor(storage("FloatStorage", "0", 2), 0, (2**40,), (1,)),
    "size and stride differ": tensor(storage("FloatStorage", "0", 2), 0, (2,), (1, 1)),
    "storage shorter than said": tensor(storage("FloatStorage", "0", 2**40), 0, (2,), (1,)),
    "storage of another type": tensor(storage("DoubleStorage", "0", 2), 0, (2,), (1,)),
    "negative count": tensor(storage("FloatStorage", "0", -1), 0, (0,), (1,)),
    "storage that is not there": tensor(storage("FloatStorage", "7", 2), 0, (2,), (1,)),
    "storage by a path": tensor(storage("FloatStorage", "../data.pkl", 2), 0, (2,), (1,)),
    "storage on a strange device": tensor(storage("FloatStorage", "0", 2, "__import__('os')"), 0, (2,), (1,)),
    "bools of other bytes": tensor(storage("BoolStorage", "0", 8), 0, (8,), (1,)),
    "a mark for a value": b"\x80\x02((\x85.",
    "an empty stack": b"\x80\x02.",
    "two values": b"\x80\x02K\x01K\x02.",
    "a note that is not there": b"\x80\x02h\x05.",
    "protocol 99": b"\x80\x63K\x01.",
    "nothing": b"",
}


def assert_refused(data: bytes) -> None:
    with pytest.raises(FileFormatError):
        adjoint.load(io.BytesIO(data))


@pytest.mark.parametrize("name", PICKLES)
def test_hostile_pickles_are_refused(name: str) -> None:
    assert_refused(archive(PICKLES[name], {"0": struct.pack("<ff", 1.0, 2.0)}))
    if not name.startswith(("PERSID", "nothing")) and PICKLES[name][:1] == b"\x80":
        assert_refused(PICKLES[name])


def test_all_refused_names_are_told_at_once() -> None:
    data = b"\x80\x02]cos\nsystem\nX\x01\x00\x00\x00a\x85Racnt\nsystem\n)\x81}X\x01\x00\x00\x00aK\x01sba."
    with pytest.raises(FileFormatError, match=r"os\.system, nt\.system"):
        adjoint.load(io.BytesIO(archive(data)))


_AUDITED = """
import io, sys, pickle
sys.path.insert(0, {tests!r})
import adjoint
from serialization.test_hostile import PICKLES, archive
adjoint.load; adjoint.serialization.load
stream = io.BytesIO(); adjoint.save({{"w": adjoint.ones(2)}}, stream, format="pt")
adjoint.load(io.BytesIO(stream.getvalue()))
files = [archive(data, {{"0": bytes([2] * 8)}}) for data in PICKLES.values()]
before = set(sys.modules)
events = []
watched = ("exec", "compile", "import", "open", "os.", "subprocess.", "socket.", "pickle.", "marshal.", "ctypes.")
sys.addaudithook(lambda event, args: events.append((event, args)) if event.startswith(watched) else None)
for data in files:
    try:
        adjoint.load(io.BytesIO(data))
    except adjoint.serialization.FileFormatError:
        pass
    else:
        print("loaded", data)
print(events, set(sys.modules) - before)
"""


def test_hostile_files_import_open_and_run_nothing() -> None:
    tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    run = subprocess.run(
        [sys.executable, "-c", _AUDITED.format(tests=tests)], capture_output=True, text=True, timeout=60
    )
    assert run.stdout.strip() == "[] set()", run.stdout + run.stderr


def small_files() -> Iterator[tuple[str, bytes]]:
    for format in ("adjoint", "pt"):
        stream = io.BytesIO()
        value = {"a": adjoint.arange(3.0), "b": [1, "x", (2.5, None)], "n": adjoint.ones(2, 2).t().numpy()}
        adjoint.save(value, stream, format=format)
        yield format, stream.getvalue()


SMALL = dict(small_files())


@pytest.mark.parametrize("format", SMALL)
def test_a_file_cut_at_any_byte_is_refused(format: str) -> None:
    data = SMALL[format]
    for length in range(len(data)):
        assert_refused(data[:length])


@pytest.mark.parametrize("format", SMALL)
def test_flipped_bits_never_do_more_than_change_values(format: str) -> None:
    data, dice = SMALL[format], random.Random(0)
    for _ in range(1500):
        changed = bytearray(data)
        for _ in range(dice.choice((1, 1, 2, 8))):
            changed[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
        try:
            adjoint.load(io.BytesIO(bytes(changed)))
        except FileFormatError:
            pass


def test_nothing_large_is_allocated() -> None:
    files = [archive(data, {"0": bytes([2] * 8)}) for data in PICKLES.values()]
    files += [struct.pack("<Q", 2**40) + b"{}", safetensors_file({"a": entry([2**40], [0, 2**42])}, 4)]
    tracemalloc.start()
    try:
        for data in files:
            assert_refused(data)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


def test_zip_bombs_and_other_archives() -> None:
    good = tensor(storage("FloatStorage", "0", 250_000), 0, (2,), (1,))
    assert adjoint.load(io.BytesIO(archive(good, {"0": bytes(1_000_000)}))).tolist() == [0, 0]
    assert_refused(archive(good, {"0": bytes(1_000_000)}, zipfile.ZIP_DEFLATED))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as made:
        made.writestr("a/code/x.py", "import os")
    assert_refused(stream.getvalue())
    assert_refused(archive(good, {"0": bytes(1_000_000)}).replace(b"archive/version", b"archive/verzion")[:-30])


# --- safetensors ------------------------------------------------------------------------------------


def entry(shape: Any, offsets: Any, dtype: Any = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def safetensors_file(header: Any, size: int = 0) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(size)


HEADERS: dict[str, tuple[Any, int]] = {
    "a hole": ({"a": entry([1], [4, 8])}, 8),
    "an overlap": ({"a": entry([1], [0, 4]), "b": entry([1], [2, 6])}, 6),
    "bytes left over": ({"a": entry([1], [0, 4])}, 8),
    "bytes missing": ({"a": entry([1], [0, 4])}, 3),
    "shape too large": ({"a": entry([2], [0, 4])}, 4),
    "negative shape": ({"a": entry([-1], [0, 4])}, 4),
    "negative offsets": ({"a": entry([1], [-4, 0])}, 0),
    "offsets reversed": ({"a": entry([1], [4, 0])}, 4),
    "overflowing shape": ({"a": entry([2**62, 4], [0, 0])}, 0),
    "shape of floats": ({"a": entry([1.0], [0, 4])}, 4),
    "shape of bools": ({"a": entry([True], [0, 4])}, 4),
    "shape of text": ({"a": entry("1", [0, 4])}, 4),
    "many dimensions": ({"a": entry([1] * 100, [0, 4])}, 4),
    "unknown dtype": ({"a": entry([1], [0, 4], "F33")}, 4),
    "dtype a list": ({"a": entry([1], [0, 4], ["F32"])}, 4),
    "another field": ({"a": entry([1], [0, 4]) | {"x": 1}}, 4),
    "no fields": ({"a": {}}, 0),
    "a name twice": (b'{"__metadata__":{},"__metadata__":{}}', 0),
    "NaN": (b'{"a":NaN}', 0),
    "a list": (b"[1,2,3,4,5]", 0),
    "nested without end": (b'{"a":' + b"[" * 100_000, 0),
    "not UTF-8": (b'{"\xff\xff":1}', 0),
    "metadata of numbers": ({"__metadata__": {"a": 1}}, 0),
    "structure is no JSON": ({"__metadata__": {"adjoint.structure": "{"}}, 0),
    "structure of version 9": ({"__metadata__": {"adjoint.structure": '{"version":9,"tensors":[],"value":1}'}}, 0),
    "structure of another kind": (
        {"__metadata__": {"adjoint.structure": '{"version":1,"tensors":[],"value":{"$":"os.system"}}'}}, 0,
    ),
    "a tensor that is not there": (
        {"__metadata__": {"adjoint.structure": '{"version":1,"tensors":[{"name":"b"}],"value":1}'}}, 0,
    ),
    "a view outside": (
        {
            "__metadata__": {
                "adjoint.structure": '{"version":1,"tensors":[{"name":"a","dtype":"float32","shape":[9],"stride":[1],'
                '"offset":0}],"value":1}'
            },
            "a": entry([1], [0, 4]),
        },
        4,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADERS)
def test_malformed_safetensors_are_refused(name: str) -> None:
    header, size = HEADERS[name]
    assert_refused(safetensors_file(header, size))
    if "structure" not in name and "tensor" not in name and "view" not in name:
        with pytest.raises(FileFormatError):
            adjoint.serialization.safetensors.load(safetensors_file(header, size))


# --- Nothing that exists is changed, and work stays in proportion -----------------------------------


def _zipped(pickled: bytes, storages: dict[str, bytes] | None = None) -> io.BytesIO:
    return io.BytesIO(archive(pickled, storages))


def _text(text: str) -> bytes:
    return b"X" + struct.pack("<I", len(text)) + text.encode()


_DTYPE = b"\x80\x02cnumpy\ndtype\n(" + _text("S8") + b"\x89\x88tRq\x00"
_ARRAY = (
    b"cnumpy.core.multiarray\n_reconstruct\n(cnumpy\nndarray\nK\x00\x85C\x01btR(K\x01K\x01\x85h\x00\x89C\x0812345678tb"
)


def _state(size: int) -> bytes:
    return b"(K\x03" + _text("|") + b"NNNM" + struct.pack("<H", size) + b"K\x01K\x00tb"


def test_the_size_of_a_dtype_is_not_changed_after_an_array_was_built_on_it() -> None:
    # [array over 8 bytes, the dtype of that array with another state]
    pickled = _DTYPE + b"0](" + _ARRAY + b"h\x00" + _state(9999) + b"e."
    with pytest.raises(FileFormatError):
        adjoint.load(_zipped(pickled))
    twice = _DTYPE + _state(8) + b"0h\x00" + _state(8) + b"."
    with pytest.raises(FileFormatError, match="second time"):
        adjoint.load(_zipped(twice))
    array = adjoint.load(_zipped(_DTYPE + _state(8) + b"0" + _ARRAY + b"."))
    assert array.tolist() == [b"12345678"] and array.base.nbytes == 8


def _tower(height: int) -> bytes:
    return b"K\x01" + b"2\x86" * height  # each tuple holds the one below twice


def _copies(count: int) -> bytes:
    data = b"\x80\x02B" + struct.pack("<I", 250_000) + bytes(250_000) + b"q\x000]("
    return data + b"c__builtin__\nbytearray\nh\x00\x85R" * count + b"e."


def _colliding(count: int) -> bytes:
    keys = (n * (2**61 - 1) for n in range(2**64, 2**64 + count))
    return b"\x80\x02}(" + b"".join(b"\x8a\x11" + n.to_bytes(17, "little") + b"N" for n in keys) + b"u."


def _colliding_complex(count: int) -> bytes:
    out = b"\x80\x02}("
    for n in range(count):  # hash(a + bj) is hash(a) + 1000003 * hash(b)
        parts = struct.pack(">d", float(10**12 - 1000003 * n)), struct.pack(">d", float(n))
        out += b"c__builtin__\ncomplex\nG" + parts[0] + b"G" + parts[1] + b"\x86RN"
    return out + b"u."


def _repeated_tuple(count: int) -> bytes:
    key = b"(" + b"K\x01" * 900 + b"tq\x000"
    return b"\x80\x02" + key + b"}(" + b"h\x00N" * count + b"u."


def _long_names(count: int) -> bytes:
    return b"\x80\x04" + _text("m" * 200_000) + b"q\x000(" + b"h\x00h\x00\x93" * count + b"t."


def _tensors_of_bools(count: int) -> bytes:
    storage = (
        b"("
        + _text("storage")
        + b"ctorch\nBoolStorage\n"
        + _text("0")
        + _text("cpu")
        + b"J"
        + struct.pack("<i", 1 << 20)
    )
    tensor = b"ctorch._utils\n_rebuild_tensor\n(h\x00K\x00))tR"
    return b"\x80\x02" + storage + b"tQq\x000(" + tensor * count + b"t."


def _legacy_tower() -> bytes:
    magic = pickle.dumps(0x1950A86A20F9469CFC6C, 2)
    return (
        magic + pickle.dumps(1001, 2) + pickle.dumps({}, 2) + pickle.dumps([], 2) + b"\x80\x02](" + _tower(60) + b"e."
    )


EXHAUSTING: dict[str, Any] = {
    "a tower of tuples for a size": lambda: _zipped(
        b"\x80\x02ctorch._utils\n_rebuild_tensor\n(N" + b"K\x00" + _tower(60) + b"\x85)tR."
    ),
    "a tower of tuples for a key": lambda: _zipped(b"\x80\x02}" + _tower(60) + b"Ns."),
    "a tower of tuples for a dtype": lambda: _zipped(b"\x80\x02cnumpy\ndtype\n" + _tower(60) + b"\x85R."),
    "a tower among legacy storages": lambda: io.BytesIO(_legacy_tower()),
    "a buffer copied again and again": lambda: _zipped(_copies(12_000)),
    "integers of one hash": lambda: _zipped(_colliding(20_000)),
    "complex numbers of one hash": lambda: _zipped(_colliding_complex(20_000)),
    "one long key again and again": lambda: _zipped(_repeated_tuple(100_000)),
    "long names": lambda: _zipped(_long_names(50_000)),
}


@pytest.mark.parametrize("name", EXHAUSTING)
def test_a_small_file_takes_little_to_refuse(name: str) -> None:
    tracemalloc.start()
    try:
        file = EXHAUSTING[name]()
        size = len(file.getvalue())
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        with pytest.raises(FileFormatError):
            adjoint.load(file)
        assert tracemalloc.get_traced_memory()[1] - before < 40 * size + 2_000_000  # objects take more than their bytes
    finally:
        tracemalloc.stop()


def test_one_storage_of_bools_is_looked_at_once() -> None:
    loaded = adjoint.load(_zipped(_tensors_of_bools(20_000), {"0": bytes(1 << 20)}))
    assert len(loaded) == 20_000


@pytest.mark.parametrize("error", [MemoryError, SystemError, TypeError, ValueError, RecursionError])
def test_one_class_of_errors_leaves_load(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*args: Any) -> Any:
        raise error("inside the reader")

    monkeypatch.setattr("adjoint.serialization.archive.read_archive", failing)
    file = _zipped(b"\x80\x02N.")
    with pytest.raises(FileFormatError, match="inside the reader"):
        adjoint.load(file)


def test_errors_of_the_programs_own_map_location_are_its_own(tmp_path: Path) -> None:
    def place(storage: Any, location: str) -> Any:
        raise KeyError("mine")

    adjoint.save({"w": adjoint.ones(2)}, tmp_path / "a.pt")
    with pytest.raises(KeyError, match="mine"):
        adjoint.load(tmp_path / "a.pt", map_location=place)


def test_attributes_in_a_file_do_not_hide_methods() -> None:
    pickled = b"\x80\x02ccollections\nOrderedDict\n)R}(" + _text("items") + b"K\x05" + _text("_metadata") + b"K\x06ub."
    loaded = adjoint.load(_zipped(pickled))
    assert list(loaded.items()) == [] and loaded._metadata == 6


# --- Saving beside strangers ------------------------------------------------------------------------


def test_a_planted_link_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from adjoint.serialization import sources

    victim = tmp_path / "victim"
    victim.write_text("mine")
    monkeypatch.setattr(os, "O_TMPFILE", None, raising=False)  # as where files cannot be without a name
    monkeypatch.setattr(sources.secrets, "token_hex", lambda n: "guessed")
    beside = tmp_path / f"{sources._prefix('a.pt')}{os.getpid()}.guessed.partial"
    beside.symlink_to(victim)
    with pytest.raises(FileExistsError):
        adjoint.save({"w": adjoint.ones(2)}, tmp_path / "a.pt")
    assert victim.read_text() == "mine"


@pytest.mark.parametrize("named", [False, True])
def test_a_private_file_is_never_readable_by_others(
    named: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if named:
        monkeypatch.setattr(os, "O_TMPFILE", None, raising=False)
    path = tmp_path / "a.pt"
    path.touch(0o600)
    modes = []
    write = adjoint.serialization.pickling.write

    def watched(obj: Any, stream: Any) -> None:
        modes.append(os.fstat(stream.fileno()).st_mode & 0o777)
        write(obj, stream)

    monkeypatch.setattr("adjoint.serialization.pickling.write", watched)
    adjoint.save({"w": adjoint.ones(2)}, path)
    assert modes == [0o600] and path.stat().st_mode & 0o777 == 0o600


def test_names_as_long_as_the_system_has_them(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 252 + ".pt")
    adjoint.save({"w": adjoint.ones(2)}, path)
    assert adjoint.load(path)["w"].tolist() == [1.0, 1.0]
    assert list(tmp_path.iterdir()) == [path]
