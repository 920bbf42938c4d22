"""Which kernel computes attention: programs may ask, and one answers."""

from __future__ import annotations

from .backends import SDPBackend, sdpa_kernel

__all__ = ["SDPBackend", "sdpa_kernel"]
