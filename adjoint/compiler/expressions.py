"""Lines of a graph as expressions of scalars, printed by adjoint/scalar: what a fused loop computes for one element.

Which lines these are follows from the declarations: a primitive whose kernel can be read as a formula is one.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from .._typing import DType
from ..core.promotion import result_type
from ..ops.rows import is_class_p
from ..scalar import loops
from ..scalar.symbol import Function, Symbol, ordered, shared, variable
from .graph import Line, Step, Value

IS_CLASS = is_class_p.op  # of a column of targets, whether the column of an element is the class of its row

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
    out = line.outputs[0]
    if out.dtype == TRUTH and name_of(line) != "cast":
        return np.dtype(result_type([_sample(o) for o in line.operands]).np)
    return out.dtype


def _sample(operand: object) -> Any:
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
    if isinstance(line.op, Step) or line.op is IS_CLASS:
        return line.op is IS_CLASS and len(out.shape) == 2 and values[0].shape == (out.shape[0], 1)
    if not all(_is_readable(v) or (out.device != "cpu" and v.dtype.name in HALVES) for v in values):
        return False
    if name == "cast":
        return is_floating(out) or out.dtype == TRUTH
    formula = formula_of(line)
    if formula is None or any(f.name not in _COMPILED for f in functions_of(line)) or formula.boolean != (
        out.dtype == TRUTH
    ):  # fmt: skip
        return False
    if not all(_is_truth(o) for o, mask in zip(line.operands, _masks(line), strict=True) if mask):
        return False
    if out.dtype != TRUTH:
        return is_floating(out)
    if all(v.dtype == TRUTH for v in values):
        return all(f.name.startswith("logical") for f in functions_of(line))
    return computing_dtype(line).kind in "fi" or any(map(is_half, values))


def _is_readable(v: Value) -> bool:
    return is_half(v) or (v.dtype.kind in "fbi" and v.dtype.itemsize in (1, 4, 8) and v.dtype.isnative)


def _is_truth(operand: object) -> bool:
    return isinstance(operand, Value) and operand.dtype == TRUTH


def _masks(line: Line) -> list[bool]:
    """Return of each operand whether it is a mask."""
    return [name in ("condition", "mask") for name in line.op.inputs]


_formulas: dict[Any, Symbol | None] = {}


def formula_of(line: Line) -> Symbol | None:
    """Return the expression of a line's value, its operands called x0, x1, ...; None where there is none."""
    op = line.op
    if op.batch not in ("elementwise", "same") or op.outputs or op.view or len(op.inputs) != len(line.operands):
        return None
    logic = all(_is_truth(o) for o in line.operands)
    key = (op.name, op.kernel, logic, repr(line.params))
    if key not in _formulas:
        _formulas[key] = _traced(line, logic)
    return _formulas[key]


def _traced(line: Line, logic: bool) -> Symbol | None:
    given = [variable(f"x{i}", boolean=mask or logic) for i, mask in enumerate(_masks(line))]
    try:
        found = line.op.kernel(*given, *line.params)
    except Exception:  # whatever a kernel does with what is no array
        return None
    return shared([found])[0] if isinstance(found, Symbol) and found.function is not None else None


@cache
def _functions(formula: Symbol) -> frozenset[Function]:
    return frozenset(node.function for node in ordered([formula]) if node.function is not None)


def functions_of(line: Line) -> frozenset[Function]:
    """Return the scalar functions that a line's expression is made of."""
    formula = None if line.op is IS_CLASS else formula_of(line)
    return frozenset() if formula is None else _functions(formula)


# The scalar functions that both compilers know; in a loop, the others take as long as NumPy's.
_COMPILED = frozenset((
    "add", "subtract", "multiply", "divide", "negative", "square", "reciprocal", "positive", "zeros_like", "ones_like",
    "equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "isnan", "isfinite", "isinf", "logical_and",
    "logical_or", "logical_not", "choose", "maximum", "minimum", "fmax", "fmin", "absolute", "sign", "floor", "ceil",
    "trunc", "exp", "log", "log1p", "expm1", "tanh", "sin", "cos", "sqrt", "log2", "tan", "sinh", "cosh", "arctan",
    "arcsin", "arccos", "power", "erf", "normal_cdf", "log1p_exp",
))  # fmt: skip


def is_reduction(line: Line) -> bool:
    """Return whether a loop can compute the line's value by going through its operand once."""
    if not line.is_call or isinstance(line.op, Step) or name_of(line) not in REDUCTIONS:
        return False
    x = line.operands[0]
    return (
        isinstance(x, Value) and x.dtype in FLOATS and line.outputs[0].dtype == x.dtype
        and bool(line.params[1]) and bool(line.params[0]) and 0 not in x.shape
    )  # fmt: skip


def wanted_dtypes(line: Line) -> list[Any]:
    """Return the dtype in which a line reads each operand."""
    dtype = computing_dtype(line)
    if name_of(line) == "cast":
        return [line.operands[0].dtype if line.outputs[0].dtype == TRUTH else dtype]
    return [TRUTH if mask else dtype for mask in _masks(line)]


def expression(line: Line, operands: list[str], dtype: DType, prefix: str) -> tuple[list[str], str]:
    """Return assignments that compute a line for one element in a dtype, and the text of the result."""
    if name_of(line) == "cast":
        return [], operands[0] if line.outputs[0].dtype != TRUTH else f"{operands[0]} != 0"
    formula = formula_of(line)
    assert formula is not None
    names = {f"x{i}": text for i, text in enumerate(operands)}
    assignments, (text,) = loops.lines([formula], dtype, names, prefix)
    return assignments, text


def reducing(name: str, total: str, element: str) -> str:
    """Return the text that takes one more element into a running result."""
    return f"{total} + {element}" if name == "sum" else _REDUCING[name].format(total, element)
