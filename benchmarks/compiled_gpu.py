"""Steps on a GPU against torch eager: five elementwise stages on 64M floats, an MLP with Adam, GPT-2 in bfloat16.

Run it on a machine with a GPU: ``python benchmarks/compiled_gpu.py [elementwise|mlp|gpt2] [--sides torch,eager,...]``.
Each side has a process of its own: memory that one holds is not there for the other.
"""

from __future__ import annotations

import argparse
import importlib
import subprocess
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


def gpt2(T: Any, batch: int = 16, context: int = 1024) -> Any:
    """The smallest GPT-2 (124M parameters), a step of AdamW under bfloat16 autocast."""
    nn, F, width, heads, words = T.nn, T.nn.functional, 768, 12, 50257

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attend, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            b, t, _ = x.shape
            parts = self.attend(self.before(x)).split(width, dim=2)
            q, k, v = (p.view(b, t, heads, width // heads).transpose(1, 2) for p in parts)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.project(y.transpose(1, 2).reshape(b, t, width))
            return x + self.narrow(F.gelu(self.widen(self.between(x)), approximate="tanh"))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.places = nn.Embedding(words, width), nn.Embedding(context, width)
            self.blocks = nn.ModuleList([Block() for _ in range(12)])
            self.last, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
            self.head.weight = self.tokens.weight
            nn.init.normal_(self.tokens.weight, std=0.02)

        def forward(self, indices: Any) -> Any:
            x = self.tokens(indices) + self.places.weight
            for block in self.blocks:
                x = block(x)
            return self.head(self.last(x))

    T.manual_seed(0)
    model = GPT().to("cuda")
    optimizer = T.optim.AdamW(model.parameters(), lr=3e-4, fused=True)

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        with T.autocast("cuda", dtype=T.bfloat16):
            loss = F.cross_entropy(model(x).view(-1, words), y.view(-1))
        loss.backward()
        optimizer.step()
        return loss.detach()

    text = T.randint(0, words, (batch, context + 1))
    return step, (text[:, :-1].contiguous().to("cuda"), text[:, 1:].contiguous().to("cuda"))


STEPS = {"elementwise": (elementwise, 0.6, 20), "mlp": (mlp, 0.25, 50), "gpt2": (gpt2, 40.0, 5)}
SIDES = ("torch", "torch.compile", "eager", "compiled")


def seconds(program: Callable[[], Any], synchronize: Callable[[], Any], loops: int) -> float:
    """Return the best of several times, per call."""
    for _ in range(4):
        program()
    best = float("inf")
    for _ in range(5):
        synchronize()
        start = time.perf_counter()
        for _ in range(loops):
            program()
        synchronize()
        best = min(best, (time.perf_counter() - start) / loops)
    return best


def side(name: str, which: str) -> None:
    """Time one step on one side, and print one line."""
    prepare, _, loops = STEPS[name]
    T = importlib.import_module("torch" if which.startswith("torch") else "adjoint")
    step, given = prepare(T)
    run = T.compile(step) if which in ("torch.compile", "compiled") else step
    start = time.perf_counter()
    first = run(*given)
    T.cuda.synchronize()
    begun = time.perf_counter() - start
    taken = seconds(lambda: run(*given), T.cuda.synchronize, loops) * 1e3
    why = str(getattr(run, "refused", "") or [t.program.run.refused for t in getattr(run, "traces", [])] or "")
    last = float(run(*given).float().mean())
    print(
        f"{name:<14}{which:<15}{taken:>10.3f} ms   first call {begun:6.2f} s   memory "
        f"{T.cuda.max_memory_allocated() / 2**30:6.2f} GiB   {float(first.float().mean()):.4f} -> {last:.4f} {why}",
        flush=True,
    )


def main() -> None:
    """Print one line per step and side."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("steps", nargs="*", default=list(STEPS))
    parser.add_argument("--sides", default=",".join(SIDES))
    options = parser.parse_args()
    names, sides = options.steps, options.sides.split(",")
    if len(names) == len(sides) == 1:
        side(names[0], sides[0])
        return
    for name in names:
        print(f"{name}: bar {STEPS[name][1]} ms", flush=True)
        for which in sides:
            subprocess.run([sys.executable, __file__, name, "--sides", which], check=False)


if __name__ == "__main__":
    main()
