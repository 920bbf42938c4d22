"""Pictures of the graph behind a loss: a page to look around in, and DOT text."""

from .drawing import dot, graph

__all__ = ["dot", "graph"]
