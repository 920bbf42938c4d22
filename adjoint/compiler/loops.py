"""Source code of fused loops: a region becomes a loop nest, regions that follow one another become one function.

The text knows no sizes: loops run to the lengths of the arrays they are given. So one function serves every
size, and equal regions of a program (the layers of a network, the steps of a recurrence) share it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._typing import DType, Kernel
from .expressions import (
    IS_CLASS,
    REDUCTIONS,
    TRUTH,
    computing_dtype,
    expression,
    is_reduction,
    name_of,
    reducing,
    wanted_dtypes,
)
from .fusion import Phases, Region
from .graph import Line, Value

Strides = dict[Value, tuple[int, ...]]


class Kind(NamedTuple):
    """What is known of an array that loops are given.

    `dense`: its elements are in row-major order; `unit`: the axes along which they are adjacent. Arrays with different
    `memory` share none; None is unknown.
    """

    dtype: str
    rank: int
    dense: bool
    unit: tuple[int, ...]
    memory: int | None


class Access:
    """An array as a nest sees it: the axes of the nest along which it varies, and its shape there."""

    __slots__ = ("axes", "name", "offsets", "shape", "value")

    def __init__(
        self, value: Value, axes: tuple[int, ...], shape: tuple[int, ...], name: str, offsets: tuple[int, ...] = ()
    ) -> None:
        self.value, self.axes, self.shape, self.name = value, axes, shape, name
        self.offsets = offsets  # where a part begins in the array that it is a part of

    def at(self, start: str = "") -> str:
        """Return the text of the element that the loops stand at."""
        offsets = self.offsets or (0,) * len(self.axes)
        index = ", ".join(f"i{a} + {o}" if o else f"i{a}" for a, o in zip(self.axes, offsets, strict=True))
        return f"{self.name}[{index or '()'}]"


class Nest:
    """The loops of one region."""

    def __init__(
        self, region: Region, strides: Strides, names: Any, threaded: bool, tag: str = "", whole: Kernel | None = None
    ) -> None:
        self.whole = whole  # returns of which contiguous array a value is a part, and where
        self.region, self.strides, self.names, self.threaded, self.tag = region, strides, names, threaded, tag
        self.numbers = {v: f"{tag}{i}" for i, v in enumerate(region.made)}
        self.phases = Phases(region)
        self.stored = dict.fromkeys((*region.outputs, *self.phases.kept()))
        self.scratch = [v for v in self.stored if v not in region.outputs]
        self.reads = region.inputs()
        self._merge_axes()
        self.access = {v: self._access(v) for v in (*self.reads, *self.stored)}
        self.known: dict[Value, str] = {}  # the names of numbers that are there where text is being written
        # Elements that are read, and their names: once, once per row, once per turn of the last loop. They are read
        # before anything is written, and what does not vary is known to LLVM not to.
        self.loads: tuple[dict[str, str], ...] = ()
        self.gone = 0  # names of passes before

    # --- axes ---

    def _aligned(self, v: Value) -> list[tuple[bool, int]]:
        """Return, for each axis of the space, whether a value varies along it, and its stride."""
        space = self.region.space
        lead = len(space) - len(v.shape)
        strides = self.strides.get(v)
        found = []
        for axis, size in enumerate(space):
            varies = axis >= lead and v.shape[axis - lead] == size != 1
            step = strides[axis - lead] if strides is not None and axis >= lead else 0
            found.append((varies, step))
        return found

    def _merge_axes(self) -> None:
        """Make one loop of neighbouring axes along which every array goes on without a jump."""
        space = self.region.space
        aligned = [self._aligned(v) for v in (*self.reads, *self.stored)]
        cut = len(space) - (self.region.split or 0)
        reduced = [set(m.params[0]) for m in self.region.lines if is_reduction(m) and m.outputs[0] in self.region.late]
        classes = any(m.op is IS_CLASS for m in self.region.lines)
        groups: list[list[int]] = []
        for axis, size in enumerate(space):
            if size == 1:
                continue
            if groups and not classes and self._continues(groups[-1][-1], axis, aligned, reduced, cut):
                groups[-1].append(axis)
            else:
                groups.append([axis])
        self.groups = groups
        self.group_of = {axis: g for g, group in enumerate(groups) for axis in group}
        self.sizes = [int(np.prod([space[a] for a in group])) for group in groups]
        self.row_groups = [g for g, group in enumerate(groups) if group[0] < cut] if self.region.split else []
        self.inner_groups = [g for g in range(len(groups)) if g not in self.row_groups]

    def _continues(self, a: int, b: int, aligned: Any, reduced: Any, cut: int) -> bool:
        if any(x != 1 for x in self.region.space[a + 1 : b]) or (self.region.split and a < cut <= b):
            return False
        if any((a in axes) != (b in axes) for axes in reduced):
            return False
        size = self.region.space[b]
        return all(rows[a][0] == rows[b][0] and (not rows[a][0] or rows[a][1] == rows[b][1] * size) for rows in aligned)

    def _access(self, v: Value) -> Access:
        varies = [axis for axis, (yes, _) in enumerate(self._aligned(v)) if yes]
        part = self.whole(v) if self.whole is not None and len(v.shape) == len(self.region.space) else None
        if part is not None and all(self.groups[self.group_of[a]] == [a] for a in varies):
            parent, offsets = part
            if all(a in varies or n == 1 for a, n in enumerate(parent.shape)):
                shape = tuple(parent.shape[a] for a in varies)
                axes = tuple(self.group_of[a] for a in varies)
                return Access(v, axes, shape, self.names(parent, shape), tuple(offsets[a] for a in varies))
        axes = tuple(dict.fromkeys(self.group_of[a] for a in varies))
        shape = tuple(self.sizes[g] for g in axes)
        return Access(v, axes, shape, self.names(v, shape))

    # --- text ---

    def text(self) -> list[str]:
        """Return the lines of the nest."""
        lines = [f"# {', '.join(dict.fromkeys(name_of(m) for m in self.region.lines))}"]
        lines += self._sizes()
        lines += self._begin_late()
        once: dict[str, str] = {}
        per_row: dict[str, str] = {}
        self.loads = once, per_row, {}
        inside: list[str] = []
        for phase in range(self.phases.count):
            inside += self.between(phase)
            inside += self._pass(phase, self.inner_groups)
        lines += _loading(once)
        for depth, g in enumerate(self.row_groups):
            lines.append("    " * depth + self._for(g))
        lines += ["    " * len(self.row_groups) + text for text in (*_loading(per_row), *inside)]
        lines += self._end_late()
        return lines

    def _element(self, access: Access) -> str:
        """Return the text of an input's element that the loops stand at."""
        if not self.loads:
            return access.at()
        rows = bool(self.row_groups) and set(access.axes) <= set(self.row_groups)
        loads = self.loads[0 if not access.axes else 1 if rows else 2]
        return loads.setdefault(access.at(), f"l{self.tag}{sum(map(len, self.loads)) + self.gone}")

    def _for(self, g: int) -> str:
        bounds = "start, stop" if self.threaded and g == 0 else f"n{g}"
        return f"for i{g} in range({bounds}):"

    def _sizes(self) -> list[str]:
        found = []
        for g in range(len(self.groups)):
            holder = next((a for a in self.access.values() if g in a.axes and not a.offsets), None)
            size = self.sizes[g] if holder is None else f"{holder.name}.shape[{holder.axes.index(g)}]"
            found.append(f"n{g} = {size}")
        return found

    def _late_lines(self) -> list[Line]:
        return [m for m in self.region.lines if m.outputs[0] in self.region.late]

    def _begin_late(self) -> list[str]:
        lines = []
        for m in self._late_lines():
            out = self.access[m.outputs[0]]
            start = f"np.{m.outputs[0].dtype.name}({REDUCTIONS[name_of(m)]})"
            if not out.axes:
                wide = "np.float64" if name_of(m) == "sum" else f"np.{m.outputs[0].dtype.name}"
                lines.append(f"s{self._number(m.outputs[0])} = {wide}({REDUCTIONS[name_of(m)]})")
            else:
                lines.append(f"{out.name}[...] = {start}")
        return lines

    def _end_late(self) -> list[str]:
        return [
            f"{self.access[v].name}[()] = s{self._number(v)}"
            for v in (m.outputs[0] for m in self._late_lines())
            if not self.access[v].axes
        ]

    def _number(self, v: Value) -> str:
        return self.numbers[v]

    def between(self, phase: int) -> list[str]:
        """Return the text of what is computed once per row before a pass: numbers of the row."""
        lines: list[str] = []
        for m in self.region.lines:
            v = m.outputs[0]
            if not self.phases.is_row[v] or self.phases.of[v] != phase:
                continue
            if not is_reduction(m):
                text = self._compute(m, body=lines)
                lines.append(f"t{self._number(v)} = {text}")
                self.known[v] = f"t{self._number(v)}"
            else:
                self.known[v] = f"s{self._number(v)}"
            if v in self.stored:
                lines.append(f"{self.access[v].at()} = {self.known[v]}")
        return lines

    def _pass(self, phase: int, inner: list[int]) -> list[str]:
        """Return the loops of one pass over a row, or over everything where there are no rows."""
        lines, body, _ = self.statements(phase)
        if not body:
            return []
        body = _loading(self.loads[2]) + body
        self.gone += len(self.loads[2])
        self.loads[2].clear()
        for depth, g in enumerate(inner):
            if depth == len(inner) - 1:  # what the last loop reduces whole, it reduces into a number
                lines += ["    " * depth + start for start, _ in self.hoisted]
            lines.append("    " * depth + self._for(g))
        lines += ["    " * len(inner) + text for text in body]
        return lines + ["    " * (len(inner) - 1) + end for _, end in self.hoisted]

    def statements(self, phase: int) -> tuple[list[str], list[str], list[tuple[str, str]]]:
        """Return what a pass does before its loops and in them, and which names reduce by which op."""
        reductions = [m for m in self.region.lines if is_reduction(m) and self.phases.pass_of(m) == phase]
        stores = [v for v in self.stored if not self.phases.is_row[v] and v not in self.region.late]
        stores = [v for v in stores if self.phases.of[v] == phase]
        if not reductions and not stores:
            return [], [], []
        rows = {v: t for v, t in self.known.items() if self.phases.is_row[v]}
        self.known = dict(rows)
        body: list[str] = []
        for v in stores:
            self._need(v, phase, body)
            body.append(f"{self.access[v].at()} = {self.known[v]}")
        begin, totals = [], []
        self.hoisted: list[tuple[str, str]] = []
        for m in reductions:
            v, name = m.outputs[0], name_of(m)
            element = self._operand(m.operands[0], m.operands[0].dtype, phase, body)
            late = v in self.region.late
            total = self.access[v].at() if late and self.access[v].axes else f"s{self._number(v)}"
            if late and self.access[v].axes and self.inner_groups[-1] not in self.access[v].axes:
                home, total = total, f"s{self._number(v)}"
                start = f"{total} = np.{v.dtype.name}({REDUCTIONS[name]})"
                self.hoisted.append((start, f"{home} = {reducing(name, home, total)}"))
            if not late:
                begin.append(f"{total} = np.{v.dtype.name}({REDUCTIONS[name]})")
                totals.append((total, name))
            body.append(f"{total} = {reducing(name, total, element)}")
        self.known = rows
        return begin, body, totals

    def _need(self, v: Value, phase: int, body: list[str]) -> None:
        """Make sure that a full value is known in the loop: computed here, or read where an earlier pass stored it."""
        if v in self.known:
            return
        name = f"t{self._number(v)}"
        if v in self.stored and self.phases.of[v] < phase:
            body.append(f"{name} = {self.access[v].at()}")
        else:
            m = self.region.made[v]
            text = self._compute(m, phase, body)
            body.append(f"{name} = {text}")
        self.known[v] = name

    def _compute(self, m: Line, phase: int = 0, body: list[str] | None = None) -> str:
        out = m.outputs[0]
        if m.op is IS_CLASS:
            column = self.group_of.get(1)
            return f"{self.access[m.operands[0]].at()} == {'0' if column is None else f'i{column}'}"
        dtype, wanted = computing_dtype(m), wanted_dtypes(m)
        operands = [self._operand(o, w, phase, body) for o, w in zip(m.operands, wanted, strict=True)]
        assignments, text = expression(m, operands, dtype, f"e{self._number(out)}_")
        assert body is not None
        body += assignments
        return text if out.dtype == TRUTH else f"np.{out.dtype.name}({text})"

    def _operand(self, o: Value | float, dtype: DType, phase: int, body: list[str] | None) -> str:
        if not isinstance(o, Value):
            if dtype == TRUTH:
                return str(bool(o))
            text = repr(float(o)) if dtype.kind == "f" else repr(int(o))
            text = {"inf": "np.inf", "-inf": "-np.inf", "nan": "np.nan"}.get(text, text)
            return f"np.{dtype.name}({text})"
        if o in self.region.made and o not in self.region.late:
            if self.phases.is_row[o]:
                text = self.known[o]
            else:
                assert body is not None
                self._need(o, phase, body)
                text = self.known[o]
        else:
            text = self._element(self.access[o])
        return text if o.dtype == dtype else f"np.{dtype.name}({text})"


def _loading(loads: dict[str, str]) -> list[str]:
    return [f"{name} = {text}" for text, name in loads.items()]


def function_text(nests: list[Nest], arrays: list[str], threaded: bool) -> str:
    """Return the source of one function that runs nests one after the other."""
    given = [*arrays, "start", "stop"] if threaded else arrays
    body = [f"    {text}" for nest in nests for text in nest.text()]
    return "\n".join([f"def kernel({', '.join(given)}):", *body, ""])


def combining_text(name: str, dtype: DType) -> str:
    """Return the source of a function that reduces rows to one, as threads have made them."""
    lines = [
        "def kernel(x0, x1):",
        "    n0 = x1.shape[0]",
        "    n1 = x0.shape[0]",
        "    for i0 in range(n0):",
        f"        s0 = np.{dtype.name}({REDUCTIONS[name]})",
        "        for i1 in range(n1):",
        "            l0 = x0[i1, i0]",
        f"            s0 = {reducing(name, 's0', 'l0')}",
        "        x1[i0] = s0",
    ]
    return "\n".join([*lines, ""])


def copying_text(rank: int, threaded: bool) -> str:
    """Return the source of a function that copies an array."""
    lines = [f"def kernel(x0, x1{', start, stop' if threaded else ''}):"]
    for axis in range(rank):
        bounds = "start, stop" if threaded and not axis else f"x1.shape[{axis}]"
        lines.append("    " * (axis + 1) + f"for i{axis} in range({bounds}):")
    index = ", ".join(f"i{axis}" for axis in range(rank)) or "()"
    return "\n".join([*lines, "    " * (rank + 1) + f"x1[{index}] = x0[{index}]", ""])


# Adds the rows of x0 to those of x2 that the numbers x1 name.
SCATTERING = """def kernel(x0, x1, x2):
    x2[...] = 0.0
    for i0 in range(x0.shape[0]):
        l0 = x1[i0]
        for i1 in range(x0.shape[1]):
            x2[l0, i1] = x2[l0, i1] + x0[i0, i1]
"""
