"""Who computes with many arrays at once."""

from __future__ import annotations

from typing import Any

from . import provider

__all__ = ["on_gpu"]


def on_gpu(arrays: list[Any]) -> Any:
    """Return the kernels over many arrays if these are all on one GPU and each lies in one piece, else None."""
    if provider.gpu(arrays[0]) is None:
        return None
    from ..cuda import many  # imports CuPy, which is there if an array of its own is

    return many if many.are_dense(arrays) else None
