"""Arithmetic, as users write it."""

from __future__ import annotations

import adjoint as torch

x = torch.tensor([1, 2])
y = x + 1
z = 1 - x * 2 / 3 // 1 % 2
mask = (x > 0) & (y != 2) | ~(x <= 1)
y = -(y**2)
y += 1
y *= 2
print(x @ x, z, mask, abs(y), x == y, 2 ** x.float(), mask.any(), bool((x >= 1).all()))
