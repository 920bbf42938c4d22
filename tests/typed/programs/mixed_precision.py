"""Mixed precision, as users write it."""

from __future__ import annotations

import adjoint as torch
from adjoint import nn

model = nn.Linear(8, 8)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu")
x = torch.randn(4, 8)
with torch.autocast("cpu", dtype=torch.bfloat16):
    loss = model(x).float().pow(2).mean()
scaler.scale(loss).backward()
scaler.step(optimizer)
scaler.update()
print(loss.dtype)
