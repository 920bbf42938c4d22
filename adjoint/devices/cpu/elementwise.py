"""Elementwise work on large arrays, in pieces: temporaries stay in the cache, and threads share the pieces.

`elementwise(function, *operands)` equals ``function(*operands)`` for any function that treats elements alike, be
it one ufunc or a whole gradient rule. Each element is computed as it would be without pieces, so the number of
threads changes nothing but the time. A function that can write its result where it belongs saves a copy of each piece.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._typing import Array, DType, Kernel
from .sizes import PIECE as _PIECE
from .threads import share

# Measured: waking a worker and passing the interpreter's lock to it costs some 50 µs (benchmarks/README.md).
# Elements of a piece: a few float32 temporaries fit in the cache. With smaller pieces threads contend for the
# interpreter's lock; a waiting thread sleeps and is woken, which takes as long as a pass over a piece.

ndarray = np.ndarray


@dataclass(slots=True)
class _Plan:
    """How operands are cut along their first axis: `parts` are the operands so shaped that they can be."""

    parts: list[Any]
    cut: list[bool]
    shape: tuple[int, ...]
    restore: Callable[[Any], Any]

    def pieces(self, start: int, stop: int) -> list[Any]:
        return [p[start:stop] if c else p for p, c in zip(self.parts, self.cut, strict=True)]


def elementwise(function: Callable[..., Any], *operands: Array, writes: Any = None, alone: int = 0) -> Array:
    """Return ``function(*operands)``, computed in pieces where the operands' layout allows.

    With `writes` the function takes one more argument, the array that its result goes to (None: a new one, if operands
    have one shape), and this is the result's dtype. Up to `alone` elements no other thread is woken, for a function of
    few passes.
    """
    whole = function if writes is None else lambda *operands: function(*operands, _room(operands, writes))
    if max([a.size for a in operands if type(a) is ndarray], default=0) <= _PIECE:  # in the cache as it is
        return whole(*operands)
    plan = _plan(operands)
    if plan is None:
        return whole(*operands)
    if writes is not None and any(plan.cut):
        return _filled(function, plan, writes, True, alone)
    with np.errstate(all="ignore"):  # a NaN is a value like any other, and workers must not warn either
        first = plan.pieces(0, 1)
        head = whole(*first)
    for given, piece in zip(operands, first, strict=True):
        if head is piece:  # the function hands an operand on
            return given
    if type(head) is not ndarray or head.shape != (1, *plan.shape[1:]):
        return whole(*operands)
    if not any(plan.cut):  # one number, repeated; the result is not, for programs may write to it
        return plan.restore(np.full(plan.shape, head))
    return _filled(function, plan, head.dtype, isinstance(function, np.ufunc))


def _room(operands: tuple[Any, ...], dtype: DType) -> Array | None:
    """Return an array for a result that is larger than an operand; None where all have one shape."""
    shapes = {a.shape for a in operands if type(a) is ndarray}
    return np.empty(np.broadcast_shapes(*shapes), dtype) if len(shapes) > 1 else None


def _filled(function: Kernel, plan: _Plan, dtype: DType, writes: bool, alone: int = 0) -> Array:
    """Return the result, made piece by piece."""
    out = np.empty(plan.shape, dtype)
    n = len(out)
    width = max(out.size // n, 1)
    step = n if isinstance(function, np.ufunc) else max(_PIECE // width, 1)

    def work(start: int, stop: int) -> None:
        with np.errstate(all="ignore"):
            for i in range(start, stop, step):
                j = min(i + step, stop)
                if writes:
                    function(*plan.pieces(i, j), out[i:j])
                else:
                    out[i:j] = function(*plan.pieces(i, j))

    share(work, n, n if out.size <= alone else max(_PIECE // 2 // width, 1))
    return plan.restore(out)


def _plan(operands: tuple[Any, ...]) -> _Plan | None:
    arrays = [a for a in operands if type(a) is ndarray and a.ndim]
    if not arrays or any(hasattr(a, "dtype") and type(a) is not ndarray and a.ndim for a in operands):
        return None
    shape = max(arrays, key=lambda a: a.size).shape
    if all(a.shape == shape for a in arrays):
        one = [not any(a.strides) for a in arrays]  # a number repeated, as gradients of sums are
        rest = [a for a, o in zip(arrays, one, strict=True) if not o]
        if all(a.flags.c_contiguous for a in rest):
            return _flat(operands, shape, False)
        if all(a.flags.f_contiguous for a in rest):
            return _flat(operands, shape, True)
    return _by_rows(operands, shape)


def _flat(operands: tuple[Any, ...], shape: tuple[int, ...], flipped: bool) -> _Plan:
    parts, cut = [], []
    for a in operands:
        whole = type(a) is ndarray and a.ndim > 0
        if whole and any(a.strides):
            parts.append((a.T if flipped else a).reshape(-1))
        else:
            parts.append(a[(0,) * a.ndim].reshape(1) if whole else a)
        cut.append(whole and any(a.strides))
    if flipped:
        return _Plan(parts, cut, (int(np.prod(shape)),), lambda out: out.reshape(shape[::-1]).T)
    return _Plan(parts, cut, (int(np.prod(shape)),), lambda out: out.reshape(shape))


def _by_rows(operands: tuple[Any, ...], shape: tuple[int, ...]) -> _Plan | None:
    """Cut along the first axis: for operands that broadcast, or repeat along some axes."""
    rank, n = len(shape), shape[0]
    if rank < 2 or n < 2:
        return None
    cut = []
    for a in operands:
        if type(a) is not ndarray or a.ndim == 0:
            cut.append(False)
            continue
        lead = rank - a.ndim
        if lead < 0 or any(m not in (1, k) for m, k in zip(a.shape, shape[lead:], strict=True)):
            return None
        if a.shape == shape and not a.flags.c_contiguous and 0 not in a.strides:
            return None  # the result would have this layout
        cut.append(lead == 0 and a.shape[0] == n)
    return _Plan(list(operands), cut, shape, lambda out: out) if any(cut) else None
