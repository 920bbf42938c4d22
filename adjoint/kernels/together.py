"""Who computes with many arrays at once."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["on_gpu"]


def on_gpu(arrays: list[Any]) -> Any:
    """Return the kernels over many arrays if these are all on one GPU and each lies in one piece, else None."""
    first = arrays[0]
    if type(first) is np.ndarray or not hasattr(first, "_c_contiguous"):  # as CuPy's arrays have
        return None
    from .gpu import many  # imports CuPy, which is there if an array of its own is

    return many if many.are_dense(arrays) else None
