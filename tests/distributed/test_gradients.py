"""Gradients through collectives, and meshes of processes, in real jobs."""

from __future__ import annotations

from tests.distributed.jobs import carriers, passed, run


@carriers
def test_gradients_through_collectives(carrier: str) -> None:
    passed(run("gradients", ranks=4, carrier=carrier))
