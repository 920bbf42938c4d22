"""What a row-wise statement becomes on the CPU: NumPy passes for small arrays, a compiled loop for large ones.

A loop goes from row to row, once over a row's elements for each stage of the statement, and writes in the last one. It
takes rows of contiguous memory and rows of planes (`scalar.rows.Layout`), shared by threads. Sums across rows are taken
by each thread for itself, and then added up. Where nothing can be compiled, or axes lie otherwise, threads run the NumPy
passes on blocks of rows.
"""

from __future__ import annotations

import functools
import math
import threading
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...scalar import loops
from ...scalar.rows import ACROSS, COUNT, ELEMENT, MAX, ROW, WEIGHT, Layout, Passes, Program, Statement, layout_of
from ...scalar.symbol import Symbol, ordered
from . import blas, provider, rows, sizes, threads
from .constants import float32_constants, float64_constants
from .memory import place_of
from .sources import Loops
from .table import override

ndarray = np.ndarray
f32, f64 = np.dtype("float32"), np.dtype("float64")
Results = list[Any]
kernels: dict[Any, Callable[..., Any]] = {}  # by a statement's title; of its gradient, by that and "g"


class Forms:
    """The machine forms of one statement, made when they are first needed."""

    def __init__(self, statement: Statement) -> None:
        self.statement = statement
        self.kinds = statement.kinds
        self._passes: dict[Any, Callable[..., Results]] = {}
        self._loops: dict[Any, tuple[Any, Program]] = {}

    def passes(self, dtype: Any, axes: Any, rank: int, wanted: Any, absent: Any, fixed: Any) -> Callable[..., Results]:
        """Return the statement as NumPy passes: a function of the operands, the elements of a row, weights' shape."""
        key = dtype, axes, rank, wanted, absent, fixed
        found = self._passes.get(key)
        if found is None:
            results = [r for r, w in zip(self.statement.traced(absent, fixed), wanted) if w]
            text = Passes(results, self.kinds, axes, rank)
            found = self._passes[key] = text.function(f"{self.statement.title}_rows", self.statement.operands, dtype)
        return found

    def loop(self, dtype: Any, layout: Layout, wanted: Any, absent: Any, fixed: Any) -> tuple[Any, Program]:
        """Return the statement as machine code, ``part(address of fields, piece, start, stop)``, and its stages."""
        key = dtype, layout.planes > 1, layout.channels > 0, wanted, absent, fixed
        found = self._loops.get(key)
        if found is None:
            results = [r for r, w in zip(self.statement.traced(absent, fixed), wanted) if w]
            program = Program(results, self.kinds, keeps=True)
            text = _source(program, dtype, layout.planes > 1, layout.channels > 0)
            found = self._loops[key] = _loops().load(text), program
        return found

    def plan(
        self, dtype: Any, shape: Any, axes: Any, weights: Any, wanted: Any, absent: Any, fixed: Any
    ) -> Callable[[Sequence[Any]], Results] | None:
        """Return what computes the results of large arrays; None where their layout is none that loops or blocks take."""
        if not _weighs(self.statement, wanted, absent, fixed):
            weights = None
        layout = layout_of(shape, axes, weights)
        dear = dtype is f64 and self.statement.is_dear  # a call of libm costs more than NumPy's, which has vectors
        if layout is not None and not dear and provider.choice.allowed and provider.compiles():
            part, program = self.loop(dtype, layout, wanted, absent, fixed)
            return Plan(self.statement, part, program, layout, dtype, shape, axes, weights).run
        return self._in_blocks(dtype, shape, axes, weights, wanted, absent, fixed)

    def _in_blocks(
        self, dtype: Any, shape: Any, axes: Any, weights: Any, wanted: Any, absent: Any, fixed: Any
    ) -> Callable[[Sequence[Any]], Results] | None:
        """Return what runs NumPy passes on blocks that stay in a core's cache: of last axes, or of one of others."""
        by_rows = axes == tuple(range(len(shape) - len(axes), len(shape)))
        width = math.prod([shape[a] for a in axes])
        if by_rows and weights is not None and math.prod(weights) != width:
            return None
        if not by_rows and (len(axes) > 1 or weights is not None):
            return None
        after = 1 if by_rows else math.prod(shape[axes[0] + 1 :])
        count = math.prod(shape) // (width * after)
        flat, short = ((count, width), (count, 1)) if by_rows else ((count, width, after), (count, 1, after))
        run = self.passes(dtype, (1,), len(flat), wanted, absent, fixed)
        roles = Program([r for r, w in zip(self.statement.traced(absent, fixed), wanted) if w], self.kinds).roles
        names, places, kept = self.statement.operands, self.statement.places, _kept(shape, axes)
        step, number = max(sizes.ROWS_BLOCK // (width * after), 1), _number(width, dtype)
        final = [weights if role == ACROSS else shape if role == ELEMENT else kept for role in roles]
        cut_by_rows = [self.kinds[n] in (ELEMENT, ROW) for n in names]

        def blocks(args: Sequence[Any]) -> Results:
            operands = [self._flat(n, args[places[n]], flat, short, width, dtype) for n in names]
            outs: Results = [
                np.zeros(width, dtype) if role == ACROSS else np.empty(flat if role == ELEMENT else short, dtype)
                for role in roles
            ]
            lock = threading.Lock()

            def part(start: int, stop: int) -> None:
                for i in range(start, stop, step):
                    block = slice(i, min(i + step, stop))
                    cut = [a[block] if c and a is not None else a for a, c in zip(operands, cut_by_rows)]
                    for role, out, found in zip(roles, outs, run(*cut, number, (width,)), strict=True):
                        if role == ACROSS:
                            with lock:
                                out += found
                        else:
                            out[block] = found

            with blas.alone:
                threads.share(part, count, max(sizes.ROWS_THREAD // (width * after), 1))
            return [out.reshape(like) for out, like in zip(outs, final, strict=True)]

        return blocks

    def _flat(self, name: str, value: Any, flat: Any, short: Any, width: int, dtype: Any) -> Any:
        kind = self.kinds[name]
        if value is None:
            return None
        if kind == "number":
            return _number(value, dtype)
        return value.reshape(flat if kind == ELEMENT else short if kind == ROW else (width,))


class _Recent(dict[Any, Any]):
    """Plans by what they are made of; a program with ever new shapes does not fill the memory with them."""

    def __setitem__(self, key: Any, value: Any) -> None:
        if len(self) >= 512:
            self.clear()
        super().__setitem__(key, value)


def _kept(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    return tuple([1 if i in axes else n for i, n in enumerate(shape)])


def _number(value: float, dtype: Any) -> Any:
    return (float32_constants if dtype is f32 else float64_constants)[value]


# --- Calls ------------------------------------------------------------------------------------------


@override.rowwise
def kernel_of(statement: Statement, definition: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel or rule with a statement's arguments that runs its forms on arrays of NumPy."""
    forms = Forms(statement)
    places = statement.places
    arrays = [(n, places[n]) for n in statement.operands if statement.kinds[n] != "number"]
    numbers = [(n, places[n]) for n in statement.operands if statement.kinds[n] == "number"]
    needed = [places[n] for n in statement.hidden if n in places]
    static = [places[n] for n in statement.static]
    reduced = [n for n in statement.operands if statement.kinds[n] == ROW and n not in statement.hidden]
    small: dict[Any, Any] = {}
    large: dict[Any, Any] = _Recent()
    several, drops = statement.several, "keepdims" in places
    order = [places[n] for n in statement.operands]
    base = places["x"] if "x" in places else 0  # an argument of the shape of elements
    at = places.get("axes", places.get("axis", 0))
    shape_at = places.get("shape")
    is_number = [statement.kinds[n] == "number" for n in statement.operands]

    def fits(args: tuple[Any, ...], dtype: Any) -> bool:
        for _, i in arrays:
            a = args[i]
            if a is not None and (type(a) is not ndarray or a.dtype is not dtype):
                return False
        for i in needed:
            if args[i] is None:
                return False
        return True

    def choose(args: tuple[Any, ...], dtype: Any, rank: int, needs: Any) -> tuple[Any, Any, Any, Any, Any]:
        absent = tuple([n for n, i in arrays if args[i] is None])
        fixed = tuple([args[i] for i in static])
        wanted = needs if needs is not None else (True,) * len(statement.traced(absent, fixed))
        axes = statement.axes(args)
        return forms.passes(dtype, axes, rank, wanted, absent, fixed), axes, wanted, absent, fixed

    def shaped(results: Results, args: tuple[Any, ...], x: Any, wanted: Any) -> Any:
        """Return results as the primitive's kernel or rule returns them."""
        found = list(results)
        if drops and not statement.keeps(args) and found[0].ndim == x.ndim and not needed and statement_is_value:
            found[0] = found[0].reshape([n for i, n in enumerate(found[0].shape) if i not in statement.axes(args)])
        if not several:
            return found[0]
        if len(found) == len(wanted):
            return tuple(found)
        left = iter(found)
        return tuple([next(left) if w else None for w in wanted])

    statement_is_value = "g" not in places

    def kernel(*args: Any, needs: Any = None) -> Any:
        x = args[base]
        if type(x) is not ndarray:
            return definition(*args) if needs is None else definition(*args, needs=needs)
        dtype, size = x.dtype, x.size
        if (dtype is not f32 and dtype is not f64) or not size or not fits(args, dtype):
            return definition(*args) if needs is None else definition(*args, needs=needs)
        key = dtype, x.ndim, args[at], needs, *[args[i] is None for _, i in arrays], *[args[i] for i in static]
        found = small.get(key)
        if found is None:
            found = small[key] = choose(args, dtype, x.ndim, needs)
        run, axes, wanted, absent, fixed = found
        if drops and reduced and not statement.keeps(args):
            kept = _kept(x.shape, axes)
            args = tuple([a.reshape(kept) if n in reduced else a for n, a in zip(statement.arguments, args)])
        weights = None if shape_at is None else args[shape_at]
        if size >= sizes.ROWS:
            key = provider.choice.allowed, x.shape, weights, *key
            plan = large.get(key, False)
            if plan is False:
                plan = large[key] = forms.plan(dtype, x.shape, axes, weights, wanted, absent, fixed)
            if plan is not None:
                return shaped(plan(args), args, x, wanted)
        table = float32_constants if dtype is f32 else float64_constants
        count = x.shape[axes[0]] if len(axes) == 1 else math.prod([x.shape[i] for i in axes])
        operands = [table[args[i]] if n else args[i] for i, n in zip(order, is_number)]
        return shaped(run(*operands, table[count], weights), args, x, wanted)

    kernel.forms = forms  # type: ignore[attr-defined]
    kernels[statement.title if statement_is_value else (statement.title, "g")] = kernel
    return kernel


def _weighs(statement: Statement, wanted: Any, absent: Any, fixed: Any) -> bool:
    """Return whether a weight is read, or a result summed to the shape of weights."""
    if any(kind == WEIGHT and n not in absent for n, kind in statement.kinds.items()):
        return True
    return any(across and w for (_, across), w in zip(statement.traced(absent, fixed), wanted))


# --- Loops ------------------------------------------------------------------------------------------


class Plan:
    """A loop over rows of one shape, and what it reads and writes."""

    def __init__(
        self, statement: Statement, part: Any, program: Program, layout: Layout, dtype: Any, shape: Any, axes: Any,
        weights: Any,
    ) -> None:  # fmt: skip
        self.part, self.dtype, self.rows, self.weights = part, dtype, layout.rows, weights
        self.start = [layout.planes, layout.width, layout.first, layout.step, layout.channels]
        self.numbers = [n in program.kinds and program.kinds[n] == "number" for n in program.names if n != COUNT]
        self.places = [statement.places[n] for n in program.names if n != COUNT]
        self.extent = 0 if weights is None else math.prod(weights)
        size = layout.rows * layout.planes * layout.width
        piece = sizes.ROWS_PIECE_DEAR if statement.is_dear else sizes.ROWS_PIECE
        self.most, self.least = min(size // piece, layout.rows), 1
        kept = _kept(shape, axes)
        self.outs = [None if role == ACROSS else shape if role == ELEMENT else kept for role in program.roles]
        if None in self.outs:
            self.least = min(-(-size // sizes.ROWS_SUMMED), layout.rows)

    def run(self, args: Sequence[Any]) -> Results:
        """Call machine code on rows, in pieces that threads take, and return what it has written."""
        count = max(min(threads.count, self.most), self.least)
        fields, held = self.start.copy(), []
        for at, is_number in zip(self.places, self.numbers):
            a = args[at]
            if is_number:
                fields.append(array("q", array("d", (float(a),)).tobytes())[0])
            else:
                if not a.flags.c_contiguous:
                    held.append(a := np.ascontiguousarray(a))
                fields.append(place_of(a))
        outs: Results = []
        for shape in self.outs:
            # Some room between the sums of pieces: two threads must not write to one line of the cache.
            out = np.zeros((count, self.extent + 32), self.dtype) if shape is None else np.empty(shape, self.dtype)
            outs.append(out)
            fields.append(place_of(out))
        fields.append(self.extent + 32)
        block = array("q", fields)
        _call(self.part, block.buffer_info()[0], self.rows, count)
        return [self._added(out) if like is None else out for out, like in zip(outs, self.outs)]

    def _added(self, sums: Any) -> Any:
        if len(sums) == 2:
            found = sums[0, : self.extent] + sums[1, : self.extent]
        else:
            found = np.add.reduce(sums[:, : self.extent], 0)
        return found.reshape(self.weights)


def _call(part: Any, at: int, total: int, count: int) -> None:
    native = rows.thread_pool() if count > 1 else None
    if native is not None:
        native.run(part.address, at, total, count)
        return

    def some(first: int, last: int) -> None:
        for piece in range(first, last):
            part.ctypes(at, piece, total * piece // count, total * (piece + 1) // count)

    if count > 1:
        threads.share(some, count)
    else:
        part.ctypes(at, 0, 0, total)


@functools.cache
def _loops() -> Loops:
    return Loops(_HEAD)


_HEAD = '''"""A row-wise statement that adjoint printed as loops; see adjoint/devices/cpu/rowwise.py."""

import math

import numpy as np

from adjoint.devices.cpu.addresses import array32, array64, load
from adjoint.devices.cpu.loops import above32, above64, accumulate, lowest32, lowest64, number32, number64
from adjoint.devices.cpu.mathematics import NAMES
from adjoint.devices.cpu.sources import cfunc

globals().update(NAMES)


'''
_FIELDS = ("planes", "width", "first_", "step", "channels")


def _source(program: Program, dtype: Any, planes: bool, by_channel: bool) -> str:
    """Return the text of a function that runs a statement on rows."""
    printer = _Printer(program, dtype, planes, by_channel)
    body = "\n".join(f"    {line}" for line in printer.lines)
    return f"""
@cfunc("void(intp, intp, intp, intp)", fastmath={{"contract"}}, error_model="numpy")
def kernel(fields, piece, start, stop):
{body}
"""


class _Printer:
    """Prints the stages of a statement as loops."""

    def __init__(self, program: Program, dtype: Any, planes: bool, by_channel: bool) -> None:
        self.program, self.dtype, self.planes, self.by_channel = program, dtype, planes, by_channel
        self.size, self.bits, self.kind = dtype.itemsize, 8 * dtype.itemsize, f"np.{dtype.name}"
        self.make, self.lines = f"array{self.bits}", list[str]()
        names = [n for n in program.names if n != COUNT]
        fields = [*_FIELDS, *[f"p_{n}" for n in names], *[f"o_{i}" for i in range(len(program.roles))], "extent"]
        numbers = {n for n in names if program.kinds[n] == "number"}
        for i, field in enumerate(fields):
            if field.removeprefix("p_") in numbers:
                self.lines.append(f"{field[2:]} = {self.kind}(array64(fields + {8 * i}, 1)[0])")
            else:
                self.lines.append(f"{field} = load(fields + {8 * i})")
        self.of_rows = [n for n in names if program.kinds[n] == ROW]
        self.lines.append(f"{COUNT} = {self.kind}(planes * width)")
        self.lines.append("for row in range(start, stop):")
        for name in self.of_rows:
            self.say(1, f"{name} = {self.make}(p_{name} + {self.size} * row, 1)[0]")
        for name in program.firsts:
            self.say(1, f"first_{name} = {self.make}(p_{name} + {self.size} * row * first_ * width, 1)[0]")
        for stage in program.stages:
            for name, value in stage.scalars:
                self.assign(1, [value], [name])
            if stage.reductions or stage.elements or stage.across:  # what is kept, a reduction wants too
                self.loop(stage)
        for i, name in program.scalars.items():
            self.say(1, f"{self.make}(o_{i} + {self.size} * row, 1)[0] = {name}")

    def say(self, depth: int, line: str) -> None:
        """Write a line."""
        self.lines.append("    " * depth + line)

    def assign(self, depth: int, values: Sequence[Symbol], names: Sequence[str]) -> None:
        """Write lines that compute expressions and give them names."""
        assignments, texts = loops.lines(values, self.dtype)
        for line in (*assignments, *[f"{n} = {t}" for n, t in zip(names, texts, strict=True)]):
            self.say(depth, line)

    def loop(self, stage: Any) -> None:
        """Write a loop over the elements of a row: within each plane, and around it over planes."""
        for r in stage.reductions:
            self.say(1, f"m_{r.name} = lowest{self.bits}" if r.function is MAX else f"{r.name} = {self.kind}(0)")
        depth = 1
        if self.planes:
            self.say(1, "for k in range(planes):")
            depth = 2
        plane = "row * first_ + k * step" if self.planes else "row"
        self.say(depth, f"plane = {plane}")
        self.say(depth, f"at = {self.size} * plane * width")
        written = (*stage.kept, *stage.elements)
        values = [*[r.value for r in stage.reductions], *[v for _, v in (*written, *stage.across)]]
        inside: list[str] = []
        for name in dict.fromkeys(n.name for v in values for n in _variables(v)):
            kind = self.program.kinds.get(name)
            if name.startswith("kept_"):
                inside.append(f"{name} = r_{name[5:]}[i]")
            elif kind == ELEMENT:
                self.say(depth, f"v_{name} = {self.make}(p_{name} + at, width)")
                inside.append(f"{name} = v_{name}[i]")
            elif kind == WEIGHT and self.by_channel:
                self.say(depth, f"{name} = {self.make}(p_{name} + {self.size} * (plane % channels), 1)[0]")
            elif kind == WEIGHT:
                self.say(depth, f"v_{name} = {self.make}(p_{name}, width)")
                inside.append(f"{name} = v_{name}[i]")
        for r in stage.reductions:
            if r.function is not MAX:
                self.say(depth, f"a_{r.name} = {self.kind}(0)")
        for i, _ in written:
            self.say(depth, f"r_{i} = {self.make}(o_{i} + at, width)")
        for i, _ in stage.across:
            place = f"o_{i} + {self.size} * piece * extent"
            if self.by_channel:
                self.say(depth, f"a_{i} = {self.kind}(0)")
                self.say(depth, f"r_{i} = {self.make}({place} + {self.size} * (plane % channels), 1)")
            else:
                self.say(depth, f"r_{i} = {self.make}({place}, width)")
        self.say(depth, "for i in range(width):")
        for line in inside:
            self.say(depth + 1, line)
        assignments, texts = loops.lines(values, self.dtype)
        for line in assignments:
            self.say(depth + 1, line)
        left = iter(texts)
        for r in stage.reductions:
            text = next(left)
            if r.function is MAX:
                self.say(depth + 1, f"b_{r.name} = above{self.bits}({text})")
                self.say(depth + 1, f"m_{r.name} = b_{r.name} if b_{r.name} > m_{r.name} else m_{r.name}")
            else:
                self.say(depth + 1, f"a_{r.name} = accumulate(a_{r.name}, {text})")
        for i, _ in written:
            self.say(depth + 1, f"r_{i}[i] = {next(left)}")
        for i, _ in stage.across:
            text = next(left)
            if self.by_channel:
                self.say(depth + 1, f"a_{i} = accumulate(a_{i}, {text})")
            else:
                self.say(depth + 1, f"r_{i}[i] += {text}")
        for r in stage.reductions:
            if r.function is not MAX:
                self.say(depth, f"{r.name} = {r.name} + a_{r.name}")
        if self.by_channel:
            for i, _ in stage.across:
                self.say(depth, f"r_{i}[0] += a_{i}")
        for r in stage.reductions:
            if r.function is MAX:
                self.say(1, f"{r.name} = number{self.bits}(m_{r.name})")


def _variables(value: Symbol) -> list[Symbol]:
    return [n for n in ordered([value]) if n.function is None]
