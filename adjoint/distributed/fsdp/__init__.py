"""Fully sharded data parallel."""

from __future__ import annotations

from .fully_shard import (
    CPUOffloadPolicy,
    FSDPModule,
    FullyShardedDataParallel,
    MixedPrecisionPolicy,
    OffloadPolicy,
    UnshardHandle,
    fully_shard,
)

__all__ = [
    "CPUOffloadPolicy", "FSDPModule", "FullyShardedDataParallel", "MixedPrecisionPolicy", "OffloadPolicy",
    "UnshardHandle", "fully_shard",
]  # fmt: skip
