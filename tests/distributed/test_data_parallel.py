"""DistributedDataParallel, in real jobs."""

from __future__ import annotations

import pytest

from tests.distributed.jobs import carriers, passed, run


@carriers
@pytest.mark.parametrize("ranks", [2, 3])
def test_equals_one_process_on_the_whole_batch(ranks: int, carrier: str) -> None:
    job = run("data_parallel", ranks=ranks, carrier=carrier)
    passed(job)
    assert "43 cases" in job.stdout
