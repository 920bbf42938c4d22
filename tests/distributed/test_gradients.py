"""Gradients through collectives, and meshes of processes, in a real MPI job."""

from __future__ import annotations

from tests.distributed.jobs import passed, run


def test_gradients_through_collectives() -> None:
    passed(run("gradients", ranks=4))
