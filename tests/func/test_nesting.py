"""Transforms inside one another, to depth three in every combination: the same numbers as torch.func."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import adjoint

torch = pytest.importorskip("torch", reason="torch is the oracle")
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")  # of torch itself

rng = np.random.default_rng(0)
X, W = 0.3 * rng.normal(size=(3, 3)), 0.3 * rng.normal(size=(3, 3))


def scalar(T: Any, x: Any, w: Any) -> Any:
    """A function of rules of every kind: elementwise, contraction, reduction, index, softmax."""
    h = (x @ w).tanh() * w.sin()
    h = T.softmax(h, -1) + h[..., :1] * x.cumsum(-1)
    return (h * h).sum() + T.nn.functional.linear(x, w).exp().mean()


def in_place(T: Any, x: Any, w: Any) -> Any:
    """In-place ops, also into views, on a copy."""
    h = x.clone()
    h[0] = x[1] * 2
    h.mul_(w).add_(1)
    row = h[2]
    row.sin_()
    h[:, 1] += x[:, 0] * w[0]
    return (h * h).sum() + row.prod()


# Each makes of a function of (x, w) to a scalar another one, in torch's words.
TRANSFORMS: dict[str, Any] = {
    "grad": lambda T, f: lambda x, w: (T.func.grad(f)(x, w) ** 2).sum(),
    "grad_w": lambda T, f: lambda x, w: (T.func.grad(f, argnums=1)(x, w) * x).sum(),
    "vjp": lambda T, f: lambda x, w: T.func.vjp(f, x, w)[1](T.func.vjp(f, x, w)[0] * 2)[0].cos().sum(),
    "jvp": lambda T, f: lambda x, w: T.func.jvp(f, (x, w), (w, x))[1],
    "vmap": lambda T, f: lambda x, w: T.func.vmap(f, in_dims=(0, None))(T.stack([x, x.cos(), x * 2]), w).sum(),
    "vmap_w": lambda T, f: lambda x, w: T.func.vmap(f, in_dims=(None, 1))(x, T.stack([w, w.sin()], 1)).prod(),
    "jacrev": lambda T, f: lambda x, w: T.func.jacrev(lambda x: f(x, w) * x.sum(0))(x).pow(2).sum(),
    "jacfwd": lambda T, f: lambda x, w: T.func.jacfwd(lambda w: f(x, w) * w[0])(w).cos().sum(),
}
NESTS = [n for depth in (1, 2, 3) for n in itertools.product(TRANSFORMS, repeat=depth)]
# Depth three is 512 programs: a third of them, every transform in every place.
NESTS = [n for i, n in enumerate(NESTS) if len(n) < 3 or i % 3 == 0]


def nested(T: Any, names: tuple[str, ...], f: Any) -> Any:
    inner = lambda x, w: f(T, x, w)
    for name in reversed(names):
        inner = TRANSFORMS[name](T, inner)
    return inner


@pytest.mark.parametrize("names", NESTS, ids="-".join)
def test_nested_transforms_equal_torch(names: tuple[str, ...]) -> None:
    ours = nested(adjoint, names, scalar)(adjoint.tensor(X), adjoint.tensor(W))
    theirs = nested(torch, names, scalar)(torch.tensor(X), torch.tensor(W))
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-8)


@pytest.mark.parametrize("names", [n for n in NESTS if len(n) < 3], ids="-".join)
def test_in_place_inside_equals_torch(names: tuple[str, ...]) -> None:
    try:
        theirs = nested(torch, names, in_place)(torch.tensor(X), torch.tensor(W))
    except RuntimeError as error:  # a batched value written into an unbatched one
        pytest.skip(str(error)[:80])
    ours = nested(adjoint, names, in_place)(adjoint.tensor(X), adjoint.tensor(W))
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-8)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_results_go_on_in_an_ordinary_graph(name: str) -> None:
    results = []
    for T in (adjoint, torch):
        x, w = T.tensor(X, requires_grad=True), T.tensor(W, requires_grad=True)
        out = TRANSFORMS[name](T, lambda x, w: scalar(T, x, w))(x, w)
        out.backward()
        results.append([x.grad.numpy(), w.grad.numpy()])
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8)
