"""``torch.multiprocessing``: Python's own, with tensors that processes share, and `spawn`."""

from __future__ import annotations

import multiprocessing
from multiprocessing import *  # noqa: F403

from . import reductions
from .reductions import init_reductions
from .spawn import (
    ProcessContext,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = [
    *multiprocessing.__all__,
    "ProcessContext", "ProcessExitedException", "ProcessRaisedException", "SpawnContext",
    "get_all_sharing_strategies", "get_sharing_strategy", "init_reductions", "set_sharing_strategy", "spawn",
    "start_processes",
]  # fmt: skip

_STRATEGIES = frozenset({"file_descriptor", "file_system"})
_chosen = ["file_descriptor"]


def get_all_sharing_strategies() -> set[str]:
    """Return the ways to share tensors' memory."""
    return set(_STRATEGIES)


def get_sharing_strategy() -> str:
    """Return how tensors' memory is shared."""
    return _chosen[0]


def set_sharing_strategy(new_strategy: str) -> None:
    """Note the strategy; in every case a descriptor is sent, and no file is left behind."""
    if new_strategy not in _STRATEGIES:
        raise AssertionError(f"{new_strategy} is not one of {sorted(_STRATEGIES)}")
    _chosen[0] = new_strategy


init_reductions()
