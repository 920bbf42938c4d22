"""One model on several devices."""

from __future__ import annotations

from typing import Any as _Any

from . import distributed
from .data_parallel import DataParallel, data_parallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]


def __getattr__(name: str) -> _Any:
    if name == "DistributedDataParallel":
        return distributed.DistributedDataParallel
    raise AttributeError(f"module 'adjoint.nn.parallel' has no attribute '{name}'")
