"""Calls of machine code: loops and small matrix multiplications, bound to their arrays before they run.

Code gets the address of a block of fields: addresses of NumPy arrays (their headers, from which it reads where the
elements are), then numbers. What a program uses in every run is looked up once; arrays that are new in a run are
`NEW` in a call, and given when it is made. A `Row` is several calls that run without Python in between.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from .._typing import Array, DType, Shape
from ..devices.cpu import blas, threads
from ..devices.cpu.products import LARGE

NEW = None  # stands for an array that is given when the call is made
_prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p)  # lets go of the interpreter's lock


class Call:
    """Machine code and its block of fields; `slots` are the places of arrays that are new in every run."""

    __slots__ = ("address", "arrays", "block", "function", "run", "slots")

    def __init__(self, function: int, arrays: tuple[Any, ...], words: tuple[int, ...] = ()) -> None:
        self.function, self.arrays = function, arrays
        self.block = _block([0 if a is NEW else id(a) for a in arrays], words)
        self.slots = [[(self.block, i)] for i, a in enumerate(arrays) if a is NEW]
        self.address = ctypes.addressof(self.block)
        self.run = _prototype(function)

    def __call__(self, *new: Array) -> None:
        """Run, on arrays that take the open places."""
        for slot, array in zip(self.slots, new):
            for block, place in slot:
                block[place] = id(array)
        self.run(self.address)


class Row(Call):
    """Calls that run one after the other."""

    __slots__ = ()

    def __init__(self, runner: int, *calls: Call) -> None:
        super().__init__(runner, (), (len(calls), *(word for c in calls for word in (c.function, c.address))))
        self.arrays, self.slots = calls, [slot for call in calls for slot in call.slots]


class Team(Call):
    """A loop whose first range is split among threads: the last two fields of a block are the start and end of a part.

    Threads are those of devices/cpu/pool.py, where there is one; else Python's. Arrays at places `apart` have a part
    for each piece.
    """

    __slots__ = ("blocks",)

    def __init__(
        self, function: int, arrays: tuple[Any, ...], size: int, least: int, apart: tuple[int, ...], pool: Any
    ) -> None:
        count = pieces(size, least)
        parts = [tuple(a[k, ...] if i in apart else a for i, a in enumerate(arrays)) for k in range(count)]
        bounds = [size * k // count for k in range(count + 1)]
        self.blocks = [_block([0 if a is NEW else id(a) for a in p], bounds[k : k + 2]) for k, p in enumerate(parts)]
        addresses = [ctypes.addressof(block) for block in self.blocks]
        if pool is None:
            super().__init__(function, ())
            self.run = lambda _: threads.share(self._run_pieces, count)  # type: ignore[assignment]
        else:
            runner, *words = pool
            super().__init__(runner, (), (*words, count, function, *addresses))
        self.arrays = (*arrays, *parts)
        self.slots = [[(block, i) for block in self.blocks] for i, a in enumerate(arrays) if a is NEW]

    def _run_pieces(self, first: int, last: int) -> None:
        run = _prototype(self.function)
        for block in self.blocks[first:last]:
            run(ctypes.addressof(block))


def _block(addresses: list[int], words: Sequence[int]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * (len(addresses) + len(words)))(*addresses, *words)


def pieces(size: int, least: int) -> int:
    """Return into how many pieces a range is split among threads."""
    return max(1, min(threads.count, size // least))


class Loop:
    """The machine code of a loop; calling it with arrays binds it to them."""

    def __init__(self, function: int) -> None:
        self.function = function

    def __call__(self, *arrays: Array) -> Call:
        """Return a call of the loop."""
        return Call(self.function, arrays)

    def shared(self, pool: Any, size: int, least: int, apart: tuple[int, ...], *arrays: Array) -> Team:
        """Return a call whose first range is split among threads."""
        return Team(self.function, arrays, size, least, apart, pool)


class Product:
    """Products of small matrices by BLAS; calling it with arrays binds it to them."""

    def __init__(self, function: int, gemm: int, words: tuple[int, ...]) -> None:
        self.function, self.words = function, (gemm, *words)

    def __call__(self, *arrays: Array) -> Call:
        """Return a call that writes the product of the first two arrays into the third."""
        return Call(self.function, arrays, self.words)

    @staticmethod
    def words_for(shapes: Sequence[Shape], strides: Sequence[Sequence[int]], itemsize: int) -> tuple[int, ...] | None:
        """Return BLAS's arguments for matrices x, y and their product, None where this is left to NumPy."""
        (rows, inner), columns = shapes[0], shapes[1][1]
        if rows * inner * columns > LARGE or min(rows, inner, columns) < 2:
            return None
        laid = [_laid(shape, steps, itemsize) for shape, steps in zip(shapes, strides, strict=True)]
        if None in laid or laid[2][0]:  # type: ignore[index]
            return None
        (turn_x, lead_x), (turn_y, lead_y), (_, lead_out) = laid  # type: ignore[misc]
        return (111 + turn_x, 111 + turn_y, rows, columns, inner, lead_x, lead_y, lead_out)


def gemm_of(dtype: DType) -> int | None:
    """Return the address of NumPy's own BLAS function that multiplies matrices of a dtype."""
    return blas.address_of(f"cblas_{ {'float32': 's', 'float64': 'd'}[dtype.name] }gemm")


def _laid(shape: Shape, steps: Sequence[int], itemsize: int) -> tuple[int, int] | None:
    """Return whether a matrix is transposed in memory, and its leading dimension; None if BLAS cannot read it."""
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
# The code behind a `Team`; its block: the word that says whether OpenMP's threads are there, functions of OpenMP's, the
# number of pieces, their function, and a block for each.
TEAM = """
define void @{symbol}(ptr %block) nounwind {{
  %state = load i64, ptr %block
  %run.at = getelementptr i8, ptr %block, i64 8
  %run = load ptr, ptr %run.at
  %count.at = getelementptr i8, ptr %block, i64 16
  %count = load i64, ptr %count.at
  call void %run(i64 %state, ptr @{symbol}_piece, ptr %block, i64 %count, i64 %count)
  ret void
}}

define internal void @{symbol}_piece(ptr %block, i64 %piece, i64 %start, i64 %stop) nounwind {{
  %function.at = getelementptr i8, ptr %block, i64 24
  %function = load ptr, ptr %function.at
  %at = mul i64 %piece, 8
  %after = add i64 %at, 32
  %given.at = getelementptr i8, ptr %block, i64 %after
  %given = load ptr, ptr %given.at
  call void %function(ptr %given)
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
