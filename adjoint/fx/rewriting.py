"""Replacing subgraphs that match a pattern."""

from __future__ import annotations

from typing import Any, NamedTuple

from .graph import Graph
from .graph_module import GraphModule
from .node import Node, map_arg
from .tracer import symbolic_trace

__all__ = ["Match", "replace_pattern"]


class Match(NamedTuple):
    """A match: the node for the pattern's output, and the node for each of the pattern's nodes."""

    anchor: Node
    nodes_map: dict[Node, Node]


def _graph(value: Any) -> Graph:
    if isinstance(value, GraphModule):
        return value.graph
    return value if isinstance(value, Graph) else symbolic_trace(value).graph


def replace_pattern(gm: GraphModule, pattern: Any, replacement: Any) -> list[Match]:
    """Replace every subgraph that matches `pattern` by `replacement`.

    Both are functions or modules of as many arguments. Returns where the pattern was found.

    Examples
    --------
    >>> traced = adjoint.fx.symbolic_trace(lambda x: adjoint.neg(x) + 1)
    >>> found = adjoint.fx.replace_pattern(traced, lambda a: adjoint.neg(a), lambda a: adjoint.relu(a))
    >>> len(found), traced(adjoint.tensor(2.0)).item()
    (1, 3.0)
    """
    wanted, instead = _graph(pattern), _graph(replacement)
    (last,) = (n for n in wanted.nodes if n.op == "output")
    anchor = last.all_input_nodes[0]
    found: list[Match] = []
    taken: set[Node] = set()
    for node in list(gm.graph.nodes):
        seen: dict[Node, Node] = {}
        if not _same(anchor, node, seen):
            continue
        inner = {seen[p] for p in seen if p.op not in ("placeholder", "get_attr")}
        if inner & taken or any(u not in inner for n in inner - {node} for u in n.users):
            continue  # overlaps, or something else needs a value inside
        taken |= inner
        found.append(Match(node, seen))
    for match in found:
        _exchange(gm, match, wanted, instead)
    gm.recompile()
    return found


def _same(p: Node, n: Any, seen: dict[Node, Node]) -> bool:
    """Return whether a node matches a pattern's node, and its arguments match recursively."""
    if p in seen:
        return seen[p] is n
    if not isinstance(n, Node):
        return False
    if p.op != "placeholder":
        if (p.op, p.target) != (n.op, n.target) or len(p.args) != len(n.args) or p.kwargs.keys() != n.kwargs.keys():
            return False
        seen[p] = n
        pairs = [*zip(p.args, n.args), *((v, n.kwargs[k]) for k, v in p.kwargs.items())]
        return all(_same_argument(a, b, seen) for a, b in pairs)
    seen[p] = n
    return True


def _same_argument(a: Any, b: Any, seen: dict[Node, Node]) -> bool:
    if isinstance(a, Node):
        return _same(a, b, seen)
    if isinstance(a, list | tuple):
        return type(a) is type(b) and len(a) == len(b) and all(_same_argument(x, y, seen) for x, y in zip(a, b))
    return bool(a == b)


def _exchange(gm: GraphModule, match: Match, wanted: Graph, instead: Graph) -> None:
    made: dict[Node, Any] = {}
    for old, new in zip(wanted.find_nodes(op="placeholder"), instead.find_nodes(op="placeholder"), strict=True):
        made[new] = match.nodes_map[old]
    with gm.graph.inserting_before(match.anchor):
        result: Any = gm.graph.graph_copy(instead, made)
    match.anchor.replace_all_uses_with(map_arg(result, lambda n: n))
    for node in reversed(list(match.nodes_map.values())):
        if node.op not in ("placeholder", "get_attr") and not node.users and not node._erased:
            gm.graph.erase_node(node)
    for node in match.nodes_map.values():
        if node.op not in ("placeholder", "get_attr") and not node.users and not node._erased:
            gm.graph.erase_node(node)
