"""Padding, interpolation, grids and shuffles: values and two orders of gradients against torch, batches, refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import adjoint
from tests.oracle import needs_torch, same

from .agreement import agree, batches, numbers

F = adjoint.nn.functional

PADS = [
    (shape, pad, mode)
    for mode in ("constant", "reflect", "replicate", "circular")
    for shape, pad in [
        ((2, 3, 5), (2, 1)),
        ((3, 5), (0, 4)),
        ((2, 3, 5, 4), (1, 2, 3, 0)),
        ((3, 5, 4), (1, -1, 2, 2)),
        ((2, 2, 3, 4, 5), (1, 2, 0, 3, 2, 1)),
        ((2, 3, 4, 5), (2, 1, -1, 0, 1, 1)),
    ]
]


@needs_torch
@pytest.mark.parametrize(("shape", "pad", "mode"), PADS)
def test_padding(shape: Any, pad: Any, mode: str) -> None:
    agree("pad", numbers(*shape), pad=pad, mode=mode)
    batches("pad", numbers(*shape), pad=pad, mode=mode)


@needs_torch
@pytest.mark.parametrize("antialias", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_images_of_bytes(mode: str, antialias: bool) -> None:
    """Width first, rounded, then height: at most one off, where torch's weights are fixed-point numbers."""
    import torch

    image = np.random.default_rng(0).integers(0, 256, (1, 3, 37, 41), dtype=np.uint8)
    options: dict[str, Any] = {"size": (60, 20), "mode": mode, "antialias": antialias}
    theirs = torch.nn.functional.interpolate(torch.from_numpy(image), **options).numpy().astype(int)
    off = np.abs(F.interpolate(adjoint.from_numpy(image), **options).numpy() - theirs)
    assert off.max() <= 1 and (off > 0).mean() < 0.05


INTERPOLATIONS: list[tuple[Any, dict[str, Any]]] = []
for mode, rank in [
    *[(m, r) for m in ("nearest", "nearest-exact", "area") for r in (1, 2, 3)],
    ("linear", 1), ("bilinear", 2), ("bicubic", 2), ("trilinear", 3),
]:  # fmt: skip
    shape = (2, 2, 5, 4, 6)[: rank + 2]
    INTERPOLATIONS += [(shape, {"mode": mode, "size": n}) for n in (7, 3, 1)]
    INTERPOLATIONS += [(shape, {"mode": mode, "scale_factor": s}) for s in (2, 1.7, 0.6)]
    INTERPOLATIONS.append((shape, {"mode": mode, "scale_factor": 1.7, "recompute_scale_factor": True}))
    if "linear" in mode or mode == "bicubic":
        INTERPOLATIONS += [(shape, {"mode": mode, "align_corners": True, **t}) for t in ({"size": 7}, {"size": 1})]
for mode in ("bilinear", "bicubic"):
    for target in ({"size": (3, 9)}, {"size": (2, 2)}, {"scale_factor": 0.4}):
        for corners in (False, True):
            INTERPOLATIONS.append(((1, 2, 7, 8), {"mode": mode, "antialias": True, "align_corners": corners, **target}))


@needs_torch
@pytest.mark.parametrize(("shape", "options"), INTERPOLATIONS)
def test_interpolation(shape: Any, options: Any) -> None:
    agree("interpolate", numbers(*shape), **options)


@pytest.mark.parametrize(("shape", "options"), INTERPOLATIONS[::5])
def test_interpolation_of_batches(shape: Any, options: Any) -> None:
    batches("interpolate", numbers(*shape), **options)


@needs_torch
@pytest.mark.parametrize("size", [3, 10, 11, 100, 333])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "linear"])
def test_places_in_single_precision(size: int, mode: str) -> None:
    same(lambda m: m.nn.functional.interpolate(m.arange(10.0).reshape(1, 1, -1), size, mode=mode), 1e-5)


@needs_torch
def test_infinities_stay_where_they_are() -> None:
    def program(m: Any) -> Any:
        x = m.tensor([[[1.0, m.inf, 2.0, 3.0, 4.0, 5.0]]])
        resize, pad = m.nn.functional.interpolate, m.nn.functional.pad
        return resize(x, 9, mode="linear"), resize(x, 4, mode="area"), resize(x, 9), pad(x, (2, 2), mode="reflect")

    same(program)


def test_frozen_values() -> None:
    x = adjoint.tensor([[[1.0, 2.0, 4.0]]], requires_grad=True)
    out = F.interpolate(x, 6, mode="linear")
    assert out.tolist() == [[[1.0, 1.25, 1.75, 2.5, 3.5, 4.0]]]
    out.backward(adjoint.arange(6.0).reshape(1, 1, 6))
    assert x.grad.tolist() == [[[1.25, 5.0, 8.75]]]
    assert out.grad_fn.name() == "UpsampleLinear1DBackward0"
    assert F.pad(x, (2, 2), mode="circular").tolist() == [[[2.0, 4.0, 1.0, 2.0, 4.0, 1.0, 2.0]]]


GRIDS = [
    (shape, grid, {"mode": mode, "padding_mode": padding, "align_corners": corners})
    for shape, grid in [((2, 3, 5, 4), (2, 3, 6, 2)), ((2, 2, 3, 4, 5), (2, 2, 3, 2, 3))]
    for mode in ("bilinear", "nearest", "bicubic")
    for padding in ("zeros", "border", "reflection")
    for corners in (False, True)
    if mode != "bicubic" or len(shape) == 4
]


@needs_torch
@pytest.mark.parametrize(("shape", "grid", "options"), GRIDS)
def test_reading_at_places(shape: Any, grid: Any, options: Any) -> None:
    def program(m: Any) -> Any:
        x = m.tensor(numbers(*shape).tolist(), dtype=m.float64, requires_grad=True)
        g = m.tensor((2 * numbers(*grid, seed=4)).tolist(), dtype=m.float64, requires_grad=True)
        out = m.nn.functional.grid_sample(x, g, **options)
        return out, m.autograd.grad((out * out).sum(), [x, g])

    same(program)


@pytest.mark.parametrize(("shape", "grid", "options"), GRIDS[::4])
def test_reading_twice_differentiated(shape: Any, grid: Any, options: Any) -> None:
    x = adjoint.tensor(numbers(*shape)[:1], requires_grad=True)
    g = adjoint.tensor(0.6 * numbers(*grid, seed=4)[:1], requires_grad=True)
    assert adjoint.autograd.gradgradcheck(lambda *v: F.grid_sample(*v, **options), (x, g))


@pytest.mark.parametrize(("shape", "grid", "options"), GRIDS[::5])
def test_reading_batches(shape: Any, grid: Any, options: Any) -> None:
    batches("grid_sample", numbers(*shape), numbers(*grid, seed=4), **options)


@needs_torch
@pytest.mark.parametrize("size", [(2, 1, 3, 4), (2, 1, 2, 1, 3)])
@pytest.mark.parametrize("corners", [False, True])
def test_affine_grids(size: Any, corners: bool) -> None:
    rank = len(size) - 2
    agree("affine_grid", numbers(2, rank, rank + 1), size=size, align_corners=corners)


SHUFFLES = [
    ("pixel_shuffle", (2, 8, 3, 2), {"upscale_factor": 2}),
    ("pixel_shuffle", (9, 1, 2), {"upscale_factor": 3}),
    ("pixel_unshuffle", (2, 2, 6, 4), {"downscale_factor": 2}),
    ("channel_shuffle", (2, 6, 3, 2), {"groups": 3}),
    ("local_response_norm", (2, 5, 4), {"size": 3, "alpha": 0.5}),
    ("local_response_norm", (2, 5, 4, 3), {"size": 4, "alpha": 0.5, "beta": 0.6, "k": 2.0}),
    ("upsample", (1, 2, 3, 4), {"scale_factor": 2, "mode": "bilinear"}),
    ("upsample_nearest", (1, 2, 3, 4), {"size": 5}),
    ("upsample_bilinear", (1, 2, 3, 4), {"scale_factor": 2}),
]


@needs_torch
@pytest.mark.parametrize(("name", "shape", "options"), SHUFFLES)
def test_shuffles_and_old_names(name: str, shape: Any, options: Any) -> None:
    agree(name, numbers(*shape), **options)
    batches(name, numbers(*shape), **options)


@needs_torch
@pytest.mark.parametrize(
    "program",
    [
        lambda F, x: F.pad(x, (5, 0), mode="reflect"),
        lambda F, x: F.pad(x, (9, 0, 0, 0), mode="reflect"),
        lambda F, x: F.pad(x, (9, 0, 0, 0), mode="circular"),
        lambda F, x: F.pad(x, (1, 0, 0, 0), mode="unheard"),
        lambda F, x: F.pad(x, (1, 0, 0, 0), mode="reflect", value=2),
        lambda F, x: F.pad(x, (1, 0, 0), mode="reflect"),
        lambda F, x: F.interpolate(x),
        lambda F, x: F.interpolate(x, 3, 2),
        lambda F, x: F.pad(x.bool(), (1, 0, 0, 0), mode="reflect"),
        lambda F, x: F.interpolate(x.long(), 3),
        lambda F, x: F.grid_sample(x.long(), x[..., :2].long(), align_corners=False),
        lambda F, x: F.interpolate(x, (3, 3, 3)),
        lambda F, x: F.interpolate(x, 0),
        lambda F, x: F.interpolate(x, 3, mode="linear"),
        lambda F, x: F.interpolate(x, 3, mode="unheard"),
        lambda F, x: F.interpolate(x, 3, mode="nearest", align_corners=True),
        lambda F, x: F.interpolate(x, 3, recompute_scale_factor=True),
        lambda F, x: F.interpolate(x, 3, mode="nearest", antialias=True),
        lambda F, x: F.grid_sample(x, x),
        lambda F, x: F.grid_sample(x, x[..., :2], mode="unheard"),
        lambda F, x: F.grid_sample(x, x[..., :2].double(), align_corners=False),
        lambda F, x: F.affine_grid(x, (1, 1, 2, 2), align_corners=False),
        lambda F, x: F.pixel_shuffle(x, 2),
        lambda F, x: F.pixel_unshuffle(x, 3),
        lambda F, x: F.channel_shuffle(x, 4),
        lambda F, x: F.local_response_norm(x[0, 0], 2),
    ],
)
def test_refusals(program: Any) -> None:
    same(lambda m: program(m.nn.functional, m.ones(1, 2, 5, 5)))


def test_uneven_taps_transpose() -> None:
    from adjoint.ops.windows import Taps, weighted_sums

    rng = np.random.default_rng(0)
    index = rng.integers(0, 5, (8, 3))
    valid, weights = rng.random((8, 3)) < 0.7, rng.random((8, 3))
    taps = Taps.of(5, index, weights, valid, divide_out=np.arange(1, 9))
    matrix, back = weighted_sums(np.eye(5), (taps,)), weighted_sums(np.eye(8), (taps.transposed,))
    np.testing.assert_allclose(matrix.T, back, rtol=1e-15)
    assert taps.transposed.transposed is taps
