"""The categorical distribution."""

from __future__ import annotations

import math
from typing import Any

from .._typing import Tensor
from ..core.dtypes import finfo, int64
from ..core.size import Size
from . import constraints
from .chances import Chances
from .utils import ops

__all__ = ["Categorical"]


class Categorical(Chances):
    """An index, with probabilities in proportion to `probs` or log-probabilities `logits` up to a constant.

    Examples
    --------
    >>> adjoint.distributions.Categorical(probs=adjoint.tensor([1.0, 3.0])).log_prob(adjoint.tensor(1)).exp()
    tensor(0.7500)
    """

    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}
    has_enumerate_support = True
    _binary = False

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        name = self._only(probs, logits)
        given = logits if probs is None else probs
        if given.dim() < 1:
            raise ValueError(f"`{name}` parameter must be at least one-dimensional.")
        if probs is not None:
            self.probs = probs / probs.sum(-1, keepdim=True)
        else:
            self.logits = logits - logits.logsumexp(dim=-1, keepdim=True)
        self._num_events = given.size()[-1]
        super().__init__(given.size()[:-1], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return the distribution with its parameters expanded."""
        new = super().expand(batch_shape, _instance)
        new._num_events = self._num_events
        return new

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Any:  # type: ignore[override]
        """The indices."""
        return constraints.integer_interval(0, self._num_events - 1)

    def _undefined(self) -> Tensor:
        return ops.full(self._extended_shape(), math.nan, dtype=self.probs.dtype, device=self.probs.device)

    @property
    def mean(self) -> Tensor:
        """NaN: indices have no mean."""
        return self._undefined()

    @property
    def mode(self) -> Tensor:
        """The likeliest index."""
        return self.probs.argmax(dim=-1)

    @property
    def variance(self) -> Tensor:
        """NaN: indices have no variance."""
        return self._undefined()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw indices."""
        sample_shape = Size(tuple(sample_shape))
        rows = self.probs.reshape(-1, self._num_events)
        drawn = ops.multinomial(rows, math.prod(sample_shape), True).T
        return drawn.reshape(self._extended_shape(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-probability of `value`."""
        if self._validate_args:
            self._validate_sample(value)
        index = value.long().unsqueeze(-1)
        index, logits = ops.broadcast_tensors(index, self.logits)
        return logits.gather(-1, index[..., :1]).squeeze(-1)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        logits = ops.clamp(self.logits, min=finfo(self.logits.dtype).min)  # zero times infinity would be NaN
        return -(logits * self.probs).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all indices."""
        values = ops.arange(self._num_events, dtype=int64, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1, *self._batch_shape)) if expand else values
