"""Sizes by which kernels of a GPU are chosen and cut, as measured by benchmarks/sizes.py."""

from __future__ import annotations

COLUMNS = 256 << 20  # bytes of a convolution's windows at a time
RANDOM = 1 << 16  # random numbers from which on the GPU makes its own, by a seed; fewer are those of the CPU
