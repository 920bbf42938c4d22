"""zuko: a neural spline flow learns a distribution that depends on a number."""

import torch
import zuko

torch.manual_seed(0)
context = torch.rand(256, 1) * 4 - 2
points = torch.cat([context, -context], dim=1) + 0.1 * torch.randn(256, 2)
flow = zuko.flows.NSF(features=2, context=1, transforms=1, hidden_features=(32,))
optimizer = torch.optim.Adam(flow.parameters(), lr=1e-2)
for step in range(60):
    loss = -flow(context).log_prob(points).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 0:
        first = loss.item()
with torch.no_grad():
    mean = flow(torch.tensor([1.0])).sample((256,)).mean(0)
print(f"zuko {zuko.__version__}: loss {first:.2f} to {loss.item():.2f}, mean at 1: {mean.tolist()}")
assert loss.item() < first - 1 and (mean - torch.tensor([1.0, -1.0])).abs().max() < 0.5
