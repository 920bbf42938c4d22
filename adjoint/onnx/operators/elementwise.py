"""Operators that compute element by element."""

from __future__ import annotations

import functools
import math
from typing import Any

import ml_dtypes
import numpy as np

from ...nn import functional as F
from ...ops import namespace as T
from ...ops.shape import cast_p
from ..reading import ModelError, dtype_of
from .table import OPERATORS, Context, constant, operator

__all__: list[str] = []


def _plain(function: Any) -> Any:
    # the attributes are those of operator sets before 7
    def run(context: Context, *xs: Any, consumed_inputs: Any = None, axis: Any = None, broadcast: int = 0) -> Any:
        return function(*xs)

    return run


OPERATORS.update({
    name: _plain(function) for name, function in {
        "Abs": T.abs, "Acos": T.acos, "Acosh": T.acosh, "Add": T.add, "And": T.logical_and, "Asin": T.asin,
        "Asinh": T.asinh, "Atan": T.atan, "Atanh": T.atanh, "Ceil": T.ceil, "Cos": T.cos, "Cosh": T.cosh,
        "Equal": T.eq, "Erf": T.erf, "Exp": T.exp, "Floor": T.floor, "Greater": T.gt, "GreaterOrEqual": T.ge,
        "HardSwish": F.hardswish, "Identity": lambda x: x, "IsNaN": T.isnan, "Less": T.lt, "LessOrEqual": T.le,
        "Log": T.log, "Mish": F.mish, "Mul": T.mul, "Neg": T.neg, "Not": T.logical_not, "Or": T.logical_or,
        "Relu": F.relu, "Round": T.round, "Sigmoid": T.sigmoid, "Sign": T.sign, "Sin": T.sin, "Sinh": T.sinh,
        "Softplus": lambda x: F.softplus(x, 1.0, 1000.0), "Softsign": F.softsign, "Sqrt": T.sqrt, "Sub": T.sub,
        "Tan": T.tan, "Tanh": T.tanh, "Xor": T.logical_xor, "BitwiseAnd": T.bitwise_and, "BitwiseOr": T.bitwise_or,
        "BitwiseXor": T.bitwise_xor, "BitwiseNot": T.bitwise_not, "Where": T.where, "Reciprocal": T.reciprocal,
    }.items()
})  # fmt: skip


@operator("Div")
def _div(context: Context, x: Any, y: Any, **_: Any) -> Any:
    return T.div(x, y) if x.array.dtype.kind not in "iu" else T.div(x, y, rounding_mode="trunc")


@operator("Pow")
def _pow(context: Context, x: Any, y: Any, **_: Any) -> Any:
    return cast_p(T.pow(x, y), x.array.dtype)


@operator("Mod")
def _mod(context: Context, x: Any, y: Any, fmod: int = 0) -> Any:
    return T.fmod(x, y) if fmod else T.remainder(x, y)


@operator("BitShift")
def _bit_shift(context: Context, x: Any, y: Any, direction: str = "") -> Any:
    return (T.bitwise_left_shift if direction == "LEFT" else T.bitwise_right_shift)(x, y)


@operator("Cast")
def _cast(context: Context, x: Any, to: int = 1, saturate: int = 1, round_mode: str = "") -> Any:
    return _converted(x, dtype_of(to), bool(saturate))


def _converted(x: Any, dtype: Any, saturate: bool) -> Any:
    if x.array.dtype == dtype:
        return x
    if saturate and dtype.name.startswith("float8") and x.array.dtype.kind == "f":
        most = float(ml_dtypes.finfo(dtype).max)  # what is beyond becomes the largest number, infinities too
        x = T.clamp(x, -most, most)
    return cast_p(x, dtype)


@operator("CastLike")
def _cast_like(context: Context, x: Any, like: Any, saturate: int = 1, round_mode: str = "") -> Any:
    return _converted(x, like.array.dtype, bool(saturate))


@operator("Clip")
def _clip(context: Context, x: Any, low: Any = None, high: Any = None, min: Any = None, max: Any = None) -> Any:
    low = constant(min, x.array.dtype) if min is not None else low
    high = constant(max, x.array.dtype) if max is not None else high
    x = x if low is None else T.maximum(x, low)
    return x if high is None else T.minimum(x, high)


def _folded(function: Any) -> Any:
    return lambda context, *xs, **_: functools.reduce(function, xs)


OPERATORS["Max"], OPERATORS["Min"], OPERATORS["Sum"] = _folded(T.maximum), _folded(T.minimum), _folded(T.add)


@operator("Mean")
def _mean(context: Context, *xs: Any, **_: Any) -> Any:
    return functools.reduce(T.add, xs) / len(xs)


@operator("LeakyRelu")
def _leaky_relu(context: Context, x: Any, alpha: float = 0.01) -> Any:
    return F.leaky_relu(x, alpha)


@operator("Elu")
def _elu(context: Context, x: Any, alpha: float = 1.0) -> Any:
    return F.elu(x, alpha)


@operator("Celu")
def _celu(context: Context, x: Any, alpha: float = 1.0) -> Any:
    return T.where(x > 0, x, alpha * T.expm1(T.clamp(x, max=0) / alpha))


@operator("Selu")
def _selu(
    context: Context, x: Any, alpha: float = 1.67326319217681884765625, gamma: float = 1.05070102214813232421875
) -> Any:
    return gamma * T.where(x > 0, x, alpha * T.expm1(T.clamp(x, max=0)))


@operator("ThresholdedRelu")
def _thresholded(context: Context, x: Any, alpha: float = 1.0) -> Any:
    return T.where(x > alpha, x, constant(0, x.array.dtype))


@operator("HardSigmoid")
def _hard_sigmoid(context: Context, x: Any, alpha: float = 0.2, beta: float = 0.5) -> Any:
    return T.clamp(x * alpha + beta, 0, 1)


@operator("Shrink")
def _shrink(context: Context, x: Any, bias: float = 0.0, lambd: float = 0.5) -> Any:
    zero = constant(0, x.array.dtype)
    return cast_p(T.where(x < -lambd, x + bias, T.where(x > lambd, x - bias, zero)), x.array.dtype)


@operator("Gelu")
def _gelu(context: Context, x: Any, approximate: str = "none") -> Any:
    return F.gelu(x, approximate=approximate)


@operator("Swish")
def _swish(context: Context, x: Any, alpha: float = 1.0) -> Any:
    return x * T.sigmoid(alpha * x)


@operator("PRelu")
def _prelu(context: Context, x: Any, slope: Any) -> Any:
    return T.where(x < 0, x * slope, x)


@operator("IsInf")
def _is_inf(context: Context, x: Any, detect_negative: int = 1, detect_positive: int = 1) -> Any:
    found = T.isinf(x)
    if not detect_negative:
        found = T.logical_and(found, x > 0)
    return found if detect_positive else T.logical_and(found, x < 0)


@operator("Dropout")
def _dropout(context: Context, x: Any, ratio: Any = None, training: Any = None, seed: int = 0, **older: Any) -> Any:
    p = float(ratio.array) if ratio is not None else float(older.get("ratio", 0.5))
    on = context.module.training if training is None else bool(training.array)
    if not on or p == 0:
        return x, constant(np.ones(x.array.shape), bool)
    out = F.dropout(x, p, True)
    return out, out != 0


@operator("Softmax", "LogSoftmax", "Hardmax")
def _softmax(context: Context, x: Any, axis: int | None = None) -> Any:
    axis = (-1 if context.opset >= 13 else 1) if axis is None else axis
    shape = x.array.shape
    flat = x
    if context.opset < 13:
        flat, axis = T.reshape(x, (math.prod(shape[:axis]), -1)), 1
    if context.node.op == "Hardmax":
        size = flat.array.shape[axis]
        best = T.unsqueeze(T.argmax(flat, axis), axis)
        places = [1] * flat.array.ndim
        places[axis] = size
        found = cast_p(best == T.reshape(T.arange(size), places), x.array.dtype)
    else:
        found = (T.softmax if context.node.op == "Softmax" else T.log_softmax)(flat, axis)
    return found if flat is x else T.reshape(found, shape)


@operator("QuantizeLinear", "DequantizeLinear")
def _quantized(
    context: Context, x: Any, scale: Any, zero: Any = None, axis: int = 1, block_size: int = 0, **more: Any
) -> Any:
    if block_size or more.get("output_dtype") or more.get("precision"):
        raise ModelError("quantization by blocks is not run here")
    rank = x.array.ndim
    shape = [1] * rank
    if scale.array.ndim == 1 and scale.array.size > 1:
        shape[axis] = -1
    scale = T.reshape(scale, shape)
    if context.node.op == "DequantizeLinear":
        number = cast_p(x, scale.array.dtype)
        return (number if zero is None else number - cast_p(T.reshape(zero, shape), scale.array.dtype)) * scale
    dtype = np.dtype(np.uint8) if zero is None else zero.array.dtype
    if dtype.kind not in "iu":
        raise ModelError(f"quantization to {dtype.name} is not run here")
    bounds = np.iinfo(dtype)
    number = T.round(cast_p(x, np.float32) / cast_p(scale, np.float32))
    number = number if zero is None else number + cast_p(T.reshape(zero, shape), np.float32)
    return cast_p(T.clamp(number, float(bounds.min), float(bounds.max)), dtype)
