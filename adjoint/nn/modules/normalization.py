"""Layers that normalise each sample: by group, layer, root mean square, neighbouring channels."""

from __future__ import annotations

from typing import Any

from ..._typing import Tensor
from ...ops.create import empty, tensor
from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module

__all__ = ["CrossMapLRN2d", "GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]


class _Affine(Module):
    """Base of norms: a scale and a shift for each normalised value."""

    weight: Any
    bias: Any

    def _register_affine(self, shape: Any, weight: bool, bias: bool, device: Any, dtype: Any) -> None:
        for name, wanted in (("weight", weight), ("bias", weight and bias)):
            self.register_parameter(name, Parameter(empty(shape, device=device, dtype=dtype)) if wanted else None)

    def reset_parameters(self) -> None:
        """Set the scale to one and the shift to zero."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class _ByNeighbours(Module):
    """Base of the norms over neighbouring channels: their parameters."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def extra_repr(self) -> str:
        """Return the parameters."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class LocalResponseNorm(_ByNeighbours):
    """Divide each channel by a power of the mean of squares of its neighbours (Krizhevsky et al., 2012).

    ``x / (k + alpha * mean(x**2)) ** beta``, the mean over `size` neighbouring channels.

    Parameters
    ----------
    size : int
        Number of neighbouring channels.
    alpha : float, default 0.0001
        Factor of the mean of squares.
    beta : float, default 0.75
        Power.
    k : float, default 1.0
        Added before the power is taken.

    Shape
    -----
    Input: (N, C, ...). Output: the same.

    Examples
    --------
    >>> adjoint.nn.LocalResponseNorm(1, alpha=1.0, beta=1.0)(adjoint.tensor([[[1.0], [2.0]]]))
    tensor([[[0.5000],
             [0.4000]]])
    """

    __constants__ = ["size", "alpha", "beta", "k"]

    def forward(self, input: Tensor) -> Tensor:
        """Return `input`, normalised."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)


def _lua_windows(channels: int, size: int) -> list[list[float]]:
    """Return which channels each one is divided by: a running sum that drops a channel one step late."""
    reach = int((size - 1) / 2 + 1)
    weights = [1.0 if other < reach else 0.0 for other in range(channels)]
    rows = [weights]
    for channel in range(1, channels):
        weights = list(weights)
        if channel < channels - reach + 1:
            weights[channel + reach - 1] += 1
        if channel > reach:
            weights[channel - reach] -= 1
        rows.append(weights)
    return rows


class CrossMapLRN2d(_ByNeighbours):
    """`LocalResponseNorm` of images, with the windows that Lua Torch had."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)

    def forward(self, input: Tensor) -> Tensor:
        """Return `input`, normalised."""
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        count = input.shape[1]
        windows = tensor(_lua_windows(count, self.size), dtype=input.dtype, device=input.device)
        sums = (windows @ (input * input).flatten(2)).reshape(input.shape)
        return input * (self.k + self.alpha / self.size * sums) ** -self.beta


def _as_shape(normalized_shape: Any) -> tuple[int, ...]:
    return (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)


class LayerNorm(_Affine):
    """Normalize over the last dimensions: ``(x - mean) / sqrt(var + eps) * weight + bias`` (Ba et al., 2016).

    Mean and (biased) variance are those of the last dimensions of each sample.

    Parameters
    ----------
    normalized_shape : int or tuple of int
        The sizes of the last dimensions.
    eps : float, default 1e-5
        Added to the variance.
    elementwise_affine : bool, default True
        Learn `weight` and `bias`, of `normalized_shape`, which begin as ones and zeros.
    bias : bool, default True
        False learns a `weight` only.
    device, dtype : optional
        Of the parameters, as for `tensor`.

    Shape
    -----
    Input: (..., *normalized_shape). Output: the same.

    Examples
    --------
    >>> adjoint.nn.LayerNorm(2)(adjoint.tensor([[1.0, 3.0], [10.0, 30.0]])).detach()
    tensor([[-1.0000,  1.0000],
            [-1.0000,  1.0000]])
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self._register_affine(self.normalized_shape, elementwise_affine, bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        """Return `input`, normalised."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the shape and the options."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """Divide the last dimensions by their root mean square, then scale them (Zhang and Sennrich, 2019).

    ``x / sqrt(mean(x**2) + eps) * weight``

    Parameters
    ----------
    normalized_shape : int or tuple of int
        The sizes of the last dimensions, those to normalize over.
    eps : float, optional
        Added to the mean of squares; by default the machine epsilon of the dtype.
    elementwise_affine : bool, default True
        Scale by a learned `weight` of this shape.
    device : device, optional
        Of the parameters, as for `tensor`.
    dtype : dtype, optional
        Of the parameters, as for `tensor`.

    Shape
    -----
    Input: (..., *normalized_shape). Output: the same.

    Examples
    --------
    >>> adjoint.nn.RMSNorm(2)(adjoint.tensor([[3.0, 4.0]])).detach()
    tensor([[0.8485, 1.1314]])
    """

    __constants__ = ["normalized_shape", "eps", "elementwise_affine"]

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _as_shape(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        weight = Parameter(empty(self.normalized_shape, device=device, dtype=dtype)) if elementwise_affine else None
        self.register_parameter("weight", weight)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set the scale to one."""
        if self.elementwise_affine:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Return `x`, normalised."""
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """Return the shape and the options."""
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(_Affine):
    """Normalize groups of channels of each sample: ``(x - mean) / sqrt(var + eps) * weight + bias`` (Wu and He, 2018).

    Mean and (biased) variance are those of a group; `weight` and `bias` have one element for each channel.

    Parameters
    ----------
    num_groups : int
        How many groups there are; it divides `num_channels`.
    num_channels : int
        The number C of channels.
    eps : float, default 1e-5
        Added to the variance.
    affine : bool, default True
        Learn `weight` and `bias`, which begin as ones and zeros.
    device, dtype : optional
        Of the parameters, as for `tensor`.
    bias : bool, default True
        False learns a `weight` only.

    Raises
    ------
    ValueError
        If `num_groups` does not divide `num_channels`.

    Shape
    -----
    Input: (N, C, ...). Output: the same.

    Examples
    --------
    >>> adjoint.nn.GroupNorm(2, 4)(adjoint.tensor([[1.0, 3.0, 10.0, 30.0]])).detach()
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """

    __constants__ = ["num_groups", "num_channels", "eps", "affine"]

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups != 0:
            raise ValueError(f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})")
        self.num_groups, self.num_channels, self.eps, self.affine = num_groups, num_channels, eps, affine
        self._register_affine(num_channels, affine, bias, device, dtype)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        """Return `input`, normalised."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """Return the sizes and the options."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )
