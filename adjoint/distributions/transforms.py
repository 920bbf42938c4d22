"""Transforms of random variables: their values, inverses, and the logarithms of their Jacobians."""

from __future__ import annotations

import math
from typing import Any

from .._typing import Tensor
from ..core.dtypes import finfo
from ..core.size import Size
from ..core.tensor import TensorBase
from ..ops.activation import softplus
from . import constraints
from .composition import (  # noqa: F401 - libraries look for _InverseTransform here
    CatTransform,
    ComposeTransform,
    IndependentTransform,
    ReshapeTransform,
    StackTransform,
    Transform,
    _InverseTransform,
    identity_transform,
)
from .utils import broadcast_all, lazy_property, ops, tril_matrix_to_vec, vec_to_tril_matrix

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform", "LowerCholeskyTransform",
    "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform",
    "SoftplusTransform", "StackTransform", "StickBreakingTransform", "TanhTransform", "Transform", "identity_transform",
]  # fmt: skip


class _Plain(Transform):
    """A transform without parameters: two of one class are equal."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Plain) and (isinstance(other, type(self)) or isinstance(self, type(other)))

    __hash__ = object.__hash__


class _Increasing(_Plain):
    """A bijection of real numbers that increases."""

    domain = constraints.real
    bijective = True
    sign = +1  # type: ignore[assignment]


class ExpTransform(_Increasing):
    """``y = exp(x)``.

    Parameters
    ----------
    cache_size : int, default 0
        1 remembers the last value and its result, so that inverting is exact and free.

    Examples
    --------
    >>> adjoint.distributions.ExpTransform()(adjoint.tensor([-1.0, 0.0, 2.0]))
    tensor([0.3679, 1.0000, 7.3891])
    """

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return x."""
        return x


class PowerTransform(Transform):
    """``y = x ** exponent`` of positive numbers.

    Parameters
    ----------
    exponent : Tensor or float
        The exponent.
    cache_size : int, default 0
        1 remembers the last value and its result, so that inverting is exact and free.

    Examples
    --------
    >>> adjoint.distributions.PowerTransform(2.0)(adjoint.tensor([1.0, 3.0]))
    tensor([1., 9.])
    """

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True
    _arguments = ("exponent",)

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    @lazy_property
    def sign(self) -> Any:
        """The sign of the exponent."""
        return self.exponent.sign()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PowerTransform) and bool(self.exponent.eq(other.exponent).all().item())

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.pow(self.exponent)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log |exponent * y / x|."""
        return (self.exponent * y / x).abs().log()

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape broadcast with the exponent's."""
        return ops.broadcast_shapes(shape, getattr(self.exponent, "shape", ()))

    inverse_shape = forward_shape


class SigmoidTransform(_Increasing):
    """``y = 1 / (1 + exp(-x))``.

    Parameters
    ----------
    cache_size : int, default 0
        1 remembers the last value and its result, so that inverting is exact and free.

    Examples
    --------
    >>> adjoint.distributions.SigmoidTransform()(adjoint.tensor([-1.0, 0.0, 2.0]))
    tensor([0.2689, 0.5000, 0.8808])
    """

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        info = finfo(x.dtype)
        return ops.clamp(ops.sigmoid(x), min=info.tiny, max=1.0 - info.eps)

    def _inverse(self, y: Tensor) -> Tensor:
        info = finfo(y.dtype)
        y = y.clamp(min=info.tiny, max=1.0 - info.eps)
        return y.log() - (-y).log1p()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the logarithm of the sigmoid's slope."""
        return -softplus(-x) - softplus(x)


class SoftplusTransform(_Increasing):
    """``y = log(1 + exp(x))``.

    Parameters
    ----------
    cache_size : int, default 0
        1 remembers the last value and its result, so that inverting is exact and free.

    Examples
    --------
    >>> adjoint.distributions.SoftplusTransform()(adjoint.tensor([-1.0, 0.0, 2.0]))
    tensor([0.3133, 0.6931, 2.1269])
    """

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log(sigmoid(x))."""
        return -softplus(-x)


class TanhTransform(_Increasing):
    """``y = tanh(x)``, with a Jacobian that stays accurate where tanh saturates.

    Parameters
    ----------
    cache_size : int, default 0
        1 remembers the last value and its result, so that inverting is exact and free.

    Examples
    --------
    >>> adjoint.distributions.TanhTransform()(adjoint.tensor([-1.0, 0.0, 2.0]))
    tensor([-0.7616,  0.0000,  0.9640])
    """

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return ops.atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log(1 - tanh(x)²) without cancellation."""
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class AbsTransform(_Plain):
    """``y = |x|``.

    Parameters
    ----------
    cache_size : int, default 0
        1 remembers the last value and its result, so that inverting is exact and free.

    Examples
    --------
    >>> adjoint.distributions.AbsTransform()(adjoint.tensor([-1.0, 0.0, 2.0]))
    tensor([1., 0., 2.])
    """

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """``y = loc + scale * x``; `event_dim` of the last dimensions make one event.

    Parameters
    ----------
    loc : Tensor or float
        The offset.
    scale : Tensor or float
        The factor.
    event_dim : int, default 0
        How many of the last dimensions make one event.
    cache_size : int, default 0
        1 remembers the last value and its result, so that inverting is exact and free.

    Examples
    --------
    >>> adjoint.distributions.AffineTransform(1.0, 2.0)(adjoint.tensor([-1.0, 0.0, 2.0]))
    tensor([-1.,  1.,  5.])
    """

    bijective = True
    _arguments = ("loc", "scale", "event_dim")

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim

    @property
    def event_dim(self) -> int:
        """How many dimensions an event has."""
        return self._event_dim

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        """Real events."""
        return constraints.real if self.event_dim == 0 else constraints.independent(constraints.real, self.event_dim)

    codomain = domain

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AffineTransform):
            return False
        return _equal(self.loc, other.loc) and _equal(self.scale, other.scale)

    __hash__ = object.__hash__

    @property
    def sign(self) -> Any:
        """The sign of the scale."""
        if isinstance(self.scale, TensorBase):
            return self.scale.sign()  # type: ignore[attr-defined]
        return int(self.scale > 0) - int(self.scale < 0)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log |scale|, summed over the event."""
        if isinstance(self.scale, TensorBase):
            result = ops.abs(self.scale).log()
        else:
            result = ops.full_like(x, math.log(abs(self.scale)))
        shape = x.shape
        if self.event_dim:
            result = result.view(tuple(result.size()[: -self.event_dim]) + (-1,)).sum(-1)
            shape = shape[: -self.event_dim]
        return result.expand(shape)

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape broadcast with those of location and scale."""
        return ops.broadcast_shapes(shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ()))

    inverse_shape = forward_shape


def _equal(a: Any, b: Any) -> bool:
    same = a == b
    return bool(same.all().item()) if isinstance(same, TensorBase) else bool(same)  # type: ignore[attr-defined]


class CorrCholeskyTransform(Transform):
    """Vectors as Cholesky factors of correlation matrices: tanh, then stick breaking of each row's squares.

    Parameters
    ----------
    cache_size : int, default 0
        1 remembers the last value and its result, so that inverting is exact and free.

    Examples
    --------
    >>> adjoint.distributions.CorrCholeskyTransform()(adjoint.tensor([0.5]))
    tensor([[1.0000, 0.0000],
            [0.4621, 0.8868]])
    """

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = finfo(x.dtype).eps
        r = vec_to_tril_matrix(ops.tanh(x).clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - r * r).sqrt().cumprod(-1)  # what is left of the row's length
        r = r + ops.eye(r.shape[-1], dtype=r.dtype, device=r.device)
        return r * _after_one(left[..., :-1])

    def _inverse(self, y: Tensor) -> Tensor:
        left = _after_one((1 - ops.cumsum(y * y, dim=-1))[..., :-1])
        ratio = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (ratio.log1p() - ratio.neg().log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return it from the row lengths left by the sticks, and the slope of tanh."""
        left = tril_matrix_to_vec(1 - (y * y).cumsum(dim=-1), diag=-2)
        sticks = 0.5 * left.log().sum(-1)
        return sticks - 2 * (x + softplus(-2 * x) - math.log(2.0)).sum(dim=-1)

    def forward_shape(self, shape: Any) -> Any:
        """Return (..., D, D) of (..., D (D - 1) / 2)."""
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        n = shape[-1]
        d = round((0.25 + 2 * n) ** 0.5 + 0.5)
        if d * (d - 1) // 2 != n:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return Size((*shape[:-1], d, d))

    def inverse_shape(self, shape: Any) -> Any:
        """Return (..., D (D - 1) / 2) of (..., D, D)."""
        if len(shape) < 2:
            raise ValueError("Too few dimensions on input")
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


def _after_one(x: Tensor) -> Tensor:
    """Return `x` with a one put before it along the last dimension."""
    return ops.cat([ops.ones_like(x[..., :1]), x], -1) if x.shape[-1] else x.new_ones((*x.shape[:-1], 1))


class SoftmaxTransform(_Plain):
    """Unnormalized log probabilities as points of the simplex; not a bijection, but good for optimization.

    Parameters
    ----------
    cache_size : int, default 0
        1 remembers the last value and its result, so that inverting is exact and free.

    Examples
    --------
    >>> adjoint.distributions.SoftmaxTransform()(adjoint.tensor([-1.0, 0.0, 2.0]))
    tensor([0.0420, 0.1142, 0.8438])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        probs = (x - x.max(-1, True)[0]).exp()
        return probs / probs.sum(-1, True)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Any) -> Any:
        """Return the same shape, of at least one dimension."""
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return shape

    inverse_shape = forward_shape


class StickBreakingTransform(_Plain):
    """Vectors as points of a simplex of one more dimension: each number takes a part of the remainder.

    Parameters
    ----------
    cache_size : int, default 0
        1 remembers the last value and its result, so that inverting is exact and free.

    Examples
    --------
    >>> adjoint.distributions.StickBreakingTransform()(adjoint.tensor([-1.0, 0.0, 2.0]))
    tensor([0.1092, 0.2969, 0.5231, 0.0708])
    """

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    @staticmethod
    def _offset(x: Tensor) -> Tensor:
        """Return the log of how many parts are still to come, which centres the transform."""
        count = x.shape[-1]
        return ops.arange(count, 0, -1, dtype=x.dtype, device=x.device).log()

    def _call(self, x: Tensor) -> Tensor:
        z = ops.sigmoid(x - self._offset(x))
        left = (1 - z).cumprod(-1)
        return ops.cat([z, ops.ones_like(z[..., :1])], -1) * ops.cat([ops.ones_like(z[..., :1]), left], -1)

    def _inverse(self, y: Tensor) -> Tensor:
        cropped = y[..., :-1]
        left = (1 - cropped.cumsum(-1)).clamp(min=finfo(y.dtype).tiny)
        return cropped.log() - left.log() + self._offset(cropped)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the sum over the sticks."""
        x = x - self._offset(x)
        return (-x + -softplus(-x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape with one more part."""
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Any) -> Any:
        """Return the shape with one part less."""
        if len(shape) < 1:
            raise ValueError("Too few dimensions on input")
        return Size((*shape[:-1], shape[-1] - 1))


class LowerCholeskyTransform(_Plain):
    """Matrices as lower triangular ones with a positive diagonal.

    Parameters
    ----------
    cache_size : int, default 0
        1 remembers the last value and its result, so that inverting is exact and free.

    Examples
    --------
    >>> adjoint.distributions.LowerCholeskyTransform()(adjoint.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(_Plain):
    """Matrices as positive definite ones, through their Cholesky factors.

    Parameters
    ----------
    cache_size : int, default 0
        1 remembers the last value and its result, so that inverting is exact and free.

    Examples
    --------
    >>> adjoint.distributions.PositiveDefiniteTransform()(adjoint.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(ops.cholesky(y))


class CumulativeDistributionTransform(Transform):
    """The cumulative distribution function of a distribution, as a transform onto the unit interval.

    Parameters
    ----------
    distribution : Distribution
        The distribution.
    cache_size : int, default 0
        1 remembers the last value and its result, so that inverting is exact and free.

    Examples
    --------
    >>> adjoint.distributions.CumulativeDistributionTransform(adjoint.distributions.Normal(0.0, 1.0))(
    ...     adjoint.tensor([-1.0, 0.0, 2.0])
    ... )
    tensor([0.1587, 0.5000, 0.9772])
    """

    bijective = True
    codomain = constraints.unit_interval
    sign = +1  # type: ignore[assignment]
    _arguments = ("distribution",)

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Any:  # type: ignore[override]
        """The distribution's support."""
        return self.distribution.support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the distribution's log-density."""
        return self.distribution.log_prob(x)
