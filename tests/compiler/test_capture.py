"""A captured program, run again on other inputs, does what the program does: values, gradients, writes, draws."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint import nn
from adjoint.compiler import GUARD, WRITE, Captured, CaptureError, Graph, GuardFailure, Line, capture
from adjoint.nn import functional as F

rng = np.random.default_rng(0)


def normal(*shape: int) -> Any:
    return adjoint.tensor(rng.normal(size=shape))


def leaf(*shape: int) -> Any:
    return normal(*shape).requires_grad_()


def same(a: Any, b: Any) -> None:
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12, atol=1e-14)


def agree(program: Captured, step: Callable[..., Any], state: list[Any], *args: Any) -> None:
    """Run the captured program and the program itself from the same state; compare results, state, gradients."""
    before = [t.detach().clone() for t in state]
    adjoint.manual_seed(7)
    expected = step(*args)
    after = [t.detach().clone() for t in state]
    grads = [None if t.grad is None else t.grad.clone() for t in state]
    with adjoint.no_grad():
        for t, old in zip(state, before, strict=True):
            t.copy_(old)
            t.grad = None
    adjoint.manual_seed(7)
    found = program(*args)
    for a, b in zip(found, expected, strict=True):
        same(a, b)
    for t, new, grad in zip(state, after, grads, strict=True):
        same(t, new)
        assert (t.grad is None) == (grad is None)
        if grad is not None:
            same(t.grad, grad)


def test_training_step_with_everything_in_it() -> None:
    w, b, momentum = leaf(4, 3), leaf(3), adjoint.zeros(4, 3, dtype=adjoint.float64)

    def step(x: Any, y: Any) -> Any:
        w.grad = b.grad = None
        h = F.dropout((x @ w + b).tanh(), 0.5)
        loss = F.mse_loss(h, y)
        loss.backward()
        with adjoint.no_grad():
            momentum.mul_(0.9).add_(w.grad)
            w.sub_(momentum * 0.1)
            b.sub_(b.grad, alpha=0.1)
            w[0].mul_(2.0)
            w.T[1, :2] += 1.0
        return loss.detach(), w.detach()[0].clone()

    program = capture(step)(normal(5, 4), normal(5, 3))
    program.graph.check()
    for _ in range(3):
        agree(program, step, [w, b, momentum], normal(5, 4), normal(5, 3))


def _views(x: Any) -> Any:
    base = x * 1.0
    part, other = base[1:], base.T
    part.add_(1)
    other[0].mul_(3)
    base[:, 0] = x[:, 1]
    flat = base.view(-1)
    flat[2::3] = -flat[::3]
    base.as_strided((2, 2), (1, 2)).mul_(0.5)
    return base, part, other, flat


def _masks(x: Any) -> Any:
    y = x.clone()
    y[x > 0] = 0.0
    y.masked_fill_(x < -1, 9.0)
    y.index_add_(0, adjoint.tensor([0, 2]), x[:2])
    return y, y.sort(dim=1).values, y.relu_()


def _second_order(x: Any) -> Any:
    (g,) = adjoint.autograd.grad((x**3).sum(), x, create_graph=True)
    return adjoint.autograd.grad((g * g).sum(), x)


def _accumulated(x: Any) -> Any:
    for factor in (2.0, 3.0):
        (x * factor).sin().sum().backward()
    return (x.grad.clone(),)


def _hooked(x: Any) -> Any:
    y = x * 2
    y.register_hook(lambda g: g * 10)
    return adjoint.autograd.grad(y.sin().sum(), x)


def _draws(x: Any) -> Any:
    noise = adjoint.randn(3, 4, dtype=adjoint.float64)
    return x + noise, adjoint.rand_like(x), adjoint.bernoulli(x.sigmoid()), adjoint.randperm(5), x.clone().normal_()


def _types(x: Any) -> Any:
    y = x.to(adjoint.float32)
    y += x
    count = (x > 0).sum()
    count *= 2
    return y, count, x.view(adjoint.int64), y.double().view(3, 2, 2)


def _normed(x: Any) -> Any:
    running, square = adjoint.zeros(4, dtype=adjoint.float64), adjoint.ones(4, dtype=adjoint.float64)
    y = F.batch_norm(x, running, square, training=True)
    return y, running, square, F.layer_norm(y, (4,))


PROGRAMS = [_views, _masks, _second_order, _accumulated, _hooked, _draws, _types, _normed]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__.strip("_"))
def test_runs_again_on_other_inputs(program: Callable[..., Any]) -> None:
    needs = program in (_second_order, _accumulated, _hooked)
    first, second = (leaf(3, 4), leaf(3, 4)) if needs else (normal(3, 4), normal(3, 4))
    adjoint.manual_seed(1)
    captured = capture(program)(first)
    adjoint.manual_seed(2)
    found = captured(second)
    second.grad = None
    adjoint.manual_seed(2)
    for a, b in zip(found, program(second), strict=True):
        assert a.dtype == b.dtype and a.shape == b.shape
        same(a, b)


_weight = normal(4, 4)


def _energy(x: Any) -> Any:
    return ((x @ _weight).tanh() ** 2).sum()


def _forward_mode(x: Any) -> Any:
    from adjoint.autograd import forward_ad

    with forward_ad.dual_level():
        return forward_ad.unpack_dual(_energy(forward_ad.make_dual(x, x * 3))).tangent


def _batched_gradients(x: Any) -> Any:
    z = x.clone().requires_grad_()
    return adjoint.autograd.grad((z @ _weight).tanh(), z, x.expand(2, 3, 4), is_grads_batched=True)[0]


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "vmap": lambda x: adjoint.func.vmap(lambda row: (row * 2).sin().sum())(x),
    "grad": lambda x: adjoint.func.grad(_energy)(x),
    "vjp": lambda x: adjoint.func.vjp(_energy, x)[1](x.sum())[0],
    "vmap of grad": lambda x: adjoint.func.vmap(adjoint.func.grad(_energy))(x),
    "jvp": lambda x: adjoint.func.jvp(_energy, (x,), (x * 2,))[1],
    "jacrev": lambda x: adjoint.func.jacrev(lambda v: (v @ _weight).tanh())(x[0]),
    "jacfwd": lambda x: adjoint.func.jacfwd(lambda v: (v @ _weight).tanh())(x[0]),
    "hessian": lambda x: adjoint.func.hessian(_energy)(x[0]),
    "forward mode": _forward_mode,
    "batched gradients": _batched_gradients,
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_transforms_are_seen_through(name: str) -> None:
    program = capture(lambda x: (TRANSFORMS[name](x),))(normal(3, 4))
    x = normal(3, 4)
    same(program(x)[0], TRANSFORMS[name](x))


class _Cube(adjoint.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        (x,) = ctx.saved_tensors
        return 3 * x * x * g


def test_custom_function_is_seen_through() -> None:
    w = leaf(3)

    def step(x: Any) -> Any:
        w.grad = None
        _Cube.apply(w * x).sum().backward()
        return ()

    program = capture(step)(normal(3))
    agree(program, step, [w], normal(3))
    assert {line.op.name for line in program.graph} >= {"mul", "expand"}


def test_values_python_looks_at_are_guards() -> None:
    def step(x: Any) -> Any:
        scale = 2.0 if x.sum() > 0 else -1.0
        return (x * scale * int(x[0]),)

    program = capture(step)(adjoint.tensor([1.0, 2.0]))
    guards = [line for line in program.graph if line.op is GUARD]
    assert [line.params for line in guards] == [("bool()", True), ("item()", 1.0)]
    assert all("test_capture.py" in line.place for line in guards)
    same(program(adjoint.tensor([1.0, 5.0]))[0], adjoint.tensor([2.0, 10.0]))
    with pytest.raises(GuardFailure, match=r"bool\(\) of v\d+ was True and is False.*test_capture.py"):
        program(adjoint.tensor([1.0, -5.0]))


def test_arguments_of_another_kind_are_refused() -> None:
    program = capture(lambda x, n: (x * n,))(normal(3), 2)
    for args, message in [
        ((normal(4), 2), "float64.3. and is float64.4."),
        ((normal(3), 3), "argument 1 was 2 and is 3"),
    ]:
        with pytest.raises(GuardFailure, match=message):
            program(*args)


def test_nothing_is_written_when_a_guard_fails() -> None:
    total = adjoint.zeros(2, dtype=adjoint.float64)

    def step(x: Any) -> Any:
        total.add_(x)
        return (x * 2,) if bool(x.sum() > 0) else (x,)

    program = capture(step)(adjoint.ones(2, dtype=adjoint.float64))
    with pytest.raises(GuardFailure):
        program(-adjoint.ones(2, dtype=adjoint.float64))
    assert total.tolist() == [1.0, 1.0]


def test_outside_tensors_are_references() -> None:
    table = adjoint.ones(2)
    program = capture(lambda x: (x + table,))(adjoint.zeros(2))
    table.fill_(5.0)
    assert program(adjoint.zeros(2))[0].tolist() == [5.0, 5.0]
    table.data = adjoint.tensor([7.0, 8.0])
    assert program(adjoint.zeros(2))[0].tolist() == [7.0, 8.0]


def test_a_gradient_that_was_there_is_added_to() -> None:
    w = leaf(3)
    w.grad = normal(3)

    def step(x: Any) -> Any:
        (w * x).sum().backward()
        return ()

    program = capture(step)(normal(3))
    assert [r.attribute for r in program.graph.outside if r.tensor is w] == ["grad"]
    w.grad, x = adjoint.ones(3, dtype=adjoint.float64), normal(3)
    program(x)
    same(w.grad, 1 + x)
    w.grad = None
    with pytest.raises(GuardFailure, match="had one when the program was captured"):
        program(x)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_optimizers(name: str) -> None:
    adjoint.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3)).double()
    optimizer = getattr(adjoint.optim, name)(net.parameters(), lr=0.01, **({"momentum": 0.9} if name == "SGD" else {}))

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        return (loss.detach(),)

    def batch() -> Any:
        return normal(5, 4), adjoint.tensor(rng.integers(0, 3, 5))

    step(*batch())  # makes the state
    program = capture(step)(*batch())
    twin = {k: v.clone() for k, v in net.state_dict().items()}, optimizer.state_dict()
    saved = adjoint.tree.tree_map(lambda v: v.clone() if isinstance(v, adjoint.Tensor) else v, twin[1])
    batches = [batch() for _ in range(3)]
    found = [program(*b)[0].item() for b in batches]
    net.load_state_dict(twin[0])
    optimizer.load_state_dict(saved)
    np.testing.assert_allclose(found, [step(*b)[0].item() for b in batches], rtol=1e-9)


def test_clipping_is_done_anew() -> None:
    w = leaf(4)

    def step(x: Any) -> Any:
        w.grad = None
        (w * x).sum().backward()
        return (nn.utils.clip_grad_norm_([w], 1.0),)

    program = capture(step)(normal(4) * 0.01)  # small: nothing to clip in the captured run
    agree(program, step, [w], normal(4) * 10)


def test_state_made_on_the_way_is_refused() -> None:
    kept: dict[str, Any] = {}

    def step(x: Any) -> Any:
        if "m" not in kept:
            kept["m"] = x * 0
        kept["m"].add_(x)
        return (kept["m"].clone(),)

    program = capture(step)(normal(2))
    with pytest.raises(GuardFailure, match=r"mul at .*test_capture.py.*run the program once before"):
        program(normal(2))
    again = capture(step)(normal(2))
    assert not again.graph.escapes


def test_a_write_that_is_no_op_is_refused() -> None:
    def step(x: Any) -> Any:
        y = x.clone()
        np.add.at(y, np.array([0]), 1.0)
        return (y,)

    try:
        program = capture(step)(normal(3))
    except CaptureError as error:
        assert "test_capture.py" in str(error)
    else:
        x = normal(3)
        same(program(x)[0], step(x)[0])


# --- the graph itself -------------------------------------------------------------------------------


def _graph() -> Graph:
    w = leaf(2)

    def step(x: Any) -> Any:
        unused = x.exp()
        del unused
        with adjoint.no_grad():
            w.mul_(2)
        return ((w * x).detach(),)

    return capture(step)(normal(2)).graph


def test_text_names_ops_shapes_and_lines() -> None:
    text = str(_graph())
    assert "argument v1: float64[2]" in text and "outside v" in text
    assert "= mul(v" in text and "write v" in text and "return v" in text
    assert text.count("test_capture.py:") >= 2 and "exp(" not in text


def test_rewriting() -> None:
    graph = _graph()
    twin = graph.copy()
    (write,) = [line for line in twin if line.op is WRITE]
    doubled = write.operands[1]
    maker = twin.makers()[doubled]
    assert maker.op.name == "mul" and write in twin.users()[doubled]
    tripled = twin.value(doubled)
    twin.add(Line(maker.op, (maker.operands[0], 3), (), (tripled,)), before=write)
    twin.replace(doubled, tripled)
    twin.lines.sort(key=lambda line: line.op is WRITE or tripled in line.operands)
    twin.prune()
    twin.check()
    (reference,) = twin.outside
    before, x = reference.tensor.detach().clone(), normal(2)
    same(twin.run(x)[0], before * 3 * x)
    same(reference.tensor, before * 3)
    assert len(graph) == len(_graph())


def test_check_finds_a_value_out_of_order() -> None:
    graph = _graph()
    graph.lines.reverse()
    with pytest.raises(ValueError, match="used before it is made"):
        graph.check()


def test_parameters_that_have_no_values_yet_do_not_matter() -> None:
    lazy = adjoint.nn.LazyLinear(3)
    captured = capture(lambda x: x * 2)(adjoint.ones(2))
    assert captured(adjoint.ones(2)).tolist() == [2.0, 2.0]
    assert lazy.has_uninitialized_params()


def test_what_a_program_lets_go_is_gone() -> None:
    """Capturing takes no more memory than running; and an address that is used again is another value."""
    alive = []

    def step(x: Any) -> Any:
        total = x * 0
        for i in range(6):
            y = (x + i).exp().reshape(-1)  # a view of what nobody else refers to
            alive.append(weakref.ref(y.array.base))
            total = total + y.reshape(x.shape)
        return total

    x = normal(40, 50)
    program = capture(step)(x)
    assert sum(ref() is not None for ref in alive) == 0
    agree(program, step, [], normal(40, 50))


def test_a_tensor_inside_a_transform_may_be_alive() -> None:
    """A traceback, or another thread, may hold one: it has no memory of its own to look for."""
    held = []

    def note(x: adjoint.Tensor) -> adjoint.Tensor:
        held.append(x)
        return x * 2

    adjoint.func.vmap(note)(adjoint.ones(3, 2))
    adjoint.func.jvp(note, (adjoint.ones(2),), (adjoint.ones(2),))
    program = adjoint.compile(lambda x: (x * 3).sum())
    x = adjoint.ones(2, requires_grad=True)
    program(x).backward()
    assert x.grad is not None and x.grad.tolist() == [3.0, 3.0]
    exported = adjoint.export.export(adjoint.nn.Linear(2, 1), (adjoint.ones(1, 2),))
    assert exported.module()(adjoint.ones(1, 2)).shape == (1, 1)
    assert len(held) == 2
