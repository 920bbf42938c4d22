"""Bernoulli distributions: exact, continuous, relaxed; and the geometric distribution."""

from __future__ import annotations

import math
from typing import Any

from .._typing import Tensor
from ..autograd import no_grad
from ..core.dtypes import finfo
from ..core.size import Size
from ..ops.loss import binary_cross_entropy_with_logits
from . import constraints
from .composed import TransformedDistribution
from .distribution import Distribution, ExponentialFamily
from .transforms import SigmoidTransform
from .utils import broadcast_all, clamp_probs, lazy_property, logits_to_probs, ops, probs_to_logits

__all__ = ["Bernoulli", "ContinuousBernoulli", "Geometric", "LogitRelaxedBernoulli", "RelaxedBernoulli"]


class Chances(Distribution):
    """What distributions of `probs` or `logits` share; `_binary` says whether the two outcomes are yes and no."""

    _binary = True

    @staticmethod
    def _only(probs: Any, logits: Any) -> str:
        """Return which of the two was given; raise for both or neither."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        return "logits" if probs is None else "probs"

    def _set_only(self, probs: Any, logits: Any) -> Tensor:
        """Set the one of the two that was given, as a tensor, and return it."""
        name = self._only(probs, logits)
        (parameter,) = broadcast_all(logits if probs is None else probs)
        setattr(self, name, parameter)
        return parameter

    @property
    def _param(self) -> Tensor:
        return self.__dict__[self._given]

    @property
    def _given(self) -> str:
        return next(name for name in self.__dict__ if name in ("probs", "logits"))

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._param.new(*args, **kwargs)

    @lazy_property
    def logits(self) -> Tensor:
        """The log-odds, or log-probabilities."""
        return probs_to_logits(self.probs, is_binary=self._binary)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities."""
        return logits_to_probs(self.logits, is_binary=self._binary)

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return Size(self._param.size())

    def _enumerated(self, values: Tensor, expand: bool) -> Tensor:
        """Return values along a first dimension before those of the batch."""
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values


class Bernoulli(Chances, ExponentialFamily):
    """One with the probability `probs`, zero otherwise.

    ``P(x) = probs^x (1 - probs)^(1 - x)`` for x in {0, 1}; mean `probs`, variance ``probs (1 - probs)``.

    Parameters
    ----------
    probs : Tensor or float, optional
        The probability of one, in [0, 1]. Give this or `logits`.
    logits : Tensor or float, optional
        The log-odds ``log(probs / (1 - probs))``, any real number.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> coin = adjoint.distributions.Bernoulli(0.25)
    >>> coin.log_prob(adjoint.tensor([0.0, 1.0])).exp()
    tensor([0.7500, 0.2500])
    >>> coin.mean, coin.variance
    (tensor(0.2500), tensor(0.1875))
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(self._set_only(probs, logits).size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The probability of one."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The more likely value, NaN if both are equally likely."""
        mode = (self.probs >= 0.5).to(self.probs)
        mode[self.probs == 0.5] = float("nan")
        return mode

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Return samples: zeros and ones."""
        with no_grad():
            return ops.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-probability of `value`."""
        self._check(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return zero and one."""
        values = ops.arange(2, dtype=self._param.dtype, device=self._param.device)
        return self._enumerated(values, expand)

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (ops.logit(self.probs),)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return ops.log1p(ops.exp(x))


class ContinuousBernoulli(Chances, ExponentialFamily):
    """Numbers between 0 and 1 of the density ``probs ** x * (1 - probs) ** (1 - x)``, normalised.

    Near one half, inside `lims`, the formulas lose their digits, and their Taylor series take over.

    Parameters
    ----------
    probs : Tensor or float, optional
        Parameter between 0 and 1.
    logits : Tensor or float, optional
        Log odds, instead of `probs`.
    lims : tuple of float, default (0.499, 0.501)
        Interval around one half in which Taylor series are used.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> x = adjoint.distributions.ContinuousBernoulli(0.3)
    >>> x.log_prob(adjoint.tensor(0.5))
    tensor(-0.0297)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    _mean_carrier_measure = 0
    has_rsample = True
    _copied = ("_lims",)

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        parameter = self._set_only(probs, logits)
        if probs is not None:
            if validate_args is not None and not self.arg_constraints["probs"].check(parameter).all():
                raise ValueError("The parameter probs has invalid values")
            self.probs = parameter = clamp_probs(parameter)
        self._lims = lims
        super().__init__(parameter.size(), validate_args=validate_args)

    @lazy_property
    def probs(self) -> Tensor:
        """The parameter, clamped away from 0 and 1."""
        return clamp_probs(logits_to_probs(self.logits, is_binary=True))

    def _outside_unstable_region(self) -> Tensor:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut_probs(self) -> Tensor:
        return ops.where(self._outside_unstable_region(), self.probs, self._lims[0] * ops.ones_like(self.probs))

    def _log_odds(self, cut: Tensor) -> Tensor:
        return ops.log1p(-cut) - ops.log(cut)

    def _cont_bern_log_norm(self) -> Tensor:
        cut = self._cut_probs()
        below = ops.where(cut <= 0.5, cut, ops.zeros_like(cut))
        above = ops.where(cut >= 0.5, cut, ops.ones_like(cut))
        exact = ops.log(ops.abs(self._log_odds(cut))) - ops.where(
            cut <= 0.5, ops.log1p(-2.0 * below), ops.log(2.0 * above - 1.0)
        )
        x = ops.pow(self.probs - 0.5, 2)
        series = math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        return ops.where(self._outside_unstable_region(), exact, series)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        cut = self._cut_probs()
        exact = cut / (2.0 * cut - 1.0) + 1.0 / self._log_odds(cut)
        x = self.probs - 0.5
        series = 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.pow(2)) * x
        return ops.where(self._outside_unstable_region(), exact, series)

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return ops.sqrt(self.variance)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        cut = self._cut_probs()
        exact = cut * (cut - 1.0) / ops.pow(1.0 - 2.0 * cut, 2) + 1.0 / ops.pow(self._log_odds(cut), 2)
        x = ops.pow(self.probs - 0.5, 2)
        series = 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x
        return ops.where(self._outside_unstable_region(), exact, series)

    def _uniform(self, sample_shape: Any) -> Tensor:
        return ops.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Return samples, without a gradient."""
        with no_grad():
            return self.icdf(self._uniform(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return reparameterized samples, with gradients for the parameter."""
        return self.icdf(self._uniform(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at `value`."""
        self._check(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none") + self._cont_bern_log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of at most `value`."""
        self._check(value)
        cut = self._cut_probs()
        exact = (ops.pow(cut, value) * ops.pow(1.0 - cut, 1.0 - value) + cut - 1.0) / (2.0 * cut - 1.0)
        return ops.where(self._outside_unstable_region(), exact, value).clamp(min=0.0, max=1.0)

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile of the probability `value`."""
        cut = self._cut_probs()
        exact = (ops.log1p(-cut + value * (2.0 * cut - 1.0)) - ops.log1p(-cut)) / -self._log_odds(cut)
        return ops.where(self._outside_unstable_region(), exact, value)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        failure, success = ops.log1p(-self.probs), ops.log(self.probs)
        return self.mean * (failure - success) - self._cont_bern_log_norm() - failure

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.logits,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        outside = (x <= self._lims[0] - 0.5) | (x > self._lims[1] - 0.5)
        cut = ops.where(outside, x, (self._lims[0] - 0.5) * ops.ones_like(x))
        exact = ops.log(ops.abs(ops.expm1(cut))) - ops.log(ops.abs(cut))
        series = 0.5 * x + ops.pow(x, 2) / 24.0 - ops.pow(x, 4) / 2880.0
        return ops.where(outside, exact, series)


class LogitRelaxedBernoulli(Chances):
    """The log-odds of a relaxed Bernoulli number."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    _copied = ("temperature",)

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = temperature
        super().__init__(self._set_only(probs, logits).size(), validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return reparameterized samples, with gradients for the parameters."""
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(ops.rand(shape, dtype=probs.dtype, device=probs.device))
        return (u.log() - (-u).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at `value`."""
        self._check(value)
        logits, value = broadcast_all(self.logits, value)
        away = logits - value.mul(self.temperature)
        return self.temperature.log() + away - 2 * away.exp().log1p()


class Relaxed(TransformedDistribution):
    """Base of relaxed distributions: the parameters of their base."""

    has_rsample = True  # type: ignore[assignment]

    @property
    def temperature(self) -> Tensor:
        """The temperature."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """The log-odds, or log-probabilities."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """The probabilities."""
        return self.base_dist.probs


class RelaxedBernoulli(Relaxed):
    """Numbers between 0 and 1 that tend to a Bernoulli distribution as `temperature` tends to zero.

    Parameters
    ----------
    temperature : Tensor
        Positive; the lower, the closer to 0 and 1.
    probs : Tensor or float, optional
        Probability of 1.
    logits : Tensor or float, optional
        Log odds, instead of `probs`.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> x = adjoint.distributions.RelaxedBernoulli(adjoint.tensor(0.5), 0.5)
    >>> x.log_prob(adjoint.tensor(0.5))
    tensor(-0.6931)
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval  # type: ignore[assignment]

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(
            LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(), validate_args=validate_args
        )


class Geometric(Chances):
    """The number of failures before the first success.

    ``P(k) = (1 - probs)^k probs`` for k = 0, 1, 2, ...; mean ``1 / probs - 1``.

    Parameters
    ----------
    probs : Tensor or float, optional
        The probability of a success, in (0, 1]. Give this or `logits`.
    logits : Tensor or float, optional
        The log-odds of a success.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> waiting = adjoint.distributions.Geometric(0.25)
    >>> waiting.mean
    tensor(3.)
    >>> waiting.log_prob(adjoint.tensor([0.0, 1.0])).exp()
    tensor([0.2500, 0.1875])
    """

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(self._set_only(probs, logits).size(), validate_args=validate_args)
        if self._validate_args and probs is not None:
            value, valid = self.probs, self.probs > 0
            if not valid.all():
                raise ValueError(
                    f"Expected parameter probs ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to be positive but found invalid values:\n{value[~valid]}"
                )

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        """Zero."""
        return self.probs.new_zeros(self.probs.shape)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Return samples: numbers of failures."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            u = self.probs.new_empty(shape).uniform_(finfo(self.probs.dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-probability of `value`."""
        self._check(value)
        value, probs = broadcast_all(value, self.probs)
        probs = probs.clone()
        probs[(probs == 1) & (value == 0)] = 0  # nothing times the logarithm of nothing
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs
