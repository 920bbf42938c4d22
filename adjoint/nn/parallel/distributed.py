"""The place of `DistributedDataParallel` in torch."""

from __future__ import annotations

from typing import Any

__all__ = ["DistributedDataParallel"]  # noqa: F822


def __getattr__(name: str) -> Any:
    if name == "DistributedDataParallel":
        # It stands on layers and on processes: the second room is loaded when a program first asks for it.
        from ...distributed.data_parallel import DistributedDataParallel

        return DistributedDataParallel
    raise AttributeError(f"module 'adjoint.nn.parallel.distributed' has no attribute '{name}'")
