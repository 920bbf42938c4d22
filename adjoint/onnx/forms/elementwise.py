"""Elementwise primitives for which ONNX has an operator of its own; all others are printed from their formulas."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...scalar.onnx import FUNCTIONS
from ..builder import Builder, Unsupported
from .table import computed_in, derived, form

__all__: list[str] = []


def _single(name: str, op: str, **attributes: Any) -> None:
    @form(name)
    def write(b: Builder, x: Any) -> str:
        assert b.line is not None
        return b.node(op, b.of(x, b.line.outputs[0].dtype), **attributes)


for _name, _onnx in {
    "relu": "Relu", "sigmoid": "Sigmoid", "tanh": "Tanh", "hardswish": "HardSwish", "mish": "Mish",
    "round": "Round",
}.items():  # fmt: skip
    _single(_name, _onnx)
_single("hardsigmoid", "HardSigmoid", alpha=1 / 6, beta=0.5)


@form("alias", "detach", "clone", "contiguous", "move", "conj", "clone_ordered", "copy_strided")
def _same(b: Builder, x: Any, *_: Any) -> str:
    return b.of(x)


@form("cast")
def _cast(b: Builder, x: Any, dtype: Any) -> str:
    return b.of(x, dtype)


@form("silu")
def _silu(b: Builder, x: Any) -> str:
    return b.node("Mul", b.of(x), b.node("Sigmoid", b.of(x)))


@form("rsqrt")
def _rsqrt(b: Builder, x: Any) -> str:
    assert b.line is not None
    return b.node("Reciprocal", b.node("Sqrt", b.of(x, b.line.outputs[0].dtype)))


@form("gelu")
def _gelu(b: Builder, x: Any, approximate: str) -> str:
    if b.opset >= 20:
        return b.node("Gelu", b.of(x), approximate=approximate)
    assert b.line is not None
    return derived(b, b.line)


@form("leaky_relu")
def _leaky_relu(b: Builder, x: Any, negative_slope: float) -> str:
    return b.node("LeakyRelu", b.of(x), alpha=float(negative_slope))


@form("elu")
def _elu(b: Builder, x: Any, alpha: float, scale: float, input_scale: float) -> str:
    name = b.of(x) if input_scale == 1 else b.node("Mul", b.of(x), b.constant(input_scale, x.dtype))
    inner = b.node("Elu", name, alpha=float(alpha))
    if input_scale != 1:  # what is above 0 is scaled by `scale` alone
        inner = b.node("Where", b.node("Greater", b.of(x), b.constant(0, x.dtype)), b.of(x), inner)
    return inner if scale == 1 else b.node("Mul", inner, b.constant(scale, x.dtype))


@form("softplus")
def _softplus(b: Builder, x: Any, beta: float, threshold: float) -> str:
    scaled = b.of(x) if beta == 1 else b.node("Mul", b.of(x), b.constant(beta, x.dtype))
    soft = b.node("Softplus", scaled)
    if beta != 1:
        soft = b.node("Div", soft, b.constant(beta, x.dtype))
    return b.node("Where", b.node("Greater", scaled, b.constant(threshold, x.dtype)), b.of(x), soft)


@form("clamp")
def _clamp(b: Builder, x: Any, low: Any, high: Any) -> str:
    assert b.line is not None
    dtype = b.line.outputs[0].dtype
    bounds = ["" if v is None else b.of(v, dtype) for v in (low, high)]
    return b.node("Clip", b.of(x, dtype), *(bounds if bounds[1] else bounds[:1]))


@form("power")
def _power(b: Builder, x: Any, exponent: Any) -> str:
    assert b.line is not None
    dtype = b.line.outputs[0].dtype
    name = b.of(x, dtype)
    if exponent == 2:
        return b.node("Mul", name, name)
    if exponent == 3:
        return b.node("Mul", b.node("Mul", name, name), name)
    if exponent == 0.5:
        return b.node("Sqrt", name)
    if exponent == -1 and dtype.kind == "f":
        return b.node("Reciprocal", name)
    return b.node("Pow", name, b.of(exponent, dtype))


@form("exponential")
def _exponential(b: Builder, x: Any, base: Any) -> str:
    assert b.line is not None
    dtype = b.line.outputs[0].dtype
    return b.node("Pow", b.of(base, dtype), b.of(x, dtype))


@form("masked_fill")
def _masked_fill(b: Builder, x: Any, mask: Any, value: Any) -> str:
    return b.node("Where", b.of(mask), b.of(value, x.dtype), b.of(x))


@form("where")
def _where(b: Builder, condition: Any, x: Any, y: Any) -> str:
    assert b.line is not None
    dtype = b.line.outputs[0].dtype
    return b.node("Where", b.of(condition, bool), b.of(x, dtype), b.of(y, dtype))


@form("zero", "zeros_like")
def _zero(b: Builder, x: Any) -> str:
    assert b.line is not None
    return b.node("Expand", b.constant(0, b.line.outputs[0].dtype), b.node("Shape", b.of(x)))


@form("fill", "copy")
def _fill(b: Builder, x: Any, y: Any) -> str:
    return b.node("Expand", b.of(y, x.dtype), b.node("Shape", b.of(x)))


@form("abs")
def _abs(b: Builder, x: Any) -> str:
    return b.node("Abs", b.of(x))


@form("neg")
def _neg(b: Builder, x: Any) -> str:
    return b.node("Neg", b.of(x))


@form("sign", "sgn")
def _sign(b: Builder, x: Any) -> str:
    return b.node("Sign", b.of(x))


@form("floor", "ceil", "trunc")
def _rounded(b: Builder, x: Any) -> str:
    assert b.line is not None
    if x.dtype.kind != "f":
        return b.of(x)
    if b.line.name == "trunc":
        return b.node("Mul", b.node("Sign", b.of(x)), b.node("Floor", b.node("Abs", b.of(x))))
    return b.node(b.line.name.capitalize(), b.of(x))


@form("round_to")
def _round_to(b: Builder, x: Any, decimals: int) -> str:
    factor = b.constant(10.0**decimals, x.dtype)
    return b.node("Div", b.node("Round", b.node("Mul", b.of(x), factor)), factor)


@form("nan_to_num")
def _nan_to_num(b: Builder, x: Any, nan: Any, posinf: Any, neginf: Any) -> str:
    name = b.node("Where", b.node("IsNaN", b.of(x)), b.constant(nan, x.dtype), b.of(x))
    name = b.node("Where", b.node("IsInf", name, detect_negative=0), b.constant(posinf, x.dtype), name)
    return b.node("Where", b.node("IsInf", name, detect_positive=0), b.constant(neginf, x.dtype), name)


_LOGIC = {"and": "And", "or": "Or", "xor": "Xor"}


def _bitwise(word: str) -> None:
    @form(f"bitwise_{word}")
    def write(b: Builder, x: Any, y: Any) -> str:
        assert b.line is not None
        dtype = b.line.outputs[0].dtype
        op = _LOGIC[word] if dtype.kind == "b" else f"Bitwise{_LOGIC[word]}"
        return b.node(op, b.of(x, dtype), b.of(y, dtype))


for _word in _LOGIC:
    _bitwise(_word)


@form("bitwise_not")
def _bitwise_not(b: Builder, x: Any) -> str:
    return b.node("Not" if x.dtype == bool else "BitwiseNot", b.of(x))


@form("logical_not")
def _logical_not(b: Builder, x: Any) -> str:
    return b.node("Not", b.of(x, bool))


def _logical(word: str) -> None:
    @form(f"logical_{word}")
    def write(b: Builder, x: Any, y: Any) -> str:
        return b.node(_LOGIC[word], b.of(x, bool), b.of(y, bool))


for _word in _LOGIC:
    _logical(_word)


def _compared(name: str, op: str) -> None:
    @form(name)
    def write(b: Builder, x: Any, y: Any) -> str:
        assert b.line is not None
        dtype = computed_in(b.line)
        if dtype.kind == "b" and op != "Equal":
            dtype = np.dtype(np.int32)
        found = b.node(op, b.of(x, dtype), b.of(y, dtype))
        return b.node("Not", found) if name == "ne" else found


for _name, _onnx in {
    "eq": "Equal", "ne": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual",
}.items():  # fmt: skip
    _compared(_name, _onnx)


@form("div_trunc")
def _div_trunc(b: Builder, x: Any, y: Any) -> str:
    assert b.line is not None
    dtype = b.line.outputs[0].dtype
    quotient = b.node("Div", b.of(x, dtype), b.of(y, dtype))  # of integers, towards zero
    if dtype.kind != "f":
        return quotient
    return b.node("Mul", b.node("Sign", quotient), b.node("Floor", b.node("Abs", quotient)))


@form("div_floor", "remainder", "fmod")
def _divided(b: Builder, x: Any, y: Any) -> str:
    assert b.line is not None
    dtype = b.line.outputs[0].dtype
    name = {"div_floor": "floor_divide"}.get(b.line.name, b.line.name)
    return FUNCTIONS[name](b, dtype, b.of(x, dtype), b.of(y, dtype))


@form("isclose")
def _isclose(b: Builder, x: Any, y: Any, rtol: float, atol: float, equal_nan: bool) -> str:
    if equal_nan:
        raise Unsupported("isclose with equal_nan")
    dtype = x.dtype
    room = b.node("Add", b.constant(atol, dtype), b.node("Mul", b.constant(rtol, dtype), b.node("Abs", b.of(y))))
    near = b.node("LessOrEqual", b.node("Abs", b.node("Sub", b.of(x), b.of(y))), room)
    return b.node("Or", b.node("Equal", b.of(x), b.of(y)), near)


@form("bitwise_left_shift", "bitwise_right_shift")
def _shift(b: Builder, x: Any, y: Any) -> str:
    assert b.line is not None
    dtype = b.line.outputs[0].dtype
    if dtype.kind != "u":
        raise Unsupported("ONNX shifts unsigned integers only")
    direction = "LEFT" if "left" in b.line.name else "RIGHT"
    return b.node("BitShift", b.of(x, dtype), b.of(y, dtype), direction=direction)


@form("number")
def _number(b: Builder, x: Any) -> str:
    return b.of(x, np.float64)
