"""Row-wise statements as CUDA kernels: which kernels run for which shapes, and with how many blocks.

How each of them goes over the rows: `row_source`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import cupy
import numpy as np

from ..._typing import Array
from ...scalar.rows import (
    ELEMENT,
    LABEL,
    NUMBER,
    ROW,
    SUM,
    WEIGHT,
    Layout,
    Program,
    Statement,
    layout_of,
)  # fmt: skip
from ...scalar.symbol import apply
from . import sizes
from .launching import Kernels, aligned, dense, empty, is_float
from .row_source import HEAD, Text
from .rows import shape_of_blocks
from .table import override

_F32 = np.dtype(np.float32)
_LONGEST = 1 << 31


class Forms:
    """The kernels of one statement, made when they are first needed."""

    def __init__(self, statement: Statement) -> None:
        self.statement = statement
        self._made: dict[Any, tuple[Kernels, Text]] = {}

    def kernels(self, form: str, results: Any, key: Any, single: frozenset[str] = frozenset()) -> tuple[Kernels, Text]:
        """Return the kernels of a form, for some of the results."""
        found = self._made.get((form, key, single))
        if found is None:
            text = Text(Program(results, self.statement.kinds, keeps=form == "held"), single)
            found = self._made[form, key, single] = Kernels(HEAD + getattr(text, form)(), *text.open_names), text
        return found


def _readers(n: int, pack: int) -> int:
    """Return the threads of a block that reads a row of `n` once, in packs."""
    packs = -(-n // pack)
    return 64 if packs <= 128 else 128 if packs <= 512 else 256 if packs <= 2048 else 512


def _wide(dtype: Any) -> Any:
    return dtype if dtype.char == "d" else _F32


def _seen(a: Any) -> Any:
    """Return what a plan depends on of an operand; 0 of what is no array."""
    return (a.dtype, a.size == 1) if isinstance(a, cupy.ndarray) else 0


def _is_taken(a: Any, is_label: bool) -> bool:
    """Return whether kernels take an operand: labels are int64, other arrays of floats."""
    return a is None or (a.dtype.char in "lq" if is_label else is_float(a))


@override.rowwise
def kernel_of(statement: Statement, definition: Callable[..., Any]) -> Callable[..., Any]:
    """Return a kernel or rule with a statement's arguments that runs its forms on arrays of a GPU."""
    forms, places = Forms(statement), statement.places
    base = places.get("x", places.get("out", 0))
    needed = [places[n] for n in statement.hidden if n in places]
    arrays = [places[n] for n in statement.operands if statement.kinds[n] != NUMBER]
    labels = [places[n] for n, kind in statement.kinds.items() if kind == LABEL]
    fixed = {"axis", "axes", "keepdims", "shape", *statement.static}
    others = [i for n, i in places.items() if n in fixed or statement.kinds.get(n) == NUMBER]
    plans: dict[Any, Any] = {}

    def kernel(*args: Any, needs: tuple[bool, ...] | None = None) -> Any:
        x = args[base]
        if isinstance(x, cupy.ndarray) and x.size and x.ndim and not [i for i in needed if args[i] is None]:
            given = [args[i] for i in arrays]
            seen = tuple([None if a is None else _seen(a) for a in given])
            key = x.shape, seen, needs, *[args[i] for i in others]
            plan = plans.get(key, False)
            if plan is False:
                fits = 0 not in seen and all([_is_taken(a, n in labels) for a, n in zip(given, arrays)])  # noqa: C419
                if len(plans) >= sizes.PLANS:
                    plans.clear()
                plan = plans[key] = Plan(forms, args, x, needs) if fits else None
            if plan and plan.there:
                return plan.run(args, x)
        return definition(*args) if needs is None else definition(*args, needs=needs)

    kernel.forms = forms  # type: ignore[attr-defined]
    return kernel


class _Ref(NamedTuple):
    """What an argument of a launch is, call by call: an operand, a result or memory in between, by its number."""

    kind: str
    number: int


class Plan:
    """What is launched for arguments of some shapes and dtypes; `there` is False where a layout has no kernel."""

    def __init__(self, forms: Forms, args: Sequence[Any], x: Array, needs: tuple[bool, ...] | None) -> None:
        s = self.statement = forms.statement
        self.forms, self.x_shape, self.dtype = forms, x.shape, x.dtype
        self.axes, self.shape = s.axes(args), s.shape(args)
        self.kept = tuple([1 if a in self.axes else n for a, n in enumerate(x.shape)])
        self.dtypes = {n: args[s.places[n]].dtype for n in s.operands if hasattr(args[s.places[n]], "dtype")}
        self.single = frozenset([n for n in self.dtypes if s.kinds[n] == ROW and args[s.places[n]].size == 1])
        self.numbers = {n: float(args[s.places[n]]) for n in s.operands if s.kinds[n] == NUMBER}
        self.absent = tuple([n for n in s.operands if args[s.places[n]] is None])
        self.fixed = tuple([args[s.places[n]] for n in s.static])
        self.all = s.traced(self.absent, self.fixed)
        self.needs = (True,) * len(self.all) if needs is None else tuple(needs)
        self.is_value = "g" not in s.places
        self.outs: dict[int, tuple[Any, Any]] = {}  # shapes and dtypes of results, and of memory in between
        self.between: list[tuple[Any, Any]] = []
        self.steps: list[Any] = []
        self.there = self._made()
        self.squeezed = None
        if self.is_value and not s.keeps(args):
            self.squeezed = tuple([n for i, n in enumerate(x.shape) if i not in self.axes])

    def run(self, args: Sequence[Any], x: Array) -> Any:
        """Make the launches, and return what the kernel or rule returns."""
        outs = {i: empty(*made) for i, made in self.outs.items()}
        between = [empty(*made) for made in self.between]
        operands: dict[int, Any] = {}

        def value(ref: Any) -> Any:
            if type(ref) is not _Ref:
                return ref
            if ref.kind == "out":
                return outs[ref.number]
            if ref.kind == "between":
                return between[ref.number]
            found = operands.get(ref.number)
            if found is None:
                found = operands[ref.number] = dense(args[ref.number])
            return found

        for step in self.steps:
            step(value)
        found: list[Any] = [outs.get(i) for i in range(len(self.all))]
        if self.squeezed is not None:
            found[0] = found[0].reshape(self.squeezed)
        return tuple(found) if self.statement.several else found[0]

    def _made(self) -> bool:
        """Find what to launch; return whether there is something."""
        s, wanted = self.statement, [i for i, need in enumerate(self.needs) if need]
        across = [i for i in wanted if self.all[i][1]]
        rest = [i for i in wanted if not self.all[i][1]]
        weighs = bool(across) or any(kind == WEIGHT and n not in self.absent for n, kind in s.kinds.items())
        layout = layout_of(self.x_shape, self.axes, self.shape if weighs else None)
        if layout is None and (weighs or len(self.axes) > 1):
            return False
        per_channel = layout is not None and layout.channels and layout.rows == layout.channels and layout.step > 1
        if across and rest and per_channel:  # a batch norm: what is summed to a channel is summed over its row
            self._launch(layout, wanted)
            return True
        if across and not self._sum(layout, across):
            return False
        if rest:
            self._launch(layout, rest)
        return True

    def _prepared(self, form: str, which: list[int]) -> tuple[Kernels, Text, list[Any]]:
        """Return the kernels of a form, their text, and what they are given first: operands, numbers and results."""
        results = [
            (apply(SUM, node), False) if across and form != "sums" else (node, across)
            for node, across in (self.all[i] for i in which)
        ]
        kernels, text = self.forms.kernels(form, results, (self.absent, self.fixed, tuple(which)), self.single)
        for i, role in zip(which, text.program.roles, strict=True):
            self.outs[i] = self._memory(i, role)
        operands = [_Ref("operand", self.statement.places[n]) for n in text.arrays]
        given = [*operands, *[self.numbers[n] for n in text.numbers]]
        return kernels, text, given if form == "sums" else [*given, *[_Ref("out", i) for i in which]]

    def _memory(self, i: int, role: str) -> tuple[Any, Any]:
        """Return the shape and dtype of a result."""
        if self.all[i][1]:
            kinds = self.statement.kinds
            return self.shape, next((d for n, d in self.dtypes.items() if kinds[n] == WEIGHT), self.dtype)
        if role == ELEMENT:
            return self.x_shape, self.dtype
        rounded = self.is_value and i == 0 and not (self.statement.of_rows and self.statement.several)
        return self.kept, self.dtype if rounded else _wide(self.dtype)

    def _key(self, text: Text, which: list[int], pack: int, held: int) -> tuple[Any, ...]:
        dtypes = [self.dtypes[n] for n in text.arrays] + [self.outs[i][1] for i in which]
        return (self.dtype.char, *[d.char for d in dtypes], pack, held)

    def _add(
        self, kernels: Kernels, name: str, key: tuple[Any, ...], blocks: int, threads: int, given: Sequence[Any]
    ) -> None:
        refs = tuple(given)
        self.steps.append(lambda value: kernels.launch(name, key, blocks, threads, tuple([value(r) for r in refs])))

    def _between(self, shape: tuple[int, ...]) -> _Ref:
        self.between.append((shape, _wide(self.dtype)))
        return _Ref("between", len(self.between) - 1)

    def _launch(self, layout: Layout | None, which: list[int]) -> None:
        if layout is None:
            kernels, text, given = self._prepared("columns", which)
            (axis,) = self.axes
            n, after = self.x_shape[axis], math.prod(self.x_shape[axis + 1 :])
            count = math.prod(self.x_shape) // n
            key = self._key(text, which, 1, 1)
            self._add(kernels, "columns", key, -(-count // 128), 128, (*given, count, n, after))
            return
        if not layout.channels:
            self._launch_rows(layout, which)
            return
        every = layout.planes * layout.width
        many = layout.rows >= (sizes.ROWS_OF_PLANES if every <= sizes.ROWS_PLANES else sizes.BLOCKS // 4)
        if every < _LONGEST and (many or every <= sizes.ROW_OF_PLANES):
            self._launch_planes(layout, which)
        else:
            self._launch_split(layout, which)

    def _packs(self, text: Text, given: Sequence[Any], which: list[int], n: int) -> tuple[int, list[Any]]:
        """Return how many elements of planes of `n` may be read at once, and what must begin at a pack for that."""
        elements = [ref for ref, name in zip(given, text.arrays) if name in text.elements]
        elements += [_Ref("out", i) for i, role in zip(which, text.program.roles, strict=True) if role == ELEMENT]
        bytes_ = [self.dtypes[name].itemsize for name in text.elements]
        return math.gcd(n, 16 // min([*bytes_, self.dtype.itemsize])), elements

    def _launch_planes(self, layout: Layout, which: list[int]) -> None:
        kernels, text, given = self._prepared("planes", which)
        n, every = layout.width, layout.planes * layout.width
        pack, elements = self._packs(text, given, which, n)
        refs = (*given, layout.planes, n, layout.first, layout.step, layout.channels)
        forms = [(self._key(text, which, p, 1), min(max(32, (every // p + 127) // 128 * 32), 1024)) for p in (1, pack)]

        def launch(value: Callable[[Any], Any]) -> None:
            key, threads = forms[aligned(*[value(r) for r in elements])]
            kernels.launch("planes", key, layout.rows, threads, tuple([value(r) for r in refs]))

        self.steps.append(launch)

    def _launch_rows(self, layout: Layout, which: list[int]) -> None:
        n = layout.width
        forms = {form: self._prepared(form, which) for form in ("walked", "held")}
        _, text, refs = forms["walked"]
        whole = [ref for ref, name in zip(refs, text.arrays) if name not in text.of_rows]
        whole += [_Ref("out", i) for i, role in zip(which, text.program.roles) if role == ELEMENT]
        bytes_ = [self.dtypes[n].itemsize for n in text.arrays if n not in text.of_rows]
        widest = 16 // min([*bytes_, self.dtype.itemsize])
        writes = ELEMENT in text.program.roles
        once = sum(bool(stage.reductions or stage.elements) for stage in text.program.stages) == 1 or not writes

        def launch(value: Callable[[Any], Any]) -> None:
            pack, held, threads = shape_of_blocks(n, widest, not aligned(*[value(r) for r in whole]))
            name = "held" if held and writes else "walked"
            threads = _readers(n, pack) if once and name == "walked" else threads
            kernels, text, given = forms[name]
            key = self._key(text, which, pack, held or 1)
            kernels.launch(name, key, layout.rows, threads, (*[value(r) for r in given], n))

        self.steps.append(launch)

    def _launch_split(self, layout: Layout, which: list[int]) -> None:
        kernels, text, given = self._prepared("split", which)
        n, every = layout.width, layout.planes * layout.width
        pack, elements = self._packs(text, given, which, n)
        pieces = max(min(-(-sizes.BLOCKS // layout.rows), every // 1024), 1)
        count = max(sum(len(s.reductions) for s in text.program.stages), 1)
        parts = self._between((count * layout.rows * pieces,))
        refs = (*given, parts, layout.planes, n, layout.first, layout.step, layout.channels, pieces)
        wide = 1 if every < _LONGEST else 2
        forms = [(self._key(text, which, p, wide), -(-every // (p * pieces))) for p in (1, pack)]
        launched = text.split_stages()

        def launch(value: Callable[[Any], Any]) -> None:
            key, length = forms[aligned(*[value(r) for r in elements])]
            args = (*[value(r) for r in refs], length)
            for number in launched:
                kernels.launch(f"stage_{number}", key, layout.rows * pieces, 512, args)

        self.steps.append(launch)

    def _sum(self, layout: Layout | None, which: list[int]) -> bool:
        """Sum results across rows; return whether that can be done."""
        if layout is None:
            return False
        kernels, text, given = self._prepared("sums", which)
        if text.program.firsts or any(s.reductions for s in text.program.stages):
            return False
        n, count = layout.width, len(which)
        outs = [_Ref("out", i) for i in which]
        if layout.channels:
            number, channels = layout.rows * layout.planes, layout.channels
            parts, key = self._between((number // channels, count, channels)), self._key(text, which, 1, 1)
            threads = min(max(32, (n + 127) // 128 * 32), 512)
            given = [*given, parts, n, layout.planes, layout.rows, int(layout.step == 1), channels]
            self._add(kernels, "plane_sums", key, number, threads, given)
            tiles = count * -(-channels // 32)
            self._add(kernels, "sums_of_pieces", key, tiles, 256, (parts, *outs, number // channels, channels))
            return True
        elements = [ref for ref, name in zip(given, text.arrays) if name in text.elements]
        widest = 16 // min([self.dtypes[k].itemsize for k in text.elements])

        def launch(value: Callable[[Any], Any]) -> None:
            pack = widest if n % widest == 0 and aligned(*[value(r) for r in elements]) else 1
            tiles = -(-n // (32 * pack))
            pieces = max(min(-(-sizes.BLOCKS // tiles), layout.rows // 64), 1)
            length = -(-layout.rows // pieces)
            pieces = -(-layout.rows // length)
            parts, key = empty((pieces, count, n), _wide(self.dtype)), self._key(text, which, pack, 1)
            args = (*[value(r) for r in given], parts, layout.rows, n, length)
            kernels.launch("scales", key, tiles * pieces, 256, args)
            args = (parts, *[value(r) for r in outs], pieces, n)
            kernels.launch("sums_of_pieces", key, count * -(-n // 32), 256, args)

        self.steps.append(launch)
        return True
