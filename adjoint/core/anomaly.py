"""Cheap anomaly detection: the processor's floating-point flags, the current stack, a fast search for a NaN.

When an operation on numbers makes a NaN, the processor raises a flag, which NumPy checks after every ufunc. So the
results of forward ops need no check. NumPy calls `_invalid`, which stops the kernel with a warning. The recorder runs
the kernel again without warnings, as it does whenever a program turns warnings into errors, and checks that result.
"""

from __future__ import annotations

import os
import sys
import threading
from bisect import bisect_left, bisect_right
from typing import Any

import numpy as np

from ..errors import line_of
from .payload import Payload
from .tensor import TensorBase, ours, tick

ndarray, vdot, isnan = np.ndarray, np.vdot, np.isnan
_FAST = frozenset((np.dtype(np.float32), np.dtype(np.float64)))


class Trail:
    """The stack of the program, innermost first, as code and instruction; lines are looked up when it is shown."""

    __slots__ = ("steps",)

    def __init__(self, steps: list[tuple[Any, int]]) -> None:
        self.steps = steps

    @classmethod
    def now(cls) -> Trail:
        """Return the stack at this moment, without adjoint's own frames at its end."""
        frame: Any = sys._getframe(1)
        while frame.f_code.co_filename in ours and frame.f_back is not None:
            frame = frame.f_back
        steps = []
        while frame is not None:
            steps.append((frame.f_code, frame.f_lasti))
            frame = frame.f_back
        return cls(steps)

    def format(self) -> list[str]:
        """Return the lines of a traceback, outermost call first."""
        import traceback

        found = [(c.co_filename, line_of(c, lasti), c.co_name, None) for c, lasti in reversed(self.steps)]
        return traceback.StackSummary.from_list(found).format()


_SPANS = 100_000


class Spans:
    """Times between two ticks, each with a value; the stamp of a node selects the span in which it was recorded.

    So what is recorded while anomaly detection is on is known afterwards, and recording costs nothing more.
    """

    def __init__(self) -> None:
        self.starts: list[int] = []
        self.spans: list[tuple[int, Any]] = []  # end and value

    def add(self, start: int, end: int, value: object) -> None:
        """Note a span that has ended; spans may contain earlier ones."""
        at = bisect_left(self.starts, start)
        if at == len(self.starts) and at and self.spans[-1] == (start - 1, value):  # nothing in between: one span
            self.spans[-1] = end, value
            return
        self.starts[at:], self.spans[at:] = [start], [(end, value)]
        if len(self.starts) > _SPANS:  # of a long run only what is recent
            del self.starts[: _SPANS // 2], self.spans[: _SPANS // 2]

    def at(self, stamp: int) -> Any:
        """Return the value of the span that contains `stamp`, or None."""
        i = bisect_right(self.starts, stamp) - 1
        return self.spans[i][1] if i >= 0 and stamp < self.spans[i][0] else None


class Recording(threading.local):
    """When anomaly detection was on in a thread, and which nodes of recorded backward passes recorded others."""

    def __init__(self) -> None:
        self.since: int | None = None
        self.on = Spans()
        self.induced = Spans()

    def switch(self, mode: bool) -> None:
        """Note that detection is on or off from now on."""
        if mode and self.since is None:
            self.since = tick()
        elif not mode and self.since is not None:
            self.on.add(self.since, tick(), True)
            self.since = None

    def covers(self, stamp: int) -> bool:
        """Return whether a node with this stamp was recorded while detection was on."""
        return (self.since is not None and stamp >= self.since) or bool(self.on.at(stamp))

    def parent(self, stamp: int) -> Any:
        """Return the node whose backward recorded the node with this stamp, if there is one and it still exists."""
        found = self.induced.at(stamp)
        return None if found is None else found()


recording = Recording()


def has_nan(value: Any) -> bool:
    """Return whether an array, or the array of a tensor or payload, has a NaN.

    The product of an array with itself is NaN exactly if an element is: squares do not cancel. That is one
    pass without a temporary.
    """
    if isinstance(value, TensorBase):
        value = value.array
    if isinstance(value, Payload):  # inside a transform
        value = value.memory()
    dtype = getattr(value, "dtype", None)
    if dtype is None or dtype.kind not in "fc":
        return False
    if type(value) is ndarray and dtype in _FAST and value.flags.forc:
        square = vdot(value, value)
        return bool(square != square)
    return bool(isnan(value).any())


class NaNMade(RuntimeWarning):
    """An operation of a kernel was invalid: it may have made a NaN."""


_here = os.path.dirname(__file__)
_catchers = frozenset(os.path.join(_here, f"{name}.py") for name in ("fast_path", "general", "inplace", "engine"))
_numpy = os.path.dirname(np.__file__)


def _invalid(error: str, flag: int) -> None:
    """Stop a kernel or rule that did something invalid; leave the program's own NumPy code alone."""
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_numpy):
        frame = frame.f_back
    while frame is not None and frame.f_code.co_filename in ours:
        if frame.f_code.co_filename in _catchers:
            raise NaNMade(error)
        frame = frame.f_back


def watch_flags() -> tuple[Any, Any]:
    """Make NumPy report invalid operations; return what `ignore_flags` needs to undo it."""
    return np.seterr(invalid="call"), np.seterrcall(_invalid)


def ignore_flags(before: tuple[Any, Any]) -> None:
    """Undo `watch_flags`."""
    np.seterr(**before[0])
    np.seterrcall(before[1])
