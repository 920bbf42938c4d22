"""The backward program of a compiled function, for the results whose gradients arrive."""

from __future__ import annotations

from typing import Any

import numpy as np

from .graph import WRITE, Graph, Line, Step, Value
from .program import program_of

# Ops whose result is zero where one operand is, as gradients of results that no caller uses are.
_PRODUCTS = frozenset(("mul", "mm", "bmm", "matmul"))
# Ops whose result is zero where the first operand is.
_LINEAR = frozenset((
    "reshape", "unsafe_view", "view", "clone", "contiguous", "clone_ordered", "transpose", "t", "permute", "expand",
    "cast", "neg", "sum", "sum_to", "slice", "squeeze", "unsqueeze", "flip", "select", "div", "pad",
))  # fmt: skip


def part_of(graph: Graph, lines: list[Line], arguments: list[Value], outputs: list[Any], saved: int = 0) -> Graph:
    """Return some lines of a graph as a graph of its own, whose last outputs only another program reads."""
    part = graph.copy()
    mine = set(map(id, lines))
    part.lines = [twin for twin, line in zip(part.lines, graph.lines, strict=True) if id(line) in mine]
    part.arguments, part.outputs, part.effects, part.saved = arguments, outputs, [], saved
    part.prune()
    return part


def lines_behind(graph: Graph, late: set[Value], gradients: list[Any]) -> tuple[list[Line], list[Value]]:
    """Return the lines of the backward program, and what it needs of the values that lines before it make.

    Views are made again, not saved: a saved one would be a copy.
    """
    makers = graph.makers()
    behind = {id(m): m for m in graph.lines if m.op is not WRITE and any(v in late for v in m.outputs)}
    waiting = [v for m in behind.values() for v in m.inputs] + [v for v in gradients if isinstance(v, Value)]
    needed: dict[Value, None] = {}
    while waiting:
        v = waiting.pop()
        line = makers.get(v)
        if line is None or id(line) in behind:
            continue
        if isinstance(line.op, Step) or not line.op.view or line.op.outputs or line.op.name == "as_strided":
            needed[v] = None
        else:
            behind[id(line)] = line
            waiting += line.inputs
    order = [v for m in graph.lines for v in m.outputs if v in needed]
    return [m for m in graph.lines if id(m) in behind], order


def without(graph: Graph, absent: list[Value]) -> None:
    """Rewrite a backward program for results whose gradients do not arrive: what follows from them alone goes."""
    zero = set(absent)
    lines, graph.lines = graph.lines, []
    for i, line in enumerate(lines):
        rest, graph.lines = graph.lines, lines[i:]  # `replace` rewrites what follows
        made, graph.lines = _without_zeros(graph, line, zero), rest
        graph.lines += made
    graph.outputs = [None if isinstance(o, Value) and o in zero else o for o in graph.outputs]
    graph.arguments = [v for v in graph.arguments if v not in absent]
    graph.prune()


def _without_zeros(graph: Graph, line: Line, zero: set[Value]) -> list[Line]:
    operands = line.operands
    found = [isinstance(o, Value) and o in zero for o in operands]
    if not any(found):
        return [line]
    name = line.op.name
    if all(found) or name in _PRODUCTS or (name in _LINEAR and found[0]):
        if all(found) and name not in (*_PRODUCTS, *_LINEAR, "add", "sub", "assemble", "cat"):
            return _with_zeros(graph, line, zero)
        zero.update(line.outputs)
        return []
    if name == "add" or (name == "sub" and found[1]):
        remaining, out = operands[found[0]], line.outputs[0]
        if isinstance(remaining, Value) and (remaining.shape, remaining.dtype) == (out.shape, out.dtype):
            graph.replace(out, remaining)
            return []
    if name == "assemble":
        shape, indexes = line.params
        line.operands = tuple(o for o, absent in zip(operands, found, strict=True) if not absent)
        line.params = (shape, tuple(i for i, absent in zip(indexes, found, strict=True) if not absent))
        return [line]
    return _with_zeros(graph, line, zero)


def _with_zeros(graph: Graph, line: Line, zero: set[Value]) -> list[Line]:
    line.operands = tuple(
        graph.constant(np.zeros(o.shape, o.dtype)) if isinstance(o, Value) and o in zero else o for o in line.operands
    )
    return [line]


class Backward:
    """A backward program, and where each gradient comes from."""

    def __init__(self, graph: Graph, loops: Any) -> None:
        self.program = program_of(graph, loops)
        self.program.bind()
        graph = self.program.graph
        number = {v: i for i, v in enumerate(self.program.left)}
        there = {v: i for i, v in enumerate(graph.arguments)}
        references = {r.value: r for r in graph.outside}
        # Of each: the array that the program returns, that it is given, or the tensor outside whose array it is.
        self.sources = [
            (number.get(v), there.get(v), references.get(v)) if isinstance(v, Value) else (None, None, None)
            for v in graph.outputs
        ]
        self.in_order = [made for made, _, _ in self.sources] == [*range(len(number))]
        self.taken = list(enumerate(graph.arguments))
        self.read = list(references.values())

    def results(self, arrays: Any, given: list[Any]) -> Any:
        """Return the gradients, given what the program has returned and was given."""
        if self.in_order:
            return arrays
        return [
            arrays[made] if made is not None else given[there] if there is not None
            else None if reference is None else reference.current.array
            for made, there, reference in self.sources
        ]  # fmt: skip
