"""Divergences: every pair that torch has, equal values and gradients; those of our own registration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint
from tests.oracle import needs_torch, outcome, torch

from .families import TABLE, make, parameters

_FIRST: dict[str, str] = {}
for _name, _kind, *_ in TABLE:
    _FIRST.setdefault(_kind, _name)

# Pairs whose parameters of the table do not fit one another get q's of their own here.
_FITTING = {
    "Uniform": [("low", [0.1, 0.2, 0.3]), ("high", [0.5, 0.7, 0.9])],
}


def pairs() -> list[tuple[str, str]]:
    if torch is None:
        return []
    known = [(p.__name__, q.__name__) for p, q in torch.distributions.kl._KL_REGISTRY]
    return sorted((p, q) for p, q in known if p in _FIRST and q in _FIRST)


def made(m: Any, kind: str, shift: float) -> tuple[Any, list[Any]]:
    name = _FIRST[kind]
    given = parameters(m, name)
    for key, value in _FITTING.get(kind, []):
        given[key] = m.tensor(value, dtype=m.float64)
    moved = dict(given)
    for key in ("rate", "concentration", "concentration1", "alpha", "df"):
        if key in moved:
            moved[key] = moved[key] + shift
    if "loc" in moved and kind != "Uniform":
        moved["loc"] = moved["loc"] + shift
    leaves = [v.requires_grad_() for v in moved.values()]
    return make(m, name, moved), leaves


@needs_torch
@pytest.mark.parametrize("p,q", pairs())
def test_pairs(p: str, q: str) -> None:
    def program(m: Any) -> Any:
        first, leaves = made(m, p, 0.0)
        second, more = made(m, q, 0.25)
        out = m.distributions.kl_divergence(first, second)
        found = [out]
        if out.requires_grad and bool(m.isfinite(out).all()):
            found += m.autograd.grad(out.sum(), leaves + more, allow_unused=True)
        return found

    kind, mine = outcome(program, adjoint)
    expected, theirs = outcome(program, torch)
    assert kind == expected, (mine, theirs)
    if kind == "error":
        assert mine[0] == theirs[0], (mine, theirs)
        return
    for a, b in zip(mine, theirs, strict=False):
        if a is None or b is None:
            assert all(v is None or not np.any(v[0]) for v in (a, b))
        else:
            np.testing.assert_allclose(a[0], b[0], rtol=1e-6, atol=1e-9)


@needs_torch
def test_every_pair_of_torch_is_here() -> None:
    names = lambda m: {(p.__name__, q.__name__) for p, q in m.distributions.kl._KL_REGISTRY}
    assert names(torch) <= names(adjoint)


@needs_torch
def test_transformed_independent_and_families() -> None:
    def program(m: Any) -> Any:
        D = m.distributions
        a, b = m.tensor([0.5, 1.5], dtype=m.float64), m.tensor([1.0, 0.7], dtype=m.float64)
        kl = D.kl_divergence
        return [
            kl(D.LogNormal(a, b), D.LogNormal(b, a)),
            kl(D.Independent(D.Normal(a, b), 1), D.Independent(D.Normal(b, a), 1)),
            kl(D.Wishart(m.tensor(4.0, dtype=m.float64), m.eye(2, dtype=m.float64)),
               D.Wishart(m.tensor(3.0, dtype=m.float64), 2 * m.eye(2, dtype=m.float64))),
            kl(D.Chi2(a), D.Chi2(b)),
            D.Normal(a, b)._log_normalizer(*D.Normal(a, b)._natural_params),
        ]  # fmt: skip

    kind, mine = outcome(program, adjoint)
    expected, theirs = outcome(program, torch)
    assert kind == expected == "value", (mine, theirs)
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(a[0], b[0], rtol=1e-6)


def test_registering_ones_own() -> None:
    D = adjoint.distributions

    class Mine(D.Normal):
        pass

    @D.register_kl(Mine, D.Normal)
    def mine(p: Any, q: Any) -> Any:
        return adjoint.tensor(42.0)

    assert D.kl_divergence(Mine(0.0, 1.0), D.Normal(0.0, 1.0)).item() == 42
    assert D.kl_divergence(D.Normal(0.0, 1.0), D.Normal(0.0, 1.0)).item() == 0
    with pytest.raises(TypeError, match="Distribution subclass"):
        D.register_kl(3, D.Normal)
    with pytest.raises(NotImplementedError, match="No KL"):
        D.kl_divergence(D.Cauchy(0.0, 1.0), D.Laplace(0.0, 1.0))
