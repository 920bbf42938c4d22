"""Rows taken from a padded batch of sequences and put back: what packed sequences are made with."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._typing import Array, Value
from ..core.device import module_of
from ..core.recorders import parametric

__all__: list[str] = []  # for other modules: `nn.utils.rnn` is the public side


def _take_rows(x: Value, rows: Any) -> Value:
    return x[rows]


def _put_rows(x: Value, rows: Any, count: int, filler: float) -> Array:
    out = module_of(x).full((count, *x.shape[1:]), filler, x.dtype)
    out[rows] = x
    return out


# Each row is named at most once, so that nothing has to be added up: the two are each other's transpose.
take_rows_p: Any = parametric(
    _take_rows,
    x=lambda g, rows, x_shape: put_rows_p(g, rows, x_shape[0], 0.0),
    node_name="PackPaddedSequenceBackward0",
    jvp="linear",
    batch=lambda x, rows: take_rows_p(x.swapaxes(0, 1), rows).swapaxes(0, 1),
)
put_rows_p: Any = parametric(
    _put_rows,
    x=lambda g, rows: take_rows_p(g, rows),
    jvp=lambda tangents, inputs, out, params: put_rows_p(tangents[0], params[0], params[1], 0.0),
    batch=lambda x, rows, count, filler: put_rows_p(x.swapaxes(0, 1), rows, count, filler).swapaxes(0, 1),
)


def rows_of(batch_sizes: Any, width: int) -> Any:
    """Return the index of each packed row in a padded (time, batch) grid of `width` columns, flattened."""
    sizes = np.asarray(batch_sizes)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    columns = np.arange(int(sizes.sum())) - starts
    return np.repeat(np.arange(len(sizes)), sizes) * width + columns
