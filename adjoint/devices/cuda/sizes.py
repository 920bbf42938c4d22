"""From how many elements on one kernel of CUDA devices is faster than another, as measured by benchmarks/sizes.py."""

from __future__ import annotations

RANDOM = 1 << 16  # random numbers from which on the GPU makes its own, by a seed; fewer are those of the CPU
