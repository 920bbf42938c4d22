"""Formulas as compiled loops: they agree with NumPy's passes, and give what these give of NaN, infinities and zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.devices.cpu import provider

pytest.importorskip("numba", reason="formulas are compiled by Numba, which is not installed")

F = adjoint.nn.functional
rng = np.random.default_rng(0)
EDGES = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, 100.0, -100.0, 1e-30, -1e-30, 88.0], np.float32)

# A name, a function of its leaves, how many they are, and whether they must be positive.
CASES: dict[str, tuple[Any, int, bool]] = {
    "relu": (F.relu, 1, False),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.1), 1, False),
    "leaky_relu, steep": (lambda x: F.leaky_relu(x, 1.5), 1, False),
    "elu": (F.elu, 1, False),
    "selu": (F.selu, 1, False),
    "celu": (lambda x: F.celu(x, 0.7), 1, False),
    "abs": (adjoint.abs, 1, False),
    "sigmoid": (adjoint.sigmoid, 1, False),
    "silu": (F.silu, 1, False),
    "softplus": (F.softplus, 1, False),
    "softplus, steep": (lambda x: F.softplus(x, 3.0, 2.0), 1, False),
    "erf": (adjoint.erf, 1, False),
    "div": (adjoint.div, 2, False),
    "hypot": (adjoint.hypot, 2, False),
    "lerp": (adjoint.lerp, 3, False),
    "neg": (adjoint.neg, 1, False),
    "sub": (adjoint.sub, 2, False),
    "rsqrt": (adjoint.rsqrt, 1, True),
    "reciprocal": (adjoint.reciprocal, 1, True),
    "square": (lambda x: x**2, 1, False),
    "cube": (lambda x: x**3, 1, False),
    "sqrt": (adjoint.sqrt, 1, True),
    "cos": (adjoint.cos, 1, False),
    "acos": (lambda x: adjoint.acos(0.9 * adjoint.tanh(x)), 1, False),
    "atan2": (adjoint.atan2, 2, False),
    "logaddexp": (adjoint.logaddexp, 2, False),
    "lerp by a number": (lambda x, y: adjoint.lerp(x, y, 0.3), 2, False),
    "lerp by more than half": (lambda x, y: adjoint.lerp(x, y, 0.8), 2, False),
    "addcmul": (adjoint.addcmul, 3, False),
    "addcmul, scaled": (lambda x, y, z: adjoint.addcmul(x, y, z, value=0.3), 3, False),
    "remainder": (lambda x: x % 0.7, 1, False),
    "remainder, negative": (lambda x: x % -0.7, 1, False),
    "cumsum": (lambda x: x.cumsum(1), 1, False),
    "cumprod": (lambda x: (x * 0.6).cumprod(1), 1, True),
    "cumprod of zeros": (lambda x: adjoint.relu(x).cumprod(1), 1, False),
    "logistic loss": (lambda x, y: F.binary_cross_entropy_with_logits(x, y), 2, False),
    "huber_loss": (F.huber_loss, 2, False),
    "smooth_l1_loss": (lambda x, y: F.smooth_l1_loss(x, y, beta=0.5), 2, False),
    "huber_loss, each": (lambda x, y: F.huber_loss(x, y, reduction="none"), 2, False),
}


def leaves(count: int, dtype: Any, positive: bool = False) -> list[np.ndarray]:
    values = rng.standard_normal((count, 300, 257)) * 2
    return [v.astype(dtype) for v in (np.abs(values) + 0.1 if positive else values)]


def value_and_gradients(function: Any, arrays: list[np.ndarray], fast: bool, dense: bool) -> list[np.ndarray]:
    before = provider.allow(fast)
    try:
        inputs = [adjoint.from_numpy(a.copy()).requires_grad_() for a in arrays]
        out = function(*inputs)
        weights = adjoint.from_numpy(np.cos(np.arange(out.numel(), dtype=arrays[0].dtype)).reshape(out.shape))
        (out * weights if dense else out).sum().backward()
    finally:
        provider.allow(before)
    return [out.detach().numpy(), *(x.grad.numpy() for x in inputs)]


@pytest.mark.parametrize("dense", [True, False], ids=["dense gradient", "repeated gradient"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_agree_with_numpy(name: str, dtype: Any, dense: bool) -> None:
    function, count, positive = CASES[name]
    arrays = leaves(count, dtype, positive)
    plain = value_and_gradients(function, arrays, False, dense)
    quick = value_and_gradients(function, arrays, True, dense)
    close = 2e-5 if dtype is np.float32 else 1e-12
    close *= 5 if name == "cumsum" else 1  # hundreds of numbers, added in another order
    for a, b in zip(plain, quick, strict=True):
        np.testing.assert_allclose(b, a, close, close)
        assert b.dtype == a.dtype and b.strides == a.strides


@pytest.mark.parametrize("name", [n for n in CASES if "loss" not in n and "cum" not in n])
def test_edges_agree_with_numpy(name: str) -> None:
    function, count, _ = CASES[name]
    grids = np.meshgrid(*[EDGES] * count)
    arrays = [np.resize(grid.ravel(), 40_000).astype(np.float32) for grid in grids]
    plain = value_and_gradients(function, arrays, False, False)
    quick = value_and_gradients(function, arrays, True, False)
    for a, b in zip(plain, quick, strict=True):
        np.testing.assert_allclose(b, a, 2e-5, 1e-30)
        if name.startswith(("elu", "selu", "celu", "lerp", "addcmul")):
            continue  # NumPy's passes lose the sign of a zero; one pass keeps it, as torch's does
        zeros = (a == 0) & (b == 0)
        np.testing.assert_array_equal(np.signbit(a[zeros]), np.signbit(b[zeros]))


@pytest.mark.parametrize("name", [n for n in CASES if "loss" not in n and n != "cumsum"])
def test_large_arrays_by_numpy_are_what_their_rows_are(name: str) -> None:
    """Passes over pieces that threads share, and over a few numbers at a time, which never take that way."""
    function, count, positive = CASES[name]
    arrays = [np.tile(a, (5, 1)) for a in leaves(count, np.float32, positive)]
    assert arrays[0].size > 1 << 18
    whole = value_and_gradients(function, arrays, False, False)
    rows = [value_and_gradients(function, [a[i : i + 100] for a in arrays], False, False) for i in range(0, 300, 100)]
    for large, *small in zip(whole, *rows, strict=True):
        np.testing.assert_allclose(large[:300], np.concatenate(small), 2e-6, 2e-6)


@pytest.mark.parametrize("part", [np.s_[:, :1], np.s_[:1], np.s_[0], np.s_[0, 0]], ids=str)
@pytest.mark.parametrize("rows", [130, 1100])
def test_operands_that_broadcast_by_numpy(rows: int, part: Any) -> None:
    x, y, z = (rng.standard_normal((rows, 257)).astype(np.float32) for _ in "xyz")
    for function, others in ((lambda x, w, y: adjoint.lerp(x, y, w), [z]), (lambda x, w: adjoint.hypot(x, w), [])):
        full = np.broadcast_to(y[part], x.shape).copy()
        expected = value_and_gradients(function, [x, full, *others], False, False)
        out, gx, gw, *rest = value_and_gradients(function, [x, np.array(y[part]), *others], False, False)
        for a, b in zip([out, gx, *rest], [*expected[:2], *expected[3:]], strict=True):
            np.testing.assert_allclose(a, b, 1e-6, 1e-6)
        axes = tuple(i for i, n in enumerate((1,) * (2 - gw.ndim) + gw.shape) if n == 1)
        np.testing.assert_allclose(gw, expected[2].sum(axes).reshape(gw.shape), 1e-3, 1e-3)


@pytest.mark.parametrize("view", [lambda x: x.t(), lambda x: x[:, ::2], lambda x: x[0].expand(x.shape)], ids=range(3))
def test_layouts(view: Any) -> None:
    x = adjoint.from_numpy(leaves(1, np.float32)[0])
    part = view(x)
    expected = 1 / (1 + np.exp(-part.numpy()))
    np.testing.assert_allclose(adjoint.sigmoid(part).numpy(), expected, 1e-6)
    leaf = adjoint.from_numpy(part.numpy().copy()).requires_grad_()
    adjoint.sigmoid(leaf).backward(part)
    np.testing.assert_allclose(leaf.grad.numpy(), part.numpy() * expected * (1 - expected), 1e-5, 1e-6)
