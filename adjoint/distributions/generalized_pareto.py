"""The generalised Pareto distribution."""

from __future__ import annotations

import math
from numbers import Number
from typing import Any

from .._typing import Tensor
from ..core.size import Size
from . import constraints
from .distribution import Distribution
from .utils import broadcast_all, ops

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """What exceeds the high threshold `loc`: a tail of the `scale`, its weight given by `concentration`."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        numbers = all(isinstance(v, Number) for v in (loc, scale, concentration))
        super().__init__(Size(()) if numbers else self.loc.size(), validate_args=validate_args)

    @property
    def _exponential(self) -> Tensor:
        """Where the concentration is so near zero that the tail is exponential."""
        return ops.isclose(self.concentration, ops.zeros_like(self.concentration))

    def _safe(self) -> Tensor:
        """Return the concentration with a one where it is not divided by."""
        return ops.where(self._exponential, ops.ones_like(self.concentration), self.concentration)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw such that gradients reach the parameters."""
        shape = self._extended_shape(sample_shape)
        return self.icdf(ops.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def _z(self, x: Tensor) -> Tensor:
        return (x - self.loc) / self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at `value`."""
        if self._validate_args:
            self._validate_sample(value)
        z, k = self._z(value), self._safe()
        tail = (1 + 1 / k) * ops.log1p(k * z)
        return -ops.log(self.scale) - ops.where(self._exponential, z, tail)

    def log_survival_function(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability of more than `value`."""
        if self._validate_args:
            self._validate_sample(value)
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
