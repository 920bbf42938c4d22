"""Gradient clipping, as users write it."""

from __future__ import annotations

import adjoint as torch
from adjoint import nn
from adjoint.nn.utils import clip_grad_norm_

model = nn.Linear(3, 1)
loss = model(torch.randn(5, 3)).square().sum()
loss.backward()
norm = clip_grad_norm_(model.parameters(), max_norm=1.0)
total = sum(float(p.grad.norm()) for p in model.parameters() if p.grad is not None)
print(norm, total, nn.utils.parameters_to_vector(model.parameters()).shape)
