"""Switches of cuDNN, which convolutions on a GPU go through where it is installed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import ModuleType

from ..devices.cuda.settings import cudnn as settings

__all__ = [  # noqa: F822 - some are properties of the module
    "allow_tf32", "benchmark", "deterministic", "enabled", "flags", "is_available", "version",
]  # fmt: skip

benchmark = False
deterministic = False
benchmark_limit = 10


def is_available() -> bool:
    """Return whether cuDNN is installed, and CuPy, which brings tensors to the GPU."""
    return version() is not None


def version() -> int | None:
    """Return the number of cuDNN's version, None where it is not installed."""
    if find_spec("cupy") is None:
        return None
    from ..devices.cuda import cudnn

    return cudnn.version()


class _Switches(ModuleType):
    """The module, whose switches are those of the kernels."""

    @property
    def enabled(self) -> bool:
        """Whether convolutions on a GPU may go through cuDNN; True at first.

        Examples
        --------
        >>> with adjoint.backends.cudnn.flags(enabled=False):
        ...     adjoint.backends.cudnn.enabled
        False
        >>> adjoint.backends.cudnn.enabled
        True
        """
        return settings.enabled

    @enabled.setter
    def enabled(self, value: bool) -> None:
        settings.enabled = bool(value)

    @property
    def allow_tf32(self) -> bool:
        """Whether cuDNN may convolve float32 in TF32, which has ten bits for the fraction; True at first.

        Examples
        --------
        >>> with adjoint.backends.cudnn.flags(enabled=True, allow_tf32=False):
        ...     adjoint.backends.cudnn.allow_tf32
        False
        >>> adjoint.backends.cudnn.allow_tf32
        True
        """
        return settings.tf32

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        settings.tf32 = bool(value)


_module = sys.modules[__name__]
_module.__class__ = _Switches


@contextmanager
def flags(
    enabled: bool = False, benchmark: bool = False, deterministic: bool = False, allow_tf32: bool = True
) -> Iterator[None]:
    """Set the switches inside the context."""
    names = ("enabled", "benchmark", "deterministic", "allow_tf32")
    before = [getattr(_module, name) for name in names]
    for name, value in zip(names, (enabled, benchmark, deterministic, allow_tf32), strict=True):
        setattr(_module, name, value)
    try:
        yield
    finally:
        for name, value in zip(names, before, strict=True):
            setattr(_module, name, value)
