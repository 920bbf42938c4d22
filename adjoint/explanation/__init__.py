"""Gradients that explain themselves: why one is None, zero, NaN or huge, in words and with the program's lines."""

from .answer import Explanation, explain
from .watching import Watch, watch

__all__ = ["Explanation", "Watch", "explain", "watch"]
