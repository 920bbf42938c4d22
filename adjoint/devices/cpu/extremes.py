"""Largest and smallest elements, medians, and their indices: small arrays in few calls, large ones by columns."""

from __future__ import annotations

import functools
import math

import numpy as np

from ..._typing import Array, Kernel, Shape
from . import middle, provider, sizes
from .memory import dense
from .rows import run_cuts
from .table import override

ndarray = np.ndarray
_count: Kernel = np.add.reduce


def _kept_shape(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], 1, *shape[axis + 1 :])


def _kept(value: Array, rank: int, axes: Shape, keepdims: bool) -> Array:
    """Return a reduction's result, or its gradient, with the reduced axes in place, at size 1."""
    if keepdims or not value.ndim:
        return value
    left = iter(value.shape)
    return value.reshape([1 if i in axes else next(left) for i in range(rank)])


# --- Extremes without their indices -----------------------------------------------------------------------


def _reduced(reduce: Kernel) -> Kernel:
    def around(definition: Kernel) -> Kernel:
        def extreme(x: Array, axes: Shape, keepdims: bool) -> Array:
            return dense(reduce(x, axes, None, None, keepdims)) if type(x) is ndarray else definition(x, axes, keepdims)

        return extreme

    return around


def _split_evenly(rule: Kernel) -> Kernel:
    """Return the gradient of extremes none of which is a NaN."""

    def split(g: Array, x: Array, out: Array, axes: Shape, keepdims: bool) -> Array:
        if type(g) is ndarray is type(x) and not np.count_nonzero(out != out):
            equal = x == _kept(out, x.ndim, axes, keepdims)
            return equal * (_kept(g, x.ndim, axes, keepdims) / _count(equal, axes, g.dtype, None, True))
        return rule(g, x, out, axes, keepdims)

    return split


for _name, _reduce in (
    ("amax", middle.largest), ("amin", middle.smallest), ("max_all", np.maximum.reduce), ("min_all", np.minimum.reduce),
):  # fmt: skip
    override.around(_name)(_reduced(_reduce))
    override.around(_name, gradient="x")(_split_evenly)


# --- Extremes with their indices --------------------------------------------------------------------------


def _with_index(largest: bool) -> Kernel:
    reduce: Kernel = np.maximum.reduce if largest else np.minimum.reduce

    def around(definition: Kernel) -> Kernel:
        def extreme(x: Array, axis: int, keepdims: bool) -> tuple[Array, Array]:
            if type(x) is not ndarray or x.dtype.kind != "f":
                return definition(x, axis, keepdims)
            if x.size <= sizes.SMALL and x.flags.c_contiguous:
                return _at_index(x, x.argmax(axis) if largest else x.argmin(axis), axis, keepdims)
            if x.size >= sizes.EXTREMES and axis < x.ndim - 1 and (found := extremes(x, axis, largest)) is not None:
                shape = _kept_shape(x.shape, axis)
                return (found[0].reshape(shape), found[1].reshape(shape)) if keepdims else found
            find = x.argmax if largest else x.argmin
            return dense(reduce(x, axis, None, None, keepdims)), find(axis, None, keepdims=keepdims)

        return extreme

    return around


override.around("max_dim")(_with_index(True))
override.around("min_dim")(_with_index(False))


@functools.lru_cache(256)
def _lines(shape: Shape, axis: int) -> tuple[int, Array]:
    """Return the steps in memory along an axis, and where each line along it begins in the flattened array."""
    lead, trail = math.prod(shape[:axis]), math.prod(shape[axis + 1 :])
    starts = (np.arange(lead)[:, None] * (shape[axis] * trail) + np.arange(trail)).reshape(-1)
    starts.flags.writeable = False
    return trail, starts


def _at_index(x: Array, index: Array, axis: int, keepdims: bool) -> tuple[Array, Array]:
    """Return the elements of a small contiguous array at an index, one on each line along an axis, and the index."""
    index = np.asarray(index)  # of a vector it is one of NumPy's scalars
    shape = _kept_shape(x.shape, axis) if keepdims else index.shape
    step, starts = _lines(x.shape, axis)
    at = index.ravel()
    return x.ravel()[(at if step == 1 else at * step) + starts].reshape(shape), index.reshape(shape)


def _put_back(rule: Kernel) -> Kernel:
    """Return the gradient of elements of small arrays at an index, one on each line along an axis."""

    def put_back(g: Array, x_shape: Shape, out: Array, axis: int, keepdims: bool) -> Array:
        given, index = g[0], out[1]
        if type(given) is not ndarray or type(index) is not ndarray or index.size > sizes.SMALL:
            return rule(g, x_shape, out, axis, keepdims)
        step, starts = _lines(x_shape, axis)
        found = np.zeros(x_shape, given.dtype)
        at = index.ravel()
        found.ravel()[(at if step == 1 else at * step) + starts] = given.ravel()
        return found

    return put_back


for _name in ("max_dim", "min_dim", "median_dim", "nanmedian_dim", "mode"):
    override.around(_name, gradient="x")(_put_back)


def extremes(x: Array, axis: int, largest: bool) -> tuple[Array, Array] | None:
    """Return the extremes along an axis other than the last, and their indices; None where NumPy does as well."""
    lead, trail = math.prod(x.shape[:axis]), math.prod(x.shape[axis + 1 :])
    if trail < sizes.VECTOR or not x.flags.c_contiguous:
        return None
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    if provider.loops("extreme", x) is None:
        found = _extremes_of_columns(x.reshape(-1, trail), largest) if lead == 1 else None
        return None if found is None else (found[0].reshape(shape), found[1].reshape(shape))
    from . import moves

    values, places = np.empty(shape, x.dtype), np.empty(shape, np.int64)
    given = (lead, x.shape[axis], trail, np.float32(-1 if largest else 1), values.reshape(-1), places.reshape(-1))
    run_cuts(moves.extreme, "wsssfwl", trail, x.size, x.reshape(-1), *given, least=sizes.THREAD_COLUMNS)
    return values, places


def _extremes_of_columns(x: Array, largest: bool) -> tuple[Array, Array] | None:
    """Return the extremes of a matrix's columns, and their indices, found where a column equals its extreme.

    NumPy looks for indices column by column, which takes ten times as long as to look for the extremes.
    None where there are many equals, or NaNs, which equal nothing.
    """
    values = (np.maximum if largest else np.minimum).reduce(x, 0)
    found = np.flatnonzero(x == values)
    if not values.size <= found.size <= 2 * values.size:
        return None
    rows, columns = np.divmod(found[::-1], values.size)  # the first of equals is written last
    places = np.full(values.size, -1)
    places[columns] = rows
    return None if places.min() < 0 else (values, places)


# --- Medians ----------------------------------------------------------------------------------------------


def _without_nan(x: Array, *params: object) -> bool:
    half = x.dtype.itemsize == 2 and x.dtype.kind not in "iu"
    return not half and (x.dtype.kind != "f" or not np.count_nonzero(x != x))


@override("nanmedian_dim", when=_without_nan)
@override("median_dim", when=_without_nan)
def median(x: Array, axis: int, keepdims: bool) -> tuple[Array, Array]:
    """Return the lower median along an axis and its index, where no element is a NaN."""
    middle = (x.shape[axis] - 1) // 2
    if x.size <= sizes.SMALL and x.flags.c_contiguous and x.dtype.kind == "f":
        order = x.argsort(axis, kind="stable")
        return _at_index(x, order[(slice(None),) * axis + (middle,)].copy(), axis, keepdims)
    values = np.partition(x, middle, axis)[(slice(None),) * axis + (slice(middle, middle + 1),)]
    equal = x == values
    if (equal.sum(axis=axis) > 1).any():  # the one that a stable sort would put there
        before = middle - (x < values).sum(axis=axis, keepdims=True)
        equal &= equal.cumsum(axis=axis) > before
    index = equal.argmax(axis=axis, keepdims=keepdims)
    return values if keepdims else values.squeeze(axis), index


@override("nanmedian", when=_without_nan)
@override("median", when=_without_nan)
def median_of_all(x: Array, axes: Shape, keepdims: bool) -> Array:
    """Return the lower median of all elements, none of which is a NaN."""
    return median(x.reshape(-1), 0, False)[0]
