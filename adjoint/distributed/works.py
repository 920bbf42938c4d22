"""Collectives that are under way: who called them where, their ends, and what goes wrong between processes."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

from ..core.tensor import caller, ours
from ..errors import place
from ..futures import Future

if TYPE_CHECKING:
    from .groups import ProcessGroup

__all__ = ["DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "Work"]


class DistError(RuntimeError):
    """Base of errors in the communication of processes."""


class DistBackendError(DistError):
    """A collective did not end: a rank did not call it, or called another one."""


class DistNetworkError(DistError):
    """Processes could not reach each other."""


class DistStoreError(DistError):
    """A key of the store, or one of its clients, did not arrive in time."""


class Call(NamedTuple):
    """A collective that this process has called."""

    op: str
    number: int
    group: str
    what: str
    code: Any
    lasti: int

    @property
    def site(self) -> str:
        """The line of the program that made the call."""
        return place(self.code, self.lasti) or "?"

    def __str__(self) -> str:
        number = "" if self.number < 0 else f" #{self.number}"
        return f"{self.op}{number} of group {self.group}"


def here(op: str, number: int, group: str, what: str) -> Call:
    """Return the call that is being made now."""
    return Call(op, number, group, what, *caller())


def main_thread_at() -> str:
    """Return where in the program the main thread is now."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    inner = frame
    while frame is not None and frame.f_code.co_filename in ours:
        frame = frame.f_back
    frame = frame or inner
    if frame is None:
        return "?"
    return f"{os.path.relpath(frame.f_code.co_filename)}:{frame.f_lineno} in {frame.f_code.co_name}"


_SPINS = 40  # looks without a pause: most collectives inside one machine end before
_AWAKE = 5e-3  # seconds of polling that only yields to other threads
_SHARE = 0.02  # of the time waited so far that a pause lasts: a message must not wait long for this thread to wake
_LONGEST_PAUSE = 1e-3

_abandoned: list[Any] = []  # memory of calls that failed: MPI may still write to it

_yield = getattr(os, "sched_yield", lambda: time.sleep(0))


def polled(test: Callable[[], bool], seconds: float) -> bool:
    """Call `test` until it is true; return False if it is not after `seconds`."""
    if hasattr(test, "wait"):  # there is an event to wait for
        return bool(test.wait(seconds))
    for _ in range(_SPINS):
        if test():
            return True
    begin = time.monotonic()
    while not test():
        waited = time.monotonic() - begin
        if waited > seconds:
            return False
        if waited < _AWAKE:
            _yield()
        else:
            time.sleep(min(waited * _SHARE, _LONGEST_PAUSE))
    return True


class Work:
    """A collective that has begun. What it writes may be read, and what it reads written, after `wait`."""

    def __init__(
        self,
        test: Callable[[], bool],
        call: Call,
        group: ProcessGroup,
        finish: Callable[[], Any] | None,
        kept: Any,
        peer: int | None = None,
        comparison: Any = None,
    ) -> None:
        self._comparison = comparison
        self._test, self._call, self._group, self._finish, self._peer = test, call, group, finish, peer
        self._kept = kept  # memory that MPI reads or writes until the end
        self._ended = False
        self._error: BaseException | None = None
        self._result: Any = None

    def is_completed(self) -> bool:
        """Return whether the collective has ended; this also lets it go on."""
        if not self._ended and self._error is None:
            try:
                if self._is_compared() and self._test():
                    self._end()
            except Exception as error:
                self._fail(error)
        return self._ended or self._error is not None

    def is_success(self) -> bool:
        """Return whether it has ended, and well."""
        return self.is_completed() and self._error is None

    def exception(self) -> BaseException | None:
        """Return the error in which it ended."""
        return self._error

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the end; where NCCL carries the tensors, let the current stream wait.

        Raises
        ------
        DistBackendError
            After `timeout`, or else the group's; the error says which ranks have not come, and where they are. Where
            only a stream waits, that error is printed, and ends the job.
        """
        if self._error is not None:
            raise self._error
        if self._ended:
            return True
        seconds = self._group.seconds if not timeout else timeout.total_seconds()
        if self._comparison is not None:
            self._compare(seconds)
        if hasattr(self._test, "order") and self._group.follow(self._test, self._call, seconds):
            self._test.order()  # on a GPU the stream waits, and the program goes on
            self._end()
            return True
        try:
            arrived = self._arrived(seconds)
        except Exception as error:
            raise self._fail(self._explained(error)) from None
        if not arrived:
            raise self._fail(self._group.late(self._call, seconds, self._peer))
        self._end()
        return True

    def _arrived(self, seconds: float) -> bool:
        if self._peer is not None:
            return polled(self._test, seconds)
        return self._group.waited(self._test, seconds, self._call)

    def _explained(self, error: Exception) -> Exception:
        """Return the error that says what others call instead, if they do."""
        if self._peer is None and not isinstance(error, DistBackendError):
            try:
                if isinstance(error, ConnectionError):
                    self._group.ask_left(self._call)
                else:
                    self._group.ask_around(self._call, lambda: False)
            except DistBackendError as told:
                return told
        return error

    def _compare(self, seconds: float) -> None:
        """Wait until all ranks have said what they call; raise if it is not the same."""
        try:
            self._comparison.verify(seconds)
        except Exception as error:
            raise self._fail(self._explained(error)) from None
        self._comparison = None

    def _is_compared(self) -> bool:
        """Return whether this call need not be compared, or has been; raise if it is not what the others call."""
        if self._comparison is not None and self._comparison.test():
            self._comparison.judge()
            self._comparison = None
        return self._comparison is None

    def synchronize(self) -> None:
        """Wait for the end."""
        self.wait()

    def result(self) -> list[Any]:
        """Return the tensors that were written."""
        self.wait()
        return self._written()

    def get_future(self) -> Future[list[Any]]:
        """Return the future of the tensors that are written."""

        def fetch() -> list[Any]:
            self.wait()
            return self._written()

        return Future(fetch=fetch)

    def source_rank(self) -> int:
        """Return the rank that a received message came from."""
        return self._group.ranks[getattr(self._test, "source")]  # noqa: B009

    def _written(self) -> list[Any]:
        return self._result if isinstance(self._result, list) else [self._result]

    def _end(self) -> None:
        self._ended = True
        if self._finish is not None:
            self._result = self._finish()
        self._finish = self._kept = None

    def _fail(self, error: BaseException) -> BaseException:
        if not isinstance(error, DistBackendError):
            error = DistBackendError(f"{self._call}, called at {self._call.site}: {error}")
        self._error = error
        _abandoned.append((self._kept, self._test, self._comparison))
        return error
