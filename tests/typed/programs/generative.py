"""Generative, as users write it."""

from __future__ import annotations

import adjoint as torch
from adjoint import Tensor, nn


class VAE(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
        self.decoder = nn.Sequential(nn.Linear(2, 16), nn.GELU(), nn.Linear(16, 8))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_var = self.encoder(x).chunk(2, dim=1)
        z = mean + torch.randn_like(mean) * (0.5 * log_var).exp()
        return torch.sigmoid(self.decoder(z)), mean, log_var


x = torch.rand(6, 8)
out, mean, log_var = VAE()(x)
kl = -0.5 * (1 + log_var - mean**2 - log_var.exp()).sum()
print(nn.functional.binary_cross_entropy(out, x, reduction="sum") + kl)
