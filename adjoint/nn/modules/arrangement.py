"""Layers that move elements: flattened, folded, padded, shuffled between channels and space, enlarged."""

from __future__ import annotations

from typing import Any

from ..._typing import Tensor
from .. import functional as F
from .functions import Functional
from .module import Module
from .utils import _ntuple

__all__ = [
    "ChannelShuffle", "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d",
    "ConstantPad3d", "Flatten", "Fold", "PixelShuffle", "PixelUnshuffle", "ReflectionPad1d", "ReflectionPad2d",
    "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "Unflatten", "Unfold", "Upsample",
    "UpsamplingBilinear2d", "UpsamplingNearest2d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


class Flatten(Module):
    """Join dimensions into one; the first, the batch, stays unless told otherwise."""

    __constants__ = ["start_dim", "end_dim"]

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        """Return `input`, flattened."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """Return the dimensions."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Split a dimension into several."""

    __constants__ = ["dim", "unflattened_size"]

    def __init__(self, dim: Any, unflattened_size: Any) -> None:
        super().__init__()
        if not isinstance(unflattened_size, tuple | list):
            raise TypeError(
                f"unflattened_size must be a tuple of ints, but found type {type(unflattened_size).__name__}"
            )
        for position, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError(
                    f"unflattened_size must be tuple of ints, but found element of type {type(size).__name__} at pos "
                    f"{position}"
                )
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        """Return `input`, the dimension split."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """Return the dimension and its parts."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class Fold(Functional):
    """Add windows, given as columns, up to an image."""

    _function = "fold"
    __constants__ = _options = ["output_size", "kernel_size", "dilation", "padding", "stride"]

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        self.output_size, self.kernel_size = output_size, kernel_size
        self.dilation, self.padding, self.stride = dilation, padding, stride


class Unfold(Functional):
    """Take an image apart into windows, as columns."""

    _function = "unfold"
    __constants__ = _options = ["kernel_size", "dilation", "padding", "stride"]

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride


class _Pad(Module):
    """A padding on both sides of as many dimensions as the class says."""

    __constants__ = ["padding"]
    _dims: int
    _mode: str
    padding: tuple[int, ...]

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = _ntuple(2 * self._dims)(padding)

    def forward(self, input: Tensor) -> Tensor:
        """Return `input`, padded."""
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        """Return the padding."""
        return f"{self.padding}"


class _ConstantPad(_Pad):
    """A padding with one value."""

    __constants__ = ["padding", "value"]
    value: float

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        """Return `input`, padded with the value."""
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        """Return the padding and the value."""
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_ConstantPad):
    """A padding with zeros."""

    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        """Return the padding."""
        return f"{self.padding}"


class _CircularPad(_Pad):
    """A padding with what stands at the other end."""

    _mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        """Return `input`, padded from its other ends."""
        dims = self._dims
        if input.dim() not in (dims + 1, dims + 2):
            raise ValueError(f"expected {dims + 1}D or {dims + 2}D input (got {input.dim()}D input)")
        return super().forward(input)


class CircularPad1d(_CircularPad):
    """Pad sequences with what stands at the other end."""

    _dims = 1


class CircularPad2d(_CircularPad):
    """Pad images with what stands at the other end."""

    _dims = 2


class CircularPad3d(_CircularPad):
    """Pad volumes with what stands at the other end."""

    _dims = 3


class ConstantPad1d(_ConstantPad):
    """Pad sequences with one value."""

    _dims = 1


class ConstantPad2d(_ConstantPad):
    """Pad images with one value."""

    _dims = 2


class ConstantPad3d(_ConstantPad):
    """Pad volumes with one value."""

    _dims = 3


class ReflectionPad1d(_Pad):
    """Pad sequences with their mirror image."""

    _dims, _mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """Pad images with their mirror image."""

    _dims, _mode = 2, "reflect"


class ReflectionPad3d(_Pad):
    """Pad volumes with their mirror image."""

    _dims, _mode = 3, "reflect"


class ReplicationPad1d(_Pad):
    """Pad sequences with their border."""

    _dims, _mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    """Pad images with their border."""

    _dims, _mode = 2, "replicate"


class ReplicationPad3d(_Pad):
    """Pad volumes with their border."""

    _dims, _mode = 3, "replicate"


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """Pad sequences with zeros."""


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """Pad images with zeros."""


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """Pad volumes with zeros."""


class ChannelShuffle(Functional):
    """Deal the channels of `groups` groups out in turn."""

    _function = "channel_shuffle"
    __constants__ = _options = ["groups"]

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups


class PixelShuffle(Functional):
    """Make an image larger by a factor, out of channels: (C * r * r, H, W) becomes (C, H * r, W * r)."""

    _function = "pixel_shuffle"
    __constants__ = _options = ["upscale_factor"]

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor


class PixelUnshuffle(Functional):
    """Make an image smaller by a factor, into channels: (C, H * r, W * r) becomes (C * r * r, H, W)."""

    _function = "pixel_unshuffle"
    __constants__ = _options = ["downscale_factor"]

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor


class Upsample(Module):
    """Enlarge sequences, images or volumes, to a size or by a factor."""

    __constants__ = ["size", "scale_factor", "mode", "align_corners", "name", "recompute_scale_factor"]

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        if isinstance(scale_factor, tuple):
            self.scale_factor: Any = tuple(float(factor) for factor in scale_factor)
        else:
            self.scale_factor = float(scale_factor) if scale_factor else None
        self.mode, self.align_corners = mode, align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        """Return `input`, enlarged."""
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        """Return the factor or the size, and the mode."""
        by = f"size={self.size}" if self.scale_factor is None else f"scale_factor={self.scale_factor}"
        return f"{by}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Enlarge images by repeating the nearest element."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Enlarge images bilinearly, corners on corners."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
