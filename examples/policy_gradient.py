"""A policy learns to balance a pole on a cart by trial and error (REINFORCE)."""

from __future__ import annotations

import math

from shared import Progress, settings

import adjoint as torch
from adjoint import nn
from adjoint.distributions import Categorical

args = settings(__doc__)


class Poles:
    """Many carts with poles at once; a step gives the states and which have fallen."""

    def __init__(self, count: int) -> None:
        self.state = 0.1 * torch.rand(count, 4) - 0.05
        self.fallen = torch.zeros(count, dtype=torch.bool)

    def step(self, right: torch.Tensor) -> None:
        x, v, angle, spin = self.state.unbind(1)
        force = torch.where(right == 1, 10.0, -10.0)
        push = (force + 0.05 * spin**2 * angle.sin()) / 1.1
        turn = (9.8 * angle.sin() - angle.cos() * push) / (0.5 * (4 / 3 - 0.1 * angle.cos() ** 2 / 1.1))
        slide = push - 0.05 * turn * angle.cos() / 1.1
        self.state = torch.stack([x + 0.02 * v, v + 0.02 * slide, angle + 0.02 * spin, spin + 0.02 * turn], 1)
        self.fallen |= (self.state[:, 0].abs() > 2.4) | (self.state[:, 2].abs() > 12 * math.pi / 180)


policy = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 2)).to(args.device)
optimizer = torch.optim.Adam(policy.parameters(), lr=0.02)
policy = args.compiled(policy)  # the rounds have lengths of their own, and stay in Python
longest, lengths = 100, []
bar = Progress(40 if args.short else 120, "rounds")
for _ in bar:
    poles, said, alive = Poles(16), [], []
    while not poles.fallen.all() and len(said) < longest:
        alive.append((~poles.fallen).float())
        choice = Categorical(logits=policy(poles.state.to(args.device)))
        action = choice.sample()
        said.append(choice.log_prob(action).cpu())
        poles.step(action.cpu())
    standing = torch.stack(alive)
    returns = standing.flip(0).cumsum(0).flip(0)  # how long each pole stands from here on
    kept = standing.bool()
    advantage = (returns - returns[kept].mean()) / (returns[kept].std() + 1e-6)
    loss = -(torch.stack(said) * advantage)[kept].mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    lengths.append(standing.sum(0).mean().item())
    bar.show(steps=lengths[-1])
print(f"the pole stands {lengths[0]:.0f} steps before, {max(lengths[-5:]):.0f} of {longest} after")
assert max(lengths[-5:]) > (40 if args.short else 85)
