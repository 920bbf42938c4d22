"""Linear algebra on a GPU: CuPy's functions, which raise here where a matrix has no solution, as NumPy's do."""

from __future__ import annotations

from typing import Any

import cupy
import cupyx
import numpy as np

from ..._typing import Array, Kernel

__all__ = ["cholesky", "det", "eig", "eigh", "eigvalsh", "inv", "qr", "slogdet", "solve", "svd"]


def _checked(name: str) -> Kernel:
    function = getattr(cupy.linalg, name)

    def call(*args: object, **kwargs: object) -> Any:
        # CuPy would return whatever cuSOLVER left behind: to look costs one wait for the GPU.
        with cupyx.errstate(linalg="raise"):
            return function(*args, **kwargs)

    call.__name__ = name
    return call


cholesky, det, eig, eigh, eigvalsh, inv, qr, slogdet, svd, _solve = map(
    _checked, ("cholesky", "det", "eig", "eigh", "eigvalsh", "inv", "qr", "slogdet", "svd", "solve")
)


def solve(a: Array, b: Array) -> Array:
    """Solve linear systems; CuPy does not broadcast batches of them."""
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if a.shape[:-2] != lead:
        a = cupy.broadcast_to(a, (*lead, *a.shape[-2:]))
    if b.shape[:-2] != lead:
        b = cupy.broadcast_to(b, (*lead, *b.shape[-2:]))
    return _solve(a, b)
