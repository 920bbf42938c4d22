"""Reductions along an axis that few elements follow: what NumPy's own reductions give."""

from __future__ import annotations

import numpy as np
import pytest

import adjoint
from adjoint.devices.cpu import middle

SHAPES = [((20, 30, 4), 1), ((20, 31, 4), 1), ((3, 7, 2, 31, 5), 2), ((300, 2, 1), 1), ((64, 3, 63), 1), ((9, 9), 0)]


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize(("shape", "axis"), SHAPES)
def test_equal_to_numpy(shape: tuple[int, ...], axis: int, keeps: bool) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    for given in (x, x[::-1], np.asfortranarray(x)):
        before = given.copy()
        np.testing.assert_allclose(
            middle.total(given, (axis,), None, None, keeps), given.sum(axis, keepdims=keeps), rtol=1e-4, atol=1e-5
        )
        assert np.array_equal(middle.largest(given, (axis,), None, None, keeps), given.max(axis, keepdims=keeps))
        assert np.array_equal(middle.smallest(given, (axis,), None, None, keeps), given.min(axis, keepdims=keeps))
        assert np.array_equal(given, before)


@pytest.mark.parametrize("place", [0, 14, 29, 30])
def test_nan_and_infinity(place: int) -> None:
    x = np.zeros((20, 31, 4), np.float32)
    x[3, place, 2], x[5, place, 1] = np.nan, -np.inf
    assert np.isnan(middle.largest(x, (1,))[3, 2])
    assert np.isnan(middle.total(x, (1,))[3, 2])
    assert middle.total(x, (1,))[5, 1] == -np.inf
    assert np.count_nonzero(np.isnan(middle.total(x, (1,)))) == 1


def test_integers_and_objects_are_numpys() -> None:
    x = np.arange(2400).reshape(20, 30, 4)
    assert np.array_equal(middle.total(x, (1,)), x.sum(1))
    assert np.array_equal(middle.largest(x, (1,)), x.max(1))


@pytest.mark.parametrize("dim", [1, -2])
def test_softmax_sum_and_broadcasting_use_them(dim: int) -> None:
    x = adjoint.randn(20, 30, 4, dtype=adjoint.float64, requires_grad=True)
    y = adjoint.randn(20, 1, 4, dtype=adjoint.float64, requires_grad=True)
    found = adjoint.softmax(x, dim) * y + x.sum(dim, keepdim=True) + x.amax(dim, keepdim=True)
    found.sum().backward()
    e = np.exp(x.detach().numpy() - x.detach().numpy().max(1, keepdims=True))
    np.testing.assert_allclose(y.grad.numpy(), (e / e.sum(1, keepdims=True)).sum(1, keepdims=True))


@pytest.mark.parametrize("length", [2, 3, 4, 7, 8, 9, 100])
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("name", ["amax", "amin", "sum", "mean", "var", "logsumexp"])
def test_results_are_dense(name: str, keepdim: bool, length: int) -> None:
    found = getattr(adjoint.rand(150, length, 4), name)(1, keepdim=keepdim)
    assert found.is_contiguous() and found.view(-1).shape == (600,)
