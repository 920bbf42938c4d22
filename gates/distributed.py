"""Jobs that are killed, left, mismatched and attacked: none may hang, and a failed job must not report success.

Every case is a job or a store of its own. A row says how many cases there were, how many reported success or went on
unnoticed (silent), how many had to be ended by the clock (hung), and how many lost what was stored.

Several jobs run at once, since most of a job's time is spent waiting for processes to start or to end.

    python -m gates.distributed --minutes 5 --seed 0
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from adjoint.distributed.store import FileStore, TCPStore
from adjoint.distributed.trust import SECRET

from .summary import summary

ROOT = Path(__file__).parents[1]
WORKERS = ROOT / "tests" / "distributed" / "workers"
LIMIT = 90.0  # seconds after which a job has hung
IMPORTS = 60  # or the time in which so many processes import adjoint, one after the other: a machine may be busy
AT_ONCE = 4  # jobs
LAUNCHERS = {"launch": ["launch", "--nproc", "2"], "torchrun": ["torchrun", "--nproc-per-node", "2"]}
MISMATCHES = (
    "count",
    "dtype",
    "reduction",
    "root",
    "op",
    "async",
    "new-async",
    "new-both-async",
    "new-unwaited",
    "known-against-new",
    "extra",
    "extra-async",
    "new-after-known",
    "both-known",
    "swapped-known",
)


# Open MPI refuses to start as root, as in containers, unless two variables allow it.
ENVIRONMENT = {
    "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1",
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}  # fmt: skip


def start(launcher: str, restarts: int, worker: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a job of two ranks."""
    command = [sys.executable, "-m", "adjoint", *LAUNCHERS[launcher], "--max-restarts", str(restarts)]
    return subprocess.Popen(
        [*command, str(WORKERS / f"{worker}.py"), *arguments], text=True, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, env={**os.environ, **ENVIRONMENT},
    )  # fmt: skip


def patience() -> float:
    """Return how many seconds more than `LIMIT` this machine takes, as busy as it is now."""
    begun = time.monotonic()
    subprocess.run([sys.executable, "-c", "import adjoint"], env={**os.environ, **ENVIRONMENT}, check=True)
    return max(0.0, IMPORTS * (time.monotonic() - begun) - LIMIT)


def end(job: subprocess.Popen[str]) -> tuple[int | None, str]:
    """Return a job's exit code and output; None if it did not end."""
    for limit in (lambda: LIMIT, patience):
        with contextlib.suppress(subprocess.TimeoutExpired):
            said, _ = job.communicate(timeout=limit())
            return job.returncode, said
    job.kill()
    return None, ""


def pids(folder: str, job: subprocess.Popen[str]) -> list[int]:
    """Return the processes of the ranks, once they train."""
    paths = [Path(folder, f"pid{rank}") for rank in range(2)]
    limit, late = time.monotonic() + LIMIT, False
    while not all(path.exists() for path in paths):
        if time.monotonic() > limit and not late:
            limit, late = time.monotonic() + patience(), True
        if time.monotonic() > limit or job.poll() is not None:
            raise RuntimeError(f"the job did not begin: {end(job)}")
        time.sleep(0.01)
    return [int(path.read_text()) for path in paths]


def gone(pid: int) -> bool:
    """Return whether a process ends."""
    limit, late = time.monotonic() + LIMIT, False
    while time.monotonic() < limit or not late:
        if time.monotonic() > limit:
            limit, late = time.monotonic() + patience(), True
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except FileNotFoundError:
            return True
        time.sleep(0.02)
    return False


# --- Cases: each returns "right", "silent", "hung" or "lost" ------------------------------------------


def left(launcher: str, rng: random.Random) -> str:
    """A rank exits with code 0 in the middle."""
    with tempfile.TemporaryDirectory() as folder:
        code, said = end(start(launcher, 0, "endings", rng.choice(["exit", "alone"]), folder))
    return "hung" if code is None else "right" if code and "goodbye" in said else "silent"


def restarted(launcher: str, rng: random.Random) -> str:
    """A rank exits with code 0 in the middle, and the job is started again."""
    with tempfile.TemporaryDirectory() as folder:
        code, said = end(start(launcher, 1, "endings", "exit", folder))
    return "hung" if code is None else "right" if code == 0 and said.count("done") == 2 else "lost"


def killed_rank(launcher: str, rng: random.Random) -> str:
    """A rank is killed."""
    with tempfile.TemporaryDirectory() as folder:
        job = start(launcher, 0, "endings", "wait", folder)
        ranks = pids(folder, job)
        time.sleep(rng.random() * 0.2)
        os.kill(rng.choice(ranks), signal.SIGKILL)
        code, _ = end(job)
        alive = not all(gone(pid) for pid in ranks)
    return "hung" if code is None or alive else "right" if code else "silent"


def killed_launcher(launcher: str, rng: random.Random) -> str:
    """The launcher is killed: its ranks must not stay."""
    with tempfile.TemporaryDirectory() as folder:
        job = start(launcher, 0, "endings", "wait", folder)
        ranks = pids(folder, job)
        time.sleep(rng.random() * 0.2)
        job.kill()
        alive = [pid for pid in ranks if not gone(pid)]
        for pid in alive:
            os.kill(pid, signal.SIGKILL)
        job.communicate()
    return "hung" if alive else "right"


def raised(launcher: str, rng: random.Random) -> str:
    """A rank raises: the job fails, and its traceback is shown."""
    with tempfile.TemporaryDirectory() as folder:
        code, said = end(start(launcher, 0, "endings", "raise", folder))
    return "hung" if code is None else "right" if code and "rank 1 has had enough" in said else "silent"


def hanging(launcher: str, rng: random.Random) -> str:
    """A rank calls nothing any more, or is stopped: the others have waited long enough after their timeout."""
    with tempfile.TemporaryDirectory() as folder:
        job = start(launcher, 0, "endings", "hang", folder)
        ranks = pids(folder, job)
        if rng.random() < 0.5:
            os.kill(ranks[1], signal.SIGSTOP)
        code, _ = end(job)
        alive = [pid for pid in ranks if not gone(pid)]
        for pid in alive:
            os.kill(pid, signal.SIGKILL)
    return "hung" if code is None or alive else "right" if code else "silent"


def mismatched(launcher: str, rng: random.Random) -> str:
    """Ranks call different collectives: the error has both lines."""
    code, said = end(start(launcher, 0, "mismatches", rng.choice(MISMATCHES)))
    if code is None:
        return "hung"
    return "right" if code and all(f"rank {rank}: " in said for rank in (0, 1)) else "silent"


def frames(rng: random.Random) -> bytes:
    """Return what an unauthorized client may send."""
    kinds: list[Callable[[], bytes]] = [
        lambda: rng.randbytes(rng.randrange(200)),
        lambda: struct.pack("<qq", 6 << 30, 1) + b"x",
        lambda: struct.pack("<qq", -1, 1),
        lambda: struct.pack("<qq", 16, 1 << 40) + bytes(16),
        lambda: rng.randbytes(64) + struct.pack("<qq", 11, 1) + struct.pack("<q", 3) + b"set",
        lambda: b"GET / HTTP/1.1\r\n\r\n",
    ]
    return rng.choice(kinds)()


def stranger(secret: str | None, rng: random.Random) -> str:
    """A client without the secret can neither read nor write, and invalid messages do not affect other clients."""
    errors: list[Any] = []
    hook, threading.excepthook = threading.excepthook, errors.append
    before = os.environ.pop(SECRET, None)
    if secret:
        os.environ[SECRET] = secret
    store = TCPStore("127.0.0.1", 0, is_master=True)
    try:
        store.set("word", "mine")
        for _ in range(20):
            with socket.create_connection(("127.0.0.1", store.port), 5) as line, contextlib.suppress(OSError):
                line.sendall(frames(rng))
                line.shutdown(socket.SHUT_WR)
                while line.recv(4096):
                    pass
        return "right" if store.get("word") == b"mine" and not errors else "lost"
    finally:
        store.close()
        threading.excepthook = hook
        os.environ.pop(SECRET, None)
        if before is not None:
            os.environ[SECRET] = before


_WRITER = """
import sys
from adjoint.distributed.store import FileStore
store = FileStore(sys.argv[1])
print("begun", flush=True)
while True:
    store.set("big", "x" * 200_000)
    store.add("count", 1)
"""


def killed_writer(rng: random.Random) -> str:
    """A process that writes to a file store is killed."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "words")
        store = FileStore(path)
        store.set("word", "kept")
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        with subprocess.Popen([sys.executable, "-c", _WRITER, path], stdout=subprocess.PIPE, env=env) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            time.sleep(rng.random() * 0.05)
            writer.kill()
        return "right" if store.check(["word"]) and store.get("word") == b"kept" else "lost"


class Kind(NamedTuple):
    """A kind of case, how many of it are in a full run, and whether it runs alone: it changes this process."""

    run: Callable[[random.Random], str]
    full: int
    alone: bool = False


def _by_launcher(what: Callable[[str, random.Random], str], full: int) -> dict[str, Kind]:
    return {f"{what.__name__} ({n})": Kind(partial(what, n), full) for n in LAUNCHERS}


KINDS: dict[str, Kind] = {
    **_by_launcher(left, 20),
    **_by_launcher(restarted, 20),
    **_by_launcher(killed_rank, 20),
    **_by_launcher(killed_launcher, 15),
    **_by_launcher(raised, 5),
    **_by_launcher(hanging, 5),
    **_by_launcher(mismatched, 30),
    "strangers, with a secret": Kind(lambda rng: stranger("words", rng), 15, alone=True),
    "strangers, without": Kind(lambda rng: stranger(None, rng), 15, alone=True),
    "killed writer of a file": Kind(killed_writer, 30),
}


def full_run(rng: random.Random) -> list[str]:
    """Return the kinds of the cases of a full run, the first of every kind before the second of any."""
    first, others = list(KINDS), [name for name, kind in KINDS.items() for _ in range(kind.full - 1)]
    rng.shuffle(first)
    rng.shuffle(others)
    return first + others


class Case(NamedTuple):
    """A case: its kind and the seed that repeats it."""

    name: str
    seed: int

    def verdict(self, stop: float) -> str:
        """Run it, unless it is too late for it."""
        if time.monotonic() > stop:
            return ""
        try:
            return KINDS[self.name].run(random.Random(self.seed))
        except Exception as error:
            print(f"--- {self.name}: {type(error).__name__}: {error}", flush=True)
            return "crashed"


def verdicts(cases: list[Case], stop: float, at_once: int) -> Iterator[tuple[Case, str]]:
    """Yield cases with their verdicts: those that must run alone, which are short, and then the others, as they end."""
    alone = [case for case in cases if KINDS[case.name].alone]
    yield from ((case, case.verdict(stop)) for case in alone)
    pool = ThreadPoolExecutor(at_once)
    try:
        running = {pool.submit(case.verdict, stop): case for case in cases if case not in alone}
        yield from ((running[done], done.result()) for done in as_completed(running))
    finally:
        pool.shutdown(cancel_futures=True)


def main(argv: list[str] | None = None) -> int:
    """Run cases until the time is over, or a full run is; print a table, and return whether something was wrong."""
    parser = argparse.ArgumentParser(prog="python -m gates.distributed", description=__doc__)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no case after this")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="kinds whose name has this in it")
    parser.add_argument("--jobs", type=int, default=AT_ONCE, help="how many run at once")
    given = parser.parse_args(argv)
    rng, stop = random.Random(given.seed), time.monotonic() + 60 * given.minutes
    table: dict[str, Counter[str]] = {name: Counter() for name in KINDS}
    names = [name for name in full_run(rng) if given.only in name]
    cases = [Case(name, given.seed * 1000 + number) for number, name in enumerate(names)]
    for case, verdict in verdicts(cases, stop, given.jobs):
        table[case.name][verdict] += bool(verdict)
        if verdict not in ("right", ""):
            print(f"--- {verdict}: {case.name}, with random.Random({case.seed})", flush=True)
    print(f"{'case':32} {'cases':>6} {'silent':>7} {'hung':>5} {'lost':>5}")
    for name, found in table.items():
        print(f"{name:32} {found.total():6} {found['silent']:7} {found['hung']:5} {found['lost']:5}", flush=True)
    total = sum(table.values(), Counter[str]())
    bad = {word: total[word] for word in ("lost", "hung", "crashed")}
    print(summary("distributed", total.total(), wrong=total["silent"], **bad))
    return int(total.total() > total["right"])


if __name__ == "__main__":
    sys.exit(main())
