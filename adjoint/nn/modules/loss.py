"""Losses as layers."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..._typing import Tensor
from .. import functional as F
from .linear import Linear
from .module import Module

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CrossEntropyLoss", "GaussianNLLLoss",
    "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss", "LinearCrossEntropyLoss", "LinearCrossEntropyOptions",
    "MSELoss", "MarginRankingLoss", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss",
    "NLLLoss2d", "PoissonNLLLoss", "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss",
    "TripletMarginWithDistanceLoss",
]  # fmt: skip


@dataclass(frozen=True)
class LinearCrossEntropyOptions:
    """Torch's ways to save memory in a linear layer with cross entropy; accepted, they change nothing here."""

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None


def _reduction(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """Return the reduction that the two arguments of old stand for, or the new one."""
    if size_average is None and reduce is None:
        return reduction
    chosen = "none" if reduce is False else "sum" if size_average is False else "mean"
    warnings.warn(
        f"size_average and reduce args will be deprecated, please use reduction='{chosen}' instead.", stacklevel=4
    )
    return chosen


class _Loss(Module):
    """Base of losses: the reduction over samples."""

    reduction: str

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = _reduction(size_average, reduce, reduction)


class _WeightedLoss(_Loss):
    """A loss with a weight for each class, saved as a buffer."""

    weight: Any

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class _OfTarget(_Loss):
    """A loss of an input for a target: `_function` names its function, `_options` the attributes that this takes."""

    _function: str
    __constants__ = _options = ["reduction"]

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss of `input` for `target`."""
        return getattr(F, self._function)(input, target, **{name: getattr(self, name) for name in self._options})


# --- Regression -------------------------------------------------------------------------------------


class L1Loss(_OfTarget):
    """Mean absolute error: the mean of ``|input - target|``.

    Parameters
    ----------
    size_average, reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"mean", "sum", "none"}, default "mean"
        Take the mean or the sum of all elements' losses, or return each.

    Shape
    -----
    Input: any. Target: the same. Output: a scalar, or with ``"none"`` as the input.

    Examples
    --------
    >>> input, target = adjoint.tensor([1.0, 2.0]), adjoint.tensor([1.0, 4.0])
    >>> adjoint.nn.L1Loss()(input, target)
    tensor(1.)
    >>> adjoint.nn.L1Loss(reduction="none")(input, target)
    tensor([0., 2.])
    """

    _function = "l1_loss"


class MSELoss(_OfTarget):
    """Mean squared error: the mean of ``(input - target)**2``.

    Parameters
    ----------
    size_average, reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"mean", "sum", "none"}, default "mean"
        Take the mean or the sum of all elements' losses, or return each.

    Shape
    -----
    Input: any. Target: the same; another shape is broadcast, with a warning. Output: a scalar, or with ``"none"`` as
    the input.

    Examples
    --------
    >>> input, target = adjoint.tensor([1.0, 2.0]), adjoint.tensor([1.0, 4.0])
    >>> adjoint.nn.MSELoss()(input, target)
    tensor(2.)
    >>> adjoint.nn.MSELoss(reduction="none")(input, target)
    tensor([0., 4.])
    """

    _function = "mse_loss"


class SmoothL1Loss(_OfTarget):
    """The squared error where the difference d is below `beta`, the absolute error above.

    ``0.5 * d**2 / beta if |d| < beta else |d| - 0.5 * beta``

    Parameters
    ----------
    size_average : bool, optional
        Deprecated: use `reduction`.
    reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"mean", "sum", "none"}, default "mean"
        Take the mean or the sum of all losses, or return each.
    beta : float, default 1.0
        Where the two parts meet.

    Shape
    -----
    Input: any. Target: the same. Output: a scalar, or with ``"none"`` as the input.

    Examples
    --------
    >>> x, y = adjoint.tensor([0.0, 0.0]), adjoint.tensor([0.5, 3.0])
    >>> adjoint.nn.SmoothL1Loss(reduction="none")(x, y)
    tensor([0.1250, 2.5000])
    """

    _function = "smooth_l1_loss"
    _options = ["reduction", "beta"]

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        beta: float = 1.0,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta


class HuberLoss(_OfTarget):
    """The squared error where the difference d is below `delta`, a linear one above.

    ``0.5 * d**2 if |d| < delta else delta * (|d| - 0.5 * delta)``

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}, default "mean"
        Take the mean or the sum of all losses, or return each.
    delta : float, default 1.0
        Where the two parts meet.

    Shape
    -----
    Input: any. Target: the same. Output: a scalar, or with ``"none"`` as the input.

    Examples
    --------
    >>> x, y = adjoint.tensor([0.0, 0.0]), adjoint.tensor([0.5, 3.0])
    >>> adjoint.nn.HuberLoss(reduction="none", delta=2.0)(x, y)
    tensor([0.1250, 4.0000])
    """

    _function = "huber_loss"
    __constants__ = _options = ["reduction", "delta"]

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        if not isinstance(delta, float | int):
            raise TypeError(f"delta must be a float or int, got: {type(delta)}")
        self.delta = delta


class PoissonNLLLoss(_Loss):
    """The negative log likelihood of counts under a Poisson distribution.

    ``exp(input) - target * input``, or without `log_input` ``input - target * log(input + eps)``.

    Parameters
    ----------
    log_input : bool, default True
        Whether the input is the logarithm of the rates.
    full : bool, default False
        Whether to add Stirling's approximation of ``log(target!)``.
    size_average : bool, optional
        Deprecated: use `reduction`.
    eps : float, default 1e-08
        Added to the rate before its logarithm is taken, without `log_input`.
    reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"mean", "sum", "none"}, default "mean"
        Take the mean or the sum of all losses, or return each.

    Shape
    -----
    Input: any. Target: the same. Output: a scalar, or with ``"none"`` as the input.

    Examples
    --------
    >>> adjoint.nn.PoissonNLLLoss()(adjoint.zeros(2), adjoint.tensor([2.0, 3.0]))
    tensor(1.)
    """

    __constants__ = ["log_input", "full", "eps", "reduction"]

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input, self.full, self.eps = log_input, full, eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        """Return the loss of the rates, or their logarithms, for the counts in `target`."""
        return F.poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps, reduction=self.reduction
        )


class GaussianNLLLoss(_Loss):
    """The negative log likelihood under a normal distribution of given mean and variance.

    ``0.5 * (log(var) + (input - target)**2 / var)``

    Parameters
    ----------
    full : bool, default False
        Whether to add the constant ``0.5 * log(2 * pi)``.
    eps : float, default 1e-06
        Least variance.
    reduction : {"mean", "sum", "none"}, default "mean"
        Take the mean or the sum of all losses, or return each.

    Shape
    -----
    Input, target and variance: the same shape, the variance also with a last dimension of size 1. Output: a scalar, or
    with ``"none"`` as the input.

    Examples
    --------
    >>> adjoint.nn.GaussianNLLLoss()(adjoint.zeros(2), adjoint.tensor([1.0, 2.0]), adjoint.ones(2))
    tensor(1.2500)
    """

    __constants__ = ["full", "eps", "reduction"]

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(None, None, reduction)
        self.full, self.eps = full, eps

    def forward(self, input: Tensor, target: Tensor, var: Any) -> Tensor:
        """Return the loss of mean `input` and variance `var` for `target`."""
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


# --- Probabilities and classes ----------------------------------------------------------------------


class NLLLoss(_OfTarget, _WeightedLoss):
    """Negative log likelihood of classes: ``-weight[target] * input[target]``, where `input` holds log probabilities.

    The mean divides by the sum of the weights of the targets.

    Parameters
    ----------
    weight : Tensor, optional
        A weight for each class, of shape (C,). Defaults to ones.
    size_average : bool, optional
        Deprecated: use `reduction`.
    ignore_index : int, default -100
        Targets of this value add nothing to the loss.
    reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"mean", "sum", "none"}, default "mean"
        Take the mean or the sum of all samples' losses, or return each.

    Raises
    ------
    IndexError
        When called with a target that is no class.

    Shape
    -----
    Input: (C,), (N, C) or (N, C, ...). Target: integers, without the dimension C. Output: a scalar, or with ``"none"``
    as the target.

    Examples
    --------
    >>> log_probs = adjoint.tensor([[0.25, 0.75], [0.5, 0.5]]).log()
    >>> adjoint.nn.NLLLoss(reduction="none")(log_probs, adjoint.tensor([1, 0]))
    tensor([0.2877, 0.6931])
    >>> adjoint.nn.NLLLoss()(log_probs, adjoint.tensor([1, -100]))  # the second is ignored
    tensor(0.2877)
    """

    _function = "nll_loss"
    _options = ["weight", "ignore_index", "reduction"]
    __constants__ = ["ignore_index", "reduction"]

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index


class NLLLoss2d(NLLLoss):
    """`NLLLoss` by an older name."""

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        warnings.warn(
            "`NLLLoss2d` has been deprecated. Please use `NLLLoss` instead as a drop-in replacement.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__(weight, size_average, ignore_index, reduce, reduction)


class CrossEntropyLoss(_OfTarget, _WeightedLoss):
    """Cross entropy of logits and classes: ``-weight[target] * log_softmax(input)[target]``.

    The mean divides by the sum of the weights of the targets. A target of floats holds the probabilities of all classes
    instead: then the loss is ``-sum_c weight[c] * target[c] * log_softmax(input)[c]``, and the mean divides by the
    number of samples.

    Parameters
    ----------
    weight : Tensor, optional
        A weight for each class, of shape (C,). Defaults to ones.
    size_average : bool, optional
        Deprecated: use `reduction`.
    ignore_index : int, default -100
        Targets of this value add nothing to the loss.
    reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"mean", "sum", "none"}, default "mean"
        Take the mean or the sum of all samples' losses, or return each.
    label_smoothing : float, default 0.0
        The share of the targets' probability that is spread evenly over all classes.

    Raises
    ------
    IndexError
        When called with a target that is no class.

    Shape
    -----
    Input: (C,), (N, C) or (N, C, ...). Target: integers without the dimension C, or floats as the input. Output: a
    scalar, or with ``"none"`` as an integer target.

    Examples
    --------
    >>> logits = adjoint.tensor([[2.0, 0.0], [0.0, 0.0]])
    >>> adjoint.nn.CrossEntropyLoss(reduction="none")(logits, adjoint.tensor([0, 1]))
    tensor([0.1269, 0.6931])
    >>> adjoint.nn.CrossEntropyLoss()(logits, adjoint.tensor([0, -100]))  # the second is ignored
    tensor(0.1269)
    >>> adjoint.nn.CrossEntropyLoss()(logits, adjoint.tensor([[0.5, 0.5], [1.0, 0.0]]))
    tensor(0.9100)
    """

    _function = "cross_entropy"
    _options = ["weight", "ignore_index", "reduction", "label_smoothing"]
    __constants__ = ["ignore_index", "reduction", "label_smoothing"]

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index, self.label_smoothing = ignore_index, label_smoothing


class LinearCrossEntropyLoss(_WeightedLoss):
    """A linear layer and the cross entropy of its result, in one."""

    __constants__ = ["num_classes", "out_features", "reduction", "ignore_index", "label_smoothing"]

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: Any = None,
        dtype: Any = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        super().__init__(weight, reduction=reduction)
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}")
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(f"expected label_smoothing to be in range [0, 1], got {label_smoothing}")
        self.in_features, self.num_classes, self.out_features = in_features, num_classes, tuple(out_features)
        self.ignore_index, self.label_smoothing, self.options = ignore_index, label_smoothing, options
        rows = num_classes
        for size in self.out_features:
            rows *= size
        self.linear = Linear(in_features, rows, bias=bias, device=device, dtype=dtype)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss of features `input` for `target`."""
        shape = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.view(*shape, self.in_features),
            target,
            linear_bias=None if bias is None else bias.view(shape),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )

    def extra_repr(self) -> str:
        """Return the sizes and the options."""
        return (
            f"in_features={self.in_features}, num_classes={self.num_classes}, out_features={self.out_features}, "
            f"bias={self.linear.bias is not None}, reduction={self.reduction}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, options={self.options}"
        )


class KLDivLoss(_OfTarget):
    """The Kullback-Leibler divergence of a target distribution from predicted log probabilities.

    ``target * (log(target) - input)``; ``"batchmean"``, the sum divided by the batch size, is the divergence.

    Parameters
    ----------
    size_average : bool, optional
        Deprecated: use `reduction`.
    reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"batchmean", "mean", "sum", "none"}, default "mean"
        Take the mean or the sum of all losses, or return each.
    log_target : bool, default False
        Whether targets are log probabilities, too.

    Shape
    -----
    Input: any. Target: the same. Output: a scalar, or with ``"none"`` as the input.

    Examples
    --------
    >>> p, q = adjoint.tensor([[0.5, 0.5]]), adjoint.tensor([[0.25, 0.75]])
    >>> adjoint.nn.KLDivLoss(reduction="batchmean")(q.log(), p)
    tensor(0.1438)
    """

    _function = "kl_div"
    _options = ["reduction", "log_target"]

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target


class BCELoss(_OfTarget, _WeightedLoss):
    """Binary cross entropy of probabilities: ``-(target * log(input) + (1 - target) * log(1 - input))``.

    Logarithms below -100 are taken as -100. `BCEWithLogitsLoss` is more exact.

    Parameters
    ----------
    weight : Tensor, optional
        Multiplies the loss of each element; it broadcasts to the input.
    size_average, reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"mean", "sum", "none"}, default "mean"
        Take the mean or the sum of all elements' losses, or return each.

    Raises
    ------
    RuntimeError
        When called with an input that is not between 0 and 1.

    Shape
    -----
    Input: any, floats. Target: the same, floats. Output: a scalar, or with ``"none"`` as the input.

    Examples
    --------
    >>> probabilities, target = adjoint.tensor([0.5, 0.9]), adjoint.tensor([1.0, 0.0])
    >>> adjoint.nn.BCELoss(reduction="none")(probabilities, target)
    tensor([0.6931, 2.3026])
    >>> adjoint.nn.BCELoss()(probabilities, target)
    tensor(1.4979)
    """

    _function = "binary_cross_entropy"
    _options = ["weight", "reduction"]


class BCEWithLogitsLoss(_Loss):
    """Binary cross entropy of logits, without overflow: `BCELoss` of ``p = sigmoid(input)``.

    With `pos_weight` it is ``-(pos_weight * target * log(p) + (1 - target) * log(1 - p))``.

    Parameters
    ----------
    weight : Tensor, optional
        Multiplies the loss of each element; it broadcasts to the input.
    size_average, reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"mean", "sum", "none"}, default "mean"
        Take the mean or the sum of all elements' losses, or return each.
    pos_weight : Tensor, optional
        Weight of the positive class; it broadcasts to the input.

    Shape
    -----
    Input: any. Target: the same, floats. Output: a scalar, or with ``"none"`` as the input.

    Examples
    --------
    >>> logits, target = adjoint.tensor([0.0, 100.0]), adjoint.tensor([1.0, 0.0])
    >>> adjoint.nn.BCEWithLogitsLoss(reduction="none")(logits, target)
    tensor([  0.6931, 100.0000])
    >>> adjoint.nn.BCEWithLogitsLoss(pos_weight=adjoint.tensor(2.0))(adjoint.zeros(1), adjoint.ones(1))
    tensor(1.3863)
    """

    weight: Any
    pos_weight: Any

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        """Return the loss of logits `input` for `target`."""
        return F.binary_cross_entropy_with_logits(
            input, target, self.weight, pos_weight=self.pos_weight, reduction=self.reduction
        )


class CTCLoss(_Loss):
    """The loss of a sequence whose alignment with its labels is not known (Graves et al., 2006).

    Parameters
    ----------
    blank : int, default 0
        Class that stands for no label.
    reduction : {"mean", "sum", "none"}, default "mean"
        Take the mean of the losses, each divided by its number of labels, or the sum, or return each.
    zero_infinity : bool, default False
        Whether labels that do not fit into the frames cost nothing; otherwise their loss is infinite.

    Shape
    -----
    Input: log probabilities (T, N, C), labels (N, S) or all in a row, the numbers of frames and of labels (N,).
    Output: a scalar, or with ``"none"`` (N,).

    Examples
    --------
    >>> frames = adjoint.full((2, 1, 2), 0.5).log()
    >>> adjoint.nn.CTCLoss()(frames, adjoint.tensor([[1]]), adjoint.tensor([2]), adjoint.tensor([1])).exp()
    tensor(1.3333)
    """

    __constants__ = ["blank", "reduction"]

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank, self.zero_infinity = blank, zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        """Return the loss of log probabilities (T, N, C) for label sequences."""
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )


# --- Margins ----------------------------------------------------------------------------------------


class HingeEmbeddingLoss(_OfTarget):
    """Distances of similar pairs (target 1), and by how much those of dissimilar ones (-1) fall short of `margin`.

    Parameters
    ----------
    margin : float, default 1.0
        Distance from which pairs that differ cost nothing.
    size_average : bool, optional
        Deprecated: use `reduction`.
    reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"mean", "sum", "none"}, default "mean"
        Take the mean or the sum of all losses, or return each.

    Shape
    -----
    Input: any. Target: the same. Output: a scalar, or with ``"none"`` as the input.

    Examples
    --------
    >>> x, y = adjoint.tensor([0.5, 0.5, 2.0]), adjoint.tensor([1.0, -1.0, -1.0])
    >>> adjoint.nn.HingeEmbeddingLoss(reduction="none")(x, y)
    tensor([0.5000, 0.5000, 0.0000])
    """

    _function = "hinge_embedding_loss"
    __constants__ = _options = ["margin", "reduction"]

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin


class MultiLabelMarginLoss(_OfTarget):
    """By how much the scores of other classes come closer than 1 to those of the right ones, which may be several.

    Parameters
    ----------
    size_average : bool, optional
        Deprecated: use `reduction`.
    reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"mean", "sum", "none"}, default "mean"
        Take the mean or the sum of all losses, or return each.

    Shape
    -----
    Input: (N, C) or (C,). Target: the same, int64, labels that end at the first -1. Output: a scalar, or with
    ``"none"`` (N,).

    Examples
    --------
    >>> adjoint.nn.MultiLabelMarginLoss()(adjoint.tensor([[0.1, 0.2, 0.4, 0.8]]), adjoint.tensor([[3, 0, -1, 1]]))
    tensor(0.8500)
    """

    _function = "multilabel_margin_loss"


class SoftMarginLoss(_OfTarget):
    """The logistic loss of scores for labels 1 and -1: ``log(1 + exp(-target * input))``.

    Parameters
    ----------
    size_average : bool, optional
        Deprecated: use `reduction`.
    reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"mean", "sum", "none"}, default "mean"
        Take the mean or the sum of all losses, or return each.

    Shape
    -----
    Input: any. Target: the same. Output: a scalar, or with ``"none"`` as the input.

    Examples
    --------
    >>> adjoint.nn.SoftMarginLoss()(adjoint.tensor([2.0, -1.0]), adjoint.ones(2))
    tensor(0.7201)
    """

    _function = "soft_margin_loss"


class MultiLabelSoftMarginLoss(_OfTarget, _WeightedLoss):
    """The cross entropy of several yes-or-no labels, the mean of all classes.

    Parameters
    ----------
    weight : Tensor, optional
        Factor of each class, (C,).
    size_average : bool, optional
        Deprecated: use `reduction`.
    reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"mean", "sum", "none"}, default "mean"
        Take the mean or the sum of all losses, or return each.

    Shape
    -----
    Input: (N, C) or (C,). Target: the same, 0 or 1. Output: a scalar, or with ``"none"`` (N,).

    Examples
    --------
    >>> adjoint.nn.MultiLabelSoftMarginLoss()(adjoint.tensor([[2.0, -1.0, 0.0]]), adjoint.tensor([[1.0, 0.0, 1.0]]))
    tensor(0.3778)
    """

    _function = "multilabel_soft_margin_loss"
    _options = ["weight", "reduction"]


class _OfPairs(_Loss):
    """A loss of pairs, with a margin."""

    _function: str
    __constants__ = ["margin", "reduction"]

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        """Return the loss of pairs for `target`, which is 1 or -1."""
        return getattr(F, self._function)(input1, input2, target, margin=self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_OfPairs):
    """One minus the cosine of similar pairs, and by how much that of dissimilar ones exceeds `margin`.

    Parameters
    ----------
    margin : float, default 0.0
        Cosine up to which pairs that differ cost nothing, from -1 to 1.
    size_average : bool, optional
        Deprecated: use `reduction`.
    reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"mean", "sum", "none"}, default "mean"
        Take the mean or the sum of all losses, or return each.

    Shape
    -----
    Input: two of (N, D) or (D,). Target: (N,) or a scalar, 1 or -1. Output: a scalar, or with ``"none"`` (N,).

    Examples
    --------
    >>> a, b = adjoint.tensor([[1.0, 0.0]]), adjoint.tensor([[0.6, 0.8]])
    >>> adjoint.nn.CosineEmbeddingLoss()(a, b, adjoint.tensor([1.0]))
    tensor(0.4000)
    """

    _function = "cosine_embedding_loss"


class MarginRankingLoss(_OfPairs):
    """By how much the larger-ranked of two scores fails to exceed the other by `margin`.

    ``max(0, margin - target * (input1 - input2))``

    Parameters
    ----------
    margin : float, default 0.0
        By how much it should be larger.
    size_average : bool, optional
        Deprecated: use `reduction`.
    reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"mean", "sum", "none"}, default "mean"
        Take the mean or the sum of all losses, or return each.

    Shape
    -----
    Input: two of (N,). Target: (N,), 1 where the first should be larger and -1 where the second should. Output: a
    scalar, or with ``"none"`` (N,).

    Examples
    --------
    >>> a, b = adjoint.tensor([3.0, 1.0]), adjoint.tensor([1.0, 2.0])
    >>> adjoint.nn.MarginRankingLoss(reduction="none")(a, b, adjoint.ones(2))
    tensor([0., 1.])
    """

    _function = "margin_ranking_loss"


class MultiMarginLoss(_OfTarget, _WeightedLoss):
    """By how much the scores of other classes come closer than `margin` to that of the right one.

    Parameters
    ----------
    p : int, default 1
        Power, 1 or 2.
    margin : float, default 1.0
        By how much the score of the labelled class should be above the others.
    weight : Tensor, optional
        Factor for the samples of each class, (C,).
    size_average : bool, optional
        Deprecated: use `reduction`.
    reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"mean", "sum", "none"}, default "mean"
        Take the mean or the sum of all losses, or return each.

    Raises
    ------
    ValueError
        If `p` is neither 1 nor 2.

    Shape
    -----
    Input: (N, C) or (C,). Target: (N,) or a scalar, int64. Output: a scalar, or with ``"none"`` (N,).

    Examples
    --------
    >>> adjoint.nn.MultiMarginLoss()(adjoint.tensor([[0.1, 0.2, 0.9]]), adjoint.tensor([2]))
    tensor(0.1667)
    """

    _function = "multi_margin_loss"
    _options = ["p", "margin", "weight", "reduction"]
    __constants__ = ["p", "margin", "reduction"]

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError("only p == 1 and p == 2 supported")
        if weight is not None and weight.dim() != 1:
            raise ValueError(f"MultiMarginLoss: expected weight to be None or 1D tensor, got {weight.dim()}D instead")
        self.p, self.margin = p, margin


def _check_margin(loss: Module, margin: float) -> None:
    if margin <= 0:
        raise ValueError(f"{type(loss).__name__}: expected margin to be greater than 0, got {margin} instead")


class TripletMarginLoss(_Loss):
    """By how much an anchor is not closer to a positive than to a negative example by `margin`.

    ``max(0, d(anchor, positive) - d(anchor, negative) + margin)``

    Parameters
    ----------
    margin : float, default 1.0
        By how much the positive should be nearer.
    p : float, default 2.0
        Power of the norm of the distance.
    eps : float, default 1e-06
        Added to each difference.
    swap : bool, default False
        Whether the distance of the negative is the smaller of those to the anchor and to the positive.
    size_average : bool, optional
        Deprecated: use `reduction`.
    reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"mean", "sum", "none"}, default "mean"
        Take the mean or the sum of all losses, or return each.

    Shape
    -----
    Input: three of (N, D) or (D,). Output: a scalar, or with ``"none"`` (N,).

    Examples
    --------
    >>> a, near, far = adjoint.zeros(1, 2), adjoint.tensor([[3.0, 4.0]]), adjoint.tensor([[0.0, 5.5]])
    >>> adjoint.nn.TripletMarginLoss()(a, near, far)
    tensor(0.5000)
    """

    __constants__ = ["margin", "p", "eps", "swap", "reduction"]

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        _check_margin(self, margin)
        self.margin, self.p, self.eps, self.swap = margin, p, eps, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Return the loss of triplets."""
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """`TripletMarginLoss` with any distance.

    Parameters
    ----------
    distance_function : callable, optional
        Called with two of the tensors, returns their distances; `PairwiseDistance` by default.
    margin : float, default 1.0
        By how much the positive should be nearer.
    swap : bool, default False
        Whether the distance of the negative is the smaller of those to the anchor and to the positive.
    reduction : {"mean", "sum", "none"}, default "mean"
        Take the mean or the sum of all losses, or return each.

    Shape
    -----
    Input: three of (N, D) or (D,). Output: a scalar, or with ``"none"`` (N,).

    Examples
    --------
    >>> loss = adjoint.nn.TripletMarginWithDistanceLoss(distance_function=lambda x, y: (x - y).abs().sum(-1))
    >>> loss(adjoint.zeros(1, 2), adjoint.tensor([[1.0, 2.0]]), adjoint.tensor([[0.0, 2.5]]))
    tensor(1.5000)
    """

    __constants__ = ["margin", "swap", "reduction"]

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        _check_margin(self, margin)
        self.distance_function = F.pairwise_distance if distance_function is None else distance_function
        self.margin, self.swap = margin, swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """Return the loss of triplets."""
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )
