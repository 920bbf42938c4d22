"""The loader: batches of a dataset, made here or by worker processes, in a sampler's order."""

from __future__ import annotations

import collections.abc
import contextlib
import itertools
import multiprocessing
import multiprocessing.connection
import os
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from ...core.interrupts import whole
from ...core.tensor import TensorBase
from . import workers
from ._utils.collate import default_collate, default_convert
from .dataset import IterableDataset
from .sampler import BatchSampler, RandomSampler, SequentialSampler, drawn_seed
from .workers import FINISHED, Failure, Folder, Start, Task, get_worker_info, unpacked

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

_T_co = TypeVar("_T_co", covariant=True)
_WORDS = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers")


class _Endless:
    """The sampler of a stream: it yields None without end."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


class _DatasetKind:
    """The kinds of datasets: by index, or a stream."""

    Map, Iterable = 0, 1


class _Fetcher:
    """Makes what fetches a batch of a dataset; a class of its own so that it can be sent to a worker."""

    def __init__(self, loader: Any) -> None:
        self.collate, self.batched, self.drop_last = loader.collate_fn, loader._auto_collation, loader.drop_last
        self.stream = loader._dataset_kind == _DatasetKind.Iterable

    def __call__(self, dataset: Any) -> Callable[[Any], Any]:
        if not self.stream:
            return lambda index: self.collate(self._by_index(dataset, index))
        samples = iter(dataset)
        return lambda index: self.collate(self._from_stream(samples, index))

    def _by_index(self, dataset: Any, index: Any) -> Any:
        if not self.batched:
            return dataset[index]
        if callable(getattr(dataset, "__getitems__", None)):
            return dataset.__getitems__(index)
        return [dataset[i] for i in index]

    def _from_stream(self, samples: Iterator[Any], index: Any) -> Any:
        if not self.batched:
            return next(samples)
        batch = list(itertools.islice(samples, len(index)))
        if not batch or (self.drop_last and len(batch) < len(index)):
            raise StopIteration
        return batch


class DataLoader(Generic[_T_co]):
    """Batches of a dataset, in order, shuffled or as a sampler says, made by worker processes if there are any.

    Parameters
    ----------
    dataset
        By index, or an `IterableDataset`.
    batch_size, shuffle, sampler, batch_sampler, drop_last
        Which samples make a batch; ``batch_size=None`` gives single samples.
    num_workers
        How many processes make batches; 0 makes them here.
    collate_fn
        Makes a batch of a list of samples.
    pin_memory, pin_memory_device
        Accepted: host memory is copied to a GPU from where it is.
    timeout
        Seconds to wait for a batch of a worker; 0 waits as long as the worker lives.
    worker_init_fn
        Called in every worker with its number.
    multiprocessing_context
        How workers are started: "fork", "spawn", "forkserver", or a context.
    generator
        Where the order and the workers' seeds come from.
    prefetch_factor
        How many batches each worker prepares ahead (2).
    persistent_workers
        Whether the workers stay for the next pass.
    in_order
        Whether batches come in the sampler's order, or as soon as they are there.

    Examples
    --------
    >>> from adjoint.utils.data import DataLoader
    >>> list(DataLoader(range(5), batch_size=2))
    [tensor([0, 1]), tensor([2, 3]), tensor([4])]
    """

    _iterator: Any = None
    _IterableDataset_len_called: int | None = None  # the length of a stream, once it is known
    __initialized = False

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        self.dataset = dataset
        self.num_workers = num_workers
        self.prefetch_factor = 2 if prefetch_factor is None and num_workers else prefetch_factor
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.in_order = in_order
        self.generator = generator
        self.persistent_workers = persistent_workers
        self.multiprocessing_context = multiprocessing_context
        stream = isinstance(dataset, IterableDataset)
        if stream:
            _check_stream(shuffle, sampler, batch_sampler)
        self.batch_size, self.drop_last = _checked_batches(batch_size, shuffle, sampler, batch_sampler, drop_last)
        if sampler is None:
            if stream:
                sampler = _Endless()
            elif shuffle:
                sampler = RandomSampler(dataset, generator=generator)
            else:
                sampler = SequentialSampler(dataset)
        if self.batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, self.batch_size, self.drop_last)
        self.sampler, self.batch_sampler = sampler, batch_sampler
        self._dataset_kind = _DatasetKind.Iterable if stream else _DatasetKind.Map
        self.collate_fn = collate_fn or (default_collate if self._auto_collation else default_convert)
        self.__initialized = True

    def __setattr__(self, name: str, value: Any) -> None:
        if self.__initialized and name in _WORDS:
            raise ValueError(f"{name} attribute should not be set after {type(self).__name__} is initialized")
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """How workers are started."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None and self.num_workers == 0:
            raise ValueError(
                "multiprocessing_context can only be used with multi-process loading (num_workers > 0), but got "
                f"num_workers={self.num_workers}"
            )
        if isinstance(context, str):
            if context not in multiprocessing.get_all_start_methods():
                raise ValueError(
                    "multiprocessing_context option should specify a valid start method in "
                    f"{multiprocessing.get_all_start_methods()}, but got multiprocessing_context={context!r}"
                )
            context = multiprocessing.get_context(context)
        self._context = context

    @property
    def _auto_collation(self) -> bool:
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        return self.batch_sampler if self._auto_collation else self.sampler

    def __iter__(self) -> Iterator[Any]:
        if not self.num_workers or not self.persistent_workers:
            return self._get_iterator()
        if self._iterator is None or self._iterator.closed:
            self._iterator = self._get_iterator()
        else:
            self._iterator.begin(self)
        return self._iterator  # type: ignore[no-any-return]

    def _get_iterator(self) -> Any:
        return _MultiProcessingDataLoaderIter(self) if self.num_workers else _SingleProcessDataLoaderIter(self)

    def __len__(self) -> int:
        if self._dataset_kind == _DatasetKind.Map:
            return len(self._index_sampler)
        count = len(self.dataset)
        if self.batch_size is not None:
            count = count // self.batch_size if self.drop_last else -(-count // self.batch_size)
        self._IterableDataset_len_called = count
        return count

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_iterator"}

    def check_worker_number_rationality(self) -> None:
        """Warn if there are more workers than processors."""
        available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        if available is not None and self.num_workers > available:
            warnings.warn(
                f"This DataLoader will create {self.num_workers} worker processes in total. Our suggested max number "
                f"of worker in current system is {available}, which is smaller than what this DataLoader is going to "
                "create.",
                stacklevel=2,
            )


def _check_workers(num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool) -> None:
    if num_workers < 0:
        raise ValueError("num_workers option should be non-negative; use num_workers=0 to disable multiprocessing.")
    if timeout < 0:
        raise ValueError("timeout option should be non-negative")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option could only be specified in multiprocessing. "
            "let num_workers > 0 to enable multiprocessing, otherwise set prefetch_factor to None."
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError("prefetch_factor option should be non-negative")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")


def _check_stream(shuffle: Any, sampler: Any, batch_sampler: Any) -> None:
    if shuffle not in (False, None):
        raise ValueError(f"DataLoader with IterableDataset: expected unspecified shuffle option, but got {shuffle=}")
    if sampler is not None:
        raise ValueError(f"DataLoader with IterableDataset: expected unspecified sampler option, but got {sampler=}")
    if batch_sampler is not None:
        raise ValueError(
            f"DataLoader with IterableDataset: expected unspecified batch_sampler option, but got {batch_sampler=}"
        )


def _checked_batches(
    batch_size: int | None, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: bool
) -> tuple[int | None, bool]:
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None:
        if batch_size != 1 or shuffle or sampler is not None or drop_last:
            raise ValueError(
                "batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last"
            )
        return None, False
    if batch_size is None and drop_last:
        raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")
    return batch_size, drop_last


# --- Batches made here ------------------------------------------------------------------------------


class _Pass:
    """What a pass knows of its loader; not the loader itself, so that it can be deleted while its workers run.

    A loader is known by the names of its attributes, PyTorch's private ones among them: fastai brings one of its own.
    """

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.indices = iter(loader._index_sampler)
        self.seed = drawn_seed(loader.generator)  # drawn also where it is not used: with and without workers alike
        self.prefetch = loader.prefetch_factor or 1
        self.persistent, self.in_order, self.pin = loader.persistent_workers, loader.in_order, loader.pin_memory
        self.timeout = loader.timeout
        self._dataset = loader.dataset
        self._length = loader._IterableDataset_len_called
        self._given = 0

    def given(self, batch: Any) -> Any:
        """Return a batch as it is given out, counted: a stream may give more than its length said."""
        self._given += 1
        if self._length is not None and self._given > self._length:
            warnings.warn(
                f"Length of IterableDataset {self._dataset} was reported to be {self._length} (when accessing "
                f"len(dataloader)), but {self._given} samples have been fetched.",
                stacklevel=4,
            )
            self._length = None
        return pinned(batch) if self.pin else batch


class _BaseDataLoaderIter:
    """One pass over a loader, with or without workers."""


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """One pass, in this process."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._pass = _Pass(loader)
        self._loader = loader
        self._base_seed = self._pass.seed
        self._fetch = _Fetcher(loader)(loader.dataset)

    def __iter__(self) -> _SingleProcessDataLoaderIter:
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def __next__(self) -> Any:
        return self._pass.given(self._fetch(next(self._pass.indices)))


# --- Batches made by workers ------------------------------------------------------------------------


@whole  # a second Ctrl-C does not wait
def _shut(processes: list[Any], connections: list[Any], folder: Folder) -> None:
    """End the workers: closing the connections requests it, and those that do not react are terminated."""
    folder.close()
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.close()
    for process in processes:
        process.join(0.5 if not process.is_alive() else 0.2)
    for process in processes:
        if process.is_alive():
            process.terminate()
    for process in processes:
        process.join(2)
        if process.is_alive():
            process.kill()
            process.join()
    folder.remove()


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """One pass, or with persistent workers every pass, through worker processes."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        context = loader.multiprocessing_context or multiprocessing.get_context()
        folder = Folder()
        self._connections: list[Any] = []
        self._processes: list[Any] = []
        self._closing = weakref.finalize(self, _shut, self._processes, self._connections, folder)
        fetcher = _Fetcher(loader)
        try:
            for number in range(loader.num_workers):
                task = Task(loader.dataset, fetcher, loader.worker_init_fn, number, loader.num_workers, folder.path)
                self._start(context, task)
            self._number = -1
            self.begin(loader)
        except BaseException:
            self._closing()
            raise

    @whole  # a process that runs is one that will be ended
    def _start(self, context: Any, task: Task) -> None:
        ours, theirs = context.Pipe()
        forked = context.get_start_method() == "fork"
        copied = (*self._connections, ours) if forked else ()
        process = context.Process(target=workers.run, args=(task, theirs, copied), daemon=True)
        try:
            process.start()
        finally:
            theirs.close()
        self._connections.append(ours)
        self._processes.append(process)

    def begin(self, loader: DataLoader[Any]) -> None:
        """Start a pass: a fresh order, a fresh seed, and the first requests to every worker."""
        self._pass = _Pass(loader)
        self._base_seed = self._pass.seed
        self._length = len(loader) if loader._dataset_kind == _DatasetKind.Map else None
        self._number += 1
        self._asked = 0
        self._ready: dict[int, Any] = {}
        self._asked_of: dict[int, int] = {}  # request -> worker
        self._working = list(range(len(self._connections)))  # workers whose stream has not ended
        self._next = 0
        start = Start(self._pass.seed)
        for at in self._working:
            self._tell(at, (None, start))
        for _ in range(self._pass.prefetch * len(self._working)):
            self._ask()

    def _tell(self, worker: int, message: Any) -> None:
        try:
            self._connections[worker].send(message)
        except (BrokenPipeError, ConnectionResetError):
            self._lost([worker])

    def _ask(self) -> None:
        """Request the next batch from the next worker in turn."""
        if not self._working:
            return
        try:
            index = next(self._pass.indices)
        except StopIteration:
            return
        worker = self._working[self._next % len(self._working)]
        self._next += 1
        self._asked_of[self._asked] = worker
        self._tell(worker, ((self._number, self._asked), index))
        self._asked += 1

    def __iter__(self) -> _MultiProcessingDataLoaderIter:
        return self

    def __len__(self) -> int:
        if self._length is None:
            raise TypeError("the length of a pass over a stream is not known")
        return self._length

    @property
    def closed(self) -> bool:
        """Whether the workers have ended."""
        return not self._closing.alive

    def __next__(self) -> Any:
        try:
            return self._batch()
        except StopIteration:
            if not self._pass.persistent:
                self._closing()
            raise
        except BaseException:
            self._closing()
            raise

    def _batch(self) -> Any:
        while True:
            number = self._wanted()
            if number is None:
                raise StopIteration
            if number not in self._ready:
                self._receive()
                continue
            answer = self._ready.pop(number)
            del self._asked_of[number]
            if answer == FINISHED:
                continue
            self._ask()
            if isinstance(answer, Failure):
                answer.reraise()
            return self._pass.given(unpacked(*answer))

    def _wanted(self) -> int | None:
        """Return the number of the request to be answered next; None when all are."""
        if not self._asked_of:
            return None
        if self._pass.in_order or not self._ready:
            return min(self._asked_of)
        return min(self._ready)

    def _receive(self) -> None:
        """Wait for a result of any worker; raise if one has died, or at the timeout."""
        sentinels = {process.sentinel: at for at, process in enumerate(self._processes)}
        timeout = self._pass.timeout or None
        found = multiprocessing.connection.wait([*self._connections, *sentinels], timeout)
        if not found:
            raise RuntimeError(f"DataLoader timed out after {self._pass.timeout} seconds")
        for worker, connection in enumerate(self._connections):
            if connection in found:
                try:
                    key, answer = connection.recv()
                except (EOFError, ConnectionResetError):
                    self._lost([worker])
                self._take(worker, key, answer)
                return
        self._lost([sentinels[sentinel] for sentinel in found])

    def _take(self, worker: int, key: tuple[int, int], answer: Any) -> None:
        number_of_pass, number = key
        if number_of_pass != self._number:  # requested in a pass that was left early
            if isinstance(answer, tuple):
                unpacked(*answer)
            return
        self._ready[number] = answer
        if answer == FINISHED and worker in self._working:
            self._working.remove(worker)
            self._ask()

    def _lost(self, which: list[int]) -> None:
        for at in which:
            self._processes[at].join(10)  # its pipe is closed: it is on its way out
        said = ", ".join(f"{self._processes[at].pid} (exit code {self._processes[at].exitcode})" for at in which)
        raise RuntimeError(
            f"DataLoader worker (pid(s) {said}) exited unexpectedly: it was killed, ran out of memory, or called exit; "
            "num_workers=0 runs the dataset in this process, where a debugger can follow"
        )


def pinned(data: Any) -> Any:
    """Return a batch with its tensors, and objects that have a ``pin_memory`` method, pinned."""
    if isinstance(data, TensorBase) or hasattr(data, "pin_memory"):
        return data.pin_memory()
    if isinstance(data, collections.abc.Mapping):
        return {key: pinned(value) for key, value in data.items()}
    if isinstance(data, tuple | list):
        return type(data)(pinned(value) for value in data)
    return data
