"""The command line: versions, missing programs, programs on the command line, progress without a terminal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import adjoint
from adjoint.demo import Progress


def adjoint_command(*arguments: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "adjoint", *arguments], capture_output=True, text=True, cwd=cwd)


def test_the_version() -> None:
    done = adjoint_command("--version")
    assert (done.returncode, done.stdout) == (0, f"adjoint {adjoint.__version__}\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing.py"], "no such file: missing.py"),
        (["missing.py", "--epochs", "3"], "no such file: missing.py"),
        (["folder"], "folder is a folder without a file __main__.py"),
        (["--epochs"], "no option --epochs: adjoint run takes script.py, -m module or -c program"),
        (["-m"], "-m needs the name of a module"),
        (["-m", "no_such_module"], "no module named no_such_module"),
        (["-m", "no_such_package.part"], "no module named no_such_package.part"),
        (["-c"], "-c needs a program as its argument"),
    ],
)
def test_a_program_that_is_not_there(arguments: list[str], said: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    done = adjoint_command("run", *arguments, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"adjoint run: {said}\n")


def test_an_import_that_fails_inside_a_module_is_shown_in_full(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").write_text("import no_such_dependency\n")
    (tmp_path / "package" / "train.py").write_text("")
    done = adjoint_command("run", "-m", "package.train", cwd=tmp_path)
    assert done.returncode == 1 and "Traceback" in done.stderr and "no_such_dependency" in done.stderr


def test_a_program_on_the_command_line() -> None:
    program = "import sys, torch; print(torch.__version__, sys.argv, __name__); sys.exit(3)"
    done = adjoint_command("run", "-c", program, "x", "--flag")
    assert (done.returncode, done.stdout) == (3, "2.13.0+adjoint ['-c', 'x', '--flag'] __main__\n"), done.stderr


def test_progress_without_a_terminal_is_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(Progress, "seconds", 0.0)
    bar = Progress(2, "steps")
    for _ in bar:
        bar.show(loss=0.25)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(",")[0] for line in lines] == ["steps 1/2 (50%)", "steps 2/2 (100%)"]
    assert all(line.endswith("loss=0.25") for line in lines)


def test_progress_of_a_short_run_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(Progress(3, "steps")) == [0, 1, 2]
    assert capsys.readouterr().err == ""
