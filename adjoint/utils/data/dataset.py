"""Datasets: by index or as a stream, and ways to join, pair and split them."""

from __future__ import annotations

import bisect
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

from ...ops.random import default_generator, randperm

__all__ = [
    "ChainDataset", "ConcatDataset", "Dataset", "IterableDataset", "StackDataset", "Subset", "TensorDataset",
    "random_split",
]  # fmt: skip

_T_co = TypeVar("_T_co", covariant=True)


class Dataset(Generic[_T_co]):
    """Base class of datasets whose samples have an index.

    A subclass has ``__getitem__``, and ``__len__`` for samplers. Where there is a ``__getitems__``, which takes a list
    of indices, loaders call that. ``a + b`` is a dataset of the samples of both.

    Examples
    --------
    >>> class Squares(adjoint.utils.data.Dataset):
    ...     def __len__(self):
    ...         return 4
    ...
    ...     def __getitem__(self, index):
    ...         return index, float(index**2)
    >>> for batch in adjoint.utils.data.DataLoader(Squares(), batch_size=2):
    ...     print(batch)
    [tensor([0, 1]), tensor([0., 1.], dtype=adjoint.float64)]
    [tensor([2, 3]), tensor([4., 9.], dtype=adjoint.float64)]
    """

    def __getitem__(self, index: Any) -> _T_co:
        raise NotImplementedError("Subclasses of Dataset should implement __getitem__.")

    def __add__(self, other: Any) -> Any:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[_T_co]):
    """Base class of datasets that are streams of samples.

    A subclass has ``__iter__``. Every worker of a loader gets a copy: a copy finds its part of the stream by
    `get_worker_info`.

    Examples
    --------
    >>> class Lines(adjoint.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         yield from ["first", "second", "third"]
    >>> list(adjoint.utils.data.DataLoader(Lines(), batch_size=2))
    [['first', 'second'], ['third']]
    """

    def __iter__(self) -> Iterator[_T_co]:
        raise NotImplementedError("Subclasses of IterableDataset should implement __iter__.")

    def __add__(self, other: Any) -> Any:
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Any, ...]]):
    """Tensors side by side: sample i is the tuple of element i of each.

    Parameters
    ----------
    *tensors : Tensor
        Tensors with first dimensions of one size.

    Raises
    ------
    AssertionError
        If the first dimensions differ.

    Examples
    --------
    >>> from adjoint.utils.data import TensorDataset
    >>> TensorDataset(adjoint.arange(3), adjoint.ones(3, 2))[1]
    (tensor(1), tensor([1., 1.]))
    """

    def __init__(self, *tensors: Any) -> None:
        if any(tensor.size(0) != tensors[0].size(0) for tensor in tensors):
            raise AssertionError(
                f"Size mismatch between tensors: their first dimensions are {[tensor.size(0) for tensor in tensors]}"
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple(tensor[index] for tensor in self.tensors)

    def __len__(self) -> int:
        return int(self.tensors[0].size(0))


class StackDataset(Dataset[Any]):
    """Datasets side by side: a sample is the tuple, or by keyword the dict, of their samples."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError(
                "Supported either ``tuple``- (via ``args``) or``dict``- (via ``kwargs``) like input/output, "
                "but both types are given."
                if args
                else "At least one dataset should be passed"
            )
        self.datasets: Any = args or kwargs
        each = list(kwargs.values()) or list(args)
        if any(len(dataset) != len(each[0]) for dataset in each):
            raise ValueError("Size mismatch between datasets")
        self._length = len(each[0])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple(dataset[index] for dataset in self.datasets)

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[_T_co]):
    """Datasets one after the other, by index."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("datasets should not be an empty iterable")
        if any(isinstance(dataset, IterableDataset) for dataset in self.datasets):
            raise AssertionError("ConcatDataset does not support IterableDataset; ChainDataset does")
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Iterable[Any]) -> list[int]:
        """Return where each dataset ends."""
        return list(accumulate(len(dataset) for dataset in sequence))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, idx: int) -> Any:
        if idx < 0:
            if -idx > len(self):
                raise ValueError("absolute value of index should not exceed dataset length")
            idx += len(self)
        at = bisect.bisect_right(self.cumulative_sizes, idx)
        return self.datasets[at][idx - (self.cumulative_sizes[at - 1] if at else 0)]

    @property
    def cummulative_sizes(self) -> list[int]:
        """The old spelling of `cumulative_sizes`."""
        warnings.warn("cummulative_sizes attribute is renamed to cumulative_sizes", DeprecationWarning, stacklevel=2)
        return self.cumulative_sizes


class ChainDataset(IterableDataset[Any]):
    """Streams one after the other."""

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def _checked(self) -> Iterator[Any]:
        for dataset in self.datasets:
            if not isinstance(dataset, IterableDataset):
                raise AssertionError("ChainDataset only supports IterableDataset")
            yield dataset

    def __iter__(self) -> Iterator[Any]:
        for dataset in self._checked():
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self._checked())


class Subset(Dataset[_T_co]):
    """Some samples of a dataset, by their indices.

    Parameters
    ----------
    dataset : Dataset
        Where the samples come from.
    indices : sequence of int
        Which of them, in order.

    Examples
    --------
    >>> part = adjoint.utils.data.Subset(["a", "b", "c", "d"], [3, 1])
    >>> len(part), part[0]
    (2, 'd')
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        chosen = [self.indices[i] for i in indices]
        if callable(getattr(self.dataset, "__getitems__", None)):
            return self.dataset.__getitems__(chosen)  # type: ignore[no-any-return]
        return [self.dataset[i] for i in chosen]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(dataset: Any, lengths: Sequence[float], generator: Any = default_generator) -> list[Subset[Any]]:
    """Split a dataset at random into parts.

    Parameters
    ----------
    dataset : Dataset
        A dataset with a length n.
    lengths : sequence of int or float
        Samples in each part, with the sum n; or fractions with the sum 1. What rounding down the fractions leaves over
        goes to the first parts, one sample to each.
    generator : Generator, optional
        Source of random numbers; the default generator if none is given.

    Returns
    -------
    list of Subset
        The parts.

    Raises
    ------
    ValueError
        If the lengths do not add up to n.

    Examples
    --------
    >>> from adjoint.utils.data import random_split
    >>> [len(part) for part in random_split(range(10), [0.75, 0.25])]
    [8, 2]
    >>> train, test = random_split(range(10), [8, 2], generator=adjoint.Generator().manual_seed(0))
    >>> list(test)
    [6, 2]
    """
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        lengths = _counts(len(dataset), lengths)
    if sum(lengths) != len(dataset):
        raise ValueError(
            "Sum of input lengths does not equal the length of the input dataset! "
            f"The lengths {list(lengths)} make {sum(lengths)}, the dataset has {len(dataset)}"
        )
    indices = randperm(len(dataset), generator=generator).tolist()
    ends = list(accumulate(lengths))
    return [Subset(dataset, indices[int(end - length) : int(end)]) for end, length in zip(ends, lengths, strict=True)]


def _counts(total: int, fractions: Sequence[float]) -> list[int]:
    """Return how many samples each fraction is; what rounding leaves goes to the first ones."""
    for at, fraction in enumerate(fractions):
        if not 0 <= fraction <= 1:
            raise ValueError(f"Fraction at index {at} is not between 0 and 1")
    counts = [math.floor(total * fraction) for fraction in fractions]
    for at in range(total - sum(counts)):
        counts[at % len(counts)] += 1
    for at, count in enumerate(counts):
        if count == 0:
            warnings.warn(f"Length of split at index {at} is 0. This might result in an empty dataset.", stacklevel=3)
    return counts
