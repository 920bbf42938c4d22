"""KeyboardInterrupt wherever the interpreter looks for signals: no mode, task or half of a gradient is left behind."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.core import interrupts, modes, tasks
from gates import faults, updates

LONG = {"transformed": 23, "recorded_backward": 5, "saved_hooks": 7, "checkpointed": 7, "forward_mode": 5, "step": 3}


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> Any:
    # An interrupt may come to a generator that is being dropped; Python reports it and goes on.
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)
    traced = sys.gettrace(), sys.getprofile()
    yield
    sys.settrace(traced[0])
    sys.setprofile(traced[1])


@pytest.mark.parametrize("program", [p for p in faults.PROGRAMS if p is not faults.deep], ids=lambda p: p.__name__)
def test_nothing_is_left_behind_by_an_interrupt_at_any_check(program: Callable[[Any], None]) -> None:
    stride = LONG.get(program.__name__, 1)
    cases, bad = faults.at_every_check(program, stride, start=stride)
    assert cases > 20
    assert bad == {}


@pytest.mark.parametrize("program", [faults.backward, faults.hooked, faults.checkpointed], ids=lambda p: p.__name__)
def test_what_a_handler_raises_comes_through(program: Callable[[Any], None]) -> None:
    cases, bad = faults.at_every_check(program, LONG.get(program.__name__, 1), error=faults.Alarm)
    assert cases > 20
    assert bad == {}


def test_an_interrupt_between_a_constructor_and_its_block() -> None:
    def program() -> None:
        sys._getframe().f_trace = trace
        sys._getframe().f_trace_opcodes = True
        sys.settrace(trace)
        with adjoint.set_grad_enabled(False):
            pass

    def trace(frame: Any, event: str, arg: Any) -> Any:
        if event == "opcode" and not adjoint.is_grad_enabled():
            sys.settrace(None)
            raise KeyboardInterrupt
        return trace

    with pytest.raises(KeyboardInterrupt):
        program()
    assert adjoint.is_grad_enabled()


def test_nothing_is_left_behind_by_an_interrupt_of_a_gradient_inside_a_batch() -> None:
    def program(s: Any) -> None:
        adjoint.func.vmap(adjoint.func.grad(adjoint.sum))(s.w)

    cases, bad = faults.at_every_check(program)
    assert cases > 100
    assert bad == {}


def test_signals() -> None:
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "setitimer"):
        pytest.skip("signals come to the main thread of a Unix process")
    table = faults.signals(random.Random(0), time.perf_counter() + 20, most=150)
    assert table["cases"] and not table["corrupt"] and not table["hung"], table


def test_exceptions_in_hooks_and_rules() -> None:
    rng = random.Random(0)
    assert [found for _ in range(100) if (found := faults.raised(rng))] == []


def test_an_interrupt_of_a_pass_in_another_thread_comes_through_once_that_has_ended() -> None:
    x = adjoint.tensor([1.0, 2.0], requires_grad=True)
    threads, runs = set(), []

    def nest(n: int) -> None:
        threads.add(threading.get_ident())
        with adjoint.enable_grad():
            y = x.detach().requires_grad_() * 1
            if n == 0:
                runs.append(n)
                raise KeyboardInterrupt("below")
            y.register_hook(lambda g: nest(n - 1))
            (y * 1).sum().backward()

    for _ in range(3):
        with pytest.raises(KeyboardInterrupt, match="below"):
            nest(90)
    assert len(runs) == 3
    assert len(threads) > 1
    assert tasks.running.tasks == () and modes.local.grad and not modes.off
    (x * x).sum().backward()
    assert np.array_equal(x.grad.numpy(), [2.0, 4.0])


def test_a_context_entered_by_hand_stays_on_when_it_is_dropped() -> None:
    try:
        adjoint.no_grad().__enter__()
        assert not adjoint.is_grad_enabled()
    finally:
        adjoint.set_grad_enabled(True)


def test_an_interrupted_step_says_which_parameters() -> None:
    x = adjoint.ones(3, requires_grad=True)
    x.grad = adjoint.ones(3)
    optimizer = adjoint.optim.SGD([("weight", x)], lr=0.1)
    optimizer._update_for = lambda group: interrupt  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt) as caught:
        optimizer.step()
    assert "SGD.step() was interrupted in parameter group 0" in caught.value.__notes__[0]


def interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


# --- Updates that signals wait for -----------------------------------------------------------------------


@pytest.mark.parametrize("name", updates.UPDATES)
def test_an_update_is_applied_to_all_or_to_nothing(name: str) -> None:
    stride = 197 if name.startswith("compiled") else 23
    for at in range(1 + len(name) % stride, 100_000, stride):
        wrong, injector = updates.interrupted_update(updates.UPDATES[name], at)
        assert not wrong, (injector.where, at)
        if injector.count < at:
            break


@pytest.mark.parametrize("seed", range(12))
def test_lbfgs_goes_on_after_an_interrupt(seed: int) -> None:
    assert updates.minimized(random.Random(seed)) == ""


@pytest.mark.parametrize("seed", range(12))
def test_a_function_whose_capture_was_interrupted_works(seed: int) -> None:
    assert updates.captured(random.Random(seed)) == ""


@pytest.fixture
def heard() -> Any:
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "SIGUSR1"):
        pytest.skip("signals come to the main thread of a Unix process")
    numbers: list[int] = []

    def handler(number: int, frame: Any) -> None:
        numbers.append(number)
        if number == signal.SIGUSR2:
            raise KeyboardInterrupt("on purpose")

    before = {n: signal.signal(n, handler) for n in (signal.SIGUSR1, signal.SIGUSR2)}
    yield numbers
    for number, was in before.items():
        signal.signal(number, was)


@interrupts.whole
def update(*acts: Callable[[], Any]) -> None:
    for act in acts:
        act()


def raised(number: str) -> Callable[[], Any]:
    return lambda: signal.raise_signal(getattr(signal, number))


def test_handlers_run_when_the_update_has_ended(heard: list[int]) -> None:
    mine = signal.getsignal(signal.SIGUSR1)
    inside: list[int] = []
    update(lambda: update(raised("SIGUSR1")), lambda: inside.extend(heard))  # the outer one counts
    assert inside == [] and heard == [signal.SIGUSR1]
    assert signal.getsignal(signal.SIGUSR1) is mine


def test_a_handler_that_raises_does_so_after_the_update(heard: list[int]) -> None:
    done: list[int] = []
    with pytest.raises(KeyboardInterrupt, match="on purpose"):
        update(raised("SIGUSR2"), raised("SIGUSR1"), lambda: done.append(1))
    assert done == [1] and heard == [signal.SIGUSR2, signal.SIGUSR1]  # the second is not lost either


def test_a_second_signal_does_not_wait(heard: list[int]) -> None:
    done: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        update(raised("SIGUSR2"), raised("SIGUSR2"), lambda: done.append(1))
    assert done == [] and heard == [signal.SIGUSR2] and interrupts.came == []


def test_an_update_that_raises_delivers_what_came(heard: list[int]) -> None:
    def fail() -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        update(raised("SIGUSR1"), fail)
    assert heard == [signal.SIGUSR1]


def test_a_handler_set_inside_an_update_stays(heard: list[int]) -> None:
    other = lambda *_: heard.append(0)
    update(lambda: signal.signal(signal.SIGUSR1, other))
    assert signal.getsignal(signal.SIGUSR1) is other
    update(raised("SIGUSR1"))  # and is held in the next
    assert heard == [0]


def test_a_handler_set_back_after_an_update_is_the_old_one(heard: list[int]) -> None:
    update()
    other = lambda *_: heard.append(0)
    old = signal.signal(signal.SIGUSR1, other)
    update(raised("SIGUSR1"))
    signal.signal(signal.SIGUSR1, old)
    update(raised("SIGUSR1"))
    assert heard == [0, signal.SIGUSR1]


def test_a_handler_finds_itself_in_place(heard: list[int]) -> None:
    found: list[bool] = []

    def mine(number: int, frame: Any) -> None:
        found.append(signal.getsignal(number) is mine)

    signal.signal(signal.SIGUSR1, mine)
    update()
    signal.raise_signal(signal.SIGUSR1)
    update(raised("SIGUSR1"))
    signal.raise_signal(signal.SIGUSR1)
    assert found[0] and found[2]


def test_the_handlers_of_the_program_are_in_place_after_a_step(heard: list[int]) -> None:
    x = adjoint.ones(3, requires_grad=True)
    x.grad = adjoint.ones(3)
    mine = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGUSR1)
    optimizer = adjoint.optim.AdamW([x])
    for act in (optimizer.step, lambda: adjoint.nn.utils.clip_grad_norm_([x], 1.0), update):
        act()
        assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGUSR1)) == mine


def test_what_an_interrupted_update_left_behind_is_removed_by_the_next(heard: list[int]) -> None:
    mine = signal.getsignal(signal.SIGUSR1)
    interrupts.hold()  # and no release
    assert signal.getsignal(signal.SIGUSR1) is not mine
    signal.raise_signal(signal.SIGUSR1)
    assert heard == [signal.SIGUSR1]
    interrupts.hold()
    update()
    assert signal.getsignal(signal.SIGUSR1) is mine


def test_asyncio_ends_gracefully_after_training(heard: list[int]) -> None:
    ended: list[str] = []
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    async def work() -> None:
        try:
            update()
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    try:
        update()
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(work())
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended == ["cancelled"]


def test_other_threads_hold_nothing(heard: list[int]) -> None:
    inside, leave = threading.Event(), threading.Event()
    thread = threading.Thread(target=update, args=(inside.set, lambda: leave.wait(60)))
    thread.start()
    inside.wait(60)
    signal.raise_signal(signal.SIGUSR1)
    assert heard == [signal.SIGUSR1]
    leave.set()
    thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_what_came_to_the_parent_does_not_wait_in_a_child(heard: list[int]) -> None:
    pids: list[int] = []
    update(raised("SIGUSR1"), lambda: pids.append(os.fork()), lambda: pids[0] or os._exit(len(interrupts.came)))
    assert os.waitpid(pids[0], 0)[1] == 0
    assert heard == [signal.SIGUSR1]


def test_the_closure_of_lbfgs_is_not_held(heard: list[int]) -> None:
    x = adjoint.tensor([3.0], requires_grad=True)
    optimizer = adjoint.optim.LBFGS([x])
    calls = []

    def closure() -> Any:
        calls.append(1)
        if len(calls) == 3:
            signal.raise_signal(signal.SIGUSR2)
            calls.append(1)
        optimizer.zero_grad()
        loss = (x * x).sum()
        loss.backward()
        return loss

    with pytest.raises(KeyboardInterrupt):
        optimizer.step(closure)
    assert len(calls) == 3
    optimizer.step(closure)
    assert abs(float(x)) < 1e-3
