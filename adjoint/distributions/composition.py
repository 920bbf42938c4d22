"""Transforms of random variables, and transforms made of others: in sequence, of blocks, of pieces, of slices."""

from __future__ import annotations

import math
import operator
import weakref
from collections.abc import Sequence
from functools import reduce
from typing import Any

from .._typing import Tensor
from ..core.size import Size
from . import constraints
from .utils import _sum_rightmost, lazy_property, ops

__all__ = [
    "CatTransform", "ComposeTransform", "IndependentTransform", "ReshapeTransform", "StackTransform", "Transform",
    "identity_transform",
]  # fmt: skip


class Transform:
    """An invertible map with a computable Jacobian; it may remember the last value it mapped.

    Subclasses define `_call`, and `_inverse` and `log_abs_det_jacobian` where they can. With ``cache_size=1`` the
    inverse of the last result is the very value that gave it, which is exact and costs nothing.
    """

    bijective = False
    domain: Any
    codomain: Any
    _arguments: tuple[str, ...]  # attributes that `__init__` takes before `cache_size`

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
        for kind in type(self).__mro__:
            if "_arguments" in vars(kind):
                return kind(*(getattr(self, name) for name in self._arguments), cache_size=cache_size)
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
    """Transforms one after the other.

    Parameters
    ----------
    parts : list of Transform
        The transforms, the first one applied first.
    cache_size : int, default 0
        1 remembers the last value and its result, so that inverting is exact and free.

    Examples
    --------
    >>> twice = adjoint.distributions.AffineTransform(0.0, 2.0)
    >>> adjoint.distributions.ComposeTransform([twice, adjoint.distributions.ExpTransform()])(
    ...     adjoint.tensor([0.0, 1.0])
    ... )
    tensor([1.0000, 7.3891])
    """

    _arguments = ("parts",)

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
    """A transform whose Jacobian is summed over some more dimensions.

    Parameters
    ----------
    base_transform : Transform
        The transform.
    reinterpreted_batch_ndims : int
        How many more of the last dimensions make one event.
    cache_size : int, default 0
        1 remembers the last value and its result, so that inverting is exact and free.

    Examples
    --------
    >>> vector = adjoint.distributions.IndependentTransform(adjoint.distributions.ExpTransform(), 1)
    >>> x = adjoint.tensor([1.0, 2.0])
    >>> vector.log_abs_det_jacobian(x, vector(x))
    tensor(3.)
    """

    _arguments = ("base_transform", "reinterpreted_batch_ndims")

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

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
    """Events of one shape as events of another.

    Parameters
    ----------
    in_shape : tuple of int
        Shape of an event.
    out_shape : tuple of int
        Its new shape.
    cache_size : int, default 0
        1 remembers the last value and its result, so that inverting is exact and free.

    Examples
    --------
    >>> adjoint.distributions.ReshapeTransform((2, 3), (6,))(adjoint.zeros(4, 2, 3)).shape
    adjoint.Size([4, 6])
    """

    bijective = True
    _arguments = ("in_shape", "out_shape")

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


class CatTransform(Transform):
    """Transforms of consecutive pieces along one dimension.

    Parameters
    ----------
    tseq : sequence of Transform
        The transforms.
    dim : int, default 0
        Dimension of the pieces.
    lengths : sequence of int, optional
        Their sizes; 1 each by default.
    cache_size : int, default 0
        1 remembers the last value and its result, so that inverting is exact and free.

    Examples
    --------
    >>> parts = [adjoint.distributions.ExpTransform(), adjoint.distributions.AffineTransform(0.0, 2.0)]
    >>> adjoint.distributions.CatTransform(parts, lengths=[1, 2])(adjoint.ones(3))
    tensor([2.7183, 2.0000, 2.0000])
    """

    _arguments = ("transforms", "dim", "lengths")

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
    """Transforms of the slices along one dimension.

    Parameters
    ----------
    tseq : sequence of Transform
        The transforms, one per slice.
    dim : int, default 0
        Dimension of the slices.
    cache_size : int, default 0
        1 remembers the last value and its result, so that inverting is exact and free.

    Examples
    --------
    >>> parts = [adjoint.distributions.ExpTransform(), adjoint.distributions.AffineTransform(0.0, 2.0)]
    >>> adjoint.distributions.StackTransform(parts)(adjoint.ones(2))
    tensor([2.7183, 2.0000])
    """

    _arguments = ("transforms", "dim")

    def __init__(self, tseq: Sequence[Any], dim: int = 0, cache_size: int = 0) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("StackTransform takes transforms")
        if cache_size:
            tseq = [t.with_cache(cache_size) for t in tseq]
        super().__init__(cache_size=cache_size)
        self.transforms, self.dim = list(tseq), dim

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
