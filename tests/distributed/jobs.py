"""Real jobs: `run` starts a worker script of ``tests/distributed/workers`` on several ranks, by mpiexec or torchrun."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mpi4py", reason="adjoint.distributed talks through mpi4py")

WORKERS = Path(__file__).parent / "workers"
ROOT = Path(__file__).parents[2]
MPIEXEC = shutil.which("mpiexec", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")]))
if MPIEXEC is None:
    pytest.skip("no mpiexec: pip install mpich", allow_module_level=True)


def run(
    worker: str, *arguments: str, ranks: int = 2, timeout: float = 600, env: dict[str, str] | None = None,
    carrier: str = "mpi",
) -> subprocess.CompletedProcess[str]:  # fmt: skip
    """Run a worker on several ranks, whose messages MPI or TCP carries; a job that hangs is an error."""
    by_tcp = [sys.executable, "-m", "adjoint.distributed.run", "--nproc-per-node", str(ranks)]
    starter = by_tcp if carrier == "tcp" else [str(MPIEXEC), "-n", str(ranks), sys.executable]
    command = [*starter, str(WORKERS / f"{worker}.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment(env), check=False)


carriers = pytest.mark.parametrize("carrier", ["mpi", "tcp"])


def environment(env: dict[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a job: one thread for each rank, and adjoint where it is."""
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return {**os.environ, **threads, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error", **(env or {})}


def passed(job: Any) -> None:
    """Fail with everything that a job said, unless it ended well."""
    assert job.returncode == 0, f"exit code {job.returncode}\n{job.stdout}\n{job.stderr}"
