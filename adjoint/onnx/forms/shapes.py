"""Primitives that arrange elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...compiler.graph import Value
from ...export.sizes import Varying
from ..builder import END, Builder, Unsupported
from .table import axes_of, form

__all__ = ["sliced"]


def _out(b: Builder, i: int = 0) -> tuple[Any, ...]:
    assert b.line is not None
    return b.shape(b.line.outputs[i])


@form("reshape", "unsafe_view", "squeeze", "squeeze_0", "squeeze_2", "unsqueeze", "getitem_none")
def _reshape(b: Builder, x: Any, *_: Any) -> str:
    assert b.line is not None
    rank = len(x.shape)
    if b.line.name == "getitem_none" and not _adds_axes_only(b.line.params[0]):
        return sliced(b, b.of(x), rank, b.line.params[0])
    if b.line.name == "unsqueeze" and isinstance(b.line.params[0], int):
        return b.node("Unsqueeze", b.of(x), b.ints([b.line.params[0] % (rank + 1)]))
    return b.reshaped(b.of(x), _out(b), b.shape(x))


def _adds_axes_only(index: Any) -> bool:
    parts = index if isinstance(index, tuple) else (index,)
    return all(p is None or p is Ellipsis or p == slice(None) for p in parts)


@form("transpose")
def _transpose(b: Builder, x: Any, first: int, second: int) -> str:
    order = list(range(len(x.shape)))
    if order:
        order[first], order[second] = order[second], order[first]
    return b.transposed(b.of(x), order)


@form("t")
def _t(b: Builder, x: Any) -> str:
    return b.transposed(b.of(x), range(len(x.shape))[::-1])


@form("permute")
def _permute(b: Builder, x: Any, axes: Any) -> str:
    return b.transposed(b.of(x), [i % len(x.shape) for i in axes])


@form("expand")
def _expand(b: Builder, x: Any, shape: Any) -> str:
    same = len(_out(b)) == len(b.shape(x)) and all(
        s is t or s == t or (isinstance(s, Varying) and isinstance(t, Varying) and s.values == t.values)
        for s, t in zip(_out(b), b.shape(x), strict=True)
    )
    return b.of(x) if same else b.node("Expand", b.of(x), b.ints(_out(b)))


@form("flip")
def _flip(b: Builder, x: Any, axes: Any) -> str:
    return b.reversed(b.of(x), axes_of(axes, len(x.shape)))


@form("roll")
def _roll(b: Builder, x: Any, shifts: Any, axes: Any) -> str:
    name = b.of(x)
    shifts = (shifts,) if isinstance(shifts, int | Varying) else shifts
    if not axes and axes != 0:
        flat = b.node("Reshape", name, b.ints([-1]))
        return b.reshaped(_rolled(b, flat, shifts[0], 0, math.prod(x.shape)), _out(b))
    for shift, axis in zip(shifts, (axes,) if isinstance(axes, int) else axes, strict=True):
        name = _rolled(b, name, shift, axis % len(x.shape), x.shape[axis])
    return name


def _rolled(b: Builder, name: str, shift: Any, axis: int, size: int) -> str:
    if isinstance(shift, Varying):
        raise Unsupported("roll by a number of places that varies")
    if shift == 0:
        return name
    cut = -shift if abs(shift) < size else -(shift % size)
    last = b.node("Slice", name, b.ints([cut]), b.ints([END]), b.ints([axis]))
    first = b.node("Slice", name, b.ints([0]), b.ints([cut]), b.ints([axis]))
    return b.node("Concat", last, first, axis=axis)


@form("repeat")
def _repeat(b: Builder, x: Any, repeats: Any) -> str:
    missing = len(repeats) - len(x.shape)
    name = b.of(x)
    if missing:
        name = b.reshaped(name, (*(1,) * missing, *b.shape(x)))
    return b.node("Tile", name, b.ints(repeats))


@form("cat")
def _cat(b: Builder, *xs: Any) -> str:
    assert b.line is not None
    *values, axis = xs
    dtype, rank = b.line.outputs[0].dtype, len(b.line.outputs[0].shape)
    parts = [b.of(v, dtype) for v in values if not (isinstance(v, Value) and v.shape == (0,) and rank > 1)]
    return b.node("Concat", *parts, axis=axis % rank)


@form("stack")
def _stack(b: Builder, *xs: Any) -> str:
    assert b.line is not None
    *values, axis = xs
    dtype, rank = b.line.outputs[0].dtype, len(b.line.outputs[0].shape)
    at = b.ints([axis % rank])
    return b.node("Concat", *(b.node("Unsqueeze", b.of(v, dtype), at) for v in values), axis=axis % rank)


@form("split", "split_with_sizes", "unbind")
def _split(b: Builder, x: Any, indexes: Any) -> list[str]:
    assert b.line is not None
    found = _parts(indexes, len(x.shape))
    if found is not None:
        axis, sizes = found
        parts = b.several("Split", [b.of(x), b.ints(sizes)], len(sizes), axis=axis)
        if b.line.name == "unbind":
            return [b.node("Squeeze", p, b.ints([axis])) for p in parts]
        return parts
    return [sliced(b, b.of(x), len(x.shape), i) for i in indexes]


def _parts(indexes: Any, rank: int) -> tuple[int, list[int]] | None:
    """Return the axis and sizes where a tensor is cut, in order, into parts that follow one another."""
    if isinstance(indexes, Varying):
        raise Unsupported("it splits a dynamic axis into parts whose number or sizes vary")
    sizes, at, where = [], 0, -1
    for index in indexes:
        parts = [p for p in (index if isinstance(index, tuple) else (index,)) if p is not Ellipsis]
        changed = [i for i, p in enumerate(parts) if p != slice(None)]
        if len(changed) != 1 or (where >= 0 and changed[0] != where):
            return None
        where, part = changed[0], parts[changed[0]]
        start, stop = (part.start, part.stop) if isinstance(part, slice) else (part, part + 1)
        if not isinstance(start, int) or not isinstance(stop, int) or start != at or (
            isinstance(part, slice) and part.step not in (None, 1)
        ):  # fmt: skip
            return None
        sizes.append(stop - start)
        at = stop
    return (where, sizes) if where < rank and sizes else None


@form("select")
def _select(b: Builder, x: Any, axis: int, index: Any) -> str:
    return b.node("Gather", b.of(x), b.of(index, np.int64), axis=axis % len(x.shape))


@form("slice", "getitem")
def _slice(b: Builder, x: Any, index: Any) -> str:
    return sliced(b, b.of(x), len(x.shape), index)


def sliced(b: Builder, name: str, rank: int, index: Any) -> str:
    """Return what an index of numbers, slices, None and one ellipsis reads."""
    parts = list(index) if isinstance(index, tuple) else [index]
    used = sum(p is not None and p is not Ellipsis for p in parts)
    at = next((i for i, p in enumerate(parts) if p is Ellipsis), len(parts))
    parts[at : at + 1] = [slice(None)] * (rank - used)
    starts: list[Any] = []
    stops: list[Any] = []
    axes, steps, numbers, added, axis = [], [], [], [], 0
    for place, part in enumerate(parts):
        if part is None:
            added.append(sum(p is None or isinstance(p, slice) for p in parts[:place]))
            continue
        if isinstance(part, slice):
            if part != slice(None) and (part.start, part.stop, part.step) != (0, None, 1):
                step = part.step or 1
                starts.append(part.start if part.start is not None else (0 if step > 0 else -1))
                stops.append(part.stop if part.stop is not None else (END if step > 0 else -END))
                axes.append(axis)
                steps.append(step)
        else:
            numbers.append((axis, part))
        axis += 1
    if axes:
        name = b.node("Slice", name, b.ints(starts), b.ints(stops), b.ints(axes), b.ints(steps))
    for axis, number in numbers[::-1]:
        name = b.node("Gather", name, b.of(number, np.int64), axis=axis)
    return b.node("Unsqueeze", name, b.ints(added)) if added else name


@form("tril", "triu")
def _triangle(b: Builder, x: Any, diagonal: Any) -> str:
    assert b.line is not None
    name, dtype = b.of(x), x.dtype
    if dtype.kind == "b" or dtype.itemsize < 4:  # onnxruntime has it for some dtypes only
        name = b.cast(name, np.float32)
    out = b.node("Trilu", name, b.of(diagonal, np.int64), upper=int(b.line.name == "triu"))
    return out if name == b.of(x) else b.cast(out, dtype)


@form("pad")
def _pad(b: Builder, x: Any, widths: Any, value: Any) -> str:
    pads = [w[0] for w in widths] + [w[1] for w in widths]
    return b.node("Pad", b.of(x), b.ints(pads), b.of(value, x.dtype), mode="constant")


@form("diagonal", "diagonal_copy")
def _diagonal(b: Builder, x: Any, offset: int, axis1: int, axis2: int) -> str:
    rank = len(x.shape)
    if not b.is_static(x):
        raise Unsupported("a diagonal of axes that are dynamic")
    i, j = axis1 % rank, axis2 % rank
    others = [k for k in range(rank) if k not in (i, j)]
    whole = b.transposed(b.of(x), [i, j, *others])
    rows = np.arange(max(-offset, 0), min(x.shape[i], x.shape[j] - offset))
    places = b.constant(np.stack([rows, rows + offset], 1).astype(np.int64))
    return b.transposed(b.node("GatherND", whole, places), [*range(1, rank - 1), 0])


@form("as_strided")
def _as_strided(b: Builder, *_: Any) -> str:
    raise Unsupported(
        "as_strided depends on the memory layout, which ONNX does not have: use reshape, transpose or indexing"
    )


@form("unfold")
def _unfold(b: Builder, x: Any, axis: int, size: int, step: int) -> str:
    rank = len(x.shape)
    if isinstance(b.shape(x)[axis], Varying):
        raise Unsupported("unfold of a dynamic axis")
    count = (x.shape[axis] - size) // step + 1
    places = np.arange(count)[:, None] * step + np.arange(size)
    parts = b.node("Gather", b.of(x), b.constant(places.astype(np.int64)), axis=axis % rank)
    order = [*range(axis % rank + 1), *range(axis % rank + 2, rank + 1), axis % rank + 1]
    return b.transposed(parts, order)


@form("take_region")
def _take_region(b: Builder, whole: Any, *params: Any) -> str:
    places, shape = _region(b, whole, params)
    flat = b.node("Reshape", b.of(whole), b.ints([-1]))
    return b.node("Gather", flat, b.constant(places.reshape(shape)), axis=0)


@form("put_region")
def _put_region(b: Builder, whole: Any, part: Any, *params: Any) -> str:
    places, _ = _region(b, whole, params)
    flat = b.node("Reshape", b.of(whole), b.ints([-1]))
    new = b.node("Reshape", b.of(part, whole.dtype), b.ints([-1]))
    return b.reshaped(b.node("ScatterElements", flat, b.constant(places), new, axis=0), b.shape(whole))


def _region(b: Builder, whole: Any, params: Any) -> tuple[Any, Any]:
    """Return where in a value, its elements in order, those of a part of its memory are."""
    if not b.is_static(whole) or any(isinstance(p, Varying) for p in params):
        raise Unsupported("a write into part of a tensor with dynamic axes: use where, cat or scatter instead")
    home, offset, shape, strides, dtype = params
    if np.dtype(dtype) != whole.dtype:
        raise Unsupported("a view of memory as another dtype")
    known: dict[int, int] = {}
    for place in np.ndindex(*whole.shape):
        known[sum(i * s for i, s in zip(place, home, strict=True))] = len(known)
    found = [known[offset + sum(i * s for i, s in zip(place, strides, strict=True))] for place in np.ndindex(*shape)]
    return np.array(found, np.int64), shape


@form("set_slice")
def _set_slice(b: Builder, x: Any, y: Any, index: Any) -> str:
    if not b.is_static(x):
        raise Unsupported("a write into part of a tensor with dynamic axes: use where, cat or scatter instead")
    return _with_elements(b, x, y, np.arange(math.prod(x.shape), dtype=np.int64).reshape(x.shape)[index])


@form("set_diagonal")
def _set_diagonal(b: Builder, x: Any, y: Any, offset: int, axis1: int, axis2: int) -> str:
    if not b.is_static(x):
        raise Unsupported("a diagonal of axes that are dynamic")
    places = np.arange(math.prod(x.shape), dtype=np.int64).reshape(x.shape)
    return _with_elements(b, x, y, np.diagonal(places, offset, axis1, axis2))


def _with_elements(b: Builder, x: Value, y: Any, places: Any) -> str:
    """Write `y` where `places` says, which counts the elements of `x` in order."""
    flat = b.node("Reshape", b.of(x), b.ints([-1]))
    new = b.node("Expand", b.of(y, x.dtype), b.ints(places.shape)) if np.shape(y) != places.shape else b.of(y, x.dtype)
    new = b.node("Reshape", new, b.ints([-1]))
    return b.reshaped(b.node("ScatterElements", flat, b.constant(places.reshape(-1)), new, axis=0), b.shape(x))


@form("view_as_real", "view_as_complex", "view_dtype")
def _viewed(b: Builder, x: Any, *_: Any) -> str:
    raise Unsupported("it reads memory as another dtype")
