"""One set of rules, every kind of value: recorded, traced, batched, dual, and these inside one another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.autograd import forward_ad, grad
from adjoint.core.nodes import wrap
from adjoint.core.payload import Level
from adjoint.payloads.batched import Batched
from adjoint.payloads.traced import trace

rng = np.random.default_rng(0)


def leaf(*shape: int) -> Any:
    return adjoint.tensor(rng.normal(size=shape), requires_grad=True)


def network(x: Any, w: Any) -> Any:
    """Three rules: a product, a tanh, a matrix product."""
    return (x * w).tanh() @ w


def numeric(f: Any, x: np.ndarray, eps: float = 1e-6) -> np.ndarray:
    out = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[i] = eps
        out[i] = (f(x + step) - f(x - step)) / (2 * eps)
    return out


def test_gradient_of_gradient() -> None:
    x, w = leaf(3, 3), leaf(3, 3)
    (g,) = grad(network(x, w).sum(), x, create_graph=True)
    (gg,) = grad((g * g).sum(), w)

    def inner(values: np.ndarray) -> float:
        u = adjoint.tensor(values)
        (g,) = grad(network(x, u).sum(), x)
        return float((g * g).sum())

    np.testing.assert_allclose(gg.numpy(), numeric(inner, w.detach().numpy()), rtol=1e-5, atol=1e-7)


def test_traced_backward_is_a_list_that_runs_again() -> None:
    x, w = leaf(3, 3), leaf(3, 3)

    def step(x: Any, w: Any) -> Any:
        return grad(network(x, w).sum(), [x, w])

    values, record = trace(step, x, w)
    for value, expected in zip(values, step(x, w), strict=True):
        np.testing.assert_array_equal(value.numpy(), expected.numpy())
    names = {line.op.name for line in record.lines}
    assert {"mul", "tanh"} <= names
    other = leaf(3, 3)
    again = record.run(other.detach().numpy(), w.detach().numpy())
    for value, expected in zip(again, step(other, w), strict=True):
        np.testing.assert_allclose(value, expected.numpy(), rtol=1e-12)
    assert "v1" in str(record)


def test_traced_second_order() -> None:
    x, w = leaf(2, 2), leaf(2, 2)

    def step(x: Any, w: Any) -> Any:
        (g,) = grad(network(x, w).sum(), x, create_graph=True)
        return grad((g * g).sum(), [x, w])

    values, _ = trace(step, x, w)
    for value, expected in zip(values, step(x, w), strict=True):
        np.testing.assert_allclose(value.numpy(), expected.numpy(), rtol=1e-12)


@pytest.mark.parametrize("create_graph", [False, True])
def test_batched_backward_equals_a_loop(create_graph: bool) -> None:
    x, w = leaf(3, 3), leaf(3, 3)
    z = network(x, w)
    gs = adjoint.tensor(rng.normal(size=(4, 3, 3)))
    together = grad(z, [x, w], gs, is_grads_batched=True, retain_graph=True, create_graph=create_graph)
    for i in range(4):
        alone = grad(z, [x, w], gs[i], retain_graph=True)
        for a, b in zip(together, alone, strict=True):
            np.testing.assert_allclose(a[i].detach().numpy(), b.numpy(), rtol=1e-12)
    assert together[0].requires_grad is create_graph
    if create_graph:
        (second,) = grad((together[0] ** 2).sum(), w)
        assert np.isfinite(second.numpy()).all()


def test_batched_forward_and_backward_inside() -> None:
    # vmap(grad(f)): every tensor inside holds a batch, and reverse mode runs on top of it.
    xs, w = rng.normal(size=(5, 3, 3)), leaf(3, 3)
    with Level() as level:
        x = wrap(Batched(xs, level))
        x.requires_grad_()
        (g,) = grad(network(x, w).sum(), x)
        found = g.array.value
    found = found.detach().numpy() if hasattr(found, "detach") else found
    for i in range(5):
        u = adjoint.tensor(xs[i], requires_grad=True)
        (expected,) = grad(network(u, w).sum(), u)
        np.testing.assert_allclose(found[i], expected.numpy(), rtol=1e-12)


def test_lower_level_goes_on_recording() -> None:
    # grad(vmap(f)): the weight is not batched, and its graph sees what happens inside the level.
    xs, w = rng.normal(size=(5, 3, 3)), leaf(3, 3)
    with Level() as level:
        x = wrap(Batched(xs, level))
        out = network(x, w)
        inner = out.array.value
    assert inner.requires_grad
    (g,) = grad(inner.sum(), w)
    total = np.zeros((3, 3))
    for i in range(5):
        (part,) = grad(network(adjoint.tensor(xs[i]), w).sum(), w)
        total += part.numpy()
    np.testing.assert_allclose(g.numpy(), total, rtol=1e-12)


def test_forward_mode_against_reverse() -> None:
    x, w = leaf(3, 3), leaf(3, 3)
    t = adjoint.tensor(rng.normal(size=(3, 3)))
    with forward_ad.dual_level():
        out = network(forward_ad.make_dual(x, t), w)
        primal, tangent = forward_ad.unpack_dual(out)
    np.testing.assert_allclose(primal.detach().numpy(), network(x, w).detach().numpy())
    v = adjoint.tensor(rng.normal(size=(3, 3)))
    (g,) = grad(network(x, w), x, v)
    np.testing.assert_allclose(float((tangent * v).sum()), float((g * t).sum()), rtol=1e-10)


def test_forward_over_reverse_and_reverse_over_forward() -> None:
    x, w = leaf(2, 2), leaf(2, 2)
    t = adjoint.tensor(rng.normal(size=(2, 2)))
    with forward_ad.dual_level():
        _, tangent = forward_ad.unpack_dual(network(forward_ad.make_dual(x, t), w).sum())
    (over,) = grad(tangent, x)  # d/dx of (df/dx . t): a Hessian-vector product
    (g,) = grad(network(x, w).sum(), x, create_graph=True)
    (expected,) = grad((g * t).sum(), x)
    np.testing.assert_allclose(over.numpy(), expected.numpy(), rtol=1e-10)


def test_level_is_over_when_the_context_is() -> None:
    from adjoint.core import modes

    before = modes.unusual
    with pytest.raises(ZeroDivisionError), Level():
        raise ZeroDivisionError
    assert modes.unusual == before
