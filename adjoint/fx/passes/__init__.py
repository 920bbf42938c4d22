"""Passes over a graph."""

from . import shape_prop

__all__ = ["shape_prop"]
