"""Views: the edge of a tensor, and how a view's history is rebuilt after a write to its base."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from . import modes
from .nodes import Node, output_index, shown
from .payload import Payload
from .tensor import STALE, TensorBase, View, ledger_of, storage_of

ndarray = np.ndarray


def edge_of(x: TensorBase) -> Any:
    """Return the node that the tensor's gradient goes to, rebuilt first if a write made it stale."""
    node = x.node
    return refresh(x) if node is STALE else node


def refresh(x: TensorBase) -> Any:
    """Rebuild the history of a view from its base, whose history an in-place write has changed."""
    view = x.lineage
    assert view is not None
    base: Any = view.base
    transformed = isinstance(base.array, Payload)  # whose views are new values, not a look at its memory
    if view.kind in (View.NO_GRAD, View.MULTIPLE, View.CUSTOM) and not transformed:
        raise RuntimeError(refused_view(x, "and its base or another view of its base has been modified inplace"))
    was = modes.local.grad
    modes.set_grad(True)
    try:
        if base.node is STALE:
            refresh(base)
        fresh: Any = base
        for op, params in view.replay:
            fresh = replayed(op, fresh, params)
    finally:
        modes.set_grad(was)
    x.node = fresh.node
    if transformed:
        x.array = fresh.array
    ledger_of(storage_of(x)).fresh.append(weakref.ref(x))
    return x.node


def replayed(op: Any, base: Any, params: tuple[Any, ...]) -> Any:
    """Return the view that an op makes; of several, the one whose number comes after its parameters."""
    return op.call(base, *params[:-1])[params[-1]] if op.outputs else op.call(base, *params)


def refused_view(x: TensorBase, what: str) -> str:
    """Return the sentence that refuses a write to, or through, a view of this kind."""
    view = x.lineage
    assert view is not None
    node = x.node
    made_by = (
        "A view" if not isinstance(node, Node) else f"Output {output_index(node)} of {shown(node).name()} is a view"
    )
    if view.kind == View.MULTIPLE:
        return (
            f"{made_by if made_by != 'A view' else 'Output 0 of a function is a view'} {what}. This view is the "
            "output of a function that returns multiple views. Such functions do not allow the output views "
            "to be modified inplace. You should replace the inplace operation by an out-of-place one."
        )
    if view.kind == View.NO_GRAD:
        return (
            f"A view was created in no_grad mode {what} with grad mode enabled. Given that this use case is "
            "ambiguous and error-prone, it is forbidden. You can clarify your code by moving both the view "
            "and the inplace either both inside the no_grad block (if you don't want the inplace to be "
            "tracked) or both outside (if you want the inplace to be tracked)."
        )
    if view.kind == View.INFERENCE:
        return (
            f"A view was created in inference mode {what} in normal mode. Make the view outside "
            "inference_mode, or clone it first."
        )
    return (
        f"{made_by} {what}. This view was created inside a custom Function (or because an input was returned "
        "as-is) and the autograd logic to handle view+inplace would override the custom backward associated "
        "with the custom Function, leading to incorrect gradients. This behavior is forbidden. You can fix "
        "this by cloning the output of the custom Function."
    )


def shares(a: Any, b: Any) -> bool:
    """Return whether `a`, just made from `b` by a viewing kernel, looks at its memory."""
    if type(a) is not ndarray:
        if not isinstance(a, Payload):
            return True
        a, b = a.memory(), b.memory() if isinstance(b, Payload) else b
        if type(a) is not ndarray or type(b) is not ndarray:
            return True
    base = a.base
    # Memory that was just allocated lies apart from every array's.
    return a is b or (base is not None and (base is b or base is b.base or bool(np.may_share_memory(a, b))))


_new: Callable[..., Any] = object.__new__


def note_view(out: TensorBase, x: TensorBase, op: Any, params: tuple[Any, ...], kind: int) -> None:
    """Make `out` a view of `x`: shared storage, the way to replay it, a place in the ledger."""
    source = x.lineage
    out.lineage = view = _new(View)  # without __init__: every view passes here
    if source is None:
        view.base, view.replay, view.kind = x, ((op, params),), kind
    else:
        view.base, view.replay = source.base, (*source.replay, (op, params))
        view.kind = kind if kind > source.kind else source.kind
    out.memory = storage = x.memory or storage_of(x)
    ledger = storage.ledger or ledger_of(storage)
    fresh = ledger.fresh
    if len(fresh) > ledger.limit:
        ledger.fresh = fresh = [r for r in fresh if r() is not None]
        ledger.limit = 64 + 2 * len(fresh)  # so that many living views are not gone through again and again
    fresh.append(weakref.ref(out))
