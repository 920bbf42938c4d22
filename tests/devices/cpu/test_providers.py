"""Kernels of all providers agree: with NumPy alone, and with oneDNN and Numba where they are installed."""

from __future__ import annotations

import importlib.util
import multiprocessing
import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest

import adjoint
from adjoint.devices.cpu import provider

F = adjoint.nn.functional
rng = np.random.default_rng(0)


def leaf(*shape: int, scale: float = 1.0) -> np.ndarray:
    return (rng.standard_normal(shape) * scale).astype(np.float32)


LABELS = rng.integers(0, 257, 300)
PLACES = adjoint.from_numpy(rng.integers(0, 257, (300, 257)))

# A name, a function of its leaves, and their shapes: each large enough for every provider.
CASES = {
    "softmax": (lambda x: F.softmax(x, -1), [(300, 257)]),
    "softmax of columns": (lambda x: F.softmax(x, 0), [(300, 257)]),
    "log_softmax": (lambda x: F.log_softmax(x, -1), [(300, 257)]),
    "cross_entropy": (lambda x: F.cross_entropy(x, adjoint.from_numpy(LABELS)), [(300, 257)]),
    "cross_entropy, sum": (lambda x: F.cross_entropy(x, adjoint.from_numpy(LABELS), reduction="sum"), [(300, 257)]),
    "cross_entropy, ignored": (lambda x: F.cross_entropy(x, adjoint.from_numpy(LABELS), ignore_index=3), [(300, 257)]),
    "logsumexp": (lambda x: adjoint.logsumexp(x, (1, 2)), [(300, 10, 25)]),
    "prod": (lambda x: (1 + 0.1 * x).prod(1), [(300, 257)]),
    "prod with zeros": (lambda x: adjoint.where(x > 2.9, 0.0, 1 + 0.1 * x).prod(1, keepdim=True), [(300, 257)]),
    "sum of columns": (lambda x: x.sum((0, 1)), [(3, 101, 257)]),
    "mse_loss": (F.mse_loss, [(300, 257)] * 2),
    "bias": (lambda x, b: x + b, [(300, 257), (257,)]),
    "gelu": (F.gelu, [(300, 257)]),
    "gelu, tanh": (lambda x: F.gelu(x, approximate="tanh"), [(300, 257)]),
    "silu": (F.silu, [(300, 257)]),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (257,), w, b), [(300, 257), (257,), (257,)]),
    "layer_norm, bare": (lambda x: F.layer_norm(x, (257,)), [(300, 257)]),
    "rms_norm": (lambda x, w: F.rms_norm(x, (257,), w), [(300, 257), (257,)]),
    "batch_norm": (
        lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
        [(8, 16, 24, 25), (16,), (16,)],
    ),
    "group_norm": (lambda x, w, b: F.group_norm(x, 4, w, b), [(8, 16, 24, 25), (16,), (16,)]),
    "instance_norm": (lambda x: F.instance_norm(x), [(8, 16, 24, 25)]),
    "attention": (F.scaled_dot_product_attention, [(2, 3, 70, 16)] * 3),
    "attention, causal": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        [(2, 3, 70, 16), (2, 3, 90, 16), (2, 3, 90, 24)],
    ),
    "attention, long": (F.scaled_dot_product_attention, [(1, 600, 8), (1, 400, 8), (1, 400, 8)]),
    "attention, wide": (F.scaled_dot_product_attention, [(2, 70, 256)] * 3),
    "attention, causal in blocks": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        [(3, 300, 16), (3, 170, 16), (3, 170, 16)],
    ),
    "attention, of split rows": (
        lambda q, k, v: F.scaled_dot_product_attention(
            q.transpose(1, 2), k.expand(2, 70, 3, 16).transpose(1, 2), v.t().expand(2, 3, 70, 16)
        ),
        [(2, 70, 3, 16), (2, 70, 1, 16), (16, 70)],
    ),
    "conv1d": (lambda x, w, b: F.conv1d(x, w, b, 2, 3), [(4, 16, 400), (24, 16, 5), (24,)]),
    "conv2d": (lambda x, w, b: F.conv2d(x, w, b, padding=1), [(4, 16, 40, 41), (24, 16, 3, 3), (24,)]),
    "conv2d, strided": (
        lambda x, w: F.conv2d(x, w, stride=(2, 3), dilation=2, groups=2),
        [(4, 16, 60, 61), (24, 8, 3, 3)],
    ),
    "conv2d, depthwise": (lambda x, w: F.conv2d(x, w, padding=1, groups=16), [(4, 16, 40, 41), (16, 1, 3, 3)]),
    "conv2d, one by one": (lambda x, w: F.conv2d(x, w), [(4, 16, 40, 41), (24, 16, 1, 1)]),
    "conv3d": (lambda x, w: F.conv3d(x, w, padding=1), [(2, 8, 16, 17, 18), (8, 8, 3, 3, 3)]),
    "conv_transpose2d": (
        lambda x, w, b: F.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1),
        [(4, 16, 40, 41), (16, 12, 3, 3), (12,)],
    ),
    "max_pool1d": (lambda x: F.max_pool1d(x, 3, 2, 1), [(16, 32, 700)]),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), [(16, 16, 40, 41)]),
    "max_pool2d, overlapping": (lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True), [(16, 16, 40, 41)]),
    "max_pool3d": (lambda x: F.max_pool3d(x, 2), [(4, 8, 18, 22, 24)]),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), [(16, 16, 40, 41)]),
    "grid_sample": (lambda x, g: F.grid_sample(x, g, align_corners=False), [(4, 8, 20, 21), (4, 30, 31, 2)]),
    "grid_sample, at the border": (
        lambda x, g: F.grid_sample(x, g, padding_mode="border", align_corners=True),
        [(4, 8, 20, 21), (4, 30, 31, 2)],
    ),
    "running sums down": (lambda x: x.cumsum(1), [(3, 100, 257)]),
    "running sums along": (lambda x: x.cumsum(-1), [(300, 257)]),
    "smallest down": (lambda x: x.min(1)[0], [(3, 100, 257)]),
    "largest down": (lambda x: x.max(0, keepdim=True)[0], [(300, 257)]),
    "sort": (lambda x: x.sort(1, descending=True)[0], [(300, 257)]),
    "topk": (lambda x: x.topk(7, 1, largest=False)[0], [(300, 257)]),
    "gather": (lambda x: x.gather(1, PLACES), [(300, 257)]),
    "scatter_add": (lambda x, y: x.scatter_add(1, PLACES, y), [(300, 257), (300, 257)]),
    "index_select": (lambda x: x.index_select(0, PLACES[:, 0]), [(300, 257)]),
    "embedding": (lambda x: F.embedding(PLACES[:, :3], x), [(300, 257)]),
    "bmm": (adjoint.bmm, [(12, 40, 50), (12, 50, 60)]),
    "matmul of batches": (adjoint.matmul, [(3, 4, 40, 50), (3, 4, 50, 60)]),
}


@pytest.fixture(params=["numpy", "fast"])
def chosen(request: pytest.FixtureRequest) -> Iterator[str]:
    """Run a test with NumPy alone, and with what is installed."""
    before = provider.allow(request.param == "fast")
    yield request.param
    provider.allow(before)


def results(name: str, dtype: type, seed: int = 1) -> list[np.ndarray]:
    """Return the value and the gradients of a case, of leaves drawn in float32."""
    function, shapes = CASES[name]
    draw = np.random.default_rng(seed)
    leaves = [
        adjoint.from_numpy(draw.standard_normal(s).astype(np.float32).astype(dtype)).requires_grad_() for s in shapes
    ]
    out = function(*leaves)
    out.backward(adjoint.from_numpy(draw.standard_normal(tuple(out.shape)).astype(np.float32).astype(dtype)))
    return [out.detach().numpy(), *(x.grad.numpy() for x in leaves)]


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_double_precision(name: str, chosen: str) -> None:
    for mine, exact in zip(results(name, np.float32), results(name, np.float64), strict=True):
        assert mine.dtype == np.float32 and mine.shape == exact.shape
        np.testing.assert_allclose(mine, exact, rtol=0, atol=2e-5 * max(np.abs(exact).max(), 1e-3))


@pytest.mark.parametrize("name", ["gelu", "softmax", "layer_norm", "group_norm", "attention", "conv2d", "max_pool2d"])
def test_the_gradient_can_be_differentiated_again(name: str, chosen: str) -> None:
    function, shapes = CASES[name]

    def penalty(dtype: type) -> np.ndarray:
        draw = np.random.default_rng(2)
        x, *rest = (adjoint.from_numpy(draw.standard_normal(s).astype(dtype)).requires_grad_() for s in shapes)
        (g,) = adjoint.autograd.grad((function(x, *rest) ** 2).sum(), x, create_graph=True)
        (h,) = adjoint.autograd.grad((g**2).sum(), x)
        return h.numpy()

    exact = penalty(np.float64)
    np.testing.assert_allclose(penalty(np.float32), exact, rtol=0, atol=2e-4 * np.abs(exact).max())


@pytest.mark.parametrize("function", [F.softmax, F.log_softmax])
def test_softmax_of_infinities_and_nans(function: object, chosen: str) -> None:
    x = leaf(64, 1024)
    x[0], x[1, 5], x[2, :500], x[3, 7] = -np.inf, np.nan, -np.inf, np.inf
    out = function(adjoint.from_numpy(x), -1).numpy()  # type: ignore[operator]
    assert np.isnan(out[[0, 1, 3]]).all()
    assert np.isfinite(out[4:]).all() and not np.isnan(out[2]).any()


def test_a_nan_is_the_largest_of_its_window(chosen: str) -> None:
    x = leaf(16, 16, 40, 40)
    x[3, 4, 10, 10] = np.nan
    out = F.max_pool2d(adjoint.from_numpy(x), 2).numpy()
    assert np.isnan(out[3, 4, 5, 5]) and np.isnan(out).sum() == 1


def test_ties_go_to_the_first_of_a_window(chosen: str) -> None:
    x = adjoint.from_numpy(np.zeros((16, 16, 40, 40), np.float32)).requires_grad_()
    F.max_pool2d(x, 2).sum().backward()
    assert x.grad[0, 0, :2, :2].tolist() == [[1.0, 0.0], [0.0, 0.0]]


def test_operands_of_any_layout(chosen: str) -> None:
    x, w = leaf(4, 40, 41, 16), leaf(24, 16, 3, 3)
    moved = adjoint.from_numpy(x).permute(0, 3, 1, 2)
    mine = F.conv2d(moved, adjoint.from_numpy(w), padding=1).numpy()
    plain = F.conv2d(moved.contiguous(), adjoint.from_numpy(w), padding=1).numpy()
    np.testing.assert_allclose(mine, plain, atol=1e-4)
    rows = adjoint.from_numpy(leaf(257, 300)).t()
    np.testing.assert_allclose(F.softmax(rows, 1).numpy(), F.softmax(rows.contiguous(), 1).numpy(), atol=1e-6)
    expanded = adjoint.from_numpy(leaf(1, 257)).expand(300, 257)
    np.testing.assert_allclose(F.gelu(expanded).numpy(), F.gelu(expanded.contiguous()).numpy(), atol=1e-6)


def test_kernels_run_in_several_threads_at_once(chosen: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    names = ["conv2d", "softmax", "layer_norm", "attention", "bmm", "max_pool2d"] * 2
    alone = {name: results(name, np.float32) for name in set(names)}
    with ThreadPoolExecutor(4) as pool:
        for name, found in zip(names, pool.map(lambda n: results(n, np.float32), names), strict=True):
            for mine, expected in zip(found, alone[name], strict=True):
                np.testing.assert_allclose(mine, expected, rtol=0, atol=1e-5 * max(np.abs(expected).max(), 1e-3))


def _in_child(queue: object) -> None:
    queue.put(float(results("conv2d", np.float32)[0].sum()))  # type: ignore[attr-defined]


@pytest.mark.skipif(not hasattr(__import__("os"), "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_does_not_hang(chosen: str) -> None:
    expected = float(results("conv2d", np.float32)[0].sum())  # threads have been started now
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    child.join(60)
    alive = child.is_alive()
    if alive:
        child.kill()
    assert not alive, "the child hangs"
    assert abs(queue.get() - expected) < 1e-2


def test_nothing_is_loaded_before_it_is_needed() -> None:
    code = (
        "import sys, adjoint; F = adjoint.nn.functional; x = adjoint.ones(8, 8); "
        "F.softmax(x, 1); F.gelu(x); F.layer_norm(x, (8,)); "
        "F.conv2d(adjoint.ones(1, 1, 4, 4), adjoint.ones(1, 1, 3, 3)); "
        "assert 'numba' not in sys.modules and 'adjoint.devices.cpu.onednn' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_onednn_is_found_where_its_wheel_is_installed() -> None:
    if importlib.util.find_spec("onednn_cpu_gomp") is None and not _has_wheel():
        pytest.skip("onednn-cpu-gomp is not installed: pip install onednn-cpu-gomp")
    from adjoint.devices.cpu import onednn

    assert onednn.library() is not None


def _has_wheel() -> bool:
    from importlib.metadata import PackageNotFoundError, version

    try:
        version("onednn-cpu-gomp")
    except PackageNotFoundError:
        return False
    return True
