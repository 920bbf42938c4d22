"""Reductions, as users write it."""

from __future__ import annotations

import adjoint as torch

x = torch.randn(3, 4)
best = x.max(dim=1)
values, indices = x.min(dim=0)
print(best.values.shape, best.indices.tolist(), values.sum() + indices.float().mean(), x.max().item())
print(
    x.sum(), x.mean(dim=0), x.std(), x.var(dim=1), x.argmax(), x.prod(dim=1, keepdim=True), x.norm(), x.amax(dim=(0, 1))
)
