"""Smooth elementwise ops: value, gradient and public function of each, side by side.

A rule states the derivative times `g`; conjugation for complex values is the recorder's business
(see `Op.variant`). In-place forms come from the same declaration through `inplace`. Ops that are made of
pieces (where, clamp, round, abs) are in `piecewise`, comparisons in `compare`, angles in `trigonometry`.
"""

from __future__ import annotations

import math
import warnings
from builtins import complex as Complex
from collections.abc import Callable
from typing import Any

import numpy as np

from .._typing import Array, Inputs, Number, Out, Params, Scalar, Tangents, Tensor, Value
from ..core import dtypes
from ..core.device import module_of
from ..core.failures import not_implemented, title_of
from ..core.folding import fold
from ..core.inplace import inplace
from ..core.overrides import answered
from ..core.primitive import by_ufunc
from ..core.promotion import number_like, result_type
from ..core.recorders import binary, elementwise, formula, nary, public, unary
from ..core.tensor import TensorBase
from .arguments import dtype_of, require_any, require_tensor, require_tensors
from .compare import no_gradient, zeros_p
from .create import into, tensor
from .literals import check_fits, depth_outside
from .piecewise import where_p
from .shape import cast_p, reshape_p

# --- Arithmetic -------------------------------------------------------------------------------------


def _explain_bool(error: Exception, *arrays: Value) -> Exception | None:
    if not isinstance(error, TypeError) or any(getattr(a, "dtype", type(a)) not in (np.bool_, bool) for a in arrays):
        return None
    what = "Negation, the `-` operator, on a bool tensor" if len(arrays) == 1 else (
        "Subtraction, the `-` operator, with two bool tensors"
    )  # fmt: skip
    instead = "If you are trying to invert a mask, use the `~` or `logical_not()` operator instead."
    if len(arrays) > 1:
        instead = "Use the `^` or `logical_xor()` operator instead."
    return RuntimeError(f"{what} is not supported. {instead}")


add_p = binary(np.add, x=lambda g: g, y=lambda g: g, holomorphic=False)
sub_p = binary(np.subtract, x=lambda g: g, y=lambda g: -g, holomorphic=False, name="sub", explain=_explain_bool)
add_p.op.node._saved_alpha = sub_p.op.node._saved_alpha = 1  # another factor is a node of its own here
mul_p = binary(
    np.multiply,
    x=lambda g, y: g * y,
    y=lambda g, x: g * x,
    name="mul",
)


div_p = binary(
    np.divide,
    x=lambda g, y: g / y,
    y=formula(lambda g, x, y: g * -((x / y) / y)),  # not `out`, which programs like to write to
    floating=True,
    name="div",
)
neg_p = unary(np.negative, x=lambda g: -g, holomorphic=False, name="neg", explain=_explain_bool)

rsub_p = binary(
    lambda x, y: np.subtract(y, x), x=lambda g: -g, y=lambda g: g, holomorphic=False, name="rsub",
    node_name="RsubBackward1", explain=_explain_bool,
)  # fmt: skip


_add_, _sub_ = inplace(add_p), inplace(sub_p)
_div_ = inplace(div_p)
mul_ = inplace(
    mul_p,
    example="""
    >>> x = adjoint.tensor([1.0, 2.0])
    >>> view = x[1:]
    >>> x.mul_(10)
    tensor([10., 20.])
    >>> view  # it shares the memory
    tensor([20.])
    """,
)
neg_ = inplace(
    neg_p,
    example="""
    >>> x = adjoint.tensor([1.0, -2.0])
    >>> x.neg_()
    tensor([-1.,  2.])
    >>> x
    tensor([-1.,  2.])
    """,
)


def older_order(name: str, scalar: str, operands: str, given: tuple[Any, ...], expected: int) -> tuple[Any, ...]:
    """Return the arguments of PyTorch's older order, a number before the tensors: ``x.add_(2, y)``."""
    if len(given) != expected + 1 or isinstance(given[0], TensorBase) or not isinstance(given[1], TensorBase):
        raise TypeError(f"{name}() takes {expected + 1} positional arguments but {len(given) + 1} were given")
    tensors = ", ".join(f"Tensor {operand}" for operand in operands.split())
    warnings.warn(
        f"This overload of {name} is deprecated:\n\t{name}(Number {scalar}, {tensors})\nConsider using one of the "
        f"following signatures instead:\n\t{name}({tensors}, *, Number {scalar} = 1)",
        UserWarning,
        stacklevel=depth_outside(),
    )
    return given


def add(input: Tensor, other: Tensor | Number, *older: Tensor, alpha: Number = 1, out: Out = None) -> Tensor:
    """Add `other`, scaled by `alpha`, to `input`: ``input + alpha * other``.

    Parameters
    ----------
    input : Tensor
        First operand, of any shape.
    other : Tensor or number
        Broadcast with `input`; the result has the promoted dtype.
    alpha : number, default 1
        Multiplies `other`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape and the promoted dtype.

    Raises
    ------
    RuntimeError
        If the shapes cannot be broadcast, or `alpha` is a float and both operands are integers.

    Examples
    --------
    >>> adjoint.add(adjoint.ones(2), 2, alpha=3)
    tensor([7., 7.])
    >>> adjoint.add(adjoint.tensor([[1], [2]]), adjoint.tensor([10, 20]))
    tensor([[11, 21],
            [12, 22]])
    """
    if older:
        alpha, other = older_order("add", "alpha", "other", (other, *older), 1)
    if alpha == 1:
        return into(out, add_p(input, other))
    return into(out, fold(add_p(input, _scaled(input, other, alpha)), "AddBackward0", input, other, alpha=alpha))


def add_(input: Tensor, other: Tensor | Number, *older: Tensor, alpha: Number = 1) -> Tensor:
    """Add `other`, scaled by `alpha`, to `input`, in place.

    Parameters
    ----------
    input : Tensor
        Overwritten; its shape and dtype stay.
    other : Tensor or number
        Broadcast to the shape of `input`.
    alpha : number, default 1
        Multiplies `other`.

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
    >>> x = adjoint.zeros(3)
    >>> x.add_(adjoint.ones(3), alpha=2)
    tensor([2., 2., 2.])
    >>> x += 1
    >>> x
    tensor([3., 3., 3.])
    """
    if older:
        alpha, other = older_order("add_", "alpha", "other", (other, *older), 1)
    return _add_(input, other if alpha == 1 else _scaled(input, other, alpha))


def _scaled(input: Any, other: Any, alpha: Number) -> Any:
    if isinstance(alpha, str):
        raise TypeError(f"argument 'alpha' must be Number, not {type(alpha).__name__}")
    if isinstance(alpha, float) and not (isinstance(input, TensorBase) and input.array.dtype.kind == "f"):
        pair = (input, other)
        if all(x.array.dtype.kind in "iub" if isinstance(x, TensorBase) else type(x) is int for x in pair):
            raise RuntimeError("For integral input tensors, argument alpha must not be a floating point number.")
    if not isinstance(other, TensorBase):
        return other * alpha
    dtype = result_type((input, other)).np  # in which alpha multiplies: a byte may not hold the product
    check_fits(alpha, dtypes.of(dtype))
    if dtype.kind == "b":
        return mul_p(other, bool(alpha))
    return mul_p(other if other.array.dtype == dtype else cast_p(other, dtype), alpha)


def sub(input: Tensor, other: Tensor | Number, *older: Tensor, alpha: Number = 1, out: Out = None) -> Tensor:
    """Subtract `other`, scaled by `alpha`, from `input`: ``input - alpha * other``.

    Parameters
    ----------
    input : Tensor
        First operand, of any shape.
    other : Tensor or number
        Broadcast with `input`; the result has the promoted dtype.
    alpha : number, default 1
        Multiplies `other`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape and the promoted dtype.

    Raises
    ------
    RuntimeError
        If the shapes cannot be broadcast, or both operands are bool (use ``^``).

    Examples
    --------
    >>> adjoint.sub(adjoint.tensor([5.0, 6.0]), adjoint.tensor([1.0, 2.0]), alpha=2)
    tensor([3., 2.])
    """
    if older:
        alpha, other = older_order("sub", "alpha", "other", (other, *older), 1)
    if alpha == 1:
        return into(out, sub_p(input, other))
    return into(out, fold(sub_p(input, _scaled(input, other, alpha)), "SubBackward0", input, other, alpha=alpha))


def sub_(input: Tensor, other: Tensor | Number, *older: Tensor, alpha: Number = 1) -> Tensor:
    """Subtract `other`, scaled by `alpha`, from `input`, in place.

    Parameters
    ----------
    input : Tensor
        Overwritten; its shape and dtype stay.
    other : Tensor or number
        Broadcast to the shape of `input`.
    alpha : number, default 1
        Multiplies `other`.

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
    >>> w, grad = adjoint.ones(2), adjoint.tensor([1.0, -1.0])
    >>> w.sub_(grad, alpha=0.5)
    tensor([0.5000, 1.5000])
    """
    if older:
        alpha, other = older_order("sub_", "alpha", "other", (other, *older), 1)
    return _sub_(input, other if alpha == 1 else _scaled(input, other, alpha))


def rsub(input: Tensor, other: Tensor | Number, *, alpha: Number = 1) -> Tensor:
    """Subtract `alpha` times `input` from `other`."""
    require_tensor(input, "input", "rsub")
    return rsub_p(input if alpha == 1 else mul_p(input, alpha), other)


@public(mul_p)
def mul(input: Tensor, other: Tensor | Number, *, out: Out = None) -> Tensor:
    """Multiply `input` by `other`, element by element: ``input * other``.

    Parameters
    ----------
    input : Tensor
        First operand, of any shape.
    other : Tensor or number
        Broadcast with `input`; the result has the promoted dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape and the promoted dtype.

    Raises
    ------
    RuntimeError
        If the shapes cannot be broadcast.

    Examples
    --------
    >>> adjoint.mul(adjoint.tensor([1.0, 2.0]), 10)
    tensor([10., 20.])
    >>> adjoint.mul(adjoint.tensor([[1], [2]]), adjoint.tensor([3, 4]))
    tensor([[3, 4],
            [6, 8]])
    """


def div(input: Tensor, other: Tensor | Number, *, rounding_mode: str | None = None, out: Out = None) -> Tensor:
    """Divide `input` by `other`, element by element: ``input / other``.

    Parameters
    ----------
    input : Tensor
        Dividend, of any shape.
    other : Tensor or number
        Divisor, broadcast with `input`.
    rounding_mode : {None, "trunc", "floor"}, default None
        Return the quotient as it is, rounded towards zero, or rounded down.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape. Without `rounding_mode` integers give floats; with it, integers. A float divided by
        zero is infinite or NaN.

    Raises
    ------
    RuntimeError
        If the shapes cannot be broadcast, or an integer is divided by zero with a `rounding_mode`.

    Examples
    --------
    >>> adjoint.div(adjoint.tensor([7, -7]), 2)
    tensor([ 3.5000, -3.5000])
    >>> adjoint.div(adjoint.tensor([7, -7]), 2, rounding_mode="floor")
    tensor([ 3, -4])
    >>> adjoint.div(adjoint.tensor([7, -7]), 2, rounding_mode="trunc")
    tensor([ 3, -3])
    """
    return into(out, (div_p if rounding_mode is None else _rounded(rounding_mode)[0])(input, other))


def div_(input: Tensor, other: Tensor | Number, *, rounding_mode: str | None = None) -> Tensor:
    """Divide `input` by `other`, in place.

    Parameters
    ----------
    input : Tensor
        Overwritten; its shape and dtype stay.
    other : Tensor or number
        Divisor, broadcast to the shape of `input`.
    rounding_mode : {None, "trunc", "floor"}, default None
        Return the quotient as it is, rounded towards zero, or rounded down.

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
    >>> x = adjoint.tensor([1.0, 2.0])
    >>> x.div_(4)
    tensor([0.2500, 0.5000])
    >>> x /= x.sum()
    >>> x
    tensor([0.3333, 0.6667])
    """
    return (_div_ if rounding_mode is None else _rounded(rounding_mode)[1])(input, other)


@public(neg_p)
def neg(input: Tensor, *, out: Out = None) -> Tensor:
    """Return the negative of each element: ``-input``.

    Parameters
    ----------
    input : Tensor
        Of any shape and any dtype but bool.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Raises
    ------
    RuntimeError
        If `input` is bool (use ``~``).

    Examples
    --------
    >>> adjoint.neg(adjoint.tensor([1.0, -2.0]))
    tensor([-1.,  2.])
    """


def positive(input: Tensor) -> Tensor:
    """Return `input` itself."""
    require_tensor(input, "input", "positive")
    if input.array.dtype.kind == "b":
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input


subtract, multiply, divide, true_divide, negative = sub, mul, div, div, neg
subtract_, multiply_, divide_, negative_ = sub_, mul_, div_, neg_
by_ufunc[np.positive] = positive

# --- Division with a rest -----------------------------------------------------------------------------


def _refuse_zero(x: Any, y: Any) -> None:
    if x.dtype.kind in "bc":
        raise not_implemented("division with a rest", x)
    if x.dtype.kind in "iu" and not y.all():
        raise RuntimeError("ZeroDivisionError: an integer tensor is divided by zero")


def _div_floor(x: Value, y: Value) -> Array:
    _refuse_zero(x, y)
    return np.floor_divide(x, y)


def _div_trunc(x: Array, y: Value) -> Any:
    _refuse_zero(x, y)
    if x.dtype.kind in "iu":
        quotient = np.floor_divide(x, y)
        return quotient + ((quotient < 0) & (quotient * y != x))
    return np.trunc(x / y)


def _remainder(x: Value, y: Value) -> Array:
    _refuse_zero(x, y)
    return np.remainder(x, y)


def _fmod(x: Value, y: Value) -> Array:
    _refuse_zero(x, y)
    return np.fmod(x, y)


div_floor_p = binary(_div_floor, x=no_gradient, y=no_gradient, node_name="DivBackward2", holomorphic=False)
div_trunc_p = binary(_div_trunc, x=no_gradient, y=no_gradient, node_name="DivBackward2", holomorphic=False)
remainder_p = binary(
    _remainder, x=lambda g, y: g, y=lambda g, x, y: -g * div_floor_p(x, y), node_name="RemainderBackward1"
)
fmod_p = binary(_fmod, x=lambda g, y: g, y=lambda g, x, y: -g * div_trunc_p(x, y), node_name="FmodBackward1")
by_ufunc.update({np.floor_divide: div_floor_p, np.remainder: remainder_p, np.fmod: fmod_p})
floor_divide_, remainder_, fmod_ = inplace(div_floor_p), inplace(remainder_p), inplace(fmod_p)
_ROUNDED = {"floor": (div_floor_p, floor_divide_), "trunc": (div_trunc_p, inplace(div_trunc_p))}


def _rounded(mode: str) -> Any:
    if not isinstance(mode, str):
        given = f"rounding_mode={type(mode).__name__}"
        raise TypeError(f"div() received an invalid combination of arguments - got (Tensor, Tensor, {given})")
    if mode not in _ROUNDED:
        raise RuntimeError(f"div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{mode}'")
    return _ROUNDED[mode]


def floor_divide(input: Tensor, other: Tensor | Number, *, out: Out = None) -> Tensor:
    """Divide and round down.

    Parameters
    ----------
    input : Tensor
        Dividend.
    other : Tensor or number
        Divisor, broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Examples
    --------
    >>> adjoint.floor_divide(adjoint.tensor([7, -7]), 2)
    tensor([ 3, -4])
    """
    return into(out, div_floor_p(input, other))


def rfloordiv(input: Tensor, other: Tensor | Number) -> Tensor:
    """Return ``other // input``."""
    result = answered("__rfloordiv__", (input, other))
    return div_floor_p(other, input) if result is NotImplemented else result


def remainder(input: Tensor | Number, other: Tensor | Number, *, out: Out = None) -> Tensor:
    """Return the remainder of the division that rounds down, as Python's ``%``.

    It has the sign of `other`; `fmod` has that of `input`.

    Parameters
    ----------
    input : Tensor or number
        Dividend.
    other : Tensor or number
        Divisor, broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Examples
    --------
    >>> adjoint.remainder(adjoint.tensor([7, -7]), 3)
    tensor([1, 2])
    """
    require_any(input, other, "remainder")
    return into(out, remainder_p(input, other))


def rremainder(input: Tensor, other: Tensor | Number) -> Tensor:
    """Return ``other % input``."""
    result = answered("__rmod__", (input, other))
    return remainder_p(other, input) if result is NotImplemented else result


def fmod(input: Tensor, other: Tensor | Number, *, out: Out = None) -> Tensor:
    """Return the remainder of a division that rounds towards zero; it has the sign of `input`.

    ``fmod(x, y) = x - y * trunc(x / y)``, as C's fmod. `remainder` has the sign of `other`, as Python's ``%``.

    Parameters
    ----------
    input : Tensor
        Dividend, of any shape.
    other : Tensor or number
        Divisor, broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape and the promoted dtype.

    Raises
    ------
    RuntimeError
        If an integer is divided by zero.

    Examples
    --------
    >>> adjoint.fmod(adjoint.tensor([7.0, -7.0]), 3)
    tensor([ 1., -1.])
    >>> adjoint.remainder(adjoint.tensor([7.0, -7.0]), 3)
    tensor([1., 2.])
    """
    require_tensor(input, "input", "fmod")
    return into(out, fmod_p(input, other))


# --- Products with a sum ------------------------------------------------------------------------------


def _addcmul(x: Value, tensor1: Value, tensor2: Value, value: Scalar) -> Value:
    return x + (tensor1 if value == 1 else tensor1 * _as(value, tensor1)) * tensor2


def _as(value: object, like: Any) -> Any:
    return value if like.dtype.kind in "fc" else number_like(value, like)


addcmul_p = elementwise(
    "addcmul",
    _addcmul,
    x=lambda g: g,
    tensor1=lambda g, tensor2, value: g * (tensor2 * value),
    tensor2=lambda g, tensor1, value: g * (tensor1 * value),
    static="value",
)


def _addcdiv(x: Value, tensor1: Value, tensor2: Value, value: Scalar) -> Value:
    return x + (tensor1 if value == 1 else tensor1 * _as(value, tensor1)) / tensor2


addcdiv_p = elementwise(
    "addcdiv",
    _addcdiv,
    x=lambda g: g,
    tensor1=lambda g, tensor2, value: g * (value / tensor2),
    tensor2=lambda g, tensor1, tensor2, value: g * -(value * tensor1 / (tensor2 * tensor2)),
    static="value",
)
_addcmul_, _addcdiv_ = inplace(addcmul_p), inplace(addcdiv_p)


def addcmul(
    input: Tensor, tensor1: Value, tensor2: Tensor, *older: Tensor, value: Number = 1, out: Out = None,
) -> Tensor:  # fmt: skip
    """Add a scaled product: ``input + value * tensor1 * tensor2``.

    Parameters
    ----------
    input : Tensor
        First operand, of any shape.
    tensor1 : Tensor
        First factor. Broadcast with `input`.
    tensor2 : Tensor
        Second factor. Broadcast with `input`.
    value : number, default 1
        Multiplies the product.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape and the promoted dtype.

    Raises
    ------
    RuntimeError
        If the shapes cannot be broadcast.

    Examples
    --------
    >>> adjoint.addcmul(adjoint.ones(2), adjoint.tensor([1.0, 2.0]), adjoint.tensor([3.0, 4.0]), value=0.5)
    tensor([2.5000, 5.0000])
    """
    if older:
        value, tensor1, tensor2 = older_order("addcmul", "value", "tensor1 tensor2", (tensor1, tensor2, *older), 2)
    require_tensor(tensor1, "tensor1", "addcmul")
    require_tensor(tensor2, "tensor2", "addcmul")
    _check_real((input, tensor1, tensor2), value, "addcmul")
    return into(out, addcmul_p(input, tensor1, tensor2, value))


def addcmul_(input: Tensor, tensor1: Value, tensor2: Tensor, *older: Tensor, value: Number = 1) -> Tensor:
    """Add a scaled product to `input`, in place: ``input += value * tensor1 * tensor2``.

    Parameters
    ----------
    input : Tensor
        Overwritten; its shape and dtype stay.
    tensor1 : Tensor
        First factor. Broadcast with `input`.
    tensor2 : Tensor
        Second factor. Broadcast with `input`.
    value : number, default 1
        Multiplies the product.

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
    >>> grad, mean_square = adjoint.tensor([1.0, 2.0]), adjoint.zeros(2)
    >>> mean_square.mul_(0.9).addcmul_(grad, grad, value=0.1)
    tensor([0.1000, 0.4000])
    """
    if older:
        value, tensor1, tensor2 = older_order("addcmul_", "value", "tensor1 tensor2", (tensor1, tensor2, *older), 2)
    require_tensors("addcmul_", self=input, tensor1=tensor1, tensor2=tensor2)
    _check_value(input, value, "addcmul_")
    return _addcmul_(input, tensor1, tensor2, value)


def _check_value(input: Tensor, value: Number, op: str) -> None:
    _check_real((input,), value, op)


def _check_real(inputs: tuple[Value, ...], value: Number, op: str) -> None:
    if isinstance(value, Complex) and all(x.dtype.category < 3 for x in inputs):
        raise RuntimeError(f"value cannot be converted to type float without overflow: {op}(value={value})")


def _refuse_integers(tensor1: Value, tensor2: Value) -> None:
    if tensor1.dtype.category < 2 and tensor2.dtype.category < 2:
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported; convert one operand to a float first, or "
            "use addcmul with div(rounding_mode='trunc')"
        )


def addcdiv(
    input: Tensor, tensor1: Value, tensor2: Tensor, *older: Tensor, value: Number = 1, out: Out = None,
) -> Tensor:  # fmt: skip
    """Add a scaled quotient: ``input + value * tensor1 / tensor2``.

    Parameters
    ----------
    input : Tensor
        First operand, of any shape.
    tensor1 : Tensor
        Dividend. Broadcast with `input`.
    tensor2 : Tensor
        Divisor. Broadcast with `input`.
    value : number, default 1
        Multiplies the quotient.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape and the promoted dtype.

    Raises
    ------
    RuntimeError
        If both tensors are integers, or the shapes cannot be broadcast.

    Examples
    --------
    >>> adjoint.addcdiv(adjoint.ones(2), adjoint.tensor([1.0, 2.0]), adjoint.tensor([4.0, 4.0]), value=2)
    tensor([1.5000, 2.0000])
    """
    if older:
        value, tensor1, tensor2 = older_order("addcdiv", "value", "tensor1 tensor2", (tensor1, tensor2, *older), 2)
    require_tensor(tensor1, "tensor1", "addcdiv")
    require_tensor(tensor2, "tensor2", "addcdiv")
    _refuse_integers(tensor1, tensor2)
    _check_real((input, tensor1, tensor2), value, "addcdiv")
    return into(out, addcdiv_p(input, tensor1, tensor2, value))


def addcdiv_(input: Tensor, tensor1: Value, tensor2: Tensor, *older: Tensor, value: Number = 1) -> Tensor:
    """Add a scaled quotient to `input`, in place: ``input += value * tensor1 / tensor2``.

    Parameters
    ----------
    input : Tensor
        Overwritten; its shape and dtype stay.
    tensor1 : Tensor
        Dividend. Broadcast with `input`.
    tensor2 : Tensor
        Divisor. Broadcast with `input`.
    value : number, default 1
        Multiplies the quotient.

    Returns
    -------
    Tensor
        `input` itself.

    Raises
    ------
    RuntimeError
        If both tensors are integers, `input` is a leaf that requires a gradient, or the result does not fit its
        shape or dtype.

    Examples
    --------
    >>> w = adjoint.ones(2)
    >>> w.addcdiv_(adjoint.tensor([1.0, 2.0]), adjoint.tensor([2.0, 2.0]), value=-0.5)
    tensor([0.7500, 0.5000])
    """
    if older:
        value, tensor1, tensor2 = older_order("addcdiv_", "value", "tensor1 tensor2", (tensor1, tensor2, *older), 2)
    require_tensors("addcdiv_", self=input, tensor1=tensor1, tensor2=tensor2)
    _refuse_integers(tensor1, tensor2)
    _check_value(input, value, "addcdiv_")
    return _addcdiv_(input, tensor1, tensor2, value)


def _lerp(x: Value, end: Value, weight: Value) -> Value:
    # From the nearer end, so that both ends are exact.
    near = np.abs(weight) < 0.5
    return where_p(near, x, end) + where_p(near, weight, weight - 1) * (end - x)


def _lerp_by(x: Value, end: Value, weight: Value | float) -> Any:
    step = end - x
    near = (weight if not isinstance(weight, Complex) else np.abs(weight)) < 0.5
    return x + _as(weight, step) * step if near else end - step * _as(1 - weight, step)


lerp_p = elementwise(
    "lerp",
    _lerp,
    x=lambda g, weight: g * (1 - weight),
    end=lambda g, weight: g * weight,
    weight=lambda g, x, end: g * (end - x),
    node_name="LerpBackward1",
)
lerp_by_p = elementwise(
    "lerp_by",
    _lerp_by,
    x=lambda g, weight: g * (1 - weight),
    end=lambda g, weight: g * weight,
    static="weight",
    node_name="LerpBackward0",
)
_lerp_, _lerp_by_ = inplace(lerp_p), inplace(lerp_by_p)


def _check_lerp(input: Tensor, *others: Any) -> None:
    for other in others:
        if isinstance(other, TensorBase) and other.array.dtype != input.array.dtype:
            kinds = [title_of(dtypes.of(x.array.dtype)).lower() for x in (input, other)]
            raise RuntimeError(f"expected dtype {kinds[0]} for `end` but got dtype {kinds[1]}")


def lerp(input: Tensor, end: Tensor, weight: Tensor | Number, *, out: Out = None) -> Tensor:
    """Interpolate linearly: ``input + weight * (end - input)``.

    Parameters
    ----------
    input : Tensor
        Value for weight 0, of any shape.
    end : Tensor
        Value for weight 1, of the dtype of `input` and broadcast with it.
    weight : Tensor or number
        Fraction of the way from `input` to `end`; may be outside of 0 to 1.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape. It is exactly `input` for weight 0 and exactly `end` for weight 1.

    Raises
    ------
    RuntimeError
        If `end`, or a tensor `weight`, has another dtype than `input`.

    Examples
    --------
    >>> adjoint.lerp(adjoint.zeros(2), adjoint.tensor([1.0, 10.0]), 0.25)
    tensor([0.2500, 2.5000])
    """
    require_tensor(input, "input", "lerp")
    require_tensor(end, "end", "lerp")
    _check_lerp(input, end, weight)
    return into(out, (lerp_p if isinstance(weight, TensorBase) else lerp_by_p)(input, end, weight))


def lerp_(input: Tensor, end: Tensor, weight: Tensor | Number) -> Tensor:
    """Interpolate linearly, in place: ``input += weight * (end - input)``.

    Parameters
    ----------
    input : Tensor
        Overwritten; its shape and dtype stay.
    end : Tensor
        Value for weight 1, of the dtype of `input` and broadcast with it.
    weight : Tensor or number
        Fraction of the way from `input` to `end`; may be outside of 0 to 1.

    Returns
    -------
    Tensor
        `input` itself.

    Raises
    ------
    RuntimeError
        If the dtypes differ, or `input` is a leaf that requires a gradient.

    Examples
    --------
    >>> average = adjoint.zeros(2)
    >>> average.lerp_(adjoint.tensor([1.0, 10.0]), 0.1)
    tensor([0.1000, 1.0000])
    """
    _check_lerp(input, end, weight)
    return (_lerp_ if isinstance(weight, TensorBase) else _lerp_by_)(input, end, weight)


# --- Exponentials and logarithms -----------------------------------------------------------------------

_LN_2, _LN_10 = math.log(2), math.log(10)

exp_p = unary(np.exp, x=lambda g, out: g * out, floating=True)
log_p = unary(np.log, x=lambda g, x: g / x, floating=True)
exp2_p = unary(np.exp2, x=lambda g, out: g * (out * _LN_2), floating=True)
expm1_p = unary(np.expm1, x=lambda g, out: g * (out + 1), floating=True)
log2_p = unary(np.log2, x=lambda g, x: g / (x * _LN_2), floating=True)
log10_p = unary(np.log10, x=lambda g, x: g / (x * _LN_10), floating=True)
log1p_p = unary(np.log1p, x=lambda g, x: g / (x + 1), floating=True, node_name="Log1PBackward0")


sigmoid_p = elementwise(
    "sigmoid", lambda x: 1 / (1 + np.exp(-x)), x=lambda g, out: g * (out * (1 - out)), floating=True
)
exp_ = inplace(
    exp_p,
    example="""
    >>> x = adjoint.tensor([0.0, 1.0])
    >>> x.exp_()
    tensor([1.0000, 2.7183])
    >>> x
    tensor([1.0000, 2.7183])
    """,
)
log_ = inplace(
    log_p,
    example="""
    >>> x = adjoint.tensor([1.0, 2.0])
    >>> x.log_()
    tensor([0.0000, 0.6931])
    """,
)
exp2_ = inplace(
    exp2_p,
    example="""
    >>> x = adjoint.tensor([0.0, 1.0])
    >>> x.exp2_()
    tensor([1., 2.])
    """,
)
expm1_ = inplace(
    expm1_p,
    example="""
    >>> x = adjoint.tensor([0.0, 1.0])
    >>> x.expm1_()
    tensor([0.0000, 1.7183])
    """,
)
log2_ = inplace(
    log2_p,
    example="""
    >>> x = adjoint.tensor([1.0, 8.0])
    >>> x.log2_()
    tensor([0., 3.])
    """,
)
log10_ = inplace(
    log10_p,
    example="""
    >>> x = adjoint.tensor([1.0, 2.0])
    >>> x.log10_()
    tensor([0.0000, 0.3010])
    """,
)
log1p_ = inplace(
    log1p_p,
    example="""
    >>> x = adjoint.tensor([0.0, 1.0])
    >>> x.log1p_()
    tensor([0.0000, 0.6931])
    """,
)
sigmoid_ = inplace(
    sigmoid_p,
    example="""
    >>> x = adjoint.tensor([0.0, 1.0])
    >>> x.sigmoid_()
    tensor([0.5000, 0.7311])
    """,
)


@public(exp_p)
def exp(input: Tensor, *, out: Out = None) -> Tensor:
    """Return the exponential of each element: ``exp(x)``.

    Parameters
    ----------
    input : Tensor
        Of any shape. Integers and booleans are converted to the default float dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`. It is its own derivative.

    Examples
    --------
    >>> adjoint.exp(adjoint.tensor([0.0, 1.0]))
    tensor([1.0000, 2.7183])
    """


@public(log_p)
def log(input: Tensor, *, out: Out = None) -> Tensor:
    """Return the natural logarithm of each element: ``log(x)``.

    Parameters
    ----------
    input : Tensor
        Of any shape. Integers and booleans are converted to the default float dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`. ``-inf`` at 0, NaN below. The derivative is ``1 / x``.

    Examples
    --------
    >>> adjoint.log(adjoint.tensor([1.0, 2.0, 0.0]))
    tensor([0.0000, 0.6931,   -inf])
    """


@public(exp2_p)
def exp2(input: Tensor, *, out: Out = None) -> Tensor:
    """Raise 2 to the power of each element.

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
    >>> adjoint.exp2(adjoint.tensor([0.0, 1.0, 3.0]))
    tensor([1., 2., 8.])
    """


@public(expm1_p)
def expm1(input: Tensor, *, out: Out = None) -> Tensor:
    """Return the exponential minus 1, accurate near zero: ``exp(x) - 1``.

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
    >>> adjoint.expm1(adjoint.tensor([0.0, 1.0]))
    tensor([0.0000, 1.7183])
    >>> adjoint.expm1(adjoint.tensor(1e-10)).item(), (adjoint.exp(adjoint.tensor(1e-10)) - 1).item()
    (1.000000013351432e-10, 0.0)
    """


@public(log2_p)
def log2(input: Tensor, *, out: Out = None) -> Tensor:
    """Return the logarithm to base 2 of each element.

    Parameters
    ----------
    input : Tensor
        Of any shape. Integers and booleans are converted to the default float dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`. ``-inf`` at 0, NaN below.

    Examples
    --------
    >>> adjoint.log2(adjoint.tensor([1.0, 8.0, 0.5]))
    tensor([ 0.,  3., -1.])
    """


@public(log10_p)
def log10(input: Tensor, *, out: Out = None) -> Tensor:
    """Return the logarithm to base 10 of each element.

    Parameters
    ----------
    input : Tensor
        Of any shape. Integers and booleans are converted to the default float dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`. ``-inf`` at 0, NaN below.

    Examples
    --------
    >>> adjoint.log10(adjoint.tensor([1.0, 2.0, 1000.0]))
    tensor([0.0000, 0.3010, 3.0000])
    """


@public(log1p_p)
def log1p(input: Tensor, *, out: Out = None) -> Tensor:
    """Return the natural logarithm of 1 plus each element, accurate near zero: ``log(1 + x)``.

    Parameters
    ----------
    input : Tensor
        Of any shape. Integers and booleans are converted to the default float dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`. ``-inf`` at -1, NaN below.

    Examples
    --------
    >>> adjoint.log1p(adjoint.tensor([0.0, 1.0]))
    tensor([0.0000, 0.6931])
    >>> adjoint.log1p(adjoint.tensor(1e-10)).item()
    1.000000013351432e-10
    """


@public(sigmoid_p)
def sigmoid(input: Tensor, *, out: Out = None) -> Tensor:
    """Return the logistic function of each element: ``1 / (1 + exp(-x))``.

    Parameters
    ----------
    input : Tensor
        Of any shape. Integers and booleans are converted to the default float dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`. Values between 0 and 1. The derivative is ``y * (1 - y)``.

    Examples
    --------
    >>> adjoint.sigmoid(adjoint.tensor([-2.0, 0.0, 2.0]))
    tensor([0.1192, 0.5000, 0.8808])
    """


# --- Filling ------------------------------------------------------------------------------------------


def _fill(x: Value, y: Array | float) -> Array:
    out = module_of(x).empty_like(x)
    _fill_into(out, y)
    return out


def _fill_into(x: Value, y: Any) -> None:
    x[...] = y


def _fill_batch(x: Value, y: Value) -> Value:
    return cast_p(add_p(zeros_p(x), reshape_p(y, (*y.shape, *(1,) * (x.ndim - 1)))), dtype_of(x))


def _fill_jvp(tangents: Tangents, inputs: Inputs, out: Value, params: Params) -> Tensor:
    return zeros_p(out) if tangents[1] is None else add_p(zeros_p(out), tangents[1])


zero_p = unary(
    lambda x: module_of(x).zeros_like(x),
    x=no_gradient,
    name="zero",
    holomorphic=False,
    into=lambda x: x.fill(0),
)
fill_p = nary(
    _fill,
    inputs=2,
    x=no_gradient,
    y=lambda g: g.sum(),
    name="fill",
    into=_fill_into,
    jvp=_fill_jvp,
    batch=_fill_batch,
    written="FillBackward2",
)
zero_ = inplace(
    zero_p,
    summary="Set every element to zero, in place.",
    example="""
    >>> x = adjoint.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> x.diagonal().zero_()
    tensor([0., 0.])
    >>> x
    tensor([[0., 2.],
            [3., 0.]])
    """,
)
_fill_ = inplace(fill_p)


def fill(input: Tensor, value: Tensor | Number) -> Tensor:
    """Make a tensor like `input` that holds one value."""
    require_tensor(input, "input", "fill")
    _refuse_many(value)
    return fill_p(input, value)


def fill_(input: Tensor, value: Tensor | Number) -> Tensor:
    """Set every element of `input` to one value, in place.

    Parameters
    ----------
    input : Tensor
        Overwritten; its shape and dtype stay.
    value : Tensor or number
        The value; a tensor has no dimensions.

    Returns
    -------
    Tensor
        `input` itself.

    Raises
    ------
    RuntimeError
        If `value` is a tensor with dimensions or does not fit the dtype, or `input` is a leaf that requires a
        gradient.

    Examples
    --------
    >>> x = adjoint.zeros(2, 2)
    >>> x[0].fill_(7)
    tensor([7., 7.])
    >>> x
    tensor([[7., 7.],
            [0., 0.]])
    """
    require_tensor(input, "input", "fill_")
    _refuse_many(value)
    if type(value) is not float or value > 65504 or input.array.dtype.kind != "f":
        check_fits(value, dtypes.of(input.array.dtype))
    return _fill_(input, value)


def apply_(input: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Overwrite every element with the result of a Python function of it: slow, on the CPU, unrecorded."""
    return map2_(input, None, None, lambda a, *_: callable(a))


def map_(input: Tensor, other: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Overwrite every element with the result of a Python function of it and that of `other`."""
    return map2_(input, other, None, lambda a, b, _: callable(a, b))


def map2_(input: Tensor, x: Any, y: Any, callable: Callable[..., Any]) -> Tensor:
    """Overwrite every element with the result of a Python function of it and those of `x` and `y`."""
    if any(v is not None and v.requires_grad for v in (input, x, y)):
        raise RuntimeError("Can't call apply_() on Variable that requires grad. Use var.detach().apply_()")
    shape = input.shape
    columns = [[None] * input.numel() if v is None else v.expand(shape).reshape(-1).tolist() for v in (input, x, y)]
    made = tensor([callable(*row) for row in zip(*columns, strict=True)], dtype=input.dtype)
    return input.copy_(made.reshape(shape))


def _refuse_many(value: object) -> None:
    if isinstance(value, TensorBase) and value.array.ndim:
        raise RuntimeError(
            f"fill_ only supports 0-dimension value tensor but got tensor with {value.array.ndim} dimensions."
        )


__all__ = [
    "add", "addcdiv", "addcmul", "div", "divide", "exp", "exp2", "exp2_", "exp_", "expm1", "expm1_", "fill", "fill_",
    "floor_divide", "fmod", "lerp", "log", "log1p", "log1p_", "log2", "log2_", "log10", "log10_", "log_", "mul",
    "multiply", "neg", "neg_", "negative", "negative_", "positive", "remainder", "rsub", "sigmoid", "sigmoid_", "sub",
    "subtract", "true_divide", "zero_",
]  # fmt: skip
