"""The formulas of `fused.py` in NumPy's passes, as few of them as possible: for programs without Numba.

A formula takes its operands, and the array that it writes its result to (None: a new one of their shape), so that
`elementwise` can run it on pieces of large arrays that threads share, without a copy of what it found. Gradients that
are one number repeated, as those of sums are, come as that number. What is faster than it looks, and slower, in NumPy:

- ``clip`` with two bounds is vectorized; ``maximum`` and ``minimum`` with one number are not;
- ``where`` guesses wrong half the time on random masks: a mask times a number, or the bits of a mask, do not guess;
- ``expm1`` takes three quarters of the time of ``exp`` where the processor has wide vectors, else ten times as long.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from . import selection
from .elementwise import elementwise

ndarray = np.ndarray
_f32, _f64 = np.dtype("float32"), np.dtype("float64")
_INF = math.inf
_NO_OVERFLOW = 80  # the exponential of numbers below this is finite

_features = getattr(getattr(getattr(np, "_core", None), "_multiarray_umath", None), "__cpu_features__", {})
WIDE_VECTORS = bool(_features.get("AVX512_SKX") or _features.get("X86_V4"))

FORMULAS: dict[str, Callable[..., Any]] = {}
_SINGLE: set[str] = set()  # those of float32 only
_ALONE: dict[str, int] = {}  # elements up to which those of few passes take no longer than waking a thread
_OF_GRADIENTS: set[str] = set()


def _formula(function: Callable[..., Any]) -> Callable[..., Any]:
    name = function.__name__
    FORMULAS[name] = function
    if function.__code__.co_varnames[0] == "g":
        _OF_GRADIENTS.add(name)
    return function


def _light(function: Callable[..., Any]) -> Callable[..., Any]:
    _ALONE[function.__name__] = 1 << 21
    return _formula(function)


def _of_few_passes(function: Callable[..., Any]) -> Callable[..., Any]:
    _ALONE[function.__name__] = 3 << 18
    return _formula(function)


def _of_singles(function: Callable[..., Any]) -> Callable[..., Any]:
    _SINGLE.add(function.__name__)
    return _formula(function)


def apply(name: str, operands: tuple[Any, ...]) -> Any:
    """Return a formula of large arrays of one dtype and of numbers; None where there is none."""
    first, formula = operands[0], FORMULAS.get(name)
    if formula is None or type(first) is not ndarray:
        return None
    dtype = first.dtype
    if dtype is not _f32 and (dtype is not _f64 or name in _SINGLE):
        return None
    if any(type(a) is ndarray and a.dtype is not dtype for a in operands):
        return None
    if name in _OF_GRADIENTS and not any(first.strides) and operands[1].shape == first.shape:
        operands = (first[(0,) * first.ndim], *operands[1:])
    return elementwise(formula, *operands, writes=dtype, alone=_ALONE.get(name, 0))


def _times(c: Any, g: Any) -> Any:
    """Multiply in place by a gradient, which often is one for all."""
    return c if type(g) is not ndarray and g == 1 else np.multiply(c, g, out=c)


def _cast(c: Any, like: Any, out: Any) -> Any:
    """Return truths or small integers as numbers of an array's dtype."""
    return _into(np.empty_like(like) if out is None else out, c)


def one_and_exp(c: Any) -> Any:
    """Return ``1 + exp(c)``, written over `c`."""
    if WIDE_VECTORS:
        np.expm1(c, out=c)
        return np.add(c, 2, out=c)
    np.exp(c, out=c)
    return np.add(c, 1, out=c)


def _over(x: Any, out: Any) -> Any:
    """Return ``1 + exp(-x)``."""
    return one_and_exp(np.negative(x, out=out))


# --- Made of straight pieces --------------------------------------------------------------------------


@_light
def relu(x: Any, out: Any) -> Any:
    """Return x, at least 0."""
    return np.clip(x, 0, _INF, out=out)


@_light
def relu_back(g: Any, y: Any, out: Any) -> Any:
    """Return the gradient where the result is not zero."""
    if type(g) is not ndarray and math.isfinite(g):
        gone = y <= 0  # which a NaN is not
        return _times(_cast(np.logical_not(gone, out=gone), y, out), g)
    return _into(out, selection.where(y <= 0, 0, g if type(g) is ndarray else np.full(y.shape, g)))


def _into(out: Any, c: Any) -> Any:
    if out is None:
        return c
    out[...] = c
    return out


@_light
def leaky_relu(x: Any, slope: Any, out: Any) -> Any:
    """Return x, times the slope where it is negative."""
    if 0 < slope <= 1:  # 0 times infinity is NaN
        c = np.multiply(x, slope, out=out)
        return np.maximum(x, c, out=c)
    return _into(out, selection.where(x > 0, x, x * slope))


@_light
def leaky_relu_back(g: Any, x: Any, slope: Any, out: Any) -> Any:
    """Return the gradient, times the slope where x is not positive."""
    c = _cast(x > 0, x, out)
    if 0 <= slope <= 1:
        return _times(np.clip(c, slope, 1, out=c), g)
    return _times(_into(c, selection.where(x > 0, c, np.full_like(x, slope))), g)


@_light
def abs_back(g: Any, x: Any, out: Any) -> Any:
    """Return the gradient times the sign, which of a NaN is 0."""
    return _times(_cast(np.subtract((x > 0).view(np.int8), (x < 0).view(np.int8)), x, out), g)


# --- Exponential --------------------------------------------------------------------------------------


@_formula
def elu(x: Any, alpha: Any, scale: Any, rate: Any, out: Any) -> Any:
    """Return x, and below 0 an exponential that goes to ``-alpha``."""
    c = np.clip(x, -_INF, 0, out=out)
    np.expm1(c if rate == 1 else np.multiply(c, rate, out=c), out=c)
    if alpha == 1 and rate == 1:
        np.maximum(x, c, out=c)  # the exponential lies above x
    else:
        np.multiply(c, alpha, out=c)
        c += np.clip(x, 0, _INF)
    return c if scale == 1 else np.multiply(c, scale, out=c)


@_formula
def elu_back(g: Any, x: Any, alpha: Any, scale: Any, rate: Any, out: Any) -> Any:
    """Return the gradient of what goes into `elu`."""
    c = np.clip(x, -_INF, 0, out=out)
    np.exp(c if rate == 1 else np.multiply(c, rate, out=c), out=c)
    if alpha * rate == 1:
        return _times(c if scale == 1 else np.multiply(c, scale, out=c), g)
    np.multiply(c, alpha * scale * rate, out=c)
    return _times(_into(out, selection.where(x > 0, np.full_like(x, scale), c)), g)


@_formula
def sigmoid(x: Any, out: Any) -> Any:
    """Return ``1 / (1 + exp(-x))``."""
    c = _over(x, out)
    return np.divide(1, c, out=c)  # twice as fast as `reciprocal`


@_of_few_passes
def sigmoid_back(g: Any, y: Any, out: Any) -> Any:
    """Return the gradient of what goes into `sigmoid`, whose result is `y`."""
    c = np.subtract(1, y, out=out)
    return _times(np.multiply(c, y, out=c), g)


@_formula
def silu(x: Any, out: Any) -> Any:
    """Return x times its `sigmoid`."""
    c = _over(x, out)
    return np.divide(x, c, out=c)


@_formula
def silu_back(g: Any, x: Any, out: Any) -> Any:
    """Return the gradient of what goes into `silu`."""
    s = sigmoid(x, out)
    c = np.subtract(1, s)
    c *= x
    c += 1
    return _times(np.multiply(s, c, out=s), g)


def _smooth_relu(x: Any, out: Any) -> Any:
    """Return ``log(1 + exp(x))`` without overflow."""
    if x.max() < _NO_OVERFLOW:  # False beside a NaN
        c = np.exp(x, out=out)
        return np.log1p(c, out=c)
    c = np.abs(x, out=out)
    np.negative(c, out=c)
    np.exp(c, out=c)
    np.log1p(c, out=c)
    return np.add(c, np.clip(x, 0, _INF), out=c)


@_formula
def softplus(x: Any, beta: Any, threshold: Any, out: Any) -> Any:
    """Return ``log(1 + exp(beta * x)) / beta``, and x where ``beta * x`` is over a threshold."""
    scaled = x if beta == 1 else x * beta
    c = _smooth_relu(scaled, out)
    if beta != 1:
        c /= beta
    if threshold >= 17 and x.dtype is _f32:  # where single precision cannot tell them apart
        return c
    return _into(out, selection.where(scaled > threshold, x, c))


@_formula
def softplus_back(g: Any, x: Any, beta: Any, threshold: Any, out: Any) -> Any:
    """Return the gradient of what goes into `softplus`."""
    scaled = x if beta == 1 else x * beta
    c = sigmoid(scaled, out)
    if threshold < 17 or x.dtype is not _f32:
        c[scaled > threshold] = 1
    return _times(c, g)


@_formula
def erf_back(g: Any, x: Any, out: Any) -> Any:
    """Return the gradient of what goes into the error function."""
    c = np.multiply(x, x, out=out)
    np.negative(c, out=c)
    np.exp(c, out=c)
    return _times(np.multiply(c, 2 / math.sqrt(math.pi), out=c), g)


# --- Of two and three arrays --------------------------------------------------------------------------


@_of_singles
def hypot(x: Any, y: Any, out: Any) -> Any:
    """Return the length of the hypotenuse; in double precision where a square leaves the range of numbers."""
    c = np.square(x, out=out)
    c += y * y
    if c.min() > 1e-30 and c.max() < _INF:  # False beside a NaN
        return np.sqrt(c, out=c)
    square = np.square(x, dtype=_f64)
    square += np.square(y, dtype=_f64)
    c[...] = np.sqrt(square, out=square)
    return c if not np.isnan(c).any() else np.hypot(x, y, out=c)


@_of_few_passes
def hypot_back(g: Any, leg: Any, y: Any, out: Any) -> Any:
    """Return the gradient of one leg."""
    return _times(np.divide(leg, y, out=out), g)


@_formula
def lerp(x: Any, end: Any, weight: Any, out: Any) -> Any:
    """Return what lies between `x` and `end`, found from the nearer of them, so that both are exact."""
    far = np.abs(weight) >= 0.5
    c = np.subtract(weight, far, out=out)
    step = end - x
    c *= step
    c += selection.where(far, end, x)
    return c


@_of_few_passes
def times_rest(g: Any, weight: Any, out: Any) -> Any:
    """Return a gradient times what a weight lacks to 1."""
    return _times(np.subtract(1, weight, out=out), g)


@_of_few_passes
def times_difference(g: Any, x: Any, y: Any, out: Any) -> Any:
    """Return a gradient times a difference."""
    return _times(np.subtract(x, y, out=out), g)


@_of_few_passes
def bent_back(g: Any, x: Any, y: Any, bend: Any, out: Any) -> Any:
    """Return the difference, cut off at the bend, times a gradient."""
    c = np.subtract(x, y, out=out)
    return _times(np.clip(c, -bend, bend, out=c), g)


@_formula
def logistic(x: Any, y: Any, out: Any) -> Any:
    """Return the cross entropy of probabilities `y` and those whose logits are `x`."""
    c = _smooth_relu(-np.abs(x), out)
    c += x * ((x > 0) - y)  # one product, which an infinite logit does not make inf - inf
    return c


@_formula
def logistic_back(g: Any, x: Any, y: Any, out: Any) -> Any:
    """Return the gradient of the logits of `logistic`."""
    c = sigmoid(x, out)
    c -= y
    return _times(c, g)


@_of_singles
def remainder_by(x: Any, divisor: Any, out: Any) -> Any:
    """Return the rest of a division by a number; no quotient is so large that its product were not exact."""
    wide = x.astype(_f64)
    down = np.divide(wide, divisor)
    np.floor(down, out=down)
    down *= divisor
    wide -= down
    if divisor < 0 or wide.min() < 0:  # zeros have the divisor's sign; or a quotient was rounded up to a whole number
        return _into(out, np.remainder(x, np.float32(divisor)))
    return _into(np.empty_like(x) if out is None else out, wide)
