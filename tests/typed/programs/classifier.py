"""Classifier, as users write it."""

from __future__ import annotations

import adjoint as torch
from adjoint import Tensor, nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(4, 16)
        self.out = nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.relu(self.hidden(x)))


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
loss = torch.tensor(0.0)
x, y = torch.randn(30, 4), torch.randint(0, 3, (30,))
for _ in range(5):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(net(x), y)
    loss.backward()
    optimizer.step()
accuracy = (net(x).argmax(dim=1) == y).float().mean()
print(f"{loss.item():.3f} {float(accuracy):.2f}")
