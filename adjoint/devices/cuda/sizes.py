"""Sizes by which kernels of a GPU are chosen and cut."""

from __future__ import annotations

COLUMNS = 256 << 20  # bytes of a convolution's windows at a time
