"""Random programs: ops, views, in-place writes, branches on data, backward passes, updates; one text for any seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import adjoint as torch

UNARY = ["exp", "tanh", "sigmoid", "sin", "relu", "abs", "neg", "square", "sqrt_abs", "silu", "gelu", "log_abs"]
BINARY = ["add", "sub", "mul", "div_safe", "maximum", "minimum", "where", "lerp"]
SHAPED = ["transpose", "reshape", "slice", "flip", "cat", "stack_sum", "unsqueeze_expand", "roll", "select", "index"]
REDUCING = [
    "sum0",
    "sum1",
    "mean",
    "amax1",
    "softmax",
    "log_softmax",
    "layer_norm",
    "var",
    "logsumexp",
    "cumsum",
    "norm",
]
PRODUCTS = ["matmul", "linear", "einsum"]
WRITES = ["add_", "mul_", "copy_slice", "masked_fill_", "setitem"]


def unary(name: str, x: Any) -> Any:
    special = {
        "sqrt_abs": lambda: (x.abs() + 0.1).sqrt(),
        "log_abs": lambda: (x.abs() + 0.5).log(),
        "relu": lambda: torch.relu(x),
        "silu": lambda: torch.nn.functional.silu(x),
        "gelu": lambda: torch.nn.functional.gelu(x),
    }
    return special[name]() if name in special else getattr(torch, name)(x)


def binary(name: str, x: Any, y: Any) -> Any:
    if name == "div_safe":
        return x / (y.abs() + 1)
    if name == "where":
        return torch.where(x > y, x, y * 0.5)
    return torch.lerp(x, y, 0.25) if name == "lerp" else getattr(torch, name)(x, y)


def shaped(name: str, x: Any) -> Any:
    """Return something of x's own shape, (4, 4), by way of other shapes."""
    return {
        "transpose": lambda: x.t(),
        "reshape": lambda: x.reshape(2, 8).reshape(8, 2).reshape(4, 4),
        "slice": lambda: torch.cat((x[1:], x[:1])),
        "flip": lambda: x.flip(0),
        "cat": lambda: torch.cat((x[:, 2:], x[:, :2]), dim=1),
        "stack_sum": lambda: torch.stack((x, x * 2)).sum(0),
        "unsqueeze_expand": lambda: x[:1].expand(4, 4) + x,
        "roll": lambda: x.roll(1, 1),
        "select": lambda: x[0] + x,
        "index": lambda: x[torch.tensor([3, 1, 0, 2])],
    }[name]()


def reducing(name: str, x: Any) -> Any:
    F = torch.nn.functional
    return {
        "sum0": lambda: x.sum(0, keepdim=True) + x,
        "sum1": lambda: x.sum(1, keepdim=True) * x,
        "mean": lambda: x - x.mean(),
        "amax1": lambda: x - x.amax(1, keepdim=True),
        "softmax": lambda: torch.softmax(x, 1),
        "log_softmax": lambda: torch.log_softmax(x, 0),
        "layer_norm": lambda: F.layer_norm(x, (4,)),
        "var": lambda: x / (x.var(1, keepdim=True) + 1),
        "logsumexp": lambda: x - torch.logsumexp(x, 1, keepdim=True),
        "cumsum": lambda: x.cumsum(1),
        "norm": lambda: x / (x.norm() + 1),
    }[name]()


def product(name: str, x: Any, y: Any) -> Any:
    if name == "einsum":
        return torch.einsum("ij,kj->ik", x, y) * 0.3
    return (x @ y if name == "matmul" else torch.nn.functional.linear(x, y, y[0])) * 0.3


def write(name: str, x: Any, y: Any) -> Any:
    """Return a copy of x, written in place."""
    z = x * 1
    if name == "add_":
        z.add_(y)
    elif name == "mul_":
        z[1:3].mul_(0.5)
    elif name == "copy_slice":
        z[:, 1].copy_(y[:, 0])
    elif name == "masked_fill_":
        z.masked_fill_(y > 1, 0.25)
    else:
        z[0, 1:] = y[1, 1:]
    return z


def program(seed: int) -> tuple[Callable[..., Any], Callable[[int], tuple[Any, ...]], list[Any]]:
    """Return a random step, a maker of its arguments, and the tensors it may change."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    weight = torch.randn(4, 4, requires_grad=rng.random() < 0.8)
    state = torch.randn(4, 4)
    plan = [
        (rng.choice(("u", "u", "b", "b", "s", "r", "p", "w", "k")), rng.random()) for _ in range(rng.randint(3, 12))
    ]
    branches, trains, updates = rng.random() < 0.25, weight.requires_grad and rng.random() < 0.7, rng.random() < 0.4
    twice = rng.random() < 0.3

    def pick(names: list[str], share: float) -> str:
        return names[int(share * len(names))]

    def step(x: Any, y: Any) -> Any:
        if weight.grad is not None:
            weight.grad = None
        h = x * weight
        values = [x, y, h]
        for kind, share in plan:
            other = values[int(share * 997) % len(values)]
            if kind == "u":
                h = unary(pick(UNARY, share), h)
            elif kind == "b":
                h = binary(pick(BINARY, share), h, other)
            elif kind == "s":
                h = shaped(pick(SHAPED, share), h)
            elif kind == "r":
                h = reducing(pick(REDUCING, share), h)
            elif kind == "p":
                h = product(pick(PRODUCTS, share), h, other)
            elif kind == "w":
                h = write(pick(WRITES, share), h, other)
            else:
                h = torch.clamp(h, -3, 3) + state
            h = torch.clamp(h, -20, 20)
            values.append(h)
        if branches:
            h = h * 2 if h[0, 0] > 0.123 else h - 1  # a sum may be zero but for rounding
        loss = (h * h).mean()
        if trains:
            if twice:
                (g,) = torch.autograd.grad(loss, weight, create_graph=True)
                loss = loss + (g * g).sum() * 0.01
            loss.backward()
            with torch.no_grad():
                weight.sub_(weight.grad * 0.01)
        if updates:
            with torch.no_grad():
                state.mul_(0.9).add_(h.detach(), alpha=0.1)
        return loss.detach(), h.detach()

    def arguments(number: int) -> tuple[Any, ...]:
        torch.manual_seed(1000 * seed + number)
        return torch.randn(4, 4), torch.randn(4, 4)

    return step, arguments, [weight, state]


def _compensated(x: Any, y: Any) -> Any:
    total, lost = x, x * 0
    for part in (y, y * 3, x / 7):
        part = part - lost
        longer = total + part
        total, lost = longer, (longer - total) - part
    return total, lost


# Programs whose results are bit for bit those of the eager ones: users compare, round and compensate.
ROUNDED: dict[str, Any] = {
    "the largest product is the largest": lambda x, y: (x * y - (x * y).amax(1, keepdim=True)).sign(),
    "a product less itself": lambda x, y: (x * y - (x * y).clone(), x * y + x * x - x * x),
    "a compensated sum": _compensated,
    "quotients": lambda x, y: ((x / 0.1).round(), x / y, x / 3 / (y.abs() + 1)),
    "numbers of rows": lambda x, y: x / y.amax(1, keepdim=True) - y.amin(1, keepdim=True) * x,
    "zeros with a sign": lambda x, y: (1 / (0 - x * 0), 1 / (x * 0 + 0), 1 / -(x * 0)),
}
