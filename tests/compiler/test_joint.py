"""Forward and backward programs as one node of the caller's graph."""

from __future__ import annotations

from typing import Any

import pytest

import adjoint
from adjoint import nn
from adjoint.compiler.memory import Spare


def trained(function: Any, calls: int = 3) -> Any:
    compiled = adjoint.compile(function, fullgraph=True)
    for _ in range(calls):
        compiled(adjoint.ones(3, requires_grad=True))
    return compiled


def test_gradients_are_not_copied_into_parameters() -> None:
    model = nn.Linear(4, 2)
    compiled = adjoint.compile(model, fullgraph=True)
    for _ in range(4):
        model.zero_grad()
        compiled(adjoint.randn(3, 4)).sum().backward()
    assert all(p.grad.array.base is None for p in model.parameters())


def test_a_second_backward_pass_needs_retain_graph() -> None:
    compiled = trained(lambda x: (x * x).sum())
    x = adjoint.ones(3, requires_grad=True)
    y = compiled(x)
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4.0, 4.0, 4.0]
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()


def test_a_written_argument_that_backward_reads_is_refused() -> None:
    compiled = trained(lambda x: (x * x).sum())
    x = adjoint.ones(3, requires_grad=True)
    y = compiled(x)
    with adjoint.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_an_argument_that_is_returned_is_the_argument() -> None:
    compiled = adjoint.compile(lambda x: (x, x.detach(), x.view(3), x * 2), fullgraph=True)
    for _ in range(4):
        x = adjoint.ones(3, requires_grad=True)
        same, detached, view, double = compiled(x)
        assert same is x and not detached.requires_grad
        (same.sum() + view.sum() + double.sum()).backward()
        assert x.grad.tolist() == [4.0, 4.0, 4.0]


def test_a_gradient_that_is_differentiated_again_makes_the_function_run_uncompiled() -> None:
    compiled = adjoint.compile(lambda x: (x**3).sum())
    w = adjoint.tensor([1.0, 2.0], requires_grad=True)
    found = []
    with pytest.warns(RuntimeWarning, match="differentiated again"):
        for _ in range(4):
            (g,) = adjoint.autograd.grad(compiled(w * 1), w, create_graph=True)
            found.append(adjoint.autograd.grad(g.sum(), w)[0].tolist())
    assert found == [[6.0, 12.0]] * 4
    assert compiled.refused


def test_two_forward_passes_before_their_backward_passes_keep_their_own_values() -> None:
    function = lambda x: (x.sin() * x.tanh() * x).sum(1)
    compiled = adjoint.compile(function, fullgraph=True)
    for _ in range(3):
        compiled(adjoint.ones(300, 300, requires_grad=True)).sum().backward()
    adjoint.manual_seed(0)
    xs = [adjoint.randn(300, 300, requires_grad=True) for _ in range(3)]
    outs = [compiled(x) for x in xs]
    for x, out in zip(xs, outs, strict=True):
        out.sum().backward()
        (expected,) = adjoint.autograd.grad(function(x).sum(), x)
        adjoint.testing.assert_close(x.grad, expected)


def test_memory_is_used_again_only_when_nothing_refers_to_it() -> None:
    spare = Spare((4,), adjoint.zeros(1).array.dtype)
    first = spare()
    view = first[1:]
    address = first.ctypes.data
    del first
    assert spare().ctypes.data != address  # the view still looks at it
    del view
    second = spare()
    address = second.ctypes.data
    del second
    assert spare().ctypes.data == address


def test_a_scalar_loss_is_scaled_before_its_backward_pass() -> None:
    # Rules on arrays of no dimensions return NumPy's scalars, which machine code cannot read.
    w = adjoint.ones(3, requires_grad=True)
    compiled = adjoint.compile(lambda x: (x * w).sum() * x.sum(), fullgraph=True)
    for _ in range(4):
        w.grad = None
        (-compiled(adjoint.arange(3.0)) / 2).backward()
        assert w.grad is not None
        assert w.grad.tolist() == [0.0, -1.5, -3.0]
