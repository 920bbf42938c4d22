"""Losses of values and of labels: from squared error to cross entropy and margins.

A loss that compares element by element is one primitive: value, slope and reduction together, so that a
training step keeps its two inputs and nothing else. The rest is plain Python over other ops.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.dtypes import of
from ..core.promotion import result_type
from ..core.recorders import Primitive, nary
from ..core.tensor import TensorBase
from .activation import log_sigmoid_p, relu_p
from .arguments import dtype_of, require_tensor
from .contraction import linear
from .elementwise import mul_p, sigmoid_p, sub_p
from .gather import gather_p
from .measure import vector_norm_p
from .piecewise import abs_p, clamp_min, where_p
from .reduce import _mean, _sum, log_softmax_p, mean_all_p, mean_p, softmax_p, sum_all_p, sum_p, title_of
from .shape import broadcast_tensors, cast_p, expand_p, reshape_p
from .special import xlogy

Tensor = Any

ndarray = np.ndarray
NONE, MEAN, SUM = 0, 1, 2
_FULL = (np.dtype("float32"), np.dtype("float64"))
_CODES = {"none": NONE, "mean": MEAN, "sum": SUM, NONE: NONE, MEAN: MEAN, SUM: SUM}

# --- Reductions -------------------------------------------------------------------------------------


def reduction_of(reduction: Any, size_average: bool | None = None, reduce: bool | None = None) -> int:
    """Return the number of a reduction; the two older arguments, where given, decide instead of its name."""
    if size_average is not None or reduce is not None:
        reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.",
            stacklevel=3,
        )
    code = _CODES.get(reduction)
    if code is None:
        raise ValueError(f"{reduction} is not a valid value for reduction: give 'none', 'mean' or 'sum'")
    return code


def reduced(values: Tensor, code: int) -> Tensor:
    """Return the losses of all elements as they are, their mean, or their sum."""
    return values if code == NONE else mean_all_p(values) if code == MEAN else sum_all_p(values)


def _share(g: Any, shape: Any, code: int) -> Any:
    """Return the gradient of one element's loss; a number where all elements have the same."""
    return g / max(math.prod(shape), 1) if code == MEAN else g


# --- Element by element -----------------------------------------------------------------------------


def elementwise_loss(
    name: str,
    value: Callable[..., Any],
    slope: Callable[..., Any],
    target_slope: Callable[..., Any] | None = None,
    node_name: str | None = None,
) -> Callable[..., Any]:
    """Declare a loss of two tensors of one shape: ``loss_p(x, y, reduction, option)``.

    `value` takes arrays and gives the loss of each element; the slopes are rules for its derivatives. Where
    the loss depends on the difference alone, the target's is the other one's negative.
    """

    def kernel(x: Any, y: Any, reduction: Any, option: Any) -> Any:
        out = value(x, y, option)
        return out if reduction == NONE else _mean(out, None, False) if reduction == MEAN else _sum(out, None, False)

    def joint(g: Any, x: Any, y: Any, reduction: Any, option: Any, needs: Any) -> Any:
        g = _share(g, x.shape, reduction)
        gx = gy = None
        if needs[0] or target_slope is None:
            gx = slope(x, y, option) * g
        if needs[1]:
            gy = -gx if target_slope is None else target_slope(x, y, option) * g
        return gx, gy

    def jvp(tangents: Any, inputs: Any, out: Any, params: Any) -> Any:
        (tx, ty), (x, y), (reduction, option) = tangents, inputs, params
        total = None if tx is None else slope(x, y, option) * tx
        if ty is not None:
            part = (-slope(x, y, option) if target_slope is None else target_slope(x, y, option)) * ty
            total = part if total is None else total + part
        axes = tuple(range(len(x.shape)))
        return total if reduction == NONE else (mean_p if reduction == MEAN else sum_p)(total, axes, False)

    def batch(x: Any, y: Any, reduction: Any, option: Any) -> Any:
        out = primitive(x, y, NONE, option)
        axes = tuple(range(1, out.ndim))
        return out if reduction == NONE else (mean_p if reduction == MEAN else sum_p)(out, axes, False)

    primitive = nary(
        kernel, inputs=2, name=name, joint=joint, jvp=jvp, batch=batch, node_name=node_name,
        saved={"x": "self", "y": "target"},
    )  # fmt: skip
    return primitive


def _squared(x: Any, y: Any, option: Any) -> Any:
    away = x - y
    return np.multiply(away, away, out=away if away.ndim else None)


def _smooth(x: Any, y: Any, beta: Any) -> Any:
    away = np.abs(x - y)
    # d * d / (2 * beta) below beta, d - beta / 2 above: with the part below, m, both are m * (d - m / 2) / beta.
    below = np.minimum(away, beta)
    return below * (away - 0.5 * below) / beta


def _smooth_slope(x: Any, y: Any, beta: Any) -> Any:
    away = x - y
    if type(away) is ndarray:
        return np.clip(away / beta, -1, 1)
    return where_p(abs_p(away) < beta, away / beta, np.sign(away))


def _huber(x: Any, y: Any, delta: Any) -> Any:
    away = np.abs(x - y)
    below = np.minimum(away, delta)
    return below * (away - 0.5 * below)


def _huber_slope(x: Any, y: Any, delta: Any) -> Any:
    away = x - y
    if type(away) is ndarray:
        return np.clip(away, -delta, delta)
    return where_p(abs_p(away) < delta, away, np.sign(away) * delta)


mse_loss_p = elementwise_loss("mse_loss", _squared, lambda x, y, option: 2 * (x - y))
smooth_l1_loss_p = elementwise_loss("smooth_l1_loss", _smooth, _smooth_slope, node_name="SmoothL1LossBackward0")
huber_loss_p = elementwise_loss("huber_loss", _huber, _huber_slope)


def _pair(input: Any, target: Any, name: str) -> tuple[Tensor, Tensor]:
    """Return both tensors at their common shape and dtype; torch warns where the shapes differ."""
    require_tensor(input, "input", name)
    require_tensor(target, "target", name)
    a, b = input.array, target.array
    if a.shape != b.shape:
        warnings.warn(
            f"Using a target size ({_size(b)}) that is different to the input size ({_size(a)}). This will likely "
            "lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            stacklevel=3,
        )
        input, target = broadcast_tensors(input, target)
    return same_dtype(input, target)


def _size(array: Any) -> str:
    return f"adjoint.Size({list(array.shape)})"


def same_dtype(input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return both tensors in the dtype of the result of an op on them."""
    if input.array.dtype is target.array.dtype:
        return input, target
    wanted = result_type((input, target)).np
    return tuple(x if x.array.dtype == wanted else cast_p(x, wanted) for x in (input, target))  # type: ignore[return-value]


def _weighted(values: Tensor, weight: Any, name: str) -> Tensor:
    shape = values.array.shape
    try:
        fits = np.broadcast_shapes(weight.array.shape, shape) == tuple(shape)
    except ValueError:
        fits = False
    if not fits:
        raise RuntimeError(
            f"{name}: the weights have shape {list(weight.array.shape)}, which does not broadcast to the {list(shape)} "
            "of the losses; The size of tensor a must match the size of tensor b"
        )
    return mul_p(values, weight)


def _require_floats(input: Tensor, name: str) -> None:
    if of(input.array.dtype).category < 2:
        raise NotImplementedError(f"\"{name}\" not implemented for '{title_of(input.array.dtype)}'; convert with .float()")


def mse_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Square the differences of `input` and `target`, and average them.

    `reduction` is ``"mean"``, ``"sum"`` or ``"none"``; a mean with `weight` is divided by the sum of weights.

    Examples
    --------
    >>> adjoint.nn.functional.mse_loss(adjoint.tensor([1.0, 2.0]), adjoint.tensor([1.0, 5.0]))
    tensor(4.5000)
    """
    code = reduction_of(reduction, size_average, reduce)
    input, target = _pair(input, target, "mse_loss")
    if weight is None:
        _require_floats(input, "mse_cpu")
        return mse_loss_p(input, target, code, None)
    return _with_weight(mse_loss_p(input, target, NONE, None), weight, code)


def _with_weight(values: Tensor, weight: Tensor, code: int) -> Tensor:
    if weight.array.shape != values.array.shape:
        raise ValueError("Inputs and weights must have the same size.")
    values = mul_p(values, weight)
    return values.sum() / weight.sum() if code == MEAN else reduced(values, code)


def l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Average the absolute differences of `input` and `target`.

    Examples
    --------
    >>> adjoint.nn.functional.l1_loss(adjoint.tensor([1.0, 2.0]), adjoint.tensor([1.0, 5.0]), reduction="sum")
    tensor(3.)
    """
    code = reduction_of(reduction, size_average, reduce)
    input, target = _pair(input, target, "l1_loss")
    values = abs_p(sub_p(input, target))
    return reduced(values, code) if weight is None else _with_weight(values, weight, code)


def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", beta: float = 1.0,
) -> Tensor:  # fmt: skip
    """Average the absolute differences, rounded off by a parabola below `beta`."""
    code = reduction_of(reduction, size_average, reduce)
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss does not support negative values for beta, got {beta}.")
    input, target = _pair(input, target, "smooth_l1_loss")
    if beta == 0:
        return reduced(abs_p(sub_p(input, target)), code)
    _require_floats(input, "smooth_l1_cpu")
    return smooth_l1_loss_p(input, target, code, beta)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Average half the squared differences; beyond `delta` they grow only as a line."""
    code = reduction_of(reduction)
    if not delta > 0:
        raise RuntimeError(f"huber_loss does not support non-positive values for delta, got {delta}.")
    input, target = _pair(input, target, "huber_loss")
    _require_floats(input, "huber_cpu")
    if weight is None:
        return huber_loss_p(input, target, code, delta)
    return _with_weight(huber_loss_p(input, target, NONE, delta), weight, code)


def _soft_margin(x: Any, y: Any, option: Any) -> Any:
    return np.logaddexp(x.dtype.type(0), -(x * y))


soft_margin_loss_p = elementwise_loss(
    "soft_margin_loss",
    _soft_margin,
    lambda x, y, option: -y * sigmoid_p(-(x * y)),
    lambda x, y, option: -x * sigmoid_p(-(x * y)),
)


def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Average ``log(1 + exp(-target * input))``, the logistic loss of targets that are 1 or -1."""
    code = reduction_of(reduction, size_average, reduce)
    require_tensor(target, "target", "soft_margin_loss")
    if input.array.shape != target.array.shape:
        input, target = broadcast_tensors(input, target)
    return soft_margin_loss_p(*same_dtype(input, target), code, None)


# --- Probabilities ----------------------------------------------------------------------------------

_LEAST_LOG = -100.0  # as in torch: one impossible event does not make the loss infinite
_LEAST_ODDS = 1e-12


def _binary(x: Any, y: Any, option: Any) -> Any:
    if not ((x >= 0) & (x <= 1)).all():
        raise RuntimeError("all elements of input should be between 0 and 1: apply sigmoid, or use the loss with logits")
    return (y - 1) * np.maximum(np.log1p(-x), x.dtype.type(_LEAST_LOG)) - y * np.maximum(
        np.log(x), x.dtype.type(_LEAST_LOG)
    )


def _binary_slope(x: Any, y: Any, option: Any) -> Any:
    odds = x * (1 - x)
    return (x - y) / where_p(odds < _LEAST_ODDS, _LEAST_ODDS, odds)


def _binary_target_slope(x: Any, y: Any, option: Any) -> Any:
    return _log_at_least(1 - x) - _log_at_least(x)


def _log_at_least(x: Any) -> Any:
    log = np.log(x)
    return where_p(log < _LEAST_LOG, _LEAST_LOG, log)


binary_cross_entropy_p = elementwise_loss("binary_cross_entropy", _binary, _binary_slope, _binary_target_slope)


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Average the cross entropy of probabilities `input` and `target`, both between 0 and 1.

    Examples
    --------
    >>> adjoint.nn.functional.binary_cross_entropy(adjoint.tensor([0.5]), adjoint.tensor([1.0]))
    tensor(0.6931)
    """
    code = reduction_of(reduction, size_average, reduce)
    if input.array.shape != target.array.shape:
        raise ValueError(
            f"Using a target size ({_size(target.array)}) that is different to the input size ({_size(input.array)}) "
            "is deprecated. Please ensure they have the same size."
        )
    if target.array.dtype != input.array.dtype:
        raise RuntimeError(
            f"Found dtype {title_of(target.array.dtype)} but expected {title_of(input.array.dtype)}: convert the target"
        )
    if weight is None:
        return binary_cross_entropy_p(input, target, code, None)
    return reduced(_weighted(binary_cross_entropy_p(input, target, NONE, None), weight, "binary_cross_entropy"), code)


def _logistic(x: Any, y: Any, option: Any) -> Any:
    out = np.abs(x)
    out = np.log1p(np.exp(-out))
    out += np.maximum(x, 0)
    return out - x * y


logistic_loss_p = elementwise_loss(
    "binary_cross_entropy_with_logits",
    _logistic,
    lambda x, y, option: sigmoid_p(x) - y,
    lambda x, y, option: -x,
)


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean", pos_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Average the cross entropy of ``sigmoid(input)`` and `target`, without overflow.

    `pos_weight` multiplies the part of the loss that comes from positive targets.

    Examples
    --------
    >>> x = adjoint.tensor([0.0, 1000.0])
    >>> adjoint.nn.functional.binary_cross_entropy_with_logits(x, adjoint.tensor([1.0, 1.0]), reduction="none")
    tensor([0.6931, 0.0000])
    """
    code = reduction_of(reduction, size_average, reduce)
    if input.array.shape != target.array.shape:
        raise ValueError(f"Target size ({_size(target.array)}) must be the same as input size ({_size(input.array)})")
    if pos_weight is None:
        input, target = same_dtype(input, target)
        if weight is None:
            return logistic_loss_p(input, target, code, None)
        values = logistic_loss_p(input, target, NONE, None)
    else:
        scale = (pos_weight - 1) * target + 1
        values = (1 - target) * input - scale * log_sigmoid_p(input)
    return reduced(values if weight is None else mul_p(values, weight), code)


def kl_div(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", log_target: bool = False,
) -> Tensor:  # fmt: skip
    """Average ``target * (log(target) - input)``: `input` holds logarithms of probabilities.

    With `log_target`, so does `target`. ``reduction="batchmean"`` divides the sum by the size of the batch.
    """
    by_batch = reduction == "batchmean"
    code = SUM if by_batch else reduction_of(reduction, size_average, reduce)
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math definition.",
            stacklevel=2,
        )
    if log_target:
        values = target.exp() * (target - input)
    else:
        values = xlogy(target, target) - target * input
    out = reduced(values, code)
    return out / input.array.shape[0] if by_batch and input.array.ndim else out


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, size_average: bool | None = None,
    eps: float = 1e-8, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Average the negative log likelihood of counts `target` under Poisson distributions of rate `input`.

    With `log_input`, `input` is the logarithm of the rate; with `full`, Stirling's approximation of the
    term that does not depend on `input` is added.
    """
    code = reduction_of(reduction, size_average, reduce)
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + where_p(target > 1, stirling, 0)
    return reduced(loss, code)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """Average the negative log likelihood of `target` under normal distributions of mean `input` and variance `var`.

    Variances below `eps` count as `eps`; gradients pass by that.
    """
    if not isinstance(var, TensorBase):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = input.new_full((1,), var)
    elif bool((var < 0).any()):
        raise ValueError("var has negative entry/entries")
    shape, given = tuple(input.array.shape), tuple(var.array.shape)
    if given != shape:
        if given == shape[:-1]:
            var = var.unsqueeze(-1)
        elif not (given[:-1] == shape[:-1] and given and given[-1] == 1) and given != (1,) and given != ():
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    var = var + (var.detach().clamp(min=eps) - var.detach())
    away = input - target
    loss = 0.5 * (var.log() + away * away / var)
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction_of(reduction))


# --- Classes ----------------------------------------------------------------------------------------


def _picked(x: Any, target: Any, ignored: Any) -> Any:
    """Return the element of each sample's class: classes lie along axis 1, or 0 of a single sample."""
    axis = 1 if x.ndim > 1 else 0
    bad = (target < 0) | (target >= x.shape[axis])
    skip = target == ignored
    if bad.any():
        wrong = bad & ~skip
        if wrong.any():
            raise IndexError(f"Target {int(target[wrong].flat[0])} is out of bounds: there are {x.shape[axis]} classes")
        target = np.where(skip, 0, target)
    if x.ndim == 2:
        out = -x[np.arange(x.shape[0]), target]
    else:
        out = -np.take_along_axis(x, np.expand_dims(target, axis), axis).squeeze(axis)
    if skip.any():
        out = np.where(skip, x.dtype.type(0), out)
    return out, skip


def _nll(x: Any, target: Any, ignored: Any, reduction: Any) -> Any:
    out, skip = _picked(x, target, ignored)
    if reduction == NONE:
        return out
    total = _sum(out, None, False)
    return total if reduction == SUM else total / x.dtype.type(out.size - np.count_nonzero(skip))


def _nll_back(x: Any, target: Any, shape: Any, ignored: Any, reduction: Any) -> Any:
    """Return zeros of `shape` with ``-x`` (per sample, or one for all) at each sample's class."""
    out = np.zeros(shape, x.dtype)
    axis = 1 if len(shape) > 1 else 0
    skip = target == ignored
    if reduction == MEAN:
        x = x / x.dtype.type(max(target.size - np.count_nonzero(skip), 0)) if target.size else x
    if skip.any():
        x, target = np.where(skip, x.dtype.type(0), x), np.where(skip, 0, target)
    if len(shape) == 2:
        out[np.arange(shape[0]), target] = -x
    elif x.ndim:
        np.put_along_axis(out, np.expand_dims(target, axis), -np.expand_dims(x, axis), axis)
    else:
        np.put_along_axis(out, np.expand_dims(target, axis), -x, axis)
    return out


def _nll_jvp(tangents: Any, inputs: Any, out: Any, params: Any) -> Any:
    return nll_loss_p(tangents[0], inputs[1], *params)


def _nll_batch(x: Any, target: Any, ignored: Any, reduction: Any) -> Any:
    """Fold the batch of a vmap into the samples; each keeps a mean of its own."""
    size, single = x.shape[0], x.ndim == 2
    if single:
        rows, labels, shape = x, reshape_p(target, (size,)), (size,)
    else:
        rows, labels = reshape_p(x, (-1, *x.shape[2:])), reshape_p(target, (-1, *target.shape[2:]))
        shape = tuple(target.shape)
    losses = reshape_p(nll_loss_p(rows, labels, ignored, NONE), shape)
    if reduction == NONE:
        return losses
    axes = tuple(range(1, len(shape)))
    total = sum_p(losses, axes, False)
    if reduction == SUM:
        return total
    counted = cast_p(target != ignored, dtype_of(x))
    return total / sum_p(reshape_p(counted, shape), axes, False)


def _nll_back_batch(x: Any, target: Any, shape: Any, ignored: Any, reduction: Any) -> Any:
    size = x.shape[0]
    labels = tuple(target.shape)
    if reduction == MEAN:
        counted = cast_p(target != ignored, dtype_of(x))
        x = x / (sum_p(counted, tuple(range(1, len(labels))), False) if len(labels) > 1 else counted)
    if reduction != NONE:
        x = expand_p(reshape_p(x, (size, *(1,) * (len(labels) - 1))), labels)
    if len(shape) == 1:
        return nll_back_p(x, target, (size, *shape), ignored, NONE)
    flat = (size * shape[0], *shape[1:])
    out = nll_back_p(reshape_p(x, (-1, *labels[2:])), reshape_p(target, (-1, *labels[2:])), flat, ignored, NONE)
    return reshape_p(out, (size, *shape))


def _nll_primitive(node_name: str, name: str) -> Callable[..., Any]:
    return nary(
        _nll,
        inputs=2,
        x=lambda g, target, x_shape, ignored, reduction: nll_back_p(g, target, x_shape, ignored, reduction),
        jvp=_nll_jvp,
        batch=_nll_batch,
        name=name,
        node_name=node_name,
        saved={"x": "self", "ignored": "ignore_index"},
    )


nll_loss_p = _nll_primitive("NllLossBackward0", "nll_loss")
nll_loss2d_p = _nll_primitive("NllLoss2DBackward0", "nll_loss2d")
nll_back_p = nary(
    _nll_back,
    inputs=2,
    x=lambda g, target, ignored, reduction: nll_loss_p(g, target, ignored, reduction),
    jvp=lambda tangents, inputs, out, params: nll_back_p(tangents[0], inputs[1], *params),
    batch=_nll_back_batch,
    node_name="NllLossBackwardBackward0",
)


# The whole of it, for the usual case (a matrix, all classes equal): a row keeps one number.


class Logs:
    """Where a kernel leaves the logarithm of each row's sum of exponentials, and which rows do not count."""

    __slots__ = ("skip", "values")

    def __init__(self) -> None:
        self.values: Any = None
        self.skip: Any = None


_BLOCK = 65536  # elements of a block of rows


def _cross_entropy(x: Any, target: Any, ignored: Any, reduction: Any, logs: Any) -> Any:
    count, classes = x.shape
    sums = np.empty(count, x.dtype)
    step = max(_BLOCK // max(classes, 1), 1)
    for i in range(0, count, step):
        block = x[i : i + step]
        top = np.maximum.reduce(block, 1, None, None, True)
        away = block - top
        np.exp(away, out=away)
        total = np.add.reduce(away, 1)
        np.log(total, out=total)
        np.add(total, top[:, 0], out=sums[i : i + step])
    skip = None
    if not 0 <= ignored < classes and count and target.min() >= 0 and target.max() < classes:
        picked = sums - x[np.arange(count), target]
    else:
        picked, skip = _picked(x, target, ignored)
        picked += sums
        picked[skip] = 0
    if logs is not None:
        logs.values, logs.skip = sums, skip
    if reduction == NONE:
        return picked
    loss = np.add.reduce(picked)
    return loss if reduction == SUM else loss / x.dtype.type(_left(count, skip))


def _left(count: int, skip: Any) -> int:
    return count if skip is None else count - int(np.count_nonzero(skip))


def _cross_entropy_x(g: Any, x: Any, target: Any, ignored: Any, reduction: Any, logs: Any) -> Any:
    if type(g) is not ndarray or type(x) is not ndarray or logs is None or logs.values is None:
        back = nll_back_p(g, target, x.shape, ignored, reduction)
        return back - softmax_p(x, 1) * sum_p(back, (1,), True)
    count, classes = x.shape
    skip = logs.skip
    share = g / x.dtype.type(_left(count, skip)) if reduction == MEAN else g
    if skip is not None:
        share, target = np.where(skip, x.dtype.type(0), share), np.where(skip, 0, target)
    out = np.empty_like(x)
    step = max(_BLOCK // max(classes, 1), 1)
    for i in range(0, count, step):
        o = np.subtract(x[i : i + step], logs.values[i : i + step, None], out=out[i : i + step])
        np.exp(o, out=o)
        o *= share[i : i + step, None] if share.ndim else share
    out[np.arange(count), target] -= share
    return out


cross_entropy_p: Primitive = nary(
    _cross_entropy,
    inputs=2,
    x=_cross_entropy_x,
    jvp=lambda tangents, inputs, out, params: nll_loss_p(
        _log_softmax_slope(tangents[0], softmax_p(inputs[0], 1)), inputs[1], *params[:2]
    ),
    batch=lambda x, target, ignored, reduction, logs: _nll_batch(log_softmax_p(x, 2), target, ignored, reduction),
    node_name="NllLossBackward0",
    saved={"x": "self", "ignored": "ignore_index"},
)


def _log_softmax_slope(t: Any, weights: Any) -> Any:
    return t - sum_p(weights * t, (1,), True)


def _check_classes(input: Tensor, target: Tensor, weight: Any) -> None:
    a, t = input.array, target.array
    if of(t.dtype).name not in ("int64", "uint8"):
        raise RuntimeError(f"expected scalar type Long but found {title_of(t.dtype)}: class labels are int64")
    if a.ndim == 0:
        raise ValueError(f"Expected 1 or more dimensions (got {a.ndim})")
    classes = a.shape[1] if a.ndim > 1 else a.shape[0]
    if weight is not None and (weight.array.ndim != 1 or weight.array.shape[0] != classes):
        raise RuntimeError(
            "weight tensor should be defined either for all or no classes: Expected weight to have shape "
            f"[{classes}], not {list(weight.array.shape)}"
        )
    if a.ndim == 1:
        if t.ndim > 1 or (t.ndim == 1 and t.shape[0] != 1):
            raise ValueError("0D or 1D target tensor expected, multi-target not supported: "
                             f"Expected input batch_size (1) to match target batch_size ({t.shape[0]}).")  # fmt: skip
        return
    if t.ndim == 0 or a.shape[0] != t.shape[0]:
        if a.ndim == 2 and t.ndim > 1:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        raise ValueError(
            f"Expected input batch_size ({a.shape[0]}) to match target batch_size ({t.shape[0] if t.ndim else 1})."
        )
    if a.ndim == 2 and t.ndim != 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    if tuple(t.shape[1:]) != tuple(a.shape[2:]):
        raise RuntimeError(
            f"Expected target size {[a.shape[0], *a.shape[2:]]}, got {list(t.shape)}"
            if a.ndim != 4
            else f"size mismatch (got input: {list(a.shape)} , target: {list(t.shape)}"
        )


def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Average the negative of the element of `input` (log-probabilities) that each class label names.

    Classes lie along dimension 1. Labels equal to `ignore_index` do not count; `weight` has one per class.
    """
    code = reduction_of(reduction, size_average, reduce)
    _check_classes(input, target, weight)
    if input.array.ndim == 1 and target.array.ndim == 1:
        out = _class_losses(input.unsqueeze(0), target, weight, ignore_index, code)
        return out
    return _class_losses(input, target, weight, ignore_index, code)


def _class_losses(input: Tensor, target: Tensor, weight: Any, ignored: int, code: int) -> Tensor:
    primitive = nll_loss_p if input.array.ndim < 3 else nll_loss2d_p
    if weight is None:
        return primitive(input, target, ignored, code)
    losses, scale = primitive(input, target, ignored, NONE), _label_weights(weight, target, ignored)
    losses = mul_p(losses, scale)
    return losses if code == NONE else losses.sum() if code == SUM else losses.sum() / scale.sum()


def _label_weights(weight: Tensor, target: Tensor, ignored: int) -> Tensor:
    """Return the weight of each label, zero where it is to be ignored."""
    skip = target == ignored
    picked = gather_p(weight, reshape_p(where_p(skip, 0, target), (-1,)), 0).reshape(tuple(target.array.shape))
    return where_p(skip, 0, picked)


def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    ignore_index: int = -100, reduce: bool | None = None, reduction: str = "mean", label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """Average the cross entropy of ``softmax(input)`` and `target`: class labels, or probabilities of classes.

    Classes lie along dimension 1 (0, if there is no batch). `label_smoothing` mixes the target with the
    even distribution over classes.

    Examples
    --------
    >>> logits = adjoint.tensor([[2.0, 0.0], [0.0, 0.0]], requires_grad=True)
    >>> loss = adjoint.nn.functional.cross_entropy(logits, adjoint.tensor([0, 1]))
    >>> loss
    tensor(0.4100, grad_fn=<NllLossBackward0>)
    """
    code = reduction_of(reduction, size_average, reduce)
    a, t = input.array, target.array
    if a.ndim == 0:
        raise ValueError("Expected 1 or more dimensions (got 0): cross_entropy needs a dimension of classes")
    if not 0 <= label_smoothing <= 1:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    axis = 1 if a.ndim > 1 else 0
    if a.shape == t.shape and of(t.dtype).category >= 2:
        return _of_probabilities(input, target, weight, ignore_index, code, label_smoothing, axis)
    _check_classes(input, target, weight)
    if weight is None and not label_smoothing and a.ndim == 2 and a.shape[1] and a.dtype in _FULL:
        return cross_entropy_p(input, target, ignore_index, code, Logs())
    logs = log_softmax_p(input, axis)
    if a.ndim == 1 and t.ndim == 1:
        logs, axis = logs.unsqueeze(0), 1
    if not label_smoothing:
        return _class_losses(logs, target, weight, ignore_index, code)
    return _smoothed(logs, target, weight, ignore_index, code, label_smoothing, axis)


def linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
    weight: Tensor | None = None, reduction: str = "mean", ignore_index: int | None = None,
    label_smoothing: float = 0.0, options: Any = None,
) -> Tensor:  # fmt: skip
    """Take the cross entropy of ``linear(input, linear_weight, linear_bias)`` and `target`.

    `options`, torch's ways to save memory, change nothing here.
    """
    shape = tuple(linear_weight.array.shape)
    if len(shape) > 2 and input.array.ndim == 1:
        raise RuntimeError(
            f"K-dimensional loss defined by linear_weight shape {shape} requires batched input, (N, {shape[-1]}), got "
            f"unbatched input with shape {tuple(input.array.shape)}"
        )
    if linear_bias is not None and tuple(linear_bias.array.shape) != shape[:-1]:
        raise RuntimeError(f"expected linear_bias shape {shape[:-1]}, got {tuple(linear_bias.array.shape)}")
    flat = linear_weight if len(shape) == 2 else reshape_p(linear_weight, (math.prod(shape[:-1]), shape[-1]))
    bias = linear_bias if linear_bias is None else reshape_p(linear_bias, (math.prod(shape[:-1]),))
    logits = linear(input, flat, bias)
    if len(shape) != 2:
        logits = reshape_p(logits, (*logits.array.shape[:-1], *shape[:-1]))
    ignored = -100 if ignore_index is None else ignore_index
    return cross_entropy(
        logits, target, weight, ignore_index=ignored, reduction=reduction, label_smoothing=label_smoothing
    )


def _class_weights(weight: Any, rank: int, axis: int) -> Any:
    return reshape_p(weight, tuple(-1 if i == axis else 1 for i in range(rank)))


def _of_probabilities(
    input: Tensor, target: Tensor, weight: Any, ignore_index: int, code: int, smoothing: float, axis: int
) -> Tensor:
    shape = input.array.shape
    classes = shape[axis]
    if ignore_index >= 0:
        raise RuntimeError("ignore_index is not supported for floating point target")
    if weight is not None and (weight.array.ndim != 1 or weight.array.size != classes):
        raise RuntimeError("weight tensor should be defined either for all or no classes")
    if smoothing:
        target = target * (1 - smoothing) + smoothing / classes
    product = mul_p(log_softmax_p(input, axis), target)
    if weight is not None:
        product = mul_p(product, _class_weights(weight, len(shape), axis))
    if code == NONE:
        return -sum_p(product, (axis,), False)
    total = -product.sum()
    return total if code == SUM else total / (math.prod(shape) // classes if classes else 1)


def _smoothed(
    logs: Tensor, target: Tensor, weight: Any, ignored: int, code: int, smoothing: float, axis: int
) -> Tensor:
    hard = _class_losses(logs, target, weight, ignored, code)
    classes = logs.array.shape[axis]
    even = logs if weight is None else mul_p(logs, _class_weights(weight, logs.array.ndim, axis))
    even = -sum_p(even, (axis,), False)
    skip = target == ignored
    even = where_p(skip, 0, even)
    if code == SUM:
        even = even.sum()
    elif code == MEAN:
        counted = (~skip).sum() if weight is None else _label_weights(weight, target, ignored).sum()
        even = even.sum() / counted
    return (1 - smoothing) * hard + (smoothing / classes) * even


# --- Margins ----------------------------------------------------------------------------------------


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Average distances where `target` is 1, and how far they are below `margin` where it is -1."""
    code = reduction_of(reduction, size_average, reduce)
    far = where_p(target != 1, clamp_min(margin - input, 0), 0)
    near = where_p(target != -1, input, 0)
    return reduced(far + near, code)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Average ``max(0, margin - target * (input1 - input2))``: the first should be larger where `target` is 1."""
    code = reduction_of(reduction, size_average, reduce)
    ranks = {x.array.ndim for x in (input1, input2, target)}
    if len(ranks) > 1:
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
            f"{list(input1.array.shape)}, input2: {list(input2.array.shape)}, target: {list(target.array.shape)} "
        )
    return reduced(clamp_min(-target * (input1 - input2) + margin, 0), code)


_SMALL_SQUARE = 1e-12


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Average ``1 - cos`` of pairs whose `target` is 1, and how far the cosine is above `margin` where it is -1."""
    code = reduction_of(reduction, size_average, reduce)
    rank = target.array.ndim
    if rank > 1:
        raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
    sizes = list(input1.array.shape), list(input2.array.shape), list(target.array.shape)
    if rank == 1 and any(x.array.ndim != 2 for x in (input1, input2)):
        raise RuntimeError(
            f"1D target tensor expects 2D input tensors, but found inputs with sizes {sizes[0]} and {sizes[1]}."
        )
    if rank == 0 and any(x.array.ndim != 1 for x in (input1, input2)):
        raise RuntimeError(
            f"0D target tensor expects 1D input tensors, but found inputs with sizes {sizes[0]} and {sizes[1]}."
        )
    product = (input1 * input2).sum(rank)
    first, second = (input1 * input1).sum(rank) + _SMALL_SQUARE, (input2 * input2).sum(rank) + _SMALL_SQUARE
    cosine = product / (first * second).sqrt()
    near = where_p(target == 1, 1 - cosine, 0)
    far = where_p(target == -1, clamp_min(cosine - margin, 0), 0)
    return reduced(near + far, code)


def _check_margin_labels(input: Tensor, target: Tensor, name: str) -> None:
    a, t = input.array, target.array
    if of(t.dtype).name != "int64":
        raise RuntimeError(f"{name}: expected scalar type Long but found {title_of(t.dtype)} for the target")


def multi_margin_loss(
    input: Tensor, target: Tensor, p: int = 1, margin: float = 1.0, weight: Tensor | None = None,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Average, over classes, how far each is from being `margin` below the labelled one, to the power `p`."""
    code = reduction_of(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    a, t = input.array, target.array
    if weight is not None and weight.array.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    if a.ndim > 2 or a.size == 0 and (a.ndim < 2 or a.shape[1] == 0):
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(a.shape)}"
        )
    single = a.ndim < 2
    rows = reshape_p(input, (1, -1)) if single else input
    count, classes = rows.array.shape
    if t.ndim > 1 or t.size != count:
        raise RuntimeError(f"inconsistent target size, expected {count} but got {list(t.shape)}")
    if weight is not None and weight.array.size != classes:
        raise RuntimeError(f"inconsistent weight size, expected {classes} but got {list(weight.array.shape)}")
    _check_margin_labels(input, target, "multi_margin_loss")
    if t.size and type(t) is ndarray and (t.min() < 0 or t.max() >= classes):
        raise RuntimeError("target out of range")
    labels = reshape_p(target, (count, 1))
    short = relu_p(margin - gather_p(rows, labels, 1) + rows)
    if p == 2:
        short = short * short
    if weight is not None:
        short = short * reshape_p(gather_p(weight, reshape_p(target, (count,)), 0), (count, 1))
    own = labels == np.arange(classes)
    losses = sum_p(where_p(own, 0, short), (1,), False) / classes
    if code == NONE:
        return reshape_p(losses, tuple(t.shape)) if single else losses
    return reduced(losses, code)


def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Average how far each class outside the labels is from being 1 below each label.

    The labels of a sample end at its first -1.
    """
    code = reduction_of(reduction, size_average, reduce)
    a, t = input.array, target.array
    if a.ndim > 2 or (a.size == 0 and (a.ndim < 2 or a.shape[1] == 0)):
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(a.shape)}"
        )
    if tuple(t.shape) != tuple(a.shape):
        raise RuntimeError(f"inconsistent target size: {list(t.shape)} for input of size: {list(a.shape)}")
    _check_margin_labels(input, target, "multilabel_margin_loss")
    if type(t) is ndarray and t.size and (t.min() < -1 or t.max() >= max(a.shape[-1:], default=1)):
        raise RuntimeError("target out of range")
    single = a.ndim < 2
    rows = reshape_p(input, (1, -1)) if single else input
    labels = reshape_p(target, tuple(rows.array.shape))
    count, classes = rows.array.shape
    there = (labels == -1).cumsum(1) == 0
    places = where_p(there, labels, 0)
    apart = (reshape_p(places, (count, -1, 1)) == np.arange(classes)) & reshape_p(there, (count, -1, 1))
    others = ~apart.any(1)
    short = relu_p(1 - reshape_p(gather_p(rows, places, 1), (count, -1, 1)) + reshape_p(rows, (count, 1, -1)))
    pairs = reshape_p(there, (count, -1, 1)) & reshape_p(others, (count, 1, -1))
    losses = sum_p(where_p(pairs, short, 0), (1, 2), False) / classes
    if code == NONE:
        return reshape_p(losses, ()) if single else losses
    return reduced(losses, code)


def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Average the logistic losses of all classes, each label being 0 or 1."""
    code = reduction_of(reduction, size_average, reduce)
    loss = -(target * log_sigmoid_p(input) + (1 - target) * log_sigmoid_p(-input))
    if weight is not None:
        loss = loss * weight
    rank = input.array.ndim
    classes = input.array.shape[-1] if rank else 1
    loss = sum_p(loss, (rank - 1,) if rank else (), False) / classes
    return reduced(loss, code)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """Measure the distance of vectors along the last dimension; `eps` is added to each difference.

    Examples
    --------
    >>> adjoint.pairwise_distance(adjoint.zeros(1, 2), adjoint.tensor([[3.0, 4.0]]), eps=0.0)
    tensor([5.])
    """
    rank = max(x1.array.ndim, x2.array.ndim)
    away = x1 - x2 + eps
    return vector_norm_p(away, float(p), (rank - 1,) if rank else (), keepdim)


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, eps: float = 1e-6,
    swap: bool = False, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Average how far positives are from being `margin` nearer to the anchor than negatives.

    With `swap`, the negative's distance is the smaller of those to the anchor and to the positive.
    """
    code = reduction_of(reduction, size_average, reduce)
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    ranks = [x.array.ndim for x in (anchor, positive, negative)]
    if len(set(ranks)) > 1:
        raise RuntimeError(
            f"The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {ranks[0]}D, positive {ranks[1]}D, and negative {ranks[2]}D inputs"
        )
    near = pairwise_distance(anchor, positive, p, eps)
    far = pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = far.minimum(pairwise_distance(positive, negative, p, eps))
    return reduced(clamp_min(margin + near - far, 0), code)


def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *, distance_function: Callable[..., Tensor] | None = None,
    margin: float = 1.0, swap: bool = False, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Take the triplet loss with a distance of one's own; without one, with `pairwise_distance`."""
    code = reduction_of(reduction)
    distance = pairwise_distance if distance_function is None else distance_function
    if margin <= 0:
        raise ValueError(f"margin must be greater than 0, got {margin}")
    ranks = [x.array.ndim for x in (anchor, positive, negative)]
    if len(set(ranks)) > 1:
        raise RuntimeError(
            f"The anchor, positive, and negative tensors are expected to have the same number of dimensions, but got: "
            f"anchor {ranks[0]}D, positive {ranks[1]}D, and negative {ranks[2]}D inputs"
        )
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    return reduced(clamp_min(margin + near - far, 0), code)


__all__ = ["pairwise_distance"]
