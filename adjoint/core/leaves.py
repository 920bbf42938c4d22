"""The leaves of the graph: where a backward pass ends, and how gradients get into ``.grad``."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from .._typing import Array, DType, Value
from ..devices import forks
from ..devices.contract import by_class
from ..devices.cpu.copying import copied
from ..devices.cpu.sizes import MOVE as _SPLIT
from . import modes, nodes, primitive
from .hooks import run_hooks, run_hooks_undefined, run_post_hooks, run_prehooks, run_tensor_hooks
from .nodes import Form, Node, Special, new_node, registry, shown, wrap
from .payload import Payload
from .tensor import Storage, TensorBase, note_write, storage_of

ndarray = np.ndarray
_accumulate_lock = forks.reentrant_lock()
_SEQUENCE_OF_LEAVES = 2**64 - 1


class AccumulateGrad(Node):
    """The end of the graph at a leaf: adds what arrives to the leaf's ``.grad``.

    The leaf owns this node, so the node refers to the leaf weakly; should the program drop the leaf
    while a graph still reaches it, `variable` makes an equal tensor again from the fields here.
    """

    __slots__ = ("array", "ended", "kind", "memory", "post_hooks", "ref", "reshaped")

    ref: weakref.ref[TensorBase]
    array: Any
    # Whether it is of a transform that is over, or was made inside one. A result may still lead here, through the graph
    # of an outer transform; no caller will need its gradient.
    ended: bool
    kind: type
    memory: Storage
    post_hooks: dict[int, Callable[..., Any]] | None
    reshaped: bool  # whether the leaf may have had another shape when it was used before

    def __init__(self, leaf: TensorBase) -> None:
        self.op = _accumulate
        self.edges, self.saved, self.targets, self.extra = (), None, None, None
        self.stamp, self.code, self.lasti = _SEQUENCE_OF_LEAVES, None, 0
        self.post_hooks = None
        self.follow(leaf)
        self.reshaped = self.ended = False

    def follow(self, leaf: TensorBase) -> None:
        """Belong to `leaf`, as it is now."""
        self.ref = weakref.ref(leaf)
        self.array, self.memory, self.kind, self.reshaped = leaf.array, storage_of(leaf), type(leaf), True

    @property
    def form(self) -> Form:
        """The form of the leaf, and so of its gradients."""
        return Form.of(self.variable)

    @property
    def watched(self) -> bool:
        """Whether a hook must run when the gradient is complete."""
        return self.extra is not None or self.post_hooks is not None

    @property
    def variable(self) -> Any:
        """The leaf."""
        leaf = self.ref()
        if leaf is None:
            leaf = wrap(self.array, self, self.memory)
            if self.kind is not nodes.tensor_type:
                leaf.__class__ = self.kind
            self.ref = weakref.ref(leaf)
        return leaf


def end(edges: Iterable[Any]) -> None:
    """Note of leaves among nodes that their transform is over."""
    for e in edges:
        if type(e) is AccumulateGrad:
            e.ended = True


def _run_leaf(node: Any, g: Value, edges: tuple[Any, ...], saved: Sequence[Any]) -> tuple[Any, ...]:
    accumulate(node, g, isinstance(g, TensorBase))
    return ()


_accumulate = Special("AccumulateGrad", _run_leaf)


def finish_complete(
    sums: dict[Any, Any], ends: dict[Any, list[Any]], lift: bool, captured: dict[Any, Any] | None
) -> None:
    """Give leaves whose gradient is complete their ``.grad``, for a program that reads it during the pass."""
    waiting = {leaf for leaves in ends.values() for leaf in leaves}
    for leaf in tuple(sums):
        if leaf not in waiting:
            finish(leaf, sums.pop(leaf), lift, captured)


def finish(leaf: AccumulateGrad, g: Value, lift: bool, captured: dict[Any, Any] | None) -> None:
    """Give a leaf its complete gradient."""
    if g is None:
        _finish_undefined(leaf, captured)
        return
    if captured is None and leaf.extra is None and leaf.post_hooks is None and not lift:  # as nearly always
        variable = leaf.ref()
        if variable is None:
            return
        with _accumulate_lock:
            if variable._grad is None and variable.node is not None:
                variable._grad = wrap(_own(g, variable.array, _references))
                return
    if leaf.extra is not None:
        if leaf.extra.grad_dtype is not None:
            g = _as_chosen(leaf.extra.grad_dtype[0], g, lift)
        g = run_tensor_hooks(leaf, leaf.extra, g, lift)
        if captured is None and leaf.extra.prehooks:
            g = run_prehooks(leaf, leaf.extra, g, lift)
    if captured is not None:
        # NumPy makes float32 of bfloat16 and a Python float.
        own = leaf.extra is not None and leaf.extra.grad_dtype is not None
        captured[leaf] = g if lift or own or g.dtype == leaf.array.dtype else primitive.cast(g, leaf.array.dtype)
        return
    accumulate(leaf, g, lift)
    if leaf.extra is not None and leaf.extra.hooks:
        run_hooks(leaf, leaf.extra, (), g, lift)


def _finish_undefined(leaf: AccumulateGrad, captured: dict[Any, Any] | None) -> None:
    """Run the hooks of a leaf whose gradient is undefined: a custom function has returned None."""
    if leaf.extra is not None and leaf.extra.tensor_hooks:
        run_hooks_undefined(leaf.extra.tensor_hooks)
    if captured is None and leaf.post_hooks:
        run_post_hooks(leaf, leaf.variable)


def _as_chosen(dtype: DType, g: Value, lift: bool) -> Value:
    """Return a gradient in the dtype that the program has chosen for those of a leaf (`Tensor.grad_dtype`)."""
    have = g.array.dtype if isinstance(g, TensorBase) else g.dtype
    return g if dtype is None or dtype == have else primitive.cast(g, dtype)


def accumulate(leaf: AccumulateGrad, g: Any, lift: bool) -> None:
    """Add a gradient to the leaf's ``.grad``, unless it was frozen since; then run its post-accumulate hooks."""
    variable = leaf.ref()
    if variable is None and not leaf.post_hooks:
        return
    variable = leaf.variable
    with _accumulate_lock:
        held = variable._grad
        chosen = None if leaf.extra is None else leaf.extra.grad_dtype
        if variable.node is None:
            pass
        elif held is None:
            like = variable.array if chosen is None or lift else g
            variable._grad = _laid_out(g, like) if lift else wrap(_own(g, like, _references_below))
        elif lift:
            variable._grad = held + g if lift is True else held.add_(g)
        elif _writable(held.array, g if chosen is None else (g := g.astype(held.array.dtype))):
            np.add(held.array, g, out=held.array)
            if getrefcount(held) > _sole_holder or getrefcount(held.array) > _sole_reference:  # else it cannot be known
                note_write(held, "gradient accumulation")
        else:
            variable._grad = held + wrap(g)
    if leaf.post_hooks:
        run_post_hooks(leaf, variable)


def _writable(held: Value, g: Value) -> bool:
    if type(held) is np.ndarray:
        return held.flags.writeable and held.dtype == g.dtype and held.shape == g.shape
    return not isinstance(held, Payload) and held.dtype == g.dtype


def _own(g: Any, like: Any, references: int) -> Any:
    """Return an array for ``.grad``: `g` itself if nothing else refers to it, otherwise a copy.

    It has the strides of `like`, if those leave no holes.
    """
    if type(g) is ndarray:
        # More references than the calls from `_execute` down to here make mean that a rule, a saved value
        # or another edge holds the same array, which a later in-place add must not change.
        flags, dense = g.flags, like.flags.c_contiguous
        alone = getrefcount(g) <= references and g.dtype is like.dtype
        if alone and dense and flags.carray and g.base is None and g.size <= _SPLIT:  # as nearly always
            return g
        alone = alone and flags.writeable
        if not (dense and flags.c_contiguous) and g.strides != like.strides:
            return g if alone and not modes.local.grad_layout else _copied_like(g, like)
        large = g.size > _SPLIT
        if alone and (g.base is None or _is_whole(g)):
            return g
        if large and g.dtype is like.dtype:
            return copied(g)
        return g.astype(like.dtype, copy=True) if g.dtype != like.dtype else g.copy()
    if isinstance(g, np.generic):
        return np.array(g, dtype=like.dtype)
    if isinstance(g, Payload):
        return g
    found = by_class.get(type(g))
    if found is not None and g.dtype is like.dtype and getrefcount(g) <= references + found.spare_references(g):
        if found.is_sole(g):
            return g
    return g.astype(like.dtype) if g.dtype != like.dtype else g.copy()


def _copied_like(g: Array, like: Array) -> Any:
    """Return a copy of a gradient in the memory layout that torch promises: that of `like`, or row by row."""
    if like.shape != g.shape:
        return g.astype(like.dtype)
    out = np.empty_like(like, order="K", subok=False)
    if out.strides != like.strides:  # it has holes, or elements overlap
        out = np.empty(g.shape, like.dtype)
    np.copyto(out, g, casting="unsafe")
    return out


def _laid_out(g: Any, like: Array) -> Any:
    """Return a copy of a gradient, a tensor, in the memory layout of `like`, if that leaves no holes; by an op."""
    a = g.array
    if type(a) is ndarray and type(like) is ndarray and a.strides != like.strides and a.shape == like.shape:
        if np.empty_like(like, order="K", subok=False).strides == like.strides:
            return registry["copy_strided"].call(g, like.strides)
    return g.clone()


def _is_whole(g: Array) -> bool:
    """Return whether an array covers another one that nothing else refers to, as the reshape of a fresh result does."""
    base = g.base
    return type(base) is np.ndarray and getrefcount(base) == 3 and g.nbytes == base.nbytes and g.flags.c_contiguous


_references = _references_below = 0  # in `finish`, in `accumulate` below it
_sole_reference = _sole_holder = 0  # of a held gradient: its array, the tensor itself
_OWN_SUM = 4


def reshaped_leaf(leaf: AccumulateGrad, node: Node, g: Value) -> RuntimeError:
    """Return the error for gradients of unequal shapes at one leaf."""
    return RuntimeError(
        f"Function {shown(node).name()} returned an invalid gradient at index 0 - got {list(g.shape)} but "
        f"expected shape compatible with {list(leaf.array.shape)}: the leaf was given another shape between its uses"
    )


def add(total: Value, g: Value) -> Value:
    """Return the sum of two gradients, written into the first if nothing else refers to it."""
    if type(total) is ndarray and getrefcount(total) <= _OWN_SUM and total.base is None and total.dtype is g.dtype:
        return np.add(total, g, out=total)
    return total + g


def calibrate(backward: Callable[..., Any]) -> None:
    """Measure how many references to a gradient there are when only the engine holds it.

    The number depends on how an interpreter passes arguments, so it is found by a pass over one node.
    """
    global _own, _references, _references_below, _sole_reference, _sole_holder
    own, counts = _own, []
    ways: tuple[Any, ...] = (None, {})  # without hooks through `finish`, else through `accumulate`

    def probe(g: Any, like: Any, references: int) -> Any:
        counts.append(getrefcount(g))
        return own(g, like, references)

    leaf = wrap(np.zeros(1))
    leaf.node = AccumulateGrad(leaf)
    node = new_node(Special("Calibration", lambda node, g, edges, saved: (g * 1.0,)), (leaf.node,))
    _own = probe
    try:
        for hooks in ways:
            leaf._grad, leaf.node.post_hooks = None, hooks
            backward([node], [np.ones(1)], False, False)
    finally:
        _own = own
    _references, _references_below = counts
    leaf._grad = wrap(np.zeros(1))
    held = leaf._grad
    _sole_reference, _sole_holder = getrefcount(held.array), getrefcount(held)
