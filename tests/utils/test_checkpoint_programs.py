"""Checkpoints of both kinds, program by program, against torch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.autograd.programs import Program, Programs, about, attempt, leaf
from tests.oracle import alike, needs_torch, torch

if torch is not None:
    import torch.utils.checkpoint

program, both = Programs(), Programs()


def C(T: Any) -> Any:
    return T.utils.checkpoint


def cp(T: Any, function: Any, *args: Any, **options: Any) -> Any:
    return C(T).checkpoint(function, *args, use_reentrant=False, **options)


@both
def basic(T, ck):
    x = leaf(T)
    n = []
    y = ck(lambda x: (n.append(1), x.exp().sin())[1], x)
    r = about(y), len(n)
    y.sum().backward()
    return r, len(n), x.grad


@both
def grad_api(T, ck):
    x = leaf(T)
    y = ck(lambda x: x.exp().sin(), x)
    return T.autograd.grad(y.sum(), x)


@both
def inputs_arg(T, ck):
    x = leaf(T)
    y = ck(lambda x: x.exp().sin(), x)
    y.sum().backward(inputs=[x])
    return x.grad


@both
def create_graph(T, ck):
    x = leaf(T)
    y = ck(lambda x: x**3, x).sum()
    y.backward(create_graph=True)
    g = x.grad
    return g.requires_grad, attempt(lambda: T.autograd.grad(g.sum(), x))


@both
def double_grad(T, ck):
    x = leaf(T)
    y = ck(lambda x: x**3, x).sum()
    (g,) = T.autograd.grad(y, x, create_graph=True)
    (h,) = T.autograd.grad(g.sum(), x)
    return g, h


@both
def no_requires(T, ck):
    x = T.ones(3)
    y = ck(lambda x: x.exp(), x)
    return about(y)


@both
def captured_only(T, ck):
    x = T.ones(3, dtype=T.float64)
    w = leaf(T)
    y = ck(lambda x: x * w, x)
    r = about(y)
    return r, attempt(lambda: y.sum().backward()), w.grad


@both
def kwargs(T, ck):
    x = leaf(T)
    y = ck(lambda x, s=1: x * s, x, s=3)
    y.sum().backward()
    return x.grad


@both
def dict_out(T, ck):
    x = leaf(T)
    y = ck(lambda x: {"a": x.exp()}, x)
    y["a"].sum().backward()
    return x.grad


@both
def nested_in(T, ck):
    x = leaf(T)
    y = ck(lambda d: d["x"].exp(), {"x": x})
    r = y.requires_grad
    return r, attempt(lambda: y.sum().backward()), x.grad


@both
def nested_ck(T, ck):
    x = leaf(T)
    n = []

    def g(x):
        n.append("g")
        return x.sin().exp()

    def f(x):
        n.append("f")
        return ck(g, x.cos()).cos()

    y = ck(f, x)
    y.sum().backward()
    return n, x.grad


@both
def nested3(T, ck):
    x = leaf(T)
    n = []

    def h(x):
        n.append("h")
        return x.tanh()

    def g(x):
        n.append("g")
        return ck(h, x.sin()).exp()

    def f(x):
        n.append("f")
        return ck(g, x.cos()).cos()

    y = ck(f, x)
    y.sum().backward()
    return n, x.grad


@both
def context_fn(T, ck):
    import contextlib

    rec = []

    @contextlib.contextmanager
    def c(n):
        rec.append(n + ">")
        yield
        rec.append("<" + n)

    x = leaf(T)
    y = ck(lambda x: x.exp(), x, context_fn=lambda: (c("f"), c("r")))
    y.sum().backward()
    return rec, x.grad


@both
def det_bad(T, ck):
    return ck(lambda x: x, leaf(T), determinism_check="blah")


@both
def module_inp_noreq(T, ck):
    T.manual_seed(0)
    m = T.nn.Linear(3, 4)
    x = T.ones(2, 3)
    y = ck(m, x)
    return y.requires_grad, attempt(lambda: y.sum().backward()), m.weight.grad


@both
def bn(T, ck):
    m = T.nn.BatchNorm1d(3)
    x = T.arange(6.0).view(2, 3).requires_grad_()
    ck(m, x).sum().backward()
    return m.num_batches_tracked, m.running_mean


@both
def early_stop_on(T, ck):
    x = leaf(T)
    n = []

    def f(x):
        y = x.exp()
        n.append(1)
        z = y.sin()
        n.append(2)
        w = z + 1
        n.append(3)
        return w

    y = ck(f, x)
    y.sum().backward()
    return n, x.grad


@both
def hooks_inside(T, ck):
    x = leaf(T)
    rec = []

    def f(x):
        y = x.exp()
        y.register_hook(lambda g: rec.append(g))
        return y.sin()

    ck(f, x).sum().backward()
    return rec


@both
def no_grad_output(T, ck):
    x = leaf(T)
    y = ck(lambda x: x.detach(), x)
    return about(y)


@both
def grad_fn_name(T, ck):
    x = leaf(T)
    return ck(lambda x: x.exp(), x).grad_fn.name()


@both
def bad_kw(T, ck):
    return ck(lambda x: x, leaf(T), foo=3)


@program
def no_reentrant_given(T):
    x = leaf(T)
    y = C(T).checkpoint(lambda x: x.exp(), x)
    y.sum().backward()
    return x.grad, y.grad_fn.name()


@program
def no_reentrant_seq(T):
    m = T.nn.Sequential(T.nn.Identity(), T.nn.Identity())
    x = leaf(T)
    y = C(T).checkpoint_sequential(m, 1, x)
    return y


@program
def mism_count(T):
    x = leaf(T)
    n = [0]

    def f(x):
        n[0] += 1
        y = x.exp()
        return y.sin() if n[0] == 1 else y

    cp(T, f, x).sum().backward()


@program
def mism_count_more(T):
    x = leaf(T)
    n = [0]

    def f(x):
        n[0] += 1
        y = x.exp()
        return y.sin() if n[0] > 1 else y

    with C(T).set_checkpoint_early_stop(False):
        y = cp(T, f, x)
    y.sum().backward()


@program
def mism_shape(T):
    x = leaf(T)
    n = [0]

    def f(x):
        n[0] += 1
        return (x if n[0] == 1 else x[:2]).exp().sum()

    cp(T, f, x).backward()


@program
def mism_dtype(T):
    x = leaf(T)
    n = [0]

    def f(x):
        n[0] += 1
        return (x if n[0] == 1 else x.float()).exp().sum()

    cp(T, f, x).backward()


@program
def exec_group(T):
    x = leaf(T)
    n = []

    def f(x):
        n.append(1)
        return x.sin().exp()

    y = cp(T, f, x)
    with C(T).GraphExecGroup():
        (g,) = T.autograd.grad(y.sum(), x, retain_graph=True)
        (h,) = T.autograd.grad(y.sum(), x)
    return g, h, len(n)


@program
def exec_group2(T):
    x = leaf(T)
    w = leaf(T)
    n = []

    def f(x):
        n.append(1)
        return (x * w).sin()

    y = cp(T, f, x).sum()
    with C(T).GraphExecGroup():
        T.autograd.backward(y, inputs=[x], retain_graph=True)
        T.autograd.backward(y, inputs=[w])
    return x.grad, w.grad, len(n)


@program
def exec_group_nested(T):
    with C(T).GraphExecGroup():
        with C(T).GraphExecGroup():
            pass


@program
def dev_states(T):
    return C(T).get_device_states(T.ones(2), 3)


@program
def default_device(T):
    D = C(T).DefaultDeviceType
    a = D.get_device_type()
    D.set_device_type("cpu")
    b = D.get_device_type()
    D.set_device_type(a)
    return a, b


@program
def set_dbg(T):
    x = leaf(T)
    n = [0]

    def f(x):
        n[0] += 1
        return (x if n[0] == 1 else x[:2]).exp().sum()

    with C(T).set_checkpoint_debug_enabled(True):
        y = cp(T, f, x)
    e = attempt(lambda: y.backward())
    return type(e).__name__, "Operations executed" in str(e)


@program
def policy(T):
    P = C(T).CheckpointPolicy
    return [p.name for p in P], [p.value for p in P]


@program
def sac_reentrant(T):
    return C(T).checkpoint(
        lambda x: x, leaf(T), use_reentrant=True, context_fn=lambda: C(T).create_selective_checkpoint_contexts([])
    )


@program
def reentrant_kw(T):
    return C(T).checkpoint(lambda x, s: x * s, leaf(T), use_reentrant=True, s=3)


@program
def reentrant_inputs_msg(T):
    x = leaf(T)
    y = C(T).checkpoint(lambda x: x.exp(), x, use_reentrant=True)
    return attempt(lambda: T.autograd.grad(y.sum(), x)), attempt(lambda: y.sum().backward(inputs=x))


@program
def reentrant_no_req_warn(T):
    return C(T).checkpoint(lambda x: x.exp(), T.ones(2), use_reentrant=True)


@program
def reentrant_out_noreq(T):
    x = leaf(T)
    y = C(T).checkpoint(lambda x: (x.exp(), x.detach()), x, use_reentrant=True)
    r = [about(a) for a in y]
    return r, attempt(lambda: y[1].sum().backward())


@program
def reentrant_all_detached(T):
    x = leaf(T)
    y = C(T).checkpoint(lambda x: x.detach(), x, use_reentrant=True)
    return attempt(lambda: y.sum().backward())


@program
def reentrant_n(T):
    x = leaf(T)
    n = []
    gm = []

    def f(x):
        n.append(1)
        gm.append((T.is_grad_enabled(), x.is_leaf, x.requires_grad))
        return x.exp()

    y = C(T).checkpoint(f, x * 1, use_reentrant=True)
    y.sum().backward()
    return n, gm


@program
def ck_valid_reset(T):
    x = leaf(T)
    y = C(T).checkpoint(lambda x: x.exp(), x, use_reentrant=True).sum()
    r = attempt(lambda: T.autograd.grad(y, x))
    z = C(T).checkpoint(lambda x: x.exp(), x, use_reentrant=True).sum()
    z.backward()
    return r, x.grad


@program
def ck_backward_in_forward_noearly(T):
    x = leaf(T)
    n = []

    def f(x):
        n.append(1)
        y = x.exp().sin()
        (g,) = T.autograd.grad(y.sum(), x)
        return x * g

    with C(T).set_checkpoint_early_stop(False):
        y = cp(T, f, x)
    y.sum().backward()
    return len(n), x.grad


@program
def ck_sac_twice(T):
    import functools

    S = C(T)
    x = T.ones(2, 2, requires_grad=True)
    y = S.checkpoint(
        lambda x: (x @ x).sin().exp(),
        x,
        use_reentrant=False,
        context_fn=functools.partial(
            S.create_selective_checkpoint_contexts, lambda c, o, *a, **k: S.CheckpointPolicy.MUST_SAVE
        ),
    ).sum()
    y.backward(retain_graph=True)
    return attempt(lambda: y.backward())


@program
def ck_context_suppress(T):
    import contextlib

    def f(x):
        raise ValueError("q")

    return attempt(
        lambda: cp(T, f, leaf(T), context_fn=lambda: (contextlib.suppress(ValueError), contextlib.nullcontext()))
    )


@program
def ck_reentrant_list_out(T):
    x = leaf(T)
    y = C(T).checkpoint(lambda x: [x.exp(), x.sin()], x, use_reentrant=True)
    return type(y).__name__, y[0].requires_grad


@program
def ck_reentrant_inplace(T):
    x = leaf(T)
    a = x * 1

    def f(a):
        a.mul_(2)
        return a.exp()

    return attempt(lambda: C(T).checkpoint(f, a, use_reentrant=True).sum().backward()), x.grad


@needs_torch
@pytest.mark.parametrize("program", program, ids=lambda p: p.__name__)
def test_as_torch(program: Program) -> None:
    alike(program)


@needs_torch
@pytest.mark.parametrize("reentrant", [False, True], ids=["recorded", "reentrant"])
@pytest.mark.parametrize("program", both, ids=lambda p: p.__name__)
def test_both_kinds_as_torch(program: Any, reentrant: bool) -> None:
    def run(T: Any) -> Any:
        return program(T, lambda f, *args, **options: C(T).checkpoint(f, *args, use_reentrant=reentrant, **options))

    alike(run)
