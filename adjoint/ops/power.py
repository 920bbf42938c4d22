"""Powers and roots."""

from __future__ import annotations

import cmath
import math
from typing import Any

import numpy as np

from .._typing import Array, Number, Operand, Tensor, Value
from ..core import dtypes
from ..core.failures import not_implemented
from ..core.inplace import inplace
from ..core.overrides import answered
from ..core.primitive import by_ufunc
from ..core.promotion import number_like, result_type
from ..core.recorders import Primitive, binary, elementwise, formula, parametric, public, unary
from ..core.tensor import TensorBase
from .arguments import dtype_of, require_any, require_tensor
from .compare import zeros_p
from .create import into
from .elementwise import mul_p
from .piecewise import where_p
from .shape import cast_p


def _power(x: Any, y: Value) -> Any:
    if x.dtype.kind == "i" and (y < 0).any():
        # NumPy refuses; the value is the exact one rounded towards zero.
        sign = np.where(x == 1, 1, np.where(x == -1, 1 - 2 * (y & 1), 0)).astype(x.dtype)
        return np.where(y < 0, sign, np.power(x, np.maximum(y, 0)))
    if x.dtype.kind == "b":
        raise not_implemented("pow", x)
    return np.power(x, y)


def _power_y(g: Value, x: Value, y: Value, out: Value) -> Value:
    flat = (x == 0) & _nonnegative(y)
    return where_p(flat, 0, g * out * np.log(where_p(flat, 1, x)))  # a derivative of log(0) would be 0 times infinity


def _nonnegative(y: Value) -> Value:
    dtype = dtype_of(y)
    if dtype.kind != "c":
        return y >= 0
    real = cast_p(y, dtypes.of(dtype).to_real().np)
    return (y == real) & (real >= 0)


pow_p: Primitive = binary(
    _power,
    x=lambda g, x, y: where_p(y == 0, 0, g * (y * pow_p(where_p(y == 0, 1, x), y - 1))),
    y=_power_y,
    name="pow",
    node_name="PowBackward1",
    saved={"y": "exponent"},
)


def _power_of(x: Array, exponent: float) -> Any:
    if exponent == 2:
        return np.multiply(x, x)
    if x.dtype.kind == "b":
        return x | (not exponent)
    if x.dtype.kind in "iu" and exponent < 0:
        raise RuntimeError("Integers to negative integer powers are not allowed.")
    if exponent == 0.5:
        return np.sqrt(x)
    if exponent == 3:
        return x * x * x
    if exponent == -1:
        return np.reciprocal(x)
    if exponent == -0.5:
        return 1 / np.sqrt(x)
    if exponent == -2:
        return 1 / (x * x)
    return np.power(x, number_like(exponent, x))


def _power_of_x(g: Value, x: Value, exponent: float) -> Value:
    if exponent == 2:
        # As a power, so that its own derivative is one of `x` as well.
        return g * (2 * (power_p(x, 1) if isinstance(x, TensorBase) else x))
    if exponent == 0:
        return zeros_p(g)
    return g * (exponent * power_p(x, exponent - 1))


power_p: Primitive = elementwise(
    "power", _power_of, x=_power_of_x, static="exponent", holomorphic=True, node_name="PowBackward0"
)


def _power_from(x: Value, base: float) -> Any:
    return _power(number_like(base, x), x)


def _power_from_x(g: Value, x: Value, out: Value, base: float) -> Value:
    if base == 0:
        return g * where_p(_nonnegative(x), 0, -out)  # by the cotangent too it is 0, not 0 times infinity
    return g * (out * _log(base, dtype_of(x).kind == "c"))


def _log(base: float, complex_power: bool) -> complex | float:
    if complex_power or isinstance(base, complex):
        return cmath.log(base)
    return math.log(base) if base > 0 else math.nan


exponential_p = parametric(
    _power_from, x=_power_from_x, holomorphic=True, jvp="elementwise", batch="same", name="exponential",
    node_name="PowBackward2", saved={"x": "exponent", "base": "self"},
)  # fmt: skip
_pow_, _power_ = inplace(pow_p), inplace(power_p)


def pow(input: Tensor | Number, exponent: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Raise `input` to the power of `exponent`: ``input ** exponent``.

    The derivative is ``exponent * input ** (exponent - 1)`` for `input`, ``log(input) * result`` for `exponent`.

    Parameters
    ----------
    input : Tensor or number
        Base, of any shape. At least one of base and exponent is a tensor.
    exponent : Tensor or number
        Exponent, broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape and the promoted dtype. A negative base with a fractional exponent gives NaN.

    Raises
    ------
    RuntimeError
        If an integer tensor is raised to a negative number (not a tensor), or the shapes cannot be broadcast.

    Examples
    --------
    >>> adjoint.pow(adjoint.tensor([1.0, 2.0, 3.0]), 2)
    tensor([1., 4., 9.])
    >>> adjoint.pow(2, adjoint.tensor([1.0, 2.0, 3.0]))
    tensor([2., 4., 8.])
    """
    require_any(input, exponent, "pow")
    if isinstance(exponent, TensorBase):
        result = pow_p(input, exponent) if isinstance(input, TensorBase) else rpow(exponent, input)
    else:
        result = power(input, exponent)
    return result if out is None else into(out, result)


def power(input: Tensor, exponent: Operand | Array) -> Tensor:
    """Return ``input**exponent``."""
    if isinstance(exponent, TensorBase):
        return pow_p(input, exponent)
    kind = type(exponent)
    try:
        if (kind is int or kind is float) and input.array.dtype.kind == "f":
            return power_p(input, exponent)
    except AttributeError:
        require_tensor(input, "input", "pow")
        raise
    if not isinstance(exponent, int | float | complex):
        return pow_p(input, exponent)
    dtype = result_type((input, exponent)).np
    return power_p(input if input.array.dtype == dtype else cast_p(input, dtype), exponent)


def rpow(input: Any, other: Number) -> Any:
    """Return ``other**input``."""
    if isinstance(other, TensorBase):
        return pow_p(other, input)
    if (
        not isinstance(other, int | float | complex)
        and (result := answered("__rpow__", (input, other))) is not NotImplemented
    ):
        return result
    dtype = result_type((input, other)).np
    return exponential_p(input if input.array.dtype == dtype else cast_p(input, dtype), other)


def pow_(input: Tensor, exponent: Tensor | Number) -> Tensor:
    """Raise `input` to the power of `exponent`, in place.

    Parameters
    ----------
    input : Tensor
        Overwritten; its shape and dtype stay.
    exponent : Tensor or number
        Exponent, broadcast with `input`.

    Returns
    -------
    Tensor
        `input` itself.

    Raises
    ------
    RuntimeError
        If `input` is a leaf that requires a gradient, or the result does not fit its shape or dtype.

    Examples
    --------
    >>> x = adjoint.tensor([1.0, 2.0, 3.0])
    >>> x.pow_(2)
    tensor([1., 4., 9.])
    """
    if isinstance(exponent, TensorBase) or not isinstance(exponent, int | float | complex):
        return _pow_(input, exponent)
    dtype = result_type((input, exponent))
    if dtype.np != input.array.dtype:
        raise RuntimeError(
            f"result type {dtype.name} can't be cast to the desired output type {dtypes.of(input.array.dtype).name}"
        )
    return _power_(input, exponent)


def float_power(input: Tensor | Number, exponent: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Raise `input` to the power of `exponent` in double precision.

    Parameters
    ----------
    input : Tensor or number
        Base.
    exponent : Tensor or number
        Broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        float64 or complex128, of the broadcast shape.

    Examples
    --------
    >>> adjoint.float_power(adjoint.tensor([1, 2, 3]), 2)
    tensor([1., 4., 9.], dtype=adjoint.float64)
    """
    require_any(input, exponent, "float_power")
    wanted = np.dtype(np.complex128 if result_type((input, exponent)).is_complex else np.float64)
    if isinstance(input, TensorBase) and input.array.dtype != wanted:
        input = cast_p(input, wanted)
    if isinstance(exponent, TensorBase) and exponent.array.dtype != wanted:
        exponent = cast_p(exponent, wanted)
    return into(out, pow(input, exponent))


def float_power_(input: Tensor, exponent: Tensor | Number) -> Tensor:
    """Raise a double-precision `input` to the power of `exponent`, in place."""
    wanted = np.dtype(np.complex128 if result_type((input, exponent)).is_complex else np.float64)
    if input.array.dtype != wanted:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {dtypes.of(input.array.dtype).name} but the "
            f"operation's result requires dtype {dtypes.of(wanted).name}"
        )
    return pow_(input, exponent)


def square(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the square of each element: ``x ** 2``.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`. The derivative is ``2 * x``.

    Examples
    --------
    >>> adjoint.square(adjoint.tensor([-2.0, 3.0]))
    tensor([4., 9.])
    """
    return power(input, 2) if out is None else into(out, power(input, 2))


def square_(input: Tensor) -> Tensor:
    """Square each element, in place."""
    require_tensor(input, "input", "square_")
    return pow_(input, 2)


def _of_values(x: Operand | Array, y: Operand | Array) -> Value:
    """Implement ``np.power`` on tensors, and in rules on payloads, which the public function refuses."""
    if isinstance(x, TensorBase) or isinstance(y, TensorBase):
        return pow(x, y)
    if isinstance(y, int | float | complex):
        return power_p(x, y)
    return exponential_p(y, x) if isinstance(x, int | float | complex) else pow_p(x, y)


def _square_of_value(x: Value) -> Tensor:
    return power_p(x, 2)


by_ufunc.update({np.power: _of_values, np.float_power: float_power, np.square: _square_of_value})


sqrt_p = unary(np.sqrt, x=formula(lambda g, out: g / (2 * out)), floating=True)
rsqrt_p = elementwise(
    "rsqrt", lambda x: np.reciprocal(np.sqrt(x)), x=lambda g, out: g * (-0.5 * (out * out * out)), floating=True
)
reciprocal_p = unary(np.reciprocal, x=formula(lambda g, out: g * -(out * out)), floating=True)
sqrt_ = inplace(
    sqrt_p,
    example="""
    >>> x = adjoint.tensor([4.0, 9.0])
    >>> x.sqrt_()
    tensor([2., 3.])
    >>> x
    tensor([2., 3.])
    """,
)
rsqrt_ = inplace(
    rsqrt_p,
    example="""
    >>> x = adjoint.tensor([1.0, 4.0])
    >>> x.rsqrt_()
    tensor([1.0000, 0.5000])
    """,
)
reciprocal_ = inplace(
    reciprocal_p,
    example="""
    >>> x = adjoint.tensor([1.0, 4.0])
    >>> x.reciprocal_()
    tensor([1.0000, 0.2500])
    """,
)


@public(sqrt_p)
def sqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the square root of each element.

    Parameters
    ----------
    input : Tensor
        Of any shape. Integers and booleans are converted to the default float dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`. NaN below 0. The derivative is ``1 / (2 * sqrt(x))``, infinite at 0.

    Examples
    --------
    >>> adjoint.sqrt(adjoint.tensor([4.0, 2.0, -1.0]))
    tensor([2.0000, 1.4142,    nan])
    """


@public(rsqrt_p)
def rsqrt(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the reciprocal of the square root of each element: ``1 / sqrt(x)``.

    Parameters
    ----------
    input : Tensor
        Of any shape. Integers and booleans are converted to the default float dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`. Infinite at 0, NaN below.

    Examples
    --------
    >>> adjoint.rsqrt(adjoint.tensor([4.0, 0.25, 0.0]))
    tensor([0.5000, 2.0000,    inf])
    """


@public(reciprocal_p)
def reciprocal(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the reciprocal of each element: ``1 / x``.

    Parameters
    ----------
    input : Tensor
        Of any shape. Integers and booleans are converted to the default float dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`. Infinite at 0. The derivative is ``-1 / x ** 2``.

    Examples
    --------
    >>> adjoint.reciprocal(adjoint.tensor([4.0, -0.5]))
    tensor([ 0.2500, -2.0000])
    """


def rdiv(input: Tensor, other: Tensor | Number) -> Tensor:
    """Return ``other / input``."""
    result = NotImplemented if type(other) is float or type(other) is int else answered("__rdiv__", (input, other))
    return mul_p(reciprocal_p(input), other) if result is NotImplemented else result


__all__ = [
    "float_power", "pow", "reciprocal", "reciprocal_", "rsqrt", "rsqrt_", "sqrt", "sqrt_", "square",
    "square_",
]  # fmt: skip
