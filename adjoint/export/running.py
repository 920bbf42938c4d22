"""Running a program again: on other inputs, with the parameters and buffers that the caller gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..autograd.grad_mode import no_grad
from ..compiler.graph import Value
from ..core.nodes import wrap
from ..core.tensor import TensorBase
from ..ops.windows import RECIPES
from .constants import Generated
from .program import Program, is_step
from .sizes import Varying, evaluate

__all__ = ["run"]


def run(program: Program, state: Mapping[str, Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return what a program returns for these arguments; gradients flow to `state` and to the arguments."""
    leaves: list[Any] = []
    if not _flattened((args, kwargs), program.takes, leaves):
        raise ValueError(
            "Trying to flatten user inputs with exported input tree spec: their structure is another: the program was "
            f"exported for\n{program.takes}\nand is called with\n{tree.tree_structure((args, kwargs))}"
        )
    tensors = _bound(program, leaves)
    shapes = {v.number: tuple(t.shape) for v, t in tensors.items()}
    for name, value in program.state.items():
        tensors[value] = state[program.alike.get(name, name)] if name not in state else state[name]
        shapes[value.number] = tuple(tensors[value].shape)
    pending = dict(program.constants)
    for call in program.calls:
        _add_constants(pending, call.inputs, tensors, shapes)
        operands = [tensors[o] if isinstance(o, Value) else _now(o, shapes) for o in call.operands]
        params = [_now(p, shapes) for p in call.params]
        if is_step(call.op):
            found = call.op.function(*(o.array if isinstance(o, TensorBase) else o for o in operands), *params)
            results = tuple(wrap(np.asarray(a)) for a in (found if call.op.outputs else (found,)))
        else:
            found = call.op.call(*operands, *params)
            results = tuple(found) if call.op.outputs else (found,)
        for value, result in zip(call.outputs, results, strict=True):
            tensors[value] = result
            shapes[value.number] = tuple(result.shape)
    values = [*(o for o in program.outputs if isinstance(o, Value)), *(v for _, v in program.writes)]
    _add_constants(pending, values, tensors, shapes)
    outputs = [tensors[o] if isinstance(o, Value) else _now(o, shapes) for o in program.outputs]
    for target, value in program.writes:
        with no_grad():
            tensors[target].copy_(tensors[value])
    return program.returns.unflatten(outputs)


def _flattened(value: Any, spec: tree.TreeSpec, leaves: list[Any]) -> bool:
    """Take arguments apart as a structure says, dicts in its order of keys; return whether they have it."""
    if spec.is_leaf():
        leaves.append(value)
        return tree.tree_is_leaf(value)
    if spec.type is dict:
        if type(value) is not dict or set(value) != set(spec.context):
            return False
        children = [value[key] for key in spec.context]
    else:
        mine = tree.tree_structure(value)
        if mine.is_leaf() or mine.type is not spec.type or mine.num_children != spec.num_children:
            return False
        if mine.context != spec.context and not callable(mine.context):
            return False
        assert spec.node is not None
        children = list(spec.node.flatten(value)[0])
    return all(_flattened(v, s, leaves) for v, s in zip(children, spec.children_specs, strict=True))


def _bound(program: Program, leaves: Sequence[Any]) -> dict[Any, Any]:
    """Return the tensors among the arguments by their values, or raise for what the program is not for."""
    found: dict[Any, Any] = {}
    roots: dict[str, int] = {}
    number = 0
    for leaf, expected in zip(leaves, program.given, strict=True):
        if not isinstance(expected, Value):
            if leaf is not expected and not bool(leaf == expected):
                raise ValueError(
                    f"Guard failed: an argument was {expected!r} when the program was exported, and is {leaf!r}"
                )
            continue
        name, dims = program.input_names[number], program.dims[number]
        number += 1
        if not isinstance(leaf, TensorBase):
            raise ValueError(f"Guard failed: {name} was a tensor when the program was exported, and is {leaf!r:.40}")
        if leaf.array.dtype != expected.dtype:
            raise AssertionError(f"Guard failed: {name} is {leaf.array.dtype.name}, exported as {expected.dtype.name}")
        _check_sizes(program, name, expected, tuple(leaf.shape), dims, roots)  # type: ignore[attr-defined]
        found[expected] = leaf
    return found


def _check_sizes(program: Program, name: str, value: Value, shape: Any, dims: Any, roots: dict[str, int]) -> None:
    known = program.shapes[value]
    fits = len(shape) == len(known) and all(
        i in dims or n == m for i, (n, m) in enumerate(zip(shape, known, strict=True))
    )
    if not fits:
        sizes = [dims[i].__name__ if i in dims else n for i, n in enumerate(known)]
        raise AssertionError(
            f"Guard failed: {name}.size() == {sizes}, but got {list(shape)}: the program was exported for inputs of "
            "that size; say dynamic_shapes for others"
        )
    for axis, dim in dims.items():
        root, base = dim.root_of(shape[axis]), dim.root
        if root is None or (base.min is not None and root < base.min) or (base.max is not None and root > base.max):
            bounds = f"{base.min if base.min is not None else 0} to {base.max if base.max is not None else 'any'}"
            raise AssertionError(
                f"Guard failed: {name}.size()[{axis}] is {shape[axis]}, which is not {dim.__name__} of a "
                f"{base.__name__} from {bounds}"
            )
        if roots.setdefault(base.__name__, root) != root:
            raise AssertionError(
                f"Guard failed: {name}.size()[{axis}] is {shape[axis]}, but {base.__name__} is {roots[base.__name__]} "
                "in another input"
            )


def _add_constants(pending: dict[Any, Any], wanted: Sequence[Any], tensors: Any, shapes: Any) -> None:
    for value in wanted:
        if value in pending:
            constant = pending.pop(value)
            array = constant.array(lambda n: _now(n, shapes)) if isinstance(constant, Generated) else constant
            tensors[value] = wrap(array)
            shapes[value.number] = tuple(array.shape)


def _now(value: Any, shapes: Mapping[int, Any]) -> Any:
    """Return an operand or parameter with the sizes of this run."""
    if isinstance(value, Varying):
        said = value.expression
        if said is None:
            raise RuntimeError(
                f"a parameter was {', '.join(map(repr, value.values[:3]))} at different sizes of the dynamic axes, and "
                "how it follows from them is not known: export the program with these axes static"
            )
        if isinstance(said, tuple) and said[0] == "taps":
            return RECIPES[said[1]](*(_now(a, shapes) for a in said[2]))
        if isinstance(said, tuple) and said[0] == "float":
            return float(evaluate(said[1], shapes)) ** said[2]
        return evaluate(said, shapes)
    if type(value) is tuple:
        return tuple([_now(v, shapes) for v in value])
    if type(value) is list:
        return [_now(v, shapes) for v in value]
    if type(value) is slice:
        return slice(*[_now(v, shapes) for v in (value.start, value.stop, value.step)])
    return value
