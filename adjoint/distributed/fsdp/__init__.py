"""Fully sharded data parallel."""

from __future__ import annotations

from .fully_shard import FSDPModule, MixedPrecisionPolicy, OffloadPolicy, UnshardHandle, fully_shard

__all__ = ["FSDPModule", "MixedPrecisionPolicy", "OffloadPolicy", "UnshardHandle", "fully_shard"]
