"""`explain`: a text about how a function was compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .compiled import Compiled
from .fusion import Region
from .graph import GUARD, Line, Value
from .program import Program

__all__ = ["Explanation", "explain"]


class Explanation:
    """What `explain` found: numbers as attributes, the whole as text."""

    def __init__(self, compiled: Compiled) -> None:
        self.refused = compiled.refused
        self.reasons = list(compiled.reasons)
        self.programs = [part for t in compiled.traces for part in _parts(t)]
        self.guards = [
            [*(f.name for f in t.surroundings.facts), *(f"argument {i}" for i in range(len(t.signature.parts)))]
            for t in compiled.traces
        ]
        self.breaks = [str(m) for p in self.programs for m in p.graph.lines if m.op is GUARD]
        self.loops = sum(len(set(p.sources)) for p in self.programs)

    def __str__(self) -> str:
        lines = [f"{len(self.programs)} programs"]
        if self.refused:
            lines.append(f"runs uncompiled: {self.refused}")
        for number, program in enumerate(self.programs):
            before, after = traffic(program)
            calls = sum(1 for call in program.body if not isinstance(call, str) or "(" in call)
            lines += [
                f"program {number}: {program.before} primitives became {calls} calls, {len(set(program.sources))} "
                "different loops among them",
                f"    memory traffic {_bytes(before)} before fusion, {_bytes(after)} after",
            ]
        lines += [f"captured again because {why}" for why in self.reasons]
        lines += [f"a value decides the way: {text}" for text in self.breaks]
        for number, names in enumerate(self.guards):
            shown = ", ".join(names[:12])
            lines.append(f"guards of way {number} ({len(names)}): {shown}{', ...' if len(names) > 12 else ''}")
        return "\n".join(lines)

    __repr__ = __str__


def explain(function: Callable[..., Any]) -> Callable[..., Explanation]:
    """Return a function that calls `function` and says how it was compiled: programs, guards, loops, memory traffic.

    Examples
    --------
    >>> def norm(x):
    ...     return (x * x).sum().sqrt()
    >>> print(adjoint.compiler.explain(norm)(adjoint.ones(3)))  # doctest: +ELLIPSIS
    1 programs
    program 0: 3 primitives became ...
    """

    def explained(*args: Any, **kwargs: Any) -> Explanation:
        compiled = function if isinstance(function, Compiled) else Compiled(function)
        for _ in range(3):  # state is made, then ways are found, then taken
            compiled(*args, **kwargs)
        return Explanation(compiled)

    return explained


def _parts(trace: Any) -> list[Program]:
    return [trace.ahead, trace.behind] if hasattr(trace, "behind") else [trace.program]


def traffic(program: Program) -> tuple[int, int]:
    """Return the bytes that a program would move line by line, and those that it moves."""
    before = sum(_moved(m.inputs, m.outputs) for m in program.graph.lines if m.is_call and not _is_view(m))
    after = 0
    for unit in program.fusion.units:
        if isinstance(unit, Region):
            after += _moved(unit.inputs(), unit.outputs)
        elif unit.is_call:
            after += _moved(unit.inputs, unit.outputs)
    return before, after


def _moved(inputs: Sequence[Any], outputs: Sequence[Any]) -> int:
    return sum(v.nbytes for v in (*inputs, *outputs) if isinstance(v, Value))


def _is_view(line: Line) -> bool:
    return bool(getattr(line.op, "view", False))


def _bytes(count: int) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024  # type: ignore[assignment]
    return f"{count:.1f} GiB"
