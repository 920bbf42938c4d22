"""Attention without ever holding all weights: a block of queries at a time, threads sharing the heads.

Kept for the way back is one number per query, the logarithm of the sum of its exponentials: weights are found
again from it, block by block. Only where that is dear, heads being wide, exponentials themselves are kept.
Loops that are compiled, where there are any, do what lies between the products of matrices in fewer passes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import blas, provider
from .threads import share

_BLOCK = 1 << 17  # weights of a block, which stay in a core's cache
_WIDE = 256  # the width of heads from which on exponentials are kept, if there are not too many
_KEPT = 1 << 25


class Notes:
    """What the way forth leaves for the way back: sums of exponentials, their logarithms, perhaps exponentials."""

    __slots__ = ("exponentials", "logs", "sums")

    def __init__(self) -> None:
        self.exponentials: Any = None
        self.logs: Any = None
        self.sums: Any = None


class _Heads:
    """Queries, keys and values as (heads, length, width), cut into blocks of queries."""

    def __init__(self, q: Any, k: Any, v: Any, causal: bool) -> None:
        self.q, self.k, self.v = (x.reshape(-1, *x.shape[-2:]) for x in (q, k, v))
        self.count, self.length = self.q.shape[:2]
        self.source, self.causal = self.k.shape[1], causal
        self.step = max(min(_BLOCK // self.source, self.length), 1)
        self.loops = provider.loops("attention", q, self.count * self.length * self.source)

    def blocks(self) -> list[tuple[int, int, int]]:
        """Return where blocks of queries begin and end, and how many keys they see."""
        ends = [(i, min(i + self.step, self.length)) for i in range(0, self.length, self.step)]
        return [(i, j, min(j, self.source) if self.causal else self.source) for i, j in ends]

    @property
    def keeps(self) -> bool:
        """Whether exponentials are kept."""
        return not self.causal and self.q.shape[2] >= _WIDE and self.count * self.length * self.source <= _KEPT

    def scores(self, q: Any, h: int, i: int, seen: int, out: Any = None) -> Any:
        """Return products of scaled queries, from the i-th on, and the keys that they see."""
        scores = np.matmul(q, self.k[h, :seen].T, out=out)
        if self.causal and seen > i:
            hidden = np.arange(i, seen) > np.arange(i, i + len(q))[:, None]
            scores[:, i:][hidden] = -np.inf
        return scores

    def run(self, work: Any) -> None:
        """Call ``work(head)`` for each, side by side where every thread can multiply by itself."""

        def part(start: int, stop: int) -> None:
            for h in range(start, stop):
                work(h)

        if blas.is_known():
            with blas.alone:
                share(part, self.count)
        else:
            part(0, self.count)


def attend(q: Any, k: Any, v: Any, scale: float, causal: bool, notes: Notes) -> Any:
    """Return means of values weighted by the softmax of ``scale * q @ k.T``; leave notes for `attend_back`."""
    heads = _Heads(q, k, v, causal)
    result = np.empty((*q.shape[:-1], v.shape[-1]), q.dtype)
    out = result.reshape(heads.count, heads.length, -1)
    notes.sums, notes.logs = (np.empty((heads.count, heads.length), q.dtype) for _ in range(2))
    kept = notes.exponentials = np.empty((*out.shape[:2], heads.source), q.dtype) if heads.keeps else None
    blocks, loops, factor = heads.blocks(), heads.loops, q.dtype.type(scale)

    def work(h: int) -> None:
        for i, j, seen in blocks:
            scores = heads.scores(heads.q[h, i:j] * factor, h, i, seen, None if kept is None else kept[h, i:j])
            top, sums = np.maximum.reduce(scores, 1), notes.sums[h, i:j]
            if loops is not None:
                loops.exp_rows(scores, top, sums)
            else:
                scores -= top[:, None]
                np.exp(scores, out=scores)
                np.vecdot(scores, np.ones(seen, q.dtype), out=sums)
            o = np.matmul(scores, heads.v[h, :seen], out=out[h, i:j])
            o /= sums[:, None]
            np.add(np.log(sums), top, out=notes.logs[h, i:j])

    heads.run(work)
    return result


def attend_back(
    g: Any, q: Any, k: Any, v: Any, out: Any, notes: Notes, scale: float, causal: bool
) -> tuple[Any, Any, Any]:
    """Return the gradients of queries, keys and values."""
    heads = _Heads(q, k, v, causal)
    gs, outs = (x.reshape(heads.count, heads.length, -1) for x in (g, out))
    kept = notes.exponentials
    results = np.empty(q.shape, q.dtype), np.zeros(k.shape, q.dtype), np.zeros(v.shape, q.dtype)
    gq, gk, gv = (r.reshape(-1, *r.shape[-2:]) for r in results)
    blocks, loops, factor = heads.blocks(), heads.loops, q.dtype.type(scale)

    def work(h: int) -> None:
        keys, values = heads.k[h], heads.v[h]
        for i, j, seen in blocks:
            queries, part = heads.q[h, i:j] * factor, gs[h, i:j]
            if kept is not None:  # what they lack to be weights, the gradient gets
                part = part / notes.sums[h, i:j, None]
            weights = heads.scores(queries, h, i, seen) if kept is None else kept[h, i:j]
            slopes = part @ values[:seen].T
            along = np.vecdot(part, outs[h, i:j])
            if loops is not None and kept is None:
                loops.attention_back_rows(weights, slopes, notes.logs[h, i:j], along)
            else:
                if kept is None:
                    weights -= notes.logs[h, i:j, None]
                    np.exp(weights, out=weights)
                slopes -= along[:, None]
                slopes *= weights
            gv[h, :seen] += weights.T @ part
            gk[h, :seen] += slopes.T @ queries
            o = np.matmul(slopes, keys[:seen], out=gq[h, i:j])
            o *= factor

    heads.run(work)
    return results
