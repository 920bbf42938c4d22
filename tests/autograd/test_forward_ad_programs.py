"""Forward mode by hand (`autograd.forward_ad`): duals alias what they are made of, and refuse what torch refuses."""

from __future__ import annotations

from typing import Any

import pytest

from tests.autograd.programs import Programs
from tests.oracle import needs_torch, same

program = Programs()


def of(T: Any, *values: float) -> Any:
    return T.tensor(list(values) or [1.0, 2.0, 3.0], dtype=T.float64)


def parts(fw: Any, dual: Any) -> Any:
    primal, tangent = fw.unpack_dual(dual)
    return primal, "none" if tangent is None else tangent, None if tangent is None else tuple(tangent.stride())


@program
def alias_write(T, fw):
    x = of(T)
    with fw.dual_level():
        d = fw.make_dual(x, of(T, 1, 1, 1))
        d.mul_(2)
        return x, parts(fw, d)


@program
def alias_write2(T, fw):
    x = of(T)
    with fw.dual_level():
        d = fw.make_dual(x, of(T, 1, 1, 1))
        x.mul_(2)
        return d, parts(fw, d)


@program
def tangent_alias2(T, fw):
    x = of(T)
    tg = of(T, 1, 1, 1)
    with fw.dual_level():
        d = fw.make_dual(x, tg)
        tg.mul_(3)
        return parts(fw, d), parts(fw, d)[1].data_ptr() == tg.data_ptr()


@program
def primal_alias(T, fw):
    x = of(T)
    with fw.dual_level():
        d = fw.make_dual(x, of(T, 1, 1, 1))
        p = parts(fw, d)[0]
        return (
            p.data_ptr() == x.data_ptr(),
            d.data_ptr() == x.data_ptr(),
            p is x,
            d is x,
            d._is_view(),
            p._is_view(),
            d._base is x,
        )


@program
def view_tangent(T, fw):
    x = of(T)
    with fw.dual_level():
        d = fw.make_dual(x, of(T, 1, 2, 3))
        v = d[1:]
        v.mul_(2)
        return parts(fw, d), parts(fw, v)


@program
def base_tangent(T, fw):
    x = of(T)
    with fw.dual_level():
        d = fw.make_dual(x, of(T, 1, 2, 3))
        v = d[1:]
        d.mul_(2)
        return parts(fw, d), parts(fw, v)


@program
def view_of_plain(T, fw):
    x = of(T)
    with fw.dual_level():
        b = x * 1
        v = b[1:]
        d = fw.make_dual(of(T, 5, 6), of(T, 1, 1))
        v.copy_(d)
        return parts(fw, b), parts(fw, v)


@program
def view_of_plain2(T, fw):
    with fw.dual_level():
        b = T.zeros(3, dtype=T.float64)
        v = b[1:]
        w = b[:2]
        d = fw.make_dual(of(T, 5, 6), of(T, 1, 1))
        v.copy_(d)
        return parts(fw, b), parts(fw, v), parts(fw, w)


@program
def plain_base_written(T, fw):
    with fw.dual_level():
        b = T.zeros(3, dtype=T.float64)
        v = b[1:]
        d = fw.make_dual(of(T, 5, 6, 7), of(T, 1, 2, 3))
        b.copy_(d)
        return parts(fw, b), parts(fw, v)


@program
def setitem(T, fw):
    with fw.dual_level():
        b = T.zeros(3, dtype=T.float64)
        d = fw.make_dual(of(T, 5), of(T, 2))
        b[1] = d[0]
        return parts(fw, b)


@program
def add_out_of_place_view(T, fw):
    with fw.dual_level():
        d = fw.make_dual(of(T), of(T, 1, 2, 3))
        v = d.view(3, 1)
        w = v.of(T)
        return (
            parts(fw, w),
            parts(fw, d.expand(2, 3)),
            parts(fw, d[None]),
            parts(fw, d.unfold(0, 2, 1)),
            parts(fw, d.unbind()[1]),
            parts(fw, d.as_strided((2,), (1,), 1)),
        )


@program
def as_strided_of_view(T, fw):
    with fw.dual_level():
        d = fw.make_dual(of(T, 1, 2, 3, 4, 5, 6), of(T, 1, 2, 3, 4, 5, 6))
        v = d[2:]
        return parts(fw, v.as_strided((2,), (2,), 0)), parts(fw, v.as_strided((2,), (2,)))


@program
def copy_broadcast(T, fw):
    with fw.dual_level():
        b = T.zeros(2, 3, dtype=T.float64)
        d = fw.make_dual(of(T), of(T, 1, 2, 3))
        b.copy_(d)
        return parts(fw, b)


@program
def copy_broadcast_scalar(T, fw):
    with fw.dual_level():
        b = T.zeros(2, 3, dtype=T.float64)
        d = fw.make_dual(T.tensor(2.0, dtype=T.float64), T.tensor(3.0, dtype=T.float64))
        b.copy_(d)
        return parts(fw, b)


@program
def fill_dual(T, fw):
    with fw.dual_level():
        b = T.zeros(2)
        d = fw.make_dual(T.tensor(2.0), T.tensor(3.0))
        b.fill_(d)
        return parts(fw, b)


@program
def zero_dual(T, fw):
    with fw.dual_level():
        d = fw.make_dual(of(T), of(T, 1, 2, 3))
        d.zero_()
        return parts(fw, d)


@program
def storage(T, fw):
    with fw.dual_level():
        d = fw.make_dual(of(T), of(T, 1, 2, 3))
        return d.untyped_storage().nbytes(), d.storage_offset(), d.stride(), d.is_contiguous()


@program
def detach_(T, fw):
    with fw.dual_level():
        d = fw.make_dual(of(T), of(T, 1, 2, 3))
        return parts(fw, d.detach())


@program
def detach_inplace(T, fw):
    with fw.dual_level():
        d = fw.make_dual(of(T), of(T, 1, 2, 3)) * 1
        d.detach_()
        return parts(fw, d)


@program
def data(T, fw):
    with fw.dual_level():
        d = fw.make_dual(of(T), of(T, 1, 2, 3))
        return parts(fw, d.data)


@program
def detach_alias(T, fw):
    with fw.dual_level():
        d = fw.make_dual(of(T), of(T, 1, 2, 3)) * 1
        e = d.detach()
        d.mul_(2)
        return e, parts(fw, e)


@program
def detach_alias_write(T, fw):
    with fw.dual_level():
        d = fw.make_dual(of(T), of(T, 1, 2, 3)) * 1
        e = d.detach()
        e.mul_(2)
        return d, parts(fw, d)


@program
def no_grad(T, fw):
    with fw.dual_level():
        d = fw.make_dual(of(T), of(T, 1, 2, 3))
        with T.no_grad():
            return parts(fw, d * d)


@program
def inference(T, fw):
    with fw.dual_level():
        d = fw.make_dual(of(T), of(T, 1, 2, 3))
        with T.inference_mode():
            return parts(fw, d * d)


@program
def inference_make(T, fw):
    with T.inference_mode():
        with fw.dual_level():
            d = fw.make_dual(of(T), of(T, 1, 2, 3))
            return parts(fw, d * d)


@program
def make_in_no_grad(T, fw):
    x = of(T).requires_grad_()
    with fw.dual_level():
        with T.no_grad():
            d = fw.make_dual(x, of(T, 1, 2, 3))
        return d.requires_grad, parts(fw, d * d)


@program
def fwd_off(T, fw):
    with fw.dual_level():
        d = fw.make_dual(of(T), of(T, 1, 2, 3))
        with fw._set_fwd_grad_enabled(False):
            y = d * d
        return parts(fw, y), parts(fw, d)


@program
def twice(T, fw):
    with fw.dual_level():
        d = fw.make_dual(of(T), of(T, 1, 2, 3))
        e = fw.make_dual(d, of(T, 4, 5, 6))
        return parts(fw, e), parts(fw, d)


@program
def twice_same(T, fw):
    with fw.dual_level():
        x = of(T)
        d = fw.make_dual(x, of(T, 1, 2, 3))
        e = fw.make_dual(x, of(T, 4, 5, 6))
        return parts(fw, e), parts(fw, d), parts(fw, x)


@program
def tangent_dual(T, fw):
    with fw.dual_level():
        d = fw.make_dual(of(T), of(T, 1, 2, 3))
        e = fw.make_dual(of(T), d)
        return parts(fw, e)


@program
def nested(T, fw):
    with fw.dual_level():
        with fw.dual_level():
            pass


@program
def no_level(T, fw):
    fw.make_dual(of(T), of(T))


@program
def after_exit(T, fw):
    with fw.dual_level():
        d = fw.make_dual(of(T), of(T, 1, 2, 3))
    return tuple(fw.unpack_dual(d, level=0))


@program
def after_exit2(T, fw):
    with fw.dual_level():
        d = fw.make_dual(of(T), of(T, 1, 2, 3))
        y = d * d
    with fw.dual_level():
        return parts(fw, y), parts(fw, d)


@program
def unpack_nolevel(T, fw):
    return tuple(fw.unpack_dual(of(T)))


@program
def bad_shape(T, fw):
    with fw.dual_level():
        fw.make_dual(of(T), of(T, 1, 2))


@program
def bad_dtype(T, fw):
    with fw.dual_level():
        fw.make_dual(of(T), of(T, 1, 2, 3).float())


@program
def bad_dtype2(T, fw):
    with fw.dual_level():
        fw.make_dual(of(T), of(T, 1, 2, 3).to(T.complex128))


@program
def bad_int(T, fw):
    with fw.dual_level():
        fw.make_dual(T.tensor([1, 2]), of(T, 1, 2))


@program
def bad_int2(T, fw):
    with fw.dual_level():
        fw.make_dual(of(T, 1, 2), T.tensor([1, 2]))


@program
def unpack_type(T, fw):
    with fw.dual_level():
        return fw.unpack_dual(3.0)


@program
def level_arg(T, fw):
    with fw.dual_level():
        return parts(fw, fw.make_dual(of(T), of(T, 1, 1, 1), level=0))


@program
def level_neg(T, fw):
    with fw.dual_level():
        return parts(fw, fw.make_dual(of(T), of(T, 1, 1, 1), level=-1))


@program
def fwd_over_rev(T, fw):
    x = of(T).requires_grad_()
    with fw.dual_level():
        d = fw.make_dual(x, of(T, 1, 1, 1))
        y = (d**3).sum()
        (g,) = T.autograd.grad(y, d, create_graph=True)
        return parts(fw, g), parts(fw, y)


@program
def fwd_over_rev2(T, fw):
    x = of(T).requires_grad_()
    with fw.dual_level():
        d = fw.make_dual(x, of(T, 1, 1, 1))
        y = (d**3).sum()
        (g,) = T.autograd.grad(y, x)
        return parts(fw, g)


@program
def rev_over_fwd(T, fw):
    x = of(T).requires_grad_()
    tg = of(T, 1, 2, 3).requires_grad_()
    with fw.dual_level():
        d = fw.make_dual(x, tg)
        y = parts(fw, d**3)[1]
        return T.autograd.grad(y.sum(), (x, tg))


@program
def rev_over_fwd_bw(T, fw):
    x = of(T).requires_grad_()
    with fw.dual_level():
        d = fw.make_dual(x, of(T, 1, 2, 3))
        y = parts(fw, d.sin())[1]
    y.sum().backward()
    return x.grad


@program
def attrs(T, fw):
    x = of(T).requires_grad_()
    with fw.dual_level():
        d = fw.make_dual(x, of(T, 1, 2, 3))
        y = d * 2
        return (
            d.requires_grad,
            d.is_leaf,
            d.grad_fn is not None and d.grad_fn.name(),
            y.grad_fn.name(),
            d._version,
            y._is_view(),
            d._is_view(),
        )


@program
def attrs2(T, fw):
    with fw.dual_level():
        d = fw.make_dual(of(T), of(T, 1, 2, 3))
        y = d * 2
        return d.requires_grad, d.is_leaf, d.grad_fn, y.grad_fn, d._version, d._is_view(), y._is_view(), d._base is None


@program
def version(T, fw):
    with fw.dual_level():
        x = of(T)
        d = fw.make_dual(x, of(T, 1, 2, 3))
        d.mul_(2)
        return d._version, x._version


@program
def leaf_inplace(T, fw):
    x = of(T).requires_grad_()
    with fw.dual_level():
        d = fw.make_dual(x, of(T, 1, 2, 3))
        d.mul_(2)


@program
def saved_check(T, fw):
    x = of(T).requires_grad_()
    with fw.dual_level():
        d = fw.make_dual(x * 1, of(T, 1, 2, 3))
        y = d * d
        d.mul_(2)
        y.sum().backward()


@program
def inplace_tangent_none(T, fw):
    with fw.dual_level():
        a = of(T)
        d = fw.make_dual(of(T), of(T, 1, 2, 3))
        a.mul_(d)
        return parts(fw, a)


@program
def out_(T, fw):
    with fw.dual_level():
        d = fw.make_dual(of(T), of(T, 1, 2, 3))
        o = T.zeros(3, dtype=T.float64)
        T.mul(d, 2, out=o)
        return parts(fw, o)


@program
def out_2(T, fw):
    with fw.dual_level():
        d = fw.make_dual(of(T), of(T, 1, 2, 3))
        T.mul(of(T), 2, out=d)
        return parts(fw, d)


@program
def layout(T, fw):
    with fw.dual_level():
        x = T.zeros(2, 3, dtype=T.float64).of(T)
        tg = T.ones(3, 2, dtype=T.float64)
        d = fw.make_dual(x, tg)
        return parts(fw, d)[1].stride(), parts(fw, d * 2)[1].stride(), parts(fw, d)[1].data_ptr() == tg.data_ptr()


@program
def layout2(T, fw):
    with fw.dual_level():
        x = T.zeros(2, 3, dtype=T.float64)
        tg = T.ones(1, 3, dtype=T.float64).expand(2, 3)
        d = fw.make_dual(x, tg)
        d.mul_(2)
        return parts(fw, d), tg


@program
def complex_(T, fw):
    with fw.dual_level():
        z = T.tensor([1 + 2j], dtype=T.complex128)
        d = fw.make_dual(z, T.tensor([1j], dtype=T.complex128))
        return (
            parts(fw, d * d),
            parts(fw, d.real),
            parts(fw, T.view_as_real(d)),
            parts(fw, d.conj()),
            parts(fw, d.abs()),
        )


@program
def complex_view_write(T, fw):
    with fw.dual_level():
        z = T.tensor([1 + 2j], dtype=T.complex128)
        d = fw.make_dual(z, T.tensor([1j], dtype=T.complex128))
        d.real.mul_(3)
        return parts(fw, d)


@program
def clone_(T, fw):
    with fw.dual_level():
        d = fw.make_dual(of(T), of(T, 1, 2, 3))
        e = d.clone()
        e.mul_(2)
        return parts(fw, d), parts(fw, e)


@program
def int_cast(T, fw):
    with fw.dual_level():
        d = fw.make_dual(of(T), of(T, 1, 2, 3))
        return parts(fw, d.long()), parts(fw, d.float()), parts(fw, d > 1), parts(fw, d.double())


@program
def argmax(T, fw):
    with fw.dual_level():
        d = fw.make_dual(of(T), of(T, 1, 2, 3))
        m = d.max(0)
        return parts(fw, m[0]), parts(fw, m[1]), parts(fw, d.sort(descending=True)[0])


@program
def requires_grad_later(T, fw):
    with fw.dual_level():
        d = fw.make_dual(of(T), of(T, 1, 2, 3))
        d.requires_grad_()
        y = (d * d).sum()
        y.backward()
        return d.grad, d.is_leaf


@program
def transpose_inplace(T, fw):
    with fw.dual_level():
        d = fw.make_dual(T.zeros(2, 3, dtype=T.float64), T.arange(6.0, dtype=T.float64).reshape(2, 3))
        d.t_()
        return parts(fw, d)


@program
def view_then_reshape(T, fw):
    with fw.dual_level():
        d = fw.make_dual(T.zeros(2, 3, dtype=T.float64), T.arange(6.0, dtype=T.float64).reshape(2, 3)) * 1
        v = d[0]
        d.t_()
        v.add_(1)
        v.mul_(2)
        return parts(fw, d), parts(fw, v)


@program
def masked(T, fw):
    with fw.dual_level():
        d = fw.make_dual(of(T), of(T, 1, 2, 3)) * 1
        d.masked_fill_(d > 1.5, 0.0)
        return parts(fw, d)


@program
def index_(T, fw):
    with fw.dual_level():
        d = fw.make_dual(of(T), of(T, 1, 2, 3)) * 1
        d[T.tensor([0, 2])] = d[T.tensor([1, 1])] * 2
        return parts(fw, d)


@program
def multi_view_inplace(T, fw):
    with fw.dual_level():
        d = fw.make_dual(of(T), of(T, 1, 2, 3)) * 1
        a, b, c = d.unbind()
        a.mul_(5)
        return parts(fw, d), parts(fw, a)


@program
def no_grad_view_write(T, fw):
    with fw.dual_level():
        d = fw.make_dual(of(T), of(T, 1, 2, 3)) * 1
        with T.no_grad():
            v = d[1:]
        v.mul_(2)
        return parts(fw, d), parts(fw, v)


@program
def zeros_tangent(T, fw):
    with fw.dual_level():
        d = fw.make_dual(of(T), of(T, 0, 0, 0))
        return parts(fw, d * 2), parts(fw, T.ones(3, dtype=T.float64) * 2)


@program
def copy_plain_into_dual(T, fw):
    with fw.dual_level():
        d = fw.make_dual(of(T), of(T, 1, 2, 3))
        d.copy_(of(T, 7, 8, 9))
        return parts(fw, d)


@program
def iadd(T, fw):
    with fw.dual_level():
        d = fw.make_dual(of(T), of(T, 1, 2, 3))
        e = d
        d += 1
        d *= 2
        return parts(fw, d), d is e


@program
def stack_(T, fw):
    with fw.dual_level():
        d = fw.make_dual(of(T), of(T, 1, 2, 3))
        return parts(fw, T.stack([d, of(T)])), parts(fw, T.cat([of(T), d]))


@program
def hooks_(T, fw):
    got = []
    x = of(T).requires_grad_()
    with fw.dual_level():
        d = fw.make_dual(x, of(T, 1, 2, 3))
        d.register_hook(lambda g: got.append(g.tolist()))
        (d * d).sum().backward()
        return got


@program
def retain_(T, fw):
    x = of(T).requires_grad_()
    with fw.dual_level():
        d = fw.make_dual(x, of(T, 1, 2, 3))
        d.retain_grad()
        (d * d).sum().backward()
        return d.grad, x.grad


@needs_torch
@pytest.mark.parametrize("function", program, ids=lambda f: f.__name__)
def test_program_equals_torch(function: Any) -> None:
    def run(T: Any) -> Any:
        fw = T.autograd.forward_ad
        try:
            return function(T, fw)
        finally:
            while fw._current_level >= 0 if hasattr(fw, "_current_level") else fw._levels:
                fw.exit_dual_level()

    same(run)
