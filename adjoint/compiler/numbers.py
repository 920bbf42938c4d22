"""Scalars that a captured program has read from its tensors, and that remember their origin.

``loss.item()`` in a captured program gives a `Reading`. Checks of its class see a float. Returned, it
is read again on every run; arithmetic with it is recorded; a comparison becomes a guard on its outcome. Reading
the value itself (text, `int()`, an index, a function written in C) makes it a guard on the value.

A subclass of float would not do: C code reads its value without calling a method.
"""

from __future__ import annotations

import gc
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .._typing import Array, DType
from .graph import GUARD, Line, Step, Value

_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {"add": operator.add, "sub": operator.sub, "mul": operator.mul}
_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip


def _double(array: Array) -> np.ndarray[Any, Any]:
    return np.array(array.item(), np.float64)


def _step(name: str, function: Callable[..., Any]) -> Step:
    return Step(f"number_{name}", lambda *numbers: np.asarray(function(*numbers)))


_item = Step("number", _double)
_divide = _step("truediv", operator.truediv)
_unary: dict[str, Callable[[Any], Any]] = {"neg": operator.neg, "abs": operator.abs}
_all: dict[str, Callable[..., Any]] = {**_ARITHMETIC, **_COMPARISONS, **_unary}
_steps = {name: _step(name, function) for name, function in _all.items()}


class Reading:
    """A number read from a tensor of a captured program."""

    __slots__ = ("__weakref__", "number", "tracer", "value")

    def __init__(self, tracer: Any, number: float, value: Value) -> None:
        self.tracer, self.number, self.value = tracer, number, value

    @classmethod
    def of(cls, tracer: Any, operand: Value, number: float) -> Reading:
        """Return the number that a value of one element is."""
        value = tracer.graph.value(np.array(number))
        tracer.graph.add(Line(_item, (operand,), (), (value,), *tracer.where()))
        return cls(tracer, number, value)

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return float

    # --- results that remember their origin ---

    def _made(self, step: Step, number: Any, *operands: Any) -> Reading:
        tracer = self.tracer
        given = [o.value if type(o) is Reading else float(o) for o in operands]
        value = tracer.graph.value(np.array(number))
        tracer.graph.add(Line(step, given, (), (value,), *tracer.where()))
        return Reading(tracer, number, value)

    def _is_live(self, other: object) -> bool:
        return self.tracer.is_on() and (type(other) in (int, float, bool) or type(other) is Reading)

    def __neg__(self) -> Any:
        return self._made(_steps["neg"], -self.number, self) if self.tracer.is_on() else -self.number

    def __abs__(self) -> Any:
        return self._made(_steps["abs"], abs(self.number), self) if self.tracer.is_on() else abs(self.number)

    def __pos__(self) -> Reading:
        return self

    def __truediv__(self, other: Any) -> Any:
        number = plain(other)
        if self._is_live(other) and type(other) is not Reading and number:  # a divisor that may be 0 is looked at
            return self._made(_divide, self.number / number, self, other)
        return _operated(operator.truediv, self, other)

    # --- what looks at the value ---

    def look(self) -> float:
        """Return the number itself: the program holds only where it is the same again."""
        if self.tracer.is_on():
            line = Line(GUARD, (self.value,), ("item()", self.number), (), *self.tracer.where())
            self.tracer.graph.add(line)
        return self.number

    def _compare(self, name: str, other: object) -> object:
        if not self._is_live(other):
            return _operated(_COMPARISONS[name], self, other)
        outcome = _COMPARISONS[name](self.number, plain(other))
        made = self._made(_steps[name], outcome, self, other).value
        self.tracer.graph.add(Line(GUARD, (made,), ("bool()", outcome), (), *self.tracer.where()))
        return outcome

    def __bool__(self) -> bool:
        return bool(self._compare("ne", 0.0))

    def __hash__(self) -> int:
        return hash(self.look())

    def __array__(self, dtype: DType | None = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self.look(), dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return float, (self.look(),)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.look(), name)


def plain(value: object) -> Any:
    """Return a number as Python's own."""
    return value.number if type(value) is Reading else value


def looked_at(value: object) -> object:
    """Return a value, a reading as the number that it is."""
    return value.look() if type(value) is Reading else value


def _operated(function: Callable[..., Any], *values: object) -> Any:
    return function(*map(looked_at, values))


def _arithmetic(name: str, turned: bool) -> Callable[[Reading, Any], Any]:
    function = _ARITHMETIC[name]

    def method(self: Reading, other: object) -> Any:
        pair = (other, self) if turned else (self, other)
        if not isinstance(other, int | float):
            return NotImplemented
        if not self._is_live(other):
            return _operated(function, *pair)
        return self._made(_steps[name], function(*map(plain, pair)), *pair)

    return method


def _looking(name: str) -> Callable[..., Any]:
    def method(self: Reading, *others: object) -> Any:
        return getattr(float, name)(self.look(), *map(looked_at, others))

    return method


def _comparing(name: str) -> Callable[[Reading, Any], Any]:
    return lambda self, other: self._compare(name, other)


for _name in _ARITHMETIC:
    setattr(Reading, f"__{_name}__", _arithmetic(_name, False))
    setattr(Reading, f"__r{_name}__", _arithmetic(_name, True))
for _name in _COMPARISONS:
    setattr(Reading, f"__{_name}__", _comparing(_name))
for _name in (
    "int", "float", "repr", "str", "format", "round", "trunc", "floor", "ceil", "floordiv", "rfloordiv", "mod", "rmod",
    "pow", "rpow", "divmod", "rdivmod", "rtruediv",
):  # fmt: skip
    setattr(Reading, f"__{_name}__", _looking(f"__{_name}__"))


def settle(readings: list[Any]) -> None:
    """Replace readings that a program has stored by Python scalars: in lists, tables and attributes."""
    for reading in readings:
        for holder in gc.get_referrers(reading):
            if isinstance(holder, list) and holder is not readings:
                holder[:] = [plain(v) for v in holder]
                continue
            table = holder if isinstance(holder, dict) else getattr(holder, "__dict__", None)
            if isinstance(table, dict) and not isinstance(holder, type):
                table.update({k: plain(v) for k, v in table.items() if type(v) is Reading})
