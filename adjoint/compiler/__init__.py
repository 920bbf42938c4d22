"""Programs as lists of primitives: capture one run, read it, run it again, build a compiler on it."""

from .capture import Captured, CaptureError, capture
from .compiled import Compiled, compile
from .explaining import Explanation, explain
from .graph import GUARD, WRITE, Effect, Graph, GuardFailure, Line, Reference, Step, Value

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
    "capture",
    "compile",
    "explain",
]
