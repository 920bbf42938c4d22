"""Loss scaling: torch's schedule, and a floor under it that names what went wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint
from tests.oracle import needs_torch, torch


def schedule(module: Any, good: Any, **options: Any) -> list[Any]:
    """Return the scale, the tracker and the parameter after each step, of which some have an infinite gradient."""
    p = module.ones(2, dtype=module.float64, requires_grad=True)
    o = module.optim.SGD([p], lr=0.01)
    scaler = module.amp.GradScaler("cpu", **options)
    path = []
    for i, fine in enumerate(good):
        o.zero_grad()
        loss = (p**2).sum() if fine else (p * float("inf")).sum()
        scaler.scale(loss).backward()
        if i % 3 == 0:
            scaler.unscale_(o)
        scaler.step(o)
        scaler.update()
        path.append([scaler.get_scale(), scaler._get_growth_tracker(), *p.tolist()])
    return [path, scaler.state_dict()]


@needs_torch
@pytest.mark.parametrize("seed", range(20))
def test_same_schedule_as_torch(seed: int) -> None:
    rng = np.random.default_rng(seed)
    good = rng.random(40) < rng.uniform(0.5, 1.0)
    options = {
        "init_scale": float(2 ** rng.integers(0, 20)), "growth_factor": float(rng.choice([1.5, 2.0, 4.0])),
        "backoff_factor": float(rng.choice([0.25, 0.5, 0.9])), "growth_interval": int(rng.integers(1, 6)),
    }  # fmt: skip
    (ours, state), (theirs, other) = schedule(adjoint, good, **options), schedule(torch, good, **options)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    assert state.keys() == other.keys()
    np.testing.assert_allclose(list(state.values()), list(other.values()), rtol=1e-6)


def test_a_floor_that_names_the_parameter() -> None:
    good, bad = (adjoint.ones(2, requires_grad=True) for _ in range(2))
    o = adjoint.optim.SGD([("layer.weight", good), ("layer.bias", bad)], lr=0.1)
    scaler = adjoint.amp.GradScaler("cpu")
    with pytest.raises(FloatingPointError, match=r"not finite at the smallest loss scale .*'layer.bias', \[2\]"):
        for _ in range(500):
            o.zero_grad()
            scaler.scale((good**2).sum() + (bad * float("nan")).sum()).backward()
            scaler.step(o)
            scaler.update()
            assert scaler.get_scale() >= scaler.min_scale
    assert good.tolist() == [1, 1]


def test_no_step_with_a_gradient_that_is_not_finite() -> None:
    p = adjoint.ones(2, requires_grad=True)
    o = adjoint.optim.SGD([p], lr=0.1)
    scaler = adjoint.amp.GradScaler("cpu", init_scale=4.0)
    p.grad = adjoint.tensor([1.0, float("nan")])
    scaler.scale(adjoint.ones(1))
    assert scaler.step(o) is None
    scaler.update()
    assert p.tolist() == [1, 1] and scaler.get_scale() == 2.0


def test_losses_in_nests() -> None:
    scaler = adjoint.amp.GradScaler("cpu", init_scale=2.0)
    a, (b, c) = scaler.scale([adjoint.ones(1), (adjoint.ones(1), adjoint.ones(1))])
    assert a.item() == b.item() == c.item() == 2
    with pytest.raises(ValueError, match="outputs must be a Tensor or an iterable of Tensors"):
        scaler.scale(3)


def test_order_of_calls() -> None:
    p = adjoint.ones(2, requires_grad=True)
    o = adjoint.optim.SGD([p], lr=0.1)
    scaler = adjoint.amp.GradScaler("cpu")
    for call in (scaler.update, lambda: scaler.step(o), lambda: scaler.unscale_(o)):
        with pytest.raises(AssertionError, match="_scale is None"):
            call()
    loss = scaler.scale((p**2).sum())
    with pytest.raises(AssertionError, match="No inf checks were recorded"):
        scaler.step(o)
    scaler = adjoint.amp.GradScaler("cpu")
    loss = scaler.scale((p**2).sum())
    loss.backward()
    scaler.unscale_(o)
    assert p.grad.tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="has already been called on this optimizer"):
        scaler.unscale_(o)
    scaler.step(o)
    with pytest.raises(RuntimeError, match="step\\(\\) has already been called"):
        scaler.step(o)
    with pytest.raises(RuntimeError, match="being called after step"):
        scaler.unscale_(o)
    with pytest.raises(RuntimeError, match="Closure use"):
        scaler.step(o, closure=lambda: None)


def test_half_precision_gradients_are_refused() -> None:
    p = adjoint.ones(2, dtype=adjoint.float16, requires_grad=True)
    p.grad = adjoint.ones(2, dtype=adjoint.float16)
    scaler = adjoint.amp.GradScaler("cpu")
    scaler.scale(adjoint.ones(1))
    with pytest.raises(ValueError, match="Attempting to unscale FP16 gradients"):
        scaler.unscale_(adjoint.optim.SGD([p]))


def test_switched_off_it_does_nothing() -> None:
    scaler = adjoint.amp.GradScaler("cpu", enabled=False)
    loss = adjoint.ones(1)
    assert scaler.scale(loss) is loss and scaler.get_scale() == 1.0 and scaler.state_dict() == {}
    p = adjoint.ones(1, requires_grad=True)
    p.grad = adjoint.ones(1)
    scaler.step(adjoint.optim.SGD([p], lr=1.0))
    scaler.update()
    assert p.item() == 0


def test_state() -> None:
    scaler = adjoint.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(adjoint.ones(1))
    other = adjoint.amp.GradScaler("cpu")
    other.load_state_dict(scaler.state_dict())
    assert other.get_scale() == 8.0
    with pytest.raises(RuntimeError, match="The source state dict is empty"):
        other.load_state_dict({})
    with pytest.raises(AssertionError, match="growth factor must be"):
        adjoint.amp.GradScaler("cpu", growth_factor=1.0)
