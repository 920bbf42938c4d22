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
    """Put maxima back where `MaxPool1d` found them, zeros elsewhere.

    Parameters
    ----------
    kernel_size : int or tuple of int
        Size of the windows of the pooling.
    stride : int or tuple of int, optional
        Step between its windows; `kernel_size` by default.
    padding : int or tuple of int, default 0
        Its padding.

    Shape
    -----
    Input: (N, C, L) or (C, L), and the indices that ``MaxPool1d(..., return_indices=True)`` returned. Output: (N, C,
    L_out) with ``L_out = (L - 1) * stride - 2 * padding + kernel_size``, or the `output_size` passed to the call.

    Examples
    --------
    >>> top, index = adjoint.nn.MaxPool1d(2, return_indices=True)(adjoint.tensor([[1.0, 3.0, 9.0, 5.0]]))
    >>> adjoint.nn.MaxUnpool1d(2)(top, index)
    tensor([[0., 3., 9., 0.]])
    """

    _dims, _function = 1, "max_unpool1d"


class MaxUnpool2d(_MaxUnpoolNd):
    """Put maxima back where `MaxPool2d` found them, zeros elsewhere.

    Parameters
    ----------
    kernel_size : int or tuple of int
        Size of the windows of the pooling.
    stride : int or tuple of int, optional
        Step between its windows; `kernel_size` by default.
    padding : int or tuple of int, default 0
        Its padding.

    Shape
    -----
    Input: (N, C, H, W) or (C, H, W), and the indices that ``MaxPool2d(..., return_indices=True)`` returned. Output:
    (N, C, H_out, W_out) with ``H_out = (H - 1) * stride - 2 * padding + kernel_size``, or the `output_size` passed to
    the call.

    Examples
    --------
    >>> top, index = adjoint.nn.MaxPool2d(2, return_indices=True)(adjoint.arange(16.0).reshape(1, 4, 4))
    >>> adjoint.nn.MaxUnpool2d(2)(top, index)
    tensor([[[ 0.,  0.,  0.,  0.],
             [ 0.,  5.,  0.,  7.],
             [ 0.,  0.,  0.,  0.],
             [ 0., 13.,  0., 15.]]])
    """

    _dims, _function = 2, "max_unpool2d"


class MaxUnpool3d(_MaxUnpoolNd):
    """Put maxima back where `MaxPool3d` found them, zeros elsewhere.

    Parameters
    ----------
    kernel_size : int or tuple of int
        Size of the windows of the pooling.
    stride : int or tuple of int, optional
        Step between its windows; `kernel_size` by default.
    padding : int or tuple of int, default 0
        Its padding.

    Shape
    -----
    Input: (N, C, D, H, W) or (C, D, H, W), and the indices that ``MaxPool3d(..., return_indices=True)`` returned.
    Output: (N, C, D_out, H_out, W_out) with ``D_out = (D - 1) * stride - 2 * padding + kernel_size``, or the
    `output_size` passed to the call.

    Examples
    --------
    >>> top, index = adjoint.nn.MaxPool3d(2, return_indices=True)(adjoint.arange(8.0).reshape(1, 2, 2, 2))
    >>> adjoint.nn.MaxUnpool3d(2)(top, index)
    tensor([[[[0., 0.],
              [0., 0.]],
    <BLANKLINE>
             [[0., 0.],
              [0., 7.]]]])
    """

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
    """The maximum of windows of images at random places (Graham, 2014).

    Parameters
    ----------
    kernel_size : int or tuple of int
        Size of the windows.
    output_size : int or tuple of int, optional
        Size of the result.
    output_ratio : float or tuple of float, optional
        Size of the result as a fraction, between 0 and 1, of that of the input; needed without `output_size`.
    return_indices : bool, default False
        Return the positions of the maxima, too.

    Raises
    ------
    ValueError
        If not exactly one of `output_size` and `output_ratio` is given.

    Shape
    -----
    Input: (N, C, H, W) or (C, H, W). Output: (N, C, *output_size).

    Examples
    --------
    >>> adjoint.nn.FractionalMaxPool2d(2, output_size=5)(adjoint.randn(1, 8, 8, 8)).shape
    adjoint.Size([1, 8, 5, 5])
    """

    _dims, _function = 2, "fractional_max_pool2d"


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """The maximum of windows of volumes at random places (Graham, 2014).

    Parameters
    ----------
    kernel_size : int or tuple of int
        Size of the windows.
    output_size : int or tuple of int, optional
        Size of the result.
    output_ratio : float or tuple of float, optional
        Size of the result as a fraction, between 0 and 1, of that of the input; needed without `output_size`.
    return_indices : bool, default False
        Return the positions of the maxima, too.

    Raises
    ------
    ValueError
        If not exactly one of `output_size` and `output_ratio` is given.

    Shape
    -----
    Input: (N, C, D, H, W) or (C, D, H, W). Output: (N, C, *output_size).

    Examples
    --------
    >>> adjoint.nn.FractionalMaxPool3d(2, output_size=5)(adjoint.randn(1, 8, 8, 8, 8)).shape
    adjoint.Size([1, 8, 5, 5, 5])
    """

    _dims, _function = 3, "fractional_max_pool3d"


# --- Means and norms --------------------------------------------------------------------------------


class _AvgPoolNd(Functional):
    _shown = ["kernel_size", "stride", "padding"]


class AvgPool1d(_AvgPoolNd):
    """The mean of each window of sequences.

    Parameters
    ----------
    kernel_size : int or tuple of int
        Size of the windows.
    stride : int or tuple of int, optional
        Step between windows; `kernel_size` by default.
    padding : int or tuple of int, default 0
        Zeros to add on both sides, at most half of `kernel_size`.
    ceil_mode : bool, default False
        Round the number of windows up, not down.
    count_include_pad : bool, default True
        Whether padding counts as elements of a window.

    Shape
    -----
    Input: (N, C, L) or (C, L). Output: (N, C, L_out) with ``L_out = (L + 2 * padding - kernel_size) // stride + 1``.

    Examples
    --------
    >>> adjoint.nn.AvgPool1d(2)(adjoint.tensor([[1.0, 3.0, 9.0, 5.0]]))
    tensor([[2., 7.]])
    """

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
    """The mean of each window of volumes.

    Parameters
    ----------
    kernel_size : int or tuple of int
        Size of the windows.
    stride : int or tuple of int, optional
        Step between windows; `kernel_size` by default.
    padding : int or tuple of int, default 0
        Zeros to add on both sides, at most half of `kernel_size`.
    ceil_mode : bool, default False
        Round the number of windows up, not down.
    count_include_pad : bool, default True
        Whether padding counts as elements of a window.
    divisor_override : int, optional
        Divide the sum of a window by this in place of its number of elements.

    Shape
    -----
    Input: (N, C, D, H, W) or (C, D, H, W). Output: (N, C, D_out, H_out, W_out) with ``D_out = (D + 2 * padding -
    kernel_size) // stride + 1``.

    Examples
    --------
    >>> adjoint.nn.AvgPool3d(2)(adjoint.arange(8.0).reshape(1, 2, 2, 2))
    tensor([[[[3.5000]]]])
    """

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
    """The p-norm of each window of sequences: ``sum(x**p) ** (1 / p)``.

    Parameters
    ----------
    norm_type : float
        The p of the norm; 1 gives sums.
    kernel_size : int or tuple of int
        Size of the windows.
    stride : int or tuple of int, optional
        Step between windows; `kernel_size` by default.
    ceil_mode : bool, default False
        Round the number of windows up, not down.

    Shape
    -----
    Input: (N, C, L) or (C, L). Output: (N, C, L_out) with ``L_out = (L - kernel_size) // stride + 1``.

    Examples
    --------
    >>> adjoint.nn.LPPool1d(1, 2)(adjoint.tensor([[1.0, 3.0, 9.0, 5.0]]))
    tensor([[ 4., 14.]])
    """

    _function = "lp_pool1d"


class LPPool2d(_LPPoolNd):
    """The p-norm of each window of images: ``sum(x**p) ** (1 / p)``.

    Parameters
    ----------
    norm_type : float
        The p of the norm; 1 gives sums.
    kernel_size : int or tuple of int
        Size of the windows.
    stride : int or tuple of int, optional
        Step between windows; `kernel_size` by default.
    ceil_mode : bool, default False
        Round the number of windows up, not down.

    Shape
    -----
    Input: (N, C, H, W) or (C, H, W). Output: (N, C, H_out, W_out) with ``H_out = (H - kernel_size) // stride + 1``.

    Examples
    --------
    >>> adjoint.nn.LPPool2d(1, 2)(adjoint.arange(16.0).reshape(1, 4, 4))
    tensor([[[10., 18.],
             [42., 50.]]])
    """

    _function = "lp_pool2d"


class LPPool3d(_LPPoolNd):
    """The p-norm of each window of volumes: ``sum(x**p) ** (1 / p)``.

    Parameters
    ----------
    norm_type : float
        The p of the norm; 1 gives sums.
    kernel_size : int or tuple of int
        Size of the windows.
    stride : int or tuple of int, optional
        Step between windows; `kernel_size` by default.
    ceil_mode : bool, default False
        Round the number of windows up, not down.

    Shape
    -----
    Input: (N, C, D, H, W) or (C, D, H, W). Output: (N, C, D_out, H_out, W_out) with ``D_out = (D - kernel_size) //
    stride + 1``.

    Examples
    --------
    >>> adjoint.nn.LPPool3d(1, 2)(adjoint.arange(8.0).reshape(1, 2, 2, 2))
    tensor([[[[28.]]]])
    """

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
    """Means of windows that divide a volume into a given number of parts.

    Parameters
    ----------
    output_size : int or tuple of int or None
        Size of the result, one number for all dimensions or 3; None leaves a size as it is.

    Shape
    -----
    Input: (N, C, D, H, W) or (C, D, H, W). Output: (N, C, *output_size).

    Examples
    --------
    >>> adjoint.nn.AdaptiveAvgPool3d(1)(adjoint.arange(8.0).reshape(1, 2, 2, 2))
    tensor([[[[3.5000]]]])
    """

    _function = "adaptive_avg_pool3d"


class _AdaptiveMaxPoolNd(Functional):
    __constants__ = _options = ["output_size", "return_indices"]
    _shown = ["output_size"]

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Maxima of windows that divide a sequence into a given number of parts.

    Parameters
    ----------
    output_size : int or tuple of int
        Number of windows.
    return_indices : bool, default False
        Return the positions of the maxima, too.

    Shape
    -----
    Input: (N, C, L) or (C, L). Output: (N, C, *output_size).

    Examples
    --------
    >>> adjoint.nn.AdaptiveMaxPool1d(2)(adjoint.tensor([[1.0, 3.0, 9.0, 5.0]]))
    tensor([[3., 9.]])
    """

    _function = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Maxima of windows that divide an image into a given number of parts.

    Parameters
    ----------
    output_size : int or tuple of int or None
        Size of the result, one number for all dimensions or 2; None leaves a size as it is.
    return_indices : bool, default False
        Return the positions of the maxima, too.

    Shape
    -----
    Input: (N, C, H, W) or (C, H, W). Output: (N, C, *output_size).

    Examples
    --------
    >>> adjoint.nn.AdaptiveMaxPool2d(2)(adjoint.arange(16.0).reshape(1, 4, 4))
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """

    _function = "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Maxima of windows that divide a volume into a given number of parts.

    Parameters
    ----------
    output_size : int or tuple of int or None
        Size of the result, one number for all dimensions or 3; None leaves a size as it is.
    return_indices : bool, default False
        Return the positions of the maxima, too.

    Shape
    -----
    Input: (N, C, D, H, W) or (C, D, H, W). Output: (N, C, *output_size).

    Examples
    --------
    >>> adjoint.nn.AdaptiveMaxPool3d(1)(adjoint.arange(8.0).reshape(1, 2, 2, 2))
    tensor([[[[7.]]]])
    """

    _function = "adaptive_max_pool3d"
