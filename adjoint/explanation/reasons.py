"""Why a node gave zero or NaN: only what its saved values show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from . import gradients
from .gradients import Passage

# Ops whose derivative is zero at every point.
_FLAT = ("Sign", "Round", "Floor", "Ceil", "Trunc", "Heaviside", "Sgn")

# Ops that pass a gradient to some elements and none to others: it arrived at others only.
_SELECTING = {
    "Relu": "its input is negative or zero",
    "Threshold": "its input is below the threshold",
    "Clamp": "its input is outside the bounds",
    "Hardtanh": "its input is outside the bounds",
    "Relu6": "its input is outside the bounds",
    "Hardsigmoid": "its input is outside the bounds",
    "Where": "the other argument was chosen",
    "MaskedFill": "the element was overwritten",
    "Maximum": "the other argument was larger",
    "Minimum": "the other argument was smaller",
}


def of_zero(p: Passage, x: Any) -> str:
    """Return why a gradient became zero in a node, or an empty text if the cause is unknown."""
    if gradients.underflows(p, x):
        kind = np.finfo(p.received[0].array.dtype)
        return (
            f"underflow: what arrived is at most {p.entered:.2g}, and {p.received[0].array.dtype} holds nothing below "
            f"{float(kind.smallest_subnormal):.2g}; scale the loss, or compute in float64"
        )
    name = p.title.partition("Backward")[0]
    if name in _FLAT:
        return "its derivative is zero everywhere"
    if name in _SELECTING:
        return f"wherever a gradient arrives, {_SELECTING[name]}"
    check = _CHECKS.get(name)
    return check(p, dict(gradients.saved_values(p.node))) if check is not None else ""


def _factor(what: str) -> Callable[[Passage, dict[int, Any]], str]:
    def check(p: Passage, saved: dict[int, Any]) -> str:
        others = [v for v in saved.values() if v.size]
        if any(not v.any() for v in others):
            return f"the other {what} is zero everywhere"
        return f"the other {what} is zero wherever a gradient arrives" if any((v == 0).any() for v in others) else ""

    return check


def _saturated(low: float, high: float) -> Callable[[Passage, dict[int, Any]], str]:
    def check(p: Passage, saved: dict[int, Any]) -> str:
        out = saved.get(len(p.node.edges))
        if out is None or not _where_arriving(p, (out == low) | (out == high)):
            return ""
        return f"it is saturated: wherever a gradient arrives, its result is {low:g} or {high:g} exactly"

    return check


def _where_arriving(p: Passage, condition: Any) -> bool:
    g = p.received[0].array
    return bool(condition.shape == g.shape and condition[g != 0].all())


def _softmax(p: Passage, saved: dict[int, Any]) -> str:
    out = saved.get(len(p.node.edges))
    if out is not None and bool(((out == 0) | (out == 1)).all()):
        return "it is saturated: one class has all of the probability"
    g = p.received[0].array
    if g.size and np.all(g == g.flat[0]):
        return "the same gradient arrives for every class, and probabilities that add up to 1 cancel it"
    return ""


def _power(p: Passage, saved: dict[int, Any]) -> str:
    base = saved.get(0)
    return "the base is zero" if base is not None and not base.any() else ""


_CHECKS: dict[str, Callable[[Passage, dict[int, Any]], str]] = {
    "Mul": _factor("factor"),
    "Mm": _factor("matrix"),
    "Bmm": _factor("matrix"),
    "Mv": _factor("operand"),
    "Dot": _factor("vector"),
    "Sigmoid": _saturated(0.0, 1.0),
    "Tanh": _saturated(-1.0, 1.0),
    "Softmax": _softmax,
    "Pow": _power,
}


def of_nan(p: Passage) -> str:
    """Return why a node made a NaN of a gradient without one, or an empty text if the cause is unknown."""
    if np.isinf(p.entered):
        return " An infinite gradient came in; times zero, or minus another infinity, that is NaN."
    saved = [v for _, v in gradients.saved_values(p.node)]
    if p.title.startswith("Pow") and any((v < 0).any() for v in saved):
        return " The derivative for the exponent has the logarithm of a negative base, which is NaN."
    if p.title.startswith(("Sqrt", "Rsqrt", "Pow", "LinalgVectorNorm", "Norm", "Div", "Log", "Reciprocal")):
        if any((v == 0).any() for v in saved):
            return " Its derivative is infinite at zero, and zero times infinity is NaN: add a small number first."
    return ""
