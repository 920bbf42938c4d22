"""Neural networks: parameters so far."""

from __future__ import annotations

from . import parameter
from .parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "parameter"]
