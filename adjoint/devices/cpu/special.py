"""Special functions that NumPy's passes compute faster than SciPy: named scalar functions, and overrides."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._typing import Array, Kernel
from ...scalar.special import in_single, special
from ...scalar.symbol import Function
from . import provider, sizes
from .constants import constants_of
from .elementwise import elementwise
from .table import override

_erf = special("erf")
# erf(x) = tanh(x * p(x * x)) to single precision where |x| < 4.3; beyond, it is 1.
_ERF_SINGLE = (
    1.1283792, 0.1027699, -0.00019543349, -0.00061462744, 8.446419e-05, -4.7554176e-06, 2.2264105e-08,
    5.684385e-09,
)  # fmt: skip


@in_single
def _erf_of(x: Array) -> Array:
    """Return the error function; of many single-precision numbers, by a polynomial and NumPy's fast tanh."""
    if x.dtype != np.float32 or (x.size < sizes.ERF and not provider.plainly.inside):  # SciPy would be imported
        return _erf(x)
    return elementwise(_erf_single, x, writes=x.dtype) if x.size >= sizes.ERF_THREADS else _erf_single(x, None)


def _odd_polynomial(x: Any, coefficients: tuple[float, ...]) -> Any:
    """Return ``x * p(x * x)`` in single precision, whose coefficients begin with the constant."""
    square = x * x
    c = square * np.float32(coefficients[-1])
    for coefficient in coefficients[-2:0:-1]:
        c += np.float32(coefficient)
        c *= square
    c += np.float32(coefficients[0])
    c *= x
    return c


def _erf_single(x: Any, out: Any) -> Array:
    c = _odd_polynomial(np.clip(x, np.float32(-4.3), np.float32(4.3)), _ERF_SINGLE)
    return np.tanh(c, out=c if out is None else out)


# The derivative of psi is a sum of terms 1 / (x + k)^2, of which the first eight are added up; the tail is a continued
# fraction in x + 7.5.
_STEPS, _EIGHT_ONES = np.arange(8, dtype=np.float32).reshape(8, 1), np.ones(8, np.float32)


def _is_near(x: Array) -> bool:
    """Return whether the array is small, in single precision, and above -2."""
    return x.dtype.char == "f" and x.size <= sizes.TRIGAMMA and not np.count_nonzero(x < constants_of(x)[-2])


@override("digamma", gradient="x", when=lambda g, x: _is_near(x))
def digamma_backward(g: Array, x: Array) -> Array:
    """Return the gradient of digamma."""
    return g * trigamma(x, 1)


@override("polygamma", when=lambda x, n: n == 1 and _is_near(x))
def trigamma(x: Any, n: int) -> Array:
    """Return the derivative of psi, in single precision, of a small array above -2."""
    terms = x.reshape(1, -1) + _STEPS
    number = constants_of(x)
    rest = terms[-1] + number[0.5]
    terms *= terms
    c = np.dot(_EIGHT_ONES, np.reciprocal(terms, terms))
    rest += number[1 / 12] / (rest + number[4 / 15] / rest)
    c += np.reciprocal(rest, rest)
    return c.reshape(x.shape)


def _times_log(log: np.ufunc) -> Kernel:
    def times_log(x: Array, y: Array) -> Array:
        if type(y) is not np.ndarray or x.shape != y.shape or x.dtype.kind != "f":
            return NotImplemented
        found, zero = log(y), x == 0
        np.multiply(x, found, out=found)  # which is NaN wherever y is
        return np.where(zero & ~np.isnan(y), x.dtype.type(0), found) if zero.any() else found

    return times_log


override("xlogy", least=sizes.TIMES_LOG)(_times_log(np.log))
override("xlog1py", least=sizes.TIMES_LOG)(_times_log(np.log1p))


def _log1p_exp(x: Array) -> Array:
    """Return ``log(1 + exp(x))`` without overflow: in one call for small arrays, by faster functions for large ones."""
    if x.size < sizes.LOG1P_EXP:
        return np.logaddexp(x, constants_of(x)[0])
    c = np.abs(x)
    np.negative(c, out=c)
    np.exp(c, out=c)
    np.log1p(c, out=c)
    c += np.maximum(x, x.dtype.type(0))
    return c


# The probability that a standard normal variable is below x is 1 / (1 + exp(x * p(x * x))), to single precision.
_NORMAL_SINGLE = (
    -1.595769882, -0.0726661692, 6.51899664e-05, 1.106124106e-04, -7.92949804e-06, 2.64527794e-07, -3.51238322e-09,
)  # fmt: skip
_ndtr = special("ndtr")


@in_single
def _normal(x: Any) -> Any:
    """Return the probability that a standard normal variable is below x."""
    if x.dtype != np.float32 or not x.ndim:
        return _ndtr(x)
    c = _odd_polynomial(x, _NORMAL_SINGLE)
    np.exp(c, out=c)
    c += np.float32(1)
    return np.divide(np.float32(1), c, out=c)


erf = Function("erf", _erf_of, "erf{w}({0})", "erf({0})")
# As accurate as its largest values, not as each: what gelu needs.
normal_cdf = Function("normal_cdf", _normal, "normal_cdf{w}({0})", "normal_cdf({0})")
log1p_exp = Function("log1p_exp", _log1p_exp, "log1p_exp{w}({0})", "log1p_exp({0})")
erfc = Function("erfc", special("erfc"), "math.erfc({0})", "erfc({0})")
ndtr = Function(
    "ndtr", _ndtr, "0.5 * math.erfc({0} * -0.7071067811865476)", "W(0.5) * erfc({0} * W(-0.7071067811865476))"
)
