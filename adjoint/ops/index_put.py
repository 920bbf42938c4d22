"""Writing into parts of tensors: ``x[index] = value``, `index_put`, and the primitives below them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._typing import Array, Inputs, Tangents, Tensor, Value
from ..core import modes, primitive
from ..core.device import of as device_of
from ..core.device import place_array
from ..core.dtypes import of
from ..core.inplace import write
from ..core.nodes import registry, wrap
from ..core.observation import literal
from ..core.payload import Payload
from ..core.recorders import Primitive, nary, variadic
from ..core.tensor import TensorBase, note_write
from ..core.writable import check_writable, overlaps_itself
from .bounds import as_bounds_error
from .compare import zeros_p
from .convert import copy_
from .index import (
    add_at,
    batched_indexes,
    beside,
    explain_index,
    index_p,
    move_indexed,
    numpy_index,
    slice_p,
)  # fmt: skip
from .precision import autocasting
from .shape import expand_p, reshape_p
from .subscript import as_basic, is_plain, parsed, result_shape, view_at

__all__ = ["index_put", "index_put_"]
_ALL = slice(None)
_ZERO = np.int8(0)  # what a rule writes where nothing of the gradient is left


def _set_slice(x: Array, y: Value, index: Any) -> Any:
    out = x.copy()
    out[index] = y
    return out


def _assign_slice(x: Value, y: Any, index: Any) -> None:
    x[index] = y


set_slice_p: Primitive = nary(
    _set_slice,
    inputs=2,
    x=lambda g, index: set_slice_p(g, _ZERO, index),
    y=lambda g, y_shape, y_dtype, index: primitive.fit(slice_p(g, index), y_shape, y_dtype),
    jvp=lambda tangents, inputs, out, params: _set_slice_jvp(tangents, inputs, *params),
    batch=lambda x, y, index: set_slice_p(x, _unit_axes(y, _rank_of(x, index)), (_ALL, *index)),
    into=_assign_slice,
    node_name="SliceScatterBackward0",
)


def _rank_of(x: Value, index: Any) -> int:
    """Return the rank of one element's part at `index`, for a batched `x`."""
    consumed = sum(i is not None and i is not Ellipsis for i in index)
    return int(x.ndim) - 1 - consumed + sum(not isinstance(i, int) and i is not Ellipsis for i in index)


def _unit_axes(y: Value, rank: int) -> Value:
    missing = rank - (y.ndim - 1)
    return y if missing <= 0 else reshape_p(y, (y.shape[0], *(1,) * missing, *y.shape[1:]))


def _set_slice_jvp(tangents: Tangents, inputs: Inputs, index: Any) -> Value:
    tx, ty = tangents
    x = inputs[0]
    return set_slice_p(zeros_p(x) if tx is None else tx, _ZERO if ty is None else ty, index)


def _index_put(xs: Any, spec: Any, accumulate: bool) -> Any:
    out = xs[0].copy()
    _assign(out, *xs[1:], spec, accumulate)
    return out


def _assign(x: Array, y: Any, *rest: Any) -> None:
    spec, accumulate = rest[-2:]
    indexes = tuple([beside(x, i) for i in rest[:-2]])
    if accumulate:
        add_at(x, indexes, spec, y)
        return
    try:
        x[numpy_index(indexes, spec)] = y
    except IndexError as error:
        raise as_bounds_error(error) from None


def _index_put_xs(g: Value, xs_from_2: Any, spec: Any, accumulate: bool, needs: Any = None) -> tuple[Value | None, ...]:
    gx = gy = None
    if needs[0]:
        gx = g if accumulate else index_put_p((g, _ZERO, *xs_from_2), spec, False)
    if needs[1]:
        gy = index_p((g, *xs_from_2), spec)
    return (gx, gy, *(None,) * len(xs_from_2))


# Inputs: the tensor, the values at the shape of the indexed part, the index tensors.
index_put_p: Primitive = variadic(
    _index_put,
    xs=_index_put_xs,
    jvp=lambda tangents, inputs, out, params: _index_put_jvp(tangents, inputs, *params),
    batch=lambda *args: _index_put_batch(args[:-2], *args[-2:]),
    into=_assign,
)


def _index_put_jvp(tangents: Tangents, inputs: Inputs, spec: Any, accumulate: bool) -> Value:
    tx, ty = tangents[:2]
    tx = zeros_p(inputs[0]) if tx is None else tx
    return index_put_p((tx, _ZERO if ty is None else ty, *inputs[2:]), spec, accumulate)


def _index_put_batch(xs: tuple[Any, ...], spec: tuple[int, ...], accumulate: bool) -> Value:
    indexes, batched, first = batched_indexes(xs[2:], spec)
    y = xs[1]
    if y.ndim > 1:
        y = move_indexed(y, first, indexes[0].ndim - 1, back=True)
    else:
        y = _unit_axes(y, indexes[0].ndim + xs[0].ndim - 1 - sum(k >= 0 for k in batched))
    return index_put_p((xs[0], y, *indexes), batched, accumulate)


_put_op = index_put_p.of_arity(3)  # type: ignore[attr-defined]


def setitem(input: Tensor, index: Any, value: Any) -> None:
    """Write into the part of `input` at an index, as ``input[index] = value`` does."""
    if index is False:
        return
    items = as_basic(index if type(index) is tuple else (index,))
    if items is None:
        if not modes.unusual and isinstance(index, TensorBase) and _put_plainly(input, index, value):
            return
        if modes.unusual and (_is_hidden_mask(index) or _is_observed_mask(input, index, value)):
            input.masked_fill_(index, value)
            return
        basic, indexes, spec = parsed(input, index)
        if indexes:
            _set_indexed(input, basic, indexes, spec, _value_for(input, value))
            return
        items = basic or (...,)
    if not isinstance(value, TensorBase):
        value = _number_for(input, value)
    recording = (input.node is not None or (isinstance(value, TensorBase) and value.node is not None)) and (
        not modes.off or modes.local.grad
    )
    array = input.array
    if recording or modes.unusual or (not array.flags.c_contiguous and overlaps_itself(array)):
        _write_view(input, items, value)  # of elements that share memory, the part that is written may have one each
        return
    check_writable(input, False)
    raw = value.array if isinstance(value, TensorBase) else value
    try:
        array[items] = (
            raw if type(raw) is type(array) or not hasattr(raw, "dtype") else place_array(raw, device_of(array))
        )
    except (ValueError, IndexError) as error:
        raise _setitem_error(error, input, items, raw) from None
    note_write(input, "copy_")


def _put_plainly(input: Tensor, index: Any, value: object) -> bool:
    """Write at one index tensor where nothing is recorded; return whether that was possible."""
    array, i = input.array, index.array
    if not is_plain(input, index) or not i.ndim:
        return False
    if isinstance(value, TensorBase):
        if value.node is not None or value.array.dtype != array.dtype or type(value.array) is not type(array):
            return False
        value = value.array
    elif type(value) is not float and type(value) is not int:
        return False
    elif array.dtype.kind not in "fc":
        value = _number_for(input, value)
    if input.node is not None and (not modes.off or modes.local.grad):
        return False
    check_writable(input, False)
    try:
        _put_op.form_for((array,)).into(array, value, i, (0,), False)
    except (ValueError, IndexError, TypeError):  # refused before anything was written: said better elsewhere
        return False
    note_write(input, "index_put_")
    return True


def _is_hidden_mask(index: Any) -> bool:
    """Return whether an index is a mask whose elements are not known, as inside vmap."""
    hidden = isinstance(index, TensorBase) and isinstance(index.array, Payload)
    return hidden and index.array.dtype == bool and not hasattr(index.array, "tangent")


def _is_observed_mask(input: Tensor, index: Any, value: object) -> bool:
    """Return whether a number is written through a mask under an observer: then without counting its elements."""
    if modes.local.observer is None or isinstance(value, TensorBase) or not isinstance(index, TensorBase):
        return False
    return bool(index.array.dtype == bool and index.array.shape == input.array.shape)


def _set_indexed(input: Tensor, basic: Any, indexes: tuple[Any, ...], spec: tuple[int, ...], value: Tensor) -> None:
    if basic is None:
        _put(input, indexes, spec, value, False)
    elif isinstance(input.array, Payload):
        part = view_at(input, basic)
        value = _put_value(part, indexes, spec, value)
        write(set_slice_p.op, input, (index_put_p((part, value, *indexes), spec, False),), (basic,))
    else:
        _put(view_at(input, basic), indexes, spec, value, False)


def _number_for(x: Tensor, value: object) -> Any:
    """Return a value that is no tensor as what an array takes, or raise torch's errors."""
    if isinstance(value, np.ndarray):
        return wrap(value)
    dtype = of(x.array.dtype)
    if isinstance(value, complex) and not isinstance(value, np.generic):
        if dtype.category < 3 and value.imag:
            raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")
        return value if dtype.category == 3 else value.real
    if not isinstance(value, bool | int | float | np.generic):
        raise TypeError(
            f"can't assign a {type(value).__name__} to a torch.{dtype.title}Tensor; make it a tensor first: "
            "adjoint.tensor(value)"
        )
    if dtype.category == 1 and not isinstance(value, np.generic | bool):
        info = np.iinfo(dtype.np)
        if not info.min <= value <= info.max:
            raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow")
    return value


def _value_for(x: Tensor, value: object) -> Any:
    """Return a value to write by index tensors as a tensor of the dtype of `x`."""
    if not isinstance(value, TensorBase):
        value = _number_for(x, value)
        if not isinstance(value, TensorBase):
            return wrap(literal(place_array(np.array(value, x.array.dtype), device_of(x.array))))
    if value.array.dtype != x.array.dtype:
        raise RuntimeError(
            f"Index put requires the source and destination dtypes match, got {of(x.array.dtype).name} for "
            f"the destination and {of(value.array.dtype).name} for the source. Convert the source with "
            ".to(dtype)."
        )
    return value


def _is_all(part: slice, size: int | None) -> bool:
    return part == _ALL or (size is not None and part.indices(size) == (0, size, 1))


def _write_view(input: Tensor, items: tuple[Any, ...], value: Any) -> None:
    """Write a value into the view at an index, with history."""
    if not isinstance(value, TensorBase):
        value = wrap(literal(place_array(np.array(value, input.array.dtype), device_of(input.array))))
    if isinstance(input.array, Payload) or (isinstance(value.array, Payload) and input.lineage is None):
        write(set_slice_p.op, input, (value,), (items,))
        return
    sizes = dict(enumerate(input.array.shape)) if None not in items and items[:1] != (Ellipsis,) else {}
    whole = all(i is Ellipsis or (type(i) is slice and _is_all(i, sizes.get(d))) for d, i in enumerate(items))
    part = input if whole else view_at(input, items)
    plain = not value.array.shape and not isinstance(value.array, Payload)
    if plain and device_of(value.array) == device_of(part.array):
        check_writable(part, False)
        write(registry["fill"], part, (value,), ())
        return
    copy_(part, _fitted(value, part.array.shape))


def _fitted(value: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Return a value that broadcasts to `shape`, without leading dimensions that it does not have."""
    given = tuple(value.array.shape)
    extra = len(given) - len(shape)
    if extra > 0 and all(n == 1 for n in given[:extra]):
        given = given[extra:]
        value = reshape_p(value, given)
    error = _expansion_error(given, shape)
    if error is not None:
        raise error
    return value


def _expansion_error(given: tuple[int, ...], shape: tuple[int, ...]) -> RuntimeError | None:
    if len(given) > len(shape):
        return RuntimeError(
            f"expand(torch.Tensor{{{list(given)}}}, size={list(shape)}): the number of sizes provided "
            f"({len(shape)}) must be greater or equal to the number of dimensions in the tensor "
            f"({len(given)})"
        )
    lead = len(shape) - len(given)
    for i, (n, m) in enumerate(zip(given, shape[lead:], strict=True)):
        if n not in (1, m):
            return RuntimeError(
                f"The expanded size of the tensor ({m}) must match the existing size ({n}) at non-singleton "
                f"dimension {lead + i}.  Target sizes: {list(shape)}.  Tensor sizes: {list(given)}"
            )
    return None


def _setitem_error(error: Exception, x: Tensor, items: tuple[Any, ...], raw: Any) -> Exception:
    if isinstance(error, IndexError):
        return explain_index(error, x.array, items) or error
    shape = x.array[items].shape
    given = tuple(getattr(raw, "shape", ()))
    extra = len(given) - len(shape)
    if extra > 0 and all(n == 1 for n in given[:extra]):
        given = given[extra:]
    return _expansion_error(given, shape) or error


def _put(x: Tensor, indexes: tuple[Any, ...], spec: tuple[int, ...], value: Tensor, accumulate: bool) -> Tensor:
    """Write values at index tensors, in place."""
    op = index_put_p.of_arity(len(indexes) + 2)  # type: ignore[attr-defined]
    written: Tensor = write(op, x, (_put_value(x, indexes, spec, value), *indexes), (spec, accumulate))
    return written


def _put_value(x: Tensor, indexes: tuple[Any, ...], spec: tuple[int, ...], value: Tensor) -> Tensor:
    """Return the values to write at the shape of the indexed part, where their gradient needs it."""
    shape = result_shape(tuple(x.array.shape), indexes, spec)
    given = tuple(value.array.shape)
    extra = len(given) - len(shape)
    if extra > 0 and all(n == 1 for n in given[:extra]):
        given = given[extra:]
        value = reshape_p(value, given)
    if _expansion_error(given, shape) is not None:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(given)} cannot be broadcast to indexing result of "
            f"shape {list(shape)}"
        )
    if given != shape and (value.node is not None or modes.unusual):
        value = expand_p(value, shape)
    return value


def _all_indexes(x: Tensor, indices: Sequence[Tensor | None]) -> tuple[Tensor, tuple[Any, ...], tuple[int, ...]]:
    """Return what a sequence of index tensors (None for all of a dimension) means."""
    if not isinstance(indices, list | tuple):
        found = "Tensor; write (index,)" if isinstance(indices, TensorBase) else type(indices).__name__
        raise TypeError(f"argument 'indices' must be tuple of Tensors, not {found}")
    basic, indexes, spec = parsed(x, tuple(_ALL if i is None else i for i in indices))
    if not indexes:
        # Numbers only: index by them as tensors, since a copy is wanted.
        arrays = tuple(wrap(literal(np.array(operator.index(i)))) for i in indices)
        return x, arrays, tuple(range(len(arrays)))
    return (x if basic is None else view_at(x, basic)), indexes, spec


@autocasting
def index_put(input: Tensor, indices: Sequence[Tensor], values: Tensor, accumulate: bool = False) -> Tensor:
    """Return `input` with `values` written, or added, at index tensors.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    indices : tuple of Tensor
        One index tensor per dimension, int64, or bool masks.
    values : Tensor
        Broadcast to the shape of the indices.
    accumulate : bool, default False
        Whether to add, also where an index repeats.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Examples
    --------
    >>> adjoint.index_put(adjoint.zeros(3), (adjoint.tensor([0, 0]),), adjoint.ones(2), accumulate=True)
    tensor([2., 0., 0.])
    """
    part, indexes, spec = _all_indexes(input, indices)
    if part is not input or not indexes:
        return index_put_(input.clone(), indices, values, accumulate)
    value = _put_value(input, indexes, spec, _value_for(input, values))
    return index_put_p((input, value, *indexes), spec, accumulate)


def index_put_(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """Write (or add) `values` at index tensors, in place."""
    part, indexes, spec = _all_indexes(input, indices)
    if indexes:
        _put(part, indexes, spec, _value_for(input, values), accumulate)
    else:
        part.copy_(part + values if accumulate else values)
    return input
