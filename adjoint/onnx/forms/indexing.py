"""Primitives that gather and scatter by indices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...compiler.graph import Value
from ...ops.index import indexed_at
from ..builder import Builder, Unsupported
from .table import form

__all__: list[str] = []


def _index(b: Builder, i: Any) -> str:
    if isinstance(i, Value) and i.dtype == bool:
        raise Unsupported("an index that is a mask: how many elements it picks depends on data; use where")
    return b.of(i, np.int64)


@form("embedding")
def _embedding(b: Builder, x: Any, i: Any, *_: Any) -> str:
    return b.node("Gather", b.of(x), _index(b, i), axis=0)


@form("index_select", "pick")
def _index_select(b: Builder, x: Any, i: Any, axis: int) -> str:
    name = b.of(x)
    if not x.shape:
        name = b.reshaped(name, (1,))
    out = b.node("Gather", name, _index(b, i), axis=axis % max(len(x.shape), 1))
    return out if x.shape else b.node("Reshape", out, b.ints(b.shape(b.line.outputs[0])))  # type: ignore[union-attr]


@form("take")
def _take(b: Builder, x: Any, i: Any) -> str:
    return b.node("Gather", b.node("Reshape", b.of(x), b.ints([-1])), _index(b, i), axis=0)


@form("gather", "sort", "topk", "kthvalue")
def _gather(b: Builder, x: Any, i: Any, axis: int) -> str:
    return b.node("GatherElements", b.of(x), _index(b, i), axis=axis % max(len(x.shape), 1))


@form("index")
def _indexed(b: Builder, x: Any, *rest: Any) -> str:
    *indexes, spec = rest
    used = [(axis, indexes[k]) for axis, k in enumerate(spec) if k >= 0]
    if len(used) == 1:
        return b.node("Gather", b.of(x), _index(b, used[0][1]), axis=used[0][0])
    rank, at = len(x.shape), indexed_at(spec)
    others = [axis for axis in range(rank) if axis not in dict(used)]
    whole = b.transposed(b.of(x), [*(axis for axis, _ in used), *others])
    count = len(b.line.outputs[0].shape) - len(others)  # type: ignore[union-attr]
    places = _stacked(b, [i for _, i in used], b.shape(b.line.outputs[0])[at : at + count])  # type: ignore[union-attr]
    out = b.node("GatherND", whole, places)
    # the indexed axes are in front, and belong after `at` others
    order = [*range(count, count + at), *range(count), *range(count + at, count + len(others))]
    return b.transposed(out, order)


def _stacked(b: Builder, indexes: Sequence[Any], shape: Sequence[Any]) -> str:
    """Return index tensors as one with a last axis."""
    names = []
    for i in indexes:
        name = _index(b, i)
        if not isinstance(i, Value) or not _like(b.shape(i), shape):
            name = b.node("Expand", name, b.ints(shape))
        names.append(b.node("Unsqueeze", name, b.ints([-1])))
    return b.node("Concat", *names, axis=-1)


def _like(first: Sequence[Any], second: Sequence[Any]) -> bool:
    def key(sizes: Sequence[Any]) -> list[Any]:
        return [getattr(s, "values", s) for s in sizes]

    return key(first) == key(second)


@form("index_put")
def _index_put(b: Builder, x: Any, y: Any, *rest: Any) -> str:
    *indexes, spec, accumulate = rest
    used = [(axis, indexes[k]) for axis, k in enumerate(spec) if k >= 0]
    rank = len(x.shape)
    others = [axis for axis in range(rank) if axis not in dict(used)]
    order = [*(axis for axis, _ in used), *others]
    shapes = [b.shape(i) for _, i in used if isinstance(i, Value)]
    if any(not b.is_static(i) for _, i in used if isinstance(i, Value)):
        raise Unsupported("index_put with indices of dynamic sizes")
    lead = np.broadcast_shapes(*shapes)
    places = _stacked(b, [i for _, i in used], lead)
    at = indexed_at(spec)
    full = (*(b.shape(x)[a] for a in others[:at]), *lead, *(b.shape(x)[a] for a in others[at:]))
    new = b.node("Expand", b.of(y, x.dtype), b.ints(full))
    count = len(lead)
    new = b.transposed(new, [*range(at, at + count), *range(at), *range(at + count, len(full))])
    out = b.node(
        "ScatterND", b.transposed(b.of(x), order), places, new, reduction="add" if accumulate else "none"
    )  # fmt: skip
    return b.transposed(out, np.argsort(order).tolist())


def _scattered(b: Builder, x: Any, i: Any, y: Any, axis: int, reduction: str = "none", name: str = "") -> str:
    index, name = _index(b, i), name or b.of(x)
    new = b.of(y, x.dtype)
    if not isinstance(y, Value) or not y.shape:
        new = b.node("Expand", new, b.node("Shape", index))
    elif not _like(b.shape(y), b.shape(i)):  # only what stands where the index has elements is written
        rank = len(i.shape)
        new = b.node("Slice", new, b.ints([0] * rank), b.node("Shape", index), b.ints(range(rank)))
    return b.node("ScatterElements", name, index, new, axis=axis % max(len(x.shape), 1), reduction=reduction)


@form("masked_scatter")
def _masked_scatter(b: Builder, x: Any, y: Any, mask: Any) -> str:
    shape = b.node("Shape", b.of(x))
    chosen = b.node("Expand", b.of(mask, bool), shape)
    flat = b.node("Reshape", chosen, b.ints([-1]))
    order = b.node("CumSum", b.cast(flat, np.int64), b.constant(0, np.int64))
    place = b.node("Max", b.node("Sub", order, b.constant(1, np.int64)), b.constant(0, np.int64))
    source = b.node("Reshape", b.of(y, x.dtype), b.ints([-1]))
    last = b.node("Sub", b.node("Size", source), b.constant(1, np.int64))
    taken = b.node("Gather", source, b.node("Min", place, last), axis=0)
    return b.node("Where", chosen, b.node("Reshape", taken, shape), b.of(x))


@form("take_rows")
def _take_rows(b: Builder, x: Any, rows: Any) -> str:
    return b.node("Gather", b.of(x), b.constant(rows, np.int64), axis=0)


@form("put_rows")
def _put_rows(b: Builder, x: Any, rows: Any, count: int, filler: float) -> str:
    shape = [count, *b.shape(x)[1:]]
    whole = b.node("Expand", b.of(filler, x.dtype), b.ints(shape))
    return b.node("ScatterND", whole, b.constant(np.reshape(rows, (-1, 1)), np.int64), b.of(x))


def _start_of(dtype: Any, reduce: str) -> Any:
    """Return the value that every other one replaces in a reduction."""
    if reduce not in ("amax", "amin"):
        return int(reduce == "prod")
    if dtype.kind == "f":
        return -math.inf if reduce == "amax" else math.inf
    info = np.iinfo(dtype)
    return info.min if reduce == "amax" else info.max


@form("scatter")
def _scatter(b: Builder, x: Any, y: Any, i: Any, axis: int) -> str:
    return _scattered(b, x, i, y, axis)


@form("scatter_add")
def _scatter_add(b: Builder, x: Any, y: Any, i: Any, axis: int) -> str:
    return _scattered(b, x, i, y, axis, "add")


@form("scatter_reduce")
def _scatter_reduce(b: Builder, x: Any, y: Any, i: Any, axis: int, reduce: str, include_self: bool) -> str:
    known = {"sum": "add", "mean": "add", "prod": "mul", "amax": "max", "amin": "min"}
    name, axis = b.of(x), axis % max(len(x.shape), 1)
    if not include_self:
        start = b.node("Expand", b.constant(_start_of(x.dtype, reduce), x.dtype), b.node("Shape", _index(b, i)))
        name = b.node("ScatterElements", name, _index(b, i), start, axis=axis)
    out = _scattered(b, x, i, y, axis, known[reduce], name)
    if reduce != "mean":
        return out
    ones = b.node("Expand", b.constant(1, np.int64), b.node("Shape", _index(b, i)))
    before = b.node("Expand", b.constant(int(include_self), np.int64), b.node("Shape", name))
    count = b.node("ScatterElements", before, _index(b, i), ones, axis=axis, reduction="add")
    return b.node("Div", out, b.cast(b.node("Max", count, b.constant(1, np.int64)), x.dtype))


def _along(b: Builder, x: Any, y: Any, i: Any, axis: int, reduction: str = "none") -> str:
    """Scatter slices of `y` by an index of one axis."""
    rank = max(len(x.shape), 1)
    axis %= rank
    shape = [*b.shape(x)[:axis], b.shape(i)[0] if i.shape else 1, *b.shape(x)[axis + 1 :]]
    index = b.node("Expand", b.reshaped(_index(b, i), [-1 if k == axis else 1 for k in range(rank)]), b.ints(shape))
    new = b.node("Expand", b.of(y, x.dtype), b.ints(shape))
    return b.node("ScatterElements", b.of(x), index, new, axis=axis, reduction=reduction)


@form("index_add")
def _index_add(b: Builder, x: Any, y: Any, i: Any, axis: int) -> str:
    return _along(b, x, y, i, axis, "add")


@form("index_copy", "index_fill")
def _index_copy(b: Builder, x: Any, y: Any, i: Any, axis: int) -> str:
    return _along(b, x, y, i, axis)


@form("argsort", "best")
def _order(b: Builder, x: Any, axis: int, *rest: Any) -> str:
    assert b.line is not None
    if b.line.name == "argsort":
        count, largest = b.shape(x)[axis], bool(rest[0])
    else:
        count, largest = rest[0], bool(rest[1])
    return b.several(
        "TopK", [b.of(x), b.size(count)], 2, axis=axis % len(x.shape), largest=int(largest), sorted=1
    )[1]  # fmt: skip


@form("masked_select", "nonzero")
def _by_data(b: Builder, *_: Any) -> str:
    raise Unsupported("the shape of its result depends on data; use where")
