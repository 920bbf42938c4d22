"""Windows along an axis, as a list of taps: what pooling, padding and resizing have in common.

A tap says which places of the result read which places of the input, and with what weight; no place of the
result occurs twice in it. A window of k elements is k taps, ragged where windows reach over the edge. Sums over
windows are linear, and transposing the list gives their gradient; maxima run over the same list.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .._typing import Array, DType, Scalar, Value
from ..core.device import module_of

__all__ = ["RECIPES", "Plans", "Taps", "largest", "recipe", "weighted_sums", "where_largest"]
ALL = slice(None)


def _span(numbers: Array) -> Any:
    """Return places as a slice if they are evenly spaced."""
    count = len(numbers)
    if count < 2:
        return slice(int(numbers[0]), int(numbers[0]) + 1) if count else slice(0, 0)
    step = int(numbers[1] - numbers[0])
    if step > 0 and (numbers[1:] - numbers[:-1] == step).all():
        return slice(int(numbers[0]), int(numbers[-1]) + 1, step)
    return numbers


# What makes taps again for another size of the input: exported programs name these functions.
RECIPES: dict[str, Callable[..., Any]] = {}


def recipe(name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Remember what a function of sizes returns, taps or None, and let these say what they were made by."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.lru_cache(1024)
        @functools.wraps(function)
        def made(*args: Any) -> Any:
            taps = function(*args)
            if taps is not None:
                taps.recipe = name, args
            return taps

        RECIPES[name] = made
        return made

    return enter


def _places(span: Any, size: int) -> Any:
    return np.arange(size)[span]


class Taps:
    """How each of `n_out` places along an axis is made of some of `n_in` places.

    `taps` are (rows, source, weights): slices or arrays of places, and weights or None for ones. What is read
    is divided by `divide_in` first, and the result by `divide_out`; both are vectors or None.
    """

    __slots__ = (
        "_table",
        "_transposed",
        "divide_in",
        "divide_out",
        "n_in",
        "n_out",
        "recipe",
        "taps",
        "window",
    )

    def __init__(self, n_in: int, n_out: int, taps: Any, divide_in: Any = None, divide_out: Any = None) -> None:
        self.n_in, self.n_out, self.divide_in, self.divide_out = n_in, n_out, divide_in, divide_out
        self.taps: tuple[tuple[Any, Any, Any], ...] = tuple(
            (_span(rows), _span(source), weights) for rows, source, weights in taps if len(rows)
        )
        self._transposed: Taps | None = None
        self._table: Any = None
        self.window: tuple[int, ...] | None = None  # kernel, stride, padding, dilation, where that says it all
        self.recipe: tuple[str, tuple[Any, ...]] | None = None  # a name of `RECIPES`, and arguments

    @classmethod
    def of(
        cls, n_in: int, index: Value, weights: Value | None = None, valid: Any = None, divide_out: Any = None,
    ) -> Taps:  # fmt: skip
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
        """The place that each place of the result reads by each tap (where it has none: its first), row by row."""
        if self._table is None:
            table = np.full((self.n_out, max(len(self.taps), 1)), -1)
            for t, (rows, source, _) in enumerate(self.taps):
                table[rows, t] = _places(source, self.n_in)
            first = table[np.arange(self.n_out), (table >= 0).argmax(1)]
            self._table = np.where(table < 0, np.maximum(first, 0)[:, None], table)
        return self._table

    @property
    def is_apart(self) -> bool:
        """Whether no place of the input is read twice."""
        counts = np.zeros(self.n_in, np.int64)
        for _, source, _ in self.taps:
            counts += np.bincount(_places(source, self.n_in), minlength=self.n_in)
        return bool((counts < 2).all())

    def is_full(self, rows: Array) -> bool:
        """Return whether a tap has all places of the result."""
        return isinstance(rows, slice) and rows.start == 0 and rows.stop == self.n_out and rows.step in (None, 1)

    def __repr__(self) -> str:
        return f"Taps({self.n_in} -> {self.n_out}, {len(self.taps)} taps)"


def _read(x: Array, span: Any, axis: int) -> Any:
    """Return places along an axis, which is counted from the end: a view if they are evenly spaced."""
    if isinstance(span, slice):
        return x[_at(span, axis)]
    return x.take(module_of(x).asarray(span), axis=axis)


def _at(span: Any, axis: int) -> tuple[Any, ...]:
    return (..., span, *(ALL,) * (-axis - 1))


def _vector(values: Value, x: Array, axis: int) -> Any:
    """Return numbers per place, to be multiplied with `x`."""
    real = x.real.dtype if x.dtype.kind == "c" else x.dtype
    return module_of(x).asarray(values, real).reshape((-1,) + (1,) * (-axis - 1))


def _combined(x: Array, taps: Taps, axis: int, ufunc: np.ufunc, neutral: Scalar) -> Array:
    """Return what a ufunc makes of the elements that each place of the result reads along an axis."""
    # All of the result can begin as the tap that has all of its places, if there is one.
    start = next((i for i, (rows, _, _) in enumerate(taps.taps) if taps.is_full(rows)), -1)
    out: Any = None
    if start < 0:
        shape = list(x.shape)
        shape[axis] = taps.n_out
        out = module_of(x).full(shape, neutral, x.dtype)
    for i in sorted(range(len(taps.taps)), key=lambda i: i != start):
        rows, source, weights = taps.taps[i]
        part = _read(x, source, axis)
        if weights is not None:
            part = part * _vector(weights, x, axis)
        if out is None:
            out = part.copy(order="C") if weights is None and isinstance(source, slice) else part
        elif isinstance(rows, slice):
            target = out[_at(rows, axis)]
            ufunc(target, part, out=target)
        else:
            places = _at(module_of(x).asarray(rows), axis)
            out[places] = ufunc(out[places], part)
    return out  # type: ignore[no-any-return]


def _mix(x: Array, taps: Taps, axis: int) -> Array:
    if taps.divide_in is not None:
        x = x / _vector(taps.divide_in, x, axis)
    out = _combined(x, taps, axis, np.add, 0)
    if taps.divide_out is not None:
        out /= _vector(taps.divide_out, x, axis)
    return out


def _mix_integers(x: Array, axes: list[tuple[Taps, int]]) -> Array:
    """Return averages of integers, divided once, at the end, and rounded toward zero."""
    total: Any = 1
    for taps, axis in axes:
        x = _combined(x, taps, axis, np.add, 0)
        if taps.divide_out is not None:
            total = total * taps.divide_out.reshape((-1,) + (1,) * (-axis - 1))
    return np.trunc(x / module_of(x).asarray(total))


def weighted_sums(x: Array, plans: tuple[Taps | None, ...]) -> Array:
    """Return the weighted sums that the plans of the last axes describe (None: an axis stays as it is)."""
    dtype = x.dtype
    axes = [(p, i - len(plans)) for i, p in enumerate(plans) if p is not None]
    if not axes:
        return x.copy()
    scales = any(p.scales for p, _ in axes)
    if dtype.itemsize <= 2 and dtype.kind not in "biu":
        x = x.astype(np.float32)
    elif dtype.kind in "iu" and scales:
        x = x.astype(np.float64)
    if dtype.kind == "i" and scales and not any(w is not None for p, _ in axes for _, _, w in p.taps):
        return _mix_integers(x, axes).astype(dtype)
    # What makes the array smaller comes first.
    axes.sort(key=lambda a: a[0].n_out / max(a[0].n_in, 1))
    for taps, axis in axes:
        x = _mix(x, taps, axis)
    if x.dtype == dtype:
        return x
    if dtype.kind == "u":
        x = x.round().clip(0, np.iinfo(dtype).max)
    return x.astype(dtype)


def _lowest(dtype: DType) -> Scalar:
    return np.iinfo(dtype).min if dtype.kind in "iu" else False if dtype.kind == "b" else -np.inf


def largest(x: Array, plans: Plans) -> Array:
    """Return the largest element of each window; a NaN is larger than everything."""
    lowest = _lowest(x.dtype)
    for axis in range(-1, -len(plans) - 1, -1):
        x = _combined(x, plans[axis], axis, np.maximum, lowest)
    return x


def where_largest(x: Array, plans: Plans) -> Array:
    """Return where in the flattened last axes the largest element of each window is (the first; the last NaN)."""
    xp, lead = module_of(x), x.shape[: x.ndim - len(plans)]
    places: Any = np.zeros((1, 1), np.int64)  # of the windows so far, row by row
    for n, taps in zip(x.shape[len(lead) :], plans, strict=True):
        table = taps.table
        places = places[:, None, :, None] * n + table[:, None, :]
        places = places.reshape(-1, places.shape[2] * table.shape[1])
    places = xp.asarray(places)
    values = x.reshape(math.prod(lead), -1).take(places, axis=1)
    found: Array = places[xp.arange(len(places)), values.argmax(-1)]
    nan = values != values
    if nan.any():  # the last one has the largest place; not the last column, where windows that are cut repeat others
        found = xp.where(nan.any(-1), (places * nan).max(-1), found)
    return found.reshape(*lead, *(p.n_out for p in plans))


Plans = tuple[Taps, ...]
