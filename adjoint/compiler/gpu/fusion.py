"""Which lines become one kernel on a GPU, and what kernels compute again rather than read."""

from __future__ import annotations

import math
from typing import Any

from ...devices.cuda.sizes import FUSED as _SMALL
from ...devices.cuda.sizes import REDUCED_BOTH as _LONGEST
from ...devices.cuda.sizes import REDUCED_FIRST as _COUNTED
from ..expressions import IS_CLASS, is_elementwise, is_reduction
from ..fusion import Fusion, Region, is_view, trailing, uses
from ..graph import WRITE, Form, Graph, Line, Value
from .kernels import DRAW

_RECENT = 6  # units among which a number per row looks for the rows
_DEAR = frozenset((
    "exp", "log", "tanh", "erf", "normal_cdf", "log1p_exp", "sin", "cos", "tan", "power", "log1p", "expm1", "arcsin",
    "arccos", "arctan", "sinh", "cosh", "log2",
))  # fmt: skip
_MOST = 160  # lines of a region
_WAITING = 120  # lines that wait for one
_CHAIN = 8  # lines that are computed again to spare a value its way through memory


def kind_of(line: Line) -> str:
    """Return what a reduction leaves: one number per row, per column, or one; nothing where kernels do not reduce."""
    x, axes = line.operands[0], tuple(line.params[0])
    if line.outputs[0].size == 1:
        return "all"
    if trailing(axes, len(x.shape)):
        return "rows"
    return "columns" if axes == tuple(range(len(axes))) else ""


def _counts_first(lines: list[Line]) -> list[Line]:
    """Return lines with those first that make one number and do not wait for a library.

    Lines that need the number, as the gradient of a mean needs the count, may then be part of an earlier kernel.
    """
    waits: set[Value] = set()  # for a library's call
    for line in lines:
        simple = line.is_call and (is_view(line) or is_elementwise(line) or is_reduction(line))
        if not simple or any(v in waits for v in line.inputs):
            waits.update(line.outputs)
    makers = {v: line for line in lines for v in line.outputs}
    first: dict[int, Line] = {}

    def pull(line: Line) -> None:
        for v in line.inputs:
            if v in makers and id(makers[v]) not in first:
                pull(makers[v])
        first[id(line)] = line

    for line in lines:
        if line.is_call and len(line.outputs) == 1 and line.outputs[0].size == 1 and line.outputs[0].device != "cpu":
            small = all(v.size <= _COUNTED for v in line.inputs)
            if small and line.outputs[0] not in waits and (is_reduction(line) or is_elementwise(line)):
                pull(line)
    return [*first.values(), *(line for line in lines if id(line) not in first)]


def _space(line: Line) -> tuple[int, ...]:
    return line.operands[0].shape if is_reduction(line) else line.outputs[0].shape


class DeviceFusion(Fusion):
    """Sorts the lines of a graph into kernels and calls of libraries."""

    def __init__(self, graph: Graph, lines: list[Line], ready: set[Value]) -> None:
        self.lines, self.ready = lines, ready  # what is sorted, and what the CPU has computed before
        self.pending: dict[Value, Line] = {}  # elementwise lines that wait for a line that uses them
        self.whole: set[int] = set()  # regions that reduce to one number
        self.along: set[int] = set()  # regions that reduce along rows
        super().__init__(graph)
        self._recompute()

    def _lines(self) -> list[Line]:
        self.at.update(dict.fromkeys(self.ready, -1))
        return _counts_first(self.lines)

    def _is_fusible(self, line: Line) -> bool:
        if line.outputs[0].device == "cpu":
            return False
        if is_reduction(line):
            return bool(kind_of(line))
        if line.op is DRAW:
            return True
        return is_elementwise(line) and 0 not in line.outputs[0].shape and len(line.outputs[0].shape) <= 8

    def _place(self, line: Line) -> None:
        if line.op is WRITE:
            self._settle_all()
        if is_view(line) or not line.is_call or not self._is_fusible(line):
            for v in line.inputs:
                self._settle(v)
            super()._place(line)
            return
        waiting = self._waiting(line)
        if len(waiting) > _WAITING:
            for v in line.inputs:
                self._settle(v)
            waiting = []
        if self._join(line, waiting):
            return
        out = line.outputs[0]
        if is_reduction(line) or out.size == 1:  # a number is computed before the lines that need it
            self._begin(line, waiting)
        else:
            self.pending[out], self.at[out] = line, -1

    def _waiting(self, line: Line) -> list[Line]:
        """Return the lines that wait for a line, in order."""
        found: dict[int, Line] = {}

        def visit(m: Line) -> None:
            for v in m.inputs:
                waiting = self.pending.get(v)
                if waiting is not None and id(waiting) not in found:
                    visit(waiting)
                    found[id(waiting)] = waiting

        visit(line)
        return list(found.values())

    def _join(self, line: Line, waiting: list[Line]) -> bool:
        """Put a line, and what waits for it, into a region that has something in common with them, if it can be."""
        lines = [*waiting, line]
        shape = _space(line)
        for region in reversed(self._near(lines, shape)):
            single = math.prod(shape) == 1
            common = any(v in region.touched and (v.size > 1 or single) for m in lines for v in m.inputs)
            few = len(region.lines) + len(lines) <= _MOST
            if common and few and all(self._fits(region, m, _space(m)) for m in lines):
                self._enter(region, lines)
                return True
        return False

    def _enter(self, region: Region, lines: list[Line]) -> None:
        for m in lines:
            out = m.outputs[0]
            self.pending.pop(out, None)
            region.add(m)
            if is_reduction(m) and not self._by_rows(region, m):
                region.late.add(out)
            self.at[out] = region.position

    def _begin(self, line: Line, waiting: list[Line]) -> None:
        """Let a line begin a region, with what waits for it; what does not fit goes before, by itself."""
        space = _space(line)
        for m in waiting:
            if m.outputs[0].shape != space and m.outputs[0] in self.pending:
                self._settle(m.outputs[0])
        waiting = self._waiting(line)
        region = Region(space, len(self.units), line.outputs[0].device)
        self.units.append(region)
        self.regions.setdefault(space, []).append(region)
        self._enter(region, [*waiting, line])

    def _settle(self, v: Value) -> None:
        """Let a value that waits be computed now."""
        line = self.pending.get(v)
        if line is None:
            return
        waiting = self._waiting(line)
        if not self._join(line, waiting):
            self._begin(line, waiting)

    def _settle_all(self) -> None:
        for v in reversed(list(self.pending)):
            self._settle(v)

    def _find_outputs(self) -> None:
        self._settle_all()
        super()._find_outputs()

    def _near(self, lines: list[Line], shape: tuple[int, ...]) -> list[Region]:
        """Return the regions that lines may enter, in order."""
        found: dict[int, Region] = {}
        for m in lines:
            found.update({id(r): r for r in self._candidates(m, _space(m))})
        recent = [u for u in self.units[-_RECENT:] if isinstance(u, Region) and u.row_shape == shape]
        found.update({id(r): r for r in recent})
        return sorted(found.values(), key=lambda r: r.position)

    def _by_rows(self, region: Region, line: Line) -> bool:
        kind = kind_of(line)
        rank, axes = len(line.operands[0].shape), line.params[0]
        if kind == "all":
            self.whole.add(id(region))
            return False
        region.split = len(axes) if kind == "rows" else rank - len(axes)
        if kind == "rows":
            self.along.add(id(region))
        return kind == "rows"

    def _fits(self, region: Region, line: Line, shape: tuple[int, ...]) -> bool:
        if shape != region.space and (line.op is DRAW or line.op is IS_CLASS):
            return False
        if is_reduction(line) and not self._reduces(region, line):
            return False
        return super()._fits(region, line, shape)

    def _reduces(self, region: Region, line: Line) -> bool:
        """Return whether a reduction goes with those that a region has."""
        x, axes, kind = line.operands[0], line.params[0], kind_of(line)
        if x.shape != region.space:
            return False
        if kind == "all":
            return region.split is None
        split = len(axes) if kind == "rows" else len(x.shape) - len(axes)
        if id(region) in self.whole or region.split not in (None, split):
            return False
        both = bool(region.late) if kind == "rows" else id(region) in self.along
        return not both or math.prod(x.shape[len(x.shape) - split :]) <= _LONGEST

    # --- what is computed again ---

    def _recompute(self) -> None:
        """Let kernels compute again what is cheap to compute from what they read anyway: it need not be written."""
        regions = [u for u in self.units if isinstance(u, Region)]
        self.readers: dict[Value, dict[int, Any]] = {}
        for unit in self.units:
            self._note_reads(unit)
        self.stay = {*self.graph.results, *(line.operands[0] for line in self.views.values())}
        for region in regions:
            for v in list(region.outputs):
                self._try_recompute(v, region)
        for region in regions:
            _prune(region)

    def _note_reads(self, unit: Any) -> None:
        for v in unit.inputs() if isinstance(unit, Region) else unit.inputs:
            self.readers.setdefault(v, {})[id(unit)] = unit

    def _users(self, v: Value) -> list[Any] | None:
        """Return the regions that read a value, None if something else does."""
        users = list(self.readers.get(v, {}).values())
        return None if v in self.stay or not all(isinstance(u, Region) for u in users) else users

    def _try_recompute(self, v: Value, region: Region) -> None:
        users = self._users(v)
        if not users or v.shape != region.space or v in region.late:
            return
        # What is small is computed again wherever it is read, though it be repeated there.
        small = v.nbytes <= _SMALL and all(u.size >= 8 * v.size for u in users)
        if not small and any(u.space != v.shape for u in users):
            return
        chain: dict[Value, Line] = {}
        leaves: dict[Value, None] = {}
        # With one user, and none at home, nothing is computed twice: it moves.
        moves = len(users) == 1 and not any(v in m.inputs for m in region.lines)
        if not self._collect(v, region, chain, leaves, moves):
            return
        dear = [x for x in leaves if x.nbytes * 8 > v.nbytes]
        if any(x in region.made and x not in region.outputs for x in dear):
            return
        extra = max(sum(x.nbytes for x in dear if x not in u.inputs()) for u in users)
        if extra > (4 * v.nbytes if small else v.nbytes):
            return
        for leaf in leaves:
            if leaf in region.made and leaf not in region.outputs:
                region.outputs.append(leaf)
        region.outputs.remove(v)
        for user in users:
            self._clone_into(user, v, chain)

    def _collect(self, v: Value, region: Region, chain: Any, leaves: Any, moves: bool = False) -> bool:
        """Gather the lines that make a value from what is in memory; return whether they are few and cheap."""
        line = region.made[v]
        if (uses(line, _DEAR) and not moves) or is_reduction(line) or len(chain) >= _CHAIN:
            return False
        for x in line.inputs:
            stored = x not in region.made or x in region.outputs or x.size * 8 < v.size
            if stored:
                leaves[x] = None
            elif x not in chain and not self._collect(x, region, chain, leaves):
                return False
        chain[v] = line
        return True

    def _clone_into(self, region: Region, v: Value, chain: dict[Value, Line]) -> None:
        twins: dict[Value, Value] = {}
        fresh = []
        for old, line in chain.items():
            twins[old] = self.graph.value(Form(region.space, old.dtype, old.device))
            operands = tuple(twins.get(o, o) if isinstance(o, Value) else o for o in line.operands)
            fresh.append(Line(line.op, operands, line.params, (twins[old],), line.place, line.backward))
        for line in region.lines:
            if v in line.inputs:
                line.operands = tuple(twins[v] if o is v else o for o in line.operands)
        region.lines[:0] = fresh
        region.made = {line.outputs[0]: line for line in region.lines}
        region.touched.update(*(line.inputs for line in fresh), twins.values())
        self.readers[v].pop(id(region))
        self._note_reads(region)


def _prune(region: Region) -> None:
    """Drop lines whose values are no longer used."""
    wanted, kept = set(region.outputs), []
    for line in reversed(region.lines):
        if line.outputs[0] in wanted:
            wanted.update(line.inputs)
            kept.append(line)
    region.lines = kept[::-1]
    region.made = {line.outputs[0]: line for line in region.lines}
