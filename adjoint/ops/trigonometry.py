"""Trigonometric and hyperbolic functions, angles, and complex numbers from their parts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._typing import Array, DType, Inputs, Out, Params, Tangents, Tensor, Value
from ..core import dtypes, modes
from ..core.failures import title_of
from ..core.inplace import inplace
from ..core.primitive import by_ufunc
from ..core.recorders import Primitive, binary, elementwise, public, unary
from ..core.tensor import TensorBase
from .arguments import dtype_of, require_pair
from .compare import zeros_p
from .create import into
from .elementwise import mul_p
from .piecewise import where_p
from .precision import autocasting
from .shape import cast_p, conj_p

__all__ = [
    "acos", "acos_", "acosh", "acosh_", "angle", "arccos", "arccos_", "arccosh", "arccosh_", "arcsin", "arcsin_",
    "arcsinh", "arcsinh_", "arctan", "arctan2", "arctan_", "arctanh", "arctanh_", "asin", "asin_", "asinh", "asinh_",
    "atan", "atan2", "atan_", "atanh", "atanh_", "complex", "conj_physical_", "cos", "cos_", "cosh", "cosh_",
    "deg2rad", "deg2rad_", "hypot", "polar", "rad2deg", "rad2deg_", "sin", "sin_", "sinh", "sinh_", "tan", "tan_",
    "tanh", "tanh_",
]  # fmt: skip


# --- Trigonometry --------------------------------------------------------------------------------------


def _acosh_root(x: Value) -> Value:
    return np.sqrt(x - 1) * np.sqrt(x + 1) if dtype_of(x).kind == "c" else np.sqrt(x * x - 1)


def _tanh_x(g: Value, out: Value) -> Any:
    if isinstance(g, TensorBase) and not modes.unusual:
        return tanh_back_p(g, out)  # recorded as one op: networks of tanh are differentiated twice a lot
    return tanh_back_p.op.kernel(g, out)


sin_p = unary(np.sin, x=lambda g, x: g * np.cos(x), floating=True)
cos_p = unary(np.cos, x=lambda g, x: g * -np.sin(x), floating=True)
tan_p = unary(np.tan, x=lambda g, out: g * (out * out + 1), floating=True)
asin_p = unary(np.arcsin, x=lambda g, x: g / np.sqrt(1 - x * x), floating=True, name="asin")
acos_p = unary(np.arccos, x=lambda g, x: g / -np.sqrt(1 - x * x), floating=True, name="acos")
atan_p = unary(np.arctan, x=lambda g, x: g / (x * x + 1), floating=True, name="atan")
sinh_p = unary(np.sinh, x=lambda g, x: g * np.cosh(x), floating=True)
cosh_p = unary(np.cosh, x=lambda g, x: g * np.sinh(x), floating=True)
tanh_p = unary(np.tanh, x=_tanh_x, floating=True)
tanh_back_p: Primitive = elementwise(
    "tanh_back",
    lambda x, y: x - x * y * y,
    x=lambda g, y: g - g * y * y,
    y=lambda g, x, y: g * x * (y * -2),
    node_name="TanhBackwardBackward0",
    saved={"x": "grad_output", "y": "result"},
)
asinh_p = unary(
    np.arcsinh, x=lambda g, x: g / np.sqrt(x * x + 1), floating=True, name="asinh", written="AsinhBackward1"
)
acosh_p = unary(np.arccosh, x=lambda g, x: g / _acosh_root(x), floating=True, name="acosh", written="AcoshBackward1")
atanh_p = unary(np.arctanh, x=lambda g, x: g / (1 - x * x), floating=True, name="atanh", written="AtanhBackward1")
sin_ = inplace(
    sin_p,
    example="""
    >>> x = adjoint.tensor([0.0, 1.0])
    >>> x.sin_()
    tensor([0.0000, 0.8415])
    """,
)
cos_ = inplace(
    cos_p,
    example="""
    >>> x = adjoint.tensor([0.0, 1.0])
    >>> x.cos_()
    tensor([1.0000, 0.5403])
    """,
)
tan_ = inplace(
    tan_p,
    example="""
    >>> x = adjoint.tensor([0.0, 1.0])
    >>> x.tan_()
    tensor([0.0000, 1.5574])
    """,
)
asin_ = inplace(
    asin_p,
    example="""
    >>> x = adjoint.tensor([0.0, 1.0])
    >>> x.asin_()
    tensor([0.0000, 1.5708])
    """,
)
acos_ = inplace(
    acos_p,
    example="""
    >>> x = adjoint.tensor([0.0, 1.0])
    >>> x.acos_()
    tensor([1.5708, 0.0000])
    """,
)
atan_ = inplace(
    atan_p,
    example="""
    >>> x = adjoint.tensor([0.0, 1.0])
    >>> x.atan_()
    tensor([0.0000, 0.7854])
    """,
)
sinh_ = inplace(
    sinh_p,
    example="""
    >>> x = adjoint.tensor([0.0, 1.0])
    >>> x.sinh_()
    tensor([0.0000, 1.1752])
    """,
)
cosh_ = inplace(
    cosh_p,
    example="""
    >>> x = adjoint.tensor([0.0, 1.0])
    >>> x.cosh_()
    tensor([1.0000, 1.5431])
    """,
)
tanh_ = inplace(
    tanh_p,
    example="""
    >>> x = adjoint.tensor([0.0, 1.0])
    >>> x.tanh_()
    tensor([0.0000, 0.7616])
    """,
)
asinh_ = inplace(
    asinh_p,
    example="""
    >>> x = adjoint.tensor([0.0, 1.0])
    >>> x.asinh_()
    tensor([0.0000, 0.8814])
    """,
)
acosh_ = inplace(
    acosh_p,
    example="""
    >>> x = adjoint.tensor([1.0, 2.0])
    >>> x.acosh_()
    tensor([0.0000, 1.3170])
    """,
)
atanh_ = inplace(
    atanh_p,
    example="""
    >>> x = adjoint.tensor([0.0, 0.5])
    >>> x.atanh_()
    tensor([0.0000, 0.5493])
    """,
)


@public(sin_p)
def sin(input: Tensor, *, out: Out = None) -> Tensor:
    """Return the sine of each element.

    Parameters
    ----------
    input : Tensor
        Angles in radians, of any shape. Integers are converted to the default float dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`. The derivative is ``cos(x)``.

    Examples
    --------
    >>> adjoint.sin(adjoint.tensor([0.0, 0.5, 1.0]))
    tensor([0.0000, 0.4794, 0.8415])
    """


@public(cos_p)
def cos(input: Tensor, *, out: Out = None) -> Tensor:
    """Return the cosine of each element.

    Parameters
    ----------
    input : Tensor
        Angles in radians, of any shape. Integers are converted to the default float dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`. The derivative is ``-sin(x)``.

    Examples
    --------
    >>> adjoint.cos(adjoint.tensor([0.0, 0.5, 1.0]))
    tensor([1.0000, 0.8776, 0.5403])
    """


@public(tan_p)
def tan(input: Tensor, *, out: Out = None) -> Tensor:
    """Return the tangent of each element.

    Parameters
    ----------
    input : Tensor
        Angles in radians, of any shape. Integers are converted to the default float dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`. The derivative is ``1 + tan(x) ** 2``.

    Examples
    --------
    >>> adjoint.tan(adjoint.tensor([0.0, 0.5, 1.0]))
    tensor([0.0000, 0.5463, 1.5574])
    """


@public(asin_p)
def asin(input: Tensor, *, out: Out = None) -> Tensor:
    """Return the inverse sine of each element: the angle in radians.

    Parameters
    ----------
    input : Tensor
        Of any shape. Integers and booleans are converted to the default float dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`. Between -pi/2 and pi/2; NaN outside of [-1, 1].

    Examples
    --------
    >>> adjoint.asin(adjoint.tensor([-1.0, 0.0, 1.0]))
    tensor([-1.5708,  0.0000,  1.5708])
    """


@public(acos_p)
def acos(input: Tensor, *, out: Out = None) -> Tensor:
    """Return the inverse cosine of each element: the angle in radians.

    Parameters
    ----------
    input : Tensor
        Of any shape. Integers and booleans are converted to the default float dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`. Between 0 and pi; NaN outside of [-1, 1]. The derivative is
        ``-1 / sqrt(1 - x ** 2)``.

    Examples
    --------
    >>> adjoint.acos(adjoint.tensor([-1.0, 0.0, 1.0]))
    tensor([3.1416, 1.5708, 0.0000])
    """


@public(atan_p)
def atan(input: Tensor, *, out: Out = None) -> Tensor:
    """Return the inverse tangent of each element: the angle in radians.

    Parameters
    ----------
    input : Tensor
        Of any shape. Integers and booleans are converted to the default float dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`. Between -pi/2 and pi/2. The derivative is ``1 / (1 + x ** 2)``.

    Examples
    --------
    >>> adjoint.atan(adjoint.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.7854,  0.0000,  0.7854])
    """


@public(sinh_p)
def sinh(input: Tensor, *, out: Out = None) -> Tensor:
    """Return the hyperbolic sine of each element: ``(exp(x) - exp(-x)) / 2``.

    Parameters
    ----------
    input : Tensor
        Of any shape. Integers and booleans are converted to the default float dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`. The derivative is ``cosh(x)``.

    Examples
    --------
    >>> adjoint.sinh(adjoint.tensor([-1.0, 0.0, 1.0]))
    tensor([-1.1752,  0.0000,  1.1752])
    """


@public(cosh_p)
def cosh(input: Tensor, *, out: Out = None) -> Tensor:
    """Return the hyperbolic cosine of each element: ``(exp(x) + exp(-x)) / 2``.

    Parameters
    ----------
    input : Tensor
        Of any shape. Integers and booleans are converted to the default float dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`. The derivative is ``sinh(x)``.

    Examples
    --------
    >>> adjoint.cosh(adjoint.tensor([-1.0, 0.0, 1.0]))
    tensor([1.5431, 1.0000, 1.5431])
    """


@public(tanh_p)
def tanh(input: Tensor, *, out: Out = None) -> Tensor:
    """Return the hyperbolic tangent of each element: ``sinh(x) / cosh(x)``.

    Parameters
    ----------
    input : Tensor
        Of any shape. Integers and booleans are converted to the default float dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`. Values between -1 and 1. The derivative is ``1 - tanh(x) ** 2``.

    Examples
    --------
    >>> adjoint.tanh(adjoint.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.7616,  0.0000,  0.7616])
    """


@public(asinh_p)
def asinh(input: Tensor, *, out: Out = None) -> Tensor:
    """Return the inverse hyperbolic sine of each element.

    Parameters
    ----------
    input : Tensor
        Of any shape. Integers and booleans are converted to the default float dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`. The derivative is ``1 / sqrt(1 + x ** 2)``.

    Examples
    --------
    >>> adjoint.asinh(adjoint.tensor([-1.0, 0.0, 1.0]))
    tensor([-0.8814,  0.0000,  0.8814])
    """


@public(acosh_p)
def acosh(input: Tensor, *, out: Out = None) -> Tensor:
    """Return the inverse hyperbolic cosine of each element.

    Parameters
    ----------
    input : Tensor
        Of any shape. Integers and booleans are converted to the default float dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`. NaN below 1.

    Examples
    --------
    >>> adjoint.acosh(adjoint.tensor([1.0, 2.0]))
    tensor([0.0000, 1.3170])
    """


@public(atanh_p)
def atanh(input: Tensor, *, out: Out = None) -> Tensor:
    """Return the inverse hyperbolic tangent of each element.

    Parameters
    ----------
    input : Tensor
        Of any shape. Integers and booleans are converted to the default float dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`. Infinite at -1 and 1, NaN outside of these.

    Examples
    --------
    >>> adjoint.atanh(adjoint.tensor([-0.5, 0.0, 0.5]))
    tensor([-0.5493,  0.0000,  0.5493])
    """


arcsin, arccos, arctan = asin, acos, atan
arcsinh, arccosh, arctanh = asinh, acosh, atanh
arcsin_, arccos_, arctan_ = asin_, acos_, atan_
arcsinh_, arccosh_, arctanh_ = asinh_, acosh_, atanh_


def _squares(x: Value, y: Value) -> Value:
    """Return the squared distance from the origin, where it is infinite, so that gradients are 0 there."""
    d = x * x + y * y
    return where_p(d == 0, math.inf, d)


atan2_p = binary(
    np.arctan2,
    x=lambda g, x, y: g * (y / _squares(x, y)),
    y=lambda g, x, y: g * -(x / _squares(x, y)),
    floating=True,
    name="atan2",
)


hypot_p = elementwise(
    "hypot",
    lambda x, y: np.hypot(x, y),
    x=lambda g, x, out: g * (x / out),
    y=lambda g, y, out: g * (y / out),
)
deg2rad_p = unary(np.deg2rad, x=lambda g: g * (math.pi / 180), floating=True, node_name="Deg2RadBackward0")
rad2deg_p = unary(np.rad2deg, x=lambda g: g * (180 / math.pi), floating=True, node_name="Rad2DegBackward0")
by_ufunc.update({np.radians: deg2rad_p, np.degrees: rad2deg_p})
by_ufunc[np.hypot] = hypot_p
atan2_, hypot_, deg2rad_, rad2deg_ = (
    inplace(atan2_p),
    inplace(hypot_p),
    inplace(deg2rad_p),
    inplace(rad2deg_p),
)


def atan2(input: Tensor, other: Tensor, *, out: Out = None) -> Tensor:
    """Return the angles of the points with ordinates `input` and abscissas `other`, in radians.

    Parameters
    ----------
    input : Tensor
        Ordinates y, of any shape.
    other : Tensor
        Abscissas x, broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape; between -pi and pi, in the quadrant of the point, while ``atan(y / x)`` knows only
        two.

    Examples
    --------
    >>> y, x = adjoint.tensor([1.0, 1.0, -1.0]), adjoint.tensor([1.0, -1.0, -1.0])
    >>> adjoint.atan2(y, x)
    tensor([ 0.7854,  2.3562, -2.3562])
    """
    require_pair(input, other, "atan2")
    return into(out, atan2_p(input, other))


arctan2, arctan2_ = atan2, atan2_


def hypot(input: Tensor, other: Tensor, *, out: Out = None) -> Tensor:
    """Return the hypotenuse of right triangles: ``sqrt(input ** 2 + other ** 2)``, without overflow.

    Parameters
    ----------
    input : Tensor
        One leg, of any shape.
    other : Tensor
        The other leg, broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape and the promoted dtype.

    Examples
    --------
    >>> adjoint.hypot(adjoint.tensor([3.0]), adjoint.tensor([4.0]))
    tensor([5.])
    """
    require_pair(input, other, "hypot")
    return into(out, hypot_p(input, other))


@public(deg2rad_p)
def deg2rad(input: Tensor, *, out: Out = None) -> Tensor:
    """Convert degrees to radians: ``x * pi / 180``.

    Parameters
    ----------
    input : Tensor
        Of any shape. Integers and booleans are converted to the default float dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Examples
    --------
    >>> adjoint.deg2rad(adjoint.tensor([90.0, 180.0]))
    tensor([1.5708, 3.1416])
    """


@public(rad2deg_p)
def rad2deg(input: Tensor, *, out: Out = None) -> Tensor:
    """Convert radians to degrees: ``x * 180 / pi``.

    Parameters
    ----------
    input : Tensor
        Of any shape. Integers and booleans are converted to the default float dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Examples
    --------
    >>> adjoint.rad2deg(adjoint.tensor([0.0, adjoint.pi]))
    tensor([  0., 180.])
    """


# --- Complex numbers ----------------------------------------------------------------------------------


def _angle(x: Array) -> Array:
    if x.dtype.kind == "c":
        return np.arctan2(x.imag, x.real)
    return np.where(np.isnan(x), x, np.where(x < 0, x.dtype.type(math.pi), x.dtype.type(0)))


def _angle_x(g: Value, x: Value, x_dtype: DType) -> Value:
    if x_dtype.kind != "c":
        return zeros_p(g)
    size = np.abs(x)
    return where_p(x == 0, 0, g * (x / (size * size)) * 1j)


def _complex_jvp(tangents: Tangents, inputs: Inputs, out: Value, params: Params) -> Value:
    return complex_p(*(zeros_p(x) if t is None else t for t, x in zip(tangents, inputs, strict=True)))


def _angle_jvp(tangents: Tangents, inputs: Inputs, out: Value, params: Params) -> Value:
    (t,), (x,) = tangents, inputs
    dtype = dtype_of(x)
    if dtype.kind != "c":
        return zeros_p(t)
    size = np.abs(x)
    turned = cast_p(t * np.conjugate(x) * -1j, dtypes.of(dtype).to_real().np)
    return where_p(x == 0, 0, turned / (size * size))


angle_p = unary(_angle, x=_angle_x, floating=True, name="angle", holomorphic=False, jvp=_angle_jvp)
complex_p = binary(
    lambda x, y: _joined(x, y), x=lambda g, x_dtype: cast_p(g, x_dtype),
    y=lambda g, y_dtype: cast_p(g * -1j, y_dtype), name="complex", holomorphic=False, jvp=_complex_jvp,
)  # fmt: skip
conj_physical_ = inplace(conj_p)


def _check_parts(*parts: Tensor) -> None:
    kinds = [dtypes.of(part.array.dtype) for part in parts]
    if not all(kind.name in ("float16", "float32", "float64") for kind in kinds):
        given = " and ".join(kind.title for kind in kinds)
        raise RuntimeError(f"Expected both inputs to be Half, Float or Double tensors but got {given}")


def _joined(x: Array, y: Value) -> Array:
    if x.dtype.kind != "f" or x.dtype.itemsize < 4:
        raise RuntimeError(
            f"Expected both inputs to be Half, Float or Double tensors but got {x.dtype.name} and {y.dtype.name}"
        )
    shape = np.broadcast_shapes(x.shape, y.shape)
    out = np.empty_like(x, shape=shape, dtype=np.complex64 if x.dtype == np.float32 else np.complex128)
    out.real[...], out.imag[...] = x, y
    return out


@public(angle_p)
def angle(input: Tensor, *, out: Out = None) -> Tensor:
    """Return the angle of complex numbers; of real ones, 0 or pi."""


def complex(real: Tensor, imag: Tensor, *, out: Out = None) -> Tensor:
    """Return complex numbers of real and imaginary parts.

    Parameters
    ----------
    real : Tensor
        Real parts, float32 or float64.
    imag : Tensor
        Imaginary parts, of the same dtype; broadcast with `real`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        complex64 or complex128.

    Examples
    --------
    >>> adjoint.complex(adjoint.tensor([1.0]), adjoint.tensor([2.0]))
    tensor([1.+2.j])
    """
    require_pair(real, imag, "complex")
    _check_parts(real, imag)
    if real.array.dtype != imag.array.dtype:
        raise RuntimeError(
            f"Expected object of scalar type {title_of(real.dtype)} but got scalar type {title_of(imag.dtype)} "
            "for second argument"
        )
    result = complex_p(real, imag)
    if out is not None and out.array.dtype != result.array.dtype:
        raise RuntimeError(
            f"Expected object of scalar type {title_of(result.dtype)} but got scalar type {title_of(out.dtype)} "
            "for argument 'out'"
        )
    return into(out, result)


@autocasting
def polar(abs: Tensor, angle: Tensor, *, out: Out = None) -> Tensor:
    """Return complex numbers of absolute values and angles: ``abs * exp(i * angle)``.

    Parameters
    ----------
    abs : Tensor
        Absolute values, float32 or float64.
    angle : Tensor
        Angles in radians, broadcast with `abs`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        complex64 or complex128.

    Examples
    --------
    >>> adjoint.polar(adjoint.tensor([1.0, 2.0]), adjoint.tensor([0.0, 0.5]))
    tensor([1.0000+0.0000j, 1.7552+0.9589j])
    """
    require_pair(abs, angle, "polar")
    _check_parts(abs, angle)
    return complex(mul_p(abs, cos_p(angle)), mul_p(abs, sin_p(angle)), out=out)
