"""Convolutions, and their transposes."""

from __future__ import annotations

import math
from typing import Any

from ..._typing import Tensor
from ...ops.create import empty
from .. import functional as F
from .. import init
from ..parameter import Parameter, UninitializedParameter
from .lazy import LazyModuleMixin
from .module import Module
from .utils import _ntuple, _reverse_repeat_tuple

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "LazyConv1d", "LazyConv2d",
    "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
]  # fmt: skip
_PADDINGS = {"same", "valid"}
_MODES = {"zeros", "reflect", "replicate", "circular"}


class _ConvNd(Module):
    """Base of all convolutions: sizes, weight and bias."""

    __constants__ = [
        "stride", "padding", "dilation", "groups", "padding_mode", "output_padding", "in_channels", "out_channels",
        "kernel_size",
    ]  # fmt: skip
    bias: Any

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: str | tuple[int, ...],
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check(in_channels, out_channels, stride, padding, groups, padding_mode)
        self.in_channels, self.out_channels, self.kernel_size = in_channels, out_channels, kernel_size
        self.stride, self.padding, self.dilation = stride, padding, dilation
        self.transposed, self.output_padding = transposed, output_padding
        self.groups, self.padding_mode = groups, padding_mode
        self._reversed_padding_repeated_twice = _two_sided(padding, kernel_size, dilation)
        outer, inner = (in_channels, out_channels) if transposed else (out_channels, in_channels)
        self.weight = Parameter(empty((outer, inner // groups, *kernel_size), device=device, dtype=dtype))
        offset = Parameter(empty(out_channels, device=device, dtype=dtype)) if bias else None
        self.register_parameter("bias", offset)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Sample weight and bias uniformly within ±1 / sqrt(fan_in)."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight)
            if fan_in != 0:
                bound = 1 / math.sqrt(fan_in)
                init.uniform_(self.bias, -bound, bound)

    def extra_repr(self) -> str:
        """Return the arguments that differ from their defaults, after channels, kernel size and stride."""
        parts = [str(self.in_channels), str(self.out_channels), f"kernel_size={self.kernel_size}"]
        parts.append(f"stride={self.stride}")
        ones = len(self.kernel_size)
        if self.padding != (0,) * len(self.padding):
            parts.append(f"padding={self.padding}")
        if self.dilation != (1,) * ones:
            parts.append(f"dilation={self.dilation}")
        if self.output_padding != (0,) * ones:
            parts.append(f"output_padding={self.output_padding}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.__dict__.setdefault("padding_mode", "zeros")


def _check(
    in_channels: int, out_channels: int, stride: tuple[int, ...], padding: Any, groups: int, padding_mode: str
) -> None:
    if groups <= 0:
        raise ValueError("groups must be a positive integer")
    if in_channels % groups != 0:
        raise ValueError("in_channels must be divisible by groups")
    if out_channels % groups != 0:
        raise ValueError("out_channels must be divisible by groups")
    if isinstance(padding, str):
        if padding not in _PADDINGS:
            raise ValueError(f"Invalid padding string {padding!r}, should be one of {_PADDINGS}")
        if padding == "same" and any(s != 1 for s in stride):
            raise ValueError("padding='same' is not supported for strided convolutions")
    if padding_mode not in _MODES:
        raise ValueError(f"padding_mode must be one of {_MODES}, but got padding_mode='{padding_mode}'")


def _two_sided(padding: Any, kernel_size: tuple[int, ...], dilation: tuple[int, ...]) -> Any:
    """Return the padding as `pad` takes it: last dimension first, left and right."""
    if not isinstance(padding, str):
        return _reverse_repeat_tuple(padding, 2)
    if padding == "valid":
        return [0, 0] * len(kernel_size)
    sides = []
    for d, k in zip(reversed(dilation), reversed(kernel_size), strict=False):
        total = d * (k - 1)
        sides += [total // 2, total - total // 2]
    return sides


# --- Convolutions -----------------------------------------------------------------------------------


class _Conv(_ConvNd):
    """Base of convolutions in one, two or three dimensions."""

    _dims: int
    _function: Any

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        sizes = _ntuple(self._dims)
        super().__init__(
            in_channels,
            out_channels,
            sizes(kernel_size),
            sizes(stride),
            padding if isinstance(padding, str) else sizes(padding),
            sizes(dilation),
            False,
            sizes(0),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._reversed_padding_repeated_twice, mode=self.padding_mode)
            padding = 0
        convolve = getattr(F, self._function)
        return convolve(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        """Return the convolution of `input`."""
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """Convolve sequences with learned kernels: a sum over input channels of cross-correlations, plus a bias.

    Parameters
    ----------
    in_channels, out_channels : int
        The channels of input and output.
    kernel_size : int or tuple of int
        The length of the kernels.
    stride : int or tuple of int, default 1
        The distance between windows.
    padding : int, tuple of int, "same" or "valid", default 0
        How much is added at both ends. ``"same"`` keeps the length, for a stride of 1; ``"valid"`` adds nothing.
    dilation : int or tuple of int, default 1
        The distance between neighbours in a window.
    groups : int, default 1
        Split the channels into groups that are convolved apart; it divides both numbers of channels.
    bias : bool, default True
        Add a bias to each output channel.
    padding_mode : {"zeros", "reflect", "replicate", "circular"}, default "zeros"
        What the padding holds.
    device, dtype : optional
        Of the parameters, as for `tensor`.

    Raises
    ------
    ValueError
        If `groups` does not divide the channels, or for ``"same"`` with a stride.

    Shape
    -----
    Input: (N, C_in, L) or (C_in, L). Output: (N, C_out, L_out) or (C_out, L_out), where
    ``L_out = (L + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``. The weight has the shape
    (C_out, C_in / groups, kernel_size).

    Examples
    --------
    >>> x = adjoint.ones(2, 4, 10)
    >>> adjoint.nn.Conv1d(4, 8, 3)(x).shape
    adjoint.Size([2, 8, 8])
    >>> adjoint.nn.Conv1d(4, 8, 3, stride=2, padding=1)(x).shape
    adjoint.Size([2, 8, 5])
    """

    _dims, _function = 1, "conv1d"


class Conv2d(_Conv):
    """Convolve images with learned kernels: a sum over input channels of cross-correlations, plus a bias.

    Parameters
    ----------
    in_channels, out_channels : int
        The channels of input and output.
    kernel_size : int or tuple of int
        The height and width of the kernels.
    stride : int or tuple of int, default 1
        The distance between windows.
    padding : int, tuple of int, "same" or "valid", default 0
        How much is added on both sides of each dimension. ``"same"`` keeps the size, for a stride of 1; ``"valid"``
        adds nothing.
    dilation : int or tuple of int, default 1
        The distance between neighbours in a window.
    groups : int, default 1
        Split the channels into groups that are convolved apart; it divides both numbers of channels.
    bias : bool, default True
        Add a bias to each output channel.
    padding_mode : {"zeros", "reflect", "replicate", "circular"}, default "zeros"
        What the padding holds.
    device, dtype : optional
        Of the parameters, as for `tensor`.

    Raises
    ------
    ValueError
        If `groups` does not divide the channels, or for ``"same"`` with a stride.

    Shape
    -----
    Input: (N, C_in, H, W) or (C_in, H, W). Output: (N, C_out, H_out, W_out) or without N, where
    ``H_out = (H + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``, and W_out likewise. The weight has
    the shape (C_out, C_in / groups, kH, kW).

    Examples
    --------
    >>> x = adjoint.ones(1, 3, 5, 5)
    >>> adjoint.nn.Conv2d(3, 8, 3, padding=1)(x).shape
    adjoint.Size([1, 8, 5, 5])
    >>> depthwise = adjoint.nn.Conv2d(3, 3, 3, groups=3)
    >>> depthwise.weight.shape, depthwise(x).shape
    (adjoint.Size([3, 1, 3, 3]), adjoint.Size([1, 3, 3, 3]))
    """

    _dims, _function = 2, "conv2d"


class Conv3d(_Conv):
    """Convolve volumes with learned kernels: a sum over input channels of cross-correlations, plus a bias.

    Parameters
    ----------
    in_channels, out_channels : int
        The channels of input and output.
    kernel_size : int or tuple of int
        The depth, height and width of the kernels.
    stride : int or tuple of int, default 1
        The distance between windows.
    padding : int, tuple of int, "same" or "valid", default 0
        How much is added on both sides of each dimension. ``"same"`` keeps the size, for a stride of 1; ``"valid"``
        adds nothing.
    dilation : int or tuple of int, default 1
        The distance between neighbours in a window.
    groups : int, default 1
        Split the channels into groups that are convolved apart; it divides both numbers of channels.
    bias : bool, default True
        Add a bias to each output channel.
    padding_mode : {"zeros", "reflect", "replicate", "circular"}, default "zeros"
        What the padding holds.
    device, dtype : optional
        Of the parameters, as for `tensor`.

    Raises
    ------
    ValueError
        If `groups` does not divide the channels, or for ``"same"`` with a stride.

    Shape
    -----
    Input: (N, C_in, D, H, W) or (C_in, D, H, W). Output: (N, C_out, D_out, H_out, W_out) or without N, where
    ``D_out = (D + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``, and the others likewise. The weight
    has the shape (C_out, C_in / groups, kD, kH, kW).

    Examples
    --------
    >>> layer = adjoint.nn.Conv3d(1, 4, (3, 3, 1), padding=(1, 1, 0))
    >>> layer(adjoint.ones(1, 1, 5, 6, 7)).shape
    adjoint.Size([1, 4, 5, 6, 7])
    """

    _dims, _function = 3, "conv3d"


# --- Transposed -------------------------------------------------------------------------------------


class _ConvTransposeNd(_ConvNd):
    """Base of transposed convolutions: a call may give the size of the output."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        transposed: bool,
        output_padding: Any,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, transposed, output_padding, groups,
            bias, padding_mode, device, dtype,
        )  # fmt: skip

    def _output_padding(
        self,
        input: Tensor,
        output_size: Any,
        stride: Any,
        padding: Any,
        kernel_size: Any,
        num_spatial_dims: int,
        dilation: Any = None,
    ) -> Any:
        if output_size is None:
            return _ntuple(num_spatial_dims)(self.output_padding)
        others = input.dim() - num_spatial_dims
        if len(output_size) == others + num_spatial_dims:
            output_size = output_size[others:]
        if len(output_size) != num_spatial_dims:
            raise ValueError(
                f"ConvTranspose{num_spatial_dims}D: for {input.dim()}D input, output_size must have "
                f"{num_spatial_dims} or {others + num_spatial_dims} elements (got {len(output_size)})"
            )
        dilation = (1,) * num_spatial_dims if dilation is None else dilation
        least = [
            (input.size(d + others) - 1) * stride[d] - 2 * padding[d] + dilation[d] * (kernel_size[d] - 1) + 1
            for d in range(num_spatial_dims)
        ]
        most = [low + stride[d] - 1 for d, low in enumerate(least)]
        if any(not low <= size <= high for size, low, high in zip(output_size, least, most, strict=True)):
            raise ValueError(
                f"requested an output size of {output_size}, but valid sizes range from {least} to {most} (for an "
                f"input of {input.size()[2:]})"
            )
        return [size - low for size, low in zip(output_size, least, strict=True)]


class _ConvTranspose(_ConvTransposeNd):
    """Base of transposed convolutions in one, two or three dimensions."""

    _dims: int
    _function: Any

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        sizes = _ntuple(self._dims)
        super().__init__(
            in_channels, out_channels, sizes(kernel_size), sizes(stride), sizes(padding), sizes(dilation), True,
            sizes(output_padding), groups, bias, padding_mode, device, dtype,
        )  # fmt: skip

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        """Return the transposed convolution of `input`; `output_size` chooses among the possible sizes."""
        extra = self._output_padding(
            input, output_size, self.stride, self.padding, self.kernel_size, self._dims, self.dilation
        )
        convolve = getattr(F, self._function)
        return convolve(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)


class ConvTranspose1d(_ConvTranspose):
    """Enlarge sequences with learned kernels: the gradient of `Conv1d` as a layer.

    Parameters
    ----------
    in_channels : int
        The channels of the input.
    out_channels : int
        The channels of the output.
    kernel_size : int or tuple of int
        The size of the kernels.
    stride : int or tuple of int, default 1
        The distance of neighbouring inputs in the output.
    padding : int or tuple of int, default 0
        How much is cut off on both sides of each dimension of the output.
    output_padding : int or tuple of int, default 0
        How much is added at the end of each dimension of the output; less than the stride or the dilation.
    groups : int, default 1
        Split the channels into groups that are convolved apart; it divides both numbers of channels.
    bias : bool, default True
        Add a bias to each output channel.
    dilation : int or tuple of int, default 1
        The distance between neighbours in a kernel.
    padding_mode : str, default "zeros"
        "zeros"; there is no other.
    device : device, optional
        Of the parameters, as for `tensor`.
    dtype : dtype, optional
        Of the parameters, as for `tensor`.

    Raises
    ------
    ValueError
        If `groups` does not divide the channels, or for another `padding_mode`.

    Shape
    -----
    Input: (N, C_in, L), or without N. Output: (N, C_out, L_out) with ``L_out = (L - 1) * stride - 2 * padding +
    dilation * (kernel_size - 1) + output_padding + 1``. A call takes an `output_size` in place of `output_padding`.

    Examples
    --------
    >>> layer = adjoint.nn.ConvTranspose1d(4, 8, 3, stride=2, padding=1)
    >>> layer(adjoint.ones(1, 4, 5)).shape
    adjoint.Size([1, 8, 9])
    """

    _dims, _function = 1, "conv_transpose1d"


class ConvTranspose2d(_ConvTranspose):
    """Enlarge images with learned kernels: a `Conv2d` run backward, as its gradient for the input is computed.

    Parameters
    ----------
    in_channels, out_channels : int
        The channels of input and output.
    kernel_size : int or tuple of int
        The height and width of the kernels.
    stride : int or tuple of int, default 1
        The distance of neighbouring inputs in the output.
    padding : int or tuple of int, default 0
        How much is cut off on both sides of each dimension of the output.
    output_padding : int or tuple of int, default 0
        How much is added at the end of each dimension of the output; less than the stride or the dilation.
    groups : int, default 1
        Split the channels into groups that are convolved apart; it divides both numbers of channels.
    bias : bool, default True
        Add a bias to each output channel.
    dilation : int or tuple of int, default 1
        The distance between neighbours in a kernel.
    padding_mode : {"zeros"}, default "zeros"
        There is no other.
    device, dtype : optional
        Of the parameters, as for `tensor`.

    Raises
    ------
    ValueError
        If `groups` does not divide the channels, or for another `padding_mode`.

    Shape
    -----
    Input: (N, C_in, H, W) or (C_in, H, W). Output: (N, C_out, H_out, W_out) or without N, where
    ``H_out = (H - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1``, and W_out likewise.
    A call takes an `output_size` in place of `output_padding`. The weight has the shape (C_in, C_out / groups, kH, kW).

    Examples
    --------
    >>> layer = adjoint.nn.ConvTranspose2d(4, 8, 3, stride=2, padding=1)
    >>> x = adjoint.ones(1, 4, 5, 5)
    >>> layer(x).shape, layer(x, output_size=(10, 10)).shape
    (adjoint.Size([1, 8, 9, 9]), adjoint.Size([1, 8, 10, 10]))
    """

    _dims, _function = 2, "conv_transpose2d"


class ConvTranspose3d(_ConvTranspose):
    """Enlarge volumes with learned kernels: the gradient of `Conv3d` as a layer.

    Parameters
    ----------
    in_channels : int
        The channels of the input.
    out_channels : int
        The channels of the output.
    kernel_size : int or tuple of int
        The size of the kernels.
    stride : int or tuple of int, default 1
        The distance of neighbouring inputs in the output.
    padding : int or tuple of int, default 0
        How much is cut off on both sides of each dimension of the output.
    output_padding : int or tuple of int, default 0
        How much is added at the end of each dimension of the output; less than the stride or the dilation.
    groups : int, default 1
        Split the channels into groups that are convolved apart; it divides both numbers of channels.
    bias : bool, default True
        Add a bias to each output channel.
    dilation : int or tuple of int, default 1
        The distance between neighbours in a kernel.
    padding_mode : str, default "zeros"
        "zeros"; there is no other.
    device : device, optional
        Of the parameters, as for `tensor`.
    dtype : dtype, optional
        Of the parameters, as for `tensor`.

    Raises
    ------
    ValueError
        If `groups` does not divide the channels, or for another `padding_mode`.

    Shape
    -----
    Input: (N, C_in, D, H, W), or without N. Output: (N, C_out, D_out, H_out, W_out) with ``D_out = (D - 1) * stride -
    2 * padding + dilation * (kernel_size - 1) + output_padding + 1``. A call takes an `output_size` in place of
    `output_padding`.

    Examples
    --------
    >>> layer = adjoint.nn.ConvTranspose3d(4, 8, 3, stride=2, padding=1)
    >>> layer(adjoint.ones(1, 4, 5, 5, 5)).shape
    adjoint.Size([1, 8, 9, 9, 9])
    """

    _dims, _function = 3, "conv_transpose3d"


# --- Lazy -------------------------------------------------------------------------------------------


class _LazyConvXdMixin(LazyModuleMixin):
    """A convolution that learns the number of its input channels from its first input."""

    _dims: int

    def _wait(self: Any, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_channels = out_channels
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self: Any) -> None:
        """Initialise weight and bias, once their shapes are known."""
        if not self.has_uninitialized_params() and self.in_channels != 0:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self: Any, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Take the number of channels from the first input."""
        if not self.has_uninitialized_params():
            return
        self.in_channels = self._get_in_channels(input)
        if self.in_channels % self.groups != 0:
            raise ValueError("in_channels must be divisible by groups")
        pair = (self.in_channels, self.out_channels)
        outer, inner = pair if self.transposed else reversed(pair)
        self.weight.materialize((outer, inner // self.groups, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _get_in_channels(self, input: Tensor) -> int:
        dims = self._dims
        if input.dim() not in (dims + 1, dims + 2):
            raise RuntimeError(
                f"Expected {dims + 1}D (unbatched) or {dims + 2}D (batched) input to {type(self).__name__}, but got "
                f"input of size: {input.shape}"
            )
        return int(input.shape[1] if input.dim() == dims + 2 else input.shape[0])


class _LazyConv(_LazyConvXdMixin):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype)
        self._wait(out_channels, bias, device, dtype)


class _LazyConvTranspose(_LazyConvXdMixin):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation, padding_mode, device, dtype
        )
        self._wait(out_channels, bias, device, dtype)


class LazyConv1d(_LazyConv, Conv1d):
    """A `Conv1d` that learns `in_channels` from its first input.

    Parameters
    ----------
    out_channels : int
        The channels of the output.
    kernel_size : int or tuple of int
        The size of the kernels.
    stride : int or tuple of int, default 1
        The distance between windows.
    padding : int or tuple of int or str, default 0
        How much is added on both sides of each dimension; or "valid", "same".
    dilation : int or tuple of int, default 1
        The distance between neighbours in a kernel.
    groups : int, default 1
        Split the channels into groups that are convolved apart; it divides both numbers of channels.
    bias : bool, default True
        Add a bias to each output channel.
    padding_mode : str, default "zeros"
        What padding is filled with: "zeros", "reflect", "replicate" or "circular".
    device : device, optional
        Of the parameters, as for `tensor`.
    dtype : dtype, optional
        Of the parameters, as for `tensor`.

    Shape
    -----
    As of `Conv1d`.

    Examples
    --------
    >>> layer = adjoint.nn.LazyConv1d(8, 3)
    >>> layer(adjoint.ones(1, 4, 5)).shape
    adjoint.Size([1, 8, 3])
    >>> layer.in_channels
    4
    """

    cls_to_become = Conv1d


class LazyConv2d(_LazyConv, Conv2d):
    """A `Conv2d` that learns `in_channels` from its first input.

    Parameters
    ----------
    out_channels : int
        The channels of the output.
    kernel_size : int or tuple of int
        The size of the kernels.
    stride : int or tuple of int, default 1
        The distance between windows.
    padding : int or tuple of int or str, default 0
        How much is added on both sides of each dimension; or "valid", "same".
    dilation : int or tuple of int, default 1
        The distance between neighbours in a kernel.
    groups : int, default 1
        Split the channels into groups that are convolved apart; it divides both numbers of channels.
    bias : bool, default True
        Add a bias to each output channel.
    padding_mode : str, default "zeros"
        What padding is filled with: "zeros", "reflect", "replicate" or "circular".
    device : device, optional
        Of the parameters, as for `tensor`.
    dtype : dtype, optional
        Of the parameters, as for `tensor`.

    Shape
    -----
    As of `Conv2d`.

    Examples
    --------
    >>> layer = adjoint.nn.LazyConv2d(8, 3)
    >>> layer(adjoint.ones(1, 4, 5, 5)).shape
    adjoint.Size([1, 8, 3, 3])
    >>> layer.in_channels
    4
    """

    cls_to_become = Conv2d


class LazyConv3d(_LazyConv, Conv3d):
    """A `Conv3d` that learns `in_channels` from its first input.

    Parameters
    ----------
    out_channels : int
        The channels of the output.
    kernel_size : int or tuple of int
        The size of the kernels.
    stride : int or tuple of int, default 1
        The distance between windows.
    padding : int or tuple of int or str, default 0
        How much is added on both sides of each dimension; or "valid", "same".
    dilation : int or tuple of int, default 1
        The distance between neighbours in a kernel.
    groups : int, default 1
        Split the channels into groups that are convolved apart; it divides both numbers of channels.
    bias : bool, default True
        Add a bias to each output channel.
    padding_mode : str, default "zeros"
        What padding is filled with: "zeros", "reflect", "replicate" or "circular".
    device : device, optional
        Of the parameters, as for `tensor`.
    dtype : dtype, optional
        Of the parameters, as for `tensor`.

    Shape
    -----
    As of `Conv3d`.

    Examples
    --------
    >>> layer = adjoint.nn.LazyConv3d(8, 3)
    >>> layer(adjoint.ones(1, 4, 5, 5, 5)).shape
    adjoint.Size([1, 8, 3, 3, 3])
    >>> layer.in_channels
    4
    """

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvTranspose, ConvTranspose1d):
    """A `ConvTranspose1d` that learns `in_channels` from its first input.

    Parameters
    ----------
    out_channels : int
        The channels of the output.
    kernel_size : int or tuple of int
        The size of the kernels.
    stride : int or tuple of int, default 1
        The distance of neighbouring inputs in the output.
    padding : int or tuple of int, default 0
        How much is cut off on both sides of each dimension of the output.
    output_padding : int or tuple of int, default 0
        How much is added at the end of each dimension of the output; less than the stride or the dilation.
    groups : int, default 1
        Split the channels into groups that are convolved apart; it divides both numbers of channels.
    bias : bool, default True
        Add a bias to each output channel.
    dilation : int or tuple of int, default 1
        The distance between neighbours in a kernel.
    padding_mode : str, default "zeros"
        "zeros"; there is no other.
    device : device, optional
        Of the parameters, as for `tensor`.
    dtype : dtype, optional
        Of the parameters, as for `tensor`.

    Shape
    -----
    As of `ConvTranspose1d`.

    Examples
    --------
    >>> layer = adjoint.nn.LazyConvTranspose1d(8, 3)
    >>> layer(adjoint.ones(1, 4, 5)).shape
    adjoint.Size([1, 8, 7])
    >>> layer.in_channels
    4
    """

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTranspose, ConvTranspose2d):
    """A `ConvTranspose2d` that learns `in_channels` from its first input.

    Parameters
    ----------
    out_channels : int
        The channels of the output.
    kernel_size : int or tuple of int
        The size of the kernels.
    stride : int or tuple of int, default 1
        The distance of neighbouring inputs in the output.
    padding : int or tuple of int, default 0
        How much is cut off on both sides of each dimension of the output.
    output_padding : int or tuple of int, default 0
        How much is added at the end of each dimension of the output; less than the stride or the dilation.
    groups : int, default 1
        Split the channels into groups that are convolved apart; it divides both numbers of channels.
    bias : bool, default True
        Add a bias to each output channel.
    dilation : int or tuple of int, default 1
        The distance between neighbours in a kernel.
    padding_mode : str, default "zeros"
        "zeros"; there is no other.
    device : device, optional
        Of the parameters, as for `tensor`.
    dtype : dtype, optional
        Of the parameters, as for `tensor`.

    Shape
    -----
    As of `ConvTranspose2d`.

    Examples
    --------
    >>> layer = adjoint.nn.LazyConvTranspose2d(8, 3)
    >>> layer(adjoint.ones(1, 4, 5, 5)).shape
    adjoint.Size([1, 8, 7, 7])
    >>> layer.in_channels
    4
    """

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTranspose, ConvTranspose3d):
    """A `ConvTranspose3d` that learns `in_channels` from its first input.

    Parameters
    ----------
    out_channels : int
        The channels of the output.
    kernel_size : int or tuple of int
        The size of the kernels.
    stride : int or tuple of int, default 1
        The distance of neighbouring inputs in the output.
    padding : int or tuple of int, default 0
        How much is cut off on both sides of each dimension of the output.
    output_padding : int or tuple of int, default 0
        How much is added at the end of each dimension of the output; less than the stride or the dilation.
    groups : int, default 1
        Split the channels into groups that are convolved apart; it divides both numbers of channels.
    bias : bool, default True
        Add a bias to each output channel.
    dilation : int or tuple of int, default 1
        The distance between neighbours in a kernel.
    padding_mode : str, default "zeros"
        "zeros"; there is no other.
    device : device, optional
        Of the parameters, as for `tensor`.
    dtype : dtype, optional
        Of the parameters, as for `tensor`.

    Shape
    -----
    As of `ConvTranspose3d`.

    Examples
    --------
    >>> layer = adjoint.nn.LazyConvTranspose3d(8, 3)
    >>> layer(adjoint.ones(1, 4, 5, 5, 5)).shape
    adjoint.Size([1, 8, 7, 7, 7])
    >>> layer.in_channels
    4
    """

    cls_to_become = ConvTranspose3d
