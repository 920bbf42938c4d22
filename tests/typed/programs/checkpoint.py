"""Checkpoint, as users write it."""

from __future__ import annotations

import io

import adjoint as torch
from adjoint import nn

model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
file = io.BytesIO()
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3}, file)
file.seek(0)
loaded = torch.load(file, map_location="cpu")
model.load_state_dict(loaded["model"])
optimizer.load_state_dict(loaded["optimizer"])
print(loaded["epoch"])
