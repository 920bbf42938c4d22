"""`load`: an ONNX model as a module that runs and trains."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from functools import cache
from typing import Any

import numpy as np

from ..core.nodes import wrap
from ..core.tensor import TensorBase
from ..nn.modules.module import Module
from ..nn.parameter import Buffer, Parameter
from .operators import OPERATORS, Context
from .reading import ModelError, NodeSpec, Parsed, parsed

__all__ = ["OnnxModule", "load"]

_MOST_BYTES = 1 << 34  # of one result
# Inputs that are no weights to be trained: running statistics, and where sampling takes place.
_FIXED = {"BatchNormalization": (3, 4), "Resize": (1, 2, 3), "Clip": (1, 2), "Upsample": (1,), "Pad": (2,)}


class OnnxModule(Module):
    """A model read from ONNX: weights are parameters, and calling it runs the graph.

    Attributes
    ----------
    input_names, output_names
        What the inputs and outputs go by; inputs are given in this order, or by keyword.
    """

    def __init__(self, graph: Parsed, most_bytes: int = _MOST_BYTES) -> None:
        super().__init__()
        self.__dict__["_graph"], self.__dict__["_context"] = graph, Context(self, graph.opset, most_bytes)
        self.input_names, self.output_names = [name for name, *_ in graph.inputs], list(graph.outputs)
        fixed = {
            node.inputs[i] for node in graph.nodes for i in _FIXED.get(node.op, ()) if i < len(node.inputs)
        }  # fmt: skip
        self.__dict__["_places"] = {}
        for name, array in graph.weights.items():
            tensor = wrap(np.array(array))
            trains = array.dtype.kind == "f" and array.size > 1 and array.ndim and name not in fixed
            self._register(name, Parameter(tensor) if trains else Buffer(tensor))
        self.__dict__["_last"] = _last_uses(graph)
        graph.weights.clear()

    def _register(self, name: str, tensor: Any) -> None:
        """Put a weight into the tree of modules that its name says."""
        home: Module = self
        *path, last = [part or "_" for part in name.replace("/", ".").split(".")]
        for part in path:
            child = home._modules.get(part)
            if child is None:
                if hasattr(home, part):
                    part += "_"
                    child = home._modules.get(part)
                if child is None:
                    child = Module()
                    home.add_module(part, child)
            home = child
        while hasattr(home, last):
            last += "_"
        setattr(home, last, tensor)
        self.__dict__["_places"][name] = (home, last)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Run the graph; one output is returned as it is, several as a tuple."""
        graph: Parsed = self.__dict__["_graph"]
        values = self._bound(args, kwargs)
        values.update({name: getattr(home, last) for name, (home, last) in self.__dict__["_places"].items()})
        run_graph(self.__dict__["_context"], graph, values, self.__dict__["_last"])
        found = tuple(values[name] for name in graph.outputs)
        return found[0] if len(found) == 1 else found

    def _bound(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        given = {**dict(zip(self.input_names, args, strict=False)), **kwargs}
        if len(args) > len(self.input_names) or set(given) != set(self.input_names):
            raise TypeError(f"the model takes {self.input_names}, and was given {len(args)} values and {list(kwargs)}")
        graph: Parsed = self.__dict__["_graph"]
        sizes: dict[str, int] = {}
        for name, dtype, shape in graph.inputs:
            value = given[name]
            if not isinstance(value, TensorBase):
                raise TypeError(f"the input {name!r} must be a tensor, not {type(value).__name__}")
            if dtype is not None and value.array.dtype != dtype:
                raise TypeError(
                    f"the input {name!r} is {dtype.name}, not {value.array.dtype.name}: convert it with .to()"
                )
            _check_shape(name, tuple(value.array.shape), shape, sizes)
        return given


def _check_shape(name: str, found: tuple[int, ...], said: list[Any] | None, sizes: dict[str, int]) -> None:
    if said is None:
        return
    fits = len(found) == len(said) and all(
        n == s if isinstance(s, int) else s is None or sizes.setdefault(s, n) == n
        for n, s in zip(found, said, strict=True)
    )
    if not fits:
        raise ValueError(f"the input {name!r} has the shape {list(found)}, the model takes {said}")


def _last_uses(graph: Parsed) -> list[list[str]]:
    """Return, for each node, the values that nothing needs after it."""
    kept = {*graph.outputs, *graph.weights}
    seen: set[str] = set(kept)
    last: list[list[str]] = []
    for node in reversed(graph.nodes):
        names = {n for n in (*_names(node), *node.outputs) if n}
        last.append(sorted(names - seen))
        seen |= names
    return last[::-1]


def _names(node: NodeSpec) -> list[str]:
    inner = [v for v in node.attributes.values() if isinstance(v, Parsed)]
    used = [n for graph in inner for each in graph.nodes for n in _names(each)]
    return [*node.inputs, *used, *(n for graph in inner for n in graph.outputs)]


def run_graph(context: Context, graph: Parsed, values: dict[str, Any], last: list[list[str]] | None) -> None:
    """Run the nodes of a graph, which adds their results to `values`."""
    for at, node in enumerate(graph.nodes):
        operator = OPERATORS[node.op]
        given = [values[name] if name else None for name in node.inputs]
        context.node, context.values = node, values
        try:
            found = operator(context, *given, **node.attributes)
        except ModelError:
            raise
        except Exception as error:
            error.add_note(f"while running {node.op} {node.name!r} of an ONNX model")
            raise
        results = found if isinstance(found, tuple) else (found,)
        for name, result in zip(node.outputs, results, strict=False):
            if name:
                values[name] = result
        if last is not None:
            for name in last[at]:
                values.pop(name, None)


def load(f: str | os.PathLike[str] | bytes | Any, *, most_bytes: int = _MOST_BYTES) -> OnnxModule:
    """Return an ONNX model as a module.

    Weights that are floats of more than one element are parameters, so that the module trains; others are buffers.
    Everything in the file is checked before it is used, and nothing in it is run but the operators that
    [Deploy](../deploy.md) lists.

    Parameters
    ----------
    f
        A path, the bytes of a file, or an ``onnx.ModelProto``. Weights in a second file are read if it is beside the
        model.
    most_bytes
        A model that needs a larger result is stopped before that is allocated.

    Raises
    ------
    ModelError
        Where the file is damaged, inconsistent, hostile, or has an operator that is not run here.

    Examples
    --------
    >>> model = adjoint.nn.Sequential(adjoint.nn.Linear(2, 3), adjoint.nn.ReLU())
    >>> again = adjoint.onnx.load(adjoint.onnx.export(model, (adjoint.ones(1, 2),)).model_proto)
    >>> [name for name, _ in again.named_parameters()], again(adjoint.ones(1, 2)).shape
    (['0.weight', '0.bias'], adjoint.Size([1, 3]))
    """
    graph = parsed(f)
    _check_operators(graph)
    return OnnxModule(graph, most_bytes)


def _check_operators(graph: Parsed) -> None:
    for node in graph.nodes:
        if node.domain or node.op not in OPERATORS:
            name = f"{node.domain}.{node.op}" if node.domain else node.op
            raise ModelError(
                f"the operator {name} (node {node.name!r}) is not run here: docs/deploy.md lists those that are"
            )
        unknown = set(node.attributes) - _attributes_of(node.op)
        if unknown and None not in _attributes_of(node.op):
            raise ModelError(f"the attribute {sorted(unknown)[0]} of {node.op} (node {node.name!r}) is not run here")
        for value in node.attributes.values():
            if isinstance(value, Parsed):
                _check_operators(value)


@cache
def _attributes_of(name: str) -> frozenset[str | None]:
    """Return the names of an operator's parameters; None stands for any."""
    parameters = inspect.signature(OPERATORS[name]).parameters.values()
    return frozenset(None if p.kind is p.VAR_KEYWORD else p.name for p in parameters)
