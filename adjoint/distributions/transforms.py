"""Transforms of random variables: their values, inverses, and the logarithms of their Jacobians."""

from __future__ import annotations

import math
import operator
import weakref
from collections.abc import Sequence
from functools import reduce
from typing import Any

from .._typing import Tensor
from ..core.dtypes import finfo
from ..core.size import Size
from ..core.tensor import TensorBase
from ..ops.activation import softplus
from . import constraints
from .utils import _sum_rightmost, broadcast_all, lazy_property, ops, tril_matrix_to_vec, vec_to_tril_matrix

__all__ = [
    "AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform", "LowerCholeskyTransform",
    "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform",
    "SoftplusTransform", "StackTransform", "StickBreakingTransform", "TanhTransform", "Transform", "identity_transform",
]  # fmt: skip


class Transform:
    """An invertible map with a computable Jacobian; it may remember the last value it mapped.

    Subclasses define `_call`, and `_inverse` and `log_abs_det_jacobian` where they can. With ``cache_size=1`` the
    inverse of the last result is the very value that gave it, which is exact and costs nothing.
    """

    bijective = False
    domain: Any
    codomain: Any

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._inv: Any = None
        self._cached_x_y: tuple[Any, Any] = None, None
        super().__init__()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_inv": None}

    @property
    def event_dim(self) -> int:
        """How many dimensions an event has, where domain and codomain agree."""
        if self.domain.event_dim == self.codomain.event_dim:
            return int(self.domain.event_dim)
        raise ValueError("Please use either .domain.event_dim or .codomain.event_dim")

    @property
    def inv(self) -> Any:
        """The inverse transform, whose inverse is this one."""
        inverse = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = _InverseTransform(self)
            self._inv = weakref.ref(inverse)
        return inverse

    @property
    def sign(self) -> Any:
        """The sign of the derivative of a monotone transform: +1 or -1."""
        raise NotImplementedError

    def with_cache(self, cache_size: int = 1) -> Any:
        """Return the transform with another cache."""
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(f"{type(self)}.with_cache is not implemented")

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = object.__hash__

    def __call__(self, x: Tensor) -> Tensor:
        """Map `x`."""
        if self._cache_size == 0:
            return self._call(x)
        known_x, known_y = self._cached_x_y
        if x is known_x:
            return known_y
        y = self._call(x)
        self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._inverse(y)
        known_x, known_y = self._cached_x_y
        if y is known_y:
            return known_x
        x = self._inverse(y)
        self._cached_x_y = x, y
        return x

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return ``log |dy/dx|`` at `x` and its image `y`."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return type(self).__name__ + "()"

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape of the image of a value of this shape."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """Return the shape of the value whose image has this shape."""
        return shape


class _InverseTransform(Transform):
    """The inverse of a transform."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv: Any = transform

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        return self._inv.codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        return self._inv.domain

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether the transform is."""
        return bool(self._inv.bijective)

    @property
    def sign(self) -> Any:
        """That of the transform."""
        return self._inv.sign

    @property
    def inv(self) -> Any:
        """The transform itself."""
        return self._inv

    def with_cache(self, cache_size: int = 1) -> Any:
        """Return the inverse of the transform with another cache."""
        return self.inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"

    def __call__(self, x: Tensor) -> Tensor:
        """Map `x` back."""
        return self._inv._inv_call(x)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the negative of the transform's."""
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        """Return the transform's inverse shape."""
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        """Return the transform's forward shape."""
        return self._inv.forward_shape(shape)


class ComposeTransform(Transform):
    """Transforms one after the other."""

    def __init__(self, parts: list[Any], cache_size: int = 0) -> None:
        if cache_size:
            parts = [part.with_cache(cache_size) for part in parts]
        super().__init__(cache_size=cache_size)
        self.parts = parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = object.__hash__

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        """The domain of the first part, widened by what later parts make of more dimensions."""
        if not self.parts:
            return constraints.real
        domain = self.parts[0].domain
        dims = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            dims = max(dims + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        if dims > domain.event_dim:
            domain = constraints.independent(domain, dims - domain.event_dim)
        return domain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        """The codomain of the last part, widened likewise."""
        if not self.parts:
            return constraints.real
        codomain = self.parts[-1].codomain
        dims = self.parts[0].domain.event_dim
        for part in self.parts:
            dims = max(dims + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        if dims > codomain.event_dim:
            codomain = constraints.independent(codomain, dims - codomain.event_dim)
        return codomain

    @lazy_property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether all parts are."""
        return all(part.bijective for part in self.parts)

    @lazy_property
    def sign(self) -> Any:
        """The product of the parts' signs."""
        return reduce(operator.mul, (part.sign for part in self.parts), 1)

    @property
    def inv(self) -> Any:
        """The inverses in the opposite order."""
        inverse = None if self._inv is None else self._inv()
        if inverse is None:
            inverse = ComposeTransform([part.inv for part in reversed(self.parts)])
            self._inv = weakref.ref(inverse)
            inverse._inv = weakref.ref(self)
        return inverse

    def with_cache(self, cache_size: int = 1) -> Any:
        """Return the composition with another cache."""
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        """Map `x` through all parts."""
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the sum of the parts' log-Jacobians."""
        if not self.parts:
            return ops.zeros_like(x)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        terms = []
        dims = self.domain.event_dim
        for part, a, b in zip(self.parts, values, values[1:], strict=False):
            terms.append(_sum_rightmost(part.log_abs_det_jacobian(a, b), dims - part.domain.event_dim))
            dims += part.codomain.event_dim - part.domain.event_dim
        return reduce(operator.add, terms)

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape after all parts."""
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """Return the shape before all parts."""
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        inner = ",\n    ".join(repr(part) for part in self.parts)
        return f"{type(self).__name__}(\n    {inner}\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform whose Jacobian is summed over some more dimensions."""

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Any:
        """Return the transform with another cache."""
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Any:
        """The base's domain, of blocks."""
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Any:
        """The base's codomain, of blocks."""
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether the base is."""
        return bool(self.base_transform.bijective)

    @property
    def sign(self) -> Any:
        """That of the base."""
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        if x.dim() < self.domain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        if y.dim() < self.codomain.event_dim:
            raise ValueError("Too few dimensions on input")
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the base's, summed over the blocks."""
        return _sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape: Any) -> Any:
        """Return the base's."""
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        """Return the base's."""
        return self.base_transform.inverse_shape(shape)


class ReshapeTransform(Transform):
    """Events of one shape as events of another."""

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError("in_shape, out_shape have different numbers of elements")
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self) -> Any:
        """Real blocks of the first shape."""
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Any:
        """Real blocks of the second shape."""
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Any:
        """Return the transform with another cache."""
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[: x.dim() - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(y.shape[: y.dim() - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return zeros: nothing is stretched."""
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Any) -> Any:
        """Return the shape with its end replaced."""
        return _with_end(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Any) -> Any:
        """Return the shape with its end put back."""
        return _with_end(shape, self.out_shape, self.in_shape)


def _with_end(shape: Any, old: Size, new: Size) -> Any:
    if len(shape) < len(old):
        raise ValueError("Too few dimensions on input")
    cut = len(shape) - len(old)
    if tuple(shape[cut:]) != tuple(old):
        raise ValueError(f"Shape mismatch: expected {shape[cut:]} but got {old}")
    return Size(tuple(shape[:cut])) + new


class ExpTransform(Transform):
    """``y = exp(x)``."""

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = +1  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExpTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.exp()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return x."""
        return x


class PowerTransform(Transform):
    """``y = x ** exponent`` of positive numbers."""

    domain = constraints.positive
    codomain = constraints.positive
    bijective = True

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        (self.exponent,) = broadcast_all(exponent)

    def with_cache(self, cache_size: int = 1) -> Any:
        """Return the transform with another cache."""
        return self if self._cache_size == cache_size else PowerTransform(self.exponent, cache_size=cache_size)

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


class SigmoidTransform(Transform):
    """``y = 1 / (1 + exp(-x))``."""

    domain = constraints.real
    codomain = constraints.unit_interval
    bijective = True
    sign = +1  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SigmoidTransform)

    __hash__ = object.__hash__

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


class SoftplusTransform(Transform):
    """``y = log(1 + exp(x))``."""

    domain = constraints.real
    codomain = constraints.positive
    bijective = True
    sign = +1  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftplusTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log(sigmoid(x))."""
        return -softplus(-x)


class TanhTransform(Transform):
    """``y = tanh(x)``, with a Jacobian that stays accurate where tanh saturates."""

    domain = constraints.real
    codomain = constraints.interval(-1.0, 1.0)
    bijective = True
    sign = +1  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TanhTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.tanh()

    def _inverse(self, y: Tensor) -> Tensor:
        return ops.atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log(1 - tanh(x)²) without cancellation."""
        return 2.0 * (math.log(2.0) - x - softplus(-2.0 * x))


class AbsTransform(Transform):
    """``y = |x|``."""

    domain = constraints.real
    codomain = constraints.positive

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AbsTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.abs()

    def _inverse(self, y: Tensor) -> Tensor:
        return y


class AffineTransform(Transform):
    """``y = loc + scale * x``; `event_dim` of the last dimensions make one event."""

    bijective = True

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

    def with_cache(self, cache_size: int = 1) -> Any:
        """Return the transform with another cache."""
        if self._cache_size == cache_size:
            return self
        return AffineTransform(self.loc, self.scale, self.event_dim, cache_size=cache_size)

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
    """Vectors as Cholesky factors of correlation matrices: tanh, then stick breaking of each row's squares."""

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


class SoftmaxTransform(Transform):
    """Unnormalised log-probabilities as points of the simplex; not a bijection, but good for optimisation."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SoftmaxTransform)

    __hash__ = object.__hash__

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


class StickBreakingTransform(Transform):
    """Vectors as points of a simplex of one more dimension: each number breaks off a part of what is left."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StickBreakingTransform)

    __hash__ = object.__hash__

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


class LowerCholeskyTransform(Transform):
    """Matrices as lower triangular ones with a positive diagonal."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LowerCholeskyTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """Matrices as positive definite ones, through their Cholesky factors."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PositiveDefiniteTransform)

    __hash__ = object.__hash__

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(ops.cholesky(y))


class CatTransform(Transform):
    """Transforms of consecutive pieces along one dimension."""

    def __init__(
        self, tseq: Sequence[Any], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("CatTransform takes transforms")
        if cache_size:
            tseq = [t.with_cache(cache_size) for t in tseq]
        super().__init__(cache_size=cache_size)
        self.transforms = list(tseq)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(f"{len(self.transforms)} transforms, but {len(self.lengths)} lengths")
        self.dim = dim

    @lazy_property
    def event_dim(self) -> int:  # type: ignore[override]
        """The most dimensions that an event of a piece has."""
        return max(t.event_dim for t in self.transforms)

    @lazy_property
    def length(self) -> int:
        """The size along the dimension."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Any:
        """Return the transform with another cache."""
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _pieces(self, x: Tensor) -> list[Tensor]:
        if not -x.dim() <= self.dim < x.dim() or x.size(self.dim) != self.length:
            raise AssertionError(f"expected size {self.length} in dimension {self.dim}, got {list(x.shape)}")
        starts = [sum(self.lengths[:i]) for i in range(len(self.lengths))]
        return [x.narrow(self.dim, start, length) for start, length in zip(starts, self.lengths, strict=True)]

    def _call(self, x: Tensor) -> Tensor:
        return ops.cat([t(p) for t, p in zip(self.transforms, self._pieces(x), strict=True)], dim=self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return ops.cat([t.inv(p) for t, p in zip(self.transforms, self._pieces(y), strict=True)], dim=self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the pieces' log-Jacobians, put together or summed."""
        logs: list[Any] = []
        for t, a, b in zip(self.transforms, self._pieces(x), self._pieces(y), strict=True):
            log = t.log_abs_det_jacobian(a, b)
            logs.append(_sum_rightmost(log, self.event_dim - t.event_dim) if t.event_dim < self.event_dim else log)
        dim = (self.dim if self.dim < 0 else self.dim - x.dim()) + self.event_dim
        return ops.cat(logs, dim=dim) if dim < 0 else sum(logs)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether all pieces' transforms are."""
        return all(t.bijective for t in self.transforms)

    @constraints.dependent_property
    def domain(self) -> Any:
        """The pieces' domains."""
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """The pieces' codomains."""
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(Transform):
    """Transforms of the slices along one dimension."""

    def __init__(self, tseq: Sequence[Any], dim: int = 0, cache_size: int = 0) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("StackTransform takes transforms")
        if cache_size:
            tseq = [t.with_cache(cache_size) for t in tseq]
        super().__init__(cache_size=cache_size)
        self.transforms, self.dim = list(tseq), dim

    def with_cache(self, cache_size: int = 1) -> Any:
        """Return the transform with another cache."""
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)

    def _slices(self, x: Tensor) -> list[Tensor]:
        if not -x.dim() <= self.dim < x.dim() or x.size(self.dim) != len(self.transforms):
            raise AssertionError(f"expected size {len(self.transforms)} in dimension {self.dim}, got {list(x.shape)}")
        return [x.select(self.dim, i) for i in range(x.size(self.dim))]

    def _call(self, x: Tensor) -> Tensor:
        return ops.stack([t(s) for s, t in zip(self._slices(x), self.transforms, strict=True)], dim=self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return ops.stack([t.inv(s) for s, t in zip(self._slices(y), self.transforms, strict=True)], dim=self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the slices' log-Jacobians, stacked."""
        slices = zip(self.transforms, self._slices(x), self._slices(y), strict=True)
        return ops.stack([t.log_abs_det_jacobian(a, b) for t, a, b in slices], dim=self.dim)

    @property
    def bijective(self) -> bool:  # type: ignore[override]
        """Whether all slices' transforms are."""
        return all(t.bijective for t in self.transforms)

    @constraints.dependent_property
    def domain(self) -> Any:
        """The slices' domains."""
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Any:
        """The slices' codomains."""
        return constraints.stack([t.codomain for t in self.transforms], self.dim)


class CumulativeDistributionTransform(Transform):
    """The cumulative distribution function of a distribution, as a transform onto the unit interval."""

    bijective = True
    codomain = constraints.unit_interval
    sign = +1  # type: ignore[assignment]

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

    def with_cache(self, cache_size: int = 1) -> Any:
        """Return the transform with another cache."""
        if self._cache_size == cache_size:
            return self
        return CumulativeDistributionTransform(self.distribution, cache_size=cache_size)
