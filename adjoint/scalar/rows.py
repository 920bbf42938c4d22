"""Row-wise formulas as data: reductions of a row, and elementwise parts over it.

A statement is an ordinary function whose first parameter is a `row`; the others are operands:

>>> def softmax(row, x):
...     e = np.exp(x - row.max(x))
...     return e / row.sum(e)
>>> program = Program(traced(softmax, ["x"]), {"x": ELEMENT})
>>> [[str(r.function) for r in stage.reductions] for stage in program.stages]
[['row_max'], ['row_sum'], [], []]

Run on values, `row` reduces them along their axes (ops/rows.py). Run on symbols, it writes reductions down, and a
`Program` splits the expression at them into stages, a loop over the row each. Devices print the loops
(devices/cpu/rowwise.py, devices/cuda/rowwise.py); `Passes` prints NumPy's form.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np

from .arrays import constant, defined
from .functions import CHOOSE, EXP_BELOW
from .symbol import Function, Operand, Symbol, apply, by_name, ordered, shared, variable

__all__ = [
    "ACROSS", "ELEMENT", "EXP_BELOW", "LABEL", "NUMBER", "ROW", "WEIGHT", "Layout", "Passes", "Program", "Row",
    "traced",
]  # fmt: skip

V = TypeVar("V")
Shape = tuple[int, ...]

# What an operand or a result is: of each element of each row; along a row (or one for each channel) and the same for
# all rows; of each row; the place of an element in each row, an int64; one for all. ACROSS: a result that is summed to
# the shape of weights.
ELEMENT, WEIGHT, ROW, LABEL, NUMBER, ACROSS = "element", "weight", "row", "label", "number", "across"


class Row(Protocol):
    """What a statement does with the elements of a row together."""

    def sum(self, v: Any) -> Any:
        """Add up."""

    def mean(self, v: Any) -> Any:
        """Average."""

    def max(self, v: Any) -> Any:
        """Take the largest (of complex numbers, the largest real part); a NaN is."""

    def first(self, v: Any) -> Any:
        """Take the first element, of an operand."""

    def at(self, v: Any, label: Any) -> Any:
        """Take the element at a label, of an operand; 0 or a NaN where a row has no such element."""

    def less_one_at(self, v: Any, label: Any) -> Any:
        """Subtract one from the element at a label."""

    def across(self, v: Any) -> Any:
        """Add up across rows, to the shape of weights; of a result only."""


class Reduction(Function):
    """A reduction of a row, as a node of an expression."""

    __slots__ = ()

    def __init__(self, name: str) -> None:
        self.name = self.__name__ = name
        self.arrays = self.__wrapped__ = _refuse
        self.loop = self.cuda = ""
        self.boolean = self.writes = False


def _refuse(*operands: object) -> None:
    raise TypeError("a reduction of a row is printed, not called")


SUM, MAX, FIRST, AT = Reduction("row_sum"), Reduction("row_max"), Reduction("row_first"), Reduction("row_at")


@functools.lru_cache(64)
def _starts(shape: Shape) -> np.ndarray:
    """Return where each row, along the last axis, starts in the flattened array."""
    return np.arange(0, math.prod(shape), shape[-1]).reshape(*shape[:-1], 1)


def _at(x: np.ndarray, label: np.ndarray) -> np.ndarray:
    """Return the elements of rows at labels; of rows without such an element, any."""
    return x.take(label + _starts(x.shape), mode="clip")


_ONES = {np.dtype(kind): np.array(1, kind) for kind in "fd"}  # ufuncs take these faster than numbers


def _less_one(x: np.ndarray, label: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
    out = x.copy() if out is None else out
    places, unsigned = label + _starts(out.shape), label.view(np.uint64)  # in which negative labels are large, too
    if label.size and unsigned.item(unsigned.argmax()) >= out.shape[-1]:
        places = places[unsigned < out.shape[-1]]
    out.put(places, out.take(places) - _ONES[out.dtype])
    return out


# The element at a label less one, the others as they are: loops set `hot_...`, 1 or 0, for each element.
LESS_ONE = Function("less_one_at", _less_one, "{0} - hot_{1}", "{0} - hot_{1}")
LESS_ONE.writes = True
COUNT = "count_"  # the name of the number of elements in a row


_DEAR = frozenset([EXP_BELOW, *[by_name[n] for n in ("exp", "log", "tanh", "power", "expm1", "log1p", "sin", "cos")]])


class _Across(NamedTuple):
    value: Symbol


class _Symbols:
    """The row of statements that are run on symbols."""

    def __init__(self) -> None:
        self.count = variable(COUNT)

    def sum(self, v: Symbol) -> Symbol:
        return apply(SUM, v)

    def mean(self, v: Symbol) -> Symbol:
        return apply(SUM, v) / self.count

    def max(self, v: Symbol) -> Symbol:
        return apply(MAX, v)

    def first(self, v: Symbol) -> Symbol:
        return apply(FIRST, v)

    def at(self, v: Symbol, label: Symbol) -> Symbol:
        return apply(AT, v, label)

    def less_one_at(self, v: Symbol, label: Symbol) -> Symbol:
        return apply(LESS_ONE, v, label)

    def across(self, v: Symbol) -> _Across:
        return _Across(v)


def traced(
    statement: Callable[..., Any],
    names: Sequence[str],
    absent: Iterable[str] = (),
    fixed: Mapping[str, Any] | None = None,
) -> list[tuple[Symbol, bool]]:
    """Return a statement's results as expressions, and whether each is summed across rows.

    Operands that are `absent` are None, those that are `fixed` have a value by which the statement may branch.
    """
    missing, given = frozenset(absent), fixed or {}
    found = statement(_Symbols(), *[None if n in missing else given[n] if n in given else variable(n) for n in names])
    results = found if type(found) is tuple else (found,)
    flat = [r.value if isinstance(r, _Across) else r for r in results]
    nodes = shared([v if isinstance(v, Symbol) else apply(by_name["add"], v, 0) for v in flat])
    return [(node, isinstance(r, _Across)) for node, r in zip(nodes, results, strict=True)]


class Statement:
    """A row-wise value or gradient as it is declared: what devices print kernels from.

    `arguments` are what the primitive's kernel or rule takes, in order; `names` those of them that the function takes
    after `row`, the operands. `hidden` are those found by the value and used again by a gradient. The value that is
    `of_rows` is one number for each row: if there are `several` results, in single precision for 16-bit operands.
    """

    def __init__(
        self, title: str, function: Callable[..., Any], arguments: Sequence[str], kinds: Mapping[str, str],
        *, several: bool = False, hidden: Sequence[str] = (), static: Sequence[str] = (), of_rows: bool = False,
    ) -> None:  # fmt: skip
        code = function.__code__
        self.of_rows = of_rows
        self.title, self.function, self.arguments, self.several = title, function, tuple(arguments), several
        self.names, self.hidden = code.co_varnames[1 : code.co_argcount], tuple(hidden)
        self.static = tuple([n for n in static if n in self.names])
        self.kinds = {n: kinds.get(n, ELEMENT) for n in self.names if n not in self.static}
        self.places = {n: i for i, n in enumerate(arguments)}
        self.operands = [n for n in self.names if n not in self.static]
        self._traced: dict[Any, list[tuple[Symbol, bool]]] = {}

    def traced(self, absent: tuple[str, ...] = (), fixed: tuple[Any, ...] = ()) -> list[tuple[Symbol, bool]]:
        """Return the results as expressions where some operands are None and the static ones have these values."""
        found = self._traced.get((absent, fixed))
        if found is None:
            given = dict(zip(self.static, fixed, strict=True))
            found = self._traced[absent, fixed] = traced(self.function, self.names, absent, given)
        return found

    @functools.cached_property
    def is_dear(self) -> bool:
        """Whether a function of elements is more than arithmetic."""
        absent = tuple([n for n in self.operands if self.kinds[n] == WEIGHT])
        results = traced(self.function, self.names, absent, dict.fromkeys(self.static))
        return any(node.function in _DEAR for node in ordered([r for r, _ in results]))

    def axes(self, args: Sequence[Any]) -> Shape:
        """Return the axes of the rows, from the primitive's arguments."""
        at = self.places.get("axis")
        return tuple(sorted(args[self.places["axes"]])) if at is None else (args[at],)

    def shape(self, args: Sequence[Any]) -> Shape | None:
        """Return the shape of weights, of the primitive's arguments."""
        at = self.places.get("shape")
        return None if at is None else args[at]

    def keeps(self, args: Sequence[Any]) -> bool:
        """Return whether reduced axes stay in numbers of rows."""
        at = self.places.get("keepdims")
        return at is None or bool(args[at])


# --- Stages -----------------------------------------------------------------------------------------


class Reduced(NamedTuple):
    """A reduction that a loop finds: its name there, which it is, and the expression of each element."""

    name: str
    function: Function
    value: Symbol


class Stage(NamedTuple):
    """What is computed before a loop over the row, of numbers of the row; what the loop reduces to, and writes."""

    scalars: list[tuple[str, Symbol]]
    reductions: list[Reduced]
    elements: list[tuple[int, Symbol]]  # by the number of the result
    across: list[tuple[int, Symbol]]
    kept: list[tuple[int, Symbol]]  # what is written where a result will be, for the last loop to read: see `kept_`


class Program:
    """A statement in stages: a loop over the row for each depth of reductions; the last stage has none."""

    def __init__(self, results: Sequence[tuple[Symbol, bool]], kinds: Mapping[str, str], keeps: bool = False) -> None:
        """Split a statement; `keeps`: an exponential that two loops need is written to the result's memory."""
        self.kinds = kinds
        nodes = ordered([node for node, _ in results])
        self.names = [n.name for n in nodes if n.function is None]  # the operands that are read
        self.firsts: list[str] = []  # operands whose first element is read
        self.picks: list[tuple[str, str]] = []  # operands of which elements are read at labels, and these
        self.hot = ""  # the label whose element differs from the others
        self._depth: dict[int, int] = {}
        self._kind: dict[int, str] = {}
        for node in nodes:
            self._classify(node)
        self.roles = [
            ACROSS if across else ELEMENT if self._kind[n.number] in (ELEMENT, WEIGHT) else ROW for n, across in results
        ]
        self._named: dict[int, str] = {}
        self._name_scalars(nodes, results)
        last = max([self._depth[n.number] for (n, _), role in zip(results, self.roles) if role != ROW], default=-1)
        depth = max([*[self._depth[n.number] for n in nodes], last + 1])
        self.stages = [Stage([], [], [], [], []) for _ in range(depth + 1)]
        for node in nodes:
            name = self._named.get(node.number)
            if name is None:
                continue
            at = self._depth[node.number]
            if node.function in (SUM, MAX):
                (value,) = node.operands
                assert isinstance(value, Symbol) and node.function is not None
                self.stages[at - 1].reductions.append(Reduced(name, node.function, self._cut(value)))
            elif node.function not in (FIRST, AT):
                self.stages[at].scalars.append((name, self._cut(node, root=True)))
        self.scalars: dict[int, str] = {}  # of results that are numbers of rows: by the number of the result
        for i, ((node, _), role) in enumerate(zip(results, self.roles, strict=True)):
            if role == ROW:
                self.scalars[i] = self._named.get(node.number, node.name)
            else:
                stage = self.stages[last]
                kept = self._costly(node, last) if keeps and role == ELEMENT else None
                if kept is not None:
                    self.stages[self._depth[kept.number]].kept.append((i, self._cut(kept)))
                    self._named[kept.number] = f"kept_{i}"
                    self.kinds = {**self.kinds, f"kept_{i}": ELEMENT}
                (stage.across if role == ACROSS else stage.elements).append((i, self._cut(node)))

    def _costly(self, result: Symbol, last: int) -> Symbol | None:
        """Return a node that an earlier loop computes and the last one wants again, if it is dear to compute."""
        pending, found = [result], list[Symbol]()
        while pending:
            node = pending.pop()
            if self._kind[node.number] != ELEMENT:
                continue  # a number of the row, whatever it is made of
            if node.function in _DEAR and self._depth[node.number] < last:
                found.append(node)
            pending += [v for v in node.operands if isinstance(v, Symbol)]
        return max(found, key=lambda node: node.number, default=None)

    def _classify(self, node: Symbol) -> None:
        operands = [v for v in node.operands if isinstance(v, Symbol)]
        depth = max([self._depth[v.number] for v in operands], default=0)
        kinds = [self._kind[v.number] for v in operands]
        if node.function is None:
            kind = NUMBER if node.name == COUNT else self.kinds[node.name]
            kind = ROW if kind == LABEL else kind
        elif isinstance(node.function, Reduction):
            kind = ROW
            if node.function in (FIRST, AT):
                self._read(node, [v.name for v in operands if v.function is None])
            else:
                depth += 1
        else:
            if node.function is LESS_ONE:
                self.hot = operands[1].name
            kind = ELEMENT if ELEMENT in kinds or WEIGHT in kinds else ROW if ROW in kinds else NUMBER
        self._depth[node.number], self._kind[node.number] = depth, kind

    def _read(self, node: Symbol, names: list[str]) -> None:
        """Note what is read of a row beside its loops."""
        if len(names) < len(node.operands):
            raise TypeError(f"{node.name} takes operands")
        if node.function is FIRST and names[0] not in self.firsts:
            self.firsts.append(names[0])
        elif node.function is AT:
            self.picks.append((names[0], names[1]))

    def _name_scalars(self, nodes: Sequence[Symbol], results: Sequence[tuple[Symbol, bool]]) -> None:
        """Name numbers of a row that loops read or results are, so that they are computed once."""
        wanted = {n.number for n, _ in results}
        for node in nodes:
            if self._kind[node.number] in (ELEMENT, WEIGHT) or isinstance(node.function, Reduction):
                wanted.update(v.number for v in node.operands if isinstance(v, Symbol))
        for node in nodes:
            scalar = node.function is not None and self._kind[node.number] in (ROW, NUMBER)
            if node.function in (FIRST, AT):
                said = "first" if node.function is FIRST else "at"
                self._named[node.number] = f"{said}_{node.operands[0].name}"  # type: ignore[union-attr]
            elif scalar and (node.number in wanted or isinstance(node.function, Reduction)):
                self._named[node.number] = f"s{len(self._named)}"

    def _cut(self, node: Symbol, root: bool = False) -> Symbol:
        """Return an expression in which named numbers of the row are variables."""
        known: dict[int, Symbol] = {}
        for inner in ordered([node]):
            name = self._named.get(inner.number)
            if name is not None and not (root and inner is node):
                known[inner.number] = variable(name)
            elif inner.function is None:
                known[inner.number] = inner
        return _rebuilt(node, known, root)


def _rebuilt(node: Symbol, known: dict[int, Symbol], root: bool) -> Symbol:
    if not root and node.number in known:
        return known[node.number]
    operands: tuple[Operand, ...] = tuple(
        _rebuilt(v, known, False) if isinstance(v, Symbol) else v for v in node.operands
    )
    made = known[node.number] = Symbol(node.name, node.function, operands)
    made.boolean = node.boolean
    return made


# --- Layouts ----------------------------------------------------------------------------------------


class Layout(NamedTuple):
    """The layout of rows in contiguous memory, as `planes` stretches of `width` elements each.

    Row `r` has the planes ``r * first + k * step``. Weights are along a plane, or (`channels` > 0) there is one for
    each plane: plane `p` has the weight ``p % channels``.
    """

    rows: int
    planes: int
    width: int
    first: int
    step: int
    channels: int


@functools.lru_cache(maxsize=4096)
def layout_of(shape: Shape, axes: Shape, weights: Shape | None) -> Layout | None:
    """Return the layout of rows along `axes`, with weights of a shape or none; None where there is none such."""
    rank, size = len(shape), math.prod(shape)
    if not axes or not size:
        return None
    if axes == tuple(range(rank - len(axes), rank)):
        width = math.prod(shape[rank - len(axes) :])
        if weights is None or (math.prod(weights) == width and weights[-len(axes) :] == shape[rank - len(axes) :]):
            return Layout(size // width, 1, width, 1, 1, 0)
    full = None if weights is None else (1,) * (rank - len(weights)) + tuple(weights)
    k = 0
    while k < rank - 1 and rank - 1 - k in axes and (full is None or full[rank - 1 - k] == 1):
        k += 1
    lead, width = shape[: rank - k], math.prod(shape[rank - k :])
    channels = math.prod(lead[1:])
    if not k or (full is not None and full[: rank - k] != (1, *lead[1:])):
        return None
    count = math.prod(lead)
    together = [a for a in axes if a < len(lead) and lead[a] > 1]
    if not together:
        return Layout(count, 1, width, 1, 1, channels)
    if together == [0]:
        return Layout(channels, lead[0], width, 1, channels, channels)
    start = min(together)
    inner = math.prod(lead[start:])
    if all(n == 1 or i in together for i, n in enumerate(lead) if i >= start):
        return Layout(count // inner, inner, width, inner, 1, channels)
    return None


# --- NumPy's form -----------------------------------------------------------------------------------

_add = np.add.reduce


@functools.lru_cache(4096)
def _axes_beyond(given: Shape, shape: Shape) -> Shape:
    lead = len(given) - len(shape)
    return (*range(lead), *[i + lead for i, n in enumerate(shape) if n == 1 and given[i + lead] != 1])


def _sum_to(v: np.ndarray, shape: Shape) -> np.ndarray:
    axes = _axes_beyond(v.shape, shape)
    out = _add(v, axes) if axes else v
    return out if out.shape == shape else out.reshape(shape)


def _with_divisions(results: Sequence[Symbol]) -> list[Symbol]:
    """Return expressions in which a product with an inverse that is used once is a division: one call of NumPy."""
    nodes = ordered(results)
    uses: dict[int, int] = {}
    for number in [v.number for n in nodes for v in n.operands if isinstance(v, Symbol)] + [n.number for n in results]:
        uses[number] = uses.get(number, 0) + 1
    known: dict[int, Symbol] = {}
    for node in nodes:
        operands = tuple([known[v.number] if isinstance(v, Symbol) else v for v in node.operands])
        last, made = node.operands[-1] if operands else None, node
        if node.name == "multiply" and isinstance(last, Symbol) and last.name == "divide" and uses[last.number] == 1:
            if not isinstance(last.operands[0], Symbol) and last.operands[0] == 1:
                made = Symbol("divide", by_name["divide"], (operands[0], known[last.number].operands[1]))
        if made is node and node.function is not None:
            made = Symbol(node.name, node.function, operands)
            made.boolean = node.boolean
        known[node.number] = made
    return [known[node.number] for node in results]


class Passes:
    """A statement as passes over NumPy arrays, each function a ufunc call, temporaries written over when they are free.

    The text is ordinary Python that `pdb` steps through; constants are 0-d arrays, which ufuncs take faster.
    """

    def __init__(
        self, results: Sequence[tuple[Symbol, bool]], kinds: Mapping[str, str], axes: Shape, rank: int,
        wanted: Sequence[bool] | None = None, inside: Sequence[Any] | None = None,
    ) -> None:  # fmt: skip
        """Print results; with `wanted` a function that returns all of them, or None for what is not, or the one.

        `inside` are functions for sums and maxima along axes that are not the last, like NumPy's ``reduce``.
        """
        self.axes, self.last = axes, axes == (rank - 1,)
        self.kinds, self.lines = kinds, list[str]()
        self.scope: dict[str, object] = {"sum_to": _sum_to, "vecdot": np.vecdot}
        plain = (_add, np.maximum.reduce)
        self.scope["total"], self.scope["largest"] = plain if self.last or inside is None else inside
        self.scope["at"] = _at
        self.scope["first"] = tuple([slice(0, 1) if i in axes else slice(None) for i in range(rank)])
        self.constants: dict[str, float] = {}
        divided = _with_divisions([node for node, _ in results])
        results = [(node, across) for node, (_, across) in zip(divided, results, strict=True)]
        nodes = ordered(divided)
        self.uses: dict[int, int] = {}
        for v in [v for node in nodes for v in node.operands if isinstance(v, Symbol)] + [node for node, _ in results]:
            self.uses[v.number] = self.uses.get(v.number, 0) + 1
        self.summed = {v.number for n in nodes if n.function is SUM for v in n.operands if isinstance(v, Symbol)}
        self.dots: set[int] = set()  # products of which only the sum is taken
        self.places: dict[int, str] = {}
        self.shapes: dict[int, str] = {}  # what a value's shape is: that of an operand's kind, or "?"
        self.owned: set[int] = set()  # values in memory of their own
        for node in nodes:
            self._write(node)
        said = [self._result(node, across) for node, across in results]
        if wanted is not None:
            left = iter(said)
            said = [next(left) if w else "None" for w in wanted]
        self.lines.append(f"return {', '.join(said)}{',' * (len(said) == 1 and wanted is None)}")

    def _result(self, node: Symbol, across: bool) -> str:
        place = self.places[node.number]
        return f"sum_to({place}, shape_)" if across else place

    def _write(self, node: Symbol) -> None:
        function = node.function
        if function is None:
            self.places[node.number] = node.name
            self.shapes[node.number] = NUMBER if node.name == COUNT else self.kinds[node.name]
            return
        shapes = {self.shapes[v.number] for v in node.operands if isinstance(v, Symbol)} - {NUMBER}
        if isinstance(function, Reduction):
            self.shapes[node.number] = ROW
        else:
            shapes = {ROW if shape == LABEL else shape for shape in shapes}
            whole = ELEMENT if ELEMENT in shapes else "?" if len(shapes) > 1 else NUMBER
            self.shapes[node.number] = next(iter(shapes)) if len(shapes) == 1 else whole
        target = self.places[node.number] = f"t{len(self.places)}"
        if self._is_dot(node):
            self.dots.add(node.number)  # stored nowhere
            return
        if isinstance(function, Reduction):
            self.lines.append(f"{target} = {self._reduction(node)}")
            if function not in (FIRST, AT):
                self.owned.add(node.number)
            return
        name = "choose" if function is CHOOSE else function.name
        self.scope[name] = np.where if function is CHOOSE else function.arrays
        places = [self._place(v) for v in node.operands]
        free = self._free(node)
        self.owned.add(node.number)
        if free is None or not function.writes:
            self.lines.append(f"{target} = {name}({', '.join(places)})")
        else:
            self.lines.append(f"{name}({', '.join(places)}, out={free})")
            self.places[node.number] = free

    def _free(self, node: Symbol) -> str | None:
        """Return a temporary that is not needed any more, as large as the node's value."""
        found = None
        for v in node.operands:
            if isinstance(v, Symbol):
                self.uses[v.number] -= 1
                same = self.shapes[v.number] == self.shapes[node.number] in (ELEMENT, ROW)
                if same and not self.uses[v.number] and v.number in self.owned and v.boolean == node.boolean:
                    found = self.places[v.number]
        return found

    def _reduction(self, node: Symbol) -> str:
        value, *labels = node.operands
        assert isinstance(value, Symbol)
        place = self.places[value.number]
        if labels:
            return f"at({place}, {self._place(labels[0])})"
        if value.number in self.dots:
            said = ", ".join([self._place(v) for v in value.operands])
            self._free(value)
            return f"vecdot({said})[..., None]"
        self.uses[value.number] -= 1
        if node.function is FIRST:
            return f"{place}[first]"
        if node.function is MAX:
            return f"largest({place}, {self._axes()}, None, None, True)"
        return f"total({place}, {self._axes()}, None, None, True)"

    def _is_dot(self, node: Symbol) -> bool:
        """Return whether a node is a product of which only the sum along the last axis is taken."""
        if not self.last or node.name != "multiply" or self.uses[node.number] != 1 or node.number not in self.summed:
            return False
        return all(isinstance(v, Symbol) and self.shapes[v.number] == ELEMENT for v in node.operands)

    def _axes(self) -> str:
        return "-1" if self.last else repr(self.axes)

    def _place(self, operand: Operand) -> str:
        if isinstance(operand, Symbol):
            return self.places[operand.number]
        for name, value in self.constants.items():
            if repr(value) == repr(operand):
                return name
        name = f"c{len(self.constants)}"
        self.constants[name] = operand
        return name

    def function(self, title: str, names: Sequence[str], dtype: np.dtype) -> Callable[..., Any]:  # type: ignore[type-arg]
        """Return the function of operands with these names, the number of elements of a row, and weights' shape."""
        text = f"def {title}({', '.join((*names, COUNT, 'shape_'))}):\n" + "".join(f"    {s}\n" for s in self.lines)
        constants = {k: constant(v, dtype) for k, v in self.constants.items()}
        return defined(title, text, f"statement {title} {dtype.name} {self.axes}", {**self.scope, **constants})
