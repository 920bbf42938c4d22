"""Questions about MKL, OpenMP and Apple's GPUs: the answer is no."""

from __future__ import annotations

__all__ = ["is_available", "is_built"]


def is_available() -> bool:
    """Return False: adjoint does not use it itself."""
    return False


is_built = is_available
