"""Queries for MKL, OpenMP and Apple's GPUs, which are never available."""

from __future__ import annotations

__all__ = ["is_available", "is_built"]


def is_available() -> bool:
    """Return False: adjoint does not use MKL, OpenMP or Apple's GPUs itself.

    Returns
    -------
    bool
        False, on every machine.

    Examples
    --------
    >>> adjoint.backends.mps.is_available()
    False
    """
    return False


is_built = is_available
