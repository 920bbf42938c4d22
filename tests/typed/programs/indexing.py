"""Indexing, as users write it."""

from __future__ import annotations

import adjoint as torch

x = torch.arange(12).reshape(3, 4)
row = x[0]
part = x[1:, ::2]
picked = x[torch.tensor([0, 2]), 1]
new_axis = x[None, ..., 0]
x[x > 5] = 0
x[0, 0] = 7
for line in x:
    print(line.sum())
print(row, part, picked, new_axis.shape, len(x), x.gather(1, torch.tensor([[0], [1], [2]])))
