"""Compressed forms of sparse matrices: by rows or columns, of single elements or of blocks.

A sparse tensor stores the coordinates of its elements in every layout; the index arrays of a compressed layout are
computed from them when first needed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core import layout as layouts
from ..core.nodes import wrap

__all__ = ["BY_BLOCKS", "BY_ROWS", "COMPRESSED", "blocks_of", "compressed", "places", "turned"]

COMPRESSED = (layouts.sparse_csr, layouts.sparse_csc, layouts.sparse_bsr, layouts.sparse_bsc)
BY_ROWS = (layouts.sparse_csr, layouts.sparse_bsr)
BY_BLOCKS = (layouts.sparse_bsr, layouts.sparse_bsc)


def turned(kind: Any) -> Any:
    """Return the form of a matrix whose rows and columns are exchanged."""
    pairs = (layouts.sparse_csr, layouts.sparse_csc), (layouts.sparse_bsr, layouts.sparse_bsc)
    return {**dict(pairs), **{b: a for a, b in pairs}}.get(kind, kind)


def compressed(x: Any) -> tuple[Any, Any, Any]:
    """Return compressed row (or column) pointers, plain indices, and values."""
    high, wide = x._block or (1, 1)
    rows, columns = x._at.array[0], x._at.array[1]
    by_rows = x._kind in BY_ROWS
    first, second = (rows // high, columns // wide) if by_rows else (columns // wide, rows // high)
    order = np.lexsort((columns % wide, rows % high, second, first))
    step = high * wide
    count = x.shape[0] // high if by_rows else x.shape[1] // wide
    starts = np.concatenate([[0], np.cumsum(np.bincount(first[order][::step], minlength=count))])
    values = x._held if (order[1:] > order[:-1]).all() else x._held[wrap(order)]
    if x._block is not None:
        values = values.reshape(-1, high, wide, *values.shape[1:])
    return wrap(starts.astype(np.int64)), wrap(second[order][::step].astype(np.int64)), values


def places(starts: Any, others: Any, values: Any, kind: Any) -> tuple[Any, Any, Any]:
    """Return the places of elements in order, their values, and the size of a block, from a compressed form."""
    block = tuple(values.shape[1:3]) if kind in BY_BLOCKS else None
    high, wide = block or (1, 1)
    first = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    row, column = (first, others) if kind in BY_ROWS else (others, first)
    inside = np.broadcast_to(np.zeros(1, np.int64), (len(first), high, wide))
    rows = (row[:, None, None] * high + np.arange(high)[:, None] + inside).reshape(-1)
    columns = (column[:, None, None] * wide + np.arange(wide) + inside).reshape(-1)
    if block is not None:
        values = values.reshape(-1, *values.shape[3:])
    order = np.lexsort((columns, rows))
    if not (order[1:] > order[:-1]).all():
        rows, columns, values = rows[order], columns[order], values[wrap(order)]
    return wrap(np.stack([rows, columns]).astype(np.int64)), values, block


def blocks_of(x: Any, block: tuple[int, int]) -> tuple[Any, Any]:
    """Return the coordinates and values of all elements of the nonempty blocks of a matrix, including zeros."""
    high, wide = block
    height, width = x.shape[:2]
    if height % high or width % wide:
        raise RuntimeError(
            f"tensor sparse size ({height},{width}) must be divisible by given blocksize ({high},{wide})"
        )
    at = x._at.array
    kept = np.unique((at[0] // high) * (width // wide) + at[1] // wide)
    rows, columns = np.divmod(kept, width // wide)
    inside = np.zeros((len(kept), high, wide), np.int64)
    all_rows = (rows[:, None, None] * high + np.arange(high)[:, None] + inside).reshape(-1)
    all_columns = (columns[:, None, None] * wide + np.arange(wide) + inside).reshape(-1)
    order = np.lexsort((all_columns, all_rows))
    found = wrap(np.stack([all_rows[order], all_columns[order]]))
    return found, x.to_dense()[tuple(found.unbind(0))]
