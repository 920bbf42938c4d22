"""Switches of cuDNN, which adjoint does not use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["allow_tf32", "benchmark", "deterministic", "enabled", "flags", "is_available", "version"]

enabled = True
benchmark = False
deterministic = False
allow_tf32 = True
benchmark_limit = 10


def is_available() -> bool:
    """Return False: convolutions do not go through cuDNN."""
    return False


def version() -> int | None:
    """Return None: there is no cuDNN."""
    return None


@contextmanager
def flags(
    enabled: bool = False, benchmark: bool = False, deterministic: bool = False, allow_tf32: bool = True
) -> Iterator[None]:
    """Set the switches inside the context."""
    names = ("enabled", "benchmark", "deterministic", "allow_tf32")
    before = {name: globals()[name] for name in names}
    globals().update(zip(names, (enabled, benchmark, deterministic, allow_tf32), strict=True))
    try:
        yield
    finally:
        globals().update(before)
