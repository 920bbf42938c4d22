"""The Wishart distribution."""

from __future__ import annotations

import math
import warnings
from numbers import Number
from typing import Any

from .._typing import Tensor
from ..core.dtypes import finfo
from ..core.size import Size
from ..linalg import cholesky
from . import constraints
from .chi2 import Chi2
from .exp_family import ExponentialFamily
from .multivariate_normal import _only_matrix, _precision_to_scale_tril
from .utils import lazy_property, ops

__all__ = ["Wishart"]


def _mvdigamma(x: Tensor, p: int) -> Tensor:
    """Return the derivative of the logarithm of the multivariate gamma function."""
    return ops.digamma(x.unsqueeze(-1) - ops.arange(p, dtype=x.dtype, device=x.device).div(2)).sum(-1)


class Wishart(ExponentialFamily):
    """The distribution of ``X^T X`` for `df` normal vectors; scale given as covariance, precision or factor."""

    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0

    @property
    def arg_constraints(self) -> Any:  # type: ignore[override]
        """Positive definite, and more degrees of freedom than dimensions less one."""
        return {
            "covariance_matrix": constraints.positive_definite,
            "precision_matrix": constraints.positive_definite,
            "scale_tril": constraints.lower_cholesky,
            "df": constraints.greater_than(self.event_shape[-1] - 1),
        }

    def __init__(
        self,
        df: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        given = {
            "covariance_matrix": covariance_matrix, "precision_matrix": precision_matrix, "scale_tril": scale_tril,
        }  # fmt: skip
        try:
            name, matrix = _only_matrix(given)
        except ValueError as error:
            raise AssertionError(str(error)) from None  # torch's class for the same words
        if matrix.dim() < 2:
            raise ValueError("scale_tril must be at least two-dimensional, with optional leading batch dimensions")
        if isinstance(df, Number):
            df = ops.tensor(df, dtype=matrix.dtype, device=matrix.device)
        batch_shape = ops.broadcast_shapes(matrix.shape[:-2], df.shape)
        self.df = df.expand(batch_shape)
        event_shape = matrix.shape[-2:]
        if self.df.le(event_shape[-1] - 1).any():
            raise ValueError(f"Value of df={df} expected to be greater than ndim - 1 = {event_shape[-1] - 1}.")
        setattr(self, name, matrix.expand((*batch_shape, -1, -1)))
        self._event_shape = Size(event_shape)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)
        if self.df.lt(event_shape[-1]).any():
            warnings.warn(
                "Low df values detected. Singular samples are highly likely to occur for ndim - 1 < df < ndim.",
                stacklevel=2,
            )
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(matrix)
        self._dist_chi2 = self._diagonal_chi2()

    def _diagonal_chi2(self) -> Chi2:
        p = self._event_shape[-1]
        return Chi2(df=self.df.unsqueeze(-1) - ops.arange(p, dtype=self.df.dtype, device=self.df.device))

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return the distribution with its parameters expanded."""
        new = type(self).__new__(type(self)) if _instance is None else _instance
        new._event_shape = self._event_shape
        new = super().expand(batch_shape, new)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        new._dist_chi2 = new._diagonal_chi2()
        return new

    def _spread(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the scale."""
        return self._spread(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The scale."""
        return self._spread(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the scale."""
        return self._spread(ops.cholesky_inverse(self._unbroadcasted_scale_tril))

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.df.view(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """The densest matrix, where there are enough degrees of freedom."""
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        factor = ops.where(factor <= 0, math.nan, factor)
        return factor.view(self._batch_shape + (1, 1)) * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        """The variance of each entry."""
        v = self.covariance_matrix
        diagonal = v.diagonal(dim1=-2, dim2=-1)
        outer = diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2)
        return self.df.view(self._batch_shape + (1, 1)) * (v.pow(2) + outer)

    def _bartlett_sampling(self, sample_shape: Any = ()) -> Tensor:
        """Draw a Cholesky factor: roots of chi-squared numbers over normal ones (M. S. Bartlett, 1933)."""
        p = self._event_shape[-1]
        noise = self._dist_chi2.rsample(sample_shape).clamp(min=finfo(self.df.dtype).tiny).sqrt().diag_embed()
        i, j = ops.tril_indices(p, p, offset=-1)
        below = ops.randn((*sample_shape, *self._batch_shape, p * (p - 1) // 2), dtype=noise.dtype, device=noise.device)
        noise[..., i, j] = below
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def rsample(self, sample_shape: Any = (), max_try_correction: int | None = None) -> Tensor:
        """Draw such that gradients reach the parameters; singular draws are drawn again."""
        sample_shape = Size(tuple(sample_shape))
        tries = (3 if len(self._batch_shape) > 0 else 10) if max_try_correction is None else max_try_correction
        sample = self._bartlett_sampling(sample_shape)
        singular = ~self.support.check(sample)
        if not singular.any():
            return sample
        warnings.warn("Singular sample detected.", stacklevel=2)
        for _ in range(tries):
            again = self._bartlett_sampling(sample_shape)
            sample = ops.where(singular[..., None, None], again, sample)
            singular = ~self.support.check(sample)
            if not singular.any():
                break
        return sample

    def _half_log_det(self) -> Tensor:
        """Return half the logarithm of the determinant of twice the scale."""
        p = self._event_shape[-1]
        return p * math.log(2) / 2 + self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at `value`."""
        if self._validate_args:
            self._validate_sample(value)
        nu, p = self.df, self._event_shape[-1]
        log_det = 2 * cholesky(value).diagonal(dim1=-2, dim2=-1).log().sum(-1)
        trace = ops.cholesky_solve(value, self._unbroadcasted_scale_tril).diagonal(dim1=-2, dim2=-1).sum(-1)
        return -nu * self._half_log_det() - ops.mvlgamma(nu / 2, p=p) + (nu - p - 1) / 2 * log_det - trace / 2

    def entropy(self) -> Tensor:
        """Return the entropy."""
        nu, p = self.df, self._event_shape[-1]
        return (
            (p + 1) * self._half_log_det()
            + ops.mvlgamma(nu / 2, p=p)
            - (nu - p - 1) / 2 * _mvdigamma(nu / 2, p=p)
            + nu * p / 2
        )

    @property
    def _natural_params(self) -> tuple[Tensor, Tensor]:
        p = self._event_shape[-1]
        return -self.precision_matrix / 2, (self.df - p - 1) / 2

    def _log_normalizer(self, x: Tensor, y: Tensor) -> Tensor:  # type: ignore[override]
        p = self._event_shape[-1]
        log_det = 2 * cholesky(-2 * x).diagonal(dim1=-2, dim2=-1).log().sum(-1)
        return (y + (p + 1) / 2) * (p * math.log(2) - log_det) + ops.mvlgamma(y + (p + 1) / 2, p=p)
