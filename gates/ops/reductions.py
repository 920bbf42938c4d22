# ruff: noqa: E501 (one operator, one line)
"""Calls of reductions and scans."""

from __future__ import annotations

from typing import Any

import numpy as np

from .drawing import FLOATS, Array, Draw, F, Made, Row, made
from .elementwise import binary


def _reduce(d: Draw, dtype: bool = False, **extra: Any) -> Made:
    x = d.array(d.shape())
    kwargs = {**extra, **(d.dtypes() if dtype else {})}
    if d.chance(0.3):
        return made(x, **kwargs)
    return made(x, **{("dim" if d.chance(0.9) else "axis"): d.dims(x)}, **d.keep(), **kwargs)


def along(d: Draw, keep: bool = False, dtype: bool = False, low: int = 0, **extra: Any) -> Made:
    """Return a tensor and one of its dimensions."""
    x = d.array(d.shape(low))
    return made(x, d.dim(x), **(d.keep() if keep else {}), **(d.dtypes() if dtype else {}), **extra)


def _maybe_along(d: Draw) -> Made:
    return made(d.array(d.shape())) if d.chance(0.3) else along(d, keep=True)


def _one_dim(d: Draw) -> Made:
    return made(d.array(d.shape())) if d.chance(0.3) else along(d, keep=True, dtype=True)


def _distinct(d: Draw, low: int = 0) -> Array:
    """Return a tensor without equal elements, among which torch promises no index."""
    x = d.array(d.shape(low))
    values = d.rng.permutation(x.values.size).reshape(x.values.shape) - 2
    if d.special and d.dtype in FLOATS:
        values = np.where(values == 0, d.pick(np.nan, np.inf), values)
    return x if d.dtype == "bool" else x._replace(values=values, layout=d.pick("contiguous", "transposed", "reversed"))


def _ranked(d: Draw, **extra: Any) -> Made:
    x = _distinct(d, 1)
    dim = d.dim(x)
    return made(x, d.int(1, max(x.values.shape[dim], 1)), dim, **extra)


def _cdist(d: Draw) -> Made:
    k = d.int(0, 4)
    return made(
        d.array((d.int(0, 4), k)), d.array((d.int(1, 4), k)), d.pick(2.0, 1.0, 0.0, 3.0, float("inf"), 0.5, 1.5)
    )


P = (2, 1, 0, float("inf"), -float("inf"), 3, 0.5, -1, -2, 1.5)
REDUCE: dict[str, Row] = {
    **dict.fromkeys(("sum", "nansum", "mean", "nanmean"), lambda d: _reduce(d, dtype=True)),
    **dict.fromkeys(("amax", "amin", "count_nonzero", "all", "any"), lambda d: _reduce(d)),
    **dict.fromkeys(("max", "min", "argmax", "argmin"), _maybe_along),
    **dict.fromkeys(("median", "nanmedian"), lambda d: made(x := _distinct(d), *((d.dim(x),) if d.chance(0.7) else ()))),
    "prod": _one_dim,
    "aminmax": lambda d: (lambda x: made(x, dim=d.dim(x), **d.keep()) if d.chance(0.7) else made(x))(d.array(d.shape())),
    **dict.fromkeys(("var", "std", "var_mean", "std_mean"), lambda d: _reduce(d, correction=d.pick(0, 1, 0.5))),
    "count_nonzero": lambda d: (lambda x: made(x, dim=d.dims(x)) if d.chance(0.6) else made(x))(d.array(d.shape())),
    "logsumexp": lambda d: (lambda x: made(x, d.dims(x), **d.keep()))(d.array(d.shape())),
    "norm": lambda d: _reduce(d, p=d.pick(*P)),
    "linalg.vector_norm": lambda d: _reduce(d, dtype=True, ord=d.pick(*P)),
    **dict.fromkeys(("cumsum", "cumprod"), lambda d: along(d, dtype=True)),
    **dict.fromkeys(("cummax", "cummin", "logcumsumexp"), lambda d: along(d)),
    **dict.fromkeys(("softmax", "log_softmax"), lambda d: along(d, dtype=True)),
    F + "softmin": lambda d: along(d),
    "sort": lambda d: along(d, stable=True, descending=d.chance(0.5)),
    "argsort": lambda d: (lambda x: made(x, dim=d.dim(x), stable=True, descending=d.chance(0.5)))(d.array(d.shape())),
    "topk": lambda d: _ranked(d, largest=d.chance(0.5)),
    "kthvalue": lambda d: _ranked(d),
    "mode": lambda d: made(x := _distinct(d), d.dim(x)),
    **dict.fromkeys(("quantile", "nanquantile"), lambda d: (lambda x: made(
        x, d.pick(0.0, 0.25, 0.5, 1.0, 0.3), dim=d.dim(x), interpolation=d.pick("linear", "lower", "higher", "midpoint", "nearest"),
        **d.keep()))(d.array(d.shape(1)))),
    "diff": lambda d: (lambda x: made(x, n=d.int(0, 2), dim=d.dim(x)))(d.array(d.shape(1))),
    "trapezoid": lambda d: (lambda x: made(x, dim=d.dim(x)))(d.array(d.shape(1))),
    "cumulative_trapezoid": lambda d: (lambda x: made(x, dim=d.dim(x)))(d.array(d.shape(1))),
    "renorm": lambda d: (lambda x: made(x, d.pick(1, 2, 0.5, 3, float("inf")), d.dim(x), d.pick(0.5, 1.0, 5.0)))(d.array(d.shape(2))),
    "cdist": _cdist,
    "dist": lambda d: (*binary(d)[:1], {"p": d.pick(2, 1, 0, 3, float("inf"), 0.5)}),
    F + "normalize": lambda d: (lambda x: made(x, p=d.pick(2.0, 1.0, 3.0), dim=d.dim(x)))(d.array(d.shape(1))),
    F + "cosine_similarity": lambda d: (lambda s: made(d.array(s), d.array(s), dim=d.dim(len(s))))(d.shape(1)),
    F + "pairwise_distance": lambda d: (lambda s: made(d.array(s), d.array(s), p=d.pick(2.0, 1.0, 3.0)))(d.shape(1, 2)),
    "Tensor.sum": lambda d: _reduce(d, dtype=True),
    "Tensor.max": _maybe_along,
    "cov": lambda d: made(d.array(d.shape(1, 2)), correction=d.pick(0, 1)),
    "corrcoef": lambda d: made(d.array(d.shape(1, 2))),
}  # fmt: skip
