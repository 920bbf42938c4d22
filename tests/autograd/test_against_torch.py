"""Behaviour of the graph, hooks, modes, mutation and views, program by program, against torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.oracle import needs_torch, same

PROGRAMS: list[Callable[[Any], Any]] = []


def program(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    PROGRAMS.append(function)
    return function


def leaf(T: Any, *values: float) -> Any:
    return T.tensor(list(values) or [1.0, 2.0, 3.0], dtype=T.float64, requires_grad=True)


# --- The seeds' examples ------------------------------------------------------------------------------


@program
def scalar_example(T):
    x = T.tensor(2.0, requires_grad=True)
    y = x**2
    z = 2 * y + 1
    z.backward()
    return x.grad, z.grad_fn.name(), y.grad_fn.name()


@program
def vector_root_is_refused(T):
    x, y = leaf(T), leaf(T)
    z = x * y + T.sum(x)
    z.backward()


@program
def custom_loss(T):
    x, w = leaf(T), leaf(T, 0.5, -1.0, 2.0)
    T.sum(w * x**2).backward()
    return x.grad, w.grad


@program
def sine_plus_square(T):
    x = T.tensor(2.0, requires_grad=True)
    (x * x + T.sin(x)).backward()
    return x.grad


@program
def cube_twice(T):
    x = T.tensor(2.0, requires_grad=True)
    (dy,) = T.autograd.grad(x**3, x, create_graph=True)
    (ddy,) = T.autograd.grad(dy, x, create_graph=True)
    (dddy,) = T.autograd.grad(ddy, x)
    return dy, ddy, dddy


@program
def accumulation(T):
    x = leaf(T)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    first = x.grad.clone()
    y.backward()
    return first, x.grad


@program
def second_backward_is_refused(T):
    x = leaf(T)
    y = (x * x).sum()
    y.backward()
    y.backward()


@program
def second_backward_without_saved_values(T):
    x = leaf(T)
    y = x + 1
    y.backward(T.ones(3, dtype=T.float64))
    y.backward(T.ones(3, dtype=T.float64))
    return x.grad


@program
def constants_prune(T):
    x, c = leaf(T), T.tensor([1.0, 1.0, 1.0], dtype=T.float64)
    y = x * c
    return [(None if f is None else f.name(), i) for f, i in y.grad_fn.next_functions]


@program
def leaf_flags(T):
    x = leaf(T)
    y = x * 2
    d = y.detach()
    return x.is_leaf, y.is_leaf, d.is_leaf, y.requires_grad, d.requires_grad, x.grad_fn is None


@program
def branches_loops_recursion(T):
    x = leaf(T)

    def recurse(v, depth):
        if depth == 0 or v.sum() > 100:
            return v
        return recurse(v * 2 if depth % 2 else v + x, depth - 1)

    recurse(x, 7).sum().backward()
    return x.grad


# --- backward and grad: arguments -----------------------------------------------------------------------


@program
def no_grad_needed(T):
    T.ones(3).sum().backward()


@program
def gradient_shape_mismatch(T):
    (leaf(T) * 2).backward(T.ones(2, dtype=T.float64))


@program
def several_roots(T):
    x = leaf(T)
    T.autograd.backward([(x * 2).sum(), (x * x).sum()])
    return x.grad


@program
def several_roots_with_gradients(T):
    x = leaf(T)
    T.autograd.backward([x * 2, x * x], [T.ones(3, dtype=T.float64), T.full((3,), 0.5, dtype=T.float64)])
    return x.grad


@program
def backward_into_inputs(T):
    x, y = leaf(T), leaf(T)
    (x * y).sum().backward(inputs=[x])
    return x.grad, y.grad is None


@program
def backward_into_non_leaf(T):
    x = leaf(T)
    y = x * 2
    (y * y).sum().backward(inputs=[y])
    return y.grad, x.grad is None


@program
def empty_inputs(T):
    leaf(T).sum().backward(inputs=[])


@program
def grad_unused(T):
    x, y = leaf(T), leaf(T)
    T.autograd.grad((x * 2).sum(), [x, y])


@program
def grad_allow_unused(T):
    x, y = leaf(T), leaf(T)
    a, b = T.autograd.grad((x * 2).sum(), [x, y], allow_unused=True)
    return a, b is None


@program
def grad_materialize(T):
    x, y = leaf(T), leaf(T)
    return T.autograd.grad((x * 2).sum(), [x, y], materialize_grads=True)


@program
def grad_of_non_leaf(T):
    x = leaf(T)
    y = x * x
    return T.autograd.grad((y * y).sum(), [y, x])


@program
def grad_does_not_touch_dot_grad(T):
    x = leaf(T)
    T.autograd.grad((x * x).sum(), x)
    return x.grad is None


@program
def grad_input_without_grad(T):
    x = leaf(T)
    T.autograd.grad((x * 2).sum(), T.ones(3))


@program
def grads_batched(T):
    x = leaf(T)
    y = x * x
    g = T.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]], dtype=T.float64)
    return T.autograd.grad(y, x, g, is_grads_batched=True)


@program
def gradient_edges(T):
    x = leaf(T)
    y = x * x
    edge = T.autograd.graph.get_gradient_edge(y)
    out = (y * 3).sum()
    (a,) = T.autograd.grad(out, edge, retain_graph=True)
    (b,) = T.autograd.grad(edge, x, grad_outputs=T.ones(3, dtype=T.float64))
    return a, b


@program
def gradient_edges_of_several_outputs(T):
    x = leaf(T)
    a, b, c = (x * x).unbind()
    edge = T.autograd.graph.get_gradient_edge(b)
    (g,) = T.autograd.grad(a * b * c, edge, retain_graph=True)
    (h,) = T.autograd.grad(edge, x, grad_outputs=T.tensor(2.0, dtype=T.float64))
    y = square(T).apply(x)
    (k,) = T.autograd.grad((y * y).sum(), T.autograd.graph.get_gradient_edge(y))
    return g, h, k, edge.output_nr


@program
def leaf_as_root(T):
    x = T.tensor(3.0, requires_grad=True)
    x.backward()
    return x.grad


@program
def integer_cannot_require_grad(T):
    T.tensor([1, 2], requires_grad=True)


@program
def promoted_gradient_has_the_leaf_dtype(T):
    x = T.tensor([1.0, 2.0], dtype=T.float32, requires_grad=True)
    y = T.tensor([1.0, 2.0], dtype=T.float64, requires_grad=True)
    (x * y).sum().backward()
    return x.grad, y.grad


@program
def broadcast_is_undone(T):
    x, y = T.ones(3, 1, requires_grad=True), T.ones(4, requires_grad=True)
    (x * y + x - y).sum().backward()
    return x.grad, y.grad


# --- .grad, retain_grad, hooks ------------------------------------------------------------------------------


@program
def retain_grad(T):
    x = leaf(T)
    y = x * x
    y.retain_grad()
    (y * 3).sum().backward()
    return y.grad, y.retains_grad, x.retains_grad


@program
def retain_grad_refused(T):
    T.ones(2).retain_grad()


@program
def grad_assignment_shape(T):
    leaf(T).grad = T.ones(2, dtype=T.float64)


@program
def grad_assignment_dtype(T):
    leaf(T).grad = T.ones(3)


@program
def grad_assignment_type(T):
    leaf(T).grad = 3


@program
def tensor_hook(T):
    x, seen = leaf(T), []
    y = x * 2
    handle = y.register_hook(lambda g: seen.append(g.clone()))
    y.register_hook(lambda g: g * 10)
    (y * y).sum().backward(retain_graph=True)
    handle.remove()
    (y * y).sum().backward()
    return x.grad, seen


@program
def leaf_hook_sees_the_sum_once(T):
    x, seen = leaf(T), []
    x.register_hook(lambda g: seen.append(g.clone()) or g * 2)
    (x * 2 + x * 3 + x).sum().backward()
    return x.grad, seen


@program
def hook_on_constant(T):
    T.ones(2).register_hook(lambda g: g)


@program
def hook_changes_size(T):
    x = leaf(T)
    x.register_hook(lambda g: T.ones(2, dtype=T.float64))
    x.sum().backward()


@program
def post_accumulate_hook(T):
    x, seen = leaf(T), []
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
    (x * 2).sum().backward()
    (x * 3).sum().backward()
    return seen


@program
def post_accumulate_on_non_leaf(T):
    (leaf(T) * 2).register_post_accumulate_grad_hook(lambda p: None)


@program
def node_hooks(T):
    x, seen = leaf(T), []
    y = x * x
    y.grad_fn.register_prehook(lambda gs: (gs[0] * 2,))
    y.grad_fn.register_hook(lambda gi, go: seen.append((len(gi), len(go), go[0].clone())))
    y.sum().backward()
    return x.grad, seen


@program
def node_hook_replaces(T):
    x = leaf(T)
    y = x * 2
    y.grad_fn.register_hook(lambda gi, go: tuple(None if g is None else g + 1 for g in gi))
    y.sum().backward()
    return x.grad


@program
def multi_grad_hook_all(T):
    x, y, seen = leaf(T), leaf(T), []
    T.autograd.graph.register_multi_grad_hook([x, y], lambda gs: seen.append([g.clone() for g in gs]))
    (x * 2 + y * 3).sum().backward()
    return seen


@program
def multi_grad_hook_any(T):
    x, y, seen = leaf(T), leaf(T), []
    T.autograd.graph.register_multi_grad_hook([x, y], lambda g: seen.append(1), mode="any")
    (x * 2 + y * 3).sum().backward()
    return seen


@program
def order_of_execution(T):
    x, seen = leaf(T), []

    def watch(t, name):
        t.grad_fn.register_hook(lambda gi, go: seen.append(name))
        return t

    a = watch(x * 2, "a")
    b = watch(x * 3, "b")
    c = watch(a + b, "c")
    d = watch(a * b, "d")
    (c + d).sum().backward()
    return seen


@program
def hooks_with_create_graph(T):
    x = leaf(T)
    y = x * x
    y.register_hook(lambda g: g * y)
    (g,) = T.autograd.grad(y.sum(), x, create_graph=True)
    return g, T.autograd.grad(g.sum(), x)


@program
def reentrant_backward_in_hook(T):
    x, z = leaf(T), leaf(T)

    def hook(g):
        with T.enable_grad():
            (z * z).sum().backward()

    y = x * 2
    y.register_hook(hook)
    y.sum().backward()
    return x.grad, z.grad


@program
def queue_callback(T):
    x, seen = leaf(T), []
    x.register_hook(lambda g: T.autograd.Variable._execution_engine.queue_callback(lambda: seen.append("end")))
    y = x * 2
    y.register_hook(lambda g: seen.append("y"))
    y.sum().backward()
    return seen


# --- Modes --------------------------------------------------------------------------------------------


@program
def no_grad_contexts(T):
    x = leaf(T)
    with T.no_grad():
        a = x * 2
        with T.enable_grad():
            b = x * 2
    with T.set_grad_enabled(False):
        c = x * 2
    return a.requires_grad, b.requires_grad, c.requires_grad, T.is_grad_enabled()


@program
def no_grad_decorators(T):
    x = leaf(T)

    @T.no_grad()
    def f():
        return (x * 2).requires_grad

    @T.no_grad
    def g():
        return (x * 2).requires_grad

    return f(), g(), T.is_grad_enabled()


@program
def no_grad_generator(T):
    @T.no_grad()
    def generate():
        value = yield T.is_grad_enabled()
        yield value, T.is_grad_enabled()
        try:
            yield "waiting"
        except ValueError:
            yield "caught", T.is_grad_enabled()

    g = generate()
    seen = [
        next(g),
        T.is_grad_enabled(),
        g.send(5),
        T.is_grad_enabled(),
        next(g),
        g.throw(ValueError()),
        T.is_grad_enabled(),
    ]
    g.close()
    return seen


@program
def inference(T):
    x = leaf(T)
    with T.inference_mode():
        a = x * 2
        b = T.ones(3)
    return a.is_inference(), b.is_inference(), x.is_inference(), a.requires_grad


@program
def inference_in_place_outside(T):
    with T.inference_mode():
        a = T.ones(3) * 2
    a.add_(1)


@program
def inference_saved(T):
    x = T.ones(3, requires_grad=True)
    with T.inference_mode():
        a = T.ones(3) * 2
    return x * a


@program
def inference_requires_grad(T):
    with T.inference_mode():
        a = T.ones(3) * 2
    a.requires_grad_()


@program
def inference_version(T):
    with T.inference_mode():
        a = T.ones(3) * 2
    return a._version


# --- In place, views, versions ------------------------------------------------------------------------------


@program
def leaf_in_place(T):
    leaf(T).add_(1)


@program
def leaf_in_place_without_grad(T):
    x = leaf(T)
    with T.no_grad():
        x.add_(1)
    return x, x._version, x.is_leaf


@program
def view_of_leaf_in_place(T):
    leaf(T)[0].add_(1)


@program
def in_place_history(T):
    x = leaf(T)
    y = x * 1
    y.mul_(3)
    y.add_(x)
    y.sum().backward()
    return x.grad, y._version, y.grad_fn.name()


@program
def in_place_saved_self(T):
    x, w = leaf(T), leaf(T)
    y = x * 1
    y.mul_(w)
    y.sum().backward()
    return x.grad, w.grad


@program
def overwritten_input(T):
    x, w = leaf(T), leaf(T)
    y = x * 1
    z = y * w
    y.add_(1)
    z.sum().backward()


@program
def overwritten_output(T):
    x = leaf(T)
    y = x.exp()
    y.add_(1)
    y.sum().backward()


@program
def overwritten_but_not_needed(T):
    x = leaf(T)
    y = x * 2
    z = y + 1
    y.add_(1)
    z.sum().backward()
    return x.grad


@program
def overwritten_through_detach(T):
    x, w = leaf(T), leaf(T)
    y = x * 1
    z = y * w
    y.detach().add_(1)
    z.sum().backward()


@program
def data_write_is_not_counted(T):
    x = leaf(T)
    y = x * 1
    before = y._version
    y.data.add_(1)
    return before, y._version, y


@program
def versions(T):
    x = T.ones(3)
    v = x[0]
    seen = [x._version, v._version]
    v.add_(1)
    seen += [x._version, v._version]
    x.zero_()
    seen += [x._version, v._version, x.detach()._version]
    return seen


@program
def view_facts(T):
    x = T.ones(2, 3)
    v = x[0]
    w = v[1:]
    return v._is_view(), w._base is x, v._base is x, x._is_view(), x._base is None, x.detach()._is_view()


@program
def rebase_through_view(T):
    x = leaf(T)
    y = x * 1
    v = y[0]
    v.mul_(5)
    y.sum().backward()
    return x.grad, y.grad_fn.name()


@program
def rebase_through_view_of_view(T):
    x = T.arange(6.0, dtype=T.float64).reshape(2, 3).requires_grad_()
    y = x * 1
    v = y[1]
    w = v[1:]
    w.mul_(x[0, 1:])
    (y * y).sum().backward()
    return x.grad, v, w


@program
def sibling_views_are_refreshed(T):
    x = T.arange(6.0, dtype=T.float64).reshape(2, 3).requires_grad_()
    y = x * 1
    a, b = y[0], y[0, 1:]
    a.mul_(3)
    b.sum().backward()
    return x.grad, b.requires_grad


@program
def base_write_refreshes_views(T):
    x = leaf(T)
    y = x * 1
    v = y[1:]
    y.mul_(4)
    v.sum().backward()
    return x.grad


@program
def view_of_constant_starts_to_require_grad(T):
    y = T.zeros(3, dtype=T.float64)
    a, b = y[0], y[1]
    x = T.tensor(2.0, dtype=T.float64, requires_grad=True)
    a.copy_(x * x)
    flags = [y.requires_grad, a.requires_grad, b.requires_grad]
    y.sum().backward()
    return flags, x.grad


@program
def setitem(T):
    x = leaf(T)
    y = T.zeros(2, 3, dtype=T.float64)
    y[0] = x
    y[1, 1:] = x[1:] * 2
    y.sum().backward()
    return y, x.grad


@program
def setitem_on_history(T):
    x, z = leaf(T), leaf(T)
    y = x * 2
    y[1] = z[0] * 3
    (y * y).sum().backward()
    return x.grad, z.grad


@program
def loop_of_writes(T):
    x = leaf(T)
    out = T.zeros(4, 3, dtype=T.float64)
    h = x
    for i in range(4):
        h = (h * x).tanh()
        out[i] = h
    (out * out).sum().backward()
    return x.grad


@program
def multi_output_view_in_place(T):
    y = leaf(T) * 1
    a, b, c = y.unbind()
    a.mul_(2)


@program
def multi_output_view_after_base_write(T):
    y = leaf(T) * 1
    a, b, c = y.unbind()
    y.mul_(2)
    return a.grad_fn


@program
def view_made_in_no_grad(T):
    y = leaf(T) * 1
    with T.no_grad():
        v = y[0]
    v.mul_(2)


@program
def expanded_write(T):
    T.ones(1).expand(3).add_(1)


@program
def overlapping_write(T):
    x = T.arange(5.0)
    x[1:].add_(x[:-1])


@program
def in_place_growing(T):
    T.ones(3).add_(T.ones(2, 3))


@program
def in_place_dtype(T):
    T.ones(3, dtype=T.int64).add_(0.5)


@program
def detach_in_place_of_view(T):
    (leaf(T) * 1)[0].detach_()


@program
def requires_grad_off_for_non_leaf(T):
    (leaf(T) * 1).requires_grad_(False)


@program
def retain_grad_follows_in_place(T):
    x = leaf(T)
    y = x * 1
    y.retain_grad()
    y.mul_(2)
    (y * 3).sum().backward()
    return y.grad


@program
def double_backward_through_in_place(T):
    x = leaf(T)
    y = x * x
    y[0].mul_(x[1])
    (g,) = T.autograd.grad((y * y).sum(), x, create_graph=True)
    return g, T.autograd.grad((g * g).sum(), x)


@program
def multi_outputs(T):
    x = T.arange(6.0, dtype=T.float64).reshape(2, 3).requires_grad_()
    a, b = x.split([1, 2], dim=1)
    values, indices = (x * 2).max(dim=1)
    ((a * 3).sum() + values.sum()).backward()
    return x.grad, a.grad_fn.name(), b.output_nr, indices.requires_grad


@program
def multi_output_hooks(T):
    x, seen = leaf(T), []
    a, b, c = (x * 2).unbind()
    b.register_hook(lambda g: seen.append(g.clone()) or g * 10)
    (a + b * 2).backward()
    return x.grad, seen


@program
def saved_attributes(T):
    x, w = leaf(T), leaf(T)
    y = x * w
    z = y.sum()
    e = x.exp()
    return y.grad_fn._saved_self, y.grad_fn._saved_other, e.grad_fn._saved_result, z.grad_fn.name()


@program
def saved_attributes_after_backward(T):
    x = leaf(T)
    y = x.exp()
    y.sum().backward()
    return y.grad_fn._saved_result


@program
def metadata(T):
    y = leaf(T) * 2
    y.grad_fn.metadata["k"] = 1
    return y.grad_fn.metadata


# --- Custom functions --------------------------------------------------------------------------------------


def square(T):
    class Square(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 * x

    return Square


@program
def function_basic(T):
    x = leaf(T)
    y = square(T).apply(x)
    y.sum().backward()
    return y, x.grad, y.grad_fn.name(), type(y.grad_fn).__name__


@program
def function_double_backward(T):
    x = leaf(T)
    (g,) = T.autograd.grad(square(T).apply(x).sum(), x, create_graph=True)
    return g, T.autograd.grad(g.sum(), x)


@program
def function_setup_context(T):
    class Scale(T.autograd.Function):
        @staticmethod
        def forward(x, k):
            return x * k

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.k = inputs[1]

        @staticmethod
        def backward(ctx, g):
            return g * ctx.k, None

    x = leaf(T)
    Scale.apply(x, 3).sum().backward()
    return x.grad


@program
def function_several(T):
    class Two(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y, flag):
            ctx.save_for_backward(x, y)
            return x * y, x + y

        @staticmethod
        def backward(ctx, a, b):
            x, y = ctx.saved_tensors
            return a * y + b, a * x + b, None

    x, y = leaf(T), leaf(T, 2.0, 3.0, 4.0)
    a, b = Two.apply(x, y, "flag")
    (a * 2 + b * b).sum().backward()
    return x.grad, y.grad, ctx_needs(T)


def ctx_needs(T):
    seen = []

    class Needs(T.autograd.Function):
        @staticmethod
        def forward(ctx, x, y, z):
            seen.append(tuple(ctx.needs_input_grad))
            return x * y

        @staticmethod
        def backward(ctx, g):
            seen.append(tuple(ctx.needs_input_grad))
            return g, None, None

    x, y = leaf(T), T.ones(3, dtype=T.float64)
    Needs.apply(x, y, None).sum().backward()
    return seen


@program
def function_materialize(T):
    seen = []

    def make(materialize):
        class Pair(T.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.set_materialize_grads(materialize)
                return x * 2, x * 3

            @staticmethod
            def backward(ctx, a, b):
                seen.append([None if g is None else g.clone() for g in (a, b)])
                return a

        return Pair

    for flag in (True, False):
        a, b = make(flag).apply(leaf(T))
        a.sum().backward()
    return seen


@program
def function_non_differentiable(T):
    class Sorted(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            index = T.tensor([2, 1, 0])
            other = x * 3
            ctx.mark_non_differentiable(index, other)
            return x * 2, index, other

        @staticmethod
        def backward(ctx, g, gi, go):
            return g * 2

    x = leaf(T)
    a, i, o = Sorted.apply(x)
    a.sum().backward()
    return x.grad, i.requires_grad, o.requires_grad


@program
def function_mark_dirty(T):
    class Double(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf(T)
    y = x * 1
    z = Double.apply(y)
    (z * 3).sum().backward()
    return x.grad, z is y, y._version, y.grad_fn.name()


@program
def function_mark_dirty_on_view(T):
    class Double(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = leaf(T)
    y = x * 1
    Double.apply(y[0:2])
    (y * 3).sum().backward()
    return x.grad, y


@program
def function_returns_input(T):
    class Same(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, g):
            return g * 10

    x = leaf(T)
    y = Same.apply(x)
    y.sum().backward()
    return y is x, x.grad, y.is_leaf


@program
def function_once_differentiable(T):
    class Once(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @T.autograd.function.once_differentiable
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 2 * x

    x = leaf(T)
    (g,) = T.autograd.grad(Once.apply(x * 1).sum() * 1, x, create_graph=True)
    g.sum().backward()


@program
def function_wrong_count(T):
    class Wrong(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g, g

    Wrong.apply(leaf(T)).sum().backward()


@program
def function_wrong_shape(T):
    class Wrong(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g[:2]

    Wrong.apply(leaf(T)).sum().backward()


@program
def function_broadcast_gradient(T):
    class Wide(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.sum()

        @staticmethod
        def backward(ctx, g):
            return g.expand(2, 3)

    x = leaf(T)
    Wide.apply(x).backward()
    return x.grad


@program
def function_error_keeps_its_type(T):
    class Fails(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            raise KeyError("mine")

    Fails.apply(leaf(T)).sum().backward()


@program
def function_saved_overwritten(T):
    x = leaf(T)
    y = x * 1
    z = square(T).apply(y)
    y.add_(1)
    z.sum().backward()


@program
def function_saved_after_free(T):
    x = leaf(T)
    y = square(T).apply(x)
    y.sum().backward()
    return y.grad_fn.saved_tensors


@program
def function_no_backward(T):
    class Half(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

    Half.apply(leaf(T)).sum().backward()


@program
def function_cannot_be_instantiated(T):
    square(T)()


@program
def function_without_grad(T):
    x = leaf(T)
    with T.no_grad():
        y = square(T).apply(x)
    return y.requires_grad, y.grad_fn is None


# --- Saved-tensor hooks --------------------------------------------------------------------------------------


@program
def saved_hooks(T):
    seen = []

    def pack(t):
        seen.append(("pack", list(t.shape)))
        return t * 2

    def unpack(t):
        seen.append(("unpack", list(t.shape)))
        return t / 2

    x, w = leaf(T), leaf(T)
    with T.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = x * w
        z = y.exp()
    z.sum().backward()
    return x.grad, w.grad, seen


@program
def saved_hooks_double_backward(T):
    x = leaf(T)
    with T.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        y = x * x * x
    (g,) = T.autograd.grad(y.sum(), x, create_graph=True)
    return g, T.autograd.grad(g.sum(), x)


@program
def saved_hooks_disabled(T):
    with T.autograd.graph.disable_saved_tensors_hooks("not here"):
        with T.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            pass


@program
def save_on_cpu(T):
    x = leaf(T)
    with T.autograd.graph.save_on_cpu():
        y = x.exp() * x
    y.sum().backward()
    return x.grad


@program
def mutation_allowed(T):
    with T.autograd.graph.allow_mutation_on_saved_tensors():
        x = leaf(T)
        y = x * 1
        z = y * y
        y.add_(1)
        z.sum().backward()
    return x.grad


@program
def anomaly(T):
    class Bad(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g * float("nan")

    with T.autograd.detect_anomaly():
        Bad.apply(leaf(T)).sum().backward()


@program
def increment_version(T):
    x, w = leaf(T), leaf(T)
    y = x * 1
    z = y * w
    T.autograd.graph.increment_version(y)
    z.sum().backward()


# --- Views without history, grad_dtype, answers of hooks ------------------------------------------------


def about(v: Any) -> Any:
    return v.requires_grad, v.is_leaf, v.grad_fn is not None and v.grad_fn.name(), v._is_view(), v._version


def refusal(function: Callable[[], Any]) -> Any:
    try:
        function()
    except Exception as error:
        return type(error).__mro__[-3].__name__, str(error).split(".")[0]
    return None


@program
def a_view_made_unrecorded(T):
    y = leaf(T) * 1
    with T.no_grad():
        v = y[1:]
    z = v * 2
    seen = about(v), about(z), [f is None for f, _ in z.grad_fn.next_functions]
    return seen, refusal(lambda: v.mul_(2)), refusal(lambda: v.numpy()), refusal(lambda: z.sum().backward())


@program
def a_base_that_requires_grad_after_its_view(T):
    y = T.zeros(4, dtype=T.float64)
    v = y[1:]
    y.requires_grad_()
    seen = [about(v), refusal(lambda: v.mul_(2))]
    with T.no_grad():
        y.add_(1)
    v.sum().backward()
    return seen, about(v), y.grad


@program
def one_of_several_views_after_an_unrecorded_write(T):
    y = leaf(T) * 1
    v = y.unbind(0)[1]
    with T.no_grad():
        y.mul_(2)
    return refusal(lambda: v.grad_fn)


@program
def a_retained_gradient_moves_with_its_tensor(T):
    x = leaf(T)
    y = x * 1
    v = y[1:]
    y.retain_grad()
    v.retain_grad()
    v.mul_(2)
    (y * y).sum().backward()
    return y.retains_grad, v.retains_grad, y.grad, x.grad


@program
def gradients_of_another_dtype(T):
    x = leaf(T)
    x.grad_dtype = T.float32
    seen = []
    x.register_hook(lambda g: seen.append(str(g.dtype)))
    for _ in range(2):
        (x * x).sum().backward()
    seen += [refusal(lambda: setattr(x, "grad", T.ones(3, dtype=T.float64)))]
    return seen[:2], seen[2] is None, x.grad, T.autograd.grad((x * x).sum(), x)


@program
def gradients_of_any_dtype(T):
    x = leaf(T)
    x.grad_dtype = None
    x.grad = T.ones(3, dtype=T.float32)
    (x * x).sum().backward()
    return x.grad_dtype is None, x.grad


@program
def passes_that_keep_only_shapes_can_be_repeated(T):
    x = leaf(T)
    y = x.reshape(1, 3).expand(2, 3).mean() + x.flip(0).sum()
    for _ in range(3):
        y.backward()
    return x.grad


@program
def an_exception_in_a_hook_is_the_programs_own(T):
    x = leaf(T)
    x.register_hook(lambda g: {}["missing"])
    (x * x).sum().backward()


@program
def answers_of_hooks(T):
    found = []
    for answer in ("no tensor", 3, lambda g: g[:1], lambda g: g.float(), lambda g: (g,), lambda g: (g[:1],)):
        given = answer if callable(answer) else lambda g, answer=answer: answer
        x = leaf(T)
        x.register_hook(given)
        found.append(refusal(lambda x=x: (x * 2).sum().backward()))
        y = leaf(T).exp()
        y.grad_fn.register_prehook(lambda gs, given=given: given(gs[0]))
        found.append(refusal(lambda y=y: y.sum().backward()))
        y = leaf(T).exp()
        y.grad_fn.register_hook(lambda gs, _, given=given: given(gs[0]))
        found.append(refusal(lambda y=y: y.sum().backward()))
    return [f and f[0] for f in found]


@program
def inputs_that_cannot_have_a_gradient_are_no_next_functions(T):
    x = leaf(T)
    chosen = [x.index_select(0, T.tensor([1])), T.where(x > 1, x, x * 2), x.gather(0, T.tensor([0, 0])), x * 2]
    return [[f is not None and f.name() for f, _ in y.grad_fn.next_functions] for y in chosen]


# --- Custom functions: what else they may return --------------------------------------------------------


def custom(T: Any, forward: Any, backward: Any = None, **methods: Any) -> Any:
    methods |= {"forward": forward} | ({"backward": backward} if backward else {})
    return type("Custom", (T.autograd.Function,), {k: staticmethod(v) for k, v in methods.items()})


@program
def a_vjp_in_place_of_a_backward(T):
    x = leaf(T)
    custom(T, lambda ctx, x: x * 2, vjp=lambda ctx, g: g * 5).apply(x).sum().backward()
    both = custom(T, lambda ctx, x: x * 2, lambda ctx, g: g, vjp=lambda ctx, g: g)
    return x.grad, refusal(lambda: both.apply(x).sum().backward())


@program
def results_that_are_no_tensors(T):
    x = leaf(T)
    results = [custom(T, lambda ctx, x, r=r: r(x)).apply(x) for r in (lambda x: 3, lambda x: "a", lambda x: [x * 2])]
    return results[:2], results[2][0].requires_grad


@program
def an_input_that_is_returned(T):
    found = []
    for x in (leaf(T), leaf(T) * 1, T.ones(3)):
        for recording in (True, False):
            with T.set_grad_enabled(recording):
                y = custom(T, lambda ctx, x: x, lambda ctx, g: g).apply(x)
            found.append((y is x, about(y)))
    return found


@program
def gradients_that_are_no_tensors(T):
    answers = (lambda g: [g], lambda g: 3, lambda g: g.numpy(), lambda g: g * 1j, lambda g: (g, g))
    functions = [custom(T, lambda ctx, x: x * 2, lambda ctx, g, a=a: a(g)) for a in answers]
    return [refusal(lambda f=f: f.apply(leaf(T)).sum().backward())[0] for f in functions]


@program
def a_written_input_that_is_not_returned(T):
    def write(ctx, x):
        ctx.mark_dirty(x)
        x.mul_(2)
        return x * 3

    return [refusal(lambda x=x: custom(T, write).apply(x)) for x in (leaf(T) * 1, T.ones(3))]


# --- Forward mode and reverse mode together; edges --------------------------------------------------------


@program
def a_dual_tensor_has_the_history_of_its_primal(T):
    from importlib import import_module

    fwd = import_module(f"{T.__name__}.autograd.forward_ad")
    x = leaf(T)
    with fwd.dual_level():
        d = fwd.make_dual(x, T.ones(3, dtype=T.float64))
        y = (d * d).sum()
        seen = [d.requires_grad, d.is_leaf, d.grad_fn.name(), y.grad_fn.name(), y.requires_grad]
        y.backward()
        cut = fwd.unpack_dual(d.detach()).tangent
        with fwd._set_fwd_grad_enabled(False):
            still = fwd.unpack_dual(d * 2).tangent
        z = d * 3
    return seen, x.grad, cut, still, z + 1, z.grad_fn.name(), T.func.jvp(lambda x: x.detach() * 2, (x,), (x,))


@program
def an_unrecorded_write_inside_a_transform(T):
    def f(x):
        y = x * 1
        with T.no_grad():
            y[0].mul_(2)
        return (y * y).sum()

    x = T.tensor([1.0, 2.0, 3.0], dtype=T.float64)
    return T.func.grad(f)(x), T.func.vmap(T.func.grad(f))(T.stack([x, x * 2])), T.func.hessian(f)(x)


@program
def a_pass_from_the_edge_of_a_scalar(T):
    x = leaf(T)
    y = (x * x).sum()
    edge = T.autograd.graph.get_gradient_edge(y)
    (g,) = T.autograd.grad(edge, x, retain_graph=True)
    T.autograd.backward(edge)
    other = T.autograd.graph.get_gradient_edge(x * 2)
    return g, x.grad, refusal(lambda: T.autograd.grad(other, x))[0]


@program
def recording_inside_inference_mode(T):
    with T.inference_mode(), T.enable_grad():
        y = T.ones(3, requires_grad=True) * 2
    with T.inference_mode():
        z = T.ones(3)
    return y.requires_grad, y.is_inference(), refusal(lambda: T.nn.Parameter(z))[0]


@program
def derivatives_until_they_are_zero(T):
    found = []
    for f in (lambda x: x**3, lambda x: x.square(), T.relu, lambda x: T.relu(x) * x):
        x = leaf(T, -1.0, 0.5, 2.0)
        y = f(x)
        for _ in range(3):
            (y,) = T.autograd.grad(y.sum(), x, create_graph=True)
            found.append((y.detach(), y.requires_grad))
            if not y.requires_grad:
                break
    return found


@needs_torch
@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_program_does_what_it_does_on_torch(function: Callable[[Any], Any]) -> None:
    same(function)
