"""fully_shard and ZeroRedundancyOptimizer, in real jobs."""

from __future__ import annotations

from tests.distributed.jobs import carriers, passed, run


@carriers
def test_equals_one_process_on_the_whole_batch(carrier: str) -> None:
    job = run("sharding", ranks=3, carrier=carrier)
    passed(job)
    assert "12 cases" in job.stdout
