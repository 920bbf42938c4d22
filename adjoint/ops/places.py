"""Places in a tensor: runs of rows to reduce, flat numbers as coordinates, the diagonal to fill."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._typing import Operand, Shape, Tensor
from ..core.dtypes import of
from ..core.payload import Payload
from ..core.tensor import TensorBase
from .arguments import beside, dim_in, either, on_host, shape_from
from .join import unsafe_split
from .piecewise import where_p
from .scatter import scatter_add_p, scatter_reduce
from .shape import cast_p

__all__ = ["segment_reduce", "unravel_index", "unsafe_split_with_sizes"]

_EMPTY = {"sum": 0.0, "mean": math.nan, "max": -math.inf, "min": math.inf, "prod": 1.0}
_REDUCTIONS = {"sum": "sum", "mean": "sum", "max": "amax", "min": "amin", "prod": "prod"}


def segment_reduce(
    data: Tensor, reduce: str, *, lengths: Tensor | None = None, indices: Tensor | None = None,
    offsets: Tensor | None = None, axis: int = 0, unsafe: bool = False, initial: Any = None,
) -> Tensor:  # fmt: skip
    """Reduce runs of elements along `axis`, given by their lengths or by where they begin and end.

    Examples
    --------
    >>> adjoint.segment_reduce(adjoint.tensor([1.0, 2.0, 4.0]), "sum", lengths=adjoint.tensor([2, 1]))
    tensor([3., 4.])
    """
    if reduce not in _EMPTY:
        raise RuntimeError(f"segment_reduce: unsupported reduction {reduce!r}: give one of {sorted(_EMPTY)}")
    if (lengths is None) == (offsets is None):
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    axis = dim_in(axis, data.array.ndim)
    given = lengths if offsets is None else offsets
    if given is not None and isinstance(given.array, Payload):
        raise RuntimeError("segment_reduce(): lengths and offsets are read on the CPU, and cannot be batched by vmap")
    counts = np.diff(on_host(offsets), axis=-1) if lengths is None else on_host(lengths)
    if not unsafe and (counts < 0).any():
        raise RuntimeError("segment_reduce(): Expected all rows of lengths to be at least 0")
    size = data.array.shape[axis]
    if not unsafe and lengths is not None and (counts.sum(-1) != size).any():
        raise RuntimeError(
            "segment_reduce(): Expected all rows of lengths along axis to sum to data.size(lengths.dim()-1)"
        )
    runs = counts.shape[-1]
    flat = counts.reshape(-1, runs)
    numbers = np.full((flat.shape[0], size), runs)  # what belongs to no run goes to one more, which is dropped
    for row, own in zip(numbers, flat, strict=True):
        row[: own.sum()] = np.repeat(np.arange(runs), own)
    shape = tuple(data.array.shape)
    tail = (1,) * (len(shape) - axis - 1)
    places = np.broadcast_to(numbers.reshape(*counts.shape[:-1], size, *tail), shape)
    full = (*shape[:axis], runs + 1, *shape[axis + 1 :])
    start = beside(np.full(full, _start(reduce, initial), data.array.dtype), data)
    numbered = beside(np.ascontiguousarray(places), data)
    if reduce in ("sum", "mean"):
        out = scatter_add_p(start, data, numbered, axis)
    else:
        out = scatter_reduce(start, axis, numbered, data, _REDUCTIONS[reduce])
    out = out.narrow(axis, 0, runs)
    if reduce == "mean":
        many = counts.reshape(*counts.shape, *tail)
        out = out / beside(np.maximum(many, 1).astype(data.array.dtype), data)
        if initial is None:
            out = where_p(beside(many == 0, data), math.nan, out)
    return out


def _start(reduce: str, initial: Any) -> float:
    if initial is not None:
        return float(initial)
    return 0.0 if reduce == "mean" else _EMPTY[reduce]


_segment_reduce = segment_reduce  # what programs call by the name inside of torch


def unravel_index(indices: Tensor, shape: Shape) -> tuple[Tensor, ...]:
    """Return the coordinates, in a tensor of `shape`, of elements numbered in a row.

    Examples
    --------
    >>> adjoint.unravel_index(adjoint.tensor(4), (2, 3))
    (tensor(1), tensor(1))
    """
    numbers: Any = indices
    if not isinstance(indices, TensorBase) or of(indices.array.dtype).category != 1:
        raise TypeError(f"expected 'indices' to be integer dtype, but got {getattr(indices, 'dtype', type(indices))}")
    if not isinstance(shape, int | tuple | list):
        raise TypeError(f"expected 'shape' to be int or sequence of ints, but got {type(shape)}")
    sizes = (shape,) if isinstance(shape, int) else shape_from(tuple(shape))
    if any(n < 0 for n in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {tuple(sizes)}")
    out = []
    rest = cast_p(numbers, np.int64)
    for n in reversed(sizes):
        out.append(rest % n)
        rest = rest.div(n, rounding_mode="floor")
    return tuple(reversed(out))


def unsafe_split_with_sizes(
    input: Tensor, split_sizes: Any, dim: int = 0, *, axis: int | None = None
) -> tuple[Tensor, ...]:
    """Split along `dim` into copies of the given sizes."""
    dim = dim if axis is None else either(dim, axis, 0)
    return tuple(unsafe_split(input, split_sizes, dim))


def fill_diagonal_(input: Tensor, fill_value: Operand, wrap: bool = False) -> Tensor:
    """Fill the main diagonal with one value, in place; with `wrap`, of a tall matrix again after its end.

    Examples
    --------
    >>> adjoint.zeros(2, 3).fill_diagonal_(5)
    tensor([[5., 0., 0.],
            [0., 5., 0.]])
    """
    shape = tuple(input.array.shape)
    if len(shape) < 2:
        raise RuntimeError("dimensions must larger than 1")
    if len(shape) > 2 and len(set(shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    strides, start = input.stride(), input.storage_offset()
    along, size = sum(strides), min(shape)
    input.as_strided((size,), (along,), start).fill_(fill_value)
    height, width = shape[:2]
    if wrap and len(shape) == 2 and height > width + 1:
        rest = (math.prod(shape) + width) // (width + 1) - size
        input.as_strided((rest,), (along,), start + strides[0] * (width + 1)).fill_(fill_value)
    return input
