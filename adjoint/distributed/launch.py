"""``adjoint launch``: start a program on several processes, and again when it dies."""

from __future__ import annotations

import argparse
import contextlib
import glob
import os
import shutil
import signal
import socket
import subprocess
import sys
from typing import Any

from .lifeline import Lifeline, die_with_parent
from .trust import SECRET, is_loopback, make_secret

__all__ = ["launch", "remove_leftovers"]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="adjoint launch", description="Run a program on several processes that talk through adjoint.distributed."
    )
    parser.add_argument(
        "--nproc", "--nproc-per-node", "--nproc_per_node", type=int, default=1, help="how many processes"
    )
    parser.add_argument("--hosts", help="machines, as mpiexec takes them: a,b or a:4,b:4")
    parser.add_argument(
        "--max-restarts", "--max_restarts", type=int, default=0,
        help="how often to start again when a process dies; the program goes on from its last checkpoint",
    )  # fmt: skip
    parser.add_argument("--mpiexec", help="the mpiexec to use; by default that of the mpich package")
    parser.add_argument("--torch", action="store_true", help="run an unmodified PyTorch program, adjoint in its place")
    parser.add_argument("-m", "--module", action="store_true", help="the program is the name of a module")
    parser.add_argument("program", nargs=argparse.REMAINDER, help="script.py and its arguments")
    return parser


def _mpiexec(named: str | None) -> str:
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
    found = shutil.which(named or "mpiexec", path=path)
    if found is None:
        raise SystemExit(
            f"adjoint launch: found no {named or 'mpiexec'}; pip install mpich (Windows: impi-rt) brings mpiexec"
        )
    return found


def launch(arguments: list[str]) -> int:
    """Run what the command line says; return the exit code."""
    parser = _parser()
    said = parser.parse_args(arguments)
    if not said.program:
        parser.error("which program?")
    command = [_mpiexec(said.mpiexec), "-n", str(said.nproc), *(["-hosts", said.hosts] if said.hosts else [])]
    command += [sys.executable, "-m", "adjoint.distributed.start"]
    command += [*(["--torch"] if said.torch else []), *(["-m"] if said.module else []), *said.program]
    for attempt in range(said.max_restarts + 1):
        code = _attempt(command, _environment(attempt, said.max_restarts), said.hosts)
        if code in (0, 130):
            return code
        if attempt < said.max_restarts:
            sys.stderr.write(
                f"adjoint launch: the job ended with exit code {code}; start {attempt + 2} of {said.max_restarts + 1}\n"
            )
            sys.stderr.flush()
    return code


def _attempt(command: list[str], env: dict[str, str], hosts: str | None) -> int:
    """Run the job once; a process that exits with code 0 before its program has come to its end has failed."""
    host = socket.gethostbyname(socket.gethostname()) if hosts else "127.0.0.1"
    if hosts and is_loopback(host):  # other machines cannot reach this one by its name
        return _run(command, env)
    lifeline = Lifeline(host)
    try:
        code = _run(command, {**env, **lifeline.environment()})
        silent = lifeline.silent()
    finally:
        lifeline.close()
    if code != 0 or not silent:
        return code
    sys.stderr.write(
        f"adjoint launch: a process exited with code 0 in the middle of its program, as os._exit(0) does; without a "
        f"goodbye ended: rank {', '.join(silent)}\n"
    )
    return 1


def _environment(attempt: int, most: int) -> dict[str, str]:
    told = {
        "ADJOINT_LAUNCH": "1",
        SECRET: make_secret(),
        "TORCHELASTIC_RESTART_COUNT": str(attempt),
        "TORCHELASTIC_MAX_RESTARTS": str(most),
    }
    # Every process would otherwise use all cores for itself.
    return {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", **os.environ, **told}


def _run(command: list[str], env: dict[str, str]) -> int:
    """Run mpiexec to its end; what ends this process ends it too."""
    job = subprocess.Popen(command, env=env, preexec_fn=die_with_parent())

    def stop(number: int, frame: Any) -> None:
        job.terminate()

    before = signal.signal(signal.SIGTERM, stop)
    try:
        return _code(job.wait())
    except KeyboardInterrupt:  # mpiexec has heard it too
        with contextlib.suppress(subprocess.TimeoutExpired):
            job.wait(5)
        job.kill()
        job.wait()
        return 130
    finally:
        signal.signal(signal.SIGTERM, before)
        remove_leftovers()


def remove_leftovers() -> None:
    """Remove the files in /tmp that MPICH's launcher leaves when a job does not end well; on Linux only.

    They are used while a job starts. Their owner is unknown, so none is removed while another job runs.
    """
    running = []
    for path in glob.glob("/proc/[0-9]*/comm"):
        with contextlib.suppress(OSError), open(path) as file:
            running.append(file.read().startswith(("hydra_pmi_proxy", "mpiexec")))
    if running and not any(running):
        for path in glob.glob("/tmp/hydra_hwloc_xmlfile_*"):
            with contextlib.suppress(OSError):  # another user's
                os.unlink(path)


def _code(returned: int) -> int:
    return 128 - returned if returned < 0 else returned
