"""The geometric distribution."""

from __future__ import annotations

from numbers import Number
from typing import Any

from .._typing import Tensor
from ..autograd import no_grad
from ..core.dtypes import finfo
from ..core.size import Size
from ..ops.loss import binary_cross_entropy_with_logits
from . import constraints
from .chances import Chances
from .utils import broadcast_all

__all__ = ["Geometric"]


class Geometric(Chances):
    """How many trials fail before the first success, of the probability `probs` (or log-odds `logits`)."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        name = self._only(probs, logits)
        given = logits if probs is None else probs
        (parameter,) = broadcast_all(given)
        setattr(self, name, parameter)
        super().__init__(Size(()) if isinstance(given, Number) else parameter.size(), validate_args=validate_args)
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
        """Draw numbers of failures."""
        shape = self._extended_shape(sample_shape)
        with no_grad():
            u = self.probs.new_empty(shape).uniform_(finfo(self.probs.dtype).tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-probability of `value`."""
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        probs = probs.clone()
        probs[(probs == 1) & (value == 0)] = 0  # nothing times the logarithm of nothing
        return value * (-probs).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        """Return the entropy."""
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs
