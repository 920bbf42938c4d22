"""``SummaryWriter``: what a training run measures, in files that TensorBoard reads.

The files are written here, without TensorBoard's package.
"""

from __future__ import annotations

from .writer import FileWriter, SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
