"""What programs see inside transforms: flags, unrecorded writes, tangents, numbers, prints; against torch."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import pytest

from tests.autograd.programs import Program, Programs, attempt
from tests.oracle import needs_torch, same

program = Programs()


def flags(*tensors: Any) -> list[Any]:
    return [(t.requires_grad, t.is_leaf, t.grad_fn is None) for t in tensors]


def numbers(T: Any, *shape: int) -> Any:
    return T.arange(1.0, 1.0 + T.Size(shape).numel(), dtype=T.float64).reshape(shape)


# --- Flags: what is made of captured tensors alone is a constant -----------------------------------


def captured(T: Any, transform: Any) -> Any:
    c, seen = T.tensor([1.0, 2.0], requires_grad=True), []

    def f(x: Any) -> Any:
        y = c * 2
        seen.extend(flags(c, y, y + 1, x, x * 2, x * y, (x * y).detach()))
        return x * y

    out = transform(f, T.ones(2))
    (g,) = T.autograd.grad(out.sum(), c)
    return out, g, seen


@program
def captured_in_grad(T):
    return captured(T, lambda f, x: T.func.grad(lambda z: f(z).sum())(x))


@program
def captured_in_vjp(T):
    return captured(T, lambda f, x: T.func.vjp(f, x)[1](T.ones(2))[0])


@program
def captured_in_jvp(T):
    out, g, seen = captured(T, lambda f, x: T.func.jvp(f, (x,), (x,))[1])
    return out.detach(), g, seen


@program
def captured_in_grad_of_grad(T):
    return captured(T, lambda f, x: T.func.grad(lambda z: T.func.grad(lambda y: (f(y) * y).sum())(z).sum())(x))


@program
def captured_from_the_transform_around(T):
    seen: list[Any] = []

    def outer(x: Any) -> Any:
        y = x * 2

        def inner(z: Any) -> Any:
            seen.extend(flags(x, y, y * 2, z, y * z))
            return (z * y).sum()

        return T.func.grad(inner)(T.ones(2)).sum()

    return T.func.grad(outer)(T.ones(2)), seen


@program
def arguments_that_require_grad_are_leaves(T):
    x, seen = T.ones(2, requires_grad=True), []
    g = T.func.grad(lambda z: (seen.extend(flags(z, z * 2)), (z**2).sum())[1])(x * 3)
    return g, seen, T.autograd.grad(g.sum(), x)


@program
def custom_ops_and_hooks_of_captured_values(T):
    c = T.tensor([1.0, 2.0], requires_grad=True)
    layer = T.nn.Identity()
    layer.register_full_backward_hook(lambda m, gi, go: None)
    g = T.func.grad(lambda x: (layer(c * 2) * x).sum())(T.ones(2))
    return g, T.autograd.grad(g.sum(), c)


# --- Writes that are not recorded keep the history of what they write -------------------------------


def write_detached(T: Any, y: Any) -> None:
    y.detach().mul_(2)


def write_view_detached(T: Any, y: Any) -> None:
    y[0].detach().mul_(2)


def write_silently(T: Any, y: Any) -> None:
    with T.no_grad():
        y.mul_(2)


def write_view_silently(T: Any, y: Any) -> None:
    with T.no_grad():
        y[0].mul_(2)


TRANSFORMS: dict[str, Any] = {
    "grad": lambda T, f, x: T.func.grad(lambda z: (f(z) ** 2).sum())(x),
    "grad of vmap": lambda T, f, x: T.func.grad(lambda z: (T.vmap(f)(z) ** 2).sum())(x),
    "vmap of grad": lambda T, f, x: T.vmap(T.func.grad(lambda z: (f(z) ** 2).sum()))(x),
    "grad of vmap of vmap": lambda T, f, x: T.func.grad(lambda z: (T.vmap(T.vmap(f))(z.expand(2, 2, 2)) ** 2).sum())(x),
    "jvp of vmap": lambda T, f, x: T.func.jvp(T.vmap(f), (x,), (x,)),
    "vmap of jvp": lambda T, f, x: T.vmap(lambda z: T.func.jvp(f, (z,), (z,)))(x),
    "around vmap": lambda T, f, x: T.autograd.grad((T.vmap(f)(x.requires_grad_()) ** 2).sum(), x),
}


def writing(transform: Any, write: Any) -> Program:
    def f(T: Any) -> Any:
        def function(x: Any) -> Any:
            y = x * 1
            write(T, y)
            return y

        return transform(T, function, numbers(T, 2, 2))

    return f


for _name, _transform in TRANSFORMS.items():
    for _write in (write_detached, write_view_detached, write_silently, write_view_silently):
        _program = writing(_transform, _write)
        _program.__name__ = f"{_write.__name__} in {_name}"
        program(_program)


# --- Tangents ----------------------------------------------------------------------------------------


def dual_writes(T: Any, write: Any) -> Any:
    with T.autograd.forward_ad.dual_level():
        x, t = T.tensor([1.0, 2.0]), T.tensor([3.0, 4.0])
        d = T.autograd.forward_ad.make_dual(x, t)
        kept = [d + 1, d * 2, d.clone()]
        write(d)
        unpacked = [T.autograd.forward_ad.unpack_dual(v) for v in (d, *kept)]
        return x, t, [list(u) for u in unpacked], unpacked[0].tangent is t


WRITES: dict[str, Any] = {
    "mul": lambda d: d.mul_(3),
    "sin": lambda d: d.sin_(),
    "zero": lambda d: d.zero_(),
    "fill": lambda d: d.fill_(2.0),
    "view": lambda d: d[0].mul_(5),
    "item": lambda d: d.__setitem__(0, 5),
    "detached": lambda d: d.detach().mul_(5),
}
for _name, _write in WRITES.items():
    _program = lambda T, write=_write: dual_writes(T, write)
    _program.__name__ = f"dual, {_name}"
    program(_program)


@program
def a_dual_is_a_view_of_its_primal(T):
    with T.autograd.forward_ad.dual_level():
        d = T.autograd.forward_ad.make_dual(T.ones(2), T.ones(2))
        return attempt(lambda: d.detach_()), (d * 2).detach_()


# --- Numbers, prints, refusals ------------------------------------------------------------------------


@program
def numbers_of_duals(T):
    seen: list[Any] = []

    def f(x: Any) -> Any:
        seen.append((f"{x.sum():.2f}", T.tensor([x.sum(), 2.0]), T.arange(x.sum()), x[0].item()))
        seen.append(T.nn.functional.one_hot(x.long()))
        return x

    return T.func.jvp(f, (numbers(T, 2),), (numbers(T, 2),)), seen


@program
def escaped_duals_are_their_values(T):
    kept: list[Any] = []
    T.func.jvp(lambda x: (kept.extend([x, x * 2]), x)[1], (numbers(T, 2),), (numbers(T, 2),))
    return [(k.sum(), k[0].item(), k + 1, k.clone(), k.exp()) for k in kept]


@program
def escaped_batches_are_not_cloned(T):
    kept: list[Any] = []
    T.vmap(lambda x: (kept.append(x), x)[1])(numbers(T, 2))
    kept[0].clone()


@program
def numbers_inside_a_gradient_in_a_batch(T):
    for read in (float, int, bool, lambda v: v.item(), lambda v: [1, 2, 3][v.long()]):
        yield attempt(lambda read=read: T.vmap(T.func.grad(lambda x: x.sum() * read(x.sum())))(numbers(T, 2, 2)))


@program
def numbers_in_a_batch(T):
    for read in (lambda v: 1.0 in v, lambda v: T.tensor([v.sum(), 1.0]), lambda v: v.retain_grad()):
        yield attempt(lambda read=read: T.vmap(lambda x: (read(x), x)[1])(numbers(T, 2, 2)))


@program
def printed_along_the_dimension_of_the_batch(T):
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        T.vmap(lambda x: (print(x), print(x * 2), x)[-1], in_dims=1)(T.ones(2, 3))
        T.vmap(T.vmap(lambda x: (print(x), x)[-1], in_dims=1), in_dims=1)(T.ones(2, 2, 2))
    return text.getvalue()


@program
def no_negative_strides(T):
    return [T.func.grad(lambda x: (x.cumsum(0) ** 2).sum())(numbers(T, 3)).stride()]


@program
def results_that_lie_row_by_row(T):
    x = numbers(T, 2, 3).t()
    outs = [T.cat([x, x]), T.cat([x, x], 1), T.stack([x, x], 1), x.softmax(0), x.log_softmax(1), x.cumsum(0)]
    return [o.stride() for o in outs], [o.view(-1) for o in outs]


@program
def equal_elements_of_a_batch_can_be_written(T):
    for make in (lambda x: x.new_zeros(2), T.zeros_like, lambda x: T.full_like(x, 3.0)):
        yield T.vmap(make)(numbers(T, 3, 2)).add_(numbers(T, 3, 2))


@program
def memory_formats_of_a_batch(T):
    return attempt(lambda: T.vmap(lambda x: x.clone(memory_format=T.channels_last))(T.ones(2, 1, 2, 3, 3)))


@program
def put_of_a_batched_index(T):
    i, s = T.tensor([[0, 3], [-1, 2]]), numbers(T, 2, 2)
    for accumulate in (False, True):
        f = lambda x, i, s, a=accumulate: (x.put(i, s, a) ** 2).sum()
        yield T.vmap(T.func.grad(f, argnums=(0, 2)))(numbers(T, 2, 2, 2), i, s)


@program
def running_statistics_are_constants(T):
    for training in (False, True):
        yield attempt(lambda: T.nn.functional.batch_norm(T.ones(3, 2), T.zeros(2, requires_grad=True), T.ones(2)))


@program
def linearized_beside_constants(T):
    f = lambda x: {"a": x * 2, "b": x.long(), "c": 3, "d": [None]}
    out, push = T.func.linearize(f, numbers(T, 2))
    return out, push(numbers(T, 2)), attempt(lambda: T.func.linearize(f, T.tensor([1])))


@needs_torch
@pytest.mark.parametrize("run", program, ids=lambda p: p.__name__)
def test_as_in_torch(run: Program) -> None:
    def listed(T: Any) -> Any:
        found = run(T)
        return list(found) if hasattr(found, "send") else found

    same(listed)
