"""Custom function, as users write it."""

from __future__ import annotations

from typing import Any

import adjoint as torch
from adjoint import Tensor


class Clipped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, limit: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.limit = limit
        return x.clamp(-limit, limit)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return grad * (x.abs() <= ctx.limit), None


x = torch.randn(4, requires_grad=True)
Clipped.apply(x, 0.5).sum().backward()
print(x.grad)
