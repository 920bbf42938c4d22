"""What anomaly detection, profiling and observation cost: each step with and without, in turns, best of many.

    python benchmarks/anomaly.py

The bar is 1.3 times the plain step for ``detect_anomaly`` with its forward check. Times are of this thread, so that
other processes disturb less.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import adjoint
from adjoint import nn

ROUNDS = 40


def mlp(*sizes: int, batch: int) -> Callable[[], None]:
    """Return a forward and backward pass of a network of linear layers."""
    layers = [layer for a, b in pairwise(sizes) for layer in (nn.Linear(a, b), nn.ReLU())]
    net = nn.Sequential(*layers[:-1])
    x, y = adjoint.randn(batch, sizes[0]), adjoint.randint(sizes[-1], (batch,))

    def step() -> None:
        net.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()

    return step


def chain(size: int, length: int) -> Callable[[], None]:
    """Return a forward and backward pass of a chain of elementwise ops."""
    x = adjoint.randn(size, size, requires_grad=True)

    def step() -> None:
        h = x
        for _ in range(length):
            h = (h * 1.01).tanh()
        h.sum().backward()
        x.grad = None

    return step


STEPS: dict[str, tuple[Callable[[], None], int]] = {
    "MLP 64-64-10, batch 32": (mlp(64, 64, 10, batch=32), 10),
    "MLP 784-512-512-10, batch 64": (mlp(784, 512, 512, 10, batch=64), 1),
    "20 elementwise ops, 256x256": (chain(256, 10), 1),
}
MODES: dict[str, Callable[[], Any]] = {
    "plain": nullcontext,
    "detect_anomaly": adjoint.autograd.detect_anomaly,
    "detect_anomaly(forward=True)": lambda: adjoint.autograd.detect_anomaly(forward=True),
}


def best(step: Callable[[], None], times: int) -> dict[str, float]:
    """Return the least time of a step in each mode; the modes take turns, so that all meet the same noise."""
    found = dict.fromkeys(MODES, float("inf"))
    for _ in range(ROUNDS):
        for name, mode in MODES.items():
            with mode():
                start = time.thread_time()
                for _ in range(times):
                    step()
                found[name] = min(found[name], (time.thread_time() - start) / times)
    return found


def main() -> None:
    """Print a table."""
    warnings.simplefilter("ignore")
    for title, (step, times) in STEPS.items():
        found = best(step, times)
        plain = found.pop("plain")
        rest = ", ".join(f"{name} {t / plain:.2f}x" for name, t in found.items())
        print(f"{title}: {plain * 1e6:.0f} us; {rest}")


if __name__ == "__main__":
    main()
