"""What custom functions and their contexts accept, refuse and show, program by program, against torch."""

from __future__ import annotations

import pytest

from tests.oracle import alike, needs_torch

from .programs import Program, Programs, about, attempt, custom, leaf, saving_square, squared_gradient

program = Programs()


@program
def kw_tensors(T):
    x, y = leaf(T), leaf(T)
    Fn = custom(T, lambda ctx, x, y: x * y, lambda ctx, g: (g, g))
    o = Fn.apply(x=x, y=y)
    return about(o), o


@program
def kw_tensors2(T):
    x, y = leaf(T), leaf(T)
    Fn = custom(T, lambda ctx, x, y: x * y, lambda ctx, g: (g, g))
    o = Fn.apply(x, y=y)
    r = about(o)
    return r, attempt(lambda: o.sum().backward()), x.grad, y.grad


@program
def kw_tensors3(T):
    x, y = leaf(T), leaf(T)
    Fn = custom(
        T,
        lambda x, y: x * y,
        lambda ctx, g: (g * ctx.saved_tensors[1], g * ctx.saved_tensors[0]),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    o = Fn.apply(x=x, y=y)
    return about(o)


@program
def kw_tensors4(T):
    x, y = leaf(T), leaf(T)
    Fn = custom(
        T,
        lambda x, y: x * y,
        lambda ctx, g: (g * ctx.saved_tensors[1], g * ctx.saved_tensors[0]),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    o = Fn.apply(y=y, x=x)
    o.sum().backward()
    return x.grad, y.grad


@program
def kw_partial_order(T):
    x, y = leaf(T), leaf(T, 4.0, 5.0, 6.0)
    rec = []
    Fn = custom(
        T,
        lambda x, y, s: x * y * y * s,
        lambda ctx, g: (g * ctx.y**2 * ctx.s, g * ctx.x * 2 * ctx.y * ctx.s, None),
        setup_context=lambda ctx, inputs, output: (
            rec.append([type(i).__name__ for i in inputs]),
            setattr(ctx, "x", inputs[0]),
            setattr(ctx, "y", inputs[1]),
            setattr(ctx, "s", inputs[2]),
        )[0],
    )
    o = Fn.apply(x, s=3.0, y=y)
    return rec, about(o), attempt(lambda: o.sum().backward()), x.grad, y.grad


@program
def setup_defaults(T):
    x = leaf(T)
    rec = []

    def fwd(x, s=2.0, k=3):
        return x * s * k

    Fn = custom(
        T,
        fwd,
        lambda ctx, g: (g * ctx.s, None, None),
        setup_context=lambda ctx, inputs, output: (rec.append(list(inputs[1:])), setattr(ctx, "s", inputs[1]))[0],
    )
    o = Fn.apply(x)
    o.sum().backward()
    return rec, x.grad


@program
def setup_defaults2(T):
    x = leaf(T)
    rec = []

    def fwd(x, s=2.0, *, k=3):
        return x * s * k

    Fn = custom(
        T,
        fwd,
        lambda ctx, g: (g * 2, None, None),
        setup_context=lambda ctx, inputs, output: rec.append(list(inputs[1:])),
    )
    o = Fn.apply(x, k=5)
    r = attempt(lambda: o.sum().backward())
    return rec, r, x.grad


@program
def setup_defaults4(T):
    x = leaf(T)
    rec = []

    def fwd(x, **kw):
        return x * kw.get("s", 1)

    Fn = custom(
        T, fwd, lambda ctx, g: g * 2, setup_context=lambda ctx, inputs, output: rec.append([str(i) for i in inputs[1:]])
    )
    o = Fn.apply(x, s=3)
    r = attempt(lambda: o.sum().backward())
    return rec, r, x.grad


@program
def setup_missing_arg(T):
    x = leaf(T)
    Fn = custom(T, lambda x, y: x, lambda ctx, g: (g, g), setup_context=lambda ctx, i, o: None)
    return Fn.apply(x)


@program
def nig_in_forward(T):
    rec = []
    x, y = leaf(T), T.ones(3, dtype=T.float64)

    def fwd(ctx, *a):
        rec.append(ctx.needs_input_grad)
        return a[0] * 1

    Fn = custom(T, fwd, lambda ctx, *g: (rec.append(ctx.needs_input_grad), g[0], g[0], None)[1:])
    Fn.apply(x, y, 3).sum().backward()
    with T.no_grad():
        Fn.apply(x, y, 3)
    Fn.apply(y, y, 3)
    return rec


@program
def nig_pass(T):
    rec = []
    x, y = leaf(T), leaf(T)
    Fn = custom(T, lambda ctx, x, y: x * y, lambda ctx, g: (rec.append(ctx.needs_input_grad), g, g)[1:])
    o = Fn.apply(x, y).sum()
    T.autograd.grad(o, x, retain_graph=True)
    T.autograd.grad(o, y, retain_graph=True)
    o.backward(inputs=[x], retain_graph=True)
    o.backward()
    return rec


@program
def nig_nonleaf(T):
    rec = []
    x, y = leaf(T), leaf(T)
    a, b = x * 2, y * 2
    Fn = custom(T, lambda ctx, x, y: x * y, lambda ctx, g: (rec.append(ctx.needs_input_grad), g, g)[1:])
    o = Fn.apply(a, b).sum()
    T.autograd.grad(o, x, retain_graph=True)
    T.autograd.grad(o, b, retain_graph=True)
    return rec, o.grad_fn.next_functions[0][0].needs_input_grad


@program
def nig_set(T):
    rec = []
    x, y = leaf(T), leaf(T)

    def fwd(ctx, x, y):
        ctx.needs_input_grad = (False, True)
        return x * y

    Fn = custom(T, fwd, lambda ctx, g: (rec.append(ctx.needs_input_grad), g, g)[1:])
    o = Fn.apply(x, y).sum()
    o.backward()
    return rec, x.grad, y.grad


@program
def nig_set_bad(T):
    x = leaf(T)

    def fwd(ctx, x):
        ctx.needs_input_grad = 3
        return x * 1

    return custom(T, fwd, lambda ctx, g: g).apply(x)


@program
def nig_set_in_backward(T):
    rec = []
    x = leaf(T)

    def bwd(ctx, g):
        ctx.needs_input_grad = (False,)
        rec.append(ctx.needs_input_grad)
        return g

    o = custom(T, lambda ctx, x: x * 1, bwd).apply(x).sum()
    o.backward(retain_graph=True)
    o.backward()
    return rec, x.grad


@program
def dirty_noninput(T):
    x = leaf(T)

    def fwd(ctx, x):
        y = x * 1
        ctx.mark_dirty(y)
        return y

    return custom(T, fwd, lambda ctx, g: g).apply(x)


@program
def dirty_noninput2(T):
    x = leaf(T)
    y = T.ones(3, dtype=T.float64)

    def fwd(ctx, x):
        ctx.mark_dirty(y)
        return y

    return custom(T, fwd, lambda ctx, g: g).apply(x)


@program
def dirty_leaf(T):
    x = leaf(T)

    def fwd(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    return custom(T, fwd, lambda ctx, g: g).apply(x)


@program
def dirty_nondiff(T):
    x = leaf(T)
    a = x * 1

    def fwd(ctx, x):
        x.exp_()
        ctx.mark_dirty(x)
        ctx.mark_non_differentiable(x)
        return x

    o = custom(T, fwd, lambda ctx, g: g * 2).apply(a)
    return o is a, about(o), about(a)


@program
def return_same_twice(T):
    x = leaf(T)

    def fwd(ctx, x):
        y = x * 1
        return y, y

    o, p = custom(T, fwd, lambda ctx, g, h: g + 2 * h).apply(x)
    r = about(o), about(p), o is p
    (o + p).sum().backward()
    return r, x.grad


@program
def captured_output(T):
    x = leaf(T)
    w = leaf(T)
    o = custom(T, lambda ctx, x: w, lambda ctx, g: g * 2).apply(x)
    r = about(o), o is w, about(w)
    return r, attempt(lambda: o.sum().backward()), x.grad, w.grad


@program
def captured_output_nonleaf(T):
    x = leaf(T)
    w = leaf(T) * 2
    o = custom(T, lambda ctx, x: w, lambda ctx, g: g * 2).apply(x)
    r = about(o), o is w, about(w)
    return r, attempt(lambda: o.sum().backward()), x.grad


@program
def grad_for_nontensor(T):
    x = leaf(T)
    custom(T, lambda ctx, x, s: x * 1, lambda ctx, g: (g, g)).apply(x, 2.0).sum().backward()


@program
def legacy_forward(T):
    class A(T.autograd.Function):
        def forward(self, x):
            return x * 1

        def backward(self, g):
            return g

    return A()(leaf(T))


@program
def instantiate(T):
    class A(T.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

    a = A()
    return attempt(lambda: a(leaf(T))), attempt(lambda: a.apply(leaf(T)))


@program
def save_nontensor(T):
    def fwd(ctx, x):
        ctx.save_for_backward(3)
        return x * 1

    return custom(T, fwd, squared_gradient).apply(leaf(T))


@program
def save_list(T):
    def fwd(ctx, x):
        ctx.save_for_backward([x])
        return x * 1

    return custom(T, fwd, squared_gradient).apply(leaf(T))


@program
def raw_saved_none(T):
    x = leaf(T)

    def fwd(ctx, x):
        ctx.save_for_backward(x, None)
        return x * 1

    o = custom(T, fwd, lambda ctx, g: g * 2).apply(x)
    return attempt(lambda: o.grad_fn._raw_saved_tensors[1].register_hooks(lambda t: t, lambda t: t))


@program
def raw_saved_notcallable(T):
    x = leaf(T)
    o = custom(T, saving_square, squared_gradient).apply(x)
    return o.grad_fn._raw_saved_tensors[0].register_hooks(3, lambda t: t)


@program
def input_metadata(T):
    x = leaf(T)
    f = custom(T, lambda ctx, x: (x * 1, T.ones(2)), squared_gradient).apply(x)[0].grad_fn
    return [
        (list(m.shape), str(m.dtype), str(m.device), m.is_nested_tensor, m.is_cpp_nested_tensor)
        for m in f._input_metadata
    ]


@program
def inplace_function(T):
    x = leaf(T)

    class A(T.autograd.function.InplaceFunction):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g

    a = (attempt(lambda: A(inplace=True).inplace),)
    A.apply(x).sum().backward()
    return a, x.grad


@program
def ctxvals_in_setup(T):
    rec = []

    def setup(ctx, i, o):
        ctx.save_for_backward(*i)
        rec.append((ctx.to_save, attempt(lambda: ctx.saved_tensors), o.requires_grad, ctx.needs_input_grad))

    custom(T, lambda x: x * 1, squared_gradient, setup_context=setup).apply(leaf(T))
    return rec


@program
def ctx_hook(T):
    x = leaf(T)
    rec = []

    def fwd(ctx, x):
        ctx.register_hook(lambda gi, go: rec.append(("post", gi, go)))
        return x * 1

    custom(T, fwd, lambda ctx, g: g).apply(x).sum().backward()
    return rec


@program
def clear_on_access(T):
    x = leaf(T)
    A = custom(
        T,
        saving_square,
        lambda ctx, g: (ctx.saved_tensors, 2 * g * ctx.saved_tensors[0])[1],
        clear_saved_tensors_on_access=True,
    )
    o = A.apply(x)
    return attempt(lambda: o.sum().backward()), x.grad


@program
def clear_on_access_ok(T):
    x = leaf(T)
    A = custom(T, saving_square, squared_gradient, clear_saved_tensors_on_access=True)
    o = A.apply(x).sum()
    o.backward(retain_graph=True)
    return x.grad, attempt(lambda: o.backward())


@program
def boxed(T):
    x = leaf(T)
    rec = []

    def bwd(ctx, gs):
        rec.append((type(gs).__name__, len(gs)))
        return gs[0] * 2

    A = custom(T, saving_square, bwd, boxed_grads_call=True)
    A.apply(x).sum().backward()
    return rec, x.grad


@program
def boxed2(T):
    x = leaf(T)
    rec = []

    def bwd(ctx, gs):
        rec.append((type(gs).__name__, len(gs)))
        a = gs.pop()
        gs.clear()
        return a * 2

    A = custom(T, lambda ctx, x: (x * 1, x * 2), bwd, boxed_grads_call=True)
    a, b = A.apply(x)
    (a + b).sum().backward()
    return rec, x.grad


@program
def boxed_create_graph(T):
    x = leaf(T)
    rec = []

    def bwd(ctx, gs):
        rec.append((type(gs).__name__, len(gs)))
        return gs[0] * 2 * ctx.saved_tensors[0]

    A = custom(T, saving_square, bwd, boxed_grads_call=True)
    (g,) = T.autograd.grad(A.apply(x).sum(), x, create_graph=True)
    return T.autograd.grad(g.sum(), x), rec


@program
def mark_shared(T):
    def fwd(ctx, x):
        ctx.mark_shared_storage()
        return x * 1

    return custom(T, fwd, squared_gradient).apply(leaf(T))


@program
def needs_input_grad_del(T):
    def fwd(ctx, x):
        del ctx.needs_input_grad
        return x * 1

    return custom(T, fwd, squared_gradient).apply(leaf(T))


@program
def kw_order(T):
    x, y = leaf(T), leaf(T)
    rec = []

    def fwd(ctx, x, y, s=1):
        rec.append(ctx.needs_input_grad)
        return x * y

    Fn = custom(T, fwd, lambda ctx, *g: (g[0], g[0] * 10, None))
    o = Fn.apply(y=y, x=x)
    return rec, attempt(lambda: o.sum().backward()), x.grad, y.grad


@program
def kw_order2(T):
    x, y = leaf(T), leaf(T)
    rec = []

    def fwd(ctx, x, s, y):
        rec.append(ctx.needs_input_grad)
        return x * y

    Fn = custom(T, fwd, lambda ctx, *g: (g[0], None, g[0] * 10))
    o = Fn.apply(x, y=y, s=3)
    return rec, attempt(lambda: o.sum().backward()), x.grad, y.grad


@program
def kw_order3(T):
    x, y = leaf(T), leaf(T)
    rec = []

    def fwd(ctx, x, **kw):
        rec.append(ctx.needs_input_grad)
        return x * kw["y"]

    Fn = custom(T, fwd, lambda ctx, *g: (g[0], g[0] * 10))
    o = Fn.apply(x, y=y)
    return rec, attempt(lambda: o.sum().backward()), x.grad, y.grad


@program
def kw_nontensor(T):
    x = leaf(T)
    rec = []

    def fwd(ctx, x, s):
        rec.append(ctx.needs_input_grad)
        return x * s

    Fn = custom(T, fwd, lambda ctx, *g: (g[0], None))
    o = Fn.apply(x, s=3)
    return rec, attempt(lambda: o.sum().backward()), x.grad


@program
def kw_nontensor2(T):
    x = leaf(T)
    rec = []

    def fwd(ctx, x, s):
        rec.append(ctx.needs_input_grad)
        return x * s

    Fn = custom(T, fwd, lambda ctx, *g: g[0])
    o = Fn.apply(x, s=3)
    return rec, attempt(lambda: o.sum().backward()), x.grad


@program
def kw_only(T):
    x, y = leaf(T), leaf(T)
    rec = []

    def fwd(ctx, x, *, y):
        rec.append(ctx.needs_input_grad)
        return x * y

    Fn = custom(T, fwd, lambda ctx, *g: (g[0], g[0] * 2))
    o = Fn.apply(x, y=y)
    return rec, about(o), attempt(lambda: o.sum().backward()), x.grad, y.grad


@program
def kw_bad(T):
    return custom(T, saving_square, squared_gradient).apply(leaf(T), z=3)


@program
def kw_mark_dirty(T):
    x = leaf(T)
    a = x * 1

    def fwd(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    o = custom(T, fwd, lambda ctx, g: g * 2).apply(x=a)
    r = o is a, about(a)
    o.sum().backward()
    return r, x.grad


@program
def kw_return_input(T):
    x = leaf(T)
    o = custom(T, lambda ctx, x: x, lambda ctx, g: g * 2).apply(x=x)
    return o is x, about(o)


@program
def gap(T):
    x, y = leaf(T), leaf(T)
    rec = []

    def fwd(ctx, x, s=7, y=None):
        rec.append((ctx.needs_input_grad, s))
        return x * y

    Fn = custom(T, fwd, lambda ctx, *g: (g[0], None, g[0] * 10))
    o = Fn.apply(x, y=y)
    return rec, attempt(lambda: o.sum().backward()), x.grad, y.grad


@program
def gap_missing(T):
    x, y = leaf(T), leaf(T)
    rec = []

    def fwd(ctx, x, s, y=None):
        rec.append((ctx.needs_input_grad, s))
        return x * y

    Fn = custom(T, fwd, lambda ctx, *g: (g[0], None, g[0] * 10))
    Fn.apply(x, y=y)


@program
def multi(T):
    x, y = leaf(T), leaf(T)

    def fwd(ctx, x, y):
        return x * y

    custom(T, fwd, lambda ctx, *g: (g[0], None, g[0] * 10)).apply(x, x=y)


@program
def varargs(T):
    x, y = leaf(T), leaf(T)

    def fwd(ctx, x, *a, y=None):
        return x * 1

    custom(T, fwd, lambda ctx, *g: (g[0], None, g[0] * 10)).apply(x, y, y=y)


@program
def kwname_ctx(T):
    x = leaf(T)
    custom(T, saving_square, squared_gradient).apply(ctx=x)


@program
def wrapped_forward(T):
    import functools

    x, y = leaf(T), leaf(T)

    def dec(f):
        @functools.wraps(f)
        def w(*a, **k):
            return f(*a, **k)

        return w

    Fn = custom(T, dec(lambda ctx, x, y: x * y), lambda ctx, g: (g, g))
    o = Fn.apply(x, y=y)
    return about(o), attempt(lambda: o.sum().backward()), y.grad


@program
def unwrapped_forward(T):
    x, y = leaf(T), leaf(T)

    def w(*a, **k):
        return a[1] * k["y"]

    Fn = custom(T, w, lambda ctx, g: (g, g))
    o = Fn.apply(x, y=y)
    return about(o), attempt(lambda: o.sum().backward()), y.grad


@program
def setup_varargs_kw(T):
    x = leaf(T)
    rec = []

    def fwd(x, *a, k=1):
        return x * 1

    Fn = custom(T, fwd, lambda ctx, g: (g, None), setup_context=lambda ctx, i, o: rec.append(len(i)))
    return attempt(lambda: Fn.apply(x, 2)), rec


@program
def kwonly_default_ctx(T):
    x = leaf(T)

    def fwd(ctx, x, *, k=1):
        return x * k

    Fn = custom(T, fwd, lambda ctx, g: g)
    return attempt(lambda: Fn.apply(x)), attempt(lambda: Fn.apply(x, k=2))


@program
def fg(T):
    x = leaf(T)
    Fn = custom(
        T,
        lambda x, s=2.0: x * x * s,
        lambda ctx, g: (g * 2 * ctx.saved_tensors[0] * ctx.s, None),
        setup_context=lambda ctx, i, o: (ctx.save_for_backward(i[0]), setattr(ctx, "s", i[1]))[0],
    )
    return (
        T.func.grad(lambda x: Fn.apply(x).sum())(x.detach()),
        T.func.grad(lambda x: Fn.apply(x, s=3.0).sum())(x.detach()),
        T.func.grad(lambda x: Fn.apply(s=3.0, x=x).sum())(x.detach()),
    )


@program
def materialize_non_diff(T):
    x = leaf(T)
    rec = []

    def fwd(ctx, x):
        ctx._materialize_non_diff_grads = False
        y = x * 2
        ctx.mark_non_differentiable(y)
        return x * 1, y

    o, p = custom(T, fwd, lambda ctx, g, h: (rec.append(h is None), g)[1]).apply(x)
    o.sum().backward()
    return rec


@program
def setup_ctx_forward_takes_ctx(T):
    return custom(T, lambda ctx, x: x * 1, lambda ctx, g: g, setup_context=lambda ctx, i, o: None).apply(leaf(T))


@program
def fn_as_base(T):
    return (
        attempt(lambda: T.autograd.Function.forward(None, 1)),
        attempt(lambda: T.autograd.Function.backward(None, 1)),
        attempt(lambda: T.autograd.Function.jvp(None, 1)),
        attempt(lambda: T.autograd.Function.vjp(None, 1)),
        attempt(lambda: T.autograd.Function.setup_context(None, 1, 1)),
        attempt(lambda: T.autograd.Function.vmap(None, 1, 1)),
    )


@program
def what_an_instance_shows(T):
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = custom(T, saving_square, squared_gradient)()
    return made.saved_tensors, made.needs_input_grad, made.next_functions, made.metadata, made.to_save


@program
def sparse_gradient_has_its_values(T):
    x = leaf(T)
    custom(T, lambda ctx, x: x * 1, lambda ctx, g: g.to_sparse() * 2).apply(x).sum().backward()
    return x.grad.to_dense()


@program
def profiles_name_functions(T):
    with T.profiler.profile() as found:
        custom(T, saving_square, squared_gradient, "Squaring").apply(leaf(T)).sum().backward()
    names = {event.key for event in found.key_averages()}
    return "Squaring" in names, "SquaringBackward" in names


@needs_torch
@pytest.mark.parametrize("program", program, ids=lambda p: p.__name__)
def test_as_torch(program: Program) -> None:
    alike(program)
