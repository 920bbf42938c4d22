"""Indexing against torch: reading and writing by every kind of index, gradients of both to second order."""

from __future__ import annotations

import warnings
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import adjoint
from tests.ops import checks
from tests.oracle import needs_torch, outcome, same, torch

X = np.arange(24.0).reshape(2, 3, 4)

# Indices as functions of the module: `m.I` makes index tensors, masks come from comparisons.
BASIC = """
x[0] | x[-1] | x[0, 1] | x[0, 1, 2] | x[:] | x[1:] | x[:, 1:] | x[..., 0] | x[..., ::2] | x[:, ::2, 1:3]
x[None] | x[:, None] | x[..., None] | x[None, 0] | x[...] | x[()] | x[-1:] | x[5:] | x[:, -2:] | x[1:1]
x[:, 0:100:2] | x[-100:1] | x[0, ..., 1] | x[..., 1, :] | x[I(1)] | x[I(1), I(2)] | x[:, I(-1)] | x[N.int64(1)]
x[N.array(1)] | x[I(0):I(2)] | x[0][1][2] | x[0:2][:, 1:][..., 0] | x[1, :, None, 2]
"""
ADVANCED = """
x[True] | x[False] | x[[0, 1]] | x[[0, 1], [1, 2]] | x[[0, 1], :, [0, 1]] | x[:, [0, 2]] | x[:, :, [0, 2]]
x[[-1, 0]] | x[:, [0, 2], 1:] | x[0, :, [0, 1]] | x[0, [0, 1]] | x[[0, 1], 0] | x[:, 0, [0, 1]]
x[[1, 0], ..., [0, 1]] | x[..., [0, 3]] | x[I([0, 1, 0])] | x[I([[0, 1], [1, 0]])] | x[:, I([[0, 1], [1, 2]])]
x[:, I([[0, 1], [1, 2]]), I([0, 1])] | x[True, None] | x[I([0, 1]), :, I([[0], [1]])] | x[x > 7]
x[I([1, 0]) > 0] | x[:, I([1, 0, 1]) > 0] | x[I([1, 0]) > 0, 1] | x[[[0, 1], [1, 0]]] | x[I([1, 0]) > 0, [0]]
x[:, I([1, 0, 1]) > 0, [0, 1]] | x[None, [0, 1]] | x[[0, 1], None] | x[[0, 1], None, [0, 1]] | x[x[:, :, 0] > 7]
x[:, :, I([1, 0, 0, 1]) > 0] | x[0, True] | x[True, [0, 1]] | x[[0, 1], True] | x[I(1) > 0] | x[I([])] | x[[]]
x[range(2)] | x[N.array([1, 0])] | x[[True, False]] | x[(0, 1), (1, 2)] | x[N.array([True, False])]
x[I32([1, 1])] | x[1:, [2, 2, 0], ::2] | x[[0], [1], [2]] | x[I(0), [1, 1]] | x[..., [0, 1], [1, 1]]
x[x > 100] | x[[1, 1, 1], 2, [3, 3, 0]]
"""


def expressions(text: str) -> list[str]:
    return [e.strip() for line in text.strip().splitlines() if line for e in line.split("|")]


def names(m: Any, x: Any) -> dict[str, Any]:
    return {
        "x": x,
        "N": np,
        "I": lambda v: m.tensor(v, dtype=m.int64),
        "I32": lambda v: m.tensor(v, dtype=m.int32),
    }


def read(m: Any, expression: str, x: Any) -> Any:
    return eval(expression, names(m, x))


@needs_torch
@pytest.mark.parametrize("expression", expressions(BASIC))
def test_basic_index_is_a_view(expression: str) -> None:
    checks.against_torch(lambda m, x: read(m, expression, x), X)


@needs_torch
@pytest.mark.parametrize("expression", expressions(ADVANCED))
def test_advanced_index_is_a_copy(expression: str) -> None:
    checks.against_torch(lambda m, x: read(m, expression, x), X, views=False)


@needs_torch
@pytest.mark.parametrize("expression", expressions(BASIC + ADVANCED))
def test_node_is_named_as_in_torch(expression: str) -> None:
    def program(m: Any) -> Any:
        return read(m, expression, m.tensor(X, requires_grad=True) * 1).grad_fn.name()

    same(program)


@pytest.mark.parametrize("expression", expressions(BASIC + ADVANCED))
def test_forward_matches_reverse(expression: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = lambda m, x: read(m, expression, x)
        if program(adjoint, adjoint.tensor(X)).numel():
            checks.forward_matches_reverse(program, X)


@pytest.mark.parametrize("expression", [e for e in expressions(BASIC + ADVANCED) if "x >" not in e and "0] >" not in e])
def test_batched_matches_loop(expression: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        checks.batched_matches_loop(lambda m, x: read(m, expression, x), X)


BATCHED_INDEXES = {
    "one": lambda m, x, i: x[i],
    "second": lambda m, x, i: x[:, i],
    "two": lambda m, x, i: x[i, i],
    "apart": lambda m, x, i: x[i, :, i],
    "last two": lambda m, x, i: x[:, i, i],
    "matrix": lambda m, x, i: x[:, i[:, None], i],
    "scalar": lambda m, x, i: x[i[0]],
    "scalars": lambda m, x, i: x[i[0], :, i[1]],
    "mixed": lambda m, x, i: x[0, :, i],
}


@pytest.mark.parametrize("name", BATCHED_INDEXES)
def test_batched_index_matches_loop(name: str) -> None:
    checks.batched_matches_loop(BATCHED_INDEXES[name], X, np.array([1, 0, 1]))


BATCHED_WRITES = {
    "number": lambda m, x, v, i: _written(x, lambda y: y.__setitem__((0, 1), 3.0)),
    "slice": lambda m, x, v, i: _written(x, lambda y: y.__setitem__((slice(None), 1), v)),
    "broadcast": lambda m, x, v, i: _written(x, lambda y: y.__setitem__(..., v)),
    "index": lambda m, x, v, i: _written(x, lambda y: y.__setitem__(([1, 0], [0, 2]), v)),
    "hidden index": lambda m, x, v, i: _written(x, lambda y: y.__setitem__((i, i), v)),
    "hidden second": lambda m, x, v, i: _written(x, lambda y: y.__setitem__((slice(None), i), v)),
    "number and index": lambda m, x, v, i: _written(x, lambda y: y.__setitem__((1, i), v)),
    "mask": lambda m, x, v, i: _written(x, lambda y: y.__setitem__(y > 7, v.sum())),
    "known mask": lambda m, x, v, i: _written(x, lambda y: y.__setitem__(m.tensor([True, False]), v)),
}


def _written(x: Any, write: Any) -> Any:
    y = x * 1
    write(y)
    return y * y


@pytest.mark.parametrize("name", BATCHED_WRITES)
def test_batched_write_matches_loop(name: str) -> None:
    checks.batched_matches_loop(BATCHED_WRITES[name], X, np.arange(4.0) + 1, np.array([1, 0]))


@pytest.mark.parametrize("name", BATCHED_WRITES)
def test_forward_of_a_write_matches_reverse(name: str) -> None:
    checks.forward_matches_reverse(BATCHED_WRITES[name], X, np.arange(4.0) + 1, np.array([1, 0]))


# --- Writing ----------------------------------------------------------------------------------------

VALUES = {
    "number": lambda make, shape: 5.0,
    "full": lambda make, shape: make(shape),
    "last": lambda make, shape: make(shape[-1:]),
    "0-d": lambda make, shape: make(()),
    "more": lambda make, shape: make((1, 1, *shape)),
}


def write(m: Any, expression: str, value: str, differentiable: bool) -> Any:
    leaf = m.tensor(X, requires_grad=differentiable)
    made = []

    def make(shape: Any) -> Any:
        size = int(np.prod(shape))
        made.append(m.tensor(np.sin(np.arange(size) + 1.0).reshape(shape), requires_grad=differentiable))
        return made[-1]

    x = leaf * 1
    shape = tuple(read(m, expression, x.detach()).shape)
    scope = {**names(m, x), "VALUE": VALUES[value](make, shape)}
    exec(f"{expression} = VALUE", scope)
    if not differentiable:
        return [x, x._version]
    leaves = [leaf, *made]
    weight = m.tensor(np.cos(X))
    first = m.autograd.grad((x * x * weight).sum(), leaves, create_graph=True)
    second = m.autograd.grad(sum((g * g).sum() for g in first), leaves, allow_unused=True)
    return [x, x._version, list(first), [checks._dense(g) for g in second]]


# Chained reads cannot be written; a write to everything by a number leaves nothing to differentiate.
WRITTEN = [e for e in expressions(BASIC + ADVANCED) if e not in ("x[0][1][2]", "x[0:2][:, 1:][..., 0]")]
WHOLE = ("x[:]", "x[...]", "x[()]", "x[False]", "x[I(0):I(2)]")


@needs_torch
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("expression", WRITTEN)
def test_write_against_torch(expression: str, value: str) -> None:
    same(lambda m: write(m, expression, value, False))
    if expression not in WHOLE:
        same(lambda m: write(m, expression, value, True), 1e-9)


@needs_torch
@pytest.mark.parametrize("expression", ["x[...]", "x[:]"])
def test_write_to_everything(expression: str) -> None:
    for value in ("full", "last", "more"):
        same(lambda m, value=value: write(m, expression, value, True), 1e-9)


@needs_torch
@pytest.mark.parametrize("dtype", ["float32", "int64", "int16", "bool", "complex64", "float16"])
def test_value_is_converted(dtype: str) -> None:
    def program(m: Any) -> Any:
        x = m.zeros(3, 4, dtype=getattr(m, dtype))
        x[0] = m.arange(4)
        x[1] = m.tensor([0.5, 1.5, -2.5, 3.0], dtype=m.float64)
        x[2, 1:] = 1
        x[x == 1] = 7
        return x

    same(program)


@needs_torch
def test_writes_in_a_row_and_views_between() -> None:
    def program(m: Any) -> Any:
        a = m.tensor(X, requires_grad=True)
        w = m.tensor([1.0, 2.0, 3.0], dtype=m.float64, requires_grad=True)
        x = a * 2
        row = x[0, 1]
        x[:, 0] = x[:, 1] * w[0]
        row += w[1]
        x[1, :, ::2] = x[0, :, 1::2]
        x[[0, 1], [2, 2]] = row * w[2]
        y = x[0, 1]
        x[0, 1, 0] = 0
        return [x, row, y, list(m.autograd.grad((x * x).sum() + (row * y).sum(), [a, w]))]

    same(program, 1e-9)


def test_part_of_an_expanded_tensor_can_be_written_where_its_elements_are_apart() -> None:
    x = adjoint.zeros(3, 1).expand(2, 3, 4)
    x[0, :, 0] = 1
    assert x.sum() == 24


@needs_torch
def test_write_that_overlaps_what_it_reads() -> None:
    def program(m: Any) -> Any:
        x = m.arange(6.0)
        x[[0, 1, 2]] = x[[3, 4, 5]]
        x[2:4] = x[4:6]
        return x

    same(program)


def test_version_and_memory() -> None:
    x = adjoint.zeros(3, 4)
    row = x[1]
    row[2] = 7
    assert x[1, 2].item() == 7
    assert x._version == 1
    assert row._base is x
    assert x[[1]]._base is None


# --- index_put --------------------------------------------------------------------------------------


@needs_torch
@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("form", ["function", "method"])
def test_index_put(accumulate: bool, form: str) -> None:
    def program(m: Any) -> Any:
        x = m.tensor(X, requires_grad=True)
        v = m.tensor(np.sin(np.arange(12.0)).reshape(3, 4), requires_grad=True)
        where = (m.tensor([0, 1, 1]), m.tensor([2, 0, 1] if not accumulate else [2, 0, 0]))
        if form == "function":
            y = m.index_put(x * 1, where, v, accumulate)
        else:
            y = (x * 1).index_put_(where, v, accumulate)
        first = m.autograd.grad((y * y).sum(), [x, v], create_graph=True)
        second = m.autograd.grad(sum((g * g).sum() for g in first), [x, v])
        return [y, list(first), list(second)]

    same(program)


# --- Errors -----------------------------------------------------------------------------------------

READ_ERRORS = {
    "x[::-1]": "step must be greater than zero",
    "x[::0]": "",
    "x[10]": "index 10 is out of bounds for dimension 0 with size 2",
    "x[0, -4]": "index -4 is out of bounds for dimension",
    "x[..., 9]": "index 9 is out of bounds for dimension",
    "x[0, 0, 0, 0]": "too many indices for tensor of dimension 3",
    "x[[0], [0], [0], [0]]": "too many indices for tensor of dimension 3",
    "x.sum()[0]": "invalid index of a 0-dim tensor",
    "x[1.5]": "only integers, slices",
    "x[0, 'a']": "",
    "x[I(1) * 1.0]": "tensors used as indices must be long, int, byte or bool tensors",
    "x[I([1, 0]).short()]": "tensors used as indices must be long, int, byte or bool tensors",
    "x[[7]]": "index 7 is out of bounds for dimension 0 with size 2",
    "x[:, [-5]]": "is out of bounds for dimension",
    "x[I([1, 0, 1]) > 0]": "The shape of the mask [3] at index 0 does not match the shape of the indexed tensor",
    "x[[0, 1], [0, 1, 2]]": "shape mismatch: indexing tensors could not be broadcast together with shapes [2], [3]",
    "x['a':]": "slice indices must be integers or None or have an __index__ method",
}
WRITE_ERRORS = {
    "x[0] = T(3)": "The expanded size of the tensor (4) must match the existing size (3) at non-singleton dimension 1",
    "x[0, 0] = T(2, 4)": "the number of sizes provided (1) must be greater or equal to the number of dimensions",
    "x[[0, 1]] = T(3)": "value tensor of shape [3] cannot be broadcast to indexing result of shape [2, 3, 4]",
    "x[x > 3] = T(5)": "shape mismatch: value tensor of shape [5] cannot be broadcast to indexing result of shape [20]",
    "x[[0, 1]] = T(4).long()": "Index put requires the source and destination dtypes match",
    "x[0] = [1, 2]": "can't assign a list",
    "x[0] = None": "can't assign a NoneType",
    "x[0] = 'a'": "can't assign a str",
    "x[0] = 1 + 2j": "cannot be converted to type",
    "x[5] = 1": "index 5 is out of bounds for dimension 0 with size 2",
    "x[::-1] = 1": "step must be greater than zero",
    "x.byte()[0] = 300": "cannot be converted to type",
    "x.requires_grad_()[0] = 1": "a view of a leaf Variable that requires grad is being used in an in-place operation",
    "x.requires_grad_()[[0]] = 1.": "a leaf Variable that requires grad is being used in an in-place operation",
    "x[0, 0, :1].expand(4)[:] = 1": "more than one element of the written-to tensor refers to a single memory location",
}


@pytest.mark.parametrize("statement", [*READ_ERRORS, *WRITE_ERRORS])
def test_errors(statement: str) -> None:
    def program(m: Any) -> Any:
        x = m.tensor(X)
        exec(statement, {**names(m, x), "T": lambda *shape: m.zeros(shape, dtype=m.float64)})

    phrase = {**READ_ERRORS, **WRITE_ERRORS}[statement]
    kind, found = outcome(program, adjoint)
    assert kind == "error", statement
    assert phrase in found[1]
    if torch is not None:
        same(program)
        assert phrase in outcome(program, torch)[1][1]


def test_frozen_values() -> None:
    x = adjoint.arange(12).reshape(3, 4)
    assert x[1].tolist() == [4, 5, 6, 7]
    assert x[:, 1].tolist() == [1, 5, 9]
    assert x[[0, 2], [1, 3]].tolist() == [1, 11]
    assert x[0, :, None].shape == (4, 1)
    assert x[x > 9].tolist() == [10, 11]
    x[1:, ::2] = -1
    assert x.tolist() == [[0, 1, 2, 3], [-1, 5, -1, 7], [-1, 9, -1, 11]]
    leaf = adjoint.zeros(3, requires_grad=True)
    leaf[[0, 0, 2]].sum().backward()
    assert leaf.grad.tolist() == [2, 0, 1]


# --- Drawn indices ----------------------------------------------------------------------------------


@st.composite
def cases(draw: Any) -> tuple[tuple[int, ...], list[Any]]:
    """A shape, and an index that fits it."""
    shape = draw(st.lists(st.integers(1, 4), min_size=1, max_size=4).map(tuple))
    picked = draw(st.lists(st.integers(1, 3), min_size=0, max_size=2).map(tuple))
    items: list[Any] = []
    left = list(shape)
    while left and draw(st.integers(0, 5)):
        n = left.pop(0)
        kind = draw(st.sampled_from(["int", "slice", "slice", "array", "mask", "none"]))
        if kind == "int":
            items.append(draw(st.integers(-n, n - 1)))
        elif kind == "slice":
            ends = st.none() | st.integers(-n - 1, n + 1)
            items.append(slice(draw(ends), draw(ends), draw(st.none() | st.integers(1, 3))))
        elif kind == "array":
            ones = tuple(draw(st.sampled_from([1, k])) for k in picked)
            size = int(np.prod(ones))
            values = draw(st.lists(st.integers(-n, n - 1), min_size=size, max_size=size))
            items.append(np.array(values, np.int64).reshape(ones))
        elif kind == "mask" and not picked:
            items.append(np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n))))
            picked = (1,)  # from now on every index tensor must broadcast with what the mask gives
            if items[-1].sum() != 1:
                items.append(...)
                break
        else:
            items.append(None)
            left.insert(0, n)
            if len(items) > 5:
                break
    if ... not in [i for i in items if not isinstance(i, np.ndarray)] and draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), ...) if len(left) else items.append(...)
    return shape, items


def _index_for(m: Any, items: list[Any]) -> tuple[Any, ...]:
    return tuple(m.tensor(i) if isinstance(i, np.ndarray) else i for i in items)


@needs_torch
@settings(max_examples=300)
@given(cases())
def test_drawn_index(case: Any) -> None:
    shape, items = case

    def program(m: Any) -> Any:
        x = m.arange(int(np.prod(shape)), dtype=m.float64).reshape(shape).requires_grad_()
        y = (x * 1)[_index_for(m, items)]
        (g,) = m.autograd.grad((y * y).sum(), x)
        z = x * 2
        v = m.ones(y.shape, dtype=m.float64, requires_grad=True)
        z[_index_for(m, items)] = v * 3
        first = m.autograd.grad((z * z).sum(), [x, v])
        return [y, checks.strides(y) if y._is_view() else [], g, z, list(first)]

    kind, found = outcome(program, torch)
    if kind == "value" and _duplicates(shape, items):
        # Which of several values written to one place stays is not defined.
        found = found[:3]
        mine = outcome(lambda m: program(m)[:3], adjoint)
        assert mine[0] == "value"
        return
    same(program)


def _duplicates(shape: tuple[int, ...], items: list[Any]) -> bool:
    numbers = torch.arange(int(np.prod(shape))).reshape(shape)[_index_for(torch, items)]
    return len(numbers.unique()) != numbers.numel()
