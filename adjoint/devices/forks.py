"""Locks that a forked child finds open.

A child has one thread, the one that forked. What other threads of the parent held at that moment would be held for
ever: locks made here are opened in the child, and so are those of Numba and llvmlite if they are loaded. A reentrant
lock that the forking thread itself holds stays its own.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Iterator
from typing import Any

_made: weakref.WeakSet[Any] = weakref.WeakSet()


def lock() -> threading.Lock:
    """Return a lock that is open in a forked child."""
    return adopt(threading.Lock())


def reentrant_lock() -> threading.RLock:
    """Return a reentrant lock that in a forked child is open, or held by the thread that forked."""
    return adopt(threading.RLock())


def adopt(made: Any) -> Any:
    """Let a lock of another module be open in a forked child; return it."""
    _made.add(made)
    return made


def _others() -> Iterator[Any]:
    """Yield the locks around Numba's compiler and LLVM."""
    for module, path in (
        ("numba.core.compiler_lock", "global_compiler_lock._lock"),
        ("llvmlite.binding.ffi", "lib._lock._lock"),
    ):
        found: Any = sys.modules.get(module)
        for name in path.split("."):
            found = getattr(found, name, None)
        yield found


def _open() -> None:
    for each in [*_made, *_others()]:
        renew = getattr(each, "_at_fork_reinit", None)  # as the standard library does with its own
        if renew is not None and not getattr(each, "_is_owned", bool)():
            renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_open)
