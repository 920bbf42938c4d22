"""Sparse gradients of embeddings: of the table's ``.grad`` only rows that were looked up are kept."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.nodes import wrap
from .tensor import SparseTensor

__all__ = ["keep_rows"]

_ROWS = "_rows_looked_up"


def keep_rows(weight: Any, indices: Any) -> None:
    """Note which rows are looked up, so that the gradient of `weight` has these rows alone."""
    if _ROWS not in weight.__dict__:
        weight.__dict__[_ROWS] = []
        weight.register_post_accumulate_grad_hook(_make_sparse)
    weight.__dict__[_ROWS].append(np.unique(indices))


def _make_sparse(weight: Any) -> None:
    g, noted = weight._grad, weight.__dict__[_ROWS]
    if g is None or g.is_sparse:
        return
    array = np.asarray(g.array)
    rows = np.unique(np.concatenate([*noted, np.flatnonzero(array.any(axis=1))]))
    noted.clear()
    weight._grad = SparseTensor.made(wrap(rows[None].astype(np.int64)), wrap(array[rows]), array.shape, True)
