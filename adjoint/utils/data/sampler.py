"""In which order a dataset is read, and by which process."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

from ...core import dtypes
from ...ops.create import as_tensor, empty
from ...ops.random import Generator, multinomial, randint, randperm

__all__ = [
    "BatchSampler", "DistributedSampler", "RandomSampler", "Sampler", "SequentialSampler", "SubsetRandomSampler",
    "WeightedRandomSampler",
]  # fmt: skip


_T_co = TypeVar("_T_co", covariant=True)


def drawn_seed(generator: Any = None) -> int:
    """Return a random seed from a generator, or from the default one."""
    return int(empty((), dtype=dtypes.int64).random_(generator=generator).item())


def _check_count(num_samples: Any) -> None:
    if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
        raise ValueError(f"num_samples should be a positive integer value, but got num_samples={num_samples}")


class Sampler(Generic[_T_co]):
    """Base class of the orders in which a `DataLoader` takes samples.

    A subclass has ``__iter__`` over indices, and mostly ``__len__``.

    Examples
    --------
    >>> class Reversed(adjoint.utils.data.Sampler):
    ...     def __init__(self, dataset):
    ...         self.dataset = dataset
    ...
    ...     def __iter__(self):
    ...         return iter(range(len(self.dataset) - 1, -1, -1))
    ...
    ...     def __len__(self):
    ...         return len(self.dataset)
    >>> data = ["a", "b", "c"]
    >>> list(adjoint.utils.data.DataLoader(data, batch_size=2, sampler=Reversed(data)))
    [['c', 'b'], ['a']]
    """

    def __iter__(self) -> Iterator[_T_co]:
        raise NotImplementedError


class SequentialSampler(Sampler[int]):
    """Indices in ascending order."""

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """Indices in random order, or at random with replacement.

    Parameters
    ----------
    data_source : sized
        The dataset; only its length n is used.
    replacement : bool, default False
        Whether an index may occur several times in one pass.
    num_samples : int, optional
        Indices of one pass; n by default. Without replacement all indices occur once before any occurs again.
    generator : Generator, optional
        Source of random numbers; by default a new one, seeded from the default generator.

    Raises
    ------
    ValueError
        If `num_samples` is not a positive number.

    Examples
    --------
    >>> from adjoint.utils.data import RandomSampler
    >>> list(RandomSampler(range(4), generator=adjoint.Generator().manual_seed(0)))
    [0, 1, 3, 2]
    >>> len(list(RandomSampler(range(4), replacement=True, num_samples=6)))
    6
    """

    def __init__(
        self, data_source: Sized, replacement: bool = False, num_samples: int | None = None, generator: Any = None
    ) -> None:
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator
        if not isinstance(replacement, bool):
            raise TypeError(f"replacement should be a boolean value, but got replacement={replacement}")
        _check_count(self.num_samples)

    @property
    def num_samples(self) -> int:
        """How many samples one pass has."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        n = len(self.data_source)
        generator = self.generator
        if generator is None:
            generator = Generator()
            generator.manual_seed(drawn_seed())
        if self.replacement:
            for _ in range(self.num_samples // 32):
                yield from randint(high=n, size=(32,), dtype=dtypes.int64, generator=generator).tolist()
            rest = self.num_samples % 32
            yield from randint(high=n, size=(rest,), dtype=dtypes.int64, generator=generator).tolist()
        else:
            for _ in range(self.num_samples // n):
                yield from randperm(n, generator=generator).tolist()
            yield from randperm(n, generator=generator).tolist()[: self.num_samples % n]

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Given indices in random order."""

    def __init__(self, indices: Sequence[int], generator: Any = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Random indices with given weights, which need not sum to one."""

    def __init__(
        self, weights: Sequence[float], num_samples: int, replacement: bool = True, generator: Any = None
    ) -> None:
        _check_count(num_samples)
        if not isinstance(replacement, bool):
            raise ValueError(f"replacement should be a boolean value, but got replacement={replacement}")
        self.weights = as_tensor(weights, dtype=dtypes.float64)
        if len(self.weights.shape) != 1:
            raise ValueError(
                f"weights should be a 1d sequence but given weights have shape {tuple(self.weights.shape)}"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        drawn = multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)
        yield from drawn.tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Lists of indices that another sampler yields one by one.

    Parameters
    ----------
    sampler : iterable of int
        The indices.
    batch_size : int
        Indices in each list.
    drop_last : bool
        Whether to leave out a last list that has fewer.

    Raises
    ------
    ValueError
        If `batch_size` is not a positive integer or `drop_last` not a boolean.

    Examples
    --------
    >>> from adjoint.utils.data import BatchSampler
    >>> list(BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    >>> list(BatchSampler(range(5), batch_size=2, drop_last=True))
    [[0, 1], [2, 3]]
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if not isinstance(drop_last, bool):
            raise ValueError(f"drop_last should be a boolean value, but got drop_last={drop_last}")
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        indices = iter(self.sampler)
        while batch := list(itertools.islice(indices, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


class DistributedSampler(Sampler[int]):
    """The indices of one process out of several: every `num_replicas`-th sample.

    Every process gets as many. Call `set_epoch` before each pass, so that the order differs from pass to pass.

    Parameters
    ----------
    dataset : sized
        The dataset; only its length n is used.
    num_replicas : int, optional
        Number of processes; by default those of the process group.
    rank : int, optional
        Number of this process; by default its rank in the process group.
    shuffle : bool, default True
        Whether to shuffle, for all processes alike.
    seed : int, default 0
        Seed of the order, to which the epoch is added; the same on every process.
    drop_last : bool, default False
        Whether to leave out samples where `num_replicas` does not divide n. Otherwise some samples occur twice.

    Raises
    ------
    ValueError
        If `rank` is not in the range of `num_replicas`.

    Examples
    --------
    >>> from adjoint.utils.data import DistributedSampler
    >>> list(DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False))
    [1, 3, 0]
    >>> list(DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False, drop_last=True))
    [1, 3]
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            # The group that runs now; a program that names its share itself needs no such group.
            from ... import distributed

            num_replicas = distributed.get_world_size() if num_replicas is None else num_replicas
            rank = distributed.get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset = dataset
        self.num_replicas, self.rank = num_replicas, rank
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        self.epoch = 0
        count = len(dataset)
        self.num_samples = count // num_replicas if drop_last else math.ceil(count / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        indices = list(range(len(self.dataset)))
        if self.shuffle:
            generator = Generator()
            generator.manual_seed(self.seed + self.epoch)
            indices = randperm(len(indices), generator=generator).tolist()
        if not self.drop_last:  # some come twice, so that every process has as many
            missing = self.total_size - len(indices)
            indices += (indices * math.ceil(missing / len(indices)))[:missing] if missing else []
        return iter(indices[: self.total_size][self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Choose the order of another pass; every process must choose the same."""
        self.epoch = epoch
