"""Layers that pad the borders of their input."""

from __future__ import annotations

from typing import Any

from ..._typing import Tensor
from .. import functional as F
from .module import Module
from .utils import _ntuple

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d",
    "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


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
