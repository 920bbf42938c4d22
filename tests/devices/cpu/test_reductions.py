"""Kernels for large arrays against NumPy's own, with one thread and with several."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from adjoint.core.nodes import registry
from adjoint.devices.cpu import copying, extremes, provider, reductions, scans, threads


@pytest.fixture(params=[1, 2, 3], autouse=True)
def count(request: pytest.FixtureRequest) -> Iterator[None]:
    before = threads.count
    threads.set_count(request.param)
    yield
    threads.set_count(before)


random = np.random.default_rng(0)
SHAPES = [(70001,), (400, 301), (7, 100, 130), (3, 5, 7000), (40, 3, 2000)]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", SHAPES)
def test_sums(shape: tuple[int, ...], dtype: str) -> None:
    x = random.normal(size=shape).astype(dtype)
    exact = 1e-4 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(reductions.total(x), x.sum(dtype=np.float64), rtol=exact, atol=exact * 100)
    for axes in [(0,), (x.ndim - 1,), tuple(range(x.ndim))[1:], tuple(range(x.ndim))[:-1]]:
        found = reductions.sums(x, axes) if axes else None
        if found is not None:
            assert found.dtype == x.dtype
            np.testing.assert_allclose(found, x.sum(axes, dtype=np.float64), rtol=exact, atol=exact * 100)


def test_the_number_of_threads_changes_no_bit() -> None:
    x = random.normal(size=(1000, 301)).astype(np.float32)
    found = {(reductions.total(x).tobytes(), reductions.sums(x, (1,)).tobytes()) for _ in range(5)}
    threads.set_count(1)
    found.add((reductions.total(x).tobytes(), reductions.sums(x, (1,)).tobytes()))
    assert len(found) == 1


def test_what_is_repeated_is_summed_and_copied() -> None:
    reductions.total(random.normal(size=400000).astype(np.float32))  # loops are loaded now, where there are any
    number, row = np.float32(0.25), random.normal(size=700).astype(np.float32)
    spread = [(number, (700, 600)), (row[:, None], (700, 600)), (row, (600, 700)), (row[:, None, None], (700, 20, 30))]
    spread += [(row, (20, 30, 700)), (row[:350].reshape(7, 1, 50), (7, 1000, 50)), (row[::2], (600, 350))]
    for given, shape in spread:
        x = np.broadcast_to(given, shape)
        found = copying.copied(x)
        assert found.flags.c_contiguous and found.flags.writeable
        np.testing.assert_array_equal(found, x)
        for axes in [(0,), (x.ndim - 1,), tuple(range(x.ndim))]:
            total = reductions.sums_of_many(x, axes)
            if total is not None:
                np.testing.assert_allclose(total, x.sum(axes, dtype=np.float64), rtol=1e-5)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_running_sums(shape: tuple[int, ...], reverse: bool) -> None:
    x = random.normal(size=shape)
    for axis in range(x.ndim):
        way = slice(None, None, -1 if reverse else 1)
        index = (slice(None),) * axis + (way,)
        found = scans.cumsum(x, axis, reverse)
        np.testing.assert_allclose(found, x[index].cumsum(axis)[index], rtol=1e-9, atol=1e-9)
    strided = np.broadcast_to(np.float32(1), (300, 200))
    np.testing.assert_array_equal(scans.cumsum(strided, 1, False), strided.cumsum(1))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("width", [480, 509])
def test_running_sums_of_rows_with_numpy_alone(width: int, reverse: bool) -> None:
    x = random.normal(size=(100, width)).astype(np.float32)
    special = x.copy()
    special[3, 70], special[4, 80], special[5, 20:30] = np.inf, np.nan, -np.inf
    way = (slice(None), slice(None, None, -1 if reverse else 1))
    before = provider.allow(False)
    try:
        for given in (x, special):
            found = scans.cumsum(given, 1, reverse)
            np.testing.assert_allclose(found, given[way].astype(np.float64).cumsum(1)[way], 1e-5, 1e-4)
    finally:
        provider.allow(before)


SPECIAL = np.array([0, -0.0, 1, -1, np.inf, -np.inf, np.nan, 1e-30, -1e-30, 3e38, -3e38, 1e-44, 0.7, 2.1], np.float32)


@pytest.mark.parametrize("name", ["logaddexp", "hypot", "remainder"])
def test_pairs(name: str) -> None:
    ordinary = random.normal(size=(2, 100000)).astype(np.float32)
    multiples = (random.integers(-50, 50, 50000) * np.float32(0.7)).astype(np.float32)
    x = np.concatenate([np.repeat(SPECIAL, len(SPECIAL)), ordinary[0] * 10, multiples])
    y = np.concatenate([np.tile(SPECIAL, len(SPECIAL)), ordinary[1], np.full(50000, 0.7, np.float32)])
    ours, numpys = registry[name].kernel, getattr(np, name)
    with np.errstate(all="ignore"):
        for other in (y, np.float32(0.7), np.float32(-0.7)):
            expected, found = numpys(x, other), ours(x, other)
            assert found.dtype == np.float32
            np.testing.assert_allclose(found, expected, rtol=2e-6, atol=2e-7)
            if name == "remainder":
                np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("largest", [False, True])
def test_extremes_of_columns_with_numpy_alone(largest: bool) -> None:
    x = random.normal(size=(300, 20, 30)).astype(np.float32)
    tied, equal, strange = x.copy(), np.round(x), x.copy()
    tied[7] = tied[9] = x.max(0) + 1 if largest else x.min(0) - 1
    tied[9, 3:] = 0
    strange[5, 2, 4] = np.nan
    find = np.argmax if largest else np.argmin
    before = provider.allow(False)
    try:
        for given in (x, tied):
            values, places = extremes.extremes(given, 0, largest)
            np.testing.assert_array_equal(places, find(given, 0))
            np.testing.assert_array_equal(values, np.take_along_axis(given, places[None], 0)[0])
            assert [f.shape for f in extremes.extremes(given[None], 1, largest)] == [(1, 20, 30)] * 2
        assert extremes.extremes(equal, 0, largest) is None  # left to NumPy
        assert extremes.extremes(strange, 0, largest) is None
    finally:
        provider.allow(before)
