"""Elementwise primitives with an ONNX operator; all others are printed from their formulas."""

from __future__ import annotations

import math
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
    left = "left" in b.line.name
    if dtype.kind == "u":
        return b.node("BitShift", b.of(x, dtype), b.of(y, dtype), direction="LEFT" if left else "RIGHT")
    power = b.node("Pow", b.constant(2, np.int64), b.of(y, np.int64))
    value = b.of(x, np.int64)
    found = b.node("Mul", value, power) if left else FUNCTIONS["floor_divide"](b, np.dtype(np.int64), value, power)
    return found if dtype == np.int64 else b.cast(found, dtype)


# --- Functions by series, good to single precision ---------------------------------------------------

_STEPS = 7  # by which an argument is moved to where its asymptotic series holds
_DIGAMMA = (-1 / 12, 1 / 120, -1 / 252)  # of powers of 1 / x ** 2
_LGAMMA = (1 / 12, -1 / 360, 1 / 1260)
# M. Giles, Approximating the erfinv function: polynomials near 0 and in the tails
_NEAR = (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
         -0.00417768164, 0.246640727, 1.50140941)  # fmt: skip
_TAIL = (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
         0.00943887047, 1.00167406, 2.83297682)  # fmt: skip


class _Arithmetic:
    """Writes arithmetic of one dtype; numbers are constants."""

    def __init__(self, b: Builder, dtype: Any) -> None:
        self.b, self.dtype = b, dtype

    def __call__(self, op: str, *operands: Any) -> str:
        names = [o if isinstance(o, str) else self.b.constant(o, self.dtype) for o in operands]
        return self.b.node(op, *names)

    def polynomial(self, x: str, coefficients: Any) -> Any:
        """Return a polynomial, the highest power first."""
        found = coefficients[0]
        for c in coefficients[1:]:
            found = self("Add", self("Mul", found, x), c)
        return found


def _arithmetic(b: Builder, x: Any) -> tuple[_Arithmetic, str]:
    assert b.line is not None
    dtype = b.line.outputs[0].dtype
    return _Arithmetic(b, dtype), b.of(x, dtype)


@form("digamma")
def _digamma(b: Builder, x: Any) -> str:
    do, name = _arithmetic(b, x)
    negative = do("Less", name, 0)
    z = do("Where", negative, do("Sub", 1, name), name)
    moved = do("Add", z, _STEPS)
    square = do("Reciprocal", do("Mul", moved, moved))
    series = do("Mul", do.polynomial(square, _DIGAMMA[::-1]), square)
    found = do("Sub", do("Add", do("Log", moved), series), do("Div", 0.5, moved))
    for step in range(_STEPS):
        found = do("Sub", found, do("Reciprocal", do("Add", z, step)))
    reflected = do("Sub", found, do("Div", math.pi, do("Tan", do("Mul", name, math.pi))))
    pole = b.node("And", negative, do("Equal", name, do("Floor", name)))
    return do("Where", pole, math.nan, do("Where", negative, reflected, found))


@form("lgamma")
def _lgamma(b: Builder, x: Any) -> str:
    do, name = _arithmetic(b, x)
    left = do("Less", name, 0.5)
    z = do("Where", left, do("Sub", 1, name), name)
    small, low = do("Less", z, _STEPS + 1), do("Min", z, _STEPS + 1)
    product = low
    for step in range(1, _STEPS):
        product = do("Mul", product, do("Add", low, step))
    moved = do("Where", small, do("Add", z, _STEPS), z)
    inverse = do("Reciprocal", moved)
    series = do("Mul", do.polynomial(do("Mul", inverse, inverse), _LGAMMA[::-1]), inverse)
    main = do("Sub", do("Mul", do("Sub", moved, 0.5), do("Log", moved)), moved)
    found = do("Add", do("Add", main, 0.5 * math.log(2 * math.pi)), series)
    found = do("Sub", found, do("Where", small, do("Log", product), 0))
    sine = do("Abs", do("Sin", do("Mul", do("Sub", name, do("Floor", name)), math.pi)))
    return do("Where", left, do("Sub", do("Log", do("Div", math.pi, sine)), found), found)


@form("erfinv")
def _erfinv(b: Builder, x: Any) -> str:
    do, name = _arithmetic(b, x)
    w = do("Neg", do("Log", do("Mul", do("Sub", 1, name), do("Add", 1, name))))
    near = do.polynomial(do("Sub", w, 2.5), _NEAR)
    tail = do.polynomial(do("Sub", do("Sqrt", w), 3), _TAIL)
    found = do("Mul", do("Where", do("Less", w, 5), near, tail), name)
    end = do("Equal", do("Abs", name), 1)
    return do("Where", end, do("Mul", name, math.inf), found)


@form("number")
def _number(b: Builder, x: Any) -> str:
    return b.of(x, np.float64)
