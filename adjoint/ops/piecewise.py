"""Ops made of pieces: selection, extremes, clamping, rounding, absolute value and sign."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._typing import Array, DType, Inputs, Operand, Out, Params, Shape, Tangents, Tensor, Value
from ..core import dtypes
from ..core.device import module_of
from ..core.failures import not_implemented, title_of
from ..core.folding import fold
from ..core.inplace import inplace
from ..core.layout import dense
from ..core.nodes import wrap
from ..core.observation import literal
from ..core.primitive import by_ufunc
from ..core.promotion import number_like, result_type
from ..core.recorders import Primitive, binary, elementwise, formula, nary, parametric, public, unary
from ..core.tensor import TensorBase
from ..scalar.special import in_single
from .arguments import count_of, dtype_of, index_of, require_pair, require_tensor
from .compare import no_gradient, zeros_p
from .create import into
from .literals import check_fits
from .shape import cast_p, sum_to_p

Number = Any
_BOOL = np.dtype(np.bool_)

# --- Selection --------------------------------------------------------------------------------------


def _where_jvp(tangents: Tangents, inputs: Inputs, out: Value, params: Params) -> Value:
    _, dx, dy = tangents
    # What has no tangent may still be larger than what has one.
    zero = 0 if all(t is None or t.shape == out.shape for t in (dx, dy)) else zeros_p(out)
    return where_p(inputs[0], zero if dx is None else dx, zero if dy is None else dy)


def _where(condition: Any, x: Any, y: Any) -> Any:
    return np.where(condition, x, y)


where_p: Primitive = nary(
    _where,
    inputs=3,
    x=lambda g, condition: where_p(condition, g, 0),
    y=lambda g, condition: where_p(condition, 0, g),
    promotes=(1, 2),
    jvp=_where_jvp,
    batch="elementwise",
)


def where(condition: Tensor, input: Operand | None = None, other: Operand | None = None, *, out: Out = None) -> Any:
    """Choose elements by a condition: ``input`` where `condition` is True, ``other`` elsewhere.

    Gradients flow to `input` where `condition` is True and to `other` where it is False; elsewhere they are zero.

    Parameters
    ----------
    condition : Tensor
        Of dtype bool.
    input : Tensor or number, optional
        Values for True, broadcast with `condition`.
    other : Tensor or number, optional
        Values for False, broadcast with `condition`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor or tuple of Tensor
        Of the broadcast shape. Given only `condition`, the indices where it is True: one tensor for each dimension,
        as ``condition.nonzero(as_tuple=True)``.

    Raises
    ------
    RuntimeError
        If `condition` is neither bool nor uint8, or the shapes cannot be broadcast.

    Examples
    --------
    >>> x = adjoint.tensor([-1.0, 2.0])
    >>> adjoint.where(x > 0, x, 0.0)
    tensor([0., 2.])
    >>> adjoint.where(x > 0)
    (tensor([1]),)
    """
    require_tensor(condition, "condition", "where")
    if input is None and other is None:
        require_tensor(condition, "condition", "where")
        return condition.nonzero(as_tuple=True)
    try:
        kind = condition.array.dtype
    except AttributeError:
        require_tensor(condition, "condition", "where")
        raise
    if kind is not _BOOL:
        if kind != np.uint8:
            raise RuntimeError(
                f"where expected condition to be a boolean tensor, but got a tensor with dtype {dtypes.of(kind).name}"
            )
        condition = cast_p(condition, np.dtype(np.bool_))
    if not isinstance(other, TensorBase) and not isinstance(input, TensorBase):
        wanted = result_type((input, other)).np
        xp = module_of(condition.array)
        input, other = wrap(literal(xp.asarray(input, wanted))), wrap(literal(xp.asarray(other, wanted)))
    return where_p(condition, input, other, out=out)


def where_method(input: Tensor, condition: Tensor, other: Tensor | Number) -> Tensor:
    """Choose elements by a condition: ``input`` where `condition` is True, ``other`` elsewhere.

    Parameters
    ----------
    input : Tensor
        Values for True.
    condition : Tensor
        Of dtype bool, broadcast with `input`.
    other : Tensor or number
        Values for False, broadcast with `input`.

    Returns
    -------
    Tensor
        Of the broadcast shape and the promoted dtype of `input` and `other`.

    Raises
    ------
    RuntimeError
        If `condition` is neither bool nor uint8, or the shapes cannot be broadcast.

    Examples
    --------
    >>> x = adjoint.tensor([-1.0, 2.0])
    >>> x.where(x > 0, 0.0)
    tensor([0., 2.])
    """
    chosen: Tensor = where(condition, input, other)
    return chosen


def _masked_fill(x: Array, mask: Array, value: Any) -> Array:
    return dense(np.where(mask, value, x))


def _unfilled(g: Value, mask: Value, x_shape: Shape) -> Value:
    rest = where_p(mask, 0, g)
    return rest if rest.shape == x_shape else sum_to_p(rest, x_shape)


def _sum_of(g: Value) -> Value:
    return g.sum()


masked_fill_p = nary(
    _masked_fill,
    inputs=3,
    x=_unfilled,
    value=lambda g, mask: _sum_of(where_p(mask, g, 0)),
    jvp=lambda tangents, inputs, out, params: where_p(inputs[1], *_filled_tangents(tangents, out)),
    batch="elementwise",
)


def _fill_array(x: Any, mask: Array, value: Any) -> None:
    np.copyto(x, value, where=mask)


_masked_fill_ = inplace(masked_fill_p, _fill_array)


def _filled_tangents(tangents: Tangents, out: Value) -> tuple[Value | int, Value]:
    dx, _, dvalue = tangents
    return 0 if dvalue is None else dvalue, zeros_p(out) if dx is None else dx


def _checked_fill(input: Tensor, mask: Tensor, value: object, name: str) -> Any:
    require_tensor(mask, "mask", name)
    if mask.array.dtype is not _BOOL:
        kind = title_of(mask.dtype).lower()
        raise RuntimeError(f"masked_fill_ only supports boolean masks, but got mask with dtype {kind}")
    if type(value) is float and input.array.dtype.kind == "f":
        return value
    wanted = dtypes.of(input.array.dtype)
    if isinstance(value, TensorBase):
        if value.array.ndim:
            raise RuntimeError(
                f"masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{value.array.ndim} dimension(s)."
            )
        given = dtypes.of(value.array.dtype)
    else:
        given = dtypes.of_number(value)
    if given.category == 3 > wanted.category:
        raise RuntimeError(f"value cannot be converted to type {wanted.name} without overflow: {name} keeps the dtype")
    if isinstance(value, TensorBase):
        return value if value.array.dtype == wanted.np else cast_p(value, wanted.np)
    check_fits(value, wanted)
    return literal(number_like(value, input.array))


def masked_fill(input: Tensor, mask: Tensor, value: Tensor | Number) -> Tensor:
    """Replace elements by one value where `mask` is True.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    mask : Tensor
        Of dtype bool, broadcast with `input`.
    value : number or Tensor
        The value for all these elements; a tensor has no dimensions.

    Returns
    -------
    Tensor
        Of the broadcast shape and the dtype of `input`. Its gradient is zero where `mask` is True.

    Raises
    ------
    RuntimeError
        If `mask` is not bool, or `value` is a tensor with dimensions or does not fit the dtype.

    Examples
    --------
    >>> adjoint.zeros(3).masked_fill(adjoint.tensor([True, False, True]), 5)
    tensor([5., 0., 5.])
    >>> scores = adjoint.zeros(2, 2)
    >>> scores.masked_fill(adjoint.ones(2, 2).triu(1).bool(), float("-inf")).softmax(-1)
    tensor([[1.0000, 0.0000],
            [0.5000, 0.5000]])
    """
    return masked_fill_p(input, mask, _checked_fill(input, mask, value, "masked_fill"))


def masked_fill_(input: Tensor, mask: Tensor, value: Tensor | Number) -> Tensor:
    """Replace elements by one value where `mask` is True, in place.

    Parameters
    ----------
    input : Tensor
        Overwritten; its shape and dtype stay.
    mask : Tensor
        Of dtype bool, broadcast to the shape of `input`.
    value : number or Tensor
        The value for all these elements; a tensor has no dimensions.

    Returns
    -------
    Tensor
        `input` itself.

    Raises
    ------
    RuntimeError
        If `mask` is not bool, `value` does not fit the dtype, or `input` is a leaf that requires a gradient.

    Examples
    --------
    >>> x = adjoint.tensor([1.0, float("nan"), 3.0])
    >>> x.masked_fill_(x.isnan(), 0)
    tensor([1., 0., 3.])
    """
    return _masked_fill_(input, mask, _checked_fill(input, mask, value, "masked_fill_"))


# --- Extremes ---------------------------------------------------------------------------------------
# Where both are equal, each gets half of the gradient.


def _of_reals(ufunc: np.ufunc) -> Callable[[Any, Any], Any]:
    """Return an extreme that refuses complex numbers, which NumPy would order by their real parts."""

    def kernel(x: Array, y: Value) -> Any:
        if x.dtype.kind == "c":
            raise RuntimeError(f"{ufunc.__name__} not implemented for complex tensors.")
        return ufunc(x, y)

    kernel.__name__ = ufunc.__name__
    return kernel


def _share_jvp(tangents: Tangents, inputs: Inputs, out: Value, params: Params) -> Value:
    return zeros_p(out) if tangents[0] is None else halved_p(tangents[0], *inputs[1:])


halved_p: Primitive = elementwise(
    "share",
    lambda g, winner, loser: where_p(winner < loser, 0, where_p(winner == loser, g * 0.5, g)),
    g=lambda g, winner, loser: halved_p(g, winner, loser),
    promotes=False,
    holomorphic=False,
    jvp=_share_jvp,
)
maximum_p = binary(
    _of_reals(np.maximum),
    x=formula(lambda g, x, y: halved_p(g, x, y)),
    y=formula(lambda g, x, y: halved_p(g, y, x)),
)
minimum_p = binary(
    _of_reals(np.minimum),
    x=formula(lambda g, x, y: halved_p(g, y, x)),
    y=formula(lambda g, x, y: halved_p(g, x, y)),
)
fmax_p = binary(
    _of_reals(np.fmax),
    x=formula(lambda g, x, y: where_p((x >= y) | np.isnan(y), g, 0)),
    y=formula(lambda g, x, y: where_p((x >= y) | np.isnan(y), 0, g)),
)
fmin_p = binary(
    _of_reals(np.fmin),
    x=formula(lambda g, x, y: where_p((x <= y) | np.isnan(y), g, 0)),
    y=formula(lambda g, x, y: where_p((x <= y) | np.isnan(y), 0, g)),
)


def maximum(input: Tensor, other: Tensor, *, out: Out = None) -> Tensor:
    """Return the larger of each pair of elements.

    The gradient goes to the larger element; equal elements get half of it each.

    Parameters
    ----------
    input : Tensor
        Of any shape and any real dtype.
    other : Tensor
        Broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape and the promoted dtype. NaN if either element is NaN (`fmax` prefers the number).

    Raises
    ------
    RuntimeError
        If a dtype is complex, or the shapes cannot be broadcast.

    Examples
    --------
    >>> adjoint.maximum(adjoint.tensor([1.0, 5.0]), adjoint.tensor([3.0, 2.0]))
    tensor([3., 5.])
    >>> adjoint.maximum(adjoint.tensor([1.0, float("nan")]), adjoint.tensor(2.0))
    tensor([2., nan])
    """
    require_pair(input, other, "maximum")
    return into(out, maximum_p(input, other))


def minimum(input: Tensor, other: Tensor, *, out: Out = None) -> Tensor:
    """Return the smaller of each pair of elements.

    The gradient goes to the smaller element; equal elements get half of it each.

    Parameters
    ----------
    input : Tensor
        Of any shape and any real dtype.
    other : Tensor
        Broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape and the promoted dtype. NaN if either element is NaN (`fmin` prefers the number).

    Raises
    ------
    RuntimeError
        If a dtype is complex, or the shapes cannot be broadcast.

    Examples
    --------
    >>> adjoint.minimum(adjoint.tensor([1.0, 5.0]), adjoint.tensor([3.0, 2.0]))
    tensor([1., 2.])
    >>> adjoint.minimum(adjoint.tensor([1.0, float("nan")]), adjoint.tensor(2.0))
    tensor([1., nan])
    """
    require_pair(input, other, "minimum")
    return into(out, minimum_p(input, other))


def fmax(input: Tensor, other: Tensor, *, out: Out = None) -> Tensor:
    """Return the larger of each pair of elements; a number is preferred to NaN.

    Parameters
    ----------
    input : Tensor
        Of any shape and any real dtype.
    other : Tensor
        Broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape and the promoted dtype. NaN only if both elements are NaN.

    Raises
    ------
    RuntimeError
        If a dtype is complex, or the shapes cannot be broadcast.

    Examples
    --------
    >>> adjoint.fmax(adjoint.tensor([1.0, float("nan")]), adjoint.tensor(2.0))
    tensor([2., 2.])
    """
    require_pair(input, other, "fmax")
    return into(out, fmax_p(input, other))


def fmin(input: Tensor, other: Tensor, *, out: Out = None) -> Tensor:
    """Return the smaller of each pair of elements; a number is preferred to NaN.

    Parameters
    ----------
    input : Tensor
        Of any shape and any real dtype.
    other : Tensor
        Broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape and the promoted dtype. NaN only if both elements are NaN.

    Raises
    ------
    RuntimeError
        If a dtype is complex, or the shapes cannot be broadcast.

    Examples
    --------
    >>> adjoint.fmin(adjoint.tensor([1.0, float("nan")]), adjoint.tensor(2.0))
    tensor([1., 2.])
    """
    require_pair(input, other, "fmin")
    return into(out, fmin_p(input, other))


# --- Clamping ---------------------------------------------------------------------------------------


def _clamp(x: Any, min: Value | float | None, max: Value | float | None) -> Any:
    if x.dtype.kind != "f":
        min, max = _bound(min, x), _bound(max, x)
    return _between(x, min, max)


def _clamp_array(x: Value, min: Value | float | None, max: Value | float | None) -> None:
    if x.ndim:
        _between(x, min, max, x)
    else:
        x[...] = _clamp(x, min, max)


def _between(x: Any, min: Any, max: Any, out: Any = None) -> Any:
    if min is None:
        return np.minimum(max, x, out=out)  # of two zeros the second is taken, as by `clip`
    low = np.maximum(min, x, out=out)
    return low if max is None else np.minimum(max, low, out=out)


def _bound(value: object, x: Value) -> Any:
    return None if value is None else number_like(value, x)


def _clamp_x(g: Value, x: Value, min: Any, max: Any) -> Value:
    if min is None:
        return where_p(x <= max, g, 0)
    if max is None:
        return where_p(x >= min, g, 0)
    return where_p((x >= min) & (x <= max), g, 0)


clamp_p = parametric(
    _clamp, x=formula(_clamp_x, static="min max"), jvp="elementwise", batch="same", node_name="ClampBackward1"
)


clamp_tensors_p = elementwise(
    "clamp_tensors",
    lambda x, min, max: np.minimum(np.maximum(x, min), max),
    x=lambda g, x, min, max: where_p((x >= min) & (x <= max), g, 0),
    min=lambda g, x, min, max: where_p((min < max) & (x < min), g, 0),
    max=lambda g, x, min, max: where_p((x > max) | (max < min), g, 0),
    holomorphic=False,
    node_name="ClampBackward0",
)
clamp_min_p = binary(
    np.maximum,
    x=formula(lambda g, x, y: where_p(x >= y, g, 0)),
    y=formula(lambda g, x, y: where_p(x < y, g, 0)),
    name="clamp_min",
    node_name="ClampMinBackward1",
    saved={"y": "min"},
)
clamp_max_p = binary(
    np.minimum,
    x=formula(lambda g, x, y: where_p(x <= y, g, 0)),
    y=formula(lambda g, x, y: where_p(x > y, g, 0)),
    name="clamp_max",
    node_name="ClampMaxBackward1",
    saved={"y": "max"},
)
by_ufunc.update({np.maximum: maximum_p, np.minimum: minimum_p, np.fmax: fmax_p, np.fmin: fmin_p})
_clamp_, _clamp_tensors_ = inplace(clamp_p, _clamp_array), inplace(clamp_tensors_p)
_clamp_min_, _clamp_max_ = inplace(clamp_min_p), inplace(clamp_max_p)


_REALS = {int, float, type(None)}


def _refuse_none(bound: Operand, op: str) -> None:
    if bound is None:
        raise TypeError(f"{op}() received an invalid combination of arguments - got (Tensor, NoneType)")


def _check_bounds(min: Operand | None, max: Operand | None) -> None:
    """Raise unless the bounds, of which one is a tensor, are real tensors."""
    for bound, kernel in ((min, "maximum_cpu"), (max, "minimum_cpu")):
        if bound is not None and not isinstance(bound, TensorBase):
            given = ", ".join(type(v).__name__ for v in (min, max))
            raise TypeError(f"clamp() received an invalid combination of arguments - got (Tensor, {given})")
        if bound is not None and bound.array.dtype.kind == "c":
            raise not_implemented(kernel, bound.array)


def _clamped(input: Tensor, min: Any, max: Any, own: bool) -> Tensor:
    """Clamp `input`, into itself if `own`."""
    try:
        kind = input.array.dtype
    except AttributeError:
        require_tensor(input, "input", "clamp")
        raise
    if kind.kind == "f" and type(min) in _REALS and type(max) in _REALS and min is not max:
        return (_clamp_ if own else clamp_p)(input, min, max)
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    if kind.kind == "c":
        raise NotImplementedError("clamp is not supported for complex types")
    if isinstance(min, TensorBase) or isinstance(max, TensorBase):
        _check_bounds(min, max)
        if max is None:
            return (_clamp_min_ if own else clamp_min_p)(input, min)
        if min is None:
            return (_clamp_max_ if own else clamp_max_p)(input, max)
        return (_clamp_tensors_ if own else clamp_tensors_p)(input, min, max)
    if isinstance(min, complex) or isinstance(max, complex):
        raise NotImplementedError("clamp is not supported for complex types")
    dtype = result_type([v for v in (input, min, max) if v is not None])
    if dtype.np != kind:
        if own:
            raise RuntimeError(
                f"result type {dtype.name} can't be cast to the desired output type {dtypes.of(kind).name}"
            )
        input = cast_p(input, dtype.np)
    return (_clamp_ if own else clamp_p)(input, min, max)


def clamp(input: Tensor, min: Operand | None = None, max: Operand | None = None, *, out: Out = None) -> Tensor:
    """Limit elements to a range: ``minimum(maximum(input, min), max)``.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype.
    min : number or Tensor, optional
        Lower bound; None for no bound. A tensor is broadcast with `input`.
    max : number or Tensor, optional
        Upper bound; None for no bound. A tensor is broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape and the promoted dtype. Where `min` is above `max`, `max`. The gradient is zero where
        an element is outside of the bounds.

    Raises
    ------
    RuntimeError
        If both bounds are None.
    TypeError
        If one bound is a tensor and the other a number.

    Examples
    --------
    >>> adjoint.clamp(adjoint.tensor([-1.0, 0.5, 2.0]), 0, 1)
    tensor([0.0000, 0.5000, 1.0000])
    >>> adjoint.clamp(adjoint.tensor([-1.0, 0.5, 2.0]), max=adjoint.tensor([0.0, 0.0, 3.0]))
    tensor([-1.,  0.,  2.])
    """
    require_tensor(input, "input", "clamp")
    result = _clamped(input, min, max, False)
    return result if out is None else into(out, result)


def clamp_(input: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """Limit elements to a range, in place.

    Parameters
    ----------
    input : Tensor
        Overwritten; its shape and dtype stay.
    min : number or Tensor, optional
        Lower bound; None for no bound. A tensor is broadcast with `input`.
    max : number or Tensor, optional
        Upper bound; None for no bound. A tensor is broadcast with `input`.

    Returns
    -------
    Tensor
        `input` itself.

    Raises
    ------
    RuntimeError
        If both bounds are None, `input` is a leaf that requires a gradient, or the result does not fit its dtype.

    Examples
    --------
    >>> x = adjoint.tensor([-1.0, 0.5, 2.0])
    >>> x.clamp_(min=0)
    tensor([0.0000, 0.5000, 2.0000])
    """
    return _clamped(input, min, max, True)


def clamp_min(input: Tensor, min: Operand, *, out: Out = None) -> Tensor:
    """Replace elements below `min` by it: ``maximum(input, min)``.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype.
    min : number or Tensor
        Lower bound. A tensor is broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape and the promoted dtype. The gradient is zero where an element is below the bound.

    Raises
    ------
    TypeError
        If `min` is None.

    Examples
    --------
    >>> adjoint.clamp_min(adjoint.tensor([-1.0, 0.5, 2.0]), 0)
    tensor([0.0000, 0.5000, 2.0000])
    """
    require_tensor(input, "input", "clamp_min")
    _refuse_none(min, "clamp_min")
    raised = _clamped(input, min, None, False)
    return into(out, raised if isinstance(min, TensorBase) else fold(raised, "ClampMinBackward0", input, min=min))


def clamp_min_(input: Tensor, min: Operand) -> Tensor:
    """Replace elements below `min` by it, in place.

    Parameters
    ----------
    input : Tensor
        Overwritten; its shape and dtype stay.
    min : number or Tensor
        Lower bound. A tensor is broadcast with `input`.

    Returns
    -------
    Tensor
        `input` itself.

    Raises
    ------
    RuntimeError
        If `input` is a leaf that requires a gradient, or the result does not fit its dtype.

    Examples
    --------
    >>> x = adjoint.tensor([-1.0, 0.5, 2.0])
    >>> x.clamp_min_(0)
    tensor([0.0000, 0.5000, 2.0000])
    """
    _refuse_none(min, "clamp_min_")
    return _clamped(input, min, None, True)


def clamp_max(input: Tensor, max: Operand, *, out: Out = None) -> Tensor:
    """Replace elements above `max` by it: ``minimum(input, max)``.

    Parameters
    ----------
    input : Tensor
        Of any shape and a real dtype.
    max : number or Tensor
        Upper bound. A tensor is broadcast with `input`.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the broadcast shape and the promoted dtype. The gradient is zero where an element is above the bound.

    Raises
    ------
    TypeError
        If `max` is None.

    Examples
    --------
    >>> adjoint.clamp_max(adjoint.tensor([-1.0, 0.5, 2.0]), 1)
    tensor([-1.0000,  0.5000,  1.0000])
    """
    require_tensor(input, "input", "clamp_max")
    _refuse_none(max, "clamp_max")
    return into(out, _clamped(input, None, max, False))


def clamp_max_(input: Tensor, max: Operand) -> Tensor:
    """Replace elements above `max` by it, in place.

    Parameters
    ----------
    input : Tensor
        Overwritten; its shape and dtype stay.
    max : number or Tensor
        Upper bound. A tensor is broadcast with `input`.

    Returns
    -------
    Tensor
        `input` itself.

    Raises
    ------
    RuntimeError
        If `input` is a leaf that requires a gradient, or the result does not fit its dtype.

    Examples
    --------
    >>> x = adjoint.tensor([-1.0, 0.5, 2.0])
    >>> x.clamp_max_(1)
    tensor([-1.0000,  0.5000,  1.0000])
    """
    _refuse_none(max, "clamp_max_")
    return _clamped(input, None, max, True)


clip, clip_ = clamp, clamp_

# --- Absolute value and sign --------------------------------------------------------------------------


def _sign(x: Array) -> Any:
    """Return the sign; that of NaN is 0, so that no NaN comes back where the gradient is masked."""
    kind = x.dtype.kind
    if kind == "c" or kind in "iu":
        return np.sign(x)
    if kind == "b":
        return x.copy()
    return _sign_of_reals(x)


_sign_of_reals = formula(lambda x: where_p(np.isnan(x), 0, np.sign(x)), name="sign")


def _sgn_x(g: Value, x: Value, out: Value, x_dtype: DType) -> Value:
    if x_dtype.kind != "c":
        return zeros_p(g)
    scaled = where_p(x == 0, 0, g / np.abs(x))
    return scaled - cast_p(scaled * np.conjugate(out), dtypes.of(x_dtype).to_real().np) * out


def _abs(x: Array) -> Array:
    if x.dtype.kind == "b":
        raise not_implemented("abs", x)
    return np.absolute(x)


def _abs_jvp(tangents: Inputs, inputs: Inputs, out: Value, params: Params) -> Value:
    (t,), (x,) = tangents, inputs
    dtype = dtype_of(x)
    if dtype.kind != "c":
        return t * sgn_p(x)
    return cast_p(t * np.conjugate(sgn_p(x)), dtypes.of(dtype).to_real().np)


def _abs_x(g: Value, x: Value) -> Value:
    return where_p(x > 0, g, where_p(x < 0, -g, 0 * g)) if dtype_of(x).kind != "c" else g * sgn_p(x)


abs_p = unary(_abs, x=formula(_abs_x), name="abs", holomorphic=False, jvp=_abs_jvp)
sign_p = unary(_sign, x=no_gradient, name="sign", holomorphic=False)
sgn_p: Primitive = unary(_sign, x=_sgn_x, name="sgn", holomorphic=False)
by_ufunc.update({np.absolute: abs_p, np.sign: sgn_p})
_abs_ = inplace(abs_p)
sign_ = inplace(
    sign_p,
    example="""
    >>> x = adjoint.tensor([-3.0, 0.0, 2.0])
    >>> x.sign_()
    tensor([-1.,  0.,  1.])
    """,
)
sgn_ = inplace(
    sgn_p,
    example="""
    >>> x = adjoint.tensor([-3.0, 0.0, 2.0])
    >>> x.sgn_()
    tensor([-1.,  0.,  1.])
    """,
)


def abs_(input: Tensor) -> Tensor:
    """Replace each element by its absolute value, in place.

    Parameters
    ----------
    input : Tensor
        Overwritten; its shape and dtype stay.

    Returns
    -------
    Tensor
        `input` itself.

    Raises
    ------
    RuntimeError
        If `input` is complex, or is a leaf that requires a gradient.

    Examples
    --------
    >>> x = adjoint.tensor([-1.5, 2.0])
    >>> x.abs_()
    tensor([1.5000, 2.0000])
    """
    if input.array.dtype.kind == "c":
        raise RuntimeError("In-place abs is not supported for complex tensors.")
    return _abs_(input)


@public(abs_p)
def abs(input: Tensor, *, out: Out = None) -> Tensor:
    """Return the absolute value of each element: ``|x|``.

    Parameters
    ----------
    input : Tensor
        Of any shape and any dtype but bool.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`; of complex elements the distance from zero, a real number. The gradient
        at zero is zero.

    Examples
    --------
    >>> adjoint.abs(adjoint.tensor([-1.5, 2.0]))
    tensor([1.5000, 2.0000])
    >>> adjoint.abs(adjoint.tensor([3 + 4j]))
    tensor([5.])
    """


def sign(input: Tensor, *, out: Out = None) -> Tensor:
    """Return the sign of each element: -1, 0 or 1.

    Parameters
    ----------
    input : Tensor
        Of any shape and any real dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`. 0 for NaN. The gradient is zero.

    Raises
    ------
    NotImplementedError
        If `input` is complex; `sgn` takes complex numbers.

    Examples
    --------
    >>> adjoint.sign(adjoint.tensor([-3.0, 0.0, 0.5]))
    tensor([-1.,  0.,  1.])
    """
    if input.array.dtype.kind == "c":
        raise NotImplementedError(
            "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn instead."
        )
    return into(out, sign_p(input))


@public(sgn_p)
def sgn(input: Tensor, *, out: Out = None) -> Tensor:
    """Return the sign of each element; of a complex number, ``x / |x|``.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`. 0 for 0.

    Examples
    --------
    >>> adjoint.sgn(adjoint.tensor([3 + 4j, 0j]))
    tensor([0.6000+0.8000j, 0.0000+0.0000j])
    """


absolute = abs
absolute_ = abs_

# --- Rounding ---------------------------------------------------------------------------------------


def _of_floats(ufunc: np.ufunc) -> Callable[[Any], Any]:
    """Return a rounding that leaves integers alone."""

    def kernel(x: Array) -> Any:
        if x.dtype.kind in "biu":
            if x.dtype.kind == "b":
                raise not_implemented(ufunc.__name__, x)
            return x.copy()
        return ufunc(x)

    return kernel


@in_single
def _round_to(x: Array, decimals: Any) -> Any:
    if x.dtype.kind in "iu":
        return x.copy()
    scale = x.dtype.type(10.0 ** _magnitude(decimals))
    return np.rint(x * scale) / scale if decimals >= 0 else np.rint(x / scale) * scale


def _magnitude(n: int) -> int:
    return n if n >= 0 else -n


def _frac(x: Array) -> Value:
    if x.dtype.kind in "biu":
        raise not_implemented("frac", x)
    return x - np.trunc(x)


floor_p = unary(_of_floats(np.floor), x=no_gradient, name="floor")
ceil_p = unary(_of_floats(np.ceil), x=no_gradient, name="ceil")
trunc_p = unary(_of_floats(np.trunc), x=no_gradient, name="trunc")
round_p = unary(_of_floats(np.rint), x=no_gradient, name="round")
round_to_p = parametric(_round_to, x=no_gradient, jvp="elementwise", batch="same", node_name="RoundBackward1")
frac_p = unary(_frac, x=lambda g: g, name="frac")
by_ufunc.update({np.floor: floor_p, np.ceil: ceil_p, np.trunc: trunc_p, np.rint: round_p})
floor_ = inplace(
    floor_p,
    example="""
    >>> x = adjoint.tensor([-1.5, 2.5])
    >>> x.floor_()
    tensor([-2.,  2.])
    """,
)
ceil_ = inplace(
    ceil_p,
    example="""
    >>> x = adjoint.tensor([-1.5, 2.5])
    >>> x.ceil_()
    tensor([-1.,  3.])
    """,
)
trunc_ = inplace(
    trunc_p,
    example="""
    >>> x = adjoint.tensor([-1.5, 2.5])
    >>> x.trunc_()
    tensor([-1.,  2.])
    """,
)
frac_ = inplace(
    frac_p,
    example="""
    >>> x = adjoint.tensor([-1.5, 2.25])
    >>> x.frac_()
    tensor([-0.5000,  0.2500])
    """,
)
_round_, _round_to_ = inplace(round_p), inplace(round_to_p)


@public(floor_p)
def floor(input: Tensor, *, out: Out = None) -> Tensor:
    """Round each element down to an integer.

    Parameters
    ----------
    input : Tensor
        Of any shape and any real dtype but bool.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`. Integers are returned as they are. The gradient is zero.

    Examples
    --------
    >>> adjoint.floor(adjoint.tensor([-1.5, 0.5, 2.0]))
    tensor([-2.,  0.,  2.])
    """


@public(ceil_p)
def ceil(input: Tensor, *, out: Out = None) -> Tensor:
    """Round each element up to an integer.

    Parameters
    ----------
    input : Tensor
        Of any shape and any real dtype but bool.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`. Integers are returned as they are. The gradient is zero.

    Examples
    --------
    >>> adjoint.ceil(adjoint.tensor([-1.5, 0.5, 2.0]))
    tensor([-1.,  1.,  2.])
    """


@public(trunc_p)
def trunc(input: Tensor, *, out: Out = None) -> Tensor:
    """Round each element towards zero to an integer.

    Parameters
    ----------
    input : Tensor
        Of any shape and any real dtype but bool.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`. Integers are returned as they are. The gradient is zero.

    Examples
    --------
    >>> adjoint.trunc(adjoint.tensor([-1.5, 0.5, 2.0]))
    tensor([-1.,  0.,  2.])
    """


fix, fix_ = trunc, trunc_


def _refuse_round(input: Tensor, decimals: int) -> None:
    kind = input.array.dtype.kind if isinstance(input, TensorBase) else "f"
    if kind == "c" or (decimals and kind in "biu"):
        raise not_implemented("round_vml_cpu" if kind == "c" else "round_cpu", input.array)


def round(input: Tensor, *, decimals: int = 0, out: Out = None) -> Tensor:
    """Round each element to the nearest number with `decimals` digits; halves go to the even one.

    Parameters
    ----------
    input : Tensor
        Of any shape and any real dtype but bool.
    decimals : int, default 0
        Digits after the point; a negative count rounds to tens, hundreds and so on.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`. The gradient is zero.

    Raises
    ------
    NotImplementedError
        If `input` is complex or bool, or of integers and `decimals` is not 0.

    Examples
    --------
    >>> adjoint.round(adjoint.tensor([0.5, 1.5, 2.4]))
    tensor([0., 2., 2.])
    >>> adjoint.round(adjoint.tensor([12.345]), decimals=1)
    tensor([12.3000])
    """
    if type(decimals) is not int:
        decimals = index_of(decimals, "decimals", "round")
    _refuse_round(input, decimals)
    return into(out, round_p(input) if decimals == 0 else round_to_p(input, count_of(decimals, "decimals")))


def round_(input: Tensor, *, decimals: int = 0) -> Tensor:
    """Round in place."""
    _refuse_round(input, decimals)
    return _round_(input) if decimals == 0 else _round_to_(input, decimals)


@public(frac_p)
def frac(input: Tensor, *, out: Out = None) -> Tensor:
    """Return the fractional part of each element: ``x - trunc(x)``.

    Parameters
    ----------
    input : Tensor
        Of any shape and a float dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`. It has the sign of the element.

    Examples
    --------
    >>> adjoint.frac(adjoint.tensor([-1.5, 0.25, 2.0]))
    tensor([-0.5000,  0.2500,  0.0000])
    """


# --- Replacing what is not finite ---------------------------------------------------------------------


def _nan_to_num(x: Any, nan: Any, posinf: Any, neginf: Any) -> Any:
    if x.dtype.kind in "biu":
        return x.copy()
    if x.dtype.kind == "c":
        out = x.copy()
        out.real = _nan_to_num(x.real, nan, posinf, neginf)
        out.imag = _nan_to_num(x.imag, nan, posinf, neginf)
        return out
    return _finite(x, nan, posinf, neginf)


def _finite(x: Value, nan: Any, posinf: Any, neginf: Any) -> Value:
    c = where_p(np.isnan(x), nan, x)
    return where_p(np.isinf(x), where_p(x > 0, posinf, neginf), c)


_finite = formula(_finite, name="nan_to_num", static="nan posinf neginf")


nan_to_num_p = parametric(
    _nan_to_num,
    x=formula(lambda g, x: where_p(np.isfinite(x), g, 0)),
    jvp="elementwise",
    batch="same",
)
_nan_to_num_ = inplace(nan_to_num_p)


def nan_to_num(
    input: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None, *,
    out: Out = None,
) -> Tensor:  # fmt: skip
    """Replace NaN and infinities by finite numbers.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    nan : float, optional
        In place of NaN; 0 by default.
    posinf : float, optional
        In place of infinity; by default the largest finite number of the dtype.
    neginf : float, optional
        In place of minus infinity; by default the smallest finite number of the dtype.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape and dtype of `input`. The gradient is zero where an element was replaced.

    Examples
    --------
    >>> x = adjoint.tensor([float("nan"), float("inf"), -1.0])
    >>> adjoint.nan_to_num(x, nan=0.0, posinf=100.0)
    tensor([  0., 100.,  -1.])
    """
    return into(out, nan_to_num_p(input, *_replacements(input, nan, posinf, neginf)))


def nan_to_num_(
    input: Tensor, nan: float | None = None, posinf: float | None = None, neginf: float | None = None
) -> Tensor:
    """Replace NaN and infinities, in place."""
    return _nan_to_num_(input, *_replacements(input, nan, posinf, neginf))


def _replacements(input: Tensor, nan: float | None, posinf: float | None, neginf: float | None) -> tuple[float, ...]:
    """Return what stands for NaN and the infinities: by default zero and the largest numbers of the dtype."""
    largest = float(dtypes.finfo(input.dtype).max) if input.dtype.is_floating_point or input.dtype.is_complex else 0.0
    return 0.0 if nan is None else nan, largest if posinf is None else posinf, -largest if neginf is None else neginf


__all__ = [
    "abs", "abs_", "absolute", "ceil", "ceil_", "clamp", "clamp_", "clamp_max", "clamp_max_", "clamp_min",
    "clamp_min_", "clip", "clip_", "fix", "fix_", "floor", "floor_", "fmax", "fmin", "frac", "frac_",
    "masked_fill", "maximum", "minimum", "nan_to_num", "nan_to_num_", "round", "round_", "sgn", "sign",
    "trunc", "trunc_", "where",
]  # fmt: skip
