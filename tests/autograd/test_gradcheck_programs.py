"""gradcheck, and custom functions in forward mode, program by program, against torch."""

from __future__ import annotations

import pytest

from tests.oracle import alike, needs_torch

from .programs import Program, Programs, custom, leaf, saving_square, squared_gradient

program = Programs()


def gc_(T, *args, **options):
    return T.autograd.gradcheck(*args, **options)


def fw(T):
    return T.autograd.forward_ad


def msg(function):
    try:
        return function()
    except Exception as error:
        return error


def sqj(T, factor=2.0):
    def f(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x * x

    return custom(T, f, squared_gradient, jvp=lambda ctx, t: factor * ctx.saved_tensors[0] * t).apply


def onej(T, f, j, *args, b=None):
    with fw(T).dual_level():
        x = fw(T).make_dual(leaf(T) * 1, T.ones(3, dtype=T.float64))
        o = custom(T, f, b or (lambda ctx, *g: g[0]), jvp=j).apply(x, *args)
        o = o if isinstance(o, tuple) else (o,)
        return [fw(T).unpack_dual(v).tangent for v in o if hasattr(v, "shape")]


@program
def int_out(T):
    return msg(lambda: gc_(T, lambda x: x.long(), leaf(T)))


@program
def forward_fn(T):
    return gc_(T, sqj(T), leaf(T), check_forward_ad=True), gc_(
        T, sqj(T), leaf(T), check_forward_ad=True, fast_mode=True
    )


@program
def forward_fn_bad(T):
    return msg(lambda: gc_(T, sqj(T, 3.0), leaf(T), check_forward_ad=True)), msg(
        lambda: gc_(T, sqj(T, 3.0), leaf(T), check_forward_ad=True, fast_mode=True)
    )


@program
def forward_fn_ctx_attr(T):
    def f(ctx, x):
        ctx.x = x
        return x * x

    A = custom(T, f, lambda ctx, g: 2 * ctx.x * g, jvp=lambda ctx, t: 2 * ctx.x * t).apply
    return gc_(T, A, leaf(T), check_forward_ad=True)


@program
def forward_fn_two(T):
    def f(ctx, x, y):
        ctx.save_for_backward(x, y)
        ctx.save_for_forward(x, y)
        return x * y

    def b(ctx, g):
        x, y = ctx.saved_tensors
        return g * y, g * x

    def j(ctx, s, t):
        x, y = ctx.saved_tensors
        return s * y + x * t

    A = custom(T, f, b, jvp=j).apply
    return (
        gc_(T, A, (leaf(T), leaf(T)), check_forward_ad=True),
        T.autograd.gradgradcheck(A, (leaf(T), leaf(T)), check_fwd_over_rev=True),
        gc_(T, A, (leaf(T), leaf(T).detach()), check_forward_ad=True),
    )


@program
def forward_fn_two_setup(T):
    def s(ctx, i, o):
        ctx.save_for_backward(*i)
        ctx.save_for_forward(*i)

    def b(ctx, g):
        x, y = ctx.saved_tensors
        return g * y, g * x

    def j(ctx, s, t):
        x, y = ctx.saved_tensors
        return s * y + x * t

    A = custom(T, lambda x, y: x * y, b, jvp=j, setup_context=s).apply
    return gc_(T, A, (leaf(T), leaf(T)), check_forward_ad=True), T.autograd.gradgradcheck(
        A, (leaf(T), leaf(T)), check_fwd_over_rev=True
    )


@program
def undualled_zero(T):
    rec = []

    def j(ctx, s, t):
        rec.append((s is None, t is None))
        return s + t

    A = custom(T, lambda ctx, x, y: x + y, lambda ctx, g: (g, g), jvp=j).apply
    with fw(T).dual_level():
        o = A(fw(T).make_dual(leaf(T), T.ones(3, dtype=T.float64)), leaf(T))
        p = A(fw(T).make_dual(leaf(T).detach(), T.ones(3, dtype=T.float64)), T.ones(3, dtype=T.float64))
        return rec, fw(T).unpack_dual(o).tangent, fw(T).unpack_dual(p).tangent


@program
def jvp_nondiff_given(T):
    def f(ctx, x):
        y = x * 2
        ctx.mark_non_differentiable(y)
        return x * 1, y

    return onej(T, f, lambda ctx, t: (t, t))


@program
def jvp_view_bad(T):
    return onej(T, lambda ctx, x: x.view_as(x), lambda ctx, t: t * 1)


@program
def jvp_view_slice_bad(T):
    return onej(T, lambda ctx, x: x[:2], lambda ctx, t: t[:2] * 1, b=lambda ctx, g: T.cat([g, g[:1]]))


@program
def jvp_return_input(T):
    return onej(T, lambda ctx, x: x, lambda ctx, t: t)


@program
def jvp_return_input_bad(T):
    return onej(T, lambda ctx, x: x, lambda ctx, t: t * 2)


@program
def jvp_inplace_bad(T):
    def f(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    return onej(T, f, lambda ctx, t: t * 2)


@program
def jvp_inplace_check(T):
    with fw(T).dual_level():
        t = T.ones(3, dtype=T.float64)
        x = fw(T).make_dual(leaf(T) * 1, t)

        def f(ctx, x):
            x.mul_(2)
            ctx.mark_dirty(x)
            return x

        o = custom(T, f, lambda ctx, g: g * 2, jvp=lambda ctx, t: t.mul_(2)).apply(x)
        return o is x, fw(T).unpack_dual(x), t


@program
def jvp_saved_for_backward_only(T):
    rec = []

    def f(ctx, x):
        ctx.save_for_backward(x)
        return x * 1

    def j(ctx, t):
        rec.append(len(ctx.saved_tensors))
        return t

    onej(T, f, j)
    return rec


@program
def ggc_asserts(T):
    return (
        msg(lambda: T.autograd.gradgradcheck(lambda x: x**2, leaf(T), check_rev_over_rev=False)),
        msg(
            lambda: T.autograd.gradgradcheck(
                lambda x: x**2, leaf(T), check_fwd_over_rev=True, check_rev_over_rev=False, check_batched_grad=True
            )
        ),
        msg(lambda: T.autograd.gradgradcheck(lambda x: x, T.ones(2, dtype=T.float64))),
    )


@program
def ggc_fwd(T):
    return T.autograd.gradgradcheck(
        lambda x: x**3, leaf(T), check_fwd_over_rev=True, check_rev_over_rev=False
    ), T.autograd.gradgradcheck(lambda x: x**3, leaf(T), check_batched_grad=True)


@program
def cplx_bad(T):
    x = T.tensor([1 + 2j, 3 - 1j], dtype=T.complex128, requires_grad=True)
    f = custom(T, saving_square, squared_gradient).apply
    return msg(lambda: gc_(T, f, x)), msg(lambda: gc_(T, f, x, fast_mode=True))


@program
def sparse_in2(T):
    x = T.eye(2, dtype=T.float64).to_sparse().requires_grad_()
    return msg(lambda: gc_(T, lambda x: T.sparse.sum(x), x, masked=True)), msg(
        lambda: gc_(T, lambda x: T.sparse.mm(x, T.ones(2, 2, dtype=T.float64)), x, masked=True)
    )


@program
def fwd_undefined_bad(T):
    def f(ctx, x, y):
        ctx.save_for_backward(x, y)
        ctx.save_for_forward(x, y)
        return x * y

    def b(ctx, g):
        x, y = ctx.saved_tensors
        return g * y, g * x

    def j(ctx, s, t):
        x, y = ctx.saved_tensors
        return s * y + x * t + 1

    return msg(lambda: gc_(T, custom(T, f, b, jvp=j).apply, (leaf(T), leaf(T)), check_forward_ad=True))


@needs_torch
@pytest.mark.parametrize("program", program, ids=lambda p: p.__name__)
def test_as_torch(program: Program) -> None:
    alike(program)
