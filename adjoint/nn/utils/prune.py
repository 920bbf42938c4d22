"""Pruning: masks over parameters, by magnitude, at random, or by a custom rule; they can be combined."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from ..._typing import Tensor
from ...ops.create_like import ones_like, zeros_like
from ...ops.random import rand, rand_like
from ...ops.sorting import topk
from .conversion import parameters_to_vector

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "PruningContainer",
    "RandomStructured", "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned",
    "l1_unstructured", "ln_structured", "random_structured", "random_unstructured", "remove",
]  # fmt: skip


class BasePruningMethod(ABC):
    """A way to choose what is pruned: subclasses define `compute_mask` and `PRUNING_TYPE`."""

    _tensor_name: str
    PRUNING_TYPE = "unstructured"

    def __call__(self, module: Any, inputs: Any) -> None:
        """Multiply the parameter by its mask before the module runs."""
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask for a tensor that `default_mask` has pruned before."""

    def apply_mask(self, module: Any) -> Tensor:
        """Return the module's original parameter, masked."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        mask, original = getattr(module, self._tensor_name + "_mask"), getattr(module, self._tensor_name + "_orig")
        return mask.to(dtype=original.dtype) * original

    @classmethod
    def apply(cls, module: Any, name: str, *args: Any, importance_scores: Any = None, **kwargs: Any) -> Any:
        """Prune a parameter of a module: it becomes the original times a mask, both stored in the module."""
        before = [
            (k, hook)
            for k, hook in module._forward_pre_hooks.items()
            if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
        ]
        if len(before) > 1:
            raise AssertionError("Avoid adding multiple pruning hooks to the same tensor; use a container instead")
        method: Any = cls(*args, **kwargs)
        method._tensor_name = name
        if before:
            k, old = before[0]
            del module._forward_pre_hooks[k]
            method = _contained(old, method, name)
        original = getattr(module, name)
        if importance_scores is not None:
            if importance_scores.shape != original.shape:
                raise AssertionError(f"importance_scores should have the same shape as parameter {name} of {module}")
        else:
            importance_scores = original
        if not isinstance(method, PruningContainer):
            module.register_parameter(name + "_orig", original)
            del module._parameters[name]
            default = ones_like(original)
        else:
            default = getattr(module, name + "_mask").detach().clone()
        try:
            mask = method.compute_mask(importance_scores, default_mask=default)
            module.register_buffer(name + "_mask", mask)
            setattr(module, name, method.apply_mask(module))
            module.register_forward_pre_hook(method)
        except Exception as error:
            if not isinstance(method, PruningContainer):
                original = getattr(module, name + "_orig")
                module.register_parameter(name, original)
                del module._parameters[name + "_orig"]
            raise error
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """Return a tensor pruned by this method, without a module."""
        if importance_scores is not None and importance_scores.shape != t.shape:
            raise AssertionError("importance_scores should have the same shape as tensor t")
        scores = t if importance_scores is None else importance_scores
        return t * self.compute_mask(scores, ones_like(t) if default_mask is None else default_mask)

    def remove(self, module: Any) -> None:
        """Make the pruned values the parameter, and remove original and mask."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        weight = self.apply_mask(module)
        if hasattr(module, self._tensor_name):
            delattr(module, self._tensor_name)
        original = module._parameters[self._tensor_name + "_orig"]
        original.data = weight.data
        del module._parameters[self._tensor_name + "_orig"]
        del module._buffers[self._tensor_name + "_mask"]
        setattr(module, self._tensor_name, original)


def _contained(old: Any, method: Any, name: str) -> PruningContainer:
    """Return a container of the method that a parameter has and of the one it gets."""
    if isinstance(old, PruningContainer):
        old.add_pruning_method(method)
        return old
    container = PruningContainer(old)
    container.add_pruning_method(method)
    container._tensor_name = name
    return container


class PruningContainer(BasePruningMethod):
    """Pruning methods of one parameter, one after the other: each sees what the last one left."""

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[Any, ...] = ()
        if len(args) == 1 and not isinstance(args[0], Iterable):
            self._tensor_name = args[0]._tensor_name
            self.add_pruning_method(args[0])
        elif args:
            methods = args[0] if len(args) == 1 else args
            methods = tuple(methods)
            self._tensor_name = methods[0]._tensor_name
            for method in methods:
                self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Append another method."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                "Can only add pruning methods acting on the parameter named "
                f"'{self._tensor_name}' to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Any:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask after the last method, which chooses among what is left."""
        method, mask = self._pruning_methods[-1], default_mask.to(dtype=t.dtype)
        if method.PRUNING_TYPE == "unstructured":
            left: Any = mask == 1
        elif method.PRUNING_TYPE == "structured":
            axes = [d for d in range(t.dim()) if d != method.dim % t.dim()]
            kept = mask.sum(dim=axes) != 0
            left = tuple(kept if d == method.dim % t.dim() else slice(None) for d in range(t.dim()))
        elif method.PRUNING_TYPE == "global":
            left = tuple(slice(None) for _ in range(t.dim()))
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        new = mask.clone()
        new[left] = method.compute_mask(t[left], default_mask=mask[left]).to(mask.dtype)
        return new


class Identity(BasePruningMethod):
    """Prune nothing, but make the mask."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask as it is."""
        return default_mask

    @classmethod
    def apply(cls, module: Any, name: str) -> Any:  # type: ignore[override]
        """Give a parameter a mask of ones."""
        return super().apply(module, name)


class _Unstructured(BasePruningMethod):
    """Prunes a fraction or a number of the entries: those that `_chosen` selects."""

    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: Any) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def _chosen(self, t: Tensor, count: int) -> Tensor:
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask with the chosen entries zeroed."""
        count = _count_to_prune(self.amount, t.nelement())
        mask = default_mask.clone()
        if count:
            mask.view(-1)[self._chosen(t, count)] = 0
        return mask


class RandomUnstructured(_Unstructured):
    """Prune a fraction or a number of entries at random."""

    def _chosen(self, t: Tensor, count: int) -> Tensor:
        return topk(rand_like(t).view(-1), k=count).indices

    @classmethod
    def apply(cls, module: Any, name: str, amount: Any) -> Any:  # type: ignore[override]
        """Prune a parameter."""
        return super().apply(module, name, amount=amount)


class L1Unstructured(_Unstructured):
    """Prune the entries of the least absolute value."""

    def _chosen(self, t: Tensor, count: int) -> Tensor:
        return topk(t.abs().reshape(-1), k=count, largest=False).indices

    @classmethod
    def apply(cls, module: Any, name: str, amount: Any, importance_scores: Any = None) -> Any:  # type: ignore[override]
        """Prune a parameter."""
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class RandomStructured(BasePruningMethod):
    """Prune whole slices along a dimension, at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: Any, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount, self.dim = amount, dim

    def _scores(self, t: Tensor) -> Tensor:
        return rand(t.shape[self.dim])

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the mask with whole slices zeroed: those of the least score."""
        _validate_structured_pruning(t)
        _validate_pruning_dim(t, self.dim)
        size = t.shape[self.dim]
        count = _count_to_prune(self.amount, size)
        if not count:
            return default_mask
        chosen = topk(self._scores(t), k=size - count, largest=True).indices
        mask = zeros_like(t)
        mask[tuple(chosen if d == self.dim % t.dim() else slice(None) for d in range(t.dim()))] = 1
        return mask * default_mask.to(dtype=mask.dtype)

    @classmethod
    def apply(cls, module: Any, name: str, amount: Any, dim: int = -1) -> Any:  # type: ignore[override]
        """Prune a parameter."""
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(RandomStructured):
    """Prune whole slices along a dimension: those of the least `n`-norm."""

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _scores(self, t: Tensor) -> Tensor:
        axes = [d for d in range(t.dim()) if d != self.dim % t.dim()]
        return t.norm(p=self.n, dim=axes)

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Any, name: str, amount: Any, n: Any, dim: int, importance_scores: Any = None
    ) -> Any:
        """Prune a parameter."""
        return BasePruningMethod.apply.__func__(  # type: ignore[attr-defined]
            cls, module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores
        )


class CustomFromMask(BasePruningMethod):
    """Prune by a custom mask."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Return the product of both masks."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(f"a mask of shape {list(self.mask.shape)} for one of {list(default_mask.shape)}")
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module: Any, name: str, mask: Tensor) -> Any:  # type: ignore[override]
        """Prune a parameter."""
        return super().apply(module, name, mask=mask)


def identity(module: Any, name: str) -> Any:
    """Give a parameter a mask of ones, and return the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Any, name: str, amount: Any) -> Any:
    """Prune entries of a parameter at random, and return the module.

    Examples
    --------
    >>> layer = adjoint.nn.utils.prune.random_unstructured(adjoint.nn.Linear(2, 3), "weight", amount=1)
    >>> int((layer.weight_mask == 0).sum())
    1
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Any, name: str, amount: Any, importance_scores: Any = None) -> Any:
    """Prune the least entries of a parameter, and return the module."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Any, name: str, amount: Any, dim: int) -> Any:
    """Prune slices of a parameter at random, and return the module."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module: Any, name: str, amount: Any, n: Any, dim: int, importance_scores: Any = None) -> Any:
    """Prune the slices of a parameter of the least norm, and return the module."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def global_unstructured(
    parameters: Any, pruning_method: Any, importance_scores: dict[Any, Any] | None = None, **kwargs: Any
) -> None:
    """Prune several parameters together: `parameters` are pairs of a module and a name."""
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    parameters = list(parameters)
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    values = parameters_to_vector([scores.get((m, n), getattr(m, n)) for m, n in parameters])
    masks = parameters_to_vector([getattr(m, n + "_mask", ones_like(getattr(m, n))) for m, n in parameters])
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    container.add_pruning_method(method)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(f'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found {pruning_method}')
    final, start = container.compute_mask(values, masks), 0
    for module, name in parameters:
        count = getattr(module, name).numel()
        custom_from_mask(module, name, final[start : start + count].view_as(getattr(module, name)))
        start += count


def custom_from_mask(module: Any, name: str, mask: Tensor) -> Any:
    """Prune a parameter by a custom mask, and return the module."""
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module: Any, name: str) -> Any:
    """Make the pruned values of a parameter permanent, and return the module."""
    for k, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[k]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Any) -> bool:
    """Return whether a module, or one inside it, is pruned."""
    hooks = (h for _, part in module.named_modules() for h in part._forward_pre_hooks.values())
    return any(isinstance(h, BasePruningMethod) for h in hooks)


def _validate_pruning_amount_init(amount: Any) -> None:
    if not isinstance(amount, numbers.Real):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    value: Any = amount
    whole = isinstance(value, numbers.Integral)
    if (whole and int(value) < 0) or (not whole and not 0.0 <= float(value) <= 1.0):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _count_to_prune(amount: Any, size: int) -> int:
    """Return how many of `size` to prune: `amount` is a number or a fraction."""
    if not isinstance(amount, numbers.Integral):
        return round(amount * size)
    if int(amount) > size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={size}")
    return int(amount)


def _validate_structured_pruning(t: Tensor) -> None:
    if len(t.shape) <= 1:
        raise ValueError(
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
            f"{t.shape} with {len(t.shape)} dims"
        )


def _validate_pruning_dim(t: Tensor, dim: int) -> None:
    if dim >= t.dim():
        raise IndexError(f"Invalid index {dim} for tensor of size {t.shape}")
