"""Softmax, its logarithm, and the logarithm of a sum of exponentials."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._typing import Tensor
from ..core.device import module_of
from ..core.dtypes import default, of
from ..core.recorders import Primitive, parametric
from ..devices.cpu import few, provider
from ..devices.cpu import softmax as kernels
from ..devices.cpu.softmax import LARGE
from .arguments import dim_in, dims_in, either, missing, require_tensors
from .create import into
from .reduce import _sum, as_given, both_on_gpu, count_of, f32, f64, is_half, kept, shifted, sum_p, title_of
from .shape import cast_p, reshape_p

Dims = Any
ndarray = np.ndarray

__all__ = ["log_softmax", "logsumexp", "softmax"]


def _rows_of(x: Any, axes: Any) -> Any:
    """Return the last axes as rows of a matrix, if these are all of the axes and `x` is on a GPU; else None."""
    return None if provider.gpu(x) is None else _last(x, axes)


def _last(x: Any, axes: Any) -> Any:
    """Return the last axes of an array as rows of a matrix, if these are all of the axes; else None."""
    if tuple(axes) != tuple(range(x.ndim - len(axes), x.ndim)) or not x.size:
        return None
    return x.reshape(-1, count_of(x.shape, axes))


def _logsumexp(x: Any, axes: Any, keepdims: Any) -> Any:
    d = x.dtype
    if type(x) is not ndarray and (rows := _rows_of(x, axes)) is not None:
        found = provider.gpu(x).rows.logsumexp(rows)
        if found is not None:
            lead = x.shape[: x.ndim - len(axes)]
            return found.reshape((*lead, *(1,) * len(axes)) if keepdims else lead)
    if is_half(d):
        return _logsumexp(x.astype(f32), axes, keepdims).astype(d)
    if type(x) is ndarray and x.size >= LARGE and d.char in "fd" and (rows := _last(x, axes)) is not None:
        found = kernels.logsumexp(rows)
        if np.isfinite(found).all():  # an infinity among the elements asks for more care
            lead = x.shape[: x.ndim - len(axes)]
            return found.reshape((*lead, *(1,) * len(axes)) if keepdims else lead)
    if count_of(x.shape, axes) == 0:
        return np.log(_sum(x, axes, keepdims))
    top = x.real.max(axis=axes, keepdims=True)
    top = module_of(x).where(np.isfinite(top), top, top.dtype.type(0))
    total = _sum(np.exp(x - top), axes, keepdims)
    return np.log(total) + (top if keepdims else top.reshape(total.shape))


def _weights(x: Any, out: Any, axes: Any, keepdims: Any) -> Any:
    """Return how much each element counts in a logsumexp."""
    whole = kept(out, x.ndim, axes, keepdims)
    return np.exp(x - whole)


def _logsumexp_x(g: Any, x: Any, out: Any, axes: Any, keepdims: Any) -> Any:
    if type(g) is not ndarray and (gpu := both_on_gpu(g, x)) is not None and g.dtype == x.dtype:
        rows = _rows_of(x, axes) if x.dtype.kind != "c" else None
        if rows is not None:
            return gpu.rows.logsumexp_back(g, rows, out).reshape(x.shape)
    if type(g) is ndarray is type(x) and x.size >= LARGE and g.dtype is x.dtype and x.dtype.char in "fd":
        rows = _last(x, axes)
        if rows is not None:
            return kernels.weighted(rows, out.reshape(-1), g.reshape(-1)).reshape(x.shape)
    return kept(g, x.ndim, axes, keepdims) * _weights(x, out, axes, keepdims)


logsumexp_p: Primitive = parametric(
    _logsumexp,
    x=_logsumexp_x,
    jvp=lambda tangents, inputs, out, params: sum_p(tangents[0] * _weights(inputs[0], out, *params), *params),
    batch=lambda x, axes, keepdims: logsumexp_p(x, shifted(axes), keepdims),
    holomorphic=True,
    saved={"axes": "dim", "keepdims": "keepdim"},
)


def logsumexp(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, out: Any = None, keepdims: bool = False,
    axis: Dims = None,
) -> Tensor:  # fmt: skip
    """Log of the sum of exponentials along `dim`, without overflow.

    Examples
    --------
    >>> adjoint.logsumexp(adjoint.tensor([1000.0, 1000.0]), dim=0)
    tensor(1000.6932)
    """
    dim = dim if axis is None else either(dim, axis)
    if dim is None:
        raise missing("logsumexp", "dim")
    if of(input.array.dtype).category < 2:
        input = cast_p(input, default().np)
    return into(out, logsumexp_p(input, dims_in(dim, input.array.ndim), keepdim or keepdims))


def _softmax_on_gpu(x: Any, axis: Any, log: bool) -> Any:
    gpu = provider.gpu(x)
    return None if gpu is None else gpu.rows.softmax(x, axis, log)


def _softmax(x: Any, axis: Any) -> Any:
    d = x.dtype
    if type(x) is not ndarray and (found := _softmax_on_gpu(x, axis, False)) is not None:
        return found
    if is_half(d):
        return _softmax(x.astype(f32), axis).astype(d)
    if type(x) is ndarray and not x.flags.c_contiguous:  # the result lies row by row
        x = np.ascontiguousarray(x)
    if x.size >= LARGE and type(x) is ndarray and d.kind == "f":
        return kernels.softmax(x, axis, False)
    if x.size == 0:
        return x.copy()
    e = x if few.within(x, 32.0) else x - _top(x, axis)  # whose exponentials need no level
    e = np.exp(e, out=None if e is x else e)
    e /= _sum(e, (axis,), True)
    return e


_maximum: Any = np.maximum.reduce


def _top(x: Any, axis: int) -> Any:
    return _maximum(x, axis, None, None, True) if type(x) is ndarray else x.max(axis=axis, keepdims=True)


def _softmax_x(g: Any, out: Any, axis: Any) -> Any:
    if type(g) is ndarray and type(out) is ndarray:
        if out.size >= LARGE and out.dtype.kind == "f":
            return kernels.softmax_back(g, out, axis, False)
        if axis == g.ndim - 1 and (g.dtype is f32 or g.dtype is f64):
            weight = np.vecdot(g, out)[..., None]
        else:
            weight = _sum(g * out, (axis,), True)
        result = g - weight
        result *= out
        return result
    if (
        type(g) is not ndarray
        and (gpu := both_on_gpu(g, out)) is not None
        and (found := gpu.rows.softmax_back(g, out, axis, False)) is not None
    ):
        return found
    product = g * out
    return product - out * product.sum(axis=axis, keepdims=True)


softmax_p: Primitive = parametric(
    _softmax,
    x=_softmax_x,
    jvp=lambda tangents, inputs, out, params: _softmax_x(tangents[0], out, *params),
    batch=lambda x, axis: softmax_p(x, axis + 1),
    saved={"axis": "dim"},
)


def _log_softmax(x: Any, axis: Any) -> Any:
    d = x.dtype
    if type(x) is not ndarray and (found := _softmax_on_gpu(x, axis, True)) is not None:
        return found
    if is_half(d):
        return _log_softmax(x.astype(f32), axis).astype(d)
    if type(x) is ndarray and not x.flags.c_contiguous:
        x = np.ascontiguousarray(x)
    if x.size >= LARGE and type(x) is ndarray and d.kind == "f":
        return kernels.softmax(x, axis, True)
    if x.size == 0:
        return x.copy()
    if few.within(x, 8.0):
        return x - np.log(_sum(np.exp(x), (axis,), True))
    away = x - _top(x, axis)
    away -= np.log(_sum(np.exp(away), (axis,), True))
    return away


def _log_softmax_x(g: Any, out: Any, axis: Any) -> Any:
    if type(g) is ndarray and type(out) is ndarray:
        if out.size >= LARGE and out.dtype.kind == "f":
            return kernels.softmax_back(g, out, axis, True)
        part = np.exp(out)
        part *= -_sum(g, (axis,), True)
        part += g
        return part
    if (
        type(g) is not ndarray
        and (gpu := both_on_gpu(g, out)) is not None
        and (found := gpu.rows.softmax_back(g, out, axis, True)) is not None
    ):
        return found
    return g - np.exp(out) * g.sum(axis=axis, keepdims=True)


def _log_softmax_tangent(tangents: Any, inputs: Any, out: Any, params: Any) -> Any:
    t = tangents[0]
    return t - (np.exp(out) * t).sum(axis=params[0], keepdims=True)


log_softmax_p: Primitive = parametric(
    _log_softmax,
    x=_log_softmax_x,
    jvp=_log_softmax_tangent,
    batch=lambda x, axis: log_softmax_p(x, axis + 1),
    saved={"axis": "dim"},
)


def _along(primitive: Any, input: Tensor, dim: int | None, dtype: Any, out: Any) -> Tensor:
    try:
        input = as_given(input, dtype)
        a = input.array
    except AttributeError:
        require_tensors(primitive.op.name, input=input)
        raise
    if of(a.dtype).category != 2:
        raise NotImplementedError(
            f"\"{primitive.op.name}_lastdim_kernel_impl\" not implemented for '{title_of(a.dtype)}': "
            "softmax takes "
            "floating-point values; convert with .float(), or pass dtype=adjoint.float32"
        )
    axis = dim_in(dim, a.ndim)
    if a.ndim == 0:
        return into(out, reshape_p(primitive(reshape_p(input, (1,)), 0), ()))
    result = primitive(input, axis)
    return result if out is None else into(out, result)


def softmax(
    input: Tensor, dim: int | None = None, dtype: Any = None, *, out: Any = None, axis: int | None = None
) -> Tensor:
    """Exponentials along `dim`, divided by their sum.

    Examples
    --------
    >>> adjoint.softmax(adjoint.tensor([0.0, 0.0, 1000.0]), dim=0)
    tensor([0., 0., 1.])
    """
    dim = dim if axis is None else either(dim, axis)
    return _along(softmax_p, input, dim, dtype, out)


def log_softmax(
    input: Tensor, dim: int | None = None, dtype: Any = None, *, out: Any = None, axis: int | None = None
) -> Tensor:
    """Logarithm of the softmax along `dim`, computed without taking it."""
    dim = dim if axis is None else either(dim, axis)
    return _along(log_softmax_p, input, dim, dtype, out)
