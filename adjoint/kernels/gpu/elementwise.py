"""Elementwise primitives in C: the value of each, and the gradients of its inputs.

`ROWS` has a row for each primitive, by its name. A rule in `ops` stays what defines a gradient (of tensors it is the
only one); the formula here says the same of arrays, so that a node takes one launch. `kernel`, `run` and `direct` wrap
what a primitive computes with: arrays of a GPU go to the formulas where these can, all others to what was there before.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import cupy
import numpy as np

from .arrays import Array, adopt, new, operators, several, writers
from .copies import turn_into
from .formulas import FLOATS, PACKED_FROM, Formula, Total

__all__ = ["LOSSES", "ROWS", "direct", "into", "kernel", "loss", "loss_run", "ones_like", "run"]


@dataclass
class Row:
    """A primitive's value and gradients in C; of a gradient, `g` is the gradient of the result."""

    value: str
    gradients: dict[str, str] = field(default_factory=dict)
    result: str = ""  # the dtype of the result where it is not the operands'
    masks: str = ""
    absent: dict[str, float] = field(default_factory=dict)  # what None means where a parameter may be None
    chosen: str = ""  # a parameter by whose value another row is chosen, if there is one of that name
    others: dict[Any, Row] = field(default_factory=dict)


def _row(value: str, *, result: str = "", masks: str = "", absent: Any = None, **gradients: str) -> Row:
    return Row(value, gradients, result, masks, absent or {})


_SIGMOID = "s = 1 / (1 + exp(-x)); "
_SLOPE = "s * (1 + x * (1 - s))"
_NORMAL = "0.5 * (1 + erf(x * 0.7071067811865476))"
_NORMAL_SLOPE = f"{_NORMAL} + x * exp(-0.5 * x * x) * 0.3989422804014327"
_TANH = "t = tanh(0.7978845608028654 * x * (1 + 0.044715 * x * x)); "
_TANH_SLOPE = "0.5 * (1 + t) + 0.5 * x * (1 - t * t) * (0.7978845608028654 * (1 + 0.134145 * x * x))"
_ROOT = "sqrt(1 - x * x)"
_SQUARES = "d = x * x + y * y; "
_INSIDE = "x >= min && x <= max ? g : 0"
_HALVED = "{0} < {1} ? 0 : {0} == {1} ? 0.5 * g : g"

ROWS: dict[str, Row] = {
    # Arithmetic
    "add": _row("x + y", x="g", y="g"),
    "sub": _row("x - y", x="g", y="-g"),
    "rsub": _row("y - x", x="-g", y="g"),
    "mul": _row("x * y", x="g * y", y="g * x"),
    "div": _row("x / y", x="g / y", y="-g * ((x / y) / y)"),
    "neg": _row("-x", x="-g"),
    "div_floor": _row("floor_of(x, y)", x="0", y="0"),
    "div_trunc": _row("trunc(x / y)", x="0", y="0"),
    "remainder": _row("remainder_of(x, y)", x="g", y="-g * floor_of(x, y)"),
    "fmod": _row("fmod(x, y)", x="g", y="-g * trunc(x / y)"),
    "addcmul": _row(
        "x + value * (tensor1 * tensor2)", x="g", tensor1="g * (tensor2 * value)", tensor2="g * (tensor1 * value)"
    ),
    "addcdiv": _row(
        "x + value * (tensor1 / tensor2)", x="g", tensor1="g * (value / tensor2)",
        tensor2="-g * (value * tensor1 / (tensor2 * tensor2))",
    ),
    "lerp": _row(
        "fabs(weight) < 0.5 ? x + weight * (end - x) : end - (end - x) * (1 - weight)", x="g * (1 - weight)",
        end="g * weight", weight="g * (end - x)",
    ),
    "lerp_by": _row(
        "fabs(weight) < 0.5 ? x + weight * (end - x) : end - (end - x) * (1 - weight)", x="g * (1 - weight)",
        end="g * weight",
    ),
    # Powers, exponentials, logarithms
    "sqrt": _row("sqrt(x)", x="g / (2 * out)"),
    "rsqrt": _row("1 / sqrt(x)", x="g * (-0.5 * (out * out * out))"),
    "reciprocal": _row("1 / x", x="-g * (out * out)"),
    "pow": _row(
        "pow(x, y)", x="y == 0 ? 0 : g * (y * pow(x, y - 1))", y="x == 0 && y >= 0 ? 0 : g * out * log(x)"
    ),
    "power": Row(
        "pow(x, exponent)", {"x": "g * (exponent * pow(x, exponent - 1))"}, chosen="exponent",
        others={
            0: _row("1", x="0"), 1: _row("x", x="g"), 2: _row("x * x", x="g * (2 * x)"),
            3: _row("x * x * x", x="g * (3 * (x * x))"), 0.5: _row("sqrt(x)", x="g * (0.5 * (1 / sqrt(x)))"),
            -1: _row("1 / x", x="g * (-1 * (1 / (x * x)))"), -0.5: _row("1 / sqrt(x)", x="g * (-0.5 * pow(x, -1.5))"),
            -2: _row("1 / (x * x)", x="g * (-2 * pow(x, W(-3)))"),
        },
    ),
    "exponential": _row("pow(base, x)", x="base == 0 && x >= 0 ? 0 : g * (out * log(base))"),
    "exp": _row("exp(x)", x="g * out"),
    "exp2": _row("exp2(x)", x="g * (out * 0.6931471805599453)"),
    "expm1": _row("expm1(x)", x="g * (out + 1)"),
    "log": _row("log(x)", x="g / x"),
    "log2": _row("log2(x)", x="g / (x * 0.6931471805599453)"),
    "log10": _row("log10(x)", x="g / (x * 2.302585092994046)"),
    "log1p": _row("log1p(x)", x="g / (x + 1)"),
    "xlogy": _row(
        "y != y ? y : x == 0 ? 0 : x * log(y)", x="x == 0 && y <= 0 ? 0 : g * log(y)", y="g * (x / y)"
    ),
    "xlog1py": _row(
        "y != y ? y : x == 0 ? 0 : x * log1p(y)", x="x == 0 && y <= -1 ? 0 : g * log1p(y)", y="g * (x / (y + 1))"
    ),
    "logaddexp": _row(
        "x == y ? x + 0.6931471805599453 : (x > y ? x : y) + log1p(exp(-fabs(x - y)))", x="g / (1 + exp(y - x))",
        y="g / (1 + exp(x - y))",
    ),
    "logaddexp2": _row(
        "x == y ? x + 1 : (x > y ? x : y) + log1p(exp2(-fabs(x - y))) * 1.4426950408889634",
        x="g / (1 + exp2(y - x))", y="g / (1 + exp2(x - y))",
    ),
    # Trigonometry
    "sin": _row("sin(x)", x="g * cos(x)"),
    "cos": _row("cos(x)", x="-g * sin(x)"),
    "tan": _row("tan(x)", x="g * (out * out + 1)"),
    "asin": _row("asin(x)", x=f"g / {_ROOT}"),
    "acos": _row("acos(x)", x=f"-g / {_ROOT}"),
    "atan": _row("atan(x)", x="g / (x * x + 1)"),
    "sinh": _row("sinh(x)", x="g * cosh(x)"),
    "cosh": _row("cosh(x)", x="g * sinh(x)"),
    "tanh": _row("tanh(x)", x="g - g * out * out"),
    "tanh_back": _row("x - x * y * y", x="g - g * y * y", y="g * x * (y * -2)"),
    "asinh": _row("asinh(x)", x="g / sqrt(x * x + 1)"),
    "acosh": _row("acosh(x)", x="g / sqrt(x * x - 1)"),
    "atanh": _row("atanh(x)", x="g / (1 - x * x)"),
    "atan2": _row(
        "atan2(x, y)", x=f"{_SQUARES}g * (y / (d + (d == 0)))", y=f"{_SQUARES}-g * (x / (d + (d == 0)))"
    ),
    "hypot": _row("hypot(x, y)", x="g * (x / out)", y="g * (y / out)"),
    "deg2rad": _row("x * 0.017453292519943295", x="g * 0.017453292519943295"),
    "rad2deg": _row("x * 57.29577951308232", x="g * 57.29577951308232"),
    # Special functions
    "erf": _row("erf(x)", x="g * (1.1283791670955126 * exp(-(x * x)))"),
    "erfc": _row("erfc(x)", x="g * (-1.1283791670955126 * exp(-(x * x)))"),
    "ndtr": _row("0.5 * erfc(x * -0.7071067811865476)", x="g * (exp(-0.5 * (x * x)) * 0.3989422804014327)"),
    "copysign": _row("copysign(x, y)", x="x == 0 ? 0 : g * (out / x)", y="0"),
    "heaviside": _row("x == 0 ? y : (W)(x > 0)"),
    # Choices
    "where": _row("condition ? x : y", masks="condition", x="condition ? g : 0", y="condition ? 0 : g"),
    "masked_fill": _row("mask ? value : x", masks="mask"),
    "share": _row(_HALVED.format("winner", "loser")),
    "maximum": _row("largest(x, y)", x=_HALVED.format("x", "y"), y=_HALVED.format("y", "x")),
    "minimum": _row("smallest(x, y)", x=_HALVED.format("y", "x"), y=_HALVED.format("x", "y")),
    "fmax": _row("fmax(x, y)", x="x >= y || y != y ? g : 0", y="x >= y || y != y ? 0 : g"),
    "fmin": _row("fmin(x, y)", x="x <= y || y != y ? g : 0", y="x <= y || y != y ? 0 : g"),
    "clamp": _row(
        "smallest(largest(x, min), max)", x=_INSIDE, absent={"min": -math.inf, "max": math.inf}
    ),
    "clamp_tensors": _row(
        "smallest(largest(x, min), max)", x=_INSIDE, min="min < max && x < min ? g : 0",
        max="x > max || max < min ? g : 0",
    ),
    "clamp_min": _row("largest(x, y)", x="x >= y ? g : 0", y="x < y ? g : 0"),
    "clamp_max": _row("smallest(x, y)", x="x <= y ? g : 0", y="x > y ? g : 0"),
    "abs": _row("fabs(x)", x="g * (x > 0 ? 1 : x < 0 ? -1 : x)"),
    "sign": _row("(x > 0) - (x < 0)", x="0"),
    "sgn": _row("(x > 0) - (x < 0)"),
    "floor": _row("floor(x)", x="0"),
    "ceil": _row("ceil(x)", x="0"),
    "trunc": _row("trunc(x)", x="0"),
    "round": _row("rint(x)", x="0"),
    "frac": _row("x - trunc(x)", x="g"),
    "nan_to_num": _row(
        "x != x ? nan : x - x == 0 ? x : x > 0 ? (posinf != posinf ? LARGEST : posinf) : "
        "(neginf != neginf ? -LARGEST : neginf)",
        x="x - x == 0 ? g : 0", absent={"nan": 0.0, "posinf": math.nan, "neginf": math.nan},
    ),
    # Comparisons
    "eq": _row("x == y", result="bool"),
    "ne": _row("x != y", result="bool"),
    "lt": _row("x < y", result="bool"),
    "le": _row("x <= y", result="bool"),
    "gt": _row("x > y", result="bool"),
    "ge": _row("x >= y", result="bool"),
    "isnan": _row("x != x", result="bool"),
    "isinf": _row("x == x && x - x != 0", result="bool"),
    "isfinite": _row("x - x == 0", result="bool"),
    "logical_not": _row("x == 0", result="bool"),
    # Activations
    "relu": _row("x < 0 ? 0 : x", x="out <= 0 ? 0 : g"),
    "hardtanh": _row(
        "x < min_val ? min_val : x > max_val ? max_val : x", x="x > min_val && x < max_val ? g : 0"
    ),
    "leaky_relu": _row("x > 0 ? x : x * negative_slope", x="x > 0 ? g : g * negative_slope"),
    "prelu": _row("x > 0 ? x : y * x", x="x > 0 ? g : g * y", y="x > 0 ? 0 : g * x"),
    "threshold": _row("x <= threshold ? value : x", x="x <= threshold ? 0 : g"),
    "hardshrink": _row("x >= -lambd && x <= lambd ? 0 : x", x="x > lambd || x < -lambd ? g : 0"),
    "softshrink": _row("x - (x < -lambd ? -lambd : x > lambd ? lambd : x)", x="x > lambd || x < -lambd ? g : 0"),
    "hardsigmoid": _row("smallest(largest(x + 3, 0), 6) / 6", x="x > -3 && x < 3 ? g / 6 : 0"),
    "hardswish": _row(
        "x * smallest(largest(x + 3, 0), 6) / 6", x="x <= -3 ? 0 : x < 3 ? g * (x / 3 + 0.5) : g"
    ),
    "elu": _row(
        "x > 0 ? x * scale : scale * alpha * expm1(x * input_scale)",
        x="x > 0 ? g * scale : g * (scale * alpha * input_scale * exp(x * input_scale))",
    ),
    "softplus": _row(
        "x * beta > threshold ? x : smooth_relu(x * beta) / beta",
        x="x * beta > threshold ? g : g / (1 + exp(-x * beta))",
    ),
    "log_sigmoid": _row("-smooth_relu(-x)", x="g / (1 + exp(x))"),
    "sigmoid": _row("1 / (1 + exp(-x))", x="g * (out * (1 - out))"),
    "silu": _row("x / (1 + exp(-x))", x=f"{_SIGMOID}g * ({_SLOPE})"),
    "silu_slope": _row(f"{_SIGMOID}{_SLOPE}"),
    "mish": _row(
        "x * tanh(smooth_relu(x))",
        x=f"{_SIGMOID}t = tanh(smooth_relu(x)); g * (t + x * (1 - t * t) * s)",
    ),
    "gelu": Row("", chosen="approximate", others={
        "none": _row(f"x * ({_NORMAL})", x=f"g * ({_NORMAL_SLOPE})"),
        "tanh": _row(f"{_TANH}0.5 * x * (1 + t)", x=f"{_TANH}g * ({_TANH_SLOPE})"),
    }),
    "gelu_slope": Row("", chosen="approximate", others={
        "none": _row(_NORMAL_SLOPE), "tanh": _row(f"{_TANH}{_TANH_SLOPE}"),
    }),
}  # fmt: skip

# Losses of each element, with their slopes along input and target; None: the negative of the other.
LOSSES: dict[str, tuple[str, str, str | None]] = {
    "mse_loss": ("(x - y) * (x - y)", "2 * (x - y)", None),
    "smooth_l1_loss": (
        "d = fabs(x - y); m = d < option ? d : option; m * (d - 0.5 * m) / option",
        "d = x - y; d < -option ? W(-1) : d > option ? W(1) : d / option", None,
    ),
    "huber_loss": (
        "d = fabs(x - y); m = d < option ? d : option; m * (d - 0.5 * m)",
        "d = x - y; d < -option ? -option : d > option ? option : d", None,
    ),
    "soft_margin_loss": ("smooth_relu(-(x * y))", "-y / (1 + exp(x * y))", "-x / (1 + exp(x * y))"),
    "binary_cross_entropy_with_logits": ("smooth_relu(x) - x * y", "1 / (1 + exp(-x)) - y", "-x"),
}  # fmt: skip


# --- Values -----------------------------------------------------------------------------------------


def kernel(name: str, arguments: tuple[str, ...], arity: int, before: Any) -> Any:
    """Return a primitive's kernel: the formula's where its `arity` first arguments allow, else the one there was."""
    row = ROWS[name]
    if len(arguments) == arity <= 2 and not row.absent and not row.masks:
        formula = Formula(" ".join(arguments), row.value, result=row.result)
        return (_of_one if arity == 1 else _of_two)(formula, before)
    return _of_several(row, arguments, arity, before)


def _of_one(formula: Formula, before: Any) -> Any:
    launches: dict[Any, Any] = {}
    packs: dict[Any, Any] = {}
    out_dtype = np.dtype(formula.result) if formula.result else None

    def kernel(x: Any) -> Any:
        if type(x) is not Array:
            if type(x) is not cupy.ndarray:
                return before(x)
        elif x._c_contiguous and (n := x.size):
            dtype = x.dtype
            if n < PACKED_FROM:
                launch = launches.get(dtype)
                if launch is not None:
                    out = new(x.shape, out_dtype or dtype)
                    launch(n, (x, out, n))
                    return out
                _open(launches, formula.small, dtype, "v")
            elif not x.data.ptr & 15 and (way := _way(packs, formula, dtype, "v")) is not None:
                out = new(x.shape, out_dtype or dtype)
                way[0](-(-n // way[1]), (x, out, n))
                return out
        found = formula(x)
        return before(x) if found is None else found[0]

    return kernel


def _open(launches: dict[Any, Any], made: Any, dtype: Any, forms: str) -> None:
    """Put a launch where the short way finds it, unless there are several GPUs, to which launches belong."""
    if not several and (launch := made(dtype, forms)) is not None:
        launches[dtype] = launch


def _way(packs: dict[Any, Any], formula: Formula, dtype: Any, forms: str) -> Any:
    """Return the launch on large arrays, and how many elements a thread takes; None where there is none."""
    found = packs.get(dtype)
    if found is None:
        _open(packs, formula.large, dtype, forms)
        found = packs.get(dtype)
    return found


def _of_two(formula: Formula, before: Any) -> Any:
    both: dict[Any, Any] = {}
    first: dict[Any, Any] = {}
    both_packs: dict[Any, Any] = {}
    first_packs: dict[Any, Any] = {}
    out_dtype = np.dtype(formula.result) if formula.result else None

    def kernel(x: Any, y: Any) -> Any:
        if type(x) is Array:
            dtype = x.dtype
            if type(y) is Array:
                if dtype is y.dtype and x._c_contiguous and y._c_contiguous and (shape := x.shape) == y.shape:
                    n = x.size
                    if 0 < n < PACKED_FROM:
                        launch = both.get(dtype)
                        if launch is not None:
                            out = new(shape, out_dtype or dtype)
                            launch(n, (x, y, out, n))
                            return out
                        _open(both, formula.small, dtype, "vv")
                    elif (
                        n and not (x.data.ptr | y.data.ptr) & 15
                        and (way := _way(both_packs, formula, dtype, "vv")) is not None
                    ):  # fmt: skip
                        out = new(shape, out_dtype or dtype)
                        way[0](-(-n // way[1]), (x, y, out, n))
                        return out
            elif (type(y) is float or type(y) is int) and x._c_contiguous and (n := x.size):
                if n < PACKED_FROM:
                    launch = first.get(dtype)
                    if launch is not None:
                        out = new(x.shape, out_dtype or dtype)
                        launch(n, (x, float(y), out, n))
                        return out
                    _open(first, formula.small, dtype, "vs")
                elif not x.data.ptr & 15 and (way := _way(first_packs, formula, dtype, "vs")) is not None:
                    out = new(x.shape, out_dtype or dtype)
                    way[0](-(-n // way[1]), (x, float(y), out, n))
                    return out
        elif type(y) is not Array and type(x) is not cupy.ndarray and type(y) is not cupy.ndarray:
            return before(x, y)
        found = formula(x, y)
        return before(x, y) if found is None else found[0]

    return kernel


def _of_several(row: Row, arguments: tuple[str, ...], arity: int, before: Any) -> Any:
    """Return a kernel of any number of arrays and parameters, by which another row may be chosen."""
    choose = _chooser(row, arguments, lambda row: row.value)

    def kernel(*given: Any) -> Any:
        for v in given[:arity]:
            if type(v) is Array or type(v) is cupy.ndarray:
                break
        else:
            return before(*given)
        formula = choose(given)
        found = formula(*_named(formula, arguments, row, given))
        return before(*given) if found is None else found[0]

    return kernel


def _named(formula: Formula, arguments: tuple[str, ...], row: Row, given: Any) -> list[Any]:
    """Return what a formula asks for of a call's arguments, with a number where None means one."""
    wanted = [(n, v) for n, v in zip(arguments, given, strict=True) if n in formula.names]
    return [row.absent.get(n) if v is None else v for n, v in wanted]


def into(name: str, arguments: tuple[str, ...], kernel: Any) -> Any:
    """Return what writes a primitive's value into its first argument, by the formula where that can be."""
    row = ROWS[name]
    choose = _chooser(row, arguments, lambda row: row.value)

    def into(x: Any, *rest: Any) -> None:
        if type(x) is Array:
            formula = choose((x, *rest))
            if formula.into(x, *_named(formula, arguments, row, (x, *rest))):
                return
        x[...] = kernel(x, *rest)

    return into


def _chooser(row: Row, names: tuple[str, ...], *texts: Callable[[Row], str]) -> Callable[[Any], Formula]:
    """Return what gives the formula for arguments of these names: the row's own, or that of the row they choose."""

    def made(row: Row, names: tuple[str, ...]) -> Formula:
        return Formula(" ".join(names), *[text(row) for text in texts], masks=row.masks, result=row.result)

    if not row.chosen:
        formula = made(row, names)
        return lambda given: formula
    at = names.index(row.chosen)
    rest = tuple(n for n in names if n != row.chosen)
    usual = made(row, names) if row.value else None
    others = {value: made(other, rest) for value, other in row.others.items()}
    return lambda given: others.get(given[at], usual)  # type: ignore[return-value]


# --- Gradients --------------------------------------------------------------------------------------


def direct(name: str, kept: tuple[str, ...], before: Any) -> Any:
    """Return the rule of a primitive of one input that keeps one value or none, as one launch where arrays allow."""
    gradient = ROWS[name].gradients.get("x", "g")
    if gradient == "g" or ROWS[name].chosen:
        return before
    formula = Formula(" ".join(("g", *kept)), gradient)
    return (_of_two if kept else _of_one)(formula, before)


def run(name: str, inputs: tuple[str, ...], kept: tuple[tuple[str, ...], ...], before: Any, fit_all: Any) -> Any:
    """Return a node's `run` that computes all gradients that are wanted in one launch where arrays allow.

    `kept` names what the rule of each input keeps, `before` is the `run` that follows the rules, and `fit_all` brings
    gradients to their inputs' shapes and dtypes.
    """
    row = ROWS[name]
    if not any(r.gradients for r in (row, *row.others.values())):
        return before
    choice: Any = next(((i, _at(k, row.chosen)) for i, k in enumerate(kept) if row.chosen in k), None)
    plans: dict[Any, Any] = {}

    def run(node: Any, g: Any, edges: tuple[Any, ...], saved: Any) -> Any:
        if type(g) is not Array:
            if type(g) is not cupy.ndarray:
                return before(node, g, edges, saved)
            g = adopt(g)
        if not (saved is None or type(saved) is tuple):
            return before(node, g, edges, saved)
        wanted = tuple([e is not None for e in edges])
        # Where both inputs are one tensor, its gradients are added in the same launch, unless a hook is to see them.
        twice = len(edges) == 2 and edges[0] is edges[1] and node.extra is None
        chosen = None if choice is None else _kept(saved, choice[0], choice[1])
        try:
            plan = plans[wanted, twice, chosen]
        except KeyError:
            plan = plans[wanted, twice, chosen] = _plan(row.others.get(chosen, row), inputs, kept, wanted, twice)
        if plan is None:
            return before(node, g, edges, saved)
        formula, places, given = plan
        results: Any = None
        if formula is not None:
            results = formula(g, *[_kept(saved, *place) for place in places])
            if results is None:
                return before(node, g, edges, saved)
        results = [g if k == -1 else None if k is None else results[k] for k in given]
        return results if node.targets is None else fit_all(results, node.targets)

    return run


def _at(kept: tuple[str, ...], name: str) -> int | None:
    """Return where a rule finds a kept value: one that is kept alone stands by itself."""
    return kept.index(name) if len(kept) > 1 else None


def _kept(saved: Any, i: int, j: int | None, absent: float | None = None) -> Any:
    value = saved[i] if j is None else saved[i][j]
    return absent if value is None else value


def _plan(row: Row, inputs: Any, kept: Any, wanted: tuple[bool, ...], twice: bool) -> Any:
    """Return the formula of the wanted gradients, where its operands are kept, and which result each input gets.

    The latter is -1 for `g` itself and None for no gradient. No plan is found where an input has no formula.
    """
    texts: list[str] = []
    given: list[int | None] = []
    places: dict[str, Any] = {}
    for i, (name, wants) in enumerate(zip(inputs, wanted, strict=True)):
        text = row.gradients.get(name) if wants else ""
        if text is None:
            return None
        given.append(None if not wants else -1 if text == "g" else len(texts))
        if text and text != "g":
            texts.append(text)
            for n in kept[i]:
                if re.search(rf"\b{n}\b", text):
                    places.setdefault(n, (i, _at(kept[i], n), row.absent.get(n)))
    if twice and len(texts) == 2 and not any(";" in t for t in texts):
        texts, given = [f"({texts[0]}) + ({texts[1]})"], [0, None]
    formula = Formula(" ".join(("g", *places)), *texts, masks=row.masks) if texts else None
    return formula, tuple(places.values()), tuple(given)


# --- Losses -----------------------------------------------------------------------------------------


def loss(name: str, before: Any) -> Any:
    """Return the kernel of a loss: its elements, their mean or their sum (0, 1, 2 in the third place)."""
    value = LOSSES[name][0]
    names = "x y option" if "option" in value else "x y"
    formula = Formula(names, value)
    total = Total(formula)

    def kernel(x: Any, y: Any, reduction: Any, option: Any) -> Any:
        if type(x) is not Array:  # as tensors hold them
            return before(x, y, reduction, option)
        operands = (x, y) if names == "x y" else (x, y, option)
        if reduction == 0:
            found = formula(*operands)
            return before(x, y, reduction, option) if found is None else found[0]
        found = total(1 / max(x.size, 1) if reduction == 1 else 1.0, *operands)
        return before(x, y, reduction, option) if found is None else found

    return kernel


def loss_run(name: str, before: Any) -> Any:
    """Return the `run` of a loss's nodes, with both gradients in one launch."""
    value, slope, other = LOSSES[name]
    names = "g x y scale option" if "option" in value else "g x y scale"
    along_x, along_y = _sloped(slope, ""), _sloped(slope, "-") if other is None else _sloped(other, "")
    formulas = {
        (True, False): Formula(names, along_x),
        (False, True): Formula(names, along_y),
        (True, True): Formula(names, along_x, along_y),
    }

    def run(node: Any, g: Any, edges: tuple[Any, ...], saved: Any) -> Any:
        if (
            (type(g) is Array or type(g) is cupy.ndarray)
            and type(saved) is tuple
            and node.targets is None
            and any(edges)
        ):
            x, y, reduction, option = saved[0]
            wanted = (edges[0] is not None, edges[1] is not None)
            scale = 1 / max(x.size, 1) if reduction == 1 else 1.0
            results = formulas[wanted](g, x, y, scale, *((option,) if "option" in value else ()))
            if results is not None:
                return results if all(wanted) else (results[0], None) if wanted[0] else (None, results[0])
        return before(node, g, edges, saved)

    return run


def _sloped(slope: str, sign: str) -> str:
    *steps, last = slope.split(";")
    return "; ".join([*[step.strip() for step in steps], f"{sign}(g * scale) * ({last.strip()})"])


# --- Operators --------------------------------------------------------------------------------------


def _declined(*operands: Any) -> None:
    return None


def _swapped(function: Any) -> Any:
    return lambda x, y: function(y, x)


_casts: dict[Any, Formula] = {}


def _astype(x: Any, dtype: Any, *options: Any, **named: Any) -> Any:
    """Return an array converted to another dtype, by a formula from floats and booleans to floats."""
    dtype = np.dtype(dtype)
    if dtype.name in FLOATS and dtype != x.dtype and not options and not named.keys() - {"copy"}:
        key = (dtype, x.dtype.kind == "b")
        cast = _casts.get(key)
        if cast is None:
            cast = _casts[key] = Formula("x", "x", masks="x" if key[1] else "", result=dtype.name)
        found = cast(x)
        if found is not None:
            return found[0]
    return cupy.ndarray.astype(x, dtype, *options, **named)


_same = Formula("x", "x")


def _copy(x: Any, order: str = "C") -> Any:
    """Return a copy; CuPy's own takes three launches' time."""
    if order == "C" and not x._c_contiguous and x.size and x.itemsize in (1, 2, 4, 8, 16):
        out = Array(x.shape, x.dtype)
        if turn_into(out, x):
            return out
    found = _same(x) if x._c_contiguous else None
    return cupy.ndarray.copy(x, order) if found is None else found[0]


_ones = Formula("x", "1")


def ones_like(array: Any) -> Any:
    """Return ones in the shape and dtype of an array."""
    found = _ones(array) if type(array) is Array and array._c_contiguous else None
    if found is None:
        return (np if isinstance(array, np.ndarray) else cupy).ones(array.shape, array.dtype)
    return found[0]


def _inplace(name: str, usual: Any) -> Any:
    into = Formula("x y", ROWS[name].value).into
    return lambda x, y: x if into(x, x, y) else usual(x, y)


_UFUNCS = {
    np.add: "add", np.subtract: "sub", np.multiply: "mul", np.divide: "div", np.negative: "neg", np.exp: "exp",
    np.exp2: "exp2", np.expm1: "expm1", np.log: "log", np.log2: "log2", np.log10: "log10", np.log1p: "log1p",
    np.sqrt: "sqrt", np.reciprocal: "reciprocal", np.sin: "sin", np.cos: "cos", np.tan: "tan", np.arcsin: "asin",
    np.arccos: "acos", np.arctan: "atan", np.sinh: "sinh", np.cosh: "cosh", np.tanh: "tanh", np.arcsinh: "asinh",
    np.arccosh: "acosh", np.arctanh: "atanh", np.arctan2: "atan2", np.hypot: "hypot", np.absolute: "abs",
    np.maximum: "maximum", np.minimum: "minimum", np.fmax: "fmax", np.fmin: "fmin", np.floor: "floor",
    np.ceil: "ceil", np.trunc: "trunc", np.rint: "round", np.logaddexp: "logaddexp", np.copysign: "copysign",
    np.equal: "eq", np.not_equal: "ne", np.less: "lt", np.less_equal: "le", np.greater: "gt",
    np.greater_equal: "ge", np.isnan: "isnan", np.isinf: "isinf", np.isfinite: "isfinite",
    np.logical_not: "logical_not", np.fmod: "fmod", np.remainder: "remainder",
}  # fmt: skip
_OPERATORS = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge",
    "eq": "eq", "ne": "ne", "neg": "neg", "abs": "abs",
}  # fmt: skip


def _deferring(usual: Any) -> Any:
    """Return an operator of CuPy's that leaves tensors and payloads to their own operators, as NumPy's do."""

    def method(x: Any, y: Any) -> Any:
        if hasattr(y, "__array_ufunc__") and not isinstance(y, cupy.ndarray | np.ndarray | np.generic):
            return NotImplemented
        return usual(x, y)

    return method


def _install() -> None:
    """Put formulas behind the operators and ufuncs of arrays."""
    for ufunc, name in _UFUNCS.items():
        names = ("x", "y")[: ufunc.nin]
        operators[ufunc] = kernel(name, names, ufunc.nin, _declined)
        writers[ufunc] = Formula(" ".join(names), ROWS[name].value, result=ROWS[name].result).into
    operators[np.square], writers[np.square] = _of_one(Formula("x", "x * x"), _declined), Formula("x", "x * x").into
    for method in ("floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift"):
        setattr(Array, f"__{method}__", _deferring(getattr(cupy.ndarray, f"__{method}__")))
    for method, name in _OPERATORS.items():
        arity = 1 if method in ("neg", "abs") else 2
        usual = getattr(cupy.ndarray, f"__{method}__")
        usual = usual if arity == 1 else _deferring(usual)
        setattr(Array, f"__{method}__", kernel(name, ("x", "y")[:arity], arity, usual))
        reflected = getattr(cupy.ndarray, f"__r{method}__", None)
        if reflected is not None:
            swapped = kernel(name, ("x", "y"), 2, _swapped(reflected))
            setattr(Array, f"__r{method}__", _swapped(swapped))
            setattr(Array, f"__i{method}__", _inplace(name, getattr(cupy.ndarray, f"__i{method}__")))
    Array.astype, Array.copy = _astype, _copy  # type: ignore[method-assign]


_install()
