"""Which nodes a backward pass runs, and when each leaf has its last gradient."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from .leaves import AccumulateGrad
from .nodes import Output, shown

if TYPE_CHECKING:
    from .tasks import Task

_by_stamp = attrgetter("stamp")


def reach(roots: Sequence[Any]) -> list[Any]:
    """Return every node that the roots can reach, leaves left out, newest first."""
    seen = {root for root in roots if type(root) is not AccumulateGrad}
    stack = list(seen)
    while stack:
        for e in stack.pop().edges:
            if e is not None and type(e) is not AccumulateGrad and e not in seen:
                seen.add(e)
                stack.append(e)
    return sorted(seen, key=_by_stamp, reverse=True)


def needed_for(roots: Sequence[Any], wanted: set[Any]) -> tuple[set[Any], bool]:
    """Return the nodes from which one of `wanted` can be reached, those included, and whether a pass may prune.

    It has nothing to prune where every node leads to leaves that are wanted, and nowhere else.
    """
    needed = set(wanted)
    prunes = any(type(n) is not AccumulateGrad for n in wanted) or not wanted.issuperset(
        n for n in roots if type(n) is AccumulateGrad
    )
    for node in reversed(reach(roots)):
        needs = False
        for e in node.edges:
            if e in needed:
                needs = True
            elif e is not None:
                prunes = True
        if needs:
            needed.add(node)
        else:
            prunes = True
    return needed, prunes


def last_consumers(frontier: Sequence[Any], needed: set[Any] | None) -> dict[Any, list[Any]]:
    """Return, of each node still to run, the leaves that it is the last to feed."""
    last: dict[Any, Any] = {}
    for node in reach(frontier):
        if needed is None or node in needed:
            for e in (
                node.edges
                if node.op.display.finish_order is None
                else [node.edges[i] for i in node.op.display.finish_order]
            ):
                if type(e) is AccumulateGrad:
                    last[e] = node
    ends: dict[Any, list[Any]] = {}
    for leaf, node in last.items():
        ends.setdefault(node, []).append(leaf)
    return ends


def order_of_execution(task: Task) -> list[Any]:
    """Return the nodes that a pass runs, in order; a leaf comes as soon as its gradient is complete."""
    order: list[Any] = []
    ends = last_consumers(task.roots, task.needed)
    for node in reach(task.roots):
        if task.needed is None or node in task.needed:
            order += [n for n in (node, *ends.get(node, ())) if type(n) is not Output]
    return [shown(n) for n in order]
