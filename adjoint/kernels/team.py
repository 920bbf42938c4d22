"""OpenMP's threads, those that oneDNN uses: what machine code asks for to share a loop among them.

Threads that wait for work by spinning take the cores from others. So where oneDNN computes the products of matrices,
the loops between them run in the same threads, which are awake already. They do not survive a fork: in a child, the
word that says whether they are there is 0.

A thread that sleeps may be woken on the processor of the one that calls it. That one computes, and then waits by
spinning, so that both stay where they are for milliseconds, while another processor idles. Loops are therefore shared
by a function before OpenMP's, in which such a thread moves to another processor, and the caller gives way until all
have come.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from time import perf_counter
from typing import Any

from . import provider

_there = ctypes.c_int64(1)
_settled = 0.0  # when the threads were last known to be awake
_AWAKE = 1e-4  # seconds that they stay so, about


@functools.cache
def _functions() -> tuple[int, ...] | None:
    if not sys.platform.startswith("linux") or not provider.onednn_is_there():
        return None
    try:
        library = ctypes.CDLL("libgomp.so.1")
        found = [getattr(library, name) for name in ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")]
    except (OSError, AttributeError):
        return None
    parallel, *others = (ctypes.cast(f, ctypes.c_void_p).value or 0 for f in found)
    return _settling(parallel), *others


def words() -> tuple[int, ...] | None:
    """Return the address of a word that is 0 where there are no threads, and of OpenMP's functions; None without it."""
    if not (provider.plainly.before if provider.plainly.inside else provider.choice.allowed):
        return None
    functions = _functions()
    return None if functions is None else (ctypes.addressof(_there), *functions)


def settle(count: int) -> None:
    """Wake the threads, on processors of their own, for one of oneDNN's loops; they have gone to sleep by now."""
    global _settled
    now = perf_counter()
    if now - _settled > _AWAKE and count > 1 and _there.value and _functions() is not None and _empty:
        _empty[0](count, 0)
        now = perf_counter()
    _settled = now


def _without_threads() -> None:
    _there.value = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_without_threads)

# --- A function before OpenMP's ----------------------------------------------------------------------

_kept: list[Any] = []
_empty: list[Any] = []  # where there is one: the function that shares nothing among so many threads


def _settling(parallel: int) -> int:
    """Return the address of a function like OpenMP's whose threads settle on processors of their own."""
    try:
        from llvmlite import binding  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        return parallel
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine()
    engine = binding.create_mcjit_compiler(binding.parse_assembly(_PARALLEL.replace("OPENMP", str(parallel))), machine)
    engine.finalize_object()
    settling, nothing = (int(engine.get_function_address(name)) for name in ("parallel", "nothing"))
    call = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 2, *[ctypes.c_uint] * 2)(settling)
    _kept.append(engine)
    _empty.append(functools.partial(call, nothing, None))
    return settling


# The block of a call: the function and what it is given, the calling thread and its processor, how many threads there
# are to be, and how many have come. A thread that leaves a processor may return to it afterwards; where it may run on
# no other, the system refuses.
_PARALLEL = """
declare i64 @pthread_self()
declare i32 @sched_getcpu()
declare i32 @sched_yield()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)

define void @parallel(ptr %part, ptr %given, i32 %threads, i32 %flags) nounwind {
  %block = alloca [6 x i64], align 64
  %given.at = getelementptr i64, ptr %block, i64 1
  %caller.at = getelementptr i64, ptr %block, i64 2
  %processor.at = getelementptr i64, ptr %block, i64 3
  %count.at = getelementptr i64, ptr %block, i64 4
  %come.at = getelementptr i64, ptr %block, i64 5
  %caller = call i64 @pthread_self()
  %processor = call i32 @sched_getcpu()
  %number = sext i32 %processor to i64
  %count = zext i32 %threads to i64
  store ptr %part, ptr %block
  store ptr %given, ptr %given.at
  store i64 %caller, ptr %caller.at
  store i64 %number, ptr %processor.at
  store i64 %count, ptr %count.at
  store i64 0, ptr %come.at
  call void inttoptr (i64 OPENMP to ptr)(ptr @member, ptr %block, i32 %threads, i32 %flags)
  ret void
}

define void @nothing(ptr %given) nounwind {
  ret void
}

define internal void @member(ptr %block) nounwind {
entry:
  %mask = alloca [16 x i64], align 8
  %given.at = getelementptr i64, ptr %block, i64 1
  %caller.at = getelementptr i64, ptr %block, i64 2
  %processor.at = getelementptr i64, ptr %block, i64 3
  %count.at = getelementptr i64, ptr %block, i64 4
  %come.at = getelementptr i64, ptr %block, i64 5
  %part = load ptr, ptr %block
  %given = load ptr, ptr %given.at
  %caller = load i64, ptr %caller.at
  %taken = load i64, ptr %processor.at
  %count = load i64, ptr %count.at
  %self = call i64 @pthread_self()
  %called = icmp eq i64 %self, %caller
  br i1 %called, label %come, label %woken
woken:
  %here = call i32 @sched_getcpu()
  %mine = sext i32 %here to i64
  %same = icmp eq i64 %mine, %taken
  %known = icmp ult i64 %mine, 1024
  %move = and i1 %same, %known
  br i1 %move, label %ask, label %come
ask:
  %refused = call i32 @sched_getaffinity(i32 0, i64 128, ptr %mask)
  %told = icmp eq i32 %refused, 0
  br i1 %told, label %leave, label %come
leave:
  %row = lshr i64 %mine, 6
  %place = and i64 %mine, 63
  %bit = shl i64 1, %place
  %others = xor i64 %bit, -1
  %word.at = getelementptr i64, ptr %mask, i64 %row
  %word = load i64, ptr %word.at
  %without = and i64 %word, %others
  store i64 %without, ptr %word.at
  call i32 @sched_setaffinity(i32 0, i64 128, ptr %mask)
  store i64 %word, ptr %word.at
  call i32 @sched_setaffinity(i32 0, i64 128, ptr %mask)
  br label %come
come:
  atomicrmw add ptr %come.at, i64 1 seq_cst
  call void %part(ptr %given)
  br i1 %called, label %wait, label %done
wait:
  %turn = phi i64 [ 0, %come ], [ %next, %give ]
  %number = load atomic i64, ptr %come.at seq_cst, align 8
  %all = icmp uge i64 %number, %count
  %long = icmp ugt i64 %turn, 50
  %end = or i1 %all, %long
  br i1 %end, label %done, label %give
give:
  call i32 @sched_yield()
  %next = add i64 %turn, 1
  br label %wait
done:
  ret void
}
"""
