"""What a row-wise statement becomes on the CPU: NumPy passes for small arrays, a compiled loop for large ones.

A loop goes from row to row, once over a row's elements for each stage of the statement, and writes in the last one. It
takes rows of contiguous memory and rows of planes (`scalar.rows.Layout`), split among threads. Each thread computes
sums across its own rows, which are then added up. Where nothing can be compiled, or for other axes, threads run the
NumPy passes on blocks of rows.
"""

from __future__ import annotations

import functools
import math
import threading
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._typing import Array, Axes, DType, Shape
from ...scalar import loops
from ...scalar.arrays import defined
from ...scalar.rows import (
    ACROSS,
    COUNT,
    ELEMENT,
    LABEL,
    MAX,
    NUMBER,
    ROW,
    WEIGHT,
    Layout,
    Passes,
    Program,
    Statement,
    layout_of,
)
from ...scalar.symbol import Symbol, ordered
from . import blas, middle, provider, rows, sizes, threads
from .constants import float32_constants, float64_constants
from .memory import place_of
from .sources import Loops
from .table import override

ndarray = np.ndarray
f32, f64, i64 = np.dtype("float32"), np.dtype("float64"), np.dtype("int64")
Results = list[Any]
kernels: dict[Any, Callable[..., Any]] = {}  # by a statement's title; of its gradient, by that and "g"


class Forms:
    """The machine forms of one statement, made when they are first needed."""

    def __init__(self, statement: Statement) -> None:
        self.statement = statement
        self.kinds = statement.kinds
        self._passes: dict[Any, Callable[..., Results]] = {}
        self._loops: dict[Any, tuple[Any, Program]] = {}

    def passes(
        self,
        dtype: DType,
        axes: Axes,
        rank: int,
        wanted: tuple[bool, ...],
        absent: tuple[str, ...],
        fixed: tuple[Any, ...],
    ) -> Callable[..., Any]:
        """Return the statement as NumPy passes: a function of the operands, the elements of a row, weights' shape.

        It returns what a kernel or rule does: the result, or several with None for those that are not wanted.
        """
        key = dtype, axes, rank, wanted, absent, fixed
        found = self._passes.get(key)
        if found is None:
            results = [r for r, w in zip(self.statement.traced(absent, fixed), wanted) if w]
            text = Passes(results, self.kinds, axes, rank, wanted, (middle.total, middle.largest))
            found = self._passes[key] = text.function(f"{self.statement.title}_rows", self.statement.operands, dtype)
        return found

    def loop(
        self, dtype: DType, layout: Layout, wanted: tuple[bool, ...], absent: tuple[str, ...], fixed: tuple[Any, ...]
    ) -> tuple[Any, Program]:
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
        self, dtype: DType, shape: Shape, axes: Axes, weights: Any, wanted: Any, absent: Any, fixed: Any
    ) -> Callable[[Sequence[Any]], Results] | None:
        """Return what computes the results of large arrays; None where loops and blocks do not take their layout."""
        if not _weighs(self.statement, wanted, absent, fixed):
            weights = None
        layout = layout_of(shape, axes, weights)
        dear = dtype is f64 and self.statement.is_dear  # a call of libm costs more than NumPy's, which has vectors
        if layout is not None and not dear and provider.choice.allowed and provider.compiles():
            part, program = self.loop(dtype, layout, wanted, absent, fixed)
            return Plan(self.statement, part, program, layout, dtype, shape, axes, weights).run
        return self._in_blocks(dtype, shape, axes, weights, wanted, absent, fixed)

    def _in_blocks(
        self,
        dtype: DType,
        shape: Shape,
        axes: Axes,
        weights: Shape,
        wanted: tuple[bool, ...],
        absent: tuple[str, ...],
        fixed: tuple[Any, ...],
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
        several = self.statement.several
        cut_by_rows = [self.kinds[n] in (ELEMENT, ROW, LABEL) for n in names]

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
                    results = run(*cut, number, (width,))
                    results = [r for r in results if r is not None] if several else (results,)
                    for role, out, found in zip(roles, outs, results, strict=True):
                        if role == ACROSS:
                            with lock:
                                out += found
                        else:
                            out[block] = found

            with blas.alone:
                threads.share(part, count, max(sizes.ROWS_THREAD // (width * after), 1))
            return [out.reshape(like) for out, like in zip(outs, final, strict=True)]

        return blocks

    def _flat(self, name: str, value: Any, flat: Any, short: Any, width: int, dtype: DType) -> Any:
        kind = self.kinds[name]
        if value is None:
            return None
        if kind == "number":
            return _number(value, dtype)
        return value.reshape(flat if kind == ELEMENT else short if kind in (ROW, LABEL) else (width,))


class _Recent(dict[Any, Any]):
    """Plans by what they are made of; a program with ever new shapes does not fill the memory with them."""

    def __setitem__(self, key: object, value: object) -> None:
        if len(self) >= 512:
            self.clear()
        super().__setitem__(key, value)


def _kept(shape: Sequence[int], axes: Sequence[int]) -> tuple[int, ...]:
    return tuple([1 if i in axes else n for i, n in enumerate(shape)])


def _number(value: float, dtype: DType) -> Any:
    return (float32_constants if dtype is f32 else float64_constants)[value]


# --- Calls ------------------------------------------------------------------------------------------


@override.rowwise
def kernel_of(statement: Statement, definition: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel or rule with a statement's arguments that runs its forms on arrays of NumPy."""
    call = _Call(statement, definition)
    made = _entry(statement, call)
    made.forms = call.forms  # type: ignore[attr-defined]
    kernels[statement.title if call.is_value else (statement.title, "g")] = made
    return made


def _entry(statement: Statement, call: _Call) -> Callable[..., Any]:
    """Return the function that is called: small arrays of which the passes are known run these at once."""
    if "keepdims" in statement.places:
        return lambda *args, needs=None: call(args, needs)
    names, kinds = statement.arguments, statement.kinds
    base = "x" if "x" in names else names[0]
    arrays = [n for n in statement.operands if kinds[n] != NUMBER]
    others = [n for n in arrays if n != base]
    absent = "".join(f", {n} is None" for n in arrays if kinds[n] == WEIGHT)
    static = "".join(f", {n}" for n in statement.static)
    axes = "axis" if "axis" in names else "axes"
    same = "".join(
        f" and (type({n}) is ndarray and {n}.dtype is {'i64' if kinds[n] == LABEL else 'dtype'}"
        f"{f' or {n} is None' if kinds[n] == WEIGHT else ''})"
        for n in others
    )
    given = ", ".join(f"table[{n}]" if kinds[n] == NUMBER else n for n in statement.operands)
    shape = "shape" if "shape" in names else "None"
    dense = f" and {base}.flags.c_contiguous" if call.is_value else ""  # as the result shall be
    text = f"""def {statement.title}({", ".join(names)}, needs=None):
    if type({base}) is ndarray and 0 < {base}.size < LEAST{dense}:
        dtype = {base}.dtype
        found = small.get((dtype.char, {base}.ndim, {axes}, needs{absent}{static}))
        if found is not None{same}:
            run, table, at = found
            return run({given}, table[{base}.shape[at] if at is not None else count({base}.shape, axes)], {shape})
    return call(({", ".join(names)},), needs)
"""
    scope = {"ndarray": ndarray, "i64": i64, "LEAST": sizes.ROWS, "small": call.small, "call": call, "count": _count}
    return defined(statement.title, text, f"row-wise {statement.title}{'' if call.is_value else ' backward'}", scope)


def _count(shape: Sequence[int], axes: Sequence[int]) -> int:
    return math.prod([shape[i] for i in axes])


class _Call:
    """Any call of a statement: which form runs is found by what the arguments are."""

    def __init__(self, statement: Statement, definition: Callable[..., Any]) -> None:
        self.statement, self.definition, self.forms = statement, definition, Forms(statement)
        places, kinds = statement.places, statement.kinds
        self.is_value = "g" not in places
        self.base = places.get("x", 0)  # an argument with all axes
        self.arrays = [(n, places[n]) for n in statement.operands if kinds[n] != NUMBER]
        self.needed = [places[n] for n in statement.hidden if n in places]
        self.static = [places[n] for n in statement.static]
        self.of_rows = frozenset([places[n] for n in statement.operands if kinds[n] == ROW])
        self.reduced = [places[n] for n in statement.operands if kinds[n] == ROW and n not in statement.hidden]
        self.order = [(places[n], kinds[n] == NUMBER) for n in statement.operands]
        self.small: dict[Any, Any] = _Recent()
        self.large: dict[Any, Any] = _Recent()

    def __call__(self, args: tuple[Any, ...], needs: tuple[bool, ...] | None) -> Any:
        x, s = args[self.base], self.statement
        if type(x) is not ndarray or not x.size or not x.ndim or not self.fits(args, x.dtype):
            return self.definition(*args) if needs is None else self.definition(*args, needs=needs)
        dtype, axes, keeps = x.dtype, s.axes(args), s.keeps(args)
        if self.is_value and not x.flags.c_contiguous:
            args = (np.ascontiguousarray(x), *args[1:])
        absent = tuple([n for n, i in self.arrays if args[i] is None])
        fixed = tuple([args[i] for i in self.static])
        wanted = (True,) * len(s.traced(absent, fixed)) if needs is None else tuple(needs)
        if not keeps:
            kept = _kept(x.shape, axes)
            args = tuple([a.reshape(kept) if i in self.reduced else a for i, a in enumerate(args)])
        found: Any = None
        if x.size >= sizes.ROWS:
            rows = _kept(x.shape, axes)
            args = tuple(
                [np.broadcast_to(a, rows) if i in self.of_rows and a.shape != rows else a for i, a in enumerate(args)]
            )
            weights = s.shape(args)
            key = provider.choice.allowed, x.shape, weights, dtype, axes, wanted, absent, fixed
            plan = self.large.get(key, False)
            if plan is False:
                plan = self.large[key] = self.forms.plan(dtype, x.shape, axes, weights, wanted, absent, fixed)
            if plan is not None:
                left = iter(plan(args))
                found = tuple([next(left) if w else None for w in wanted])
                found = found if s.several else found[0]
        if found is None:
            run = self.forms.passes(dtype, axes, x.ndim, wanted, absent, fixed)
            table = float32_constants if dtype is f32 else float64_constants
            if keeps:
                there = [args[i] is None for n, i in self.arrays if s.kinds[n] == WEIGHT]
                named = args[s.places.get("axis", s.places.get("axes", 0))]
                at = axes[0] if len(axes) == 1 else None
                self.small[dtype.char, x.ndim, named, needs, *there, *fixed] = run, table, at
            given = [table[args[i]] if number else args[i] for i, number in self.order]
            found = run(*given, table[_count(x.shape, axes)], s.shape(args))
        if self.is_value and not keeps:
            found = found.reshape([n for i, n in enumerate(x.shape) if i not in axes])
        return found

    def fits(self, args: tuple[Any, ...], dtype: DType) -> bool:
        """Return whether arrays are NumPy's, of one dtype that loops compute with, and hidden results are there."""
        if dtype is not f32 and dtype is not f64:
            return False
        for n, i in self.arrays:
            a, wanted = args[i], i64 if self.statement.kinds[n] == LABEL else dtype
            if a is not None and (type(a) is not ndarray or a.dtype is not wanted):
                return False
        return all(args[i] is not None for i in self.needed)


def _weighs(statement: Statement, wanted: tuple[bool, ...], absent: tuple[str, ...], fixed: tuple[Any, ...]) -> bool:
    """Return whether a weight is read, or a result summed to the shape of weights."""
    if any(kind == WEIGHT and n not in absent for n, kind in statement.kinds.items()):
        return True
    return any(across and w for (_, across), w in zip(statement.traced(absent, fixed), wanted))


# --- Loops ------------------------------------------------------------------------------------------


class Plan:
    """A loop over rows of one shape, and what it reads and writes."""

    def __init__(
        self, statement: Statement, part: Any, program: Program, layout: Layout, dtype: DType, shape: Shape, axes: Axes,
        weights: Shape,
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
            # Some space between the sums of pieces: two threads must not write to one line of the cache.
            out = np.zeros((count, self.extent + 32), self.dtype) if shape is None else np.empty(shape, self.dtype)
            outs.append(out)
            fields.append(place_of(out))
        fields.append(self.extent + 32)
        block = array("q", fields)
        rows.run_pieces(self.part, block.buffer_info()[0], self.rows, count)
        return [self._added(out) if like is None else out for out, like in zip(outs, self.outs)]

    def _added(self, sums: Array) -> Array:
        if len(sums) == 2:
            found = sums[0, : self.extent] + sums[1, : self.extent]
        else:
            found = np.add.reduce(sums[:, : self.extent], 0)
        return found.reshape(self.weights)


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


def _source(program: Program, dtype: DType, planes: bool, by_channel: bool) -> str:
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

    def __init__(self, program: Program, dtype: DType, planes: bool, by_channel: bool) -> None:
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
        for name in [n for n in names if program.kinds[n] == LABEL]:
            self.say(1, f"{name} = load(p_{name} + 8 * row)")
        for name, label in program.picks:
            self.say(1, f"there = {label} if 0 <= {label} < width else 0")
            self.say(1, f"at_{name} = {self.make}(p_{name} + {self.size} * (row * width + there), 1)[0]")
        for name in program.firsts:
            self.say(1, f"first_{name} = {self.make}(p_{name} + {self.size} * row * first_ * width, 1)[0]")
        for stage in program.stages:
            for name, value in stage.scalars:
                self.assign(1, [value], [name])
            if stage.reductions or stage.elements or stage.across:  # what is saved, a reduction needs too
                self.loop(stage)
        for i, name in program.scalars.items():
            self.say(1, f"{self.make}(o_{i} + {self.size} * row, 1)[0] = {name}")

    def say(self, depth: int, line: str) -> None:
        """Write a line."""
        self.lines.append("    " * depth + line)

    def assign(self, depth: int, values: Sequence[Symbol], names: Sequence[str]) -> None:
        """Write lines that compute numbers of the row and give them names."""
        assignments, texts = loops.lines(values, self.dtype, vector=False)
        for line in assignments:
            self.say(depth, line)
        for name, text, value in zip(names, texts, values, strict=True):
            self.say(depth, f"{name} = {text if value.boolean else f'{self.kind}({text})'}")

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
        assignments, texts = loops.lines(values, self.dtype)
        hot = self.program.hot if any(f"hot_{self.program.hot}" in line for line in assignments) else ""
        if hot:
            self.say(depth, f"hot_{hot} = {self.kind}(0)")
        self.say(depth, "for i in range(width):")
        for line in inside:
            self.say(depth + 1, line)
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
        if hot:  # the one element at the label, again; a comparison for each would slow the loop down
            if stage.reductions or stage.across or stage.kept:
                raise TypeError("less_one_at is of elements that are written, not of what is reduced")
            self.say(depth, f"if 0 <= {hot} < width:")
            written_again = [f"r_{i}[i] = {t}" for (i, _), t in zip(stage.elements, texts, strict=True)]
            for line in (f"i = {hot}", f"hot_{hot} = {self.kind}(1)", *inside, *assignments, *written_again):
                self.say(depth + 1, line)
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
