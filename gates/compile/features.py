"""What programs do besides calling ops: custom functions, hooks, derivatives inside, NumPy, transforms."""
# ruff: noqa: D102, D103 - names say what each does

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as torch

F = torch.nn.functional

# --- Custom functions -------------------------------------------------------------------------------


class Signed(torch.autograd.Function):
    """x |x|."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x.abs()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * g * x.abs()


class Dirty(torch.autograd.Function):
    """The square, in place."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x.clone())
        ctx.mark_dirty(x)
        x.mul_(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 2 * g * ctx.saved_tensors[0]


class Attributed(torch.autograd.Function):
    """Saves a tensor as an attribute of ctx, which is bad manners, and common."""

    @staticmethod
    def forward(ctx: Any, x: Any, scale: float) -> Any:
        ctx.saved, ctx.scale = x.detach().tanh(), scale
        return x.tanh() * scale

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * (1 - ctx.saved**2) * ctx.scale, None


class StraightThrough(torch.autograd.Function):
    """Rounding whose gradient is that of a clamp."""

    @staticmethod
    def forward(x: Any) -> Any:
        return x.round()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g.clamp(-1, 1)


# --- Hooks, derivatives inside, random numbers, NumPy, transforms -----------------------------------


def _hooked(hook: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return an instruction that gives its result a hook, made of the result and another value."""

    def run(x: Any, o: Any) -> Any:
        y = x * 1.5
        if y.requires_grad:
            hook(y, o.detach())
        return y

    return run


HOOKS = {
    "hook that doubles": _hooked(lambda y, o: y.register_hook(lambda g: g * 2)),
    "hook with a tensor": _hooked(lambda y, o: y.register_hook(lambda g: g * o)),
    "hook that clamps": _hooked(lambda y, o: y.register_hook(lambda g: g.clone().clamp_(-0.1, 0.1))),
    "hook of the node": _hooked(
        lambda y, o: y.grad_fn.register_hook(lambda gi, go: tuple(None if g is None else g * 0.5 for g in gi))
    ),
}
FEATURES: dict[str, Callable[[Any, Any], Any]] = {}


def _feature(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    FEATURES[function.__name__] = function
    return function


@_feature
def saved_tensors_hooks(x: Any, o: Any) -> Any:
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2):
        return x.sin() * o


@_feature
def save_on_cpu(x: Any, o: Any) -> Any:
    with torch.autograd.graph.save_on_cpu():
        return x.sin() * x


@_feature
def inner_grad(x: Any, o: Any) -> Any:
    y = x.detach().requires_grad_()
    (g,) = torch.autograd.grad((y.sin() * o.detach()).sum(), y)
    return x + g


@_feature
def inner_second_derivative(x: Any, o: Any) -> Any:
    y = x if x.requires_grad else x.detach().requires_grad_()
    (g,) = torch.autograd.grad((y**3).mean(), y, create_graph=True)
    return x + g


@_feature
def numpy_sorted(x: Any, o: Any) -> Any:
    return x + torch.from_numpy(np.sort(o.detach().cpu().numpy(), 0)).to(x.device)


@_feature
def written_data(x: Any, o: Any) -> Any:
    y = x * 1
    y.data.mul_(0.5)
    return y


@_feature
def masked_write(x: Any, o: Any) -> Any:
    y = x.clone()
    y[o > 0] = 0.5
    return y


@_feature
def setitem(x: Any, o: Any) -> Any:
    y = x * 1
    y[0, 1:] = o[1, 1:]
    y[2] = 3.0
    y[:, 3] += o[:, 0]
    return y


@_feature
def unrecorded(x: Any, o: Any) -> Any:
    with torch.no_grad():
        z = o * 2
        z.sin_()
    return x * z


@_feature
def new_data(x: Any, o: Any) -> Any:
    y = x * 1
    y.data = o.detach() * 2
    return y + x


@_feature
def set_storage(x: Any, o: Any) -> Any:
    y = torch.empty(0, dtype=x.dtype)
    y.set_(o.detach().clone())
    return x * y


@_feature
def filled(x: Any, o: Any) -> Any:
    y = torch.zeros(4, 4)
    y[1:3] = x[:2]
    y.add_(o)
    return y


@_feature
def out(x: Any, o: Any) -> Any:
    y = torch.empty(4, 4)
    torch.sin(o.detach(), out=y)
    return x * y


@_feature
def foreach(x: Any, o: Any) -> Any:
    a, b = torch._foreach_mul([x, o], 2.0)
    return a + b


@_feature
def autocast(x: Any, o: Any) -> Any:
    with torch.autocast(x.device.type, dtype=torch.bfloat16):
        return (x.float() @ o.float()).double() * 0.1


FEATURES |= {
    "checkpoint": lambda x, o: torch.utils.checkpoint.checkpoint(lambda a, b: (a * b).sin(), x, o, use_reentrant=False),
    "rand_like": lambda x, o: x * torch.rand_like(x),
    "dropout": lambda x, o: F.dropout(x, 0.5),
    "item": lambda x, o: x * (o[0, 0].item() * 0.5),
    "data": lambda x, o: x + o.data.sin(),
    "tensor of a tensor": lambda x, o: x + torch.tensor(o.detach()) * 0.5,
    "tensor of a list": lambda x, o: x + torch.tensor([o[0, 0], o[1, 1], 1.0, 2.0]),
    "tensor of numbers": lambda x, o: x + torch.tensor(o.detach().round().tolist()),
    "stack": lambda x, o: torch.stack(list(x.unbind(0))) + torch.stack([r.sum() for r in o]),
    "masked rows": lambda x, o: x + x[o[:, 0] > -100][:4],
    "vmap": lambda x, o: torch.vmap(lambda a, b: a.sin() * b)(x, o),
    "jacrev": lambda x, o: x + torch.func.jacrev(lambda v: v.sin() * o.detach()[0])(o.detach()[1]),
    "jvp": lambda x, o: x + torch.func.jvp(torch.sin, (o.detach(),), (x.detach(),))[1],
    "func.grad": lambda x, o: x + torch.func.grad(lambda v: (v**3).sum())(o.detach()),
    "Signed": lambda x, o: Signed.apply(x),
    "Dirty": lambda x, o: Dirty.apply(x * 1),
    "Attributed": lambda x, o: Attributed.apply(x, 1.0),
    "StraightThrough": lambda x, o: StraightThrough.apply(x),
}
