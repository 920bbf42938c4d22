"""The queries that devices support, for the CPU."""

from __future__ import annotations

import contextlib
from typing import Any


def is_available() -> bool:
    """Return True."""
    return True


def device_count() -> int:
    """Return 1."""
    return 1


def current_device() -> str:
    """Return ``"cpu"``."""
    return "cpu"


def set_device(device: Any) -> None:
    """Do nothing: there is one CPU device."""


def synchronize(device: Any = None) -> None:
    """Do nothing: the CPU computes synchronously."""


def current_stream(device: Any = None) -> Any:
    """Return the CPU's stream, on which all work has already finished."""
    # Queues of any device are made by one class, which knows the GPU too.
    from ...accelerator import Stream

    return Stream("cpu")


def stream(stream: Any) -> Any:
    """Return a context that changes nothing: the CPU has one stream."""
    return contextlib.nullcontext(stream)
