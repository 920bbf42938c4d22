"""``torch.multiprocessing``: Python's own, and `spawn`. Tensors are sent as pickles; a fork shares their memory."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import traceback
from collections.abc import Callable
from multiprocessing import *  # noqa: F403
from typing import Any

__all__ = [
    *multiprocessing.__all__,
    "ProcessContext", "ProcessExitedException", "ProcessRaisedException", "get_all_sharing_strategies",
    "get_sharing_strategy", "set_sharing_strategy", "spawn", "start_processes",
]  # fmt: skip


class ProcessException(Exception):
    """A process ended otherwise than it should."""

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid


class ProcessRaisedException(ProcessException):
    """A process raised."""


class ProcessExitedException(ProcessException):
    """A process was killed or exited."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name


def _wrapped(fn: Callable[..., Any], number: int, args: tuple[Any, ...], sender: Any) -> None:
    try:
        fn(number, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        sender.send(traceback.format_exc())
        raise SystemExit(1) from None


class ProcessContext:
    """Processes that were started together."""

    def __init__(self, processes: list[Any], receivers: list[Any]) -> None:
        self.processes, self._receivers = processes, receivers

    def pids(self) -> list[int]:
        """Return the numbers of the processes."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for all; raise the first error of one, after ending the others. Return whether all have ended."""
        running = [process.sentinel for process in self.processes if process.exitcode is None]
        found = multiprocessing.connection.wait(running, timeout)
        for at, process in enumerate(self.processes):
            if process.sentinel in found:
                process.join()
            if process.exitcode not in (0, None):
                self._fail(at)
        return all(process.exitcode == 0 for process in self.processes)

    def _fail(self, at: int) -> None:
        for process in self.processes:
            if process.is_alive():
                process.terminate()
            process.join()
        failed = self.processes[at]
        try:
            text = self._receivers[at].recv()
        except EOFError:
            text = None
        if text is not None:
            raise ProcessRaisedException(
                f"\n\n-- Process {at} terminated with the following error:\n{text}", at, failed.pid
            )
        raise ProcessExitedException(
            f"process {at} terminated with exit code {failed.exitcode}", at, failed.pid, failed.exitcode
        )


def start_processes(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """Start processes that call ``fn(number, *args)``; wait for them unless told otherwise."""
    context: Any = multiprocessing.get_context(start_method)
    processes, receivers = [], []
    for number in range(nprocs):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_wrapped, args=(fn, number, args, sender), daemon=daemon)
        process.start()
        sender.close()
        processes.append(process)
        receivers.append(receiver)
    started = ProcessContext(processes, receivers)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """Start fresh processes that call ``fn(number, *args)``; wait for them unless told otherwise."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)


def get_all_sharing_strategies() -> set[str]:
    """Return the ways to share tensors' memory."""
    return {"file_system"}


def get_sharing_strategy() -> str:
    """Return how tensors' memory is shared."""
    return "file_system"


def set_sharing_strategy(new_strategy: str) -> None:
    """Do nothing: there is one way only."""
