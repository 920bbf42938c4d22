"""Convolutions of any rank, forward and transposed, and the windows that they look through.

Three primitives, `conv_p`, `conv_transpose_p` and `conv_weight_p`, are the three derivatives of one trilinear form
``sum(g[n, o, i] * w[o, c, k] * x[n, c, i * stride + k * dilation - before])``, so that each one's gradients are the
other two. They share their parameters: the stride, how far windows begin before the input, the dilation, the groups,
and the size of what is computed. Their definition is to multiply matrices with windows as columns.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .._typing import Array, Inputs, Ints, Params, Shape, Tangents, Tensor, Value
from ..core.device import module_of
from ..core.failures import not_implemented
from ..core.payload import broadcasting
from ..core.recorders import Primitive, nary, parametric
from ..core.tensor import TensorBase
from .arguments import count_of, require_tensor
from .compare import zeros_p
from .contraction import check_dtypes
from .dimensions import permute, permute_p, squeeze_p, unsqueeze_p
from .index import select_p
from .reduce import sum_p
from .shape import expand_p, reshape_p

__all__ = [
    "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "convolution",
]  # fmt: skip

# --- The primitives ---------------------------------------------------------------------------------


def _in_single(*arrays: Array) -> tuple[Array, ...]:
    """Return the arrays in a dtype that matrices are multiplied in: half precision adds in single."""
    if arrays[0].dtype.itemsize == 2 and arrays[0].dtype.kind not in "iu":
        return tuple(a.astype(np.float32) for a in arrays)
    return arrays


def _extents(size: Shape, kernel: Shape, stride: Shape, before: Shape, dilation: Shape, inner: Shape) -> Shape:
    """Return how many positions the windows and the padded input reach over."""
    return tuple(
        max((m - 1) * s + (k - 1) * d + 1, b + n)
        for m, k, s, b, d, n in zip(size, kernel, stride, before, dilation, inner, strict=True)
    )


def _taps(kernel: Shape, stride: Shape, dilation: Shape, size: Shape) -> Iterator[tuple[Any, ...]]:
    """Yield, for each element of the kernel, the index of the positions that it is at, of all windows."""
    for k in itertools.product(*(range(n) for n in kernel)):
        steps = zip(k, stride, dilation, size, strict=True)
        yield (..., *(slice(i * d, i * d + (n - 1) * s + 1, s) for i, s, d, n in steps))


def _columns(x: Array, kernel: Shape, stride: Shape, before: Shape, dilation: Shape, size: Shape) -> Array:
    """Return the windows of x (N, C, ...) as columns (N, C * kernel, size)."""
    xp, padded, inner = module_of(x), x, tuple(x.shape[2:])
    extents = _extents(size, kernel, stride, before, dilation, inner)
    if extents != inner:
        padded = xp.zeros((*x.shape[:2], *extents), x.dtype)
        padded[(..., *(slice(b, b + n) for b, n in zip(before, inner, strict=True)))] = x
    columns: Array = xp.stack([padded[tap] for tap in _taps(kernel, stride, dilation, size)], 2)
    return columns.reshape(len(x), x.shape[1] * math.prod(kernel), math.prod(size))


def _image(
    columns: Array, kernel: Shape, stride: Shape, before: Shape, dilation: Shape, size: Shape, shape: Shape
) -> Array:
    """Return (N, C, *shape) with columns (N, C * kernel, size) added up in their places."""
    channels = columns.shape[1] // math.prod(kernel)
    columns = columns.reshape(len(columns), channels, math.prod(kernel), *size)
    extents = _extents(size, kernel, stride, before, dilation, shape)
    full: Array = module_of(columns).zeros((len(columns), channels, *extents), columns.dtype)
    for k, tap in enumerate(_taps(kernel, stride, dilation, size)):
        full[tap] += columns[:, :, k]
    image: Array = full[(..., *(slice(b, b + n) for b, n in zip(before, shape, strict=True)))]
    return image


def _plus_bias(out: Array, b: Array | None) -> Array:
    return out if b is None else out + b.reshape((-1,) + (1,) * (out.ndim - 2))


def _conv(
    x: Array, w: Array, b: Array | None, stride: Shape, before: Shape, dilation: Shape, groups: int, size: Shape
) -> Array:
    wide, weight = _in_single(x, w)
    columns = _columns(wide, w.shape[2:], stride, before, dilation, size).reshape(
        len(x), groups, math.prod(w.shape[1:]), math.prod(size)
    )
    out = module_of(x).matmul(weight.reshape(groups, len(w) // groups, columns.shape[2]), columns)
    return _plus_bias(out.reshape(len(x), len(w), *size).astype(x.dtype, copy=False), b)


def _conv_transpose(
    x: Array, w: Array, b: Array | None, stride: Shape, before: Shape, dilation: Shape, groups: int, size: Shape
) -> Array:
    wide, weight = _in_single(x, w)
    weight = weight.reshape(groups, len(w) // groups, math.prod(w.shape[1:])).swapaxes(1, 2)
    counts = tuple(x.shape[2:])
    columns = module_of(x).matmul(weight, wide.reshape(len(x), groups, len(w) // groups, math.prod(counts)))
    columns = columns.reshape(len(x), groups * weight.shape[1], math.prod(counts))
    out = _image(columns, w.shape[2:], stride, before, dilation, counts, size)
    return _plus_bias(out.astype(x.dtype, copy=False), b)


def _conv_weight(x: Array, y: Array, stride: Shape, before: Shape, dilation: Shape, groups: int, size: Shape) -> Array:
    wide, g = _in_single(x, y)
    outs, channels, counts = y.shape[1], x.shape[1] // groups, tuple(y.shape[2:])
    columns = _columns(wide, size, stride, before, dilation, counts).reshape(
        len(x), groups, channels * math.prod(size), math.prod(counts)
    )
    parts: Array = module_of(x).matmul(
        g.reshape(len(x), groups, outs // groups, math.prod(counts)), columns.swapaxes(2, 3)
    )
    return parts.sum(axis=0).reshape(outs, channels, *size).astype(x.dtype, copy=False)


def _conv_x(g: Array, w: Array, x_shape: Shape, stride: Shape, before: Shape, dilation: Shape, groups: int) -> Tensor:
    return conv_transpose_p(g, w, None, stride, before, dilation, groups, tuple(x_shape[2:]))


def _conv_w(g: Array, x: Array, w_shape: Shape, stride: Shape, before: Shape, dilation: Shape, groups: int) -> Tensor:
    return conv_weight_p(x, g, stride, before, dilation, groups, tuple(w_shape[2:]))


def _transpose_x(
    g: Array, w: Array, x_shape: Shape, stride: Shape, before: Shape, dilation: Shape, groups: int
) -> Tensor:
    return conv_p(g, w, None, stride, before, dilation, groups, tuple(x_shape[2:]))


def _transpose_w(
    g: Array, x: Array, w_shape: Shape, stride: Shape, before: Shape, dilation: Shape, groups: int
) -> Tensor:
    return conv_weight_p(g, x, stride, before, dilation, groups, tuple(w_shape[2:]))


def _bias(g: Array) -> Tensor:
    return sum_p(g, (0, *range(2, g.ndim)), False)


def _weight_x(g: Array, y: Array, x_shape: Shape, stride: Shape, before: Shape, dilation: Shape, groups: int) -> Tensor:
    return conv_transpose_p(y, g, None, stride, before, dilation, groups, tuple(x_shape[2:]))


def _weight_y(g: Array, x: Array, y_shape: Shape, stride: Shape, before: Shape, dilation: Shape, groups: int) -> Tensor:
    return conv_p(x, g, None, stride, before, dilation, groups, tuple(y_shape[2:]))


def _tangent(primitive: Primitive, tangents: Any, inputs: Any, out: Array, params: Params) -> Value | None:
    (tx, tw, tb), (x, w, _) = tangents, inputs
    total: Value | None = None if tx is None else primitive(tx, w, None, *params)
    if tw is not None:
        part = primitive(x, tw, None, *params)
        total = part if total is None else total + part
    if tb is not None:
        total = (zeros_p(out) if total is None else total) + _along_channels(tb, out.ndim)
    return total


def _conv_tangent(tangents: Tangents, inputs: Inputs, out: Array, params: Params) -> Value | None:
    return _tangent(conv_p, tangents, inputs, out, params)


def _transpose_tangent(tangents: Tangents, inputs: Inputs, out: Array, params: Params) -> Value | None:
    return _tangent(conv_transpose_p, tangents, inputs, out, params)


def _along_channels(b: Array, rank: int) -> Value:
    return reshape_p(b, (*b.shape, *(1,) * (rank - 2)))


def _is_repeated(x: Array) -> bool:
    """Return whether a batched value is one value, for all of the batch.

    Of one that the program repeated and that is recorded, each sample's has a gradient of its own.
    """
    array = x.array if isinstance(x, TensorBase) else x
    if x.shape[0] == 1:
        return True
    recorded = isinstance(x, TensorBase) and x.node is not None
    return not recorded and isinstance(array, np.ndarray) and array.strides[0] == 0


def _in_channels(x: Value) -> Tensor:
    """Return (B, N, C, ...) as (N, B * C, ...)."""
    shape = x.shape
    moved = permute_p(x, (1, 0, *range(2, len(shape))))
    return reshape_p(moved, (shape[1], shape[0] * shape[2], *shape[3:]))


def _from_channels(x: Value, size: int) -> Tensor:
    """Return (N, B * C, ...) as (B, N, C, ...)."""
    shape = x.shape
    split = reshape_p(x, (shape[0], size, shape[1] // size, *shape[2:]))
    return permute_p(split, (1, 0, *range(2, len(shape) + 1)))


def _batch(primitive: Primitive, x: Value, w: Array, b: Array | None, groups: int, *rest: Any) -> Tensor:
    """Fold a batch of convolutions into one: of more samples if the weight is shared, else of more groups."""
    count = max(x.shape[0], w.shape[0], 1 if b is None else b.shape[0])
    *window, size = rest
    if x.shape[0] != count:
        x = expand_p(x, (count, *x.shape[1:]))
    if _is_repeated(w):
        flat = reshape_p(x, (count * x.shape[1], *x.shape[2:]))
        out = primitive(flat, select_p(w, 0, 0), None, *window, groups, size)
        out = reshape_p(out, (count, x.shape[1], *out.shape[1:]))
    else:
        weights = reshape_p(w, (count * w.shape[1], *w.shape[2:]))
        out = _from_channels(primitive(_in_channels(x), weights, None, *window, groups * count, size), count)
    return out if b is None else out + reshape_p(b, (b.shape[0], 1, b.shape[1], *(1,) * len(size)))


@broadcasting
def _conv_batch(
    x: Array, w: Array, b: Array, stride: Shape, before: Shape, dilation: Shape, groups: int, size: Shape
) -> Tensor:
    return _batch(conv_p, x, w, b, groups, stride, before, dilation, size)


@broadcasting
def _transpose_batch(
    x: Array, w: Array, b: Array, stride: Ints, before: Shape, dilation: Ints, groups: int, size: Shape
) -> Value:
    return _batch(conv_transpose_p, x, w, b, groups, stride, before, dilation, size)


def _weight_batch(
    x: Array, y: Array, stride: Shape, before: Shape, dilation: Shape, groups: int, size: Shape
) -> Tensor:
    count = x.shape[0]
    out = conv_weight_p(_in_channels(x), _in_channels(y), stride, before, dilation, groups * count, size)
    return reshape_p(out, (count, out.shape[0] // count, *out.shape[1:]))


_SAVED = {"x": "input", "w": "weight", "b": "bias", "before": "padding"}

conv_p: Primitive = nary(
    _conv,
    inputs=3,
    x=_conv_x,
    w=_conv_w,
    b=_bias,
    jvp=_conv_tangent,
    batch=_conv_batch,
    holomorphic=True,
    accumulates=True,
    node_name="ConvolutionBackward0",
    saved=_SAVED,
)
conv_transpose_p: Primitive = nary(
    _conv_transpose,
    inputs=3,
    x=_transpose_x,
    w=_transpose_w,
    b=_bias,
    jvp=_transpose_tangent,
    batch=_transpose_batch,
    holomorphic=True,
    accumulates=True,
    node_name="ConvolutionBackward0",
    saved=_SAVED,
)
# The kernel that an input and the gradient of the result call for.
conv_weight_p: Primitive = nary(
    _conv_weight,
    inputs=2,
    x=_weight_x,
    y=_weight_y,
    jvp="bilinear",
    batch=_weight_batch,
    holomorphic=True,
    accumulates=True,
    node_name="ConvolutionBackwardBackward0",
)

# --- Arguments --------------------------------------------------------------------------------------


def ints_of(value: Any, count: int, name: str, op: str) -> Shape:
    """Return one int per spatial dimension, from an int or a sequence of one or of `count`."""
    if isinstance(value, int) and not isinstance(value, bool):
        return (count_of(value, name),) * count
    try:
        values = tuple(count_of(v, name) for v in value)
    except TypeError:
        raise TypeError(
            f"{op}(): argument '{name}' must be tuple of ints or an int, not {type(value).__name__} {value!r}"
        ) from None
    if len(values) == 1:
        return values * count
    if len(values) != count:
        raise RuntimeError(
            f"expected {name} to be a single integer value or a list of {count} values to match the convolution "
            f"dimensions, but got {name}={list(values)}"
        )
    return values


def _check_types(x: Array, weight: Value, bias: Any) -> None:
    if x.dtype.kind == "b":
        raise not_implemented("convolution", x)
    sentence = "Input type ({}) and %s type ({}) should be the same"
    check_dtypes(x, weight, sentence % "weight")
    if bias is not None:
        check_dtypes(x, bias, sentence % "bias")


def _check(
    op: str, x: Shape, weight: Shape, bias: Any, stride: Shape, padding: Shape, dilation: Shape, groups: int,
    transposed: bool, output_padding: Shape,
) -> None:  # fmt: skip
    """Raise torch's error for shapes and arguments that do not belong together; `x` has a batch dimension."""
    rank = len(weight)
    if groups <= 0:
        raise RuntimeError(f"non-positive groups is not supported: {op} got groups={groups}")
    if rank < 3:
        raise RuntimeError(f"weight should have at least three dimensions, but {op} got {list(weight)}")
    if 0 in weight[2:]:
        raise RuntimeError(f"kernel size should be greater than zero, but {op} got weight {list(weight)}")
    if any(p < 0 for p in padding):
        raise RuntimeError(f"negative padding is not supported: {op} got padding={list(padding)}")
    if any(p < 0 for p in output_padding):
        raise RuntimeError(f"negative output_padding is not supported: {op} got {list(output_padding)}")
    if any(s <= 0 for s in stride):
        raise RuntimeError(f"non-positive stride is not supported: {op} got stride={list(stride)}")
    if any(d <= 0 for d in dilation):
        raise RuntimeError(f"dilation should be greater than zero: {op} got dilation={list(dilation)}")
    if rank != len(x):
        raise RuntimeError(
            f"Expected {rank}-dimensional input for {rank}-dimensional weight {list(weight)}, but got "
            f"{len(x)}-dimensional input of size {list(x)} instead"
        )
    if weight[0] < groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be at least {groups} at dimension 0, but got weight of size "
            f"{list(weight)} instead"
        )
    if weight[0] % groups:
        raise RuntimeError(
            f"Given groups={groups}, expected weight to be divisible by {groups} at dimension 0, but got weight of "
            f"size {list(weight)} instead"
        )
    channels = weight[0] if transposed else weight[1] * groups
    if x[1] != channels:
        raise RuntimeError(
            f"Given {'transposed=1' if transposed else f'groups={groups}'}, weight of size {list(weight)}, "
            f"expected input{list(x)} to have {channels} channels, but got {x[1]} channels instead"
        )
    outs = weight[1] * groups if transposed else weight[0]
    if bias is not None and bias != (outs,):
        raise RuntimeError(
            f"Given {'transposed=1' if transposed else f'groups={groups}'}, weight of size {list(weight)}, "
            f"expected bias to be 1-dimensional with {outs} elements, but got bias of size {list(bias)} instead"
        )


def _check_reach(x: Shape, weight: Shape, padding: Shape, dilation: Shape) -> None:
    sizes = [n + 2 * p for n, p in zip(x[2:], padding, strict=True)]
    reaches = [d * (k - 1) + 1 for k, d in zip(weight[2:], dilation, strict=True)]
    if any(n < r for n, r in zip(sizes, reaches, strict=True)):
        raise RuntimeError(
            f"Calculated padded input size per channel: ({' x '.join(map(str, sizes))}). Kernel size: "
            f"({' x '.join(map(str, reaches))}). Kernel size can't be greater than actual input size"
        )


def _same(op: str, weight: Shape, stride: Shape, padding: str, dilation: Shape) -> tuple[Shape, Shape]:
    """Return the padding before and in total for a padding given by name."""
    if padding == "valid":
        return (0,) * len(dilation), (0,) * len(dilation)
    if padding != "same":
        raise RuntimeError(f"Invalid padding string: '{padding}'; {op} knows 'same' and 'valid'")
    if any(s != 1 for s in stride):
        raise RuntimeError("padding='same' is not supported for strided convolutions")
    total = tuple(d * (k - 1) for k, d in zip(weight[2:], dilation, strict=True))
    return tuple(t // 2 for t in total), total


def _hashable(value: object) -> object:
    return tuple(value) if isinstance(value, list) else value


def _prepared(op: str, rank: int, input: Tensor, weight: Tensor, bias: Any) -> tuple[Tensor, bool]:
    """Return the input with a batch dimension, and whether it had none; raise for what is no operand."""
    require_tensor(input, "input", op)
    require_tensor(weight, "weight", op)
    x = input.array
    _check_types(x, weight.array, None if bias is None else bias.array)
    if x.ndim == rank + 2:
        return input, False
    if x.ndim == rank + 1:
        return unsqueeze_p(input, 0), True
    raise RuntimeError(
        f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to {op}, but got input of size: "
        f"{list(x.shape)}"
    )


@functools.lru_cache(4096, typed=True)
def _geometry(
    op: str, rank: int, x: Shape, w: Shape, b: Array, stride: Ints, padding: Any, dilation: Ints, groups: int
) -> tuple[Shape, Shape, Shape, Shape]:
    """Return the stride, where windows begin, the dilation and the size of the result."""
    stride = ints_of(stride, rank, "stride", op)
    dilation = ints_of(dilation, rank, "dilation", op)
    words = isinstance(padding, str)
    before = (0,) * rank if words else ints_of(padding, rank, "padding", op)
    _check(op, x, w, b, stride, before, dilation, groups, False, ())
    if words:
        before, total = _same(op, w, stride, padding, dilation)
    else:
        total = tuple(2 * p for p in before)
        _check_reach(x, w, before, dilation)
    size = tuple(
        (n + t - d * (k - 1) - 1) // s + 1 for n, t, d, k, s in zip(x[2:], total, dilation, w[2:], stride, strict=True)
    )
    return stride, before, dilation, size


def _convolved(
    op: str, rank: int, input: Tensor, weight: Tensor, bias: Any, stride: Ints, padding: Ints | str, dilation: Ints,
    groups: int,
) -> Tensor:  # fmt: skip
    input, single = _prepared(op, rank, input, weight, bias)
    stride, before, dilation, size = _geometry(
        op, rank, tuple(input.array.shape), tuple(weight.array.shape),
        None if bias is None else tuple(bias.array.shape),
        _hashable(stride), _hashable(padding), _hashable(dilation), groups,
    )  # fmt: skip
    out = conv_p(input, weight, bias, stride, before, dilation, groups, size)
    return squeeze_p(out, (0,)) if single else out


def conv1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Ints = 1, padding: Ints | str = 0,
    dilation: Ints = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Slide kernels along sequences.

    Without padding, ``out[n, o, i]`` is the sum over c and k of
    ``weight[o, c, k] * input[n, c, stride * i + dilation * k]``: the kernel is not flipped.

    Parameters
    ----------
    input : Tensor
        ``(N, C, L)`` or ``(C, L)``.
    weight : Tensor
        Kernels, ``(O, C / groups, K)``, of the same dtype.
    bias : Tensor, optional
        What to add to each output channel, ``(O,)``.
    stride : int, default 1
        Step of the kernels.
    padding : int or {"same", "valid"}, default 0
        Zeros to add on both sides. ``"valid"`` is 0; ``"same"`` leaves the size as it is, for a stride of 1.
    dilation : int, default 1
        Step between the elements of a kernel.
    groups : int, default 1
        Into how many groups channels are split: each group of O / groups kernels sees C / groups channels.

    Returns
    -------
    Tensor
        ``(N, O, L_out)`` with ``L_out = (L + 2 * padding - dilation * (K - 1) - 1) // stride + 1``.

    Raises
    ------
    RuntimeError
        If shapes or dtypes do not fit, or a kernel is larger than the padded input.

    Examples
    --------
    >>> x, edge = adjoint.tensor([[[1.0, 2.0, 4.0, 8.0]]]), adjoint.tensor([[[-1.0, 1.0]]])
    >>> adjoint.nn.functional.conv1d(x, edge)
    tensor([[[1., 2., 4.]]])
    >>> adjoint.nn.functional.conv1d(x, edge, stride=2)
    tensor([[[1., 4.]]])
    """
    return _convolved("conv1d", 1, input, weight, bias, stride, padding, dilation, groups)


def conv2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Ints = 1, padding: Ints | str = 0,
    dilation: Ints = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Slide kernels over images.

    With a stride and dilation of 1 and no padding, ``out[n, o, i, j]`` is the sum over c, k and l of
    ``weight[o, c, k, l] * input[n, c, i + k, j + l]``: the kernel is not flipped.

    Parameters
    ----------
    input : Tensor
        ``(N, C, H, W)`` or ``(C, H, W)``.
    weight : Tensor
        Kernels, ``(O, C / groups, KH, KW)``, of the same dtype.
    bias : Tensor, optional
        What to add to each output channel, ``(O,)``.
    stride : int or tuple of int, default 1
        Step of the kernels.
    padding : int, tuple of int or {"same", "valid"}, default 0
        Zeros to add on both sides. ``"valid"`` is 0; ``"same"`` leaves the size as it is, for a stride of 1.
    dilation : int or tuple of int, default 1
        Step between the elements of a kernel.
    groups : int, default 1
        Into how many groups channels are split: each group of O / groups kernels sees C / groups channels.

    Returns
    -------
    Tensor
        ``(N, O, H_out, W_out)`` with, for each dimension,
        ``H_out = (H + 2 * padding - dilation * (KH - 1) - 1) // stride + 1``.

    Raises
    ------
    RuntimeError
        If shapes or dtypes do not fit, or a kernel is larger than the padded input.

    Examples
    --------
    >>> adjoint.nn.functional.conv2d(adjoint.ones(1, 1, 3, 3), adjoint.ones(1, 1, 3, 3), padding="same")
    tensor([[[[4., 6., 4.],
              [6., 9., 6.],
              [4., 6., 4.]]]])
    >>> adjoint.nn.functional.conv2d(adjoint.ones(8, 3, 32, 32), adjoint.ones(16, 3, 5, 5), stride=2, padding=2).shape
    adjoint.Size([8, 16, 16, 16])
    """
    return _convolved("conv2d", 2, input, weight, bias, stride, padding, dilation, groups)


def conv3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Ints = 1, padding: Ints | str = 0,
    dilation: Ints = 1, groups: int = 1,
) -> Tensor:  # fmt: skip
    """Slide kernels through volumes; `conv2d` has the formula.

    Parameters
    ----------
    input : Tensor
        ``(N, C, D, H, W)`` or ``(C, D, H, W)``.
    weight : Tensor
        Kernels, ``(O, C / groups, KD, KH, KW)``, of the same dtype.
    bias : Tensor, optional
        What to add to each output channel, ``(O,)``.
    stride : int or tuple of int, default 1
        Step of the kernels.
    padding : int, tuple of int or {"same", "valid"}, default 0
        Zeros to add on both sides. ``"valid"`` is 0; ``"same"`` leaves the size as it is, for a stride of 1.
    dilation : int or tuple of int, default 1
        Step between the elements of a kernel.
    groups : int, default 1
        Into how many groups channels are split: each group of O / groups kernels sees C / groups channels.

    Returns
    -------
    Tensor
        ``(N, O, D_out, H_out, W_out)`` with, for each dimension,
        ``D_out = (D + 2 * padding - dilation * (KD - 1) - 1) // stride + 1``.

    Raises
    ------
    RuntimeError
        If shapes or dtypes do not fit, or a kernel is larger than the padded input.

    Examples
    --------
    >>> adjoint.nn.functional.conv3d(adjoint.ones(1, 1, 2, 2, 3), adjoint.ones(1, 1, 2, 2, 2))
    tensor([[[[[8., 8.]]]]])
    >>> adjoint.nn.functional.conv3d(adjoint.ones(2, 3, 8, 8, 8), adjoint.ones(4, 3, 3, 3, 3), padding=1).shape
    adjoint.Size([2, 4, 8, 8, 8])
    """
    return _convolved("conv3d", 3, input, weight, bias, stride, padding, dilation, groups)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """Convolve along the first dimension, with channels last.

    Parameters
    ----------
    input : Tensor
        ``(T, B, C)``: time, batch, channels.
    weight : Tensor
        Kernels, ``(K, C, O)``.
    bias : Tensor
        Added to each output channel, ``(O,)``.
    pad : int, default 0
        Zeros to add on both sides of the first dimension.

    Returns
    -------
    Tensor
        ``(T + 2 * pad - K + 1, B, O)``.

    Examples
    --------
    >>> x, weight = adjoint.arange(3.0).reshape(3, 1, 1), adjoint.ones(2, 1, 1)
    >>> adjoint.nn.functional.conv_tbc(x, weight, adjoint.zeros(1)).flatten()
    tensor([1., 3.])
    """
    if input.array.ndim != 3:
        raise RuntimeError("Input must have 3 dims: time, batch, in_channel")
    if weight.array.ndim != 3:
        raise RuntimeError("Weight tensor must have 3 dims: kernel_width, in_channels, out_channels.")
    out = conv1d(permute(input, 1, 2, 0), permute(weight, 2, 1, 0), bias, padding=pad)
    return permute(out, 2, 0, 1)


@functools.lru_cache(4096, typed=True)
def _transposed_geometry(
    op: str, rank: int, x: Shape, w: Shape, b: Array, stride: Ints, padding: Ints | str, output_padding: Ints,
    groups: int, dilation: Ints,
) -> tuple[Shape, Shape, Shape, Shape]:  # fmt: skip
    stride, padding = ints_of(stride, rank, "stride", op), ints_of(padding, rank, "padding", op)
    dilation = ints_of(dilation, rank, "dilation", op)
    extra = ints_of(output_padding, rank, "output_padding", op)
    _check(op, x, w, b, stride, padding, dilation, groups, True, extra)
    if any(e >= s and e >= d for e, s, d in zip(extra, stride, dilation, strict=True)):
        raise RuntimeError(
            f"output padding must be smaller than either stride or dilation, but {op} got output_padding="
            f"{list(extra)}, stride={list(stride)}, dilation={list(dilation)}"
        )
    size = tuple(
        (n - 1) * s - 2 * p + d * (k - 1) + e + 1
        for n, s, p, d, k, e in zip(x[2:], stride, padding, dilation, w[2:], extra, strict=True)
    )
    if any(n <= 0 for n in size):
        raise RuntimeError(
            f"Given input size per channel: {list(x[2:])}. Calculated output size per channel: {list(size)}. "
            "Output size is too small"
        )
    return stride, padding, dilation, size


def _transposed(
    op: str, rank: int, input: Tensor, weight: Tensor, bias: Any, stride: Ints, padding: Ints | str,
    output_padding: Ints, groups: int, dilation: Ints,
) -> Tensor:  # fmt: skip
    input, single = _prepared(op, rank, input, weight, bias)
    stride, before, dilation, size = _transposed_geometry(
        op, rank, tuple(input.array.shape), tuple(weight.array.shape),
        None if bias is None else tuple(bias.array.shape),
        _hashable(stride), _hashable(padding), _hashable(output_padding), groups, _hashable(dilation),
    )  # fmt: skip
    out = conv_transpose_p(input, weight, bias, stride, before, dilation, groups, size)
    return squeeze_p(out, (0,)) if single else out


def conv_transpose1d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Ints = 1, padding: Ints | str = 0,
    output_padding: Ints = 0, groups: int = 1, dilation: Ints = 1,
) -> Tensor:  # fmt: skip
    """Convolve transposed: the gradient of `conv1d` with respect to its input.

    Each element of `input` adds the kernel `weight`, scaled by it, to the result, `stride` positions apart.

    Parameters
    ----------
    input : Tensor
        ``(N, C, L)`` or ``(C, L)``.
    weight : Tensor
        Kernels, ``(C, O / groups, K)``.
    bias : Tensor, optional
        Added to each output channel, ``(O,)``.
    stride : int or tuple of int, default 1
        Step in the result between elements of `input`.
    padding : int or tuple of int, default 0
        Positions to cut from both sides of the result.
    output_padding : int or tuple of int, default 0
        Positions to add at the end of each dimension, less than `stride` or `dilation`.
    groups : int, default 1
        Number of groups that the channels are split into; each is convolved on its own.
    dilation : int or tuple of int, default 1
        Step in the result between elements of the kernel.

    Returns
    -------
    Tensor
        ``(N, O, L_out)`` with ``L_out = (L - 1) * stride - 2 * padding + dilation * (K - 1) + output_padding + 1``.

    Raises
    ------
    RuntimeError
        If the shapes do not fit, or `output_padding` is not less than `stride` or `dilation`.

    Examples
    --------
    >>> x, bump = adjoint.tensor([[[1.0, 2.0]]]), adjoint.tensor([[[1.0, 10.0]]])
    >>> adjoint.nn.functional.conv_transpose1d(x, bump, stride=2)
    tensor([[[ 1., 10.,  2., 20.]]])
    >>> adjoint.nn.functional.conv_transpose1d(x, bump)
    tensor([[[ 1., 12., 20.]]])
    """
    return _transposed("conv_transpose1d", 1, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose2d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Ints = 1, padding: Ints | str = 0,
    output_padding: Ints = 0, groups: int = 1, dilation: Ints = 1,
) -> Tensor:  # fmt: skip
    """Convolve transposed: the gradient of `conv2d` with respect to its input.

    Each element of `input` adds the kernel `weight`, scaled by it, to the result, `stride` positions apart.

    Parameters
    ----------
    input : Tensor
        ``(N, C, H, W)`` or ``(C, H, W)``.
    weight : Tensor
        Kernels, ``(C, O / groups, KH, KW)``.
    bias : Tensor, optional
        Added to each output channel, ``(O,)``.
    stride : int or tuple of int, default 1
        Step in the result between elements of `input`.
    padding : int or tuple of int, default 0
        Positions to cut from both sides of the result.
    output_padding : int or tuple of int, default 0
        Positions to add at the end of each dimension, less than `stride` or `dilation`.
    groups : int, default 1
        Number of groups that the channels are split into; each is convolved on its own.
    dilation : int or tuple of int, default 1
        Step in the result between elements of the kernel.

    Returns
    -------
    Tensor
        ``(N, O, H_out, W_out)`` with for each dimension, ``H_out = (H - 1) * stride - 2 * padding + dilation * (K - 1)
        + output_padding + 1``.

    Raises
    ------
    RuntimeError
        If the shapes do not fit, or `output_padding` is not less than `stride` or `dilation`.

    Examples
    --------
    >>> x, weight = adjoint.tensor([[[[1.0, 2.0]]]]), adjoint.ones(1, 1, 2, 2)
    >>> adjoint.nn.functional.conv_transpose2d(x, weight)
    tensor([[[[1., 3., 2.],
              [1., 3., 2.]]]])
    >>> x, weight = adjoint.ones(1, 4, 8, 8), adjoint.ones(4, 2, 3, 3)
    >>> adjoint.nn.functional.conv_transpose2d(x, weight, stride=2, padding=1, output_padding=1).shape
    adjoint.Size([1, 2, 16, 16])
    """
    return _transposed("conv_transpose2d", 2, input, weight, bias, stride, padding, output_padding, groups, dilation)


def conv_transpose3d(
    input: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Ints = 1, padding: Ints | str = 0,
    output_padding: Ints = 0, groups: int = 1, dilation: Ints = 1,
) -> Tensor:  # fmt: skip
    """Convolve transposed: the gradient of `conv3d` with respect to its input.

    Each element of `input` adds the kernel `weight`, scaled by it, to the result, `stride` positions apart.

    Parameters
    ----------
    input : Tensor
        ``(N, C, D, H, W)`` or ``(C, D, H, W)``.
    weight : Tensor
        Kernels, ``(C, O / groups, KD, KH, KW)``.
    bias : Tensor, optional
        Added to each output channel, ``(O,)``.
    stride : int or tuple of int, default 1
        Step in the result between elements of `input`.
    padding : int or tuple of int, default 0
        Positions to cut from both sides of the result.
    output_padding : int or tuple of int, default 0
        Positions to add at the end of each dimension, less than `stride` or `dilation`.
    groups : int, default 1
        Number of groups that the channels are split into; each is convolved on its own.
    dilation : int or tuple of int, default 1
        Step in the result between elements of the kernel.

    Returns
    -------
    Tensor
        ``(N, O, D_out, H_out, W_out)`` with for each dimension, ``D_out = (D - 1) * stride - 2 * padding + dilation *
        (K - 1) + output_padding + 1``.

    Raises
    ------
    RuntimeError
        If the shapes do not fit, or `output_padding` is not less than `stride` or `dilation`.

    Examples
    --------
    >>> x, weight = adjoint.ones(1, 4, 5, 5, 5), adjoint.ones(4, 2, 3, 3, 3)
    >>> adjoint.nn.functional.conv_transpose3d(x, weight, stride=2).shape
    adjoint.Size([1, 2, 11, 11, 11])
    """
    return _transposed("conv_transpose3d", 3, input, weight, bias, stride, padding, output_padding, groups, dilation)


def convolution(
    input: Tensor, weight: Tensor, bias: Tensor | None, stride: Ints, padding: Ints | str, dilation: Ints,
    transposed: bool, output_padding: Ints, groups: int,
) -> Tensor:  # fmt: skip
    """Convolve, forward or transposed, in as many dimensions as `weight` has."""
    rank = weight.array.ndim - 2
    if transposed:
        return _transposed("convolution", rank, input, weight, bias, stride, padding, output_padding, groups, dilation)
    return _convolved("convolution", rank, input, weight, bias, stride, padding, dilation, groups)


# --- Windows as columns -----------------------------------------------------------------------------


def _im2col(x: Array, kernel: Shape, stride: Shape, before: Shape, dilation: Shape, size: Shape) -> Array:
    columns = _columns(x.reshape(-1, *x.shape[-3:]), kernel, stride, before, dilation, size)
    return columns.reshape(*x.shape[:-3], *columns.shape[1:])


def _col2im(x: Array, kernel: Shape, stride: Shape, before: Shape, dilation: Shape, size: Shape, shape: Shape) -> Array:
    image = _image(x.reshape(-1, *x.shape[-2:]), kernel, stride, before, dilation, size, shape)
    dense: Array = module_of(x).ascontiguousarray(image)
    return dense.reshape(*x.shape[:-2], *image.shape[1:])


def _im2col_x(
    g: Array, x_shape: Shape, kernel: Shape, stride: Shape, before: Shape, dilation: Shape, size: Shape
) -> Tensor:
    return col2im_p(g, kernel, stride, before, dilation, size, tuple(x_shape[-2:]))


def _col2im_x(g: Array, kernel: Shape, stride: Shape, before: Shape, dilation: Shape, size: Shape) -> Tensor:
    return im2col_p(g, kernel, stride, before, dilation, size)


# Any number of dimensions may stand before (C, H, W), and before (C * kernel, size).
im2col_p = parametric(_im2col, x=_im2col_x, jvp="linear", batch="same", node_name="Im2ColBackward0")
col2im_p = parametric(_col2im, x=_col2im_x, jvp="linear", batch="same", node_name="Col2ImBackward0")


def _window_arguments(op: str, kernel_size: Ints, dilation: Ints, padding: Ints | str, stride: Ints) -> list[Shape]:
    values = []
    for name, value, least in (
        ("kernel_size", kernel_size, 1), ("dilation", dilation, 1), ("padding", padding, 0), ("stride", stride, 1),
    ):  # fmt: skip
        pair = ints_of(value, 2, name, op)
        if min(pair) < least:
            word = "greater than zero" if least else "non-negative"
            raise RuntimeError(f"{name.partition('_')[0]} should be {word}, but {op} got {name}={list(pair)}")
        values.append(pair)
    return values


def _counts(shape: Shape, kernel: Shape, dilation: Shape, padding: Shape, stride: Shape) -> Shape:
    return tuple(
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, d, p, s in zip(shape, kernel, dilation, padding, stride, strict=True)
    )


def unfold(input: Tensor, kernel_size: Ints, dilation: Ints = 1, padding: Ints | str = 0, stride: Ints = 1) -> Tensor:
    """Return the windows of images as columns: the input of a convolution as a matrix.

    ``weight.flatten(1) @ unfold(input, ...)`` is a convolution; `fold` is the transpose of this function.

    Parameters
    ----------
    input : Tensor
        ``(N, C, H, W)`` or ``(C, H, W)``.
    kernel_size : int or tuple of int
        Size of the windows.
    dilation : int or tuple of int, default 1
        Step between the elements of a window.
    padding : int or tuple of int, default 0
        Zeros to add on both sides.
    stride : int or tuple of int, default 1
        Step between windows.

    Returns
    -------
    Tensor
        ``(N, C * KH * KW, L)`` for L windows, L being the product of H_out and W_out as in `conv2d`.

    Examples
    --------
    >>> x = adjoint.arange(9.0).reshape(1, 1, 3, 3)
    >>> adjoint.nn.functional.unfold(x, 2)
    tensor([[[0., 1., 3., 4.],
             [1., 2., 4., 5.],
             [3., 4., 6., 7.],
             [4., 5., 7., 8.]]])
    """
    require_tensor(input, "input", "unfold")
    kernel, dilation, padding, stride = _window_arguments("unfold", kernel_size, dilation, padding, stride)
    shape = input.array.shape
    if len(shape) not in (3, 4) or 0 in shape[-3:]:
        raise RuntimeError(
            "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for input, "
            f"but got: {list(shape)}"
        )
    size = _counts(shape[-2:], kernel, dilation, padding, stride)
    if min(size) < 1:
        raise RuntimeError(
            f"Given input with spatial size {tuple(shape[-2:])}, kernel_size={kernel}, dilation={dilation}, "
            f"padding={padding}, calculated shape of the array of sliding blocks as {size}, but its components must "
            "be at least one."
        )
    if input.array.dtype.kind in "iu":
        raise not_implemented("im2col", input.array)
    return im2col_p(input, kernel, stride, padding, dilation, size)


def fold(
    input: Tensor, output_size: Ints | Sequence[int | None], kernel_size: Ints, dilation: Ints = 1,
    padding: Ints | str = 0, stride: Ints = 1,
) -> Tensor:  # fmt: skip
    """Add up columns of windows to images: the gradient of `unfold`.

    Parameters
    ----------
    input : Tensor
        Columns, ``(N, C * KH * KW, L)``, or without N.
    output_size : int or tuple of int
        Height and width of the images.
    kernel_size : int or tuple of int
        Size of the windows.
    dilation : int or tuple of int, default 1
        Step between the elements of a window.
    padding : int or tuple of int, default 0
        Positions on both sides of the images that the windows had and the result does not.
    stride : int or tuple of int, default 1
        Step between windows.

    Returns
    -------
    Tensor
        ``(N, C, *output_size)``; where windows overlap, their elements are added.

    Raises
    ------
    RuntimeError
        If the number of columns or their length does not fit the other arguments.

    Examples
    --------
    >>> fold = adjoint.nn.functional.fold
    >>> fold(adjoint.ones(1, 4, 4), (3, 3), 2)
    tensor([[[[1., 2., 1.],
              [2., 4., 2.],
              [1., 2., 1.]]]])
    """
    require_tensor(input, "input", "fold")
    kernel, dilation, padding, stride = _window_arguments("fold", kernel_size, dilation, padding, stride)
    shape = input.array.shape
    image = ints_of(output_size, 2, "output_size", "fold")
    if len(shape) not in (2, 3) or 0 in shape[-2:]:
        raise RuntimeError(
            "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions for "
            f"input, but got: {list(shape)}"
        )
    area = kernel[0] * kernel[1]
    if shape[-2] % area:
        raise RuntimeError(
            "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got "
            f"input.size(1)={shape[-2]} and kernel_size={kernel}."
        )
    size = _counts(image, kernel, dilation, padding, stride)
    if min(size) < 1 or shape[-1] != size[0] * size[1]:
        raise RuntimeError(
            f"Given output_size={image}, kernel_size={kernel}, dilation={dilation}, padding={padding}, "
            f"stride={stride}, expected size of input's dimension 2 to match the calculated number of sliding blocks "
            f"{size[0]} * {size[1]} = {size[0] * size[1]}, but got input.size(2)={shape[-1]}."
        )
    return col2im_p(input, kernel, stride, padding, dilation, size, image)
