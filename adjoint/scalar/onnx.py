"""Formulas as ONNX nodes: each named scalar function as one operator or several, written by a `Builder`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from .symbol import Symbol, ordered

__all__ = ["FUNCTIONS", "Unsupported", "printed"]


class Unsupported(NotImplementedError):
    """ONNX cannot say what a line does; the message says why."""


class Builder(Protocol):
    """Writes nodes, and returns the names of their results."""

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Add a node of one result."""

    def constant(self, value: Any, dtype: Any = None) -> str:
        """Add a constant."""


_TRUTH = np.dtype(bool)


def printed(b: Builder, result: Symbol, operands: dict[str, str], dtype: Any) -> str:
    """Write an expression of operands, all of one dtype but for masks; return the name of its value."""
    names: dict[int, str] = {}
    for node in ordered([result]):
        if node.function is None:
            names[node.number] = operands[node.name]
            continue
        form = FUNCTIONS.get(node.function.name)
        if form is None:
            raise Unsupported(f"the scalar function {node.function.name} has no ONNX form")
        masks = node.function.name.startswith("logical_")
        given = [
            names[v.number] if isinstance(v, Symbol) else b.constant(v, _TRUTH if masks else dtype)
            for v in node.operands
        ]
        if node.function.name == "choose" and not isinstance(node.operands[0], Symbol):
            given[0] = b.constant(node.operands[0], _TRUTH)
        names[node.number] = form(b, np.dtype(dtype), *given)
    return names[result.number]


def _op(name: str, **attributes: Any) -> Callable[..., str]:
    return lambda b, dtype, *xs: b.node(name, *xs, **attributes)


def _not(name: str) -> Callable[..., str]:
    return lambda b, dtype, *xs: b.node("Not", b.node(name, *xs))


def _times(name: str, factor: float) -> Callable[..., str]:
    return lambda b, dtype, x: b.node("Mul", b.node(name, x) if name else x, b.constant(factor, dtype))


def _finite(b: Builder, dtype: Any, x: str) -> str:
    return b.node("Not", b.node("Or", b.node("IsNaN", x), b.node("IsInf", x)))


def _signbit(b: Builder, dtype: Any, x: str) -> str:
    zero = b.constant(0, dtype)
    # The sign of minus zero shows in its reciprocal.
    negative_zero = b.node("And", b.node("Equal", x, zero), b.node("Less", b.node("Reciprocal", x), zero))
    return b.node("Or", b.node("Less", x, zero), negative_zero)


def _copysign(b: Builder, dtype: Any, x: str, y: str) -> str:
    size = b.node("Abs", x)
    return b.node("Where", _signbit(b, dtype, y), b.node("Neg", size), size)


def _past_nan(name: str) -> Callable[..., str]:
    def form(b: Builder, dtype: Any, x: str, y: str) -> str:
        both = b.node(name, x, y)
        if dtype.kind != "f":
            return both
        return b.node("Where", b.node("IsNaN", x), y, b.node("Where", b.node("IsNaN", y), x, both))

    return form


def _through_nan(name: str) -> Callable[..., str]:
    return lambda b, dtype, x, y: b.node(name, x, y)


def _trunc(b: Builder, dtype: Any, x: str) -> str:
    if dtype.kind != "f":
        return x
    return b.node("Mul", b.node("Sign", x), b.node("Floor", b.node("Abs", x)))


def _cbrt(b: Builder, dtype: Any, x: str) -> str:
    return b.node("Mul", b.node("Sign", x), b.node("Pow", b.node("Abs", x), b.constant(1 / 3, dtype)))


def _arctan2(b: Builder, dtype: Any, y: str, x: str) -> str:
    zero, pi = b.constant(0, dtype), b.constant(math.pi, dtype)
    # half the angle's tangent: y / (|z| + x), or (|z| - x) / y on the left, where that loses no digits
    length = b.node("Sqrt", b.node("Add", b.node("Mul", x, x), b.node("Mul", y, y)))
    right = b.node("Div", y, b.node("Add", length, x))
    left = b.node("Div", b.node("Sub", length, x), y)
    half = b.node("Atan", b.node("Where", b.node("Less", x, zero), left, right))
    angle = b.node("Mul", half, b.constant(2, dtype))
    flat = b.node("Equal", y, zero)
    straight = b.node("Where", b.node("Less", x, zero), _copysign(b, dtype, pi, y), y)
    return b.node("Where", flat, straight, angle)


def _remainder(b: Builder, dtype: Any, x: str, y: str) -> str:
    if dtype.kind != "f":
        return b.node("Mod", x, y)
    # of the sign of the divisor
    rest = b.node("Mod", x, y, fmod=1)
    zero = b.constant(0, dtype)
    other = b.node("Less", b.node("Mul", rest, y), zero)
    return b.node("Where", other, b.node("Add", rest, y), rest)


def _floor_divide(b: Builder, dtype: Any, x: str, y: str) -> str:
    if dtype.kind == "f":
        return b.node("Floor", b.node("Div", x, y))
    return b.node("Div", b.node("Sub", x, b.node("Mod", x, y)), y)


def _logaddexp(base: float) -> Callable[..., str]:
    def form(b: Builder, dtype: Any, x: str, y: str) -> str:
        gap = b.node("Mul", b.node("Abs", b.node("Sub", x, y)), b.constant(-math.log(base), dtype))
        grown = b.node("Mul", b.node("Softplus", gap), b.constant(1 / math.log(base), dtype))
        return b.node("Add", b.node("Max", x, y), grown)

    return form


def _normal_cdf(b: Builder, dtype: Any, x: str) -> str:
    erf = b.node("Erf", b.node("Div", x, b.constant(math.sqrt(2), dtype)))
    return b.node("Mul", b.node("Add", erf, b.constant(1, dtype)), b.constant(0.5, dtype))


def _log1p(b: Builder, dtype: Any, x: str) -> str:
    return b.node("Log", b.node("Add", x, b.constant(1, dtype)))


def _filled(value: float) -> Callable[..., str]:
    return lambda b, dtype, x: b.node("Expand", b.constant(value, dtype), b.node("Shape", x))


def _power(b: Builder, dtype: Any, x: str, y: str) -> str:
    return b.node("Pow", x, y)


# What each named scalar function is in ONNX: called with the builder, the dtype computed in, and names of operands.
FUNCTIONS: dict[str, Callable[..., str]] = {
    "add": _op("Add"), "subtract": _op("Sub"), "multiply": _op("Mul"), "divide": _op("Div"), "negative": _op("Neg"),
    "square": lambda b, dtype, x: b.node("Mul", x, x), "reciprocal": _op("Reciprocal"),
    "positive": lambda b, dtype, x: x, "zeros_like": _filled(0), "ones_like": _filled(1),
    "equal": _op("Equal"), "not_equal": _not("Equal"), "less": _op("Less"), "less_equal": _op("LessOrEqual"),
    "greater": _op("Greater"), "greater_equal": _op("GreaterOrEqual"), "isnan": _op("IsNaN"), "isfinite": _finite,
    "isinf": _op("IsInf"), "signbit": _signbit, "logical_and": _op("And"), "logical_or": _op("Or"),
    "logical_xor": _op("Xor"), "logical_not": _op("Not"), "choose": _op("Where"), "maximum": _through_nan("Max"),
    "minimum": _through_nan("Min"), "fmax": _past_nan("Max"), "fmin": _past_nan("Min"), "absolute": _op("Abs"),
    "copysign": _copysign, "sign": _op("Sign"), "floor": _op("Floor"), "ceil": _op("Ceil"), "trunc": _trunc,
    "rint": _op("Round"), "exp": _op("Exp"), "exp_below": _op("Exp"), "log": _op("Log"), "log1p": _log1p,
    "expm1": lambda b, dtype, x: b.node("Sub", b.node("Exp", x), b.constant(1, dtype)), "tanh": _op("Tanh"),
    "sin": _op("Sin"), "cos": _op("Cos"), "sqrt": _op("Sqrt"), "log2": _times("Log", 1 / math.log(2)),
    "log10": _times("Log", 1 / math.log(10)), "tan": _op("Tan"), "sinh": _op("Sinh"), "cosh": _op("Cosh"),
    "arctan": _op("Atan"), "arcsin": _op("Asin"), "arccos": _op("Acos"), "arcsinh": _op("Asinh"),
    "arccosh": _op("Acosh"), "arctanh": _op("Atanh"),
    "exp2": lambda b, dtype, x: b.node("Exp", b.node("Mul", x, b.constant(math.log(2), dtype))), "cbrt": _cbrt,
    "arctan2": _arctan2, "power": _power, "fmod": _op("Mod", fmod=1), "remainder": _remainder,
    "hypot": lambda b, dtype, x, y: b.node("Sqrt", b.node("Add", b.node("Mul", x, x), b.node("Mul", y, y))),
    "floor_divide": _floor_divide, "deg2rad": _times("", math.pi / 180), "rad2deg": _times("", 180 / math.pi),
    "logaddexp": _logaddexp(math.e), "logaddexp2": _logaddexp(2), "erf": _op("Erf"), "normal_cdf": _normal_cdf,
    "ndtr": _normal_cdf, "log1p_exp": _op("Softplus"),
    "erfc": lambda b, dtype, x: b.node("Sub", b.constant(1, dtype), b.node("Erf", x)),
}  # fmt: skip
