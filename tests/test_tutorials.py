"""Every tutorial is a program that runs, without a warning, and checks itself (test_examples.py has the examples)."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = sorted([*ROOT.glob("docs/tutorials/*.py"), ROOT / "examples" / "first_graph.py"])


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_script_runs(script: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", str(script)], cwd=ROOT, capture_output=True, text=True, timeout=240
    )
    assert run.returncode == 0, f"{script.name} failed:\n{run.stdout}\n{run.stderr}"
    assert run.stdout.strip(), "a tutorial shows something"
