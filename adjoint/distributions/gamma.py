"""The gamma distribution and those derived from it: beta, Dirichlet, F, Student's t."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

from .._typing import Tensor
from ..core.dtypes import finfo
from ..core.size import Size
from ..ops.embedding import one_hot
from ..ops.variates import _sample_dirichlet, _standard_gamma
from . import constraints
from .composed import TransformedDistribution
from .distribution import Distribution, ExponentialFamily
from .transforms import PowerTransform
from .utils import _standard_normal, broadcast_all, ops

__all__ = ["Beta", "Chi2", "Dirichlet", "Exponential", "FisherSnedecor", "Gamma", "InverseGamma", "StudentT"]


class Gamma(ExponentialFamily):
    """A gamma distribution of shape `concentration` and `rate`, of positive numbers.

    ``p(x) = rate^a x^(a - 1) exp(-rate x) / Γ(a)`` with ``a = concentration``; mean ``a / rate``, variance
    ``a / rate²``. The gradients of `rsample` reach both parameters.

    Parameters
    ----------
    concentration : Tensor or float
        The shape, positive.
    rate : Tensor or float
        The inverse of the scale, positive.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> gamma = adjoint.distributions.Gamma(2.0, 0.5)
    >>> gamma.mean, gamma.variance
    (tensor(4.), tensor(8.))
    >>> gamma.log_prob(adjoint.tensor(2.0))
    tensor(-1.6931)
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The concentration over the rate."""
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        """The greatest density, at zero for small concentrations."""
        return ((self.concentration - 1) / self.rate).clamp(min=0)

    @property
    def variance(self) -> Tensor:
        """The concentration over the square of the rate."""
        return self.concentration / self.rate.pow(2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return reparameterized samples, with gradients for both parameters."""
        shape = self._extended_shape(sample_shape)
        value = _standard_gamma(self.concentration.expand(shape)) / self.rate.expand(shape)
        value.detach().clamp_(min=finfo(value.dtype).tiny)  # zero would have no logarithm
        return value

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at `value`."""
        value = ops.as_tensor(value, dtype=self.rate.dtype, device=self.rate.device)
        self._check(value)
        return (
            ops.xlogy(self.concentration, self.rate)
            + ops.xlogy(self.concentration - 1, value)
            - self.rate * value
            - ops.lgamma(self.concentration)
        )

    def entropy(self) -> Tensor:
        """Return the entropy."""
        a = self.concentration
        return a - ops.log(self.rate) + ops.lgamma(a) + (1.0 - a) * ops.digamma(a)

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return self.concentration - 1, -self.rate

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        return ops.lgamma(x + 1) + (x + 1) * ops.log(-y.reciprocal())

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of at most `value`."""
        self._check(value)
        return ops.igamma(self.concentration, self.rate * value)


class Chi2(Gamma):
    """The distribution of the sum of squares of `df` standard normal numbers.

    Parameters
    ----------
    df : Tensor or float
        Degrees of freedom, positive.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> x = adjoint.distributions.Chi2(3.0)
    >>> x.log_prob(adjoint.tensor(2.0))
    tensor(-1.5724)
    >>> x.mean, x.variance
    (tensor(3.), tensor(6.))
    """

    arg_constraints = {"df": constraints.positive}
    _expanded = ("concentration", "rate")

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        super().__init__(0.5 * df, 0.5, validate_args=validate_args)

    @property
    def df(self) -> Tensor:
        """The degrees of freedom."""
        return self.concentration * 2


class Exponential(ExponentialFamily):
    """An exponential distribution: waiting times of events that come at `rate`.

    ``p(x) = rate exp(-rate x)`` for x >= 0; mean ``1 / rate``.

    Parameters
    ----------
    rate : Tensor or float
        Events per unit of time, positive.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> waiting = adjoint.distributions.Exponential(2.0)
    >>> waiting.mean, waiting.cdf(adjoint.tensor(1.0))
    (tensor(0.5000), tensor(0.8647))
    """

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """One over the rate."""
        return self.rate.reciprocal()

    @property
    def mode(self) -> Tensor:
        """Zero."""
        return ops.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        """One over the rate."""
        return self.rate.reciprocal()

    @property
    def variance(self) -> Tensor:
        """One over the square of the rate."""
        return self.rate.pow(-2)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return reparameterized samples, with gradients for the rate."""
        return self.rate.new_empty(self._extended_shape(sample_shape)).exponential_() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at `value`."""
        self._check(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of at most `value`."""
        self._check(value)
        return 1 - ops.exp(-self.rate * value)

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile of the probability `value`."""
        return -ops.log1p(-value) / self.rate

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return 1.0 - ops.log(self.rate)

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (-self.rate,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return -ops.log(-x)


class InverseGamma(TransformedDistribution):
    """The distribution of ``1 / x`` for a gamma `x` of the same `concentration` and `rate`.

    Parameters
    ----------
    concentration : Tensor or float
        The shape, positive.
    rate : Tensor or float
        The inverse of the scale of the gamma, positive.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> x = adjoint.distributions.InverseGamma(3.0, 2.0)
    >>> x.log_prob(adjoint.tensor(1.0))
    tensor(-0.6137)
    >>> x.mean, x.variance
    (tensor(1.), tensor(1.))
    """

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive  # type: ignore[assignment]
    has_rsample = True  # type: ignore[assignment]

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        power = PowerTransform(-base.rate.new_ones(()))
        super().__init__(base, power, validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        """The concentration."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """The rate."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        """The mean, infinite for small concentrations."""
        a = self.concentration
        return ops.where(a > 1, self.rate / (a - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        """The densest value."""
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        """The variance, infinite for small concentrations."""
        a = self.concentration
        return ops.where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), math.inf)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()


class Dirichlet(ExponentialFamily):
    """A distribution of probability vectors: of nonnegative numbers that sum to one.

    ``p(x) = Γ(Σ aᵢ) / Π Γ(aᵢ) · Π xᵢ^(aᵢ - 1)`` with ``a = concentration``; mean ``a / Σ aᵢ``.

    Parameters
    ----------
    concentration : Tensor
        One positive number for each part, along the last dimension.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> dirichlet = adjoint.distributions.Dirichlet(adjoint.tensor([1.0, 2.0, 5.0]))
    >>> dirichlet.mean
    tensor([0.1250, 0.2500, 0.6250])
    >>> round(dirichlet.sample().sum().item(), 4)
    1.0
    """

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return reparameterized samples, with gradients for the concentration."""
        return _sample_dirichlet(self.concentration.expand(self._extended_shape(Size(tuple(sample_shape)))))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at `value`."""
        self._check(value)
        a = self.concentration
        return ops.xlogy(a - 1.0, value).sum(-1) + ops.lgamma(a.sum(-1)) - ops.lgamma(a).sum(-1)

    @property
    def mean(self) -> Tensor:
        """The concentration, normalised."""
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        """The densest point; a corner where all concentrations are below one."""
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        cornered = (self.concentration < 1).all(dim=-1)
        mode[cornered] = one_hot(mode[cornered].argmax(dim=-1), above.shape[-1]).to(mode)
        return mode

    @property
    def variance(self) -> Tensor:
        """The variance of each part."""
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self) -> Tensor:
        """Return the entropy."""
        a, parts = self.concentration, self.concentration.size(-1)
        total = a.sum(-1)
        return (
            ops.lgamma(a).sum(-1)
            - ops.lgamma(total)
            - (parts - total) * ops.digamma(total)
            - ((a - 1.0) * ops.digamma(a)).sum(-1)
        )

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (self.concentration,)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return x.lgamma().sum(-1) - ops.lgamma(x.sum(-1))


class Beta(ExponentialFamily):
    """A beta distribution of numbers between 0 and 1.

    ``p(x) = x^(a - 1) (1 - x)^(b - 1) / B(a, b)`` with ``a = concentration1``, ``b = concentration0``; mean
    ``a / (a + b)``. The gradients of `rsample` reach both parameters.

    Parameters
    ----------
    concentration1 : Tensor or float
        Positive; the greater, the closer to one.
    concentration0 : Tensor or float
        Positive; the greater, the closer to zero.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> beta = adjoint.distributions.Beta(2.0, 3.0)
    >>> beta.mean
    tensor(0.4000)
    >>> beta.log_prob(adjoint.tensor(0.5)).exp()
    tensor(1.5000)
    """

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    _expanded = ("_dirichlet",)

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        if isinstance(concentration1, Real) and isinstance(concentration0, Real):
            both = ops.tensor([float(concentration1), float(concentration0)])
        else:
            both = ops.stack(broadcast_all(concentration1, concentration0), -1)
        self._dirichlet = Dirichlet(both, validate_args=validate_args)
        super().__init__(self._dirichlet._batch_shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The mean: the fraction of the first concentration."""
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        """The densest value."""
        return self._dirichlet.mode[..., 0]

    @property
    def variance(self) -> Tensor:
        """The variance."""
        total = self.concentration1 + self.concentration0
        return self.concentration1 * self.concentration0 / (total.pow(2) * (total + 1))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return reparameterized samples, with gradients for both parameters."""
        return self._dirichlet.rsample(sample_shape).select(-1, 0)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at `value`."""
        self._check(value)
        return self._dirichlet.log_prob(ops.stack([value, 1.0 - value], -1))

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return self._dirichlet.entropy()

    def _part(self, index: int) -> Tensor:
        return self._dirichlet.concentration[..., index]

    @property
    def concentration1(self) -> Tensor:
        """The first concentration."""
        return self._part(0)

    @property
    def concentration0(self) -> Tensor:
        """The second concentration."""
        return self._part(1)

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        return self.concentration1, self.concentration0

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        return ops.lgamma(x) + ops.lgamma(y) - ops.lgamma(x + y)


class FisherSnedecor(Distribution):
    """The distribution of the ratio of two mean squares, of `df1` and `df2` normal numbers.

    Parameters
    ----------
    df1 : Tensor or float
        Degrees of freedom of the numerator.
    df2 : Tensor or float
        Degrees of freedom of the denominator.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> x = adjoint.distributions.FisherSnedecor(2.0, 6.0)
    >>> x.log_prob(adjoint.tensor(1.0))
    tensor(-1.1507)
    """

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    _expanded = ("_gamma1", "_gamma2")

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        self._gamma1 = Gamma(self.df1 * 0.5, self.df1)
        self._gamma2 = Gamma(self.df2 * 0.5, self.df2)
        super().__init__(self.df1.size(), validate_args=validate_args)

    def _where_df2_above(self, least: int) -> Tensor:
        df2 = self.df2.clone()
        df2[df2 <= least] = float("nan")
        return df2

    @property
    def mean(self) -> Tensor:
        """The mean, if it exists."""
        df2 = self._where_df2_above(2)
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Tensor:
        """The densest value, where it is inside."""
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        mode[self.df1 <= 2] = float("nan")
        return mode

    @property
    def variance(self) -> Tensor:
        """The variance, if it exists."""
        df2 = self._where_df2_above(4)
        return 2 * df2.pow(2) * (self.df1 + df2 - 2) / (self.df1 * (df2 - 2).pow(2) * (df2 - 4))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return reparameterized samples, with gradients for both parameters."""
        shape = self._extended_shape(sample_shape)
        above = self._gamma1.rsample(sample_shape).view(shape)
        below = self._gamma2.rsample(sample_shape).view(shape)
        below.detach().clamp_(min=finfo(below.dtype).tiny)
        ratio = above / below
        ratio.detach().clamp_(min=finfo(below.dtype).tiny)
        return ratio

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at `value`."""
        self._check(value)
        half1, half2, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        norm = (half1 + half2).lgamma() - half1.lgamma() - half2.lgamma()
        body = half1 * ratio.log() + (half1 - 1) * ops.log(value)
        return norm + body - (half1 + half2) * ops.log1p(ratio * value)


class StudentT(Distribution):
    """Student's t-distribution of `df` degrees of freedom, shifted to `loc` and scaled by `scale`.

    ``p(x) ∝ (1 + y² / df)^(-(df + 1) / 2)`` with ``y = (x - loc) / scale``, for any real x. The mean is `loc` for
    ``df > 1``, else NaN; the variance is infinite for ``1 < df <= 2``.

    Parameters
    ----------
    df : Tensor or float
        The degrees of freedom, positive.
    loc : Tensor or float, default 0.0
        The centre.
    scale : Tensor or float, default 1.0
        Positive; it is not the standard deviation.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> t = adjoint.distributions.StudentT(3.0)
    >>> t.mean, t.variance
    (tensor(0.), tensor(3.))
    >>> t.log_prob(adjoint.tensor(0.0))
    tensor(-1.0009)
    """

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    _expanded = ("_chi2",)

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        self._chi2 = Chi2(self.df)
        super().__init__(self.df.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The centre, where there is one: for more than one degree of freedom."""
        m = self.loc.clone()
        m[self.df <= 1] = math.nan
        return m

    @property
    def mode(self) -> Tensor:
        """The centre."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The variance: infinite up to two degrees of freedom, undefined up to one."""
        m = self.df.clone()
        wide = self.df > 2
        m[wide] = self.scale[wide].pow(2) * self.df[wide] / (self.df[wide] - 2)
        m[(self.df <= 2) & (self.df > 1)] = math.inf
        m[self.df <= 1] = math.nan
        return m

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return reparameterized samples, with gradients for all parameters."""
        shape = self._extended_shape(sample_shape)
        x = _standard_normal(shape, dtype=self.df.dtype, device=self.df.device)
        z = self._chi2.rsample(sample_shape)
        return self.loc + self.scale * x * ops.rsqrt(z / self.df)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at `value`."""
        self._check(value)
        y = (value - self.loc) / self.scale
        norm = (
            self.scale.log()
            + 0.5 * self.df.log()
            + 0.5 * math.log(math.pi)
            + ops.lgamma(0.5 * self.df)
            - ops.lgamma(0.5 * (self.df + 1.0))
        )
        return -0.5 * (self.df + 1.0) * ops.log1p(y**2.0 / self.df) - norm

    def entropy(self) -> Tensor:
        """Return the entropy."""
        half = 0.5 * self.df
        log_beta = ops.lgamma(half) + math.lgamma(0.5) - ops.lgamma(half + 0.5)
        spread = 0.5 * (self.df + 1) * (ops.digamma(half + 0.5) - ops.digamma(half))
        return self.scale.log() + spread + 0.5 * self.df.log() + log_beta
