"""Learning to learn (MAML): a network that fits a new sine wave after one step on ten points.

The loss is measured after a gradient step, so its gradient is a gradient through a gradient.
"""

from __future__ import annotations

import math

from shared import Progress, settings

import adjoint as torch
from adjoint import nn
from adjoint.func import functional_call

args = settings(__doc__)
model = nn.Sequential(nn.Linear(1, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 1)).to(args.device)
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
RATE = 0.1


def wave():
    """Return a sine wave of random height and phase, as a function that draws points of it."""
    height, phase = torch.empty(2).uniform_(0, 1).tolist()

    def points(count: int) -> tuple[torch.Tensor, torch.Tensor]:
        x = 10 * torch.rand(count, 1, device=args.device) - 5
        return x / 2.5, (0.5 + 2 * height) * torch.sin(x + math.pi * phase)

    return points


def loss_of(parameters: dict[str, torch.Tensor], points: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    x, y = points
    return nn.functional.mse_loss(functional_call(model, parameters, (x,)), y)


def adapted(points: tuple[torch.Tensor, torch.Tensor], steps: int, create_graph: bool) -> dict[str, torch.Tensor]:
    """Return the parameters after gradient steps on a few points."""
    parameters = dict(model.named_parameters())
    for _ in range(steps):
        gradients = torch.autograd.grad(
            loss_of(parameters, points), list(parameters.values()), create_graph=create_graph
        )
        parameters = {n: p - RATE * g for (n, p), g in zip(parameters.items(), gradients, strict=True)}
    return parameters


@args.compiled
def step(tasks: list[tuple[tuple[torch.Tensor, torch.Tensor], ...]]) -> torch.Tensor:
    losses = [loss_of(adapted(few, 1, create_graph=True), many) for few, many in tasks]
    loss = torch.stack(losses).sum() / len(tasks)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


bar = Progress(300 if args.short else 3000, "tasks")
for _ in bar:
    loss = step([(points(10), points(20)) for points in (wave() for _ in range(4))])
    bar.show(loss=loss.item())

before = after = 0.0
for _ in range(40):
    points = wave()
    few, many = points(10), points(100)
    before += loss_of(dict(model.named_parameters()), many).item() / 40
    after += loss_of(adapted(few, 5, create_graph=False), many).item() / 40
print(f"loss on new waves: {before:.3f} before, {after:.3f} after five steps on ten points")
assert after < (0.75 if args.short else 0.3) * before
