"""fully_shard and ZeroRedundancyOptimizer, in real MPI jobs."""

from __future__ import annotations

from tests.distributed.jobs import passed, run


def test_equals_one_process_on_the_whole_batch() -> None:
    job = run("sharding", ranks=3)
    passed(job)
    assert "12 cases" in job.stdout
