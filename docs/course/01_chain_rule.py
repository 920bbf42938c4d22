# %% [markdown]
# # 1. The chain rule, backwards
#
# You know calculus and some Python. After this page you know what "reverse-mode automatic differentiation" does,
# and why it is the right choice for a function with many inputs and one output.
#
# Every cell runs as it stands. Change the numbers and run it again.

# %% [markdown]
# ## A function is a chain of small steps
#
# Take $f(x) = \sin(x^2)$. A computer does not see a formula. It runs two steps:
#
# $$u = x^2, \qquad y = \sin(u).$$
#
# Each step has a *local derivative* that you know by heart: $\mathrm{d}u/\mathrm{d}x = 2x$ and
# $\mathrm{d}y/\mathrm{d}u = \cos u$. The chain rule multiplies them:
#
# $$\frac{\mathrm{d}y}{\mathrm{d}x} = \frac{\mathrm{d}y}{\mathrm{d}u}\,\frac{\mathrm{d}u}{\mathrm{d}x} = \cos(x^2)\cdot 2x.$$
#
# <svg viewBox="0 0 640 150" width="640" role="img" aria-label="x to u to y, with derivatives flowing back">
#   <defs><marker id="a" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto"><path d="M0,0L8,4L0,8z" fill="#3f51b5"/></marker>
#   <marker id="b" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto"><path d="M0,0L8,4L0,8z" fill="#c2410c"/></marker></defs>
#   <g font-family="sans-serif" font-size="15" text-anchor="middle">
#     <circle cx="60" cy="75" r="28" fill="#e8eaf6" stroke="#3f51b5"/><text x="60" y="80">x</text>
#     <circle cx="320" cy="75" r="28" fill="#e8eaf6" stroke="#3f51b5"/><text x="320" y="80">u</text>
#     <circle cx="580" cy="75" r="28" fill="#e8eaf6" stroke="#3f51b5"/><text x="580" y="80">y</text>
#     <path d="M88 62 L290 62" stroke="#3f51b5" stroke-width="2" marker-end="url(#a)"/><text x="190" y="50" fill="#3f51b5">square</text>
#     <path d="M348 62 L550 62" stroke="#3f51b5" stroke-width="2" marker-end="url(#a)"/><text x="450" y="50" fill="#3f51b5">sin</text>
#     <path d="M552 92 L350 92" stroke="#c2410c" stroke-width="2" marker-end="url(#b)"/><text x="450" y="116" fill="#c2410c">times cos u</text>
#     <path d="M292 92 L90 92" stroke="#c2410c" stroke-width="2" marker-end="url(#b)"/><text x="190" y="116" fill="#c2410c">times 2x</text>
#   </g>
# </svg>
#
# Values flow forward, along the blue arrows. Derivatives flow backward, along the orange ones.

# %%
import math

x = 1.5
u = x**2  # forward: remember u and x
y = math.sin(u)

dy_dy = 1.0  # backward: start with 1 at the output
dy_du = dy_dy * math.cos(u)
dy_dx = dy_du * 2 * x
dy_dx

# %% [markdown]
# A finite difference agrees:

# %%
h = 1e-6
(math.sin((x + h) ** 2) - math.sin((x - h) ** 2)) / (2 * h)

# %% [markdown]
# ## adjoint does the same, for any program
#
# `adjoint` has PyTorch's interface. The flag `requires_grad=True` says: remember what is computed from this tensor.
# `backward()` then goes through the steps in reverse order.

# %%
import adjoint as torch

x = torch.tensor(1.5, requires_grad=True)
y = torch.sin(x**2)
y.backward()
x.grad

# %% [markdown]
# The record of the steps is the **graph**. Each result has a `grad_fn`, the node that knows how to send a derivative
# to the inputs of its step. Its `next_functions` lead to the steps before.

# %%
print(y.grad_fn)
print(y.grad_fn.next_functions)
print(y.grad_fn.next_functions[0][0].next_functions)

# %% [markdown]
# ## A value that is used twice
#
# In $y = x \cdot \sin x$ the value $x$ reaches $y$ by two paths. The derivatives of the paths **add up**:
#
# $$\frac{\mathrm{d}y}{\mathrm{d}x} = \underbrace{\sin x}_{\text{path 1}} + \underbrace{x \cos x}_{\text{path 2}}.$$

# %%
x = torch.tensor(1.5, requires_grad=True)
y = x * torch.sin(x)
y.backward()
print(x.grad, math.sin(1.5) + 1.5 * math.cos(1.5))

# %% [markdown]
# This is also why `.grad` *accumulates*: a second `backward()` adds to what is there. Set it to `None` (or call
# `optimizer.zero_grad()`) before you start again.

# %%
x = torch.tensor(2.0, requires_grad=True)
(x**2).backward()
print(x.grad)
(x**2).backward()
print(x.grad)

# %% [markdown]
# ## From numbers to vectors: the VJP
#
# Let a step map a vector $x \in \mathbb{R}^n$ to a vector $y \in \mathbb{R}^m$. Its derivative is a matrix, the
# **Jacobian** $J$ with $J_{ij} = \partial y_i / \partial x_j$. Let $L$ be the number at the end of the whole computation, and write
# $g_i = \partial L/\partial y_i$. The chain rule says
#
# $$\frac{\partial L}{\partial x_j} = \sum_i g_i J_{ij}, \qquad\text{or}\qquad \bar{x} = g^{\mathsf T} J .$$
#
# This is a **vector-Jacobian product**, a VJP. The backward pass is nothing but a sequence of VJPs. The vector $g$ is called the
# *cotangent*, or simply the gradient of the output.
#
# We never build the matrix $J$. For an elementwise function it is diagonal, so its VJP is an elementwise product. For
# $y = Ax$ it is $A$ itself, so the VJP is $A^{\mathsf T} g$: one matrix-vector product.

# %%
torch.manual_seed(0)
A = torch.randn(3, 4)
x = torch.randn(4, requires_grad=True)
g = torch.tensor([1.0, 0.0, 2.0])

y = A @ x
y.backward(g)  # a vector output needs the vector g
print(x.grad)
print(A.T @ g)

# %% [markdown]
# ## Why backwards?
#
# A loss has one output and millions of inputs. Multiply the Jacobians of its steps from the output side, and every
# intermediate result is a *vector*. Multiply them from the input side, and every intermediate result is a matrix with a column
# for each input. One backward pass gives all partial derivatives, and it costs about two to three forward passes.
#
# The picture counts multiplications for a chain of ten layers of width $n$ that ends in one number.

# %%
import matplotlib.pyplot as plt

widths = [2**k for k in range(3, 11)]
layers = 10
reverse = [layers * n * n for n in widths]  # vector times matrix, each layer
forward = [layers * n * n * n for n in widths]  # matrix times matrix, each layer

fig, ax = plt.subplots(figsize=(6, 3.2))
ax.loglog(widths, forward, "o-", label="from the inputs (forward mode, all inputs)")
ax.loglog(widths, reverse, "o-", label="from the output (reverse mode)")
ax.set_xlabel("width of a layer")
ax.set_ylabel("multiplications")
ax.legend()
fig.tight_layout()

# %% [markdown]
# ## Exercises
#
# 1. Compute the derivative of $f(x) = e^{-x^2}$ at $x = 0.5$ by hand, then with `backward()`.
# 2. Let $y_i = x_i^2$ for a vector $x$. Which diagonal matrix is $J$? Check that `y.backward(g)` gives $g_i \cdot 2 x_i$.
# 3. Let $s = \sum_i x_i$. What is the VJP of `sum`? Predict `x.grad` after `(3 * x.sum()).backward()`.
#
# <details><summary>Solutions</summary>
#
# 1. $f'(x) = -2x\,e^{-x^2}$, so $f'(0.5) = -e^{-0.25} \approx -0.7788$.
# 2. $J = \mathrm{diag}(2x_1, \dots, 2x_n)$.
# 3. The Jacobian of `sum` is a row of ones. Its VJP fills the shape of $x$ with $g$, so `x.grad` is 3 everywhere.
#
# </details>

# %%
x = torch.tensor(0.5, requires_grad=True)  # solution 1
torch.exp(-(x**2)).backward()
print(x.grad, -math.exp(-0.25))

x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)  # solution 2
g = torch.tensor([1.0, 10.0, 100.0])
(x**2).backward(g)
print(x.grad, g * 2 * x.detach())

x = torch.zeros(4, requires_grad=True)  # solution 3
(3 * x.sum()).backward()
print(x.grad)
