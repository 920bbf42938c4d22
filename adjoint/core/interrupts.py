"""Updates that no signal splits: an optimizer's step, the unscaling of gradients, the averaging of weights.

Python runs the handlers of signals in the main thread, between any two instructions, and Ctrl-C's raises there. While a
function marked by `whole` runs, handlers wait for its end. A second signal of the same number does not: it says that
the first took too long. Other threads never run handlers.

In place of each handler of the program's stands a `Waiting` one, from the first update on. It looks at the frames that
are running when a signal comes, so updates themselves have nothing to set or to restore. They ask two questions:
before, whether the handlers are still those known (`known`, else `adopt`), and afterwards whether a signal waits
(`came`, then `deliver`).
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
        if _get(number) is self:  # a handler may ask whether it is still the one; the next update looks anew
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


_handlers: list[Any] = []  # those that were there when an update last looked


def known() -> bool:
    """Return whether every handler is the one that an update has seen."""
    return [*map(_get, _NUMBERS)] == _handlers


def adopt() -> None:
    """Stand in place of the program's handlers."""
    if get_ident() != main_thread().ident:
        return
    try:
        for number in _NUMBERS:
            handler = _get(number)
            if callable(handler) and type(handler) is not Waiting:
                _set(number, Waiting(handler))
        _handlers[:] = map(_get, _NUMBERS)
    except ValueError:  # the main thread of a subinterpreter runs no handlers
        return


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

    Who calls it asks `known` before, and `deliver`s what `came` afterwards: `whole` does both.
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
        if not known():
            adopt()
        try:
            return function(*args, **kwargs)
        finally:
            if came:
                deliver()

    return held


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=came.clear)  # they came to the parent
