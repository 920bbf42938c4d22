"""Collectives, messages, objects and groups, in real MPI jobs."""

from __future__ import annotations

import pytest

from tests.distributed.jobs import passed, run


@pytest.mark.parametrize("ranks", [2, 3])
def test_collectives(ranks: int) -> None:
    passed(run("collectives", ranks=ranks))
