"""Compiled programs on a GPU equal eager ones; a training step is replayed as one CUDA graph."""

from __future__ import annotations

import copy
import gc
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

import adjoint as torch
from tests.compiler.programs import ROUNDED

pytestmark = pytest.mark.gpu
nn, F = torch.nn, torch.nn.functional


def close(a: Any, b: Any, tolerance: float = 1e-4) -> None:
    np.testing.assert_allclose(b.detach().cpu().numpy(), a.detach().cpu().numpy(), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW"])
def test_training_step(name: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 5)).to("cuda")
    twin = copy.deepcopy(model)
    x, y = torch.randn(16, 20).to("cuda"), torch.randint(0, 5, (16,)).to("cuda")

    def make(model: Any) -> Any:
        optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.01)

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
    for p, q in zip(model.parameters(), twin.parameters()):
        close(p, q, 1e-3)
    assert compiled.traces and not compiled.refused
    assert compiled.traces[0].program.run.graph is not None, compiled.traces[0].program.run.refused


def test_elementwise_and_rows() -> None:
    w = torch.randn(64, 128, device="cuda", requires_grad=True)

    def step(x: Any) -> Any:
        w.grad = None
        y = torch.tanh(x * w + 0.5)
        y = torch.softmax(y, 1) * torch.sigmoid(x) + F.layer_norm(y, (128,))
        loss = (y * y).sum(1).mean()
        loss.backward()
        return loss.detach(), y.detach()

    compiled = torch.compile(step)
    for i in range(5):
        torch.manual_seed(i)
        x = torch.randn(64, 128, device="cuda")
        wanted = step(x)
        gradient = w.grad.clone()
        found = compiled(x)
        for a, b in zip(wanted, found):
            close(a, b)
        close(gradient, w.grad)


def test_results_stay_with_whoever_keeps_them() -> None:
    w = torch.randn(300, 100, device="cuda", requires_grad=True)

    def step(x: Any) -> Any:
        w.grad = None
        y = torch.sin(x * w)
        y.sum().backward()
        return y.detach(), y.detach().mean()

    compiled, kept, wanted = torch.compile(step), [], []
    for i in range(14):  # more than there are recordings, on arguments at places of their own
        torch.manual_seed(i)
        x = torch.randn(300, 100, device="cuda")
        wanted.append((*step(x), w.grad))
        kept.append((x, *compiled(x), w.grad))
    assert len(compiled.traces) == 1
    for a, (_, *b) in zip(wanted, kept):
        for one, other in zip(a, b):
            close(one, other)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision(dtype: str) -> None:
    """Odd sizes: rows get some more elements, and products some more rows, which must not count."""
    torch.manual_seed(0)

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.norm = nn.Embedding(1041, 64), nn.LayerNorm(64)
            self.up, self.down = nn.Linear(64, 200), nn.Linear(200, 64)

        def forward(self, x: Any) -> Any:
            x = self.table(x)
            x = x + self.down(F.gelu(self.up(self.norm(x)), approximate="tanh"))
            return F.linear(x, self.table.weight)

    model = Model().to("cuda")
    twin = copy.deepcopy(model)
    x, y = torch.randint(0, 1041, (4, 33)).to("cuda"), torch.randint(0, 1041, (4, 33)).to("cuda")

    def make(model: Any) -> Any:
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=getattr(torch, dtype)):
                loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    eager, compiled = make(model), torch.compile(make(twin))
    for _ in range(6):
        close(eager(x, y), compiled(x, y), 1e-2)
    for p, q in zip(model.parameters(), twin.parameters()):
        close(p, q, 2e-2)
    assert compiled.traces[0].program.run.graph is not None, compiled.traces[0].program.run.refused


def test_dropout_is_drawn_anew() -> None:
    drop = torch.compile(lambda x: F.dropout(x, 0.25) * 0.75)
    x = torch.ones(200, 300, device="cuda")
    seen = []
    for seed in (1, 2, 3, 1):
        for _ in range(2):
            torch.manual_seed(seed)
            found = drop(x).cpu().numpy()
            assert set(np.unique(found.round(5))) == {0.0, 1.0} and abs((found == 0).mean() - 0.25) < 0.01
        seen.append(found)
    assert (seen[0] != seen[1]).any() and (seen[1] != seen[2]).any()
    np.testing.assert_array_equal(seen[0], seen[3])


@pytest.mark.parametrize("shape", [(40, 30), (300, 301)], ids=str)
def test_draws_are_those_of_the_eager_program(shape: tuple[int, ...]) -> None:
    """One seed, one stream: dropout, and many numbers or few, in the program's order."""

    def step(x: Any) -> Any:
        a = F.dropout(x, 0.25)
        b = F.dropout(x + 1, 0.5) + torch.rand(shape, device="cuda")
        return a, F.dropout(b, 0.1), torch.randn(shape, device="cuda"), torch.empty_like(x).uniform_(-1, 2)

    x = torch.ones(shape, device="cuda")
    compiled = torch.compile(step)
    torch.manual_seed(3)
    wanted = [step(x) for _ in range(4)]
    torch.manual_seed(3)
    for values in wanted:
        for one, two in zip(values, compiled(x), strict=True):
            np.testing.assert_allclose(one.cpu().numpy(), two.cpu().numpy(), rtol=1e-6)


def test_arguments_and_gradients_that_are_written() -> None:
    w = torch.ones(40, device="cuda", requires_grad=True)

    @torch.compile
    def step(x: Any) -> Any:
        x.mul_(2)
        (w * x).sum().backward()  # added to the gradient that is there
        return x.sum()

    kept = [torch.full((40,), float(i), device="cuda") for i in range(14)]
    for i, x in enumerate(kept):
        if i % 3 == 0:
            w.grad = None
        assert float(step(x)) == 80 * i
        assert float(w.grad[0]) == sum(2 * j for j in range(i - i % 3, i + 1))
    for i, x in enumerate(kept):
        np.testing.assert_array_equal(x.cpu().numpy(), np.full(40, 2.0 * i))


def test_values_decide() -> None:
    state = torch.zeros(3, device="cuda")

    def step(x: Any) -> Any:
        state.add_(1)
        y = (x * 2).sum()
        if y > 0:
            return y.item(), state * 1
        return (y - 1).item(), state * 2

    compiled = torch.compile(step)
    for i, sign in enumerate((1, 1, 1, -1, -1, 1, -1, 1)):
        number, found = compiled(torch.full((5,), float(sign), device="cuda"))
        assert number == (10 if sign > 0 else -11)
        np.testing.assert_array_equal(found.cpu().numpy(), np.full(3, (i + 1) * (1 if sign > 0 else 2)))


SCALAR_OPERANDS: dict[str, Any] = {
    "mul": lambda y: y * 2,
    "mul, sin": lambda y: (y * 2.5).sin(),
    "mul, sin_": lambda y: (y * 1).sin_(),
    "add, div": lambda y: (y + 1) / 3,
    "mul_": lambda y: y.clone().mul_(2),
}


@pytest.mark.parametrize("name", SCALAR_OPERANDS)
def test_scalar_operands_are_captured(name: str) -> None:
    w = nn.Parameter(torch.randn(8, 8, device="cuda"))
    step = lambda x: torch.autograd.grad(SCALAR_OPERANDS[name](x @ w).sum(), w)
    compiled = torch.compile(step)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # it does not run uncompiled
        for _ in range(4):
            x = torch.randn(4, 8, device="cuda")
            torch.testing.assert_close(compiled(x), step(x))


def test_a_constant_that_is_returned() -> None:
    compiled = torch.compile(lambda x: (torch.tensor([3, 1, 0], device="cuda"), x * 2))
    for i in range(4):
        found, _ = compiled(torch.full((5,), float(i), device="cuda"))
        assert found.tolist() == [3, 1, 0]


def test_a_shape_that_depends_on_data() -> None:
    def f(x: Any) -> Any:
        return x * x[x > 0].sum()

    compiled = torch.compile(f)
    for i in range(6):
        torch.manual_seed(i % 4)
        x = torch.randn(4, 4, device="cuda")
        close(f(x), compiled(x))


LEAVING: dict[str, Any] = {
    "a linear layer": lambda x, w: F.linear(x.transpose(0, 1), w).tanh(),
    "a copy that is returned": lambda x, w: ((y := x.transpose(0, 1).reshape(-1, 6)), (y @ w).tanh().exp()),
    "a clone of a view": lambda x, w: (x.transpose(0, 2).contiguous(), (x @ w).exp().sum(1)),
}


@pytest.mark.parametrize("name", LEAVING)
def test_copies_of_views_leave_the_program(name: str) -> None:
    # What a backward pass needs leaves the forward one: in memory that nobody writes afterwards.
    torch.manual_seed(0)
    w = torch.randn(6, 6, device="cuda", requires_grad=True)
    compiled = torch.compile(LEAVING[name])
    for _ in range(4):
        x = torch.randn(5, 2, 6, device="cuda", requires_grad=True)
        found = []
        for function in (LEAVING[name], compiled):
            out = function(x, w)
            out = out if isinstance(out, tuple) else (out,)
            found.append((*out, *torch.autograd.grad(sum((o * o).sum() for o in out), (x, w))))
        for a, b in zip(*found, strict=True):
            close(a, b)


EMPTY: dict[str, Any] = {
    "a mask of nothing": lambda x: x.index_put((x[:, 0] > 5,), x[1]),
    "a part": lambda x: torch.cat([x[:0], x * 2]),
    "results": lambda x: (x[:0] * 2, x[:, 3:3].sum(0), x.sum(1)),
    "products": lambda x: (x[:0] @ x, x[:, :0] @ x[:0] + x),
    "arguments": lambda x: (x.new_zeros(0, 4) + 1, x.exp()),
}


@pytest.mark.parametrize("name", EMPTY)
def test_arrays_without_elements(name: str) -> None:
    compiled = torch.compile(EMPTY[name])
    for _ in range(4):
        x = torch.randn(4, 4, device="cuda")
        torch.testing.assert_close(compiled(x), EMPTY[name](x))


def test_an_argument_without_elements() -> None:
    compiled = torch.compile(lambda x, y: (x * 2, y.sum(), torch.cat([x, y])))
    for _ in range(4):
        empty, y = torch.empty(0, 3, device="cuda"), torch.randn(2, 3, device="cuda")
        twice, total, joined = compiled(empty, y)
        assert twice.shape == (0, 3)
        close(y.sum(), total)
        close(y, joined)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ROUNDED)
def test_every_op_is_rounded(name: str, dtype: Any) -> None:
    torch.manual_seed(0)
    compiled = torch.compile(ROUNDED[name])
    for _ in range(3):
        x, y = torch.randn(9, 40, dtype=dtype, device="cuda"), torch.randn(9, 40, dtype=dtype, device="cuda")
        found, expected = compiled(x, y), ROUNDED[name](x, y)
        pairs = zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]
        for a, b in pairs:
            np.testing.assert_array_equal(a.cpu().numpy(), b.cpu().numpy())


def _language_step(autocast: bool) -> Any:
    torch.manual_seed(0)
    nn = torch.nn
    net = nn.Sequential(
        nn.Embedding(101, 16), nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 101, False)
    )
    net = net.to("cuda")
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
    x, y = torch.randint(0, 101, (24,)).to("cuda"), torch.randint(0, 101, (24,)).to("cuda")

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=autocast):
            loss = nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, (x, y)


@pytest.mark.parametrize("autocast", [False, True])
def test_results_take_the_place_of_inputs_that_die(autocast: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The gradient of logits lies where the logits were, and the losses are those of the eager step."""
    from adjoint.devices.cuda import sizes

    monkeypatch.setattr(sizes, "IN_PLACE", 0)
    step, given = _language_step(autocast)
    expected = [float(step(*given)) for _ in range(6)]
    step, given = _language_step(autocast)
    run = torch.compile(step)
    losses = [float(run(*given)) for _ in range(6)]
    assert not run.refused
    assert any(v.shape == (24, 101) for v in run.traces[0].program.over)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)


def test_a_dropped_function_gives_its_memory_back() -> None:
    """Without the garbage collector: nothing in a program refers back to it."""
    from adjoint.compiler.gpu.memory import Arena

    step, given = _language_step(False)
    run = torch.compile(step)
    for _ in range(4):
        run(*given)
    arena = weakref.ref(run.traces[0].program.player.arena)
    gc.disable()
    try:
        assert arena() in Arena.made
        del run
        assert arena() is None
    finally:
        gc.enable()


def test_buffers_lie_by_size_where_that_takes_less() -> None:
    """Buffers in use at the same time never overlap, and no gaps are left where large ones go first."""
    from adjoint.compiler.gpu.memory import Lives

    lives, rng = Lives(), np.random.default_rng(0)
    found: list[Any] = [object() for _ in range(60)]
    for i, v in enumerate(found):
        lives.add(v, int(rng.integers(1, 40)) << 20)
        for now in sorted(rng.integers(0, 90, 2)) if i % 3 else (i, 89 - i // 2):
            lives.use(v, int(now))
    most, spans = lives.plan(), lives.spans
    at_once = [sum(lives.sizes[v] for v in found if spans[v][0] <= t <= spans[v][1]) for t in range(90)]
    assert max(at_once) <= most <= 1.1 * max(at_once)
    for i, v in enumerate(found):
        for w in found[:i]:
            if spans[v][0] <= spans[w][1] and spans[w][0] <= spans[v][1]:
                a, b = lives.offsets[v], lives.offsets[w]
                assert a + lives.sizes[v] <= b or b + lives.sizes[w] <= a
