"""Reductions that add or multiply: sums, means, products, variances, and whether all or any elements are true."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._typing import Array, Axes, Dims, DTypeArg, Ints, Scalar, Shape, Tensor, Value
from ..core.device import module_of
from ..core.dtypes import as_dtype, dtype, of
from ..core.folding import fold, joined
from ..core.layout import dense
from ..core.recorders import Primitive, parametric
from .arguments import dim_in, dims_in, dtype_of, either, missing, require_bool, require_tensors, shape_from
from .arrange import pad_p
from .compare import zeros_p
from .create import into
from .dimensions import permute_p
from .index import slice_p
from .piecewise import where_p
from .shape import cast, cast_p, expand_p, reshape_p, sum_to_p

f32, f64 = np.dtype("float32"), np.dtype("float64")
_int64 = np.dtype("int64")

__all__ = [
    "all", "any", "count_nonzero", "mean", "nanmean", "nansum", "prod", "std", "std_mean", "sum", "var", "var_mean",
]  # fmt: skip

# --- What reductions share ------------------------------------------------------------------------------


def kept_shape(shape: tuple[int, ...], axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape with the reduced axes left in, at size 1."""
    return tuple([1 if i in axes else n for i, n in enumerate(shape)])


def broadcast(g: Value, shape: Shape, axes: Axes) -> Value:
    """Return a reduction's gradient broadcast to the shape of its input."""
    return expand_p(reshape_p(g, kept_shape(shape, axes)), shape)


def kept(value: Any, rank: int, axes: tuple[int, ...], keepdims: bool) -> Any:
    """Return a reduction's result, or its gradient, with the reduced axes in place, at size 1."""
    if keepdims or not value.ndim:
        return value  # a single number meets any shape
    left = iter(value.shape)
    return value.reshape(tuple([1 if i in axes else next(left) for i in range(rank)]))


def shifted(axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return axes as they are once a batch axis stands in front."""
    return tuple([i + 1 for i in axes])


def count_of(shape: tuple[int, ...], axes: tuple[int, ...]) -> int:
    """Return how many elements each result of a reduction is made of."""
    return math.prod([shape[i] for i in axes])


def is_half(d: Any) -> bool:
    """Return whether a NumPy dtype has 16 bits: such values are summed in float32."""
    return d is not f32 and d is not f64 and d.itemsize == 2 and d.kind not in "iu"


def as_given(input: Tensor, wanted: Any) -> Tensor:
    """Return `input` in the dtype given as ``dtype=``."""
    if wanted is None:
        return input
    target = as_dtype(wanted).np
    return input if input.array.dtype == target else cast(input, target)


_TITLES = {
    "float32": "Float", "float64": "Double", "int64": "Long", "int32": "Int", "int16": "Short",
    "int8": "Char",
    "uint8": "Byte", "bool": "Bool", "float16": "Half", "bfloat16": "BFloat16", "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}  # fmt: skip


def title_of(d: Any) -> str:
    """Return the name by which torch's errors call a NumPy dtype."""
    name = of(d).name
    return _TITLES.get(name, name)


# --- Sums -------------------------------------------------------------------------------------------------


_add: Any = np.add.reduce


def _sum(x: Any, axes: Axes | None, keepdims: bool) -> Any:
    d = x.dtype
    if is_half(d):
        return dense(_add(x, axes, f32, None, keepdims).astype(d))
    return dense(_add(x, axes, _int64 if d.kind in "biu" else None, None, keepdims))


sum_p: Primitive = parametric(
    _sum,
    x=lambda g, x_shape, axes: broadcast(g, x_shape, axes),
    jvp="linear",
    batch=lambda x, axes, keepdims: sum_p(x, shifted(axes), keepdims),
    node_name="SumBackward1",
    saved={"x_shape": "self_sym_sizes", "axes": "dim", "keepdims": "keepdim"},
)


def _sum_all(x: Value) -> Any:
    return _sum(x, None, False)


sum_all_p = parametric(
    _sum_all,
    x=lambda g, x_shape: expand_p(g, x_shape),
    jvp="linear",
    batch=lambda x: sum_p(x, tuple(range(1, x.ndim)), False),
    node_name="SumBackward0",
    saved={"x_shape": "self_sym_sizes"},
)


def sum(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: object = None, out: Tensor | None = None,
    axis: Dims = None, keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """Return the sum of all elements, or of those along `dim`.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    dim : int or tuple of ints, optional
        The dimensions to reduce; all by default.
    keepdim : bool, default False
        Whether reduced dimensions stay, at size 1.
    dtype : dtype, optional
        Converts `input` first. By default integers and booleans add up to int64; float16 and bfloat16 are summed in
        float32 and rounded once.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        Of the shape of `input` without `dim`. Its gradient is broadcast to all elements.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> x.sum()
    tensor(10.)
    >>> x.sum(dim=1)
    tensor([3., 7.])
    >>> x.sum(dim=0, keepdim=True)
    tensor([[4., 6.]])
    """
    if dim is None:
        if axis is None and dtype is None and out is None and not keepdim and not keepdims:
            return sum_all_p(input)
        dim = axis
    elif axis is not None:
        dim = either(dim, axis)
    if dtype is not None:
        input = as_given(input, dtype)
    if dim is None and not keepdim and not keepdims:
        result = sum_all_p(input)
    else:
        try:
            keepdim = keepdims or keepdim
            require_bool(keepdim, "keepdim", "sum")
            result = sum_p(input, dims_in(dim, input.array.ndim), keepdim)
        except AttributeError:
            require_tensors("sum", input=input)
            raise
    if dtype is not None:  # int32, given explicitly
        result = as_given(result, dtype)
    return result if out is None else into(out, result)


def sum_to_size(input: Tensor, *sizes: Ints, size: Ints | None = None) -> Tensor:
    """Add up the dims that broadcasting from `size` would have repeated."""
    if not sizes and size is None:
        raise missing("sum_to_size", "size")
    wanted = shape_from(sizes if size is None else (size,))
    have = tuple(input.array.shape)
    lead = len(have) - len(wanted)
    if lead < 0 or [m for n, m in zip(wanted, have[lead:]) if n not in (1, m)]:
        raise RuntimeError(f"size {{{list(wanted)}}} is not expandable to size {{{list(have)}}}.")
    if wanted == have:
        return input if have else sum_all_p(input)
    if input.array.dtype.kind == "u":  # NumPy's sum would be unsigned, too
        return sum_to_p(cast_p(input, np.int64), wanted)
    return sum_to_p(input, wanted)


def _nansum(x: Array, axes: Axes, keepdims: bool) -> Any:
    numbers = module_of(x).where(x == x, x, x.dtype.type(0))
    return _sum(numbers.astype(x.dtype, copy=False), axes, keepdims)  # CuPy makes float32 of bfloat16


nansum_p: Primitive = parametric(
    _nansum,
    x=lambda g, x, axes, keepdims: kept(g, x.ndim, axes, keepdims) * (x == x),
    jvp=lambda tangents, inputs, out, params: sum_p(tangents[0] * (inputs[0] == inputs[0]), *params),
    batch=lambda x, axes, keepdims: nansum_p(x, shifted(axes), keepdims),
)


def nansum(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: object = None, out: Tensor | None = None,
    axis: Dims = None, keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """Add up all elements, or those along `dim`, with NaN as zero.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    dim : int or tuple of int, optional
        Dimensions to sum; all by default.
    keepdim : bool, default False
        Whether `dim` stays, with size 1.
    dtype : dtype, optional
        Data type to sum in.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        The sum.

    Examples
    --------
    >>> adjoint.nansum(adjoint.tensor([1.0, float("nan"), 3.0]))
    tensor(4.)
    """
    input = as_given(input, dtype)
    if input.array.dtype.kind in "biu":
        return sum(input, dim, keepdim, dtype=dtype, out=out, axis=axis, keepdims=keepdims)
    if input.array.dtype.kind == "c":
        raise RuntimeError("nansum does not support complex inputs; take nansum of the real and imaginary parts")
    axes = dims_in(either(dim, axis), input.array.ndim)
    return into(out, nansum_p(input, axes, keepdim or keepdims))


# --- Means ------------------------------------------------------------------------------------------------


def _mean(x: Any, axes: Axes | None, keepdims: bool) -> Any:
    d = x.dtype
    if is_half(d):
        return _mean(x.astype(f32), axes, keepdims).astype(d)
    n, total = x.size if axes is None else count_of(x.shape, axes), _sum(x, axes, keepdims)
    return total / d.type(n) if n else total * d.type(math.nan)


mean_p: Primitive = parametric(
    _mean,
    x=lambda g, x_shape, axes: broadcast(g / max(count_of(x_shape, axes), 1), x_shape, axes),
    jvp="linear",
    batch=lambda x, axes, keepdims: mean_p(x, shifted(axes), keepdims),
    node_name="MeanBackward1",
    saved={"x_shape": "self_sym_sizes", "axes": "dim", "keepdims": "keepdim"},
)


def _mean_all(x: Value) -> Any:
    return _mean(x, None, False)


mean_all_p = parametric(
    _mean_all,
    x=lambda g, x_shape: expand_p(g / max(math.prod(x_shape), 1), x_shape),
    jvp="linear",
    batch=lambda x: mean_p(x, tuple(range(1, x.ndim)), False),
    node_name="MeanBackward0",
    saved={"x_shape": "self_sym_sizes"},
)


def mean(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DTypeArg = None, out: Tensor | None = None,
    axis: Dims = None, keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """Return the mean of all elements, or of those along `dim`.

    ``Σ x / n`` over the n elements reduced; NaN if there are none.

    Parameters
    ----------
    input : Tensor
        Any shape; real or complex floating point.
    dim : int or tuple of ints, optional
        The dimensions to reduce; all by default.
    keepdim : bool, default False
        Whether reduced dimensions stay, at size 1.
    dtype : dtype, optional
        Converts `input` first: ``dtype=adjoint.float32`` makes the mean of integers possible.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        Of the shape of `input` without `dim`.

    Raises
    ------
    RuntimeError
        If `input` holds integers or booleans and `dtype` is not given.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 2.0], [3.0, 5.0]])
    >>> x.mean(dim=0)
    tensor([2.0000, 3.5000])
    >>> adjoint.arange(4).mean(dtype=adjoint.float32)
    tensor(1.5000)
    """
    if dtype is not None:
        if as_dtype(dtype).category < 2:
            raise _no_mean("Optional dtype", as_dtype(dtype))
        input = as_given(input, dtype)
    try:
        d = input.array.dtype
    except AttributeError:
        require_tensors("mean", input=input)
        raise
    if d is not f32 and d is not f64 and of(d).category < 2:
        raise _no_mean("Input dtype", of(d))
    dim = either(dim, axis)
    if dim is None and not keepdim and not keepdims:
        result = mean_all_p(input)
    else:
        keepdim = keepdims or keepdim
        require_bool(keepdim, "keepdim", "mean")
        result = mean_p(input, dims_in(dim, input.array.ndim), keepdim)
    return result if out is None else into(out, result)


def _no_mean(what: str, d: dtype) -> RuntimeError:
    return RuntimeError(
        f"mean(): could not infer output dtype. {what} must be either a floating point or complex dtype. "
        f"Got: {_TITLES.get(d.name, d.name)}; convert with .float(), or pass dtype=adjoint.float32"
    )


def nanmean(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: object = None, out: Tensor | None = None,
    axis: Dims = None, keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """Return the mean of the elements that are not NaN, of all or along `dim`.

    Parameters
    ----------
    input : Tensor
        Any shape; real or complex floating point.
    dim : int or tuple of ints, optional
        The dimensions to reduce; all by default.
    keepdim : bool, default False
        Whether reduced dimensions stay, at size 1.
    dtype : dtype, optional
        Converts `input` first.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        Of the shape of `input` without `dim`; NaN where all elements are. NaNs get gradient zero.

    Examples
    --------
    >>> adjoint.tensor([1.0, float("nan"), 3.0]).nanmean()
    tensor(2.)
    """
    input = as_given(input, dtype)
    if of(input.array.dtype).category < 2:
        raise RuntimeError(
            f"nanmean(): expected input to have floating point or complex dtype but got {title_of(input.array.dtype)}"
        )
    dim, keep = either(dim, axis), keepdim or keepdims
    there = (input == input).sum(dim, keep)
    return into(out, nansum(input, dim, keep) / there)


# --- Products ---------------------------------------------------------------------------------------------


def _prod(x: Array, axes: Axes, keepdims: bool) -> Array:
    d = x.dtype
    if is_half(d):
        return dense(x.astype(f32).prod(axis=axes, keepdims=keepdims).astype(d))
    return dense(x.prod(axis=axes, dtype=_int64 if d.kind in "biu" else d, keepdims=keepdims))


def _prod_x(g: Array, x: Array, out: Array, axes: Axes, keepdims: bool) -> Any:
    return kept(g, x.ndim, axes, keepdims) * others(x, axes)


def others(x: Value, axes: tuple[int, ...]) -> Value:
    """Return, for each element, the product of all others along `axes`, which may include zeros.

    Products of pairs, of pairs of pairs and so on go up a tree; on the way down, each element meets
    what is not under it. Only products, so the result can be differentiated to any order.
    """
    shape, rank = tuple(x.shape), x.ndim
    order = (*(i for i in range(rank) if i not in axes), *axes)
    lead = tuple(shape[i] for i in order[: rank - len(axes)])
    n = count_of(shape, axes)
    if x.ndim == 0 or n <= 1:
        return np.sign(x) * 0 + 1  # a constant that still has a graph; of infinite elements too
    level = reshape_p(permute_p(x, order), (*lead, n))
    levels = []
    while level.shape[-1] > 1:
        first, second = _halves(level)
        levels.append((first, second, level.shape[-1]))
        level = first * second
    rest: Value = zeros_p(level) + 1
    for first, second, length in reversed(levels):
        rest = _joined(rest * second, rest * first, length)
    inverse = tuple(int(i) for i in np.argsort(order))
    return permute_p(reshape_p(rest, (*lead, *(shape[i] for i in axes))), inverse)


def part(x: Value, axis: int, start: int, length: int) -> Tensor:
    """Return a part of an axis, of a value of any kind."""
    return slice_p(x, (_ALL,) * axis + (slice(start, start + length),))


def widened(x: Value, axis: int, before: int, after: int, fill: Any = 0) -> Tensor:
    """Return a value of any kind with an axis made longer."""
    return pad_p(x, tuple([(before, after) if i == axis else (0, 0) for i in range(x.ndim)]), fill)


_ALL = slice(None)


def _halves(x: Value) -> tuple[Any, Any]:
    """Return the two halves of the last axis, of equal length; a missing element is 1."""
    n = x.shape[-1]
    half = (n + 1) // 2
    first, second = part(x, x.ndim - 1, 0, half), part(x, x.ndim - 1, half, n - half)
    return first, second if n == 2 * half else widened(second, second.ndim - 1, 0, 1, 1)


def _joined(first: Value, second: Value, length: int) -> Value:
    axis, half = first.ndim - 1, first.shape[-1]
    if length != 2 * half:
        second = part(second, axis, 0, length - half)
    return widened(first, axis, 0, length - half) + widened(second, axis, half, 0)


prod_p: Primitive = parametric(
    _prod,
    x=_prod_x,
    jvp=lambda tangents, inputs, out, params: sum_p(tangents[0] * others(inputs[0], params[0]), *params),
    batch=lambda x, axes, keepdims: prod_p(x, shifted(axes), keepdims),
    holomorphic=True,
)


def prod(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: object = None, out: Tensor | None = None,
    axis: Dims = None, keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """Return the product of all elements, or of those along `dim`.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    dim : int, optional
        The dimension to reduce; all by default.
    keepdim : bool, default False
        Whether reduced dimensions stay, at size 1.
    dtype : dtype, optional
        Converts `input` first. By default integers and booleans give int64.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        Of the shape of `input` without `dim`. The gradient of an element is the product of all others, also where some
        are zero.

    Examples
    --------
    >>> x = adjoint.tensor([2.0, 0.0, 4.0], requires_grad=True)
    >>> x.prod().backward()
    >>> x.grad
    tensor([0., 8., 0.])
    >>> adjoint.tensor([[1, 2], [3, 4]]).prod(dim=1)
    tensor([ 2, 12])
    """
    input = as_given(input, dtype)
    dim = either(dim, axis)
    rank = input.array.ndim
    axes = tuple(range(rank)) if dim is None else (dim_in(dim, rank),) if rank else dims_in(dim, rank)
    result = prod_p(input, axes, keepdim or keepdims)
    if dim is not None:
        fold(result, "ProdBackward1", input, dim=dim, keepdim=keepdim or keepdims)
    if dtype is not None:
        result = as_given(result, dtype)
    return into(out, result)


# --- Variance ---------------------------------------------------------------------------------------------


def _var(x: Array, axes: Axes, correction: float, keepdims: bool) -> Any:
    d = x.dtype
    if is_half(d):
        return cast_p(var_p(x.astype(f32), axes, correction, keepdims), d)
    away = x - mean_p(x, axes, True)
    square = away.real * away.real + away.imag * away.imag if d.kind == "c" else away * away
    free = max(count_of(x.shape, axes) - correction, 0)
    return sum_p(square, axes, keepdims) / square.dtype.type(free)


def _away(x: Array, axes: Axes, correction: float) -> Array:
    """Return twice the distance of each element from the mean, over the degrees of freedom."""
    free = max(count_of(x.shape, axes) - correction, 0)
    return (2 / free if free else math.inf) * (x - mean_p(x, axes, True))


def _var_tangent(
    tangents: Sequence[Array], inputs: Sequence[Array], out: Array, params: tuple[Axes, float, bool]
) -> Any:
    (t,), (x,), (axes, correction, keepdims) = tangents, inputs, params
    away = _away(x, axes, correction)
    return sum_p(np.real(away * t.conj()) if dtype_of(x).kind == "c" else away * t, axes, keepdims)


def _var_x(g: Array, x: Array, axes: Axes, correction: float, keepdims: bool) -> Any:
    return kept(g, x.ndim, axes, keepdims) * _away(x, axes, correction)


var_p: Primitive = parametric(
    _var,
    x=_var_x,
    jvp=_var_tangent,
    batch=lambda x, axes, correction, keepdims: var_p(x, shifted(axes), correction, keepdims),
    saved={"axes": "dim", "keepdims": "keepdim"},
)


def _std(x: Array, axes: Axes, correction: float, keepdims: bool) -> Array:
    return np.sqrt(var_p(x, axes, correction, keepdims))


def quotient(x: Value, y: Value) -> Value:
    """Return ``x / y``, and 0 where `y` is: the gradient of a length or deviation that is 0 has no direction."""
    zero = y == 0
    return where_p(zero, 0, x / where_p(zero, 1, y))


def _std_x(g: Array, x: Array, out: Array, axes: Axes, correction: float, keepdims: bool) -> Any:
    return kept(quotient(g, 2 * out), x.ndim, axes, keepdims) * _away(x, axes, correction)


std_p: Primitive = parametric(
    _std,
    x=_std_x,
    jvp=lambda tangents, inputs, out, params: quotient(_var_tangent(tangents, inputs, out, params), 2 * out),
    batch=lambda x, axes, correction, keepdims: std_p(x, shifted(axes), correction, keepdims),
    saved={"axes": "dim", "keepdims": "keepdim"},
)


def _variance_arguments(
    input: Tensor, dim: Dims | bool, unbiased: bool | None, keepdim: bool, correction: Any, axis: int, keepdims: bool
) -> tuple[tuple[int, ...], Any, bool]:
    if of(input.array.dtype).category < 2:
        raise RuntimeError(
            f"std and var only support floating point and complex dtypes, not {title_of(input.array.dtype)}; "
            "convert with .float()"
        )
    dim = either(dim, axis)
    if isinstance(dim, bool):  # var(x, unbiased)
        if unbiased is not None or correction is not None or keepdim or keepdims:
            raise TypeError("var() received an invalid combination of arguments - got (Tensor, dim=bool)")
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    return dims_in(dim, input.array.ndim), correction, keepdim or keepdims


def var(
    input: Tensor, dim: Dims | bool = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: Scalar | None = None, out: Tensor | None = None, axis: Any = None, keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """Return the variance of all elements, or of those along `dim`.

    ``Σ |x - mean|² / max(0, n - correction)`` over the n elements reduced.

    Parameters
    ----------
    input : Tensor
        Any shape; real or complex floating point.
    dim : int or tuple of ints, optional
        The dimensions to reduce; all by default.
    unbiased : bool, optional
        An older form of `correction`: True stands for 1, False for 0.
    keepdim : bool, default False
        Whether reduced dimensions stay, at size 1.
    correction : int or float, optional
        What is subtracted from n. By default 1, which makes the estimate from a sample unbiased; 0 divides by n.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        Of the shape of `input` without `dim`, real; NaN or infinite where n does not exceed `correction`.

    Examples
    --------
    >>> x = adjoint.tensor([1.0, 2.0, 3.0, 4.0])
    >>> x.var(), x.var(correction=0)
    (tensor(1.6667), tensor(1.2500))
    >>> adjoint.tensor([[1.0, 3.0], [2.0, 2.0]]).var(dim=1)
    tensor([2., 0.])
    """
    result = var_p(input, *_variance_arguments(input, dim, unbiased, keepdim, correction, axis, keepdims))
    return result if out is None else into(out, result)


def std(
    input: Tensor, dim: Dims | bool = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: Scalar | None = None, out: Tensor | None = None, axis: Any = None, keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """Return the standard deviation of all elements, or of those along `dim`.

    ``sqrt(Σ |x - mean|² / max(0, n - correction))`` over the n elements reduced.

    Parameters
    ----------
    input : Tensor
        Any shape; real or complex floating point.
    dim : int or tuple of ints, optional
        The dimensions to reduce; all by default.
    unbiased : bool, optional
        An older form of `correction`: True stands for 1, False for 0.
    keepdim : bool, default False
        Whether reduced dimensions stay, at size 1.
    correction : int or float, optional
        What is subtracted from n, 1 by default; 0 divides by n.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        Of the shape of `input` without `dim`, real. Where the deviation is zero, so is its gradient.

    Examples
    --------
    >>> x = adjoint.tensor([1.0, 2.0, 3.0, 4.0])
    >>> x.std(), x.std(correction=0)
    (tensor(1.2910), tensor(1.1180))
    """
    result = std_p(input, *_variance_arguments(input, dim, unbiased, keepdim, correction, axis, keepdims))
    return result if out is None else into(out, result)


def var_mean(
    input: Tensor, dim: Dims | bool = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: Scalar | None = None, axis: Any = None, keepdims: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the variance and the mean, of all elements or of those along `dim`.

    Parameters
    ----------
    input : Tensor
        Any shape; real or complex floating point.
    dim : int or tuple of ints, optional
        The dimensions to reduce; all by default.
    unbiased : bool, optional
        An older form of `correction`: True stands for 1, False for 0.
    keepdim : bool, default False
        Whether reduced dimensions stay, at size 1.
    correction : int or float, optional
        What is subtracted from the number of elements, 1 by default; see `var`.

    Returns
    -------
    tuple of Tensor
        ``(var, mean)``, each of the shape of `input` without `dim`.

    Examples
    --------
    >>> adjoint.var_mean(adjoint.tensor([1.0, 2.0, 3.0, 4.0]))
    (tensor(1.6667), tensor(2.5000))
    """
    axes, correction, keep = _variance_arguments(input, dim, unbiased, keepdim, correction, axis, keepdims)
    return joined("VarMeanBackward0", (var_p(input, axes, correction, keep), mean_p(input, axes, keep)))


def std_mean(
    input: Tensor, dim: Dims | bool = None, unbiased: bool | None = None, keepdim: bool = False, *,
    correction: Scalar | None = None, axis: Any = None, keepdims: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the standard deviation and the mean, of all elements or of those along `dim`.

    Parameters
    ----------
    input : Tensor
        Any shape; real or complex floating point.
    dim : int or tuple of ints, optional
        The dimensions to reduce; all by default.
    unbiased : bool, optional
        An older form of `correction`: True stands for 1, False for 0.
    keepdim : bool, default False
        Whether reduced dimensions stay, at size 1.
    correction : int or float, optional
        What is subtracted from the number of elements, 1 by default; see `std`.

    Returns
    -------
    tuple of Tensor
        ``(std, mean)``, each of the shape of `input` without `dim`.

    Examples
    --------
    >>> adjoint.std_mean(adjoint.tensor([[1.0, 3.0], [2.0, 2.0]]), dim=1)
    (tensor([1.4142, 0.0000]), tensor([2., 2.]))
    """
    axes, correction, keep = _variance_arguments(input, dim, unbiased, keepdim, correction, axis, keepdims)
    return joined("StdMeanBackward0", (std_p(input, axes, correction, keep), mean_p(input, axes, keep)))


# --- All, any, count ----------------------------------------------------------------------------------------


def _all(x: Array, axes: Axes, keepdims: bool) -> Array:
    found = dense(x.astype(bool).all(axis=axes, keepdims=keepdims))
    return found.astype(x.dtype) if x.dtype == np.uint8 else found


def _any(x: Array, axes: Axes, keepdims: bool) -> Array:
    found = dense(x.astype(bool).any(axis=axes, keepdims=keepdims))
    return found.astype(x.dtype) if x.dtype == np.uint8 else found


def _count(x: Array, axes: Axes, keepdims: bool) -> Array:
    return dense((x != 0).sum(axis=axes, keepdims=keepdims))


all_p: Primitive = parametric(_all, batch=lambda x, axes, keepdims: all_p(x, shifted(axes), keepdims))
any_p: Primitive = parametric(_any, batch=lambda x, axes, keepdims: any_p(x, shifted(axes), keepdims))
count_nonzero_p: Primitive = parametric(
    _count, name="count_nonzero", batch=lambda x, axes, keepdims: count_nonzero_p(x, shifted(axes), keepdims)
)


def all(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, out: Tensor | None = None, axis: Dims = None,
    keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """Return whether all elements, or all along `dim`, are true.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype; every number but zero is true.
    dim : int or tuple of ints, optional
        The dimensions to reduce; all by default.
    keepdim : bool, default False
        Whether reduced dimensions stay, at size 1.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        Of dtype bool (uint8 for uint8) and the shape of `input` without `dim`; true where there are no elements.

    Examples
    --------
    >>> x = adjoint.tensor([[True, False], [True, True]])
    >>> x.all()
    tensor(False)
    >>> x.all(dim=0)
    tensor([ True, False])
    """
    axes = dims_in(either(dim, axis), input.array.ndim)
    return into(out, all_p(input, axes, keepdim or keepdims))


def any(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, out: Tensor | None = None, axis: Dims = None,
    keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """Return whether any element, or any along `dim`, is true.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype; every number but zero is true.
    dim : int or tuple of ints, optional
        The dimensions to reduce; all by default.
    keepdim : bool, default False
        Whether reduced dimensions stay, at size 1.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        Of dtype bool (uint8 for uint8) and the shape of `input` without `dim`; false where there are no elements.

    Examples
    --------
    >>> x = adjoint.tensor([[0, 0], [0, 3]])
    >>> x.any()
    tensor(True)
    >>> x.any(dim=1)
    tensor([False,  True])
    """
    axes = dims_in(either(dim, axis), input.array.ndim)
    return into(out, any_p(input, axes, keepdim or keepdims))


def count_nonzero(input: Tensor, dim: Dims = None, *, axis: Dims = None) -> Tensor:
    """Return how many elements are not zero, of all or along `dim`.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    dim : int or tuple of ints, optional
        The dimensions to count along; all by default.

    Returns
    -------
    Tensor
        Of dtype int64 and the shape of `input` without `dim`.

    Examples
    --------
    >>> x = adjoint.tensor([[0, 1, 2], [0, 0, 3]])
    >>> adjoint.count_nonzero(x)
    tensor(3)
    >>> adjoint.count_nonzero(x, dim=1)
    tensor([2, 1])
    """
    dim = either(dim, axis)
    return count_nonzero_p(input, dims_in(dim, input.array.ndim), False)
