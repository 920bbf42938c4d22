"""Distributions with a centre and a width, their halves, logarithms and simplexes."""

from __future__ import annotations

import math
from typing import Any

from .._typing import Tensor
from ..autograd import no_grad
from ..core.dtypes import finfo, float64
from ..core.size import Size
from ..ops.bessel import i0e, i1e
from . import constraints
from .composed import TransformedDistribution
from .distribution import Distribution, ExponentialFamily
from .transforms import AbsTransform, ExpTransform, StickBreakingTransform
from .utils import _standard_normal, broadcast_all, lazy_property, ops

__all__ = ["Cauchy", "HalfCauchy", "HalfNormal", "Laplace", "LogNormal", "LogisticNormal", "Normal", "VonMises"]


class _Centred(Distribution):
    """What has a centre `loc` and a width `scale`."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.size(), validate_args=validate_args)

    @property
    def mode(self) -> Tensor:
        """The centre."""
        return self.loc


class Normal(_Centred, ExponentialFamily):
    """A normal distribution of mean `loc` and standard deviation `scale`.

    ``p(x) = exp(-(x - loc)² / (2 scale²)) / (scale √(2π))`` for any real x. The gradients of `rsample` reach both
    parameters.

    Parameters
    ----------
    loc : Tensor or float
        The mean.
    scale : Tensor or float
        The standard deviation, positive.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> normal = adjoint.distributions.Normal(1.0, 2.0)
    >>> normal.log_prob(adjoint.tensor(1.0))
    tensor(-1.6121)
    >>> normal.cdf(adjoint.tensor(3.0))
    tensor(0.8413)
    >>> mean = adjoint.tensor(0.0, requires_grad=True)
    >>> adjoint.distributions.Normal(mean, 1.0).rsample().backward()
    >>> mean.grad
    tensor(1.)
    """

    _mean_carrier_measure = 0

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.loc

    @property
    def stddev(self) -> Tensor:
        """The scale."""
        return self.scale

    @property
    def variance(self) -> Tensor:
        """The square of the scale."""
        return self.stddev.pow(2)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Return samples, without a gradient."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            return ops.normal(self.loc.expand(shape), self.scale.expand(shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return reparameterized samples, with gradients for the parameters."""
        shape = self._extended_shape(sample_shape)
        return self.loc + _standard_normal(shape, dtype=self.loc.dtype, device=self.loc.device) * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at `value`."""
        self._check(value)
        spread = -((value - self.loc) ** 2) / (2 * self.scale**2)
        return spread - self.scale.log() - math.log(math.sqrt(2 * math.pi))

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of at most `value`."""
        self._check(value)
        return 0.5 * (1 + ops.erf((value - self.loc) * self.scale.reciprocal() / math.sqrt(2)))

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile of the probability `value`."""
        return self.loc + self.scale * ops.erfinv(2 * value - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return 0.5 + 0.5 * math.log(2 * math.pi) + ops.log(self.scale)

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return self.loc / self.scale.pow(2), -0.5 * self.scale.pow(2).reciprocal()

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        return -0.25 * x.pow(2) / y + 0.5 * ops.log(-math.pi / y)


class Laplace(_Centred):
    """A Laplace distribution: exponential on both sides of `loc`.

    ``p(x) = exp(-|x - loc| / scale) / (2 scale)`` for any real x; variance ``2 scale²``.

    Parameters
    ----------
    loc : Tensor or float
        The mean.
    scale : Tensor or float
        The mean distance from `loc`, positive.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> laplace = adjoint.distributions.Laplace(0.0, 1.0)
    >>> laplace.log_prob(adjoint.tensor([0.0, 1.0])).exp()
    tensor([0.5000, 0.1839])
    >>> laplace.variance
    tensor(2.)
    """

    @property
    def mean(self) -> Tensor:
        """The centre."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """Twice the square of the scale."""
        return 2 * self.scale.pow(2)

    @property
    def stddev(self) -> Tensor:
        """The scale times the root of two."""
        return 2**0.5 * self.scale

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return reparameterized samples, with gradients for the parameters."""
        shape = self._extended_shape(sample_shape)
        u = self.loc.new_empty(shape).uniform_(finfo(self.loc.dtype).eps - 1, 1)
        return self.loc - self.scale * u.sign() * ops.log1p(-u.abs())

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at `value`."""
        self._check(value)
        return -ops.log(2 * self.scale) - ops.abs(value - self.loc) / self.scale

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of at most `value`."""
        self._check(value)
        away = value - self.loc
        return 0.5 - 0.5 * away.sign() * ops.expm1(-away.abs() / self.scale)

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile of the probability `value`."""
        term = value - 0.5
        return self.loc - self.scale * term.sign() * ops.log1p(-2 * term.abs())

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return 1 + ops.log(2 * self.scale)


class Cauchy(_Centred):
    """A Cauchy distribution of median `loc` and half width `scale`; it has no mean.

    ``p(x) = 1 / (pi * scale * (1 + ((x - loc) / scale)**2))``

    Parameters
    ----------
    loc : Tensor or float
        The median.
    scale : Tensor or float
        Half the width at half height, positive.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> x = adjoint.distributions.Cauchy(0.0, 1.0)
    >>> x.log_prob(adjoint.tensor(0.0))
    tensor(-1.1447)
    """

    @property
    def mean(self) -> Tensor:
        """NaN: there is none."""
        return ops.full(self._extended_shape(), math.nan, dtype=self.loc.dtype, device=self.loc.device)

    @property
    def variance(self) -> Tensor:
        """Infinite."""
        return ops.full(self._extended_shape(), math.inf, dtype=self.loc.dtype, device=self.loc.device)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return reparameterized samples, with gradients for the parameters."""
        return self.loc + self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_() * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at `value`."""
        self._check(value)
        return -math.log(math.pi) - self.scale.log() - (((value - self.loc) / self.scale) ** 2).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of at most `value`."""
        self._check(value)
        return ops.atan((value - self.loc) / self.scale) / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile of the probability `value`."""
        return ops.tan(math.pi * (value - 0.5)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return math.log(4 * math.pi) + self.scale.log()


class LogNormal(TransformedDistribution):
    """The distribution of numbers whose logarithm is normal, with mean `loc` and standard deviation `scale`.

    ``p(x) = exp(-(log x - loc)² / (2 scale²)) / (x scale √(2π))`` for x > 0; mean ``exp(loc + scale² / 2)``.

    Parameters
    ----------
    loc : Tensor or float
        The mean of the logarithm.
    scale : Tensor or float
        The standard deviation of the logarithm, positive.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> incomes = adjoint.distributions.LogNormal(0.0, 1.0)
    >>> incomes.mean, incomes.mode
    (tensor(1.6487), tensor(0.3679))
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.positive  # type: ignore[assignment]
    has_rsample = True  # type: ignore[assignment]

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args=validate_args), ExpTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """The mean of the logarithm."""
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviation of the logarithm."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return (self.loc + self.scale.pow(2) / 2).exp()

    @property
    def mode(self) -> Tensor:
        """The densest value."""
        return (self.loc - self.scale.square()).exp()

    @property
    def variance(self) -> Tensor:
        """The variance."""
        square = self.scale.pow(2)
        return square.expm1() * (2 * self.loc + square).exp()

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return self.base_dist.entropy() + self.loc


class _Half(TransformedDistribution):
    """The distribution of ``|x|`` for an `x` that is centred at zero, with the width `scale`."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative  # type: ignore[assignment]
    has_rsample = True  # type: ignore[assignment]

    @property
    def scale(self) -> Tensor:
        """The width of `x`."""
        return self.base_dist.scale

    @property
    def mode(self) -> Tensor:
        """Zero."""
        return ops.zeros_like(self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at `value`."""
        self._check(value)
        log_prob = self.base_dist.log_prob(value) + math.log(2)
        return ops.where(value >= 0, log_prob, -math.inf)

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of at most `value`."""
        self._check(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob: Tensor) -> Tensor:
        """Return the quantile of the probability `prob`."""
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return self.base_dist.entropy() - math.log(2)


class HalfNormal(_Half):
    """The distribution of ``|x|`` for a normal `x` of mean zero and standard deviation `scale`.

    Parameters
    ----------
    scale : Tensor or float
        Standard deviation of the normal, positive.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> x = adjoint.distributions.HalfNormal(1.0)
    >>> x.log_prob(adjoint.tensor(0.0))
    tensor(-0.2258)
    >>> x.mean, x.variance
    (tensor(0.7979), tensor(0.3634))
    """

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.scale.pow(2) * (1 - 2 / math.pi)


class HalfCauchy(_Half):
    """The distribution of ``|x|`` for a Cauchy `x` of median zero and half width `scale`.

    Parameters
    ----------
    scale : Tensor or float
        The scale, positive.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> x = adjoint.distributions.HalfCauchy(1.0)
    >>> x.log_prob(adjoint.tensor(0.0))
    tensor(-0.4516)
    """

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        base = Cauchy(0, scale, validate_args=False)
        super().__init__(base, AbsTransform(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """Infinite."""
        return ops.full(self._extended_shape(), math.inf, dtype=self.scale.dtype, device=self.scale.device)

    @property
    def variance(self) -> Tensor:
        """Infinite."""
        return self.base_dist.variance

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at `value`."""
        self._check(value)
        value = ops.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
        log_prob = self.base_dist.log_prob(value) + math.log(2)
        return ops.where(value >= 0, log_prob, -math.inf)


class LogisticNormal(TransformedDistribution):
    """A distribution of probability vectors: normal numbers, mapped to the simplex by breaking sticks.

    Parameters
    ----------
    loc : Tensor or float
        Means of the normal, (..., n - 1).
    scale : Tensor or float
        Standard deviations.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> x = adjoint.distributions.LogisticNormal(adjoint.zeros(2), adjoint.ones(2))
    >>> x.log_prob(adjoint.tensor([0.2, 0.3, 0.5]))
    tensor(1.2980)
    >>> x.event_shape
    adjoint.Size([3])
    """

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.simplex  # type: ignore[assignment]
    has_rsample = True  # type: ignore[assignment]

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        base = Normal(loc, scale, validate_args=validate_args)
        if not base.batch_shape:
            base = base.expand([1])
        super().__init__(base, StickBreakingTransform(), validate_args=validate_args)

    @property
    def loc(self) -> Tensor:
        """The means of the normal numbers."""
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        """The standard deviations of the normal numbers."""
        return self.base_dist.base_dist.scale


class VonMises(Distribution):
    """The normal distribution of the circle: angles around `loc`, the closer the greater `concentration`.

    ``p(x)`` is proportional to ``exp(concentration * cos(x - loc))``.

    Parameters
    ----------
    loc : Tensor or float
        The mean angle, in radians.
    concentration : Tensor or float
        Positive; the larger, the closer angles are to `loc`.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> x = adjoint.distributions.VonMises(0.0, 1.0)
    >>> x.log_prob(adjoint.tensor(0.0))
    tensor(-1.0738)
    """

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    has_rsample = False

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, Size(()), validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at `value`."""
        self._check(value)
        k = self.concentration
        # log I0(k) = log(exp(-k) I0(k)) + k, and the k goes into the cosine: nothing overflows
        return k * (ops.cos(value - self.loc) - 1) - math.log(2 * math.pi) - i0e(k).log()

    # Angles are drawn in double precision: in single, small concentrations never end.

    @lazy_property
    def _loc(self) -> Tensor:
        return self.loc.to(float64)

    @lazy_property
    def _concentration(self) -> Tensor:
        return self.concentration.to(float64)

    @lazy_property
    def _proposal_r(self) -> Tensor:
        k = self._concentration
        tau = 1 + (1 + 4 * k**2).sqrt()
        rho = (tau - (2 * tau).sqrt()) / (2 * k)
        return ops.where(k < 1e-5, 1 / k + k, (1 + rho**2) / (2 * rho))

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Sample angles by rejection from a wrapped Cauchy distribution (D. J. Best and N. I. Fisher, 1979)."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            x = ops.zeros(shape, dtype=float64, device=self.loc.device)
            loc, k, r = (v.expand(shape) for v in (self._loc, self._concentration, self._proposal_r))
            done = ops.zeros(shape, device=self.loc.device) > 0
            while not done.all():
                u1, u2, u3 = ops.rand((3, *shape), dtype=float64, device=self.loc.device).unbind()
                z = ops.cos(math.pi * u1)
                f = (1 + r * z) / (r + z)
                c = k * (r - f)
                accept = ((c * (2 - c) - u2) > 0) | ((c / u2).log() + 1 - c >= 0)
                x = ops.where(accept, (u3 - 0.5).sign() * f.acos(), x)
                done = done | accept
            return ((x + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return the distribution with its parameters expanded."""
        return type(self)(
            self.loc.expand(batch_shape), self.concentration.expand(batch_shape), validate_args=self._validate_args
        )

    @property
    def mean(self) -> Tensor:
        """The mean direction."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The mean direction."""
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:  # type: ignore[override]
        """The circular variance."""
        return 1 - i1e(self.concentration) / i0e(self.concentration)
