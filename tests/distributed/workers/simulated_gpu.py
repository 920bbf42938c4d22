"""Another worker on a simulated GPU: its tensors are made there, and NCCL, which MPI stands in for, carries them."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import adjoint as torch
import adjoint.distributed as dist
from tests.gpu import simulated
from tests.gpu.simulated import driver, nccl


def main() -> None:
    simulated.install()
    nccl.install()
    driver.install()
    torch.set_default_device("cuda")
    start = dist.init_process_group
    dist.init_process_group = lambda *args, **kwargs: start("nccl", *args[1:], **kwargs)  # type: ignore[assignment]
    worker, sys.argv = sys.argv[1], sys.argv[1:]
    before = nccl.carried()
    runpy.run_path(str(Path(__file__).parent / f"{worker}.py"), run_name="__main__")
    assert nccl.carried() > before, "nothing went through NCCL"


if __name__ == "__main__":
    main()
