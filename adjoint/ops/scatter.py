"""Writing by tensors of indices and by masks: scatter, scatter_reduce, put, masked_scatter."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._typing import Array, DType, Inputs, Kernel, Number, Operand, Out, Params, Shape, Tangents, Tensor, Value
from ..core import device as places
from ..core.device import module_of, place_array
from ..core.device import of as device_of
from ..core.dtypes import of
from ..core.folding import fold
from ..core.inplace import inplace
from ..core.nodes import wrap
from ..core.observation import is_captured, literal, opaque
from ..core.payload import is_batch
from ..core.recorders import Primitive, nary
from ..core.tensor import TensorBase
from .arguments import dim_in, either, missing
from .bounds import check_flat, check_index
from .compare import zeros_p
from .create import into
from .create_like import copy_for
from .gather import (
    check_mask,
    check_positions,
    gather_p,
    grown,
    masked_select_p,
    positions,
    ungather_p,
)  # fmt: skip
from .index import place_p, slice_p
from .literals import check_fits
from .piecewise import where_p
from .precision import autocasting
from .shape import broadcast_tensors, cast_p, expand_p, reshape, reshape_p

# The functions that adjoint exports; the others are methods only.
__all__ = [
    "masked_scatter", "put", "scatter", "scatter_add", "scatter_reduce",
]  # fmt: skip
_ALL = slice(None)
_int64 = np.dtype("int64")
_ZERO = np.int8(0)  # what a rule writes where nothing of the gradient is left


def writing(write: Kernel) -> Kernel:
    """Return a kernel that writes into a copy of its first argument, which in a rule may be a NumPy scalar."""

    def kernel(x: Array, y: Array, i: Array, axis: int) -> Array:
        out: Array = module_of(x).array(x, order="C")
        write(out, y, i, axis)
        return out

    return kernel


# --- scatter and scatter_add ------------------------------------------------------------------------


def _scatter(x: Array, y: Array, i: Array, axis: int) -> None:
    whole, at, picked = positions(x, i, axis)
    whole[at] = y.reshape(picked) if y.shape == i.shape else y


def _scatter_add(x: Array, y: Array, i: Array, axis: int) -> None:
    whole, at, picked = positions(x, i, axis)
    module_of(x).add.at(whole, at, y.reshape(picked) if y.shape == i.shape else y)


def _scatter_batch(x: Value, y: Value, i: Value, axis: int) -> Value:
    return scatter_p(x, grown(y, i.ndim), i, axis + 1)


def batch_of_elements(rule: Kernel) -> Kernel:
    """Return a batching rule that takes 0-d elements, by giving them a dimension of size 1."""

    def batch(x: Value, y: Value, i: Value, *params: object) -> Any:
        if x.ndim > 1:
            return rule(x, y, grown(i, 2), *params)
        out = rule(grown(x, 2), grown(y, 2), grown(i, 2), *params)
        return reshape_p(out, (x.shape[0],))

    return batch


def tangents_of(tangents: Tangents, inputs: Inputs) -> tuple[Any, Any]:
    """Return tangents of the written tensor and of the values, zeros where there are none."""
    tx, ty = tangents[:2]
    zeros = _ZERO if getattr(inputs[1], "ndim", 0) == 0 else zeros_p(inputs[1])
    return (zeros_p(inputs[0]) if tx is None else tx), (zeros if ty is None else ty)


# Inputs: the tensor, the values at the shape of the index (or a number), the index.
scatter_p: Primitive = nary(
    writing(_scatter),
    inputs=3,
    x=lambda g, i, axis: scatter_p(g, _ZERO, i, axis),
    y=lambda g, i, axis: gather_p(g, i, axis),
    jvp=lambda tangents, inputs, out, params: scatter_p(*tangents_of(tangents, inputs), inputs[2], *params),
    batch=batch_of_elements(_scatter_batch),
    into=_scatter,
    name="scatter",
    saved={"i": "index", "axis": "dim"},
)


scatter_add_p: Primitive = nary(
    writing(_scatter_add),
    inputs=3,
    x=lambda g: g,
    y=lambda g, i, axis: gather_p(g, i, axis),
    jvp=lambda tangents, inputs, out, params: scatter_add_p(*tangents_of(tangents, inputs), inputs[2], *params),
    batch=batch_of_elements(lambda x, y, i, axis: scatter_add_p(x, y, i, axis + 1)),
    into=_scatter_add,
    name="scatter_add",
    saved={"i": "index", "axis": "dim"},
)
_scatter_, _scatter_add_ = inplace(scatter_p), inplace(scatter_add_p)


def check_number(value: Number, input: Tensor, op: str) -> None:
    """Raise unless a value is a scalar that a tensor can hold."""
    if not isinstance(value, int | float | complex | np.generic):
        raise TypeError(f"{op}() received an invalid combination of arguments - got a value of {type(value).__name__}")
    if isinstance(value, complex) and input.array.dtype.kind != "c":
        raise RuntimeError(f"value cannot be converted to type float without overflow: {op}(value={value})")
    check_fits(value, of(input.array.dtype))


def _scatter_operands(input: Tensor, dim: int | None, index: Tensor, src: Any, op: str) -> tuple[int, Any]:
    """Return the axis, and the values cut to the shape of the index."""
    check_index(index, op)
    axis = dim_in(dim, input.array.ndim)
    if not isinstance(src, TensorBase):
        if src is None:
            raise missing(op, "src")
        if not op.removesuffix("_") == "scatter":
            raise TypeError(f"{op}(): argument 'src' must be Tensor, not {type(src).__name__}")
        check_number(src, input, op)
        if index.array.size:
            check_positions(input, index, axis, op)
        return axis, literal(place_array(np.array(src, input.array.dtype), device_of(input.array)))
    if src.array.dtype != input.array.dtype:
        raise RuntimeError(
            f"{op}(): Expected self.dtype to be equal to src.dtype, got {of(input.array.dtype).name} and "
            f"{of(src.array.dtype).name}"
        )
    if not index.array.size:
        return axis, slice_p(src, tuple(slice(0, n) for n in index.array.shape) + (...,))
    check_positions(input, index, axis, op)
    have, want = src.array.shape, index.array.shape
    if max(len(have), 1) != max(len(want), 1):
        raise RuntimeError("Index tensor must have the same number of dimensions as src tensor")
    if have == want or not want or not have:
        return axis, reshape_p(src, want) if have != want else src
    if any(n > m for n, m in zip(want, have, strict=True)):
        raise RuntimeError(
            f"Expected index {list(want)} to be no larger than self {list(input.array.shape)} apart from "
            f"dimension {axis} and to be no larger size than src {list(have)}"
        )
    return axis, slice_p(src, (*(slice(0, n) for n in want), ...))


_REDUCTIONS = {"add": "sum", "multiply": "prod"}


def _reduction(reduce: str) -> str:
    if reduce not in _REDUCTIONS:
        raise RuntimeError("reduce argument must be either add or multiply.")
    return _REDUCTIONS[reduce]


def scatter(
    input: Tensor, dim: int | None = None, index: Any = None, src: Operand | None = None, *,
    value: Operand | None = None, reduce: str | None = None, out: Out = None, axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return a copy of `input` with values written along a dimension by index.

    In two dimensions with ``dim=1``: ``result[i, index[i, j]] = src[i, j]``. It is the reverse of `gather`.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    dim : int
        The dimension; negative ones count from the end.
    index : Tensor
        Integers from 0 to the size of `dim`, that not included; as many dimensions as `input`.
    src : Tensor or number
        What is written: a tensor of the dtype of `input` that is at least as large as `index`, or one number.
    value : number, optional
        Another name of `src` for a number.
    reduce : str, optional
        "add" or "multiply" combines with what is there instead of replacing it; `scatter_reduce` is the modern form.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        Of the shape of `input`. If an index occurs twice, either value may win.

    Raises
    ------
    RuntimeError
        If `index` is out of range, or shapes or dtypes do not fit.

    Examples
    --------
    >>> adjoint.scatter(adjoint.zeros(2, 3), 1, adjoint.tensor([[2], [0]]), 1.0)
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    >>> adjoint.zeros(3).scatter(0, adjoint.tensor([2, 0]), adjoint.tensor([5.0, 6.0]))
    tensor([6., 0., 5.])
    """
    dim = dim if axis is None else either(dim, axis)
    given = value if src is None else src
    if reduce is not None:
        return into(out, scatter_reduce(input, dim, index, _as_source(input, index, given), _reduction(reduce)))
    axis, values = _scatter_operands(input, dim, index, given, "scatter")
    written = scatter_p(input, values, index, axis)
    return into(out, written if isinstance(given, TensorBase) else fold(written, "ScatterBackward1", input, dim=axis))


def scatter_(
    input: Tensor, dim: int | None = None, index: Any = None, src: Operand | None = None, *,
    value: Operand | None = None, reduce: str | None = None, axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Write values along a dimension by index, in place.

    In two dimensions with ``dim=1``: ``input[i, index[i, j]] = src[i, j]``.

    Parameters
    ----------
    input : Tensor
        Overwritten.
    dim : int
        The dimension; negative ones count from the end.
    index : Tensor
        Integers from 0 to the size of `dim`, that not included; as many dimensions as `input`.
    src : Tensor or number
        What is written: a tensor of the dtype of `input` that is at least as large as `index`, or one number.
    value : number, optional
        Another name of `src` for a number.
    reduce : str, optional
        "add" or "multiply" combines with what is there instead of replacing it; `scatter_reduce_` is the modern form.

    Returns
    -------
    Tensor
        `input` itself.

    Examples
    --------
    >>> labels = adjoint.tensor([2, 0])
    >>> adjoint.zeros(2, 3).scatter_(1, labels.unsqueeze(1), 1.0)
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    dim = dim if axis is None else either(dim, axis)
    given = value if src is None else src
    if reduce is not None:
        return scatter_reduce_(input, dim, index, _as_source(input, index, given), _reduction(reduce))
    axis, values = _scatter_operands(input, dim, index, given, "scatter_")
    return _scatter_(input, values, index, axis)


def _as_source(input: Tensor, index: Tensor, value: object) -> Tensor | TensorBase:
    if isinstance(value, TensorBase):
        return value
    if value is None:
        raise missing("scatter", "src")
    check_number(value, input, "scatter")
    return wrap(literal(module_of(input.array).full(index.array.shape, value, input.array.dtype)))


@autocasting
def scatter_add(
    input: Tensor, dim: int | None = None, index: Any = None, src: Operand | None = None, *, out: Out = None,
    axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return a copy of `input` with values added along a dimension by index.

    In two dimensions with ``dim=1``: ``result[i, index[i, j]] += src[i, j]``; what an index names repeatedly adds up.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    dim : int
        The dimension; negative ones count from the end.
    index : Tensor
        Integers from 0 to the size of `dim`, that not included; as many dimensions as `input`.
    src : Tensor
        Of the dtype of `input`, and at least as large as `index`.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Examples
    --------
    >>> adjoint.zeros(3).scatter_add(0, adjoint.tensor([0, 2, 0]), adjoint.tensor([1.0, 2.0, 3.0]))
    tensor([4., 0., 2.])
    """
    dim = dim if axis is None else either(dim, axis)
    axis, values = _scatter_operands(input, dim, index, src, "scatter_add")
    return into(out, scatter_add_p(input, values, index, axis))


def scatter_add_(
    input: Tensor, dim: int | None = None, index: Any = None, src: Operand | None = None, *, axis: int | None = None
) -> Tensor:
    """Add values along a dimension by index, in place.

    In two dimensions with ``dim=1``: ``input[i, index[i, j]] += src[i, j]``; what an index names repeatedly adds up.

    Parameters
    ----------
    input : Tensor
        Overwritten.
    dim : int
        The dimension; negative ones count from the end.
    index : Tensor
        Integers from 0 to the size of `dim`, that not included; as many dimensions as `input`.
    src : Tensor
        Of the dtype of `input`, and at least as large as `index`.

    Returns
    -------
    Tensor
        `input` itself.

    Examples
    --------
    >>> adjoint.zeros(3).scatter_add_(0, adjoint.tensor([0, 2, 0]), adjoint.tensor([1.0, 2.0, 3.0]))
    tensor([4., 0., 2.])
    """
    dim = dim if axis is None else either(dim, axis)
    axis, values = _scatter_operands(input, dim, index, src, "scatter_add_")
    return _scatter_add_(input, values, index, axis)


# --- scatter_reduce ---------------------------------------------------------------------------------

_JOINS = {"prod": np.multiply, "amax": np.maximum, "amin": np.minimum}


def _scatter_reduce(x: Any, y: Array, i: Array, axis: int, reduce: str, include_self: bool) -> Any:
    xp = module_of(x)
    if not include_self:
        x = scatter_p(x, x.dtype.type(_start_of(x.dtype, reduce)), i, axis)
        if reduce in _JOINS:
            return scatter_reduce_p(x, y, i, axis, reduce, True)
    if reduce in _JOINS:
        joined = xp.array(x, order="C")
        whole, at, picked = positions(joined, i, axis)
        getattr(xp, _JOINS[reduce].__name__).at(whole, at, xp.broadcast_to(y, i.shape).reshape(picked))
        return joined
    out: Any = scatter_add_p(x, y, i, axis)
    if reduce == "mean":
        before, ones = xp.full(x.shape, int(include_self), np.int64), xp.ones(i.shape, np.int64)
        count = xp.maximum(scatter_add_p(before, ones, i, axis), 1)
        out = (out // count if x.dtype.kind in "iu" else out / count).astype(x.dtype)
    return out


def _start_of(dtype: DType, reduce: str) -> Number:
    """Return the value that every other one replaces in a reduction."""
    if reduce not in ("amax", "amin"):
        return int(reduce == "prod")
    if dtype.kind == "b":
        return reduce == "amin"
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return info.min if reduce == "amax" else info.max
    return -math.inf if reduce == "amax" else math.inf


def _scatter_reduce_joint(
    g: Value, x: Value, y: Value, i: Value, out: Value, axis: int, reduce: Any, include_self: bool,
) -> tuple[Value, Tensor, None]:  # fmt: skip
    if reduce == "sum":
        gx, gy = g, gather_p(g, i, axis)
    elif reduce == "mean":
        ones = _full_like(i, y, 1)
        count = scatter_add_p(_full_like(x, x, int(include_self)), ones, i, axis)
        share = g / where_p(count == 0, 1, count)
        gx, gy = share, gather_p(share, i, axis)
    elif reduce == "prod":
        gx, gy = _scatter_prod(g, x, y, i, out, axis, include_self)
    else:
        is_x = cast_p(x == out, _dtype_of(x))
        is_y = cast_p(y == gather_p(out, i, axis), _dtype_of(x))
        if not include_self:
            is_x = scatter_p(is_x, _ZERO, i, axis)
        share = g / scatter_add_p(is_x, is_y, i, axis)
        gx, gy = is_x * share, is_y * gather_p(share, i, axis)
    if not include_self:
        gx = scatter_p(gx, _ZERO, i, axis)
    return gx, gy, None


def _scatter_prod(g: Value, x: Value, y: Value, i: Value, out: Value, axis: int, include_self: bool) -> tuple[Any, Any]:
    """Return the gradients of a product, where factors that are zero must not hide the others.

    Beside one zero more, the gradient of a zero is zero, but depends on that other one, which second derivatives need:
    it is the sum of all zeros of the place without the zero itself.
    """
    one = where_p(x == 0, 1, x)
    gx = g * scatter_reduce_p(one, y, i, axis, "prod", include_self) / one
    absent = y == 0
    nothing = _full_like(x, x, 0)
    zeros = gather_p(scatter_add_p(nothing, cast_p(absent, _dtype_of(x)), i, axis), i, axis)
    others = gather_p(scatter_add_p(nothing, where_p(absent, y, 0), i, axis), i, axis) - y
    rest = scatter_reduce_p(x, where_p(absent, 1, y), i, axis, "prod", include_self)
    alone = where_p(zeros == 1, 1, where_p(zeros == 2, others, 0)) * gather_p(g * rest, i, axis)
    return gx, where_p(absent, alone, gather_p(g * out, i, axis) / where_p(absent, 1, y))


def _dtype_of(x: Value) -> Any:
    return x.array.dtype if isinstance(x, TensorBase) else x.dtype


def _full_like(shaped: Any, typed: Any, value: object) -> Any:
    """Return an array of one value, with the shape of one value and the dtype of another."""
    inner = shaped.array if isinstance(shaped, TensorBase) else shaped
    return literal(places.adopt(module_of(inner).full(shaped.shape, value, _dtype_of(typed))))


def _scatter_reduce_jvp(tangents: Tangents, inputs: Inputs, out: Value, params: Params) -> Value:
    tx, ty = tangents[:2]
    x, y, i = inputs
    axis, reduce, include_self = params
    tx = zeros_p(x) if tx is None else tx
    ty = zeros_p(y) if ty is None else ty
    if reduce in ("sum", "mean"):
        return scatter_reduce_p(tx, ty, i, axis, reduce, include_self)
    if reduce == "prod":
        gx, gy = _scatter_prod(_full_like(x, x, 1), x, y, i, out, axis, include_self)
        tx, ty = tx * gx, ty * gy
        return scatter_add_p(scatter_p(tx, _ZERO, i, axis) if not include_self else tx, ty, i, axis)
    is_x = cast_p(x == out, _dtype_of(x))
    is_y = cast_p(y == gather_p(out, i, axis), _dtype_of(x))
    if not include_self:
        is_x = scatter_p(is_x, _ZERO, i, axis)
    return scatter_add_p(is_x * tx, is_y * ty, i, axis) / scatter_add_p(is_x, is_y, i, axis)


scatter_reduce_p: Primitive = nary(
    _scatter_reduce,
    inputs=3,
    joint=_scatter_reduce_joint,
    jvp=_scatter_reduce_jvp,
    batch=batch_of_elements(
        lambda x, y, i, axis, reduce, include_self: scatter_reduce_p(x, y, i, axis + 1, reduce, include_self)
    ),
    saved={"i": "index", "axis": "dim", "y": "src"},
)
_scatter_reduce_ = inplace(scatter_reduce_p)
_REDUCES = ("sum", "prod", "mean", "amax", "amin")


def _check_reduce(reduce: str | None, op: str) -> None:
    if reduce is None:
        raise missing(op, "reduce")
    if reduce not in _REDUCES:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")


def scatter_reduce(
    input: Tensor, dim: int | None = None, index: Any = None, src: Value | Operand | TensorBase | None = None,
    reduce: str | None = None, *, include_self: bool = True, out: Out = None, axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return `input` reduced with the elements of `src` that `index` sends to each position along `dim`.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    dim : int, optional
        Dimension that `index` is about.
    index : Tensor, optional
        Positions along `dim`, of as many dimensions as `input`, int64.
    src : Tensor, optional
        At least as large as `index`.
    reduce : str, optional
        "sum", "prod", "mean", "amax" or "amin".
    include_self : bool, default True
        Whether the elements of `input` take part.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Examples
    --------
    >>> x = adjoint.zeros(2)
    >>> adjoint.scatter_reduce(x, 0, adjoint.tensor([0, 0, 1]), adjoint.tensor([1.0, 2.0, 3.0]), "sum")
    tensor([3., 3.])
    """
    dim = dim if axis is None else either(dim, axis)
    _check_reduce(reduce, "scatter_reduce")
    axis, values = _scatter_operands(input, dim, index, src, "scatter_reduce")
    return into(out, scatter_reduce_p(input, values, index, axis, reduce, include_self))


def scatter_reduce_(
    input: Tensor, dim: int | None = None, index: Any = None, src: Value | Operand | TensorBase | None = None,
    reduce: str | None = None, *, include_self: bool = True, axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Reduce `input` with the values of `src` that `index` sends to each place along `dim`, in place."""
    dim = dim if axis is None else either(dim, axis)
    _check_reduce(reduce, "scatter_reduce_")
    axis, values = _scatter_operands(input, dim, index, src, "scatter_reduce_")
    return _scatter_reduce_(input, values, index, axis, reduce, include_self)


# --- put: as if there were one dimension ------------------------------------------------------------


def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Return a copy of `input` with elements written as if it had one dimension.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    index : Tensor
        Integers, places in the flattened `input`; negative ones count from the end.
    source : Tensor
        Of the dtype of `input`, with as many elements as `index`.
    accumulate : bool, default False
        Whether to add to what is there instead of replacing it.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Examples
    --------
    >>> adjoint.zeros(2, 2).put(adjoint.tensor([0, -1]), adjoint.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    if is_batch(index):
        check_index(index, "put_")
        size = math.prod(input.array.shape)
        places = reshape_p(where_p(index < 0, index + size, index), (math.prod(index.array.shape),))
        flat, written = (reshape_p(t, (math.prod(t.array.shape),)) for t in (input, source))
        write = scatter_add if accumulate else scatter
        return reshape_p(write(flat, 0, places, written), tuple(input.array.shape))
    written = put_(copy_for(source, input), index, source, accumulate)
    return fold(written, "PutBackward0", input, source, accumulate=accumulate)


def _coordinates(at: Any, size: int, shape: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(np.unravel_index(np.where(at < 0, at + size, at), shape))


def put_(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """Write elements as if `input` had one dimension, in place."""
    check_index(index, "put_")
    if source.array.dtype != input.array.dtype:
        raise RuntimeError("put_(): self and source expected to have the same dtype")
    if source.array.size != index.array.size:
        raise IndexError(
            "put_(): Expected source and index to have the same number of elements, but got source.numel() "
            f"= {source.array.size}, index.numel() = {index.array.size}"
        )
    at = index.array
    shape = input.array.shape
    size = math.prod(shape)
    check_flat(at, size)
    if not shape:
        if at.size:
            input[...] = source.reshape(-1)[-1] if not accumulate else input + source.sum()
        return input
    coordinates = tuple(wrap(c) for c in opaque("coordinates", _coordinates, index, size, shape))
    return input.index_put_(coordinates, reshape(source, at.shape), accumulate)


# --- Masks ------------------------------------------------------------------------------------------


def _masked_scatter(x: Value, y: Value, mask: Value) -> Array:
    out = module_of(x).array(x, order="C")
    _put_masked(out, y, mask)
    return out


def _put_masked(x: Value, y: Any, mask: Value) -> None:
    mask = module_of(x).broadcast_to(mask, x.shape)
    count = int(mask.sum())
    if y.size < count:
        raise RuntimeError(
            f"masked_scatter: Number of elements of source < number of ones in mask ({y.size} < {count})"
        )
    x[mask] = y.reshape(-1)[:count]


def _masked_scatter_y(g: Value, mask: Value, y_shape: Shape) -> Value:
    if is_batch(mask) or is_captured():
        return _masked_scatter_y_fixed(g, mask, y_shape)
    taken = masked_select_p(g, mask)
    count = taken.shape[0]
    return place_p(taken, (math.prod(y_shape),), (slice(0, count), ...)).reshape(y_shape)


def _masked_scatter_y_fixed(g: Value, mask: Value, y_shape: Shape) -> Value:
    """Do as `_masked_scatter_y`, in a fixed shape: what was not written adds to a place past the end."""
    from .scan import cumsum_p  # which imports this module

    count = math.prod(y_shape)
    flat = reshape_p(mask, (-1,))
    places = where_p(flat, cumsum_p(cast_p(flat, _int64), 0, False) - 1, count)
    return reshape_p(slice_p(ungather_p(reshape_p(g, (-1,)), places, (count + 1,), 0), (slice(0, count), ...)), y_shape)


masked_scatter_p: Primitive = nary(
    _masked_scatter,
    inputs=3,
    x=lambda g, mask: where_p(mask, 0, g),
    y=_masked_scatter_y,
    jvp=lambda tangents, inputs, out, params: masked_scatter_p(
        *(zeros_p(x) if t is None else t for t, x in zip(tangents[:2], inputs[:2], strict=True)), inputs[2]
    ),
    into=_put_masked,
)
_masked_scatter_ = inplace(masked_scatter_p)


def _scatter_mask(input: Tensor, mask: Tensor, source: Tensor, op: str) -> Tensor:
    check_mask(mask, op)
    if source.array.dtype != input.array.dtype:
        raise RuntimeError(
            f"{op}: expected self and source to have same dtypes but got {of(input.array.dtype).name} and "
            f"{of(source.array.dtype).name}"
        )
    return expand_p(mask, input.array.shape) if mask.array.shape != input.array.shape else mask


def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Return `input` with elements of `source`, in order, where a mask is true.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    mask : Tensor
        bool, broadcast with `input`.
    source : Tensor
        At least as many elements as are true.

    Returns
    -------
    Tensor
        Of the broadcast shape.

    Examples
    --------
    >>> mask = adjoint.tensor([True, False, True])
    >>> adjoint.masked_scatter(adjoint.zeros(3), mask, adjoint.tensor([1.0, 2.0, 3.0]))
    tensor([1., 0., 2.])
    """
    whole = input
    if input.array.shape != mask.array.shape:
        whole, mask = broadcast_tensors(input, mask)
    written = masked_scatter_p(whole, source, _scatter_mask(whole, mask, source, "masked_scatter"))
    return fold(written, "MaskedScatterBackward0", input, source)


def masked_scatter_(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Write elements of `source`, one after the other, where a mask is true, in place."""
    return _masked_scatter_(input, source, _scatter_mask(input, mask, source, "masked_scatter_"))
