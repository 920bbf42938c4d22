"""Parts of floating-point numbers: signs, neighbours, mantissas, exponents; divisors of integers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._typing import Array, Number, Out, Tensor, Value
from ..core import dtypes
from ..core.failures import not_implemented
from ..core.inplace import inplace
from ..core.recorders import binary, nary
from .arguments import require_pair, require_tensor
from .compare import zeros_p
from .create import into
from .elementwise import mul_p
from .piecewise import where_p
from .power import exponential_p

__all__ = [
    "copysign", "frexp", "gcd", "gcd_", "heaviside", "lcm", "lcm_", "ldexp", "ldexp_", "nextafter",
]  # fmt: skip


def _copysign_x(g: Value, x: Value, out: Value) -> Value:
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


def copysign(input: Tensor, other: Tensor | Number, *, out: Tensor | None = None) -> Tensor:
    """Return the absolute values of `input` with the signs of `other`.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    other : Tensor or number
        Broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Examples
    --------
    >>> adjoint.copysign(adjoint.tensor([1.0, -2.0]), adjoint.tensor([-0.0, 3.0]))
    tensor([-1.,  2.])
    """
    require_tensor(input, "input", "copysign")
    return into(out, copysign_p(input, other))


def nextafter(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the next floating-point number after `input` towards `other`.

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
    >>> x = adjoint.tensor(1.0)
    >>> adjoint.nextafter(x, adjoint.tensor(2.0)) - x == adjoint.finfo(adjoint.float32).eps
    tensor(True)
    """
    require_pair(input, other, "nextafter")
    return into(out, nextafter_p(input, other))


def heaviside(input: Tensor, values: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return 0 for negative elements, 1 for positive ones and `values` at 0.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    values : Tensor
        Broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Examples
    --------
    >>> adjoint.heaviside(adjoint.tensor([-1.0, 0.0, 2.0]), adjoint.tensor(0.5))
    tensor([0.0000, 0.5000, 1.0000])
    """
    _check_heaviside(input, values, "heaviside")
    return into(out, heaviside_p(input, values))


def heaviside_(input: Tensor, values: Tensor) -> Tensor:
    """Return 0 below zero, 1 above it and `values` at it, in place."""
    _check_heaviside(input, values, "heaviside_")
    return _heaviside_(input, values)


def _check_heaviside(input: Tensor, values: Tensor, op: str) -> None:
    require_pair(input, values, op)
    if input.array.dtype != values.array.dtype:
        raise RuntimeError("heaviside is not yet implemented for tensors with different dtypes.")


def gcd(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the greatest common divisor.

    Parameters
    ----------
    input : Tensor
        Integers.
    other : Tensor
        Broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape. Never negative.

    Examples
    --------
    >>> adjoint.gcd(adjoint.tensor([12, -4]), adjoint.tensor([8, 6]))
    tensor([4, 2])
    """
    require_pair(input, other, "gcd")
    return into(out, gcd_p(input, other))


def lcm(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the least common multiple.

    Parameters
    ----------
    input : Tensor
        Integers.
    other : Tensor
        Broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape. Never negative.

    Examples
    --------
    >>> adjoint.lcm(adjoint.tensor([4, 6]), adjoint.tensor([6, 0]))
    tensor([12,  0])
    """
    require_pair(input, other, "lcm")
    return into(out, lcm_p(input, other))


def ldexp(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return ``input * 2**other``.

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
    >>> adjoint.ldexp(adjoint.tensor([1.0, 3.0]), adjoint.tensor([3, -1]))
    tensor([8.0000, 1.5000])
    """
    require_pair(input, other, "ldexp")
    found = mul_p(input, _powers_of_2(other, input.dtype.category))
    if input.dtype.category > 1 > other.dtype.category - 1 and found.dtype != input.dtype:
        found = found.to(input.dtype)  # the powers alone may not fit it
    return into(out, found)


def ldexp_(input: Tensor, other: Tensor) -> Tensor:
    """Multiply `input` by 2 to the power of `other`, in place."""
    return input.mul_(_powers_of_2(other, input.dtype.category))


def _powers_of_2(exponents: Tensor, category: int) -> Tensor:
    if exponents.array.dtype.kind == "b" and category == 2:
        raise not_implemented("ldexp_cpu_exp", exponents.array)
    return exponential_p(exponents if exponents.dtype.category > 1 else exponents.to(dtypes.default()), 2.0)


def _frexp(x: Array) -> tuple[Array, Array]:
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


def frexp(input: Tensor, *, out: Out = None) -> Any:
    """Return mantissa and exponent: ``input = mantissa * 2**exponent``.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    out : tuple of Tensor, optional
        Tensors to write both results to.

    Returns
    -------
    namedtuple of Tensor
        (mantissa, exponent): absolute values from 0.5 to 1, and int32.

    Examples
    --------
    >>> adjoint.frexp(adjoint.tensor([1.0, 6.0])).mantissa
    tensor([0.5000, 0.7500])
    """
    result = Frexp(*frexp_p(input))
    return result if out is None else Frexp(*(into(o, r) for o, r in zip(out, result, strict=True)))
