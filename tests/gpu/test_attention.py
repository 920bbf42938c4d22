"""Attention on a GPU, in one kernel where there is one: what the CPU computes in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint
from adjoint.nn.functional import scaled_dot_product_attention as attention

pytestmark = pytest.mark.gpu

CLOSE = {"float32": 2e-5, "bfloat16": 2e-2, "float16": 3e-3}


def results(dtype: Any, place: str, shapes: Any, causal: bool, scale: float | None) -> list[np.ndarray]:
    """Return attention and its gradients, of heads that lie side by side in rows, as a model splits them off."""
    draw = np.random.default_rng(0).normal
    numbers = [adjoint.tensor(draw(size=shape)).to(adjoint.bfloat16) for shape in shapes]
    q, k, v, g = (x.to(dtype).to(place).transpose(1, 2) for x in numbers)
    leaves = [x.requires_grad_() for x in (q, k, v)]
    out = attention(*leaves, is_causal=causal, scale=scale)
    out.backward(g)
    return [x.detach().double().cpu().numpy() for x in (out, *(leaf.grad for leaf in leaves))]


@pytest.mark.parametrize(
    "dtype, length, source, width, value, causal, scale",
    [
        ("bfloat16", 128, 128, 64, 64, True, None),
        ("bfloat16", 70, 70, 64, 64, True, None),
        ("bfloat16", 90, 40, 20, 20, True, None),
        ("bfloat16", 64, 64, 128, 128, False, None),
        ("float16", 50, 130, 64, 64, False, None),
        ("float32", 40, 90, 32, 16, True, 0.3),
        ("float32", 64, 64, 128, 128, False, None),
        ("float32", 1, 33, 8, 3, False, 0.5),
    ],
)
def test_equals_the_cpu(
    dtype: str, length: int, source: int, width: int, value: int, causal: bool, scale: float | None
) -> None:
    shapes = [(2, length, 3, width), (2, source, 3, width), (2, source, 3, value), (2, length, 3, value)]
    found = results(getattr(adjoint, dtype), "cuda", shapes, causal, scale)
    expected = results(adjoint.float64, "cpu", shapes, causal, scale)
    for a, b in zip(found, expected, strict=True):
        assert a.shape == b.shape
        assert np.abs(a - b).max() <= CLOSE[dtype] * max(np.abs(b).max(), 1e-2)


@pytest.mark.parametrize("shape", [(9, 16), (3, 9, 16), (2, 3, 2, 9, 16)])
def test_any_number_of_axes(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(size=shape)
    found = attention(*[adjoint.tensor(x, dtype=adjoint.float32, device="cuda")] * 3).cpu().numpy()
    np.testing.assert_allclose(found, attention(*[adjoint.tensor(x)] * 3).numpy(), rtol=1e-4, atol=1e-5)


def test_keys_that_serve_several_heads() -> None:
    def grouped(place: str, dtype: Any) -> list[np.ndarray]:
        draw = np.random.default_rng(0).normal
        shapes = [(2, 6, 70, 32), (2, 2, 50, 32), (2, 2, 50, 32)]
        leaves = [adjoint.tensor(draw(size=s), dtype=dtype, device=place, requires_grad=True) for s in shapes]
        out = attention(*leaves, is_causal=True, enable_gqa=True)
        out.square().sum().backward()
        return [x.detach().double().cpu().numpy() for x in (out, *(leaf.grad for leaf in leaves))]

    for a, b in zip(grouped("cuda", adjoint.float32), grouped("cpu", adjoint.float64), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)


def test_autocast_computes_in_half_precision() -> None:
    q = adjoint.randn(2, 4, 32, 16, device="cuda", requires_grad=True)
    with adjoint.autocast("cuda", dtype=adjoint.bfloat16):
        out = attention(q, q, q, is_causal=True)
    out.float().square().sum().backward()
    assert out.dtype is adjoint.bfloat16 and q.grad.dtype is adjoint.float32


def test_second_derivatives_and_forward_mode() -> None:
    def second(place: str) -> tuple[np.ndarray, np.ndarray]:
        x = adjoint.tensor(np.random.default_rng(0).normal(size=(1, 5, 8)), dtype=adjoint.float32, device=place)
        x.requires_grad_()
        (g,) = adjoint.autograd.grad(attention(x, x, x, is_causal=True).square().sum(), x, create_graph=True)
        (h,) = adjoint.autograd.grad(g.square().sum(), x)
        fixed = x.detach()
        _, tangent = adjoint.func.jvp(lambda y: attention(y, fixed, y, is_causal=True), (fixed,), (fixed.cos(),))
        return h.cpu().numpy(), tangent.cpu().numpy()

    for a, b in zip(second("cuda"), second("cpu"), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_a_compiled_step() -> None:
    x = adjoint.randn(2, 32, 48, device="cuda")

    def step(x: Any) -> Any:
        x = x.detach().requires_grad_()
        q, k, v = (p.view(2, 32, 2, 8).transpose(1, 2) for p in x.split(16, dim=2))
        attention(q, k, v, is_causal=True).square().sum().backward()
        return x.grad

    compiled = adjoint.compile(step)
    for _ in range(4):
        np.testing.assert_allclose(compiled(x).cpu().numpy(), step(x).cpu().numpy(), rtol=1e-4, atol=1e-4)


def test_masks_and_dropout_in_half_precision() -> None:
    q = adjoint.randn(2, 3, 8, 16, device="cuda", dtype=adjoint.bfloat16, requires_grad=True)
    mask = adjoint.ones(8, 8, dtype=adjoint.bool, device="cuda").tril()
    masked, causal = attention(q, q, q, attn_mask=mask), attention(q, q, q, is_causal=True)
    np.testing.assert_allclose(masked.detach().float().cpu().numpy(), causal.detach().float().cpu().numpy(), atol=0.05)
    attention(q, q, q, attn_mask=mask, dropout_p=0.5).sum().backward()
    assert q.grad.dtype is adjoint.bfloat16 and bool(q.grad.isfinite().all())
