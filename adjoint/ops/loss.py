"""Losses of values and of labels: from squared error to cross entropy and margins.

A loss that compares element by element is one primitive for value, slope and reduction together. A training step
then saves only its two inputs. The other losses are plain Python over other ops.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from .._typing import Array, Inputs, Params, Shape, Tangents, Tensor, Value
from ..core.dtypes import of
from ..core.failures import broadcast_error
from ..core.promotion import result_type
from ..core.recorders import Primitive, Rule, formula, nary
from ..core.size import Size
from ..core.tensor import TensorBase
from ..scalar.functions import by_name
from .activation import hardtanh_p, log_sigmoid_p
from .arguments import require_bool, require_tensor
from .elementwise import mul_p, sigmoid_p, sub_p
from .literals import depth_outside
from .piecewise import abs_p, where_p
from .precision import autocasting
from .reduce import _mean, _sum, mean, mean_all_p, mean_p, sum_all_p, sum_p, title_of
from .shape import broadcast_tensors, cast_p
from .special import xlogy

NONE, MEAN, SUM = 0, 1, 2


class Code(int):
    """The number of a reduction: functions of the namespace `torch` receive it, others receive the reduction's name."""


log1p_exp = by_name["log1p_exp"]
_CODES = {"none": NONE, "mean": MEAN, "sum": SUM, NONE: NONE, MEAN: MEAN, SUM: SUM}

# --- Reductions -------------------------------------------------------------------------------------


def reduction_of(reduction: Any, size_average: bool | None = None, reduce: bool | None = None) -> int:
    """Return the number of a reduction; the two older arguments, where given, decide instead of its name."""
    if size_average is not None or reduce is not None:
        reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction='{reduction}' instead.",
            stacklevel=depth_outside(),
        )
    code = _CODES.get(reduction) if type(reduction) is str or type(reduction) is Code else None
    if code is None:
        raise ValueError(f"{reduction} is not a valid value for reduction: give 'none', 'mean' or 'sum'")
    return code


def reduced(values: Tensor, code: int) -> Tensor:
    """Return the losses of all elements unreduced, their mean, or their sum."""
    if code == MEAN:
        return mean_all_p(values) if values.array.dtype.kind in "fc" else mean(values)  # which refuses integers
    return values if code == NONE else sum_all_p(values)


def _share(g: Value, shape: Shape, code: int) -> Value:
    """Return the gradient of one element's loss; a number where all elements have the same."""
    return g / max(math.prod(shape), 1) if code == MEAN else g


# --- Element by element -----------------------------------------------------------------------------


def elementwise_loss(
    name: str, value: Rule, *, x: Rule, y: Rule, node_name: str | None = None, check: Any = None
) -> Primitive:
    """Declare a loss of two tensors of one shape: ``loss_p(x, y, reduction, option)``.

    `value` is a formula of ``(x, y, option)``, the loss of an element; `x` and `y` are rules for its gradients, of
    ``(g, x, y, option)``. `check` is called with the arrays before anything is computed.
    """
    element = formula(value, name=name, static="option")
    rule_x = formula(x, name=f"{name}_backward", static="option")
    rule_y = formula(y, name=f"{name}_backward", static="option")

    def kernel(x: Array, y: Array, reduction: Any, option: object) -> Any:
        if check is not None:
            check(x, y)
        total = None if reduction == NONE else element.forms.total((x, y), (option,))  # type: ignore[attr-defined]
        if total is None:
            out = element(x, y, option)
            return out if reduction == NONE else (_mean if reduction == MEAN else _sum)(out, None, False)
        return total if reduction == SUM else total / x.dtype.type(x.size)

    kernel.elements = element, rule_x, rule_y  # type: ignore[attr-defined]
    kernel.reads_values = check is not None  # type: ignore[attr-defined]

    def joint(g: Value, x: Array, y: Array, reduction: Any, option: object, needs: Sequence[bool]) -> Any:
        g = _share(g, x.shape, reduction)
        return tuple([rule(g, x, y, option) if n else None for rule, n in zip((rule_x, rule_y), needs, strict=True)])

    def jvp(tangents: Tangents, inputs: Inputs, out: Value, params: Params) -> Value:
        reduction, option = params
        parts = [r(t, *inputs, option) for r, t in zip((rule_x, rule_y), tangents, strict=True) if t is not None]
        total = parts[0] if len(parts) == 1 else parts[0] + parts[1]
        axes = tuple(range(len(inputs[0].shape)))
        return total if reduction == NONE else (mean_p if reduction == MEAN else sum_p)(total, axes, False)

    def batch(x: Array, y: Array, reduction: Any, option: object) -> Any:
        out = primitive(x, y, NONE, option)
        axes = tuple(range(1, out.ndim))
        return out if reduction == NONE else (mean_p if reduction == MEAN else sum_p)(out, axes, False)

    primitive = nary(
        kernel, inputs=2, name=name, joint=joint, jvp=jvp, batch=batch, node_name=node_name,
        saved={"x": "self", "y": "target"},
    )  # fmt: skip
    return primitive


def _huber(x: Array, y: Array, option: Any) -> Any:
    # d * d / 2 below delta, the option; delta * (d - delta / 2) above: both are m * (d - m / 2), m the part below.
    below = np.minimum(np.abs(x - y), option)
    return below * (np.abs(x - y) - 0.5 * below)


mse_loss_p = elementwise_loss(
    "mse_loss",
    lambda x, y, option: (x - y) * (x - y),
    x=lambda g, x, y, option: (2 * g) * (x - y),
    y=lambda g, x, y, option: (2 * g) * (y - x),
)
huber_loss_p = elementwise_loss(
    "huber_loss",
    _huber,
    x=lambda g, x, y, option: g * hardtanh_p(x - y, -option, option),
    y=lambda g, x, y, option: g * hardtanh_p(y - x, -option, option),
)
smooth_l1_loss_p = elementwise_loss(
    "smooth_l1_loss",
    lambda x, y, option: _huber(x, y, option) / option,
    x=lambda g, x, y, option: g * hardtanh_p((x - y) / option, -1, 1),
    y=lambda g, x, y, option: g * hardtanh_p((y - x) / option, -1, 1),
    node_name="SmoothL1LossBackward0",
)


def _pair(input: Tensor, target: Tensor, name: str) -> tuple[Tensor, ...]:
    """Return both tensors at their common shape and dtype; torch warns where the shapes differ."""
    require_tensor(input, "input", name)
    require_tensor(target, "target", name)
    a, b = input.array, target.array
    if a.shape != b.shape:
        warnings.warn(
            f"Using a target size ({_size(b)}) that is different to the input size ({_size(a)}). This will likely "
            "lead to incorrect results due to broadcasting. Please ensure they have the same size.",
            stacklevel=depth_outside(),
        )
        input, target = broadcast_tensors(input, target)
    return same_dtype(input, target)


def _size(array: Array) -> str:
    return repr(Size(array.shape))


def same_dtype(input: Tensor, target: Tensor) -> tuple[Tensor, ...]:
    """Return both tensors in the dtype of the result of an op on them."""
    if input.array.dtype is target.array.dtype:
        return input, target
    wanted = result_type((input, target)).np
    return tuple(x if x.array.dtype == wanted else cast_p(x, wanted) for x in (input, target))


def _weighted(values: Tensor, weight: Tensor, name: str) -> Tensor:
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
    if of(input.array.dtype).category != 2:
        raise NotImplementedError(
            f"\"{name}\" not implemented for '{title_of(input.array.dtype)}'; convert with .float()"
        )


def mse_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the mean squared error: the mean of ``(input - target) ** 2``.

    Parameters
    ----------
    input : Tensor
        Predictions, of any shape and a float dtype.
    target : Tensor
        Of the shape of `input`; another shape is broadcast, with a warning.
    size_average, reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"mean", "sum", "none"}, default "mean"
        Take the mean or the sum of all elements' losses, or return each.
    weight : Tensor, optional
        A weight for each element, of the shape of `input`; the mean divides by the sum of weights.

    Returns
    -------
    Tensor
        A scalar; with ``reduction="none"`` of the shape of `input`.

    Raises
    ------
    ValueError
        If `reduction` is another word, or `weight` has another shape.
    NotImplementedError
        If both are integers.

    Examples
    --------
    >>> input, target = adjoint.tensor([1.0, 2.0]), adjoint.tensor([1.0, 5.0])
    >>> adjoint.nn.functional.mse_loss(input, target)
    tensor(4.5000)
    >>> adjoint.nn.functional.mse_loss(input, target, reduction="none")
    tensor([0., 9.])
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


@autocasting
def l1_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the mean absolute error: the mean of ``|input - target|``.

    Parameters
    ----------
    input : Tensor
        Predictions, of any shape and a float dtype.
    target : Tensor
        Of the shape of `input`; another shape is broadcast, with a warning.
    size_average, reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"mean", "sum", "none"}, default "mean"
        Take the mean or the sum of all elements' losses, or return each.
    weight : Tensor, optional
        A weight for each element, of the shape of `input`; the mean divides by the sum of weights.

    Returns
    -------
    Tensor
        A scalar; with ``reduction="none"`` of the shape of `input`.

    Raises
    ------
    ValueError
        If `reduction` is another word, or `weight` has another shape.

    Examples
    --------
    >>> input, target = adjoint.tensor([1.0, 2.0]), adjoint.tensor([1.0, 5.0])
    >>> adjoint.nn.functional.l1_loss(input, target)
    tensor(1.5000)
    >>> adjoint.nn.functional.l1_loss(input, target, reduction="sum")
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
    """Return the mean absolute error, rounded off by a parabola where it is below `beta`.

    With the difference ``d = |input - target|`` the loss is ``d ** 2 / (2 * beta)`` where ``d < beta``, and
    ``d - beta / 2`` elsewhere.

    Parameters
    ----------
    input : Tensor
        Predictions, of any shape and a float dtype.
    target : Tensor
        Of the shape of `input`; another shape is broadcast, with a warning.
    size_average, reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"mean", "sum", "none"}, default "mean"
        Take the mean or the sum of all elements' losses, or return each.
    beta : float, default 1.0
        Where the parabola ends; 0 gives `l1_loss`.

    Returns
    -------
    Tensor
        A scalar; with ``reduction="none"`` of the shape of `input`.

    Raises
    ------
    RuntimeError
        If `beta` is negative.
    ValueError
        If `reduction` is another word.

    Examples
    --------
    >>> input, target = adjoint.tensor([1.0, 2.0]), adjoint.tensor([1.0, 5.0])
    >>> adjoint.nn.functional.smooth_l1_loss(input, target, reduction="none")
    tensor([0.0000, 2.5000])
    >>> adjoint.nn.functional.smooth_l1_loss(input, target, beta=4.0)
    tensor(0.5625)
    """
    code = reduction_of(reduction, size_average, reduce)
    if beta < 0:
        raise RuntimeError(f"smooth_l1_loss does not support negative values for beta, got {beta}.")
    input, target = _pair(input, target, "smooth_l1_loss")
    if beta == 0:
        return reduced(abs_p(sub_p(input, target)), code)
    _require_floats(input, "smooth_l1_cpu")
    return smooth_l1_loss_p(input, target, code, beta)


@autocasting
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """Return the mean squared error, continued by straight lines where the difference is above `delta`.

    With the difference ``d = |input - target|`` the loss is ``d ** 2 / 2`` where ``d < delta``, and
    ``delta * (d - delta / 2)`` elsewhere.

    Parameters
    ----------
    input : Tensor
        Predictions, of any shape and a float dtype.
    target : Tensor
        Of the shape of `input`; another shape is broadcast, with a warning.
    reduction : {"mean", "sum", "none"}, default "mean"
        Take the mean or the sum of all elements' losses, or return each.
    delta : float, default 1.0
        Where the parabola ends; positive.
    weight : Tensor, optional
        A weight for each element, of the shape of `input`; the mean divides by the sum of weights.

    Returns
    -------
    Tensor
        A scalar; with ``reduction="none"`` of the shape of `input`.

    Raises
    ------
    RuntimeError
        If `delta` is not positive.
    ValueError
        If `reduction` is another word.

    Examples
    --------
    >>> input, target = adjoint.tensor([1.0, 2.0]), adjoint.tensor([1.0, 5.0])
    >>> adjoint.nn.functional.huber_loss(input, target, reduction="none")
    tensor([0.0000, 2.5000])
    """
    code = reduction_of(reduction)
    if not delta > 0:
        raise RuntimeError(f"huber_loss does not support non-positive values for delta, got {delta}.")
    input, target = _pair(input, target, "huber_loss")
    _require_floats(input, "huber_cpu")
    if weight is None:
        return huber_loss_p(input, target, code, delta)
    return _with_weight(huber_loss_p(input, target, NONE, delta), weight, code)


soft_margin_loss_p = elementwise_loss(
    "soft_margin_loss",
    lambda x, y, option: log1p_exp(-(x * y)),
    x=lambda g, x, y, option: g * (-y * sigmoid_p(-(x * y))),
    y=lambda g, x, y, option: g * (-x * sigmoid_p(-(x * y))),
)


@autocasting
def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Average ``log(1 + exp(-target * input))``, the logistic loss of targets that are 1 or -1.

    Parameters
    ----------
    input : Tensor
        Scores, of any shape.
    target : Tensor
        1 or -1, broadcast with `input`.
    size_average : bool, optional
        Deprecated: use `reduction`.
    reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"mean", "sum", "none"}, default "mean"
        Return the mean of the losses, their sum, or one loss per sample.

    Returns
    -------
    Tensor
        Scalar, or with ``reduction="none"`` one loss per element.

    Examples
    --------
    >>> x, y = adjoint.tensor([2.0, -1.0]), adjoint.tensor([1.0, 1.0])
    >>> adjoint.nn.functional.soft_margin_loss(x, y, reduction="none")
    tensor([0.1269, 1.3133])
    >>> adjoint.nn.functional.soft_margin_loss(x, y)
    tensor(0.7201)
    """
    code = reduction_of(reduction, size_average, reduce)
    require_tensor(target, "target", "soft_margin_loss")
    if input.array.shape != target.array.shape:
        error = broadcast_error(tuple(input.array.shape), tuple(target.array.shape))
        if error is not None:
            raise error
        wide = np.broadcast_shapes(input.array.shape, target.array.shape)
        if wide != tuple(input.array.shape):
            shape = list(input.array.shape)
            raise RuntimeError(f"output with shape {shape} doesn't match the broadcast shape {list(wide)}")
        input, target = broadcast_tensors(input, target)
    return soft_margin_loss_p(*same_dtype(input, target), code, None)


# --- Probabilities ----------------------------------------------------------------------------------

_LEAST_LOG = -100.0  # as in torch: one impossible event does not make the loss infinite
_LEAST_ODDS = 1e-12


def _check_probabilities(x: Array, y: Array) -> None:
    if not ((x >= 0) & (x <= 1)).all():
        raise RuntimeError(
            "all elements of input should be between 0 and 1: apply sigmoid, or use the loss with logits"
        )


def _log_at_least(log: Any) -> Any:
    return where_p(log < _LEAST_LOG, _LEAST_LOG, log)


def _binary(x: Array, y: Array, option: object) -> Array:
    return (y - 1) * np.maximum(np.log1p(-x), _LEAST_LOG) - y * np.maximum(np.log(x), _LEAST_LOG)


def _binary_x(g: Array, x: Array, y: Array, option: object) -> Value:
    odds = x * (1 - x)
    return g * ((x - y) / where_p(odds < _LEAST_ODDS, _LEAST_ODDS, odds))


binary_cross_entropy_p = elementwise_loss(
    "binary_cross_entropy",
    _binary,
    x=_binary_x,
    y=lambda g, x, y, option: g * (_log_at_least(np.log(1 - x)) - _log_at_least(np.log(x))),
    check=_check_probabilities,
)


@autocasting
def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Return the mean cross entropy of probabilities and targets between 0 and 1.

    The loss is ``-(target * log(input) + (1 - target) * log(1 - input))``; logarithms below -100 are taken as -100.
    `binary_cross_entropy_with_logits` is more accurate.

    Parameters
    ----------
    input : Tensor
        Probabilities, of any shape and a float dtype.
    target : Tensor
        Of the shape and dtype of `input`, between 0 and 1.
    weight : Tensor, optional
        Multiplies the loss of each element; broadcast to `input`.
    size_average, reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"mean", "sum", "none"}, default "mean"
        Take the mean or the sum of all elements' losses, or return each.

    Returns
    -------
    Tensor
        A scalar; with ``reduction="none"`` of the shape of `input`.

    Raises
    ------
    ValueError
        If the shapes differ.
    RuntimeError
        If the dtypes differ, or a probability is not between 0 and 1.

    Examples
    --------
    >>> probabilities, target = adjoint.tensor([0.5, 0.9]), adjoint.tensor([1.0, 0.0])
    >>> adjoint.nn.functional.binary_cross_entropy(probabilities, target, reduction="none")
    tensor([0.6931, 2.3026])
    >>> adjoint.nn.functional.binary_cross_entropy(probabilities, target)
    tensor(1.4979)
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


logistic_loss_p = elementwise_loss(
    "binary_cross_entropy_with_logits",
    # One product, which an infinite logit does not make inf - inf.
    lambda x, y, option: log1p_exp(-np.abs(x)) + x * (where_p(x > 0, 1, 0) - y),
    x=lambda g, x, y, option: g * (sigmoid_p(x) - y),
    y=lambda g, x, y, option: g * -x,
)


@autocasting
def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean", pos_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Return the mean cross entropy of ``sigmoid(input)`` and targets between 0 and 1, without overflow.

    With ``p = sigmoid(input)`` the loss is ``-(pos_weight * target * log(p) + (1 - target) * log(1 - p))``.

    Parameters
    ----------
    input : Tensor
        Logits, of any shape and a float dtype.
    target : Tensor
        Of the shape of `input`, between 0 and 1.
    weight : Tensor, optional
        Multiplies the loss of each element; broadcast to `input`.
    size_average, reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"mean", "sum", "none"}, default "mean"
        Take the mean or the sum of all elements' losses, or return each.
    pos_weight : Tensor, optional
        Multiplies the loss of positive targets; broadcast to `input`.

    Returns
    -------
    Tensor
        A scalar; with ``reduction="none"`` of the shape of `input`.

    Raises
    ------
    ValueError
        If the shapes differ.

    Examples
    --------
    >>> logits, target = adjoint.tensor([0.0, 2.0, 1000.0]), adjoint.tensor([1.0, 0.0, 1.0])
    >>> adjoint.nn.functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
    tensor([0.6931, 2.1269, 0.0000])
    >>> adjoint.nn.functional.binary_cross_entropy_with_logits(logits, target, pos_weight=adjoint.tensor(3.0))
    tensor(1.4021)
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


@autocasting
def kl_div(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean", log_target: bool = False,
) -> Tensor:  # fmt: skip
    """Return the Kullback-Leibler divergence of log probabilities `input` from the distribution `target`.

    Each element adds ``target * (log(target) - input)``, and 0 where `target` is 0.

    Parameters
    ----------
    input : Tensor
        Log probabilities, of any shape.
    target : Tensor
        Probabilities, or log probabilities with `log_target`, broadcast with `input`.
    size_average, reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"mean", "batchmean", "sum", "none"}, default "mean"
        ``"batchmean"`` divides the sum by the first size, which is the divergence for each sample; ``"mean"``
        divides it by the number of elements, and warns.
    log_target : bool, default False
        Take `target` as log probabilities, too.

    Returns
    -------
    Tensor
        A scalar; with ``reduction="none"`` of the broadcast shape.

    Raises
    ------
    RuntimeError
        If a dtype is complex.
    ValueError
        If `reduction` is another word.

    Examples
    --------
    >>> input = adjoint.tensor([[0.5, 0.5], [0.9, 0.1]]).log()
    >>> target = adjoint.tensor([[0.5, 0.5], [0.5, 0.5]])
    >>> adjoint.nn.functional.kl_div(input, target, reduction="batchmean")
    tensor(0.2554)
    >>> adjoint.nn.functional.kl_div(input, target.log(), reduction="none", log_target=True)
    tensor([[ 0.0000,  0.0000],
            [-0.2939,  0.8047]])
    """
    if "c" in (input.array.dtype.kind, target.array.dtype.kind):
        raise RuntimeError("kl_div: Complex inputs not supported.")
    require_bool(log_target, "log_target", "kl_div")
    by_batch = reduction == "batchmean"
    code = SUM if by_batch else reduction_of(reduction, size_average, reduce)
    if reduction == "mean":
        warnings.warn(
            "reduction: 'mean' divides the total loss by both the batch size and the support size."
            "'batchmean' divides only by the batch size, and aligns with the KL div math definition.",
            stacklevel=depth_outside(),
        )
    if log_target:
        values = target.exp() * (target - input)
    else:
        values = xlogy(target, target) - target * input
    out = reduced(values, code)
    return out / input.array.shape[0] if by_batch and input.array.ndim else out


@autocasting
def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, size_average: bool | None = None,
    eps: float = 1e-8, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Average the negative log likelihood of counts `target` under Poisson distributions of rate `input`.

    ``exp(input) - target * input``, or without `log_input` ``input - target * log(input + eps)``. With `full`,
    Stirling's approximation ``target * log(target) - target + 0.5 * log(2 * pi * target)`` is added where `target` is
    above 1.

    Parameters
    ----------
    input : Tensor
        Rates, or their logarithms, of any shape.
    target : Tensor
        Counts, broadcast with `input`.
    log_input : bool, default True
        Whether `input` is the logarithm of the rates.
    full : bool, default False
        Whether to add the approximation of the term that does not depend on `input`.
    size_average : bool, optional
        Deprecated: use `reduction`.
    eps : float, default 1e-08
        Added to the rate before its logarithm is taken, without `log_input`.
    reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"mean", "sum", "none"}, default "mean"
        Return the mean of the losses, their sum, or one loss per sample.

    Returns
    -------
    Tensor
        Scalar, or with ``reduction="none"`` one loss per element.

    Examples
    --------
    >>> rate, count = adjoint.tensor([1.0, 4.0]), adjoint.tensor([2.0, 3.0])
    >>> adjoint.nn.functional.poisson_nll_loss(rate.log(), count)
    tensor(0.4206)
    >>> adjoint.nn.functional.poisson_nll_loss(rate, count, log_input=False, reduction="none")
    tensor([ 1.0000, -0.1589])
    """
    code = reduction_of(reduction, size_average, reduce)
    loss = input.exp() - target * input if log_input else input - target * (input + eps).log()
    if full:
        stirling = target * target.log() - target + 0.5 * (2 * math.pi * target).log()
        loss = loss + where_p(target > 1, stirling, 0)
    return reduced(loss, code)


def _same_but_one(given: tuple[int, ...], shape: tuple[int, ...]) -> bool:
    """Return whether two shapes differ in one dimension only, along which the first is to be repeated."""
    if len(given) != len(shape):
        return False
    return [a for a, b in zip(given, shape, strict=True) if a != b] == [1]


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """Average the negative log likelihood of `target` under normal distributions of mean `input` and variance `var`.

    ``0.5 * (log(var) + (input - target)**2 / var)``. Variances below `eps` count as `eps`; gradients pass through that
    unchanged.

    Parameters
    ----------
    input : Tensor
        Means, of any shape.
    target : Tensor
        Observations, of the shape of `input` or with dimensions of size 1.
    var : Tensor or float
        Variances: of the shape of `input`, with a last dimension of size 1 or without it, or one number.
    full : bool, default False
        Whether to add the constant ``0.5 * log(2 * pi)``.
    eps : float, default 1e-06
        Least variance.
    reduction : {"mean", "sum", "none"}, default "mean"
        Return the mean of the losses, their sum, or one loss per sample.

    Returns
    -------
    Tensor
        Scalar, or with ``reduction="none"`` one loss per element.

    Raises
    ------
    ValueError
        If a variance is negative, or its shape does not fit.

    Examples
    --------
    >>> mean, seen = adjoint.tensor([0.0, 1.0]), adjoint.tensor([1.0, 1.0])
    >>> adjoint.nn.functional.gaussian_nll_loss(mean, seen, adjoint.ones(2))
    tensor(0.2500)
    >>> adjoint.nn.functional.gaussian_nll_loss(mean, seen, adjoint.tensor([1.0, 4.0]), reduction="none")
    tensor([0.5000, 0.6931])
    """
    if not isinstance(var, TensorBase | float):
        raise TypeError(f"gaussian_nll_loss(): argument 'var' must be Tensor or float, not {type(var).__name__}")
    spread: Any = var if isinstance(var, TensorBase) else input.new_full((1,), var)
    if bool((spread < 0).any()):
        raise ValueError("var has negative entry/entries")
    shape, given = tuple(input.array.shape), tuple(spread.array.shape)
    if given != shape:
        if given == shape[:-1]:
            spread = spread.unsqueeze(-1)
        elif isinstance(var, TensorBase) and not _same_but_one(given, shape):
            raise ValueError("var is of incorrect size")
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"{reduction} is not valid")
    spread = where_p(spread < eps, spread - spread.detach() + eps, spread)  # raised, with the gradient of the variance
    away = input - target
    loss = 0.5 * (spread.log() + away * away / spread)
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction_of(reduction))
