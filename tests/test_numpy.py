"""NumPy and DLPack: ufuncs and functions on tensors give NumPy's values and record; memory is shared."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjoint

from .oracle import needs_torch, torch

RNG = np.random.default_rng(0)
A = RNG.standard_normal((3, 4))
B = RNG.standard_normal(4)
SQUARE = A[:, :3] @ A[:, :3].T + np.eye(3)


def check(function: Callable[..., Any], *args: Any) -> None:
    """Assert that a function of arrays gives, for tensors, tensors of the same values."""
    with np.errstate(all="ignore"):
        expected = function(*args)
        found = function(*(adjoint.from_numpy(a.copy()) if isinstance(a, np.ndarray) else a for a in args))
    compare(found, expected)


def compare(found: Any, expected: Any) -> None:
    if isinstance(expected, tuple | list):
        assert len(found) == len(expected)
        for f, e in zip(found, expected, strict=True):
            compare(f, e)
    elif isinstance(expected, np.ndarray | np.generic) and not isinstance(expected, np.bool_):
        assert isinstance(found, adjoint.Tensor), type(found)
        assert found.shape == expected.shape
        np.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-10, atol=1e-12)
    else:
        assert bool(found == expected)


# --- Ufuncs -----------------------------------------------------------------------------------------

UFUNCS = sorted({u.__name__: u for u in vars(np).values() if isinstance(u, np.ufunc)}.values(), key=str)
POSITIVE = {"arccosh", "log", "log2", "log10", "sqrt"}
OF_MATRICES = {"matmul", "vecdot", "matvec", "vecmat"}


def _accepts(ufunc: np.ufunc, *args: Any) -> bool:
    try:
        with np.errstate(all="ignore"):
            ufunc(*args)
    except TypeError:
        return False
    return True


@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda u: u.__name__)
def test_ufuncs_equal_numpy(ufunc: np.ufunc) -> None:
    if ufunc.__name__ in OF_MATRICES:
        check(np.matmul, A, B)
        return
    floats = np.abs(A) + 1.1 if ufunc.__name__ in POSITIVE else A * 0.3
    integers = np.abs(A * 10).astype(np.int64) + 1
    for x, other, number in ((floats, B, 2.0), (integers, integers[0], 2), (floats > 0, B > 0, True)):
        if ufunc.nin == 1 and _accepts(ufunc, x):
            check(ufunc, x)
            return
        if ufunc.nin == 2 and _accepts(ufunc, x, other):
            check(ufunc, x, other)
            check(ufunc, x, number)
            check(ufunc, number, np.abs(x) if x.dtype != bool else x)
            return


@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.add.reduce(x),
        lambda x: np.add.reduce(x, axis=None),
        lambda x: np.multiply.reduce(x, axis=1),
        lambda x: np.maximum.reduce(x, axis=1, keepdims=True),
        lambda x: np.minimum.reduce(x, axis=(0, 1)),
        lambda x: np.logical_and.reduce(x > 0, axis=0),
        lambda x: np.logaddexp.reduce(x, axis=0),
        lambda x: np.add.accumulate(x, axis=1),
        lambda x: np.maximum.accumulate(x, axis=1),
        lambda x: np.multiply.outer(x, x),
        lambda x: np.subtract.outer(x[0], B),
        lambda x: np.add.reduceat(x[0], [0, 2]),
        lambda x: np.add(x, 1, dtype=np.float32),
        lambda x: np.divmod(x, 2),
        lambda x: np.modf(x),
    ],
)
def test_ufunc_methods_equal_numpy(call: Callable[[Any], Any]) -> None:
    check(call, A)


@pytest.mark.parametrize(
    "op",
    [
        operator.add,
        operator.sub,
        operator.mul,
        operator.truediv,
        operator.pow,
        operator.lt,
        operator.eq,
        operator.matmul,
    ],
)
def test_both_operand_orders_agree_and_record(op: Callable[[Any, Any], Any]) -> None:
    array = np.abs(RNG.standard_normal((3, 3))) + 0.5
    other = np.abs(RNG.standard_normal((3, 3))) + 0.5
    x, y = adjoint.tensor(array, requires_grad=True), adjoint.tensor(other, requires_grad=True)
    for found, expected in ((op(array, y), op(adjoint.tensor(array), y)), (op(x, other), op(x, adjoint.tensor(other)))):
        assert type(found) is adjoint.Tensor and found.dtype is expected.dtype
        assert adjoint.equal(found, expected)
        assert found.requires_grad == expected.requires_grad
    for scalar in (np.float64(2), np.float32(2), np.int64(2)):
        if op is not operator.matmul:
            t = adjoint.ones(2)
            assert op(scalar, t).dtype is op(t, scalar).dtype is op(t, scalar.item()).dtype
            assert adjoint.equal(op(scalar, t), op(scalar.item(), t))


def test_numpy_calls_record_gradients() -> None:
    x = adjoint.tensor([1.0, 2.0], requires_grad=True)
    y = np.sum(np.sin(x) * np.array([2.0, 3.0]) + np.exp(x))
    y.backward()
    expected = np.array([2.0, 3.0]) * np.cos([1.0, 2.0]) + np.exp([1.0, 2.0])
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=1e-6)
    z = np.concatenate([np.stack([x, x]).reshape(-1), np.where(np.array([True, False]), x, 0.0)])
    (g,) = adjoint.autograd.grad(np.mean(z) * 6, x)
    np.testing.assert_allclose(g.numpy(), [3, 2], rtol=1e-6)


def test_out_is_filled() -> None:
    x, y = adjoint.ones(2), adjoint.zeros(2)
    assert np.sin(x, out=y) is y and adjoint.equal(y, x.sin())
    array = np.zeros(2)
    assert np.add(x, 1, out=array) is array and array.tolist() == [2, 2]
    array += x
    assert type(array) is np.ndarray and array.tolist() == [3, 3]
    x += np.ones(2)
    assert x.tolist() == [2, 2] and x.dtype is adjoint.float32
    leaf = adjoint.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad"):
        np.sin(leaf, out=array)
    recorded = leaf * 0
    np.multiply(leaf, 3, out=recorded)
    recorded.sum().backward()
    assert leaf.grad.tolist() == [3, 3]


def test_foreign_classes_get_their_turn() -> None:
    class Foreign:
        def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> str:
            return "mine"

    assert np.add(adjoint.ones(2), Foreign()) == "mine"


# --- Functions --------------------------------------------------------------------------------------

FUNCTIONS: list[Callable[[Any], Any]] = [
    np.sum, lambda x: np.sum(x, axis=0), lambda x: np.sum(x, axis=(0, 1), keepdims=True),
    lambda x: np.sum(x, dtype=np.float32),
    lambda x: np.mean(x, 1), np.prod, lambda x: np.prod(x, axis=1), np.var, lambda x: np.std(x, axis=0, ddof=1),
    np.max, lambda x: np.min(x, 0), lambda x: np.amax(x, axis=1, keepdims=True), np.argmax,
    lambda x: np.argmin(x, axis=1),
    lambda x: np.all(x > -10), lambda x: np.any(x > 0, axis=0), np.cumsum, lambda x: np.cumsum(x, 1),
    lambda x: np.cumprod(x, axis=0), np.median, lambda x: np.median(x, axis=0), lambda x: np.quantile(x, 0.3),
    lambda x: np.quantile(x, np.array([0.1, 0.9]), axis=1), np.count_nonzero, np.average,
    lambda x: np.average(x, axis=1, weights=np.array([1.0, 2, 3, 4])), np.ptp, np.trace, np.nansum, np.nanmean,
    np.nanmax,
    lambda x: np.reshape(x, (4, 3)), lambda x: np.reshape(x, -1), np.ravel, np.transpose,
    lambda x: np.transpose(x, (1, 0)),
    lambda x: np.swapaxes(x, 0, 1), lambda x: np.moveaxis(x, 0, 1), lambda x: np.squeeze(x[None]),
    lambda x: np.squeeze(x[None], axis=0), lambda x: np.expand_dims(x, (0, 2)), lambda x: np.expand_dims(x, -1),
    lambda x: np.broadcast_to(x, (2, 3, 4)), lambda x: np.broadcast_arrays(x, x[0]), lambda x: np.atleast_3d(x[0, 0]),
    np.flip, lambda x: np.flip(x, 1), np.flipud, np.fliplr, lambda x: np.roll(x, 1), lambda x: np.roll(x, 1, axis=1),
    np.rot90, lambda x: np.tile(x, 2), lambda x: np.tile(x, (2, 1)), lambda x: np.repeat(x, 2),
    lambda x: np.repeat(x, [1, 2, 3], axis=0), np.diagonal, lambda x: np.diag(x[0]), np.tril, lambda x: np.triu(x, 1),
    np.copy, lambda x: np.pad(x, ((1, 0), (0, 2))), lambda x: np.pad(x, 1, constant_values=3.0),
    lambda x: np.pad(x, 1, mode="edge"), lambda x: np.clip(x, -0.5, 0.5),
    lambda x: np.clip(x, a_min=0, a_max=None), np.real,
    lambda x: np.round(x, 1), np.around, np.nan_to_num, np.sort, lambda x: np.sort(x, axis=0), np.argsort,
    lambda x: np.take(x, [0, 2]), lambda x: np.take(x, np.array([0, 2]), axis=1),
    lambda x: np.take_along_axis(x, np.array([[0], [1], [2]]), 1), lambda x: np.nonzero(x > 0),
    lambda x: np.where(x > 0),
    lambda x: np.where(x > 0, x, 0.0), lambda x: np.where(x > 0, 1.0, x), np.diff, lambda x: np.diff(x, 2, 0),
    lambda x: np.compress([True, False, True], x, axis=0), lambda x: np.dot(x, B), lambda x: np.vdot(x, x),
    lambda x: np.inner(x, x), lambda x: np.outer(x[0], x[1]), lambda x: np.tensordot(x, x, ([0], [0])),
    lambda x: np.tensordot(x, x, 2), lambda x: np.einsum("ij,kj->ik", x, x), lambda x: np.kron(x, x),
    lambda x: np.cross(x.T, x.T[::-1] if isinstance(x, np.ndarray) else np.flip(x.T, 0)), np.shape, np.ndim, np.size,
    lambda x: np.size(x, 1), np.iscomplexobj, lambda x: np.allclose(x, A), lambda x: np.array_equal(x, A),
    lambda x: np.isclose(x, A), np.zeros_like, lambda x: np.ones_like(x, dtype=np.float32),
    lambda x: np.full_like(x, 3),
    lambda x: np.concatenate([x, A]), lambda x: np.concatenate([x, A], axis=None), lambda x: np.concatenate((A, x), 1),
    lambda x: np.stack([x, A]), lambda x: np.stack([A, x], axis=-1), lambda x: np.hstack([x, A]),
    lambda x: np.vstack([x, A]),
    lambda x: np.dstack([x, A]), lambda x: np.column_stack([x, A]), lambda x: np.split(x, 2, 1),
    lambda x: np.split(x, [1, 2]),
    lambda x: np.array_split(x, 2), lambda x: np.meshgrid(x[0], x[1]), lambda x: np.meshgrid(x[0], x[1], indexing="ij"),
    lambda x: np.linalg.inv(x[:, :3]), lambda x: np.linalg.det(x[:, :3]), np.linalg.norm,
    lambda x: np.linalg.norm(x, axis=1),
    lambda x: np.linalg.solve(SQUARE, x), lambda x: np.linalg.norm(x, "fro"), np.unique, np.histogram, np.cov,
    lambda x: np.percentile(x, 50), lambda x: np.interp(x[0], [0.0, 1], [0.0, 1]), lambda x: np.gradient(x[0]),
    np.sinc, np.angle, np.isposinf, np.trunc, lambda x: np.vander(x[0]), np.trapezoid, np.fft.fft, np.result_type,
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(FUNCTIONS)))
def test_functions_equal_numpy(number: int) -> None:
    check(FUNCTIONS[number], A)


RECORDING: dict[str, Callable[[Any], Any]] = {
    "SumBackward1": np.sum, "MeanBackward1": np.mean, "CatBackward0": lambda x: np.concatenate([x, A]),
    "StackBackward0": lambda x: np.stack([x, x]), "WhereBackward0": lambda x: np.where(A > 0, x, 0.0),
    "PermuteBackward0": np.transpose, "ClampBackward1": lambda x: np.clip(x, 0, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", RECORDING)
def test_functions_record_as_the_ops_do(name: str) -> None:
    x = adjoint.tensor(A, requires_grad=True)
    y = RECORDING[name](x)
    assert y.requires_grad and y.grad_fn.name().rstrip("0123456789") == name.rstrip("0123456789")


def test_a_function_without_counterpart_refuses_what_requires_grad() -> None:
    x = adjoint.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad") as caught:
        np.histogram(x)
    assert "np.histogram has no counterpart" in caught.value.__notes__[0]
    assert np.allclose(x, [1.0, 1.0]) and np.array_equal(x, np.ones(2))


def test_functions_that_write_are_counted_as_writes() -> None:
    x = adjoint.zeros(3)
    np.copyto(x, np.arange(3.0))
    np.put(x, [0], 5)
    np.add.at(x, [2], 1.0)
    assert x.tolist() == [5, 1, 3] and x._version == 3
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        np.put(adjoint.ones(2, requires_grad=True), [0], 1)
    kept = adjoint.ones(2, requires_grad=True)
    y = x[:2] * kept
    np.fill_diagonal(x.reshape(3, 1), 9)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


# --- Arrays -----------------------------------------------------------------------------------------


def test_arrays_of_tensors() -> None:
    x = adjoint.arange(3.0)
    assert np.shares_memory(np.asarray(x), x.numpy()) and np.asarray(x, dtype=np.float64).dtype == np.float64
    assert not np.shares_memory(np.array(x), x.numpy())
    with pytest.raises(ValueError, match="without a copy"):
        np.asarray(x, dtype=np.float64, copy=False)
    leaf = adjoint.ones(2, requires_grad=True)
    for call in (np.asarray, lambda t: t.numpy(), lambda t: np.array([t, t])):
        with pytest.raises(RuntimeError, match=r"Use tensor.detach\(\).numpy\(\) instead"):
            call(leaf)
    assert np.shares_memory(leaf.numpy(force=True), leaf.detach().numpy())
    assert np.array([adjoint.tensor(1.0), adjoint.tensor(2.0)]).tolist() == [1, 2]
    np.testing.assert_allclose(x, [0, 1, 2])
    x.numpy()[0] = 7
    assert x[0] == 7


# --- DLPack -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["float32", "float64", "int64", "uint8", "bool", "complex64", "float16"])
def test_dlpack_shares_memory_with_numpy_both_ways(name: str) -> None:
    x = adjoint.ones(2, 3).to(getattr(adjoint, name))
    view = np.from_dlpack(x.t())
    assert view.shape == (3, 2) and np.shares_memory(view, x.numpy())
    array = np.ones((2, 3), name)
    y = adjoint.from_dlpack(array.T)
    assert y.stride() == (1, 3) and np.shares_memory(y.numpy(), array)
    if name == "float32":
        y.mul_(3)
        assert array[0, 0] == 3
    assert not np.shares_memory(adjoint.from_dlpack(array, copy=True).numpy(), array)


@needs_torch
def test_dlpack_shares_memory_with_torch_both_ways() -> None:
    theirs = torch.ones(2, 3)
    mine = adjoint.from_dlpack(theirs[:, 1:])
    mine.add_(1)
    assert theirs.tolist() == [[1, 2, 2], [1, 2, 2]] and mine.stride() == (3, 1)
    back = torch.from_dlpack(mine)
    back[0, 0] = 9
    assert theirs[0, 1] == 9
    assert adjoint.from_dlpack(torch.utils.dlpack.to_dlpack(torch.ones(2))).tolist() == [1, 1]
    assert torch.from_dlpack(adjoint.to_dlpack(adjoint.ones(2))).tolist() == [1, 1]


def test_dlpack_refusals() -> None:
    leaf = adjoint.ones(2, requires_grad=True)
    for call in (np.from_dlpack, adjoint.from_dlpack):
        with pytest.raises(BufferError, match="require gradient"):
            call(leaf)
    with pytest.raises(BufferError, match="bfloat16"):
        np.from_dlpack(adjoint.ones(2, dtype=adjoint.bfloat16))
    with pytest.raises(TypeError, match="__dlpack__"):
        adjoint.from_dlpack([1])
    locked = np.ones(2)
    locked.flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"):
        adjoint.from_dlpack(locked).add_(1)
    assert np.from_dlpack(adjoint.from_numpy(locked)).flags.writeable is False


def test_an_old_producer_shares_writable_memory() -> None:
    class Old:
        def __init__(self) -> None:
            self.array = np.ones(3)

        def __dlpack__(self, stream: Any = None) -> Any:
            return self.array.__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    old = Old()
    x = adjoint.from_dlpack(old)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x.add_(1)
    assert old.array.tolist() == [2, 2, 2]
