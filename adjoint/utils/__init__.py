"""Tools beside the tensors: hooks, and data that are loaded in batches."""

from __future__ import annotations

import importlib as _importlib
from typing import Any as _Any

from . import hooks

__all__ = ["benchmark", "checkpoint", "data", "dlpack", "hooks"]

_ROOMS_LATER = frozenset({"benchmark", "checkpoint", "data", "dlpack", "tensorboard", "weak"})


def __getattr__(name: str) -> _Any:
    if name in _ROOMS_LATER:
        return _importlib.import_module(f"adjoint.utils.{name}")
    if name == "swap_tensors":
        return _importlib.import_module("adjoint.utils.swapping").swap_tensors
    raise AttributeError(f"module 'adjoint.utils' has no attribute '{name}'")
