"""`graph` and `dot`: a page, and DOT text, of what is behind a loss."""

from __future__ import annotations

import html
import json
import os
from importlib import resources
from typing import Any

from .structure import Drawn, structure

__all__ = ["dot", "graph"]


def graph(
    loss: Any, path: str | os.PathLike[str] | None = None, *, params: Any = None, profile: Any = None,
    title: str = "Graph of the backward pass",
) -> str:  # fmt: skip
    """Draw the graph behind a tensor as one HTML page that needs nothing else, and return its text.

    Nodes are in groups, by module where a profile knows it and else by the function that recorded them; a group opens
    with a click. Each node shows the bytes that it alone keeps; the page can be searched.

    Parameters
    ----------
    path
        File to write the page to.
    params
        Names of leaves: a module, or a dict or pairs of name and tensor.
    profile
        A `profiler.profile` under which the backward pass ran: times are shown, and the path that took longest.

    Examples
    --------
    >>> x = adjoint.ones(2, requires_grad=True)
    >>> page = adjoint.viz.graph((x * 2).sum(), params={"x": x})
    >>> "MulBackward0" in page and "x [2]" in page
    True
    """
    nodes = _collect(loss, params, profile)
    groups = list(dict.fromkeys(n.group for n in nodes))
    at = {g: i for i, g in enumerate(groups)}
    data = {
        "groups": groups,
        "nodes": [[n.name, at[n.group], n.depth, n.bytes, round(n.time, 2), n.place, n.next, n.hot] for n in nodes],
    }
    template = (resources.files(__package__) / "page.html").read_text()
    text = template.replace("__TITLE__", html.escape(title)).replace(
        "__DATA__", json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    )
    if path is not None:
        with open(path, "w") as file:
            file.write(text)
    return text


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
    if n.group == "leaves":
        options.append("style=filled, fillcolor=lightblue")
    if n.hot:
        options.append("color=red, penwidth=2")
    return ", ".join(options)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _collect(loss: Any, params: Any, profile: Any) -> list[Drawn]:
    named = params.named_parameters() if hasattr(params, "named_parameters") else params or ()
    pairs = named.items() if isinstance(named, dict) else named
    recorder = None if profile is None else profile.recorder
    times, modules = (None, None) if recorder is None else (recorder.times_of, recorder.modules_of)
    return structure(loss, {id(t): name for name, t in pairs}, times, modules)
