"""Values of special functions: SciPy's where it is installed (CuPy's on a GPU), a few made here.

SciPy is imported when the first of its functions is called. Without it, `approximations` has the common ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import numpy as np
from ml_dtypes import finfo

from ...scalar.symbol import Function
from ..contract import by_class, by_name, through_host
from . import approximations, provider
from .constants import constants_of
from .elementwise import elementwise


def in_single(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel that computes half-precision arrays in single precision, and rounds once at the end."""

    @wraps(kernel)
    def checked(x: Any, *args: Any) -> Any:
        if x.dtype.itemsize != 2 or x.dtype.kind in "iu":
            return kernel(x, *args)
        dtype = x.dtype
        wide = [a.astype(np.float32) if getattr(a, "dtype", None) == dtype else a for a in args]
        return kernel(x.astype(np.float32), *wide).astype(dtype)

    return checked


ndarray = np.ndarray
# What programs call the functions that `approximations` does not have.
_CALLED = {"gammainc": "igamma", "gammaincc": "igammac", "airy": "special.airy_ai"} | {
    f"{letter}{order}{scaled}": f"special.{kind}{letter}{order}"
    for letter, kind, scaled in (("j", "bessel_", ""), ("y", "bessel_", ""), ("k", "modified_bessel_", ""))
    for order in (0, 1)
} | {f"k{order}e": f"special.scaled_modified_bessel_k{order}" for order in (0, 1)}  # fmt: skip


@cache
def _function(name: str, device: str) -> Callable[..., Any]:
    try:
        found = getattr(by_name[device].special, name, None)
    except ImportError as error:
        own = getattr(approximations, name, None)
        if own is not None:
            return _in_double(own)
        raise ImportError(
            f"{_CALLED.get(name, name)} is computed by SciPy, which is not installed here; pip install adjoint[math]"
        ) from error
    if found is None:  # CuPy lacks some: one round trip through the host
        on_host = _function(name, "cpu")
        return through_host(f"special.{name}")(on_host)
    return found  # type: ignore[no-any-return]


def _in_double(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return one of our own functions for arrays of any precision."""

    def rounded(*arrays: Any) -> Any:
        dtypes = [a.dtype for a in arrays if isinstance(a, ndarray | np.generic) and a.dtype.kind == "f"]
        with np.errstate(all="ignore"):
            out = function(*[np.asarray(a, np.float64) for a in arrays])
        return out.astype(np.result_type(*dtypes), copy=False)

    return rounded


def special(name: str, part: int | None = None) -> Callable[..., Any]:
    """Return SciPy's function of that name, for arrays of any floating dtype on any device.

    Of a function with several results, `part` says which is wanted.
    """

    def kernel(*arrays: Any) -> Any:
        if part is None and len(arrays) == 1 and type(arrays[0]) is ndarray and arrays[0].dtype.char in "fd":
            return _function(name, "cpu")(arrays[0])
        dtype = next(a.dtype for a in arrays if hasattr(a, "dtype") and a.dtype.kind not in "biu")
        if dtype.kind == "c":
            found = "ComplexFloat" if dtype.itemsize == 8 else "ComplexDouble"
            raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{found}': it takes real numbers")
        places = [d.name for a in arrays if (d := by_class.get(type(a))) is not None and not d.is_host]
        function = _function(name, places[0] if places else "cpu")
        if dtype.itemsize == 2:
            arrays = tuple(a.astype(np.float32) if getattr(a, "dtype", None) == dtype else a for a in arrays)
        out = function(*arrays) if part is None else function(*arrays)[part]
        return out if out.dtype == dtype else out.astype(dtype)

    kernel.__name__ = name
    return kernel


_erf = special("erf")
# erf(x) = tanh(x * p(x * x)) to single precision where |x| < 4.3; beyond, it is 1.
_ERF_SINGLE = (
    1.1283792, 0.1027699, -0.00019543349, -0.00061462744, 8.446419e-05, -4.7554176e-06, 2.2264105e-08,
    5.684385e-09,
)  # fmt: skip
_FEW, LARGE = 1000, 1 << 15  # elements


@in_single
def _erf_of(x: Any) -> Any:
    """Return the error function; of many single-precision numbers, by a polynomial and NumPy's fast tanh."""
    if x.dtype != np.float32 or (x.size < _FEW and not provider.plainly.inside):  # SciPy would be imported
        return _erf(x)
    return elementwise(_erf_single, x, writes=x.dtype) if x.size >= LARGE else _erf_single(x, None)


def _erf_single(x: Any, out: Any) -> Any:
    near = np.clip(x, np.float32(-4.3), np.float32(4.3))
    square = near * near
    c = square * np.float32(_ERF_SINGLE[-1])
    for coefficient in _ERF_SINGLE[-2:0:-1]:
        c += np.float32(coefficient)
        c *= square
    c += np.float32(_ERF_SINGLE[0])
    c *= near
    return np.tanh(c, out=c if out is None else out)


# The derivative of psi is a sum of terms 1 / (x + k)^2, of which the first eight are added up; the rest is a continued
# fraction in x + 7.5.
_STEPS, _EIGHT_ONES = np.arange(8, dtype=np.float32).reshape(8, 1), np.ones(8, np.float32)


def few_trigamma(x: Any) -> Any:
    """Return the derivative of psi, in single precision, of a few numbers above -2."""
    terms = x.reshape(1, -1) + _STEPS
    number = constants_of(x)
    rest = terms[-1] + number[0.5]
    terms *= terms
    c = np.dot(_EIGHT_ONES, np.reciprocal(terms, terms))
    rest += number[1 / 12] / (rest + number[4 / 15] / rest)
    c += np.reciprocal(rest, rest)
    return c.reshape(x.shape)


def _log1p_exp(x: Any) -> Any:
    """Return ``log(1 + exp(x))`` without overflow: in one call for few numbers, in fast ones for many."""
    if x.size < 128:
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
    square = x * x
    c = square * np.float32(_NORMAL_SINGLE[-1])
    for coefficient in _NORMAL_SINGLE[-2:0:-1]:
        c += np.float32(coefficient)
        c *= square
    c += np.float32(_NORMAL_SINGLE[0])
    c *= x
    np.exp(c, out=c)
    c += np.float32(1)
    return np.divide(np.float32(1), c, out=c)


def _largest_finite(x: Any) -> Any:
    """Return the largest number of an array's dtype."""
    return x.dtype.type(finfo(x.dtype).max)


erf = Function("erf", _erf_of, "erf{w}({0})", "erf({0})")
# As accurate as its largest values, not as each: what gelu needs.
normal_cdf = Function("normal_cdf", _normal, "normal_cdf{w}({0})", "W(0.5) * (W(1) + erf({0} * W(0.7071067811865476)))")
log1p_exp = Function("log1p_exp", _log1p_exp, "log1p_exp{w}({0})", "log1p_exp({0})")
erfc = Function("erfc", special("erfc"), "math.erfc({0})", "erfc({0})")
ndtr = Function(
    "ndtr", _ndtr, "0.5 * math.erfc({0} * -0.7071067811865476)", "W(0.5) * erfc({0} * W(-0.7071067811865476))"
)
largest_finite = Function("largest_finite", _largest_finite, "{largest}", "LARGEST", constant=True)
