"""Parameters, as users write it."""

from __future__ import annotations

import adjoint as torch
from adjoint import Tensor, nn


class Scale(nn.Module):
    offset: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.register_buffer("offset", torch.zeros(size))
        nn.init.normal_(self.weight, std=0.1)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.weight + self.offset


layer = Scale(3)
with torch.no_grad():
    for p in layer.parameters():
        p -= 0.1 * torch.ones_like(p)
        p.mul_(2).add_(1)
for name, p in layer.named_parameters():
    print(name, p.shape, p.requires_grad, layer(torch.ones(3)).sum())
