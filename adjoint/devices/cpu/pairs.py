"""Functions of two large arrays that NumPy computes one element at a time, composed of its vectorised functions.

Small arrays go to NumPy's own. What these return is as exact as NumPy's, NaN and infinity included.
"""

from __future__ import annotations

import numpy as np

from ..._typing import Array, Kernel
from . import sizes
from .elementwise import elementwise
from .sizes import PIECES as LARGE
from .table import override

_EXACT = 2.0**29  # a quotient below this times a float32 is exact in float64

ndarray = np.ndarray
_f32, _f64 = np.dtype("float32"), np.dtype("float64")


def _many(x: Array, y: Array, *dtypes: object) -> bool:
    if type(x) is not ndarray or x.size < sizes.REMAINDER or x.dtype not in dtypes:
        return False
    return getattr(y, "dtype", None) == x.dtype and (type(y) is ndarray or isinstance(y, np.generic))


def _by_size(function: Kernel, x: Array, y: Array) -> Array:
    with np.errstate(all="ignore"):
        return elementwise(function, x, y) if x.size >= LARGE else function(x, y)


@override.around("remainder")
def _remainder_of(definition: Kernel) -> Kernel:
    def remainder(x: Array, y: Array) -> Array:
        if not _many(x, y, _f32):
            return definition(x, y)  # type: ignore[no-any-return]
        return _by_size(_remainder, x, y)  # type: ignore[no-any-return]

    return remainder


def _remainder(x: Array, y: Array) -> Array:
    wide, divisor = np.asarray(x, _f64), np.asarray(y, _f64)
    quotient = np.divide(wide, divisor)
    np.floor(quotient, out=quotient)
    if not (np.abs(quotient) < _EXACT).all() or not np.isfinite(divisor).all():
        return np.remainder(x, y)
    np.multiply(quotient, divisor, out=quotient)
    rest = np.subtract(wide, quotient, out=quotient)  # exact, but for a quotient that was rounded up to the next number
    beyond = (rest < 0) != (divisor < 0)
    beyond &= rest != 0
    if beyond.any():
        rest = np.where(beyond, rest + divisor, rest)
    return np.copysign(rest, divisor).astype(_f32)
