"""Attention as machine code: a head at a time, from its scores to its means, in one of OpenMP's threads each.

Matrix multiplications are oneDNN's, called by its address; a thread that is one of several multiplies alone. So a whole
forward or backward pass is one parallel region, and scores of a block of queries stay in the cache of their core.
Only imported where Numba is installed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._typing import NDArray
from .addresses import array32, ask, load, multiply
from .loops import _top
from .mathematics import FLAGS, _as_float
from .mathematics import exp_below as _exp_below
from .sources import cfunc, njit

# Fields of the table that both passes read: each array's address and its steps in bytes along its first three axes.
(
    MULTIPLY, NUMBER, HEADS, LENGTH, SOURCE, WIDTH, VALUE_WIDTH, CAUSAL, SCALE, BLOCK, SCRATCH, SCRATCH_SIZE,
    WEIGHTS, LOGS, ARRAYS,
) = range(15)  # fmt: skip
Q, K, V, OUT, G, GQ, GK, GV = range(8)

_PLAIN, _TURNED = ord("N"), ord("T")
_ZERO, _ONE = np.float32(0), np.float32(1)
_compiled = njit(fastmath=FLAGS, error_model="numpy")
_part = cfunc("void(intp, intp, intp, intp)", fastmath=FLAGS, error_model="numpy")


@_compiled
def _at(table: int, name: int, head: int, row: int) -> int:
    """Return the address of a row of a head."""
    here, heads = table + 8 * (ARRAYS + 4 * name), load(table + 8 * HEADS)
    first = load(here) + head // heads * load(here + 8) + head % heads * load(here + 16)
    return first + row * load(here + 24)


@_compiled
def _step(table: int, name: int) -> int:
    """Return the step from row to row, in elements."""
    return load(table + 8 * (ARRAYS + 4 * name) + 24) // 4


@_compiled
def _weigh(row: NDArray, seen: int) -> float:
    """Replace scores by weights, those that are not seen by zero; return the logarithm of the sum of exponentials."""
    top, total = _top(row[:seen]), _ZERO
    for j in range(seen):
        e = _exp_below(row[j] - top)
        row[j] = e
        total += e
    share = _ONE / total
    for j in range(seen):
        row[j] *= share
    for j in range(seen, row.shape[0]):
        row[j] = _ZERO
    return np.log(total) + top


@_compiled
def _weigh_again(row: NDArray, seen: int, log: float) -> None:
    """Replace scores by weights, given the logarithm of the sum of exponentials."""
    for j in range(seen):
        row[j] = _exp_below(row[j] - log)
    for j in range(seen, row.shape[0]):
        row[j] = _ZERO


@_compiled
def _lean(slopes: NDArray, weights: NDArray, along: NDArray, scale: NDArray) -> None:
    """Replace the gradients of weights by those of scores before they were scaled."""
    for j in range(slopes.shape[0]):
        slopes[j] = (slopes[j] - along) * weights[j] * scale


@_compiled
def _dot(x: NDArray, y: NDArray) -> Any:
    total = _ZERO
    for j in range(x.shape[0]):
        total += x[j] * y[j]
    return total


@_compiled
def _forth(table: int, head: int, scratch: Any, i: int, j: int, seen: int) -> None:
    """Compute the queries from i to j of a head, which see so many keys."""
    product, scale = load(table + 8 * MULTIPLY), _as_float(np.int32(load(table + 8 * SCALE)))
    length, source, width = load(table + 8 * LENGTH), load(table + 8 * SOURCE), load(table + 8 * WIDTH)
    kept, causal = load(table + 8 * WEIGHTS), load(table + 8 * CAUSAL)
    place, step = (kept + 4 * (head * length + i) * source, source) if kept != 0 else (scratch, seen)
    q, k, v, out = _at(table, Q, head, i), _at(table, K, head, 0), _at(table, V, head, 0), _at(table, OUT, head, i)
    multiply(
        product, _PLAIN, _TURNED, j - i, seen, width, scale, q, _step(table, Q), k, _step(table, K), _ZERO, place, step
    )
    logs = array32(load(table + 8 * LOGS) + 4 * (head * length + i), j - i)
    for r in range(j - i):
        row = array32(place + 4 * r * step, seen)
        logs[r] = _weigh(row, min(i + r + 1, seen) if causal != 0 else seen)
    multiply(
        product, _PLAIN, _PLAIN, j - i, load(table + 8 * VALUE_WIDTH), seen, _ONE, place, step, v, _step(table, V),
        _ZERO, out, _step(table, OUT),
    )  # fmt: skip


@_compiled
def _back(table: int, head: int, scratch: Any, i: int, j: int, seen: int, keep: bool) -> None:
    """Compute what queries from i to j give to the gradients; those of keys and values are added to if `keep` is 1."""
    product, scale = load(table + 8 * MULTIPLY), _as_float(np.int32(load(table + 8 * SCALE)))
    length, source, width = load(table + 8 * LENGTH), load(table + 8 * SOURCE), load(table + 8 * WIDTH)
    deep, kept, causal = load(table + 8 * VALUE_WIDTH), load(table + 8 * WEIGHTS), load(table + 8 * CAUSAL)
    slopes = scratch
    place, step = (
        (kept + 4 * (head * length + i) * source, source) if kept != 0 else (scratch + 4 * (j - i) * seen, seen)
    )
    q, k, v, out = _at(table, Q, head, i), _at(table, K, head, 0), _at(table, V, head, 0), _at(table, OUT, head, i)
    g, gq, gk, gv = _at(table, G, head, i), _at(table, GQ, head, i), _at(table, GK, head, 0), _at(table, GV, head, 0)
    q_step, k_step, g_step = _step(table, Q), _step(table, K), _step(table, G)
    if kept == 0:
        multiply(product, _PLAIN, _TURNED, j - i, seen, width, scale, q, q_step, k, k_step, _ZERO, place, step)
        logs = array32(load(table + 8 * LOGS) + 4 * (head * length + i), j - i)
        for r in range(j - i):
            row = array32(place + 4 * r * step, seen)
            _weigh_again(row, min(i + r + 1, seen) if causal != 0 else seen, logs[r])
    multiply(product, _PLAIN, _TURNED, j - i, seen, deep, _ONE, g, g_step, v, _step(table, V), _ZERO, slopes, seen)
    for r in range(j - i):
        along = _dot(array32(g + 4 * r * g_step, deep), array32(out + 4 * r * _step(table, OUT), deep))
        _lean(array32(slopes + 4 * r * seen, seen), array32(place + 4 * r * step, seen), along, scale)
    multiply(product, _PLAIN, _PLAIN, j - i, width, seen, _ONE, slopes, seen, k, k_step, _ZERO, gq, _step(table, GQ))
    multiply(product, _TURNED, _PLAIN, seen, width, j - i, _ONE, slopes, seen, q, q_step, keep, gk, _step(table, GK))
    multiply(product, _TURNED, _PLAIN, seen, deep, j - i, _ONE, place, step, g, g_step, keep, gv, _step(table, GV))


@_compiled
def _seen(table: int, j: int) -> int:
    """Return how many keys the queries before j see."""
    source = load(table + 8 * SOURCE)
    return min(j, source) if load(table + 8 * CAUSAL) != 0 else source


@_compiled
def _scratch(table: int) -> int:
    """Return the memory of this thread."""
    return load(table + 8 * SCRATCH) + ask(load(table + 8 * NUMBER)) * load(table + 8 * SCRATCH_SIZE)


@_part
def forth(table: int, piece: int, start: int, stop: int) -> None:
    """Compute heads from `start` to `stop`."""
    block, length, scratch = load(table + 8 * BLOCK), load(table + 8 * LENGTH), _scratch(table)
    for head in range(start, stop):
        for i in range(0, length, block):
            j = min(i + block, length)
            _forth(table, head, scratch, i, j, _seen(table, j))


@_part
def back(table: int, piece: int, start: int, stop: int) -> None:
    """Compute the gradients of heads from `start` to `stop`; the last queries, which see most keys, come first."""
    block, length, scratch = load(table + 8 * BLOCK), load(table + 8 * LENGTH), _scratch(table)
    for head in range(start, stop):
        seen, keep = _seen(table, length), _ZERO
        for row in range(seen, load(table + 8 * SOURCE)):  # keys that are masked
            array32(_at(table, GK, head, row), load(table + 8 * WIDTH))[:] = _ZERO
            array32(_at(table, GV, head, row), load(table + 8 * VALUE_WIDTH))[:] = _ZERO
        for i in range((length - 1) // block * block, -1, -block):
            j = min(i + block, length)
            _back(table, head, scratch, i, j, _seen(table, j), keep)
            keep = _ONE
