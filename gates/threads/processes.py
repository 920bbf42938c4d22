"""Forked, spawned and other processes, while threads run."""

from __future__ import annotations

import faulthandler
import functools
import importlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import adjoint as T

from .helpers import LIMIT, ROOT, busy, same, together


def child_works(depth: int = 1) -> None:
    """Do in a child what its parent did, and fork once more."""
    x = T.ones(300, 300, requires_grad=True)
    (x * x).sum().backward()
    same(x.grad, np.full((300, 300), 2.0), "backward in a child")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        f = T.compile(lambda x: x.sin() * 2)
        for _ in range(3):
            np.testing.assert_allclose(np.asarray(f(T.ones(5))), np.sin(np.ones(5, "f4")) * 2, rtol=1e-6)
    with tempfile.TemporaryDirectory() as folder:
        T.save(x, os.path.join(folder, "x"))
        T.load(os.path.join(folder, "x"))
    together(lambda _: (T.ones(40_000, requires_grad=True) * 2).sum().backward(), 3)
    if depth:
        wait_for(fork(functools.partial(child_works, depth - 1)))


def fork(work: Callable[[], None]) -> int:
    """Fork a child that does some work and exits; return its number."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        # Not by `dump_traceback_later`, whose thread is not there in a child.
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        faulthandler.register(signal.SIGALRM, chain=True)
        signal.alarm(int(LIMIT / 2))
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def wait_for(pid: int) -> None:
    """Wait for a child; raise unless it ended well."""
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"hung or failed: a forked child ended with status {status}"


def _import_something() -> None:
    importlib.reload(importlib.import_module("adjoint.quasirandom"))


def _save_something() -> None:
    with tempfile.TemporaryDirectory() as folder:
        T.save(T.ones(5000), os.path.join(folder, "x"))


def forks(rng: random.Random, calls: int) -> None:
    """Fork while threads run backward, compiled functions, kernels' compilers, save or import."""
    x = T.ones(3, requires_grad=True)
    f = T.compile(lambda x: x.tanh() + 1)
    kinds: list[Callable[[], Any]] = [
        lambda: (T.ones(200, 200, requires_grad=True).tanh() * 2).sum().backward(),
        lambda: (x * 2).sum().backward(),
        lambda: f(T.ones(50_000)),
        lambda: T.compile(lambda x: x.exp() * 2 + 1)(T.ones(5)),
        _save_something,
        _import_something,
        lambda: T.rand(70_000).softmax(0),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in rng.sample(kinds, 3):
            with busy(kind):
                for _ in range(2):
                    wait_for(fork(child_works))


def _answer(asked: Any, answers: Any) -> None:
    while (x := asked.get()) is not None:
        y = x.detach().clone().requires_grad_()
        (y * y).sum().backward()
        answers.put(y.grad)


def _squares(x: Any) -> Any:
    return x * x


def started(rng: random.Random, calls: int) -> None:
    """Processes started by fork, spawn and forkserver return results through queues, and a pool maps tensors."""
    method = rng.choice(["fork", "spawn", "forkserver"])
    context = T.multiprocessing.get_context(method)
    with busy(lambda: (T.ones(9, requires_grad=True) * 2).sum().backward(), 2):
        asked, answers = context.Queue(), context.Queue()
        process = context.Process(target=_answer, args=(asked, answers), daemon=True)
        process.start()
        for i in range(5):
            asked.put(T.full((30,), float(i)))
            same(answers.get(timeout=LIMIT), np.full(30, 2.0 * i), f"a queue, {method}")
        asked.put(None)
        process.join(LIMIT)
        assert process.exitcode == 0, f"hung: a process started by {method}"
        with context.Pool(2) as pool:
            for i, y in enumerate(pool.map(_squares, [T.full((3,), float(i)) for i in range(6)])):
                same(y, np.full(3, float(i * i)), f"a pool, {method}")


def subprocesses(rng: random.Random, calls: int) -> None:
    """Another interpreter, started while threads run."""
    text = (
        "import adjoint as T; x = T.ones(3, requires_grad=True); (x * x).sum().backward(); print(x.grad.sum().item())"
    )
    with busy(lambda: T.ones(50_000).softmax(0)):
        ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, timeout=LIMIT, cwd=ROOT)
    assert ended.stdout.strip() == "6.0", ended.stderr
