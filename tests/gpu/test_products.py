"""Products and convolutions on a GPU give what they give on the host, in every layout and dtype."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import adjoint

pytestmark = pytest.mark.gpu
F = adjoint.nn.functional
TOLERANCE = {"float64": 1e-10, "float32": 1e-4, "float16": 1e-2, "bfloat16": 6e-2}


@pytest.fixture(autouse=True)
def in_full() -> Any:
    """Let cuDNN compute in full precision."""
    with adjoint.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield


def leaves(dtype: str, *shapes: tuple[int, ...]) -> tuple[list[Any], list[Any]]:
    """Return the same random leaves on the host and on the GPU; on the host half precision is double."""
    rng = np.random.default_rng(0)
    kind = getattr(adjoint, dtype)
    there = [adjoint.tensor(rng.normal(size=s) / 4).to(kind).to("cuda").requires_grad_() for s in shapes]
    return [t.detach().cpu().double().requires_grad_() for t in there], there


def same(here: Any, there: Any, dtype: str) -> None:
    assert str(there.dtype) == f"adjoint.{dtype}"
    tolerance = TOLERANCE[dtype]
    np.testing.assert_allclose(
        there.detach().double().cpu().numpy(), here.detach().numpy(), rtol=tolerance, atol=tolerance
    )


def agree(function: Any, dtype: str, *shapes: tuple[int, ...]) -> None:
    here, there = leaves(dtype, *shapes)
    a, b = function(*here), function(*there)
    same(a, b, dtype)
    weight = adjoint.linspace(-1, 1, a.numel(), dtype=adjoint.float64).reshape(a.shape)
    (a * weight).sum().backward()
    b.backward(weight.to(b.dtype).to("cuda"))
    for x, y in zip(here, there):
        same(x.grad, y.grad, dtype)


SHAPES = [
    ((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (6, 4, 5)), ((20, 1, 3, 4), (1, 19, 4, 5)), ((3, 0), (0, 5)), ((0, 3, 4), (0, 4, 5)), ((4,), (4,)),
]  # fmt: skip


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_matmul(shapes: Any, dtype: str) -> None:
    agree(lambda x, y: x @ y, dtype, *shapes)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_layouts(dtype: str) -> None:
    views = [
        lambda x: x, lambda x: x.transpose(-1, -2), lambda x: x[..., 1:, 1:], lambda x: x.flip(0),
        lambda x: x[..., ::2, ::2], lambda x: x[:1].expand(3, -1, -1), lambda x: x.transpose(0, 1),
    ]  # fmt: skip
    for left, right in itertools.product(views, views):

        def product(x: Any, y: Any, left: Any = left, right: Any = right) -> Any:
            x, y = left(x), right(y).transpose(-1, -2)
            n = min(len(x), len(y)), min(x.shape[2], y.shape[1])
            return x[: n[0], :, : n[1]] @ y[: n[0], : n[1]]

        agree(product, dtype, (3, 3, 3), (3, 3, 3))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("lead", [(), (3,), (2, 3), (2, 1, 3)], ids=str)
def test_linear(lead: tuple[int, ...], dtype: str) -> None:
    agree(F.linear, dtype, (*lead, 4), (5, 4), (5,))
    agree(F.linear, dtype, (*lead, 4), (5, 4))
    agree(F.linear, dtype, (*lead, 0), (5, 0), (5,))
    agree(lambda x, w: F.linear(x.transpose(0, -1), w), dtype, (*lead[::-1], 3, 4)[-2:], (5, 3))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_rows_of_odd_length(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large products of such go through matrices with longer rows, of a multiple of 16 bytes."""
    from adjoint.devices.cuda import products

    monkeypatch.setattr(products, "_WORTH", 0)
    monkeypatch.setattr(products, "_LEAST", 1)
    for shapes in (((33, 256), (256, 257)), ((300, 77), (77, 256)), ((5, 259), (259, 301)), ((2, 3, 256), (256, 263))):
        agree(lambda x, y: x @ y, dtype, *shapes)
        agree(lambda x, y: x @ y.t().contiguous().t(), dtype, *shapes)


def test_sums_of_halves_are_added_in_single_precision() -> None:
    for kind in (adjoint.bfloat16, adjoint.float16):
        x = adjoint.ones(1, 4096, dtype=kind, device="cuda")
        assert (x @ x.T).item() == 4096.0
        assert x.sum().item() == 4096.0 and (x * 0.001).mean().item() == pytest.approx(0.001, rel=1e-2)


def test_sums_of_nothing_are_zero() -> None:
    for _ in range(3):  # memory that was used before
        del_me = adjoint.full((64, 64), float("nan"), device="cuda")
        del del_me
        x, w = adjoint.ones(64, 0, device="cuda"), adjoint.ones(64, 0, device="cuda")
        assert (x @ w.T).abs().sum().item() == 0.0
        assert F.linear(x, w, adjoint.ones(64, device="cuda")).sum().item() == 64.0 * 64


WINDOWS = [
    {}, {"padding": 1}, {"stride": 2, "padding": 1}, {"dilation": 2}, {"padding": "same"}, {"groups": 2},
    {"stride": 3, "padding": 2, "dilation": 2, "groups": 4},
]  # fmt: skip


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("options", WINDOWS, ids=str)
def test_convolution(options: dict[str, Any], dtype: str) -> None:
    groups = options.get("groups", 1)
    for rank, convolve in enumerate((F.conv1d, F.conv2d, F.conv3d), 1):
        sides, kernel = (9, 8, 7)[:rank], (3, 2, 3)[:rank]
        shapes = (2, 4, *sides), (8, 4 // groups, *kernel), (8,)
        agree(lambda x, w, b, f=convolve: f(x, w, b, **options), dtype, *shapes)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_single_channels_of_large_images(dtype: str) -> None:
    """The gradient of a weight is a sum of several blocks."""
    agree(lambda x, w, b: F.conv2d(x, w, b, padding=1, groups=3), dtype, (9, 3, 30, 31), (3, 1, 3, 3), (3,))


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_transposed_convolution(dtype: str) -> None:
    for options in ({}, {"stride": 2, "padding": 1, "output_padding": 1}, {"groups": 2, "dilation": 2}):
        outs = 6 // options.get("groups", 1)
        agree(lambda *a, o=options: F.conv_transpose2d(*a, **o), dtype, (2, 4, 5, 6), (4, outs, 3, 3), (6,))


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_windows(dtype: str) -> None:
    agree(lambda x: F.unfold(x, (3, 2), padding=1, stride=2), dtype, (2, 3, 7, 8))
    agree(lambda x: F.fold(x, (6, 7), (3, 2), padding=1, stride=2), dtype, (2, 18, 12))


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_pooling(dtype: str) -> None:
    for options in ({}, {"stride": 1}, {"padding": 1}, {"ceil_mode": True, "stride": 2}):
        for rank in (1, 2, 3):
            shape = (2, 3, *(7, 8, 9)[:rank])
            for name in ("max", "avg"):
                pool = getattr(F, f"{name}_pool{rank}d")
                agree(lambda x, f=pool, o=options: f(x, 3, **o), dtype, shape)
    for rank in (1, 2, 3):
        shape = (2, 3, *(7, 8, 9)[:rank])
        for name in ("adaptive_max", "adaptive_avg"):
            pool = getattr(F, f"{name}_pool{rank}d")
            agree(lambda x, f=pool: f(x, 3), dtype, shape)
    agree(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), dtype, (2, 3, 4, 5))
    agree(lambda x: F.pad(x, (1, 2, 2, 1), mode="reflect"), dtype, (2, 3, 4, 5))


def test_indices_of_maxima() -> None:
    x = adjoint.tensor([[[1.0, 3.0, 3.0, float("nan"), 2.0, 5.0, 5.0, 0.0]]])
    for options in ({}, {"stride": 1}, {"padding": 1}):
        here = F.max_pool1d(x, 2, return_indices=True, **options)
        there = F.max_pool1d(x.to("cuda"), 2, return_indices=True, **options)
        for a, b in zip(here, there):
            np.testing.assert_array_equal(b.cpu().numpy(), a.numpy())
