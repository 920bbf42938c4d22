"""Programs that start their own processes, as PyTorch's tutorials do, under ``adjoint run``: the same as in torch."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.oracle import needs_torch

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
ADJOINT = [sys.executable, "-m", "adjoint"]


def ran(*command: str, cwd: Path | None = None, code: int = 0, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a program to its end."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **env}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment, cwd=cwd, check=False)
    assert done.returncode == code, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


def free_ports(count: int) -> list[str]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [str(s.getsockname()[1]) for s in sockets]


def tutorials(folder: Path, *command: str) -> list[dict[str, Any]]:
    folder.mkdir()
    done = ran(*command, str(PROGRAMS / "tutorials.py"), str(folder), *free_ports(4))
    assert done.stdout == "ProcessRaisedException True\n", done.stdout
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(3)]


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return tutorials(tmp_path_factory.mktemp("ours") / "out", *ADJOINT, "run")


def test_tutorials(ours: list[dict[str, Any]]) -> None:
    for rank, told in enumerate(ours):
        assert told["env: facts"] == [rank, 3, "gloo", True] and told["env: SUM"] == [3.0, 6.0, 9.0, 12.0]
        assert all(told[f"{how}: sum"] == [3.0] for how in ("env", "tcp", "query", "file", "store"))
        assert told["env: large"] == [True, 6.0 * 2**16] and told["env: loaded"] is True
        assert told["env: ddp"][1] == ours[0]["env: ddp"][1]


def same(a: Any, b: Any) -> bool:
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return a == pytest.approx(b, rel=1e-5, abs=1e-6) if isinstance(a, float) else bool(a == b)


@needs_torch
def test_tutorials_give_torchs_results(ours: list[dict[str, Any]], tmp_path: Path) -> None:
    for mine, theirs in zip(ours, tutorials(tmp_path / "out", sys.executable), strict=True):
        assert mine.keys() == theirs.keys()
        assert [name for name in mine if not same(mine[name], theirs[name])] == []


WORLDS = """
import sys, torch, torch.distributed as dist, torch.multiprocessing as mp

def worker(rank, port):
    for turn in range(20):
        dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=3)
        x = torch.ones(2) * (rank + turn)
        dist.all_reduce(x)
        assert x.tolist() == [3.0 * turn + 3] * 2
        dist.destroy_process_group()

if __name__ == "__main__":
    mp.start_processes(worker, args=(sys.argv[1],), nprocs=3, start_method="fork")
"""


def test_one_world_after_the_other_at_one_address(tmp_path: Path) -> None:
    (tmp_path / "worlds.py").write_text(WORLDS)
    ran(*ADJOINT, "run", str(tmp_path / "worlds.py"), *free_ports(1))


# --- torchrun ---------------------------------------------------------------------------------------

SCRIPT = """
import os, sys, torch, torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record

@record
def main():
    dist.init_process_group("gloo")
    x = torch.ones(2) * (dist.get_rank() + 1)
    dist.all_reduce(x)
    names = ("LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "TORCHELASTIC_RESTART_COUNT")
    told = [dist.get_rank(), x.tolist(), *[os.environ[n] for n in names], sys.argv[1:], "adjoint" in torch.__version__]
    sys.stdout.write(f"{told}\\n")  # in one piece
    sys.stdout.flush()
    dist.barrier()
    if "fail" in sys.argv and dist.get_rank() == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        raise ValueError("what rank 1 cannot do")
    dist.barrier()
    dist.destroy_process_group()

main()
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "starts.py").write_text(
        "import subprocess, sys\n"
        "sys.exit(subprocess.call([sys.executable, '-m', 'torch.distributed.run', *sys.argv[1:]]))\n"
    )
    return "train.py"


@pytest.mark.parametrize("start", [
    ["torchrun", "--nproc_per_node", "2"],
    ["run", "torchrun", "--standalone", "--nnodes=1", "--nproc-per-node=2"],
    ["run", "-m", "torch.distributed.run", "--nproc_per_node=2", "--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0"],
    ["run", "starts.py", "--nproc_per_node", "2"],
])  # fmt: skip
def test_torchrun(start: list[str], script: str, tmp_path: Path) -> None:
    done = ran(*ADJOINT, *start, script, "--lr", "1", cwd=tmp_path)
    assert sorted(done.stdout.splitlines()) == [
        f"[{rank}, [3.0, 3.0], '{rank}', '2', '2', '0', '0', ['--lr', '1'], True]" for rank in range(2)
    ]


def test_torchrun_says_what_failed_and_starts_again(script: str, tmp_path: Path) -> None:
    options = ["torchrun", "--nproc_per_node", "2"]
    done = ran(*ADJOINT, *options, script, "fail", cwd=tmp_path, code=1)
    assert f"{script} FAILED" in done.stderr and "[rank1]: ValueError: what rank 1 cannot do" in done.stderr
    done = ran(*ADJOINT, *options, "--max-restarts", "1", script, "fail", cwd=tmp_path)
    assert sorted(line[1] for line in done.stdout.splitlines()) == ["0", "0", "1", "1"]
    logs = ["--log-dir", "logs", "--redirects", "3", "--local-ranks-filter", "0"]
    assert ran(*ADJOINT, *options, *logs, script, cwd=tmp_path).stdout == ""
    assert len(list((tmp_path / "logs").rglob("stdout.log"))) == 2
    assert "[default1]:[1, " in ran(*ADJOINT, *options, "--tee", "3", script, cwd=tmp_path).stdout


# --- How processes find each other ------------------------------------------------------------------

REFUSED = {
    "no port": ({"init_method": "tcp://127.0.0.1", "rank": 0, "world_size": 2}, ValueError, "port number missing"),
    "no rank": ({"init_method": "tcp://127.0.0.1:1", "world_size": 2}, ValueError, "rank parameter missing"),
    "no size": ({"init_method": "file:///tmp/x", "rank": 0}, ValueError, "world size parameter missing"),
    "no path": ({"init_method": "file://", "rank": 0, "world_size": 2}, ValueError, "path missing"),
    "scheme": ({"init_method": "ftp://x", "rank": 0, "world_size": 2}, RuntimeError, "No rendezvous handler for ftp://"),
    "env": ({"rank": 0, "world_size": 2}, ValueError, "environment variable MASTER_ADDR expected, but not set"),
    "twice": ({"init_method": "tcp://127.0.0.1:1?rank=0&world_size=2", "rank": 1}, AssertionError, "already"),
    "text": ({"init_method": "tcp://127.0.0.1:1", "rank": "0", "world_size": 2}, RuntimeError, "must be an integer"),
}  # fmt: skip


@pytest.mark.parametrize("package", ["adjoint", "torch"])
@pytest.mark.parametrize("case", REFUSED)
def test_refusals(package: str, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dist = pytest.importorskip(f"{package}.distributed", reason="the second opinion")
    for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    options, kind, match = REFUSED[case]
    with pytest.raises(kind, match=match):
        dist.init_process_group(**{"backend": "gloo", **options})
    assert not dist.is_initialized()
