# %% [markdown]
# # 10. Train a network
#
# All parts together: data, a module, a loss, an optimizer, evaluation, saving. This is plain PyTorch code; only the import
# differs.

# %% [markdown]
# ## Data: two spirals

# %%
import math

import adjoint as torch
from adjoint import nn
from adjoint.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
n = 200
t = torch.linspace(0.5, 3.0, n).sqrt() * math.pi
spiral = torch.stack([t * torch.cos(t), t * torch.sin(t)], dim=1) / 4
points = torch.cat([spiral, -spiral]) + 0.05 * torch.randn(2 * n, 2)
labels = torch.cat([torch.zeros(n), torch.ones(n)]).long()

order = torch.randperm(2 * n)
train, test = order[:300], order[300:]
loader = DataLoader(TensorDataset(points[train], labels[train]), batch_size=50, shuffle=True)

# %% [markdown]
# ## A model
#
# A module holds parameters and says how to compute. Submodules are found by themselves.


# %%
class Classifier(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.head = nn.Linear(width, 2)

    def forward(self, x):
        return self.head(self.body(x))


model = Classifier()
print(model)
print(sum(p.numel() for p in model.parameters()), "parameters")

# %% [markdown]
# ## The loop
#
# Four lines do the work: clear gradients, compute the loss, backward, update.

# %%
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=60)
loss_function = nn.CrossEntropyLoss()
losses = []

for epoch in range(60):
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_function(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    schedule.step()

model.eval()
with torch.no_grad():
    accuracy = (model(points[test]).argmax(1) == labels[test]).float().mean().item()
print(f"last loss {losses[-1]:.4f}, test accuracy {accuracy:.2f}")

# %% [markdown]
# ## Look at it

# %%
import matplotlib.pyplot as plt
import numpy as np

side = torch.linspace(-1.8, 1.8, 80)
grid = torch.stack(torch.meshgrid(side, side, indexing="xy"), dim=-1).reshape(-1, 2)
with torch.no_grad():
    probability = model(grid).softmax(1)[:, 1].reshape(80, 80)

fig, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4))
left.semilogy(losses)
left.set_xlabel("step")
left.set_ylabel("loss")
right.pcolormesh(
    np.asarray(side), np.asarray(side), np.asarray(probability), cmap="coolwarm", alpha=0.6, rasterized=True
)
right.scatter(*np.asarray(points).T, c=np.asarray(labels), cmap="coolwarm", s=6)
right.set_aspect("equal")
fig.tight_layout()

# %% [markdown]
# ## Save and load
#
# A `state_dict` holds the tensors. The file holds data only: loading it runs no code.

# %%
import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.pt"
    torch.save(model.state_dict(), path)
    copy = Classifier()
    copy.load_state_dict(torch.load(path))

with torch.no_grad():
    print(torch.equal(copy(points), model.eval()(points)))

# %% [markdown]
# ## When something is wrong
#
# `explain` says why a gradient is None, zero, huge or NaN:

# %%
x = torch.tensor([-1.0, -2.0], requires_grad=True)
print(torch.explain(torch.relu(x).sum(), x))

# %% [markdown]
# ## Exercises
#
# 1. Replace Tanh by ReLU. Does it need more units?
# 2. Forget `optimizer.zero_grad()` on purpose. What happens to the loss, and why?
# 3. Freeze the body (`requires_grad_(False)`) and train the head alone. How far does it get?
#
# <details><summary>Solutions</summary>
#
# 1. It works, with straight edges in the picture. A few more units make it as good.
# 2. Gradients of all earlier batches are added up, so steps point in stale directions and grow: training becomes unstable.
# 3. The random features of the untrained body separate the spirals only in part. Try it from a fresh model, and compare.
#
# </details>
#
# Where to go from here: the [how-to guides](../howto/index.md) have complete programs for common tasks.
