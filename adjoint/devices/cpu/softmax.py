"""Softmax of large arrays, and its logarithm: in blocks of rows that threads share, compiled or by NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from . import few, provider
from .rows import run_rows
from .threads import share

LARGE = 1 << 15  # elements from which on blocks pay
SMALL = 1 << 12  # elements below which looking for the best way takes longer than going
_BLOCK = 1 << 19  # elements of a block: threads that take smaller ones meet at the interpreter's lock
_LEAST = 1 << 17  # elements below which a thread is not worth waking
_FAR = 1e-8  # a sum of exponentials below which rounding would show
_HIGH = 32  # a number whose exponential is far from the largest
_maximum: Any = np.maximum.reduce


def _rows(x: Any, axis: int) -> Any:
    """Return an array as (rows, n), or as (before, n, after) if the axis is not the last."""
    if axis == x.ndim - 1 and x.size:
        return x.reshape(-1, x.shape[axis])
    before, after = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    return x.reshape(before, x.shape[axis]) if after == 1 else x.reshape(before, x.shape[axis], after)


def _sums(x: Any) -> Any:
    """Return sums along axis 1, kept; of rows, as products with ones, which NumPy adds up faster."""
    if x.ndim == 2:
        return np.vecdot(x, np.ones(x.shape[1], x.dtype))[:, None]
    return np.add.reduce(x, 1, keepdims=True)


def _in_blocks(work: Any, out: Any, *arrays: Any) -> None:
    """Call ``work(*arrays, out)`` on blocks of rows."""
    width = max(math.prod(arrays[0].shape[1:]), 1)
    step = max(_BLOCK // width, 1)

    def part(start: int, stop: int) -> None:
        for i in range(start, stop, step):
            j = min(i + step, stop)
            work(*(a[i:j] for a in arrays), out[i:j])

    share(part, len(out), max(_LEAST // width, 1))


def _exponentials(x: Any, away: Any, out: Any) -> tuple[Any, Any]:
    """Write `x` less a level into `away`, and exponentials of that into `out`; return their sums and the level.

    One level for the whole block takes half the time of one per row, and does where no row lies far below it. Where
    only the exponentials are wanted (`away` is None) and none of them is large, it is 0.
    """
    if x.ndim == 2:
        level = x.max()
        if away is None and 0 <= level <= _HIGH:
            level = level * 0
            np.exp(x, out=out)
        else:
            np.exp(np.subtract(x, level, out=out if away is None else away), out=out)
        sums = _sums(out)
        if sums.min() > _FAR:  # False beside a NaN
            return sums, level
    level = _maximum(x, 1, keepdims=True)
    np.exp(np.subtract(x, level, out=out if away is None else away), out=out)
    return _sums(out), level


def _weights(x: Any, out: Any) -> None:
    sums, _ = _exponentials(x, None, out)
    out *= 1 / sums


def _logs(x: Any, out: Any) -> None:
    sums, _ = _exponentials(x, out, np.empty_like(out))
    out -= np.log(sums)


def _weights_back(g: Any, y: Any, out: Any) -> None:
    along = np.vecdot(g, y)[:, None] if g.ndim == 2 else np.add.reduce(g * y, 1, keepdims=True)
    np.subtract(g, along, out=out)
    out *= y


def _logs_back(g: Any, y: Any, out: Any) -> None:
    np.exp(y, out=out)
    out *= -_sums(g)
    out += g


def _loops(*arrays: Any) -> Any:
    """Return compiled loops over rows where they fit."""
    first = arrays[0]
    for a in arrays[1:]:
        if a.dtype is not first.dtype:
            return None
    return provider.loops("softmax", first) if first.ndim == 2 else None


def softmax(x: Any, axis: int, log: bool) -> Any:
    """Return the softmax along an axis, or its logarithm."""
    out = np.empty(x.shape, x.dtype)
    given, written = _rows(x, axis), _rows(out, axis)
    loops = _loops(given)
    if loops is None:
        _in_blocks(_logs if log else _weights, written, given)
    else:
        run_rows(loops.log_softmax_rows if log else loops.softmax_rows, "rr", np.ascontiguousarray(given), written)
    return out


def softmax_back(g: Any, y: Any, axis: int, log: bool) -> Any:
    """Return the gradient of the input, given the result `y` and its gradient."""
    out = np.empty(y.shape, y.dtype)
    given, written = [_rows(g, axis), _rows(y, axis)], _rows(out, axis)
    loops = _loops(*given)
    if loops is None:
        _in_blocks(_logs_back if log else _weights_back, written, *given)
    else:
        loop = loops.log_softmax_back_rows if log else loops.softmax_back_rows
        run_rows(loop, "rrr", *map(np.ascontiguousarray, given), written)
    return out


# --- For the cross entropy of rows ------------------------------------------------------------------


def logsumexp(x: Any) -> Any:
    """Return the logarithm of the sum of exponentials of each row."""
    if few.within(x, 16.0):
        return np.log(np.vecdot(np.exp(x), few.ones(x.shape[1], x.dtype)))
    if x.size < SMALL:
        top = _maximum(x, 1, keepdims=True)
        out = np.log(np.add.reduce(np.exp(x - top), 1))
        out += top[:, 0]
        return out
    out = np.empty(len(x), x.dtype)
    loops = provider.loops("softmax", x)
    x = x if loops is None else np.ascontiguousarray(x)

    def work(x: Any, out: Any) -> None:
        sums, level = _exponentials(x, None, np.empty(x.shape, x.dtype))
        np.log(sums[:, 0], out=out)
        out += level if level.ndim == 0 else level[:, 0]

    if loops is None:
        _in_blocks(work, out, x)
    else:
        run_rows(loops.logsumexp_rows, "rv", x, out)
    return out


def weighted(x: Any, logs: Any, share: Any) -> Any:
    """Return the softmax of rows with a given logsumexp, times a number for all or one for each."""
    if x.size < SMALL:
        out = np.exp(x - logs[:, None])
        out *= share if share.ndim == 0 else share[:, None]
        return out
    out = np.empty(x.shape, x.dtype)
    loops = provider.loops("softmax", x)
    x = x if loops is None else np.ascontiguousarray(x)
    shares = np.full(len(x), share, x.dtype) if share.ndim == 0 else np.ascontiguousarray(share, x.dtype)

    def work(x: Any, logs: Any, shares: Any, out: Any) -> None:
        np.subtract(x, logs[:, None], out=out)
        np.exp(out, out=out)
        out *= shares[:, None]

    if loops is None:
        _in_blocks(work, out, x, logs, shares)
    else:
        run_rows(loops.cross_entropy_back_rows, "rvvr", x, np.ascontiguousarray(logs, x.dtype), shares, out)
    return out
