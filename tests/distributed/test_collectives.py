"""Collectives, messages, objects and groups, in real jobs."""

from __future__ import annotations

import subprocess
import sys

from tests.distributed.jobs import carriers, environment, passed, run

ALONE = """
import sys
sys.modules["mpi4py"] = None
import adjoint as torch
import adjoint.distributed as dist
from adjoint.nn.parallel import DistributedDataParallel

dist.init_process_group()
model = DistributedDataParallel(torch.nn.Linear(2, 2))
model(torch.ones(3, 2)).sum().backward()
found, x = [None], torch.ones(3)
dist.all_gather_object(found, {"grad": model.module.bias.grad})
works = dist.batch_isend_irecv([dist.P2POp(dist.isend, found[0]["grad"], 0), dist.P2POp(dist.irecv, x[:2], 0)])
for work in works:
    work.wait()
dist.all_reduce(x, group=dist.new_group([0]))
print(dist.get_rank(), dist.get_world_size(), x.tolist())
raise ValueError("and its errors are its own")
"""


@carriers
def test_collectives(carrier: str) -> None:
    passed(run("collectives", ranks=3, carrier=carrier))


def test_one_process_needs_no_mpi() -> None:
    job = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, env=environment(), check=False)
    assert job.stdout == "0 1 [3.0, 3.0, 1.0]\n", job.stderr
    assert job.returncode == 1 and job.stderr.count("ValueError: and its errors") == 1
    several = environment({"WORLD_SIZE": "2"})
    job = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, env=several, check=False)
    assert "env:// rendezvous: environment variable RANK expected, but not set" in job.stderr
