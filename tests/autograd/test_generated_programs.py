"""A slice of the generated programs of `gates/`: none is wrong, and none ends in an error of NumPy's."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint
from gates import transforms
from gates.aliasing.judging import judge
from gates.aliasing.programs import generate
from tests.oracle import needs_torch, same, torch


@needs_torch
@pytest.mark.parametrize("seed", range(3))
def test_programs_of_views_and_writes(seed: int) -> None:
    for number in range(50):
        rng = np.random.default_rng([seed, number])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = generate(rng, torch, int(rng.integers(2, 9)))
            verdict, found = judge(program, torch)
        assert verdict in ("same", "differs"), (program, found)


@pytest.mark.parametrize("seed", range(2))
def test_functions_of_views_and_writes_inside_transforms(seed: int) -> None:
    for number in range(40):
        rng = np.random.default_rng([seed, number])
        program = transforms.generate(rng, int(rng.integers(2, 9)))
        for which, verdict in transforms.judge(program).items():
            assert verdict in ("same", "refused"), (which, verdict, program)


def test_detached_views_inside_transforms_see_writes() -> None:
    def f(y):
        y = y * 1
        z, d = y.t(), y.detach()
        y.mul_(2)
        return z.detach() * 1, d * 1

    x = adjoint.arange(8.0).reshape(2, 2, 2)
    z, d = adjoint.func.vmap(f)(x)
    assert z.tolist() == (2 * x.mT).tolist() and d.tolist() == (2 * x).tolist()
    (z, d), slopes = adjoint.func.jvp(f, (x[0],), (adjoint.ones(2, 2),))
    assert z.tolist() == (2 * x[0].t()).tolist() and d.tolist() == (2 * x[0]).tolist()
    assert all(not s.any() for s in slopes)
    assert adjoint.func.grad(lambda y: f(y)[1].sum() + (y * 3).sum())(x[0]).tolist() == [[3.0, 3.0], [3.0, 3.0]]


RESHAPES = {
    "t_": lambda a: a.t_(),
    "transpose_": lambda a: a.transpose_(0, 1),
    "swapaxes_": lambda a: a.swapaxes_(0, 1),
    "swapdims_": lambda a: a.swapdims_(0, 1),
    "unsqueeze_": lambda a: a.unsqueeze_(0),
    "unsqueeze_ behind": lambda a: a.unsqueeze_(-1),
    "squeeze_": lambda a: a.unsqueeze_(0).squeeze_(),
    "as_strided_": lambda a: a.as_strided_((12,), (1,)),
    "twice": lambda a: a.t_().unsqueeze_(1),
}
VIEWS = {
    "row": lambda a: a[0],
    "column": lambda a: a[:, 1],
    "block": lambda a: a[1:, ::2],
    "transposed": lambda a: a.t(),
    "diagonal": lambda a: a.diagonal(),
    "flat": lambda a: a.view(-1)[3:7],
}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("reshape", RESHAPES)
def test_a_view_written_after_its_base_was_reshaped(view: str, reshape: str) -> None:
    x = adjoint.arange(12.0, dtype=adjoint.float64).reshape(3, 4).requires_grad_()
    a = x * 1
    v = VIEWS[view](a)
    RESHAPES[reshape](a)
    v.mul_(2)
    a.sum().backward()
    expected = np.ones((3, 4))
    VIEWS[view](adjoint.from_numpy(expected)).mul_(2)
    assert x.grad.tolist() == expected.tolist()


def test_a_complex_view_written_after_its_base_was_reshaped() -> None:
    x = adjoint.ones(2, 2, dtype=adjoint.complex64, requires_grad=True)
    a = x * 1
    v = a.real
    a.unsqueeze_(0)
    v.mul_(2)
    a.real.sum().backward()
    assert x.grad.real.tolist() == [[2.0, 2.0], [2.0, 2.0]]


def test_a_view_beyond_its_reshaped_base_is_refused() -> None:
    x = adjoint.arange(12.0, requires_grad=True)
    a = x * 1
    v = a.view(3, 4)
    a.as_strided_((2,), (1,))
    a.mul_(2)
    with pytest.raises(RuntimeError, match="elements that its base does not have"):
        v.sum().backward()


def test_as_strided_of_a_view_reaches_the_base() -> None:
    # torch takes the gradient of what lies outside the view for zero
    x = adjoint.arange(4.0, requires_grad=True)
    (x * 1)[::2].as_strided((4,), (1,)).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 1.0, 1.0]


def test_negation_in_place_of_strided_memory() -> None:
    # NumPy 2.4's np.negative misreads elements 64 bytes apart where the output is strided
    x = adjoint.arange(24.0, dtype=adjoint.float64)
    x[::8].neg_()
    assert x[::8].tolist() == [0.0, -8.0, -16.0]


def detached_base(T):
    x = T.ones(4, dtype=T.float64, requires_grad=True)
    a = x * 3
    v, c = a[:2], a[:2].clone()
    a.detach_()
    a.neg_()
    (v.sum() + c.sum()).backward()
    return x.grad, v.requires_grad, a.requires_grad


def view_that_retains_its_gradient(T):
    x = T.ones(4, dtype=T.float64, requires_grad=True)
    a = x * 3
    v = a[::2]
    v.mul_(2)
    r = (v * v).sum()
    v.retain_grad()
    (r + (v * v).sum() + a.sum()).backward()
    return v.grad, v.retains_grad


def views_without_history(T):
    x = T.ones(3, requires_grad=True)
    with T.no_grad():
        v, w = x[:2], x[1:]
    return v.requires_grad, v.is_leaf, T.autograd.grad((v * 2 + w * 5).sum(), [v, w])


def views_without_history_of_several_shapes(T):
    x = T.ones(3, 2, requires_grad=True)
    with T.no_grad():
        v, w = x[:2], x[1]
    (v.sum() + w.sum() * 2 + x.sum()).backward()
    return v.grad, x.grad


def reshaped_unrecorded(T):
    x = T.ones(2, 3, requires_grad=True)
    a = x * 2
    with T.no_grad():
        a.t_()
    a.sum().backward()


def leaf_reshaped_between_uses(T):
    x = T.ones(2, 3, requires_grad=True)
    a = (x * 2).sum()
    with T.no_grad():
        x.t_()
    (a + (x * 3).sum()).backward()


def set_to_other_memory(T):
    x = T.ones(3, requires_grad=True) * 1
    x.set_(T.ones(4))
    return x.grad_fn.name().rpartition("::")[2], x._version, x.sum().backward()


def leaf_set_to_other_memory(T):
    T.ones(3, requires_grad=True).set_(T.ones(4))


def versions_of_set(T):
    x, y = T.ones(3), T.ones(4)
    y.add_(1).add_(1)
    x.set_(y)
    first = x._version
    x.add_(1)
    return first, x._version, y._version, y


def alias_makes_views_stale(T):
    a = T.ones(3, requires_grad=True) * 1
    d, v = a.detach(), a.unbind(0)[0]
    d.mul_(2)
    return v.sum()


def inference_view(T):
    a = T.ones(3, requires_grad=True) * 1
    with T.inference_mode():
        v = a[:2]
    a.mul_(2)
    return v.sum()


def buffer_view(T):
    buf = T.zeros(3)
    v = buf[0]
    buf[1] = T.ones((), requires_grad=True) * 1
    v.mul_(2)


def fill_expanded(T):
    a = T.ones(1, 3, requires_grad=True) * 1
    a.expand(2, 3).fill_(2.0)
    return a, a.grad_fn.name().rpartition("::")[2]


@needs_torch
@pytest.mark.parametrize(
    "program",
    [
        detached_base, view_that_retains_its_gradient, views_without_history, views_without_history_of_several_shapes,
        reshaped_unrecorded, leaf_reshaped_between_uses, set_to_other_memory, leaf_set_to_other_memory,
        versions_of_set, alias_makes_views_stale, inference_view, buffer_view, fill_expanded,
    ],
    ids=lambda p: p.__name__,
)  # fmt: skip
def test_program_equals_torch(program) -> None:
    same(program)


def test_as_strided_of_a_view_that_was_written_inside_vmap() -> None:
    def f(x):
        y = x * 1
        v = y[..., ::2]
        v.copy_(adjoint.ones(v.shape))
        v.as_strided((1,), (2,), 0).fill_(5)
        return y, v * 1

    y, v = adjoint.func.vmap(f)(adjoint.zeros(3, 2, 2))
    assert y.tolist() == [[[5, 0], [1, 0]]] * 3 and v.tolist() == [[[5], [1]]] * 3


def test_parts_of_what_is_detached_are_written_inside_transforms() -> None:
    def f(x):
        y = x * 1
        part = y.detach().split(1)[0]
        y.mul_(2)
        part.sqrt_()
        return (y * y).sum()

    x = adjoint.tensor([[2.0, 3.0], [8.0, 1.0]])
    expected = [adjoint.func.grad(f)(row).tolist() for row in x]
    assert adjoint.func.vmap(adjoint.func.grad(f))(x).tolist() == expected


def test_a_view_that_was_written_inside_vmap_lies_where_it_lay() -> None:
    def f(x):
        y = x * 1
        part = y.chunk(3)[2]
        part[0] = 7
        assert part.storage_offset() == 8 and part.stride() == (4, 1)
        part.fill_diagonal_(5)
        return y

    assert adjoint.func.vmap(f)(adjoint.zeros(2, 3, 4))[1, 2].tolist() == [5, 7, 7, 7]


# Programs that a long run of `gates.aliasing` found, by what went wrong.
FOUND = {
    "a hook after `.data` was set": [
        ("start", (2, 3, 2), "real"),
        ("grad", "other", "hook_scale", 0, 0, 0),
        ("grad", "other", "set_data", 0, 0, 0),
        ("grad", "other", "hook", 0, 0, 0),
    ],
    "a hook after `set_`": [
        ("start", (4,), "real"),
        ("grad", "view", "clone", 0, 0, 0),
        ("no_grad", "other", "set_", 0, 1, 0),
        ("grad", "other", "hook", 0, 0, 0),
    ],
    "as_strided_ of an empty diagonal": [
        ("start", (3, 1, 2), "leaf"),
        ("inference", "view", "diagonal", 1, 1, 0),
        ("grad", "view", "data", 2, 0, 0),
        ("grad", "shape", "as_strided_", 3, 0, 0),
    ],
    "a written no_grad view of a leaf that is frozen then": [
        ("start", (4,), "leaf"),
        ("no_grad", "view", "unsqueeze", 1, 0, 0),
        ("no_grad", "write", "relu", 2, 0, 0),
        ("no_grad", "other", "freeze", 1, 0, 0),
    ],
    "a no_grad view of a recorded view of a frozen leaf": [
        ("start", (3, 4), "leaf"),
        ("grad", "view", "movedim", 1, 0, 1),
        ("grad", "other", "freeze", 1, 0, 0),
        ("no_grad", "view", "permute", 2, 0, 0),
        ("grad", "write", "set", 1, 0, 0),
    ],
    "an alias written whose storage has views of another base": [
        ("start", (2, 3, 2), "real"),
        ("grad", "view", "detach", 0, 0, 0),
        ("grad", "view", "step", 1, 0, 0),
        ("inference", "view", "alias", 0, 0, 0),
        ("grad", "view", "unfold", 2, 0, 0),
        ("grad", "write", "square", 4, 0, 0),
    ],
    "an alias that gets another shape": [
        ("start", (2, 2), "leaf"),
        ("grad", "view", "detach", 1, 0, 0),
        ("grad", "view", "flat", 2, 0, 0),
        ("no_grad", "view", "row", 1, 0, 0),
        ("grad", "shape", "unsqueeze_", 2, 0, 0),
    ],
}


@needs_torch
@pytest.mark.parametrize("name", FOUND)
def test_program_that_was_wrong(name: str) -> None:
    verdict, found = judge(FOUND[name], torch)
    assert verdict == "same", found


@needs_torch
def test_a_view_is_frozen_and_thawed_with_its_leaf() -> None:
    def program(T):
        x, found = T.ones(2, 3, requires_grad=True), []
        with T.no_grad():
            view = x.view(-1)
            other = x[0]
            view.mul_(2)
        x.requires_grad_(False)
        found += [view.requires_grad, view.grad_fn, other.is_leaf, (other * 2).requires_grad]
        x.requires_grad_(True)
        with pytest.raises(RuntimeError, match="A view was created in no_grad mode and its base"):
            other * 2
        with T.no_grad():
            x.mul_(2)
        return [*found, view.requires_grad, x[0] * 1]

    same(program)


@pytest.mark.parametrize("cut", [lambda v: v.data, lambda v: v.detach()], ids=["data", "detach"])
@pytest.mark.parametrize("part", [slice(None, None, 2), slice(0, 2), slice(2, 4)], ids=["gaps", "first", "last"])
def test_a_write_beyond_the_base_is_refused(part: slice, cut: Callable[[Any], Any]) -> None:
    # torch reads whatever lies beyond the base's gradient
    x = adjoint.ones(2, requires_grad=True)
    y = adjoint.arange(4.0)
    base = cut(y[part])
    whole = base.as_strided((4,), (1,), 0)
    for view in (whole, whole[1:3]):
        with pytest.raises(RuntimeError, match="a view looks at elements that its base does not have"):
            view.mul_(x[0])
        assert y.tolist() == [0.0, 1.0, 2.0, 3.0]
    inside = base.as_strided((1,), (1,), base.storage_offset())
    inside.mul_(x[0] * 3)
    base.sum().backward()
    assert x.grad.tolist() == [3 * float(part.start or 0), 0.0]


@pytest.mark.parametrize("offset", [3, -3, 2**40, -(2**40)])
def test_an_empty_diagonal_stays_in_its_memory(offset: int) -> None:
    x = adjoint.arange(6.0).reshape(2, 3)[1:]
    empty = x.diagonal(offset)
    assert empty.numel() == 0 and empty.storage_offset() in (0, 3)
    assert empty.as_strided((3,), (1,), 3).tolist() == [3.0, 4.0, 5.0]


@needs_torch
def test_a_diagonal_is_filled_in_memory_of_any_order_inside_transforms() -> None:
    def program(T):
        def f(x):
            z = x.t() * 2  # which lies as `x.t()` does
            seen = z.view_as(z)
            z.fill_diagonal_(0.25)
            z.mul_(z.clone())
            return z * 1, seen * 1

        x = T.arange(36.0).reshape(3, 3, 4)
        slope = T.func.jvp(lambda y: f(y)[1], (x[0],), (T.ones(3, 4),))[1]
        return *T.func.vmap(f)(x), slope, T.func.vmap(T.func.grad(lambda y: f(y)[1].sum()))(x)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same(program)


def test_as_strided_of_a_tangent_that_lies_otherwise() -> None:
    x, t = adjoint.arange(12.0).reshape(3, 4).t(), adjoint.arange(12.0).reshape(4, 3)
    assert adjoint.func.jvp(lambda y: y.as_strided((3,), (5,)), (x,), (t,))[1].tolist() == [0.0, 4.0, 8.0]
