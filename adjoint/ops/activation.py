"""Activation functions, with the signatures of ``torch.nn.functional``.

Only the names in `__all__` are also ``adjoint.NAME``, as they are in torch.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._typing import Tensor
from ..core import device as devices
from ..core.failures import not_implemented, title_of
from ..core.inplace import inplace
from ..core.nodes import wrap
from ..core.payload import Payload, inside
from ..core.promotion import number_like
from ..core.recorders import binary, parametric, unary
from ..kernels import activations, few, fused, selection, special
from ..kernels.constants import constants_of
from ..kernels.elementwise import elementwise
from ..kernels.fused import LARGE
from .arguments import dim_in, dtype_of
from .create import into
from .elementwise import add_p, div_p, mul_p, sigmoid_p, sub_p, tanh_p
from .piecewise import abs_p, chosen, passed, stopped, where_p
from .precision import autocasting
from .shape import reshape_p

Number = Any

ndarray = np.ndarray
_FEW = 3000  # elements below which calls cost more than passes


def of_floats(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel for floats only, which computes half precision in single."""
    complex_too = kernel.__name__ in ("_silu", "_silu_slope")
    single = special.in_single(kernel)

    @functools.wraps(kernel)
    def checked(x: Any, *params: Any) -> Any:
        if x.dtype.kind in "biu" or (x.dtype.kind == "c" and not complex_too):
            raise not_implemented(kernel.__name__.strip("_"), x)
        return single(x, *params) if x.dtype.itemsize == 2 else kernel(x, *params)

    return checked


def _refuse_bool(x: Any, name: str) -> None:
    if x.dtype.kind == "c":
        raise NotImplementedError(f"clamp is not supported for complex types: {name} has no order to clamp by")
    if x.dtype.kind == "b":
        raise RuntimeError(f"Boolean inputs not supported for {name}")


# --- Made of straight pieces --------------------------------------------------------------------------


def _relu(x: Any) -> Any:
    _refuse_bool(x, "relu")
    found = fused.apply("relu", x) if x.size >= LARGE else None
    if found is not None:
        return found
    return np.maximum(x, constants_of(x)[0]) if x.size < _FEW else selection.clip(x, x.dtype.type(0), None)


def _relu_x(g: Any, out: Any) -> Any:
    found = fused.apply("relu_back", g, out) if type(g) is ndarray and g.size >= LARGE else None
    return stopped(out <= constants_of(out)[0], g) if found is None else found


relu_p = unary(_relu, x=_relu_x, name="relu", holomorphic=False, flat=True)
relu_ = inplace(relu_p)


def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """Replace negative elements by zero.

    Examples
    --------
    >>> adjoint.relu(adjoint.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return relu_(input) if inplace else relu_p(input)


def _hardtanh(x: Any, min_val: Any, max_val: Any) -> Any:
    _refuse_bool(x, "hardtanh")
    return selection.clip(x, x.dtype.type(min_val), x.dtype.type(max_val))


def _hardtanh_x(g: Any, x: Any, min_val: Any, max_val: Any) -> Any:
    number = constants_of(x)
    return passed((x > number[min_val]) & (x < number[max_val]), g)


hardtanh_p = parametric(
    _hardtanh,
    x=_hardtanh_x,
    jvp="elementwise",
    batch="same",
    flat=True,
)
_hardtanh_ = inplace(hardtanh_p)


def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """Clamp to the interval from `min_val` to `max_val`; at its ends the gradient is zero."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return (_hardtanh_ if inplace else hardtanh_p)(input, min_val, max_val)


def hardtanh_(input: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """Clamp to the interval from `min_val` to `max_val`, in place."""
    return hardtanh(input, min_val, max_val, inplace=True)


def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """Clamp to the interval from 0 to 6."""
    return hardtanh(input, 0.0, 6.0, inplace)


@of_floats
def _leaky_relu(x: Any, negative_slope: Any) -> Any:
    found = fused.apply("leaky_relu", x, negative_slope) if x.size >= LARGE else None
    if found is not None:
        return found
    if 0 < negative_slope <= 1:  # 0 times infinity is NaN
        return np.maximum(x, x * constants_of(x)[negative_slope])
    return selection.where(x > 0, x, x * negative_slope)


def _leaky_relu_x(g: Any, x: Any, negative_slope: Any) -> Any:
    if type(g) is ndarray and g.size >= LARGE and g.dtype is x.dtype:
        found = fused.apply("leaky_relu_back", g, x, negative_slope)
        if found is not None:
            return found
    number = constants_of(x)
    return chosen(x > number[0], g, g * number[negative_slope])


leaky_relu_p = parametric(
    _leaky_relu,
    x=_leaky_relu_x,
    jvp="elementwise",
    batch="same",
    flat=True,
)
_leaky_relu_ = inplace(leaky_relu_p)


def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """Multiply negative elements by `negative_slope`."""
    return (_leaky_relu_ if inplace else leaky_relu_p)(input, negative_slope)


def leaky_relu_(input: Tensor, negative_slope: float = 0.01) -> Tensor:
    """Multiply negative elements by `negative_slope`, in place."""
    return _leaky_relu_(input, negative_slope)


def _prelu(x: Any, y: Any) -> Any:
    return np.where(x > 0, x, y * x)


prelu_p = binary(
    _prelu,
    x=lambda g, x, y: where_p(x > 0, g, g * y),
    y=lambda g, x: where_p(x > 0, 0, g * x),
    name="prelu",
    node_name="PreluKernelBackward0",
    saved={"y": "weight"},
    flat=True,
)


@autocasting
def prelu(input: Tensor, weight: Tensor) -> Tensor:
    """Multiply negative elements by a learned slope: one for all, or one per channel (dimension 1)."""
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
    noise[negative] = stream_of(None).uniform((int(negative.sum()),), np.float64, lower, upper)
    return devices.place_array(noise, devices.of(array))


def rrelu(
    input: Tensor,
    lower: float = 1.0 / 8,
    upper: float = 1.0 / 3,
    training: bool = False,
    inplace: bool = False,
) -> Tensor:
    """Multiply negative elements by slopes drawn between `lower` and `upper`; by their mean in evaluation."""
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
    """Multiply negative elements by random slopes, in place."""
    return rrelu(input, lower, upper, training, inplace=True)


def _threshold(x: Any, threshold: Any, value: Any) -> Any:
    if x.dtype.kind in "bc":
        raise not_implemented("threshold", x)
    return selection.where(x <= threshold, number_like(value, x), x)


threshold_p = parametric(
    _threshold, x=lambda g, x, threshold: where_p(x <= threshold, 0, g), jvp="elementwise", batch="same", flat=True
)
_threshold_ = inplace(threshold_p)


def threshold(input: Tensor, threshold: float, value: float, inplace: bool = False) -> Tensor:
    """Replace elements not above `threshold` by `value`."""
    return (_threshold_ if inplace else threshold_p)(input, threshold, value)


def threshold_(input: Tensor, threshold: float, value: float) -> Tensor:
    """Replace elements not above `threshold` by `value`, in place."""
    return _threshold_(input, threshold, value)


@of_floats
def _hardshrink(x: Any, lambd: Any) -> Any:
    return selection.where((x >= -lambd) & (x <= lambd), 0, x)


@of_floats
def _softshrink(x: Any, lambd: Any) -> Any:
    return x - selection.clip(x, -lambd, lambd)


hardshrink_p = parametric(
    _hardshrink,
    x=lambda g, x, lambd: where_p((x > lambd) | (x < -lambd), g, 0),
    jvp="elementwise",
    batch="same",
    flat=True,
)
softshrink_p = parametric(
    _softshrink,
    x=lambda g, x, lambd: where_p((x > lambd) | (x < -lambd), g, 0),
    jvp="elementwise",
    batch="same",
    flat=True,
)


def hardshrink(input: Tensor, lambd: float = 0.5, *, out: Any = None) -> Tensor:
    """Replace elements between ``-lambd`` and `lambd` by zero."""
    return into(out, hardshrink_p(input, lambd))


def softshrink(input: Tensor, lambd: float = 0.5, *, out: Any = None) -> Tensor:
    """Move elements towards zero by `lambd`, and not past it."""
    if lambd < 0:
        kind = title_of(input.dtype)
        raise RuntimeError(f"lambda must be in range [0, the greatest number] of input dtype {kind}, but found {lambd}")
    return into(out, softshrink_p(input, lambd))


_INSIDE = 2.999  # a bound between the two kinks


def _three_lines(x: Any, number: Any) -> Any:
    """Return six times the sigmoid made of three straight lines."""
    if type(x) is ndarray and x.size < _FEW:
        return np.minimum(np.maximum(x + number[3], number[0]), number[6])
    return selection.clip(x + number[3], number[0], number[6])


@of_floats
def _hardsigmoid(x: Any) -> Any:
    number = constants_of(x)
    return _three_lines(x, number) / number[6]


@of_floats
def _hardswish(x: Any) -> Any:
    number = constants_of(x)
    return x * _three_lines(x, number) / number[6]


def _hardsigmoid_x(g: Any, x: Any) -> Any:
    number = constants_of(x)
    if few.within(x, _INSIDE):
        return g / number[6]
    return passed((x > number[-3]) & (x < number[3]), g / number[6])


def _hardswish_x(g: Any, x: Any) -> Any:
    number = constants_of(x)
    middle = g * (x / number[3] + number[0.5])
    if few.within(x, _INSIDE):
        return middle
    return stopped(x <= number[-3], chosen(x < number[3], middle, g))


hardsigmoid_p = unary(
    _hardsigmoid,
    x=_hardsigmoid_x,
    name="hardsigmoid",
    holomorphic=False,
    flat=True,
)
hardswish_p = unary(_hardswish, x=_hardswish_x, name="hardswish", holomorphic=False)
_hardsigmoid_, _hardswish_ = inplace(hardsigmoid_p), inplace(hardswish_p)


def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """Take the sigmoid made of three straight lines."""
    return (_hardsigmoid_ if inplace else hardsigmoid_p)(input)


def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """Multiply by the sigmoid made of three straight lines."""
    return (_hardswish_ if inplace else hardswish_p)(input)


# --- Exponential --------------------------------------------------------------------------------------

_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


@of_floats
def _elu(x: Any, alpha: Any, scale: Any, input_scale: Any) -> Any:
    found = fused.apply("elu", x, alpha, scale, input_scale) if x.size >= LARGE else None
    if found is not None:
        return found
    number = constants_of(x)
    negative = np.minimum(x, number[0])
    bent = np.expm1(negative if input_scale == 1 else negative * number[input_scale])
    c = np.maximum(x, number[0]) + (bent if alpha == 1 else bent * number[alpha])
    return c if scale == 1 else c * number[scale]


def _elu_x(g: Any, x: Any, alpha: Any, scale: Any, input_scale: Any) -> Any:
    if type(g) is ndarray and g.size >= LARGE:
        found = fused.apply("elu_back", g, x, alpha, scale, input_scale)
        if found is not None:
            return found
    # exp of the positive part would overflow to inf where it is not wanted, and inf * 0 is NaN.
    number = constants_of(x)
    negative = np.minimum(x, number[0]) if type(x) is ndarray else where_p(x >= number[0], number[0], x)
    slope = np.exp(negative if input_scale == 1 else negative * number[input_scale])
    if alpha * input_scale == 1:  # no kink: the slope of what is positive is exp(0)
        return g * slope if scale == 1 else g * (slope * number[scale])
    if alpha * scale * input_scale != 1:
        slope = slope * number[alpha * scale * input_scale]
    return chosen(x > number[0], g if scale == 1 else g * number[scale], g * slope)


elu_p = parametric(_elu, x=_elu_x, jvp="elementwise", batch="same")
_elu_ = inplace(elu_p)


def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Replace negative elements x by ``alpha * (exp(x) - 1)``."""
    return (_elu_ if inplace else elu_p)(input, alpha, 1, 1)


def elu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Take `elu` in place."""
    return _elu_(input, alpha, 1, 1)


def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """Take `elu` with the constants that keep mean and variance."""
    return (_elu_ if inplace else elu_p)(input, _SELU_ALPHA, _SELU_SCALE, 1)


def selu_(input: Tensor) -> Tensor:
    """Take `selu` in place."""
    return selu(input, inplace=True)


def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """Replace negative elements x by ``alpha * (exp(x / alpha) - 1)``."""
    if alpha == 0:
        raise RuntimeError("ZeroDivisionError: alpha cannot be 0 for CELU")
    return (_elu_ if inplace else elu_p)(input, alpha, 1, 1 / alpha)


def celu_(input: Tensor, alpha: float = 1.0) -> Tensor:
    """Take `celu` in place."""
    return celu(input, alpha, inplace=True)


@of_floats
def _softplus(x: Any, beta: Any, threshold: Any) -> Any:
    found = fused.apply("softplus", x, beta, threshold) if x.size >= LARGE else None
    if found is not None:
        return found
    scaled = x if beta == 1 else x * beta
    smooth = special.softplus(scaled)
    if _never_linear(x, threshold):
        return smooth if beta == 1 else smooth / beta
    return selection.where(scaled > threshold, x, smooth if beta == 1 else smooth / beta)


def _never_linear(x: Any, threshold: float) -> bool:
    """Return whether single precision cannot tell softplus from x where x is over the threshold."""
    return threshold >= 17 and dtype_of(x).itemsize <= 4


def _softplus_x(g: Any, x: Any, beta: Any, threshold: Any) -> Any:
    if type(g) is ndarray and g.size >= LARGE:
        found = fused.apply("softplus_back", g, x, beta, threshold)
        if found is not None:
            return found
    scaled = x if beta == 1 else x * beta
    if _never_linear(x, threshold):
        return g * sigmoid_p(scaled)
    return where_p(scaled > threshold, g, g * sigmoid_p(scaled))


softplus_p = parametric(_softplus, x=_softplus_x, jvp="elementwise", batch="same")


def softplus(input: Tensor, beta: float = 1, threshold: float = 20, *, out: Any = None) -> Tensor:
    """Take ``log(1 + exp(beta * x)) / beta``, a smooth relu; linear where ``beta * x`` is over `threshold`.

    Examples
    --------
    >>> adjoint.nn.functional.softplus(adjoint.tensor([0.0, 30.0]))  # doctest: +SKIP
    tensor([ 0.6931, 30.0000])
    """
    return into(out, softplus_p(input, beta, threshold))


@of_floats
def _log_sigmoid(x: Any) -> Any:
    return -special.softplus(-x)


log_sigmoid_p = unary(_log_sigmoid, x=lambda g, x: g * sigmoid_p(-x), name="log_sigmoid", holomorphic=False)


def logsigmoid(input: Tensor, *, out: Any = None) -> Tensor:
    """Take the logarithm of the sigmoid, without underflow."""
    return into(out, log_sigmoid_p(input))


# --- Smooth gates -------------------------------------------------------------------------------------

_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
_GELU_CUBIC = 0.044715


def _activated(kind: str, kernel: Any, x: Any) -> Any:
    """Return an activation function of each element, by whoever is fastest."""
    if x.size < LARGE or type(x) is not ndarray:
        return kernel(x)
    out = activations.forward(kind, x)
    return elementwise(kernel, x, writes=x.dtype) if out is None else out


def _activated_back(kind: str, slope: Any, g: Any, x: Any) -> Any:
    """Return the gradient of an activation function's input, of arrays."""
    if x.size < LARGE or g.dtype != x.dtype:
        return g * slope(x)
    out = activations.backward(kind, g, x)
    if out is not None:
        return out
    return elementwise(lambda g, x, out: np.multiply(g, slope(x), out=out), g, x, writes=x.dtype)


_GELU = {"none": ("gelu", special.gelu), "tanh": ("gelu tanh", special.gelu_tanh)}


@of_floats
def _gelu(x: Any, approximate: Any) -> Any:
    return _activated(*_GELU[approximate], x)


@of_floats
def _gelu_slope(x: Any, approximate: Any) -> Any:
    return special.gelu_slope(x) if approximate == "none" else special.gelu_tanh_slope(x)


def _gelu_x(g: Any, x: Any, approximate: Any) -> Any:
    if type(x) is ndarray and type(g) is ndarray:
        return _activated_back(_GELU[approximate][0], lambda x: _gelu_slope(x, approximate), g, x)
    return g * gelu_slope_p(x, approximate)


def _gelu_slope_x(g: Any, x: Any, approximate: Any) -> Any:
    square = x * x
    if approximate == "none":
        return g * (np.exp(-0.5 * square) * (2 - square) * (1 / math.sqrt(2 * math.pi)))
    t = np.tanh(_SQRT_2_OVER_PI * x * (1 + _GELU_CUBIC * square))
    rate = _SQRT_2_OVER_PI * (1 + 3 * _GELU_CUBIC * square)
    bend = 6 * _GELU_CUBIC * _SQRT_2_OVER_PI * x
    return g * ((1 - t * t) * (rate + 0.5 * x * (bend - 2 * t * rate * rate)))


gelu_slope_p = parametric(_gelu_slope, x=_gelu_slope_x, jvp="elementwise", batch="same")
gelu_p = parametric(_gelu, x=_gelu_x, jvp="elementwise", batch="same")


def gelu(input: Tensor, approximate: str = "none", *, out: Any = None) -> Tensor:
    """Multiply x by the probability that a standard normal variable is below it.

    `approximate` is ``"none"`` or ``"tanh"``.
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError("approximate argument must be either none or tanh.")
    return into(out, gelu_p(input, approximate))


@of_floats
def _silu(x: Any) -> Any:
    return _activated("silu", lambda x, out=None: np.multiply(x, special.sigmoid(x), out=out), x)


@of_floats
def _silu_slope(x: Any) -> Any:
    s, one = special.sigmoid(x), constants_of(x)[1]
    c = one - s
    c *= x
    c += one
    c *= s
    return c


def _silu_slope_x(g: Any, x: Any) -> Any:
    s = sigmoid_p(x)
    return g * (s * (1 - s) * (2 + x * (1 - 2 * s)))


def _silu_rule(g: Any, x: Any) -> Any:
    if type(x) is ndarray and type(g) is ndarray:
        return _activated_back("silu", _silu_slope, g, x)
    return g * silu_slope_p(x)


silu_slope_p = unary(_silu_slope, x=_silu_slope_x, name="silu_slope")
silu_p = unary(_silu, x=_silu_rule, name="silu")
_silu_ = inplace(silu_p)


def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """Multiply by the sigmoid."""
    return (_silu_ if inplace else silu_p)(input)


@of_floats
def _mish(x: Any) -> Any:
    return x * np.tanh(special.softplus(x))


def _mish_slope(x: Any) -> Any:
    """Return the derivative of `mish` by one exponential: tanh(softplus(x)) is n / (n + 2) with n = e^x (e^x + 2)."""
    number = constants_of(x)
    e = np.exp(np.minimum(x, number[20]))  # from there on the hyperbolic tangent is 1
    t = e + number[2]
    t *= e
    t /= t + number[2]
    c = number[1] - t * t
    c *= x
    c *= e / (e + number[1])
    c += t
    return c


def _mish_x(g: Any, x: Any) -> Any:
    if type(x) is ndarray and type(g) is ndarray and x.dtype.itemsize > 2:
        return g * _mish_slope(x)
    t = np.tanh(softplus_p(x, 1, 1e9))
    return g * (t + x * (constants_of(x)[1] - t * t) * sigmoid_p(x))


mish_p = unary(_mish, x=_mish_x, name="mish", holomorphic=False)
_mish_ = inplace(mish_p)


def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """Multiply by the hyperbolic tangent of the softplus."""
    return (_mish_ if inplace else mish_p)(input)


def softsign(input: Tensor) -> Tensor:
    """Take ``x / (1 + |x|)``."""
    return div_p(input, add_p(abs_p(input), 1))


def tanhshrink(input: Tensor) -> Tensor:
    """Take ``x - tanh(x)``."""
    return sub_p(input, tanh_p(input))


def glu(input: Tensor, dim: int = -1) -> Tensor:
    """Multiply the first half along `dim` by the sigmoid of the second."""
    if input.array.ndim == 0:
        raise RuntimeError("glu does not support 0-dimensional tensors")
    axis = dim_in(dim, input.array.ndim)
    size = input.array.shape[axis]
    if size % 2:
        raise RuntimeError(f"Halving dimension must be even, but dimension {axis} is size {size}")
    if input.array.dtype.kind in "biu":
        raise not_implemented("glu", input.array)
    return mul_p(input.narrow(axis, 0, size // 2), sigmoid_p(input.narrow(axis, size // 2, size // 2)))


__all__ = [
    "celu", "celu_", "hardshrink", "prelu", "relu", "relu_", "rrelu", "rrelu_", "selu", "selu_",
    "threshold", "threshold_",
]  # fmt: skip
