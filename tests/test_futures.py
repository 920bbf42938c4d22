"""Values that arrive later, what follows from them, and what goes wrong on the way; as in torch."""

from __future__ import annotations

import importlib
import pickle
import threading
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


def _in_threads(*calls: Any) -> None:
    """Make calls at the same time, each in a thread of its own."""
    together = threading.Barrier(len(calls))

    def make(call: Any) -> None:
        together.wait()
        call()

    threads = [threading.Thread(target=make, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_a_callback_runs_once_while_one_thread_waits_and_another_sets(futures: Any) -> None:
    for _ in range(20):
        part, seen, again = futures.Future(), [], threading.Event()
        whole = futures.collect_all([part])

        def note(_: Any, seen: list[int] = seen, again: threading.Event = again) -> int:
            if seen:
                again.set()
            seen.append(1)
            again.wait(0.005)  # a second call would come meanwhile
            return len(seen)

        following = whole.then(note)
        _in_threads(following.wait, following.wait, whole.wait, lambda part=part: part.set_result(1))  # type: ignore[misc]
        assert seen == [1] and following.wait() == 1


def test_only_one_of_several_threads_sets_a_value(futures: Any) -> None:
    future, seen, refused = futures.Future(), [], []
    future.add_done_callback(lambda f: seen.append(f.value()))

    def give() -> None:
        try:
            future.set_result(1)
        except RuntimeError:
            refused.append(1)

    _in_threads(give, give, give, future.wait)
    assert seen == [1] and len(refused) == 2


def test_order_of_callbacks_and_what_they_are_given(futures: Any) -> None:
    future, seen = futures.Future(), []
    future.add_done_callback(lambda f: (seen.append("first"), f.add_done_callback(lambda f: seen.append("inner"))))
    future.then(lambda f: seen.append("second"))
    future.add_done_callback(lambda f: seen.append(f.done()))
    future.set_result(None)
    assert seen == ["first", "inner", "second", True]


def test_refusals(futures: Any) -> None:
    with pytest.raises(AssertionError, match="not an Exception"):
        futures.Future().set_exception(KeyboardInterrupt())
    with pytest.raises(ValueError, match="Expected devices to have indices, got cpu"):
        futures.Future(devices=["cpu"])
    for given in ([1], None):
        with pytest.raises(TypeError, match="incompatible function arguments"):
            futures.collect_all(given)
    failed = futures.Future()
    chain = failed.then(lambda f: f.wait()).then(lambda f: f.wait())
    failed.set_exception(ValueError("the first"))
    with pytest.raises(RuntimeError, match="the first"):
        chain.wait()
