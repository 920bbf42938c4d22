"""A batch of gradients in one backward pass: the batch axis is hidden inside the values."""

from __future__ import annotations

from typing import Any

from ..core import engine, modes
from ..core.nodes import wrap
from ..core.observation import lifting
from ..core.payload import Level, entered
from ..payloads.batched import Batched


def grad_batched(nodes: Any, wanted: Any, gs: Any, keep: bool, lift: bool) -> list[Any]:
    """Return gradients with a leading axis, one entry per entry of the leading axis of `gs`."""
    lift = lifting(lift) if modes.unusual else lift
    sizes = [g.array.shape[0] if g.array.ndim else None for g in gs]
    if None in sizes or len(set(sizes)) > 1:
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, the first of each grad_output, "
            f"got sizes {sizes} for the mapped dimension: is_grads_batched=True needs grad_outputs with one"
        )
    with entered(Level()) as level:
        starts = [wrap(Batched(g, level)) if lift else Batched(g.array, level) for g in gs]
        found = engine.backward(nodes, starts, keep, lift, wanted, accumulating=False)
        size = gs[0].array.shape[0]
        return [None if g is None else _opened(g, level, lift, size) for g in found]


def _opened(g: Any, level: int, lift: bool, size: int) -> Any:
    """Return a gradient with its batch axis visible."""
    value = g.array if lift else g
    if isinstance(value, Batched) and value.level == level:
        return value.value if lift else wrap(value.value)
    from ..ops.shape import expand_p, reshape_p

    shape = tuple(g.shape)
    spread = expand_p(reshape_p(g, (1, *shape)), (size, *shape))
    return spread if lift else wrap(spread)
