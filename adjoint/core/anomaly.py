"""What anomaly detection needs at every op, made cheap: the stack as it is, and a quick look for a NaN."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from ..errors import line_of
from .tensor import ours

ndarray, vdot, isnan = np.ndarray, np.vdot, np.isnan
_FAST = frozenset((np.dtype(np.float32), np.dtype(np.float64)))


class Trail:
    """The stack of the program at one moment, as code and instruction; lines are looked up when it is shown."""

    __slots__ = ("steps",)

    def __init__(self) -> None:
        frame: Any = sys._getframe(1)
        while frame.f_code.co_filename in ours and frame.f_back is not None:
            frame = frame.f_back
        self.steps: list[tuple[Any, int]] = []
        add = self.steps.append
        while frame is not None:
            add((frame.f_code, frame.f_lasti))
            frame = frame.f_back

    def format(self) -> list[str]:
        """Return the lines of a traceback, outermost call first."""
        import traceback

        found = [(c.co_filename, line_of(c, lasti), c.co_name, None) for c, lasti in reversed(self.steps)]
        return traceback.StackSummary.from_list(found).format()


def has_nan(value: Any) -> bool:
    """Return whether an array has a NaN.

    The product of an array with itself is NaN exactly if an element is: squares do not cancel. That is one
    pass without a temporary.
    """
    dtype = getattr(value, "dtype", None)
    if dtype is None or dtype.kind not in "fc":
        return False
    if type(value) is ndarray and dtype in _FAST and value.flags.forc:
        square = vdot(value, value)
        return bool(square != square)
    return bool(isnan(value).any())
