"""Activation functions of large arrays, where something faster than NumPy is installed."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import fused, provider
from .rows import run_rows


def _shared(loop: Any, *arrays: Any) -> Any:
    flat = [np.ascontiguousarray(a).reshape(-1) for a in arrays]
    out = np.empty(arrays[0].shape, arrays[0].dtype)
    run_rows(loop, "v" * (len(flat) + 1), *flat, out.reshape(-1))
    return out


def forward(kind: str, x: Any) -> Any:
    """Return an activation function of each element, None where there is only NumPy."""
    loops = provider.loops("gelu", x) if kind == "gelu" else None
    if loops is not None:
        return _shared(loops.gelu, x)
    if kind in fused.FORMULAS and (found := fused.apply(kind, x)) is not None:
        return found
    dnn = provider.onednn("eltwise", x)
    return None if dnn is None else dnn.eltwise(kind, x)


def backward(kind: str, g: Any, x: Any) -> Any:
    """Return the gradient of an activation function's input, None where there is only NumPy."""
    loops = provider.loops("gelu", x) if kind == "gelu" else None
    if loops is not None:
        return _shared(loops.gelu_back, g, x)
    if f"{kind}_back" in fused.FORMULAS and (found := fused.apply(f"{kind}_back", g, x)) is not None:
        return found
    dnn = provider.onednn("eltwise", x)
    return None if dnn is None else dnn.eltwise_back(kind, g, x)
