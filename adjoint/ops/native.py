"""Functions of layers as ``torch.NAME`` has them: their argument order differs from torch.nn.functional's.

Reductions are numbers here (0 none, 1 mean, 2 sum), and what is computed on the way comes back too.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .._typing import DType, Ints, Out, Tensor
from ..core.nodes import wrap
from ..core.observation import observer
from . import bags, ctc, loss, norm
from . import margin as margins
from .arguments import beside, dim_in
from .bags import bilinear, embedding_renorm_
from .create import into
from .dropout import drop, drop_alpha, kept
from .elementwise import mul_p, sub_p
from .margin import pairwise_distance
from .measure import pdist
from .norm import cosine_similarity, rms_norm
from .reduce import mean_p
from .shape import cast_p, reshape_p

__all__ = [
    "alpha_dropout", "alpha_dropout_", "batch_norm", "bilinear", "binary_cross_entropy_with_logits",
    "cosine_embedding_loss", "cosine_similarity", "ctc_loss", "dropout", "dropout_", "embedding_bag",
    "embedding_renorm_", "feature_alpha_dropout", "feature_alpha_dropout_", "feature_dropout", "feature_dropout_",
    "group_norm", "hinge_embedding_loss", "instance_norm", "kl_div", "layer_norm", "margin_ranking_loss",
    "native_batch_norm", "native_dropout", "native_group_norm", "native_layer_norm", "pairwise_distance", "pdist",
    "poisson_nll_loss", "rms_norm", "triplet_margin_loss",
]  # fmt: skip

# --- Dropout ----------------------------------------------------------------------------------------


def _chance(p: float) -> float:
    if not 0 <= p <= 1:
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {p}")
    return p


def dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Replace elements by zero with probability `p` in training, and scale the others."""
    return drop(input, _chance(p), train, False)


def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """Replace elements by zero with probability `p` in training, in place."""
    return drop(input, _chance(p), train, True)


def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Replace whole channels by zero with probability `p` in training, and scale the others."""
    return drop(input, _chance(p), train, False, True)


def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """Replace whole channels by zero with probability `p` in training, in place."""
    return drop(input, _chance(p), train, True, True)


def alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Replace random elements by the infimum of `selu`, and preserve mean and variance."""
    return drop_alpha(input, _chance(p), train, False, False)


def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """Apply `alpha_dropout` in place."""
    return drop_alpha(input, _chance(p), train, True, False)


def feature_alpha_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Replace random channels by the infimum of `selu`, and preserve mean and variance."""
    return drop_alpha(input, _chance(p), train, False, True)


def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """Apply `feature_alpha_dropout` in place."""
    return drop_alpha(input, _chance(p), train, True, True)


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Return the result of dropout, and a mask of the elements that were not dropped."""
    if math.prod(input.array.shape) == 0 or train is False:
        return input.clone(), beside(np.ones(tuple(input.array.shape), bool), input)
    mask = wrap(kept(input, 1 - _chance(p)) != 0)
    scale = 0.0 if p == 1 else 1.0 / (1.0 - p)
    return mul_p(mul_p(input, cast_p(mask, input.array.dtype)), scale), mask


# --- Normalization ----------------------------------------------------------------------------------


def layer_norm(
    input: Tensor, normalized_shape: Ints, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5, cudnn_enable: bool = True,
) -> Tensor:  # fmt: skip
    """Normalize the last dimensions to mean 0 and variance 1, then scale and shift."""
    return norm.layer_norm(input, normalized_shape, weight, bias, eps)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """Normalize each of `num_groups` groups of channels of each sample."""
    return norm.group_norm(input, num_groups, weight, bias, eps)


def batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float, cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """Normalize each channel over the batch, or by the running statistics."""
    return norm.batch_normed(input, running_mean, running_var, weight, bias, training, momentum, eps)[0]


def instance_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, use_input_stats: bool, momentum: float, eps: float, cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """Normalize each channel of each sample over its own elements."""
    return norm.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


def _moments(x: Tensor, axes: tuple[int, ...], eps: float) -> tuple[Tensor, Tensor]:
    """Return the means and inverse deviations along `axes`, which are left at size 1."""
    mean = mean_p(x, axes, True)
    away = sub_p(x, mean)
    return mean, (mean_p(mul_p(away, away), axes, True) + eps).rsqrt()


def native_layer_norm(
    input: Tensor, normalized_shape: Any, weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the result of `layer_norm`, the means, and the inverse deviations."""
    out = norm.layer_norm(input, normalized_shape, weight, bias, eps)
    rank = input.array.ndim
    return out, *_moments(input.detach(), tuple(range(rank - len(normalized_shape), rank)), eps)


def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the result of `group_norm`, the means, and the inverse deviations."""
    if N < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {N}: [{N}, {group}]")
    if C % group or C < 0:
        raise RuntimeError(
            f"Expected number of channels in input to be divisible by num_groups, but got {C} channels and "
            f"num_groups={group}"
        )
    out = norm.group_norm(input, group, weight, bias, eps)
    mean, rstd = _moments(reshape_p(input, (N, group, C // group * HxW)), (2,), eps)
    return out, reshape_p(mean, (N, group)), reshape_p(rstd, (N, group))


def native_batch_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, running_mean: Tensor | None,
    running_var: Tensor | None, training: bool, momentum: float, eps: float, *, out: Out = None,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return the result of `batch_norm`, and the means and inverse deviations of a training batch."""
    dim_in(1, input.array.ndim)
    result, found, axes = norm.batch_normed(input, running_mean, running_var, weight, bias, training, momentum, eps)
    if not training:
        empty = beside(np.zeros(0, input.array.dtype), input)
        results = (result, empty, empty.clone())
    else:
        known = bool(found) and observer() is None
        pair = (wrap(found[0]), wrap(found[2])) if known else _moments(input.detach(), axes, eps)
        given = next((t for t in (weight, running_mean) if t is not None), input)
        mean, rstd = (cast_p(reshape_p(x, (math.prod(x.array.shape),)), given.array.dtype) for x in pair)
        results = (result, mean, rstd)
    return results if out is None else tuple(into(o, r) for o, r in zip(out, results, strict=True))


# --- What programs call by the names inside of torch ------------------------------------------------


def _softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: DType) -> Tensor:
    """Return the gradient of a softmax from its result."""
    slopes = grad_output * output
    return (slopes - output * slopes.sum(dim, True)).to(input_dtype)


def _log_softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: DType) -> Tensor:
    """Return the gradient of a log_softmax from its result."""
    return (grad_output - output.exp() * grad_output.sum(dim, True)).to(input_dtype)


def _safe_softmax(input: Tensor, dim: int, dtype: DType | None = None) -> Tensor:
    """Return a softmax that is zero where nothing counts: where all elements are minus infinity."""
    nothing = (input == -math.inf).all(dim, True)
    return input.masked_fill(nothing, 0.0).softmax(dim, dtype=dtype).masked_fill(nothing, 0.0)


def native_dropout_backward(grad_output: Tensor, mask: Tensor, scale: float) -> Tensor:
    """Return the gradient of `native_dropout` from the mask that it returned."""
    return mul_p(mul_p(grad_output, cast_p(mask, grad_output.array.dtype)), scale)


def max_pool2d_with_indices_backward(
    grad_output: Tensor, input: Tensor, kernel_size: Ints, stride: Ints, padding: Ints, dilation: Ints, ceil_mode: bool,
    indices: Tensor,
) -> Tensor:  # fmt: skip
    """Return the gradient of `max_pool2d` from where its results were found."""
    zeros = input.new_zeros(tuple(input.shape)).flatten(-2)
    return zeros.scatter_add(-1, indices.flatten(-2), grad_output.flatten(-2)).reshape(tuple(input.shape))


def _native_batch_norm_legit(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, *rest: object, out: Out = None
) -> tuple[Tensor, ...]:
    """Do the same as `native_batch_norm`, whose running statistics may be left out."""
    all_of: tuple[Any, ...] = (None,) * (5 - len(rest)) + rest
    return native_batch_norm(input, weight, bias, *all_of, out=out)


# --- Losses -----------------------------------------------------------------------------------------


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, pos_weight: Tensor | None = None, reduction: int = 1
) -> Tensor:
    """Average the cross entropy of ``sigmoid(input)`` and `target`."""
    return loss.binary_cross_entropy_with_logits(input, target, weight, None, None, loss.Code(reduction), pos_weight)  # type: ignore[arg-type]


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """Average ``1 - cos`` of pairs that belong together, and how far others are above `margin`."""
    return margins.cosine_embedding_loss(input1, input2, target, margin, None, None, loss.Code(reduction))  # type: ignore[arg-type]


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: int = 1,
    zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """Average the negative log-probability that frames spell the labels."""
    return ctc.ctc_loss(log_probs, targets, input_lengths, target_lengths, blank, loss.Code(reduction), zero_infinity)  # type: ignore[arg-type]


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, reduction: int = 1) -> Tensor:
    """Average distances where `target` is 1, and how far they are below `margin` where it is -1."""
    return margins.hinge_embedding_loss(input, target, margin, None, None, loss.Code(reduction))  # type: ignore[arg-type]


def kl_div(input: Tensor, target: Tensor, reduction: int = 1, *, log_target: bool = False) -> Tensor:
    """Average ``target * (log(target) - input)``."""
    return loss.kl_div(input, target, None, None, loss.Code(reduction), log_target)  # type: ignore[arg-type]


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0.0, reduction: int = 1
) -> Tensor:
    """Average ``max(0, margin - target * (input1 - input2))``."""
    return margins.margin_ranking_loss(input1, input2, target, margin, None, None, loss.Code(reduction))  # type: ignore[arg-type]


def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool, full: bool, eps: float, reduction: int) -> Tensor:
    """Average the negative log likelihood of counts under Poisson distributions."""
    return loss.poisson_nll_loss(input, target, log_input, full, None, eps, None, loss.Code(reduction))  # type: ignore[arg-type]


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, eps: float = 1e-6,
    swap: bool = False, reduction: int = 1,
) -> Tensor:  # fmt: skip
    """Average how far positives are from being `margin` nearer to the anchor than negatives."""
    code: Any = loss.Code(reduction)
    return margins.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, None, None, code)


# --- Bags -------------------------------------------------------------------------------------------

_MODES = ("sum", "mean", "max")


def embedding_bag(
    weight: Tensor, indices: Tensor, offsets: Tensor, scale_grad_by_freq: bool = False, mode: int = 0,
    sparse: bool = False, per_sample_weights: Tensor | None = None, include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """Return bags of rows, the number of each index's bag, the sizes of bags, and the places of maxima."""
    rows = weight.array.shape[0]
    padding = -1 if padding_idx is None else padding_idx + rows if padding_idx < 0 else padding_idx
    return bags.bagged(
        weight, indices, offsets, scale_grad_by_freq, _MODES[mode], per_sample_weights, include_last_offset, padding
    )
