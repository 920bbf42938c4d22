"""Bessel functions, Airy functions and sinc."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._typing import Array, Tensor, Value
from ..core.failures import not_implemented
from ..core.inplace import inplace
from ..core.recorders import Primitive, public, unary
from ..scalar.special import in_single, special
from .create import into
from .piecewise import where_p

__all__ = [
    "i0", "i0_", "sinc", "sinc_",
]  # fmt: skip


def _ratio(out: Value, x: Value, at_zero: float) -> Any:
    """Return ``out / x``, with its limit where `x` is zero, or so small that `out` has lost digits."""
    zero = x * x == 0
    return where_p(zero, at_zero, out / where_p(zero, 1, x))


def _i1e_x(g: Value, x: Value, out: Value) -> Any:
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
i0_ = inplace(
    i0_p,
    example="""
    >>> x = adjoint.tensor([0.0, 1.0])
    >>> x.i0_()
    tensor([1.0000, 1.2661])
    """,
)

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
def i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Take the modified Bessel function of the first kind, order 0.

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
    >>> adjoint.special.i0(adjoint.tensor([0.5, 1.0, 2.0]))
    tensor([1.0635, 1.2661, 2.2796])
    """


@public(i0e_p)
def i0e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Take ``exp(-|x|) * i0(x)``.

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
    >>> adjoint.special.i0e(adjoint.tensor([0.5, 1.0, 2.0]))
    tensor([0.6450, 0.4658, 0.3085])
    """


@public(i1_p)
def i1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Take the modified Bessel function of the first kind, order 1.

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
    >>> adjoint.special.i1(adjoint.tensor([0.5, 1.0, 2.0]))
    tensor([0.2579, 0.5652, 1.5906])
    """


@public(i1e_p)
def i1e(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Take ``exp(-|x|) * i1(x)``.

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
    >>> adjoint.special.i1e(adjoint.tensor([0.5, 1.0, 2.0]))
    tensor([0.1564, 0.2079, 0.2153])
    """


def modified_bessel_i0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Take the modified Bessel function of the first kind, order 0.

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
    >>> adjoint.special.modified_bessel_i0(adjoint.tensor([0.5, 1.0, 2.0]))
    tensor([1.0635, 1.2661, 2.2796])
    """
    return into(out, i0_p(input))


def modified_bessel_i1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Take the modified Bessel function of the first kind, order 1.

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
    >>> adjoint.special.modified_bessel_i1(adjoint.tensor([0.5, 1.0, 2.0]))
    tensor([0.2579, 0.5652, 1.5906])
    """
    return into(out, i1_p(input))


@public(bessel_j0_p)
def bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Take the Bessel function of the first kind, order 0.

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
    >>> adjoint.special.bessel_j0(adjoint.tensor([0.5, 1.0, 2.0]))
    tensor([0.9385, 0.7652, 0.2239])
    """


@public(bessel_j1_p)
def bessel_j1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Take the Bessel function of the first kind, order 1.

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
    >>> adjoint.special.bessel_j1(adjoint.tensor([0.5, 1.0, 2.0]))
    tensor([0.2423, 0.4401, 0.5767])
    """


@public(bessel_y0_p)
def bessel_y0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Take the Bessel function of the second kind, order 0.

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
    >>> adjoint.special.bessel_y0(adjoint.tensor([0.5, 1.0, 2.0]))
    tensor([-0.4445,  0.0883,  0.5104])
    """


@public(bessel_y1_p)
def bessel_y1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Take the Bessel function of the second kind, order 1.

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
    >>> adjoint.special.bessel_y1(adjoint.tensor([0.5, 1.0, 2.0]))
    tensor([-1.4715, -0.7812, -0.1070])
    """


def modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Take the modified Bessel function of the second kind, order 0.

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
    >>> adjoint.special.modified_bessel_k0(adjoint.tensor([0.5, 1.0, 2.0]))
    tensor([0.9244, 0.4210, 0.1139])
    """
    return into(out, bessel_k0_p(input))


def modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Take the modified Bessel function of the second kind, order 1.

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
    >>> adjoint.special.modified_bessel_k1(adjoint.tensor([0.5, 1.0, 2.0]))
    tensor([1.6564, 0.6019, 0.1399])
    """
    return into(out, bessel_k1_p(input))


def scaled_modified_bessel_k0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Take ``exp(x) * modified_bessel_k0(x)``.

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
    >>> adjoint.special.scaled_modified_bessel_k0(adjoint.tensor([0.5, 1.0, 2.0]))
    tensor([1.5241, 1.1445, 0.8416])
    """
    return into(out, bessel_k0e_p(input))


def scaled_modified_bessel_k1(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Take ``exp(x) * modified_bessel_k1(x)``.

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
    >>> adjoint.special.scaled_modified_bessel_k1(adjoint.tensor([0.5, 1.0, 2.0]))
    tensor([2.7310, 1.6362, 1.0335])
    """
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
def airy_ai(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Take the Airy function Ai.

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
    >>> adjoint.special.airy_ai(adjoint.tensor([0.5, 1.0, 2.0]))
    tensor([0.2317, 0.1353, 0.0349])
    """


@in_single
def _sinc(x: Array) -> Array:
    angle = x * math.pi
    return np.where(x == 0, x.dtype.type(1), np.sin(angle) / np.where(x == 0, x.dtype.type(1), angle))


@in_single
def _spherical(x: Array) -> Array:
    out = np.sin(x) / np.where(x == 0, x.dtype.type(1), x)
    return np.where(x == 0, x.dtype.type(1), np.where(np.isinf(x), x.dtype.type(0), out))


def _sine_quotient_x(g: Value, x: Value, rate: float) -> Value:
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


def _sinc_x(g: Value, x: Value) -> Value:
    return _sine_quotient_x(g, x, math.pi)


def _spherical_x(g: Value, x: Value) -> Value:
    return _sine_quotient_x(g, x, 1.0)


def _spherical_of_reals(x: Array) -> Any:
    if x.dtype.kind == "c":
        raise not_implemented("spherical_bessel_j0_cpu", x)
    return _spherical(x)


sinc_p = unary(_sinc, x=_sinc_x, floating=True, name="sinc")
sinc_ = inplace(
    sinc_p,
    example="""
    >>> x = adjoint.tensor([0.0, 1.0])
    >>> x.sinc_()
    tensor([ 1.0000e+00, -2.7828e-08])
    """,
)
spherical_bessel_j0_p = unary(_spherical_of_reals, x=_spherical_x, floating=True, name="spherical_bessel_j0")


@public(sinc_p)
def sinc(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Take ``sin(pi x) / (pi x)``, which is 1 at 0.

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
    >>> adjoint.sinc(adjoint.tensor([0.0, 0.5, 1.5]))
    tensor([ 1.0000,  0.6366, -0.2122])
    """


@public(spherical_bessel_j0_p)
def spherical_bessel_j0(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Take ``sin(x) / x``, which is 1 at 0.

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
    >>> adjoint.special.spherical_bessel_j0(adjoint.tensor([0.5, 1.0, 2.0]))
    tensor([0.9589, 0.8415, 0.4546])
    """
