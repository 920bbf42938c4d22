"""Layers that take maxima, means or norms of windows."""

from __future__ import annotations

from typing import Any

from ..._typing import Tensor
from .. import functional as F
from .functions import Functional
from .utils import _ntuple

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "FractionalMaxPool2d", "FractionalMaxPool3d",
    "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d",
    "MaxUnpool3d",
]  # fmt: skip


# --- Maxima -----------------------------------------------------------------------------------------


class _MaxPoolNd(Functional):
    __constants__ = ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"]
    _options = ["kernel_size", "stride", "padding", "dilation", "ceil_mode", "return_indices"]
    _shown = _options[:-1]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation = padding, dilation
        self.return_indices, self.ceil_mode = return_indices, ceil_mode


class MaxPool1d(_MaxPoolNd):
    """The maximum of each window of sequences.

    Parameters
    ----------
    kernel_size : int or tuple of int
        The length of a window.
    stride : int or tuple of int, optional
        The distance between windows. Defaults to `kernel_size`.
    padding : int or tuple of int, default 0
        How much minus infinity is added at both ends; at most half of `kernel_size`.
    dilation : int or tuple of int, default 1
        The distance between neighbours in a window.
    return_indices : bool, default False
        Return the positions of the maxima, too.
    ceil_mode : bool, default False
        Round the number of windows up, not down.

    Shape
    -----
    Input: (N, C, L) or (C, L). Output: (N, C, L_out) or (C, L_out), where
    ``L_out = (L + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 5.0, 2.0, 3.0, 4.0]])
    >>> adjoint.nn.MaxPool1d(2)(x)
    tensor([[5., 3.]])
    >>> adjoint.nn.MaxPool1d(2, ceil_mode=True, return_indices=True)(x)
    (tensor([[5., 3., 4.]]), tensor([[1, 3, 4]]))
    """

    _function = "max_pool1d"


class MaxPool2d(_MaxPoolNd):
    """The maximum of each window of images.

    Parameters
    ----------
    kernel_size : int or tuple of int
        The height and width of a window.
    stride : int or tuple of int, optional
        The distance between windows. Defaults to `kernel_size`.
    padding : int or tuple of int, default 0
        How much minus infinity is added on both sides of each dimension; at most half of `kernel_size`.
    dilation : int or tuple of int, default 1
        The distance between neighbours in a window.
    return_indices : bool, default False
        Return the positions of the maxima, too: they count the elements of an image row by row.
    ceil_mode : bool, default False
        Round the number of windows up, not down.

    Shape
    -----
    Input: (N, C, H, W) or (C, H, W). Output: (N, C, H_out, W_out) or without N, where
    ``H_out = (H + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``, and W_out likewise.

    Examples
    --------
    >>> image = adjoint.arange(16.0).reshape(1, 4, 4)
    >>> adjoint.nn.MaxPool2d(2)(image)
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    >>> adjoint.nn.MaxPool2d(3, stride=2, padding=1)(image)
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """

    _function = "max_pool2d"


class MaxPool3d(_MaxPoolNd):
    """The maximum of each window of volumes.

    Parameters
    ----------
    kernel_size : int or tuple of int
        The depth, height and width of a window.
    stride : int or tuple of int, optional
        The distance between windows. Defaults to `kernel_size`.
    padding : int or tuple of int, default 0
        How much minus infinity is added on both sides of each dimension; at most half of `kernel_size`.
    dilation : int or tuple of int, default 1
        The distance between neighbours in a window.
    return_indices : bool, default False
        Return the positions of the maxima, too: they count the elements of a volume in order.
    ceil_mode : bool, default False
        Round the number of windows up, not down.

    Shape
    -----
    Input: (N, C, D, H, W) or (C, D, H, W). Output: (N, C, D_out, H_out, W_out) or without N, where
    ``D_out = (D + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``, and the others likewise.

    Examples
    --------
    >>> volume = adjoint.arange(16.0).reshape(1, 2, 2, 4)
    >>> adjoint.nn.MaxPool3d(2)(volume)
    tensor([[[[13., 15.]]]])
    >>> adjoint.nn.MaxPool3d((1, 2, 2))(volume)
    tensor([[[[ 5.,  7.]],
    <BLANKLINE>
             [[13., 15.]]]])
    """

    _function = "max_pool3d"


class _MaxUnpoolNd(Functional):
    _shown = ["kernel_size", "stride", "padding"]
    _dims: int

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        sizes = _ntuple(self._dims)
        self.kernel_size, self.padding = sizes(kernel_size), sizes(padding)
        self.stride = self.kernel_size if stride is None else sizes(stride)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:  # type: ignore[override]
        """Return maxima at their places, zeros elsewhere."""
        sizes = (self.kernel_size, self.stride, self.padding)
        return getattr(F, self._function)(input, indices, *sizes, output_size)


class MaxUnpool1d(_MaxUnpoolNd):
    """Put maxima back where `MaxPool1d` found them."""

    _dims, _function = 1, "max_unpool1d"


class MaxUnpool2d(_MaxUnpoolNd):
    """Put maxima back where `MaxPool2d` found them."""

    _dims, _function = 2, "max_unpool2d"


class MaxUnpool3d(_MaxUnpoolNd):
    """Put maxima back where `MaxPool3d` found them."""

    _dims, _function = 3, "max_unpool3d"


class _FractionalMaxPoolNd(Functional):
    __constants__ = ["kernel_size", "return_indices", "output_size", "output_ratio"]
    _options = ["kernel_size", "output_size", "output_ratio", "return_indices", "_random_samples"]
    _shown = []
    _dims: int

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ) -> None:
        super().__init__()
        sizes, name = _ntuple(self._dims), type(self).__name__
        if output_size is None and output_ratio is None:
            raise ValueError(f"{name} requires specifying either an output size, or a pooling ratio")
        if output_size is not None and output_ratio is not None:
            raise ValueError("only one of output_size and output_ratio may be specified")
        self.kernel_size, self.return_indices = sizes(kernel_size), return_indices
        if self._dims == 3 and any(isinstance(k, int) and k <= 0 for k in self.kernel_size):
            raise ValueError(f"kernel_size must be greater than 0, but got {kernel_size}")
        self.register_buffer("_random_samples", _random_samples)
        self.output_size = None if output_size is None else sizes(output_size)
        self.output_ratio = None if output_ratio is None else sizes(output_ratio)
        if self.output_ratio is not None and not all(0 < ratio < 1 for ratio in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """The maximum of windows of images at random places (Graham, 2014)."""

    _dims, _function = 2, "fractional_max_pool2d"


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """The maximum of windows of volumes at random places (Graham, 2014)."""

    _dims, _function = 3, "fractional_max_pool3d"


# --- Means and norms --------------------------------------------------------------------------------


class _AvgPoolNd(Functional):
    _shown = ["kernel_size", "stride", "padding"]


class AvgPool1d(_AvgPoolNd):
    """The mean of windows of sequences (N, C, L)."""

    _function = "avg_pool1d"
    __constants__ = _options = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        single = _ntuple(1)
        self.kernel_size, self.padding = single(kernel_size), single(padding)
        self.stride = single(kernel_size if stride is None else stride)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad


class _AvgPool(_AvgPoolNd):
    __constants__ = _options = [
        "kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override",
    ]  # fmt: skip

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size, self.padding = kernel_size, padding
        self.stride = kernel_size if stride is None else stride
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad
        self.divisor_override = divisor_override


class AvgPool2d(_AvgPool):
    """The mean of each window of images.

    Parameters
    ----------
    kernel_size : int or tuple of int
        The height and width of a window.
    stride : int or tuple of int, optional
        The distance between windows. Defaults to `kernel_size`.
    padding : int or tuple of int, default 0
        How many zeros are added on both sides of each dimension.
    ceil_mode : bool, default False
        Round the number of windows up, not down.
    count_include_pad : bool, default True
        Let zeros of the padding count in the means.
    divisor_override : int, optional
        Divide the sums by this number, not by the number of elements.

    Shape
    -----
    Input: (N, C, H, W) or (C, H, W). Output: (N, C, H_out, W_out) or without N, where
    ``H_out = (H + 2 * padding - kernel_size) // stride + 1``, and W_out likewise.

    Examples
    --------
    >>> adjoint.nn.AvgPool2d(2)(adjoint.arange(16.0).reshape(1, 4, 4))
    tensor([[[ 2.5000,  4.5000],
             [10.5000, 12.5000]]])
    >>> adjoint.nn.AvgPool2d(3, stride=1, padding=1)(adjoint.ones(1, 2, 2))  # 4 of 9 elements are ones
    tensor([[[0.4444, 0.4444],
             [0.4444, 0.4444]]])
    >>> adjoint.nn.AvgPool2d(3, stride=1, padding=1, count_include_pad=False)(adjoint.ones(1, 2, 2))
    tensor([[[1., 1.],
             [1., 1.]]])
    """

    _function = "avg_pool2d"


class AvgPool3d(_AvgPool):
    """The mean of windows of volumes (N, C, D, H, W)."""

    _function = "avg_pool3d"


class _LPPoolNd(Functional):
    __constants__ = _options = ["norm_type", "kernel_size", "stride", "ceil_mode"]

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """Return the norms of windows."""
        norm = float(self.norm_type)
        return getattr(F, self._function)(input, norm, self.kernel_size, self.stride, self.ceil_mode)


class LPPool1d(_LPPoolNd):
    """The p-norm of windows of sequences (N, C, L)."""

    _function = "lp_pool1d"


class LPPool2d(_LPPoolNd):
    """The p-norm of windows of images (N, C, H, W)."""

    _function = "lp_pool2d"


class LPPool3d(_LPPoolNd):
    """The p-norm of windows of volumes (N, C, D, H, W)."""

    _function = "lp_pool3d"


# --- To a size --------------------------------------------------------------------------------------


class _AdaptiveAvgPoolNd(Functional):
    __constants__ = _options = ["output_size"]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Means of windows of sequences, as many as the output is to have elements.

    Window i goes from ``floor(i * L / L_out)`` to ``ceil((i + 1) * L / L_out)``.

    Parameters
    ----------
    output_size : int or tuple of int
        The length L_out of the result.

    Shape
    -----
    Input: (N, C, L) or (C, L). Output: (N, C, L_out) or (C, L_out).

    Examples
    --------
    >>> x = adjoint.arange(6.0).reshape(1, 6)
    >>> adjoint.nn.AdaptiveAvgPool1d(2)(x)
    tensor([[1., 4.]])
    >>> adjoint.nn.AdaptiveAvgPool1d(1)(x)
    tensor([[2.5000]])
    """

    _function = "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Means of windows of images, as many as the output is to have elements.

    In each dimension window i goes from ``floor(i * H / H_out)`` to ``ceil((i + 1) * H / H_out)``.

    Parameters
    ----------
    output_size : int, or tuple of int or None
        The height and width of the result; None leaves a dimension as it is.

    Shape
    -----
    Input: (N, C, H, W) or (C, H, W). Output: (N, C, H_out, W_out) or without N.

    Examples
    --------
    >>> image = adjoint.arange(8.0).reshape(1, 2, 4)
    >>> adjoint.nn.AdaptiveAvgPool2d(1)(image)
    tensor([[[3.5000]]])
    >>> adjoint.nn.AdaptiveAvgPool2d((None, 2))(image)
    tensor([[[0.5000, 2.5000],
             [4.5000, 6.5000]]])
    """

    _function = "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Average pooling of volumes to a given output size."""

    _function = "adaptive_avg_pool3d"


class _AdaptiveMaxPoolNd(Functional):
    __constants__ = _options = ["output_size", "return_indices"]
    _shown = ["output_size"]

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Max pooling of sequences to a given output size."""

    _function = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Max pooling of images to a given output size."""

    _function = "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Max pooling of volumes to a given output size."""

    _function = "adaptive_max_pool3d"
