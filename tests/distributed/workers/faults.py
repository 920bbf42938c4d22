"""One rank raises, leaves, waits for somebody, or is killed."""

from __future__ import annotations

import os
import signal
import sys
import time
from datetime import timedelta

import adjoint as torch
import adjoint.distributed as dist


def train(steps: int) -> None:
    model = torch.nn.Linear(20, 20)
    for _ in range(steps):
        model(torch.randn(4, 20)).sum().backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)


def main() -> None:
    kind = sys.argv[1]
    # Where somebody is missed, soon; elsewhere it must not be the clock that ends the job.
    dist.init_process_group(timeout=timedelta(seconds=1.5 if kind in ("compute", "stop") else 600))
    rank, size = dist.get_rank(), dist.get_world_size()
    if kind == "raise" and rank == 1:
        raise ValueError("what rank 1 cannot do")
    if kind == "kill" and rank == int(sys.argv[2]) % size:
        signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
        print(os.getpid(), flush=True)  # without a time, somebody else does it
        signal.setitimer(signal.ITIMER_REAL, float(sys.argv[3]))
    if kind == "compute" and rank == 1:
        time.sleep(600)  # until the others have given up, and the job ends
    if kind == "stop" and rank == 1:
        os.kill(os.getpid(), signal.SIGSTOP)
    train(10**9)


if __name__ == "__main__":
    main()
