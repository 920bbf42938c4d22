"""NCCL's engine in jobs of several ranks: GPUs are simulated, and MPI stands in for NCCL (one real GPU: tests/gpu)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.distributed.jobs import passed, run
from tests.gpu import simulated

pytestmark = pytest.mark.skipif(bool(simulated.why_not()), reason=simulated.why_not() or "it can be simulated")


@pytest.mark.parametrize(
    ("worker", "ranks"), [("collectives", 3), ("gradients", 4), ("data_parallel", 2), ("sharding", 2)]
)
def test_what_works_on_the_host_works_on_gpus(worker: str, ranks: int) -> None:
    passed(run("simulated_gpu", worker, ranks=ranks))


def test_checkpoints_load_on_another_number_of_gpus(tmp_path: Path) -> None:
    folder = str(tmp_path / "checkpoint")
    passed(run("simulated_gpu", "checkpoints", "save", folder, ranks=2))
    passed(run("simulated_gpu", "checkpoints", "load", folder, ranks=3))


def test_a_stream_that_waits_in_vain_ends_the_job() -> None:
    job = run("stuck_stream", ranks=2)
    assert job.returncode != 0
    assert "the program went on" in job.stdout
    assert "all_reduce #3 of group WORLD timed out after 1 s" in job.stderr and "rank 1 has not called it" in job.stderr
