"""Checkpoints of several ranks, and jobs that die and go on."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import adjoint as torch
from adjoint.distributed import checkpoint
from adjoint.serialization import FileFormatError
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


# --- Folders from strangers, and folders that hold more ------------------------------------------------------------


def _saved(folder: Path) -> dict[str, Any]:
    checkpoint.save({"a": torch.ones(4), "w": torch.arange(4.0), "n": 5}, checkpoint_id=folder, no_dist=True)
    return json.loads((folder / "manifest.json").read_text())


def test_files_of_others_in_the_folder_stay(tmp_path: Path) -> None:
    others = ["model.safetensors", "model-00001-of-00002.safetensors", "notes.txt"]
    for name in others:
        (tmp_path / name).write_text("mine")
    _saved(tmp_path)
    _saved(tmp_path)
    assert all((tmp_path / name).read_text() == "mine" for name in others)
    assert len(list(tmp_path.iterdir())) == len(others) + 3  # tensors, values, manifest


def _pieces(*spans: tuple[int, int]) -> Callable[[Any, str], None]:
    def change(said: Any, file: str) -> None:
        said["tensors"]["w"]["pieces"] = [{"file": file, "start": a, "size": n} for a, n in spans]

    return change


MANIFESTS: dict[str, Callable[[Any, str], Any]] = {
    "two pieces of one place": _pieces((0, 2), (0, 2)),
    "a hole": _pieces((0, 1), (3, 1)),
    "a piece larger than its tensor": _pieces((0, 400)),
    "a piece smaller than its tensor": _pieces((0, 1), (1, 1), (2, 1), (3, 1)),
    "no pieces": _pieces(),
    "a negative start": _pieces((-4, 8)),
    "a start that is no number": lambda said, file: said["tensors"]["w"]["pieces"][0].update(start="0"),
    "pieces that are none": lambda said, file: said["tensors"].update(w={"shape": [4], "pieces": 5}),
    "a file elsewhere": lambda said, file: said["tensors"]["w"]["pieces"][0].update(file="../" + file),
    "a file that is a number": lambda said, file: said["tensors"]["w"]["pieces"][0].update(file=5),
    "a file of values elsewhere": lambda said, file: said["values"].update(n="/etc/passwd"),
    "a file without the value": lambda said, file: said["values"].update(n=file),
    "no tensors": lambda said, file: said.update(tensors=[]),
}


@pytest.mark.parametrize("name", MANIFESTS)
def test_a_manifest_that_lies_is_refused(name: str, tmp_path: Path) -> None:
    said = _saved(tmp_path)
    MANIFESTS[name](said, said["tensors"]["w"]["pieces"][0]["file"])
    (tmp_path / "manifest.json").write_text(json.dumps(said))
    first, second = torch.zeros(4), torch.zeros(4)
    with pytest.raises(FileFormatError):
        checkpoint.load({"a": first, "w": second, "n": 0}, checkpoint_id=tmp_path, no_dist=True)
    assert not first.any() and not second.any()  # nothing is written before all was found
