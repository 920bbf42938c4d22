"""Objects that hold tensors, among the arguments and results of compiled functions: flattening and rebuilding.

`adjoint.tree` knows containers and registered classes. Here an object of any class comes apart into what it holds, if
a tensor is in it: dataclasses, mappings and lists with classes of their own, as `ModelOutput` is, caches. A result is
made again without calling its class: a new object of the class gets the same attributes, items and slots.
"""

from __future__ import annotations

import dataclasses
import enum
import types
from collections import OrderedDict, UserDict
from collections.abc import Callable, Iterator
from typing import Any

from ..core.tensor import TensorBase
from ..tree import LEAF, TreeSpec, tree_flatten, tree_is_leaf

_MISSING = object()
_LEAVES = (
    TensorBase, type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, enum.Enum,
    bool, int, float, complex, str, bytes, type(None), BaseException, types.CodeType,
)  # fmt: skip
_SOLID = (OrderedDict, dict, list)


class Leaves:
    """Leaves that a tree is made of, and the objects that have been made so far: a later place may have one again."""

    def __init__(self, leaves: Any) -> None:
        self.leaves, self.made = iter(leaves), list[Any]()

    def __next__(self) -> Any:
        return next(self.leaves)

    def __iter__(self) -> Iterator[Any]:
        return self


class ObjectSpec(TreeSpec):
    """The structure of an object: its keys, how many items, its attributes and slots, and what they hold."""

    __slots__ = ()

    def _grown(self, leaves: Any) -> Any:
        keys, count, names, slots = self.context
        kind = self.type
        base = next((b for b in _SOLID if issubclass(kind, b)), object)
        made = base.__new__(kind)
        leaves.made.append(made)
        children = iter([c._grown(leaves) for c in self.children_specs])
        for key in keys:
            base.__setitem__(made, key, next(children))  # type: ignore[attr-defined, index]
        if count:
            list.extend(made, [next(children) for _ in range(count)])  # type: ignore[arg-type]
        if names:
            object.__getattribute__(made, "__dict__").update(zip(names, children))
        for slot in slots:
            object.__setattr__(made, slot, next(children))
        return made


class AgainSpec(TreeSpec):
    """A place that has an object of an earlier one."""

    __slots__ = ()

    def _grown(self, leaves: Any) -> Any:
        return leaves.made[self.context]


class RootSpec(TreeSpec):
    """The structure of a tree with objects in it."""

    __slots__ = ()

    def unflatten(self, leaves: Any) -> Any:
        """Return the tree of this structure with these leaves."""
        return self.children_specs[0]._grown(Leaves(leaves))

    def _grown(self, leaves: Any) -> Any:
        return self.children_specs[0]._grown(leaves)


def flatten_result(tree: Any, known: set[int]) -> tuple[list[Any], TreeSpec]:
    """Take a result apart, objects with tensors in them included but those that were there before (by `id`)."""
    return _flattened(tree, lambda value: id(value) not in known and _comes_apart(value))


def flatten_arguments(tree: Any) -> tuple[list[Any], TreeSpec]:
    """Take arguments apart, dataclasses and containers of other classes with tensors in them included."""
    return _flattened(tree, lambda value: _is_record(value) and _comes_apart(value))


def _flattened(tree: Any, opens: Callable[[Any], bool]) -> tuple[list[Any], TreeSpec]:
    leaves, spec = tree_flatten(tree)
    if not any(opens(leaf) for leaf in leaves if not isinstance(leaf, _LEAVES)):
        return leaves, spec
    found: list[Any] = []
    made = _Walk(opens)
    inner = made.collect(tree, found)
    return (found, RootSpec(None, None, [inner])) if made.numbers else (leaves, spec)


class _Walk:
    """One walk over a tree: the objects found so far, by identity."""

    def __init__(self, opens: Callable[[Any], bool]) -> None:
        self.opens = opens
        self.numbers: dict[int, int] = {}  # the order in which objects are made
        self.held: list[Any] = []  # so that no other object gets their identity

    def collect(self, value: Any, leaves: list[Any]) -> TreeSpec:
        """Add the leaves of a value, and return its structure."""
        if isinstance(value, _LEAVES):
            leaves.append(value)
            return LEAF
        if id(value) in self.numbers:
            return AgainSpec(None, self.numbers[id(value)], [])
        if not tree_is_leaf(value):
            parts: list[Any] = []
            children, spec = tree_flatten(value, lambda x: x is not value)
            specs = [self.collect(child, parts) for child in children]
            leaves += parts
            return TreeSpec(spec.type, spec.context, specs, spec.node)
        if not self.opens(value) or not holds_tensor(value, set()):
            leaves.append(value)
            return LEAF
        self.numbers[id(value)] = len(self.numbers)
        self.held.append(value)
        held, context = _contents(value)
        return ObjectSpec(type(value), context, [self.collect(child, leaves) for child in held])


def _contents(value: Any) -> tuple[list[Any], Any]:
    """Return what an object holds, and by which keys, how many items, which names and slots."""
    base = next((b for b in _SOLID if isinstance(value, b)), object)
    keys = list(base.keys(value)) if base in (OrderedDict, dict) else []  # type: ignore[attr-defined]
    items = [dict.__getitem__(value, k) for k in keys] if keys else list(list.__iter__(value)) if base is list else []
    count = len(items) if base is list else 0
    attributes = getattr(value, "__dict__", {})
    slots = [s for s in _slots_of(type(value)) if getattr(value, s, _MISSING) is not _MISSING]
    held = [*items, *attributes.values(), *(getattr(value, s) for s in slots)]
    return held, (keys, count, list(attributes), slots)


def _slots_of(kind: type) -> list[str]:
    found = [vars(base).get("__slots__", ()) for base in kind.__mro__ if base not in _SOLID]
    names = [s for slots in found for s in ((slots,) if isinstance(slots, str) else slots)]
    return [s for s in names if not s.startswith("__")]


def holds_tensor(value: Any, seen: set[int]) -> bool:
    """Return whether a tensor is somewhere in what an object holds."""
    if isinstance(value, TensorBase):
        return True
    if isinstance(value, _LEAVES) or id(value) in seen:
        return False
    seen.add(id(value))
    if not tree_is_leaf(value):
        return any(holds_tensor(leaf, seen) for leaf in tree_flatten(value)[0])
    return _comes_apart(value) and any(holds_tensor(child, seen) for child in _contents(value)[0])


def _is_record(value: Any) -> bool:
    return isinstance(value, (dict, list, UserDict)) or dataclasses.is_dataclass(value)


def _comes_apart(value: Any) -> bool:
    """Return whether an object of the same class can be made, and has no life of its own as a module has."""
    kind = type(value)
    if isinstance(value, _LEAVES) or hasattr(kind, "_parameters") or hasattr(value, "param_groups"):
        return False
    if getattr(value, "_parameters", None) is not None or hasattr(kind, "__next__") or callable(value):
        return False
    if not (hasattr(value, "__dict__") or _slots_of(kind) or isinstance(value, _SOLID)):
        return False
    base = next((b for b in _SOLID if issubclass(kind, b)), object)
    try:
        base.__new__(kind)
    except TypeError:  # made by a library in C, in a way of its own
        return False
    return True
