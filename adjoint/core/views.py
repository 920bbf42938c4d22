"""Views: the edge of a tensor, and how a view's history is rebuilt after a write to its base."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from . import modes
from .nodes import Node, extra_of, hidden, output_index, registry, shown
from .payload import Payload
from .tensor import STALE, TensorBase, View, ledger_of, retaining, storage_of

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
        raise RuntimeError(refused_view(x, indirectly=True))
    if base.node is None and not transformed:
        x.node = None
    elif transformed or x.array.dtype != base.array.dtype:
        fresh = _replayed_all(base, view.replay)
        x.node = fresh.node
        if transformed:
            x.array = fresh.array
    else:
        x.node = _as_strided_node(x, base)
    if retaining and retaining.pop(id(x), None) is not None and x.node is not None:
        extra_of(x.node).retain = weakref.ref(x)
    watch_base(x)
    return x.node


def watch_base(x: TensorBase) -> None:
    """Note that the history of a view is up to date, so that the next write makes it stale."""
    ledger_of(storage_of(x)).fresh.append(weakref.ref(x))


def _replayed_all(base: Any, replay: tuple[Any, ...]) -> Any:
    was = modes.local.grad
    modes.set_grad(True)
    try:
        for op, params in replay:
            base = replayed(op, base, params)
        return base
    finally:
        modes.set_grad(was)


def _as_strided_node(x: Any, base: Any) -> Any:
    """Return the node that leads from a base to its view, however many ops once did."""
    from .primitive import build_node

    item, (here, there) = x.array.itemsize, (_address(a) for a in (base.array, x.array))
    strides, own = (tuple(s // item for s in a.strides) for a in (x.array, base.array))
    params = (tuple(x.array.shape), strides, (there - here) // item, own)
    return build_node(registry["as_strided"], (base.node,), (base,), (base.array,), params, x.array)


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0] if isinstance(array, ndarray) else array.data.ptr)


def replayed(op: Any, base: Any, params: tuple[Any, ...]) -> Any:
    """Return the view that an op makes; of several, the one whose number comes after its parameters."""
    return op.call(base, *params[:-1])[params[-1]] if op.outputs else op.call(base, *params)


_WHY = {
    View.MULTIPLE: (
        "This view is the output of a function that returns multiple views. Such functions do not allow the output "
        "views to be modified inplace. You should replace the inplace operation by an out-of-place one."
    ),
    View.NO_GRAD: (
        "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving "
        "both the view and the inplace either both inside the no_grad block (if you don't want the inplace to be "
        "tracked) or both outside (if you want the inplace to be tracked)."
    ),
    View.INFERENCE: (
        "Given that this use case is ambiguous and error-prone, it is forbidden. You can clarify your code by moving "
        "both the view and the inplace either both inside the inference_mode block (if you don't want the inplace to "
        "be tracked) or both outside (if you want the inplace to be tracked)."
    ),
    View.CUSTOM: (
        "This view was created inside a custom Function (or because an input was returned as-is) and the autograd "
        "logic to handle view+inplace would override the custom backward associated with the custom Function, "
        "leading to incorrect gradients. This behavior is forbidden. You can fix this by cloning the output of the "
        "custom Function."
    ),
}


def refused_view(x: TensorBase, indirectly: bool) -> str:
    """Return the sentence that refuses a write to a view of this kind, or to its base."""
    view = x.lineage
    assert view is not None
    written = "and its base or another view of its base has been" if indirectly else "and is being"
    maker = _maker(x)
    if view.kind in (View.NO_GRAD, View.INFERENCE) or not maker:
        made = f"{maker} is a view of a view which was created in" if maker else "A view was created in"
        mode, other = (
            ("inference", "in normal mode") if view.kind == View.INFERENCE else ("no_grad", "with grad mode enabled")
        )
        what = f"{made} {mode} mode {written} modified inplace {other}."
    else:
        what = f"{maker} is a view {written} modified inplace."
    return f"{what} {_WHY[view.kind]}"


def _maker(x: TensorBase) -> str:
    """Return which output of which op a view is, if a recorded one."""
    node, view = x.node, x.lineage
    assert view is not None
    if hasattr(view, "maker"):
        return str(view.maker)
    if isinstance(node, Node) and node is not hidden and node.edges:
        return f"Output {output_index(node)} of {shown(node).name().removesuffix('Backward0')}"
    if node is STALE and view.kind in (View.MULTIPLE, View.CUSTOM) and view.replay:
        op, params = view.replay[-1]
        return f"Output {params[-1] if op.outputs else 0} of {op.title.removesuffix('Backward0')}"
    return ""


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
        view.kind = kind or source.kind  # of a view of a view, the later mode counts, if it is no usual one
    out.memory = storage = x.memory or storage_of(x)
    ledger = storage.ledger or ledger_of(storage)
    fresh = ledger.fresh
    if len(fresh) > ledger.limit:
        ledger.fresh = fresh = [r for r in fresh if r() is not None]
        ledger.limit = 64 + 2 * len(fresh)  # so that many living views are not gone through again and again
    fresh.append(weakref.ref(out))


def show_views(base: TensorBase, before: Any, after: Any) -> None:
    """Let the unrecorded views of a leaf that starts or stops requiring a gradient do so too."""
    ledger = None if base.memory is None else base.memory.ledger
    for ref in () if ledger is None else ledger.fresh:
        view = ref()
        if view is not None and view.node is before and view.lineage is not None and view.lineage.base is base:
            view.node = after
