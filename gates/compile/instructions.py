"""What programs are made of: functions of the value so far, a 4 x 4 matrix, and of another one.

Most are written as expressions, so that a program which fails can be printed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import adjoint as torch

from .features import FEATURES, HOOKS

F = torch.nn.functional


class Instruction(NamedTuple):
    """A function of the value so far and another, and how it reads."""

    text: str
    run: Callable[[Any, Any], Any]


def _expressions(text: str) -> list[Instruction]:
    """Return an instruction for each line, an expression in `x` and `o`."""
    lines = [line.strip() for line in text.strip().splitlines()]
    names = {"torch": torch, "F": F}
    return [Instruction(line, eval(f"lambda x, o: {line}", names)) for line in lines]  # noqa: S307 - of this file


def _methods(names: str) -> list[Instruction]:
    """Return an instruction for each method that takes nothing."""
    return _expressions("\n".join(f"x.{name}()" for name in names.split()))


UNARY = _methods("exp tanh sigmoid sin relu abs neg square erf atan sign floor nan_to_num") + _expressions("""
    F.silu(x)
    F.gelu(x)
    F.softplus(x)
    F.hardswish(x)
    F.elu(x)
    (x.abs() + 0.1).sqrt()
    (x.abs() + 0.5).log()
    x**3
    x.clamp(-1, 1)
    1 / (x.abs() + 1)
    torch.special.expit(x)
    x.float().double()
""")
BINARY = _expressions("""
    x + o
    x - o
    x * o
    torch.maximum(x, o)
    torch.minimum(x, o)
    x / (o.abs() + 1)
    torch.where(x > o, x, o * 0.5)
    torch.where(o > 0, x, 0.0)
    torch.lerp(x, o, 0.25)
    torch.atan2(x, o + 3)
    torch.addcmul(x, o, o, value=0.5)
    torch.hypot(x, o + 2)
    x + o[0]
    x * o[:, :1]
    x * o.mean()
    x * (o > 0)
    x * o[o > 0].sum()
    x + x[o > 0].mean()
    x * len(o[o > 0])
    x * o[o[0].argmax()]
    x.index_put((o[:, 0] > 0,), o[1])
    x + (o > 0).nonzero().shape[0]
    x - o.t().clamp(-1, 1).as_strided((4, 4), (4, 1))
    x.float() * o
    x @ o * 0.3
    F.linear(x, o, o[0]) * 0.3
    torch.einsum("ij,kj->ik", x, o) * 0.3
    torch.bmm(x[None], o[None])[0] * 0.2
    torch.cdist(x, o + 1) * 0.3
    x.masked_fill(o > 0.5, 0.25)
    torch.cat((x[:2], o[2:]))
    x + o.argmax(1, keepdim=True)
    x.index_select(0, o[:, 0].argsort())
    x.gather(1, o.argsort(1))
""")
SHAPED = _expressions("""
    x.t()
    x.reshape(2, 8).reshape(8, 2).reshape(4, 4)
    torch.cat((x[1:], x[:1]))
    x.flip(0)
    torch.stack((x, x * 2)).sum(0)
    x[:1].expand(4, 4) + x
    x.roll(1, 1)
    x[0] + x
    x[torch.tensor([3, 1, 0, 2])]
    x.view(-1)[::2].repeat(2).view(4, 4)
    x.sum(0, keepdim=True) + x
    x - x.mean()
    x - x.amax(1, keepdim=True)
    torch.softmax(x, 1)
    torch.log_softmax(x, 0)
    F.layer_norm(x, (4,))
    x / (x.var(1, keepdim=True) + 1)
    x - torch.logsumexp(x, 1, keepdim=True)
    x.cumsum(1) * 0.5
    x / (x.norm() + 1)
    x.diagonal() + x
    x.triu()
    x.sort(1).values
    x.topk(2, 1).values.repeat(1, 2)
    x.unfold(0, 2, 2).sum(-1).repeat(2, 1)
    torch.chunk(x, 2, 1)[0].repeat(1, 2)
    x.prod(1, keepdim=True).tanh() + x
    x.tril(-1) + torch.eye(4)
    F.pad(x, (1, 0))[:, :4]
    F.normalize(x, dim=1)
    x.max(0)[0] + x
    x.median(1, keepdim=True)[0] + x
    x.unbind(1)[1][:, None] + x
    x + torch.arange(4.0)
    x * torch.tensor([1.0, 2.0, 3.0, 4.0])
    x + torch.full((4,), 0.5)
    F.avg_pool1d(x[None], 2)[0].repeat(1, 2)
    x.clone().detach() + x
""")
# Writes into `x`, whatever its shape is; `o` has the same.
WRITES = _methods(
    "sin_ cos_ abs_ square_ erf_ erfc_ atan_ tanh_ neg_ floor_ round_ sign_ frac_ trunc_ asinh_ relu_ nan_to_num_ "
    "deg2rad_ sinc_"
) + _expressions("""
    x.clamp_(-1, 1)
    x.clamp_min_(0.1)
    x.pow_(3)
    x.pow_(2.0)
    x.abs_().log1p_()
    x.sigmoid_().logit_(0.1)
    x.exp_().clamp_(max=9)
    x.abs_().add_(0.5).log_()
    x.abs_().add_(0.5).sqrt_()
    x.abs_().add_(0.5).rsqrt_()
    x.abs_().add_(1).reciprocal_()
    x.sinh_().clamp_(-5, 5)
    x.expm1_().clamp_(-5, 5)
    torch.relu_(x)
    F.relu6(x, inplace=True)
    F.silu(x, inplace=True)
    F.hardswish(x, inplace=True)
    F.elu(x, inplace=True)
    F.mish(x, inplace=True)
    F.leaky_relu(x, 0.1, inplace=True)
    F.hardtanh(x, inplace=True)
    F.selu(x, inplace=True)
    F.hardsigmoid(x, inplace=True)
    F.celu(x, inplace=True)
    F.threshold_(x, 0.1, 0.2)
    x.add_(o)
    x.add_(o, alpha=0.5)
    x.sub_(o)
    x.mul_(o)
    x.div_(o.abs() + 1)
    x.addcmul_(o, o, value=0.5)
    x.addcdiv_(o, o.abs() + 1)
    x.lerp_(o, 0.3)
    x.lerp_(o, o.sigmoid())
    x.copy_(o)
    x.masked_fill_(o > 0.3, 0.25)
    x.masked_scatter_(o > 0, o)
    x.fill_(0.5)
    x.zero_().add_(o)
    x.atan2_(o.abs() + 1)
    x.hypot_(o)
    x.fmod_(2.0)
    x.remainder_(1.5)
    x.float_power_(2.0)
    x.clip_(o - 1, o + 1)
    x.xlogy_(o.abs() + 1)
    x.copysign_(o)
    x.heaviside_(o)
    x.ge_(0.0)
    x.gt_(o)
    torch.add(o, o, out=x) if not (x.requires_grad or o.requires_grad) else x.add_(o)
""")
# Writes into a whole matrix.
MATRIX_WRITES = _expressions("""
    x.mul_(o[0])
    x.fill_diagonal_(0.5)
    x.triu_()
    x.tril_()
    x.cumsum_(0)
    x.index_fill_(0, torch.tensor([1, 3]), 0.5)
    x.index_add_(0, torch.tensor([1, 3]), o[:2])
    x.index_copy_(1, torch.tensor([0, 2]), o[:, :2])
    x.index_put_((torch.tensor([0, 1]),), o[:2], accumulate=True)
    x.put_(torch.tensor([1, 5]), o[0, :2])
    x.scatter_(1, o.argsort(1)[:, :2], o)
    x.scatter_add_(1, o.argsort(1), o)
    x.addmm_(o, o, alpha=0.1)
    x.renorm_(2, 0, 1.0)
    x.swapaxes_(0, 1)
    x.t_().mul_(o)
    x.unsqueeze_(0).mul_(o).squeeze_(0)
""")
VIEWS = _expressions("""
    x[1:3]
    x.t()
    x[:, 1:2]
    x[2]
    x.diagonal()
    x.view(2, 8)
    x.view(-1)[::2]
    x.narrow(1, 1, 2)
    x[1:][:, ::2]
    x.select(1, 3)
    x.unsqueeze(0)
    x.t()[1:3]
    x[..., None]
    x.as_strided((2, 3), (4, 1), 1)
    x.view_as(x)
""")
FRESH = _expressions("""
    x * 1
    x * 1
    x.clone()
    x + o
""")


def _write(rng: random.Random) -> Instruction:
    """Return an instruction that writes into a fresh value, or into a view of it."""
    fresh = rng.choice(FRESH)
    if rng.random() < 0.3:
        write = rng.choice(WRITES + MATRIX_WRITES)
        return Instruction(f"{write.text} where x = {fresh.text}", lambda x, o: write.run(fresh.run(x, o), o))
    view, write = rng.choice(VIEWS), rng.choice(WRITES)

    def run(x: Any, o: Any) -> Any:
        whole = fresh.run(x, o)
        part = view.run(whole, o)
        write.run(part, o.reshape(-1)[: part.numel()].reshape(part.shape))
        return whole

    return Instruction(f"{write.text} where x = {view.text} of {fresh.text}", run)


def choose(rng: random.Random) -> Instruction:
    """Return an instruction at random."""
    kind = rng.random()
    if kind < 0.15:
        return rng.choice(UNARY)
    if kind < 0.35:
        return rng.choice(BINARY)
    if kind < 0.5:
        return rng.choice(SHAPED)
    if kind < 0.8:
        return _write(rng)
    return Instruction(*rng.choice(list((HOOKS if kind < 0.85 else FEATURES).items())))
