"""Workers are programs of several processes: pytest starts them, and does not import them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from adjoint.distributed.launch import remove_leftovers

collect_ignore_glob = ["programs/*.py", "workers/*.py"]


@pytest.fixture(scope="session", autouse=True)
def _nothing_is_left() -> Iterator[None]:
    yield
    remove_leftovers()
