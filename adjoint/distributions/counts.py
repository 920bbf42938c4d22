"""Distributions of counts: Poisson, binomial, negative binomial."""

from __future__ import annotations

from typing import Any

from .._typing import Tensor
from ..autograd import no_grad
from ..ops.activation import logsigmoid
from ..ops.variates import binomial
from . import constraints
from .bernoulli import Chances
from .distribution import ExponentialFamily
from .gamma import Gamma
from .utils import broadcast_all, lazy_property, ops

__all__ = ["Binomial", "NegativeBinomial", "Poisson"]


class Poisson(ExponentialFamily):
    """A Poisson distribution: how many events come in a unit of time.

    ``P(k) = rate^k exp(-rate) / k!`` for k = 0, 1, 2, ...; mean and variance `rate`.

    Parameters
    ----------
    rate : Tensor or float
        The mean number of events, nonnegative.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> counts = adjoint.distributions.Poisson(2.0)
    >>> counts.log_prob(adjoint.tensor([0.0, 1.0, 2.0])).exp()
    tensor([0.1353, 0.2707, 0.2707])
    """

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The rate."""
        return self.rate

    @property
    def mode(self) -> Tensor:
        """The rate, rounded down."""
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        """The rate."""
        return self.rate

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw counts."""
        with no_grad():
            return ops.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-probability of `value`."""
        self._check(value)
        rate, value = broadcast_all(self.rate, value)
        return value.xlogy(rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (ops.log(self.rate),)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return ops.exp(x)


class _Counted(Chances):
    """What distributions of a number of trials share."""

    total_count: Tensor

    def _set_counted(self, total_count: Any, probs: Any, logits: Any) -> Tensor:
        """Set the count, and the one of the other two that was given; return this."""
        name = self._only(probs, logits)
        count, parameter = broadcast_all(total_count, logits if probs is None else probs)
        self.total_count = count.type_as(parameter)
        setattr(self, name, parameter)
        return parameter


class Binomial(_Counted):
    """The number of successes in `total_count` independent trials.

    ``P(k) = C(n, k) probs^k (1 - probs)^(n - k)`` for k = 0, ..., n with ``n = total_count``; mean ``n probs``,
    variance ``n probs (1 - probs)``.

    Parameters
    ----------
    total_count : Tensor or int, default 1
        The number of trials, a nonnegative integer.
    probs : Tensor or float, optional
        The probability of a success, in [0, 1]. Give this or `logits`.
    logits : Tensor or float, optional
        The log-odds of a success.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> flips = adjoint.distributions.Binomial(10, adjoint.tensor([0.5, 0.1]))
    >>> flips.mean
    tensor([5., 1.])
    >>> flips.log_prob(adjoint.tensor(5.0)).exp()
    tensor([0.2461, 0.0015])
    """

    arg_constraints = {
        "total_count": constraints.nonnegative_integer,
        "probs": constraints.unit_interval,
        "logits": constraints.real,
    }
    has_enumerate_support = True

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(self._set_counted(total_count, probs, logits).size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        """The integers up to the number of trials."""
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        """The likeliest number."""
        return ((self.total_count + 1) * self.probs).floor().clamp(max=self.total_count)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Return samples: numbers of successes."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-probability of `value`."""
        self._check(value)
        n, logits = self.total_count, self.logits
        choices = ops.lgamma(n + 1) - ops.lgamma(value + 1) - ops.lgamma(n - value + 1)
        # log(1 + exp(logits)) without overflow; the positive part written so that its slope at zero is one half
        norm = n * (0.5 * (logits + logits.abs()) + ops.log1p(ops.exp(-logits.abs())))
        return value * logits + choices - norm

    def _one_count(self, refusal: str) -> int:
        count = int(self.total_count.max())
        if not self.total_count.min() == count:
            raise NotImplementedError(refusal)
        return count

    def entropy(self) -> Tensor:
        """Return the entropy, where all distributions of the batch have the same number of trials."""
        self._one_count("Inhomogeneous total count not supported by `entropy`.")
        logs = self.log_prob(self.enumerate_support(False))
        return -(ops.exp(logs) * logs).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return the integers from zero to the number of trials."""
        count = self._one_count("Inhomogeneous total count not supported by `enumerate_support`.")
        values = ops.arange(1 + count, dtype=self._param.dtype, device=self._param.device)
        return self._enumerated(values, expand)


class NegativeBinomial(_Counted):
    """The number of successes before `total_count` failures; `probs` is that of a success.

    Parameters
    ----------
    total_count : Tensor or float
        Number of failures, not negative.
    probs : Tensor or float, optional
        Probability of a success.
    logits : Tensor or float, optional
        Log odds, instead of `probs`.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> x = adjoint.distributions.NegativeBinomial(2, 0.5)
    >>> x.log_prob(adjoint.tensor(1.0))
    tensor(-1.3863)
    >>> x.mean, x.variance
    (tensor(2.), tensor(4.))
    """

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(self._set_counted(total_count, probs, logits).size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.total_count * ops.exp(self.logits)

    @property
    def mode(self) -> Tensor:
        """The likeliest number."""
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.mean / ops.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self) -> Gamma:
        # The rate of a Poisson distribution, itself drawn: together they are this distribution.
        return Gamma(concentration=self.total_count, rate=ops.exp(-self.logits), validate_args=False)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Return samples: numbers of successes."""
        with no_grad():
            return ops.poisson(self._gamma.sample(sample_shape=sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-probability of `value`."""
        self._check(value)
        weights = self.total_count * logsigmoid(-self.logits) + value * logsigmoid(self.logits)
        norm = -ops.lgamma(self.total_count + value) + ops.lgamma(1.0 + value) + ops.lgamma(self.total_count)
        return weights - norm.masked_fill(self.total_count + value == 0.0, 0.0)
