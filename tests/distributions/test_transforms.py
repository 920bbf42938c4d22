"""Transforms and constraints against torch: values, inverses, Jacobians, shapes, registries."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint
from tests.oracle import needs_torch, same

X = [0.3, -1.2, 0.7]
POSITIVE = [0.3, 1.2, 2.7]

TRANSFORMS: list[tuple[str, Any, Any]] = [
    ("abs", lambda D, t: D.AbsTransform(), X),
    ("affine", lambda D, t: D.AffineTransform(1.0, -2.0), X),
    ("affine event", lambda D, t: D.AffineTransform(t.tensor([1.0, 2.0, 3.0]), t.tensor([1.0, -2.0, 3.0]), 1), [X, X]),
    ("cat", lambda D, t: D.CatTransform([D.ExpTransform(), D.identity_transform], 0, [1, 2]), X),
    ("compose", lambda D, t: D.ComposeTransform([D.ExpTransform(), D.AffineTransform(1.0, 2.0)]), X),
    ("compose events", lambda D, t: D.ComposeTransform([D.TanhTransform(), D.StickBreakingTransform()]), X),
    ("corr cholesky", lambda D, t: D.CorrCholeskyTransform(), X),
    ("cdf", lambda D, t: D.CumulativeDistributionTransform(D.Normal(0.0, 1.0)), X),
    ("exp", lambda D, t: D.ExpTransform(), X),
    ("independent", lambda D, t: D.IndependentTransform(D.ExpTransform(), 1), [X, X]),
    ("inverse", lambda D, t: D.ExpTransform().inv, POSITIVE),
    ("lower cholesky", lambda D, t: D.LowerCholeskyTransform(), [[0.3, 1.0], [0.5, -0.2]]),
    ("positive definite", lambda D, t: D.PositiveDefiniteTransform(), [[0.3, 1.0], [0.5, -0.2]]),
    ("power", lambda D, t: D.PowerTransform(t.tensor(2.5)), POSITIVE),
    ("reshape", lambda D, t: D.ReshapeTransform((3,), (3, 1)), [X, X]),
    ("sigmoid", lambda D, t: D.SigmoidTransform(), X),
    ("softplus", lambda D, t: D.SoftplusTransform(), X),
    ("tanh", lambda D, t: D.TanhTransform(), X),
    ("softmax", lambda D, t: D.SoftmaxTransform(), X),
    ("stack", lambda D, t: D.StackTransform([D.ExpTransform(), D.TanhTransform(), D.identity_transform], -1), [X, X]),
    ("stick breaking", lambda D, t: D.StickBreakingTransform(), X),
]


def answer(function: Any) -> Any:
    try:
        return function()
    except (NotImplementedError, ValueError) as error:
        return type(error).__name__


@needs_torch
@pytest.mark.parametrize("name,build,value", TRANSFORMS, ids=[row[0] for row in TRANSFORMS])
def test_transforms(name: str, build: Any, value: Any) -> None:
    def program(m: Any) -> Any:
        transform = build(m.distributions, m)
        x = m.tensor(value, requires_grad=True)
        y = transform(x)
        jacobian = answer(lambda: transform.log_abs_det_jacobian(x, y))
        out = y.sum() if isinstance(jacobian, str) else (y * y).sum() + jacobian.sum()
        again = answer(lambda: transform.with_cache())
        kept = answer(lambda: again.inv(again(x)) is x)
        return [
            y, jacobian, m.autograd.grad(out, x), answer(lambda: transform.inv(y)), repr(transform),
            answer(lambda: transform.sign), transform.bijective, answer(lambda: repr(transform.domain)),
            answer(lambda: repr(transform.codomain)), answer(lambda: list(transform.forward_shape(x.shape))),
            answer(lambda: list(transform.inverse_shape(y.shape))), kept, repr(transform.inv),
            transform.inv.inv == transform,
            answer(lambda: transform.event_dim), repr(transform == build(m.distributions, m)),
        ]  # fmt: skip

    same(program, 2e-5)


CONSTRAINTS: list[tuple[str, Any, Any]] = [
    ("boolean", lambda c: c.boolean, [0.0, 1.0, 2.0]),
    ("one_hot", lambda c: c.one_hot, [[0.0, 1.0], [1.0, 1.0]]),
    ("integer_interval", lambda c: c.integer_interval(0, 3), [0.0, 1.5, 4.0]),
    ("nonnegative_integer", lambda c: c.nonnegative_integer, [0.0, 1.5, -1.0]),
    ("real", lambda c: c.real, [0.0, float("nan")]),
    ("positive", lambda c: c.positive, [0.0, 1.0]),
    ("nonnegative", lambda c: c.nonnegative, [0.0, -1.0]),
    ("less_than", lambda c: c.less_than(1.0), [0.0, 1.0]),
    ("interval", lambda c: c.interval(-1.0, 2.0), [0.0, 2.0, 3.0]),
    ("half_open_interval", lambda c: c.half_open_interval(-1.0, 2.0), [0.0, 2.0, 3.0]),
    ("simplex", lambda c: c.simplex, [[0.3, 0.7], [0.5, 0.6]]),
    ("multinomial", lambda c: c.multinomial(2), [[1.0, 1.0], [2.0, 1.0]]),
    ("lower_triangular", lambda c: c.lower_triangular, [[1.0, 0.0], [2.0, 1.0]]),
    ("lower_cholesky", lambda c: c.lower_cholesky, [[[1.0, 0.0], [2.0, 1.0]], [[1.0, 0.0], [2.0, -1.0]]]),
    ("corr_cholesky", lambda c: c.corr_cholesky, [[[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.0], [2.0, 1.0]]]),
    ("square", lambda c: c.square, [[1.0, 0.0, 0.0], [2.0, 1.0, 0.0]]),
    ("symmetric", lambda c: c.symmetric, [[1.0, 0.5], [0.5, 1.0]]),
    ("positive_definite", lambda c: c.positive_definite, [[[1.0, 0.5], [0.5, 1.0]], [[1.0, 2.0], [2.0, 1.0]]]),
    ("positive_semidefinite", lambda c: c.positive_semidefinite, [[1.0, 0.5], [0.5, 1.0]]),
    ("real_vector", lambda c: c.real_vector, [[0.0, float("nan")], [1.0, 2.0]]),
    ("cat", lambda c: c.cat([c.positive, c.real], 0, [1, 2]), [0.0, 1.0, 2.0]),
    ("stack", lambda c: c.stack([c.positive, c.real], -1), [[0.0, 1.0], [1.0, 2.0]]),
]


@needs_torch
@pytest.mark.parametrize("name,build,value", CONSTRAINTS, ids=[row[0] for row in CONSTRAINTS])
def test_constraints_and_registries(name: str, build: Any, value: Any) -> None:
    def program(m: Any) -> Any:
        D = m.distributions
        constraint = build(D.constraints)
        found = [constraint.check(m.tensor(value)), repr(constraint), constraint.is_discrete, constraint.event_dim]
        for registry in (D.biject_to, D.transform_to):
            found.append(answer(lambda r=registry: repr(r(constraint))))
        return found

    same(program)


def test_unconstrained_values_land_in_the_set() -> None:
    D, c = adjoint.distributions, adjoint.distributions.constraints
    x = adjoint.tensor([[0.3, -1.2], [0.7, 2.0]])
    for constraint in (
        c.positive,
        c.unit_interval,
        c.less_than(-1.0),
        c.simplex,
        c.positive_definite,
        c.lower_cholesky,
    ):
        assert constraint.check(D.transform_to(constraint)(x)).all()


def test_matrices_and_vectors() -> None:
    utils = adjoint.distributions.utils
    m = adjoint.tensor([[1.0, 0.0, 0.0], [2.0, 3.0, 0.0], [4.0, 5.0, 6.0]])
    assert utils.vec_to_tril_matrix(utils.tril_matrix_to_vec(m)).equal(m)
    below = m.tril(-1)
    assert utils.vec_to_tril_matrix(utils.tril_matrix_to_vec(m, -1), -1).equal(below)
    with pytest.raises(ValueError, match="lower triangular part"):
        utils.vec_to_tril_matrix(adjoint.ones(5))
