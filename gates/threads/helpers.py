"""Threads that start at once, threads that are busy meanwhile, and comparisons."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import adjoint as T

ROOT = Path(__file__).parents[2]
THREADS = 16
LIMIT = 60.0  # seconds in which nothing moved, after which a process hangs
REACTION = 0.1  # seconds

Case = Callable[[random.Random, int], None]


def together(work: Callable[[int], None], count: int = THREADS) -> None:
    """Run ``work(number)`` in threads that begin at once; raise the first error of any of them."""
    barrier, errors = threading.Barrier(count), []

    def run(number: int) -> None:
        try:
            barrier.wait()
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@contextlib.contextmanager
def busy(work: Callable[[], Any], count: int = 3) -> Iterator[None]:
    """Let threads repeat some work meanwhile; raise what they raise."""
    stop, errors, begun = threading.Event(), [], threading.Semaphore(0)

    def run() -> None:
        try:
            work()
            begun.release()
            while not stop.is_set():
                work()
        except BaseException as error:
            errors.append(error)
            begun.release()

    threads = [threading.Thread(target=run, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    for _ in threads:
        begun.acquire()
    try:
        yield
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if errors:
        raise errors[0]


def same(got: Any, expected: Any, what: str) -> None:
    """Raise if two tensors, arrays or numbers are not the same."""
    got, expected = (np.asarray(v.detach() if isinstance(v, T.Tensor) else v) for v in (got, expected))
    assert np.array_equal(got, expected), f"{what}: {got} instead of {expected}"
