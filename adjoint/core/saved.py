"""What nodes save, as programs see it: ``_saved_NAME``, hooks that pack and unpack it, what may not be saved."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .._typing import Kernel, Op
from . import modes
from .nodes import Freed, Node, Own, Packed, as_recorded, form_of, lift_one, saved_arrays, unpacked, verify_saved, wrap
from .payload import is_captured
from .shown import is_one_of_many, views_of
from .tensor import InferenceStorage, TensorBase

ndarray = np.ndarray


def saved_properties(op: Op, titles: Mapping[str, str]) -> dict[str, Any]:
    """Return the attributes `_saved_NAME` of an op's nodes, one for each value that its rules may save."""
    names, found = op.saves.names(op.inputs, op.params), {}
    for index in sorted({i for indexes in op.saves.indexes for i in indexes}):
        title = titles.get(names[index], names[index])
        if is_one_of_many(names[index]):
            continue
        found[f"_saved_{title}"] = property(functools.partial(saved_value, index=index))
        if index <= len(op.inputs):
            found[f"_raw_saved_{title}"] = property(functools.partial(_raw_saved, index=index))
    for title, view in views_of(op).items():
        found.pop(f"_saved_{title}", None)
        if view is not None:
            found[f"_saved_{title}"] = property(functools.partial(_viewed, view=view))
    return found


def _viewed(node: Node, view: Kernel) -> object:
    """Return something that a node shows of what it saves, or of the form of its output."""
    op, form = node.op, form_of(node)
    names = op.saves.names(op.inputs, op.params)
    value = view(lambda name: saved_value(node, names.index(name)) if name in names else None, form and form.shape)
    if type(value) is tuple:
        return tuple(wrap(v) if type(v) is ndarray else v for v in value)
    return wrap(value) if type(value) is ndarray else value


def saved_value(node: Node, index: int) -> object:
    """Return what a node has saved of the value at a position of its environment, as the tensor it was."""
    verify_saved(node, node.saved, index)
    saved = unpacked(node)
    for of_rule, indexes in zip(saved, node.op.saves.indexes, strict=True):
        if of_rule is not None and index in indexes:
            value = of_rule if len(indexes) == 1 else of_rule[indexes.index(index)]
            leaf = getattr(node.edges[index], "variable", None) if index < len(node.edges) else None
            return leaf if leaf is not None and leaf.array is value else lift_one(node, value, index)
    return None


def saved_parameter(node: Node, name: str) -> object:
    """Return a parameter that a node saves; None if it does not, or not any more."""
    names = node.op.saves.names(node.op.inputs, node.op.params)
    for of_rule, indexes in zip(node.saved, node.op.saves.indexes, strict=True) if type(node.saved) is tuple else ():
        if names.index(name) in indexes:
            return of_rule if len(indexes) == 1 else of_rule[indexes.index(names.index(name))]
    return None


def check_hooks(pack_hook: object, unpack_hook: object, where: str = "register_hooks") -> None:
    """Raise unless both hooks can be called."""
    if not callable(pack_hook) or not callable(unpack_hook):
        raise TypeError(f"{where}(): incompatible function arguments. Both hooks must be callable")


def freed_hooks_error() -> RuntimeError:
    """Return the error for hooks that come after their tensor was freed."""
    return RuntimeError(
        "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values of the graph are "
        "freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through "
        "the graph a second time or if you need to access saved variables after calling backward."
    )


def saved_input(node: Node, index: int) -> object:
    """Return an input that a node saves, as the tensor it was; None if it does not save it."""
    recorded = as_recorded(node)
    if recorded is node:
        return saved_value(node, index)
    recorded.saved = node.saved
    try:
        return saved_value(recorded, index)
    finally:
        recorded.saved = None


class SavedTensor:
    """One saved value of a node, on which pack and unpack hooks can be registered."""

    __slots__ = ("index", "node")

    def __init__(self, node: Node | None = None, index: int = 0) -> None:
        if node is None:
            raise RuntimeError("Trying to create a SavedTensor object from Python is forbidden: nodes have them")
        self.node, self.index = node, index

    @property
    def data(self) -> Any:
        """What is stored: what a pack hook has made of the value, or the value itself."""
        saved = self.node.saved
        if type(saved) is Packed and self.index in saved.entries:
            return saved.entries[self.index][0]
        return saved_value(self.node, self.index)

    @property
    def unpack_hook(self) -> Callable[[Any], Any] | None:
        """The hook that restores the value, if it has one."""
        saved = self.node.saved
        return saved.entries[self.index][1] if type(saved) is Packed and self.index in saved.entries else None

    def register_hooks(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        """Store what `pack_hook` makes of the value, and let `unpack_hook` restore it."""
        check_hooks(pack_hook, unpack_hook)
        if type(self.node.saved) is Freed:
            raise freed_hooks_error()
        if type(self.node.saved) is Packed and self.index in self.node.saved.entries:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of "
                "hooks is allowed at a time."
            )
        if saved_value(self.node, self.index) is None:
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")
        pack(self.node, pack_hook, unpack_hook, (), self.index)


def _raw_saved(node: Node, index: int) -> SavedTensor:
    if type(node.saved) is not Freed:
        unpacked(node)
    return SavedTensor(node, index)


def refuse_inference(node: Node, inputs: Sequence[Any]) -> None:
    """Raise if the node saves one of its inputs that was made in inference mode; transforms take any tensor."""
    made = [i for i, x in enumerate(inputs) if type(getattr(x, "memory", None)) is InferenceStorage]
    only_for = node.op.saves.only_for
    for position, _ in saved_arrays(node, node.saved) if made else ():
        if position in made and (position not in only_for or node.edges[only_for[position]] is not None):
            if not is_captured(inputs[position]):
                raise RuntimeError(
                    "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference "
                    "mode in computation tracked by autograd. To work around this, you can make a clone to get normal "
                    "tensor and use it in autograd, or use `adjoint.no_grad()` instead of `adjoint.inference_mode()`."
                )


def pack(
    node: Node, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any], owned: Sequence[Any], only: int = -1
) -> None:
    """Pass what the node saves of tensors through `pack_hook` now and `unpack_hook` when it is needed.

    `owned` are the inputs that are tensors, None for others; `only` is the position of one value to pack.
    """
    arity = len(node.edges)
    made = node.saved if type(node.saved) is Packed else Packed(node.saved, node.op.saves.indexes)

    def store(value: Any, index: int) -> object:
        if index in made.entries or index > arity or not hasattr(value, "dtype") or only not in (-1, index):
            return value
        tensor = owned[index] if index < arity and owned else None
        if index < arity and owned and tensor is None:
            return value
        if tensor is None or tensor.array is not value:
            tensor = lift_one(node, value, index)
        result = packed_by(pack_hook, tensor)
        if isinstance(result, TensorBase) and result.array is value:
            made.watched[index] = value
        if result is tensor and index == arity:
            result = Own(tensor, node)
        made.entries[index] = result, unpack_hook
        return index

    made.saved = made.mapped(store)
    node.saved = made


def packed_by(pack_hook: Callable[[Any], Any], tensor: Any) -> Any:
    """Return what a pack hook makes of a tensor, which it must not write to."""
    ledger = None if tensor.memory is None else tensor.memory.ledger
    before = 0 if ledger is None else ledger.version
    local = modes.local
    hooks, grad = local.pack_hooks, local.grad
    local.pack_hooks, modes.off[local.key], local.grad = (), None, False
    try:
        result = pack_hook(tensor)
    finally:  # by stores: see modes.py
        local.pack_hooks, modes.off[local.key], local.grad = hooks, None, grad
        if grad:
            del modes.off[local.key]
    ledger = None if tensor.memory is None else tensor.memory.ledger
    if ledger is not None and ledger.version != before:
        raise RuntimeError(
            "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook "
            "cannot be modified by in-place operations as this can lead to unexpected side-effects; write to a copy "
            "(tensor.clone())."
        )
    return result
