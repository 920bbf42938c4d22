"""Switches of CUDA kernels: how precise products of matrices must be."""

from __future__ import annotations

from importlib.util import find_spec

__all__ = ["is_built", "matmul"]


class _Matmul:
    """What programs may allow products of matrices; they are computed in full precision all the same."""

    allow_tf32 = False
    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True
    fp32_precision = "ieee"


matmul = _Matmul()


def is_built() -> bool:
    """Return whether CuPy, which speaks to the GPU, is installed."""
    return find_spec("cupy") is not None
