"""The Bernoulli distribution."""

from __future__ import annotations

from numbers import Number
from typing import Any

from .._typing import Tensor
from ..autograd import no_grad
from ..core.size import Size
from ..ops.loss import binary_cross_entropy_with_logits
from . import constraints
from .chances import Chances
from .exp_family import ExponentialFamily
from .utils import broadcast_all, ops

__all__ = ["Bernoulli"]


class Bernoulli(Chances, ExponentialFamily):
    """One with the probability `probs` (or log-odds `logits`), zero otherwise."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        name = self._only(probs, logits)
        given = logits if probs is None else probs
        (parameter,) = broadcast_all(given)
        setattr(self, name, parameter)
        super().__init__(Size(()) if isinstance(given, Number) else parameter.size(), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """The probability of one."""
        return self.probs

    @property
    def mode(self) -> Tensor:
        """The likelier value, NaN where both are as likely."""
        mode = (self.probs >= 0.5).to(self.probs)
        mode[self.probs == 0.5] = float("nan")
        return mode

    @property
    def variance(self) -> Tensor:
        """The variance."""
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw zeros and ones."""
        with no_grad():
            return ops.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-probability of `value`."""
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return zero and one."""
        values = ops.arange(2, dtype=self._param.dtype, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values

    @property
    def _natural_params(self) -> tuple[Tensor]:
        return (ops.logit(self.probs),)

    def _log_normalizer(self, x: Tensor) -> Tensor:  # type: ignore[override]
        return ops.log1p(ops.exp(x))
