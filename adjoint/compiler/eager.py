"""What programs call apart from machine code: checks of the captured values, and primitives as in eager mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._typing import Array
from ..core.nodes import wrap
from ..core.tensor import TensorBase
from .graph import GuardFailure, Line
from .replay import answer_of


class Guard:
    """Raises where Python would now read another value than in the captured run."""

    def __init__(self, line: Line) -> None:
        (self.what, self.answer), self.place = line.params, line.place

    def __call__(self, array: Any) -> None:
        """Raise `GuardFailure` if the value is not the captured one."""
        found = answer_of(array, self.what)
        if self.what == "elements":
            same = np.array_equal(found, self.answer, equal_nan=found.dtype.kind in "fc")
        else:
            same = found == self.answer or (found != found and self.answer != self.answer)
        if not same:
            raise GuardFailure(f"{self.what} was {self.answer!r} and is {found!r}, read at {self.place}")


class Eager:
    """Calls a primitive on arrays as eager mode does: promotion included."""

    def __init__(self, line: Line) -> None:
        self.call, self.op = line.op.call, line.op
        self.arity = len(line.operands)

    def __call__(self, *args: object) -> Any:
        """Return the array, or the tuple of arrays, that the primitive computes."""
        operands = [wrap(a) if hasattr(a, "strides") else a for a in args[: self.arity]]
        result = self.call(*operands, *args[self.arity :])
        if isinstance(result, tuple | list):
            return tuple(r.array if isinstance(r, TensorBase) else r for r in result)
        return result.array if isinstance(result, TensorBase) else result


def all_in_order(arrays: Sequence[Array]) -> list[np.ndarray[Any, Any]]:
    """Return the arrays row-major and contiguous, as loops have been compiled for."""
    return [np.asarray(a, order="C") for a in arrays]


def own(array: Array, *others: object) -> Array:
    """Return an array to which nothing else refers."""
    return array.copy() if array.base is not None or any(array is o for o in others) else array
