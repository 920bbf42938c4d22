"""Pooling: averages and maxima over windows of the last dimensions, and their inverses; see `adaptive_pooling` too.

What windows there are is a tuple of `Taps`, one per pooled dimension (see `windows.py`). All dimensions before
those are alike to the primitives, whether or not they hold a batch.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._typing import Array, Inputs, Ints, Params, Shape, Tangents, Tensor, Value
from ..core.device import module_of
from ..core.dtypes import of
from ..core.failures import not_implemented
from ..core.folding import fold, framed
from ..core.nodes import wrap
from ..core.observation import literal
from ..core.recorders import Primitive, nary, parametric
from . import random
from .activation import relu
from .arguments import count_of, require_tensor
from .compare import zeros_p
from .create import into
from .gather import gather_p, ungather_p
from .piecewise import sign
from .precision import autocasting
from .scatter import scatter_p
from .shape import reshape_p
from .windows import Plans, Taps, largest, recipe, weighted_sums, where_largest

__all__ = [
    "avg_pool1d", "max_pool1d", "max_pool1d_with_indices", "max_pool2d", "max_pool3d",
]  # fmt: skip

# --- The primitives ---------------------------------------------------------------------------------


def mixing(name: str, node_name: str, **options: Any) -> Primitive:
    """Return the primitive of weighted sums along the last dimensions, under the name torch gives its node."""
    mix_p = parametric(
        weighted_sums,
        x=lambda g, plans: unmix_p(g, _transposed(plans)),
        jvp="linear",
        batch="same",
        name=name,
        node_name=node_name,
        **options,
    )
    unmix_p = parametric(
        weighted_sums,
        x=lambda g, plans: mix_p(g, _transposed(plans)),
        jvp="linear",
        batch="same",
        name=f"{name}_backward",
        node_name=node_name.replace("Backward", "BackwardBackward"),
    )
    return mix_p


def _transposed(plans: Plans) -> Any:
    return tuple(p and p.transposed for p in plans)


def pools(declare: Callable[..., Primitive], name: str, title: str, suffix: str = "") -> dict[int, Primitive]:
    """Return primitives for one, two and three dimensions; in torch the first is the second between two views."""
    framed_2d = framed("SqueezeBackward1", f"{title}2D{suffix}Backward0", "UnsqueezeBackward0")
    return {
        n: declare(f"{name}{n}d", f"{title}{n}D{suffix}Backward0", split=framed_2d if n == 1 else None)
        for n in (1, 2, 3)
    }


_AVERAGES = pools(mixing, "avg_pool", "AvgPool")

# Where in the pooled dimensions, flattened, the largest element of each window is.
where_largest_p = parametric(where_largest, name="where_largest", batch="same")


def _rows(x: Value, rank: int) -> Tensor:
    """Return a value with its last `rank` dimensions, and all before them, made one."""
    shape = tuple(x.shape)
    return reshape_p(x, (math.prod(shape[:-rank]), math.prod(shape[-rank:])))


def _picked(x: Value, index: Value, rank: int) -> Tensor:
    """Return the elements that an index of places in the last dimensions names."""
    return reshape_p(gather_p(_rows(x, rank), _rows(index, rank), 1), tuple(index.shape))


def _put_back(g: Value, index: Value, shape: Shape, rank: int) -> Tensor:
    """Return zeros of a shape, to which `g` is added in the places that were picked."""
    flat = (math.prod(shape[:-rank]), math.prod(shape[-rank:]))
    return reshape_p(ungather_p(_rows(g, rank), _rows(index, rank), flat, 1), tuple(shape))


def _max_pool_backward(g: Array, x: Array, plans: Plans) -> Tensor:
    return _put_back(g, where_largest_p(x, plans), tuple(x.shape), len(plans))


def _max_pool_backward_tangent(tangents: Tangents, inputs: Inputs, out: Array, params: Params) -> Tensor:
    return zeros_p(out) if tangents[0] is None else max_pool_backward_p(tangents[0], inputs[1], *params)


max_pool_backward_p = nary(
    _max_pool_backward,
    inputs=2,
    g=lambda g, x, plans: _picked(g, where_largest_p(x, plans), len(plans)),
    jvp=_max_pool_backward_tangent,
    batch="same",
    node_name="MaxPool2DWithIndicesBackwardBackward0",
)


def _largest_x(g: Array, x: Array, plans: Plans) -> Tensor:
    return max_pool_backward_p(g, x, plans)


def _largest_tangent(tangents: Any, inputs: Inputs, out: Array, params: Params) -> Value:
    return _picked(tangents[0], where_largest_p(inputs[0], *params), len(params[0]))


def maximizing(name: str, node_name: str, **options: Any) -> Primitive:
    """Return the primitive of maxima along the last dimensions, under the name torch gives its node."""
    return parametric(
        largest, x=_largest_x, jvp=_largest_tangent, batch="same", name=name, node_name=node_name, **options
    )


_MAXIMA = pools(maximizing, "max_pool", "MaxPool", "WithIndices")

# --- Which windows there are ------------------------------------------------------------------------


@recipe("windows")
def _windows(n: int, kernel: int, stride: int, padding: int, dilation: int, size: int) -> Taps:
    index = np.arange(size)[:, None] * stride + np.arange(kernel) * dilation - padding
    taps = Taps.of(n, index, valid=(index >= 0) & (index < n))
    taps.window = (kernel, stride, padding, dilation)
    return taps


@recipe("averages")
def averages(n: int, kernel: int, stride: int, padding: int, size: int, include_pad: bool, divisor: int | None) -> Taps:
    """Return the taps of averages along one dimension."""
    begin = np.arange(size) * stride - padding
    end = np.minimum(begin + kernel, n + padding)
    index = begin[:, None] + np.arange(kernel)
    if divisor is not None:
        count = np.full(size, divisor)
    elif include_pad:
        count = end - begin
    else:
        count = np.minimum(end, n) - np.maximum(begin, 0)
    valid = (index >= 0) & (index < n)
    return Taps.of(n, index, valid=valid, divide_out=None if (count == 1).all() else count)


@recipe("adaptive")
def adaptive(n: int, size: int, mean: bool) -> Taps:
    """Return the taps of `size` windows that share `n` places as evenly as can be."""
    i = np.arange(size)
    begin = i * n // max(size, 1)
    count = -((i + 1) * n // -max(size, 1)) - begin
    index = begin[:, None] + np.arange(count.max(initial=0))
    return Taps.of(n, index, valid=index < (begin + count)[:, None], divide_out=count if mean else None)


def _pooled_size(n: int, kernel: int, stride: int, padding: int, dilation: int, ceil_mode: bool) -> int:
    reach = n + 2 * padding - dilation * (kernel - 1) - 1
    size = (reach + (stride - 1 if ceil_mode else 0)) // stride + 1
    # The last window must begin in the input or in the padding before it.
    return size - 1 if ceil_mode and (size - 1) * stride >= n + padding else size


def _per_dimension(value: Any, rank: int, name: str, op: str) -> Shape:
    if isinstance(value, int) and not isinstance(value, bool):
        return (value,) * rank
    try:
        values = tuple(operator.index(v) for v in value)
    except TypeError:
        raise TypeError(f"{op}(): argument '{name}' must be tuple of ints, not {type(value).__name__}") from None
    if len(values) not in (1, rank):
        raise RuntimeError(f"{op}: {name} must either be a single int, or a tuple of {rank} ints, not {list(values)}")
    return values * rank if len(values) == 1 else values


def refuse(op: str, x: Array, kinds: str, but: str = "") -> None:
    """Raise if `x` is of a dtype that an op does not take, of these kinds except for one."""
    if x.dtype.kind in kinds and x.dtype.name != but:
        raise not_implemented(op, x)


def _stride_of(stride: Ints | None, kernel: Shape, op: str) -> Shape:
    if stride is None or (isinstance(stride, tuple | list) and not stride):
        return kernel
    return _per_dimension(stride, len(kernel), "stride", op)


def _sizes(
    op: str, input: Tensor, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil_mode: bool
) -> Shape:
    """Return how many windows there are along each dimension; raise for what makes no sense."""
    require_tensor(input, "input", op)
    shape, rank = input.array.shape, len(kernel)
    for p, k, d in zip(padding, kernel, dilation, strict=True):
        if p < 0:
            raise RuntimeError(f"pad must be non-negative, but {op} got pad: {p}")
        if p > ((k - 1) * d + 1) // 2:
            raise RuntimeError(
                f"pad should be at most half of effective kernel size, but {op} got pad={p}, kernel_size={k} and "
                f"dilation={d}"
            )
    if len(shape) not in (rank + 1, rank + 2) or 0 in shape[-rank - 1 :]:
        raise RuntimeError(
            f"non-empty {rank + 1}D or {rank + 2}D (batch mode) tensor expected for input: Expected {rank + 1}D or "
            f"{rank + 2}D (batch mode) tensor with optional 0 dim batch size for input, but got: {list(shape)}; "
            f"Expected input's non-batch dimensions to have positive length in {op}"
        )
    if min(kernel) <= 0:
        raise RuntimeError(f"kernel_size must be greater than zero: {op} got kernel_size={list(kernel)}")
    if min(stride) <= 0:
        raise RuntimeError(f"stride must be greater than zero, but got {min(stride)} in {op}")
    if min(dilation) <= 0:
        raise RuntimeError(f"dilation must be greater than zero, but got {min(dilation)} in {op}")
    size = tuple(
        _pooled_size(n, k, s, p, d, ceil_mode)
        for n, k, s, p, d in zip(shape[-rank:], kernel, stride, padding, dilation, strict=True)
    )
    if min(size) < 1:
        raise RuntimeError(
            f"Given input size: ({'x'.join(map(str, shape[-rank - 1 :]))}). Calculated output size: "
            f"({'x'.join(map(str, (shape[-rank - 1], *size)))}). "
            f"Output size is too small (Invalid computed output size: {min(size)})"
        )
    return size


# --- Averages ---------------------------------------------------------------------------------------


def _average(
    rank: int, input: Tensor, kernel_size: Ints, stride: Any, padding: Ints, ceil_mode: bool,
    count_include_pad: bool, divisor_override: int | None = None,
) -> Tensor:  # fmt: skip
    op = f"avg_pool{rank}d"
    kernel = _per_dimension(kernel_size, rank, "kernel_size", op)
    stride = _stride_of(stride, kernel, op)
    padding = _per_dimension(padding, rank, "padding", op)
    if divisor_override is not None:
        count_of(divisor_override, "divisor_override")
    if divisor_override == 0:
        raise RuntimeError(f"divisor must be not zero: {op} got divisor_override=0")
    size = _sizes(op, input, kernel, stride, padding, (1,) * rank, ceil_mode)
    refuse(op, input.array, "biuc", "int64")
    # A divisor of its own is divided by once, with the last dimension.
    divisors = [None] * rank if divisor_override is None else [1] * (rank - 1) + [divisor_override]
    plans = tuple(
        averages(n, k, s, p, m, count_include_pad, d)
        for n, k, s, p, m, d in zip(input.array.shape[-rank:], kernel, stride, padding, size, divisors, strict=True)
    )
    return _AVERAGES[rank](input, plans)


def avg_pool1d(
    input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:  # fmt: skip
    """Average over windows of the last dimension.

    Parameters
    ----------
    input : Tensor
        ``(N, C, L)`` or ``(C, L)``.
    kernel_size : int or tuple of int
        Size of the windows.
    stride : int or tuple of int, optional
        Step between windows; `kernel_size` by default.
    padding : int or tuple of int, default 0
        Zeros to add on both sides, at most half of `kernel_size`.
    ceil_mode : bool, default False
        Round output sizes up, so that a last window may hang over the edge.
    count_include_pad : bool, default True
        Whether padding counts as elements of a window.

    Returns
    -------
    Tensor
        ``(N, C, L_out)`` with ``L_out = (L + 2 * padding - kernel_size) // stride + 1``.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 3.0, 5.0, 9.0]])
    >>> adjoint.nn.functional.avg_pool1d(x, 2)
    tensor([[2., 7.]])
    >>> adjoint.nn.functional.avg_pool1d(x, 3, stride=1)
    tensor([[3.0000, 5.6667]])
    """
    return _average(1, input, kernel_size, stride, padding, ceil_mode, count_include_pad)


def avg_pool2d(
    input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Average over windows of the last two dimensions.

    Parameters
    ----------
    input : Tensor
        ``(N, C, H, W)`` or ``(C, H, W)``.
    kernel_size : int or tuple of int
        Size of the windows.
    stride : int or tuple of int, optional
        Step between windows; `kernel_size` by default.
    padding : int or tuple of int, default 0
        Zeros to add on both sides, at most half of `kernel_size`.
    ceil_mode : bool, default False
        Round output sizes up, so that a last window may hang over the edge.
    count_include_pad : bool, default True
        Whether padding counts as elements of a window.
    divisor_override : int, optional
        Divide the sum of a window by this in place of its number of elements.
    out : Tensor, optional
        Tensor to write the result into.

    Returns
    -------
    Tensor
        ``(N, C, H_out, W_out)`` with, for each dimension,
        ``H_out = (H + 2 * padding - kernel_size) // stride + 1``.

    Examples
    --------
    >>> x = adjoint.arange(16.0).reshape(1, 4, 4)
    >>> adjoint.nn.functional.avg_pool2d(x, 2)
    tensor([[[ 2.5000,  4.5000],
             [10.5000, 12.5000]]])
    >>> adjoint.nn.functional.avg_pool2d(x, 3, stride=2, padding=1, count_include_pad=False)
    tensor([[[ 2.5000,  4.0000],
             [ 8.5000, 10.0000]]])
    """
    return into(
        out,
        _average(2, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override),
    )


def avg_pool3d(
    input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None, *, out: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Average over windows of the last three dimensions.

    Parameters
    ----------
    input : Tensor
        ``(N, C, D, H, W)`` or ``(C, D, H, W)``.
    kernel_size : int or tuple of int
        Size of the windows.
    stride : int or tuple of int, optional
        Step between windows; `kernel_size` by default.
    padding : int or tuple of int, default 0
        Zeros to add on both sides, at most half of `kernel_size`.
    ceil_mode : bool, default False
        Round output sizes up, so that a last window may hang over the edge.
    count_include_pad : bool, default True
        Whether padding counts as elements of a window.
    divisor_override : int, optional
        Divide the sum of a window by this in place of its number of elements.
    out : Tensor, optional
        Tensor to write the result into.

    Returns
    -------
    Tensor
        ``(N, C, D_out, H_out, W_out)`` with, for each dimension,
        ``D_out = (D + 2 * padding - kernel_size) // stride + 1``.

    Examples
    --------
    >>> adjoint.nn.functional.avg_pool3d(adjoint.arange(16.0).reshape(1, 4, 2, 2), 2)
    tensor([[[[ 3.5000]],
    <BLANKLINE>
             [[11.5000]]]])
    """
    return into(
        out,
        _average(3, input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override),
    )


def _lp(rank: int, input: Tensor, norm_type: Any, kernel_size: Ints, stride: Any, ceil_mode: bool) -> Tensor:
    kernel = _per_dimension(kernel_size, rank, "kernel_size", f"lp_pool{rank}d")
    mean = _average(rank, input**norm_type, kernel, stride, 0, ceil_mode, True)
    norm: Tensor = (sign(mean) * relu(abs(mean)) * math.prod(kernel)) ** (1.0 / norm_type)
    return norm


def lp_pool1d(
    input: Tensor, norm_type: Any, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """Take the p-norm, p being `norm_type`, of windows of the last dimension.

    ``sum(x**p) ** (1 / p)`` over the elements x of a window.

    Parameters
    ----------
    input : Tensor
        ``(N, C, L)`` or ``(C, L)``.
    norm_type : float
        The p of the norm; 1 gives the sum of the elements, a large p comes close to the maximum.
    kernel_size : int or tuple of int
        Size of the windows.
    stride : int or tuple of int, optional
        Step between windows; `kernel_size` by default.
    ceil_mode : bool, default False
        Round output sizes up, so that a last window may hang over the edge.

    Returns
    -------
    Tensor
        ``(N, C, L_out)`` with ``L_out = (L - kernel_size) // stride + 1``.

    Examples
    --------
    >>> x = adjoint.tensor([[3.0, 4.0, 6.0, 8.0]])
    >>> adjoint.nn.functional.lp_pool1d(x, 2, 2)
    tensor([[ 5., 10.]])
    """
    return _lp(1, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool2d(
    input: Tensor, norm_type: Any, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """Take the p-norm, p being `norm_type`, of windows of the last two dimensions.

    ``sum(x**p) ** (1 / p)`` over the elements x of a window.

    Parameters
    ----------
    input : Tensor
        ``(N, C, H, W)`` or ``(C, H, W)``.
    norm_type : float
        The p of the norm; 1 gives the sum of the elements, a large p comes close to the maximum.
    kernel_size : int or tuple of int
        Size of the windows.
    stride : int or tuple of int, optional
        Step between windows; `kernel_size` by default.
    ceil_mode : bool, default False
        Round output sizes up, so that a last window may hang over the edge.

    Returns
    -------
    Tensor
        ``(N, C, H_out, W_out)`` with, for each dimension, ``H_out = (H - kernel_size) // stride + 1``.

    Examples
    --------
    >>> x = adjoint.tensor([[[1.0, 2.0], [2.0, 4.0]]])
    >>> adjoint.nn.functional.lp_pool2d(x, 2, 2)
    tensor([[[5.]]])
    """
    return _lp(2, input, norm_type, kernel_size, stride, ceil_mode)


def lp_pool3d(
    input: Tensor, norm_type: Any, kernel_size: Ints, stride: Ints | None = None, ceil_mode: bool = False,
) -> Tensor:  # fmt: skip
    """Take the p-norm, p being `norm_type`, of windows of the last three dimensions.

    ``sum(x**p) ** (1 / p)`` over the elements x of a window.

    Parameters
    ----------
    input : Tensor
        ``(N, C, D, H, W)`` or ``(C, D, H, W)``.
    norm_type : float
        The p of the norm; 1 gives the sum of the elements, a large p comes close to the maximum.
    kernel_size : int or tuple of int
        Size of the windows.
    stride : int or tuple of int, optional
        Step between windows; `kernel_size` by default.
    ceil_mode : bool, default False
        Round output sizes up, so that a last window may hang over the edge.

    Returns
    -------
    Tensor
        ``(N, C, D_out, H_out, W_out)`` with, for each dimension, ``D_out = (D - kernel_size) // stride + 1``.

    Examples
    --------
    >>> adjoint.nn.functional.lp_pool3d(adjoint.ones(1, 2, 2, 2), 1, 2)
    tensor([[[[8.]]]])
    """
    return _lp(3, input, norm_type, kernel_size, stride, ceil_mode)


# --- Maxima -----------------------------------------------------------------------------------------


def _maximum(
    rank: int, input: Tensor, kernel_size: Ints, stride: Any, padding: Ints, dilation: Ints, ceil_mode: bool,
    return_indices: bool,
) -> Any:  # fmt: skip
    op = f"max_pool{rank}d"
    kernel = _per_dimension(kernel_size, rank, "kernel_size", op)
    stride = _stride_of(stride, kernel, op)
    padding, dilation = (
        _per_dimension(padding, rank, "padding", op), _per_dimension(dilation, rank, "dilation", op),
    )  # fmt: skip
    size = _sizes(op, input, kernel, stride, padding, dilation, ceil_mode)
    refuse(op, input.array, "bc")
    shape = input.array.shape[-rank:]
    plans = tuple(_windows(*sizes) for sizes in zip(shape, kernel, stride, padding, dilation, size, strict=True))
    out = _MAXIMA[rank](input, plans)
    return (out, where_largest_p(input, plans)) if return_indices else out


def max_pool1d(
    input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """Take the maximum of windows of the last dimension.

    Parameters
    ----------
    input : Tensor
        ``(N, C, L)`` or ``(C, L)``.
    kernel_size : int or tuple of int
        Size of the windows.
    stride : int or tuple of int, optional
        Step between windows; `kernel_size` by default.
    padding : int or tuple of int, default 0
        Minus infinity to add on both sides, at most half of `kernel_size`.
    dilation : int or tuple of int, default 1
        Step between the elements of a window.
    ceil_mode : bool, default False
        Round output sizes up, so that a last window may hang over the edge.
    return_indices : bool, default False
        Whether to return positions too, for ``max_unpool1d``.

    Returns
    -------
    Tensor or tuple of Tensor
        ``(N, C, L_out)`` with ``L_out = (L + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``; with
        `return_indices` also the position of each maximum in its row, int64.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 3.0, 9.0, 5.0]])
    >>> adjoint.nn.functional.max_pool1d(x, 2)
    tensor([[3., 9.]])
    >>> adjoint.nn.functional.max_pool1d(x, 2, return_indices=True)[1]
    tensor([[1, 2]])
    """
    if not return_indices and input.array.dtype.kind in "biu":
        raise not_implemented("max_pool1d_impl", input.array)
    return _maximum(1, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool2d(
    input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """Return the maximum of windows of the last two dimensions.

    Parameters
    ----------
    input : Tensor
        ``(N, C, H, W)`` or ``(C, H, W)``.
    kernel_size : int or tuple of int
        Size of the windows.
    stride : int or tuple of int, optional
        Step between windows; `kernel_size` by default.
    padding : int or tuple of int, default 0
        Minus infinity to add on both sides, at most half of `kernel_size`.
    dilation : int or tuple of int, default 1
        Step between the elements of a window.
    ceil_mode : bool, default False
        Round output sizes up, so that a last window may hang over the edge.
    return_indices : bool, default False
        Whether to return positions too, for ``max_unpool2d``.

    Returns
    -------
    Tensor or tuple of Tensor
        ``(N, C, H_out, W_out)`` with, for each dimension,
        ``H_out = (H + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``; with `return_indices`
        also the position of each maximum in its flattened plane, int64.

    Examples
    --------
    >>> x = adjoint.arange(16.0).reshape(1, 4, 4)
    >>> adjoint.nn.functional.max_pool2d(x, 2)
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    >>> adjoint.nn.functional.max_pool2d(x, 2, return_indices=True)[1]
    tensor([[[ 5,  7],
             [13, 15]]])
    """
    return _maximum(2, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool3d(
    input: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0, dilation: Ints = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> Any:  # fmt: skip
    """Return the maximum of windows of the last three dimensions.

    Parameters
    ----------
    input : Tensor
        ``(N, C, D, H, W)`` or ``(C, D, H, W)``.
    kernel_size : int or tuple of int
        Size of the windows.
    stride : int or tuple of int, optional
        Step between windows; `kernel_size` by default.
    padding : int or tuple of int, default 0
        Minus infinity to add on both sides, at most half of `kernel_size`.
    dilation : int or tuple of int, default 1
        Step between the elements of a window.
    ceil_mode : bool, default False
        Round output sizes up, so that a last window may hang over the edge.
    return_indices : bool, default False
        Whether to return positions too, for ``max_unpool3d``.

    Returns
    -------
    Tensor or tuple of Tensor
        ``(N, C, D_out, H_out, W_out)`` with, for each dimension,
        ``D_out = (D + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``; with `return_indices`
        also the position of each maximum in its flattened volume, int64.

    Examples
    --------
    >>> adjoint.nn.functional.max_pool3d(adjoint.arange(16.0).reshape(1, 4, 2, 2), 2)
    tensor([[[[ 7.]],
    <BLANKLINE>
             [[15.]]]])
    """
    return _maximum(3, input, kernel_size, stride, padding, dilation, ceil_mode, return_indices)


def max_pool1d_with_indices(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Take the maximum of windows of the last dimension, and where it is.

    Parameters
    ----------
    input : Tensor
        ``(N, C, L)`` or ``(C, L)``.
    kernel_size : int or tuple of int
        Size of the windows.
    stride : int or tuple of int, optional
        Step between windows; `kernel_size` by default.
    padding : int or tuple of int, default 0
        Minus infinity to add on both sides, at most half of `kernel_size`.
    dilation : int or tuple of int, default 1
        Step between the elements of a window.
    ceil_mode : bool, default False
        Round output sizes up, so that a last window may hang over the edge.
    return_indices : bool, default False
        Ignored: positions are always returned.

    Returns
    -------
    tuple of Tensor
        ``(N, C, L_out)``, as of `max_pool1d`, and the position of each maximum in the flattened input of its channel,
        int64.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 3.0, 9.0, 5.0]])
    >>> adjoint.nn.functional.max_pool1d_with_indices(x, 2)
    (tensor([[3., 9.]]), tensor([[1, 2]]))
    """
    found: tuple[Tensor, Tensor] = _maximum(1, input, kernel_size, stride, padding, dilation, ceil_mode, True)
    return found


def max_pool2d_with_indices(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Take the maximum of windows of the last two dimensions, and where it is.

    Parameters
    ----------
    input : Tensor
        ``(N, C, H, W)`` or ``(C, H, W)``.
    kernel_size : int or tuple of int
        Size of the windows.
    stride : int or tuple of int, optional
        Step between windows; `kernel_size` by default.
    padding : int or tuple of int, default 0
        Minus infinity to add on both sides, at most half of `kernel_size`.
    dilation : int or tuple of int, default 1
        Step between the elements of a window.
    ceil_mode : bool, default False
        Round output sizes up, so that a last window may hang over the edge.
    return_indices : bool, default False
        Ignored: positions are always returned.

    Returns
    -------
    tuple of Tensor
        ``(N, C, H_out, W_out)``, as of `max_pool2d`, and the position of each maximum in the flattened input of its
        channel, int64.

    Examples
    --------
    >>> x = adjoint.arange(16.0).reshape(1, 4, 4)
    >>> adjoint.nn.functional.max_pool2d_with_indices(x, 2)
    (tensor([[[ 5.,  7.],
             [13., 15.]]]), tensor([[[ 5,  7],
             [13, 15]]]))
    """
    found: tuple[Tensor, Tensor] = _maximum(2, input, kernel_size, stride, padding, dilation, ceil_mode, True)
    return found


def max_pool3d_with_indices(
    input: Tensor, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
    ceil_mode: bool = False, return_indices: bool = False,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Take the maximum of windows of the last three dimensions, and where it is.

    Parameters
    ----------
    input : Tensor
        ``(N, C, D, H, W)`` or ``(C, D, H, W)``.
    kernel_size : int or tuple of int
        Size of the windows.
    stride : int or tuple of int, optional
        Step between windows; `kernel_size` by default.
    padding : int or tuple of int, default 0
        Minus infinity to add on both sides, at most half of `kernel_size`.
    dilation : int or tuple of int, default 1
        Step between the elements of a window.
    ceil_mode : bool, default False
        Round output sizes up, so that a last window may hang over the edge.
    return_indices : bool, default False
        Ignored: positions are always returned.

    Returns
    -------
    tuple of Tensor
        ``(N, C, D_out, H_out, W_out)``, as of `max_pool3d`, and the position of each maximum in the flattened input of
        its channel, int64.

    Examples
    --------
    >>> x = adjoint.arange(8.0).reshape(1, 2, 2, 2)
    >>> adjoint.nn.functional.max_pool3d_with_indices(x, 2)
    (tensor([[[[7.]]]]), tensor([[[[7]]]]))
    """
    found: tuple[Tensor, Tensor] = _maximum(3, input, kernel_size, stride, padding, dilation, ceil_mode, True)
    return found


# --- Windows at random ------------------------------------------------------------------------------


def _where_largest_at(x: Array, samples: Value, kernel: Shape, size: Shape) -> Array:
    """Return the indices of the maxima of windows that the random samples place, per channel."""
    xp, rank = module_of(x), len(kernel)
    place = xp.zeros((*x.shape[:-rank], *(1,) * (2 * rank)), np.int64)
    for axis in range(rank):
        n, k, m = x.shape[axis - rank], kernel[axis], size[axis]
        starts = _starts(samples[..., axis if rank == 3 else rank - 1 - axis], n, k, m)
        index = starts[..., None] + xp.arange(k)
        # The result's dimensions, then those within a window.
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = m, k
        place = place * n + index.reshape((*x.shape[:-rank], *shape))
    flat = place.reshape((*x.shape[:-rank], math.prod(size), math.prod(kernel)))
    rows, wide = math.prod(x.shape[:-rank]), math.prod(flat.shape[-2:])
    picked = xp.take_along_axis(x.reshape(rows, math.prod(x.shape[-rank:])), flat.reshape(rows, wide), 1)
    values = picked.reshape(flat.shape)
    best = values.argmax(-1)[..., None]
    return xp.take_along_axis(flat, best, -1).reshape((*x.shape[:-rank], *size))


def _starts(samples: Any, n: int, kernel: int, size: int) -> Array:
    xp = module_of(samples)
    samples = samples[..., None]
    starts = xp.full((*samples.shape[:-1], size), n - kernel, np.int64)
    if size > 1:
        alpha = samples.dtype.type((n - kernel) / (size - 1))
        i = xp.arange(size - 1).astype(samples.dtype)
        starts[..., :-1] = ((i + samples) * alpha).astype(np.int64) - (samples * alpha).astype(np.int64)
    return starts


where_largest_at_p = nary(_where_largest_at, inputs=2, name="where_largest_at", batch="same")


def _fractional(
    rank: int, input: Tensor, kernel_size: Ints, output_size: Any, output_ratio: Any, return_indices: bool,
    samples: Tensor | None,
) -> tuple[Tensor, Tensor] | Tensor:  # fmt: skip
    op = f"fractional_max_pool{rank}d"
    require_tensor(input, "input", op)
    if output_size is None and output_ratio is None:
        raise ValueError(f"{op} requires specifying either an output_size or an output_ratio")
    shape = input.array.shape
    if len(shape) not in (rank + 1, rank + 2) or 0 in shape[-rank - 1 :]:
        raise RuntimeError(f"{op}: Expected {rank + 1}D or {rank + 2}D tensor, but got: {list(shape)}")
    kernel = _per_dimension(kernel_size, rank, "kernel_size", op)
    if output_size is None:
        if not isinstance(output_ratio, int | float | list | tuple):
            raise ValueError(f"{op} requires output_ratio to either be a single Int or tuple of Shape.")
        ratios = (output_ratio,) * rank if isinstance(output_ratio, int | float) else tuple(output_ratio)
        if len(ratios) != rank:
            raise IndexError(f"tuple index out of range: {op} needs {rank} ratios, but output_ratio has {len(ratios)}")
        if any(not 0 < r < 1 for r in ratios):
            raise ValueError(f"{op}: output_ratio must be between 0 and 1, got {output_ratio}")
        size = tuple(int(n * r) for n, r in zip(shape[-rank:], ratios, strict=True))
    else:
        size = _per_dimension(output_size, rank, "output_size", op)
    for n, k, m in zip(shape[-rank:], kernel, size, strict=True):
        if m + k - 1 > n or m < 1 or k < 1:
            raise RuntimeError(f"{op}: pool size {k} too large relative to input size {n} for an output of {m}")
    if samples is None:
        count = 1 if len(shape) == rank + 1 else shape[0]
        samples = random.rand(count, shape[-rank - 1], rank, dtype=of(input.array.dtype), device=input.device)
    if len(shape) == rank + 1 and samples.array.ndim == 3:
        samples = samples[0]
    index = where_largest_at_p(input, samples, kernel, size)
    out = fold(_picked(input, index, rank), f"FractionalMaxPool{rank}DBackward0", input)
    return (out, index) if return_indices else out


@autocasting
def fractional_max_pool2d(
    input: Tensor, kernel_size: Ints, output_size: Ints | Sequence[int | None] | None = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Any = None,
) -> tuple[Tensor, Tensor] | Tensor:  # fmt: skip
    """Take the maxima of windows at places drawn at random, so many that the result has a given size.

    Window i begins at ``floor(alpha * (i + u)) - floor(alpha * u)`` for a random u and ``alpha = (size - kernel_size)
    / (output_size - 1)``, so that sizes shrink by a fraction.

    Parameters
    ----------
    input : Tensor
        ``(N, C, H, W)`` or ``(C, H, W)``.
    kernel_size : int or tuple of int
        Size of the windows.
    output_size : int or tuple of int, optional
        Size of the result.
    output_ratio : float or tuple of float, optional
        Size of the result as a fraction, between 0 and 1, of that of `input`; needed without `output_size`.
    return_indices : bool, default False
        Whether to return positions too.

    Returns
    -------
    Tensor or tuple of Tensor
        ``(N, C, *output_size)``; with `return_indices` also the position of each maximum in the flattened input of its
        channel, int64.

    Raises
    ------
    ValueError
        If both `output_size` and `output_ratio` are missing.
    RuntimeError
        If the windows do not fit.

    Examples
    --------
    >>> x = adjoint.randn(1, 8, 8, 8)
    >>> adjoint.nn.functional.fractional_max_pool2d(x, 2, output_ratio=0.5).shape
    adjoint.Size([1, 8, 4, 4])
    """
    return _fractional(2, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


@autocasting
def fractional_max_pool3d(
    input: Tensor, kernel_size: Ints, output_size: Ints | Sequence[int | None] | None = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Any = None,
) -> tuple[Tensor, Tensor] | Tensor:  # fmt: skip
    """Take the maxima of windows at places drawn at random, so many that the result has a given size.

    Window i begins at ``floor(alpha * (i + u)) - floor(alpha * u)`` for a random u and ``alpha = (size - kernel_size)
    / (output_size - 1)``, so that sizes shrink by a fraction.

    Parameters
    ----------
    input : Tensor
        ``(N, C, D, H, W)`` or ``(C, D, H, W)``.
    kernel_size : int or tuple of int
        Size of the windows.
    output_size : int or tuple of int, optional
        Size of the result.
    output_ratio : float or tuple of float, optional
        Size of the result as a fraction, between 0 and 1, of that of `input`; needed without `output_size`.
    return_indices : bool, default False
        Whether to return positions too.

    Returns
    -------
    Tensor or tuple of Tensor
        ``(N, C, *output_size)``; with `return_indices` also the position of each maximum in the flattened input of its
        channel, int64.

    Raises
    ------
    ValueError
        If both `output_size` and `output_ratio` are missing.
    RuntimeError
        If the windows do not fit.

    Examples
    --------
    >>> x = adjoint.randn(1, 8, 8, 8)
    >>> adjoint.nn.functional.fractional_max_pool3d(x, 2, output_ratio=0.5).shape
    adjoint.Size([1, 4, 4, 4])
    """
    return _fractional(3, input, kernel_size, output_size, output_ratio, return_indices, _random_samples)


def fractional_max_pool2d_with_indices(
    input: Tensor, kernel_size: Ints, output_size: Ints | Sequence[int | None] | None = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Any = None,
) -> tuple[Tensor, Tensor] | Tensor:  # fmt: skip
    """Take the maxima of windows at places drawn at random, and where they are.

    Parameters
    ----------
    input : Tensor
        ``(N, C, H, W)`` or ``(C, H, W)``.
    kernel_size : int or tuple of int
        Size of the windows.
    output_size : int or tuple of int, optional
        Size of the result.
    output_ratio : float or tuple of float, optional
        Size of the result as a fraction, between 0 and 1, of that of `input`; needed without `output_size`.
    return_indices : bool, default False
        Ignored: positions are always returned.

    Returns
    -------
    tuple of Tensor
        The maxima, ``(N, C, *output_size)``, and the position of each in the flattened input of its channel, int64.

    Examples
    --------
    >>> x = adjoint.randn(1, 8, 8, 8)
    >>> out, index = adjoint.nn.functional.fractional_max_pool2d_with_indices(x, 2, output_size=5)
    >>> out.shape, index.dtype
    (adjoint.Size([1, 8, 5, 5]), adjoint.int64)
    """
    return _fractional(2, input, kernel_size, output_size, output_ratio, True, _random_samples)


def fractional_max_pool3d_with_indices(
    input: Tensor, kernel_size: Ints, output_size: Ints | Sequence[int | None] | None = None, output_ratio: Any = None,
    return_indices: bool = False, _random_samples: Any = None,
) -> tuple[Tensor, Tensor] | Tensor:  # fmt: skip
    """Take the maxima of windows at places drawn at random, and where they are.

    Parameters
    ----------
    input : Tensor
        ``(N, C, D, H, W)`` or ``(C, D, H, W)``.
    kernel_size : int or tuple of int
        Size of the windows.
    output_size : int or tuple of int, optional
        Size of the result.
    output_ratio : float or tuple of float, optional
        Size of the result as a fraction, between 0 and 1, of that of `input`; needed without `output_size`.
    return_indices : bool, default False
        Ignored: positions are always returned.

    Returns
    -------
    tuple of Tensor
        The maxima, ``(N, C, *output_size)``, and the position of each in the flattened input of its channel, int64.

    Examples
    --------
    >>> x = adjoint.randn(1, 8, 8, 8)
    >>> out, index = adjoint.nn.functional.fractional_max_pool3d_with_indices(x, 2, output_size=5)
    >>> out.shape, index.dtype
    (adjoint.Size([1, 5, 5, 5]), adjoint.int64)
    """
    return _fractional(3, input, kernel_size, output_size, output_ratio, True, _random_samples)


# --- Back to where maxima came from -----------------------------------------------------------------


def _unpooled_size(rank: int, shape: Shape, kernel: Shape, stride: Shape, padding: Shape, output_size: Any) -> Shape:
    default = tuple((n - 1) * s + k - 2 * p for n, s, k, p in zip(shape[-rank:], stride, kernel, padding, strict=True))
    if output_size is None:
        return default
    wanted = tuple(int(n) for n in output_size)
    if len(wanted) == rank + 2:
        wanted = wanted[2:]
    if len(wanted) != rank:
        raise ValueError(
            f"output_size should be a sequence containing {rank} or {rank + 2} elements, but it has a length of "
            f"'{len(wanted)}'"
        )
    for d, (m, n, s) in enumerate(zip(wanted, default, stride, strict=True)):
        if not n - s < m < n + s:
            raise ValueError(f'invalid output_size "{list(wanted)}" (dim {d} must be between {n - s} and {n + s})')
    return wanted


def _unpool(
    rank: int, input: Tensor, indices: Tensor, kernel_size: Ints, stride: Any, padding: Ints, output_size: Any
) -> Tensor:
    op = f"max_unpool{rank}d"
    require_tensor(input, "input", op)
    require_tensor(indices, "indices", op)
    kernel = _per_dimension(kernel_size, rank, "kernel_size", op)
    stride = _stride_of(stride, kernel, op)
    padding = _per_dimension(padding, rank, "padding", op)
    shape = tuple(input.array.shape)
    if len(shape) < rank:
        raise IndexError(f"tuple index out of range: the input of {op} has {len(shape)} dimensions")
    size = _unpooled_size(rank, shape, kernel, stride, padding, output_size)
    if len(shape) not in (rank + 1, rank + 2):
        raise RuntimeError(f"{op}: Input should be {rank + 1}D or {rank + 2}D, but got {list(shape)}")
    if of(indices.array.dtype).name != "int64":
        raise RuntimeError(f"elements in indices should be type int64 but got: {of(indices.array.dtype).name}")
    if tuple(indices.array.shape) != shape:
        raise RuntimeError(
            f"Expected shape of indices to be same as that of the input tensor ({list(shape)}) but got indices "
            f"tensor with shape: {list(indices.array.shape)}"
        )
    flat = module_of(input.array).zeros((math.prod(shape[:-rank]), math.prod(size)), input.array.dtype)
    out = scatter_p(wrap(literal(flat)), _rows(input, rank), _rows(indices, rank), 1)
    return fold(reshape_p(out, (*shape[:-rank], *size)), f"MaxUnpool{rank}DBackward0", input)


def max_unpool1d(
    input: Tensor, indices: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0,
    output_size: Ints | Sequence[int | None] | None = None,
) -> Tensor:  # fmt: skip
    """Put maxima back where `max_pool1d` found them, zeros elsewhere.

    The inverse of `max_pool1d` but for the elements that were not the maximum of a window. If windows overlap, a
    position may be written twice; which value stays is not defined.

    Parameters
    ----------
    input : Tensor
        Maxima, ``(N, C, L)`` or ``(C, L)``.
    indices : Tensor
        Their positions, as `max_pool1d` returns them with ``return_indices=True``; of the shape of `input`, int64.
    kernel_size : int or tuple of int
        Size of the windows of the pooling.
    stride : int or tuple of int, optional
        Step between its windows; `kernel_size` by default.
    padding : int or tuple of int, default 0
        Its padding.
    output_size : int or tuple of int or None, optional
        Size of the result, which pooling rounds away; with or without the first two dimensions.

    Returns
    -------
    Tensor
        ``(N, C, L_out)`` with, for each dimension, ``L_out = (L - 1) * stride - 2 * padding + kernel_size`` unless
        `output_size` says otherwise.

    Raises
    ------
    ValueError
        If `output_size` differs from the default size by a stride or more.
    RuntimeError
        If `indices` is not int64 or not of the shape of `input`.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 3.0, 9.0, 5.0]])
    >>> top, index = adjoint.nn.functional.max_pool1d(x, 2, return_indices=True)
    >>> adjoint.nn.functional.max_unpool1d(top, index, 2)
    tensor([[0., 3., 9., 0.]])
    """
    return _unpool(1, input, indices, kernel_size, stride, padding, output_size)


@autocasting
def max_unpool2d(
    input: Tensor, indices: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0,
    output_size: Ints | Sequence[int | None] | None = None,
) -> Tensor:  # fmt: skip
    """Put maxima back where `max_pool2d` found them, zeros elsewhere.

    The inverse of `max_pool2d` but for the elements that were not the maximum of a window. If windows overlap, a
    position may be written twice; which value stays is not defined.

    Parameters
    ----------
    input : Tensor
        Maxima, ``(N, C, H, W)`` or ``(C, H, W)``.
    indices : Tensor
        Their positions, as `max_pool2d` returns them with ``return_indices=True``; of the shape of `input`, int64.
    kernel_size : int or tuple of int
        Size of the windows of the pooling.
    stride : int or tuple of int, optional
        Step between its windows; `kernel_size` by default.
    padding : int or tuple of int, default 0
        Its padding.
    output_size : int or tuple of int or None, optional
        Size of the result, which pooling rounds away; with or without the first two dimensions.

    Returns
    -------
    Tensor
        ``(N, C, H_out, W_out)`` with, for each dimension, ``H_out = (H - 1) * stride - 2 * padding + kernel_size``
        unless `output_size` says otherwise.

    Raises
    ------
    ValueError
        If `output_size` differs from the default size by a stride or more.
    RuntimeError
        If `indices` is not int64 or not of the shape of `input`.

    Examples
    --------
    >>> x = adjoint.arange(16.0).reshape(1, 4, 4)
    >>> top, index = adjoint.nn.functional.max_pool2d(x, 2, return_indices=True)
    >>> adjoint.nn.functional.max_unpool2d(top, index, 2)
    tensor([[[ 0.,  0.,  0.,  0.],
             [ 0.,  5.,  0.,  7.],
             [ 0.,  0.,  0.,  0.],
             [ 0., 13.,  0., 15.]]])
    """
    return _unpool(2, input, indices, kernel_size, stride, padding, output_size)


@autocasting
def max_unpool3d(
    input: Tensor, indices: Tensor, kernel_size: Ints, stride: Ints | None = None, padding: Ints = 0,
    output_size: Ints | Sequence[int | None] | None = None,
) -> Tensor:  # fmt: skip
    """Put maxima back where `max_pool3d` found them, zeros elsewhere.

    The inverse of `max_pool3d` but for the elements that were not the maximum of a window. If windows overlap, a
    position may be written twice; which value stays is not defined.

    Parameters
    ----------
    input : Tensor
        Maxima, ``(N, C, D, H, W)`` or ``(C, D, H, W)``.
    indices : Tensor
        Their positions, as `max_pool3d` returns them with ``return_indices=True``; of the shape of `input`, int64.
    kernel_size : int or tuple of int
        Size of the windows of the pooling.
    stride : int or tuple of int, optional
        Step between its windows; `kernel_size` by default.
    padding : int or tuple of int, default 0
        Its padding.
    output_size : int or tuple of int or None, optional
        Size of the result, which pooling rounds away; with or without the first two dimensions.

    Returns
    -------
    Tensor
        ``(N, C, D_out, H_out, W_out)`` with, for each dimension, ``D_out = (D - 1) * stride - 2 * padding +
        kernel_size`` unless `output_size` says otherwise.

    Raises
    ------
    ValueError
        If `output_size` differs from the default size by a stride or more.
    RuntimeError
        If `indices` is not int64 or not of the shape of `input`.

    Examples
    --------
    >>> x = adjoint.arange(8.0).reshape(1, 2, 2, 2)
    >>> top, index = adjoint.nn.functional.max_pool3d(x, 2, return_indices=True)
    >>> adjoint.nn.functional.max_unpool3d(top, index, 2)
    tensor([[[[0., 0.],
              [0., 0.]],
    <BLANKLINE>
             [[0., 0.],
              [0., 7.]]]])
    """
    return _unpool(3, input, indices, kernel_size, stride, padding, output_size)
