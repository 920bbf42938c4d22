"""Parameters that are functions of others: an orthogonal weight, a symmetric one, one of norm 1.

A parametrised tensor becomes a property of the module. Reading it computes it from the originals in
``module.parametrizations.NAME``; assigning to it stores the result of the parametrisation's `right_inverse`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..._typing import Tensor
from ...autograd.grad_mode import no_grad
from ...core.tensor import TensorBase
from ..modules.container import ModuleDict, ModuleList
from ..modules.module import Module
from ..parameter import Parameter

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization", "remove_parametrizations",
    "transfer_parametrizations_and_params", "type_before_parametrizations",
]  # fmt: skip

_cache_enabled = 0
_cache: dict[tuple[int, str], Any] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrised tensor once inside the context, however often it is read."""
    global _cache, _cache_enabled
    _cache_enabled += 1
    try:
        yield
    finally:
        _cache_enabled -= 1
        if not _cache_enabled:
            _cache = {}


def _register_parameter_or_buffer(module: Module, name: str, x: Any) -> None:
    if isinstance(x, Parameter):
        module.register_parameter(name, x)
    else:
        module.register_buffer(name, x)


def _put(dest: Any, src: Any) -> None:
    """Store a value in an original that may have another shape or dtype."""
    if dest.array.shape != src.array.shape or dest.array.dtype != src.array.dtype:
        dest.set_(src)
    else:
        dest.copy_(src)


class ParametrizationList(ModuleList):
    """The originals of one parametrised tensor, and the modules that compute it, in order."""

    original: Any
    unsafe: bool

    def __init__(self, modules: Sequence[Module], original: Any, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with no_grad():
            new: Any = original
            for module in reversed(self):
                if hasattr(module, "right_inverse"):
                    new = _inverted(module, new)
        if not isinstance(new, (TensorBase, Sequence)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        made: Any = new
        self.is_tensor = isinstance(made, TensorBase)
        self.ntensors = 1 if self.is_tensor else len(made)
        if self.is_tensor:
            if original.dtype != made.dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {original.dtype}\nright_inverse(original).dtype: {made.dtype}"
                )
            with no_grad():
                original.set_(made)
            _register_parameter_or_buffer(self, "original", original)
        else:
            self._register_several(original, made)
        if not self.unsafe:
            self._check(original, shape, dtype)

    def _register_several(self, original: Any, news: Sequence[Any]) -> None:
        for i, value in enumerate(news):
            if not isinstance(value, TensorBase):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                    f"Got element {i} of the sequence with type {type(value).__name__}."
                )
            if isinstance(original, Parameter):
                value = Parameter(value, original.requires_grad)
            value.requires_grad_(original.requires_grad)  # type: ignore[attr-defined]
            _register_parameter_or_buffer(self, f"original{i}", value)

    def _check(self, original: Any, shape: Any, dtype: Any) -> None:
        """Raise unless the parametrised tensor has the original's shape and dtype."""
        made = self()
        if not isinstance(made, TensorBase):
            raise ValueError(f"A parametrization must return a tensor. Got {type(made).__name__}.")
        value: Any = made
        if value.dtype != dtype:
            raise ValueError(
                "Registering a parametrization may not change the dtype of the tensor, unless `unsafe` flag is "
                f"enabled.\nunparametrized dtype: {dtype}\nparametrized dtype: {value.dtype}"
            )
        if value.shape != shape:
            raise ValueError(
                "Registering a parametrization may not change the shape of the tensor, unless `unsafe` flag is "
                f"enabled.\nunparametrized shape: {shape}\nparametrized shape: {value.shape}"
            )

    def _originals(self) -> list[Any]:
        return [self.original] if self.is_tensor else [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Any) -> None:
        """Store `value`: take it back through the parametrisations, last first, into the originals."""
        with no_grad():
            for module in reversed(self):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                value = module.right_inverse(value)
            if self.is_tensor:
                if not isinstance(value, TensorBase):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
                if value.dtype != self.original.dtype:  # type: ignore[attr-defined]
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {value.dtype} "  # type: ignore[attr-defined]
                        f"while `original` has dtype {self.original.dtype}"
                    )
                value = [value]
            elif not isinstance(value, Sequence) or len(value) != self.ntensors:
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got {value!r}"
                )
            for original, new in zip(self._originals(), value, strict=True):
                _put(original, new)

    def forward(self) -> Tensor:
        """Return the parametrised tensor."""
        x = self[0](*self._originals())
        for module in list(self)[1:]:
            x = module(x)
        return x


def _inverted(module: Any, value: Any) -> Any:
    try:
        return module.right_inverse(value)
    except NotImplementedError:
        return value


def _inject_new_class(module: Module) -> None:
    """Give the module a new class, on which its parametrised tensors are properties."""
    cls = type(module)

    def default_deepcopy(self: Any, memo: dict[int, Any]) -> Any:
        known = memo.get(id(self))
        if known is not None:
            return known
        replica = self.__new__(self.__class__)
        memo[id(self)] = replica
        replica.__setstate__(copy.deepcopy(Module.__getstate__(self), memo))
        return replica

    def getstate(self: Any) -> Any:
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict(). See:\n"
            "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
            "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
        )

    members: dict[str, Any] = {"__getstate__": getstate}
    if not hasattr(cls, "__deepcopy__"):
        members["__deepcopy__"] = default_deepcopy
    module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), members)


def _inject_property(module: Module, tensor_name: str) -> None:
    def get_parametrized(self: Any) -> Any:
        parametrization = self.parametrizations[tensor_name]
        if not _cache_enabled:
            return parametrization()
        key = (id(self), tensor_name)
        found = _cache.get(key)
        if found is None:
            found = _cache[key] = parametrization()
        return found

    def set_original(self: Any, value: Any) -> None:
        self.parametrizations[tensor_name].right_inverse(value)

    setattr(type(module), tensor_name, property(get_parametrized, set_original))


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Make a parameter or buffer of `module` a function of what it was: ``parametrization(original)``.

    With a `right_inverse`, the parametrisation says how a value is stored. Unless `unsafe`, the result must have
    the original's shape and dtype.

    Examples
    --------
    >>> class Symmetric(adjoint.nn.Module):
    ...     def forward(self, x):
    ...         return x.triu() + x.triu(1).T
    >>> layer = adjoint.nn.Linear(3, 3)
    >>> _ = adjoint.nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    >>> bool((layer.weight == layer.weight.T).all())
    True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        _append(module, tensor_name, parametrization, unsafe)
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        parametrizations = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _inject_new_class(module)
            module.parametrizations = ModuleDict()
        _inject_property(module, tensor_name)
        module.parametrizations[tensor_name] = parametrizations  # type: ignore[index, operator]
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    return module


def _append(module: Any, tensor_name: str, parametrization: Any, unsafe: bool) -> None:
    """Append a parametrisation to those of a tensor."""
    parametrizations = module.parametrizations[tensor_name]
    if not unsafe:
        y = getattr(module, tensor_name)
        x = parametrization(y)
        if not isinstance(x, TensorBase):
            raise ValueError(f"A parametrization must return a tensor. Got {type(x).__name__}.")
        for what in ("dtype", "shape"):
            if getattr(x, what) != getattr(y, what):
                raise ValueError(
                    f"Registering a parametrization may not change the {what} of the tensor, unless the `unsafe` flag "
                    f"is enabled.\nmodule.{tensor_name}.{what}: {getattr(y, what)}\n"
                    f"parametrization(module.{tensor_name}).{what}: {getattr(x, what)}"
                )
        if hasattr(parametrization, "right_inverse"):
            try:
                z = parametrization.right_inverse(x)
            except NotImplementedError:
                z = None
            if z is not None and (not isinstance(z, TensorBase) or z.dtype != x.dtype or z.shape != x.shape):  # type: ignore[attr-defined]
                raise ValueError("right_inverse of a further parametrization must return a tensor like the given one")
    parametrizations.append(parametrization)
    parametrizations.unsafe |= unsafe


def is_parametrized(module: Any, tensor_name: str | None = None) -> bool:
    """Return whether a module, or one tensor of it, has a parametrisation."""
    parametrizations = getattr(module, "parametrizations", None)
    if parametrizations is None or not isinstance(parametrizations, ModuleDict):
        return False
    if tensor_name is None:
        return len(parametrizations) > 0
    return tensor_name in parametrizations


def remove_parametrizations(module: Any, tensor_name: str, leave_parametrized: bool = True) -> Any:
    """Make a tensor a plain one again, with its parametrised value or with its original one."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    parametrizations = module.parametrizations[tensor_name]
    if parametrizations.is_tensor:
        original = parametrizations.original
        if leave_parametrized:
            with no_grad():
                value = getattr(module, tensor_name)
                original.set_(value)
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value.detach()) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _register_parameter_or_buffer(module, tensor_name, original)
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Any) -> type:
    """Return the class that a module had before it was parametrised."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module: Any, to_module: Any, tensor_name: str | None = None) -> Any:
    """Give `to_module` the parametrisations of `from_module`, and the values of those tensors."""
    if not is_parametrized(from_module):
        return to_module
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    if not all(is_parametrized(from_module, name) for name in names):
        raise AssertionError(f"{names} are not all parametrized in from_module")
    for name in names:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
        for parametrization in from_module.parametrizations[name]:
            register_parametrization(to_module, name, parametrization)
        source, target = from_module.parametrizations[name], to_module.parametrizations[name]
        for key in ["original"] if source.is_tensor else [f"original{i}" for i in range(source.ntensors)]:
            with no_grad():
                getattr(target, key).set_(getattr(source, key).clone())
    return to_module
