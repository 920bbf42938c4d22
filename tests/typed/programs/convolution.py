"""Convolution, as users write it."""

from __future__ import annotations

import adjoint as torch
from adjoint import Tensor, nn


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, kernel_size=3, padding=1)
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.relu(self.norm(self.conv(x)))


model = nn.Sequential(nn.Conv2d(1, 4, 3), Block(4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10))
out = model(torch.randn(2, 1, 8, 8))
print(out.shape[1], sum(p.numel() for p in model.parameters()))
