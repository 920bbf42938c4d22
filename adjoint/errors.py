"""Exception types, and the functions that make their messages."""

from __future__ import annotations

import os
import types
from collections.abc import Iterable
from typing import Any

from .notebook import cell_of

_package = os.path.dirname(__file__)
# The source files of adjoint itself, and the names of text that it has printed: a frame of any other is the program's.
own_files = {
    os.path.join(folder, name) for folder, _, names in os.walk(_package) for name in names if name.endswith(".py")
}


class InPlaceError(RuntimeError):
    """A value that a backward rule saved was overwritten before the rule ran."""


def meant(name: str, names: Iterable[str]) -> str:
    """Return what an error about an unknown name adds: the known name that is closest, if one is close.

    CPython adds this itself to messages of at most 750 names.
    """
    import difflib

    if name.startswith("_"):  # programs test for private names, and do not misspell them
        return ""
    found = difflib.get_close_matches(name, [n for n in names if not n.startswith("_")], n=1, cutoff=0.7)
    return f"; did you mean '{found[0]}'?" if found else ""


class FreedGraphError(RuntimeError):
    """A backward pass reached nodes whose saved values were freed by an earlier one."""


class NoGPUError(RuntimeError, AssertionError):
    """There is no GPU to use; torch raises AssertionError, or RuntimeError, depending on its build."""


class OutOfBoundsError(IndexError, RuntimeError):
    """An index on a GPU was out of bounds; torch raises IndexError or RuntimeError, depending on op and device."""


class LinAlgError(RuntimeError):
    """A matrix is singular, not positive-definite, or an algorithm did not converge."""


def line_of(code: types.CodeType, lasti: int) -> int:
    """Return the source line of the instruction at `lasti`."""
    for start, end, line in code.co_lines():
        if start <= lasti < end and line is not None:
            return line
    return code.co_firstlineno


def place(code: types.CodeType | None, lasti: int) -> str | None:
    """Return ``file:line`` of an instruction, or None where none was noted."""
    if code is None:
        return None
    file = code.co_filename
    return f"{cell_of(file) or file}:{line_of(code, lasti)}"


def describe(value: Any) -> str:
    """Return a value's dtype and shape, as ``float32[64, 10]``; other values by their type."""
    dtype = getattr(value, "dtype", None)
    shape = getattr(value, "shape", None)
    if dtype is None or shape is None:
        return f"{type(value).__name__} {value!r:.40}"
    return f"{getattr(dtype, 'name', dtype)}[{', '.join(map(str, shape))}]"
