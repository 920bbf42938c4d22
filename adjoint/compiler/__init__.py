"""Programs as lists of primitives: capture a run, read the list, run it again, compile it."""

from .capture import Captured, CaptureError, capture
from .compiled import Compiled, compile
from .explaining import Explanation, explain
from .graph import GUARD, WRITE, Effect, Graph, GuardFailure, Line, Reference, Step, Value
from .questions import (
    allow_in_graph,
    assume_constant_result,
    cudagraph_mark_step_begin,
    disable,
    is_compiling,
    is_dynamo_compiling,
    is_exporting,
    list_backends,
    reset,
)

__all__ = [
    "GUARD",
    "WRITE",
    "CaptureError",
    "Captured",
    "Compiled",
    "Effect",
    "Explanation",
    "Graph",
    "GuardFailure",
    "Line",
    "Reference",
    "Step",
    "Value",
    "allow_in_graph",
    "assume_constant_result",
    "capture",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "explain",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "reset",
]
