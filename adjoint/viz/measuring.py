"""What flows along the edges of a graph: shapes, dtypes and sizes of gradients, by one more backward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..autograd.holdings import values_kept
from ..core import engine
from ..core.leaves import AccumulateGrad
from ..core.nodes import Freed, Output, wrap
from ..core.pruning import reach
from ..core.views import edge_of
from ..errors import describe


class Measured(NamedTuple):
    """A node's result, the norm of its gradient, and what it saves, in words."""

    shape: str = ""
    norm: float | None = None
    values: str = ""


def behind(loss: Any) -> tuple[Any, list[Any], list[Any]]:
    """Return the node of a loss, all nodes behind it, and the leaves in which these end."""
    root = edge_of(loss)
    nodes = [] if root is None else [n for n in reach([root]) if type(n) is not Output]
    leaves = list(dict.fromkeys(e for n in nodes for e in n.edges if type(e) is AccumulateGrad))
    return root, nodes, leaves


def measured(loss: Any, most: int = 2000) -> dict[Any, Measured]:
    """Return what a pass shows of each node; of a freed graph only the leaves. Every `.grad` stays as it is."""
    root, nodes, leaves = behind(loss)
    found = {n: Measured(describe(wrap(n.array))) for n in leaves}
    if root is None or type(root) is AccumulateGrad or any(type(n.saved) is Freed for n in nodes):
        return found
    handles = [n.register_hook(_noting(n, found, len(nodes) <= most)) for n in nodes]
    try:
        ones = np.ones(loss.array.shape, loss.array.dtype)
        gradients = engine.backward([root], [ones], True, False, leaves, accumulating=False)
    finally:
        for handle in handles:
            handle.remove()
    for leaf, g in zip(leaves, gradients, strict=True):
        found[leaf] = found[leaf]._replace(norm=None if g is None else _norm(g), values=_range(leaf.array))
    return found


def _noting(node: Any, found: dict[Any, Measured], with_values: bool) -> Callable[..., None]:
    def hook(grad_inputs: Any, grad_outputs: Any) -> None:
        given = [g for g in grad_outputs if g is not None]
        if given:
            values = "; ".join(f"{name} {_range(v)}" for name, v in values_kept(node)) if with_values else ""
            found[node] = Measured(describe(given[0]), _norm(given[0].array), values[:200])

    return hook


def _norm(g: Any) -> float:
    return float(np.sqrt(np.sum(np.abs(np.asarray(getattr(g, "array", g), np.complex128)) ** 2).real))


def _range(array: Any) -> str:
    if not isinstance(array, np.ndarray) or not array.size or array.dtype.kind not in "biuf":
        return ""
    if array.size <= 4:
        return str([round(float(v), 4) for v in array.ravel()])
    return f"{float(array.min()):.4g} to {float(array.max()):.4g}, mean {float(array.mean()):.4g}"
