"""`save` beside everything that can happen: full disks, interrupts, other savers, rights of others; file objects."""

from __future__ import annotations

import errno
import io
import os
import stat
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import adjoint
from adjoint.serialization import pickling, safetensors, sources
from adjoint.serialization.sources import replacing

WRITERS: dict[str, Callable[[Path], None]] = {
    "pt": lambda path: adjoint.save({"w": adjoint.ones(1000)}, path, format="pt"),
    "adjoint": lambda path: adjoint.save({"w": adjoint.ones(1000)}, path),
    "safetensors": lambda path: safetensors.save_file({"w": adjoint.ones(1000)}, path),
}
posix = pytest.mark.skipif(os.name != "posix", reason="how POSIX has files")


@pytest.mark.parametrize("name", WRITERS)
def test_the_new_file_is_on_disk_before_it_has_the_name(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def noted(what: str, function: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            folder = what == "sync" and stat.S_ISDIR(os.fstat(args[0]).st_mode)
            done.append("sync folder" if folder else what)
            return function(*args, **options)

        return call

    monkeypatch.setattr(os, "fsync", noted("sync", os.fsync))
    monkeypatch.setattr(os, "replace", noted("rename", os.replace))
    WRITERS[name](tmp_path / "a")
    assert done == ["sync", "rename", "sync folder"]


class Disk(io.BytesIO):
    """A file on a disk that is soon full."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def write(self, data: Any) -> int:
        self.room -= memoryview(data).nbytes
        if self.room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


@pytest.mark.parametrize("format", ["adjoint", "pt"])
@pytest.mark.parametrize("room", [0, 100, 1500, 4100])
def test_a_full_disk_is_an_error_of_the_system(format: str, room: int) -> None:
    with pytest.raises(OSError, match="No space"):
        adjoint.save({"w": adjoint.ones(1000), "v": adjoint.ones(10)}, Disk(room), format=format)


_LIMITED = """
import resource, signal, sys, adjoint
value = {"w": adjoint.zeros(1000)}
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
try:
    adjoint.save(value, sys.argv[1])
except OSError as error:
    print("refused")
"""


@posix
def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    adjoint.save({"w": adjoint.ones(1000)}, path)
    ran = subprocess.run([sys.executable, "-c", _LIMITED, str(path)], capture_output=True, text=True, timeout=120)
    assert ran.stdout.strip() == "refused", ran.stderr
    assert adjoint.load(path)["w"].sum() == 1000 and list(tmp_path.iterdir()) == [path]


@posix
@pytest.mark.parametrize("unnamed", [True, False])
def test_an_interrupt_anywhere_leaves_a_whole_file_and_nothing_else(
    unnamed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not unnamed:
        monkeypatch.setattr(os, "O_TMPFILE", None, raising=False)
    path, version = tmp_path / "a.pt", 0
    adjoint.save({"n": 0, "w": adjoint.zeros(1000)}, path)
    count = sum(1 for _ in _interrupted_everywhere(path))
    assert count > 20
    found = adjoint.load(path)
    assert version <= found["n"] and (found["w"] == found["n"]).all()
    assert list(tmp_path.iterdir()) == [path]


def _interrupted_everywhere(path: Path) -> Any:
    """Interrupt `replacing` at the n-th call of the functions that it makes, for every n."""
    home = sources.__file__
    for at in range(1, 1000):
        calls = 0

        def profile(frame: Any, event: str, arg: Any) -> None:
            nonlocal calls
            if event in ("call", "c_return") and frame.f_code.co_filename == home:
                calls += 1
                if calls == at:
                    sys.setprofile(None)
                    raise KeyboardInterrupt

        sys.setprofile(profile)
        try:
            adjoint.save({"n": at, "w": adjoint.full((1000,), float(at))}, path)
        except KeyboardInterrupt:
            pass
        finally:
            sys.setprofile(None)
        found = adjoint.load(path)
        assert (found["w"] == found["n"]).all()
        left = [entry.name for entry in path.parent.iterdir() if entry != path]
        assert not left, (at, left)
        if calls < at:
            return
        yield at


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # of a ZipFile that is half made
def test_an_interrupt_inside_the_zip_file_is_what_the_program_sees() -> None:
    # of which zipfile made "ValueError: Can't close the ZIP file while there is an open writing handle on it"
    value, homes = {"w": adjoint.ones(3)}, (zipfile.__file__, pickling.__file__)
    for at in range(1, 10_000, 3):
        lines, events = 0, 0

        def trace(frame: Any, event: str, arg: Any) -> Any:
            nonlocal lines, events
            if frame.f_code.co_filename not in homes:
                return None
            frame.f_trace_opcodes = frame.f_code.co_name in ("open", "_open_to_write", "_record")
            lines += event in ("line", "opcode")
            if lines == at and not events:
                events += 1
                raise KeyboardInterrupt
            return trace

        sys.settrace(trace)
        try:
            adjoint.save(value, io.BytesIO(), format="pt")
        except KeyboardInterrupt:
            continue
        finally:
            sys.settrace(None)
        break
    assert at > 300


@posix
def test_what_a_killed_process_of_the_same_number_left_is_swept(tmp_path: Path) -> None:
    path, prefix = tmp_path / "a.pt", sources._prefix("a.pt")
    left, new, held = (tmp_path / f"{prefix}{os.getpid()}.{name}.partial" for name in ("left", "new", "held"))
    for file in (left, new, held):
        file.write_bytes(b"half")
    for file in (left, held):
        os.utime(file, (0, 0))
    with open(held, "rb+") as stream:
        assert sources._lock(stream.fileno())
        WRITERS["pt"](path)
    assert set(tmp_path.iterdir()) == {path, new, held}  # of the two others somebody may still write


@posix
def test_savers_beside_each_other_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"

    def run(number: int) -> None:
        for _ in range(20):
            adjoint.save({"n": number, "w": adjoint.full((5000,), float(number))}, path)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = adjoint.load(path)
    assert (found["w"] == found["n"]).all() and list(tmp_path.iterdir()) == [path]


@posix
def test_a_new_file_has_the_rights_that_the_mask_leaves(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        WRITERS["pt"](tmp_path / "a")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o640


@posix
@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only the superuser gives files away")
def test_owner_and_group_stay(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.touch()
    os.chown(path, 12345, 23456)
    path.chmod(0o660)
    WRITERS["pt"](path)
    found = path.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (12345, 23456, 0o660)


@posix
def test_another_group_gets_no_rights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a"
    path.touch()
    path.chmod(0o664)
    old = list(path.stat())
    old[5] += 1  # the group
    taken = sources._take_over
    monkeypatch.setattr(
        sources, "_take_over", lambda descriptor, beside, _: taken(descriptor, beside, os.stat_result(old))
    )

    def refuse(*args: Any) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "fchown", refuse)
    WRITERS["pt"](path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


_ELSEWHERE = """
import io, os, sys, adjoint
adjoint.save({"w": adjoint.zeros(2)}, io.BytesIO(), format="pt")  # imports what it needs
if not os.getuid():
    os.setuid(65534)
try:
    adjoint.save({"w": adjoint.zeros(2)}, sys.argv[1])
except PermissionError as error:
    print(error)
"""


@posix
def test_a_folder_that_is_not_writable_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.pt"
    WRITERS["pt"](path)
    for folder in (tmp_path, *tmp_path.parents):
        if os.access(folder, os.W_OK) and folder.stat().st_uid == os.getuid() and folder != Path("/tmp"):
            os.chmod(folder, 0o755)
    os.chmod(tmp_path, 0o555)
    ran = subprocess.run([sys.executable, "-c", _ELSEWHERE, str(path)], capture_output=True, text=True, timeout=120)
    os.chmod(tmp_path, 0o755)
    assert "folder must be writable" in ran.stdout and repr(str(tmp_path)) in ran.stdout, ran.stderr
    assert adjoint.load(path)["w"].sum() == 1000


@posix
def test_a_pipe_and_a_device_are_written_as_they_are(tmp_path: Path) -> None:
    if os.path.exists("/dev/full"):
        with pytest.raises(OSError, match="No space"):
            adjoint.save({"w": adjoint.ones(100_000)}, "/dev/full")
    out, into = os.pipe()
    with os.fdopen(into, "wb") as stream:
        adjoint.save({"w": adjoint.ones(2)}, stream, format="pt")
    with os.fdopen(out, "rb") as stream:
        assert adjoint.load(stream)["w"].tolist() == [1, 1]


def test_file_objects_are_written_from_where_they_are() -> None:
    for format in ("pt", "adjoint"):
        stream = io.BytesIO(b"before")
        stream.seek(6)
        adjoint.save({"w": adjoint.ones(2)}, stream, format=format)
        stream.seek(6)
        assert adjoint.load(stream)["w"].tolist() == [1, 1]


@pytest.mark.parametrize("format", ["adjoint", "pt"])
def test_a_mapped_file_that_was_cut_is_refused(format: str, tmp_path: Path) -> None:
    path = tmp_path / "a"
    adjoint.save({"w": adjoint.ones(5000)}, path, format=format)
    data = path.read_bytes()
    for length in (0, 4, 100, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(adjoint.serialization.FileFormatError):
            adjoint.load(path, mmap=True)


def test_a_mapped_file_gives_arrays_at_whole_elements(tmp_path: Path) -> None:
    from .hostile import storage, tensor, with_records

    pickled = tensor(storage("DoubleStorage", "0", 2), 0, (2,), (1,))
    for length in range(8):
        records = ("archive/data.pkl", pickled), ("archive/pad", bytes(length)), ("archive/data/0", bytes(16))
        (tmp_path / "a").write_bytes(with_records(*records))
        assert adjoint.load(tmp_path / "a", mmap=True).array.flags.aligned


@posix
def test_hub_and_checkpoints_replace_files_in_one_step_too(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), replacing(path) as stream:
        stream.write(b"new")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old" and list(tmp_path.iterdir()) == [path]
