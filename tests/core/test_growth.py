"""Slices of the gates of depth and of leaks: work grows as the graph does, and nothing is left behind."""

from __future__ import annotations

import gc
import linecache
import weakref
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.core.tensor import owner_of
from gates import depth, leaks

GRAPHS = ["views", "strided_views", "written_views", "references", "wide_function", "hook_of_all", "parameters"]


@pytest.mark.parametrize("name", GRAPHS)
def test_calls_are_linear(name: str) -> None:
    build, _ = depth.GRAPHS[name]
    build(300)
    few, many = depth.calls(build, 300), depth.calls(build, 1200)
    assert many < depth.CALLS * few


LOOPS = ["modules", "module_hooks", "files", "tensor_hooks", "compiled", "schedulers", "views"]


@pytest.mark.parametrize("name", LOOPS)
def test_nothing_is_left_for_the_collector(name: str) -> None:
    run = leaks.FEATURES[name]
    run(adjoint)
    gc.collect()
    gc.disable()
    try:
        run(adjoint)
        before = len(gc.get_objects())
        for _ in range(10):
            run(adjoint)
        assert len(gc.get_objects()) - before < 10
    finally:
        gc.enable()


def test_a_long_chain_of_views_is_replayed_as_one() -> None:
    x = adjoint.arange(6.0).reshape(2, 3).requires_grad_()
    base = x * 1
    y = base
    for _ in range(40):
        y = y.t()
    y[0].mul_(adjoint.tensor([2.0, 3.0, 4.0]))
    z = y[1]
    z.mul_(5)
    (base.sum() + y[:, 0].sum()).backward()
    assert base.detach().numpy().tolist() == [[0, 3, 8], [15, 20, 25]]
    assert x.grad is not None
    assert x.grad.numpy().tolist() == [[4, 3, 4], [10, 5, 5]]


def test_a_long_chain_of_complex_views() -> None:
    x = adjoint.ones(2, 2, dtype=adjoint.complex64, requires_grad=True)
    base = x * 1
    y = adjoint.view_as_real(base)
    for _ in range(40):
        y = y.transpose(0, 1)
    y.mul_(3.0)
    base.abs().sum().backward()
    assert x.grad is not None
    assert np.allclose(x.grad.numpy(), 3)


def test_strided_views_of_views_know_who_owns_their_memory() -> None:
    x = adjoint.arange(12.0)
    y = x
    for _ in range(5):
        y = y.as_strided((3, 4), (4, 1)).unfold(0, 3, 1).reshape(12) if y.dim() == 2 else y.as_strided((3, 4), (4, 1))
    seen, steps = y.array, 0
    while seen.base is not None:
        seen, steps = seen.base, steps + 1
    assert steps <= 4
    assert owner_of(y.array).size == 12
    frozen = adjoint.from_numpy(np.arange(4.0)).as_strided((2, 2), (2, 1)).as_strided((4,), (1,))
    assert frozen.tolist() == [0, 1, 2, 3]


def test_hooks_of_many_gradients_do_not_hold_their_tensors() -> None:
    x = adjoint.ones(2, requires_grad=True)
    y = x * 2
    found: list[Any] = []
    adjoint.autograd.graph.register_multi_grad_hook((x, y), found.extend)
    gone = weakref.ref(y)
    y.sum().backward()
    assert len(found) == 2
    gc.disable()
    try:
        found.clear()
        del y
        assert gone() is None
    finally:
        gc.enable()


def test_one_of_the_tensors_of_a_hook_is_gone() -> None:
    x = adjoint.ones(2, requires_grad=True)
    y, z = x * 2, x * 3
    found: list[Any] = []
    adjoint.autograd.graph.register_multi_grad_hook((y, z), found.extend)
    del z
    y.sum().backward()
    assert [None if g is None else g.tolist() for g in found] == [[1, 1], None]


def test_a_state_dict_is_loaded_below_names_with_dots() -> None:
    model: Any = adjoint.nn.Module()
    model.a = adjoint.nn.Linear(1, 1)
    model._modules["a.b"] = adjoint.nn.Linear(1, 1)
    state = OrderedDict((k, v + 1) for k, v in model.state_dict().items())
    model.load_state_dict(state, strict=False)
    assert model._modules["a.b"].weight.item() == state["a.b.weight"].item()
    assert model.a.bias.item() == state["a.bias"].item()


def test_wide_functions_know_their_tensors() -> None:
    class Marked(adjoint.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *xs: Any) -> Any:
            xs[3].mul_(2)
            ctx.mark_dirty(xs[3])
            constant = xs[5] * 2
            ctx.mark_non_differentiable(constant)
            return (*xs[:4], constant, xs[0] * 3)

        @staticmethod
        def backward(ctx: Any, *gs: Any) -> Any:
            return tuple([gs[i] * (i + 1) if i < 4 else None for i in range(20)])

    xs = [adjoint.ones(1, requires_grad=True) for _ in range(20)]
    given = [x * 1 for x in xs]
    outs = Marked.apply(*given)
    assert outs[3] is given[3] and outs[0] is not given[0]
    assert [o.requires_grad for o in outs] == [True, True, True, True, False, True]
    sum(o.sum() for o in outs).backward()
    assert [None if x.grad is None else x.grad.item() for x in xs[:6]] == [1, 2, 3, 4, None, None]


def test_the_text_of_a_dropped_graph_is_forgotten() -> None:
    traced: Any = adjoint.fx.symbolic_trace(adjoint.nn.Sequential(adjoint.nn.ReLU()))
    name = type(traced).forward.__code__.co_filename
    assert name in linecache.cache
    del traced
    gc.collect()
    assert name not in linecache.cache


def test_the_time_of_one_hook_for_many_gradients_is_linear() -> None:
    wrong, said = depth.judge("hook_of_all", 400_000)
    assert not wrong, said
