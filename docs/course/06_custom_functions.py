# %% [markdown]
# # 6. Your own functions, with your own gradients
#
# Everything built from tensor operations is differentiated for you. Write a custom `Function` when
#
# - the computation happens elsewhere (SciPy, a solver, your own C code);
# - the automatic gradient is numerically poor, or wasteful;
# - you *want* another gradient than the true one.

# %% [markdown]
# ## The shape of a Function
#
# `forward` computes. `setup_context` saves what the backward pass needs. `backward` receives the gradient of the output and
# returns one gradient for each input: a vector-Jacobian product.

# %%
import adjoint as torch


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x**3

    @staticmethod
    def setup_context(ctx, inputs, output):
        (x,) = inputs
        ctx.save_for_backward(x)

    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * 3 * x**2


x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
Cube.apply(x).sum().backward()
x.grad

# %% [markdown]
# Save tensors with `save_for_backward`, never as attributes of `ctx`: saved tensors are checked for in-place writes and do not
# create reference cycles. Numbers and shapes may be attributes.
#
# ## Check it
#
# `gradcheck` compares `backward` with finite differences, in double precision. `gradgradcheck` does the same for the second
# derivative: our `backward` is made of tensor operations, so it can be differentiated.

# %%
from adjoint.autograd import gradcheck, gradgradcheck

print(gradcheck(Cube.apply, (x,)), gradgradcheck(Cube.apply, (x,)))


class Wrong(Cube):
    @staticmethod
    def backward(ctx, grad_output):
        (x,) = ctx.saved_tensors
        return grad_output * 2 * x  # a mistake


try:
    gradcheck(Wrong.apply, (x,))
except RuntimeError as error:
    print(str(error).splitlines()[0])

# %% [markdown]
# ## A stable formula
#
# $\log(1 + e^x)$ overflows for large $x$, and so does its automatic gradient. The derivative is the logistic function, which is
# always between 0 and 1.


# %%
class Softplus(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return torch.clamp(x, min=0) + torch.log1p(torch.exp(-x.abs()))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * torch.sigmoid(x)


x = torch.tensor([-1000.0, 0.0, 1000.0], requires_grad=True)
naive = torch.log(1 + torch.exp(x))
naive.sum().backward()
print("naive: ", naive.detach(), x.grad)

x.grad = None
stable = Softplus.apply(x)
stable.sum().backward()
print("stable:", stable.detach(), x.grad)

# %% [markdown]
# ## A gradient that is not the derivative: straight-through rounding
#
# Rounding has derivative 0, so nothing behind it learns. The *straight-through estimator* pretends that rounding is the
# identity.


# %%
class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):  # the older form: forward and setup in one
        return x.round()

    @staticmethod
    def backward(ctx, g):
        return g


x = torch.tensor([0.2, 0.7, 1.4], requires_grad=True)
Round.apply(x * 2).sum().backward()
x.grad

# %% [markdown]
# ## A solver: the implicit function theorem
#
# Let $y$ solve $y = \tanh(W y + x)$. We find it by iteration, and do not want to store a hundred steps. At the solution the
# derivative follows from the equation itself: with $D = \mathrm{diag}(1 - y^2)$,
#
# $$\mathrm{d}y = D(W\,\mathrm{d}y + \mathrm{d}x) \quad\Rightarrow\quad \bar{x} = D\,(I - D W)^{-\mathsf T}\,\bar{y}.$$


# %%
class FixedPoint(torch.autograd.Function):
    @staticmethod
    def forward(W, x):
        y = torch.zeros_like(x)
        for _ in range(200):
            y = torch.tanh(W @ y + x)
        return y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(inputs[0], output)

    @staticmethod
    def backward(ctx, g):
        W, y = ctx.saved_tensors
        D = torch.diag(1 - y**2)
        u = D @ torch.linalg.solve((torch.eye(len(y), dtype=y.dtype) - D @ W).T, g)
        return torch.outer(u, y), u


torch.manual_seed(0)
W = (0.3 * torch.randn(4, 4, dtype=torch.float64)).requires_grad_()
x = torch.randn(4, dtype=torch.float64, requires_grad=True)
print(gradcheck(FixedPoint.apply, (W, x)))

# %% [markdown]
# ## Hooks: look at a gradient, or change it
#
# You need no `Function` to look at gradients on their way.

# %%
x = torch.tensor([1.0, 2.0], requires_grad=True)
y = x**2
y.register_hook(lambda g: print("the gradient of y is", g))
x.register_hook(lambda g: g.clamp(max=3.0))  # a hook may return another gradient
y.sum().backward()
x.grad

# %% [markdown]
# ## Exercises
#
# 1. Write `ClampGrad`: the identity forward, and backward a gradient limited to [-1, 1].
# 2. Write `Exp` so that it saves its *output* and does not compute the exponential twice. Check it with `gradgradcheck`.
#
# <details><summary>Solutions</summary>Both are in the cell below.</details>


# %%
class ClampGrad(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return g.clamp(-1, 1)


class Exp(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return torch.exp(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx, g):
        (out,) = ctx.saved_tensors
        return g * out


x = torch.tensor([1.0, -2.0], dtype=torch.float64, requires_grad=True)
(ClampGrad.apply(x) * torch.tensor([5.0, -0.5])).sum().backward()
print(x.grad, gradgradcheck(Exp.apply, (x,)))
