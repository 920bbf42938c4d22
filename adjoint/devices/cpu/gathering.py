"""Elements and rows by index: few NumPy calls for small arrays, compiled loops for large ones where Numba is installed.

An index that is out of bounds is left to the definitions, which raise what is to be said about it.
"""

from __future__ import annotations

import functools
import math
from types import ModuleType
from typing import Any

import numpy as np

from ..._typing import Array, Kernel, Shape
from . import provider, sizes
from .copying import copied, uniform
from .rows import run_cuts
from .table import override

ndarray = np.ndarray
_ALL = slice(None)
_int64, f32 = np.dtype("int64"), np.dtype("float32")
_UNSIGNED = {n: np.dtype(f"u{n}") for n in (1, 2, 4, 8)}


def within(i: Array, size: int) -> bool:
    """Return whether all indices are in ``range(size)``: as unsigned numbers, negative ones are huge."""
    if not i.size:
        return True
    if i.size <= sizes.INDEX:  # to search a small array is faster than to compare it
        return bool(i.item(i.argmax()) < size and i.item(i.argmin()) >= 0)
    return not np.count_nonzero(i.view(_UNSIGNED[i.itemsize]) >= size)


def _offsets(shape: Shape, of_index: Shape, axis: int) -> Array:
    """Return what the axes other than `axis` add to the position in a flattened array."""
    total: Array = np.zeros((), np.int64)
    step = 1
    for d in range(len(shape) - 1, -1, -1):
        n = of_index[d]
        if d != axis and n > 1:
            total = total + np.arange(0, n * step, step).reshape((n,) + (1,) * (len(shape) - d - 1))
        step *= shape[d]
    return total


@functools.lru_cache(256)
def _cached_offsets(shape: Shape, of_index: Shape, axis: int) -> Array:
    # As large as the index: NumPy adds two arrays of one shape in a third of the time.
    return np.ascontiguousarray(np.broadcast_to(_offsets(shape, of_index, axis), of_index))


def _flat(shape: Shape, i: Array, axis: int) -> Array:
    """Return where in the flattened array of `shape` each element of an index (of its rank) points along `axis`."""
    if len(shape) < 2 or not i.size:
        return i
    if i.dtype is not _int64:
        i = i.astype(_int64)
    step = math.prod(shape[axis + 1 :])
    offsets = (_cached_offsets if i.size <= sizes.INDEX else _offsets)(shape, i.shape, axis)
    return (i if step == 1 else i * step) + offsets


def _compiled(x: Array, size: int) -> ModuleType | None:
    """Return the module of compiled loops where it pays for `size` elements."""
    if provider.loops("gather", x, size) is None:
        return None
    from . import moves

    return moves


def _moves(x: Array, index: Array, axis: int) -> ModuleType | None:
    """Return compiled loops where they fit: along the last axis, with an index row for each row."""
    if axis != x.ndim - 1 or index.shape[:-1] != x.shape[:-1] or index.dtype is not _int64:
        return None
    if not x.flags.c_contiguous or not index.flags.c_contiguous or not x.size:
        return None
    return _compiled(x, index.size)


# --- An index of the rank of what it indexes ----------------------------------------------------------


def gathered(x: Array, index: Array, axis: int) -> Array | None:
    """Return the elements that an index names along an axis; None where NumPy must, or where one is out of bounds."""
    moves = _moves(x, index, axis)
    if moves is None:
        return None
    out, wrong = np.empty(index.shape, x.dtype), np.zeros(1, np.int64)
    rows, count = x.size // x.shape[-1], index.shape[-1]
    given = (x.reshape(-1), x.shape[-1], index.reshape(-1), count, out.reshape(-1), wrong)
    run_cuts(moves.gather, "wslswl", rows, index.size, *given)
    return None if wrong[0] else out


def _gather(definition: Kernel, checked: bool = True) -> Kernel:
    def gather(x: Array, i: Array, axis: int) -> Array:
        if type(x) is ndarray and (x.ndim <= 1 or x.flags.c_contiguous):
            if i.size > sizes.GATHER and (found := gathered(x, i, axis)) is not None:
                return found
            if not checked or within(i, x.shape[axis] if x.ndim else 1):
                return x.reshape(-1).take(_flat(x.shape, i, axis))
        return definition(x, i, axis)

    return gather


override.around("gather")(_gather)
for _name in ("sort", "topk", "kthvalue"):  # whose indices were found by sorting, and cannot be wrong
    override.around(_name)(functools.partial(_gather, checked=False))


@override.around("ungather")
def _ungather(definition: Kernel) -> Kernel:
    def ungather(x: Array, i: Array, shape: Shape, axis: int) -> Array:
        if type(x) is not ndarray or not shape or x.size != i.size or i.ndim != len(shape):
            return definition(x, i, shape, axis)
        out = np.zeros(shape, x.dtype)
        if i.shape[axis] == 1 and i.shape[:axis] == shape[:axis] and i.shape[axis + 1 :] == shape[axis + 1 :]:
            # One position each: nothing meets, so nothing has to be added.
            out.reshape(-1)[_flat(shape, i, axis)] = x.reshape(i.shape)
        elif not _added(out, i, x, axis):
            np.add.at(out.reshape(-1), _flat(shape, i, axis).reshape(-1), x.reshape(-1))
        return out

    return ungather


def _added(x: Array, index: Array, y: Array, axis: int) -> bool:
    """Add `y` to the elements of `x` that an index names along an axis, in compiled loops.

    Return whether that was done; it was not, or not all of it, where an index is out of bounds.
    """
    if index.size <= sizes.GATHER or y.dtype is not x.dtype or (moves := _moves(x, index, axis)) is None:
        return False
    rows, count = x.size // x.shape[-1], index.shape[-1]
    values = _rows(y if y.shape == index.shape else np.broadcast_to(y, index.shape), count)
    wrong = np.zeros(1, np.int64)
    given = (x.reshape(-1), x.shape[-1], index.reshape(-1), count, *values, wrong)
    run_cuts(moves.scatter_add, "wslswsl", rows, index.size, *given)
    return not wrong[0]


def _scatter(x: Array, y: Array, i: Array, axis: int) -> bool:
    """Write values, or one for all, where an index names positions along an axis; return whether that was done."""
    if not x.flags.c_contiguous or i.ndim != x.ndim or not within(i, x.shape[axis] if x.ndim else 1):
        return False
    values = y if y.ndim == 0 or y.shape == i.shape else np.broadcast_to(y, i.shape)
    x.reshape(-1)[_flat(x.shape, i, axis).reshape(-1)] = values.reshape(-1) if y.ndim else y
    return True


def _scatter_add(x: Array, y: Array, i: Array, axis: int) -> bool:
    """Add values where an index names positions along an axis; return whether that was done."""
    if not x.flags.c_contiguous or i.ndim != x.ndim:
        return False
    if _added(x, i, y, axis):
        return True
    if not within(i, x.shape[axis] if x.ndim else 1):
        return False
    values = y if y.shape == i.shape else np.broadcast_to(y, i.shape)
    np.add.at(np.asarray(x.reshape(-1)), _flat(x.shape, i, axis).reshape(-1), values.reshape(-1))
    return True


def _index_add(x: Array, y: Array, i: Array, axis: int) -> bool:
    """Add slices along an axis where a vector names them; return whether that was done."""
    if not x.ndim or not within(i, x.shape[axis]):
        return False
    index_add(x, y, i, axis)
    return True


def _attach(name: str, write: Kernel) -> None:
    """Attach a kernel that writes into its first argument to an op's in-place form and, on a copy, to its value."""

    def value(definition: Kernel) -> Kernel:
        def kernel(x: Array, y: Array, i: Array, axis: int) -> Array:
            if type(x) is ndarray and write(out := x.copy(), y, i, axis):
                return out
            return definition(x, y, i, axis)

        return kernel

    def in_place(definition: Kernel) -> Kernel:
        def kernel(x: Array, y: Array, i: Array, axis: int) -> None:
            if type(x) is not ndarray or not write(x, y, i, axis):
                definition(x, y, i, axis)

        return kernel

    override.around(name)(value)
    override.around(f"{name}_")(in_place)


_attach("scatter", _scatter)
_attach("scatter_add", _scatter_add)
_attach("index_add", _index_add)


@override("scatter_add", gradient="y", when=lambda g, i, axis: g.size and uniform(g))
def scatter_add_backward(g: Array, i: Array, axis: int) -> Array:
    """Return what is gathered from one number, repeated."""
    return copied(np.broadcast_to(g[(0,) * g.ndim], i.shape))


def _rows(y: Array, width: int) -> tuple[Array, int]:
    """Return rows as a vector, and their distance in elements: 0 where a row is one repeated number, stored once."""
    if uniform(y):
        return np.full(width, y[(0,) * y.ndim], y.dtype), 0
    return np.ascontiguousarray(y).reshape(-1), width


# --- An index that names rows -------------------------------------------------------------------------


def taken_rows(x: Array, numbers: Array) -> Array | None:
    """Return the rows (along the first axis) that numbers within bounds name; None where NumPy must do."""
    width = x.size // max(len(x), 1)
    if numbers.dtype is not _int64 or width < 16 or not x.flags.c_contiguous or not numbers.flags.c_contiguous:
        return None
    moves = _compiled(x, numbers.size * width) if x.dtype is f32 else None
    if moves is None:
        return None
    out = np.empty((*numbers.shape, *x.shape[1:]), x.dtype)
    given = (x.reshape(-1), width, numbers.reshape(-1), out.reshape(-1))
    run_cuts(moves.take_rows, "wslw", numbers.size, out.size, *given, least=sizes.THREAD_INDEXED_ROWS)
    return out


@override.around("index_select")
def _index_select(definition: Kernel) -> Kernel:
    def index_select(x: Array, i: Array, axis: int) -> Array:
        if type(x) is not ndarray or not x.ndim or not within(i, x.shape[axis]):
            return definition(x, i, axis)
        found = taken_rows(x, i.reshape(-1)) if axis == 0 and x.size > sizes.GATHER else None
        return x.take(i.reshape(-1), axis) if found is None else found

    return index_select


@override("index_select", gradient="x", when=lambda g, i, x_shape, axis: x_shape and within(i, x_shape[axis]))
def index_select_backward(g: Array, i: Array, x_shape: Shape, axis: int) -> Array:
    """Return zeros to which the slices of a gradient are added."""
    out = np.zeros(x_shape, g.dtype)
    index_add(out, g, i, axis)
    return out


def index_add(x: Array, y: Array, i: Array, axis: int) -> None:
    """Add slices along an axis where a vector names them."""
    count, length = i.size, x.shape[axis]
    width = x.size // max(length, 1)
    front = x.swapaxes(0, axis) if axis else x
    rows = front.reshape(length, width)
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    values = y if y.shape == shape else np.broadcast_to(y, shape)
    add_rows(rows, i.reshape(-1), (values.swapaxes(0, axis) if axis else values).reshape(count, width))
    if not np.may_share_memory(rows, x):
        front[...] = rows.reshape(front.shape)


def add_rows(rows: Array, numbers: Array, values: Array) -> None:
    """Add each row of `values` to the row of `rows` that `numbers` names; names may repeat."""
    count, width = values.shape
    if not count or not width:
        return
    if width == 1 and rows.flags.c_contiguous:
        np.add.at(np.asarray(rows.reshape(-1)), numbers, values.reshape(-1))
        return
    if _added_rows(rows, numbers, values):
        return
    if width >= 128 or count <= 8:  # a row is worth a call of its own
        for number, value in zip(np.asarray(numbers).tolist(), values):
            rows[number] += value
        return
    order = np.argsort(numbers, kind="stable")
    ordered = numbers[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    if len(starts) == count:
        rows[numbers] += values
    else:
        rows[ordered[starts]] += np.add.reduceat(values[order], starts, axis=0)


def _added_rows(rows: Array, numbers: Array, values: Array) -> bool:
    """Add rows in compiled loops; return whether that was done.

    Each thread has some of the columns, so that none writes where another does.
    """
    fit = rows.dtype is values.dtype and numbers.dtype is _int64 and rows.flags.c_contiguous
    moves = _compiled(values, values.size) if fit and (values.flags.c_contiguous or uniform(values)) else None
    if moves is None:
        return False
    width = rows.shape[1]
    given = (rows.reshape(-1), width, np.ascontiguousarray(numbers), *_rows(values, width))
    run_cuts(moves.add_rows, "wslws", width, values.size, *given, least=sizes.THREAD_INDEXED_ROWS)
    return True


@override.around("embedding")
def _embedding(definition: Kernel) -> Kernel:
    def embedding(x: Array, i: Array, padding: int, by_frequency: bool) -> Array:
        if type(x) is not ndarray or type(i) is not ndarray:
            return definition(x, i, padding, by_frequency)
        if i.ndim == 0 and 0 <= (number := i.item()) < len(x):
            return x[number].copy()
        if not within(i, len(x)):
            return definition(x, i, padding, by_frequency)
        found = taken_rows(x, i) if x.size > sizes.GATHER else None
        return x.take(i, 0) if found is None else found

    return embedding


@override.around("unembedding")
def _unembedding(definition: Kernel) -> Kernel:
    def unembedding(x: Array, i: Array, rows: int, padding: int, by_frequency: bool) -> Array:
        if by_frequency or type(x) is not ndarray:
            return definition(x, i, rows, padding, by_frequency)
        width = x.shape[i.ndim :]
        out = np.zeros((rows, *width), x.dtype)
        if i.ndim == 0:
            if padding < 0 or i != padding:
                out[i] = x
            return out
        numbers = i.reshape(-1)
        values = x.reshape(numbers.size, math.prod(width))
        if padding >= 0:
            kept = numbers != padding
            numbers, values = numbers[kept], values[kept]
        add_rows(out.reshape(rows, -1), numbers, values)
        return out

    return unembedding


# --- Any index ----------------------------------------------------------------------------------------


@override.around("take")
def _take(definition: Kernel) -> Kernel:
    def take(x: Array, i: Array) -> Array:
        if type(x) is ndarray:
            try:
                return x.reshape(-1).take(i)
            except IndexError:
                pass
        return definition(x, i)

    return take


@override.around("index")
def _index(definition: Kernel) -> Kernel:
    def index(xs: tuple[Array, ...], spec: tuple[int, ...]) -> Array:
        if len(xs) == 2 and type(xs[0]) is ndarray and xs[1].dtype is _int64:
            try:
                return xs[0].take(xs[1], spec.index(0))
            except IndexError:
                pass
        return definition(xs, spec)

    return index


@override.around("pick")
def _pick(definition: Kernel) -> Kernel:
    def pick(x: Array, i: Array, axis: int) -> Array:
        if type(x) is ndarray and i.dtype is _int64:
            try:
                return x.take(i, axis)
            except IndexError:
                pass
        return definition(x, i, axis)

    return pick


@override("unindex")
def unindex(xs: tuple[Array, ...], shape: Shape, spec: tuple[int, ...]) -> Array:
    """Return zeros to which elements are added at an index."""
    out = np.zeros(shape, xs[0].dtype)
    return out if index_put(out, *xs, spec, True) else NotImplemented


@override.around("index_put_")
def _index_put(definition: Kernel) -> Kernel:
    def index_put_(x: Array, y: Array, *rest: Any) -> None:
        if type(x) is ndarray:
            if rest[-1]:
                if index_put(x, y, *rest):
                    return
            elif len(rest) == 3 and rest[1] == (0,):
                try:
                    x[rest[0]] = y
                    return
                except IndexError:
                    pass
        definition(x, y, *rest)

    return index_put_


def index_put(x: Array, y: Array, *rest: Any) -> bool:
    """Add values at an index, again for each time an element occurs, as rows; return whether that was done."""
    *indexes, spec, _ = rest
    if any(type(i) is not ndarray for i in indexes):
        return False
    if len(indexes) == 1 and indexes[0].dtype == bool:
        x[tuple([_ALL if k < 0 else indexes[0] for k in spec])] += y
        return True
    # Bring the indexed dimensions to the front, where one number per element says which row it is in.
    places = [i for i, k in enumerate(spec) if k >= 0]
    others = [i for i in range(x.ndim) if i not in places]
    lengths = [x.shape[i] for i in places]
    row: Array = np.zeros((), np.int64)
    for size, place in zip(lengths, places, strict=True):
        index = indexes[spec[place]]
        if index.dtype == bool:
            return False
        if not within(index, size):
            if not within(index + size, 2 * size):
                return False
            index = np.where(index < 0, index + size, index)
        row = index if len(places) == 1 else row * size + index
    first = places[0] if places[-1] - places[0] == len(places) - 1 else 0
    lead, trail = others[:first], others[first:]
    y = np.broadcast_to(y, (*(x.shape[i] for i in lead), *row.shape, *(x.shape[i] for i in trail)))
    axes = (*range(first, first + row.ndim), *range(first), *range(first + row.ndim, y.ndim))
    width = math.prod([x.shape[i] for i in others])
    front = x.transpose(*places, *others)
    rows = front.reshape(math.prod(lengths), width)
    add_rows(rows, row.reshape(-1), y.transpose(*axes).reshape(row.size, width))
    if not np.may_share_memory(rows, x):
        front[...] = rows.reshape(front.shape)
    return True
