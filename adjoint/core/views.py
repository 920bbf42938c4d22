"""Views: the edge of a tensor, and how a view's history is rebuilt after a write to its base."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._typing import Array, Op, Value
from . import modes
from .nodes import Hidden, Node, extra_of, output_index, registry, reshaped, shown
from .payload import Payload, history_below
from .tensor import STALE, TensorBase, View, ledger_of, owner_of, retaining, storage_of

ndarray = np.ndarray


def edge_of(x: TensorBase) -> Any:
    """Return the node that the tensor's gradient goes to, rebuilt first if a write made it stale."""
    node = x.node
    return refresh(x) if node is STALE else node


def has_history(x: TensorBase) -> bool:
    """Return whether a gradient flows to a tensor, or to what it is below a transform, whatever programs see there."""
    return edge_of(x) is not None or history_below(x) is not None


def refresh(x: TensorBase) -> Any:
    """Rebuild the history of a view from its base, whose history an in-place write has changed."""
    if x.node is not STALE:  # both operands of an op are one view: it has one history
        return x.node
    view = x.lineage
    assert view is not None
    base: Any = view.base
    transformed = isinstance(base.array, Payload)  # whose views are new values, not a look at its memory
    if view.kind != View.NORMAL and not transformed:
        raise RuntimeError(refused_view(x, indirectly=True))
    if base.node is None and not transformed and x.array.dtype != base.array.dtype:
        x.node = None
    elif transformed or x.array.dtype != base.array.dtype:
        changed = not transformed and view.steps[1] not in (registry["view_as_real"], registry["view_as_complex"])
        fresh = replayed_all(base, way_from_base(x, changed))
        x.node = fresh.node
        if transformed:
            x.array = fresh.array
    else:
        x.node = _as_strided_node(x, base)
    if retaining and retaining.pop(id(x), None) is not None and x.node is not None:
        extra_of(x.node).retain = weakref.ref(x)
    watch_base(x)
    return x.node


def expect_shape(x: TensorBase, shape: Sequence[int]) -> None:
    """Let the history of a tensor that is about to get a `shape` unrecorded refuse gradients of that, if another."""
    node: Any = x.node
    if tuple(shape) == tuple(x.array.shape):
        return
    if x.lineage is None and isinstance(node, Node) and node.edges and not isinstance(x.array, Payload):
        x.node = reshaped(node, tuple(x.array.shape))
        move_retain(x, node, x.node)


def move_retain(x: TensorBase, old: object, new: Node) -> None:
    """Let the new history of a tensor fill its ``.grad``, if the program called ``retain_grad()``."""
    if isinstance(old, Node) and old.extra is not None and old.extra.retain is not None:
        if old.extra.retain() is x:
            extra_of(new).retain = old.extra.retain
            old.extra.retain = None


def leave_base(x: TensorBase, seen: TensorBase) -> View:
    """Let the views of a tensor that gets another shape inside vmap look at what it was, and so does the tensor itself.

    There is no memory by which a view and its base, once of another shape, could find each other.
    """
    ledger = ledger_of(storage_of(x))
    base = TensorBase.__new__(type(x))
    base.array, base.node, base.memory, base.lineage, base._grad = x.array, x.node, x.memory, None, None
    for ref in ledger.fresh:
        view = ref()
        if view is not None and view.lineage is not None and view.lineage.base is x:
            view.lineage.base, view.lineage.epoch = base, ledger.epoch
    assert seen.lineage is not None  # a view of `x`
    new = View(base, seen.lineage.steps, View.NORMAL)
    new.epoch = ledger.epoch
    return new


def watch_base(x: TensorBase) -> None:
    """Note that the history of a view is up to date, so that the next write makes it stale."""
    fresh = ledger_of(storage_of(x)).fresh
    if not isinstance(x.array, Payload) or not any(ref() is x for ref in fresh):
        fresh.append(weakref.ref(x))


def replayed_all(base: Array, replay: tuple[Any, ...]) -> Any:
    """Return what all ops of a replay make of a base, recorded."""
    was = modes.local.grad
    modes.set_grad(True)
    try:
        for op, params in replay:
            base = replayed(op, base, params)
        return base
    finally:  # by stores: see modes.py
        modes.off[modes.local.key], modes.local.grad = None, was
        if was:
            modes.off.pop(modes.local.key, None)


def _as_strided_node(x: TensorBase, base: TensorBase) -> Any:
    """Return the node that leads from a base to its view, however many ops once did."""
    from .general import build_node

    if _reshaped(x):
        _check_covered(base.array, x.array)
    params = _strided(base.array, x.array, x.array.itemsize)
    edge = base.node or Hidden()  # a base that was detached since has nowhere to pass a gradient on to
    return build_node(registry["as_strided"], (edge,), (base,), (base.array,), params, x.array)


_LONG = 16  # ops from a base to a view above which one `as_strided` takes the place of all


def way_from_base(x: TensorBase, short: bool = False, memory: tuple[Any, Any] | None = None) -> tuple[Any, ...]:
    """Return the ops, with parameters, that lead from the base of a view to it.

    These are the ops that made it, unless they are many, a tensor of this memory has been given another geometry
    since, or a `short` way is wanted. Then the geometry that base and view have now says which elements the view looks
    at; their arrays are given by `memory` where they are not their values.
    """
    view = x.lineage
    assert view is not None
    base, own = (view.base.array, x.array) if memory is None else memory
    changed = _reshaped(x)
    if isinstance(base, Payload) and changed and not base.by_value:
        base, own = base.memory(), own.memory() if isinstance(own, Payload) else own
    long = not changed and view.is_longer(_LONG)
    if isinstance(base, Payload) or not (changed or short or long):
        return view.replay
    if changed:
        _check_covered(base, own)
    as_strided = registry["as_strided"]
    if not (changed or long):
        return _last_strided(view.replay, base, own)
    if own.dtype == base.dtype:
        return ((as_strided, _strided(base, own, own.itemsize)),)
    if base.dtype.kind == "c" and own.dtype.itemsize * 2 == base.dtype.itemsize:
        shape, strides, shift, lies = _strided(base, own, own.itemsize)
        return (registry["view_as_real"], ()), (as_strided, (shape, strides, shift, (*lies, 1)))
    if own.dtype.kind == "c" and base.dtype.itemsize * 2 == own.dtype.itemsize:
        shape, strides, shift, lies = _strided(base, own, base.itemsize)
        return (as_strided, ((*shape, 2), (*strides, 1), shift, lies)), (registry["view_as_complex"], ())
    return view.replay


def _last_strided(replay: tuple[Any, ...], base: Array, own: Array) -> tuple[Any, ...]:
    """Return the ops up to the one that changes the dtype, and one for all after it."""
    seen, end = base, 0
    for i, (op, params) in enumerate(replay):
        after = replayed(op, seen, params)
        end = i + 1 if after.dtype != seen.dtype else end
        seen = after
    for op, params in replay[:end]:
        base = replayed(op, base, params)
    return (*replay[:end], (registry["as_strided"], _strided(base, own, own.itemsize)))


def _reshaped(x: TensorBase) -> bool:
    """Return whether a view or its base has another geometry, or other memory, than when the view was made."""
    view, storage = x.lineage, x.memory
    assert view is not None
    if storage is None or storage is not view.base.memory or storage.ledger is None:
        return True
    return view.epoch != storage.ledger.epoch


def _strided(base: Array, own: Array, item: int) -> tuple[Any, ...]:
    """Return the parameters of `as_strided`, in elements of `item` bytes, that lead from `base` to `own`."""
    strides, lies = (tuple(s // item for s in a.strides) for a in (own, base))
    return tuple(own.shape), strides, (_offset(own) - _offset(base)) // item, lies


def _check_covered(base: Array, own: Array) -> None:
    """Raise if a view looks at memory outside its base, as one does whose base was made smaller in place.

    torch uses a gradient of zero where the base no longer reaches, or whatever the memory there contains.
    """
    if not _is_covered(base, own):
        raise RuntimeError(
            "a view looks at elements that its base does not have, because as_strided() reached beyond it or its shape "
            "or memory was changed in place since, so that their history is not known. Make the view again from a "
            "tensor that has them, or clone() it before."
        )


def _is_covered(base: Array, own: Array) -> bool:
    if own.size == 0:
        return True
    start = _offset(own) - _offset(base)
    end = start + _extent(own)
    apart = all(s > 0 for s, n in zip(base.strides, base.shape, strict=True) if n > 1)  # no two elements at one place
    if apart and _extent(base) == base.size * base.itemsize and start >= 0 and end <= _extent(base):
        return True
    return bool(apart and np.isin(_places(own, start), _places(base, 0)).all())


def note_reach(x: TensorBase) -> None:
    """Let a view by any strides have a history of its base only where it looks at nothing else."""
    view = x.lineage
    if view is None or type(x.array) is not ndarray or type(view.base.array) is not ndarray:
        return
    base = view.base.array
    if not (base.base is None and base.flags.forc) and not _is_covered(base, x.array):  # else it has all of the memory
        view.epoch = -1


def _extent(array: Array) -> int:
    return int(sum(abs(s) * (n - 1) for s, n in zip(array.strides, array.shape, strict=True)) + array.itemsize)


def _places(array: Array, start: int) -> np.ndarray[Any, Any]:
    """Return the places of an array's bytes, relative to those of another."""
    places = start + np.arange(array.itemsize)
    for n, s in zip(array.shape, array.strides, strict=True):
        places = (places[:, None] + s * np.arange(n)).reshape(-1)
    return places


def _offset(array: Array) -> int:
    """Return where an array starts in the memory that it looks at, in bytes."""
    return _address(array) - _address(owner_of(array))


def _address(array: Any) -> int:
    return int(array.__array_interface__["data"][0] if isinstance(array, ndarray) else array.data.ptr)


def replayed(op: Op, base: Value, params: tuple[Any, ...]) -> Any:
    """Return the view that an op makes; of several, the one whose number comes after its parameters."""
    return op.call(base, *params[:-1])[params[-1]] if op.outputs else op.call(base, *params)


class _Detach:
    """How a tensor without history comes from another inside a transform: in `View.steps`, as an op is."""

    outputs = ()
    title = "Detach"

    @staticmethod
    def call(value: object) -> Any:
        return value.detach() if isinstance(value, TensorBase) else value  # type: ignore[attr-defined]


_detach = _Detach()


def note_detached(out: TensorBase, x: TensorBase) -> None:
    """Let `out`, which has the value of `x` inside a transform but not its history, see what is written to `x`."""
    note_view(out, x, _detach, (), View.NORMAL)


def is_detached(view: View) -> bool:
    """Return whether a view has no part in the history of its base."""
    return any(op is _detach for op, _ in view.replay)


def is_detached_itself(view: View) -> bool:
    """Return whether what was detached, and nothing after that, made the view."""
    return view.steps[1] is _detach


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
    made = getattr(view, "maker", "")
    if isinstance(made, str) and made:
        return made
    node = made or node
    if isinstance(node, Node) and node.edges:
        return f"Output {output_index(node)} of {shown(node).op.title.rstrip('0123456789').removesuffix('Backward')}"
    return ""


def shares(a: Array, b: Array) -> bool:
    """Return whether `a`, just made from `b` by a viewing kernel, looks at its memory."""
    if type(a) is not ndarray:
        if not isinstance(a, Payload):
            return True
        a, b = a.memory(), b.memory() if isinstance(b, Payload) else b
        if type(a) is not ndarray or type(b) is not ndarray:
            return True
    base = a.base
    # Memory that was just allocated shares nothing with any other array.
    return a is b or (base is not None and (base is b or base is b.base or bool(np.may_share_memory(a, b))))


_new: Callable[..., Any] = object.__new__


def note_view(out: TensorBase, x: TensorBase, op: Any, params: tuple[Any, ...], kind: int) -> None:
    """Make `out` a view of `x`: shared storage, the way to replay it, a place in the ledger."""
    source = x.lineage
    out.lineage = view = _new(View)  # without __init__: every view passes here
    if source is None:
        view.base, view.steps, view.kind = x, (None, op, params), kind
        out.memory = storage = x.memory or storage_of(x)
        ledger = storage.ledger or ledger_of(storage)
        view.epoch = ledger.epoch
    else:
        view.base, view.steps = source.base, (source.steps, op, params)
        # Of a view of a view, the later mode counts, unless it is the normal one; inference mode always.
        view.kind = kind or source.kind if source.kind != View.INFERENCE else View.INFERENCE
        view.epoch = source.epoch
        out.memory = storage = x.memory or storage_of(x)
        ledger = storage.ledger or ledger_of(storage)
    fresh = ledger.fresh
    if len(fresh) > ledger.limit:
        ledger.fresh = fresh = [r for r in fresh if r() is not None]
        ledger.of = 0, 0
        ledger.limit = 64 + 2 * len(fresh)  # so that many living views are not gone through again and again
    fresh.append(weakref.ref(out))


def unrecorded_view(x: TensorBase) -> Node | None:
    """Return the node of a view that was made unrecorded: it requires a gradient as long as its base does."""
    return None if x.lineage is None or x.lineage.base.node is None else Hidden()


def show_views(base: TensorBase, requires_grad: bool) -> None:
    """Let the unrecorded views of a leaf that starts or stops requiring a gradient do so too."""
    ledger = None if base.memory is None else base.memory.ledger
    if ledger is not None:
        ledger.cut = ledger.cut or not requires_grad
    for ref in () if ledger is None else ledger.fresh:
        view = ref()
        if view is None or view.lineage is None or view.lineage.base is not base:
            continue
        if requires_grad and view.node is None:
            view.node = Hidden()
        elif not requires_grad and type(view.node) is Hidden:
            view.node = None
    for ref in () if ledger is None else ledger.bare:
        view = ref()
        if view is not None and view.lineage is not None and view.lineage.base is base and view.lineage.bare:
            if view.node is (None if requires_grad else STALE):
                view.node = STALE if requires_grad else None
