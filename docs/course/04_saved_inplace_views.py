# %% [markdown]
# # 4. Saved tensors, in-place operations, views
#
# The backward pass needs values from the forward pass. What happens if you overwrite them? This page shows what is saved, how a
# wrong gradient is prevented, and how views share memory.

# %% [markdown]
# ## What a node saves
#
# The gradient of `exp` is `g * exp(x)`, so its node saves the *result*. The gradient of `x * y` needs both *inputs*. Addition
# needs nothing. You can look:

# %%
import adjoint as torch

x = torch.tensor([1.0, 2.0], requires_grad=True)
y = torch.exp(x)
z = y * x
print(y.grad_fn._saved_result)
print(z.grad_fn._saved_self, z.grad_fn._saved_other)

# %% [markdown]
# A table of everything a graph holds in memory:

# %%
print(torch.autograd.graph.saved(z))

# %% [markdown]
# ## In-place operations
#
# A method whose name ends in `_` writes into its tensor: `add_`, `mul_`, `zero_`, `x[0] = 1`, `x += 1`. This is often fine.
# Here nothing that the backward pass needs is touched, because addition saves nothing:

# %%
x = torch.tensor([1.0, 2.0], requires_grad=True)
y = x * 2
y += 1  # in place
y.sum().backward()
x.grad

# %% [markdown]
# But `exp` saved its result. If the result is overwritten, its gradient would be wrong. adjoint notices, and names both lines:

# %%
x = torch.tensor([1.0, 2.0], requires_grad=True)
y = torch.exp(x)
y += 1
try:
    y.sum().backward()
except RuntimeError as error:
    print(error)

# %% [markdown]
# ## How is it noticed? Version counters
#
# Every tensor's memory has a version, which each write increases. A node remembers the time when it saved a value. Before its
# rule runs, it checks that nothing was written since.

# %%
y = torch.zeros(2)
print(y._version)
y.add_(1)
y[0] = 5
print(y._version)

# %% [markdown]
# The usual cures:
#
# - write out of place: `y = y + 1`;
# - write to a copy: `y = y.clone(); y += 1`;
# - reorder: do the in-place write before the operation that saves.
#
# ## Leaves
#
# A *leaf* is a tensor that you made, not one that was computed. A leaf that requires a gradient cannot be written in place
# while recording: its old value would be lost. An optimizer's update is not part of the graph, so it runs under `no_grad`.

# %%
w = torch.ones(3, requires_grad=True)
try:
    w -= 0.1
except RuntimeError as error:
    print(error)

with torch.no_grad():
    w -= 0.1
print(w)

# %% [markdown]
# ## Views
#
# Slices, `reshape`, transposes and `unbind` do not copy. They are **views**: other shapes of the same memory. A write through
# one is seen by all.

# %%
base = torch.zeros(2, 3)
row = base[1]
row.fill_(7)
print(base)
print(row._base is base, row.data_ptr() - base.data_ptr(), "bytes apart")

# %% [markdown]
# Autograd follows such writes. Below, the first row of `y` is overwritten by a constant, so its gradient is 0:

# %%
x = torch.ones(2, 3, requires_grad=True)
y = x * 5
y[0].zero_()  # a write through a view changes y, and its history
y.sum().backward()
x.grad

# %% [markdown]
# `y` is no longer "x times 5", and its `grad_fn` says so:

# %%
print(y.grad_fn)

# %% [markdown]
# A view of a leaf cannot be written in place either, for the same reason. And what you write may itself require a gradient:

# %%
x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
out = torch.zeros(4)
out[:3] = x**2  # out becomes part of the graph
out[3] = out[0] + out[2]
out.sum().backward()
x.grad  # 2x, and x[0] and x[2] count twice

# %% [markdown]
# ## Exercises
#
# 1. Which of these raise an error in the backward pass? Guess, then try.
#    `a = x.sigmoid(); a *= 2` / `b = x + 1; b *= 2` / `c = x * 2; c *= 2` / `d = x.relu(); d += 1`
# 2. Fill a matrix row by row in a loop: `h = torch.zeros(4, 3)`, `h[i + 1] = torch.tanh(h[i] + x[i])`. Does it work? Why?
#
# <details><summary>Solutions</summary>
#
# 1. `a` and `d` raise: `sigmoid` and `relu` save their results, which are overwritten. `b` and `c` are fine: `x + 1` saves
# nothing, and `x * 2` needs only the number 2.
#
# 2. `tanh` saves its result, which is then copied into `h`. The copy is what later writes touch the memory of, not the saved
# result. But `h[i]` is a view of `h`: an operation that *saves* `h[i]` (such as `h[i] * w`) would be refused after the next
# write into `h`. Here `h[i] + x[i]` saves nothing, so it works. In general collect rows in a list and use `torch.stack`.
#
# </details>

# %%
x = torch.tensor([0.5, -0.5], requires_grad=True)


def a():
    value = x.sigmoid()
    value *= 2
    return value


def b():
    value = x + 1
    value *= 2
    return value


def c():
    value = x * 2
    value *= 2
    return value


def d():
    value = x.relu()
    value += 1
    return value


for function in (a, b, c, d):
    try:
        function().sum().backward()
        print(function.__name__, "is fine")
    except RuntimeError as error:
        print(function.__name__, "raises:", str(error)[:60], "...")
