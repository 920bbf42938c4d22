"""What a formula of elements becomes on the CPU: NumPy passes for small arrays, a compiled loop for large ones.

`formula(function)` returns a kernel or a gradient rule with the same parameters. Of float32 and float64 arrays it runs
what adjoint/scalar prints from the formula; of anything else (tensors, batched, dual and traced values, symbols, arrays
of a GPU, 0-d arrays) it runs the formula itself. Half precision is computed in single.
"""

from __future__ import annotations

import functools
from array import array
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..._typing import Array, DType, Kernel
from ...scalar import arrays, loops
from ...scalar.symbol import Symbol, trace
from . import provider, reductions, rows, selection, threads
from .constants import Constants
from .elementwise import elementwise
from .memory import place_of
from .sizes import LOOP as LARGE
from .sizes import THREAD_LOOP as _PIECE
from .sources import Loops

ndarray = np.ndarray
f32, f64 = np.dtype("float32"), np.dtype("float64")
_BLOCK = 512  # elements whose sum is taken at once: the order of additions depends on their number alone
_MOST_VARIANTS = 8  # values of static parameters for which there are forms
_HALVES = frozenset(("float16", "bfloat16"))


def names_of(function: Kernel) -> tuple[str, ...]:
    """Return the names of a formula's parameters."""
    code = function.__code__
    return tuple(code.co_varnames[: code.co_argcount])


class Forms:
    """The machine forms of one formula, made when they are first needed: a pass over arrays, a loop, by dtype."""

    def __init__(self, function: Callable[..., Any], name: str, numbers: Sequence[str], static: Sequence[str]) -> None:
        self.function, self.names = function, names_of(function)
        self.numbers = frozenset(n for n in numbers if n in self.names)
        self.static = frozenset(n for n in static if n in self.names)
        self.title = name or "formula"
        self.operands = [n for n in self.names if n not in self.static]
        self._expressions: dict[Any, Symbol] = {}
        self._passes: dict[Any, Callable[..., Any]] = {}
        self._loops: dict[Any, Any] = {}

    def expression(self, fixed: tuple[Any, ...] = ()) -> Symbol:
        """Return the formula as an expression; `fixed` are the values of its static parameters, in order."""
        found = self._expressions.get(fixed)
        if found is None:
            given = dict(zip([n for n in self.names if n in self.static], fixed, strict=True))

            def whole(*symbols: Symbol) -> Any:
                values = {**dict(zip(self.operands, symbols, strict=True)), **given}
                return self.function(*[values[n] for n in self.names])

            found = self._expressions[fixed] = trace(whole, self.operands)
        return found

    def knows(self, fixed: tuple[Any, ...]) -> bool:
        """Return whether there are forms for these values of the static parameters; programs use only some values."""
        return fixed in self._expressions or len(self._expressions) < _MOST_VARIANTS

    def passes(
        self, dtype: DType, fixed: tuple[Any, ...] = (), scalars: tuple[str, ...] = (), summed: bool = False
    ) -> Callable[..., Any]:
        """Return the formula as NumPy passes over arrays of a dtype; `scalars` are operands that are 0-d arrays."""
        key = dtype, fixed, scalars, summed
        found = self._passes.get(key)
        if found is None:
            numbers = self.numbers.union(scalars)
            sums = (reductions.total, reductions.dot) if summed else None
            text = arrays.Text(self.expression(fixed), self.operands, numbers, selection.where, sums)
            found = self._passes[key] = text.function(f"{self.title}_passes", dtype)
        return found

    def loop(self, dtype: DType, layout: str, fixed: tuple[Any, ...] = (), summed: bool = False) -> Kernel:
        """Return the formula as machine code, ``part(address of fields, piece, start, stop)``.

        A letter of `layout` says of each operand what it is: 'v' an array, 's' one element, 'f' a number. A loop that
        is `summed` goes from block to block of elements, and leaves the sum of each.
        """
        key = dtype, layout, fixed, summed
        found = self._loops.get(key)
        if found is None:
            assignments, (result,) = loops.lines([self.expression(fixed)], dtype)
            print_loop = _sum_source if summed else _source
            found = self._loops[key] = _loops().load(print_loop(self.operands, layout, assignments, result, dtype))
        return found

    def run_large(self, dtype: DType, operands: Sequence[Any], fixed: tuple[Any, ...] = ()) -> Array:
        """Return the formula of large arrays and numbers; NotImplemented where these have no common layout."""
        if not (provider.choice.allowed and provider.compiles()):
            return elementwise(self.passes(dtype, fixed, self.scalars(operands)), *operands, writes=dtype)
        first, layout = _layout(operands, dtype)
        if "?" in layout:
            return NotImplemented
        out = np.empty_like(first)
        _run(self.loop(dtype, layout, fixed), operands, out, first.size, first.size)
        return out

    def total(self, operands: Sequence[Any], fixed: tuple[Any, ...] = ()) -> Array | None:
        """Return the sum of the formula over all elements; None where operands are no arrays of one shape and dtype."""
        if not _are_alike(*operands):
            return None
        dtype, size = operands[0].dtype, operands[0].size
        if size >= LARGE and provider.choice.allowed and provider.compiles():
            _, layout = _layout(operands, dtype)
            if "?" not in layout:
                parts = np.empty(-(-size // _BLOCK), dtype)
                _run(self.loop(dtype, layout, fixed, summed=True), operands, parts, parts.size, size)
                return np.add.reduce(parts)
        return self.passes(dtype, fixed, self.scalars(operands), summed=True)(*operands)

    def scalars(self, operands: Sequence[Any]) -> tuple[str, ...]:
        """Return the names of the operands that are 0-d arrays."""
        return tuple([n for n, a in zip(self.operands, operands) if type(a) is ndarray and not a.ndim])


def _are_alike(x: Array, y: Array) -> bool:
    dtype = getattr(x, "dtype", None)
    alike = type(x) is ndarray is type(y) and (dtype is f32 or dtype is f64) and y.dtype is dtype
    return alike and x.shape == y.shape and x.size > 0


def _layout(operands: Sequence[Any], dtype: DType) -> tuple[Any, str]:
    """Return an array whose memory layout the others must have, and the letters of the operands."""
    first = next((a for a in operands if type(a) is ndarray and any(a.strides)), None)
    if first is None or not _is_dense(first):
        return None, "?"
    return first, "".join([_letter(a, first, dtype) for a in operands])


def _letter(a: Array, first: Array, dtype: DType) -> str:
    if type(a) is not ndarray:
        return "f"
    if a.dtype is not dtype:
        return "?"
    if a.ndim == 0 or (a.shape == first.shape and not any(a.strides)):
        return "s"
    return "v" if a.shape == first.shape and a.strides == first.strides else "?"


def _is_dense(a: Array) -> bool:
    """Return whether an array's elements fill a stretch of memory, in whatever order of its axes."""
    if a.flags.c_contiguous or a.flags.f_contiguous:
        return True
    step = a.itemsize
    for stride, size in sorted(zip(a.strides, a.shape)):
        if size != 1:
            if stride != step:
                return False
            step *= size
    return True


def _field(a: Any) -> int:
    """Return what a loop reads of an operand: an address, or the bits of a number as float64."""
    if type(a) is ndarray:
        return place_of(a)
    return array("q", array("d", (float(a),)).tobytes())[0]


def _run(part: Any, operands: Sequence[Any], out: Array, total: int, size: int) -> None:
    """Call machine code on a range, in pieces that threads take; it goes over so many elements in all."""
    fields = array("q", [*[_field(a) for a in operands], place_of(out), size])
    at = fields.buffer_info()[0]
    count = min(threads.count, size // _PIECE, total)
    # A thread that is late finds less to do.
    rows.run_pieces(part, at, total, min(4 * count, total) if count > 1 else 1)


@functools.cache
def _loops() -> Loops:
    return Loops(_HEAD)


_HEAD = '''"""A formula that adjoint printed as a loop; see adjoint/scalar/loops.py."""

import math

import numpy as np

from adjoint.devices.cpu.addresses import array32, array64, load
from adjoint.devices.cpu.mathematics import NAMES
from adjoint.devices.cpu.sources import cfunc

globals().update(NAMES)


'''


def _source(names: Sequence[str], layout: str, assignments: list[str], result: str, dtype: DType) -> str:
    """Return the text of a loop that writes the formula's value of each element."""
    before, inside = _reading(names, layout, dtype, "start")
    size = dtype.itemsize
    lines = [
        "n = stop - start",
        *before,
        f"result_ = array{8 * size}(load(fields + {8 * len(names)}) + {size} * start, n)",
        "for i in range(n):",
        *[f"    {line}" for line in (*inside, *assignments, f"result_[i] = {result}")],
    ]
    return _function(lines, "set()")  # rounded after every step, as NumPy's passes are


def _sum_source(names: Sequence[str], layout: str, assignments: list[str], result: str, dtype: DType) -> str:
    """Return the text of a loop that writes the sum of the formula's values of each block of elements."""
    before, inside = _reading(names, layout, dtype, "first")
    at, size = 8 * len(names), dtype.itemsize
    lines = [
        f"result_ = array{8 * size}(load(fields + {at}), stop)",
        "for block in range(start, stop):",
        f"    first = block * {_BLOCK}",
        f"    n = min({_BLOCK}, load(fields + {at + 8}) - first)",
        *[f"    {line}" for line in before],
        f"    s = np.{dtype.name}(0)",
        "    for i in range(n):",
        *[f"        {line}" for line in (*inside, *assignments, f"s += {result}")],
        "    result_[block] = s",
    ]
    return _function(lines, '{"contract", "nsz", "reassoc", "arcp"}')


def _reading(names: Sequence[str], layout: str, dtype: DType, start: str) -> tuple[list[str], list[str]]:
    """Return what a loop over `n` elements from a place on reads of its operands before it begins, and inside."""
    kind, size = f"np.{dtype.name}", dtype.itemsize
    make = f"array{8 * size}"
    before, inside = [], []
    for i, (name, letter) in enumerate(zip(names, layout, strict=True)):
        if letter == "v":
            before.append(f"v_{name} = {make}(load(fields + {8 * i}) + {size} * {start}, n)")
            inside.append(f"{name} = v_{name}[i]")
        elif letter == "s":
            before.append(f"{name} = {make}(load(fields + {8 * i}), 1)[0]")
        else:
            before.append(f"{name} = {kind}(array64(fields + {8 * i}, 1)[0])")
    return before, inside


def _function(lines: list[str], flags: str) -> str:
    body = "\n".join(f"    {line}" for line in lines)
    return f"""
@cfunc("void(intp, intp, intp, intp)", fastmath={flags}, error_model="numpy")
def kernel(fields, piece, start, stop):
{body}
"""


def formula(
    function: Callable[..., Any], *, name: str = "", numbers: str = "", static: str = "", check: Check | None = None
) -> Callable[..., Any]:
    """Return a kernel or rule that computes a formula of elements.

    `numbers` names the parameters that are Python's numbers, `static` those by whose value the formula branches.
    `check` is called with the first array and the name where it is neither of float32 nor of float64, and may raise.
    """
    forms = Forms(function, name, numbers.split(), static.split())
    count = len(forms.names)
    simple = not numbers and not static
    make = _of_one if count == 1 else _of_two if count == 2 and simple else _of_several
    made: Any = make(forms, check or _anything)
    functools.update_wrapper(made, function)
    made.forms = forms
    return made  # type: ignore[no-any-return]


Check = Callable[[Any, str], None]


def _anything(x: Array, name: str) -> None:
    """Take arrays of every dtype."""


def _other(forms: Forms, kernel: Callable[..., Any], check: Check, given: Sequence[Any]) -> Array:
    """Return the formula of arrays that are neither of float32 nor of float64: half precision is computed in single."""
    dtype = given[0].dtype
    check(given[0], forms.title)
    if dtype.name not in _HALVES:
        if forms.numbers and dtype.kind in "iu":
            given = [dtype.type(a) if n in forms.numbers else a for n, a in zip(forms.names, given)]
        return forms.function(*given)
    wide = [a.astype(f32) if type(a) is ndarray and a.dtype == dtype else a for a in given]
    out = kernel(*wide)
    return out.astype(dtype) if out.dtype == f32 else out


def _of_values(function: Callable[..., Any], *given: Array) -> Array:
    """Return the formula of tensors, traced and batched values, arrays of a GPU and symbols: half in single too."""
    half = next((a.dtype for a in given if _is_half(a)), None)
    if half is None:
        return function(*given)
    from ...core.nodes import registry  # of ops, which are declared on top of this

    cast = registry["cast"]
    out = function(*[cast(a, f32) if _is_half(a) else a for a in given])
    return cast(out, np.dtype(getattr(half, "np", half))) if str(getattr(out, "dtype", "")).endswith("float32") else out


def _is_half(value: object) -> bool:
    dtype = getattr(value, "dtype", None)
    return dtype is not None and dtype.itemsize == 2 and str(dtype).endswith("float16")


def _unprinted(function: Callable[..., Any], *given: Array) -> Any:
    """Return the formula itself, of 0-d arrays and of arrays that broadcast, in their dtype.

    A choice between two Python scalars is of double precision in NumPy.
    """
    out = function(*given)
    if not isinstance(out, ndarray | np.generic | int | float):
        return out
    dtypes = {a.dtype for a in given if type(a) is ndarray}
    found = getattr(out, "dtype", None)
    if len(dtypes) == 1 and (found is None or found.kind in "iuf") and found not in dtypes:
        return np.asarray(out, dtypes.pop())
    return out


def _of_one(forms: Forms, check: Check) -> Callable[[Any], Any]:
    function = forms.function
    single: Any = None
    double: Any = None

    def kernel(x: Array) -> Any:
        nonlocal single, double
        if type(x) is not ndarray:
            return _of_values(function, x)
        dtype = x.dtype
        if dtype is f32:
            if x.size < LARGE and x.ndim:
                if single is None:
                    single = forms.passes(f32)
                return single(x)
        elif dtype is f64:
            if x.size < LARGE and x.ndim:
                if double is None:
                    double = forms.passes(f64)
                return double(x)
        else:
            return _other(forms, kernel, check, (x,))
        if not any(x.strides):
            return _unprinted(function, x)
        found = forms.run_large(dtype, (x,))
        return forms.passes(dtype)(x) if found is NotImplemented else found

    return kernel


def _of_two(forms: Forms, check: Check) -> Callable[[Any, Any], Any]:
    function = forms.function
    single: Any = None
    double: Any = None

    def kernel(x: Array, y: Array) -> Any:
        nonlocal single, double
        if type(x) is not ndarray or type(y) is not ndarray or x.dtype is not y.dtype:
            return _of_values(function, x, y)
        dtype = x.dtype
        if dtype is f32:
            if x.size < LARGE and x.ndim and x.shape == y.shape:
                if single is None:
                    single = forms.passes(f32)
                return single(x, y)
        elif dtype is f64:
            if x.size < LARGE and x.ndim and x.shape == y.shape:
                if double is None:
                    double = forms.passes(f64)
                return double(x, y)
        else:
            return _other(forms, kernel, check, (x, y))
        if x.shape != y.shape or not any(x.strides + y.strides):
            return _unprinted(function, x, y)
        found = forms.run_large(dtype, (x, y))
        return forms.passes(dtype)(x, y) if found is NotImplemented else found

    return kernel


_constants = {f32: Constants(f32, float), f64: Constants(f64, float)}


def _of_several(forms: Forms, check: Check) -> Callable[..., Any]:
    function = forms.function
    kinds = ["s" if n in forms.static else "n" if n in forms.numbers else "a" for n in forms.names]
    small: dict[Any, Callable[..., Any]] = {}

    def kernel(*given: Any) -> Any:
        first = given[0]
        if type(first) is not ndarray:
            return _of_values(function, *given)
        dtype, shape = first.dtype, first.shape
        if not shape and len(given) > 1 and type(given[1]) is ndarray:  # a gradient of all elements alike
            shape = given[1].shape
        if dtype is not f32 and dtype is not f64:
            return _other(forms, kernel, check, given)
        if not shape:
            return _unprinted(function, *given)
        fixed: tuple[Any, ...] = ()
        scalar = large = False
        operands: list[Any] = []
        for a, kind in zip(given, kinds):
            if kind == "a":
                if type(a) is not ndarray or a.dtype is not dtype or (a.shape != shape and a.ndim):
                    return _unprinted(function, *given)
                if not a.ndim:
                    scalar = True
                elif a.size >= LARGE:
                    large = True
                operands.append(a)
            elif kind == "s":
                fixed += (a,)
            elif type(a) is float or type(a) is int:
                operands.append(a)
            else:
                return _unprinted(function, *given)
        if not forms.knows(fixed):
            return _unprinted(function, *given)
        if large and any(a.size >= LARGE and any(a.strides) for a in operands if type(a) is ndarray):
            found = forms.run_large(dtype, operands, fixed)
            if found is not NotImplemented:
                return found
        scalars = forms.scalars(operands) if scalar else ()
        run = small.get((dtype.char, fixed, scalars))
        if run is None:
            run = small[dtype.char, fixed, scalars] = forms.passes(dtype, fixed, scalars)
        if len(operands) == 1:
            return run(first)
        constants = _constants[dtype]
        return run(*[a if type(a) is ndarray else constants[a] for a in operands])

    return kernel
