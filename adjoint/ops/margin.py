"""Margin losses: between classes, between pairs, between triplets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._typing import Array, Tensor
from ..core.device import CPU
from ..core.device import of as device_of
from ..core.dtypes import of
from ..core.folding import fold
from ..core.payload import Payload
from .activation import log_sigmoid_p, relu_p
from .arguments import constant_beside
from .bounds import outlier
from .gather import gather_p
from .loss import NONE, reduced, reduction_of
from .measure import vector_norm_p
from .piecewise import clamp_min, where_p
from .precision import autocasting
from .reduce import sum_p, title_of
from .shape import reshape_p


@autocasting
def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Average distances where `target` is 1, and how far they are below `margin` where it is -1.

    ``input`` where `target` is 1, and ``max(0, margin - input)`` where it is -1.

    Parameters
    ----------
    input : Tensor
        Distances, of any shape.
    target : Tensor
        1 for pairs that are alike, -1 for others; broadcast with `input`.
    margin : float, default 1.0
        Distance from which pairs that differ cost nothing.
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
    >>> x, y = adjoint.tensor([0.5, 0.5, 2.0]), adjoint.tensor([1.0, -1.0, -1.0])
    >>> adjoint.nn.functional.hinge_embedding_loss(x, y, reduction="none")
    tensor([0.5000, 0.5000, 0.0000])
    >>> adjoint.nn.functional.hinge_embedding_loss(x, y, reduction="sum")
    tensor(1.)
    """
    code = reduction_of(reduction, size_average, reduce)
    far = where_p(target != 1, clamp_min(margin - input, 0), 0)
    near = where_p(target != -1, input, 0)
    return reduced(far + near, code)


@autocasting
def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Average ``max(0, margin - target * (input1 - input2))``: the first should be larger where `target` is 1.

    Parameters
    ----------
    input1 : Tensor
        First scores.
    input2 : Tensor
        Second scores, broadcast with the first.
    target : Tensor
        1 where the first score should be larger, -1 where the second should.
    margin : float, default 0
        By how much it should be larger.
    size_average : bool, optional
        Deprecated: use `reduction`.
    reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"mean", "sum", "none"}, default "mean"
        Return the mean of the losses, their sum, or one loss per sample.

    Returns
    -------
    Tensor
        Scalar, or with ``reduction="none"`` one loss per pair.

    Raises
    ------
    RuntimeError
        If the three tensors do not have the same number of dimensions.

    Examples
    --------
    >>> a, b = adjoint.tensor([3.0, 1.0]), adjoint.tensor([1.0, 2.0])
    >>> adjoint.nn.functional.margin_ranking_loss(a, b, adjoint.ones(2), reduction="none")
    tensor([0., 1.])
    >>> adjoint.nn.functional.margin_ranking_loss(a, b, adjoint.ones(2), margin=1.0)
    tensor(1.)
    """
    code = reduction_of(reduction, size_average, reduce)
    ranks = {x.array.ndim for x in (input1, input2, target)}
    if len(ranks) > 1:
        raise RuntimeError(
            "margin_ranking_loss : All input tensors should have same dimension but got sizes: input1: "
            f"{list(input1.array.shape)}, input2: {list(input2.array.shape)}, target: {list(target.array.shape)} "
        )
    return reduced(clamp_min(-target * (input1 - input2) + margin, 0), code)


_SMALL_SQUARE = 1e-12


@autocasting
def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Average ``1 - cos`` of pairs whose `target` is 1, and how far the cosine is above `margin` where it is -1.

    Parameters
    ----------
    input1 : Tensor
        Vectors, (N, D) or (D,).
    input2 : Tensor
        Vectors to compare them with, of the same shape.
    target : Tensor
        1 for pairs that are alike, -1 for others; (N,) or a scalar.
    margin : float, default 0
        Cosine up to which pairs that differ cost nothing, from -1 to 1.
    size_average : bool, optional
        Deprecated: use `reduction`.
    reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"mean", "sum", "none"}, default "mean"
        Return the mean of the losses, their sum, or one loss per sample.

    Returns
    -------
    Tensor
        Scalar, or with ``reduction="none"`` one loss per pair.

    Examples
    --------
    >>> a, b = adjoint.tensor([[1.0, 0.0], [1.0, 0.0]]), adjoint.tensor([[0.0, 1.0], [2.0, 0.0]])
    >>> adjoint.nn.functional.cosine_embedding_loss(a, b, adjoint.tensor([1.0, -1.0]), reduction="none")
    tensor([1., 1.])
    """
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


def _check_margin_labels(target: Tensor, name: str) -> None:
    t = target.array
    if of(t.dtype).name != "int64":
        raise RuntimeError(f"{name}: expected scalar type Long but found {title_of(t.dtype)} for the target")


def _check_range(labels: Array, low: int, high: int) -> None:
    """Raise if a label is out of bounds; on a GPU the kernel that gathers by it does."""
    if not isinstance(labels, Payload) and device_of(labels) == CPU and outlier(labels, low, high) is not None:
        raise RuntimeError("target out of range")


@autocasting
def multi_margin_loss(
    input: Tensor, target: Tensor, p: Any = 1, margin: float = 1.0, weight: Tensor | None = None,
    size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Average, over classes, how far each is from being `margin` below the labelled one, to the power `p`.

    ``sum_c max(0, margin - input[target] + input[c])**p / C`` over the classes c other than `target`.

    Parameters
    ----------
    input : Tensor
        Scores, (N, C) or (C,).
    target : Tensor
        Classes, (N,) or a scalar, int64.
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
        Return the mean of the losses, their sum, or one loss per sample.

    Returns
    -------
    Tensor
        Scalar, or with ``reduction="none"`` one loss per sample.

    Raises
    ------
    ValueError
        If `p` is neither 1 nor 2.

    Examples
    --------
    >>> x = adjoint.tensor([[0.1, 0.2, 0.9], [2.0, 0.0, 0.0]])
    >>> adjoint.nn.functional.multi_margin_loss(x, adjoint.tensor([2, 0]), reduction="none")
    tensor([0.1667, 0.0000])
    >>> adjoint.nn.functional.multi_margin_loss(x, adjoint.tensor([2, 0]))
    tensor(0.0833)
    """
    code = reduction_of(reduction, size_average, reduce)
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    a, t = input.array, target.array
    if weight is not None and weight.array.ndim != 1:
        raise ValueError("weight must be one-dimensional")
    if a.ndim > 2 or (a.size == 0 and (a.ndim < 2 or a.shape[1] == 0)):
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(a.shape)}"
        )
    single = a.ndim < 2
    rows = reshape_p(input, (1, -1)) if single else input
    count, classes = rows.array.shape
    if t.ndim > 1 or t.size != count:
        raise RuntimeError(
            f"target tensor should be 1-D with size equal to the batch's. Expected target size [{count}], but got "
            f"{list(t.shape)} (inconsistent target size)"
        )
    if weight is not None and weight.array.size != classes:
        raise RuntimeError(f"inconsistent weight size, expected {classes} but got {list(weight.array.shape)}")
    _check_margin_labels(target, "multi_margin_loss")
    _check_range(t, 0, classes)
    labels = reshape_p(target, (count, 1))
    short = relu_p(margin - gather_p(rows, labels, 1) + rows)
    if p == 2:
        short = short * short
    if weight is not None:
        short = short * reshape_p(gather_p(weight, reshape_p(target, (count,)), 0), (count, 1))
    own = labels == constant_beside(np.arange(classes), labels)
    losses: Tensor = sum_p(where_p(own, 0, short), (1,), False) / classes
    if code == NONE:
        losses = reshape_p(losses, tuple(t.shape)) if single else losses
    else:
        losses = reduced(losses, code)
    return fold(losses, "MultiMarginLossBackward0", input, margin=margin, p=p, reduction=code)


@autocasting
def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Average how far each class outside the labels is from being 1 below each label.

    ``sum max(0, 1 - input[j] + input[c]) / C`` over the labels j and the classes c that are not labels.

    Parameters
    ----------
    input : Tensor
        Scores, (N, C) or (C,).
    target : Tensor
        Labels, of the shape of `input`, int64; those of a sample end at its first -1.
    size_average : bool, optional
        Deprecated: use `reduction`.
    reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"mean", "sum", "none"}, default "mean"
        Return the mean of the losses, their sum, or one loss per sample.

    Returns
    -------
    Tensor
        Scalar, or with ``reduction="none"`` one loss per sample.

    Examples
    --------
    >>> x = adjoint.tensor([[0.1, 0.2, 0.4, 0.8]])
    >>> adjoint.nn.functional.multilabel_margin_loss(x, adjoint.tensor([[3, 0, -1, 1]]))
    tensor(0.8500)
    """
    code = reduction_of(reduction, size_average, reduce)
    a, t = input.array, target.array
    if a.ndim > 2 or (a.size == 0 and (a.ndim < 2 or a.shape[1] == 0)):
        raise RuntimeError(
            f"Expected non-empty vector or matrix with optional 0-dim batch size, but got: {list(a.shape)}"
        )
    if tuple(t.shape) != tuple(a.shape):
        raise RuntimeError(f"inconsistent target size: {list(t.shape)} for input of size: {list(a.shape)}")
    _check_margin_labels(target, "multilabel_margin_loss")
    _check_range(t, -1, max(a.shape[-1:], default=1))
    single = a.ndim < 2
    rows = reshape_p(input, (1, -1)) if single else input
    labels = reshape_p(target, tuple(rows.array.shape))
    count, classes = rows.array.shape
    there = (labels == -1).cumsum(1) == 0
    places = where_p(there, labels, 0)
    numbers = constant_beside(np.arange(classes), rows)
    apart = (reshape_p(places, (count, -1, 1)) == numbers) & reshape_p(there, (count, -1, 1))
    others = ~apart.any(1)
    short = relu_p(1 - reshape_p(gather_p(rows, places, 1), (count, -1, 1)) + reshape_p(rows, (count, 1, -1)))
    pairs = reshape_p(there, (count, -1, 1)) & reshape_p(others, (count, 1, -1))
    losses: Tensor = sum_p(where_p(pairs, short, 0), (1, 2), False) / classes
    if code == NONE:
        losses = reshape_p(losses, ()) if single else losses
    else:
        losses = reduced(losses, code)
    return fold(losses, "MultilabelMarginLossBackward0", input, reduction=code)


def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: bool | None = None,
    reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Average the logistic losses of all classes, each label being 0 or 1.

    ``-(target * log(sigmoid(input)) + (1 - target) * log(sigmoid(-input)))``, the mean of all classes.

    Parameters
    ----------
    input : Tensor
        Scores, (N, C) or (C,).
    target : Tensor
        0 or 1 for each class, of the shape of `input`.
    weight : Tensor, optional
        Factor of each class, (C,).
    size_average : bool, optional
        Deprecated: use `reduction`.
    reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"mean", "sum", "none"}, default "mean"
        Return the mean of the losses, their sum, or one loss per sample.

    Returns
    -------
    Tensor
        Scalar, or with ``reduction="none"`` one loss per sample.

    Examples
    --------
    >>> x = adjoint.tensor([[2.0, -1.0, 0.0]])
    >>> adjoint.nn.functional.multilabel_soft_margin_loss(x, adjoint.tensor([[1.0, 0.0, 1.0]]))
    tensor(0.3778)
    """
    code = reduction_of(reduction, size_average, reduce)
    if not input.array.ndim:
        raise IndexError("Dimension specified as -1 but tensor has no dimensions")
    loss = -(target * log_sigmoid_p(input) + (1 - target) * log_sigmoid_p(-input))
    if weight is not None:
        loss = loss * weight
    rank = input.array.ndim
    loss = sum_p(loss, (rank - 1,), False) / input.array.shape[-1]
    return reduced(loss, code)


def pairwise_distance(
    x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False, *, keepdims: bool = False
) -> Tensor:
    """Measure the distance of vectors along the last dimension; `eps` is added to each difference.

    ``(sum_d |x1[d] - x2[d] + eps|**p) ** (1 / p)``

    Parameters
    ----------
    x1 : Tensor
        Vectors, (N, D) or (D,).
    x2 : Tensor
        Vectors of the same size, broadcast with `x1`.
    p : float, default 2.0
        Power of the norm.
    eps : float, default 1e-06
        Added to each difference, so that the gradient at distance 0 is finite.
    keepdim : bool, default False
        Whether the last dimension stays, with size 1.

    Returns
    -------
    Tensor
        ``(N,)``, or ``(N, 1)`` with `keepdim`.

    Examples
    --------
    >>> adjoint.pairwise_distance(adjoint.zeros(1, 2), adjoint.tensor([[3.0, 4.0]]), eps=0.0)
    tensor([5.])
    """
    keepdim = keepdim or keepdims
    rank = max(x1.array.ndim, x2.array.ndim)
    away = x1 - x2 + eps
    return vector_norm_p(away, float(p), (rank - 1,) if rank else (), keepdim)


@autocasting
def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, eps: float = 1e-6,
    swap: bool = False, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Average how far positives are from being `margin` nearer to the anchor than negatives.

    ``max(0, d(anchor, positive) - d(anchor, negative) + margin)``, with the distance d of `pairwise_distance`.

    Parameters
    ----------
    anchor : Tensor
        Vectors, (N, D) or (D,).
    positive : Tensor
        Vectors that should be near, of the shape of `anchor`.
    negative : Tensor
        Vectors that should be far, of the shape of `anchor`.
    margin : float, default 1.0
        By how much the positive should be nearer.
    p : float, default 2
        Power of the norm.
    eps : float, default 1e-06
        Added to each difference.
    swap : bool, default False
        Whether the distance of the negative is the smaller of those to the anchor and to the positive.
    size_average : bool, optional
        Deprecated: use `reduction`.
    reduce : bool, optional
        Deprecated: use `reduction`.
    reduction : {"mean", "sum", "none"}, default "mean"
        Return the mean of the losses, their sum, or one loss per sample.

    Returns
    -------
    Tensor
        Scalar, or with ``reduction="none"`` one loss per triple.

    Examples
    --------
    >>> a, near, far = adjoint.zeros(1, 2), adjoint.tensor([[3.0, 4.0]]), adjoint.tensor([[0.0, 5.5]])
    >>> adjoint.nn.functional.triplet_margin_loss(a, near, far)
    tensor(0.5000)
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
    """Take the triplet loss with a distance of one's own; without one, with `pairwise_distance`.

    Parameters
    ----------
    anchor : Tensor
        Vectors, (N, D) or (D,).
    positive : Tensor
        Vectors that should be near, of the shape of `anchor`.
    negative : Tensor
        Vectors that should be far, of the shape of `anchor`.
    distance_function : callable, optional
        Called with two of the tensors, returns their distances; `pairwise_distance` without it.
    margin : float, default 1.0
        By how much the positive should be nearer.
    swap : bool, default False
        Whether the distance of the negative is the smaller of those to the anchor and to the positive.
    reduction : {"mean", "sum", "none"}, default "mean"
        Return the mean of the losses, their sum, or one loss per sample.

    Returns
    -------
    Tensor
        Scalar, or with ``reduction="none"`` one loss per triple.

    Examples
    --------
    >>> a, near, far = adjoint.zeros(1, 2), adjoint.tensor([[1.0, 2.0]]), adjoint.tensor([[0.0, 2.5]])
    >>> def city(x, y):
    ...     return (x - y).abs().sum(-1)
    >>> adjoint.nn.functional.triplet_margin_with_distance_loss(a, near, far, distance_function=city)
    tensor(1.5000)
    """
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
