"""Regression, as users write it."""

from __future__ import annotations

import adjoint as torch

x = torch.linspace(0, 1, 50).unsqueeze(1)
y = 3 * x + 0.5 + 0.1 * torch.randn(50, 1)
w = torch.zeros(1, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
for _ in range(20):
    loss = ((x * w + b - y) ** 2).mean()
    loss.backward()
    with torch.no_grad():
        for p in (w, b):
            p -= 0.1 * p.grad
            p.grad = None
print(w.item(), b.item())
