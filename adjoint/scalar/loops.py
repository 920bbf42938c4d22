"""Formulas as the text of a compiled CPU loop: one function of scalars, which Numba inlines into the loop around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from .symbol import Operand, Symbol, ordered


def lines(
    results: Sequence[Symbol],
    dtype: np.dtype,
    names: Mapping[str, str] | None = None,
    prefix: str = "t",  # type: ignore[type-arg]
    *,
    vector: bool = True,
) -> tuple[list[str], list[str]]:
    """Return assignments that compute expressions in a dtype, and the texts of the results.

    `names` has the texts of operands that are not called what they are in the expressions; `prefix` begins the names of
    what is assigned. What is not computed in a `vector` loop calls libm, as all of double precision does.
    """
    places: dict[int, str] = {}
    kind = f"np.{dtype.name}"
    words = {"w": str(8 * dtype.itemsize) if vector else "64", "zero": f"{kind}(0)", "one": f"{kind}(1)"}
    last = {node.number for node in results}
    assignments: list[str] = []
    for node in ordered(results):
        if node.function is None:
            places[node.number] = node.name if names is None else names[node.name]
            continue
        operands = [_operand(v, places, kind) for v in node.operands]
        text = node.function.loop.format(*operands, **words)
        if names is not None and len(last) == 1 and node.number in last:
            places[node.number] = text
        else:
            places[node.number] = f"{prefix}{len(assignments)}"
            assignments.append(f"{places[node.number]} = {text}")
    return assignments, [places[node.number] for node in results]


def _operand(operand: Operand, places: dict[int, str], kind: str) -> str:
    if isinstance(operand, Symbol):
        return places[operand.number]
    if isinstance(operand, bool):
        return repr(operand)
    value = float(operand)
    return (
        f"{kind}({value!r})"
        if np.isfinite(value)
        else f"{kind}({'-' * (value < 0)}np.{'inf' if value == value else 'nan'})"
    )
