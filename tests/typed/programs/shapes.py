"""Shapes, as users write it."""

from __future__ import annotations

import adjoint as torch

x = torch.zeros(2, 3, 4)
y = x.permute(2, 0, 1).reshape(4, -1).unsqueeze(0).squeeze()
z = torch.cat([x, x], dim=1)
w = torch.stack((y, y))
a, b = torch.split(z, 3, dim=1)
first, *rest = torch.chunk(x, 3, dim=1)
rows, columns = y.shape
print(
    y.size(0),
    z.shape,
    w.ndim,
    a.numel() + b.numel(),
    first.flatten().dim(),
    len(rest),
    rows * columns,
    x.expand(2, 3, 4).view(-1),
)
