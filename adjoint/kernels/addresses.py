"""Addresses in compiled loops: read as pointers, called, counted up by threads. Only for where Numba is installed."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped, unused-ignore]
from numba import types
from numba.extending import intrinsic

_word = ir.IntType(64)


@intrinsic
def pointer(context: Any, address: Any) -> Any:
    """Return an address as a pointer."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(types.voidptr))

    return types.voidptr(types.intp), generate


@intrinsic
def take(context: Any, address: Any) -> Any:
    """Return the word at an address and add 1 to it, at once for all threads."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = builder.inttoptr(args[0], _word.as_pointer())
        return builder.atomic_rmw("add", place, ir.Constant(_word, 1), "monotonic")

    return types.intp(types.intp), generate


@intrinsic
def call(context: Any, function: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Call the function at an address with four words."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.FunctionType(ir.VoidType(), [_word] * 4)
        builder.call(builder.inttoptr(args[0], kind.as_pointer()), args[1:])
        return context.get_dummy_value()

    return types.void(*[types.intp] * 5), generate
