"""Hostile and damaged files: one clear error, nothing imported, nothing run, nothing large allocated."""

from __future__ import annotations

import io
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

from .hostile import (
    ARCHIVES,
    ARRAY,
    DTYPE,
    EXHAUSTING,
    HEADERS,
    PICKLES,
    archive,
    dtype_state,
    entry,
    safetensors_file,
    storage,
    structure,
    tensor,
    tensors_of_bools,
    text,
    zipped,
)  # fmt: skip


def assert_refused(data: bytes) -> None:
    with pytest.raises(FileFormatError):
        adjoint.load(io.BytesIO(data))


@pytest.mark.parametrize("name", PICKLES)
def test_hostile_pickles_are_refused(name: str) -> None:
    assert_refused(archive(PICKLES[name], {"0": struct.pack("<ff", 1.0, 2.0)}))
    if not name.startswith(("PERSID", "nothing")) and PICKLES[name][:1] == b"\x80":
        assert_refused(PICKLES[name])


@pytest.mark.parametrize("name", ARCHIVES)
def test_hostile_archives_are_refused(name: str) -> None:
    assert_refused(ARCHIVES[name]())


def test_all_refused_names_are_told_at_once() -> None:
    data = b"\x80\x02]cos\nsystem\nX\x01\x00\x00\x00a\x85Racnt\nsystem\n)\x81}X\x01\x00\x00\x00aK\x01sba."
    with pytest.raises(FileFormatError, match=r"os\.system, nt\.system"):
        adjoint.load(io.BytesIO(archive(data)))


_AUDITED = """
import io, sys, pickle
sys.path.insert(0, {tests!r})
import adjoint
from serialization.hostile import PICKLES, archive
stream = io.BytesIO(); adjoint.save({{"w": adjoint.ones(2)}}, stream, format="pt")
adjoint.load(io.BytesIO(stream.getvalue()))
files = [archive(data, {{"0": bytes([2] * 8)}}) for data in PICKLES.values()]
before = set(sys.modules)
events = []
watched = ("exec", "compile", "import", "open", "os.", "subprocess.", "socket.", "pickle.", "marshal.", "ctypes.")
def note(event, args):
    if event.startswith(watched) and args[0] != "cupy":  # which tensors of a GPU need
        events.append((event, args))
sys.addaudithook(note)
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


@pytest.mark.parametrize("name", HEADERS)
def test_malformed_safetensors_are_refused(name: str) -> None:
    header, size = HEADERS[name]
    assert_refused(safetensors_file(header, size))
    if b"adjoint.structure" not in safetensors_file(header):
        with pytest.raises(FileFormatError):
            adjoint.serialization.safetensors.load(safetensors_file(header, size))


# --- Nothing that exists is changed, and work stays in proportion -----------------------------------


def test_the_size_of_a_dtype_is_not_changed_after_an_array_was_built_on_it() -> None:
    # [array over 8 bytes, the dtype of that array with another state]
    pickled = DTYPE + b"0](" + ARRAY + b"h\x00" + dtype_state(9999) + b"e."
    with pytest.raises(FileFormatError):
        adjoint.load(zipped(pickled))
    twice = DTYPE + dtype_state(8) + b"0h\x00" + dtype_state(8) + b"."
    with pytest.raises(FileFormatError, match="second time"):
        adjoint.load(zipped(twice))
    array = adjoint.load(zipped(DTYPE + dtype_state(8) + b"0" + ARRAY + b"."))
    assert array.tolist() == [b"12345678"] and array.base.nbytes == 8


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
        # Objects take more than the bytes that make them.
        assert tracemalloc.get_traced_memory()[1] - before < 64 * size + 25_000_000
    finally:
        tracemalloc.stop()


def test_one_storage_of_bools_is_looked_at_once() -> None:
    loaded = adjoint.load(zipped(tensors_of_bools(20_000), {"0": bytes(1 << 20)}))
    assert len(loaded) == 20_000


@pytest.mark.parametrize("error", [MemoryError, SystemError, TypeError, ValueError, RecursionError])
def test_one_class_of_errors_leaves_load(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*args: Any) -> Any:
        raise error("inside the reader")

    monkeypatch.setattr("adjoint.serialization.archive.read_archive", failing)
    file = zipped(b"\x80\x02N.")
    with pytest.raises(FileFormatError, match="inside the reader"):
        adjoint.load(file)


def test_errors_of_the_programs_own_map_location_are_its_own(tmp_path: Path) -> None:
    def place(storage: Any, location: str) -> Any:
        raise KeyError("mine")

    adjoint.save({"w": adjoint.ones(2)}, tmp_path / "a.pt")
    with pytest.raises(KeyError, match="mine"):
        adjoint.load(tmp_path / "a.pt", map_location=place)


def test_attributes_of_tensors_do_not_hide_methods_nor_what_tensors_keep() -> None:
    state = (
        b"}("
        + b"".join(text(name) + b"K\x05" for name in ("detach", "_rows_looked_up", "_resting_node", "mine"))
        + b"u"
    )
    plain = tensor(storage("FloatStorage", "0", 2), 0, (2,), (1,))[2:-1]
    pickled = b"\x80\x02ctorch._utils\n_rebuild_parameter_with_state\n(" + plain + b"\x88N" + state + b"tR."
    loaded = adjoint.load(zipped(pickled, {"0": bytes(8)}))
    assert loaded.__dict__ == {"mine": 5} and loaded.detach().tolist() == [0, 0]


def test_a_file_with_many_small_sets_is_no_attack() -> None:
    value = {
        "sets": [frozenset([(1, 2)]) for _ in range(200)], "dicts": [{1.5: n} for n in range(200)],
        "keys": {float(n) + 0.5: n for n in range(500)},
    }  # fmt: skip
    for data in (saved_as(value, "pt"), saved_as(value, "adjoint"), archive(pickle.dumps(value, 4))):
        assert adjoint.load(io.BytesIO(data)) == value


def saved_as(value: Any, format: str) -> bytes:
    stream = io.BytesIO()
    adjoint.save(value, stream, format=format)
    return stream.getvalue()


def test_storages_of_a_file_are_storages() -> None:
    stored = {"0": struct.pack("<ff", 1.0, 2.0)}
    typed = adjoint.load(zipped(b"\x80\x02" + storage("FloatStorage", "0", 2) + b".", stored))
    assert isinstance(typed, adjoint.FloatStorage) and typed.tolist() == [1.0, 2.0]
    bytes_ = adjoint.load(zipped(b"\x80\x02" + storage("UntypedStorage", "0", 8) + b".", stored))
    assert isinstance(bytes_, adjoint.UntypedStorage) and bytes_.nbytes() == 8


def test_changed_files_load_or_raise_the_one_error() -> None:
    from . import changes

    dice = random.Random(3)
    pool = [*SMALL.items(), *((name, archive(data, {"0": bytes(8)})) for name, data in PICKLES.items())]
    for _ in range(1500):
        data = dice.choice(changes.CHANGES)(dice.choice(pool)[1], dice, pool)
        try:
            adjoint.load(io.BytesIO(data))
        except FileFormatError:
            pass


def test_attributes_in_a_file_do_not_hide_methods() -> None:
    pickled = b"\x80\x02ccollections\nOrderedDict\n)R}(" + text("items") + b"K\x05" + text("_metadata") + b"K\x06ub."
    loaded = adjoint.load(zipped(pickled))
    assert list(loaded.items()) == [] and loaded._metadata == 6
    names = '{"$":"Namespace","items":[["__class__",1],["_get_kwargs",2],["lr",3]]}'
    assert vars(adjoint.load(io.BytesIO(safetensors_file(*structure(names))))) == {"lr": 3}


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
    assert victim.read_text() == "mine" and beside.is_symlink()


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
