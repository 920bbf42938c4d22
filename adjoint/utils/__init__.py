"""Tools beside the tensors: hooks."""

from __future__ import annotations

from . import hooks

__all__ = ["hooks"]
