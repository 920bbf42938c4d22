"""Attention on a GPU without ever holding all weights: Triton kernels, a block of queries and keys at a time.

In the forward pass, a program takes a block of queries past all keys that they see, and saves one number per query: the
logarithm of the sum of its exponentials. The backward pass computes the weights again from it: one kernel takes a block
of queries past the keys for the queries' gradient, another a block of keys past the queries for that of keys and
values. Nothing is added from two sides, so results do not depend on the order of the programs.

Blocks wholly below the diagonal need no mask, so each kernel has a loop for these and one for the others.

A bias, the mask of a program, is added to scores, or selects keys: BIAS is 0, 1 (selects) or 2 (added). A fraction KEEP
of the weights is used, the others are dropped: the backward pass generates the same choice again, from the same seed.
"""

from __future__ import annotations

import math
from typing import Any

import cupy
import numpy as np
import triton
import triton.language as tl
from ml_dtypes import bfloat16

from ..._typing import Array
from . import sizes
from .arrays import new
from .table import override
from .triton import Bound, Launch, address, capability, device, kind_of, near_memory

_LOG2: tl.constexpr = tl.constexpr(math.log(2))  # scores are those to base 2 inside kernels: that is what GPUs have

# --- Kernels ----------------------------------------------------------------------------------------
# An array is a tuple: its address, and how far apart batches, heads, heads of a group and rows are. Keys that serve a
# group stand still from one to the next. WIDTH is that of queries and keys, VALUE that of values; W and V are powers of
# two that hold them. Blocks have M queries and N keys.


@triton.jit
def _head(x: tl.tuple, at: tl.tensor, heads: tl.tensor, groups: tl.tensor) -> tl.tuple:
    """Return where the at-th of all heads of an array begins, and how far apart its rows are."""
    outer = at // groups
    place = tl.cast(outer // heads, tl.int64) * x[1] + tl.cast(outer % heads, tl.int64) * x[2]
    return x[0] + place + tl.cast(at % groups, tl.int64) * x[3], x[4]


@triton.jit
def _places(x: tl.tuple, start: tl.tensor, ROWS: tl.constexpr, W: tl.constexpr) -> tl.tensor:
    """Return where the elements of some rows of a head are."""
    rows, columns = tl.arange(0, ROWS), tl.arange(0, W)
    return x[0] + tl.cast(start, tl.int64) * x[1] + (rows[:, None] * x[1] + columns[None, :])


@triton.jit
def _there(start: tl.tensor, count: tl.tensor, ROWS: tl.constexpr, WIDTH: tl.constexpr, W: tl.constexpr) -> tl.tensor:
    """Return which of these elements exist, of `count` rows."""
    return ((start + tl.arange(0, ROWS))[:, None] < count) & (tl.arange(0, W)[None, :] < WIDTH)


@triton.jit
def _tile(
    x: tl.tuple, start: tl.tensor, count: tl.tensor, ROWS: tl.constexpr, WIDTH: tl.constexpr, W: tl.constexpr,
    WHOLE: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Load rows of a head from `start` on; zeros where there are no more, or the width is padded."""
    if WHOLE and WIDTH == W:
        found = tl.load(_places(x, start, ROWS, W))
    elif WHOLE:
        found = tl.load(_places(x, start, ROWS, W), mask=tl.arange(0, W)[None, :] < WIDTH, other=0.0)
    else:
        found = tl.load(_places(x, start, ROWS, W), mask=_there(start, count, ROWS, WIDTH, W), other=0.0)
    return found


@triton.jit
def _put(
    x: tl.tuple, start: tl.tensor, count: tl.tensor, tile: tl.tensor, ROWS: tl.constexpr, WIDTH: tl.constexpr,
    W: tl.constexpr, WHOLE: tl.constexpr,
) -> None:  # fmt: skip
    """Store a tile where `_tile` would load it."""
    tile = tile.to(x[0].dtype.element_ty)
    if WHOLE and WIDTH == W:
        tl.store(_places(x, start, ROWS, W), tile)
    else:
        tl.store(_places(x, start, ROWS, W), tile, mask=_there(start, count, ROWS, WIDTH, W))


@triton.jit
def _block(blocks: tl.tensor, together: tl.tensor, LAST_FIRST: tl.constexpr) -> tl.tuple:
    """Return which head a program computes, and which block of it: the same of heads that are computed together."""
    at = tl.program_id(0)
    before = at // (together * blocks) * together
    count = tl.minimum(together, tl.num_programs(0) // blocks - before)
    rest = at - before * blocks
    block = rest // count
    if LAST_FIRST:
        block = blocks - 1 - block
    return before + rest % count, block


@triton.jit
def _seen(queries: tl.tensor, keys: tl.tensor, source: tl.tensor, CAUSAL: tl.constexpr) -> tl.tensor:
    """Return which keys a query sees."""
    seen = keys < source
    if CAUSAL:
        seen = seen & (queries >= keys)
    return seen


@triton.jit
def _biased(
    scores: tl.tensor, bias: tl.tuple, first: tl.tensor, n: tl.tensor, length: tl.tensor, source: tl.tensor,
    BIAS: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Return scores, to base 2 and scaled, with a bias."""
    rows, columns = first + tl.arange(0, M), n + tl.arange(0, N)
    there = (rows[:, None] < length) & (columns[None, :] < source)
    places = bias[0] + tl.cast(rows, tl.int64)[:, None] * bias[1] + columns[None, :]
    if BIAS == 1:
        return tl.where(tl.load(places, mask=there, other=0) != 0, scores, -float("inf"))
    return scores + tl.load(places, mask=there, other=0.0).to(tl.float32) / _LOG2


@triton.jit
def _kept(
    weights: tl.tensor, seed: tl.tensor, row: tl.tensor, n: tl.tensor, source: tl.tensor, KEEP: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Return weights of queries, the first of which is `row` among those of all heads, scaled or dropped.

    Four neighbours have a counter, as in the module for random numbers; each row begins with a new one.
    """
    quarters = (row + tl.arange(0, M))[:, None] * tl.cdiv(source, 4) + (n // 4 + tl.arange(0, N // 4))[None, :]
    low, high = (quarters & 0xFFFFFFFF).to(tl.uint32), (quarters >> 32).to(tl.uint32)
    a, b, c, d = tl.philox(seed, low, high, low * 0, low * 0)
    words = tl.reshape(tl.join(tl.join(a, c), tl.join(b, d)), (M, N))
    kept = (words >> 8).to(tl.float32) * 5.9604644775390625e-8 < KEEP
    return tl.where(kept, weights * (1.0 / KEEP), 0.0)


@triton.jit
def _look(
    means: tl.tensor, total: tl.tensor, top: tl.tensor, queries: tl.tensor, k: tl.tuple, v: tl.tuple, bias: tl.tuple,
    seed: tl.tensor, row: tl.tensor, scale: tl.tensor, first: tl.tensor, start: tl.tensor, stop: tl.tensor,
    length: tl.tensor, source: tl.tensor, MASKED: tl.constexpr, CAUSAL: tl.constexpr, BIAS: tl.constexpr,
    KEEP: tl.constexpr, WIDTH: tl.constexpr, VALUE: tl.constexpr, W: tl.constexpr, V: tl.constexpr, M: tl.constexpr,
    N: tl.constexpr, PRECISION: tl.constexpr,
) -> tl.tuple:  # fmt: skip
    """Take queries past some keys: means of values times `total`, the largest score being `top`."""
    for n in tl.range(start, stop, N):
        n = tl.multiple_of(n, N)
        keys = _tile(k, n, source, N, WIDTH, W, not MASKED)
        scores = tl.dot(queries, tl.trans(keys), input_precision=PRECISION)
        if MASKED:
            seen = _seen((first + tl.arange(0, M))[:, None], (n + tl.arange(0, N))[None, :], source, CAUSAL)
            scores = tl.where(seen, scores, -float("inf"))
        if BIAS:
            scores = _biased(scores * scale, bias, first, n, length, source, BIAS, M, N)
            higher = tl.maximum(top, tl.max(scores, 1))
            level = tl.where(higher == -float("inf"), 0.0, higher)  # of a query that has seen nothing yet
            weights = tl.exp2(scores - level[:, None])
            shrink = tl.exp2(top - level)
        else:
            higher = tl.maximum(top, tl.max(scores, 1) * scale)
            weights = tl.exp2(scores * scale - higher[:, None])
            shrink = tl.exp2(top - higher)
        total = total * shrink + tl.sum(weights, 1)
        if KEEP < 1:
            weights = _kept(weights, seed, row, n, source, KEEP, M, N)
        values = _tile(v, n, source, N, VALUE, V, not MASKED)
        means = tl.dot(weights.to(values.dtype), values, means * shrink[:, None], input_precision=PRECISION)
        top = higher
    return means, total, top


@triton.jit
def _forward(
    q: tl.tuple, k: tl.tuple, v: tl.tuple, bias: tl.tuple, out: tl.tuple, logs: tl.tensor, seed: tl.tensor,
    scale: tl.tensor, heads: tl.tensor, groups: tl.tensor, length: tl.tensor, source: tl.tensor, together: tl.tensor,
    CAUSAL: tl.constexpr, BIAS: tl.constexpr, KEEP: tl.constexpr, EVEN_M: tl.constexpr, EVEN_N: tl.constexpr,
    WIDTH: tl.constexpr, VALUE: tl.constexpr, W: tl.constexpr, V: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    PRECISION: tl.constexpr,
) -> None:  # fmt: skip
    at, block = _block(tl.cdiv(length, M), together, CAUSAL)
    first = block * M
    k, v = _head(k, at, heads, groups), _head(v, at, heads, groups)
    queries = _tile(_head(q, at, heads, groups), first, length, M, WIDTH, W, EVEN_M)
    if BIAS:
        bias = _head(bias, at, heads, groups)
    row = tl.cast(at, tl.int64) * length + first
    means, total = tl.zeros((M, V), tl.float32), tl.zeros((M,), tl.float32)
    top = tl.full((M,), -float("inf"), tl.float32)
    whole = (tl.minimum(first, source) if CAUSAL else source) // N * N
    means, total, top = _look(means, total, top, queries, k, v, bias, seed, row, scale, first, 0, whole, length, source,
                              False, CAUSAL, BIAS, KEEP, WIDTH, VALUE, W, V, M, N, PRECISION)  # fmt: skip
    if CAUSAL or not EVEN_N:
        stop = tl.minimum(first + M, source) if CAUSAL else source
        means, total, top = _look(means, total, top, queries, k, v, bias, seed, row, scale, first, whole, stop, length,
                                  source, True, CAUSAL, BIAS, KEEP, WIDTH, VALUE, W, V, M, N, PRECISION)  # fmt: skip
    rows = first + tl.arange(0, M)
    log = (top + tl.log2(total)) * _LOG2
    if BIAS:  # a query that may look at nothing takes nothing
        log = tl.where(total == 0, float("inf"), log)
        total = tl.where(total == 0, 1.0, total)
    tl.store(logs + tl.cast(at, tl.int64) * length + rows, log, mask=rows < length)
    _put(_head(out, at, heads, groups), first, length, means / total[:, None], M, VALUE, V, EVEN_M)


@triton.jit
def _query_slopes(
    slope: tl.tensor, queries: tl.tensor, g: tl.tensor, log: tl.tensor, along: tl.tensor, k: tl.tuple, v: tl.tuple,
    bias: tl.tuple, seed: tl.tensor, row: tl.tensor, scale: tl.tensor, first: tl.tensor, start: tl.tensor,
    stop: tl.tensor, length: tl.tensor, source: tl.tensor, MASKED: tl.constexpr, CAUSAL: tl.constexpr,
    BIAS: tl.constexpr, KEEP: tl.constexpr, WIDTH: tl.constexpr, VALUE: tl.constexpr, W: tl.constexpr, V: tl.constexpr,
    M: tl.constexpr, N: tl.constexpr, PRECISION: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Add what some keys give to the gradient of queries, but for the scale."""
    for n in tl.range(start, stop, N):
        n = tl.multiple_of(n, N)
        keys = _tile(k, n, source, N, WIDTH, W, not MASKED)
        values = _tile(v, n, source, N, VALUE, V, not MASKED)
        scores = tl.dot(queries, tl.trans(keys), input_precision=PRECISION)
        scores *= scale
        if BIAS:
            scores = _biased(scores, bias, first, n, length, source, BIAS, M, N)
        weights = tl.exp2(scores - log[:, None])
        if MASKED:
            seen = _seen((first + tl.arange(0, M))[:, None], (n + tl.arange(0, N))[None, :], source, CAUSAL)
            weights = tl.where(seen, weights, 0.0)
        change = tl.dot(g, tl.trans(values), input_precision=PRECISION)
        if KEEP < 1:
            change = _kept(change, seed, row, n, source, KEEP, M, N)
        change = weights * (change - along[:, None])
        slope = tl.dot(change.to(keys.dtype), keys, slope, input_precision=PRECISION)
    return slope


@triton.jit
def _backward_queries(
    q: tl.tuple, k: tl.tuple, v: tl.tuple, bias: tl.tuple, out: tl.tuple, g: tl.tuple, gq: tl.tuple, logs: tl.tensor,
    alongs: tl.tensor, seed: tl.tensor, scale: tl.tensor, heads: tl.tensor, groups: tl.tensor, length: tl.tensor,
    source: tl.tensor, together: tl.tensor, CAUSAL: tl.constexpr, BIAS: tl.constexpr, KEEP: tl.constexpr,
    EVEN_M: tl.constexpr, EVEN_N: tl.constexpr, WIDTH: tl.constexpr, VALUE: tl.constexpr, W: tl.constexpr,
    V: tl.constexpr, M: tl.constexpr, N: tl.constexpr, PRECISION: tl.constexpr,
) -> None:  # fmt: skip
    at, block = _block(tl.cdiv(length, M), together, CAUSAL)
    first = block * M
    k, v = _head(k, at, heads, groups), _head(v, at, heads, groups)
    queries = _tile(_head(q, at, heads, groups), first, length, M, WIDTH, W, EVEN_M)
    slopes = _tile(_head(g, at, heads, groups), first, length, M, VALUE, V, EVEN_M)
    means = _tile(_head(out, at, heads, groups), first, length, M, VALUE, V, EVEN_M)
    along = tl.sum(slopes.to(tl.float32) * means.to(tl.float32), 1)
    rows = first + tl.arange(0, M)
    places = tl.cast(at, tl.int64) * length + rows
    tl.store(alongs + places, along, mask=rows < length)  # for the keys' kernel
    log = tl.load(logs + places, mask=rows < length, other=0.0) / _LOG2
    if BIAS:
        bias = _head(bias, at, heads, groups)
    row = tl.cast(at, tl.int64) * length + first
    slope = tl.zeros((M, W), tl.float32)
    whole = (tl.minimum(first, source) if CAUSAL else source) // N * N
    slope = _query_slopes(slope, queries, slopes, log, along, k, v, bias, seed, row, scale, first, 0, whole, length,
                          source, False, CAUSAL, BIAS, KEEP, WIDTH, VALUE, W, V, M, N, PRECISION)  # fmt: skip
    if CAUSAL or not EVEN_N:
        stop = tl.minimum(first + M, source) if CAUSAL else source
        slope = _query_slopes(slope, queries, slopes, log, along, k, v, bias, seed, row, scale, first, whole, stop,
                              length, source, True, CAUSAL, BIAS, KEEP, WIDTH, VALUE, W, V, M, N,
                              PRECISION)  # fmt: skip
    _put(_head(gq, at, heads, groups), first, length, slope * (scale * _LOG2), M, WIDTH, W, EVEN_M)


@triton.jit
def _key_slopes(
    gk: tl.tensor, gv: tl.tensor, keys: tl.tensor, values: tl.tensor, q: tl.tuple, g: tl.tuple, bias: tl.tuple,
    logs: tl.tensor, alongs: tl.tensor, seed: tl.tensor, row: tl.tensor, scale: tl.tensor, first: tl.tensor,
    start: tl.tensor, stop: tl.tensor, length: tl.tensor, source: tl.tensor, MASKED: tl.constexpr, CAUSAL: tl.constexpr,
    BIAS: tl.constexpr, KEEP: tl.constexpr, WHOLE: tl.constexpr, WIDTH: tl.constexpr, VALUE: tl.constexpr,
    W: tl.constexpr, V: tl.constexpr, M: tl.constexpr, N: tl.constexpr, PRECISION: tl.constexpr,
) -> tl.tuple:  # fmt: skip
    """Add what some queries give to the gradients of keys, but for the scale, and of values."""
    for m in tl.range(start, stop, M):
        m = tl.multiple_of(m, M)
        rows = m + tl.arange(0, M)
        queries = _tile(q, m, length, M, WIDTH, W, WHOLE)
        slopes = _tile(g, m, length, M, VALUE, V, WHOLE)
        if WHOLE:
            log, along = tl.load(logs + rows), tl.load(alongs + rows)
        else:  # queries that are not there have no weight
            log = tl.load(logs + rows, mask=rows < length, other=float("inf"))
            along = tl.load(alongs + rows, mask=rows < length, other=0.0)
        scores = tl.dot(keys, tl.trans(queries), input_precision=PRECISION)
        scores *= scale
        if BIAS:
            scores = tl.trans(_biased(tl.trans(scores), bias, m, first, length, source, BIAS, M, N))
        weights = tl.exp2(scores - log[None, :] / _LOG2)
        if MASKED:
            weights = tl.where(_seen(rows[None, :], (first + tl.arange(0, N))[:, None], source, CAUSAL), weights, 0.0)
        change = tl.dot(values, tl.trans(slopes), input_precision=PRECISION)
        if KEEP < 1:
            kept = tl.trans(_kept(tl.full((M, N), 1.0, tl.float32), seed, row + m, first, source, KEEP, M, N))
            gv = tl.dot((weights * kept).to(slopes.dtype), slopes, gv, input_precision=PRECISION)
            change *= kept
        else:
            gv = tl.dot(weights.to(slopes.dtype), slopes, gv, input_precision=PRECISION)
        change = weights * (change - along[None, :])
        gk = tl.dot(change.to(queries.dtype), queries, gk, input_precision=PRECISION)
    return gk, gv


@triton.jit
def _backward_keys(
    q: tl.tuple, k: tl.tuple, v: tl.tuple, bias: tl.tuple, g: tl.tuple, gk: tl.tuple, gv: tl.tuple, logs: tl.tensor,
    alongs: tl.tensor, seed: tl.tensor, scale: tl.tensor, heads: tl.tensor, groups: tl.tensor, length: tl.tensor,
    source: tl.tensor, together: tl.tensor, CAUSAL: tl.constexpr, BIAS: tl.constexpr, KEEP: tl.constexpr,
    EVEN_M: tl.constexpr, EVEN_N: tl.constexpr, WIDTH: tl.constexpr, VALUE: tl.constexpr, W: tl.constexpr,
    V: tl.constexpr, M: tl.constexpr, N: tl.constexpr, PRECISION: tl.constexpr,
) -> None:  # fmt: skip
    at, block = _block(tl.cdiv(source, N), together, False)
    first = block * N
    q, g = _head(q, at, heads, groups), _head(g, at, heads, groups)
    logs += tl.cast(at, tl.int64) * length
    alongs += tl.cast(at, tl.int64) * length
    keys = _tile(_head(k, at, heads, groups), first, source, N, WIDTH, W, EVEN_N)
    values = _tile(_head(v, at, heads, groups), first, source, N, VALUE, V, EVEN_N)
    if BIAS:
        bias = _head(bias, at, heads, groups)
    row = tl.cast(at, tl.int64) * length
    key_slope, value_slope = tl.zeros((N, W), tl.float32), tl.zeros((N, V), tl.float32)
    start = 0
    if CAUSAL:
        start = tl.cdiv(first + N, M) * M
        key_slope, value_slope = _key_slopes(
            key_slope, value_slope, keys, values, q, g, bias, logs, alongs, seed, row, scale, first, first // M * M,
            tl.minimum(start, length), length, source, True, CAUSAL, BIAS, KEEP, EVEN_M, WIDTH, VALUE, W, V, M, N,
            PRECISION,
        )  # fmt: skip
    key_slope, value_slope = _key_slopes(
        key_slope, value_slope, keys, values, q, g, bias, logs, alongs, seed, row, scale, first, start, length, length,
        source, False, CAUSAL, BIAS, KEEP, EVEN_M, WIDTH, VALUE, W, V, M, N, PRECISION,
    )  # fmt: skip
    _put(_head(gk, at, heads, groups), first, source, key_slope * (scale * _LOG2), N, WIDTH, W, EVEN_N)
    _put(_head(gv, at, heads, groups), first, source, value_slope, N, VALUE, V, EVEN_N)


# --- Plans ------------------------------------------------------------------------------------------

# Queries and keys of a block, warps and stages, by the padded width: of the forward pass, and of the backward
# passes of queries and of keys. Measured on an H200.
_HALF = {
    64: ((64, 64, 4, 3), (64, 64, 4, 3), (32, 64, 4, 3)),
    128: ((64, 64, 4, 3), (128, 32, 8, 3), (32, 64, 4, 3)),
    256: ((128, 64, 8, 2), (128, 32, 8, 1), (32, 32, 4, 2)),
}
_SINGLE = {
    64: ((64, 64, 4, 2), (64, 32, 4, 2), (32, 128, 8, 2)),
    128: ((32, 32, 4, 2), (32, 32, 4, 2), (32, 32, 4, 1)),
}
_KERNELS = (_forward, _backward_queries, _backward_keys)
_FORTH, _QUERIES, _KEYS = range(3)
_OLDEST = 80  # the first capability with bfloat16, and with copies that run beside computation
_FARTHEST = 1 << 24  # bytes from row to row, so that places in a block fit in 32 bits
_F32, _U8 = np.dtype(np.float32), np.dtype(np.uint8)
_WIDEST = {np.dtype(bfloat16): 256, np.dtype(np.float16): 256, _F32: 128}
_launches: dict[Any, Launch] = {}
_plans: dict[Any, tuple[Bound, ...]] = {}


def takes(q: Array, k: Array, v: Array, scale: float) -> bool:
    """Return whether arrays on a GPU, whose shapes go together, are of a kind that kernels are written for."""
    widest = _WIDEST.get(q.dtype, 0)
    return (
        q.shape[-1] <= widest
        and v.shape[-1] <= widest
        and scale > 0  # the largest product makes the largest score
        and all(abs(x.strides[-2]) < _FARTHEST for x in (q, k, v))
        and capability() >= _OLDEST
    )


@override("flash", when=lambda q, k, v, scale, causal: bool(q.size and v.shape[-1]) and takes(q, k, v, scale))
def flash(q: Array, k: Array, v: Array, scale: float, causal: bool) -> tuple[Array, Array]:
    """Return means of values and the logarithms of sums of exponentials."""
    return attend(q, k, v, scale, causal)


def _takes_masked(q: Array, k: Array, v: Array, mask: Array, scale: float, *rest: object) -> bool:
    return bool(q.size and v.shape[-1]) and takes(q, k, v, scale)


@override("masked_flash", when=_takes_masked)
def masked_flash(
    q: Array, k: Array, v: Array, mask: Array | None, scale: float, causal: bool, keep: float, seed: int
) -> tuple[Array, Array]:
    """Return the same with a mask, or weights that are dropped."""
    return attend(q, k, v, scale, causal, mask, keep, seed)


@override("flash_backward", when=lambda g, q, k, v, mask, out, logs, scale, *rest: takes(q, k, v, scale))
def flash_backward(g: Array, *rest: Any) -> tuple[Array, Array, Array]:
    """Return the gradients of queries, keys and values."""
    return attend_backward(g, *rest)


def _run(given: tuple[Any, ...], jobs: tuple[Any, ...], causal: bool, scale: float, extra: Any = None) -> None:
    """Launch kernels, each on arrays (first q, k and v) and numbers of queries; all layouts follow from `given`.

    `extra` is the dtype of a bias (then the fourth array) or None, and the fraction of weights that is used. If that is
    not all of them, the last of the numbers is a seed.
    """
    key = (
        len(jobs), tuple([(x.shape, x.strides, address(x) & 15) for x in given]), given[0].dtype, causal, scale,
        extra, device(),
    )  # fmt: skip
    plans = _plans.get(key)
    if plans is None:
        if len(_plans) >= sizes.PLANS:
            _plans.clear()
        plans = _plans[key] = tuple([_plan(i, arrays, numbers, causal, scale, extra) for i, arrays, numbers in jobs])
    for plan, (_, arrays, numbers) in zip(plans, jobs):
        plan(*arrays, *numbers)


def _plan(
    which: int, arrays: tuple[Any, ...], numbers: tuple[Any, ...], causal: bool, scale: float, extra: Any
) -> Bound:
    (*lead, length, width), (*_, source, _), (*_, value) = (x.shape for x in arrays[:3])
    w, v = (max(16, 1 << (n - 1).bit_length()) for n in (width, value))
    size = arrays[0].itemsize
    m, n, warps, stages = (_SINGLE if size == 4 else _HALF)[max(w, v, 64)][which]
    bias, keep = extra or (None, 1.0)
    absent = {"bias": None} if bias is None else {}
    if keep == 1:
        absent["seed"] = None
    constants = {
        **absent, "CAUSAL": causal, "BIAS": 0 if bias is None else 1 if bias == _U8 else 2, "KEEP": keep,
        "EVEN_M": length % m == 0, "EVEN_N": source % n == 0, "WIDTH": width, "VALUE": value, "W": w, "V": v, "M": m,
        "N": n, "PRECISION": "tf32x3" if size == 4 else "tf32",
    }  # fmt: skip
    blocks, passed = (-(-source // n), length) if which == _KEYS else (-(-length // m), source)
    together = _together(math.prod(lead), passed * (width + value) * size) if causal else 1
    rest: list[Any] = [np.float32(scale / math.log(2))]
    rest += [np.int32(x) for x in (lead[1], lead[2] if len(lead) == 3 else 1, length, source, together)]
    steps = [_steps(x) for x in arrays]
    kinds = (
        *[(kind_of(x), *map(kind_of, apart)) for x, apart in zip(arrays, steps, strict=True)],
        *["i64" if type(x) is int else kind_of(x).partition(":")[0] for x in (*numbers, *rest)],  # for all lengths
    )
    made = (which, kinds, tuple(constants.values()), device())
    launch = _launches.get(made)
    if launch is None:
        launch = _launches[made] = Launch(_KERNELS[which], kinds, constants, warps, stages)
    parameters = [p for apart in steps for p in (None, *apart)] + [None] * len(numbers) + rest
    return Bound(launch, math.prod(lead) * blocks, parameters)


def _together(heads: int, size: int) -> int:
    """Return how many heads are computed side by side: blocks with much to do first, but all of them in near memory."""
    most = max(1, min(heads, near_memory(device()) // 2 // size))
    return -(-heads // -(-heads // most))


def _steps(x: Array) -> list[Any]:
    """Return how far apart, in elements, batches, heads, heads of a group and rows are."""
    batch, head, *group, row, _ = (step // x.itemsize for step in x.strides)
    return [np.int64(batch), np.int64(head), np.int64(group[0] if group else 0), np.int32(row)]


# --- What is called ---------------------------------------------------------------------------------


def _led(x: Array) -> Array:
    """Return an array with two axes for heads, or three for groups; a copy if it has more, or rows have gaps."""
    if x.strides[-1] != x.itemsize:
        x = x.copy("C")
    if 4 <= x.ndim <= 5:
        return x
    return x[(None,) * (4 - x.ndim)] if x.ndim < 4 else x.reshape(-1, 1, *x.shape[-2:])


def _beside(x: Any, width: int) -> Any:
    """Return new memory in the layout of `x`: heads that were split off a row are joined again without a copy."""
    batch, *heads, length, _ = x.shape
    if x.strides[1] < x.strides[-2]:
        made = new((batch, length, *heads, width), x.dtype)
        return made.swapaxes(1, 2) if len(heads) == 1 else made.transpose(0, 2, 3, 1, 4)
    return new((batch, *heads, length, width), x.dtype)


def _bias_of(mask: Array, q: Array, source: int) -> Array:
    """Return a mask as kernels read it, repeated for every query without a copy, and beside `q` with its axes."""
    if mask.dtype.kind == "b":
        mask = mask.view(_U8)
    if mask.shape[-1:] != (source,) or mask.strides[-1] != mask.itemsize:
        mask = cupy.broadcast_to(mask, (*mask.shape[:-1], source)).copy("C")
    return _led(cupy.broadcast_to(mask, (*q.shape[:-1], source)))


def _extra(mask: Any, keep: float, q: Array, source: int) -> tuple[tuple[Any, ...], Any]:
    """Return the arrays that a mask adds to those of a launch, and the `extra` of `_run`."""
    if mask is None:
        return (), None if keep == 1 else (None, keep)
    bias = _bias_of(mask, q, source)
    return (bias,), (bias.dtype, keep)


def attend(
    q: Array,
    k: Array,
    v: Array,
    scale: float,
    causal: bool,
    mask: Array | None = None,
    keep: float = 1.0,
    seed: int = 0,
) -> tuple[Any, Any]:
    """Return means of values, as the CPU's `attend` does, and the logarithm of each query's sum of exponentials.

    A mask is added to scores, or selects keys; a fraction `keep` of the weights, sampled by `seed`, is not dropped.
    """
    lead = q.shape[:-1]
    bias, extra = _extra(mask, keep, q, k.shape[-2])
    q, k, v = _led(q), _led(k), _led(v)
    out, logs = _beside(q, v.shape[-1]), new(lead, _F32)
    numbers = (logs,) if keep == 1 else (logs, seed)
    _run((q, k, v, *bias), ((_FORTH, (q, k, v, *bias, out), numbers),), causal, scale, extra)
    return (out if out.ndim == len(lead) + 1 else out.reshape(*lead, v.shape[-1])), logs


def attend_backward(
    g: Array, q: Array, k: Array, v: Array, mask: Array | None, out: Array, logs: Array, scale: float, causal: bool,
    keep: float, seed: int, into: tuple[Array, ...] | None = None,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Return the gradients of queries, keys and values; `into` are arrays for them (4 or 5 axes, rows in one piece)."""
    shapes = q.shape, k.shape, v.shape
    bias, extra = _extra(mask, keep, q, k.shape[-2])
    q, k, v, out, g = (_led(x) for x in (q, k, v, out, g))
    gq, gk, gv = into or [_beside(x, x.shape[-1]) for x in (q, k, v)]
    alongs = new(logs.shape, _F32)  # how much each query's gradient goes along its mean
    numbers = (logs, alongs) if keep == 1 else (logs, alongs, seed)
    jobs = (_QUERIES, (q, k, v, *bias, out, g, gq), numbers), (_KEYS, (q, k, v, *bias, g, gk, gv), numbers)
    _run((q, k, v, out, g, *(into or ()), *bias), jobs, causal, scale, extra)
    if gq.ndim == len(shapes[0]):
        return gq, gk, gv
    return gq.reshape(shapes[0]), gk.reshape(shapes[1]), gv.reshape(shapes[2])
