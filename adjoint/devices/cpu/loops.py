"""Loops that Numba compiles, for what NumPy needs many passes for and oneDNN has not.

They take blocks of rows and release the interpreter's lock. `threads.share` splits the blocks among our own threads:
Numba's threads do not survive a fork and are never started. Machine code is stored on disk (disk.py).
Only imported where Numba is installed and an array is large.
"""

from __future__ import annotations

import functools
from typing import Any

import numba
import numpy as np

from ..._typing import Kernel, NDArray
from .mathematics import EXACT as _EXACT
from .mathematics import FLAGS as _FREE
from .mathematics import _as_bits, _as_bits64, _as_float, _as_float64
from .mathematics import exp_below as _exp_below
from .sources import njit

inlined = functools.partial(numba.njit, error_model="numpy", forceinline=True)


def _compiled(flags: set[str]) -> Kernel:
    return njit(nogil=True, fastmath=flags, error_model="numpy")


# --- Rows: what loops that are printed from statements call (rowwise.py) ----------------------------

lowest32, lowest64 = np.int32(-(2**31)), np.int64(-(2**63))


@inlined(fastmath=_FREE)
def accumulate(total: Any, x: float) -> float:
    """Return a sum; it may be taken in any order, which nothing else around it may."""
    return total + x


# LLVM makes vectors of the maximum of integers, so floats are compared as these: with the bits of negative ones turned
# over, they come in the same order. Beside NaNs the maximum may be that of the others.


@inlined(fastmath=_EXACT)
def above32(x: float) -> int:
    """Return an integer that is larger where a float32 is."""
    bits = _as_bits(x)
    return bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF))


@inlined(fastmath=_EXACT)
def number32(bits: int) -> float:
    """Return the float32 that has become an integer."""
    return _as_float(bits ^ ((bits >> np.int32(31)) & np.int32(0x7FFFFFFF)))


@inlined(fastmath=_EXACT)
def above64(x: float) -> int:
    """Return an integer that is larger where a float64 is."""
    bits = _as_bits64(x)
    return bits ^ ((bits >> np.int64(63)) & np.int64(0x7FFFFFFFFFFFFFFF))


@inlined(fastmath=_EXACT)
def number64(bits: int) -> float:
    """Return the float64 that has become an integer."""
    return _as_float64(bits ^ ((bits >> np.int64(63)) & np.int64(0x7FFFFFFFFFFFFFFF)))


_HALF, _ONE = np.float32(0.5), np.float32(1)


@_compiled(_EXACT)
def _top(row: NDArray) -> float:
    """Return the maximum of a row."""
    top = lowest32
    for j in range(row.shape[0]):
        bits = above32(row[j])
        top = bits if bits > top else top
    return number32(top)


# --- Sums, and one number repeated ------------------------------------------------------------------


@_compiled(_FREE)
def _sum(row: NDArray) -> Any:
    total = np.float32(0)
    for j in range(row.shape[0]):
        total += row[j]
    return total


@_compiled(_FREE)
def sum_rows(x: NDArray, out: NDArray) -> None:
    """Write the sum of each row."""
    for i in range(x.shape[0]):
        out[i] = _sum(x[i])


@_compiled(_FREE)
def sum_blocks(start: int, stop: int, x: NDArray, width: int, out: NDArray) -> None:
    """Write the sums of blocks of a vector, from one block to another; the last may be short."""
    for i in range(start, stop):
        out[i] = _sum(x[i * width : (i + 1) * width])


@_compiled(_FREE)
def product_rows(x: NDArray, out: NDArray) -> None:
    """Write the product of each row."""
    for i in range(x.shape[0]):
        total = _ONE
        for j in range(x.shape[1]):
            total *= x[i, j]
        out[i] = total


@_compiled(_FREE)
def product_back_rows(x: NDArray, numbers: NDArray, out: NDArray, zeros: NDArray) -> None:
    """Write each row's number divided by its elements, and how many of these are zero."""
    for i in range(x.shape[0]):
        number, count = numbers[i], np.float32(0)
        for j in range(x.shape[1]):
            out[i, j] = number / x[i, j]
            count += _ONE if x[i, j] == np.float32(0) else np.float32(0)
        zeros[i] = count


@_compiled(_EXACT)
def sum_columns(start: int, stop: int, x: NDArray, rows: int, width: int, out: NDArray) -> None:
    """Write the sums of a range of columns of a matrix; eight rows at a time are added, then the remaining rows."""
    target = out[start:stop]
    for j in range(stop - start):
        target[j] = np.float32(0)
    for i in range(0, rows - rows % 8, 8):
        at = i * width
        a, b = x[at + start : at + stop], x[at + width + start : at + width + stop]
        at += 2 * width
        c, d = x[at + start : at + stop], x[at + width + start : at + width + stop]
        at += 2 * width
        e, f = x[at + start : at + stop], x[at + width + start : at + width + stop]
        at += 2 * width
        g, h = x[at + start : at + stop], x[at + width + start : at + width + stop]
        for j in range(stop - start):
            target[j] += ((a[j] + b[j]) + (c[j] + d[j])) + ((e[j] + f[j]) + (g[j] + h[j]))
    for i in range(rows - rows % 8, rows):
        a = x[i * width + start : i * width + stop]
        for j in range(stop - start):
            target[j] += a[j]


@_compiled(_EXACT)
def fill(out: NDArray, value: float) -> None:
    """Write a number everywhere."""
    for i in range(out.shape[0]):
        out[i] = value


@_compiled(_EXACT)
def spread_rows(values: NDArray, out: NDArray) -> None:
    """Write each number to all of a row."""
    for i in range(out.shape[0]):
        value = values[i]
        for j in range(out.shape[1]):
            out[i, j] = value


@_compiled(_EXACT)
def repeat_rows(out: NDArray, row: NDArray) -> None:
    """Write one row to all."""
    for i in range(out.shape[0]):
        for j in range(out.shape[1]):
            out[i, j] = row[j]


# --- Running sums and products ----------------------------------------------------------------------

# Each number waits for the one before, so eight rows are taken at a time.


@_compiled(_EXACT)
def running_sum_rows(x: NDArray, reverse: bool, out: NDArray) -> None:
    """Write the sums of each row's elements up to each, or from each on."""
    rows, width = x.shape
    at = width - 1 if reverse else 0
    step = -1 if reverse else 1
    for i in range(0, rows - rows % 8, 8):
        a = b = c = d = e = f = g = h = np.float32(0)
        j = at
        for _ in range(width):
            a += x[i, j]
            b += x[i + 1, j]
            c += x[i + 2, j]
            d += x[i + 3, j]
            e += x[i + 4, j]
            f += x[i + 5, j]
            g += x[i + 6, j]
            h += x[i + 7, j]
            out[i, j], out[i + 1, j], out[i + 2, j], out[i + 3, j] = a, b, c, d
            out[i + 4, j], out[i + 5, j], out[i + 6, j], out[i + 7, j] = e, f, g, h
            j += step
    for i in range(rows - rows % 8, rows):
        a = np.float32(0)
        j = at
        for _ in range(width):
            a += x[i, j]
            out[i, j] = a
            j += step


@_compiled(_EXACT)
def running_product_rows(x: NDArray, out: NDArray) -> None:
    """Write the products of each row's elements up to each."""
    rows, width = x.shape
    for i in range(0, rows - rows % 8, 8):
        a = b = c = d = e = f = g = h = np.float32(1)
        for j in range(width):
            a *= x[i, j]
            b *= x[i + 1, j]
            c *= x[i + 2, j]
            d *= x[i + 3, j]
            e *= x[i + 4, j]
            f *= x[i + 5, j]
            g *= x[i + 6, j]
            h *= x[i + 7, j]
            out[i, j], out[i + 1, j], out[i + 2, j], out[i + 3, j] = a, b, c, d
            out[i + 4, j], out[i + 5, j], out[i + 6, j], out[i + 7, j] = e, f, g, h
    for i in range(rows - rows % 8, rows):
        a = np.float32(1)
        for j in range(width):
            a *= x[i, j]
            out[i, j] = a


@_compiled(_EXACT)
def running_product_back_rows(g: NDArray, x: NDArray, y: NDArray, out: NDArray) -> None:
    """Write the gradient of rows whose running products are `y`.

    An element is in every product from its own on: what was before it, times the sum of what follows.
    """
    rows, width = x.shape
    last = width - 1
    for i in range(0, rows - rows % 4, 4):
        a, b, c, d = g[i, last], g[i + 1, last], g[i + 2, last], g[i + 3, last]
        for j in range(last, 0, -1):
            out[i, j], out[i + 1, j] = y[i, j - 1] * a, y[i + 1, j - 1] * b
            out[i + 2, j], out[i + 3, j] = y[i + 2, j - 1] * c, y[i + 3, j - 1] * d
            a = g[i, j - 1] + x[i, j] * a
            b = g[i + 1, j - 1] + x[i + 1, j] * b
            c = g[i + 2, j - 1] + x[i + 2, j] * c
            d = g[i + 3, j - 1] + x[i + 3, j] * d
        out[i, 0], out[i + 1, 0], out[i + 2, 0], out[i + 3, 0] = a, b, c, d
    for i in range(rows - rows % 4, rows):
        a = g[i, last]
        for j in range(last, 0, -1):
            out[i, j] = y[i, j - 1] * a
            a = g[i, j - 1] + x[i, j] * a
        out[i, 0] = a


# --- Attention --------------------------------------------------------------------------------------


@_compiled(_FREE)
def exp_rows(x: NDArray, tops: NDArray, sums: NDArray) -> None:
    """Replace rows by the exponentials of their elements less their maximum; write maxima and sums."""
    for i in range(x.shape[0]):
        t, total = _top(x[i]), np.float32(0)
        tops[i] = t
        for j in range(x.shape[1]):
            e = _exp_below(x[i, j] - t)
            x[i, j] = e
            total += e
        sums[i] = total


@_compiled(_FREE)
def attention_back_rows(x: NDArray, slopes: NDArray, logs: NDArray, along: NDArray) -> None:
    """Replace scores by weights, given their logsumexp, and the gradients of weights by those of scores."""
    for i in range(x.shape[0]):
        t, a = logs[i], along[i]
        for j in range(x.shape[1]):
            w = _exp_below(x[i, j] - t)
            x[i, j] = w
            slopes[i, j] = (slopes[i, j] - a) * w
