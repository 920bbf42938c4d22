"""OpenMP's threads, those that oneDNN uses: what machine code needs to split a loop among them.

Threads that wait for work by spinning take the cores from others. So where oneDNN computes the products of matrices,
the loops between them run in the same threads, which are awake already. They do not survive a fork: in a child, the
field that says whether they are there is 0.

OpenMP's caller waits for its threads by spinning. One that was woken on the same processor could not begin then, for
milliseconds. So loops are started by a function before OpenMP's, in which the caller yields until all have come.
"""

from __future__ import annotations

import ctypes
import functools
import os
import sys
from typing import Any

from . import provider

_there = ctypes.c_int64(1)


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
    return _yielding(parallel), *others


def words() -> tuple[int, ...] | None:
    """Return the address of a field that is 0 without threads, and those of OpenMP's functions; None without OpenMP."""
    if not (provider.plainly.before if provider.plainly.inside else provider.choice.allowed):
        return None
    functions = _functions()
    return None if functions is None else (ctypes.addressof(_there), *functions)


def _without_threads() -> None:
    _there.value = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_without_threads)

# --- A function before OpenMP's ----------------------------------------------------------------------

_engines: list[Any] = []  # own the machine code


def _yielding(parallel: int) -> int:
    """Return the address of a function like OpenMP's whose caller yields its processor to threads that wait for it."""
    try:
        from llvmlite import binding  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        return parallel
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine()
    engine = binding.create_mcjit_compiler(binding.parse_assembly(_PARALLEL.replace("OPENMP", str(parallel))), machine)
    engine.finalize_object()
    _engines.append(engine)
    return int(engine.get_function_address("parallel"))


# The block of a call: the function and its argument, the calling thread, how many threads there are to be, and how many
# have come.
_PARALLEL = """
declare i64 @pthread_self()
declare i32 @sched_yield()

define void @parallel(ptr %part, ptr %given, i32 %threads, i32 %flags) nounwind {
  %block = alloca [5 x i64], align 64
  %given.at = getelementptr i64, ptr %block, i64 1
  %caller.at = getelementptr i64, ptr %block, i64 2
  %count.at = getelementptr i64, ptr %block, i64 3
  %come.at = getelementptr i64, ptr %block, i64 4
  %caller = call i64 @pthread_self()
  %count = zext i32 %threads to i64
  store ptr %part, ptr %block
  store ptr %given, ptr %given.at
  store i64 %caller, ptr %caller.at
  store i64 %count, ptr %count.at
  store i64 0, ptr %come.at
  call void inttoptr (i64 OPENMP to ptr)(ptr @member, ptr %block, i32 %threads, i32 %flags)
  ret void
}

define internal void @member(ptr %block) nounwind {
entry:
  %given.at = getelementptr i64, ptr %block, i64 1
  %caller.at = getelementptr i64, ptr %block, i64 2
  %count.at = getelementptr i64, ptr %block, i64 3
  %come.at = getelementptr i64, ptr %block, i64 4
  %part = load ptr, ptr %block
  %given = load ptr, ptr %given.at
  %caller = load i64, ptr %caller.at
  %count = load i64, ptr %count.at
  %self = call i64 @pthread_self()
  %called = icmp eq i64 %self, %caller
  atomicrmw add ptr %come.at, i64 1 seq_cst
  call void %part(ptr %given)
  br i1 %called, label %wait, label %done
wait:
  %turn = phi i64 [ 0, %entry ], [ %next, %give ]
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
