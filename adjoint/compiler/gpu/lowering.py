"""Lines of a graph as a GPU computes them: random numbers from a seed of the CPU's generator, rows picked by class."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.nodes import registry
from ..expressions import IS_CLASS, is_reduction
from ..graph import Form, Graph, Line, Step, Value
from .host import SEED
from .kernels import DRAW

__all__ = ["lower_draws", "pick_rows"]


def pick_rows(graph: Graph) -> None:
    """Let the sum of a row that is zero but at its class be what is there."""
    makers, lines = graph.makers(), []
    for line in graph.lines:
        x = line.operands[0] if line.operands else None
        chosen = makers.get(x) if isinstance(x, Value) and is_reduction(line) and line.op.name == "sum" else None
        if chosen is None or chosen.op.name != "where" or tuple(line.params[0]) != (1,) or len(x.shape) != 2:  # type: ignore[union-attr]
            lines.append(line)
            continue
        hit, each, other = chosen.operands
        found = makers.get(hit) if isinstance(hit, Value) else None
        row = isinstance(each, Value) and each.shape[-1:] == (1,) and len(each.shape) == 2
        if found is None or found.op is not IS_CLASS or not row or isinstance(other, Value) or other != 0:
            lines.append(line)
            continue
        target, (classes,) = found.operands[0], found.params
        truths = [graph.value(Form(target.shape, bool, target.device)) for _ in range(3)]
        lines.append(Line(registry["ge"], (target, 0), (), (truths[0],), line.place, line.backward))
        lines.append(Line(registry["lt"], (target, classes), (), (truths[1],), line.place, line.backward))
        lines.append(Line(registry["logical_and"], truths[:2], (), (truths[2],), line.place, line.backward))
        lines.append(Line(chosen.op, (truths[2], each, 0.0), (), line.outputs, line.place, line.backward))
    graph.lines = lines
    graph.prune()


def lower_draws(graph: Graph) -> None:
    """Make random numbers on the device: every run takes only seeds from the CPU's generator."""
    lines: list[Line] = []
    seeds: Any = None  # the value of the seeds in use, their stream, and how many of them are taken
    for i, line in enumerate(graph.lines):
        if not isinstance(line.op, Step):
            lines.append(line)
        elif line.op.name == "random.keep":
            stream, keep = line.operands[:2]
            out = line.outputs[0]
            if seeds is None or seeds[1] is not stream:
                count = _draws_from(stream, graph.lines[i:])
                seeds = graph.value(Form((count,), np.int64)), stream, 0
                lines.append(Line(SEED, (stream, count), (), (seeds[0],), line.place))
            seed, _, number = seeds
            seeds = seed, stream, number + 1
            drawn = graph.value(Form(out.shape, np.float32, out.device))
            lines.append(Line(DRAW, (seed,), (out.shape, "float32", number), (drawn,), line.place))
            below = graph.value(Form(out.shape, bool, out.device))
            lines.append(Line(registry["lt"], (drawn, float(keep)), (), (below,), line.place))
            lines.append(Line(registry["cast"], (below,), (out.dtype,), (out,), line.place))
        elif line.op.name == "scaled_noise" and line.outputs[0].device != "cpu":
            lines.append(Line(registry["div"], line.operands, (), line.outputs, line.place))
        else:
            seeds = None if line.op.random else seeds  # another user of the stream comes in between
            lines.append(line)
    graph.lines = lines


def _draws_from(stream: Any, lines: list[Line]) -> int:
    """Return how many random masks come from a stream before something else samples from it."""
    count = 0
    for line in lines:
        if isinstance(line.op, Step) and line.op.random:
            if line.op.name != "random.keep" or line.operands[0] is not stream:
                break
            count += 1
    return count
