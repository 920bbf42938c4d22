"""Checkpoints of several ranks, and jobs that die and go on."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import adjoint as torch
from tests.distributed.jobs import ROOT, WORKERS, environment, passed, run


def test_what_two_ranks_save_three_and_one_load(tmp_path: Path) -> None:
    folder = str(tmp_path / "checkpoint")
    passed(run("checkpoints", "save", folder, ranks=2))
    passed(run("checkpoints", "load", folder, ranks=3))
    passed(run("checkpoints", "load", folder, ranks=1))


def launch(*arguments: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "adjoint", "launch", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=environment(), check=False)


def test_a_job_that_dies_goes_on_from_its_last_checkpoint(tmp_path: Path) -> None:
    found = {}
    for deaths in (0, 2):
        folder, out = str(tmp_path / f"checkpoint{deaths}"), str(tmp_path / f"out{deaths}")
        options = ["--nproc", "2", "--max-restarts", str(deaths)]
        job = launch(*options, str(WORKERS / "resumed.py"), folder, out, str(deaths))
        passed(job)
        assert job.stderr.count("adjoint launch: the job ended") == deaths
        found[deaths] = torch.load(out)
    assert found[0]["seen"] == found[2]["seen"]
    assert set(Counter(n for part in found[2]["seen"] for n in part).values()) == {2}  # every sample once an epoch
    for name, value in found[0]["model"].items():
        assert torch.equal(value, found[2]["model"][name]), name


def test_a_program_that_leaves_with_an_error_ends_the_job(tmp_path: Path) -> None:
    program = tmp_path / "leaves.py"
    program.write_text("import os, sys, time\nif os.environ['RANK'] == '1': sys.exit('no data')\ntime.sleep(600)\n")
    job = launch("--nproc", "2", str(program))
    assert job.returncode == 1 and "no data" in job.stderr
    program.write_text("import os\nif os.environ['RANK'] == '1': 1 / 0\nimport time; time.sleep(600)\n")
    job = launch("--nproc", "2", str(program))
    assert job.returncode == 1 and job.stderr.count("Traceback") == 1 and "rank 1 raised" in job.stderr
    assert "runpy" not in job.stderr and "distributed/start.py" not in job.stderr


def test_a_torch_program_is_launched_unchanged(tmp_path: Path) -> None:
    program = tmp_path / "torch_program.py"
    program.write_text(
        "import os, torch\nimport torch.distributed as dist\n"
        "from torch.nn.parallel import DistributedDataParallel as DDP\n"
        "from torch.utils.data.distributed import DistributedSampler\n"
        "dist.init_process_group(backend='gloo', init_method='env://')\n"
        "model = DDP(torch.nn.Linear(2, 1))\n"
        "model(torch.ones(1, 2)).sum().backward()\n"
        "x = torch.tensor([float(os.environ['LOCAL_RANK'])])\n"
        "dist.all_reduce(x, op=dist.ReduceOp.SUM)\n"
        "print(f'sum {x.item()} {len(DistributedSampler(range(10)))}\\n', end='')\n"
        "dist.destroy_process_group()\n"
    )
    job = launch("--nproc", "2", "--torch", str(program))
    passed(job)
    assert job.stdout.count("sum 1.0 5") == 2


def test_examples_run(tmp_path: Path) -> None:
    job = launch("--nproc", "2", str(ROOT / "examples/distributed/digits.py"), str(tmp_path / "digits"))
    passed(job)
    assert "epoch 3" in job.stdout
    job = launch("--nproc", "2", str(ROOT / "examples/distributed/tensor_parallel.py"))
    passed(job)
    assert job.stdout.count("gradients agree") == 2
