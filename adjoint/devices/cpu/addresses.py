"""What machine code can do and Numba has no word for: read, write and count at an address, and call one.

Only imported where Numba is installed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numba
from llvmlite import ir  # type: ignore[import-untyped, unused-ignore]
from numba import types
from numba.extending import intrinsic

from ..._typing import Kernel

if TYPE_CHECKING:
    from numba.core.base import BaseContext
    from numba.core.typing import Signature

word = ir.IntType(64)
intp = types.intp


def at(builder: ir.IRBuilder, address: ir.Value) -> Any:
    """Return an address as a pointer to a word."""
    return builder.inttoptr(address, word.as_pointer())


@intrinsic
def load(context: BaseContext, address: types.Type) -> Any:
    """Return the word at an address, in order with what other threads see."""

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
    ) -> ir.Value:
        return builder.load_atomic(at(builder, args[0]), "seq_cst", 8)

    return intp(intp), generate


@intrinsic
def add(context: BaseContext, address: types.Type, value: types.Type) -> tuple[Signature, Kernel]:
    """Add to the word at an address, and return what it was, in order with what other threads see."""

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
    ) -> ir.Value:
        return builder.atomic_rmw("add", at(builder, args[0]), args[1], "seq_cst")

    return intp(intp, intp), generate


@intrinsic
def call(context: BaseContext, function: types.Type, a: types.Type, b: types.Type, c: types.Type, d: types.Type) -> Any:
    """Call a function of four integers by its address."""

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
    ) -> ir.Value:
        kind = ir.FunctionType(ir.VoidType(), [word] * 4)
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return context.get_dummy_value()

    return types.void(intp, intp, intp, intp, intp), generate


@intrinsic
def ask(context: BaseContext, function: types.Type) -> tuple[Signature, Kernel]:
    """Return the integer result of a function without arguments, such as one of OpenMP's; by its address."""

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
    ) -> ir.Value:
        kind = ir.FunctionType(ir.IntType(32), [])
        return builder.sext(builder.call(builder.inttoptr(args[0], kind.as_pointer()), []), word)

    return intp(intp), generate


@intrinsic
def multiply(
    context: BaseContext, function: types.Type, turn_a: types.Type, turn_b: types.Type, rows: types.Type,
    columns: types.Type, inner: types.Type, factor: types.Type, a: types.Type, step_a: types.Type, b: types.Type,
    step_b: types.Type, keep: types.Type, out: types.Type, step_out: types.Type,
) -> tuple[Signature, Kernel]:  # fmt: skip
    """Write ``factor * a @ b + keep * out`` to `out`, by the address of oneDNN's sgemm; ord("T") turns a or b.

    Steps are from row to row, in elements.
    """
    number = ir.FloatType()
    kinds = [ir.IntType(32)] * 2 + [word] * 3 + [number] + [word] * 4 + [number] + [word] * 2

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
    ) -> ir.Value:
        kind = ir.FunctionType(ir.IntType(32), kinds)
        letters = [builder.trunc(a, ir.IntType(32)) for a in args[1:3]]
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), [*letters, *args[3:]])
        return context.get_dummy_value()

    float32 = types.float32
    given = [*[intp] * 6, float32, *[intp] * 4, float32, intp, intp]
    return types.void(*given), generate


def _array_of(kind: types.Type) -> Kernel:
    @intrinsic
    def pointer(context: BaseContext, address: types.Type) -> tuple[Signature, Kernel]:
        def generate(
            context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
        ) -> ir.Value:
            return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

        return types.CPointer(kind)(intp), generate

    @numba.njit(error_model="numpy")
    def array(address: Any, count: Any) -> Any:
        return numba.carray(pointer(address), count)

    return array


array32, array64 = _array_of(types.float32), _array_of(types.float64)


@intrinsic
def pointer(context: BaseContext, address: types.Type) -> tuple[Signature, Kernel]:
    """Return an address as a pointer."""

    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
    ) -> ir.Value:
        return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

    return types.voidptr(intp), generate
