"""The command line, and the watch over cases: ``python -m gates.threads --minutes 1 --seed 0``."""

from __future__ import annotations

import argparse
import faulthandler
import gc
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter

from ..summary import summary
from .helpers import LIMIT, ROOT, Case
from .processes import forks, started, subprocesses
from .sharing import (
    compiled,
    endings,
    first_calls,
    futures,
    generators,
    hooks,
    loaders,
    modes,
    one_module,
    optimizers,
    saved_files,
    shared_graph,
    shared_leaves,
)
from .signals import signals

CASES: list[Case] = [
    shared_leaves, shared_graph, one_module, modes, compiled, first_calls, saved_files, loaders, generators, optimizers,
    hooks, endings, futures, forks, started, subprocesses, signals,
]  # fmt: skip


def rounds(case: Case, seed: int, seconds: float, calls: int) -> int:
    """Repeat a case until time is over; print what failed; return how many rounds there were."""
    sys.unraisablehook = lambda _: None  # an interrupt may come to a generator that is being dropped
    end, number = time.monotonic() + seconds, 0
    while not number or time.monotonic() < end:
        faulthandler.dump_traceback_later(LIMIT, exit=True)
        try:
            case(random.Random(seed + number), calls)
        except BaseException as error:
            kind = next((w for w in ("lost", "late", "hung") if str(error).startswith(w)), "wrong")
            print(f"failure {kind} seed {seed + number}: {type(error).__name__}: {error}", flush=True)
            traceback.print_exc()
        number += 1
        gc.collect()
    faulthandler.cancel_dump_traceback_later()
    return number


def watched(case: Case, seed: int, seconds: float, calls: int) -> Counter[str]:
    """Run a case in a separate process; return what it counted."""
    command = [sys.executable, "-m", "gates.threads", "--case", case.__name__, "--seed", str(seed)]
    command += ["--minutes", str(seconds / 60), "--calls", str(calls)]
    table: Counter[str] = Counter()
    with tempfile.TemporaryFile("w+") as told:
        process = subprocess.Popen(command, cwd=ROOT, stdout=told, stderr=subprocess.STDOUT, start_new_session=True)
        try:
            code: int | None = process.wait(seconds + 2 * LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            code = None
        told.seek(0)
        text = told.read()
    for kind in re.findall(r"^failure (\w+)", text, re.M):
        table[kind] += 1
    if code is None or "Timeout (" in text:
        table["hung"] += 1
    elif code:
        table["crashed"] += 1
    found = re.search(r"^rounds (\d+)", text, re.M)
    table["cases"] += int(found[1]) if found else 1
    if table.total() > table["cases"]:
        print(f"--- {case.__name__}, repeat with: python -m gates.threads --case {case.__name__} --seed {seed}\n{text}")
    return table


def main(argv: list[str] | None = None) -> int:
    """Run every kind of case for a share of the time; print the table; return whether something was not right."""
    parser = argparse.ArgumentParser(prog="gates.threads", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--calls", type=int, default=100, help="of each thread in one round")
    parser.add_argument("--only", default="", help="kinds whose name has this in it")
    parser.add_argument("--case", help="run this one here")
    given = parser.parse_args(argv)
    if given.case:
        case = next(case for case in CASES if case.__name__ == given.case)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # as it is in a terminal, whatever started this
        print("rounds", rounds(case, given.seed, 60 * given.minutes, given.calls), flush=True)
        return 0
    chosen = [case for case in CASES if given.only in case.__name__]
    end, total, turn = time.monotonic() + 60 * given.minutes, Counter[str](), 0
    print(f"{'case':14} {'rounds':>7} {'wrong':>6} {'lost':>5} {'late':>5} {'hung':>5} {'crashed':>8}")
    random.Random(given.seed).shuffle(chosen)  # a short run has time for some of them
    while not turn or time.monotonic() < end:
        case = chosen[turn % len(chosen)]
        share = min(max((end - time.monotonic()) / max(len(chosen) - turn, 1), 0), 30.0)
        table = watched(case, given.seed + 1000 * turn, share, given.calls)
        total += table
        row = [table[name] for name in ("cases", "wrong", "lost", "late", "hung", "crashed")]
        print("{:14} {:7} {:6} {:5} {:5} {:5} {:8}".format(case.__name__, *row), flush=True)
        turn += 1
    wrong = total["wrong"] + total["late"]
    print(summary("threads", total["cases"], wrong, total["lost"], total["hung"], total["crashed"]))
    return 1 if total.total() > total["cases"] else 0


if __name__ == "__main__":
    sys.exit(main())
