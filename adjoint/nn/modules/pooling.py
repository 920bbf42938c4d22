"""Layers that take maxima, means or norms of windows."""

from __future__ import annotations

from typing import Any

from ..._typing import Tensor
from .. import functional as F
from .module import Module
from .utils import _ntuple

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "FractionalMaxPool2d", "FractionalMaxPool3d",
    "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d",
    "MaxUnpool3d",
]  # fmt: skip


class _Pool(Module):
    """A layer whose function is named by its class."""

    _function: str

    def _apply_function(self, *args: Any) -> Any:
        return getattr(F, self._function)(*args)


# --- Maxima -----------------------------------------------------------------------------------------


class _MaxPoolNd(_Pool):
    __constants__ = ["kernel_size", "stride", "padding", "dilation", "return_indices", "ceil_mode"]

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

    def forward(self, input: Tensor) -> Any:
        """Return the maxima of windows, and perhaps where they are."""
        return self._apply_function(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )

    def extra_repr(self) -> str:
        """Return the sizes."""
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, "
            f"dilation={self.dilation}, ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPoolNd):
    """The maximum of windows of sequences (N, C, L)."""

    _function = "max_pool1d"


class MaxPool2d(_MaxPoolNd):
    """The maximum of windows of images (N, C, H, W).

    Examples
    --------
    >>> adjoint.nn.MaxPool2d(2)(adjoint.arange(16.0).reshape(1, 4, 4)).tolist()
    [[[5.0, 7.0], [13.0, 15.0]]]
    """

    _function = "max_pool2d"


class MaxPool3d(_MaxPoolNd):
    """The maximum of windows of volumes (N, C, D, H, W)."""

    _function = "max_pool3d"


class _MaxUnpoolNd(_Pool):
    _dims: int

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        sizes = _ntuple(self._dims)
        self.kernel_size, self.padding = sizes(kernel_size), sizes(padding)
        self.stride = self.kernel_size if stride is None else sizes(stride)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        """Return maxima at their places, zeros elsewhere."""
        return self._apply_function(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpoolNd):
    """Put maxima back where `MaxPool1d` found them."""

    _dims, _function = 1, "max_unpool1d"


class MaxUnpool2d(_MaxUnpoolNd):
    """Put maxima back where `MaxPool2d` found them."""

    _dims, _function = 2, "max_unpool2d"


class MaxUnpool3d(_MaxUnpoolNd):
    """Put maxima back where `MaxPool3d` found them."""

    _dims, _function = 3, "max_unpool3d"


class _FractionalMaxPoolNd(_Pool):
    __constants__ = ["kernel_size", "return_indices", "output_size", "output_ratio"]
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

    def forward(self, input: Tensor) -> Any:
        """Return the maxima of windows at random places."""
        return self._apply_function(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples
        )


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """The maximum of windows of images at random places (Graham, 2014)."""

    _dims, _function = 2, "fractional_max_pool2d"


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """The maximum of windows of volumes at random places (Graham, 2014)."""

    _dims, _function = 3, "fractional_max_pool3d"


# --- Means and norms --------------------------------------------------------------------------------


class _AvgPoolNd(_Pool):
    kernel_size: Any
    stride: Any
    padding: Any

    def extra_repr(self) -> str:
        """Return the sizes."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool1d(_AvgPoolNd):
    """The mean of windows of sequences (N, C, L)."""

    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad"]

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

    def forward(self, input: Tensor) -> Tensor:
        """Return the means of windows."""
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)


class _AvgPool(_AvgPoolNd):
    __constants__ = ["kernel_size", "stride", "padding", "ceil_mode", "count_include_pad", "divisor_override"]

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

    def forward(self, input: Tensor) -> Tensor:
        """Return the means of windows."""
        return self._apply_function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool2d(_AvgPool):
    """The mean of windows of images (N, C, H, W)."""

    _function = "avg_pool2d"


class AvgPool3d(_AvgPool):
    """The mean of windows of volumes (N, C, D, H, W)."""

    _function = "avg_pool3d"


class _LPPoolNd(_Pool):
    __constants__ = ["norm_type", "kernel_size", "stride", "ceil_mode"]

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        """Return the norms of windows."""
        return self._apply_function(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        """Return the norm and the sizes."""
        return ", ".join(f"{name}={getattr(self, name)}" for name in self.__constants__)


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


class _AdaptiveAvgPoolNd(_Pool):
    __constants__ = ["output_size"]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        """Return means that have the size asked for."""
        return self._apply_function(input, self.output_size)

    def extra_repr(self) -> str:
        """Return the size."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """Means of windows that share a sequence, as many as asked for."""

    _function = "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """Means of windows that share an image, as many as asked for."""

    _function = "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """Means of windows that share a volume, as many as asked for."""

    _function = "adaptive_avg_pool3d"


class _AdaptiveMaxPoolNd(_Pool):
    __constants__ = ["output_size", "return_indices"]

    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__()
        self.output_size, self.return_indices = output_size, return_indices

    def forward(self, input: Tensor) -> Any:
        """Return maxima that have the size asked for, and perhaps where they are."""
        return self._apply_function(input, self.output_size, self.return_indices)

    def extra_repr(self) -> str:
        """Return the size."""
        return f"output_size={self.output_size}"


class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """Maxima of windows that share a sequence, as many as asked for."""

    _function = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """Maxima of windows that share an image, as many as asked for."""

    _function = "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """Maxima of windows that share a volume, as many as asked for."""

    _function = "adaptive_max_pool3d"
