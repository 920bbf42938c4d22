"""Scans: cumulative sums, products and extremes along a dim; differences and areas."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from .. import return_types
from .._typing import Array, Dims, DType, Kernel, Out, Outs, Shape, Tensor, Value
from ..core.device import module_of
from ..core.dtypes import as_dtype, of
from ..core.inplace import inplace
from ..core.recorders import Primitive, nary, parametric
from ..core.tensor import TensorBase
from .arguments import count_of, dim_in, either
from .arrange import flip_p
from .create import into
from .gather import gather_p, ungathered
from .piecewise import where_p
from .reduce import as_given, f32, is_half, part, title_of, widened
from .shape import cast_p, reshape_p
from .special import log_add

__all__ = [
    "cummax", "cummin", "cumprod", "cumsum", "cumulative_trapezoid", "diff", "gradient", "logcumsumexp", "trapezoid",
    "trapz",
]  # fmt: skip

_int64 = np.dtype("int64")

# --- Running sums and products ------------------------------------------------------------------------------


def _cumsum(x: Array, axis: int, reverse: bool) -> Value:
    d = x.dtype
    if is_half(d):
        return cast_p(cumsum_p(x.astype(f32), axis, reverse), d)
    wide = _int64 if d.kind in "biu" else d
    back = (slice(None),) * axis + (slice(None, None, -1),)
    sums = x[back].cumsum(axis=axis, dtype=wide)[back] if reverse else x.cumsum(axis=axis, dtype=wide)
    return sums if sums.flags.c_contiguous else module_of(x).ascontiguousarray(sums)  # as torch's are


cumsum_p: Primitive = parametric(
    _cumsum,
    x=lambda g, axis, reverse: cumsum_p(g, axis, not reverse),
    jvp="linear",
    batch=lambda x, axis, reverse: cumsum_p(x, axis + 1, reverse),
    saved={"axis": "dim"},
)


def _recur(a: Array, b: Array, axis: int) -> Array:
    """Return s with ``s[i] = b[i] + a[i] * s[i + 1]`` along an axis, from its end: where s is 0.

    Stretches of length 1, 2, 4, ... are combined, so the number of steps grows with the logarithm of the axis.
    """
    out = module_of(b).array(b, order="C")
    shape = (math.prod(out.shape[:axis]), out.shape[axis], math.prod(out.shape[axis + 1 :]))
    a, s = a.reshape(shape), out.reshape(shape)
    n, step = shape[1], 1
    while step < n:
        s[:, : n - step] += a[:, : n - step] * s[:, step:]
        left = max(n - 2 * step, 0)  # where there is something after the next stretch
        a = a[:, :left] * a[:, step : step + left]
        step *= 2
    return out


def _after(x: Value, axis: int) -> Value:
    """Return each element's successor along an axis, 0 for the last."""
    n = x.shape[axis]
    return widened(part(x, axis, 1, n - 1), axis, 0, 1, 0) if n else x


def _before(x: Value, axis: int, first: int) -> Value:
    """Return each element's predecessor along an axis, `first` for the first."""
    n = x.shape[axis]
    return widened(part(x, axis, 0, n - 1), axis, 1, 0, first) if n else x


def _forward(a: Value, b: Value, axis: int) -> Value:
    """Return s with ``s[i] = b[i] + a[i] * s[i - 1]``: the same recurrence, from the front."""
    return _reversed(recur_p(_reversed(a, axis), _reversed(b, axis), axis), axis)


def _reversed(x: Value, axis: int) -> Value:
    return flip_p(x, (axis,))


def _recur_back(g: Value, a: Value, out: Value, axis: int) -> tuple[Value, Value]:
    # A linear recurrence's gradient is one that runs the other way: the family is closed.
    gb = _forward(_before(a, axis, 0), g, axis)
    return gb * _after(out, axis), gb


def _recur_tangent(tangents: Sequence[Any], inputs: Sequence[Any], out: Value, params: tuple[Any, ...]) -> Value:
    (ta, tb), (a, _), (axis,) = tangents, inputs, params
    push = None if ta is None else ta * _after(out, axis)
    push = tb if push is None else push if tb is None else push + tb
    return recur_p(a, push, axis)


recur_p: Primitive = nary(
    _recur,
    inputs=2,
    joint=_recur_back,
    jvp=_recur_tangent,
    batch=lambda a, b, axis: recur_p(a, b, axis + 1),
    holomorphic=True,
)


def _cumprod(x: Array, axis: int) -> Value:
    d = x.dtype
    if is_half(d):
        return cast_p(cumprod_p(x.astype(f32), axis), d)
    return x.cumprod(axis=axis, dtype=_int64 if d.kind in "biu" else d)


def _cumprod_x(g: Array, x: Array, out: Array, axis: int) -> Value:
    # x[i] is in every product from the i-th on: what was before it, times the sum of what follows.
    # Nothing is divided, so zeros are no problem.
    return _before(out, axis, 1) * recur_p(_after(x, axis), g, axis)


def _cumprod_tangent(tangents: Sequence[Any], inputs: Sequence[Any], out: Value, params: tuple[Any, ...]) -> Value:
    (axis,) = params
    return _forward(inputs[0], tangents[0] * _before(out, axis, 1), axis)


cumprod_p: Primitive = parametric(
    _cumprod,
    x=_cumprod_x,
    jvp=_cumprod_tangent,
    batch=lambda x, axis: cumprod_p(x, axis + 1),
    holomorphic=True,
    saved={"axis": "dim"},
)


def _accumulated(function: Kernel, x: Array, axis: int) -> Any:
    """Return what an associative function of two makes of all elements up to each along an axis.

    Stretches of length 1, 2, 4, ... are combined, so the number of steps grows with the logarithm of the axis.
    """
    out = module_of(x).array(x, order="C")
    moved, step = module_of(x).moveaxis(out, axis, 0), 1
    while step < moved.shape[0]:
        moved[step:] = function(moved[:-step], moved[step:])
        step *= 2
    return out


def _logcumsumexp(x: Array, axis: int) -> Any:
    d = x.dtype
    if is_half(d):
        return cast_p(logcumsumexp_p(x.astype(f32), axis), d)
    return _accumulated(log_add if d.kind == "c" else np.logaddexp, x, axis)


def _fall(out: Value, axis: int) -> Value:
    """Return how much of each running sum is left in the next one; 1 between two that are empty, or infinite."""
    if out.shape[axis] == 0:
        return out
    following = widened(part(out, axis, 1, out.shape[axis] - 1), axis, 0, 1, 0.0)
    stuck = (following == out) & (np.abs(out) == math.inf)
    return where_p(stuck, 1, np.exp(where_p(stuck, 0, out) - where_p(stuck, 0, following)))


def _part(x: Value, out: Value) -> Value:
    """Return the part of each running sum that its own element is."""
    empty = out == -math.inf
    return where_p(empty, 0, np.exp(x - where_p(empty, 0, out)))


def _logcumsumexp_tangent(tangents: Sequence[Any], inputs: Sequence[Any], out: Value, params: tuple[Any, ...]) -> Value:
    (t,), (x,), (axis,) = tangents, inputs, params
    return _forward(_before(_fall(out, axis), axis, 0), t * _part(x, out), axis)


def _logcumsumexp_x(g: Array, x: Array, out: Array, axis: int) -> Value:
    return _part(x, out) * recur_p(_fall(out, axis), g, axis)


logcumsumexp_p: Primitive = parametric(
    _logcumsumexp,
    x=_logcumsumexp_x,
    jvp=_logcumsumexp_tangent,
    batch=lambda x, axis: logcumsumexp_p(x, axis + 1),
    holomorphic=True,
    saved={"axis": "dim"},
)


def _scanned(primitive: Primitive, input: Tensor, dim: int | None, *params: object) -> Tensor:
    """Return a scan along `dim`; a scalar is an axis of one."""
    rank = input.array.ndim
    axis = dim_in(dim, rank)
    if rank == 0:
        return reshape_p(primitive(reshape_p(input, (1,)), 0, *params), ())
    return primitive(input, axis, *params)


def cumsum(
    input: Tensor, dim: int | None = None, *, dtype: object = None, out: Tensor | None = None, axis: int | None = None
) -> Tensor:
    """Return the sums of all elements up to each place along a dimension.

    ``result[k] = input[0] + ... + input[k]``.

    Parameters
    ----------
    input : Tensor
        Any shape and dtype.
    dim : int
        The dimension; negative ones count from the end.
    dtype : dtype, optional
        Converts `input` first. By default integers and booleans add up to int64.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Examples
    --------
    >>> adjoint.cumsum(adjoint.tensor([1.0, 2.0, 3.0]), dim=0)
    tensor([1., 3., 6.])
    >>> adjoint.tensor([[1, 2], [3, 4]]).cumsum(1)
    tensor([[1, 3],
            [3, 7]])
    """
    dim = either(dim, axis)
    if input.array.ndim and input.array.size:
        _refuse_bool(dtype, "cumsum_out_cpu")
    return into(out, as_given(_scanned(cumsum_p, as_given(input, dtype), dim, False), dtype))


_cumsum_, _cumprod_ = inplace(cumsum_p), inplace(cumprod_p)


def cumsum_(input: Tensor, dim: int | None = None, *, dtype: object = None, axis: int | None = None) -> Tensor:
    """Overwrite `input` with its partial sums along `dim`."""
    dim = either(dim, axis)
    axis = dim_in(dim, input.array.ndim)
    _refuse_other(input, dtype)
    return _cumsum_(input, axis, False) if input.array.ndim else input


def cumprod(
    input: Tensor, dim: int | None = None, *, dtype: object = None, out: Tensor | None = None, axis: int | None = None
) -> Tensor:
    """Return the cumulative product along `dim`.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    dim : int, optional
        Dimension to multiply along.
    dtype : dtype, optional
        Data type to compute in; int64 by default for integers.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Examples
    --------
    >>> adjoint.cumprod(adjoint.tensor([1, 2, 3, 4]), 0)
    tensor([ 1,  2,  6, 24])
    """
    dim = either(dim, axis)
    if input.array.ndim and input.array.size:
        _refuse_bool(dtype, "cumprod_out_cpu")
    return into(out, as_given(_scanned(cumprod_p, as_given(input, dtype), dim), dtype))


def cumprod_(input: Tensor, dim: int | None = None, *, dtype: object = None, axis: int | None = None) -> Tensor:
    """Overwrite `input` with its partial products along `dim`."""
    dim = either(dim, axis)
    axis = dim_in(dim, input.array.ndim)
    _refuse_other(input, dtype)
    return _cumprod_(input, axis) if input.array.ndim else input


def _refuse_bool(dtype: DType | object, kernel: str) -> None:
    if dtype is not None and as_dtype(dtype).category == 0:
        raise NotImplementedError(f"\"{kernel}\" not implemented for 'Bool': give dtype another type of numbers")


def _refuse_other(input: Tensor, dtype: DType | object) -> None:
    if dtype is not None and as_dtype(dtype).np != input.array.dtype:
        raise RuntimeError(
            f"Bad in-place call: input tensor dtype {title_of(input.array.dtype)} and output tensor dtype "
            f"{as_dtype(dtype).title} should match"
        )


def logcumsumexp(
    input: Tensor, dim: int | None = None, *, out: Tensor | None = None, axis: int | None = None
) -> Tensor:
    """Return the logarithm of the cumulative sum of exponentials along `dim`, without overflow.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    dim : int, optional
        Dimension to sum along.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Examples
    --------
    >>> adjoint.logcumsumexp(adjoint.tensor([1000.0, 1000.0]), 0)
    tensor([1000.0000, 1000.6932])
    """
    dim = either(dim, axis)
    if of(input.array.dtype).category < 2:
        raise NotImplementedError(f"\"logcumsumexp_out_cpu\" not implemented for '{title_of(input.array.dtype)}'")
    return into(out, _scanned(logcumsumexp_p, input, dim))


# --- Running extremes -----------------------------------------------------------------------------


def _cumulative_extreme(ufunc: np.ufunc, x: Array, axis: int) -> tuple[Array, Array]:
    """Return the extremes up to each element along an axis, and their indices: the latest of equals, or of NaNs."""
    xp = module_of(x)
    wide = x.astype(f32) if is_half(x.dtype) else x
    values = _accumulated(ufunc, wide, axis).astype(x.dtype, copy=False)
    places = xp.arange(x.shape[axis]).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    reached = (x == values) | (x != x)
    return values, _accumulated(np.maximum, xp.where(reached, places, 0), axis)


def _cummax(x: Array, axis: int) -> tuple[Array, Array]:
    return _cumulative_extreme(np.maximum, x, axis)


def _cummin(x: Array, axis: int) -> tuple[Array, Array]:
    return _cumulative_extreme(np.minimum, x, axis)


def _extreme_x(g: Sequence[Any], x_shape: Shape, out: Sequence[Any], axis: int) -> Value | None:
    return None if g[0] is None else ungathered(g[0], out[1], x_shape, axis)


def _extreme_tangent(
    tangents: Sequence[Array], inputs: Sequence[Array], out: Sequence[Any], params: tuple[int],
) -> tuple[Tensor, None]:  # fmt: skip
    return gather_p(tangents[0], out[1], *params), None


def _extreme(kernel: Kernel) -> Primitive:
    def batch(x: Array, axis: int) -> Any:
        return call(x, axis + 1)

    call = parametric(kernel, x=_extreme_x, outputs=True, saves_outputs=(1,), jvp=_extreme_tangent, batch=batch)
    return call


cummax_p, cummin_p = _extreme(_cummax), _extreme(_cummin)


def _run(primitive: Primitive, result: Any, input: Tensor, dim: int | None, out: Any) -> Any:
    a = input.array
    axis = dim_in(dim, a.ndim)
    if a.ndim == 0:
        found: Any = tuple(reshape_p(v, ()) for v in primitive(reshape_p(input, (1,)), 0))
    else:
        found = primitive(input, axis)
    return result(found if out is None else tuple(map(into, out, found)))


def cummax(input: Tensor, dim: int | None = None, *, out: Out | Outs = None, axis: int | None = None) -> Any:
    """Find the largest element so far along `dim`, and its index.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    dim : int, optional
        Dimension to go along.
    out : tuple of Tensor, optional
        Tensors to write both results to.

    Returns
    -------
    namedtuple of Tensor
        (values, indices), each of the shape of `input`; of equal elements the last index.

    Examples
    --------
    >>> values, indices = adjoint.cummax(adjoint.tensor([2.0, 3.0, 1.0, 4.0]), 0)
    >>> values, indices
    (tensor([2., 3., 3., 4.]), tensor([0, 1, 1, 3]))
    """
    dim = either(dim, axis)
    return _run(cummax_p, return_types.cummax, input, dim, out)


def cummin(input: Tensor, dim: int | None = None, *, out: Out | Outs = None, axis: int | None = None) -> Any:
    """Find the smallest element so far along `dim`, and its index.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    dim : int, optional
        Dimension to go along.
    out : tuple of Tensor, optional
        Tensors to write both results to.

    Returns
    -------
    namedtuple of Tensor
        (values, indices), each of the shape of `input`; of equal elements the last index.

    Examples
    --------
    >>> values, indices = adjoint.cummin(adjoint.tensor([2.0, 3.0, 1.0, 4.0]), 0)
    >>> values, indices
    (tensor([2., 2., 1., 1.]), tensor([0, 0, 2, 2]))
    """
    dim = either(dim, axis)
    return _run(cummin_p, return_types.cummin, input, dim, out)


# --- Differences and areas ------------------------------------------------------------------------


def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None, *,
    out: Tensor | None = None, axis: int | None = None,
) -> Tensor:  # fmt: skip
    """Return the differences of neighbours along a dimension, taken `n` times.

    Once is ``input[1:] - input[:-1]``; of booleans it is their exclusive or.

    Parameters
    ----------
    input : Tensor
        At least one dimension.
    n : int, default 1
        How often; each time makes `dim` shorter by one.
    dim : int, default -1
        The dimension.
    prepend, append : Tensor, optional
        Joined to the beginning and the end of `input` along `dim` first.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        Shorter than `input` along `dim` by `n`.

    Examples
    --------
    >>> x = adjoint.tensor([1, 4, 9, 16])
    >>> adjoint.diff(x)
    tensor([3, 5, 7])
    >>> x.diff(n=2)
    tensor([2, 2])
    >>> x.diff(prepend=adjoint.tensor([0]))
    tensor([1, 3, 5, 7])
    """
    dim = either(dim, axis, -1)
    n = count_of(n, "n")
    from .join import cat

    if input.array.ndim == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    axis = dim_in(dim, input.array.ndim)
    x = input
    ends = [e for e in (prepend, input, append) if e is not None]
    if len(ends) > 1:
        for e in ends:
            if e.array.ndim != x.array.ndim:
                raise RuntimeError(
                    "diff expects prepend or append to be the same dimension as input, but got "
                    f"{e.array.ndim} and {x.array.ndim}"
                )
    if n == 0:
        return into(out, input.clone())
    if len(ends) > 1:
        x = cat(ends, axis)
    for _ in range(min(n, x.array.shape[axis])):
        length = x.array.shape[axis] - 1
        after, before = part(x, axis, 1, length), part(x, axis, 0, length)
        x = after ^ before if x.array.dtype.kind == "b" else after - before
    return into(out, x)


def gradient(
    input: Tensor, *, spacing: Any = None, dim: Dims = None, edge_order: int = 1, axis: Dims = None
) -> tuple[Tensor, ...]:
    """Estimate the derivative along each dimension by central differences, one-sided at the ends.

    `spacing` is the distance of the points, or a list with one for each dim: a number, or coordinates.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    spacing : number or sequence, optional
        Distance between points, a number or one per dimension; or their coordinates, a tensor per dimension.
    dim : int or tuple of int, optional
        Dimensions to differentiate along; all by default.
    edge_order : int, default 1
        Order of the estimate at the ends, 1 or 2.

    Returns
    -------
    tuple of Tensor
        One of the shape of `input` for each dimension.

    Examples
    --------
    >>> adjoint.gradient(adjoint.tensor([0.0, 1.0, 4.0, 9.0]))
    (tensor([1., 2., 4., 5.]),)
    """
    dim = either(dim, axis)
    rank = input.array.ndim
    dims = list(range(rank)) if dim is None else [dim] if isinstance(dim, int) else list(dim)
    axes = [dim_in(d, rank) for d in dims]
    if len(set(axes)) != len(axes):
        twice = next(d for d in axes if axes.count(d) > 1)
        raise RuntimeError(f"dim {twice} appears multiple times in the list of dims of torch.gradient")
    spacing = 1 if spacing is None else spacing
    steps = list(spacing) if isinstance(spacing, list | tuple) else [spacing] * len(axes)
    if len(steps) != len(axes):
        raise RuntimeError(
            "torch.gradient expected spacing to be unspecified, a scalar or a list of length equal to "
            f"'self.dim() = {rank}' or to dim, but got a list of length {len(steps)}"
        )
    if edge_order not in (1, 2):
        raise RuntimeError("torch.gradient only supports edge_order=1 and edge_order=2.")
    if any(input.array.shape[axis] <= edge_order for axis in axes):
        raise RuntimeError("torch.gradient expected each dimension size to be at least edge_order+1")
    return tuple(_slopes(input, axis, step, edge_order) for axis, step in zip(axes, steps))


def _slopes(x: Tensor, axis: int, step: Tensor | float, order: int) -> Tensor:
    from .join import cat

    n = x.array.shape[axis]
    if isinstance(step, TensorBase) and step.array.ndim:
        if tuple(step.array.shape) != (n,):
            raise RuntimeError(
                f"torch.gradient expected each coordinate tensor to be a vector of the size of its dim, {n}, but got "
                f"{list(step.array.shape)}"
            )
        gaps: Any = reshape_p(diff(cast(Any, step)), tuple(n - 1 if i == axis else 1 for i in range(x.array.ndim)))
    else:
        gaps = None

    def at(start: int, count: int) -> Tensor:
        return part(x, axis, start, count)

    def gap(start: int, count: int) -> float | Tensor:
        return step if gaps is None else part(gaps, axis, start, count)

    def ends(first: int, second: int, distance: int) -> Tensor:
        slope: Tensor = (at(second, 1) - at(first, 1)) / gap(distance, 1)
        return slope

    inner = []
    if n > 2 and gaps is None:
        inner = [(at(2, n - 2) - at(0, n - 2)) / (2 * step)]
    elif n > 2:
        h, k = gap(0, n - 2), gap(1, n - 2)
        inner = [(at(2, n - 2) * h * h - at(0, n - 2) * k * k + at(1, n - 2) * (k * k - h * h)) / (h * k * (h + k))]
    if order == 1:
        return cat([ends(0, 1, 0), *inner, ends(n - 2, n - 1, n - 2)], axis)
    h, k = gap(0, 1), gap(1, 1)
    left = at(1, 1) * ((h + k) / (h * k)) - at(0, 1) * ((2 * h + k) / (h * (h + k))) - at(2, 1) * (h / (k * (h + k)))
    k, h = gap(n - 3, 1), gap(n - 2, 1)
    right = (
        at(n - 1, 1) * ((2 * h + k) / (h * (h + k)))
        - at(n - 2, 1) * ((h + k) / (h * k))
        + at(n - 3, 1) * (h / (k * (h + k)))
    )
    return cat([left, *inner, right], axis)


def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: Any = 1, dim: int = -1, axis: int | None = None) -> Tensor:
    """Return the integral of `y` along a dimension by the trapezoidal rule.

    ``Σ (x[k + 1] - x[k]) (y[k] + y[k + 1]) / 2``: the area under straight lines between the points.

    Parameters
    ----------
    y : Tensor
        Values at the points; not bool.
    x : Tensor, optional
        The points: a vector as long as `dim`, or a tensor that broadcasts with `y`.
    dx : number, default 1
        The distance of the points, if `x` is not given.
    dim : int, default -1
        The dimension to integrate along.

    Returns
    -------
    Tensor
        Of the shape of `y` without `dim`.

    Examples
    --------
    >>> y = adjoint.tensor([0.0, 1.0, 4.0])
    >>> adjoint.trapezoid(y)
    tensor(3.)
    >>> adjoint.trapezoid(y, adjoint.tensor([0.0, 1.0, 3.0]))
    tensor(5.5000)
    >>> adjoint.trapezoid(y, dx=0.5)
    tensor(1.5000)
    """
    dim = either(dim, axis, -1)
    axis = dim_in(dim, y.array.ndim)
    if y.array.shape[axis] == 0:
        return y.sum(axis) * 1.0
    pieces, width = _trapezoids(y, x, dx, axis, "trapezoid")
    area: Tensor = (pieces * width).sum(axis) / 2.0 if x is not None else pieces.sum(axis) * (dx / 2.0)
    return area


def trapz(y: Tensor, x: Tensor | None = None, *, dx: Any = 1, dim: int = -1, axis: int | None = None) -> Tensor:
    """Integrate along `dim` by the trapezoidal rule: `trapezoid` by another name.

    Parameters
    ----------
    y : Tensor
        Heights.
    x : Tensor, optional
        Positions, 1-D or of the shape of `y`; `dx` apart by default.
    dx : number, default 1
        Distance between points, without `x`.
    dim : int, default -1
        Dimension to integrate along.

    Returns
    -------
    Tensor
        The shape of `y` without `dim`.

    Examples
    --------
    >>> adjoint.trapz(adjoint.tensor([1.0, 2.0, 3.0]))
    tensor(4.)
    """
    dim = either(dim, axis, -1)
    return trapezoid(y, x, dx=dx, dim=dim)


def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: Any = 1, dim: int = -1, axis: int | None = None
) -> Tensor:
    """Return the cumulative integral along `dim` by the trapezoidal rule.

    Parameters
    ----------
    y : Tensor
        Heights.
    x : Tensor, optional
        Positions, 1-D or of the shape of `y`; `dx` apart by default.
    dx : number, default 1
        Distance between points, without `x`.
    dim : int, default -1
        Dimension to integrate along.

    Returns
    -------
    Tensor
        The shape of `y`, with one element less along `dim`.

    Examples
    --------
    >>> adjoint.cumulative_trapezoid(adjoint.tensor([1.0, 2.0, 3.0]))
    tensor([1.5000, 4.0000])
    """
    dim = either(dim, axis, -1)
    axis = dim_in(dim, y.array.ndim)
    pieces, width = _trapezoids(y, x, dx, axis, "cumulative_trapezoid")
    if x is not None:
        return cumsum(pieces * width / 2.0, axis)
    areas: Tensor = cumsum(pieces, axis) * (dx / 2.0)
    return areas


def _trapezoids(y: Tensor, x: Tensor | None, dx: Any, axis: int, name: str) -> tuple[Tensor, Any]:
    """Return the sums of neighbours along `axis`, and the distances between the points."""
    if y.array.dtype.kind == "b":
        raise RuntimeError(f"{name}: received a bool input for `y`, but bool is not supported")
    if isinstance(dx, complex):
        raise RuntimeError(f"{name}: Currently, we only support dx as a real number.")
    n = y.array.shape[axis]
    if x is None:
        width = dx
    else:
        if x.array.dtype.kind == "b":
            raise RuntimeError(f"{name}: received a bool input for `x`, but bool is not supported")
        if x.array.ndim == 1 and x.array.shape[0] != n:
            raise RuntimeError(
                f"{name}: There must be one `x` value for each sample point: `y` has {n} along dim "
                f"{axis}, `x` has "
                f"{x.array.shape[0]}"
            )
        if x.array.ndim == 1:
            x = reshape_p(x, tuple(n if i == axis else 1 for i in range(y.array.ndim)))
        elif x.array.ndim < y.array.ndim:
            x = reshape_p(x, (1,) * (y.array.ndim - x.array.ndim) + tuple(x.array.shape))
        width = diff(x, dim=axis)
    if n <= 1:
        return part(y, axis, 0, 0), width
    return part(y, axis, 0, n - 1) + part(y, axis, 1, n - 1), width
