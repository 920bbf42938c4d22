"""Composite primitives as simpler ones: what eager mode computes in one kernel, fusion wants in small pieces.

Each entry of `RULES` takes a `Scribe` and a line, and writes the line's result with simpler lines; it may decline
by returning None, and the line stays. Shapes and dtypes are those of the captured run.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.nodes import registry
from ..core.primitive import by_ufunc
from ..scalar import rows
from ..scalar.functions import CHOOSE
from ..scalar.symbol import Symbol, ordered
from .expressions import IS_CLASS, REDUCTIONS, is_half
from .graph import Form, Graph, Line, Step, Value


class Scribe:
    """Writes simpler lines in place of one: each method returns the value that its line makes."""

    def __init__(self, graph: Graph, line: Line, into: list[Line]) -> None:
        self.graph, self.line, self.into = graph, line, into

    def write(self, op: Any, operands: tuple[Any, ...], shape: tuple[int, ...], dtype: Any, *params: Any) -> Value:
        """Add a line that makes one value."""
        value = self.graph.value(Form(shape, dtype, self.line.outputs[0].device))
        op = registry[op] if isinstance(op, str) else op
        self.into.append(Line(op, operands, params, (value,), self.line.place, self.line.backward))
        return value

    def unary(self, op: str, x: Value) -> Value:
        """Apply an elementwise op of one operand."""
        return self.write(op, (x,), x.shape, x.dtype)

    def binary(self, op: str, x: Any, y: Any, dtype: Any = None) -> Value:
        """Apply an elementwise op of two operands, of which one may be a number."""
        shapes = [v.shape for v in (x, y) if isinstance(v, Value)]
        like = x if isinstance(x, Value) else y
        return self.write(op, (x, y), np.broadcast_shapes(*shapes), like.dtype if dtype is None else dtype)

    def reduce(self, op: str, x: Value, axes: tuple[int, ...]) -> Value:
        """Reduce along axes, which stay with size 1."""
        shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
        return self.write(op, (x,), shape, x.dtype, axes, True)

    def reshape(self, x: Value, shape: tuple[int, ...]) -> Value:
        """Give other sizes to the same elements."""
        return x if x.shape == tuple(shape) else self.write("reshape", (x,), shape, x.dtype, tuple(shape))


def _axes(axes: Any, rank: int) -> tuple[int, ...]:
    given = range(rank) if axes is None else (axes,) if isinstance(axes, int) else axes
    return tuple(sorted(i % rank for i in given)) if rank else ()


def _linear(s: Scribe, x: Value, weight: Value, bias: Any = None) -> Value | None:
    if weight.dtype != x.dtype or len(weight.shape) != 2 or not x.shape or 0 in x.shape:
        return None
    rows, (columns, inner) = math.prod(x.shape[:-1]), weight.shape
    flat = s.reshape(x, (rows, inner))
    turned = s.write("transpose", (weight,), (inner, columns), weight.dtype, 0, 1)
    out = s.reshape(s.write("mm", (flat, turned), (rows, columns), x.dtype), (*x.shape[:-1], columns))
    return s.binary("add", out, bias) if isinstance(bias, Value) else out  # last: it fuses with what follows


def _bmm(s: Scribe, x: Value, y: Any) -> Value | None:
    """Write products of many matrices with the same one as one product."""
    if not isinstance(y, Value) or len(y.shape) != 2 or len(x.shape) < 3 or x.dtype != y.dtype or not x.size:
        return None
    rows = math.prod(x.shape[:-1])
    out = s.write("mm", (s.reshape(x, (rows, x.shape[-1])), y), (rows, y.shape[1]), x.dtype)
    return s.reshape(out, (*x.shape[:-1], y.shape[1]))


_REDUCED = {rows.SUM: "sum", rows.MAX: "amax"}


def _statement(statement: rows.Statement, s: Scribe, *args: Any) -> Value:
    """Write a row-wise op as its statement says; where that takes the first element of a row, zero does here."""
    axes, given = statement.axes(args), dict(zip(statement.arguments, args))
    absent = tuple([n for n in statement.operands if given[n] is None])
    (result, _), *_ = statement.traced(absent, tuple([given[n] for n in statement.static]))
    x = args[0]
    written: dict[int, Any] = {}
    for node in ordered([result]):
        operands = [written[v.number] if isinstance(v, Symbol) else v for v in node.operands]
        written[node.number] = _node(s, node, operands, given, axes, x)
    return s.reshape(written[result.number], s.line.outputs[0].shape)


def _node(s: Scribe, node: Symbol, operands: list[Any], given: dict[str, Any], axes: tuple[int, ...], x: Value) -> Any:
    function = node.function
    if function is None:
        return math.prod(x.shape[i] for i in axes) if node.name == rows.COUNT else given[node.name]
    if function is rows.FIRST:
        return 0.0
    if function in _REDUCED:
        return s.reduce(_REDUCED[function], operands[0], axes)
    if function is CHOOSE:
        shapes = [v.shape for v in operands if isinstance(v, Value)]
        return s.write("where", tuple(operands), np.broadcast_shapes(*shapes), x.dtype)
    if 0.0 in [v for v in operands if type(v) is float] and function.name in ("subtract", "add"):
        return operands[0] if isinstance(operands[0], Value) else operands[1]
    name = by_ufunc[function.arrays].op.name  # type: ignore[attr-defined]
    if len(operands) == 1:
        return s.write(name, tuple(operands), operands[0].shape, bool if node.boolean else operands[0].dtype)
    left, right = operands
    return s.binary(name, left, right, bool if node.boolean else None)


def _mean(s: Scribe, x: Value, axes: Any = None, keepdims: bool = False) -> Value | None:
    out = s.line.outputs[0]
    if x.dtype != out.dtype or not x.size:
        return None
    axes = _axes(axes, len(x.shape))
    count = math.prod(x.shape[i] for i in axes)
    return s.reshape(s.binary("div", s.reduce("sum", x, axes), count), out.shape)


def _sum_all(s: Scribe, x: Value) -> Value | None:
    return s.reshape(s.reduce("sum", x, _axes(None, len(x.shape))), ()) if x.dtype.kind == "f" else None


def _sum_to(s: Scribe, x: Value, shape: Any) -> Value | None:
    if x.dtype.kind != "f":
        return None
    lead = len(x.shape) - len(shape)
    axes = (*range(lead), *(i + lead for i, n in enumerate(shape) if n == 1 and x.shape[i + lead] != 1))
    return s.reshape(s.reduce("sum", x, axes) if axes else x, tuple(shape))


def _var(s: Scribe, x: Value, axes: Any, correction: Any, keepdims: bool) -> Value | None:
    axes = _axes(axes, len(x.shape))
    count = math.prod(x.shape[i] for i in axes)
    if count - correction <= 0 or x.dtype.kind != "f":
        return None
    centred = s.binary("sub", x, s.binary("div", s.reduce("sum", x, axes), count))
    total = s.reduce("sum", s.binary("mul", centred, centred), axes)
    return s.reshape(s.binary("div", total, count - correction), s.line.outputs[0].shape)


def _power(s: Scribe, x: Value, exponent: Any) -> Value | None:
    if exponent == 2:
        return s.binary("mul", x, x)
    if exponent == 3:
        return s.binary("mul", s.binary("mul", x, x), x)
    if exponent == 0.5 and x.dtype.kind == "f":
        return s.unary("sqrt", x)
    return s.unary("reciprocal", x) if exponent == -1 and x.dtype.kind == "f" else None


def _counted(s: Scribe, target: Value, ignored: int, dtype: Any) -> tuple[Value, Value]:
    """Return which samples count, as (N, 1), and how many they are, as (1, 1)."""
    column = s.reshape(target, (target.shape[0], 1))
    counts = s.binary("ne", column, ignored, bool)
    return counts, s.reduce("sum", s.write("cast", (counts,), counts.shape, dtype, dtype), (0, 1))


def _cross_entropy(s: Scribe, x: Value, target: Value, ignored: int, reduction: int, wide: bool) -> Value | None:
    rows, classes = x.shape
    if not rows or target.shape != (rows,) or reduction == 0:
        return None
    counts, number = _counted(s, target, ignored, x.dtype)  # first: what the way back needs is there early
    hit = s.write(IS_CLASS, (s.reshape(target, (rows, 1)),), (rows, classes), bool, classes)
    low = s.binary("sub", x, s.reduce("amax", x, (1,)))
    total = s.unary("log", s.reduce("sum", s.unary("exp", low), (1,)))
    picked = s.reduce("sum", s.write("where", (hit, low, 0.0), x.shape, x.dtype), (1,))
    each = s.write("where", (counts, s.binary("sub", total, picked), 0.0), (rows, 1), x.dtype)
    loss = s.reduce("sum", each, (0, 1))
    return s.reshape(loss if reduction == 2 else s.binary("div", loss, number), ())


def _nll_loss(s: Scribe, x: Value, target: Value, ignored: int, reduction: int) -> Value | None:
    """Write the loss on a GPU, where picking one element of a row is a reduction of it like any other."""
    if x.device == "cpu" or len(x.shape) != 2 or target.shape != x.shape[:1] or reduction == 0:
        return None
    rows, classes = x.shape
    counts, number = _counted(s, target, ignored, x.dtype)
    hit = s.write(IS_CLASS, (s.reshape(target, (rows, 1)),), (rows, classes), bool, classes)
    picked = s.reduce("sum", s.write("where", (hit, x, 0.0), x.shape, x.dtype), (1,))
    each = s.write("where", (counts, s.unary("neg", picked), 0.0), (rows, 1), x.dtype)
    loss = s.reduce("sum", each, (0, 1))
    return s.reshape(loss if reduction == 2 else s.binary("div", loss, number), ())


def _nll_back(s: Scribe, g: Value, target: Value, shape: Any, ignored: int, reduction: int) -> Value | None:
    if len(shape) != 2 or not shape[0] or target.shape != (shape[0],):
        return None
    rows, classes = shape
    hit = s.write(IS_CLASS, (s.reshape(target, (rows, 1)),), (rows, classes), bool, classes)
    counts, number = _counted(s, target, ignored, g.dtype)
    share = s.unary("neg", s.reshape(g, (rows, 1) if g.shape == (rows,) else (1, 1)))
    if reduction == 1:
        share = s.binary("div", share, number)
    share = s.write("where", (counts, share, 0.0), (rows, 1), g.dtype)
    return s.write("where", (hit, share, 0.0), tuple(shape), g.dtype)


def _mse(s: Scribe, x: Value, y: Value, reduction: int, option: Any) -> Value | None:
    if x.shape != y.shape or x.dtype != y.dtype or not x.size:
        return None
    gap = s.binary("sub", x, y)
    square = s.binary("mul", gap, gap)
    if reduction == 0:
        return square
    total = s.reduce("sum", square, _axes(None, len(x.shape)))
    return s.reshape(total if reduction == 2 else s.binary("mul", total, 1.0 / x.size), ())


def _reduced(op: str) -> Callable[..., Any]:
    """Write a reduction whose axes do not stay as one whose axes do, and a reshape."""

    def rule(s: Scribe, x: Value, axes: Any, keepdims: bool) -> Value | None:
        whole = _axes(axes, len(x.shape))
        if x.dtype.kind != "f" or x.dtype != s.line.outputs[0].dtype or (keepdims and axes == whole):
            return None
        return s.reshape(s.reduce(op, x, whole), s.line.outputs[0].shape)

    return rule


RULES: dict[str, Callable[..., Value | None]] = {
    "linear": _linear, "project": _linear, "mean": _mean, "mean_all": _mean, "sum_all": _sum_all,
    "sum_to": _sum_to, "var": _var, "power": _power, "cross_entropy": _cross_entropy,
    "nll_loss": _nll_loss, "nll_back": _nll_back, "mse_loss": _mse, "sum": _reduced("sum"), "amax": _reduced("amax"),
    "amin": _reduced("amin"), "bmm": _bmm,
}  # fmt: skip
_SPLITTING = frozenset(("split", "split_with_sizes", "unbind"))
_PRODUCTS = frozenset(("linear", "project", "bmm"))


def decompose(graph: Graph) -> None:
    """Write composite lines as simpler ones, all through."""
    lines: list[Line] = []
    for line in graph.lines:
        if getattr(line.op, "name", "") in _SPLITTING and not isinstance(line.op, Step):
            lines += _slices(line)
            continue
        made = _rewritten(graph, line, lines)
        if made is None:
            lines.append(line)
        else:
            _alias(lines, graph, line, made)
    graph.lines = lines


def _slices(line: Line) -> list[Line]:
    """Return what makes each part of a tensor that is split by a view of its own."""
    (indexes,) = line.params
    pairs = zip(indexes, line.outputs, strict=True)
    return [Line(registry["slice"], line.operands, (i,), (v,), line.place, line.backward) for i, v in pairs]


def _rewritten(graph: Graph, line: Line, lines: list[Line]) -> Value | None:
    rule = RULES.get(getattr(line.op, "name", "")) or _rule_of(line.op)
    if rule is None or isinstance(line.op, Step) or len(line.outputs) != 1:
        return None
    first = line.operands[0] if line.operands else None
    if not isinstance(first, Value) or (first.dtype.kind not in "f" and not is_half(first)) or not first.size:
        return None
    mine: list[Line] = []
    if is_half(first) and line.op.name not in _PRODUCTS:
        made = _in_single(rule, Scribe(graph, line, mine))
    else:
        made = rule(Scribe(graph, line, mine), *line.operands, *line.params)
    if made is None or made.shape != line.outputs[0].shape:
        return None
    lines += mine
    return made


def _rule_of(op: Any) -> Callable[..., Value | None] | None:
    statement = getattr(getattr(op, "kernel", None), "statement", None)
    return None if statement is None else functools.partial(_statement, statement)


def _in_single(rule: Callable[..., Value | None], s: Scribe) -> Value | None:
    """Write a line of 16-bit floats in single precision, rounded at the end, as kernels of libraries compute it."""
    line, single = s.line, np.dtype("float32")

    def wide(v: Any) -> Any:
        return s.write("cast", (v,), v.shape, single, single) if isinstance(v, Value) and is_half(v) else v

    out = line.outputs[0]
    if not is_half(out) and out.dtype != single:
        return None
    operands = [wide(o) for o in line.operands]
    s.line = Line(line.op, operands, line.params, (s.graph.value(Form(out.shape, single, out.device)),), line.place)
    s.line.backward = line.backward
    made = rule(s, *operands, *line.params)
    if made is None and line.op.name in REDUCTIONS:  # written as it should be, but for the dtype
        made = s.reduce(line.op.name, operands[0], line.params[0])
    if made is None or out.dtype == single:
        return made
    return s.write("cast", (made,), made.shape, out.dtype, out.dtype)


def _alias(lines: list[Line], graph: Graph, line: Line, made: Value) -> None:
    """Let the new value stand for the line's own."""
    old = line.outputs[0]
    if lines and made in lines[-1].outputs:
        last = lines[-1]
        last.outputs = tuple(old if v is made else v for v in last.outputs)
    else:
        lines.append(Line(registry["alias"], (made,), (), (old,), line.place, line.backward))
