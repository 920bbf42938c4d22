"""What happens when a rank raises, dies, comes late, or calls something else than the others."""

from __future__ import annotations

import glob
import random
import signal
import subprocess
import sys

import pytest

from tests.distributed.jobs import MPIEXEC, WORKERS, carriers, environment, passed, run


@carriers
def test_thirty_desyncs_are_told_with_both_call_sites(carrier: str) -> None:
    env = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL", "PYTHONWARNINGS": "error::UserWarning"}
    job = run("desyncs", env=env, carrier=carrier)
    passed(job)
    assert "30 desyncs, 0 silent" in job.stdout


@carriers
def test_every_primitive_gives_up_in_time(carrier: str) -> None:
    job = run("timeouts", carrier=carrier)
    passed(job)
    assert f"{21 if carrier == 'mpi' else 20} primitives" in job.stdout


def test_a_rank_that_raises_ends_the_job_with_one_traceback() -> None:
    job = run("faults", "raise", ranks=3)
    assert job.returncode != 0
    assert job.stderr.count("Traceback") == 1 and job.stderr.count("ValueError: what rank 1 cannot do") == 1
    assert "rank 1 raised" in job.stderr


def test_by_tcp_the_others_hear_that_a_rank_is_gone() -> None:
    for kind in (["raise"], ["kill", "1", "0.001"]):
        job = run("faults", *kind, ranks=3, carrier="tcp")
        assert job.returncode == 1 and "FAILED" in job.stderr
        assert "Connection closed by peer: rank 1 is gone" in job.stderr, job.stderr


@carriers
@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("compute", "rank 1 has not called it: it is at"),
        ("stop", "rank 1 does not respond"),
    ],
)
def test_who_waits_in_vain_says_for_whom(kind: str, words: str, carrier: str) -> None:
    job = run("faults", kind, ranks=2, carrier=carrier)
    assert job.returncode != 0
    assert words in job.stderr and "timed out after 1.5 s" in job.stderr, job.stderr


def test_a_killed_rank_ends_the_job() -> None:
    """`benchmarks/kills.py` does this a hundred times."""
    random.seed(0)
    for _ in range(2):
        job = run("faults", "kill", str(random.randrange(3)), f"{random.uniform(0.001, 0.3):.3f}", ranks=3)
        assert job.returncode != 0


@pytest.mark.skipif(sys.platform != "linux", reason="where shared memory is files")
def test_a_killed_job_leaves_no_shared_memory() -> None:
    command = [str(MPIEXEC), "-n", "2", sys.executable, str(WORKERS / "faults.py"), "kill", "1", "0"]
    job = subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    assert job.stdout is not None
    rank = int(job.stdout.readline())  # which is in its first collective now, or about to be
    with open(f"/proc/{rank}/maps") as maps:
        mapped = {line.split()[5] for line in maps if "/dev/shm/mpich_shm_" in line}
    assert mapped and not mapped & set(glob.glob("/dev/shm/*"))
    job.send_signal(signal.SIGTERM)
    job.stdout.read()
    job.wait()
    job.stdout.close()
