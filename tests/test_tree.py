"""Trees of containers, alone and against torch's."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import pytest

import adjoint
from adjoint import tree
from adjoint.utils import _pytree

Point = collections.namedtuple("Point", "x y")
TREES: list[Any] = [
    3, None, (), [], {}, (1, 2), [1, (2, [3])], {"b": 1, "a": {"c": (2,)}}, Point(1, [2]),
    collections.OrderedDict([("z", 1), ("y", 2)]), collections.deque([1, 2], 5),
    collections.defaultdict(list, {"k": 1}), {"t": (None, Point(1, None))},
]  # fmt: skip


@pytest.mark.parametrize("value", TREES, ids=repr)
def test_apart_and_together(value: Any) -> None:
    leaves, spec = tree.tree_flatten(value)
    assert tree.tree_unflatten(leaves, spec) == value == spec.unflatten(leaves)
    assert type(spec.unflatten(leaves)) is type(value)
    assert spec == tree.tree_structure(value) and spec.num_leaves == len(leaves)


@pytest.mark.parametrize("value", TREES, ids=repr)
def test_equals_torch(value: Any) -> None:
    pytest.importorskip("torch", reason="torch is the oracle")
    import torch.utils._pytree as theirs

    assert tree.tree_leaves(value) == theirs.tree_leaves(value)
    assert tree.tree_map(lambda x: (x, 1), value) == theirs.tree_map(lambda x: (x, 1), value)
    ours, other = tree.tree_leaves_with_path(value), theirs.tree_leaves_with_path(value)
    assert [tree.keystr(k) for k, _ in ours] == [theirs.keystr(k) for k, _ in other]
    assert all(tree.key_get(value, k) == leaf for k, leaf in ours)
    assert tree.tree_structure(value).num_nodes == theirs.tree_structure(value).num_nodes


def test_maps() -> None:
    value = {"a": (1, 2.0), "b": "s"}
    assert tree.tree_map_only(int, lambda x: x + 1, value) == {"a": (2, 2.0), "b": "s"}
    assert tree.tree_map(lambda x, y: (x, y), (1, 2), ([3], 4)) == ((1, [3]), (2, 4))
    assert tree.tree_all(bool, [1, (2,)]) and tree.tree_any(lambda x: x == 2, [1, (2,)])
    assert tree.tree_any_only(str, lambda s: s == "s", value) and not tree.tree_all_only(str, lambda s: s == "t", value)
    with pytest.raises(ValueError, match="holds 2 items"):
        tree.tree_structure((1, 2)).unflatten([1])
    with pytest.raises(ValueError, match="arity"):
        tree.tree_map(lambda x, y: x, (1, 2), (1,))


def test_prefixes() -> None:
    spec = tree.tree_structure((1, {"a": 2, "b": 3}))
    assert tree.broadcast_prefix(0, spec) == [0, 0, 0]
    assert tree.broadcast_prefix((0, None), spec) == [0, None, None]
    assert tree.broadcast_prefix((0, {"a": 1, "b": 2}), spec) == [0, 1, 2]
    assert tree.broadcast_prefix((0,), spec) is None and tree.broadcast_prefix([0, 0], spec) is None


def test_registered_classes() -> None:
    class Pair:
        def __init__(self, a: Any, b: Any) -> None:
            self.a, self.b = a, b

    assert tree.tree_is_leaf(Pair(1, 2))
    _pytree.register_pytree_node(Pair, lambda p: ((p.a, p.b), None), lambda c, _: Pair(*c))
    doubled = tree.tree_map(lambda x: 2 * x, [Pair(1, Pair(2, 3))])[0]
    assert (doubled.a, doubled.b.a, doubled.b.b) == (2, 4, 6)
    with pytest.raises(ValueError, match="already registered"):
        _pytree.register_pytree_node(Pair, lambda p: ((), None), lambda c, _: None)

    @dataclasses.dataclass
    class State:
        w: Any
        b: Any

    tree.register_dataclass(State)
    found = adjoint.func.grad(lambda s: s.w * s.b)(State(adjoint.tensor(2.0), adjoint.tensor(3.0)))
    assert (found.w.item(), found.b.item()) == (3.0, 2.0)


def test_classes_that_optree_knows() -> None:
    optree = pytest.importorskip("optree", reason="optree is an optional extra")

    class Box:
        def __init__(self, value: Any) -> None:
            self.value = value

    optree.register_pytree_node(Box, lambda b: ((b.value,), None), lambda _, c: Box(*c), namespace="adjoint")
    assert tree.tree_map(lambda x: x + 1, {"b": Box((1, 2))})["b"].value == (2, 3)


def test_results_with_names_are_nodes() -> None:
    x = adjoint.tensor([[1.0, 3.0], [4.0, 2.0]])
    best = adjoint.vmap(lambda row: row.max(0))(x)
    assert best.values.tolist() == [3, 4] and best.indices.tolist() == [1, 0]
