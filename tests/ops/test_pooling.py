"""Pooling: values and two orders of gradients against torch, ties and NaN, batches, refusals."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import adjoint
from tests.oracle import needs_torch, same

from .agreement import agree, batches, numbers

F = adjoint.nn.functional

SHAPES = {1: [(2, 3, 9), (3, 8)], 2: [(2, 3, 7, 8), (3, 6, 5)], 3: [(2, 2, 5, 6, 4), (2, 5, 4, 6)]}
MAXIMA: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 2, "stride": 1, "dilation": 2},
    {"kernel_size": 2, "stride": 3, "ceil_mode": True, "return_indices": True},
]
AVERAGES: list[dict[str, Any]] = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
    {"kernel_size": 2, "stride": 3, "padding": 1, "ceil_mode": True, "count_include_pad": False},
]
POOLS = [
    (f"{kind}_pool{rank}d", shape, options)
    for kind, table in (("max", MAXIMA), ("avg", AVERAGES))
    for rank, shapes in SHAPES.items()
    for shape in shapes
    for options in table
]
POOLS += [(f"avg_pool{r}d", SHAPES[r][0], {"kernel_size": 2, "divisor_override": 3}) for r in (2, 3)]
POOLS += [
    (f"adaptive_{kind}_pool{rank}d", shape, {"output_size": size})
    for kind in ("avg", "max")
    for rank, shapes in SHAPES.items()
    for shape in shapes
    for size in (1, 3, 4, 7)
]
POOLS += [(f"lp_pool{r}d", SHAPES[r][0], {"norm_type": 3.0, "kernel_size": 2, "ceil_mode": True}) for r in (1, 2, 3)]
POOLS += [("adaptive_avg_pool2d", (2, 3, 6, 7), {"output_size": (None, 3)})]
POOLS += [("adaptive_max_pool3d", (2, 4, 6, 5), {"output_size": (2, None, 3), "return_indices": True})]


@needs_torch
@pytest.mark.parametrize(("name", "shape", "options"), POOLS)
def test_values_and_gradients(name: str, shape: Any, options: Any) -> None:
    x = numbers(*shape)
    agree(name, abs(x) if name.startswith("lp") else x, **options)


@pytest.mark.parametrize(("name", "shape", "options"), POOLS[::3])
def test_batches(name: str, shape: Any, options: Any) -> None:
    batches(name, abs(numbers(*shape)), **options)


@needs_torch
@pytest.mark.parametrize("values", [[1.0] * 4, [0, math.nan, 2, math.nan], [-math.inf] * 4, [math.inf, 1, 2, math.nan]])
def test_ties_and_special_values(values: list[float]) -> None:
    def program(m: Any) -> Any:
        x = m.tensor([values, values[::-1]]).reshape(1, 2, 4).requires_grad_()
        found = []
        for kernel in ((2, 2), (2, 4)):
            out, where = m.nn.functional.max_pool2d(x, kernel, return_indices=True)
            found += [out, where, *m.autograd.grad(out.sum(), x)]
        for function in (m.nn.functional.avg_pool2d, m.nn.functional.adaptive_avg_pool2d):
            found.append(function(x, 2))
        return found

    same(program)


@needs_torch
def test_the_last_nan_of_a_window_that_is_cut() -> None:
    def program(m: Any) -> Any:
        x = m.tensor([[[[1.0, 2.0], [-1.0, math.nan], [math.nan, 1.0]]]], dtype=m.float64, requires_grad=True)
        out = m.nn.functional.max_pool2d(x, 3, 1, 1)
        return [out, *m.autograd.grad((out * m.arange(6.0).reshape(out.shape)).sum(), x)]

    same(program)


@needs_torch
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_complex_numbers_have_a_mean(rank: int) -> None:
    def program(m: Any) -> Any:
        x = m.arange(2 * 3**rank).reshape(1, 2, *[3] * rank) * (1 + 2j)
        x = x.to(m.complex128).requires_grad_()
        out = getattr(m.nn.functional, f"adaptive_avg_pool{rank}d")(x, 1)
        (g,) = m.autograd.grad(out.abs().sum(), x)
        return [out, g, m.nn.functional.interpolate(x, size=[1] * rank, mode="area")]

    same(program)


def test_frozen_values() -> None:
    x = adjoint.tensor([[[1.0, 5.0, 2.0], [4.0, 3.0, 6.0]]], requires_grad=True)
    out, where = F.max_pool2d(x, 2, stride=1, return_indices=True)
    assert out.tolist() == [[[5.0, 6.0]]] and where.tolist() == [[[1, 5]]]
    out.sum().backward()
    assert x.grad.tolist() == [[[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]]
    assert F.avg_pool2d(x, 2, padding=1, count_include_pad=False).tolist() == [[[1.0, 3.5], [4.0, 4.5]]]
    assert F.adaptive_avg_pool2d(x, (1, 2)).tolist() == [[[3.25, 4.0]]]
    assert F.avg_pool2d(x, 2).grad_fn.name() == "AvgPool2DBackward0"
    assert F.avg_pool2d(adjoint.ones(1, 7, 7), 7).item() == 1.0


@needs_torch
@pytest.mark.parametrize("rank", [1, 2, 3])
def test_unpooling(rank: int) -> None:
    x = adjoint.from_numpy(numbers(*SHAPES[rank][0]))
    out, where = getattr(F, f"max_pool{rank}d")(x, 2, return_indices=True)

    def program(m: Any) -> Any:
        values, index = m.tensor(out.tolist(), requires_grad=True), m.tensor(where.tolist())
        size = tuple(x.shape)
        back = getattr(m.nn.functional, f"max_unpool{rank}d")(values, index, 2, output_size=size)
        return back, m.autograd.grad((back * back).sum(), values)

    same(program)
    batches(f"max_unpool{rank}d", out.numpy(), rest=(where, 2))


@needs_torch
@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("options", [{"output_size": 3}, {"output_ratio": (0.5, 0.6, 0.7)}])
def test_windows_at_random(rank: int, options: Any) -> None:
    samples = np.random.default_rng(1).random((2, 3, rank))

    def program(m: Any) -> Any:
        x = m.tensor(numbers(2, 3, *(7, 8, 9)[:rank]).tolist(), dtype=m.float64, requires_grad=True)
        drawn = m.tensor(samples.tolist(), dtype=m.float64)
        pool = getattr(m.nn.functional, f"fractional_max_pool{rank}d")
        chosen = {k: v[:rank] if isinstance(v, tuple) else v for k, v in options.items()}
        out, where = pool(x, 2, return_indices=True, _random_samples=drawn, **chosen)
        return out, where, m.autograd.grad((out * out).sum(), x)

    same(program)


def test_random_windows_are_reproducible() -> None:
    x = adjoint.randn(3, 9, 9)
    results = []
    for _ in range(2):
        adjoint.manual_seed(5)
        results.append(F.fractional_max_pool2d(x, 2, 4))
    assert adjoint.equal(*results) and results[0].shape == (3, 4, 4)


@needs_torch
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64"])
def test_dtypes(dtype: str) -> None:
    def program(m: Any) -> Any:
        x = (m.arange(72) * 7 % 13 - 6).reshape(2, 6, 6).to(getattr(m, dtype))
        return m.nn.functional.max_pool2d(x, 3, 2, 1), m.nn.functional.avg_pool2d(x, 3, 2, 1)

    same(program, 1e-2)


@needs_torch
@pytest.mark.parametrize(
    "program",
    [
        lambda F, x: F.max_pool2d(x, 3, padding=2),
        lambda F, x: F.max_pool2d(x, (2, 2, 2)),
        lambda F, x: F.max_pool2d(x, 9),
        lambda F, x: F.max_pool1d(x, 2),
        lambda F, x: F.avg_pool2d(x, 2, divisor_override=0),
        lambda F, x: F.adaptive_avg_pool2d(x, (1, 2, 3)),
        lambda F, x: F.adaptive_max_pool2d(x, -1),
        lambda F, x: F.max_pool2d(x.bool(), 2),
        lambda F, x: F.avg_pool2d(x.int(), 2),
        lambda F, x: F.adaptive_max_pool2d(x.long(), 2),
        lambda F, x: F.fractional_max_pool2d(x, 2),
        lambda F, x: F.fractional_max_pool2d(x, 5, output_size=3),
        lambda F, x: F.max_unpool2d(x, x, 2),
        lambda F, x: F.max_unpool2d(x, x.long(), 2, output_size=(30, 30)),
    ],
)
def test_refusals(program: Any) -> None:
    same(lambda m: program(m.nn.functional, m.ones(1, 2, 5, 5)))


def test_large_windows_touch_each_element_few_times() -> None:
    x = adjoint.randn(1, 1, 64, 64, requires_grad=True)
    out = F.max_pool2d(x, 33, stride=1)
    windows = np.lib.stride_tricks.sliding_window_view(x.detach().numpy(), (33, 33), (2, 3))
    np.testing.assert_array_equal(out.detach().numpy(), windows.max((-1, -2)))
    out.sum().backward()
    assert x.grad.sum().item() == out.numel()
