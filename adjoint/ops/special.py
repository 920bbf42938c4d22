"""Special functions, and rarer elementwise ones: their values come from `scalar.special`.

``adjoint.special`` shows those that torch has there; the names in `__all__` are also ``adjoint.NAME``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._typing import Array, Number, Tensor, Value
from ..core.failures import not_implemented
from ..core.inplace import inplace
from ..core.primitive import by_ufunc
from ..core.recorders import Primitive, binary, elementwise, parametric, public, unary
from ..scalar.special import in_single, special
from ..scalar.symbol import by_name
from .arguments import count_of, dtype_of, require_any, require_pair
from .create import into
from .elementwise import add_p, sub_p
from .piecewise import where_p

_SQRT_PI = math.sqrt(math.pi)
_SQRT_2 = math.sqrt(2)


def _no_gradient(name: str) -> Tensor:
    raise NotImplementedError(
        f"the derivative for '{name}' with respect to its first argument is not implemented: detach() it"
    )


# --- The error function and the normal distribution -----------------------------------------------------


_erf, _erfc, _ndtr = by_name["erf"], by_name["erfc"], by_name["ndtr"]
erf_p = elementwise(
    "erf",
    lambda x: _erf(x),
    x=lambda g, x: g * (2 / _SQRT_PI * np.exp(-(x * x))),
    floating=True,
    holomorphic=False,
)
erfc_p = elementwise(
    "erfc",
    lambda x: _erfc(x),
    x=lambda g, x: g * (-2 / _SQRT_PI * np.exp(-(x * x))),
    floating=True,
    holomorphic=False,
)
_erfinv = special("erfinv")
erfinv_p = unary(
    lambda x: np.copysign(_erfinv(x), x),  # SciPy loses the sign of zero
    name="erfinv",
    x=lambda g, out: g * (_SQRT_PI / 2 * np.exp(out * out)),
    floating=True,
    holomorphic=False,
)
erfcx_p: Any = unary(
    special("erfcx"),
    x=lambda g, x, out: g * (2 * x * out - 2 / _SQRT_PI),
    floating=True,
    holomorphic=False,
    node_name="SpecialErfcxBackward0",
)
ndtr_p = unary(
    _ndtr,
    x=lambda g, x: g * (np.exp(-0.5 * (x * x)) / math.sqrt(2 * math.pi)),
    floating=True,
    holomorphic=False,
)
ndtri_p = unary(
    special("ndtri"),
    x=lambda g, out: g * (np.exp(0.5 * (out * out)) * math.sqrt(2 * math.pi)),
    floating=True,
    holomorphic=False,
    node_name="SpecialNdtriBackward0",
)


def _log_ndtr_x(g: Value, x: Value, out: Value) -> Value:
    # Above 0 erfcx grows beyond all floats, below the difference of two large numbers would lose digits.
    above = np.exp(-0.5 * x * x - out) / math.sqrt(2 * math.pi)
    below = math.sqrt(2 / math.pi) / erfcx_p(where_p(x > 0, 0, x) * (-1 / _SQRT_2))
    return g * where_p(x > 0, above, below)


log_ndtr_p = unary(
    special("log_ndtr"),
    x=_log_ndtr_x,
    floating=True,
    holomorphic=False,
    node_name="SpecialLogNdtrBackward0",
)
erf_ = inplace(
    erf_p,
    example="""
    >>> x = adjoint.tensor([0.0, 1.0])
    >>> x.erf_()
    tensor([0.0000, 0.8427])
    """,
)
erfc_ = inplace(
    erfc_p,
    example="""
    >>> x = adjoint.tensor([0.0, 1.0])
    >>> x.erfc_()
    tensor([1.0000, 0.1573])
    """,
)
erfinv_ = inplace(
    erfinv_p,
    example="""
    >>> x = adjoint.tensor([0.0, 0.5])
    >>> x.erfinv_()
    tensor([0.0000, 0.4769])
    """,
)


@public(erf_p)
def erf(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the error function of each element: ``2 / sqrt(pi) * integral of exp(-t ** 2) from 0 to x``.

    Parameters
    ----------
    input : Tensor
        Of any shape. Integers and booleans are converted to the default float dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`. Values between -1 and 1. The derivative is ``2 / sqrt(pi) * exp(-x ** 2)``.

    Examples
    --------
    >>> adjoint.erf(adjoint.tensor([0.0, 1.0, -2.0]))
    tensor([ 0.0000,  0.8427, -0.9953])
    """


@public(erfc_p)
def erfc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the complementary error function of each element: ``1 - erf(x)``.

    Parameters
    ----------
    input : Tensor
        Of any shape. Integers and booleans are converted to the default float dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`. Accurate where it is small, unlike the difference.

    Examples
    --------
    >>> adjoint.erfc(adjoint.tensor([0.0, 1.0]))
    tensor([1.0000, 0.1573])
    """


@public(erfinv_p)
def erfinv(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the inverse of the error function: the y for which ``erf(y)`` is x.

    Parameters
    ----------
    input : Tensor
        Of any shape. Integers and booleans are converted to the default float dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`. Infinite at -1 and 1, NaN outside of these. The derivative is
        ``sqrt(pi) / 2 * exp(y ** 2)``.

    Examples
    --------
    >>> y = adjoint.erfinv(adjoint.tensor([0.0, 0.5, -1.0]))
    >>> y
    tensor([0.0000, 0.4769,   -inf])
    >>> adjoint.erf(y)
    tensor([ 0.0000,  0.5000, -1.0000])
    """


@public(erfcx_p)
def erfcx(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Take ``exp(x**2) * erfc(x)``, without overflow.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`; integers give the default float dtype.

    Examples
    --------
    >>> adjoint.special.erfcx(adjoint.tensor([-1.0, 0.0, 1.0]))
    tensor([5.0090, 1.0000, 0.4276])
    """


@public(ndtr_p)
def ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Take the probability that a standard normal variable is below each element.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`; integers give the default float dtype.

    Examples
    --------
    >>> adjoint.special.ndtr(adjoint.tensor([-1.0, 0.0, 1.0]))
    tensor([0.1587, 0.5000, 0.8413])
    """


@public(ndtri_p)
def ndtri(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Take the inverse of `ndtr`: the quantile of the standard normal distribution.

    Parameters
    ----------
    input : Tensor
        Probabilities.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`; integers give the default float dtype.

    Examples
    --------
    >>> adjoint.special.ndtri(adjoint.tensor([0.025, 0.5, 0.975]))
    tensor([-1.9600,  0.0000,  1.9600])
    """


@public(log_ndtr_p)
def log_ndtr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Take the logarithm of `ndtr`, without underflow.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`; integers give the default float dtype.

    Examples
    --------
    >>> adjoint.special.log_ndtr(adjoint.tensor([-1.0, 0.0, 1.0]))
    tensor([-1.8410, -0.6931, -0.1728])
    """


# --- The gamma function -------------------------------------------------------------------------------

_psi = special("psi")


def _digamma(x: Array) -> Any:
    return np.where(x == 0, np.copysign(x.dtype.type(np.inf), -x), _psi(x))  # SciPy has NaN at both zeros


@in_single
def _polygamma(x: Array, n: int) -> Any:
    if n == 0:
        return _digamma(x)
    sign = (-1.0) ** (n + 1) * math.factorial(n)
    return x.dtype.type(sign) * _zeta(x.dtype.type(n + 1), x)


_zeta = special("zeta")
_gammaln = special("gammaln")


def _lgamma(x: Any) -> Any:
    out = _gammaln(x)
    finite = np.isfinite(out)
    if finite.all():
        return out
    # SciPy has other limits at -inf, and none near 0, where gamma(x) is 1 / x.
    near = np.where(~finite & (np.abs(x) < 1), -np.log(np.abs(x)), out)
    return np.where(np.isneginf(x), np.inf, near).astype(x.dtype)


lgamma_p = unary(_lgamma, x=lambda g, x: g * digamma_p(x), floating=True, name="lgamma", holomorphic=False)
digamma_p: Primitive = unary(
    _digamma, x=lambda g, x: g * polygamma_p(x, 1), floating=True, name="digamma", holomorphic=False
)
polygamma_p: Primitive = parametric(
    _polygamma, x=lambda g, x, n: g * polygamma_p(x, n + 1), floating=True, jvp="elementwise", batch="same"
)
zeta_p: Primitive = binary(
    _zeta,
    x=lambda g: _no_gradient("zeta"),
    y=lambda g, x, y: g * (-x * zeta_p(x + 1, y)),
    floating=True,
    name="zeta",
    holomorphic=False,
    node_name="SpecialZetaBackward0",
)
_polygamma_ = inplace(polygamma_p)
lgamma_ = inplace(
    lgamma_p,
    example="""
    >>> x = adjoint.tensor([1.0, 3.0])
    >>> x.lgamma_()
    tensor([0.0000, 0.6931])
    """,
)
digamma_ = inplace(
    digamma_p,
    example="""
    >>> x = adjoint.tensor([1.0, 2.0])
    >>> x.digamma_()
    tensor([-0.5772,  0.4228])
    """,
)


@public(lgamma_p)
def lgamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the logarithm of the absolute value of the gamma function: ``log(|gamma(x)|)``.

    Parameters
    ----------
    input : Tensor
        Of any shape. Integers and booleans are converted to the default float dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`. Infinite at 0 and at negative integers. The derivative is `digamma`. For a positive
        integer n it is the logarithm of the factorial of n - 1.

    Examples
    --------
    >>> adjoint.lgamma(adjoint.tensor([0.5, 1.0, 5.0]))
    tensor([0.5724, 0.0000, 3.1781])
    >>> adjoint.lgamma(adjoint.tensor(5.0)).exp()
    tensor(24.)
    """


gammaln = lgamma


@public(digamma_p)
def digamma(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the derivative of `lgamma`: the logarithmic derivative of the gamma function.

    Parameters
    ----------
    input : Tensor
        Of any shape. Integers and booleans are converted to the default float dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`. Infinite at 0, NaN at negative integers.

    Examples
    --------
    >>> adjoint.digamma(adjoint.tensor([1.0, 0.5]))
    tensor([-0.5772, -1.9635])
    """


psi = digamma


def polygamma(n: int, input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Take the `n`-th derivative of `digamma`.

    Parameters
    ----------
    n : int
        Order of the derivative, not negative.
    input : Tensor
        Of any shape.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`; integers give the default float dtype.

    Raises
    ------
    RuntimeError
        If `n` is negative.

    Examples
    --------
    >>> adjoint.special.polygamma(1, adjoint.tensor([0.5, 1.0, 2.0]))
    tensor([4.9348, 1.6449, 0.6449])
    """
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return into(out, polygamma_p(input, n))


def polygamma_method(input: Tensor, n: int) -> Tensor:
    """Return the `n`-th derivative of `digamma`."""
    return polygamma(n, input)


def polygamma_(input: Tensor, n: int) -> Tensor:
    """Return the `n`-th derivative of `digamma`, in place."""
    return _polygamma_(input, n)


def mvlgamma(input: Tensor, p: int, *, out: Tensor | None = None) -> Tensor:
    """Take the logarithm of the multivariate gamma function of dimension `p`.

    ``p * (p - 1) / 4 * log(pi) + sum_i lgamma(input - i / 2)`` for i from 0 to ``p - 1``.

    Parameters
    ----------
    input : Tensor
        Above ``(p - 1) / 2``.
    p : int
        Dimension.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`; integers give the default float dtype.

    Examples
    --------
    >>> adjoint.mvlgamma(adjoint.tensor([1.5, 3.0]), 2)
    tensor([0.4516, 1.5502])
    """
    if count_of(p, "p") < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    if input.array.dtype.kind == "b":
        raise RuntimeError("mvlgamma: Expected a real tensor, not a bool one")
    total = lgamma_p(input)
    for j in range(1, p):
        total = add_p(total, lgamma_p(sub_p(input, j / 2)))
    return into(out, add_p(total, p * (p - 1) / 4 * math.log(math.pi)))


def mvlgamma_(input: Tensor, p: int) -> Tensor:
    """Return the logarithm of the multivariate gamma function, in place."""
    if input.dtype.category < 2:
        raise RuntimeError("mvlgamma: result type Float can't be cast to the desired output type Long")
    return input.copy_(mvlgamma(input.clone(), p))


multigammaln = mvlgamma


def zeta(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Take the Hurwitz zeta function ``sum_k (k + other) ** -input``; the gradient is for `other`.

    Parameters
    ----------
    input : Tensor or number
        Exponent.
    other : Tensor or number
        Offset, broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Examples
    --------
    >>> adjoint.special.zeta(adjoint.tensor([2.0, 4.0]), 1.0)
    tensor([1.6449, 1.0823])
    """
    require_any(input, other, "zeta")
    return into(out, zeta_p(input, other))


def _igamma_y(g: Value, x: Value, y: Value) -> Any:
    return g * np.exp((x - 1) * np.log(y) - y - lgamma_p(x))


igamma_p = binary(
    special("gammainc"),
    x=lambda g: _no_gradient("igamma"),
    y=_igamma_y,
    floating=True,
    name="igamma",
    holomorphic=False,
)
igammac_p = binary(
    special("gammaincc"),
    x=lambda g: _no_gradient("igammac"),
    y=lambda g, x, y: -_igamma_y(g, x, y),
    floating=True,
    name="igammac",
    holomorphic=False,
)
igamma_, igammac_ = inplace(igamma_p), inplace(igammac_p)


def igamma(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Take the regularized lower incomplete gamma function; the gradient is for `other`.

    Parameters
    ----------
    input : Tensor
        Shape of the gamma distribution, not negative.
    other : Tensor
        Limit of the integral, not negative; broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape, from 0 to 1.

    Examples
    --------
    >>> adjoint.igamma(adjoint.tensor([1.0, 2.0]), adjoint.tensor([1.0, 1.0]))
    tensor([0.6321, 0.2642])
    """
    require_pair(input, other, "igamma")
    return into(out, igamma_p(input, other))


def igammac(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Take the regularized upper incomplete gamma function; the gradient is for `other`.

    Parameters
    ----------
    input : Tensor
        Shape of the gamma distribution, not negative.
    other : Tensor
        Limit of the integral, not negative; broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape, from 0 to 1.

    Examples
    --------
    >>> adjoint.igammac(adjoint.tensor([1.0, 2.0]), adjoint.tensor([1.0, 1.0]))
    tensor([0.3679, 0.7358])
    """
    require_pair(input, other, "igammac")
    return into(out, igammac_p(input, other))


gammainc, gammaincc = igamma, igammac

# --- Logarithms ---------------------------------------------------------------------------------------


@in_single
def _logit(x: Array, eps: float | None) -> Array:
    if eps is not None:
        # Not a clamp: with `eps` above one half the bounds are crossed, and the lower one is tried first.
        x = np.where(x < eps, x.dtype.type(eps), np.minimum(x, x.dtype.type(1 - eps)))
    return np.log(x / (1 - x))


def _logit_x(g: Value, x: Value, eps: float | None) -> Value:
    if eps is None or eps < 0:
        return where_p((x >= 0) & (x <= 1), g / (x * (1 - x)), math.nan)
    return where_p((x < eps) | (x > 1 - eps), 0, g / (x * (1 - x)))


logit_p = parametric(_logit, x=_logit_x, floating=True, jvp="elementwise", batch="same")
_logit_ = inplace(logit_p)


def logit(input: Tensor, eps: float | None = None, *, out: Tensor | None = None) -> Tensor:
    """Take the inverse of the sigmoid, ``log(x / (1 - x))``.

    Parameters
    ----------
    input : Tensor
        Probabilities; others give NaN without `eps`.
    eps : float, optional
        Limits `input` to the interval from `eps` to ``1 - eps`` first.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`; integers give the default float dtype.

    Examples
    --------
    >>> adjoint.logit(adjoint.tensor([0.1, 0.5, 1.0]))
    tensor([-2.1972,  0.0000,     inf])
    >>> adjoint.logit(adjoint.tensor([0.1, 0.5, 1.0]), eps=1e-6)
    tensor([-2.1972,  0.0000, 13.8023])
    """
    return into(out, logit_p(input, eps))


def logit_(input: Tensor, eps: float | None = None) -> Tensor:
    """Take the inverse of the sigmoid, in place.

    Parameters
    ----------
    input : Tensor
        Tensor to overwrite.
    eps : float, optional
        Limits `input` to the interval from `eps` to ``1 - eps`` first.

    Returns
    -------
    Tensor
        `input`.

    Examples
    --------
    >>> adjoint.tensor([0.1, 0.5]).logit_()
    tensor([-2.1972,  0.0000])
    """
    return _logit_(input, eps)


@in_single
def _entr(x: Array) -> Array:
    if x.dtype.kind == "c":
        raise not_implemented("entr_cpu", x)
    positive = np.where(x > 0, x, x.dtype.type(1))
    return np.where(x > 0, -x * np.log(positive), np.where(x == 0, x.dtype.type(0), np.where(np.isnan(x), x, -np.inf)))


entr_p = unary(
    _entr, x=lambda g, x: g * (-1 - np.log(x)), floating=True, name="entr", holomorphic=False,
    node_name="SpecialEntrBackward0",
)  # fmt: skip


@public(entr_p)
def entr(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Take the entropy ``-x * log(x)``: 0 at 0, minus infinity below.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`; integers give the default float dtype.

    Examples
    --------
    >>> adjoint.special.entr(adjoint.tensor([0.0, 0.5, 1.0]))
    tensor([0.0000, 0.3466, -0.0000])
    """


def _times_log(log: Any, x: Array, y: Value) -> Array:
    if x.dtype.kind == "c":
        raise not_implemented("xlogy_cpu", x)
    return np.where(np.isnan(y), y, np.where(x == 0, x.dtype.type(0), x * log(y)))


xlogy_p = binary(
    lambda x, y: _times_log(np.log, x, y),
    x=lambda g, x, y: g * where_p((x == 0) & (y <= 0), 0, np.log(y)),
    y=lambda g, x, y: g * (x / y),
    floating=True,
    name="xlogy",
    holomorphic=False,
)
xlog1py_p = binary(
    lambda x, y: _times_log(np.log1p, x, y),
    x=lambda g, x, y: g * where_p((x == 0) & (y <= -1), 0, np.log1p(y)),
    y=lambda g, x, y: g * (x / (y + 1)),
    floating=True,
    name="xlog1py",
    holomorphic=False,
    node_name="SpecialXlog1PyBackward0",
)
xlogy_ = inplace(xlogy_p)


def xlogy(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Take ``input * log(other)``, which is 0 where `input` is 0.

    Parameters
    ----------
    input : Tensor or number
        Factor.
    other : Tensor or number
        Broadcast with `input`; at least one of both is a tensor.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Examples
    --------
    >>> adjoint.xlogy(adjoint.tensor([0.0, 2.0]), adjoint.tensor([0.0, 3.0]))
    tensor([0.0000, 2.1972])
    """
    require_any(input, other, "xlogy")
    return into(out, xlogy_p(input, other))


def xlog1py(input: Tensor | Number, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Take ``input * log(1 + other)``, which is 0 where `input` is 0.

    Parameters
    ----------
    input : Tensor or number
        Factor.
    other : Tensor or number
        Broadcast with `input`; at least one of both is a tensor.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Examples
    --------
    >>> adjoint.special.xlog1py(adjoint.tensor([0.0, 2.0]), adjoint.tensor([-1.0, 2.0]))
    tensor([0.0000, 2.1972])
    """
    require_any(input, other, "xlog1py")
    return into(out, xlog1py_p(input, other))


def log_add(x: Any, y: Any) -> Any:
    """Return the logarithm of the sum of exponentials of complex numbers."""
    first = x.real >= y.real
    high, low = np.where(first, x, y), np.where(first, y, x)
    infinite = (high.real == low.real) & np.isinf(high.real)  # whose difference is only that of the imaginary parts
    out = high + np.log1p(np.exp(np.where(infinite, 1j * (low.imag - high.imag), low - high)))
    return np.where(infinite & (high.real < 0), low, out)  # not 0 times infinity


def _logaddexp(x: Array, y: Value) -> Any:
    return log_add(x, y) if dtype_of(x).kind == "c" else np.logaddexp(x, y)


def _logaddexp2(x: Value, y: Value) -> Array:
    _require_floats(x, "logaddexp2")
    return np.logaddexp2(x, y)


def _require_floats(x: Any, name: str) -> None:
    if x.dtype.kind in "biu":
        raise not_implemented(name, x)


logaddexp_p = elementwise(
    "logaddexp",
    _logaddexp,
    x=lambda g, x, y: g / (1 + np.exp(y - x)),
    y=lambda g, x, y: g / (1 + np.exp(x - y)),
    check=_require_floats,
)
logaddexp2_p = binary(
    _logaddexp2, x=lambda g, x, y: g / (1 + np.exp2(y - x)), y=lambda g, x, y: g / (1 + np.exp2(x - y))
)
by_ufunc.update({np.logaddexp: logaddexp_p, np.logaddexp2: logaddexp2_p})


def logaddexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Take the logarithm of the sum of exponentials of both, without overflow.

    ``log(exp(input) + exp(other))``

    Parameters
    ----------
    input : Tensor
        Of any shape.
    other : Tensor
        Broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Examples
    --------
    >>> adjoint.logaddexp(adjoint.tensor([0.0, 1000.0]), adjoint.tensor([0.0, 1000.0]))
    tensor([6.9315e-01, 1.0007e+03])
    """
    require_pair(input, other, "logaddexp")
    return into(out, logaddexp_p(input, other))


def logaddexp2(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Take the base-2 logarithm of the sum of powers of 2 of both, without overflow.

    ``log2(2**input + 2**other)``

    Parameters
    ----------
    input : Tensor
        Of any shape.
    other : Tensor
        Broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Examples
    --------
    >>> adjoint.logaddexp2(adjoint.tensor([0.0, 1000.0]), adjoint.tensor([0.0, 1000.0]))
    tensor([1.0000e+00, 1.0010e+03])
    """
    require_pair(input, other, "logaddexp2")
    return into(out, logaddexp2_p(input, other))


# --- Orthogonal polynomials ---------------------------------------------------------------------------


def _recurrent(first: Callable[[Any], Any], step: Callable[..., Any], shift: bool = False) -> Callable[..., Any]:
    """Return the kernel of a family of polynomials: degree 0 is 1, degree 1 `first`, the others by `step`."""

    def kernel(x: Array, y: Value) -> Array:
        n = np.where(np.abs(y) < 2.0**63, np.trunc(y), -1)  # no degree: the polynomial is 0
        if shift:
            x = x + x - 1
        before, now = np.ones_like(x), first(x)
        out = np.where(n == 0, before, np.where(n == 1, now, x.dtype.type(0)))
        for k in range(1, 0 if 0 in n.shape else int(n.max())):
            before, now = now, step(k, x, now, before)
            out = np.where(n == k + 1, now, out)
        return out

    return kernel


def _chebyshev(k: int, x: Value, now: Any, before: Value) -> Any:
    return 2 * x * now - before


_FAMILIES: dict[str, tuple[Callable[[Any], Any], Callable[..., Any]]] = {
    "chebyshev_polynomial_t": (lambda x: x, _chebyshev),
    "chebyshev_polynomial_u": (lambda x: x + x, _chebyshev),
    "chebyshev_polynomial_v": (lambda x: x + x - 1, _chebyshev),
    "chebyshev_polynomial_w": (lambda x: x + x + 1, _chebyshev),
    "hermite_polynomial_h": (lambda x: x + x, lambda k, x, now, before: 2 * (x * now - k * before)),
    "hermite_polynomial_he": (lambda x: x, lambda k, x, now, before: x * now - k * before),
    "laguerre_polynomial_l": (
        lambda x: 1 - x,
        lambda k, x, now, before: ((2 * k + 1 - x) * now - k * before) / (k + 1),
    ),
    "legendre_polynomial_p": (
        lambda x: x,
        lambda k, x, now, before: ((2 * k + 1) * x * now - k * before) / (k + 1),
    ),
}


def _polynomial(name: str, family: str, shift: bool = False) -> Callable[..., Tensor]:
    primitive = binary(_recurrent(*_FAMILIES[family], shift), name=name, floating=True)

    def function(input: Tensor | Number, n: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
        require_any(input, n, name)
        if isinstance(n, int) and n >= 2**63:
            raise OverflowError(f"{name}(): int too big to convert: {n}")
        return into(out, primitive(input, n))

    title = name.replace("_", " ").replace("polynomial", "polynomial of degree `n`, kind")
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return the {title}."
    return function


chebyshev_polynomial_t = _polynomial("chebyshev_polynomial_t", "chebyshev_polynomial_t")
chebyshev_polynomial_u = _polynomial("chebyshev_polynomial_u", "chebyshev_polynomial_u")
chebyshev_polynomial_v = _polynomial("chebyshev_polynomial_v", "chebyshev_polynomial_v")
chebyshev_polynomial_w = _polynomial("chebyshev_polynomial_w", "chebyshev_polynomial_w")
shifted_chebyshev_polynomial_t = _polynomial("shifted_chebyshev_polynomial_t", "chebyshev_polynomial_t", True)
shifted_chebyshev_polynomial_u = _polynomial("shifted_chebyshev_polynomial_u", "chebyshev_polynomial_u", True)
shifted_chebyshev_polynomial_v = _polynomial("shifted_chebyshev_polynomial_v", "chebyshev_polynomial_v", True)
shifted_chebyshev_polynomial_w = _polynomial("shifted_chebyshev_polynomial_w", "chebyshev_polynomial_w", True)
hermite_polynomial_h = _polynomial("hermite_polynomial_h", "hermite_polynomial_h")
hermite_polynomial_he = _polynomial("hermite_polynomial_he", "hermite_polynomial_he")
laguerre_polynomial_l = _polynomial("laguerre_polynomial_l", "laguerre_polynomial_l")
legendre_polynomial_p = _polynomial("legendre_polynomial_p", "legendre_polynomial_p")

__all__ = [
    "digamma", "erf", "erf_", "erfc", "erfc_", "erfinv", "igamma", "igammac", "lgamma", "logaddexp", "logaddexp2",
    "logit", "logit_", "mvlgamma", "polygamma", "xlogy", "xlogy_",
]  # fmt: skip
