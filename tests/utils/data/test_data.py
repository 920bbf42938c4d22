"""Datasets, samplers and collation, against PyTorch where it is installed."""

from __future__ import annotations

import collections
import copy
import itertools
import pickle
from collections.abc import Callable, Iterator
from typing import Any, cast

import numpy as np
import pytest

import adjoint
from adjoint.utils import data
from adjoint.utils.data import dataloader
from tests.oracle import needs_torch, outcome, torch

Point = collections.namedtuple("Point", "x y")


def both(program: Callable[[Any], Any]) -> None:
    """Assert that a program gives the same on both packages; of errors, the class and the start of the message."""
    mine, theirs = outcome(program, adjoint), outcome(program, torch)
    assert mine[0] == theirs[0], (mine, theirs)
    if mine[0] == "error":
        assert mine[1][0] == theirs[1][0], (mine, theirs)
        said = theirs[1][1].replace(" ", "")[:40]
        assert mine[1][1].replace(" ", "").startswith(said), (mine, theirs)
    elif "object at" not in repr(mine[1]):
        assert repr(mine[1]) == repr(theirs[1])


def D(T: Any) -> Any:
    return T.utils.data


def seeded(T: Any) -> Any:
    """Return the package, its default generator seeded."""
    T.manual_seed(7)
    return T.utils.data


def generator(T: Any, seed: int = 5) -> Any:
    made = T.Generator()
    made.manual_seed(seed)
    return made


def stream_of(T: Any, n: int) -> Any:
    class Stream(T.utils.data.IterableDataset):  # type: ignore[misc, name-defined]
        def __iter__(self) -> Iterator[int]:
            return iter(range(n))

    return Stream()


ORDERS: list[Callable[[Any], Any]] = [
    lambda T: list(seeded(T).RandomSampler(range(10))),
    lambda T: [list(seeded(T).RandomSampler(range(10), num_samples=23)), T.rand(2)],
    lambda T: list(seeded(T).RandomSampler(range(10), replacement=True)),
    lambda T: [list(seeded(T).RandomSampler(range(10), replacement=True, num_samples=70)), T.rand(1)],
    lambda T: [list(D(T).RandomSampler(range(10), generator=generator(T)))] * 2,
    lambda T: list(seeded(T).SubsetRandomSampler([3, 1, 4, 1, 5])),
    lambda T: list(seeded(T).WeightedRandomSampler([0.1, 0.5, 0.2, 3.0], 12)),
    lambda T: list(seeded(T).WeightedRandomSampler([0.1, 0.5, 0.2, 3.0], 3, replacement=False)),
    lambda T: [s.indices for s in seeded(T).random_split(range(10), [3, 7])],
    lambda T: [s.indices for s in D(T).random_split(range(11), [0.3, 0.3, 0.4], generator=generator(T))],
    lambda T: [[b.tolist() for b in seeded(T).DataLoader(range(10), batch_size=3, shuffle=True)], T.rand(2)],
    lambda T: [b.tolist() for b in D(T).DataLoader(range(10), 4, shuffle=True, generator=generator(T), drop_last=True)],
    lambda T: [[list(D(T).DataLoader(range(5), shuffle=True, generator=g)) for _ in range(3)] for g in [generator(T)]],
    lambda T: [list(D(T).DistributedSampler(range(10), 3, rank)) for rank in range(3)],
    lambda T: [list(D(T).DistributedSampler(range(10), 3, rank, drop_last=True, seed=4)) for rank in range(3)],
    lambda T: [list(D(T).DistributedSampler(range(2), 5, rank, shuffle=False)) for rank in range(5)],
    lambda T: [len(D(T).DistributedSampler(range(n), 3, 1, drop_last=d)) for n in range(3, 9) for d in (True, False)],
    lambda T: list(D(T).BatchSampler(D(T).SequentialSampler(range(7)), 3, True)),
    lambda T: [len(D(T).BatchSampler(range(n), 3, d)) for n in range(7) for d in (True, False)],
]


@needs_torch
@pytest.mark.parametrize("number", range(len(ORDERS)))
def test_the_same_seed_gives_the_same_order(number: int) -> None:
    both(ORDERS[number])


def test_an_order_that_torch_gives() -> None:
    adjoint.manual_seed(0)
    order = list(data.RandomSampler(range(10)))
    assert order == [6, 9, 0, 7, 3, 5, 4, 2, 1, 8]


SAMPLES: list[Callable[[Any], Any]] = [
    lambda T: [T.ones(2), T.zeros(2)],
    lambda T: [(T.ones(2), 1), (T.zeros(2), 2)],
    lambda T: [[1, 2.5], [3, 4.5]],
    lambda T: [{"a": 1, "b": [np.ones(2), np.float32(3)]}, {"a": 2, "b": [np.zeros(2), np.float32(4)]}],
    lambda T: ["a", "b"],
    lambda T: [b"a", b"b"],
    lambda T: [True, False],
    lambda T: [Point(1, 2.0), Point(3, 4.0)],
    lambda T: [collections.OrderedDict(a=1), collections.OrderedDict(a=2)],
    lambda T: [np.int16(1), np.int16(2)],
    lambda T: [np.array(1.5), np.array(2.5)],
    lambda T: [[], []],
    lambda T: [{"a": {"b": (1, "x")}}, {"a": {"b": (2, "y")}}],
    lambda T: [object()],
    lambda T: [[1], [1, 2]],
    lambda T: [np.array(["a"])],
    lambda T: [None],
    lambda T: [1 + 2j, 3j],
]


@needs_torch
@pytest.mark.parametrize("number", range(len(SAMPLES)))
def test_collation(number: int) -> None:
    both(lambda T: T.utils.data.default_collate(SAMPLES[number](T)))
    both(lambda T: T.utils.data.default_convert(SAMPLES[number](T)))


def test_collation_keeps_named_tuples_and_dtypes() -> None:
    made = data.default_collate([Point(1, np.float32(2)), Point(3, np.float32(4))])
    assert isinstance(made, Point) and made.x.dtype is adjoint.int64 and made.y.dtype is adjoint.float32
    assert data.default_collate([1.5, 2.5]).dtype is adjoint.float64


MISUSES: list[Callable[[Any], Any]] = [
    lambda T: D(T).DataLoader([1], shuffle=True, sampler=[0]),
    lambda T: D(T).DataLoader([1], batch_size=0),
    lambda T: D(T).DataLoader([1], batch_sampler=[[0]], batch_size=3),
    lambda T: D(T).DataLoader([1], batch_size=None, drop_last=True),
    lambda T: D(T).DataLoader([1], timeout=-1),
    lambda T: D(T).DataLoader([1], num_workers=-1),
    lambda T: D(T).DataLoader([1], prefetch_factor=2),
    lambda T: D(T).DataLoader([1], persistent_workers=True),
    lambda T: D(T).DataLoader([1], multiprocessing_context="fork"),
    lambda T: D(T).DataLoader([1], num_workers=1, multiprocessing_context="knife"),
    lambda T: D(T).DataLoader(stream_of(T, 3), shuffle=True),
    lambda T: D(T).DataLoader(stream_of(T, 3), sampler=[1]),
    lambda T: setattr(D(T).DataLoader([1]), "batch_size", 3),
    lambda T: len(D(T).DataLoader(stream_of(T, 3))),
    lambda T: D(T).random_split([1, 2], [1, 2]),
    lambda T: D(T).random_split([1, 2], [0.5, 0.6]),
    lambda T: D(T).random_split([1, 2], [1.5, -0.5]),
    lambda T: D(T).RandomSampler([]),
    lambda T: D(T).RandomSampler([1], num_samples=0),
    lambda T: D(T).BatchSampler([1], 0, False),
    lambda T: D(T).BatchSampler([1], 1, 1),
    lambda T: D(T).TensorDataset(T.ones(2), T.ones(3)),
    lambda T: D(T).StackDataset(),
    lambda T: D(T).StackDataset([1], [1, 2]),
    lambda T: D(T).Dataset()[0],
    lambda T: len(D(T).Dataset()),
    lambda T: D(T).ConcatDataset([]),
    lambda T: D(T).ConcatDataset([[1], [2]])[-3],
    lambda T: D(T).DistributedSampler([1], num_replicas=2, rank=3),
    lambda T: D(T).WeightedRandomSampler([0.1], -1),
    lambda T: D(T).WeightedRandomSampler([[0.1]], 1),
    lambda T: list(D(T).DataLoader([{"a": 1}, {"b": 1}], batch_size=2)),
]


@needs_torch
@pytest.mark.parametrize("number", range(len(MISUSES)))
def test_misuse_is_refused_as_in_torch(number: int) -> None:
    both(MISUSES[number])


PROGRAMS: list[Callable[[Any], Any]] = [
    lambda T: list(D(T).DataLoader(D(T).TensorDataset(T.arange(5), T.arange(5.0)), batch_size=2)),
    lambda T: list(D(T).DataLoader([T.ones(1), T.zeros(1)], batch_size=None)),
    lambda T: list(D(T).DataLoader(range(6), batch_sampler=[[0, 3], [5]])),
    lambda T: list(D(T).DataLoader(range(6), sampler=[4, 2])),
    lambda T: list(D(T).DataLoader(stream_of(T, 5), batch_size=2)),
    lambda T: list(D(T).DataLoader(stream_of(T, 5), batch_size=2, drop_last=True)),
    lambda T: list(D(T).DataLoader(stream_of(T, 3), batch_size=None)),
    lambda T: list(D(T).DataLoader(D(T).ChainDataset([stream_of(T, 2), stream_of(T, 3)]), batch_size=4)),
    lambda T: list(D(T).DataLoader(range(4), batch_size=2, collate_fn=lambda batch: sum(batch))),
    lambda T: [D(T).ConcatDataset([range(3), range(10, 12)])[i] for i in range(-5, 5)],
    lambda T: [len(D(T).DataLoader(range(7), batch_size=b, drop_last=d)) for b in (1, 2, 3) for d in (True, False)],
    lambda T: D(T).Subset(range(10), [3, 1])[1],
    lambda T: D(T).Subset(range(10), [3, 1]).__getitems__([1, 0]),
    lambda T: [D(T).StackDataset([1, 2], [3, 4])[1], D(T).StackDataset(a=[1, 2], b=[3, 4])[0]],
    lambda T: list(D(T).Subset(range(9), [2]) + D(T).Subset(range(9), [5])),
]


@needs_torch
@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_batches(number: int) -> None:
    both(PROGRAMS[number])


def test_a_stream_longer_than_it_says_warns() -> None:
    class Liar(data.IterableDataset[int]):
        def __len__(self) -> int:
            return 2

        def __iter__(self) -> Iterator[int]:
            return iter(range(5))

    loader = data.DataLoader(Liar())
    assert len(loader) == 2
    with pytest.warns(UserWarning, match="was reported to be 2"):
        list(loader)


def test_loaders_and_datasets_can_be_copied() -> None:
    loader = data.DataLoader(data.TensorDataset(adjoint.arange(4)), batch_size=2)
    for other in (copy.deepcopy(loader), pickle.loads(pickle.dumps(loader))):
        assert [b[0].tolist() for b in other] == [[0, 1], [2, 3]]
    assert isinstance(data.Dataset[int], object) and data.get_worker_info() is None


def test_a_loader_of_a_programs_own_is_known_by_its_attributes() -> None:
    # fastai gives PyTorch's iterators an object with the private attributes of a loader.
    class Own:
        _IterableDataset_len_called, _auto_collation, drop_last, in_order = None, False, False, True
        _index_sampler, generator, prefetch_factor, timeout = itertools.repeat(None), None, 2, 0
        _dataset_kind, num_workers, pin_memory, persistent_workers = dataloader._DatasetKind.Iterable, 0, False, False

        def __init__(self) -> None:
            self.dataset: Any = [1, 2, 3]

        def collate_fn(self, x: Any) -> Any:
            return x * 10

    assert list(dataloader._SingleProcessDataLoaderIter(cast(Any, Own()))) == [10, 20, 30]
