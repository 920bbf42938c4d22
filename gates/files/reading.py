"""Modified files, and the behaviour of `load`."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import random
import select
import signal
import sys
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint
from adjoint.serialization import FileFormatError, allowed, safe_globals, safetensors, sources
from tests.serialization import hostile
from tests.serialization.changes import CHANGES, Corpus, header

from .valid import MODULES, legacy, saved

SILENT = 60.0  # seconds without a sign of life after which a child is taken to hang


def most_memory(size: int) -> int:
    """Return how many bytes a file may take: 4 times its size, and the objects that 1 MB of structure may make."""
    return 4 * size + 64 * min(size, 1 << 20) + (24 << 20)


def most_seconds(size: int) -> float:
    """Return how much processor time a file may take."""
    return 2.0 + 50e-6 * size


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
        """Write an array's own elements into it; return what is wrong with its memory."""
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
    """Judge cases; report each one that is begun, and each fault, to the parent."""
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
        if status == 0:  # it has reported the fault
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
    files = {
        "pt": saved({"w": w}, format="pt"),
        "adjoint": saved({"w": w}, format="adjoint"),
        "legacy": legacy({"w": w}),
    }
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
