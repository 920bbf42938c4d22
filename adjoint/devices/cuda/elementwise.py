"""Elementwise primitives on a GPU: kernels printed from their declarations, for the value and all gradients of a node.

A `Row` reads a primitive's formula and rules as expressions (adjoint/scalar). `kernel`, `run` and `direct` wrap what a
primitive computes with: arrays of a GPU go to the printed kernels where these can, all others to what was there before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import cupy
import numpy as np

from ..._typing import DType, Kernel, Op
from ...scalar import cuda
from ...scalar.functions import by_ufunc
from ...scalar.symbol import Symbol, Untraceable, shared, variable
from .arrays import Array, adopt, new, operators, several, writers
from .copies import turn_into
from .formulas import FLOATS, PACKED_FROM, Formula, Total
from .launching import Kernels

if TYPE_CHECKING:
    from ...core.nodes import Node

__all__ = ["ones_like", "row_of", "specialized"]


class Row:
    """An elementwise primitive in C, printed from its declaration: its value, and the gradients of its inputs.

    Parameters that formulas may branch on are `static`: there is a kernel for each of their values, `fixed`.
    """

    def __init__(self, op: Op) -> None:
        self.op = op
        forms = getattr(op.kernel, "forms", None)
        numbers = () if forms is None else forms.numbers
        self.arguments = (*op.inputs, *op.params)
        self.names = tuple(n for n in self.arguments if n in op.inputs or n in numbers)
        self.static = tuple(n for n in self.arguments if n not in self.names)
        self.masks = tuple(n for n in op.inputs if n in _MASKS)
        self._values: dict[Any, Symbol] = {}

    def symbols(self, fixed: tuple[Any, ...]) -> dict[str, Any]:
        """Return what stands for each argument in a formula."""
        found: dict[str, Any] = {n: variable(n, boolean=n in self.masks) for n in self.names}
        return found | dict(zip(self.static, fixed, strict=True))

    def value(self, fixed: tuple[Any, ...] = ()) -> Symbol:
        """Return the expression of the primitive's value."""
        found = self._values.get(fixed)
        if found is None:
            given = self.symbols(fixed)
            found = shared([self.op.kernel(*[given[n] for n in self.arguments])])[0]
            if found.function is None:  # a copy, or a move: nothing is computed
                raise Untraceable(f"{self.op.name} is no formula")
            self._values[fixed] = found
        return found

    def gradient(self, name: str, fixed: tuple[Any, ...] = ()) -> Symbol | None:
        """Return the expression of an input's gradient, None where its rule is no formula of elements."""
        rule = self.op.rules[self.op.inputs.index(name)]
        if rule is None or self.op.joint:
            return None
        given = self.symbols(fixed) | {"g": variable("g"), "out": variable("out")}
        try:
            found = rule(*[given[n] for n in parameters_of(rule)])
        except (KeyError, *_UNTRACEABLE):
            return None
        return found if isinstance(found, Symbol) else None

    def formula(self, fixed: tuple[Any, ...] = ()) -> Formula:
        """Return the kernels of the primitive's value."""
        value = self.value(fixed)
        return Formula(
            " ".join(self.names), cuda.text(value), masks=" ".join(self.masks), result="bool" if value.boolean else ""
        )


_MASKS = ("condition", "mask")
_UNTRACEABLE = (TypeError, AttributeError, ValueError, RuntimeError, NotImplementedError, IndexError)
_MOST_VARIANTS = 16  # values of static parameters for which there are kernels


def parameters_of(rule: Kernel) -> tuple[str, ...]:
    """Return the names of a rule's parameters."""
    while hasattr(rule, "__wrapped__"):
        rule = rule.__wrapped__
    return tuple(rule.__code__.co_varnames[: rule.__code__.co_argcount])


def row_of(op: Op) -> Row | None:
    """Return the row of a primitive that is a formula of elements; None of others."""
    if op.batch not in ("elementwise", "same") or op.outputs or op.view or op.joint:
        return None
    row = Row(op)
    if row.static:
        return row if op.jvp == "elementwise" else None
    try:
        return row if isinstance(row.value(), Symbol) else None
    except _UNTRACEABLE:
        return None


def specialized(op: Any, saved: tuple[tuple[str, ...], ...], fit_all: Kernel) -> dict[str, Any]:
    """Return what a primitive computes a GPU's arrays with, by the names of its attributes; empty if as ever.

    `saved` names what the rule of each input saves, and `fit_all` brings gradients to their inputs' shapes and dtypes.
    """
    if hasattr(op.kernel, "elements"):
        return {"kernel": _named(loss(op), op), "run": loss_run(op)}
    row = row_of(op)
    if row is None:
        return {}
    changes = {"kernel": _named(kernel(row, op.kernel), op), "run": run(row, saved, op.run, fit_all)}
    if op.direct is not None:
        changes["direct"] = direct(row, saved[0], op.direct)
    if op.into is None and not isinstance(op.kernel, np.ufunc):
        changes["into"] = into(row, op.kernel)
    return changes


def _named(kernel: Kernel, op: Op) -> Kernel:
    kernel.__name__ = op.name  # which errors show
    return kernel


# --- Values -----------------------------------------------------------------------------------------


def kernel(row: Row, before: Kernel) -> Any:
    """Return a primitive's kernel: the formula's where its arguments allow, else the one there was."""
    if len(row.arguments) == len(row.names) <= 2 and not row.masks:
        return (_of_one if len(row.names) == 1 else _of_two)(row.formula(), before)
    return _of_several(row, before)


def _of_one(formula: Formula, before: Kernel) -> Kernel:
    launches: dict[Any, Any] = {}
    packs: dict[Any, Any] = {}
    out_dtype = np.dtype(formula.result) if formula.result else None

    def kernel(x: Array) -> Any:
        if type(x) is not Array:
            if type(x) is not cupy.ndarray:
                return before(x)
        elif x._c_contiguous and (n := x.size):
            dtype = x.dtype
            if n < PACKED_FROM:
                launch = launches.get(dtype)
                if launch is not None:
                    out = new(x.shape, out_dtype or dtype)
                    launch(n, (x, out, n))
                    return out
                _open(launches, formula.small, dtype, "v")
            elif not x.data.ptr & 15 and (way := _way(packs, formula, dtype, "v")) is not None:
                out = new(x.shape, out_dtype or dtype)
                way[0](-(-n // way[1]), (x, out, n))
                return out
        found = formula(x)
        return before(x) if found is None else found[0]

    return kernel


def _open(launches: dict[Any, Any], made: Any, dtype: DType, forms: str) -> None:
    """Put a launch where the short way finds it, unless there are several GPUs, to which launches belong."""
    if not several and (launch := made(dtype, forms)) is not None:
        launches[dtype] = launch


def _way(packs: dict[Any, Any], formula: Formula, dtype: DType, forms: str) -> Any:
    """Return the launch on large arrays, and how many elements a thread takes; None where there is none."""
    found = packs.get(dtype)
    if found is None:
        _open(packs, formula.large, dtype, forms)
        found = packs.get(dtype)
    return found


def _of_two(formula: Formula, before: Kernel) -> Kernel:
    both: dict[Any, Any] = {}
    first: dict[Any, Any] = {}
    both_packs: dict[Any, Any] = {}
    first_packs: dict[Any, Any] = {}
    out_dtype = np.dtype(formula.result) if formula.result else None

    def kernel(x: Array, y: Array) -> Any:
        if type(x) is Array:
            dtype = x.dtype
            if type(y) is Array:
                if dtype is y.dtype and x._c_contiguous and y._c_contiguous and (shape := x.shape) == y.shape:
                    n = x.size
                    if 0 < n < PACKED_FROM:
                        launch = both.get(dtype)
                        if launch is not None:
                            out = new(shape, out_dtype or dtype)
                            launch(n, (x, y, out, n))
                            return out
                        _open(both, formula.small, dtype, "vv")
                    elif (
                        n and not (x.data.ptr | y.data.ptr) & 15
                        and (way := _way(both_packs, formula, dtype, "vv")) is not None
                    ):  # fmt: skip
                        out = new(shape, out_dtype or dtype)
                        way[0](-(-n // way[1]), (x, y, out, n))
                        return out
            elif (type(y) is float or type(y) is int) and x._c_contiguous and (n := x.size):
                if n < PACKED_FROM:
                    launch = first.get(dtype)
                    if launch is not None:
                        out = new(x.shape, out_dtype or dtype)
                        launch(n, (x, float(y), out, n))
                        return out
                    _open(first, formula.small, dtype, "vs")
                elif not x.data.ptr & 15 and (way := _way(first_packs, formula, dtype, "vs")) is not None:
                    out = new(x.shape, out_dtype or dtype)
                    way[0](-(-n // way[1]), (x, float(y), out, n))
                    return out
        elif type(y) is not Array and type(x) is not cupy.ndarray and type(y) is not cupy.ndarray:
            return before(x, y)
        found = formula(x, y)
        return before(x, y) if found is None else found[0]

    return kernel


def _of_several(row: Row, before: Kernel) -> Kernel:
    """Return a kernel of any number of arrays and parameters."""
    choose = _chooser(row)
    arity = len(row.op.inputs)

    def kernel(*given: Array) -> Any:
        for v in given[:arity]:
            if type(v) is Array or type(v) is cupy.ndarray:
                break
        else:
            return before(*given)
        formula, operands = choose(given)
        found = None if formula is None else formula(*operands)
        return before(*given) if found is None else found[0]

    return kernel


def _chooser(row: Row) -> Callable[[Any], tuple[Formula | None, Sequence[Any]]]:
    """Return what gives the formula for a call's arguments, and its operands among them."""
    if not row.static:
        formula = row.formula()
        return lambda given: (formula, given)
    known: dict[Any, Formula | None] = {}
    fixed_at = [i for i, n in enumerate(row.arguments) if n in row.static]
    rest_at = [i for i, n in enumerate(row.arguments) if n not in row.static]

    def choose(given: Sequence[Array]) -> tuple[Formula | None, Sequence[Any]]:
        fixed = tuple([given[i] for i in fixed_at])
        try:
            found = known[fixed]
        except KeyError:
            found = known[fixed] = _formula_or_none(row, fixed) if len(known) < _MOST_VARIANTS else None
        except TypeError:  # what is not hashable, a tensor's array for instance
            return None, ()
        return found, [given[i] for i in rest_at]

    return choose


def _formula_or_none(row: Row, fixed: tuple[Any, ...]) -> Formula | None:
    try:
        return row.formula(fixed)
    except _UNTRACEABLE:
        return None


def into(row: Row, kernel: Kernel) -> Any:
    """Return what writes a primitive's value into its first argument, by the formula where that can be."""
    choose = _chooser(row)

    def into(x: Array, *rest: object) -> None:
        if type(x) is Array:
            formula, operands = choose((x, *rest))
            if formula is not None and formula.into(x, *operands):
                return
        x[...] = kernel(x, *rest)

    return into


# --- Gradients --------------------------------------------------------------------------------------


def direct(row: Row, kept: tuple[str, ...], before: Kernel) -> Kernel:
    """Return the rule of a primitive of one input that saves one value or none, as one launch where arrays allow."""
    if row.static or row.masks:
        return before
    gradient = row.gradient("x")
    if gradient is None or gradient.function is None:
        return before
    return (_of_two if kept else _of_one)(Formula(" ".join(("g", *kept)), cuda.text(gradient)), before)


def run(row: Row, kept: tuple[tuple[str, ...], ...], before: Kernel, fit_all: Kernel) -> Any:
    """Return a node's `run` that computes all gradients that are wanted in one launch where arrays allow.

    `kept` names what the rule of each input saves, `before` is the `run` that follows the rules, and `fit_all` brings
    gradients to their inputs' shapes and dtypes.
    """
    if not any(row.op.rules):
        return before
    places = {n: (i, _at(names, n)) for i, names in reversed(list(enumerate(kept))) for n in names}
    chosen = [places.get(n) for n in row.static]
    plans: dict[Any, Any] = {}

    def run(node: Node, g: Array, edges: tuple[Any, ...], saved: Sequence[Any]) -> Any:
        if type(g) is not Array:
            if type(g) is not cupy.ndarray:
                return before(node, g, edges, saved)
            g = adopt(g)
        if not (saved is None or type(saved) is tuple):
            return before(node, g, edges, saved)
        wanted = tuple([e is not None for e in edges])
        # Where both inputs are one tensor, its gradients are added in the same launch, unless a hook is to see them.
        twice = len(edges) == 2 and edges[0] is edges[1] and node.extra is None
        fixed = tuple([None if place is None else _kept(saved, *place) for place in chosen]) if chosen else ()
        try:
            plan = plans[wanted, twice, fixed]
        except KeyError:
            few = len(plans) < 4 * _MOST_VARIANTS
            plan = plans[wanted, twice, fixed] = _plan(row, kept, wanted, twice, fixed) if few else None
        except TypeError:  # a static parameter that is not hashable
            plan = None
        if plan is None:
            return before(node, g, edges, saved)
        formula, at, given = plan
        results: Any = None
        if formula is not None:
            results = formula(g, *[_kept(saved, *place) for place in at])
            if results is None:
                return before(node, g, edges, saved)
        results = [g if k == -1 else None if k is None else results[k] for k in given]
        return results if node.targets is None else fit_all(results, node.targets)

    return run


def _at(kept: tuple[str, ...], name: str) -> int | None:
    """Return where a rule finds a saved value: one that is saved alone stands by itself."""
    return kept.index(name) if len(kept) > 1 else None


def _kept(saved: Sequence[Any], i: int, j: int | None) -> Any:
    if saved is None or saved[i] is None:
        return None
    return saved[i] if j is None else saved[i][j]


def _plan(row: Row, kept: Any, wanted: tuple[bool, ...], twice: bool, fixed: tuple[Any, ...]) -> Any:
    """Return the formula of the wanted gradients, where its operands are saved, and which result each input gets.

    The latter is -1 for `g` itself and None for no gradient. No plan is found where an input's rule is no formula.
    """
    found: list[Symbol] = []
    given: list[int | None] = []
    places: dict[str, Any] = {}
    for i, (name, wants) in enumerate(zip(row.op.inputs, wanted, strict=True)):
        gradient = row.gradient(name, fixed) if wants else None
        if wants and gradient is None:
            return None
        itself = gradient is not None and gradient.function is None and gradient.name == "g"
        given.append(None if gradient is None else -1 if itself else len(found))
        if gradient is not None and not itself:
            found.append(gradient)
            for n in cuda.names([gradient]):
                if n != "g":
                    places.setdefault(n, (i, _at(kept[i], n)))
    if twice and len(found) == 2:
        found, given = [found[0] + found[1]], [0, None]
    texts = [cuda.text(gradient) for gradient in shared(found)]
    formula = Formula(" ".join(("g", *places)), *texts, masks=" ".join(row.masks)) if texts else None
    return formula, tuple(places.values()), tuple(given)


# --- Losses -----------------------------------------------------------------------------------------


def loss(op: Any) -> Kernel:
    """Return the kernel of a loss that is stated element by element, ``loss_p(x, y, reduction, option)``.

    By `reduction`, it returns the losses of all elements (0), their mean (1) or their sum (2).
    """
    before, element = op.kernel, op.kernel.elements[0]
    known: dict[Any, tuple[Formula, Total]] = {}

    def kernel(x: Array, y: Array, reduction: Any, option: Any) -> Any:
        if type(x) is not Array or before_checks(x, y):  # as tensors hold them
            return before(x, y, reduction, option)
        found = known.get(option)
        if found is None:
            formula = Formula("x y", cuda.text(element.forms.expression((option,))))
            found = known[option] = formula, Total(formula)
        formula, total = found
        if reduction == 0:
            results = formula(x, y)
            return before(x, y, reduction, option) if results is None else results[0]
        result = total(1 / max(x.size, 1) if reduction == 1 else 1.0, x, y)
        return before(x, y, reduction, option) if result is None else result

    def before_checks(x: Array, y: Array) -> bool:
        return op.name in _CHECKED

    return kernel


_CHECKED = ("binary_cross_entropy",)  # whose arguments are looked at first


def loss_run(op: Any) -> Kernel:
    """Return the `run` of a loss's nodes, with both gradients in one launch."""
    before, rules = op.run, op.kernel.elements[1:]
    known: dict[Any, Formula] = {}

    def made(wanted: tuple[bool, bool], option: Any) -> Formula:
        scaled = variable("g") * variable("scale")
        x, y = variable("x"), variable("y")
        found = [rule(scaled, x, y, option) for rule, wants in zip(rules, wanted, strict=True) if wants]
        return Formula("g x y scale", *[cuda.text(gradient) for gradient in shared(found)])

    def run(node: Node, g: Array, edges: tuple[Any, ...], saved: Sequence[Any]) -> Any:
        if (
            (type(g) is Array or type(g) is cupy.ndarray)
            and type(saved) is tuple
            and node.targets is None
            and any(edges)
        ):
            x, y, reduction, option = saved[0]
            wanted = (edges[0] is not None, edges[1] is not None)
            scale = 1 / max(x.size, 1) if reduction == 1 else 1.0
            formula = known.get((wanted, option)) or known.setdefault((wanted, option), made(wanted, option))
            results = formula(g, x, y, scale)
            if results is not None:
                return results if all(wanted) else (results[0], None) if wanted[0] else (None, results[0])
        return before(node, g, edges, saved)

    return run


# --- Operators --------------------------------------------------------------------------------------


def _declined(*operands: Array) -> None:
    return None


def _swapped(function: Kernel) -> Kernel:
    return lambda x, y: function(y, x)


_casts: dict[Any, Any] = {}  # by the dtypes from which and to which: a kernel, or None


def _cast_of(before: Any, after: Any) -> Any:
    """Return a kernel that converts arrays from floats and booleans to floats; None for other dtypes."""
    is_mask = before.kind == "b"
    if after.name not in FLOATS or before == after:
        return None
    formula = Formula("x", "x", masks="x" if is_mask else "", result=after.name)
    return formula if is_mask else _of_one(formula, _declined)


def _astype(x: Array, dtype: DType, *options: object, **named: object) -> Array:
    """Return an array converted to another dtype, by a formula from floats and booleans to floats."""
    if not options and (not named or named.keys() == {"copy"}):
        before, after = x.dtype, np.dtype(dtype)
        try:
            cast = _casts[before, after]
        except KeyError:
            cast = _casts[before, after] = _cast_of(before, after)
        found = cast and cast(x)
        if found is not None:
            return found[0] if type(found) is list else found
    return cupy.ndarray.astype(x, dtype, *options, **named)


_same = Formula("x", "x")


def _copy(x: Array, order: str = "C") -> Array:
    """Return a copy; CuPy's own takes three launches' time."""
    if order == "C" and not x._c_contiguous and x.size and x.itemsize in (1, 2, 4, 8, 16):
        out = Array(x.shape, x.dtype)
        if turn_into(out, x):
            return out
    found = _same(x) if x._c_contiguous else None
    return cupy.ndarray.copy(x, order) if found is None else found[0]


_ones = Formula("x", "1")


def ones_like(array: Any) -> Array:
    """Return ones in the shape and dtype of an array."""
    found = _ones(array) if type(array) is Array and array._c_contiguous else None
    if found is None:
        return (np if isinstance(array, np.ndarray) else cupy).ones(array.shape, array.dtype)
    return found[0]


_COUNTERS = Kernels(
    r"""
extern "C" __global__ void add(T* x, i64 by, i64 size) {
    i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
    if (i < size) x[i] += (T)by;
}
""",
    "T",
)


def _adding(into: Any) -> Any:
    """Return what adds in place; a whole number to integers too, as counters do in every step."""

    def add(out: Any, x: Any, y: Any) -> bool:
        if out is x and type(y) is int and out.dtype.char in "il" and out._c_contiguous and abs(y) < 1 << 31:
            if out.size:
                _COUNTERS.launch("add", (out.dtype.char,), -(-out.size // 256), 256, (out, y, out.size))
            return True
        return bool(into(out, x, y))

    return add


def _inplace(formula: Formula, usual: Any) -> Any:
    return lambda x, y: x if formula.into(x, x, y) else usual(x, y)


def _of_ufunc(ufunc: np.ufunc) -> Formula:
    function, names = by_ufunc[ufunc], ("x", "y")[: ufunc.nin]
    return Formula(" ".join(names), function.cuda.format(*names), result="bool" if function.boolean else "")


_OPERATORS = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "lt": np.less, "le": np.less_equal,
    "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal, "neg": np.negative,
    "abs": np.absolute,
}  # fmt: skip


# CuPy's own take booleans, which formulas do not.
_OF_BOOLEANS = (np.logical_and, np.logical_or, np.logical_xor, np.bitwise_and, np.bitwise_or, np.invert)


def _deferring(usual: Kernel) -> Kernel:
    """Return an operator of CuPy's that leaves tensors and payloads to their own operators, as NumPy's do."""

    def method(x: Array, y: Array) -> Array:
        if hasattr(y, "__array_ufunc__") and not isinstance(y, cupy.ndarray | np.ndarray | np.generic):
            return NotImplemented
        return usual(x, y)

    return method


def _install() -> None:
    """Put formulas behind the operators and ufuncs of arrays."""
    for ufunc in [f for f in by_ufunc if isinstance(f, np.ufunc) and f not in _OF_BOOLEANS]:
        formula = _of_ufunc(ufunc)
        operators[ufunc] = (_of_one if ufunc.nin == 1 else _of_two)(formula, _declined)
        writers[ufunc] = formula.into
    writers[np.add] = _adding(writers[np.add])
    for method in ("floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift"):
        setattr(Array, f"__{method}__", _deferring(getattr(cupy.ndarray, f"__{method}__")))
    for method, ufunc in _OPERATORS.items():
        formula, usual = _of_ufunc(ufunc), getattr(cupy.ndarray, f"__{method}__")
        own = _of_one(formula, usual) if ufunc.nin == 1 else _of_two(formula, _deferring(usual))
        setattr(Array, f"__{method}__", own)
        reflected = getattr(cupy.ndarray, f"__r{method}__", None)
        if reflected is not None:
            setattr(Array, f"__r{method}__", _swapped(_of_two(formula, _swapped(reflected))))
            setattr(Array, f"__i{method}__", _inplace(formula, getattr(cupy.ndarray, f"__i{method}__")))
    Array.astype, Array.copy = _astype, _copy  # type: ignore[method-assign]


_install()
