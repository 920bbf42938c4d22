"""Categorical distributions: as indices, one-hot, relaxed; multinomial counts; and mixtures."""

from __future__ import annotations

import math
from typing import Any

from .._typing import Tensor
from ..autograd import no_grad
from ..core.dtypes import finfo, int64
from ..core.size import Size
from ..ops.embedding import one_hot
from . import constraints
from .bernoulli import Chances, Relaxed
from .constraints import MixtureSameFamilyConstraint
from .counts import Binomial
from .distribution import Distribution
from .transforms import ExpTransform
from .utils import broadcast_all, clamp_probs, ops

__all__ = [
    "Categorical", "ExpRelaxedCategorical", "MixtureSameFamily", "Multinomial", "OneHotCategorical",
    "OneHotCategoricalStraightThrough", "RelaxedOneHotCategorical",
]  # fmt: skip


class Categorical(Chances):
    """An index from 0 to K - 1, with given probabilities.

    ``P(i) = probs[i] / Σ probs``, or ``softmax(logits)[i]``. Dimensions before the last make a batch.

    Parameters
    ----------
    probs : Tensor, optional
        Nonnegative weights of shape ``(..., K)``; they are divided by their sum. Give this or `logits`.
    logits : Tensor, optional
        Log-probabilities up to a constant, of shape ``(..., K)``.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> die = adjoint.distributions.Categorical(probs=adjoint.tensor([1.0, 3.0]))
    >>> die.log_prob(adjoint.tensor([0, 1])).exp()
    tensor([0.2500, 0.7500])
    >>> die.sample((100,)).max() < 2
    tensor(True)
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _binary = False
    _copied = ("_num_events",)

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        name = self._only(probs, logits)
        given = logits if probs is None else probs
        if given.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = logits - logits.logsumexp(dim=-1, keepdim=True)
        self._num_events = given.size()[-1]
        super().__init__(given.size()[:-1], validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        """The indices."""
        return constraints.integer_interval(0, self._num_events - 1)

    def _undefined(self) -> Tensor:
        return ops.full(self._extended_shape(), math.nan, dtype=self.probs.dtype, device=self.probs.device)

    @property
    def mean(self) -> Tensor:
        """NaN: indices have no mean."""
        return self._undefined()

    @property
    def mode(self) -> Tensor:
        """The likeliest index."""
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Tensor:
        """NaN: indices have no variance."""
        return self._undefined()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw indices."""
        sample_shape = Size(tuple(sample_shape))
        rows = self.probs.reshape(-1, self._num_events)
        drawn = ops.multinomial(rows, math.prod(sample_shape), True).T
        return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-probability of `value`."""
        self._check(value)
        index = value.long().unsqueeze(-1)
        index, logits = ops.broadcast_tensors(index, self.logits)
        return logits.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        logits = ops.clamp(self.logits, min=finfo(self.logits.dtype).min)  # zero times infinity would be NaN
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all indices."""
        values = ops.arange(self._num_events, dtype=int64, device=self._param.device)
        return self._enumerated(values, expand)


class _OfCategorical(Distribution):
    """What distributions of vectors share whose parameters are those of a `Categorical`."""

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    _expanded = ("_categorical",)
    _categorical: Categorical

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._categorical._new(*args, **kwargs)

    @property
    def _param(self) -> Tensor:
        return self._categorical._param

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self._categorical.probs

    @property
    def logits(self) -> Tensor:
        """The log-probabilities."""
        return self._categorical.logits

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return self._categorical.param_shape


class OneHotCategorical(_OfCategorical):
    """A one-hot vector of length K: an index of a categorical distribution, encoded.

    Parameters
    ----------
    probs : Tensor, optional
        Nonnegative weights of shape ``(..., K)``; they are divided by their sum. Give this or `logits`.
    logits : Tensor, optional
        Log-probabilities up to a constant, of shape ``(..., K)``.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> die = adjoint.distributions.OneHotCategorical(probs=adjoint.tensor([1.0, 0.0, 0.0]))
    >>> die.sample()
    tensor([1., 0., 0.])
    >>> die.event_shape
    adjoint.Size([3])
    """

    support = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        self._categorical = Categorical(probs, logits)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The probabilities."""
        return self._categorical.probs

    @property
    def mode(self) -> Tensor:
        """The likeliest vector."""
        return one_hot(self._categorical.probs.argmax(-1), num_classes=self.probs.shape[-1]).to(self.probs)

    @property
    def variance(self) -> Tensor:
        """The variance of each entry."""
        return self._categorical.probs * (1 - self._categorical.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw one-hot vectors."""
        indices = self._categorical.sample(Size(tuple(sample_shape)))
        return one_hot(indices, self._categorical._num_events).to(self._categorical.probs.detach())

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-probability of `value`."""
        self._check(value)
        return self._categorical.log_prob(value.max(-1)[1])

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return self._categorical.entropy()

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all one-hot vectors."""
        n = self._event_shape[0]
        values = ops.eye(n, dtype=self._param.dtype, device=self._param.device)
        values = values.view((n, *(1,) * len(self._batch_shape), n))
        return values.expand((n, *self._batch_shape, n)) if expand else values


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot vectors whose gradient is that of the probabilities (Bengio et al., 2013).

    Parameters
    ----------
    probs : Tensor or float, optional
        Of the categories, (..., n).
    logits : Tensor or float, optional
        Their logarithms up to a constant, instead.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> x = adjoint.distributions.OneHotCategoricalStraightThrough(adjoint.tensor([0.0, 1.0]))
    >>> x.sample()
    tensor([0., 1.])
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return samples whose gradient passes unchanged to the probabilities (straight-through estimator)."""
        probs = self._categorical.probs
        return self.sample(sample_shape) + (probs - probs.detach())


class ExpRelaxedCategorical(_OfCategorical):
    """The logarithm of a relaxed one-hot vector."""

    support = constraints.real_vector
    has_rsample = True
    _copied = ("temperature",)

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self._categorical = Categorical(probs, logits)
        self.temperature = temperature
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return reparameterized samples, with gradients for the parameters."""
        shape = self._extended_shape(sample_shape)
        u = clamp_probs(ops.rand(shape, dtype=self.logits.dtype, device=self.logits.device))
        scores = (self.logits - (-u.log()).log()) / self.temperature
        return scores - scores.logsumexp(dim=-1, keepdim=True)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at `value`."""
        self._check(value)
        count = self._categorical._num_events
        logits, value = broadcast_all(self.logits, value)
        scale = ops.full_like(self.temperature, float(count)).lgamma() + (count - 1) * self.temperature.log()
        score = logits - value.mul(self.temperature)
        return (score - score.logsumexp(dim=-1, keepdim=True)).sum(-1) + scale


class RelaxedOneHotCategorical(Relaxed):
    """Points of the simplex that tend to one-hot vectors as `temperature` tends to zero.

    Parameters
    ----------
    temperature : Tensor
        Positive; the lower, the closer to one-hot vectors.
    probs : Tensor or float, optional
        Of the categories, (..., n).
    logits : Tensor or float, optional
        Their logarithms up to a constant, instead.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> x = adjoint.distributions.RelaxedOneHotCategorical(adjoint.tensor(0.5), adjoint.tensor([0.5, 0.5]))
    >>> x.rsample().sum().round(decimals=4)
    tensor(1.)
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support = constraints.simplex  # type: ignore[assignment]

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        base = ExpRelaxedCategorical(temperature, probs, logits, validate_args=validate_args)
        super().__init__(base, ExpTransform(), validate_args=validate_args)


class Multinomial(_OfCategorical):
    """How often each of K outcomes comes up in `total_count` independent trials.

    ``P(k) = n! / (k₁! ... k_K!) · Π probsᵢ^kᵢ`` for counts that sum to ``n = total_count``.

    Parameters
    ----------
    total_count : int, default 1
        The number of trials.
    probs : Tensor, optional
        Nonnegative weights of shape ``(..., K)``; they are divided by their sum. Give this or `logits`.
    logits : Tensor, optional
        Log-probabilities up to a constant, of shape ``(..., K)``.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> votes = adjoint.distributions.Multinomial(10, adjoint.tensor([1.0, 4.0]))
    >>> votes.mean
    tensor([2., 8.])
    >>> votes.sample().sum()
    tensor(10.)
    """

    _copied = ("total_count",)

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if not isinstance(total_count, int):
            raise NotImplementedError("inhomogeneous total_count is not supported")
        self.total_count = total_count
        self._categorical = Categorical(probs=probs, logits=logits)
        self._binomial = Binomial(total_count=total_count, probs=self.probs)
        super().__init__(self._categorical.batch_shape, self._categorical.param_shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return the distribution with its parameters expanded."""
        new = super().expand(batch_shape, _instance)
        new._binomial = self._binomial.expand(Size(tuple(batch_shape)) + self._event_shape)
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=1)
    def support(self) -> Any:  # type: ignore[override]
        """Counts that add up to the number of trials."""
        return constraints.multinomial(self.total_count)

    @property
    def mean(self) -> Tensor:
        """The mean counts."""
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        """The variance of each count."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw counts."""
        sample_shape = Size(tuple(sample_shape))
        drawn = self._categorical.sample(Size((self.total_count,)) + sample_shape)
        drawn = drawn.movedim(0, -1)
        counts = self._categorical.probs.detach().new_zeros(self._extended_shape(sample_shape))
        counts.scatter_add_(-1, drawn, ops.ones_like(drawn).type_as(counts))
        return counts

    def entropy(self) -> Tensor:
        """Return the entropy."""
        n = ops.tensor(float(self.total_count), dtype=self.probs.dtype)
        support = self._binomial.enumerate_support(expand=False)[1:]
        binomial = ops.exp(self._binomial.log_prob(support))
        weight = ops.lgamma(support + 1)
        return n * self._categorical.entropy() - ops.lgamma(n + 1) + (binomial * weight).sum([0, -1])

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-probability of `value`."""
        self._check(value)
        logits, value = broadcast_all(self.logits, value)
        logits = logits.masked_fill((value == 0) & (logits == -float("inf")), 0.0)
        return ops.lgamma(value.sum(-1) + 1) - ops.lgamma(value + 1).sum(-1) + (logits * value).sum(-1)


class MixtureSameFamily(Distribution):
    """A mixture: the last batch dimension of `component_distribution`, chosen by `mixture_distribution`.

    Parameters
    ----------
    mixture_distribution : Categorical
        Chooses the component.
    component_distribution : Distribution
        The components, along its last batch dimension.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> which = adjoint.distributions.Categorical(adjoint.tensor([0.5, 0.5]))
    >>> parts = adjoint.distributions.Normal(adjoint.tensor([-1.0, 1.0]), adjoint.ones(2))
    >>> x = adjoint.distributions.MixtureSameFamily(which, parts)
    >>> x.mean, x.variance
    (tensor(0.), tensor(2.))
    """

    arg_constraints: Any = {}
    has_rsample = False

    def __init__(
        self, mixture_distribution: Categorical, component_distribution: Distribution, validate_args: bool | None = None
    ) -> None:
        if not isinstance(mixture_distribution, Categorical):
            raise ValueError(" The Mixture distribution needs to be an  instance of torch.distributions.Categorical")
        if not isinstance(component_distribution, Distribution):
            raise ValueError("The Component distribution needs to be an instance of torch.distributions.Distribution")
        mixed, parts = mixture_distribution.batch_shape, component_distribution.batch_shape
        for a, b in zip(reversed(mixed), reversed(parts[:-1]), strict=False):
            if a != 1 and b != 1 and a != b:
                raise ValueError(
                    f"`mixture_distribution.batch_shape` ({mixed}) is not compatible with "
                    f"`component_distribution.batch_shape`({parts[:-1]})"
                )
        count, components = mixture_distribution.logits.shape[-1], parts[-1]
        if count != components:
            raise ValueError(
                f"`mixture_distribution component` ({count}) does not equal "
                f"`component_distribution.batch_shape[-1]` ({components})"
            )
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        self._num_component = count
        self._event_ndims = len(component_distribution.event_shape)
        super().__init__(parts[:-1], component_distribution.event_shape, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return the distribution with its parameters expanded."""
        new = self._get_checked_instance(MixtureSameFamily, _instance)
        batch_shape = Size(batch_shape)
        new._component_distribution = self._component_distribution.expand(batch_shape + (self._num_component,))
        new._mixture_distribution = self._mixture_distribution.expand(batch_shape)
        new._num_component, new._event_ndims = self._num_component, self._event_ndims
        return self._finish(new, batch_shape, self._component_distribution.event_shape)

    @constraints.dependent_property
    def support(self) -> Any:  # type: ignore[override]
        """The components' support."""
        return MixtureSameFamilyConstraint(self._component_distribution.support)

    @property
    def mixture_distribution(self) -> Categorical:
        """The distribution that chooses."""
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        """The distributions that are chosen from."""
        return self._component_distribution

    @property
    def _weights(self) -> Tensor:
        return self._pad_mixture_dimensions(self.mixture_distribution.probs)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return ops.sum(self._weights * self.component_distribution.mean, dim=-1 - self._event_ndims)

    @property
    def variance(self) -> Tensor:
        """The variance: within the components, and of their means."""
        axis = -1 - self._event_ndims
        within = ops.sum(self._weights * self.component_distribution.variance, dim=axis)
        away = self.component_distribution.mean - self._pad(self.mean)
        return within + ops.sum(self._weights * away.pow(2.0), dim=axis)

    def cdf(self, x: Tensor) -> Tensor:
        """Return the probability of at most `x`."""
        parts = self.component_distribution.cdf(self._pad(x))
        return ops.sum(parts * self.mixture_distribution.probs, dim=-1)

    def log_prob(self, x: Tensor) -> Tensor:
        """Return the log-density at `x`."""
        self._check(x)
        parts = self.component_distribution.log_prob(self._pad(x))
        return ops.logsumexp(parts + ops.log_softmax(self.mixture_distribution.logits, dim=-1), dim=-1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Return samples of components that are sampled first."""
        with no_grad():
            axis = len(tuple(sample_shape)) + len(self.batch_shape)
            chosen = self.mixture_distribution.sample(sample_shape)
            drawn = self.component_distribution.sample(sample_shape)
            index = chosen.reshape(tuple(chosen.shape) + (1,) * (self._event_ndims + 1))
            index = index.expand((*chosen.shape, 1, *self._event_shape))
            return drawn.gather(axis, index).squeeze(axis)

    def _pad(self, x: Tensor) -> Tensor:
        return x.unsqueeze(-1 - self._event_ndims)

    def _pad_mixture_dimensions(self, x: Tensor) -> Tensor:
        missing = len(self.batch_shape) - len(self.mixture_distribution.batch_shape)
        return x.reshape((*x.shape[:-1], *(1,) * missing, *x.shape[-1:], *(1,) * self._event_ndims))

    def __repr__(self) -> str:
        return f"MixtureSameFamily(\n  {self.mixture_distribution},\n  {self.component_distribution})"
