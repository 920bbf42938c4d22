"""Words that processes share: in one process, in a file, by TCP; as in torch."""

from __future__ import annotations

import importlib
import multiprocessing
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(params=["adjoint", "torch"])
def dist(request: Any) -> Any:
    if request.param == "torch":
        pytest.importorskip("torch", reason="the second opinion")
    return importlib.import_module(f"{request.param}.distributed")


@pytest.fixture(params=["hash", "file", "tcp", "prefix"])
def store(dist: Any, request: Any, tmp_path: Path) -> Any:
    if request.param == "file":
        return dist.FileStore(str(tmp_path / "words"), 1)
    if request.param == "tcp":
        return dist.TCPStore("127.0.0.1", 0, 1, True)
    return dist.HashStore() if request.param == "hash" else dist.PrefixStore("mine", dist.HashStore())


def test_words_and_numbers(store: Any) -> None:
    before = store.num_keys()
    store.set("a", "1")
    assert store.get("a") == b"1" and store.num_keys() == before + 1 and store.check(["a"]) and not store.check(["b"])
    assert (store.add("n", 3), store.add("n", -1), store.get("n")) == (3, 2, b"2")


def test_what_only_some_of_torchs_can(dist: Any) -> None:
    store = dist.HashStore()
    store.set("a", "1")
    assert [store.compare_set("a", "1", "2"), store.compare_set("q", "x", "2"), store.get("a")] == [b"2", b"x", b"2"]
    assert store.delete_key("a") and not store.delete_key("a")
    store.append("w", "ab")
    store.append("w", "c")
    store.multi_set(["x", "y"], ["1", "2"])
    assert store.multi_get(["w", "x", "y"]) == [b"abc", b"1", b"2"]


def test_waiting(dist: Any, store: Any) -> None:
    # Who waits in torch's TCPStore holds it: the word comes from a client of its own.
    other = dist.TCPStore("127.0.0.1", store.port, 1, False) if isinstance(store, dist.TCPStore) else store
    asked = threading.Event()
    setter = threading.Thread(target=lambda: (asked.wait(), other.set("late", "here")))
    setter.start()
    asked.set()
    assert store.get("late") == b"here"
    setter.join()
    with pytest.raises(RuntimeError, match=r"(?i)wait timeout"):
        store.wait(["never"], timedelta(milliseconds=20))


def _count(port: int) -> None:
    from adjoint.distributed import TCPStore

    store = TCPStore("127.0.0.1", port)
    for _ in range(50):
        store.add("n", 1)


def test_processes_count_together() -> None:
    from adjoint.distributed import TCPStore

    store = TCPStore("127.0.0.1", 0, is_master=True)
    workers = [multiprocessing.get_context("spawn").Process(target=_count, args=(store.port,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert store.get("n") == b"100"
