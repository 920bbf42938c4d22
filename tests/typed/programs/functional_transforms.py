"""Functional transforms, as users write it."""

from __future__ import annotations

import adjoint as torch
from adjoint import Tensor
from adjoint.func import grad, hessian, jacrev, jvp, vmap


def loss(w: Tensor, x: Tensor) -> Tensor:
    return ((x @ w).tanh() ** 2).sum()


w, data = torch.randn(3), torch.randn(5, 3)
per_sample = vmap(grad(loss), in_dims=(None, 0))(w, data)
value, tangent = jvp(lambda w: loss(w, data), (w,), (torch.ones(3),))
print(per_sample.shape, hessian(loss)(w, data).shape, jacrev(loss)(w, data), value, tangent)
