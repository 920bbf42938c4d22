"""Scripting that leaves programs as they are, and processes that are spawned."""

from __future__ import annotations

import pytest

import adjoint
from adjoint import multiprocessing as mp


def test_scripting_returns_what_it_is_given() -> None:
    jit = adjoint.jit
    model = adjoint.nn.Linear(2, 2)
    assert jit.script(model) is model and jit.freeze(model) is model
    assert jit.ignore(len) is len and jit.ignore(drop=True)(len) is len and jit.unused(len) is len
    assert jit.annotate(int, 3) == 3 and jit.isinstance(3, int) and not jit.is_scripting() and not jit.is_tracing()
    assert jit.wait(jit.fork(max, 1, 2)) == 2 and not isinstance(model, jit.ScriptModule)
    with jit.optimized_execution(False), jit.fuser("fuser1"):
        pass
    with pytest.raises(NotImplementedError, match="state_dict"):
        jit.save(model, "f")


def _work(number: int, how: str) -> None:
    if number == 1 and how == "raise":
        raise ValueError("number one is bad")
    if number == 1 and how == "exit":
        raise SystemExit(4)


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_processes() -> None:
    assert mp.start_processes(_work, ("well",), nprocs=2, start_method="fork") is None
    with pytest.raises(mp.ProcessRaisedException, match=r"(?s)Process 1.*number one is bad"):
        mp.start_processes(_work, ("raise",), nprocs=2, start_method="fork")
    with pytest.raises(mp.ProcessExitedException, match="exit code 4"):
        mp.start_processes(_work, ("exit",), nprocs=2, start_method="fork")
    assert mp.get_context("spawn").get_start_method() == "spawn" and mp.cpu_count() >= 1
