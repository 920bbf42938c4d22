"""Elements and rows by index, read and added to: in compiled loops over large arrays, where Numba is installed."""

from __future__ import annotations

from typing import Any

import numpy as np

from . import provider
from .copying import uniform
from .rows import run_cuts

_SHARE = 1 << 17  # elements of whole rows that are worth a thread
_int64, f32 = np.dtype("int64"), np.dtype("float32")


def _moves(x: Any, index: Any, axis: int) -> Any:
    """Return compiled loops where they fit: along the last axis, with an index row for each row."""
    if axis != x.ndim - 1 or index.shape[:-1] != x.shape[:-1] or index.dtype is not _int64:
        return None
    if not x.flags.c_contiguous or not index.flags.c_contiguous or not x.size:
        return None
    return _loaded(x, index.size)


def _loaded(x: Any, size: int) -> Any:
    if provider.loops("gather", x, size) is None:
        return None
    from . import moves

    return moves


def gathered(x: Any, index: Any, axis: int) -> Any:
    """Return the elements that an index names along an axis; None where NumPy must do.

    An index out of bounds is None's business, too: whoever computes with NumPy looks, and says so.
    """
    moves = _moves(x, index, axis)
    if moves is None:
        return None
    out, wrong = np.empty(index.shape, x.dtype), np.zeros(1, np.int64)
    rows, count = x.size // x.shape[-1], index.shape[-1]
    given = (x.reshape(-1), x.shape[-1], index.reshape(-1), count, out.reshape(-1), wrong)
    run_cuts(moves.gather, "wslswl", rows, index.size, *given)
    return None if wrong[0] else out


def added(x: Any, index: Any, y: Any, axis: int) -> bool:
    """Add `y` to the elements of `x` that an index names along an axis; return whether that was done.

    It was not, or not all of it, where an index is out of bounds; whoever computes with NumPy then says so.
    """
    moves = _moves(x, index, axis) if getattr(y, "dtype", None) is x.dtype else None
    if moves is None:
        return False
    rows, count = x.size // x.shape[-1], index.shape[-1]
    values = _rows(y if y.shape == index.shape else np.broadcast_to(y, index.shape), count)
    wrong = np.zeros(1, np.int64)
    given = (x.reshape(-1), x.shape[-1], index.reshape(-1), count, *values, wrong)
    run_cuts(moves.scatter_add, "wslswsl", rows, index.size, *given)
    return not wrong[0]


def _rows(y: Any, width: int) -> tuple[Any, int]:
    """Return rows as a vector, and how far apart they are: those of one number, repeated, lie in one place."""
    if uniform(y):
        return np.full(width, y[(0,) * y.ndim], y.dtype), 0
    return np.ascontiguousarray(y).reshape(-1), width


def taken_rows(x: Any, numbers: Any) -> Any:
    """Return the rows (along the first axis) that numbers within bounds name; None where NumPy must do."""
    width = x.size // max(len(x), 1)
    if numbers.dtype is not _int64 or width < 16 or not x.flags.c_contiguous or not numbers.flags.c_contiguous:
        return None
    moves = _loaded(x, numbers.size * width) if x.dtype is f32 else None
    if moves is None:
        return None
    out = np.empty((*numbers.shape, *x.shape[1:]), x.dtype)
    given = (x.reshape(-1), width, numbers.reshape(-1), out.reshape(-1))
    run_cuts(moves.take_rows, "wslw", numbers.size, out.size, *given, least=_SHARE)
    return out


def added_rows(rows: Any, numbers: Any, values: Any) -> bool:
    """Add each row of `values` to the row of `rows` that `numbers` names; return whether that was done.

    Each thread has some of the columns, so that none writes where another does.
    """
    fit = rows.dtype is values.dtype and numbers.dtype is _int64 and rows.flags.c_contiguous
    moves = _loaded(values, values.size) if fit and (values.flags.c_contiguous or uniform(values)) else None
    if moves is None:
        return False
    width = rows.shape[1]
    given = (rows.reshape(-1), width, np.ascontiguousarray(numbers), *_rows(values, width))
    run_cuts(moves.add_rows, "wslws", width, values.size, *given, least=_SHARE)
    return True
