"""Whole formulas in one pass over large arrays, as NumPy ufuncs that Numba compiles.

NumPy takes a pass over memory for each operation; here a gradient rule or an activation function is one. `FORMULAS`
says what is computed of the elements, in Python: a formula is compiled when an array is large for the first time, and
its machine code kept on disk. The results are ufuncs like NumPy's own, with broadcasting and ``out=``, and are shared
by the crew as those are (see crew.py). What they give agrees with NumPy's passes to rounding.

Nothing here imports Numba before it is needed; `find` says whether a formula is there for an array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import passes, provider, threads
from .sources import Loops

ndarray = np.ndarray
LARGE = 1 << 15  # elements from which one pass is worth the way to it
_f32, _f64 = np.dtype("float32"), np.dtype("float64")

# A name, the arrays that may be a repeated number, other arrays, numbers, and what is computed of them. Functions made
# of polynomials (exp) are for float32; NumPy's are faster in double precision.
FORMULAS: dict[str, tuple[str, str, str, str]] = {
    "relu": ("", "x", "", "zero if x < zero else x"),
    "relu_back": ("g", "out", "", "zero if out <= zero else g"),
    "leaky_relu": ("", "x", "slope", "x if x > zero else x * slope"),
    "leaky_relu_back": ("g", "x", "slope", "g if x > zero else g * slope"),
    "elu": ("", "x", "alpha scale rate", "x * scale if x > zero else scale * alpha * expm1_below(x * rate)"),
    "elu_back": (
        "g", "x", "alpha scale rate", "g * scale if x > zero else g * (scale * alpha * rate * exp_below(x * rate))",
    ),
    "sigmoid": ("", "x", "", "one / (one + bounded_exp(-x))"),
    "sigmoid_back": ("g", "out", "", "g * (out * (one - out))"),
    "tanh_back": ("g", "out", "", "g - g * out * out"),
    "silu": ("", "x", "", "x / (one + bounded_exp(-x))"),
    "silu_back": ("g", "x", "", "g * silu_slope(x)"),
    "softplus": ("", "x", "beta threshold", "softplus(x, beta, threshold)"),
    "softplus_back": ("g", "x", "beta threshold", "g if x * beta > threshold else g / (one + bounded_exp(-x * beta))"),
    "erf": ("", "x", "", "erf(x)"),
    "erf_back": ("g", "x", "", "g * (kind(1.1283791670955126) * exp_below(-x * x))"),
    "abs_back": ("g", "x", "", "g if x > zero else (-g if x < zero else g * zero)"),
    "div_back": ("g", "x y", "", "-g * ((x / y) / y)"),
    "cube": ("", "x", "", "x * x * x"),
    "cube_back": ("g", "x", "", "g * (kind(3) * (x * x))"),
    "square_back": ("g", "x", "", "g * (kind(2) * x)"),
    "sqrt_back": ("g", "out", "", "g / (kind(2) * out)"),
    "rsqrt": ("", "x", "", "one / np.sqrt(x)"),
    "rsqrt_back": ("g", "out", "", "g * (kind(-0.5) * (out * out * out))"),
    "reciprocal_back": ("g", "out", "", "-g * (out * out)"),
    "bent": ("", "x y", "bend", "bent(abs(x - y), bend)"),
    "hypot": (
        "", "x y", "",
        "kind(np.inf) if abs(x) == kind(np.inf) or abs(y) == kind(np.inf) else "
        "kind(np.sqrt(np.float64(x) * np.float64(x) + np.float64(y) * np.float64(y)))",
    ),
    "hypot_back": ("g", "x out", "", "g * (x / out)"),
    "lerp": (
        "", "x end weight", "",
        "x + weight * (end - x) if abs(weight) < half else end - (end - x) * (one - weight)",
    ),
    "lerp_by": ("", "x end", "weight", "x + weight * (end - x)"),
    "addcmul": ("", "x y z", "value", "x + value * (y * z)"),
    "addcdiv": ("", "x y z", "value", "x + value * (y / z)"),
    "addcdiv_back": ("g", "y z", "value", "-g * (value * y / (z * z))"),
    "logistic": ("", "x y", "", "smooth_relu(x) - x * y"),
    "logistic_back": ("g", "x y", "", "g * (one / (one + bounded_exp(-x)) - y)"),
    "add_logs": ("", "x y", "", "add_logs(x, y)"),
    "add_logs_back": ("g", "x y", "", "g / (one + bounded_exp(y - x))"),
    "remainder_by": ("", "x", "divisor", "remainder(x, divisor)"),
    "times_rest": ("g", "weight", "", "g * (one - weight)"),
    "times_difference": ("g", "x y", "", "g * (x - y)"),
    "bent_back": ("g", "x y", "bend", "g * (bend if x - y > bend else (-bend if x - y < -bend else x - y))"),
}  # fmt: skip
_SINGLE_ONLY = (
    "exp(",
    "expm1_below(",
    "exp_below(",
    "softplus(",
    "smooth_relu(",
    "remainder(",
    "add_logs(",
    "erf(",
    "silu_slope(",
    "np.float64(",
)

_HEAD = '''"""A formula that adjoint wrote as a loop of a NumPy ufunc; see adjoint/kernels/fused.py."""

import numba
import numpy as np

from adjoint.kernels.addresses import array32, array64, load
from adjoint.kernels.mathematics import double, single
from adjoint.kernels.sources import cfunc

'''


def _source(name: str, dtype: Any) -> str:
    """Return the text of a formula's loop: over dense arrays, over those with a repeated gradient, over any."""
    *parts, formula = FORMULAS[name]
    repeated, dense, numbers = (part.split() for part in parts)
    names = [*repeated, *dense, *numbers]
    addresses = "".join(
        f"    at_{k}, step_{k} = load(arrays + {8 * i}), load(steps + {8 * i})\n"
        for i, k in enumerate([*names, "out_"])
    )
    strided = ", ".join(f"array(at_{k} + i * step_{k}, 1)[0]" for k in names)
    return f"""
kind, array = np.{dtype.name}, array{8 * dtype.itemsize}
globals().update(vars({"single" if dtype is _f32 else "double"}))
zero, one, half = kind(0), kind(1), kind(0.5)


@numba.njit(fastmath={{"contract"}}, error_model="numpy", forceinline=True)
def formula({", ".join(names)}):
    return {formula}


@cfunc("void(intp, intp, intp, intp)", fastmath={{"contract"}}, error_model="numpy")
def kernel(arrays, counts, steps, data):
    n = load(counts)
{addresses}{_branch("if", [*repeated, *dense], numbers, names, dtype)}{
        _branch("elif", dense, [*repeated, *numbers], names, dtype) if repeated else ""
    }    else:
        for i in range(n):
            array(at_out_ + i * step_out_, 1)[0] = formula({strided})
"""


def _branch(word: str, dense: list[str], single: list[str], names: list[str], dtype: Any) -> str:
    """Return the loop over dense arrays and single numbers, behind the question whether they are."""
    asked = [*(f"step_{k} == {dtype.itemsize}" for k in [*dense, "out_"]), *(f"step_{k} == 0" for k in single)]
    lines = [
        *(f"{k} = array(at_{k}, n)" for k in [*dense, "out_"]),
        *(f"{k} = array(at_{k}, 1)[0]" for k in single),
        "for i in range(n):",
        f"    out_[i] = formula({', '.join(k if k in single else f'{k}[i]' for k in names)})",
    ]
    # Names of the dense arrays and of the repeated number must differ: Numba gives each name one type.
    text = "".join(f"        {line}\n" for line in lines)
    return f"    {word} {' and '.join(asked)}:\n{text}"


_loops = Loops(_HEAD)
_found: dict[tuple[str, Any, Any], Any] = {}


def find(name: str, x: Any) -> Any:
    """Return the ufunc of a formula for an array, None where NumPy's passes must do."""
    size, dtype = x.size, x.dtype
    if size < LARGE or type(x) is not ndarray or not provider.choice.allowed:
        return None
    provider.note_large(size)
    key = name, dtype, threads.crew  # which shares those that are made when it is there
    found = _found.get(key, 0)
    if found == 0:
        single = dtype is _f64 and any(f in FORMULAS[name][3] for f in _SINGLE_ONLY)
        there = (dtype is _f32 or dtype is _f64) and not single and provider.compiles()
        found = _found[key] = _made(name, dtype) if there else None
    return found


def apply(name: str, *operands: Any) -> Any:
    """Return a formula of arrays and numbers, the first a large array, by Numba or NumPy; None where there is none."""
    first = operands[0]
    function = find(name, first)
    if function is None:
        return None if first.size < LARGE else passes.apply(name, operands)
    dtype = first.dtype
    given: list[Any] = []
    for a in operands:
        if type(a) is not ndarray:
            given.append(float(a))
        elif a.dtype is dtype:
            given.append(a)
        else:
            return None
    return function(*given)


def _made(name: str, dtype: Any) -> Any:
    """Return the ufunc of a formula, compiled or read from the disk."""
    from . import crew

    loop = _loops.load(_source(name, dtype))
    inputs = sum(len(part.split()) for part in FORMULAS[name][:3])
    return crew.ufunc(name, loop, inputs, dtype, threads.crew)
