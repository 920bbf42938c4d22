"""Questions about oneDNN."""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    """Return False: adjoint does not use it itself."""
    return False
