"""A collective on a simulated GPU that only rank 0 calls: the program goes on, and the job ends with the reason."""

from __future__ import annotations

import time
import types
from datetime import timedelta

import adjoint as torch
import adjoint.distributed as dist
from tests.gpu import simulated
from tests.gpu.simulated import nccl


def main() -> None:
    simulated.install()
    nccl.install()
    dist.init_process_group("nccl", timeout=timedelta(seconds=1))
    x = torch.ones(2, device="cuda")
    for _ in range(3):  # so often a new kind of call is compared among the ranks before it is made
        dist.all_reduce(x)
    if dist.get_rank() == 0:
        engine = dist.group.WORLD.engine_for(x.array)
        engine.talk.allReduce = lambda *given: None
        engine._recorded = lambda: types.SimpleNamespace(done=False)
        dist.all_reduce(x)
        print("the program went on", flush=True)
    time.sleep(600)


if __name__ == "__main__":
    main()
