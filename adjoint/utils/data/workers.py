"""Processes that load batches, and how a batch travels: arrays through shared memory."""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import queue
import random
import shutil
import signal
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from ...ops.random import manual_seed

__all__ = ["Failure", "Folder", "WorkerInfo", "get_worker_info", "packed", "unpacked"]


_LARGE = 1 << 16  # bytes of arrays from which on a file in shared memory is worth its two system calls
_CLOSED = "closed"  # the name of the marker file
_numbers = count()


class Folder:
    """Where the files in shared memory are made: in memory where the system has such a place."""

    def __init__(self) -> None:
        memory = "/dev/shm"
        base = memory if os.path.isdir(memory) and os.access(memory, os.W_OK) else None
        self.path = tempfile.mkdtemp(prefix=f"adjoint-{os.getpid()}-", dir=base)

    def close(self) -> None:
        """Mark the folder as closed: workers that disconnect from now on leave its removal to the program."""
        with contextlib.suppress(OSError), open(os.path.join(self.path, _CLOSED), "wb"):
            pass

    def remove(self) -> None:
        """Remove the folder and what was never fetched from it."""
        shutil.rmtree(self.path, ignore_errors=True)


def packed(value: Any, folder: str) -> tuple[bytes, str | None, list[int]]:
    """Return a value as bytes to send, the file that has its arrays, and how long each of them is."""
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    sizes = [view.nbytes for view in views]
    if sum(sizes) < _LARGE:
        return pickle.dumps(value, protocol=5), None, []
    path = os.path.join(folder, f"{os.getpid()}-{next(_numbers)}")
    with open(path, "wb") as file:
        for view in views:
            file.write(view)
            file.write(bytes(-view.nbytes % 64))  # every array starts at a cache line
    return data, path, sizes


def unpacked(data: bytes, path: str | None, sizes: list[int]) -> Any:
    """Return the value; its arrays look into the shared memory, which goes when the last of them does."""
    if path is None:
        return ForkingPickler.loads(data)
    with open(path, "r+b") as file:
        memory = memoryview(mmap.mmap(file.fileno(), 0))
    with contextlib.suppress(OSError):  # where files in use cannot be removed, the folder's end does it
        os.unlink(path)
    at, buffers = 0, []
    for size in sizes:
        buffers.append(memory[at : at + size])
        at += size + -size % 64
    return ForkingPickler.loads(data, buffers=buffers)


@dataclass
class WorkerInfo:
    """Which worker this process is: its number, how many there are, its seed, its copy of the dataset."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Return which worker of a `DataLoader` this process is.

    Returns
    -------
    WorkerInfo or None
        In a worker: its number ``id``, ``num_workers``, its ``seed`` and its copy of the ``dataset``. In the program
        itself None.

    Examples
    --------
    >>> from adjoint.utils.data import get_worker_info
    >>> get_worker_info() is None
    True
    >>> class Lines(adjoint.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         info = get_worker_info()
    ...         start, step = (0, 1) if info is None else (info.id, info.num_workers)
    ...         return iter(range(start, 6, step))
    >>> list(Lines())
    [0, 1, 2, 3, 4, 5]
    """
    return _info


@dataclass
class Failure:
    """An exception that a worker sends to the program."""

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
        except Exception:  # a class whose constructor takes other arguments
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
    """The message that starts a pass over the data, with its seed."""

    seed: int


FINISHED = "the stream has ended"


def run(task: Task, connection: Any, inherited: Any = ()) -> None:
    """Handle requests until the program closes the connection."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the program's: it ends its workers itself
    for end in inherited:  # ends of this worker's pipes that a fork copied: while open, no end of file arrives
        end.close()
    outgoing: queue.SimpleQueue[Any] = queue.SimpleQueue()
    # Sent from a thread: a worker that waits for the program to take a large batch can still take requests.
    sender = threading.Thread(target=_send, args=(connection, outgoing), daemon=True)
    sender.start()
    with contextlib.suppress(EOFError, OSError):
        _answer(task, connection, outgoing)
    if not os.path.exists(os.path.join(task.folder, _CLOSED)):  # the program was killed: no other process cleans up
        shutil.rmtree(task.folder, ignore_errors=True)
        return
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
