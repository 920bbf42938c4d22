"""Padding, interpolation, and rearranging channels as pixels.

Padding and interpolation are weighted sums along one dimension after another, as averages are (see
`windows.py`): the plan of a dimension says which places of the input each place of the result is made of.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._typing import Ints, Shape, Tensor, Value
from ..core.folding import fold
from ..core.recorders import Primitive
from ..core.tensor import TensorBase
from .adaptive_pooling import adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d
from .arguments import count_of, is_int, require_bool, require_tensor
from .arrange import constant_pad_nd
from .dimensions import permute_p
from .literals import depth_outside
from .pooling import mixing, refuse
from .shape import clone_p, reshape
from .windows import Taps, recipe

__all__ = ["channel_shuffle", "native_channel_shuffle", "pixel_shuffle", "pixel_unshuffle"]

# --- Padding ----------------------------------------------------------------------------------------

_PADS = {
    (mode, n): mixing(f"{mode}_pad{n}d", f"{title}{n}DBackward0")
    for mode, title in (("reflect", "ReflectionPad"), ("replicate", "ReplicationPad"), ("circular", "CircularPad"))
    for n in (1, 2, 3)
}


@recipe("padding")
def _padding(mode: str, n: int, before: int, after: int) -> Taps:
    index = np.arange(-before, n + after)
    if mode == "reflect":
        index = (n - 1) - np.abs((n - 1) - np.abs(index))
    elif mode == "replicate":
        index = index.clip(0, n - 1)
    else:
        # What is cut off at one end is not there to go around to.
        begin, end = max(-before, 0), n - max(-after, 0)
        index = begin + np.arange(-max(before, 0), end - begin + max(after, 0)) % max(end - begin, 1)
    return Taps.of(n, index[:, None])


def _check_padding(mode: str, shape: Sequence[int], d: int, before: int, after: int) -> None:
    n = shape[d]
    if mode == "reflect" and (before >= n or after >= n):
        raise RuntimeError(
            "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding "
            f"({before}, {after}) at dimension {d} of input {list(shape)}"
        )
    if mode == "circular" and (before > n or after > n):
        raise RuntimeError("Padding value causes wrapping around more than once.")
    if n + before + after < (1 if n else 0) or (n == 0 and (before or after)):
        raise RuntimeError(
            f"input of size {list(shape)} with padding ({before}, {after}) at dimension {d}: Negative padding value "
            "is resulting in an empty dimension"
        )


def pad(input: Tensor, pad: Any, mode: str = "constant", value: float | None = None) -> Tensor:
    """Pad dimensions, from the last one on.

    Parameters
    ----------
    input : Tensor
        Any shape. Modes other than ``"constant"`` pad one to three dimensions, after channels or batch and channels.
    pad : sequence of int
        Elements to add before and after the last dimension, then before and after the one before it, and so on.
        Negative numbers cut off.
    mode : {"constant", "reflect", "replicate", "circular"}, default "constant"
        What to add: `value`, the mirror image without the edge, the edge, or the other end.
    value : float, default 0
        What ``"constant"`` adds.

    Returns
    -------
    Tensor
        A new tensor; a padded dimension has ``before + n + after`` elements.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 2.0, 3.0]])
    >>> adjoint.nn.functional.pad(x, (1, 0, 0, 1), value=9.0)
    tensor([[9., 1., 2., 3.],
            [9., 9., 9., 9.]])
    >>> adjoint.nn.functional.pad(x, (2, 1), mode="reflect")
    tensor([[3., 2., 1., 2., 3., 2.]])
    """
    require_tensor(input, "input", "pad")
    widths = [int(p) for p in pad]
    if mode == "constant":
        return constant_pad_nd(input, widths, 0 if value is None else value)
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    if len(widths) % 2:
        raise RuntimeError(f"Padding length must be divisible by 2, got {len(widths)}")
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    shape = tuple(input.array.shape)
    rank = len(widths) // 2
    if rank not in (1, 2, 3) or len(shape) not in (rank + 1, rank + 2):
        raise NotImplementedError(
            f"Only 2D, 3D, 4D, 5D padding with non-constant padding are supported for now: got {len(shape)}D input and "
            f"{len(widths)} paddings for mode {mode!r}"
        )
    pairs = [(widths[i], widths[i + 1]) for i in range(len(widths) - 2, -1, -2)]
    for i, pair in enumerate(pairs):
        _check_padding(mode, shape, len(shape) - rank + i, *pair)
    if 0 in shape[1:]:
        raise RuntimeError(
            f"Expected {rank + 1}D or {rank + 2}D (batch mode) tensor with possibly 0 batch size and other non-zero "
            f"dimensions for input, but got: {list(shape)}"
        )
    if mode != "circular":
        refuse(f"{mode}_pad{rank}d", input.array, "b")
    plans = tuple(_padding(mode, n, *pair) for n, pair in zip(shape[-rank:], pairs, strict=True))
    return _PADS[mode, rank](input, plans)


# --- Interpolation ----------------------------------------------------------------------------------

_LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}
_RESIZERS: dict[tuple[str, int], Primitive] = {}
for _n in (1, 2, 3):
    _RESIZERS["nearest", _n] = mixing(f"upsample_nearest{_n}d", f"UpsampleNearest{_n}DBackward0")
    _RESIZERS["nearest-exact", _n] = mixing(f"upsample_nearest_exact{_n}d", f"UpsampleNearestExact{_n}DBackward0")
    _RESIZERS[_LINEAR[_n], _n] = mixing(
        f"upsample_{_LINEAR[_n]}{_n}d", f"Upsample{_LINEAR[_n].capitalize()}{_n}DBackward0"
    )
_RESIZERS["bicubic", 2] = mixing("upsample_bicubic2d", "UpsampleBicubic2DBackward0")
for _mode in ("bilinear", "bicubic"):
    _RESIZERS[f"{_mode} smooth", 2] = mixing(f"upsample_{_mode}2d_aa", f"Upsample{_mode.capitalize()}2DAaBackward0")


def _step(kind: Any, n: int, m: int, scale: float | None, align_corners: bool) -> Any:
    """Return how far apart places of the result are in the input, in the precision that torch uses."""
    if align_corners:
        return kind(n - 1) / kind(m - 1) if m > 1 else kind(0)
    return kind(1.0 / scale) if scale is not None and scale > 0 else kind(n) / kind(m)


@recipe("resizing")
def _resizing(mode: str, n: int, m: int, scale: float | None, align_corners: bool, double: bool) -> Taps | None:
    """Return the taps that make `m` places of `n`; None where nothing changes."""
    if mode.startswith("nearest"):
        return _nearest(mode, n, m, scale)
    kind: Any = np.float64 if double else np.float32
    if mode.endswith("smooth"):
        return _smooth(mode, kind, n, m, scale, align_corners)
    step = _step(kind, n, m, scale, align_corners)
    place = np.arange(m, dtype=kind)
    source = step * place if align_corners else step * (place + kind(0.5)) - kind(0.5)
    if mode == "bicubic":
        low = np.minimum(np.floor(source), n - 1)
        t = (source - low).clip(0, 1)
        index = (low[:, None] + np.arange(-1, 3)).clip(0, n - 1).astype(np.int64)
        return Taps.of(n, index, np.stack(cubic_weights(t), 1))
    if n == m:
        return None
    source = np.maximum(source, 0)
    low = np.minimum(source.astype(np.int64), n - 1)
    t = (source - low.astype(kind)).clip(0, 1)
    index = np.stack([low, np.minimum(low + 1, n - 1)], 1)
    weights = np.stack([1 - t, t], 1)
    # The neighbour beyond the edge does not exist.
    weights[:, 0] += np.where(index[:, 0] == index[:, 1], t, 0).astype(kind)
    return Taps.of(n, index, weights, valid=np.stack([np.ones(m, bool), index[:, 0] != index[:, 1]], 1))


def _nearest(mode: str, n: int, m: int, scale: float | None) -> Taps | None:
    if n == m and scale is None:
        return None
    step = _step(np.float32, n, m, scale, False)
    place = np.arange(m, dtype=np.float32) + np.float32(0.5 if mode == "nearest-exact" else 0)
    index = np.minimum(np.floor(place * step).astype(np.int64), n - 1)
    return Taps.of(n, index[:, None])


def cubic_weights(t: Value) -> list[Any]:
    """Return the weights of the four neighbours of a place that is `t` past the second."""
    a = -0.75

    def near(s: Value) -> Value:
        return ((a + 2) * s - (a + 3)) * s * s + 1

    def far(s: Value) -> Value:
        return ((a * s - 5 * a) * s + 8 * a) * s - 4 * a

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


def _smooth(mode: str, kind: Any, n: int, m: int, scale: float | None, align_corners: bool) -> Taps:
    """Return taps whose filter is as wide as the places of the result are apart."""
    step = _step(kind, n, m, scale, align_corners)
    width = kind(2 if mode.startswith("bilinear") else 4) * kind(0.5)
    support = width * step if step >= 1 else width
    center = step * (np.arange(m, dtype=kind) + kind(0.5))
    begin = np.maximum((center - support + kind(0.5)).astype(np.int64), 0)
    end = np.minimum((center + support + kind(0.5)).astype(np.int64), n)
    index = begin[:, None] + np.arange((end - begin).max(initial=0))
    valid = index < end[:, None]
    distance = np.abs((index - center[:, None] + kind(0.5)) * (1 / step if step >= 1 else kind(1)))
    if mode.startswith("bilinear"):
        weights = np.maximum(1 - distance, 0)
    else:
        a = kind(-0.5)
        near = ((a + 2) * distance - (a + 3)) * distance * distance + 1
        far = (((distance - 5) * distance + 8) * distance - 4) * a
        weights = np.where(distance < 1, near, np.where(distance < 2, far, 0))
    weights = np.where(valid, weights, 0)
    total = weights.sum(1, keepdims=True)
    weights = weights / np.where(total == 0, 1, total)
    return Taps.of(n, index.clip(0, n - 1), weights.astype(kind), valid)


def _factors(scale_factor: Any, rank: int) -> list[float]:
    if isinstance(scale_factor, tuple | list):
        if len(scale_factor) != rank:
            raise ValueError(
                "Input and scale_factor must have the same number of spatial dimensions, but got input with spatial "
                f"dimensions of {rank} and scale_factor of shape {list(scale_factor)}. Please provide input tensor in "
                "(N, C, d1, d2, ...,dK) format and scale_factor in (s1, s2, ...,sK) format."
            )
        return [float(s) for s in scale_factor]
    if isinstance(scale_factor, TensorBase):
        raise TypeError("interpolate() received an invalid combination of arguments - got a Tensor for scale_factor")
    return [float(scale_factor)] * rank


def _wanted(size: Any, rank: int, shape: Shape) -> list[int]:
    if isinstance(size, tuple | list):
        if len(size) != rank:
            raise ValueError(
                f"Input and output must have the same number of spatial dimensions, but got input with spatial "
                f"dimensions of {list(shape)} and output size of {list(size)}. Please provide input tensor in "
                "(N, C, d1, d2, ...,dK) format and output size in (o1, o2, ...,oK) format."
            )
        for n in size:
            if isinstance(n, float) or not hasattr(n, "__index__"):
                raise TypeError(f"expected size to be one of int or Tuple[int] but got size {list(size)}")
        return [int(n) for n in size]
    if isinstance(size, float | bool) or (isinstance(size, TensorBase) and not is_int(size)):
        raise TypeError(f"expected size to be one of int or Tuple[int] but got size {size}")
    return [int(size)] * rank


def interpolate(
    input: Tensor, size: Ints | None = None, scale_factor: Any = None, mode: Any = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None, antialias: bool = False,
) -> Tensor:  # fmt: skip
    """Resize images, volumes or sequences, to a size or by a factor.

    Parameters
    ----------
    input : Tensor
        ``(N, C, L)``, ``(N, C, H, W)`` or ``(N, C, D, H, W)``.
    size : int or tuple of int, optional
        New size of the last dimensions.
    scale_factor : float or tuple of float, optional
        In place of `size`: the new size is ``floor(scale_factor * size)``.
    mode : str, default "nearest"
        ``"nearest"``, ``"nearest-exact"`` (nearest center of a pixel), ``"area"`` (adaptive average), or by number of
        dimensions ``"linear"``, ``"bilinear"``, ``"bicubic"``, ``"trilinear"``.
    align_corners : bool, optional
        For the linear and cubic modes: whether the centers of the outermost pixels stay where they are. By default
        (False) the outer edges do.
    recompute_scale_factor : bool, optional
        Compute with the ratio of the rounded sizes in place of `scale_factor`.
    antialias : bool, default False
        Whether ``"bilinear"`` and ``"bicubic"`` average over more pixels where they make an image smaller.

    Returns
    -------
    Tensor
        ``(N, C, *size)``.

    Examples
    --------
    >>> x = adjoint.tensor([[[1.0, 3.0]]])
    >>> adjoint.nn.functional.interpolate(x, scale_factor=2)
    tensor([[[1., 1., 3., 3.]]])
    >>> adjoint.nn.functional.interpolate(x, size=4, mode="linear")
    tensor([[[1.0000, 1.5000, 2.5000, 3.0000]]])
    """
    require_tensor(input, "input", "interpolate")
    if not isinstance(mode, str):
        raise NotImplementedError(f"Input Error: Only 3D, 4D and 5D input Tensors supported, and no mode {mode!r}")
    if mode in ("nearest", "area", "nearest-exact"):
        if align_corners is not None:
            raise ValueError(
                "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic | "
                "trilinear"
            )
    elif align_corners is not None:
        require_bool(align_corners, "align_corners", "interpolate")
    shape = input.array.shape
    rank = len(shape) - 2
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    factors: list[Any] = [None] * rank
    if size is not None:
        wanted = _wanted(size, rank, shape[2:])
        if recompute_scale_factor:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
    else:
        factors = _factors(scale_factor, rank)
        wanted = [math.floor(n * f) for n, f in zip(shape[2:], factors, strict=True)]
        if recompute_scale_factor or mode == "area":
            factors = [None] * rank
    if antialias and not (mode in ("bilinear", "bicubic") and rank == 2):
        raise ValueError(
            "Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D tensor as input"
        )
    if mode == "area" and rank in (1, 2, 3):
        return (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)[rank - 1](input, tuple(wanted))
    _check_resize(input, mode, rank, wanted)
    double = input.array.dtype.name in ("float64", "complex128")
    kind = f"{mode} smooth" if antialias else mode
    plans = tuple(
        _resizing(kind, n, m, f, bool(align_corners), double)
        for n, m, f in zip(shape[2:], wanted, factors, strict=True)
    )
    if input.array.dtype == np.uint8 and mode in ("bilinear", "bicubic"):
        # Images of bytes get their new width first, and are rounded before they get their new height.
        still = [_resizing(kind, n, n, None, bool(align_corners), double) for n in (shape[2], wanted[1])]
        return _RESIZERS[kind, rank](_RESIZERS[kind, rank](input, (still[0], plans[1])), (plans[0], still[1]))
    return _RESIZERS[kind, rank](input, plans)


def _check_resize(input: Tensor, mode: str, rank: int, wanted: list[int]) -> None:
    shape = input.array.shape
    needs = {"linear": 1, "bilinear": 2, "bicubic": 2, "trilinear": 3}
    if rank in (1, 2, 3) and mode in needs and needs[mode] != rank:
        raise NotImplementedError(f"Got {rank + 2}D input, but {mode} mode needs {needs[mode] + 2}D input")
    if (mode, rank) not in _RESIZERS:
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {rank + 2}D) for the modes: nearest | "
            f"linear | bilinear | bicubic | trilinear | area | nearest-exact (got {mode})"
        )
    if min(*shape[2:], *wanted) <= 0:
        raise RuntimeError(
            f"Input and output sizes should be greater than 0, but got input {list(shape[2:])} output {wanted}"
        )
    if 0 in shape[1:]:
        raise RuntimeError(f"Non-empty {rank + 2}D data tensor expected but got a tensor with sizes {list(shape)}")
    refuse(f"upsample_{mode}{rank}d", input.array, "biuc", "uint8")


def upsample(
    input: Tensor, size: Ints | None = None, scale_factor: Any = None, mode: Any = "nearest",
    align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """Resize: the old name of `interpolate`."""
    warnings.warn(
        "`nn.functional.upsample` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=depth_outside(),
    )
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Ints | None = None, scale_factor: Any = None) -> Tensor:
    """Resize by repeating pixels: an old name of ``interpolate(mode="nearest")``."""
    warnings.warn(
        "`nn.functional.upsample_nearest` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=depth_outside(),
    )
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: Ints | None = None, scale_factor: Any = None) -> Tensor:
    """Resize images, corners aligned: an old name of ``interpolate(mode="bilinear")``."""
    warnings.warn(
        "`nn.functional.upsample_bilinear` is deprecated. Use `nn.functional.interpolate` instead.",
        stacklevel=depth_outside(),
    )
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


# --- Channels and pixels ----------------------------------------------------------------------------


def _check_image(input: Tensor, op: str, factor: int, name: str) -> None:
    require_tensor(input, "input", op)
    rank = input.array.ndim
    if rank < 3:
        raise RuntimeError(f"{op} expects input to have at least 3 dimensions, but got input with {rank} dimension(s)")
    if factor <= 0:
        raise RuntimeError(f"{op} expects a positive {name}, but got {factor}")


def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Move channels into blocks of pixels: (..., C * r * r, H, W) becomes (..., C, H * r, W * r).

    Parameters
    ----------
    input : Tensor
        ``(..., C * r * r, H, W)``
    upscale_factor : int
        Size of the blocks, r.

    Returns
    -------
    Tensor
        ``(..., C, H * r, W * r)``

    Examples
    --------
    >>> adjoint.pixel_shuffle(adjoint.arange(4).reshape(4, 1, 1), 2)
    tensor([[[0, 1],
             [2, 3]]])
    """
    r = upscale_factor
    _check_image(input, "pixel_shuffle", r, "upscale_factor")
    *lead, c, h, w = input.array.shape
    if c % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of upscale_factor, "
            f"but input.size(-3)={c} is not divisible by {r * r}"
        )
    split = reshape(input, (*lead, c // (r * r), r, r, h, w))
    k = len(lead)
    moved = permute_p(split, (*range(k + 1), k + 3, k + 1, k + 4, k + 2))
    shuffled = _own(reshape(moved, (*lead, c // (r * r), h * r, w * r)))
    return fold(shuffled, "PixelShuffleBackward0", input, upscale_factor=r)


def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Move blocks of pixels into channels: the inverse of `pixel_shuffle`.

    Parameters
    ----------
    input : Tensor
        ``(..., C, H * r, W * r)``
    downscale_factor : int
        Size of the blocks, r.

    Returns
    -------
    Tensor
        ``(..., C * r * r, H, W)``

    Examples
    --------
    >>> adjoint.pixel_unshuffle(adjoint.arange(4).reshape(1, 2, 2), 2).flatten(1)
    tensor([[0],
            [1],
            [2],
            [3]])
    """
    r = downscale_factor
    _check_image(input, "pixel_unshuffle", r, "downscale_factor")
    *lead, c, h, w = input.array.shape
    if h % r or w % r:
        name, n = ("height", h) if h % r else ("width", w)
        raise RuntimeError(
            f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but input has {name} {n} and "
            f"downscale_factor is {r}"
        )
    split = reshape(input, (*lead, c, h // r, r, w // r, r))
    k = len(lead)
    moved = permute_p(split, (*range(k + 1), k + 2, k + 4, k + 1, k + 3))
    shuffled = _own(reshape(moved, (*lead, c * r * r, h // r, w // r)))
    return fold(shuffled, "PixelUnshuffleBackward0", input, downscale_factor=r)


def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Split the channels into `groups` groups and interleave them.

    Parameters
    ----------
    input : Tensor
        ``(N, C, ...)``
    groups : int
        Number of groups; divides C.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Examples
    --------
    >>> adjoint.channel_shuffle(adjoint.arange(4).reshape(1, 4, 1), 2).flatten()
    tensor([0, 2, 1, 3])
    """
    require_tensor(input, "input", "channel_shuffle")
    shape = tuple(input.array.shape)
    if len(shape) < 3:
        raise RuntimeError(f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(shape)}")
    if count_of(groups, "groups") <= 0:
        raise RuntimeError(f"Number of groups to divide channels in must be positive. Value of groups:{groups}")
    c = shape[1]
    if c % groups:
        raise RuntimeError(f"Number of channels must be divisible by groups. Got {c} channels and {groups} groups.")
    split = reshape(input, (shape[0], groups, c // groups, *shape[2:]))
    moved = permute_p(split, (0, 2, 1, *range(3, len(shape) + 1)))
    return fold(_own(reshape(moved, shape)), "ChannelShuffleBackward0", input, groups=groups)


native_channel_shuffle = channel_shuffle


def _own(result: Tensor) -> Tensor:
    """Return a result that looks at no memory but its own."""
    return clone_p(result) if result.lineage is not None else result


# --- Normalization over channels --------------------------------------------------------------------

_channel_mean_p = mixing("channel_mean", "AvgPool3DBackward0")


def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Divide each element by a power of the mean square over `size` neighbouring channels.

    ``x / (k + alpha * mean(x**2)) ** beta``

    Parameters
    ----------
    input : Tensor
        ``(N, C, ...)``
    size : int
        Number of neighbouring channels.
    alpha : float, default 0.0001
        Factor of the mean of squares.
    beta : float, default 0.75
        Power.
    k : float, default 1.0
        Added before the power is taken.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Examples
    --------
    >>> adjoint.nn.functional.local_response_norm(adjoint.tensor([[[1.0], [2.0]]]), 1, alpha=1.0, beta=1.0)
    tensor([[[0.5000],
             [0.4000]]])
    """
    require_tensor(input, "input", "local_response_norm")
    shape = input.array.shape
    if len(shape) < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {len(shape)} dimensions)")
    if 0 in shape:
        return input
    if size == 0:
        raise RuntimeError("kernel size should be greater than zero, but got kH: 0 kW: 1")
    if size < 0:
        raise RuntimeError(f"narrow(): length must be non-negative: there are no {size} neighbours")
    plans = (_neighbours(shape[1], size), *(None,) * (len(shape) - 2))
    return input / (_channel_mean_p(input * input, plans) * alpha + k) ** beta


@recipe("neighbours")
def _neighbours(n: int, size: int) -> Taps:
    index = np.arange(n)[:, None] + np.arange(size) - size // 2
    return Taps.of(n, index, valid=(index >= 0) & (index < n), divide_out=np.full(n, size))
