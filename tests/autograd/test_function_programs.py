"""Custom functions and hooks on saved values, program by program, against torch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.oracle import needs_torch, same

from .programs import Program, Programs, about, leaf, refusal, square

program = Programs()

# --- Custom functions --------------------------------------------------------------------------------------


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
def function_of_an_unrecorded_view_of_what_was_written(T):
    y = leaf(T) * 1
    with T.no_grad():
        row = y[1]
        y.unsqueeze_(1)
        return square(T).apply(row)


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


@needs_torch
@pytest.mark.parametrize("function", program, ids=lambda f: f.__name__)
def test_program_does_what_it_does_on_torch(function: Program) -> None:
    same(function)
