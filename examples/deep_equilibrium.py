"""A layer of endless depth: its output is the z with z = tanh(W z + U x), its gradient comes from that equation.

The custom Function keeps nothing of the iterations; backward solves one more fixed-point equation.
"""

from __future__ import annotations

from shared import Progress, settings

import adjoint as torch
from adjoint import nn

args = settings(__doc__)
if args.compile:
    print("the solver takes another number of steps each time: no program would run often, so none is compiled")


def solve(step, z: torch.Tensor) -> torch.Tensor:
    for _ in range(60):
        new = step(z)
        if (new - z).abs().max() < 1e-6:
            return new
        z = new
    return z


class Equilibrium(torch.autograd.Function):
    @staticmethod
    def forward(ctx, w: torch.Tensor, ux: torch.Tensor) -> torch.Tensor:
        z = solve(lambda z: torch.tanh(z @ w.t() + ux), torch.zeros_like(ux))
        ctx.save_for_backward(w, z)
        return z

    @staticmethod
    def backward(ctx, g: torch.Tensor):
        w, z = ctx.saved_tensors
        slope = 1 - z * z
        v = solve(lambda v: (v * slope) @ w + g, g.clone())  # v = (dz/dz step)^T v + g
        v = v * slope
        return v.t() @ z, v


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.w = nn.Parameter(0.05 * torch.randn(32, 32))
        self.into, self.out = nn.Linear(2, 32), nn.Linear(32, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        w = self.w * (0.9 / self.w.norm().clamp(min=0.9))  # a contraction: the fixed point exists
        return self.out(Equilibrium.apply(w, self.into(x)))[:, 0]


# The implicit gradient is the gradient of the unrolled loop.
w, ux = 0.1 * torch.randn(4, 4, dtype=torch.float64), torch.randn(3, 4, dtype=torch.float64)
w.requires_grad_()
ux.requires_grad_()
implicit = torch.autograd.grad(Equilibrium.apply(w, ux).square().sum(), (w, ux))
z = torch.zeros_like(ux)
for _ in range(60):
    z = torch.tanh(z @ w.t() + ux)
for a, b in zip(implicit, torch.autograd.grad(z.square().sum(), (w, ux)), strict=True):
    assert torch.allclose(a, b, atol=1e-5)

model = Model().to(args.device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
x = 4 * torch.rand(256, 2, device=args.device) - 2
inside = (x.norm(dim=1) < 1.2).float()
bar = Progress(150 if args.short else 600, "steps")
for _ in bar:
    logits = model(x)
    loss = nn.functional.binary_cross_entropy_with_logits(logits, inside)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    bar.show(loss=loss.item())
right = ((logits > 0) == (inside > 0.5)).float().mean().item()
print(f"implicit and unrolled gradients agree; accuracy inside/outside a circle: {right:.1%}")
assert right > (0.85 if args.short else 0.97)
