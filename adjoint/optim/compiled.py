"""Updates compiled into one pass: by Numba on the host (``adjoint[fast]``), by CuPy on a GPU; the text is the same."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

from ..kernels import provider, threads

LEAST = 1 << 15  # elements: below, NumPy's few passes through the cache are as fast
_SHARE = 1 << 17  # elements worth waking a thread for


def run(update: Callable[..., Any], row: tuple[Any, ...], numbers: tuple[Any, ...]) -> bool:
    """Update flat arrays in place, if there is a compiler and it pays; return whether that was done."""
    p = row[0]
    if p.size < LEAST or not provider.choice.allowed:
        return False
    loop = _loop(update, len(row) - 2)
    if loop is None:
        return False
    elements = tuple([n if n is None or type(n) is bool else p.dtype.type(n) for n in numbers])
    threads.share(lambda start, stop: loop(*[a[start:stop] for a in row], *elements), p.size, _SHARE)
    return True


def run_on_gpu(update: Callable[..., Any], row: tuple[Any, ...], numbers: tuple[Any, ...]) -> None:
    """Update CuPy arrays in place by one kernel."""
    fixed = tuple([None if type(n) is float else (n,) for n in numbers])
    _kernel(update, fixed)(*row, *[n for n in numbers if type(n) is float])


@cache
def _kernel(update: Callable[..., Any], fixed: tuple[Any, ...]) -> Any:
    """Return the update as a kernel of arrays and floats, with what is neither fixed."""
    import cupy

    # The same text, with CuPy's functions under the name of NumPy's: fusing knows no others.
    function = FunctionType(update.__code__, {**update.__globals__, "np": cupy}, update.__name__)

    def flat(*values: Any) -> None:
        arrays, floats = values[: len(values) - moving], iter(values[len(values) - moving :])
        function(*arrays, *[next(floats) if f is None else f[0] for f in fixed])

    moving = fixed.count(None)
    return cupy.fuse(kernel_name=f"adjoint_{update.__name__.strip('_')}")(flat)


@cache
def _loop(update: Callable[..., Any], kept: int) -> Any:
    """Return a loop over arrays of the update, which returns what it changes; None where Numba is missing."""
    try:
        import numba
    except ImportError:
        return None
    # As in kernels/loops.py: NaNs and infinities keep their meaning, products may be fused with sums.
    options = {"nogil": True, "fastmath": {"contract", "nsz"}, "error_model": "numpy"}
    step = numba.njit(update, **options)

    def without(p: Any, g: Any, *numbers: Any) -> None:
        for i in range(p.size):
            p[i] = step(p[i], g[i], *numbers)

    def with_one(p: Any, g: Any, a: Any, *numbers: Any) -> None:
        for i in range(p.size):
            p[i], a[i] = step(p[i], g[i], a[i], *numbers)

    def with_two(p: Any, g: Any, a: Any, b: Any, *numbers: Any) -> None:
        for i in range(p.size):
            p[i], a[i], b[i] = step(p[i], g[i], a[i], b[i], *numbers)

    return numba.njit((without, with_one, with_two)[kept], **options)
