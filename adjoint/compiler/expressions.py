"""Elementwise primitives as expressions of numbers: the text that a fused loop computes for one element.

``{0}``, ``{1}`` are the operands, already in the dtype in which the line computes; other braces name parameters.
Functions (`exp`, `tanh`) are those of `kernels/mathematics.py`. NaNs go through as in NumPy: comparisons are false.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.promotion import result_type
from .graph import Line, Step, Value

# (target, of shape (N, 1)) -> bool of shape (N, C): whether a column is the class of its row. The parameter: C.
IS_CLASS = Step("is_class", lambda target, classes: target == np.arange(classes))

# Computed in the dtype of the result.
ARITHMETIC = {
    "add": "{0} + {1}", "sub": "{0} - {1}", "mul": "{0} * {1}", "rsub": "{1} - {0}", "neg": "-{0}", "zero": "{0} * 0",
    "abs": "abs({0})", "maximum": "{0} if ({0} > {1} or {0} != {0}) else {1}",
    "minimum": "{0} if ({0} < {1} or {0} != {0}) else {1}",
    "clamp_min": "{1} if {0} < {1} else {0}", "clamp_max": "{1} if {0} > {1} else {0}",
}  # fmt: skip
# The same, for floats only.
FLOATING = {
    "div": "{0} / {1}", "reciprocal": "{one} / {0}", "sqrt": "sqrt{w}({0})", "rsqrt": "{one} / sqrt{w}({0})",
    "exp": "exp{w}({0})", "log": "log{w}({0})", "tanh": "tanh{w}({0})", "sigmoid": "sigmoid{w}({0})",
    "erf": "erf{w}({0})", "sin": "sin{w}({0})", "cos": "cos{w}({0})", "log1p": "log1p{w}({0})",
    "expm1": "expm1{w}({0})", "log2": "log2{w}({0})", "floor": "floor{w}({0})", "ceil": "ceil{w}({0})",
    "trunc": "trunc{w}({0})", "atan": "atan{w}({0})", "sinh": "sinh{w}({0})", "cosh": "cosh{w}({0})",
    "tan": "tan{w}({0})", "asin": "asin{w}({0})", "acos": "acos{w}({0})", "relu": "{zero} if {0} <= {zero} else {0}",
    "silu": "{0} * sigmoid{w}({0})", "silu_slope": "silu_slope{w}({0})", "lerp": "{0} + {2} * ({1} - {0})",
    "sign": "({one} if {0} > {zero} else {zero}) - ({one} if {0} < {zero} else {zero})",
    "leaky_relu": "{0} if {0} > {zero} else {0} * {negative_slope}", "gelu": "gelu_{approximate}{w}({0})",
    "gelu_slope": "gelu_slope_{approximate}{w}({0})", "softplus": "softplus{w}({0}, {beta}, {threshold})",
    "power": "power{w}({0}, {exponent})", "pow": "power{w}({0}, {1})", "exponential": "power{w}({base}, {0})",
}  # fmt: skip
# Computed in the common dtype of the operands; the result is a truth.
COMPARISONS = {
    "eq": "{0} == {1}", "ne": "{0} != {1}", "lt": "{0} < {1}", "le": "{0} <= {1}", "gt": "{0} > {1}",
    "ge": "{0} >= {1}", "isnan": "{0} != {0}", "isfinite": "({0} - {0}) == ({0} - {0})",
}  # fmt: skip
LOGIC = {
    "logical_and": "{0} and {1}", "logical_or": "{0} or {1}", "logical_not": "not {0}", "bitwise_and": "{0} & {1}",
    "bitwise_or": "{0} | {1}", "bitwise_not": "not {0}",
}  # fmt: skip
REDUCTIONS = {"sum": "0", "amax": "-np.inf", "amin": "np.inf"}  # and what each starts from
_REDUCING = {
    "amax": "{0} if ({0} > {1} or {0} != {0}) else {1}",
    "amin": "{0} if ({0} < {1} or {0} != {0}) else {1}",
}
FLOATS = (np.dtype("float32"), np.dtype("float64"))
HALVES = ("bfloat16", "float16")  # computed in single precision, on a GPU; on the CPU left to NumPy
TRUTH = np.dtype(bool)


def is_half(v: Value) -> bool:
    """Return whether a value is of 16-bit floats that loops on its device take."""
    return v.device != "cpu" and v.dtype.itemsize == 2 and v.dtype.name in HALVES


def is_floating(v: Value) -> bool:
    """Return whether a value is of floats that loops take."""
    return v.dtype in FLOATS or is_half(v)


def name_of(line: Line) -> str:
    """Return the name of what a line calls."""
    return str(line.op.name)


def computing_dtype(line: Line) -> np.dtype[Any]:
    """Return the dtype in which a line computes."""
    name, out = name_of(line), line.outputs[0]
    if name in COMPARISONS:
        return np.dtype(result_type([_sample(o) for o in line.operands]).np)
    return out.dtype


def _sample(operand: Any) -> Any:
    """Return an array of one element that counts in promotion as the operand does."""
    return np.empty((1,) * len(operand.shape), operand.dtype) if isinstance(operand, Value) else operand


def is_elementwise(line: Line) -> bool:
    """Return whether a loop can compute the line's value element by element."""
    if not line.is_call or len(line.outputs) != 1:
        return False
    name, out = name_of(line), line.outputs[0]
    values = [o for o in line.operands if isinstance(o, Value)]
    if not values or any(not isinstance(o, Value) and type(o) not in (int, float, bool) for o in line.operands):
        return False
    if isinstance(line.op, Step):
        return line.op is IS_CLASS
    if not all(_is_readable(v) or (out.device != "cpu" and v.dtype.name in HALVES) for v in values):
        return False
    if name in ARITHMETIC or name in FLOATING:
        return is_floating(out) and _params_fit(name, line)
    if name == "cast":
        return is_floating(out) or out.dtype == TRUTH
    if name in ("where", "masked_fill"):
        return is_floating(out) and _is_truth(line.operands[0 if name == "where" else 1])
    if name in COMPARISONS:
        return out.dtype == TRUTH and (computing_dtype(line).kind in "fi" or any(map(is_half, values)))
    return name in LOGIC and out.dtype == TRUTH and all(v.dtype == TRUTH for v in values)


def _is_readable(v: Value) -> bool:
    return is_half(v) or (v.dtype.kind in "fbi" and v.dtype.itemsize in (1, 4, 8) and v.dtype.isnative)


def _is_truth(operand: Any) -> bool:
    return isinstance(operand, Value) and operand.dtype == TRUTH


def _params_fit(name: str, line: Line) -> bool:
    if name in ("clamp_min", "clamp_max"):
        return len(line.operands) == 2
    if name == "lerp":
        return len(line.operands) == 3
    if name in ("softplus", "leaky_relu", "power", "exponential"):
        return all(isinstance(p, int | float) for p in line.params)
    if name in ("gelu", "gelu_slope"):
        return line.params[0] in ("none", "tanh")
    return not line.params


def is_reduction(line: Line) -> bool:
    """Return whether a loop can compute the line's value by going through its operand once."""
    if not line.is_call or isinstance(line.op, Step) or name_of(line) not in REDUCTIONS:
        return False
    x = line.operands[0]
    return (
        isinstance(x, Value) and x.dtype in FLOATS and line.outputs[0].dtype == x.dtype
        and bool(line.params[1]) and bool(line.params[0]) and 0 not in x.shape
    )  # fmt: skip


def expression(line: Line, operands: list[str], dtype: Any = None) -> str:
    """Return the text that computes a line for one element, in the dtype of its result or another."""
    name = name_of(line)
    if name == "where":
        return f"{operands[1]} if {operands[0]} else {operands[2]}"
    if name == "masked_fill":
        return f"{operands[2]} if {operands[1]} else {operands[0]}"
    if name == "cast":
        return operands[0] if line.outputs[0].dtype != TRUTH else f"{operands[0]} != 0"
    for table in (ARITHMETIC, FLOATING, COMPARISONS, LOGIC):
        if name in table:
            return table[name].format(*operands, **_named_params(line, dtype or line.outputs[0].dtype))
    raise KeyError(name)


def _named_params(line: Line, dtype: Any) -> dict[str, Any]:
    """Return what the braces of an expression stand for: parameters, constants, the width of functions."""
    kind = f"np.{dtype.name}"
    named = {"w": dtype.itemsize * 8, "zero": f"{kind}(0)", "one": f"{kind}(1)"}
    for name, value in zip(getattr(line.op, "params", ()), line.params):
        named[name] = f"{kind}({float(value)!r})" if isinstance(value, int | float) else value
    return named


def reducing(name: str, total: str, element: str) -> str:
    """Return the text that takes one more element into a running result."""
    return f"{total} + {element}" if name == "sum" else _REDUCING[name].format(total, element)
