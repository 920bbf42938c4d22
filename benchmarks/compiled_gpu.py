"""Compiled steps on a GPU against torch eager: five elementwise stages on 64M floats, and an MLP with Adam.

Run it on a machine with a GPU: ``python benchmarks/compiled_gpu.py``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))


def elementwise(T: Any) -> Any:
    w = T.randn(64_000_000, device="cuda").requires_grad_()

    def step(x: Any) -> Any:
        w.grad = None
        y = x * w
        y = T.tanh(y)
        y = y * y + x
        y = T.sigmoid(y)
        y = y * w
        y.backward(x)
        return y.detach()

    return step, (T.randn(64_000_000, device="cuda"),)


def mlp(T: Any) -> Any:
    nn = T.nn
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)).to("cuda")
    optimizer = T.optim.Adam(model.parameters(), lr=1e-3)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (T.randn(128, 784).to("cuda"), T.randint(0, 10, (128,)).to("cuda"))


def seconds(program: Callable[[], Any], synchronize: Callable[[], Any]) -> float:
    for _ in range(5):
        program()
    best = float("inf")
    for _ in range(10):
        synchronize()
        start = time.perf_counter()
        for _ in range(20):
            program()
        synchronize()
        best = min(best, (time.perf_counter() - start) / 20)
    return best


def main() -> None:
    import torch

    import adjoint

    print(f"{'step':<20}{'torch eager':>14}{'adjoint eager':>15}{'compiled':>12}{'bar':>10}")
    for prepare, bar in ((elementwise, 0.6), (mlp, 0.25)):
        rows = []
        for T, compiled in ((torch, False), (adjoint, False), (adjoint, True)):
            step, given = prepare(T)
            step = adjoint.compile(step) if compiled else step
            rows.append(seconds(lambda step=step, given=given: step(*given), T.cuda.synchronize) * 1e3)
            note = getattr(step, "refused", "") or [t.program.run.refused for t in getattr(step, "traces", [])]
        print(f"{prepare.__name__:<20}{rows[0]:>12.3f}ms{rows[1]:>13.3f}ms{rows[2]:>10.3f}ms{bar:>8.2f}ms  {note}")


if __name__ == "__main__":
    main()
