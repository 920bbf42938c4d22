"""Per-op overhead on a GPU: adjoint on CuPy beside torch eager, in one run, on 8x8 arrays.

Run it on a machine with a GPU: ``python benchmarks/overhead_gpu.py``.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

BAR = 1.0


def chain(T: Any, x: Any, w: Any, b: Any) -> Any:
    h = x
    for _ in range(10):
        h = h * w
        h = h + b
        h = T.tanh(h)
        h = -h
        h = T.exp(h)
        h = h * 0.5
        h = h * h
        h = T.tanh(h)
        h = h - b
        h = h + x
    return h


def prepare(T: Any, recorded: bool) -> Callable[[], None]:
    x, w, b = (T.full((8, 8), v, device="cuda", requires_grad=True) for v in (0.5, 0.9, 0.1))

    def forward_backward() -> None:
        x.grad = w.grad = b.grad = None
        chain(T, x, w, b).sum().backward()

    def forward() -> None:
        with T.no_grad():
            chain(T, x, w, b)

    return forward_backward if recorded else forward


def seconds(program: Callable[[], None], synchronize: Callable[[], Any], repeats: int) -> float:
    synchronize()
    start = time.perf_counter()
    for _ in range(repeats):
        program()
    synchronize()
    return (time.perf_counter() - start) / repeats


def main() -> None:
    """Print one row per program."""
    import cupy
    import torch

    import adjoint

    def wait() -> None:
        torch.cuda.synchronize()
        cupy.cuda.get_current_stream().synchronize()

    print(f"{'measure (100 ops on 8x8, per op)':45} {'adjoint':>10} {'torch':>10} {'ratio':>7}  bar {BAR}")
    for title, recorded in (("forward+backward", True), ("forward under no_grad", False)):
        programs = [prepare(module, recorded) for module in (adjoint, torch)]
        for program in programs:
            seconds(program, wait, 20)
        times: list[list[float]] = [[], []]
        for _ in range(15):
            for program, found in zip(programs, times, strict=True):
                found.append(seconds(program, wait, 10))
        mine, theirs = (min(found) * 1e6 / 100 for found in times)
        ratio, median = mine / theirs, statistics.median(a / b for a, b in zip(*times, strict=True))
        verdict = "ok" if ratio <= BAR else "MISSED"
        print(f"{title:45} {mine:8.2f}µs {theirs:8.2f}µs {ratio:7.2f}  {verdict} (median of pairs {median:.2f})")


if __name__ == "__main__":
    main()
