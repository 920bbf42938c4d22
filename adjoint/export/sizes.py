"""Sizes that differ from call to call: what programs call them, and what each follows from.

A program is captured at several sizes of its dynamic axes. A number that differs between these runs is a vector, one
number for each run; `Solver` says which axis of which value, or which arithmetic of such sizes, gives that vector.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

__all__ = ["Dim", "DimHint", "Expression", "Solver", "Varying", "dims", "evaluate"]

# An int; ("axis", number of a value, axis); ("add", a, b), ("mul", a, b), ("floordiv", a, b)
Expression: TypeAlias = Any
_MOST_STEPS = 33  # the largest divisor that is tried, as of strides and patches


class Dim:
    """A size that may differ from call to call, between two bounds.

    Examples
    --------
    >>> batch = adjoint.export.Dim("batch", min=1, max=64)
    >>> 2 * batch
    <class 'adjoint.export.Dim 2*batch'>
    """

    AUTO: Any
    DYNAMIC: Any
    STATIC: Any

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if min is not None and max is not None and max < min:
            raise ValueError(f"Dim {name!r}: max {max} is less than min {min}")
        self.__name__, self.min, self.max = name, min, max
        self.root, self.factor, self.offset = self, 1, 0
        self.optional = False  # static where the program does not allow that it differs

    def _derived(self, factor: int, offset: int, name: str) -> Dim:
        made = Dim(name)
        made.root, made.factor, made.offset = self.root, factor, offset
        return made

    def __mul__(self, other: int) -> Dim:
        return self._derived(self.factor * other, self.offset * other, f"{other}*{self.__name__}")

    __rmul__ = __mul__

    def __add__(self, other: int) -> Dim:
        return self._derived(self.factor, self.offset + other, f"{self.__name__} + {other}")

    __radd__ = __add__

    def __sub__(self, other: int) -> Dim:
        return self._derived(self.factor, self.offset - other, f"{self.__name__} - {other}")

    def size(self, of_root: int) -> int:
        """Return this size where the one it derives from is `of_root`."""
        return self.factor * of_root + self.offset

    def root_of(self, size: int) -> int | None:
        """Return the size of the one it derives from, if that gives `size`."""
        root, left = divmod(size - self.offset, self.factor)
        return None if left else root

    def __repr__(self) -> str:
        return f"<class 'adjoint.export.Dim {self.__name__}'>"


class DimHint:
    """What is said of an axis without a name: dynamic if the program allows it (AUTO), dynamic, or not.

    Called with ``min`` and ``max``, it returns one with these bounds.
    """

    def __init__(self, kind: str, min: int | None = None, max: int | None = None) -> None:
        self.kind, self.min, self.max = kind, min, max

    def __call__(self, min: int | None = None, max: int | None = None) -> DimHint:
        """Return a hint with bounds."""
        if self.kind == "STATIC":
            raise TypeError("Dim.STATIC takes no bounds: an axis that is static has the size of the example")
        return DimHint(self.kind, min, max)

    def dim(self, name: str) -> Dim:
        """Return the size that an axis of this hint has, under a name of its own."""
        made = Dim(name, min=self.min, max=self.max)
        made.optional = self.kind == "AUTO"
        return made

    def __repr__(self) -> str:
        return f"Dim.{self.kind}"


Dim.AUTO, Dim.DYNAMIC, Dim.STATIC = DimHint("AUTO"), DimHint("DYNAMIC"), DimHint("STATIC")


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Return several sizes with the same bounds.

    Examples
    --------
    >>> batch, time = adjoint.export.dims("batch", "time", max=64)
    """
    return tuple(Dim(name, min=min, max=max) for name in names)


class Varying:
    """What differed between the runs of a program: one value for each, and for a number what it follows from."""

    __slots__ = ("expression", "values")

    def __init__(self, values: Sequence[Any], expression: Expression = None) -> None:
        self.values, self.expression = tuple(values), expression

    def __repr__(self) -> str:
        return f"Varying{self.values}"


class Solver:
    """Finds what a number that differs between runs follows from."""

    def __init__(self) -> None:
        self.axes: dict[tuple[int, ...], tuple[int, int]] = {}  # the first value and axis of each vector
        self.inputs: list[tuple[tuple[int, ...], Expression]] = []
        self.suggested: dict[tuple[int, ...], Expression] = {}  # of the line that is being merged
        self.exact = False  # whether a quotient was suggested
        self.quotients: set[tuple[int, int, int]] = set()  # input, axis and divisor of those that were found

    def know(self, number: int, shape: Sequence[Any], is_input: bool = False) -> None:
        """Take in the shape of a value, its sizes ints or `Varying`."""
        for axis, size in enumerate(shape):
            if isinstance(size, Varying):
                if size.values not in self.axes and is_input:
                    self.inputs.append((size.values, ("axis", number, axis)))
                self.axes.setdefault(size.values, (number, axis))

    def suggest(self, windows: tuple[int, ...], lengths: tuple[int, ...], axis: Expression, step: int, by: int) -> None:
        """Note how a number of windows follows from the length of an axis, where one of the two ways gives it."""
        for more in (by, by + step - 1):  # rounded down, or up
            if all(n == (x + more) // step + 1 for n, x in zip(windows, lengths, strict=True)):
                said = _plus(axis, more)
                self.suggested[windows] = _plus(said if step == 1 else ("floordiv", said, step), 1)
                self.exact |= step > 1
                return

    def solve(self, vector: tuple[int, ...]) -> Expression | None:
        """Return an expression that has these values, or None."""
        if all(v == vector[0] for v in vector):
            return vector[0]
        if vector in self.suggested:
            return self.suggested[vector]
        if vector in self.axes:
            return ("axis", *self.axes[vector])
        known = [(values, ("axis", *place)) for values, place in self.axes.items()]
        distinct = [pair for pair in known if len(set(pair[0])) > 2]  # through two points goes any line
        for base in (self.inputs, distinct):
            found = next(self._affine(vector, base), None) or next(self._products(vector, base), None)
            if found is not None:
                return found
        return next(self._quotients(vector, self.inputs), None)

    def _affine(self, vector: tuple[int, ...], base: Any) -> Iterator[Expression]:
        for values, said in base:
            scale = _slope(vector, values)
            if scale:
                yield _plus(_times(said, scale), vector[0] - scale * values[0])
        for i, (a, first) in enumerate(base):
            for b, second in base[i + 1 :]:
                for sign in (1, -1):
                    left = {v - x - sign * y for v, x, y in zip(vector, a, b, strict=True)}
                    if len(left) == 1:
                        yield _plus(("add", first, _times(second, sign)), left.pop())

    def _products(self, vector: tuple[int, ...], base: Any) -> Iterator[Expression]:
        for i, (a, first) in enumerate(base):
            for b, second in base[i:]:
                both = [x * y for x, y in zip(a, b, strict=True)]
                quotients = {v // p if p and v % p == 0 else None for v, p in zip(vector, both, strict=True)}
                if len(quotients) == 1 and None not in quotients:
                    yield _times(("mul", first, second), quotients.pop() or 0)

    def _quotients(self, vector: tuple[int, ...], base: Any) -> Iterator[Expression]:
        """Yield how sizes of windows and strides follow: ``(size + a) // b + c``."""
        for values, said in base:
            for step in range(2, _MOST_STEPS):
                for shift in range(-step, step):
                    left = {v - (x + shift) // step for v, x in zip(vector, values, strict=True)}
                    if len(left) == 1:
                        self.quotients.add((said[1], said[2], step))
                        yield _plus(("floordiv", _plus(said, shift), step), left.pop())


def _slope(vector: tuple[int, ...], values: tuple[int, ...]) -> int:
    """Return a where vector is ``a * values + b``, else 0."""
    pairs = [(v - vector[0], x - values[0]) for v, x in zip(vector, values, strict=True)]
    scale = next((v // x for v, x in pairs if x and v % x == 0), 0)
    return scale if all(v == scale * x for v, x in pairs) else 0


def _plus(expression: Expression, number: int) -> Expression:
    return expression if number == 0 else ("add", expression, number)


def _times(expression: Expression, number: int) -> Expression:
    return expression if number == 1 else ("mul", expression, number)


_OPERATIONS = {"add": lambda a, b: a + b, "mul": lambda a, b: a * b, "floordiv": lambda a, b: a // b}


def evaluate(expression: Expression, shapes: Mapping[int, Sequence[int]]) -> int:
    """Return the value of an expression, given the shapes of values by their numbers."""
    if isinstance(expression, int):
        return expression
    kind, a, b = expression
    if kind == "axis":
        return int(shapes[a][b])
    return _OPERATIONS[kind](evaluate(a, shapes), evaluate(b, shapes))


def near(size: int, dim: Dim) -> Iterator[tuple[int, int]]:
    """Yield pairs of other sizes to run a program at, likeliest first, within the bounds of the one it derives from."""
    low, high = dim.min if dim.min is not None else 2, dim.max if dim.max is not None else math.inf
    for a, b in ((1, 3), (-1, -2), (2, 5), (size, 3 * size), (-1, 1)):
        first, second = size + a, size + b
        if max(low, 2) <= min(first, second) and max(first, second) <= high:
            yield first, second
