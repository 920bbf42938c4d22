"""Values other than arrays that a tensor may hold: batched, dual and traced ones, each at a level.

A transform that is entered pushes a level. Its payloads carry that number, and an op runs at the
highest level among its operands: payloads of that level are handled by their class, everything lower
enters whole, as a value, so that the graph it belongs to goes on recording (see docs/design.md).
"""

from __future__ import annotations

import itertools
import threading
from typing import Any, ClassVar

import numpy as np

from . import modes
from .tensor import TensorBase


class Payload:
    """Base of what a tensor may hold besides an array.

    A subclass answers `shape`, `dtype`, `ndim` for the value as the program sees it, and `apply`, which
    runs one primitive on values of which at least one is of this level.
    """

    __slots__ = ("level",)

    level: int
    # NumPy asks its operands in order of priority; a payload goes before arrays and tensors.
    __array_priority__: ClassVar[float] = 2000.0
    # Whether a tensor of a lower level that is written with such a value becomes one itself.
    spreads: ClassVar[bool] = True
    # Whether ops come with the operands that the program gave, neither promoted nor taken out of their tensors.
    whole: ClassVar[bool] = False
    # Whether a write gives the tensor another value, so that what looks at its memory must be made anew.
    by_value: ClassVar[bool] = False

    @classmethod
    def apply(cls, op: Any, level: int, values: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """Run `op` on `values`, of which those of `level` are payloads of this class."""
        raise NotImplementedError

    @classmethod
    def lifted(cls, value: Any, level: int) -> Any:
        """Return a value of a lower level as one of this class and level."""
        raise NotImplementedError

    @classmethod
    def overwrite(cls, op: Any, x: TensorBase, rest: tuple[Any, ...], params: tuple[Any, ...], level: int) -> bool:
        """Write into the memory below the tensor's value, if there is one that others look at; else return False."""
        return False

    def memory(self) -> Any:
        """Return the array at the bottom: of a batch all of it, of a dual value the primal."""
        value: Any = self
        while isinstance(value, Payload | TensorBase):
            value = value.array if isinstance(value, TensorBase) else value.below()
        return value

    def below(self) -> Any:
        """Return the value one level down."""
        raise NotImplementedError

    def detached(self) -> Any:
        """Return the value as `Tensor.detach` gives it."""
        return self

    def ones(self) -> Any:
        """Return the gradient of the value with respect to itself."""
        return np.ones(self.shape, self.dtype)  # type: ignore[attr-defined]

    def history(self) -> Any:
        """Return the tensor one level down whose history the value has, where programs see it; else None."""
        return None

    def note_holder(self, tensor: TensorBase) -> None:
        """Hear of a tensor that was made to hold the value."""


_levels = itertools.count(1).__next__


class Level:
    """A context in which payloads of one fresh level live.

    `kind` is their class, where a transform wants values of lower levels lifted to it; `size` and
    `randomness` say what random numbers drawn inside a batch are. A level of no payloads (`recording`) marks
    where a reverse-mode transform was entered, and with which grad mode.
    """

    __slots__ = ("floor", "grad", "kind", "number", "randomness", "recording", "size")

    def __init__(
        self, kind: type[Payload] | None = None, size: int = 0, randomness: str = "same", recording: bool = False
    ) -> None:
        self.kind, self.size, self.randomness, self.recording = kind, size, randomness, recording

    def __enter__(self) -> int:
        self.number = _levels()
        around = innermost()
        self.floor = 0 if around is None else around.number
        self.grad = modes.local.grad
        inside.levels = (*inside.levels, self)
        if not self.recording:
            modes.note_unusual(1)
        return self.number

    def __exit__(self, *error: object) -> None:
        inside.levels = tuple(level for level in inside.levels if level is not self)
        if not self.recording:
            modes.note_unusual(-1)


class _Inside(threading.local):
    """The levels that this thread is inside of, innermost last."""

    levels: tuple[Level, ...] = ()


inside = _Inside()


def innermost() -> Level | None:
    """Return the innermost level whose payloads values are lifted to, if any."""
    for level in reversed(inside.levels):
        if level.kind is not None:
            return level
    return None


def grad_at(number: int) -> bool:
    """Return the grad mode for an op whose operands are of a level and lower ones.

    A reverse-mode transform records what happens at the level it was entered in, and above. Whatever it, or the
    function it transforms, has switched is no business of the levels below.
    """
    for level in inside.levels:
        if level.recording and level.floor > number:
            return level.grad
    return modes.local.grad


def payload_of(value: Any) -> Payload | None:
    """Return the payload that `value` is or holds, if any."""
    if isinstance(value, TensorBase):
        value = value.array
    return value if isinstance(value, Payload) else None


def top_payload(values: tuple[Any, ...]) -> Payload | None:
    """Return the payload of the highest level among `values`, if any."""
    top: Payload | None = None
    for value in values:
        payload = payload_of(value)
        if payload is not None and (top is None or payload.level > top.level):
            top = payload
    return top


def broadcasting(rule: Any) -> Any:
    """Mark a batching rule as one that takes operands whose batch axis has size 1, for all of the batch."""
    rule.broadcasts = True
    return rule


def history_below(x: TensorBase) -> Any:
    """Return the tensor one level down whose history a tensor has, where programs see it (`forward_ad`); else None."""
    return x.array.history() if isinstance(x.array, Payload) else None
