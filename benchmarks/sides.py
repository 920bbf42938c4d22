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
    """A process that prepares programs by name, and times them when asked."""

    def __init__(self, *command: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def open(self, name: str, listener: Callable[[str], object] = str) -> Side:
        """Let the process prepare a program, which takes the place of the one before; pass on other lines it prints."""
        self._ask(f"open {name}", listener)
        return self

    def __call__(self) -> float:
        """Run the program once."""
        return self.clock(1)

    def clock(self, loops: int) -> float:
        """Return the seconds that so many calls take, once the threads of the other side have fallen asleep."""
        time.sleep(0.01)
        return float(self._ask(f"time {loops}"))

    def _ask(self, question: str, listener: Callable[[str], object] = str) -> str:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{question}\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("failed "):
                raise RuntimeError(line[7:].strip())
            if line.startswith("answer "):
                return line[7:]
            listener(line)
        raise RuntimeError(f"{self.process.args} ended")

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


def serve(prepare: Callable[[str], Callable[[], object]], now: Callable[[], float] = time.perf_counter) -> None:
    """Do what standard input asks for, until it ends; there is a warm-up before each time that is taken."""
    program: Callable[[], object] = object
    for line in sys.stdin:
        question, _, argument = line.strip().partition(" ")
        try:
            if question == "open":
                program = prepare(argument)
                answer = 0.0
            else:
                program()
                start = now()
                for _ in range(int(argument)):
                    program()
                answer = now() - start
        except Exception as error:  # one that breaks must not hide the others
            print(f"failed {type(error).__name__}: {str(error).splitlines()[0]}", flush=True)
        else:
            print("answer", answer, flush=True)
