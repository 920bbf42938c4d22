"""Compiled steps against torch eager, side by side in one run.

    python benchmarks/compiled.py [--quick] [--only TEXT]

Each row is a plain PyTorch program, `def prepare(T) -> (step, arguments)`; adjoint runs it eagerly and compiled, torch
eagerly. The first compiled calls are timed too: cold (empty cache) and from the disk cache, in processes of their own.
"""

from __future__ import annotations

import argparse
import importlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.sides import Side, serve, sides  # noqa: E402

ROWS: dict[str, tuple[float, Callable[[Any], Any]]] = {}


def row(name: str, bar: float) -> Callable[..., Any]:
    def declare(prepare: Callable[[Any], Any]) -> Callable[[Any], Any]:
        ROWS[name] = (bar, prepare)
        return prepare

    return declare


def training(T: Any, model: Any, optimizer: Any, loss: Callable[..., Any]) -> Callable[..., Any]:
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        value = loss(model(x), y)
        value.backward()
        optimizer.step()
        return value.detach()

    return step


@row("small MLP 64-64-10, SGD, batch 32", 0.25)
def small_mlp(T: Any) -> Any:
    nn = T.nn
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    step = training(T, model, T.optim.SGD(model.parameters(), lr=0.01), nn.functional.cross_entropy)
    return step, (T.randn(32, 64), T.randint(0, 10, (32,)))


@row("PINN 2-32-32-1 with u_xx, 256 points", 0.35)
def pinn(T: Any) -> Any:
    nn = T.nn
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = T.optim.SGD(model.parameters(), lr=0.001)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        u = model(x)
        (du,) = T.autograd.grad(u.sum(), x, create_graph=True)
        (ddu,) = T.autograd.grad(du[:, 0].sum(), x, create_graph=True)
        loss = ((du[:, 1:] + u * du[:, :1] - 0.01 * ddu[:, :1]) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (T.rand(256, 2, requires_grad=True),)


@row("LSTM cell, 50 steps, hidden 64, batch 16", 0.35)
def lstm(T: Any) -> Any:
    nn = T.nn
    cell, head = nn.LSTMCell(32, 64), nn.Linear(64, 10)
    params = [*cell.parameters(), *head.parameters()]
    optimizer = T.optim.SGD(params, lr=0.01)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        h = c = T.zeros(16, 64)
        for t in range(50):
            h, c = cell(x[t], (h, c))
        loss = nn.functional.cross_entropy(head(h), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (T.randn(50, 16, 32), T.randint(0, 10, (16,)))


@row("MNIST MLP 784-512-512-10, Adam, batch 128", 0.75)
def mnist(T: Any) -> Any:
    nn = T.nn
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    step = training(T, model, T.optim.Adam(model.parameters(), lr=1e-3), nn.functional.cross_entropy)
    return step, (T.randn(128, 784), T.randint(0, 10, (128,)))


@row("10 elementwise ops on 4M floats, forward and backward", 0.25)
def elementwise(T: Any) -> Any:
    w = T.randn(4_000_000).requires_grad_()

    def step(x: Any) -> Any:
        w.grad = None
        y = T.tanh(x * w + 0.5)
        y = T.exp(-y * y) + T.sigmoid(y)
        y = y * x - w
        loss = y.sum()
        loss.backward()
        return loss.detach()

    return step, (T.randn(4_000_000),)


class Block:
    """A transformer block, made by `make` for either module."""

    @staticmethod
    def make(T: Any, width: int, heads: int) -> Any:
        nn, F = T.nn, T.nn.functional

        class TransformerBlock(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
                self.mix, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
                self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

            def forward(self, x: Any) -> Any:
                b, t, c = x.shape
                q, k, v = self.mix(self.norm1(x)).split(c, dim=2)
                q, k, v = (z.view(b, t, heads, c // heads).transpose(1, 2) for z in (q, k, v))
                a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
                x = x + self.out(a.transpose(1, 2).reshape(b, t, c))
                return x + self.down(F.gelu(self.up(self.norm2(x))))

        return TransformerBlock()


@row("char-GPT, 4 layers, width 128, context 64, batch 16", 0.85)
def char_gpt(T: Any) -> Any:
    nn = T.nn

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(65, 128), nn.Embedding(64, 128)
            self.blocks = nn.Sequential(*(Block.make(T, 128, 4) for _ in range(4)))
            self.norm, self.head = nn.LayerNorm(128), nn.Linear(128, 65)

        def forward(self, i: Any) -> Any:
            x = self.tokens(i) + self.places(T.arange(64))
            return self.head(self.norm(self.blocks(x)))

    model = GPT()
    optimizer = T.optim.AdamW(model.parameters(), lr=3e-4)

    def step(i: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(i).view(-1, 65), y.view(-1))
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (T.randint(0, 65, (16, 64)), T.randint(0, 65, (16, 64)))


@row("LeNet, batch 64", 1.0)
def lenet(T: Any) -> Any:
    nn = T.nn
    model = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip
    step = training(T, model, T.optim.SGD(model.parameters(), lr=0.01), nn.functional.cross_entropy)
    return step, (T.randn(64, 1, 28, 28), T.randint(0, 10, (64,)))


@row("hvp of logistic regression, 1000 x 200", 0.20)
def hvp(T: Any) -> Any:
    data, labels = T.randn(1000, 200), T.randint(0, 2, (1000,)).float()

    def step(w: Any, v: Any) -> Any:
        z = data @ w
        loss = (T.log1p(T.exp(-z.abs())) + z.clamp(min=0) - z * labels).mean()
        (g,) = T.autograd.grad(loss, w, create_graph=True)
        (h,) = T.autograd.grad((g * v).sum(), w)
        return h

    return step, (T.randn(200, requires_grad=True), T.randn(200))


def prepared(name: str, side: str) -> Callable[[], Any]:
    """Return the step of a row: torch's, ours, or ours compiled (three calls are made before it is timed)."""
    T = importlib.import_module(side.split()[0])
    T.set_num_threads(2)
    T.manual_seed(0)
    step, given = ROWS[name][1](T)
    if side.endswith("compiled"):
        step = T.compile(step)
        for _ in range(3):
            step(*given)
    return lambda: step(*given)


def clock(side: Side, seconds: float) -> float:
    loops, elapsed = 1, 0.0
    while elapsed < seconds:
        elapsed = side.clock(loops)
        loops *= 2
    return elapsed / (loops // 2)


def measure(name: str, quick: bool) -> list[float]:
    """Best times of torch eager, adjoint eager and adjoint compiled, each in a process of its own."""
    best = [float("inf")] * 3
    with sides(*([__file__, "--serve", side] for side in ("torch", "adjoint", "adjoint compiled"))) as started:
        for side in started:
            side.open(name)
        for _ in range(3 if quick else 10):
            for i, side in enumerate(started):
                best[i] = min(best[i], clock(side, 0.05 if quick else 0.2))
    return best


def first_call(name: str, cache: str) -> float:
    """Seconds from the first compiled call of a step to the end of its third, in a fresh process."""
    code = (
        f"import time, sys; sys.path.insert(0, {str(ROOT)!r}); import adjoint\n"
        f"from benchmarks.compiled import ROWS\n"
        f"adjoint.manual_seed(0); step, given = ROWS[{name!r}][1](adjoint); step = adjoint.compile(step)\n"
        "start = time.perf_counter(); [step(*given) for _ in range(3)]; print(time.perf_counter() - start)"
    )
    environment = {**os.environ, "ADJOINT_CACHE_DIR": cache}
    return float(
        subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True).stdout
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--first", action="store_true", help="also time first calls, cold and cached")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.serve:
        serve(lambda name: prepared(name, chosen.serve))
        return
    print(f"{'step':<56}{'torch':>10}{'eager':>10}{'compiled':>10}{'ratio':>8}{'bar':>7}  first calls")
    for name, (bar, _) in ROWS.items():
        if chosen.only not in name:
            continue
        theirs, eager, ours = measure(name, chosen.quick)
        note = ""
        if chosen.first:
            with tempfile.TemporaryDirectory() as cache:
                note = f"cold {first_call(name, cache):.1f} s, cached {first_call(name, cache):.2f} s"
        verdict = "ok" if ours / theirs <= bar else "MISSED"
        print(
            f"{name:<56}{theirs * 1e6:>8.0f}µs{eager * 1e6:>8.0f}µs{ours * 1e6:>8.0f}µs"
            f"{ours / theirs:>8.2f}{bar:>7.2f}  {verdict}  {note}",
            flush=True,
        )


if __name__ == "__main__":
    main()
