"""Choosing the kernel of attention: one that computes in blocks, or separate steps."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..ops.attention import choice

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(enum.IntEnum):
    """A way to compute attention, for `sdpa_kernel`.

    `MATH` computes step by step; `FLASH_ATTENTION`, `EFFICIENT_ATTENTION` and `CUDNN_ATTENTION` compute in blocks. The
    last three are one kernel here.

    Examples
    --------
    >>> adjoint.nn.attention.SDPBackend.MATH.name
    'MATH'
    >>> [backend.value for backend in adjoint.nn.attention.SDPBackend]
    [-1, 0, 1, 2, 3, 4]
    """

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: Any, set_priority: bool = False) -> Iterator[None]:
    """Choose kernels for attention inside the context.

    With `MATH` alone attention is computed step by step. Any other choice permits the kernel that computes in blocks,
    for attention without mask and dropout. Results differ by rounding only.

    Parameters
    ----------
    backends : SDPBackend or list of SDPBackend
        The kernels that are permitted.
    set_priority : bool, default False
        Accepted and not used.

    Yields
    ------
    None
        The choice of before is restored at the end.

    Raises
    ------
    AssertionError
        If `backends` holds something else.

    Examples
    --------
    >>> query = adjoint.ones(1, 2, 4, 8)
    >>> with adjoint.nn.attention.sdpa_kernel(adjoint.nn.attention.SDPBackend.MATH):
    ...     out = adjoint.nn.functional.scaled_dot_product_attention(query, query, query)
    >>> out.shape
    adjoint.Size([1, 2, 4, 8])
    """
    chosen = [backends] if isinstance(backends, SDPBackend) else list(backends)
    if not all(isinstance(b, SDPBackend) for b in chosen):
        raise AssertionError("Backend must be an instance of SDPBackend or a list of SDPBackend instances")
    before, choice.blocks = choice.blocks, any(b is not SDPBackend.MATH for b in chosen)
    try:
        yield
    finally:
        choice.blocks = before
