"""A graph as a program that runs: buffers, library calls and fused loops in a straight line of Python.

Everything that can be settled once is: intermediate results have buffers of their own, which calls write into;
views of them are made once; what remains is source that a person can read (`Program.code`), one line per call.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.interrupts import mark
from ..core.tensor import ledger_of, note_write, storage_of
from ..devices import forks
from ..devices.contract import by_name
from ..devices.cpu import threads
from ..devices.cpu.products import LARGE, dot_into
from ..devices.cpu.sizes import ARGUMENT as _SMALL_BYTES
from ..devices.cpu.sizes import THREAD_PROGRAM as THREADED
from ..ops.bounds import check_rows
from .buffers import COPIED, WRITING, Buffers, Native, dense_as, is_dense, literal, row_major
from .calls import Product
from .decomposition import decompose
from .eager import Eager, Guard, all_in_order, own
from .expressions import FLOATS, is_elementwise, name_of
from .fusion import Fusion, Region
from .graph import GUARD, WRITE, Graph, Line, Step, Value, held
from .loops import SCATTERING, Kind, Nest, combining_text, function_text
from .memory import shared_blocks
from .simplification import simplify

_VIEWED = 3  # views of an argument, from which on it is copied to a place of its own, if it is small
_ALIKE = 4  # regions with the same ops, from which on each is a call of its own, of one function


def has_written(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let signals wait for `function` from where `program`, which it runs, has begun to write."""
    return mark(function, lambda frame: getattr(frame.f_locals.get("program"), "writing", (False,))[0])


class Program(Buffers):
    """Compiled form of a graph; call it with the arrays of the arguments."""

    def __init__(self, graph: Graph, kernels: Any) -> None:
        graph = graph.copy()
        self.before = len(graph.lines)
        decompose(graph)
        simplify(graph)
        super().__init__(graph, Fusion(graph), kernels)
        self.functions: tuple[Callable[..., Any], Callable[..., Any]] | None = None
        self.holds = False  # whether signals wait from here on
        self.sources: list[str] = []
        self.forms: dict[Any, Any] = {}  # texts of loops, by what they depend on
        self.guarded = any(line.op is GUARD for line in graph.lines)
        self.lock = forks.lock()
        self._write()
        self.samples.clear()
        # The block of memory for each buffer, and the sizes of the blocks.
        spans = [(v, self.spans[v][0], self.spans[v][1]) for _, v in self.buffers]
        self.places, self.blocks = shared_blocks(spans)

    # --- writing the program ---

    def _write(self) -> None:
        graph = self.graph
        for v in graph.arguments:
            self._declare_argument(v)
        for reference in graph.outside:
            self._declare(reference.value, f"w{reference.value.number}", reference.value.strides, True)
        for v in graph.constants:
            self._declare(v, f"c{v.number}", v.strides, True)
            self.env[self.names[v]] = v.array
        self._plan_writes()
        pending: list[Region] = []
        for unit in self.fusion.units:
            if isinstance(unit, Region):
                if self.kernels is not None and unit.size < THREADED:
                    if any(self._waits(v, pending) and self._must_copy(v) for v in unit.inputs()):
                        self._flush(pending)
                    pending.append(unit)
                    continue
                self._flush(pending)
                self._emit_region(unit)
            elif unit.op is WRITE:
                continue
            else:
                if any(self._waits(v, pending) for v in unit.inputs) or unit.op is GUARD:
                    self._flush(pending)
                self._emit_line(unit)
        self._flush(pending)
        self._emit_writes()
        self._finish()

    def _declare_argument(self, v: Value) -> None:
        """Name an argument; a small one with many views is copied, so that these are made once."""
        self.early.add(v)
        views = sum(line.operands[0] is v for line in self.fusion.views.values())
        written = any(line.op is WRITE and line.operands[0] is v for line in self.graph.lines)
        if views < _VIEWED or v.nbytes > _SMALL_BYTES or written or self.kernels is None:
            self._declare(v, f"a{v.number}", v.strides, False)
            return
        name = self._declare(v, f"b{v.number}", row_major(v.shape, v.dtype.itemsize), True)
        self.buffers.append((name, v))
        self.first.append(f"{name}[...] = a{v.number}")

    def _waits(self, v: Value, pending: list[Region]) -> bool:
        """Return whether a value, or what it is a view of, is made by loops not written yet."""
        while v in self.fusion.views:
            v = self.fusion.views[v].operands[0]
        return any(v in region.made for region in pending)

    def _must_copy(self, v: Value) -> bool:
        """Return whether a look at a value that loops will make is no view, but a copy of its elements."""
        chain = []
        while v in self.fusion.views:
            chain.append(self.fusion.views[v])
            v = chain[-1].operands[0]
        seen = root = np.empty(v.shape, v.dtype)
        for line in reversed(chain):
            seen = np.asarray(line.op.kernel(seen, *line.params))
        return not np.may_share_memory(seen, root)

    def _plan_writes(self) -> None:
        """Find writes whose new value a loop may put straight into the memory that is written."""
        self.writes = [line for line in self.graph.lines if line.op is WRITE]
        if self.guarded:
            return  # until the last guard has held, nothing may be written
        users: dict[Value, list[Any]] = {}
        for unit in self.fusion.units:
            lines = unit.lines if isinstance(unit, Region) else [unit]
            for v in {v for m in lines for v in m.inputs}:
                users.setdefault(v, []).append(unit)
        views_of: dict[Value, list[Value]] = {}
        for v, line in self.fusion.views.items():
            views_of.setdefault(line.operands[0], []).append(v)
        for line in self.writes:
            target, value = line.operands
            home = (
                self.fusion.units[at] if (at := self.fusion.at[value]) >= 0 and value not in self.fusion.views else None
            )
            if not isinstance(home, Region) or value in self.direct or value in home.late or value in self.results:
                continue
            if value.shape != target.shape or value.dtype != target.dtype or value.shape != home.space:
                continue
            if self.kernels is None and not _writes_itself(home, value, target):
                continue
            if is_dense(target) and self._last_use(target, home, users, views_of):
                self.direct[value] = target

    def _last_use(self, target: Value, home: Region, users: Any, views_of: Any) -> bool:
        """Return whether nothing reads an input later than a region, or through a view there."""
        stack, seen = [target], False
        while stack:
            v = stack.pop()
            if v in self.results:
                return False
            for unit in users.get(v, ()):
                if unit is home:
                    seen = seen or v is not target
                elif isinstance(unit, Line) and unit.op is WRITE and v is target:
                    continue
                elif self.fusion.units.index(unit) > home.position:
                    return False
            stack += views_of.get(v, ())
        rows = home.split is None  # with several passes over a row, a later one would read what was written
        return not seen and rows

    # --- lines that are library calls ---

    def _emit_line(self, line: Line) -> None:
        if line.op is GUARD:
            check = self._object(Guard(line), "guard")
            self.body.append(f"{check}({self._array(line.operands[0])})")
            return
        operands = [
            self._array(o) if isinstance(o, Value) else literal(o) or self._object(o, "p") for o in line.operands
        ]
        for v in line.inputs:  # again: copies of others may have been written since
            self._touch(v)
        note = f"  # {line.op.name}"
        out = line.outputs[0]
        if not isinstance(line.op, Step) and line.op.name in ("mm", "bmm") and _multiplies(line):
            name = self._buffer(out)
            if not self._emit_product(line):
                multiplied = _product_of(line)
                self.body.append(f"{self._object(multiplied, 'matmul')}({operands[0]}, {operands[1]}, {name}){note}")
            return
        if _is_plain_ufunc(line):
            name = self._buffer(out)
            call = self._object(line.op.kernel, line.op.name)
            target = f"out={name}" if line.op.kernel in _BY_NAME else name
            self.body.append(f"{call}({', '.join((*self._constants(line, operands), target))})")
            return
        if line.op.name == "assemble" and out.dtype == line.operands[0].dtype:
            self._emit_assembly(line, operands)
            return
        if line.op.name == "unembedding" and self._emit_scatter(line):
            return
        if isinstance(line.op, Step):
            call = self._object(line.op.function, line.op.name.replace(".", "_"))
        else:
            call = self._object(Eager(line), line.op.name)
        for v in line.outputs:
            self.holders[v] = line.inputs
        if self._only_reshapes(line):
            self._copied(out, line.operands[0])
            return
        made = [self._declare(v, f"r{v.number}", row_major(v.shape, v.dtype.itemsize), False) for v in line.outputs]
        text = f"{call}({', '.join((*operands, *self._params(line)))})"
        if line.op.outputs:
            self.body.append(f"{', '.join(made)}, = {self._object(all_in_order, 'in_order')}({text}){note}")
        else:
            if is_elementwise(line) and np.broadcast_shapes(*(v.shape for v in line.inputs)) != out.shape:
                text = f"np.broadcast_to({text}, {out.shape})"  # operands stand as they were before they were repeated
            self.body.append(f"{made[0]} = np.asarray({text}, order='C'){note}")

    def _emit_scatter(self, line: Line) -> bool:
        """Write a loop that adds rows to those of a table that numbers name; return whether it does."""
        (g, numbers), out, (rows, padding, by_frequency) = line.operands, line.outputs[0], line.params
        if self.kernels is None or padding >= 0 or by_frequency or not isinstance(numbers, Value):
            return False
        if g.dtype not in FLOATS or g.dtype != out.dtype or numbers.dtype.name not in ("int32", "int64") or not g.size:
            return False
        samples = [self._sample(v) for v in (g, numbers)]
        shapes: list[tuple[int, ...]] = [(numbers.size, g.size // numbers.size), (numbers.size,)]
        shapes.append((rows, shapes[0][1]))
        if not all(np.may_share_memory(a, a.reshape(shape)) for a, shape in zip(samples, shapes)):
            return False
        self._buffer(out)
        self.body.append(f"{self._object(check_rows, 'check_rows')}({self.names[numbers]}, {rows})")
        given = list(zip((g, numbers, out), shapes, strict=True))
        operands = [(self._shaped(v, shape), v in self.fixed) for v, shape in given]
        kernel = self._object(self.kernels.loop(SCATTERING, self._kinds(given)), "scatter")
        self._append_native(Native(kernel, operands), "run", True)
        return True

    def _emit_product(self, line: Line) -> bool:
        """Write a product of small matrices as a call of BLAS; return whether it is one."""
        values = (*line.operands, line.outputs[0])
        if self.kernels is None or any(len(v.shape) != 2 for v in values):
            return False
        item = values[0].dtype.itemsize
        words = Product.words_for([v.shape for v in values], [self.strides[v] for v in values], item)
        product = None if words is None else self.kernels.product(values[0].dtype, words)
        if product is None:
            return False
        operands = [(self.names[v], v in self.fixed) for v in values]
        self.body.append(Native(self._object(product, "product"), operands))
        return True

    def _emit_assembly(self, line: Line, operands: list[str]) -> None:
        """Write pieces into the places of a buffer, which is zero elsewhere."""
        out, (shape, indexes) = line.outputs[0], line.params
        name = self._buffer(out)
        if sum(o.size for o in line.operands) < math.prod(shape):
            self.body.append(f"{name}[...] = 0")
        for i, (index, piece, v) in enumerate(zip(indexes, operands, line.operands, strict=True)):
            if self.kernels is None or out not in self.fixed or v.dtype not in COPIED or not v.shape:
                self.body.append(f"{name}[{self._object(index, 'at')}] = {piece}  # assemble")
                continue
            part = f"{name}_{i}"
            self.prelude[part] = f"{name}[{self._object(index, 'at')}]"
            there = self._sample(out)[index]
            self._copy((piece, v in self.fixed), self._sample(v).reshape(there.shape), (part, True), there)

    def _constants(self, line: Line, operands: list[str]) -> list[str]:
        """Return operands with numbers as arrays of the dtype that the line computes in."""
        dtype = next(o.dtype for o in line.operands if isinstance(o, Value))
        return [
            text if isinstance(o, Value) else self._object(np.array(o, dtype), "c")
            for o, text in zip(line.operands, operands, strict=True)
        ]

    # --- fused loops ---

    def _flush(self, pending: list[Region]) -> None:
        """Write the regions that wait as one function."""
        regions, pending[:] = list(pending), []
        kinds = [(len(region.space), *(name_of(line) for line in region.lines)) for region in regions]
        waiting: list[Region] = []
        for region, kind in zip(regions, kinds, strict=True):
            if kinds.count(kind) >= _ALIKE and not self._must_follow(region, waiting):
                self._emit_kernel([region], False)
            else:
                waiting.append(region)
        if waiting:
            self._emit_kernel(waiting, False)

    def _must_follow(self, region: Region, others: list[Region]) -> bool:
        """Return whether a region reads what others make, or writes what they read."""
        made = {v for other in others for v in other.made}
        read = {self._root(v) for other in others for v in other.inputs()}
        return any(self._root(v) in made for v in region.inputs()) or any(
            self.direct.get(v) in read for v in region.made
        )

    def _emit_region(self, region: Region) -> None:
        if self.kernels is None:
            self._note_direct([region])
            self._emit_without_loops(region)
        else:
            self._emit_kernel([region], True)

    def _note_direct(self, regions: list[Region]) -> None:
        """From the first write to memory that outlives the run, an interrupt waits for the last."""
        if not self.holds and any(v in self.direct for region in regions for v in region.made):
            self.holds = True
            self.body.append(WRITING)

    def _emit_kernel(self, regions: list[Region], threaded: bool) -> None:
        self._note_direct(regions)
        for i, region in enumerate(regions):
            for v in (*region.inputs(), *region.outputs):
                if v in region.made:
                    self._buffer(v)
                elif not any(v in other.made for other in regions[:i]):
                    self._array(v)
            made = {v for other in regions[:i] for v in other.made}
            for v in region.inputs():
                if v in made and v not in self.names:
                    self._buffer(v)
        form, values = self._form(regions[0], threaded) if len(regions) == 1 else (None, [])
        if form is not None and form in self.forms:
            source, places, sizes = self.forms[form]
            given = [(values[i], shape) for i, shape in places]
        else:
            source, given, sizes, scratch = self._loops(regions, threaded)
            number = {v: i for i, v in enumerate(values)}
            if form is not None and not scratch and all(v in number for v, _ in given):
                self.forms[form] = source, [(number[v], shape) for v, shape in given], sizes
        self.sources.append(source)
        operands = [(self._shaped(v, shape), v in self.fixed) for v, shape in given]
        kernel = self._object(self.kernels.loop(source, self._kinds(given)), "loop")
        if threaded:
            self._share(kernel, operands, given, sizes, regions[0])
        else:
            self.body.append(Native(kernel, operands))

    def _form(self, region: Region, threaded: bool) -> tuple[Any, list[Value]]:
        """Return what the text of a region depends on, and its values in order; an optimizer's regions are alike."""
        numbers: dict[Value, int] = {}
        lines = []
        for line in region.lines:
            given = [
                numbers.setdefault(o, len(numbers)) if isinstance(o, Value) else repr(o) for o in line.operands
            ]  # fmt: skip
            made = [numbers.setdefault(v, len(numbers)) for v in line.outputs]
            lines.append((line.op, repr(line.params), *given, *made))
        written = [numbers.setdefault(self.direct[v], len(numbers)) if v in self.direct else -1 for v in [*numbers]]
        values = list(numbers)
        if any(self._whole(v) is not None for v in region.inputs()):
            return None, values
        outputs, late = set(region.outputs), region.late
        looks = [(v.shape, v.dtype, self.strides.get(v), v in outputs, v in late) for v in values]
        return (threaded, region.space, region.split, *lines, *written, *looks), values

    def _loops(self, regions: list[Region], threaded: bool) -> tuple[str, list[Any], list[int], bool]:
        """Return the text of loops, the arrays that they take, their sizes, and whether they use scratch memory."""
        arrays: dict[Any, str] = {}
        given: list[tuple[Value, tuple[int, ...]]] = []

        def named(v: Value, shape: tuple[int, ...]) -> str:
            v = self.direct.get(v, v)  # an array under two names would prevent vectorising by LLVM
            if (v, shape) not in arrays:
                arrays[v, shape] = f"x{len(arrays)}"
                given.append((v, shape))
            return arrays[v, shape]

        nests = []
        for i, region in enumerate(regions):
            tag = "abcdefghijklmnop"[i % 16] + str(i // 16 or "")
            nests.append(Nest(region, self.strides, named, threaded, tag, self._whole))
            for v in nests[-1].scratch:
                self._buffer(v)
        source = function_text(nests, list(arrays.values()), threaded)
        return source, given, nests[0].sizes, any(nest.scratch for nest in nests)

    def _whole(self, v: Value) -> tuple[Value, tuple[int, ...]] | None:
        """Return the contiguous array that a value is a part of, and where: loops over such arrays are vectorised."""
        line = self.fusion.views.get(v)
        if line is None or line.op.name != "slice" or not v.size or dense_as(v, self.strides[v]):
            return None
        parent, (index,) = line.operands[0], line.params
        index = tuple(i for i in index if i is not ...)
        if parent in self.fusion.views or not dense_as(parent, self.strides[parent]):
            return None
        if len(parent.shape) != len(v.shape) or any(type(i) is not slice or i.step not in (None, 1) for i in index):
            return None
        starts = [i.indices(n)[0] for i, n in zip(index, parent.shape)]
        return parent, (*starts, *(0,) * (len(parent.shape) - len(starts)))

    def _share(
        self, kernel: str, operands: list[tuple[str, bool]], given: list[Any], sizes: list[int], region: Region
    ) -> None:
        """Write a call of one nest whose first loop is split among threads; partial reductions are combined last."""
        size = sizes[0] if sizes else 1
        least = max(1, THREADED // 2 // max(math.prod(sizes[1:]), 1))
        late = [i for i, (v, _) in enumerate(given) if v in region.late]
        for i in late:
            v, shape = given[i]
            parts = f"parts_{v.number}"
            kind = self._object(v.dtype, v.dtype.name)
            self.prelude[parts] = f"np.empty((pieces({size}, {least}), {math.prod(shape)}), {kind})"
            self.prelude[f"{parts}_shaped"] = f"{parts}.reshape({(-1, *shape)})"
            operands[i] = f"{parts}_shaped", True
        numbers = ["team", str(size), str(least), repr(tuple(late))]
        self._append_native(Native(f"{kernel}.shared", operands, numbers), "share", self._has_team())
        for i in late:
            v, shape = given[i]
            self._combine(v, shape, name_of(region.made[v]))

    def _combine(self, v: Value, shape: tuple[int, ...], name: str) -> None:
        """Write a call that puts together what threads have reduced, each for itself."""
        flat = (math.prod(shape),)
        kinds = [Kind(v.dtype.name, rank, True, (rank - 1,), rank) for rank in (2, 1)]
        loop = self.kernels.loop(combining_text(name, v.dtype), kinds)
        operands = [(f"parts_{v.number}", True), (self._shaped(v, flat), v in self.fixed)]
        self._append_native(Native(self._object(loop, "combine"), operands), "run", True)

    def _emit_without_loops(self, region: Region) -> None:
        """Write a region as NumPy calls, where there is no compiler for loops."""
        for line in region.lines:
            self._emit_line(line)

    # --- the end ---

    def _emit_writes(self) -> None:
        pairs = [(t, v) for t, v in (line.operands for line in self.writes) if self.direct.get(v) is not t]
        inputs = {t for t, _ in pairs}
        held = []
        for target, value in pairs:
            source = self._array(value)
            root = value
            while root in self.fusion.views:
                root = self.fusion.views[root].operands[0]
            held.append((self._array(target), f"{source}.copy()" if root in inputs else source))
        for _, value in pairs:
            self._touch(value)
        for i, (_, source) in enumerate(held):
            if source.endswith(".copy()"):
                self.body.append(f"h{i} = {source}")
        if held and not self.holds:
            self.body.append(WRITING)
        for i, (target, source) in enumerate(held):
            self.body.append(f"{target}[...] = {f'h{i}' if source.endswith('.copy()') else source}")

    def _finish(self) -> None:
        graph = self.graph
        owners = {*graph.arguments, *(r.value for r in graph.outside)}
        self.left = [v for v in self.results if v not in owners]
        returned, makers = [], graph.makers()
        for v in self.left:
            name = self._array(v)
            mine = v.kind == "result" and v not in self.fixed and name.startswith(("b", "r"))
            if mine and name.startswith("r"):  # a kernel may return what it was given, or a view of it
                seen = [self.names[o] for o in makers[v].inputs if o in self.names]
                returned.append(f"{self._object(own, 'own')}({', '.join((name, *seen))})")
            else:
                returned.append(name if mine else f"{name}.copy()")
        for v in self.left:
            self._touch(v)
        self.body.append(f"return ({', '.join(returned)}{',' if returned else ''})")
        given = ", ".join(f"a{v.number}" for v in graph.arguments)
        if WRITING in self.body:
            self.body.insert(0, "writing[0] = False")
        body = [*self.first, *self._joined(self.body)]
        looks = [f"global {name}; {name} = {text}" for name, text in self.prelude.items()]
        self.source = "\n".join(
            [
                "def look():  # views of what is there once",
                *(f"    {text}" for text in (*looks, "return None")),
                f"\n\ndef program({given}):",
                *(f"    {text}" for text in body),
                "",
            ]
        )

    def code(self) -> str:
        """Return the source: what is made once, the program, and its loops."""
        made = "\n".join(
            f"{name} = np.ndarray({v.shape}, {v.dtype.str!r}, memory_{self.places.get(v, 'new')})"
            for name, v in self.buffers
        )
        return "\n\n".join([f"# made once\n{made}", self.source, *dict.fromkeys(self.sources)])

    # --- running ---

    def bind(self) -> None:
        """Look up the outside tensors' arrays, and make the views of them."""
        env = self.env
        bound = []
        for reference in self.graph.outside:
            bound.append((reference, *reference.bound()))
        self.bound = bound
        self.crowd = threads.count
        env.update({self.names[reference.value]: array for reference, _, array in bound})
        if self.functions is None:
            env.update(self._arrays())
            exec(compile(self.source, "<adjoint program>", "exec"), env)  # noqa: S102 - our own text, made above
            self.functions = env.pop("look"), env.pop("program")  # no cycle: a function holds what it was made in
        look, program = self.functions
        look()
        # A NaN is a value like any other: where NumPy computes, it shall not warn.
        warns = self.kernels is None or any(v is np.matmul or v is np.dot for v in env.values())
        quiet = np.errstate(all="ignore") if warns else None
        self.run: Callable[..., Any] = program if quiet is None else quiet(program)

    def _arrays(self) -> dict[str, Any]:
        """Return an array for each buffer; those that are not in use at the same time may share memory."""
        blocks = [np.empty(size, np.uint8) for size in self.blocks]
        return {name: np.ndarray(v.shape, v.dtype, blocks[self.places[v]]) for name, v in self.buffers}

    def is_bound(self) -> bool:
        """Return whether the outside tensors still hold the arrays that the program works on."""
        if self.crowd != threads.count:
            return False
        for reference, tensor, array in self.bound:
            if reference.attribute == "number":
                now = held(*reference.tensor)
                if array[()] != now:
                    array[...] = now
                continue
            if reference.attribute:
                if reference.tensor._grad is not tensor:
                    return False
            if tensor.array is not array:
                return False
        return True


def program_of(graph: Graph, kernels: Any) -> Any:
    """Return the compiled form of a graph, for the device of its values."""
    name = next((v.device for line in graph.lines for v in line.outputs if v.device != "cpu"), "cpu")
    return by_name[name.partition(":")[0]].program(graph, kernels)


def _multiplies(line: Line) -> bool:
    x, y = line.operands
    out = line.outputs[0]
    return bool(
        isinstance(x, Value) and isinstance(y, Value) and x.dtype == y.dtype == out.dtype and out.dtype.kind == "f"
        and out.dtype.itemsize >= 4
    )  # fmt: skip


_BY_NAME = (np.maximum, np.minimum)  # NumPy wants the target of these by its name: it might be meant as an operand


def _product_of(line: Line) -> Any:
    """Return the function that multiplies matrices into a buffer, in row-major order as all are."""
    x, y = line.operands
    if x.size * line.outputs[0].shape[-1] > LARGE:
        return dot_into
    # `np.matmul` takes eight times as long for (n, 1) @ (1, m); `np.dot` takes a single element for a factor.
    return np.dot if len(x.shape) == 2 == len(y.shape) and x.size > 1 < y.size else np.matmul


def _is_plain_ufunc(line: Line) -> bool:
    """Return whether NumPy's own function computes a line as it is, into a buffer."""
    if isinstance(line.op, Step) or not isinstance(line.op.kernel, np.ufunc) or line.params or len(line.outputs) != 1:
        return False
    dtypes = {o.dtype for o in line.operands if isinstance(o, Value)}
    numbers = all(isinstance(o, Value) or type(o) in (int, float) for o in line.operands)
    out = line.outputs[0]
    return numbers and len(dtypes) == 1 and dtypes.pop().kind == "f" and out.dtype.kind in "fb" and out.device == "cpu"


def _writes_itself(region: Region, value: Value, target: Value) -> bool:
    """Return whether a region that runs line by line may write a value where it belongs: no later line reads there."""
    at = region.lines.index(region.made[value])
    later = {v for line in region.lines[at + 1 :] for v in line.inputs}
    return _is_plain_ufunc(region.lines[at]) and target not in later


def note_writes(tensors: list[Any]) -> None:
    """Record that a program has written tensors, as in-place ops do."""
    first, *others = tensors
    note_write(first, "compiled program")
    done = ledger_of(storage_of(first))
    for t in others:
        ledger = t.memory.ledger if t.memory is not None else None
        if ledger is None or not ledger.version:  # the first write is also registered with the memory
            note_write(t, "compiled program")
        else:
            ledger.version += 1
            ledger.time, ledger.code, ledger.lasti = done.time, done.code, done.lasti
            ledger.operation = done.operation
