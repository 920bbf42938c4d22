"""Files from strangers, and files that must not be lost: what `load` makes of one, what `save` leaves of the other.

Reading: valid files of every format that `load` knows, and the attacks of tests/serialization/hostile.py, are changed
at the level of pickle opcodes, zip records, headers, tensor metadata and bytes (tests/serialization/changes.py), then
loaded in a child process. Wrong is: code run, a module imported or a file opened; an array that does not lie inside its
storage, or a write beyond one (canaries stand around every buffer); an existing dtype, class or table changed; any
error but `FileFormatError`; memory or time out of proportion (`most_memory`, `most_seconds`). A child that dies counts
as crashed.

Writing: `save` over an old file is killed, interrupted, run out of disk, raced, refused. Lost is: a file that is
neither the old nor the new one, or something left beside it after the next save.

    python -m gates.files --minutes 1 --seed 0
    python -m gates.files --case 4711        (one case again, with its file in /tmp/case-4711)
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import errno
import io
import itertools
import os
import pickle
import random
import resource
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import adjoint
from adjoint.serialization import FileFormatError, allowed, safe_globals, safetensors, sources, whole
from tests.serialization import hostile
from tests.serialization.changes import CHANGES, Corpus, header, records_of

from .summary import COUNTS, summary

BATCH, KILLS = 400, 25  # cases of one child; kills between two of them
SILENT = 60.0  # seconds without a sign of life after which a child is taken to hang


def most_memory(size: int) -> int:
    """Return how many bytes a file may take: 4 times its size, and the objects that 1 MB of structure may make."""
    return 4 * size + 64 * min(size, 1 << 20) + (24 << 20)


def most_seconds(size: int) -> float:
    """Return how much processor time a file may take."""
    return 2.0 + 50e-6 * size


# --- Valid files --------------------------------------------------------------------------------------------------


class Config:
    """A class that a program lets files name."""


MODULES = (Config, adjoint.nn.Linear, adjoint.nn.Sequential, adjoint.nn.ReLU, adjoint.nn.BatchNorm1d)


def values() -> dict[str, Any]:
    """Return what checkpoints hold; the same in every run."""
    adjoint.manual_seed(0)
    w = adjoint.arange(12.0).reshape(3, 4)
    plain: dict[str, Any] = {
        "w": w, "row": w[1], "t": w.t(), "p": adjoint.nn.Parameter(w.clone()), "empty": adjoint.zeros(0, 3),
        "bool": w > 3, "half": w.bfloat16(), "complex": w[0] * 1j, "u16": w.to(adjoint.uint16),
        "list": [1, 2.5, "x", None], "tuple": (True, -(2**40), 2**70), "set": {1}, "frozen": frozenset([(1, 2)]),
        "bytes": b"abc",
        "array": bytearray(b"abc"), "number": 1 + 2j, "ordered": collections.OrderedDict(a=1), "size": w.shape,
        "counter": Counter("aab"), "default": collections.defaultdict(list, a=[1]), "space": argparse.Namespace(lr=0.1),
        "dtype": adjoint.float64, "device": adjoint.device("cpu"), "numpy": np.arange(6.0).reshape(2, 3).T,
        "scalar": np.float32(2), "expanded": adjoint.ones(1).expand(5),
    }  # fmt: skip
    model = adjoint.nn.Sequential(adjoint.nn.Linear(3, 2), adjoint.nn.BatchNorm1d(2))
    optimizer = adjoint.optim.Adam(model.parameters())
    model(adjoint.ones(4, 3)).sum().backward()
    optimizer.step()
    return {"plain": plain, "model": model.state_dict(), "optimizer": optimizer.state_dict(), "one": w}


def saved(value: Any, **options: Any) -> bytes:
    """Return a file's bytes."""
    stream = io.BytesIO()
    adjoint.save(value, stream, **options)
    return stream.getvalue()


def legacy(value: Any) -> bytes:
    """Return a file as before torch 1.6: pickles one after the other, then the storages; of float32 only."""
    records = records_of(saved(value, format="pt"))
    names = sorted(name for name in records if name.startswith("data/"))
    head = b"".join(pickle.dumps(x, 2) for x in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}))
    keys = pickle.dumps([name.removeprefix("data/") for name in names], 2)
    storages = b"".join(struct.pack("<q", len(records[name]) // 4) + records[name] for name in names)
    return head + records["data.pkl"] + keys + storages


def numpy_pickles() -> Iterator[bytes]:
    """Yield arrays, scalars and dtypes as NumPy pickles them itself."""
    arrays = [np.arange(3), np.array(["a", "bc"]), np.array([b"ab"]), np.arange(3, dtype=">i4"), np.array(True)]
    for protocol in range(2, 6):
        yield hostile.archive(pickle.dumps([arrays, np.float64(1), np.dtype("<f4"), np.dtype("S5")], protocol))


_TORCHS = """
import io, pickle, sys, warnings
warnings.simplefilter("ignore")
import torch
torch.manual_seed(0)
w = torch.arange(12.0).reshape(3, 4)
sub = torch.nn.Parameter(w.clone()); sub.note = "attribute"
values = [w, {"a": w, "b": w[1], "h": w.half(), "p": sub}, w.to_sparse(), w.to_sparse_csr(), w.storage(), w.conj(),
    torch.nested.nested_tensor([w, w]), torch.quantize_per_tensor(w, 0.1, 0, torch.quint8), w.to("meta"),
    torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.ReLU()), torch.optim.SGD([sub], 0.1, momentum=0.9).state_dict()]
files = []
for value in values:
    for options in ({}, {"_use_new_zipfile_serialization": False}, {"pickle_protocol": 5}):
        stream = io.BytesIO()
        try:
            torch.save(value, stream, **options)
        except Exception:
            continue
        files.append(("torch", stream.getvalue()))
sys.stdout.buffer.write(pickle.dumps(files))
"""


def corpus() -> Corpus:
    """Return the files from which all cases are made; those of the real torch too, where it is installed."""
    found = [
        (f"{name} {format}", saved(v, format=format)) for name, v in values().items() for format in ("pt", "adjoint")
    ]
    found += [("safetensors", safetensors.save({"a": values()["one"], "b": adjoint.zeros(0)}, {"note": "x"}))]
    found += [
        ("legacy", legacy({"w": values()["one"], "v": [values()["one"][1]]})),
        ("legacy one", legacy(values()["one"])),
    ]
    found += [("numpy", data) for data in numpy_pickles()]
    stream = io.BytesIO()
    whole.write(adjoint.nn.Sequential(adjoint.nn.Linear(3, 2), adjoint.nn.ReLU()), stream)
    found += [("module", stream.getvalue())]
    found += [(name, hostile.archive(data, {"0": bytes(8)})) for name, data in hostile.PICKLES.items()]
    found += [(name, hostile.safetensors_file(*made)) for name, made in hostile.HEADERS.items() if len(made[0]) < 5000]
    found += [(name, make()) for name, make in hostile.ARCHIVES.items() if name != "a bomb"]
    ran = subprocess.run([sys.executable, "-c", _TORCHS], capture_output=True, cwd=tempfile.gettempdir())
    if ran.returncode:
        print("torch is not installed: its files are not among those that are changed", flush=True)
    return found + (pickle.loads(ran.stdout) if not ran.returncode else [])  # noqa: S301 - written above


# --- Cases ----------------------------------------------------------------------------------------------------------


def case(seed: int, pool: Corpus) -> tuple[str, bytes]:
    """Return the file of a case, and what it is made of."""
    rng = random.Random(seed)
    name, data = rng.choice(pool)
    change = header if data[8:9] == b"{" and rng.random() < 0.7 else rng.choice(CHANGES)
    return f"{change.__name__} of {name}", change(data, rng, pool)


# --- Judging ------------------------------------------------------------------------------------------------------

_WATCHED = (
    "exec", "compile", "import", "open", "os.", "subprocess.", "socket.", "pickle.", "marshal.", "ctypes.", "shutil.",
    "code.__new__", "function.__new__", "sys.setprofile", "builtins.input", "mmap.",
)  # fmt: skip
_CANARY = 0xA5


class Judge:
    """Loads files in this process and says what is wrong with what happened."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.watching = False
        self.buffers: list[Any] = []
        sys.modules["cupy"] = None  # type: ignore[assignment]  # tensors of a GPU look for it: as if there were none
        sys.addaudithook(self.note)
        sources.Source.array_at = self.guarded(sources.Source.array_at)  # type: ignore[method-assign]
        self.before = self.existing()
        tracemalloc.start()

    def note(self, event: str, args: Any) -> None:
        """Note what the interpreter does for a file."""
        if self.watching and event.startswith(_WATCHED) and args[:1] != ("cupy",):
            self.events.append(f"{event} {args!r:.80}")

    def guarded(self, read: Callable[..., Any]) -> Callable[..., Any]:
        """Return a reader of storages that puts each between canaries."""

        def array_at(source: Any, offset: int, size: int) -> Any:
            data = read(source, offset, size)
            room = np.full(size + 128, _CANARY, np.uint8)
            room[64 : 64 + size] = data
            self.buffers.append(room)
            return room[64 : 64 + size]

        return array_at

    def existing(self) -> Any:
        """Return what no file may change, in words."""
        kinds = [np.dtype(c) for c in "?bBhHiIlLqQefdFDSU"]
        classes = (adjoint.Tensor, adjoint.nn.Parameter, adjoint.device, adjoint.Size, *MODULES)
        return (
            [(d.str, d.itemsize, d.names, d.alignment) for d in kinds], [len(vars(c)) for c in classes],
            [(key, id(value)) for key, value in allowed.ALLOWED.items()], len(vars(adjoint)), os.getcwd(),
            [(b.name, id(b.make)) for b in allowed.ALLOWED.values() if isinstance(b, allowed.Builder)],
        )  # fmt: skip

    def faults(self, data: bytes, refused: bool = False) -> list[str]:
        """Load a file, which must be refused if that is said; return what went wrong."""
        self.events, self.buffers = [], []
        found, value, error = [], None, None
        stream = io.BytesIO(data)
        tracemalloc.reset_peak()
        held, start = tracemalloc.get_traced_memory()[0], time.process_time()
        self.watching = True
        try:
            with safe_globals(list(MODULES)):
                value = adjoint.load(stream)
        except FileFormatError as e:
            error = e
        except Exception as e:
            found.append(f"{type(e).__name__} left load: {e!s:.80}")
        finally:
            self.watching = False
        taken, peak = time.process_time() - start, tracemalloc.get_traced_memory()[1] - held
        guards = sum(room.nbytes for room in self.buffers)
        found += [f"ran: {event}" for event in self.events]
        if peak - guards > most_memory(len(data)):
            found.append(f"took {peak} bytes for a file of {len(data)}")
        if taken > most_seconds(len(data)):
            found.append(f"took {taken:.1f} s for a file of {len(data)}")
        if self.existing() != self.before:
            found.append("changed what exists")
            self.before = self.existing()
        if error is None and refused:
            found.append("was loaded")
        if error is None and not found:
            found += [f for array in arrays_in(value) for f in self.outside(array)]
        if any((room[:64] != _CANARY).any() or (room[-64:] != _CANARY).any() for room in self.buffers):
            found.append("a canary beside a buffer died")
        return found

    def outside(self, array: Any) -> list[str]:
        """Write an array's own elements into it; return what is wrong with where it lies."""
        low, high = np.lib.array_utils.byte_bounds(array)
        if array.size and any(_overlap(room, low, high) for room in self.buffers):
            inside = [room for room in self.buffers if room.ctypes.data + 64 <= low and high <= _end(room) - 64]
            if not inside:
                return ["an array reaches out of its storage"]
        owner = array
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        begin, end = np.lib.array_utils.byte_bounds(owner)
        if array.size and not begin <= low <= high <= end:
            return ["an array reaches out of its memory"]
        if array.dtype.kind == "b" and 0 < high - low <= 1 << 20 and array.view(np.uint8).max(initial=0) > 1:
            return ["a bool is neither 0 nor 1"]
        if high - low <= 1 << 20 and array.size <= 1 << 20 and array.flags.writeable:
            array[...] = array.copy()
        return []


def _end(room: Any) -> int:
    return int(room.ctypes.data + room.nbytes)


def _overlap(room: Any, low: int, high: int) -> bool:
    return bool(low < _end(room) and room.ctypes.data < high)


def arrays_in(value: Any) -> list[Any]:
    """Return the arrays in a loaded object."""
    found: list[Any] = []
    stack, seen = [value], set[int]()
    while stack and len(seen) < 20_000:
        top = stack.pop()
        if id(top) in seen:
            continue
        seen.add(id(top))
        if isinstance(top, adjoint.Tensor):
            found.append(top.detach().numpy() if top.dtype is not adjoint.bfloat16 else top.array)
        elif isinstance(top, np.ndarray):
            found.append(top)
        elif isinstance(top, dict):
            stack += [*top.values()]
        elif isinstance(top, list | tuple | set | frozenset):
            stack += [*top]
        with contextlib.suppress(TypeError):
            stack += vars(top).values()
    return [array for array in found if isinstance(array, np.ndarray)]


def child(seeds: range, pool: Corpus, pipe: int) -> None:
    """Judge cases; tell the parent each one that is begun, and each fault."""
    judge = Judge()
    for _, data in pool[:12]:  # what is imported when it is first needed is imported now
        judge.faults(data)
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError("hung")))
    for seed in seeds:
        os.write(pipe, f"{seed}\n".encode())
        name, data = case(seed, pool)
        signal.setitimer(signal.ITIMER_REAL, SILENT / 2)
        for fault in judge.faults(data):
            os.write(pipe, f"! case {seed} ({name}): {fault}\n"[:300].encode())
        signal.setitimer(signal.ITIMER_REAL, 0)


def in_child(run: Callable[[int], None]) -> tuple[list[str], int | None]:
    """Run something in a forked process; return its lines, and how it ended: a status, or None if it hung."""
    out, into = os.pipe()
    process = os.fork()
    if not process:
        os.close(out)
        try:
            run(into)
        except BaseException as error:
            os.write(into, f"! the child ended: {error!r:.200}\n".encode())
        finally:
            os._exit(0)
    os.close(into)
    said = bytearray()
    while select.select([out], [], [], SILENT)[0]:
        data = os.read(out, 1 << 16)
        if not data:
            os.close(out)
            return said.decode(errors="replace").splitlines(), os.waitpid(process, 0)[1]
        said += data
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    os.close(out)
    return said.decode(errors="replace").splitlines(), None


def read_cases(first: int, count: int, pool: Corpus, table: Counter[str]) -> None:
    """Judge a range of cases; after one that ended its child, go on with the next."""
    at, end = first, first + count
    while at < end:
        lines, status = in_child(lambda pipe, at=at: child(range(at, end), pool, pipe))  # type: ignore[misc]
        begun = [int(line) for line in lines if line.isdigit()]
        table["cases"] += len(begun)
        for line in (line for line in lines if line.startswith("!")):
            table["hung" if "TimeoutError" in line else "wrong"] += 1
            print(line, flush=True)
        if begun and begun[-1] == end - 1 and status == 0:
            return
        at = (begun[-1] if begun else at) + 1
        if status == 0:  # it has told why
            continue
        table["hung" if status is None else "crashed"] += 1
        print(f"! case {at - 1} {'hung' if status is None else f'ended its process: {status}'}", flush=True)


def read_attacks(end: float, table: Counter[str]) -> None:
    """Load every attack as it is, those that take long while there is time: all must be refused."""

    def run(pipe: int) -> None:
        judge = Judge()
        files = {name: make() for name, make in hostile.ARCHIVES.items()}
        files |= {name: hostile.safetensors_file(*made) for name, made in hostile.HEADERS.items()}
        files |= {name: hostile.archive(data, {"0": bytes([2] * 8)}) for name, data in hostile.PICKLES.items()}
        long = ((name, make().getvalue()) for name, make in hostile.EXHAUSTING.items() if time.monotonic() < end)
        for name, data in itertools.chain(files.items(), long):
            os.write(pipe, b"0\n")
            for fault in judge.faults(data, refused=True):
                os.write(pipe, f"! attack {name!r}: {fault}\n".encode())

    lines, status = in_child(run)
    table["cases"] += sum(line.isdigit() for line in lines)
    table["wrong"] += sum(line.startswith("!") for line in lines)
    table["crashed"] += status != 0
    print("".join(f"{line}\n" for line in lines if line.startswith("!")), end="", flush=True)


def read_large(table: Counter[str]) -> None:
    """Load large files of every format: never more than four times their size in memory."""
    w = adjoint.ones(1_000_000)
    files = {"pt": saved({"w": w}, format="pt"), "adjoint": saved({"w": w}), "legacy": legacy({"w": w})}
    files |= {"numpy": saved({"w": np.ones(500_000)}, format="pt"), "safetensors": safetensors.save({"w": w})}
    for name, data in files.items():
        tracemalloc.start()
        stream = io.BytesIO(data)
        before = tracemalloc.get_traced_memory()[0]
        adjoint.load(stream)
        peak = tracemalloc.get_traced_memory()[1] - before
        tracemalloc.stop()
        table["cases"] += 1
        if peak > 4 * len(data) + 100_000:
            table["wrong"] += 1
            print(f"! a large file ({name}) takes {peak / len(data):.1f} times its size")


# --- Writing ------------------------------------------------------------------------------------------------------


class Place:
    """A file that is saved over and over, in a folder of its own; of each version every byte tells the number."""

    def __init__(self, rng: random.Random) -> None:
        self.folder = tempfile.mkdtemp(prefix="gate-files-")
        self.path = os.path.join(self.folder, rng.choice(["a.pt", "a.safetensors", "n" * 252 + ".pt"]))
        self.length = rng.choice((1, 1000, 100_000, 400_000))
        self.unnamed = rng.random() < 0.5  # whether the new file may be without a name until it is whole

    def save(self, version: int) -> None:
        """Save a version."""
        if not self.unnamed:
            os.__dict__.pop("O_TMPFILE", None)
        adjoint.save({"version": version, "w": adjoint.full((self.length,), version)}, self.path)

    def faults(self, versions: range) -> list[str]:
        """Return what is wrong with the file, which must be one of some versions; and with its folder after a save."""
        found = []
        try:
            held = adjoint.load(self.path)
            if held["version"] not in versions or not bool((held["w"] == held["version"]).all()):
                found.append(f"version {held['version']} of {versions}, or torn")
        except Exception as error:
            found.append(f"lost: {error!r:.100}")
        self.save(0)
        if os.listdir(self.folder) != [os.path.basename(self.path)]:
            found.append(f"left beside it: {sorted(os.listdir(self.folder))!r:.200}")
        return found


def forked(run: Callable[[], None]) -> int:
    """Start something in a process of its own."""
    process = os.fork()
    if not process:
        try:
            run()
        finally:
            os._exit(1)
    return process


def _forever(place: Place, first: int) -> None:
    for version in range(first, 1 << 20):
        place.save(version)


def killed(place: Place, rng: random.Random) -> None:
    """Kill one or several processes that save."""
    started = [forked(lambda n=n: _forever(place, 1 + n)) for n in range(rng.choice((1, 1, 3)))]  # type: ignore[misc]
    time.sleep(rng.random() * 0.04)
    for process in started:
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)


def interrupted(place: Place, rng: random.Random) -> None:
    """Interrupt a save."""

    def raise_(*_: Any) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, raise_)
    with contextlib.suppress(KeyboardInterrupt):
        signal.setitimer(signal.ITIMER_REAL, 1e-5 + rng.random() * 0.01)
        _forever(place, 1)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _expecting_oserror(run: Callable[[], None]) -> None:
    process = forked(lambda: os._exit(0 if _raises_oserror(run) else 1))
    if os.waitpid(process, 0)[1]:
        raise AssertionError("no OSError")


def _raises_oserror(run: Callable[[], None]) -> bool:
    try:
        run()
    except OSError:
        return True
    return False


def full(place: Place, rng: random.Random) -> None:
    """Run out of disk, as a limit on sizes of files has it."""

    def run() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        place.save(1)

    limit = rng.randrange(os.path.getsize(place.path))
    _expecting_oserror(run)


class _Disk(io.BytesIO):
    """A file on a disk that is soon full."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def write(self, data: Any) -> int:
        """Write, while there is room."""
        self.room -= len(memoryview(data).cast("B"))
        if self.room < 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


def full_stream(place: Place, rng: random.Random) -> None:
    """Run out of disk in a file that the program opened itself."""
    value, format = {"w": adjoint.ones(place.length)}, rng.choice(("pt", "adjoint"))
    room = rng.randrange(len(saved(value, format=format)))
    if not _raises_oserror(lambda: adjoint.save(value, _Disk(room), format=format)):
        raise AssertionError("no OSError")


def forbidden(place: Place, rng: random.Random) -> None:
    """Save where nothing may be written; as somebody else, for the superuser may."""

    def run() -> None:
        if not os.getuid():
            os.setuid(65534)
        place.save(1)

    os.chmod(place.folder, 0o555)
    _expecting_oserror(run)
    os.chmod(place.folder, 0o755)


def write_cases(rng: random.Random, seed: int, count: int, table: Counter[str]) -> None:
    """Kill savers, and let some others fail."""
    for number in range(count):
        fail = rng.choices((killed, interrupted, full, full_stream, forbidden), (20, 4, 2, 1, 1))[0]
        place = Place(rng)
        try:
            place.save(0)
            fail(place, rng)
            found = place.faults(range(1 << 20))
        except AssertionError as error:
            found = [str(error)]
        table["cases"] += 1
        table[fail.__name__] += 1
        table["lost"] += bool(found)
        for fault in found:
            print(f"! seed {seed}, save {number}, {fail.__name__}: {fault}", flush=True)
        shutil.rmtree(place.folder)


def main(argv: list[str] | None = None) -> int:
    """Run all kinds of cases for some minutes, print the table, return whether something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m gates.files", description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", type=int, help="repeat one case")
    given = parser.parse_args(argv)
    end, pool = time.monotonic() + 60 * given.minutes, corpus()
    table: Counter[str] = Counter(cases=0, wrong=0, lost=0, hung=0, crashed=0)
    if given.case is not None:
        with open(f"/tmp/case-{given.case}", "wb") as file:
            file.write(case(given.case, pool)[1])
        read_cases(given.case, 1, pool, table)
        return bool(table["wrong"] + table["hung"] + table["crashed"])
    rng, seed = random.Random(given.seed), given.seed << 32
    write_cases(rng, given.seed, KILLS, table)
    read_cases(seed, BATCH, pool, table)
    read_large(table)
    read_attacks(end, table)
    while time.monotonic() < end:
        seed += BATCH
        read_cases(seed, BATCH, pool, table)
        write_cases(rng, given.seed, KILLS // 5, table)
        print(f"{table['cases']} cases", flush=True)
    print(", ".join(f"{f.__name__} {table[f.__name__]}" for f in (killed, interrupted, full, full_stream, forbidden)))
    print(summary("files", **{kind: table[kind] for kind in COUNTS}))
    return bool(table["wrong"] + table["lost"] + table["hung"] + table["crashed"])


if __name__ == "__main__":
    sys.exit(main())
