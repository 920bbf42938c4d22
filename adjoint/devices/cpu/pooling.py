"""Pooling of large arrays: by oneDNN, or a few images at a time, which threads split."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._typing import DType, Kernel, NDArray
from . import provider, sizes
from .table import override
from .threads import share

Plans = tuple[Any, ...]  # of ops.windows.Taps
LINEAR = tuple(f"{name}{n}d" for name in (
    "avg_pool", "adaptive_avg_pool", "reflect_pad", "replicate_pad", "circular_pad", "upsample_nearest",
    "upsample_nearest_exact", "upsample_linear", "upsample_bilinear", "upsample_trilinear", "upsample_bicubic",
) for n in (1, 2, 3)) + ("upsample_bilinear2d_aa", "upsample_bicubic2d_aa", "channel_mean")  # fmt: skip


def _in_pieces(function: Kernel, dtype: DType, plans: Plans, x: NDArray, *more: NDArray) -> NDArray:
    """Return ``function(x, *more)``, computed for a few images at a time, split among threads."""
    rank = len(plans)
    arrays = [a.reshape(-1, *a.shape[a.ndim - rank :]) for a in (x, *more)]
    size = tuple(x.shape[-rank:]) if more else tuple(p.n_out for p in plans)
    result = np.empty((*x.shape[:-rank], *size), dtype)
    out = result.reshape(-1, *size)
    step = max(sizes.IMAGES * len(arrays[0]) // x.size, 1)

    def part(start: int, stop: int) -> None:
        for i in range(start, stop, step):
            j = min(i + step, stop)
            out[i:j] = function(*(a[i:j] for a in arrays))

    if x.size >= sizes.IMAGES_SPLIT:
        share(part, len(out), step)
    else:
        part(0, len(out))
    return result


def _is_large(x: NDArray, plans: Plans) -> bool:
    return type(x) is np.ndarray and x.size >= 2 * sizes.IMAGES and x.ndim > len(plans)


def _weighted_sums(definition: Kernel) -> Kernel:
    def weighted_sums(x: NDArray, plans: Plans) -> NDArray:
        if _is_large(x, plans) and None not in plans and x.dtype.kind == "f":
            return _in_pieces(lambda part: definition(part, plans), x.dtype, plans, x)
        return definition(x, plans)  # type: ignore[no-any-return]

    return weighted_sums


for _name in LINEAR:
    override.around(_name)(_weighted_sums)
    override.around(f"{_name}_backward")(_weighted_sums)


def _pooled(x: NDArray, plans: Plans, g: NDArray | None = None) -> NDArray | None:
    """Return what oneDNN makes of plain windows: their maxima, or the gradient of `x`; None if it cannot."""
    dnn = provider.onednn("pooling", x) if all(p.window for p in plans) else None
    if dnn is None or np.isnan(x.max()):  # oneDNN passes over NaNs
        return None
    windows, rank = tuple(p.window for p in plans), len(plans)
    images = np.ascontiguousarray(x).reshape(1, -1, *x.shape[-rank:])
    size = tuple(p.n_out for p in plans)
    if g is None:
        out = np.empty((*x.shape[:-rank], *size), x.dtype)
        return out if dnn.max_pool(images, windows, out.reshape(1, -1, *size)) else None
    out = np.empty(x.shape, x.dtype)
    done = dnn.max_pool_backward(
        np.ascontiguousarray(g).reshape(1, -1, *size), images, windows, out.reshape(images.shape)
    )  # fmt: skip
    return out if done else None


def _max_pool(definition: Kernel) -> Kernel:
    def max_pool(x: NDArray, plans: Plans) -> NDArray:
        out = _pooled(x, plans)
        if out is not None:
            return out
        if _is_large(x, plans):
            return _in_pieces(lambda part: definition(part, plans), x.dtype, plans, x)
        return definition(x, plans)  # type: ignore[no-any-return]

    return max_pool


for _rank in (1, 2, 3):
    override.around(f"max_pool{_rank}d")(_max_pool)
    override.around(f"adaptive_max_pool{_rank}d")(_max_pool)


@override.around("where_largest")
def _where_largest(definition: Kernel) -> Kernel:
    def where_largest(x: NDArray, plans: Plans) -> NDArray:
        if _is_large(x, plans):
            return _in_pieces(lambda part: definition(part, plans), np.dtype(np.int64), plans, x)
        return definition(x, plans)  # type: ignore[no-any-return]

    return where_largest


@override.around("max_pool_backward")
def _max_pool_backward(definition: Kernel) -> Kernel:
    def max_pool_backward(g: NDArray, x: NDArray, plans: Plans) -> NDArray:
        if not (type(g) is np.ndarray is type(x) and g.size and x.ndim > len(plans)):
            return definition(g, x, plans)  # type: ignore[no-any-return]
        out = _pooled(x, plans, g)
        if out is not None:
            return out
        even = (
            x.dtype.kind == "f" == g.dtype.kind
            and all(p.is_apart for p in plans)
            and all(0 < len(p.taps) < 128 and all(p.is_full(rows) for rows, _, _ in p.taps) for p in plans)
        )

        def work(x: NDArray, g: NDArray) -> NDArray:
            found = _from_apart(g, x, plans) if even else None
            return definition(g, x, plans) if found is None else found  # type: ignore[no-any-return]

        return _in_pieces(work, g.dtype, plans, x, g)

    return max_pool_backward


def _at(places: NDArray, axis: int) -> tuple[Any, ...]:
    return (..., places, *(slice(None),) * (-axis - 1))


def _from_apart(g: NDArray, x: NDArray, plans: Plans) -> NDArray | None:
    """Return the gradient of maxima where windows do not overlap and none is cut; None if there is a NaN."""
    axes: list[tuple[int, Any, Any]] = []
    for axis in range(-1, -len(plans) - 1, -1):
        taps = plans[axis].taps
        best: Any = x[_at(taps[0][1], axis)].copy()
        winner = np.zeros(best.shape, np.int8)
        for t in range(1, len(taps)):
            part = x[_at(taps[t][1], axis)]
            better = part > best
            np.maximum(winner, better.view(np.int8) * np.int8(t), out=winner)  # later taps have larger numbers
            np.maximum(best, part, out=best)
        axes.append((axis, x.shape, winner))
        x = best
    if np.isnan(x).any():  # `maximum` hands them on
        return None
    bits = g.view(f"i{g.itemsize}")  # a choice of bits: products would make NaNs of infinities
    for axis, shape, winner in reversed(axes):
        out = np.zeros(shape, bits.dtype)
        for t, (_, source, _) in enumerate(plans[axis].taps):
            np.bitwise_and(bits, -(winner == t).view(np.int8), out=out[_at(source, axis)])
        bits = out
    return bits.view(g.dtype)
