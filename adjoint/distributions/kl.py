"""Kullback-Leibler divergences: one formula per pair of families, and how others add theirs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from .._typing import Tensor
from ..linalg import solve_triangular
from ..ops.activation import softplus
from .bernoulli import Bernoulli, ContinuousBernoulli, Geometric
from .categorical import Categorical, OneHotCategorical
from .composed import Independent, TransformedDistribution
from .counts import Binomial, Poisson
from .distribution import Distribution, ExponentialFamily
from .gamma import Beta, Dirichlet, Exponential, Gamma
from .location import Cauchy, HalfNormal, Laplace, Normal
from .multivariate import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    _batch_lowrank_mahalanobis,
    _batch_mahalanobis,
)
from .uniform import Gumbel, Pareto, Uniform
from .utils import _sum_rightmost, euler_constant, ops

Formula = Callable[[Any, Any], Any]

__all__ = ["kl_divergence", "register_kl"]

_KL_REGISTRY: dict[tuple[type, type], Formula] = {}
_KL_MEMOIZE: dict[tuple[type, type], Formula] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Formula], Formula]:
    """Register the decorated function as the divergence of two classes of distributions.

    Where several match a pair of classes, the one for the most derived classes is taken.

    Parameters
    ----------
    type_p, type_q : type
        The classes of the two arguments of `kl_divergence`.

    Returns
    -------
    callable
        A decorator for a function ``(p, q) -> Tensor``.

    Examples
    --------
    >>> d = adjoint.distributions
    >>> class Point(d.Normal):
    ...     pass
    >>> @d.register_kl(Point, d.Normal)
    ... def _(p, q):
    ...     return -q.log_prob(p.loc)
    >>> d.kl_divergence(Point(0.0, 1.0), d.Normal(0.0, 1.0))
    tensor(0.9189)
    """
    # Any class: libraries register pairs for distributions of their own, which need not derive from ours.
    if not isinstance(type_p, type):
        raise TypeError(f"Expected type_p to be a Distribution subclass but got {type_p}")
    if not isinstance(type_q, type):
        raise TypeError(f"Expected type_q to be a Distribution subclass but got {type_q}")

    def decorator(fun: Formula) -> Formula:
        _KL_REGISTRY[type_p, type_q] = fun
        _KL_MEMOIZE.clear()
        return fun

    return decorator


def _dispatch(type_p: type, type_q: type) -> Formula:
    """Return the formula of the nearest registered classes; warn if two are equally near."""
    found = [(p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not found:
        return _no_formula
    left = min(found, key=lambda pair: (type_p.__mro__.index(pair[0]), type_q.__mro__.index(pair[1])))
    right = min(found, key=lambda pair: (type_q.__mro__.index(pair[1]), type_p.__mro__.index(pair[0])))
    if _KL_REGISTRY[left] is not _KL_REGISTRY[right]:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please "
            f"register_kl({left[0].__name__}, {right[1].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return _KL_REGISTRY[left]


def _no_formula(p: Any, q: Any) -> Any:
    return NotImplemented


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Return the Kullback-Leibler divergence of `q` from `p`.

    ``KL(p ‖ q) = E_p[log p(x) - log q(x)]``, from the formula registered for the two classes; see `register_kl`.

    Parameters
    ----------
    p, q : Distribution
        Batches that broadcast.

    Returns
    -------
    Tensor
        Of the broadcast batch shape, in nats; differentiable in the parameters of both.

    Raises
    ------
    NotImplementedError
        If no formula is registered for the classes of `p` and `q`.

    Examples
    --------
    >>> Normal = adjoint.distributions.Normal
    >>> adjoint.distributions.kl_divergence(Normal(1.0, 1.0), Normal(0.0, 1.0))
    tensor(0.5000)
    """
    key = type(p), type(q)
    formula = _KL_MEMOIZE.get(key)
    if formula is None:
        formula = _KL_MEMOIZE[key] = _dispatch(*key)
    result = formula(p, q)
    if result is NotImplemented:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {p.__class__.__name__} and q type {q.__class__.__name__}"
        )
    return result


def _infinite_like(tensor: Tensor) -> Tensor:
    return ops.full_like(tensor, math.inf)


def _x_log_x(tensor: Tensor) -> Tensor:
    return ops.xlogy(tensor, tensor)


def _never(type_p: type, *types_q: type, of: str) -> None:
    """Register an infinite divergence: `p` reaches where `q` does not; `of` is a parameter of its shape."""

    def formula(p: Any, q: Any) -> Any:
        return _infinite_like(getattr(p, of))

    for type_q in types_q:
        register_kl(type_p, type_q)(formula)


_never(Beta, Pareto, of="concentration1")
_never(ContinuousBernoulli, Pareto, of="probs")
_never(Exponential, Beta, ContinuousBernoulli, Pareto, Uniform, of="rate")
_never(Gamma, Beta, ContinuousBernoulli, Pareto, Uniform, of="concentration")
_never(Gumbel, Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform, of="loc")
_never(Laplace, Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform, of="loc")
_never(Normal, Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform, of="loc")
_never(Pareto, Beta, ContinuousBernoulli, Uniform, of="scale")
_never(Poisson, Bernoulli, Binomial, of="rate")


# --- Whole families ---------------------------------------------------------------------------------


@register_kl(ExponentialFamily, ExponentialFamily)
def _family(p: Any, q: Any) -> Tensor:
    if type(p) is not type(q):
        raise NotImplementedError(
            "The cross KL-divergence between different exponential families cannot "
            "be computed using Bregman divergences"
        )
    normalizer, natural, gradients = p._normalizer_with_gradients()
    result = q._log_normalizer(*q._natural_params) - normalizer
    for mine, theirs, g in zip(natural, q._natural_params, gradients, strict=True):
        result = result - _sum_rightmost((theirs - mine) * g, len(q.event_shape))
    return result


@register_kl(Independent, Independent)
def _independent(p: Any, q: Any) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("the two have different numbers of reinterpreted batch dimensions")
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: Any, q: Any) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("the two have different transforms or event shapes")
    return kl_divergence(p.base_dist, q.base_dist)


# --- Of a family with itself ------------------------------------------------------------------------


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Any, q: Any) -> Tensor:
    ones = p.probs * (softplus(-q.logits) - softplus(-p.logits))
    ones = ops.where(q.probs == 0, math.inf, ones)
    ones = ops.where(p.probs == 0, 0.0, ones)
    zeros = (1 - p.probs) * (softplus(q.logits) - softplus(p.logits))
    zeros = ops.where(q.probs == 1, math.inf, zeros)
    return ones + ops.where(p.probs == 1, 0.0, zeros)


@register_kl(Beta, Beta)
def _beta(p: Any, q: Any) -> Tensor:
    p_total, q_total = p.concentration1 + p.concentration0, q.concentration1 + q.concentration0
    norm = q.concentration1.lgamma() + q.concentration0.lgamma() + p_total.lgamma()
    norm = norm - (p.concentration1.lgamma() + p.concentration0.lgamma() + q_total.lgamma())
    first = (p.concentration1 - q.concentration1) * ops.digamma(p.concentration1)
    second = (p.concentration0 - q.concentration0) * ops.digamma(p.concentration0)
    return norm + first + second + (q_total - p_total) * ops.digamma(p_total)


@register_kl(Binomial, Binomial)
def _binomial(p: Any, q: Any) -> Tensor:
    # Only if p has no more trials than q, and if it has fewer, there is no closed form.
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    kl = p.total_count * (p.probs * (p.logits - q.logits) + (-p.probs).log1p() - (-q.probs).log1p())
    return ops.where(p.total_count > q.total_count, math.inf, kl)


@register_kl(Categorical, Categorical)
def _categorical(p: Any, q: Any) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = ops.where((q.probs == 0).expand_as(terms), math.inf, terms)
    return ops.where((p.probs == 0).expand_as(terms), 0.0, terms).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _one_hot_categorical(p: Any, q: Any) -> Tensor:
    return _categorical(p._categorical, q._categorical)


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Any, q: Any) -> Tensor:
    # Chyzak and Nielsen, 2019
    return ((p.scale + q.scale).pow(2) + (p.loc - q.loc).pow(2)).log() - (4 * p.scale * q.scale).log()


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: Any, q: Any) -> Tensor:
    norm = p._cont_bern_log_norm() + ops.log1p(-p.probs) - q._cont_bern_log_norm() - ops.log1p(-q.probs)
    return p.mean * (p.logits - q.logits) + norm


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Any, q: Any) -> Tensor:
    p_total, q_total = p.concentration.sum(-1), q.concentration.sum(-1)
    norm = p_total.lgamma() - q_total.lgamma() - (p.concentration.lgamma() - q.concentration.lgamma()).sum(-1)
    score = p.concentration.digamma() - p_total.digamma().unsqueeze(-1)
    return norm + ((p.concentration - q.concentration) * score).sum(-1)


@register_kl(Exponential, Exponential)
def _exponential(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    return -ratio.log() + ratio - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Any, q: Any) -> Tensor:
    norm = q.concentration * (p.rate / q.rate).log() + ops.lgamma(q.concentration) - ops.lgamma(p.concentration)
    score = (p.concentration - q.concentration) * ops.digamma(p.concentration)
    return norm + score + (q.rate - p.rate) * (p.concentration / p.rate)


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Any, q: Any) -> Tensor:
    ratio, p_shift, q_shift = p.scale / q.scale, p.loc / q.scale, q.loc / q.scale
    away = -ratio.log() - q_shift + p_shift
    return away + ratio * euler_constant + ops.exp(q_shift + (1 + ratio).lgamma() - p_shift) - (1 + euler_constant)


@register_kl(Geometric, Geometric)
def _geometric(p: Any, q: Any) -> Tensor:
    return -p.entropy() - ops.log1p(-q.probs) / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: Any, q: Any) -> Tensor:
    return _normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Any, q: Any) -> Tensor:
    # Gil, 2011
    ratio, away = p.scale / q.scale, (p.loc - q.loc).abs()
    return -ratio.log() + away / q.scale + ratio * ops.exp(-away / p.scale) - 1


@register_kl(Normal, Normal)
def _normal(p: Any, q: Any) -> Tensor:
    ratio = (p.scale / q.scale).pow(2)
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).pow(2) - 1 - ratio.log())


@register_kl(Pareto, Pareto)
def _pareto(p: Any, q: Any) -> Tensor:
    # Gil, 2011
    ratio, steeper = p.scale / q.scale, q.alpha / p.alpha
    result = q.alpha * ratio.log() - steeper.log() + steeper - 1
    return ops.where(p.support.lower_bound < q.support.lower_bound, math.inf, result)


@register_kl(Poisson, Poisson)
def _poisson(p: Any, q: Any) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _uniform(p: Any, q: Any) -> Tensor:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return ops.where((q.low > p.low) | (q.high < p.high), math.inf, result)


def _trace_of_squares(factor: Tensor, other: Tensor) -> Tensor:
    """Return the trace of ``(F F^T)^-1 X X^T`` for triangular factors F and matrices X, batches broadcast."""
    n = factor.shape[-1]
    shape = ops.broadcast_shapes(factor.shape[:-2], other.shape[:-2])
    solved = solve_triangular(factor.expand((*shape, n, n)), other.expand((*shape, n, other.shape[-1])), upper=False)
    return solved.pow(2).sum((-2, -1))


def _same_event(p: Any, q: Any, title: str) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between {title} with different event shapes cannot be computed: "
            f"{tuple(p.event_shape)} and {tuple(q.event_shape)}"
        )


def _lowrank_terms(q: Any, p: Any, factor: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the distance of the means, the trace of ``Sq^-1 F F^T``, and ``A = Lc^-1 Wq^T Dq^-1``.

    ``Sq = Wq Wq^T + Dq`` is inverted by the Woodbury identity, with the Cholesky factor Lc of the capacitance.
    """
    diagonal = q._unbroadcasted_cov_diag
    distance = _batch_lowrank_mahalanobis(q._unbroadcasted_cov_factor, diagonal, q.loc - p.loc, q._capacitance_tril)
    scaled = q._unbroadcasted_cov_factor.mT / diagonal.unsqueeze(-2)
    a = solve_triangular(q._capacitance_tril, scaled, upper=False)
    inner = (factor * diagonal.rsqrt().unsqueeze(-1)).pow(2).sum((-2, -1))
    return distance, inner - a.matmul(factor).pow(2).sum((-2, -1)), a


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _lowrank(p: Any, q: Any) -> Tensor:
    _same_event(p, q, "two Low Rank Multivariate Normals")
    distance, trace, a = _lowrank_terms(q, p, p._unbroadcasted_cov_factor)
    trace = trace + (p._unbroadcasted_cov_diag / q._unbroadcasted_cov_diag).sum(-1)
    trace = trace - (a * p._unbroadcasted_cov_diag.sqrt().unsqueeze(-2)).pow(2).sum((-2, -1))
    return 0.5 * (q._log_det() - p._log_det() + trace + distance - p.event_shape[0])


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _multivariate_to_lowrank(p: Any, q: Any) -> Tensor:
    _same_event(p, q, "two (Low Rank) Multivariate Normals")
    distance, trace, _ = _lowrank_terms(q, p, p._unbroadcasted_scale_tril)
    return 0.5 * (q._log_det() - 2 * p._half_log_det() + trace + distance - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _lowrank_to_multivariate(p: Any, q: Any) -> Tensor:
    _same_event(p, q, "two (Low Rank) Multivariate Normals")
    log_dets = 2 * q._half_log_det() - p._log_det()
    distance = _batch_mahalanobis(q._unbroadcasted_scale_tril, q.loc - p.loc)
    trace = _trace_of_squares(q._unbroadcasted_scale_tril, p._unbroadcasted_cov_factor)
    trace = trace + _trace_of_squares(q._unbroadcasted_scale_tril, ops.diag_embed(p._unbroadcasted_cov_diag.sqrt()))
    return 0.5 * (log_dets + trace + distance - p.event_shape[0])


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate(p: Any, q: Any) -> Tensor:
    _same_event(p, q, "two Multivariate Normals")
    trace = _trace_of_squares(q._unbroadcasted_scale_tril, p._unbroadcasted_scale_tril)
    distance = _batch_mahalanobis(q._unbroadcasted_scale_tril, q.loc - p.loc)
    return q._half_log_det() - p._half_log_det() + 0.5 * (trace + distance - p.event_shape[0])


# --- Of a family with another -----------------------------------------------------------------------


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Any, q: Any) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, ContinuousBernoulli)
def _beta_continuous_bernoulli(p: Any, q: Any) -> Tensor:
    return -p.entropy() - p.mean * q.logits - ops.log1p(-q.probs) - q._cont_bern_log_norm()


@register_kl(Beta, Gamma)
def _beta_gamma(p: Any, q: Any) -> Tensor:
    norm = q.concentration.lgamma() - q.concentration * q.rate.log()
    mean_log = p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma()
    return -p.entropy() + norm - (q.concentration - 1) * mean_log + q.rate * p.mean


def _cross_normal(mean: Tensor, variance: Tensor, q: Any) -> Tensor:
    """Return the mean of minus the log-density of a normal `q`, over a distribution of these moments."""
    square = q.scale.pow(2)
    return 0.5 * (2 * math.pi * square).log() + 0.5 * (variance + (mean - q.loc).pow(2)) / square


def _to_normal(p: Any, q: Any) -> Tensor:
    return -p.entropy() + _cross_normal(p.mean, p.variance, q)


def _to_exponential(p: Any, q: Any) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * p.mean


for _family_p in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Uniform):
    register_kl(_family_p, Normal)(_to_normal)
for _family_p in (Beta, ContinuousBernoulli, Gamma):
    register_kl(_family_p, Exponential)(_to_exponential)


@register_kl(Beta, Uniform)
def _beta_uniform(p: Any, q: Any) -> Tensor:
    result = -p.entropy() + (q.high - q.low).log()
    return ops.where((q.low > 0.0) | (q.high < 1.0), math.inf, result)


@register_kl(ContinuousBernoulli, Uniform)
def _continuous_bernoulli_uniform(p: Any, q: Any) -> Tensor:
    result = -p.entropy() + (q.high - q.low).log()
    outside = (ops.zeros_like(p.probs) < q.low) | (ops.ones_like(p.probs) > q.high)
    return ops.where(outside, math.inf, result)


@register_kl(Exponential, Gamma)
def _exponential_gamma(p: Any, q: Any) -> Tensor:
    ratio = q.rate / p.rate
    norm = -q.concentration * ops.log(ratio) + ratio + q.concentration.lgamma()
    return norm + q.concentration * euler_constant - (1 + euler_constant)


@register_kl(Exponential, Gumbel)
def _exponential_gumbel(p: Any, q: Any) -> Tensor:
    rate, shift = p.rate * q.scale, q.loc / q.scale
    return rate.log() - 1 - shift + rate.reciprocal() + (shift + rate.log() - (rate + 1).log()).exp()


@register_kl(Gamma, Gumbel)
def _gamma_gumbel(p: Any, q: Any) -> Tensor:
    rate, shift = p.rate * q.scale, q.loc / q.scale
    body = (p.concentration - 1) * p.concentration.digamma() - p.concentration.lgamma() - p.concentration
    tail = p.concentration / rate + (shift - p.concentration * (1 + rate.reciprocal()).log()).exp()
    return body + rate.log() + tail - shift


@register_kl(Normal, Gumbel)
def _normal_gumbel(p: Any, q: Any) -> Tensor:
    mean, square, shift = p.loc / q.scale, (p.scale / q.scale).pow(2), q.loc / q.scale
    return mean - shift + ops.exp(-mean + 0.5 * square + shift) - 0.5 * (1 + ops.log(2 * math.pi * square))


@register_kl(Normal, Laplace)
def _normal_laplace(p: Any, q: Any) -> Tensor:
    away, ratio = p.loc - q.loc, p.scale / q.scale
    standard = away / p.scale
    inner = math.sqrt(2 / math.pi) * p.scale * ops.exp(-0.5 * standard.pow(2))
    inner = inner + away * ops.erf(math.sqrt(0.5) * standard)
    return -ratio.log() + inner / q.scale - 0.5 * (1 + math.log(0.5 * math.pi))


@register_kl(Pareto, Exponential)
def _pareto_exponential(p: Any, q: Any) -> Tensor:
    rate = p.scale * q.rate
    result = (p.alpha / rate).log() - p.alpha.reciprocal() + p.alpha * rate / (p.alpha - 1) - 1
    return ops.where(p.alpha <= 1, math.inf, result)


@register_kl(Pareto, Gamma)
def _pareto_gamma(p: Any, q: Any) -> Tensor:
    mean_log = p.scale.log() + p.alpha.reciprocal()
    norm = q.concentration.lgamma() - q.concentration * q.rate.log()
    result = p.alpha.log() - mean_log + norm + (1 - q.concentration) * mean_log - 1
    result = result + q.rate * p.alpha * p.scale / (p.alpha - 1)
    return ops.where(p.alpha <= 1, math.inf, result)


@register_kl(Pareto, Normal)
def _pareto_normal(p: Any, q: Any) -> Tensor:
    return ops.where(p.alpha <= 2, math.inf, _to_normal(p, q))


def _log_ratio_mean(p: Any) -> Tensor:
    """Return the mean of log x over a uniform `p`."""
    return (_x_log_x(p.high) - _x_log_x(p.low)) / (p.high - p.low) - 1


@register_kl(Uniform, Beta)
def _uniform_beta(p: Any, q: Any) -> Tensor:
    width = p.high - p.low
    norm = q.concentration1.lgamma() + q.concentration0.lgamma() - (q.concentration1 + q.concentration0).lgamma()
    first = (q.concentration1 - 1) * _log_ratio_mean(p)
    second = (q.concentration0 - 1) * ((_x_log_x(1 - p.low) - _x_log_x(1 - p.high)) / width - 1)
    result = -p.entropy() + norm - first - second
    return ops.where((p.high > 1.0) | (p.low < 0.0), math.inf, result)


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p: Any, q: Any) -> Tensor:
    result = -p.entropy() - p.mean * q.logits - ops.log1p(-q.probs) - q._cont_bern_log_norm()
    return ops.where((p.high >= 1.0) | (p.low < 0.0), math.inf, result)


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Any, q: Any) -> Tensor:
    result = q.rate * (p.high + p.low) / 2 - ((p.high - p.low) * q.rate).log()
    return ops.where(p.low < 0.0, math.inf, result)


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Any, q: Any) -> Tensor:
    norm = q.concentration.lgamma() - q.concentration * q.rate.log()
    result = -p.entropy() + norm + (1 - q.concentration) * _log_ratio_mean(p) + q.rate * p.mean
    return ops.where(p.low < 0.0, math.inf, result)


@register_kl(Uniform, Gumbel)
def _uniform_gumbel(p: Any, q: Any) -> Tensor:
    ratio = q.scale / (p.high - p.low)
    high, low = (p.high - q.loc) / q.scale, (p.low - q.loc) / q.scale
    return ratio.log() + 0.5 * (high + low) - ratio * (ops.exp(-high) - ops.exp(-low))


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Any, q: Any) -> Tensor:
    cross = (q.alpha + 1) * _log_ratio_mean(p) - q.alpha.log() - q.alpha * q.scale.log()
    return ops.where(p.low < q.support.lower_bound, math.inf, -p.entropy() + cross)
