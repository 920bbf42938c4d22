# %% [markdown]
# # 9. How `compile` works
#
# Eager execution pays a little for every operation: Python, the graph, a pass through memory. `adjoint.compile` runs your function
# once, writes down what it did, and builds a faster program from the list.

# %%
import time

import adjoint as torch

torch.manual_seed(0)
w1, b1, w2 = torch.randn(16, 32), torch.zeros(32), torch.randn(32, 1)
for p in (w1, b1, w2):
    p.requires_grad_()
optimizer = torch.optim.SGD([w1, b1, w2], lr=0.01)


def step(x, y):
    optimizer.zero_grad()
    loss = ((torch.tanh(x @ w1 + b1) @ w2 - y) ** 2).mean()
    loss.backward()
    optimizer.step()
    return loss.detach()


x, y = torch.randn(64, 16), torch.randn(64, 1)
compiled = torch.compile(step)
for _ in range(5):
    compiled(x, y)


def best(function, repeats=50):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function(x, y)
        times.append(time.perf_counter() - start)
    return min(times) * 1e6


eager_time, compiled_time = best(step), best(compiled)
print("compiled is faster:", compiled_time < eager_time)

# %% [markdown]
# ## Step 1: capture
#
# The function runs on real arrays, and every primitive operation is written down: the forward pass, the backward pass, the
# optimizer's update. The result is a straight list without Python's control flow.

# %%
program = torch.compiler.capture(step)(x, y)
print(program)

# %% [markdown]
# Read it from the top. The first lines are the forward pass, then come gradients (marked `backward`), then the update, and the
# `write` lines that put new values into the parameters.
#
# ## Step 2: guards
#
# The list is valid only while the world looks the same: shapes and dtypes of the arguments, `training` flags, the branch that
# `if loss < 1` took. Each such fact becomes a *guard*, checked before the program runs. If a guard fails, the function is captured
# again, and both programs are stored.


# %%
@torch.compile
def branchy(x):
    if x.sum() > 0:
        return x * 2
    return x - 1


print(branchy(torch.ones(3)), branchy(-torch.ones(3)), branchy(torch.ones(3)))

# %% [markdown]
# ## Step 3: fusion
#
# Consecutive elementwise operations become one loop over memory instead of one pass each. On the CPU the loops are compiled by
# LLVM (through Numba), on a GPU by NVIDIA's compiler. Matrix multiplications stay calls to a library, into memory that was planned in
# advance.


# %%
def chain(x):
    return torch.exp(-(torch.sin(x) ** 2) + 0.5 * x)  # six operations, six passes in eager mode


fused = torch.compile(chain)
z = torch.linspace(-3, 3, 200_000)
with torch.no_grad():
    fused(z), fused(z)
    print(torch.allclose(fused(z), chain(z)))

# %% [markdown]
# ## What cannot be compiled
#
# A program only computes. A function that appends to a list, reads a file, or uses Python's `random` runs
# eagerly, and a warning says why. Everything else is allowed, because capture runs the real program: printing (in captured calls),
# branching on values, third-party code. [Compile](../compile.md) has the rules.
#
# ## Exercises
#
# 1. Call `branchy` with a tensor of another length. How many programs does it have then?
# 2. Compile only the loss function instead of the whole step, and compare the times.
#
# <details><summary>Solutions</summary>
#
# 1. A new length has its own program, or shares one with a symbolic size; `adjoint.compiler.explain(branchy)(x)` says which.
#
# 2. The optimizer's update and the bookkeeping between forward and backward pass stay in Python. For small models, compile the
# whole step.
#
# </details>
