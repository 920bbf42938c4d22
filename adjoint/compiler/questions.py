"""Queries of the compiler and hints to it, by torch's names."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ..core.observation import is_captured
from .compiled import Compiled
from .kernels import available

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "reset",
]

F = TypeVar("F", bound=Callable[..., Any])


def is_compiling() -> bool:
    """Return whether the running call is being captured by `adjoint.compile`.

    Returns
    -------
    bool
        True while a function is captured, else False.

    Examples
    --------
    >>> seen = []
    >>> @adjoint.compile
    ... def double(x):
    ...     seen.append(adjoint.compiler.is_compiling())
    ...     return 2 * x
    >>> double(adjoint.tensor(1.0)), seen
    (tensor(2.), [True])
    >>> adjoint.compiler.is_compiling()
    False
    """
    return is_captured()


def is_dynamo_compiling() -> bool:
    """Return `is_compiling`; there is only one compiler here."""
    return is_compiling()


def is_exporting() -> bool:
    """Return False: nothing is exported."""
    return False


def disable(fn: Any = None, recursive: bool = True, *, reason: str | None = None) -> Any:
    """Return `fn` as it is, or as it was before `adjoint.compile`; also a decorator."""
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    return fn.function if isinstance(fn, Compiled) else fn


def allow_in_graph(fn: F) -> F:
    """Return `fn`: whatever it computes is written down as it runs."""
    return fn


def assume_constant_result(fn: F) -> F:
    """Return `fn`."""
    return fn


def cudagraph_mark_step_begin() -> None:
    """Do nothing: results of compiled programs are never overwritten by the next run."""


def list_backends(exclude_tags: Iterable[str] = ()) -> list[str]:
    """Return what `adjoint.compile` takes as `backend`."""
    return ["numba", "numpy"] if available() else ["numpy"]


def reset() -> None:
    """Forget every compiled program; functions are captured anew when next called."""
    for compiled in list(_made):
        compiled.traces.clear()
        compiled.reasons.clear()
        compiled.refused = ""


_made: weakref.WeakSet[Compiled] = Compiled.made
