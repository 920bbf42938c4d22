"""Linear algebra, as users write it."""

from __future__ import annotations

import adjoint as torch

a = torch.randn(4, 4)
symmetric = a + a.T
values, vectors = torch.linalg.eigh(symmetric)
rebuilt = vectors @ torch.diag(values) @ vectors.T
print(torch.linalg.norm(rebuilt - symmetric) < 1e-4)
u, s, vh = torch.linalg.svd(a)
q, r = torch.linalg.qr(a)
x = torch.linalg.solve(symmetric + 10 * torch.eye(4), torch.ones(4))
print(torch.linalg.det(a), torch.linalg.inv(a).shape, s.sum(), (q @ r - a).abs().max(), x)
