"""Convolutions, transposed convolutions and the gradients of their weights, a few megabytes of windows at a time.

oneDNN computes them where it is installed; else windows are copied into columns and matrices multiplied, which threads
split by samples.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..._typing import Array, Shape
from . import blas, provider, sizes, threads
from .table import override


def _working(*arrays: Array) -> tuple[Any, ...]:
    """Return the arrays in a dtype that matrices are multiplied in."""
    if arrays[0].dtype.itemsize == 2 and arrays[0].dtype.kind not in "iu":
        return tuple(a.astype(np.float32) for a in arrays)
    return arrays


def _padded(x: Array, before: Shape, extent: Shape) -> Any:
    """Return `x` seen from ``-before`` on over `extent` positions, zeros where it has none."""
    shape = x.shape[2:]
    if not any(before) and all(e <= n for e, n in zip(extent, shape, strict=True)):
        return x[(..., *(slice(e) for e in extent))]
    out = np.zeros((*x.shape[:2], *extent), x.dtype)
    into: list[Any] = [...]
    part: list[Any] = [...]
    for b, e, n in zip(before, extent, shape, strict=True):
        stop = min(n, e - b)
        into.append(slice(max(b, 0), max(b + stop, 0)))
        part.append(slice(max(-b, 0), max(stop, max(-b, 0))))
    out[tuple(into)] = x[tuple(part)]
    return out


def _extent(size: Shape, kernel: Shape, stride: Shape, dilation: Shape) -> Shape:
    """Return how many positions windows reach over."""
    return tuple((n - 1) * s + (k - 1) * d + 1 for n, k, s, d in zip(size, kernel, stride, dilation, strict=True))


def _tap(k: Shape, stride: Shape, dilation: Shape, size: Shape) -> tuple[Any, ...]:
    """Return the index of the positions that element `k` of every window is at."""
    return (..., *(
        slice(i * d, i * d + (n - 1) * s + 1, s) for i, s, d, n in zip(k, stride, dilation, size, strict=True)
    ))  # fmt: skip


def _taps(kernel: Shape) -> Iterator[Shape]:
    return itertools.product(*(range(k) for k in kernel))


def _seen(x: Any, shape: Shape, strides: Shape) -> Array:
    """Return another view of an array's memory; `as_strided` takes as long as a small convolution."""
    if x.flags.c_contiguous and x.dtype.isbuiltin == 1:
        return np.ndarray(shape, x.dtype, x, 0, strides)
    return np.lib.stride_tricks.as_strided(x, shape, strides)


def _windows(x: Array, kernel: Shape, stride: Shape, dilation: Shape, size: Shape) -> Array:
    """Return a view (N, C, *kernel, *size) of a padded array."""
    steps = x.strides[2:]
    return _seen(
        x,
        (*x.shape[:2], *kernel, *size),
        (*x.strides[:2], *(t * d for t, d in zip(steps, dilation, strict=True)),
         *(t * s for t, s in zip(steps, stride, strict=True))),
    )  # fmt: skip


def _columns(x: Array, kernel: Shape, stride: Shape, before: Shape, dilation: Shape, size: Shape) -> Iterator[Any]:
    """Yield (samples, rows, columns): windows as (C * kernel, samples * rows * ...), a block at a time."""
    x = _padded(x, before, _extent(size, kernel, stride, dilation))
    windows = _windows(x, kernel, stride, dilation, size)
    rank = len(kernel)
    windows = windows.transpose((*range(1, 2 + rank), 0, *range(2 + rank, 2 + 2 * rank)))
    count, height = len(x), size[0]
    sample = x.shape[1] * math.prod(kernel) * math.prod(size) * x.dtype.itemsize
    together = max(1, min(count, sizes.COLUMNS // max(sample, 1)))
    rows = max(1, min(height, sizes.COLUMNS * height // max(sample, 1))) if together == 1 else height
    depth = x.shape[1] * math.prod(kernel)
    buffer = None
    for n in range(0, count, together):
        for r in range(0, height, rows):
            part = windows[(..., slice(n, n + together), slice(r, r + rows), *(slice(None),) * (rank - 1))]
            if buffer is None or buffer.shape != part.shape:
                buffer = np.empty(part.shape, x.dtype)
            buffer[...] = part
            yield slice(n, n + together), slice(r, r + rows), buffer.reshape(depth, -1)


def _columns_samples_last(
    x: Array, kernel: Shape, stride: Shape, before: Shape, dilation: Shape, size: Shape
) -> Iterator[Any]:
    """Yield samples and columns as `_columns` does, but with the samples last, which joins short rows in memory."""
    extent, depth = _extent(size, kernel, stride, dilation), x.shape[1] * math.prod(kernel)
    together = max(sizes.SAMPLES, sizes.COLUMNS // (depth * math.prod(size) * x.dtype.itemsize))
    for n in range(0, len(x), together):
        part = np.ascontiguousarray(np.moveaxis(_padded(x[n : n + together], before, extent), 0, -1))
        channel, *steps, item = part.strides
        strides = (channel, *(t * d for t, d in zip(steps, dilation, strict=True)),
                   *(t * s for t, s in zip(steps, stride, strict=True)), item)  # fmt: skip
        windows = _seen(part, (part.shape[0], *kernel, *size, part.shape[-1]), strides)
        yield slice(n, n + together), windows.reshape(depth, -1)


def _samples_last(x: Array, groups: int, size: Shape) -> bool:
    """Return whether there are many samples with short rows, so that the samples are laid out last."""
    return groups == 1 and len(x) >= sizes.SAMPLES and size[-1] <= sizes.SAMPLES_LAST


def _is_pointwise(x: Array, kernel: Shape, stride: Shape, before: Shape, size: Shape) -> bool:
    """Return whether windows are single elements, all of them in order."""
    return (
        max(kernel) == 1 and max(stride) == 1 and not any(before) and tuple(x.shape[2:]) == size
    )  # fmt: skip


def _is_split(x: Array, kernel: Shape) -> bool:
    return (
        x.size * math.prod(kernel) >= sizes.CONVOLUTION and len(x) > 1 and threads.count > 1
        and blas.is_known()
    )  # fmt: skip


def _split(work: Callable[[int, int], object], count: int) -> None:
    """Call ``work(start, stop)`` on parts of the samples, side by side; each multiplies matrices by itself."""
    with blas.alone:
        threads.share(work, count)


def _put(out: Any, start: int, stop: int, part: Array) -> None:
    out[start:stop] = part


def _is_full(x: Array, w: Array, *params: object) -> bool:
    return type(w) is np.ndarray and x.size > 0 and w.size > 0


@override("conv", when=_is_full)
def conv(
    x: Array, w: Array, b: Array | None, stride: Shape, before: Shape, dilation: Shape, groups: int, size: Shape
) -> Array:
    """Return (N, O, *size) from x (N, C, ...) and w (O, C / groups, ...)."""
    dnn = provider.onednn("convolution", x)
    out = None if dnn is None else dnn.convolve(x, w, b, stride, before, dilation, groups, size)
    if out is not None:
        return out  # type: ignore[no-any-return]
    if _is_split(x, w.shape[2:]):
        out = np.empty((len(x), len(w), *size), x.dtype)
        _split(lambda i, j: _put(out, i, j, _correlate(x[i:j], w, stride, before, dilation, groups, size)), len(x))
    else:
        out = _correlate(x, w, stride, before, dilation, groups, size)
    return _add_bias(out, b)


def _add_bias(out: Array, b: Array | None) -> Array:
    if b is not None:
        out += b.reshape((-1,) + (1,) * (out.ndim - 2))
    return out


def _correlate(x: Array, w: Any, stride: Shape, before: Shape, dilation: Shape, groups: int, size: Shape) -> Any:
    dtype, kernel = x.dtype, tuple(w.shape[2:])
    count, outs = len(x), len(w)
    x, w = _working(x, w)
    if w.shape[1] == 1 and outs == groups > 1:
        return _correlate_each(x, w, stride, before, dilation, size).astype(dtype, copy=False)
    weight = w.reshape(groups, outs // groups, -1)
    if _is_pointwise(x, kernel, stride, before, size):
        out = np.matmul(weight, x.reshape(count, groups, weight.shape[2], -1))
        return out.reshape(count, outs, *size).astype(dtype, copy=False)
    out = np.empty((count, outs, *size), x.dtype)
    if _samples_last(x, groups, size):
        for samples, columns in _columns_samples_last(x, kernel, stride, before, dilation, size):
            found: Any = weight[0].dot(columns).reshape(outs, *size, -1)
            out[samples] = np.moveaxis(found, -1, 0)
        return out.astype(dtype, copy=False)
    for samples, rows, columns in _columns(x, kernel, stride, before, dilation, size):
        part = out[samples, :, rows]
        columns = columns.reshape(groups, weight.shape[2], -1)
        if len(part) == 1 and (groups == 1 or part.flags.c_contiguous):
            # One sample: the product has the memory layout of the result.
            flat = (part.reshape if part.flags.c_contiguous else _rows_of(part))(groups, outs // groups, -1)
            np.matmul(weight, columns, out=flat)
            continue
        product = np.matmul(weight, columns).reshape(outs, len(part), *part.shape[2:])
        part[...] = product.swapaxes(0, 1)
    return out.astype(dtype, copy=False)


def _rows_of(part: Array) -> Any:
    """Return `reshape` for a sample's block of rows, whose channels are not adjacent in memory."""
    step = part.strides[1]

    def reshape(groups: int, outs: int, _: int) -> Any:
        width = math.prod(part.shape[2:])
        return np.lib.stride_tricks.as_strided(part, (groups, outs, width), (outs * step, step, part.dtype.itemsize))

    return reshape


def _correlate_each(x: Array, w: Array, stride: Shape, before: Shape, dilation: Shape, size: Shape) -> Array:
    """Correlate every channel with a kernel of its own: a multiplication per element of the kernel."""
    kernel = tuple(w.shape[2:])
    out = np.empty((*x.shape[:2], *size), x.dtype)
    factors = w.reshape(len(w), -1).T.reshape((-1, len(w)) + (1,) * len(size))
    total: Any = None
    scratch: Any = None
    for n in range(len(x)):
        for k, part in enumerate(_planes(x[n], kernel, stride, before, dilation, size)):
            if total is None:
                total, scratch = np.empty(part.shape, x.dtype), np.empty(part.shape, x.dtype)
            if k == 0:
                np.multiply(part, factors[0], out=total)
            else:
                np.multiply(part, factors[k], out=scratch)
                np.add(total, scratch, out=total)
        out[n] = total[(..., *(slice(m) for m in size))]
    return out


def _planes(x: Array, kernel: Shape, stride: Shape, before: Shape, dilation: Shape, size: Shape) -> Iterator[Any]:
    """Yield, for each element of the kernel, the elements of x (C, ...) that all windows have there.

    Where windows follow one another without gaps, the arrays have rows as long as the padded input's, so
    that they are contiguous; the ends of their rows mean nothing.
    """
    extent = _extent(size, kernel, stride, dilation)
    if max(stride) > 1:
        padded = _padded(x[None], before, extent)[0]
        for k in _taps(kernel):
            yield padded[_tap(k, stride, dilation, size)]
        return
    area, channels = math.prod(extent), len(x)
    slack = sum((k - 1) * d for k, d in zip(kernel, dilation, strict=True)) * math.prod(extent[1:])
    memory = np.zeros(channels * area + slack, x.dtype)
    memory[: channels * area].reshape(1, channels, *extent)[...] = _padded(x[None], before, extent)
    steps = [math.prod(extent[i + 1 :]) for i in range(len(extent))]
    item = x.dtype.itemsize
    for k in _taps(kernel):
        shift = sum(i * d * s for i, d, s in zip(k, dilation, steps, strict=True))
        yield _seen(memory[shift:], (channels, size[0], *extent[1:]), tuple(s * item for s in (area, *steps)))


@override("conv_transpose", when=_is_full)
def conv_transpose(
    x: Array, w: Array, b: Array | None, stride: Shape, before: Shape, dilation: Shape, groups: int, size: Shape
) -> Array:
    """Return (N, C, *size) from x (N, O, ...) and w (O, C / groups, ...): the gradient of a convolution."""
    dnn = provider.onednn("convolution", x)
    out = None if dnn is None else dnn.convolve_data(x, w, stride, before, dilation, groups, size)
    if out is None and _is_split(x, w.shape[2:]):
        out = np.empty((len(x), w.shape[1] * groups, *size), x.dtype)
        _split(lambda i, j: _put(out, i, j, _transposed(x[i:j], w, stride, before, dilation, groups, size)), len(x))
    elif out is None:
        out = _transposed(x, w, stride, before, dilation, groups, size)
    return _add_bias(out, b)


def _transposed(g: Array, w: Array, stride: Shape, before: Shape, dilation: Shape, groups: int, size: Shape) -> Any:
    dtype, kernel = g.dtype, tuple(w.shape[2:])
    count, outs, channels = len(g), len(w), w.shape[1] * groups
    g, w = _working(g, w)
    counts = tuple(g.shape[2:])
    few = 2 * channels * math.prod(counts) <= outs * math.prod(size)
    if groups == 1 and few and count >= sizes.SAMPLES:
        return _transposed_samples_last(g, w, stride, before, dilation, size).astype(dtype, copy=False)
    if max(stride) == 1:
        # Every element of the result has a window of its own.
        turned = w.reshape(groups, outs // groups, w.shape[1], *kernel).swapaxes(1, 2)
        turned = turned[(..., *(slice(None, None, -1),) * len(kernel))].reshape(channels, outs // groups, *kernel)
        around = tuple((k - 1) * d - b for k, d, b in zip(kernel, dilation, before, strict=True))
        return _correlate(g, turned, stride, around, dilation, groups, size).astype(dtype, copy=False)
    extent = tuple(
        max(e, b + n) for e, b, n in zip(_extent(counts, kernel, stride, dilation), before, size, strict=True)
    )
    each = w.shape[1] == 1 and outs == groups > 1
    out = np.empty((count, channels, *size), g.dtype)
    weight = w.reshape(groups, outs // groups, -1).swapaxes(1, 2)
    sample = channels * math.prod(kernel) * math.prod(counts) * g.dtype.itemsize
    together = max(1, min(count, sizes.COLUMNS // max(sample, 1)))
    inner: tuple[Any, ...] = (..., *(slice(b, b + n) for b, n in zip(before, size, strict=True)))
    for n in range(0, count, together):
        part = g[n : n + together]
        full = np.zeros((len(part), channels, *extent), g.dtype)
        if not each:
            columns = np.matmul(weight, part.reshape(len(part), groups, outs // groups, -1))
            columns = columns.reshape(len(part), channels, *kernel, *counts)
        for k in _taps(kernel):
            if each:
                tap = part * w[(slice(None), 0, *k)].reshape((-1,) + (1,) * len(kernel))
            else:
                tap = columns[(slice(None), slice(None), *k)]
            full[_tap(k, stride, dilation, counts)] += tap
        out[n : n + together] = full[inner]
    return out.astype(dtype, copy=False)


def _transposed_samples_last(g: Any, w: Array, stride: Shape, before: Shape, dilation: Shape, size: Shape) -> Array:
    """Convolve many samples of few channels, whose axis comes last: windows are then added in long rows."""
    kernel, counts, channels = tuple(w.shape[2:]), tuple(g.shape[2:]), w.shape[1]
    extent = tuple(
        max(e, b + n) for e, b, n in zip(_extent(counts, kernel, stride, dilation), before, size, strict=True)
    )
    weight = w.reshape(len(w), -1).T
    out = np.empty((len(g), channels, *size), g.dtype)
    together = max(sizes.SAMPLES, sizes.COLUMNS // (weight.shape[0] * math.prod(counts) * g.dtype.itemsize))
    inner = (slice(None), *(slice(b, b + n) for b, n in zip(before, size, strict=True)))
    for n in range(0, len(g), together):
        part: Any = g[n : n + together]
        part = np.moveaxis(part, 0, -1)
        columns = weight.dot(part.reshape(len(w), -1)).reshape(channels, *kernel, *part.shape[1:])
        full = np.zeros((channels, *extent, part.shape[-1]), g.dtype)
        for k in _taps(kernel):
            full[(slice(None), *_tap(k, stride, dilation, counts)[1:])] += columns[(slice(None), *k)]
        out[n : n + together] = np.moveaxis(full[inner], -1, 0)
    return out


@override("conv_weight", when=_is_full)
def conv_weight(x: Array, y: Array, stride: Shape, before: Shape, dilation: Shape, groups: int, kernel: Shape) -> Array:
    """Return the gradient (O, C / groups, *kernel) for a weight from x (N, C, ...) and y (N, O, ...)."""
    dnn = provider.onednn("convolution", x)
    out = None if dnn is None else dnn.convolve_weights(x, y, stride, before, dilation, groups, kernel)
    if out is not None:
        return out  # type: ignore[no-any-return]
    if not _is_split(x, kernel):
        return _weight(x, y, stride, before, dilation, groups, kernel)
    parts: dict[int, Array] = {}
    _split(lambda i, j: parts.update({i: _weight(x[i:j], y[i:j], stride, before, dilation, groups, kernel)}), len(x))
    first, *others = (parts[i] for i in sorted(parts))
    return sum(others, first)


def _weight(x: Array, g: Array, stride: Shape, before: Shape, dilation: Shape, groups: int, kernel: Shape) -> Array:
    dtype = x.dtype
    outs, each, size = g.shape[1], x.shape[1] // groups, tuple(g.shape[2:])
    x, g = _working(x, g)
    if each == 1 and outs == groups > 1:
        found = _weight_each(x, g, stride, before, dilation, kernel)
        if np.isfinite(found).all():  # else it may be a product of an infinite element and a zero beside the cotangent
            return found.astype(dtype, copy=False)
    if not _is_pointwise(x, kernel, stride, before, size):
        turned = _weight_columns(x, g, stride, before, dilation, groups, kernel)
        return np.ascontiguousarray(turned.swapaxes(1, 2)).reshape(outs, each, *kernel).astype(dtype, copy=False)
    total = np.zeros((groups, outs // groups, each * math.prod(kernel)), x.dtype)
    flat = x.reshape(len(x), groups, each, -1)
    for n in range(len(x)):
        total += np.matmul(g[n].reshape(groups, outs // groups, -1), flat[n].swapaxes(1, 2))
    return total.reshape(outs, each, *kernel).astype(dtype, copy=False)


def _weight_columns(
    x: Array, g: Any, stride: Shape, before: Shape, dilation: Shape, groups: int, kernel: Shape
) -> Array:
    """Return (groups, C / groups * kernel, O / groups): as left factors, columns take half the time."""
    outs, size = g.shape[1], tuple(g.shape[2:])
    total = np.zeros((groups, x.shape[1] // groups * math.prod(kernel), outs // groups), x.dtype)
    if _samples_last(x, groups, size):
        for samples, columns in _columns_samples_last(x, kernel, stride, before, dilation, size):
            part: Any = g[samples]
            total[0] += columns.dot(np.moveaxis(part, 0, -1).reshape(outs, -1).T)
        return total
    for samples, rows, columns in _columns(x, kernel, stride, before, dilation, size):
        part = g[samples, :, rows].swapaxes(0, 1).reshape(groups, outs // groups, -1)
        total += np.matmul(columns.reshape(groups, total.shape[1], -1), part.swapaxes(1, 2))
    return total


def _weight_each(x: Array, g: Array, stride: Shape, before: Shape, dilation: Shape, kernel: Shape) -> Array:
    size, channels = tuple(g.shape[2:]), g.shape[1]
    out = np.zeros((math.prod(kernel), channels), x.dtype)
    wide: Any = None
    for n in range(len(x)):
        for k, part in enumerate(_planes(x[n], kernel, stride, before, dilation, size)):
            if wide is None:
                wide = np.zeros(part.shape, g.dtype)
            if k == 0:
                wide[(..., *(slice(m) for m in size))] = g[n]
            flat = part.reshape(channels, -1, 1)
            out[k] += np.matmul(wide.reshape(channels, 1, -1), flat)[:, 0, 0]
    return out.T.reshape(channels, 1, *kernel)


def _are_rows(g: Array) -> bool:
    return g.dtype.kind == "f" and g.dtype.itemsize > 2 and g.flags.c_contiguous and g.size > 0


@override("conv", gradient="b", when=_are_rows)
@override("conv_transpose", gradient="b", when=_are_rows)
def channel_sums(g: Array) -> Array:
    """Return the sum over all axes but the second; dot products with ones add faster than NumPy's sums."""
    rows = g.reshape(len(g), g.shape[1], -1)
    return np.add.reduce(np.vecdot(rows, np.ones(rows.shape[2], g.dtype)), 0)  # type: ignore[no-any-return]
