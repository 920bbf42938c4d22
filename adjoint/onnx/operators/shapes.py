"""Operators that make and arrange elements, read and write by index."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.nodes import wrap
from ...nn import functional as F
from ...ops import namespace as T
from ...ops.dimensions import permute_p
from ...ops.shape import cast_p
from ..reading import ModelError, Parsed, dtype_of
from .table import Context, constant, ints, operator

__all__: list[str] = []


@operator("Constant")
def _constant(context: Context, **value: Any) -> Any:
    kind, held = next(iter(value.items()))
    if kind == "value":
        return wrap(np.array(held))
    kinds = {"value_float": np.float32, "value_floats": np.float32, "value_int": np.int64, "value_ints": np.int64}
    if kind not in kinds:
        raise ModelError(f"a constant given by {kind} is not read")
    return constant(held, kinds[kind])


@operator("ConstantOfShape")
def _constant_of_shape(context: Context, shape: Any, value: Any = None) -> Any:
    held = np.zeros(1, np.float32) if value is None else value
    return wrap(np.full(context.allow(ints(shape), held.dtype.itemsize), held.reshape(-1)[0], held.dtype))


@operator("Range")
def _range(context: Context, start: Any, limit: Any, delta: Any, **_: Any) -> Any:
    first, last, step = (v.array.item() for v in (start, limit, delta))
    if step == 0 or not all(map(math.isfinite, (first, last, step))):
        raise ModelError(f"a range from {first} to {last} in steps of {step}")
    count = max(math.ceil((last - first) / step), 0)
    context.allow((count,), start.array.dtype.itemsize)
    return wrap((first + step * np.arange(count)).astype(start.array.dtype))


@operator("EyeLike")
def _eye_like(context: Context, x: Any, dtype: int | None = None, k: int = 0) -> Any:
    kind = x.array.dtype if dtype is None else dtype_of(dtype)
    rows, columns = x.array.shape
    return wrap(np.eye(rows, columns, k).astype(kind))


@operator("Shape")
def _shape(context: Context, x: Any, start: int = 0, end: int | None = None) -> Any:
    return constant(x.array.shape[start:end], np.int64)


@operator("Size")
def _size(context: Context, x: Any) -> Any:
    return constant(x.array.size, np.int64)


@operator("Reshape")
def _reshape(context: Context, x: Any, shape: Any = None, allowzero: int = 0, **older: Any) -> Any:
    sizes = ints(older["shape"] if shape is None else shape)
    if not allowzero:
        sizes = [x.array.shape[i] if n == 0 and i < x.array.ndim else n for i, n in enumerate(sizes)]
    return T.reshape(x, sizes)


@operator("Flatten")
def _flatten(context: Context, x: Any, axis: int = 1) -> Any:
    shape = x.array.shape
    axis = axis + len(shape) if axis < 0 else axis
    return T.reshape(x, (math.prod(shape[:axis]), math.prod(shape[axis:])))


@operator("Squeeze")
def _squeeze(context: Context, x: Any, axes: Any = None) -> Any:
    if axes is None:
        return T.squeeze(x)
    found = {a % x.array.ndim for a in ints(axes)}
    if any(x.array.shape[a] != 1 for a in found):
        raise ModelError(f"Squeeze of an axis of {list(x.array.shape)} that is not 1 long")
    return T.reshape(x, [n for i, n in enumerate(x.array.shape) if i not in found])


@operator("Unsqueeze")
def _unsqueeze(context: Context, x: Any, axes: Any) -> Any:
    found = ints(axes)
    rank = x.array.ndim + len(found)
    places = {a % rank for a in found}
    if len(places) != len(found):
        raise ModelError("Unsqueeze names an axis twice")
    sizes = iter(x.array.shape)
    return T.reshape(x, [1 if i in places else next(sizes) for i in range(rank)])


@operator("Transpose")
def _transpose(context: Context, x: Any, perm: Any = None) -> Any:
    return permute_p(x, tuple(range(x.array.ndim)[::-1] if perm is None else perm))


@operator("Expand")
def _expand(context: Context, x: Any, shape: Any) -> Any:
    sizes = np.broadcast_shapes(x.array.shape, tuple(ints(shape)))
    return T.broadcast_to(x, context.allow(sizes, x.array.dtype.itemsize))


@operator("Tile")
def _tile(context: Context, x: Any, repeats: Any) -> Any:
    times = ints(repeats)
    context.allow([n * t for n, t in zip(x.array.shape, times, strict=True)], x.array.dtype.itemsize)
    return T.tile(x, tuple(times))


@operator("Concat")
def _concat(context: Context, *xs: Any, axis: int) -> Any:
    return T.cat(xs, axis)


@operator("Split")
def _split(context: Context, x: Any, split: Any = None, axis: int = 0, num_outputs: int | None = None) -> Any:
    if split is not None:
        return tuple(T.split(x, ints(split), axis))
    count = num_outputs or len(context.node.outputs)
    return tuple(T.split(x, max(-(-x.array.shape[axis] // count), 1), axis))


@operator("Slice")
def _slice(context: Context, x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    first, last = ints(starts), ints(ends)
    which = list(range(len(first))) if axes is None else ints(axes)
    by = [1] * len(first) if steps is None else ints(steps)
    if 0 in by:
        raise ModelError("a slice in steps of 0")
    for a, b, axis, step in zip(first, last, which, by, strict=True):
        if step > 0:
            x = x[(*(slice(None),) * (axis % x.array.ndim), slice(a, b, step))]
            continue
        size = x.array.shape[axis]
        places = np.arange(size)[slice(a, b if b >= -size else None, step)]
        x = T.index_select(x, axis, wrap(places))
    return x


@operator("Gather")
def _gather(context: Context, x: Any, i: Any, axis: int = 0) -> Any:
    shape = x.array.shape
    axis %= len(shape)
    index = T.reshape(_positive(i, shape[axis]), (-1,))
    return T.reshape(T.index_select(x, axis, index), (*shape[:axis], *i.array.shape, *shape[axis + 1 :]))


def _positive(i: Any, size: int) -> Any:
    found = np.asarray(i.array, np.int64)
    if found.size and (found.min() < -size or found.max() >= size):
        raise IndexError(f"an index is out of bounds for an axis of size {size}")
    return wrap(np.where(found < 0, found + size, found))


@operator("GatherElements")
def _gather_elements(context: Context, x: Any, i: Any, axis: int = 0) -> Any:
    return T.gather(x, axis, _positive(i, x.array.shape[axis]))


@operator("GatherND")
def _gather_nd(context: Context, x: Any, i: Any, batch_dims: int = 0) -> Any:
    index = np.asarray(i.array, np.int64)
    lead = tuple(np.ogrid[tuple(slice(n) for n in index.shape[:batch_dims])]) if batch_dims else ()
    count = index.ndim - 1 - batch_dims
    grids = [wrap(np.ascontiguousarray(np.asarray(g).reshape(g.shape + (1,) * count))) for g in lead]
    return x[(*grids, *(wrap(np.ascontiguousarray(index[..., k])) for k in range(index.shape[-1])))]


@operator("ScatterElements", "Scatter")
def _scatter_elements(context: Context, x: Any, i: Any, y: Any, axis: int = 0, reduction: str = "none") -> Any:
    index = _positive(i, x.array.shape[axis])
    if reduction == "none":
        return T.scatter(x, axis, index, y)
    if reduction == "add":
        return T.scatter_add(x, axis, index, y)
    kinds = {"mul": "prod", "max": "amax", "min": "amin"}
    return T.scatter_reduce(x, axis, index, y, kinds[reduction])


@operator("ScatterND")
def _scatter_nd(context: Context, x: Any, i: Any, y: Any, reduction: str = "none") -> Any:
    if reduction not in ("none", "add"):
        return _scattered_by_flat(x, i, y, {"mul": "prod", "max": "amax", "min": "amin"}[reduction])
    index = np.asarray(i.array, np.int64)
    parts = tuple(wrap(np.ascontiguousarray(index[..., k])) for k in range(index.shape[-1]))
    return T.index_put(x, parts, y, accumulate=reduction == "add")


def _scattered_by_flat(x: Any, i: Any, y: Any, kind: str) -> Any:
    shape, index = x.array.shape, np.asarray(i.array, np.int64)
    depth = index.shape[-1]
    rows = math.prod(shape[:depth])
    where = np.ravel_multi_index([index[..., k] % shape[k] for k in range(depth)], shape[:depth]).reshape(-1)
    flat, new = T.reshape(x, (rows, -1)), T.reshape(y, (where.size, -1))
    places = wrap(np.ascontiguousarray(np.broadcast_to(where[:, None], new.array.shape)))
    return T.reshape(T.scatter_reduce(flat, 0, places, new, kind), shape)


@operator("Pad")
def _pad(
    context: Context,
    x: Any,
    pads: Any = None,
    value: Any = None,
    axes: Any = None,
    mode: str = "constant",
    **older: Any,
) -> Any:
    widths = ints(older.get("paddings") if pads is None else pads)
    rank = x.array.ndim
    which = list(range(rank)) if axes is None else [a % rank for a in ints(axes)]
    half = len(widths) // 2
    by_axis = {a: (widths[k], widths[k + half]) for k, a in enumerate(which)}
    full = [by_axis.get(a, (0, 0)) for a in range(rank)]
    context.allow([n + p + q for n, (p, q) in zip(x.array.shape, full, strict=True)], x.array.dtype.itemsize)
    if mode == "constant":
        number = older.get("value", 0.0) if value is None or value.array.size == 0 else value.array.item()
        return F.pad(x, [w for pair in full[::-1] for w in pair], value=number)
    for axis, (before, after) in enumerate(full):
        if before or after:
            size = x.array.shape[axis]
            inner = np.arange(max(-before, 0), size - max(-after, 0))
            kinds = {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}
            places = np.pad(inner, (max(before, 0), max(after, 0)), mode=kinds[mode])  # type: ignore[call-overload]
            x = T.index_select(x, axis, wrap(places))
    return x


@operator("Trilu")
def _trilu(context: Context, x: Any, k: Any = None, upper: int = 1) -> Any:
    return (T.triu if upper else T.tril)(x, 0 if k is None else int(k.array))


@operator("NonZero")
def _nonzero(context: Context, x: Any) -> Any:
    return wrap(np.array(np.nonzero(x.array), np.int64).reshape(x.array.ndim, -1))


@operator("Compress")
def _compress(context: Context, x: Any, condition: Any, axis: int | None = None) -> Any:
    places = np.flatnonzero(condition.array)
    return T.index_select(T.reshape(x, (-1,)) if axis is None else x, 0 if axis is None else axis, wrap(places))


@operator("OneHot")
def _one_hot(context: Context, i: Any, depth: Any, values: Any, axis: int = -1) -> Any:
    count = int(depth.array.reshape(-1)[0])
    shape = list(i.array.shape)
    axis %= len(shape) + 1
    context.allow([*shape, count], values.array.dtype.itemsize)
    where = np.expand_dims(np.asarray(i.array, np.int64), axis)
    where = np.where(where < 0, where + count, where)
    grid = np.arange(count).reshape([-1 if k == axis else 1 for k in range(len(shape) + 1)])
    return T.where(wrap(where == grid), values[1], values[0])


@operator("TopK")
def _topk(
    context: Context, x: Any, k: Any = None, axis: int = -1, largest: int = 1, sorted: int = 1, **older: Any
) -> Any:
    count = int(older["k"] if k is None else k.array.reshape(-1)[0])
    order = T.argsort(x, dim=axis, descending=bool(largest), stable=True)
    places = T.narrow(order, axis, 0, count)
    return T.gather(x, axis, places), places


@operator("Unique")
def _unique(context: Context, x: Any, axis: int | None = None, sorted: int = 1) -> Any:
    values, first, inverse, counts = np.unique(
        np.asarray(x.array), return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    if not sorted:
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        values = np.take(values, order, 0 if axis is None else axis)
        first, inverse, counts = first[order], rank[inverse], counts[order]
    return wrap(values), *(wrap(v.reshape(-1).astype(np.int64)) for v in (first, inverse, counts))


@operator("DepthToSpace")
def _depth_to_space(context: Context, x: Any, blocksize: int, mode: str = "DCR") -> Any:
    n, c, h, w = x.array.shape
    b, rest = blocksize, c // blocksize**2
    if mode == "CRD":
        return T.reshape(permute_p(T.reshape(x, (n, rest, b, b, h, w)), (0, 1, 4, 2, 5, 3)), (n, rest, h * b, w * b))
    return T.reshape(permute_p(T.reshape(x, (n, b, b, rest, h, w)), (0, 3, 4, 1, 5, 2)), (n, rest, h * b, w * b))


@operator("SpaceToDepth")
def _space_to_depth(context: Context, x: Any, blocksize: int, mode: str = "DCR") -> Any:
    n, c, h, w = x.array.shape
    b = blocksize
    order = (0, 1, 3, 5, 2, 4) if mode == "CRD" else (0, 3, 5, 1, 2, 4)
    parts = permute_p(T.reshape(x, (n, c, h // b, b, w // b, b)), order)
    return T.reshape(parts, (n, c * b * b, h // b, w // b))


@operator("ReverseSequence")
def _reverse_sequence(context: Context, x: Any, lengths: Any, batch_axis: int = 1, time_axis: int = 0) -> Any:
    shape = x.array.shape
    steps = np.arange(shape[time_axis])
    ends = ints(lengths)
    rows = np.stack([np.where(steps < e, e - 1 - steps, steps) for e in ends], 1 if time_axis == 0 else 0)
    places = rows.reshape(*rows.shape, *(1,) * (len(shape) - 2))
    return T.gather(x, time_axis, wrap(np.ascontiguousarray(np.broadcast_to(places, shape))))


@operator("If")
def _if(context: Context, condition: Any, then_branch: Parsed, else_branch: Parsed) -> Any:
    from ..module import run_graph

    graph, node, values = then_branch if bool(condition.array) else else_branch, context.node, dict(context.values)
    values.update({name: wrap(np.array(array)) for name, array in graph.weights.items()})
    run_graph(context, graph, values, None)
    context.node = node
    return tuple(values[name] for name in graph.outputs)


@operator("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli")
def _random(context: Context, x: Any = None, dtype: int | None = None, **said: Any) -> Any:
    shape = said["shape"] if x is None else x.array.shape
    context.allow(shape)
    if context.node.op == "Bernoulli":
        return cast_p(T.bernoulli(cast_p(x, np.float32)), x.array.dtype if dtype is None else dtype_of(dtype))
    kind = dtype_of(dtype or 1) if x is None or dtype is not None else x.array.dtype
    if "Normal" in context.node.op:
        return cast_p(T.randn(*shape) * said.get("scale", 1.0) + said.get("mean", 0.0), kind)
    low, high = said.get("low", 0.0), said.get("high", 1.0)
    return cast_p(T.rand(*shape) * (high - low) + low, kind)
