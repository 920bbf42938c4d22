# %% [markdown]
# # 8. Forward mode, vmap, and functions of functions
#
# `adjoint.func` takes functions and returns functions: `grad(f)` is the derivative of `f`, `vmap(f)` is `f` for a whole batch. They
# may be nested in any order.

# %%
import adjoint as torch
from adjoint.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap

f = torch.sin
print(grad(f)(torch.tensor(0.0)), grad(grad(f))(torch.tensor(1.0)))

# %% [markdown]
# ## Forward mode: derivatives along a direction
#
# Reverse mode computes $g^{\mathsf T} J$, from the output. **Forward mode** computes $J v$, from the input: a
# *Jacobian-vector product*. Each value carries its *tangent*, the derivative along $v$. Nothing is saved, because the
# derivative is finished together with the value.


# %%
def g(x):
    return torch.stack([x[0] * x[1], torch.exp(x[0])])


x = torch.tensor([1.0, 2.0])
v = torch.tensor([1.0, 0.0])
value, derivative = jvp(g, (x,), (v,))
print(value, derivative)

value, pull = vjp(g, x)
print(pull(torch.tensor([1.0, 0.0])))

# %% [markdown]
# | | computes | one pass gives | best for |
# |---|---|---|---|
# | forward mode, `jvp` | $Jv$ | a column of $J$ | few inputs, many outputs |
# | reverse mode, `vjp`, `backward` | $g^{\mathsf T}J$ | a row of $J$ | many inputs, few outputs |
#
# A whole Jacobian is one pass per column or per row, all in one batch:

# %%
print(jacfwd(g)(x))
print(jacrev(g)(x))

# %% [markdown]
# ## `vmap`: write for one sample, run for a batch
#
# `vmap` adds a batch dimension to every operation. There is no Python loop.


# %%
def distance(a, b):
    return (a - b).norm()


points = torch.tensor([[0.0, 0.0], [3.0, 4.0], [1.0, 1.0]])
to_origin = vmap(distance, in_dims=(0, None))(points, torch.zeros(2))
all_pairs = vmap(vmap(distance, in_dims=(None, 0)), in_dims=(0, None))(points, points)
print(to_origin)
print(all_pairs)

# %% [markdown]
# ## Together: one gradient per sample
#
# `backward()` gives the gradient of the *mean* loss. For the gradient of every sample, differentiate the loss of one sample and
# `vmap` the result.

# %%
torch.manual_seed(0)
xs, ys = torch.randn(32, 3), torch.randn(32)
w = torch.randn(3)


def loss(w, x, y):
    return (x @ w - y) ** 2


per_sample = vmap(grad(loss), in_dims=(None, 0, 0))(w, xs, ys)
print(per_sample.shape)
print(torch.allclose(per_sample.mean(0), grad(lambda w: loss(w, xs, ys).mean())(w)))

# %% [markdown]
# ## Models are functions, too
#
# `functional_call` runs a module with parameters that you pass. So you can differentiate with respect to them, or `vmap` over an
# ensemble.

# %%
from adjoint.func import functional_call, stack_module_state

models = [torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)) for _ in range(5)]
parameters, buffers = stack_module_state(models)


def predict(parameters, buffers, x):
    return functional_call(models[0], (parameters, buffers), (x,))


predictions = vmap(predict, in_dims=(0, 0, None))(parameters, buffers, xs)
print(predictions.shape, "mean disagreement", predictions.std(0).mean().item())

# %% [markdown]
# ## Forward over reverse
#
# A Hessian-vector product is the directional derivative of the gradient. It needs no graph of a graph:


# %%
def energy(x):
    return (x**4).sum() + x[0] * x[1]


x = torch.tensor([1.0, 2.0])
v = torch.tensor([1.0, -1.0])
_, hv = jvp(grad(energy), (x,), (v,))
print(hv, hessian(energy)(x) @ v)

# %% [markdown]
# ## How it works, in one paragraph
#
# Inside a transform a tensor holds not an array but a *value of one level down*: a batched value for `vmap`, a value with a
# tangent for `jvp`. Operations look at what they are given. The derivative rules are written once, with the same operations, so they
# work for arrays, tensors, batched values and tangents alike. [Function transforms](../transforms.md) has the details.
#
# ## Exercises
#
# 1. Compute the divergence of a vector field $F: \mathbb{R}^3 \to \mathbb{R}^3$ (the trace of its Jacobian) at 100 points at once.
# 2. For $f: \mathbb{R}^{1000} \to \mathbb{R}$, which of `jacfwd` and `jacrev` is faster? And for $f: \mathbb{R} \to \mathbb{R}^{1000}$?
#
# <details><summary>Solutions</summary>
#
# 1. `vmap(lambda p: jacfwd(F)(p).trace())(points)`; see the cell below.
#
# 2. The first has one row, so `jacrev` needs one pass and `jacfwd` a thousand columns. The second is the other way round.
#
# </details>


# %%
def F(p):
    return torch.stack([p[0] * p[1], p[1] ** 2, torch.sin(p[2])])


points = torch.randn(100, 3)
divergence = vmap(lambda p: jacfwd(F)(p).trace())(points)
exact = 3 * points[:, 1] + torch.cos(points[:, 2])
print(torch.allclose(divergence, exact, atol=1e-6))
