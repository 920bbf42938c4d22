"""The class of all distributions, shapes, validation, refused methods; and that of exponential families."""

from __future__ import annotations

import warnings
from typing import Any

from .._typing import Tensor
from ..autograd import enable_grad, grad, no_grad
from ..core.size import Size
from ..core.tensor import TensorBase
from ..func import debug_unwrap
from . import constraints
from .utils import lazy_property

__all__ = ["Distribution", "ExponentialFamily"]


def _undefined(doc: str) -> Any:
    """Return a property that subclasses are to define."""

    def refuse(self: Any) -> Any:
        raise NotImplementedError

    return property(refuse, doc=doc)


def _everywhere(holds: Tensor) -> bool:
    """Return whether a condition holds everywhere, inside `vmap` in the whole batch."""
    return bool(debug_unwrap(holds).all())


class Distribution:
    """A probability distribution, or a batch of them: the base class.

    A sample has the shape ``sample_shape + batch_shape + event_shape``: so many samples, of so many distributions that
    differ in their parameters, each of an event of this shape. A subclass defines `arg_constraints`, `support`,
    `log_prob` and `sample` or `rsample`; the gradients of `rsample` reach the parameters.

    Parameters
    ----------
    batch_shape : Size, default ()
        The shape of the batch.
    event_shape : Size, default ()
        The shape of one event: ``()`` for numbers, ``(n,)`` for vectors.
    validate_args : bool, optional
        Whether to check parameters against `arg_constraints` and values against `support`; True unless Python runs with
        ``-O``, or as `set_default_validate_args` says.

    Raises
    ------
    ValueError
        When a parameter, or a value given to `log_prob`, violates its constraint.

    Examples
    --------
    >>> normals = adjoint.distributions.Normal(adjoint.tensor([0.0, 10.0]), 1.0)
    >>> normals.batch_shape, normals.event_shape
    (adjoint.Size([2]), adjoint.Size([]))
    >>> normals.sample((3,)).shape
    adjoint.Size([3, 2])
    >>> class Constant(adjoint.distributions.Distribution):
    ...     arg_constraints = {"at": adjoint.distributions.constraints.real}
    ...     support = adjoint.distributions.constraints.real
    ...
    ...     def __init__(self, at):
    ...         self.at = at
    ...         super().__init__(at.shape)
    ...
    ...     def rsample(self, sample_shape=()):
    ...         return self.at.expand(self._extended_shape(sample_shape))
    >>> Constant(adjoint.tensor(2.0)).sample((2,))
    tensor([2., 2.])
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args: bool = __debug__
    _expanded: tuple[str, ...] = ()  # attributes that `expand` expands beside the parameters: tensors, distributions
    _copied: tuple[str, ...] = ()  # attributes that do not depend on the shape of the batch
    arg_constraints: Any = _undefined("The constraint of each parameter, by name.")
    support: Any = _undefined("The constraint that values satisfy.")

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Say whether distributions check parameters and values from now on."""
        if value not in (True, False):
            raise ValueError(f"validation is switched with True or False, not {value!r}")
        Distribution._validate_args = value

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    def _check_parameters(self) -> None:
        try:
            limits = self.arg_constraints
        except NotImplementedError:
            limits = {}
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize "
                "the distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
        for name, constraint in limits.items():
            if constraints.is_dependent(constraint):
                continue  # what it depends on is not known yet
            if name not in self.__dict__ and isinstance(getattr(type(self), name), lazy_property):
                continue  # computed from parameters that are checked
            value = getattr(self, name)
            if not _everywhere(constraint.check(value)):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        """Return the distribution with its parameters expanded to `batch_shape`, without copying them."""
        built_in = self._built_in()
        if built_in in (Distribution, ExponentialFamily):  # of a class of the program's own
            new = type(self).__new__(type(self)) if _instance is None else _instance
        else:
            new = self._get_checked_instance(built_in, _instance)
        batch_shape = Size(batch_shape)
        self._expand_parameters(new, batch_shape)
        return self._finish(new, batch_shape, self._event_shape)

    def _expand_parameters(self, new: Any, batch_shape: Size) -> None:
        for name, constraint in self.arg_constraints.items():
            if name in self.__dict__:
                value = self.__dict__[name]
                own = value.shape[value.dim() - constraint.event_dim :]
                new.__dict__[name] = value.expand(batch_shape + own)
        for name in self._expanded:
            setattr(new, name, getattr(self, name).expand(batch_shape))
        for name in self._copied:
            setattr(new, name, getattr(self, name))

    def _finish(self, new: Any, batch_shape: Any, event_shape: Any) -> Any:
        """Give the expanded distribution its shapes; its parameters were checked before."""
        Distribution.__init__(new, batch_shape, event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """Return a distribution of the same class, to be filled by an `expand`."""
        if _instance is None and type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also "
                "define a custom .expand() method."
            )
        return self.__new__(type(self)) if _instance is None else _instance

    def _built_in(self) -> type:
        """Return the nearest of adjoint's own classes, whose `__init__` an `expand` of ours knows."""
        return next(kind for kind in type(self).__mro__ if kind.__module__.startswith("adjoint.distributions."))

    @property
    def batch_shape(self) -> Size:
        """The shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one event."""
        return self._event_shape

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        """The value of the greatest probability or density."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Return samples, without a gradient."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Return reparameterized samples, with gradients for the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """Return `n` samples; deprecated, use ``sample((n,))``."""
        warnings.warn(
            "`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", stacklevel=2, category=FutureWarning
        )
        return self.sample(Size((n,)))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the probability or density at `value`."""
        raise NotImplementedError

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of at most `value`."""
        raise NotImplementedError

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile of the probability `value`: the inverse of `cdf`."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all values of a discrete distribution along the first dimension."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """Return the entropy."""
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """Return the exponential of the entropy."""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        return Size(tuple(sample_shape)) + self._batch_shape + self._event_shape

    def _check(self, value: Any) -> None:
        """Raise unless `value` is one that the distribution can take, if values are validated."""
        if self._validate_args:
            self._validate_sample(value)

    def _validate_sample(self, value: Any) -> None:
        """Raise unless `value` is a tensor that fits the shapes and is in the support."""
        if not isinstance(value, TensorBase):
            raise ValueError("The value argument to log_prob must be a Tensor")
        tensor: Any = value
        event = len(self._event_shape)
        if tensor.shape[tensor.dim() - event :] != self._event_shape:
            raise ValueError(
                f"The right-most size of value must match event_shape: {Size(tensor.shape)} vs {self._event_shape}."
            )
        expected = self._batch_shape + self._event_shape
        for mine, given in zip(reversed(expected), reversed(tensor.shape), strict=False):
            if mine != 1 and given != 1 and mine != given:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {Size(tensor.shape)} vs {expected}."
                )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `support` to enable sample validation. Please initialize the "
                "distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        if not _everywhere(support.check(tensor)):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(tensor.shape)}) to be within the "
                f"support ({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def __repr__(self) -> str:
        try:
            names = [name for name in self.arg_constraints if name in self.__dict__]
        except NotImplementedError:
            names = []
        shown = ((name, self.__dict__[name]) for name in names)
        return f"{type(self).__name__}({', '.join(f'{n}: {v if v.numel() == 1 else v.size()}' for n, v in shown)})"


class ExponentialFamily(Distribution):
    """A distribution of the density ``exp(<t(x), natural> - log_normalizer(natural) + carrier(x))``."""

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> Any:
        raise NotImplementedError

    def entropy(self) -> Tensor:
        """Return the entropy: the log-normaliser less the natural parameters times its gradient."""
        result, natural, gradients = self._normalizer_with_gradients()
        result = result - self._mean_carrier_measure
        for parameter, g in zip(natural, gradients, strict=True):
            result = result - (parameter * g).reshape(self._batch_shape + (-1,)).sum(-1)
        return result

    def _normalizer_with_gradients(self) -> tuple[Tensor, list[Tensor], tuple[Tensor, ...]]:
        """Return the log-normaliser, the natural parameters, and its gradient in them (the mean of t)."""
        natural = [p.detach().requires_grad_() for p in self._natural_params]
        with enable_grad():
            normalizer = self._log_normalizer(*natural)
            gradients = grad(normalizer.sum(), natural, create_graph=True)
        return normalizer, natural, gradients
