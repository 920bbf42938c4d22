"""Jobs of which one rank is killed at a random moment: none may hang.

``python benchmarks/kills.py --count 100`` starts so many jobs of 2 to 4 ranks that train and reduce without end,
kills a random rank with SIGKILL after up to a second, and waits for the job to end. A job that still runs after the
timeout of its collectives and 5 seconds counts as hung.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WORKER = ROOT / "tests/distributed/workers/faults.py"
TIMEOUT = 1.5  # of the worker's collectives


def once(ranks: int, victim: int, delay: float) -> tuple[float, int]:
    """Run a job; return how long it lived after the kill, and its exit code; -1 where it hung."""
    mpiexec = os.path.join(os.path.dirname(sys.executable), "mpiexec")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [mpiexec, "-n", str(ranks), sys.executable, str(WORKER), "kill", str(victim), "0"]
    job = subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True
    )
    assert job.stdout is not None
    process = int(job.stdout.readline())
    time.sleep(delay)
    os.kill(process, signal.SIGKILL)
    killed = time.monotonic()
    try:
        code = job.wait(TIMEOUT + 5)
    except subprocess.TimeoutExpired:
        os.killpg(job.pid, signal.SIGKILL)
        job.wait()
        return float("inf"), -1
    return time.monotonic() - killed, code


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    said = parser.parse_args()
    random.seed(said.seed)
    ends, hung, silent = [], 0, 0
    for number in range(said.count):
        ranks = random.choice([2, 3, 4])
        took, code = once(ranks, random.randrange(ranks), random.uniform(0.0005, 1.0))
        hung += code == -1
        silent += code == 0
        if code != -1:
            ends.append(took)
        print(f"{number + 1}: {ranks} ranks, exit code {code}, {took:.2f} s after the kill", flush=True)
    print(f"{said.count} kills: {hung} hung, {silent} ended as if nothing had happened, longest {max(ends):.2f} s")
    sys.exit(bool(hung or silent))


if __name__ == "__main__":
    main()
