"""The named scalar functions that formulas are made of, and what each is called in every target language.

``{0}``, ``{1}`` are the operands; in the text of a CPU loop ``{w}`` is the width of the dtype, 32 or 64, and functions
with it are those of devices/cpu/mathematics.py. In CUDA C, ``W`` is the type computed in. All else is composed of
these, so a new elementwise op needs no line here unless it needs a function that none of these is.
"""

from __future__ import annotations

import numpy as np

from .symbol import Function, by_name, by_ufunc

__all__ = ["CHOOSE", "EXP_BELOW", "Function", "by_name", "by_ufunc"]


_ufunc: np.ufunc


def _declare(ufunc: np.ufunc, loop: str, cuda: str = "", *, boolean: bool = False) -> None:
    Function(ufunc.__name__, ufunc, loop, cuda or loop, boolean)


# --- Arithmetic: the same text in every language ------------------------------------------------------

for _ufunc, _text in (
    (np.add, "{0} + {1}"),
    (np.subtract, "{0} - {1}"),
    (np.multiply, "{0} * {1}"),
    (np.divide, "{0} / {1}"),
    (np.negative, "-{0}"),
):
    _declare(_ufunc, _text)
_declare(np.square, "{0} * {0}")
_declare(np.reciprocal, "{one} / {0}", "1 / {0}")
_declare(np.positive, "{0}")
Function("zeros_like", np.zeros_like, "{zero}", "W(0)")
Function("ones_like", np.ones_like, "{one}", "W(1)")

# --- Comparisons and logic: results are booleans -------------------------------------------------------

for _ufunc, _text in (
    (np.equal, "{0} == {1}"),
    (np.not_equal, "{0} != {1}"),
    (np.less, "{0} < {1}"),
    (np.less_equal, "{0} <= {1}"),
    (np.greater, "{0} > {1}"),
    (np.greater_equal, "{0} >= {1}"),
    (np.isnan, "{0} != {0}"),
    (np.isfinite, "{0} - {0} == {0} - {0}"),
):
    _declare(_ufunc, _text, boolean=True)
_declare(np.isinf, "{0} == {0} and {0} - {0} != {0} - {0}", "{0} == {0} && {0} - {0} != {0} - {0}", boolean=True)
_declare(np.signbit, "math.copysign(1.0, {0}) < 0.0", "signbit({0})", boolean=True)
for _ufunc, _text, _cuda in (
    (np.logical_and, "{0} and {1}", "{0} && {1}"),
    (np.logical_or, "{0} or {1}", "{0} || {1}"),
    (np.logical_xor, "{0} != {1}", "{0} != {1}"),
    (np.logical_not, "not {0}", "!{0}"),
):
    _declare(_ufunc, _text, _cuda, boolean=True)
by_ufunc[np.bitwise_and], by_ufunc[np.bitwise_or] = by_name["logical_and"], by_name["logical_or"]
by_ufunc[np.invert] = by_name["logical_not"]

# --- Selection: NaNs go through maximum and minimum, and past fmax and fmin --------------------------

CHOOSE = Function("choose", np.where, "{1} if {0} else {2}", "{0} ? {1} : {2}")
_declare(np.maximum, "{0} if ({0} > {1} or {0} != {0}) else {1}", "larger_of({0}, {1})")
_declare(np.minimum, "{0} if ({0} < {1} or {0} != {0}) else {1}", "smaller_of({0}, {1})")
_declare(np.fmax, "{1} if ({1} >= {0} or {0} != {0}) else {0}", "fmax({0}, {1})")
_declare(np.fmin, "{1} if ({1} <= {0} or {0} != {0}) else {0}", "fmin({0}, {1})")
_declare(np.absolute, "abs({0})", "fabs({0})")
_declare(np.copysign, "math.copysign({0}, {1})", "copysign({0}, {1})")
_declare(
    np.sign, "({one} if {0} > {zero} else {zero}) - ({one} if {0} < {zero} else {zero})", "W(({0} > 0) - ({0} < 0))"
)
for _ufunc, _cuda in ((np.floor, "floor"), (np.ceil, "ceil"), (np.trunc, "trunc"), (np.rint, "rint")):
    _declare(_ufunc, f"np.{_ufunc.__name__}({{0}})", f"{_cuda}({{0}})")

# --- Powers, exponentials, logarithms, trigonometry ----------------------------------------------------

for _name, _cuda in (
    ("exp", "exp"), ("log", "log"), ("log1p", "log1p"), ("expm1", "expm1"), ("tanh", "tanh"), ("sin", "sin"),
    ("cos", "cos"), ("sqrt", "sqrt"), ("log2", "log2"), ("tan", "tan"), ("sinh", "sinh"), ("cosh", "cosh"),
):  # fmt: skip
    _declare(getattr(np, _name), f"{_name}{{w}}({{0}})", f"{_cuda}({{0}})")
for _name, _cuda in (
    ("arctan", "atan"), ("arcsin", "asin"), ("arccos", "acos"), ("arcsinh", "asinh"), ("arccosh", "acosh"),
    ("arctanh", "atanh"), ("exp2", "exp2"), ("log10", "log10"), ("cbrt", "cbrt"),
):  # fmt: skip
    _declare(getattr(np, _name), f"np.{_name}({{0}})", f"{_cuda}({{0}})")
# The exponential of what is not above 0, as of elements less their maximum: loops and 16-bit kernels have a faster one.
EXP_BELOW = Function("exp_below", lambda x: np.exp(x), "exp_below{w}({0})", "exp_below({0})")
EXP_BELOW.arrays, EXP_BELOW.writes = np.exp, True
_declare(np.arctan2, "np.arctan2({0}, {1})", "atan2({0}, {1})")
_declare(np.hypot, "hypot{w}({0}, {1})", "hypot({0}, {1})")
_declare(np.power, "power{w}({0}, {1})", "pow({0}, {1})")
_declare(np.fmod, "np.fmod({0}, {1})", "fmod({0}, {1})")
_declare(np.remainder, "np.remainder({0}, {1})", "remainder_of({0}, {1})")
_declare(np.floor_divide, "np.floor_divide({0}, {1})", "floor_of({0}, {1})")
_declare(np.deg2rad, "{0} * 0.017453292519943295", "{0} * W(0.017453292519943295)")
_declare(np.rad2deg, "{0} * 57.29577951308232", "{0} * W(57.29577951308232)")
_declare(
    np.logaddexp, "logaddexp{w}({0}, {1})",
    "{0} == {1} ? {0} + W(0.6931471805599453) : ({0} > {1} ? {0} : {1}) + log1p_exp(-fabs({0} - {1}))",
)  # fmt: skip
_declare(
    np.logaddexp2, "np.logaddexp2({0}, {1})",
    "{0} == {1} ? {0} + W(1) : ({0} > {1} ? {0} : {1}) "
    "+ log1p_exp(-fabs({0} - {1}) * W(0.6931471805599453)) * W(1.4426950408889634)",
)  # fmt: skip
