"""Sorting: sort, topk and related ops, binary search, unique values, membership; indices of nonzero elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import return_types
from .._typing import Array, Dims, DType, Operand, Out, Outs, Tensor, Value
from ..core.device import module_of, place_array
from ..core.device import of as device_of
from ..core.folding import fold
from ..core.nodes import wrap
from ..core.observation import literal, opaque
from ..core.promotion import promote_all
from ..core.recorders import Primitive, nary, parametric
from ..core.tensor import TensorBase
from .arguments import dim_in, either, require_tensor
from .compare import zeros_p
from .convert import host, values_of
from .create import apart, into
from .dimensions import squeeze_p
from .gather import gather_p, gathering
from .looping import looped
from .shape import cast_p, reshape

_ALL = slice(None)

# --- Sorting ----------------------------------------------------------------------------------------
# The order is found without a gradient (`argsort_p`); the values are then gathered by it, with one.
# NaN counts as larger than every number, as in torch.


def _argsort(x: Array, axis: int, descending: bool) -> Value:
    if x.dtype.kind == "c":
        raise RuntimeError("Sort does not support complex dtypes on CPU")
    if x.dtype.name == "bfloat16":
        return argsort_p(x.astype(np.float32), axis, descending)
    xp = module_of(x)
    if x.ndim == 0:
        return xp.zeros((), np.int64)
    if not descending:
        return xp.argsort(x, axis, kind="stable")
    # The sort must be stable for equal elements: sort the reversed elements, then reverse the order found.
    order = xp.argsort(xp.flip(x, axis), axis, kind="stable")
    return xp.ascontiguousarray(x.shape[axis] - 1 - xp.flip(order, axis))


argsort_p: Primitive = parametric(
    _argsort,
    name="argsort",
    batch=lambda x, axis, descending: (
        argsort_p(x, axis + 1, descending) if x.ndim > 1 else cast_p(zeros_p(x), np.dtype(np.int64))
    ),
)


def _best(x: Array, axis: int, count: int, largest: bool) -> Array:
    """Return the indices of the `count` largest or smallest elements along an axis, best first."""
    order = argsort_p(x, axis, largest)
    return module_of(x).ascontiguousarray(order[(*(_ALL,) * axis, slice(0, count))])


best_p: Primitive = parametric(
    _best,
    name="best",
    batch=lambda x, axis, count, largest: best_p(x, axis + 1, count, largest),
)

sort_p, topk_p, kthvalue_p = gathering("sort"), gathering("topk"), gathering("kthvalue")


def sort(
    input: Tensor, dim: Dims = -1, descending: bool = False, stable: bool | None = None, *, out: Out = None,
    axis: Dims = None,
) -> Any:  # fmt: skip
    """Sort along a dimension; return the values and the indices they came from.

    NaN counts as larger than every number. The order of equal elements does not change.

    Parameters
    ----------
    input : Tensor
        Any shape; not complex.
    dim : int, default -1
        The dimension to sort along.
    descending : bool, default False
        Whether the largest come first.
    stable : bool, optional
        Ignored: the sort is always stable.
    out : tuple of Tensor, optional
        A tensor for values and one for indices; written to, and returned.

    Returns
    -------
    return_types.sort
        The named tuple ``(values, indices)``, both of the shape of `input`; gradients flow through the values.

    Examples
    --------
    >>> values, indices = adjoint.sort(adjoint.tensor([3.0, 1.0, 2.0]), descending=True)
    >>> values, indices
    (tensor([3., 2., 1.]), tensor([0, 2, 1]))
    """
    dim = either(dim, axis, -1)
    axis = dim_in(dim, input.array.ndim)
    order = argsort_p(input, axis, bool(descending))
    found = (sort_p(input, order, axis), order)
    if stable is not None:
        fold(found[0], "SortBackward1", input)
    return return_types.sort(found if out is None else map(into, out, found))


def argsort(
    input: Tensor, dim: int = -1, descending: bool = False, stable: bool = False, *, out: Tensor | None = None,
    axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return the indices that sort along a dimension.

    NaN counts as larger than every number. The order of equal elements does not change.

    Parameters
    ----------
    input : Tensor
        Any shape; not complex.
    dim : int, default -1
        The dimension to sort along.
    descending : bool, default False
        Whether the largest come first.
    stable : bool, default False
        Ignored: the sort is always stable.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        Of dtype int64 and the shape of `input`: ``input.gather(dim, indices)`` is sorted.

    Examples
    --------
    >>> adjoint.argsort(adjoint.tensor([3, 1, 2]))
    tensor([1, 2, 0])
    """
    dim = either(dim, axis, -1)
    return into(out, argsort_p(input, dim_in(dim, input.array.ndim), bool(descending)))


def msort(input: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Sort along the first dimension.

    Parameters
    ----------
    input : Tensor
        At least one dimension.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Examples
    --------
    >>> adjoint.msort(adjoint.tensor([3, 1, 2]))
    tensor([1, 2, 3])
    """
    return into(out, sort(input, 0)[0])


def topk(
    input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True, *, out: Out | Outs = None,
    axis: int | None = None,
) -> Any:  # fmt: skip
    """Return the `k` largest or smallest elements along a dimension, best first, and their indices.

    Parameters
    ----------
    input : Tensor
        Any shape; not bool or complex. NaN counts as larger than every number.
    k : int
        How many, from 0 to the size of `dim`.
    dim : int, default -1
        The dimension to search.
    largest : bool, default True
        False for the smallest.
    sorted : bool, default True
        Ignored: the result is always sorted.
    out : tuple of Tensor, optional
        A tensor for values and one for indices; written to, and returned.

    Returns
    -------
    return_types.topk
        The named tuple ``(values, indices)``, of size `k` along `dim`; gradients flow through the values.

    Raises
    ------
    RuntimeError
        If `k` is out of range.

    Examples
    --------
    >>> values, indices = adjoint.topk(adjoint.tensor([1, 4, 2]), 2)
    >>> values, indices
    (tensor([4, 2]), tensor([1, 2]))
    >>> adjoint.tensor([[1, 4, 2], [6, 5, 7]]).topk(1, largest=False).values
    tensor([[1],
            [5]])
    """
    if input.array.dtype.kind == "b":
        raise RuntimeError("topk does not support bool dtypes on CPU; convert the input with .to(adjoint.uint8)")
    dim = either(dim, axis, -1)
    axis = dim_in(dim, input.array.ndim)
    length = input.array.shape[axis] if input.array.ndim else 1
    if not 0 <= k <= length:
        raise RuntimeError(f"selected index k out of range: {k} of {length} elements along dim {dim}")
    if input.array.ndim == 0:
        found: Any = reshape(input, 1), wrap(literal(module_of(input.array).zeros(1, np.int64)))
        found = tuple(reshape(f, ()).clone() for f in found) if k else tuple(f[:0].clone() for f in found)
    else:
        order = best_p(input, axis, int(k), bool(largest))
        found = (topk_p(input, order, axis), order)
    return return_types.topk(found if out is None else map(into, out, found))


def kthvalue(
    input: Tensor, k: int, dim: int = -1, keepdim: bool = False, *, out: Out | Outs = None, axis: int | None = None,
    keepdims: bool = False,
) -> Any:  # fmt: skip
    """Return the `k`-th smallest element along a dimension, and its index.

    Parameters
    ----------
    input : Tensor
        Any shape; not bool or complex. NaN counts as larger than every number.
    k : int
        Counted from 1 to the size of `dim`.
    dim : int, default -1
        The dimension to search.
    keepdim : bool, default False
        Whether reduced dimensions stay, at size 1.
    out : tuple of Tensor, optional
        A tensor for values and one for indices; written to, and returned.

    Returns
    -------
    return_types.kthvalue
        The named tuple ``(values, indices)``, each of the shape of `input` without `dim`.

    Raises
    ------
    RuntimeError
        If `k` is out of range.

    Examples
    --------
    >>> adjoint.kthvalue(adjoint.tensor([3, 1, 2]), 2)
    adjoint.return_types.kthvalue(
    values=tensor(2),
    indices=tensor(2))
    """
    dim, keepdim = either(dim, axis, -1), keepdim or keepdims
    if out is not None:
        apart(out[0], input)
    rank = input.array.ndim
    axis = dim_in(dim, rank)
    length = input.array.shape[axis] if rank else 1
    if not 1 <= k <= length:
        raise RuntimeError(f"kthvalue(): selected number k out of range for dimension {axis}: {k} of {length}")
    order = argsort_p(input, axis, False)
    place = order[(*(_ALL,) * axis, slice(k - 1, k))] if rank else order
    values = kthvalue_p(input, place, axis)
    found = (values, place)
    if rank and not keepdim:
        found = (fold(squeeze_p(values, (axis,)), "KthvalueBackward0", input, dim=axis), squeeze_p(place, (axis,)))
    return return_types.kthvalue(found if out is None else map(into, out, found))


# --- Searching --------------------------------------------------------------------------------------


def _searchsorted(x: Array, y: Array, right: bool, dtype: Any) -> Array:
    side = "right" if right else "left"
    xp = module_of(x)
    x, y = (v.astype(np.float32) if v.dtype.name == "bfloat16" else v for v in (x, y))
    if x.ndim == 1:
        return xp.asarray(xp.searchsorted(x, y, side)).astype(dtype)
    count = math.prod(x.shape[:-1])
    rows = x.reshape(count, x.shape[-1])
    sought = y.reshape(count, y.shape[-1])
    found = xp.empty(sought.shape, dtype)
    for row, values, place in zip(rows, sought, found, strict=True):
        place[...] = xp.searchsorted(row, values, side)
    return found.reshape(y.shape)


# The inputs are the sorted sequence and what is looked for in it.
searchsorted_p: Primitive = nary(
    _searchsorted,
    inputs=2,
    promotes=True,
    batch=lambda x, y, right, dtype: _searchsorted_batch(x, y, right, dtype),
)


def _searchsorted_batch(x: Value, y: Value, right: bool, dtype: DType) -> Value:
    size = x.shape[0]
    if x.ndim == 2:  # one sequence for every element of the batch
        found = searchsorted_p(x, y.reshape(size, -1), right, dtype)
        return found.reshape(y.shape)
    return searchsorted_p(x, y, right, dtype)


def searchsorted(
    sorted_sequence: Tensor, input: Operand, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Any = None, out: Tensor | None = None, self: Any = None,
) -> Tensor:  # fmt: skip
    """Return the index at which each value would be inserted into a sorted sequence.

    With ``right=False`` place i is such that ``sequence[i - 1] < value <= sequence[i]``; with ``right=True`` such that
    ``sequence[i - 1] <= value < sequence[i]``.

    Parameters
    ----------
    sorted_sequence : Tensor
        One increasing sequence, or many of shape ``(..., n)``, one for each row of `input`.
    input : Tensor or number
        The values to place: any shape for one sequence, otherwise ``(..., m)``.
    out_int32 : bool, default False
        Whether the result is int32 instead of int64.
    right : bool, default False
        Whether a value goes after elements equal to it.
    side : str, optional
        "left" or "right", NumPy's form of `right`.
    sorter : Tensor, optional
        The indices that sort an unsorted `sorted_sequence`, of its shape, as from `argsort`.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        Places from 0 to n, of the shape of `input`.

    Examples
    --------
    >>> adjoint.searchsorted(adjoint.tensor([1, 3, 5]), adjoint.tensor([3, 6]))
    tensor([1, 3])
    >>> adjoint.searchsorted(adjoint.tensor([1, 3, 5]), adjoint.tensor([3, 6]), right=True)
    tensor([2, 3])
    """
    require_tensor(sorted_sequence, "sorted_sequence", "searchsorted")
    if input is None or isinstance(input, list | tuple | dict | str):
        given = f"Tensor, {type(input).__name__}"
        raise TypeError(f"searchsorted() received an invalid combination of arguments - got ({given})")
    if side not in (None, "left", "right"):
        raise RuntimeError(f"searchsorted(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(
            "searchsorted(): side and right can't be set to opposites, got side of left while right was True"
        )
    if sorter is not None:
        if sorter.array.shape != sorted_sequence.array.shape:
            raise RuntimeError(
                "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor "
                f"{list(sorted_sequence.array.shape)} and got sorter tensor {list(sorter.array.shape)}"
            )
        sorted_sequence = gather_p(sorted_sequence, sorter, sorter.array.ndim - 1)
    have = sorted_sequence.array.shape
    kind = sorted_sequence.array.dtype
    value = (
        input
        if isinstance(input, TensorBase)
        else wrap(literal(module_of(sorted_sequence.array).full((), input, kind)))
    )
    want = value.array.shape
    if len(have) != 1 and (len(have) != len(want) or have[:-1] != want[:-1]):
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of "
            "boundaries tensor and input value tensor must match, but we got boundaries tensor "
            f"{list(have)} and input value tensor {list(want)}"
        )
    dtype = np.dtype(np.int32 if out_int32 else np.int64)
    return into(out, searchsorted_p(sorted_sequence, value, right or side == "right", dtype))


def bucketize(
    input: Operand, boundaries: Tensor, *, out_int32: bool = False, right: bool = False, out: Tensor | None = None
) -> Tensor:
    """Return the index of the bucket between the sorted `boundaries` that contains each value.

    With ``right=False`` bucket i is ``boundaries[i - 1] < value <= boundaries[i]``; with ``right=True`` it is
    ``boundaries[i - 1] <= value < boundaries[i]``.

    Parameters
    ----------
    input : Tensor or number
        The values, of any shape.
    boundaries : Tensor
        An increasing vector of n elements.
    out_int32 : bool, default False
        Whether the result is int32 instead of int64.
    right : bool, default False
        Whether a value equal to a boundary belongs to the bucket after it.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        Buckets from 0 to n, of the shape of `input`.

    Examples
    --------
    >>> adjoint.bucketize(adjoint.tensor([0, 3, 4, 9]), adjoint.tensor([1, 3, 5]))
    tensor([0, 1, 2, 3])
    """
    require_tensor(boundaries, "boundaries", "bucketize")
    if boundaries.array.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.array.ndim})")
    return searchsorted(boundaries, input, out_int32=out_int32, right=right, out=out)


# --- Distinct values --------------------------------------------------------------------------------


def _results(input: Tensor, found: list[Any]) -> Tensor | tuple[Tensor, ...]:
    place = device_of(input.array)
    tensors = tuple(wrap(place_array(f, place)) for f in found)
    return tensors[0] if len(tensors) == 1 else tensors


def unique(
    input: Tensor, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False,
    dim: int | None = None,
) -> Tensor | tuple[Tensor, ...]:  # fmt: skip
    """Return the distinct elements, or the distinct slices along `dim`, in increasing order.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    sorted : bool, default True
        Ignored: the result is always sorted.
    return_inverse : bool, default False
        Whether to return, for each element of `input`, its index in the result.
    return_counts : bool, default False
        Whether to return how often each one occurs.
    dim : int, optional
        Compares slices along this dimension. By default `input` is flattened.

    Returns
    -------
    Tensor or tuple of Tensor
        The distinct elements; then, as far as wanted, the inverse and the counts. None of them has a gradient.

    Examples
    --------
    >>> x = adjoint.tensor([2, 1, 2])
    >>> adjoint.unique(x)
    tensor([1, 2])
    >>> adjoint.unique(x, return_inverse=True, return_counts=True)
    (tensor([1, 2]), tensor([1, 0, 1]), tensor([1, 2]))
    >>> adjoint.unique(adjoint.tensor([[1, 2], [0, 5], [1, 2]]), dim=0)
    tensor([[0, 5],
            [1, 2]])
    """
    found = opaque("unique", _unique, input, return_inverse, return_counts, dim)
    return _results(input, list(found))


def _unique(array: Any, return_inverse: bool, return_counts: bool, dim: int | None) -> tuple[Any, ...]:
    array = host(array, "unique()")
    axis = None if dim is None else dim_in(dim, array.ndim)
    narrow = array.dtype if array.dtype.isbuiltin == 2 else None  # NumPy would leave their NaN where they are
    found: Any = np.unique(  # type: ignore[call-overload]
        array.astype(np.float32) if narrow else array,
        return_inverse=return_inverse,
        return_counts=return_counts,
        axis=axis,
        equal_nan=False,
    )
    parts = list(found) if isinstance(found, tuple) else [found]
    if narrow:
        parts[0] = parts[0].astype(narrow)
    if return_inverse:
        parts[1] = parts[1].reshape(-1 if axis is not None else array.shape)
    return tuple(parts)


def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Tensor | tuple[Tensor, ...]:
    """Return elements, or slices along `dim`, without those equal to the one before.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    return_inverse : bool, default False
        Whether to return where each element is in the result, too.
    return_counts : bool, default False
        Whether to return how often each was repeated, too.
    dim : int, optional
        Dimension whose slices are compared; elements of the flattened input by default.

    Returns
    -------
    Tensor or tuple of Tensor
        The elements; then the inverse and the counts, if asked for.

    Examples
    --------
    >>> adjoint.unique_consecutive(adjoint.tensor([1, 1, 2, 2, 1]), return_counts=True)
    (tensor([1, 2, 1]), tensor([2, 2, 1]))
    """
    return _results(input, list(opaque("unique_consecutive", _runs, input, return_inverse, return_counts, dim)))


def _runs(array: Any, return_inverse: bool, return_counts: bool, dim: int | None) -> tuple[Any, ...]:
    array = host(array, "unique_consecutive()")
    axis = 0 if dim is None else dim_in(dim, array.ndim)
    if dim is None:
        rows = array.reshape(-1, 1)
    else:
        rows = np.moveaxis(array, axis, 0).reshape(array.shape[axis], array.size // max(array.shape[axis], 1))
    starts = np.ones(len(rows), bool)
    starts[1:] = (rows[1:] != rows[:-1]).any(axis=1)
    at = np.flatnonzero(starts)
    values = array.reshape(-1)[at] if dim is None else array.take(at, axis)
    inverse = np.cumsum(starts) - 1
    if dim is None:
        inverse = inverse.reshape(array.shape)
    counts = np.diff(np.append(at, len(rows)))
    return (values, *([inverse] if return_inverse else []), *([counts] if return_counts else []))


@looped
def isin(
    elements: Operand | None = None, test_elements: Operand | None = None, *, assume_unique: bool = False,
    invert: bool = False, element: Operand | None = None, test_element: Operand | None = None,
    out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return for each element whether it occurs among `test_elements`.

    Parameters
    ----------
    elements : Tensor or number
        The elements to look up, of any shape.
    test_elements : Tensor or number
        What they are compared with, of any shape. At least one of the two is a tensor.
    assume_unique : bool, default False
        Ignored; PyTorch is faster if both hold distinct elements.
    invert : bool, default False
        Whether to negate the result.
    element, test_element : optional
        Other names of `elements` and `test_elements`, where these are numbers.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        Of dtype bool and the shape of `elements`.

    Examples
    --------
    >>> adjoint.isin(adjoint.tensor([1, 2, 3]), adjoint.tensor([2, 5]))
    tensor([False,  True, False])
    """
    elements = element if elements is None else elements
    test_elements = test_element if test_elements is None else test_elements
    values = [v.array if isinstance(v, TensorBase) else v for v in (elements, test_elements)]
    if not any(isinstance(v, TensorBase) for v in (elements, test_elements)):
        raise TypeError("isin(): at least one argument must be a Tensor")
    a, b = promote_all(tuple(values))
    xp = module_of(a)
    return into(out, wrap(opaque("isin", lambda a, b: xp.asarray(xp.isin(a, b, invert=invert)), a, b)))


# --- What is not zero -------------------------------------------------------------------------------


def nonzero(input: Tensor, *, as_tuple: bool = False, out: Tensor | None = None) -> Any:
    """Return the indices of the elements that are not zero.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    as_tuple : bool, default False
        Whether to return a vector for each dimension, ready to index with: ``x[x.nonzero(as_tuple=True)]``.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor or tuple of Tensor
        An int64 tensor of shape ``(k, input.dim())`` with a row for each of the k elements; or a tuple of its columns.

    Examples
    --------
    >>> x = adjoint.tensor([[0, 5], [7, 0]])
    >>> adjoint.nonzero(x)
    tensor([[0, 1],
            [1, 0]])
    >>> x.nonzero(as_tuple=True)
    (tensor([0, 1]), tensor([1, 0]))
    """
    place = device_of(input.array)
    if as_tuple:
        return tuple(wrap(place_array(f, place)) for f in opaque("nonzero", _places, input))
    return into(out, wrap(place_array(opaque("argwhere", _rows, input), place)))


def _places(array: Any) -> tuple[Any, ...]:
    array = values_of(array, "nonzero()")
    return tuple((array.reshape(1) if array.ndim == 0 else array).nonzero())


def _rows(array: Value | tuple[Any, ...]) -> Array:
    return np.argwhere(values_of(array, "nonzero()"))


@looped
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1, out: Tensor | None = None) -> Tensor:
    """Return the first `size` rows of `nonzero`, filled up where there are fewer."""
    found = nonzero(input).array[:size]
    rows = module_of(found).full((size, input.array.ndim), fill_value, np.int64)
    rows[: len(found)] = found
    return into(out, wrap(rows))


@looped
def argwhere(input: Tensor) -> Tensor:
    """Return the index of every element that is not zero, one row each.

    Parameters
    ----------
    input : Tensor
        Of any shape.

    Returns
    -------
    Tensor
        (number of nonzero elements, dimensions), int64.

    Examples
    --------
    >>> adjoint.argwhere(adjoint.tensor([[0, 1], [2, 0]]))
    tensor([[0, 1],
            [1, 0]])
    """
    places: Tensor = nonzero(input)
    return places
