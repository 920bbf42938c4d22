"""What ties the processes of a job to their launcher: it knows which of them ended well, they know when it is gone.

Each process that has begun holds a connection to its launcher, and says goodbye when its program has come to its end.
An exit code of 0 without a goodbye is a failure (`os._exit(0)` in the middle of training); a connection that breaks
means that the launcher was killed, and ends the process.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from .store import Server, asked, reach
from .works import DistError

__all__ = ["Lifeline", "die_with_parent", "hold", "say_goodbye"]

_LAUNCHER = "ADJOINT_LAUNCHER"
_PATIENCE = 20.0  # seconds for the launcher to answer
_GRACE = 5.0  # seconds that a process has to end after SIGTERM
_PR_SET_PDEATHSIG = 1


class Lifeline:
    """The launcher's side, of one attempt: who has begun, and who has said goodbye."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        secret = secrets.token_hex(32)
        self._server = Server(host, 0, secret.encode)
        self._address = f"{host} {self._server.port} {secret}"

    def environment(self) -> dict[str, str]:
        """Return the environment variables that the processes need."""
        return {_LAUNCHER: self._address}

    def silent(self, pid: int | None = None) -> list[str]:
        """Return the ranks that have begun but not reported a regular end; of one process, or of all."""
        held = list(self._server.table.items())
        return sorted(word.decode() for name, word in held if word and (pid is None or name == f"{pid}"))

    def close(self) -> None:
        """Close the connection: processes that still run end."""
        self._server.close()


class _Tie:
    """The side of a process that a launcher started."""

    pid = -1
    line: Any = None
    address: list[str] = []


def hold(rank: int) -> None:
    """Hold on to the launcher, if one started this process; end when it is gone."""
    said = os.environ.pop(_LAUNCHER, None)  # what this process starts is not the launcher's
    if said is not None:
        _Tie.address, _Tie.pid = said.split(" "), os.getpid()
    if not _Tie.address or _Tie.pid != os.getpid():
        return
    first = _Tie.line is None
    try:
        if first:
            _Tie.line = _reached()
        asked(_Tie.line, "set", str(os.getpid()), str(rank).encode())
    except (OSError, DistError) as error:
        _end(f"rank {rank}: the launcher cannot be reached: {error}")
        return
    if first:
        threading.Thread(target=_watch, args=(_reached(), rank), name="adjoint-lifeline", daemon=True).start()


def say_goodbye() -> None:
    """Notify the launcher that this process ends because its work is done."""
    if _Tie.line is not None and _Tie.pid == os.getpid():
        with contextlib.suppress(OSError):
            asked(_Tie.line, "set", str(os.getpid()), b"")


def _reached() -> socket.socket:
    host, port, secret = _Tie.address
    return reach(host, int(port), secret.encode(), time.monotonic() + _PATIENCE)


def _watch(line: socket.socket, rank: int) -> None:
    """Wait until the launcher closes the connection."""
    with contextlib.suppress(OSError):
        line.recv(1)
    _end(f"rank {rank} ends: the process that started it is gone")


def _end(why: str) -> None:
    with contextlib.suppress(OSError, ValueError):
        sys.stderr.write(f"adjoint: {why}\n")
        sys.stderr.flush()
    os.kill(os.getpid(), signal.SIGTERM)  # a program may have something to put away
    time.sleep(_GRACE)
    os._exit(128 + signal.SIGTERM)


def die_with_parent() -> Callable[[], Any] | None:
    """Return what a new process calls first, to get SIGTERM when this process dies; on Linux only."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl
    return lambda: prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM))
