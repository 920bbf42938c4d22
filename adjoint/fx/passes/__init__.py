"""What is done with a whole graph."""

from . import shape_prop

__all__ = ["shape_prop"]
