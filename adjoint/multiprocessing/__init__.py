"""``torch.multiprocessing``: Python's `multiprocessing` with tensors in shared memory, and `spawn`."""

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
    """Return the strategies to share tensors' memory."""
    return set(_STRATEGIES)


def get_sharing_strategy() -> str:
    """Return how tensors' memory is shared."""
    return _chosen[0]


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose how processes share tensors' memory; in every case a descriptor is sent, and no file is left behind.

    Parameters
    ----------
    new_strategy : {"file_descriptor", "file_system"}
        What `get_sharing_strategy` returns from now on.

    Raises
    ------
    AssertionError
        If the name is another.

    Examples
    --------
    >>> adjoint.multiprocessing.set_sharing_strategy("file_descriptor")
    >>> adjoint.multiprocessing.get_sharing_strategy()
    'file_descriptor'
    """
    if new_strategy not in _STRATEGIES:
        raise AssertionError(f"{new_strategy} is not one of {sorted(_STRATEGIES)}")
    _chosen[0] = new_strategy


def set_start_method(method: str | None, force: bool = False) -> None:  # type: ignore[no-redef]  # in place of Python's
    """Choose how new processes start, as Python's function of this name does.

    Parameters
    ----------
    method : {"fork", "spawn", "forkserver"} or None
        ``"fork"`` copies this process, ``"spawn"`` starts a new interpreter, ``"forkserver"`` copies a small process.
        None, with `force`, goes back to the default.
    force : bool, default False
        Whether to replace a method that was chosen already.

    Raises
    ------
    RuntimeError
        If a method was chosen already and `force` is not set.
    ValueError
        If this operating system does not have the method.

    Examples
    --------
    >>> before = adjoint.multiprocessing.get_start_method(allow_none=True)
    >>> adjoint.multiprocessing.set_start_method("spawn", force=True)
    >>> adjoint.multiprocessing.get_start_method()
    'spawn'
    >>> adjoint.multiprocessing.set_start_method(before, force=True)
    """
    multiprocessing.set_start_method(method, force=force)


init_reductions()
