"""Debug mode: before each collective the ranks compare what they are about to call, and raise where it differs."""

from __future__ import annotations

import enum
import json
import os
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from .calls import Call
from .failures import DistBackendError
from .works import polled

if TYPE_CHECKING:
    from .groups import ProcessGroup

__all__ = ["DebugLevel", "get_debug_level", "set_debug_level", "set_debug_level_from_env"]

_LENGTH = 1024  # bytes in which a rank says what it calls


class DebugLevel(enum.Enum):
    """How much is checked."""

    OFF = 0
    INFO = 1
    DETAIL = 2


class _Level:
    """The level that is set; None until somebody asks."""

    chosen: DebugLevel | None = None


def get_debug_level() -> DebugLevel:
    """Return how much is checked: what the environment variable TORCH_DISTRIBUTED_DEBUG says, or was set since."""
    if _Level.chosen is None:
        set_debug_level_from_env()
    assert _Level.chosen is not None
    return _Level.chosen


def set_debug_level(level: DebugLevel) -> None:
    """Check so much in groups that are made from now on."""
    _Level.chosen = level


def set_debug_level_from_env() -> None:
    """Check as much as TORCH_DISTRIBUTED_DEBUG or ADJOINT_DISTRIBUTED_DEBUG says."""
    word = os.environ.get("ADJOINT_DISTRIBUTED_DEBUG") or os.environ.get("TORCH_DISTRIBUTED_DEBUG") or "OFF"
    word = {"1": "DETAIL", "0": "OFF"}.get(word, word.upper())
    if word not in DebugLevel.__members__:
        raise RuntimeError(f"TORCH_DISTRIBUTED_DEBUG must be OFF, INFO or DETAIL, not {word}")
    _Level.chosen = DebugLevel[word]


def debugging() -> bool:
    """Return whether calls are compared."""
    return get_debug_level() is DebugLevel.DETAIL


class Check:
    """Compares the calls of a group's members, on a communicator of its own."""

    def __init__(self, comm: Any) -> None:
        self.comm = comm
        self._warned: set[tuple[str, ...]] = set()

    def compare(self, call: Call, group: ProcessGroup) -> None:
        """Raise on every rank if the ranks are about to call different things."""
        told = json.dumps([call.op, call.what[:300], call.site[-400:]]).encode()[:_LENGTH].ljust(_LENGTH)
        sent = np.frombuffer(told, np.uint8).copy()
        heard = np.empty((group.size(), _LENGTH), np.uint8)
        request = self.comm.Iallgather(sent, heard)
        if not polled(request.Test, group.seconds):
            raise group.late(call, group.seconds)
        calls = [json.loads(row.tobytes()) for row in heard]
        if any(said[:2] != calls[0][:2] for said in calls):
            raise DistBackendError(
                f"the ranks do not call the same collective as call #{call.number} of group {call.group}:\n  "
                + "\n  ".join(_told(group, calls, parts=2))
            )
        sites = tuple(sorted({said[2] for said in calls}))
        if len(sites) > 1 and sites not in self._warned:
            self._warned.add(sites)
            warnings.warn(
                f"the ranks call {call.op} #{call.number} of group {call.group} from different lines; if that is not "
                "meant, their tensors are mixed up:\n  " + "\n  ".join(_told(group, calls, parts=3)),
                stacklevel=5,
            )


def _told(group: ProcessGroup, calls: list[list[str]], parts: int) -> list[str]:
    """Return a line for each thing that is called, with the ranks that call it; sites are those of the first."""
    callers: dict[tuple[str, ...], list[int]] = {}
    for rank, said in zip(group.ranks, calls, strict=True):
        callers.setdefault(tuple(said[:parts]), []).append(rank)
    lines = []
    for ranks in callers.values():
        op, what, site = calls[group.ranks.index(ranks[0])]
        who = "rank" if len(ranks) == 1 else "ranks"
        lines.append(f"{who} {', '.join(map(str, ranks))}: {op}({what}) at {site}")
    return lines
