"""Words of torch's that name a choice which adjoint does not have: they can be mentioned and compared."""

from __future__ import annotations

import enum
from typing import Any

from .unsupported import Unsupported

__all__ = ["DTYPES", "QSCHEMES", "Tag", "qscheme"]


class Tag(enum.Enum):
    """What torch notes about an operator."""

    core = 0
    data_dependent_output = 1
    dynamic_output_shape = 2
    flexible_layout = 3
    generated = 4
    inplace_view = 5
    maybe_aliasing_or_mutating = 6
    needs_contiguous_strides = 7
    needs_exact_strides = 8
    needs_fixed_stride_order = 9
    nondeterministic_bitwise = 10
    nondeterministic_seeded = 11
    pointwise = 12
    pt2_compliant_tag = 13
    reduction = 14
    view_copy = 15
    cudagraph_unsafe = 16
    out = 17


class qscheme:
    """How quantized numbers stand for others; no tensor here is quantized."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> str:
        return self.name


QSCHEMES: dict[str, Any] = {
    name: qscheme(name)
    for name in (
        "per_tensor_affine",
        "per_channel_affine",
        "per_tensor_symmetric",
        "per_channel_symmetric",
        "per_channel_affine_float_qparams",
    )
}

# Dtypes narrower than a byte, and those whose bits mean nothing.
_NARROW = "bits8 bits16 bits1x8 bits2x4 bits4x2 float8_e8m0fnu float4_e2m1fn_x2"
DTYPES: dict[str, Any] = {
    name: Unsupported(f"torch.{name}")
    for name in [*_NARROW.split(), *(f"{kind}{bits}" for kind in ("int", "uint") for bits in range(1, 8))]
}
