"""Loading through worker processes: the same batches, errors that arrive, no hang, nothing left behind."""

from __future__ import annotations

import glob
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.utils.data import DataLoader, Dataset, IterableDataset, get_worker_info
from gates import updates
from tests.oracle import needs_torch, torch

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")


class Squares(Dataset[Any]):
    """Tensors, arrays and text."""

    def __len__(self) -> int:
        return 11

    def __getitem__(self, i: int) -> Any:
        return {"x": adjoint.full((3,), float(i * i)), "a": np.full(2, i), "name": str(i)}


class Large(Dataset[Any]):
    """Samples that go through shared memory."""

    def __len__(self) -> int:
        return 6

    def __getitem__(self, i: int) -> Any:
        return adjoint.full((100, 100), float(i)), np.full((50, 50), i), "text"


class Seeds(Dataset[Any]):
    """What the generators of a worker give first."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> Any:
        info = get_worker_info()
        assert info is not None
        return [info.id, info.seed, random.random(), float(adjoint.rand(())), float(np.random.rand())]


class Failing(Dataset[Any]):
    """Raises, exits or sleeps at sample 2."""

    def __init__(self, how: str) -> None:
        self.how = how

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> Any:
        if i == 2:
            if self.how == "raise":
                raise ValueError("sample two is bad")
            if self.how == "key":
                return {}["missing"]
            if self.how == "odd":
                raise Odd(1, 2)
            if self.how == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if self.how == "exit":
                os._exit(3)
            threading.Event().wait()
        return i


class Odd(Exception):
    """An error whose constructor wants two arguments."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} {b}")


class Stream(IterableDataset[int]):
    """A stream of which every worker takes its share."""

    def __init__(self, n: int) -> None:
        self.n = n

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        step, start = (info.num_workers, info.id) if info else (1, 0)
        return iter(range(start, self.n, step))


def set_name(number: int) -> None:
    os.environ["WORKER"] = str(number)


class Names(Dataset[Any]):
    """What the worker's initial function has set."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, i: int) -> str:
        return os.environ["WORKER"]


def left_behind(pid: int | None = None) -> list[str]:
    return glob.glob(f"/dev/shm/adjoint-{pid or os.getpid()}-*")


def plain(batches: Any) -> Any:
    return [{k: v.tolist() if hasattr(v, "tolist") else v for k, v in b.items()} for b in batches]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_workers_give_the_same_batches_in_the_same_order(workers: int) -> None:
    for shuffle in (False, True):
        adjoint.manual_seed(3)
        expected = plain(DataLoader(Squares(), batch_size=2, shuffle=shuffle))
        adjoint.manual_seed(3)
        found = plain(DataLoader(Squares(), batch_size=2, shuffle=shuffle, num_workers=workers))
        assert found == expected


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_other_ways_to_start_workers(method: str) -> None:
    loader = DataLoader(Squares(), batch_size=4, num_workers=1, multiprocessing_context=method)
    assert plain(loader) == plain(DataLoader(Squares(), batch_size=4))


def test_large_batches_go_through_shared_memory_and_leave_nothing() -> None:
    before = left_behind()
    batches = list(DataLoader(Large(), batch_size=2, num_workers=2))
    for at, (x, a, text) in enumerate(batches):
        assert (x[0] == 2 * at).all() and (x[1] == 2 * at + 1).all() and (a[1] == 2 * at + 1).all()
        x.add_(1)  # the memory is the program's own
        assert text == ("text", "text") or list(text) == ["text", "text"]
    assert left_behind() == before


def test_seeds_differ_between_workers_and_repeat_with_the_seed() -> None:
    def one() -> list[Any]:
        adjoint.manual_seed(1)
        return list(DataLoader(Seeds(), batch_size=None, num_workers=2))

    first = one()
    assert first == one()
    assert [sample[0] for sample in first] == [0, 1, 0, 1] and first[1][1] == first[0][1] + 1
    assert len({sample[2] for sample in first}) == len({sample[3] for sample in first}) == 4


@needs_torch
def test_worker_seeds_are_torchs() -> None:
    class TorchSeeds(torch.utils.data.Dataset):  # type: ignore[misc, name-defined]
        def __len__(self) -> int:
            return 4

        def __getitem__(self, i: int) -> Any:
            info = torch.utils.data.get_worker_info()
            return [info.id, info.seed, random.random(), float(torch.rand(())), float(np.random.rand())]

    adjoint.manual_seed(1)
    torch.manual_seed(1)
    mine = list(DataLoader(Seeds(), batch_size=None, num_workers=2))
    assert mine == list(torch.utils.data.DataLoader(TorchSeeds(), batch_size=None, num_workers=2))


@pytest.mark.parametrize(("how", "kind", "match"), [
    ("raise", ValueError, r"(?s)Caught ValueError in DataLoader worker process 0.*__getitem__.*sample two is bad"),
    ("key", KeyError, r"(?s)Caught KeyError.*missing"),
    ("odd", RuntimeError, r"(?s)Caught Odd.*1 2"),
    ("kill", RuntimeError, r"exited unexpectedly"),
    ("exit", RuntimeError, r"exit code 3"),
    ("sleep", RuntimeError, r"timed out after 0.3 seconds"),
])  # fmt: skip
def test_what_goes_wrong_in_a_worker_arrives(how: str, kind: Any, match: str) -> None:
    loader = DataLoader(Failing(how), num_workers=1, timeout=0.3 if how == "sleep" else 0)
    seen = []
    with pytest.raises(kind, match=match):
        for batch in loader:
            seen.append(batch.item())
    assert seen == ([0, 1] if how in ("raise", "key", "odd") else seen)
    assert not left_behind()


def test_a_failing_initial_function_arrives() -> None:
    def broken(number: int) -> None:
        raise OSError("no such file")

    with pytest.raises(OSError, match="no such file"):
        list(DataLoader(Squares(), num_workers=1, worker_init_fn=broken))


def test_initial_functions_and_persistent_workers() -> None:
    loader = DataLoader(Names(), batch_size=None, num_workers=2, worker_init_fn=set_name, persistent_workers=True)
    assert list(loader) == ["0", "1", "0", "1"]
    processes = loader._iterator._processes
    assert next(iter(loader)) == "0"  # a pass left early
    assert list(loader) == ["0", "1", "0", "1"]
    assert loader._iterator._processes is processes and all(p.is_alive() for p in processes)
    del loader
    assert not any(p.is_alive() for p in processes)


def test_streams_are_shared_out() -> None:
    found = [b.tolist() for b in DataLoader(Stream(10), batch_size=2, num_workers=3)]
    assert sorted(i for batch in found for i in batch) == list(range(10))
    assert [b.item() for b in DataLoader(Stream(3), num_workers=2)] == [0, 1, 2]
    assert list(DataLoader(Stream(0), num_workers=2)) == []
    assert sum(len(b) for b in DataLoader(Stream(7), batch_size=2, num_workers=2, drop_last=True)) == 6


def test_batches_as_soon_as_they_are_there() -> None:
    loader = DataLoader(Squares(), batch_size=2, num_workers=2, in_order=False)
    assert sorted(name for batch in loader for name in batch["name"]) == sorted(map(str, range(11)))


def test_a_pass_left_early_ends_its_workers() -> None:
    iterator = iter(DataLoader(Squares(), num_workers=2, prefetch_factor=4))
    next(iterator)
    processes = iterator._processes  # type: ignore[attr-defined]
    del iterator
    assert not any(p.is_alive() for p in processes) and not left_behind()


_INTERRUPTED = """
import os, signal, sys, threading
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started this may have it ignored
sys.path.insert(0, {root!r})
from tests.utils.data.test_workers import Large
from adjoint.utils.data import DataLoader
loader = DataLoader(Large(), num_workers=2, persistent_workers=True)
it = iter(loader)
next(it)
try:
    print(*[p.pid for p in it._processes], flush=True)
    threading.Event().wait()
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(5)
"""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_no_process_outlives_the_program(sent: signal.Signals) -> None:
    root = str(Path(__file__).resolve().parents[3])
    child = subprocess.Popen(
        [sys.executable, "-c", _INTERRUPTED.format(root=root)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert child.stdout is not None
    pids = [int(pid) for pid in child.stdout.readline().split()]
    assert len(pids) == 2
    if sent is signal.SIGINT:
        os.killpg(child.pid, sent)  # as a terminal does: to the workers too
        assert child.stdout.readline() == "interrupted\n" and child.wait() == 5
    else:
        child.send_signal(sent)
        child.wait()
    child.stdout.close()
    deadline = time.monotonic() + 600
    while any(_running(pid) for pid in pids):
        assert time.monotonic() < deadline, "a worker is still there"
        time.sleep(0.05)
    assert not left_behind(child.pid)


def _running(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="looks for what is left in /proc")
@pytest.mark.parametrize("seed", range(7))
def test_a_loader_that_fails_or_is_interrupted_leaves_nothing(seed: int) -> None:
    resource_tracker.ensure_running()  # the standard library's, which stays
    assert updates.loaded(random.Random(seed)) == ""
