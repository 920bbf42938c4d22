"""Einsum, as users write it."""

from __future__ import annotations

import adjoint as torch

a, b = torch.randn(2, 3, 4), torch.randn(2, 4, 5)
print(
    torch.einsum("bij,bjk->bik", a, b).shape,
    torch.bmm(a, b).shape,
    torch.outer(torch.ones(2), torch.ones(3)),
    a.matmul(b).sum(),
)
print(torch.tensordot(a, b, dims=([2], [1])).shape, torch.matmul(a, b).dtype, torch.dot(torch.ones(3), torch.ones(3)))
