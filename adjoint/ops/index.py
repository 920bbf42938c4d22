"""Indexing: reading and writing parts of tensors.

Numbers, slices, None and `...` give views (`select_p`, `slice_p`). Tensors in an index give copies
(`index_p`), whose gradient is added up where an element was read (`unindex_p`). As in torch, and unlike
NumPy, a number in an index is applied first: it takes no part in where the indexed dimensions end up.
"""

from __future__ import annotations

import math
import operator
import warnings
from typing import Any

import numpy as np

from .._typing import Tensor
from ..core import modes, primitive
from ..core.device import module_of, place_array
from ..core.device import of as device_of
from ..core.dtypes import of
from ..core.folding import shaping
from ..core.inplace import write
from ..core.nodes import registry, wrap
from ..core.observation import is_captured, literal, opaque
from ..core.payload import Payload
from ..core.recorders import Primitive, nary, parametric, variadic
from ..core.saved import saved_parameter
from ..core.tensor import TensorBase, note_write
from ..core.writable import check_writable, overlaps_itself
from ..devices.cpu import copying, provider
from ..devices.cpu.gathering import added_rows
from . import create
from .compare import zeros_p
from .convert import concrete, copy_, values_of
from .literals import depth_outside
from .precision import autocasting
from .shape import alias_p, expand_p, reshape_p, unsqueeze_p

__all__ = ["index_put", "index_put_"]
ndarray = np.ndarray
_ALL = slice(None)
_INT64, _BOOL = np.dtype(np.int64), np.dtype(bool)
_ZERO = np.int8(0)  # what a rule writes where nothing of the gradient is left
_MANY = 1 << 16  # elements from which on a copy may be shared by threads

# --- Views ------------------------------------------------------------------------------------------


def _getitem(x: Any, index: Any) -> Any:
    return x[index]


def _getitem_x(g: Any, x_shape: Any, index: Any) -> Any:
    if math.prod(g.shape) == math.prod(x_shape):  # nothing was left out, and order never changes
        return g.reshape(x_shape)
    return place_p(g, x_shape, index)


def _getitem_batch(x: Any, index: Any) -> Any:
    return slice_p(x, (_ALL, *index))


_STEPS = {int: "SelectBackward0", slice: "SliceBackward0", type(None): "UnsqueezeBackward0"}


def _split_index(node: Any) -> None:
    """Show a step for each dimension that an index says something about, as torch takes them one after the other."""
    index = saved_parameter(node, "index")
    titles = [_STEPS.get(type(i), "") for i in index if i is not Ellipsis and i != _ALL] if type(index) is tuple else ()
    if len(titles) > 1 and all(titles):
        edge = node.edges[0]
        for i, title in enumerate(titles[:-1]):
            edge = shaping(node, title, edge, None, 0.75 - i / 32)
        node.edges = (edge,)


def _explain_number(error: Exception, x: Any, axis: Any, index: Any) -> Exception | None:
    return _explain_index(error, x, (*(_ALL,) * axis, index))


def _outside(index: int, dim: int, size: int) -> Exception:
    if not -(2**63) <= index < 2**63:
        return ValueError(f"Overflow when unpacking long long: index {index} for dimension {dim} with size {size}")
    return IndexError(f"index {index} is out of bounds for dimension {dim} with size {size}")


def _explain_index(error: Exception, x: Any, index: Any) -> Exception | None:
    """Return torch's error for an index of numbers and slices that NumPy refused."""
    if not isinstance(error, IndexError):
        return None
    rank = x.ndim
    consumed = sum(i is not None and i is not Ellipsis for i in index)
    if consumed > rank:
        if rank == 0 and len(index) == 1:
            return IndexError(
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in "
                "C++ to convert a 0-dim tensor to a number"
            )
        return IndexError(f"too many indices for tensor of dimension {rank}")
    dim = 0
    for i in index:
        if i is Ellipsis:
            dim += rank - consumed
        elif isinstance(i, int) and not -x.shape[dim] <= i < x.shape[dim]:
            return _outside(i, dim, x.shape[dim])
        elif i is not None:
            dim += 1
    return None


# An index is a tuple of ints, slices, None and one `...` (with which a single element stays an array).
slice_p: Primitive = parametric(
    _getitem, x=_getitem_x, view="always", name="slice", jvp="linear", batch=_getitem_batch,
    saved={"x_shape": "self_sym_sizes"}, split=_split_index, explain=_explain_index,
)  # fmt: skip
# The same, for an index whose last step is a number or None, so that nodes have torch's names.
_ending_in_number_p: Primitive = parametric(
    _getitem, x=_getitem_x, view="always", name="getitem", node_name="SelectBackward0", jvp="linear",
    batch=_getitem_batch, split=_split_index, explain=_explain_index,
)  # fmt: skip
_ending_in_none_p: Primitive = parametric(
    _getitem, x=_getitem_x, view="always", name="getitem_none", node_name="UnsqueezeBackward0", jvp="linear",
    batch=_getitem_batch, split=_split_index, explain=_explain_index,
)  # fmt: skip


def _select(x: Any, axis: Any, index: Any) -> Any:
    return x[index, ...] if axis == 0 else x[(_ALL,) * axis + (index, ...)]


select_p: Primitive = parametric(
    _select,
    x=lambda g, x_shape, axis, index: place_p(g, x_shape, (_ALL,) * axis + (index, ...)),
    view="always",
    jvp="linear",
    batch=lambda x, axis, index: select_p(x, axis + 1, index),
    saved={"x_shape": "self_sym_sizes", "axis": "dim"},
    explain=_explain_number,
)


def _place(x: Any, shape: Any, index: Any) -> Any:
    if type(x) is not ndarray and (gpu := provider.gpu(x)) is not None:
        placed = gpu.copies.place(x, shape, index)
        if placed is not None:
            return placed
    if type(x) is ndarray and x.size > _MANY and (found := copying.placed(x, shape, index)) is not None:
        return found
    out = module_of(x).zeros(shape, x.dtype)
    out[index] = x
    return out


# Zeros of a shape with `x` at an index: what a view's gradient is.
place_p: Primitive = parametric(
    _place,
    x=lambda g, index: slice_p(g, index),
    jvp="linear",
    batch=lambda x, shape, index: place_p(x, (x.shape[0], *shape), (_ALL, *index)),
    node_name="SliceBackwardBackward0",
)


# --- Copies by tensors of indices -------------------------------------------------------------------
# `spec` says what stands at each dimension of the indexed tensor: -1 for all of it, or the number of an
# index tensor; a mask of k dimensions stands once, for the first of its k.


def _numpy_index(indexes: tuple[Any, ...], spec: tuple[int, ...]) -> tuple[Any, ...]:
    return tuple(_ALL if k < 0 else indexes[k] for k in spec)


def beside(x: Any, i: Any) -> Any:
    """Return an index where `x` is: lists and masks of the host also index what lies on a GPU."""
    return i if type(i) is type(x) else place_array(i, device_of(x))


def _index(xs: Any, spec: Any) -> Any:
    x = xs[0]
    indexes = tuple([beside(x, i) for i in xs[1:]])
    try:
        if len(indexes) == 1 and indexes[0].dtype != bool:
            return taken(x, indexes[0], spec.index(0))
        _check_on_gpu(x, indexes, spec, "indexing")
        out = x[_numpy_index(indexes, spec)]
    except IndexError as error:
        raise _bounds_error(error) from None
    if type(out) is ndarray and not out.flags.c_contiguous:
        out = out.copy()
    return out


def taken(x: Any, i: Any, axis: int, op: str = "indexing") -> Any:
    """Return the parts of an array along an axis that an index names; a GPU reports a wrong one by the name `op`."""
    if type(x) is not ndarray and (gpu := provider.gpu(x)) is not None:
        found = gpu.gathering.take_rows(x, i, axis, op=op)
        if found is not None:
            return found
        gpu.bounds.check(i, x.shape[axis], op)
    return x.take(i, axis=axis)


def _check_on_gpu(x: Any, indexes: tuple[Any, ...], spec: tuple[int, ...], op: str) -> None:
    """Look for indices that are out of bounds where CuPy, which takes them modulo the size, is to use them."""
    if type(x) is ndarray or (gpu := provider.gpu(x)) is None:
        return
    dim = 0
    for k in spec:
        if k >= 0 and indexes[k].dtype == bool:
            dim += indexes[k].ndim
            continue
        if k >= 0:
            gpu.bounds.check(indexes[k], x.shape[dim], op)
        dim += 1


def _bounds_error(error: IndexError) -> IndexError:
    """Return NumPy's complaint about an index in torch's words."""
    return IndexError(str(error).replace("for axis", "for dimension"))


def _pick(x: Any, i: Any, axis: Any) -> Any:
    try:
        return x[i] if i.dtype == bool else x.take(i, axis) if type(x) is ndarray else taken(x, i, axis)
    except IndexError as error:
        raise _bounds_error(error) from None


# Indexing by one tensor outside of any transform: the index is a fixed array, which makes it much cheaper.
pick_p: Primitive = parametric(
    _pick,
    x=lambda g, x_shape, i, axis: unindex_p((g, i), x_shape, (*(-1,) * axis, 0)),
    node_name="IndexBackward0",
    jvp="linear",
    batch=lambda x, i, axis: (
        index_p((x, *i.nonzero()), (-1, *range(i.ndim))) if i.dtype == bool else pick_p(x, i, axis + 1)
    ),
    saved={"i": "indices"},
)


def _unindex(xs: Any, shape: Any, spec: Any) -> Any:
    x = xs[0]
    out = module_of(x).zeros(shape, x.dtype)
    add_at(out, tuple([beside(out, i) for i in xs[1:]]), spec, x)
    return out


index_p: Primitive = variadic(
    _index,
    xs=lambda g, x0_shape, xs_from_1, spec: (
        unindex_p((g, *xs_from_1), x0_shape, spec),
        *(None,) * len(xs_from_1),
    ),
    jvp=lambda tangents, inputs, out, params: index_p((tangents[0], *inputs[1:]), *params),
    batch=lambda *args: index_batch(args[:-1], args[-1]),
)
# Zeros of a shape to which `x` is added at indices: what the gradient of indexing is.
unindex_p: Primitive = variadic(
    _unindex,
    xs=lambda g, xs_from_1, spec: (index_p((g, *xs_from_1), spec), *(None,) * len(xs_from_1)),
    jvp=lambda tangents, inputs, out, params: unindex_p((tangents[0], *inputs[1:]), *params),
    batch=lambda *args: _unindex_batch(args[:-2], *args[-2:]),
    node_name="IndexPutBackward0",
)


def index_batch(xs: tuple[Any, ...], spec: tuple[int, ...]) -> Any:
    """Index a batch by index tensors that have its axis, too."""
    indexes, batched, first = _batched_indexes(xs[1:], spec)
    out = index_p((xs[0], *indexes), batched)
    return _move_indexed(out, first, indexes[0].ndim - 1)


def _unindex_batch(xs: tuple[Any, ...], shape: Any, spec: tuple[int, ...]) -> Any:
    indexes, batched, first = _batched_indexes(xs[1:], spec)
    x = _move_indexed(xs[0], first, indexes[0].ndim - 1, back=True)
    return unindex_p((x, *indexes), (xs[0].shape[0], *shape), batched)


def _batched_indexes(indexes: tuple[Any, ...], spec: tuple[int, ...]) -> tuple[tuple[Any, ...], tuple[int, ...], int]:
    """Return index tensors with one more for the batch axis, and where the indexed dimensions belong."""
    indexes, spec = _masks_as_places(indexes, spec)
    rank = max(i.ndim for i in indexes)
    size = indexes[0].shape[0]
    lead = np.arange(size).reshape(size, *(1,) * (rank - 1))
    aligned = tuple(reshape_p(i, (size, *(1,) * (rank - i.ndim), *i.shape[1:])) for i in indexes)
    return (lead, *aligned), (0, *(k + 1 if k >= 0 else -1 for k in spec)), indexed_at(spec)


def _masks_as_places(indexes: tuple[Any, ...], spec: tuple[int, ...]) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """Return masks, each the same for the whole batch, as the places where they are true."""
    arrays = [i.array if isinstance(i, TensorBase) else i for i in indexes]
    if not any(a.dtype == bool for a in arrays):
        return indexes, spec
    found: list[Any] = []
    places: list[int] = []
    for k in spec:
        parts: list[Any] = [] if k < 0 else [indexes[k]]
        if parts and arrays[k].dtype == bool:
            mask = arrays[k]
            if isinstance(mask, Payload) or not (mask == mask[:1]).all():
                raise RuntimeError(
                    "vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over "
                    "indexing with a mask: its result has another shape for every element of the batch. Use "
                    "adjoint.where."
                )
            parts = [module_of(mask).broadcast_to(at, (len(mask), *at.shape)) for at in mask[0].nonzero()]
        places += [-1] if k < 0 else range(len(found), len(found) + len(parts))
        found += parts
    return tuple(found), tuple(places)


def _move_indexed(x: Any, first: int, count: int, back: bool = False) -> Any:
    """Move `count` dimensions that follow the batch axis to where they are without a batch, or back."""
    from .shape import permute_p

    if first <= 0 or count == 0:
        return x
    indexed = [*range(1, 1 + count)]
    others = [*range(1 + count, x.ndim)]
    axes = [0, *others[:first], *indexed, *others[first:]]
    return permute_p(x, tuple(np.argsort(axes).tolist()) if back else tuple(axes))


def indexed_at(spec: tuple[int, ...]) -> int:
    """Return before which dimension the indexed ones stand in the result: 0 if they lie apart."""
    places = [i for i, k in enumerate(spec) if k >= 0]
    return places[0] if places[-1] - places[0] == len(places) - 1 else 0


def add_at(out: Any, indexes: tuple[Any, ...], spec: tuple[int, ...], x: Any) -> None:
    """Add `x` to the elements of `out` at an index, again for each time an element occurs."""
    xp = module_of(out)
    if len(indexes) == 1 and indexes[0].dtype == bool:
        out[_numpy_index(indexes, spec)] += x
        return
    gpu = provider.gpu(out) if len(indexes) == 1 else None
    if gpu is not None and x.ndim and x.size == _picked_size(out, indexes[0], spec):
        if gpu.gathering.add_at(out, indexes[0], x, spec.index(0), False, op="index_put"):
            return
    if xp is not np:
        _check_on_gpu(out, indexes, spec, "index_put")
    if xp is not np or any(i.dtype == bool for i in indexes):
        xp.add.at(out, _numpy_index(indexes, spec), x)
        return
    # Bring the indexed dimensions to the front, where one number per element says which row it is in.
    places = [i for i, k in enumerate(spec) if k >= 0]
    others = [i for i in range(out.ndim) if i not in places]
    sizes = [out.shape[i] for i in places]
    row: Any = 0
    for size, place in zip(sizes, places, strict=True):
        row = row * size + _wrapped(indexes[spec[place]], size, place)
    rank = row.ndim
    first = indexed_at(spec)
    x = np.broadcast_to(
        x, (*(out.shape[i] for i in others[:first]), *row.shape, *(out.shape[i] for i in others[first:]))
    )
    values = x.transpose(*range(first, first + rank), *range(first), *range(first + rank, x.ndim))
    width = math.prod(out.shape[i] for i in others)
    values = values.reshape(row.size, width)
    front = out.transpose(*places, *others)
    rows = front.reshape(math.prod(sizes), width)
    add_rows(rows, row.reshape(-1), values)
    if not np.may_share_memory(rows, out):
        front[...] = rows.reshape(front.shape)


def _picked_size(x: Any, index: Any, spec: tuple[int, ...]) -> int:
    """Return how many elements one index tensor picks."""
    size = x.shape[spec.index(0)]
    return int(x.size // size * index.size) if size else 0


def _wrapped(index: Any, size: int, dim: int) -> Any:
    if index.size:
        low, high = index.min(), index.max()
        if low < -size or high >= size:
            raise IndexError(
                f"index {low if low < -size else high} is out of bounds for dimension {dim} with size {size}"
            )
        if low < 0:
            return np.where(index < 0, index + size, index)
    return index


def add_rows(rows: Any, numbers: Any, values: Any) -> None:
    """Add each row of `values` to the row of `rows` that `numbers` names; names may repeat."""
    count, width = values.shape
    if not count or not width:
        return
    if width == 1 and rows.flags.c_contiguous:
        np.add.at(rows.reshape(-1), numbers, values.reshape(-1))
        return
    if added_rows(rows, numbers, values):
        return
    if width >= 128 or count <= 8:  # a row is worth a call of its own
        for number, value in zip(numbers.tolist(), values):
            rows[number] += value
        return
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    if len(starts) == count:
        rows[numbers] += values
    else:
        rows[ordered[starts]] += np.add.reduceat(values[order], starts, axis=0)


# --- Reading an index as users write it -------------------------------------------------------------


def getitem(input: Tensor, index: Any) -> Tensor:
    """Return the part of `input` at an index, as ``input[index]`` does."""
    kind = type(index)
    if kind is int:
        return select_p(input, 0, index)
    if kind is slice and index.step is None:
        return slice_p(input, (as_slice(index), ...))
    if kind is tuple:
        items = _basic(index)
        if items is not None:
            return _view(input, items)
    elif index is None:
        return unsqueeze_p(input, 0)
    elif index is Ellipsis:
        return alias_p(input)
    elif not modes.unusual and isinstance(index, TensorBase) and _is_plain(input, index):
        i = index.array
        if i.ndim == 0:
            return select_p(input, 0, int(i))
        # A later write to the index must not change what the gradient goes through.
        return pick_p(input, i if input.node is None else i.copy(), 0)
    basic, indexes, spec = _parsed(input, index)
    if basic is not None:
        input = _view(input, basic)
    return index_p((input, *indexes), spec) if indexes else input


def _is_plain(x: Tensor, index: Any) -> bool:
    """Return whether an index is an array of int64, or a mask of a shape that fits."""
    i = index.array
    if type(i) is not ndarray or not x.array.ndim:
        return False
    return i.dtype is _INT64 or (i.dtype is _BOOL and i.ndim > 0 and i.shape == x.array.shape[: i.ndim])


def _basic(index: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Return the index with a `...`, if it is made of numbers, slices, None and `...` only."""
    dots = False
    for item in index:
        kind = type(item)
        if kind is slice:
            if item.step is not None or type(item.start) not in _PLAIN or type(item.stop) not in _PLAIN:
                return None
        elif item is Ellipsis:
            if dots:
                return None
            dots = True
        elif kind is not int and item is not None:
            return None
    return index if dots else (*index, ...)


_PLAIN = (int, type(None))


def _view(input: Tensor, items: tuple[Any, ...]) -> Tensor:
    """Return the view at an index of numbers, slices, None and one `...`."""
    for item in reversed(items):
        if item is not Ellipsis and item != _ALL:
            if item is None:
                return _ending_in_none_p(input, items)
            return slice_p(input, items) if type(item) is slice else _ending_in_number_p(input, items)
    return alias_p(input) if len(items) < 2 else slice_p(input, items)


def as_slice(item: slice) -> slice:
    """Return a slice of plain ints, with torch's refusal of steps that go backwards."""
    start, stop, step = item.start, item.stop, item.step
    if type(start) in _PLAIN and type(stop) in _PLAIN and step is None:
        return item
    start, stop, step = (None if v is None else _number(v) for v in (start, stop, step))
    if step is not None and step <= 0:
        if step == 0:
            raise ValueError("slice step cannot be zero")
        raise ValueError("step must be greater than zero: a view cannot go backwards; use flip() to reverse")
    return slice(start, stop, step)


def _number(value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError("slice indices must be integers or None or have an __index__ method") from None


def _parsed(x: Tensor, index: Any) -> tuple[tuple[Any, ...] | None, tuple[Any, ...], tuple[int, ...]]:
    """Return an index as a view to take first (None for none), then index tensors and their places."""
    items = [_item(i) for i in _as_tuple(index)]
    rank = x.array.ndim
    consumed = sum(_consumes(i) for i in items)
    if consumed > rank:
        if rank == 0 and len(items) == 1 and not isinstance(items[0], TensorBase):
            raise IndexError(
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` in "
                "C++ to convert a 0-dim tensor to a number"
            )
        raise IndexError(f"too many indices for tensor of dimension {rank}")
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
                raise _outside(item, dim, size)
            basic.append(item)
            dim += 1
            trivial = False
        else:
            taken = _consumes(item)
            if taken == 0:
                # A number-like truth value: a new dimension of which one element is taken, or none.
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


def _true_places(mask: Any) -> tuple[Any, ...]:
    return tuple(values_of(mask, "indexing with a mask").nonzero())


def _as_tuple(index: Any) -> tuple[Any, ...]:
    if isinstance(index, tuple):
        return index
    if isinstance(index, list) and len(index) < 32:
        if any(i is None or i is Ellipsis or isinstance(i, slice | list | tuple | TensorBase | ndarray) for i in index):
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
    if isinstance(item, ndarray | list | tuple | range):
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
        from .shape import cast_p

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


def _result_shape(shape: tuple[int, ...], indexes: tuple[Any, ...], spec: tuple[int, ...]) -> tuple[int, ...]:
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


# --- Writing ----------------------------------------------------------------------------------------


def _set_slice(x: Any, y: Any, index: Any) -> Any:
    out = x.copy()
    out[index] = y
    return out


def _assign_slice(x: Any, y: Any, index: Any) -> None:
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


def _rank_of(x: Any, index: Any) -> int:
    """Return the rank of one element's part at `index`, for a batched `x`."""
    consumed = sum(i is not None and i is not Ellipsis for i in index)
    return int(x.ndim) - 1 - consumed + sum(not isinstance(i, int) and i is not Ellipsis for i in index)


def _unit_axes(y: Any, rank: int) -> Any:
    missing = rank - (y.ndim - 1)
    return y if missing <= 0 else reshape_p(y, (y.shape[0], *(1,) * missing, *y.shape[1:]))


def _set_slice_jvp(tangents: Any, inputs: Any, index: Any) -> Any:
    tx, ty = tangents
    x = inputs[0]
    return set_slice_p(zeros_p(x) if tx is None else tx, _ZERO if ty is None else ty, index)


def _index_put(xs: Any, spec: Any, accumulate: Any) -> Any:
    out = xs[0].copy()
    _assign(out, *xs[1:], spec, accumulate)
    return out


def _assign(x: Any, y: Any, *rest: Any) -> None:
    spec, accumulate = rest[-2:]
    indexes = [beside(x, i) for i in rest[:-2]]
    if accumulate:
        add_at(x, tuple(indexes), spec, y)
        return
    if len(indexes) == 1 and indexes[0].dtype != bool and (gpu := provider.gpu(x)) is not None:
        given = None if y is _ZERO else y
        whole = given is None or (given.dtype == x.dtype and given.size == _picked_size(x, indexes[0], spec))
        if whole and gpu.gathering.put_at(x, indexes[0], given, spec.index(0)):
            return
    _check_on_gpu(x, tuple(indexes), spec, "index_put")
    try:
        x[_numpy_index(tuple(indexes), spec)] = y
    except IndexError as error:
        raise _bounds_error(error) from None


def _index_put_xs(g: Any, xs_from_2: Any, spec: Any, accumulate: Any, needs: Any = None) -> Any:
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


def _index_put_jvp(tangents: Any, inputs: Any, spec: Any, accumulate: Any) -> Any:
    tx, ty = tangents[:2]
    tx = zeros_p(inputs[0]) if tx is None else tx
    return index_put_p((tx, _ZERO if ty is None else ty, *inputs[2:]), spec, accumulate)


def _index_put_batch(xs: tuple[Any, ...], spec: tuple[int, ...], accumulate: Any) -> Any:
    indexes, batched, first = _batched_indexes(xs[2:], spec)
    y = xs[1]
    if y.ndim > 1:
        y = _move_indexed(y, first, indexes[0].ndim - 1, back=True)
    else:
        y = _unit_axes(y, indexes[0].ndim + xs[0].ndim - 1 - sum(k >= 0 for k in batched))
    return index_put_p((xs[0], y, *indexes), batched, accumulate)


def setitem(input: Tensor, index: Any, value: Any) -> None:
    """Write into the part of `input` at an index, as ``input[index] = value`` does."""
    if index is False:
        return
    items = _basic(index if type(index) is tuple else (index,))
    if items is None:
        if not modes.unusual and isinstance(index, TensorBase) and _put_plainly(input, index, value):
            return
        if modes.unusual and (_is_hidden_mask(index) or _is_observed_mask(input, index, value)):
            input.masked_fill_(index, value)
            return
        basic, indexes, spec = _parsed(input, index)
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


def _put_plainly(input: Tensor, index: Any, value: Any) -> bool:
    """Write at one index tensor where nothing is recorded; return whether that was possible."""
    array, i = input.array, index.array
    if not _is_plain(input, index) or not i.ndim:
        return False
    if isinstance(value, TensorBase):
        if value.node is not None or value.array.dtype != array.dtype or type(value.array) is not ndarray:
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
        array[i] = value
    except (ValueError, IndexError, TypeError):  # refused before anything was written: said better elsewhere
        return False
    note_write(input, "index_put_")
    return True


def _is_hidden_mask(index: Any) -> bool:
    """Return whether an index is a mask whose elements are not known, as inside vmap."""
    hidden = isinstance(index, TensorBase) and isinstance(index.array, Payload)
    return hidden and index.array.dtype == bool and not hasattr(index.array, "tangent")


def _is_observed_mask(input: Tensor, index: Any, value: Any) -> bool:
    """Return whether a number is written through a mask while somebody watches: then without counting its elements."""
    if modes.local.observer is None or isinstance(value, TensorBase) or not isinstance(index, TensorBase):
        return False
    return bool(index.array.dtype == bool and index.array.shape == input.array.shape)


def _set_indexed(input: Tensor, basic: Any, indexes: tuple[Any, ...], spec: tuple[int, ...], value: Tensor) -> None:
    if basic is None:
        _put(input, indexes, spec, value, False)
    elif isinstance(input.array, Payload):
        part = _view(input, basic)
        value = _put_value(part, indexes, spec, value)
        write(set_slice_p.op, input, (index_put_p((part, value, *indexes), spec, False),), (basic,))
    else:
        _put(_view(input, basic), indexes, spec, value, False)


def _number_for(x: Tensor, value: Any) -> Any:
    """Return a value that is no tensor as what an array takes, or raise torch's errors."""
    if isinstance(value, ndarray):
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


def _value_for(x: Tensor, value: Any) -> Any:
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
    part = input if whole else _view(input, items)
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
        return _explain_index(error, x.array, items) or error
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
    shape = _result_shape(tuple(x.array.shape), indexes, spec)
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


def _all_indexes(x: Tensor, indices: Any) -> tuple[Tensor, tuple[Any, ...], tuple[int, ...]]:
    """Return what a sequence of index tensors (None for all of a dimension) means."""
    if not isinstance(indices, list | tuple):
        found = "Tensor; write (index,)" if isinstance(indices, TensorBase) else type(indices).__name__
        raise TypeError(f"argument 'indices' must be tuple of Tensors, not {found}")
    basic, indexes, spec = _parsed(x, tuple(_ALL if i is None else i for i in indices))
    if not indexes:
        # Numbers only: index by them as tensors, since a copy is wanted.
        arrays = tuple(wrap(literal(np.array(operator.index(i)))) for i in indices)
        return x, arrays, tuple(range(len(arrays)))
    return (x if basic is None else _view(x, basic)), indexes, spec


@autocasting
def index_put(input: Tensor, indices: Any, values: Tensor, accumulate: bool = False) -> Tensor:
    """Return `input` with `values` written (or added) at index tensors.

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
