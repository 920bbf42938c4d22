"""Values that arrive later, what follows from them, and what goes wrong on the way; as in torch."""

from __future__ import annotations

import importlib
import pickle
from typing import Any

import pytest


@pytest.fixture(params=["adjoint", "torch"])
def futures(request: Any) -> Any:
    if request.param == "torch":
        pytest.importorskip("torch", reason="the second opinion")
    return importlib.import_module(f"{request.param}.futures")


def test_a_value_is_set_once_and_followed(futures: Any) -> None:
    future, seen = futures.Future(), []
    doubled = future.then(lambda f: 2 * f.value())
    future.add_done_callback(lambda f: seen.append(f.wait()))
    assert not future.done() and not doubled.done()
    future.set_result(3)
    assert (future.wait(), doubled.wait(), seen) == (3, 6, [3])
    with pytest.raises(RuntimeError, match="can only be marked completed once"):
        future.set_result(4)
    with pytest.raises(RuntimeError, match="Can not pickle"):
        pickle.dumps(future)


@pytest.mark.filterwarnings("ignore")
def test_errors(futures: Any) -> None:
    future = futures.Future()
    failed = future.then(lambda f: 1 // 0)
    future.add_done_callback(lambda f: 1 // 0)  # heard of, and no more
    future.set_result(1)
    assert future.wait() == 1
    with pytest.raises(RuntimeError, match="Got the following error when running the callback: ZeroDivisionError"):
        failed.wait()
    broken = futures.Future()
    broken.set_exception(ValueError("boom"))
    for ask in (broken.wait, broken.value, lambda: futures.wait_all([broken])):
        with pytest.raises(ValueError, match="boom"):
            ask()
    with pytest.raises(AssertionError, match="not an Exception"):
        futures.Future().set_exception("text")
    with pytest.raises(TypeError, match="incompatible function arguments"):
        future.then(5)


def test_several(futures: Any) -> None:
    parts = [futures.Future() for _ in range(2)]
    whole = futures.collect_all(parts)
    parts[1].set_result("b")
    assert not whole.done()
    parts[0].set_result("a")
    assert whole.done() and [part.wait() for part in whole.wait()] == ["a", "b"] == futures.wait_all(parts)
