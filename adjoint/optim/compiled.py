"""Updates compiled into one pass from one definition: by Numba on the CPU (the extra ``fast``), as a GPU kernel."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np

from ..devices.contract import by_class
from ..devices.cpu import provider, threads
from ..scalar import functions as functions  # the names that updates are made of

_LOOP_ELEMENTS = 1 << 15  # elements: below, NumPy's few passes through the cache are as fast
_THREAD_ELEMENTS = 1 << 17  # elements worth waking a thread for

Row = tuple[Any, ...]


def run(update: Callable[..., Any], row: tuple[Any, ...], numbers: tuple[Any, ...]) -> bool:
    """Update flat arrays in place, if there is a compiler and it pays; return whether that was done."""
    p = row[0]
    if p.size < _LOOP_ELEMENTS or not provider.choice.allowed:
        return False
    loop = _loop(update, len(row) - 2)
    if loop is None:
        return False
    elements = tuple([n if n is None or type(n) is bool else p.dtype.type(n) for n in numbers])
    threads.share(lambda start, stop: loop(*[a[start:stop] for a in row], *elements), p.size, _THREAD_ELEMENTS)
    return True


@cache
def _loop(update: Callable[..., Any], buffers: int) -> Any:
    """Return a loop over arrays of the update, which returns what it changes; None where Numba is missing."""
    try:
        import numba
    except ImportError:
        return None
    # As in devices/cpu/loops.py: NaNs and infinities are respected, products may be fused with sums.
    options = {"nogil": True, "fastmath": {"contract", "nsz"}, "error_model": "numpy"}
    for name in update.__code__.co_names:
        part = update.__globals__.get(name)
        if isinstance(part, FunctionType):  # what several updates share
            numba.extending.register_jitable(**options)(part)
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

    return numba.njit((without, with_one, with_two)[buffers], **options)


# --- On a GPU --------------------------------------------------------------------------------------------


def run_on_gpu(update: Callable[..., Any], rows: list[Row], numbers: tuple[Any, ...]) -> list[Row]:
    """Update the arrays of all rows, of one real dtype, by one launch; return the rows where that cannot be done.

    That is so on devices without kernels over many arrays.
    """
    fixed = tuple([None if _is_number(n) else (n,) for n in numbers])
    kernels = by_class[type(rows[0][0])].multi_tensor
    kernel = kernels and kernels.updates(update, len(rows[0]), fixed)
    if kernel is None:
        return rows
    ready: list[Row] = []
    left: list[Row] = []
    for row in rows:
        if row[0].size:
            flat = _flat(row)
            (left if flat is None else ready).append(flat or row)
    if ready:
        number = ready[0][0].dtype.type if ready[0][0].dtype.itemsize > 2 else np.float32
        kernel(ready, tuple([number(n) for n in numbers if _is_number(n)]))
    return left


def _is_number(n: Any) -> bool:
    return isinstance(n, int | float) and not isinstance(n, bool)


def _flat(row: Row) -> Row | None:
    """Return contiguous arrays of one memory order, the gradient copied if need be; None if the others are not."""
    p, g, *state = row
    if p._c_contiguous and all(a._c_contiguous for a in state):
        fits = g._c_contiguous
        order = "C"
    elif p._f_contiguous and all(a._f_contiguous for a in state):
        fits = g._f_contiguous
        order = "F"
    else:
        return None
    if any(a.dtype != p.dtype for a in state):
        return None
    if not fits or g.dtype != p.dtype:
        g = g.astype(p.dtype, order=order)
    return (p, g, *state)
