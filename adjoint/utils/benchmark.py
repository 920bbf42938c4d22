"""Timing snippets of code, as ``torch.utils.benchmark`` does: `Timer`, `Measurement`, and tables by `Compare`."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import statistics
import sys
import textwrap
import time
import timeit
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .. import settings
from ..devices.contract import by_class

__all__ = ["Compare", "Measurement", "TaskSpec", "Timer", "select_unit", "timer", "unit_to_english"]

_UNITS = (("ns", 1e-9, "nanosecond"), ("us", 1e-6, "microsecond"), ("ms", 1e-3, "millisecond"), ("s", 1.0, "second"))
_NOISY = 0.1  # of the median: an interquartile range above says that something else was going on


def timer() -> float:
    """Return the time in seconds, once every device has finished what it was given."""
    for each in set(by_class.values()):
        each.synchronize()
    return time.perf_counter()


def select_unit(t: float) -> tuple[str, float]:
    """Return the unit in which a time reads well, and its seconds."""
    return next(((u, s) for u, s, _ in reversed(_UNITS) if t >= s), _UNITS[0][:2])


def unit_to_english(u: str) -> str:
    """Return a unit's name."""
    return next(name for unit, _, name in _UNITS if unit == u)


@contextlib.contextmanager
def set_torch_threads(n: int) -> Iterator[None]:
    """Set the number of threads inside this context."""
    before = settings.get_num_threads()
    settings.set_num_threads(n)
    try:
        yield
    finally:
        settings.set_num_threads(before)


@dataclasses.dataclass(frozen=True)
class TaskSpec:
    """What was timed, and what it is called in tables."""

    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """The label, or the statement."""
        if self.label is not None:
            return self.label + (f": {self.sub_label}" if self.sub_label else "")
        return self.stmt if "\n" not in self.stmt else f"stmt:\n{self.stmt}"


@dataclasses.dataclass
class Measurement:
    """Times of a snippet."""

    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name in ("stmt", "setup", "label", "sub_label", "description", "env", "num_threads", "title"):
            return getattr(self.task_spec, name)
        raise AttributeError(name)

    @property
    def times(self) -> list[float]:
        """Seconds per call, of each run."""
        return [t / self.number_per_run for t in self.raw_times]

    @property
    def median(self) -> float:
        """The median time per call."""
        return statistics.median(self.times)

    @property
    def mean(self) -> float:
        """The mean time per call."""
        return statistics.fmean(self.times)

    @property
    def iqr(self) -> float:
        """The interquartile range of the times."""
        low, high = self._quarters()
        return high - low

    def _quarters(self) -> tuple[float, float]:
        if len(self.times) < 2:
            return self.times[0], self.times[0]
        low, _, high = statistics.quantiles(self.times, n=4, method="inclusive")
        return low, high

    @property
    def significant_figures(self) -> int:
        """How many digits of the median can be trusted, 1 to 5."""
        spread = max(self.iqr / max(len(self.times), 1) ** 0.5, 1e-12 * self.median, 1e-15)
        return max(1, min(5, math.floor(math.log10(max(self.median, 1e-15) / spread)) + 1))

    @property
    def has_warnings(self) -> bool:
        """Whether the times vary too much."""
        return self.iqr > _NOISY * self.median

    def meets_confidence(self, threshold: float = _NOISY) -> bool:
        """Return whether the times agree well."""
        return len(self.times) >= 4 and self.iqr / self.median < threshold

    @property
    def as_row_name(self) -> str:
        """What the row of a table is called."""
        return self.task_spec.sub_label or self.task_spec.stmt or "[Unknown]"

    @staticmethod
    def merge(measurements: Iterable[Measurement]) -> list[Measurement]:
        """Return one measurement for each task of several."""
        groups: dict[TaskSpec, list[Measurement]] = {}
        for m in measurements:
            groups.setdefault(m.task_spec, []).append(m)
        return [Measurement(1, [t for m in group for t in m.times], spec) for spec, group in groups.items()]

    def __repr__(self) -> str:
        unit, seconds = select_unit(self.median)
        lines = [f"{self.task_spec.title}"] + ([self.description] if self.description else [])
        if len(self.times) == 1:
            lines.append(f"  {self.median / seconds:.2f} {unit}")
            runs = f"{self.number_per_run} runs"
        else:
            low, high = self._quarters()
            lines.append(f"  Median: {self.median / seconds:.2f} {unit}")
            lines.append(f"  IQR:    {self.iqr / seconds:.2f} {unit} ({low / seconds:.2f} to {high / seconds:.2f})")
            runs = f"{self.number_per_run} runs per measurement"
        s, threads = ("s" if len(self.times) > 1 else ""), self.task_spec.num_threads
        lines.append(f"  {len(self.times)} measurement{s}, {runs}, {threads} thread{'s' if threads > 1 else ''}")
        if self.has_warnings:
            part = 100 * self.iqr / self.median
            lines.append(f"  WARNING: Interquartile range is {part:.1f}% of the median measurement.")
        return "\n".join(lines)


class Timer:
    """Times a statement.

    Examples
    --------
    >>> t = adjoint.utils.benchmark.Timer("x + 1", globals={"x": adjoint.ones(3)})
    >>> t.timeit(100).median < 1
    True
    """

    def __init__(
        self,
        stmt: str = "pass",
        setup: str = "pass",
        global_setup: str = "",
        timer: Callable[[], float] = timer,
        globals: dict[str, Any] | None = None,
        label: str | None = None,
        sub_label: str | None = None,
        description: str | None = None,
        env: str | None = None,
        num_threads: int = 1,
        language: Any = "python",
    ) -> None:
        if str(getattr(language, "name", language)).lower() not in ("python", "py"):
            raise NotImplementedError(
                "Timer: only statements of Python are timed here; language='c++' needs a compiler"
            )
        if not isinstance(stmt, str):
            raise ValueError("Currently only a `str` stmt is supported.")
        space = {"torch": sys.modules["adjoint"], **(globals or {})}
        self._timer = timeit.Timer(_dedent(stmt), _dedent(setup), timer, space)
        self._spec = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)

    def _measured(self, number: int, times: list[float]) -> Measurement:
        return Measurement(number, times, self._spec)

    def timeit(self, number: int = 1_000_000) -> Measurement:
        """Time the given number of calls, in one run."""
        with set_torch_threads(self._spec.num_threads):
            self._timer.timeit(max(number // 100, 2))  # warm up
            return self._measured(number, [self._timer.timeit(number)])

    def repeat(self, repeat: int = -1, number: int = -1) -> None:
        """Raise: runs are repeated by `blocked_autorange`."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def autorange(self, callback: Any = None) -> None:
        """Raise: the number of calls is chosen by `blocked_autorange`."""
        raise NotImplementedError("See `Timer.blocked_autorange.`")

    def _calls(self, seconds: float) -> int:
        """Return how many calls take so long."""
        number = 1
        while (taken := self._timer.timeit(number)) < seconds and number < 1 << 40:
            number = max(number + 1, min(10 * number, math.ceil(1.2 * number * seconds / max(taken, 1e-9))))
        return number

    def blocked_autorange(self, callback: Any = None, min_run_time: float = 0.2) -> Measurement:
        """Time runs of as many calls as the clock needs, for at least so many seconds."""
        return self._until(min_run_time, lambda m: True, min_run_time, callback)

    def adaptive_autorange(
        self,
        threshold: float = _NOISY,
        *,
        min_run_time: float = 0.01,
        max_run_time: float = 10.0,
        callback: Any = None,
    ) -> Measurement:
        """Time runs until they are near each other, or for so long."""
        return self._until(min_run_time, lambda m: m.meets_confidence(threshold), max_run_time, callback)

    def _until(self, least: float, enough: Callable[[Measurement], bool], most: float, callback: Any) -> Measurement:
        with set_torch_threads(self._spec.num_threads):
            number, times = self._calls(min(max(least / 1000, 1e-4), 0.1)), []
            while True:
                times.append(self._timer.timeit(number))
                if callback is not None:
                    callback(number, times[-1])
                found, total = self._measured(number, times), sum(times)
                if total >= most or (total >= least and enough(found)):
                    return found


def _dedent(text: str) -> str:
    return textwrap.dedent(text).strip() or "pass"


class Compare:
    """A table of measurements: a column for each description, a row for each label."""

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results = list(results)
        self._highlight = self._trim = False

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Add measurements."""
        self._results.extend(results)

    def trim_significant_figures(self) -> None:
        """Show no digits that cannot be trusted."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Do nothing: tables are plain text here."""

    def highlight_warnings(self) -> None:
        """Mark times whose runs are far apart."""
        self._highlight = True

    def print(self) -> None:
        """Print the tables."""
        print(str(self))

    def __str__(self) -> str:
        merged = Measurement.merge(self._results)
        labels = dict.fromkeys(m.task_spec.label for m in merged)
        return "\n".join(self._table(label, [m for m in merged if m.task_spec.label == label]) for label in labels)

    def _table(self, label: str | None, found: list[Measurement]) -> str:
        unit, seconds = select_unit(min(m.median for m in found))
        columns = list(dict.fromkeys(m.task_spec.description or "" for m in found))
        cells = {(m.task_spec.num_threads, m.as_row_name, m.task_spec.description or ""): m for m in found}
        rows = list(dict.fromkeys((threads, name) for threads, name, _ in cells))
        wide = max(len(name) for _, name in rows) + 6
        text = {key: self._cell(m, seconds) for key, m in cells.items()}
        widths = [max(len(c), *(len(text.get((t, r, c), "")) for t, r in rows)) + 2 for c in columns]
        head = " " * wide + "".join(f"|{c:^{w + 2}}" for c, w in zip(columns, widths))
        title = f" {label or ''} "
        lines = [f"[{title.center(len(head) - 2, '-')}]", head]
        for threads in dict.fromkeys(t for t, _ in rows):
            lines.append(f"{threads} threads: ".ljust(len(head), "-"))
            for t, name in rows:
                if t == threads:
                    shown = "".join(f"|{text.get((t, name, c), ''):^{w + 2}}" for c, w in zip(columns, widths))
                    lines.append(f"      {name}".ljust(wide) + shown)
        return "\n".join([*lines, "", f"Times are in {unit_to_english(unit)}s ({unit}).", ""])

    def _cell(self, m: Measurement, seconds: float) -> str:
        value = m.median / seconds
        if self._trim:
            digits = m.significant_figures - 1 - math.floor(math.log10(max(value, 1e-12)))
            value = round(value, digits)
        mark = f" (! {100 * m.iqr / m.median:.0f}%)" if self._highlight and m.has_warnings else ""
        return f"{value:.1f}{mark}"
