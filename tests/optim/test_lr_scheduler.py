"""Schedules give torch's learning rates, step by step, and load each other's state."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint
from tests.oracle import needs_torch, torch

STEPS = 23

# Each takes the module and an optimizer of two groups (lr 0.1 and 0.02, momentum 0.9).
SCHEDULES: dict[str, Callable[[Any, Any], Any]] = {
    "LambdaLR": lambda m, o: m.LambdaLR(o, lambda e: 0.95**e),
    "LambdaLR list": lambda m, o: m.LambdaLR(o, [lambda e: 0.95**e, lambda e: 1 / (1 + e)]),
    "MultiplicativeLR": lambda m, o: m.MultiplicativeLR(o, lambda e: 0.95),
    "StepLR": lambda m, o: m.StepLR(o, 3, gamma=0.5),
    "MultiStepLR": lambda m, o: m.MultiStepLR(o, [2, 5, 5, 9], gamma=0.5),
    "ConstantLR": lambda m, o: m.ConstantLR(o, factor=0.5, total_iters=4),
    "LinearLR": lambda m, o: m.LinearLR(o, 0.25, 0.75, total_iters=7),
    "ExponentialLR": lambda m, o: m.ExponentialLR(o, 0.9),
    "PolynomialLR": lambda m, o: m.PolynomialLR(o, total_iters=9, power=2.0),
    "CosineAnnealingLR": lambda m, o: m.CosineAnnealingLR(o, 5, eta_min=0.001),
    "CosineAnnealingWarmRestarts": lambda m, o: m.CosineAnnealingWarmRestarts(o, 3, T_mult=2, eta_min=0.001),
    "CosineAnnealingWarmRestarts even": lambda m, o: m.CosineAnnealingWarmRestarts(o, 4),
    "CyclicLR": lambda m, o: m.CyclicLR(o, 0.01, 0.1, step_size_up=3, step_size_down=2),
    "CyclicLR triangular2": lambda m, o: m.CyclicLR(o, [0.01, 0.02], [0.1, 0.3], step_size_up=3, mode="triangular2"),
    "CyclicLR exp_range": lambda m, o: m.CyclicLR(o, 0.01, 0.1, step_size_up=3, mode="exp_range", gamma=0.9),
    "CyclicLR function": lambda m, o: m.CyclicLR(o, 0.01, 0.1, step_size_up=3, scale_fn=lambda x: 1 / x),
    "OneCycleLR": lambda m, o: m.OneCycleLR(o, 0.3, total_steps=STEPS + 1),
    "OneCycleLR three": lambda m, o: m.OneCycleLR(
        o, [0.3, 0.1], epochs=6, steps_per_epoch=4, three_phase=True, anneal_strategy="linear", cycle_momentum=False
    ),
    "SequentialLR": lambda m, o: m.SequentialLR(
        o, [m.ConstantLR(o, 0.1, 2), m.ExponentialLR(o, 0.9), m.CosineAnnealingLR(o, 5)], [4, 11]
    ),
    "SequentialLR nested": lambda m, o: m.SequentialLR(
        o, [m.SequentialLR(o, [m.StepLR(o, 2), m.ExponentialLR(o, 0.9)], [5]), m.LinearLR(o, 0.1, total_iters=3)], [9]
    ),
    "ChainedScheduler": lambda m, o: m.ChainedScheduler([m.ConstantLR(o, 0.1, 2), m.ExponentialLR(o, 0.9)]),
}  # fmt: skip


def optimizer(module: Any, lr: Any = 0.1, kind: str = "SGD") -> Any:
    first, second = (module.nn.Parameter(module.ones(2)) for _ in range(2))
    options = {"momentum": 0.9} if kind == "SGD" else {}
    return getattr(module.optim, kind)([{"params": [first]}, {"params": [second], "lr": 0.02}], lr=lr, **options)


def rates(module: Any, make: Callable[[Any, Any], Any], kind: str = "SGD", steps: int = STEPS) -> Any:
    o = optimizer(module, kind=kind)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a schedule within a schedule is stepped too early, in torch as well
        scheduler = make(module.optim.lr_scheduler, o)
    path = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # As everybody does; its own deprecation is torch's business.
        warnings.filterwarnings("ignore", "The epoch parameter")
        for _ in range(steps):
            momenta = [g.get("momentum", g.get("betas", (0,))[0] if "betas" in g else 0) for g in o.param_groups]
            path.append([*(g["lr"] for g in o.param_groups), *scheduler.get_last_lr(), *momenta])
            o.step()
            scheduler.step()
    return np.array(path), scheduler


@needs_torch
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_same_rates_as_torch(name: str, kind: str) -> None:
    ours, scheduler = rates(adjoint, SCHEDULES[name], kind)
    theirs, other = rates(torch, SCHEDULES[name], kind)
    np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-15)
    assert set(scheduler.state_dict()) == set(other.state_dict())


@needs_torch
@pytest.mark.parametrize("name", SCHEDULES)
def test_goes_on_where_torch_stopped(name: str) -> None:
    _, other = rates(torch, SCHEDULES[name], steps=6)
    _, scheduler = rates(adjoint, SCHEDULES[name], steps=0)
    scheduler.optimizer.load_state_dict(
        {
            "state": {},
            "param_groups": [{**g, "params": [i]} for i, g in enumerate(_plain(other.optimizer.param_groups))],
        }
    )
    scheduler.load_state_dict(other.state_dict())
    for _ in range(8):
        scheduler.optimizer.step(), other.optimizer.step()
        scheduler.step(), other.step()
        np.testing.assert_allclose(scheduler.get_last_lr(), other.get_last_lr(), rtol=1e-12)


def _plain(groups: Any) -> Any:
    return [{k: v for k, v in g.items() if k != "params"} for g in groups]


@needs_torch
@pytest.mark.parametrize("mode", ["min", "max"])
@pytest.mark.parametrize("threshold_mode", ["rel", "abs"])
def test_plateau(mode: str, threshold_mode: str) -> None:
    values = np.random.default_rng(0).normal(size=60).cumsum() / 10
    paths = []
    for module in (adjoint, torch):
        o = optimizer(module)
        s = module.optim.lr_scheduler.ReduceLROnPlateau(
            o, mode, 0.5, patience=2, threshold=1e-2, threshold_mode=threshold_mode, cooldown=2, min_lr=[1e-3, 1e-4]
        )
        path = []
        for value in values:
            s.step(module.tensor(value))
            path.append([*s.get_last_lr(), s.num_bad_epochs, s.cooldown_counter, s.best])
        paths.append((path, s.state_dict()))
    np.testing.assert_allclose(paths[0][0], paths[1][0], rtol=1e-6)
    assert set(paths[0][1]) == set(paths[1][1])


@needs_torch
@pytest.mark.parametrize("name", ["StepLR", "MultiStepLR", "ConstantLR", "LinearLR", "ExponentialLR", "PolynomialLR",
                                  "CosineAnnealingLR", "LambdaLR"])  # fmt: skip
def test_closed_forms(name: str) -> None:
    paths = []
    for module in (adjoint, torch):
        o = optimizer(module)
        s = SCHEDULES[name](module.optim.lr_scheduler, o)
        o.step()
        path = []
        for epoch in range(1, 15):
            with pytest.warns(UserWarning, match="The epoch parameter"):
                s.step(epoch)
            path.append(s.get_last_lr())
        paths.append(path)
    np.testing.assert_allclose(*paths, rtol=1e-12)


@needs_torch
def test_fractions_of_an_epoch() -> None:
    paths = []
    for module in (adjoint, torch):
        s = module.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer(module), 3, T_mult=2)
        path = []
        for i in range(60):
            s.step(i / 4)
            path.append([*s.get_last_lr(), s.T_cur, s.T_i, s.last_epoch])
        paths.append(path)
    np.testing.assert_allclose(*paths, rtol=1e-12)


def test_a_tensor_stays_the_same_tensor() -> None:
    lr = adjoint.tensor(0.1)
    o = optimizer(adjoint, lr=lr)
    s = adjoint.optim.lr_scheduler.ExponentialLR(o, 0.5)
    o.step()
    s.step()
    assert o.param_groups[0]["lr"] is lr
    assert math.isclose(float(lr), 0.05, rel_tol=1e-6)
    assert float(s.base_lrs[0]) == pytest.approx(0.1)


def test_warnings() -> None:
    scheduler = adjoint.optim.lr_scheduler
    s = scheduler.StepLR(optimizer(adjoint), 2)
    with pytest.warns(UserWarning, match="Detected call of `lr_scheduler.step\\(\\)` before `optimizer.step\\(\\)`"):
        s.step()
    with pytest.warns(UserWarning, match="get_last_lr"):
        s.get_lr()
    o = optimizer(adjoint)
    s = scheduler.StepLR(o, 2)
    o.step = lambda: None
    with pytest.warns(UserWarning, match="overridden after learning rate scheduler initialization"):
        s.step()


WRONG: dict[str, Callable[[Any, Any], Any]] = {
    "no optimizer": lambda m, o: m.StepLR(3, 1),
    "resumed": lambda m, o: m.StepLR(o, 2, last_epoch=3),
    "lambdas": lambda m, o: m.LambdaLR(o, [lambda e: 1.0]),
    "constant": lambda m, o: m.ConstantLR(o, factor=2),
    "start": lambda m, o: m.LinearLR(o, start_factor=0),
    "end": lambda m, o: m.LinearLR(o, end_factor=2),
    "no schedulers": lambda m, o: m.SequentialLR(o, [], []),
    "milestones": lambda m, o: m.SequentialLR(o, [m.StepLR(o, 2), m.StepLR(o, 2)], []),
    "plateau in sequence": lambda m, o: m.SequentialLR(o, [m.StepLR(o, 2), m.ReduceLROnPlateau(o)], [2]),
    "no scheduler": lambda m, o: m.ChainedScheduler([m.StepLR(o, 2), 3]),
    "none chained": lambda m, o: m.ChainedScheduler([]),
    "factor": lambda m, o: m.ReduceLROnPlateau(o, factor=1.0),
    "mode": lambda m, o: m.ReduceLROnPlateau(o, mode="x"),
    "threshold": lambda m, o: m.ReduceLROnPlateau(o, threshold_mode="x"),
    "min_lr": lambda m, o: m.ReduceLROnPlateau(o, min_lr=[1]),
    "cyclic mode": lambda m, o: m.CyclicLR(o, 0.1, 0.2, mode="x"),
    "cyclic length": lambda m, o: m.CyclicLR(o, [0.1], 0.2),
    "T_0": lambda m, o: m.CosineAnnealingWarmRestarts(o, 0),
    "T_mult": lambda m, o: m.CosineAnnealingWarmRestarts(o, 2, T_mult=0),
    "eta_min": lambda m, o: m.CosineAnnealingWarmRestarts(o, 2, eta_min="a"),
    "no steps": lambda m, o: m.OneCycleLR(o, 0.1),
    "total": lambda m, o: m.OneCycleLR(o, 0.1, total_steps=-1),
    "epochs": lambda m, o: m.OneCycleLR(o, 0.1, epochs=-1, steps_per_epoch=2),
    "share": lambda m, o: m.OneCycleLR(o, 0.1, total_steps=5, pct_start=2),
    "strategy": lambda m, o: m.OneCycleLR(o, 0.1, total_steps=5, anneal_strategy="x"),
}


@needs_torch
@pytest.mark.parametrize("name", WRONG)
def test_refuses_what_torch_refuses(name: str) -> None:
    with pytest.raises(Exception) as ours:
        WRONG[name](adjoint.optim.lr_scheduler, optimizer(adjoint))
    with pytest.raises(Exception) as theirs:
        WRONG[name](torch.optim.lr_scheduler, optimizer(torch))
    assert type(ours.value) is type(theirs.value)
    assert str(ours.value).strip("'\"")[:60] == str(theirs.value).strip("'\"")[:60]
