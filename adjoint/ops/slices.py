"""Slices along a dimension, by a vector of indices: index_select, index_add, index_copy, index_fill, index_reduce."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._typing import Array, Operand, Out, Shape, Tensor, Value
from ..core.device import module_of, place_array
from ..core.device import of as device_of
from ..core.dtypes import of
from ..core.folding import fold
from ..core.inplace import inplace
from ..core.observation import literal
from ..core.payload import Payload
from ..core.promotion import number_array
from ..core.recorders import Primitive, nary
from ..core.tensor import TensorBase
from .arguments import dim_in, either, missing, require_tensor
from .bounds import check_rows, check_slices, check_vector
from .create import apart, into
from .gather import gather_p, grown
from .index import beside
from .precision import autocasting
from .scatter import (
    batch_of_elements,
    check_number,
    scatter_add_p,
    scatter_p,
    scatter_reduce,
    scatter_reduce_,
    tangents_of,
    writing,
)  # fmt: skip
from .shape import cast_p, clone_p, expand_p, reshape, reshape_p

# The functions that adjoint exports; the others are methods only.
__all__ = ["index_add", "index_copy", "index_fill", "index_reduce", "index_select"]
_ALL = slice(None)
_ZERO = np.int8(0)  # what a rule writes where nothing of the gradient is left


def _index_select(x: Array, i: Array, axis: int) -> Array:
    i = beside(x, i).reshape(-1)
    check_rows(i, x.shape[axis] if x.ndim else 1)
    return (x if x.ndim else x.reshape(1)).take(i, axis=axis)


def _row_batch(x: Value, i: Value, axis: int) -> Value:
    """Return one index per element of a batch as an index for `gather`: it names whole slices."""
    i = grown(i, 2)
    shape = (i.shape[0], *(1,) * axis, i.shape[1], *(1,) * (x.ndim - axis - 2))
    full = (*x.shape[: axis + 1], i.shape[1], *x.shape[axis + 2 :])
    return expand_p(reshape_p(i, shape), full)


index_select_p: Any = nary(
    _index_select,
    inputs=2,
    x=lambda g, i, x_shape, axis: index_add_p(_zeros(g, x_shape), g, i, axis),
    jvp=lambda tangents, inputs, out, params: index_select_p(tangents[0], inputs[1], *params),
    batch=lambda x, i, axis: gather_p(x, _row_batch(x, i, axis), axis + 1) if x.ndim > 1 else clone_p(x),
    saved={"i": "index", "axis": "dim"},
)


def _zeros(g: Array, shape: Shape) -> Array:
    """Return zeros of a shape where `g` is: raw, since they carry no history."""
    raw = g.array if isinstance(g, TensorBase) else g
    xp = np if isinstance(raw, Payload) else module_of(raw)
    zeros: Array = literal(xp.zeros(shape, raw.dtype))
    return zeros


def index_select(
    input: Tensor, dim: int | None = None, index: Any = None, *, out: Out = None, axis: int | None = None
) -> Tensor:
    """Return slices along a dimension by index.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    dim : int
        The dimension; negative ones count from the end.
    index : Tensor
        A vector of integers from 0 to the size of `dim`, that not included; they may repeat.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        A copy, along `dim` as long as `index`. Where a slice is chosen more than once, its gradients add up.

    Examples
    --------
    >>> adjoint.index_select(adjoint.arange(6).reshape(2, 3), 1, adjoint.tensor([2, 0]))
    tensor([[2, 0],
            [5, 3]])
    """
    dim = dim if axis is None else either(dim, axis)
    check_vector(index, "index_select")
    apart(out, input, index)
    if index.array.ndim == 0:
        index = reshape(index, 1)
    result = index_select_p(input, index, dim_in(dim, input.array.ndim))
    return into(out, result if input.array.ndim else reshape(result, ()) if index.array.size == 1 else result)


def _filling(y: Value, x: Value, i: Value, axis: int) -> Value:
    """Return the one value of each element of a batch, at the shape of the slices it fills."""
    return expand_p(reshape_p(y, (y.shape[0], *(1,) * (x.ndim - 1))), _row_batch(x, i, axis).shape)


def _slices(x: Array, i: Array, axis: int) -> tuple[Array, tuple[slice | Array, ...]]:
    """Return an array of at least one dimension, and what indexes its slices along `axis`."""
    check_rows(i, x.shape[axis] if x.ndim else 1)
    return (x if x.ndim else x.reshape(1)), (*(_ALL,) * axis, i.reshape(-1))


def _index_add(x: Array, y: Array, i: Array, axis: int) -> None:
    whole, at = _slices(x, i, axis)
    module_of(x).add.at(whole, at, y)


def _index_copy(x: Array, y: Array, i: Array, axis: int) -> None:
    whole, at = _slices(x, i, axis)
    whole[at] = y


index_add_p: Primitive = nary(
    writing(_index_add),
    inputs=3,
    x=lambda g: g,
    y=lambda g, i, y_shape, axis: index_select_p(g, i, axis).reshape(y_shape),
    jvp=lambda tangents, inputs, out, params: index_add_p(*tangents_of(tangents, inputs), inputs[2], *params),
    batch=batch_of_elements(lambda x, y, i, axis: scatter_add_p(x, y, _row_batch(y, i, axis), axis + 1)),
    into=_index_add,
    name="index_add",
    saved={"i": "index", "axis": "dim"},
)


index_copy_p: Primitive = nary(
    writing(_index_copy),
    inputs=3,
    x=lambda g, i, axis: index_fill_p(g, _ZERO, i, axis),
    y=lambda g, i, y_shape, axis: index_select_p(g, i, axis).reshape(y_shape),
    jvp=lambda tangents, inputs, out, params: index_copy_p(*tangents_of(tangents, inputs), inputs[2], *params),
    batch=batch_of_elements(lambda x, y, i, axis: scatter_p(x, y, _row_batch(y, i, axis), axis + 1)),
    into=_index_copy,
    name="index_copy",
    saved={"i": "index", "axis": "dim"},
)
index_fill_p: Primitive = nary(
    writing(_index_copy),
    inputs=3,
    name="index_fill",
    x=lambda g, i, axis: index_fill_p(g, _ZERO, i, axis),
    # Of a place that is named twice there is still one element.
    y=lambda g, i, axis: (g - index_fill_p(g, _ZERO, i, axis)).sum(),
    jvp=lambda tangents, inputs, out, params: index_fill_p(*tangents_of(tangents, inputs), inputs[2], *params),
    batch=batch_of_elements(
        lambda x, y, i, axis: scatter_p(x, _filling(y, x, i, axis), _row_batch(x, i, axis), axis + 1)
    ),
    into=_index_copy,
    saved={"i": "index", "axis": "dim"},
)
_index_add_, _index_copy_, _index_fill_ = inplace(index_add_p), inplace(index_copy_p), inplace(index_fill_p)


def _slices_operands(input: Tensor, dim: int | None, index: Tensor, source: Any, op: str) -> tuple[int, Tensor, Any]:
    require_tensor(source, "source", op)
    check_vector(index, op)
    rank = input.array.ndim
    axis = dim_in(dim, rank)
    if source.array.dtype != input.array.dtype:
        raise RuntimeError(
            f"{op}(): self ({of(input.array.dtype).title}) and source ({of(source.array.dtype).title}) must have the "
            "same scalar type"
        )
    have = tuple(source.array.shape)
    check_slices(input, axis, index.array.size, have, op)
    want = (*input.array.shape[:axis], index.array.size, *input.array.shape[axis + 1 :]) if rank else have
    if have != want:
        source = reshape(source, want)
    return axis, index if index.array.ndim == 1 else reshape(index, -1), source


def index_add(
    input: Tensor, dim: int | None = None, index: Any = None, source: Value | None = None, *, alpha: Operand = 1,
    out: Out = None, axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return `input` with slices of `source`, scaled by `alpha`, added at positions along `dim`.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    dim : int, optional
        Dimension that `index` is about.
    index : Tensor, optional
        Positions along `dim`, 1-D, int64.
    source : Tensor, optional
        Slice i is added at position ``index[i]``.
    alpha : number, default 1
        Factor of `source`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Examples
    --------
    >>> adjoint.zeros(3).index_add(0, adjoint.tensor([0, 0, 2]), adjoint.ones(3))
    tensor([2., 0., 1.])
    """
    dim = dim if axis is None else either(dim, axis)
    axis, index, source = _slices_operands(input, dim, index, source, "index_add")
    added = index_add_p(input, source if alpha == 1 else source * alpha, index, axis)
    return into(out, added if alpha == 1 else fold(added, "IndexAddBackward0", input, source, alpha=alpha, dim=axis))


def index_add_(
    input: Tensor, dim: int | None = None, index: Any = None, source: Value | None = None, *, alpha: Operand = 1,
    axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Add slices of `source` to slices of `input`, in place.

    With ``dim=0``: ``input[index[k]] += alpha * source[k]`` for every k; what an index names repeatedly adds up.

    Parameters
    ----------
    input : Tensor
        Overwritten.
    dim : int
        The dimension; negative ones count from the end.
    index : Tensor
        A vector of integers from 0 to the size of `dim`, that not included.
    source : Tensor
        Of the dtype of `input`, and of its shape but along `dim`, where it is as long as `index`.
    alpha : number, default 1
        A factor for `source`.

    Returns
    -------
    Tensor
        `input` itself.

    Examples
    --------
    >>> x = adjoint.zeros(3)
    >>> x.index_add_(0, adjoint.tensor([0, 2, 0]), adjoint.tensor([1.0, 2.0, 3.0]))
    tensor([4., 0., 2.])
    """
    dim = dim if axis is None else either(dim, axis)
    axis, index, source = _slices_operands(input, dim, index, source, "index_add_")
    return _index_add_(input, source if alpha == 1 else source * alpha, index, axis)


@autocasting
def index_copy(
    input: Tensor, dim: int | None = None, index: Any = None, source: Value | None = None, *, out: Out = None,
    axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return `input` with slices of `source` written at positions along `dim`.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    dim : int, optional
        Dimension that `index` is about.
    index : Tensor, optional
        Positions along `dim`, 1-D, int64.
    source : Tensor, optional
        Slice i replaces that at position ``index[i]``.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Examples
    --------
    >>> adjoint.index_copy(adjoint.zeros(3), 0, adjoint.tensor([2, 0]), adjoint.tensor([1.0, 2.0]))
    tensor([2., 0., 1.])
    """
    dim = dim if axis is None else either(dim, axis)
    axis, index, source = _slices_operands(input, dim, index, source, "index_copy")
    return into(out, index_copy_p(input, source, index, axis))


def index_copy_(
    input: Tensor, dim: int | None = None, index: Any = None, source: Value | None = None, *, axis: int | None = None
) -> Tensor:
    """Write slices of `source` to slices of `input`, in place.

    With ``dim=0``: ``input[index[k]] = source[k]`` for every k.

    Parameters
    ----------
    input : Tensor
        Overwritten.
    dim : int
        The dimension; negative ones count from the end.
    index : Tensor
        A vector of integers from 0 to the size of `dim`, that not included, each at most once.
    source : Tensor
        Of the dtype of `input`, and of its shape but along `dim`, where it is as long as `index`.

    Returns
    -------
    Tensor
        `input` itself.

    Examples
    --------
    >>> x = adjoint.zeros(2, 3)
    >>> x.index_copy_(1, adjoint.tensor([2, 0]), adjoint.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor([[2., 0., 1.],
            [4., 0., 3.]])
    """
    dim = dim if axis is None else either(dim, axis)
    axis, index, source = _slices_operands(input, dim, index, source, "index_copy_")
    return _index_copy_(input, source, index, axis)


def _fill_operands(input: Tensor, dim: int | None, index: Tensor, value: object, op: str) -> tuple[int, Tensor, Any]:
    check_vector(index, op)
    if isinstance(value, TensorBase):
        if value.array.ndim:
            raise RuntimeError(
                f"{op} only supports a 0-dimensional value tensor, but got tensor with {value.array.ndim} dimension(s)."
            )
        if value.array.dtype != input.array.dtype:
            value = cast_p(value, input.array.dtype)
    elif value is None:
        raise missing(op, "value")
    else:
        check_number(value, input, op)
        value = literal(place_array(number_array(value, of(input.array.dtype)), device_of(input.array)))
    return dim_in(dim, input.array.ndim), reshape(index, -1), value


def index_fill(
    input: Tensor, dim: int | None = None, index: Any = None, value: Operand | None = None, *, axis: int | None = None
) -> Tensor:
    """Return `input` with one value in the slices at positions along `dim`.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    dim : int, optional
        Dimension that `index` is about.
    index : Tensor, optional
        Positions along `dim`, 1-D, int64.
    value : number or Tensor, optional
        The value.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Examples
    --------
    >>> adjoint.index_fill(adjoint.zeros(3), 0, adjoint.tensor([2, 0]), 5.0)
    tensor([5., 0., 5.])
    """
    dim = dim if axis is None else either(dim, axis)
    axis, index, given = _fill_operands(input, dim, index, value, "index_fill")
    filled = index_fill_p(input, given, index, axis)
    return fold(filled, "IndexFillBackward1", input, value) if isinstance(value, TensorBase) else filled


def index_fill_(
    input: Tensor, dim: int | None = None, index: Any = None, value: Operand | None = None, *, axis: int | None = None
) -> Tensor:
    """Write one value into the slices that a vector names, in place."""
    dim = dim if axis is None else either(dim, axis)
    axis, index, value = _fill_operands(input, dim, index, value, "index_fill_")
    return _index_fill_(input, value, index, axis)


def _slices_as_places(input: Tensor, dim: int | None, index: Tensor, source: Tensor) -> tuple[int, Tensor]:
    require_tensor(source, "source", "index_reduce")
    axis = dim_in(dim, input.array.ndim)
    rank = input.array.ndim
    check_slices(input, axis, index.array.size, tuple(source.array.shape), "index_reduce_", exact=True)
    vector = reshape(index, (1,) * axis + (-1,) + (1,) * (rank - axis - 1) if rank else ())
    return axis, expand_p(vector, source.array.shape)


def index_reduce(
    input: Tensor, dim: int | None = None, index: Any = None, source: Any = None, reduce: str | None = None, *,
    include_self: bool = True, out: Out = None, axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return `input` reduced ("prod", "mean", "amax", "amin") with the slices of `source` sent to each place."""
    dim = dim if axis is None else either(dim, axis)
    axis, places = _slices_as_places(input, dim, check_vector(index, "index_reduce"), source)
    found = scatter_reduce(input, axis, places, source, reduce, include_self=include_self, out=out)
    return fold(found, "IndexReduceBackward0", input, source, dim=axis, reduce=reduce, include_self=include_self)


def index_reduce_(
    input: Tensor, dim: int | None = None, index: Any = None, source: Any = None, reduce: str | None = None, *,
    include_self: bool = True, axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Reduce `input` with the slices of `source` sent to each place, in place."""
    dim = dim if axis is None else either(dim, axis)
    axis, places = _slices_as_places(input, dim, check_vector(index, "index_reduce_"), source)
    return scatter_reduce_(input, axis, places, source, reduce, include_self=include_self)
