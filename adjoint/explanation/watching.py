"""The record of a watch: every tensor's origin, with or without history, and where history was lost."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core import modes
from ..core.observation import Observer
from ..core.tensor import TensorBase, caller
from ..errors import place

latest: list[Watch] = []  # the last watch that was on, for `explain` after its end


class Origin:
    """The origin of a tensor: the op, its line and inputs, and how history was lost there, if it was."""

    __slots__ = ("cut", "made_by", "nan", "parents", "place")

    def __init__(self, made_by: str, where: str, parents: list[Origin], cut: str | None = None) -> None:
        self.made_by, self.place, self.parents, self.cut = made_by, where, parents, cut
        self.nan = False


def here() -> str:
    """Return the program's file and line."""
    return place(*caller()) or "an unknown line"


class Watch(Observer):
    """Remembers where every tensor of a program comes from, so that `explain` can say where a path ends.

    Examples
    --------
    >>> x = adjoint.tensor([1.0, 2.0], requires_grad=True)
    >>> with adjoint.explain.watch():
    ...     loss = (x.detach() * 3).sum()
    >>> adjoint.explain(loss, x).status
    'none'
    """

    def __init__(self) -> None:
        self.origins: dict[int, tuple[weakref.ref[Any], Origin]] = {}
        self.reads: list[tuple[Origin, str, str]] = []  # origin, what was called, where
        self.arrivals: list[str] = []  # lines at which memory came in from NumPy

    def __enter__(self) -> Watch:
        super().__enter__()
        latest[:] = [self]
        return self

    def origin(self, x: Any) -> Origin:
        """Return the origin of a tensor; a tensor from before the watch is its own origin."""
        entry = self.origins.get(id(x))
        if entry is not None and entry[0]() is x:
            return entry[1]
        return self.note(x, Origin("", "", []))

    def knows(self, x: Any) -> bool:
        """Return whether a tensor was made while this watch was on."""
        entry = self.origins.get(id(x))
        return entry is not None and entry[0]() is x and bool(entry[1].made_by)

    def note(self, x: Any, origin: Origin) -> Origin:
        """Remember how a tensor came to be."""
        self.origins[id(x)] = (weakref.ref(x), origin)
        return origin

    def call(self, op: Any, inputs: tuple[Any, ...], params: tuple[Any, ...], run: Callable[..., Any]) -> Any:
        """Run a primitive and remember its results."""
        result = self.proceed(op, inputs, params, run)
        tensors = [v for v in inputs if isinstance(v, TensorBase)]
        if tensors:
            where, parents = here(), [self.origin(t) for t in tensors]
            needed = any(t.node is not None for t in tensors)
            for out in result if isinstance(result, tuple) else (result,):
                if isinstance(out, TensorBase):
                    self._remember(
                        op, out, tensors, Origin(op.name, where, parents, _lost(op, out) if needed else None)
                    )
        return result

    def _remember(self, op: Any, out: Any, inputs: list[Any], origin: Origin) -> None:
        origin.nan = _has_nan(out) and not any(_has_nan(t) for t in inputs)
        self.note(out, origin)

    def compute_into(self, op: Any, x: TensorBase, inputs: Any, params: Any, run: Callable[[], None]) -> None:
        """Record an in-place op as the new origin of its tensor."""
        tensors = [v for v in inputs if isinstance(v, TensorBase)]
        parents = [self.origin(t) for t in tensors]
        super().compute_into(op, x, inputs, params, run)
        lost = None if modes.is_grad_enabled() or not any(t.node is not None for t in tensors[1:]) else _NO_GRAD
        origin = self.note(x, Origin(f"{op.name}_", here(), parents, lost))
        origin.nan = _has_nan(x)

    def read(self, x: TensorBase, what: str) -> None:
        """Record that Python read a value: results computed from it have no history."""
        if what != "repr()":
            self.reads.append((self.origin(x), what, here()))
        super().read(x, what)

    def lent(self, x: TensorBase) -> None:
        """Remember a tensor that came in through NumPy."""
        self.arrivals.append(here())
        super().lent(x)

    def cut(self, x: TensorBase, out: Any, how: str) -> None:
        """Remember a tensor without the history of the one it was."""
        self.note(out, Origin(how, here(), [self.origin(x)], how if x.node is not None else None))
        super().cut(x, out, how)

    # --- what it reports ---

    def cuts(self, loss: Any, x: Any) -> list[str]:
        """Return, in words, every place at which a path from `x` to `loss` lost its history."""
        start, end = self.origin(x), self.origin(loss)
        leading = _leading_to(end, start)
        found = [o for o in leading if o.cut is not None and any(p in leading or p is start for p in o.parents)]
        return list(dict.fromkeys(f"{_verb(o)} at {o.place}" for o in found))

    def depends(self, loss: Any, x: Any) -> bool:
        """Return whether `loss` was computed from `x` at all, with or without history."""
        return bool(_leading_to(self.origin(loss), self.origin(x)))

    def sources(self, loss: Any) -> list[Any]:
        """Return the tensors that `loss` was computed from and that the watch did not see being made."""
        found, stack, seen = [], [self.origin(loss)], set()
        while stack:
            o = stack.pop()
            if o not in seen:
                seen.add(o)
                stack += o.parents
                if not o.made_by:
                    found.append(o)
        alive = {entry[1]: entry[0]() for entry in self.origins.values()}
        return [t for t in (alive.get(o) for o in found) if t is not None and t is not loss]

    def reads_of(self, x: Any) -> list[str]:
        """Return, in words, where values that depend on `x` were read into Python."""
        start = self.origin(x)
        found = [f"{what} at {where}" for origin, what, where in self.reads if _leading_to(origin, start)]
        return list(dict.fromkeys(found))


_NO_GRAD = "recording was off"
_INTEGER = "the result is not floating-point"


def _lost(op: Any, out: Any) -> str | None:
    """Return how a result of tensors that require gradients came to have no history, or None if it has one."""
    if out.node is not None:
        return None
    if not modes.is_grad_enabled():
        return _NO_GRAD
    if out.array.dtype.kind in "iub":
        return _INTEGER
    return f"{op.name} has no derivative"


def _verb(origin: Origin) -> str:
    if origin.cut == _NO_GRAD:
        return f"{origin.made_by} ran while recording was off (no_grad, inference_mode or set_grad_enabled(False))"
    if origin.cut == _INTEGER:
        return f"{origin.made_by} gave integers or booleans, which carry no gradient,"
    if origin.cut == origin.made_by:
        return f"{origin.cut} was called"
    return f"{origin.cut}: {origin.made_by} was called"


def _leading_to(end: Origin, start: Origin) -> set[Origin]:
    """Return the origins on paths from `start` to `end`, both included; none if there is no path."""
    leads: dict[Origin, bool] = {start: True}
    stack = [end]
    while stack:
        o = stack[-1]
        waiting = [p for p in o.parents if p not in leads]
        if waiting and o not in leads:
            stack.extend(waiting)
            continue
        stack.pop()
        if o not in leads:
            leads[o] = any(leads.get(p, False) for p in o.parents)
    return {o for o, led in leads.items() if led} if leads.get(end) else set()


def _has_nan(x: Any) -> bool:
    array = x.array
    return isinstance(array, np.ndarray) and array.dtype.kind in "fc" and bool(np.isnan(array).any())


def watch() -> Watch:
    """Return a context that remembers where tensors come from, for a later ``explain(loss, x)``."""
    return Watch()
