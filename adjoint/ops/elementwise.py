"""Elementwise ops: value, gradient and public function of each, side by side.

A rule states the derivative times `g`; conjugation for complex values is the recorder's business
(see `Op.variant`). In-place forms come from the same declaration through `inplace`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.inplace import inplace
from ..core.recorders import binary, nary, unary
from ..core.tensor import TensorBase
from .create import into

Tensor = Any
Number = Any

# --- Arithmetic -------------------------------------------------------------------------------------

add_p = binary(np.add, x=lambda g: g, y=lambda g: g, holomorphic=False)
sub_p = binary(np.subtract, x=lambda g: g, y=lambda g: -g, holomorphic=False, name="sub")
mul_p = binary(np.multiply, x=lambda g, y: g * y, y=lambda g, x: g * x, name="mul")
div_p = binary(
    np.divide, x=lambda g, y: g / y, y=lambda g, y, out: -g * out / y, floating=True, name="div"
)
neg_p = unary(np.negative, x=lambda g: -g, holomorphic=False, name="neg")

_add_, _sub_ = inplace(add_p), inplace(sub_p)
mul_, _div_, neg_ = inplace(mul_p), inplace(div_p), inplace(neg_p)


def add(input: Tensor, other: Tensor | Number, *, alpha: Number = 1, out: Any = None) -> Tensor:
    """Add `alpha` times `other`.

    Examples
    --------
    >>> adjoint.add(adjoint.ones(2), 2, alpha=3)
    tensor([7., 7.])
    """
    return into(out, add_p(input, other if alpha == 1 else _scaled(other, alpha)))


def add_(input: Tensor, other: Tensor | Number, *, alpha: Number = 1) -> Tensor:
    """Add `alpha` times `other` to `input`, in place."""
    return _add_(input, other if alpha == 1 else _scaled(other, alpha))


def _scaled(other: Any, alpha: Number) -> Any:
    return mul_p(other, alpha) if isinstance(other, TensorBase) else other * alpha


def sub(input: Tensor, other: Tensor | Number, *, alpha: Number = 1, out: Any = None) -> Tensor:
    """Subtract `alpha` times `other`."""
    return into(out, sub_p(input, other if alpha == 1 else _scaled(other, alpha)))


def sub_(input: Tensor, other: Tensor | Number, *, alpha: Number = 1) -> Tensor:
    """Subtract `alpha` times `other` from `input`, in place."""
    return _sub_(input, other if alpha == 1 else _scaled(other, alpha))


def rsub(input: Tensor, other: Tensor | Number, *, alpha: Number = 1) -> Tensor:
    """Subtract `alpha` times `input` from `other`."""
    return sub_p(other, input if alpha == 1 else mul_p(input, alpha))


def mul(input: Tensor, other: Tensor | Number, *, out: Any = None) -> Tensor:
    """Multiply `input` by `other`, element by element."""
    return into(out, mul_p(input, other))


def div(input: Tensor, other: Tensor | Number, *, rounding_mode: str | None = None, out: Any = None) -> Tensor:
    """Divide `input` by `other`; `rounding_mode` is None, "trunc" or "floor"."""
    return into(out, div_p(input, other))


def div_(input: Tensor, other: Tensor | Number, *, rounding_mode: str | None = None) -> Tensor:
    """Divide `input` by `other`, in place."""
    return _div_(input, other)


def neg(input: Tensor, *, out: Any = None) -> Tensor:
    """Negate."""
    return into(out, neg_p(input))


# --- Exponentials, trigonometry -----------------------------------------------------------------------

exp_p = unary(np.exp, x=lambda g, out: g * out, floating=True)
log_p = unary(np.log, x=lambda g, x: g / x, floating=True)
sin_p = unary(np.sin, x=lambda g, x: g * np.cos(x), floating=True)
cos_p = unary(np.cos, x=lambda g, x: -g * np.sin(x), floating=True)
tanh_p = unary(np.tanh, x=lambda g, out: g - g * out * out, floating=True)


def exp(input: Tensor, *, out: Any = None) -> Tensor:
    """Raise e to each element."""
    return into(out, exp_p(input))


def log(input: Tensor, *, out: Any = None) -> Tensor:
    """Take the natural logarithm."""
    return into(out, log_p(input))


def sin(input: Tensor, *, out: Any = None) -> Tensor:
    """Take the sine."""
    return into(out, sin_p(input))


def cos(input: Tensor, *, out: Any = None) -> Tensor:
    """Take the cosine."""
    return into(out, cos_p(input))


def tanh(input: Tensor, *, out: Any = None) -> Tensor:
    """Take the hyperbolic tangent."""
    return into(out, tanh_p(input))


exp_, log_, sin_, cos_, tanh_ = inplace(exp_p), inplace(log_p), inplace(sin_p), inplace(cos_p), inplace(tanh_p)

# --- Filling ------------------------------------------------------------------------------------------


def _zero(x: Any) -> Any:
    return 0 * x if hasattr(x, "level") else np.zeros((), x.dtype)


zero_p = unary(lambda x: x.dtype.type(0), x=lambda g: 0 * g, name="zero", holomorphic=False)
fill_p = nary(lambda x, y: y, inputs=2, x=lambda g: 0 * g, y=lambda g: g.sum(), name="fill")
zero_ = inplace(zero_p)
_fill_ = inplace(fill_p)


def fill_(input: Tensor, value: Tensor | Number) -> Tensor:
    """Overwrite every element with one value."""
    if isinstance(value, TensorBase) and value.array.ndim:
        raise RuntimeError(
            f"fill_ only supports 0-dimension value tensor but got tensor with {value.array.ndim} dimensions."
        )
    return _fill_(input, value)


