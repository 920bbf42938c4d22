"""Updates that no signal splits: an optimizer's step, the unscaling of gradients, the averaging of weights.

Python runs the handlers of signals in the main thread, between any two instructions, and Ctrl-C's raises there. While a
function marked by `whole` runs, handlers wait for its end. A second signal of the same number does not: it says that
the first took too long. Other threads never run handlers.

While an update runs, a `Waiting` handler replaces each of the program's (`hold`), and afterwards the program's is back
(`release`): outside of updates `signal.getsignal` returns what the program has set. A `Waiting` handler looks at the
frames that are running when a signal comes. So one that is left behind, by an interrupt between the update's end and
`release`, calls the program's handler at once, and the next update removes it.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import os
import signal
import sys
from collections.abc import Callable
from functools import wraps
from threading import get_ident, main_thread
from types import CodeType, FrameType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

_get, _set = _signal.getsignal, _signal.signal  # without the enumerations of `signal`: importing them costs the most
# Signals whose handlers programs let raise; those of faults and of job control are not held.
_NUMBERS = tuple(
    int(getattr(signal, name))
    for name in (
        "SIGINT", "SIGTERM", "SIGALRM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGVTALRM", "SIGPROF", "SIGXCPU",
        "SIGCHLD", "SIGBREAK",
    )
    if hasattr(signal, name)
)  # fmt: skip

came: list[tuple[int, Callable[..., Any]]] = []  # signals that wait, and their handlers
_marks: dict[CodeType, Callable[[FrameType], bool]] = {}  # whether signals wait for a frame that runs the code


class Waiting:
    """A handler that calls the program's own, now or when the update that runs has ended."""

    __slots__ = ("handler",)

    def __init__(self, handler: Callable[..., Any]) -> None:
        self.handler = handler

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Note a signal, or call the program's handler."""
        again = any(n == number for n, _ in came)
        if not again and _is_whole(frame):
            came.append((number, self.handler))
            return
        came[:] = [c for c in came if c[0] != number]
        if _get(number) is self:  # a handler may check that it is in place
            _set(number, self.handler)
        try:
            self.handler(number, frame)
        finally:
            if came:
                deliver()


def _is_whole(frame: FrameType | None) -> bool:
    """Return whether signals wait for a frame, or for one that it was called from."""
    while frame is not None:
        mark = _marks.get(frame.f_code)
        if mark is not None:
            return mark(frame)
        frame = frame.f_back
    return False


_handlers: list[Any] = []  # the program's, when an update last looked
_waiting: list[tuple[int, Waiting]] = []  # what replaces them


def hold() -> list[tuple[int, Waiting]]:
    """Replace the program's handlers until `release` is called with what this returns."""
    if get_ident() != main_thread().ident:
        return []
    now = [*map(_get, _NUMBERS)]
    if now == _handlers:
        found = _waiting
    else:
        # Left by an update that this one is a part of, or by one that was interrupted.
        left = any(type(h) is Waiting for h in now)
        nested = left and _is_whole(sys._getframe(1))
        found = [
            (n, h if type(h) is Waiting else Waiting(h))
            for n, h in zip(_NUMBERS, now, strict=True)
            if callable(h) and not (nested and type(h) is Waiting)
        ]
        if not left:
            _handlers[:], _waiting[:] = now, found
    try:
        for number, waiting in found:
            _set(number, waiting)
    except ValueError:  # the main thread of a subinterpreter runs no handlers
        return []
    return found


def release(held: list[tuple[int, Waiting]]) -> None:
    """Put the program's handlers back, unless it has set others since."""
    for number, waiting in held:
        if _get(number) is waiting:
            _set(number, waiting.handler)


def deliver() -> None:
    """Call the handlers of the signals that came, unless an outer update is still running."""
    if get_ident() != main_thread().ident or _is_whole(sys._getframe(1)):
        return
    while came:
        number, handler = came.pop(0)
        try:
            handler(number, sys._getframe(1))
        finally:
            if came:
                deliver()


def mark(function: Callable[P, R], wait: Callable[[FrameType], bool] = lambda _: True) -> Callable[P, R]:
    """Let signals wait while `function` runs, or those at which `wait` says so of its frame.

    Its caller calls `hold` before, `release` afterwards, and `deliver`s what `came`: `whole` does all of it.
    """
    _marks[function.__code__] = wait
    return function


def apart(function: Callable[P, R]) -> Callable[P, R]:
    """Let no signal wait while `function` runs: inside an update it calls a function of the program's own."""
    return mark(function, lambda _: False)


def whole(function: Callable[P, R]) -> Callable[P, R]:
    """Let signals wait for the end of each call of `function`.

    Examples
    --------
    >>> @whole
    ... def update():
    ...     pass
    >>> update()
    """
    mark(function)

    @wraps(function)
    def held(*args: P.args, **kwargs: P.kwargs) -> R:
        replaced = hold()
        try:
            return function(*args, **kwargs)
        finally:
            release(replaced)
            if came:
                deliver()

    return held


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=came.clear)  # they came to the parent
