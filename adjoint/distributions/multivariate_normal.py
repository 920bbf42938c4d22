"""The multivariate normal distribution."""

from __future__ import annotations

import math
from typing import Any

from .._typing import Tensor
from ..linalg import cholesky, solve_triangular
from . import constraints
from .distribution import Distribution
from .utils import _standard_normal, lazy_property, ops

__all__ = ["MultivariateNormal"]


def _batch_mv(bmat: Tensor, bvec: Tensor) -> Tensor:
    """Return products of matrices and vectors, both batches broadcast."""
    return ops.matmul(bmat, bvec.unsqueeze(-1)).squeeze(-1)


def _batch_mahalanobis(bL: Tensor, bx: Tensor) -> Tensor:
    """Return ``x^T (L L^T)^-1 x`` for batches of factors L and vectors x, broadcast."""
    shape = ops.broadcast_shapes(bL.shape[:-2], bx.shape[:-1])
    n = bx.shape[-1]
    if math.prod(shape) == math.prod(bL.shape[:-2]):
        solved = solve_triangular(bL, bx.expand((*shape, n)).unsqueeze(-1), upper=False).squeeze(-1)
        return solved.pow(2).sum(-1)
    # Many vectors meet few factors: those of one factor become the columns of one right-hand side.
    missing = len(shape) - (bL.dim() - 2)
    spread = bx.expand((*shape, n))
    factor_shape = (1,) * missing + tuple(bL.shape[:-2])
    columns = [d for d, (own, full) in enumerate(zip(factor_shape, shape, strict=True)) if own == 1 and full != 1]
    rows = [d for d in range(len(shape)) if d not in columns]
    order = (*rows, len(shape), *columns)
    right = spread.permute(order).reshape((*(shape[d] for d in rows), n, -1))
    factors = bL.reshape((*(factor_shape[d] for d in rows), n, n))
    squares = solve_triangular(factors, right, upper=False).pow(2).sum(-2)
    squares = squares.reshape((*(shape[d] for d in rows), *(shape[d] for d in columns)))
    back = sorted(range(len(shape)), key=lambda d: (*rows, *columns)[d])
    return squares.permute(back) if back else squares


def _precision_to_scale_tril(P: Tensor) -> Tensor:
    """Return the Cholesky factor of the inverse, from that of the matrix turned around."""
    flipped = cholesky(ops.flip(P, (-2, -1)))
    inverse_factor = ops.transpose(ops.flip(flipped, (-2, -1)), -2, -1)
    eye = ops.eye(P.shape[-1], dtype=P.dtype, device=P.device)
    return solve_triangular(inverse_factor, eye, upper=False)


class MultivariateNormal(Distribution):
    """Normal vectors of mean `loc`, and of one of covariance, precision, or a Cholesky factor of the covariance."""

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support = constraints.real_vector
    has_rsample = True

    def __init__(
        self,
        loc: Tensor,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        given = {
            "covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril,
        }  # fmt: skip
        name, matrix = _only_matrix(given)
        if matrix.dim() < 2:
            which = "scale_tril matrix" if name == "scale_tril" else name
            raise ValueError(f"{which} must be at least two-dimensional, with optional leading batch dimensions")
        batch_shape = ops.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        setattr(self, name, matrix.expand((*batch_shape, -1, -1)))
        self.loc = loc.expand((*batch_shape, -1))
        super().__init__(batch_shape, self.loc.shape[-1:], validate_args=validate_args)
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(matrix)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return the distribution with its parameters expanded."""
        new = super().expand(batch_shape, _instance)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        return new

    def _spread(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        return self._spread(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return self._spread(ops.matmul(self._unbroadcasted_scale_tril, self._unbroadcasted_scale_tril.mT))

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return self._spread(ops.cholesky_inverse(self._unbroadcasted_scale_tril))

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The mean."""
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The diagonal of the covariance."""
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw such that gradients reach the parameters."""
        shape = self._extended_shape(sample_shape)
        eps = _standard_normal(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, eps)

    def _half_log_det(self) -> Tensor:
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at `value`."""
        if self._validate_args:
            self._validate_sample(value)
        distance = _batch_mahalanobis(self._unbroadcasted_scale_tril, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + distance) - self._half_log_det()

    def entropy(self) -> Tensor:
        """Return the entropy."""
        entropy = 0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._half_log_det()
        return entropy if len(self._batch_shape) == 0 else entropy.expand(self._batch_shape)


def _only_matrix(given: dict[str, Any]) -> tuple[str, Any]:
    """Return the name and value of the one matrix that was given."""
    names = [name for name, value in given.items() if value is not None]
    if len(names) != 1:
        raise ValueError("Exactly one of covariance_matrix or precision_matrix or scale_tril may be specified.")
    return names[0], given[names[0]]
