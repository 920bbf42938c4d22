"""Elementary functions for compiled loops, for single numbers: polynomials, which LLVM turns into vector code.

A call to libm is not vectorised and costs twenty times as much. Everything here is accurate to a few units in the last
place of float32, and gives what NumPy gives at infinities and NaN. In double precision libm is called.
Only imported where Numba is installed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped, unused-ignore]
from numba.extending import intrinsic

from ..._typing import Kernel

if TYPE_CHECKING:
    from numba.core.base import BaseContext
    from numba.core.typing import Signature

# NaNs and infinities are respected; sums may be taken in any order.
FLAGS = {"contract", "nsz", "reassoc", "arcp"}
EXACT = {"contract", "nsz"}
inline = numba.njit(fastmath=EXACT, error_model="numpy", forceinline=True)  # a call that is left is not vectorised
F = np.float32
_NO_FRACTION = F(1.5 * 2**23 + 127)


@intrinsic
def _as_float(context: BaseContext, bits: numba.types.Type) -> tuple[Signature, Kernel]:
    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
    ) -> ir.Value:
        return builder.bitcast(args[0], ir.FloatType())

    return numba.float32(numba.int32), generate


@intrinsic
def _as_bits(context: BaseContext, x: numba.types.Type) -> tuple[Signature, Kernel]:
    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
    ) -> ir.Value:
        return builder.bitcast(args[0], ir.IntType(32))

    return numba.int32(numba.float32), generate


@intrinsic
def _as_float64(context: BaseContext, bits: numba.types.Type) -> tuple[Signature, Kernel]:
    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
    ) -> ir.Value:
        return builder.bitcast(args[0], ir.DoubleType())

    return numba.float64(numba.int64), generate


@intrinsic
def _as_bits64(context: BaseContext, x: numba.types.Type) -> tuple[Signature, Kernel]:
    def generate(
        context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Sequence[ir.Value]
    ) -> ir.Value:
        return builder.bitcast(args[0], ir.IntType(64))

    return numba.int64(numba.float64), generate


@inline
def _exp_less_one(r: float) -> Any:
    """Return exp(r) - 1 for numbers no further from 0 than half the logarithm of 2."""
    p = F(0.00139304355) + r * F(0.000198756912)
    p = F(0.00833344236) + r * p
    p = F(0.0416657343) + r * p
    p = F(0.166666667) + r * p
    p = F(0.5) + r * p
    return r + r * r * p


@inline
def _exp_parts(x: float) -> tuple[float, float]:
    """Return n and p with exp(x) = 2**n * (1 + p), for x that is neither too large nor too small."""
    n = np.floor(x * F(1.44269504) + F(0.5))
    r = x - n * F(0.693359375)
    r = r + n * F(2.12194440e-4)
    return n, _exp_less_one(r)


@inline
def _power_of_two(n: float) -> float:
    return _as_float(np.int32((np.int32(n) + np.int32(127)) << np.int32(23)))


@inline
def _rounded_parts(x: float) -> Any:
    """Return 2**n and p with exp(x) = 2**n * (1 + p), for -88.3 <= x <= 88.7, in fewer steps than `_exp_parts`."""
    # Next to a large number, fractions have no bits left: its last bits are n, rounded, as the bits of floats have it.
    power = x * F(1.44269504) + _NO_FRACTION
    n = power - _NO_FRACTION
    r = x - n * F(0.693359375)
    r = r + n * F(2.12194440e-4)
    return _as_float(_as_bits(power) << np.int32(23)), _exp_less_one(r)


@inline
def bounded_exp(x: Any) -> float:
    """Return the exponential of a float32, infinity above 88.4."""
    x = F(-88.3) if x < F(-88.3) else x
    scale, p = _rounded_parts(F(88.7) if x > F(88.7) else x)
    return (F(1.0) + p) * scale


@inline
def exp_below(x: float) -> float:
    """Return the exponential of a float32 that is not above 88; results that would be subnormal are 0."""
    scale, p = _rounded_parts(F(-88.3) if x < F(-88.3) else x)
    return scale + scale * p


@inline
def _scaled(p: float, n: float) -> float:
    """Return p * 2**n, in two factors: 2**128 and 2**-150 are no float32, though the product is."""
    half = np.int32(n) >> np.int32(1)
    return p * _power_of_two(half) * _power_of_two(np.int32(n) - half)


@inline
def _exp32(x: float) -> np.floating[Any] | float:
    low = F(-104.0) if x < F(-104.0) else x
    n, p = _exp_parts(F(88.72283) if low > F(88.72283) else low)
    out = _scaled(F(1.0) + p, n)
    return F(np.inf) if x > F(88.72284) else out


@inline
def _expm1_32(x: float) -> np.floating[Any] | float:
    low = F(-30.0) if x < F(-30.0) else x
    n, p = _exp_parts(F(88.72283) if low > F(88.72283) else low)
    # 2**n * (1 + p) - 1 without the cancellation near 0, where n is 0.
    out = _scaled(F(1.0) + p, n) if n > F(25.0) else _scaled(p, n) + (_scaled(F(1.0), n) - F(1.0))
    out = x if abs(x) < F(1e-7) else out  # and preserves the sign of zero
    return F(np.inf) if x > F(88.72284) else out


@inline
def _log_normal(x: float) -> float:
    """Return the logarithm of a float32 that is positive, finite and not subnormal."""
    bits = _as_bits(F(x))
    e = F(((bits >> np.int32(23)) & np.int32(0xFF)) - np.int32(126))
    m = _as_float(np.int32((bits & np.int32(0x007FFFFF)) | np.int32(0x3F000000)))
    low = m < F(0.707106781186547524)
    e = e - F(1.0) if low else e
    m = m + m - F(1.0) if low else m - F(1.0)
    z = m * m
    p = F(7.0376836292e-2) * m - F(1.1514610310e-1)
    p = p * m + F(1.1676998740e-1)
    p = p * m - F(1.2420140846e-1)
    p = p * m + F(1.4249322787e-1)
    p = p * m - F(1.6668057665e-1)
    p = p * m + F(2.0000714765e-1)
    p = p * m - F(2.4999993993e-1)
    p = p * m + F(3.3333331174e-1)
    p = p * m * z
    p = p + e * F(-2.12194440e-4) - F(0.5) * z
    return m + p + e * F(0.693359375)


@inline
def _log32(x: float) -> np.floating[Any] | float:
    small = x < F(1.17549435e-38)
    out = _log_normal(x * F(8388608.0) if small else x) - (F(15.942385152878742) if small else F(0.0))
    out = x if x == F(np.inf) or x != x else out
    out = F(-np.inf) if x == F(0.0) else out
    return F(np.nan) if x < F(0.0) else out


@inline
def _log1p_normal(x: float) -> float:
    whole = F(1.0) + x
    return _log_normal(whole) + (x - (whole - F(1.0))) / whole  # with what was lost in the sum


@inline
def _log1p32(x: float) -> np.floating[Any] | float:
    out = x if F(1.0) + x == F(1.0) else _log1p_normal(x)
    out = F(-np.inf) if x == F(-1.0) else out
    out = F(np.nan) if x < F(-1.0) else out
    return x if x == F(np.inf) else out


@inline
def _exp_negative(x: float) -> float:
    """Return the exponential of a float32 that is not above 0, with results that are subnormal."""
    n, p = _exp_parts(F(-104.0) if x < F(-104.0) else x)
    return _scaled(F(1.0) + p, n)


@inline
def _log1p_exp32(x: float) -> float:
    # The functions without special cases: LLVM gets lost between those of two, and leaves the loop as it is.
    return (x if x > F(0.0) else F(0.0)) + _log1p_normal(_exp_negative(-abs(x)))


@inline
def _log1p_exp64(x: float) -> float:
    return (x if x > 0.0 else 0.0) + np.log1p(math.exp(-abs(x)))


@inline
def _logaddexp32(x: float, y: float) -> np.floating[Any] | float:
    high = x if x > y else y
    out = high + _log1p_normal(_exp_negative(-abs(x - y)))
    return x + F(0.6931471805599453) if x == y else out  # also of two infinities


@inline
def _logaddexp64(x: float, y: float) -> float:
    high = x if x > y else y
    out = high + np.log1p(math.exp(-abs(x - y)))
    return x + 0.6931471805599453 if x == y else out


@inline
def _hypot32(x: float, y: float) -> np.floating[Any] | float:
    # In double precision no square of a single is too large or too small.
    wide, other = np.float64(x), np.float64(y)
    out = F(np.sqrt(wide * wide + other * other))
    return F(np.inf) if abs(x) == F(np.inf) or abs(y) == F(np.inf) else out


@inline
def _tanh32(x: float) -> np.floating[Any] | float:
    z = x * x
    p = F(-5.70498872745e-3) * z + F(2.06390887954e-2)
    p = p * z - F(5.37397155531e-2)
    p = p * z + F(1.33314422036e-1)
    p = p * z - F(3.33332819422e-1)
    size = abs(x)
    near = x if size < F(4e-4) else p * z * x + x  # as small numbers are, and the sign of zero
    far = F(1.0) - F(2.0) / (_exp32(size + size) + F(1.0))
    far = -far if x < F(0.0) else far
    return near if size < F(0.625) else far


@inline
def _erf32(x: float) -> np.floating[Any] | float:
    y = F(4.0) if x > F(4.0) else x
    y = F(-4.0) if y < F(-4.0) else y
    z = y * y
    a = F(-2.72614225801306e-10) * z + F(2.77068142495902e-08)
    a = a * z + F(-2.10102402082508e-06)
    a = a * z + F(-5.69250639462346e-05)
    a = a * z + F(-7.34990630326855e-04)
    a = a * z + F(-2.95459980854025e-03)
    a = a * z + F(-1.60960333262415e-02)
    b = F(-1.45660718464996e-05) * z + F(-2.13374055278905e-04)
    b = b * z + F(-1.68282697438203e-03)
    b = b * z + F(-7.37332916720468e-03)
    b = b * z + F(-1.42647390514189e-02)
    return y * (a / b)  # not y * a, which loses bits where it is subnormal


# Coefficients of twice the polynomial whose hyperbolic tangent is the error function of x / sqrt(2).
_P0, _P1, _P2, _P3 = (F(2 * c) for c in (7.97884941e-01, 3.63330846e-02, -3.25949832e-05, -5.53062053e-05))
_P4, _P5, _P6 = (F(2 * c) for c in (3.96474902e-06, -1.32263897e-07, 1.75619161e-09))


@inline
def _normal_cdf32(x: float) -> float:
    """Return the probability that a standard normal variable is below x, to a rounding error of 1."""
    square = x * x
    p = _P5 + square * _P6
    p = _P4 + square * p
    p = _P3 + square * p
    p = _P2 + square * p
    p = _P1 + square * p
    p = _P0 + square * p
    return F(1.0) / (F(1.0) + bounded_exp(-x * p))


@inline
def _normal_cdf64(x: float) -> float:
    return 0.5 * math.erfc(x * -0.7071067811865476)


@inline
def _sin_cos_part(x: float, shift: int) -> float:
    """Sine of x + shift quarter turns, for moderate x."""
    n = np.floor(x * F(0.636619772) + F(0.5))
    r = x - n * F(1.5703125)
    r = r - n * F(4.83751296997e-4)
    r = r - n * F(7.54978995489e-8)
    q = (np.int32(n) + shift) & np.int32(3)
    z = r * r
    s = ((F(-1.9515295891e-4) * z + F(8.3321608736e-3)) * z - F(1.6666654611e-1)) * z * r + r
    c = (F(2.443315711809948e-5) * z - F(1.388731625493765e-3)) * z + F(4.166664568298827e-2)
    c = c * z * z - F(0.5) * z + F(1.0)
    out = c if (q & np.int32(1)) != 0 else s
    return -out if (q & np.int32(2)) != 0 else out


@inline
def _sin32(x: float) -> np.floating[Any] | float:
    out = _sin_cos_part(x, np.int32(0)) if abs(x) < F(8192.0) else F(math.sin(x))
    return x if abs(x) < F(4e-4) else out  # with the sign of zero


@inline
def _cos32(x: float) -> np.floating[Any] | float:
    return _sin_cos_part(x, np.int32(1)) if abs(x) < F(8192.0) else F(math.cos(x))


@inline
def _power32(x: float, y: float) -> np.floating[Any] | float:
    return F(x**y)


@inline
def _power64(x: float, y: float) -> float:
    return np.float64(x**y)


# By the names that expressions use (adjoint/scalar/functions.py).
_SINGLE = {
    "exp": _exp32, "log": _log32, "tanh": _tanh32, "erf": _erf32, "sin": _sin32, "cos": _cos32, "log1p": _log1p32,
    "expm1": _expm1_32, "log1p_exp": _log1p_exp32, "normal_cdf": _normal_cdf32, "logaddexp": _logaddexp32,
    "hypot": _hypot32, "power": _power32, "exp_below": exp_below,
}  # fmt: skip
_DOUBLE = {
    "exp": math.exp, "log": np.log, "tanh": math.tanh, "erf": math.erf, "sin": math.sin, "cos": math.cos,
    "log1p": np.log1p, "expm1": np.expm1, "log1p_exp": _log1p_exp64, "normal_cdf": _normal_cdf64,
    "logaddexp": _logaddexp64, "hypot": np.hypot, "power": _power64, "exp_below": math.exp,
}  # fmt: skip
_OF_BOTH = {"sqrt": np.sqrt, "log2": np.log2, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh}
NAMES: dict[str, Any] = {
    **{f"{name}32": function for name, function in (_SINGLE | _OF_BOTH).items()},
    **{f"{name}64": function for name, function in (_DOUBLE | _OF_BOTH).items()},
}
