"""Every block of Python in README and on the pages runs as pasted: alone, in a fresh namespace and an empty folder."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
# Pages whose blocks are the steps of one program, which a test of their own runs from top to bottom.
IN_STEPS = {ROOT / "docs/extending/op.md", ROOT / "docs/extending/device.md"}
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMANDS = {"run", "launch", "torchrun", "demo", "doctor", "worker"}

# Runs each block that comes on standard input in a namespace of its own, as `__main__`; stops at the first that fails.
RUNNER = r"""
import json, linecache, sys, traceback
import adjoint
for number, source in enumerate(json.load(sys.stdin)):
    name = f"<block {number}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    try:
        exec(compile(source, name, "exec"), {"__name__": "__main__"})
    except BaseException:
        traceback.print_exc()
        sys.exit(f"block {number} of the page failed:\n{source}")
"""


def blocks(page: Path, language: str) -> list[str]:
    """Return the fenced blocks of a language; what a page includes from a file (`--8<--`) has tests of its own."""
    found = re.findall(rf"^( *)```{language}\n(.*?)^\1```", page.read_text(), re.S | re.M)
    return [text for _, text in found if "--8<--" not in text]


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python") and p not in IN_STEPS], ids=named)
def test_blocks_run_as_they_stand(page: Path, tmp_path: Path) -> None:
    import json

    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, "-c", RUNNER],
        input=json.dumps(blocks(page, "python")),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
        timeout=280,
    )
    assert run.returncode == 0, run.stderr[-4000:]


def commands() -> Iterator[tuple[str, str]]:
    """Yield the page and the text of each command of adjoint's or of this repository."""
    for page in PAGES:
        for block in blocks(page, "sh"):
            for line in block.splitlines():
                for command in re.split(r"&&|\|", line.split("#")[0]):
                    words = command.split()
                    if words and (words[0].endswith(("adjoint", "python")) or words[0] == "python"):
                        yield named(page), " ".join(words)


@pytest.mark.parametrize(("page", "command"), sorted(set(commands())))
def test_commands_name_what_exists(page: str, command: str) -> None:
    program, *words = command.split()
    if program.endswith("adjoint"):
        assert words[0] in COMMANDS or words[0].startswith("--"), f"{page}: {command}"
    elif words[:1] == ["-m"]:
        module = words[1].split(".")[0]
        here = (ROOT / module).is_dir()
        assert here or module in {"venv", "pip", "pytest", "adjoint", "torch"}, f"{page}: {command}"
    elif words and words[0].endswith(".py") and "/" in words[0]:
        assert (ROOT / words[0]).exists(), f"{page}: {command}"
