"""What a profile is made of: events with times, memory and place; their averages by name; as text."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ..notebook import preformatted

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "Interval"]


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


class Interval(NamedTuple):
    """A stretch of time, in microseconds."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        """Return how long it is."""
        return self.end - self.start


class FunctionEvent:
    """One call: of an op, of a node of the backward pass, of a module, or a range the program named.

    Times are in microseconds, memory in bytes. Self time is without the calls inside.
    """

    def __init__(self, name: str, start: float, kind: str, thread: int) -> None:
        self.id = 0
        self.name = self.key = name
        self.kind = kind  # "cpu_op", "backward", "module" or "user_annotation"
        self.time_range = Interval(start, start)
        self.thread = thread
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None
        self.input_shapes: list[Any] = []
        self.stack: list[str] = []
        self.module = ""
        self.place = ""
        self.self_cpu_memory_usage = 0
        self.count = 1
        self.is_async, self.is_remote = False, False

    @property
    def is_user_annotation(self) -> bool:
        """Whether the program named this range with `record_function`."""
        return self.kind == "user_annotation"

    @property
    def cpu_time_total(self) -> float:
        """How long the call took."""
        return self.time_range.elapsed_us()

    cpu_time = cpu_time_total

    @property
    def self_cpu_time_total(self) -> float:
        """How long the call took without the calls inside it."""
        return self.cpu_time_total - sum(c.cpu_time_total for c in self.cpu_children)

    @property
    def cpu_memory_usage(self) -> int:
        """How many bytes results of the call, and of the calls inside it, take."""
        return self.self_cpu_memory_usage + sum(c.cpu_memory_usage for c in self.cpu_children)

    def __repr__(self) -> str:
        return f"<FunctionEvent {self.name} {self.cpu_time_total:.1f}us at {self.place or 'an unknown line'}>"


class FunctionEventAvg:
    """All events of one name together."""

    def __init__(self, first: FunctionEvent) -> None:
        self.key, self.kind, self.input_shapes = first.key, first.kind, first.input_shapes
        self.stack, self.module = first.stack, first.module
        self.is_user_annotation = first.is_user_annotation
        self.count = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.device_time_total = self.self_device_time_total = 0.0
        self.flops = 0

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Add an event, or the average of others."""
        self.count += other.count
        self.self_cpu_time_total += other.self_cpu_time_total
        self.cpu_time_total += other.cpu_time_total
        self.self_cpu_memory_usage += other.self_cpu_memory_usage
        self.cpu_memory_usage += other.cpu_memory_usage
        return self

    __iadd__ = add

    @property
    def cpu_time(self) -> float:
        """How long one call took, on average."""
        return self.cpu_time_total / self.count if self.count else 0.0

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total:.3f}us "
            f"cpu_time={self.cpu_time:.3f}us count={self.count} input_shapes={self.input_shapes}>"
        )


class EventList(list[Any]):
    """Events in order of time, or averages."""

    def __init__(self, events: Iterable[Any] = (), *, profile_memory: bool = False, **_: Any) -> None:
        super().__init__(events)
        self.profile_memory = profile_memory

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all events together, none counted twice."""
        return float(sum(e.self_cpu_time_total for e in self))

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Return one average for each name; for each name and input shapes; for each name and innermost lines."""
        found: dict[Any, FunctionEventAvg] = {}
        for event in self:
            shapes = repr(event.input_shapes) if group_by_input_shape else ""
            key = (event.key, event.kind, shapes, tuple(event.stack[:group_by_stack_n]))
            if key not in found:
                found[key] = FunctionEventAvg(event)
                if not group_by_input_shape:
                    found[key].input_shapes = []
            # A call inside another of its name is in that one's total already.
            total = found[key]
            nested = _inside_its_own_name(event)
            total.count += 1
            total.self_cpu_time_total += event.self_cpu_time_total
            total.self_cpu_memory_usage += event.self_cpu_memory_usage
            total.cpu_time_total += 0.0 if nested else event.cpu_time_total
            total.cpu_memory_usage += 0 if nested else event.cpu_memory_usage
        return EventList(found.values(), profile_memory=self.profile_memory)

    def total_average(self) -> FunctionEventAvg:
        """Return all events as one."""
        total = FunctionEventAvg(FunctionEvent("Total", 0.0, "cpu_op", 0))
        for event in self:
            total.add(event)
        return total

    def _repr_html_(self) -> str:
        return preformatted("Profile", self.table(row_limit=20))

    def table(
        self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int = 75,
        max_name_column_width: int = 55, max_shapes_column_width: int = 80, header: str | None = None,
        top_level_events_only: bool = False, time_unit: str | None = None,
    ) -> str:  # fmt: skip
        """Return the events as a table, largest first by `sort_by`, ``"self_cpu_time_total"`` say."""
        rows = [e for e in self if not (top_level_events_only and getattr(e, "cpu_parent", None) is not None)]
        if sort_by is not None:
            rows.sort(key=lambda e: getattr(e, sort_by.replace("cuda_time", "device_time")), reverse=True)
        return table_of(
            rows[: row_limit if row_limit >= 0 else None], self.self_cpu_time_total, self.profile_memory,
            (max_name_column_width, max_shapes_column_width, max_src_column_width), header,
        )  # fmt: skip

    def export_chrome_trace(self, path: str) -> None:
        """Write the events as JSON that chrome://tracing and Perfetto open."""
        with open(path, "w") as file:
            json.dump(chrome_trace(self), file)

    def __str__(self) -> str:
        return self.table()


def _inside_its_own_name(event: Any) -> bool:
    parent = getattr(event, "cpu_parent", None)
    while parent is not None:
        if parent.key == event.key:
            return True
        parent = parent.cpu_parent
    return False


def chrome_trace(events: Iterable[FunctionEvent], metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return events in the format of Chrome's traces."""
    process = os.getpid()
    lines = []
    for e in events:
        args = {"Input Dims": e.input_shapes, "Module": e.module, "Line": e.place, "Bytes": e.self_cpu_memory_usage}
        lines.append(
            {
                "ph": "X", "cat": e.kind, "name": e.name, "pid": process, "tid": e.thread,
                "ts": round(e.time_range.start, 3), "dur": round(e.cpu_time_total, 3),
                "args": {k: v for k, v in args.items() if v},
            }
        )  # fmt: skip
    names = [{"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": "adjoint"}}]
    return {"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": [*names, *lines], **(metadata or {})}
