"""Distributions made of another one: its values transformed, its batch dimensions taken as parts of an event."""

from __future__ import annotations

from typing import Any

from .._typing import Tensor
from ..autograd import no_grad
from ..core.size import Size
from . import constraints
from .distribution import Distribution
from .transforms import ComposeTransform, Transform
from .utils import _sum_rightmost

__all__ = ["Independent", "TransformedDistribution"]


class TransformedDistribution(Distribution):
    """The distribution of ``y = transforms(x)``, where `x` comes from `base_distribution`.

    ``log p(y) = log p(x) - log |det dy/dx|``, for invertible transforms.

    Parameters
    ----------
    base_distribution : Distribution
        The distribution of `x`.
    transforms : Transform or list of Transform
        Applied in order.
    validate_args : bool, optional
        Whether to check values.

    Examples
    --------
    >>> d = adjoint.distributions
    >>> lognormal = d.TransformedDistribution(d.Normal(0.0, 1.0), [d.ExpTransform()])
    >>> lognormal.log_prob(adjoint.tensor(1.0))
    tensor(-0.9189)
    """

    arg_constraints: Any = {}

    def __init__(self, base_distribution: Any, transforms: Any, validate_args: bool | None = None) -> None:
        self.transforms = _as_list(transforms)
        shape = base_distribution.batch_shape + base_distribution.event_shape
        whole = ComposeTransform(self.transforms)
        if len(shape) < whole.domain.event_dim:
            raise ValueError(
                f"base_distribution needs to have shape with size at least {whole.domain.event_dim}, but got {shape}."
            )
        after = whole.forward_shape(shape)
        before = whole.inverse_shape(after)
        base_events = len(base_distribution.event_shape)
        if shape != before:
            base_distribution = base_distribution.expand(before[: len(before) - base_events])
        missing = whole.domain.event_dim - base_events
        if missing > 0:
            base_distribution = Independent(base_distribution, missing)
        self.base_dist: Any = base_distribution
        change = whole.codomain.event_dim - whole.domain.event_dim
        cut = len(after) - max(whole.codomain.event_dim, len(base_distribution.event_shape) + change)
        super().__init__(after[:cut], after[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return the distribution with its base and its own parameters expanded."""
        new = self._get_checked_instance(self._built_in(), _instance)
        new.transforms = self.transforms
        self._expand_parameters(new, Size(batch_shape))
        shape = Size(batch_shape) + self.event_shape
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        new.base_dist = self.base_dist.expand(shape[: len(shape) - len(self.base_dist.event_shape)])
        return self._finish(new, batch_shape, self.event_shape)

    @constraints.dependent_property(is_discrete=False)
    def support(self) -> Any:  # type: ignore[override]
        """The codomain of the last transform, of whole events."""
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self.event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether the base has."""
        return bool(self.base_dist.has_rsample)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Return transformed samples of the base, without a gradient."""
        with no_grad():
            return self._mapped(self.base_dist.sample(sample_shape))

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return transformed, reparameterized samples of the base, with gradients for all parameters."""
        return self._mapped(self.base_dist.rsample(sample_shape))

    def _mapped(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the base's log-density at the inverse image, less the logarithm of the Jacobian."""
        self._check(value)
        total: Any = 0.0
        dims, y = len(self.event_shape), value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            dims += transform.domain.event_dim - transform.codomain.event_dim
            total = total - _sum_rightmost(transform.log_abs_det_jacobian(x, y), dims - transform.domain.event_dim)
            y = x
        return total + _sum_rightmost(self.base_dist.log_prob(y), dims - len(self.base_dist.event_shape))

    def _monotonize_cdf(self, value: Tensor) -> Tensor:
        """Turn a probability around where the transforms are decreasing."""
        sign = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        if isinstance(sign, int) and sign == 1:
            return value
        return sign * (value - 0.5) + 0.5

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of at most `value`, for monotone transforms."""
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        if self._validate_args:
            self.base_dist._validate_sample(value)
        return self._monotonize_cdf(self.base_dist.cdf(value))

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile of the probability `value`, for monotone transforms."""
        return self._mapped(self.base_dist.icdf(self._monotonize_cdf(value)))


def _as_list(transforms: Any) -> list[Transform]:
    if isinstance(transforms, Transform):
        return [transforms]
    if not isinstance(transforms, list):
        raise ValueError(f"transforms must be a Transform or list, but was {transforms}")
    if not all(isinstance(t, Transform) for t in transforms):
        raise ValueError("transforms must be a Transform or a list of Transforms")
    return transforms


class Independent(Distribution):
    """A distribution whose last batch dimensions are part of the event, so that their log-probabilities are summed.

    Parameters
    ----------
    base_distribution : Distribution
        A batch of distributions.
    reinterpreted_batch_ndims : int
        How many batch dimensions, counted from the last, become event dimensions.
    validate_args : bool, optional
        Whether to check values.

    Raises
    ------
    ValueError
        If the base has fewer batch dimensions.

    Examples
    --------
    >>> normals = adjoint.distributions.Normal(adjoint.zeros(3), 1.0)
    >>> normals.log_prob(adjoint.zeros(3))
    tensor([-0.9189, -0.9189, -0.9189])
    >>> vector = adjoint.distributions.Independent(normals, 1)
    >>> vector.log_prob(adjoint.zeros(3))
    tensor(-2.7568)
    >>> vector.batch_shape, vector.event_shape
    (adjoint.Size([]), adjoint.Size([3]))
    """

    arg_constraints: Any = {}

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        if reinterpreted_batch_ndims > len(base_distribution.batch_shape):
            raise ValueError(
                "Expected reinterpreted_batch_ndims <= len(base_distribution.batch_shape), "
                f"actual {reinterpreted_batch_ndims} vs {len(base_distribution.batch_shape)}"
            )
        shape = base_distribution.batch_shape + base_distribution.event_shape
        cut = len(base_distribution.batch_shape) - reinterpreted_batch_ndims
        self.base_dist: Any = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        super().__init__(shape[:cut], shape[cut:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return the distribution with its parameters expanded."""
        new = self._get_checked_instance(Independent, _instance)
        batch_shape = Size(batch_shape)
        new.base_dist = self.base_dist.expand(batch_shape + self.event_shape[: self.reinterpreted_batch_ndims])
        new.reinterpreted_batch_ndims = self.reinterpreted_batch_ndims
        return self._finish(new, batch_shape, self.event_shape)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        """Whether the base has."""
        return bool(self.base_dist.has_rsample)

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        """Whether the base has, and nothing was reinterpreted."""
        return self.reinterpreted_batch_ndims == 0 and bool(self.base_dist.has_enumerate_support)

    @constraints.dependent_property
    def support(self) -> Any:  # type: ignore[override]
        """The base's support, of blocks."""
        base = self.base_dist.support
        return constraints.independent(base, self.reinterpreted_batch_ndims) if self.reinterpreted_batch_ndims else base

    @property
    def mean(self) -> Tensor:
        """The base's mean."""
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        """The base's mode."""
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        """The base's variance."""
        return self.base_dist.variance

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Return samples of the base."""
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return reparameterized samples of the base, with gradients for its parameters."""
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the base's log-probabilities, summed over the event."""
        return _sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        """Return the base's entropies, summed over the event."""
        return _sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return the base's values, if nothing was reinterpreted."""
        if self.reinterpreted_batch_ndims > 0:
            raise NotImplementedError("Enumeration over cartesian product is not implemented")
        return self.base_dist.enumerate_support(expand=expand)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_dist}, {self.reinterpreted_batch_ndims})"
