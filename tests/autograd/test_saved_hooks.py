"""Hooks on saved tensors, and writes to them, program by program, against torch."""

from __future__ import annotations

import pytest

from tests.oracle import alike, needs_torch

from .programs import Program, Programs, about, attempt, custom, leaf, saving_square, squared_gradient

program = Programs()


def G(T):
    return T.autograd.graph


@program
def hooks_basic(T):
    x = leaf(T)
    rec = []
    with G(T).saved_tensors_hooks(
        lambda t: (rec.append(("p", t, about(t))), t)[1], lambda t: (rec.append(("u", t)), t)[1]
    ):
        y = x.exp()
        z = y * x
    z.sum().backward()
    return rec, x.grad


@program
def hooks_order_mul(T):
    x, w = leaf(T), leaf(T)
    rec = []
    with G(T).saved_tensors_hooks(lambda t: (rec.append(("p", t)), t * 2)[1], lambda t: (rec.append(("u", t)), t)[1]):
        z = x * w
    z.sum().backward()
    return rec, x.grad, w.grad


@program
def hooks_custom(T):
    x = leaf(T)
    rec = []
    with G(T).saved_tensors_hooks(lambda t: (rec.append(about(t)), t * 2)[1], lambda t: t):
        y = custom(T, saving_square, squared_gradient).apply(x)
    y.sum().backward()
    return rec, x.grad


@program
def hooks_custom_output(T):
    x = leaf(T)
    rec = []

    def fwd(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y, x, y)
        return y

    with G(T).saved_tensors_hooks(lambda t: (rec.append(about(t)), t * 2)[1], lambda t: t):
        y = custom(T, fwd, lambda ctx, g: g * ctx.saved_tensors[0]).apply(x)
    s = y.grad_fn.saved_tensors
    r = [about(a) for a in s]
    y.sum().backward()
    return rec, r, x.grad


@program
def hooks_intermediate_flags(T):
    x = leaf(T)
    rec = []
    with G(T).saved_tensors_hooks(
        lambda t: (rec.append((t.requires_grad, t.is_leaf, t.grad_fn is None)), t)[1], lambda t: t
    ):
        y = (x * 1).sin()
        y.exp()
    return rec


@program
def raw_saved_builtin_mul(T):
    x, w = leaf(T), leaf(T, 4.0, 5.0, 6.0)
    y = x * w
    y.grad_fn._raw_saved_self.register_hooks(lambda t: t * 2, lambda t: t)
    y.grad_fn._raw_saved_other.register_hooks(lambda t: t * 3, lambda t: t)
    y.sum().backward()
    return x.grad, w.grad


@program
def raw_saved_builtin_none(T):
    x = leaf(T)
    y = x * T.ones(3, dtype=T.float64)
    return y.grad_fn._saved_self, attempt(
        lambda: y.grad_fn._raw_saved_self.register_hooks(lambda t: t * 2, lambda t: t)
    )


@program
def hooks_inplace_after_clone(T):
    x = leaf(T)
    a = x * 1
    with G(T).saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
        y = a**2
    a.mul_(3)
    return attempt(lambda: y.sum().backward()), x.grad


@program
def hooks_inplace_on_packed_list(T):
    x = leaf(T)
    a = x * 1
    with G(T).saved_tensors_hooks(lambda t: [t], lambda t: t[0]):
        y = a**2
    a.mul_(3)
    return attempt(lambda: y.sum().backward()), x.grad


@program
def hooks_once_for_same(T):
    x = leaf(T)
    rec = []
    with G(T).saved_tensors_hooks(lambda t: (rec.append(1), t)[1], lambda t: (rec.append(2), t)[1]):
        y = x * x
    y.sum().backward()
    return rec, x.grad


@program
def hooks_free_packed(T):
    import gc
    import weakref

    class Thing:
        pass

    o = Thing()
    r = weakref.ref(o)
    x = leaf(T)

    def pack(t):
        return (t, r())

    with G(T).saved_tensors_hooks(pack, lambda t: t[0]):
        y = x.exp()
    del o
    a = r() is not None
    y.sum().backward()
    gc.collect()
    return a, r() is None


@program
def hooks_free_del(T):
    import weakref

    class Thing:
        pass

    o = Thing()
    r = weakref.ref(o)
    x = leaf(T)
    with G(T).saved_tensors_hooks(lambda t: (t, r()), lambda t: t[0]):
        y = x.exp()
    del o, y
    return r() is None


@program
def mut_basic(T):
    x = leaf(T)
    with G(T).allow_mutation_on_saved_tensors():
        a = x.clone()
        b = a**2
        a.sin_()
        b.sum().backward()
    return x.grad


@program
def mut_save_base_mutate_view(T):
    x = T.rand(2, 3, dtype=T.float64) * 0 + 2
    x.requires_grad_()
    with G(T).allow_mutation_on_saved_tensors():
        a = x.clone()
        b = a[:1]
        c = a**2
        b.sin_()
        (c.sum() + b.sum()).backward()
    return x.grad


@program
def mut_save_view_mutate_base(T):
    x = T.ones(2, 3, dtype=T.float64).mul_(2).requires_grad_()
    with G(T).allow_mutation_on_saved_tensors():
        a = x.clone()
        b = a[:1]
        c = b**2
        a.sin_()
        (c.sum() + a.sum()).backward()
    return x.grad


@program
def mut_double(T):
    x = leaf(T)
    with G(T).allow_mutation_on_saved_tensors():
        a = x.clone()
        b = a**2
        a.sin_()
        a.cos_()
        (a + b).sum().backward()
    return x.grad


@program
def mut_double_diff(T):
    x = leaf(T)
    with G(T).allow_mutation_on_saved_tensors():
        a = x.clone()
        b = a**2
        a.sin_()
        c = a**2
        a.cos_()
        (a + b + c).sum().backward()
    return x.grad


@program
def mut_out(T):
    x = leaf(T)
    with G(T).allow_mutation_on_saved_tensors():
        y = T.zeros(3, dtype=T.float64)
        a = x * y
        T.sin(x.detach(), out=y)
        a.sum().backward()
    return x.grad


@program
def mut_ctx_obj(T):
    with G(T).allow_mutation_on_saved_tensors() as ctx:
        x = leaf(T)
        a = x.clone()
        a**2
        a.sin_()
        r = len(ctx.cloned), len(ctx.original)
    return r, len(ctx.cloned), len(ctx.original), type(ctx).__name__


@program
def mut_ctx_obj2(T):
    with G(T).allow_mutation_on_saved_tensors() as ctx:
        x = leaf(T)
        a = x.clone()
        b = a**2
        r = [(len(ctx.cloned), len(ctx.original))]
        a.sin_()
        r.append((len(ctx.cloned), len(ctx.original)))
        b.sum().backward()
        del b
        r.append((len(ctx.cloned), len(ctx.original)))
    return r


@program
def mut_out_saved(T):
    x = leaf(T)
    with G(T).allow_mutation_on_saved_tensors():
        y = x.exp()
        y.mul_(2)
        y.sum().backward()
    return x.grad


@program
def mut_retain(T):
    x = leaf(T)
    with G(T).allow_mutation_on_saved_tensors():
        a = x.clone()
        b = (a**2).sum()
        a.mul_(3)
        b.backward(retain_graph=True)
        b.backward()
    return x.grad


@program
def mut_doublebackward(T):
    x = leaf(T)
    with G(T).allow_mutation_on_saved_tensors():
        a = x.clone()
        b = (a**3).sum()
        a.mul_(3)
        (g,) = T.autograd.grad(b, x, create_graph=True)
        (h,) = T.autograd.grad(g.sum(), x)
    return g, h


@program
def mut_setitem(T):
    x = leaf(T)
    with G(T).allow_mutation_on_saved_tensors():
        a = x.clone()
        b = a**2
        a[0] = 5.0
        (b + a).sum().backward()
    return x.grad


@program
def save_inference(T):
    with T.inference_mode():
        i = T.ones(3, dtype=T.float64)
    return leaf(T) * i


@program
def save_inference_custom(T):
    with T.inference_mode():
        i = T.ones(3, dtype=T.float64)

    def fwd(ctx, x, i):
        ctx.save_for_backward(i)
        return x * 1

    return custom(T, fwd, lambda ctx, g: (g, None)).apply(leaf(T), i)


@program
def hooks_input_saved_views(T):
    x = leaf(T)
    rec = []
    with G(T).saved_tensors_hooks(lambda t: (rec.append(list(t.stride())), t)[1], lambda t: t):
        m = x.view(3, 1) @ x.view(1, 3)
        m.t().exp()
    return rec


@program
def pack_sees_version(T):
    x = leaf(T)
    a = x * 1
    a.mul_(2)
    rec = []
    with G(T).saved_tensors_hooks(lambda t: (rec.append(t._version), t)[1], lambda t: t):
        a**2
    return rec


@program
def view_of_a_detached_tensor_has_no_history(T):
    a = leaf(T) * 1
    view = a.detach()[:2]
    a.mul_(2)
    return view.requires_grad, view.is_leaf, view.grad_fn is None, view._version


@needs_torch
@pytest.mark.parametrize("program", program, ids=lambda p: p.__name__)
def test_as_torch(program: Program) -> None:
    alike(program)
