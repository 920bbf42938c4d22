"""Reductions: sums, means, extremes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.dtypes import as_dtype, of
from ..core.recorders import nary, parametric
from .arguments import dim_in, dims_in
from .create import into
from .shape import cast_p, expand_p, reshape_p

Tensor = Any


def _keepdims_shape(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(1 if i in axes else n for i, n in enumerate(shape))


def _sum(x: Any, axes: Any, keepdims: Any) -> Any:
    return x.sum(axis=axes, keepdims=keepdims)


def _spread(g: Any, shape: tuple[int, ...], axes: tuple[int, ...]) -> Any:
    """Return a reduction's gradient at the shape of its input."""
    return expand_p(reshape_p(g, _keepdims_shape(shape, axes)), shape)


sum_p = parametric(
    _sum,
    x=lambda g, x_shape, axes: _spread(g, x_shape, axes),
    jvp="linear",
    batch=lambda x, axes, keepdims: sum_p(x, tuple(i + 1 for i in axes), keepdims),
    node_name="SumBackward0",
    saved={"x_shape": "self_sym_sizes", "axes": "dim"},
)


def sum(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None,
    axis: Any = None, keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """Add up all elements, or those along `dim`.

    Examples
    --------
    >>> adjoint.ones(2, 3).sum(dim=1)
    tensor([3., 3.])
    """
    dim = axis if dim is None else dim
    raw = input.array
    if dtype is not None:
        input = cast_p(input, as_dtype(dtype).np) if raw.dtype != as_dtype(dtype).np else input
    elif raw.dtype.kind in "biu" and raw.dtype != np.int64:
        input = cast_p(input, np.dtype(np.int64))
    return into(out, sum_p(input, dims_in(dim, raw.ndim), keepdim or keepdims))


def mean(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None,
    axis: Any = None, keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """Average all elements, or those along `dim`."""
    dim = axis if dim is None else dim
    if dtype is not None and input.array.dtype != as_dtype(dtype).np:
        input = cast_p(input, as_dtype(dtype).np)
    if of(input.array.dtype).category < 2:
        raise RuntimeError(
            f"mean(): could not infer output dtype. Input dtype must be either a floating point or complex "
            f"dtype. Got: {of(input.array.dtype).name.capitalize()}; convert with .float()"
        )
    axes = dims_in(dim, input.array.ndim)
    return into(out, mean_p(input, axes, keepdim or keepdims))


def _mean(x: Any, axes: Any, keepdims: Any) -> Any:
    with np.errstate(invalid="ignore", divide="ignore"):
        return x.sum(axis=axes, keepdims=keepdims) / x.dtype.type(math.prod(x.shape[i] for i in axes))


mean_p = parametric(
    _mean,
    x=lambda g, x_shape, axes: _spread(g / max(math.prod(x_shape[i] for i in axes), 1), x_shape, axes),
    jvp="linear",
    batch=lambda x, axes, keepdims: mean_p(x, tuple(i + 1 for i in axes), keepdims),
    saved={"x_shape": "self_sym_sizes", "axes": "dim"},
)
