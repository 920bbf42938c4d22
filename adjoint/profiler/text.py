"""A profile as text: the table, and times and bytes in units that one can read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def time_text(us: float) -> str:
    """Return a time in microseconds with a fitting unit."""
    if abs(us) >= 1e6:
        return f"{us / 1e6:.3f}s"
    return f"{us / 1e3:.3f}ms" if abs(us) >= 1e3 else f"{us:.3f}us"


def bytes_text(count: float) -> str:
    """Return a number of bytes with a fitting unit."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(count) >= size:
            return f"{count / size:.2f} {unit}"
    return f"{count:.0f} B"


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole if whole else 0:.2f}%"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: max(width - 3, 0)] + "..."


def table_of(
    rows: Sequence[Any], total: float, memory: bool, widths: tuple[int, int, int], header: str | None = None
) -> str:
    """Return rows of a profile as a table."""
    titles = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg"]
    titles += ["CPU Mem", "Self CPU Mem"] if memory else []
    titles += ["# of Calls"]
    shapes = any(r.input_shapes for r in rows)
    modules = any(r.module for r in rows)
    stacks = any(r.stack for r in rows)
    titles += ["Input Shapes"] * shapes + ["Module"] * modules + ["Source Location"] * stacks
    body = []
    for r in rows:
        cells = [
            _cut(r.key, widths[0]), _share(r.self_cpu_time_total, total), time_text(r.self_cpu_time_total),
            _share(r.cpu_time_total, total), time_text(r.cpu_time_total), time_text(r.cpu_time_total / max(r.count, 1)),
        ]  # fmt: skip
        cells += [bytes_text(r.cpu_memory_usage), bytes_text(r.self_cpu_memory_usage)] if memory else []
        cells += [str(r.count)]
        cells += [_cut(str(r.input_shapes), widths[1])] * shapes + [r.module] * modules
        cells += [_cut(r.stack[0] if r.stack else "", widths[2])] * stacks
        body.append(cells)
    columns = [max(map(len, column)) for column in zip(titles, *body, strict=True)]
    rule = "  ".join("-" * w for w in columns)
    lines = [rule, _row(titles, columns), rule, *(_row(cells, columns) for cells in body), rule]
    top = [header] if header else []
    return "\n".join([*top, *lines, f"Self CPU time total: {time_text(total)}", ""])


def _row(cells: Sequence[str], columns: Sequence[int]) -> str:
    return "  ".join(c.rjust(w) for c, w in zip(cells, columns, strict=True))
