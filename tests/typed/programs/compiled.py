"""Compiled, as users write it."""

from __future__ import annotations

import adjoint as torch
from adjoint import Tensor, nn

model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


@torch.compile
def step(x: Tensor, y: Tensor) -> Tensor:
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    return loss.detach()


print(step(torch.randn(8, 4), torch.randn(8, 1)).item() >= 0)
