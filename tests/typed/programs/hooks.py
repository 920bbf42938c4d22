"""Hooks, as users write it."""

from __future__ import annotations

import adjoint as torch
from adjoint import Tensor, nn

seen: list[float] = []


def note(grad: Tensor) -> None:
    seen.append(float(grad.norm()))


x = torch.ones(3, requires_grad=True)
y = x * 2
handle = y.register_hook(note)
y.sum().backward()
handle.remove()

layer = nn.Linear(3, 2)
layer.register_forward_hook(lambda module, inputs, output: None)
print(seen, layer(x).shape)
