"""A recursive network computes truth values of nested formulas: every formula has a graph of its own shape."""

from __future__ import annotations

import random

from shared import Progress, settings

import adjoint as torch
from adjoint import nn

args = settings(__doc__)
if args.compile:
    print("every batch has a graph of its own shape: there is no program that runs twice, so none is compiled")
dice = random.Random(args.seed)


def formula(depth: int):
    """Return a random formula, nested tuples of "and", "or", "not" and truth values, and its value."""
    kind = dice.choice(["and", "or", "not", "leaf"]) if depth else "leaf"
    if kind == "leaf":
        value = dice.random() < 0.5
        return value, value
    left, a = formula(depth - 1)
    if kind == "not":
        return ("not", left), not a
    right, b = formula(depth - 1)
    return (kind, left, right), (a and b) if kind == "and" else (a or b)


class TreeNet(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.leaf = nn.Embedding(2, width)
        self.nodes = nn.ModuleDict({k: nn.Linear((1 + (k != "not")) * width, width) for k in ("and", "or", "not")})
        self.head = nn.Linear(width, 1)

    def meaning(self, tree) -> torch.Tensor:
        if not isinstance(tree, tuple):
            return self.leaf.weight[int(tree)]
        kind, *parts = tree
        return torch.tanh(self.nodes[kind](torch.cat([self.meaning(part) for part in parts])))

    def forward(self, trees) -> torch.Tensor:
        return self.head(torch.stack([self.meaning(tree) for tree in trees]))[:, 0]


model = TreeNet(12).to(args.device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
bar = Progress(100 if args.short else 500, "batches")
for _ in bar:
    trees, values = zip(*(formula(4) for _ in range(24)), strict=True)
    loss = nn.functional.binary_cross_entropy_with_logits(
        model(trees), torch.tensor(values, dtype=torch.float32, device=args.device)
    )
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    bar.show(loss=loss.item())

trees, values = zip(*(formula(6) for _ in range(300)), strict=True)  # deeper than any it has seen
with torch.no_grad():
    right = ((model(trees) > 0).cpu() == torch.tensor(values)).float().mean().item()
print(f"right on deeper formulas: {right:.1%}")
assert right > (0.85 if args.short else 0.97)
