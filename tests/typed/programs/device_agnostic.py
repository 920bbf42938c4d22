"""Device agnostic, as users write it."""

from __future__ import annotations

import adjoint as torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Linear(3, 2).to(device)
x = torch.ones(1, 3, device=device, dtype=torch.float32)
print(model(x).to("cpu").shape, x.device.type, next(model.parameters()).dtype)
