"""Training steps: adjoint against torch eager, side by side in one run.

    python benchmarks/training.py [--provider numpy] [--quick] [--json FILE] [--only TEXT] [--check]

A row is one decorated function of `T`, the module under test (adjoint or torch), that builds a model in plain torch
words and returns one training step; both sides run the very same code. `--provider numpy` leaves out what
the extra ``fast`` brings, and judges by the bars for NumPy alone. How rows are measured is in `overhead.py`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

if "--provider" in sys.argv:  # read when adjoint is imported
    at = sys.argv.index("--provider")
    os.environ["ADJOINT_PROVIDER"] = sys.argv[at + 1]
    del sys.argv[at : at + 2]

import numpy as np
import overhead
from overhead import Bench, Program, Result, figure, ratio

overhead.ROWS.clear()  # its own rows are another benchmark
FAST = os.environ.get("ADJOINT_PROVIDER", "fast") != "numpy"


def bars(plain: float, fast: float) -> float:
    """Return the bar that counts here: for NumPy alone, or with the extra fast."""
    return fast if FAST else plain


def normal(T: Any, seed: int, *shape: int) -> Any:
    return T.tensor(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def labels(T: Any, seed: int, high: int, *shape: int) -> Any:
    return T.tensor(np.random.default_rng(seed).integers(0, high, shape))


def supervised(T: Any, model: Any, x: Any, y: Any, optimizer: Any) -> Program:
    """Return a step of classification."""
    loss_of = T.nn.CrossEntropyLoss()

    def step() -> None:
        optimizer.zero_grad()
        loss_of(model(x), y).backward()
        optimizer.step()

    return step


# --- Small: what a step costs besides arithmetic ------------------------------------------------------


@ratio("small MLP 64-64-10, batch 32, SGD", bar=0.5)
def small_mlp(T: Any) -> Program:
    nn = T.nn
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    return supervised(T, model, normal(T, 0, 32, 64), labels(T, 1, 10, 32), T.optim.SGD(model.parameters(), lr=1e-3))


@ratio("PINN 2-32-32-1 tanh, u_xx at 256 points, Adam", bar=0.5)
def pinn(T: Any) -> Program:
    nn = T.nn
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = T.optim.Adam(model.parameters(), lr=1e-3)
    points, times = normal(T, 0, 256, 1), normal(T, 1, 256, 1)

    def step() -> None:
        x, t = points.clone().requires_grad_(), times.clone().requires_grad_()
        u = model(T.cat([x, t], dim=1))
        u_x, u_t = T.autograd.grad(u.sum(), (x, t), create_graph=True)
        (u_xx,) = T.autograd.grad(u_x.sum(), x, create_graph=True)
        loss = ((u_t + u * u_x - 0.01 * u_xx) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


@ratio("LSTM cell, 50 steps x 64 hidden, batch 16, SGD", bar=0.8)
def lstm_loop(T: Any) -> Program:
    cell, head = T.nn.LSTMCell(32, 64), T.nn.Linear(64, 1)
    optimizer = T.optim.SGD([*cell.parameters(), *head.parameters()], lr=1e-3)
    xs = normal(T, 0, 50, 16, 32)

    def step() -> None:
        h = c = T.zeros(16, 64)
        for x in xs:
            h, c = cell(x, (h, c))
        loss = (head(h) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return step


@ratio("recursive trees, 8 of 31 nodes, 32 hidden, SGD", bar=0.45)
def trees(T: Any) -> Program:
    nn = T.nn
    leaf, join, head = nn.Embedding(20, 32), nn.Linear(64, 32), nn.Linear(32, 2)
    parameters = [p for m in (leaf, join, head) for p in m.parameters()]
    optimizer = T.optim.SGD(parameters, lr=1e-2)
    rng = np.random.default_rng(0)
    words = [T.tensor(i) for i in range(20)]

    def tree(leaves: int) -> Any:
        if leaves == 1:
            return int(rng.integers(20))
        left = int(rng.integers(1, leaves))
        return tree(left), tree(leaves - left)

    forest = [tree(16) for _ in range(8)]
    targets = [T.tensor([i % 2]) for i in range(8)]

    def encode(node: Any) -> Any:
        if isinstance(node, int):
            return leaf(words[node])
        return T.tanh(join(T.cat([encode(node[0]), encode(node[1])])))

    def step() -> None:
        optimizer.zero_grad()
        loss = sum(nn.functional.cross_entropy(head(encode(t))[None], y) for t, y in zip(forest, targets))
        loss.backward()
        optimizer.step()

    return step


# --- Larger: arithmetic --------------------------------------------------------------------------------


@ratio("MNIST MLP 784-512-512-10, batch 128, Adam", bar=bars(1.3, 0.9), apart=True)
def mnist_mlp(T: Any) -> Program:
    nn = T.nn
    model = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
    return supervised(
        T, model, normal(T, 0, 128, 784), labels(T, 1, 10, 128), T.optim.Adam(model.parameters(), lr=1e-3)
    )


@ratio("Adam.step alone, 670k elements", bar=bars(1.3, 0.9))
def adam_alone(T: Any) -> Program:
    shapes = [(512, 784), (512,), (512, 512), (512,), (10, 512), (10,)]
    parameters = [T.nn.Parameter(normal(T, i, *s)) for i, s in enumerate(shapes)]
    for i, p in enumerate(parameters):
        p.grad = normal(T, 10 + i, *p.shape)
    return T.optim.Adam(parameters, lr=1e-3).step  # type: ignore[no-any-return]


@ratio("Adam.step alone, 100 parameters of 64 elements", bar=0.5)
def adam_small(T: Any) -> Program:
    parameters = [T.nn.Parameter(normal(T, i, 8, 8)) for i in range(100)]
    for i, p in enumerate(parameters):
        p.grad = normal(T, 100 + i, 8, 8)
    return T.optim.Adam(parameters, lr=1e-3).step  # type: ignore[no-any-return]


def char_gpt(T: Any, layers: int = 4, width: int = 128, heads: int = 4, context: int = 64, vocabulary: int = 65) -> Any:
    """Return a small GPT, as people write one."""
    nn, F = T.nn, T.nn.functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            b, t, _ = x.shape
            q, k, v = (
                part.view(b, t, heads, width // heads).transpose(1, 2)
                for part in self.qkv(self.norm1(x)).split(width, dim=2)
            )
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.proj(y.transpose(1, 2).contiguous().view(b, t, width))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
            self.blocks = nn.ModuleList([Block() for _ in range(layers)])
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

        def forward(self, ids: Any) -> Any:
            x = self.tokens(ids) + self.places(T.arange(ids.shape[1]))
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    return GPT()


@ratio("char-GPT, 4 layers, d 128, context 64, batch 16, AdamW", bar=bars(1.6, 0.95), apart=True)
def gpt(T: Any) -> Program:
    model = char_gpt(T)
    optimizer = T.optim.AdamW(model.parameters(), lr=1e-3)
    ids, targets = labels(T, 0, 65, 16, 64), labels(T, 1, 65, 16, 64)

    def step() -> None:
        optimizer.zero_grad()
        logits = model(ids)
        T.nn.functional.cross_entropy(logits.view(-1, 65), targets.view(-1)).backward()
        optimizer.step()

    return step


@ratio("LeNet, batch 64, SGD with momentum", bar=bars(2.0, 1.0), apart=True)
def lenet(T: Any) -> Program:
    nn = T.nn
    model = nn.Sequential(
        nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
    )  # fmt: skip
    optimizer = T.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    return supervised(T, model, normal(T, 0, 64, 1, 28, 28), labels(T, 1, 10, 64), optimizer)


# --- Memory --------------------------------------------------------------------------------------------


def memory_of_gpt(module: str) -> dict[str, float]:
    """Take a few steps of the char-GPT in a process of its own; how much memory was there at most?"""
    T = __import__(module)
    before = overhead.memory("VmRSS")
    step = gpt(T)
    for _ in range(5):
        step()
    peak = overhead.memory("VmHWM")
    return {"peak": peak, "growth": peak - before}


@figure("char-GPT, peak memory of a process that trains it", bar=1.0, unit="of torch")
def gpt_memory(bench: Bench) -> Result:
    jobs = [[str(Path(__file__).resolve()), "--memory", side.__name__] for side in bench.sides]
    best = [min(answers, key=lambda a: a["peak"]) for answers in bench.subprocesses(*jobs, repeats=2)]
    # Kernels are loaded when first used: here that is part of the growth, in torch it is part of the import.
    note = "since the import " + " against ".join(f"{side['growth']:.0f}" for side in best) + " MiB"
    if len(best) == 1:
        return Result(None, best[0]["peak"], None, "MiB", note)
    return Result(best[0]["peak"] / best[1]["peak"], best[0]["peak"], best[1]["peak"], "MiB", note)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--memory"]:
        print(json.dumps(memory_of_gpt(sys.argv[2])))
        raise SystemExit(0)
    raise SystemExit(overhead.main())
