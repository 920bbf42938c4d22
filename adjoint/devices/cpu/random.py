"""Random numbers that follow torch's CPU stream.

A `Stream` seeded like a torch generator yields the numbers torch yields, and uses up as much of the
stream doing so, so that all later samples agree as well. What was found by experiment against torch 2.13:

Equal bit for bit
    `uniform`, `integers`, `random`, `bernoulli`, `permutation`, `multinomial`, `poisson`, `geometric`,
    `binomial`, and the state itself: `Stream.state` and `torch.get_rng_state` are interchangeable.
Equal to the last bits of the floating type
    `normal`, `exponential`, `cauchy`, `log_normal`, `gamma`, `dirichlet`. The stream is the same; the
    logarithm, sine and tangent come from NumPy instead of torch's vector library. `multinomial` without
    replacement ranks such values, so that a tie within a rounding error may fall the other way; `geometric`
    and `poisson` round them to integers, with as small a risk.

Different from torch
    - On Intel CPUs torch hands `exponential` and `bernoulli` with a single probability to MKL, which has
      a generator of its own. Here they follow what torch does everywhere else.
    - Torch scales uniform samples with a fused multiply-add; a torch built without one rounds differently.
    - Permutations of 214,748,364 elements and more are made differently by torch.
    - Torch fills tensors that are not contiguous with the serial sampler that it otherwise uses for
      fewer than 16 normals; here the number of elements alone decides, as results are contiguous.
    - Torch refuses `random` without bounds for unsigned types wider than 8 bits; here it works.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import forks
from .rounding import (
    BLOCK,
    DIGITS,
    FLOAT32,
    FLOAT64,
    HALVES,
    REAL_OF_COMPLEX,
    Values,
    affine,
    box_muller_blocks,
    cast,
    check_range,
    check_weights,
    integer_limits,
    representable_bounds,
    require_floating,
    shuffled,
    stirling_tail,
    work_type,
)
from .sizes import RANDOM_BLOCK, SMALL_RANDOM

Words: TypeAlias = NDArray[np.uint64]

_MASKS, _STEP = [np.array(0xFFFFFF, kind) for kind in (np.uint64, np.int32)], np.array(2.0**-24, np.float32)

# From this width on torch takes the remainder of 64 bits instead of 32, so that its bias is small.
_WIDE_SPAN = 1 << 28

# Torch writes the third of the gamma sampler in single precision.
_THIRD = float(np.float32(1.0 / 3.0))

# The memory of torch's generator. The two floats at the end are a cache that no torch kernel fills.
_STATE = np.dtype(
    [
        ("initial_seed", "<u8"),
        ("left", "<i4"),
        ("seeded", "<i4"),
        ("next", "<u8"),
        ("key", "<u8", 624),
        ("normal_x", "<f8"),
        ("spare", "<f8"),
        ("normal_rho", "<f8"),
        ("has_spare", "<i4"),
        ("padding", "<i4"),
        ("float_spare", "<f4"),
        ("has_float_spare", "?"),
    ],
    align=True,
)
_KEY_LENGTH = 624


class Stream:
    """A stream of random numbers, equal to that of a torch CPU generator with the same seed.

    Every call holds a lock, so that threads may share a stream; each call is then atomic, but the order of
    the threads is not defined. Results are fresh, C-contiguous arrays.

    Parameters
    ----------
    seed
        From ``-2**63`` to ``2**64 - 1``; a negative seed stands for ``2**64 + seed``. Only the low 32
        bits matter to the numbers drawn.

    Examples
    --------
    >>> stream = Stream(0)
    >>> stream.integers((4,), np.int64, 0, 10)
    array([4, 9, 3, 0])
    >>> stream.uniform((2,), np.float32)
    array([0.30742282, 0.6340787 ], dtype=float32)
    """

    __slots__ = ("_bits", "_lock", "_seed", "_spare")

    def __init__(self, seed: int) -> None:
        self._bits = np.random.MT19937(0)
        self._lock = forks.lock()
        forks.adopt(self._bits.lock)  # NumPy's own, held while it generates numbers
        self.seed(seed)

    # --- the state ----------------------------------------------------------------------------------

    def seed(self, seed: int) -> None:
        """Start over from `seed`."""
        if not -(2**63) <= seed < 2**64:
            raise ValueError(f"Overflow when unpacking long long: a seed must be in [-2**63, 2**64), but got {seed}")
        with self._lock:
            self._seed = seed % 2**64
            self._spare: float | None = None
            # The legacy seeding of NumPy is the reference initialisation of mt19937, as in torch.
            np.random.RandomState(self._bits).seed(self._seed & 0xFFFFFFFF)

    @property
    def initial_seed(self) -> int:
        """The seed last set, as an unsigned 64-bit number."""
        return self._seed

    def state(self) -> NDArray[np.uint8]:
        """The whole state of the stream, in the 5056 bytes of `torch.get_rng_state`."""
        record = np.zeros((), _STATE)
        with self._lock:
            twister: Any = self._bits.state["state"]
            key, position = twister["key"], twister["pos"]
            # Before the first sample torch points at 0 instead of past the end, and the key is the seed's.
            unused = position == _KEY_LENGTH and key[0] == self._seed & 0xFFFFFFFF
            record["initial_seed"], record["seeded"] = self._seed, 1
            record["left"], record["next"] = _KEY_LENGTH + 1 - position, 0 if unused else position
            record["key"] = key
            record["spare"], record["has_spare"] = self._spare or 0.0, self._spare is not None
        return np.frombuffer(bytearray(record.tobytes()), np.uint8)

    def set_state(self, state: NDArray[np.uint8]) -> None:
        """Continue from a `state` taken here, or by `torch.get_rng_state`."""
        if state.dtype != np.uint8 or state.size != _STATE.itemsize:
            raise RuntimeError(
                f"Expected a CPUGeneratorImplState of size {_STATE.itemsize} but found the input RNG state size to be "
                f"{state.size}, of {state.dtype}"
            )
        record = np.frombuffer(state.tobytes(), _STATE)[0]
        left = int(record["left"])
        if not 1 <= left <= _KEY_LENGTH or record["seeded"] != 1:
            raise RuntimeError(
                f"these bytes are not a generator state: {left} numbers left of {_KEY_LENGTH}; "
                "pass what state() or torch.get_rng_state() returned"
            )
        twister: Any = {"key": record["key"].astype(np.uint32), "pos": _KEY_LENGTH + 1 - left}
        with self._lock:
            self._seed = int(record["initial_seed"])
            self._spare = float(record["spare"]) if record["has_spare"] else None
            self._bits.state = {"bit_generator": "MT19937", "state": twister}

    def copy(self) -> Stream:
        """Return a stream that will return the same numbers, independently."""
        twin = Stream(0)
        twin.set_state(self.state())
        return twin

    # --- continuous distributions -------------------------------------------------------------------

    def uniform(self, shape: Sequence[int], dtype: DTypeLike, low: float = 0.0, high: float = 1.0) -> Values:
        """Sample uniformly from [low, high), as `torch.rand` and `Tensor.uniform_` do."""
        if dtype is FLOAT32 and low == 0.0 and high == 1.0 and (size := math.prod(shape)) <= RANDOM_BLOCK:
            with self._lock:
                return self._floats(size).reshape(shape)
        dtype = np.dtype(dtype)
        if dtype in REAL_OF_COMPLEX:
            parts = self.uniform((*shape, 2), REAL_OF_COMPLEX[dtype], low, high)
            return parts.view(dtype).reshape(shape)
        require_floating("uniform", dtype)
        check_range(low, high, dtype)
        work = work_type(dtype)
        start, stop = work.type(low), work.type(high)

        def sample(size: int) -> Values:
            values = cast(affine(self._units(size, work), stop - start, start), dtype)
            # Rounding may reach `high`, which the range excludes; torch returns `low` then.
            values[values == dtype.type(stop)] = dtype.type(start)
            return values

        plain = low == 0.0 and high == 1.0 and dtype is work
        return self._draw(shape, dtype, (lambda size: self._units(size, work)) if plain else sample)

    def normal(self, shape: Sequence[int], dtype: DTypeLike, mean: float = 0.0, std: float = 1.0) -> Values:
        """Sample from a normal distribution, as `torch.randn` and `Tensor.normal_` do.

        For complex types `std` is that of the modulus: each part has ``std / sqrt(2)``. As in torch,
        `mean` is then the mean of both parts.
        """
        if dtype is FLOAT32 and std >= 0.0 and BLOCK <= (size := math.prod(shape)) <= RANDOM_BLOCK and not size % BLOCK:
            with self._lock:
                uniform = self._floats(size)
            return affine(box_muller_blocks(uniform), std, mean).reshape(shape)
        dtype = np.dtype(dtype)
        if dtype in REAL_OF_COMPLEX:
            parts = self.normal((*shape, 2), REAL_OF_COMPLEX[dtype], mean, std / math.sqrt(2.0))
            return parts.view(dtype).reshape(shape)
        require_floating("normal", dtype)
        if not std >= 0.0:
            raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")
        size = math.prod(shape)
        with self._lock:
            if size < BLOCK:
                values: Values = affine(self._few_normals(size), std, mean)
            else:
                values = self._block_normals(size, dtype, mean, std)
        return cast(values, dtype).reshape(shape)

    def normal_singly(self, shape: Sequence[int], dtype: DTypeLike, mean: float = 0.0, std: float = 1.0) -> Values:
        """Sample from a normal distribution, as torch does for a tensor that is not contiguous: not by blocks."""
        dtype = np.dtype(dtype)
        if dtype in REAL_OF_COMPLEX:
            parts = self.normal_singly((*shape, 2), REAL_OF_COMPLEX[dtype], mean, std / math.sqrt(2.0))
            return parts.view(dtype).reshape(shape)
        return self._draw(shape, dtype, lambda size: affine(self._many_normals(size), std, mean))

    def log_normal(self, shape: Sequence[int], dtype: DTypeLike, mean: float = 1.0, std: float = 2.0) -> Values:
        """Sample numbers whose logarithm is normal, as `Tensor.log_normal_` does."""
        dtype = np.dtype(dtype)
        require_floating("log_normal", dtype)
        if not std > 0.0:
            raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
        with np.errstate(over="ignore"):
            return self._draw(shape, dtype, lambda size: np.exp(affine(self._many_normals(size), std, mean)))

    def exponential(self, shape: Sequence[int], dtype: DTypeLike, lambd: float = 1.0) -> Values:
        """Sample waiting times of rate `lambd`, as `Tensor.exponential_` does."""
        require_floating("exponential", np.dtype(dtype))
        if not lambd > 0.0:
            raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
        return self._draw(shape, dtype, lambda size: np.log1p(-self._doubles(size)) * (-1.0 / lambd))

    def cauchy(self, shape: Sequence[int], dtype: DTypeLike, median: float = 0.0, sigma: float = 1.0) -> Values:
        """Sample from a Cauchy distribution, as `Tensor.cauchy_` does."""
        require_floating("cauchy", np.dtype(dtype))
        if not sigma > 0.0:
            raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")

        def sample(size: int) -> Values:
            return affine(np.tan(math.pi * (self._doubles(size) - 0.5)), sigma, median)

        with np.errstate(over="ignore"):
            return self._draw(shape, dtype, sample)

    # --- discrete distributions ---------------------------------------------------------------------

    def integers(self, shape: Sequence[int], dtype: DTypeLike, low: int, high: int) -> Values:
        """Sample integers from [low, high), as `torch.randint` does; `dtype` may be floating."""
        dtype = np.dtype(dtype)
        if not low < high:
            raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
        least, most = integer_limits(dtype)
        if not least <= low <= most:
            raise RuntimeError(f"from is out of bounds for {dtype}: {low} is not in [{least}, {most}]")
        if high - 1 > most:
            raise RuntimeError(f"to - 1 is out of bounds for {dtype}: {high - 1} is not in [{least}, {most}]")
        if dtype in DIGITS:
            low, high = representable_bounds(low, high, dtype)
        span = high - low
        return self._draw(shape, dtype, lambda size: self._remainders(size, span, low, span >= _WIDE_SPAN))

    def random(self, shape: Sequence[int], dtype: DTypeLike, low: int | None = None, high: int | None = None) -> Values:
        """Sample integers from as wide a range as the bounds leave open, as `Tensor.random_` does.

        Without bounds, the range is that of the non-negative integers that `dtype` holds exactly. With
        `high` alone it is [0, high); with `low` alone it reaches to the greatest such integer.
        """
        dtype = np.dtype(dtype)
        if high is not None:
            return self.integers(shape, dtype, low or 0, high)
        end = 2 ** DIGITS[dtype] + 1 if dtype in DIGITS else integer_limits(dtype)[1] + 1
        if low is not None:
            return self.integers(shape, dtype, low, end)
        wide = dtype.itemsize == 8 or end >= 2**32
        return self._draw(shape, dtype, lambda size: self._remainders(size, end, 0, wide))

    def bernoulli(self, p: Values | float, shape: Sequence[int], dtype: DTypeLike) -> Values:
        """Return ones with probability `p` and zeros otherwise, as `torch.bernoulli` does.

        A scalar `p` is compared with uniform samples in double precision, an array `p` (broadcast to `shape`)
        with samples in its own, as in torch.
        """
        if not self.probable(p):
            raise RuntimeError(f"bernoulli expects p to be in [0, 1], but got p={p}")
        if not isinstance(p, np.ndarray):
            return self._draw(shape, dtype, lambda size: self._doubles(size) < p)
        work = work_type(p.dtype)
        with self._lock:
            draws = self._units(math.prod(shape), work).reshape(shape)
        return (draws < p.astype(work)).astype(dtype)

    def geometric(self, shape: Sequence[int], dtype: DTypeLike, p: float) -> Values:
        """Sample the number of trials up to the first success, as `Tensor.geometric_` does."""
        if not 0.0 < p < 1.0:
            raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
        failure = math.log1p(-p)
        return self._draw(shape, dtype, lambda size: np.ceil(np.log(self._doubles(size)) / failure))

    def poisson(self, rates: Values) -> Values:
        """Sample counts of the given `rates`, as `torch.poisson` does.

        How much of the stream a count takes depends on the samples, so the counts are made one by one,
        a microsecond or more each.
        """
        if not np.all(rates >= 0):
            raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
        with self._lock:
            counts = [self._poisson(rate) for rate in rates.astype(np.float64).ravel().tolist()]
        return cast(np.array(counts, np.float64), rates.dtype).reshape(rates.shape)

    def gamma(self, concentration: Values) -> Values:
        """Sample from gamma distributions of rate 1, as `torch._standard_gamma` does; one by one, as `poisson`."""
        least = float(np.finfo(work_type(concentration.dtype)).tiny)
        with self._lock:
            draws = [max(self._gamma(a), least) for a in concentration.astype(np.float64).ravel().tolist()]
        return cast(np.array(draws, np.float64), concentration.dtype).reshape(concentration.shape)

    def dirichlet(self, concentration: Values) -> Values:
        """Sample points of the simplex, as `torch._sample_dirichlet` does: gamma samples over their sum."""
        with self._lock:
            draws = [self._gamma(a) for a in concentration.astype(np.float64).ravel().tolist()]
        gammas = np.array(draws, np.float64).reshape(concentration.shape)
        limits = np.finfo(work_type(concentration.dtype))
        points = np.clip(gammas / gammas.sum(axis=-1, keepdims=True), limits.tiny, 1.0 - float(limits.epsneg))
        return cast(points, concentration.dtype)

    def binomial(self, count: Values, chance: Values) -> Values:
        """Sample the number of successes in `count` trials, as `torch.binomial` does; one by one, as `poisson`."""
        count, chance = np.broadcast_arrays(count, chance)
        pairs = zip(count.astype(np.float64).ravel().tolist(), chance.astype(np.float64).ravel().tolist(), strict=True)
        with self._lock:
            draws = [self._binomial(n, p) for n, p in pairs]
        return cast(np.array(draws, np.float64), count.dtype).reshape(count.shape)

    def multinomial(
        self, probabilities: Values, num_samples: int, replacement: bool = False, order: Sequence[int] | None = None
    ) -> NDArray[np.int64]:
        """Sample indices in proportion to each row of `probabilities`, as `torch.multinomial` does.

        Parameters
        ----------
        probabilities
            Weights of one or two dimensions, not negative; rows need not sum to one.
        num_samples
            How many indices to sample per row.
        replacement
            Whether an index may be drawn again.
        order
            The order of the dimensions in which to sample, outermost first; None for theirs.
        """
        check_weights(probabilities, num_samples, replacement)
        if replacement and num_samples > 1:
            return self._weighted_indices(probabilities, num_samples)
        # The first of competing exponential clocks rings in proportion to its rate, and so do the next.
        clocks = self.exponential(probabilities.shape, probabilities.dtype, 1.0)
        if order is not None:
            clocks = clocks.reshape([probabilities.shape[i] for i in order]).transpose(np.argsort(order))
        scores = (probabilities / clocks).astype(work_type(probabilities.dtype))
        if num_samples == 1:
            return np.asarray(np.argmax(scores, axis=-1, keepdims=True))
        return np.argsort(-scores, axis=-1, kind="stable")[..., :num_samples].copy()

    def permutation(self, n: int, dtype: DTypeLike = np.int64) -> Values:
        """Return the numbers below `n` in random order, as `torch.randperm` does."""
        if n < 0:
            raise RuntimeError(f"n must be non-negative, got {n}")
        dtype = np.dtype(dtype)
        greatest = 2 ** DIGITS[dtype] if dtype in DIGITS else integer_limits(dtype)[1]
        if n - 1 > greatest:
            raise RuntimeError(f"n cannot be greater than {greatest + 1} for {dtype}, got {n}")
        if n < 2:
            return np.zeros(n, dtype)
        with self._lock:
            words = self._words(n - 1)
        if n <= SMALL_RANDOM:
            order = list(range(n))
            for i, word in enumerate(words.tolist()):
                other = i + word % (n - i)
                order[i], order[other] = order[other], order[i]
            return cast(np.array(order), dtype)
        choices = np.arange(n)
        choices[:-1] += (words % np.arange(n, 1, -1, dtype=np.uint64)).astype(np.int64)
        return cast(shuffled(choices), dtype)

    # --- the sources, to be called with the lock held -----------------------------------------------

    @staticmethod
    def probable(p: Values | float) -> bool:
        """Return whether a number, or each of an array's, is a probability. To search is quicker than to compare."""
        if isinstance(p, np.ndarray):
            return not p.size or bool(p.item(p.argmax()) <= 1 and p.item(p.argmin()) >= 0)
        return bool(0 <= p <= 1)

    def _draw(self, shape: Sequence[int], dtype: DTypeLike, sample: Callable[[int], Values]) -> Values:
        """Fill an array with what `sample` returns for a number of elements, under the lock."""
        dtype = np.dtype(dtype)
        size = math.prod(shape)
        with self._lock:
            if size <= RANDOM_BLOCK:
                return cast(sample(size), dtype).reshape(shape)
            out = np.empty(size, dtype)
            for start in range(0, size, RANDOM_BLOCK):
                piece = out[start : start + RANDOM_BLOCK]
                piece[...] = cast(sample(piece.size), dtype)
        return out.reshape(shape)

    def _words(self, size: int) -> Words:
        """Return 32 random bits each."""
        words: Words = self._bits.random_raw(size)
        return words

    def _longs(self, size: int) -> Words:
        """Return 64 random bits each; the first word is the upper half."""
        words = self._words(2 * size)
        longs = words[0::2] << np.uint64(32)
        longs |= words[1::2]
        return longs

    def _floats(self, size: int) -> NDArray[np.float32]:
        """Sample from [0, 1) in steps of 2**-24."""
        bits: Values = self._bits.random_raw(size)
        if size > SMALL_RANDOM:  # the conversion of a shorter type is faster
            bits = bits.astype(np.int32)
        bits &= _MASKS[size > SMALL_RANDOM]
        values = bits.astype(FLOAT32)
        values *= _STEP
        return values

    def _doubles(self, size: int) -> NDArray[np.float64]:
        """Sample from [0, 1) in steps of 2**-53."""
        bits = self._longs(size) & np.uint64((1 << 53) - 1)
        # The signed conversion is one instruction, the unsigned one several.
        return bits.view(np.int64) * np.float64(2.0**-53)

    def _double(self) -> float:
        word = self._bits.random_raw
        return ((word() & 0x1FFFFF) << 32 | word()) * 2.0**-53

    def _units(self, size: int, work: np.dtype[Any]) -> Values:
        return self._doubles(size) if work is FLOAT64 else self._floats(size)

    def _remainders(self, size: int, span: int, low: int, wide: bool) -> NDArray[np.int64]:
        """Sample integers from [low, low + span), by the remainder of 64 bits if `wide`, else of 32."""
        if span == 2**64:
            return self._longs(size).view(np.int64)
        if size <= SMALL_RANDOM and not wide:
            few = (self._words(size) % np.uint64(span)).view(np.int64)
            if low:
                few += low
            return few
        words: Values = self._longs(size) if wide else self._words(size).astype(np.uint32)
        # NumPy divides by a constant several times faster than it takes the remainder.
        divisor = words.dtype.type(span)
        words -= words // divisor * divisor
        values = words.astype(np.int64)
        values += low
        return values

    def _block_normals(self, size: int, dtype: np.dtype[Any], mean: float, std: float) -> Values:
        """Sample 16 or more normals, in blocks of 16."""
        work = work_type(dtype)
        out = np.empty(size, work)
        rest = size % BLOCK
        for start in range(0, size - rest, RANDOM_BLOCK):
            piece = out[start : min(start + RANDOM_BLOCK, size - rest)]
            piece[...] = affine(box_muller_blocks(self._units(piece.size, work)), std, mean)
        if rest:
            # Torch generates uniform numbers for the incomplete block (unless they are halves), and then
            # makes the last 16 elements anew.
            if dtype not in HALVES:
                self._units(rest, work)
            out[-BLOCK:] = affine(box_muller_blocks(self._units(BLOCK, work)), std, mean)
        return out

    def _normal(self) -> float:
        """Sample a standard normal; they come in pairs, and the spare one is saved for later."""
        spare = self._spare
        if spare is not None:
            self._spare = None
            return spare
        angle = 2.0 * math.pi * self._double()
        radius = math.sqrt(-2.0 * math.log1p(-self._double()))
        self._spare = radius * math.sin(angle)
        return radius * math.cos(angle)

    def _few_normals(self, size: int) -> NDArray[np.float64]:
        """Sample standard normals one by one; fast for a small number."""
        return np.array([self._normal() for _ in range(size)], np.float64)

    def _many_normals(self, size: int) -> NDArray[np.float64]:
        """Return the same numbers as `_few_normals`; fast for a large number."""
        head = 0 if self._spare is None else 1
        body = (size - head) // 2 * 2
        if body <= 0:
            return self._few_normals(size)
        out = np.empty(size)
        out[:head] = self._few_normals(head)
        draws = self._doubles(body)
        angle = 2.0 * math.pi * draws[0::2]
        radius = np.sqrt(-2.0 * np.log1p(-draws[1::2]))
        out[head : head + body : 2] = radius * np.cos(angle)
        out[head + 1 : head + body : 2] = radius * np.sin(angle)
        out[head + body :] = self._few_normals(size - head - body)
        return out

    def _poisson(self, rate: float) -> int:
        if rate == 0.0:
            return 0
        return self._poisson_by_product(rate) if rate < 10.0 else self._poisson_by_rejection(rate)

    def _poisson_by_product(self, rate: float) -> int:
        """Count the arrivals before the waiting times add up to one (Knuth)."""
        threshold, product, count = math.exp(-rate), self._double(), 0
        while product > threshold:
            product *= self._double()
            count += 1
        return count

    def _poisson_by_rejection(self, rate: float) -> int:
        """Sample by transformed rejection (PTRS; W. Hörmann, 1993)."""
        log_rate = math.log(rate)
        b = 0.931 + 2.53 * math.sqrt(rate)
        a = -0.059 + 0.02483 * b
        inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
        while True:
            u = self._double() - 0.5
            v = self._double()
            edge = 0.5 - abs(u)
            count = math.floor((2.0 * a / edge + b) * u + rate + 0.43)
            if edge >= 0.07 and v <= 0.9277 - 3.6224 / (b - 2.0):
                return count
            if count < 0 or (edge < 0.013 and v > edge):
                continue
            ratio = math.log(v) + math.log(inverse_alpha) - math.log(a / (edge * edge) + b)
            if ratio <= -rate + count * log_rate - math.lgamma(count + 1.0):
                return count

    def _gamma(self, alpha: float) -> float:
        """Sample by cutting off a cubed normal (G. Marsaglia and W. W. Tsang, 2000)."""
        if alpha == 0.0:
            return 0.0
        scale = 1.0
        if alpha < 1.0:
            scale = (1.0 - self._double()) ** (1.0 / alpha)
            alpha += 1.0
        d = alpha - _THIRD
        c = 1.0 / math.sqrt(9.0 * d)
        while True:
            x = self._normal()
            y = 1.0 + c * x
            if y <= 0.0:
                continue
            v, u, square = y * y * y, 1.0 - self._double(), x * x
            if u < 1.0 - 0.0331 * square * square or math.log(u) < 0.5 * square + d * (1.0 - v + math.log(v)):
                return scale * d * v

    def _binomial(self, n: float, p: float) -> float:
        if n <= 0.0 or p <= 0.0:
            return 0.0
        if p >= 1.0:
            return n
        rare = min(p, 1.0 - p)
        drawn = self._binomial_by_waiting(n, rare) if n * rare < 10.0 else self._binomial_by_rejection(n, rare)
        return drawn if p <= 0.5 else n - drawn

    def _binomial_by_waiting(self, n: float, p: float) -> int:
        """Count the successes by the waiting times between them."""
        failure, trials, count = math.log1p(-p), 0, 0
        while True:
            trials += math.ceil(math.log(self._double()) / failure)
            if trials > n:
                return count
            count += 1

    def _binomial_by_rejection(self, n: float, p: float) -> int:
        """Sample by transformed rejection (BTRS; W. Hörmann, 1993)."""
        spread, odds, mode = math.sqrt(n * p * (1.0 - p)), p / (1.0 - p), math.floor((n + 1.0) * p)
        b = 1.15 + 2.53 * spread
        a = -0.0873 + 0.0248 * b + 0.01 * p
        alpha = (2.83 + 5.1 / b) * spread
        while True:
            u = self._double() - 0.5
            v = self._double()
            edge = 0.5 - abs(u)
            k = math.floor((2.0 * a / edge + b) * u + n * p + 0.5)
            if edge >= 0.07 and v <= 0.92 - 4.2 / b:
                return k
            if k < 0 or k > n:
                continue
            bound = (
                (mode + 0.5) * math.log((mode + 1.0) / (odds * (n - mode + 1.0)))
                + (n + 1.0) * math.log((n - mode + 1.0) / (n - k + 1.0))
                + (k + 0.5) * math.log(odds * (n - k + 1.0) / (k + 1.0))
                + stirling_tail(mode) + stirling_tail(n - mode) - stirling_tail(k) - stirling_tail(n - k)
            )  # fmt: skip
            if math.log(v * alpha / (a / (edge * edge) + b)) <= bound:
                return k

    def _weighted_indices(self, weights: Values, num_samples: int) -> NDArray[np.int64]:
        """Look uniform samples up in the cumulative weights."""
        rows = np.cumsum(weights.astype(work_type(weights.dtype)), axis=-1)
        rows = (rows / rows[..., -1:]).reshape(-1, weights.shape[-1])
        with self._lock:
            draws = self._doubles(len(rows) * num_samples).reshape(-1, num_samples)
        indices = [np.searchsorted(row, draw) for row, draw in zip(rows, draws, strict=True)]
        return np.array(indices, np.int64).reshape(*weights.shape[:-1], num_samples)
