"""Ops that move, repeat or look at elements without computing: views where torch's are views."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core import primitive
from ..core.device import module_of
from ..core.dtypes import as_dtype
from ..core.recorders import nary, parametric, unary, variadic
from ..core.tensor import TensorBase
from .arguments import dim_in, dims_in, shape_from

Tensor = Any

# --- What the engine itself needs -------------------------------------------------------------------


def _sum_to(x: Any, shape: Any) -> Any:
    lead = x.ndim - len(shape)
    axes = tuple(range(lead)) + tuple(
        lead + i for i, n in enumerate(shape) if n == 1 and x.shape[lead + i] != 1
    )
    return x.sum(axis=axes, keepdims=True).reshape(shape) if axes else x.reshape(shape)


sum_to_p = parametric(
    _sum_to,
    x=lambda g, x_shape: expand_p(g, x_shape),
    jvp="linear",
    batch=lambda x, shape: sum_to_p(_pad_rank(x, len(shape) + 1), (x.shape[0], *shape)),
    node_name="SumBackward1",
)


def _pad_rank(x: Any, rank: int) -> Any:
    return x


def _cast(x: Any, dtype: Any) -> Any:
    if x.dtype.kind == "c" and dtype.kind != "c":
        x = x.real
    return x.astype(dtype)


cast_p = parametric(
    _cast,
    x=lambda g, x_dtype: cast_p(g, x_dtype),
    jvp="linear",
    batch="same",
    node_name="ToCopyBackward0",
)


def _copy_strided(x: Any, strides: Any) -> Any:
    """Return a copy whose memory is laid out by `strides`, as that of a base which views look at."""
    xp = module_of(x)
    reach = sum(abs(s) * (n - 1) for s, n in zip(strides, x.shape, strict=True)) + x.itemsize
    if x.size == 0 or any(s <= 0 for s in strides) or reach > 8 * x.nbytes + 64:
        return xp.array(x, order="C")
    memory = xp.empty(reach // x.itemsize, x.dtype)
    copy = xp.lib.stride_tricks.as_strided(memory, x.shape, strides)
    copy[...] = x
    return copy


copy_strided_p = parametric(_copy_strided, x=lambda g: g, jvp="linear", node_name="CloneBackward0")

primitive.sum_to = sum_to_p
primitive.cast = cast_p

# --- Copies -----------------------------------------------------------------------------------------

clone_p = unary(lambda x: x.copy(order="K"), x=lambda g: g, name="clone", holomorphic=False)


def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """Copy `input`; gradients flow through the copy."""
    return clone_p(input)


def _contiguous_kernel(x: Any) -> Any:
    return module_of(x).ascontiguousarray(x)


contiguous_p = unary(lambda x: x.copy(order="C"), x=lambda g: g, name="contiguous", node_name="CloneBackward0", holomorphic=False)


def contiguous(input: Tensor, memory_format: Any = None) -> Tensor:
    """Return `input` in row-major memory: itself if it already is."""
    return input if input.array.flags.c_contiguous else contiguous_p(input)


# --- Views ------------------------------------------------------------------------------------------


def _batched(shape_change: Any) -> Any:
    return shape_change


def _reshape(x: Any, shape: Any) -> Any:
    return x.reshape(shape)


reshape_p = parametric(
    _reshape,
    x=lambda g, x_shape: g.reshape(x_shape),
    view=True,
    jvp="linear",
    batch=lambda x, shape: reshape_p(x, (x.shape[0], *shape)),
    node_name="ViewBackward0",
    saved={"x_shape": "self_sym_sizes"},
)


def _expand(x: Any, shape: Any) -> Any:
    return module_of(x).broadcast_to(x, shape) if not hasattr(x, "level") else x


expand_p = parametric(
    _expand,
    x=lambda g, x_shape: sum_to_p(g, x_shape),
    view=True,
    jvp="linear",
    batch=lambda x, shape: expand_p(_lead(x, len(shape)), (x.shape[0], *shape)),
)


def _lead(x: Any, rank: int) -> Any:
    """Return a batched value with size-1 axes after the batch axis, up to `rank` logical axes."""
    shape = x.shape
    return reshape_p(x, (shape[0], *(1,) * (rank - len(shape) + 1), *shape[1:]))


def _permute(x: Any, axes: Any) -> Any:
    return x.transpose(axes)


def _inverse(axes: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.argsort(axes))


permute_p = parametric(
    _permute,
    x=lambda g, axes: permute_p(g, _inverse(axes)),
    view=True,
    jvp="linear",
    batch=lambda x, axes: permute_p(x, (0, *(a + 1 for a in axes))),
)


def _swap(x: Any, axis0: Any, axis1: Any) -> Any:
    return x.swapaxes(axis0, axis1)


transpose_p = parametric(
    _swap,
    x=lambda g, axis0, axis1: transpose_p(g, axis0, axis1),
    view=True,
    jvp="linear",
    batch=lambda x, axis0, axis1: transpose_p(x, axis0 + 1, axis1 + 1),
    name="transpose",
    saved={"axis0": "dim0", "axis1": "dim1"},
)
