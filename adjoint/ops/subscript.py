"""Index expressions as users write them: ``x[index]``, and what an index means."""

from __future__ import annotations

import operator
import warnings
from typing import Any

import numpy as np

from .._typing import Tensor, Value
from ..core import modes
from ..core.nodes import wrap
from ..core.observation import is_captured, literal, opaque
from ..core.payload import Payload
from ..core.tensor import TensorBase
from . import create
from .bounds import PLAIN, as_slice, bounds_error, too_many
from .convert import concrete, values_of
from .dimensions import unsqueeze_p
from .index import index_p, indexed_at, pick_p, select_last_p, select_p, slice_p, unsqueeze_last_p
from .literals import depth_outside
from .shape import alias_p, cast_p, reshape_p

__all__: list[str] = []
_ALL = slice(None)
_INT64, _BOOL = np.dtype(np.int64), np.dtype(bool)


def getitem(input: Tensor, index: Any) -> Tensor:
    """Return the part of `input` at an index, as ``input[index]`` does."""
    kind = type(index)
    if kind is int:
        return select_p(input, 0, index)
    if kind is slice and index.step is None:
        return slice_p(input, (as_slice(index), ...))
    if kind is tuple:
        items = as_basic(index)
        if items is not None:
            return view_at(input, items)
    elif index is None:
        return unsqueeze_p(input, 0)
    elif index is Ellipsis:
        return alias_p(input)
    elif not modes.unusual and isinstance(index, TensorBase) and is_plain(input, index):
        i = index.array
        if i.ndim == 0:
            return select_p(input, 0, int(i))
        # A later write to the index must not change what the gradient goes through.
        return pick_p(input, i if input.node is None else i.copy(), 0)
    basic, indexes, spec = parsed(input, index)
    if basic is not None:
        input = view_at(input, basic)
    return index_p((input, *indexes), spec) if indexes else input


def is_plain(x: Tensor, index: Any) -> bool:
    """Return whether an index is an array of int64, or a mask of a shape that fits."""
    i = index.array
    if isinstance(i, Payload) or not x.array.ndim or type(i) is not type(x.array):
        return False
    return i.dtype is _INT64 or (i.dtype is _BOOL and i.ndim > 0 and i.shape == x.array.shape[: i.ndim])


def as_basic(index: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return the index with a `...`, if it is made of numbers, slices, None and `...` only."""
    dots = False
    for item in index:
        kind = type(item)
        if kind is slice:
            if item.step is not None or type(item.start) not in PLAIN or type(item.stop) not in PLAIN:
                return None
        elif item is Ellipsis:
            if dots:
                return None
            dots = True
        elif kind is not int and item is not None:
            return None
    return index if dots else (*index, ...)


def view_at(input: Tensor, items: tuple[Any, ...]) -> Tensor:
    """Return the view at an index of numbers, slices, None and one `...`."""
    for item in reversed(items):
        if item is not Ellipsis and item != _ALL:
            if item is None:
                return unsqueeze_last_p(input, items)
            return slice_p(input, items) if type(item) is slice else select_last_p(input, items)
    return alias_p(input) if len(items) < 2 else slice_p(input, items)


def parsed(x: Tensor, index: Any) -> tuple[tuple[Any, ...] | None, tuple[Any, ...], tuple[int, ...]]:
    """Return an index as a view to take first (None for none), then index tensors and their places."""
    items = [_item(i) for i in _as_tuple(index)]
    rank = x.array.ndim
    consumed = sum(_consumes(i) for i in items)
    if consumed > rank:
        raise too_many(rank, tuple(items), not isinstance(items[0], TensorBase))
    basic: list[Any] = []
    indexes: list[Any] = []
    spec: list[int] = []
    trivial, dim, dots = True, 0, False
    for item in items:
        if item is Ellipsis:
            spread = 0 if dots else rank - consumed
            dots = True
            basic += [_ALL] * spread
            spec += [-1] * spread
            dim += spread
        elif item is None:
            basic.append(None)
            spec.append(-1)
            trivial = False
        elif isinstance(item, slice):
            basic.append(item)
            spec.append(-1)
            dim += 1
            trivial = trivial and item == _ALL
        elif isinstance(item, int):
            size = x.array.shape[dim]
            if not -size <= item < size:
                raise bounds_error(item, dim, size)
            basic.append(item)
            dim += 1
            trivial = False
        else:
            taken = _consumes(item)
            if taken == 0:
                # A boolean as an index: a new dimension of which one element is taken, or none.
                basic.append(None)
                trivial = False
                item = reshape_p(item, (1,))
            elif item.array.dtype == bool:
                _check_mask(x, item, dim)
            basic += [_ALL] * taken
            dim += taken
            spec.append(len(indexes))
            indexes.append(item)
    if modes.unusual and (is_captured() or any(isinstance(t.array, Payload) for t in (x, *indexes))):
        indexes, spec = _without_masks(indexes, spec)  # in a program their count is a guard
    _check_together(indexes)
    return (None if trivial and indexes else (*basic, ...)), tuple(indexes), tuple(spec)


def _without_masks(indexes: list[Any], spec: list[int]) -> tuple[list[Any], list[int]]:
    """Return index tensors with every mask replaced by the numbers of its true elements, for a batch."""
    numbers: list[Any] = []
    places: list[int] = []
    for k in spec:
        if k < 0:
            places.append(-1)
            continue
        index = indexes[k]
        if index.array.dtype == bool:
            parts: Any = [wrap(part) for part in opaque("nonzero", _true_places, index)]
        else:
            parts = [index]
        places += range(len(numbers), len(numbers) + len(parts))
        numbers += parts
    return numbers, places


def _true_places(mask: Value) -> tuple[Any, ...]:
    return tuple(values_of(mask, "indexing with a mask").nonzero())


def _as_tuple(index: Any) -> tuple[Any, ...]:
    if isinstance(index, tuple):
        return index
    if isinstance(index, list) and len(index) < 32:
        if any(
            i is None or i is Ellipsis or isinstance(i, slice | list | tuple | TensorBase | np.ndarray) for i in index
        ):
            warnings.warn(
                "Using a non-tuple sequence for multidimensional indexing is deprecated; use x[tuple(seq)] "
                "instead of x[seq]",
                stacklevel=depth_outside(),
            )
            return tuple(index)
    return (index,)


def _item(item: Any) -> Any:
    """Return one item of an index as int, plain slice, None, `...` or an index tensor."""
    if item is None or item is Ellipsis:
        return item
    if isinstance(item, slice):
        return as_slice(item)
    if isinstance(item, bool | np.bool_):
        return wrap(literal(np.array(bool(item))))
    if isinstance(item, int | np.integer):
        return int(item)
    if isinstance(item, TensorBase):
        if hasattr(item.array, "tangent") and not isinstance(item.array.memory(), Payload):  # a dual one has none
            item = wrap(item.array.concrete("index"))
        return _index_tensor(item)
    if isinstance(item, np.ndarray | list | tuple | range):
        found = create.tensor(list(item) if isinstance(item, range) else item)
        if not found.array.size and isinstance(item, list | tuple):
            found = wrap(found.array.astype(np.int64))
        return _index_tensor(found)
    if hasattr(item, "__index__"):
        return operator.index(item)
    if isinstance(item, str):
        raise TypeError("new(): invalid data type 'str'")
    raise IndexError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid indices "
        f"(got {type(item).__name__})"
    )


def _index_tensor(item: Any) -> Any:
    array = item.array
    name = array.dtype.name
    if name == "uint8":
        warnings.warn(
            "indexing with dtype uint8 is now deprecated, please use a dtype bool instead.",
            stacklevel=depth_outside(),
        )
        return cast_p(item, np.dtype(bool))
    if name not in ("int64", "int32", "bool"):
        raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
    if array.ndim == 0 and name != "bool" and not isinstance(array, Payload):
        return int(concrete(item, "indexing"))
    return item


def _consumes(item: Any) -> int:
    """Return how many dimensions an item of an index stands for."""
    if item is None or item is Ellipsis:
        return 0
    if isinstance(item, int | slice):
        return 1
    array = item.array
    return array.ndim if array.dtype == bool else 1


def _check_mask(x: Tensor, mask: Tensor, dim: int) -> None:
    wanted, given = x.array.shape[dim : dim + mask.array.ndim], mask.array.shape
    for i, (a, b) in enumerate(zip(given, wanted, strict=True)):
        if a != b:
            raise IndexError(
                f"The shape of the mask {list(given)} at index {i} does not match the shape of the indexed "
                f"tensor {list(x.array.shape)} at index {dim + i}"
            )


def _check_together(indexes: list[Any]) -> None:
    if len(indexes) < 2:
        return
    shapes = [_picked_shape(i) for i in indexes]
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        raise IndexError(
            "shape mismatch: indexing tensors could not be broadcast together with shapes "
            + ", ".join(str(list(s)) for s in shapes)
        ) from None


def _picked_shape(index: Any) -> tuple[int, ...]:
    array = index.array
    return (int(np.count_nonzero(array)),) if array.dtype == bool else tuple(array.shape)


def result_shape(shape: tuple[int, ...], indexes: tuple[Any, ...], spec: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of ``x[index]`` for an `x` of `shape`."""
    picked = np.broadcast_shapes(*(_picked_shape(i) for i in indexes))
    others: list[int] = []
    dim = 0
    for k in spec:
        if k < 0:
            others.append(shape[dim])
        dim += 1 if k < 0 else _consumes(indexes[k])
    others += shape[dim:]
    first = indexed_at(spec)
    return (*others[:first], *picked, *others[first:])
