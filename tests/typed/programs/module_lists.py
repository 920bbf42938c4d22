"""Module lists, as users write it."""

from __future__ import annotations

import adjoint as torch
from adjoint import Tensor, nn


class Stack(nn.Module):
    def __init__(self, depth: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(depth)])
        self.heads = nn.ModuleDict({"a": nn.Linear(4, 1), "b": nn.Linear(4, 2)})
        self.drop = nn.Dropout(0.1)

    def forward(self, x: Tensor, head: str = "a") -> Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        out: Tensor = self.heads[head](self.drop(x))
        return out


model = Stack(2).eval()
print(model(torch.ones(1, 4), head="b").shape, len(model.layers), model.training)
