"""Running a captured program again, line by line: the meaning of a graph, against which compiled code is checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._typing import Array
from ..autograd.grad_mode import no_grad
from ..core.nodes import wrap
from ..core.tensor import TensorBase, note_write
from ..tree import tree_unflatten
from .graph import GUARD, WRITE, Graph, GuardFailure, Line, Step, Value
from .objects import flatten_arguments


def replay(graph: Graph, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run `graph` on arguments."""
    if graph.escapes:
        raise GuardFailure(
            f"the captured run created tensors that the program stored: {'; '.join(graph.escapes[:3])}. Another run "
            "cannot store them. If they are state created on first use, as by an optimizer, run the program once "
            "before capturing it"
        )
    given = bind(graph, args, kwargs)
    tensors: dict[Value, Any] = {v: wrap(t.array) for v, t in given.items()}
    tensors.update({r.value: wrap(r.current.array) for r in graph.outside})
    tensors.update({v: wrap(v.array) for v in graph.constants})
    for reference in graph.outside:
        _check_like(reference.value, tensors[reference.value].array, "an outside tensor")
    writes = []
    with no_grad():
        for line in graph.lines:
            if line.op is WRITE:
                writes.append(line)
            elif line.op is GUARD:
                check_guard(line, tensors[line.operands[0]].array)
            else:
                run_line(line, tensors)
    return _leave(graph, given, tensors, writes)


def bind(graph: Graph, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[Value, Any]:
    """Return the tensor for each argument, or raise if the arguments are not those the graph was captured for."""
    leaves, spec = flatten_arguments((args, kwargs))
    if spec != graph.takes:
        raise GuardFailure(f"captured for arguments of the structure {graph.takes}, called with {spec}")
    given: dict[Value, Any] = {}
    for number, (leaf, expected) in enumerate(zip(leaves, graph.given, strict=True)):
        if isinstance(expected, Value):
            if not isinstance(leaf, TensorBase):
                raise GuardFailure(f"argument {number} was a tensor and is {type(leaf).__name__}")
            _check_like(expected, leaf.array, f"argument {number}")
            given[expected] = leaf
        elif leaf is not expected and not (type(leaf) is type(expected) and bool(leaf == expected)):
            raise GuardFailure(f"argument {number} was {expected!r} and is {leaf!r}")
    return given


def _check_like(value: Value, array: Array, what: str) -> None:
    if tuple(array.shape) != value.shape or array.dtype != value.dtype:
        raise GuardFailure(f"{what} ({value}) was {value.described} and is {array.dtype.name}{list(array.shape)}")


def check_guard(line: Line, array: Any) -> None:
    """Raise if Python would now read another value than in the captured run."""
    what, answer = line.params
    found = answer_of(array, what)
    if what == "elements":
        same = np.array_equal(found, answer, equal_nan=found.dtype.kind in "fc")
    else:
        same = found == answer or (found != found and answer != answer)
    if not same:
        raise GuardFailure(f"{what} of {line.operands[0]} was {answer!r} and is {found!r}, read at {line.place}")


def answer_of(array: Any, what: str) -> Any:
    """Return what Python reads of an array: a boolean, a number, its shape, or every element."""
    if what == "bool()":
        return bool(array)
    if what == "shape":
        return tuple(array.shape)
    if what == "elements":
        return array.copy() if isinstance(array, np.ndarray) else array.get()
    return array.item()


def run_line(line: Line, tensors: dict[Value, Any]) -> None:
    """Carry out a call, on tensors."""
    operands = [tensors[o] if isinstance(o, Value) else o for o in line.operands]
    if isinstance(line.op, Step):
        result = line.op.function(*(o.array if isinstance(o, TensorBase) else o for o in operands), *line.params)
    else:
        result = line.op.call(*operands, *line.params)
    for value, made in zip(line.outputs, result if line.op.outputs else (result,), strict=True):
        tensor = made if isinstance(made, TensorBase) else wrap(made)
        if tuple(tensor.array.shape) != value.shape:
            raise GuardFailure(
                f"{line.op.name} gave the shape {list(tensor.array.shape)}, and {list(value.shape)} when captured"
            )
        tensors[value] = tensor


def _leave(graph: Graph, given: dict[Value, Any], tensors: dict[Value, Any], writes: list[Line]) -> Any:
    """Put what was computed where it belongs, and return the outputs."""
    owners = {**given, **{r.value: r.current for r in graph.outside}}
    targets = [owners[line.operands[0]] for line in writes]

    def safe(value: Any) -> Any:
        """Return the array of a value, as a copy where a write is about to change it."""
        array = tensors[value].array
        shared = any(array is t.array or np.may_share_memory(array, t.array) for t in targets)
        return array.copy() if shared or value.kind != "result" else array

    sources = [safe(line.operands[1]) for line in writes]
    left = {v: safe(v) for v in graph.results if v not in owners}
    for target, source in zip(targets, sources, strict=True):
        target.array[...] = source
        note_write(target, "captured program")
    for effect in graph.effects:
        tensor = given[effect.target] if isinstance(effect.target, Value) else effect.target
        if effect.value is None:
            tensor._grad = None
        else:
            tensor._grad = owners[effect.value] if effect.value in owners else wrap(left[effect.value])
    made: dict[Value, Any] = {}
    outputs = []
    for i, o in enumerate(graph.outputs):
        if isinstance(o, Value):
            o = owners[o] if o in owners else made.setdefault(o, wrap(left[o]))
        outputs.append(o.array.item() if i in graph.numbers else o)
    assert graph.returns is not None
    return tree_unflatten(outputs, graph.returns)
