"""``torchrun``: start a program in several processes, set their ranks, and end all when one fails.

``adjoint torchrun --nproc-per-node 2 script.py``, or ``python -m torch.distributed.run`` under ``adjoint run``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import IO, Any

from ..cuda import device_count
from .elastic import ChildFailedError
from .lifeline import Lifeline, die_with_parent
from .store import TCPStore
from .trust import make_secret

__all__ = ["get_args_parser", "main", "parse_args", "run"]

_GRACE = 30.0  # seconds that processes have to end after SIGTERM
_NOTICE = 1.0  # seconds that they have to notice that another has failed, and to end by themselves


def _await(processes: list[subprocess.Popen[bytes]], seconds: float) -> list[subprocess.Popen[bytes]]:
    """Wait for processes to end; return those that still run at the timeout."""
    end = time.monotonic() + seconds
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(end - time.monotonic(), 0))
    return [process for process in processes if process.poll() is None]


def get_args_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line; every option may also be an environment variable, PET_NPROC_PER_NODE."""
    parser = argparse.ArgumentParser(prog="torchrun", description="Start a program on several processes.")

    def option(name: str, *short: str, **settings: Any) -> None:
        said = os.environ.get(f"PET_{name.strip('-').replace('-', '_').upper()}")
        if said is not None:
            kind = settings.get("type", str)
            settings["default"] = said == "1" if settings.get("action") == "store_true" else kind(said)
        spelled = dict.fromkeys([name, f"--{name[2:].replace('-', '_')}"])
        parser.add_argument(*short, *spelled, **settings)

    option("--nnodes", default="1:1", help="how many machines, or MIN:MAX")
    option("--nproc-per-node", default="1", help="processes on this machine: a number, auto, cpu or gpu")
    option("--rdzv-backend", default="static", help="static or c10d")
    option("--rdzv-endpoint", default="", help="host:port where machines meet")
    option("--rdzv-id", default="none", help="the name of the job")
    option("--rdzv-conf", default="", help="key=value,...; timeout in seconds")
    option("--standalone", action="store_true", help="one machine, on any free port")
    option("--max-restarts", type=int, default=0, help="how often to start again when a process fails")
    option("--role", default="default")
    option("--module", "-m", action="store_true", help="the program is the name of a module")
    option("--no-python", action="store_true", help="the program is a command")
    option("--run-path", action="store_true", help="run the script with runpy")
    option("--log-dir", default=None, help="folder for redirected output")
    option("--redirects", "-r", default="0", help="write to files: 1 stdout, 2 stderr, 3 both, or 0:3,1:1 by rank")
    option("--tee", "-t", default="0", help="write to files and to the console, as --redirects")
    option("--local-ranks-filter", default="", help="show the output of these ranks only")
    option("--node-rank", type=int, default=0, help="which machine this is")
    option("--master-addr", default="127.0.0.1")
    option("--master-port", type=int, default=None)
    option("--local-addr", default=None)
    option("--virtual-local-rank", action="store_true", help="every process has LOCAL_RANK 0")
    for ignored in ("--event-log-handler", "--logs-specs", "--numa-binding", "--signals-to-handle", "--start-method",
                    "--monitor-interval", "--shutdown-timeout", "--duplicate-stdout-filters",
                    "--duplicate-stderr-filters"):  # fmt: skip
        option(ignored, default=None, help=argparse.SUPPRESS)
    parser.add_argument("training_script", help="the program")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER, help="its arguments")
    return parser


def parse_args(args: Sequence[str] | None) -> argparse.Namespace:
    """Return what the command line says."""
    return get_args_parser().parse_args(args)


def main(args: Sequence[str] | None = None) -> None:
    """Do what the command line says."""
    said = parse_args(args)
    try:
        run(said)
    except ChildFailedError as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(1)


def run(args: argparse.Namespace) -> None:
    """Start the processes of this machine, and wait for their end."""
    _Agent(args).run()


def determine_local_world_size(nproc_per_node: str) -> int:
    """Return how many processes this machine runs."""
    if nproc_per_node.lstrip("-").isdigit():
        return int(nproc_per_node)
    gpus = device_count()
    if nproc_per_node == "gpu" and not gpus:
        raise ValueError("Cuda is not available.")
    if nproc_per_node not in ("auto", "cpu", "gpu"):
        raise ValueError(f"Unsupported nproc_per_node value: {nproc_per_node}")
    return gpus if gpus and nproc_per_node != "cpu" else os.cpu_count() or 1


def _streams(text: str, count: int) -> list[int]:
    """Return for each process which of its streams are meant: 1 stdout, 2 stderr, 3 both."""
    if text.isdigit():
        return [int(text)] * count
    said = dict(part.split(":") for part in text.split(","))
    return [int(said.get(str(number), 0)) for number in range(count)]


class _Agent:
    """The processes of one machine: the store through which they meet, their environment, their ends."""

    def __init__(self, said: argparse.Namespace) -> None:
        self.said = said
        self.local = determine_local_world_size(said.nproc_per_node)
        self.nodes = 1 if said.standalone else int(str(said.nnodes).partition(":")[0])
        self.name = said.rdzv_id if said.rdzv_id != "none" or not said.standalone else secrets.token_hex(8)
        if self.nodes == 1:  # machines cannot know what another has thought of
            make_secret()
        self.store, self.node = self._meet()
        self.lifeline: Lifeline | None = None
        self.folder: str | None = None
        self.ends: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()

    def _meet(self) -> tuple[TCPStore, int]:
        """Return the store, which the first machine serves, and this machine's number."""
        said = self.said
        host, _, port = str(said.rdzv_endpoint).rpartition(":")
        if not said.rdzv_endpoint:
            host, port = said.master_addr, str(said.master_port or (29500 if self.nodes > 1 else 0))
        elif not host:
            host, port = port, "29400"
        options = dict(part.split("=", 1) for part in said.rdzv_conf.split(",") if "=" in part)
        timeout = timedelta(seconds=float(options.get("timeout") or options.get("join_timeout") or 900))
        if self.nodes == 1:
            return TCPStore(host, 0 if said.standalone else int(port), is_master=True, timeout=timeout), 0
        if said.rdzv_backend == "static":
            return TCPStore(host, int(port), is_master=said.node_rank == 0, timeout=timeout), said.node_rank
        store = self._first_or_other(host, int(port), timeout)
        return store, store.add(f"torchelastic/{self.name}/nodes", 1) - 1

    def _first_or_other(self, host: str, port: int, timeout: timedelta) -> TCPStore:
        here = {"localhost", "127.0.0.1", socket.gethostname(), self.said.local_addr}
        with contextlib.suppress(OSError):
            here.add(socket.gethostbyname(socket.gethostname()))
        if host in here:
            with contextlib.suppress(OSError):  # another agent of this machine was first
                return TCPStore(host, port, is_master=True, timeout=timeout)
        return TCPStore(host, port, timeout=timeout)

    # --- The environment of the processes -----------------------------------------------------------

    def _environment(self, number: int, attempt: int) -> dict[str, str]:
        said = self.said
        rank, size = str(self.node * self.local + number), str(self.nodes * self.local)
        told = {
            "LOCAL_RANK": "0" if said.virtual_local_rank else str(number), "RANK": rank, "GROUP_RANK": str(self.node),
            "ROLE_RANK": rank, "ROLE_NAME": said.role, "LOCAL_WORLD_SIZE": str(self.local), "WORLD_SIZE": size,
            "GROUP_WORLD_SIZE": str(self.nodes), "ROLE_WORLD_SIZE": size, "MASTER_ADDR": self.store.host,
            "MASTER_PORT": str(self.store.port), "TORCHELASTIC_RESTART_COUNT": str(attempt),
            "TORCHELASTIC_MAX_RESTARTS": str(said.max_restarts), "TORCHELASTIC_RUN_ID": self.name,
            "TORCHELASTIC_USE_AGENT_STORE": "True",
            "TORCHELASTIC_ERROR_FILE": self._path(attempt, number, "error.json"),
        }  # fmt: skip
        # Every process would otherwise use all cores for itself.
        alone = {} if self.local == 1 else {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        assert self.lifeline is not None
        return {**alone, **os.environ, **told, **self.lifeline.environment()}

    def _path(self, attempt: int, number: int, name: str) -> str:
        """Return where a file of a process goes."""
        if self.folder is None:
            if self.said.log_dir:
                os.makedirs(self.said.log_dir, exist_ok=True)
            self.folder = tempfile.mkdtemp(prefix=f"{self.name}_", dir=self.said.log_dir)
        folder = os.path.join(self.folder, f"attempt_{attempt}", str(number))
        os.makedirs(folder, exist_ok=True)
        return os.path.join(folder, name)

    def _command(self) -> list[str]:
        said = self.said
        if said.no_python:
            return [said.training_script, *said.training_script_args]
        run_path = ["-c", "import runpy, sys; del sys.argv[0]; runpy.run_path(sys.argv[0], run_name='__main__')"]
        how = ["-m"] if said.module else run_path if said.run_path else []
        return [sys.executable, "-u", *how, said.training_script, *said.training_script_args]

    # --- Processes ----------------------------------------------------------------------------------

    def _start(self, attempt: int) -> list[subprocess.Popen[bytes]]:
        said, shown = self.said, self.said.local_ranks_filter
        files, tees = _streams(said.redirects, self.local), _streams(said.tee, self.local)
        processes = []
        for number in range(self.local):
            hidden = bool(shown) and str(number) not in shown.split(",")
            out: list[Any] = []
            for bit, name in ((1, "stdout"), (2, "stderr")):
                if (files[number] | tees[number]) & bit:
                    path = self._path(attempt, number, f"{name}.log")
                    out.append(subprocess.PIPE if tees[number] & bit and not hidden else open(path, "wb"))  # noqa: SIM115
                else:
                    out.append(subprocess.DEVNULL if hidden else None)
            process = subprocess.Popen(
                self._command(), env=self._environment(number, attempt), stdout=out[0], stderr=out[1],
                preexec_fn=die_with_parent(),
            )  # fmt: skip
            for stream, name in ((process.stdout, "stdout"), (process.stderr, "stderr")):
                if stream is not None:
                    self._copy(stream, self._path(attempt, number, f"{name}.log"), getattr(sys, name), number)
            for opened in out:
                if hasattr(opened, "close"):
                    opened.close()
            threading.Thread(target=self._await, args=(number, process), daemon=True).start()
            processes.append(process)
        return processes

    def _copy(self, stream: IO[bytes], path: str, console: Any, number: int) -> None:
        """Write what a process prints to a file, and with its rank before each line to the console."""

        def copy() -> None:
            with open(path, "wb") as file:
                for line in stream:
                    file.write(line)
                    console.write(f"[{self.said.role}{number}]:{line.decode(errors='replace')}")
                    console.flush()

        threading.Thread(target=copy).start()

    def _await(self, number: int, process: subprocess.Popen[bytes]) -> None:
        self.ends.put((number, process.wait()))

    def run(self) -> None:
        """Start the processes, and again as often as is allowed; raise when they fail."""
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        if threading.current_thread() is threading.main_thread():
            for number, handler in before.items():
                if handler != signal.SIG_IGN:  # who started us wants it so
                    signal.signal(number, self._stop)
        try:
            attempt = 0
            while (failed := self._attempt(attempt)) is not None:
                if attempt == self.said.max_restarts:
                    raise ChildFailedError(self._summary(attempt, *failed))
                attempt += 1
                sys.stderr.write(
                    f"torchrun: rank {failed[0]} ended with exit code {failed[1]}; start {attempt + 1} of "
                    f"{self.said.max_restarts + 1}\n"
                )
        finally:
            for number, handler in before.items():
                if threading.current_thread() is threading.main_thread() and handler is not None:
                    signal.signal(number, handler)
            self.store.close()
            if self.folder is not None and not self.said.log_dir:
                shutil.rmtree(self.folder, ignore_errors=True)

    def _stop(self, number: int, frame: Any) -> None:
        raise SystemExit(128 + number)

    def _attempt(self, attempt: int) -> tuple[int, int] | None:
        """Run the processes to their end; return the first that failed and its exit code."""
        self.lifeline = Lifeline()
        started = self._start(attempt)
        try:
            for _ in started:
                number, code = self.ends.get()
                if code != 0 or self.lifeline.silent(started[number].pid):
                    _await(started, _NOTICE)  # what the others say of a rank that is gone helps to find out why
                    return number, code
            return None
        finally:
            self._end(started)
            self.lifeline.close()
            while not self.ends.empty():  # the next attempt counts its own
                self.ends.get()

    def _end(self, processes: list[subprocess.Popen[bytes]]) -> None:
        for process in processes:
            if process.poll() is None:
                process.terminate()
                if hasattr(signal, "SIGCONT"):  # a stopped process must continue to receive it
                    process.send_signal(signal.SIGCONT)
        for process in _await(processes, _GRACE):
            process.kill()
            process.wait()

    def _summary(self, attempt: int, number: int, code: int) -> str:
        """Return what is said of the first process that failed."""
        rank = self.node * self.local + number
        said = f"exitcode  : {code}" if code >= 0 else f"exitcode  : {code} ({signal.Signals(-code).name})"
        lines = [
            "=" * 60, f"{self.said.training_script} FAILED", "-" * 60, "Root Cause (first observed failure):",
            f"  rank      : {rank} (local_rank: {number})", f"  {said}",
        ]  # fmt: skip
        if code == 0:
            lines.append("  It exited in the middle of its program, as os._exit(0) does, and said no goodbye.")
        path = self._path(attempt, number, "error.json")
        with contextlib.suppress(OSError, ValueError, KeyError), open(path) as file:
            lines.append(f"  {json.load(file)['message']['message']}")
        return "\n".join([*lines, "=" * 60])


if __name__ == "__main__":
    main()
