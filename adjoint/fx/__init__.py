"""Programs as graphs that Python can rewrite, as ``torch.fx`` has them: trace a module, change it, run it again."""

from __future__ import annotations

from .._paths import lead_to as _lead_to
from . import passes as passes
from .graph import CodeGen, Graph, PythonCode
from .graph_module import GraphModule
from .interpreter import Interpreter, Transformer
from .node import Node, has_side_effect, map_aggregate, map_arg
from .proxy import Attribute, Proxy, TraceError, TracerBase
from .rewriting import Match, replace_pattern
from .tracer import Tracer, symbolic_trace, wrap

__all__ = [
    "Attribute", "CodeGen", "Graph", "GraphModule", "Interpreter", "Match", "Node", "Proxy", "PythonCode", "TraceError",
    "Tracer", "TracerBase", "Transformer", "has_side_effect", "map_aggregate", "map_arg", "replace_pattern",
    "symbolic_trace", "wrap",
]  # fmt: skip

_lead_to(__name__, {"tracer": "_symbolic_trace", "rewriting": "subgraph_rewriter"})
