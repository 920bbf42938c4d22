"""Distributions given by probabilities or by log-odds: either is computed from the other when asked for."""

from __future__ import annotations

from typing import Any

from .._typing import Tensor
from ..core.size import Size
from .distribution import Distribution
from .utils import lazy_property, logits_to_probs, probs_to_logits


class Chances(Distribution):
    """What distributions of `probs` or `logits` share; `_binary` says whether the two outcomes are yes and no."""

    _binary = True

    @staticmethod
    def _only(probs: Any, logits: Any) -> str:
        """Return which of the two was given; both or neither is an error."""
        if (probs is None) == (logits is None):
            raise ValueError("Either `probs` or `logits` must be specified, but not both.")
        return "logits" if probs is None else "probs"

    @property
    def _param(self) -> Tensor:
        return self.__dict__[self._given]

    @property
    def _given(self) -> str:
        return next(name for name in self.__dict__ if name in ("probs", "logits"))

    def _new(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._param.new(*args, **kwargs)

    @lazy_property
    def logits(self) -> Tensor:
        """The log-odds, or log-probabilities."""
        return probs_to_logits(self.probs, is_binary=self._binary)

    @lazy_property
    def probs(self) -> Tensor:
        """The probabilities."""
        return logits_to_probs(self.logits, is_binary=self._binary)

    @property
    def param_shape(self) -> Size:
        """The shape of the parameter."""
        return Size(self._param.size())
