"""Rows split among native threads give what one thread gives; a forked child does without them."""

from __future__ import annotations

import os

import numpy as np
import pytest

from adjoint.devices.cpu import provider, rows, threads

loops = pytest.importorskip("adjoint.devices.cpu.loops", reason="Numba is not installed")


def numbers(n: int = 1025, width: int = 130) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n, width)).astype(np.float32)


@pytest.mark.skipif(not provider.onednn_is_there(), reason="oneDNN is not installed")
@pytest.mark.parametrize("count", [2, 3, 7])
def test_pieces_give_what_one_call_gives(count: int) -> None:
    x, g = numbers(), numbers()[::-1].copy()
    mean, rstd, scale = x.mean(1), 1 / x.std(1), np.linspace(1, 2, x.shape[1], dtype=np.float32)
    whole, cut = np.empty_like(x), np.empty_like(x)
    sums, parts = np.zeros((2, 1, x.shape[1]), np.float32), np.zeros((2, count, x.shape[1]), np.float32)
    given, kinds = (g, x, scale, mean, rstd, True), "rrwvvbrpp"
    rows.run_rows(loops.norm_back_rows, kinds, *given, whole, *sums, count=1)
    rows.run_rows(loops.norm_back_rows, kinds, *given, cut, *parts, count=count)
    assert np.allclose(whole, cut, rtol=1e-5, atol=1e-6)
    assert np.allclose(sums[:, 0], parts.sum(1), rtol=1e-4, atol=1e-4)


def test_python_threads_do_the_same_without_openmp(monkeypatch: pytest.MonkeyPatch) -> None:
    x = numbers()
    whole, cut = np.empty_like(x), np.empty_like(x)
    loops.softmax_rows(x, whole)
    monkeypatch.setattr(rows, "thread_pool", lambda: None)
    monkeypatch.setattr(threads, "count", 2)
    rows.run_rows(loops.softmax_rows, "rr", x, cut, count=5)
    assert np.array_equal(whole, cut)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_shares_rows_by_itself() -> None:
    x = numbers()
    rows.run_rows(loops.softmax_rows, "rr", x, whole := np.empty_like(x), count=2)
    child = os.fork()
    if child == 0:
        cut = np.empty_like(x)
        rows.run_rows(loops.softmax_rows, "rr", x, cut, count=2)
        os._exit(0 if np.allclose(whole, cut, rtol=1e-5) else 1)
    assert os.waitpid(child, 0)[1] == 0
