"""torchdiffeq: a neural field learns a spiral through the adjoint method."""

import torch
from torchdiffeq import odeint, odeint_adjoint

torch.manual_seed(0)
spiral = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
t, start = torch.linspace(0, 1, 10), torch.tensor([[2.0, 0.0]])
true = odeint(lambda t, y: y @ spiral.T, start, t, method="dopri5")


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(2, 20), torch.nn.Tanh(), torch.nn.Linear(20, 2))

    def forward(self, t, y):
        return self.net(y)


field = Field()
optimizer = torch.optim.Adam(field.parameters(), lr=0.02)
for _ in range(40):
    optimizer.zero_grad()
    loss = (odeint_adjoint(field, start, t) - true).abs().mean()
    loss.backward()
    optimizer.step()
print(f"torchdiffeq: mean distance {loss.item():.3f}")
assert loss.item() < 0.3
