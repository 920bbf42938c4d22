"""Layers that take images apart into windows, and put windows together."""

from __future__ import annotations

from typing import Any

from ..._typing import Tensor
from .. import functional as F
from .module import Module

__all__ = ["Fold", "Unfold"]


class _Windows(Module):
    kernel_size: Any
    dilation: Any
    padding: Any
    stride: Any

    def extra_repr(self) -> str:
        """Return the sizes."""
        return ", ".join(f"{name}={getattr(self, name)}" for name in self.__constants__)  # type: ignore[attr-defined]


class Fold(_Windows):
    """Add windows, given as columns, up to an image."""

    __constants__ = ["output_size", "kernel_size", "dilation", "padding", "stride"]

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        self.output_size, self.kernel_size = output_size, kernel_size
        self.dilation, self.padding, self.stride = dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        """Return the image."""
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)


class Unfold(_Windows):
    """Take an image apart into windows, as columns."""

    __constants__ = ["kernel_size", "dilation", "padding", "stride"]

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        """Return the windows."""
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)
