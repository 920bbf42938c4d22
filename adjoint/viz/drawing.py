"""`graph` and `dot`: a page, and DOT text, of what is behind a loss; the graph as plain data before that."""

from __future__ import annotations

import html
import json
import os
from importlib import resources
from typing import Any, NamedTuple

from ..autograd.holdings import function_of, values_kept
from ..core.leaves import AccumulateGrad
from ..core.nodes import Output, shown
from ..core.tensor import owner_of
from ..errors import place
from .measuring import Measured, behind, measured

__all__ = ["dot", "graph"]


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
    leaf: bool
    shape: str = ""
    norm: float | None = None
    values: str = ""


def structure(
    loss: Any, names: dict[int, str], times: Any = None, modules: Any = None, seen_in_pass: Any = None
) -> list[Drawn]:
    """Return the nodes behind a loss, newest first, leaves included.

    `names` are those of leaves by the identity of the tensor; `times` and `modules` those of nodes, from a profile.
    """
    root, nodes, leaves = behind(loss)
    if type(root) is AccumulateGrad:
        leaves = [root]
    number = {n: i for i, n in enumerate([*nodes, *leaves])}
    edges = [[number[_whole(e)] for e in n.edges if e is not None and _whole(e) in number] for n in number]
    depth = _depths(edges)
    spent = [float((times or {}).get(n, 0.0)) for n in number]
    hot = _hottest(edges, spent)
    groups = _groups(list(number), edges, modules or {})
    seen: set[int] = {id(owner_of(n.array)) for n in leaves}
    drawn = []
    for i, n in enumerate(number):
        if type(n) is AccumulateGrad:
            title, size = _leaf_title(n, names), int(getattr(n.array, "nbytes", 0))
        else:
            title, size = shown(n).op.title, _own_bytes(n, seen)
        drawn.append(
            Drawn(
                title,
                groups[i],
                place(n.code, n.lasti) or "",
                size,
                spent[i],
                depth[i],
                list(dict.fromkeys(edges[i])),
                hot[i],
                type(n) is AccumulateGrad,
                *(seen_in_pass or {}).get(n, Measured()),
            )
        )
    return drawn


def _groups(nodes: list[Any], edges: list[list[int]], modules: Any) -> list[str]:
    """Return the group of each node: its module, else the function that recorded it.

    A leaf that one module uses belongs to that module. The nodes that an op is split into when a program looks at the
    graph (the transposed weight of a linear layer) are unknown to the profile: they belong to the module of the op.
    """
    users: list[list[int]] = [[] for _ in nodes]
    groups: list[str] = []
    known = set(modules.values())
    for i, n in enumerate(nodes):  # what uses a node comes before it
        for j in edges[i]:
            users[j].append(i)
        if type(n) is AccumulateGrad:
            used_in = {groups[j] for j in users[i]} & known
            groups.append(used_in.pop() if len(used_in) == 1 else "leaves")
        elif n in modules:
            groups.append(modules[n])
        else:
            same_line = [groups[j] for j in users[i] if (nodes[j].code, nodes[j].lasti) == (n.code, n.lasti)]
            groups.append(same_line[0] if modules and same_line else function_of(n) or "(unknown)")
    return groups


def _whole(node: Any) -> Any:
    return node.edges[0] if type(node) is Output else node


def _leaf_title(leaf: Any, names: dict[int, str]) -> str:
    tensor = leaf.ref()
    name = names.get(id(tensor), "") if tensor is not None else ""
    return f"{name or 'leaf'} {list(leaf.array.shape)}"


def _own_bytes(node: Any, seen: set[int]) -> int:
    """Return the bytes that a node is the first to save."""
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


class Page(str):
    """The text of a page; a notebook shows the page itself."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f'<iframe title="graph" style="width:100%;height:520px;border:0" srcdoc="{html.escape(self)}"></iframe>'


def graph(
    loss: Any, path: str | os.PathLike[str] | None = None, *, params: Any = None, profile: Any = None,
    gradients: bool = True, title: str = "Graph of the backward pass",
) -> Page:  # fmt: skip
    """Draw the graph behind a tensor as one HTML page that needs nothing else, and return its text.

    Nodes are grouped by module if a profile is given, else by the function that recorded them. A click opens or closes
    a group. Each node shows the bytes that it alone saves, and the page can be searched. Arrows follow the backward
    pass; a label beside each arrow gives the shape and dtype. Hovering over a node shows values and gradient norms.

    Parameters
    ----------
    path
        File to write the page to.
    params
        Names of leaves: a module, or a dict or pairs of name and tensor.
    profile
        A `profiler.profile` under which the backward pass ran: times are shown, and the path that took longest. With
        `profile(with_modules=True)` around the forward pass, nodes and parameters are grouped by module.
    gradients
        Whether to run the backward pass once more, without touching any `.grad`: shapes, values and norms come from it.

    Examples
    --------
    >>> x = adjoint.ones(2, requires_grad=True)
    >>> page = adjoint.viz.graph((x * 2).sum(), params={"x": x})
    >>> "MulBackward0" in page and "x [2]" in page
    True
    """
    nodes = _collect(loss, params, profile, gradients)
    groups = list(dict.fromkeys(n.group for n in nodes))
    at = {g: i for i, g in enumerate(groups)}
    data = {
        "groups": groups,
        "nodes": [
            [n.name, at[n.group], n.depth, n.bytes, round(n.time, 2), n.place, n.next, n.hot, *_pass_of(n), n.leaf]
            for n in nodes
        ],
    }
    template = (resources.files(__package__) / "page.html").read_text()
    text = template.replace("__TITLE__", html.escape(title)).replace(
        "__DATA__", json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    )
    if path is not None:
        with open(path, "w") as file:
            file.write(text)
    return Page(text)


def _pass_of(n: Drawn) -> list[Any]:
    """Return what a pass showed of a node, for the page: JSON has no infinity."""
    return [n.shape, None if n.norm is None else f"{n.norm:.3g}", n.values]


def dot(loss: Any, *, params: Any = None, profile: Any = None) -> str:
    """Return the graph behind a tensor as text for Graphviz.

    Examples
    --------
    >>> x = adjoint.ones(2, requires_grad=True)
    >>> print(adjoint.viz.dot((x * 2).sum()).splitlines()[0])
    digraph backward {
    """
    nodes = _collect(loss, params, profile)
    lines = ["digraph backward {", "  node [shape=box, fontname=monospace, fontsize=10];"]
    for number, group in enumerate(dict.fromkeys(n.group for n in nodes)):
        lines += [f"  subgraph cluster_{number} {{", f"    label={_quoted(group)};"]
        lines += [f"    n{i} [{_style(n)}];" for i, n in enumerate(nodes) if n.group == group]
        lines.append("  }")
    lines += [f"  n{i} -> n{j};" for i, n in enumerate(nodes) for j in n.next]
    return "\n".join([*lines, "}", ""])


def _style(n: Drawn) -> str:
    text = "\n".join([n.name, *([f"{n.bytes:,} bytes"] if n.bytes else []), *([f"{n.time:.1f} us"] if n.time else [])])
    options = [f"label={_quoted(text)}", f"tooltip={_quoted(n.place)}"]
    if n.leaf:
        options.append("style=filled, fillcolor=lightblue")
    if n.hot:
        options.append("color=red, penwidth=2")
    return ", ".join(options)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _collect(loss: Any, params: Any, profile: Any, gradients: bool = False) -> list[Drawn]:
    named = params.named_parameters() if hasattr(params, "named_parameters") else params or ()
    pairs = named.items() if isinstance(named, dict) else named
    recorder = None if profile is None else profile.recorder
    times, modules = (None, None) if recorder is None else (recorder.times_of, recorder.modules_of)
    flows = measured(loss) if gradients else None
    return structure(loss, {id(t): name for name, t in pairs}, times, modules, flows)
