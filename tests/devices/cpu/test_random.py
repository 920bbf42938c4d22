"""Streams of random numbers: torch's numbers where torch is installed, and their behaviour anyway."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import adjoint
from adjoint.devices.cpu.random import Stream

try:
    import torch
except ImportError:
    torch = None

BFLOAT16 = ml_dtypes.bfloat16
FLOATS = [np.float16, BFLOAT16, np.float32, np.float64]
INTEGERS = [np.uint8, np.int8, np.int16, np.int32, np.int64]
SIZES = [0, 1, 2, 3, 15, 16, 17, 31, 32, 100, 624, 1000]
SEEDS = [0, 1, 42, -1, 2**40 + 5, 2**64 - 1]

needs_torch = pytest.mark.skipif(torch is None, reason="torch, whose numbers these are, is not installed")


def _torch_uses_mkl() -> bool:
    """Whether torch gives single probabilities to MKL, which it does on Intel CPUs."""
    generator = torch.Generator().manual_seed(0)
    torch.empty(100).bernoulli_(0.5, generator=generator)
    return int.from_bytes(generator.get_state().numpy().tobytes()[16:24], "little") != 200


needs_own_bernoulli = pytest.mark.skipif(
    torch is None or _torch_uses_mkl(), reason="torch is not installed, or leaves these draws to MKL"
)


def torch_type(dtype: Any) -> Any:
    return getattr(torch, np.dtype(dtype).name)


def array(tensor: Any) -> NDArray[Any]:
    """The numbers of a tensor, exactly."""
    if tensor.dtype == torch.bfloat16:
        return tensor.float().numpy().astype(BFLOAT16)
    return tensor.numpy()


def pair(seed: int) -> tuple[Stream, Any]:
    return Stream(seed), torch.Generator().manual_seed(seed)


def assert_equal(ours: NDArray[Any], theirs: Any) -> None:
    expected = array(theirs)
    assert ours.dtype == expected.dtype
    assert ours.flags.c_contiguous
    np.testing.assert_array_equal(ours, expected)


def assert_close(ours: NDArray[Any], theirs: Any, ulps: int = 8) -> None:
    expected = array(theirs)
    assert ours.dtype == expected.dtype
    assert ours.flags.c_contiguous
    tolerance = ulps * float(ml_dtypes.finfo(ours.dtype).eps)
    wide = np.complex128 if ours.dtype.kind == "c" else np.float64
    np.testing.assert_allclose(ours.astype(wide), expected.astype(wide), rtol=tolerance, atol=tolerance)


def assert_same_position(stream: Stream, generator: Any) -> None:
    """Both have used up the same part of the stream, and keep the same spare normal."""
    ours, theirs = stream.state(), generator.get_state().numpy()
    spare = slice(24 + 624 * 8 + 8, 24 + 624 * 8 + 16)
    np.testing.assert_allclose(ours[spare].view(np.float64), theirs[spare].view(np.float64), rtol=1e-14)
    ours[spare] = theirs[spare]
    np.testing.assert_array_equal(ours, theirs)


# --- against torch ----------------------------------------------------------------------------------


@needs_torch
@pytest.mark.parametrize("seed", SEEDS)
def test_seeds(seed: int) -> None:
    stream, generator = pair(seed)
    assert stream.initial_seed == generator.initial_seed()
    assert_same_position(stream, generator)
    assert_equal(stream.uniform((5,), np.float32), torch.rand(5, generator=generator))
    assert_same_position(stream, generator)


@needs_torch
@pytest.mark.parametrize("dtype", [*FLOATS, np.complex64, np.complex128])
@pytest.mark.parametrize("size", [*SIZES, 40000])
def test_rand(dtype: Any, size: int) -> None:
    stream, generator = pair(3)
    assert_equal(stream.uniform((size,), dtype), torch.rand(size, dtype=torch_type(dtype), generator=generator))
    assert_same_position(stream, generator)


@needs_torch
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("bounds", [(-3.3, 5.7), (0.0, 0.1), (-0.25, 0.25), (100.0, 101.0), (1e-3, 1e3), (2, 2)])
def test_uniform(dtype: Any, bounds: tuple[float, float]) -> None:
    stream, generator = pair(11)
    expected = torch.empty(20000, dtype=torch_type(dtype)).uniform_(*bounds, generator=generator)
    ours = stream.uniform((20000,), dtype, *bounds)
    assert_equal(ours, expected)
    assert bounds[0] == bounds[1] or np.all(ours < dtype(bounds[1]))


@needs_torch
@settings(max_examples=150, deadline=None)
@given(
    seed=st.integers(-(2**63), 2**64 - 1),
    low=st.floats(-1e6, 1e6, allow_subnormal=False),
    width=st.floats(0, 1e6, allow_subnormal=False),
    wide=st.booleans(),
)
def test_uniform_of_any_range(seed: int, low: float, width: float, wide: bool) -> None:
    stream, generator = pair(seed)
    dtype = np.float64 if wide else np.float32
    expected = torch.empty(50, dtype=torch_type(dtype)).uniform_(low, low + width, generator=generator)
    assert_equal(stream.uniform((50,), dtype, low, low + width), expected)


@needs_torch
@pytest.mark.parametrize("low", [3e-307, -4e-305, 1e-290, 2.5e-308])
def test_uniform_of_the_smallest_numbers(low: float) -> None:
    for seed in SEEDS:
        stream, generator = pair(seed)
        high = low + 2.7 * abs(low)
        expected = torch.empty(5000, dtype=torch.float64).uniform_(low, high, generator=generator)
        assert_equal(stream.uniform((5000,), np.float64, low, high), expected)


@needs_torch
@pytest.mark.parametrize("dtype", [*FLOATS, np.complex64, np.complex128])
@pytest.mark.parametrize("size", [*SIZES, 40001])
def test_randn(dtype: Any, size: int) -> None:
    for seed in SEEDS:
        stream, generator = pair(seed)
        for _ in range(2):
            expected = torch.randn(size, dtype=torch_type(dtype), generator=generator)
            assert_close(stream.normal((size,), dtype), expected)
            assert_same_position(stream, generator)
        if size > 1000:
            break


@needs_torch
def test_few_doubles_are_the_same_normals() -> None:
    stream, generator = pair(8)
    for size in (3, 1, 15, 2, 7):
        expected = torch.randn(size, dtype=torch.float64, generator=generator)
        np.testing.assert_allclose(stream.normal((size,), np.float64), expected.numpy(), rtol=1e-15)


@needs_torch
@pytest.mark.parametrize("dtype", [*FLOATS, np.complex64, np.complex128])
@pytest.mark.parametrize("size", [3, 64, 65])
def test_normal(dtype: Any, size: int) -> None:
    stream, generator = pair(5)
    expected = torch.empty(size, dtype=torch_type(dtype)).normal_(1.7, 2.3, generator=generator)
    assert_close(stream.normal((size,), dtype, 1.7, 2.3), expected)


@needs_torch
@pytest.mark.parametrize("shape", [(), (3, 4), (2, 3, 5), (0, 3)])
def test_shapes(shape: tuple[int, ...]) -> None:
    stream, generator = pair(0)
    assert_close(stream.normal(shape, np.float32), torch.randn(shape, generator=generator))
    assert_equal(stream.uniform(shape, np.float32), torch.rand(shape, generator=generator))
    assert_equal(stream.integers(shape, np.int64, -3, 9), torch.randint(-3, 9, shape, generator=generator))
    assert_same_position(stream, generator)


SPANS = [(0, 2), (3, 100), (-20, 100), (0, 2**28 - 1), (0, 2**28), (0, 2**32), (-(2**63), 2**63 - 1), (5, 6)]


@needs_torch
@pytest.mark.parametrize("bounds", SPANS)
@pytest.mark.parametrize("dtype", [np.bool_, *INTEGERS, np.uint16, np.uint32, *FLOATS])
@pytest.mark.filterwarnings("ignore:.*Due to precision:UserWarning")
def test_randint(dtype: Any, bounds: tuple[int, int]) -> None:
    if dtype in FLOATS and bounds[1] > 2**62:
        pytest.skip("torch overflows when it rounds these bounds")
    stream, generator = pair(9)
    try:
        expected = torch.randint(*bounds, (300,), dtype=torch_type(dtype), generator=generator)
    except RuntimeError:
        with pytest.raises(RuntimeError):
            stream.integers((300,), dtype, *bounds)
    else:
        assert_equal(stream.integers((300,), dtype, *bounds), expected)
        assert_same_position(stream, generator)


@needs_torch
@settings(max_examples=150, deadline=None)
@given(low=st.integers(-70000, 70000), span=st.integers(1, 30000), half=st.booleans())
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_randint_of_halves_stays_in_range(low: int, span: int, half: bool) -> None:
    dtype = np.float16 if half else BFLOAT16
    stream, generator = pair(9)
    try:
        expected = torch.randint(low, low + span, (50,), dtype=torch_type(dtype), generator=generator)
    except RuntimeError:
        with pytest.raises(RuntimeError):
            stream.integers((50,), dtype, low, low + span)
    else:
        assert_equal(stream.integers((50,), dtype, low, low + span), expected)


@needs_torch
@pytest.mark.parametrize("dtype", [np.bool_, *INTEGERS, *FLOATS])
def test_random(dtype: Any) -> None:
    stream, generator = pair(9)
    empty = torch.empty(300, dtype=torch_type(dtype))
    assert_equal(stream.random((300,), dtype), empty.random_(generator=generator))
    assert_equal(stream.random((300,), dtype, high=2), empty.random_(2, generator=generator))
    assert_equal(stream.random((300,), dtype, low=0), empty.random_(0, None, generator=generator))
    assert_equal(stream.random((300,), dtype, low=1), empty.random_(1, None, generator=generator))
    assert_same_position(stream, generator)


@needs_torch
def test_random_of_all_64_bits() -> None:
    stream, generator = pair(9)
    for low in (-(2**63), -(2**63) + 1):
        expected = torch.empty(300, dtype=torch.int64).random_(low, None, generator=generator)
        assert_equal(stream.random((300,), np.int64, low=low), expected)


@needs_own_bernoulli
@pytest.mark.parametrize("dtype", [np.bool_, *INTEGERS, *FLOATS])
@pytest.mark.parametrize("p", [0.0, 0.3, 0.5, 1.0])
def test_bernoulli_of_a_number(dtype: Any, p: float) -> None:
    stream, generator = pair(9)
    for size in (0, 7, 500, 20000):
        expected = torch.empty(size, dtype=torch_type(dtype)).bernoulli_(p, generator=generator)
        assert_equal(stream.bernoulli(p, (size,), dtype), expected)
    assert_same_position(stream, generator)


@needs_torch
@pytest.mark.parametrize("dtype", FLOATS)
def test_bernoulli_of_an_array(dtype: Any) -> None:
    stream, generator = pair(9)
    p = np.linspace(0, 1, 600).astype(dtype)
    tensor = torch.linspace(0, 1, 600, dtype=torch.float64).to(torch_type(dtype))
    assert_equal(stream.bernoulli(p, (600,), dtype), torch.bernoulli(tensor, generator=generator))
    expected = torch.empty(4, 600).bernoulli_(tensor, generator=generator)
    assert_equal(stream.bernoulli(p, (4, 600), np.float32), expected)
    assert_same_position(stream, generator)


@needs_torch
@pytest.mark.parametrize("n", [0, 1, 2, 3, 10, 255, 1000, 60000])
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float64])
def test_randperm(n: int, dtype: Any) -> None:
    for seed in (0, 9, 123):
        stream, generator = pair(seed)
        expected = torch.randperm(n, dtype=torch_type(dtype), generator=generator)
        assert_equal(stream.permutation(n, dtype), expected)
        assert_same_position(stream, generator)


@needs_own_bernoulli
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [1, 5, 200, 20000])
def test_exponential(dtype: Any, size: int) -> None:
    stream, generator = pair(9)
    expected = torch.empty(size, dtype=torch_type(dtype)).exponential_(2.5, generator=generator)
    assert_close(stream.exponential((size,), dtype, 2.5), expected, ulps=4)
    assert_same_position(stream, generator)


@needs_torch
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [1, 5, 200, 20000])
def test_cauchy_and_log_normal(dtype: Any, size: int) -> None:
    stream, generator = pair(9)
    empty = torch.empty(size, dtype=torch_type(dtype))
    # The tangent near its poles magnifies the last bit of the angle.
    assert_close(stream.cauchy((size,), dtype, 1.5, 2.0), empty.cauchy_(1.5, 2.0, generator=generator), ulps=100)
    for _ in range(2):
        expected = empty.log_normal_(0.5, 0.7, generator=generator)
        assert_close(stream.log_normal((size,), dtype, 0.5, 0.7), expected)
    assert_same_position(stream, generator)


@needs_torch
@pytest.mark.parametrize("dtype", [*INTEGERS, *FLOATS])
@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_geometric(dtype: Any, p: float) -> None:
    stream, generator = pair(9)
    expected = torch.empty(2000, dtype=torch_type(dtype)).geometric_(p, generator=generator)
    assert_equal(stream.geometric((2000,), dtype, p), expected)
    assert_same_position(stream, generator)


@needs_torch
@pytest.mark.parametrize("dtype", FLOATS)
def test_poisson(dtype: Any) -> None:
    stream, generator = pair(9)
    rates = np.array([[0.0, 0.01, 0.5, 3.0, 9.9, 10.0], [10.1, 12.0, 30.0, 100.0, 1000.0, 20000.0]] * 80)
    tensor = torch.from_numpy(rates).to(torch_type(dtype))
    assert_equal(stream.poisson(rates.astype(dtype)), torch.poisson(tensor, generator=generator))
    assert_same_position(stream, generator)


@needs_torch
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(7,), (3, 7), (1, 1000)])
def test_multinomial_with_replacement(dtype: Any, shape: tuple[int, ...]) -> None:
    stream, generator = pair(9)
    weights = Stream(1).uniform(shape, np.float64) ** 3
    weights[..., 2] = 0
    tensor = torch.from_numpy(weights).to(torch_type(dtype))
    expected = torch.multinomial(tensor, 500, True, generator=generator)
    assert_equal(stream.multinomial(weights.astype(np.float32).astype(dtype), 500, True), expected)
    assert_same_position(stream, generator)


@needs_own_bernoulli
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shape", [(7,), (3, 7), (200,)])
@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial_by_clocks(dtype: Any, shape: tuple[int, ...], replacement: bool) -> None:
    weights = Stream(1).uniform(shape, dtype)
    for num_samples in (1,) if replacement else (1, 4, 7):
        stream, generator = pair(9)
        expected = torch.multinomial(torch.from_numpy(weights), num_samples, replacement, generator=generator)
        assert_equal(stream.multinomial(weights, num_samples, replacement), expected)
        assert_same_position(stream, generator)


DRAWS: dict[str, tuple[Callable[[Stream], Any], Callable[[Any], Any]]] = {
    "rand": (lambda s: s.uniform((7,), np.float32), lambda g: torch.rand(7, generator=g)),
    "rand double": (
        lambda s: s.uniform((301,), np.float64),
        lambda g: torch.rand(301, dtype=torch.float64, generator=g),
    ),
    "randn few": (lambda s: s.normal((3,), np.float32), lambda g: torch.randn(3, generator=g)),
    "randn none": (lambda s: s.normal((0,), np.float32), lambda g: torch.randn(0, generator=g)),
    "randn many": (lambda s: s.normal((3, 11), np.float32), lambda g: torch.randn(3, 11, generator=g)),
    "randn half": (
        lambda s: s.normal((21,), np.float16),
        lambda g: torch.randn(21, dtype=torch.float16, generator=g),
    ),
    "log_normal": (
        lambda s: s.log_normal((20,), np.float64),
        lambda g: torch.empty(20, dtype=torch.float64).log_normal_(generator=g),
    ),
    "randint": (lambda s: s.integers((5,), np.int64, 0, 9), lambda g: torch.randint(9, (5,), generator=g)),
    "randperm": (lambda s: s.permutation(13), lambda g: torch.randperm(13, generator=g)),
    "poisson": (
        lambda s: s.poisson(np.full(9, 4.0)),
        lambda g: torch.poisson(torch.full((9,), 4.0), generator=g),
    ),
}


@needs_torch
@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), names=st.lists(st.sampled_from(sorted(DRAWS)), min_size=1, max_size=12))
def test_sequences(seed: int, names: list[str]) -> None:
    stream, generator = pair(seed)
    for name in names:
        ours, theirs = DRAWS[name]
        np.testing.assert_allclose(ours(stream), array(theirs(generator)), rtol=3e-3, atol=1e-3, err_msg=name)
    assert_same_position(stream, generator)


@needs_torch
@pytest.mark.parametrize("draws", [0, 1, 5, 623, 624, 625, 2000])
def test_states_are_exchanged_with_torch(draws: int) -> None:
    stream, generator = pair(77)
    stream.normal((3,), np.float64), torch.randn(3, dtype=torch.float64, generator=generator)
    torch.rand(draws, generator=generator)
    stream.set_state(generator.get_state().numpy())
    assert_same_position(stream, generator)
    assert_close(stream.normal((3,), np.float32), torch.randn(3, generator=generator))
    other = torch.Generator()
    other.set_state(torch.from_numpy(stream.state()))
    assert other.initial_seed() == 77
    assert_equal(stream.uniform((5,), np.float32), torch.rand(5, generator=other))


# --- without torch ----------------------------------------------------------------------------------


def test_known_numbers() -> None:
    """What torch prints for seed 0, in case torch is not there to say so."""
    stream = Stream(0)
    np.testing.assert_allclose(stream.normal((3,), np.float32), [1.5410, -0.2934, -2.1788], atol=5e-5)
    np.testing.assert_allclose(Stream(0).uniform((3,), np.float32), [0.4963, 0.7682, 0.0885], atol=5e-5)
    np.testing.assert_array_equal(Stream(0).integers((5,), np.int64, 0, 10), [4, 9, 3, 0, 3])
    np.testing.assert_array_equal(Stream(0).permutation(5), [4, 0, 1, 3, 2])


def test_same_seed_same_numbers() -> None:
    stream = Stream(5)
    first = stream.normal((3,), np.float32)
    stream.seed(5)
    np.testing.assert_array_equal(stream.normal((3,), np.float32), first)
    assert not np.array_equal(Stream(6).normal((3,), np.float32), first)


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1])
def test_seed_out_of_range(seed: int) -> None:
    with pytest.raises(ValueError, match="Overflow when unpacking long long: a seed must be in"):
        Stream(seed)


@pytest.mark.parametrize("draws", [0, 1, 624, 1000])
def test_state_round_trip_keeps_the_spare_normal(draws: int) -> None:
    stream = Stream(1)
    stream.uniform((draws,), np.float32)
    stream.normal((1,), np.float32)
    state = stream.state()
    assert state.dtype == np.uint8 and state.shape == (5056,)
    expected = stream.normal((40,), np.float64), stream.normal((3,), np.float64)
    stream.set_state(state)
    np.testing.assert_array_equal(stream.state(), state)
    np.testing.assert_array_equal(stream.normal((40,), np.float64), expected[0])
    np.testing.assert_array_equal(stream.normal((3,), np.float64), expected[1])


@pytest.mark.parametrize(
    "state", [np.zeros(10, np.uint8), np.zeros(5056, np.float32), np.zeros(5056, np.uint8)], ids=str
)
def test_bad_states_are_refused(state: NDArray[Any]) -> None:
    with pytest.raises(RuntimeError, match=r"generator state|Expected a CPUGeneratorImplState of size 5056"):
        Stream(0).set_state(state)


def test_copies_are_independent() -> None:
    stream = Stream(2**63 + 1)
    stream.normal((3,), np.float32)
    twin = stream.copy()
    assert twin.initial_seed == stream.initial_seed
    expected = stream.normal((3,), np.float32)
    stream.uniform((100,), np.float32)
    np.testing.assert_array_equal(twin.normal((3,), np.float32), expected)


def test_pieces_make_the_whole() -> None:
    """Large draws go chunk by chunk; that must not show."""
    whole, parts = Stream(4), Stream(4)
    expected = whole.uniform((50001,), np.float64, -1.0, 3.0)
    pieces = [parts.uniform((size,), np.float64, -1.0, 3.0) for size in (1, 20000, 30000)]
    np.testing.assert_array_equal(np.concatenate(pieces), expected)


def test_log_normals_are_serial() -> None:
    whole, parts = Stream(4), Stream(4)
    expected = whole.log_normal((101,), np.float64)
    pieces = [parts.log_normal((size,), np.float64) for size in (3, 1, 0, 40, 17, 2, 38)]
    np.testing.assert_allclose(np.concatenate(pieces), expected, rtol=1e-13)


@pytest.mark.parametrize("dtype", FLOATS)
def test_moments(dtype: Any) -> None:
    stream, size = Stream(0), 100_000
    error = 6 / math.sqrt(size) + float(ml_dtypes.finfo(dtype).eps)

    def moments(values: NDArray[Any]) -> tuple[float, float]:
        wide = values.astype(np.float64)
        return wide.mean(), wide.std()

    assert moments(stream.normal((size,), dtype)) == pytest.approx((0, 1), abs=error)
    assert moments(stream.normal((size,), dtype, 3, 0.5)) == pytest.approx((3, 0.5), abs=2 * error)
    assert moments(stream.uniform((size,), dtype)) == pytest.approx((0.5, 12**-0.5), abs=error)
    assert moments(stream.exponential((size,), dtype, 2.0)) == pytest.approx((0.5, 0.5), abs=error)
    assert moments(np.log(stream.log_normal((size,), dtype, 1, 2))) == pytest.approx((1, 2), abs=4 * error)
    assert np.median(stream.cauchy((size,), np.float64, 2, 1)) == pytest.approx(2, abs=2 * error)


def test_moments_of_counts() -> None:
    stream, size = Stream(0), 20_000
    for rate in (0.5, 4.0, 10.0, 250.0):
        counts = stream.poisson(np.full(size, rate))
        assert counts.mean() == pytest.approx(rate, abs=6 * math.sqrt(rate / size))
        assert counts.var() == pytest.approx(rate, rel=0.15)
    assert stream.geometric((size,), np.int64, 0.25).mean() == pytest.approx(4, abs=0.2)
    assert stream.bernoulli(0.3, (size,), np.bool_).mean() == pytest.approx(0.3, abs=0.02)
    frequencies = np.bincount(stream.multinomial(np.array([1.0, 0.0, 3.0]), size, True)) / size
    assert frequencies == pytest.approx([0.25, 0, 0.75], abs=0.02)
    singles = stream.multinomial(np.broadcast_to(np.array([1.0, 3.0]), (size, 2)).copy(), 1)
    assert singles.mean() == pytest.approx(0.75, abs=0.02)


@pytest.mark.parametrize("dtype", [np.uint16, np.uint32, np.uint64])
def test_random_fills_unsigned_types(dtype: Any) -> None:
    values = Stream(0).random((4000,), dtype) / float(np.iinfo(dtype).max)
    assert values.mean() == pytest.approx(0.5, abs=0.03)
    assert values.min() < 0.01 and values.max() > 0.99


def test_complex_normals_have_unit_variance() -> None:
    values = Stream(0).normal((100, 500), np.complex64)
    assert values.shape == (100, 500)
    assert np.mean(np.abs(values) ** 2) == pytest.approx(1, abs=0.03)
    assert np.mean(values.real * values.imag) == pytest.approx(0, abs=0.02)


@settings(max_examples=60, deadline=None)
@given(n=st.integers(2, 400), seed=st.integers(0, 1000))
def test_permutation_is_fisher_yates(n: int, seed: int) -> None:
    expected = list(range(n))
    for step, word in enumerate(Stream(seed)._words(n - 1).tolist()):
        choice = step + word % (n - step)
        expected[step], expected[choice] = expected[choice], expected[step]
    assert Stream(seed).permutation(n).tolist() == expected


def test_permutations_are_equally_likely() -> None:
    stream = Stream(0)
    seen = [tuple(stream.permutation(3).tolist()) for _ in range(3000)]
    assert all(abs(seen.count(each) - 500) < 120 for each in set(seen)) and len(set(seen)) == 6


def test_multinomial_without_replacement_does_not_repeat() -> None:
    weights = np.arange(1.0, 21.0).reshape(2, 10)
    indices = Stream(0).multinomial(weights, 10)
    np.testing.assert_array_equal(np.sort(indices), [np.arange(10)] * 2)


REFUSED: dict[str, Callable[[Stream], Any]] = {
    "uniform_ expects to return": lambda s: s.uniform((2,), np.float32, 1.0, 0.0),
    "uniform_ expects to - from": lambda s: s.uniform((2,), np.float32, -3e38, 3e38),
    "uniform is a continuous": lambda s: s.uniform((2,), np.int64),
    "normal expects std": lambda s: s.normal((2,), np.float32, 0.0, -1.0),
    "normal is a continuous": lambda s: s.normal((2,), np.int64),
    "log_normal_ expects std": lambda s: s.log_normal((2,), np.float32, 0.0, 0.0),
    "exponential_ expects lambda": lambda s: s.exponential((2,), np.float32, 0.0),
    "cauchy_ expects sigma": lambda s: s.cauchy((2,), np.float32, 0.0, 0.0),
    "geometric_ expects p": lambda s: s.geometric((2,), np.float32, 1.0),
    "'from' to be less than 'to'": lambda s: s.integers((2,), np.int64, 5, 5),
    "from is out of bounds": lambda s: s.integers((2,), np.uint8, -1, 3),
    "to - 1 is out of bounds": lambda s: s.integers((2,), np.uint8, 0, 257),
    "finds no float16 number": lambda s: s.integers((2,), np.float16, 5001, 5002),
    "need an integral": lambda s: s.integers((2,), np.complex64, 0, 2),
    "bernoulli expects p": lambda s: s.bernoulli(1.5, (2,), np.float32),
    "p=.*nan": lambda s: s.bernoulli(np.array([np.nan]), (1,), np.float32),
    "invalid Poisson rate": lambda s: s.poisson(np.array([-1.0])),
    "n must be non-negative": lambda s: s.permutation(-1),
    "n cannot be greater than 2049": lambda s: s.permutation(3000, np.float16),
    "multinomial only supports": lambda s: s.multinomial(np.array([1, 2]), 1),
    "1 or 2 dim": lambda s: s.multinomial(np.ones((2, 2, 2)), 1),
    "n_sample <= 0": lambda s: s.multinomial(np.ones(2), 0),
    "without replacement": lambda s: s.multinomial(np.ones(2), 3),
    "element < 0": lambda s: s.multinomial(np.array([-1.0, 2.0]), 1),
    "sum of probabilities": lambda s: s.multinomial(np.zeros(2), 1),
}


@needs_torch
@pytest.mark.parametrize("fill", ["normal_", "uniform_", "exponential_"])
def test_fills_follow_the_memory(fill: str) -> None:
    """A tensor that lies otherwise than its shape says is filled in the order of its memory."""
    made = []
    for library in (torch, adjoint):
        library.manual_seed(3)
        x = library.zeros(3, 4, 5).permute(2, 0, 1)
        y = library.zeros(5, 14)[:, ::2]
        made.append([np.asarray(getattr(t, fill)().tolist()) for t in (x, y)] + [library.randn_like(x).tolist()])
    for ours, theirs in zip(made[1], made[0], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.parametrize("message", REFUSED)
def test_refused(message: str) -> None:
    stream = Stream(0)
    before = stream.state()
    with pytest.raises(RuntimeError, match=message):
        REFUSED[message](stream)
    np.testing.assert_array_equal(stream.state(), before)


def test_threads_share_a_stream() -> None:
    """Whole draws interleave; none is torn or given out twice."""
    stream, size, draws = Stream(0), 50, 40
    results: list[NDArray[Any]] = []

    def work() -> None:
        for _ in range(draws):
            results.append(stream.uniform((size,), np.float64))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    expected = Stream(0).uniform((4 * draws, size), np.float64)
    assert sorted(map(tuple, results)) == sorted(map(tuple, expected))
