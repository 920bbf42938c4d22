"""The names of ``torch.distributed.elastic`` that programs use; ``adjoint launch --max-restarts`` does the work."""

from __future__ import annotations

from . import multiprocessing
