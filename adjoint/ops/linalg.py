"""Linear algebra."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.recorders import binary, nary
from .create import into

Tensor = Any


def _matmul_x(g: Any, x: Any, y: Any) -> Any:
    return g @ y.swapaxes(-1, -2)


matmul_p = binary(
    np.matmul,
    x=lambda g, y: g @ y.swapaxes(-1, -2),
    y=lambda g, x: x.swapaxes(-1, -2) @ g,
    jvp="bilinear",
    batch="matmul",
    node_name="MmBackward0",
)


def matmul(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """Multiply matrices, vectors or batches of them."""
    return into(out, matmul_p(input, other))
