"""Pooling, padding and resizing: sums and maxima over windows, whose taps a `Taps` lists for each axis."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...export.sizes import Varying
from ...ops.windows import Taps, weighted_sums
from ..builder import Builder, Unsupported
from .table import form

__all__: list[str] = []


def _first(plan: Any) -> Any:
    return plan.values[0] if isinstance(plan, Varying) else plan


def _runs(plan: Any) -> list[Any]:
    return list(plan.values) if isinstance(plan, Varying) else [plan]


def _plans(plans: Any) -> list[Any]:
    """Return the plans by axis, each the same for all runs or `Varying`."""
    return list(zip(*plans.values, strict=True)) if isinstance(plans, Varying) else [*plans]


def _window(plan: Any) -> tuple[Any, int] | None:
    """Return kernel, stride, padding and dilation, and whether the last window may begin in the padding at the end."""
    runs = list(plan) if isinstance(plan, tuple) else _runs(plan)
    known = {p.window or _span(p) for p in runs if p is not None}
    if len(known) != 1 or None in known:
        return None
    kernel, stride, padding, dilation = next(iter(known))
    reach = [p.n_in + 2 * padding - dilation * (kernel - 1) - 1 for p in runs]
    down = all(p.n_out == r // stride + 1 for p, r in zip(runs, reach, strict=True))
    up = all(p.n_out == -(-r // stride) + 1 for p, r in zip(runs, reach, strict=True))
    return ((kernel, stride, padding, dilation), int(not down)) if down or up else None


def _span(plan: Any) -> Any:
    """Return kernel, stride, padding and dilation as the windows' places say; the weights are another matter."""
    rows = [np.flatnonzero(row) for row in _matrix(plan)]
    if any(len(r) == 0 or r[-1] - r[0] != len(r) - 1 for r in rows):
        return None
    kernel = max(map(len, rows))
    ends = [int(r[-1]) for r in rows]
    stride = ends[1] - ends[0] if len(rows) > 1 else kernel
    return (kernel, stride, max(kernel - 1 - ends[0], 0), 1) if stride > 0 else None


def _pooled(b: Builder, op: str, x: Any, windows: list[Any], **attributes: Any) -> str:
    kernels, strides, pads, dilations = zip(*(w[0] for w in windows), strict=True)
    rank = len(windows)
    name = b.of(x)
    lead = len(x.shape) - rank
    if lead != 2:
        name = b.reshaped(name, (1, *b.shape(x)) if lead == 1 else _flat(b, x, rank))
    out = b.node(
        op, name, kernel_shape=list(kernels), strides=list(strides), pads=[*pads, *pads],
        ceil_mode=max(w[1] for w in windows), dilations=list(dilations), **attributes,
    )  # fmt: skip
    if lead != 2:
        assert b.line is not None
        out = b.reshaped(out, b.shape(b.line.outputs[0]))
    return out


def _flat(b: Builder, x: Any, rank: int) -> Any:
    if not b.is_static(x):
        raise Unsupported("pooling of an unusual number of axes, some of them dynamic")
    return (int(np.prod(x.shape[:-rank], dtype=int)), 1, *x.shape[-rank:])


@form("max_pool1d", "max_pool2d", "max_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
def _max_pool(b: Builder, x: Any, plans: Any) -> str:
    found = [_window(p) for p in _plans(plans)]
    if None not in found:
        return _pooled(b, "MaxPool", x, found)
    if isinstance(plans, Varying) or not b.is_static(x):
        raise Unsupported("maxima over windows that depend on a dynamic size")
    name = b.of(x)
    for i, plan in enumerate(plans):
        axis = len(x.shape) - len(plans) + i
        if plan is None:
            continue
        matrix = _matrix(plan) != 0
        widest = int(matrix.sum(1).max())
        places = np.stack([np.resize(np.flatnonzero(row), widest) for row in matrix])
        parts = b.node("Gather", name, b.constant(places.astype(np.int64)), axis=axis)
        name = b.node("ReduceMax", parts, b.ints([axis + 1]), keepdims=0)
    return name


@form("avg_pool1d", "avg_pool2d", "avg_pool3d", "channel_mean")
def _avg_pool(b: Builder, x: Any, plans: Any) -> str:
    found = [_window(p) for p in _plans(plans)]
    if None not in found and all(w[0][3] == 1 for w in found if w):
        for include in (0, 1):
            if all(_averages(p, w, include) for p, w in zip(_plans(plans), found, strict=True)):
                return _pooled(b, "AveragePool", x, found, count_include_pad=include)
    return _weighted(b, x, plans)


def _averages(plan: Any, window: Any, include: int) -> bool:
    """Return whether a plan takes the means of windows, with the padding counted or without."""
    (kernel, stride, padding, _), up = window
    for p in list(plan) if isinstance(plan, tuple) else _runs(plan):
        matrix = _matrix(p)
        expected = np.zeros_like(matrix)
        for row in range(p.n_out):
            start = row * stride - padding
            inside = [i for i in range(start, start + kernel) if 0 <= i < p.n_in]
            if up and start + kernel > p.n_in + padding:
                return False
            expected[row, inside] = 1 / (kernel if include else max(len(inside), 1))
        if not np.allclose(matrix, expected):
            return False
    return True


def _matrix(plan: Taps) -> Any:
    """Return what a plan is as a matrix: a row of weights for each place of the result."""
    return weighted_sums(np.eye(plan.n_in), (plan,)).T


def _weighted(b: Builder, x: Any, plans: Any) -> str:
    """Write weighted sums along each axis: elements picked where each is one of the input, else a matmul."""
    if isinstance(plans, Varying) or any(isinstance(p, Varying) for p in plans):
        raise Unsupported("windows or weights that depend on a dynamic size")
    name, rank = b.of(x), len(x.shape)
    for i, plan in enumerate(plans):
        axis = rank - len(plans) + i
        if plan is None:
            continue
        matrix = _matrix(plan)
        if ((matrix != 0).sum(1) == 1).all() and (matrix.sum(1) == 1).all():
            name = b.node("Gather", name, b.constant(matrix.argmax(1).astype(np.int64)), axis=axis)
            continue
        order = [k for k in range(rank) if k != axis] + [axis]
        turned = b.node("MatMul", b.transposed(name, order), b.constant(matrix.T, x.dtype))
        name = b.transposed(turned, np.argsort(order).tolist())
    return name


form("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d")(_weighted)


@form("reflect_pad1d", "reflect_pad2d", "reflect_pad3d", "replicate_pad1d", "replicate_pad2d", "replicate_pad3d",
      "circular_pad1d", "circular_pad2d", "circular_pad3d")  # fmt: skip
def _edge_pad(b: Builder, x: Any, plans: Any) -> str:
    if not any(isinstance(p, Varying) for p in plans):
        return _weighted(b, x, plans)
    known = [{p.recipe[1][:1] + p.recipe[1][2:] for p in _runs(plan)} for plan in plans]
    modes = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    mode = modes.get(next(iter(known[0]))[0])
    if mode is None or any(len(k) > 1 for k in known) or (mode == "wrap" and b.opset < 19):
        raise Unsupported("padding whose width depends on a dynamic size")
    widths = [next(iter(k))[1:] for k in known]
    lead = [0] * (len(x.shape) - len(plans))
    pads = [*lead, *(w[0] for w in widths), *lead, *(w[1] for w in widths)]
    return b.node("Pad", b.of(x), b.ints(pads), mode=mode)


@form("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "upsample_nearest_exact1d",
      "upsample_nearest_exact2d", "upsample_nearest_exact3d", "upsample_linear1d", "upsample_bilinear2d",
      "upsample_trilinear3d", "upsample_bicubic2d", "upsample_bilinear2d_aa", "upsample_bicubic2d_aa")  # fmt: skip
def _upsample(b: Builder, x: Any, plans: Any) -> str:
    assert b.line is not None
    if not any(isinstance(p, Varying) for p in plans):
        return _weighted(b, x, plans)
    runs = [p for plan in plans for p in _runs(plan) if p is not None]
    way = next((w for w in _WAYS if all(np.allclose(_matrix(p), _resized(w, p), atol=1e-6) for p in runs)), None)
    if way is None:
        raise Unsupported("resizing of dynamic sizes otherwise than ONNX's Resize does it")
    kind, place = way
    nearest = {"nearest_mode": "floor" if place == "asymmetric" else "round_prefer_ceil"} if kind == "nearest" else {}
    size = b.ints(b.shape(b.line.outputs[0]))
    return b.node("Resize", b.of(x), "", "", size, mode=kind, coordinate_transformation_mode=place, **nearest)


_WAYS = (("nearest", "asymmetric"), ("nearest", "half_pixel"), ("linear", "half_pixel"), ("linear", "align_corners"))


def _resized(way: tuple[str, str], plan: Taps) -> Any:
    """Return the matrix of a way of ONNX's to resize an axis to a size."""
    kind, place = way
    i, n = np.arange(plan.n_out), plan.n_in
    if place == "align_corners":
        at = i * (n - 1) / max(plan.n_out - 1, 1)
    else:
        at = i * n / plan.n_out if place == "asymmetric" else (i + 0.5) * n / plan.n_out - 0.5
    matrix = np.zeros((plan.n_out, n))
    if kind == "nearest":
        source = np.floor(at if place == "asymmetric" else at + 0.5).astype(int)
        matrix[i, np.clip(source, 0, n - 1)] = 1
        return matrix
    low = np.floor(at).astype(int)
    np.add.at(matrix, (i, np.clip(low, 0, n - 1)), 1 - (at - low))
    np.add.at(matrix, (i, np.clip(low + 1, 0, n - 1)), at - low)
    return matrix


@form("grid_sampler_2d")
def _grid_sampler(b: Builder, x: Any, grid: Any, padding_mode: Any, align_corners: bool) -> str:
    names = {0: "zeros", 1: "border", 2: "reflection"}
    mode = names.get(padding_mode, padding_mode)
    return b.node(
        "GridSample", b.of(x), b.of(grid, x.dtype), mode="linear" if b.opset >= 20 else "bilinear", padding_mode=mode,
        align_corners=int(align_corners),
    )  # fmt: skip


@form("im2col")
def _im2col(b: Builder, x: Any, kernel: Any, stride: Any, before: Any, dilation: Any, size: Any) -> str:
    assert b.line is not None
    if not b.is_static(x) or len(x.shape) != 4:
        raise Unsupported("unfold of dynamic sizes")
    pads = [0, 0, *before, 0, 0]
    after = [max((m - 1) * s + (k - 1) * d + 1 - n - p, 0)
             for m, s, k, d, n, p in zip(size, stride, kernel, dilation, x.shape[2:], before, strict=True)]  # fmt: skip
    name = b.node("Pad", b.of(x), b.ints([*pads, *after]))
    for axis, (m, s, k, d) in zip((2, 4), zip(size, stride, kernel, dilation, strict=True), strict=True):
        places = np.arange(k)[:, None] * d + np.arange(m)[None] * s
        name = b.node("Gather", name, b.constant(places.astype(np.int64)), axis=axis)
    name = b.transposed(name, [0, 1, 2, 4, 3, 5])
    return b.reshaped(name, b.shape(b.line.outputs[0]))
