"""The exponential distribution."""

from __future__ import annotations

from numbers import Number
from typing import Any

from .._typing import Tensor
from ..core.size import Size
from . import constraints
from .exp_family import ExponentialFamily
from .utils import broadcast_all, ops

__all__ = ["Exponential"]


class Exponential(ExponentialFamily):
    """An exponential distribution: waiting times of events that come at `rate`."""

    arg_constraints = {"rate": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    _mean_carrier_measure = 0

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(Size(()) if isinstance(rate, Number) else self.rate.size(), validate_args=validate_args)

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
        """Draw such that gradients reach the rate."""
        return self.rate.new_empty(self._extended_shape(sample_shape)).exponential_() / self.rate

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at `value`."""
        if self._validate_args:
            self._validate_sample(value)
        return self.rate.log() - self.rate * value

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of at most `value`."""
        if self._validate_args:
            self._validate_sample(value)
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
