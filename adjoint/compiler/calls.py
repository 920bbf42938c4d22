"""Calls of machine code: loops and small products of matrices, bound to their arrays before they run.

Code gets the address of a block of words: addresses of NumPy arrays (their headers, from which it reads where the
elements are), then numbers. What a program uses in every run is looked up once; arrays that are new in a run are
`NEW` in a call, and given when it is made. A `Row` is several calls that run without Python in between.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from ..kernels import blas, threads
from ..kernels.products import LARGE

NEW = None  # stands for an array that is given when the call is made
_Words = Callable[..., Any]
_prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p)  # lets go of the interpreter's lock


class Call:
    """Machine code and its block of words; `places` are those of arrays that are new in every run."""

    __slots__ = ("address", "arrays", "block", "function", "places", "run")

    def __init__(self, function: int, arrays: tuple[Any, ...], words: tuple[int, ...] = ()) -> None:
        self.function, self.arrays = function, arrays
        self.places = [i for i, a in enumerate(arrays) if a is NEW]
        self.block = (ctypes.c_int64 * (len(arrays) + len(words)))(*[0 if a is NEW else id(a) for a in arrays], *words)
        self.address = ctypes.addressof(self.block)
        self.run = _prototype(function)

    def __call__(self, *new: Any) -> None:
        """Run, on arrays that take the open places."""
        block = self.block
        for place, array in zip(self.places, new):
            block[place] = id(array)
        self.run(self.address)


class Row:
    """Calls that run one after the other."""

    __slots__ = ("address", "block", "calls", "places", "run")

    def __init__(self, runner: int, *calls: Call) -> None:
        self.calls = calls
        pairs = [word for call in calls for word in (call.function, call.address)]
        self.block = (ctypes.c_int64 * (len(pairs) + 1))(len(calls), *pairs)
        self.address = ctypes.addressof(self.block)
        self.places = [(call.block, place) for call in calls for place in call.places]
        self.run = _prototype(runner)

    def __call__(self, *new: Any) -> None:
        """Run, on arrays that take the open places of all calls."""
        for (block, place), array in zip(self.places, new):
            block[place] = id(array)
        self.run(self.address)


class Shared(Call):
    """A loop whose first range threads share: its last two words say from where to where."""

    __slots__ = ("least", "size")

    def __init__(self, function: int, arrays: tuple[Any, ...], size: int, least: int) -> None:
        super().__init__(function, arrays, (0, size))
        self.size, self.least = size, least

    def __call__(self, *new: Any) -> None:
        """Run in pieces, on arrays that take the open places."""
        for place, array in zip(self.places, new):
            self.block[place] = id(array)
        threads.share(self.piece, self.size, self.least)

    def piece(self, start: int, stop: int) -> None:
        """Run from an index to another."""
        block = type(self.block).from_buffer_copy(self.block)
        block[-2], block[-1] = start, stop
        self.run(ctypes.addressof(block))


class Pieces:
    """A loop in pieces that each reduce into arrays of their own, which are then put together."""

    def __init__(self, function: int, arrays: tuple[Any, ...], late: dict[int, Any], size: int, least: int) -> None:
        count = max(1, min(threads.count, size // least))
        bounds = [size * i // count for i in range(count + 1)]
        self.arrays = arrays
        self.places = [i for i, a in enumerate(arrays) if a is NEW]
        self.late = [(i, combine, np.empty((count, *shape), dtype)) for i, (combine, shape, dtype) in late.items()]
        self.calls = []
        for k in range(count):
            given = list(arrays)
            for i, _, parts in self.late:
                given[i] = parts[k, ...]
            self.calls.append(Call(function, tuple(given), (bounds[k], bounds[k + 1])))

    def __call__(self, *new: Any) -> None:
        """Run, on arrays that take the open places."""
        given = dict(zip(self.places, new))
        for call in self.calls:
            for place in call.places:
                call.block[place] = id(given[place])
        threads.share(self._run, len(self.calls))
        for i, combine, parts in self.late:
            combine.reduce(parts, 0, None, given.get(i, self.arrays[i]))

    def _run(self, first: int, last: int) -> None:
        for call in self.calls[first:last]:
            call.run(call.address)


class Loop:
    """The machine code of a loop; calling it with arrays binds it to them."""

    def __init__(self, function: int) -> None:
        self.function = function

    def __call__(self, *arrays: Any) -> Call:
        """Return a call of the loop."""
        return Call(self.function, arrays)

    def shared(self, size: int, least: int, *arrays: Any) -> Shared:
        """Return a call whose first range threads share."""
        return Shared(self.function, arrays, size, least)

    def pieces(self, late: dict[int, Any], size: int, least: int, *arrays: Any) -> Pieces:
        """Return a call in pieces that reduce apart; `late` says into which arrays, and by which ufunc."""
        return Pieces(self.function, arrays, late, size, least)


class Product:
    """Products of small matrices by BLAS; calling it with arrays binds it to them."""

    def __init__(self, function: int, gemm: int, words: tuple[int, ...]) -> None:
        self.function, self.words = function, (gemm, *words)

    def __call__(self, *arrays: Any) -> Call:
        """Return a call that writes the product of the first two arrays into the third."""
        return Call(self.function, arrays, self.words)

    @staticmethod
    def words_for(shapes: Any, strides: Any, itemsize: int) -> tuple[int, ...] | None:
        """Return what BLAS asks of matrices x, y and their product, None where this is left to NumPy."""
        (rows, inner), columns = shapes[0], shapes[1][1]
        if rows * inner * columns > LARGE or min(rows, inner, columns) < 2:
            return None
        laid = [_laid(shape, steps, itemsize) for shape, steps in zip(shapes, strides, strict=True)]
        if None in laid or laid[2][0]:  # type: ignore[index]
            return None
        (turn_x, lead_x), (turn_y, lead_y), (_, lead_out) = laid  # type: ignore[misc]
        return (111 + turn_x, 111 + turn_y, rows, columns, inner, lead_x, lead_y, lead_out)


def gemm_of(dtype: Any) -> int | None:
    """Return the address of NumPy's own BLAS function that multiplies matrices of a dtype."""
    return blas.address_of(f"cblas_{ {'float32': 's', 'float64': 'd'}[dtype.name] }gemm")


def _laid(shape: Any, steps: Any, itemsize: int) -> tuple[int, int] | None:
    """Return whether a matrix lies turned, and the distance of its rows, as BLAS takes it; None if it does not."""
    (rows, columns), (down, right) = shape, steps
    if right == itemsize and down % itemsize == 0 and down >= columns * itemsize:
        return 0, down // itemsize
    if down == itemsize and right % itemsize == 0 and right >= rows * itemsize:
        return 1, right // itemsize
    return None


# The code behind a `Row`, and behind a `Product` of each dtype; {head} is where an array's own fields begin.
ROW = """
define void @{symbol}(ptr %block) nounwind {{
entry:
  %count = load i64, ptr %block
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %turn, label %done
turn:
  %i = phi i64 [ 0, %entry ], [ %next, %turn ]
  %at = mul i64 %i, 16
  %first = add i64 %at, 8
  %second = add i64 %at, 16
  %function.at = getelementptr i8, ptr %block, i64 %first
  %given.at = getelementptr i8, ptr %block, i64 %second
  %function = load ptr, ptr %function.at
  %given = load ptr, ptr %given.at
  call void %function(ptr %given)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %count
  br i1 %more, label %turn, label %done
done:
  ret void
}}
"""
_FIELDS = ("x", "y", "out", "gemm", "turn.x", "turn.y", "rows", "columns", "inner", "lead.x", "lead.y", "lead.out")


def product_text(symbol: str, kind: str) -> str:
    """Return the instructions that multiply matrices of a kind (float, double) as a block says."""
    lines = []
    for i, name in enumerate(_FIELDS):
        lines.append(f"  %{name}.at = getelementptr i8, ptr %block, i64 {8 * i}")
        lines.append(f"  %{name} = load {'ptr' if i < 4 else 'i64'}, ptr %{name}.at")
    for name in ("x", "y", "out"):
        lines.append(f"  %{name}.field = getelementptr i8, ptr %{name}, i64 {object.__basicsize__}")
        lines.append(f"  %{name}.data = load ptr, ptr %{name}.field")
    for name in ("x", "y"):
        lines.append(f"  %turn.{name}.word = trunc i64 %turn.{name} to i32")
    given = (
        f"i32 101, i32 %turn.x.word, i32 %turn.y.word, i64 %rows, i64 %columns, i64 %inner, {kind} 1.0, ptr %x.data, "
        f"i64 %lead.x, ptr %y.data, i64 %lead.y, {kind} 0.0, ptr %out.data, i64 %lead.out"
    )
    body = "\n".join(lines)
    return f"define void @{symbol}(ptr %block) nounwind {{\n{body}\n  call void %gemm({given})\n  ret void\n}}\n"
