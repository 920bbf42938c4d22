"""A Wasserstein GAN with gradient penalty learns to draw points from a ring of eight clusters."""

from __future__ import annotations

import math

from shared import Progress, settings

import adjoint as torch
from adjoint import nn

args = settings(__doc__)


def real(count: int) -> torch.Tensor:
    angle = torch.randint(0, 8, (count,)) * (math.pi / 4)
    return (torch.stack([angle.cos(), angle.sin()], 1) + 0.05 * torch.randn(count, 2)).to(args.device)


def network(inputs: int, outputs: int) -> nn.Module:
    layers = (nn.Linear(inputs, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, outputs))
    return nn.Sequential(*layers).to(args.device)


generator, critic = network(4, 2), network(2, 1)
g_optimizer = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.9))
c_optimizer = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.9))


def drawn(count: int) -> torch.Tensor:
    return generator(torch.randn(count, 4, device=args.device))


def penalty(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """How far the critic's slope is from 1, between real and drawn points."""
    mix = torch.rand(len(a), 1, device=args.device)
    between = (mix * a + (1 - mix) * b).requires_grad_()
    (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
    return (slope.norm(dim=1) - 1).square().mean()


@args.compiled
def improve_critic(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    distance = critic(a).mean() - critic(b).mean()
    loss = -distance + 0.5 * penalty(a, b)
    c_optimizer.zero_grad()
    loss.backward()
    c_optimizer.step()
    return distance.detach()


@args.compiled
def improve_generator() -> None:
    g_optimizer.zero_grad()
    (-critic(drawn(128)).mean()).backward()
    g_optimizer.step()


bar = Progress(400 if args.short else 1500, "steps")
for _ in bar:
    for _ in range(3):
        distance = improve_critic(real(128), drawn(128).detach())
    improve_generator()
    bar.show(distance=distance.item())

with torch.no_grad():
    points = drawn(1000).cpu()
radius = points.norm(dim=1)
found = len(set(((torch.atan2(points[:, 1], points[:, 0]) / (math.pi / 4)).round().long() % 8)[radius > 0.6].tolist()))
print(f"radius of the drawn points {radius.mean():.2f} (should be 1.00), clusters found: {found} of 8")
assert abs(radius.mean() - 1) < (0.35 if args.short else 0.15) and found >= (4 if args.short else 7)
