"""A neural differential equation learns a spiral; its gradient solves another equation backwards in time.

The adjoint method keeps no step of the solver: memory does not grow with accuracy.
"""

from __future__ import annotations

from shared import Progress, settings

import adjoint as torch
from adjoint import nn

args = settings(__doc__)


def rk4(f, y, t0: float, t1: float, steps: int):
    """Follow y' = f(y), a tuple of tensors, with Runge and Kutta's steps."""
    h = (t1 - t0) / steps
    for _ in range(steps):
        k1 = f(y)
        k2 = f(tuple(a + h / 2 * b for a, b in zip(y, k1, strict=True)))
        k3 = f(tuple(a + h / 2 * b for a, b in zip(y, k2, strict=True)))
        k4 = f(tuple(a + h * b for a, b in zip(y, k3, strict=True)))
        y = tuple(a + h / 6 * (b + 2 * c + 2 * d + e) for a, b, c, d, e in zip(y, k1, k2, k3, k4, strict=True))
    return y


class Solution(torch.autograd.Function):
    @staticmethod
    def forward(ctx, field: nn.Module, time: float, y: torch.Tensor, *parameters: torch.Tensor) -> torch.Tensor:
        (end,) = rk4(lambda s: (field(s[0]),), (y,), 0.0, time, 8)
        ctx.field, ctx.time = field, time
        ctx.save_for_backward(end, *parameters)
        return end

    @staticmethod
    def backward(ctx, g: torch.Tensor):
        end, *parameters = ctx.saved_tensors

        def back(state):
            y, a = state[0].detach().requires_grad_(), state[1]
            with torch.enable_grad():
                f = ctx.field(y)
                gradients = torch.autograd.grad(f, (y, *parameters), a)
            return (f.detach(), *(-gradient for gradient in gradients))

        start = (end, g, *(torch.zeros_like(p) for p in parameters))
        _, g_y, *g_parameters = rk4(back, start, ctx.time, 0.0, 8)
        return None, None, g_y, *g_parameters


def followed(field: nn.Module, y: torch.Tensor, time: float) -> torch.Tensor:
    return Solution.apply(field, time, y, *field.parameters())


# The adjoint gradient is the gradient through the solver, to the solver's accuracy.
small = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2)).double()
y0 = torch.randn(3, 2, dtype=torch.float64)
mine = torch.autograd.grad(followed(small, y0, 0.5).square().sum(), list(small.parameters()))
(through,) = rk4(lambda s: (small(s[0]),), (y0,), 0.0, 0.5, 8)
for a, b in zip(mine, torch.autograd.grad(through.square().sum(), list(small.parameters())), strict=True):
    assert torch.allclose(a, b, atol=1e-5)

spiral = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]], device=args.device)
field = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2)).to(args.device)
optimizer = torch.optim.Adam(field.parameters(), lr=0.01)


@args.compiled
def step(y: torch.Tensor) -> torch.Tensor:
    (wanted,) = rk4(lambda s: (s[0] @ spiral.t(),), (y,), 0.0, 0.25, 8)
    loss = (followed(field, y, 0.25) - wanted).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


bar = Progress(150 if args.short else 800, "steps")
for _ in bar:
    loss = step(4 * torch.rand(64, 2, device=args.device) - 2)
    bar.show(loss=loss.item())
print(f"adjoint and direct gradients agree; error after a quarter of a turn: {loss.item() ** 0.5:.3f}")
assert loss.item() ** 0.5 < (0.25 if args.short else 0.05)
