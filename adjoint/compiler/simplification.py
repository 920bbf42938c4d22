"""Simplification of graphs: removes copies, casts to the same dtype, arithmetic with 0 and 1, repeated work."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._typing import Op
from .expressions import REDUCTIONS, is_elementwise
from .graph import GUARD, WRITE, Effect, Graph, Line, Step, Value

_SAME = frozenset(("alias", "clone", "clone_ordered", "contiguous", "copy_strided"))
_SHAPES = frozenset(("reshape", "unsafe_view", "squeeze", "squeeze_0", "squeeze_2", "unsqueeze"))


def simplify(graph: Graph) -> None:
    """Rewrite lines, from the first to the last, with what is known of their operands."""
    stands: dict[Value, Value] = {}  # what to use in place of a value
    makers: dict[Value, Line] = {}
    known: dict[Any, Line] = {}
    kept: list[Line] = []
    for line in graph.lines:
        if any(isinstance(o, Value) and o in stands for o in line.operands):
            line.operands = tuple(stands.get(o, o) if isinstance(o, Value) else o for o in line.operands)
        if line.op is WRITE or line.op is GUARD:
            kept.append(line)
            continue
        if is_elementwise(line):
            line.operands = tuple(_unexpanded(o, makers) for o in line.operands)
        same = _is_operand(line, makers)
        if same is None:
            key = _key(line)
            twin = None if key is None else known.setdefault(key, line)
            if twin is not None and twin is not line:
                stands.update(zip(line.outputs, twin.outputs))
                continue
            kept.append(line)
            makers.update(dict.fromkeys(line.outputs, line))
        else:
            stands[line.outputs[0]] = same
    graph.lines = kept
    graph.outputs = [stands.get(o, o) if isinstance(o, Value) else o for o in graph.outputs]
    graph.effects = [Effect(e.target, stands.get(e.value, e.value) if e.value else None, e.had) for e in graph.effects]
    graph.prune()


def _unexpanded(operand: Any, makers: dict[Value, Line]) -> Any:
    """Return what an operand was before it was repeated: elementwise lines repeat by themselves."""
    maker = makers.get(operand) if isinstance(operand, Value) else None
    while maker is not None and getattr(maker.op, "name", "") == "expand":
        operand = maker.operands[0]
        maker = makers.get(operand)
    return operand


def _is_operand(line: Line, makers: dict[Value, Line]) -> Value | None:
    """Return the operand that the line's value equals, if it does."""
    name = getattr(line.op, "name", "")
    if isinstance(line.op, Step) or not line.operands or not isinstance(line.operands[0], Value):
        return None
    x, out = line.operands[0], line.outputs[0]
    if name in _SHAPES or name == "expand":
        maker = makers.get(x)
        if name in _SHAPES and maker is not None and maker.op.name in _SHAPES:
            line.operands = (x := maker.operands[0],)
            if x.shape != out.shape:
                line.op, line.params = _reshape(), (out.shape,)
        return x if x.shape == out.shape else None
    if x.shape != out.shape or x.dtype != out.dtype:
        return None
    if name in _SAME or name == "cast" or name in REDUCTIONS:  # the axes of such a reduction have size 1
        return x
    return _neutral(name, line, makers)


def _reshape() -> Op:
    from ..core.nodes import registry

    return registry["reshape"]


def _neutral(name: str, line: Line, makers: dict[Value, Line]) -> Value | None:
    x = line.operands[0]
    y = line.operands[1] if len(line.operands) > 1 else None
    number = type(y) in (int, float)
    if number and ((name in ("mul", "div") and y == 1) or (name == "sub" and y == 0)):
        return x
    if name == "neg":
        maker = makers.get(x)
        if maker is not None and getattr(maker.op, "name", "") == "neg":
            inner = maker.operands[0]
            return inner if isinstance(inner, Value) else None
    return None


def _key(line: Line) -> tuple[Any, ...] | None:
    """Return what two lines that make the same values have in common; None where each is its own."""
    if isinstance(line.op, Step) and (line.op.random or line.op.dynamic):
        return None
    try:
        parts = (id(line.op), tuple(_part(o) for o in line.operands), tuple(_part(p) for p in line.params))
        hash(parts)
    except TypeError:
        return None
    return parts


def _part(value: object) -> tuple[Any, ...]:
    if isinstance(value, np.ndarray):
        raise TypeError("an array is not hashed")
    if isinstance(value, slice):
        value = (value.start, value.stop, value.step)  # which can be hashed from Python 3.12 on
    elif isinstance(value, tuple):
        value = tuple(map(_part, value))
    return (type(value), value)
