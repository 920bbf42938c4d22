"""Where there is no GPU, the tests that need one run on the simulated one, in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import adjoint
from adjoint.kernels.gpu import host

from . import simulated

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(900)
@pytest.mark.skipif(bool(simulated.why_not()), reason=simulated.why_not() or "-")
@pytest.mark.skipif(adjoint.cuda.is_available(), reason="the tests run on the GPU itself")
def test_programs_for_a_gpu_run_on_the_simulated_one() -> None:
    # A process has a GPU or has none, and the other tests of this one are written for a host without.
    environment = os.environ | {"ADJOINT_SIMULATED_GPU": "few", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "gpu", "--tb=short", "-n", "2"]
    done = subprocess.run(
        [*command, "tests/gpu"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]


def test_what_runs_on_the_host_is_on_the_page() -> None:
    import adjoint.ops  # noqa: F401 - declares it

    page = (ROOT / "docs" / "coverage.md").read_text().partition("## On a GPU")[2]
    assert host.names and not [name for name in host.names if name not in page]
