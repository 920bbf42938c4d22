"""Neural networks: parameters so far."""

from __future__ import annotations

from . import functional, parameter
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "functional", "parameter"]
