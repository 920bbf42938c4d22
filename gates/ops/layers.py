# ruff: noqa: E501 (one operator, one line)
"""Calls of matrix multiplications, transforms and layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .drawing import COMPLEX, FLOATS, Array, Draw, F, Made, Row, made


def _matmul(d: Draw) -> Made:
    n, k, m = (d.int(0, 4) if d.chance(0.1) else d.int(1, 4) for _ in range(3))
    lead = d.shape(0, 2)
    a = (k,) if d.chance(0.2) else (*d.partner(lead), n, k)
    b = (k,) if d.chance(0.2) else (*lead, k, m)
    return made(d.array(a), d.array(b))


def _addmm(d: Draw) -> Made:
    n, k, m = (d.int(0, 4) if d.chance(0.1) else d.int(1, 4) for _ in range(3))
    scales = {"beta": d.pick(0, 1, 2), "alpha": d.pick(0, 1, 0.5)} if d.chance(0.5) and d.dtype in FLOATS else {}
    return made(d.array(d.partner((n, m))), d.array((n, k)), d.array((k, m)), **scales)


def _einsum(d: Draw) -> Made:
    sizes = {c: d.int(1, 3) for c in "ijkl"}
    text = d.pick(
        "ij,jk->ik",
        "ij,ij->",
        "i,j->ij",
        "ijk,kl->ijl",
        "ii->i",
        "ij->ji",
        "ij,kj,il->kl",
        "ijk->j",
        "ii->",
        "i,i,i->i",
    )
    return made(text, *(d.array(tuple(sizes[c] for c in part)) for part in text.split("->")[0].split(",")))


def _definite(d: Draw) -> Array:
    x = d.square()
    a = x.values
    return x._replace(values=a @ np.conj(np.swapaxes(a, -1, -2)) + np.diag(3 + 0.37 * np.arange(a.shape[-1])))


def _conv(rank: int, transposed: bool = False) -> Row:
    def row(d: Draw) -> Made:
        groups, kernel = d.pick(1, 1, 2), tuple(d.int(1, 3) for _ in range(rank))
        c, o = groups * d.int(1, 2), groups * d.int(1, 2)
        x = d.array((d.int(1, 2), c, *(d.int(4, 6) for _ in range(rank))))
        d.special = 0.0  # what zeros of the padding are times an infinite weight depends on the algorithm
        w = d.array((c, o // groups, *kernel) if transposed else (o, c // groups, *kernel))
        bias = d.array((o,)) if d.chance(0.5) else None
        return made(x, w, bias, stride=d.int(1, 2), padding=d.int(0, 1), dilation=d.pick(1, 1, 2), groups=groups)

    return row


def _pool(rank: int, **options: Any) -> Row:
    def row(d: Draw) -> Made:
        x = d.array((d.int(1, 2), d.int(1, 2), *(d.int(3, 6) for _ in range(rank))))
        extra = {k: d.pick(*v) for k, v in options.items()}
        return made(x, d.int(2, 3), stride=d.pick(None, 1, 2), padding=d.int(0, 1), ceil_mode=d.chance(0.3), **extra)

    return row


def _norm(d: Draw) -> Made:
    x = d.array((*d.shape(0, 2), d.int(1, 4)))
    size = x.values.shape[-1:]
    return made(x, size, *(d.array(size) if d.chance(0.7) else None for _ in range(2)), d.pick(1e-5, 1e-2))


def _batch_norm(d: Draw) -> Made:
    c = d.int(1, 3)
    x = d.array((d.int(2, 3), c, *d.shape(0, 2)))
    stats = [Array(np.linspace(0.2, 1.0, c), d.dtype) for _ in range(2)]
    # Scale and shift are contiguous: torch reads others as if they were, which is its mistake.
    scale, shift = (d.array((c,))._replace(layout="contiguous") for _ in range(2))
    return made(x, *stats, scale, shift, training=d.chance(0.6))


def _loss(*options: Any, positive: bool = False) -> Row:
    def row(d: Draw) -> Made:
        shape = d.shape()
        low, high = (0.01, 0.99) if positive else (-3, 3)
        return made(d.array(shape, low=low, high=high), d.array(shape, low=low, high=high),
                    reduction=d.pick("none", "sum", "mean"), **d.pick(*options))  # fmt: skip

    return row


def _classes(d: Draw) -> Made:
    n, c = d.int(0, 3) if d.chance(0.1) else d.int(1, 3), d.int(1, 4)
    lead = d.shape(0, 1)
    index = d.index((n, *lead), c)
    if d.chance(0.2):
        index = index._replace(values=np.where(d.rng.random(index.values.shape) < 0.4, -100, index.values))
    weight = Array(d.rng.uniform(0.2, 2, c), d.dtype) if d.chance(0.3) else None
    return made(d.array((n, c, *lead)), index, weight=weight, reduction=d.pick("none", "sum", "mean"))


def _smoothed(d: Draw) -> Made:
    args, kwargs = _classes(d)
    return args, {**kwargs, "label_smoothing": d.pick(0.0, 0.1)}


def _interpolate(d: Draw) -> Made:
    mode = d.pick("nearest", "bilinear", "bicubic", "area", "nearest-exact", "linear")
    rank = 1 if mode == "linear" else 2
    x = d.array((1, d.int(1, 2), *(d.int(1, 5) for _ in range(rank))))
    corners = d.chance(0.4) if mode in ("linear", "bilinear", "bicubic") else None
    if d.chance(0.5):
        return made(x, size=tuple(d.int(1, 6) for _ in range(rank)), mode=mode, align_corners=corners)
    return made(x, scale_factor=d.pick(0.5, 1.5, 2.0, 1.0), mode=mode, align_corners=corners)


def _grid(d: Draw) -> Made:
    x = d.array((1, 2, d.int(1, 4), d.int(1, 4)))
    d.special = 0.0  # at infinity, torch's backward ends the process
    grid = d.array((1, d.int(1, 3), d.int(1, 3), 2), low=-1.3, high=1.3)
    mode, padding = d.pick("bilinear", "nearest", "bicubic"), d.pick("zeros", "border", "reflection")
    return made(x, grid, mode, padding, d.chance(0.5))


def _attention(d: Draw) -> Made:
    e, s, t = d.int(1, 3), d.int(1, 3), d.int(1, 3)
    causal = d.chance(0.3)
    mask = None if causal or d.chance(0.5) else d.mask((t, s))
    return made(d.array((1, 2, t, e)), d.array((1, 2, s, e)), d.array((1, 2, s, e)), mask, 0.0, causal)


def _fft(real: bool = False) -> Row:
    def row(d: Draw) -> Made:
        x = d.array(tuple(max(n, 1) for n in d.shape(1)))
        if real and d.dtype in COMPLEX:
            x = x._replace(values=x.values.real, dtype="float64" if d.dtype == "complex128" else "float32")
        return made(x, n=d.pick(None, None, 4, 3), dim=d.dim(x), norm=d.pick(None, "ortho", "forward"))

    return row


MATRIX: dict[str, Row] = {
    **dict.fromkeys(("matmul", "Tensor.__matmul__"), _matmul),
    "addmm": _addmm,
    **dict.fromkeys(("dot", "vdot", "inner"), lambda d: (lambda s: made(d.array(s), d.array(s)))(d.shape(1, 1))),
    "einsum": _einsum,
    "tensordot": lambda d: made(d.array((2, 3, 4)), d.array((3, 4, 2)), dims=([1, 2], [0, 1])),
    **dict.fromkeys(("linalg.det", "linalg.inv", "logdet", "matrix_exp", "linalg.matrix_norm", "linalg.slogdet",
                     "linalg.svdvals", "linalg.pinv", "linalg.cond"), lambda d: made(d.square())),
    "linalg.solve": lambda d: (lambda a: made(a, d.array((*a.values.shape[:-1], d.int(1, 3)))))(d.square()),
    "linalg.cholesky": lambda d: made(_definite(d), upper=d.chance(0.5)),
    "linalg.eigvalsh": lambda d: made(_definite(d)),
    "linalg.matrix_power": lambda d: made(d.square(), d.int(-2, 4)),
    "linalg.qr": lambda d: made(d.square()),
    "linalg.solve_triangular": lambda d: (lambda a: made(a, d.array(a.values.shape), upper=d.chance(0.5)))(d.square()),
    "linalg.matrix_norm ": lambda d: made(d.square(), d.pick("fro", "nuc", 1, -1, 2, -2, float("inf"))),
    "linalg.cross": lambda d: (lambda s: made(d.array((*s, 3)), d.array((*s, 3))))(d.shape(0, 2)),
    "linalg.multi_dot": lambda d: made([d.array((2, 3)), d.array((3, 4)), d.array((4, 1))]),
    F + "linear": lambda d: (lambda i, o: made(d.array((*d.shape(0, 2), i)), d.array((o, i)), d.array((o,)) if d.chance(0.6) else None))(
        d.int(1, 4), d.int(1, 4)),
    F + "bilinear": lambda d: made(d.array((2, 3)), d.array((2, 4)), d.array((2, 3, 4)), d.array((2,))),
    **dict.fromkeys(("fft.fft", "fft.ifft", "fft.hfft", "fft.irfft"), _fft()),
    **dict.fromkeys(("fft.rfft", "fft.ihfft"), _fft(real=True)),
    "linalg.lstsq": lambda d: made(d.array((4, 3)), d.array((4, 2))),
}  # fmt: skip
LAYERS: dict[str, Row] = {
    **{F + f"conv{n}d": _conv(n) for n in (1, 2, 3)},
    **{F + f"conv_transpose{n}d": _conv(n, transposed=True) for n in (1, 2)},
    **{F + f"max_pool{n}d": _pool(n, dilation=(1, 1, 2)) for n in (1, 2)},
    F + "avg_pool1d": _pool(1, count_include_pad=(True, False)),
    F + "avg_pool2d": _pool(2, count_include_pad=(True, False), divisor_override=(None, 2)),
    F + "lp_pool2d": lambda d: made(d.array((1, 2, 4, 5)), d.pick(1.0, 2.0, 3.0), 2),
    **dict.fromkeys(
        (F + "adaptive_avg_pool2d", F + "adaptive_max_pool2d"),
        lambda d: made(d.array((1, 2, d.int(2, 5), d.int(2, 5))), (d.int(1, 4), d.int(1, 4))),
    ),
    F + "layer_norm": _norm,
    F + "rms_norm": lambda d: made(*_norm(d)[0][:3]),
    F + "batch_norm": _batch_norm,
    F + "instance_norm": lambda d: made(d.array((2, 3, d.int(2, 4)))),
    F + "group_norm": lambda d: made(d.array((2, 4, *d.shape(0, 1))), d.pick(1, 2, 4)),
    F + "local_response_norm": lambda d: made(d.array((2, 4, 3)), 2),
    **dict.fromkeys((F + "mse_loss", F + "l1_loss", F + "soft_margin_loss"), _loss({})),
    F + "smooth_l1_loss": _loss({}, {"beta": 0.5}, {"beta": 0.0}),
    F + "huber_loss": _loss({}, {"delta": 0.5}),
    F + "binary_cross_entropy": _loss({}, positive=True),
    F + "binary_cross_entropy_with_logits": _loss({}),
    F + "kl_div": _loss({}, {"log_target": True}),
    F + "poisson_nll_loss": _loss({}, {"log_input": False}, {"full": True}),
    F + "hinge_embedding_loss": _loss({}),
    F + "multilabel_soft_margin_loss": lambda d: (lambda s: made(d.array(s), d.array(s)))(d.shape(2, 2)),
    F + "gaussian_nll_loss": lambda d: (lambda s: made(d.array(s), d.array(s), d.array(s, low=0.1)))(d.shape(1)),
    F + "margin_ranking_loss": lambda d: (lambda s: made(d.array(s), d.array(s), d.array(s)))(d.shape(1)),
    F + "triplet_margin_loss": lambda d: (lambda s: made(d.array(s), d.array(s), d.array(s)))(d.shape(2, 2)),
    F + "cosine_embedding_loss": lambda d: made(d.array((2, 3)), d.array((2, 3)), Array(np.array([1, -1]), "int64")),
    F + "nll_loss": _classes,
    F + "cross_entropy": _smoothed,
    F + "multi_margin_loss": lambda d: made(d.array((3, 4)), d.index((3,), 4), p=d.pick(1, 2)),
    F + "interpolate": _interpolate,
    F + "grid_sample": _grid,
    F + "affine_grid": lambda d: made(d.array((1, 2, 3)), (1, 1, 2, 3), d.chance(0.5)),
    F + "scaled_dot_product_attention": _attention,
    F + "pixel_shuffle": lambda d: made(d.array((1, 4, 2, 3)), 2),
    F + "unfold": lambda d: made(d.array((1, 2, 4, 5)), d.int(1, 3), padding=d.int(0, 1), stride=d.int(1, 2)),
    F + "fold": lambda d: made(d.array((1, 8, 9)), (4, 4), 2),
    F + "channel_shuffle": lambda d: made(d.array((1, 4, 2, 2)), 2),
}
