"""Layers that rearrange elements: flattening, folding, padding, pixel shuffling, resizing."""

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
    """Flatten consecutive dimensions into one; by default all but the first, the batch.

    Parameters
    ----------
    start_dim : int, default 1
        The first dimension to join.
    end_dim : int, default -1
        The last dimension to join.

    Shape
    -----
    Input: (N, ...). Output: (N, product of the others), with the defaults.

    Examples
    --------
    >>> adjoint.nn.Flatten()(adjoint.zeros(2, 3, 4)).shape
    adjoint.Size([2, 12])
    >>> adjoint.nn.Flatten(0, 1)(adjoint.zeros(2, 3, 4)).shape
    adjoint.Size([6, 4])
    """

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
    """Split a dimension into several.

    Parameters
    ----------
    dim : int or str
        Dimension to split, a number or a name.
    unflattened_size : tuple of int
        Its new sizes; one of them may be -1.

    Shape
    -----
    Input: any. Output: `dim` is replaced by as many dimensions as `unflattened_size` has.

    Examples
    --------
    >>> adjoint.nn.Unflatten(1, (2, 3))(adjoint.zeros(4, 6)).shape
    adjoint.Size([4, 2, 3])
    """

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
    """Add up columns of windows to images: the gradient of `Unfold`.

    Parameters
    ----------
    output_size : int or tuple of int
        Height and width of the images.
    kernel_size : int or tuple of int
        Size of the windows.
    dilation : int or tuple of int, default 1
        Step between the elements of a window.
    padding : int or tuple of int, default 0
        Positions on both sides of the images that the windows had and the result does not.
    stride : int or tuple of int, default 1
        Step between windows.

    Shape
    -----
    Input: (N, C * KH * KW, L). Output: (N, C, *output_size).

    Examples
    --------
    >>> adjoint.nn.Fold(3, 2)(adjoint.ones(1, 4, 4))
    tensor([[[[1., 2., 1.],
              [2., 4., 2.],
              [1., 2., 1.]]]])
    """

    _function = "fold"
    __constants__ = _options = ["output_size", "kernel_size", "dilation", "padding", "stride"]

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        self.output_size, self.kernel_size = output_size, kernel_size
        self.dilation, self.padding, self.stride = dilation, padding, stride


class Unfold(Functional):
    """Extract the windows of an image, each as a column.

    Parameters
    ----------
    kernel_size : int or tuple of int
        The size of a window.
    dilation : int or tuple of int, default 1
        The distance between neighbours in a window.
    padding : int or tuple of int, default 0
        How many zeros are added on both sides of each dimension.
    stride : int or tuple of int, default 1
        The distance between windows.

    Shape
    -----
    Input: (N, C, H, W) or (C, H, W). Output: (N, C * kH * kW, L) or (C * kH * kW, L), where L is the number of windows.

    Examples
    --------
    >>> adjoint.nn.Unfold(2)(adjoint.arange(9.0).reshape(1, 1, 3, 3))
    tensor([[[0., 1., 3., 4.],
             [1., 2., 4., 5.],
             [3., 4., 6., 7.],
             [4., 5., 7., 8.]]])
    """

    _function = "unfold"
    __constants__ = _options = ["kernel_size", "dilation", "padding", "stride"]

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride


class _Pad(Module):
    """Base of paddings: on both sides of one, two or three dimensions."""

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
    """A padding with values from the opposite end (circular padding)."""

    _mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        """Return `input`, padded with values from the opposite ends."""
        dims = self._dims
        if input.dim() not in (dims + 1, dims + 2):
            raise ValueError(f"expected {dims + 1}D or {dims + 2}D input (got {input.dim()}D input)")
        return super().forward(input)


class CircularPad1d(_CircularPad):
    """Pad sequences with the elements of the other end.

    Parameters
    ----------
    padding : int or (left, right)
        How much to add on each side, one number for all sides or one per side; at most the size of the input.

    Shape
    -----
    Input: (N, C, L) or (C, L). Output: the same with ``L_out = L + left + right``.

    Examples
    --------
    >>> adjoint.nn.CircularPad1d(1)(adjoint.tensor([[1.0, 2.0, 3.0]]))
    tensor([[3., 1., 2., 3., 1.]])
    """

    _dims = 1


class CircularPad2d(_CircularPad):
    """Pad images with the elements of the other end.

    Parameters
    ----------
    padding : int or (left, right, top, bottom)
        How much to add on each side, one number for all sides or one per side; at most the size of the input.

    Shape
    -----
    Input: (N, C, H, W) or (C, H, W). Output: the same with ``H_out = H + top + bottom`` and so on.

    Examples
    --------
    >>> adjoint.nn.CircularPad2d(1)(adjoint.arange(4.0).reshape(1, 2, 2))
    tensor([[[3., 2., 3., 2.],
             [1., 0., 1., 0.],
             [3., 2., 3., 2.],
             [1., 0., 1., 0.]]])
    """

    _dims = 2


class CircularPad3d(_CircularPad):
    """Pad volumes with the elements of the other end.

    Parameters
    ----------
    padding : int or (left, right, top, bottom, front, back)
        How much to add on each side, one number for all sides or one per side; at most the size of the input.

    Shape
    -----
    Input: (N, C, D, H, W) or (C, D, H, W). Output: the same with ``D_out = D + front + back`` and so on.

    Examples
    --------
    >>> adjoint.nn.CircularPad3d(1)(adjoint.arange(8.0).reshape(1, 2, 2, 2)).shape
    adjoint.Size([1, 4, 4, 4])
    """

    _dims = 3


class ConstantPad1d(_ConstantPad):
    """Pad sequences with one value.

    Parameters
    ----------
    padding : int or (left, right)
        How much to add on each side, one number for all sides or one per side; negative numbers crop.
    value : number
        What to pad with.

    Shape
    -----
    Input: (N, C, L) or (C, L). Output: the same with ``L_out = L + left + right``.

    Examples
    --------
    >>> adjoint.nn.ConstantPad1d(1, 9.0)(adjoint.tensor([[1.0, 2.0, 3.0]]))
    tensor([[9., 1., 2., 3., 9.]])
    """

    _dims = 1


class ConstantPad2d(_ConstantPad):
    """Pad images with one value.

    Parameters
    ----------
    padding : int or (left, right, top, bottom)
        How much to add on each side, one number for all sides or one per side; negative numbers crop.
    value : number
        What to pad with.

    Shape
    -----
    Input: (N, C, H, W) or (C, H, W). Output: the same with ``H_out = H + top + bottom`` and so on.

    Examples
    --------
    >>> adjoint.nn.ConstantPad2d(1, 9.0)(adjoint.arange(4.0).reshape(1, 2, 2))
    tensor([[[9., 9., 9., 9.],
             [9., 0., 1., 9.],
             [9., 2., 3., 9.],
             [9., 9., 9., 9.]]])
    """

    _dims = 2


class ConstantPad3d(_ConstantPad):
    """Pad volumes with one value.

    Parameters
    ----------
    padding : int or (left, right, top, bottom, front, back)
        How much to add on each side, one number for all sides or one per side; negative numbers crop.
    value : number
        What to pad with.

    Shape
    -----
    Input: (N, C, D, H, W) or (C, D, H, W). Output: the same with ``D_out = D + front + back`` and so on.

    Examples
    --------
    >>> adjoint.nn.ConstantPad3d(1, 9.0)(adjoint.arange(8.0).reshape(1, 2, 2, 2)).shape
    adjoint.Size([1, 4, 4, 4])
    """

    _dims = 3


class ReflectionPad1d(_Pad):
    """Pad sequences with their mirror image, the border not repeated.

    Parameters
    ----------
    padding : int or (left, right)
        How much to add on each side, one number for all sides or one per side; less than the size of the input.

    Shape
    -----
    Input: (N, C, L) or (C, L). Output: the same with ``L_out = L + left + right``.

    Examples
    --------
    >>> adjoint.nn.ReflectionPad1d(1)(adjoint.tensor([[1.0, 2.0, 3.0]]))
    tensor([[2., 1., 2., 3., 2.]])
    """

    _dims, _mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """Pad images with their mirror image, the border not repeated.

    Parameters
    ----------
    padding : int or (left, right, top, bottom)
        How much to add on each side, one number for all sides or one per side; less than the size of the input.

    Shape
    -----
    Input: (N, C, H, W) or (C, H, W). Output: the same with ``H_out = H + top + bottom`` and so on.

    Examples
    --------
    >>> adjoint.nn.ReflectionPad2d(1)(adjoint.arange(4.0).reshape(1, 2, 2))
    tensor([[[3., 2., 3., 2.],
             [1., 0., 1., 0.],
             [3., 2., 3., 2.],
             [1., 0., 1., 0.]]])
    """

    _dims, _mode = 2, "reflect"


class ReflectionPad3d(_Pad):
    """Pad volumes with their mirror image, the border not repeated.

    Parameters
    ----------
    padding : int or (left, right, top, bottom, front, back)
        How much to add on each side, one number for all sides or one per side; less than the size of the input.

    Shape
    -----
    Input: (N, C, D, H, W) or (C, D, H, W). Output: the same with ``D_out = D + front + back`` and so on.

    Examples
    --------
    >>> adjoint.nn.ReflectionPad3d(1)(adjoint.arange(8.0).reshape(1, 2, 2, 2)).shape
    adjoint.Size([1, 4, 4, 4])
    """

    _dims, _mode = 3, "reflect"


class ReplicationPad1d(_Pad):
    """Pad sequences with their border.

    Parameters
    ----------
    padding : int or (left, right)
        How much to add on each side, one number for all sides or one per side; negative numbers crop.

    Shape
    -----
    Input: (N, C, L) or (C, L). Output: the same with ``L_out = L + left + right``.

    Examples
    --------
    >>> adjoint.nn.ReplicationPad1d(1)(adjoint.tensor([[1.0, 2.0, 3.0]]))
    tensor([[1., 1., 2., 3., 3.]])
    """

    _dims, _mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    """Pad images with their border.

    Parameters
    ----------
    padding : int or (left, right, top, bottom)
        How much to add on each side, one number for all sides or one per side; negative numbers crop.

    Shape
    -----
    Input: (N, C, H, W) or (C, H, W). Output: the same with ``H_out = H + top + bottom`` and so on.

    Examples
    --------
    >>> adjoint.nn.ReplicationPad2d(1)(adjoint.arange(4.0).reshape(1, 2, 2))
    tensor([[[0., 0., 1., 1.],
             [0., 0., 1., 1.],
             [2., 2., 3., 3.],
             [2., 2., 3., 3.]]])
    """

    _dims, _mode = 2, "replicate"


class ReplicationPad3d(_Pad):
    """Pad volumes with their border.

    Parameters
    ----------
    padding : int or (left, right, top, bottom, front, back)
        How much to add on each side, one number for all sides or one per side; negative numbers crop.

    Shape
    -----
    Input: (N, C, D, H, W) or (C, D, H, W). Output: the same with ``D_out = D + front + back`` and so on.

    Examples
    --------
    >>> adjoint.nn.ReplicationPad3d(1)(adjoint.arange(8.0).reshape(1, 2, 2, 2)).shape
    adjoint.Size([1, 4, 4, 4])
    """

    _dims, _mode = 3, "replicate"


class ZeroPad1d(_ZeroPad, ConstantPad1d):
    """Pad sequences with zeros.

    Parameters
    ----------
    padding : int or (left, right)
        How much to add on each side, one number for all sides or one per side; negative numbers crop.

    Shape
    -----
    Input: (N, C, L) or (C, L). Output: the same with ``L_out = L + left + right``.

    Examples
    --------
    >>> adjoint.nn.ZeroPad1d(1)(adjoint.tensor([[1.0, 2.0, 3.0]]))
    tensor([[0., 1., 2., 3., 0.]])
    """


class ZeroPad2d(_ZeroPad, ConstantPad2d):
    """Pad images with zeros.

    Parameters
    ----------
    padding : int or tuple of int
        How many zeros are added on all sides, or (left, right, top, bottom). A negative number crops.

    Shape
    -----
    Input: (N, C, H, W) or (C, H, W). Output: (N, C, top + H + bottom, left + W + right) or without N.

    Examples
    --------
    >>> adjoint.nn.ZeroPad2d((1, 0, 0, 2))(adjoint.ones(1, 1, 2))
    tensor([[[0., 1., 1.],
             [0., 0., 0.],
             [0., 0., 0.]]])
    """


class ZeroPad3d(_ZeroPad, ConstantPad3d):
    """Pad volumes with zeros.

    Parameters
    ----------
    padding : int or (left, right, top, bottom, front, back)
        How much to add on each side, one number for all sides or one per side; negative numbers crop.

    Shape
    -----
    Input: (N, C, D, H, W) or (C, D, H, W). Output: the same with ``D_out = D + front + back`` and so on.

    Examples
    --------
    >>> adjoint.nn.ZeroPad3d(1)(adjoint.arange(8.0).reshape(1, 2, 2, 2)).shape
    adjoint.Size([1, 4, 4, 4])
    """


class ChannelShuffle(Functional):
    """Split the channels into `groups` groups and interleave them.

    Parameters
    ----------
    groups : int
        Number of groups; divides the number of channels.

    Shape
    -----
    Input: (N, C, ...). Output: the same.

    Examples
    --------
    >>> adjoint.nn.ChannelShuffle(2)(adjoint.arange(4.0).reshape(1, 4, 1)).flatten()
    tensor([0., 2., 1., 3.])
    """

    _function = "channel_shuffle"
    __constants__ = _options = ["groups"]

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups


class PixelShuffle(Functional):
    """Enlarge an image by a factor, moving channels to pixels (Shi et al., 2016).

    Parameters
    ----------
    upscale_factor : int
        The factor r, of height and width.

    Shape
    -----
    Input: (..., C * r * r, H, W). Output: (..., C, H * r, W * r).

    Examples
    --------
    >>> adjoint.nn.PixelShuffle(2)(adjoint.arange(4.0).reshape(4, 1, 1))
    tensor([[[0., 1.],
             [2., 3.]]])
    """

    _function = "pixel_shuffle"
    __constants__ = _options = ["upscale_factor"]

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor


class PixelUnshuffle(Functional):
    """Move the elements of blocks of an image into channels: the inverse of `PixelShuffle`.

    Parameters
    ----------
    downscale_factor : int
        Size of the blocks, r.

    Shape
    -----
    Input: (N, C, H * r, W * r). Output: (N, C * r * r, H, W).

    Examples
    --------
    >>> adjoint.nn.PixelUnshuffle(2)(adjoint.arange(4.0).reshape(1, 2, 2)).flatten(1)
    tensor([[0.],
            [1.],
            [2.],
            [3.]])
    """

    _function = "pixel_unshuffle"
    __constants__ = _options = ["downscale_factor"]

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor


class Upsample(Module):
    """Resize sequences, images or volumes, to a size or by a factor, by interpolation.

    Parameters
    ----------
    size : int or tuple of int, optional
        The size of the result. Either this or `scale_factor` must be given.
    scale_factor : float or tuple of float, optional
        The factor of the size, which is rounded down.
    mode : str, default "nearest"
        ``"nearest"``, ``"nearest-exact"`` or ``"area"``; for sequences also ``"linear"``, for images ``"bilinear"`` and
        ``"bicubic"``, for volumes ``"trilinear"``.
    align_corners : bool, optional
        Let the corner elements of input and output coincide, not their outer edges. Only for linear to trilinear modes.
        Defaults to False.
    recompute_scale_factor : bool, optional
        Interpolate by the ratio of the sizes, not by `scale_factor`.

    Raises
    ------
    ValueError
        When called with neither `size` nor `scale_factor`, or with both.

    Shape
    -----
    Input: (N, C, L), (N, C, H, W) or (N, C, D, H, W). Output: the same with the new size.

    Examples
    --------
    >>> x = adjoint.tensor([[[1.0, 2.0]]])
    >>> adjoint.nn.Upsample(scale_factor=2)(x)
    tensor([[[1., 1., 2., 2.]]])
    >>> adjoint.nn.Upsample(scale_factor=2, mode="linear")(x)
    tensor([[[1.0000, 1.2500, 1.7500, 2.0000]]])
    >>> adjoint.nn.Upsample(size=3, mode="linear", align_corners=True)(x)
    tensor([[[1.0000, 1.5000, 2.0000]]])
    """

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
    """Enlarge images by repeating the nearest element.

    Parameters
    ----------
    size : int or tuple of int, optional
        Height and width of the result.
    scale_factor : float or tuple of float, optional
        Factor of both, in place of `size`.

    Shape
    -----
    Input: (N, C, H, W). Output: (N, C, H_out, W_out).

    Examples
    --------
    >>> adjoint.nn.UpsamplingNearest2d(scale_factor=2)(adjoint.tensor([[[[1.0, 2.0]]]]))
    tensor([[[[1., 1., 2., 2.],
              [1., 1., 2., 2.]]]])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="nearest")


class UpsamplingBilinear2d(Upsample):
    """Enlarge images bilinearly, with the corners of input and output aligned.

    Parameters
    ----------
    size : int or tuple of int, optional
        Height and width of the result.
    scale_factor : float or tuple of float, optional
        Factor of both, in place of `size`.

    Shape
    -----
    Input: (N, C, H, W). Output: (N, C, H_out, W_out).

    Examples
    --------
    >>> adjoint.nn.UpsamplingBilinear2d(size=(1, 3))(adjoint.tensor([[[[1.0, 2.0]]]]))
    tensor([[[[1.0000, 1.5000, 2.0000]]]])
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, mode="bilinear", align_corners=True)
