"""Loops that Numba compiles for what moves, selects or scans numbers: copies, gathering, scattering, running sums.

Each is called as ``loop(start, stop, ...)`` with vectors that it sees whole, and does the rows (or columns) between
the two; `rows.run_cuts` shares these among threads. Only imported where Numba is installed and an array is large.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .loops import _EXACT, _as_bits, _compiled

_LOWEST = np.int32(-(2**31))
_SIGN = np.int32(0x7FFFFFFF)


# --- Copies -----------------------------------------------------------------------------------------

# A source that is one number, repeated, is given as one row of it, whose step is 0.
# Elements are assigned one by one: LLVM makes one copy of that, where Numba's slices go through checks.


@_compiled(_EXACT)
def _assign(target: Any, source: Any) -> None:
    for j in range(len(target)):
        target[j] = source[j]


@_compiled(_EXACT)
def _clear(target: Any) -> None:
    for j in range(len(target)):
        target[j] = np.float32(0)


@_compiled(_EXACT)
def box(
    start: int, stop: int, out: Any, width: int, top: int, bottom: int, left: int, right: int, source: Any, step: int
) -> None:
    """Write rows of zeros, with the rows of a source in the box from (top, left) to (bottom, right)."""
    for i in range(start, stop):
        row = out[i * width : (i + 1) * width]
        if i < top or i >= bottom:
            _clear(row)
            continue
        _clear(row[:left])
        _assign(row[left:right], source[(i - top) * step : (i - top) * step + right - left])
        _clear(row[right:])


@_compiled(_EXACT)
def copy(start: int, stop: int, out: Any, out_step: int, source: Any, step: int, width: int) -> None:
    """Write the rows of a source to rows that lie `out_step` apart."""
    for i in range(start, stop):
        _assign(out[i * out_step : i * out_step + width], source[i * step : i * step + width])


@_compiled(_EXACT)
def turned(
    start: int, stop: int, x: Any, out: Any, rows: int, width: int, down: int, along: int, upside: int, mirrored: int
) -> None:
    """Write the rows of matrices rolled, down and along them; upside down, or mirrored, if these say so."""
    for i in range(start, stop):
        matrix, row = i // rows, i % rows
        row = rows - 1 - row if upside else (row + down) % rows
        source, target = x[i * width : (i + 1) * width], out[(matrix * rows + row) * width :][:width]
        if mirrored:
            for j in range(width):
                target[width - 1 - j] = source[j]
        else:
            _assign(target[along:], source[: width - along])
            _assign(target[:along], source[width - along :])


@_compiled(_EXACT)
def triangle(
    start: int, stop: int, x: Any, step: int, out: Any, rows: int, width: int, diagonal: int, lower: int
) -> None:
    """Write matrices with zeros above a diagonal, or below it."""
    for i in range(start, stop):
        end = min(max(i % rows + diagonal + lower, 0), width)
        source, target = x[i * step : i * step + width], out[i * width : (i + 1) * width]
        if lower:
            _assign(target[:end], source[:end])
            _clear(target[end:])
        else:
            _clear(target[:end])
            _assign(target[end:], source[end:])


# --- Gathering and scattering -------------------------------------------------------------------------


@_compiled(_EXACT)
def gather(start: int, stop: int, x: Any, width: int, index: Any, count: int, out: Any, wrong: Any) -> None:
    """Write the elements of each row that its index names; if one is not in its row, say so."""
    for i in range(start, stop):
        row, chosen, target = x[i * width : (i + 1) * width], index[i * count :][:count], out[i * count :][:count]
        bad = 0
        for j in range(count):
            inside = np.uint64(chosen[j]) < np.uint64(width)
            bad |= not inside
            target[j] = row[np.uint64(chosen[j] if inside else 0)]
        if bad:
            wrong[0] = 1


@_compiled(_EXACT)
def scatter_add(
    start: int, stop: int, out: Any, width: int, index: Any, count: int, y: Any, step: int, wrong: Any
) -> None:
    """Add numbers to the elements of each row that its index names, one after another; if one is not there, say so."""
    for i in range(start, stop):
        row, chosen, values = out[i * width : (i + 1) * width], index[i * count :][:count], y[i * step :][:count]
        for j in range(count):
            if np.uint64(chosen[j]) < np.uint64(width):
                row[np.uint64(chosen[j])] += values[j]
            else:
                wrong[0] = 1


@_compiled(_EXACT)
def take_rows(start: int, stop: int, x: Any, width: int, numbers: Any, out: Any) -> None:
    """Write the rows that numbers name."""
    for i in range(start, stop):
        at = numbers[i] * width
        _assign(out[i * width : (i + 1) * width], x[at : at + width])


@_compiled(_EXACT)
def add_rows(start: int, stop: int, out: Any, width: int, numbers: Any, values: Any, step: int) -> None:
    """Add each row of values, from column `start` to `stop`, to the row that its number names, one after another."""
    for i in range(numbers.shape[0]):
        at = numbers[i] * width
        row, value = out[at + start : at + stop], values[i * step + start : i * step + stop]
        for j in range(stop - start):
            row[j] += value[j]


# --- Selection ----------------------------------------------------------------------------------------


@_compiled(_EXACT)
def _key(x: Any, turn: Any) -> Any:
    """Return a whole number that comes in the order of floats: zero has no sign, and NaN comes after all others.

    A `turn` of -1 reverses the order.
    """
    bits = _as_bits(x)
    key = np.int32(bits ^ ((bits >> np.int32(31)) & _SIGN))
    key = np.int32(0) if bits == _LOWEST else key
    return np.int32((key if x == x else _SIGN) ^ turn)


@_compiled(_EXACT)
def _top(row: Any, turn: Any) -> Any:
    top = _LOWEST
    for j in range(len(row)):
        key = _key(row[j], turn)
        top = key if key > top else top
    return top


@_compiled(_EXACT)
def _put(keys: Any, places: Any, filled: int, key: Any, place: int) -> None:
    """Put a key among those found, best first; the last falls out where all places are filled."""
    at = min(filled, len(keys) - 1)
    while at > 0 and key > keys[at - 1]:
        keys[at], places[at] = keys[at - 1], places[at - 1]
        at -= 1
    keys[at], places[at] = key, place


@_compiled(_EXACT)
def best(start: int, stop: int, x: Any, width: int, count: int, largest: int, out: Any) -> None:
    """Write the places of the largest (or smallest) elements of each row, best first, earlier ones before equals.

    The best keys of stretches of 32 come first, in vectors: only as many stretches as elements are wanted, and those
    that equal the last of these, can have one that is wanted.
    """
    turn = np.int32(0) if largest else np.int32(-1)
    tops, keys = np.empty((width + 31) // 32, np.int32), np.empty(count, np.int32)
    for i in range(start, stop):
        row, places = x[i * width : (i + 1) * width], out[i * count : (i + 1) * count]
        filled = 0
        for k in range(len(tops)):
            tops[k] = _top(row[32 * k : min(32 * k + 32, width)], turn)
            if filled < count or tops[k] > keys[count - 1]:
                _put(keys, places, filled, tops[k], k)
                filled = min(filled + 1, count)
        bound = keys[count - 1] if filled == count else _LOWEST
        filled = 0
        for k in range(len(tops)):
            if tops[k] < bound:
                continue
            for j in range(32 * k, min(32 * k + 32, width)):
                key = _key(row[j], turn)
                if key >= bound and (filled < count or key > keys[count - 1]):
                    _put(keys, places, filled, key, j)
                    filled = min(filled + 1, count)


@_compiled(_EXACT)
def extreme(
    start: int, stop: int, x: Any, matrices: int, rows: int, width: int, sign: Any, values: Any, places: Any
) -> None:
    """Write the smallest element of each column of matrices, and its place; by a sign of -1, the largest. NaN is both.

    Of equal ones it is the first.
    """
    at = np.zeros(stop - start, np.int32)
    for m in range(matrices):
        value, place = values[m * width + start : m * width + stop], places[m * width + start : m * width + stop]
        for j in range(stop - start):
            value[j], at[j] = x[m * rows * width + start + j] * sign, 0
        for i in range(1, rows):
            row = x[(m * rows + i) * width + start : (m * rows + i) * width + stop]
            for j in range(stop - start):
                new = row[j] * sign
                better = (not (new >= value[j])) & (value[j] == value[j])
                value[j] = new if better else value[j]
                at[j] = np.int32(i) if better else at[j]
        for j in range(stop - start):
            value[j] *= sign
            place[j] = at[j]


# --- Running sums ---------------------------------------------------------------------------------------------


@_compiled(_EXACT)
def running_sums(
    start: int, stop: int, x: Any, step: int, matrices: int, rows: int, width: int, reverse: int, out: Any
) -> None:
    """Write the sums of a column's elements up to each, or from each on, for columns `start` to `stop` of matrices."""
    for m in range(matrices):
        at, way = ((m + 1) * rows - 1, -1) if reverse else (m * rows, 1)
        before = out[at * width + start : at * width + stop]
        _assign(before, x[at * step + start : at * step + stop])
        for _ in range(1, rows):
            at += way
            row, target = x[at * step + start : at * step + stop], out[at * width + start : at * width + stop]
            for j in range(stop - start):
                target[j] = before[j] + row[j]
            before = target
