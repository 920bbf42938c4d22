"""Losses against torch.nn.functional: values, two orders of gradients, reductions, labels, refusals."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.nn import functional
from tests.oracle import needs_torch, same, torch

from .test_elementwise import gradients

REDUCTIONS = ["none", "mean", "sum"]
X = [[0.3, -1.2, 2.0, 0.1], [1.5, 0.2, -0.7, -2.2], [0.9, -0.1, 0.4, 1.1]]
Y = [[0.1, 0.9, 0.5, 1.3], [-0.5, 0.2, 0.8, -2.0], [2.1, 0.3, -0.4, 0.6]]
P = [[0.3, 0.8, 0.5, 0.1], [0.05, 0.2, 0.7, 0.99], [0.9, 0.6, 0.4, 0.25]]
SIGNS = [[1.0, -1.0, 1.0, 1.0], [-1.0, -1.0, 1.0, -1.0], [1.0, 1.0, -1.0, -1.0]]
ROWS = [[0.5, -1.0, 0.2, 0.9], [1.1, 0.4, -0.3, 0.6], [0.2, 0.7, 0.1, -0.8]]

PAIRS: dict[str, list[dict[str, Any]]] = {
    "mse_loss": [{}],
    "l1_loss": [{}],
    "smooth_l1_loss": [{}, {"beta": 0.3}, {"beta": 0.0}],
    "huber_loss": [{}, {"delta": 0.4}],
    "soft_margin_loss": [{}],
    "binary_cross_entropy_with_logits": [{}],
    "multilabel_soft_margin_loss": [{}],
    "poisson_nll_loss": [{}, {"full": True}],
    "hinge_embedding_loss": [{"margin": 0.5}],
}


def room(m: Any) -> Any:
    return functional if m is adjoint else torch.nn.functional


def call(name: str, **options: Any) -> Callable[..., Any]:
    return lambda m, *xs: getattr(room(m), name)(*xs, **options)


@needs_torch
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("name", "options"), [(n, o) for n, calls in PAIRS.items() for o in calls])
def test_pairs(name: str, options: dict[str, Any], reduction: str) -> None:
    function = call(name, reduction=reduction, **options)
    if name in ("hinge_embedding_loss", "soft_margin_loss"):  # torch's are not differentiable by signs
        same(lambda m: gradients(m, lambda m, x: function(m, x, m.tensor(SIGNS, dtype=m.float64)), X), 1e-9)
    else:
        same(lambda m: gradients(m, function, X, P), 1e-9)


@needs_torch
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_binary_cross_entropy(reduction: str) -> None:
    same(lambda m: gradients(m, call("binary_cross_entropy", reduction=reduction), P, P[::-1]), 1e-9)
    same(
        lambda m: room(m).binary_cross_entropy(
            m.tensor([0.0, 1.0, 0.5]), m.tensor([1.0, 0.0, 1.0]), reduction=reduction
        )
    )

    def weighted(m: Any, x: Any, y: Any) -> Any:
        return room(m).binary_cross_entropy(x, y, m.tensor([0.5, 1.0, 2.0, 0.1], dtype=m.float64), reduction=reduction)

    def positive(m: Any, x: Any, y: Any) -> Any:
        weight = m.tensor([0.5, 1.0, 2.0, 0.1], dtype=m.float64)
        return room(m).binary_cross_entropy_with_logits(x, y, weight, reduction=reduction, pos_weight=weight + 1)

    same(lambda m: gradients(m, weighted, P, P[::-1]), 1e-9)
    same(lambda m: gradients(m, positive, X, P), 1e-9)


@needs_torch
@pytest.mark.parametrize("reduction", [*REDUCTIONS, "batchmean"])
@pytest.mark.parametrize("log_target", [False, True])
def test_kl_div(reduction: str, log_target: bool) -> None:
    same(lambda m: gradients(m, call("kl_div", reduction=reduction, log_target=log_target), X, P), 1e-9)


@needs_torch
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("full", [False, True])
def test_gaussian(reduction: str, full: bool) -> None:
    same(lambda m: gradients(m, call("gaussian_nll_loss", reduction=reduction, full=full), X, Y, P), 1e-9)
    same(lambda m: gradients(m, call("gaussian_nll_loss", reduction=reduction), X, Y, [0.5, 0.0, 1.0]), 1e-9)
    same(lambda m: room(m).gaussian_nll_loss(m.tensor(X), m.tensor(Y), m.tensor([-1.0])))


LABELS: list[tuple[Any, Any]] = [
    (X, [0, 3, 1]),
    (X, [0, -100, 1]),
    (X, [2, 2, 2]),
    (X[0], 2),
    (X[:1], [2]),
    (X[:1], [-100]),
    ([[1.0, -math.inf]], [0]),
    ([[1.0, math.nan]], [0]),
    ([[[0.1, 0.5], [0.2, 1.0], [-1.0, 0.3]]], [[2, 0]]),
    ([[[[0.1, 0.5]], [[0.2, 1.0]], [[-1.0, 0.3]]]], [[[2, -100]]]),
]


@needs_torch
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize(("values", "labels"), LABELS)
def test_classes(values: Any, labels: Any, smoothing: float, weighted: bool, reduction: str) -> None:
    classes = np.array(values).shape[1 if np.ndim(values) > 1 else 0]

    def options(m: Any) -> dict[str, Any]:
        weight = m.linspace(0.5, 2, classes, dtype=m.float64) if weighted else None
        return {"weight": weight, "reduction": reduction}

    def cross(m: Any, x: Any) -> Any:
        return room(m).cross_entropy(x, m.tensor(labels), label_smoothing=smoothing, **options(m))

    same(lambda m: gradients(m, cross, values), 1e-9)
    if not smoothing:
        same(lambda m: gradients(m, lambda m, x: room(m).nll_loss(x, m.tensor(labels), **options(m)), values), 1e-9)


@needs_torch
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.3])
def test_probabilities_of_classes(smoothing: float, reduction: str) -> None:
    same(lambda m: gradients(m, call("cross_entropy", label_smoothing=smoothing, reduction=reduction), X, P), 1e-9)


@needs_torch
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_embedding_losses(reduction: str) -> None:
    def cosine(m: Any, a: Any, b: Any) -> Any:
        return room(m).cosine_embedding_loss(a, b, m.tensor([1, -1, -1]), margin=0.1, reduction=reduction)

    def ranking(m: Any, a: Any, b: Any) -> Any:
        return room(m).margin_ranking_loss(a, b, m.tensor(SIGNS, dtype=m.float64), margin=0.3, reduction=reduction)

    same(lambda m: gradients(m, cosine, X, ROWS), 1e-9)
    same(lambda m: gradients(m, ranking, X, ROWS), 1e-9)
    for options in ({}, {"swap": True, "margin": 0.7}, {"p": 1}):
        same(lambda m: gradients(m, call("triplet_margin_loss", reduction=reduction, **options), X, Y, ROWS), 1e-7)
    same(
        lambda m: gradients(m, call("triplet_margin_with_distance_loss", reduction=reduction, swap=True), X, Y, ROWS),
        1e-7,
    )


def margins(module: Any, function: Any) -> list[Any]:
    x = module.tensor(X, dtype=module.float64, requires_grad=True)
    out = function(module, x)
    (g,) = module.autograd.grad((out * module.linspace(1, 2, out.numel(), dtype=x.dtype).reshape(out.shape)).sum(), x)
    return [out, g]


@needs_torch
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("p", [1, 2])
def test_margins(reduction: str, p: int) -> None:
    def plain(m: Any, x: Any) -> Any:
        return room(m).multi_margin_loss(x, m.tensor([0, 3, 1]), p=p, margin=0.8, reduction=reduction)

    def weighted(m: Any, x: Any) -> Any:
        weight = m.tensor([0.5, 1.0, 2.0, 3.0], dtype=m.float64)
        return room(m).multi_margin_loss(x, m.tensor([0, 3, 1]), p=p, weight=weight, reduction=reduction)

    def many(m: Any, x: Any) -> Any:
        labels = m.tensor([[0, 2, -1, 1], [3, -1, -1, -1], [-1, 0, 0, 0]])
        return room(m).multilabel_margin_loss(x, labels, reduction=reduction)

    for function in (plain, weighted, many):
        same(lambda m: margins(m, function), 1e-9)


def test_margins_twice() -> None:
    x = adjoint.tensor(X, dtype=adjoint.float64, requires_grad=True)
    labels = adjoint.tensor([0, 3, 1])
    assert adjoint.autograd.gradgradcheck(lambda x: functional.multi_margin_loss(x, labels, p=2), (x,))
    many = adjoint.tensor([[0, 2, -1, 1], [3, -1, -1, -1], [-1, 0, 0, 0]])
    assert adjoint.autograd.gradgradcheck(lambda x: functional.multilabel_margin_loss(x, many).exp(), (x,))


# --- CTC --------------------------------------------------------------------------------------------

FRAMES = np.log(np.random.default_rng(0).dirichlet(np.ones(5), (7, 3)))
CTC: list[tuple[Any, list[int], list[int], int]] = [
    ([[1, 2, 2], [3, 1, 4], [2, 0, 0]], [7, 5, 6], [3, 3, 1], 0),
    ([[1, 2, 2], [3, 1, 4], [2, 0, 0]], [7, 7, 7], [0, 2, 0], 0),
    ([1, 2, 2, 3, 3], [7, 4, 2], [3, 1, 1], 0),
    ([[0, 1], [1, 1], [2, 2]], [7, 2, 3], [2, 2, 2], 4),
    ([[1, 1, 1], [3, 1, 4], [2, 0, 0]], [4, 5, 1], [3, 3, 1], 0),
]


@needs_torch
@pytest.mark.parametrize("zero_infinity", [False, True])
@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("targets", "frames", "lengths", "blank"), CTC)
def test_ctc(targets: Any, frames: Any, lengths: Any, blank: int, reduction: str, zero_infinity: bool) -> None:
    def program(m: Any) -> Any:
        x = m.tensor(FRAMES.tolist(), dtype=m.float64, requires_grad=True)
        out = room(m).ctc_loss(x, m.tensor(targets), frames, lengths, blank, reduction, zero_infinity)
        (g,) = m.autograd.grad((out * m.linspace(1, 2, out.numel(), dtype=x.dtype).reshape(out.shape)).sum(), x)
        return [out, g]

    same(program, 1e-9)


def test_ctc_twice() -> None:
    x = adjoint.tensor(FRAMES[:4, :2].tolist(), dtype=adjoint.float64, requires_grad=True)
    targets = adjoint.tensor([[1, 1], [3, 4]])

    def loss(x: Any) -> Any:
        return functional.ctc_loss(functional.log_softmax(x, 2), targets, [4, 3], [2, 2])

    assert adjoint.autograd.gradcheck(loss, (x,))
    assert adjoint.autograd.gradgradcheck(loss, (x,))


def test_ctc_stays_exact_where_probabilities_underflow() -> None:
    x = adjoint.full((20, 1, 3), -2000.0)
    x[:, :, 0] = 0.0
    assert functional.ctc_loss(x, adjoint.tensor([[1, 2]]), [20], [2], reduction="sum").item() == pytest.approx(
        4000, abs=10
    )


# --- Refusals and frozen values ---------------------------------------------------------------------

REFUSED: list[Callable[[Any], Any]] = [
    lambda m: room(m).mse_loss(m.ones(2), m.ones(2), reduction="medium"),
    lambda m: room(m).smooth_l1_loss(m.ones(2), m.ones(2), beta=-1),
    lambda m: room(m).huber_loss(m.ones(2), m.ones(2), delta=0.0),
    lambda m: room(m).binary_cross_entropy(m.ones(2) * 2, m.ones(2)),
    lambda m: room(m).binary_cross_entropy(m.ones(2), m.ones(3)),
    lambda m: room(m).binary_cross_entropy_with_logits(m.ones(2), m.ones(3)),
    lambda m: room(m).cross_entropy(m.ones(2, 3), m.tensor([0, 3])),
    lambda m: room(m).cross_entropy(m.ones(2, 3), m.tensor([0, 1, 2])),
    lambda m: room(m).cross_entropy(m.ones(2, 3), m.tensor([[0], [1]])),
    lambda m: room(m).cross_entropy(m.ones(2, 3), m.tensor([0, 1]), m.ones(2)),
    lambda m: room(m).cross_entropy(m.ones(2, 3), m.tensor([0.0, 1.0])),
    lambda m: room(m).cross_entropy(m.ones(2, 3), m.tensor([0, 1]), label_smoothing=2.0),
    lambda m: room(m).nll_loss(m.ones(2, 3, 4), m.zeros(2, 3, dtype=m.int64)),
    lambda m: room(m).multi_margin_loss(m.ones(2, 3), m.tensor([0, 3])),
    lambda m: room(m).multi_margin_loss(m.ones(2, 3), m.tensor([0, 1]), p=3),
    lambda m: room(m).margin_ranking_loss(m.ones(2), m.ones(2, 1), m.ones(2)),
    lambda m: room(m).cosine_embedding_loss(m.ones(2), m.ones(2), m.ones(2)),
    lambda m: room(m).triplet_margin_loss(m.ones(2, 2), m.ones(2, 2), m.ones(2)),
    lambda m: room(m).ctc_loss(m.ones(2, 1, 3), m.tensor([[1]]), [3], [1]),
    lambda m: room(m).ctc_loss(m.ones(2, 1, 3), m.tensor([[1]]), [2], [1], blank=3),
]


@needs_torch
@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_refusals(number: int) -> None:
    same(REFUSED[number])


@needs_torch
def test_older_arguments_and_mixed_dtypes() -> None:
    same(lambda m: room(m).mse_loss(m.tensor(X), m.tensor(Y), size_average=False))
    same(lambda m: room(m).l1_loss(m.tensor(X), m.tensor(Y), reduce=False))
    same(lambda m: room(m).mse_loss(m.tensor(X), m.tensor(Y, dtype=m.float64)))
    same(lambda m: room(m).mse_loss(m.tensor(X), m.tensor(Y[0])))
    same(lambda m: room(m).nll_loss(m.zeros(0, 3), m.zeros(0, dtype=m.int64), reduction="sum"))
    same(lambda m: m.kl_div(m.tensor(X), m.tensor(P), 2))
    same(lambda m: m.poisson_nll_loss(m.tensor(X), m.tensor(P), True, False, 1e-8, 1))


def test_frozen() -> None:
    x = adjoint.tensor([[1.0, 2.0, 3.0]], requires_grad=True)
    loss = functional.cross_entropy(x, adjoint.tensor([2]))
    loss.backward()
    np.testing.assert_allclose(loss.item(), 0.40760597, rtol=1e-6)
    np.testing.assert_allclose(x.grad.numpy(), [[0.09003057, 0.24472848, -0.33475900]], rtol=1e-5)
    assert loss.grad_fn.name() == "NllLossBackward0"


@pytest.mark.parametrize("ignored", [-100, -1, 1, 4, 9, 37])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("form", ["eager", "differentiable", "compiled"])
def test_ignored_labels_touch_no_other_row(ignored: int, reduction: str, form: str) -> None:
    """Labels to be ignored may be any number; one beyond the classes names an element of a later row, flattened."""
    labels = adjoint.tensor([0, ignored, 3, ignored, 2, 0, 3, 2])
    kept = labels != ignored

    def gradient(x: adjoint.Tensor, y: adjoint.Tensor) -> adjoint.Tensor:
        loss = adjoint.nn.functional.cross_entropy(x, y, ignore_index=ignored, reduction=reduction)
        weights = adjoint.arange(1.0, loss.numel() + 1).reshape(loss.shape)
        found = adjoint.autograd.grad((loss * weights).sum(), x, create_graph=form == "differentiable")[0]
        return found.detach()

    x = adjoint.randn(8, 4)
    whole = adjoint.compile(gradient) if form == "compiled" else gradient
    found = whole(x.clone().requires_grad_(), labels)
    assert not found[~kept].any()
    alone = x[kept].requires_grad_()
    losses = adjoint.nn.functional.cross_entropy(alone, labels[kept], reduction=reduction)
    weights = adjoint.arange(1.0, 9.0)[kept] if reduction == "none" else adjoint.ones(())
    adjoint.testing.assert_close(found[kept], adjoint.autograd.grad((losses * weights).sum(), alone)[0])
