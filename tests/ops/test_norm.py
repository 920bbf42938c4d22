"""Normalization against torch.nn.functional: values, two orders of gradients, running statistics, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.nn import functional
from tests.oracle import needs_torch, same, torch

from .test_elementwise import gradients

rng = np.random.default_rng(1)
X = rng.normal(size=(3, 4, 5)).tolist()
IMAGES = rng.normal(size=(2, 4, 3, 2)).tolist()
W, B = [0.5, 1.5, -1.0, 2.0], [0.1, -0.2, 0.3, 0.0]
W5, B5 = [0.5, 1.5, -1.0, 2.0, 0.3], [0.1, -0.2, 0.3, 0.0, 1.0]


def room(m: Any) -> Any:
    return functional if m is adjoint else torch.nn.functional


CASES: list[tuple[Callable[..., Any], tuple[Any, ...]]] = [
    (lambda m, x, w, b: room(m).layer_norm(x, (5,), w, b), (X, W5, B5)),
    (lambda m, x: room(m).layer_norm(x, (4, 5), eps=0.1), (X,)),
    (lambda m, x, w: room(m).layer_norm(x.transpose(0, 2), (3,), w), (X, W[:3])),
    (lambda m, x, w: room(m).rms_norm(x, (5,), w), (X, W5)),
    (lambda m, x: room(m).rms_norm(x, (4, 5), eps=0.3), (X,)),
    (lambda m, x, w, b: room(m).group_norm(x, 2, w, b), (IMAGES, W, B)),
    (lambda m, x, w: room(m).group_norm(x, 4, w, eps=0.2), (X, W)),
    (lambda m, x: room(m).group_norm(x, 1), (X,)),
    (lambda m, x, w, b: room(m).batch_norm(x, None, None, w, b, True), (IMAGES, W, B)),
    (lambda m, x, w: room(m).batch_norm(x, None, None, w, None, True, eps=0.3), (X, W)),
    (lambda m, x: room(m).batch_norm(x[0].T, None, None, training=True), (X,)),
    (lambda m, x, w, b: room(m).batch_norm(x, m.ones(4).double(), m.ones(4).double() * 2, w, b), (IMAGES, W, B)),
    (lambda m, x: room(m).batch_norm(x, m.ones(4).double(), m.ones(4).double() * 2), (IMAGES,)),
    (lambda m, x, w, b: room(m).instance_norm(x, weight=w, bias=b), (IMAGES, W, B)),
    (lambda m, x: room(m).instance_norm(x), (X,)),
    (lambda m, x: room(m).normalize(x), (X,)),
    (lambda m, x: room(m).normalize(x, p=3, dim=-1, eps=2.5), (X,)),
    (lambda m, x, y: room(m).cosine_similarity(x, y[0], dim=-1), (X, X[::-1])),
    (lambda m, x, y: room(m).cosine_similarity(x * 1e-3, y, eps=0.5), (X, X[::-1])),
]


@needs_torch
@pytest.mark.parametrize("number", range(len(CASES)))
def test_value_and_gradients(number: int) -> None:
    function, values = CASES[number]
    same(lambda m: gradients(m, function, *values), 1e-8)


@needs_torch
@pytest.mark.parametrize("shape", [(300, 700), (40, 65, 130)])
def test_blocks(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(2).normal(3, 2, shape).tolist()

    def program(m: Any) -> Any:
        x = m.tensor(values, dtype=m.float32, requires_grad=True)
        w = m.linspace(1, 2, shape[-1]).requires_grad_()
        out = room(m).layer_norm(x, shape[-1:], w, w) + room(m).rms_norm(x, shape[-1:], w)
        (out * out).sum().backward()
        return [out, x.grad, w.grad / w.grad.abs().max()]

    same(program, 1e-4)


@needs_torch
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int64"])
def test_other_dtypes(dtype: str) -> None:
    same(lambda m: room(m).layer_norm(m.tensor([[1, 2, 4]], dtype=getattr(m, dtype)), (3,)), 1e-2)
    same(lambda m: room(m).group_norm(m.tensor([[1, 2, 4, 0]], dtype=getattr(m, dtype)), 2), 1e-2)


@needs_torch
@pytest.mark.parametrize("name", ["batch_norm", "instance_norm"])
def test_running_statistics(name: str) -> None:
    def program(m: Any) -> Any:
        mean, var = m.zeros(4, dtype=m.float64), m.ones(4, dtype=m.float64)
        x = m.tensor(IMAGES, dtype=m.float64)
        outs = [getattr(room(m), name)(x * k, mean, var, None, None, True, momentum=0.3) for k in (1, 2)]
        return [*outs, mean, var, getattr(room(m), name)(x, mean, var, None, None, False)]

    same(program, 1e-9)


def test_bias_alone() -> None:  # of which torch has no second derivative
    x, b = (adjoint.tensor(v, dtype=adjoint.float64, requires_grad=True) for v in (X, B5))
    assert adjoint.autograd.gradgradcheck(lambda x, b: functional.layer_norm(x[0, :2], (5,), None, b), (x, b))


def test_result_may_be_written() -> None:
    # What the rule keeps is the input: a ReLU in place after a norm must stay possible.
    x = adjoint.tensor(X, requires_grad=True)
    out = functional.layer_norm(x, (5,)).relu_()
    out.sum().backward()
    assert x.grad is not None


REFUSED: list[Callable[[Any], Any]] = [
    lambda m: room(m).layer_norm(m.ones(2, 3), (2,)),
    lambda m: room(m).layer_norm(m.ones(2, 3), (3,), m.ones(2)),
    lambda m: room(m).layer_norm(m.ones(2, 3), ()),
    lambda m: room(m).group_norm(m.ones(2, 3), 2),
    lambda m: room(m).group_norm(m.ones(2, 4), 2, m.ones(3)),
    lambda m: room(m).batch_norm(m.ones(1, 3), None, None, training=True),
    lambda m: room(m).batch_norm(m.ones(2, 3), None, None),
    lambda m: room(m).batch_norm(m.ones(2, 3), m.ones(2), m.ones(3)),
    lambda m: room(m).instance_norm(m.ones(2, 3, 1)),
    lambda m: room(m).cosine_similarity(m.ones(2, 3, dtype=m.int64), m.ones(2, 3, dtype=m.int64)),
]


@needs_torch
@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_refusals(number: int) -> None:
    same(REFUSED[number])


@needs_torch
def test_native() -> None:
    def program(m: Any) -> Any:
        x, w, b = m.tensor(IMAGES), m.tensor(W), m.tensor(B)
        return [
            m.native_layer_norm(x, [2], None, None, 1e-5),
            m.native_group_norm(x, w, b, 2, 4, 6, 2, 1e-5),
            m.native_batch_norm(x, w, b, m.zeros(4), m.ones(4), True, 0.1, 1e-5),
            m.batch_norm(x, w, b, m.zeros(4), m.ones(4), False, 0.1, 1e-5, False),
            m.layer_norm(x, (2,)), m.group_norm(x, 2), m.instance_norm(x, w, b, None, None, True, 0.1, 1e-5, False),
        ]  # fmt: skip

    same(program, 1e-5)


def test_frozen() -> None:
    out = functional.layer_norm(adjoint.tensor([[1.0, 2.0, 4.0]]), (3,))
    np.testing.assert_allclose(out.numpy(), [[-1.0690418, -0.26726046, 1.3363023]], rtol=1e-5)


@pytest.mark.parametrize(("rows", "width"), [(1, 7), (4, 8), (4, 300), (600, 512)])
def test_rows_of_equal_numbers_are_normalized_to_zero(rows: int, width: int) -> None:
    x = adjoint.full((rows, width), 3.3, requires_grad=True)
    y = adjoint.nn.functional.layer_norm(x, (width,))
    y.sum().backward()
    assert y.abs().max() == 0 and x.grad.abs().max() < 1e-4


@pytest.mark.parametrize("scale", [1e-2, 1e-3])
def test_derivatives_of_the_cosine_of_short_vectors_in_half_precision(scale: float) -> None:
    """The cube of the inverse of their length does not fit where first and second derivatives do."""

    A = np.array(X, dtype=np.float16).astype(np.float64)

    def derivatives(dtype: str) -> list[np.ndarray]:
        x, y = (
            adjoint.tensor(v, dtype=getattr(adjoint, dtype), requires_grad=True) for v in (A * scale, A[::-1].copy())
        )
        first = adjoint.autograd.grad(functional.cosine_similarity(x, y).sum(), [x, y], create_graph=True)
        second = adjoint.autograd.grad((first[0] * scale).sum() + first[1].sum(), [x, y])
        return [g.detach().double().numpy() for g in (*first, *second)]

    for half, double in zip(derivatives("float16"), derivatives("float64")):
        np.testing.assert_allclose(half, double, rtol=1e-2, atol=2e-2 * np.abs(double).max())
