"""Programs over what torch documents of its autograd: gradients' kinds, hooks, modes, nodes, compared with torch."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from tests.autograd.programs import Program, Programs, attempt, custom, leaf
from tests.oracle import alike, needs_torch

program = Programs()


def looked_up(T: Any, table: Any) -> Any:
    return T.nn.functional.embedding(T.tensor([1, 1]), table, sparse=True).sum()


@program
def dense_gradient_after_a_sparse_one(T):
    table = T.ones(4, 2, requires_grad=True)
    looked_up(T, table).backward()
    was = table.grad.is_sparse
    (table * 2).sum().backward()
    return was, table.grad.is_sparse, table.grad


@program
def sparse_gradient_after_a_dense_one(T):
    table = T.ones(4, 2, requires_grad=True)
    (table * 2).sum().backward()
    looked_up(T, table).backward()
    return table.grad.is_sparse, table.grad


@program
def sparse_and_dense_gradient_of_one_pass(T):
    table = T.ones(4, 2, requires_grad=True)
    (looked_up(T, table) + (table * 2).sum()).backward()
    return table.grad.is_sparse, table.grad


@program
def two_sparse_gradients(T):
    table = T.ones(4, 2, requires_grad=True)
    looked_up(T, table).backward()
    looked_up(T, table).backward()
    return table.grad.is_sparse, table.grad.to_dense()


@program
def hook_of_an_output_without_gradient(T):
    log: list[Any] = []
    a, b = leaf(T, 1.0, 2.0, 3.0, 4.0).split(2)
    a.register_hook(lambda g: log.append("a"))
    b.register_hook(lambda g: log.append(("b", g)))
    a.sum().backward()
    return log


@program
def hooks_of_outputs_run_as_registered(T):
    log: list[Any] = []

    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 1, x * 2

    x = leaf(T)
    a, b = custom(T, forward, lambda ctx, g, h: g if g is not None else h).apply(x)
    a.grad_fn.register_prehook(lambda gs: log.append([g is None for g in gs]))
    b.register_hook(lambda g: log.append(("b", g)))
    a.register_hook(lambda g: log.append(("a", g)))
    b.sum().backward()
    return log, x.grad


@program
def hook_replaces_an_undefined_gradient(T):
    x = leaf(T, 1.0, 2.0, 3.0, 4.0)
    a, b = x.split(2)
    b.register_hook(lambda g: T.ones(2, dtype=T.float64) if g is None else g * 5)
    refused = attempt(lambda: a.sum().backward(retain_graph=True))
    return refused, T.autograd.grad((a * b).sum(), x, retain_graph=True), T.autograd.grad(b.sum(), b)


@program
def retained_gradient_of_a_hooked_output(T):
    a, b = leaf(T, 1.0, 2.0, 3.0, 4.0).split(2)
    a.register_hook(lambda g: g * 3)
    a.retain_grad()
    (a + b).sum().backward()
    return a.grad, b.requires_grad


@program
def gradient_made_in_inference_mode(T):
    x = leaf(T)
    y = (x * 2).sum()
    with T.inference_mode():
        (g,) = T.autograd.grad(y, x, retain_graph=True)
        y.backward()
    return g.is_inference(), x.grad.is_inference(), x.grad


@program
def weight_made_in_inference_mode(T):
    with T.inference_mode():
        w = T.ones(2, 3)
    linear, b = T.nn.functional.linear, T.ones(2, requires_grad=True)
    x = T.ones(4, 3, requires_grad=True)
    return attempt(lambda: linear(x, w)), attempt(lambda: linear(x, w, b)), linear(x.detach(), w, b)


@program
def nan_of_the_forward_pass(T):
    with T.autograd.detect_anomaly():
        x = leaf(T, -1.0, 2.0)
        y = x.sqrt()
        return y.isnan().tolist(), attempt(lambda: y.sum().backward())


@program
def node_called_by_hand(T):
    x = leaf(T)
    node = (x * x).grad_fn
    ones = T.ones(3, dtype=T.float64)
    end = node.next_functions[0][0]
    return node(ones), attempt(lambda: node()), attempt(lambda: node(ones, ones)), end(ones), x.grad, node.requires_grad


@program
def saved_tensor_handles(T):
    y = leaf(T).exp()
    handle = y.grad_fn._raw_saved_result
    before = handle.data, handle.unpack_hook
    handle.register_hooks(lambda t: t * 2, lambda t: t / 2)
    made = attempt(lambda: type(handle)())
    return before, handle.data, handle.unpack_hook is not None, y.grad_fn._saved_result, made


@program
def saved_tensor_that_was_written_since(T):
    z = leaf(T) * 1
    y = z.sin()
    z.add_(1)
    return attempt(lambda: y.grad_fn._saved_self)


@program
def jacobians_under_their_old_names(T):
    checks = importlib.import_module(f"{T.__name__}.autograd.gradcheck")
    x = leaf(T)
    return (
        checks.get_numerical_jacobian(lambda given: given[0] ** 2, (x,), eps=1e-4),
        checks.get_analytical_jacobian((x,), x**2),
        attempt(lambda: checks.get_analytical_jacobian((x,), x**2, grad_out=2.0)),
    )


@program
def gradients_that_cannot_be_assigned(T):
    x = leaf(T)
    return [
        attempt(lambda g=g: setattr(x, "grad", g)) for g in (T.ones(2), T.ones(3), 3, x, T.ones(2, dtype=T.float64))
    ]


@program
def methods_of_nested_functions(T):
    function = T.autograd.function.NestedIOFunction()
    return attempt(lambda: function.forward_extended(1)), attempt(lambda: function.backward_extended(1))


@needs_torch
@pytest.mark.parametrize("function", program, ids=lambda f: f.__name__)
def test_as_torch_does(function: Program) -> None:
    alike(function)
