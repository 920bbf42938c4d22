"""Updates compiled into one pass from the same text: by Numba on the host (``adjoint[fast]``), as a kernel on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ..devices.cpu import provider, threads

LEAST = 1 << 15  # elements: below, NumPy's few passes through the cache are as fast
_SHARE = 1 << 17  # elements worth waking a thread for

Row = tuple[Any, ...]


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


@cache
def _loop(update: Callable[..., Any], kept: int) -> Any:
    """Return a loop over arrays of the update, which returns what it changes; None where Numba is missing."""
    try:
        import numba
    except ImportError:
        return None
    # As in devices/cpu/loops.py: NaNs and infinities keep their meaning, products may be fused with sums.
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


# --- On a GPU --------------------------------------------------------------------------------------------


def run_on_gpu(update: Callable[..., Any], rows: list[Row], numbers: tuple[Any, ...]) -> list[Row]:
    """Update the arrays of all rows, of one real dtype, by one launch; return the rows where that cannot be done."""
    fixed = tuple([None if _is_number(n) else (n,) for n in numbers])
    kernel = _kernel(update, len(rows[0]), fixed)
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
    """Return arrays that lie alike and in one piece, the gradient copied if need be; None if the others do not."""
    p, g, *kept = row
    if p._c_contiguous and all(a._c_contiguous for a in kept):
        fits = g._c_contiguous
        order = "C"
    elif p._f_contiguous and all(a._f_contiguous for a in kept):
        fits = g._f_contiguous
        order = "F"
    else:
        return None
    if any(a.dtype != p.dtype for a in kept):
        return None
    if not fits or g.dtype != p.dtype:
        g = g.astype(p.dtype, order=order)
    return (p, g, *kept)


@cache
def _kernel(update: Callable[..., Any], columns: int, fixed: tuple[Any, ...]) -> Any:
    """Return the update as a kernel over rows of arrays, with what is no number fixed; None if it has no text in C."""
    from ..devices.cuda.many import Many

    lines: list[str] = []
    values = [_Symbol(f"v{i}", lines) for i in range(columns)]
    numbers = [_Symbol(f"n{i}", lines) if f is None else f[0] for i, f in enumerate(fixed)]
    try:
        update(*values, *numbers)
    except (TypeError, AttributeError):
        return None
    parameters = ", ".join(f"W n{i}" for i, f in enumerate(fixed) if f is None)
    written = (0, *range(2, columns))
    return Many(columns, written, parameters, " ".join(lines))


_FUNCTIONS = {
    np.sqrt: "sqrt({})", np.absolute: "fabs({})", np.negative: "-{}", np.maximum: "join_amax({}, {})",
    np.minimum: "join_amin({}, {})", np.add: "{} + {}", np.subtract: "{} - {}", np.multiply: "{} * {}",
    np.divide: "{} / {}",
}  # fmt: skip


class _Symbol:
    """An element, or a number, that an update computes with while its text in C is written down."""

    __slots__ = ("lines", "name")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, name: str, lines: list[str]) -> None:
        self.name, self.lines = name, lines

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or kwargs or ufunc not in _FUNCTIONS:
            return NotImplemented
        name = f"t{len(self.lines)}"
        self.lines.append(f"W {name} = {_FUNCTIONS[ufunc].format(*[_c(x) for x in inputs])};")
        return _Symbol(name, self.lines)

    def __setitem__(self, place: Any, value: Any) -> None:
        self.lines.append(f"{self.name} = {_c(value)};")

    def __bool__(self) -> bool:
        raise TypeError("an update that is compiled cannot ask for the value of an element")


def _c(value: Any) -> str:
    """Return a value as it is called in C."""
    if isinstance(value, _Symbol):
        return value.name
    if not _is_number(value):
        raise TypeError(f"an update that is compiled cannot compute with {value!r}")
    return f"(W){float(value)!r}"


def _operator(ufunc: Any, reflected: bool = False) -> Any:
    def method(self: _Symbol, *other: Any) -> Any:
        inputs = (*other, self) if reflected else (self, *other)
        return self.__array_ufunc__(ufunc, "__call__", *inputs)

    return method


def _assigned(ufunc: Any) -> Any:
    def method(self: _Symbol, other: Any) -> _Symbol:
        self[...] = self.__array_ufunc__(ufunc, "__call__", self, other)
        return self

    return method


for _name, _ufunc in {"add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide}.items():
    setattr(_Symbol, f"__{_name}__", _operator(_ufunc))
    setattr(_Symbol, f"__r{_name}__", _operator(_ufunc, True))
    setattr(_Symbol, f"__i{_name}__", _assigned(_ufunc))
setattr(_Symbol, "__neg__", _operator(np.negative))  # noqa: B010 - a type checker would take it for the class's own
