# %% [markdown]
# # 3. Graphs that change with the data
#
# The graph is recorded while your program runs. So a program may do something different for each input: loop until a
# condition holds, take a branch, recurse over a tree, read sequences of different lengths. There is no special syntax for it.

# %% [markdown]
# ## A loop that the data ends
#
# Newton's iteration for a square root stops when it is accurate enough. How often it runs depends on the number.

# %%
import adjoint as torch


def newton_sqrt(a, tolerance=1e-6):
    x = a
    steps = 0
    while abs(x.item() ** 2 - a.item()) > tolerance:
        x = (x + a / x) / 2
        steps += 1
    return x, steps


for value in (2.0, 100.0, 1e4):
    a = torch.tensor(value, dtype=torch.float64, requires_grad=True)
    root, steps = newton_sqrt(a)
    root.backward()
    print(
        f"sqrt({value:g}) = {root.item():.6f} after {steps} steps; derivative {a.grad.item():.6f}, exact {0.5 * value**-0.5:.6f}"
    )

# %% [markdown]
# The derivative of the *algorithm* is the derivative of the square root. `item()` reads a number out of the graph, to
# decide something; it does not become part of the graph.

# %% [markdown]
# ## A branch
#
# Only the branch that runs is recorded. The gradient is that of the branch taken.


# %%
def huber(error, delta=1.0):
    if abs(error.item()) <= delta:
        return 0.5 * error**2
    return delta * (error.abs() - 0.5 * delta)


for value in (0.5, 3.0):
    error = torch.tensor(value, requires_grad=True)
    loss = huber(error)
    loss.backward()
    print(value, error.grad.item(), loss.grad_fn)

# %% [markdown]
# For a whole tensor of errors you want a choice per element instead. `torch.where` computes both sides and chooses.

# %%
errors = torch.tensor([0.5, 3.0, -2.0], requires_grad=True)
losses = torch.where(errors.abs() <= 1, 0.5 * errors**2, errors.abs() - 0.5)
losses.sum().backward()
errors.grad

# %% [markdown]
# **A trap.** Both sides of `where` are differentiated. If the side that is not chosen has an infinite derivative, the
# gradient is `0 * inf = nan`. Make the argument safe first:

# %%
x = torch.tensor([0.0, 4.0], requires_grad=True)
torch.where(x > 0, torch.sqrt(x), 0.0).sum().backward()
print("not safe:", x.grad)

x.grad = None
safe = torch.where(x > 0, x, 1.0)
torch.where(x > 0, torch.sqrt(safe), 0.0).sum().backward()
print("safe:    ", x.grad)

# %% [markdown]
# ## Recursion over a tree
#
# A sentence's parse tree decides how the network is built. The same three weights serve every node of every tree.

# %%
torch.manual_seed(0)
size = 4
word_vectors = {word: torch.randn(size, requires_grad=True) for word in ("the", "cat", "sat", "down")}
combine = torch.nn.Linear(2 * size, size)


def encode(tree):
    if isinstance(tree, str):
        return word_vectors[tree]
    left, right = tree
    return torch.tanh(combine(torch.cat([encode(left), encode(right)])))


sentence = (("the", "cat"), ("sat", "down"))
encode(sentence).sum().backward()
print(combine.weight.grad.shape, word_vectors["cat"].grad)

# %% [markdown]
# The weight was used three times, once for each inner node. Its gradient is the sum of the three.

# %% [markdown]
# ## Sequences of different lengths

# %%
cell = torch.nn.GRUCell(3, 5)
for length in (2, 7, 4):
    state = torch.zeros(1, 5)
    for step in torch.randn(length, 1, 3):
        state = cell(step, state)
    state.sum().backward()
    print(f"length {length}: gradient of the recurrent weight has norm {cell.weight_hh.grad.norm():.3f}")
    cell.zero_grad()

# %% [markdown]
# ## What is a constant?
#
# - Python numbers, and tensors without `requires_grad`, are constants. Nothing is recorded for them.
# - `x.detach()` is the same values as a constant: gradients stop there.
# - Inside `with torch.no_grad():` nothing is recorded at all. Use it for updates and for evaluation.

# %%
x = torch.tensor(3.0, requires_grad=True)
y = x * x.detach()  # the second factor counts as the number 3
y.backward()
print(x.grad)

with torch.no_grad():
    z = x * x
print(z.requires_grad, z.grad_fn)

# %% [markdown]
# ## Exercises
#
# 1. Write `power(x, n)` for a whole number `n` by repeated squaring (recursively), and check its derivative for `n = 13`.
# 2. The *bisection* method also computes a square root. Differentiate it. Why is the gradient not what you expect?
#
# <details><summary>Solutions</summary>
#
# 1. See the cell below.
#
# 2. Bisection computes midpoints of its start values. Their dependence on `a` is only in the comparisons, which are branches,
# and a branch has no derivative. The result depends on `a` in reality but not in the graph. Newton's iteration uses `a` in its
# arithmetic, so it can be differentiated. For solvers of the first kind, use the implicit function theorem in a
# [custom function](06_custom_functions.md).
#
# </details>


# %%
def power(x, n):
    if n == 1:
        return x
    half = power(x, n // 2)
    return half * half * x if n % 2 else half * half


x = torch.tensor(1.1, dtype=torch.float64, requires_grad=True)
power(x, 13).backward()
print(x.grad.item(), 13 * 1.1**12)
