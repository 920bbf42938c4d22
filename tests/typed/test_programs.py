"""Typical programs and the examples, as mypy and pyright see them: no error, and types that say something."""

from __future__ import annotations

import json
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PROGRAMS = sorted((HERE / "programs").glob("*.py"))
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

WANTED = {  # what a checker must know of an expression; "Any" and "Unknown" would pass every other test
    "x @ y": "Tensor",
    "x + 1": "Tensor",
    "1 - x": "Tensor",
    "x > 0": "Tensor",
    "x[0]": "Tensor",
    "x.max(dim=1).indices": "Tensor",
    "torch.nn.Linear(2, 3)(x)": "Tensor",
    "torch.nn.Sequential(torch.nn.Linear(2, 3))(x)": "Tensor",
    "torch.sum(x)": "Tensor",
    "torch.tensor([1, 2])": "Tensor",
    "torch.nn.Parameter(x)": "Parameter",
    "x.shape[0]": "int",
}


def types_program(folder: Path) -> Path:
    path = folder / "revealed.py"
    lines = ["import adjoint as torch", "x = torch.ones(2, 2)", "y = torch.ones(2, 2)"]
    path.write_text("\n".join([*lines, *(f"reveal_type({expression})" for expression in WANTED)]) + "\n")
    return path


def test_there_are_thirty() -> None:
    assert len(PROGRAMS) >= 30


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.stem)
def test_each_runs(path: Path) -> None:
    runpy.run_path(str(path), run_name="__main__")


@pytest.mark.slow
def test_mypy_strict(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api", reason="mypy is not installed")
    options = ["--strict", "--follow-imports=silent", f"--cache-dir={tmp_path}"]
    out, problem, _ = api.run([*options, *map(str, PROGRAMS), str(types_program(tmp_path))])
    assert not problem and [line for line in out.splitlines() if ": error:" in line] == []
    shown = [line.partition("Revealed type is ")[2].strip('"') for line in out.splitlines() if "Revealed" in line]
    assert [s.rpartition(".")[2].removeprefix("builtins.") for s in shown] == list(WANTED.values())


def pyright() -> list[str] | None:
    """Return the command of pyright: an installed one, or the npm package that ADJOINT_PYRIGHT names."""
    script, node = os.environ.get("ADJOINT_PYRIGHT"), shutil.which("node")
    if script and node:
        return [node, script]
    found = shutil.which("pyright")
    return [found] if found else None


@pytest.mark.slow
@pytest.mark.skipif(pyright() is None, reason="no pyright here: npm install pyright, and ADJOINT_PYRIGHT=.../index.js")
def test_pyright(tmp_path: Path) -> None:
    folder = tmp_path / "checked"
    folder.mkdir()
    for path in (*PROGRAMS, *EXAMPLES):
        shutil.copy(path, folder)
    types_program(folder)
    # A loop that may run no times leaves `loss` unbound: that is about the program, not about our types.
    config = {"include": ["checked"], "reportPossiblyUnboundVariable": "none"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(config))
    command = [*(pyright() or []), "--outputjson", "--pythonpath", sys.executable, "-p", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)})
    found = json.loads(done.stdout)["generalDiagnostics"]
    errors = [
        f"{Path(d['file']).name}:{d['range']['start']['line'] + 1}: {d['message']}"
        for d in found
        if d["severity"] == "error"
    ]
    assert errors == []
    shown = [d["message"].rpartition(" is ")[2].strip('"') for d in found if d["severity"] == "information"]
    assert shown == list(WANTED.values())
