"""Processes that share tensors, and `spawn` with what it raises: the same program under adjoint and under torch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.oracle import needs_torch

ROOT = Path(__file__).parents[1]

PROGRAM = """
import os, signal, sys, threading
import torch, torch.nn as nn, torch.nn.functional as F
import torch.multiprocessing as mp

def add(t, amount):
    t.add_(amount)

def add_at(i, t):
    t[i] += i + 1

def put(queue, seen):
    queue.put(torch.arange(4.0))
    queue.put([torch.ones(2), {"a": torch.zeros(1)}])
    seen.wait()

def triple(queue, back, seen):
    x = queue.get()
    x.mul_(3)
    back.put((x.sum().item(), x.is_shared()))
    seen.wait()

def train(model, seed):
    torch.manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for _ in range(20):
        x = torch.randn(8, 3)
        optimizer.zero_grad()
        F.mse_loss(model(x), x.sum(1, keepdim=True)).backward()
        optimizer.step()

def square(x):
    return x * x

def fail(i, how):
    if how == "fine":
        return
    if i == 1:
        if how == "raise":
            raise ValueError("bad luck")
        if how == "exit":
            sys.exit(7)
        os.kill(os.getpid(), signal.SIGKILL)
    threading.Event().wait()

def shared(method):
    context = mp.get_context(method)
    def run(target, *args):
        process = context.Process(target=target, args=args)
        process.start()
        process.join()
        return process.exitcode
    t = torch.zeros(3)
    print(method, "plain", run(add, t, 1), t.tolist(), t.is_shared())
    t = torch.zeros(3).share_memory_()
    print(method, "shared", run(add, t, 1), t.tolist(), t.is_shared())
    base = torch.zeros(2, 3).share_memory_()
    print(method, "view", run(add, base[1], 2), base.tolist())
    queue, seen = context.Queue(), context.Event()
    process = context.Process(target=put, args=(queue, seen))
    process.start()
    a, b = queue.get(), queue.get()
    print(method, a, b, a.is_shared())
    seen.set()
    process.join()
    queue, back, seen = context.Queue(), context.SimpleQueue(), context.Event()
    process = context.Process(target=triple, args=(queue, back, seen))
    process.start()
    x = torch.ones(4)
    queue.put(x)
    print(method, *back.get(), x.tolist(), x.is_shared())
    seen.set()
    process.join()
    with context.Pool(2) as pool:
        print(method, pool.map(square, [torch.tensor(i) for i in range(3)]))

def hogwild():
    torch.manual_seed(0)
    net = nn.Linear(3, 1).share_memory()
    before = net.weight.detach().clone()
    processes = [mp.get_context("fork").Process(target=train, args=(net, seed)) for seed in range(2)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    print("hogwild", [p.exitcode for p in processes], net.weight.is_shared(), torch.equal(before, net.weight))

def spawned():
    for how in ("raise", "exit", "kill", "fine"):
        try:
            print(how, mp.start_processes(fail, args=(how,), nprocs=2, start_method="fork"))
        except (mp.ProcessRaisedException, mp.ProcessExitedException) as error:
            lines = str(error).strip().splitlines()
            print(type(error).__name__, lines[0], lines[-1], error.error_index, error.error_pid > 0,
                  getattr(error, "exit_code", None), getattr(error, "signal_name", None))
    t = torch.zeros(2)
    context = mp.spawn(add_at, args=(t,), nprocs=2, join=False)
    print(type(context).__name__, len(context.pids()), len(context.processes))
    while not context.join(timeout=60):
        pass
    print(context.join(), t.tolist())

def messages():
    queue = mp.get_context("spawn").SimpleQueue()
    w = torch.ones(2, requires_grad=True)
    try:
        queue.put(w * 2)
    except RuntimeError as error:
        print(str(error)[:60])
    base = torch.zeros(4)
    view = base[1:]
    for x in (w, nn.Parameter(torch.ones(2)), torch.ones(2, 3).t()[1:], base, torch.ones(0), torch.tensor(3),
              torch.ones(2, dtype=torch.bfloat16)):
        queue.put(x)
        y = queue.get()
        print(type(y).__name__, y, y.requires_grad, y.is_leaf, y.stride(), y.storage_offset())
    view.add_(1)
    print(base, view.storage_offset())
    print(mp.get_sharing_strategy(), sorted(mp.get_all_sharing_strategies()))
    try:
        mp.set_sharing_strategy("smoke signals")
    except AssertionError:
        print("refused")

if __name__ == "__main__":
    shared("fork")
    shared("spawn")
    hogwild()
    spawned()
    messages()
"""


def run(folder: Path, *command: str) -> str:
    program = folder / "program.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    whole = [sys.executable, *command, str(program)]
    done = subprocess.run(whole, capture_output=True, text=True, timeout=600, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> str:
    return run(tmp_path_factory.mktemp("ours"), "-m", "adjoint", "run")


LINES = [
    "fork plain 0 [0.0, 0.0, 0.0] False",
    "spawn plain 0 [1.0, 1.0, 1.0] True",
    "spawn view 0 [[0.0, 0.0, 0.0], [2.0, 2.0, 2.0]]",
    "spawn 12.0 True [3.0, 3.0, 3.0, 3.0] True",
    "hogwild [0, 0] True False",
    "ProcessRaisedException -- Process 1 terminated with the following error: ValueError: bad luck 1 True None None",
    "True [1.0, 2.0]",
    "refused",
]


def test_processes_share_tensors(ours: str) -> None:
    assert [line for line in LINES if line not in ours.splitlines()] == []


@needs_torch
def test_as_in_torch(ours: str, tmp_path: Path) -> None:
    assert ours == run(tmp_path)
