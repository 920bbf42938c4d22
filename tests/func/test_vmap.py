"""`vmap` and the other transforms by their edges: arguments, refusals, randomness, aliasing, structures."""

from __future__ import annotations

import collections
import warnings
from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.func import (
    debug_unwrap,
    functionalize,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    linearize,
    vjp,
    vmap,
)  # fmt: skip

rng = np.random.default_rng(2)


def t(*shape: int) -> Any:
    return adjoint.tensor(rng.normal(size=shape))


def test_dims() -> None:
    x, y = t(3, 4), t(4, 5)
    out = vmap(lambda a, b: a * b.sum(), in_dims=(1, 0), out_dims=1)(x, y)
    np.testing.assert_allclose(out.numpy(), x.numpy() * y.numpy().sum(1))
    out = vmap(
        lambda d: {"s": d["x"] + d["y"], "n": 3.0}, in_dims=({"x": 0, "y": None},), out_dims={"s": 0, "n": None}
    )({"x": x, "y": t(4)})
    assert out["s"].shape == (3, 4) and out["n"] == 3.0
    both = vmap(lambda a: (a, adjoint.ones(2)), out_dims=(0, None))(x)
    assert both[0].shape == (3, 4) and both[1].shape == (2,)
    spread = vmap(lambda a: adjoint.ones(2), out_dims=1)(x)
    assert spread.shape == (2, 3)


REFUSALS: dict[str, tuple[Any, type, str]] = {
    "no inputs": (lambda: vmap(lambda: 1)(), ValueError, "got no inputs"),
    "number": (lambda: vmap(lambda x: x)(3), ValueError, "cannot vmap over non-Tensor"),
    "0-d": (lambda: vmap(lambda x: x)(adjoint.tensor(1.0)), ValueError, "dimensionality 0"),
    "sizes": (lambda: vmap(lambda x, y: x)(t(2), t(3)), ValueError, r"got sizes \[2, 3\]"),
    "in_dims": (lambda: vmap(lambda x, y: x, in_dims=(0,))(t(2), t(2)), ValueError, "in_dims is not compatible"),
    "in_dims type": (lambda: vmap(lambda x: x, in_dims="a")(t(2)), ValueError, "expected `in_dims` to be int"),
    "nothing": (lambda: vmap(lambda x: x, in_dims=(None,))(t(2)), ValueError, "at least one Tensor to vmap over"),
    "out": (lambda: vmap(lambda x: 3)(t(2)), ValueError, "must only return Tensors, got type <class 'int'>"),
    "out_dims": (lambda: vmap(lambda x: (x, x), out_dims=(0,))(t(2)), ValueError, "out_dims is not compatible"),
    "out None": (lambda: vmap(lambda x: x, out_dims=None)(t(2)), ValueError, "can not return a BatchedTensor"),
    "chunk": (lambda: vmap(lambda x: x, chunk_size=0), ValueError, "chunk_size should be None or greater than 0"),
    "randomness": (lambda: vmap(lambda x: x, randomness="x"), RuntimeError, "Only allowed values for randomness"),
    "item": (lambda: vmap(lambda x: x.item())(t(2)), RuntimeError, r"calling .item\(\) on a Tensor"),
    "float": (lambda: vmap(lambda x: float(x))(t(2)), RuntimeError, r"calling .item\(\) on a Tensor"),
    "branch": (lambda: vmap(lambda x: x if x > 0 else -x)(t(2)), RuntimeError, "data-dependent control flow"),
    "nonzero": (lambda: vmap(lambda x: x.nonzero())(t(2, 2)), RuntimeError, "dynamic shape"),
    "mask": (lambda: vmap(lambda x: x[x > 0])(t(2, 2)), RuntimeError, "dynamic shape"),
    "captured": (lambda: vmap(lambda x: adjoint.zeros(2).add_(x))(adjoint.ones(3, 2)), RuntimeError, "inplace"),
    "vector": (lambda: grad(lambda x: x)(t(2)), RuntimeError, "return a scalar Tensor, got tensor with 1 dims"),
    "no tensor": (lambda: grad(lambda x: 3)(t(2)), RuntimeError, "to return a Tensor, got <class 'int'>"),
    "aux": (lambda: grad(lambda x: x.sum(), has_aux=True)(t(2)), RuntimeError, "output, aux"),
    "argnum": (lambda: grad(lambda x: x.sum(), argnums=2)(t(2)), RuntimeError, "Got argnum=2, but only 1"),
    "argnums type": (lambda: grad(lambda x: x.sum(), argnums="a")(t(2)), RuntimeError, "argnums must be int"),
    "no argnums": (lambda: grad(lambda x: x.sum(), argnums=())(t(2)), RuntimeError, "argnums must be non-empty"),
    "leaf": (lambda: grad(lambda x: x.sin_().sum())(t(2)), RuntimeError, "a leaf Variable that requires grad"),
    "jvp tuple": (lambda: jvp(lambda x: x, t(2), t(2)), RuntimeError, "Expected primals to be a tuple"),
    "jvp structure": (lambda: jvp(lambda x: x, (t(2),), (t(2), t(2))), RuntimeError, "same python structure"),
    "jvp shape": (lambda: jvp(lambda x: x, (t(2),), (t(3),)), RuntimeError, "different size"),
    "jvp strict": (lambda: jvp(lambda x: t(2), (t(2),), (t(2),), strict=True), RuntimeError, "independent"),
    "vjp shape": (lambda: vjp(lambda x: x, t(2))[1](t(3)), RuntimeError, "Mismatch in shape"),
    "vjp structure": (lambda: vjp(lambda x: (x, x), t(2))[1](t(2)), RuntimeError, "Expected pytree structure"),
    "linearize": (lambda: linearize(lambda x: x, t(2))[1](t(3)), RuntimeError, "doesn't match the shape"),
    "jacrev chunk": (lambda: jacrev(lambda x: x, chunk_size=0), ValueError, "chunk_size"),
    "remove": (lambda: functionalize(lambda x: x, remove="x"), RuntimeError, "received invalid argument"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str) -> None:
    call, kind, words = REFUSALS[name]
    with pytest.raises(kind, match=words):
        call()


def test_randomness() -> None:
    xs = adjoint.zeros(3, 4)
    adjoint.manual_seed(0)
    draws = [
        lambda x: x + adjoint.rand(4),
        lambda x: x + adjoint.randn_like(x),
        lambda x: adjoint.nn.functional.dropout(x + 1.0),
        lambda x: adjoint.randperm(20) * 1.0,
        lambda x: x.clone().uniform_(),
    ]
    for draw in draws:
        with pytest.raises(RuntimeError, match="randomness error mode"):
            vmap(draw)(xs)
        same = vmap(draw, randomness="same")(xs)
        assert (same == same[0]).all()
        different = vmap(draw, randomness="different")(xs)
        assert not (different == different[0]).all()
    nested = vmap(vmap(lambda x: x + adjoint.rand(()), randomness="same"), randomness="different")(xs)
    assert (nested == nested[:, :1]).all() and not (nested == nested[:1]).all()


def test_chunks_equal_the_whole() -> None:
    xs = t(7, 3)
    whole = vmap(lambda x: (x.cumsum(0), x.sum()), out_dims=(1, 0))(xs)
    parts = vmap(lambda x: (x.cumsum(0), x.sum()), out_dims=(1, 0), chunk_size=3)(xs)
    for a, b in zip(whole, parts):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    np.testing.assert_allclose(jacrev(adjoint.sin, chunk_size=2)(xs).numpy(), jacfwd(adjoint.sin)(xs).numpy())


def test_writes_reach_arguments_and_views() -> None:
    xs = adjoint.ones(2, 3)
    vmap(lambda x: x.add_(1), in_dims=1)(xs)
    assert (xs == 2).all()
    x = adjoint.ones(3)
    assert jvp(lambda x: x.mul_(2), (x,), (adjoint.ones(3),))[1].tolist() == [2, 2, 2] and (x == 2).all()

    def aliased(x: Any) -> Any:
        y = x.new_zeros(3)
        y[0] = x[1]
        first, second, _ = y.unbind()
        tail = y[1:]
        y.add_(1)
        tail.mul_(10)
        return first, second, y

    first, second, whole = vmap(aliased)(adjoint.arange(6.0).reshape(2, 3))
    assert first.tolist() == [2, 5] and second.tolist() == [10, 10]
    assert whole.tolist() == [[2, 10, 10], [5, 10, 10]]

    def stepped(x: Any) -> Any:
        y = x.clone()
        y.as_strided((2,), (2,)).fill_(9)
        return y

    assert vmap(stepped)(adjoint.zeros(2, 3)).tolist() == [[9, 0, 9]] * 2

    def spread(x: Any) -> Any:
        y = adjoint.zeros(3)
        y[0] = x[1]
        view = y[1:]
        view.copy_(x[:2])
        return y * 2

    assert jvp(spread, (adjoint.arange(3.0),), (adjoint.ones(3),))[1].tolist() == [2, 2, 2]
    assert jacrev(spread)(adjoint.arange(3.0)).tolist() == jacfwd(spread)(adjoint.arange(3.0)).tolist()


def test_a_value_kept_by_an_inner_gradient_is_watched() -> None:
    def f(x: Any) -> Any:
        scale = adjoint.zeros(3)
        y = x * scale
        scale.add_(1)
        return y.sum()

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        vmap(grad(f))(adjoint.ones(2, 3))


def test_grad_modes() -> None:
    x = adjoint.tensor(2.0)

    def partly(x: Any) -> Any:
        with adjoint.no_grad():
            c = x**2
        return x**3 - c

    assert grad(partly)(x).item() == 12.0
    with adjoint.no_grad():
        assert grad(lambda x: x**2)(x).item() == 4.0
        w = adjoint.tensor(1.0, requires_grad=True)
        assert not vmap(grad(lambda x: w * x**2))(adjoint.ones(2)).requires_grad
    assert vmap(grad(lambda x: w * x**2))(adjoint.ones(2)).requires_grad
    assert not vmap(lambda x: x.detach() * w.detach())(adjoint.ones(2)).requires_grad


def test_structures() -> None:
    Pair = collections.namedtuple("Pair", "a b")
    tree = {"p": Pair(adjoint.tensor(2.0), adjoint.tensor(3.0)), "l": [adjoint.tensor(4.0)]}
    found = grad(lambda d: d["p"].a * d["p"].b * d["l"][0])(tree)
    assert isinstance(found["p"], Pair)
    assert (found["p"].a.item(), found["p"].b.item(), found["l"][0].item()) == (12.0, 8.0, 6.0)
    g, (value, aux) = grad_and_value(lambda x, y: (x * y, {"x": x}), argnums=(0, 1), has_aux=True)(
        adjoint.tensor(2.0), adjoint.tensor(3.0)
    )
    assert [v.item() for v in g] == [3.0, 2.0] and value.item() == 6.0 and aux["x"].item() == 2.0
    assert not value.requires_grad and not aux["x"].requires_grad
    second = hessian(lambda x, y: (x * y).sum() ** 2, argnums=(0, 1))(adjoint.ones(2), adjoint.ones(2))
    assert second[0][1].tolist() == [[6, 2], [2, 6]]
    jacobian, aux = jacfwd(lambda x: (x**2, {"x": x * 3}), has_aux=True)(adjoint.ones(2))
    assert jacobian.tolist() == [[2, 0], [0, 2]] and aux["x"].tolist() == [3, 3]
    out, push = linearize(lambda x, y: {"s": x * y}, adjoint.ones(2), adjoint.arange(2.0))
    assert push(adjoint.ones(2), adjoint.ones(2))["s"].tolist() == [1, 2] and out["s"].tolist() == [0, 1]


def test_an_op_without_a_rule_runs_in_a_loop_and_says_so() -> None:
    xs = adjoint.tensor([[0, 1, 1], [2, 2, 0]])
    with pytest.warns(UserWarning, match="batching rule for bincount"):
        assert vmap(lambda x: adjoint.bincount(x, minlength=3))(xs).tolist() == [[1, 2, 0], [1, 0, 2]]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(RuntimeError, match="different shapes"):
            vmap(adjoint.bincount)(xs.clamp(max=adjoint.tensor([[1], [2]])))


def test_looking_inside() -> None:
    seen = []

    def look(x: Any) -> Any:
        seen.append((repr(x), debug_unwrap(x)))
        return x * 2

    vmap(look)(adjoint.ones(2, 3))
    assert seen[0][0].startswith("BatchedTensor(lvl=") and seen[0][1].shape == (2, 3)
