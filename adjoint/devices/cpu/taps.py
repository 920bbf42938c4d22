"""Windows along an axis, as a list of taps: what pooling, padding and resizing have in common.

A tap says which places of the result read which places of the input, and with what weight; no place of the
result occurs twice in it. A window of k elements is k taps, ragged where windows reach over the edge. Sums over
windows are linear, and transposing the list gives their gradient; maxima run over the same list.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...core.device import module_of
from . import provider
from .threads import share

ALL = slice(None)
_PIECE = 1 << 17  # elements of images that are pooled at a time
_SHARED = 1 << 19  # elements of images from which on threads share the pieces


def _span(numbers: Any) -> Any:
    """Return places as a slice if they are evenly spaced."""
    count = len(numbers)
    if count < 2:
        return slice(int(numbers[0]), int(numbers[0]) + 1) if count else slice(0, 0)
    step = int(numbers[1] - numbers[0])
    if step > 0 and (numbers[1:] - numbers[:-1] == step).all():
        return slice(int(numbers[0]), int(numbers[-1]) + 1, step)
    return numbers


def _places(span: Any, size: int) -> Any:
    return np.arange(size)[span]


class Taps:
    """How each of `n_out` places along an axis is made of some of `n_in` places.

    `taps` are (rows, source, weights): slices or arrays of places, and weights or None for ones. What is read
    is divided by `divide_in` first, and the result by `divide_out`; both are vectors or None.
    """

    __slots__ = (
        "_first",
        "_table",
        "_transposed",
        "divide_in",
        "divide_out",
        "n_in",
        "n_out",
        "on_gpu",
        "taps",
        "window",
    )

    def __init__(self, n_in: int, n_out: int, taps: Any, divide_in: Any = None, divide_out: Any = None) -> None:
        self.n_in, self.n_out, self.divide_in, self.divide_out = n_in, n_out, divide_in, divide_out
        self.taps: tuple[tuple[Any, Any, Any], ...] = tuple(
            (_span(rows), _span(source), weights) for rows, source, weights in taps if len(rows)
        )
        self._transposed: Taps | None = None
        self._first: Any = None
        self._table: Any = None
        self.on_gpu: dict[Any, Any] = {}  # lists that kernels read, by device and dtype
        self.window: tuple[int, ...] | None = None  # kernel, stride, padding, dilation, where that says it all

    @classmethod
    def of(cls, n_in: int, index: Any, weights: Any = None, valid: Any = None, divide_out: Any = None) -> Taps:
        """Return taps from a table: row i of `index` has the places that place i of the result is made of."""
        n_out, count = index.shape
        rows = np.arange(n_out)
        taps = []
        for t in range(count):
            keep = ALL if valid is None or valid[:, t].all() else valid[:, t]
            taps.append((rows[keep], index[keep, t], None if weights is None else weights[keep, t]))
        return cls(n_in, n_out, taps, divide_out=divide_out)

    @property
    def scales(self) -> bool:
        """Whether anything is multiplied or divided."""
        return self.divide_in is not None or self.divide_out is not None or any(w is not None for _, _, w in self.taps)

    @property
    def transposed(self) -> Taps:
        """The taps of the transposed sum."""
        if self._transposed is None:
            taps: list[Any] = []
            for rows, source, weights in self.taps:
                rows, source = _places(rows, self.n_out), _places(source, self.n_in)
                order = np.argsort(source, kind="stable")
                ordered = source[order]
                # A place that was read several times gets a tap for each time.
                starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
                time = np.arange(len(order)) - np.repeat(starts, np.diff(np.r_[starts, len(order)]))
                for t in range(int(time.max()) + 1):
                    chosen = order[time == t]
                    taps.append((source[chosen], rows[chosen], None if weights is None else weights[chosen]))
            self._transposed = Taps(self.n_out, self.n_in, taps, self.divide_out, self.divide_in)
            self._transposed._transposed = self
        return self._transposed

    @property
    def table(self) -> Any:
        """The place that each place of the result reads by each tap (0 where it does not), row by row."""
        if self._table is None:
            self._table = np.zeros((self.n_out, len(self.taps)), np.int64)
            for t, (rows, source, _) in enumerate(self.taps):
                self._table[rows, t] = _places(source, self.n_in)
        return self._table

    @property
    def first_tap(self) -> Any:
        """The number of the first tap of each place of the result."""
        if self._first is None:
            self._first = np.zeros(self.n_out, np.int64)
            for t in range(len(self.taps) - 1, -1, -1):
                self._first[self.taps[t][0]] = t
        return self._first

    @property
    def first(self) -> Any:
        """The first place that each place of the result reads."""
        return self.table[np.arange(self.n_out), self.first_tap] if self.taps else self.first_tap

    @property
    def is_apart(self) -> bool:
        """Whether no place of the input is read twice."""
        counts = np.zeros(self.n_in, np.int64)
        for _, source, _ in self.taps:
            counts += np.bincount(_places(source, self.n_in), minlength=self.n_in)
        return bool((counts < 2).all())

    def is_full(self, rows: Any) -> bool:
        """Return whether a tap has all places of the result."""
        return isinstance(rows, slice) and rows.start == 0 and rows.stop == self.n_out and rows.step in (None, 1)

    def __repr__(self) -> str:
        return f"Taps({self.n_in} -> {self.n_out}, {len(self.taps)} taps)"


def _read(x: Any, span: Any, axis: int) -> Any:
    """Return places along an axis, which is counted from the end: a view if they are evenly spaced."""
    if isinstance(span, slice):
        return x[(..., span, *(ALL,) * (-axis - 1))]
    return x.take(module_of(x).asarray(span), axis=axis)


def _at(span: Any, axis: int) -> tuple[Any, ...]:
    return (..., span, *(ALL,) * (-axis - 1))


def _vector(values: Any, x: Any, axis: int) -> Any:
    """Return numbers per place, to be multiplied with `x`."""
    real = x.real.dtype if x.dtype.kind == "c" else x.dtype
    return module_of(x).asarray(values, real).reshape((-1,) + (1,) * (-axis - 1))


def _start(taps: Taps) -> int:
    """Return the number of a tap with which all of the result can begin, or -1."""
    return next((i for i, (rows, _, _) in enumerate(taps.taps) if taps.is_full(rows)), -1)


def _empty(x: Any, taps: Taps, axis: int, value: Any) -> Any:
    shape = list(x.shape)
    shape[axis] = taps.n_out
    return module_of(x).full(shape, value, x.dtype)


def _mix(x: Any, taps: Taps, axis: int, divided: bool = True) -> Any:
    if divided and taps.divide_in is not None:
        x = x / _vector(taps.divide_in, x, axis)
    start = _start(taps)
    out = _empty(x, taps, axis, 0) if start < 0 else None
    for i in sorted(range(len(taps.taps)), key=lambda i: i != start):
        rows, source, weights = taps.taps[i]
        part = _read(x, source, axis)
        if weights is not None:
            part = part * _vector(weights, x, axis)
        if out is None:
            out = part.copy(order="C") if weights is None and isinstance(source, slice) else part
        elif taps.is_full(rows):
            out += part
        else:
            out[_at(rows, axis)] += part
    if divided and taps.divide_out is not None:
        out /= _vector(taps.divide_out, x, axis)
    return out


def _mix_integers(x: Any, axes: list[tuple[Taps, int]]) -> Any:
    """Return averages of integers, divided once, at the end, and rounded toward zero."""
    total: Any = 1
    for taps, axis in axes:
        x = _mix(x, taps, axis, divided=False)
        if taps.divide_out is not None:
            total = total * taps.divide_out.reshape((-1,) + (1,) * (-axis - 1))
    return np.trunc(x / module_of(x).asarray(total))


def _gpu(x: Any) -> Any:
    """Return the kernels of the GPU that an array is on, if they have some for it; else None."""
    if provider.gpu(x) is None:
        return None
    from ..cuda import windows  # imports CuPy, which is there if an array of its own is

    return windows if windows.fits(x) else None


def mix(x: Any, plans: tuple[Taps | None, ...]) -> Any:
    """Return the weighted sums that the plans of the last axes describe (None: an axis stays as it is)."""
    if None not in plans and _is_large(x, plans) and x.dtype.kind == "f":  # type: ignore[arg-type]
        return _in_pieces(lambda part: _mixed(part, plans), x.dtype, plans, x)  # type: ignore[arg-type]
    return _mixed(x, plans)


def _mixed(x: Any, plans: tuple[Taps | None, ...]) -> Any:
    dtype = x.dtype
    axes = [(p, i - len(plans)) for i, p in enumerate(plans) if p is not None]
    if not axes:
        return x.copy()
    scales = any(p.scales for p, _ in axes)
    if dtype.itemsize <= 2 and dtype.kind not in "biu" and type(x) is np.ndarray:
        x = x.astype(np.float32)
    elif dtype.kind in "iu" and scales:
        x = x.astype(np.float64)
    if dtype.kind == "i" and scales and not any(w is not None for p, _ in axes for _, _, w in p.taps):
        return _mix_integers(x, axes).astype(dtype)
    # What makes the array smaller comes first.
    axes.sort(key=lambda a: a[0].n_out / max(a[0].n_in, 1))
    gpu = _gpu(x)
    if gpu is not None:
        return gpu.mixed(x, axes)
    for taps, axis in axes:
        x = _mix(x, taps, axis)
    if x.dtype == dtype:
        return x
    if dtype.kind == "u":
        x = x.round().clip(0, np.iinfo(dtype).max)
    return x.astype(dtype)


def _lowest(dtype: Any) -> Any:
    return np.iinfo(dtype).min if dtype.kind in "iu" else False if dtype.kind == "b" else -np.inf


def _in_pieces(function: Any, dtype: Any, plans: tuple[Taps, ...], x: Any, *more: Any) -> Any:
    """Return ``function(x, *more)``, computed for a few images at a time, which threads share."""
    rank = len(plans)
    arrays = [a.reshape(-1, *a.shape[a.ndim - rank :]) for a in (x, *more)]
    size = tuple(x.shape[-rank:]) if more else tuple(p.n_out for p in plans)
    result = np.empty((*x.shape[:-rank], *size), dtype)
    out = result.reshape(-1, *size)
    step = max(_PIECE * len(arrays[0]) // x.size, 1)

    def part(start: int, stop: int) -> None:
        for i in range(start, stop, step):
            j = min(i + step, stop)
            out[i:j] = function(*(a[i:j] for a in arrays))

    if x.size >= _SHARED:
        share(part, len(out), step)
    else:
        part(0, len(out))
    return result


def _is_large(x: Any, plans: tuple[Taps, ...]) -> bool:
    return type(x) is np.ndarray and x.size >= 2 * _PIECE and x.ndim > len(plans)


def _pooled(x: Any, plans: tuple[Taps, ...], g: Any = None) -> Any:
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
    done = dnn.max_pool_back(
        np.ascontiguousarray(g).reshape(1, -1, *size), images, windows, out.reshape(images.shape)
    )  # fmt: skip
    return out if done else None


def largest(x: Any, plans: tuple[Taps, ...]) -> Any:
    """Return the largest element of each window; a NaN is larger than everything."""
    gpu = _gpu(x)
    out = _pooled(x, plans) if gpu is None else gpu.largest(x, plans)
    if out is not None:
        return out
    if _is_large(x, plans):
        return _in_pieces(lambda part: _largest(part, plans), x.dtype, plans, x)
    return _largest(x, plans)


def _largest(x: Any, plans: tuple[Taps, ...]) -> Any:
    xp = module_of(x)
    for axis in range(-1, -len(plans) - 1, -1):
        taps = plans[axis]
        start = _start(taps)
        out = _empty(x, taps, axis, _lowest(x.dtype)) if start < 0 else None
        for i in sorted(range(len(taps.taps)), key=lambda i: i != start):
            rows, source, _ = taps.taps[i]
            part = _read(x, source, axis)
            if out is None:
                out = part.copy(order="C") if isinstance(source, slice) else part
            elif isinstance(rows, slice):
                target = out[_at(rows, axis)]
                xp.maximum(target, part, out=target)
            else:
                out[_at(rows, axis)] = xp.maximum(out[_at(rows, axis)], part)
        x = out
    return x


def where_largest(x: Any, plans: tuple[Taps, ...]) -> Any:
    """Return where in the flattened last axes the largest element of each window is: the first of equals.

    Every axis remembers the number of the tap that won, in a byte if that is enough; numbers become places at
    the end.
    """
    if _is_large(x, plans):
        return _in_pieces(lambda part: _where_largest(part, plans), np.int64, plans, x)
    gpu = _gpu(x)
    out = None if gpu is None else gpu.where_largest(x, plans)
    return _where_largest(x, plans) if out is None else out


def _where_largest(x: Any, plans: tuple[Taps, ...]) -> Any:
    xp = module_of(x)
    size = x.shape[-len(plans) :]
    has_nan = x.dtype.kind not in "biu" and bool(xp.isnan(x).any())
    winners: list[Any] = []  # of the axes so far, the last axis first
    for axis in range(-1, -len(plans) - 1, -1):
        x, winners = _contest(x, plans[axis], axis, winners, has_nan)
    place: Any = 0
    for axis, winner in zip(range(-len(plans), 0), reversed(winners), strict=True):
        taps = plans[axis]
        rows = xp.arange(taps.n_out).reshape((-1,) + (1,) * (-axis - 1)) * len(taps.taps)
        place = place * size[axis] + xp.asarray(taps.table).take(winner + rows)
    return place


def put_back_on_gpu(g: Any, x: Any, plans: tuple[Taps, ...]) -> Any:
    """Return what `put_back` does of arrays on a GPU; None of others, and if windows are not of one size."""
    gpu = None if provider.gpu(g) is None else _gpu(x)
    return None if gpu is None else gpu.put_back(g, x, plans)


def put_back(g: Any, x: Any, plans: tuple[Taps, ...]) -> Any:
    """Return zeros of the shape of `x`, with `g` added where the largest elements of windows are."""
    out = _pooled(x, plans, g)
    if out is not None:
        return out
    apart = all(p.is_apart for p in plans)
    even = (
        apart
        and x.dtype.kind == "f" == g.dtype.kind
        and all(0 < len(p.taps) < 128 and all(p.is_full(rows) for rows, _, _ in p.taps) for p in plans)
    )

    def work(x: Any, g: Any) -> Any:
        found = _handed_back(g, x, plans) if even else None
        if found is not None:
            return found
        size = math.prod(x.shape[1:])
        place = _where_largest(x, plans).reshape(len(x), -1)
        place += np.arange(len(x))[:, None] * size
        out = np.zeros(x.size, g.dtype)
        if apart:
            out[place.reshape(-1)] = g.reshape(-1)
        else:
            np.add.at(out, place.reshape(-1), g.reshape(-1))
        return out.reshape(x.shape)

    return _in_pieces(work, g.dtype, plans, x, g)


def _handed_back(g: Any, x: Any, plans: tuple[Taps, ...]) -> Any:
    """Return what `put_back` does where windows lie apart and none is cut, axis by axis; None if there is a NaN."""
    axes: list[tuple[int, Any, Any]] = []
    for axis in range(-1, -len(plans) - 1, -1):
        taps = plans[axis].taps
        best = _read(x, taps[0][1], axis).copy()
        winner = np.zeros(best.shape, np.int8)
        for t in range(1, len(taps)):
            part = _read(x, taps[t][1], axis)
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


def _contest(x: Any, taps: Taps, axis: int, winners: list[Any], has_nan: bool) -> tuple[Any, list[Any]]:
    """Return the largest elements along an axis, and the winning taps of this axis and of those before."""
    xp = module_of(x)
    best = _empty(x, taps, axis, _lowest(x.dtype))
    kind = np.uint8 if len(taps.taps) < 256 else np.int64
    mine = xp.empty(best.shape, kind)
    mine[...] = xp.asarray(taps.first_tap, kind).reshape((-1,) + (1,) * (-axis - 1))
    first = xp.asarray(taps.first)
    others = [w.take(first, axis=axis) for w in winners]
    for t, (rows, source, _) in enumerate(taps.taps):
        part, old = _read(x, source, axis), _read(best, rows, axis)
        better = part > old
        if has_nan:
            better |= xp.isnan(part)
        factor = better.view(np.uint8)
        at = _at(rows, axis)
        best[at] = xp.maximum(old, part)
        # Later taps have larger numbers.
        mine[at] = xp.maximum(mine[at], factor * kind(t))
        for other, winner in zip(others, winners, strict=True):
            was = other[at]
            other[at] = was + (_read(winner, source, axis) - was) * factor
    return best, [*others, mine]
