"""Questions about Apple's GPUs."""

from __future__ import annotations

__all__ = ["is_available", "is_built"]


def is_available() -> bool:
    """Return False: adjoint computes on the host and on NVIDIA GPUs."""
    return False


def is_built() -> bool:
    """Return False: adjoint computes on the host and on NVIDIA GPUs."""
    return False
