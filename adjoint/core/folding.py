"""Several nodes shown as one, one as several: the graphs that programs written for torch expect.

Nothing here runs unless a program looks at the graph.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from .._typing import Op, Value
from .failures import freed_error
from .nodes import (
    Freed,
    MultipleNode,
    Node,
    Special,
    attach_outputs,
    extra_of,
    folds,
    new_node,
    passes,
    unpacked,
)
from .saved import saved_value
from .tensor import TensorBase

_T = TypeVar("_T")


def part(node: Node, op: Any, edges: tuple[Any, ...]) -> Any:
    """Return a node that stands between `node`, which is being unfolded, and what that leads to.

    Its stamp is between theirs: a half, which no other node has.
    """
    inner: Any = new_node(op, edges, None, node)
    inner.stamp = node.stamp - 0.5
    return inner


class Unfolded(Node):
    """A node whose edges are shown as torch has them; `extra.shadow` is the node it was, whose rules it runs."""

    __slots__ = ()

    def lifted(self) -> tuple[Any, ...] | None:
        """Return the saved values as tensors, as the node that it was does: its saved output stays its own."""
        shadow: Any = extra_of(self).shadow
        own = self.op, self.edges, self.targets
        self.op, self.edges, self.targets = shadow.op, shadow.edges, shadow.targets
        try:
            return super().lifted()
        finally:
            self.op, self.edges, self.targets = own


def _run_shaped(node: Node, g: Value, edges: tuple[Any, ...], saved: Sequence[Any]) -> tuple[Any, ...]:
    return (g.reshape(node.targets) if node.targets is not None and tuple(g.shape) != node.targets else g,)


@functools.cache
def _shaping_op(title: str) -> Special:
    return Special(title, _run_shaped, shown={"_saved_self_sym_sizes": property(lambda node: node.targets)})


def shaping(node: Node, title: str, edge: Any, shape: tuple[int, ...] | None, after: float) -> Any:
    """Return a part of an unfolded node that gives the gradient that it is given another shape, if not None."""
    made = part(node, _shaping_op(title), (edge,))
    made.targets, made.stamp = shape, node.stamp - after
    return made


def split(node: Node, title: str, op: Special, shape: tuple[int, ...] | None, edges: tuple[Any, ...]) -> None:
    """Let a node be one that shapes, before one of `op`: what torch has for products of more than two dimensions.

    `shape` is that of the gradient there, if it changes, `edges` are those that it leads to.
    """
    inner = new_node(op, edges, node.saved, node, op.node)
    inner.stamp = node.stamp - 0.125
    shadow = part(node, node.op, node.edges)
    shadow.stamp, shadow.targets = node.stamp, node.targets
    extra_of(inner).shadow = shadow
    node.op, node.edges, node.saved, node.targets = _shaping_op(title), (inner,), None, shape
    node.__class__ = node.op.node


def run_shadow(node: Any, g: Any, edges: tuple[Any, ...], saved: Any) -> tuple[Any, ...]:
    """Run a node that was split as it was recorded."""
    shadow = node.extra.shadow
    return tuple(shadow.op.run(shadow, g, edges, saved))


def framed(first: str, title: str, last: str) -> Callable[[Node], None]:
    """Return how a node of one input is shown as one of another name, between two that only change shapes."""
    op = Special(title, run_shadow, Unfolded)

    def show(node: Node) -> None:
        split(node, first, op, None, (shaping(node, last, node.edges[0], None, 0.25),))

    return show


def reveal(node: Node, op: Special, edges: tuple[Any, ...]) -> None:
    """Let a node be one of `op` from now on, with other edges; how it was stays in its shadow."""
    shadow = part(node, node.op, node.edges)
    shadow.stamp, shadow.targets = node.stamp, node.targets
    extra_of(node).shadow = shadow
    node.op, node.edges, node.__class__ = op, edges, op.node


def fold(out: _T, title: str, *inputs: object, **saved: object) -> _T:
    """Let a tensor that several ops have made of `inputs` be seen as the output of one node, as torch has it.

    Nothing is done about it until a program looks. `saved` is what the node shows: numbers, and inputs by position,
    each as a tuple of one.
    """
    node = out.node  # type: ignore[attr-defined]
    if type(node) is Node:
        edges = tuple([x.node if isinstance(x, TensorBase) else None for x in inputs])
        if node not in edges and (node.op.title != title or edges != tuple(node.seen(node.edges))):
            folds[node] = _Fold(title, edges, saved)
    return out


class _Folded(Unfolded):
    """Several nodes as one; its shadow is the last of them, which leads to the others."""

    __slots__ = ()

    def verify(self) -> None:
        """Raise if a saved value of one of the nodes was written after it was saved."""
        super().verify()
        for inner in _between(self):
            inner.verify()


def _between(node: Node) -> list[Any]:
    """Return the nodes between a folded one and what it leads to, newest first."""
    shadow: Any = extra_of(node).shadow
    return _inside(shadow.edges, node.edges)


def _inside(edges: Sequence[Any], ahead: Sequence[Any]) -> list[Any]:
    """Return the nodes that `edges` lead to before they come to those `ahead`, newest first."""
    ends, found = set(ahead), set()
    waiting = [e for e in edges if e is not None]
    while waiting:
        inner = waiting.pop()
        if inner not in ends and inner not in found:
            found.add(inner)
            waiting += [e for e in inner.edges if e is not None]
    return sorted(found, key=lambda inner: -inner.stamp)


def _run_folded(node: Any, g: Any, edges: tuple[Any, ...], saved: Any) -> tuple[Any, ...]:
    """Run the nodes that are shown as one."""
    if type(saved) is Freed:
        raise freed_error(node, saved)
    shadow, inside = node.extra.shadow, _between(node)
    ends = {e for e in edges if e is not None}
    leading = set(ends)
    for inner in reversed(inside):
        if any(e in leading for e in inner.edges):
            leading.add(inner)
    sums: dict[Any, Any] = {}
    lift = isinstance(g, TensorBase)
    for inner in (shadow, *inside):
        g = g if inner is shadow else sums.pop(inner, None)
        if g is None:
            continue
        values = saved if inner is shadow else inner.lifted() if lift else unpacked(inner)
        targets = tuple([e if e in leading else None for e in inner.edges])
        for e, r in zip(targets, inner.op.run(inner, g, targets, values), strict=True):
            if e is not None and r is not None:
                sums[e] = sums[e] + r if e in sums else r
    if passes and not any(task.keep for task in passes):
        _free(node, inside)
    return tuple([sums.pop(e, None) for e in edges])


def _free(node: Any, inside: list[Any]) -> None:
    """Free a folded node. Its inner nodes may be reachable from others, such as derivatives, and stay."""
    shadow = node.extra.shadow
    if any(inner.saved is not None and inner.op.frees for inner in inside) or node.saved is not None:
        node.saved, shadow.edges = Freed(node.code, node.lasti), ()


@functools.cache
def _folded_op(title: str) -> Special:
    return Special(title, _run_folded, _Folded)


@functools.cache
def _renamed_op(op: Op, title: str) -> Op:
    """Return an op as it is in a form that torch has a node of its own for."""
    return op.renamed(title, op.node)


class _Fold(NamedTuple):
    """How the last of several nodes is seen as all of them, with what torch shows of what it saves."""

    title: str
    edges: tuple[Any, ...]
    saved: dict[str, Any]

    def __call__(self, node: Node) -> bool:
        """Let a node be seen so; return whether it can be: each path from it must come to one of the named inputs."""
        title, edges, saved = self
        if not all(inner.edges for inner in _inside(node.edges, edges)):
            return False
        renamed = edges == tuple(node.seen(node.edges))
        op: Any = _renamed_op(node.op, title) if renamed else _folded_op(title)
        for name in saved:
            if f"_saved_{name}" not in op.node.__dict__:
                setattr(op.node, f"_saved_{name}", property(functools.partial(_saved_inside, name=name)))
        if renamed:
            node.op, node.__class__ = op, op.node
        else:
            reveal(node, op, edges)
        return True


def _saved_inside(node: Any, name: str) -> Any:
    """Return a number that a folded node shows, or an input that one of the nodes inside has saved."""
    value = folds[node].saved.get(name)
    if type(value) is not tuple:
        return value
    if type(node.saved) is Freed:
        raise freed_error(node, node.saved)
    edge = node.edges[value[0]]
    if edge is None or hasattr(edge, "variable"):
        return None if edge is None else edge.variable
    shadow = node.extra.shadow
    shadow.saved = node.saved
    try:
        found = [saved_value(n, i) for n in (shadow, *_between(node)) for i, e in enumerate(n.edges) if e is edge]
    finally:
        shadow.saved = None
    return next((v for v in found if v is not None), None)


class JointNode(MultipleNode):
    """A node of several outputs that each has a rule of its own: `saved` has a node for each."""

    __slots__ = ()

    def lifted(self) -> tuple[Any, ...]:
        """Return the nodes, each with its saved values as tensors."""
        if type(self.saved) is Freed:
            raise freed_error(self, self.saved)
        return tuple((node, node.lifted()) for node in self.saved)

    def verify(self) -> None:
        """Raise if a saved value was written after it was saved."""
        for node in () if type(self.saved) is Freed else self.saved:
            node.verify()


def _run_joint_node(node: Any, g: Value, edges: tuple[Any, ...], saved: Sequence[Any]) -> tuple[Any, ...]:
    total: Any = None
    for part_of, value in zip(saved, node.gradients(g), strict=True):
        if value is not None:
            one, values = part_of if type(part_of) is tuple else (part_of, part_of.saved)
            (r,) = one.op.run(one, value, edges, values)
            total = r if total is None or r is None else total + r
    return (total,)


@functools.cache
def _joint_op(title: str) -> Special:
    return Special(title, _run_joint_node, JointNode)


def joined(title: str, outs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return results of ops of the same input as the outputs of one node, as torch has them."""
    found = [out.node for out in outs]
    if all(type(n) is Node and n.edges == found[0].edges for n in found):
        op = _joint_op(title)
        node = new_node(op, found[0].edges, tuple(found), found[-1], op.node)
        node.stamp = found[-1].stamp
        node.metas = tuple([(out.array.shape, out.array.dtype) for out in outs])
        attach_outputs(node, outs)
    return outs
