"""pytorch-minimize: Rosenbrock's function by every method, with gradients and Hessians by autograd."""

import torch
from torchmin import Minimizer, least_squares, minimize, minimize_constr
from torchmin.benchmarks import rosen

x0 = torch.tensor([1.0, 8.0, -1.0], dtype=torch.float64)
for method in ("bfgs", "l-bfgs", "cg", "newton-cg", "newton-exact", "trust-ncg", "trust-exact"):
    found = minimize(rosen, x0, method=method)
    assert torch.allclose(found.x, torch.ones(3, dtype=torch.float64), atol=1e-3), (method, found)
    print(f"{method}: {found.nit} iterations, f = {float(found.fun):.1e}")


def residual(p):
    t = torch.linspace(0, 1, 20, dtype=torch.float64)
    return p[0] * torch.exp(-p[1] * t) - 2 * torch.exp(-3 * t)


fitted = least_squares(residual, torch.tensor([1.0, 1.0], dtype=torch.float64))
assert torch.allclose(fitted.x, torch.tensor([2.0, 3.0], dtype=torch.float64), atol=1e-4)
bounded = minimize_constr(rosen, torch.tensor([0.1, 0.2], dtype=torch.float64), bounds=(0.0, 0.5))
assert (bounded.x <= 0.5 + 1e-6).all()

w = torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))
optimizer = Minimizer([w], method="bfgs")


def closure():
    optimizer.zero_grad()
    return (w - torch.tensor([1.0, -2.0], dtype=torch.float64)).square().sum()


optimizer.step(closure)
assert torch.allclose(w.detach(), torch.tensor([1.0, -2.0], dtype=torch.float64), atol=1e-4)
