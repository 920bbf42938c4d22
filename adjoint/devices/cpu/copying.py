"""Copies of large arrays that place, turn or repeat what is in them: in one pass, on several threads.

Functions return None where NumPy does as well: for arrays that are small or no float32, without Numba, and before
a program has worked on so many large arrays that to load it pays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from ..._typing import Array, Kernel, Shape
from . import provider, sizes
from .rows import pieces, run_cuts, run_rows
from .selection import where
from .table import override

_WIDTH = 1 << 12  # how long rows are that are cut from an array without any
ndarray, f32 = np.ndarray, np.dtype("float32")


def uniform(x: Array) -> bool:
    """Return whether an array is one number, repeated, as the gradients of sums are."""
    return type(x) is ndarray and not any(x.strides)


def _moves(x: Array, size: int, passes: int = 1) -> ModuleType | None:
    """Return the compiled loops where they pay for an array of `size` elements that NumPy makes of `x` in passes."""
    if size * passes < sizes.COPY or x.dtype is not f32 or not provider.ready():
        return None
    if not (x.flags.c_contiguous or uniform(x)):
        return None
    from . import moves

    return moves


def _run(loop: Kernel, kinds: str, total: int, size: int, *given: Any) -> None:
    run_cuts(loop, kinds, total, size, *given, least=sizes.THREAD_COPY)


def _rows(x: Array, width: int) -> tuple[Any, int]:
    """Return an array's rows as a vector, and how far apart they are."""
    if x.flags.c_contiguous:
        return x.reshape(-1), width
    return np.full(width, x[(0,) * x.ndim], x.dtype), 0


def _filled(shape: tuple[int, ...], value: Any) -> Array:
    """Return one number, repeated."""
    out = np.empty(shape, f32)
    flat = out.reshape(-1)
    run_rows(provider.choice.loops.fill, "vf", flat, value, count=pieces(flat, sizes.THREAD_COPY))
    return out


def _repeated(x: Array) -> Array | None:
    """Return a dense copy of an array that repeats numbers or rows, as gradients of sums do; None if it does not."""
    if not any(x.strides):
        return _filled(x.shape, x[(0,) * x.ndim])
    steps = [s for s, n in zip(x.strides, x.shape, strict=True) if n > 1]
    zeros, first = steps.count(0), x[tuple([slice(None) if s else 0 for s in x.strides])]
    down, along = not any(steps[:zeros]), not any(steps[len(steps) - zeros :])
    if not zeros or not (down or along) or not first.flags.c_contiguous:
        return None
    numbers, out = first.reshape(-1), np.empty(x.shape, f32)
    rows = out.reshape((numbers.size, -1) if along else (-1, numbers.size))
    if along:
        run_rows(provider.choice.loops.spread_rows, "vr", numbers, rows, count=pieces(rows, sizes.THREAD_COPY))
    else:
        run_rows(provider.choice.loops.repeat_rows, "rw", rows, numbers, count=pieces(rows, sizes.THREAD_COPY))
    return out


def copied(x: Array) -> Any:
    """Return a dense copy, by NumPy where it does as well."""
    if x.size >= sizes.COPY and 0 in x.strides and x.dtype is f32 and provider.ready():
        out = _repeated(x)
        if out is not None:
            return out
    moves = _moves(x, x.size)
    if moves is None:
        return x.copy()
    out = np.empty(x.shape, f32)
    flat, step = _rows(x, _WIDTH)
    target, rows = out.reshape(-1), x.size // _WIDTH
    _run(moves.copy, "wswss", rows, x.size, target, _WIDTH, flat, step, _WIDTH)
    if rest := x.size - rows * _WIDTH:
        target[-rest:] = flat[-rest:] if step else flat[:rest]
    return out


@override("place", least=sizes.MOVE)
def placed(x: Array, shape: Shape, index: tuple[Any, ...]) -> Array:
    """Return zeros of a shape with `x` at an index."""
    moves = _moves(x, math.prod(shape))
    ends = None if moves is None else _ends(shape, index)
    return NotImplemented if ends is None else _boxed(moves, x, shape, ends)


@override("pad", least=sizes.MOVE, when=lambda x, widths, value: value == 0 and min(map(min, widths)) >= 0)
def padded(x: Array, widths: tuple[tuple[int, int], ...], value: float) -> Array:
    """Return an array with zeros around it."""
    ends = [(before, before + n) for n, (before, _) in zip(x.shape, widths, strict=True)]
    shape = tuple([end + after for (_, end), (_, after) in zip(ends, widths, strict=True)])
    moves = _moves(x, math.prod(shape))
    return NotImplemented if moves is None else _boxed(moves, x, shape, ends)


@override("pad", gradient="x", when=lambda g, widths: uniform(g) and min(map(min, widths)) >= 0)
def pad_backward(g: Array, widths: tuple[tuple[int, int], ...]) -> Array:
    """Return the gradient of padding, where it is one number, repeated."""
    return copied(g[tuple([slice(before, n - after) for n, (before, after) in zip(g.shape, widths, strict=True)])])


def _ends(shape: tuple[int, ...], index: tuple[Any, ...]) -> list[tuple[int, int]] | None:
    """Return from where to where an index goes along each axis; None for one that is not of that kind."""
    if None in index or sum(i is Ellipsis for i in index) > 1:
        return None
    at = index.index(...) if ... in index else len(index)
    spread = (slice(None),) * (len(shape) - len(index) + (... in index))
    ends = []
    for i, n in zip((*index[:at], *spread, *index[at + 1 :]), shape, strict=True):
        if type(i) is int:
            ends.append((i % n, i % n + 1))
        elif type(i) is slice and i.step in (None, 1):
            ends.append((i.indices(n)[0], max(i.indices(n)[:2])))
        else:
            return None
    return ends


def _boxed(moves: Any, x: Array, shape: tuple[int, ...], ends: list[tuple[int, int]]) -> Array:
    """Return zeros with `x` in a box that is cut along one axis, or along both of two; else NotImplemented."""
    cut = [d for d, (pair, n) in enumerate(zip(ends, shape, strict=True)) if pair != (0, n)]
    if len(cut) > 1 and len(shape) > 2:
        return NotImplemented
    axis = cut[0] if cut else 0
    if len(cut) == 2:
        rows, width = shape
        (top, bottom), (left, right) = ends
    elif math.prod(shape[:axis]) == 1:
        rows, width = shape[axis], math.prod(shape[axis + 1 :])
        (top, bottom), (left, right) = ends[axis], (0, width)
    else:
        trail = math.prod(shape[axis + 1 :])
        rows, width = math.prod(shape[:axis]), shape[axis] * trail
        (top, bottom), (left, right) = (0, rows), (ends[axis][0] * trail, ends[axis][1] * trail)
    out = np.empty(shape, f32)
    if width < 64 or not x.size:
        return NotImplemented
    flat, step = _rows(x, right - left)
    box = (width, top, bottom, left, right)
    _run(moves.box, "wsssssws", rows, out.size, out.reshape(-1), *box, flat, step)
    return out


def _turned(x: Array, axis: int, shift: int, reverse: bool) -> Array:
    """Return an array rolled along an axis, or with the axis reversed."""
    moves = _moves(x, x.size) if x.flags.c_contiguous else None
    if moves is None:
        return NotImplemented
    n, trail = x.shape[axis], math.prod(x.shape[axis + 1 :])
    shift %= n
    if trail == 1:
        how = (1, n, 0, 0 if reverse else shift, 0, int(reverse))
    elif trail >= 64:
        how = (n, trail, shift, 0, int(reverse), 0)
    else:
        return NotImplemented
    out = np.empty(x.shape, f32)
    rows = x.size // how[1]
    _run(moves.turned, "wwssssss", rows, x.size, x.reshape(-1), out.reshape(-1), *how)
    return out


@override("flip", least=sizes.MOVE, when=lambda x, axes: len(axes) == 1)
def flip(x: Array, axes: tuple[int]) -> Array:
    """Return an array with an axis reversed."""
    return _turned(x, axes[0], 0, True)


@override("roll", least=sizes.MOVE, when=lambda x, shifts, axes: len(axes) == 1)
def roll(x: Array, shifts: tuple[int], axes: tuple[int]) -> Array:
    """Return an array rolled along an axis."""
    return _turned(x, axes[0], shifts[0], False)


@override("flip", gradient="x", when=lambda g, axes: uniform(g))
@override("roll", gradient="x", when=lambda g, shifts, axes: uniform(g))
def turn_backward(g: Array, *how: object) -> Array:
    """Return the gradient of what is turned, where it is one number, repeated."""
    return copied(g)


@override("tril")
def tril(x: Array, diagonal: int) -> Array:
    """Return matrices with zeros above a diagonal."""
    found = _triangle(x, diagonal, True) if x.size > sizes.TRIANGLE else None
    return where(np.tri(x.shape[-2], x.shape[-1], diagonal, np.bool_), x, _zero_of(x)) if found is None else found


@override("triu")
def triu(x: Array, diagonal: int) -> Array:
    """Return matrices with zeros below a diagonal."""
    found = _triangle(x, diagonal, False) if x.size > sizes.TRIANGLE else None
    return where(np.tri(x.shape[-2], x.shape[-1], diagonal - 1, np.bool_), _zero_of(x), x) if found is None else found


def _zero_of(x: Array) -> Any:
    return 0 if x.dtype.kind in "fiuc" else x.dtype.type(0)


def _triangle(x: Array, diagonal: int, lower: bool) -> Array | None:
    """Return matrices with zeros above a diagonal, or below it; None where NumPy must."""
    moves = _moves(x, x.size, 4)
    if moves is None:
        return None
    rows, width = x.shape[-2:]
    flat, step = _rows(x, width)
    out = np.empty(x.shape, f32)
    how = (rows, width, diagonal, int(lower))
    _run(moves.triangle, "wswssss", x.size // width, x.size, flat, step, out.reshape(-1), *how)
    return out


# NumPy's own, past its look for other kinds of arrays, which takes half as long as joining two small ones.
_concatenate = getattr(np.concatenate, "_implementation", np.concatenate)


@override.around("cat")
def _cat(definition: Kernel) -> Kernel:
    def cat(xs: Sequence[Array], axis: int) -> Array:
        if type(xs[0]) is not ndarray:
            return definition(xs, axis)
        if xs[0].size > sizes.MOVE and (found := _joined(xs, axis)) is not None:
            return found
        out = _concatenate(xs, axis)
        # The result is row-major for every memory layout of the parts; images preserve theirs (channels_last).
        return out if out.flags.c_contiguous or out.ndim > 3 else np.ascontiguousarray(out)

    return cat


@override.around("cat", gradient="joint")
def _cat_backward(definition: Kernel) -> Kernel:
    def cat_backward(g: Array, xs_shape: Sequence[Shape], axis: int, needs: Sequence[bool]) -> Sequence[Array | None]:
        if type(g) is not ndarray or axis:
            return definition(g, xs_shape, axis, needs=needs)
        parts, at = [], 0
        for shape, needed in zip(xs_shape, needs):
            end = at + shape[0]
            parts.append(g[at:end] if needed else None)
            at = end
        return parts

    return cat_backward


@override.around("stack")
def _stack(definition: Kernel) -> Kernel:
    cat = _cat(definition)

    def stack(xs: Sequence[Array], axis: int) -> Array:
        if type(xs[0]) is not ndarray:
            return definition(xs, axis)
        new = (*(slice(None),) * axis, None)
        return cat([x[new] for x in xs], axis)

    return stack


@override.around("cast")
def _cast(definition: Kernel) -> Kernel:
    def cast(x: Array, dtype: Any) -> Array:
        if type(x) is not ndarray or x.dtype.kind == "c" or type(dtype) is type:
            return definition(x, dtype)
        if x.flags.c_contiguous:
            return x.astype(getattr(dtype, "np", dtype))
        if x.size >= sizes.BROADCAST and uniform(x):
            return copied(np.broadcast_to(x[(0,) * x.ndim].astype(dtype), x.shape))
        return definition(x, dtype)

    return cast


def _split_backward(definition: Kernel) -> Kernel:
    def split_backward(g: Sequence[Array | None], x_shape: Shape, indexes: Sequence[tuple[Any, ...]]) -> Array | None:
        out = None
        make = np.empty if all([p is not None for p in g]) else np.zeros  # noqa: C419 - faster than a generator
        for piece, index in zip(g, indexes):
            if piece is not None:
                if type(piece) is not ndarray:
                    return definition(g, x_shape, indexes)
                if out is None:
                    out = make(x_shape, piece.dtype)
                out[index] = piece
        return out

    return split_backward


for _name in ("split", "split_with_sizes", "unbind"):
    override.around(_name, gradient="x")(_split_backward)


@override("zeros_like", least=sizes.ZEROS, when=lambda x: x.flags.c_contiguous or uniform(x))
def zeros_like(x: Array) -> Array:
    """Return zeros of the shape and dtype of an array."""
    return copied(np.broadcast_to(x.dtype.type(0), x.shape))


def _joined(xs: Sequence[Array], axis: int) -> Array | None:
    """Return arrays one after another along an axis, by compiled loops; None where NumPy must."""
    size, first = sum(x.size for x in xs), xs[0].shape
    moves = _moves(xs[0], size)
    if moves is None or any(x.dtype is not f32 or not x.flags.c_contiguous for x in xs):
        return None
    others = (first[:axis], first[axis + 1 :])
    if any((x.shape[:axis], x.shape[axis + 1 :]) != others for x in xs):
        return None
    out = np.empty((*others[0], sum(x.shape[axis] for x in xs), *others[1]), f32)
    rows = math.prod(others[0])
    target, full = out.reshape(-1), size // rows
    for x in xs:
        width = x.size // rows
        if rows == 1:
            _copy(moves, x.reshape(-1), target[:width])
        elif width:
            _run(moves.copy, "wswss", rows, x.size, target, full, x.reshape(-1), width, width)
        target = target[width:]
    return out


def _copy(moves: ModuleType, source: Array, target: Array) -> None:
    """Copy a vector."""
    rows = source.size // _WIDTH
    if rows:
        _run(moves.copy, "wswss", rows, source.size, target, _WIDTH, source, _WIDTH, _WIDTH)
    target[rows * _WIDTH :] = source[rows * _WIDTH :]
