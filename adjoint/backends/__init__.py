"""Switches of torch's backends: those that adjoint has take effect, the others are remembered."""

from __future__ import annotations

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

from . import cuda, cudnn, mkldnn

if _TYPE_CHECKING:
    from ..compat import unavailable as mkl
    from ..compat import unavailable as mps
    from ..compat import unavailable as openmp

__all__ = ["cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]


def __getattr__(name: str) -> _Any:
    if name in ("mkl", "mps", "openmp"):
        return _importlib.import_module(f"adjoint.backends.{name}")
    raise AttributeError(f"module 'adjoint.backends' has no attribute '{name}'")
