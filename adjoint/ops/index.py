"""Reading parts of tensors: the primitives of indexing.

Numbers, slices, None and `...` give views (`select_p`, `slice_p`). Tensors in an index give copies
(`index_p`), whose gradient is added up where an element was read (`unindex_p`). As in torch, and unlike
NumPy, a number in an index is applied first: it takes no part in where the indexed dimensions end up.
"""

from __future__ import annotations

import math
from typing import Any, TypeAlias

import numpy as np

from .._typing import Array, Shape, Value
from ..core.device import module_of, place_array
from ..core.device import of as device_of
from ..core.folding import shaping
from ..core.nodes import Node
from ..core.observation import literal
from ..core.payload import Payload
from ..core.recorders import Primitive, parametric, variadic
from ..core.saved import saved_parameter
from ..core.tensor import TensorBase
from .bounds import as_bounds_error, bounds_error, too_many
from .dimensions import permute_p
from .shape import reshape_p

__all__: list[str] = []
Index: TypeAlias = tuple[Any, ...]  # of ints, slices, None and one `...`
Spec: TypeAlias = tuple[int, ...]  # see "Copies by tensors of indices"
_ALL = slice(None)

# --- Views ------------------------------------------------------------------------------------------


def _getitem(x: Value, index: Any) -> Value:
    return x[index]


def _getitem_x(g: Value, x_shape: Shape, index: Any) -> Value:
    if math.prod(g.shape) == math.prod(x_shape):  # nothing was left out, and order never changes
        return g.reshape(x_shape)
    return place_p(g, x_shape, index)


def _getitem_batch(x: Value, index: Any) -> Value:
    return slice_p(x, (_ALL, *index))


_STEPS = {int: "SelectBackward0", slice: "SliceBackward0", type(None): "UnsqueezeBackward0"}


def _split_index(node: Node) -> None:
    """Show a step for each dimension that an index says something about, as torch takes them one after the other."""
    index = saved_parameter(node, "index")
    titles = [_STEPS.get(type(i), "") for i in index if i is not Ellipsis and i != _ALL] if type(index) is tuple else ()
    if len(titles) > 1 and all(titles):
        edge = node.edges[0]
        for i, title in enumerate(titles[:-1]):
            edge = shaping(node, title, edge, None, 0.75 - i / 32)
        node.edges = (edge,)


def _explain_number(error: Exception, x: Array, axis: int, index: Any) -> Exception | None:
    return explain_index(error, x, (*(_ALL,) * axis, index))


def explain_index(error: Exception, x: Array, index: Index) -> Exception | None:
    """Return torch's error for an index of numbers and slices that NumPy refused."""
    if not isinstance(error, IndexError):
        return None
    rank = x.ndim
    consumed = sum(i is not None and i is not Ellipsis for i in index)
    if consumed > rank:
        return too_many(rank, index, True)
    dim = 0
    for i in index:
        if i is Ellipsis:
            dim += rank - consumed
        elif isinstance(i, int) and not -x.shape[dim] <= i < x.shape[dim]:
            return bounds_error(i, dim, x.shape[dim])
        elif i is not None:
            dim += 1
    return None


# An index is a tuple of ints, slices, None and one `...` (with which a single element stays an array).
slice_p: Primitive = parametric(
    _getitem, x=_getitem_x, view="always", name="slice", jvp="linear", batch=_getitem_batch,
    saved={"x_shape": "self_sym_sizes"}, split=_split_index, explain=explain_index,
)  # fmt: skip
# The same, for an index whose last step is a number or None, so that nodes have torch's names.
select_last_p: Primitive = parametric(
    _getitem, x=_getitem_x, view="always", name="getitem", node_name="SelectBackward0", jvp="linear",
    batch=_getitem_batch, split=_split_index, explain=explain_index,
)  # fmt: skip
unsqueeze_last_p: Primitive = parametric(
    _getitem, x=_getitem_x, view="always", name="getitem_none", node_name="UnsqueezeBackward0", jvp="linear",
    batch=_getitem_batch, split=_split_index, explain=explain_index,
)  # fmt: skip


def _select(x: Value, axis: int, index: Any) -> Value:
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


def _place(x: Array, shape: Shape, index: Index) -> Array:
    out: Array = module_of(x).zeros(shape, x.dtype)
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


def numpy_index(indexes: tuple[Array, ...], spec: Spec) -> tuple[slice | Array, ...]:
    """Return index tensors, at the dimensions where they stand, as NumPy takes them."""
    return tuple(_ALL if k < 0 else indexes[k] for k in spec)


def beside(x: Any, i: object) -> Any:
    """Return an index on the device of `x`: lists and masks on the CPU may also index arrays on a GPU."""
    return i if type(i) is type(x) else place_array(i, device_of(x))


def _index(xs: tuple[Array, ...], spec: Spec) -> Array:
    x = xs[0]
    try:
        out: Array = x[numpy_index(tuple([beside(x, i) for i in xs[1:]]), spec)]
    except IndexError as error:
        raise as_bounds_error(error) from None
    return out if out.flags.c_contiguous else out.copy()


def _pick(x: Array, i: Array, axis: int) -> Array:
    try:
        return x[i] if i.dtype == bool else x.take(i, axis)
    except IndexError as error:
        raise as_bounds_error(error) from None


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


def _unindex(xs: tuple[Array, ...], shape: Shape, spec: Spec) -> Array:
    out: Array = module_of(xs[0]).zeros(shape, xs[0].dtype)
    add_at(out, tuple([beside(out, i) for i in xs[1:]]), spec, xs[0])
    return out


def add_at(x: Array, indexes: tuple[Array, ...], spec: Spec, y: Array) -> None:
    """Add `y` to the elements of `x` at an index, again for each time an element occurs."""
    try:
        module_of(x).add.at(x, numpy_index(indexes, spec), y)
    except IndexError as error:
        raise as_bounds_error(error) from None


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


def index_batch(xs: tuple[Any, ...], spec: tuple[int, ...]) -> Value:
    """Index a batch by index tensors that have its axis, too."""
    indexes, batched, first = batched_indexes(xs[1:], spec)
    out = index_p((xs[0], *indexes), batched)
    return move_indexed(out, first, indexes[0].ndim - 1)


def _unindex_batch(xs: tuple[Any, ...], shape: Shape, spec: tuple[int, ...]) -> Value:
    indexes, batched, first = batched_indexes(xs[1:], spec)
    x = move_indexed(xs[0], first, indexes[0].ndim - 1, back=True)
    return unindex_p((x, *indexes), (xs[0].shape[0], *shape), batched)


def batched_indexes(indexes: tuple[Any, ...], spec: tuple[int, ...]) -> tuple[tuple[Any, ...], tuple[int, ...], int]:
    """Return index tensors with one more for the batch axis, and where the indexed dimensions belong."""
    indexes, spec = _masks_as_places(indexes, spec)
    rank = max(i.ndim for i in indexes)
    size = indexes[0].shape[0]
    lead = literal(np.arange(size).reshape(size, *(1,) * (rank - 1)))
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


def move_indexed(x: Value, first: int, count: int, back: bool = False) -> Value:
    """Move `count` dimensions that follow the batch axis to where they are without a batch, or back."""
    if first <= 0 or count == 0:
        return x
    indexed = [*range(1, 1 + count)]
    others = [*range(1 + count, x.ndim)]
    axes = [0, *others[:first], *indexed, *others[first:]]
    return permute_p(x, tuple(np.argsort(axes).tolist()) if back else tuple(axes))


def indexed_at(spec: tuple[int, ...]) -> int:
    """Return the dimension of the result before which the indexed ones are placed: 0 if they are not adjacent."""
    places = [i for i, k in enumerate(spec) if k >= 0]
    return places[0] if places[-1] - places[0] == len(places) - 1 else 0
