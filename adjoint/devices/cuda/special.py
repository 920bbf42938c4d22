"""Special functions of arrays on a GPU: CuPy's, and SciPy's on the CPU for those that CuPy lacks."""

from __future__ import annotations

from functools import cache

import cupy

from ..._typing import Kernel
from ...scalar import special
from .arrays import Array
from .host import through_host


@cache
def _function(name: str) -> Kernel:
    from cupyx.scipy import special as library  # type: ignore[import-not-found, unused-ignore]

    found: Kernel | None = getattr(library, name, None)
    return through_host(f"special.{name}")(special.function(name)) if found is None else found


special.libraries[Array] = special.libraries[cupy.ndarray] = _function
