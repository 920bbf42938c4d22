"""Buckets: gradients of several parameters in one piece of memory, so that one collective carries them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core import device as devices
from ..core.nodes import wrap
from ..core.tensor import note_write

__all__ = ["Bucket", "GradBucket", "filled"]


class Bucket:
    """The memory of some parameters' gradients, and what has arrived of them in this backward pass."""

    def __init__(self, index: int, params: list[Any]) -> None:
        self.index, self.params = index, params
        first = params[0].array
        self.flat = devices.module_of(first).empty(sum(p.array.size for p in params), first.dtype)
        self.views: list[Any] = []
        at = 0
        for p in params:
            self.views.append(self.flat[at : at + p.array.size].reshape(p.array.shape))
            at += p.array.size
        self.tensor = wrap(self.flat)
        self.clear()

    def clear(self) -> None:
        """Await every gradient anew."""
        self.missing = set(range(len(self.params)))
        self.work: Any = None

    @property
    def complete(self) -> bool:
        """Whether every gradient has arrived, and none is on its way to the others yet."""
        return not self.missing and self.work is None

    def take(self, slot: int, divisor: int, as_view: bool) -> None:
        """Copy a parameter's gradient, divided; with `as_view` the gradient lives here from now on."""
        p, view = self.params[slot], self.views[slot]
        self.missing.discard(slot)
        grad = p._grad
        if grad is None:
            view[...] = 0
            return
        if divisor == 1:
            if grad.array is not view:
                view[...] = grad.array
        else:
            module = devices.module_of(view)
            module.divide(grad.array, view.dtype.type(divisor), out=view)
        if as_view and grad.array is not view:
            p._grad = wrap(view)

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
    """Return buckets of at most so many bytes, the last parameters in the first: their gradients come first.

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
