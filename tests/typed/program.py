"""A small program as a user types it; `test_program.py` lets mypy read it with all strictness."""

from __future__ import annotations

import adjoint as torch
import adjoint.nn.functional as F
from adjoint import Tensor, nn


class Net(nn.Module):
    """Two layers."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(3, width)
        self.second = nn.Linear(width, 1)

    def forward(self, x: Tensor) -> Tensor:
        hidden: Tensor = self.first(x)
        out: Tensor = self.second(F.relu(hidden))
        return out


def penalty(x: Tensor) -> Tensor:
    y = (2 * x - 1) / 3 @ x.transpose(0, 1)
    y = y.reshape(-1).sigmoid().sum(dim=0, keepdim=True)
    return torch.cat([y, torch.zeros(1)]).mean() + x[0, :2].abs().amax() + torch.linalg.norm(x)


def train(steps: int) -> float:
    torch.manual_seed(0)
    net = Net(8)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, step_size=5)
    x, y = torch.randn(16, 3), torch.randn(16, 1)
    loss = torch.tensor(0.0)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = F.mse_loss(net(x), y) + 1e-3 * penalty(x).detach()
        loss.backward()
        optimizer.step()
        schedule.step()
    with torch.no_grad():
        rows: int = net(x).shape[0]
    per_sample: Tensor = torch.func.vmap(lambda row: row.sin().sum())(x)
    return float(loss) + rows + float(per_sample.sum())


if __name__ == "__main__":
    print(train(3))
