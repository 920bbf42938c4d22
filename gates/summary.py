"""The line in which a gate sums a run up, and which `python -m gates` reads."""

from __future__ import annotations

import re

COUNTS = ("cases", "wrong", "lost", "hung", "crashed")
_LINE = re.compile(r"gate (\w+): " + ", ".join(rf"{name} (\d+)" for name in COUNTS))


def summary(name: str, cases: int, wrong: int = 0, lost: int = 0, hung: int = 0, crashed: int = 0) -> str:
    """Return the summary line of a gate."""
    counts = (cases, wrong, lost, hung, crashed)
    return f"gate {name}: " + ", ".join(f"{word} {n}" for word, n in zip(COUNTS, counts, strict=True))


def parsed(line: str) -> dict[str, int] | None:
    """Return the counts that a summary line has, or None for any other line."""
    found = _LINE.fullmatch(line.strip())
    return found and dict(zip(COUNTS, map(int, found.groups()[1:]), strict=True))
