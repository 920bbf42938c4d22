"""Which kernel computes attention: one that goes by blocks, or the steps that it is made of."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..ops.attention import choice

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(enum.IntEnum):
    """A way to compute attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Choose kernels for attention inside the context: with `MATH` alone it is computed step by step.

    All others are the same kernel here, which computes in blocks what it can: attention without mask and dropout.

    Examples
    --------
    >>> with adjoint.nn.attention.sdpa_kernel(adjoint.nn.attention.SDPBackend.MATH):
    ...     pass
    """
    chosen = [backends] if isinstance(backends, SDPBackend) else list(backends)
    if not all(isinstance(b, SDPBackend) for b in chosen):
        raise AssertionError("Backend must be an instance of SDPBackend or a list of SDPBackend instances")
    before, choice.blocks = choice.blocks, any(b is not SDPBackend.MATH for b in chosen)
    try:
        yield
    finally:
        choice.blocks = before
