"""The negative binomial distribution."""

from __future__ import annotations

from typing import Any

from .._typing import Tensor
from ..autograd import no_grad
from ..ops.activation import logsigmoid
from . import constraints
from .chances import Chances
from .gamma import Gamma
from .utils import broadcast_all, lazy_property, ops

__all__ = ["NegativeBinomial"]


class NegativeBinomial(Chances):
    """How many trials succeed before `total_count` have failed; `probs` is that of a success."""

    arg_constraints = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support = constraints.nonnegative_integer

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        name = self._only(probs, logits)
        self.total_count, parameter = broadcast_all(total_count, logits if probs is None else probs)
        self.total_count = self.total_count.type_as(parameter)
        setattr(self, name, parameter)
        super().__init__(parameter.size(), validate_args=validate_args)

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
        """Draw numbers of successes."""
        with no_grad():
            return ops.poisson(self._gamma.sample(sample_shape=sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-probability of `value`."""
        if self._validate_args:
            self._validate_sample(value)
        weights = self.total_count * logsigmoid(-self.logits) + value * logsigmoid(self.logits)
        norm = -ops.lgamma(self.total_count + value) + ops.lgamma(1.0 + value) + ops.lgamma(self.total_count)
        return weights - norm.masked_fill(self.total_count + value == 0.0, 0.0)
