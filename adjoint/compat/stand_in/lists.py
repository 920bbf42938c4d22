"""``torch._foreach_add`` and its like: an op on every tensor of a list, one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["FOREACH", "foreach"]

_BOTH = [
    "abs", "acos", "add", "addcdiv", "addcmul", "asin", "atan", "ceil", "clamp_max", "clamp_min", "cos", "cosh", "div",
    "erf", "erfc", "exp", "expm1", "floor", "frac", "lerp", "lgamma", "log", "log10", "log1p", "log2", "maximum",
    "minimum", "mul", "neg", "pow", "reciprocal", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "sub",
    "tan", "tanh", "trunc",
]  # fmt: skip
FOREACH = [*_BOTH, *(f"{name}_" for name in _BOTH), "clone", "copy_", "max", "mm", "norm", "zero_"]
_METHODS = {
    "clamp_max": ("clamp", "max"), "clamp_min": ("clamp", "min"), "maximum_": ("clamp_", "min"),
    "minimum_": ("clamp_", "max"), "clamp_max_": ("clamp_", "max"), "clamp_min_": ("clamp_", "min"),
}  # fmt: skip
_VALUED = ("addcdiv", "addcmul", "addcdiv_", "addcmul_")


def foreach(name: str) -> Callable[..., Any]:
    """Return the function that applies a method to every tensor of a list; lists beside it go along."""

    def run(tensors: Any, *rest: Any, **named: Any) -> Any:
        if not isinstance(tensors, list | tuple):  # a number to the power of tensors
            return tuple(tensors**exponent for exponent in rest[0])
        found = []
        for at, tensor in enumerate(tensors):
            others = [_at(other, at) for other in rest]
            options = {key: _at(value, at) for key, value in named.items()}
            found.append(_applied(name, tensor, others, options))
        return None if name.endswith("_") else tuple(found)

    run.__name__ = f"_foreach_{name}"
    return run


def _at(value: Any, at: int) -> Any:
    return value[at] if isinstance(value, list | tuple) else value


def _applied(name: str, tensor: Any, others: list[Any], options: dict[str, Any]) -> Any:
    if name in _METHODS:
        method, bound = _METHODS[name]
        other = others[0] if others else next(iter(options.values()))
        return getattr(tensor, method)(**{bound: other})
    if name in _VALUED and len(others) == 3:
        options, others = {"value": others[2]}, others[:2]
    if name in _VALUED and "scalars" in options:
        options = {"value": options["scalars"]}
    return getattr(tensor, name)(*others, **options)
