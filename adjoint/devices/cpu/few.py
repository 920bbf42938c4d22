"""Small arrays: the bounds of their elements, found in a call or two."""

from __future__ import annotations

from typing import Any

import numpy as np

MOST = 4096  # elements of an array that is small


def within(x: Any, bound: float) -> bool:
    """Return whether an array is small and no element is further from 0 than a bound, nor a NaN.

    To look for the largest element takes NumPy a fifth of the time that to reduce to it does.
    """
    if type(x) is not np.ndarray or not 0 < x.size <= MOST or x.dtype.char not in "fd":
        return False
    return bool(x.item(x.argmax()) <= bound and x.item(x.argmin()) >= -bound)
