"""Sums of products over sliding windows: the three derivatives of one trilinear form.

With positions ``p = i * stride + k * dilation - before`` along each spatial axis, the form is
``sum(g[n, o, i] * w[o, c, k] * x[n, c, p])``, where `x` is zero outside of its bounds. Each function here is its
derivative by one factor, given the other two: `correlate` by g, `spread` by x, `weigh` by w. They copy windows
into columns, a few megabytes at a time, and multiply matrices.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...core.device import module_of
from . import blas, provider, threads

Ints = tuple[int, ...]

_BLOCK = 3 << 20  # bytes of columns at a time: what stays in a core's cache


class _Settings:
    """What programs allow cuDNN."""

    enabled = True
    tf32 = True


settings = _Settings()


def _gpu(*arrays: Any) -> Any:
    """Return the kernels of the GPU that arrays are on, if they have some for these; else None."""
    if provider.gpu(arrays[0]) is None:
        return None
    from ..cuda import convolution  # imports CuPy, which is there if an array of its own is

    return convolution if convolution.fits(*arrays) and all(a.size for a in arrays) else None


def _working(*arrays: Any) -> tuple[Any, ...]:
    """Return the arrays in a dtype that matrices are multiplied in."""
    if arrays[0].dtype.itemsize == 2 and arrays[0].dtype.kind not in "iu":
        return tuple(a.astype(np.float32) for a in arrays)
    return arrays


def _padded(x: Any, before: Ints, extent: Ints) -> Any:
    """Return `x` seen from ``-before`` on over `extent` positions, zeros where it has none."""
    shape = x.shape[2:]
    if not any(before) and all(e <= n for e, n in zip(extent, shape, strict=True)):
        return x[(..., *(slice(e) for e in extent))]
    out = module_of(x).zeros((*x.shape[:2], *extent), x.dtype)
    into, part = [], []
    for b, e, n in zip(before, extent, shape, strict=True):
        stop = min(n, e - b)
        into.append(slice(max(b, 0), max(b + stop, 0)))
        part.append(slice(max(-b, 0), max(stop, max(-b, 0))))
    out[(..., *into)] = x[(..., *part)]
    return out


def _extent(size: Ints, kernel: Ints, stride: Ints, dilation: Ints) -> Ints:
    """Return how many positions windows reach over."""
    return tuple((n - 1) * s + (k - 1) * d + 1 for n, k, s, d in zip(size, kernel, stride, dilation, strict=True))


def _tap(k: Ints, stride: Ints, dilation: Ints, size: Ints) -> tuple[Any, ...]:
    """Return the index of the positions that element `k` of every window is at."""
    return (..., *(
        slice(i * d, i * d + (n - 1) * s + 1, s) for i, s, d, n in zip(k, stride, dilation, size, strict=True)
    ))  # fmt: skip


def _taps(kernel: Ints) -> Iterator[Ints]:
    return itertools.product(*(range(k) for k in kernel))


def _seen(x: Any, shape: Ints, strides: Ints) -> Any:
    """Return another view of an array's memory; `as_strided` takes as long as a small convolution."""
    if type(x) is np.ndarray and x.flags.c_contiguous and x.dtype.isbuiltin == 1:
        return np.ndarray(shape, x.dtype, x, 0, strides)
    return module_of(x).lib.stride_tricks.as_strided(x, shape, strides)


def _windows(x: Any, kernel: Ints, stride: Ints, dilation: Ints, size: Ints) -> Any:
    """Return a view (N, C, *kernel, *size) of a padded array."""
    steps = x.strides[2:]
    return _seen(
        x,
        (*x.shape[:2], *kernel, *size),
        (*x.strides[:2], *(t * d for t, d in zip(steps, dilation, strict=True)),
         *(t * s for t, s in zip(steps, stride, strict=True))),
    )  # fmt: skip


def _columns(x: Any, kernel: Ints, stride: Ints, before: Ints, dilation: Ints, size: Ints) -> Iterator[Any]:
    """Yield (samples, rows, columns): windows as (C * kernel, samples * rows * ...), a block at a time."""
    x = _padded(x, before, _extent(size, kernel, stride, dilation))
    windows = _windows(x, kernel, stride, dilation, size)
    rank = len(kernel)
    windows = windows.transpose((*range(1, 2 + rank), 0, *range(2 + rank, 2 + 2 * rank)))
    count, height = len(x), size[0]
    sample = x.shape[1] * math.prod(kernel) * math.prod(size) * x.dtype.itemsize
    together = max(1, min(count, _BLOCK // max(sample, 1)))
    rows = max(1, min(height, _BLOCK * height // max(sample, 1))) if together == 1 else height
    depth = x.shape[1] * math.prod(kernel)
    buffer = None
    for n in range(0, count, together):
        for r in range(0, height, rows):
            part = windows[(..., slice(n, n + together), slice(r, r + rows), *(slice(None),) * (rank - 1))]
            if buffer is None or buffer.shape != part.shape:
                buffer = module_of(x).empty(part.shape, x.dtype)
            buffer[...] = part
            yield slice(n, n + together), slice(r, r + rows), buffer.reshape(depth, -1)


def _columns_of_many(x: Any, kernel: Ints, stride: Ints, before: Ints, dilation: Ints, size: Ints) -> Iterator[Any]:
    """Yield samples and columns as `_columns` does, but with the samples last: short rows lie together then."""
    extent, depth = _extent(size, kernel, stride, dilation), x.shape[1] * math.prod(kernel)
    together = max(_MANY, _BLOCK // (depth * math.prod(size) * x.dtype.itemsize))
    for n in range(0, len(x), together):
        part = np.ascontiguousarray(np.moveaxis(_padded(x[n : n + together], before, extent), 0, -1))
        channel, *steps, item = part.strides
        strides = (channel, *(t * d for t, d in zip(steps, dilation, strict=True)),
                   *(t * s for t, s in zip(steps, stride, strict=True)), item)  # fmt: skip
        windows = _seen(part, (part.shape[0], *kernel, *size, part.shape[-1]), strides)
        yield slice(n, n + together), windows.reshape(depth, -1)


def _is_of_many(x: Any, groups: int, size: Ints) -> bool:
    """Return whether there are many samples with short rows, so that the samples are laid out last."""
    return type(x) is np.ndarray and groups == 1 and len(x) >= _MANY and size[-1] <= _SHORT


def _is_pointwise(x: Any, kernel: Ints, stride: Ints, before: Ints, size: Ints) -> bool:
    """Return whether windows are single elements, all of them in order."""
    return (
        max(kernel) == 1 and max(stride) == 1 and not any(before) and tuple(x.shape[2:]) == size
    )  # fmt: skip


_SHARED = 1 << 22  # elements of windows from which on threads share the samples: BLAS has its own, which stay awake
_MANY, _SHORT = 16, 16  # samples that are worth being laid out last, and the length of rows up to which they are


def _is_shared(x: Any, kernel: Ints) -> bool:
    return (
        type(x) is np.ndarray and x.size * math.prod(kernel) >= _SHARED and len(x) > 1 and threads.count > 1
        and blas.is_known()
    )  # fmt: skip


def _share(work: Callable[[int, int], object], count: int) -> None:
    """Call ``work(start, stop)`` on parts of the samples, side by side; each multiplies matrices by itself."""
    with blas.alone:
        threads.share(work, count)


def _put(out: Any, start: int, stop: int, part: Any) -> None:
    out[start:stop] = part


def convolve(x: Any, w: Any, b: Any, stride: Ints, before: Ints, dilation: Ints, groups: int, size: Ints) -> Any:
    """Return `correlate` of x and w plus a bias, if there is one, per channel."""
    dnn = provider.onednn("convolution", x)
    if dnn is not None and w.size and math.prod(size):
        out = dnn.convolve(x, w, b, stride, before, dilation, groups, size)
        if out is not None:
            return out
    out = correlate(x, w, stride, before, dilation, groups, size)
    if b is not None:
        out += b.reshape((-1,) + (1,) * (out.ndim - 2))
    return out


def correlate(x: Any, w: Any, stride: Ints, before: Ints, dilation: Ints, groups: int, size: Ints) -> Any:
    """Return (N, O, *size) from x (N, C, ...) and w (O, C / groups, ...)."""
    xp, dtype, count, outs = module_of(x), x.dtype, len(x), len(w)
    if not (x.size and w.size and math.prod(size)):
        return xp.zeros((count, outs, *size), dtype)
    gpu = _gpu(x, w)
    if gpu is not None:
        return gpu.correlate(x, w, stride, before, dilation, groups, size)
    if _is_shared(x, w.shape[2:]):
        out = xp.empty((count, outs, *size), dtype)
        _share(lambda i, j: _put(out, i, j, _correlate(x[i:j], w, stride, before, dilation, groups, size)), count)
        return out
    return _correlate(x, w, stride, before, dilation, groups, size)


def _correlate(x: Any, w: Any, stride: Ints, before: Ints, dilation: Ints, groups: int, size: Ints) -> Any:
    xp, dtype, kernel = module_of(x), x.dtype, tuple(w.shape[2:])
    count, outs = len(x), len(w)
    x, w = _working(x, w)
    if w.shape[1] == 1 and outs == groups > 1:
        return _correlate_each(x, w, stride, before, dilation, size).astype(dtype, copy=False)
    weight = w.reshape(groups, outs // groups, -1)
    if _is_pointwise(x, kernel, stride, before, size):
        out = xp.matmul(weight, x.reshape(count, groups, weight.shape[2], -1))
        return out.reshape(count, outs, *size).astype(dtype, copy=False)
    out = xp.empty((count, outs, *size), x.dtype)
    if _is_of_many(x, groups, size):
        for samples, columns in _columns_of_many(x, kernel, stride, before, dilation, size):
            out[samples] = np.moveaxis(weight[0].dot(columns).reshape(outs, *size, -1), -1, 0)
        return out.astype(dtype, copy=False)
    for samples, rows, columns in _columns(x, kernel, stride, before, dilation, size):
        part = out[samples, :, rows]
        columns = columns.reshape(groups, weight.shape[2], -1)
        if len(part) == 1 and (groups == 1 or part.flags.c_contiguous):
            # One sample: what the product gives lies as the result does.
            flat = (part.reshape if part.flags.c_contiguous else _rows_of(part))(groups, outs // groups, -1)
            xp.matmul(weight, columns, out=flat)
            continue
        product = xp.matmul(weight, columns).reshape(outs, len(part), *part.shape[2:])
        part[...] = product.swapaxes(0, 1)
    return out.astype(dtype, copy=False)


def _rows_of(part: Any) -> Any:
    """Return `reshape` for a sample's block of rows, whose channels lie apart."""
    step = part.strides[1]

    def reshape(groups: int, outs: int, _: int) -> Any:
        width = math.prod(part.shape[2:])
        return module_of(part).lib.stride_tricks.as_strided(
            part, (groups, outs, width), (outs * step, step, part.dtype.itemsize)
        )

    return reshape


def _correlate_each(x: Any, w: Any, stride: Ints, before: Ints, dilation: Ints, size: Ints) -> Any:
    """Correlate every channel with a kernel of its own: a multiplication per element of the kernel."""
    xp, kernel = module_of(x), tuple(w.shape[2:])
    out = xp.empty((*x.shape[:2], *size), x.dtype)
    factors = w.reshape(len(w), -1).T.reshape((-1, len(w)) + (1,) * len(size))
    total: Any = None
    scratch: Any = None
    for n in range(len(x)):
        for k, part in enumerate(_planes(x[n], kernel, stride, before, dilation, size)):
            if total is None:
                total, scratch = xp.empty(part.shape, x.dtype), xp.empty(part.shape, x.dtype)
            if k == 0:
                xp.multiply(part, factors[0], out=total)
            else:
                xp.multiply(part, factors[k], out=scratch)
                xp.add(total, scratch, out=total)
        out[n] = total[(..., *(slice(m) for m in size))]
    return out


def _planes(x: Any, kernel: Ints, stride: Ints, before: Ints, dilation: Ints, size: Ints) -> Iterator[Any]:
    """Yield, for each element of the kernel, the elements of x (C, ...) that all windows have there.

    Where windows follow one another without gaps, what is yielded has rows as long as the padded input's, so
    that it lies in one piece; the ends of its rows mean nothing.
    """
    xp = module_of(x)
    extent = _extent(size, kernel, stride, dilation)
    if max(stride) > 1:
        padded = _padded(x[None], before, extent)[0]
        for k in _taps(kernel):
            yield padded[_tap(k, stride, dilation, size)]
        return
    area, channels = math.prod(extent), len(x)
    slack = sum((k - 1) * d for k, d in zip(kernel, dilation, strict=True)) * math.prod(extent[1:])
    memory = xp.zeros(channels * area + slack, x.dtype)
    memory[: channels * area].reshape(1, channels, *extent)[...] = _padded(x[None], before, extent)
    steps = [math.prod(extent[i + 1 :]) for i in range(len(extent))]
    item = x.dtype.itemsize
    for k in _taps(kernel):
        shift = sum(i * d * s for i, d, s in zip(k, dilation, steps, strict=True))
        yield _seen(memory[shift:], (channels, size[0], *extent[1:]), tuple(s * item for s in (area, *steps)))


def spread(g: Any, w: Any, stride: Ints, before: Ints, dilation: Ints, groups: int, size: Ints) -> Any:
    """Return (N, C, *size) from g (N, O, ...) and w (O, C / groups, ...): `correlate`, transposed."""
    xp, dtype, count, channels = module_of(g), g.dtype, len(g), w.shape[1] * groups
    if not (g.size and w.size and math.prod(size)):
        return xp.zeros((count, channels, *size), dtype)
    gpu = _gpu(g, w)
    if gpu is not None:
        return gpu.spread(g, w, stride, before, dilation, groups, size)
    dnn = provider.onednn("convolution", g)
    if dnn is not None:
        out = dnn.convolve_data(g, w, stride, before, dilation, groups, size)
        if out is not None:
            return out
    if _is_shared(g, w.shape[2:]):
        out = xp.empty((count, channels, *size), dtype)
        _share(lambda i, j: _put(out, i, j, _spread(g[i:j], w, stride, before, dilation, groups, size)), count)
        return out
    return _spread(g, w, stride, before, dilation, groups, size)


def _spread(g: Any, w: Any, stride: Ints, before: Ints, dilation: Ints, groups: int, size: Ints) -> Any:
    xp, dtype, kernel = module_of(g), g.dtype, tuple(w.shape[2:])
    count, outs, channels = len(g), len(w), w.shape[1] * groups
    g, w = _working(g, w)
    counts = tuple(g.shape[2:])
    few = 2 * channels * math.prod(counts) <= outs * math.prod(size)
    if type(g) is np.ndarray and groups == 1 and few and count >= _MANY:
        return _spread_together(g, w, stride, before, dilation, size).astype(dtype, copy=False)
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
    out = xp.empty((count, channels, *size), g.dtype)
    weight = w.reshape(groups, outs // groups, -1).swapaxes(1, 2)
    sample = channels * math.prod(kernel) * math.prod(counts) * g.dtype.itemsize
    together = max(1, min(count, _BLOCK // max(sample, 1)))
    inner = (..., *(slice(b, b + n) for b, n in zip(before, size, strict=True)))
    for n in range(0, count, together):
        part = g[n : n + together]
        full = xp.zeros((len(part), channels, *extent), g.dtype)
        if not each:
            columns = xp.matmul(weight, part.reshape(len(part), groups, outs // groups, -1))
            columns = columns.reshape(len(part), channels, *kernel, *counts)
        for k in _taps(kernel):
            if each:
                tap = part * w[(slice(None), 0, *k)].reshape((-1,) + (1,) * len(kernel))
            else:
                tap = columns[(slice(None), slice(None), *k)]
            full[_tap(k, stride, dilation, counts)] += tap
        out[n : n + together] = full[inner]
    return out.astype(dtype, copy=False)


def _spread_together(g: Any, w: Any, stride: Ints, before: Ints, dilation: Ints, size: Ints) -> Any:
    """Spread many samples of few channels, which lie last: what windows add is then added in long pieces."""
    kernel, counts, channels = tuple(w.shape[2:]), tuple(g.shape[2:]), w.shape[1]
    extent = tuple(
        max(e, b + n) for e, b, n in zip(_extent(counts, kernel, stride, dilation), before, size, strict=True)
    )
    weight = w.reshape(len(w), -1).T
    out = np.empty((len(g), channels, *size), g.dtype)
    together = max(_MANY, _BLOCK // (weight.shape[0] * math.prod(counts) * g.dtype.itemsize))
    inner = (slice(None), *(slice(b, b + n) for b, n in zip(before, size, strict=True)))
    for n in range(0, len(g), together):
        part = np.moveaxis(g[n : n + together], 0, -1)
        columns = weight.dot(part.reshape(len(w), -1)).reshape(channels, *kernel, *part.shape[1:])
        full = np.zeros((channels, *extent, part.shape[-1]), g.dtype)
        for k in _taps(kernel):
            full[(slice(None), *_tap(k, stride, dilation, counts)[1:])] += columns[(slice(None), *k)]
        out[n : n + together] = np.moveaxis(full[inner], -1, 0)
    return out


def weigh(x: Any, g: Any, stride: Ints, before: Ints, dilation: Ints, groups: int, kernel: Ints) -> Any:
    """Return the (O, C / groups, *kernel) that x (N, C, ...) and g (N, O, ...) give."""
    xp, dtype, outs, each = module_of(x), x.dtype, g.shape[1], x.shape[1] // groups
    if not (x.size and g.size):
        return xp.zeros((outs, each, *kernel), dtype)
    gpu = _gpu(x, g)
    if gpu is not None:
        return gpu.weigh(x, g, stride, before, dilation, groups, kernel)
    dnn = provider.onednn("convolution", x)
    if dnn is not None:
        out = dnn.convolve_weights(x, g, stride, before, dilation, groups, kernel)
        if out is not None:
            return out
    if _is_shared(x, kernel):
        parts: dict[int, Any] = {}
        _share(lambda i, j: parts.update({i: _weigh(x[i:j], g[i:j], stride, before, dilation, groups, kernel)}), len(x))
        first, *others = (parts[i] for i in sorted(parts))
        return sum(others, first)
    return _weigh(x, g, stride, before, dilation, groups, kernel)


def _weigh(x: Any, g: Any, stride: Ints, before: Ints, dilation: Ints, groups: int, kernel: Ints) -> Any:
    xp, dtype = module_of(x), x.dtype
    outs, each, size = g.shape[1], x.shape[1] // groups, tuple(g.shape[2:])
    x, g = _working(x, g)
    if each == 1 and outs == groups > 1:
        found = _weigh_each(x, g, stride, before, dilation, kernel)
        if xp.isfinite(found).all():  # else it may be a product of an infinite element and a zero beside the cotangent
            return found.astype(dtype, copy=False)
    if not _is_pointwise(x, kernel, stride, before, size):
        turned = _weigh_columns(x, g, stride, before, dilation, groups, kernel)
        return xp.ascontiguousarray(turned.swapaxes(1, 2)).reshape(outs, each, *kernel).astype(dtype, copy=False)
    total = xp.zeros((groups, outs // groups, each * math.prod(kernel)), x.dtype)
    flat = x.reshape(len(x), groups, each, -1)
    for n in range(len(x)):
        total += xp.matmul(g[n].reshape(groups, outs // groups, -1), flat[n].swapaxes(1, 2))
    return total.reshape(outs, each, *kernel).astype(dtype, copy=False)


def _weigh_columns(x: Any, g: Any, stride: Ints, before: Ints, dilation: Ints, groups: int, kernel: Ints) -> Any:
    """Return (groups, C / groups * kernel, O / groups): as left factors, columns take half the time."""
    xp, outs, size = module_of(x), g.shape[1], tuple(g.shape[2:])
    total = xp.zeros((groups, x.shape[1] // groups * math.prod(kernel), outs // groups), x.dtype)
    if _is_of_many(x, groups, size):
        for samples, columns in _columns_of_many(x, kernel, stride, before, dilation, size):
            total[0] += columns.dot(np.moveaxis(g[samples], 0, -1).reshape(outs, -1).T)
        return total
    for samples, rows, columns in _columns(x, kernel, stride, before, dilation, size):
        part = g[samples, :, rows].swapaxes(0, 1).reshape(groups, outs // groups, -1)
        total += xp.matmul(columns.reshape(groups, total.shape[1], -1), part.swapaxes(1, 2))
    return total


def _weigh_each(x: Any, g: Any, stride: Ints, before: Ints, dilation: Ints, kernel: Ints) -> Any:
    xp, size, channels = module_of(x), tuple(g.shape[2:]), g.shape[1]
    out = xp.zeros((math.prod(kernel), channels), x.dtype)
    wide: Any = None
    for n in range(len(x)):
        for k, part in enumerate(_planes(x[n], kernel, stride, before, dilation, size)):
            if wide is None:
                wide = xp.zeros(part.shape, g.dtype)
            if k == 0:
                wide[(..., *(slice(m) for m in size))] = g[n]
            flat = part.reshape(channels, -1, 1)
            out[k] += xp.matmul(wide.reshape(channels, 1, -1), flat)[:, 0, 0]
    return out.T.reshape(channels, 1, *kernel)


def unfolded(x: Any, kernel: Ints, stride: Ints, before: Ints, dilation: Ints, size: Ints) -> Any:
    """Return the windows of x (N, C, ...) as columns (N, C * kernel, size)."""
    gpu = _gpu(x)
    if gpu is not None:
        return gpu.unfolded(x, kernel, stride, before, dilation, size)
    windows = _windows(_padded(x, before, _extent(size, kernel, stride, dilation)), kernel, stride, dilation, size)
    return windows.reshape(len(x), x.shape[1] * math.prod(kernel), math.prod(size))


def folded(columns: Any, kernel: Ints, stride: Ints, before: Ints, dilation: Ints, size: Ints, shape: Ints) -> Any:
    """Return (N, C, *shape) with columns (N, C * kernel, size) added up in their places."""
    gpu = _gpu(columns)
    if gpu is not None:
        return gpu.folded(columns, kernel, stride, before, dilation, size, shape)
    channels = columns.shape[1] // math.prod(kernel)
    extent = tuple(
        max(e, b + n) for e, b, n in zip(_extent(size, kernel, stride, dilation), before, shape, strict=True)
    )
    full = module_of(columns).zeros((len(columns), channels, *extent), columns.dtype)
    columns = columns.reshape(len(columns), channels, *kernel, *size)
    for k in _taps(kernel):
        full[_tap(k, stride, dilation, size)] += columns[(slice(None), slice(None), *k)]
    return full[(..., *(slice(b, b + n) for b, n in zip(before, shape, strict=True)))]


def channel_sums(g: Any) -> Any:
    """Return the sum over all axes but the second; products with ones add faster than NumPy's sums."""
    if g.dtype.kind != "f" or g.dtype.itemsize < 4 or not g.flags.c_contiguous or not g.size:
        return g.sum(axis=(0, *range(2, g.ndim)))
    rows = g.reshape(len(g), g.shape[1], -1)
    return np.add.reduce(np.vecdot(rows, np.ones(rows.shape[2], g.dtype)), 0)
