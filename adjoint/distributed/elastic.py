"""The names of ``torch.distributed.elastic`` that programs use; ``adjoint launch --max-restarts`` does the work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._paths import lead_to

__all__ = ["ChildFailedError", "record"]


class ChildFailedError(Exception):
    """A process of a job failed."""


def record(fn: Callable[..., Any], error_handler: Any = None) -> Callable[..., Any]:
    """Return the function as it is: whatever ends a process is told already."""
    return fn


lead_to("adjoint.distributed", {"elastic": "elastic.multiprocessing elastic.multiprocessing.errors"})
