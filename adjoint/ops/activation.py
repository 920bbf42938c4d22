"""Activation functions, with the signatures of ``torch.nn.functional``.

Only the names in `__all__` are also ``adjoint.NAME``, as they are in torch.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._typing import Array, Tensor, Value
from ..core import device as devices
from ..core.failures import not_implemented, title_of
from ..core.inplace import inplace
from ..core.nodes import wrap
from ..core.payload import Payload, inside
from ..core.recorders import elementwise
from ..scalar.functions import by_name
from .arguments import dim_in
from .create import into
from .elementwise import add_p, div_p, mul_p, sigmoid_p, sub_p
from .literals import real_of
from .piecewise import abs_p, where_p
from .precision import autocasting
from .shape import reshape_p
from .trigonometry import tanh_p

log1p_exp, normal_cdf = by_name["log1p_exp"], by_name["normal_cdf"]


def _floats_only(x: Array, name: str) -> None:
    if x.dtype.kind in "biuc":
        raise not_implemented(name, x)


def _no_integers(x: Array, name: str) -> None:
    if x.dtype.kind in "biu":
        raise not_implemented(name, x)


def _no_booleans(x: Array, name: str) -> None:
    if x.dtype.kind == "c":
        raise NotImplementedError(f"clamp is not supported for complex types: {name} has no order to clamp by")
    if x.dtype.kind == "b":
        raise RuntimeError(f"Boolean inputs not supported for {name}")


# --- Made of straight pieces --------------------------------------------------------------------------


relu_p = elementwise(
    "relu",
    lambda x: np.maximum(0, x),  # of two zeros the second is taken: -0.0 stays, as in torch
    x=lambda g, out: where_p(out <= 0, 0, g),
    check=_no_booleans,
    holomorphic=False,
    flat=True,
)
relu_ = inplace(
    relu_p,
    example="""
    >>> x = adjoint.tensor([-1.0, 2.0])
    >>> x.relu_()
    tensor([0., 2.])
    """,
)


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return the positive part of each element: ``max(0, x)``.

    Parameters
    ----------
    input : Tensor
        Of any shape and any real dtype but bool.
    inplace : bool, default False
        Write the result to `input`.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`. The gradient at zero is zero.

    Examples
    --------
    >>> x = adjoint.tensor([-2.0, 0.0, 2.0])
    >>> adjoint.nn.functional.relu(x)
    tensor([0., 0., 2.])
    """
    return relu_(input) if inplace else relu_p(input)


hardtanh_p = elementwise(
    "hardtanh",
    lambda x, min_val, max_val: np.minimum(max_val, np.maximum(min_val, x)),
    x=lambda g, x, min_val, max_val: where_p((x > min_val) & (x < max_val), g, 0),
    numbers="min_val max_val",
    check=_no_booleans,
    flat=True,
)
_hardtanh_ = inplace(hardtanh_p)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Limit elements to a range: ``max(min_val, min(max_val, x))``.

    Parameters
    ----------
    input : Tensor
        Of any shape and any real dtype but bool.
    min_val : float, default -1.0
        Lower bound.
    max_val : float, default 1.0
        Upper bound.
    inplace : bool, default False
        Write the result to `input`.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`. The gradient is zero outside of the bounds and at them.

    Raises
    ------
    ValueError
        If `min_val` is above `max_val`.

    Examples
    --------
    >>> x = adjoint.tensor([-2.0, 0.0, 2.0])
    >>> adjoint.nn.functional.hardtanh(x)
    tensor([-1.,  0.,  1.])
    """
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return (_hardtanh_ if inplace else hardtanh_p)(input, min_val, max_val)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Clamp to the interval from `min_val` to `max_val`, in place.

    Parameters
    ----------
    input : Tensor
        Tensor to overwrite.
    min_val : float, default -1.0
        Lower limit.
    max_val : float, default 1.0
        Upper limit.

    Returns
    -------
    Tensor
        `input`.

    Examples
    --------
    >>> adjoint.nn.functional.hardtanh_(adjoint.tensor([-2.0, 0.5, 4.0]))
    tensor([-1.0000,  0.5000,  1.0000])
    """
    return hardtanh(input, min_val, max_val, inplace=True)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Limit elements to the range from 0 to 6: ``min(max(0, x), 6)``.

    Parameters
    ----------
    input : Tensor
        Of any shape and any real dtype but bool.
    inplace : bool, default False
        Write the result to `input`.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Examples
    --------
    >>> adjoint.nn.functional.relu6(adjoint.tensor([-2.0, 2.0, 8.0]))
    tensor([0., 2., 6.])
    """
    return hardtanh(input, 0.0, 6.0, inplace)


leaky_relu_p = elementwise(
    "leaky_relu",
    lambda x, negative_slope: (
        np.maximum(x, x * negative_slope) if 0 < negative_slope <= 1 else where_p(x > 0, x, x * negative_slope)
    ),
    x=lambda g, x, negative_slope: where_p(x > 0, g, g * negative_slope),
    static="negative_slope",
    check=_floats_only,
    flat=True,
)
_leaky_relu_ = inplace(leaky_relu_p)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Multiply negative elements by a small slope: ``x if x > 0 else negative_slope * x``.

    Parameters
    ----------
    input : Tensor
        Of any shape and a float dtype.
    negative_slope : float, default 0.01
        Factor of negative elements.
    inplace : bool, default False
        Write the result to `input`.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Raises
    ------
    NotImplementedError
        If the dtype is not floating.

    Examples
    --------
    >>> x = adjoint.tensor([-2.0, 0.0, 2.0])
    >>> adjoint.nn.functional.leaky_relu(x, 0.1)
    tensor([-0.2000,  0.0000,  2.0000])
    """
    return (_leaky_relu_ if inplace else leaky_relu_p)(input, negative_slope)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """Multiply negative elements by `negative_slope`, in place.

    Parameters
    ----------
    input : Tensor
        Tensor to overwrite.
    negative_slope : float, default 0.01
        Factor of negative elements.

    Returns
    -------
    Tensor
        `input`.

    Examples
    --------
    >>> adjoint.nn.functional.leaky_relu_(adjoint.tensor([-2.0, 0.5, 4.0]))
    tensor([-0.0200,  0.5000,  4.0000])
    """
    return _leaky_relu_(input, negative_slope)


prelu_p = elementwise(
    "prelu",
    lambda x, y: where_p(x > 0, x, y * x),
    x=lambda g, x, y: where_p(x > 0, g, g * y),
    y=lambda g, x: where_p(x > 0, 0, g * x),
    node_name="PreluKernelBackward0",
    saved={"y": "weight"},
    flat=True,
)


@autocasting
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Multiply negative elements by a learned slope, one for all or one per channel.

    ``x if x > 0 else weight * x``

    Parameters
    ----------
    input : Tensor
        Of any shape; channels are dimension 1.
    weight : Tensor
        Slopes, (1,) or (C,).

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Raises
    ------
    RuntimeError
        If `weight` has more than one element and not one per channel.

    Examples
    --------
    >>> adjoint.nn.functional.prelu(adjoint.tensor([-2.0, 0.5, 4.0]), adjoint.tensor([0.25]))
    tensor([-0.5000,  0.5000,  4.0000])
    """
    rank, count = input.array.ndim, math.prod(weight.array.shape)
    if weight.array.dtype != input.array.dtype:
        raise RuntimeError(
            f"prelu: Type promoting not supported. Got {input.dtype} and {weight.dtype}; convert one of them"
        )
    if weight.array.ndim > 1:
        raise RuntimeError(
            "prelu: Expected `weight` to be a scalar or 1D tensor, but got: ndim = " + str(weight.array.ndim)
        )
    if count != 1:
        if rank == 0:
            raise RuntimeError("Not allow zero-dim input tensor.")
        channels = input.array.shape[1] if rank >= 2 else 1
        if channels != count:
            raise RuntimeError(
                "Mismatch of parameter numbers and input channel size. Found parameter numbers = "
                f"{count} and channel size = {channels}."
            )
    shape = (1, count, *(1,) * (rank - 2)) if rank >= 2 else (1,) * rank
    return prelu_p(input, reshape_p(weight, shape))


def _noise(input: Tensor, lower: float, upper: float) -> Any:
    """Return slopes: random where `input` is not positive (drawn one by one, as torch does), else 1."""
    from .random import stream_of

    array = input.array
    if devices.of(array).type == "meta":
        return array
    if isinstance(array, Payload):
        array = array.concrete("rrelu")  # type: ignore[attr-defined]
    negative = devices.place_array(array <= 0, devices.CPU)
    noise = np.ones(negative.shape, array.dtype)
    noise[negative] = stream_of(None).uniform((int(negative.sum().item()),), np.float64, lower, upper)
    return devices.place_array(noise, devices.of(array))


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """Multiply negative elements by random slopes; in evaluation by the mean of `lower` and `upper`.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    lower : float, default 0.125
        Least slope.
    upper : float, default 0.3333333333333333
        Largest slope.
    training : bool, default False
        Whether slopes are random.
    inplace : bool, default False
        Whether to overwrite `input` with the result.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Raises
    ------
    RuntimeError
        If `lower` is above `upper`.

    Examples
    --------
    >>> adjoint.nn.functional.rrelu(adjoint.tensor([-2.0, 0.5, 4.0]))
    tensor([-0.4583,  0.5000,  4.0000])
    """
    if inside.levels and any(level.size is not None for level in inside.levels):
        raise RuntimeError(
            f"vmap: we do not yet support aten::rrelu{'_' * inplace}. Please file an issue; or use leaky_relu, which "
            "rrelu is in evaluation."
        )
    if lower > upper:
        raise RuntimeError(f"Lower bound should be less than or equal to the upper bound: {lower} > {upper}")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace)
    noise = wrap(_noise(input, lower, upper))
    return input.mul_(noise) if inplace else mul_p(input, noise)


def rrelu_(input: Tensor, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False) -> Tensor:
    """Multiply negative elements by random slopes, in place.

    Parameters
    ----------
    input : Tensor
        Tensor to overwrite.
    lower : float, default 0.125
        Least slope.
    upper : float, default 0.3333333333333333
        Largest slope.
    training : bool, default False
        Whether slopes are random.

    Returns
    -------
    Tensor
        `input`.

    Examples
    --------
    >>> adjoint.nn.functional.rrelu_(adjoint.tensor([-2.0, 0.5, 4.0]))
    tensor([-0.4583,  0.5000,  4.0000])
    """
    return rrelu(input, lower, upper, training, inplace=True)


def _ordered_only(x: Array, name: str) -> None:
    if x.dtype.kind in "bc":
        raise not_implemented(name, x)


threshold_p = elementwise(
    "threshold",
    lambda x, threshold, value: where_p(x <= threshold, value, x),
    x=lambda g, x, threshold: where_p(x <= threshold, 0, g),
    numbers="threshold value",
    check=_ordered_only,
    flat=True,
)
_threshold_ = inplace(threshold_p)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Replace elements that are not above `threshold` by `value`.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    threshold : float
        What elements are compared with.
    value : float
        What replaces them.
    inplace : bool, default False
        Whether to overwrite `input` with the result.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Examples
    --------
    >>> adjoint.nn.functional.threshold(adjoint.tensor([-2.0, 0.5, 4.0]), 1.0, 0.0)
    tensor([0., 0., 4.])
    """
    return (_threshold_ if inplace else threshold_p)(input, threshold, value)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """Replace elements that are not above `threshold` by `value`, in place.

    Parameters
    ----------
    input : Tensor
        Tensor to overwrite.
    threshold : float
        What elements are compared with.
    value : float
        What replaces them.

    Returns
    -------
    Tensor
        `input`.

    Examples
    --------
    >>> adjoint.nn.functional.threshold_(adjoint.tensor([-2.0, 0.5, 4.0]), 1.0, 0.0)
    tensor([0., 0., 4.])
    """
    return _threshold_(input, threshold, value)


hardshrink_p = elementwise(
    "hardshrink",
    lambda x, lambd: where_p((x >= -lambd) & (x <= lambd), 0, x),
    x=lambda g, x, lambd: where_p((x > lambd) | (x < -lambd), g, 0),
    numbers="lambd",
    check=_floats_only,
    flat=True,
)
softshrink_p = elementwise(
    "softshrink",
    lambda x, lambd: x - np.minimum(np.maximum(x, -lambd), lambd),
    x=lambda g, x, lambd: where_p((x > lambd) | (x < -lambd), g, 0),
    numbers="lambd",
    check=_floats_only,
    flat=True,
)


def hardshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """Replace elements between ``-lambd`` and `lambd` by zero.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    lambd : float, default 0.5
        Half the width of that interval.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Examples
    --------
    >>> adjoint.nn.functional.hardshrink(adjoint.tensor([-2.0, 0.3, 4.0]))
    tensor([-2.,  0.,  4.])
    """
    if type(lambd) not in (float, int):
        lambd = real_of(lambd, "lambd", "hardshrink")
    return into(out, hardshrink_p(input, lambd))


def softshrink(input: Tensor, lambd: float = 0.5, *, out: Tensor | None = None) -> Tensor:
    """Move elements towards zero by `lambd`, and not past it.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    lambd : float, default 0.5
        How far to move, not negative.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Raises
    ------
    RuntimeError
        If `lambd` is negative.

    Examples
    --------
    >>> adjoint.nn.functional.softshrink(adjoint.tensor([-2.0, 0.5, 4.0]))
    tensor([-1.5000,  0.0000,  3.5000])
    """
    if not lambd >= 0:
        kind = title_of(input.dtype)
        raise RuntimeError(f"lambda must be in range [0, the greatest number] of input dtype {kind}, but found {lambd}")
    return into(out, softshrink_p(input, lambd))


def _between_0_and_6(x: Array) -> Array:
    return np.minimum(np.maximum(x + 3, 0), 6)


hardsigmoid_p = elementwise(
    "hardsigmoid",
    lambda x: _between_0_and_6(x) / 6,
    x=lambda g, x: where_p((x > -3) & (x < 3), g / 6, 0),
    check=_floats_only,
    holomorphic=False,
    flat=True,
)
hardswish_p = elementwise(
    "hardswish",
    lambda x: x * _between_0_and_6(x) / 6,
    x=lambda g, x: where_p(x <= -3, 0, where_p(x >= 3, g, g * (x / 3 + 0.5))),
    check=_floats_only,
    holomorphic=False,
)
_hardsigmoid_, _hardswish_ = inplace(hardsigmoid_p), inplace(hardswish_p)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Approximate the sigmoid by three straight lines: ``relu6(x + 3) / 6``.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    inplace : bool, default False
        Whether to overwrite `input` with the result.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Examples
    --------
    >>> adjoint.nn.functional.hardsigmoid(adjoint.tensor([-2.0, 0.5, 4.0]))
    tensor([0.1667, 0.5833, 1.0000])
    """
    return (_hardsigmoid_ if inplace else hardsigmoid_p)(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Approximate `silu`: ``x * relu6(x + 3) / 6``.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    inplace : bool, default False
        Whether to overwrite `input` with the result.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Examples
    --------
    >>> adjoint.nn.functional.hardswish(adjoint.tensor([-2.0, 0.5, 4.0]))
    tensor([-0.3333,  0.2917,  4.0000])
    """
    return (_hardswish_ if inplace else hardswish_p)(input)


# --- Exponential --------------------------------------------------------------------------------------

_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def _elu(x: Array, alpha: float, scale: float, input_scale: float) -> Array:
    return (np.maximum(0, x) + alpha * np.expm1(np.minimum(0, x) * input_scale)) * scale


def _elu_x(g: Array, x: Array, alpha: float, scale: float, input_scale: float) -> Value:
    # exp of the positive part would overflow to inf where it is not wanted, and inf * 0 is NaN.
    slope = scale * alpha * input_scale * np.exp(where_p(x >= 0, 0, x) * input_scale)
    if alpha * input_scale == 1:  # no kink: the slope of what is positive is exp(0)
        return g * slope
    return where_p(x > 0, g * scale, g * slope)


elu_p = elementwise("elu", _elu, x=_elu_x, static="alpha scale input_scale", check=_floats_only)
_elu_ = inplace(elu_p)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return the exponential linear unit: ``x if x > 0 else alpha * (exp(x) - 1)``.

    Parameters
    ----------
    input : Tensor
        Of any shape and a float dtype.
    alpha : float, default 1.0
        The limit for large negative elements is ``-alpha``.
    inplace : bool, default False
        Write the result to `input`.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Raises
    ------
    NotImplementedError
        If the dtype is not floating.

    Examples
    --------
    >>> x = adjoint.tensor([-2.0, 0.0, 2.0])
    >>> adjoint.nn.functional.elu(x)
    tensor([-0.8647,  0.0000,  2.0000])
    """
    return (_elu_ if inplace else elu_p)(input, alpha, 1, 1)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Take `elu` in place.

    Parameters
    ----------
    input : Tensor
        Tensor to overwrite.
    alpha : float, default 1.0
        The limit for large negative elements is ``-alpha``.

    Returns
    -------
    Tensor
        `input`.

    Examples
    --------
    >>> adjoint.nn.functional.elu_(adjoint.tensor([-2.0, 0.5, 4.0]))
    tensor([-0.8647,  0.5000,  4.0000])
    """
    return _elu_(input, alpha, 1, 1)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return the scaled exponential linear unit: ``scale * elu(x, alpha)``.

    With ``alpha = 1.6733`` and ``scale = 1.0507``, layers with normal weights of variance 1 / fan_in preserve mean 0
    and variance 1.

    Parameters
    ----------
    input : Tensor
        Of any shape and a float dtype.
    inplace : bool, default False
        Write the result to `input`.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Raises
    ------
    NotImplementedError
        If the dtype is not floating.

    Examples
    --------
    >>> x = adjoint.tensor([-2.0, 0.0, 2.0])
    >>> adjoint.nn.functional.selu(x)
    tensor([-1.5202,  0.0000,  2.1014])
    """
    return (_elu_ if inplace else elu_p)(input, _SELU_ALPHA, _SELU_SCALE, 1)


def selu_(input: Tensor) -> Tensor:
    """Take `selu` in place.

    Parameters
    ----------
    input : Tensor
        Tensor to overwrite.

    Returns
    -------
    Tensor
        `input`.

    Examples
    --------
    >>> adjoint.selu_(adjoint.tensor([-2.0, 0.5, 4.0]))
    tensor([-1.5202,  0.5254,  4.2028])
    """
    return selu(input, inplace=True)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Return the continuously differentiable ELU: ``x if x > 0 else alpha * (exp(x / alpha) - 1)``.

    Parameters
    ----------
    input : Tensor
        Of any shape and a float dtype.
    alpha : float, default 1.0
        The limit for large negative elements is ``-alpha``.
    inplace : bool, default False
        Write the result to `input`.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Raises
    ------
    NotImplementedError
        If the dtype is not floating.

    Examples
    --------
    >>> x = adjoint.tensor([-2.0, 0.0, 2.0])
    >>> adjoint.nn.functional.celu(x, 0.5)
    tensor([-0.4908,  0.0000,  2.0000])
    """
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return (_elu_ if inplace else elu_p)(input, alpha, 1, 1 / alpha)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Take `celu` in place.

    Parameters
    ----------
    input : Tensor
        Tensor to overwrite.
    alpha : float, default 1.0
        The limit for large negative elements is ``-alpha``.

    Returns
    -------
    Tensor
        `input`.

    Examples
    --------
    >>> adjoint.nn.functional.celu_(adjoint.tensor([-2.0, 0.5, 4.0]))
    tensor([-0.8647,  0.5000,  4.0000])
    """
    return celu(input, alpha, inplace=True)


def _softplus(x: Array, beta: float, threshold: float) -> Value:
    return where_p(x * beta > threshold, x, log1p_exp(x * beta) / beta)


softplus_p = elementwise(
    "softplus",
    _softplus,
    x=lambda g, x, beta, threshold: where_p(x * beta > threshold, g, g * sigmoid_p(x * beta)),
    static="beta threshold",
    check=_floats_only,
)


def softplus(input: Tensor, beta: float = 1, threshold: float = 20, *, out: Tensor | None = None) -> Tensor:
    """Return a smooth approximation of relu: ``log(1 + exp(beta * x)) / beta``.

    Parameters
    ----------
    input : Tensor
        Of any shape and a float dtype.
    beta : float, default 1
        Sharpness of the bend.
    threshold : float, default 20
        Where ``beta * x`` is larger, the result is ``x``.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`. Positive.

    Raises
    ------
    NotImplementedError
        If the dtype is not floating.

    Examples
    --------
    >>> x = adjoint.tensor([-2.0, 0.0, 2.0])
    >>> adjoint.nn.functional.softplus(x)
    tensor([0.1269, 0.6931, 2.1269])
    """
    if type(threshold) not in (float, int) or type(beta) not in (float, int):
        beta, threshold = real_of(beta, "beta", "softplus"), real_of(threshold, "threshold", "softplus")
    return into(out, softplus_p(input, beta, threshold))


log_sigmoid_p = elementwise(
    "log_sigmoid",
    lambda x: 0 - log1p_exp(-x),  # and not -0.0
    x=lambda g, x: g * sigmoid_p(-x),
    check=_floats_only,
    holomorphic=False,
)


def logsigmoid(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Return the logarithm of the sigmoid, without underflow: ``-log(1 + exp(-x))``.

    Parameters
    ----------
    input : Tensor
        Of any shape and a float dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`. Negative.

    Raises
    ------
    NotImplementedError
        If the dtype is not floating.

    Examples
    --------
    >>> adjoint.nn.functional.logsigmoid(adjoint.tensor([-1000.0, 0.0, 2.0]))
    tensor([-1.0000e+03, -6.9315e-01, -1.2693e-01])
    """
    return into(out, log_sigmoid_p(input))


# --- Smooth gates -------------------------------------------------------------------------------------

_DENSITY = 1 / math.sqrt(2 * math.pi)  # of a standard normal variable, at 0
_TANH_RATE = 2 * math.sqrt(2 / math.pi)
_TANH_CUBIC = 0.044715 * _TANH_RATE


def _gelu(x: Array, approximate: str) -> Any:
    if approximate == "none":
        return x * normal_cdf(x)
    # (1 + tanh(u / 2)) / 2 is the sigmoid of u, which has one exponential.
    return x / (1 + np.exp(-x * (_TANH_RATE + _TANH_CUBIC * x * x)))


def _gelu_slope(x: Array, approximate: str) -> Any:
    if approximate == "none":
        return normal_cdf(x) + x * np.exp(-0.5 * x * x) * _DENSITY
    s = sigmoid_p(x * (_TANH_RATE + _TANH_CUBIC * x * x))
    return s + x * s * (1 - s) * (_TANH_RATE + 3 * _TANH_CUBIC * x * x)


def _gelu_slope_x(g: Array, x: Array, approximate: str) -> Value:
    if approximate == "none":
        return g * (np.exp(-0.5 * x * x) * (2 - x * x) * _DENSITY)
    s = sigmoid_p(x * (_TANH_RATE + _TANH_CUBIC * x * x))
    rate = _TANH_RATE + 3 * _TANH_CUBIC * x * x
    slope = s * (1 - s) * rate  # first: the square of the rate may be infinite
    return g * (2 * slope + x * ((1 - 2 * s) * slope * rate + 6 * _TANH_CUBIC * (s * (1 - s)) * x))


gelu_slope_p = elementwise("gelu_slope", _gelu_slope, x=_gelu_slope_x, static="approximate", check=_floats_only)
gelu_p = elementwise(
    "gelu",
    _gelu,
    x=lambda g, x, approximate: g * gelu_slope_p(x, approximate),
    static="approximate",
    check=_floats_only,
)


def gelu(input: Tensor, approximate: str = "none", *, out: Tensor | None = None) -> Tensor:
    """Return the Gaussian error linear unit: ``x * Phi(x)``, with the normal distribution function Phi.

    Parameters
    ----------
    input : Tensor
        Of any shape and a float dtype.
    approximate : {"none", "tanh"}, default "none"
        Compute ``Phi(x) = (1 + erf(x / sqrt(2))) / 2``, or approximate it by
        ``(1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))) / 2``.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Raises
    ------
    RuntimeError
        If `approximate` is another word.
    NotImplementedError
        If the dtype is not floating.

    Examples
    --------
    >>> x = adjoint.tensor([-2.0, 0.0, 2.0])
    >>> adjoint.nn.functional.gelu(x)
    tensor([-0.0455,  0.0000,  1.9545])
    >>> adjoint.nn.functional.gelu(x, approximate="tanh")
    tensor([-0.0454,  0.0000,  1.9546])
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return into(out, gelu_p(input, approximate))


silu_slope_p = elementwise(
    "silu_slope",
    lambda x: _silu_slope(x, sigmoid_p(x)),
    x=lambda g, x: _silu_curvature(g, x, sigmoid_p(x)),
    check=_no_integers,
)


def _silu_slope(x: Array, s: Value) -> Value:
    return s * (1 + x * (1 - s))


def _silu_curvature(g: Array, x: Array, s: Value) -> Value:
    return g * (s * (1 - s) * (2 + x * (1 - 2 * s)))


silu_p = elementwise(
    "silu",
    lambda x: x / (1 + np.exp(-x)),
    x=lambda g, x: g * silu_slope_p(x),
    check=_no_integers,
)
_silu_ = inplace(silu_p)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Return the sigmoid linear unit, or swish: ``x * sigmoid(x)``.

    Parameters
    ----------
    input : Tensor
        Of any shape and a float or complex dtype.
    inplace : bool, default False
        Write the result to `input`.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Raises
    ------
    NotImplementedError
        If the dtype is bool or an integer.

    Examples
    --------
    >>> x = adjoint.tensor([-2.0, 0.0, 2.0])
    >>> adjoint.nn.functional.silu(x)
    tensor([-0.2384,  0.0000,  1.7616])
    """
    return (_silu_ if inplace else silu_p)(input)


def _mish_x(g: Array, x: Array) -> Any:
    # One exponential: tanh(softplus(x)) is n / (n + 2) with n = e^x (e^x + 2); from 20 on it is 1.
    e = np.exp(np.minimum(x, 20))
    t = e * (e + 2) / (e * (e + 2) + 2)
    return g * (t + x * (1 - t * t) * (e / (e + 1)))


mish_p = elementwise("mish", lambda x: x * np.tanh(log1p_exp(x)), x=_mish_x, check=_floats_only, holomorphic=False)
_mish_ = inplace(mish_p)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Return mish: ``x * tanh(log(1 + exp(x)))``.

    Parameters
    ----------
    input : Tensor
        Of any shape and a float dtype.
    inplace : bool, default False
        Write the result to `input`.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Raises
    ------
    NotImplementedError
        If the dtype is not floating.

    Examples
    --------
    >>> x = adjoint.tensor([-2.0, 0.0, 2.0])
    >>> adjoint.nn.functional.mish(x)
    tensor([-0.2525,  0.0000,  1.9440])
    """
    return (_mish_ if inplace else mish_p)(input)


def softsign(input: Tensor) -> Tensor:
    """Take ``x / (1 + |x|)``.

    Parameters
    ----------
    input : Tensor
        Of any shape.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Examples
    --------
    >>> adjoint.nn.functional.softsign(adjoint.tensor([-2.0, 0.5, 4.0]))
    tensor([-0.6667,  0.3333,  0.8000])
    """
    return div_p(input, add_p(abs_p(input), 1))


def tanhshrink(input: Tensor) -> Tensor:
    """Take ``x - tanh(x)``.

    Parameters
    ----------
    input : Tensor
        Of any shape.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`.

    Examples
    --------
    >>> adjoint.nn.functional.tanhshrink(adjoint.tensor([-2.0, 0.5, 4.0]))
    tensor([-1.0360,  0.0379,  3.0007])
    """
    return sub_p(input, tanh_p(input))


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Return the gated linear unit: ``a * sigmoid(b)``, where a and b are the halves of `input`.

    Parameters
    ----------
    input : Tensor
        Of a float dtype, with an even size along `dim`.
    dim : int, default -1
        Dimension to halve.

    Returns
    -------
    Tensor
        Of the shape of `input` with half the size along `dim`.

    Raises
    ------
    RuntimeError
        If the size along `dim` is odd, or `input` has no dimensions.
    NotImplementedError
        If the dtype is not floating.

    Examples
    --------
    >>> adjoint.nn.functional.glu(adjoint.tensor([[1.0, 2.0, 0.0, 100.0]]))
    tensor([[0.5000, 2.0000]])
    """
    if input.array.ndim == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    axis = dim_in(dim, input.array.ndim)
    size = input.array.shape[axis]
    if size % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {axis} is size {size}")
    if input.array.dtype.kind in "biuc":
        raise not_implemented("glu_cpu", input.array)
    return mul_p(input.narrow(axis, 0, size // 2), sigmoid_p(input.narrow(axis, size // 2, size // 2)))


__all__ = [
    "celu", "celu_", "hardshrink", "prelu", "relu", "relu_", "rrelu", "rrelu_", "selu", "selu_",
    "threshold", "threshold_",
]  # fmt: skip
