"""Reductions, scans, norms: against torch, forward against reverse, batched against a loop."""

from __future__ import annotations

import math
from typing import Any

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

import adjoint
from tests.ops import checks
from tests.oracle import needs_torch, same

A, B, C = (2, 3, 4), (3, 4), (5,)
inf, nan = math.inf, math.nan
TIES = np.array([[2.0, 1.0, 2.0], [3.0, 3.0, 3.0], [0.0, -1.0, -2.0]])
ZEROS = np.array([[2.0, 0.0, 3.0], [0.0, 4.0, 0.0], [1.0, 2.0, 5.0]])
NANS = np.array([[2.0, nan, 3.0], [1.0, 4.0, 0.5], [nan, nan, nan]])
MIXED = np.array([[3.0, -4.0, 0.5], [-1.5, -2.0, 0.25]])
COMPLEX = MIXED + 1j * MIXED[:, ::-1]
INTS = np.array([[3, 1, 2], [5, 0, 5]])

# name: (program, inputs)
PROGRAMS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "sum": (lambda m, x: x.sum(), (A,)),
    "sum of a scalar": (lambda m, x: x.sum(0), ((),)),
    "sum dim": (lambda m, x: x.sum(1), (A,)),
    "sum dims": (lambda m, x: x.sum((0, -1), keepdim=True), (A,)),
    "sum axis": (lambda m, x: x.sum(axis=0, keepdims=True), (A,)),
    "sum no dims": (lambda m, x: x.sum(dim=[]), (A,)),
    "sum complex": (lambda m, x: x.sum(0), (COMPLEX,)),
    "mean": (lambda m, x: x.mean(), (A,)),
    "mean dims": (lambda m, x: x.mean((1, 2)), (A,)),
    "nansum": (lambda m, x: x.nansum(1), (NANS,)),
    "nanmean": (lambda m, x: x[:2].nanmean(1), (NANS,)),
    "prod": (lambda m, x: x.prod(), (B,)),
    "prod dim": (lambda m, x: x.prod(1, keepdim=True), (A,)),
    "prod with zeros": (lambda m, x: x.prod(1), (ZEROS,)),
    "prod of all with zeros": (lambda m, x: x.prod(), (ZEROS,)),
    "prod complex": (lambda m, x: x.prod(1), (COMPLEX,)),
    "var": (lambda m, x: x.var(), (B,)),
    "var dim": (lambda m, x: x.var(1, correction=2, keepdim=True), (A,)),
    "var biased": (lambda m, x: x.var((0, 2), unbiased=False), (A,)),
    "var complex": (lambda m, x: x.var(1), (COMPLEX,)),
    "std": (lambda m, x: x.std(), (B,)),
    "std positional": (lambda m, x: x.std(0, False, True), (B,)),
    "std of equals": (lambda m, x: (x * 0 + 1).std(1), (B,)),
    "var_mean": (lambda m, x: m.var_mean(x, 1), (A,)),
    "std_mean": (lambda m, x: m.std_mean(x, dim=(0, 1), correction=0), (A,)),
    "logsumexp": (lambda m, x: x.logsumexp(1), (A,)),
    "logsumexp dims": (lambda m, x: x.logsumexp((0, 2), keepdim=True), (A,)),
    "softmax": (lambda m, x: x.softmax(1), (A,)),
    "softmax last": (lambda m, x: m.softmax(x, -1), (B,)),
    "softmax of a scalar": (lambda m, x: x.softmax(0), ((),)),
    "log_softmax": (lambda m, x: x.log_softmax(0), (B,)),
    "amax": (lambda m, x: x.amax(1), (TIES,)),
    "amax of all": (lambda m, x: x.amax(), (TIES,)),
    "amin": (lambda m, x: x.amin((0, 1), keepdim=True), (TIES,)),
    "aminmax": (lambda m, x: tuple(x.aminmax(dim=1)), (B,)),
    "max": (lambda m, x: x.max(), (TIES,)),
    "min": (lambda m, x: x.min(), (TIES,)),
    "max dim": (lambda m, x: tuple(x.max(1)), (TIES,)),
    "max keepdim": (lambda m, x: tuple(x.max(0, keepdim=True)), (B,)),
    "min dim": (lambda m, x: tuple(m.min(x, 1)), (TIES,)),
    "max of two": (lambda m, x, y: m.max(x, y), (B, B)),
    "median": (lambda m, x: x.median(), (B,)),
    "median dim": (lambda m, x: tuple(x.median(1)), (B,)),
    "nanmedian": (lambda m, x: x[:2].nanmedian(1)[0], (NANS,)),
    "mode": (lambda m, x: x.mode(1)[0], (TIES,)),
    "quantile": (lambda m, x: x.quantile(0.3), (B,)),
    "quantile dim": (lambda m, x: m.quantile(x, m.tensor([0.25, 0.9]).double(), dim=1), (A,)),
    "quantile keepdim": (lambda m, x: x.quantile(0.5, dim=0, keepdim=True, interpolation="lower"), (B,)),
    "nanquantile": (lambda m, x: x.nanquantile(0.5, dim=1), (NANS,)),
    "cumsum": (lambda m, x: x.cumsum(1), (A,)),
    "cumprod": (lambda m, x: x.cumprod(1), (A,)),
    "cumprod with zeros": (lambda m, x: x.cumprod(1), (ZEROS,)),
    "cumprod complex": (lambda m, x: x.cumprod(0), (COMPLEX,)),
    "cummax": (lambda m, x: tuple(x.cummax(1)), (TIES,)),
    "cummin": (lambda m, x: tuple(x.cummin(0)), (TIES,)),
    "logcumsumexp": (lambda m, x: x.logcumsumexp(1), (A,)),
    "diff": (lambda m, x: x.diff(2, dim=1), (B,)),
    "diff with ends": (lambda m, x, y: x.diff(prepend=y, append=y), ((3, 4), (3, 2))),
    "gradient": (lambda m, x: m.gradient(x, dim=(0, 2)), ((3, 2, 4),)),
    "gradient at points": (
        lambda m, x, t: m.gradient(x, spacing=[t], dim=1, edge_order=2),
        ((2, 5), np.array([0.0, 1.0, 1.5, 3.0, 4.0])),
    ),
    "sum_to_size": (lambda m, x: x.sum_to_size(3, 1), (A,)),
    "trapezoid": (lambda m, x: m.trapezoid(x, dx=0.5), (B,)),
    "trapezoid points": (lambda m, x, y: m.trapezoid(x, y, dim=0), (B, (3,))),
    "cumulative_trapezoid": (lambda m, x, y: m.cumulative_trapezoid(x, y), (B, (4,))),
    "norm": (lambda m, x: x.norm(), (MIXED,)),
    "norm 1": (lambda m, x: x.norm(1, dim=1), (MIXED,)),
    "norm 3": (lambda m, x: x.norm(3, dim=0, keepdim=True), (MIXED,)),
    "norm 0.5": (lambda m, x: x.norm(0.5), (MIXED,)),
    "norm -1": (lambda m, x: x.norm(-1, dim=1), (MIXED,)),
    "norm inf": (lambda m, x: x.norm(inf, dim=1), (MIXED,)),
    "norm -inf": (lambda m, x: x.norm(-inf), (MIXED,)),
    "norm fro": (lambda m, x: m.norm(x, "fro", dim=(0, 2)), (A,)),
    "norm nuc": (lambda m, x: m.norm(x, "nuc"), (MIXED,)),
    "norm complex": (lambda m, x: x.norm(dim=1), (COMPLEX,)),
    "norm complex 3": (lambda m, x: x.norm(3), (COMPLEX,)),
    "vector_norm": (lambda m, x: m.linalg.vector_norm(x, 2.5, dim=(0, 1)), (A,)),
    "matrix_norm 1": (lambda m, x: m.linalg.matrix_norm(x, 1), (A,)),
    "matrix_norm -inf": (lambda m, x: m.linalg.matrix_norm(x, -inf, keepdim=True), (A,)),
    "matrix_norm 2": (lambda m, x: m.linalg.matrix_norm(x, 2, dim=(0, 2)), (A,)),
    "linalg.norm": (lambda m, x: m.linalg.norm(x, 1), (B,)),
    "dist": (lambda m, x, y: m.dist(x, y * 0.3, 3), (B, B)),
    "cdist": (lambda m, x, y: m.cdist(x, y * 0.3), ((2, 3, 4), (2, 5, 4))),
    "cdist 1": (lambda m, x, y: m.cdist(x, y * 0.3, 1.0), ((3, 4), (5, 4))),
    "cdist by products": (
        lambda m, x, y: m.cdist(x, y * 0.3, compute_mode="use_mm_for_euclid_dist"),
        ((3, 4), (5, 4)),
    ),
    "pdist": (lambda m, x: m.pdist(x, 2.5), ((4, 3),)),
    "renorm": (lambda m, x: m.renorm(x, 2, 1, 1.5), (A,)),
    "cov": (lambda m, x: m.cov(x), (B,)),
    "cov weighted": (lambda m, x: m.cov(x, aweights=m.tensor([1.0, 2.0, 0.5, 1.5]).double()), (B,)),
    "corrcoef": (lambda m, x: m.corrcoef(x), (np.sin(np.arange(12.0)).reshape(3, 4) ** 3,)),
}


@needs_torch
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients(name: str) -> None:
    f, inputs = PROGRAMS[name]
    values = checks.arrays(*inputs)
    same(lambda m: f(m, *checks.tensors(m, values)))
    if name.startswith(("cdist", "pdist")):  # torch differentiates these only once
        same(lambda m: m.autograd.grad(checks.weighted(m, f(m, *(xs := checks.tensors(m, values)))), xs), 1e-6)
    else:
        same(lambda m: checks.gradients(m, f, values), 1e-6)


@pytest.mark.parametrize("name", ["cdist", "cdist 1", "pdist"])
def test_second_gradients_of_distances(name: str) -> None:
    f, inputs = PROGRAMS[name]
    xs = checks.tensors(adjoint, checks.arrays(*inputs))
    assert adjoint.autograd.gradgradcheck(lambda *xs: f(adjoint, *xs), xs)


REAL = {n: p for n, p in PROGRAMS.items() if not any(v is COMPLEX or v is NANS for v in p[1])}


@pytest.mark.parametrize("name", [n for n in REAL if n != "std of equals"])
def test_forward_matches_reverse(name: str) -> None:
    f, inputs = REAL[name]
    checks.forward_matches_reverse(f, *inputs)


@pytest.mark.parametrize("name", [n for n in REAL if not n.startswith(("pdist", "corrcoef", "cov"))])
def test_batched_matches_loop(name: str) -> None:
    f, inputs = REAL[name]
    checks.batched_matches_loop(f, *inputs)


# --- dtypes, empty tensors, refusals ------------------------------------------------------------------

DTYPES: dict[str, Any] = {
    "sum of ints": lambda m: m.tensor(INTS).int().sum(),
    "sum of bools": lambda m: (m.tensor(INTS) > 1).sum(0),
    "sum to int32": lambda m: m.tensor(INTS).sum(dtype=m.int32),
    "sum in double": lambda m: m.ones(3).sum(dtype=m.float64),
    "sum of half": lambda m: m.full((2, 4096), 1.0, dtype=m.float16).sum(1),
    "sum of bfloat16": lambda m: m.full((2, 300), 1.0, dtype=m.bfloat16).sum(1).float(),
    "mean of half": lambda m: m.full((2, 4096), 0.5, dtype=m.float16).mean(1),
    "prod of ints": lambda m: m.tensor(INTS).prod(1),
    "max of ints": lambda m: tuple(m.tensor(INTS).max(1)),
    "max of bools": lambda m: (m.tensor(INTS) > 1).max(),
    "argmax": lambda m: m.tensor(INTS).argmax(),
    "argmax dim": lambda m: m.tensor(INTS).argmax(1, keepdim=True),
    "argmin of nan": lambda m: m.tensor(NANS).argmin(1),
    "max of nan": lambda m: [*m.tensor(NANS).max(1), m.tensor(NANS).amax(0)],
    "median of nan": lambda m: m.tensor(NANS).median(1)[0],
    "all": lambda m: m.tensor(INTS).all(),
    "all of uint8": lambda m: m.tensor(INTS).byte().all(1),
    "any dim": lambda m: (m.tensor(INTS) > 4).any(1, keepdim=True),
    "all dims": lambda m: (m.tensor(INTS) >= 0).all(dim=(0, 1)),
    "count_nonzero": lambda m: m.tensor(INTS).count_nonzero(dim=1),
    "logsumexp of ints": lambda m: m.tensor(INTS).logsumexp(1),
    "softmax dtype": lambda m: m.ones(3).softmax(0, dtype=m.float64),
    "softmax of -inf": lambda m: m.tensor([-inf, -inf]).softmax(0),
    "logsumexp of -inf": lambda m: m.tensor([[-inf, -inf], [inf, 1.0]]).logsumexp(1),
    "cumsum of bools": lambda m: (m.tensor(INTS) > 1).cumsum(1),
    "cummax of nan": lambda m: tuple(m.tensor(NANS).cummax(1)),
    "histc": lambda m: m.tensor([1.0, 2.0, 1.0, 4.0, 0.2]).histc(4, 0, 3),
    "bincount": lambda m: m.bincount(m.tensor([1, 3, 1]), minlength=5),
    "bincount weighted": lambda m: m.bincount(m.tensor([1, 3, 1]), m.tensor([0.5, 1.0, 2.0])),
    "histogram": lambda m: tuple(m.histogram(m.tensor([1.0, 2.0, 1.0, 4.0]), 4, range=(0.0, 3.0), density=True)),
    "empty sum": lambda m: [m.ones(0).sum(), m.ones(0, 3).sum(0), m.ones(0, 3).prod(0), m.ones(0).mean()],
    "empty var": lambda m: [m.ones(0).var(), m.ones(1).var(), m.ones(3).var(correction=3)],
    "empty logsumexp": lambda m: m.ones(0).logsumexp(0),
    "empty softmax": lambda m: m.ones(0, 3).softmax(0),
    "empty norm": lambda m: [m.ones(0).norm(), m.ones(0).norm(1), m.ones(2, 0).norm(dim=1)],
    "empty all": lambda m: [m.ones(0).all(), m.ones(0).any(), m.ones(0, 2).amax(1)],
    "empty cumsum": lambda m: [m.ones(0, 2).cumsum(0), m.ones(()).cumsum(0)],
}


@needs_torch
@pytest.mark.parametrize("name", DTYPES)
def test_dtypes_and_empty_tensors(name: str) -> None:
    same(DTYPES[name])


REFUSALS: dict[str, Any] = {
    "mean of ints": lambda m: m.ones(3).int().mean(),
    "mean to ints": lambda m: m.ones(3).mean(dtype=m.int32),
    "var of ints": lambda m: m.ones(3).int().var(),
    "dim out of range": lambda m: m.ones(3).sum(1),
    "dim twice": lambda m: m.ones(2, 3).sum((0, 0)),
    "max of nothing": lambda m: m.ones(0).max(),
    "max dim of nothing": lambda m: m.ones(0, 3).max(0),
    "amax of nothing": lambda m: m.ones(0).amax(),
    "argmax of nothing": lambda m: m.ones(0).argmax(),
    "argmax of bools": lambda m: m.ones(3).bool().argmax(),
    "max of complex": lambda m: m.ones(3, dtype=m.complex64).max(),
    "median of bools": lambda m: m.ones(3).bool().median(),
    "softmax of ints": lambda m: m.ones(3).int().softmax(0),
    "quantile out of range": lambda m: m.ones(3).quantile(2.0),
    "quantile of ints": lambda m: m.ones(3).int().quantile(0.5),
    "norm of ints": lambda m: m.ones(3).int().norm(),
    "norm of no name": lambda m: m.ones(3).norm("xx"),
    "inf norm of nothing": lambda m: m.linalg.vector_norm(m.ones(0), inf),
    "matrix_norm of a vector": lambda m: m.linalg.matrix_norm(m.ones(3)),
    "matrix_norm 3": lambda m: m.linalg.matrix_norm(m.ones(3, 3), 3),
    "cdist columns": lambda m: m.cdist(m.ones(3, 2), m.ones(4, 3)),
    "pdist of a vector": lambda m: m.pdist(m.ones(3)),
    "renorm of a vector": lambda m: m.renorm(m.ones(3), 2, 0, 1),
    "bincount of negative": lambda m: m.bincount(m.tensor([-1, 2])),
    "diff of a scalar": lambda m: m.ones(()).diff(),
    "keepdim no bool": lambda m: m.ones(3).max(0, 1),
    "out with a gradient": lambda m: m.sum(m.ones(3, requires_grad=True), 0, out=m.ones(())),
}


@needs_torch
@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str) -> None:
    same(REFUSALS[name])


# --- What does not need torch ---------------------------------------------------------------------------


def test_ties_share_or_choose() -> None:
    for f, expected in (
        (lambda x: x.amax(), [0.5, 0.0, 0.5]),
        (lambda x: x.max(), [0.5, 0.0, 0.5]),
        (lambda x: x.max(0)[0], [1.0, 0.0, 0.0]),
        (lambda x: x.norm(inf), [0.5, 0.0, 0.5]),
    ):
        x = adjoint.tensor([2.0, 1.0, 2.0], requires_grad=True)
        f(x).backward()
        assert x.grad.tolist() == expected


def test_norm_and_std_of_equal_values_pull_nowhere() -> None:
    x = adjoint.zeros(3, requires_grad=True)
    (x.norm() + x.std() + x.norm(3)).backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]


def test_results_have_names() -> None:
    found = adjoint.tensor([[1.0, 3.0], [4.0, 2.0]]).max(1)
    assert found.values.tolist() == [3.0, 4.0] and found.indices.tolist() == [1, 0]
    assert repr(found) == "adjoint.return_types.max(\nvalues=tensor([3., 4.]),\nindices=tensor([1, 0]))"
    values, indices = found
    assert values is found[0] and indices is found[1]


def test_node_names() -> None:
    x = adjoint.ones(2, 3, requires_grad=True)
    names = {
        "SumBackward0": x.sum(), "SumBackward1": x.sum(0), "MeanBackward0": x.mean(), "MaxBackward0": x.max(0)[0],
        "MaxBackward1": x.max(), "AmaxBackward0": x.amax(), "SoftmaxBackward0": x.softmax(0),
        "LogsumexpBackward0": x.logsumexp(0), "LinalgVectorNormBackward0": x.norm(), "VarBackward0": x.var(),
    }  # fmt: skip
    for name, result in names.items():
        assert result.grad_fn.name() == name


def test_large_sums_are_as_exact_as_numpys() -> None:
    rng = np.random.default_rng(0)
    for shape in ((100_003,), (512, 300), (7, 40, 200), (300, 17)):
        values = rng.normal(size=shape).astype(np.float32) + np.float32(1)
        exact = values.astype(np.float64)
        x = adjoint.tensor(values)
        rank = len(shape)
        for dims in (
            tuple(range(rank)),
            (rank - 1,),
            (0,),
            tuple(range(rank - 1)) or (0,),
            tuple(range(1, rank)) or (0,),
        ):
            for keep in (False, True):
                found, wanted = x.sum(dims, keep).numpy(), exact.sum(dims, keepdims=keep)
                assert found.dtype == np.float32 and found.shape == wanted.shape
                np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-5)


def test_out_and_in_place() -> None:
    x = adjoint.tensor([1.0, 2.0, 3.0])
    out = adjoint.empty(0)
    assert adjoint.sum(x, 0, out=out) is out and out.item() == 6.0
    values, indices = adjoint.empty(0), adjoint.empty(0, dtype=adjoint.int64)
    adjoint.max(x.reshape(1, 3), 1, out=(values, indices))
    assert values.tolist() == [3.0] and indices.tolist() == [2]
    y = x.clone()
    assert y.cumsum_(0) is y and y.tolist() == [1.0, 3.0, 6.0]
    leaf = adjoint.tensor([2.0, 0.0, 3.0], requires_grad=True)
    (leaf * 1).cumprod_(0).sum().backward()
    assert leaf.grad.tolist() == [1.0, 8.0, 0.0]


finite = st.floats(-10, 10, width=32)


@needs_torch
@settings(max_examples=40)
@given(hnp.arrays(np.float64, hnp.array_shapes(max_dims=3, max_side=4), elements=finite), st.data())
def test_any_shape(values: np.ndarray, data: Any) -> None:
    dim = data.draw(st.integers(-values.ndim, values.ndim - 1))
    keep = data.draw(st.booleans())

    def program(m: Any) -> Any:
        x = m.tensor(values, requires_grad=True)
        parts = [x.sum(dim, keep), x.mean(dim, keep), x.amax(dim, keep), x.logsumexp(dim, keep), x.prod(dim, keep)]
        sum(p.sum() for p in parts).backward()
        return [*parts, x.argmax(dim, keep), x.grad]

    same(program)


SMALL_AND_SPECIAL = {
    "logcumsumexp far apart": lambda m, x: (x * 90).logcumsumexp(1),
    "logcumsumexp close": lambda m, x: x.logcumsumexp(0),
    "cummax with nan": lambda m, x: m.where(x > 1.2, x * math.nan, x).cummax(1)[1].to(x.dtype) * x,
    "median of ties": lambda m, x: x.round().median(1)[0],
    "softmax far": lambda m, x: (x * 40).softmax(0),
    "log_softmax far": lambda m, x: (x * 40).log_softmax(1),
    "cross_entropy far": lambda m, x: m.nn.functional.cross_entropy(x * 40, m.tensor([0, 2, 1])),
    "layer_norm off zero": lambda m, x: m.nn.functional.layer_norm(x * 0.5 + 2, (4,)),
    "max of a column": lambda m, x: x.max(0)[0],
}


@needs_torch
@pytest.mark.parametrize("name", SMALL_AND_SPECIAL)
def test_short_ways_of_small_arrays(name: str) -> None:
    def program(m: Any) -> Any:
        x = m.tensor([[0.3, -1.2, 1.5, 0.1], [2.0, 0.4, 0.4, -0.9], [-0.6, -0.6, 0.8, 1.1]], requires_grad=True)
        out = SMALL_AND_SPECIAL[name](m, x)
        out.backward(m.arange(1, out.numel() + 1, dtype=m.float32).reshape(out.shape))
        return [out, x.grad]

    same(program, 2e-5)
