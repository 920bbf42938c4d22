"""Averaged models, batch norms brought up to date, and the schedule that goes with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint
from tests.oracle import needs_torch, torch


def averaged(module: Any, **options: Any) -> list[Any]:
    rng = np.random.default_rng(0)
    swa = module.optim.swa_utils
    model = module.nn.Linear(3, 2).double()
    if "decay" in options:
        decay = options.pop("decay")
        options = {"avg_fn": swa.get_ema_avg_fn(decay)} if options.pop("single") else {
            "multi_avg_fn": swa.get_ema_multi_avg_fn(decay)
        }  # fmt: skip
    average = swa.AveragedModel(model, **options)
    for _ in range(5):
        with module.no_grad():
            for p in model.parameters():
                p.copy_(module.tensor(rng.normal(size=tuple(p.shape))))
        average.update_parameters(model)
    assert int(average.n_averaged) == 5
    assert list(average.state_dict()) == ["n_averaged", "module.weight", "module.bias"]
    return [np.array(p.detach().tolist()) for p in average.parameters()]


@needs_torch
@pytest.mark.parametrize("options", [{}, {"decay": 0.9, "single": True}, {"decay": 0.9, "single": False},
                                     {"use_buffers": True}], ids=str)  # fmt: skip
def test_averages(options: dict[str, Any]) -> None:
    for a, b in zip(averaged(adjoint, **dict(options)), averaged(torch, **dict(options)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@needs_torch
@pytest.mark.parametrize("strategy", ["cos", "linear"])
@pytest.mark.parametrize("epochs", [0, 1, 5])
def test_schedule(strategy: str, epochs: int) -> None:
    paths = []
    for module in (adjoint, torch):
        o = module.optim.SGD([module.ones(2, requires_grad=True)], lr=0.5)
        s = module.optim.swa_utils.SWALR(o, 0.05, anneal_epochs=epochs, anneal_strategy=strategy)
        path = []
        for _ in range(10):
            path.append(s.get_last_lr())
            o.step()
            s.step()
        paths.append(path)
    np.testing.assert_allclose(*paths, rtol=1e-10)


def test_batch_norms_are_brought_up_to_date() -> None:
    data = [adjoint.randn(16, 3) for _ in range(4)]
    model = adjoint.nn.Sequential(adjoint.nn.BatchNorm1d(3), adjoint.nn.Linear(3, 1)).eval()
    adjoint.optim.swa_utils.update_bn([(x, None) for x in data], model)
    norm = model[0]
    means = np.stack([x.numpy().mean(0) for x in data])
    np.testing.assert_allclose(norm.running_mean.numpy(), means.mean(0), atol=1e-5)
    assert norm.momentum == 0.1 and not model.training


def test_wrong_input() -> None:
    swa = adjoint.optim.swa_utils
    with pytest.raises(ValueError, match="Invalid decay value 2"):
        swa.get_ema_avg_fn(2)
    with pytest.raises(AssertionError, match="Only one of avg_fn"):
        swa.AveragedModel(adjoint.nn.Linear(1, 1), avg_fn=max, multi_avg_fn=max)
    with pytest.raises(ValueError, match="anneal_epochs must be equal or greater than 0"):
        swa.SWALR(adjoint.optim.SGD([adjoint.ones(1, requires_grad=True)]), 0.1, anneal_epochs=-1)
