"""Schedule, as users write it."""

from __future__ import annotations

import adjoint as torch
from adjoint import nn
from adjoint.optim.lr_scheduler import CosineAnnealingLR, LambdaLR

model = nn.Linear(2, 1)
optimizer = torch.optim.Adam([{"params": model.weight, "lr": 1e-2}, {"params": model.bias}], lr=1e-3)
cosine = CosineAnnealingLR(optimizer, T_max=10)
warm = LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 5))
for _ in range(3):
    optimizer.step()
    cosine.step()
    warm.step()
print(cosine.get_last_lr(), optimizer.param_groups[0]["lr"])
