"""Switches of CUDA kernels: how precise matrix multiplications must be, and which ones may compute attention."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any, NamedTuple

from ..devices.cpu import products

__all__ = [
    "SDPAParams", "can_use_cudnn_attention", "can_use_efficient_attention", "can_use_flash_attention",
    "cudnn_sdp_enabled", "enable_cudnn_sdp", "enable_flash_sdp", "enable_math_sdp", "enable_mem_efficient_sdp",
    "flash_sdp_enabled", "is_built", "is_flash_attention_available", "math_sdp_enabled", "matmul",
    "mem_efficient_sdp_enabled",
]  # fmt: skip


class _Matmul:
    """What programs allow matrix multiplications; 16-bit numbers are always added up in single precision."""

    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True

    @property
    def allow_tf32(self) -> bool:
        """Whether float32 matrices may be multiplied in TF32, which has ten bits for the fraction.

        False at first; `adjoint.set_float32_matmul_precision` sets the same switch.

        Examples
        --------
        >>> adjoint.backends.cuda.matmul.allow_tf32 = True
        >>> adjoint.get_float32_matmul_precision()
        'high'
        >>> adjoint.backends.cuda.matmul.allow_tf32 = False
        """
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


# --- Attention ------------------------------------------------------------------------------------------


class SDPAParams(NamedTuple):
    """The arguments of an attention, for the questions below."""

    query: Any
    key: Any
    value: Any
    attn_mask: Any
    dropout: float
    is_causal: bool
    enable_gqa: bool


def can_use_flash_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Return False: FlashAttention's own kernels are not in here."""
    return False


def can_use_efficient_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Return False: the kernels of xFormers are not in here."""
    return False


def can_use_cudnn_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Return False: attention is not computed by cuDNN."""
    return False


def is_flash_attention_available() -> bool:
    """Return False: FlashAttention's own kernels are not in here."""
    return False


# What programs have allowed. They ask for it again; which kernel runs is a question of what it can do.
_allowed = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def flash_sdp_enabled() -> bool:
    """Return whether FlashAttention is allowed."""
    return _allowed["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Allow FlashAttention, or not."""
    _allowed["flash"] = enabled


def mem_efficient_sdp_enabled() -> bool:
    """Return whether attention in blocks is allowed."""
    return _allowed["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Allow attention in blocks, or not."""
    _allowed["mem_efficient"] = enabled


def math_sdp_enabled() -> bool:
    """Return whether attention step by step is allowed."""
    return _allowed["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Allow attention step by step, or not."""
    _allowed["math"] = enabled


def cudnn_sdp_enabled() -> bool:
    """Return whether cuDNN's attention is allowed."""
    return _allowed["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Allow cuDNN's attention, or not."""
    _allowed["cudnn"] = enabled
