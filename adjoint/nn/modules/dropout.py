"""Dropout: layers that set elements, or whole channels, to zero in training."""

from __future__ import annotations

from ..._typing import Tensor
from .. import functional as F
from .functions import Functional

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _DropoutNd(Functional):
    """Base of all dropouts: a probability."""

    __constants__ = ["p", "inplace"]
    p: float
    inplace: bool

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return `input`, in training mode with dropout."""
        return getattr(F, self._function)(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Return the probability."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Set each element to zero with probability `p` in training; scale others by ``1 / (1 - p)``.

    In evaluation mode the input is returned as it is.

    Parameters
    ----------
    p : float, default 0.5
        The probability of a zero.
    inplace : bool, default False
        Write the result into the input.

    Raises
    ------
    ValueError
        If `p` is not between 0 and 1.

    Shape
    -----
    Input: any. Output: the same.

    Examples
    --------
    >>> _ = adjoint.manual_seed(0)
    >>> layer = adjoint.nn.Dropout(0.5)
    >>> sorted(set(layer(adjoint.ones(100)).tolist()))
    [0.0, 2.0]
    >>> layer.eval()(adjoint.ones(3))
    tensor([1., 1., 1.])
    """

    _function = "dropout"


class Dropout1d(_DropoutNd):
    """Set whole channels of sequences to zero with probability `p` in training; scale others by ``1 / (1 - p)``.

    Parameters
    ----------
    p : float, default 0.5
        Probability of a channel to become zero.
    inplace : bool, default False
        Write the result to the input.

    Shape
    -----
    Input: (N, C, L) or (C, L). Output: the same.

    Examples
    --------
    >>> layer = adjoint.nn.Dropout1d(0.5)
    >>> layer(adjoint.ones(1, 100, 2)).unique()
    tensor([0., 2.])
    >>> layer.eval()(adjoint.ones(1, 1, 1)).flatten()
    tensor([1.])
    """

    _function = "dropout1d"


class Dropout2d(_DropoutNd):
    """Set whole channels to zero with probability `p` in training; scale others by ``1 / (1 - p)``.

    In evaluation mode the input is returned as it is.

    Parameters
    ----------
    p : float, default 0.5
        The probability that a channel is set to zero.
    inplace : bool, default False
        Write the result into the input.

    Raises
    ------
    ValueError
        If `p` is not between 0 and 1.

    Shape
    -----
    Input: (N, C, H, W) or (C, H, W). Output: the same.

    Examples
    --------
    >>> _ = adjoint.manual_seed(0)
    >>> out = adjoint.nn.Dropout2d(0.5)(adjoint.ones(1, 8, 4, 4))
    >>> sorted(set(out.sum(dim=(2, 3)).flatten().tolist()))  # of each channel, all 16 elements or none
    [0.0, 32.0]
    """

    _function = "dropout2d"


class Dropout3d(_DropoutNd):
    """Set whole channels of volumes to zero with probability `p` in training; scale others by ``1 / (1 - p)``.

    Parameters
    ----------
    p : float, default 0.5
        Probability of a channel to become zero.
    inplace : bool, default False
        Write the result to the input.

    Shape
    -----
    Input: (N, C, D, H, W) or (C, D, H, W). Output: the same.

    Examples
    --------
    >>> layer = adjoint.nn.Dropout3d(0.5)
    >>> layer(adjoint.ones(1, 100, 2, 2, 2)).unique()
    tensor([0., 2.])
    >>> layer.eval()(adjoint.ones(1, 1, 1, 1, 1)).flatten()
    tensor([1.])
    """

    _function = "dropout3d"


class AlphaDropout(_DropoutNd):
    """Dropout that preserves mean 0 and variance 1, for networks with `SELU`.

    What is dropped becomes ``-1.7581``, the limit of `SELU`; an affine map of all elements then restores mean and
    variance.

    Parameters
    ----------
    p : float, default 0.5
        Probability of an element to be dropped.
    inplace : bool, default False
        Write the result to the input.

    Shape
    -----
    Input: any. Output: the same.

    Examples
    --------
    >>> y = adjoint.nn.AlphaDropout(0.2)(adjoint.randn(100, 100))
    >>> bool((y.std() - 1).abs() < 0.1)
    True
    """

    _function = "alpha_dropout"


class FeatureAlphaDropout(_DropoutNd):
    """`AlphaDropout` of whole channels.

    Parameters
    ----------
    p : float, default 0.5
        Probability of a channel to be dropped.
    inplace : bool, default False
        Write the result to the input.

    Shape
    -----
    Input: (N, C, ...). Output: the same.

    Examples
    --------
    >>> adjoint.nn.FeatureAlphaDropout(0.2).eval()(adjoint.ones(1, 2, 1)).flatten()
    tensor([1., 1.])
    """

    _function = "feature_alpha_dropout"
