"""Parameters of one unit, concatenated into a vector of which each rank holds a part."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core import device as devices
from ...core import dtypes
from ...core.nodes import wrap
from ...core.tasks import running
from ...core.tensor import note_write
from ...devices.contract import multi_tensor
from ...errors import describe
from ...nn.parameter import Parameter
from ...ops.create import finish
from ..engines import ReduceOp
from ..groups import ProcessGroup
from ..shards import ShardedParameter
from .pages import pages_like

__all__ = ["Entry", "Flat"]


_MOST_ON_THEIR_WAY = 2
_on_their_way: list[Any] = []  # reductions of all units, the oldest first


class Entry:
    """One parameter: its owners, its offset in the flat vector, this rank's part, and the gathered whole."""

    def __init__(self, name: str, param: Any, owners: list[tuple[Any, str]], start: int) -> None:
        self.name, self.owners, self.start, self.size = name, owners, start, param.array.size
        self.shape, self.trained = tuple(param.array.shape), param.requires_grad
        self.original = param
        self.part: Any = None
        self.full: Any = None

    def show(self, value: Any) -> None:
        """Make `value` what the modules see."""
        for owner, name in self.owners:
            owner._parameters[name] = value


class Flat:
    """Parameters of one dtype, sharded over a group.

    `local` is this rank's part of the vector, in the dtype in which it is trained; `pages` the whole, in that in
    which the unit computes.
    """

    def __init__(self, entries: Sequence[Entry], group: ProcessGroup, policy: Any) -> None:
        self.entries, self.group = list(entries), group
        size, rank = group.size(), group.rank()
        first = self.entries[0].original.array
        total = sum(entry.size for entry in self.entries)
        self.share = -(-total // size)
        self._arrays = devices.module_of(first)
        self.local = devices.adopt(self._arrays.zeros(self.share, first.dtype))
        self.dtype = np.dtype(_np(policy.param_dtype) or first.dtype)
        self.reduce_dtype = np.dtype(_np(policy.reduce_dtype) or self.dtype)
        self.pages = pages_like(self.share * size, self.dtype, first)
        self.resident, self.syncs, self.divisor = False, True, size
        self._gathering: Any = None
        self._reducing: list[tuple[Any, Any]] = []
        self._awaited: set[int] = set()
        self._armed, self._seen = False, -1
        for entry in self.entries:
            self._take(entry, rank * self.share, (rank + 1) * self.share)

    def _take(self, entry: Entry, begin: int, end: int) -> None:
        """Store this rank's part of a parameter, and make the leaf that represents the whole."""
        low = min(max(begin, entry.start), entry.start + entry.size)
        high = max(min(end, entry.start + entry.size), low)
        values = entry.original.array.reshape(-1)[low - entry.start : high - entry.start]
        place = self.local[max(low - begin, 0) : max(low - begin, 0) + values.size]
        place[...] = values
        part = ShardedParameter(finish(place), entry.trained)
        part.full_shape, part.start, part.group = entry.shape, low - entry.start, self.group
        entry.part, entry.original = part, None
        whole = self.pages.array[entry.start : entry.start + entry.size].reshape(entry.shape)
        entry.full = Parameter(finish(whole), entry.trained)
        if entry.trained:
            entry.full.register_post_accumulate_grad_hook(lambda _, entry=entry: self._arrived(entry))
        entry.show(part)

    # --- Whole and parts ----------------------------------------------------------------------------

    def gather(self) -> None:
        """Begin to gather the whole, unless it is already there and up to date."""
        seen = sum(entry.part._version for entry in self.entries)
        if (self.resident or self._gathering is not None) and seen == self._seen:
            return
        self._seen = seen
        sent = self.local if self.local.dtype == self.dtype else self.local.astype(self.dtype)
        self.pages.fetch()
        start = lambda: self.group.engine_for(sent).all_gather(self.pages.array, sent)
        self._gathering = self.group.begin("gather of parameters", describe(sent), start, None, sent)

    def ready(self) -> None:
        """Wait until the whole has been gathered."""
        self.gather()
        if self._gathering is not None:
            self._gathering.wait()
            self._gathering = None
        self.resident = True

    def release(self) -> None:
        """Free the whole."""
        if self._gathering is not None:
            self._gathering.wait()
            self._gathering = None
        if self.resident:
            self.pages.release()
        self.resident = False

    def show(self, whole: bool) -> None:
        """Set the modules' parameters to the whole ones, or to the parts."""
        for entry in self.entries:
            entry.show(entry.full if whole else entry.part)

    # --- Gradients ----------------------------------------------------------------------------------

    def arm(self) -> None:
        """Make sure that the backward pass that runs now ends with the gradients reduced."""
        if not self._armed:
            self._armed = True
            self._awaited = {id(entry) for entry in self.entries if entry.trained}
            running.tasks[0].callbacks.append(self._finish)

    def _arrived(self, entry: Entry) -> None:
        self.arm()
        self._awaited.discard(id(entry))
        if not self._awaited:
            self._reduce()
            if all(other.trained for other in self.entries):  # a frozen one may still be needed further down
                self.release()

    def _reduce(self) -> None:
        """Begin to reduce-scatter the gradients."""
        if not self.syncs or all(entry.full._grad is None for entry in self.entries):
            return
        whole = self._arrays.zeros(self.share * self.group.size(), self.reduce_dtype)
        arrived = [entry for entry in self.entries if entry.full._grad is not None]
        sources = [entry.full._grad.array for entry in arrived]
        targets = [whole[entry.start : entry.start + entry.size].reshape(entry.shape) for entry in arrived]
        many = multi_tensor([*sources, *targets]) if all(a.flags.c_contiguous for a in sources) else None
        if many is not None:
            many.copy(sources, targets)
        for entry, source, target in zip(arrived, sources, targets):
            if many is None:
                target[...] = source
            entry.full._grad = None
        if self.divisor != 1:
            whole /= self.divisor
        mine = self._arrays.empty(self.share, self.reduce_dtype)
        start = lambda: self.group.engine_for(whole).reduce_scatter(mine, whole, ReduceOp.SUM)
        work = self.group.begin("reduction of gradients", describe(whole), start, None, (mine, whole))
        self._reducing.append((work, mine))
        _on_their_way.append(work)
        while len(_on_their_way) > _MOST_ON_THEIR_WAY:  # each holds unsharded gradients in memory until it has ended
            _on_their_way.pop(0).wait()

    def _finish(self) -> None:
        """End the backward pass: gradients of unused parts are zero where other ranks used them."""
        self._armed = False
        if self._awaited and self.syncs:
            # Some have not come. Other ranks may have them: either all ranks reduce, or none.
            present = np.array([any(entry.full._grad is not None for entry in self.entries)], np.uint8)
            start = lambda: self.group._engine.all_reduce(present, ReduceOp.MAX)
            self.group.begin("parameters used", "", start, None, present).wait()
            if present[0]:
                for entry in self.entries:
                    if entry.trained and entry.full._grad is None:
                        entry.full._grad = wrap(devices.adopt(self._arrays.zeros(entry.shape, self.dtype)))
                self._reduce()
        self.release()
        begin = self.group.rank() * self.share
        for work, mine in self._reducing:
            work.wait()
            if work in _on_their_way:
                _on_their_way.remove(work)
            for entry in self.entries:
                if entry.trained:
                    at = entry.start + entry.part.start - begin
                    _add(entry.part, mine[at : at + entry.part.array.size])
        self._reducing.clear()


def _np(dtype: Any) -> Any:
    return None if dtype is None else dtypes.as_dtype(dtype).np


def _add(part: Any, values: Any) -> None:
    """Add to a part's gradient."""
    held = part._grad
    if held is None:
        part._grad = wrap(devices.adopt(values.astype(part.array.dtype, copy=False)))
    else:
        held.array[...] += values.astype(part.array.dtype)
        note_write(held, "reduce_scatter")
