"""Views, joins, splits and rearranging copies: against torch, forward against reverse, batched against a loop."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import adjoint
from tests.ops import checks
from tests.oracle import needs_torch, outcome, same, torch

A, B, C = (2, 3, 4), (3, 4), (4,)

# name: (program, shapes of its inputs). Every view's strides are compared too.
VIEWS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "view": (lambda m, x: x.view(6, 4), (A,)),
    "view -1": (lambda m, x: x.view(-1, 2), (A,)),
    "view of a slice": (lambda m, x: x[:, 1:, :].view(2, 2, 2, 2), (A,)),
    "view of a transpose": (lambda m, x: x.transpose(1, 2).view(2, 4, 3, 1), (A,)),
    "view_as": (lambda m, x: x.view_as(x.view(4, 6)), (A,)),
    "reshape": (lambda m, x: x.reshape(4, 6), (A,)),
    "reshape list": (lambda m, x: m.reshape(x, [12, -1]), (A,)),
    "reshape to one": (lambda m, x: x[:1, :1, :1].reshape(1), (A,)),
    "flatten": (lambda m, x: x.flatten(), (A,)),
    "flatten some": (lambda m, x: x.flatten(1), (A,)),
    "flatten 0-d": (lambda m, x: x.flatten(), ((),)),
    "ravel": (lambda m, x: x.ravel(), (A,)),
    "unflatten": (lambda m, x: x.unflatten(2, (2, -1)), (A,)),
    "squeeze": (lambda m, x: x.squeeze(), ((1, 3, 1),)),
    "squeeze one": (lambda m, x: x.squeeze(0), ((1, 3, 1),)),
    "squeeze no-op": (lambda m, x: x.squeeze(1), ((1, 3, 1),)),
    "squeeze several": (lambda m, x: x.squeeze((0, 2)), ((1, 3, 1),)),
    "unsqueeze": (lambda m, x: x.unsqueeze(1), (A,)),
    "unsqueeze last": (lambda m, x: x.unsqueeze(-1), (A,)),
    "unsqueeze transposed": (lambda m, x: x.t().unsqueeze(0), (B,)),
    "expand": (lambda m, x: x.expand(2, 3, 4), (B,)),
    "expand -1": (lambda m, x: x.expand(-1, 5, -1), ((2, 1, 4),)),
    "expand strided": (lambda m, x: x.t()[:, :1].expand(4, 6), (B,)),
    "expand 0-d": (lambda m, x: x.expand(2, 2), ((),)),
    "expand_as": (lambda m, x, y: x.expand_as(y), (C, B)),
    "broadcast_to": (lambda m, x: m.broadcast_to(x, (2, 4)), (C,)),
    "broadcast_tensors": (lambda m, x, y: m.broadcast_tensors(x, y), ((3, 1), (4,))),
    "permute": (lambda m, x: x.permute(2, 0, 1), (A,)),
    "permute tuple": (lambda m, x: m.permute(x, (1, -1, 0)), (A,)),
    "transpose": (lambda m, x: x.transpose(0, -1), (A,)),
    "transpose 0-d": (lambda m, x: x.transpose(0, -1), ((),)),
    "swapaxes": (lambda m, x: x.swapaxes(0, 1), (A,)),
    "swapdims": (lambda m, x: x.swapdims(0, 1), (A,)),
    "t": (lambda m, x: x.t(), (B,)),
    "t of a vector": (lambda m, x: x.t(), (C,)),
    "T": (lambda m, x: x.T, (B,)),
    "mT": (lambda m, x: x.mT, (A,)),
    "H": (lambda m, x: x.H, (B,)),
    "mH": (lambda m, x: x.mH, (A,)),
    "adjoint": (lambda m, x: x.adjoint(), (A,)),
    "movedim": (lambda m, x: x.movedim(0, 2), (A,)),
    "movedim several": (lambda m, x: x.movedim((0, 1), (-1, 0)), (A,)),
    "moveaxis": (lambda m, x: m.moveaxis(x, 1, 0), (A,)),
    "narrow": (lambda m, x: x.narrow(1, 1, 2), (A,)),
    "narrow back": (lambda m, x: x.narrow(2, -3, 2), (A,)),
    "select": (lambda m, x: x.select(1, -1), (A,)),
    "diagonal": (lambda m, x: x.diagonal(), (B,)),
    "diagonal offset": (lambda m, x: x.diagonal(-1, 2, 0), (A,)),
    "diagonal outside": (lambda m, x: x.diagonal(7), (B,)),
    "unfold": (lambda m, x: x.unfold(0, 3, 1), (C,)),
    "unfold apart": (lambda m, x: x.unfold(2, 2, 2), (A,)),
    "unfold strided": (lambda m, x: x.t().unfold(0, 2, 1), (B,)),
    "as_strided": (lambda m, x: x.as_strided((2, 2), (1, 2)), (B,)),
    "as_strided overlapping": (lambda m, x: x.as_strided((3, 3), (1, 1), 1), (B,)),
    "as_strided of a view": (lambda m, x: x[1:, ::2].as_strided((2, 3), (1, 2), 0), (B,)),
    "split": (lambda m, x: x.split(2, 2), (A,)),
    "split uneven": (lambda m, x: x.split(2, 1), (A,)),
    "split sizes": (lambda m, x: x.split([1, 3], -1), (A,)),
    "one of a split": (lambda m, x: x.split(1, 1)[1], (A,)),
    "split_with_sizes": (lambda m, x: m.split_with_sizes(x, [0, 2]), (A,)),
    "chunk": (lambda m, x: x.chunk(3, 2), (A,)),
    "tensor_split": (lambda m, x: x.tensor_split(3, 2), (A,)),
    "tensor_split at": (lambda m, x: x.tensor_split((1, 3), 2), (A,)),
    "hsplit": (lambda m, x: x.hsplit(3), (A,)),
    "vsplit": (lambda m, x: x.vsplit([1]), (A,)),
    "dsplit": (lambda m, x: x.dsplit(2), (A,)),
    "unbind": (lambda m, x: x.unbind(1), (A,)),
    "iteration": (lambda m, x: list(x), (B,)),
    "atleast_1d": (lambda m, x: m.atleast_1d(x), ((),)),
    "atleast_2d": (lambda m, x: m.atleast_2d(x), (C,)),
    "atleast_3d": (lambda m, x: m.atleast_3d(x), (B,)),
    "meshgrid ij": (lambda m, x, y: m.meshgrid(x, y, indexing="ij"), ((2,), (3,))),
    "meshgrid xy": (lambda m, x, y: m.meshgrid(x, y, indexing="xy"), ((2,), (3,))),
}

COPIES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "reshape copy": (lambda m, x: x.transpose(0, 1).reshape(-1), (A,)),
    "ravel copy": (lambda m, x: x.t().ravel(), (B,)),
    "contiguous": (lambda m, x: x.t().contiguous(), (B,)),
    "clone": (lambda m, x: x.t().clone(), (B,)),
    "cat": (lambda m, x, y: m.cat([x, y], 1), ((2, 3), (2, 1))),
    "cat with empty": (lambda m, x, y: m.cat([x, y], -1), ((2, 3), (0,))),
    "concat of one": (lambda m, x: m.concat([x]), (B,)),
    "stack": (lambda m, x, y: m.stack([x, y], 1), (B, B)),
    "stack last": (lambda m, x, y: m.stack((x, y), -1), (B, B)),
    "stack 0-d": (lambda m, x, y: m.stack((x, y)), ((), ())),
    "hstack": (lambda m, x, y: m.hstack([x, y]), ((3,), (2,))),
    "hstack matrices": (lambda m, x, y: m.hstack([x, y]), ((3, 2), (3, 1))),
    "vstack": (lambda m, x, y: m.vstack([x, y]), ((3,), (2, 3))),
    "dstack": (lambda m, x, y: m.dstack([x, y]), ((2, 3), (2, 3))),
    "column_stack": (lambda m, x, y: m.column_stack([x, y]), ((3,), (3, 2))),
    "block_diag": (lambda m, x, y, z: m.block_diag(x, y, z), ((2, 3), (), (2,))),
    "repeat": (lambda m, x: x.repeat(2, 1, 3), (B,)),
    "repeat by zero": (lambda m, x: x.repeat(2, 0), (B,)),
    "tile": (lambda m, x: x.tile(2), (B,)),
    "tile more": (lambda m, x: m.tile(x, (2, 1, 2)), (B,)),
    "repeat_interleave": (lambda m, x: x.repeat_interleave(2), (B,)),
    "repeat_interleave dim": (lambda m, x: x.repeat_interleave(3, 1), (B,)),
    "repeat_interleave each": (lambda m, x: x.repeat_interleave(m.tensor([1, 0, 2]), 0), (B,)),
    "flip": (lambda m, x: x.flip(0, 2), (A,)),
    "fliplr": (lambda m, x: m.fliplr(x), (B,)),
    "flipud": (lambda m, x: m.flipud(x), (B,)),
    "roll": (lambda m, x: x.roll(1), (B,)),
    "roll dims": (lambda m, x: x.roll((1, -2), (0, 1)), (B,)),
    "rot90": (lambda m, x: x.rot90(), (B,)),
    "rot90 thrice": (lambda m, x: m.rot90(x, 3, (2, 0)), (A,)),
    "tril": (lambda m, x: x.tril(), (B,)),
    "triu": (lambda m, x: x.triu(1), (A,)),
    "diag of a matrix": (lambda m, x: m.diag(x, 1), (B,)),
    "diag of a vector": (lambda m, x: m.diag(x, -1), (C,)),
    "diag_embed": (lambda m, x: m.diag_embed(x, 1, 0, 2), (B,)),
    "diagflat": (lambda m, x: m.diagflat(x), ((2, 2),)),
    "trace": (lambda m, x: x.trace(), (B,)),
    "diagonal_scatter": (lambda m, x, y: m.diagonal_scatter(x, y), ((3, 4), (3,))),
    "select_scatter": (lambda m, x, y: m.select_scatter(x, y, 1, 2), ((3, 4), (3,))),
    "slice_scatter": (lambda m, x, y: m.slice_scatter(x, y, 1, 0, 4, 2), ((3, 4), (3, 2))),
    "cartesian_prod": (lambda m, x, y: m.cartesian_prod(x, y), ((2,), (3,))),
    "combinations": (lambda m, x: m.combinations(x, 2), (C,)),
    "combinations with replacement": (lambda m, x: m.combinations(x, 3, True), ((3,),)),
    "constant_pad_nd": (lambda m, x: m.constant_pad_nd(x, (1, -1, 2, 0), 3.0), (B,)),
    "expand twice": (lambda m, x: x.expand(3, 4) * x.unsqueeze(0).expand(2, 4)[:1], (C,)),
}

COMPLEX = np.exp(1j * np.arange(6.0)).reshape(2, 3)
OF_COMPLEX = {
    "real": lambda m, x: x.real,
    "imag": lambda m, x: x.imag,
    "view_as_real": lambda m, x: m.view_as_real(x),
    "round trip": lambda m, x: m.view_as_complex(m.view_as_real(x)),
    "of a transpose": lambda m, x: x.t().imag,
}
REFUSED_INSIDE = "as_strided of a view"  # a value inside a transform has no memory that a view shares
TABLE = {**VIEWS, **COPIES}


@needs_torch
@pytest.mark.parametrize("name", VIEWS)
def test_view_against_torch(name: str) -> None:
    program, shapes = VIEWS[name]
    if name == REFUSED_INSIDE:  # beyond the view torch has no gradient, where the derivative is not zero
        same(lambda m: program(m, m.tensor(checks.arrays(*shapes)[0])))
        return
    checks.against_torch(program, *shapes)


def test_as_strided_has_gradients_beyond_the_view() -> None:
    program, shapes = VIEWS[REFUSED_INSIDE]
    x = adjoint.tensor(checks.arrays(*shapes)[0], requires_grad=True)
    assert adjoint.autograd.gradcheck(lambda x: program(adjoint, x * 1), (x,))


@needs_torch
@pytest.mark.parametrize("name", COPIES)
def test_copy_against_torch(name: str) -> None:
    program, shapes = COPIES[name]
    checks.against_torch(program, *shapes, views=False)


@needs_torch
@pytest.mark.parametrize("name", OF_COMPLEX)
def test_complex_against_torch(name: str) -> None:
    checks.against_torch(OF_COMPLEX[name], COMPLEX)


@pytest.mark.parametrize("name", TABLE)
def test_forward_matches_reverse(name: str) -> None:
    program, shapes = TABLE[name]
    if name == REFUSED_INSIDE:
        return
    if all(np.prod(p.shape) == 0 for p in _parts(program, shapes)):
        pytest.skip("nothing to push forward")
    checks.forward_matches_reverse(program, *shapes)


def _parts(program: Any, shapes: Any) -> list[Any]:
    result = program(adjoint, *[adjoint.tensor(a) for a in checks.arrays(*shapes)])
    return list(result) if isinstance(result, tuple | list) else [result]


@pytest.mark.parametrize("name", TABLE)
def test_batched_matches_loop(name: str) -> None:
    program, shapes = TABLE[name]
    if name == REFUSED_INSIDE:
        with pytest.raises(RuntimeError, match="can access memory outside of `tensor`"):
            checks.batched_matches_loop(program, *shapes)
        return
    checks.batched_matches_loop(program, *shapes)


@pytest.mark.parametrize("name", VIEWS)
def test_views_share_memory(name: str) -> None:
    program, shapes = VIEWS[name]
    xs = [adjoint.tensor(a) for a in checks.arrays(*shapes)]
    result = program(adjoint, *xs)
    for part in result if isinstance(result, tuple | list) else [result]:
        if part.numel() and part is not xs[0]:
            assert any(np.may_share_memory(part.numpy(), x.numpy()) for x in xs)
            assert any(part._base is x for x in xs)


# --- Writes through views ---------------------------------------------------------------------------

WRITES = {
    "view": lambda x: x.view(-1)[2:4],
    "transpose": lambda x: x.t()[1],
    "diagonal": lambda x: x.diagonal(1),
    "unsqueeze": lambda x: x.unsqueeze(1)[:, 0, 1],
    "permute": lambda x: x.permute(1, 0)[0:2],
    "as_strided": lambda x: x.as_strided((2, 2), (1, 4), 1),
    "squeeze": lambda x: x[:1].squeeze(0),
    "flatten": lambda x: x.flatten()[3],
    "unfold": lambda x: x.unfold(1, 2, 2),
    "tensor_split": lambda x: x.tensor_split(2)[1],
    "narrow of select": lambda x: x.select(0, 1).narrow(0, 1, 2),
}


@needs_torch
@pytest.mark.parametrize("name", WRITES)
def test_write_through_a_view(name: str) -> None:
    def program(m: Any) -> Any:
        x = m.tensor(checks.arrays(B)[0], requires_grad=True)
        w = m.tensor(0.7, dtype=m.float64, requires_grad=True)
        y = x * 2
        WRITES[name](y).mul_(w)
        before = y * y
        WRITES[name](y).add_(x.sum())
        first = m.autograd.grad((before * y).sum(), [x, w], create_graph=True)
        second = m.autograd.grad(first[0].sum() * first[1], [x, w])
        return [y, y._version, list(first), list(second)]

    same(program, 1e-9)


@needs_torch
@pytest.mark.parametrize("make", ["split", "chunk", "unbind", "list"])
def test_several_views_refuse_writes(make: str) -> None:
    def program(m: Any) -> Any:
        y = m.ones(4, 2, requires_grad=True) * 2
        parts = list(y) if make == "list" else y.unbind() if make == "unbind" else getattr(y, make)(2)
        parts[0].mul_(2)

    kind, (name, text) = outcome(program, adjoint)
    assert (kind, name) == ("error", "RuntimeError")
    assert "returns multiple views" in text
    same(program)


def test_several_views_may_be_written_without_a_graph() -> None:
    x = adjoint.zeros(4)
    a, b = x.split(2)
    a.add_(1)
    b[0] = 5
    assert x.tolist() == [1, 1, 5, 0]


@needs_torch
@pytest.mark.parametrize(
    "program",
    [
        lambda m, y: y.t_(),
        lambda m, y: y.transpose_(0, 1),
        lambda m, y: y.swapaxes_(0, 1),
        lambda m, y: y.unsqueeze_(1),
        lambda m, y: y.unsqueeze_(0).squeeze_(0),
        lambda m, y: y.squeeze_(),
        lambda m, y: y.as_strided_((2, 3), (1, 2)),
    ],
)
def test_in_place_change_of_shape(program: Any) -> None:
    def run(m: Any) -> Any:
        x = m.tensor(checks.arrays(B)[0], requires_grad=True)
        y = x * 3
        out = program(m, y)
        assert out is y
        weight = m.arange(y.numel(), dtype=m.float64).reshape(y.shape)
        (g,) = m.autograd.grad((y * y * weight).sum(), x)
        return [y, checks.strides(y), g]

    same(run)


def test_a_leaf_stays_one_when_turned_without_recording() -> None:
    x = adjoint.arange(6.0).reshape(2, 3).requires_grad_()
    with adjoint.no_grad():
        x.t_()
    assert x.is_leaf
    assert x.requires_grad
    (x * adjoint.arange(6.0).reshape(3, 2)).sum().backward()
    assert x.grad.tolist() == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        x.t_()


# --- Errors -----------------------------------------------------------------------------------------

ERRORS: list[tuple[Any, str]] = [
    (lambda m, x: x.t().view(-1), "view size is not compatible with input tensor's size and stride"),
    (lambda m, x: x.view(5), "is invalid for input of size 12"),
    (lambda m, x: x.view(5, -1), "is invalid for input of size 12"),
    (lambda m, x: x.view(-1, -1), "only one dimension can be inferred"),
    (lambda m, x: x[:0].view(-1, 0), "is ambiguous"),
    (lambda m, x: x.reshape(-3, 2), "invalid shape dimension -3"),
    (lambda m, x: x.expand(2, 2), "must match the existing size (4)"),
    (lambda m, x: x.expand(4), "the number of sizes provided (1) must be greater or equal"),
    (lambda m, x: x.expand(-1, 3, 4), "isn't allowed in a leading, non-existing dimension 0"),
    (lambda m, x: x.squeeze(5), "Dimension out of range (expected to be in range of [-2, 1], but got 5)"),
    (lambda m, x: x.unsqueeze(-4), "Dimension out of range (expected to be in range of [-3, 2], but got -4)"),
    (lambda m, x: x.transpose(0, 2), "Dimension out of range"),
    (lambda m, x: x.permute(0, 0), "duplicate dims are not allowed"),
    (lambda m, x: x.permute(0), "number of dimensions in the tensor input does not match"),
    (lambda m, x: x[None].t(), "expects a tensor with <= 2 dimensions"),
    (lambda m, x: x[0].mT, "is only supported on matrices or batches of matrices"),
    (lambda m, x: x.flatten(1, 0), "start_dim cannot come after end_dim"),
    (lambda m, x: x.unflatten(0, (2, 2)), "multiply up to the size of dim 0"),
    (lambda m, x: x.movedim((0, 1), (0, 0)), "repeated dim in `destination`"),
    (lambda m, x: x.diagonal(0, 1, 1), "diagonal dimensions cannot be identical"),
    (lambda m, x: x.unfold(0, 5, 1), "maximum size for tensor at dimension 0 is 3 but size is 5"),
    (lambda m, x: x.as_strided((20,), (1,)), "out of bounds for storage"),
    (lambda m, x: x.narrow(0, 2, 2), "exceeds dimension size (3)"),
    (lambda m, x: x.split(-1), "split_size be non-negative"),
    (lambda m, x: x.split([1, 1]), "split_with_sizes expects split_sizes to sum exactly to 3"),
    (lambda m, x: x.chunk(0), "chunk expects `chunks` to be greater than 0"),
    (lambda m, x: m.cat([x, x[0]]), "Tensors must have same number of dimensions: got 2 and 1"),
    (lambda m, x: m.cat([x, x[:, :2]]), "Sizes of tensors must match except in dimension 0"),
    (lambda m, x: m.cat([]), "expected a non-empty list of Tensors"),
    (lambda m, x: m.cat([x.sum(), x]), "zero-dimensional tensor (at position 0) cannot be concatenated"),
    (lambda m, x: m.cat(x), "must be tuple of Tensors, not Tensor"),
    (lambda m, x: m.stack([x, x[0]]), "stack expects each tensor to be equal size"),
    (lambda m, x: m.stack([]), "stack expects a non-empty TensorList"),
    (lambda m, x: x.repeat(2), "Number of dimensions of repeat dims can not be smaller"),
    (
        lambda m, x: x.repeat_interleave(m.tensor([1, 2]), 0),
        "repeats must have the same size as input along dim",
    ),
    (lambda m, x: x.flip(0, 0), "appears multiple times in the list of dims"),
    (lambda m, x: x.roll((1, 2), 0), "shifts and dimensions must align"),
    (lambda m, x: x[0].tril(), "must have at least 2 dimensions"),
    (lambda m, x: x.imag, "imag is not implemented for tensors with non-complex dtypes"),
    (lambda m, x: m.view_as_complex(x), "Tensor must have a last dimension of size 2"),
    (lambda m, x: m.broadcast_tensors(x, x[:2]), "must match the size of tensor b (2)"),
    (lambda m, x: x.view(m.int16).view(m.float64)[0, 0, 0], "too many indices for tensor of dimension 2"),
    (lambda m, x: x.diagonal().view(m.int16), "self.stride(-1) must be 1"),
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


# --- Frozen values: what holds without torch ---------------------------------------------------------


def test_known_values() -> None:
    x = adjoint.arange(6).reshape(2, 3)
    assert x.t().tolist() == [[0, 3], [1, 4], [2, 5]]
    assert x.t().stride() == (1, 3)
    assert x.flip(1).tolist() == [[2, 1, 0], [5, 4, 3]]
    assert x.roll(1, 1).tolist() == [[2, 0, 1], [5, 3, 4]]
    assert x.diagonal(1).tolist() == [1, 5]
    assert adjoint.cat([x, x[:1]]).tolist() == [[0, 1, 2], [3, 4, 5], [0, 1, 2]]
    assert [p.tolist() for p in x.split([1, 2], 1)] == [[[0], [3]], [[1, 2], [4, 5]]]
    assert x.unfold(1, 2, 1).tolist() == [[[0, 1], [1, 2]], [[3, 4], [4, 5]]]
    assert adjoint.broadcast_shapes((2, 1), (3,), 1) == (2, 3)
    assert adjoint.tril_indices(3, 3, -1).tolist() == [[1, 2, 2], [0, 0, 1]]


def test_cat_promotes_and_casts_gradients_back() -> None:
    a = adjoint.ones(2, requires_grad=True)
    b = adjoint.ones(2, dtype=adjoint.float64, requires_grad=True)
    out = adjoint.cat([a, b])
    assert out.dtype is adjoint.float64
    out.sum().backward()
    assert a.grad.dtype is adjoint.float32
    assert b.grad.dtype is adjoint.float64


def test_view_of_another_dtype() -> None:
    x = adjoint.tensor([1.0, 2.0])
    assert x.view(adjoint.int32).tolist() == [1065353216, 1073741824]
    assert x.view(adjoint.uint8).shape == (8,)
    assert x.view(adjoint.float64).shape == (1,)
    x.view(adjoint.int32)[0] = 0
    assert x.tolist() == [0.0, 2.0]


# --- Drawn shapes -----------------------------------------------------------------------------------


@st.composite
def pipelines(draw: Any) -> tuple[tuple[int, ...], list[tuple[Any, ...]]]:
    """A shape and a chain of views, each possible on what the one before leaves."""
    shape = draw(st.lists(st.integers(0, 4), min_size=1, max_size=4).map(tuple))
    x = np.zeros(shape)
    steps = []
    for _ in range(draw(st.integers(1, 4))):
        kind = draw(
            st.sampled_from(["permute", "slice", "unsqueeze", "squeeze", "select", "expand", "reshape", "view"])
        )
        rank = x.ndim
        if kind == "permute":
            step: tuple[Any, ...] = (kind, tuple(draw(st.permutations(range(rank)))))
            x = x.transpose(step[1])
        elif kind == "slice" and rank:
            d = draw(st.integers(0, rank - 1))
            item = slice(draw(st.integers(0, 3)), draw(st.integers(0, 4)), draw(st.integers(1, 2)))
            step = (kind, d, item)
            x = x[(slice(None),) * d + (item,)]
        elif kind == "unsqueeze" and rank < 6:
            step = (kind, draw(st.integers(0, rank)))
            x = np.expand_dims(x, step[1])
        elif kind == "select" and rank and min(x.shape) > 0:
            d = draw(st.integers(0, rank - 1))
            step = (kind, d, draw(st.integers(-x.shape[d], x.shape[d] - 1)))
            x = x.take(step[2], step[1])
        elif kind == "expand" and 1 in x.shape:
            step = (kind, tuple(3 if n == 1 else n for n in x.shape))
            x = np.broadcast_to(x, step[1])
        elif kind in ("reshape", "view"):
            factors = [n for n in x.shape for n in ((2, n // 2) if n == 4 else (n,))]
            step = (kind, tuple(draw(st.permutations(factors))))
            x = x.reshape(step[1])
        else:
            step = ("squeeze",)
            x = x.squeeze()
        steps.append(step)
    return shape, steps


@needs_torch
@settings(max_examples=150)
@given(pipelines())
def test_drawn_chain_of_views(case: Any) -> None:
    shape, steps = case

    def program(m: Any) -> Any:
        x = m.arange(int(np.prod(shape)), dtype=m.float64).reshape(shape).requires_grad_()
        y = x * 1
        base = y
        for kind, *args in steps:
            if kind == "slice":
                y = y[(slice(None),) * args[0] + (args[1],)]
            else:
                y = getattr(y, kind)(*args)
        (g,) = m.autograd.grad((y * y).sum(), x, allow_unused=True)
        return [y, y._base is base, checks.strides(y), g]

    same(program)
