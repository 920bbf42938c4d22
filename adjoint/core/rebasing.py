"""How a write changes the history of a tensor: its node, or, for a view, `CopySlices` at the base.

`CopySlices` splits the incoming gradient: the written part goes through the op, the other part passes it by.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from .._typing import Value
from . import modes
from .nodes import Node, Special, new_node, registry, verify_saved
from .payload import top_payload
from .tensor import STALE, TensorBase, ledger_of, mark_stale, retain_later, storage_of
from .views import edge_of, move_retain, replayed, way_from_base
from .writable import OVERLAPPING


def with_part(base: Value, replay: tuple[Any, ...], part: Value) -> Any:
    """Return a tensor equal to `base` but for the part that a view looks at."""
    shape = tuple(base.shape)
    places = np.arange(math.prod(shape)).reshape(shape)
    for op, params in replay:
        places = replayed(op, places, params)
    if np.unique(places).size < places.size:
        raise RuntimeError(OVERLAPPING)
    reshape, count = registry["reshape"].call, math.prod(part.shape)
    flat = reshape(base, (math.prod(shape),))
    return reshape(registry["index_copy"].call(flat, reshape(part, (count,)), places.reshape(-1), 0), shape)


class CopySlices(Node):
    """A write into a view, as its base sees it: the written part's gradient goes through the op."""

    __slots__ = ("inner", "replay", "slot", "strides")

    inner: Node
    replay: tuple[Any, ...]
    slot: int
    strides: tuple[int, ...]

    def lifted(self) -> tuple[Any, ...] | None:
        """Return what the op saved, as tensors."""
        # What the op saved is stored here, so that freeing this node frees it.
        self.inner.saved = self.saved
        try:
            return self.inner.lifted()
        finally:
            self.inner.saved = None

    def verify(self) -> None:
        """Raise if a value that the op saved was written since."""
        verify_saved(self.inner, self.saved)


def _run_copy_slices(self: Any, g: Value, edges: tuple[Any, ...], saved: Sequence[Any]) -> tuple[Any, ...]:
    inner, slot = self.inner, self.slot
    if modes.unusual and top_payload((g,)) is not None:
        return _run_copy_slices_on_payload(self, g, edges, saved)
    whole = registry["copy_strided"].call(g, self.strides)
    recorded = isinstance(whole, TensorBase)
    part = whole
    for op, params in self.replay:
        part = op.call(part, *params)
    part_g = part.clone() if recorded else part.copy()
    others = iter(edges[1:])
    inner_edges = tuple(edges[0] if i == slot else next(others) for i in range(len(inner.edges)))
    results = list(inner.op.run(inner, part_g, inner_edges, saved))
    gone = results.pop(slot)
    if edges[0] is None:
        return (None, *results)
    if recorded:
        part.zero_() if gone is None else part.copy_(gone)
    else:
        part[...] = 0 if gone is None else gone
    return (whole, *results)


def _run_copy_slices_on_payload(self: Any, g: Value, edges: tuple[Any, ...], saved: Sequence[Any]) -> tuple[Any, ...]:
    inner, slot = self.inner, self.slot
    part = g
    for op, params in self.replay:
        part = replayed(op, part, params)
    others = iter(edges[1:])
    inner_edges = tuple(edges[0] if i == slot else next(others) for i in range(len(inner.edges)))
    results = list(inner.op.run(inner, part, inner_edges, saved))
    gone = results.pop(slot)
    if edges[0] is None:
        return (None, *results)
    return (with_part(g, self.replay, part * 0 if gone is None else gone), *results)


def _refuse_overlap(*arguments: object) -> NoReturn:
    raise RuntimeError(OVERLAPPING)


_copies = Special("CopySlices", _run_copy_slices)
copies_overlapping = Special("CopySlices", _refuse_overlap)


def rebase(x: TensorBase, node: Node, slot: int, output: object = None) -> None:
    """Make `node` the history of `x`, which was just written; `slot` is the input that `x` was."""
    if x.lineage is None:
        move_retain(x, x.node, node)
        x.node = node if output is None else output
    else:
        base: Any = x.lineage.base
        written = _copy_slices(base, x, node, slot)
        move_retain(base, base.node, written)
        base.node = written
        if x.node is not STALE:
            retain_later(x)
            x.node = STALE
        x.lineage.bare = False
    mark_stale(x, ledger_of(storage_of(x)))


def _copy_slices(base: TensorBase, x: TensorBase, inner: Node, slot: int) -> CopySlices:
    assert x.lineage is not None
    edges = (edge_of(base), *(e for i, e in enumerate(inner.edges) if i != slot))
    node: CopySlices = new_node(_copies, edges, inner.saved, inner, CopySlices)
    inner.saved = None
    node.inner, node.slot, node.replay = inner, slot, way_from_base(x)
    node.strides = tuple(base.array.strides)
    return node
