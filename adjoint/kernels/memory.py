"""Memory of arrays: where it lies, and that of arrays that are gone, kept for the next ones.

glibc gives large blocks back to the system as soon as they are freed, and every new one is then filled with zeros,
page by page: a third of the time of an op on a few million elements. Asked once, it keeps up to `KEPT` bytes.
``ADJOINT_KEEP_MEMORY=0`` leaves it as it is, and other C libraries are.
"""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Any

KEPT = 512 << 20
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # from malloc.h
_HEAD = object.__basicsize__  # where a NumPy array's own fields begin, the address of its elements first
_read_word = ctypes.c_size_t.from_address


def place_of(array: Any) -> int:
    """Return the address of a NumPy array's first element; `__array_interface__` takes five times as long."""
    return _read_word(id(array) + _HEAD).value


def keep_freed() -> bool:
    """Ask the C library to keep freed memory; return whether it will."""
    if not sys.platform.startswith("linux") or os.environ.get("ADJOINT_KEEP_MEMORY") == "0":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # musl has none
        return False
    return bool(mallopt(_MMAP_THRESHOLD, KEPT // 2) and mallopt(_TRIM_THRESHOLD, KEPT))
