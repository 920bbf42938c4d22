# %% [markdown]
# # 7. Less memory: checkpointing
#
# The forward pass saves values for the backward pass. In a deep network that is most of the memory. You can trade memory for time:
# throw values away and compute them again when the backward pass needs them.

# %% [markdown]
# ## How much is saved?

# %%
import adjoint as torch
from adjoint.utils.checkpoint import checkpoint

torch.manual_seed(0)
blocks = torch.nn.ModuleList(
    torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64)) for _ in range(8)
)
x = torch.randn(128, 64)


def plain(x):
    for block in blocks:
        x = x + block(x)
    return x.square().mean()


def mib(loss):
    return torch.autograd.graph.saved(loss).total / 2**20


loss = plain(x)
print(f"{mib(loss):.2f} MiB are held by the graph")

# %% [markdown]
# ## Checkpoint each block
#
# `checkpoint(function, x)` runs the function without saving what happens inside. It saves only `x`. In the backward pass it
# runs the function again, records it this time, and goes through the small graph at once.
#
# <svg viewBox="0 0 640 120" width="640" role="img" aria-label="checkpoints keep the ends of each block">
#   <g font-family="sans-serif" font-size="13" text-anchor="middle">
#     <g fill="#c7d2fe" stroke="#3f51b5"><rect x="20" y="20" width="40" height="30"/><rect x="220" y="20" width="40" height="30"/><rect x="420" y="20" width="40" height="30"/></g>
#     <g fill="none" stroke="#9ca3af" stroke-dasharray="4 3"><rect x="70" y="20" width="40" height="30"/><rect x="120" y="20" width="40" height="30"/><rect x="170" y="20" width="40" height="30"/><rect x="270" y="20" width="40" height="30"/><rect x="320" y="20" width="40" height="30"/><rect x="370" y="20" width="40" height="30"/><rect x="470" y="20" width="40" height="30"/><rect x="520" y="20" width="40" height="30"/></g>
#     <text x="140" y="75" fill="#6b7280">computed again when needed</text><text x="340" y="75" fill="#6b7280">computed again when needed</text>
#     <text x="40" y="95" fill="#3f51b5">saved</text><text x="240" y="95" fill="#3f51b5">saved</text><text x="440" y="95" fill="#3f51b5">saved</text>
#   </g>
# </svg>


# %%
def checkpointed(x):
    for block in blocks:
        x = x + checkpoint(block, x, use_reentrant=False)
    return x.square().mean()


loss_2 = checkpointed(x)
print(f"{mib(loss_2):.2f} MiB, and the input of each block")

loss.backward()
expected = [p.grad.clone() for p in blocks.parameters()]
for p in blocks.parameters():
    p.grad = None
loss_2.backward()
print("same gradients:", all(torch.equal(p.grad, e) for p, e in zip(blocks.parameters(), expected)))

# %% [markdown]
# With $n$ layers of equal size, checkpointing every $\sqrt{n}$ layers needs memory for about $2\sqrt{n}$ layers and one more
# forward pass. That is the classical result.

# %%
import matplotlib.pyplot as plt

n = 64
segments = list(range(1, n + 1))
memory = [s + n / s for s in segments]  # the saved ends, and one segment while it is computed again

fig, ax = plt.subplots(figsize=(6, 3))
ax.plot(segments, memory)
ax.axhline(n, color="gray", linestyle="--", label="without checkpoints")
ax.axvline(n**0.5, color="C1", linestyle=":", label="the best: 8 segments")
ax.set_xlabel("number of checkpointed segments")
ax.set_ylabel("layers in memory")
ax.legend()
fig.tight_layout()

# %% [markdown]
# ## A budget instead of checkpoints
#
# `memory_budget` needs no segments. Give it a size; adjoint drops the values that are cheapest to compute again.

# %%
for p in blocks.parameters():
    p.grad = None
with torch.memory_budget("1MiB") as budget:
    loss_3 = plain(x)
loss_3.backward()
print("same gradients:", all(torch.equal(p.grad, e) for p, e in zip(blocks.parameters(), expected)))
print(budget.report())

# %% [markdown]
# ## Save values elsewhere
#
# `saved_tensors_hooks` lets you decide how each saved tensor is stored. Here they are stored in half precision, which halves
# the memory and makes the gradients approximate.


# %%
def pack(tensor):
    return tensor.half() if tensor.dtype == torch.float32 and not tensor.is_leaf else tensor


def unpack(tensor):
    return tensor.float()


for p in blocks.parameters():
    p.grad = None
with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
    loss_4 = plain(x)
loss_4.backward()
worst = max((p.grad - e).norm() / e.norm() for p, e in zip(blocks.parameters(), expected))
print(f"largest relative error of a gradient: {worst.item():.1e}")

# %% [markdown]
# ## Exercises
#
# 1. Checkpoint *pairs* of blocks. How many inputs are stored now, and what is the largest graph during the backward pass?
# 2. A block contains dropout. Does checkpointing still give the right gradient? Why?
#
# <details><summary>Solutions</summary>
#
# 1. Four inputs instead of eight. But while a pair is computed again, the graph of two blocks is in memory instead of one. The
# cell below checks that the gradients stay the same.
#
# 2. Yes. `checkpoint` notes the state of the random number generators before the first run and restores it for the second, so the
# same elements are dropped. (`preserve_rng_state=False` turns that off.)
#
# </details>


# %%
def pair(i):
    def run(x):
        for block in blocks[2 * i : 2 * i + 2]:
            x = x + block(x)
        return x

    return run


for p in blocks.parameters():
    p.grad = None
y = x
for i in range(4):
    y = checkpoint(pair(i), y, use_reentrant=False)
y.square().mean().backward()
print("same gradients:", all(torch.equal(p.grad, e) for p, e in zip(blocks.parameters(), expected)))
