"""Reductions that choose: largest and smallest elements, medians, modes, quantiles."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import return_types
from .._typing import Array, Axes, Dims, Kernel, Operand, Out, Outs, Shape, Tensor, Value
from ..core.device import module_of
from ..core.dtypes import of
from ..core.folding import joined
from ..core.layout import dense
from ..core.observation import literal
from ..core.payload import Payload
from ..core.primitive import by_ufunc
from ..core.recorders import Primitive, parametric
from ..core.tensor import TensorBase
from .arguments import dim_in, dims_in, dtype_of, either, require_bool, require_tensor
from .create import into
from .dimensions import permute_p
from .elementwise import lerp_by_p, lerp_p
from .gather import gather_p, ungathered
from .precision import autocasting
from .reduce import f32, is_half, kept, kept_shape, shifted, sum_p, title_of
from .scan import cummax_p
from .shape import cast_p, reshape_p
from .sorting import argsort_p

__all__ = [
    "amax", "amin", "aminmax", "argmax", "argmin", "max", "median", "min", "mode", "nanmedian",
    "nanquantile", "quantile",
]  # fmt: skip

# --- What is refused ----------------------------------------------------------------------------------------


def _refuse(name: str, x: Array, kinds: str) -> None:
    if x.dtype.kind in kinds:
        raise NotImplementedError(f"\"{name}\" not implemented for '{title_of(x.dtype)}': it has no order to choose by")


def _refuse_empty(name: str, shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    for i in axes:
        if shape[i] == 0:
            raise IndexError(
                f"{name}(): Expected reduction dim {i} to have non-zero size, but the shape is {list(shape)}"
            )


def _refuse_all_of_none(name: str, x: Value, kind: type[Exception] = RuntimeError) -> None:
    if x.size == 0:
        raise kind(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
            "reduction dim "
            "with the 'dim' argument."
        )


# --- Largest and smallest: equal elements split the gradient ------------------------------------------------


def _amax(x: Array, axes: Axes, keepdims: bool) -> Array:
    return dense(x.max(axis=axes, keepdims=keepdims))


def _amin(x: Array, axes: Axes, keepdims: bool) -> Array:
    return dense(x.min(axis=axes, keepdims=keepdims))


def _equal(x: Array, out: Array) -> Array:
    return x == out


def _equal_or_both_nan(x: Array, out: Array) -> Array:
    return (x == out) | ((x != x) & (out != out))


def _splitting(equal: Kernel) -> tuple[Kernel, Kernel]:
    """Return the gradient and the tangent of an extreme: split evenly among the elements that are `equal` to it."""

    def rule(g: Array, x: Array, out: Array, axes: Axes, keepdims: bool) -> Any:
        chosen = cast_p(equal(x, kept(out, x.ndim, axes, keepdims)), dtype_of(g))
        return chosen * (kept(g, x.ndim, axes, keepdims) / chosen.sum(axis=axes, keepdims=True))

    def tangent(tangents: Sequence[Array], inputs: Sequence[Array], out: Array, params: tuple[Axes, bool]) -> Value:
        (t,), (x,), (axes, keepdims) = tangents, inputs, params
        chosen = cast_p(equal(x, kept(out, x.ndim, axes, keepdims)), dtype_of(t))
        return sum_p(chosen * t, axes, keepdims) / chosen.sum(axis=axes, keepdims=keepdims)

    return rule, tangent


def _extreme(kernel: Kernel, name: str, equal: Kernel, node_name: str | None = None) -> Primitive:
    rule, tangent = _splitting(equal)

    def batch(x: Array, axes: Axes, keepdims: bool) -> Any:
        return call(x, shifted(axes), keepdims)

    call = parametric(
        kernel, x=rule, name=name, node_name=node_name, jvp=tangent, batch=batch,
        saved={"axes": "dim", "keepdims": "keepdim"},
    )  # fmt: skip
    return call


amax_p, amin_p = _extreme(_amax, "amax", _equal), _extreme(_amin, "amin", _equal)
# As in torch, the gradient of the NaN that is the extreme of all elements is split among the NaNs.
max_all_p = _extreme(_amax, "max_all", _equal_or_both_nan, "MaxBackward1")
min_all_p = _extreme(_amin, "min_all", _equal_or_both_nan, "MinBackward1")


def amax(
    input: Tensor,
    dim: Dims = (),
    keepdim: bool = False,
    *,
    out: Tensor | None = None,
    axis: Dims = None,
    keepdims: bool = False,
) -> Tensor:
    """Return the largest element, of all or along `dim`.

    Equal largest elements share the gradient evenly; `max` with `dim` passes it to one of them. NaN wins.

    Parameters
    ----------
    input : Tensor
        Any shape; not complex.
    dim : int or tuple of ints, optional
        The dimensions to reduce; all by default.
    keepdim : bool, default False
        Whether reduced dimensions stay, at size 1.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        Of the dtype of `input` and its shape without `dim`.

    Raises
    ------
    RuntimeError, IndexError
        If there is no element to choose from.

    Examples
    --------
    >>> x = adjoint.tensor([2.0, 1.0, 2.0], requires_grad=True)
    >>> x.amax().backward()
    >>> x.grad
    tensor([0.5000, 0.0000, 0.5000])
    >>> adjoint.amax(adjoint.tensor([[1, 5], [4, 2]]), dim=1)
    tensor([5, 4])
    """
    return _reduce_to_extreme(amax_p, input, either(dim, axis, ()), keepdims or keepdim, out)


def amin(
    input: Tensor,
    dim: Dims = (),
    keepdim: bool = False,
    *,
    out: Tensor | None = None,
    axis: Dims = None,
    keepdims: bool = False,
) -> Tensor:
    """Return the smallest element, of all or along `dim`.

    Equal smallest elements share the gradient evenly; `min` with `dim` passes it to one of them. NaN wins.

    Parameters
    ----------
    input : Tensor
        Any shape; not complex.
    dim : int or tuple of ints, optional
        The dimensions to reduce; all by default.
    keepdim : bool, default False
        Whether reduced dimensions stay, at size 1.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        Of the dtype of `input` and its shape without `dim`.

    Raises
    ------
    RuntimeError, IndexError
        If there is no element to choose from.

    Examples
    --------
    >>> adjoint.amin(adjoint.tensor([[1, 5], [4, 2]]), dim=(0, 1))
    tensor(1)
    >>> adjoint.amin(adjoint.tensor([[1, 5], [4, 2]]), dim=1)
    tensor([1, 2])
    """
    return _reduce_to_extreme(amin_p, input, either(dim, axis, ()), keepdims or keepdim, out)


def _reduce_to_extreme(primitive: Primitive, input: Tensor, dim: Dims, keepdim: bool, out: Any) -> Tensor:
    a, name = input.array, primitive.op.name
    _refuse("max_values_cpu" if name == "amax" else "min_values_cpu", a, "c")
    axes = dims_in(dim, a.ndim)
    if a.size == 0:
        if dim is None or (not isinstance(dim, int) and not len(dim)):
            _refuse_all_of_none(name, a)
        _refuse_empty(name, a.shape, axes)
    if out is not None and out.array.dtype != a.dtype:
        raise RuntimeError(
            f"Expected the dtype for input and out to match, but got {of(a.dtype).title} for input's dtype and "
            f"{of(out.array.dtype).title} for out's dtype."
        )
    return into(out, primitive(input, axes, keepdim))


def aminmax(
    input: Tensor, *, dim: int | None = None, keepdim: bool = False, out: Out = None, axis: int | None = None,
    keepdims: bool = False,
) -> Any:  # fmt: skip
    """Find the smallest and the largest element, of all or along `dim`.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    dim : int, optional
        Dimension to reduce; all by default.
    keepdim : bool, default False
        Whether `dim` stays, with size 1.
    out : tuple of Tensor, optional
        Tensors to write both results to.

    Returns
    -------
    namedtuple of Tensor
        (min, max).

    Examples
    --------
    >>> adjoint.aminmax(adjoint.tensor([[3.0, 1.0], [2.0, 5.0]]), dim=1)
    adjoint.return_types.aminmax(
    min=tensor([1., 2.]),
    max=tensor([3., 5.]))
    """
    dim, keepdim = either(dim, axis), keepdims or keepdim
    if dim is None and input.array.size == 0:
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
        )
    for o in out or ():
        if o.array.dtype != input.array.dtype:
            raise RuntimeError(
                f"Expected out tensor to have dtype {of(input.array.dtype).title.lower()}, but got "
                f"{of(o.array.dtype).title.lower()} instead"
            )
    over = () if dim is None else dim
    found = joined("AminmaxBackward0", (amin(input, over, keepdim), amax(input, over, keepdim)))
    return return_types.aminmax(found if out is None else tuple(map(into, out, found)))


# --- Largest and smallest, with their places ------------------------------------------------------


def _max_dim(x: Array, axis: int, keepdims: bool) -> tuple[Array, Tensor]:
    return dense(x.max(axis=axis, keepdims=keepdims)), argmax_p(x, axis, keepdims)


def _min_dim(x: Array, axis: int, keepdims: bool) -> tuple[Array, Tensor]:
    return dense(x.min(axis=axis, keepdims=keepdims)), argmin_p(x, axis, keepdims)


def _chosen_x(g: Sequence[Any], x_shape: Shape, out: Sequence[Any], axis: int, keepdims: bool) -> Value | None:
    """Return the gradient of elements chosen along an axis, put back in their places."""
    if g[0] is None:
        return None
    shape = kept_shape(x_shape, (axis,))
    return ungathered(g[0].reshape(shape), out[1].reshape(shape), x_shape, axis)


def _chosen_tangent(
    tangents: Sequence[Array], inputs: Sequence[Array], out: Sequence[Any], params: tuple[int, bool]
) -> tuple[Tensor, None]:
    (t,), index, (axis, _) = tangents, out[1], params
    return gather_p(t, index.reshape(kept_shape(t.shape, (axis,))), axis).reshape(tuple(index.shape)), None


def _choice(kernel: Kernel, name: str, node_name: str) -> Primitive:
    def batch(x: Array, axis: int, keepdims: bool) -> Any:
        return call(x, axis + 1, keepdims)

    call = parametric(
        kernel, x=_chosen_x, name=name, node_name=node_name, outputs=True, jvp=_chosen_tangent, batch=batch,
        saves_outputs=(1,),
        saved={"axis": "dim", "keepdims": "keepdim"},
    )  # fmt: skip
    return call


max_dim_p = _choice(_max_dim, "max_dim", "MaxBackward0")
min_dim_p = _choice(_min_dim, "min_dim", "MinBackward0")


def _choose(primitive: Primitive, result: Any, input: Tensor, dim: int, keepdim: bool, out: Any) -> Any:
    if not isinstance(keepdim, bool):
        raise TypeError(
            f"{result.__name__}(): argument 'keepdim' (position 2) must be bool, not {type(keepdim).__name__}"
        )
    a = input.array
    axis = dim_in(dim, a.ndim)
    if a.ndim == 0:
        values, indices = primitive(reshape_p(input, (1,)), 0, True)
        found: Any = reshape_p(values, ()), reshape_p(indices, ())
    else:
        _refuse_empty(result.__name__, a.shape, (axis,))
        found = primitive(input, axis, keepdim)
    return result(found if out is None else tuple(map(into, out, found)))


def max(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, other: Operand | None = None, out: Out | Outs = None,
    axis: Dims = None, keepdims: bool = False,
) -> Any:  # fmt: skip
    """Return the largest element; with `dim`, values and indices; of two tensors, the larger of each pair.

    NaN wins over every number.

    Parameters
    ----------
    input : Tensor
        Any shape; not complex.
    dim : int or Tensor, optional
        The dimension to reduce; by default all elements are. A tensor stands for `other`.
    keepdim : bool, default False
        Whether reduced dimensions stay, at size 1.
    other : Tensor, optional
        A second tensor that broadcasts with `input`: the result is ``maximum(input, other)``.
    out : Tensor or tuple of Tensor, optional
        Written to, and returned; with `dim` a tensor for values and one for indices.

    Returns
    -------
    Tensor or return_types.max
        With `dim`, the named tuple ``(values, indices)``, each of the shape of `input` without `dim`. The gradient goes
        to the chosen elements; without `dim`, equal largest elements share it.

    Raises
    ------
    RuntimeError, IndexError
        If there is no element to choose from.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 5.0], [4.0, 2.0]])
    >>> adjoint.max(x)
    tensor(5.)
    >>> adjoint.max(x, dim=1)
    adjoint.return_types.max(
    values=tensor([5., 4.]),
    indices=tensor([1, 0]))
    >>> adjoint.max(x, adjoint.tensor(3.0))
    tensor([[3., 5.],
            [4., 3.]])
    """
    return _extremes(
        input,
        either(dim, axis),
        keepdims or keepdim,
        other,
        out,
        max_all_p,
        max_dim_p,
        return_types.max,
    )


def min(
    input: Tensor, dim: Dims = None, keepdim: bool = False, *, other: Operand | None = None, out: Out | Outs = None,
    axis: Dims = None, keepdims: bool = False,
) -> Any:  # fmt: skip
    """Return the smallest element; with `dim`, values and indices; of two tensors, the smaller of each pair.

    NaN wins over every number.

    Parameters
    ----------
    input : Tensor
        Any shape; not complex.
    dim : int or Tensor, optional
        The dimension to reduce; by default all elements are. A tensor stands for `other`.
    keepdim : bool, default False
        Whether reduced dimensions stay, at size 1.
    other : Tensor, optional
        A second tensor that broadcasts with `input`: the result is ``minimum(input, other)``.
    out : Tensor or tuple of Tensor, optional
        Written to, and returned; with `dim` a tensor for values and one for indices.

    Returns
    -------
    Tensor or return_types.min
        With `dim`, the named tuple ``(values, indices)``, each of the shape of `input` without `dim`. The gradient goes
        to the chosen elements; without `dim`, equal smallest elements share it.

    Raises
    ------
    RuntimeError, IndexError
        If there is no element to choose from.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 5.0], [4.0, 2.0]])
    >>> adjoint.min(x)
    tensor(1.)
    >>> values, indices = adjoint.min(x, dim=1)
    >>> values, indices
    (tensor([1., 2.]), tensor([0, 1]))
    """
    return _extremes(
        input,
        either(dim, axis),
        keepdims or keepdim,
        other,
        out,
        min_all_p,
        min_dim_p,
        return_types.min,
    )


def _extremes(
    input: Tensor, dim: Any, keepdim: bool, other: Any, out: Any, of_all: Primitive, along: Primitive, result: Any
) -> Any:
    require_tensor(input, "input", result.__name__)
    require_bool(keepdim, "keepdim", result.__name__)
    if isinstance(dim, TensorBase):
        if keepdim or other is not None:
            raise TypeError(f"{result.__name__}() received an invalid combination of arguments - got (Tensor, Tensor)")
        dim, other = None, dim
    if other is not None:
        return into(out, by_ufunc[np.maximum if along is max_dim_p else np.minimum](input, other))
    a = input.array
    if dim is not None:
        _refuse(f"{result.__name__}_cpu", a, "c")
        return _choose(along, result, input, dim, keepdim, out)
    _refuse(f"{result.__name__}_all", a, "c")
    _refuse_all_of_none(result.__name__, a)
    return into(out, of_all(input, tuple(range(a.ndim)), False))


# --- Places only ------------------------------------------------------------------------------------------


def _argmax(x: Array, axis: int | None, keepdims: bool) -> Array:
    return (x.astype(f32) if is_half(x.dtype) else x).argmax(axis=axis, keepdims=keepdims)


def _argmin(x: Array, axis: int | None, keepdims: bool) -> Array:
    return (x.astype(f32) if is_half(x.dtype) else x).argmin(axis=axis, keepdims=keepdims)


argmax_p: Primitive = parametric(_argmax, batch=lambda x, axis, keepdims: _batched_place(argmax_p, x, axis, keepdims))
argmin_p: Primitive = parametric(_argmin, batch=lambda x, axis, keepdims: _batched_place(argmin_p, x, axis, keepdims))


def _batched_place(primitive: Primitive, x: Value, axis: int, keepdims: bool) -> Value:
    if axis is not None:
        return primitive(x, axis + 1, keepdims)
    flat = primitive(x.reshape((x.shape[0], -1)), 1, False)
    return flat.reshape((x.shape[0], *(1,) * (x.ndim - 1))) if keepdims else flat


def argmax(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None, axis: int | None = None,
    keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """Return the index of the largest element.

    Of several equal ones the first counts; NaN wins.

    Parameters
    ----------
    input : Tensor
        Any shape; not bool or complex.
    dim : int, optional
        The dimension to search. By default the index is that in the flattened tensor.
    keepdim : bool, default False
        Whether reduced dimensions stay, at size 1.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        Of dtype int64 and the shape of `input` without `dim`. It has no gradient.

    Raises
    ------
    IndexError
        If there is no element to choose from.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 5.0], [4.0, 2.0]])
    >>> x.argmax()
    tensor(1)
    >>> x.argmax(dim=1)
    tensor([1, 0])
    """
    return into(out, _place(argmax_p, input, either(dim, axis), keepdims or keepdim))


def argmin(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Tensor | None = None, axis: int | None = None,
    keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """Return the index of the smallest element.

    Of several equal ones the first counts; NaN wins.

    Parameters
    ----------
    input : Tensor
        Any shape; not bool or complex.
    dim : int, optional
        The dimension to search. By default the index is that in the flattened tensor.
    keepdim : bool, default False
        Whether reduced dimensions stay, at size 1.
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        Of dtype int64 and the shape of `input` without `dim`. It has no gradient.

    Raises
    ------
    IndexError
        If there is no element to choose from.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 5.0], [4.0, 2.0]])
    >>> x.argmin()
    tensor(0)
    >>> x.argmin(dim=0, keepdim=True)
    tensor([[0, 1]])
    """
    return into(out, _place(argmin_p, input, either(dim, axis), keepdims or keepdim))


def _place(primitive: Primitive, input: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    name = primitive.op.name
    require_tensor(input, "input", name)
    require_bool(keepdim, "keepdim", name)
    a = input.array
    if a.dtype.kind == "b":
        raise RuntimeError(f"{name}(): does not support bool input; convert with .int()")
    _refuse(f"{name}_cpu", a, "c")
    if dim is None:
        _refuse_all_of_none(name, a, IndexError)
        return primitive(input, None, keepdim)
    axis = dim_in(dim, a.ndim)
    if a.ndim == 0:
        return primitive(input, None, False)
    _refuse_empty(name, a.shape, (axis,))
    return primitive(input, axis, keepdim)


# --- By order -----------------------------------------------------------------------------------------------


def _middle(x: Array, axis: int, keepdims: bool, skip: bool) -> tuple[Array, Array]:
    """Return the lower median along an axis and its index; NaN wins, unless they are to be skipped."""
    xp, n = module_of(x), x.shape[axis]
    order = argsort_p(x, axis, False)
    bad = (x != x).sum(axis=axis, keepdims=True)  # NaNs are last in order
    at = xp.maximum(n - bad - 1, 0) // 2 if skip else xp.where(bad > 0, n - bad, (n - 1) // 2)
    index = xp.take_along_axis(order, at, axis)
    values = xp.take_along_axis(x, index, axis)
    return (values, index) if keepdims else (values.squeeze(axis), index.squeeze(axis))


def _median(x: Array, axis: int, keepdims: bool) -> tuple[Array, Array]:
    return _middle(x, axis, keepdims, False)


def _nanmedian(x: Array, axis: int, keepdims: bool) -> tuple[Array, Array]:
    return _middle(x, axis, keepdims, True)


def _median_all(x: Array, axes: Axes, keepdims: bool) -> Array:
    return _middle(x.reshape(-1), 0, False, False)[0]


def _nanmedian_all(x: Array, axes: Axes, keepdims: bool) -> Array:
    return _middle(x.reshape(-1), 0, False, True)[0]


median_dim_p = _choice(_median, "median_dim", "MedianBackward1")
nanmedian_dim_p = _choice(_nanmedian, "nanmedian_dim", "NanmedianBackward1")


def _whole(kernel: Kernel, along: Primitive, name: str) -> Primitive:
    def batch(x: Array, axes: Axes, keepdims: bool) -> Any:
        return along(x.reshape((x.shape[0], -1)), 1, False)[0]

    rule, tangent = _splitting(_equal_or_both_nan)  # as in torch, a NaN's among the NaNs
    return parametric(kernel, x=rule, name=name, jvp=tangent, batch=batch, node_name=f"{name.capitalize()}Backward0")


median_p = _whole(_median_all, median_dim_p, "median")
nanmedian_p = _whole(_nanmedian_all, nanmedian_dim_p, "nanmedian")


def median(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Out | Outs = None, axis: int | None = None,
    keepdims: bool = False,
) -> Any:  # fmt: skip
    """Return the middle element in sorted order; with `dim`, values and indices.

    Of an even number of elements it is the lower one of the two in the middle; `quantile` at 0.5 is their mean. If
    there is a NaN, the median is NaN.

    Parameters
    ----------
    input : Tensor
        Any shape; not bool or complex.
    dim : int, optional
        The dimension to reduce; by default all elements are.
    keepdim : bool, default False
        Whether reduced dimensions stay, at size 1.
    out : Tensor or tuple of Tensor, optional
        Written to, and returned; with `dim` a tensor for values and one for indices.

    Returns
    -------
    Tensor or return_types.median
        With `dim`, the named tuple ``(values, indices)``, each of the shape of `input` without `dim`.

    Examples
    --------
    >>> adjoint.tensor([4.0, 1.0, 3.0, 2.0]).median()
    tensor(2.)
    >>> adjoint.tensor([[5, 1, 3], [2, 6, 4]]).median(dim=1)
    adjoint.return_types.median(
    values=tensor([3, 4]),
    indices=tensor([2, 2]))
    """
    dim, keepdim = either(dim, axis), keepdims or keepdim
    return _medians(input, dim, keepdim, out, median_p, median_dim_p, return_types.median)


def nanmedian(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Out | Outs = None, axis: int | None = None,
    keepdims: bool = False,
) -> Any:  # fmt: skip
    """Find the median of the elements that are not NaN; with `dim` values and indices.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    dim : int, optional
        Dimension to reduce; all by default.
    keepdim : bool, default False
        Whether `dim` stays, with size 1.
    out : Tensor or tuple of Tensor, optional
        Tensor, or two with `dim`, to write the result to.

    Returns
    -------
    Tensor or namedtuple of Tensor
        The median, of an even number the lower one; with `dim` (values, indices).

    Examples
    --------
    >>> adjoint.nanmedian(adjoint.tensor([1.0, float("nan"), 3.0, 2.0]))
    tensor(2.)
    """
    dim, keepdim = either(dim, axis), keepdims or keepdim
    return _medians(input, dim, keepdim, out, nanmedian_p, nanmedian_dim_p, return_types.nanmedian)


def _medians(
    input: Tensor, dim: Any, keepdim: bool, out: Out | Outs, whole: Primitive, along: Primitive, result: Any,
) -> Any:  # fmt: skip
    a = input.array
    if a.size or a.dtype.kind == "c":
        _refuse("median_cpu", a, "bc")
    if dim is not None:
        return _choose(along, result, input, dim, keepdim, out)
    if a.size == 0:
        if a.dtype.kind in "iub":  # what C makes of NaN
            return into(out, input.new_full((), True if a.dtype.kind == "b" else np.iinfo(a.dtype).min))
        return into(out, sum_p(input, tuple(range(a.ndim)), False) * math.nan)
    return into(out, whole(input, tuple(range(a.ndim)), False))


def _mode(x: Value, axis: int, keepdims: bool) -> tuple[Array, Array]:
    """Return the commonest element along an axis, the smallest of equally common ones, and its last place."""
    xp = module_of(x)
    moved = xp.moveaxis(x, axis, -1)
    order = argsort_p(moved, moved.ndim - 1, False)
    ordered = xp.take_along_axis(moved, order, -1)
    n = ordered.shape[-1]
    places = xp.broadcast_to(xp.arange(n), ordered.shape)
    new = xp.ones(ordered.shape, bool)
    new[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    start, _ = cummax_p(xp.where(new, places, 0), new.ndim - 1)
    run = places - start  # how many equal elements stand before this one
    end = run.argmax(axis=-1, keepdims=True)
    index = xp.take_along_axis(order, end, -1)
    values = xp.take_along_axis(moved, index, -1)
    values, index = xp.moveaxis(values, -1, axis), xp.moveaxis(index, -1, axis)
    return (values, index) if keepdims else (values.squeeze(axis), index.squeeze(axis))


mode_p = _choice(_mode, "mode", "ModeBackward0")


def mode(
    input: Tensor, dim: int = -1, keepdim: bool = False, *, out: Out | Outs = None, axis: int | None = None,
    keepdims: bool = False,
) -> Any:  # fmt: skip
    """Find the most frequent element along `dim`, and an index of it.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    dim : int, default -1
        Dimension to reduce.
    keepdim : bool, default False
        Whether `dim` stays, with size 1.
    out : tuple of Tensor, optional
        Tensors to write the results to.

    Returns
    -------
    namedtuple of Tensor
        (values, indices); of equally frequent elements the smallest.

    Examples
    --------
    >>> adjoint.mode(adjoint.tensor([1, 2, 2, 3]))
    adjoint.return_types.mode(
    values=tensor(2),
    indices=tensor(2))
    """
    dim, keepdim = either(dim, axis, -1), keepdims or keepdim
    return _choose(mode_p, return_types.mode, input, dim, keepdim, out)


_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


@autocasting
def quantile(
    input: Tensor, q: Tensor | float, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear",
    out: Tensor | None = None, axis: int | None = None, keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """Return quantiles: the values below which a fraction `q` of the elements is, of all or along `dim`.

    The rank of a quantile among n sorted elements is ``q (n - 1)``; between two ranks `interpolation` decides. If there
    is a NaN, the quantile is NaN.

    Parameters
    ----------
    input : Tensor
        Any shape; float32 or float64.
    q : float or Tensor
        Numbers in [0, 1]: one, or a vector of the dtype of `input`.
    dim : int, optional
        The dimension to reduce; by default `input` is flattened.
    keepdim : bool, default False
        Whether reduced dimensions stay, at size 1.
    interpolation : str, default "linear"
        Or "lower", "higher", "midpoint", "nearest".
    out : Tensor, optional
        Written to, and returned.

    Returns
    -------
    Tensor
        Of the shape of `input` without `dim`; for a vector `q`, with its length as a new first dimension.

    Examples
    --------
    >>> x = adjoint.tensor([0.0, 1.0, 2.0, 3.0])
    >>> adjoint.quantile(x, 0.5)
    tensor(1.5000)
    >>> adjoint.quantile(x, adjoint.tensor([0.25, 0.75]))
    tensor([0.7500, 2.2500])
    >>> adjoint.quantile(x, 0.5, interpolation="lower")
    tensor(1.)
    """
    dim, keepdim = either(dim, axis), keepdims or keepdim
    return into(out, _quantile("quantile", input, q, dim, keepdim, interpolation, False))


@autocasting
def nanquantile(
    input: Tensor, q: Tensor | float, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear",
    out: Tensor | None = None, axis: int | None = None, keepdims: bool = False,
) -> Tensor:  # fmt: skip
    """Find quantiles of the elements that are not NaN.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    q : float or Tensor
        Probability or several, from 0 to 1.
    dim : int, optional
        Dimension to reduce; all by default.
    keepdim : bool, default False
        Whether `dim` stays, with size 1.
    interpolation : str, default "linear"
        Between two elements: "linear", "lower", "higher", "midpoint" or "nearest".
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        The quantile; a new first dimension if `q` is 1-D.

    Examples
    --------
    >>> adjoint.nanquantile(adjoint.tensor([1.0, float("nan"), 3.0]), 0.5)
    tensor(2.)
    """
    dim, keepdim = either(dim, axis), keepdims or keepdim
    return into(out, _quantile("nanquantile", input, q, dim, keepdim, interpolation, True))


def _quantile(name: str, input: Tensor, q: Any, dim: Dims, keepdim: bool, interpolation: str, skip: bool) -> Tensor:
    a = input.array
    if a.size == 0:
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    if a.dtype not in (np.float32, np.float64):
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype, not {of(a.dtype).name}")
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )
    q = _checked_q(name, q, a)
    rank = a.ndim
    axis = 0 if dim is None else dim_in(dim, rank)
    flat = reshape_p(input, (-1,)) if dim is None or rank == 0 else input
    last = flat.array.ndim - 1
    if axis != last:
        flat = permute_p(flat, (*(i for i in range(last + 1) if i != axis), axis))
    found = _at_ranks(flat, reshape_p(q, (-1,)), interpolation, skip)  # (..., number of quantiles)
    found = permute_p(found, (last, *range(last)))
    rest = tuple(n for i, n in enumerate(a.shape) if i != axis) if dim is not None and rank else ()
    if keepdim:
        rest = (1,) * rank if dim is None else kept_shape(tuple(a.shape), (axis,))
    return reshape_p(found, (*(q.array.shape if q.array.ndim else ()), *rest))


def _checked_q(name: str, q: Any, a: Value) -> Any:
    from . import create

    if not isinstance(q, TensorBase):
        if not 0 <= q <= 1:
            raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q:g}")
        return create.finish(literal(module_of(a).asarray(q, dtype=a.dtype)))
    if q.array.ndim > 1:
        raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
    if q.array.dtype != a.dtype:
        raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor")
    if not isinstance(q.array, Payload) and not bool(((q.array >= 0) & (q.array <= 1)).all()):
        raise RuntimeError(f"{name}() q values must be in the range [0, 1]")
    return q


def _at_ranks(x: Tensor, q: Tensor, interpolation: str, skip: bool) -> Tensor:
    """Return quantiles along the last axis, as a last axis, for a vector `q`."""
    last, n = x.array.ndim - 1, x.array.shape[-1]
    nan = x != x
    bad = nan.sum(-1, True)
    order = argsort_p(x, last, False)
    # Where a NaN must win, every rank points at the last element, which is one.
    top = (n - 1 - bad).clamp(min=0) if skip else bad * 0 + (n - 1)
    rank = cast_p(top, x.array.dtype) * q
    if not skip:
        spoilt = cast_p(bad > 0, x.array.dtype)
        rank = rank * (1 - spoilt) + spoilt * (n - 1)
    if interpolation == "nearest":
        return _picked(x, order, rank.round(), last)
    if interpolation == "lower":
        return _picked(x, order, rank.floor(), last)
    if interpolation == "higher":
        return _picked(x, order, rank.ceil(), last)
    below, above = rank.floor(), rank.ceil()
    low, high = _picked(x, order, below, last), _picked(x, order, above, last)
    if interpolation == "midpoint":
        return lerp_by_p(low, high, 0.5)
    return lerp_p(low, high, rank - below)  # from the nearer end: the other one may be infinite


def _picked(x: Tensor, order: Tensor, rank: Tensor, last: int) -> Tensor:
    index = gather_p(order, cast_p(rank, np.dtype(np.int64)), last)
    return gather_p(x, index, last)
