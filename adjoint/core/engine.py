"""The backward pass: from the gradients of some roots to those of the leaves.

Nodes run in the order opposite to that in which they were recorded. That order is reverse topological,
because an edge always leads to an older node, and it is also the order in which torch runs nodes that
are ready together. A leaf with hooks is done the moment its last gradient has arrived, so hooks run while
the rest of the pass goes on.
"""

from __future__ import annotations

import _thread
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush, heappushpop
from itertools import count
from operator import attrgetter
from sys import getrefcount
from typing import Any

import numpy as np

from ..devices.contract import by_class
from ..devices.cpu import forks
from ..devices.cpu.copying import copied
from ..errors import place
from . import device, modes, nodes, primitive, recorders
from .anomaly import has_nan, recording
from .dtypes import of
from .nodes import Extra, Freed, Node, Special, freed_error, trail_of, wrap
from .observation import literal
from .payload import Payload, inside
from .tensor import Storage, TensorBase, caller, clock, note_write, storage_of, tick

ndarray = np.ndarray
_by_stamp = attrgetter("stamp")
_accumulate_lock = forks.reentrant_lock()
_SEQUENCE_OF_LEAVES = 2**64 - 1


class AccumulateGrad(Node):
    """The end of the graph at a leaf: adds what arrives to the leaf's ``.grad``.

    The leaf owns this node, so the node refers to the leaf weakly; should the program drop the leaf
    while a graph still reaches it, `variable` makes an equal tensor again from what is kept here.
    """

    __slots__ = ("array", "ended", "kind", "memory", "post_hooks", "ref", "reshaped")

    ref: weakref.ref[TensorBase]
    array: Any
    # Whether it is of a transform that is over, or was made inside one. A result may still lead here, through the graph
    # of an outer transform; no caller will ever ask for its gradient.
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
    def form(self) -> nodes.Form:
        """The form of the leaf, and so of its gradients."""
        return nodes.Form.of(self.variable)

    @property
    def watched(self) -> bool:
        """Whether somebody wants to know the moment the gradient is complete."""
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

    def lifted(self) -> Any:
        """Return None: a leaf keeps nothing."""
        return None


def end(edges: Iterable[Any]) -> None:
    """Note of leaves among nodes that their transform is over."""
    for e in edges:
        if type(e) is AccumulateGrad:
            e.ended = True


def _run_leaf(node: Any, g: Any, edges: tuple[Any, ...], saved: Any) -> tuple[Any, ...]:
    accumulate(node, g, isinstance(g, TensorBase))
    return ()


_accumulate = Special("AccumulateGrad", _run_leaf)


class Task:
    """One backward pass in progress: what hooks and nested calls may ask of it."""

    wanted: set[Any] | None = None
    needed: set[Any] | None = None
    captured: dict[Any, Any] | None = None
    start: tuple[Any, int] | None = None  # where the program started it, if it is recorded
    place: tuple[Any, int] | None = None  # the same while a rule runs, which has no line of the program's own
    _number: int | None = None
    reached: set[Any] | None = None  # what `will_reach` has found

    def __init__(self, keep: bool, lift: bool, roots: Sequence[Any]) -> None:
        self.keep, self.lift, self.roots = keep, lift, roots
        self.callbacks: list[Callable[[], Any]] = []

    @property
    def number(self) -> int:
        """The pass's own number, given to it when one first asks."""
        if self._number is None:
            self._number = _next_number()
        return self._number

    def will_reach(self, node: Any) -> bool:
        """Return whether the pass gives a gradient to `node`."""
        if self.needed is not None:
            return node in self.needed
        if self.reached is None:  # found once: every hook of a pass may ask
            self.reached = {e for n in reach(self.roots) for e in (n, *n.edges)}.union(self.roots)
        return node in self.reached


_next_number = count().__next__


class _Running(threading.local):
    """The tasks that this thread is inside of, innermost last."""

    tasks: tuple[Task, ...] = ()
    # What interrupted a thread that waits for a pass in this one.
    interrupts: list[BaseException] | None = None


running = _Running()
_NESTED_PER_THREAD = 40


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
        Whether kept values survive, so that the pass can be repeated.
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
        if len(before) % _NESTED_PER_THREAD == 0:
            return _in_new_thread(lambda: backward(roots, gradients, keep, lift, inputs, accumulating))
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
            task.start = caller(2)  # past this and who called it
            recorders.recorded_passes[task] = None
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
        if grad and task in recorders.recorded_passes:
            del recorders.recorded_passes[task]
    if task.captured is None or inputs is None:
        return []
    return [task.captured.get(node) for node in inputs]


def _in_new_thread(work: Callable[[], list[Any]]) -> list[Any]:
    """Run a deeply nested pass on a fresh stack, so that nesting is not bounded by recursion.

    An interrupt comes to the thread that waits. It tells the passes below of it, which end where the next one starts,
    and goes on waiting: the pass may not go on behind the back of a program that has caught the interrupt.
    (`threading.Thread` loses track of its own locks when `start` or `join` is interrupted.)
    """
    outcome: list[Any] = []
    tickets = [None]  # for one run, however often an interrupted start is repeated
    ended = _thread.allocate_lock()
    ended.acquire()
    tasks, grad, levels, interrupts = running.tasks, modes.local.grad, inside.levels, running.interrupts
    if interrupts is None:
        interrupts = []

    def target() -> None:
        try:
            tickets.pop()
        except IndexError:
            return
        running.tasks, running.interrupts, inside.levels = (*tasks, tasks[-1]), interrupts, levels
        modes.set_grad(grad)
        try:
            outcome.append((work(), None))
        except BaseException as error:
            outcome.append((None, error))
        finally:
            modes.set_grad(True)
            ended.release()

    while not outcome:
        try:
            if tickets:
                _thread.start_new_thread(target, ())
            ended.acquire()
        except Exception:  # no thread could be started
            raise
        except BaseException as error:
            interrupts.append(error)
    result, failure = outcome[0]
    if failure is None and interrupts:
        failure = interrupts[0]
    if failure is not None:
        raise failure
    return result  # type: ignore[no-any-return]


def reach(roots: Sequence[Any]) -> list[Any]:
    """Return every node that the roots can reach, leaves left out, newest first."""
    seen = {root for root in roots if type(root) is not AccumulateGrad}
    stack = list(seen)
    while stack:
        for e in stack.pop().edges:
            if e is not None and e not in seen and type(e) is not AccumulateGrad:
                seen.add(e)
                stack.append(e)
    return sorted(seen, key=_by_stamp, reverse=True)


def needed_for(roots: Sequence[Any], wanted: set[Any]) -> tuple[set[Any], bool]:
    """Return the nodes from which one of `wanted` can be reached, those included, and whether a pass may prune.

    It has nothing to prune where every node leads to leaves that are wanted, and nowhere else.
    """
    needed = set(wanted)
    prunes = any(type(n) is not AccumulateGrad for n in wanted) or not wanted.issuperset(
        n for n in roots if type(n) is AccumulateGrad
    )
    for node in reversed(reach(roots)):
        needs = False
        for e in node.edges:
            if e in needed:
                needs = True
            elif e is not None:
                prunes = True
        if needs:
            needed.add(node)
        else:
            prunes = True
    return needed, prunes


def _ends(frontier: Sequence[Any], needed: set[Any] | None) -> dict[Any, list[Any]]:
    """Return, of each node still to run, the leaves that it is the last to feed."""
    last: dict[Any, Any] = {}
    for node in reach(frontier):
        if needed is None or node in needed:
            for e in node.edges if node.op.finishes is None else [node.edges[i] for i in node.op.finishes]:
                if type(e) is AccumulateGrad:
                    last[e] = node
    ends: dict[Any, list[Any]] = {}
    for leaf, node in last.items():
        ends.setdefault(node, []).append(leaf)
    return ends


def _execute(roots: Sequence[Any], gradients: Sequence[Any], task: Task) -> None:
    """Run the nodes that the roots reach, newest first.

    No order is worked out beforehand: the newest node that has a gradient is always ready, because
    whoever else feeds it is newer still. `node` is that one, `heap` holds the others. Leaves are given
    their sums at the end, unless one has hooks: then `ends` says when each is complete, so that hooks
    run as early as they can.
    """
    lift, needed, captured = task.lift, task.needed, task.captured
    freed = None if task.keep else Freed(*caller(3))  # past this, `backward` and who called that
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
            ends = _ends(list(grads), needed)
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
                    _refuse_nan(node, edges, results)
            else:
                if ends is None and extra is not None and extra.hooked:
                    ends = _ends([node, *grads], needed)
                    _finish_complete(sums, ends, lift, captured)
                start = tick() if anomaly and lift else 0
                g, edges, results = _run_watched(node, g, task, freed)
                if anomaly:
                    if lift:
                        recording.induced.add(start, tick(), weakref.ref(node))
                    _refuse_nan(node, edges, results)
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
                                ends = _ends([node, *grads], needed)
                        continue
                    total = sums.get(e)
                    if total is None:
                        sums[e] = r
                        if ends is None and e.watched:
                            ends = _ends([node, *grads], needed)
                    else:
                        if e.reshaped and not lift and total.shape != r.shape:
                            raise _reshaped_leaf(e, node, r)
                        sums[e] = total + r if lift or r.size < _SMALL else _add(total, r)
                elif e is following:
                    if carried is None:
                        carried = r
                    elif r is not None:
                        carried = carried + r if lift or r.size < _SMALL else _add(carried, r)
                elif grads and e in grads:
                    if r is not None:
                        total = grads[e]
                        if total is None:
                            grads[e] = r
                        else:
                            grads[e] = total + r if lift or r.size < _SMALL else _add(total, r)
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
        _explain(error, node, freed)
        if sums and type(node) is not leaf:
            _finish_complete(sums, _ends([node, *grads], needed), lift, captured)
        raise


def _finish_complete(
    sums: dict[Any, Any], ends: dict[Any, list[Any]], lift: bool, captured: dict[Any, Any] | None
) -> None:
    """Give the leaves that no node still to run feeds their gradients, as a program that looks now expects."""
    waiting = {leaf for leaves in ends.values() for leaf in leaves}
    for leaf in tuple(sums):
        if leaf not in waiting:
            finish(leaf, sums.pop(leaf), lift, captured)


def _reshaped_leaf(leaf: AccumulateGrad, node: Any, g: Any) -> RuntimeError:
    return RuntimeError(
        f"Function {nodes.shown(node).name()} returned an invalid gradient at index 0 - got {list(g.shape)} but "
        f"expected shape compatible with {list(leaf.array.shape)}: the leaf was given another shape between its uses"
    )


def _place() -> tuple[Any, int] | None:
    """Return where the program started the recorded pass in one of whose rules this thread is, if it is in one."""
    tasks = running.tasks
    return tasks[-1].place if tasks else None


recorders.pass_place = _place


def current_task() -> Task | None:
    """Return the pass that this thread is inside of, the innermost."""
    tasks = running.tasks
    return tasks[-1] if tasks else None


def current_node() -> Any:
    """Return the node that this thread runs, in one of whose hooks or in whose backward the caller is.

    The loop does not note it for the few that ask: its own frame knows.
    """
    frame: Any = sys._getframe(1)
    names = {_execute.__code__: "node", finish.__code__: "leaf", accumulate.__code__: "leaf"}
    while frame is not None:
        if frame.f_code in names:
            return nodes.shown(frame.f_locals[names[frame.f_code]])
        frame = frame.f_back
    return None


def order_of_execution(task: Task) -> list[Any]:
    """Return the nodes that a pass runs, in order; a leaf comes as soon as its gradient is complete."""
    order: list[Any] = []
    ends = _ends(task.roots, task.needed)
    for node in reach(task.roots):
        if task.needed is None or node in task.needed:
            order += [n for n in (node, *ends.get(node, ())) if type(n) is not nodes.Output]
    return [nodes.shown(n) for n in order]


def _run_watched(node: Any, g: Any, task: Task, freed: Freed | None) -> tuple[Any, Any, Any]:
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
                captured[node] = g = g if extra is None or g is None else _before(node, extra, g, lift)
                return g, edges, (None,) * len(edges)
    if extra is not None and not (type(node) is nodes.Output and extra.tensor_hooks):  # the whole node runs those
        if extra.outputs:
            g = _before_several(node, extra.outputs, g, lift)
        elif g is not None:
            g = _before(node, extra, g, lift)
        elif extra.tensor_hooks:
            _tell_undefined(extra.tensor_hooks)
    if extra is not None and extra.prehooks:
        g = _call_prehooks(node, extra, g, lift)
    if node.stamp < clock.latest:
        node.verify()
    saved = node.lifted() if lift else node.saved
    if g is None and not op.wants_undefined:
        results: Any = (None,) * len(edges)
    else:
        task.place = None if op.wants_undefined else task.start  # what a custom function records is on its own lines
        try:
            results = op.run(node, g, edges, saved)
        except RuntimeWarning:
            results = _quietly(op, node, g, edges, saved)
        task.place = None
    if freed is not None and saved is not None and op.frees:
        node.saved = freed
    if lift is True and op.flat:
        results = [
            r if r is None or r.node is not None else _constant(r, e) for r, e in zip(results, edges, strict=True)
        ]
    if extra is not None and extra.hooks:
        results = _call_hooks(node, extra, results, g, lift)
    return g, edges, results


def _constant(r: Any, edge: Any) -> Any:
    """Return a gradient that is the same wherever its input is, as one whose derivative by that input is zero."""
    node = Node()
    node.op, node.edges, node.saved, node.targets, node.extra = _zero, (edge,), None, None, None
    node.stamp, node.code, node.lasti = tick(), None, 0
    return wrap(r.array, node)


_zero = Special("ZeroBackward0", lambda node, g, edges, saved: (g * 0,))
_zero.node = type("ZeroBackward0", (Node,), {"__slots__": (), "__module__": "adjoint"})
_zero.flat = True


def _quietly(op: Any, node: Any, g: Any, edges: Any, saved: Any) -> Any:
    """Run a node again where the program turns NumPy's warnings into errors: a NaN is a value here."""
    if op.wants_undefined:  # a custom function's own warning is its own business
        raise
    return primitive.unchecked(op.run, node, g, edges, saved)


def _add(total: Any, g: Any) -> Any:
    """Return the sum of two gradients, written into the first when nobody else can see it."""
    if type(total) is ndarray and getrefcount(total) <= _OWN_SUM and total.base is None and total.dtype is g.dtype:
        return np.add(total, g, out=total)
    return total + g


def finish(leaf: AccumulateGrad, g: Any, lift: bool, captured: dict[Any, Any] | None) -> None:
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
        g = _before(leaf, leaf.extra, g, lift)
        if captured is None and leaf.extra.prehooks:
            g = _call_prehooks(leaf, leaf.extra, g, lift)
    if captured is not None:
        # NumPy makes float32 of bfloat16 and a Python float.
        own = leaf.extra is not None and leaf.extra.grad_dtype is not None
        captured[leaf] = g if lift or own or g.dtype == leaf.array.dtype else primitive.cast(g, leaf.array.dtype)
        return
    accumulate(leaf, g, lift)
    if leaf.extra is not None and leaf.extra.hooks:
        _call_hooks(leaf, leaf.extra, (), g, lift)


def _finish_undefined(leaf: AccumulateGrad, captured: dict[Any, Any] | None) -> None:
    """Run the hooks of a leaf whose gradient is undefined: a custom function has returned None."""
    if leaf.extra is not None and leaf.extra.tensor_hooks:
        _tell_undefined(leaf.extra.tensor_hooks)
    if captured is None and leaf.post_hooks:
        _call_post_hooks(leaf, leaf.variable)


def _as_chosen(dtype: Any, g: Any, lift: bool) -> Any:
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
            if getrefcount(held) > _sole_holder or getrefcount(held.array) > _sole_reference:  # else nobody can know
                note_write(held, "gradient accumulation")
        else:
            variable._grad = held + wrap(g)
    if leaf.post_hooks:
        _call_post_hooks(leaf, variable)


def _call_post_hooks(leaf: AccumulateGrad, variable: Any) -> None:
    assert leaf.post_hooks is not None
    for hook in tuple(leaf.post_hooks.values()):
        result = hook(variable)
        if result is not None and not isinstance(result, TensorBase):
            raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}': it should return None")


def _writable(held: Any, g: Any) -> bool:
    if type(held) is np.ndarray:
        return held.flags.writeable and held.dtype == g.dtype and held.shape == g.shape
    return not isinstance(held, Payload) and held.dtype == g.dtype


def _own(g: Any, like: Any, references: int) -> Any:
    """Return an array for ``.grad``: `g` itself when nobody else can see it, otherwise a copy.

    It has the strides of `like`, if those leave no holes.
    """
    if type(g) is ndarray:
        # More references than the calls from `_execute` down to here make mean that a rule, a kept value
        # or another edge holds the same array, which a later in-place add must not change.
        flags, dense = g.flags, like.flags.c_contiguous
        alone = getrefcount(g) <= references and g.dtype is like.dtype
        if alone and dense and flags.carray and g.base is None and g.size <= _MANY:  # as nearly always
            return g
        alone = alone and flags.writeable
        if not (dense and flags.c_contiguous) and g.strides != like.strides:
            return g if alone and not modes.local.grad_layout else _copied_like(g, like)
        large = g.size > _MANY
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


def _copied_like(g: Any, like: Any) -> Any:
    """Return a copy of a gradient in the memory layout that torch promises: that of `like`, or row by row."""
    if like.shape != g.shape:
        return g.astype(like.dtype)
    out = np.empty_like(like, order="K", subok=False)
    if out.strides != like.strides:  # it has holes, or elements lie upon one another
        out = np.empty(g.shape, like.dtype)
    np.copyto(out, g, casting="unsafe")
    return out


def _laid_out(g: Any, like: Any) -> Any:
    """Return a copy of a gradient, a tensor, in the memory layout of `like`, if that leaves no holes; by an op."""
    a = g.array
    if type(a) is ndarray and type(like) is ndarray and a.strides != like.strides and a.shape == like.shape:
        if np.empty_like(like, order="K", subok=False).strides == like.strides:
            return nodes.registry["copy_strided"].call(g, like.strides)
    return g.clone()


def _is_whole(g: Any) -> bool:
    """Return whether an array is all of another that nobody else holds, as the reshape of a fresh result is."""
    base = g.base
    return type(base) is np.ndarray and getrefcount(base) == 3 and g.nbytes == base.nbytes and g.flags.c_contiguous


_references = _references_below = 0  # in `finish`, in `accumulate` below it
_sole_reference = _sole_holder = 0  # of a held gradient: its array, the tensor itself
_OWN_SUM = 4
_SMALL = 8192  # elements under which adding in place gains nothing
_MANY = 1 << 16  # and from which on a copy may be shared by threads


def _before(node: Any, extra: Extra, g: Any, lift: bool) -> Any:
    """Run the tensor hooks of a node's output, then fill the ``.grad`` of a tensor that retains it."""
    if extra.tensor_hooks:
        given = g if lift else wrap(g)
        for hook in tuple(extra.tensor_hooks.values()):
            result = hook(given)
            if result is not None:
                _check_hook_result(result, given, hook)
                given = result
        g = given if lift else given.array
    if extra.retain is not None:
        tensor = extra.retain()
        if tensor is not None:
            held = tensor._grad
            fresh = g if lift else wrap(np.array(g) if isinstance(g, np.generic) else g.copy())
            tensor._grad = fresh if held is None else held + fresh
    return g


def _before_several(node: Any, outputs: list[tuple[int, Extra]], g: Any, lift: bool) -> Any:
    """Run the hooks of a node's outputs, those that have no gradient too."""
    parts: dict[int, Any] = {} if g is None else g.parts
    for index, extra in outputs:
        if extra.tensor_hooks:
            if index in parts:
                parts[index] = _before(node, extra, parts[index], lift)
            else:
                _tell_undefined(extra.tensor_hooks)
    return g


def _tell_undefined(hooks: dict[int, Callable[..., Any]]) -> None:
    """Run the hooks of a tensor whose gradient is undefined, with None, which they may not replace."""
    for hook in tuple(hooks.values()):
        if hook(None) is not None:
            raise RuntimeError(
                "can't replace a None gradient with a non-None value: no gradient arrives at the tensor that "
                f"'{getattr(hook, '__name__', '<unknown>')}' is a hook of"
            )


def _check_hook_result(result: Any, given: Any, hook: Any) -> None:
    if not isinstance(result, TensorBase):
        raise TypeError(f"expected Variable, but hook returned '{type(result).__name__}'")
    name = getattr(hook, "__name__", "<unknown>")
    if result.array.shape != given.array.shape:
        raise RuntimeError(
            f"hook '{name}' has changed the size of value: it was {list(given.array.shape)}, "
            f"and the hook returned {list(result.array.shape)}"
        )
    if result.array.dtype != given.array.dtype:
        raise RuntimeError(
            f"hook '{name}' has changed the type of value (was torch.{of(given.array.dtype).title}Tensor got "
            f"torch.{of(result.array.dtype).title}Tensor)"
        )


def _replaced(given: tuple[Any, ...], answer: Any, hook: Any) -> tuple[Any, ...]:
    """Return what a node's hook has answered in place of the gradients it was given, if it may."""
    if not isinstance(answer, tuple):
        raise TypeError(f"expected tuple, but hook returned '{type(answer).__name__}'")
    if len(answer) != len(given):
        raise RuntimeError(
            f"hook '{getattr(hook, '__name__', '<unknown>')}' has returned an incorrect number of values (got "
            f"{len(answer)}, but expected {len(given)})"
        )
    for mine, theirs in zip(answer, given, strict=True):
        if mine is not None and theirs is not None:
            _check_hook_result(mine, theirs, hook)
    return answer


def _as_tensors(values: Sequence[Any], lift: bool) -> tuple[Any, ...]:
    return tuple(v if v is None or lift or isinstance(v, TensorBase) else wrap(v) for v in values)


def _as_values(tensors: Sequence[Any], lift: bool) -> list[Any]:
    return [t if t is None or lift else t.array for t in tensors]


def _call_prehooks(node: Any, extra: Extra, g: Any, lift: bool) -> Any:
    """Run `Node.register_prehook` hooks on the gradients of the node's outputs."""
    assert extra.prehooks is not None
    several = isinstance(node, nodes.MultipleNode)
    gs: Any = node.gradients(g) if isinstance(node, nodes.MultipleNode) else [g]
    for hook in tuple(extra.prehooks.values()):
        given = _as_tensors(gs, lift)
        result = hook(given)
        if result is not None:
            gs = _as_values(_replaced(given, result, hook), lift)
    if several:
        return nodes.Cotangents({i: v for i, v in enumerate(gs) if v is not None})
    return gs[0]


def _call_hooks(node: Any, extra: Extra, results: Any, g: Any, lift: bool) -> Any:
    """Run `Node.register_hook` hooks, which may replace the gradients that the node gives."""
    assert extra.hooks is not None
    gs = node.gradients(g) if isinstance(node, nodes.MultipleNode) else [g]
    for hook in tuple(extra.hooks.values()):
        given = _as_tensors(node.seen(results) if results else (), lift)
        outcome = hook(given, _as_tensors(gs, lift))
        if outcome is not None:
            values = _as_values(_replaced(given, outcome, hook), lift)
            results = list(results)
            for i, value in zip(node.visible() or range(len(values)), values):
                results[i] = value
    return results


def _refuse_nan(node: Any, edges: Any, results: Any) -> None:
    for i, r in enumerate(results):
        if edges[i] is None or r is None or isinstance(r, nodes.Cotangents):
            continue
        value = r.array if isinstance(r, TensorBase) else r
        if has_nan(value):
            raise RuntimeError(f"Function '{node.op.title}' returned nan values in its {i}th output.")


def _explain(error: Exception, node: Any, freed: Freed | None) -> None:
    """Add to an exception which op's backward it came from and where that op was recorded."""
    if node is None:
        return
    if type(node.saved) is Freed and node.saved is not freed and not isinstance(error, RuntimeError):
        if modes.local.anomaly:
            _warn_of_anomaly(node)
        raise freed_error(node, node.saved) from None
    where = place(node.code, node.lasti)
    note = f"in the backward of {nodes.shown(node).op.title}" + (f", recorded at {where}" if where else "")
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
    if modes.local.anomaly:
        _warn_of_anomaly(node)


def _warn_of_anomaly(node: Any) -> None:
    """Warn with the forward traceback of the op whose backward failed, and of those that led to it, as torch does."""
    what, told = "Error detected in", "forward call that caused the error"
    while node is not None:
        text, trail, where = f"{what} {nodes.shown(node).op.title}. ", trail_of(node), place(node.code, node.lasti)
        if trail is None:
            text += (
                "No forward pass information available. Enable detect anomaly during forward pass for more information."
                f"{f' It was recorded at {where}.' if where else ''}"
            )
        else:
            text += f"Traceback of {told}:\n{''.join(trail.format())}"
        warnings.warn(text, stacklevel=4)
        node = None if trail is None else recording.parent(node.stamp)
        what, told = "Previous calculation was induced by", "forward call that induced the previous calculation"


def _calibrate() -> None:
    """Measure how many references to a gradient there are when only the engine holds it.

    The number depends on how an interpreter passes arguments, so it is found by a pass over one node.
    """
    global _own, _references, _references_below, _sole_reference, _sole_holder
    own, counts = _own, []
    ways: tuple[Any, ...] = (None, {})  # without hooks through `finish`, else through `accumulate`

    def probe(g: Any, like: Any, references: int) -> Any:
        counts.append(getrefcount(g))
        return own(g, like, references)

    leaf, node = wrap(np.zeros(1)), Node()
    leaf.node = AccumulateGrad(leaf)
    node.op = Special("Calibration", lambda node, g, edges, saved: (g * 1.0,))
    node.edges, node.saved, node.targets, node.extra = (leaf.node,), None, None, None
    node.stamp, node.code, node.lasti = 0, None, 0
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


def start_gradient(root: TensorBase) -> Any:
    """Return the gradient of a scalar root with respect to itself: one."""
    array = root.array
    return literal(array.ones() if isinstance(array, Payload) else device.ones_like(array))


_calibrate()
