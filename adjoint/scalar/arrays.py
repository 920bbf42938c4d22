"""Formulas as passes over NumPy arrays: each function a ufunc call, each temporary written over when it is not needed.

`source` prints a function of arrays of one shape and dtype. Constants are 0-d arrays of that dtype, which ufuncs take
faster than Python's numbers. The text is ordinary Python that `pdb` steps through.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ..errors import own_files
from .functions import CHOOSE
from .symbol import Operand, Symbol, ordered

Array = np.ndarray


class Text:
    """The lines of a function of arrays, and what its names stand for."""

    def __init__(
        self,
        result: Symbol,
        names: Sequence[str],
        numbers: Collection[str],
        choose: Callable[..., object],
        sums: tuple[Callable[..., object], Callable[..., object]] | None = None,
    ) -> None:
        """Print an expression; with `sums` (of an array, and of the products of two) the sum of all its elements."""
        self.names, self.numbers, self.choose, self.sums = names, numbers, choose, sums
        self.lines: list[str] = []
        self.functions: dict[str, Callable[..., object]] = {}
        self.constants: dict[str, float] = {}
        self.nodes = [node for node in ordered([result]) if node.function is not None]
        self.uses = self._count_uses(result)
        self.places: dict[int, str] = {}  # where the value of a node is, by its number
        self.arrays: set[int] = set()  # the nodes whose values are arrays, and not numbers
        self.fresh = 0
        for node in self.nodes:
            self._write(node, last=node is result)
        if not self.nodes:  # an operand as it is
            self.functions["into"] = _into
            self.lines.append(f"return into(target, {result.name})")

    def _count_uses(self, result: Symbol) -> dict[int, int]:
        uses = {result.number: 1}
        for node in self.nodes:
            for operand in node.operands:
                if isinstance(operand, Symbol):
                    uses[operand.number] = uses.get(operand.number, 0) + 1
        return uses

    def _write(self, node: Symbol, last: bool) -> None:
        function = node.function
        assert function is not None
        if any(isinstance(v, Symbol) and self._is_array(v) for v in node.operands):
            self.arrays.add(node.number)
        name = function.name if function is not CHOOSE else "choose"
        self.functions[name] = self.choose if function is CHOOSE else function.arrays
        places = [self._place(v) for v in node.operands]
        for operand in node.operands:
            if isinstance(operand, Symbol):
                self.uses[operand.number] -= 1
        free = [p for v, p in zip(node.operands, places, strict=True) if self._is_free(v, p, node)]
        if last and self.sums is not None:
            self.functions["total"], self.functions["dot"] = self.sums
            two = name == "multiply" and all(isinstance(v, Symbol) and self._is_array(v) for v in node.operands)
            said = ", ".join(places)
            self.lines.append(f"return dot({said})" if two else f"return total({name}({said}))")
            return
        if last:
            if function.writes:
                target = f"{free[0]} if target is None else target" if free else "target"
                self.lines.append(f"return {name}({', '.join(places)}, out={target})")
            else:
                self.functions["into"] = _into
                self.lines.append(f"return into(target, {name}({', '.join(places)}))")
            return
        if free and function.writes:
            by_name = "out=" if name in ("maximum", "minimum") else ""  # NumPy wants it so, and takes longer
            self.lines.append(f"{name}({', '.join(places)}, {by_name}{free[0]})")
            self.places[node.number] = free[0]
            return
        self.fresh += 1
        target = self.places[node.number] = f"t{self.fresh}"
        self.lines.append(f"{target} = {name}({', '.join(places)})")

    def _is_free(self, operand: Operand, place: str, node: Symbol) -> bool:
        """Return whether an operand is a temporary of the result's kind that is not needed any more."""
        return (
            isinstance(operand, Symbol)
            and operand.number in self.arrays
            and not self.uses[operand.number]
            and operand.boolean == node.boolean
        )

    def _is_array(self, node: Symbol) -> bool:
        return node.number in self.arrays if node.function else node.name not in self.numbers

    def _place(self, operand: Operand) -> str:
        if not isinstance(operand, Symbol):
            name = f"c{len(self.constants)}"
            return next((n for n, v in self.constants.items() if repr(v) == repr(operand)), None) or self._constant(
                name, operand
            )
        return operand.name if operand.function is None else self.places[operand.number]

    def _constant(self, name: str, value: float) -> str:
        self.constants[name] = value
        return name

    def function(self, title: str, dtype: np.dtype) -> Callable[..., Array]:  # type: ignore[type-arg]
        """Return the function for arrays of a dtype; its last argument is the array to write to, or None."""
        text = f"def {title}({', '.join(self.names)}, target=None):\n" + "".join(f"    {line}\n" for line in self.lines)
        constants = {k: constant(v, dtype) for k, v in self.constants.items()}
        return defined(title, text, f"formula {title} {dtype.name}", {**self.functions, **constants})


def _into(target: Array | None, value: Array) -> Array:
    if target is None:
        return value
    target[...] = value
    return target


def defined(title: str, text: str, about: str, scope: Mapping[str, object]) -> Callable[..., Any]:
    """Return the function that a text of ours defines, under names that it uses; tracebacks and `pdb` show the text."""
    file = f"<adjoint {about}>"
    own_files.add(file)
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    names: dict[str, Any] = {"__name__": __name__, **scope}
    exec(compile(text, file, "exec"), names)  # noqa: S102 - printed from a formula of ours
    return names[title]  # type: ignore[no-any-return]


def constant(value: float, dtype: np.dtype) -> Array:  # type: ignore[type-arg]
    """Return a scalar as a 0-d array, which ufuncs take faster than Python's."""
    array = np.array(value, dtype)
    array.flags.writeable = False
    return array
