"""Many gradients in one backward pass: the batch axis is hidden inside the values."""

from __future__ import annotations

from typing import Any

from ..core import engine, modes
from ..core.nodes import wrap
from ..core.observation import lifting
from ..core.payload import Level
from ..payloads.batched import Batched
from .differentiate import _check_gradient, _input_node, _root_of


def grad_batched(outs: Any, ins: Any, gs: Any, keep: bool, lift: bool) -> list[Any]:
    """Return gradients with a leading axis, one entry per entry of the leading axis of `gs`."""
    lift = lifting(lift) if modes.unusual else lift
    nodes = [_root_of(t, i) for i, t in enumerate(outs)]
    wanted = [_input_node(x, i) for i, x in enumerate(ins)]
    for index, (root, g) in enumerate(zip(outs, gs, strict=True)):
        if g is None:
            raise RuntimeError("is_grads_batched=True needs grad_outputs, each with a leading batch dimension")
        _check_gradient(root, g, index, batched=True)
    with Level() as level:
        starts = [wrap(Batched(g, level)) if lift else Batched(g.array, level) for g in gs]
        found = engine.backward(nodes, starts, keep, lift, wanted, accumulating=False)
        size = gs[0].array.shape[0]
        return [None if g is None else _opened(g, level, lift, size) for g in found]


def _opened(g: Any, level: int, lift: bool, size: int) -> Any:
    """Return a gradient with its batch axis in sight."""
    value = g.array if lift else g
    if isinstance(value, Batched) and value.level == level:
        return value.value if lift else wrap(value.value)
    from ..ops.shape import expand_p, reshape_p

    shape = tuple(g.shape)
    spread = expand_p(reshape_p(g, (1, *shape)), (size, *shape))
    return spread if lift else wrap(spread)
