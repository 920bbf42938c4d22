"""The backward pass: from the gradients of some roots to those of the leaves.

Nodes run in the order opposite to that in which they were recorded. That order is reverse topological,
because an edge always leads to an older node, and it is also the order in which torch runs nodes that
are ready together. A leaf with hooks is done the moment its last gradient has arrived, so its hooks run
before the pass ends.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Sequence
from heapq import heappop, heappush, heappushpop
from typing import TYPE_CHECKING, Any

from .._typing import Op, Value
from ..devices.cpu.sizes import ADD_IN_PLACE as _ADDS_IN_PLACE
from . import device, fast_path, general, modes, nodes
from .anomaly import recording
from .failures import explain_backward, refuse_nan
from .hooks import run_hooks, run_hooks_undefined, run_output_hooks, run_prehooks, run_tensor_hooks
from .leaves import AccumulateGrad, accumulate, add, calibrate, finish, finish_complete, reshaped_leaf
from .nodes import Freed, Special, wrap
from .observation import literal
from .payload import Payload, inside
from .pruning import last_consumers, needed_for
from .tasks import NESTED_PER_THREAD, Task, in_new_thread, running
from .tensor import TensorBase, caller, clock, tick

if TYPE_CHECKING:
    from .nodes import Node


def backward(
    roots: Sequence[Any],
    gradients: Sequence[Any],
    keep: bool,
    lift: bool,
    inputs: Sequence[Any] | None = None,
    accumulating: bool = True,
) -> list[Any]:
    """Run the backward pass.

    Parameters
    ----------
    roots, gradients
        Nodes to start from and the gradient of each: raw values, or tensors if `lift`.
    keep
        Whether saved values survive, so that the pass can be repeated.
    lift
        Whether the pass is itself recorded: rules then run on tensors. With ``"quiet"`` they do, unrecorded.
    inputs
        Nodes to stop at; None means every leaf.
    accumulating
        Whether gradients of `inputs` go into ``.grad`` (else they are returned, in order).
    """
    before = running.tasks
    if before:
        if running.interrupts:
            raise running.interrupts[0]
        if len(before) % NESTED_PER_THREAD == 0:
            return in_new_thread(lambda: backward(roots, gradients, keep, lift, inputs, accumulating))
    task = Task(keep, lift, roots)
    if inputs is not None:
        task.wanted = set(inputs)
        needed, prunes = needed_for(roots, task.wanted)
        if prunes:
            task.needed = needed
        if not accumulating:
            task.captured = {}
    local, off, levels = modes.local, modes.off, inside.levels
    switches = local.__dict__  # one look at what is the thread's own
    was, grad, key = switches["grad"], lift is True, switches["key"]
    watching = (local.observer, local.pack_hooks, local.silenced) if modes.unusual else None
    try:
        running.tasks = (*before, task)
        nodes.passes[task] = None
        if was is not grad:
            off[key], switches["grad"] = None, grad
            if watching is not None and was:
                local.silenced += 1
        if grad:
            task.start = caller()
            fast_path.recorded_passes[task] = None
        _execute(roots, gradients, task)
        for callback in task.callbacks:
            callback()
    except BaseException:  # where contexts and rules inside were interrupted while they ended
        inside.levels = levels
        local.observer, local.pack_hooks, _ = watching or (None, (), 0)
        raise
    finally:  # by stores, before any call: see modes.py
        running.tasks, off[key], switches["grad"] = before, None, was
        if watching is not None:
            local.silenced = watching[2]
        if was:
            del off[key]
        if task in nodes.passes:
            del nodes.passes[task]
        if grad and task in fast_path.recorded_passes:
            del fast_path.recorded_passes[task]
    if task.captured is None or inputs is None:
        return []
    return [task.captured.get(node) for node in inputs]


def _execute(roots: Sequence[Any], gradients: Sequence[Any], task: Task) -> None:
    """Run the nodes that the roots reach, newest first.

    No order is worked out beforehand: the newest node that has a gradient is always ready, because
    any other node that feeds it is newer still. `node` is that one, `heap` holds the others. Leaves are given
    their sums at the end, unless one has hooks: then `ends` says when each is complete, so that hooks
    run as early as they can.
    """
    lift, needed, captured = task.lift, task.needed, task.captured
    freed = None if task.keep else Freed(*caller())
    anomaly = modes.local.anomaly and modes.local.anomaly_nan
    grads: dict[Any, Any] = {}
    sums: dict[Any, Any] = {}
    heap: list[tuple[int, Any]] = []
    ends: dict[Any, list[Any]] | None = None
    leaf = AccumulateGrad
    take = grads.pop
    if needed is None and len(roots) == 1 and type(roots[0]) is not leaf:  # as nearly always
        node, g = roots[0], gradients[0]
        gradients = ()
    else:
        for root, g in zip(roots, gradients, strict=True):
            if needed is None or root in needed:
                place_of = sums if type(root) is leaf else grads
                if root in place_of:
                    place_of[root] = place_of[root] + g
                else:
                    place_of[root] = g
                    if place_of is grads:
                        heappush(heap, (-root.stamp, root))
        if any(root.watched for root in sums):
            ends = last_consumers(list(grads), needed)
        node = heappop(heap)[1] if heap else None
        g = take(node, None)
    try:
        while node is not None:
            edges = node.edges
            extra = node.extra
            op = node.op
            if extra is None and needed is None and g is not None and not lift:  # as nearly always
                if node.stamp < clock.latest:
                    node.verify()
                saved = node.saved
                direct = op.direct
                try:
                    if direct is None:
                        results: Any = op.run(node, g, edges, saved)
                    else:
                        results = direct(g) if saved is None else direct(g, saved[0])
                except RuntimeWarning:
                    results = _quietly(op, node, g, edges, saved)
                    if direct is not None:
                        (results,) = results
                if freed is not None and saved is not None and op.frees:
                    node.saved = freed
                if direct is not None:
                    e = edges[0]
                    if (  # a chain: the node fed here is the newest that has a gradient
                        type(e) is not leaf and (not heap or e.stamp > -heap[0][0]) and ends is None and not anomaly
                    ):
                        node, g = e, results
                        continue
                    results = (results,)
                if anomaly:
                    refuse_nan(node, edges, results)
            else:
                if ends is None and extra is not None and extra.hooked:
                    ends = last_consumers([node, *grads], needed)
                    finish_complete(sums, ends, lift, captured)
                start = tick() if anomaly and lift else 0
                g, edges, results = _run_watched(node, g, task, freed)
                if anomaly:
                    if lift:
                        recording.induced.add(start, tick(), weakref.ref(node))
                    refuse_nan(node, edges, results)
            # The newest of the nodes fed here goes on in `following` and `carried`, past dict and heap.
            following = carried = None
            for e, r in zip(edges, results):
                if e is None:
                    continue
                if type(e) is leaf:
                    if r is None:
                        if e.watched and e not in sums:  # hooks run with None
                            sums[e] = None
                            if ends is None:
                                ends = last_consumers([node, *grads], needed)
                        continue
                    total = sums.get(e)
                    if total is None:
                        sums[e] = r
                        if ends is None and e.watched:
                            ends = last_consumers([node, *grads], needed)
                    else:
                        if e.reshaped and not lift and total.shape != r.shape:
                            raise reshaped_leaf(e, node, r)
                        sums[e] = total + r if lift or r.size < _ADDS_IN_PLACE else add(total, r)
                elif e is following:
                    if carried is None:
                        carried = r
                    elif r is not None:
                        carried = carried + r if lift or r.size < _ADDS_IN_PLACE else add(carried, r)
                elif grads and e in grads:
                    if r is not None:
                        total = grads[e]
                        if total is None:
                            grads[e] = r
                        else:
                            grads[e] = total + r if lift or r.size < _ADDS_IN_PLACE else add(total, r)
                elif following is None:
                    following, carried = e, r
                elif e.stamp > following.stamp:
                    grads[following] = carried
                    heappush(heap, (-following.stamp, following))
                    following, carried = e, r
                else:
                    grads[e] = r
                    heappush(heap, (-e.stamp, e))
            if ends is not None and node in ends:
                r = total = results = g = None
                for e in ends[node]:
                    if e in sums:
                        finish(e, sums.pop(e), lift, captured)
            if not heap:
                node, g = following, carried
            elif following is None:
                node = heappop(heap)[1]
                g = take(node)
            elif following.stamp > -heap[0][0]:
                node, g = following, carried
            else:
                grads[following] = carried
                node = heappushpop(heap, (-following.stamp, following))[1]
                g = take(node)
        r = total = results = g = carried = None
        for node in tuple(sums):
            finish(node, sums.pop(node), lift, captured)
    except Exception as error:
        explain_backward(error, node, freed)
        if sums and type(node) is not leaf:
            # None where a signal's handler raised after the last node: every leaf that is left has all of its gradient.
            frontier = [] if node is None else [node, *grads]
            finish_complete(sums, last_consumers(frontier, needed), lift, captured)
        raise


def current_node() -> Any:
    """Return the node that this thread runs, in one of whose hooks or in whose backward the caller is.

    The loop does not record it, because calls of this function are rare: the node is read from the loop's frame.
    """
    frame: Any = sys._getframe(1)
    names = {_execute.__code__: "node", finish.__code__: "leaf", accumulate.__code__: "leaf"}
    while frame is not None:
        if frame.f_code in names:
            return nodes.shown(frame.f_locals[names[frame.f_code]])
        frame = frame.f_back
    return None


def _run_watched(node: Node, g: Value, task: Task, freed: Freed | None) -> tuple[Any, Any, Any]:
    """Run a node that has hooks, or in a pass that is pruned or recorded; return its gradient, edges, results."""
    edges, extra, op = node.edges, node.extra, node.op
    lift, needed, captured = task.lift, task.needed, task.captured
    if needed is not None:
        for e in edges:
            if e is not None and e not in needed:
                edges = tuple([e if e in needed else None for e in edges])
                break
        if captured is not None and node in task.wanted:  # type: ignore[operator]
            if any(edges):
                captured[node] = g  # as it arrives: hooks are for what the node itself is given
            else:
                captured[node] = g = g if extra is None or g is None else run_tensor_hooks(node, extra, g, lift)
                return g, edges, (None,) * len(edges)
    if extra is not None and not (type(node) is nodes.Output and extra.tensor_hooks):  # the whole node runs those
        if extra.outputs:
            g = run_output_hooks(node, extra.outputs, g, lift)
        elif g is not None:
            g = run_tensor_hooks(node, extra, g, lift)
        elif extra.tensor_hooks:
            run_hooks_undefined(extra.tensor_hooks)
    if extra is not None and extra.prehooks:
        g = run_prehooks(node, extra, g, lift)
    if node.stamp < clock.latest:
        node.verify()
    saved = node.lifted() if lift else node.saved
    if g is None and not op.traits.takes_undefined:
        results: Any = (None,) * len(edges)
    else:
        task.place = (
            None if op.traits.takes_undefined else task.start
        )  # what a custom function records is on its own lines
        try:
            results = op.run(node, g, edges, saved)
        except RuntimeWarning:
            results = _quietly(op, node, g, edges, saved)
        task.place = None
    if freed is not None and saved is not None and op.frees:
        node.saved = freed
    if lift is True and op.traits.flat:
        results = [
            r if r is None or r.node is not None else _constant(r, e) for r, e in zip(results, edges, strict=True)
        ]
    if extra is not None and extra.hooks:
        results = run_hooks(node, extra, results, g, lift)
    return g, edges, results


def _constant(r: Any, edge: object) -> Any:
    """Return a gradient that is the same wherever its input is, as one whose derivative by that input is zero."""
    return wrap(r.array, nodes.new_node(_zero, (edge,)))


_zero = Special("ZeroBackward0", lambda node, g, edges, saved: (g * 0,), flat=True)


def _quietly(op: Op, node: Node, g: Value, edges: Sequence[Any], saved: Any) -> Any:
    """Run a node again where the program turns NumPy's warnings into errors: a NaN is a value here."""
    if op.traits.takes_undefined:  # a custom function's own warning is its own business
        raise
    return general.unchecked(op.run, node, g, edges, saved)


def start_gradient(root: TensorBase) -> Any:
    """Return the gradient of a scalar root with respect to itself: one."""
    array = root.array
    return literal(array.ones() if isinstance(array, Payload) else device.ones_like(array))


calibrate(backward)
