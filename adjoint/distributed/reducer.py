"""Buckets of gradients, and when each is full: what data parallel training sends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core import device as devices
from ..core.leaves import AccumulateGrad
from ..core.nodes import wrap
from ..core.pruning import reach
from ..core.tasks import running
from ..core.tensor import note_write
from ..core.views import edge_of
from ..devices.contract import multi_tensor
from ..errors import describe
from .engines import ReduceOp
from .groups import ProcessGroup

__all__ = ["Bucket", "GradBucket", "Reducer", "filled"]


class Bucket:
    """The memory of some parameters' gradients, and what has arrived of them in this backward pass."""

    def __init__(self, index: int, params: list[Any]) -> None:
        self.index, self.params = index, params
        first = params[0].array
        self.flat = devices.adopt(devices.module_of(first).empty(sum(p.array.size for p in params), first.dtype))
        self.views: list[Any] = []
        at = 0
        for p in params:
            self.views.append(self.flat[at : at + p.array.size].reshape(p.array.shape))
            at += p.array.size
        self.tensor = wrap(self.flat)
        self.waits = devices.of(first) != devices.CPU  # there a launch for all costs what one for each does
        self.clear()

    def clear(self) -> None:
        """Reset the bucket for the next backward pass."""
        self.missing = set(range(len(self.params)))
        self.arrived: list[Any] = [None] * len(self.params)
        self.work: Any = None

    @property
    def complete(self) -> bool:
        """Whether every gradient has arrived and the reduction has not begun."""
        return not self.missing and self.work is None

    def take(self, slot: int, divisor: int, as_view: bool) -> None:
        """Copy a parameter's gradient, divided; with `as_view` the gradient lives here from now on."""
        self.missing.discard(slot)
        if self.waits:
            self.arrived[slot] = self.params[slot]._grad
        else:
            self._take(slot, self.params[slot]._grad, divisor, as_view)

    def _take(self, slot: int, grad: Any, divisor: int, as_view: bool) -> None:
        p, view = self.params[slot], self.views[slot]
        if grad is None:
            view[...] = 0
            return
        if divisor == 1:
            if grad.array is not view:
                view[...] = grad.array
        else:
            devices.module_of(view).divide(grad.array, divisor, out=view)
        if as_view and grad.array is not view:
            p._grad = wrap(view)

    def pack(self, divisor: int, as_view: bool) -> None:
        """Copy all gradients, where that has waited until they are complete."""
        if not self.waits:
            return
        arrived, self.arrived = self.arrived, [None] * len(self.params)
        taken = self._copied([(s, g.array, self.views[s]) for s, g in enumerate(arrived) if g is not None], divisor)
        for slot, grad in enumerate(arrived):
            if slot not in taken:
                self._take(slot, grad, divisor, as_view)
            elif as_view:
                self.params[slot]._grad = wrap(self.views[slot])

    def _copied(self, rows: list[tuple[int, Any, Any]], divisor: int) -> set[int]:
        """Copy arrays on a GPU into others in one launch; return the slots of those that could be."""
        rows = [row for row in rows if row[1] is not row[2] and row[1].flags.c_contiguous and row[2].flags.c_contiguous]
        sources, targets = [row[1] for row in rows], [row[2] for row in rows]
        many = multi_tensor([*sources, *targets]) if rows else None
        if many is None:
            return set()
        many.copy(sources, targets, divisor)
        return {slot for slot, _, _ in rows}

    def give_all(self, used: list[bool], as_view: bool) -> None:
        """Make what has been reduced the gradients of parameters that some rank used."""
        given: set[int] = set()
        if self.waits:
            held = [(s, v, self.params[s]._grad) for s, v in enumerate(self.views) if used[s]]
            given = self._copied([(s, v, g.array) for s, v, g in held if g is not None], 1)
        for slot, p in enumerate(self.params):
            if slot in given:
                note_write(p._grad, "all_reduce")
            elif used[slot]:
                self.give(slot, as_view)

    def give(self, slot: int, as_view: bool) -> None:
        """Make what has been reduced a parameter's gradient."""
        p, view = self.params[slot], self.views[slot]
        grad = p._grad
        if grad is None:
            p._grad = wrap(view if as_view else view.copy())
            return
        if grad.array is not view:
            grad.array[...] = view
        note_write(grad, "all_reduce")


class GradBucket:
    """What a communication hook is given: a bucket whose gradients are complete on this rank."""

    def __init__(self, bucket: Bucket, last: bool) -> None:
        self._bucket, self._last = bucket, last

    def index(self) -> int:
        """Return the number of the bucket; 0 is the first that is reduced."""
        return self._bucket.index

    def buffer(self) -> Any:
        """Return all gradients as one tensor of one dimension."""
        return self._bucket.tensor

    def set_buffer(self, buffer: Any) -> None:
        """Replace all gradients."""
        self._bucket.flat[...] = buffer.array

    def gradients(self) -> list[Any]:
        """Return the gradients as views of the buffer."""
        return [wrap(view) for view in self._bucket.views]

    def parameters(self) -> list[Any]:
        """Return the parameters whose gradients these are."""
        return list(self._bucket.params)

    def is_last(self) -> bool:
        """Return whether no bucket comes after this one."""
        return self._last


def filled(params: Sequence[Any], cap: int, first_cap: int) -> list[Bucket]:
    """Return buckets of a limited size, the last parameters first, since their gradients arrive first.

    The first bucket is small, so that there is something to send early.
    """
    groups: list[list[Any]] = []
    open_: dict[Any, tuple[list[Any], int]] = {}
    for p in reversed(params):
        key = (p.array.dtype, str(devices.of(p.array)))
        members, size = open_.get(key, ([], 0))
        limit = first_cap if groups and members is groups[0] else cap
        if not members or size + p.array.nbytes > limit:
            members, size = [], 0
            groups.append(members)
        members.append(p)
        open_[key] = (members, size + p.array.nbytes)
    return [Bucket(index, members) for index, members in enumerate(groups)]


class Reducer:
    """Buckets of the parameters' gradients; each is reduced as soon as it is complete, in the same order everywhere.

    Parameters that a rank did not use count as zero. Where no rank used one, its gradient stays as it is.
    """

    def __init__(
        self,
        named: Sequence[tuple[str, Any]],
        group: ProcessGroup,
        cap: int,
        first_cap: int,
        as_view: bool,
        walk: bool,
        static: bool,
    ) -> None:
        self.group, self.as_view, self.walk, self.static = group, as_view, walk, static
        self.names = {id(p): name for name, p in named}
        self.params = [p for _, p in named]
        self.buckets = filled(self.params, cap, first_cap)
        self.place = {id(p): (bucket, slot) for bucket in self.buckets for slot, p in enumerate(bucket.params)}
        self.enabled = True
        self.divisor = group.size()
        self.hook: Callable[..., Any] | None = None
        self.hook_state: Any = None
        self.idle: list[str] = []  # parameters that no rank used in the last pass
        self._armed, self._next = False, 0
        self._used: set[int] | None = None  # of the forward passes since the last backward pass
        self._known: Any = None  # which parameters some rank uses, when the graph is always the same
        self._handles = [p.register_post_accumulate_grad_hook(self._arrived) for p in self.params]

    # --- Forward ------------------------------------------------------------------------------------

    def expect(self, outputs: list[Any]) -> None:
        """Get ready for the backward pass of a forward pass with these outputs."""
        if running.tasks:  # a part of the model that is computed again in the backward pass
            return
        if self._armed:  # the last pass broke off
            self._reset()
        if self.walk:
            self._used = (self._used or set()) | self._reached(outputs)
        for tensor in outputs:
            tensor.register_hook(self._arm)

    def _reached(self, outputs: list[Any]) -> set[int]:
        """Return the parameters (by id) that the graph of the outputs leads to."""
        roots = [edge_of(tensor) for tensor in outputs]
        leaves = {e for node in reach(roots) for e in node.edges if type(e) is AccumulateGrad}
        leaves |= {root for root in roots if type(root) is AccumulateGrad}
        return {id(p) for p in self.params if edge_of(p) in leaves}

    # --- Backward -----------------------------------------------------------------------------------

    def _arm(self, gradient: Any = None) -> None:
        """Make sure that the pass that runs now ends with all gradients reduced."""
        if self._armed or not self.enabled or running.tasks[0].captured is not None:  # autograd.grad fills no .grad
            return
        self._armed = True
        running.tasks[0].callbacks.append(self._finish)
        if self._used is not None:
            for p in self.params:
                if id(p) not in self._used:
                    self._ready(p)
            self._advance()

    def _arrived(self, p: Any) -> None:
        if not self.enabled:
            return
        self._arm()
        self._ready(p)
        self._advance()

    def _ready(self, p: Any) -> None:
        bucket, slot = self.place[id(p)]
        if bucket.work is not None:
            raise RuntimeError(
                f"DistributedDataParallel: the gradient of {self.names[id(p)]} arrives after its bucket was reduced: "
                "the parameter is used in several backward passes inside of one (reentrant checkpoints), or was "
                "taken for unused; use checkpoint(..., use_reentrant=False), or find_unused_parameters=False"
            )
        bucket.take(slot, 1 if self.hook else self.divisor, self.as_view)

    def _advance(self) -> None:
        """Reduce the buckets that are complete, in order; let those on their way go on."""
        while self._next < len(self.buckets) and self.buckets[self._next].complete:
            self._start(self.buckets[self._next])
            self._next += 1
        if self._next and self.hook is None:
            self.buckets[self._next - 1].work.is_completed()

    def _start(self, bucket: Any) -> None:
        bucket.pack(1 if self.hook else self.divisor, self.as_view)
        self._send(bucket)

    def _send(self, bucket: Any) -> None:
        if self.hook is not None:
            bucket.work = self.hook(self.hook_state, GradBucket(bucket, bucket.index == len(self.buckets) - 1))
            return
        flat = bucket.flat
        start = lambda: self.group.engine_for(flat).all_reduce(flat, ReduceOp.SUM)
        bucket.work = self.group.begin(f"gradients of bucket {bucket.index}", describe(flat), start)

    def _finish(self) -> None:
        """Reduce what is left, and hand out the averages."""
        for bucket in self.buckets[self._next :]:
            for slot in tuple(bucket.missing):
                bucket.take(slot, 1 if self.hook else self.divisor, self.as_view)
            self._start(bucket)
        self._next = len(self.buckets)
        used = self._reduced([p._grad is not None for p in self.params])
        for bucket in self.buckets:
            bucket.give_all([used[id(p)] for p in bucket.params], self.as_view)
            for p in bucket.params if self.as_view else ():
                if not used[id(p)]:
                    p._grad = None
        self.idle = [self.names[key] for key, anywhere in used.items() if not anywhere]
        self._reset()

    @staticmethod
    def _replace(bucket: Any, outcome: Any) -> None:
        """Store the result of a hook in a bucket."""
        reduced = outcome[0] if isinstance(outcome, list | tuple) else outcome
        if reduced.array is not bucket.flat:
            bucket.flat[...] = reduced.array

    def _reduced(self, here: list[bool]) -> dict[int, bool]:
        """Wait for the buckets; return of each parameter, by id, whether some rank has a gradient for it."""
        flags, asked = np.array(here, np.uint8), None
        if self._known is None or not self.static:
            start = lambda: self.group._engine.all_reduce(flags, ReduceOp.MAX)
            asked = self.group.begin("parameters used", f"{len(here)} parameters", start, None, flags)
        for bucket in self.buckets:
            outcome = bucket.work.wait()
            if self.hook is not None:
                self._replace(bucket, outcome)
        if asked is not None:
            asked.wait()
            self._known = dict(zip(self.names, map(bool, flags)))
        return self._known

    def _reset(self) -> None:
        for bucket in self.buckets:
            bucket.clear()
        self._armed, self._next, self._used = False, 0, None

    # --- Uneven inputs ------------------------------------------------------------------------------

    def shadow(self) -> None:
        """Take part in the others' backward pass with zeros: this rank has no data left."""
        for bucket in self.buckets:
            bucket.flat[...] = 0
            bucket.missing.clear()
            self._send(bucket)
        used = self._reduced([False] * len(self.params))
        for bucket in self.buckets:
            # The rank that owns a part of the optimizer's state updates it.
            bucket.give_all([used[id(p)] for p in bucket.params], self.as_view)
        self._reset()

    def remove(self) -> None:
        """Watch the parameters no longer."""
        for handle in self._handles:
            handle.remove()
