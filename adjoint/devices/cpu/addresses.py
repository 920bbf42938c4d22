"""What machine code can do and Numba has no word for: read, write and count at an address, and call one.

Only imported where Numba is installed.
"""

from __future__ import annotations

from typing import Any

import numba
from llvmlite import ir  # type: ignore[import-untyped, unused-ignore]
from numba import types
from numba.extending import intrinsic

word = ir.IntType(64)
intp = types.intp


def at(builder: Any, address: Any) -> Any:
    """Return an address as a pointer to a word."""
    return builder.inttoptr(address, word.as_pointer())


@intrinsic
def load(context: Any, address: Any) -> Any:
    """Return the word at an address, in order with what other threads see."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(at(builder, args[0]), "seq_cst", 8)

    return intp(intp), generate


@intrinsic
def add(context: Any, address: Any, value: Any) -> Any:
    """Add to the word at an address, and return what it was, in order with what other threads see."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", at(builder, args[0]), args[1], "seq_cst")

    return intp(intp, intp), generate


@intrinsic
def call(context: Any, function: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Call a function of four words by its address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [word] * 4)
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return context.get_dummy_value()

    return types.void(intp, intp, intp, intp, intp), generate


@intrinsic
def ask(context: Any, function: Any) -> Any:
    """Return the number that a function without arguments, such as one of OpenMP's, answers; by its address."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), [])
        return builder.sext(builder.call(builder.inttoptr(args[0], kind.as_pointer()), []), word)

    return intp(intp), generate


@intrinsic
def multiply(
    context: Any, function: Any, turn_a: Any, turn_b: Any, rows: Any, columns: Any, inner: Any, factor: Any,
    a: Any, step_a: Any, b: Any, step_b: Any, keep: Any, out: Any, step_out: Any,
) -> Any:  # fmt: skip
    """Write ``factor * a @ b + keep * out`` to `out`, by the address of oneDNN's sgemm; ord("T") turns a or b.

    Steps are from row to row, in elements.
    """
    number = ir.FloatType()
    kinds = [ir.IntType(32)] * 2 + [word] * 3 + [number] + [word] * 4 + [number] + [word] * 2

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.IntType(32), kinds)
        letters = [builder.trunc(a, ir.IntType(32)) for a in args[1:3]]
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), [*letters, *args[3:]])
        return context.get_dummy_value()

    float32 = types.float32
    given = [*[intp] * 6, float32, *[intp] * 4, float32, intp, intp]
    return types.void(*given), generate


def _array_of(kind: Any) -> Any:
    @intrinsic
    def pointer(context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind)(intp), generate

    @numba.njit(error_model="numpy")
    def array(address: Any, count: Any) -> Any:
        return numba.carray(pointer(address), count)

    return array


array32, array64 = _array_of(types.float32), _array_of(types.float64)


@intrinsic
def pointer(context: Any, address: Any) -> Any:
    """Return an address as a pointer."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

    return types.voidptr(intp), generate
