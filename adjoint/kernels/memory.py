"""Memory of arrays that are gone, kept for the next ones.

glibc gives large blocks back to the system as soon as they are freed, and every new one is then filled with zeros,
page by page: a third of the time of an op on a few million elements. Asked once, it keeps up to `KEPT` bytes.
``ADJOINT_KEEP_MEMORY=0`` leaves it as it is, and other C libraries are.
"""

from __future__ import annotations

import ctypes
import os
import sys

KEPT = 512 << 20
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # from malloc.h


def keep_freed() -> bool:
    """Ask the C library to keep freed memory; return whether it will."""
    if not sys.platform.startswith("linux") or os.environ.get("ADJOINT_KEEP_MEMORY") == "0":
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):  # musl has none
        return False
    return bool(mallopt(_MMAP_THRESHOLD, KEPT // 2) and mallopt(_TRIM_THRESHOLD, KEPT))
