"""Locks that a forked child finds open, and imports that it finds finished.

A child has one thread, the one that forked. What other threads of the parent held at that moment would be held for
ever: locks made here are opened in the child, and so are those of Numba and llvmlite if they are loaded. A reentrant
lock that the forking thread itself holds stays its own.

What cannot be opened is waited for, a while, before the fork: calls of LLVM, which has locks of its own inside, and
imports that other threads have begun. A module that is half imported nevertheless the child imports anew.
"""

from __future__ import annotations

import _frozen_importlib  # where the import locks of modules are
import os
import sys
import threading
import time
import weakref
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


_COMPILER = "numba.core.compiler_lock", "global_compiler_lock._lock"
_LLVM = "llvmlite.binding.ffi", "lib._lock._lock"
_WAITS = 5.0  # seconds that a fork waits for other threads: for their calls of LLVM, and for their imports
_in_llvm: dict[int, Any] = {}  # LLVM's lock, by the thread that forks


def _other(module: str, path: str) -> Any:
    """Return a lock that a loaded module has, or None."""
    found: Any = sys.modules.get(module)
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


def _wait_for_llvm() -> None:
    """Take the lock around LLVM, whose own locks, in C++, cannot be opened in a child."""
    lock = _other(*_LLVM)
    if lock is not None and lock.acquire(timeout=_WAITS):
        _in_llvm[threading.get_ident()] = lock


def _leave_llvm() -> None:
    lock = _in_llvm.pop(threading.get_ident(), None)
    if lock is not None:
        lock.release()


def _open() -> None:
    for each in [*_made, _other(*_COMPILER), _other(*_LLVM)]:
        renew = getattr(each, "_at_fork_reinit", None)  # as the standard library does with its own
        if renew is not None and not getattr(each, "_is_owned", bool)():
            renew()


# --- Imports ----------------------------------------------------------------------------------------

_locks: dict[str, Any] = getattr(_frozen_importlib, "_module_locks", {})  # weak references to locks, by module


def _importers() -> dict[str, int]:
    """Return which threads import which modules."""
    held = {name: getattr(ref(), "owner", None) for name, ref in list(_locks.items())}
    return {name: thread for name, thread in held.items() if thread is not None}


def _wait_for_imports() -> None:
    until, me = time.monotonic() + _WAITS, threading.get_ident()
    while (importers := set(_importers().values())) and me not in importers and time.monotonic() < until:
        time.sleep(0.001)


def _forget_imports() -> None:
    me = threading.get_ident()
    for name, thread in _importers().items():
        if thread != me:
            _locks.pop(name, None)
            if getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False):
                del sys.modules[name]


# --- At a fork --------------------------------------------------------------------------------------


def _before() -> None:
    _wait_for_imports()
    _wait_for_llvm()


def _in_child() -> None:
    _leave_llvm()
    _open()
    _forget_imports()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_leave_llvm, after_in_child=_in_child)
