"""The nodes of torch's batched matrix multiplication: views and copies around one product of matrices.

Here `matmul` is one op. Code that walks its graph finds torch's nodes; nothing here runs before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._typing import Array, Value
from ..core.folding import Unfolded, run_shadow, shaping, split
from ..core.nodes import Node, Special, saved_arrays
from ..core.saved import saved_input
from .contraction import whole


def _run_swapped(node: Node, g: Value, edges: tuple[Any, ...], saved: Any) -> tuple[Any, ...]:
    return run_shadow(node, g, edges[::-1], saved)[::-1]


def _matrices(x: Value, rank: int) -> Value:
    return x if x is None or x.ndim <= rank else x.reshape(-1, *x.shape[1 - rank :])


def _product(title: str, second: str, swapped: bool) -> Special:
    """Return the op of a product that is shown between views, with what torch shows of its operands."""
    rank = 3 if title == "BmmBackward0" else 2
    names = (second, "self") if swapped else ("self", second)
    turned = [swapped and name == "self" for name in names]
    shown = {
        f"_saved_{name}": property(
            lambda node, i=i, t=t: _operand(saved_input(node, i), rank, t)  # type: ignore[misc]
        )
        for i, (name, t) in enumerate(zip(names, turned, strict=True))
    }
    return Special(title, _run_swapped if swapped else run_shadow, Unfolded, shown)


def _operand(x: Any, rank: int, turned: bool) -> Any:
    return x if x is None else _matrices(x.mT if turned else x, rank)


_BMM = _product("BmmBackward0", "mat2", False)
_MM = _product("MmBackward0", "mat2", False)
_MV = _product("MvBackward0", "vec", False)
_SWAPPED_MM = _product("MmBackward0", "mat2", True)
_SWAPPED_MV = _product("MvBackward0", "vec", True)


def split_product(node: Node) -> None:
    """Show the views and copies that torch makes of operands and result."""
    if node in whole or type(node.saved) is not tuple:
        return
    saved = dict(saved_arrays(node, node.saved))
    if not saved or not all(type(a) is np.ndarray for a in saved.values()):
        return
    x, y = (saved.get(i, getattr(e, "array", None)) for i, e in enumerate(node.edges))
    x, y = (_likely(y, False) if x is None else x), (_likely(x, True) if y is None else y)
    ahead, op, left, right = _steps(x, y)
    shapes = [saved[i].shape if i in saved else None for i in (0, 1)]  # a leaf may have got another shape since
    operands = list(zip(node.edges, (left, right), shapes, strict=True))
    if op in (_SWAPPED_MM, _SWAPPED_MV):
        operands.reverse()
    split(node, ahead[0], op, None, (_before(node, *operands[0], 0.75), _before(node, *operands[1], 0.5)))
    for i, title in enumerate(reversed(ahead[1:])):
        node.edges = (shaping(node, title, node.edges[0], None, 0.1 - i / 32),)


def _likely(other: Any, last: bool) -> Array:
    """Return an operand like the one that is not known: it is not saved, since the other one needs no gradient."""
    if other.ndim > 2:
        return np.empty((*other.shape[:-2], 1, 1))
    return np.empty((1, 1) if last and other.ndim == 1 else (2, 1, 1))


def _steps(x: Value, y: Value) -> tuple[list[str], Special, list[str], list[str]]:
    """Return the names of the nodes before a product, the product, and the names of the nodes after it, by operand."""
    one_x, one_y = x.ndim == 3 and x.shape[0] == 1, y.ndim == 3 and y.shape[0] == 1
    if x.ndim == 1 and y.ndim == 2:
        return ["SqueezeBackward4"], _MM, ["UnsqueezeBackward0"], []
    if x.ndim > 2 and (y.ndim < 3 or (x.ndim == 3 and one_y and not one_x)):
        return ["UnsafeViewBackward0"], _MV if y.ndim == 1 else _MM, _flattening(x, 2), ["SqueezeBackward1"] * one_y
    if y.ndim > 2 and (x.ndim < 3 or (y.ndim == 3 and one_x and not one_y)):
        turned = [*_flattening(y.swapaxes(-1, -2), 2), "TransposeBackward0"]
        if x.ndim == 1:
            return ["UnsafeViewBackward0"], _SWAPPED_MV, [], turned
        ahead = ["CloneBackward0", "TransposeBackward0", "UnsafeViewBackward0"]
        return ahead, _SWAPPED_MM, ["TBackward0", *["SqueezeBackward1"] * one_x], turned
    lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    left, right = (np.broadcast_to(a, (*lead, *a.shape[-2:])) for a in (x, y))
    return (
        ["UnsafeViewBackward0"], _BMM, [*_flattening(left, 3), "ExpandBackward0"],
        [*_flattening(right, 3), "ExpandBackward0"],
    )  # fmt: skip


def _flattening(x: Any, rank: int) -> list[str]:
    """Return the names of what torch records for a reshape of `x` to fewer dimensions, the last first."""
    if x.flags.c_contiguous:
        return ["ViewBackward0"]
    flat = (math.prod(x.shape[: 1 - rank]), *x.shape[1 - rank :])
    viewed = x.reshape(flat)
    return ["ReshapeAliasBackward0"] if np.may_share_memory(viewed, x) else ["UnsafeViewBackward0", "CloneBackward0"]


def _before(node: Node, edge: Any, titles: Sequence[str], shape: tuple[int, ...] | None, after: float) -> Any:
    """Return an edge with the nodes before it that a gradient passes."""
    for i, title in enumerate(reversed(titles)):
        edge = None if edge is None else shaping(node, title, edge, shape, after - i / 16)
    return edge
