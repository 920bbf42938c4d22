"""Pictures: the graph behind a loss as a page or as DOT text, a tensor as an image or a histogram."""

from .drawing import dot, graph
from .showing import histogram, image

__all__ = ["dot", "graph", "histogram", "image"]
