"""Compiled loops over rows, split among the native threads of `pool.py`.

A Python thread that is woken comes a tenth of a millisecond late, for it needs the interpreter's lock. Where there is
no pool, Python's threads share the rows all the same.
"""

from __future__ import annotations

import ctypes
import functools
from array import array
from collections.abc import Sequence
from typing import Any

from ..._typing import Array
from . import pool, provider, team, threads
from .memory import place_of
from .sizes import THREAD_ROWS as _SHARE
from .sources import Loops


def run_rows(loop: Any, kinds: str, *arguments: Any, count: int = 0) -> None:
    """Call a loop of `loops.py` on pieces of its rows, `count` of them or as many as pay.

    A letter says of each argument what it is: 'r' an array of rows, 'v' of one number per row, 'w' a vector that all
    pieces read, 'p' an array with one row for each piece (see `pieces`), 'f' a number, 'b' a boolean. Arrays are
    contiguous and float32.
    """
    total = len(arguments[0])
    count = count or pieces(arguments[0])
    if count == 1:
        loop(*[a[0] if kind == "p" else a for kind, a in zip(kinds, arguments, strict=True)])
        return
    native = thread_pool()
    if native is not None:
        block = _block(kinds, arguments)
        native.run(_part(loop, kinds), block.buffer_info()[0], total, count)
        return

    def some(first: int, last: int) -> None:
        for piece in range(first, last):
            rows = slice(total * piece // count, total * (piece + 1) // count)
            cuts = {"r": rows, "v": rows, "p": piece}
            loop(*[a[cuts[kind]] if kind in cuts else a for kind, a in zip(kinds, arguments, strict=True)])

    threads.share(some, count)


def run_pieces(part: Any, at: int, total: int, count: int) -> None:
    """Call machine code, ``part(address of fields, piece, start, stop)``, on so many pieces of ``range(total)``."""
    native = thread_pool() if count > 1 else None
    if native is not None:
        native.run(part.address, at, total, count)
        return

    def some(first: int, last: int) -> None:
        for piece in range(first, last):
            part.ctypes(at, piece, total * piece // count, total * (piece + 1) // count)

    if count > 1:
        threads.share(some, count)
    else:
        part.ctypes(at, 0, 0, total)


def run_part(part: Any, words: Any, total: int) -> None:
    """Call machine code, ``part(address of words, piece, start, stop)``, for each of so many pieces, by OpenMP."""
    functions = team.functions() if total > 1 and threads.may_share() else None
    at = words.buffer_info()[0]
    if functions is None:
        part.ctypes(at, 0, 0, total)
    else:
        job = array("q", (0, total, total, part.address, at))
        parallel, serve = _openmp(functions[0])
        parallel(serve, job.buffer_info()[0], min(total, threads.count), 0)


@functools.cache
def _openmp(parallel: int) -> tuple[Any, int]:
    """Return OpenMP's function, and the address of the code that each of its threads runs."""
    word = ctypes.c_void_p
    function = ctypes.CFUNCTYPE(None, word, word, ctypes.c_uint, ctypes.c_uint)(parallel)
    return function, _cfuncs().load(_SERVE).address


def run_cuts(loop: Any, kinds: str, total: int, size: int, *arguments: Any, least: int = _SHARE) -> None:
    """Call a loop of `moves.py`, ``loop(start, stop, *arguments)``, on pieces of ``range(total)``.

    `size` is how many elements that is in all, `least` how many are worth a thread. A letter says of each argument what
    it is: 'w' a vector of float32, 'l' of int64, 's' a whole number, 'f' one of float32. Vectors are contiguous, and
    all pieces see the whole of them.
    """
    count = min(threads.count, size // least, total)
    if count <= 1:
        loop(0, total, *arguments)
        return
    native = thread_pool()
    if native is None:
        threads.share(lambda start, stop: loop(start, stop, *arguments), total, max(total // count, 1))
    else:
        block = _block(kinds, arguments)
        native.run(_cut(loop, kinds), block.buffer_info()[0], total, count)


def pieces(rows: Array, least: int = _SHARE, most: int = 0) -> int:
    """Return in how many pieces rows are shared: one for each thread, of at least and at most so many elements."""
    count = min(threads.count, rows.size // least, len(rows))
    return max(count, -(-rows.size // most) if most else 0, 1)


def thread_pool() -> pool.Pool | None:
    """Return the pool of native threads; None in a thread of a pool, and where there is no pool."""
    return pool.pool() if threads.may_share() and provider.fast_allowed() else None


# --- Machine code -----------------------------------------------------------------------------------


def _block(kinds: str, arguments: Sequence[Any]) -> array[int]:
    """Return what a piece reads of its arguments, two fields for each."""
    words: list[int] = []
    for kind, a in zip(kinds, arguments, strict=True):
        if kind == "f":
            words += (ctypes.c_int32.from_buffer(ctypes.c_float(a)).value, 0)
        elif kind in "bs":
            words += (a, 0)
        else:
            words += (place_of(a), a.shape[-1])
    return array("q", words)  # a third of the time of an array of ctypes


@functools.cache
def _cfuncs() -> Loops:
    return Loops(_HEAD)


@functools.cache
def _part(loop: Any, kinds: str) -> int:
    """Return the address of a function that calls a loop on one piece of its arrays."""
    return _compiled(loop, kinds, "rows = stop - start", "")


@functools.cache
def _cut(loop: Any, kinds: str) -> int:
    """Return the address of a function that calls a loop with the ends of one piece."""
    return _compiled(loop, kinds, "", "start, stop, ")


def _compiled(loop: Any, kinds: str, first: str, ends: str) -> int:
    lines = [f"w = carray(pointer(block), ({2 * len(kinds)},), np.int64)", first]
    for i, kind in enumerate(kinds):
        lines.append(f"a{i} = {_READ[kind]}".replace("PLACE", f"w[{2 * i}]").replace("WIDTH", f"w[{2 * i + 1}]"))
    names = ends + ", ".join(f"a{i}" for i in range(len(kinds)))
    source = _PART.replace("TEXT", "\n    ".join(filter(None, lines))).replace("NAMES", names)
    source = source.replace("MODULE", loop.py_func.__module__).replace("FUNCTION", loop.py_func.__name__)
    return int(_cfuncs().load(source).address)


# How a piece reads its arguments; there are two fields for each.
_READ = {
    "r": "carray(pointer(PLACE + 4 * start * WIDTH), (rows, WIDTH), np.float32)",
    "v": "carray(pointer(PLACE + 4 * start), (rows,), np.float32)",
    "w": "carray(pointer(PLACE), (WIDTH,), np.float32)",
    "p": "carray(pointer(PLACE + 4 * piece * WIDTH), (WIDTH,), np.float32)",
    "f": "as_float(np.int32(PLACE))",
    "b": "PLACE != 0",
    "l": "carray(pointer(PLACE), (WIDTH,), np.int64)",
    "s": "PLACE",
}
_HEAD = """import numpy as np
from numba import carray

from adjoint.devices.cpu.addresses import add, call, pointer
from adjoint.devices.cpu.mathematics import _as_float as as_float
from adjoint.devices.cpu.sources import cfunc

"""
_PART = """
from MODULE import FUNCTION


@cfunc("void(intp, intp, intp, intp)")
def kernel(block, piece, start, stop):
    TEXT
    FUNCTION(NAMES)
"""
_SERVE = """
@cfunc("void(intp)")
def kernel(job):
    w = carray(pointer(job), (5,), np.int64)
    i = add(job, 1)
    while i < w[1]:
        call(w[3], w[4], i, w[2] * i // w[1], w[2] * (i + 1) // w[1])
        i = add(job, 1)
"""
