"""Losses, norms and attention inside a batch: the same as a loop over its elements, values and gradients."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.autograd import grad
from adjoint.core.nodes import wrap
from adjoint.core.payload import Level
from adjoint.nn import functional as F
from adjoint.payloads.batched import Batched

rng = np.random.default_rng(4)
LABELS = adjoint.tensor([0, 2, -100])
W = adjoint.tensor([0.5, 1.0, 2.0, -1.0], dtype=adjoint.float64)
Y = adjoint.tensor(rng.uniform(size=(3, 4)))

CASES: dict[str, Callable[[Any], Any]] = {
    "mse": lambda x: F.mse_loss(x, Y),
    "mse_none": lambda x: F.mse_loss(x, Y, reduction="none"),
    "l1": lambda x: F.l1_loss(x, Y, reduction="sum"),
    "smooth": lambda x: F.smooth_l1_loss(x, Y, beta=0.3),
    "huber": lambda x: F.huber_loss(x, Y),
    "logistic": lambda x: F.binary_cross_entropy_with_logits(x, Y),
    "binary": lambda x: F.binary_cross_entropy(x.sigmoid(), Y),
    "cross": lambda x: F.cross_entropy(x, LABELS),
    "cross_sum": lambda x: F.cross_entropy(x, LABELS, reduction="sum"),
    "cross_none": lambda x: F.cross_entropy(x, LABELS, reduction="none"),
    "cross_weighted": lambda x: F.cross_entropy(x, LABELS, W.abs(), label_smoothing=0.1),
    "cross_single": lambda x: F.cross_entropy(x[0], LABELS[1]),
    "cross_points": lambda x: F.cross_entropy(x.reshape(2, 3, 2), adjoint.tensor([[0, 2], [1, 1]])),
    "margin": lambda x: F.multi_margin_loss(x, LABELS.clamp(min=0)),
    "layer": lambda x: F.layer_norm(x, (4,), W, W),
    "layer_plain": lambda x: F.layer_norm(x, (3, 4)),
    "rms": lambda x: F.rms_norm(x, (4,), W),
    "group": lambda x: F.group_norm(x, 2, W, W),
    "batch": lambda x: F.batch_norm(x, None, None, W, W, True),
    "instance": lambda x: F.instance_norm(x.reshape(1, 3, 4)),
    "attention": lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True),
    "bilinear": lambda x: F.bilinear(x, x, W.expand(2, 4, 4)),
    "cosine": lambda x: F.cosine_similarity(x, Y),
    "normalize": lambda x: F.normalize(x),
}


@pytest.mark.parametrize("name", CASES)
def test_batched(name: str) -> None:
    function = CASES[name]
    xs = rng.normal(size=(5, 3, 4))
    with warnings.catch_warnings(), Level() as level:
        warnings.simplefilter("error")  # no rule may fall back to a loop
        x = wrap(Batched(xs, level))
        x.requires_grad_()
        out = function(x)
        (g,) = grad((out * out).sum(), x)
        values, slopes = out.array.value, g.array.value
    for i in range(5):
        u = adjoint.tensor(xs[i], requires_grad=True)
        expected = function(u)
        (slope,) = grad((expected * expected).sum(), u)
        np.testing.assert_allclose(plain(values)[i], expected.detach().numpy(), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(plain(slopes)[i], slope.numpy(), rtol=1e-9, atol=1e-12)


def plain(x: Any) -> Any:
    return x.detach().numpy() if hasattr(x, "detach") else x
