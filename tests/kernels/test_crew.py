"""NumPy's loops, shared by threads: the same bits, the same warnings, and NumPy as it was where they may not."""

from __future__ import annotations

import multiprocessing
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.kernels import provider, threads

pytest.importorskip("numba", reason="the crew's machine code is made by Numba (adjoint[fast])")
if not sys.platform.startswith("linux"):
    pytest.skip("there is a crew on Linux only", allow_module_level=True)

from adjoint.kernels import crew as crews

COUNT = 200_001
rng = np.random.default_rng(0)


@pytest.fixture(scope="module")
def crew() -> Iterator[crews.Crew]:
    """Return the crew of this process, with three workers."""
    before = provider.allow(True)
    provider.choice.crew = True
    provider.note_large(provider.HIRING + 1)
    assert threads.crew is not None
    threads.crew.limit(3)
    yield threads.crew
    threads.crew.limit(threads.count - 1)
    provider.allow(before)


def apart(crew: crews.Crew, function: Any) -> tuple[Any, Any]:
    """Return what a function gives without the crew, and with it."""
    crew.held.value = 1
    alone = function()
    crew.held.value = 0
    return alone, function()


@pytest.mark.parametrize("place", range(len(crews._wanted())), ids=lambda i: " ".join(map(str, crews._wanted()[i][:2])))
def test_every_loop_gives_the_same_bits(crew: crews.Crew, place: int) -> None:
    ufunc, signature, _ = crews._wanted()[place]
    operands = [(rng.standard_normal(COUNT) * 3).astype(kind) for kind in signature.split("->")[0]]
    with np.errstate(all="ignore"):
        alone, shared = apart(crew, lambda: ufunc(*operands))
    np.testing.assert_array_equal(shared.view(np.uint8), alone.view(np.uint8))


def test_layouts_and_repeated_operands(crew: crews.Crew) -> None:
    x, row = rng.standard_normal((600, 500)).astype(np.float32), rng.standard_normal(500).astype(np.float32)
    one = np.broadcast_to(np.float32(3), (600, 500))
    for function in (
        lambda: x * one,
        lambda: x * 2,
        lambda: x + row,
        lambda: x.T * x.T,
        lambda: x[::2] * x[1::2],
        lambda: np.exp(x[:, ::2]),
        lambda: np.add(x, x, out=x.copy()),
        lambda: np.add(x, x, where=x > 0, out=np.zeros_like(x)),
    ):
        alone, shared = apart(crew, function)
        np.testing.assert_array_equal(shared, alone)


def test_what_waits_for_the_element_before_is_not_cut(crew: crews.Crew) -> None:
    ones = np.ones(COUNT)
    assert np.add.accumulate(ones)[-1] == COUNT
    assert np.add.reduce(ones) == COUNT
    x = ones.copy()
    x[1:] += x[:-1]
    assert x[0] == 1 and (x[1:] == 2).all()
    x = np.arange(COUNT, dtype=np.float64)
    x *= x
    assert x[-1] == (COUNT - 1.0) ** 2


@pytest.mark.parametrize("place", [0, COUNT // 2, COUNT - 1])
def test_warnings_arrive_from_every_piece(crew: crews.Crew, place: int) -> None:
    x = np.ones(COUNT, np.float32)
    x[place] = 0
    for _ in range(20):
        with pytest.raises(FloatingPointError), np.errstate(all="raise"):
            np.log(x)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.log(x + 1)


def test_threads_that_compute_at_the_same_time(crew: crews.Crew) -> None:
    import threading

    x = rng.standard_normal(COUNT)
    right, wrong = np.exp(x), []

    def work() -> None:
        for _ in range(50):
            if not np.array_equal(np.exp(x), right):
                wrong.append(1)

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not wrong


def test_number_of_threads_and_provider_are_obeyed(crew: crews.Crew) -> None:
    before = adjoint.get_num_threads()
    limit = crews.ctypes.c_int64.from_address(crew.state + crews._LIMIT)
    try:
        adjoint.set_num_threads(1)
        assert limit.value == 0
        adjoint.set_num_threads(4)
        assert limit.value == 3
        was = provider.allow(False)
        assert limit.value == 0
        provider.allow(was)
    finally:
        adjoint.set_num_threads(before)
        crew.limit(3)


def _child(queue: Any) -> None:
    queue.put(float(np.exp(np.zeros(COUNT)).sum()))
    provider.note_large(provider.HIRING + 1)
    queue.put(float(np.exp(np.zeros(COUNT)).sum()))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_computes(crew: crews.Crew) -> None:
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    child = context.Process(target=_child, args=(queue,))
    child.start()
    assert [queue.get(timeout=60), queue.get(timeout=60)] == [COUNT, COUNT]
    child.join(60)
    assert child.exitcode == 0
