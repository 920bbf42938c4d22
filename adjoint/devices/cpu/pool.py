"""A pool of native threads, among which compiled loops are split: machine code that waits for no lock of Python's.

The caller and the threads of the pool take the pieces of a loop in turn. The caller waits for pieces that are being
computed, never for a thread that has not woken up: on a busy machine it computes all of them by itself. Threads that
have nothing to do sleep. A forked child has none, and starts its own when it first needs some.

There is a pool where llvmlite is installed, which Numba brings.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from typing import Any

import numpy as np

from .. import forks
from . import threads

_MUTEX, _BUSY, _WORK, _DONE, _SIZE = 128, 256, 384, 512, 640  # bytes from its start, apart from each other in the cache
_MOST = 64  # threads
_SPINS = 5000  # turns, of a few nanoseconds, for which the caller watches others before it sleeps


class Pool:
    """The threads, and their state in memory, which machine code is given the address of."""

    def __init__(self) -> None:
        self.memory = np.zeros(_SIZE + 64, np.uint8)  # zeros are unlocked mutexes and semaphores at 0
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.memory))  # threads sleep on it until the process ends
        self.state = (self.memory.ctypes.data + 63) // 64 * 64
        self.engine, self.address, self.worker = _compiled()  # of ``run(state, part, block, total, count)``
        self._run = ctypes.CFUNCTYPE(None, *[ctypes.c_ssize_t] * 5)(self.address)
        self._count = ctypes.c_int64.from_address(self.state + 56)
        self._started = 0
        self._lock = forks.lock()

    def run(self, part: int, block: int, total: int, count: int) -> None:
        """Call machine code, ``part(block, piece, start, stop)``, for so many pieces of ``range(total)``."""
        self.grow(count)
        self._run(self.state, part, block, total, count)

    def grow(self, count: int) -> None:
        """Have threads enough for so many pieces at a time, the caller's among them, and no more than there may be."""
        allowed = threads.count - 1
        wanted = min(count - 1, allowed, _MOST)
        if self._started < wanted:
            self._start(wanted)
        self._count.value = min(self._started, allowed)

    def _start(self, wanted: int) -> None:
        library = ctypes.CDLL(None)
        with self._lock:
            while self._started < wanted:
                thread = ctypes.c_size_t()
                start = ctypes.c_void_p(self.worker)
                if library.pthread_create(ctypes.byref(thread), None, start, ctypes.c_void_p(self.state)):
                    return  # the system has no more
                library.pthread_detach(thread)
                self._started += 1

    def forget(self) -> None:
        """Be without threads, as a forked child is."""
        self.memory[:] = 0
        self._started = 0


@functools.cache
def _made() -> Pool:
    made = Pool()
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=made.forget)
    return made


def _compiled() -> tuple[Any, int, int]:
    """Return what owns the machine code, and the addresses of `run` and `worker`."""
    from llvmlite import binding  # type: ignore[import-untyped, unused-ignore]

    text = _CODE
    for name, value in (("MUTEX", _MUTEX), ("BUSY", _BUSY), ("WORK", _WORK), ("DONE", _DONE), ("SPINS", _SPINS)):
        text = text.replace(name, str(value))
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine()
    engine = binding.create_mcjit_compiler(binding.parse_assembly(text), machine)
    engine.finalize_object()
    return engine, int(engine.get_function_address("run")), int(engine.get_function_address("worker"))


def pool() -> Pool | None:
    """Return the pool; None on other systems than Linux."""
    return _made() if sys.platform.startswith("linux") and ctypes.sizeof(ctypes.c_void_p) == 8 else None


# The fields of the state: the next piece and how many there are, the range, the machine code and its argument, the
# pieces being computed, whether the caller sleeps until they are done, the threads, and how many of those have been
# woken and have not come yet. Then two mutexes, for these fields and for the one caller at a time, and two semaphores.
_CODE = """
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_trylock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @sem_wait(ptr)
declare i32 @sem_post(ptr)

; Call the code of one piece of a range.
define internal void @compute(ptr %part, ptr %block, i64 %piece, i64 %total, i64 %count) nounwind {
  %from = mul i64 %total, %piece
  %start = sdiv i64 %from, %count
  %next = add i64 %piece, 1
  %to = mul i64 %total, %next
  %stop = sdiv i64 %to, %count
  call void %part(ptr %block, i64 %piece, i64 %start, i64 %stop)
  ret void
}

; Compute pieces until none is left; wake the caller after the last.
define internal void @take(ptr %state) nounwind {
entry:
  %count.at = getelementptr i64, ptr %state, i64 1
  %total.at = getelementptr i64, ptr %state, i64 2
  %part.at = getelementptr i64, ptr %state, i64 3
  %block.at = getelementptr i64, ptr %state, i64 4
  %active.at = getelementptr i64, ptr %state, i64 5
  %sleeps.at = getelementptr i64, ptr %state, i64 6
  %mutex = getelementptr i8, ptr %state, i64 MUTEX
  %done = getelementptr i8, ptr %state, i64 DONE
  call i32 @pthread_mutex_lock(ptr %mutex)
  br label %look
look:
  %piece = load i64, ptr %state
  %count = load i64, ptr %count.at
  %any = icmp slt i64 %piece, %count
  br i1 %any, label %work, label %none
work:
  %total = load i64, ptr %total.at
  %part = load ptr, ptr %part.at
  %block = load ptr, ptr %block.at
  %next = add i64 %piece, 1
  store i64 %next, ptr %state
  %before = load i64, ptr %active.at
  %more = add i64 %before, 1
  store atomic i64 %more, ptr %active.at seq_cst, align 8
  call i32 @pthread_mutex_unlock(ptr %mutex)
  call void @compute(ptr %part, ptr %block, i64 %piece, i64 %total, i64 %count)
  call i32 @pthread_mutex_lock(ptr %mutex)
  %after = load i64, ptr %active.at
  %less = sub i64 %after, 1
  store atomic i64 %less, ptr %active.at seq_cst, align 8
  br label %look
none:
  %active = load i64, ptr %active.at
  %idle = icmp eq i64 %active, 0
  %sleeps = load i64, ptr %sleeps.at
  %asleep = icmp eq i64 %sleeps, 1
  %wake = and i1 %idle, %asleep
  br i1 %wake, label %rouse, label %leave
rouse:
  store i64 0, ptr %sleeps.at
  call i32 @sem_post(ptr %done)
  br label %leave
leave:
  call i32 @pthread_mutex_unlock(ptr %mutex)
  ret void
}

; What a thread of the pool does.
define ptr @worker(ptr %state) nounwind {
entry:
  %woken.at = getelementptr i64, ptr %state, i64 8
  %mutex = getelementptr i8, ptr %state, i64 MUTEX
  %work = getelementptr i8, ptr %state, i64 WORK
  br label %sleep
sleep:
  %failed = call i32 @sem_wait(ptr %work)
  %called = icmp eq i32 %failed, 0
  br i1 %called, label %come, label %sleep
come:
  call i32 @pthread_mutex_lock(ptr %mutex)
  %woken = load i64, ptr %woken.at
  %less = sub i64 %woken, 1
  store i64 %less, ptr %woken.at
  call i32 @pthread_mutex_unlock(ptr %mutex)
  call void @take(ptr %state)
  br label %sleep
}

; Compute all pieces, with the pool's threads unless another caller has them.
define void @run(ptr %state, ptr %part, ptr %block, i64 %total, i64 %count) nounwind {
entry:
  %count.at = getelementptr i64, ptr %state, i64 1
  %total.at = getelementptr i64, ptr %state, i64 2
  %part.at = getelementptr i64, ptr %state, i64 3
  %block.at = getelementptr i64, ptr %state, i64 4
  %active.at = getelementptr i64, ptr %state, i64 5
  %sleeps.at = getelementptr i64, ptr %state, i64 6
  %threads.at = getelementptr i64, ptr %state, i64 7
  %woken.at = getelementptr i64, ptr %state, i64 8
  %mutex = getelementptr i8, ptr %state, i64 MUTEX
  %busy = getelementptr i8, ptr %state, i64 BUSY
  %work = getelementptr i8, ptr %state, i64 WORK
  %done = getelementptr i8, ptr %state, i64 DONE
  %threads = load i64, ptr %threads.at
  %some = icmp sgt i64 %threads, 0
  %several = icmp sgt i64 %count, 1
  %may = and i1 %some, %several
  br i1 %may, label %ask, label %alone
ask:
  %refused = call i32 @pthread_mutex_trylock(ptr %busy)
  %mine = icmp eq i32 %refused, 0
  br i1 %mine, label %open, label %alone
alone:
  %any = icmp sgt i64 %count, 0
  br i1 %any, label %each, label %end
each:
  %piece = phi i64 [ 0, %alone ], [ %following, %each ]
  call void @compute(ptr %part, ptr %block, i64 %piece, i64 %total, i64 %count)
  %following = add i64 %piece, 1
  %further = icmp slt i64 %following, %count
  br i1 %further, label %each, label %end
open:
  call i32 @pthread_mutex_lock(ptr %mutex)
  store i64 %count, ptr %count.at
  store i64 %total, ptr %total.at
  store ptr %part, ptr %part.at
  store ptr %block, ptr %block.at
  store i64 0, ptr %state
  %others = sub i64 %count, 1
  %fewer = icmp slt i64 %others, %threads
  %wanted = select i1 %fewer, i64 %others, i64 %threads
  %woken = load i64, ptr %woken.at
  %missing = sub i64 %wanted, %woken
  %lacks = icmp sgt i64 %missing, 0
  br i1 %lacks, label %note, label %ready
note:
  store i64 %wanted, ptr %woken.at
  br label %ready
ready:
  call i32 @pthread_mutex_unlock(ptr %mutex)
  br i1 %lacks, label %post, label %compute
post:
  %posted = phi i64 [ 0, %ready ], [ %one.more, %post ]
  call i32 @sem_post(ptr %work)
  %one.more = add i64 %posted, 1
  %again = icmp slt i64 %one.more, %missing
  br i1 %again, label %post, label %compute
compute:
  call void @take(ptr %state)
  br label %spin
spin:
  %turn = phi i64 [ 0, %compute ], [ %next.turn, %spin ]
  %next.turn = add i64 %turn, 1
  %left = load atomic i64, ptr %active.at seq_cst, align 8
  %still = icmp ne i64 %left, 0
  %short = icmp slt i64 %turn, SPINS
  %on = and i1 %still, %short
  br i1 %on, label %spin, label %check
check:
  call i32 @pthread_mutex_lock(ptr %mutex)
  %active = load i64, ptr %active.at
  %waits = icmp sgt i64 %active, 0
  br i1 %waits, label %note.sleep, label %no.sleep
note.sleep:
  store i64 1, ptr %sleeps.at
  call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %sleep
sleep:
  %interrupted = call i32 @sem_wait(ptr %done)
  %sleeps.on = icmp ne i32 %interrupted, 0
  br i1 %sleeps.on, label %sleep, label %close
no.sleep:
  call i32 @pthread_mutex_unlock(ptr %mutex)
  br label %close
close:
  call i32 @pthread_mutex_unlock(ptr %busy)
  br label %end
end:
  ret void
}
"""
