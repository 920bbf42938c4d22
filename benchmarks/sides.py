"""Programs that are timed in processes of their own, in turn.

Two libraries in one process share what neither chose: torch's OpenMP, loaded first, is then oneDNN's too, and its
threads spin for milliseconds after every call, on the cores of whoever is measured next.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager


class Side:
    """A process that prepared a program, and times it when asked."""

    def __init__(self, *command: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self) -> float:
        """Run the program once."""
        return self.clock(1)

    def clock(self, loops: int) -> float:
        """Return the seconds that so many calls take."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{loops}\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("seconds "):
                return float(line.split()[1])
        raise RuntimeError(f"{' '.join(map(str, self.process.args[1:]))} ended")  # type: ignore[index]

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


@contextmanager
def sides(*commands: list[str]) -> Iterator[list[Side]]:
    """Start a process for each command, and end them."""
    with ExitStack() as stack:
        started = [Side(*command) for command in commands]
        for side in started:
            stack.callback(side.close)
        yield started


def serve(program: Callable[[], object], now: Callable[[], float] = time.perf_counter) -> None:
    """Time the program as often as standard input says, until it ends; a warm-up before each."""
    for line in sys.stdin:
        program()
        start = now()
        for _ in range(int(line)):
            program()
        print("seconds", now() - start, flush=True)
