"""Elements of rows by index, read and added to: in compiled loops over large arrays, where Numba is installed.

The index is within its rows; whoever calls has looked.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import provider
from .threads import share

_int64 = np.dtype("int64")
_SHARE = 1 << 18  # elements below which a thread is not worth waking


def _loops(x: Any, index: Any, axis: int) -> Any:
    """Return compiled loops where they fit: along the last axis, with an index row for each row."""
    if axis != x.ndim - 1 or axis == 0 or index.shape[:-1] != x.shape[:-1] or index.dtype is not _int64:
        return None
    return provider.loops("gather", x, index.size) if x.flags.c_contiguous else None


def _by_rows(loop: Any, *arrays: Any) -> None:
    rows = [a.reshape(-1, a.shape[-1]) for a in arrays]
    share(lambda i, j: loop(*(r[i:j] for r in rows)), len(rows[0]), max(_SHARE // max(rows[1].shape[1], 1), 1))


def gathered(x: Any, index: Any, axis: int) -> Any:
    """Return the elements that an index names along an axis; None where NumPy must do."""
    loops = _loops(x, index, axis)
    if loops is None:
        return None
    out = np.empty(index.shape, x.dtype)
    _by_rows(loops.gather_rows, x, np.ascontiguousarray(index), out)
    return out


def added(x: Any, index: Any, y: Any, axis: int) -> bool:
    """Add `y` to the elements of `x` that an index names along an axis; return whether that was done."""
    loops = _loops(x, index, axis) if getattr(y, "dtype", None) is x.dtype else None
    if loops is None:
        return False
    values = np.ascontiguousarray(np.broadcast_to(y, index.shape))
    _by_rows(loops.scatter_add_rows, x, np.ascontiguousarray(index), values)
    return True


def added_rows(rows: Any, numbers: Any, values: Any) -> bool:
    """Add each row of `values` to the row of `rows` that `numbers` names; return whether that was done."""
    loops = provider.loops("gather", values) if rows.dtype is values.dtype and numbers.dtype is _int64 else None
    if loops is None or not (rows.flags.c_contiguous and values.flags.c_contiguous):
        return False
    loops.add_rows(rows, np.ascontiguousarray(numbers), values)
    return True
