"""KeyboardInterrupt wherever the interpreter looks for signals: no mode, task or half of a gradient is left behind."""

from __future__ import annotations

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
from adjoint.core import engine, modes
from gates import faults

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
    assert engine.running.tasks == () and modes.local.grad and not modes.off
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
