"""What CuPy lacks is computed on the host: one trip there and back, of a few ops that are listed in docs/coverage.md.

This file does not import CuPy, so that ops can name their kernels by it wherever they run.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

__all__ = ["names", "through_host"]

names: set[str] = set()  # of what runs on the host


def through_host(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator for a kernel that NumPy or SciPy computes: arrays on a GPU go to the host, results come back.

    `name` is the op's, for the list of those that make this trip.
    """
    names.add(name)

    def decorate(kernel: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(kernel)
        def call(*values: Any) -> Any:
            like = next((v for v in values if _on_gpu(v)), None)
            if like is None:
                return kernel(*values)
            return _back(kernel(*[v.get() if _on_gpu(v) else v for v in values]), like)

        return call

    return decorate


def _on_gpu(value: Any) -> bool:
    return type(value) is not np.ndarray and hasattr(value, "__cuda_array_interface__")


def _back(result: Any, like: Any) -> Any:
    """Return arrays, or a tuple of them, on the GPU that holds `like`."""
    if isinstance(result, tuple):
        return tuple(_back(r, like) for r in result)
    with like.device:
        return sys.modules["cupy"].asarray(result)
