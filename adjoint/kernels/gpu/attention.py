"""Attention on a GPU without ever holding all weights: Triton kernels, a block of queries and keys at a time.

Forth, a program takes a block of queries past all keys that they see, and keeps one number per query: the logarithm of
the sum of its exponentials. Back, weights are found again from it: one kernel takes a block of queries past
the keys for the queries' gradient, another a block of keys past the queries for that of keys and values. Nothing is
added from two sides, so results do not depend on who comes first.

Blocks that lie wholly below the diagonal need no mask, so each kernel has a loop for these and one for the others.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import triton
import triton.language as tl

from .triton import Launch, address, capability, device, kind_of

_LOG2: tl.constexpr = tl.constexpr(math.log(2))  # scores are those to base 2 inside kernels: that is what GPUs have

# --- Kernels ----------------------------------------------------------------------------------------
# WIDTH is that of queries and keys, VALUE that of values; W and V are the powers of two that hold them. Blocks have
# M queries and N keys. How far apart the parts of an array are tell `_batch`, `_head` and `_step` (from row to row).


@triton.jit
def _tile(
    base: tl.tensor, step: tl.tensor, start: tl.tensor, count: tl.tensor, ROWS: tl.constexpr, WIDTH: tl.constexpr,
    W: tl.constexpr, WHOLE: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Load rows from `start` on; zeros where there are no more than `count`, or the width is padded."""
    rows, columns = tl.arange(0, ROWS), tl.arange(0, W)
    places = base + tl.cast(start, tl.int64) * step + (rows[:, None] * step + columns[None, :])
    if WHOLE and WIDTH == W:
        found = tl.load(places)
    elif WHOLE:
        found = tl.load(places, mask=columns[None, :] < WIDTH, other=0.0)
    else:
        found = tl.load(places, mask=((start + rows)[:, None] < count) & (columns[None, :] < WIDTH), other=0.0)
    return found


@triton.jit
def _put(
    base: tl.tensor, step: tl.tensor, start: tl.tensor, count: tl.tensor, tile: tl.tensor, ROWS: tl.constexpr,
    WIDTH: tl.constexpr, W: tl.constexpr, WHOLE: tl.constexpr,
) -> None:  # fmt: skip
    """Store a tile where `_tile` would load it."""
    rows, columns = tl.arange(0, ROWS), tl.arange(0, W)
    places = base + tl.cast(start, tl.int64) * step + (rows[:, None] * step + columns[None, :])
    tile = tile.to(base.dtype.element_ty)
    if WHOLE and WIDTH == W:
        tl.store(places, tile)
    else:
        tl.store(places, tile, mask=((start + rows)[:, None] < count) & (columns[None, :] < WIDTH))


@triton.jit
def _seen(queries: tl.tensor, keys: tl.tensor, source: tl.tensor, CAUSAL: tl.constexpr) -> tl.tensor:
    """Tell which keys a query sees."""
    seen = keys < source
    if CAUSAL:
        seen = seen & (queries >= keys)
    return seen


@triton.jit
def _look(
    means: tl.tensor, total: tl.tensor, top: tl.tensor, queries: tl.tensor, k: tl.tensor, v: tl.tensor,
    k_step: tl.tensor, v_step: tl.tensor, scale: tl.tensor, first: tl.tensor, start: tl.tensor, stop: tl.tensor,
    source: tl.tensor, MASKED: tl.constexpr, CAUSAL: tl.constexpr, WIDTH: tl.constexpr, VALUE: tl.constexpr,
    W: tl.constexpr, V: tl.constexpr, M: tl.constexpr, N: tl.constexpr, PRECISION: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Take queries past some keys: means of values times `total`, the largest score being `top`."""
    for n in tl.range(start, stop, N):
        n = tl.multiple_of(n, N)
        keys = _tile(k, k_step, n, source, N, WIDTH, W, not MASKED)
        scores = tl.dot(queries, tl.trans(keys), input_precision=PRECISION)
        if MASKED:
            seen = _seen((first + tl.arange(0, M))[:, None], (n + tl.arange(0, N))[None, :], source, CAUSAL)
            scores = tl.where(seen, scores, -float("inf"))
        higher = tl.maximum(top, tl.max(scores, 1) * scale)
        weights = tl.exp2(scores * scale - higher[:, None])
        shrink = tl.exp2(top - higher)
        total = total * shrink + tl.sum(weights, 1)
        values = _tile(v, v_step, n, source, N, VALUE, V, not MASKED)
        means = tl.dot(weights.to(values.dtype), values, means * shrink[:, None], input_precision=PRECISION)
        top = higher
    return means, total, top


@triton.jit
def _forward(
    q: tl.tensor, k: tl.tensor, v: tl.tensor, out: tl.tensor, logs: tl.tensor, scale: tl.tensor, heads: tl.tensor,
    length: tl.tensor, source: tl.tensor, q_batch: tl.tensor, q_head: tl.tensor, q_step: tl.tensor, k_batch: tl.tensor,
    k_head: tl.tensor, k_step: tl.tensor, v_batch: tl.tensor, v_head: tl.tensor, v_step: tl.tensor, o_batch: tl.tensor,
    o_head: tl.tensor, o_step: tl.tensor, CAUSAL: tl.constexpr, EVEN_M: tl.constexpr, EVEN_N: tl.constexpr,
    WIDTH: tl.constexpr, VALUE: tl.constexpr, W: tl.constexpr, V: tl.constexpr, M: tl.constexpr, N: tl.constexpr,
    PRECISION: tl.constexpr, ORDER: tl.constexpr,
) -> None:  # fmt: skip
    blocks = tl.cdiv(length, M)
    at, block = tl.program_id(0) // blocks, tl.program_id(0) % blocks
    if ORDER:
        count = tl.num_programs(0) // blocks
        at, block = tl.program_id(0) % count, tl.program_id(0) // count
    if CAUSAL:
        block = blocks - 1 - block  # those with much to do come first
    batch, head = tl.cast(at // heads, tl.int64), tl.cast(at % heads, tl.int64)
    first = block * M
    k += batch * k_batch + head * k_head
    v += batch * v_batch + head * v_head
    queries = _tile(q + batch * q_batch + head * q_head, q_step, first, length, M, WIDTH, W, EVEN_M)
    means, total = tl.zeros((M, V), tl.float32), tl.zeros((M,), tl.float32)
    top = tl.full((M,), -float("inf"), tl.float32)
    whole = (tl.minimum(first, source) if CAUSAL else source) // N * N
    means, total, top = _look(means, total, top, queries, k, v, k_step, v_step, scale, first, 0, whole, source, False,
                              CAUSAL, WIDTH, VALUE, W, V, M, N, PRECISION)  # fmt: skip
    if CAUSAL or not EVEN_N:
        stop = tl.minimum(first + M, source) if CAUSAL else source
        means, total, top = _look(means, total, top, queries, k, v, k_step, v_step, scale, first, whole, stop, source,
                                  True, CAUSAL, WIDTH, VALUE, W, V, M, N, PRECISION)  # fmt: skip
    rows = first + tl.arange(0, M)
    tl.store(logs + tl.cast(at, tl.int64) * length + rows, (top + tl.log2(total)) * _LOG2, mask=rows < length)
    o = out + batch * o_batch + head * o_head
    _put(o, o_step, first, length, means / total[:, None], M, VALUE, V, EVEN_M)


@triton.jit
def _query_slopes(
    slope: tl.tensor, queries: tl.tensor, g: tl.tensor, log: tl.tensor, along: tl.tensor, k: tl.tensor, v: tl.tensor,
    k_step: tl.tensor, v_step: tl.tensor, scale: tl.tensor, first: tl.tensor, start: tl.tensor, stop: tl.tensor,
    source: tl.tensor, MASKED: tl.constexpr, CAUSAL: tl.constexpr, WIDTH: tl.constexpr, VALUE: tl.constexpr,
    W: tl.constexpr, V: tl.constexpr, M: tl.constexpr, N: tl.constexpr, PRECISION: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Add what some keys give to the gradient of queries, but for the scale."""
    for n in tl.range(start, stop, N):
        n = tl.multiple_of(n, N)
        keys = _tile(k, k_step, n, source, N, WIDTH, W, not MASKED)
        values = _tile(v, v_step, n, source, N, VALUE, V, not MASKED)
        scores = tl.dot(queries, tl.trans(keys), input_precision=PRECISION)
        weights = tl.exp2(scores * scale - log[:, None])
        if MASKED:
            seen = _seen((first + tl.arange(0, M))[:, None], (n + tl.arange(0, N))[None, :], source, CAUSAL)
            weights = tl.where(seen, weights, 0.0)
        change = weights * (tl.dot(g, tl.trans(values), input_precision=PRECISION) - along[:, None])
        slope = tl.dot(change.to(keys.dtype), keys, slope, input_precision=PRECISION)
    return slope


@triton.jit
def _backward_queries(
    q: tl.tensor, k: tl.tensor, v: tl.tensor, out: tl.tensor, g: tl.tensor, logs: tl.tensor, alongs: tl.tensor,
    gq: tl.tensor, scale: tl.tensor, factor: tl.tensor, heads: tl.tensor, length: tl.tensor, source: tl.tensor,
    q_batch: tl.tensor, q_head: tl.tensor, q_step: tl.tensor, k_batch: tl.tensor, k_head: tl.tensor, k_step: tl.tensor,
    v_batch: tl.tensor, v_head: tl.tensor, v_step: tl.tensor, o_batch: tl.tensor, o_head: tl.tensor, o_step: tl.tensor,
    g_batch: tl.tensor, g_head: tl.tensor, g_step: tl.tensor, gq_batch: tl.tensor, gq_head: tl.tensor,
    gq_step: tl.tensor, CAUSAL: tl.constexpr, EVEN_M: tl.constexpr, EVEN_N: tl.constexpr, WIDTH: tl.constexpr,
    VALUE: tl.constexpr, W: tl.constexpr, V: tl.constexpr, M: tl.constexpr, N: tl.constexpr, PRECISION: tl.constexpr,
    ORDER: tl.constexpr,
) -> None:  # fmt: skip
    blocks = tl.cdiv(length, M)
    at, block = tl.program_id(0) // blocks, tl.program_id(0) % blocks
    if ORDER:
        count = tl.num_programs(0) // blocks
        at, block = tl.program_id(0) % count, tl.program_id(0) // count
    if CAUSAL:
        block = blocks - 1 - block
    batch, head = tl.cast(at // heads, tl.int64), tl.cast(at % heads, tl.int64)
    first = block * M
    k += batch * k_batch + head * k_head
    v += batch * v_batch + head * v_head
    queries = _tile(q + batch * q_batch + head * q_head, q_step, first, length, M, WIDTH, W, EVEN_M)
    slopes = _tile(g + batch * g_batch + head * g_head, g_step, first, length, M, VALUE, V, EVEN_M)
    means = _tile(out + batch * o_batch + head * o_head, o_step, first, length, M, VALUE, V, EVEN_M)
    along = tl.sum(slopes.to(tl.float32) * means.to(tl.float32), 1)
    rows = first + tl.arange(0, M)
    places = tl.cast(at, tl.int64) * length + rows
    tl.store(alongs + places, along, mask=rows < length)  # for the keys' kernel
    log = tl.load(logs + places, mask=rows < length, other=0.0) / _LOG2
    slope = tl.zeros((M, W), tl.float32)
    whole = (tl.minimum(first, source) if CAUSAL else source) // N * N
    slope = _query_slopes(slope, queries, slopes, log, along, k, v, k_step, v_step, scale, first, 0, whole, source,
                          False, CAUSAL, WIDTH, VALUE, W, V, M, N, PRECISION)  # fmt: skip
    if CAUSAL or not EVEN_N:
        stop = tl.minimum(first + M, source) if CAUSAL else source
        slope = _query_slopes(slope, queries, slopes, log, along, k, v, k_step, v_step, scale, first, whole, stop,
                              source, True, CAUSAL, WIDTH, VALUE, W, V, M, N, PRECISION)  # fmt: skip
    _put(gq + batch * gq_batch + head * gq_head, gq_step, first, length, slope * factor, M, WIDTH, W, EVEN_M)


@triton.jit
def _key_slopes(
    gk: tl.tensor, gv: tl.tensor, keys: tl.tensor, values: tl.tensor, q: tl.tensor, g: tl.tensor, logs: tl.tensor,
    alongs: tl.tensor, q_step: tl.tensor, g_step: tl.tensor, scale: tl.tensor, first: tl.tensor, start: tl.tensor,
    stop: tl.tensor, length: tl.tensor, source: tl.tensor, MASKED: tl.constexpr, CAUSAL: tl.constexpr,
    WHOLE: tl.constexpr, WIDTH: tl.constexpr, VALUE: tl.constexpr, W: tl.constexpr, V: tl.constexpr, M: tl.constexpr,
    N: tl.constexpr, PRECISION: tl.constexpr,
) -> tl.tensor:  # fmt: skip
    """Add what some queries give to the gradients of keys, but for the scale, and of values."""
    for m in tl.range(start, stop, M):
        m = tl.multiple_of(m, M)
        rows = m + tl.arange(0, M)
        queries = _tile(q, q_step, m, length, M, WIDTH, W, WHOLE)
        slopes = _tile(g, g_step, m, length, M, VALUE, V, WHOLE)
        if WHOLE:
            log, along = tl.load(logs + rows), tl.load(alongs + rows)
        else:  # queries that are not there have no weight
            log = tl.load(logs + rows, mask=rows < length, other=float("inf"))
            along = tl.load(alongs + rows, mask=rows < length, other=0.0)
        scores = tl.dot(keys, tl.trans(queries), input_precision=PRECISION)
        weights = tl.exp2(scores * scale - log[None, :] / _LOG2)
        if MASKED:
            weights = tl.where(_seen(rows[None, :], (first + tl.arange(0, N))[:, None], source, CAUSAL), weights, 0.0)
        gv = tl.dot(weights.to(slopes.dtype), slopes, gv, input_precision=PRECISION)
        change = weights * (tl.dot(values, tl.trans(slopes), input_precision=PRECISION) - along[None, :])
        gk = tl.dot(change.to(queries.dtype), queries, gk, input_precision=PRECISION)
    return gk, gv


@triton.jit
def _backward_keys(
    q: tl.tensor, k: tl.tensor, v: tl.tensor, g: tl.tensor, logs: tl.tensor, alongs: tl.tensor, gk: tl.tensor,
    gv: tl.tensor, scale: tl.tensor, factor: tl.tensor, heads: tl.tensor, length: tl.tensor, source: tl.tensor,
    q_batch: tl.tensor, q_head: tl.tensor, q_step: tl.tensor, k_batch: tl.tensor, k_head: tl.tensor, k_step: tl.tensor,
    v_batch: tl.tensor, v_head: tl.tensor, v_step: tl.tensor, g_batch: tl.tensor, g_head: tl.tensor, g_step: tl.tensor,
    gk_batch: tl.tensor, gk_head: tl.tensor, gk_step: tl.tensor, gv_batch: tl.tensor, gv_head: tl.tensor,
    gv_step: tl.tensor, CAUSAL: tl.constexpr, EVEN_M: tl.constexpr, EVEN_N: tl.constexpr, WIDTH: tl.constexpr,
    VALUE: tl.constexpr, W: tl.constexpr, V: tl.constexpr, M: tl.constexpr, N: tl.constexpr, PRECISION: tl.constexpr,
    ORDER: tl.constexpr,
) -> None:  # fmt: skip
    blocks = tl.cdiv(source, N)
    at, block = tl.program_id(0) // blocks, tl.program_id(0) % blocks
    if ORDER:
        count = tl.num_programs(0) // blocks
        at, block = tl.program_id(0) % count, tl.program_id(0) // count
    batch, head = tl.cast(at // heads, tl.int64), tl.cast(at % heads, tl.int64)
    first = block * N
    q += batch * q_batch + head * q_head
    g += batch * g_batch + head * g_head
    logs += tl.cast(at, tl.int64) * length
    alongs += tl.cast(at, tl.int64) * length
    keys = _tile(k + batch * k_batch + head * k_head, k_step, first, source, N, WIDTH, W, EVEN_N)
    values = _tile(v + batch * v_batch + head * v_head, v_step, first, source, N, VALUE, V, EVEN_N)
    key_slope, value_slope = tl.zeros((N, W), tl.float32), tl.zeros((N, V), tl.float32)
    start = 0
    if CAUSAL:
        stop = tl.minimum(tl.cdiv(first + N, M) * M, length)
        key_slope, value_slope = _key_slopes(
            key_slope, value_slope, keys, values, q, g, logs, alongs, q_step, g_step, scale, first, first // M * M,
            stop, length, source, True, CAUSAL, EVEN_M, WIDTH, VALUE, W, V, M, N, PRECISION,
        )  # fmt: skip
        start = tl.cdiv(first + N, M) * M
    key_slope, value_slope = _key_slopes(
        key_slope, value_slope, keys, values, q, g, logs, alongs, q_step, g_step, scale, first, start, length, length,
        source, False, CAUSAL, EVEN_M, WIDTH, VALUE, W, V, M, N, PRECISION,
    )  # fmt: skip
    _put(gk + batch * gk_batch + head * gk_head, gk_step, first, source, key_slope * factor, N, WIDTH, W, EVEN_N)
    _put(gv + batch * gv_batch + head * gv_head, gv_step, first, source, value_slope, N, VALUE, V, EVEN_N)


# --- Plans ------------------------------------------------------------------------------------------

# Queries and keys of a block, warps and stages, by the padded width: of the way forth, of the queries' way back, of the
# keys'. Measured on an H200.
_HALF = {
    64: ((128, 64, 4, 3), (128, 64, 4, 3), (64, 128, 4, 2)),
    128: ((128, 64, 8, 3), (128, 64, 8, 2), (64, 128, 8, 2)),
    256: ((64, 64, 4, 2), (64, 32, 4, 2), (32, 64, 4, 2)),
}
_SINGLE = {
    64: ((64, 32, 4, 2), (64, 32, 4, 2), (32, 64, 4, 2)),
    128: ((64, 32, 8, 2), (32, 32, 4, 2), (32, 32, 4, 2)),
}
_KERNELS = (_forward, _backward_queries, _backward_keys)
_FORTH, _QUERIES, _KEYS = range(3)
_ORDER = 0
_OLDEST = 80  # the first capability with bfloat16, and with copies that run beside computation
_MOST_PLANS = 1 << 12
_WIDEST = {"bfloat16": 256, "float16": 256, "float32": 128}
_launches: dict[Any, Launch] = {}
_plans: dict[Any, tuple[Launch, tuple[int], list[Any]]] = {}


def takes(q: Any, k: Any, v: Any, scale: float) -> bool:
    """Return whether arrays on a GPU, whose shapes go together, are of a kind that kernels are written for."""
    return (
        max(q.shape[-1], v.shape[-1]) <= _WIDEST.get(q.dtype.name, 0)
        and scale > 0  # the largest product makes the largest score
        and all(abs(x.strides[-2]) < 1 << 31 for x in (q, k, v))
        and capability() >= _OLDEST
    )


def _padded(width: int) -> int:
    return max(16, 1 << (width - 1).bit_length())


def _run(which: int, arrays: tuple[Any, ...], shaped: tuple[Any, ...], causal: bool, scale: float) -> None:
    """Launch a kernel on its arrays; `shaped` are those of them whose strides it takes, the first three q, k and v."""
    q, k, v = shaped[:3]
    key = (
        which, q.dtype, tuple([address(x) & 15 for x in arrays]), q.shape, k.shape, v.shape,
        tuple([x.strides for x in shaped]), causal, scale, device(),
    )  # fmt: skip
    launch, grid, numbers = _plans.get(key) or _plan(key, arrays, shaped)
    launch(grid, *arrays, *numbers)


def _plan(key: Any, arrays: tuple[Any, ...], shaped: tuple[Any, ...]) -> tuple[Launch, tuple[int], list[Any]]:
    which, _, _, (batch, heads, length, width), (*_, source, _), (*_, value), _, causal, scale, place = key
    w, v = _padded(width), _padded(value)
    single = shaped[0].dtype.itemsize == 4
    m, n, warps, stages = (_SINGLE if single else _HALF)[max(w, v, 64)][which]
    constants = {
        "CAUSAL": causal, "EVEN_M": length % m == 0, "EVEN_N": source % n == 0, "WIDTH": width, "VALUE": value,
        "W": w, "V": v, "M": m, "N": n, "PRECISION": "tf32x3" if single else "tf32", "ORDER": _ORDER,
    }  # fmt: skip
    numbers: list[Any] = [np.float32(scale / math.log(2))]
    numbers += [] if which == _FORTH else [np.float32(scale)]
    numbers += [np.int32(x) for x in (heads, length, source)]
    plain = [kind_of(x).partition(":")[0] for x in numbers]  # the same code for all lengths
    steps = []
    for x in shaped:
        across, head, row = (step // x.itemsize for step in x.strides[:3])
        steps += [np.int64(across), np.int64(head), np.int32(row)]
    every = (*map(kind_of, arrays), *plain, *map(kind_of, steps))
    made = (which, every, tuple(constants.values()), place)
    launch = _launches.get(made)
    if launch is None:
        launch = _launches[made] = Launch(_KERNELS[which], every, constants, warps, stages)
    if len(_plans) >= _MOST_PLANS:
        _plans.clear()
    blocks = -(-source // n) if which == _KEYS else -(-length // m)
    _plans[key] = launch, (batch * heads * blocks,), [*numbers, *steps]
    return _plans[key]


# --- What is called ---------------------------------------------------------------------------------


def _four(x: Any) -> Any:
    """Return an array with two axes for heads, without a copy where it has no more than that, and rows in one piece."""
    if x.strides[-1] != x.itemsize:
        x = x.copy("C")
    if x.ndim == 4:
        return x
    return x[(None,) * (3 - x.ndim)][:, None] if x.ndim < 4 else x.reshape(-1, 1, *x.shape[-2:])


def _beside(x: Any, width: int) -> Any:
    """Return new memory that lies as `x` does: heads that were split off a row are joined again without a copy."""
    batch, heads, length, _ = x.shape
    if x.strides[1] < x.strides[2]:
        return type(x)((batch, length, heads, width), x.dtype).swapaxes(1, 2)
    return type(x)((batch, heads, length, width), x.dtype)


def attend(q: Any, k: Any, v: Any, scale: float, causal: bool) -> tuple[Any, Any]:
    """Return means of values, as the CPU's `attend` does, and the logarithm of each query's sum of exponentials."""
    lead = q.shape[:-1]
    q, k, v = _four(q), _four(k), _four(v)
    out, logs = _beside(q, v.shape[3]), type(q)(q.shape[:3], np.float32)
    _run(_FORTH, (q, k, v, out, logs), (q, k, v, out), causal, scale)
    return (out, logs) if len(lead) == 3 else (out.reshape(*lead, v.shape[3]), logs.reshape(lead))


def attend_back(
    g: Any, q: Any, k: Any, v: Any, out: Any, logs: Any, scale: float, causal: bool
) -> tuple[Any, Any, Any]:
    """Return the gradients of queries, keys and values."""
    shapes = q.shape, k.shape, v.shape
    q, k, v, out, g = (_four(x) for x in (q, k, v, out, g))
    results = _beside(q, q.shape[3]), _beside(k, k.shape[3]), _beside(v, v.shape[3])
    gq, gk, gv = results
    alongs = type(q)(logs.shape, logs.dtype)  # how much each query's gradient goes along its mean
    _run(_QUERIES, (q, k, v, out, g, logs, alongs, gq), (q, k, v, out, g, gq), causal, scale)
    _run(_KEYS, (q, k, v, g, logs, alongs, gk, gv), (q, k, v, g, gk, gv), causal, scale)
    if len(shapes[0]) == 4:
        return results
    return gq.reshape(shapes[0]), gk.reshape(shapes[1]), gv.reshape(shapes[2])
