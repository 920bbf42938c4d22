"""Switches of CUDA kernels: how precise products of matrices must be."""

from __future__ import annotations

from importlib.util import find_spec

from ..kernels import products

__all__ = ["is_built", "matmul"]


class _Matmul:
    """What programs allow products of matrices; 16-bit numbers are always added up in single precision."""

    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True

    @property
    def allow_tf32(self) -> bool:
        """Whether float32 matrices may be multiplied in TF32, which has ten bits for the fraction."""
        return products.precision.tf32

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        products.precision.set("high" if value else "highest")

    @property
    def fp32_precision(self) -> str:
        """The same as a word, "ieee" or "tf32"."""
        return "tf32" if products.precision.tf32 else "ieee"

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        self.allow_tf32 = value == "tf32"


matmul = _Matmul()


def is_built() -> bool:
    """Return whether CuPy, which speaks to the GPU, is installed."""
    return find_spec("cupy") is not None
