"""Exponential families: entropies and divergences from the log-normaliser alone."""

from __future__ import annotations

from typing import Any

from .._typing import Tensor
from ..autograd import enable_grad, grad
from .distribution import Distribution

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """A distribution of the density ``exp(<t(x), natural> - log_normalizer(natural) + carrier(x))``."""

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """Return the entropy: the log-normaliser less the natural parameters times its gradient."""
        result, natural, gradients = self._normalizer_with_gradients()
        result = result - self._mean_carrier_measure
        for parameter, g in zip(natural, gradients, strict=True):
            result = result - (parameter * g).reshape(self._batch_shape + (-1,)).sum(-1)
        return result

    def _normalizer_with_gradients(self) -> tuple[Tensor, list[Tensor], tuple[Tensor, ...]]:
        """Return the log-normaliser, the natural parameters, and its gradient in them (the mean of t)."""
        natural = [p.detach().requires_grad_() for p in self._natural_params]
        with enable_grad():
            normalizer = self._log_normalizer(*natural)
            gradients = grad(normalizer.sum(), natural, create_graph=True)
        return normalizer, natural, gradients
