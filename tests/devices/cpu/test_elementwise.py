"""Large arrays in pieces: the same elements as without, whatever the layout and the number of threads."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import numpy as np
import pytest

from adjoint.devices.cpu import threads
from adjoint.devices.cpu.elementwise import elementwise


@pytest.fixture(params=[1, 2, 3])
def count(request: pytest.FixtureRequest) -> Iterator[int]:
    before = threads.count
    threads.set_count(request.param)
    yield request.param
    threads.set_count(before)


def rule(g, out):
    return g * (1 - out * out)


random = np.random.default_rng(0)
MATRIX = random.uniform(0.5, 1.5, (300, 1201)).astype(np.float32)
OTHER = random.uniform(0.5, 1.5, (300, 1201)).astype(np.float32)
CASES = {
    "one ufunc": (np.exp, MATRIX),
    "two operands": (np.multiply, MATRIX, OTHER),
    "a rule": (rule, MATRIX, OTHER),
    "a comparison": (np.less, MATRIX, OTHER),
    "a row": (rule, MATRIX, OTHER[0]),
    "a column": (rule, MATRIX, OTHER[:, :1]),
    "a number": (rule, MATRIX, np.float32(0.5)),
    "a Python number": (rule, MATRIX, 0.5),
    "a 0-d array": (rule, MATRIX, np.array(0.5, np.float32)),
    "transposed": (rule, MATRIX.T, OTHER.T),
    "of two layouts": (rule, MATRIX[:, :300].T, OTHER[:, :300]),
    "not dense": (rule, MATRIX[:, ::2], OTHER[:, ::2]),
    "reversed": (rule, MATRIX[::-1], OTHER),
    "the gradient of a sum": (rule, np.broadcast_to(np.float32(2), MATRIX.shape), OTHER),
    "the gradient of a row's sum": (rule, np.broadcast_to(OTHER[:, :1], MATRIX.shape), MATRIX),
    "numbers only": (np.negative, np.broadcast_to(np.float32(2), MATRIX.shape)),
    "a vector": (rule, MATRIX.reshape(-1), OTHER.reshape(-1)),
    "doubles": (rule, MATRIX.astype(np.float64), OTHER.astype(np.float64)),
    "of two dtypes": (np.add, MATRIX, OTHER.astype(np.float64)),
    "NaN and infinity": (np.log, np.where(MATRIX > 1, MATRIX, np.where(MATRIX > 0.7, -MATRIX, 0))),
}


@pytest.mark.parametrize("name", CASES)
def test_pieces_equal_the_whole(name: str, count: int) -> None:
    function, *operands = CASES[name]
    with np.errstate(all="ignore"):
        expected = function(*operands)
    found = elementwise(function, *operands)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    assert found.flags.writeable and 0 not in found.strides
    assert np.argsort(found.strides).tolist() == np.argsort(expected.strides).tolist()


def test_an_operand_handed_on_is_not_copied() -> None:
    assert elementwise(lambda g, y: g, MATRIX, OTHER) is MATRIX


def test_an_error_in_a_piece_reaches_the_caller(count: int) -> None:
    def refuse(x):
        if len(x) > 1:
            raise ValueError("not these")
        return x + 1

    with pytest.raises(ValueError, match="not these"):
        elementwise(refuse, MATRIX)
    np.testing.assert_array_equal(elementwise(np.negative, MATRIX), -MATRIX)  # the workers live on


def test_threads_may_share_at_the_same_time() -> None:
    found: list[bool] = []

    def program() -> None:
        for _ in range(20):
            found.append(bool((elementwise(rule, MATRIX, OTHER) == rule(MATRIX, OTHER)).all()))

    several = [threading.Thread(target=program) for _ in range(4)]
    for thread in several:
        thread.start()
    for thread in several:
        thread.join()
    assert len(found) == 80
    assert all(found)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_child_has_workers_of_its_own() -> None:
    before = threads.count
    threads.set_count(2)
    elementwise(rule, MATRIX, OTHER)
    child = os.fork()
    if child == 0:  # pytest must not go on in here
        equal = (elementwise(rule, MATRIX, OTHER) == rule(MATRIX, OTHER)).all()
        os._exit(0 if equal else 1)
    _, status = os.waitpid(child, 0)
    threads.set_count(before)
    assert status == 0
