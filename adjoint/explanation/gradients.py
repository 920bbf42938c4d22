"""A backward pass from a loss to one tensor: the gradients that each node received and returned."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ..core import engine, pruning
from ..core.nodes import Freed, Node, Output, saved_arrays, shown, wrap
from ..core.tensor import owner_of
from ..core.views import edge_of
from ..errors import place


class Passage(NamedTuple):
    """One node of a pass: the size of its incoming gradient and of the gradient that it passes towards the tensor."""

    node: Any
    entered: float
    left: float
    refused: bool  # whether it gave None where a gradient was wanted
    received: Any = None  # what came in, where nothing went out: from it `vanished` finds out why

    @property
    def title(self) -> str:
        """The node's name and the program's line."""
        return titled(self.node)


def titled(node: Any) -> str:
    """Return a node's name and the line it was recorded at."""
    where = place(node.code, node.lasti)
    return f"{shown(node).op.title}{f' at {where}' if where else ''}"


def size(arrays: Any) -> float:
    """Return the largest magnitude among gradients; NaN where there is one, -1 for no gradient at all."""
    found = [np.abs(a.array) for a in arrays if a is not None and a.array.size]
    if not any(a is not None for a in arrays):
        return -1.0
    return float(max((np.max(f) for f in found), default=0.0, key=lambda m: np.inf if np.isnan(m) else m))


def passages(loss: Any, x: Any, start: Any = None) -> tuple[list[Passage], Any]:
    """Run the backward pass from `loss` to `x`, keeping the graph; return each node's part, and the gradient."""
    root, wanted = edge_of(loss), edge_of(x)
    seen: list[Passage] = []
    handles = []
    needed, _ = pruning.needed_for([root], {wanted})
    for node in pruning.reach([root]):
        if node in needed and type(node) is not Output and node is not wanted:
            handles.append(node.register_hook(_recording(node, needed, seen)))
    g = np.ones(loss.array.shape, loss.array.dtype) if start is None else start.array
    try:
        (found,) = engine.backward([root], [g], True, False, [wanted], accumulating=False)
    finally:
        for handle in handles:
            handle.remove()
    return seen, None if found is None else wrap(found)


def _recording(node: Any, needed: set[Any], seen: list[Passage]) -> Any:
    def hook(grad_inputs: Any, grad_outputs: Any) -> None:
        wanted = [g for g, e in zip(grad_inputs, node.edges, strict=False) if e is not None and e in needed]
        entered, left = size(grad_outputs), size(wanted)
        stopped = entered > 0 and left == 0
        seen.append(Passage(node, entered, left, any(g is None for g in wanted), grad_outputs if stopped else None))

    return hook


def underflows(p: Passage, x: Any) -> bool:
    """Return whether a node gave zero only because what came in was tiny: a gradient of size 1 would pass it."""
    arrived = [g for g in p.received if g is not None]
    if len(p.received) != 1 or not 0 < p.entered < 1:  # several outputs; or there was nothing to lose
        return False
    edges = [e for e in p.node.edges if e is not None and type(e) is not Output]
    (g,) = arrived
    try:
        found = engine.backward([p.node], [g.array / p.entered], True, False, edges, accumulating=False)
    except RuntimeError:  # a node that cannot be run on its own
        return False
    return size([None if f is None else wrap(f) for f in found]) > 0


def saved_values(node: Any) -> list[tuple[int, Any]]:
    """Return the arrays that a node saves: inputs by position, its result as the last."""
    return [(i, v) for i, v in saved_arrays(node, node.saved) if isinstance(v, np.ndarray)]


def reachable(loss: Any) -> list[Any]:
    """Return every node behind a loss, newest first."""
    root = edge_of(loss)
    return [] if root is None else pruning.reach([root])


def leads_to(loss: Any, x: Any) -> bool:
    """Return whether a gradient of `loss` has a way to `x`."""
    root, wanted = edge_of(loss), edge_of(x)
    return (
        root is not None and wanted is not None and (root is wanted or root in pruning.needed_for([root], {wanted})[0])
    )


def is_freed(loss: Any) -> Any:
    """Return what a backward pass left of the graph behind a loss, if it freed it."""
    return next((n.saved for n in reachable(loss) if type(n.saved) is Freed), None)


def users_without_history(loss: Any, x: Any) -> list[Node]:
    """Return nodes behind `loss` that saved the memory of `x` as an input without history: `x` was detached."""
    owner = owner_of(x.array)

    def of_x(value: Any) -> bool:
        return owner_of(value) is owner and np.may_share_memory(value, x.array)

    found = []
    for node in reachable(loss):
        for position, value in saved_arrays(node, node.saved):
            if position < len(node.edges) and node.edges[position] is None and of_x(value):
                found.append(node)
    return found[::-1]


def first_nan(loss: Any) -> Any:
    """Return the oldest node that saved a NaN, and whether the node made it: its inputs have none."""
    for node in reversed(reachable(loss)):
        kept = saved_arrays(node, node.saved)
        bad = [position for position, value in kept if _is_nan(value)]
        if bad:
            maker = node
            if all(position < len(node.edges) for position in bad):  # an input: its maker is the node before
                maker = next((node.edges[p] for p in bad if node.edges[p] is not None), node)
            return maker
    return None


def _is_nan(value: Any) -> bool:
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    return bool(kind and kind in "fc" and np.isnan(value).any())
