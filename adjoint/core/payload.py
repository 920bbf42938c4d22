"""Values other than arrays that a tensor may hold: batched, dual and traced ones, each at a level.

A transform that is entered pushes a level. Its payloads carry that number, and an op runs at the
highest level among its operands: payloads of that level are handled by their class, everything lower
enters whole, as a value, so that the graph it belongs to goes on recording (see docs/design.md).
"""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

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

    @classmethod
    def apply(cls, op: Any, level: int, values: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
        """Run `op` on `values`, of which those of `level` are payloads of this class."""
        raise NotImplementedError


_levels = itertools.count(1).__next__


class Level:
    """A context in which payloads of one fresh level live."""

    __slots__ = ("number",)

    def __enter__(self) -> int:
        self.number = _levels()
        modes.note_unusual(1)
        return self.number

    def __exit__(self, *error: object) -> None:
        modes.note_unusual(-1)


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
