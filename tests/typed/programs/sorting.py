"""Sorting, as users write it."""

from __future__ import annotations

import adjoint as torch

x = torch.randn(10)
values, indices = x.sort(descending=True)
top = torch.topk(x, 3)
print(
    values[0] >= values[1], indices.shape, top.values, top.indices, torch.unique(torch.tensor([1, 1, 2])), x.argsort()
)
print(
    torch.cumsum(x, dim=0)[-1],
    torch.median(x),
    torch.bincount(torch.tensor([0, 1, 1])),
    torch.searchsorted(x.sort()[0], x[0]),
)
