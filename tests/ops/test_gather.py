"""Gather, scatter, the index_* family, sorting and searching: against torch, forward, batched."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint
from tests.ops import checks
from tests.oracle import needs_torch, outcome, same, torch

I, J = np.array([2, 0, 0]), np.array([[0, 2, 1], [1, 1, 0]])
ROWS = np.array([[0, 1, 1, 0], [2, 0, 0, 2]])
B = (3, 4)
MASK = np.arange(12).reshape(3, 4) % 3 == 0


def _reduce(how: str, include: bool) -> Any:
    return lambda m, x, y, i: m.scatter_reduce(x, 0, i, y, how, include_self=include)


# name: (program, inputs); arrays are given as they are, shapes stand for floating inputs.
TABLE: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "gather": (lambda m, x, i: m.gather(x, 0, i), (B, ROWS)),
    "gather columns": (lambda m, x, i: x.gather(-1, i), (B, J)),
    "gather vector": (lambda m, x, i: x.gather(0, i), ((4,), I)),
    "gather 0-d": (lambda m, x, i: x.gather(0, i), ((), np.array(0))),
    "gather 3-d": (lambda m, x, i: x.gather(1, i), ((2, 3, 2), np.array([[[0, 2]], [[1, 1]]]))),
    "take_along_dim": (lambda m, x, i: m.take_along_dim(x, i, 1), (B, np.array([[0, -1, 1]]))),
    "take_along_dim flat": (lambda m, x, i: m.take_along_dim(x, i), (B, np.array([5, 5, 11]))),
    "scatter": (
        lambda m, x, y, i: m.scatter(x, 0, i, y),
        (B, (2, 4), np.array([[0, 1, 2, 0], [2, 0, 0, 2]])),
    ),
    "scatter wide": (lambda m, x, y, i: x.scatter(1, i, y), (B, (3, 4), np.array([[0, 2, 1], [1, 3, 0]]))),
    "scatter number": (lambda m, x, i: x.scatter(1, i, 2.5), (B, J)),
    "scatter_add": (lambda m, x, y, i: m.scatter_add(x, 0, i, y), (B, (2, 4), ROWS)),
    "scatter_add wide": (lambda m, x, y, i: x.scatter_add(1, i, y), (B, (3, 5), J)),
    **{
        f"scatter_reduce {how} {include}": (_reduce(how, include), (B, (2, 4), ROWS))
        for how in ("sum", "prod", "mean", "amax", "amin")
        for include in (True, False)
    },
    "index_select": (lambda m, x, i: m.index_select(x, 0, i), (B, I)),
    "index_select columns": (lambda m, x, i: x.index_select(1, i), (B, I)),
    "index_add": (lambda m, x, y, i: x.index_add(0, i, y), (B, (3, 4), I)),
    "index_add columns": (lambda m, x, y, i: m.index_add(x, 1, i, y, alpha=2), (B, (3, 3), I)),
    "index_copy": (lambda m, x, y, i: x.index_copy(0, i, y), (B, (2, 4), np.array([2, 0]))),
    "index_fill": (lambda m, x, i: x.index_fill(1, i, 7.0), (B, I)),
    "index_fill 0-d": (lambda m, x, y, i: x.index_fill(1, i, y), (B, (), I)),
    "index_reduce": (lambda m, x, y, i: x.index_reduce(0, i, y, "amax"), (B, (3, 4), I)),
    "take": (lambda m, x, i: m.take(x, i), (B, J)),
    "take negative": (lambda m, x, i: x.take(i), (B, np.array([-1, 0, -1]))),
    "sort": (lambda m, x: m.sort(x), (B,)),
    "sort descending": (lambda m, x: x.sort(0, descending=True), (B,)),
    "msort": (lambda m, x: m.msort(x), (B,)),
    "topk": (lambda m, x: x.topk(2), (B,)),
    "topk smallest": (lambda m, x: m.topk(x, 2, 0, largest=False), (B,)),
    "kthvalue": (lambda m, x: x.kthvalue(2, 1), (B,)),
    "kthvalue kept": (lambda m, x: m.kthvalue(x, 3, 0, True), (B,)),
    "embedding": (lambda m, w, i: m.embedding(w, i), ((5, 2), J)),
    "embedding padded": (lambda m, w, i: m.embedding(w, i, 1), ((5, 2), J)),
}
TORCH_CANNOT = ("scatter wide", "scatter_add wide")
# What depends on the data in size cannot be batched.
DYNAMIC: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "put": (lambda m, x, y, i: x.put(i, y), (B, (3,), np.array([0, -1, 5]))),
    "put adding": (lambda m, x, y, i: x.put(i, y, accumulate=True), (B, (3,), np.array([0, -12, 5]))),
    "masked_select": (lambda m, x, k: m.masked_select(x, k), (B, MASK)),
    "masked_select broadcast": (lambda m, x, k: x.masked_select(k), ((3, 1), MASK)),
    "masked_scatter": (lambda m, x, y, k: x.masked_scatter(k, y), (B, (7,), MASK)),
    "masked_scatter broadcast": (lambda m, x, y, k: x.masked_scatter(k, y), (B, (3, 4), MASK[0])),
}


@needs_torch
@pytest.mark.parametrize("name", {**TABLE, **DYNAMIC})
def test_against_torch(name: str) -> None:
    if name in TORCH_CANNOT:
        pytest.skip("torch has no gradient where the source is larger than the index")
    program, inputs = {**TABLE, **DYNAMIC}[name]
    checks.against_torch(program, *inputs, views=False)


@pytest.mark.parametrize("name", {**TABLE, **DYNAMIC})
def test_forward_matches_reverse(name: str) -> None:
    if name == "embedding padded":
        return  # the padding row has a tangent, but gets no gradient: so in torch
    program, inputs = {**TABLE, **DYNAMIC}[name]
    checks.forward_matches_reverse(program, *inputs)


@pytest.mark.parametrize("name", TABLE)
def test_batched_matches_loop(name: str) -> None:
    program, inputs = TABLE[name]
    checks.batched_matches_loop(program, *inputs)


# --- In place and out= ------------------------------------------------------------------------------

IN_PLACE: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "scatter_": (lambda x, y, i: x.scatter_(0, i, y), (B, (2, 4), ROWS % 2 + np.arange(2)[:, None])),
    "scatter_ number": (lambda x, i: x.scatter_(1, i, 1.5), (B, J)),
    "scatter_add_": (lambda x, y, i: x.scatter_add_(0, i, y), (B, (2, 4), ROWS)),
    "scatter_reduce_": (lambda x, y, i: x.scatter_reduce_(0, i, y, "prod"), (B, (2, 4), ROWS)),
    "index_add_": (lambda x, y, i: x.index_add_(1, i, y), (B, (3, 3), I)),
    "index_copy_": (lambda x, y, i: x.index_copy_(0, i, y), (B, (2, 4), np.array([2, 0]))),
    "index_fill_": (lambda x, i: x.index_fill_(1, i, 7.0), (B, I)),
    "put_": (lambda x, y, i: x.put_(i, y), (B, (3,), np.array([0, 7, 5]))),
    "masked_scatter_": (lambda x, y, k: x.masked_scatter_(k, y), (B, (7,), MASK)),
    "tril_": (lambda x: x.tril_(), (B,)),
    "triu_": (lambda x: x.triu_(1), (B,)),
}


@needs_torch
@pytest.mark.parametrize("through", ["tensor", "transpose", "slice"])
@pytest.mark.parametrize("name", IN_PLACE)
def test_in_place(name: str, through: str) -> None:
    program, inputs = IN_PLACE[name]
    values = checks.arrays(*inputs)

    def run(m: Any) -> Any:
        xs = checks.tensors(m, values)
        shape = xs[0].shape
        if through == "tensor":
            y = xs[0] * 2
            target = y
        elif through == "transpose":
            y = (xs[0] * 2).t().contiguous()
            target = y.t()
        else:
            y = m.cat([xs[0] * 2, xs[0] * 3], 1)
            target = y[:, 1 : 1 + shape[1]]
        assert program(target, *xs[1:]) is target
        wanted = [x for x in xs if x.requires_grad]
        return [y, target, list(m.autograd.grad((y * y).sum() + target.sum(), wanted))]

    same(run, 1e-9)


@needs_torch
@pytest.mark.parametrize("name", ["gather", "index_select", "take", "sort", "topk", "kthvalue", "masked_select"])
def test_out(name: str) -> None:
    arguments = {
        "gather": lambda m, x: m.gather(x, 1, m.tensor([[0], [1]]), out=m.empty(2, 1)),
        "index_select": lambda m, x: m.index_select(x, 1, m.tensor([2, 0]), out=m.empty(2, 2)),
        "take": lambda m, x: m.take(x, m.tensor([0, 5]), out=m.empty(2)),
        "sort": lambda m, x: m.sort(x, out=(m.empty(2, 3), m.empty(2, 3, dtype=m.int64))),
        "topk": lambda m, x: m.topk(x, 2, out=(m.empty(2, 2), m.empty(2, 2, dtype=m.int64))),
        "kthvalue": lambda m, x: m.kthvalue(x, 2, out=(m.empty(2), m.empty(2, dtype=m.int64))),
        "masked_select": lambda m, x: m.masked_select(x, x > 2, out=m.empty(3)),
    }
    same(lambda m: arguments[name](m, m.arange(6.0).reshape(2, 3)))


# --- Order ------------------------------------------------------------------------------------------

NUMBERS = [3.0, np.nan, -1.0, np.inf, 3.0, -np.inf, 0.0, np.nan, -0.0, 2.0]


@needs_torch
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("descending", [False, True])
def test_sort_puts_nan_last_and_is_stable(dtype: str, descending: bool) -> None:
    same(lambda m: m.sort(m.tensor(NUMBERS, dtype=getattr(m, dtype)), stable=True, descending=descending))
    same(lambda m: m.argsort(m.tensor(NUMBERS, dtype=getattr(m, dtype)), descending=descending, stable=True))


@needs_torch
@pytest.mark.parametrize("dtype", ["int64", "uint8", "int8", "bool"])
def test_sort_of_integers(dtype: str) -> None:
    values = [3, 0, 127, 1, 3, 0]
    for down in (False, True):
        same(lambda m, d=down: m.sort(m.tensor(values).to(getattr(m, dtype)), stable=True, descending=d))


@needs_torch
@pytest.mark.parametrize("k", [0, 1, 5, 400])
@pytest.mark.parametrize("largest", [False, True])
def test_topk_of_many(k: int, largest: bool) -> None:
    values = np.random.default_rng(0).permutation(2000).reshape(2, 1000) / 7.0
    same(lambda m: m.topk(m.tensor(values), k, largest=largest))


@needs_torch
def test_empty_and_0_d() -> None:
    for program in (
        lambda m: m.sort(m.zeros(0)),
        lambda m: m.sort(m.tensor(2.0)),
        lambda m: m.argsort(m.tensor(2.0)),
        lambda m: m.topk(m.tensor(2.0), 1),
        lambda m: m.kthvalue(m.tensor(2.0), 1),
        lambda m: m.sort(m.zeros(2, 0, 3), 1),
        lambda m: m.gather(m.zeros(3), 0, m.zeros(0, dtype=m.int64)),
        lambda m: m.index_select(m.zeros(3, 2), 0, m.zeros(0, dtype=m.int64)),
        lambda m: m.index_select(m.tensor(3.0), 0, m.tensor([0])),
        lambda m: m.nonzero(m.tensor(0.0)),
        lambda m: m.nonzero(m.tensor(1.0)),
        lambda m: m.nonzero(m.zeros(2, 0)),
        lambda m: m.unique(m.zeros(0)),
        lambda m: m.masked_select(m.zeros(0), m.zeros(0, dtype=m.bool)),
        lambda m: m.scatter_add(m.zeros(3), 0, m.zeros(0, dtype=m.int64), m.zeros(0)),
        lambda m: m.embedding(m.zeros(3, 2), m.zeros(0, dtype=m.int64)),
    ):
        same(program)


@needs_torch
@pytest.mark.parametrize("right", [False, True])
def test_searchsorted(right: bool) -> None:
    same(lambda m: m.searchsorted(m.tensor([1.0, 3, 3, 5]), m.tensor([[3.0, 0], [6, 4]]), right=right))
    same(lambda m: m.searchsorted(m.tensor([[1, 3, 5], [0, 3, 9]]), m.tensor([[3, 9], [3, 0]]), right=right))
    same(lambda m: m.searchsorted(m.tensor([1.0, 3, 5]), 4, right=right, out_int32=True))
    same(lambda m: m.bucketize(m.tensor([1.5, 3.0]), m.tensor([1.0, 3, 5]), right=right))
    same(lambda m: m.searchsorted(m.tensor([5.0, 1, 3]), m.tensor([2.0]), sorter=m.tensor([1, 2, 0])))
    same(lambda m: m.searchsorted(m.tensor([1, 2]), m.tensor([1]), side="right"))


@needs_torch
def test_unique() -> None:
    values = [[3, 1, 1], [2, 3, 3], [3, 1, 1]]
    for program in (
        lambda m: m.unique(m.tensor(values)),
        lambda m: m.unique(m.tensor(values), return_inverse=True, return_counts=True),
        lambda m: m.unique(m.tensor(values), dim=0, return_inverse=True, return_counts=True),
        lambda m: m.unique(m.tensor(values), dim=1, return_counts=True),
        lambda m: m.tensor(values).unique_consecutive(return_inverse=True, return_counts=True),
        lambda m: m.unique_consecutive(m.tensor(values), dim=1, return_inverse=True, return_counts=True),
        lambda m: m.unique(m.tensor([2.5, -1.0, 2.5])),
        lambda m: m.unique(m.tensor([True, False, True])),
        lambda m: m.isin(m.tensor(values), m.tensor([1, 5])),
        lambda m: m.isin(m.tensor(values), 3, invert=True),
        lambda m: m.isin(2, m.tensor(values)),
        lambda m: m.nonzero(m.tensor(values) - 1),
        lambda m: m.nonzero(m.tensor(values) - 1, as_tuple=True),
        lambda m: m.argwhere(m.tensor([[0.0, 2.0], [1.0, 0.0]])),
        lambda m: m.combinations(m.tensor([1, 2, 3]), 0),
    ):
        same(program)


@needs_torch
def test_one_hot() -> None:
    from adjoint.ops.embedding import one_hot

    for arguments in (([0, 2, 1],), ([[0], [3]], 5), ([0, 7], 3), ([-1],)):
        mine = outcome(lambda m: one_hot(m.tensor(arguments[0]), *arguments[1:]), adjoint)
        theirs = outcome(lambda m: m.nn.functional.one_hot(m.tensor(arguments[0]), *arguments[1:]), torch)
        assert mine[0] == theirs[0]
        if mine[0] == "value":
            np.testing.assert_array_equal(mine[1][0], theirs[1][0])


# --- Errors -----------------------------------------------------------------------------------------

ERRORS: list[tuple[Any, str]] = [
    (
        lambda m, x: x.gather(0, m.tensor([[5, 0, 0, 0]])),
        "index 5 is out of bounds for dimension 0 with size 3",
    ),
    (
        lambda m, x: x.gather(0, m.tensor([[-1, 0, 0, 0]])),
        "index -1 is out of bounds for dimension 0 with size 3",
    ),
    (
        lambda m, x: x.gather(0, m.tensor([0])),
        "Index tensor must have the same number of dimensions as input tensor",
    ),
    (lambda m, x: x.gather(0, m.tensor([[0.0]])), "Expected dtype int"),
    (lambda m, x: x.gather(0, m.zeros(1, 9, dtype=m.int64)), "Size does not match at dimension 1"),
    (lambda m, x: x.gather(4, m.tensor([[0]])), "Dimension out of range"),
    (lambda m, x: x.scatter(0, m.tensor([[7]]), 1.0), "index 7 is out of bounds for dimension 0 with size 3"),
    (lambda m, x: x.scatter(0, m.tensor([[0]]), m.ones(1, 1, dtype=m.float64)), "to be equal to src.dtype"),
    (lambda m, x: x.scatter_reduce(0, m.tensor([[0]]), m.ones(1, 1), "nope"), "reduce argument must be"),
    (lambda m, x: x.index_select(0, m.tensor([3])), "index out of range in self"),
    (lambda m, x: x.index_select(0, m.tensor([[0]])), "Index is supposed to be a vector"),
    (lambda m, x: x.index_add(0, m.tensor([0, 1]), x), "should be equal to source.size(dim)"),
    (lambda m, x: x.take(m.tensor([99])), "out of range"),
    (lambda m, x: x.masked_select(m.tensor([1, 0, 1, 0])), "expected BoolTensor"),
    (
        lambda m, x: x.masked_scatter(x >= 0, m.ones(2)),
        "Number of elements of source < number of ones in mask",
    ),
    (lambda m, x: x.topk(9), "selected index k out of range"),
    (lambda m, x: x.kthvalue(0), "selected number k out of range for dimension"),
    (lambda m, x: x.sort(2), "Dimension out of range"),
    (lambda m, x: m.embedding(x, m.tensor([3])), "index out of range in self"),
    (
        lambda m, x: m.searchsorted(x, m.ones(2)),
        "boundaries tensor should be 1 dimension or the first N-1 dimensions",
    ),
    (lambda m, x: m.isin(1, 2), ""),
]


@pytest.mark.parametrize(("program", "phrase"), ERRORS)
def test_errors(program: Any, phrase: str) -> None:
    def run(m: Any) -> Any:
        return program(m, m.arange(12.0).reshape(3, 4))

    kind, found = outcome(run, adjoint)
    assert kind == "error", found
    assert phrase in found[1]
    if torch is not None:
        same(run)
        assert phrase in outcome(run, torch)[1][1]


def test_frozen_values() -> None:
    x = adjoint.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    out = x.gather(1, adjoint.tensor([[0, 0], [1, 0]]))
    assert out.tolist() == [[1, 1], [4, 3]]
    out.sum().backward()
    assert x.grad.tolist() == [[2, 0], [1, 1]]
    values, indices = adjoint.tensor([2, 1, 2]).sort(descending=True, stable=True)
    assert (values.tolist(), indices.tolist()) == ([2, 2, 1], [0, 2, 1])
    assert adjoint.zeros(3).scatter_add_(0, adjoint.tensor([1, 1]), adjoint.ones(2)).tolist() == [0, 2, 0]
    assert adjoint.unique(adjoint.tensor([3, 1, 3])).tolist() == [1, 3]


def test_many_repeated_rows_add_up() -> None:
    rng = np.random.default_rng(0)
    numbers = rng.integers(0, 50, 3000)
    weight = adjoint.tensor(rng.normal(size=(50, 16)), requires_grad=True)
    g = rng.normal(size=(3000, 16))
    adjoint.embedding(weight, adjoint.tensor(numbers)).backward(adjoint.tensor(g))
    expected = np.zeros((50, 16))
    np.add.at(expected, numbers, g)
    np.testing.assert_allclose(weight.grad.numpy(), expected, rtol=1e-12, atol=1e-12)
