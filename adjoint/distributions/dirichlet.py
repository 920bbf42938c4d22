"""The Dirichlet distribution."""

from __future__ import annotations

from typing import Any

from .._typing import Tensor
from ..core.size import Size
from ..ops.embedding import one_hot
from ..ops.variates import _sample_dirichlet
from . import constraints
from .exp_family import ExponentialFamily
from .utils import ops

__all__ = ["Dirichlet"]


class Dirichlet(ExponentialFamily):
    """A distribution of probability vectors, by the `concentration` of each part."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("`concentration` parameter must be at least one-dimensional.")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw such that gradients reach the concentration."""
        return _sample_dirichlet(self.concentration.expand(self._extended_shape(Size(tuple(sample_shape)))))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at `value`."""
        if self._validate_args:
            self._validate_sample(value)
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
