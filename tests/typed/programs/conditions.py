"""Conditions, as users write it."""

from __future__ import annotations

import adjoint as torch
from adjoint import Tensor


def collatz(n: Tensor) -> int:
    steps = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


x = torch.randn(4)
y = torch.where(x > 0, x, torch.zeros_like(x))
print(collatz(torch.tensor(27)), y.clamp(min=0.1, max=1.0), torch.maximum(x, y), torch.isnan(x).any().item())
