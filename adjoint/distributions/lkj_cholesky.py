"""The LKJ distribution of correlation matrices, by their Cholesky factors."""

from __future__ import annotations

import math
from typing import Any

from .._typing import Tensor
from ..core.dtypes import finfo
from ..core.size import Size
from ..linalg import vector_norm
from . import constraints
from .beta import Beta
from .distribution import Distribution
from .utils import broadcast_all, ops

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices of size `dim`, of density ``det ** (concentration - 1)``.

    Lewandowski, Kurowicka and Joe, 2009; drawn by their onion method.
    """

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError(f"Expected dim to be an integer greater than or equal to 2. Found dim={dim}.")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        marginal = self.concentration + 0.5 * (dim - 2)
        steps = ops.arange(dim - 1, dtype=self.concentration.dtype, device=self.concentration.device)
        offset = ops.cat([steps.new_zeros((1,)), steps])
        self._beta = Beta(offset + 0.5, marginal.unsqueeze(-1) - 0.5 * offset)
        super().__init__(self.concentration.size(), Size((dim, dim)), validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return the distribution with its parameters expanded."""
        new = super().expand(batch_shape, _instance)
        new.dim = self.dim
        new._beta = self._beta.expand(Size(batch_shape) + (self.dim,))
        return new

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw factors: rows in random directions, of random lengths."""
        y = self._beta.sample(sample_shape).unsqueeze(-1)
        normal = ops.randn(self._extended_shape(sample_shape), dtype=y.dtype, device=y.device).tril(-1)
        direction = normal / vector_norm(normal, dim=-1, keepdim=True)
        direction[..., 0, :].fill_(0.0)  # the first row has no entries left of the diagonal
        w = ops.sqrt(y) * direction
        rest = ops.clamp(1 - ops.sum(w**2, dim=-1), min=finfo(w.dtype).tiny).sqrt()
        return w + ops.diag_embed(rest)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at `value`."""
        if self._validate_args:
            self._validate_sample(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = ops.arange(2, self.dim + 1, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        below = self.dim - 1
        alpha = self.concentration + 0.5 * below
        norm = 0.5 * below * math.log(math.pi) + ops.mvlgamma(alpha - 0.5, below) - ops.lgamma(alpha) * below
        return ops.sum(order * diagonal.log(), dim=-1) - norm
