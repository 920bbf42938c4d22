"""fully_shard and ZeroRedundancyOptimizer, in real MPI jobs."""

from __future__ import annotations

import pytest

from tests.distributed.jobs import passed, run


@pytest.mark.parametrize("ranks", [2, 3])
def test_equals_one_process_on_the_whole_batch(ranks: int) -> None:
    job = run("sharding", ranks=ranks)
    passed(job)
    assert "12 cases" in job.stdout
