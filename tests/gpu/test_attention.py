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


MASKS: dict[str, Any] = {
    "which keys": lambda rng: rng.random((2, 1, 1, 70)) < 0.7,
    "each, some queries see nothing": lambda rng: (rng.random((3, 50, 70)) < 0.5) & (np.arange(50) % 7 > 0)[:, None],
    "added": lambda rng: rng.normal(size=(50, 70)),
    "added for each head, some left out": lambda rng: np.where(rng.random((1, 3, 50, 70)) < 0.2, -np.inf, 0.3),
    "for queries": lambda rng: rng.random((2, 3, 50, 1)) < 0.8,
}


@pytest.mark.parametrize("dtype", CLOSE)
@pytest.mark.parametrize("name", MASKS)
def test_masks(name: str, dtype: str) -> None:
    def found(place: str, kind: Any) -> list[np.ndarray]:
        rng = np.random.default_rng(0)
        made = MASKS[name](rng)
        mask = adjoint.tensor(made, device=place)
        mask = mask if mask.dtype is adjoint.bool else mask.to(adjoint.bfloat16).to(kind)
        shapes = [(2, 3, 50, 24), (2, 3, 70, 24), (2, 3, 70, 24)]
        numbers = [adjoint.tensor(rng.normal(size=s)).to(adjoint.bfloat16).to(kind).to(place) for s in shapes]
        leaves = [x.requires_grad_() for x in numbers]
        out = attention(*leaves, attn_mask=mask)
        (out * out).sum().backward()
        return [x.detach().double().cpu().numpy() for x in (out, *(leaf.grad for leaf in leaves))]

    for a, b in zip(found("cuda", getattr(adjoint, dtype)), found("cpu", adjoint.float64), strict=True):
        assert np.abs(a - b).max() <= 2 * CLOSE[dtype] * max(np.abs(b).max(), 1e-2)


@pytest.mark.parametrize("masked", [False, True])
def test_dropped_weights_are_the_same_on_the_way_back(masked: bool) -> None:
    rng = np.random.default_rng(0)
    q, k, v, g = (adjoint.tensor(rng.normal(size=(2, 3, 61, 16)), dtype=adjoint.float32, device="cuda") for _ in "qkvg")
    leaves = [x.requires_grad_() for x in (q, k, v)]
    mask = adjoint.tensor(rng.random((61, 61)) < 0.8, device="cuda") if masked else None

    def attended() -> Any:
        adjoint.manual_seed(4)
        return attention(q, k, v, attn_mask=mask, dropout_p=0.3, is_causal=not masked)

    out = attended()
    np.testing.assert_array_equal(out.detach().cpu().numpy(), attended().detach().cpu().numpy())
    assert not np.allclose(out.detach().cpu().numpy(), attention(q, k, v, is_causal=True).detach().cpu().numpy())
    once = adjoint.autograd.grad(out, leaves, g)
    again = adjoint.autograd.grad(attended(), leaves, g, create_graph=True)  # by steps, which can be differentiated
    for a, b in zip(once, again, strict=True):
        np.testing.assert_allclose(a.cpu().numpy(), b.detach().cpu().numpy(), rtol=1e-3, atol=1e-4)
    identity = attention(q.detach() * 0, k.detach(), adjoint.eye(61, device="cuda").expand(2, 3, 61, 61), dropout_p=0.3)
    share = (identity == 0).float().mean().item()
    assert abs(share - 0.3) < 0.02 and identity.max().item() == pytest.approx(1 / 61 / 0.7, rel=1e-4)


def test_a_mask_that_is_learnt() -> None:
    x = adjoint.randn(1, 2, 9, 8, device="cuda")
    bias = adjoint.randn(9, 9, device="cuda", requires_grad=True)
    attention(x, x, x, attn_mask=bias).square().sum().backward()
    twin = bias.detach().cpu().double().requires_grad_()
    attention(*[x.cpu().double()] * 3, attn_mask=twin).square().sum().backward()
    np.testing.assert_allclose(bias.grad.cpu().numpy(), twin.grad.numpy(), rtol=1e-3, atol=1e-4)
