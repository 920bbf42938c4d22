"""A network solves Burgers' equation, u_t + u u_x = v u_xx, from its equation and its edges alone.

A moving front is the exact solution: u = 1 / (1 + exp((x - t/2) / 2v)).
"""

from __future__ import annotations

from shared import Progress, settings

import adjoint as torch
from adjoint import nn

args = settings(__doc__)
viscosity = 0.1


def exact(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(-(x - t / 2) / (2 * viscosity))


def derivative(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(y.sum(), x, create_graph=True)[0]


def residual(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    u = model(torch.stack([x, t], 1))[:, 0]
    u_x = derivative(u, x)
    return derivative(u, t) + u * u_x - viscosity * derivative(u_x, x)


def where(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Points on the initial line and the two walls, where the solution is given."""
    x, t = 2 * torch.rand(count) - 1, torch.rand(count)
    third = count // 3
    t[:third] = 0
    x[third : 2 * third] = -1
    x[2 * third :] = 1
    return x.to(args.device), t.to(args.device)


model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1)).to(args.device)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
steps = 800 if args.short else 3000
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)


@args.compiled
def step(x: torch.Tensor, t: torch.Tensor, edge: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    given = (model(torch.stack(edge, 1))[:, 0] - exact(*edge)).square().mean()
    loss = residual(x, t).square().mean() + 10 * given
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


bar = Progress(steps, "steps")
for _ in bar:
    x = (2 * torch.rand(128, device=args.device) - 1).requires_grad_()
    t = torch.rand(128, device=args.device).requires_grad_()
    loss = step(x, t, where(96))
    schedule.step()
    bar.show(loss=loss.item())

x, t = torch.meshgrid(torch.linspace(-1, 1, 41), torch.linspace(0, 1, 21), indexing="ij")
with torch.no_grad():
    u = model(torch.stack([x.flatten(), t.flatten()], 1).to(args.device))[:, 0].cpu()
wanted = exact(x.flatten(), t.flatten())
error = ((u - wanted).norm() / wanted.norm()).item()
print(f"relative error against the exact solution: {error:.2%}")
assert error < (0.05 if args.short else 0.01)
