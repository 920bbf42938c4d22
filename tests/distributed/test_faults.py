"""What happens when a rank raises, dies, comes late, or calls something else than the others."""

from __future__ import annotations

import random
import time

import pytest

from tests.distributed.jobs import passed, run


def test_thirty_desyncs_are_told_with_both_call_sites() -> None:
    env = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL", "PYTHONWARNINGS": "error::UserWarning"}
    job = run("desyncs", env=env)
    passed(job)
    assert "30 desyncs, 0 silent" in job.stdout


def test_every_primitive_gives_up_in_time() -> None:
    job = run("timeouts")
    passed(job)
    assert "21 primitives" in job.stdout


def test_a_rank_that_raises_ends_the_job_with_one_traceback() -> None:
    started = time.monotonic()
    job = run("faults", "raise", ranks=3, timeout=30)
    assert job.returncode != 0 and time.monotonic() - started < 10
    assert job.stderr.count("Traceback") == 1 and job.stderr.count("ValueError: what rank 1 cannot do") == 1
    assert "rank 1 raised" in job.stderr


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("compute", "rank 1 has not called it: it is at"),
        ("stop", "rank 1 does not answer"),
    ],
)
def test_who_waits_in_vain_says_for_whom(kind: str, words: str) -> None:
    job = run("faults", kind, ranks=2, timeout=20)
    assert job.returncode != 0
    assert words in job.stderr and "timed out after 1.5 s" in job.stderr, job.stderr


def test_a_killed_rank_ends_the_job() -> None:
    """`benchmarks/kills.py` does this a hundred times."""
    random.seed(0)
    for _ in range(2):
        job = run("faults", "kill", str(random.randrange(3)), f"{random.uniform(0.001, 0.3):.3f}", ranks=3, timeout=20)
        assert job.returncode != 0
