"""A pool of native threads, among which compiled loops are split: machine code that waits for no lock of Python's.

The caller and the threads of the pool take the pieces of a loop in turn. The caller waits for pieces that are being
computed, never for a thread that has not woken up: on a busy machine it computes all of them by itself. Threads that
have nothing to do sleep. A forked child has none, and starts its own when it first needs some.

Only imported where Numba is installed.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys

import numpy as np

from . import forks, threads
from .sources import Loops

_MUTEX, _BUSY, _WORK, _DONE, _SIZE = 128, 256, 384, 512, 640  # bytes from its start, apart from each other in the cache
_MOST = 64  # threads


class Pool:
    """The threads, and their state in memory, which machine code is given the address of."""

    def __init__(self) -> None:
        self.memory = np.zeros(_SIZE + 64, np.uint8)  # zeros are mutexes nobody holds and semaphores at 0
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.memory))  # threads sleep on it until the process ends
        self.state = (self.memory.ctypes.data + 63) // 64 * 64
        code = Loops(_HEAD)
        self.code = code.load(_RUN)
        self.worker = code.load(_WORKER)
        self.address: int = self.code.address  # of ``run(state, part, block, total, count)``
        self._run = ctypes.CFUNCTYPE(None, *[ctypes.c_ssize_t] * 5)(self.address)
        self._count = ctypes.c_int64.from_address(self.state + 56)
        self._lock = forks.lock()

    def run(self, part: int, block: int, total: int, count: int) -> None:
        """Call machine code, ``part(block, piece, start, stop)``, for so many pieces of ``range(total)``."""
        self.grow(count)
        self._run(self.state, part, block, total, count)

    def grow(self, count: int) -> None:
        """Have threads enough for so many pieces at a time, the caller's among them."""
        wanted = min(count, threads.count, _MOST) - 1
        if self._count.value >= wanted:
            return
        library = ctypes.CDLL(None)
        with self._lock:
            while self._count.value < wanted:
                thread = ctypes.c_size_t()
                start = ctypes.c_void_p(self.worker.address)
                if library.pthread_create(ctypes.byref(thread), None, start, ctypes.c_void_p(self.state)):
                    return  # the system has no more
                library.pthread_detach(thread)
                self._count.value += 1

    def forget(self) -> None:
        """Be without threads, as a forked child is."""
        self.memory[:] = 0


@functools.cache
def _made() -> Pool:
    made = Pool()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=made.forget)
    return made


def pool() -> Pool | None:
    """Return the pool; None where threads are not the system's own."""
    return _made() if sys.platform.startswith("linux") and ctypes.sizeof(ctypes.c_void_p) == 8 else None


# The fields of the state: the next piece and how many there are, the range, the machine code and its argument, the
# pieces being computed, whether the caller sleeps until they are done, the threads. One more, at 64: how many of those
# have been woken and have not come yet.
_HEAD = f'''"""Machine code of adjoint's thread pool; see adjoint/kernels/pool.py."""

import numpy as np
from numba import carray, njit, types

from adjoint.kernels.addresses import call, load, pointer
from adjoint.kernels.sources import cfunc

NEXT, COUNT, TOTAL, PART, BLOCK, ACTIVE, SLEEPS, THREADS, WOKEN = range(9)
MUTEX, BUSY, WORK, DONE = {_MUTEX}, {_BUSY}, {_WORK}, {_DONE}
lock = types.ExternalFunction("pthread_mutex_lock", types.int32(types.intp))
unlock = types.ExternalFunction("pthread_mutex_unlock", types.int32(types.intp))
try_lock = types.ExternalFunction("pthread_mutex_trylock", types.int32(types.intp))
wait = types.ExternalFunction("sem_wait", types.int32(types.intp))
post = types.ExternalFunction("sem_post", types.int32(types.intp))


@njit
def fields_of(state):
    return carray(pointer(state), (9,), np.int64)


@njit
def take(state):
    f = fields_of(state)
    lock(state + MUTEX)
    while f[NEXT] < f[COUNT]:
        piece, count, total, part, block = f[NEXT], f[COUNT], f[TOTAL], f[PART], f[BLOCK]
        f[NEXT] = piece + 1
        f[ACTIVE] += 1
        unlock(state + MUTEX)
        call(part, block, piece, total * piece // count, total * (piece + 1) // count)
        lock(state + MUTEX)
        f[ACTIVE] -= 1
    if f[ACTIVE] == 0 and f[SLEEPS] == 1:
        f[SLEEPS] = 0
        post(state + DONE)
    unlock(state + MUTEX)


'''
_WORKER = """
@cfunc("void(intp)")
def kernel(state):
    f = fields_of(state)
    while True:
        if wait(state + WORK) == 0:
            lock(state + MUTEX)
            f[WOKEN] -= 1
            unlock(state + MUTEX)
        take(state)
"""
_RUN = """
@cfunc("void(intp, intp, intp, intp, intp)")
def kernel(state, part, block, total, count):
    f = fields_of(state)
    if count < 2 or f[THREADS] == 0 or try_lock(state + BUSY) != 0:
        for piece in range(count):
            call(part, block, piece, total * piece // count, total * (piece + 1) // count)
        return
    lock(state + MUTEX)
    f[COUNT], f[TOTAL], f[PART], f[BLOCK], f[NEXT] = count, total, part, block, 0
    missing = max(min(count - 1, f[THREADS]) - f[WOKEN], 0)
    f[WOKEN] += missing
    unlock(state + MUTEX)
    for _ in range(missing):
        post(state + WORK)
    take(state)
    turns = 0
    while turns < 5000 and load(state + 8 * ACTIVE) != 0:
        turns += 1
    lock(state + MUTEX)
    waits = f[ACTIVE] > 0
    if waits:
        f[SLEEPS] = 1
    unlock(state + MUTEX)
    while waits:
        waits = wait(state + DONE) != 0
    unlock(state + BUSY)
"""
