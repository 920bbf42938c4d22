"""Memory of a char-GPT step: as it is, checkpointed, and inside a budget; and what each costs in time.

``python benchmarks/memory.py`` trains the model of the speed benchmark (4 layers, width 128, context 64, batch 16) for
a few steps each way, from one seed, and checks that the losses and the parameters are the same bit for bit. "kept"
is what is alive after the forward pass and was not before it, by tracemalloc, which sees every NumPy array; time is
processor time, the best of the steps.
"""

from __future__ import annotations

import argparse
import gc
import time
import tracemalloc
from contextlib import nullcontext
from typing import Any

import numpy as np

import adjoint as torch
from adjoint import nn
from adjoint.nn import functional as F
from adjoint.utils.checkpoint import checkpoint

WIDTH, DEPTH, HEADS, CONTEXT, BATCH, LETTERS = 128, 4, 4, 64, 16, 65


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.before(x)).view(batch, length, 3, HEADS, width // HEADS).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.between(x))


class GPT(nn.Module):
    def __init__(self, checkpointed: bool) -> None:
        super().__init__()
        self.letter, self.place = nn.Embedding(LETTERS, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(DEPTH))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, LETTERS, bias=False)
        self.checkpointed = checkpointed

    def forward(self, indices: Any) -> Any:
        x = self.letter(indices) + self.place(torch.arange(indices.size(1)))
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpointed else block(x)
        return self.head(self.norm(x))


def train(steps: int, checkpointed: bool = False, limit: float | None = None) -> dict[str, Any]:
    """Return losses, the best processor time of a step, and bytes kept, of one way to train."""
    torch.manual_seed(0)
    model = GPT(checkpointed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses, times, kept, budget = [], [], 0, None
    for step in range(steps + 2):
        batch = torch.randint(0, LETTERS, (BATCH, CONTEXT + 1))
        measured = step == 1  # tracemalloc is slow; and the first step makes caches and buffers
        if measured:
            gc.collect()
            tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0] if measured else 0
        start = time.process_time()
        budget = nullcontext() if limit is None else torch.memory_budget(limit)
        with budget:
            logits = model(batch[:, :-1])
            loss = F.cross_entropy(logits.reshape(-1, LETTERS), batch[:, 1:].reshape(-1))
        del logits
        if measured:
            kept = tracemalloc.get_traced_memory()[0] - before
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if measured:
            peak = tracemalloc.get_traced_memory()[1] - before
            tracemalloc.stop()
        elif step:
            times.append(time.process_time() - start)
        losses.append(loss.item())
    weights = np.concatenate([p.detach().numpy().ravel() for p in model.parameters()])
    return {"losses": losses, "seconds": min(times), "kept": kept, "peak": peak, "weights": weights,
            "budget": budget}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=5)
    steps = parser.parse_args().steps
    plain = train(steps)
    rows = [("as it is", plain), ("checkpoint per block", train(steps, checkpointed=True))]
    for share in (0.5, 0.33, 0.2, 0.1):
        rows.append((f"budget of {share:.0%}", train(steps, limit=share * plain["kept"])))
    print(f"{'':22}{'kept MiB':>10}{'share':>8}{'peak MiB':>10}{'CPU ms':>10}{'time':>7}  same")
    for name, row in rows:
        same = row["losses"] == plain["losses"] and np.array_equal(row["weights"], plain["weights"])
        print(
            f"{name:22}{row['kept'] / 2**20:10.1f}{row['kept'] / plain['kept']:8.0%}{row['peak'] / 2**20:10.1f}"
            f"{row['seconds'] * 1e3:10.1f}{row['seconds'] / plain['seconds']:7.2f}  {same}"
        )
        if isinstance(row["budget"], torch.memory_budget):
            print(f"{'':22}{row['budget'].report()}")


if __name__ == "__main__":
    main()
