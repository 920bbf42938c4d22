"""OPERATORS: what each of ONNX's operators computes, one row for each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.nodes import wrap
from ...core.tensor import TensorBase
from ..reading import ModelError

__all__ = ["OPERATORS", "Context", "constant", "ints", "operator"]

# Called with a `Context`, the inputs (None for one left out), and the attributes by name.
OPERATORS: dict[str, Callable[..., Any]] = {}


class Context:
    """What an operator may need besides its inputs: the module, the version of the operators, the node being run."""

    def __init__(self, module: Any, opset: int, most_bytes: int) -> None:
        self.module, self.opset, self.most_bytes = module, opset, most_bytes
        self.node: Any = None
        self.values: dict[str, Any] = {}

    def allow(self, shape: Sequence[int], itemsize: int = 4) -> tuple[int, ...]:
        """Return a shape that a model contains; raise if it is negative or too large."""
        sizes = tuple(int(n) for n in shape)
        if any(n < 0 for n in sizes) or math.prod(sizes) * itemsize > self.most_bytes:
            raise ModelError(
                f"{self.node.op} {self.node.name!r} needs a tensor of the shape {list(sizes)[:8]}: more than "
                f"{self.most_bytes} bytes (load's most_bytes), or impossible"
            )
        return sizes


def operator(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function into the table, for the operators of these names."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            OPERATORS[name] = function
        return function

    return enter


def ints(tensor: Any) -> list[int]:
    """Return the elements of a tensor of integers."""
    return [int(n) for n in np.asarray(tensor.array).reshape(-1)] if isinstance(tensor, TensorBase) else list(tensor)


def constant(value: Any, dtype: Any = None) -> Any:
    """Return a tensor of numbers."""
    return wrap(np.array(value, dtype))
