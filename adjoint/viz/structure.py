"""The graph behind a loss as plain data: nodes in groups, edges, bytes, times, and the path that takes longest."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..autograd.holdings import function_of, values_kept
from ..core.engine import AccumulateGrad, _reach
from ..core.nodes import Output, shown
from ..core.tensor import owner_of
from ..core.views import edge_of
from ..errors import place


class Drawn(NamedTuple):
    """One node as it is drawn; `next` are the numbers of those that its gradients go to.

    `hot` counts the nodes of the path that takes longest, from 1; it is 0 elsewhere.
    """

    name: str
    group: str
    place: str
    bytes: int
    time: float
    depth: int
    next: list[int]
    hot: int


def structure(loss: Any, names: dict[int, str], times: Any = None, modules: Any = None) -> list[Drawn]:
    """Return the nodes behind a loss, newest first, leaves included.

    `names` are those of leaves by the identity of the tensor; `times` and `modules` those of nodes, from a profile.
    """
    root = edge_of(loss)
    nodes = [] if root is None else [n for n in _reach([root]) if type(n) is not Output]
    leaves = list(dict.fromkeys(e for n in nodes for e in n.edges if type(e) is AccumulateGrad))
    if type(root) is AccumulateGrad:
        leaves = [root]
    number = {n: i for i, n in enumerate([*nodes, *leaves])}
    edges = [[number[_whole(e)] for e in n.edges if e is not None and _whole(e) in number] for n in number]
    depth = _depths(edges)
    spent = [float((times or {}).get(n, 0.0)) for n in number]
    hot = _hottest(edges, spent)
    seen: set[int] = {id(owner_of(n.array)) for n in leaves}
    drawn = []
    for i, n in enumerate(number):
        if type(n) is AccumulateGrad:
            title, group, size = _leaf_title(n, names), "leaves", int(getattr(n.array, "nbytes", 0))
        else:
            title, size = shown(n).name(), _own_bytes(n, seen)
            group = (modules or {}).get(n) or function_of(n) or "(unknown)"
        drawn.append(
            Drawn(
                title,
                group,
                place(n.code, n.lasti) or "",
                size,
                spent[i],
                depth[i],
                list(dict.fromkeys(edges[i])),
                hot[i],
            )
        )
    return drawn


def _whole(node: Any) -> Any:
    return node.edges[0] if type(node) is Output else node


def _leaf_title(leaf: Any, names: dict[int, str]) -> str:
    tensor = leaf.ref()
    name = names.get(id(tensor), "") if tensor is not None else ""
    return f"{name or 'leaf'} {list(leaf.array.shape)}"


def _own_bytes(node: Any, seen: set[int]) -> int:
    """Return the bytes that a node is the first to keep."""
    total = 0
    for _, array in values_kept(node):
        if id(owner_of(array)) not in seen:
            seen.add(id(owner_of(array)))
            total += int(array.nbytes)
    return total


def _depths(edges: list[list[int]]) -> list[int]:
    """Return how far each node is from the loss, by the longest way; nodes come before those they lead to."""
    depth = [0] * len(edges)
    for i, following in enumerate(edges):
        for j in following:
            depth[j] = max(depth[j], depth[i] + 1)
    return depth


def _hottest(edges: list[list[int]], spent: list[float]) -> list[int]:
    """Return the place of each node on the path on which most time is spent, from 1; 0 off it, or without times."""
    hot = [0] * len(edges)
    if not any(spent):
        return hot
    best, then = list(spent), [-1] * len(edges)
    for i in range(len(edges) - 1, -1, -1):
        if edges[i]:
            j = max(edges[i], key=best.__getitem__)
            best[i], then[i] = spent[i] + best[j], j
    i = 0
    for place_on_path in range(1, len(edges) + 1):
        hot[i] = place_on_path
        i = then[i]
        if i < 0:
            break
    return hot
