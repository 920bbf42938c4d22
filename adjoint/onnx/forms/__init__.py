"""What each primitive is in ONNX."""

from . import elementwise, indexing, losses, orders, products, reductions, shapes, windows
from .table import FORMS, write

__all__ = ["FORMS", "write"]
