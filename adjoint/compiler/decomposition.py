"""Composite primitives as simpler ones: eager mode computes them in one kernel, fusion needs small pieces.

A composite is written as its definition in `ops` says: its kernel, or its row-wise statement, runs on `Piece`s, which
write each primitive that is called as a line. Matrix multiplications are written as the one kind that programs compute.
Shapes and dtypes are those of the captured run.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._typing import Axes
from ..core import modes
from ..core.nodes import registry
from ..core.payload import Level
from ..core.primitive import Op
from ..payloads.meta import Meta
from ..payloads.speech import Speaking
from .expressions import IS_CLASS, REDUCTIONS, is_elementwise, is_half
from .graph import Form, Graph, Line, Step, Value

# Composites that are neither row-wise ops nor losses of elements: their definitions are short in simpler primitives.
_DEFINED = frozenset((
    "mean", "mean_all", "sum_all", "sum_to", "var", "cross_entropy", "nll_loss", "nll_back",
))  # fmt: skip
_SPLITTING = frozenset(("split", "split_with_sizes", "unbind"))
_PRODUCTS = frozenset(("linear", "project", "bmm"))


class Piece(Speaking):
    """A value of a definition that is being written: what is computed of it becomes a line."""

    __slots__ = ("scribe", "value")

    def __init__(self, value: Value, scribe: Scribe) -> None:
        self.value, self.scribe, self.level = value, scribe, scribe.level

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape."""
        return self.value.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy dtype."""
        return self.value.dtype

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if method == "reduce" and ufunc is np.add:  # ``np.add.reduce(x, axes, dtype, out, keepdims)``
            axes, _, _, keepdims = (*inputs[1:], None, None, None, False)[:4] if len(inputs) > 1 else (None,) * 4
            given = {"axis": axes, "keepdims": bool(keepdims), **options}
            return self.sum(given["axis"], given["keepdims"])
        return super().__array_ufunc__(ufunc, method, *inputs, **options)


class Scribe:
    """Writes simpler lines in place of one; while a definition runs, it observes which primitives that calls."""

    def __init__(self, graph: Graph, line: Line, before: list[Line], makers: dict[Value, Line]) -> None:
        self.graph, self.line, self.before, self.makers = graph, line, before, makers
        self.into: list[Line] = []
        self.level = 0

    def call(self, op: Op, inputs: tuple[Any, ...], params: tuple[Any, ...], run: Callable[..., Any]) -> Any:
        """Write a primitive that a definition calls, or what it is composed of."""
        if not any(isinstance(v, Piece) for v in inputs):
            return run(op, inputs, params)
        return self.composed(op, inputs, params) or self.primitive(op, inputs, params)

    def write(
        self,
        op: str | Op | Step,
        operands: tuple[Any, ...],
        shape: tuple[int, ...],
        dtype: np.typing.DTypeLike,
        *params: object,
    ) -> Value:
        """Add a line that makes one value."""
        value = self.graph.value(Form(shape, dtype, self.line.outputs[0].device))
        op = registry[op] if isinstance(op, str) else op
        self.into.append(Line(op, operands, params, (value,), self.line.place, self.line.backward))
        return value

    def reshape(self, x: Value, shape: tuple[int, ...]) -> Value:
        """Give other sizes to the same elements."""
        return x if x.shape == tuple(shape) else self.write("reshape", (x,), shape, x.dtype, tuple(shape))

    def reduce(self, op: str, x: Value, axes: tuple[int, ...]) -> Value:
        """Reduce along axes, which stay with size 1."""
        shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
        return self.write(op, (x,), shape, x.dtype, axes, True)

    def composed(self, op: Op, values: tuple[Any, ...], params: tuple[Any, ...]) -> Piece | None:
        """Write what a primitive is composed of; None if that is not what the compiler takes apart."""
        if op.name in REDUCTIONS:
            return self._reduced(op, values[0], *params)
        if not is_composite(op) or values[0].dtype.kind != "f":
            return None
        found = op.whole(*values, *params)
        found = found[0] if op.saves.hidden else found
        return found if isinstance(found, Piece) else None

    def _reduced(self, op: Op, x: Piece, axes: Any, keepdims: bool) -> Piece | None:
        """Write a reduction whose axes do not stay as one whose axes do, and a reshape."""
        whole = _axes(axes, x.ndim)
        if x.dtype.kind != "f":
            return None
        value = self.reduce(op.name, x.value, whole)
        if not keepdims:
            value = self.reshape(value, tuple([n for i, n in enumerate(x.shape) if i not in whole]))
        return Piece(value, self)

    def primitive(self, op: Op, values: tuple[Any, ...], params: tuple[Any, ...]) -> Piece:
        """Write a line of a primitive."""
        if op.name == "reshape":
            return Piece(self.reshape(values[0].value, tuple(params[0])), self)
        if op.name == "slice" and (first := _first(self, values[0].value, *params)) is not None:
            return Piece(first, self)
        forms = [Meta(v.shape, v.dtype) if isinstance(v, Piece) else v for v in values]
        out = Meta.apply(op, 0, tuple(forms), params)
        operands = tuple([
            v.value if isinstance(v, Piece) else v.item() if isinstance(v, np.generic) else v for v in values
        ])  # fmt: skip
        if op.name == "div" and type(operands[0]) in (int, float) and operands[0] == 1:
            op, operands = registry["reciprocal"], operands[1:]  # as a Tensor's division is
        return Piece(self.write(op, operands, tuple(out.shape), out.dtype, *params), self)


def is_composite(op: Op) -> bool:
    """Return whether the compiler takes a primitive apart, as its definition says."""
    kernel = op.kernel
    if getattr(kernel, "reads_values", False):  # its formula alone would accept what eager mode refuses
        return False
    return op.name in _DEFINED or hasattr(kernel, "statement") or hasattr(kernel, "elements")


def _defined(s: Scribe, *args: Any) -> Value | None:
    """Write a line as the definition of its primitive says."""
    count = len(s.line.operands)
    observer, autocast = modes.local.observer, modes.local.autocast
    modes.local.observer, modes.local.autocast = s, None  # what is written is no call of the program
    try:
        with Level() as s.level:
            given = tuple([Piece(v, s) if isinstance(v, Value) else v for v in args[:count]])
            found = s.composed(s.line.op, given, args[count:])
    except TypeError:  # labels of what is no matrix
        return None
    finally:
        modes.local.observer, modes.local.autocast = observer, autocast
    return None if found is None else found.value


def _axes(axes: Axes | None, rank: int) -> tuple[int, ...]:
    given = range(rank) if axes is None else (axes,) if isinstance(axes, int) else axes
    return tuple(sorted(i % rank for i in given)) if rank else ()


# --- Matrix multiplications --------------------------------------------------------------------------------


def _linear(s: Scribe, x: Value, weight: Value, bias: Any = None) -> Value | None:
    if weight.dtype != x.dtype or len(weight.shape) != 2 or not x.shape or 0 in x.shape:
        return None
    rows, (columns, inner) = math.prod(x.shape[:-1]), weight.shape
    flat = s.reshape(x, (rows, inner))
    turned = s.write("transpose", (weight,), (inner, columns), weight.dtype, 0, 1)
    out = s.reshape(s.write("mm", (flat, turned), (rows, columns), x.dtype), (*x.shape[:-1], columns))
    if not isinstance(bias, Value):
        return out
    return s.write("add", (out, bias), np.broadcast_shapes(out.shape, bias.shape), out.dtype)  # last: it fuses


def _bmm(s: Scribe, x: Value, y: Value) -> Value | None:
    """Write products of many matrices with the same one as one product."""
    if not isinstance(y, Value) or len(y.shape) != 2 or len(x.shape) < 3 or x.dtype != y.dtype or not x.size:
        return None
    rows = math.prod(x.shape[:-1])
    out = s.write("mm", (s.reshape(x, (rows, x.shape[-1])), y), (rows, y.shape[1]), x.dtype)
    return s.reshape(out, (*x.shape[:-1], y.shape[1]))


# --- First elements ---------------------------------------------------------------------------------


def _first(s: Scribe, x: Value, index: Any) -> Value | None:
    """Write the first elements of rows that are computed, by the same ops on the rows' first elements.

    A slice would read memory, to which all of the rows would have to be written before. These lines are placed before
    those that they repeat, so that a loop over the rows finds them there.
    """
    if not isinstance(index, tuple) or len(index) != len(x.shape) or not all(map(_is_first_or_all, index)):
        return None
    maker = s.makers.get(x)
    return _first_of(s, x, index, maker) if maker is not None and _repeats(maker) else None


def _first_of(s: Scribe, x: Value, index: tuple[slice, ...], user: Line) -> Value:
    """Write the first elements of what `user` makes or reads, before it."""
    maker = s.makers.get(x)
    shape = tuple([1 if i.stop == 1 else n for i, n in zip(index, x.shape, strict=True)])
    if x.shape == shape:
        return x
    op, operands, params = registry["slice"], [x], (index,)
    if maker is not None and _repeats(maker):
        operands = [
            _first_of(s, v, index[len(index) - len(v.shape) :], maker) if isinstance(v, Value) else v
            for v in maker.operands
        ]
        op, params, user = maker.op, maker.params, maker
    into, s.into = s.into, []
    made = s.write(op, tuple(operands), shape, x.dtype, *params)
    (line,), s.into = s.into, into
    s.before.insert(s.before.index(user), line)
    return made


def _is_first_or_all(part: Any) -> bool:
    return part in (slice(None), slice(0, 1))


def _repeats(maker: Line) -> bool:
    """Return whether a line is computed element by element, and cheap to compute twice."""
    return is_elementwise(maker) and maker.op is not IS_CLASS and len(maker.inputs) <= 2


def _rule_of(op: Any) -> Callable[..., Value | None] | None:
    if isinstance(op, Step):
        return None
    if op.name == "slice":
        return _first
    if op.name in _PRODUCTS:
        return _bmm if op.name == "bmm" else _linear
    return _defined if op.name in REDUCTIONS or is_composite(op) else None


def _is_left(line: Line) -> bool:
    """Return whether a line is faster as it is: on the CPU, to pick one element of each row."""
    return line.op.name == "nll_loss" and line.outputs[0].device == "cpu"


# --- Graphs -----------------------------------------------------------------------------------------


def decompose(graph: Graph) -> None:
    """Write composite lines as simpler ones, all through."""
    lines: list[Line] = []
    makers: dict[Value, Line] = {}
    seen = 0
    for line in graph.lines:
        makers.update([(v, m) for m in lines[seen:] for v in m.outputs])
        seen = len(lines)
        if getattr(line.op, "name", "") in _SPLITTING and not isinstance(line.op, Step):
            lines += _slices(line)
            continue
        made = _rewritten(graph, line, lines, makers)
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


def _rewritten(graph: Graph, line: Line, lines: list[Line], makers: dict[Value, Line]) -> Value | None:
    rule = _rule_of(line.op)
    if rule is None or len(line.outputs) != 1 or _is_left(line):
        return None
    first = line.operands[0] if line.operands else None
    if not isinstance(first, Value) or (first.dtype.kind not in "f" and not is_half(first)) or not first.size:
        return None
    scribe = Scribe(graph, line, lines, makers)
    if is_half(first) and line.op.name not in _PRODUCTS:
        made = _in_single(rule, scribe)
    else:
        made = rule(scribe, *line.operands, *line.params)
    out, mine = line.outputs[0], scribe.into
    if made is None or made.shape != out.shape or made.dtype != out.dtype:
        return None
    if len(mine) == 1 and mine[0].op is line.op:
        return None  # it is what it was
    lines += mine
    return made


def _in_single(rule: Callable[..., Value | None], s: Scribe) -> Value | None:
    """Write a line of 16-bit floats in single precision, rounded at the end, as kernels of libraries compute it."""
    line, single = s.line, np.dtype("float32")

    def wide(v: object) -> Any:
        return s.write("cast", (v,), v.shape, single, single) if isinstance(v, Value) and is_half(v) else v

    out = line.outputs[0]
    if not is_half(out) and out.dtype != single:
        return None
    operands = [wide(o) for o in line.operands]
    s.line = Line(line.op, operands, line.params, (s.graph.value(Form(out.shape, single, out.device)),), line.place)
    s.line.backward = line.backward
    made = rule(s, *operands, *line.params)
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
