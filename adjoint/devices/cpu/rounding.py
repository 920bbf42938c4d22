"""How torch rounds random numbers and what ranges it takes: arithmetic and checks for `random.py`."""

from __future__ import annotations

import functools
import math
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from .constants import constants_of

Values: TypeAlias = NDArray[Any]

_FLOAT16, _BFLOAT16 = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
REAL_OF_COMPLEX: dict[np.dtype[Any], np.dtype[Any]] = {
    np.dtype(np.complex64): FLOAT32,
    np.dtype(np.complex128): FLOAT64,
}

# Bits of the significand: integers up to 2 ** digits are exact.
DIGITS = {_FLOAT16: 11, _BFLOAT16: 8, FLOAT32: 24, FLOAT64: 53}
_LARGEST = {
    _FLOAT16: 65504.0,
    _BFLOAT16: float.fromhex("0x1.fep127"),
    FLOAT32: float(np.finfo(np.float32).max),
    FLOAT64: float(np.finfo(np.float64).max),
}
HALVES = (_FLOAT16, _BFLOAT16)

# Veltkamp's constant cuts a double in two halves of 26 bits; beyond this scale the cut would overflow.
_SPLITTER = 134217729.0
_SPLIT_LIMIT = 2.0**990
BLOCK = 16  # normal numbers that are made together


def stirling_tail(k: float) -> float:
    """Return what Stirling's formula leaves of log((k + 1)!)."""
    if k < 10.0:
        k = float(int(k))
        return math.lgamma(k + 1.0) - ((k + 0.5) * math.log(k + 1.0) - (k + 1.0) + 0.5 * math.log(2.0 * math.pi))
    square = (k + 1.0) ** 2
    return (1.0 / 12.0 - (1.0 / 360.0 - 1.0 / 1260.0 / square) / square) / (k + 1.0)


def work_type(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type that torch computes in for `dtype`."""
    return FLOAT64 if dtype == FLOAT64 else FLOAT32


def cast(values: Values, dtype: np.dtype[Any]) -> Values:
    """Convert as torch does: to the halves by way of float32."""
    if values.dtype == dtype:
        return values
    if dtype not in HALVES:
        return values.astype(dtype)
    with np.errstate(over="ignore"):
        return values.astype(np.float32).astype(dtype)


def affine(x: Values, scale: float, shift: float) -> Values:
    """Compute ``x * scale + shift`` with a single rounding, as the fused instruction does."""
    if scale == 1.0 and shift == 0.0:
        return x
    if x.dtype == FLOAT32:
        # The product of two floats is exact in double precision.
        return (x.astype(np.float64) * float(np.float32(scale)) + float(np.float32(shift))).astype(np.float32)
    if shift == 0.0 or abs(scale) > _SPLIT_LIMIT:
        return x * scale + shift
    if abs(scale) < 2.0**-800 and abs(shift) < 2.0**600:  # what rounding takes would be less than a double holds
        return _lowered(*_unrounded(x, scale * 2.0**400, shift * 2.0**400))
    total, error = _unrounded(x, scale, shift)
    fused: Values = total + error
    return fused


def _unrounded(x: Values, scale: float, shift: float) -> tuple[Values, Values]:
    """Return ``x * scale + shift``, and what rounding took from it."""
    product = x * scale
    total = product + shift
    virtual = total - product
    sum_error = (product - (total - virtual)) + (shift - virtual)
    return total, sum_error + _product_error(x, float(scale), product)


def _lowered(total: Values, error: Values) -> Values:
    """Return the sum of both times 2**-400, rounded once, also where it is below the normal numbers."""
    anchor = np.copysign(2.0**-622, total)  # so large that its last bit becomes the last that a double has
    coarse = anchor + total
    rounded = (coarse + ((total - (coarse - anchor)) + error)) - anchor
    lowered: Values = np.where(np.abs(total) < 2.0**-622, rounded, total + error) * 2.0**-400
    return lowered


def _product_error(x: Values, y: float, product: Values) -> Values:
    """Return what rounding took from `product`, that is ``x * y - product`` (Dekker)."""
    x_cut, y_cut = _SPLITTER * x, _SPLITTER * y
    x_high, y_high = x_cut - (x_cut - x), y_cut - (y_cut - y)
    x_low, y_low = x - x_high, y - y_high
    error: Values = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    return error


def box_muller_blocks(uniform: Values) -> Values:
    """Turn blocks of 16 uniform numbers into normal ones: 8 give the radius, 8 the angle."""
    number = constants_of(uniform)
    # Side by side, the halves of all blocks are worked on in one go each.
    halves = uniform.reshape(-1, 2, BLOCK // 2).swapaxes(0, 1).copy()
    radius, angle = halves
    np.subtract(number[1], radius, radius)
    np.log(radius, radius)
    radius *= number[-2]
    np.sqrt(radius, radius)
    angle *= number[2 * math.pi]
    cosine = np.cos(angle)
    np.sin(angle, angle)
    angle *= radius
    radius *= cosine
    return halves.swapaxes(0, 1).reshape(uniform.shape)


def shuffled(choices: NDArray[np.int64]) -> NDArray[np.int64]:
    """Swap element i of ``0, 1, 2, ...`` with element ``choices[i] >= i``, for every i in turn.

    Without the loop. Step i leaves at `choices[i]` what stood at i, and takes to i what stood at
    `choices[i]`: whatever the last earlier step with the same choice left there, if any did.
    """
    n = len(choices)
    steps = np.arange(n)
    moved = choices != steps
    # What stands at i just before step i came from the last step that chose i, and so on back.
    origin = steps.copy()
    origin[choices[moved]] = steps[moved]
    while not np.array_equal(origin, further := origin[origin]):
        origin = further
    # Sorted by choice and then by step, an earlier step with the same choice is the neighbour.
    ordered = np.sort((choices << 32) | steps)
    choice, step = ordered >> 32, ordered & 0xFFFFFFFF
    repeated = choice[1:] == choice[:-1]
    result = choices.copy()
    result[step[1:][repeated]] = origin[step[:-1][repeated]]
    result[~moved] = origin[~moved]
    return result


@functools.lru_cache
def integer_limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Return the least and greatest integer of `dtype`, as bounds of random integers."""
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    if dtype in DIGITS:
        largest = int(_LARGEST[dtype])
        return max(-largest, -(2**63)), min(largest, 2**63 - 1)
    raise RuntimeError(f"random integers need an integral, floating-point or boolean dtype, got {dtype}")


def representable_bounds(low: int, high: int, dtype: np.dtype[Any]) -> tuple[int, int]:
    """Narrow [low, high) so that no integer in it is rounded out of it by the floating `dtype`."""
    first, last = (int(float(bound)) for bound in cast(np.array([low + 1, high - 1]), dtype))
    start = first + _spacing(low + 1, dtype) if first < low else low
    stop = last - _spacing(high - 1, dtype) if last >= high else high
    if start >= stop:
        raise RuntimeError(f"random_ finds no {dtype} number between from={low} and to={high}")
    return start, stop


def _spacing(value: int, dtype: np.dtype[Any]) -> int:
    """Return the distance between neighbouring `dtype` numbers at `value`, beyond the exact integers."""
    return 1 << (abs(value).bit_length() - DIGITS[dtype])


def require_floating(name: str, dtype: np.dtype[Any]) -> None:
    if dtype not in DIGITS:
        raise RuntimeError(f"{name} is a continuous distribution: dtype must be floating, but got {dtype}")


def check_range(low: float, high: float, dtype: np.dtype[Any]) -> None:
    if not low <= high:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low} > to={high}")
    if high - low > _LARGEST[dtype]:
        raise RuntimeError(f"uniform_ expects to - from <= {_LARGEST[dtype]} in {dtype}, got {high - low}")


def check_weights(weights: Values, num_samples: int, replacement: bool) -> None:
    if weights.dtype not in DIGITS:
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {weights.dtype}")
    if weights.ndim not in (1, 2):
        raise RuntimeError(f"prob_dist must be 1 or 2 dim, got {weights.ndim}")
    if num_samples <= 0:
        raise RuntimeError(f"cannot sample n_sample <= 0 samples, got {num_samples}")
    if not replacement and num_samples > weights.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    if not np.all((weights >= 0) & np.isfinite(weights)):
        raise RuntimeError(
            "invalid multinomial distribution: probability tensor contains either `inf`, `nan` or element < 0"
        )
    if not np.all(np.sum(weights, axis=-1, dtype=np.float64) > 0):
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
