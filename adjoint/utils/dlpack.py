"""Tensors of other libraries without a copy, by the DLPack protocol."""

from __future__ import annotations

from ..ops.interop import from_dlpack, to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]
