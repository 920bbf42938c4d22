"""Compiled equals eager: values, gradients, in-place effects, random numbers, and whatever changes between calls."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import numpy as np
import pytest

import adjoint as torch
from tests.compiler.programs import program

nn, F = torch.nn, torch.nn.functional


def close(a: Any, b: Any, tolerance: float = 2e-5) -> None:
    a, b = a.detach().numpy(), b.detach().numpy()
    np.testing.assert_allclose(b, a, rtol=tolerance, atol=tolerance)


def compare(step: Any, arguments: Any, state: list[Any], calls: int = 4, backend: Any = None) -> Any:
    """Run a step eagerly and compiled on the same arguments, from the same state."""
    start = [t.detach().clone() for t in state]
    eager = []
    for i in range(calls):
        eager.append((step(*arguments(i)), [t.detach().clone() for t in state], [_grad(t) for t in state]))
    for t, s in zip(state, start):
        with torch.no_grad():
            t.copy_(s)
        t.grad = None
    compiled = torch.compile(step, backend=backend)
    for i in range(calls):
        result = compiled(*arguments(i))
        wanted, states, grads = eager[i]
        for a, b in zip(_flat(wanted), _flat(result)):
            close(a, b)
        for a, b in zip(states, state):
            close(a, b)
        for g, t in zip(grads, state):
            assert (g is None) == (t.grad is None)
            if g is not None:
                close(g, t.grad, 2e-4)
    return compiled


def _grad(t: Any) -> Any:
    return None if t.grad is None else t.grad.clone()


def _flat(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


@pytest.mark.parametrize("seed", range(6))
def test_random_program(seed: int) -> None:
    run_random(seed, None)


@pytest.mark.parametrize("start", range(0, 200, 20))
def test_random_programs_without_loops(start: int) -> None:
    for seed in range(start, start + 20):
        run_random(seed, "numpy")


def run_random(seed: int, backend: Any) -> None:
    """Compare one random program; `python -m tests.compiler.fuzz` runs as many as one likes."""
    step, arguments, state = program(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        compare(step, arguments, state, backend=backend)


def test_training_step_with_adam() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.LayerNorm(12), nn.Linear(12, 3))
    twin = copy.deepcopy(model)
    x, y = torch.randn(20, 6), torch.randint(0, 3, (20,))

    def make(model: Any) -> Any:
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    eager, compiled = make(model), torch.compile(make(twin))
    for _ in range(8):
        close(eager(x, y), compiled(x, y))
    assert compiled.traces, compiled.refused
    for p, q in zip(model.parameters(), twin.parameters()):
        close(p, q, 1e-4)


def test_module_with_backward_outside() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 2))
    compiled = torch.compile(model)
    x = torch.randn(3, 4, requires_grad=True)
    for _ in range(4):
        wanted = torch.autograd.grad(model(x * 2).square().sum(), [x, *model.parameters()])
        found = torch.autograd.grad(compiled(x * 2).square().sum(), [x, *model.parameters()])
        for a, b in zip(wanted, found):
            close(a, b)
    assert compiled.compiled.traces
    assert [name for name, _ in compiled.named_parameters()][0] == "_orig_mod.0.weight"
    assert isinstance(compiled, nn.Module) and compiled._orig_mod is model


def test_batch_norm_and_dropout_keep_their_state_and_randomness() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5))
    twin = copy.deepcopy(model)
    compiled = torch.compile(twin)
    x = torch.randn(6, 4)
    for i in range(4):
        torch.manual_seed(i)
        a = model(x)
        torch.manual_seed(i)
        close(a, compiled(x))
    close(model[1].running_var, twin[1].running_var)
    assert int(twin[1].num_batches_tracked) == 4
    model.eval(), twin.eval()
    close(model(x), compiled(x))


def test_data_decides_the_way() -> None:
    def halved(x: Any) -> Any:
        steps = 0
        while x.abs().max() > 1:
            x = x / 2
            steps += 1
        return x, steps

    compiled = torch.compile(halved)
    for size in (0.5, 3.0, 20.0, 3.0, 0.5, 20.0):
        x = torch.full((3,), size)
        wanted, found = halved(x), compiled(x)
        close(wanted[0], found[0])
        assert wanted[1] == found[1]
    assert len(compiled.traces) == 3


CHANGES = [
    "shape", "dtype", "strides", "requires_grad", "grad_mode", "number", "global", "closure", "training", "lr",
    "parameter", "structure", "none", "keyword", "default_dtype", "list", "dict", "attribute", "function",
]  # fmt: skip
SCALE = 2.0


@pytest.mark.parametrize("change", CHANGES)
def test_whatever_changes_is_noticed(change: str) -> None:
    global SCALE
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.0))
    held = {"power": 2, "terms": [1.0, 2.0]}
    offset = 1.0

    class Config:
        gain = 1.0

    config = Config()
    config.gain = 1.5

    def shaping(h: Any) -> Any:
        return h + 1

    def step(x: Any, scale: Any = 1.0, *, extra: Any = None) -> Any:
        h = model(x) * SCALE + offset
        h = shaping(h) ** held["power"] * config.gain + sum(held["terms"]) * scale
        return (h if extra is None else h + extra) * (0.5 if model.training else 1.0) + torch.ones(4)

    compiled = torch.compile(step)
    x = torch.randn(3, 4)
    more: dict[str, Any] = {}
    with torch.no_grad():
        for _ in range(3):
            close(step(x), compiled(x))
    before = SCALE
    try:
        scale: Any = 1.0
        if change == "shape":
            x = torch.randn(5, 4)
        elif change == "dtype":
            x, model = x.double(), model.double()
        elif change == "strides":
            x = torch.randn(4, 3).t()
        elif change == "requires_grad":
            x = x.clone().requires_grad_()
        elif change == "number":
            scale = 3.0
        elif change == "global":
            SCALE = 5.0
        elif change == "closure":
            offset = 7.0
        elif change == "training":
            model.eval()
        elif change == "parameter":
            model[0].weight = nn.Parameter(torch.ones(4, 4))
        elif change == "structure":
            more["extra"] = torch.ones(4)
        elif change == "none":
            more["extra"] = None
        elif change == "keyword":
            more["scale"] = 4.0
        elif change == "default_dtype":
            torch.set_default_dtype(torch.float64)
        elif change == "list":
            held["terms"].append(3.0)
        elif change == "dict":
            held["power"] = 3
        elif change == "attribute":
            config.gain = 2.5
        elif change == "function":
            shaping = lambda h: h - 1
        elif change == "lr":
            with torch.no_grad():
                model[0].bias.fill_(3.0)
        given = (x,) if "scale" in more else (x, scale)
        if change == "grad_mode":
            close(step(*given), compiled(*given))
        else:
            with torch.no_grad():
                for _ in range(2):
                    wanted, found = step(*given, **more), compiled(*given, **more)
                    assert wanted.dtype == found.dtype
                    close(wanted, found)
    finally:
        SCALE = before
        torch.set_default_dtype(torch.float32)


def test_code_can_be_read() -> None:
    @torch.compile
    def norm(x: Any) -> Any:
        return (x * x).sum().sqrt()

    norm(torch.ones(3)), norm(torch.ones(3))
    assert "def program(" in norm.code()


@pytest.mark.parametrize("name", ["SGD", "Adam", "RMSprop"])
def test_a_schedule_needs_no_new_program(name: str) -> None:
    torch.manual_seed(0)
    models = [nn.Linear(4, 2)]
    models.append(copy.deepcopy(models[0]))
    x = torch.randn(8, 4)

    def make(model: Any) -> Any:
        optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step, schedule

    (eager, first), (step, second) = map(make, models)
    compiled = torch.compile(step)
    for _ in range(10):
        close(eager(x), compiled(x))
        first.step(), second.step()
    assert len(compiled.traces) <= 2


@pytest.mark.parametrize("backend", ["numpy", None])
def test_what_is_written_is_read_before(backend: Any) -> None:
    state, wide = torch.arange(4.0), torch.arange(4.0, dtype=torch.float64)

    def step(x: Any) -> Any:
        old = state * 2
        state.add_(x)
        wide.add_(x)  # of another dtype
        return old + state.sum()

    compare(step, lambda i: (torch.full((4,), float(i)),), [state, wide], backend=backend)


def test_a_loss_returned_after_its_backward_pass() -> None:
    weight = torch.ones(3, requires_grad=True)

    def step(x: Any) -> Any:
        weight.grad = None
        loss = (weight * x).square().sum()
        loss.backward()
        return loss

    compiled = compare(step, lambda i: (torch.full((3,), float(i)),), [weight], backend="numpy")
    assert compiled.traces


@pytest.mark.parametrize("backend", ["numpy", None])
def test_an_old_value_outlives_the_write(backend: Any) -> None:
    state = torch.arange(6.0).reshape(2, 3)

    def step(x: Any) -> Any:
        old = state.clone()
        state.mul_(x).add_(1)
        return old * 2 + state.sum(1, keepdim=True), old - old.mean(1, keepdim=True)

    compare(step, lambda i: (torch.full((2, 3), 0.5 + i),), [state], backend=backend)


@pytest.mark.parametrize("function", [
    lambda x: (x * 2).chunk(2)[0], lambda x: (x * 2).unbind(0)[1], lambda x: (x * 2).t(), lambda x: (x * 2).real,
    lambda x: torch.tensor_split(x * 2, 2)[1], lambda x: (x * 2).contiguous(), lambda x: (x * 2).expand(3, 4, 4),
    lambda x: torch.nn.functional.dropout(x * 2, 0.5, False), lambda x: torch.atleast_2d(x * 2), lambda x: (x * 2)[1:],
    lambda x: torch.nn.functional.max_pool1d(x * 2, 2), lambda x: torch.flatten(x * 2), lambda x: torch.diagonal(x * 2),
])  # fmt: skip
def test_a_result_is_not_overwritten_by_the_next_call(function: Any) -> None:
    step = torch.compile(function, backend="numpy")
    given = [torch.full((4, 4), float(i)) for i in range(5)]
    found = [step(x) for x in given]
    for x, result in zip(given, found):
        close(function(x), result)


def test_loops_over_parts() -> None:
    weight = torch.randn(6, 12, requires_grad=True)

    def step(x: Any) -> Any:
        weight.grad = None
        a, b, c = (weight * x).chunk(3, 1)
        d, e = (weight * 2).split([2, 4])
        loss = (torch.tanh(a) * torch.sigmoid(b) + c[:, 1:3].sum(1, keepdim=True)).sum() + (d.mean(0) * e.sum(0)).sum()
        loss = loss + (x[1:3, 2:5] * weight[1:3, 2:5]).exp().sum(0).max()
        loss.backward()
        return loss.detach()

    def arguments(i: int) -> Any:
        torch.manual_seed(i)
        return (torch.randn(6, 12),)

    compare(step, arguments, [weight])


def test_a_turned_result_is_copied_after_it_is_computed() -> None:
    weights = torch.arange(6.0)

    def function(x: Any) -> Any:
        turned = (x.exp().t().contiguous().view(6) * weights).view(3, 2)
        return turned.t().contiguous().view(6) + 1, turned.t().contiguous().view(6).sum()

    compiled = torch.compile(function)
    for _ in range(3):
        x = torch.randn(2, 3)
        for found, expected in zip(compiled(x), function(x), strict=True):
            torch.testing.assert_close(found, expected)


def test_rows_of_a_table_are_added_up_and_checked() -> None:
    table = torch.randn(7, 5, requires_grad=True)

    def step(numbers: Any) -> Any:
        table.grad = None
        (torch.nn.functional.embedding(numbers, table) ** 2).sum().backward()
        return table.grad.clone()

    compiled = torch.compile(step)
    for _ in range(3):
        numbers = torch.randint(0, 7, (3, 4))
        torch.testing.assert_close(compiled(numbers), step(numbers))
    with pytest.raises(IndexError, match="index out of range in self"):
        compiled(torch.full((3, 4), 7))
    assert "scatter" in compiled.code()


@pytest.mark.parametrize("count", [1, 3])
def test_loops_are_shared_by_as_many_threads_as_there_may_be(count: int) -> None:
    def function(x: Any) -> Any:
        y = (x * 2 + 1).tanh()
        return y.sum(0), y.t().contiguous().view(-1) * 3, y.amax(1)

    compiled, x = torch.compile(function), torch.randn(300, 257)
    before = torch.get_num_threads()
    try:
        for number in (before, count, before):
            torch.set_num_threads(number)
            for found, expected in zip(compiled(x), function(x), strict=True):
                torch.testing.assert_close(found, expected)
            x = x + 1
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    ("rows", "inner", "columns"), [(5, 1, 7), (1, 6, 7), (5, 6, 1), (1, 1, 7), (5, 1, 1), (1, 1, 1)]
)
def test_products_of_thin_matrices(rows: int, inner: int, columns: int) -> None:
    def step(x: Any, y: Any) -> Any:
        return torch.tanh(x @ y) @ y.T

    compiled = torch.compile(step, fullgraph=True)
    for value in (1.0, 0.5, float("inf"), 2.0):  # zero times infinity is a NaN, as eagerly
        x, y = torch.randn(rows, inner) * 0 + value, torch.zeros(inner, columns)
        y[0, 0] = value
        assert np.array_equal(compiled(x, y).numpy(), step(x, y).numpy(), equal_nan=True)
