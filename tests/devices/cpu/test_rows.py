"""Rows split among native threads give what one thread gives; a forked child does without them."""

from __future__ import annotations

import os

import numpy as np
import pytest

from adjoint.devices.cpu import provider, rows, rowwise, threads

loops = pytest.importorskip("adjoint.devices.cpu.loops", reason="Numba is not installed")


def numbers(n: int = 1025, width: int = 130) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((n, width)).astype(np.float32)


@pytest.mark.skipif(not provider.onednn_is_there(), reason="oneDNN is not installed")
@pytest.mark.parametrize("count", [2, 3, 7])
def test_pieces_give_what_one_call_gives(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    x, g = numbers(), numbers()[::-1].copy()
    mean, rstd = x.mean(1, keepdims=True), 1 / x.std(1, keepdims=True)
    scale = np.linspace(1, 2, x.shape[1], dtype=np.float32)
    backward, given = rowwise.kernels["layer_norm", "g"], (g, x, scale, mean, rstd, (1,), scale.shape, 1e-5)
    monkeypatch.setattr(threads, "count", 1)
    whole = backward(*given, needs=(True, True, True))
    monkeypatch.setattr(threads, "count", count)
    cut = backward(*given, needs=(True, True, True))
    assert np.allclose(whole[0], cut[0], rtol=1e-5, atol=1e-6)
    assert all(np.allclose(a, b, rtol=1e-4, atol=1e-4) for a, b in zip(whole[1:], cut[1:], strict=True))


def test_python_threads_do_the_same_without_openmp(monkeypatch: pytest.MonkeyPatch) -> None:
    x = numbers()
    whole, cut = np.empty(len(x), np.float32), np.empty(len(x), np.float32)
    loops.product_rows(x, whole)
    monkeypatch.setattr(rows, "thread_pool", lambda: None)
    monkeypatch.setattr(threads, "count", 2)
    rows.run_rows(loops.product_rows, "rv", x, cut, count=5)
    assert np.array_equal(whole, cut)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_shares_rows_by_itself() -> None:
    x = numbers()
    rows.run_rows(loops.product_rows, "rv", x, whole := np.empty(len(x), np.float32), count=2)
    child = os.fork()
    if child == 0:
        cut = np.empty(len(x), np.float32)
        rows.run_rows(loops.product_rows, "rv", x, cut, count=2)
        os._exit(0 if np.allclose(whole, cut, rtol=1e-5) else 1)
    assert os.waitpid(child, 0)[1] == 0
