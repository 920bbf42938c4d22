"""What runs in a loader's worker process: it takes indices, and gives back batches or the exception they raised."""

from __future__ import annotations

import contextlib
import pickle
import queue
import random
import signal
import sys
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from ...ops.random import manual_seed
from .transport import packed

__all__ = ["Failure", "WorkerInfo", "get_worker_info"]


@dataclass
class WorkerInfo:
    """Which worker this process is: its number, how many there are, its seed, its copy of the dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Return which worker this process is; None in the program itself.

    Examples
    --------
    >>> from adjoint.utils.data import get_worker_info
    >>> get_worker_info() is None
    True
    """
    return _info


@dataclass
class Failure:
    """An exception on its way from a worker to the program."""

    kind: bytes | None  # the exception's class, where it can be sent
    name: str
    text: str

    @classmethod
    def now(cls, where: str) -> Failure:
        """Return the exception being handled."""
        error = sys.exc_info()[1]
        assert error is not None
        try:
            kind: bytes | None = pickle.dumps(type(error))
        except Exception:
            kind = None
        name = type(error).__name__
        return cls(kind, name, f"Caught {name} {where}.\nOriginal {traceback.format_exc()}")

    def reraise(self) -> None:
        """Raise the exception again, with the worker's traceback in its message."""
        try:
            kind = ForkingPickler.loads(self.kind) if self.kind is not None else RuntimeError
            error = _KeyErrorMessage(self.text) if kind is KeyError else self.text
            exception = kind(error)
        except Exception:  # a class whose constructor wants something else
            exception = RuntimeError(self.text)
        raise exception from None


class _KeyErrorMessage(str):
    """Text that a KeyError shows as it is, line by line."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


@dataclass
class Task:
    """Everything a worker needs to know."""

    dataset: Any
    fetcher: Callable[[Any], Any]  # of a dataset: what fetches a batch
    init: Callable[[int], Any] | None
    id: int
    count: int
    folder: str


@dataclass
class Start:
    """The word that a pass over the data begins, with its seed."""

    seed: int


FINISHED = "the stream has ended"


def run(task: Task, connection: Any, inherited: Any = ()) -> None:
    """Answer requests until the program closes the connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the program's: it ends its workers itself
    for end in inherited:  # ends of this worker's pipes that a fork copied: while open, no end of file arrives
        end.close()
    outgoing: queue.SimpleQueue[Any] = queue.SimpleQueue()
    # Sent from a thread: a worker that waits for the program to take a large batch can still take requests.
    sender = threading.Thread(target=_send, args=(connection, outgoing), daemon=True)
    sender.start()
    with contextlib.suppress(EOFError, OSError):
        _answer(task, connection, outgoing)
    outgoing.put(None)
    sender.join(1)


def _answer(task: Task, connection: Any, outgoing: queue.SimpleQueue[Any]) -> None:
    fetch: Any = None
    broken: Failure | None = None
    while True:
        number, request = connection.recv()
        if isinstance(request, Start):
            try:
                fetch, broken = _started(task, request.seed), None
            except Exception:
                broken = Failure.now(f"in DataLoader worker process {task.id}")
            continue
        answer: Any
        if broken is not None:
            answer = broken
        else:
            try:
                answer = packed(fetch(request), task.folder)
            except StopIteration:
                answer = FINISHED
            except Exception:
                answer = Failure.now(f"in DataLoader worker process {task.id}")
        outgoing.put((number, answer))


def _started(task: Task, base: int) -> Any:
    """Seed this worker's generators for a pass, and return what fetches its batches."""
    global _info
    seed = base + task.id
    random.seed(seed)
    manual_seed(seed)
    words = np.random.SeedSequence([task.id, base & 0xFFFFFFFF, base >> 32, 0]).generate_state(4)
    np.random.seed(words)
    first = _info is None
    _info = WorkerInfo(task.id, task.count, seed, task.dataset)
    if first and task.init is not None:
        task.init(task.id)
    return task.fetcher(task.dataset)


def _send(connection: Any, outgoing: queue.SimpleQueue[Any]) -> None:
    with contextlib.suppress(OSError, ValueError):
        while (answer := outgoing.get()) is not None:
            connection.send(answer)
