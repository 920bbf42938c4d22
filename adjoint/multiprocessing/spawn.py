"""`spawn`: starting several processes, and its errors when one fails."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import multiprocessing
import multiprocessing.connection
import os
import secrets
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from typing import Any

__all__ = [
    "ProcessContext", "ProcessException", "ProcessExitedException", "ProcessRaisedException", "SpawnContext", "spawn",
    "start_processes",
]  # fmt: skip

_log = logging.getLogger(__name__)
_GRACE = 30.0  # seconds that processes have to end after SIGTERM
_PR_SET_PDEATHSIG = 1
_SECRET = "ADJOINT_JOB_SECRET"  # by which processes of a job know each other: distributed/trust.py


class ProcessException(Exception):
    """A process ended otherwise than it should."""

    def __init__(self, msg: str, error_index: int, error_pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.error_pid = msg, error_index, error_pid

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """A process raised."""


class ProcessExitedException(ProcessException):
    """A process was killed or exited."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> Any:
        return type(self), (self.msg, self.error_index, self.error_pid, self.exit_code, self.signal_name)


def _end_with_parent() -> None:
    """Have the system end this process when the one that started it dies; where it cannot, do nothing."""
    # A process that was started with Ctrl-C ignored would ignore it from the system, too.
    word = signal.SIGINT if signal.getsignal(signal.SIGINT) is signal.default_int_handler else signal.SIGTERM
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(word))


def _wrapped(fn: Callable[..., Any], number: int, args: tuple[Any, ...], sender: Any, secret: str) -> None:
    os.environ[_SECRET] = secret  # the environment of a fork server may be older
    _end_with_parent()
    try:
        fn(number, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        sender.send(traceback.format_exc())
        sys.exit(1)


class ProcessContext:
    """Processes that were started together."""

    def __init__(self, processes: list[Any], receivers: list[Any]) -> None:
        self.processes, self._receivers = processes, receivers
        self.sentinels = {process.sentinel: number for number, process in enumerate(processes)}

    def pids(self) -> list[int]:
        """Return the ids of the processes."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait until a process fails, or some end; return whether all have ended.

        Parameters
        ----------
        timeout
            How many seconds to wait.
        grace_period
            When one fails, how many seconds the others have to end by themselves, and then after SIGTERM.

        Raises
        ------
        ProcessRaisedException, ProcessExitedException
            When one fails; the others have been ended then.
        """
        for sentinel in multiprocessing.connection.wait(list(self.sentinels), timeout) if self.sentinels else []:
            number = self.sentinels.pop(sentinel)  # type: ignore[call-overload]
            self.processes[number].join()
            if self.processes[number].exitcode != 0:
                self._end_others(grace_period)
                raise self._failure(number)
        return not self.sentinels

    def _join_all(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        for process in self.processes:
            process.join(max(end - time.monotonic(), 0))

    def _end_others(self, grace_period: float | None) -> None:
        if grace_period is not None:
            self._join_all(grace_period)
        for process in self.processes:
            if process.is_alive():
                _log.warning("Terminating process %s via signal SIGTERM", process.pid)
                process.terminate()
        self._join_all(_GRACE if grace_period is None else grace_period)
        for process in self.processes:
            if process.is_alive():
                _log.warning("Unable to shutdown process %s via SIGTERM , forcefully exiting via SIGKILL", process.pid)
                process.kill()
            process.join()

    def _failure(self, number: int) -> ProcessException:
        failed = self.processes[number]
        with contextlib.suppress(EOFError, OSError):
            text = self._receivers[number].recv()
            message = f"\n\n-- Process {number} terminated with the following error:\n{text}"
            return ProcessRaisedException(message, number, failed.pid)
        code = failed.exitcode
        if code >= 0:
            message = f"process {number} terminated with exit code {code}"
            return ProcessExitedException(message, number, failed.pid, code)
        known = {int(word): word.name for word in signal.Signals}
        name = known.get(-code, f"<Unknown signal {-code}>")
        return ProcessExitedException(f"process {number} terminated with signal {name}", number, failed.pid, code, name)


class SpawnContext(ProcessContext):
    """The old name of `ProcessContext`."""

    def __init__(self, processes: list[Any], receivers: list[Any]) -> None:
        warnings.warn("SpawnContext is renamed to ProcessContext since 1.4 release.", stacklevel=2)
        super().__init__(processes, receivers)


def start_processes(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """Start processes that call ``fn(number, *args)``; wait for them by default."""
    context: Any = multiprocessing.get_context(start_method)
    processes, receivers = [], []
    secret = os.environ.setdefault(_SECRET, f"spawn:{secrets.token_hex(32)}")
    for number in range(nprocs):
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_wrapped, args=(fn, number, args, sender, secret), daemon=daemon)
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
    """Start fresh processes that call ``fn(number, *args)``.

    Parameters
    ----------
    fn : callable
        A function that can be imported by its name, as those at the top of a module can; it gets the number of its
        process, from 0 to ``nprocs - 1``, then `args`.
    args : tuple, default ()
        Further arguments. Tensors among them share memory with this process.
    nprocs : int, default 1
        How many processes to start.
    join : bool, default True
        Whether to wait for them.
    daemon : bool, default False
        Whether they are stopped when this process ends.
    start_method : str, default "spawn"
        Only ``"spawn"``; `start_processes` takes others.

    Returns
    -------
    ProcessContext or None
        With ``join=False``, the processes: ``join()`` waits for them.

    Raises
    ------
    ProcessRaisedException
        Where one raises: the message has its traceback. The others are ended.
    ProcessExitedException
        Where one is killed, or exits with another code than 0.

    Examples
    --------
    A program calls it under ``if __name__ == "__main__":``, as each process imports the program.

    >>> import operator
    >>> adjoint.multiprocessing.spawn(operator.add, args=(10,), nprocs=2)  # calls add(0, 10) and add(1, 10)
    """
    if start_method != "spawn":
        warnings.warn(
            f"This method only supports start_method=spawn (got: {start_method}).\nTo use a different start_method "
            "use:\n\t\t torch.multiprocessing.start_processes(...)",
            FutureWarning,
            stacklevel=2,
        )
    return start_processes(fn, args, nprocs, join, daemon, "spawn")
