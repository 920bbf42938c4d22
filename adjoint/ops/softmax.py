"""Softmax, its logarithm, and the logarithm of a sum of exponentials."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._typing import Array, Dims, DType, DTypeArg, Out, Tensor, Value
from ..core import dtypes
from ..core.dtypes import default, of
from ..core.recorders import Primitive
from .arguments import dim_in, dims_in, either, missing, require_tensors
from .create import into
from .reduce import as_given, title_of
from .rows import Row, exp_below, rowwise, where_p
from .shape import cast_p, reshape_p

__all__ = ["log_softmax", "logsumexp", "softmax"]


def _logsumexp(row: Row, x: Array) -> Array:
    top: Any = row.max(x)
    top = where_p(np.isfinite(top), top, 0)  # an infinity less itself is no number
    out: Array = np.log(row.sum(np.exp(x - top))) + top
    return out


def _logsumexp_x(row: Row, g: Array, x: Array, out: Array) -> Array:
    return g * np.exp(x - out)


logsumexp_p: Primitive = rowwise(
    "logsumexp",
    _logsumexp,
    x=_logsumexp_x,
    over="axes keepdims",
    holomorphic=True,
    saved={"axes": "dim", "keepdims": "keepdim"},
)


def logsumexp(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, out: Out = None, keepdims: bool = False,
    axis: Dims = None,
) -> Tensor:  # fmt: skip
    """Return the logarithm of the sum of exponentials along `dim`, without overflow.

    Parameters
    ----------
    input : Tensor
        Of any shape. Integers are converted to the default float dtype.
    dim : int or tuple of ints
        Dimensions to sum over.
    keepdim : bool, default False
        Leave the dimensions that are summed over in the result, with size 1.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        ``log(exp(x).sum(dim))``. The gradient is ``softmax(x, dim)``.

    Examples
    --------
    >>> adjoint.logsumexp(adjoint.tensor([[1000.0, 1000.0], [0.0, 1.0]]), dim=1)
    tensor([1000.6932,    1.3133])
    """
    dim = dim if axis is None else either(dim, axis)
    if dim is None:
        raise missing("logsumexp", "dim")
    if of(input.array.dtype).category < 2:
        input = cast_p(input, default().np)
    return into(out, logsumexp_p(input, dims_in(dim, input.array.ndim), keepdim or keepdims))


def _softmax(row: Row, x: Array) -> Array:
    e: Array = exp_below(x - row.max(x))
    return e * (1 / row.sum(e))


def _softmax_x(row: Row, g: Array, out: Array) -> Array:
    return (g - row.sum(g * out)) * out


def _log_softmax(row: Row, x: Array) -> Array:
    away = x - row.max(x)
    return away - np.log(row.sum(exp_below(away)))


def _log_softmax_x(row: Row, g: Array, out: Array) -> Array:
    weights: Array = exp_below(out)
    return g - weights * row.sum(g)


softmax_p: Primitive = rowwise("softmax", _softmax, x=_softmax_x, over="axis", saved={"axis": "dim"})
log_softmax_p: Primitive = rowwise("log_softmax", _log_softmax, x=_log_softmax_x, over="axis", saved={"axis": "dim"})


def _along(
    primitive: Primitive, input: Tensor, dim: int | None, dtype: DType | dtypes.dtype | None, out: Value | None,
) -> Tensor:  # fmt: skip
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
    input: Tensor, dim: int | None = None, dtype: DTypeArg | DType | None = None, *, out: Out = None,
    axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return exponentials along `dim`, divided by their sum: ``exp(x) / exp(x).sum(dim)``.

    Parameters
    ----------
    input : Tensor
        Of any shape and a float dtype.
    dim : int
        Dimension along which the values sum to one.
    dtype : dtype, optional
        Convert `input` to it first, for example to avoid overflow in half precision.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`. Values are between 0 and 1 and sum to 1 along `dim`. Large elements do not
        overflow.

    Raises
    ------
    NotImplementedError
        If the dtype is not floating and `dtype` is not given.

    Examples
    --------
    >>> adjoint.softmax(adjoint.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 1000.0]]), dim=1)
    tensor([[0.0900, 0.2447, 0.6652],
            [0.0000, 0.0000, 1.0000]])
    """
    dim = dim if axis is None else either(dim, axis)
    return _along(softmax_p, input, dim, dtype, out)


def log_softmax(
    input: Tensor, dim: int | None = None, dtype: DTypeArg = None, *, out: Out = None, axis: int | None = None
) -> Tensor:
    """Return the logarithm of the softmax along `dim`: ``x - logsumexp(x, dim)``.

    Parameters
    ----------
    input : Tensor
        Of any shape and a float dtype.
    dim : int
        Dimension along which the exponentials of the result sum to one.
    dtype : dtype, optional
        Convert `input` to it first, for example to avoid overflow in half precision.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`. Finite where the logarithm of a softmax that underflows would not be.

    Raises
    ------
    NotImplementedError
        If the dtype is not floating and `dtype` is not given.

    Examples
    --------
    >>> adjoint.log_softmax(adjoint.tensor([0.0, 1000.0]), dim=0)
    tensor([-1000.,     0.])
    """
    dim = dim if axis is None else either(dim, axis)
    return _along(log_softmax_p, input, dim, dtype, out)
