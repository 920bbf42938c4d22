"""Collectives, messages, objects and groups, in real MPI jobs."""

from __future__ import annotations

from tests.distributed.jobs import passed, run


def test_collectives() -> None:
    passed(run("collectives", ranks=3))


def test_what_the_nccl_engine_asks_of_nccl() -> None:
    """Without a GPU: NCCL's calls are carried out by MPI."""
    passed(run("nccl", ranks=3))
