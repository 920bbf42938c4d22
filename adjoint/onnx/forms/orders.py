"""Running products and extremes, and places in an order: medians, modes, sorted sequences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..builder import Builder
from .table import axes_of, form

__all__: list[str] = []


def _lowest(dtype: Any) -> Any:
    return -math.inf if dtype.kind == "f" else np.iinfo(dtype).min


def _highest(dtype: Any) -> Any:
    return math.inf if dtype.kind == "f" else np.iinfo(dtype).max


def _last(b: Builder, name: str, rank: int, axis: int) -> str:
    """Return a value with an axis moved to the end."""
    return b.transposed(name, [*(i for i in range(rank) if i != axis), axis])


def _back(b: Builder, name: str, rank: int, axis: int) -> str:
    """Return a value with its last axis moved back to its position."""
    return b.transposed(name, [*range(axis), rank - 1, *range(axis, rank - 1)])


# --- Running along an axis: ONNX has CumSum only; the others reduce a square of beginnings. ----------


def _beginnings(b: Builder, x: Any, axis: int, filler: Any, dtype: Any) -> str:
    """Return, along a new axis before the last, each beginning of the axis, the places after it filled."""
    rank = len(x.shape)
    n = b.shape(x)[axis]
    ones = b.node("Expand", b.constant(1, np.float32), b.ints([n, n]))
    mask = b.cast(b.node("Trilu", ones, upper=0), bool)
    rows = b.node("Unsqueeze", _last(b, b.of(x, dtype), rank, axis), b.ints([-2]))
    return b.node("Where", mask, rows, b.constant(filler, dtype))


@form("cumprod")
def _cumprod(b: Builder, x: Any, axis: int) -> str:
    assert b.line is not None
    dtype, rank = b.line.outputs[0].dtype, len(x.shape)
    if not rank:
        return b.of(x, dtype)
    found = b.node("ReduceProd", _beginnings(b, x, axis % rank, 1, dtype), b.ints([-1]), keepdims=0)
    return _back(b, found, rank, axis % rank)


@form("cummax", "cummin")
def _cummax(b: Builder, x: Any, axis: int) -> list[str]:
    assert b.line is not None
    most, rank = b.line.name == "cummax", len(x.shape)
    if not rank:
        return [b.of(x), b.constant(0, np.int64)]
    filler = _lowest(x.dtype) if most else _highest(x.dtype)
    rows = _beginnings(b, x, axis % rank, filler, x.dtype)
    values = b.node("ReduceMax" if most else "ReduceMin", rows, b.ints([-1]), keepdims=0)
    at = b.node("ArgMax" if most else "ArgMin", rows, axis=-1, keepdims=0, select_last_index=1)
    # of a beginning whose elements all equal the filler, a place after it may be found
    n = b.shape(x)[axis % rank]
    own = b.node("Range", b.constant(0, np.int64), b.node("Squeeze", b.size(n)), b.constant(1, np.int64))
    return [_back(b, values, rank, axis % rank), _back(b, b.node("Min", at, own), rank, axis % rank)]


@form("logcumsumexp")
def _logcumsumexp(b: Builder, x: Any, axis: int) -> str:
    rank = len(x.shape)
    if not rank:
        return b.of(x)
    rows, last = _beginnings(b, x, axis % rank, -math.inf, x.dtype), b.ints([-1])
    top = b.node("ReduceMax", rows, last)
    top = b.node("Where", b.node("IsInf", top), b.constant(0, x.dtype), top)
    total = b.node("ReduceSum", b.node("Exp", b.node("Sub", rows, top)), last)
    return _back(b, b.node("Squeeze", b.node("Add", b.node("Log", total), top), last), rank, axis % rank)


# --- Places in an order ------------------------------------------------------------------------------


def _middle(b: Builder, name: str, n: str, dtype: Any, axis: int, skip: bool) -> tuple[str, str]:
    """Return the lower median along an axis and its index, with keepdim; any NaN is the result, unless `skip`."""
    where = b.ints([axis])
    bad = b.node("Not", b.node("Equal", name, name))
    count = b.node("ReduceSum", b.cast(bad, np.int64), where)
    filled = name
    if dtype.kind == "f":
        filled = b.node("Where", bad, b.constant(math.inf, dtype), name)
    order = b.several("TopK", [filled, n], 2, axis=axis, largest=0, sorted=1)[1]
    one, two, zero = (b.constant(v, np.int64) for v in (1, 2, 0))
    good = b.node("Sub", n, count)
    if skip:
        at = b.node("Div", b.node("Max", b.node("Sub", good, one), zero), two)
    else:
        at = b.node("Where", b.node("Greater", count, zero), good, b.node("Div", b.node("Sub", n, one), two))
    index = b.node("GatherElements", order, at, axis=axis)
    return b.node("GatherElements", name, index, axis=axis), index


@form("median_dim", "nanmedian_dim")
def _median_dim(b: Builder, x: Any, axis: int, keepdims: bool) -> list[str]:
    assert b.line is not None
    if not x.shape:
        return [b.of(x), b.constant(0, np.int64)]
    axis %= len(x.shape)
    found = _middle(b, b.of(x), b.size(b.shape(x)[axis]), x.dtype, axis, b.line.name == "nanmedian_dim")
    return list(found) if keepdims else [b.node("Squeeze", v, b.ints([axis])) for v in found]


@form("median", "nanmedian")
def _median(b: Builder, x: Any, axes: Any, keepdims: bool) -> str:
    assert b.line is not None
    flat = b.node("Reshape", b.of(x), b.ints([-1]))
    size = b.node("Size", flat)
    found = _middle(b, flat, b.node("Unsqueeze", size, b.ints([0])), x.dtype, 0, b.line.name == "nanmedian")[0]
    return b.reshaped(found, b.shape(b.line.outputs[0]))


@form("mode")
def _mode(b: Builder, x: Any, axis: int, keepdims: bool) -> list[str]:
    """Return the commonest element along an axis, the smallest of equally common ones, and its last place."""
    rank = len(x.shape)
    if not rank:
        return [b.of(x), b.constant(0, np.int64)]
    axis %= rank
    rows, last = _last(b, b.of(x), rank, axis), b.ints([-1])
    equal = b.node("Equal", b.node("Unsqueeze", rows, b.ints([-1])), b.node("Unsqueeze", rows, b.ints([-2])))
    count = b.node("ReduceSum", b.cast(equal, np.int64), last, keepdims=0)
    common = b.node("Equal", count, b.node("ReduceMax", count, last))
    values = b.node(
        "ReduceMin", b.node("Where", common, rows, b.constant(_highest(x.dtype), x.dtype)), last, keepdims=1
    )
    index = b.node("ArgMax", b.cast(b.node("Equal", rows, values), np.int64), axis=-1, keepdims=1, select_last_index=1)
    found = [_back(b, v, rank, axis) for v in (values, index)]
    return found if keepdims else [b.node("Squeeze", v, b.ints([axis])) for v in found]


@form("searchsorted")
def _searchsorted(b: Builder, x: Any, y: Any, right: bool, dtype: Any) -> str:
    """Count the elements of a sequence that precede each value."""
    common = np.result_type(x.dtype, y.dtype)
    sequence = b.of(x, common) if len(x.shape) == 1 else b.node("Unsqueeze", b.of(x, common), b.ints([-2]))
    before = b.node("LessOrEqual" if right else "Less", sequence, b.node("Unsqueeze", b.of(y, common), b.ints([-1])))
    return b.cast(b.node("ReduceSum", b.cast(before, np.int64), b.ints([-1]), keepdims=0), dtype)


@form("rot90")
def _rot90(b: Builder, x: Any, k: int, axes: Any) -> str:
    first, second = axes[0] % len(x.shape), axes[1] % len(x.shape)
    order = list(range(len(x.shape)))
    order[first], order[second] = second, first
    name = b.of(x)
    if k % 4 == 1:
        return b.transposed(b.reversed(name, [second]), order)
    if k % 4 == 3:
        return b.reversed(b.transposed(name, order), [second])
    return b.reversed(name, axes_of((first, second), len(x.shape))) if k % 4 == 2 else name
