"""Updates that no signal splits: an optimizer's step, the unscaling of gradients, the averaging of weights.

Python runs the handlers of signals in the main thread, between any two instructions, and Ctrl-C's raises there. Inside
``with whole():`` a handler is called when the block has ended. A second signal of the same number is not held: it says
that the first took too long. Other threads never run handlers, and pass through.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
import signal
import sys
from collections.abc import Callable
from threading import get_ident, main_thread
from types import FrameType, TracebackType
from typing import Any

_get, _set = _signal.getsignal, _signal.signal  # without the enumerations of `signal`, which cost more than the rest
# Signals whose handlers programs let raise; those of faults and of job control are not held.
_NUMBERS = tuple(
    int(getattr(signal, name))
    for name in (
        "SIGINT", "SIGTERM", "SIGALRM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGVTALRM", "SIGPROF", "SIGXCPU",
        "SIGCHLD", "SIGBREAK",
    )
    if hasattr(signal, name)
)  # fmt: skip


class _Hold:
    """The handler in place of the program's own; while no block is open, it only passes signals on."""

    def __init__(self) -> None:
        self.later: FrameType | None = None  # runs a block that is about to write
        self.owner: FrameType | None = None  # runs the block inside which signals are held
        self.before: dict[int, Callable[..., Any]] = {}
        self.came: Any = ()  # signals that wait
        self.held: tuple[tuple[int, Callable[..., Any]], ...] = ()
        self.found: list[Any] = []

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Note a signal, or call the program's handler."""
        if self.owner is not None and number not in self.came and self._is_open(frame):
            self.came = [*self.came, number]
            return
        self.came = [n for n in self.came if n != number]
        self.before[number](number, frame)

    def _is_open(self, frame: FrameType | None) -> bool:
        """Return whether the block is still running: an exception set from outside may have ended it anywhere."""
        while frame is not None:
            if frame is self.owner:
                return True
            frame = frame.f_back
        self.owner = None
        return False

    def begin(self, owner: FrameType) -> bool:
        """Hold signals from now on; return False where an outer block does, or this is not the main thread."""
        if get_ident() != main_thread().ident or (self.owner is not None and self._is_open(owner)):
            return False
        found = [*map(_get, _NUMBERS)]
        if found != self.found:
            self._look(found)
        try:
            for number, _ in self.held:
                _set(number, self)
        except ValueError:  # the main thread of a subinterpreter runs no handlers
            return False
        self.came = ()
        self.owner = owner  # last: until here signals pass through, and nothing has begun
        return True

    def _look(self, found: list[Any]) -> None:
        """Remember the program's handlers."""
        for number, handler in zip(_NUMBERS, found, strict=True):
            if callable(handler) and handler is not self:
                self.before[number] = handler
            elif handler is not self:  # ignored, or not Python's
                self.before.pop(number, None)
        self.held = tuple(self.before.items())
        self.found = found

    def end(self) -> None:
        """Put the handlers back, and call those whose signals came."""
        self.owner = None
        came, self.came = self.came, ()
        try:
            for number, handler in self.held:
                if (now := _set(number, handler)) is not self:
                    _set(number, now)  # the block itself has set another
        finally:
            if came:
                self._deliver(came)

    def _deliver(self, came: list[int]) -> None:
        try:
            self.before[came[0]](came[0], sys._getframe(2))
        finally:
            if came[1:]:
                self._deliver(came[1:])

    def forget(self) -> None:
        """Be as if nothing were held: in a child forked inside a block, the block is the parent's."""
        if self.owner is not None:
            self.came = ()
            self.end()


_hold = _Hold()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_hold.forget)


class whole:
    """The context of an update that signals wait for.

    Examples
    --------
    >>> with whole():
    ...     pass
    """

    __slots__ = ("began",)

    def __init__(self) -> None:
        self.began = False

    def __enter__(self) -> whole:
        self.began = _hold.begin(sys._getframe(1))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.began:
            _hold.end()


def begin(depth: int = 1) -> bool:
    """Hold signals until the caller, or the frame `depth` - 1 above it, calls `end`; return False if one holds them."""
    return _hold.begin(sys._getframe(depth))


def end() -> None:
    """Let signals through again, and call the handlers of those that came."""
    _hold.end()


class once_written:
    """The context of a computation that signals wait for from the moment it calls `writing`."""

    __slots__ = ("frame", "outer")

    def __enter__(self) -> None:
        self.frame = sys._getframe(1)
        if get_ident() == main_thread().ident:
            self.outer, _hold.later = _hold.later, self.frame

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if _hold.later is self.frame:
            _hold.later = self.outer
            if _hold.owner is self.frame:
                _hold.end()


def writing() -> None:
    """Hold signals until the innermost `once_written` block of the main thread has ended."""
    if _hold.later is not None:
        _hold.begin(_hold.later)


class apart:
    """The context, inside a `whole` one, of what signals need not wait for: a function of the program's own."""

    __slots__ = ("owner",)

    def __init__(self) -> None:
        self.owner: FrameType | None = None

    def __enter__(self) -> None:
        if _hold.owner is not None and get_ident() == main_thread().ident:
            self.owner = _hold.owner
            _hold.end()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.owner is not None:
            _hold.begin(self.owner)
