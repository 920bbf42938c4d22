"""The CTC loss on a GPU gives what the CPU's scans give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint as T
from adjoint.nn import functional as F

pytestmark = pytest.mark.gpu

CASES: dict[str, dict[str, Any]] = {
    "plain": {}, "uneven": {"inputs": (12, 9, 5, 12), "targets": (4, 3, 0, 2)}, "none": {"reduction": "none"},
    "cannot fit": {"inputs": (12, 3, 12, 0), "zero_infinity": True}, "another blank": {"blank": 2},
}  # fmt: skip


def run(place: str, dtype: Any, inputs: Any = (12,) * 4, targets: Any = (4,) * 4, **options: Any) -> list[Any]:
    rng = np.random.default_rng(0)
    x = T.tensor(rng.normal(size=(12, 4, 6)), dtype=dtype).to(place).requires_grad_()
    labels = rng.integers(3, 6, (4, 4))
    labels[0] = 3  # repeated: blanks are needed in between
    losses = F.ctc_loss(x.log_softmax(2), T.tensor(labels), inputs, targets, **options)
    (losses * T.arange(1, losses.numel() + 1, device=place).reshape(losses.shape)).sum().backward()
    assert losses.device.type == place
    return [losses.detach().cpu().numpy(), x.grad.cpu().numpy()]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("case", CASES)
def test_the_loss_and_its_gradient_are_the_cpus(case: str, dtype: str) -> None:
    """Losses and gradients, for sequences of uneven lengths and some that cannot fit."""
    bound = 2e-5 if dtype == "float32" else 1e-10
    here, there = (run(place, getattr(T, dtype), **CASES[case]) for place in ("cpu", "cuda"))
    for a, b in zip(here, there, strict=True):
        np.testing.assert_allclose(b, a, rtol=bound, atol=bound)


def test_the_gradient_can_be_differentiated_again() -> None:
    """Second derivatives run on the CPU and come back."""
    found = []
    for place in ("cpu", "cuda"):
        x = T.tensor(np.random.default_rng(0).normal(size=(5, 2, 4)), device=place).requires_grad_()
        loss = F.ctc_loss(x.log_softmax(2), T.tensor([[1, 2], [3, 1]]), (5, 5), (2, 2))
        (g,) = T.autograd.grad(loss, x, create_graph=True)
        found.append(T.autograd.grad(g.pow(2).sum(), x)[0].cpu().numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-8, atol=1e-10)
