"""Vectors and matrices: multivariate normal, Wishart, LKJ."""

from __future__ import annotations

import math
import warnings
from numbers import Number
from typing import Any

from .._typing import Tensor
from ..core.dtypes import finfo
from ..core.size import Size
from ..linalg import cholesky, solve_triangular, vector_norm
from . import constraints
from .distribution import Distribution, ExponentialFamily
from .gamma import Beta, Chi2
from .utils import _standard_normal, broadcast_all, lazy_property, ops

__all__ = ["LKJCholesky", "LowRankMultivariateNormal", "MultivariateNormal", "Wishart"]


def _batch_mv(bmat: Tensor, bvec: Tensor) -> Tensor:
    """Return matrix-vector products, both batches broadcast."""
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
    vectors = bx.expand((*shape, n))
    factor_shape = (1,) * missing + tuple(bL.shape[:-2])
    columns = [d for d, (own, full) in enumerate(zip(factor_shape, shape, strict=True)) if own == 1 and full != 1]
    rows = [d for d in range(len(shape)) if d not in columns]
    order = (*rows, len(shape), *columns)
    right = vectors.permute(order).reshape((*(shape[d] for d in rows), n, -1))
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


class _Factored(Distribution):
    """What is given by a matrix, its inverse or its Cholesky factor: the other two are computed when read."""

    _unbroadcasted_scale_tril: Tensor

    def _broadcast(self, matrix: Tensor) -> Tensor:
        size = self._unbroadcasted_scale_tril.shape[-1]
        return matrix.expand((*self._batch_shape, size, size))

    def _set_factor(self, name: str, matrix: Tensor) -> None:
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = _precision_to_scale_tril(matrix)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the matrix: of a covariance, or of a Wishart distribution's scale."""
        return self._broadcast(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The matrix: a covariance, or a Wishart distribution's scale."""
        return self._broadcast(ops.matmul(self._unbroadcasted_scale_tril, self._unbroadcasted_scale_tril.mT))

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the matrix."""
        return self._broadcast(ops.cholesky_inverse(self._unbroadcasted_scale_tril))


class _NormalVector(Distribution):
    """Base of distributions of normal vectors: the mean."""

    support = constraints.real_vector
    has_rsample = True
    loc: Tensor

    @property
    def mean(self) -> Tensor:
        """The mean."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The mean."""
        return self.loc


class MultivariateNormal(_NormalVector, _Factored):
    """Normal vectors of mean `loc`, and of a covariance given in one of three ways.

    ``p(x) = exp(-½ (x - loc)ᵀ Σ⁻¹ (x - loc)) / √((2π)^n det Σ)`` for real vectors x of length n. The gradients of
    `rsample` reach the parameters.

    Parameters
    ----------
    loc : Tensor
        The mean, of shape ``(..., n)``.
    covariance_matrix : Tensor, optional
        Σ, positive definite, of shape ``(..., n, n)``. Give exactly one of the three.
    precision_matrix : Tensor, optional
        Its inverse.
    scale_tril : Tensor, optional
        Its Cholesky factor: lower triangular, with a positive diagonal. This is the fastest.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> covariance = adjoint.tensor([[2.0, 1.0], [1.0, 2.0]])
    >>> normal = adjoint.distributions.MultivariateNormal(adjoint.zeros(2), covariance)
    >>> normal.log_prob(adjoint.zeros(2))
    tensor(-2.3872)
    >>> normal.scale_tril
    tensor([[1.4142, 0.0000],
            [0.7071, 1.2247]])
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    _copied = ("_unbroadcasted_scale_tril",)

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
        self._set_factor(name, matrix)

    @property
    def variance(self) -> Tensor:
        """The diagonal of the covariance."""
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return reparameterized samples, with gradients for the parameters."""
        shape = self._extended_shape(sample_shape)
        eps = _standard_normal(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + _batch_mv(self._unbroadcasted_scale_tril, eps)

    def _half_log_det(self) -> Tensor:
        return self._unbroadcasted_scale_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at `value`."""
        self._check(value)
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


def _batch_capacitance_tril(W: Tensor, D: Tensor) -> Tensor:
    """Return the Cholesky factor of ``I + W^T D^-1 W``, which is as small as the rank."""
    scaled = W.mT / D.unsqueeze(-2)
    return cholesky(ops.eye(W.size(-1), dtype=W.dtype, device=W.device) + ops.matmul(scaled, W))


def _batch_lowrank_logdet(W: Tensor, D: Tensor, capacitance_tril: Tensor) -> Tensor:
    """Return ``log det(W W^T + D)`` by the matrix determinant lemma."""
    return 2 * capacitance_tril.diagonal(dim1=-2, dim2=-1).log().sum(-1) + D.log().sum(-1)


def _batch_lowrank_mahalanobis(W: Tensor, D: Tensor, x: Tensor, capacitance_tril: Tensor) -> Tensor:
    """Return ``x^T (W W^T + D)^-1 x`` by the Woodbury identity."""
    scaled = W.mT / D.unsqueeze(-2)
    return (x.pow(2) / D).sum(-1) - _batch_mahalanobis(capacitance_tril, _batch_mv(scaled, x))


class LowRankMultivariateNormal(_NormalVector):
    """Normal vectors of mean `loc` and covariance ``cov_factor @ cov_factor.T + diag(cov_diag)``.

    Parameters
    ----------
    loc : Tensor
        Means, (..., n).
    cov_factor : Tensor
        (..., n, rank).
    cov_diag : Tensor
        Positive, (..., n).
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> x = adjoint.distributions.LowRankMultivariateNormal(adjoint.zeros(2), adjoint.ones(2, 1), adjoint.ones(2))
    >>> x.covariance_matrix
    tensor([[2., 1.],
            [1., 2.]])
    >>> x.log_prob(adjoint.zeros(2))
    tensor(-2.3872)
    """

    arg_constraints = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    _copied = ("_unbroadcasted_cov_factor", "_unbroadcasted_cov_diag", "_capacitance_tril")

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("loc must be at least one-dimensional.")
        event_shape = loc.shape[-1:]
        if cov_factor.dim() < 2:
            raise ValueError("cov_factor must be at least two-dimensional, with optional leading batch dimensions")
        if cov_factor.shape[-2:-1] != event_shape:
            raise ValueError(f"cov_factor must be a batch of matrices with shape {event_shape[0]} x m")
        if cov_diag.shape[-1:] != event_shape:
            raise ValueError(f"cov_diag must be a batch of vectors with shape {event_shape}")
        try:
            batch_shape = ops.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        except RuntimeError as error:
            raise ValueError(
                f"Incompatible batch shapes: loc {loc.shape}, cov_factor {cov_factor.shape}, cov_diag {cov_diag.shape}"
            ) from error
        self.loc, self.cov_diag = loc.expand((*batch_shape, -1)), cov_diag.expand((*batch_shape, -1))
        self.cov_factor = cov_factor.expand((*batch_shape, -1, -1))
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = _batch_capacitance_tril(cov_factor, cov_diag)
        super().__init__(batch_shape, event_shape, validate_args=validate_args)

    def _broadcast(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def variance(self) -> Tensor:  # type: ignore[override]
        """The diagonal of the covariance."""
        variance = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return variance.expand(self._batch_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The Cholesky factor of the covariance."""
        # Of D^1/2 (I + V V^T) D^1/2 with V = D^-1/2 W, which is better conditioned than W W^T + D.
        root = self._unbroadcasted_cov_diag.sqrt().unsqueeze(-1)
        scaled = self._unbroadcasted_cov_factor / root
        inner = ops.matmul(scaled, scaled.mT) + ops.eye(scaled.shape[-2], dtype=scaled.dtype, device=scaled.device)
        return self._broadcast(root * cholesky(inner))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        low = ops.matmul(self._unbroadcasted_cov_factor, self._unbroadcasted_cov_factor.mT)
        return self._broadcast(low + ops.diag_embed(self._unbroadcasted_cov_diag))

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance, by the Woodbury identity."""
        scaled = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        solved = solve_triangular(self._capacitance_tril, scaled, upper=False)
        inverse = ops.diag_embed(self._unbroadcasted_cov_diag.reciprocal())
        return self._broadcast(inverse - ops.matmul(solved.mT, solved))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return reparameterized samples, with gradients for the parameters."""
        shape = self._extended_shape(sample_shape)
        factor_shape = Size(shape[:-1]) + self.cov_factor.shape[-1:]
        low = _standard_normal(factor_shape, dtype=self.loc.dtype, device=self.loc.device)
        own = _standard_normal(shape, dtype=self.loc.dtype, device=self.loc.device)
        shared = _batch_mv(self._unbroadcasted_cov_factor, low)
        return self.loc + shared + self._unbroadcasted_cov_diag.sqrt() * own

    def _log_det(self) -> Tensor:
        return _batch_lowrank_logdet(
            self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, self._capacitance_tril
        )

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at `value`."""
        self._check(value)
        distance = _batch_lowrank_mahalanobis(
            self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, value - self.loc, self._capacitance_tril
        )
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + self._log_det() + distance)

    def entropy(self) -> Tensor:
        """Return the entropy."""
        entropy = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + self._log_det())
        return entropy if len(self._batch_shape) == 0 else entropy.expand(self._batch_shape)


def _mvdigamma(x: Tensor, p: int) -> Tensor:
    """Return the derivative of the logarithm of the multivariate gamma function."""
    return ops.digamma(x.unsqueeze(-1) - ops.arange(p, dtype=x.dtype, device=x.device).div(2)).sum(-1)


class Wishart(_Factored, ExponentialFamily):
    """The distribution of ``X^T X`` for `df` normal vectors; scale given as covariance, precision or factor.

    Parameters
    ----------
    df : Tensor or float
        Degrees of freedom, above the size of the matrices less 1.
    covariance_matrix : Tensor, optional
        (..., n, n); exactly one of these three is given.
    precision_matrix : Tensor, optional
        Its inverse.
    scale_tril : Tensor, optional
        Its Cholesky factor.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> x = adjoint.distributions.Wishart(adjoint.tensor(3.0), covariance_matrix=adjoint.eye(2))
    >>> x.mean
    tensor([[3., 0.],
            [0., 3.]])
    >>> x.log_prob(adjoint.eye(2))
    tensor(-3.5310)
    """

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
            raise AssertionError(str(error)) from None  # torch's class for the same message
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
        self._set_factor(name, matrix)
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
        """Sample by the Bartlett decomposition: chi on the diagonal, normal below (M. S. Bartlett, 1933)."""
        p = self._event_shape[-1]
        noise = self._dist_chi2.rsample(sample_shape).clamp(min=finfo(self.df.dtype).tiny).sqrt().diag_embed()
        i, j = ops.tril_indices(p, p, offset=-1)
        below = ops.randn((*sample_shape, *self._batch_shape, p * (p - 1) // 2), dtype=noise.dtype, device=noise.device)
        noise[..., i, j] = below
        factor = self._unbroadcasted_scale_tril @ noise
        return factor @ factor.mT

    def rsample(self, sample_shape: Any = (), max_try_correction: int | None = None) -> Tensor:
        """Return reparameterized samples, with gradients for the parameters; singular ones are sampled again."""
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
        self._check(value)
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


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices of size `dim`, of density ``det ** (concentration - 1)``.

    Lewandowski, Kurowicka and Joe, 2009; drawn by their onion method.

    Parameters
    ----------
    dim : int
        Size of the matrices.
    concentration : Tensor or float, default 1.0
        Positive; 1 is uniform, more favours the identity.
    validate_args : bool, optional
        Whether to check parameters and values.

    Examples
    --------
    >>> adjoint.distributions.LKJCholesky(2).sample((3,)).shape
    adjoint.Size([3, 2, 2])
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
        """Sample Cholesky factors: rows with random directions and lengths."""
        y = self._beta.sample(sample_shape).unsqueeze(-1)
        normal = ops.randn(self._extended_shape(sample_shape), dtype=y.dtype, device=y.device).tril(-1)
        direction = normal / vector_norm(normal, dim=-1, keepdim=True)
        direction[..., 0, :].fill_(0.0)  # the first row has no entries left of the diagonal
        w = ops.sqrt(y) * direction
        rest = ops.clamp(1 - ops.sum(w**2, dim=-1), min=finfo(w.dtype).tiny).sqrt()
        return w + ops.diag_embed(rest)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at `value`."""
        self._check(value)
        diagonal = value.diagonal(dim1=-1, dim2=-2)[..., 1:]
        order = ops.arange(2, self.dim + 1, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        below = self.dim - 1
        alpha = self.concentration + 0.5 * below
        norm = 0.5 * below * math.log(math.pi) + ops.mvlgamma(alpha - 0.5, below) - ops.lgamma(alpha) * below
        return ops.sum(order * diagonal.log(), dim=-1) - norm
