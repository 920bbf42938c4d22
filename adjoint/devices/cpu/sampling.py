"""Images read between pixels, where a grid says: in compiled loops, where Numba is installed and arrays are large."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._typing import Array
from . import provider
from .rows import run_cuts
from .table import override


def _fits(x: Array, grid: Array, *how: object) -> bool:
    size = grid.size // 2 * x.shape[1]
    return grid.dtype is x.dtype and grid.size > 0 < x.size and provider.loops("sample", x, size) is not None


def _given(x: Array, grid: Array, aligned: bool, border: bool) -> tuple[Any, ...]:
    x, grid = np.ascontiguousarray(x), np.ascontiguousarray(grid)
    places = grid.shape[1] * grid.shape[2]
    return x.reshape(-1), *x.shape[1:], grid.reshape(-1), places, int(aligned), int(border)


@override("grid_sampler_2d", when=_fits)
def sampled(x: Array, grid: Array, padding_mode: str, align_corners: bool) -> Array:
    """Return images (N, C, H, W) at the places of a grid (N, H', W', 2)."""
    from . import moves

    out = np.empty((*x.shape[:2], *grid.shape[1:3]), x.dtype)
    given = _given(x, grid, align_corners, padding_mode == "border")
    run_cuts(moves.sample, "wssswsssw", x.shape[0] * x.shape[1], out.size, *given, out.reshape(-1))
    return out


@override("grid_sampler_2d", gradient="joint", when=lambda g, x, *rest: g.dtype is x.dtype and _fits(x, *rest))
def sampled_backward(
    g: Array, x: Array, grid: Array, padding_mode: str, align_corners: bool, needs: Sequence[bool]
) -> tuple[Array | None, Array | None]:
    """Return the gradients of images and grid that are needed."""
    from . import moves

    gx = np.empty(x.shape if needs[0] else (1,), x.dtype)
    ggrid = np.empty(grid.shape if needs[1] else (1,), x.dtype)
    given = (
        *_given(x, grid, align_corners, padding_mode == "border"),
        np.ascontiguousarray(g).reshape(-1),
        needs[0] + 2 * needs[1],
    )
    run_cuts(moves.sample_back, "wssswssswsww", len(x), g.size, *given, gx.reshape(-1), ggrid.reshape(-1))
    return gx if needs[0] else None, ggrid if needs[1] else None
