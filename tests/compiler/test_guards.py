"""Whatever changes around a compiled function is noticed: it is captured anew, or runs uncompiled; never stale."""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as torch
from tests.compiler.test_compile import close

nn = torch.nn


def compiled(step: Any) -> Any:
    return torch.compile(step, backend="numpy")


class World:
    """A model, its optimizer, and a training step that reaches much of what a program may reach."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.BatchNorm1d(4), nn.Linear(4, 2))
        self.model.register_buffer("shift", torch.ones(2))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.1)
        self.options = {"gain": 2.0}
        self.names = {"a"}
        self.scale = torch.tensor([0.5, 2.0])
        self.table = np.array([1.0, 2.0], np.float32)
        model, optimizer, options, names, scale, table = (
            self.model, self.optimizer, self.options, self.names, self.scale, self.table
        )  # fmt: skip

        def step(x: Any, y: Any, more: Any = None) -> Any:
            optimizer.zero_grad()
            out = model(x) * options["gain"] * scale + model.shift + len(names)
            out = out * torch.from_numpy(table) + (sum(more.values()) if more else 0)
            loss = (out - y[:, :2]).square().mean() + torch.ones(2).sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        self.step = step
        self.x, self.y = torch.randn(8, 4), torch.randn(8, 4)
        self.more: Any = None

    def state(self) -> list[Any]:
        return [*self.model.parameters(), *self.model.buffers()]


def _freeze(w: World) -> None:
    w.model[0].weight.requires_grad_(False)
    w.model[0].weight.grad = None


def _hook(w: World) -> None:
    w.model[0].register_forward_hook(lambda module, args, out: out * 3)


def _new_buffer(w: World) -> None:
    w.model.shift = torch.full((2,), 5.0)


def _group(name: str, value: Any) -> Callable[[World], None]:
    return lambda w: w.optimizer.param_groups[0].update({name: value})


def _double(w: World) -> None:
    w.model.double()
    w.x, w.y = w.x.double(), w.y.double()


def _same_twice(w: World) -> None:
    w.y = w.x


def _overlapping(w: World) -> None:
    base = torch.randn(9, 4)
    w.x, w.y = base[:8], base[1:]


def _weight_as_argument(w: World) -> None:
    w.y = torch.cat((w.model[0].weight.detach(), torch.zeros(4, 4)))


CHANGES: dict[str, Callable[[World], None]] = {
    "parameter frozen": _freeze,
    "hook added": _hook,
    "buffer replaced": _new_buffer,
    "buffer written": lambda w: w.model.shift.fill_(4.0),
    "weight_decay": _group("weight_decay", 0.5),
    "betas": _group("betas", (0.5, 0.5)),
    "eps": _group("eps", 0.1),
    "maximize": _group("maximize", True),
    "lr": _group("lr", 0.7),
    "closure tensor written": lambda w: w.scale.mul_(3),
    "numpy array written": lambda w: w.table.__imul__(2),
    "set": lambda w: w.names.add("b"),
    "dict entry": lambda w: w.options.update(gain=4.0),
    "other keys": lambda w: setattr(w, "more", {"b": torch.ones(2), "c": torch.ones(2)}),
    "model in double": _double,
    "weight data replaced": lambda w: setattr(w.model[0].weight, "data", torch.ones(4, 4)),
    "same tensor twice": _same_twice,
    "overlapping views": _overlapping,
    "batch size": lambda w: (setattr(w, "x", w.x[:4]), setattr(w, "y", w.y[:4])) and None,
    "evaluation": lambda w: w.model.eval() and None,
    "momentum of a layer": lambda w: setattr(w.model[1], "momentum", 0.9),
    "threads": lambda w: torch.set_num_threads(torch.get_num_threads()),
    "deterministic": lambda w: torch.use_deterministic_algorithms(False),
    "layer replaced": lambda w: w.model.__setitem__(2, nn.Linear(4, 2, bias=False)),
    "parameters of its own": _weight_as_argument,
    "gradients cleared": lambda w: w.model.zero_grad(set_to_none=True),
    "gradients kept": lambda w: [setattr(p, "grad", torch.ones_like(p)) for p in w.model.parameters()] and None,
}


@pytest.mark.parametrize("change", CHANGES)
def test_change_between_calls(change: str) -> None:
    worlds = World(), World()
    steps = worlds[0].step, compiled(worlds[1].step)
    for number in range(7):
        if number == 4:
            for world in worlds:
                torch.manual_seed(1)
                CHANGES[change](world)
        wanted, found = (step(w.x, w.y, w.more) for step, w in zip(steps, worlds))
        close(wanted, found)
        for a, b in zip(worlds[0].state(), worlds[1].state()):
            close(a, b, 1e-4)
            assert (a.grad is None) == (b.grad is None)
    assert steps[1].traces and not steps[1].refused


MODES = {
    "autocast": lambda: torch.autocast("cpu"),
    "inference": torch.inference_mode,
    "no_grad": torch.no_grad,
    "anomaly": lambda: torch.autograd.set_detect_anomaly(True),
    "saved tensor hooks": lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t),
}


@pytest.mark.parametrize("mode", MODES)
def test_mode_around_a_call(mode: str) -> None:
    weight = torch.randn(4, 4)

    def f(x: Any) -> Any:
        return torch.tanh(x @ weight)

    step = compiled(f)
    x = torch.randn(3, 4)
    for _ in range(3):
        close(f(x), step(x))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with MODES[mode]():
            wanted, found = f(x), step(x)
            assert wanted.dtype == found.dtype and wanted.is_inference() == found.is_inference()
            np.testing.assert_allclose(found.float().numpy(), wanted.float().numpy(), rtol=1e-5)
    close(f(x), step(x))


def test_autocast_inside() -> None:
    model = nn.Linear(4, 4)

    def f(x: Any) -> Any:
        with torch.autocast("cpu"):
            out = model(x)
        loss = out.float().square().sum()
        (g,) = torch.autograd.grad(loss, model.weight)
        return out.detach(), g

    step = compiled(f)
    for i in range(4):
        x = torch.randn(3, 4)
        if i == 3:
            with torch.no_grad():
                model.weight.mul_(2)
        for a, b in zip(f(x), step(x)):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a.float().numpy(), b.float().numpy(), rtol=2e-2, atol=1e-2)
    assert step.traces[0].calls


def test_operands_of_two_dtypes_are_no_constants() -> None:
    def f(x: Any, counts: Any, wide: Any) -> Any:
        (g,) = torch.autograd.grad((x * counts * wide).sum(), x)
        return g

    step = compiled(f)
    for i in range(4):
        given = torch.randn(3, requires_grad=True), torch.tensor([i, 2, 3]), torch.randn(3, dtype=torch.float64)
        close(f(*given), step(*given))
    assert step.traces[0].calls == 3


def test_subclass_is_asked() -> None:
    class Mine(torch.Tensor):
        pass

    step = compiled(lambda x: x + 1)
    for x in (torch.ones(2), torch.ones(2), torch.ones(2).as_subclass(Mine), torch.ones(2).as_subclass(Mine)):
        assert type(step(x)) is type(x)


# --- numbers read from tensors --------------------------------------------------------------------


def test_item_returned_needs_one_program() -> None:
    step = compiled(lambda x: x.square().sum().item())
    for _ in range(20):
        x = torch.randn(3)
        found = step(x)
        assert type(found) is float and math.isclose(found, x.square().sum().item(), rel_tol=1e-6)
    assert len(step.traces) == 1


def test_training_with_a_logged_number_and_early_stopping() -> None:
    weights = [torch.full((3,), 2.0, requires_grad=True) for _ in range(2)]

    def make(weight: Any) -> Any:
        optimizer = torch.optim.SGD([weight], lr=0.1)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = ((weight - x) ** 2).sum()
            loss.backward()
            if loss.item() < 0.5:
                return {"loss": loss.item(), "done": True}
            optimizer.step()
            return {"loss": 2 * loss.item() / 2 + 0.0, "done": False}

        return step

    x = torch.tensor([0.5, 1.0, 1.5])
    eager, fast = make(weights[0]), compiled(make(weights[1]))
    for _ in range(15):
        a, b = eager(x), fast(x)
        assert a["done"] == b["done"] and type(b["loss"]) is float and math.isclose(a["loss"], b["loss"], rel_tol=1e-5)
    close(*weights)
    assert len(fast.traces) <= 3  # before the first gradient, after it, and done


LOOKS: dict[str, Callable[[float], Any]] = {
    "text": lambda n: f"{n:.3f}", "str": str, "int": int, "math": math.sqrt, "isnan": math.isnan, "numpy": np.sqrt,
    "round": round, "floor": math.floor, "power": lambda n: n**2, "reversed": lambda n: 1 / n, "float": float,
    "max": lambda n: max(n, 1.0), "index": lambda n: [10, 20, 30, 40][int(n)], "percent": lambda n: f"{n:.1%}",
    "mod": lambda n: n % 2, "equal": lambda n: n == 1.0, "table": lambda n: {1.0: "one"}.get(n, "other"),
    "array": lambda n: np.array([n, 1.0]).sum(), "minus": lambda n: -n + 1, "class": lambda n: isinstance(n, float),
    "full": lambda n: torch.full((2,), n).tolist(), "tensor": lambda n: torch.tensor([n, 1.0]).tolist(), "bool": bool,
    "times": lambda n: (torch.ones(2) * n).tolist(), "sum": lambda n: sum([n, n]), "abs": abs,
    "range": lambda n: list(range(int(n))), "difference": lambda n: 1 - n,
}  # fmt: skip


@pytest.mark.parametrize("look", LOOKS)
def test_whoever_looks_at_a_number_sees_the_right_one(look: str) -> None:
    def f(x: Any) -> Any:
        return LOOKS[look](x.sum().item())

    step = compiled(f)
    for size in (1.0, 1.0, 2.0, 3.0, 0.5, 2.0, 1.0, 0.5):
        x = torch.full((1,), size)
        wanted, found = f(x), step(x)
        assert wanted == found and type(wanted) is type(found)


# --- what no program can do -----------------------------------------------------------------------


def test_side_effects_keep_a_function_uncompiled() -> None:
    losses: list[float] = []

    def step(x: Any) -> Any:
        loss = x.sum()
        losses.append(loss.item())
        return loss

    run = compiled(step)
    with pytest.warns(RuntimeWarning, match=r"it changes len\(losses\)"):
        for i in range(8):
            run(torch.full((2,), float(i)))
    assert losses == [2.0 * i for i in range(8)] and all(type(v) is float for v in losses)


def test_counter_and_random_numbers_of_python() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: Any) -> Any:
            self.calls += 1
            return x * self.calls

    model = Model()
    run = compiled(model)
    with pytest.warns(RuntimeWarning, match="calls"):
        assert [float(run(torch.ones(1))) for _ in range(7)] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]

    draw = compiled(lambda x: x * random.random())
    with pytest.warns(RuntimeWarning, match="random numbers"):
        assert len({float(draw(torch.ones(1))) for _ in range(6)}) == 6


def _scaled(x: Any, scale: Any) -> Any:
    return (x * scale).sum()


@pytest.mark.parametrize("required", [False, True])
def test_sizes_that_keep_changing_run_uncompiled(required: bool) -> None:
    step, scale = compiled(_scaled), torch.full((), 2.0, requires_grad=required)
    with pytest.warns(RuntimeWarning, match=r"'x' along dimension 0 keeps changing") as told:
        for n in [*range(1, 61), *range(1, 61)]:
            assert float(step(torch.ones(n), scale)) == 2.0 * n
    assert len(told) == 1, "it is said once"
    assert not step.refused and len(step.traces) == 8, "programs that are there go on running"
    assert sum(t.calls for t in step.traces) >= 8


def test_sizes_that_come_back_get_programs() -> None:
    step, scale = compiled(_scaled), torch.tensor(2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in range(1, 61):
            for _ in range(20 if n <= 31 else 1):
                assert float(step(torch.ones(n), scale)) == 2.0 * n
            if n == 31:
                warnings.simplefilter("ignore")
    assert len(step.traces) == 32


def test_a_module_says_which_argument_keeps_changing() -> None:
    model = torch.nn.Linear(3, 2)
    run = torch.compile(model)
    with pytest.warns(RuntimeWarning, match=r"Linear runs uncompiled.*'input' along dimension 1"):
        for n in range(1, 20):
            assert run(torch.ones(2, n, 3)).shape == (2, n, 2)


def test_what_changes_with_each_call_is_said_once() -> None:
    step = compiled(lambda x, i: x * i)
    with pytest.warns(RuntimeWarning, match="argument 1 was"):
        for i in range(20):
            assert float(step(torch.ones(1), i)) == i


def test_a_write_without_a_primitive_runs_uncompiled() -> None:
    x = torch.ones(2)

    def step() -> Any:
        x.numpy()[...] = x.numpy() + 1
        return x * 1

    run = compiled(step)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert [float(run()[0]) for _ in range(5)] == [2.0, 3.0, 4.0, 5.0, 6.0]


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_a_schedule_of_momentum(name: str) -> None:
    weights = [torch.full((3,), 2.0, requires_grad=True) for _ in range(2)]

    def make(weight: Any) -> Any:
        options = {"momentum": 0.9} if name == "SGD" else {}
        optimizer = getattr(torch.optim, name)([weight], lr=0.1, **options)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=20)  # moves momentum and betas too

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = ((weight - x) ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss

        return step, schedule

    (eager, first), (step, second) = map(make, weights)
    fast = compiled(step)
    for i in range(19):
        x = torch.full((3,), i / 10)
        close(eager(x).detach(), fast(x).detach(), 1e-4)
        first.step(), second.step()
    assert not fast.refused and len(fast.traces) <= 4


def test_two_compiled_functions_that_name_each_other() -> None:
    @compiled
    def inner(x: Any) -> Any:
        return x * 2

    @compiled
    def outer(x: Any) -> Any:
        return inner(x) + 1

    for _ in range(4):
        assert float(outer(torch.ones(1))) == 3.0 and float(inner(torch.ones(1))) == 2.0
    assert len(outer.traces) == len(inner.traces) == 1
