"""Layers that drop part of their input in training."""

from __future__ import annotations

from ..._typing import Tensor
from .. import functional as F
from .module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _DropoutNd(Module):
    """What all dropouts share: a probability."""

    __constants__ = ["p", "inplace"]
    _function: str
    p: float
    inplace: bool

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        """Return `input`, in training with a part dropped."""
        return getattr(F, self._function)(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        """Return the probability."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_DropoutNd):
    """Set each element to zero with probability `p` in training, and scale the others up."""

    def forward(self, input: Tensor) -> Tensor:
        """Return `input`, in training with a part dropped."""
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_DropoutNd):
    """Set whole channels of sequences to zero with probability `p` in training."""

    _function = "dropout1d"


class Dropout2d(_DropoutNd):
    """Set whole channels of images to zero with probability `p` in training."""

    _function = "dropout2d"


class Dropout3d(_DropoutNd):
    """Set whole channels of volumes to zero with probability `p` in training."""

    _function = "dropout3d"


class AlphaDropout(_DropoutNd):
    """Dropout that keeps mean and variance of inputs that `SELU` normalises."""

    _function = "alpha_dropout"


class FeatureAlphaDropout(_DropoutNd):
    """`AlphaDropout` of whole channels."""

    _function = "feature_alpha_dropout"
