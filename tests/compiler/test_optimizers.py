"""Every optimizer inside a compiled step: the same parameters as uncompiled, and one program for all steps."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest

import adjoint as torch
from tests.compiler.test_compile import close

nn, optim = torch.nn, torch.optim
MAKERS: dict[str, Any] = {
    "SGD": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "Adam": lambda p: optim.Adam(p, lr=0.05, amsgrad=True),
    "AdamW": lambda p: optim.AdamW(p, lr=0.05),
    "Adamax": lambda p: optim.Adamax(p, lr=0.05),
    "Adagrad": lambda p: optim.Adagrad(p, lr=0.1),
    "Adadelta": lambda p: optim.Adadelta(p),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.05, momentum=0.5, centered=True),
    "Rprop": lambda p: optim.Rprop(p),
    "ASGD": lambda p: optim.ASGD(p, lr=0.1, t0=3),
    "NAdam": lambda p: optim.NAdam(p, lr=0.05),
    "RAdam": lambda p: optim.RAdam(p, lr=0.05, weight_decay=0.1),
    "Adafactor": lambda p: optim.Adafactor(p, lr=0.05, weight_decay=0.1),
    "Muon": lambda p: optim.Muon([t for t in p if t.ndim == 2], lr=0.05),
}


def make(name: str, model: Any) -> Any:
    optimizer = MAKERS[name](list(model.parameters()))

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, optimizer


@pytest.mark.parametrize("name", MAKERS)
def test_compiled_steps(name: str) -> None:
    torch.manual_seed(0)
    # Parameters that lie alike are traced once; one of them has taken a step less.
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), *(nn.Linear(6, 6) for _ in range(3)), nn.Linear(6, 2))
    twin = copy.deepcopy(model)
    (eager, first), (step, second) = make(name, model), make(name, twin)
    x, y = torch.randn(8, 4), torch.randn(8, 2)
    for net, plain in ((model, eager), (twin, step)):
        net[3].requires_grad_(False)
        plain(x, y)
        net[3].requires_grad_()
    compiled = torch.compile(step, backend="numpy")
    for number in range(10):
        if number == 6:  # a schedule
            first.param_groups[0]["lr"] = second.param_groups[0]["lr"] = 0.02
        close(eager(x, y), compiled(x, y), 5e-3 if name == "Muon" else 1e-4)
    for a, b in zip(model.parameters(), twin.parameters()):
        close(a, b, 5e-3 if name == "Muon" else 1e-4)
    assert not compiled.refused and len(compiled.traces) <= 2  # before the first gradient, and after it


def test_lbfgs_runs_uncompiled() -> None:
    weight = torch.full((2,), 3.0, requires_grad=True)
    optimizer = optim.LBFGS([weight], lr=0.5)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = (weight**2).sum()
        loss.backward()
        return loss

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        step = torch.compile(lambda: optimizer.step(closure), backend="numpy")
        for _ in range(4):
            step()
    assert float(weight.detach().abs().max()) < 1e-2


@pytest.mark.parametrize("name", ["SGD", "AdamW", "RMSprop"])
def test_grad_scaler_in_one_program(name: str) -> None:
    """Steps with infinite gradients are skipped, and the scale grows and shrinks, without Python looking at a value."""

    def made(model: Any) -> tuple[Any, Any]:
        optimizer = MAKERS[name](list(model.parameters()))
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3)

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = (model(x) - y).square().mean()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 10.0)
            scaler.step(optimizer)
            scaler.update()
            return loss.detach()

        return step, scaler

    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 2))
    twin = copy.deepcopy(model)
    (eager, first), (step, second) = made(model), made(twin)
    compiled = torch.compile(step, backend="numpy")
    x, y = torch.randn(8, 4), torch.randn(8, 2)
    bad = torch.full((8, 4), float("inf"))
    path = []
    for number in range(16):
        given = bad if number in (5, 6, 11) else x
        eager(given, y)
        compiled(given, y)
        path.append((first.get_scale(), first._get_growth_tracker()))
        assert path[-1] == (second.get_scale(), second._get_growth_tracker()), number
        for a, b in zip(model.parameters(), twin.parameters()):
            close(a, b, 1e-4)
    assert min(scale for scale, _ in path) < 8 < max(scale for scale, _ in path)
    assert not compiled.refused and sum(t.calls for t in compiled.traces) >= 12

    second.min_scale = second.get_scale()  # another program, which looks
    with pytest.raises(FloatingPointError, match=r"parameter 0 of group 0, \[6, 4\]"):
        for _ in range(3):
            compiled(bad, y)
