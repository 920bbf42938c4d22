"""Run every gate, one after the other, and print one table: ``python -m gates --minutes 5 --seed 0``.

A gate that takes far longer than it was given is ended and counts as hung; one that ends without its summary line has
crashed. Ctrl-C ends the gate that runs, and prints the table so far. `--table FILE` writes it as Markdown: where the
file has the comments between which a table stands (docs/reliability.md), there; else as the whole file.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import platform
import re
import signal
import subprocess
import sys
import threading
import time
from datetime import date
from pathlib import Path
from typing import NamedTuple

from .summary import COUNTS, parsed

HERE = Path(__file__).parent
NOT_GATES = {"summary"}
GRACE = 300.0  # seconds beyond three times its minutes, after which a gate has hung: it ends what it has begun


def gates() -> list[str]:
    """Return the names of all gates: files, and folders with a command line."""
    files = {path.stem for path in HERE.glob("[a-z]*.py")} - NOT_GATES
    return sorted(files | {path.parent.name for path in HERE.glob("*/__main__.py")})


class Row(NamedTuple):
    """What came of a gate."""

    name: str
    counts: dict[str, int]
    seconds: float
    seed: int
    passed: bool
    note: str = ""

    def cells(self) -> list[str]:
        """Return the row's texts."""
        counts = [str(self.counts.get(name, "")) for name in COUNTS]
        return [self.name, *counts, f"{self.seconds:.0f}", str(self.seed), self.note]


HEADINGS = ["gate", *COUNTS, "seconds", "seed", ""]


def _end(process: subprocess.Popen[str], how: int) -> None:
    """Send a signal to a gate and to what it has started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, how)


def run(name: str, minutes: float, seed: int, grace: float = GRACE) -> Row:
    """Run a gate in a separate process; show what it prints, and return its row."""
    command = [sys.executable, "-m", f"gates.{name}", "--minutes", str(minutes), "--seed", str(seed)]
    start, found, interrupted = time.monotonic(), None, False
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    late = threading.Timer(180 * minutes + grace, _end, (process, signal.SIGKILL))
    late.start()
    assert process.stdout is not None
    while True:
        try:
            for line in process.stdout:
                print(line, end="", flush=True)
                found = parsed(line) or found
            code = process.wait()
            break
        except KeyboardInterrupt:
            _end(process, signal.SIGKILL if interrupted else signal.SIGINT)
            interrupted = True
    hung = not late.is_alive() and code == -signal.SIGKILL
    late.cancel()
    process.stdout.close()
    _end(process, signal.SIGKILL)  # what it may have left behind
    row = Row(name, *_judged(found, code, hung, interrupted, time.monotonic() - start, seed))
    if interrupted:
        raise Interrupted(row)
    return row


class Interrupted(Exception):
    """A user has ended a gate before its time."""

    def __init__(self, row: Row) -> None:
        super().__init__(row.name)
        self.row = row


def _judged(
    found: dict[str, int] | None, code: int, hung: bool, interrupted: bool, seconds: float, seed: int
) -> tuple[dict[str, int], float, int, bool, str]:
    """Return the fields of a row but its name."""
    counts = dict(found or {})
    bad = sum(counts.values()) > counts.get("cases", 0)
    note = "interrupted" if interrupted else "allowed there" if bad and not code else "" if found or code else "skipped"
    if hung:
        counts["hung"], note = counts.get("hung", 0) + 1, "ended: it took too long"
    elif code and not found and not interrupted:
        counts["crashed"], note = 1, f"exit code {code}, and no summary"
    return counts, seconds, seed, code == 0, note


def text(rows: list[Row]) -> str:
    """Return the table for a terminal."""
    cells = [HEADINGS, *(row.cells() for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(HEADINGS))]
    return "\n".join(
        " ".join(f"{cell:<{w}}" if i in (0, len(widths) - 1) else f"{cell:>{w}}"
                 for i, (cell, w) in enumerate(zip(line, widths, strict=True))).rstrip()
        for line in cells
    )  # fmt: skip


def markdown(rows: list[Row]) -> str:
    """Return the table for a page."""
    lines = [HEADINGS, ["---", *["---:"] * (len(HEADINGS) - 2), "---"], *(row.cells() for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


_PLACE = re.compile(r"(<!-- table.*?-->\n).*?(<!-- end -->)", re.S)


def write_table(path: Path, rows: list[Row], minutes: float) -> None:
    """Write the table, and how it was made, into a page."""
    machine = f"{os.cpu_count()} processors, Python {platform.python_version()}"
    table = f"{markdown(rows)}\n{date.today()}, {minutes:g} minutes for each gate, {machine}.\n"
    page = path.read_text() if path.exists() else ""
    path.write_text(_PLACE.sub(lambda found: found[1] + table + found[2], page) if _PLACE.search(page) else table)


def main(argv: list[str] | None = None) -> int:
    """Run the gates; return how many of them failed."""
    parser = argparse.ArgumentParser(prog="python -m gates", description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0, help="for each gate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--table", type=Path, metavar="FILE", help="write the table there, as Markdown")
    parser.add_argument("names", nargs="*", help="which gates; all unless said")
    given = parser.parse_args(argv)
    rows: list[Row] = []
    try:
        for name in given.names or gates():
            print(f"=== {name}", flush=True)
            rows.append(run(name, given.minutes, given.seed))
    except Interrupted as end:
        rows.append(end.row)
    print(f"\n{text(rows)}", flush=True)
    if given.table:
        write_table(given.table, rows, given.minutes)
    return sum(not row.passed for row in rows)


if __name__ == "__main__":
    sys.exit(main())
