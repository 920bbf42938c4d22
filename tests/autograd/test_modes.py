"""Grad modes, inference mode and anomaly detection, program by program, against torch."""

from __future__ import annotations

import pytest

from tests.oracle import alike, needs_torch

from .programs import Program, Programs, attempt, custom, leaf, saving_square, squared_gradient

program = Programs()


def im(T):
    return T.inference_mode()


def ge(T):
    return T.is_grad_enabled()


def about2(v):
    return v.requires_grad, v.is_leaf, v.grad_fn is not None and v.grad_fn.name(), v._is_view(), v.is_inference()


RESHAPES = {
    "transpose_": (0, 1),
    "t_": (),
    "squeeze_": (),
    "unsqueeze_": (0,),
    "swapaxes_": (0, 1),
    "swapdims_": (0, 1),
    "as_strided_": ((2,), (1,)),
    "resize_": (3,),
}


@program
def inference_tensors_are_not_reshaped_outside(T):
    def one(name, args):
        with im(T):
            y = T.ones(2, 3)
        return attempt(lambda: getattr(y, name)(*args))

    return [one(name, args) for name, args in RESHAPES.items()]


@program
def deco_fn(T):
    rec = []

    @T.no_grad()
    def f():
        rec.append(ge(T))
        return 1

    @T.no_grad
    def g():
        rec.append(ge(T))

    @T.enable_grad()
    def h():
        rec.append(ge(T))

    @T.set_grad_enabled(False)
    def i():
        rec.append(ge(T))

    @T.inference_mode()
    def j():
        rec.append((ge(T), T.is_inference_mode_enabled()))

    @T.inference_mode
    def k():
        rec.append((ge(T), T.is_inference_mode_enabled()))

    @T.inference_mode(False)
    def l_():
        rec.append((ge(T), T.is_inference_mode_enabled()))

    @T.enable_grad
    def m():
        rec.append(ge(T))

    rec.append(ge(T))
    for q in (f, g, h, i, j, k, l_, m):
        q()
    with T.no_grad():
        h()
        l_()
        m()
    return rec, f.__name__


@program
def sge_int(T):
    T.set_grad_enabled(0)
    return ge(T)


@program
def ng_attrs(T):
    c = T.no_grad()
    a = c.prev
    with c:
        b = c.prev
    return a, b, c.clone().__class__.__name__


@program
def ng_mro(T):
    return (
        [k.__name__ for k in T.no_grad.__mro__],
        [k.__name__ for k in T.set_grad_enabled.__mro__],
        [k.__name__ for k in T.inference_mode.__mro__],
    )


@program
def im_flags(T):
    rec = []
    with im(T):
        rec.append((ge(T), T.is_inference_mode_enabled()))
        with T.inference_mode(False):
            rec.append((ge(T), T.is_inference_mode_enabled()))
        with T.enable_grad():
            rec.append((ge(T), T.is_inference_mode_enabled()))
            x = leaf(T)
            y = x * 2
            rec.append((y.requires_grad, y.is_inference()))
    with T.no_grad():
        with T.inference_mode(False):
            rec.append((ge(T), T.is_inference_mode_enabled()))
    return rec


@program
def im_view_outside(T):
    with im(T):
        y = T.ones(4)
    v = y.view(2, 2)
    return about2(v), attempt(lambda: v.mul_(2)), about2(y[0])


@program
def im_increment(T):
    with im(T):
        y = T.ones(3)
    return T.autograd.graph.increment_version(y)


@program
def im_shallow(T):
    with im(T):
        y = T.ones(3)
        z = y.view_as(y)
        z.add_(1)
        return y, about2(z)


@program
def an_metadata(T):
    x = T.ones(3, requires_grad=True)
    with T.autograd.detect_anomaly():
        y = x.exp()
        z = custom(T, saving_square, squared_gradient).apply(y)
    w = x.exp()
    return (
        list(y.grad_fn.metadata),
        list(z.grad_fn.metadata),
        list(w.grad_fn.metadata),
        type(y.grad_fn.metadata.get("traceback_")).__name__,
        "an_metadata" in "".join(y.grad_fn.metadata.get("traceback_", [])),
    )


@program
def an_parent(T):
    x = T.ones(3, requires_grad=True)
    with T.autograd.detect_anomaly():
        y = (x**3).sum()
        (g,) = T.autograd.grad(y, x, create_graph=True)
    return sorted(g.grad_fn.metadata), type(g.grad_fn.metadata.get("parent_")).__name__


@program
def an_hook_nan(T):
    x = T.ones(3, requires_grad=True)
    y = x * 2
    y.register_hook(lambda g: g * float("nan"))
    with T.autograd.detect_anomaly():
        y.sum().backward()
    return x.grad


@needs_torch
@pytest.mark.parametrize("program", program, ids=lambda p: p.__name__)
def test_as_torch(program: Program) -> None:
    alike(program)
