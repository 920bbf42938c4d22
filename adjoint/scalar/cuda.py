"""Formulas as CUDA C: ``const W t0 = ...`` for each step, then the expression of the result, with semicolons."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping

from .symbol import Number, Operand, Symbol, ordered


def text(result: Symbol) -> str:
    """Return the statements that compute an expression, and the expression itself, separated by semicolons."""
    steps, said = lines(result, "W")
    return "; ".join([*steps, said])


def lines(
    result: Symbol, kind: str, names: Mapping[str, str] | None = None, prefix: str = "t"
) -> tuple[list[str], str]:
    """Return declarations that compute an expression in a C type, and the text of the result.

    `names` has the texts of operands that are not called what they are in the expression; `prefix` begins the names of
    what is declared.
    """
    places: dict[int, str] = {}
    steps: list[str] = []
    for node in ordered([result]):
        if node.function is None:
            places[node.number] = node.name if names is None else names[node.name]
            continue
        said = node.function.cuda.format(*[_operand(v, places, kind) for v in node.operands])
        said = said if kind == "W" else _W.sub(f"{kind}(", said)
        if node is result:
            return steps, said
        places[node.number] = f"{prefix}{len(steps)}"
        steps.append(f"const {'bool' if node.boolean else kind} {places[node.number]} = {said}")
    return steps, places[result.number]


def names(results: Iterable[Symbol]) -> list[str]:
    """Return the names of the operands that expressions read."""
    return [node.name for node in ordered(results) if node.function is None]


_W = re.compile(r"\bW\(")


def _operand(operand: Operand, places: dict[int, str], kind: str) -> str:
    if isinstance(operand, Symbol):
        return places[operand.number]
    return constant(operand if isinstance(operand, bool) else float(operand), kind)


def constant(value: Number, kind: str) -> str:
    """Return a number in a C type."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return f"({kind})({value})"
    if math.isinf(value):
        return f"{kind}(INFINITY)" if value > 0 else f"{kind}(-INFINITY)"
    return f"{kind}(NAN)" if math.isnan(value) else f"{kind}({value!r})"
