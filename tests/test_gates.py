"""Every gate has the common command line and sums up in one line; `python -m gates` makes one table of them."""

from __future__ import annotations

import importlib
import re
import signal
import sys
import textwrap
import threading
from pathlib import Path
from typing import Any

import pytest

from gates import __main__ as table
from gates.summary import parsed, summary

HERE = Path(__file__).parent.parent / "gates"


def _module(name: str) -> Any:
    return importlib.import_module(f"gates.{name}" if (HERE / f"{name}.py").exists() else f"gates.{name}.__main__")


@pytest.mark.parametrize("name", table.gates())
def test_a_gate_has_the_common_command_line(name: str, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.setattr(sys, "argv", [name, "--help"])
    with pytest.raises(SystemExit) as end:
        _module(name).main()
    said = capsys.readouterr().out
    assert not end.value.code and "--minutes" in said and "--seed" in said


@pytest.mark.parametrize("name", table.gates())
def test_a_gate_sums_up_in_one_line(name: str) -> None:
    source = Path(_module(name).__file__).read_text()
    assert f'summary("{name}"' in source or re.search(rf"gate ({name}|{{[^}}]*}}): cases ", source)


def test_summary_lines_are_read_as_they_are_written() -> None:
    line = summary("files", 12, wrong=1, lost=2, hung=3, crashed=4)
    assert line == "gate files: cases 12, wrong 1, lost 2, hung 3, crashed 4"
    assert parsed(line + "\n") == {"cases": 12, "wrong": 1, "lost": 2, "hung": 3, "crashed": 4}
    assert parsed("12 cases") is None


# Gates of this test: what each does before its summary, if it comes to that.
FAKES = {
    "good": "print('gate good: cases 5, wrong 0, lost 0, hung 0, crashed 0')",
    "bad": "print('gate bad: cases 7, wrong 2, lost 0, hung 0, crashed 0'); raise SystemExit(1)",
    "lenient": "print('gate lenient: cases 9, wrong 2, lost 0, hung 0, crashed 0')",
    "crashing": "raise ValueError",
    "skipped": "print('torch is not installed')",
    "endless": "import threading; threading.Event().wait()",
}


@pytest.fixture
def fakes(tmp_path: Path, monkeypatch: Any) -> Path:
    (tmp_path / "gates").mkdir()
    (tmp_path / "gates" / "__init__.py").touch()
    for name, text in FAKES.items():
        (tmp_path / "gates" / f"{name}.py").write_text(textwrap.dedent(text))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def test_the_table(fakes: Path, capsys: Any) -> None:
    page = fakes / "table.md"
    assert table.main(["good", "bad", "crashing", "skipped", "--minutes", "0.1", "--table", str(page)]) == 2
    rows = [line.split() for line in capsys.readouterr().out.rpartition("gate ")[2].splitlines()]
    assert rows[0] == ["cases", "wrong", "lost", "hung", "crashed", "seconds", "seed"]
    assert rows[1][:6] == ["good", "5", "0", "0", "0", "0"]
    assert rows[2][:6] == ["bad", "7", "2", "0", "0", "0"]
    assert rows[3][:2] == ["crashing", "1"] and "skipped" in rows[4]
    assert page.read_text().splitlines()[2].startswith("| good | 5 | 0 | 0 | 0 | 0 |")


def test_the_table_of_a_page(fakes: Path) -> None:
    page = fakes / "page.md"
    page.write_text("Before.\n<!-- table: of gates -->\nold\n<!-- end -->\nAfter.\n")
    for _ in range(2):
        table.main(["good", "--minutes", "0.1", "--table", str(page)])
        lines = page.read_text().splitlines()
        assert lines[:2] == ["Before.", "<!-- table: of gates -->"] and lines[-2:] == ["<!-- end -->", "After."]
        assert sum(line.startswith("| good | 5 ") for line in lines) == 1 and "old" not in lines


def test_what_a_gate_allows_is_told(fakes: Path) -> None:
    row = table.run("lenient", 0.1, 0)
    assert row.passed and row.counts["wrong"] == 2 and row.note == "allowed there"


def test_a_gate_that_does_not_end_is_hung(fakes: Path) -> None:
    row = table.run("endless", 0.0, 0, grace=1.0)
    assert row.counts == {"hung": 1} and not row.passed


def test_the_table_so_far_is_printed_when_a_user_has_had_enough(fakes: Path, capsys: Any, monkeypatch: Any) -> None:
    begin = table.threading.Timer

    def interrupting(seconds: float, function: Any, arguments: Any) -> Any:
        if arguments[0].args[2] == "gates.endless":
            begin(0.5, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)).start()
        return begin(seconds, function, arguments)

    monkeypatch.setattr(table.threading, "Timer", interrupting)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell's background job ignores
    try:
        assert table.main(["good", "endless", "bad"]) == 1
    finally:
        signal.signal(signal.SIGINT, before)
    said = capsys.readouterr().out
    assert re.search(r"\ngood +5 ", said) and "interrupted" in said and "\nbad" not in said
