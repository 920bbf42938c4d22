"""Data parallel training with 2 ranks of 1 thread each: adjoint on MPI against torch.distributed on gloo.

``python benchmarks/distributed.py`` runs both sides in turn, in jobs of their own, several times; the best step of
each side is compared. ``--allreduce`` measures what `scaling.py` needs: the time of an all-reduce by size.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

MODELS = ("MNIST MLP, batch 2 x 64, Adam", "char-GPT, batch 2 x 8, AdamW")
SIZES = [2**k for k in range(8, 25, 2)]  # bytes


def program(T: Any, model: str, wrap: Any) -> Any:
    """Return a training step of a model, wrapped for several processes or not."""
    from training import char_gpt, labels, normal, supervised

    nn = T.nn
    if model == MODELS[0]:
        net = nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))
        wrapped = wrap(net)
        return supervised(
            T, wrapped, normal(T, 0, 64, 784), labels(T, 1, 10, 64), T.optim.Adam(net.parameters(), lr=1e-3)
        )
    net = char_gpt(T)
    wrapped = wrap(net)
    optimizer = T.optim.AdamW(net.parameters(), lr=1e-3)
    ids, targets = labels(T, 0, 65, 8, 64), labels(T, 1, 65, 8, 64)

    def step() -> None:
        optimizer.zero_grad()
        T.nn.functional.cross_entropy(wrapped(ids).view(-1, 65), targets.view(-1)).backward()
        optimizer.step()

    return step


def counted(step: Any, count: int, clock: Any = time.perf_counter) -> list[float]:
    """Return the times of so many steps: every rank must take as many."""
    times = []
    for _ in range(count):
        start = clock()
        step()
        times.append(clock() - start)
    return times[5:]


def work(side: str, model: str, out: str) -> None:
    """Be one rank of a job."""
    T = __import__(side)
    T.set_num_threads(1)
    dist = __import__(f"{side}.distributed", fromlist=["x"])
    if side == "torch":
        dist.init_process_group("gloo")
    else:
        dist.init_process_group("mpi")
    DDP = T.nn.parallel.DistributedDataParallel
    found: dict[str, Any] = {}
    count = 60 if model == MODELS[0] else 25
    step = program(T, model, DDP)
    found["step"] = counted(step, count)
    if side == "adjoint":
        found["exposed"] = waited(step, count, dist)
    found["cpu"] = counted(step, count // 2, time.process_time)  # of all threads: what other programs do hardly shows
    local = program(T, model, lambda net: net)
    dist.barrier()
    found["local"] = counted(local, count)
    gradients = T.zeros(sum(p.numel() for p in size_of(T, model)))
    found["allreduce"] = counted(lambda: dist.all_reduce(gradients), 30)
    if dist.get_rank() == 0:
        Path(out).write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


def waited(step: Any, count: int, dist: Any) -> list[float]:
    """Return for so many steps how long the rank that came last waited for communication.

    Whoever comes first waits for the other rank's backward pass, too; the last one only for what is left to reduce.
    """
    from adjoint.distributed.works import Work

    plain, held = Work.wait, [0.0]

    def timed(self: Any, timeout: Any = None) -> bool:
        start = time.perf_counter()
        try:
            return plain(self, timeout)
        finally:
            held[0] += time.perf_counter() - start

    Work.wait = timed  # type: ignore[method-assign]
    mine = []
    for _ in range(count):
        held[0] = 0.0
        step()
        mine.append(held[0])
    Work.wait = plain  # type: ignore[method-assign]
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, mine)
    return [min(times) for times in zip(*every, strict=True)][5:]


def size_of(T: Any, model: str) -> list[Any]:
    """Return the parameters of a model."""
    held: list[Any] = []

    def keep(net: Any) -> Any:
        held.extend(net.parameters())
        return net

    program(T, model, keep)
    return held


def allreduce_times(side: str, out: str) -> None:
    """Be one rank of a job that reduces tensors of all sizes."""
    T = __import__(side)
    T.set_num_threads(1)
    dist = __import__(f"{side}.distributed", fromlist=["x"])
    dist.init_process_group("gloo" if side == "torch" else "mpi")
    found = {}
    for size in SIZES:
        x = T.ones(size // 4)
        found[size] = min(counted(lambda: dist.all_reduce(x), 40 if size < 2**20 else 15))
    if dist.get_rank() == 0:
        Path(out).write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


def job(side: str, kind: str, ranks: int = 2) -> dict[str, Any]:
    """Run a job of one side; return what its rank 0 measured."""
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out.json")
        command = [sys.executable, __file__, "--worker", side, kind, out]
        env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        if side == "adjoint":
            mpiexec = os.path.join(os.path.dirname(sys.executable), "mpiexec")
            subprocess.run([mpiexec, "-n", str(ranks), *command], env=env, check=True, timeout=300)
        else:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            env |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(ranks)}
            running = [subprocess.Popen(command, env={**env, "RANK": str(rank)}) for rank in range(ranks)]
            for process in running:  # gloo's threads sometimes abort at the very end, when all is measured
                process.wait(300)
        return json.loads(Path(out).read_text())


def compare(rounds: int, only: str) -> list[dict[str, Any]]:
    """Run both sides in turn; return a row for each model."""
    rows = []
    for model in (model for model in MODELS if only in model):
        best: dict[str, dict[str, float]] = {"adjoint": {}, "torch": {}}
        for _ in range(rounds):
            for side, held in best.items():
                for key, times in job(side, model).items():
                    # Of what is waited for the middle says more than the best step, in which both came at once.
                    told = [statistics.median(times)] if key == "exposed" else times
                    held[key] = min([held.get(key, 1e9), *told])
        ours, theirs = best["adjoint"], best["torch"]
        rows.append({
            "model": model, "adjoint ms": ours["step"] * 1e3, "torch ms": theirs["step"] * 1e3,
            "ratio": ours["step"] / theirs["step"], "adjoint local ms": ours["local"] * 1e3,
            "torch local ms": theirs["local"] * 1e3, "allreduce ms": ours["allreduce"] * 1e3,
            "torch allreduce ms": theirs["allreduce"] * 1e3, "adjoint cpu ms": ours["cpu"] * 1e3,
            "torch cpu ms": theirs["cpu"] * 1e3,
            "exposed ms": ours["exposed"] * 1e3, "hidden": max(0.0, 1 - ours["exposed"] / ours["allreduce"]),
        })  # fmt: skip
        print(json.dumps({k: round(v, 3) if isinstance(v, float) else v for k, v in rows[-1].items()}), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--worker", nargs=3)
    parser.add_argument("--allreduce", action="store_true")
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="models whose names contain this")
    parser.add_argument("--json")
    said = parser.parse_args()
    if said.worker:
        side, kind, out = said.worker
        (allreduce_times if kind == "allreduce" else lambda s, o: work(s, kind, o))(side, out)
        return
    if said.allreduce:
        rows: Any = {side: job(side, "allreduce", said.ranks) for side in ("adjoint", "torch")}
        for size in SIZES:
            ours, theirs = (rows[side][str(size)] for side in ("adjoint", "torch"))
            print(f"{size:>10} bytes: adjoint {ours * 1e6:8.1f} µs, torch {theirs * 1e6:8.1f} µs")
    else:
        rows = compare(said.rounds, said.only)
    if said.json:
        Path(said.json).write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
