# %% [markdown]
# # 5. Higher derivatives
#
# A gradient is computed by operations, and operations can be recorded. Ask for that with `create_graph=True`, and you may
# differentiate the gradient again, as often as you like.

# %% [markdown]
# ## `autograd.grad`
#
# `torch.autograd.grad(output, inputs)` returns gradients instead of writing them to `.grad`.

# %%
import adjoint as torch
from adjoint.autograd import grad

x = torch.tensor(2.0, requires_grad=True)
y = x**4
(first,) = grad(y, x, create_graph=True)
(second,) = grad(first, x, create_graph=True)
(third,) = grad(second, x)
print(first.item(), second.item(), third.item())  # 4 x^3, 12 x^2, 24 x

# %% [markdown]
# Without `create_graph=True` the gradient is a constant: it has no `grad_fn`, and memory is freed sooner.
#
# ## A picture: sine and its derivatives

# %%
import matplotlib.pyplot as plt

x = torch.linspace(-6, 6, 200, requires_grad=True)
y = torch.sin(x) * torch.exp(-(x**2) / 10)
curves = [y]
for _ in range(3):
    (y,) = grad(y.sum(), x, create_graph=True)
    curves.append(y)

fig, ax = plt.subplots(figsize=(6, 3.2))
for order, curve in enumerate(curves):
    ax.plot(x.detach().numpy(), curve.detach().numpy(), label=f"order {order}")
ax.legend()
fig.tight_layout()

# %% [markdown]
# We differentiated `y.sum()`. Each element of `y` depends on one element of `x` only, so the gradient of the sum is the
# vector of derivatives. This trick is used everywhere below.
#
# ## Gradients inside a loss: a differential equation
#
# A *physics-informed network* is trained so that its derivative satisfies an equation. Here: $u' = -u$ with $u(0) = 1$, whose
# solution is $e^{-t}$. The loss contains $u'$, so the gradient of the loss contains second derivatives.

# %%
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(1, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
t = torch.linspace(0, 2, 32).reshape(-1, 1).requires_grad_()

for step in range(400):
    u = net(t)
    (du,) = grad(u.sum(), t, create_graph=True)
    loss = ((du + u) ** 2).mean() + (u[0] - 1).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

with torch.no_grad():
    print(f"loss {loss.item():.2e}, largest error {(net(t) - torch.exp(-t)).abs().max().item():.4f}")

# %% [markdown]
# ## Hessians, and products with them
#
# The Hessian of a function of $n$ numbers has $n^2$ entries. Often you need only its product with a vector $v$, and that costs
# about two gradients: differentiate $\nabla f(x) \cdot v$.


# %%
def f(x):
    return (x[0] ** 2 * x[1] + torch.sin(x[2])).sum()


x = torch.tensor([1.0, 2.0, 0.5], requires_grad=True)
v = torch.tensor([1.0, 0.0, 0.0])

(g,) = grad(f(x), x, create_graph=True)
(hv,) = grad(g @ v, x)
print("H v     ", hv)
print("whole H\n", torch.func.hessian(f)(x.detach()))

# %% [markdown]
# ## Newton's method
#
# With a Hessian, a small problem is solved in a few steps.


# %%
def rosenbrock(p):
    return (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2


p = torch.tensor([-1.2, 1.0], dtype=torch.float64)
for step in range(6):
    g = torch.func.grad(rosenbrock)(p)
    H = torch.func.hessian(rosenbrock)(p)
    p = p - torch.linalg.solve(H, g)
    print(step, p.numpy(), f"{rosenbrock(p).item():.2e}")

# %% [markdown]
# ## Exercises
#
# 1. Check that the second derivative of `torch.relu` is zero, and explain why a network of ReLUs cannot solve a second-order
#    differential equation in this way.
# 2. Train on a *gradient penalty*: add `0.1 * g.pow(2).sum()` to a loss, where `g` is the gradient with respect to the input.
# 3. Compute the Laplacian (the trace of the Hessian) of `f` above without the whole Hessian.
#
# <details><summary>Solutions</summary>
#
# 1. ReLU is linear on both sides of 0, so its second derivative is 0 wherever it exists. The second derivative of a ReLU network
# with respect to its input is then 0 as well: the loss does not depend on it. Use tanh, SiLU or softplus.
#
# 2. As in the network above: compute `g` with `create_graph=True`, add the term, call `backward()`.
#
# 3. Sum $e_i^{\mathsf T} H e_i$: one product with a unit vector for each input. See the cell below.
#
# </details>

# %%
(g,) = grad(f(x), x, create_graph=True)
laplacian = sum(grad(g[i], x, retain_graph=True)[0][i] for i in range(3))
print(laplacian, torch.func.hessian(f)(x.detach()).trace())
