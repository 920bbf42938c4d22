"""Signals while a program trains."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as T
from adjoint import nn

from .helpers import LIMIT, REACTION, same


def _plain() -> None:
    sum(range(1000))


def _training() -> Callable[[], Any]:
    model = nn.Sequential(nn.Linear(20, 50), nn.ReLU(), nn.Linear(50, 5))
    optimizer = T.optim.AdamW(model.parameters())
    data = T.randn(30, 20)

    def step() -> None:
        optimizer.zero_grad()
        model(data).square().sum().backward()
        optimizer.step()

    return step


def reactions(work: Callable[[], Any], number: int, count: int, act: Callable[[], Any]) -> list[float]:
    """Return how long after each signal its handler ran, while the main thread works."""
    sent, found = [0.0], []
    begun, arrived, stop = threading.Event(), threading.Event(), threading.Event()

    def handler(*_: Any) -> None:
        found.append(time.perf_counter() - sent[0])
        arrived.set()
        act()

    def send() -> None:
        pauses = random.Random(count)
        begun.wait()
        for _ in range(count):
            time.sleep(pauses.random() * 0.01)
            arrived.clear()
            sent[0] = time.perf_counter()
            os.kill(os.getpid(), number)
            arrived.wait(LIMIT)
        stop.set()

    before = signal.signal(number, handler)
    sender = threading.Thread(target=send, daemon=True)
    try:
        sender.start()
        while not stop.is_set():
            with contextlib.suppress(KeyboardInterrupt):
                begun.set()
                work()
        sender.join()
    finally:
        signal.signal(number, before)
    assert len(found) == count, f"lost: {count - len(found)} signals"
    return found


def _interrupt() -> None:
    raise KeyboardInterrupt


def signals(rng: random.Random, calls: int) -> None:
    """Handlers run in time, may run autograd themselves or raise, and the work goes on."""
    x = T.ones(3, requires_grad=True)
    runs: list[int] = []

    def differentiate() -> None:
        with T.enable_grad():
            (x * 2).sum().backward()
        runs.append(1)

    number, act = rng.choice([
        (signal.SIGALRM, differentiate), (signal.SIGINT, _interrupt), (signal.SIGTERM, _interrupt),
        (signal.SIGCHLD, lambda: None), (signal.SIGUSR1, differentiate),
    ])  # fmt: skip
    for _ in range(3):  # machines are noisy: what seems late is measured again before it counts
        usual = max(reactions(_plain, number, 20, lambda: None))
        slowest = max(reactions(_training(), number, 40, act))
        if slowest < REACTION + usual:
            break
    same(x.grad if runs else 0.0, np.full(3, 2.0 * len(runs)) if runs else 0.0, "lost: passes in a handler")
    assert T.is_grad_enabled(), "grad mode was left off"
    y = T.ones(2, requires_grad=True)
    (y * y).sum().backward()
    same(y.grad, np.full(2, 2.0), "backward afterwards")
    assert slowest < REACTION + usual, f"late: {slowest:.3f} s, a plain loop {usual:.3f} s"
