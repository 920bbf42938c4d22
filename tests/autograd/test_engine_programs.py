"""The backward pass as programs see it: leaves that are frozen, `.grad`, arguments, hooks, edges, against torch."""

from __future__ import annotations

import collections
import gc
import pickle
import re
import threading
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import adjoint
from tests.oracle import needs_torch, same

from .programs import Program, Programs, attempt, custom, leaf

program = Programs()


def answer(function: Callable[[], Any]) -> Any:
    """Return what a function returns, or the class and the key phrase of its refusal."""
    try:
        return function()
    except Exception as error:
        kind = next(k.__name__ for k in type(error).__mro__ if k.__module__ == "builtins")
        return kind, re.split(r"[.:,;(]", str(error))[0][:60].replace("torch", "").replace("adjoint", "").strip()


def ones(T: Any, *shape: int) -> Any:
    return T.ones(shape or (3,), dtype=T.float64)


# --- Leaves that are frozen between the forward and the backward pass --------------------------------------

FREEZING = {
    "requires_grad_": lambda T, w: w.requires_grad_(False),
    "requires_grad": lambda T, w: setattr(w, "requires_grad", False),
    "detach_": lambda T, w: w.detach_(),
}


def frozen_leaf(how: str) -> Program:
    def run(T):
        x, w = leaf(T), leaf(T, 2.0, 2.0, 2.0)
        log = []
        w.register_hook(lambda g: log.append("tensor"))
        w.register_post_accumulate_grad_hook(lambda t: log.append("accumulated"))
        y = (x * w).sum()
        FREEZING[how](T, w)
        y.backward()
        return x.grad, w.grad, w.requires_grad, w.is_leaf, log

    run.__name__ = f"frozen_by_{how}"
    return run


def thawed_leaf(how: str) -> Program:
    def run(T):
        w = leaf(T)
        y = (w * 2).sum()
        FREEZING[how](T, w)
        w.requires_grad_()
        z = (w * 5).sum()
        return T.autograd.grad(y + z, w, retain_graph=True), (y + z).backward(), w.grad

    run.__name__ = f"thawed_after_{how}"
    return run


for _how in FREEZING:
    program.append(frozen_leaf(_how))
    program.append(thawed_leaf(_how))


@program
def a_frozen_module_is_not_moved(T):
    T.manual_seed(0)
    model = T.nn.Sequential(T.nn.Linear(2, 2), T.nn.Linear(2, 1))
    optimizer = T.optim.SGD(model.parameters(), lr=0.1)
    loss = model(T.ones(1, 2)).sum()
    model[0].requires_grad_(False)
    before = model[0].weight.detach().clone()
    loss.backward()
    optimizer.step()
    return model[0].weight.grad, model[0].bias.grad, model[0].weight - before, model[1].weight.grad is not None


@program
def a_saved_tensor_that_was_detached_is_refused(T):
    x = leaf(T)
    a, b, c = x * 2, x.exp(), x * 3
    square, double = (a * a).sum(), (c * 2).sum()
    a.detach_(), b.detach_(), c.detach_()
    return answer(square.backward), answer(double.backward), x.grad


# --- Views of leaves that have no history ------------------------------------------------------------------


def unrecorded_views(T, early):
    base = T.tensor([1.0, 2.0, 3.0], dtype=T.float64, requires_grad=not early)
    with T.no_grad():
        v, w = base[:2], base[1:]
    base.requires_grad_()
    return base, v, w


def leaf_views(early: bool) -> Program:
    def run(T):
        base, v, w = unrecorded_views(T, early)
        y = (v * 2 + w * 5).sum()
        return (
            y.grad_fn.next_functions, v.requires_grad, v.is_leaf, repr(v),
            answer(lambda: T.autograd.grad(y, [v, w])),
            T.autograd.grad(y, [v, w], allow_unused=True),
            answer(y.backward), v.grad, w.grad, base.grad,
            answer(v[0].backward), answer(lambda: T.autograd.graph.get_gradient_edge(v)),
        )[1:]  # fmt: skip

    run.__name__ = f"views_of_a_leaf_{'before' if early else 'without'}_recording"
    return run


program.append(leaf_views(True))
program.append(leaf_views(False))


# --- `.grad`: who owns it, how it lies, what it may be ---------------------------------------------------------


@program
def gradients_have_the_strides_of_their_tensors(T):
    found = []
    for make in (
        lambda: T.ones(2, 3).t(),
        lambda: T.ones(2, 3, 4, 5).to(memory_format=T.channels_last),
        lambda: T.ones(1, 3).expand(2, 3),
        lambda: T.ones(4, 6)[:, ::2],
        lambda: T.ones(2, 3, 4).permute(2, 0, 1),
    ):
        x = make().detach().requires_grad_()
        (x * 2).sum().backward()
        x2 = make().detach().requires_grad_()
        (x2 * x2).sum().backward(create_graph=True)
        found.append((x.stride(), x.grad.stride(), x2.grad.stride()))
    x = T.ones(2, 3, requires_grad=True)
    (x * 1).backward(T.ones(3, 2).t())
    return found, x.grad.stride()


@program
def a_gradient_is_accumulated_in_place_even_with_a_graph_of_its_own(T):
    x = leaf(T)
    (x * x).sum().backward(create_graph=True)
    first = x.grad
    (x * x).sum().backward()
    y = leaf(T)
    y.grad = given = T.ones(3, dtype=T.float64, requires_grad=True)
    (y * 2).sum().backward()
    return x.grad is first, x.grad, y.grad is given, y.grad, y.grad.requires_grad


@program
def recorded_gradients_of_two_leaves_are_two_tensors(T):
    x, y = leaf(T), leaf(T)
    (x + y).sum().backward(create_graph=True)
    with T.no_grad():
        x.grad.add_(1)
    return x.grad, y.grad


@program
def a_version_is_counted_for_a_gradient_that_is_looked_at(T):
    x = leaf(T)
    x.sum().backward()
    held = x.grad
    before = held._version
    x.sum().backward()
    return held._version - before, held


@program
def a_gradient_of_another_shape_is_not_added(T):
    x = leaf(T)
    x.sum().backward()
    x.data = ones(T, 2)
    return answer((x * 2).sum().backward), x.grad


@program
def a_gradient_that_arrives_as_it_started_is_that_tensor(T):
    x, y, g = leaf(T), leaf(T), ones(T)
    (same_one,) = T.autograd.grad(x, x, g)
    a, b = T.autograd.grad(x + y, (x, y), g)
    return same_one is g, a is b, a is g


@program
def an_exception_leaves_finished_gradients(T):
    class Fails(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise ValueError("no")

    x, w = leaf(T), leaf(T)
    y = (Fails.apply(x) + w).sum()
    return answer(y.backward), x.grad, w.grad


@program
def a_hook_sees_gradients_that_are_complete(T):
    x, w = leaf(T), leaf(T)
    seen = []
    y = x * 2
    y.register_hook(lambda g: seen.append(w.grad is not None))
    (y + w).sum().backward()
    return seen


# --- Arguments of grad and backward -----------------------------------------------------------------------------


@program
def gradients_that_do_not_fit(T):
    x = leaf(T)
    given = (
        ones(T, 2), ones(T, 1, 3), ones(T, 1), T.ones(3), T.ones(3, dtype=T.complex64), T.ones(3, dtype=T.long), 1.0,
        "a", None, [ones(T)], (ones(T), ones(T)), [None],
    )  # fmt: skip
    found = [answer(lambda g=g: T.autograd.grad(x * 2, x, g)) for g in given]
    return found, [answer(lambda g=g: (x * 2).backward(g)) for g in given], x.grad


@program
def more_and_fewer_gradients_than_tensors(T):
    x = leaf(T)
    y, one = x.sum(), T.tensor(1.0, dtype=T.float64)
    return (
        answer(lambda: T.autograd.grad([y, y], x, [one])),
        answer(lambda: T.autograd.backward(y, [one, None], retain_graph=True)),
        answer(lambda: T.autograd.backward([y, y], ones(T, 2))),
        answer(lambda: T.autograd.backward([y, y], [None, None])),
        x.grad,
    )


@program
def what_is_no_tensor_is_refused(T):
    x = leaf(T)
    y = x.sum()
    return [
        answer(f)
        for f in (
            lambda: T.autograd.grad(3.0, x), lambda: T.autograd.grad([y, 2.0], x), lambda: T.autograd.grad(y, 3.0),
            lambda: T.autograd.grad(y, [x, 3.0]), lambda: T.autograd.grad(None, x), lambda: T.autograd.grad(y, None),
            lambda: T.autograd.backward(None), lambda: T.autograd.backward([3.0]), lambda: y.backward(inputs=[3.0]),
            lambda: T.autograd.grad(y, []), lambda: y.backward(inputs=[]), lambda: T.autograd.grad(y, ones(T)),
            lambda: y.backward(inputs=[ones(T)]), lambda: T.autograd.grad([], x),
        )
    ]  # fmt: skip


@program
def inputs_in_a_dict(T):
    x, w, u = leaf(T), leaf(T), leaf(T)
    y = (x * 2 + w * 3).sum()
    names = {"x": x, "w": w}
    found = T.autograd.grad(y, names, retain_graph=True)
    unused = [
        answer(lambda: T.autograd.grad(y, {**names, "u": u}, retain_graph=True)),
        T.autograd.grad(y, {**names, "u": u}, allow_unused=True, retain_graph=True),
        T.autograd.grad(y, {"u": u}, materialize_grads=True, retain_graph=True),
        answer(lambda: T.autograd.grad(y, {})),
        answer(lambda: T.autograd.grad(y, collections.UserDict(names))),
        answer(lambda: y.backward(inputs=collections.UserDict(names))),
    ]
    y.backward(inputs={"x": x})
    return type(found).__name__, found, unused, x.grad, w.grad


@program
def materialized_gradients_can_be_differentiated(T):
    x, w = leaf(T), leaf(T)
    _, zero = T.autograd.grad((x * x).sum(), [x, w], materialize_grads=True, create_graph=True)
    return zero, zero.requires_grad


@program
def batches_of_gradients_that_do_not_fit(T):
    x = leaf(T)
    y = x * x
    return [
        answer(lambda g=g: T.autograd.grad(y, x, g, is_grads_batched=True, retain_graph=True))
        for g in (ones(T, 3), ones(T, 2, 2), ones(T, 2, 3))
    ]


@program
def grad_variables_is_the_older_name(T):
    x = leaf(T)
    T.autograd.backward(x * 2, grad_variables=ones(T))
    return x.grad, answer(lambda: T.autograd.backward(x * 2, ones(T), grad_variables=ones(T)))


@program
def integers_do_not_require_gradients(T):
    n = T.tensor([1])
    return [
        answer(f)[0:2]
        for f in (
            lambda: n.requires_grad_(), lambda: setattr(n, "requires_grad", True),
            lambda: T.tensor([1], requires_grad=True), lambda: T.nn.Parameter(n), lambda: n.requires_grad_(1),
        )
    ]  # fmt: skip


# --- Inputs of backward: what runs there ------------------------------------------------------------------------


def watched(x, y, log):
    """Register a hook of every kind at a leaf and at what is computed from it."""
    accumulate = y.grad_fn.next_functions[0][0]
    for name, tensor, node in (("x", x, accumulate), ("y", y, y.grad_fn)):
        tensor.register_hook(lambda g, name=name: log.append((name, "tensor")))
        node.register_prehook(lambda g, name=name: log.append((name, "pre")))
        node.register_hook(lambda i, o, name=name: log.append((name, "post", i, o)))
    x.register_post_accumulate_grad_hook(lambda t: log.append(("x", "accumulated")))


def hooks_at_inputs(name: str, run_pass: Callable[..., Any]) -> Program:
    def run(T):
        x = leaf(T)
        y = x * 2
        log: list[Any] = []
        watched(x, y, log)
        result = run_pass(T, x, y, (y * 3).sum())
        return result, log, x.grad, y.retains_grad and y.grad

    run.__name__ = f"hooks_at_inputs_{name}"
    return run


for _name, _pass in {
    "backward": lambda T, x, y, z: z.backward(),
    "backward_leaf": lambda T, x, y, z: z.backward(inputs=[x]),
    "backward_non_leaf": lambda T, x, y, z: z.backward(inputs=[y]),
    "backward_both": lambda T, x, y, z: z.backward(inputs=[x, y]),
    "grad_leaf": lambda T, x, y, z: T.autograd.grad(z, x),
    "grad_non_leaf": lambda T, x, y, z: T.autograd.grad(z, y),
    "grad_both": lambda T, x, y, z: T.autograd.grad(z, [x, y]),
}.items():
    program.append(hooks_at_inputs(_name, _pass))


@program
def the_gradient_of_an_input_is_retained(T):
    x = leaf(T)
    y = x * 2
    z = (y * 3).sum()
    for _ in range(2):
        z.backward(inputs=[y], retain_graph=True)
    z.backward()
    return y.grad, x.grad, y.retains_grad


@program
def captured_before_hooks_where_the_pass_goes_on(T):
    x = leaf(T)
    y = x * 2
    y.register_hook(lambda g: g * 10)
    return T.autograd.grad(y.sum(), [y, x], retain_graph=True), T.autograd.grad(y.sum(), y)


# --- Hooks: when they run, and with what --------------------------------------------------------------------------


@program
def hooks_of_undefined_gradients(T):
    class Nothing(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return None

    x, w = leaf(T), leaf(T)
    log = []
    y = x * 2
    y.retain_grad()
    x.register_hook(lambda g: log.append(("x", g)))
    y.register_hook(lambda g: log.append(("y", g)))
    x.register_post_accumulate_grad_hook(lambda t: log.append(("accumulated", t.grad)))
    (Nothing.apply(y) + w).sum().backward()
    return log, x.grad, y.grad, w.grad


@program
def hooks_that_change_the_type(T):
    found = []
    for given in (T.ones(3), ones(T, 2), 1, [ones(T)]):
        x = leaf(T)
        y = x * 2
        y.register_hook(lambda g, given=given: given)
        try:
            y.sum().backward()
        except Exception as error:
            found.append(str(error).split(",")[0])
    return [phrase for phrase in found if "size" not in phrase]


def parameters_in_order(name: str, make: Callable[[Any], Any], shape: tuple[int, ...]) -> Program:
    def run(T):
        model, log = make(T), []
        for key, p in model.named_parameters():
            p.register_post_accumulate_grad_hook(lambda t, key=key: log.append(key))
        model(T.ones(shape)).sum().backward()
        return log, len(next(model.parameters())._post_accumulate_grad_hooks)

    run.__name__ = f"gradients_arrive_in_order_{name}"
    return run


for _name, _make, _shape in (
    ("linear", lambda T: T.nn.Sequential(T.nn.Linear(2, 2), T.nn.ReLU(), T.nn.Linear(2, 2)), (1, 2)),
    ("conv", lambda T: T.nn.Sequential(T.nn.Conv2d(1, 2, 3), T.nn.BatchNorm2d(2), T.nn.Flatten()), (2, 1, 4, 4)),
    ("norm", lambda T: T.nn.Sequential(T.nn.Linear(4, 4, bias=False), T.nn.LayerNorm(4)), (2, 4)),
):
    program.append(parameters_in_order(_name, _make, _shape))


# --- The graph -----------------------------------------------------------------------------------------------------


@program
def forms_of_outputs(T):
    class Two(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x.sum()

        @staticmethod
        def backward(ctx, a, b):
            return a

    x = leaf(T)
    y = x * 2
    nodes = [y.grad_fn, x.unbind()[0].grad_fn, x.split([1, 2])[0].grad_fn, Two.apply(x)[0].grad_fn]
    nodes.append(y.grad_fn.next_functions[0][0])
    form = y.grad_fn._input_metadata[0]
    return [[list(m.shape) for m in n._input_metadata] for n in nodes], str(form.dtype), str(form.device)


@program
def edges_made_by_hand(T):
    Edge = T.autograd.graph.GradientEdge
    x = leaf(T)
    y, (a, b, _) = x * 2, x.unbind()
    scalar = y.sum()
    return (
        T.autograd.grad(scalar, Edge(y.grad_fn, 0), retain_graph=True),
        T.autograd.grad(Edge(scalar.grad_fn, 0), x, retain_graph=True),
        T.autograd.grad(a * 2 + b * 3, Edge(a.grad_fn, 1), retain_graph=True),
        T.autograd.grad(Edge(a.grad_fn, 1), x),
        answer(lambda: T.autograd.grad(Edge(y.grad_fn, 0), x)),
        answer(lambda: T.autograd.grad(Edge(y.grad_fn, 0), x, ones(T, 2))),
        answer(lambda: T.autograd.grad(Edge(y.grad_fn, 1), x, ones(T)))[0],
        answer(lambda: T.autograd.grad(scalar, Edge(b.grad_fn, 0), materialize_grads=True, retain_graph=True)),
        T.autograd.graph.get_gradient_edge(y).ownership_token is None,
    )


@program
def multi_grad_hooks_of_every_pass(T):
    x, w, c = leaf(T), leaf(T), ones(T)
    log = []
    handle = T.autograd.graph.register_multi_grad_hook((x, w, c), lambda g: log.append(g.clone()), mode="any")
    for factor in (2, 3):
        (x * w * factor).sum().backward()
    threads = [threading.Thread(target=(x * w).sum().backward) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    handle.remove()
    (x * w).sum().backward()
    return log, answer(lambda: T.autograd.graph.register_multi_grad_hook((c,), lambda g: None))


@program
def what_runs_now(T):
    x, w = leaf(T), leaf(T)
    y = x * w
    at_x, at_w = (node for node, _ in y.grad_fn.next_functions)
    log = []

    def look(*_):
        log.append((
            T._C._current_graph_task_id() >= 0, T._C._current_autograd_node() is y.grad_fn,
            T._C._will_engine_execute_node(at_x), T._C._will_engine_execute_node(at_w),
        ))  # fmt: skip

    y.register_hook(look), y.grad_fn.register_prehook(look), y.grad_fn.register_hook(look)
    y.sum().backward(inputs=[x], retain_graph=True)
    with T.autograd.set_multithreading_enabled(False):
        z = (y * 2).sum()
        z.register_hook(lambda g: log.append([n.name() for n in T._C._current_graph_task_execution_order()]))
        z.backward()
    outside = T._C._current_graph_task_id(), T._C._current_autograd_node()
    return log, outside, answer(lambda: T._C._will_engine_execute_node(at_x))


@program
def multithreading_is_remembered(T):
    before = T.autograd.is_multithreading_enabled()
    with T.autograd.set_multithreading_enabled(False):
        inside = T.autograd.is_multithreading_enabled()
    return before, inside, T.autograd.is_multithreading_enabled()


@program
def versions_of_what_is_no_tensor(T):
    x = T.ones(3)
    T.autograd.graph.increment_version([x, x])
    return x._version, [answer(lambda v=v: T.autograd.graph.increment_version(v)) for v in (3, [3])]


# --- Refusals and warnings ----------------------------------------------------------------------------


@program
def what_needs_no_gradient_is_told_of_first(T):
    plain = T.ones(3)
    starts = (
        plain.backward, plain.long().sum().backward, lambda: T.autograd.backward([plain], [None]),
        lambda: T.autograd.grad([leaf(T).sum(), plain], leaf(T)),
    )  # fmt: skip
    return [attempt(start) for start in starts]


@program
def a_node_called_with_a_number(T):
    return attempt(lambda: (leaf(T) * 2).grad_fn(1))


@program
def post_accumulate_hooks_return(T):
    x, y = leaf(T), leaf(T)
    x.register_post_accumulate_grad_hook(lambda p: p)
    y.register_post_accumulate_grad_hook(lambda p: 3)
    return attempt((x * 2).sum().backward), x.grad, attempt((y * 2).sum().backward)


@program
def nodes_are_not_pickled(T):
    return type(attempt(lambda: pickle.dumps((leaf(T) * 2).grad_fn)))


@program
def pickling_warns_of_hooks(T):
    x = leaf(T)
    x.register_hook(lambda g: g)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        pickle.dumps(x)
    return [(w.category, str(w.message)[:13], "will not be serialized" in str(w.message)) for w in told]


@program
def a_freed_graph_in_anomaly_mode(T):
    x = leaf(T)
    with T.autograd.set_detect_anomaly(True):
        y = (x * x).sum()
        y.backward()
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            error = attempt(y.backward)
    return isinstance(error, RuntimeError), [str(w.message)[:30] for w in told]


@program
def views_that_a_function_returns_two_of(T):
    both = custom(T, lambda ctx, x: (x[:1], x[1:]), lambda ctx, g, h: T.cat([g, h]))
    error = attempt(lambda: both.apply(leaf(T) * 1)[0].mul_(2))
    return type(error), "returns multiple views" in str(error)


@program
def what_a_context_leads_to_inside_forward(T):
    seen = []
    custom(T, lambda ctx, x: seen.append(hasattr(ctx, "next_functions")) or x * 2, lambda ctx, g: g).apply(leaf(T))
    return seen


def told(function):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function()
    return [(w.category, str(w.message)[:50]) for w in caught]


@program
def hooks_of_modules_warn(T):
    full, old = T.nn.Linear(2, 2), T.nn.Sequential(T.nn.Linear(2, 2))
    full.register_full_backward_hook(lambda *_: None)
    old.register_backward_hook(lambda *_: None)
    return told(lambda: full(T.ones(1, 2)).sum().backward()), told(lambda: old(T.ones(1, 2)).sum().backward())


@program
def writes_to_the_output_of_a_hooked_module(T):
    layer = T.nn.Linear(2, 2)
    layer.register_full_backward_hook(lambda *_: None)
    return "inside a custom Function" in str(attempt(lambda: layer(T.ones(1, 2, requires_grad=True)).add_(1)))


@program
def volatile_variables(T):
    return told(lambda: T.autograd.Variable(T.ones(2), volatile=True))


@program
def unbiased_by_position(T):
    x = leaf(T)
    return T.var(x, False), T.std(x, True), T.var_mean(x, False), T.std_mean(x, True)


@needs_torch
@pytest.mark.parametrize("function", program, ids=lambda f: f.__name__)
def test_program_does_what_it_does_on_torch(function: Program) -> None:
    same(function)


def test_a_recorded_backward_warns_of_the_cycle_once() -> None:
    x = leaf(adjoint)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        adjoint.set_warn_always(True)
        try:
            for _ in range(2):
                (x * x).sum().backward(create_graph=True)
        finally:
            adjoint.set_warn_always(False)
        (x * x).sum().backward(create_graph=True)
    assert [str(w.message)[:44] for w in caught] == ["Using backward() with create_graph=True will"] * 2
    assert caught[0].filename == __file__


def test_a_frozen_leaf_keeps_no_memory_of_its_graph() -> None:
    x = leaf(adjoint)
    (x * 2).sum().backward()
    x.requires_grad_(False)
    old = x.array
    x.data = adjoint.ones(3, dtype=adjoint.float64)
    assert not [r for r in gc.get_referrers(old) if isinstance(r, adjoint.Tensor)]
    x.requires_grad_()
    (x * 3).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [5.0, 5.0, 5.0]
