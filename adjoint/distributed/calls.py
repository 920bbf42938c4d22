"""One call of a collective: what it is, the how-manieth of its group, and the line that made it."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any, NamedTuple

from ..core.tensor import caller, ours
from ..errors import place

__all__ = ["Call", "here", "main_thread_at"]


class Call(NamedTuple):
    """A collective that this process has called."""

    op: str
    number: int
    group: str
    what: str
    code: Any
    lasti: int

    @property
    def site(self) -> str:
        """The line of the program that made the call."""
        return place(self.code, self.lasti) or "?"

    def __str__(self) -> str:
        number = "" if self.number < 0 else f" #{self.number}"
        return f"{self.op}{number} of group {self.group}"


def here(op: str, number: int, group: str, what: str) -> Call:
    """Return the call that is being made now."""
    return Call(op, number, group, what, *caller())


def main_thread_at() -> str:
    """Return where in the program the main thread is now."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    inner = frame
    while frame is not None and frame.f_code.co_filename in ours:
        frame = frame.f_back
    frame = frame or inner
    if frame is None:
        return "?"
    return f"{os.path.relpath(frame.f_code.co_filename)}:{frame.f_lineno} in {frame.f_code.co_name}"
