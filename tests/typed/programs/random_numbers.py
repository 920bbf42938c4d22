"""Random numbers, as users write it."""

from __future__ import annotations

import adjoint as torch

torch.manual_seed(0)
generator = torch.Generator().manual_seed(1)
x = torch.randn(2, 3, generator=generator)
print(torch.rand(2), torch.randperm(4), torch.bernoulli(torch.full((3,), 0.5)), torch.normal(0.0, 1.0, size=(2,)), x)
print(torch.multinomial(torch.ones(4), 2), torch.empty(2).uniform_(-1, 1), torch.zeros_like(x), torch.randint(3, (2,)))
