"""Users see types: a strict checker accepts a right program and finds the mistakes of a wrong one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .program import train

api = pytest.importorskip("mypy.api", reason="mypy is not installed")
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, int, str]]:
    """Return file, line and text of what mypy --strict says of the two programs."""
    cache = tmp_path_factory.mktemp("mypy")
    files = [str(HERE / name) for name in ("program.py", "mistakes.py")]
    out, problem, _ = api.run(["--strict", "--follow-imports=silent", f"--cache-dir={cache}", *files])
    assert not problem, problem
    found = [re.match(r"(.*?):(\d+): error: (.*)", line) for line in out.splitlines()]
    return [(Path(m[1]).name, int(m[2]), m[3]) for m in found if m]


@pytest.mark.slow
def test_a_right_program_is_right(errors: list[tuple[str, int, str]]) -> None:
    assert [e for e in errors if e[0] == "program.py"] == []


@pytest.mark.slow
def test_mistakes_are_seen(errors: list[tuple[str, int, str]]) -> None:
    lines = (HERE / "mistakes.py").read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# mistake")}
    assert {line for name, line, _ in errors if name == "mistakes.py"} == marked


def test_the_program_runs() -> None:
    assert train(2) == pytest.approx(train(2))
