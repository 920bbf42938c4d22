"""Every example, in its short form: it runs, and the result that it checks itself is right."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
NAMES = sorted(path.name for path in EXAMPLES.glob("*.py") if path.name not in ("shared.py", "first_graph.py"))


def run(*command: str, **environment: str) -> str:
    """Run a program on one core, warnings being errors, and return what it prints."""
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-W", "error", *command], capture_output=True, text=True, timeout=240,
        env=os.environ | threads | environment, cwd=EXAMPLES,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.parametrize("name", NAMES)
def test_the_example_reaches_its_result(name: str) -> None:
    assert run(name, "--short").strip()


@pytest.mark.parametrize("name", ["digits_mlp.py", "maml.py", "policy_gradient.py", "tree_net.py"])
def test_the_example_compiled(name: str) -> None:
    pytest.importorskip("numba", reason="loops are compiled by Numba, which is not installed")
    assert run(name, "--short", "--compile").strip()


def test_the_first_tour() -> None:
    assert run("first_graph.py").strip()


def test_there_are_the_examples_that_the_page_lists() -> None:
    page = (EXAMPLES / "README.md").read_text()
    assert [name for name in NAMES if f"`{name}`" not in page] == [] and len(NAMES) == 12
