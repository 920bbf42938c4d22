"""Running a graph once to note at each node what it gives."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...core import layout
from ...core.dtypes import dtype as DType
from ...core.tensor import TensorBase
from ..interpreter import Interpreter
from ..node import Node, map_aggregate

__all__ = ["ShapeProp", "TensorMetadata"]

FORMATS = (layout.contiguous_format, layout.channels_last, layout.channels_last_3d)


class TensorMetadata(NamedTuple):
    """What a node's tensor is, without its elements."""

    shape: tuple[int, ...]
    dtype: DType
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any
    is_quantized: bool
    qparams: dict[str, Any]


def _describe(result: Any) -> Any:
    if not isinstance(result, TensorBase):
        return result
    tensor: Any = result
    order = next((f for f in FORMATS if tensor.is_contiguous(memory_format=f)), None)
    return TensorMetadata(tensor.shape, tensor.dtype, tensor.requires_grad, tensor.stride(), order, False, {})


def _any_tensor(result: Any) -> bool:
    found: list[bool] = []
    map_aggregate(result, lambda v: found.append(isinstance(v, TensorBase)))
    return any(found)


class ShapeProp(Interpreter):
    """Notes shape, dtype and layout of each node's tensors in ``node.meta["tensor_meta"]``.

    Examples
    --------
    >>> graph = adjoint.fx.symbolic_trace(adjoint.nn.Linear(3, 2))
    >>> _ = adjoint.fx.passes.shape_prop.ShapeProp(graph).propagate(adjoint.ones(5, 3))
    >>> [tuple(node.meta["tensor_meta"].shape) for node in graph.graph.nodes]
    [(5, 3), (2, 3), (2,), (5, 2), (5, 2)]
    """

    def run_node(self, n: Node) -> Any:
        """Run one node, and note what it gave."""
        result = super().run_node(n)
        if _any_tensor(result):
            n.meta["tensor_meta"] = map_aggregate(result, _describe)
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the whole graph on arguments."""
        return self.run(*args)
