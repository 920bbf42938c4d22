"""Regions as CUDA kernels.

A region without rows runs a thread per element, or per pack of neighbours that are read and written at once. One with
rows runs a block per row, or a warp where rows are short: a row that fits is read once and stays in registers. What is
reduced over all rows, or over everything, every block reduces for itself, into `parts`; a second kernel joins them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._typing import DType
from ...devices.cuda.sizes import BLOCKS as _BLOCKS
from ...devices.cuda.sizes import ROW_IN_REGISTERS as _HELD
from ...devices.cuda.sizes import ROW_REGISTERS as _REGISTERS
from ...devices.cuda.source import TYPES
from ...scalar import cuda
from ..expressions import (
    HALVES,
    IS_CLASS,
    REDUCTIONS,
    TRUTH,
    computing_dtype,
    formula_of,
    is_reduction,
    name_of,
    wanted_dtypes,
)
from ..fusion import Phases, Region
from ..graph import Line, Step, Value
from .text import computed_as, wide

__all__ = ["DRAW", "Kernel", "joining_source"]

# (seeds) -> floats in [0, 1), one for each element; the parameters: shape, dtype, which of the seeds.
DRAW = Step("draw", lambda *_: None, random=True)

_THREADS = 256


class Access:
    """An array as a kernel sees it: by how many elements it goes on along each group of axes."""

    def __init__(self, value: Value, name: str, steps: dict[int, int]) -> None:
        self.value, self.name, self.steps = value, name, steps

    def at(self, index: Any, extra: str = "") -> str:
        """Return the text of the place of an element; `index` gives the text of a group's index."""
        terms = [index(g) if step == 1 else f"{index(g)} * {step}" for g, step in self.steps.items()]
        return f"{self.name}[{' + '.join([*terms, *([extra] if extra else [])]) or '0'}]"


class Kernel:
    """The source of a region, and how it is launched.

    Attributes
    ----------
    source
        The text, its name being ``NAME``.
    values
        The arrays that it takes, in order; of a value that is written in place, the one that it replaces.
    late
        What it reduces over blocks, and how many columns each of these has; parts come last among the arguments.
    grid, block
        The launch.
    """

    def __init__(
        self,
        region: Region,
        strides: Callable[[Value], tuple[int, ...]],
        aligned: Any,
        stand_for: dict[Value, Value] | None = None,
    ) -> None:
        self.region, self.strides, self.aligned = region, strides, aligned
        self.stand_for = stand_for or {}
        self.phases = Phases(region)
        self.numbers = {v: i for i, v in enumerate(region.made)}
        self.reads = region.inputs()
        self.writes = [v for v in region.outputs if v not in region.late]
        self.late: list[tuple[Value, int]] = []
        self.values: list[Value] = []
        self._merge_axes()
        self.access = {v: self._access(v) for v in (*self.reads, *self.writes)}
        self.written = {self.access[v].name for v in self.writes}
        self.last = self.groups[self.inner[-1]][-1] if self.inner else -1
        self.width = self._pack_width()
        self.index_type = self._index_type()
        self.classes: dict[Value, str] = {}  # the names of rows' classes, in 32 bits
        self.held = 0  # packs of a row that a thread holds in registers
        self.lines: list[str] = []
        if region.split is None:
            self._write_flat()
        else:
            self._write_rows()
        self.source = "\n".join([self._head(), *self.lines, "}"])

    # --- axes ---

    def _aligned(self, v: Value) -> list[tuple[bool, int]]:
        """Return, for each axis of the space, whether a value varies along it, and by how many elements."""
        space, item = self.region.space, v.dtype.itemsize
        lead = len(space) - len(v.shape)
        strides = self.strides(v)
        return [
            (axis >= lead and v.shape[axis - lead] == size != 1, strides[axis - lead] // item if axis >= lead else 0)
            for axis, size in enumerate(space)
        ]

    def _merge_axes(self) -> None:
        """Make one loop of neighbouring axes along which every array goes on without a jump."""
        region, space = self.region, self.region.space
        seen = [self._aligned(v) for v in (*self.reads, *self.writes) if not _is_seed(v, region)]
        cut = len(space) - (region.split or 0)
        fixed = any(m.op is IS_CLASS for m in region.lines)
        groups: list[list[int]] = []
        for axis, size in enumerate(space):
            if size == 1:
                continue
            if groups and not fixed and self._continues(groups[-1][-1], axis, seen, cut):
                groups[-1].append(axis)
            else:
                groups.append([axis])
        self.groups = groups
        self.sizes = [math.prod(space[a] for a in group) for group in groups]
        self.group_of = {a: g for g, group in enumerate(groups) for a in group}
        rows = region.split is not None
        self.row_groups = [g for g, group in enumerate(groups) if rows and group[0] < cut]
        self.inner = [g for g in range(len(groups)) if g not in self.row_groups]
        self.rows = math.prod(self.sizes[g] for g in self.row_groups)
        self.columns = math.prod(self.sizes[g] for g in self.inner)

    def _continues(self, a: int, b: int, seen: Sequence[Any], cut: int) -> bool:
        space = self.region.space
        if any(n != 1 for n in space[a + 1 : b]) or (self.region.split is not None and a < cut <= b):
            return False
        return all(r[a][0] == r[b][0] and (not r[a][0] or r[a][1] == r[b][1] * space[b]) for r in seen)

    def _access(self, v: Value) -> Access:
        target = self.stand_for.get(v, v)
        if target not in self.values:
            self.values.append(target)
        name = f"x{self.values.index(target)}"
        if _is_seed(v, self.region):
            return Access(v, name, {})
        steps = self._aligned(v)
        found = {g: steps[group[-1]][1] for g, group in enumerate(self.groups) if steps[group[-1]][0]}
        return Access(v, name, found)

    def _pack_width(self) -> int:
        """Return how many neighbours a thread takes at once."""
        if not self.inner:
            return 1
        g = self.inner[-1]
        varying = [a for a in self.access.values() if g in a.steps]
        if not varying or any(a.steps[g] != 1 or not self.aligned(a.value) for a in varying):
            return 1
        large = [a for a in varying if a.value.size * 8 >= self.region.size]  # what is small is read from the cache
        widest = max(a.value.dtype.itemsize for a in large or varying)
        width = min(16 // widest, 8)
        steps = [s for a in varying for other, s in a.steps.items() if other != g]
        while width > 1 and any(s % width for s in steps):
            width //= 2
        size = self.sizes[g]
        padded = self.region.split is not None and len(self.inner) == 1 and all(len(a.steps) > 1 for a in varying)
        while width > 1 and size % width and not (padded and self._has_room(varying, width)):
            width //= 2
        return width

    def _has_room(self, varying: list[Access], width: int) -> bool:
        """Return whether rows may be read and written up to a multiple of the width."""
        whole = -(-self.columns // width) * width
        return all(min(s for g, s in a.steps.items() if g != self.inner[-1]) >= whole for a in varying)

    def _index_type(self) -> str:
        reach = [sum((self.sizes[g] - 1) * abs(s) for g, s in a.steps.items()) for a in self.access.values()]
        total = math.prod(self.sizes)
        return "int" if max([total, *reach]) + _BLOCKS * 1024 * 8 < 1 << 31 else "i64"

    # --- declarations ---

    def _head(self) -> str:
        given = []
        twice = {self.access[v].name for v in self.writes if v in self.stand_for}
        for i, v in enumerate(self.values):
            name = f"x{i}"
            constant = "" if name in self.written else "const "
            alone = "" if name in twice else " __restrict__"
            given.append(f"{constant}{TYPES[v.dtype.name]}*{alone} {name}")
        given += [f"{computed_as(v.dtype)}* __restrict__ part{i}" for i, (v, _) in enumerate(self.late)]
        bounds = f"__launch_bounds__({math.prod(self.block)}) "
        return f'extern "C" __global__ void {bounds}NAME({", ".join([*given, "i64 n"])}) {{'

    def _say(self, *texts: str) -> None:
        self.lines += texts

    def _decode(self, flat: str, groups: list[int]) -> None:
        """Write the indices of some groups, of a flat one."""
        left = flat
        for g in reversed(groups):
            if g == groups[0]:
                self._say(f"const {self.index_type} i{g} = {left};")
            else:
                kind, size = self.index_type, self.sizes[g]
                self._say(f"const {kind} q{g} = {left} / {size}; const {kind} i{g} = {left} - q{g} * {size};")
                left = f"q{g}"

    def _pack(self, v: Value) -> str:
        return f"Span<{TYPES[v.dtype.name]}, {self.width}>"

    def _varies(self, a: Access) -> bool:
        return bool(self.inner) and self.inner[-1] in a.steps

    # --- without rows ---

    def _write_flat(self) -> None:
        kind, v = self.index_type, self.width
        size = math.prod(self.sizes)
        reductions = [m for m in self.region.lines if m.outputs[0] in self.region.late]
        self.late = [(m.outputs[0], 1) for m in reductions]
        self.block = (_THREADS, 1)
        blocks = -(-size // (v * _THREADS))
        self.grid = (min(blocks, _BLOCKS) if reductions else blocks, 1)
        for i, m in enumerate(reductions):
            self._say(f"{computed_as(m.outputs[0].dtype)} a{i} = {_start(m)};")
        first = f"((({kind})blockIdx.x * {_THREADS} + ({kind})threadIdx.x) * {v})"
        if reductions:
            self._say(f"for ({kind} e0 = {first}; e0 < n; e0 += ({kind})gridDim.x * {_THREADS * v}) {{")
        else:
            self._say(f"const {kind} e0 = {first};", "if (e0 >= n) return;")
        self._decode("e0", list(range(len(self.groups))))
        self.scope = _Scope(self, 0)
        self._load_packs()
        self._say(f"#pragma unroll\nfor (int j = 0; j < {v}; ++j) {{")
        self.scope.load_elements(lambda a: f"p{a.name}.v[j]")
        self._stores(0, lambda a: f"p{a.name}.v[j]")
        for i, m in enumerate(reductions):
            element = self.scope.operand(m.operands[0], m.operands[0].dtype)
            self._say(f"a{i} = join_{name_of(m)}(a{i}, {element});")
        self._say("}")
        self._store_packs()
        if reductions:
            self._say("}")
            for i, m in enumerate(reductions):
                self._say(f"a{i} = block_{name_of(m)}(a{i});", f"if (threadIdx.x == 0) part{i}[blockIdx.x] = a{i};")

    def _place(self, a: Access, index: object = None) -> str:
        return a.at(index or (lambda g: f"i{g}"))

    def _read_names(self) -> list[Access]:
        """Return what is read, each array once."""
        found = {self.access[v].name: self.access[v] for v in self.reads if not _is_seed(v, self.region)}
        return list(found.values())

    def _load_packs(self) -> None:
        """Write loads of what varies along the last axis, and reserve space for what is written there."""
        read = {a.name for a in self._read_names()}
        if self.width == 1:
            return
        for a in self._read_names():
            if self._varies(a):
                pack = self._pack(a.value)
                self._say(f"{pack} p{a.name} = *({self._constant(a)}{pack}*)&{self._place(a)};")
        for v in self.writes:
            a = self.access[v]
            if self._varies(a) and a.name not in read:
                self._say(f"{self._pack(v)} p{a.name};")

    def _constant(self, a: Access) -> str:
        return "" if a.name in self.written else "const "

    def _store_packs(self) -> None:
        if self.width == 1:
            return
        for v in self.writes:
            a = self.access[v]
            if self._varies(a):
                self._say(f"*({self._pack(v)}*)&{self._place(a)} = p{a.name};")

    def _stores(self, phase: int, packed: Any) -> None:
        """Write what a pass over a row, or everything, leaves in memory."""
        found = []
        for v in self.writes:
            if self.phases.is_row[v] or self.phases.of[v] != phase:
                continue
            found.append((v, self.scope.name_of(v)))
        for v, name in found:
            a = self.access[v]
            place = packed(a) if self.width > 1 and self._varies(a) else self._place(a)
            self._say(f"{place} = ({TYPES[v.dtype.name]})({name});")

    # --- with rows ---

    def _write_rows(self) -> None:
        self.reductions = [m for m in self.region.lines if is_reduction(m)]
        self.down = [m for m in self.reductions if m.outputs[0] in self.region.late]
        self.along = [m for m in self.reductions if m not in self.down]
        self.late = [(m.outputs[0], self.columns) for m in self.down]
        self._shape_block()
        for i, m in enumerate(self.down):
            count = self.held * self.width
            self._say(f"{computed_as(m.outputs[0].dtype)} a{i}[{count}];")
            self._say(f"for (int k = 0; k < {count}; ++k) a{i}[k] = {_start(m)};")
        self._say(f"const int lane = threadIdx.x + {'blockIdx.y * blockDim.x' if self.tiled else '0'}; (void)lane;")
        first = "blockIdx.x" if self.block[1] == 1 else "blockIdx.x * blockDim.y + threadIdx.y"
        step = "gridDim.x" if self.block[1] == 1 else "gridDim.x * blockDim.y"
        kind = self.index_type
        self._say(f"for ({kind} r = {first}; r < n; r += {step}) {{")
        if self.row_groups:
            self._decode("r", self.row_groups)
        self.scope = _Scope(self, 0)
        self.scope.load_rows()
        if self.held:
            self._hold()
        for phase in range(self.phases.count):
            self._between(phase)
            self._pass(phase)
        self._say("}")
        self._leave_parts()

    def _shape_block(self) -> None:
        """Decide on threads: how many packs of a row each holds, and how many rows a block takes."""
        packs = -(-self.columns // self.width)
        several = len(self.inner) != 1  # indices are found by division, which is done again in every pass
        full = [a for a in self._read_names() if self._varies(a)]
        self.tiled = bool(self.down) and not self.along
        self.held, self.block = 0, (min(1024, max(32, -(-packs // 32) * 32)), 1)
        if self.tiled:
            threads = min(128, -(-packs // 32) * 32)
            self.held, self.block = 1, (threads, 1)
            tiles = -(-packs // threads)
            self.grid = (max(1, min(self.rows, _BLOCKS // tiles)), tiles)
            return
        if packs <= 128 and (not several or packs <= 32):
            self.held, self.block = -(-packs // 32), (32, 4)
        else:
            held = 1
            while -(-packs // held) > 1024 or (held < 2 and packs // held > 128) or (held < 4 and packs // held > 512):
                held *= 2
            short = self.columns <= _HELD or bool(self.down)
            if short and held * self.width * max(len(full) + len(self.down), 1) <= _REGISTERS and not several:
                self.held, self.block = held, (32 * -(-packs // (32 * held)), 1)
            elif self.down:
                raise NotImplementedError("rows too long to be reduced both ways")
            else:
                self.block = (min(512, self.block[0]), 1)
        blocks = -(-self.rows // self.block[1])
        most = max(132, _BLOCKS * 128 // math.prod(self.block) // 2) if self.down else blocks
        self.grid = (max(1, min(blocks, most)), 1)

    def _column(self) -> str:
        return f"(lane + k * {self.block[0]}) * {self.width}"

    def _exact(self) -> bool:
        """Return whether all threads have something to do in every turn."""
        tiles = self.grid[1]
        return self.held * self.block[0] * tiles * self.width == self.columns

    def _hold(self) -> None:
        """Read a row into registers."""
        found = [a for a in self._read_names() if self._varies(a)]
        if not found:
            return
        for a in found:
            self._say(f"{self._pack(a.value)} p{a.name}[{self.held}];")
        self._begin_turns()
        for a in found:
            place = a.at(lambda h: f"i{h}")
            self._say(f"p{a.name}[k] = *({self._constant(a)}{self._pack(a.value)}*)&{place};")
        self._say("}" if self._exact() else "}}")

    def _begin_turns(self) -> None:
        """Begin the loop over the packs of a row that a thread holds."""
        self._say(f"#pragma unroll\nfor (int k = 0; k < {self.held}; ++k) {{")
        self._say(f"const {self.index_type} c = {self._column()};")
        self._say("" if self._exact() else f"if (c < {self.columns}) {{")
        self._inner_index("c")

    def _inner_index(self, name: str) -> None:
        if len(self.inner) == 1:
            self._say(f"const {self.index_type} i{self.inner[0]} = {name};")
        elif self.inner:
            self._decode(name, self.inner)

    def _prepare(self, v: Value, name: str) -> None:
        """Write what every element of a row would otherwise compute of a number that the row has one of."""
        users = [m for m in self.region.lines if v in m.inputs]
        if any(m.op is IS_CLASS for m in users) and self.index_type == "int":
            self.classes[v] = f"class_{name}"
            self._say(f"const int class_{name} = {name} < 0 || {name} > 0x7fffffff ? -1 : (int){name};")

    def _between(self, phase: int) -> None:
        """Write what is computed once per row before a pass."""
        for m in self.region.lines:
            v = m.outputs[0]
            if not self.phases.is_row[v] or self.phases.of[v] != phase:
                continue
            name = f"s{self.numbers[v]}" if is_reduction(m) else self.scope.compute(m)
            self.scope.rows[v] = self.scope.known[v] = name
            self._prepare(v, name)
            if v in self.writes:
                place = self._place(self.access[v])
                self._say(f"if (threadIdx.x == 0) {place} = ({TYPES[v.dtype.name]})({name});")

    def _pass(self, phase: int) -> None:
        """Write one pass over a row."""
        mine = [m for m in self.reductions if self.phases.pass_of(m) == phase]
        stores = [v for v in self.writes if not self.phases.is_row[v] and self.phases.of[v] == phase]
        if not mine and not stores:
            return
        along = [m for m in mine if m in self.along]
        for m in along:
            v = m.outputs[0]
            self._say(f"{computed_as(v.dtype)} s{self.numbers[v]} = {_start(m)};")
        outer = self.scope
        self.scope = _Scope(self, phase, outer.rows, outer.row_loads)
        kind, whole = self.index_type, self.block[0] * self.width
        if self.held:
            self._begin_turns()
        else:
            self._say(f"#pragma unroll 2\nfor ({kind} c = lane * {self.width}; c < {self.columns}; c += {whole}) {{{{")
            self._inner_index("c")
        self._pass_body(mine, phase)
        self._say("}" if self.held and self._exact() else "}}")
        self.scope = outer
        for m in along:
            name = f"s{self.numbers[m.outputs[0]]}"
            self._say(f"{name} = {'warp' if self.block[0] == 32 else 'block'}_{name_of(m)}({name});")

    def _pass_body(self, mine: list[Line], phase: int) -> None:
        if not self.held:
            self._load_packs()
        else:
            held = {a.name for a in self._read_names() if self._varies(a)}
            for v in self.writes:
                a = self.access[v]
                if self._varies(a) and a.name not in held and self.phases.of[v] == phase and not self.phases.is_row[v]:
                    self._say(f"{self._pack(v)} p{a.name}[1];")
        at = {a.name: "k" for a in self._read_names() if self._varies(a)} if self.held else {}

        def packed(a: Access) -> str:
            if not self.held:
                return f"p{a.name}.v[j]"
            return f"p{a.name}[{at.get(a.name, '0')}].v[j]"

        wrote = [v for v in self.writes if not self.phases.is_row[v] and self.phases.of[v] == phase]
        if self.columns % self.width:  # only the last pack of a row ends within
            self._say(f"if (c + {self.width} <= {self.columns}) {{")
            self._elements(mine, wrote, packed)
            self._say("} else {")
            ends = [f"{packed(self.access[v])} = ({TYPES[v.dtype.name]})0.0f;" for v in wrote if v.dtype.name in HALVES]
            self._elements(mine, wrote, packed, ends)
            self._say("}")
        else:
            self._elements(mine, wrote, packed)
        if self.held or self.width > 1:
            for v in wrote:
                a = self.access[v]
                if self._varies(a):
                    pack = f"p{a.name}[{at.get(a.name, '0')}]" if self.held else f"p{a.name}"
                    self._say(f"*({self._pack(v)}*)&{self._place(a)} = {pack};")

    def _elements(self, mine: list[Line], wrote: list[Value], packed: Any, ends: list[str] | None = None) -> None:
        """Write what is done with each element of a pack; with `ends`, what with those behind the end of a row."""
        outer = self.scope
        self.scope = _Scope(self, outer.phase, outer.rows, outer.row_loads)
        self._say(f"#pragma unroll\nfor (int j = 0; j < {self.width}; ++j) {{")
        self._say("" if ends is None else f"if (c + j < {self.columns}) {{")
        self.scope.load_elements(packed if self.held or self.width > 1 else None)
        self._row_stores(wrote, packed)
        for m in mine:
            v = m.outputs[0]
            element = self.scope.operand(m.operands[0], m.operands[0].dtype)
            if m in self.down:
                total = f"a{self.down.index(m)}[{'k' if self.held > 1 else '0'} * {self.width} + j]"
            else:
                total = f"s{self.numbers[v]}"
            self._say(f"{total} = join_{name_of(m)}({total}, {element});")
        self._say(*(["}"] if ends is None else ["} else {", *ends, "}}"]))  # products read rows to the end
        self.scope = outer

    def _row_stores(self, wrote: list[Value], packed: Any) -> None:
        named = [(v, self.scope.name_of(v)) for v in wrote]
        for v, name in named:
            a = self.access[v]
            place = packed(a) if (self.held or self.width > 1) and self._varies(a) else self._place(a)
            self._say(f"{place} = ({TYPES[v.dtype.name]})({name});")

    def _leave_parts(self) -> None:
        """Write what each block, or warp, has reduced down the rows."""
        if not self.down:
            return
        block = "blockIdx.x" if self.block[1] == 1 else "(blockIdx.x * blockDim.y + threadIdx.y)"
        self._say(f"#pragma unroll\nfor (int k = 0; k < {self.held}; ++k) {{ const i64 c = {self._column()};")
        self._say(f"#pragma unroll\nfor (int j = 0; j < {self.width}; ++j) if (c + j < {self.columns}) {{")
        for i in range(len(self.down)):
            self._say(f"part{i}[(i64){block} * {self.columns} + c + j] = a{i}[k * {self.width} + j];")
        self._say("}}")

    # --- what a launch needs ---

    @property
    def parts(self) -> int:
        """How many parts each late value has."""
        return self.grid[0] * (self.block[1] if self.region.split is not None else 1)

    @property
    def ends_with_zeros(self) -> bool:
        """Whether rows that are written end with zeros, up to a multiple of 8 elements."""
        return self.region.split is not None and self.width == 8 and self.columns % 8 != 0

    @property
    def size(self) -> int:
        """The number that the kernel is given: of rows, or of elements."""
        return self.rows if self.region.split is not None else math.prod(self.sizes)

    @property
    def bytes(self) -> int:
        """How much memory the kernel goes through."""
        return sum(v.nbytes for v in (*self.reads, *self.region.outputs))


class _Scope:
    """The names of numbers that are known at one place of a kernel."""

    def __init__(self, kernel: Kernel, phase: int, rows: Any = None, row_loads: Any = None) -> None:
        self.kernel, self.phase = kernel, phase
        self.rows: dict[Value, str] = {} if rows is None else rows
        self.row_loads: dict[Value, str] = {} if row_loads is None else row_loads
        self.known: dict[Value, str] = dict(self.rows)
        self.loads: dict[Value, str] = dict(self.row_loads)

    def load_rows(self) -> None:
        """Read what a row has one of."""
        k = self.kernel
        for v in k.reads:
            a = k.access[v]
            if not _is_seed(v, k.region) and set(a.steps) <= set(k.row_groups):
                k._say(f"const {computed_as(v.dtype)} r{k.values.index(k.stand_for.get(v, v))} = {k._place(a)};")
                self.row_loads[v] = self.loads[v] = f"r{a.name[1:]}"
                k._prepare(v, f"r{a.name[1:]}")

    def load_elements(self, packed: Any) -> None:
        """Read an element of everything, before anything is written."""
        k = self.kernel
        for v in k.reads:
            if v in self.loads or _is_seed(v, k.region):
                continue
            a = k.access[v]
            name = f"l{a.name[1:]}"
            if name not in self.loads.values():
                apart = packed is None or not k._varies(a) or (k.width == 1 and not k.held)
                text = k._place(a) if apart else packed(a)
                k._say(f"const {computed_as(v.dtype)} {name} = {text};")
            self.loads[v] = name

    def name_of(self, v: Value) -> str:
        """Return the name of a value's element, which is computed if it is not known."""
        if v in self.known:
            return self.known[v]
        if v not in self.kernel.region.made or v in self.kernel.region.late:
            return self.loads[v]
        self.known[v] = self.compute(self.kernel.region.made[v])
        return self.known[v]

    def compute(self, m: Line) -> str:
        """Write a line's computation, and return the name of its result."""
        k, out = self.kernel, m.outputs[0]
        text = self._text(m)
        name = f"t{k.numbers[out]}"
        if out.dtype.name in ("float16", "bfloat16"):
            text = f"(float)({TYPES[out.dtype.name]})({text})"
        k._say(f"const {computed_as(out.dtype)} {name} = {text};")
        return name

    def _text(self, m: Line) -> str:
        k, out = self.kernel, m.outputs[0]
        if m.op is IS_CLASS:
            column = k.group_of.get(1)
            place = "0" if column is None else f"i{column} + {self._offset(column)}"
            return f"{k.classes.get(m.operands[0]) or self.name_of(m.operands[0])} == {place}"
        if m.op is DRAW:
            seed = k.access[m.operands[0]].name
            return f"draw32({seed}, {m.params[2]}, {self._element()})"
        dtype, name = computing_dtype(m), name_of(m)
        operands = [self.operand(o, w) for o, w in zip(m.operands, wanted_dtypes(m), strict=True)]
        if name == "cast":
            return operands[0] if out.dtype != TRUTH else f"({operands[0]} != 0)"
        formula = formula_of(m)
        assert formula is not None
        names = {f"x{i}": text for i, text in enumerate(operands)}
        steps, text = cuda.lines(formula, computed_as(np.dtype(wide(dtype.name))), names, f"e{k.numbers[out]}_")
        k._say(*[f"{step};" for step in steps])
        return text

    def _offset(self, group: int) -> str:
        """Return the place in a pack, which goes along the last group."""
        return "j" if self.kernel.inner and group == self.kernel.inner[-1] else "0"

    def _element(self) -> str:
        k = self.kernel
        return "(i64)e0 + j" if k.region.split is None else f"(i64)r * {k.columns} + c + j"

    def operand(self, o: Value | float, dtype: DType) -> str:
        """Return the text of an operand, in the dtype in which a line computes."""
        kind = computed_as(dtype)
        if not isinstance(o, Value):
            return cuda.constant(bool(o) if dtype == TRUTH else int(o) if dtype.kind in "iu" else float(o), kind)
        text = self.name_of(o)
        return text if computed_as(o.dtype) == kind else f"({kind})({text})"


def _is_seed(v: Value, region: Region) -> bool:
    """Return whether a value is what random numbers are drawn from, whose shape has nothing to do with the space."""
    return any(m.op is DRAW and m.operands[0] is v for m in region.lines)


def _start(m: Line) -> str:
    return {"0": "0", "-np.inf": "-__int_as_float(0x7f800000)", "np.inf": "__int_as_float(0x7f800000)"}[
        REDUCTIONS[name_of(m)]
    ]


def joining_source(lines: list[Line], columns: int) -> str:
    """Return the source of the kernel that joins the parts of late values, of one region."""
    given, body = [], []
    for i, m in enumerate(lines):
        dtype = m.outputs[0].dtype
        given.append(f"const {computed_as(dtype)}* __restrict__ p{i}, {TYPES[dtype.name]}* __restrict__ o{i}")
        kind, more = ("number", "") if columns == 1 else ("columns", ", columns")
        body.append(f"if (blockIdx.y == {i}) {kind}_{name_of(m)}(p{i}, o{i}, count{more});")
    head = f'extern "C" __global__ void NAME({", ".join(given)}, i64 count, i64 columns) {{'
    return "\n".join([head, *body, "}"])
