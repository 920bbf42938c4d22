"""Embedding lookups of torch.nn.functional, one by one or summed per bag; bilinear forms."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._typing import Tensor, Value
from ..core.device import module_of
from ..core.dtypes import of
from ..core.folding import fold
from ..core.payload import is_batch
from ..core.tensor import TensorBase, note_write
from .arguments import beside, dim_in, index_of, on_host
from .einsum import einsum
from .elementwise import add_p, div_p, mul_p
from .embedding import embedding_p, keep_gradient_sparse
from .gather import gather_p
from .looping import looped, looped_for
from .piecewise import where_p
from .precision import autocasting
from .reduce import title_of
from .shape import reshape_p
from .slices import index_add_p

_int64 = np.dtype("int64")


def _check_numbers(input: Value, name: str) -> None:
    if not isinstance(input, TensorBase) or of(input.array.dtype).name not in ("int64", "int32"):
        kind = title_of(input.array.dtype) if isinstance(input, TensorBase) else type(input).__name__
        raise RuntimeError(
            f"Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"{kind} instead (while checking arguments for {name})"
        )


def _counted(padding_idx: int | None, rows: int) -> int:
    """Return the padding row counted from the front, -1 for none."""
    if padding_idx is None:
        return -1
    if type(padding_idx) is not int:
        padding_idx = index_of(padding_idx, "padding_idx", "embedding")
    if not -rows <= padding_idx < rows:
        raise AssertionError("Padding_idx must be within num_embeddings")
    return padding_idx + rows if padding_idx < 0 else padding_idx


def embedding_renorm_(input: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Scale, in place, the rows of a table at `indices` down to the norm `max_norm` where they are longer."""
    array = input.array
    if of(array.dtype).category < 2:
        raise RuntimeError(
            f"norm(): input dtype should be either floating point or complex. Got {of(array.dtype).title} instead."
        )
    if isinstance(max_norm, complex):
        raise TypeError("embedding_renorm_(): argument 'max_norm' (position 3) must be float, not complex")
    xp = module_of(array)
    rows = xp.unique(indices.array)
    lengths = xp.linalg.norm(array[rows], norm_type, axis=1)
    long = rows[lengths > max_norm]
    if long.size:
        array[long] *= (max_norm / (lengths[lengths > max_norm] + 1e-7)).astype(array.dtype)[:, None]
        note_write(input, "embedding_renorm_")
    return input


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None,
    norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """Look up rows of a table; the row `padding_idx` gets no gradient.

    With `max_norm`, longer rows among those are first scaled down to it, in place.

    Parameters
    ----------
    input : Tensor
        Indices, of any shape.
    weight : Tensor
        The table, (rows, size).
    padding_idx : int, optional
        A row that does not count and gets no gradient.
    max_norm : float, optional
        Rows of a larger norm are scaled down to it, in place.
    norm_type : float, default 2.0
        Which norm that is.
    scale_grad_by_freq : bool, default False
        Divide gradients by how often their row was looked up.
    sparse : bool, default False
        Make the gradient of the table sparse.

    Returns
    -------
    Tensor
        ``(*input.shape, size)``

    Raises
    ------
    IndexError
        If an index is not a row of the table.

    Examples
    --------
    >>> table = adjoint.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> adjoint.nn.functional.embedding(adjoint.tensor([1, 0]), table)
    tensor([[3., 4.],
            [1., 2.]])
    """
    if input.array.dtype is not _int64:  # the frame around this function explains why there is no array
        _check_numbers(input, "embedding")
    if weight.array.ndim != 2:
        raise RuntimeError(f"'weight' must be 2-D, but it has {weight.array.ndim} dimensions")
    padding = -1 if padding_idx is None else _counted(padding_idx, weight.array.shape[0])
    if max_norm is not None:
        embedding_renorm_(weight, input, max_norm, norm_type)
    if sparse:
        keep_gradient_sparse(weight, input, padding)
    return embedding_p(weight, input, padding, scale_grad_by_freq)


# --- Bags -------------------------------------------------------------------------------------------


def _bags(indices: Any, offsets: Any, include_last_offset: bool) -> tuple[Any, int]:
    """Return the number of each index's bag, and how many bags there are."""
    starts = on_host(offsets)
    if starts.size and starts[0] != 0:
        raise RuntimeError(
            f"offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0. "
            f"However, got {int(starts[0])}"
        )
    if starts.size and starts[-1] > indices.array.size:
        raise RuntimeError(
            f"offsets[-1] can not be greater than input's length({indices.array.size}), but got offsets[-1] of "
            f"{int(starts[-1])}"
        )
    if include_last_offset:
        starts = starts[:-1]
    return np.searchsorted(starts, np.arange(indices.array.size), side="right") - 1, starts.size


@looped
def _largest(rows: Tensor, bags: Any, keep: Any, count: int) -> Tensor:
    """Return the place of each bag's first largest element, per column."""
    values = on_host(rows)
    places = np.zeros((count, values.shape[1]), np.int64)
    order = np.flatnonzero(keep)
    if order.size:
        values, bags = values[order], bags[order]
        starts = np.flatnonzero(np.diff(bags, prepend=-1))
        most = np.maximum.reduceat(values, starts, axis=0)
        sizes = np.diff(starts, append=bags.size)
        found = (values == np.repeat(most, sizes, axis=0)) | (values != values)  # a NaN is the largest of its bag
        at = np.where(found, order[:, None], np.iinfo(np.int64).max)
        places[bags[starts]] = np.minimum.reduceat(at, starts, axis=0)
    return beside(np.minimum(places, max(keep.size - 1, 0)), rows)


def embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: float | None = None,
    norm_type: float = 2, scale_grad_by_freq: bool = False, mode: Any = "mean", sparse: bool = False,
    per_sample_weights: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """Take the sum, mean or maximum of the rows of a table that each bag of indices names.

    A bag is a row of a 2-D `input`; in a 1-D `input`, bags begin at `offsets`. Rows `padding_idx` do not
    count. `per_sample_weights` scale the rows of a sum.

    Parameters
    ----------
    input : Tensor
        Indices, (B, L) or (N,).
    weight : Tensor
        The table, (rows, size).
    offsets : Tensor, optional
        Where in a 1-D `input` the bags begin, (B,).
    max_norm : float, optional
        Rows of a larger norm are scaled down to it, in place.
    norm_type : float, default 2
        Which norm that is.
    scale_grad_by_freq : bool, default False
        Divide gradients by how often their row was looked up.
    mode : str, default "mean"
        "sum", "mean" or "max".
    sparse : bool, default False
        Make the gradient of the table sparse.
    per_sample_weights : Tensor, optional
        Factors of the rows of a sum, of the shape of `input`.
    include_last_offset : bool, default False
        Whether the last offset is the end of the last bag.
    padding_idx : int, optional
        A row that does not count and gets no gradient.

    Returns
    -------
    Tensor
        (B, size).

    Examples
    --------
    >>> table = adjoint.tensor([[1.0], [2.0], [4.0]])
    >>> adjoint.nn.functional.embedding_bag(adjoint.tensor([0, 1, 2]), table, adjoint.tensor([0, 1]), mode="sum")
    tensor([[1.],
            [6.]])
    """
    settings = (max_norm, norm_type, scale_grad_by_freq, mode, sparse, per_sample_weights, include_last_offset)
    plain = max_norm is None and padding_idx is None and not scale_grad_by_freq and per_sample_weights is None
    if plain and offsets is None and is_batch(input) and input.array.ndim == 2 and mode in ("sum", "mean", "max"):
        rows: Any = embedding_p(weight, input, -1, False)
        bags: Tensor = rows.max(1)[0] if mode == "max" else getattr(rows, mode)(1)  # of one size, whatever is in them
    else:
        bags = _embedding_bag(input, weight, offsets, *settings, padding_idx)
    table = input if weight.array.dtype.kind in "iu" else weight  # in the order of old programs
    return fold(bags, "EmbeddingBagBackward0", table, per_sample_weights, sparse=sparse)


@looped_for("input", "offsets")
def _embedding_bag(
    input: Tensor, weight: Tensor, offsets: Tensor | None, max_norm: float | None, norm_type: float,
    scale_grad_by_freq: bool, mode: str, sparse: bool, per_sample_weights: Tensor | None, include_last_offset: bool,
    padding_idx: int | None,
) -> Tensor:  # fmt: skip
    if (
        isinstance(weight, TensorBase)
        and of(weight.array.dtype).name == "int64"
        and of(input.array.dtype).category >= 2
    ):
        input, weight = weight, input  # the older order of arguments
    if per_sample_weights is not None and tuple(input.array.shape) != tuple(per_sample_weights.array.shape):
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({list(per_sample_weights.array.shape)}) is not None, then it must "
            f"have the same shape as the input ({list(input.array.shape)})"
        )
    if weight.array.dtype.kind == "c":
        raise RuntimeError(
            "Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, BFloat16, "
            f"Float, Double; but got {of(weight.array.dtype).title} instead (while checking arguments for "
            "embedding_bag)"
        )
    if weight.array.ndim != 2:
        raise ValueError(f"weight has to be a 2D Tensor, but got Tensor of dimension {weight.array.ndim}")
    if offsets is not None and offsets.array.dtype.kind not in "iu":
        raise RuntimeError(
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, Int; but got "
            f"{of(offsets.array.dtype).title} instead (while checking arguments for embedding_bag: the offsets)"
        )
    if input.array.ndim == 2:
        if offsets is not None:
            raise ValueError(
                "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of fixed length "
                f"sequences. However, found offsets of type {type(offsets).__name__}"
            )
        count, length = input.array.shape
        offsets = beside(np.arange(0, count * length, length) if length else np.zeros(count, np.int64), input)
        input = reshape_p(input, (count * length,))
        if per_sample_weights is not None:
            per_sample_weights = reshape_p(per_sample_weights, (count * length,))
        include_last_offset = False
    elif input.array.ndim == 1:
        if offsets is None:
            raise ValueError("offsets has to be a 1D Tensor but got None")
        if offsets.array.ndim != 1:
            raise ValueError("offsets has to be a 1D Tensor")
    else:
        raise ValueError(f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.array.ndim}")
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if mode == "max" and scale_grad_by_freq:
        raise ValueError("max mode does not support scaling the gradient by the frequency")
    if mode == "max" and sparse:
        raise ValueError("max mode does not support sparse weights")
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported for mode='sum' "
            f"(got mode='{mode}')."
        )
    if max_norm is not None:
        embedding_renorm_(weight, input, max_norm, norm_type)
    padding = _counted(padding_idx, weight.array.shape[0])
    if sparse:
        keep_gradient_sparse(weight, input, padding)
    return bagged(weight, input, offsets, scale_grad_by_freq, mode, per_sample_weights, include_last_offset, padding)[0]


def bagged(
    weight: Tensor, indices: Tensor, offsets: Any, by_frequency: bool, mode: str, scale: Any, last: bool, padding: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the bags, with the number of each index's bag, the sizes of bags, and the places of maxima."""
    _check_numbers(indices, "embedding_bag")
    bags, count = _bags(indices, offsets, last)
    width = weight.array.shape[1]
    numbers = on_host(indices)
    keep = numbers != padding if padding >= 0 else np.ones(numbers.shape, bool)
    sizes = np.bincount(bags[keep], minlength=count) if bags.size else np.zeros(count, np.int64)
    rows = embedding_p(weight, indices, padding, by_frequency)
    zeros = beside(np.zeros((count, width), weight.array.dtype), weight)
    belongs, many = beside(bags, weight), beside(sizes, weight)
    if mode == "max":
        places = _largest(rows.detach(), bags, keep, count)
        if not bags.size:
            return add_p(zeros, 0 * rows.sum()), belongs, many, places
        there = beside(sizes[:, None] > 0, weight)
        out = where_p(there, gather_p(rows, places, 0), 0)
        return out, belongs, many, where_p(there, indices[places], -1)
    if scale is not None:
        rows = mul_p(rows, reshape_p(scale, (-1, 1)))
    if not keep.all():
        rows = where_p(beside(keep[:, None], weight), rows, 0)
    out = index_add_p(zeros, rows, belongs, 0)
    if mode == "mean":
        out = div_p(out, beside(np.maximum(sizes, 1).astype(weight.array.dtype)[:, None], weight))
    return out, belongs, many, beside(np.zeros(0, np.int64), weight)


# --- Bilinear forms ---------------------------------------------------------------------------------


@autocasting
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``x1 @ weight[k] @ x2 + bias[k]`` for each pair of vectors and each k.

    Parameters
    ----------
    input1 : Tensor
        (..., in1).
    input2 : Tensor
        (..., in2).
    weight : Tensor
        (out, in1, in2).
    bias : Tensor, optional
        (out,).

    Returns
    -------
    Tensor
        (..., out).

    Examples
    --------
    >>> a, b = adjoint.tensor([1.0, 2.0]), adjoint.tensor([3.0, 4.0])
    >>> adjoint.nn.functional.bilinear(a, b, adjoint.eye(2).reshape(1, 2, 2))
    tensor([11.])
    """
    if input1.array.ndim != input2.array.ndim:
        raise RuntimeError(
            f"bilinear(): input dimensions do not match: got {input1.array.ndim} and {input2.array.ndim}"
        )
    for i in range(input1.array.ndim - 1):
        if input1.array.shape[i] != input2.array.shape[i]:
            raise RuntimeError(
                f"bilinear(): input batch dimensions do not match at dim {i}: got {input1.array.shape[i]} and "
                f"{input2.array.shape[i]}"
            )
    dim_in(2, weight.array.ndim)
    for name, x, axis in (("input1", input1, 1), ("input2", input2, 2)):
        if x.array.shape[-1] != weight.array.shape[axis]:
            raise RuntimeError(
                f"bilinear(): {name} size does not match weight size: got {x.array.shape[-1]} but expected "
                f"{weight.array.shape[axis]}"
            )
    if bias is not None and bias.array.shape[0] != weight.array.shape[0]:
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {bias.array.shape[0]} but expected "
            f"{weight.array.shape[0]}"
        )
    out = einsum("...i,kij,...j->...k", input1, weight, input2)
    return out if bias is None else add_p(out, bias)
