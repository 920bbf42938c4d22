"""Nothing that a program computes or finds becomes a constant: a value of unknown origin makes it run eagerly."""

from __future__ import annotations

import argparse
import collections
import itertools
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint as torch
from adjoint.compiler import CaptureError, capture
from gates.compile import run_case
from tests.compiler.test_compile import close

nn, F = torch.nn, torch.nn.functional

# In-place ops whose rules keep what is overwritten; x is positive.
WRITES: dict[str, Callable[[Any, Any], Any]] = {
    "clamp_": lambda y, x: y.clamp_(0.5, 1), "sin_": lambda y, x: y.sin_(), "cos_": lambda y, x: y.cos_(),
    "abs_": lambda y, x: y.neg_().abs_(), "pow_": lambda y, x: y.pow_(3), "square_": lambda y, x: y.square_(),
    "erf_": lambda y, x: y.erf_(), "log1p_": lambda y, x: y.log1p_(), "atan_": lambda y, x: y.atan_(),
    "logit_": lambda y, x: y.logit_(0.1), "mul_": lambda y, x: y.mul_(x * x), "div_": lambda y, x: y.div_(x * x + 1),
    "addcmul_": lambda y, x: y.addcmul_(x, x), "lerp_": lambda y, x: y.lerp_(x * x, 0.3),
    "of another dtype": lambda y, x: y.mul_(x.double().detach()), "setitem": lambda y, x: y.__setitem__(2, 3.0),
    "view": lambda y, x: y[1:3].square_(), "transposed": lambda y, x: y.view(2, 3).t()[1:].pow_(2),
    "relu6": lambda y, x: F.relu6(y, inplace=True), "silu": lambda y, x: F.silu(y, inplace=True),
    "hardswish": lambda y, x: F.hardswish(y, inplace=True), "elu": lambda y, x: F.elu(y, inplace=True),
    "leaky_relu": lambda y, x: F.leaky_relu(y, inplace=True), "hardtanh": lambda y, x: F.hardtanh(y, inplace=True),
}  # fmt: skip


@pytest.mark.parametrize("inside", [False, True], ids=["backward outside", "backward inside"])
@pytest.mark.parametrize("name", WRITES)
def test_what_an_in_place_op_keeps(name: str, inside: bool) -> None:
    def loss(x: Any) -> Any:
        y = x * 1
        WRITES[name](y, x)
        return (y * y).sum()

    def step(x: Any) -> Any:
        value = loss(x)
        value.backward()
        return value.detach()

    compiled = torch.compile(step if inside else loss, fullgraph=True, backend="numpy")
    for i in range(5):
        torch.manual_seed(i)
        x = (torch.rand(6) * 2 + 0.1).requires_grad_()
        twin = x.detach().clone().requires_grad_()
        loss(twin).backward()
        found = compiled(x)
        if not inside:
            found.backward()
        close(twin.grad, x.grad)
    assert any(trace.calls for trace in compiled.traces)


SETTINGS = types.SimpleNamespace(gain=1.0)
OPTIONS = argparse.Namespace(gain=1.0)
ROOM = types.ModuleType("room")
ROOM.gain = 1.0  # type: ignore[attr-defined]


class Plain:
    gain = 1.0


class Slotted:
    __slots__ = ("gain",)

    def __init__(self) -> None:
        self.gain = 1.0


class Model(nn.Module):
    """Calls a method that reads what is outside, and what is on the class."""

    scale = 1.0

    def helper(self, x: Any) -> Any:
        return x * Plain.gain * self.scale

    def forward(self, x: Any) -> Any:
        return self.helper(x)


def _by_class() -> Any:
    class Own(Plain):
        pass

    return lambda x: x * Own.gain, lambda n: setattr(Own, "gain", n)


def _by_slot() -> Any:
    own = Slotted()
    return lambda x: x * own.gain, lambda n: setattr(own, "gain", n)


def _by_method() -> Any:
    return Model(), lambda n: setattr(Plain, "gain", n)


def _by_class_of_a_module() -> Any:
    return Model(), lambda n: setattr(Model, "scale", n)


def _by_array() -> Any:
    table = np.ones(3, np.float32)
    return lambda x: x * float(table.sum()), lambda n: table.fill(n)


def _by_copied_array() -> Any:
    table = np.ones(3, np.float32)
    return lambda x: x * torch.tensor(table), lambda n: table.fill(n)


def _by_attribute(place: Any) -> Any:
    def make() -> Any:
        return (lambda x: x * place.gain), (lambda n: setattr(place, "gain", n))

    return make


def _by_queue() -> Any:
    queue = collections.deque([1.0, 2.0])
    return lambda x: x * queue[0], lambda n: queue.__setitem__(0, n)


def _by_long_list() -> Any:
    numbers = [1.0] * 500
    return lambda x: x * numbers[321], lambda n: numbers.__setitem__(321, n)


def _by_default() -> Any:
    def function(x: Any, *, box: Any = {"gain": 1.0}) -> Any:
        return x * box["gain"]

    return function, lambda n: function.__kwdefaults__["box"].update(gain=n)


ROADS = {
    "class": _by_class, "slot": _by_slot, "method of a module": _by_method, "class of a module": _by_class_of_a_module,
    "array": _by_array, "copied array": _by_copied_array, "namespace": _by_attribute(SETTINGS), "queue": _by_queue,
    "options": _by_attribute(OPTIONS), "module": _by_attribute(ROOM), "long list": _by_long_list,
    "default": _by_default,
}  # fmt: skip


@pytest.mark.parametrize("name", ROADS)
def test_numbers_found_by_many_roads(name: str) -> None:
    function, change = ROADS[name]()
    try:
        compiled = torch.compile(function, backend="numpy", fullgraph=True)
        x = torch.ones(3)
        for n in (1.0, 1.0, 2.0, 2.0, 3.0):
            change(n)
            close(function(x), compiled.compiled(x) if isinstance(function, nn.Module) else compiled(x))
    finally:
        change(1.0)


def test_optimizer_state_replaced_or_cleared() -> None:
    worlds = []
    for compiled in (False, True):
        torch.manual_seed(0)
        weight = torch.randn(3, requires_grad=True)
        optimizer = torch.optim.Adam([weight], lr=0.1)

        def step(x: Any, weight: Any = weight, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            (weight * x).square().sum().backward()
            optimizer.step()

        worlds.append((weight, optimizer, torch.compile(step, backend="numpy") if compiled else step))
    for i in range(10):
        for _, optimizer, step in worlds:
            if i == 4:
                optimizer.load_state_dict(optimizer.state_dict())
            if i == 7:
                optimizer.state.clear()
            step(torch.full((3,), 1.0 + i))
        close(worlds[0][0], worlds[1][0])


def _drawn() -> Any:
    rng = np.random.default_rng(0)
    return lambda x: x + float(rng.normal())


def _next() -> Any:
    numbers = itertools.count()
    return lambda x: x + next(numbers)


def _kept_by_a_generator() -> Any:
    held = (t for t in [torch.ones(3), torch.zeros(3), torch.ones(3) * 2, torch.ones(3), torch.ones(3)])
    return lambda x: x + next(held)


UNKNOWN: dict[str, Callable[[], Callable[[Any], Any]]] = {
    "NumPy array made inside": lambda: lambda x: x + torch.from_numpy(np.sort(x.numpy())),
    "NumPy generator": _drawn, "iterator": _next, "tensors from a generator": _kept_by_a_generator,
    "repeats": lambda: lambda x: x.repeat_interleave((x * 0 + 1).long()).cumsum(0),
}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_origin_runs_eagerly(name: str) -> None:
    eager, function = UNKNOWN[name](), UNKNOWN[name]()
    compiled = torch.compile(function, backend="numpy")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for i in range(5):
            x = torch.tensor([3.0, 1.0, 2.0]) * (i + 1)
            close(eager(x), compiled(x))
    assert compiled.refused and any("runs uncompiled" in str(w.message) for w in told)


def test_an_array_of_unknown_origin_is_an_error() -> None:
    from adjoint.core.nodes import wrap

    with pytest.raises(CaptureError, match="made by no op that is captured"):
        capture(lambda x: x + wrap(np.ones(3)))(torch.ones(3))


def test_saved_tensor_hooks_and_checkpoints() -> None:
    def loss(x: Any) -> Any:
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t / 2):
            y = x.sin() * x
        return torch.utils.checkpoint.checkpoint(lambda a: (a * a).sin(), y, use_reentrant=False).sum()

    def step(x: Any) -> Any:
        value = loss(x)
        value.backward()
        return value.detach()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = torch.compile(step, backend="numpy")
        for i in range(4):
            x = (torch.arange(4.0) + i).requires_grad_()
            twin = x.detach().clone().requires_grad_()
            step(twin), compiled(x)
            close(twin.grad, x.grad)


# Shapes that depend on data; x has eight elements, of which more or fewer are positive.
DATA_DEPENDENT: dict[str, Callable[[Any], Any]] = {
    "sum": lambda x: x[x > 0].sum(), "mean": lambda x: x[x > 0].mean(), "len": lambda x: x.sum() * len(x[x > 0]),
    "numel": lambda x: x.sum() * x.masked_select(x > 0).numel(), "split": lambda x: x[x > 0].split(2)[0].sum(),
    "zeros": lambda x: (x[x > 0] + torch.zeros(x[x > 0].shape)).var(),
    "matmul": lambda x: (x[x > 0][:, None] @ x[None]).mean(),
    "columns": lambda x: x.view(2, 4)[:, x[:4] > 0].mean(), "where": lambda x: x[torch.where(x > 0)].mean(),
    "nonzero": lambda x: x[(x > 0).nonzero()[:, 0]].mean(), "argwhere": lambda x: x[torch.argwhere(x > 0)[:, 0]].mean(),
    "unique": lambda x: x.sum() * torch.unique(x.detach().round()).shape[0],
    "one_hot": lambda x: x.sum() * F.one_hot((x > 0).sum()).shape[0],
    "iteration": lambda x: sum(v * i for i, v in enumerate(x[x > 0])),
    "masked_scatter": lambda x: torch.zeros(8).masked_scatter(x > 0, x * x).sum(),
    "repeats": lambda x: x.repeat_interleave((x > 0).long()).mean(),
    "bincount": lambda x: x.sum() * torch.bincount((x > 0).long().cumsum(0)).shape[0],
}  # fmt: skip


@pytest.mark.parametrize("inside", [False, True], ids=["backward outside", "backward inside"])
@pytest.mark.parametrize("name", DATA_DEPENDENT)
def test_shapes_that_depend_on_data(name: str, inside: bool) -> None:
    def run(x: Any) -> Any:
        value = DATA_DEPENDENT[name](x * 1)
        if inside:
            value.backward()
        return value.detach() if inside else value

    compiled = torch.compile(run, backend="numpy")
    for i in range(8):
        torch.manual_seed(i % 5)
        x = torch.randn(8).requires_grad_()
        twin = x.detach().clone().requires_grad_()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that it takes another way each time
            found, expected = compiled(x), run(twin)
        if not inside:
            found.backward(), expected.backward()
        close(expected, found)
        close(twin.grad, x.grad)


def test_calls_that_want_a_gradient_and_calls_that_do_not() -> None:
    f = lambda x: (x**3).sum() * (1 if x.sum() > 0 else 2)
    compiled = torch.compile(f, backend="numpy", fullgraph=True)
    for i in range(8):
        x = (torch.arange(3.0) - i).requires_grad_(i % 2 == 0)
        found = compiled(x)
        close(f(x), found)
        assert found.requires_grad is x.requires_grad


# What is read of an index, and of a mask; i is a number from 0 to 3, of m more or fewer are true.
INDEXED: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a number": lambda x, m, i: x[i], "in a tuple": lambda x, m, i: x[:, i] * x[i, i],
    "found": lambda x, m, i: x[x[0].argmax()], "put": lambda x, m, i: x.index_put((m,), x[0] * 2),
    "added": lambda x, m, i: x.index_put((m,), x[:1], accumulate=True),
    "written": lambda x, m, i: _written(x * 1, m, x[0]), "written at a number": lambda x, m, i: _written(x * 1, i, 0.0),
    "masked sum": lambda x, m, i: torch.masked.sum(x.view(2, 2, 4), dim=[1, 2], mask=m),
    "one element": lambda x, m, i: x[m, i].sum(), "masked columns": lambda x, m, i: x[i][m],
}  # fmt: skip


def _written(y: Any, index: Any, value: Any) -> Any:
    y[index] = value
    y[index] += 1
    return y


@pytest.mark.parametrize("name", INDEXED)
def test_indexes_that_are_tensors(name: str) -> None:
    def step(x: Any, m: Any, i: Any) -> Any:
        out = INDEXED[name](x, m, i)
        return out.detach(), torch.autograd.grad((out * out).sum(), x)[0]

    compiled = torch.compile(step, backend="numpy")
    for k, i in enumerate((1, 1, 2, 0, 1)):
        torch.manual_seed(k)
        given = torch.randn(4, 4, requires_grad=True), torch.rand(4) > 0.4, torch.tensor(i)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for found, expected in zip(compiled(*given), step(*given), strict=True):
                assert found.shape == expected.shape
                close(expected, found)


@pytest.mark.parametrize("backend", ["numpy", None])
def test_as_strided_of_memory_that_lies_otherwise_in_a_program(backend: Any) -> None:
    def run(x: Any) -> Any:
        y = (x + 1).t().clamp(-9, 9)
        z = y.sum(0, keepdim=True) + y
        z.as_strided((2, 3), (4, 1), 1).mul_(2)
        return y.as_strided((2, 3), (4, 1), 1) * 1, z * 1

    compiled = torch.compile(run, backend=backend)
    for i in range(4):
        x = torch.arange(16.0).reshape(4, 4) + i
        for found, expected in zip(compiled(x), run(x), strict=True):
            close(expected, found)
    assert not compiled.refused and compiled.traces[0].calls


@pytest.mark.parametrize("family", ["program", "training"])
@pytest.mark.parametrize("seed", range(12))
def test_slice_of_the_gate(family: str, seed: int) -> None:
    verdict, why = run_case(family, seed, None if seed % 4 == 3 else "numpy")
    assert verdict not in ("wrong", "crashed"), why
