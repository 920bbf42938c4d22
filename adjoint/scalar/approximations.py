"""Special functions in plain NumPy, double precision, for installations without SciPy.

Gamma's derivatives by recurrence and Euler-Maclaurin sums, Bessel functions by their power series and asymptotic
expansions, error functions on top of the standard library's. `tests/scalar/test_approximations.py` compares each
with mpmath; docs/reference has the table.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._typing import Array

_ROOT_2, _ROOT_PI = math.sqrt(2.0), math.sqrt(math.pi)
# B(2k) / (2k), and B(2k) / (2k)!, of Bernoulli's numbers
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_FAR = 10.0  # from here on asymptotic sums of that many terms are exact to rounding


def _by_element(function: Callable[[float], float]) -> Callable[[Any], Any]:
    def guarded(value: float) -> float:
        try:
            return function(value)
        except (OverflowError, ValueError):  # lgamma at its poles
            return math.inf

    slow = np.frompyfunc(guarded, 1, 1)
    return lambda x: np.asarray(slow(x), np.float64)


erf, erfc, gammaln = _by_element(math.erf), _by_element(math.erfc), _by_element(math.lgamma)


# --- Gamma's derivatives --------------------------------------------------------------------------


def psi(x: Array) -> Array:
    """Return the logarithmic derivative of gamma."""
    reflected = x <= 0
    y = np.where(reflected, 1 - x, x)
    shift = np.zeros_like(y)
    for _ in range(int(_FAR)):
        near = y < _FAR
        shift = np.where(near, shift + 1 / y, shift)
        y = np.where(near, y + 1, y)
    square = 1 / (y * y)
    tail = np.zeros_like(y)
    for k in range(len(_BERNOULLI), 0, -1):
        tail = (tail + _BERNOULLI[k - 1] / (2 * k)) * square
    out = np.log(y) - 0.5 / y - tail - shift
    fraction = x - np.round(x)  # exact, where the tangent of pi times x would lose digits
    out = np.where(reflected, out - math.pi / np.tan(math.pi * fraction), out)
    poles = reflected & (x == np.floor(x))
    return np.where(poles, np.where(x == 0, -np.copysign(np.inf, x), np.nan), np.where(x == -np.inf, np.nan, out))


def zeta(s: Array, q: Array) -> Array:
    """Return the sum of ``(q + k) ** -s`` over all k from 0 on."""
    s, q = np.broadcast_arrays(s, q)
    whole = s == np.floor(s)
    y = q.astype(np.float64)
    total = np.zeros_like(y)
    valid = (s > 1) & ((q > 0) | (whole & (q != np.floor(q)))) & np.isfinite(y)
    while (near := valid & (y < _FAR + s)).any():
        total = np.where(near, total + np.where(near, y, 1.0) ** -s, total)
        y = np.where(near, y + 1, y)
    with np.errstate(all="ignore"):
        power = np.where(valid, y, 1.0) ** -s
        total += power * y / (s - 1) + power / 2
        factor, scale = s * power / y, 2.0
        for k, number in enumerate(_BERNOULLI, 1):
            total += number / scale * factor
            factor = factor * (s + 2 * k - 1) * (s + 2 * k) / (y * y)
            scale *= (2 * k + 1) * (2 * k + 2)
    poles = (s == 1) | ((s > 1) & (q <= 0) & (q == np.floor(q)))
    out = np.where(valid, total, np.where(poles, np.inf, np.nan))
    return np.where((s > 1) & (q == np.inf), 0.0, out)


# --- Error functions ------------------------------------------------------------------------------


def erfcx(x: Array) -> Array:
    """Return ``exp(x * x) * erfc(x)``: below 2 by its definition, above by a continued fraction."""
    far = x >= 2
    y = np.where(far, x, 2.0)
    fraction = y
    for k in range(100, 0, -1):
        fraction = y + k / 2 / fraction
    return np.where(far, 1 / (_ROOT_PI * fraction), np.exp(x * x) * erfc(x))


def _inverse_erfc(q: Array) -> Array:
    """Return where erfc is `q`, for q in (0, 1], to within a few units in the last place."""
    log = np.log(q * (2 - q))
    half = 2 / (math.pi * 0.147) + log / 2
    x = np.sqrt(np.maximum(np.sqrt(half * half - log / 0.147) - half, 0))  # within some thousandths
    for _ in range(3):
        error = (erfcx(x) - q * np.exp(x * x)) * (-_ROOT_PI / 2)  # of Newton's method, with both sides scaled
        x = x - error / (1 + x * error)
    return x


def erfinv(y: Array) -> Array:
    """Return where erf is `y`."""
    inside = np.abs(y) < 1
    size = np.where(inside, np.abs(y), 0.5)
    x = _inverse_erfc(1 - size)
    small = size < 0.5  # where 1 - y has lost digits
    guess = np.where(small, x, 0.0)
    for _ in range(2):
        error = (erf(guess) - np.where(small, size, 0.0)) * np.exp(guess * guess) * (_ROOT_PI / 2)
        guess = guess - error / (1 + guess * error)
    tiny = size < 1e-8
    x = np.where(tiny, size * (_ROOT_PI / 2), np.where(small, guess, x))
    edge = np.where(np.abs(y) == 1, np.inf, np.nan)
    return np.copysign(np.where(inside, x, edge), y)


def ndtr(x: Array) -> Array:
    """Return the distribution function of the standard normal distribution."""
    return erfc(-x / _ROOT_2) / 2


def ndtri(p: Array) -> Array:
    """Return the quantiles of the standard normal distribution."""
    inside = (p > 0) & (p < 1)
    lower = np.where(inside, np.minimum(p, 1 - p), 0.25)
    x = -_ROOT_2 * _inverse_erfc(2 * lower)
    edge = np.where(p == 0, -np.inf, np.where(p == 1, np.inf, np.nan))
    middle = np.abs(p - 0.5) < 0.25
    x = np.where(middle, _ROOT_2 * erfinv(np.where(middle, 2 * p - 1, 0.0)), np.where(p > 0.5, -x, x))
    return np.where(inside, x, edge)


def log_ndtr(x: Array) -> Array:
    """Return the logarithm of `ndtr`, far into the tail."""
    left = x < -1
    tail = np.where(left, x, -1.0)
    body = np.where(left, 0.0, x)
    return np.where(left, np.log(erfcx(-tail / _ROOT_2) / 2) - tail * tail / 2, np.log1p(-erfc(body / _ROOT_2) / 2))


# --- Modified Bessel functions --------------------------------------------------------------------

_SERIES_END = 30.0


def _scaled_bessel(x: Array, order: int) -> Array:
    """Return I of order 0 or 1, times ``exp(-abs(x))``."""
    size = np.abs(x)
    near = np.where(size <= _SERIES_END, size, 0.0)
    quarter = near * near / 4
    term = np.ones_like(near) if order == 0 else near / 2
    series = term.copy()
    for k in range(1, 75):
        term = term * quarter / (k * (k + order))
        series += term
    far = np.where(size <= _SERIES_END, _SERIES_END, size)
    term = np.ones_like(far)
    expansion = term.copy()
    for k in range(1, 26):
        term = term * ((2 * k - 1) ** 2 - 4 * order) / (8 * k * far)
        expansion += term
    out = np.where(size <= _SERIES_END, series * np.exp(-near), expansion / np.sqrt(2 * math.pi * far))
    out = np.where(np.isnan(x), x, out)
    return np.copysign(out, x) if order else out


def _grown(scaled: Array, x: Array) -> Array:
    """Return ``scaled * exp(abs(x))`` in two steps, as the exponential overflows first."""
    half = np.exp(np.abs(x) / 2)
    return np.where(np.isinf(x), np.where(scaled < 0, -np.inf, np.inf), scaled * half * half)


def i0e(x: Array) -> Array:
    """Return the modified Bessel function of order 0, scaled by ``exp(-abs(x))``."""
    return _scaled_bessel(x, 0)


def i1e(x: Array) -> Array:
    """Return the modified Bessel function of order 1, scaled by ``exp(-abs(x))``."""
    return _scaled_bessel(x, 1)


def i0(x: Array) -> Array:
    """Return the modified Bessel function of order 0."""
    return _grown(_scaled_bessel(x, 0), x)


def i1(x: Array) -> Array:
    """Return the modified Bessel function of order 1."""
    scaled = _scaled_bessel(x, 1)
    return _grown(np.where(np.isinf(x), x, scaled), x)
