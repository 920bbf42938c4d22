"""Attention without ever holding all weights: a block of them at a time, threads sharing the blocks.

A block is some heads where heads are small, or some queries of one head where they are large.

Saved for backward is one number per query, the logarithm of the sum of its exponentials. The backward pass computes
the weights again from it, block by block. Weights are saved only if computing them is expensive (wide heads), or if
they need no more memory than the queries. Where oneDNN and Numba are installed, all of it is machine code (heads.py).
With Numba alone, compiled loops do the work between NumPy's matrix multiplications in fewer passes.
"""

from __future__ import annotations

import functools
from array import array
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from ..._typing import DType, NDArray
from . import blas, provider, sizes, team, threads
from .memory import place_of
from .rows import run_part
from .sizes import ATTENTION_BLOCK as _BLOCK
from .sizes import ATTENTION_COMPILED as _MACHINE_BLOCK
from .sizes import ATTENTION_QUERIES as _LEAST
from .sizes import ATTENTION_SAVED as _KEPT
from .sizes import ATTENTION_SHORT as _SHORT
from .sizes import ATTENTION_SPLIT as _SPLIT
from .sizes import ATTENTION_WIDE as _WIDE
from .table import override

_FULL = (np.dtype("float32"), np.dtype("float64"))


class _Heads:
    """Queries, keys and values as (batch, heads, length, width), cut into blocks."""

    def __init__(self, q: NDArray, k: NDArray, v: NDArray, causal: bool) -> None:
        self.q, self.k, self.v = (self.four(x) for x in (q, k, v))
        self.length, self.source, self.causal = q.shape[-2], k.shape[-2], causal
        self.step = max(min(_BLOCK // self.source, self.length), 1)
        self.loops = provider.loops("attention", q, q.size // q.shape[-1] * self.source)

    @staticmethod
    def four(x: NDArray) -> NDArray:
        """Return an array with two axes for heads, without a copy where it has no more than that."""
        return x if x.ndim == 4 else x.reshape(-1, 1, *x.shape[-2:])

    def blocks(self) -> list[tuple[int, int, int]]:
        """Return where blocks of queries begin and end, and how many keys they see."""
        ends = [(i, min(i + self.step, self.length)) for i in range(0, self.length, self.step)]
        return [(i, j, min(j, self.source) if self.causal else self.source) for i, j in ends]

    def groups(self) -> list[tuple[slice, slice]]:
        """Return which heads are computed at once: they fill a block, but leave something for every thread."""
        batch, heads = self.q.shape[:2]
        weights = self.length * self.source
        most = max(min(_BLOCK // weights, -(-batch * heads // threads.count)), -(-_SPLIT // weights), 1)
        deep = max(most // heads, 1)  # whole rows of heads, or parts of one
        wide = min(most, heads)
        return [(slice(b, b + deep), slice(h, h + wide)) for b in range(0, batch, deep) for h in range(0, heads, wide)]

    @property
    def keeps(self) -> bool:
        """Whether weights are saved."""
        batch, heads, length, width = self.q.shape
        return not self.causal and width >= _WIDE and batch * heads * length * self.source <= _KEPT

    def along(self, x: Any, rows: Any, out: Any = None) -> Any:
        """Return the products of each row of `x` with each of `rows`."""
        turned = rows.swapaxes(2, 3)
        if max(x.shape[2], rows.shape[2]) <= _SHORT:
            turned = np.ascontiguousarray(turned)
        return np.matmul(x, turned, out=out)

    def scores(self, q: NDArray, at: int, i: int, seen: int, factor: float | None, out: NDArray | None = None) -> Any:
        """Return products of queries, from the i-th on, and the keys that they see, scaled if there is a factor."""
        scores = self.along(q, self.k[at][:, :, :seen], out)
        if factor is not None:
            scores *= factor
        if self.causal and seen > i:
            part = scores[..., i:]
            np.fmin(part, _bounds(seen - i, q.shape[2], part.dtype), out=part)  # half the time of a masked copy
        return scores

    def run(self, work: Callable[[Any], None]) -> None:
        """Call `work` for each group of heads, side by side where every thread can multiply by itself."""
        groups = self.groups()

        def part(start: int, stop: int) -> None:
            for at in groups[start:stop]:
                work(at)

        if blas.is_known():
            with blas.alone:
                threads.share(part, len(groups))
        else:
            part(0, len(groups))


@functools.lru_cache(32)
def _bounds(seen: int, count: int, dtype: DType) -> NDArray:
    """Return -inf where a key comes after a query, inf elsewhere; `fmin` with it also hides a NaN that is not seen."""
    return np.where(np.arange(seen) > np.arange(count)[:, None], -np.inf, np.inf).astype(dtype)


def _beside(x: Any) -> Any:
    """Return new memory in the layout of `x`: heads that were split off a row are joined again without a copy."""
    return np.empty_like(x) if x.ndim == 4 and 0 not in x.strides else np.empty(x.shape, x.dtype)


def _rows(x: NDArray) -> Any:
    """Return a block of an array in one piece as rows."""
    return x.reshape(-1, x.shape[-1])


def _scaled(q: NDArray, seen: int, factor: float | None) -> tuple[Any, Any]:
    """Return queries, and by what their products with keys are to be multiplied: whichever are fewer are scaled."""
    return (q * factor, None) if q.shape[-1] < seen else (q, factor)


# --- As machine code --------------------------------------------------------------------------------


class _Machine:
    """Machine code for heads (see heads.py), and the table of numbers and addresses that it reads."""

    def __init__(self, heads: Any, functions: tuple[int, ...], dnn: ModuleType) -> None:
        self.code, self.number, self.multiply = heads, functions[1], dnn.address_of("sgemm")

    @staticmethod
    def in_rows(x: NDArray) -> NDArray:
        """Return heads with contiguous rows, as (batch, heads, length, width)."""
        step, width = x.strides[-2:]
        if width != x.itemsize or step < x.shape[-1] * width or not x.flags.aligned:
            x = np.array(x, order="C")
        return _Heads.four(x)

    def run(self, part: Any, scale: Any, causal: bool, logs: Any, weights: Any, scratch: int, *arrays: Any) -> None:
        """Run one of the ways over all heads; `scratch` blocks of scores are needed at a time."""
        q, k, v = arrays[:3]
        batch, heads, length, width = q.shape
        source = k.shape[2]
        least = _LEAST if width < _WIDE else 2 * _LEAST
        # Of a small block, fewer unused weights are computed.
        block = min(least if causal else max(_MACHINE_BLOCK // source, least), length)
        size = -(-scratch * block * source // 64) * 64 + 64
        memory = np.empty((threads.count, size), np.float32) if scratch else logs
        kept = 0 if weights is None else place_of(weights)
        bits = int(np.float32(scale).view(np.int32))
        words = [
            self.multiply, self.number, heads, length, source, width, v.shape[3], causal, bits, block,
            place_of(memory), 4 * size, kept, place_of(logs),
        ]  # fmt: skip
        for x in arrays:
            words += (place_of(x), *x.strides[:3])
        run_part(part, array("q", words), batch * heads)


@functools.cache
def _made(functions: tuple[int, ...]) -> _Machine:
    from . import heads, onednn  # late: the first imports Numba

    return _Machine(heads, functions, onednn)


def _machine(q: NDArray, k: NDArray, v: NDArray) -> _Machine | None:
    """Return the machine code for these heads; None where they are small, or oneDNN or Numba is not there."""
    loops = provider.loops("attention", q, q.size // q.shape[-1] * k.shape[-2])
    if loops is None or k.dtype is not q.dtype or v.dtype is not q.dtype or not provider.onednn_is_there():
        return None
    functions = team.functions()
    return None if functions is None else _made(functions)


def _attend_natively(
    machine: _Machine, q: NDArray, k: NDArray, v: NDArray, scale: float, causal: bool
) -> tuple[Any, Any, Any]:
    given = [machine.in_rows(x) for x in (q, k, v)]
    result = _beside(given[0]) if q.shape[-1] == v.shape[-1] else np.empty((*given[0].shape[:3], v.shape[-1]), q.dtype)
    batch, heads, length, width = given[0].shape
    source = k.shape[-2]
    logs, weights = np.empty((batch, heads, length), q.dtype), None
    if source <= width or (width >= _WIDE and logs.size * source <= _KEPT):
        weights = np.empty((batch, heads, length, source), q.dtype)
    machine.run(machine.code.forth, scale, causal, logs, weights, weights is None, *given, result)
    return result.reshape(*q.shape[:-1], v.shape[-1]), logs, weights


def _attend_backward_natively(
    machine: _Machine,
    g: NDArray,
    q: NDArray,
    k: NDArray,
    v: NDArray,
    out: NDArray,
    logs: NDArray | None,
    weights: NDArray | None,
    scale: float,
    causal: bool,
) -> tuple[Any, Any, Any]:
    given = [machine.in_rows(x) for x in (q, k, v, out, g)]
    results = [_beside(x) for x in given[:3]]
    scratch = 1 if weights is not None else 2
    machine.run(machine.code.back, scale, causal, logs, weights, scratch, *given, *results)
    gq, gk, gv = (r.reshape(x.shape) for r, x in zip(results, (q, k, v), strict=True))
    return gq, gk, gv


# --- By NumPy, or loops between its products --------------------------------------------------------


def _are_many(q: NDArray, k: NDArray, v: NDArray, scale: float, causal: bool) -> bool:
    return q.dtype in _FULL and q.size // (q.shape[-1] or 1) * k.shape[-2] >= sizes.ATTENTION


@override("attend", when=_are_many)
def attend(q: NDArray, k: NDArray, v: NDArray, scale: float, causal: bool) -> tuple[Any, Any, Any]:
    """Return means of values weighted by the softmax of ``scale * q @ k.T``, logarithms of sums, weights or None."""
    machine = _machine(q, k, v)
    if machine is not None:
        return _attend_natively(machine, q, k, v, scale, causal)
    heads = _Heads(q, k, v, causal)
    result = _beside(q) if q.shape[-1] == v.shape[-1] else np.empty((*q.shape[:-1], v.shape[-1]), q.dtype)
    out = heads.four(result)
    logs = np.empty(out.shape[:3], q.dtype)
    kept = np.empty((*out.shape[:3], heads.source), q.dtype) if heads.keeps else None
    blocks, loops, factor = heads.blocks(), heads.loops, q.dtype.type(scale)

    def work(at: Any) -> None:
        for i, j, seen in blocks:
            place = (*at, slice(i, j))
            queries, rest = _scaled(heads.q[place], seen, factor)
            scores = heads.scores(queries, at, i, seen, rest, None if kept is None else kept[place])
            sums = np.empty(scores.shape[:3], q.dtype)
            if loops is not None:
                loops.exp_rows(_rows(scores), (top := np.empty_like(sums)).reshape(-1), sums.reshape(-1))
            else:
                top = np.maximum.reduce(scores, 3)
                scores -= top[..., None]
                np.exp(scores, out=scores)
                np.vecdot(scores, np.ones(seen, q.dtype), out=sums)
            values = heads.v[at][:, :, :seen]
            if kept is not None or seen < values.shape[-1]:  # fewer weights than results
                scores /= sums[..., None]
                np.matmul(scores, values, out=out[place])
            else:
                np.divide(scores @ values, sums[..., None], out=out[place])
            np.add(np.log(sums), top, out=logs[place])

    heads.run(work)
    return result, logs, kept


def _logs_are_there(
    g: NDArray, q: NDArray, k: NDArray, v: NDArray, out: NDArray, logs: NDArray | None, *rest: object
) -> bool:
    return logs is not None and g.dtype == q.dtype


@override("attend", gradient="joint", when=_logs_are_there)
def attend_backward(
    g: NDArray,
    q: Any,
    k: NDArray,
    v: NDArray,
    out: NDArray,
    logs: NDArray,
    weights: NDArray | None,
    scale: float,
    causal: bool,
    needs: Sequence[bool] | None = None,
) -> tuple[Any, Any, Any]:
    """Return the gradients of queries, keys and values."""
    machine = _machine(q, k, v)
    if machine is not None:
        return _attend_backward_natively(machine, g, q, k, v, out, logs, weights, scale, causal)
    heads = _Heads(q, k, v, causal)
    gs, outs = heads.four(g), heads.four(out)
    kept = weights
    blocks, loops, factor = heads.blocks(), heads.loops, q.dtype.type(scale)
    whole = len(blocks) == 1 and blocks[0][2] == heads.source
    results = _beside(q), _beside(k), _beside(v)
    if not whole:
        for r in results:
            r[...] = 0
    gq, gk, gv = (heads.four(r) for r in results)

    def work(at: Any) -> None:
        for i, j, seen in blocks:
            place, visible = (*at, slice(i, j)), (*at, slice(0, seen))
            (queries, rest), part = _scaled(heads.q[place], seen, factor), gs[place]
            weights = heads.scores(queries, at, i, seen, rest) if kept is None else kept[place]
            slopes = heads.along(part, heads.v[visible])
            along = np.vecdot(part, outs[place])
            if loops is not None and kept is None:
                loops.attention_back_rows(_rows(weights), _rows(slopes), logs[place].reshape(-1), along.reshape(-1))
            else:
                if kept is None:
                    weights -= logs[place][..., None]
                    np.exp(weights, out=weights)
                slopes -= along[..., None]
                slopes *= weights
            if rest is not None:
                slopes *= rest
            np.matmul(slopes, heads.k[visible], out=gq[place])
            if rest is None:
                gq[place] *= factor
            for weight, value, total in ((weights, part, gv), (slopes, queries, gk)):
                if whole:
                    np.matmul(weight.swapaxes(2, 3), value, out=total[visible])
                else:
                    total[visible] += weight.swapaxes(2, 3) @ value

    heads.run(work)
    return results
