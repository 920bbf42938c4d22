"""Random programs and training runs, compiled against eager: nothing that a program computes may become a constant.

python -m gates.compile [--minutes M] [--count N] [--seed S] [--family NAME] [--backend numpy]

A case is a world made twice from one seed: once it runs eagerly, once compiled, call by call on new data. After every
call results, gradients, parameters, buffers and optimizer state must agree. What is not compiled counts as `eager`
(and must be right too); what only the compiled world raises counts as `crashed`.
"""

from __future__ import annotations

import argparse
import collections
import gc
import random
import sys
import time
import traceback
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as torch

nn, F = torch.nn, torch.nn.functional
CALLS = 6
WAYS = ("step", "joint", "forward")


class Wrong(AssertionError):
    """The compiled world differs from the eager one."""


class World:
    """One side of a case: `call(i)` makes call number i; `state()` is what may be compared afterwards."""

    compiled: Any = None

    def call(self, number: int) -> dict[str, Any]:
        """Make a call and return its results; they are not kept where the program could see them."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """Return what the calls so far have left behind."""
        raise NotImplementedError


# --- Random programs --------------------------------------------------------------------------------

Instruction = Callable[[Any, Any], Any]  # of the value so far and another

_UNARY: list[Callable[[Any], Any]] = [
    torch.exp,
    torch.tanh,
    torch.sigmoid,
    torch.sin,
    torch.relu,
    torch.abs,
    torch.neg,
    torch.square,
    F.silu,
    F.gelu,
    torch.erf,
    torch.atan,
    F.softplus,
    F.hardswish,
    torch.sign,
    torch.floor,
    lambda x: (x.abs() + 0.1).sqrt(),
    lambda x: (x.abs() + 0.5).log(),
    lambda x: x**3,
    lambda x: x.clamp(-1, 1),
    lambda x: 1 / (x.abs() + 1),
    lambda x: F.elu(x),
    lambda x: x.nan_to_num(),
    lambda x: torch.special.expit(x),
    lambda x: x.float().double(),
]
_BINARY: list[Instruction] = [
    torch.add,
    torch.sub,
    torch.mul,
    torch.maximum,
    torch.minimum,
    lambda x, y: x / (y.abs() + 1),
    lambda x, y: torch.where(x > y, x, y * 0.5),
    lambda x, y: torch.lerp(x, y, 0.25),
    lambda x, y: torch.atan2(x, y + 3),
    lambda x, y: torch.addcmul(x, y, y, value=0.5),
    lambda x, y: x + y[0],
    lambda x, y: x * y[:, :1],
    lambda x, y: torch.hypot(x, y + 2),
    lambda x, y: x @ y * 0.3,
    lambda x, y: F.linear(x, y, y[0]) * 0.3,
    lambda x, y: torch.einsum("ij,kj->ik", x, y) * 0.3,
    lambda x, y: x.masked_fill(y > 0.5, 0.25),
    lambda x, y: torch.cat((x[:2], y[2:])),
    lambda x, y: x * y.mean(),
    lambda x, y: torch.bmm(x[None], y[None])[0] * 0.2,
    lambda x, y: x * (y > 0),
    lambda x, y: x + y.argmax(1, keepdim=True),
    lambda x, y: x.float() * y,
    lambda x, y: torch.where(y > 0, x, 0.0),
    lambda x, y: x.index_select(0, y[:, 0].argsort()),
    lambda x, y: x.gather(1, y.argsort(1)),
    lambda x, y: torch.cdist(x, y + 1) * 0.3,
]
_SHAPED: list[Callable[[Any], Any]] = [
    lambda x: x.t(),
    lambda x: x.reshape(2, 8).reshape(8, 2).reshape(4, 4),
    lambda x: torch.cat((x[1:], x[:1])),
    lambda x: x.flip(0),
    lambda x: torch.stack((x, x * 2)).sum(0),
    lambda x: x[:1].expand(4, 4) + x,
    lambda x: x.roll(1, 1),
    lambda x: x[0] + x,
    lambda x: x[torch.tensor([3, 1, 0, 2])],
    lambda x: x.view(-1)[::2].repeat(2).view(4, 4),
    lambda x: x.sum(0, keepdim=True) + x,
    lambda x: x - x.mean(),
    lambda x: x - x.amax(1, keepdim=True),
    lambda x: torch.softmax(x, 1),
    lambda x: torch.log_softmax(x, 0),
    lambda x: F.layer_norm(x, (4,)),
    lambda x: x / (x.var(1, keepdim=True) + 1),
    lambda x: x - torch.logsumexp(x, 1, keepdim=True),
    lambda x: x.cumsum(1) * 0.5,
    lambda x: x / (x.norm() + 1),
    lambda x: x.diagonal() + x,
    lambda x: x.triu(),
    lambda x: x.sort(1).values,
    lambda x: x.topk(2, 1).values.repeat(1, 2),
    lambda x: x.unfold(0, 2, 2).sum(-1).repeat(2, 1),
    lambda x: torch.chunk(x, 2, 1)[0].repeat(1, 2),
    lambda x: x.prod(1, keepdim=True).tanh() + x,
    lambda x: x.tril(-1) + torch.eye(4),
    lambda x: F.pad(x, (1, 0))[:, :4],
    lambda x: F.normalize(x, dim=1),
    lambda x: x.max(0)[0] + x,
    lambda x: x.unbind(1)[1][:, None] + x,
    lambda x: x + torch.arange(4.0),
    lambda x: x * torch.tensor([1.0, 2.0, 3.0, 4.0]),
    lambda x: x + torch.full((4,), 0.5),
    lambda x: x.median(1, keepdim=True)[0] + x,
    lambda x: F.avg_pool1d(x[None], 2)[0].repeat(1, 2),
    lambda x: x.clone().detach() + x,
]

# Ways of writing into a fresh value `y`; `o` is another value.
_WRITES: list[Callable[[Any, Any], Any]] = [
    lambda y, o: y.clamp_(-1, 1),
    lambda y, o: y.clamp_min_(0.1),
    lambda y, o: y.sin_(),
    lambda y, o: y.cos_(),
    lambda y, o: y.abs_(),
    lambda y, o: y.pow_(3),
    lambda y, o: y.pow_(2.0),
    lambda y, o: y.square_(),
    lambda y, o: y.erf_(),
    lambda y, o: y.abs_().log1p_(),
    lambda y, o: y.atan_(),
    lambda y, o: y.sigmoid_().logit_(0.1),
    lambda y, o: y.tanh_(),
    lambda y, o: y.exp_().clamp_(max=9),
    lambda y, o: y.abs_().add_(0.5).log_(),
    lambda y, o: y.abs_().add_(0.5).sqrt_(),
    lambda y, o: y.abs_().add_(0.5).rsqrt_(),
    lambda y, o: y.abs_().add_(1).reciprocal_(),
    lambda y, o: y.neg_(),
    lambda y, o: y.floor_(),
    lambda y, o: y.round_(),
    lambda y, o: y.sign_(),
    lambda y, o: y.frac_(),
    lambda y, o: y.trunc_(),
    lambda y, o: y.sinh_().clamp_(-5, 5),
    lambda y, o: y.asinh_(),
    lambda y, o: y.expm1_().clamp_(-5, 5),
    lambda y, o: y.relu_(),
    lambda y, o: F.relu6(y, inplace=True),
    lambda y, o: F.silu(y, inplace=True),
    lambda y, o: F.hardswish(y, inplace=True),
    lambda y, o: F.elu(y, inplace=True),
    lambda y, o: F.mish(y, inplace=True),
    lambda y, o: F.leaky_relu(y, 0.1, inplace=True),
    lambda y, o: F.hardtanh(y, inplace=True),
    lambda y, o: F.selu(y, inplace=True),
    lambda y, o: F.hardsigmoid(y, inplace=True),
    lambda y, o: F.threshold_(y, 0.1, 0.2),
    lambda y, o: F.celu(y, inplace=True),
    lambda y, o: y.add_(o),
    lambda y, o: y.add_(o, alpha=0.5),
    lambda y, o: y.sub_(o),
    lambda y, o: y.mul_(o),
    lambda y, o: y.mul_(o[0]),
    lambda y, o: y.div_(o.abs() + 1),
    lambda y, o: y.addcmul_(o, o, value=0.5),
    lambda y, o: y.addcdiv_(o, o.abs() + 1),
    lambda y, o: y.lerp_(o, 0.3),
    lambda y, o: y.lerp_(o, o.sigmoid()),
    lambda y, o: y.copy_(o),
    lambda y, o: y.masked_fill_(o > 0.3, 0.25),
    lambda y, o: y.fill_(0.5),
    lambda y, o: y.zero_().add_(o),
    lambda y, o: y.fill_diagonal_(0.5),
    lambda y, o: y.triu_(),
    lambda y, o: y.tril_(),
    lambda y, o: y.cumsum_(0),
    lambda y, o: y.index_fill_(0, torch.tensor([1, 3]), 0.5),
    lambda y, o: y.index_add_(0, torch.tensor([1, 3]), o[:2]),
    lambda y, o: y.index_copy_(1, torch.tensor([0, 2]), o[:, :2]),
    lambda y, o: y.scatter_(1, o.argsort(1)[:, :2], o),
    lambda y, o: y.scatter_add_(1, o.argsort(1), o),
    lambda y, o: y.masked_scatter_(o > 0, o),
    lambda y, o: y.addmm_(o, o, alpha=0.1),
    lambda y, o: y.atan2_(o.abs() + 1),
    lambda y, o: y.hypot_(o),
    lambda y, o: y.fmod_(2.0),
    lambda y, o: y.remainder_(1.5),
    lambda y, o: y.renorm_(2, 0, 1.0),
    lambda y, o: y.swapaxes_(0, 1),
    lambda y, o: y.t_().mul_(o),
    lambda y, o: y.float_power_(2.0),
    lambda y, o: y.clip_(o - 1, o + 1),
    lambda y, o: y.xlogy_(o.abs() + 1),
    lambda y, o: y.nan_to_num_(),
    lambda y, o: y.deg2rad_(),
    lambda y, o: y.unsqueeze_(0).mul_(o).squeeze_(0),
    lambda y, o: y.put_(torch.tensor([1, 5]), o[0, :2]),
    lambda y, o: y.sinc_(),
    lambda y, o: y.index_put_((torch.tensor([0, 1]),), o[:2], accumulate=True),
    lambda y, o: y.ge_(0.0),
    lambda y, o: y.gt_(o),
    lambda y, o: y.copysign_(o),
    lambda y, o: y.heaviside_(o),
    lambda y, o: torch.relu_(y),
    lambda y, o: y.mvlgamma_(1) if False else y.mul_(1.5),
    lambda y, o: torch.add(o, o, out=y) if not (y.requires_grad or o.requires_grad) else y.add_(o),
    lambda y, o: y.erfc_(),
]
_PARTS: list[Callable[[Any], Any]] = [
    lambda y: y,
    lambda y: y,
    lambda y: y[1:3],
    lambda y: y.t(),
    lambda y: y[:, 1:2],
    lambda y: y[2],
    lambda y: y.diagonal(),
    lambda y: y.view(2, 8),
    lambda y: y.view(-1)[::2],
    lambda y: y.narrow(1, 1, 2),
    lambda y: y[1:][:, ::2],
    lambda y: y.select(1, 3),
    lambda y: y.unsqueeze(0),
    lambda y: y.t()[1:3],
    lambda y: y[..., None],
    lambda y: y.as_strided((2, 3), (4, 1), 1),
    lambda y: y.view_as(y),
]


def _like(o: Any, part: Any) -> Any:
    """Return a part of `o` in the shape of a part of something else."""
    flat = o.reshape(-1)[: part.numel()]
    return flat.reshape(part.shape) if flat.numel() == part.numel() else o.reshape(-1)[:1].expand(part.shape)


class _Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x.abs()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 2 * g * x.abs()


class _Writing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x.clone())
        ctx.mark_dirty(x)
        x.mul_(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 2 * g * ctx.saved_tensors[0]


class _Remembering(torch.autograd.Function):
    """Keeps a tensor on ctx itself, which is bad manners, and common."""

    @staticmethod
    def forward(ctx: Any, x: Any, scale: float) -> Any:
        ctx.kept, ctx.scale = x.detach().tanh(), scale
        return x.tanh() * scale

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * (1 - ctx.kept**2) * ctx.scale, None


class _Straight(torch.autograd.Function):
    @staticmethod
    def forward(x: Any) -> Any:
        return x.round()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g.clamp(-1, 1)


def _write(rng: random.Random) -> Instruction:
    part, write, fresh = rng.choice(_PARTS), rng.choice(_WRITES), rng.choice((0, 0, 1, 2))

    def run(x: Any, o: Any) -> Any:
        y = x * 1 if fresh == 0 else x.clone() if fresh == 1 else x + o
        p = part(y)
        if p is y:
            return write(y, o)
        if p.shape != y.shape and write.__code__.co_consts and p.dim() != 2:
            p.mul_(_like(o, p)).sin_()
        else:
            write(p, _like(o, p) if p.shape != (4, 4) else o)
        return y

    return run


def _hooked(rng: random.Random) -> Instruction:
    kind = rng.randrange(4)

    def run(x: Any, o: Any) -> Any:
        y = x * 1.5
        if y.requires_grad:
            if kind == 0:
                y.register_hook(lambda g: g * 2)
            elif kind == 1:
                kept = o.detach()
                y.register_hook(lambda g: g * kept)
            elif kind == 2:
                y.register_hook(lambda g: g.clone().clamp_(-0.1, 0.1))
            else:
                y.grad_fn.register_hook(lambda gi, go: tuple(None if g is None else g * 0.5 for g in gi))
        return y

    return run


def _odd(rng: random.Random) -> Instruction:
    """Return an instruction that takes a value by an odd road."""
    box = {"scale": 1.0}

    def saved(x: Any, o: Any) -> Any:
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2):
            return x.sin() * o

    def offloaded(x: Any, o: Any) -> Any:
        with torch.autograd.graph.save_on_cpu():
            return x.sin() * x

    def inner_grad(x: Any, o: Any) -> Any:
        y = x.detach().requires_grad_()
        (g,) = torch.autograd.grad((y.sin() * o.detach()).sum(), y)
        return x + g

    def inner_second(x: Any, o: Any) -> Any:
        y = x if x.requires_grad else x.detach().requires_grad_()
        (g,) = torch.autograd.grad((y**3).mean(), y, create_graph=True)
        return x + g

    def checkpointed(x: Any, o: Any) -> Any:
        return torch.utils.checkpoint.checkpoint(lambda a, b: (a * b).sin(), x, o, use_reentrant=False)

    def random_number(x: Any, o: Any) -> Any:
        return x * torch.rand_like(x) if rng_kind else F.dropout(x, 0.5)

    def item(x: Any, o: Any) -> Any:
        return x * (o[0, 0].item() * 0.5)

    def data(x: Any, o: Any) -> Any:
        return x + o.data.sin()

    def by_numpy(x: Any, o: Any) -> Any:
        return x + torch.from_numpy(np.sort(o.detach().numpy(), 0))

    def written_data(x: Any, o: Any) -> Any:
        y = x * 1
        y.data.mul_(0.5)
        return y

    def from_tensor(x: Any, o: Any) -> Any:
        return x + torch.tensor(o.detach()) * 0.5

    def from_list(x: Any, o: Any) -> Any:
        return x + torch.tensor([o[0, 0], o[1, 1], 1.0, 2.0])

    def stacked(x: Any, o: Any) -> Any:
        return torch.stack(list(x.unbind(0))) + torch.stack([r.sum() for r in o])

    def where_index(x: Any, o: Any) -> Any:
        y = x.clone()
        y[o > 0] = 0.5
        return y

    def setitem(x: Any, o: Any) -> Any:
        y = x * 1
        y[0, 1:] = o[1, 1:]
        y[2] = 3.0
        y[:, 3] += o[:, 0]
        return y

    def vmapped(x: Any, o: Any) -> Any:
        return torch.vmap(lambda a, b: a.sin() * b)(x, o)

    def jacobian(x: Any, o: Any) -> Any:
        return x + torch.func.jacrev(lambda v: v.sin() * o.detach()[0])(o.detach()[1])

    def pushed(x: Any, o: Any) -> Any:
        return x + torch.func.jvp(torch.sin, (o.detach(),), (x.detach(),))[1]

    def unrecorded(x: Any, o: Any) -> Any:
        with torch.no_grad():
            z = o * 2
            z.sin_()
        return x * z

    def swapped(x: Any, o: Any) -> Any:
        y = x * 1
        y.data = o.detach() * 2
        return y + x

    def set_memory(x: Any, o: Any) -> Any:
        y = torch.empty(0, dtype=x.dtype)
        y.set_(o.detach().clone())
        return x * y

    def made_list(x: Any, o: Any) -> Any:
        return x + torch.tensor(o.detach().round().tolist())

    def filled(x: Any, o: Any) -> Any:
        y = torch.zeros(4, 4)
        y[1:3] = x[:2]
        y.add_(o)
        return y

    def out(x: Any, o: Any) -> Any:
        y = torch.empty(4, 4)
        torch.sin(o.detach(), out=y)
        return x * y

    def foreach(x: Any, o: Any) -> Any:
        a, b = torch._foreach_mul([x, o], 2.0)
        return a + b

    def nonzero(x: Any, o: Any) -> Any:
        return x + x[o[:, 0] > -100][:4]

    def functional_grad(x: Any, o: Any) -> Any:
        return x + torch.func.grad(lambda v: (v**3).sum())(o.detach())

    def autocast(x: Any, o: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return (x.float() @ o.float()).double() * 0.1

    rng_kind = rng.random() < 0.5
    choices = [
        saved,
        offloaded,
        inner_grad,
        inner_second,
        checkpointed,
        random_number,
        item,
        data,
        by_numpy,
        written_data,
        from_tensor,
        from_list,
        stacked,
        where_index,
        setitem,
        vmapped,
        jacobian,
        pushed,
        unrecorded,
        swapped,
        set_memory,
        made_list,
        filled,
        out,
        foreach,
        nonzero,
        functional_grad,
        autocast,
        lambda x, o: _Twice.apply(x),
        lambda x, o: _Writing.apply(x * 1),
        lambda x, o: _Remembering.apply(x, box["scale"]),
        lambda x, o: _Straight.apply(x),
    ]
    return rng.choice(choices)


def _instruction(rng: random.Random) -> Instruction:
    kind = rng.random()
    if kind < 0.15:
        unary = rng.choice(_UNARY)
        return lambda x, o: unary(x)
    if kind < 0.35:
        return rng.choice(_BINARY)
    if kind < 0.5:
        shaped = rng.choice(_SHAPED)
        return lambda x, o: shaped(x)
    if kind < 0.8:
        return _write(rng)
    return _hooked(rng) if kind < 0.85 else _odd(rng)


class Settings:
    """Numbers that a program finds as class attributes, and that change."""

    gain = 1.0


class Slotted:
    """Numbers in slots."""

    __slots__ = ("gain",)

    def __init__(self) -> None:
        self.gain = 1.0


_CHANGES = ("gain", "tensor", "list", "array", "slots", "class", "write")


class Program(World):
    """A random function of two tensors and of what it finds around it."""

    def __init__(self, seed: int, way: str) -> None:
        rng = random.Random(seed)
        torch.manual_seed(seed)
        self.seed, self.way = seed, way
        self.function: Any = None
        self.weight = torch.randn(4, 4, requires_grad=way != "forward" or rng.random() < 0.5)
        self.buffer, self.extra = torch.randn(4, 4), torch.randn(4, 4)
        self.box: dict[str, Any] = {
            "gain": 1.0,
            "tensor": torch.randn(4, 4),
            "list": [torch.randn(4, 4), torch.randn(4, 4)],
        }
        self.array = np.ones((4, 4))
        self.slots = Slotted()
        self.settings = type("Own", (Settings,), {"gain": 1.0})
        plan = [(_instruction(rng), rng.random()) for _ in range(rng.randint(1, 7))]
        uses = {
            name
            for name in ("gain", "tensor", "list", "array", "slots", "class", "buffer", "branch", "pair")
            if rng.random() < 0.2
        }
        argument_grad = way != "forward" and rng.random() < 0.5
        self.argument_grad = argument_grad
        changing = rng.random() < 0.4
        self.changes = [rng.choice(_CHANGES) if changing and rng.random() < 0.4 else "none" for _ in range(CALLS)]
        own = self

        def body(x: Any, y: Any) -> Any:
            h = x * own.weight
            values = [x, y, h]
            for instruction, share in plan:
                other = values[int(share * 997) % len(values)]
                h = torch.clamp(instruction(h, other), -20, 20)
                values.append(h)
            if "gain" in uses:
                h = h * own.box["gain"]
            if "tensor" in uses:
                h = h + own.box["tensor"]
            if "list" in uses:
                h = h * own.box["list"][0] + sum(own.box["list"]) * 0.1
            if "array" in uses:
                h = h * torch.from_numpy(own.array) + float(own.array.mean())
            if "slots" in uses:
                h = h * own.slots.gain
            if "class" in uses:
                h = h * own.settings.gain
            if "buffer" in uses:
                with torch.no_grad():
                    own.buffer.mul_(0.9).add_(h.detach(), alpha=0.1)
                h = h + own.buffer
            if "branch" in uses:
                h = h * 2 if h[0, 0] > 0.123 else h - 1
            return h

        def step(x: Any, y: Any) -> Any:
            own.weight.grad = None
            h = body(x, y)
            loss = (h * h).mean()
            if loss.requires_grad:
                loss.backward()
                with torch.no_grad():
                    if own.weight.grad is not None:
                        own.weight.sub_(own.weight.grad * 0.01)
            return loss.detach(), h.detach()

        def forward(x: Any, y: Any) -> Any:
            with torch.no_grad():
                return body(x, y)

        self.function = {"step": step, "joint": body, "forward": forward}[way]
        if "pair" in uses and way != "forward":
            inner = self.function
            self.function = lambda x, y: {"a": inner(x, y), "b": [x, 1.5]} if way == "joint" else inner(x, y)

    def call(self, number: int) -> dict[str, Any]:
        """Change something around the function, and call it on new data."""
        self._change(self.changes[number], number)
        torch.manual_seed(1000 * self.seed + number)
        x, y = torch.randn(4, 4), torch.randn(4, 4)
        if self.argument_grad:
            x.requires_grad_()
        torch.manual_seed(7 * self.seed + number)
        out = (self.compiled or self.function)(x, y)
        if self.way == "joint":
            self.weight.grad = None
            flat = out["a"] if isinstance(out, dict) else out
            if flat.requires_grad:
                (flat * flat).mean().backward()
        return {"out": out, "x": x, "y": y, "x.grad": x.grad}

    def _change(self, what: str, number: int) -> None:
        value = 1.0 + 0.25 * number
        if what == "gain":
            self.box["gain"] = value
        elif what == "tensor":
            self.box["tensor"] = torch.full((4, 4), value)
        elif what == "list":
            self.box["list"][number % 2] = torch.full((4, 4), value)
        elif what == "array":
            self.array[number % 4] = value
        elif what == "slots":
            self.slots.gain = value
        elif what == "class":
            self.settings.gain = value
        elif what == "write":
            self.box["tensor"].add_(0.5)

    def state(self) -> dict[str, Any]:
        """Return results and everything that the program may write."""
        return {"weight": self.weight, "weight.grad": self.weight.grad, "buffer": self.buffer}


# --- Training runs ----------------------------------------------------------------------------------


class _Residual(nn.Module):
    def __init__(self, inplace: bool) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)
        self.act = nn.SiLU(inplace=inplace)
        self.register_buffer("seen", torch.zeros(6))
        self.gain = 1.0

    def scaled(self, x: Any) -> Any:
        return x * self.gain

    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            self.seen.mul_(0.9).add_(x.mean(0), alpha=0.1)
        h = self.act(self.first(x))
        h += self.second(x)
        return self.scaled(h) + self.seen


class _Recurrent(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.cell = getattr(nn, kind)(3, 6, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.cell(x.view(x.shape[0], 2, 3))[0][:, -1]


# Before a batch norm a bias has no gradient but rounding, which Rprop and its like take for one: there is none here.
class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(6, 2, bias=False)  # that of the keys has no gradient but rounding

    def forward(self, x: Any) -> Any:
        return self.attend(x, x, x)[0] + x


class _Conv(nn.Module):
    def __init__(self, act: Any) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(1, 3, 3, padding=1, bias=False), nn.BatchNorm1d(3), act, nn.Conv1d(3, 1, 1, bias=False)
        )

    def forward(self, x: Any) -> Any:
        return self.net(x[:, None])[:, 0]


_ACTS: list[Callable[[], Any]] = [
    lambda: nn.ReLU(inplace=True),
    lambda: nn.ReLU6(inplace=True),
    lambda: nn.SiLU(inplace=True),
    lambda: nn.Hardswish(inplace=True),
    lambda: nn.ELU(inplace=True),
    lambda: nn.LeakyReLU(0.1, inplace=True),
    lambda: nn.Hardtanh(inplace=True),
    lambda: nn.GELU(),
    lambda: nn.Mish(inplace=True),
    lambda: nn.Hardsigmoid(inplace=True),
    lambda: nn.SELU(inplace=True),
    lambda: nn.CELU(inplace=True),
    lambda: nn.Tanh(),
    lambda: nn.PReLU(),
    lambda: nn.Softplus(),
    lambda: nn.Dropout(0.3),
    lambda: nn.Dropout(0.3, inplace=True),
    lambda: nn.RReLU(inplace=True),
    lambda: nn.Threshold(0.1, 0.2, inplace=True),
    lambda: nn.AlphaDropout(0.2),
]


def _layer(rng: random.Random) -> Any:
    act = rng.choice(_ACTS)
    return rng.choice(
        [
            lambda: nn.Sequential(nn.Linear(6, 6), act()),
            lambda: nn.Sequential(nn.Linear(6, 6), act()),
            lambda: nn.Sequential(nn.Tanh(), nn.BatchNorm1d(6), act()),
            lambda: nn.LayerNorm(6),
            lambda: nn.GroupNorm(2, 6),
            lambda: _Residual(rng.random() < 0.7),
            lambda: _Conv(act()),
            lambda: _Attention(),
            lambda: _Recurrent(rng.choice(("RNN", "LSTM", "GRU"))),
            lambda: nn.utils.parametrizations.weight_norm(nn.Linear(6, 6)),
            lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(6, 6)),
            lambda: nn.RMSNorm(6),
            lambda: nn.Bilinear(6, 6, 6) if False else nn.Linear(6, 6),
        ]
    )()


_OPTIMIZERS: list[tuple[str, list[dict[str, Any]]]] = [
    ("SGD", [{}, {"momentum": 0.9}, {"momentum": 0.9, "nesterov": True}, {"weight_decay": 0.1}, {"maximize": True}]),
    (
        "Adam",
        [{}, {"amsgrad": True}, {"weight_decay": 0.1}, {"betas": (0.5, 0.9)}, {"capturable": False, "foreach": True}],
    ),
    ("AdamW", [{}, {"amsgrad": True}, {"foreach": False}]),
    ("RMSprop", [{}, {"centered": True, "momentum": 0.5}]),
    ("Adagrad", [{}, {"lr_decay": 0.1}]),
    ("Adadelta", [{}]),
    ("Adamax", [{}]),
    ("NAdam", [{}]),
    ("RAdam", [{}]),
    ("ASGD", [{}]),
    ("Rprop", [{}]),
    ("LBFGS", [{"max_iter": 2}]),
    ("Adafactor", [{}]),
]
_SCHEDULERS: list[Callable[[Any], Any]] = [
    lambda o: torch.optim.lr_scheduler.StepLR(o, 2, 0.5),
    lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.8),
    lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 4),
    lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda e: 1 / (e + 1)),
    lambda o: torch.optim.lr_scheduler.LinearLR(o, 0.5, total_iters=3),
    lambda o: torch.optim.lr_scheduler.PolynomialLR(o, 4),
    lambda o: torch.optim.lr_scheduler.OneCycleLR(
        o,
        0.1,
        total_steps=20,
        cycle_momentum="betas" in o.defaults or ("momentum" in o.defaults and o.defaults["momentum"] > 0),
    ),
    lambda o: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(o, 2),
]
_LOSSES: list[Callable[[Any, Any], Any]] = [
    lambda out, y: F.mse_loss(out, y),
    lambda out, y: F.cross_entropy(out, y.argmax(1)),
    lambda out, y: F.smooth_l1_loss(out, y),
    lambda out, y: F.binary_cross_entropy_with_logits(out, y.sigmoid()),
    lambda out, y: (out - y).abs().mean(),
    lambda out, y: F.kl_div(out.log_softmax(1), y.softmax(1), reduction="batchmean"),
    lambda out, y: F.huber_loss(out, y),
]
_TRAINED = ("step", "model", "loss", "model.compile", "method", "fullgraph", "dynamic")


_schedulers: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()  # not where a program looks


class Training(World):
    """A random model, loss, optimizer and schedule, and a step that trains."""

    def __init__(self, seed: int, way: str) -> None:
        rng = random.Random(seed)
        torch.manual_seed(seed)
        self.seed, self.way, self.rng = seed, way, rng
        self.model = nn.Sequential(*(_layer(rng) for _ in range(rng.randint(1, 3))), nn.Linear(6, 6))
        name, options = rng.choice(_OPTIMIZERS)
        self.optimizer = getattr(torch.optim, name)(
            self.model.parameters(), lr=rng.choice((0.01, 0.05)), **rng.choice(options)
        )
        self.closure = name == "LBFGS"
        scheduler = rng.choice(_SCHEDULERS)(self.optimizer) if rng.random() < 0.5 and not self.closure else None
        inside = rng.random() < 0.2
        self.inside = scheduler if inside else None
        _schedulers[self] = None if inside else scheduler
        self.criterion = rng.choice(_LOSSES)
        self.clip = rng.choice((None, None, "norm", "value"))
        self.none = rng.random() < 0.7
        self.accumulate = rng.random() < 0.15
        self.twice = rng.random() < 0.1
        self.logged = rng.random() < 0.3
        self.scaler = torch.amp.GradScaler("cpu", init_scale=4.0) if rng.random() < 0.1 and not self.closure else None
        eventful, sized = rng.random() < 0.5, rng.random() < 0.2
        self.sizes = [rng.choice((5, 5, 3)) if sized else 5 for _ in range(CALLS)]
        self.events = [rng.choice(_EVENTS) if eventful and rng.random() < 0.3 else "none" for _ in range(CALLS)]
        self.run, self.predict, self.lose = self.step, self.model, self._loss

    def _loss(self, out: Any, y: Any) -> Any:
        return self.criterion(out, y)

    def step(self, x: Any, y: Any) -> Any:
        """Train on a batch."""
        if self.closure:
            return self.optimizer.step(lambda: self._gradients(x, y))
        loss = self._gradients(x, y)
        if self.scaler is not None:
            self.scaler.unscale_(self.optimizer)
        if self.clip == "norm":
            nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
        elif self.clip == "value":
            nn.utils.clip_grad_value_(self.model.parameters(), 0.05)
        if self.scaler is None:
            self.optimizer.step()
        else:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        if self.inside is not None:
            self.inside.step()
        return loss.item() if self.logged else loss.detach()

    def _gradients(self, x: Any, y: Any) -> Any:
        if not self.accumulate:
            self.optimizer.zero_grad(set_to_none=self.none)
        loss = self.lose(self.predict(x), y)
        if self.twice:
            loss = loss + self.lose(self.predict(x * 0.5), y)
        (loss if self.scaler is None else self.scaler.scale(loss)).backward()
        return loss

    def compile(self, **options: Any) -> list[Any]:
        """Compile in the way that this case is about."""
        way = self.way
        if way in ("step", "fullgraph", "dynamic"):
            options = {
                **options,
                **({"fullgraph": True} if way == "fullgraph" else {"dynamic": True} if way == "dynamic" else {}),
            }
            self.run = torch.compile(self.step, **options)
            return [self.run]
        if way == "model":
            self.predict = torch.compile(self.model, **options)
            return [self.predict]
        if way == "loss":
            self.lose = torch.compile(self._loss, **options)
            return [self.lose]
        if way == "model.compile":
            self.model.compile(**options)
            return [self.model]
        own = self

        class Trainer:
            @torch.compile(**options)
            def fit(self, x: Any, y: Any) -> Any:
                return own.step(x, y)

        self.run = Trainer().fit
        return [Trainer.fit]

    def call(self, number: int) -> dict[str, Any]:
        """Let something happen, then train on a new batch."""
        torch.manual_seed(11 * self.seed + number)
        self._event(self.events[number], number)
        torch.manual_seed(1000 * self.seed + number)
        n = self.sizes[number]
        x, y = torch.randn(n, 6), torch.randn(n, 6)
        torch.manual_seed(7 * self.seed + number)
        result = self.run(x, y)
        if _schedulers[self] is not None:
            _schedulers[self].step()
        return {"result": result}

    def _event(self, what: str, number: int) -> None:
        first = next(iter(self.model.parameters()))
        if what == "eval":
            self.model.train(not self.model.training)
        elif what == "freeze":
            first.requires_grad_(not first.requires_grad)
        elif what == "lr":
            for group in self.optimizer.param_groups:
                group["lr"] *= 0.5
        elif what == "reload":
            self.optimizer.load_state_dict(self.optimizer.state_dict())
        elif what == "weights":
            self.model.load_state_dict({k: v.clone() * 0.9 for k, v in self.model.state_dict().items()})
        elif what == "write":
            with torch.no_grad():
                first.mul_(0.9)
        elif what == "data":
            first.data = first.data.clone() * 0.9
        elif what == "gain":
            for m in self.model.modules():
                if isinstance(m, _Residual):
                    m.gain = 1.0 + 0.1 * number
        elif what == "replace":
            self.model[-1] = nn.Linear(6, 6)
        elif what == "decay":
            for group in self.optimizer.param_groups:
                if "weight_decay" in group:
                    group["weight_decay"] = 0.01 * number
        elif what == "clear":
            self.optimizer.zero_grad(set_to_none=number % 2 == 0)
        elif what == "hook":
            self.model[0].register_forward_hook(lambda m, a, out: out * 0.9)
        elif what == "state":
            self.optimizer.state.clear()

    def state(self) -> dict[str, Any]:
        """Return the result, parameters, buffers, gradients and the optimizer's state."""
        named = dict(self.model.named_parameters())
        return {
            **named,
            **{f"{k}.grad": p.grad for k, p in named.items()},
            **dict(self.model.named_buffers()),
            "optimizer": self.optimizer.state_dict(),
        }


_EVENTS = (
    "eval",
    "freeze",
    "lr",
    "reload",
    "weights",
    "write",
    "data",
    "gain",
    "replace",
    "decay",
    "clear",
    "hook",
    "state",
)


# --- Running and comparing --------------------------------------------------------------------------


def compare(found: Any, expected: Any, where: str) -> None:
    """Raise where two trees differ by more than rounding."""
    if isinstance(expected, torch.Tensor):
        if not isinstance(found, torch.Tensor) or found.shape != expected.shape or found.dtype != expected.dtype:
            raise Wrong(f"{where}: {_told(found)}, eager {_told(expected)}")
        a, b = found.detach().cpu().double().numpy(), expected.detach().cpu().double().numpy()
        if not np.allclose(a, b, rtol=1e-5, atol=1e-7, equal_nan=True):
            raise Wrong(f"{where}: differs by {np.nanmax(np.abs(a - b)):.3g}")
        if found.requires_grad != expected.requires_grad:
            raise Wrong(f"{where}: requires_grad is {found.requires_grad}, eager {expected.requires_grad}")
    elif isinstance(expected, dict):
        if not isinstance(found, dict) or list(found) != list(expected):
            raise Wrong(f"{where}: keys differ")
        for key in expected:
            compare(found[key], expected[key], f"{where}.{key}")
    elif isinstance(expected, list | tuple):
        if type(found) is not type(expected) or len(found) != len(expected):
            raise Wrong(f"{where}: another sequence")
        for i, (a, b) in enumerate(zip(found, expected, strict=True)):
            compare(a, b, f"{where}[{i}]")
    elif isinstance(expected, float) and isinstance(found, float):
        if not np.isclose(found, expected, rtol=1e-5, atol=1e-7, equal_nan=True):
            raise Wrong(f"{where}: {found}, eager {expected}")
    elif type(found) is not type(expected) or (found is not expected and not callable(expected) and found != expected):
        raise Wrong(f"{where}: {_told(found)}, eager {_told(expected)}")


def _told(value: Any) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, torch.Tensor) else repr(value)[:60]


def _made(family: str, seed: int) -> World:
    rng = random.Random(seed * 31 + 5)
    if family == "program":
        return Program(seed, rng.choice(WAYS))
    return Training(seed, rng.choice(_TRAINED))


def run_case(family: str, seed: int, backend: Any = None) -> tuple[str, str]:
    """Return the verdict of a case, and why.

    It is right, wrong, crashed, eager, unused (no program ran a second time), alike (both raise) or n/a.
    """
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            return _judged(family, seed, backend)
    finally:
        torch.set_default_dtype(before)


def _judged(family: str, seed: int, backend: Any) -> tuple[str, str]:
    eager, world = _made(family, seed), _made(family, seed)
    if isinstance(world, Training):
        compiled = world.compile(backend=backend)
    else:
        world.compiled = torch.compile(world.function, backend=backend)  # type: ignore[attr-defined]
        compiled = [world.compiled]
    for number in range(CALLS):
        expected, error = _attempt(eager, number)
        found, mine = _attempt(world, number)
        if error is not None or mine is not None:
            if error is None:
                if getattr(world, "way", "") == "fullgraph" and "cannot compile" in str(mine):
                    return "eager", str(mine)
                return "crashed", f"call {number}: {_trace(mine)}"
            if mine is None:
                return "wrong", f"call {number}: eager raises {type(error).__name__}: {error}"[:300]
            if type(mine) is not type(error):
                return (
                    "crashed",
                    f"call {number}: raises {type(mine).__name__}: {mine}; eager {type(error).__name__}: {error}"[:400],
                )
            return ("n/a" if number == 0 else "alike"), str(error)[:200]
        try:
            compare({**found, **world.state()}, {**expected, **eager.state()}, f"call {number}")
        except Wrong as wrong:
            return "wrong", str(wrong)
    cores = [_core(c) for c in compiled]
    why = next((c.refused for c in cores if c.refused), "")
    if why:
        return "eager", why
    ran = any(trace.calls for c in cores for trace in c.traces)
    return ("right", "") if ran else ("unused", "; ".join(r for c in cores for r in c.reasons)[:200])


def _core(compiled: Any) -> Any:
    """Return the object that has the programs."""
    for name in ("_compiled", "_compiled_call_impl", "compiled"):
        inner = getattr(compiled, name, None)
        if inner is not None:
            return inner
    return compiled


def _attempt(world: World, number: int) -> tuple[dict[str, Any], BaseException | None]:
    try:
        return world.call(number), None
    except Exception as error:
        return {}, error


def _trace(error: Any) -> str:
    lines = traceback.format_exception(error)
    return f"{type(error).__name__}: {str(error)[:200]} | {''.join(lines[-3:])[:500]}"


def main(argv: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(prog="python -m gates.compile", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5)
    parser.add_argument("--count", type=int, default=0, help="cases; 0: as many as the time allows")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--family", choices=("program", "training"))
    parser.add_argument("--backend", choices=("numpy", "numba"), help="numpy for three cases of four unless given")
    parser.add_argument("--verbose", action="store_true", help="say of each case why it is eager")
    chosen = parser.parse_args(argv)
    verdicts: collections.Counter[str] = collections.Counter()
    why_eager: collections.Counter[str] = collections.Counter()
    gc.collect()
    gc.freeze()  # capturing looks at every object there is
    end = time.monotonic() + 60 * chosen.minutes
    number = 0
    while (not chosen.count or number < chosen.count) and time.monotonic() < end:
        seed = chosen.seed + number
        family = chosen.family or ("training" if number % 3 == 2 else "program")
        backend = (
            {"numpy": "numpy", "numba": None}[chosen.backend] if chosen.backend else None if seed % 4 == 3 else "numpy"
        )
        verdict, why = run_case(family, seed, backend)
        verdicts[verdict] += 1
        number += 1
        if verdict == "eager":
            why_eager[why[:60]] += 1
        if verdict in ("wrong", "crashed") or (chosen.verbose and verdict != "right"):
            print(f"{verdict} --family {family} --seed {seed} {backend or 'numba'}: {why}", flush=True)
    counts = ", ".join(f"{verdicts[w]} {w}" for w in ("wrong", "crashed", "eager", "unused", "right", "alike", "n/a"))
    print(f"{number} cases: {counts}")
    if chosen.verbose:
        print("\n".join(f"{n} {why}" for why, n in why_eager.most_common(40)))
    return 1 if verdicts["wrong"] or verdicts["crashed"] else 0


if __name__ == "__main__":
    sys.exit(main())
