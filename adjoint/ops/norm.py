"""Normalization: a tensor brought to mean 0 and variance 1 along some axes, then scaled and shifted.

Layer, batch, group and instance norm are one statement over different axes, and RMS norm another; kernels are printed
from these. A node saves the input, the weight, and one mean and one inverse deviation per normalized row.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._typing import Array, Axes, Dims, DType, Ints, Shape, Tensor, Value
from ..core import modes
from ..core.dtypes import finfo, of
from ..core.failures import not_implemented
from ..core.folding import Unfolded, fold, reveal
from ..core.nodes import Node, Special, wrap
from ..core.observation import observer
from ..core.payload import Payload, payload_of
from ..core.recorders import elementwise, revealed
from ..core.tensor import TensorBase, note_write
from ..core.views import edge_of, has_history
from .arguments import either
from .create import into
from .elementwise import add_p, div_p, mul_p, sub_p
from .measure import vector_norm
from .piecewise import clamp_min
from .precision import autocasting
from .reduce import count_of, is_half, mean_p, shifted, title_of
from .rows import Row, rowwise
from .shape import cast_p, expand_as, reshape_p

f32 = np.dtype("float32")


def _norm(row: Row, x: Array, weight: Array | None, bias: Array | None, eps: float) -> tuple[Array, ...]:
    # The differences from an element are exact where numbers are nearly equal; their mean would be rounded away.
    first = row.first(x)
    away = x - first
    level = row.mean(away)
    away = away - level
    var = row.mean(away * away)
    rstd = 1 / np.sqrt(var + eps)
    out = away * rstd
    if weight is not None:
        out = out * weight
    return out if bias is None else out + bias, first + level, var, rstd


def _norm_backward(
    row: Row, g: Array, x: Array, weight: Array | None, mean: Array, rstd: Array
) -> tuple[Array, Array, Array]:
    standard = (x - mean) * rstd
    part = g if weight is None else g * weight
    gx = rstd * (part - row.mean(part) - standard * row.mean(part * standard))
    return gx, row.across(g * standard), row.across(g)


def _rms_norm(row: Row, x: Array, weight: Array | None, eps: float) -> tuple[Array, Array]:
    rstd = 1 / np.sqrt(row.mean(x * x) + eps)
    return x * rstd if weight is None else x * rstd * weight, rstd


def _rms_norm_backward(row: Row, g: Array, x: Array, weight: Array | None, rstd: Array) -> tuple[Array, Array]:
    standard = x * rstd
    part = g if weight is None else g * weight
    return rstd * (part - standard * row.mean(part * standard)), row.across(g * standard)


def _norm_batch(x: Value, weight: Value | None, bias: Value | None, axes: Axes, shape: Shape, eps: float) -> Value:
    weight, bias = (_in_batch(x, v, shape) for v in (weight, bias))
    return layer_norm_p(x, weight, bias, shifted(axes), _full(x, shape), eps)


def _rms_norm_batch(x: Value, weight: Value, axes: Axes, shape: Shape, eps: float) -> Value:
    return rms_norm_p(x, _in_batch(x, weight, shape), shifted(axes), _full(x, shape), eps)


def _full(x: Value, shape: Shape) -> Any:
    """Return the shape of weights, one for each element of a batch of `x`."""
    return (x.shape[0], *(1,) * (x.ndim - 1 - len(shape)), *shape)


def _in_batch(x: Value, weight: Value | None, shape: Shape) -> Value | None:
    return None if weight is None else reshape_p(weight, _full(x, shape))


def _run_per_channel(node: Any, g: Value, edges: tuple[Any, ...], saved: Any) -> tuple[Any, ...]:
    shadow = node.extra.shadow
    gx, *rest = shadow.op.run(shadow, g, edges, saved)
    return (gx, *(None if r is None else r.reshape((-1,)) for r in rest))


_per_channel = Special("NativeBatchNormBackward0", _run_per_channel, Unfolded)


def _unfold_batch_norm(node: Node) -> None:
    """Show the parameters themselves, which are reshaped here before they are multiplied by."""
    x, *rest = node.edges
    if any(e is not None and e.op is reshape_p.op for e in rest):
        reveal(node, _per_channel, (x, *(e.edges[0] if e is not None and e.op is reshape_p.op else e for e in rest)))


_norm_primitive = functools.partial(
    rowwise, value=_norm, joint=_norm_backward, over="axes shape", weights="weight bias", numbers="eps",
    hidden=("mean", "var", "rstd"), batch=_norm_batch, saved={"x": "input"},
)  # fmt: skip
layer_norm_p = _norm_primitive("layer_norm", node_name="NativeLayerNormBackward0")
batch_norm_p = _norm_primitive("batch_norm", node_name="NativeBatchNormBackward0", unfold=_unfold_batch_norm)
group_norm_p = _norm_primitive("group_norm", node_name="NativeGroupNormBackward0")
rms_norm_p = rowwise(
    "rms_norm", _rms_norm, joint=_rms_norm_backward, over="axes shape", weights="weight", numbers="eps",
    hidden=("rstd",), batch=_rms_norm_batch, node_name="FusedRmsNormBackward0", saved={"x": "input"},
)  # fmt: skip


def _check_floating(op: str, d: DType) -> None:
    if of(d).category != 2:
        raise NotImplementedError(
            f"\"{op}\" not implemented for '{title_of(d)}': normalization takes floating-point values"
        )


def _like(input: Tensor, *weights: Tensor | None) -> list[Tensor | None]:
    """Return weights in a dtype that goes with `input`: its own, or what a 16-bit input is computed in."""
    d = input.array.dtype
    if is_half(d):
        first = next((w.array.dtype for w in weights if w is not None), d)
        d = first if is_half(first) or first == f32 else f32
    return [w if w is None or w.array.dtype == d else cast_p(w, d) for w in weights]


# --- Over the last dimensions -----------------------------------------------------------------------


def _check_last(
    input: Tensor, normalized_shape: Ints, weight: Any, bias: Any
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(map(int, normalized_shape))
    a = input.array
    start = a.ndim - len(shape)
    if not shape:
        raise RuntimeError(
            "Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got "
            "normalized_shape = []"
        )
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None and value.array.shape != shape:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape "
                f"{list(value.array.shape)} and normalized_shape = {list(shape)}"
            )
    if start < 0 or a.shape[start:] != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*, "
            f"{', '.join(str(n) for n in shape)}], but got input of size{list(a.shape)}"
        )
    return shape, tuple(range(start, a.ndim))


def layer_norm(
    input: Tensor, normalized_shape: Ints, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalize over the last dimensions: ``(x - mean) / sqrt(var + eps) * weight + bias``.

    The variance is the one with divisor n.

    Parameters
    ----------
    input : Tensor
        Of a shape that ends with `normalized_shape`.
    normalized_shape : tuple of ints
        Sizes of the dimensions to normalize over.
    weight, bias : Tensor, optional
        Scale and shift, of shape `normalized_shape`.
    eps : float, default 1e-5
        Added to the variance.

    Returns
    -------
    Tensor
        Of the shape of `input`: each sample has mean 0 and variance 1 before it is scaled.

    Raises
    ------
    RuntimeError
        If the shape of `input` does not end with `normalized_shape`, or those of `weight` and `bias` differ from
        it.

    Examples
    --------
    >>> adjoint.nn.functional.layer_norm(adjoint.tensor([[1.0, 2.0, 3.0], [0.0, 0.0, 9.0]]), (3,))
    tensor([[-1.2247,  0.0000,  1.2247],
            [-0.7071, -0.7071,  1.4142]])
    """
    shape, axes = _check_last(input, normalized_shape, weight, bias)
    if weight is not None and weight.array.dtype != input.array.dtype and not is_half(input.array.dtype):
        raise RuntimeError(
            f"expected scalar type {title_of(input.array.dtype)} but found {title_of(weight.array.dtype)}: "
            "layer_norm takes its weight in the dtype of its input"
        )
    _check_floating("layer_norm", input.array.dtype)
    return layer_norm_p(input, *_like(input, weight, bias), axes, shape, eps)


def rms_norm(input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """Divide by the root mean square over the last dimensions: ``x / sqrt(mean(x ** 2) + eps) * weight``.

    Parameters
    ----------
    input : Tensor
        Of a shape that ends with `normalized_shape`.
    normalized_shape : tuple of ints
        Sizes of the dimensions to normalize over.
    weight : Tensor, optional
        Scale, of shape `normalized_shape`.
    eps : float, optional
        Added to the mean square; by default the precision of the dtype, ``finfo(dtype).eps``.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Raises
    ------
    RuntimeError
        If the shape of `input` does not end with `normalized_shape`.

    Examples
    --------
    >>> adjoint.nn.functional.rms_norm(adjoint.tensor([[1.0, 2.0, 2.0]]), (3,))
    tensor([[0.5774, 1.1547, 1.1547]])
    """
    if len(normalized_shape) > input.array.ndim:
        raise ValueError(
            f"Input tensor must have at least {len(normalized_shape)} dimensions, but got {input.array.ndim}"
        )
    shape, axes = _check_last(input, normalized_shape, weight, None)
    if eps is None:
        eps = finfo(of(f32 if is_half(input.array.dtype) else input.array.dtype)).eps
    if input.array.dtype.kind == "c":
        out = mul_p(input, (mean_p(mul_p(input, input), axes, True) + eps).rsqrt())
        return out if weight is None else mul_p(out, weight)
    _check_floating("rms_norm", input.array.dtype)
    return rms_norm_p(input, *_like(input, weight), axes, shape, eps)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalize each of `num_groups` groups of channels of each sample to mean 0 and variance 1.

    Parameters
    ----------
    input : Tensor
        ``(N, C, ...)``
    num_groups : int
        Number of groups; divides C.
    weight : Tensor, optional
        Factor of each channel, (C,).
    bias : Tensor, optional
        Added to each channel, (C,).
    eps : float, default 1e-05
        Added to the variance.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 3.0, 10.0, 30.0]])
    >>> adjoint.nn.functional.group_norm(x, 2)
    tensor([[-1.0000,  1.0000, -1.0000,  1.0000]])
    """
    a = input.array
    if a.ndim < 2:
        raise RuntimeError(f"Expected at least 2 dimensions for input tensor but received {a.ndim}")
    count, channels = a.shape[:2]
    _check_more_than_one([count * channels // max(num_groups, 1), num_groups, *a.shape[2:]])
    if num_groups <= 0:
        raise RuntimeError(f"Expected num groups to be greater than 0, got {num_groups}")
    if channels % num_groups:
        raise RuntimeError(
            "Expected number of channels in input to be divisible by num_groups, but got input of shape "
            f"{list(a.shape)} and num_groups={num_groups}"
        )
    for name, value in (("weight", weight), ("bias", bias)):
        if value is not None and tuple(value.array.shape) != (channels,):
            raise RuntimeError(
                f"Expected {name} to be a vector of size equal to the number of channels in input, but got {name} of "
                f"shape {list(value.array.shape)} and input of shape {list(a.shape)}"
            )
    inner = channels // num_groups
    shape = (1, num_groups, inner, 1)
    grouped = reshape_p(input, (count, num_groups, inner, math.prod(a.shape[2:])))
    b = None if bias is None else reshape_p(bias, shape)
    w = None if weight is None else reshape_p(weight, shape)
    _check_floating("group_norm", a.dtype)
    normed = reshape_p(group_norm_p(grouped, *_like(input, w, b), (2, 3), shape, eps), tuple(a.shape))
    return fold(normed, "NativeGroupNormBackward0", input, weight, bias, group=num_groups, eps=eps)


# --- Over the batch ---------------------------------------------------------------------------------


def _check_more_than_one(shape: Sequence[int]) -> None:
    if shape[0] * math.prod(shape[2:]) == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size adjoint.Size({list(shape)})"
        )


# What running statistics become; in place, and on a GPU one launch.
moving_average_p = elementwise(
    "moving_average",
    lambda x, y, keep, by: x * keep + y * by,
    x=lambda g, keep: g * keep,
    y=lambda g, by: g * by,
    numbers="keep by",
)


def _update(running: Tensor, new: Any, momentum: float, scale: float = 1) -> None:
    """Move running statistics towards those of a batch, multiplied by `scale`."""
    if running.array.dtype.kind in "biu":
        raise RuntimeError(f"expected scalar type Float but found {title_of(running.array.dtype)}")
    if isinstance(running.array, Payload) or isinstance(new, Payload | TensorBase):
        new = new if isinstance(new, TensorBase) else wrap(new)
        top, own = payload_of(new), payload_of(running)
        if top is not None and not top.spreads and (own is None or own.level < top.level):
            raise RuntimeError(
                "Batch norm got a batched tensor as input while the running_mean or running_var, which will be updated "
                "in place, were not batched. Inside vmap use a norm without running statistics (GroupNorm, "
                "track_running_stats=False), or adjoint.func.replace_all_batch_norm_modules_(model)."
            )
        running.copy_(running.detach() * (1 - momentum) + new * scale * momentum)
        return
    array = running.array
    form = moving_average_p.op.form_for((array,))
    if form.into is None:
        array *= array.dtype.type(1 - momentum)
        array += new * (momentum * scale)
    else:
        form.into(array, new.reshape(array.shape), 1 - momentum, momentum * scale)
    note_write(running, "batch_norm")


def _statistics(input: Tensor, axes: Axes, hidden: Sequence[Any]) -> tuple[Any, Any]:
    """Return the mean and the variance of a batch (raw), as the kernel found them or computed once more.

    Observed, they are tensors and found by primitives: what is computed from them is then seen too.
    """
    watched = observer() is not None
    if hidden and hidden[0] is not None and not watched:
        return hidden[0], hidden[1]
    x = input.detach()
    mean = mean_p(x, axes, True)
    away = sub_p(x, mean)
    var = mean_p(mul_p(away, away), axes, True)
    return (mean, var) if watched else (mean.array, var.array)


def _with_running(input: Tensor, mean: Any, var: Any, weight: Any, bias: Any, eps: float) -> Tensor:
    """Normalize by statistics that are given."""
    d = input.array.dtype
    work = f32 if is_half(d) else d
    shape = (1, -1, *(1,) * (input.array.ndim - 2))
    mean, var, weight, bias = (
        x if x is None else reshape_p(x if x.array.dtype == work else cast_p(x, work), _channels(shape, x))
        for x in (mean, var, weight, bias)
    )
    rstd = (var.detach() + eps).rsqrt()
    input = input if d == work else cast_p(input, work)
    if weight is not None and has_history(weight):
        out = mul_p(mul_p(sub_p(input, mean.detach()), rstd), weight)
        out = out if bias is None else add_p(out, bias)
    else:
        scale = rstd if weight is None else mul_p(rstd, weight)
        shift = -mean.detach() * scale
        out = add_p(mul_p(input, scale), shift if bias is None else add_p(shift, bias))
    return out if d == work else cast_p(out, d)


def _channels(shape: Shape, x: Tensor) -> Shape:
    return tuple(x.array.size if n == -1 else n for n in shape)


def _check_channels(channels: int, **values: Any) -> None:
    for name, value in values.items():
        if value is not None and tuple(value.array.shape) != (channels,):
            raise RuntimeError(f"{name} should contain {channels} elements not {math.prod(value.array.shape)}")


def _check_both(mean: Tensor | None, var: Tensor | None) -> None:
    if (mean is None) is not (var is None):
        raise ValueError("running_mean and running_var must either both be None or neither be None")


def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
    bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Normalize each channel over the batch: ``(x - mean) / sqrt(var + eps) * weight + bias``.

    Mean and variance are those of all dimensions but the second. The batch is normalized by the variance with divisor
    n; the running variance takes the one with divisor n - 1.

    Parameters
    ----------
    input : Tensor
        Of shape (N, C, ...), with C channels.
    running_mean, running_var : Tensor or None
        Running statistics, of shape (C,). In training they are updated in place, unless None; in evaluation they
        are used.
    weight, bias : Tensor, optional
        Scale and shift of each channel, of shape (C,).
    training : bool, default False
        Use the mean and the variance of the batch instead of the running ones.
    momentum : float, default 0.1
        The running statistics become ``(1 - momentum) * running + momentum * batch``.
    eps : float, default 1e-5
        Added to the variance.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Raises
    ------
    ValueError
        If in training there is one value for each channel, or `eps` is not positive.
    RuntimeError
        If in evaluation there are no running statistics, or a shape does not match.

    Examples
    --------
    >>> x = adjoint.tensor([[1.0, 10.0], [3.0, 30.0]])
    >>> mean, var = adjoint.zeros(2), adjoint.ones(2)
    >>> adjoint.nn.functional.batch_norm(x, mean, var, training=True)
    tensor([[-1.0000, -1.0000],
            [ 1.0000,  1.0000]])
    >>> mean, var
    (tensor([0.2000, 2.0000]), tensor([ 1.1000, 20.9000]))
    >>> adjoint.nn.functional.batch_norm(x, mean, var)
    tensor([[0.7628, 1.7499],
            [2.6697, 6.1247]])
    """
    if training:
        _check_more_than_one(input.array.shape)
    if training and eps <= 0:
        raise ValueError(f"batch_norm eps must be positive during training, but got {eps}")
    if eps < 0:
        raise ValueError(f"batch_norm eps must be non-negative, but got {eps}")
    return batch_normed(input, running_mean, running_var, weight, bias, training, momentum, eps)[0]


def _check_constant(**statistics: Any) -> None:
    for name, x in statistics.items():
        if x is not None and edge_of(x) is not None:
            raise RuntimeError(
                f"The function 'native_batch_norm' is not differentiable with respect to argument '{name}'. This input "
                "cannot have requires_grad True."
            )


def batch_normed(
    input: Tensor, running_mean: Any, running_var: Any, weight: Value | None, bias: Value | None, training: bool,
    momentum: float, eps: float,
) -> tuple[Tensor, Sequence[Any], Axes]:  # fmt: skip
    """Return the result of `batch_norm`; mean, variance, inverse deviation (or nothing), and the axes they are over."""
    a = input.array
    _check_both(running_mean, running_var)
    if a.ndim < 2:
        if a.shape == (0,):  # torch normalizes nothing without asking for channels
            return mul_p(input, 1), (), (0,)
        raise IndexError(f"Dimension out of range: batch_norm expects an input of at least 2 dimensions, got {a.ndim}")
    if a.dtype.kind in "biu":
        raise not_implemented("batch_norm", a)
    channels = a.shape[1]
    _check_channels(channels, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    if modes.is_grad_enabled():
        _check_constant(running_mean=running_mean, running_var=running_var)
    axes = (0, *range(2, a.ndim))
    hidden: Sequence[Any] = ()
    if not training:
        if running_mean is None or running_var is None:
            raise RuntimeError("running_mean and running_var must be defined in evaluation mode")
        found = _with_running(input, running_mean, running_var, weight, bias, eps)
        found = fold(found, "NativeBatchNormBackward0", input, weight, bias, training=False, eps=eps)
        return found, hidden, axes
    shape = (1, channels, *(1,) * (a.ndim - 2))
    bias, weight = (None if x is None else reshape_p(x, shape) for x in (bias, weight))
    tracked = running_mean is not None and running_var is not None and math.prod(a.shape) > 0

    def track() -> None:
        mean, var = _statistics(input, axes, hidden)
        n = count_of(a.shape, axes)
        _update(running_mean, mean.reshape((channels,)), momentum)
        _update(running_var, var.reshape((channels,)), momentum, n / max(n - 1, 1))

    # The second run of a checkpoint may end where the op has saved its inputs, and still counts as a run.
    first = tracked and observer() is not None
    if first:
        track()
    _check_floating("batch_norm", a.dtype)
    out, hidden = revealed(batch_norm_p, input, *_like(input, weight, bias), axes, shape, eps)
    if tracked and not first:
        track()
    return out, hidden, axes


def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None,
    weight: Tensor | None = None, bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Normalize each channel of each sample to mean 0 and variance 1.

    Parameters
    ----------
    input : Tensor
        ``(N, C, ...)``
    running_mean : Tensor, optional
        Running mean, (C,); it is updated.
    running_var : Tensor, optional
        Running variance, (C,); it is updated.
    weight : Tensor, optional
        Factor of each channel, (C,).
    bias : Tensor, optional
        Added to each channel, (C,).
    use_input_stats : bool, default True
        Whether to use the statistics of the input; otherwise the running ones.
    momentum : float, default 0.1
        Weight of a new batch in the running statistics.
    eps : float, default 1e-05
        Added to the variance.

    Returns
    -------
    Tensor
        Of the shape of `input`.

    Examples
    --------
    >>> x = adjoint.tensor([[[1.0, 3.0], [10.0, 30.0]]])
    >>> adjoint.nn.functional.instance_norm(x)
    tensor([[[-1.0000,  1.0000],
             [-1.0000,  1.0000]]])
    """
    _check_both(running_mean, running_var)
    a = input.array
    if use_input_stats:
        if math.prod(a.shape[2:]) == 1:
            raise ValueError(
                f"Expected more than 1 spatial element when training, got input size adjoint.Size({list(a.shape)})"
            )
    elif running_mean is None or running_var is None:
        raise RuntimeError("Expected running_mean and running_var to be defined when use_input_stats is false")
    if a.ndim < 2:
        raise RuntimeError(f"instance_norm expects an input of at least 2 dimensions, got {a.ndim}")
    count, channels = a.shape[:2]
    _check_channels(channels, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    if not use_input_stats:
        return _with_running(input, running_mean, running_var, weight, bias, eps)
    _check_floating("batch_norm", a.dtype)
    axes = tuple(range(2, a.ndim))
    shape = (1, channels, *(1,) * (a.ndim - 2))
    bias, weight = (None if x is None else reshape_p(x, shape) for x in (bias, weight))
    out: Tensor
    out, hidden = revealed(batch_norm_p, input, *_like(input, weight, bias), axes, shape, eps)
    if running_mean is not None and running_var is not None:
        mean, var = _statistics(input, axes, hidden)
        n = count_of(a.shape, axes)
        _update(running_mean, mean.reshape((count, channels)).sum(0), momentum, 1 / count)
        _update(running_var, var.reshape((count, channels)).sum(0), momentum, n / max(n - 1, 1) / count)
    return out


# --- By length --------------------------------------------------------------------------------------


def normalize(input: Tensor, p: float = 2.0, dim: Dims = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """Divide vectors along `dim` by their norm: ``x / max(norm(x), eps)``.

    Parameters
    ----------
    input : Tensor
        Of any shape.
    p : float, default 2.0
        Exponent of the norm.
    dim : int or tuple of ints, default 1
        Dimensions that hold the elements of a vector.
    eps : float, default 1e-12
        Smaller norms are taken as this, so that zero vectors stay zero.
    out : Tensor, optional
        Tensor to write the result to.

    Returns
    -------
    Tensor
        Of the shape of `input`; the vectors have norm 1.

    Examples
    --------
    >>> adjoint.nn.functional.normalize(adjoint.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    >>> adjoint.nn.functional.normalize(adjoint.tensor([3.0, 1.0]), p=1.0, dim=0)
    tensor([0.7500, 0.2500])
    """
    length = clamp_min(vector_norm(input, p, dim, keepdim=True), eps)
    return into(out, div_p(input, expand_as(length, input)))


@autocasting
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-8, *, axis: int | None = None) -> Tensor:
    """Return the cosine of the angle between vectors: ``x1 @ x2 / (|x1| * |x2|)``.

    Parameters
    ----------
    x1 : Tensor
        Vectors along `dim`, of a float dtype.
    x2 : Tensor
        Vectors, broadcast with `x1`.
    dim : int, default 1
        Dimension that holds the elements of a vector.
    eps : float, default 1e-8
        Smaller lengths are taken as this.

    Returns
    -------
    Tensor
        Of the broadcast shape without `dim`; values between -1 and 1.

    Raises
    ------
    RuntimeError
        If the dtypes are not floating, or the shapes cannot be broadcast.

    Examples
    --------
    >>> adjoint.nn.functional.cosine_similarity(adjoint.tensor([[1.0, 0.0], [1.0, 2.0]]), adjoint.tensor([[1.0, 1.0]]))
    tensor([0.7071, 0.9487])
    """
    from .shape import broadcast_tensors

    dim = dim if axis is None else either(dim, axis, 1)
    if not eps >= 0:
        raise RuntimeError(f"eps must be non-negative, got: {eps}")
    if x1.array.shape != x2.array.shape:
        x1, x2 = broadcast_tensors(x1, x2)
    if x1.array.dtype != x2.array.dtype:
        from .loss import same_dtype

        x1, x2 = same_dtype(x1, x2)
    if of(x1.array.dtype).category != 2:
        raise RuntimeError(
            f"expected common dtype to be floating point, yet common dtype is {title_of(x1.array.dtype)}"
        )
    given = x1.array.dtype
    if is_half(given):  # the cube of a small length's inverse, on the way to gradients that fit, would not
        x1, x2 = x1.float(), x2.float()
    out = mul_p(div_p(x1, _length(x1, dim, eps)), div_p(x2, _length(x2, dim, eps))).sum(dim)
    return out if out.array.dtype == given else out.to(of(given))


def _length(x: Tensor, dim: int, eps: float) -> Tensor:
    """Return lengths of at least `eps`; as in torch, gradients pass by the bound."""
    length = vector_norm(x, 2, dim, keepdim=True)
    free = length.detach()
    return add_p(length, sub_p(clamp_min(free, eps), free))
