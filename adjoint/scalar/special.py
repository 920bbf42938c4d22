"""Special functions by name: SciPy's where it is installed, elsewhere the common ones by `approximations`.

SciPy is imported when the first of its functions is called. A device whose arrays SciPy does not take registers
in `libraries` a function that returns its own functions by name.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any

import numpy as np

from .._typing import Array, Kernel
from . import approximations

__all__ = ["in_single", "libraries", "special"]

libraries: dict[type, Callable[[str], Kernel]] = {}  # what returns a function by its name, by the class of arrays


def in_single(kernel: Kernel) -> Kernel:
    """Return a kernel that computes half-precision arrays in single precision, and rounds once at the end."""

    @wraps(kernel)
    def checked(x: Array, *args: Array) -> Array:
        if x.dtype.itemsize != 2 or x.dtype.kind in "iu":
            return kernel(x, *args)
        dtype = x.dtype
        wide = [a.astype(np.float32) if getattr(a, "dtype", None) == dtype else a for a in args]
        return kernel(x.astype(np.float32), *wide).astype(dtype)

    return checked


# What programs call the functions that `approximations` does not have.
_CALLED = {"gammainc": "igamma", "gammaincc": "igammac", "airy": "special.airy_ai"} | {
    f"{letter}{order}{scaled}": f"special.{kind}{letter}{order}"
    for letter, kind, scaled in (("j", "bessel_", ""), ("y", "bessel_", ""), ("k", "modified_bessel_", ""))
    for order in (0, 1)
} | {f"k{order}e": f"special.scaled_modified_bessel_k{order}" for order in (0, 1)}  # fmt: skip


@cache
def function(name: str) -> Kernel:
    """Return SciPy's function of that name on NumPy's arrays; without SciPy, our own."""
    try:
        from scipy import special as library
    except ImportError as error:
        own = getattr(approximations, name, None)
        if own is not None:
            return _in_double(own)
        raise ImportError(
            f"{_CALLED.get(name, name)} is computed by SciPy, which is not installed here; pip install scipy"
        ) from error
    found: Kernel = getattr(library, name)
    return found


def _in_double(function: Kernel) -> Kernel:
    """Return one of our own functions for arrays of any precision."""

    def rounded(*arrays: Array) -> Array:
        dtypes = [a.dtype for a in arrays if isinstance(a, np.ndarray | np.generic) and a.dtype.kind == "f"]
        with np.errstate(all="ignore"):
            out: Array = function(*[np.asarray(a, np.float64) for a in arrays])
        return out.astype(np.result_type(*dtypes), copy=False)

    return rounded


def special(name: str, part: int | None = None) -> Kernel:
    """Return SciPy's function of that name, for arrays of any floating dtype on any device.

    Of a function with several results, `part` says which is wanted.
    """

    def kernel(*arrays: Array) -> Any:
        if part is None and len(arrays) == 1 and type(arrays[0]) is np.ndarray and arrays[0].dtype.char in "fd":
            return function(name)(arrays[0])
        dtype = next(a.dtype for a in arrays if hasattr(a, "dtype") and a.dtype.kind not in "biu")
        if dtype.kind == "c":
            found = "ComplexFloat" if dtype.itemsize == 8 else "ComplexDouble"
            raise NotImplementedError(f"\"{name}_cpu\" not implemented for '{found}': it takes real numbers")
        library = next((libraries[type(a)] for a in arrays if type(a) in libraries), function)
        if dtype.itemsize == 2:
            arrays = tuple(a.astype(np.float32) if getattr(a, "dtype", None) == dtype else a for a in arrays)
        out = library(name)(*arrays)
        out = out if part is None else out[part]
        return out if out.dtype == dtype else out.astype(dtype)

    kernel.__name__ = name
    return kernel
