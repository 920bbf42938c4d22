"""Distributions, as users write it."""

from __future__ import annotations

import adjoint as torch
from adjoint.distributions import Bernoulli, Categorical, Normal, kl_divergence

loc = torch.zeros(3, requires_grad=True)
normal = Normal(loc, torch.ones(3))
sample = normal.rsample()
loss = -normal.log_prob(sample.detach()).sum() + kl_divergence(normal, Normal(torch.ones(3), torch.ones(3))).sum()
loss.backward()
action = Categorical(logits=torch.randn(4)).sample()
print(loc.grad, action.item(), Bernoulli(torch.tensor(0.3)).entropy())
