"""Transformed uniform and exponential distributions: Gumbel, Kumaraswamy, Pareto, Weibull."""

from __future__ import annotations

import math
from numbers import Number
from typing import Any

from .._typing import Tensor
from ..core.dtypes import default, finfo
from . import constraints
from .composed import TransformedDistribution
from .distribution import Distribution
from .gamma import Exponential
from .transforms import AffineTransform, ExpTransform, PowerTransform
from .utils import broadcast_all, euler_constant, ops

__all__ = ["GeneralizedPareto", "Gumbel", "Kumaraswamy", "Pareto", "Uniform", "Weibull"]


class Uniform(Distribution):
    """The uniform distribution on [low, high).

    ``p(x) = 1 / (high - low)`` inside, 0 outside. The gradients of `rsample` reach both bounds.

    Parameters
    ----------
    low : Tensor or float
        The lower bound, included.
    high : Tensor or float
        The upper bound, excluded; greater than `low`.
    validate_args : bool, optional
        Whether to check parameters and values; if not, values outside have the log-density -inf.

    Examples
    --------
    >>> uniform = adjoint.distributions.Uniform(0.0, adjoint.tensor([1.0, 5.0]))
    >>> uniform.mean
    tensor([0.5000, 2.5000])
    >>> uniform.log_prob(adjoint.tensor(0.5)).exp()
    tensor([1.0000, 0.2000])
    """

    has_rsample = True

    @property
    def arg_constraints(self) -> Any:  # type: ignore[override]
        """Below and above one another."""
        return {"low": constraints.less_than(self.high), "high": constraints.greater_than(self.low)}

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.size(), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        """The interval."""
        return constraints.interval(self.low, self.high)

    @property
    def mean(self) -> Tensor:
        """The middle."""
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        """NaN: there is none."""
        return float("nan") * self.high

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return (self.high - self.low) / 12**0.5

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return (self.high - self.low).pow(2) / 12

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return reparameterized samples, with gradients for the bounds."""
        shape = self._extended_shape(sample_shape)
        return self.low + ops.rand(shape, dtype=self.low.dtype, device=self.low.device) * (self.high - self.low)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at `value`."""
        self._check(value)
        inside = self.low.le(value).type_as(self.low) * self.high.gt(value).type_as(self.low)
        return ops.log(inside) - ops.log(self.high - self.low)

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of at most `value`."""
        self._check(value)
        return ((value - self.low) / (self.high - self.low)).clamp(min=0, max=1)

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile of the probability `value`."""
        return value * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return ops.log(self.high - self.low)


class Kumaraswamy(TransformedDistribution):
    """A distribution of numbers between 0 and 1, like the beta distribution but with a closed quantile function.

    ``p(x) = a * b * x**(a - 1) * (1 - x**a)**(b - 1)``

    Parameters
    ----------
    concentration1 : Tensor or float
        The a of the density, positive.
    concentration0 : Tensor or float
        The b of the density, positive.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> x = adjoint.distributions.Kumaraswamy(2.0, 2.0)
    >>> x.log_prob(adjoint.tensor(0.5))
    tensor(0.4055)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval  # type: ignore[assignment]
    has_rsample = True  # type: ignore[assignment]

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(
            ops.full_like(self.concentration0, 0), ops.full_like(self.concentration0, 1), validate_args=validate_args
        )
        parts = [
            PowerTransform(exponent=self.concentration0.reciprocal()),
            AffineTransform(loc=1.0, scale=-1.0),
            PowerTransform(exponent=self.concentration1.reciprocal()),
        ]
        super().__init__(base, parts, validate_args=validate_args)

    def _moment(self, n: int) -> Tensor:
        a, b = 1 + n / self.concentration1, self.concentration0
        return b * (ops.lgamma(a) + ops.lgamma(b) - ops.lgamma(a + b)).exp()

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        """The densest value, where it is inside."""
        a, b = self.concentration1, self.concentration0
        inside = (a >= 1) & (b >= 1) & (a * b > 1)
        mode = ((a - 1) / (a * b - 1)).pow(a.reciprocal())
        return ops.where(inside, mode, math.nan)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self._moment(2) - self.mean.pow(2)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        a, b = self.concentration1, self.concentration0
        return 1 - b.reciprocal() + (1 - a.reciprocal()) * (ops.digamma(b + 1) + euler_constant) - a.log() - b.log()


class Gumbel(TransformedDistribution):
    """A Gumbel distribution: that of the largest of many numbers, around `loc`.

    ``p(x) = exp(-(z + exp(-z))) / scale`` with ``z = (x - loc) / scale``.

    Parameters
    ----------
    loc : Tensor or float
        The mode.
    scale : Tensor or float
        The scale, positive.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> x = adjoint.distributions.Gumbel(0.0, 1.0)
    >>> x.log_prob(adjoint.tensor(0.0))
    tensor(-1.)
    >>> x.mean, x.variance
    (tensor(0.5772), tensor(1.6449))
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real  # type: ignore[assignment]

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        numbers = isinstance(loc, Number) and isinstance(scale, Number)
        info = finfo(default() if numbers else self.loc.dtype)
        if numbers:
            base = Uniform(info.tiny, 1 - info.eps, validate_args=validate_args)
        else:
            base = Uniform(
                ops.full_like(self.loc, info.tiny), ops.full_like(self.loc, 1 - info.eps), validate_args=validate_args
            )
        parts = [
            ExpTransform().inv,
            AffineTransform(loc=0, scale=-ops.ones_like(self.scale)),
            ExpTransform().inv,
            AffineTransform(loc=loc, scale=-self.scale),
        ]
        super().__init__(base, parts, validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at `value`."""
        self._check(value)
        y = (self.loc - value) / self.scale
        return (y - y.exp()) - self.scale.log()

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.loc + self.scale * euler_constant

    @property
    def mode(self) -> Tensor:
        """The location."""
        return self.loc

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return (math.pi / math.sqrt(6)) * self.scale

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.stddev.pow(2)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return self.scale.log() + (1 + euler_constant)


class Pareto(TransformedDistribution):
    """A Pareto distribution of numbers from `scale` on, with a tail of the power `alpha`.

    ``p(x) = alpha * scale**alpha / x**(alpha + 1)`` for ``x >= scale``.

    Parameters
    ----------
    scale : Tensor or float
        The least value, positive.
    alpha : Tensor or float
        The power of the tail, positive.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> x = adjoint.distributions.Pareto(1.0, 3.0)
    >>> x.log_prob(adjoint.tensor(1.0))
    tensor(1.0986)
    >>> x.mean, x.variance
    (tensor(1.5000), tensor(0.7500))
    """

    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        base = Exponential(self.alpha, validate_args=validate_args)
        parts = [ExpTransform(), AffineTransform(loc=0, scale=self.scale)]
        super().__init__(base, parts, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean, infinite for tails of power one and less."""
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    @property
    def mode(self) -> Tensor:
        """The scale."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """The variance, infinite for tails of power two and less."""
        a = self.alpha.clamp(min=2)
        return self.scale.pow(2) * a / ((a - 1).pow(2) * (a - 2))

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        """Numbers from the scale on."""
        return constraints.greater_than_eq(self.scale)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Weibull(TransformedDistribution):
    """A Weibull distribution: lifetimes of the typical length `scale`, with the power `concentration`.

    ``P(X > x) = exp(-(x / scale) ** concentration)``

    Parameters
    ----------
    scale : Tensor or float
        The scale, positive.
    concentration : Tensor or float
        The power, positive; 1 is the exponential distribution.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> x = adjoint.distributions.Weibull(1.0, 1.0)
    >>> x.log_prob(adjoint.tensor(1.0))
    tensor(-1.)
    >>> x.mean, x.variance
    (tensor(1.), tensor(1.))
    """

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive  # type: ignore[assignment]

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        self.concentration_reciprocal = self.concentration.reciprocal()
        base = Exponential(ops.ones_like(self.scale), validate_args=validate_args)
        parts = [
            PowerTransform(exponent=self.concentration_reciprocal),
            AffineTransform(loc=0, scale=self.scale),
        ]
        super().__init__(base, parts, validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return the distribution with its parameters expanded."""
        new = self._get_checked_instance(Weibull, _instance)
        new.scale, new.concentration = self.scale.expand(batch_shape), self.concentration.expand(batch_shape)
        new.concentration_reciprocal = new.concentration.reciprocal()
        base = self.base_dist.expand(batch_shape)
        parts = [
            PowerTransform(exponent=new.concentration_reciprocal),
            AffineTransform(loc=0, scale=new.scale),
        ]
        TransformedDistribution.__init__(new, base, parts, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.scale * ops.exp(ops.lgamma(1 + self.concentration_reciprocal))

    @property
    def mode(self) -> Tensor:
        """The densest value."""
        k = self.concentration
        return self.scale * ((k - 1) / k) ** k.reciprocal()

    @property
    def variance(self) -> Tensor:
        """The variance."""
        first = ops.lgamma(1 + self.concentration_reciprocal)
        second = ops.lgamma(1 + 2 * self.concentration_reciprocal)
        return self.scale.pow(2) * (ops.exp(second) - ops.exp(2 * first))

    def entropy(self) -> Tensor:
        """Return the entropy."""
        reciprocal = self.concentration_reciprocal
        return euler_constant * (1 - reciprocal) + ops.log(self.scale * reciprocal) + 1


class GeneralizedPareto(Distribution):
    """What exceeds the high threshold `loc`: a tail of the `scale`, its weight given by `concentration`.

    Parameters
    ----------
    loc : Tensor or float
        The threshold, the least value.
    scale : Tensor or float
        The scale, positive.
    concentration : Tensor or float
        The weight of the tail; 0 is the exponential distribution.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> x = adjoint.distributions.GeneralizedPareto(0.0, 1.0, 0.5)
    >>> x.log_prob(adjoint.tensor(1.0))
    tensor(-1.2164)
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @property
    def _exponential(self) -> Tensor:
        """Where the concentration is so near zero that the tail is exponential."""
        return ops.isclose(self.concentration, ops.zeros_like(self.concentration))

    def _safe(self) -> Tensor:
        """Return the concentration with a one where it is not divided by."""
        return ops.where(self._exponential, ops.ones_like(self.concentration), self.concentration)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return reparameterized samples, with gradients for the parameters."""
        shape = self._extended_shape(sample_shape)
        return self.icdf(ops.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def _z(self, x: Tensor) -> Tensor:
        return (x - self.loc) / self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at `value`."""
        self._check(value)
        z, k = self._z(value), self._safe()
        tail = (1 + 1 / k) * ops.log1p(k * z)
        return -ops.log(self.scale) - ops.where(self._exponential, z, tail)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of more than `value`."""
        self._check(value)
        z, k = self._z(value), self._safe()
        return ops.where(self._exponential, -z, -ops.log1p(k * z) / k)

    def log_cdf(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of at most `value`."""
        return ops.log1p(-ops.exp(self.log_survival_function(value)))

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of at most `value`."""
        return ops.exp(self.log_cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile of the probability `value`."""
        k, log_survival = self._safe(), ops.log1p(-value)
        tail = ops.expm1(-k * log_survival) / k
        return self.loc + self.scale * ops.where(self._exponential, -log_survival, tail)

    @property
    def mean(self) -> Tensor:
        """The mean, infinite for heavy tails."""
        k = self.concentration
        finite = self.loc + self.scale / (1 - ops.where(k < 1, k, ops.zeros_like(k)))
        return ops.where(k < 1, finite, math.inf)

    @property
    def variance(self) -> Tensor:
        """The variance, infinite for heavy tails."""
        k = self.concentration
        safe = ops.where(k < 0.5, k, ops.zeros_like(k))
        return ops.where(k < 0.5, self.scale**2 / ((1 - safe) ** 2 * (1 - 2 * safe)), math.inf)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return ops.log(self.scale) + self.concentration + 1

    @property
    def mode(self) -> Tensor:
        """The threshold."""
        return self.loc

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        """Numbers from the threshold on; up to an end where the concentration is negative."""
        end = ops.where(self.concentration < 0, self.loc - self.scale / self._safe(), math.inf)
        return constraints.interval(self.loc, end)
