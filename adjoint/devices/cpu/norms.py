"""Normalization of large arrays: mean 0 and variance 1 over some axes, then a scale and a shift; and back.

Two shapes of the same thing. *Rows*: the last axes are normalized, and scale and shift lie along them (layer norm).
*Planes*: the last axes share their moments, scale and shift, which are numbers per row of (rows, width) (batch,
group and instance norm). Rows are walked through in blocks that stay in a core's cache, shared by threads; by
compiled loops where there are any.
"""

from __future__ import annotations

import math
import threading
from typing import Any

import numpy as np

from . import blas, provider
from .rows import pieces, run_rows
from .threads import share

Ints = tuple[int, ...]

_BLOCK = 1 << 19  # elements of a block of rows: threads that take smaller ones meet at the interpreter's lock
_LEAST = 1 << 17  # elements below which a thread is not worth waking
_SHARE = 1 << 16  # elements for which a compiled loop takes as long as sharing it with threads that are awake costs
_COMPILED_BLOCK = 1 << 19  # loops walk row by row, and stop only to keep sums of scales' gradients short


def _blocks(work: Any, loop: Any, outs: tuple[Any, ...], *arrays: Any) -> None:
    """Call ``work(outs, arrays)`` on blocks of rows, or a compiled loop on pieces of them."""
    if loop is not None:
        given = (*arrays, *outs)
        kinds = "".join("r" if a.ndim == 2 else "v" for a in given)
        run_rows(loop, kinds, *given, count=pieces(arrays[0], _SHARE))
        return
    count, width = arrays[0].shape
    step = _rows_of_block(arrays[0])

    def part(start: int, stop: int) -> None:
        for i in range(start, stop, step):
            j = min(i + step, stop)
            work([None if o is None else o[i:j] for o in outs], [None if a is None else a[i:j] for a in arrays])

    with blas.alone:
        share(part, count, max(_LEAST // max(width, 1), 1))


def _rows_of_block(flat: Any) -> int:
    return max(min(len(flat), _BLOCK // max(flat.shape[1], 1)), 1)


def _flat(x: Any, width: int) -> Any:
    return np.ascontiguousarray(x).reshape(-1, width)


# --- Rows -------------------------------------------------------------------------------------------


def rows(x: Any, scale: Any, shift: Any, width: int, eps: Any, centered: bool) -> tuple[Any, Any, Any, Any]:
    """Return the normalized array; of rows of `width` means (None if not `centered`), variances, factors or None."""
    flat, loops = _flat(x, width), provider.loops("norm", x)
    out, (mean, var, rstd) = np.empty(x.shape, x.dtype), np.empty((3, len(flat)), x.dtype)
    if loops is not None:
        factor = np.ones(width, x.dtype) if scale is None else np.ascontiguousarray(scale).reshape(width)
        term = np.zeros(width, x.dtype) if shift is None else np.ascontiguousarray(shift).reshape(width)
        given = flat, factor, term, x.dtype.type(eps), centered, out.reshape(flat.shape), mean, var, rstd
        run_rows(loops.norm_rows, "rwwfbrvvv", *given, count=pieces(flat, _SHARE))
        return out, mean if centered else None, var, rstd
    eps, ones = x.dtype.type(eps), np.ones(width, x.dtype)
    scale, shift = (None if a is None else np.ascontiguousarray(a).reshape(width) for a in (scale, shift))

    def plain(outs: Any, arrays: Any) -> None:
        (o, m, v), (block,) = outs, arrays
        if centered:
            np.vecdot(block, ones, out=m)
            m /= width
            block = np.subtract(block, m[:, None], out=o)
        np.vecdot(block, block, out=v)
        v /= width
        np.multiply(block, (1 / np.sqrt(v + eps))[:, None], out=o)
        if scale is not None:
            o *= scales[: len(o)]
        if shift is not None:
            o += shifts[: len(o)]

    # A row repeated is multiplied faster than one that NumPy has to repeat.
    scales: Any
    shifts: Any
    scales, shifts = (None if a is None else np.tile(a, (_rows_of_block(flat), 1)) for a in (scale, shift))
    _blocks(plain, None, (out.reshape(flat.shape), mean, var), flat)
    return out, mean if centered else None, var, None


def _added(sums: Any) -> Any:
    """Return the sum of rows, of which there are few, in memory of its own."""
    return sums[0] + sums[1] if len(sums) == 2 else np.add.reduce(sums, 0)


def rows_back(g: Any, x: Any, scale: Any, mean: Any, rstd: Any, width: int, needs: Any) -> tuple[Any, Any, Any]:
    """Return the gradients of the array, the scale and the shift (flat), those that `needs` asks for."""
    flat, gs, loops = _flat(x, width), _flat(g, width), provider.loops("norm", x)
    centered = mean is not None
    out: Any = np.empty(x.shape, x.dtype) if needs[0] or loops is not None else None
    rstd, scale = rstd.reshape(-1), None if scale is None else np.ascontiguousarray(scale).reshape(width)
    mean = np.zeros(len(flat), x.dtype) if mean is None else mean.reshape(-1)
    weight = np.ones(width, x.dtype) if scale is None else scale
    if loops is not None:
        # Some room between the sums of pieces: two threads that write to one line of the cache wait for each other.
        sums = np.zeros((2, count := pieces(flat, _SHARE, _COMPILED_BLOCK), width + 32), x.dtype)
        given = gs, flat, weight, np.ascontiguousarray(mean), np.ascontiguousarray(rstd), centered
        run_rows(loops.norm_back_rows, "rrwvvbrpp", *given, out.reshape(flat.shape), *sums, count=count)
        gw, gb = (_added(part[:, :width]) if need else None for part, need in zip(sums, needs[1:], strict=True))
        return out if needs[0] else None, gw, gb
    gw, gb, lock = np.zeros(width, x.dtype), np.zeros(width, x.dtype), threading.Lock()
    tiled: Any = np.tile(weight, (_rows_of_block(flat), 1)) if scale is not None else None

    def ones_of(count: int) -> Any:
        return np.ones(count, x.dtype)

    def plain(outs: Any, arrays: Any) -> None:
        # Sums are products with vectors, which BLAS takes; a pass with a number per row costs two plain ones.
        part, block, m, r = arrays
        product = part * block
        along, level = (product @ weight, part @ weight) if centered else (product @ weight, 0 * m)
        along -= m * level
        add(r @ product - (r * m) @ part if needs[1] else 0, ones_of(len(part)) @ part if needs[2] else 0)
        if needs[0]:
            along *= -(r**3) / width
            o = outs[0]
            if scale is None:
                np.multiply(part, r[:, None], out=o)
            else:
                np.multiply(part, tiled[: len(part)], out=o)
                o *= r[:, None]
            o += np.multiply(block, along[:, None], out=product)
            if centered:
                o -= (along * m + r * level / width)[:, None]

    def add(scales: Any, shifts: Any) -> None:
        nonlocal gw, gb
        with lock:
            gw += scales
            gb += shifts

    _blocks(plain, None, (None if out is None else out.reshape(flat.shape),), gs, flat, mean, rstd)
    return out if needs[0] else None, gw if needs[1] else None, gb if needs[2] else None


# --- Planes -----------------------------------------------------------------------------------------


def plane(x_shape: Ints, axes: Ints, shape: Ints) -> int:
    """Return how many of the last axes are normalized together with one scale, 0 if none."""
    rank = len(x_shape)
    shape = (1,) * (rank - len(shape)) + shape
    k = 0
    while k < rank - 1 and rank - 1 - k in axes and shape[rank - 1 - k] == 1:
        k += 1
    return k


class Planes:
    """The moments of an array whose last `k` axes are planes, to normalize by and to go back with."""

    def __init__(self, x: Any, axes: Ints, k: int) -> None:
        self.lead, self.width, self.dtype = x.shape[:-k], math.prod(x.shape[-k:]), x.dtype
        self.tail = (1,) * k
        self.axes = tuple(a for a in axes if a < len(self.lead))
        self.count = self.width * math.prod(self.lead[a] for a in self.axes)
        self.loops = provider.loops("norm", x)

    def per_row(self, a: Any) -> Any:
        """Return numbers of a shape that broadcasts to the leading axes as one for each row, in the array's dtype."""
        return np.ascontiguousarray(np.broadcast_to(a, self.lead), self.dtype).reshape(-1)

    def without_tail(self, a: Any) -> Any:
        """Return an array without its last axes, which are of size 1."""
        return a.reshape(a.shape[: a.ndim - len(self.tail)])

    def moments(self, flat: Any) -> tuple[Any, Any]:
        """Return the mean and the variance of what is normalized together, of the leading axes' rank."""
        means, squares = np.empty(len(flat), flat.dtype), np.empty(len(flat), flat.dtype)
        ones = np.ones(self.width, flat.dtype)

        def work(outs: Any, arrays: Any) -> None:
            (m, s), (block,) = outs, arrays
            np.vecdot(block, ones, out=m)
            m /= self.width
            away = block - m[:, None]
            np.vecdot(away, away, out=s)

        _blocks(work, self.loops and self.loops.moments_rows, (means, squares), flat)
        means, squares = means.reshape(self.lead), squares.reshape(self.lead)
        mean = means.mean(self.axes, keepdims=True)
        between = means - mean
        between *= between
        between *= self.width
        between += squares
        return mean, between.sum(self.axes, keepdims=True) / self.count


def planes(x: Any, scale: Any, shift: Any, axes: Ints, k: int, eps: Any) -> tuple[Any, Any, Any]:
    """Return the normalized array, its means and its variances."""
    p = Planes(x, axes, k)
    flat, loops = _flat(x, p.width), p.loops
    mean, var = p.moments(flat)
    factor = 1 / np.sqrt(var + x.dtype.type(eps))
    if scale is not None:
        factor = factor * p.without_tail(scale)
    levels = np.zeros(len(flat), x.dtype) if shift is None else p.per_row(p.without_tail(shift))
    out = np.empty(x.shape, x.dtype)

    def work(outs: Any, arrays: Any) -> None:
        (o,), (block, m, f, s) = outs, arrays
        np.subtract(block, m[:, None], out=o)
        o *= f[:, None]
        if shift is not None:
            o += s[:, None]

    numbers = p.per_row(mean), p.per_row(factor), levels
    _blocks(work, loops and loops.affine_rows, (out.reshape(flat.shape),), flat, *numbers)
    return out, mean.reshape(*mean.shape, *p.tail), var.reshape(*var.shape, *p.tail)


def planes_back(
    g: Any, x: Any, scale: Any, mean: Any, rstd: Any, axes: Ints, k: int, needs: Any
) -> tuple[Any, Any, Any]:
    """Return the gradient of the array, and those of scale and shift before they are summed to their shape."""
    p = Planes(x, axes, k)
    flat, gs, loops = _flat(x, p.width), _flat(g, p.width), p.loops
    mean, rstd = p.without_tail(mean), p.without_tail(rstd)
    centers = p.per_row(mean)
    sums, dots = np.empty(len(flat), x.dtype), np.empty(len(flat), x.dtype)
    ones = np.ones(p.width, x.dtype)

    def add(outs: Any, arrays: Any) -> None:
        (s, d), (part, block, m) = outs, arrays
        np.vecdot(part, ones, out=s)
        np.vecdot(part, block - m[:, None], out=d)

    _blocks(add, loops and loops.dots_rows, (sums, dots), gs, flat, centers)
    sums, dots = sums.reshape(p.lead), dots.reshape(p.lead)
    gw = (dots * rstd).reshape(*p.lead, *p.tail) if needs[1] else None
    gb = sums.reshape(*p.lead, *p.tail) if needs[2] else None
    if not needs[0]:
        return None, gw, gb
    weight = x.dtype.type(1) if scale is None else p.without_tail(scale)
    along = rstd**3 * ((dots * weight).sum(p.axes, keepdims=True) / p.count)
    level = rstd * ((sums * weight).sum(p.axes, keepdims=True) / p.count)
    out = np.empty(x.shape, x.dtype)

    def combine(outs: Any, arrays: Any) -> None:
        (o,), (part, block, m, f, a, c) = outs, arrays
        away = block - m[:, None]
        away *= a[:, None]
        np.multiply(part, f[:, None], out=o)
        o -= away
        o -= c[:, None]

    numbers = (p.per_row(a) for a in (rstd * weight, along, level))
    _blocks(combine, loops and loops.combine_rows, (out.reshape(flat.shape),), gs, flat, centers, *numbers)
    return out, gw, gb
