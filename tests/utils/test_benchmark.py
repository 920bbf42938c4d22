"""Snippets are timed with the threads they ask for, and tables say what was timed."""

from __future__ import annotations

import pytest

import adjoint
from adjoint.utils import benchmark


def test_a_timer_runs_the_statement_in_its_globals() -> None:
    seen: list[int] = []
    timed = benchmark.Timer("seen.append(torch.get_num_threads())", globals={"seen": seen}, num_threads=1)
    found = timed.timeit(10)
    assert found.number_per_run == 10 and len(found.times) == 1 and set(seen) == {1}
    many = timed.blocked_autorange(min_run_time=0.01)
    assert sum(many.raw_times) >= 0.01 and many.median > 0 and many.iqr >= 0


def test_tables_have_a_column_per_description() -> None:
    spec = {"stmt": "f()", "setup": "pass", "label": "both"}
    rows = [("a", "one", 1e-6), ("a", "two", 2e-6), ("b", "one", 3e-6)]
    found = [benchmark.Measurement(1, [t], benchmark.TaskSpec(sub_label=r, description=c, **spec)) for r, c, t in rows]
    table = str(benchmark.Compare(found))
    assert "both" in table and "one" in table and "two" in table and "microseconds (us)" in table
    assert [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("      ")][1:] == [
        "1.0",
        "3.0",
    ]


def test_a_statement_must_be_text() -> None:
    with pytest.raises(ValueError, match="only a `str` stmt"):
        benchmark.Timer(lambda: adjoint.ones(1))  # type: ignore[arg-type]
