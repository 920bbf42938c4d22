"""The same training on a GPU with adjoint and torch: same weights and data, loss by loss, and the time of a step.

Run it on a machine with a GPU: ``python benchmarks/training_gpu.py [mlp|cnn|gpt] [--amp none,bfloat16,float16]``.
Float32 losses must agree to 1e-4 over 50 steps, half-precision ones to 2 %.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

STEPS = 50


def mlp(T: Any) -> Any:
    nn = T.nn
    return nn.Sequential(nn.Linear(144, 128), nn.ReLU(), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))


def cnn(T: Any) -> Any:
    nn = T.nn
    return nn.Sequential(
        nn.Unflatten(1, (1, 12, 12)), nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(16 * 9, 10),
    )  # fmt: skip


def gpt(T: Any, words: int = 64, context: int = 64, width: int = 128, heads: int = 4) -> Any:
    nn, F = T.nn, T.nn.functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

        def forward(self, x: Any) -> Any:
            b, t, _ = x.shape
            q, k, v = self.qkv(self.before(x)).view(b, t, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
            seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(seen.transpose(1, 2).reshape(b, t, width))
            return x + self.mlp(self.between(x))

    class GPT(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letter, self.place = nn.Embedding(words, width), nn.Embedding(context, width)
            self.blocks = nn.Sequential(Block(), Block(), Block(), Block())
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
            self.head.weight = self.letter.weight

        def forward(self, indices: Any) -> Any:
            places = T.arange(indices.size(1), device=indices.device)
            return self.head(self.norm(self.blocks(self.letter(indices) + self.place(places))))

    return GPT()


def data(name: str) -> list[tuple[Any, Any]]:
    """Return the batches of all steps, as arrays: digits that are noise around ten patterns, or text with a rule."""
    rng = np.random.default_rng(0)
    if name == "gpt":
        starts = rng.integers(0, 64, (STEPS, 16, 1))
        steps = rng.integers(1, 4, (STEPS, 16, 1))
        text = (starts + steps * np.arange(65)) % 64
        return [(t[:, :-1].copy(), t[:, 1:].copy()) for t in text]
    patterns = rng.normal(size=(10, 144))
    labels = rng.integers(0, 10, (STEPS, 64))
    return [((patterns[y] + rng.normal(size=(64, 144))).astype(np.float32), y) for y in labels]


def weights(model: Any) -> dict[str, Any]:
    """Return random values for the parameters of a model, the same for every library."""
    rng = np.random.default_rng(1)
    found = {}
    for name, p in model.named_parameters():
        shape = tuple(p.shape)
        fan = int(np.prod(shape[1:])) if len(shape) > 1 else 1
        values = rng.normal(size=shape) * (0.05 if "letter" in name or "place" in name else fan**-0.5)
        found[name] = (values if len(shape) > 1 else np.full(shape, float("weight" in name))).astype(np.float32)
    return found


def train(T: Any, name: str, amp: str, repeat: int = 1) -> tuple[list[float], float]:
    """Return the losses of all steps, and how long one takes."""
    F = T.nn.functional
    model = {"mlp": mlp, "cnn": cnn, "gpt": gpt}[name](T).to("cuda")
    with T.no_grad():
        for key, value in weights(model).items():
            dict(model.named_parameters())[key].copy_(T.from_numpy(value))
    if name == "cnn":
        optimizer = T.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    else:
        optimizer = T.optim.AdamW(model.parameters(), lr=1e-3)
    scaler = T.amp.GradScaler("cuda", enabled=amp == "float16", init_scale=2.0**12)
    batches = [(T.from_numpy(x).to("cuda"), T.from_numpy(y).to("cuda")) for x, y in data(name)]

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        with T.autocast("cuda", dtype=getattr(T, amp if amp != "none" else "bfloat16"), enabled=amp != "none"):
            out = model(x)
            loss = F.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))
        scaler.scale(loss).backward()
        if name == "gpt":
            scaler.unscale_(optimizer)
            T.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    losses = [step(x, y) for x, y in batches]
    best = float("inf")
    for _ in range(repeat):
        T.cuda.synchronize()
        start = time.perf_counter()
        for x, y in batches[:20]:
            step(x, y)
        T.cuda.synchronize()
        best = min(best, (time.perf_counter() - start) / 20)
    return [float(loss) for loss in losses], best


def furthest(ours: list[float], theirs: list[float]) -> float:
    """Return the largest relative difference of two curves."""
    return max((abs(a - b) / abs(b) for a, b in zip(ours, theirs)), default=float("nan"))


def main() -> None:
    """Print one line for each model and precision."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", default=["mlp", "cnn", "gpt"])
    parser.add_argument("--amp", default="none,bfloat16,float16")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    libraries = [importlib.import_module(name) for name in ("adjoint", "torch")]
    for T in libraries:
        T.backends.cudnn.allow_tf32 = False
    full: list[float] = []
    for name in options.models:
        for amp in options.amp.split(","):
            (ours, mine), (theirs, its) = (train(T, name, amp, options.repeat) for T in libraries)
            apart, full = furthest(ours, theirs), theirs if amp == "none" else full
            bar = 1e-4 if amp == "none" else 0.02
            print(
                f"{name:<5}{amp:<10}loss {ours[0]:.4f} -> {ours[-1]:.4f}, torch's {theirs[0]:.4f} -> {theirs[-1]:.4f}; "
                f"furthest apart {apart:.1e} {'ok' if apart <= bar else 'MISSED'} (from torch's float32: ours "
                f"{furthest(ours, full):.1e}, torch's {furthest(theirs, full):.1e}); step {mine * 1e3:.2f} ms, "
                f"torch {its * 1e3:.2f} ms ({mine / its:.2f})",
                flush=True,
            )


if __name__ == "__main__":
    main()
