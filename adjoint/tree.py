"""Trees of containers: flattened into leaves and a structure, and rebuilt.

Tuples, lists, dicts, named tuples, deques and every class that was registered here are nodes, and so is
every class that the program has registered with optree, for all or in the namespace "adjoint"; anything else,
None included, is a leaf.
"""

from __future__ import annotations

import sys
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

PyTree = Any
Context = Any

__all__ = [
    "GetAttrKey", "LeafSpec", "MappingKey", "NodeDef", "PyTree", "SequenceKey", "TreeSpec", "broadcast_prefix",
    "key_get", "keystr", "register_dataclass", "register_pytree_node", "tree_all", "tree_all_only", "tree_any",
    "tree_any_only", "tree_flatten", "tree_flatten_with_path", "tree_is_leaf", "tree_iter", "tree_leaves",
    "tree_leaves_with_path", "tree_map", "tree_map_", "tree_map_only", "tree_map_only_", "tree_map_with_path",
    "tree_structure", "tree_unflatten",
]  # fmt: skip


class NodeDef(NamedTuple):
    """How nodes of one class come apart: `flatten` gives children and context, `unflatten` takes them."""

    flatten: Callable[[Any], tuple[Iterable[Any], Any]]
    unflatten: Callable[[Any, Any], Any]


class SequenceKey(NamedTuple):
    """The place of a child in a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, parent: Any) -> Any:
        """Return the child of `parent` at this place."""
        return parent[self.idx]


class MappingKey(NamedTuple):
    """The place of a child in a mapping."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, parent: Any) -> Any:
        """Return the child of `parent` at this place."""
        return parent[self.key]


class GetAttrKey(NamedTuple):
    """The place of a child that is an attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, parent: Any) -> Any:
        """Return the child of `parent` at this place."""
        return getattr(parent, self.name)


# --- Which classes are nodes ------------------------------------------------------------------------


def _is_namedtuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


# Named tuples, and the named results of ops, which take their fields as one sequence.
_NAMED = NodeDef(
    lambda t: (t, type(t)),
    lambda children, kind: kind(*children) if hasattr(kind, "_make") else kind(children),
)
_NODES: dict[type, NodeDef] = {
    tuple: NodeDef(lambda t: (t, None), lambda children, _: tuple(children)),
    list: NodeDef(lambda t: (t, None), lambda children, _: list(children)),
    dict: NodeDef(lambda t: (t.values(), list(t)), lambda children, keys: dict(zip(keys, children, strict=True))),
    OrderedDict: NodeDef(
        lambda t: (t.values(), list(t)), lambda children, keys: OrderedDict(zip(keys, children, strict=True))
    ),
    defaultdict: NodeDef(
        lambda t: (t.values(), [t.default_factory, list(t)]),
        lambda children, context: defaultdict(context[0], zip(context[1], children, strict=True)),
    ),
    deque: NodeDef(lambda t: (t, t.maxlen), lambda children, maxlen: deque(children, maxlen)),
}


def register_pytree_node(
    cls: type,
    flatten_fn: Callable[[Any], tuple[Iterable[Any], Any]],
    unflatten_fn: Callable[[Any, Any], Any],
    **names: Any,
) -> None:
    """Make a class a node: `flatten_fn` gives its children and a context, `unflatten_fn` takes them.

    Examples
    --------
    >>> from adjoint.tree import register_pytree_node, tree_leaves
    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda children, _: Pair(*children))
    >>> tree_leaves({"x": Pair(1, 2)})
    [1, 2]
    """
    if cls in _NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    _NODES[cls] = NodeDef(flatten_fn, unflatten_fn)


def register_dataclass(
    cls: type, *, field_names: list[str] | None = None, drop_field_names: list[str] | None = None, **names: Any
) -> None:
    """Make a dataclass a node whose children are its fields."""
    import dataclasses

    dropped = set(drop_field_names or ())
    fields = [f.name for f in dataclasses.fields(cls) if f.init and f.name not in dropped]
    wanted = fields if field_names is None else list(field_names)
    register_pytree_node(
        cls,
        lambda node: ([getattr(node, n) for n in wanted], wanted),
        lambda children, context: cls(**dict(zip(context, children, strict=True))),
    )


def _node_of(value: Any) -> NodeDef | None:
    """Return how a value comes apart, or None if it is a leaf."""
    kind = type(value)
    known = _NODES.get(kind)
    if known is not None:
        return known
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        return _NAMED
    optree: Any = sys.modules.get("optree")  # only a program that has imported it can have registered a class
    if optree is None or optree.tree_is_leaf(value, none_is_leaf=True, namespace="adjoint"):
        return None
    return NodeDef(_flattened_by_optree, lambda children, entry: entry(children))


def _flattened_by_optree(value: Any) -> tuple[Any, Any]:
    optree: Any = sys.modules["optree"]
    children, spec = optree.tree_flatten(value, lambda x: x is not value, none_is_leaf=True, namespace="adjoint")
    return children, spec.unflatten


def tree_is_leaf(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Return whether a value is a leaf, not a container."""
    return (is_leaf is not None and is_leaf(tree)) or _node_of(tree) is None


# --- Structure --------------------------------------------------------------------------------------


class TreeSpec:
    """The structure of a tree: the class, context and structures of the children of every node."""

    __slots__ = ("children_specs", "context", "node", "num_leaves", "type")

    def __init__(self, type: Any, context: Any, children_specs: list[TreeSpec], node: NodeDef | None = None) -> None:
        self.type, self.context, self.children_specs = type, context, children_specs
        self.node = node
        self.num_leaves: int = sum(c.num_leaves for c in children_specs)

    @property
    def num_nodes(self) -> int:
        """How many nodes and leaves there are."""
        return 1 + sum(c.num_nodes for c in self.children_specs)

    @property
    def num_children(self) -> int:
        """How many children the root has."""
        return len(self.children_specs)

    def is_leaf(self) -> bool:
        """Return whether the tree is one leaf."""
        return False

    def children(self) -> list[TreeSpec]:
        """Return the structures of the children."""
        return list(self.children_specs)

    def child(self, index: int) -> TreeSpec:
        """Return the structure of one child."""
        return self.children_specs[index]

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """Return the tree of this structure with these leaves."""
        leaves = leaves if isinstance(leaves, list | tuple) else list(leaves)
        if len(leaves) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(leaves)} but the spec refers to a pytree "
                f"that holds {self.num_leaves} items ({self})."
            )
        return self._grown(iter(leaves))

    def _grown(self, leaves: Iterator[Any]) -> Any:
        children = [c._grown(leaves) for c in self.children_specs]
        node = self.node or _NODES.get(self.type, _NAMED)
        return node.unflatten(children, self.context)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """Return the subtrees of `tree` at the places of this structure's leaves."""
        node = _node_of(tree)
        if node is None or (type(tree) is not self.type and self.type not in (None, type(tree))):
            raise ValueError(f"Node type mismatch; expected {self.type!r}, but got {type(tree)!r}.")
        children, _ = node.flatten(tree)
        children = list(children)
        if len(children) != self.num_children:
            raise ValueError(f"Node arity mismatch; expected {self.num_children}, but got {len(children)}.")
        return [leaf for spec, child in zip(self.children_specs, children) for leaf in spec.flatten_up_to(child)]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, TreeSpec)
            and self.type is other.type
            and (self.context == other.context or callable(self.context))
            and self.children_specs == other.children_specs
        )

    def __hash__(self) -> int:
        return hash((self.type, tuple(self.children_specs)))

    def __repr__(self) -> str:
        return f"TreeSpec({self.type.__name__}, {self.context}, {self.children_specs})"


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(None, None, [])
        self.num_leaves = 1

    def is_leaf(self) -> bool:
        """Return True."""
        return True

    def _grown(self, leaves: Iterator[Any]) -> Any:
        return next(leaves)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """Return the tree itself: here the structure ends."""
        return [tree]

    def __repr__(self) -> str:
        return "*"


LEAF = LeafSpec()


def tree_flatten(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """Take a tree apart into its leaves, in order, and its structure.

    Examples
    --------
    >>> from adjoint.tree import tree_flatten
    >>> tree_flatten({"a": (1, 2), "b": [3]})
    ([1, 2, 3], TreeSpec(dict, ['a', 'b'], [TreeSpec(tuple, None, [*, *]), TreeSpec(list, None, [*])]))
    """
    leaves: list[Any] = []
    return leaves, _collect(tree, leaves, is_leaf)


def _collect(tree: Any, leaves: list[Any], is_leaf: Callable[[Any], bool] | None) -> TreeSpec:
    node = None if is_leaf is not None and is_leaf(tree) else _node_of(tree)
    if node is None:
        leaves.append(tree)
        return LEAF
    children, context = node.flatten(tree)
    return TreeSpec(type(tree), context, [_collect(c, leaves, is_leaf) for c in children], node)


def tree_unflatten(leaves: Any, treespec: Any) -> PyTree:
    """Put a tree together from its leaves and its structure."""
    if isinstance(leaves, TreeSpec):  # optree's order of arguments
        leaves, treespec = treespec, leaves
    return treespec.unflatten(leaves)


def tree_leaves(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """Return the leaves of a tree, in order."""
    return tree_flatten(tree, is_leaf)[0]


def tree_iter(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> Iterator[Any]:
    """Go through the leaves of a tree, in order."""
    return iter(tree_leaves(tree, is_leaf))


def tree_structure(tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """Return the structure of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: Callable[[Any], bool] | None = None
) -> PyTree:
    """Return a tree of what `func` makes of each leaf, with the same places of the other trees beside it.

    Examples
    --------
    >>> from adjoint.tree import tree_map
    >>> tree_map(lambda x, y: x + y, {"a": 1, "b": (2,)}, {"a": 10, "b": (20,)})
    {'a': 11, 'b': (22,)}
    """
    leaves, spec = tree_flatten(tree, is_leaf)
    others = [spec.flatten_up_to(r) for r in rests]
    return spec.unflatten([func(*parts) for parts in zip(leaves, *others, strict=True)])


def tree_map_(
    func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: Callable[[Any], bool] | None = None
) -> PyTree:
    """Call `func` on each leaf for what it does, and return the tree itself."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _chosen(types: Any) -> Callable[[Any], bool]:
    if callable(types) and not isinstance(types, type):
        return types  # type: ignore[no-any-return]
    return lambda x: isinstance(x, types)


def tree_map_only(types: Any, func: Any = None, tree: PyTree = None, *rests: Any, **options: Any) -> PyTree:
    """Return the tree with `func` applied to the leaves of certain types (or that a predicate chooses)."""
    wanted = _chosen(types)
    return tree_map(lambda x: func(x) if wanted(x) else x, tree, *rests, **options)


def tree_map_only_(types: Any, func: Any = None, tree: PyTree = None, *rests: Any, **options: Any) -> PyTree:
    """Call `func` on the leaves of certain types for what it does, and return the tree itself."""
    tree_map_only(types, func, tree, *rests, **options)
    return tree


def tree_all(pred: Callable[[Any], bool], tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Return whether `pred` holds for every leaf."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: PyTree, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Return whether `pred` holds for some leaf."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(types: Any, pred: Callable[[Any], bool], tree: PyTree, is_leaf: Any = None) -> bool:
    """Return whether `pred` holds for every leaf of certain types."""
    wanted = _chosen(types)
    return all(pred(x) for x in tree_iter(tree, is_leaf) if wanted(x))


def tree_any_only(types: Any, pred: Callable[[Any], bool], tree: PyTree, is_leaf: Any = None) -> bool:
    """Return whether `pred` holds for some leaf of certain types."""
    wanted = _chosen(types)
    return any(pred(x) for x in tree_iter(tree, is_leaf) if wanted(x))


_MAPPINGS = (dict, OrderedDict, defaultdict)


def broadcast_prefix(prefix: PyTree, spec: TreeSpec, is_leaf: Callable[[Any], bool] | None = None) -> list[Any] | None:
    """Return one leaf of `prefix` per leaf of `spec`, a leaf standing for all below it; None if it does not fit."""
    node = None if is_leaf is not None and is_leaf(prefix) else _node_of(prefix)
    if node is None:
        return [prefix] * spec.num_leaves
    children, context = node.flatten(prefix)
    children = list(children)
    if type(prefix) in _MAPPINGS and spec.type in _MAPPINGS:  # keys matter, not the kind of mapping nor their order
        keys = spec.context[1] if spec.type is defaultdict else spec.context
        if set(keys) != set(prefix):
            return None
        children = [prefix[key] for key in keys]
    elif type(prefix) is not spec.type or len(children) != spec.num_children or context != spec.context:
        return None
    spread: list[Any] = []
    for child, below in zip(children, spec.children_specs):
        part = broadcast_prefix(child, below, is_leaf)
        if part is None:
            return None
        spread += part
    return spread


# --- Places -----------------------------------------------------------------------------------------


def _keys(tree: Any, count: int) -> list[Any]:
    if isinstance(tree, dict):
        return [MappingKey(k) for k in tree]
    if _is_namedtuple(type(tree)):
        return [GetAttrKey(n) for n in tree._fields]
    return [SequenceKey(i) for i in range(count)]


def tree_flatten_with_path(
    tree: PyTree, is_leaf: Callable[[Any], bool] | None = None
) -> tuple[list[tuple[tuple[Any, ...], Any]], TreeSpec]:
    """Take a tree apart into (place, leaf) pairs and its structure."""
    found: list[tuple[tuple[Any, ...], Any]] = []

    def visit(value: Any, path: tuple[Any, ...]) -> None:
        node = None if is_leaf is not None and is_leaf(value) else _node_of(value)
        if node is None:
            found.append((path, value))
            return
        children = list(node.flatten(value)[0])
        for key, child in zip(_keys(value, len(children)), children, strict=True):
            visit(child, (*path, key))

    visit(tree, ())
    return found, tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree: PyTree, is_leaf: Any = None) -> list[tuple[tuple[Any, ...], Any]]:
    """Return the (place, leaf) pairs of a tree."""
    return tree_flatten_with_path(tree, is_leaf)[0]


def tree_map_with_path(func: Callable[..., Any], tree: PyTree, *rests: PyTree, is_leaf: Any = None) -> PyTree:
    """Return a tree of what ``func(place, leaf, ...)`` makes of each leaf."""
    found, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(r) for r in rests]
    return spec.unflatten([func(path, leaf, *more) for (path, leaf), *more in zip(found, *others, strict=True)])


def keystr(kp: tuple[Any, ...]) -> str:
    """Return a path as text: ``['a'][0].weight``."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: tuple[Any, ...]) -> Any:
    """Return what is at a place in a tree."""
    for key in kp:
        obj = key.get(obj)
    return obj
