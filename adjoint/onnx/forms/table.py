"""FORMS: what each primitive is in ONNX, one row for each that is no formula, and `write`, which writes a line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...compiler.expressions import computing_dtype, formula_of
from ...compiler.graph import Value
from ...export.program import Call, is_step
from ...export.sizes import Varying
from ...scalar.onnx import printed
from ..builder import Builder, Unsupported

__all__ = ["FORMS", "axes_of", "computed_in", "form", "write"]

# Called with the builder, and the operands and parameters of a line; return the name of the result, or of several.
FORMS: dict[str, Callable[..., Any]] = {}

_MASKS = ("condition", "mask")


def form(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Enter a function into the table, for the primitives of these names."""

    def enter(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            FORMS[name] = function
        return function

    return enter


def write(b: Builder, call: Call) -> list[str]:
    """Write a line; return the names of its results. Raises `Unsupported`."""
    b.line = call
    for value in [*call.inputs, *call.outputs]:
        if value.dtype.kind == "c":
            raise Unsupported("ONNX has no operators of complex numbers")
    row = FORMS.get(call.name)
    if row is not None:
        made = row(b, *call.operands, *call.params)
    elif is_step(call.op):
        if call.op.random:
            raise Unsupported("it uses random numbers; export the model in eval mode")
        raise Unsupported("it is no primitive, but computed by NumPy")
    else:
        made = derived(b, call)
    return [made] if isinstance(made, str) else list(made)


def derived(b: Builder, call: Call) -> str:
    """Write the nodes of an elementwise line from the formula that its op declares."""
    formula = None if is_step(call.op) else formula_of(_concrete(call))
    if formula is None:
        raise Unsupported("it has no formula and no row in adjoint/onnx/forms")
    dtype = computed_in(call)
    masks = [name in _MASKS for name in call.op.inputs]
    logic = all(isinstance(o, Value) and o.dtype == bool for o in call.operands)
    operands = {
        f"x{i}": b.of(o, np.bool_ if mask or logic else dtype)
        for i, (o, mask) in enumerate(zip(call.operands, masks, strict=True))
    }
    out = printed(b, formula, operands, dtype)
    made = np.dtype(bool) if formula.boolean else dtype
    return out if made == call.outputs[0].dtype else b.cast(out, call.outputs[0].dtype)


class _Concrete:
    """A line with the numbers of the first run in place of those that vary."""

    def __init__(self, call: Call) -> None:
        self.op, self.outputs = call.op, call.outputs
        self.operands = tuple(o.values[0] if isinstance(o, Varying) else o for o in call.operands)
        self.params = tuple(p.values[0] if isinstance(p, Varying) else p for p in call.params)


def _concrete(call: Call) -> Any:
    return _Concrete(call)


def computed_in(call: Call) -> np.dtype[Any]:
    """Return the dtype in which a line computes."""
    found = computing_dtype(_concrete(call))
    if call.op.traits.floating and found.kind in "biu":
        found = np.dtype(np.float32)
    return found


def axes_of(axes: Any, rank: int) -> tuple[int, ...]:
    """Return axes as a sorted tuple of numbers that are not negative; None: all."""
    given = range(rank) if axes is None else (axes,) if isinstance(axes, int | np.integer) else axes
    return tuple(sorted(int(i) % max(rank, 1) for i in given))
