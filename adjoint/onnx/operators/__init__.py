"""What each of ONNX's operators computes."""

from . import elementwise, networks, shapes
from .table import OPERATORS, Context

__all__ = ["OPERATORS", "Context"]
