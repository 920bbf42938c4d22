"""The engine on a GPU: the same programs on CuPy arrays give what they give on NumPy arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.autograd import Function, forward_ad, grad

pytestmark = pytest.mark.gpu

PROGRAMS: list[Callable[[str], Any]] = []


def program(function: Callable[[str], Any]) -> Callable[[str], Any]:
    PROGRAMS.append(function)
    return function


def leaf(place: str, *shape: int, seed: int = 0) -> Any:
    values = np.random.default_rng(seed).normal(size=shape or (3,))
    return adjoint.tensor(values, device=place, requires_grad=True)


@program
def arithmetic(place: str) -> Any:
    x, y = leaf(place), leaf(place, seed=1)
    z = (x * y + x / (y * y + 1) - 2 * y).sum()
    z.backward()
    return z, x.grad, y.grad


@program
def broadcasting(place: str) -> Any:
    x, y = leaf(place, 3, 1), leaf(place, 4, seed=1)
    (x * y).sum().backward()
    return x.grad, y.grad


@program
def matrix_product(place: str) -> Any:
    x, w, b = leaf(place, 4, 3), leaf(place, 3, 5, seed=1), leaf(place, 5, seed=2)
    (x @ w + b).tanh().mean().backward()
    return x.grad, w.grad, b.grad


@program
def second_order(place: str) -> Any:
    x = leaf(place)
    (g,) = grad((x.exp() * x).sum(), x, create_graph=True)
    return grad((g * g).sum(), x)


@program
def accumulation(place: str) -> Any:
    x = leaf(place)
    for _ in range(3):
        (x * x).sum().backward()
    return x.grad


@program
def writes_and_views(place: str) -> Any:
    x = leaf(place, 2, 3)
    y = x * 1
    v = y[0]
    v.mul_(5)
    y[1, 1:] = x[0, 1:] * 2
    (y * y).sum().backward()
    return y, x.grad


@program
def several_outputs(place: str) -> Any:
    x = leaf(place, 2, 3)
    a, b = x.split([1, 2], dim=1)
    top, _ = (x * 2).max(dim=1)
    ((a * 3).sum() + (b * b).sum() + top.sum()).backward()
    return x.grad


@program
def indexing(place: str) -> Any:
    x = leaf(place, 4, 3)
    index = adjoint.tensor([0, 2, 2], device=place)
    (x[index] * x[1:4:2, None].sum() + x[x > 0].sum()).sum().backward()
    return x.grad


@program
def custom_function(place: str) -> Any:
    class Square(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * 2 * x

    x = leaf(place)
    (g,) = grad(Square.apply(x).sum(), x, create_graph=True)
    return g, grad(g.sum(), x)


@program
def hooks(place: str) -> Any:
    x, seen = leaf(place), []
    y = x * 2
    y.register_hook(lambda g: g * 10)
    y.retain_grad()
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
    y.sum().backward()
    return y.grad, x.grad, seen[0]


@program
def forward_mode(place: str) -> Any:
    x, t = leaf(place), leaf(place, seed=1).detach()
    with forward_ad.dual_level():
        return forward_ad.unpack_dual((forward_ad.make_dual(x, t).tanh() * x).sum()).tangent


@program
def batched_gradients(place: str) -> Any:
    x = leaf(place)
    gs = leaf(place, 4, 3, seed=1).detach()
    return grad(x * x, x, gs, is_grads_batched=True)


@program
def saved_on_the_host(place: str) -> Any:
    x = leaf(place)
    with adjoint.autograd.graph.save_on_cpu():
        y = (x.exp() * x).sum()
    y.backward()
    return x.grad


def host(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [host(v) for v in value]
    return value.detach().cpu().numpy()


def compare(mine: Any, theirs: Any) -> None:
    if isinstance(mine, list):
        for a, b in zip(mine, theirs, strict=True):
            compare(a, b)
    else:
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_program_gives_what_it_gives_on_the_host(function: Callable[[str], Any]) -> None:
    compare(host(function("cuda")), host(function("cpu")))


def test_placement() -> None:
    x = adjoint.ones(3, device="cuda")
    assert x.device == adjoint.device("cuda", 0) and x.is_cuda
    assert x.cpu().device == adjoint.device("cpu")
    assert "device='cuda:0'" in repr(x)
    with pytest.raises(TypeError, match="can't convert cuda:0 device type tensor to numpy"):
        x.numpy()


def test_unequal_devices_are_refused() -> None:
    with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        adjoint.ones(3, device="cuda") * adjoint.ones(3)


def test_gradient_flows_between_devices() -> None:
    x = adjoint.tensor([1.0, 2.0], requires_grad=True)
    (x.to("cuda") * 3).cpu().sum().backward()
    assert x.grad.tolist() == [3.0, 3.0] and x.grad.device == adjoint.device("cpu")


def test_overwritten_value_is_refused() -> None:
    x, w = leaf("cuda"), leaf("cuda")
    y = x * 1
    z = y * w
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.sum().backward()


def test_gradients_do_not_share_memory() -> None:
    x, y = leaf("cuda"), leaf("cuda")
    (x + y).sum().backward()
    x.grad.zero_()
    assert y.grad.tolist() == [1.0, 1.0, 1.0]


def test_dlpack_round_trip() -> None:
    cupy = pytest.importorskip("cupy", reason="needs CuPy")
    a = cupy.arange(3.0)
    t = adjoint.from_dlpack(a)
    t.add_(1)
    assert a.tolist() == [1.0, 2.0, 3.0]
    assert cupy.from_dlpack(t).tolist() == [1.0, 2.0, 3.0]


def test_draws_of_a_batch_lie_where_they_are_wanted() -> None:
    x = adjoint.randn(3, 4, 4, device="cuda")
    for function in (
        lambda a: adjoint.nn.functional.dropout(a, 0.5),
        lambda a: a + adjoint.randn(4, 4, device="cuda"),
        lambda a: adjoint.svd_lowrank(a, q=2)[1],
    ):
        found = adjoint.func.vmap(function, randomness="different")(x)
        assert found.device.type == "cuda" and len(found) == 3
