"""Fusion: which lines become one loop.

A `Region` is a loop nest over a space, the shape that its elementwise lines have. Lines enter a region as long as
everything they need is there when the region runs; then nothing but the region's outputs goes through memory.
Reductions along the last axes (`rows`) give one number per row, which later lines of the same region may use:
the nest then goes through each row once per phase. All other reductions are `late`: complete only after the nest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..devices.cpu.sizes import FUSED as _SMALL
from ..devices.cpu.sizes import FUSED_LIBM as _SLOW_SIZE
from .expressions import IS_CLASS, functions_of, is_elementwise, is_reduction
from .graph import Graph, Line, Step, Value

_MOST_LINES = 160
_APART = 8  # lines from which on a small region takes only what it has something in common with
# Scalar functions that a loop calls libm for.
_SLOW = frozenset((
    "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "log1p", "expm1", "log2", "power",
))  # fmt: skip
_DEAR = frozenset(("exp", "log", "tanh", "erf", "normal_cdf", "log1p_exp", "divide", "reciprocal"))


def uses(line: Line, functions: frozenset[str]) -> bool:
    """Return whether a line computes one of some scalar functions."""
    return any(f.name in functions for f in functions_of(line))


class Region:
    """A loop nest: lines over one space, in order."""

    def __init__(self, space: tuple[int, ...], position: int, device: str) -> None:
        self.space, self.position, self.device = space, position, device
        self.lines: list[Line] = []
        self.made: dict[Value, Line] = {}
        self.touched: set[Value] = set()  # what its lines read and make
        self.split: int | None = None  # the number of trailing axes that a row has
        self.late: set[Value] = set()
        self.outputs: list[Value] = []

    @property
    def size(self) -> int:
        """How many elements the space has."""
        return math.prod(self.space)

    @property
    def row_shape(self) -> tuple[int, ...] | None:
        """The shape of a value with one number per row."""
        if self.split is None:
            return None
        cut = len(self.space) - self.split
        return (*self.space[:cut], *(1,) * self.split)

    def add(self, line: Line) -> None:
        """Take a line in."""
        self.lines.append(line)
        self.made[line.outputs[0]] = line
        self.touched.update(line.inputs, line.outputs)

    def inputs(self) -> list[Value]:
        """Return what the region reads, in order of first use."""
        return [v for v in dict.fromkeys(v for line in self.lines for v in line.inputs) if v not in self.made]


Unit = Any  # a Region, or a Line that runs by itself


def trailing(axes: tuple[int, ...], rank: int) -> bool:
    """Return whether axes are the last ones."""
    return bool(axes) and tuple(axes) == tuple(range(rank - len(axes), rank))


def is_view(line: Line) -> bool:
    """Return whether a line only looks at its operand's memory."""
    return line.is_call and not isinstance(line.op, Step) and bool(line.op.view) and len(line.outputs) == 1


def fusible(line: Line) -> bool:
    """Return whether a line may be part of a loop nest."""
    if is_reduction(line):
        return True
    if not is_elementwise(line) or 0 in line.outputs[0].shape or len(line.outputs[0].shape) > 6:
        return False
    return not uses(line, _SLOW) or line.outputs[0].size <= _SLOW_SIZE


class Fusion:
    """Sorts the lines of a graph into units that run one after the other."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.units: list[Unit] = []
        self.at: dict[Value, int] = dict.fromkeys(graph.inputs, -1)  # the unit after which a value is there
        self.views: dict[Value, Line] = {}  # made when first needed: they cost no pass over memory
        self.regions: dict[tuple[int, ...], list[Region]] = {}
        for line in self._lines():
            self._place(line)
        self._find_outputs()

    def _lines(self) -> list[Line]:
        """Return the lines that are sorted."""
        return self.graph.lines

    def _is_fusible(self, line: Line) -> bool:
        return fusible(line)

    def _place(self, line: Line) -> None:
        if is_view(line):
            self.at[line.outputs[0]] = self.at[line.operands[0]]
            self.views[line.outputs[0]] = line
            return
        if not line.is_call or not self._is_fusible(line):
            self._append(line, line.outputs)
            return
        region = self._home(line)
        region.add(line)
        if is_reduction(line) and not self._by_rows(region, line):
            region.late.add(line.outputs[0])
        self.at[line.outputs[0]] = region.position

    def _append(self, unit: Unit, outputs: Sequence[Any]) -> int:
        self.units.append(unit)
        for v in outputs:
            self.at[v] = len(self.units) - 1
        return len(self.units) - 1

    def _by_rows(self, region: Region, line: Line) -> bool:
        """Return whether a reduction gives one number per row of the region, making its rows so if it may."""
        x, axes = line.operands[0], line.params[0]
        if x.shape != region.space or not trailing(axes, len(x.shape)) or len(axes) == len(x.shape):
            return False
        if region.split is None:
            region.split = len(axes)
        return region.split == len(axes)

    def _home(self, line: Line) -> Region:
        """Return the region that a line enters, a new one if it must be."""
        shape = line.operands[0].shape if is_reduction(line) else line.outputs[0].shape
        for region in reversed(self._candidates(line, shape)):
            if self._fits(region, line, shape):
                return region
        region = Region(shape, len(self.units), line.outputs[0].device)
        self.units.append(region)
        self.regions.setdefault(shape, []).append(region)
        return region

    def _candidates(self, line: Line, shape: tuple[int, ...]) -> list[Region]:
        near = [u for v in line.inputs if (p := self.at[v]) >= 0 and isinstance(u := self.units[p], Region)]
        recent = self.regions.get(shape, [])[-2:]
        return sorted({id(r): r for r in (*near, *recent)}.values(), key=lambda r: r.position)

    def _fits(self, region: Region, line: Line, shape: tuple[int, ...]) -> bool:
        if len(region.lines) >= _MOST_LINES or (line.op is IS_CLASS and shape != region.space):
            return False
        if region.device != line.outputs[0].device:
            return False
        apart = not shape or (len(region.lines) >= _APART and region.size < _SMALL)
        if apart and not any(v in region.touched for v in line.inputs):
            return False  # nothing in common, as the updates of two parameters: alike, they share a function
        if shape != region.space and (is_reduction(line) or shape != region.row_shape):
            return False
        for v in line.inputs:
            if self.at[v] > region.position or (v in self.views and self.at[v] == region.position):
                return False
            if v in region.late:
                return False
            if shape != region.space and v in region.made and v.shape == region.space != region.row_shape:
                return False  # a row cannot read one of its elements
            if v in region.made and not _alongside(v.shape, region):
                return False
        return True

    def _find_outputs(self) -> None:
        wanted = set(self.graph.results)
        for unit in self.units:
            if isinstance(unit, Line):
                wanted.update(unit.inputs)
            else:
                wanted.update(unit.inputs())
        for v in reversed(self.views):
            if v in wanted:
                wanted.update(self.views[v].inputs)
        for unit in self.units:
            if isinstance(unit, Region):
                unit.outputs = [v for v in unit.made if v in wanted]


def _alongside(shape: tuple[int, ...], region: Region) -> bool:
    return shape in (region.space, region.row_shape)


class Phases:
    """When each value of a region is computed: the pass over a row in which, or after which, it is known."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.of: dict[Value, int] = {}  # of a full value the pass; of a row value the pass before which it is there
        row = region.row_shape
        for line in region.lines:
            out = line.outputs[0]
            phase = max((self.of.get(v, 0) for v in line.inputs), default=0)
            if is_reduction(line) and out not in region.late:
                phase += 1
            self.of[out] = phase
        self.is_row = {v: v.shape == row and v.shape != region.space and v not in region.late for v in region.made}
        self.count = 1 + max(self.of.values(), default=0)

    def kept(self) -> list[Value]:
        """Return the full values that are dear and needed in a later pass: they are stored, not computed again."""
        found = []
        for v, line in self.region.made.items():
            if self.is_row[v] or v in self.region.late:
                continue
            later = any(self.pass_of(user) > self.of[v] for user in self.region.lines if v in user.inputs)
            if later and uses(line, _DEAR):
                found.append(v)
        return found

    def pass_of(self, line: Line) -> int:
        """Return the pass over a row in which a line is computed."""
        out = line.outputs[0]
        return self.of[out] - (1 if is_reduction(line) and out not in self.region.late else 0)
