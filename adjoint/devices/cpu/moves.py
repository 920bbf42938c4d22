"""Loops that Numba compiles for what moves, selects or scans numbers: copies, gathering, scattering, running sums.

Each is called as ``loop(start, stop, ...)`` with vectors that it sees whole, and does the rows (or columns) between
the two; `rows.run_cuts` splits these among threads. Only imported where Numba is installed and an array is large.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..._typing import NDArray
from .loops import _EXACT, _as_bits, _compiled

_LOWEST = np.int32(-(2**31))
_SIGN = np.int32(0x7FFFFFFF)


# --- Copies -----------------------------------------------------------------------------------------

# A source that is one number, repeated, is given as one row of it, whose step is 0.
# Elements are assigned one by one: LLVM makes one copy of that, where Numba's slices go through checks.


@_compiled(_EXACT)
def _assign(target: NDArray, source: NDArray) -> None:
    for j in range(len(target)):
        target[j] = source[j]


@_compiled(_EXACT)
def _clear(target: NDArray) -> None:
    for j in range(len(target)):
        target[j] = np.float32(0)


@_compiled(_EXACT)
def box(
    start: int,
    stop: int,
    out: NDArray,
    width: int,
    top: int,
    bottom: int,
    left: int,
    right: int,
    source: NDArray,
    step: int,
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
def copy(start: int, stop: int, out: NDArray, out_step: int, source: NDArray, step: int, width: int) -> None:
    """Write the rows of a source to rows whose starts are `out_step` apart."""
    for i in range(start, stop):
        _assign(out[i * out_step : i * out_step + width], source[i * step : i * step + width])


@_compiled(_EXACT)
def turned(
    start: int,
    stop: int,
    x: NDArray,
    out: NDArray,
    rows: int,
    width: int,
    down: int,
    along: int,
    upside: int,
    mirrored: int,
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
    start: int, stop: int, x: NDArray, step: int, out: NDArray, rows: int, width: int, diagonal: int, lower: int
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
def gather(
    start: int, stop: int, x: NDArray, width: int, index: NDArray, count: int, out: NDArray, wrong: NDArray
) -> None:
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
    start: int, stop: int, out: NDArray, width: int, index: NDArray, count: int, y: NDArray, step: int, wrong: NDArray
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
def take_rows(start: int, stop: int, x: NDArray, width: int, numbers: NDArray, out: NDArray) -> None:
    """Write the rows that numbers name."""
    for i in range(start, stop):
        at = numbers[i] * width
        _assign(out[i * width : (i + 1) * width], x[at : at + width])


@_compiled(_EXACT)
def add_rows(start: int, stop: int, out: NDArray, width: int, numbers: NDArray, values: NDArray, step: int) -> None:
    """Add each row of values, from column `start` to `stop`, to the row that its number names, one after another."""
    for i in range(numbers.shape[0]):
        at = numbers[i] * width
        row, value = out[at + start : at + stop], values[i * step + start : i * step + stop]
        for j in range(stop - start):
            row[j] += value[j]


# --- Selection ----------------------------------------------------------------------------------------


@_compiled(_EXACT)
def _key(x: float, turn: int) -> Any:
    """Return a whole number that comes in the order of floats: zero has no sign, and NaN comes after all others.

    A `turn` of -1 reverses the order.
    """
    bits = _as_bits(x)
    key = np.int32(bits ^ ((bits >> np.int32(31)) & _SIGN))
    key = np.int32(0) if bits == _LOWEST else key
    return np.int32((key if x == x else _SIGN) ^ turn)


@_compiled(_EXACT)
def _top(row: NDArray, turn: int) -> Any:
    top = _LOWEST
    for j in range(len(row)):
        key = _key(row[j], turn)
        top = key if key > top else top
    return top


@_compiled(_EXACT)
def _put(keys: Any, places: NDArray, filled: int, key: int, place: int) -> None:
    """Put a key among those found, best first; the last falls out where all places are filled."""
    at = min(filled, len(keys) - 1)
    while at > 0 and key > keys[at - 1]:
        keys[at], places[at] = keys[at - 1], places[at - 1]
        at -= 1
    keys[at], places[at] = key, place


@_compiled(_EXACT)
def best(start: int, stop: int, x: NDArray, width: int, count: int, largest: int, out: NDArray) -> None:
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
    start: int,
    stop: int,
    x: NDArray,
    matrices: int,
    rows: int,
    width: int,
    sign: float,
    values: NDArray,
    places: NDArray,
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
    start: int, stop: int, x: NDArray, step: int, matrices: int, rows: int, width: int, reverse: int, out: NDArray
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


# --- Images read between pixels -----------------------------------------------------------------------


@_compiled(_EXACT)
def _along(c: Any, size: int, aligned: int, border: int) -> Any:
    """Return the pixel before a place from -1 to 1, how far beyond it the place is, and how fast that changes."""
    half = np.float32(0.5)
    n = np.float32(size)
    if aligned:
        slope = (n - np.float32(1)) * half
        c = (c + np.float32(1)) * slope
    else:
        slope = n * half
        c = ((c + np.float32(1)) * n - np.float32(1)) * half
    if border:
        last = n - np.float32(1)
        if c <= 0 or c >= last:
            c, slope = np.float32(0) if c <= 0 else last, np.float32(0)
    if not (c > -1 and c < n):  # nor is NaN, which weights then are
        return -2, c * np.float32(0), np.float32(0)
    low = np.floor(c)
    return int(low), c - low, slope


@_compiled(_EXACT)
def _prepare(grid: NDArray, height: int, width: int, aligned: int, border: int, at: NDArray, parts: NDArray) -> None:
    """Write where the first of the four pixels around each place is in a frame, and the parts of their weights.

    A frame is an image with zeros around it, two rows of them above, so that none of the four has to be looked for:
    those around a place outside of the image are the first.
    """
    for p in range(len(at)):
        x, tx, sx = _along(grid[2 * p], width, aligned, border)
        y, ty, sy = _along(grid[2 * p + 1], height, aligned, border)
        parts[0, p], parts[1, p], parts[2, p], parts[3, p] = tx, ty, sx, sy
        at[p] = (y + 2) * (width + 2) + x + 1 if x >= -1 and y >= -1 else 0


@_compiled(_EXACT)
def _frame(plane: NDArray, width: int, frame: NDArray) -> None:
    for y in range(len(plane) // width):
        _assign(frame[(y + 2) * (width + 2) + 1 :][:width], plane[y * width : (y + 1) * width])


@_compiled(_EXACT)
def sample(
    start: int, stop: int, x: NDArray, channels: int, height: int, width: int, grid: NDArray, places: int, aligned: int,
    border: int, out: NDArray,
) -> None:  # fmt: skip
    """Write each plane of images at the places of its image's grid."""
    at, parts = np.empty(places, np.uint32), np.empty((4, places), np.float32)
    frame, down = np.zeros((height + 3) * (width + 2), np.float32), np.uint32(width + 2)
    one, ready = np.float32(1), -1
    for i in range(start, stop):
        if i // channels != ready:
            ready = i // channels
            _prepare(grid[2 * places * ready :][: 2 * places], height, width, aligned, border, at, parts)
        _frame(x[i * height * width : (i + 1) * height * width], width, frame)
        target = out[i * places : (i + 1) * places]
        for p in range(places):
            k, tx, ty = at[p], parts[0, p], parts[1, p]
            above = frame[k] * (one - tx) + frame[k + np.uint32(1)] * tx
            below = frame[k + down] * (one - tx) + frame[k + down + np.uint32(1)] * tx
            target[p] = above * (one - ty) + below * ty


@_compiled(_EXACT)
def _spread(plane: NDArray, width: int, g: NDArray, at: NDArray, parts: NDArray, frame: NDArray) -> None:
    """Write the gradient of a plane: what each place gives to the pixels around it."""
    one, down = np.float32(1), np.uint32(width + 2)
    _clear(frame)
    for p in range(len(g)):
        k, tx, ty = at[p], parts[0, p], parts[1, p]
        above, below = g[p] * (one - ty), g[p] * ty
        frame[k] += above * (one - tx)
        frame[k + np.uint32(1)] += above * tx
        frame[k + down] += below * (one - tx)
        frame[k + down + np.uint32(1)] += below * tx
    for y in range(len(plane) // width):
        _assign(plane[y * width : (y + 1) * width], frame[(y + 2) * (width + 2) + 1 :][:width])


@_compiled(_EXACT)
def _tilt(width: int, g: NDArray, at: NDArray, parts: NDArray, frame: NDArray, slopes: NDArray) -> None:
    """Add to the gradients of places, in pixels."""
    one, down = np.float32(1), np.uint32(width + 2)
    for p in range(len(g)):
        k, tx, ty = at[p], parts[0, p], parts[1, p]
        a, b, c, d = frame[k], frame[k + np.uint32(1)], frame[k + down], frame[k + down + np.uint32(1)]
        slopes[0, p] += g[p] * ((b - a) * (one - ty) + (d - c) * ty)
        slopes[1, p] += g[p] * ((c - a) * (one - tx) + (d - b) * tx)


@_compiled(_EXACT)
def sample_back(
    start: int, stop: int, x: NDArray, channels: int, height: int, width: int, grid: NDArray, places: int, aligned: int,
    border: int, g: NDArray, needs: int, gx: NDArray, ggrid: NDArray,
) -> None:  # fmt: skip
    """Write the gradients of images and of grids; a `needs` of 1 is the first, of 2 the second."""
    at, parts = np.empty(places, np.uint32), np.empty((4, places), np.float32)
    frames = np.zeros((2, (height + 3) * (width + 2)), np.float32)
    frame, other = frames[0], frames[1]
    slopes, size = np.zeros((2, places), np.float32), height * width
    for i in range(start, stop):
        _prepare(grid[2 * places * i :][: 2 * places], height, width, aligned, border, at, parts)
        slopes[:] = 0
        for k in range(i * channels, (i + 1) * channels):
            change = g[k * places : (k + 1) * places]
            if needs & 1:
                _spread(gx[k * size : (k + 1) * size], width, change, at, parts, other)
            if needs & 2:
                _frame(x[k * size : (k + 1) * size], width, frame)
                _tilt(width, change, at, parts, frame, slopes)
        if needs & 2:
            target = ggrid[2 * places * i : 2 * places * (i + 1)]
            for p in range(places):
                target[2 * p], target[2 * p + 1] = slopes[0, p] * parts[2, p], slopes[1, p] * parts[3, p]
