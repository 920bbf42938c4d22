"""Where there is no GPU, the tests that need one run on the simulated one, in a process of their own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import adjoint
from adjoint.devices.contract import through_host_names

from . import simulated

ROOT = Path(__file__).parents[2]
# A process has a GPU or has none, and the other tests of this one are written for a host without.
without_gpu = pytest.mark.skipif(adjoint.cuda.is_available(), reason="the GPU itself is there")
with_compiler = pytest.mark.skipif(bool(simulated.why_not()), reason=simulated.why_not() or "-")


def run(how: str, command: str) -> Any:
    """Run a module in a process with a simulated GPU."""
    environment = os.environ | {"ADJOINT_SIMULATED_GPU": how, "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-m", *command.split()]
    return subprocess.run(words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


@without_gpu
@with_compiler
@pytest.mark.timeout(900)
def test_programs_for_a_gpu_run_on_the_simulated_one() -> None:
    done = run("few", "pytest -q -p no:cacheprovider -m gpu --tb=short -n 2 tests/gpu")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


@without_gpu
@with_compiler
@pytest.mark.timeout(900)
def test_operators_give_there_what_torch_gives() -> None:
    pytest.importorskip("torch", reason="torch's operator table is compared with torch")
    names = "^(as_strided|cat|cum|gather|index|linalg|masked|matmul|nn.functional.(conv|max_pool)|scatter|sort|take)"
    asked = "--device cuda --samples 2 --checks forward,grad --jobs 2 --failing"
    done = run("1", f"tests.conformance.runner {asked} --ops {names}")
    counts = re.findall(r"fail (\d+), missing (\d+)", done.stdout)
    assert counts == [("0", "0")] * 2, done.stdout[-6000:] + done.stderr[-2000:]


def test_what_runs_on_the_host_is_on_the_page() -> None:
    page = (ROOT / "docs" / "coverage.md").read_text().partition("## On a GPU")[2]
    assert through_host_names and not [name for name in through_host_names if name not in page]
