"""Special functions, and rarer elementwise ones: their values come from `scalar.special`.

``adjoint.special`` shows those that torch has there; the names in `__all__` are also ``adjoint.NAME``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._typing import Array, Tensor
from ..core import dtypes
from ..core.failures import not_implemented
from ..core.inplace import inplace
from ..core.primitive import by_ufunc
from ..core.recorders import Primitive, binary, elementwise, nary, parametric, public, unary
from ..scalar.special import in_single, special
from ..scalar.symbol import by_name
from .arguments import count_of, dtype_of, require_any, require_pair, require_tensor
from .compare import zeros_p
from .create import into
from .elementwise import add_p, mul_p, sub_p
from .piecewise import where_p
from .power import exponential_p

Number = Any

_SQRT_PI = math.sqrt(math.pi)
_SQRT_2 = math.sqrt(2)


def _no_gradient(name: str) -> Any:
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


def _log_ndtr_x(g: Any, x: Any, out: Any) -> Any:
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
erf_, erfc_, erfinv_ = inplace(erf_p), inplace(erfc_p), inplace(erfinv_p)


@public(erf_p)
def erf(input: Tensor, *, out: Any = None) -> Tensor:
    """Take the error function.

    Examples
    --------
    >>> adjoint.erf(adjoint.tensor([0.0, 1.0]))
    tensor([0.0000, 0.8427])
    """


@public(erfc_p)
def erfc(input: Tensor, *, out: Any = None) -> Tensor:
    """Take one minus the error function, exactly where that is small."""


@public(erfinv_p)
def erfinv(input: Tensor, *, out: Any = None) -> Tensor:
    """Take the inverse of the error function."""


@public(erfcx_p)
def erfcx(input: Tensor, *, out: Any = None) -> Tensor:
    """Take ``exp(x**2) * erfc(x)``, without overflow."""


@public(ndtr_p)
def ndtr(input: Tensor, *, out: Any = None) -> Tensor:
    """Take the probability that a standard normal variable is below each element."""


@public(ndtri_p)
def ndtri(input: Tensor, *, out: Any = None) -> Tensor:
    """Take the inverse of `ndtr`."""


@public(log_ndtr_p)
def log_ndtr(input: Tensor, *, out: Any = None) -> Tensor:
    """Take the logarithm of `ndtr`, without underflow."""


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
lgamma_, digamma_, _polygamma_ = inplace(lgamma_p), inplace(digamma_p), inplace(polygamma_p)


@public(lgamma_p)
def lgamma(input: Tensor, *, out: Any = None) -> Tensor:
    """Take the logarithm of the absolute value of the gamma function."""


gammaln = lgamma


@public(digamma_p)
def digamma(input: Tensor, *, out: Any = None) -> Tensor:
    """Take the derivative of `lgamma`."""


psi = digamma


def polygamma(n: int, input: Tensor, *, out: Any = None) -> Tensor:
    """Take the `n`-th derivative of `digamma`."""
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    return into(out, polygamma_p(input, n))


def polygamma_method(input: Tensor, n: int) -> Tensor:
    """Take the `n`-th derivative of `digamma`."""
    return polygamma(n, input)


def polygamma_(input: Tensor, n: int) -> Tensor:
    """Take the `n`-th derivative of `digamma`, in place."""
    return _polygamma_(input, n)


def mvlgamma(input: Tensor, p: int, *, out: Any = None) -> Tensor:
    """Take the logarithm of the multivariate gamma function of dimension `p`."""
    if count_of(p, "p") < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    if input.array.dtype.kind == "b":
        raise RuntimeError("mvlgamma: Expected a real tensor, not a bool one")
    total = lgamma_p(input)
    for j in range(1, p):
        total = add_p(total, lgamma_p(sub_p(input, j / 2)))
    return into(out, add_p(total, p * (p - 1) / 4 * math.log(math.pi)))


def mvlgamma_(input: Tensor, p: int) -> Tensor:
    """Take the logarithm of the multivariate gamma function, in place."""
    if input.dtype.category < 2:
        raise RuntimeError("mvlgamma: result type Float can't be cast to the desired output type Long")
    return input.copy_(mvlgamma(input.clone(), p))


multigammaln = mvlgamma


def zeta(input: Tensor | Number, other: Tensor | Number, *, out: Any = None) -> Tensor:
    """Take the Hurwitz zeta function; the gradient is for `other`."""
    require_any(input, other, "zeta")
    return into(out, zeta_p(input, other))


def _igamma_y(g: Any, x: Any, y: Any) -> Any:
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


def igamma(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """Take the regularized lower incomplete gamma function; the gradient is for `other`."""
    require_pair(input, other, "igamma")
    return into(out, igamma_p(input, other))


def igammac(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """Take the regularized upper incomplete gamma function; the gradient is for `other`."""
    require_pair(input, other, "igammac")
    return into(out, igammac_p(input, other))


gammainc, gammaincc = igamma, igammac

# --- Bessel functions ---------------------------------------------------------------------------------


def _ratio(out: Any, x: Any, at_zero: float) -> Any:
    """Return ``out / x``, with its limit where `x` is zero, or so small that `out` has lost digits."""
    zero = x * x == 0
    return where_p(zero, at_zero, out / where_p(zero, 1, x))


def _i1e_x(g: Any, x: Any, out: Any) -> Any:
    return g * (i0e_p(x) - out * np.sign(x) - _ratio(out, x, 0.5))


i0_p: Primitive = unary(special("i0"), x=lambda g, x: g * i1_p(x), floating=True, name="i0", holomorphic=False)
i0e_p: Primitive = unary(
    special("i0e"), x=lambda g, x, out: g * (i1e_p(x) - np.sign(x) * out), floating=True, holomorphic=False,
    node_name="SpecialI0EBackward0",
)  # fmt: skip
i1_p: Primitive = unary(
    special("i1"), x=lambda g, x, out: g * (i0_p(x) - _ratio(out, x, 0.5)), floating=True, holomorphic=False,
    node_name="SpecialI1Backward0",
)  # fmt: skip
i1e_p: Primitive = unary(special("i1e"), x=_i1e_x, floating=True, holomorphic=False, node_name="SpecialI1EBackward0")
i0_ = inplace(i0_p)

bessel_j0_p: Primitive = unary(
    special("j0"), x=lambda g, x: -g * bessel_j1_p(x), floating=True, name="bessel_j0", holomorphic=False
)
bessel_j1_p: Primitive = unary(
    special("j1"), x=lambda g, x, out: g * (bessel_j0_p(x) - _ratio(out, x, 0.5)), floating=True,
    name="bessel_j1", holomorphic=False,
)  # fmt: skip
bessel_y0_p: Primitive = unary(
    special("y0"), x=lambda g, x: -g * bessel_y1_p(x), floating=True, name="bessel_y0", holomorphic=False
)
bessel_y1_p: Primitive = unary(
    special("y1"), x=lambda g, x, out: g * (bessel_y0_p(x) - out / x), floating=True, name="bessel_y1",
    holomorphic=False,
)  # fmt: skip
bessel_k0_p: Primitive = unary(
    special("k0"),
    x=lambda g, x: -g * bessel_k1_p(x),
    floating=True,
    name="modified_bessel_k0",
    holomorphic=False,
)
bessel_k1_p: Primitive = unary(
    special("k1"),
    x=lambda g, x, out: -g * (bessel_k0_p(x) + out / x),
    floating=True,
    name="modified_bessel_k1",
    holomorphic=False,
)
bessel_k0e_p: Primitive = unary(
    special("k0e"), x=lambda g, x, out: g * (out - bessel_k1e_p(x)), floating=True,
    name="scaled_modified_bessel_k0", holomorphic=False,
)  # fmt: skip
bessel_k1e_p: Primitive = unary(
    special("k1e"), x=lambda g, x, out: g * (out - bessel_k0e_p(x) - out / x), floating=True,
    name="scaled_modified_bessel_k1", holomorphic=False,
)  # fmt: skip


@public(i0_p)
def i0(input: Tensor, *, out: Any = None) -> Tensor:
    """Take the modified Bessel function of the first kind, order 0."""


@public(i0e_p)
def i0e(input: Tensor, *, out: Any = None) -> Tensor:
    """Take ``exp(-|x|) * i0(x)``."""


@public(i1_p)
def i1(input: Tensor, *, out: Any = None) -> Tensor:
    """Take the modified Bessel function of the first kind, order 1."""


@public(i1e_p)
def i1e(input: Tensor, *, out: Any = None) -> Tensor:
    """Take ``exp(-|x|) * i1(x)``."""


def modified_bessel_i0(input: Tensor, *, out: Any = None) -> Tensor:
    """Take the modified Bessel function of the first kind, order 0."""
    return into(out, i0_p(input))


def modified_bessel_i1(input: Tensor, *, out: Any = None) -> Tensor:
    """Take the modified Bessel function of the first kind, order 1."""
    return into(out, i1_p(input))


@public(bessel_j0_p)
def bessel_j0(input: Tensor, *, out: Any = None) -> Tensor:
    """Take the Bessel function of the first kind, order 0."""


@public(bessel_j1_p)
def bessel_j1(input: Tensor, *, out: Any = None) -> Tensor:
    """Take the Bessel function of the first kind, order 1."""


@public(bessel_y0_p)
def bessel_y0(input: Tensor, *, out: Any = None) -> Tensor:
    """Take the Bessel function of the second kind, order 0."""


@public(bessel_y1_p)
def bessel_y1(input: Tensor, *, out: Any = None) -> Tensor:
    """Take the Bessel function of the second kind, order 1."""


def modified_bessel_k0(input: Tensor, *, out: Any = None) -> Tensor:
    """Take the modified Bessel function of the second kind, order 0."""
    return into(out, bessel_k0_p(input))


def modified_bessel_k1(input: Tensor, *, out: Any = None) -> Tensor:
    """Take the modified Bessel function of the second kind, order 1."""
    return into(out, bessel_k1_p(input))


def scaled_modified_bessel_k0(input: Tensor, *, out: Any = None) -> Tensor:
    """Take ``exp(x) * modified_bessel_k0(x)``."""
    return into(out, bessel_k0e_p(input))


def scaled_modified_bessel_k1(input: Tensor, *, out: Any = None) -> Tensor:
    """Take ``exp(x) * modified_bessel_k1(x)``."""
    return into(out, bessel_k1e_p(input))


def _airy(part: int) -> Callable[..., Any]:
    """Return the kernel of Ai, or of its derivative, which are 0 where SciPy finds them too small."""
    kernel = special("airy", part)
    return lambda x: np.where((x > 200) & np.isfinite(x) & np.isnan(out := kernel(x)), out.dtype.type(0), out)


airy_ai_p: Primitive = unary(
    _airy(0), x=lambda g, x: g * airy_slope_p(x), floating=True, name="airy_ai", holomorphic=False
)
airy_slope_p: Primitive = unary(
    _airy(1),
    x=lambda g, x: g * (x * airy_ai_p(x)),
    floating=True,
    name="airy_slope",
    holomorphic=False,
)


@public(airy_ai_p)
def airy_ai(input: Tensor, *, out: Any = None) -> Tensor:
    """Take the Airy function Ai."""


@in_single
def _sinc(x: Any) -> Any:
    angle = x * math.pi
    return np.where(x == 0, x.dtype.type(1), np.sin(angle) / np.where(x == 0, x.dtype.type(1), angle))


@in_single
def _spherical(x: Any) -> Any:
    out = np.sin(x) / np.where(x == 0, x.dtype.type(1), x)
    return np.where(x == 0, x.dtype.type(1), np.where(np.isinf(x), x.dtype.type(0), out))


def _sine_quotient_x(g: Any, x: Any, rate: float) -> Any:
    """Return the gradient of ``sin(rate * x) / (rate * x)``: near 0, where it would subtract like numbers, a series."""
    angle = x * rate
    near = np.abs(angle) < 0.5
    small = where_p(near, angle, 0)
    square = small * small
    series: Any = 0
    for k in (172972800, 1330560, 15120, 280, 10, 1):
        series = 1 / k - square * series
    far = (angle * np.cos(angle) - np.sin(angle)) / where_p(near, 1, angle * x)
    return g * where_p(near, small * series * (-rate / 3), far)


def _sinc_x(g: Any, x: Any) -> Any:
    return _sine_quotient_x(g, x, math.pi)


def _spherical_x(g: Any, x: Any) -> Any:
    return _sine_quotient_x(g, x, 1.0)


def _spherical_of_reals(x: Any) -> Any:
    if x.dtype.kind == "c":
        raise not_implemented("spherical_bessel_j0_cpu", x)
    return _spherical(x)


sinc_p = unary(_sinc, x=_sinc_x, floating=True, name="sinc")
sinc_ = inplace(sinc_p)
spherical_bessel_j0_p = unary(_spherical_of_reals, x=_spherical_x, floating=True, name="spherical_bessel_j0")


@public(sinc_p)
def sinc(input: Tensor, *, out: Any = None) -> Tensor:
    """Take ``sin(pi x) / (pi x)``, which is 1 at 0."""


@public(spherical_bessel_j0_p)
def spherical_bessel_j0(input: Tensor, *, out: Any = None) -> Tensor:
    """Take ``sin(x) / x``, which is 1 at 0."""


# --- Logarithms ---------------------------------------------------------------------------------------


@in_single
def _logit(x: Any, eps: Any) -> Any:
    if eps is not None:
        # Not a clamp: with `eps` above one half the bounds are crossed, and the lower one is tried first.
        x = np.where(x < eps, x.dtype.type(eps), np.minimum(x, x.dtype.type(1 - eps)))
    return np.log(x / (1 - x))


def _logit_x(g: Any, x: Any, eps: Any) -> Any:
    if eps is None or eps < 0:
        return where_p((x >= 0) & (x <= 1), g / (x * (1 - x)), math.nan)
    return where_p((x >= eps) & (x <= 1 - eps), g / (x * (1 - x)), 0)


logit_p = parametric(_logit, x=_logit_x, floating=True, jvp="elementwise", batch="same")
_logit_ = inplace(logit_p)


def logit(input: Tensor, eps: float | None = None, *, out: Any = None) -> Tensor:
    """Take the inverse of the sigmoid; `eps` keeps the input away from 0 and 1."""
    return into(out, logit_p(input, eps))


def logit_(input: Tensor, eps: float | None = None) -> Tensor:
    """Take the inverse of the sigmoid, in place."""
    return _logit_(input, eps)


@in_single
def _entr(x: Any) -> Any:
    if x.dtype.kind == "c":
        raise not_implemented("entr_cpu", x)
    positive = np.where(x > 0, x, x.dtype.type(1))
    return np.where(x > 0, -x * np.log(positive), np.where(x == 0, x.dtype.type(0), np.where(np.isnan(x), x, -np.inf)))


entr_p = unary(
    _entr, x=lambda g, x: g * (-1 - np.log(x)), floating=True, name="entr", holomorphic=False,
    node_name="SpecialEntrBackward0",
)  # fmt: skip


@public(entr_p)
def entr(input: Tensor, *, out: Any = None) -> Tensor:
    """Take the entropy ``-x * log(x)``: 0 at 0, minus infinity below."""


def _times_log(log: Any, x: Any, y: Any) -> Any:
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


def xlogy(input: Tensor | Number, other: Tensor | Number, *, out: Any = None) -> Tensor:
    """Take ``input * log(other)``, which is 0 where `input` is 0."""
    require_any(input, other, "xlogy")
    return into(out, xlogy_p(input, other))


def xlog1py(input: Tensor | Number, other: Tensor | Number, *, out: Any = None) -> Tensor:
    """Take ``input * log(1 + other)``, which is 0 where `input` is 0."""
    require_any(input, other, "xlog1py")
    return into(out, xlog1py_p(input, other))


def _logaddexp(x: Any, y: Any) -> Any:
    if dtype_of(x).kind == "c":
        first = x.real >= y.real
        high, low = np.where(first, x, y), np.where(first, y, x)
        return high + np.log1p(np.exp(low - high))
    return np.logaddexp(x, y)


def _logaddexp2(x: Any, y: Any) -> Any:
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


def logaddexp(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """Take the logarithm of the sum of exponentials of both, without overflow."""
    require_pair(input, other, "logaddexp")
    return into(out, logaddexp_p(input, other))


def logaddexp2(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """Take the base-2 logarithm of the sum of powers of 2 of both, without overflow."""
    require_pair(input, other, "logaddexp2")
    return into(out, logaddexp2_p(input, other))


# --- Bits and pieces of floating-point numbers ----------------------------------------------------------


def _copysign_x(g: Any, x: Any, out: Any) -> Any:
    return g * where_p(x == 0, 0, out / where_p(x == 0, 1, x))


copysign_p = binary(np.copysign, x=_copysign_x, y=lambda g: zeros_p(g), floating=True, holomorphic=False)
nextafter_p = binary(np.nextafter, x=lambda g, x, y: where_p(x == y, 0, g), y=lambda g: zeros_p(g))
heaviside_p = binary(
    lambda x, y: np.where(x == 0, y, np.where(x > 0, x.dtype.type(1), x.dtype.type(0))), name="heaviside"
)
gcd_p = binary(np.gcd)
lcm_p = binary(lambda x, y: np.abs(np.lcm(x, y)), name="lcm")
copysign_, nextafter_, _heaviside_ = inplace(copysign_p), inplace(nextafter_p), inplace(heaviside_p)
gcd_, lcm_ = inplace(gcd_p), inplace(lcm_p)


def copysign(input: Tensor, other: Tensor | Number, *, out: Any = None) -> Tensor:
    """Take the size of `input` and the sign of `other`."""
    require_tensor(input, "input", "copysign")
    return into(out, copysign_p(input, other))


def nextafter(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """Take the next floating-point number after `input` in the direction of `other`."""
    require_pair(input, other, "nextafter")
    return into(out, nextafter_p(input, other))


def heaviside(input: Tensor, values: Tensor, *, out: Any = None) -> Tensor:
    """Take 0 below zero, 1 above it and `values` at it."""
    _check_heaviside(input, values, "heaviside")
    return into(out, heaviside_p(input, values))


def heaviside_(input: Tensor, values: Tensor) -> Tensor:
    """Take 0 below zero, 1 above it and `values` at it, in place."""
    _check_heaviside(input, values, "heaviside_")
    return _heaviside_(input, values)


def _check_heaviside(input: Tensor, values: Tensor, op: str) -> None:
    require_pair(input, values, op)
    if input.array.dtype != values.array.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")


def gcd(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """Take the greatest common divisor of integers."""
    require_pair(input, other, "gcd")
    return into(out, gcd_p(input, other))


def lcm(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """Take the least common multiple of integers."""
    require_pair(input, other, "lcm")
    return into(out, lcm_p(input, other))


def ldexp(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """Multiply `input` by 2 to the power of `other`."""
    require_pair(input, other, "ldexp")
    return into(out, mul_p(input, _powers_of_2(other)))


def ldexp_(input: Tensor, other: Tensor) -> Tensor:
    """Multiply `input` by 2 to the power of `other`, in place."""
    return input.mul_(_powers_of_2(other))


def _powers_of_2(exponents: Tensor) -> Tensor:
    if exponents.array.dtype.kind == "b":
        raise not_implemented("ldexp_cpu_exp", exponents.array)
    return exponential_p(exponents if exponents.dtype.category > 1 else exponents.to(dtypes.default()), 2.0)


def _frexp(x: Any) -> Any:
    if x.dtype.kind != "f" and x.dtype.name != "bfloat16":
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    return np.frexp(x)


frexp_p = nary(
    _frexp,
    inputs=1,
    x=lambda g, out: None if g[0] is None else g[0] * np.exp2(-out[1] * 1.0),
    outputs=True,
    batch="same",
)


class Frexp(NamedTuple):
    """What `frexp` returns."""

    mantissa: Any
    exponent: Any


def frexp(input: Tensor, *, out: Any = None) -> Any:
    """Split into mantissa and exponent: ``input == mantissa * 2**exponent``."""
    result = Frexp(*frexp_p(input))
    return result if out is None else Frexp(*(into(o, r) for o, r in zip(out, result, strict=True)))


# --- Orthogonal polynomials ---------------------------------------------------------------------------


def _recurrent(first: Callable[[Any], Any], step: Callable[..., Any], shift: bool = False) -> Callable[..., Any]:
    """Return the kernel of a family of polynomials: degree 0 is 1, degree 1 `first`, the others by `step`."""

    def kernel(x: Any, y: Any) -> Any:
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


def _chebyshev(k: int, x: Any, now: Any, before: Any) -> Any:
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

    def function(input: Tensor | Number, n: Tensor | Number, *, out: Any = None) -> Tensor:
        require_any(input, n, name)
        if isinstance(n, int) and n >= 2**63:
            raise OverflowError(f"{name}(): int too big to convert: {n}")
        return into(out, primitive(input, n))

    title = name.replace("_", " ").replace("polynomial", "polynomial of degree `n`, kind")
    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Take the {title}."
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
    "copysign", "digamma", "erf", "erf_", "erfc", "erfc_", "erfinv", "frexp", "gcd", "gcd_", "heaviside",
    "i0", "i0_", "igamma", "igammac", "lcm", "lcm_", "ldexp", "ldexp_", "lgamma", "logaddexp",
    "logaddexp2", "logit", "logit_", "mvlgamma", "nextafter", "polygamma", "sinc", "sinc_", "xlogy",
    "xlogy_",
]  # fmt: skip
