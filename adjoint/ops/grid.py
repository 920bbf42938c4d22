"""Reading images at places that a tensor names: `grid_sample`, and the grids to read at."""

from __future__ import annotations

import functools
import itertools
import math
import operator
import warnings
from typing import Any

import numpy as np

from .._typing import Array, Inputs, Params, Shape, Tangents, Tensor, Value
from ..core.device import module_of
from ..core.dtypes import of
from ..core.folding import fold
from ..core.nodes import wrap
from ..core.recorders import Primitive, nary
from .arguments import require_bool, require_tensor
from .contraction import check_dtypes
from .gather import gather_p, ungather_p
from .index import select_p
from .join import stack_p
from .literals import depth_outside
from .piecewise import floor_p, round_p, where_p
from .pooling import refuse
from .precision import autocasting
from .reduce import is_half
from .resample import cubic_weights
from .shape import cast_p, expand_p, reshape_p

__all__ = ["affine_grid_generator", "grid_sampler", "grid_sampler_2d", "grid_sampler_3d"]

GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}
ndarray = np.ndarray
_INTEGER = np.dtype(np.int64)

# --- Coordinates ------------------------------------------------------------------------------------
# Along each dimension, a place between -1 and 1 becomes one between pixels; then, by the padding mode, one
# within the image; then the pixels around it, each with a weight.


def _in_pixels(c: Tensor, n: int, align_corners: bool) -> Tensor:
    return (c + 1) * ((n - 1) / 2) if align_corners else ((c + 1) * n - 1) * 0.5


def _clipped(c: Tensor, n: int) -> Tensor:
    """Return coordinates moved to the edge; what is moved, or is on the edge already, has no gradient."""
    return where_p(c > 0, where_p(c >= n - 1, float(n - 1), c), 0.0)  # NaN goes to the first pixel


def _reflected(c: Tensor, n: int, align_corners: bool) -> Tensor:
    low, span = (0.0, float(n - 1)) if align_corners else (-0.5, float(n))
    if span == 0:
        return c * 0
    c = c - low
    c = where_p(c < 0, -c, c)
    turns = floor_p(c / span)
    rest = c - turns * span
    return where_p(turns - 2 * floor_p(turns / 2) == 0, rest + low, (span + low) - rest)


def _contained(c: Tensor, n: int, padding_mode: str, align_corners: bool) -> Tensor:
    if padding_mode == "zeros":
        return c
    return _clipped(c if padding_mode == "border" else _reflected(c, n, align_corners), n)


Neighbour = tuple[Any, Any, Any]  # where a pixel is along a dimension, its weight, whether it is one


def _neighbours(c: Tensor, n: int, mode: str, padding_mode: str, align_corners: bool) -> list[Neighbour]:
    c = _in_pixels(c, n, align_corners)
    if mode == "bicubic":
        low = floor_p(c)
        weights = cubic_weights(c - low)
        places = [_contained(low + (i - 1), n, padding_mode, align_corners) for i in range(4)]
        return [_bounded(p, w, n) for p, w in zip(places, weights, strict=True)]
    c = _contained(c, n, padding_mode, align_corners)
    if mode == "nearest":
        one = where_p(c < -math.inf, c, 1)  # everywhere, with a gradient of zeros, which is recorded
        return [_bounded(round_p(c), one, n)]
    low = floor_p(c)
    t = c - low
    return [_bounded(low, 1 - t, n), _bounded(low + 1, t, n)]


def _bounded(place: Tensor, weight: Tensor, n: int) -> Neighbour:
    """Return a pixel's index, its weight (zero outside of the image), and whether it is inside."""
    inside = (place >= 0) & (place <= n - 1)
    return cast_p(where_p(inside, place, 0), _INTEGER), where_p(inside, weight, weight * 0), inside


# --- Reading ----------------------------------------------------------------------------------------
# Images, volumes and grids are tensors here, or the values inside of them.


def _along(grid: Value, size: Any, neighbours: Any, *how: Any) -> list[list[Neighbour]]:
    """Return the neighbours along each dimension: the grid has x first, dimensions have it last."""
    rank = len(size)
    return [neighbours(select_p(grid, grid.ndim - 1, rank - 1 - d), size[d], *how) for d in range(rank)]


def _place(corner: Any, size: Any, channels: int) -> Value:
    """Return the index of a corner in its flattened image, for each channel."""
    place = corner[0][0]
    for n, (p, *_) in zip(size[1:], corner[1:], strict=True):
        place = place * n + p
    count = place.shape[0]
    length = math.prod(place.shape[1:])
    return expand_p(reshape_p(place, (count, 1, length)), (count, channels, length))


def _weight(corner: Any) -> Value:
    """Return a corner's weight, for all channels."""
    weight = corner[0][1]
    for _, w, _ in corner[1:]:
        weight = weight * w
    return reshape_p(weight, (weight.shape[0], 1, math.prod(weight.shape[1:])))


def _inside(corner: Any, values: Value) -> Value:
    """Return what is read at a corner, or goes there: 0 outside of the image, whatever the pixel in its place is."""
    inside = functools.reduce(operator.and_, (at for _, _, at in corner))
    return where_p(reshape_p(inside, (inside.shape[0], 1, math.prod(inside.shape[1:]))), values, 0)


def _sample(x: Value, grid: Value, mode: str, padding_mode: str, align_corners: bool) -> Any:
    count, channels, *size = x.shape
    image = reshape_p(x, (count, channels, math.prod(size)))
    total = None
    for corner in itertools.product(*_along(grid, size, _neighbours, mode, padding_mode, align_corners)):
        part = _inside(corner, gather_p(image, _place(corner, size, channels), 2)) * _weight(corner)
        total = part if total is None else total + part
    return reshape_p(total, (count, channels, *grid.shape[1:-1]))


# --- Images, in one pass ----------------------------------------------------------------------------
# What is read most, bilinearly and without reflection, is an op of its own, with compiled loops. The above says what it
# is, and computes it where there are none.


def _bilinear(x: Value, grid: Value, padding_mode: str, align_corners: bool) -> Any:
    return _sample(x, grid, "bilinear", padding_mode, align_corners)


def _slopes(c: Any, n: int, padding_mode: str, align_corners: bool) -> list[Neighbour]:
    """Return the two neighbours along a dimension, with how fast their weights change instead of these."""
    c = _in_pixels(c, n, align_corners)
    slope = c * 0 + ((n - 1) / 2 if align_corners else n / 2)
    if padding_mode == "border":
        slope = where_p((c <= 0) | (c >= n - 1), c * 0, slope)
    low = floor_p(_contained(c, n, padding_mode, align_corners))
    return [_bounded(low, -slope, n), _bounded(low + 1, slope, n)]


def _turned(along: Any, slopes: Any) -> Any:
    """Return for each corner, and for x and y, its weight when the weight along that dimension is its slope."""
    for (y, x), (slope_y, slope_x) in zip(itertools.product(*along), itertools.product(*slopes), strict=True):
        yield (y, x), (_weight((y, slope_x)), _weight((slope_y, x)))


def _bilinear_back(
    g: Value, x: Value, grid: Value, padding_mode: str, align_corners: bool, needs: tuple[bool, ...],
) -> tuple[Tensor, Tensor]:  # fmt: skip
    count, channels, *size = x.shape
    how = (padding_mode, align_corners)
    along, slopes = _along(grid, size, _neighbours, "bilinear", *how), _along(grid, size, _slopes, *how)
    image = reshape_p(x, (count, channels, math.prod(size)))
    g = reshape_p(g, (count, channels, -1))
    gx: Any = 0
    turns: list[Any] = [0, 0]
    for corner, turned in _turned(along, slopes):
        place = _place(corner, size, channels)
        gx = gx + ungather_p(_inside(corner, g * _weight(corner)), place, image.shape, 2)
        change = (g * _inside(corner, gather_p(image, place, 2))).sum(1, keepdims=True)
        turns = [t + change * w for t, w in zip(turns, turned, strict=True)]
    shape = tuple(grid.shape[:-1])
    return reshape_p(gx, tuple(x.shape)), stack_p(tuple(reshape_p(t, shape) for t in turns), len(shape))


def _bilinear_jvp(tangents: Tangents, inputs: Inputs, out: Value, params: Params) -> Any:
    (tx, tgrid), (x, grid) = tangents, inputs
    total = None if tx is None else grid_sampler_2d_p(tx, grid, *params)
    if tgrid is None:
        return total
    count, channels, *size = x.shape
    image = reshape_p(x, (count, channels, math.prod(size)))
    moved: Any = 0
    along = _along(grid, size, _neighbours, "bilinear", *params)
    for corner, turned in _turned(along, _along(grid, size, _slopes, *params)):
        change = sum(reshape_p(select_p(tgrid, tgrid.ndim - 1, d), (count, 1, -1)) * w for d, w in enumerate(turned))
        moved = moved + _inside(corner, gather_p(image, _place(corner, size, channels), 2)) * change
    moved = reshape_p(moved, tuple(out.shape))
    return moved if total is None else total + moved


def _bilinear_batch(x: Value, grid: Value, *params: object) -> Value:
    size = max(x.shape[0], grid.shape[0])
    x, grid = (expand_p(a, (size, *a.shape[1:])) for a in (x, grid))
    joined = (reshape_p(a, (size * a.shape[1], *a.shape[2:])) for a in (x, grid))
    out = grid_sampler_2d_p(*joined, *params)
    return reshape_p(out, (size, -1, *out.shape[1:]))


grid_sampler_2d_p: Primitive = nary(
    _bilinear,
    inputs=2,
    joint=_bilinear_back,
    jvp=_bilinear_jvp,
    batch=_bilinear_batch,
    name="grid_sampler_2d",
    node_name="GridSampler2DBackward0",
)


def _check(input: Tensor, grid: Tensor, mode: str) -> None:
    x, g = input.array, grid.array
    if x.ndim not in (4, 5) or x.ndim != g.ndim:
        raise RuntimeError(
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but got input with sizes "
            f"{list(x.shape)} and grid with sizes {list(g.shape)}"
        )
    if x.shape[0] != g.shape[0]:
        raise RuntimeError(
            "grid_sampler(): expected grid and input to have same batch size, but got input with sizes "
            f"{list(x.shape)} and grid with sizes {list(g.shape)}"
        )
    if g.shape[-1] != x.ndim - 2:
        raise RuntimeError(
            f"grid_sampler(): expected grid to have size {x.ndim - 2} in last dimension, but got grid with sizes "
            f"{list(g.shape)}"
        )
    if 0 in x.shape[2:]:
        raise RuntimeError(
            f"grid_sampler(): expected input to have non-empty spatial dimensions, but input has sizes {list(x.shape)}"
        )
    if mode == "bicubic" and x.ndim == 5:
        raise RuntimeError("grid_sampler(): bicubic interpolation only supports 4D input")
    refuse("grid_sampler", x, "biuc")
    check_dtypes(x, g, "grid_sampler(): expected input and grid to have the same dtype, but got {} and {}")


@autocasting
def grid_sample(
    input: Tensor, grid: Tensor, mode: Any = "bilinear", padding_mode: Any = "zeros",
    align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """Sample images or volumes at the places that `grid` names.

    Parameters
    ----------
    input : Tensor
        Images, ``(N, C, H, W)``, or volumes, ``(N, C, D, H, W)``.
    grid : Tensor
        Places ``(x, y)``, ``(N, H_out, W_out, 2)``, or ``(x, y, z)``, ``(N, D_out, H_out, W_out, 3)``. -1 and 1 are
        the two ends of a dimension; x belongs to the last one.
    mode : {"bilinear", "nearest", "bicubic"}, default "bilinear"
        How to interpolate; volumes are interpolated trilinearly by ``"bilinear"`` and have no ``"bicubic"``.
    padding_mode : {"zeros", "border", "reflection"}, default "zeros"
        What stands outside: zeros, the nearest edge, or the mirror image.
    align_corners : bool, default False
        Whether -1 and 1 are the centers of the outermost pixels and not their outer edges. Leaving it out warns.

    Returns
    -------
    Tensor
        ``(N, C, H_out, W_out)`` or ``(N, C, D_out, H_out, W_out)``.

    Examples
    --------
    >>> image = adjoint.tensor([[[[0.0, 1.0], [2.0, 3.0]]]])
    >>> grid = adjoint.tensor([[[[0.0, 0.0], [1.0, -1.0]]]])
    >>> adjoint.nn.functional.grid_sample(image, grid, align_corners=True)
    tensor([[[[1.5000, 1.0000]]]])
    """
    if not isinstance(mode, str) or mode not in GRID_SAMPLE_INTERPOLATION_MODES:
        raise ValueError(
            f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: '{mode}'"
        )
    if not isinstance(padding_mode, str) or padding_mode not in GRID_SAMPLE_PADDING_MODES:
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but got: "
            f"'{padding_mode}'"
        )
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please "
            "specify align_corners=True if the old behavior is desired. See the documentation of grid_sample for "
            "details.",
            stacklevel=depth_outside(),
        )
        align_corners = False
    require_bool(align_corners, "align_corners", "grid_sampler")
    require_tensor(input, "input", "grid_sample")
    require_tensor(grid, "grid", "grid_sample")
    _check(input, grid, mode)
    # As torch's, halves are rounded at each step.
    if mode == "bilinear" and padding_mode != "reflection" and input.array.ndim == 4 and not is_half(input.array.dtype):
        return grid_sampler_2d_p(input, grid, padding_mode, align_corners)
    out: Tensor = _sample(input, grid, mode, padding_mode, align_corners)
    return fold(out, f"GridSampler{input.array.ndim - 2}DBackward0", input, grid, align_corners=align_corners)


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Do what `grid_sample` does, with modes by number."""
    mode = _mode_of(GRID_SAMPLE_INTERPOLATION_MODES, interpolation_mode, "interpolation_mode")
    padding = _mode_of(GRID_SAMPLE_PADDING_MODES, padding_mode, "padding_mode")
    require_bool(align_corners, "align_corners", "grid_sampler")
    return grid_sample(input, grid, mode, padding, align_corners)


def _mode_of(modes: dict[str, int], number: int, name: str) -> str:
    """Return a mode by its number; what torch makes of a number that is none is not defined."""
    if not 0 <= number < len(modes):
        raise TypeError(f"grid_sampler(): argument '{name}' must be one of {modes}, not {number}")
    return list(modes)[number]


def grid_sampler_2d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Do what `grid_sample` does to images, with modes by number."""
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


def grid_sampler_3d(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """Do what `grid_sample` does to volumes, with modes by number."""
    return grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners)


# --- Grids ------------------------------------------------------------------------------------------


def _base(theta: Value, size: tuple[int, ...], align_corners: bool) -> Array:
    """Return the places of all pixels as (x, y, 1), from -1 to 1."""
    xp, dtype = module_of(theta), theta.dtype
    lines = []
    for n in size:
        line = xp.linspace(-1, 1, n) if n > 1 else xp.zeros(1)
        lines.append((line if align_corners else line * (n - 1) / n).astype(dtype))
    places = xp.meshgrid(*lines, indexing="ij")[::-1]
    return xp.stack([*places, xp.ones(size, dtype)], -1).reshape(-1, len(size) + 1)


def affine_grid(theta: Tensor, size: Shape, align_corners: bool | None = None) -> Tensor:
    """Return the grid at which `grid_sample` reads an image that an affine map moves.

    Parameters
    ----------
    theta : Tensor
        Matrices, ``(N, 2, 3)`` for images or ``(N, 3, 4)`` for volumes: each place is ``theta @ (x, y, 1)``.
    size : tuple of int
        Size of the images to be sampled: ``(N, C, H, W)`` or ``(N, C, D, H, W)``.
    align_corners : bool, default False
        Whether -1 and 1 are the centers of the outermost pixels and not their outer edges; as in `grid_sample`.
        Leaving it out warns.

    Returns
    -------
    Tensor
        The places, ``(N, H, W, 2)`` or ``(N, D, H, W, 3)``.

    Examples
    --------
    >>> identity = adjoint.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> adjoint.nn.functional.affine_grid(identity, (1, 1, 1, 2), align_corners=True)
    tensor([[[[-1.,  0.],
              [ 1.,  0.]]]])
    """
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. Please "
            "specify align_corners=True if the old behavior is desired. See the documentation of grid_sample for "
            "details.",
            stacklevel=depth_outside(),
        )
        align_corners = False
    require_tensor(theta, "theta", "affine_grid")
    sizes = tuple(operator.index(n) for n in size)
    if theta.array.dtype.kind in "biu":
        raise ValueError(
            f"Expected theta to have floating point type, but got {of(theta.array.dtype)}; convert it with .float()"
        )
    rank = len(sizes) - 2
    if rank not in (2, 3):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size "
            f"{list(sizes)}."
        )
    if tuple(theta.array.shape[1:]) != (rank, rank + 1) or theta.array.ndim != 3:
        raise ValueError(
            f"Expected a batch of {rank}D affine matrices of shape Nx{rank}x{rank + 1} for size {list(sizes)}. Got "
            f"{tuple(theta.array.shape)}."
        )
    if min(sizes) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {list(sizes)}")
    base = wrap(_base(theta.array, sizes[2:], align_corners))
    return reshape_p(base @ theta.mT, (sizes[0], *sizes[2:], rank))


def affine_grid_generator(theta: Tensor, size: Shape, align_corners: bool) -> Tensor:
    """Do what `affine_grid` does."""
    return affine_grid(theta, size, align_corners)
