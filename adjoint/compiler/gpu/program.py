"""A graph as a program on a GPU: kernels and library calls on memory that is planned once, replayed as CUDA graphs."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.nodes import registry
from ...devices.cuda import sizes
from ...devices.cuda.sizes import BIAS as _BIASED
from ...devices.cuda.sizes import PADDED_COLUMNS as _PADDED
from ...devices.cuda.sizes import PADDED_ROWS as _TABLE
from ..buffers import laid_out, row_major
from ..decomposition import decompose
from ..eager import Eager, Guard
from ..expressions import is_elementwise, is_floating, is_reduction
from ..fusion import Phases, Region
from ..graph import GUARD, WRITE, Form, Graph, GuardFailure, Line, Step, Value
from ..simplification import simplify
from .fusion import DeviceFusion
from .host import Host, host_lines
from .kernels import DRAW, Kernel
from .lowering import lower_draws, pick_rows
from .memory import Lives
from .replaying import Player
from .steps import Ask, Attend, Call, Copy, Fill, Join, Launch, Multiply, Place, Sources, Take

_VIEWING = frozenset(("reshape", "unsafe_view", "clone", "contiguous", "clone_ordered", "alias"))


class DeviceProgram:
    """Compiled form of a graph whose values are on a GPU; call `run` with the arrays of the arguments."""

    def __init__(self, graph: Graph, kernels: Any) -> None:
        self.graph = graph = graph.copy()
        self.kernels = kernels
        self.before = len(graph.lines)
        lower_draws(graph)
        decompose(graph)
        simplify(graph)
        pick_rows(graph)
        self.results = graph.results
        self.writes = [line for line in graph.lines if line.op is WRITE]
        self.guarded = any(line.op is GUARD for line in graph.lines)
        self.reuses = not self.guarded  # memory of gradients, which are gone before it runs
        early = host_lines(graph, self.guarded)
        mine = set(map(id, early))
        lines = [line for line in graph.lines if id(line) not in mine]
        ready = {v for line in early for v in line.outputs}
        self.fusion = DeviceFusion(graph, lines, ready)
        asked = {v for line in lines if _asks(line) for v in line.inputs if v.device == "cpu"}
        self.seen = [v for v in asked if v in ready]  # results of the CPU's first part that the CPU needs later
        self.looked = [v for v in asked if v in set(graph.inputs)]
        self.host = Host(graph, early, kernels, [*(v for v in self.results if v in ready), *self.seen])
        self.misaligned = {r.value for r in graph.outside if _is_misaligned(r)}
        self.places: dict[Value, Place] = {}
        self.strides: dict[Value, tuple[int, ...]] = {}
        self.samples: dict[Value, Any] = {}
        self.lives = Lives()
        self.steps: list[Any] = []
        self.sources = Sources()
        self._write()
        for i, step in enumerate(self.steps):
            for place in step.touched():
                self.lives.use(place.root, i)
        self.arena = self.lives.plan()
        assert self.lives.offsets.keys().isdisjoint(self.made), "what leaves a program has memory of its own"
        self.host.finish()
        self.player: Any = None

    # --- the places of values ---

    def _root(self, v: Value, strides: tuple[int, ...]) -> Place:
        self.strides[v] = strides
        place = self.places[v] = Place(v, v, 0, v.shape, strides)
        return place

    def _declare_inputs(self) -> None:
        for v in self.graph.inputs:
            if v.device != "cpu":
                self._root(v, v.strides)

    def place(self, v: Value) -> Place:
        """Return the place of a value: in an input, a buffer, what a library returned, or a view of one of these."""
        found = self.places.get(v)
        if found is None:
            line = self.fusion.views.get(v)
            found = self._sent(v) if v.device == "cpu" else self._viewed(v, line)  # type: ignore[arg-type]
        return found

    def _sent(self, v: Value) -> Place:
        """Return the place of a value of the CPU's in the memory that is sent."""
        if v in self.late_host:
            place = self._root(v, row_major(v.shape, v.dtype.itemsize))
            self.steps.append(Take(place))
            return place
        offset = self.host.place(v)
        self.strides[v] = row_major(v.shape, v.dtype.itemsize)
        place = self.places[v] = Place(v, None, offset, v.shape, self.strides[v])
        return place

    def _viewed(self, v: Value, line: Line) -> Place:
        source = line.operands[0]
        under = self.place(source)
        before = self._sample(source)
        after = line.op.kernel(before, *line.params)
        if isinstance(after, np.ndarray) and np.may_share_memory(before, after):
            offset = _address(after) - _address(before)
            self.samples[v], self.strides[v] = after, after.strides
            place = Place(v, under.root, under.offset + offset, v.shape, after.strides)
        elif line.op.name in _VIEWING and source.size == v.size and source.dtype == v.dtype:
            place = self._copied(v, source)
        else:
            place = self._root(v, v.strides)
            self.called.add(v)
            self.steps.append(Call(line, [under], [place], Eager(line)))
            self.lives.holds(v, under.root)
        self.places[v] = place
        return place

    def _sample(self, v: Value) -> np.ndarray[Any, Any]:
        if v not in self.samples:
            self.samples[v] = laid_out(v.shape, v.dtype, self.strides[v])
        return self.samples[v]

    def _copied(self, v: Value, source: Value) -> Place:
        """Give a value the elements of another, in order, in a buffer."""
        under = self.place(source)
        dense = row_major(source.shape, source.dtype.itemsize)
        make = self._root if v in self.results else self._new_buffer  # what leaves has memory of its own
        make(v, row_major(v.shape, v.dtype.itemsize))
        there = Place(v, v, 0, source.shape, dense)
        self._copy(under, there, source)
        return self.places[v]

    def _copy(self, source: Place, target: Place, like: Value) -> None:
        """Write a kernel that copies elements between two places of one shape."""
        if not like.size:
            return
        x = self.graph.value(Form(like.shape, like.dtype, like.device))
        y = self.graph.value(Form(like.shape, target.value.dtype, like.device))
        region = Region(like.shape, 0, like.device)
        region.add(Line(registry["cast"], (x,), (y.dtype,), (y,)))
        region.outputs = [y]
        strides = {x: source.strides, y: target.strides}
        aligned = {x: self._is_aligned(source), y: self._is_aligned(target)}
        if like.dtype.name not in _COPIED:
            self.steps.append(Copy(source, target))
            return
        kernel = Kernel(region, strides.__getitem__, aligned.__getitem__)
        self.steps.append(Launch(self.sources.name(kernel.source), kernel, [source, target], [], "copy"))

    def _is_aligned(self, place: Place) -> bool:
        return _is_aligned_place(place, self.misaligned)

    def _buffer(self, v: Value) -> Place:
        """Give a value memory: its own while it is in use, that of what it replaces, or one that leaves the program."""
        if v in self.places:
            return self.place(v)
        if v in self.direct:
            target = self.place(self.direct[v])
            self.strides[v] = target.strides
            self.places[v] = Place(v, target.root, target.offset, v.shape, target.strides)
            return self.places[v]
        strides = row_major(v.shape, v.dtype.itemsize)
        if v in self.results or v in self.carriers:
            return self._root(v, strides)
        return self._new_buffer(v, self._padded(v, strides))

    def _padded(self, v: Value, strides: tuple[int, ...]) -> tuple[int, ...]:
        """Return strides that let every row begin at a multiple of 16 bytes, for matrices of 16-bit floats."""
        if len(v.shape) < 2 or v.shape[-1] < _PADDED or v.dtype.itemsize != 2 or v.shape[-1] % 8 == 0:
            return strides
        return (*row_major((*v.shape[:-1], -(-v.shape[-1] // 8) * 8), 2)[:-1], 2)

    def _new_buffer(self, v: Value, strides: tuple[int, ...]) -> Place:
        rows = strides[0] * v.shape[0] if v.shape else v.dtype.itemsize
        if self._is_table(v):
            rows = strides[0] * -(-v.shape[0] // 8) * 8
        self.lives.add(v, max(rows, v.nbytes))
        return self._root(v, strides)

    @staticmethod
    def _is_table(v: Value) -> bool:
        """Return whether a matrix of 16-bit floats gets some rows more: products of even sizes are much faster."""
        shape = v.shape
        return len(shape) == 2 and v.dtype.itemsize == 2 and shape[0] > _TABLE and shape[0] % 8 > 0 == shape[1] % 8

    def _even(self, x: Place, y: Place, out: Place) -> tuple[Place, Place, Place]:
        """Return the operands of a product with rows or columns more, where memory goes on with nothing that counts."""
        if len(out.shape) != 2 or out.value.dtype.itemsize != 2:
            return x, y, out
        inner, columns = y.shape
        rows = -(-out.shape[0] // 8) * 8
        if out.shape[0] != rows and x.root in self.ended and x.strides[0] == 2 and x.strides[1] >= 2 * rows:
            if out.root in self.lives.sizes and self._is_table(out.value) and x.offset == out.offset == 0:
                return x._replace(shape=(rows, inner)), y, out._replace(shape=(rows, columns))
        if columns % 8 and y.root in self.tables and y.strides == (2, 2 * inner) and y.offset == out.offset == 0:
            wide = -(-columns // 8) * 8
            if out.root in self.lives.sizes and out.strides[1] == 2 and out.strides[0] >= 2 * wide:
                return x, y._replace(shape=(inner, wide)), out._replace(shape=(out.shape[0], wide))
        if inner % 8 and y.root in self.tables and y.strides == (2 * columns, 2) and y.offset == x.offset == 0:
            wide = -(-inner // 8) * 8
            if x.root in self.ended and x.strides[1] == 2 and x.strides[0] >= 2 * wide:
                return x._replace(shape=(x.shape[0], wide)), y._replace(shape=(wide, columns)), out
        return x, y, out

    # --- writing ---

    def _write(self) -> None:
        self.late_host: set[Value] = set()  # what the CPU computes from results of the device
        self.products: dict[Value, Multiply] = {}
        self.joined: set[int] = set()  # lines whose work is done where their operands are made
        self.tables: set[Value] = set()  # matrices with some more rows, of zeros
        self.ended: set[Value] = set()  # matrices whose rows end with zeros
        self.called: set[Value] = set()  # what libraries return, wherever they like
        self.over: set[Value] = set()  # results of kernels that take the place of an input
        self._declare_inputs()
        self._find_carriers()
        self._plan_writes()
        for unit in self.fusion.units:
            if isinstance(unit, Region):
                if unit.outputs:
                    self._write_region(unit)
            elif unit.op is not WRITE:
                self._write_line(unit)
        self._write_writes()
        self._write_results()

    def _find_carriers(self) -> None:
        """Find values that leave the program in another shape: their memory is the result's."""
        self.carriers: set[Value] = set()
        taken: set[Value] = set()
        for v in self.results:
            root = v
            while root in self.fusion.views and self.fusion.views[root].op.name in _VIEWING:
                root = self.fusion.views[root].operands[0]
            alone = root not in taken and root not in self.results and root.kind == "result"
            if root is not v and alone and root not in self.fusion.views and root.nbytes == v.nbytes:
                self.carriers.add(root)
                taken.add(root)

    def _plan_writes(self) -> None:
        """Find writes whose new value a kernel may put straight into the memory that is written."""
        self.direct: dict[Value, Value] = {}
        self.order = order = {id(u): i for i, u in enumerate(self.fusion.units)}
        self.users: dict[Value, list[Any]] = {}
        for unit in self.fusion.units:
            for v in unit.inputs() if isinstance(unit, Region) else unit.inputs:
                self.users.setdefault(v, []).append(unit)
        self.looks: dict[Value, list[Value]] = {}
        for v, line in self.fusion.views.items():
            self.looks.setdefault(line.operands[0], []).append(v)
        if self.guarded:
            return  # until the last guard has held, nothing may be written
        users, looks = self.users, self.looks
        for line in self.writes:
            target, value = line.operands
            at = self.fusion.at.get(value, -1)
            home = self.fusion.units[at] if at >= 0 and value not in self.fusion.views else None
            if not isinstance(home, Region) or value in self.direct or value in home.late or value in self.results:
                continue
            if (value.shape, value.dtype) != (target.shape, target.dtype) or value.shape != home.space:
                continue
            if home.split is None and value in home.outputs and self._is_last(target, home, users, looks, order):
                self.direct[value] = target

    def _is_last(self, target: Value, home: Region, users: Any, looks: Any, order: Any) -> bool:
        """Return whether nothing reads an input later than a region, or through a view there."""
        if target.strides != row_major(target.shape, target.dtype.itemsize):
            return False
        return self._dies_in(target, home, users, looks, order)

    def _dies_in(self, target: Value, home: Region, users: Any, looks: Any, order: Any) -> bool:
        """Return whether nothing reads a value later than a region, or through a view there."""
        stack, root = [target], target
        while stack:
            v = stack.pop()
            if v in self.results and v is not root:
                return False
            for unit in users.get(v, ()):
                if unit is home:
                    if v is not root:
                        return False
                elif isinstance(unit, Line) and unit.op is WRITE and unit.operands[1] is not v:
                    continue
                elif order[id(unit)] > order[id(home)]:
                    return False
            stack += looks.get(v, ())
        return True

    def _adds_bias(self, region: Region) -> bool:
        """Let a product add a bias where a region does nothing else; return whether it does."""
        *before, line = region.lines
        x = next((o for o in line.inputs if self._product_of(o) is not None), None)
        out, others = line.outputs[0], [o for o in line.inputs if o is not x]
        if line.op.name != "add" or x is None or len(others) != 1 or region.outputs != [out] or out in self.direct:
            return False
        bias = others[0]
        if before:
            if len(before) > 1 or before[0].outputs[0] is not bias or before[0].op.name != "cast":
                return False
            bias = before[0].operands[0]
        step: Any = self._product_of(x)
        columns = step.out.shape[-1]
        if len(step.out.shape) != 2 or bias.shape != (columns,) or x.dtype != out.dtype or x.nbytes < _BIASED:
            return False
        if step.y.strides != (out.dtype.itemsize, step.x.shape[1] * out.dtype.itemsize) or columns % 8:
            return False
        if before:
            small = self.graph.value(Form(bias.shape, out.dtype, out.device))
            rounded = Region(small.shape, 0, out.device)
            rounded.add(Line(before[0].op, (bias,), before[0].params, (small,)))
            rounded.outputs = [small]
            at = self.steps.index(step)
            later, self.steps[at:] = self.steps[at:], []
            self._write_region(rounded)
            self.steps += later
            bias = small
        place = self._buffer(out)
        step.bias = self.place(bias)
        step.out = Place(out, place.root, place.offset, step.out.shape, row_major(step.out.shape, out.dtype.itemsize))
        return True

    def _product_of(self, v: Value) -> Any:
        """Return the matrix multiplication whose only use is a value, perhaps in another shape."""
        seen: list[Value] = [v]
        while seen[-1] in self.fusion.views and self.fusion.views[seen[-1]].op.name in _VIEWING:
            seen.append(self.fusion.views[seen[-1]].operands[0])
        step = self.products.get(seen[-1])
        alone = all(len(self.fusion.readers.get(x, ())) == (x is v) for x in seen) and not self.results & set(seen)
        looks = [line for line in self.fusion.views.values() if line.operands[0] in seen]
        return step if step is not None and alone and len(looks) == len(seen) - 1 else None

    def _write_region(self, region: Region) -> None:
        if len(region.lines) < 3 and self._adds_bias(region):
            return
        for v in region.inputs():
            self.place(v)
        self._write_over(region)
        for v in region.outputs:
            self._buffer(v)
        stand_for = {v: self.direct[v] for v in region.outputs if v in self.direct}
        # Kernels stay with the program's steps; a function of the program itself would make a cycle.
        places, misaligned = self.places, self.misaligned
        kernel = Kernel(region, self.strides.__getitem__, lambda v: _is_aligned_place(places[v], misaligned), stand_for)
        parts = []
        for v, columns in kernel.late:
            part = self.graph.value(Form((kernel.parts * columns,), v.dtype, v.device))
            parts.append(self._new_buffer(part, (v.dtype.itemsize,)))
        given = [self.place(v) for v in kernel.values]
        text = ", ".join(dict.fromkeys(m.op.name for m in region.lines))
        self.steps.append(Launch(self.sources.name(kernel.source), kernel, given, parts, text))
        if kernel.ends_with_zeros:
            self.ended.update(region.outputs, [self.places[v].root for v in region.outputs if v in self.over])
        for v in region.outputs:
            if v in self.lives.sizes and self._is_table(v):
                more = self.graph.value(Form((-v.shape[0] % 8, v.shape[1]), v.dtype, v.device))
                self.steps.append(Fill(Place(more, v, v.nbytes, more.shape, self.strides[v])))
                self.tables.add(v)
        if kernel.late:
            lines, outs = [region.made[v] for v, _ in kernel.late], [self.place(v) for v, _ in kernel.late]
            self.steps.append(Join(self.sources, lines, parts, outs, kernel.parts, kernel.late[0][1]))

    def _write_over(self, region: Region) -> None:
        """Let large results take the place of inputs that nothing reads later: each element is read, then written."""
        free = [x for x in region.inputs() if self._is_replaceable(x, region)]
        for v in region.outputs:
            if v in self.places or v in self.direct or v in self.results or v in self.carriers or self._is_table(v):
                continue
            like = (v.shape, v.dtype, self._padded(v, row_major(v.shape, v.dtype.itemsize)))
            x = next((x for x in free if (x.shape, x.dtype, self.strides[x]) == like), None)
            if x is not None and self._is_written_last(v, region):
                free.remove(x)
                self.direct[v] = x
                self.over.add(v)

    def _is_replaceable(self, x: Value, region: Region) -> bool:
        if x.nbytes < sizes.IN_PLACE or x not in self.lives.sizes or x.shape != region.space or x in self.results:
            return False
        place = self.places[x]
        whole = place.root is x and place.offset == 0 and x not in self.fusion.views
        return whole and self._dies_in(x, region, self.users, self.looks, self.order)

    def _is_written_last(self, v: Value, region: Region) -> bool:
        """Return whether a kernel writes a value in its last pass over a row, when it has read all it wants to."""
        if v in region.late:
            return False
        if region.split is None:
            return True
        phases = Phases(region)
        return not region.late and not phases.is_row[v] and phases.of[v] == phases.count - 1

    def _write_line(self, line: Line) -> None:
        if line.op is GUARD:
            self.steps.append(Ask(Guard(line), self._anywhere(line.operands[0])))
            return
        if id(line) in self.joined or (line.op.name == "flash_backward" and self._joins_heads(line)):
            return
        name, out = line.op.name, line.outputs[0]
        if self._is_sent(line):
            sent = self.place(line.operands[0])
            self.strides[out] = sent.strides
            self.places[out] = Place(out, sent.root, sent.offset, out.shape, sent.strides)
            return
        if not isinstance(line.op, Step):
            if name in ("mm", "bmm") and _multiplies(line):
                x, y = (self.place(o) for o in line.operands)
                self.steps.append(Multiply(*self._even(x, y, self._buffer(out))))
                self.products[out] = self.steps[-1]
                return
            if name == "assemble" and self._assembles(line):
                return
            if name in ("embedding", "unembedding") and self._looks_up(line):
                return
        self._write_call(line)

    def _anywhere(self, v: Value) -> Any:
        """Return a place, or the value itself if it is on the CPU."""
        return v if v.device == "cpu" else self.place(v)

    def _is_sent(self, line: Line) -> bool:
        return _is_way(line) and line.operands[0] not in self.late_host

    def _write_call(self, line: Line) -> None:
        """Write a call of the op's own kernel."""
        operands = [self._anywhere(o) if isinstance(o, Value) else o for o in line.operands]
        outputs: list[Any] = []
        for v in line.outputs:
            if v.device == "cpu":
                self.late_host.add(v)
                outputs.append(v)
                continue
            outputs.append(self._root(v, v.strides))
            self.called.add(v)
            for o in operands:
                if isinstance(o, Place) and o.root is not None:
                    self.lives.holds(v, o.root)
        call = line.op.function if isinstance(line.op, Step) else Eager(line)
        self.steps.append(Call(line, operands, outputs, call))

    def _assembles(self, line: Line) -> bool:
        """Write pieces into the places of a buffer, which is zero elsewhere."""
        out, (shape, indexes) = line.outputs[0], line.params
        if out.dtype.name not in _COPIED or any(o.dtype != out.dtype for o in line.operands):
            return False
        pieces = [self.place(o) for o in line.operands]
        place = self._buffer(out)
        if sum(o.size for o in line.operands) < math.prod(shape):
            self.steps.append(Fill(place))
        sample = self._sample(out)
        for index, piece, v in zip(indexes, pieces, line.operands, strict=True):
            there = sample[index]
            offset = _address(there) - _address(sample)
            target = Place(out, place.root, place.offset + offset, there.shape, there.strides)
            if there.shape != v.shape:
                piece = Place(v, piece.root, piece.offset, there.shape, self._sample(v).reshape(there.shape).strides)
            self._copy(piece, target, self.graph.value(Form(there.shape, v.dtype, v.device)))
        return True

    def _joins_heads(self, line: Line) -> bool:
        """Let the gradients of attention be written where they are joined: side by side, for one product."""
        if line.operands[4] is not None or line.params[2] != 1:  # a mask, or weights that are dropped
            return False
        found = [self._piece_of(v) for v in line.outputs]
        if None in found or len({id(joint) for joint, _ in found}) > 1:  # type: ignore[misc]
            return False
        joint: Line = found[0][0]  # type: ignore[index]
        if len(joint.operands) != len(found) or sum(o.size for o in joint.operands) != joint.outputs[0].size:
            return False
        operands = [self.place(o) if isinstance(o, Value) else o for o in line.operands]
        place = self._buffer(joint.outputs[0])
        sample, outputs = self._sample(joint.outputs[0]), []
        for v, (_, index) in zip(line.outputs, found, strict=True):  # type: ignore[misc]
            batch, heads, length, width = v.shape
            there = sample[index].reshape(batch, length, heads, width).swapaxes(1, 2)
            offset = place.offset + _address(there) - _address(sample)
            outputs.append(Place(v, place.root, offset, v.shape, there.strides))
        self.steps.append(Attend(line, operands, outputs, None))
        self.joined.add(id(joint))
        return True

    def _piece_of(self, v: Value) -> tuple[Line, Any] | None:
        """Return the line that joins heads, as (batch, length, heads * width), and where; None if that is not all."""
        turned = [o for o, m in self.fusion.views.items() if m.operands[0] is v]
        if len(turned) != 1 or len(v.shape) != 4 or v in self.results or v in self.fusion.readers:
            return None
        line = self.fusion.views[turned[0]]
        flat = [o for o, m in self.fusion.views.items() if m.operands[0] is turned[0]]
        batch, heads, length, width = v.shape
        if line.op.name != "transpose" or sorted(line.params) != [1, 2] or turned[0] in self.fusion.readers:
            return None
        if len(flat) != 1:
            return None
        readers = list(self.fusion.readers.get(flat[0], {}).values())
        if flat[0].shape != (batch, length, heads * width) or len(readers) != 1 or flat[0] in self.results:
            return None
        joint = readers[0]
        if not isinstance(joint, Line) or joint.op.name != "assemble" or joint.outputs[0].dtype != v.dtype:
            return None
        index = joint.params[1][joint.operands.index(flat[0])]
        return joint, index

    def _looks_up(self, line: Line) -> bool:
        """Write the kernel of a table that is looked up by numbers, or of its gradient."""
        from .tables import table_kernel

        places = {o: self._in_order(o) for o in line.operands if isinstance(o, Value)}
        kernel = table_kernel(line, places.__getitem__)
        if kernel is None:
            return False
        operands = [places[o] for o in line.operands]
        place = self._buffer(line.outputs[0])
        if line.op.name == "unembedding":
            self.steps.append(Fill(place))
        self.steps.append(Launch(self.sources.name(kernel.source), kernel, [*operands, place], [], line.op.name))
        return True

    def _in_order(self, v: Value) -> Place:
        """Return the place of a value in row-major order, copied if it has another layout."""
        place = self.place(v)
        if place.strides == row_major(v.shape, v.dtype.itemsize) or v.dtype.name not in _COPIED:
            return place
        fresh = self.graph.value(Form(v.shape, v.dtype, v.device))
        self._new_buffer(fresh, row_major(v.shape, v.dtype.itemsize))
        self._copy(place, self.places[fresh], v)
        return self.places[fresh]

    def _write_writes(self) -> None:
        writes = [line.operands for line in self.writes]
        pairs = [(t, v) for t, v in writes if t.device != "cpu" and self.direct.get(v) is not t]
        targets = {t for t, _ in pairs}
        found = []
        for target, value in pairs:
            place = self.place(value)
            if place.root in targets and (place.root is not target or value is not target):
                fresh = self.graph.value(Form(value.shape, value.dtype, value.device))
                self._new_buffer(fresh, row_major(value.shape, value.dtype.itemsize))
                self._copy(place, self.places[fresh], value)
                place = self.place(fresh)
            found.append((place, self.place(target)))
        for place, target in found:
            self._copy(place, target, target.value)
        # The CPU may write only after the guards have held.
        self.host_writes = [(t, v) for t, v in writes if t.device == "cpu" and (self.guarded or v in self.late_host)]

    def _write_results(self) -> None:
        """Give everything that leaves the program memory of its own."""
        graph = self.graph
        owners = {*graph.arguments, *(r.value for r in graph.outside)}
        self.left = [v for v in self.results if v not in owners]
        self.made: list[Any] = []
        constants = set(graph.inputs) - owners
        for v in self.left:
            if v.device == "cpu":
                self.made.append(v)
                continue
            place = self.place(v)
            mine = place.root is v or (place.root in self.carriers and _is_dense(place) and place.root not in self.made)
            if not mine or place.root in self.called or v in constants:
                fresh = self.graph.value(Form(v.shape, v.dtype, v.device))
                self._root(fresh, row_major(v.shape, v.dtype.itemsize))
                self._copy(place, self.places[fresh], v)
                place = self.places[fresh]
            self.made.append(place.root)

    # --- running ---

    def bind(self) -> None:
        """Look up the outside tensors' arrays."""
        bound = []
        for reference in self.graph.outside:
            if reference.value.device == "cpu":
                continue
            tensor, array = reference.bound()
            if array.data.ptr % 16 and reference.value not in self.misaligned:
                raise GuardFailure("a tensor outside began at a multiple of 16 bytes")
            bound.append((reference, tensor, array))
        self.bound = bound
        if self.player is None:
            import cupy  # there are tensors on a GPU

            place = next(v.device for line in self.graph.lines for v in line.outputs if v.device != "cpu")
            with cupy.cuda.Device(int(place.partition(":")[2] or 0)):
                self.player = Player(self)
        self.player.bind({reference.value: array for reference, _, array in bound})
        self.run = self.player

    def is_bound(self) -> bool:
        """Return whether the outside tensors still hold the arrays that the program works on."""
        for reference, tensor, array in self.bound:
            if reference.attribute and reference.tensor._grad is not tensor:
                return False
            if tensor.array is not array:
                return False
        return True

    def code(self) -> str:
        """Return what is launched and called, in order, and the kernels."""
        head = f"# {self.arena} bytes of memory for {len(self.lives.offsets)} buffers"
        host = "" if self.host.idle else f"# on the host\n{self.host.program.code()}\n"
        return "\n".join([host, head, *map(str, self.steps), "", *self.sources.texts()])

    @property
    def body(self) -> list[Any]:
        """What is launched and called."""
        return self.steps


_COPIED = frozenset(("float32", "float64", "float16", "bfloat16", "bool", "int64", "int32", "int16", "int8", "uint8"))


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0])


def _is_dense(place: Place) -> bool:
    return place.offset == 0 and place.strides == row_major(place.shape, place.value.dtype.itemsize)


def _is_aligned_place(place: Place, misaligned: set[Value]) -> bool:
    return place.offset % 16 == 0 and place.root not in misaligned


def _is_misaligned(reference: Any) -> bool:
    return reference.value.device != "cpu" and reference.current.array.data.ptr % 16 != 0


def _is_way(line: Line) -> bool:
    """Return whether a line only copies a value from the CPU to the device."""
    if not line.is_call or line.op.name not in ("place", "move"):
        return False
    x, out = line.operands[0], line.outputs[0]
    return isinstance(x, Value) and x.device == "cpu" != out.device and x.dtype == out.dtype and x.shape == out.shape


def _asks(line: Line) -> bool:
    """Return whether a line of the device's part reads values of the CPU's part in place."""
    if line.op is WRITE:
        return line.operands[0].device == "cpu"
    return not _is_way(line) and not is_elementwise(line) and not is_reduction(line) and line.op is not DRAW


def _multiplies(line: Line) -> bool:
    x, y = line.operands
    out = line.outputs[0]
    if not isinstance(x, Value) or not isinstance(y, Value) or not x.dtype == y.dtype == out.dtype:
        return False
    return is_floating(out) and x.size > 0 and y.size > 0 and len(x.shape) == len(y.shape) == len(out.shape)
