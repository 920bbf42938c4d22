"""A child that is forked while other threads hold locks finds them open, and computes."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import adjoint as torch
from adjoint.devices import forks
from adjoint.devices.cpu import blas, provider

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")


def in_child(function: Callable[[], Any], seconds: float = 60) -> None:
    """Run a function in a forked child; it must end well, in time."""
    pid = os.fork()
    if pid == 0:
        try:
            function()
        except BaseException as error:
            os.write(2, repr(error).encode())
            os._exit(1)
        os._exit(0)
    deadline = time.monotonic() + seconds
    while (status := os.waitpid(pid, os.WNOHANG))[0] == 0:
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            raise AssertionError("the child hangs")
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(status[1]) == 0


@contextmanager
def elsewhere(enter: Callable[[threading.Event, threading.Event], Any]) -> Iterator[None]:
    """Let another thread call a function that says when it is inside, and stays there until it is told."""
    inside, leave = threading.Event(), threading.Event()
    thread = threading.Thread(target=enter, args=(inside, leave))
    thread.start()
    assert inside.wait(60)
    try:
        yield
    finally:
        leave.set()
        thread.join()


def holding(*contexts: Any) -> Any:
    def hold(inside: threading.Event, leave: threading.Event) -> None:
        for context in contexts:
            context.__enter__()
        inside.set()
        leave.wait()
        for context in reversed(contexts):
            context.__exit__(None, None, None)

    return hold


def work() -> None:
    """Use a little of everything that has a lock."""
    x = torch.ones(1 << 16, requires_grad=True)
    (x * torch.rand(1 << 16)).sum().backward()
    assert x.grad is not None
    run = torch.compile(lambda y: (y * 3 + 1).sum())
    assert [float(run(torch.ones(5))) for _ in range(3)] == [20.0] * 3
    with torch.no_grad():
        x += 1
    torch.softmax(x.reshape(256, 256), 1)


def test_every_lock_is_open_in_the_child() -> None:
    run = torch.compile(lambda y: (y * 2).sum())
    for _ in range(3):
        run(torch.ones(4))
    gc.collect()
    locks = [lock for lock in forks._made if lock.acquire(blocking=False)]  # this thread's own would stay its own
    for lock in locks:
        lock.release()

    def child() -> None:
        assert float(run(torch.ones(4))) == 8.0
        work()

    with elsewhere(holding(*locks)):
        in_child(child)


def test_a_child_forked_during_a_compiled_call_calls_it() -> None:
    run = torch.compile(lambda y: (y * 2).sum())
    for _ in range(3):
        run(torch.ones(4))
    (trace,) = run.traces
    program, inner = trace.program, trace.program.run

    def enter(inside: threading.Event, leave: threading.Event) -> None:
        def slow(*arrays: Any) -> Any:
            if threading.current_thread() is not main:
                inside.set()
                leave.wait()
            return inner(*arrays)

        program.run = slow
        assert float(run(torch.ones(4))) == 8.0

    def child() -> None:
        assert float(run(torch.ones(4))) == 8.0
        work()

    main = threading.current_thread()
    with elsewhere(enter):
        in_child(child)


def test_a_child_forked_during_a_capture_is_outside_of_it() -> None:
    allowed = provider.choice.allowed

    def child() -> None:
        assert provider.plainly.inside == blas.alone.inside == 0 and provider.choice.allowed is allowed
        work()

    with elsewhere(holding(provider.plainly, blas.alone)):
        in_child(child)
    with provider.plainly:  # by the thread that forks itself
        in_child(work)
    assert provider.choice.allowed is allowed


def test_what_the_forking_thread_holds_stays_its_own() -> None:
    lock = forks.reentrant_lock()

    def child() -> None:
        lock.release()
        assert lock.acquire(blocking=False)

    with lock:
        in_child(child)


@pytest.mark.parametrize("which", range(2))
def test_the_locks_of_the_compiler_are_open_too(which: int) -> None:
    pytest.importorskip("numba", reason="which has these locks")
    import numba

    lock = forks._other(*(forks._COMPILER, forks._LLVM)[which])
    with elsewhere(holding(lock)):
        in_child(lambda: numba.njit(lambda x: x + 1)(1))


def test_a_fork_waits_for_calls_of_llvm() -> None:
    pytest.importorskip("llvmlite.binding", reason="which has the lock")
    lock, left = forks._other(*forks._LLVM), []

    def call(inside: threading.Event, leave: threading.Event) -> None:
        with lock:
            inside.set()
            time.sleep(0.3)
            left.append(True)

    def child() -> None:
        assert left

    with elsewhere(call):
        in_child(child, 20)
    assert lock.acquire(timeout=1)
    lock.release()


@pytest.mark.parametrize("patience", [5.0, 0.0], ids=["waited for", "imported anew"])
def test_a_module_that_a_thread_imports(patience: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = f"slowly_imported_{int(patience)}"
    (tmp_path / f"{name}.py").write_text("import time\ntime.sleep(0.5)\nvalue = 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(forks, "_WAITS", patience)
    importer = threading.Thread(target=importlib.import_module, args=(name,))
    importer.start()
    while name not in sys.modules:
        time.sleep(0.01)

    def use() -> None:
        assert importlib.import_module(name).value == 1

    in_child(use, 20)
    importer.join()
    del sys.modules[name]
