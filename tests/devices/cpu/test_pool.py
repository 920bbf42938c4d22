"""The pool of native threads: every piece is computed once, beside other callers and after a fork too."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections import Counter
from collections.abc import Iterator

import pytest

pytest.importorskip("numba", reason="the pool's machine code is made by Numba, which is not installed")
if not sys.platform.startswith("linux"):
    pytest.skip("the pool is there on Linux only", allow_module_level=True)

from adjoint.devices.cpu import threads
from adjoint.devices.cpu.pool import Pool, pool

PART = ctypes.CFUNCTYPE(None, *[ctypes.c_ssize_t] * 4)


@pytest.fixture
def made() -> Iterator[Pool]:
    """Return the pool, where four threads may compute."""
    before = threads.count
    threads.set_count(4)
    found = pool()
    assert found is not None
    yield found
    threads.set_count(before)


def run(found: Pool, function: object, total: int, count: int) -> None:
    part = PART(function)
    found.run(ctypes.cast(part, ctypes.c_void_p).value or 0, 7, total, count)


def test_every_piece_is_computed_once(made: Pool) -> None:
    for total, count in ((10, 1), (10, 3), (1000, 4), (5, 5), (64, 64)):
        told: list[tuple[int, ...]] = []
        run(made, lambda *given: told.append(given), total, count)
        wanted = [(7, i, total * i // count, total * (i + 1) // count) for i in range(count)]
        assert sorted(told) == wanted


def test_others_take_pieces_beside_the_caller(made: Pool) -> None:
    """Two pieces that wait for each other end only if two threads compute them."""
    meeting = threading.Barrier(2)
    run(made, lambda *_: meeting.wait(30), 2, 2)


def test_callers_at_the_same_time(made: Pool) -> None:
    told: list[Counter[int]] = [Counter() for _ in range(6)]

    def call(number: int) -> None:
        for _ in range(50):
            run(made, lambda block, piece, *_: told[number].update([piece]), 100, 4)

    callers = [threading.Thread(target=call, args=(i,)) for i in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert told == [Counter(dict.fromkeys(range(4), 50))] * 6


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_has_threads_of_its_own(made: Pool) -> None:
    run(made, lambda *_: None, 4, 4)
    child = os.fork()
    if child == 0:
        meeting = threading.Barrier(2)
        run(made, lambda *_: meeting.wait(30), 2, 2)
        os._exit(0 if not meeting.broken else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_threads_may_run_where_the_process_may(made: Pool) -> None:
    allowed = os.sched_getaffinity(0)
    run(made, lambda *_: None, 4, 4)
    tasks = [int(name) for name in os.listdir("/proc/self/task")]
    assert all(os.sched_getaffinity(task) == allowed for task in tasks)
