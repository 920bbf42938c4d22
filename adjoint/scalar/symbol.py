"""Symbol: a scalar that writes down what is done to it.

>>> x = variable("x")
>>> np.exp(-x) + 1
add(exp(negative(x)), 1)
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

import numpy as np

Number: TypeAlias = float | int | bool

by_name: dict[str, Function] = {}  # filled by functions.py, and by kernels of functions that NumPy has not
by_ufunc: dict[object, Function] = {}
_counter = itertools.count()


class Function:
    """A named scalar function: how NumPy, a compiled CPU loop and CUDA C say it."""

    __slots__ = ("__name__", "__wrapped__", "arrays", "boolean", "cuda", "loop", "name", "writes")

    def __init__(self, name: str, arrays: Callable[..., Any], loop: str, cuda: str, boolean: bool = False) -> None:
        self.name = self.__name__ = name
        self.arrays = self.__wrapped__ = arrays  # on NumPy arrays
        self.loop, self.cuda, self.boolean = loop, cuda, boolean
        self.writes = isinstance(arrays, np.ufunc)  # to an array that it is given
        by_name[name] = by_ufunc[arrays] = self

    def __call__(self, *operands: Any) -> Any:
        """Compute the function of arrays; of symbols, write it down."""
        if any(type(v) is Symbol for v in operands):
            return apply(self, *operands)
        return self.arrays(*operands)

    def __repr__(self) -> str:
        return self.name


class Symbol:
    """A node of an expression: a variable, or a named scalar function of other nodes and constants."""

    __slots__ = ("boolean", "function", "name", "number", "operands")
    # Kernels that look take it for a scalar of double precision.
    size, ndim, shape, dtype = 0, 0, (), np.dtype(np.float64)

    function: Function | None  # None: a variable
    operands: tuple[Operand, ...]

    def __init__(self, name: str, function: Function | None = None, operands: tuple[Operand, ...] = ()) -> None:
        self.name, self.function, self.operands = name, function, operands
        self.boolean = function is not None and function.boolean
        self.number = next(_counter)  # operands come before what is computed of them

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Operand, **options: object) -> Symbol:
        function = by_ufunc.get(ufunc)
        if function is None or method != "__call__" or options:
            raise Untraceable(f"{ufunc.__name__} is not among the named scalar functions (adjoint/scalar/functions.py)")
        return apply(function, *inputs)

    def __array_function__(self, function: object, types: object, args: tuple[Operand, ...], kwargs: object) -> Symbol:
        known = by_ufunc.get(function)
        if known is not None:
            return apply(known, *args)
        raise Untraceable(f"{getattr(function, '__name__', function)} is no function of scalars")

    def __add__(self, other: Operand) -> Symbol:
        return apply(by_name["add"], self, other)

    def __radd__(self, other: Operand) -> Symbol:
        return apply(by_name["add"], other, self)

    def __sub__(self, other: Operand) -> Symbol:
        return apply(by_name["subtract"], self, other)

    def __rsub__(self, other: Operand) -> Symbol:
        return apply(by_name["subtract"], other, self)

    def __mul__(self, other: Operand) -> Symbol:
        return apply(by_name["multiply"], self, other)

    def __rmul__(self, other: Operand) -> Symbol:
        return apply(by_name["multiply"], other, self)

    def __truediv__(self, other: Operand) -> Symbol:
        return apply(by_name["divide"], self, other)

    def __rtruediv__(self, other: Operand) -> Symbol:
        return apply(by_name["divide"], other, self)

    def __pow__(self, other: Operand) -> Symbol:
        return apply(by_name["power"], self, other)

    def __rpow__(self, other: Operand) -> Symbol:
        return apply(by_name["power"], other, self)

    def __neg__(self) -> Symbol:
        return apply(by_name["negative"], self)

    def __abs__(self) -> Symbol:
        return apply(by_name["absolute"], self)

    def __lt__(self, other: Operand) -> Symbol:
        return apply(by_name["less"], self, other)

    def __le__(self, other: Operand) -> Symbol:
        return apply(by_name["less_equal"], self, other)

    def __gt__(self, other: Operand) -> Symbol:
        return apply(by_name["greater"], self, other)

    def __ge__(self, other: Operand) -> Symbol:
        return apply(by_name["greater_equal"], self, other)

    def __eq__(self, other: Operand) -> Symbol:  # type: ignore[override]
        return apply(by_name["equal"], self, other)

    def __ne__(self, other: Operand) -> Symbol:  # type: ignore[override]
        return apply(by_name["not_equal"], self, other)

    def __and__(self, other: Operand) -> Symbol:
        return apply(by_name["logical_and"], self, other)

    def __or__(self, other: Operand) -> Symbol:
        return apply(by_name["logical_or"], self, other)

    def __invert__(self) -> Symbol:
        return apply(by_name["logical_not"], self)

    def __bool__(self) -> bool:
        raise Untraceable("a formula must not branch on data: choose with np.where")

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.operands))})" if self.operands else self.name


Operand: TypeAlias = Symbol | Number


class Untraceable(TypeError):
    """A function cannot be read as a formula of scalars."""


def variable(name: str, *, boolean: bool = False) -> Symbol:
    """Return a symbol that stands for an operand."""
    found = Symbol(name)
    found.boolean = boolean
    return found


def apply(function: Function, *operands: Operand) -> Symbol:
    """Return a function of symbols and constants."""
    for operand in operands:
        if not isinstance(operand, Symbol | float | int | np.floating | np.integer | np.bool_):
            raise Untraceable(f"{function.name} of a {type(operand).__name__}, which is no scalar")
    given = tuple(v if isinstance(v, Symbol) else v.item() if isinstance(v, np.generic) else v for v in operands)
    if function.name.startswith("logical_"):  # of numbers: of whether they are not 0
        given = tuple(v if not isinstance(v, Symbol) or v.boolean else v != 0 for v in given)
    alone = _without_one(function.name, given)
    return Symbol(function.name, function, given) if alone is None else alone


def _without_one(name: str, operands: tuple[Operand, ...]) -> Symbol | None:
    """Return the other operand of a multiplication by one, or a division by it."""
    if name not in ("multiply", "divide"):
        return None
    x, y = operands
    if isinstance(x, Symbol) and not isinstance(y, Symbol) and y == 1:
        return x
    return y if name == "multiply" and isinstance(y, Symbol) and not isinstance(x, Symbol) and x == 1 else None


def trace(formula: Callable[..., Operand], names: Iterable[str], booleans: Iterable[str] = ()) -> Symbol:
    """Return the expression that a formula computes of operands with these names."""
    masks = frozenset(booleans)
    result = formula(*[variable(name, boolean=name in masks) for name in names])
    return shared([result if isinstance(result, Symbol) else apply(by_name["add"], result, 0)])[0]


def shared(results: Iterable[Symbol]) -> list[Symbol]:
    """Return expressions in which what is computed twice is one node."""
    known: dict[object, Symbol] = {}
    merged: dict[int, Symbol] = {}
    given = list(results)
    for node in ordered(given):
        operands = tuple(merged[v.number] if isinstance(v, Symbol) else v for v in node.operands)
        key = (node.name, node.function is None, *(_key(v) for v in operands))
        found = known.get(key)
        if found is None:
            found = known[key] = Symbol(node.name, node.function, operands)
            found.boolean = node.boolean
        merged[node.number] = found
    return [merged[node.number] for node in given]


def _key(operand: Operand) -> object:
    return ("node", operand.number) if isinstance(operand, Symbol) else (type(operand), repr(operand))


def ordered(results: Iterable[Symbol]) -> list[Symbol]:
    """Return every node of some expressions, operands first."""
    found: dict[int, Symbol] = {}
    pending = list(results)
    while pending:
        node = pending.pop()
        if node.number not in found:
            found[node.number] = node
            pending.extend(v for v in node.operands if isinstance(v, Symbol))
    return [found[number] for number in sorted(found)]
